/*
 * Images of kernels: the object that holds them, the cache, and what NVRTC
 * makes where it is there: the same on any number of threads, cached or not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>

#include "codegen/link/compile_cache.h"
#include "codegen/nvrtc/images.h"
#include "ir/ir.h"
#include "runtime/abi.h"

#define NSOURCES 5

struct test {
	struct ir_ctx ctx;
	struct arena *a;
	char folder[32];	/* of the cache */
};

static void
begin(struct test *t)
{
	ir_ctx_init(&t->ctx, NULL);
	t->a = &t->ctx.perm;
	strcpy(t->folder, "t-images-XXXXXX");
	assert_non_null(mkdtemp(t->folder));
	setenv("LLMC_CACHE", t->folder, 1);
	unsetenv("LLMC_CACHE_BYTES");
	unsetenv("LLMC_NVRTC");
}

static void
end(struct test *t)
{
	char *command = arena_printf(t->a, "rm -rf ./%s", t->folder);

	assert_int_equal(system(command), 0);
	ir_ctx_release(&t->ctx);
}

/* ---- hashes ---- */

/* As published for FNV-1a of 128 bits. */
static void
hashes_are_fnv(void **state)
{
	struct rt_hash h;

	(void)state;
	rt_hash_init(&h);
	rt_hash_add(&h, "a", 1);
	assert_true(h.hi == 0xd228cb696f1a8cafu);
	assert_true(h.lo == 0x78912b704e4a8964u);
	rt_hash_init(&h);
	rt_hash_add(&h, "foobar", 6);
	assert_true(h.hi == 0x343e1662793c64bfu);
	assert_true(h.lo == 0x6f0d3597ba446f18u);
}

/* ---- the object ---- */

static const struct cg_source texts[] = {
	{ "prelude.h", "#define KERNEL(name) extern \"C\" __global__ void "
	  "name\n#include \"more.h\"\n" },
	{ "more.h", "#define THREE 3.0f\n" }
};

static const struct rt_images *
loaded(struct test *t, const struct cg_images *x, void **lib)
{
	const char *cc = getenv("CC");
	char *path = arena_printf(t->a, "%s/images.o", t->folder);
	struct buf b;
	FILE *f = fopen(path, "wb");

	buf_init(&b, t->a);
	cg_images_object(x, "llmc_images", &b);
	assert_non_null(f);
	assert_true(fwrite(b.at, 1, b.n, f) == b.n);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(system(arena_printf(t->a, "%s -shared -o %s.so %s "
		"-Wl,--fatal-warnings", cc ? cc : "cc", path, path)), 0);
	*lib = dlopen(arena_printf(t->a, "./%s.so", path), RTLD_NOW);
	if (!*lib) {
		fail_msg("%s", dlerror());
	}
	return dlsym(*lib, "llmc_images");
}

static void
same_images(const struct rt_images *r, const struct cg_images *x)
{
	int64_t i;

	assert_int_equal(r->n, x->make.nsources);
	assert_int_equal(r->ntexts, x->make.ntexts);
	for (i = 0; i < r->ntexts; i++) {
		assert_string_equal(r->texts[i].name, x->make.texts[i].name);
		assert_string_equal(r->texts[i].text, x->make.texts[i].text);
	}
	for (i = 0; i < r->n; i++) {
		const struct rt_image *m = &r->at[i];

		assert_string_equal(m->name, x->make.sources[i].name);
		assert_string_equal(m->source, x->make.sources[i].text);
		if (!x->at) {
			assert_null(m->cubin);
			assert_int_equal(m->cubin_bytes, 0);
			assert_null(m->ptx);
			continue;
		}
		assert_int_equal(m->cubin_bytes, x->at[i].cubin_bytes);
		assert_memory_equal(m->cubin, x->at[i].cubin,
				    (size_t)m->cubin_bytes);
		assert_int_equal((uintptr_t)m->cubin % 16, 0);
		if (x->at[i].ptx) {
			assert_string_equal(m->ptx, x->at[i].ptx);
		} else {
			assert_null(m->ptx);
		}
	}
}

static void
object_holds_images(void **state)
{
	static const struct cg_source sources[] = {
		{ "dot1", "first" }, { "nest2", "" }, { "services", "third" }
	};
	struct cg_image at[] = {
		{ .cubin = "\177ELF\0\1", .cubin_bytes = 6 },
		{ .cubin = "", .cubin_bytes = 0, .ptx = ".version 8.0" },
		{ .cubin = "0123456789abcdefg", .cubin_bytes = 17 }
	};
	struct cg_images x = {
		.make = { .sources = sources, .nsources = 3, .texts = texts,
			  .ntexts = 2, .arch = "sm_90a" },
		.at = at, .made_by = "NVRTC 13.0, sm_90a"
	};
	const struct rt_images *r;
	struct test t;
	void *lib;

	(void)state;
	begin(&t);
	r = loaded(&t, &x, &lib);
	same_images(r, &x);
	assert_string_equal(r->made_by, "NVRTC 13.0, sm_90a");
	dlclose(lib);
	x.at = NULL;
	x.made_by = NULL;
	r = loaded(&t, &x, &lib);
	same_images(r, &x);
	assert_null(r->made_by);
	dlclose(lib);
	end(&t);
}

/* ---- the cache ---- */

static struct rt_hash
key_of(const char *text)
{
	struct rt_hash h;

	rt_hash_init(&h);
	rt_hash_text(&h, text);
	return h;
}

static const char *
entry(struct test *t, struct rt_hash key)
{
	return arena_printf(t->a, "%s/%016llx%016llx.image", t->folder,
			    (unsigned long long)key.hi,
			    (unsigned long long)key.lo);
}

static void
put(struct test *t, const char *name, size_t bytes)
{
	char *cubin = arena_alloc(t->a, bytes + 1);
	struct cg_part x[CG_PARTS] = { { cubin, bytes }, { "ptx", 3 },
				       { "log\n", 4 } };
	struct cg_cache c;

	memset(cubin, name[0], bytes);
	cg_cache_open(&c, t->a);
	cg_cache_put(&c, key_of(name), x);
}

static bool
get(struct test *t, const char *name, size_t bytes)
{
	struct cg_part x[CG_PARTS];
	struct cg_cache c;
	size_t i;

	cg_cache_open(&c, t->a);
	if (!cg_cache_get(&c, key_of(name), t->a, x)) {
		return false;
	}
	assert_int_equal(x[0].n, bytes);
	for (i = 0; i < bytes; i++) {
		assert_int_equal(x[0].at[i], name[0]);
	}
	assert_int_equal(x[1].n, 3);
	assert_string_equal(x[1].at, "ptx");
	assert_int_equal(x[2].n, 4);
	assert_string_equal(x[2].at, "log\n");
	return true;
}

static void
broken_entries_are_none(void **state)
{
	struct test t;
	struct stat st;
	const char *path;
	FILE *f;
	long i;

	(void)state;
	begin(&t);
	assert_false(get(&t, "a", 100));
	put(&t, "a", 100);
	assert_true(get(&t, "a", 100));
	assert_false(get(&t, "b", 100));
	path = entry(&t, key_of("a"));
	assert_int_equal(stat(path, &st), 0);
	for (i = 0; i < st.st_size; i++) {	/* a bit of each byte */
		f = fopen(path, "r+b");
		fseek(f, i, SEEK_SET);
		int c = getc(f);

		fseek(f, i, SEEK_SET);
		putc(c ^ 4, f);
		fclose(f);
		assert_false(get(&t, "a", 100));
		put(&t, "a", 100);
	}
	for (i = st.st_size - 1; i >= 0; i -= 1 + i / 8) {
		assert_int_equal(truncate(path, i), 0);
		assert_false(get(&t, "a", 100));
	}
	put(&t, "a", 100);
	assert_true(get(&t, "a", 100));
	assert_int_equal(rename(path, entry(&t, key_of("b"))), 0);
	assert_false(get(&t, "b", 100));
	end(&t);
}

static void
age(struct test *t, const char *path, long seconds)
{
	struct timespec at[2];

	(void)t;
	clock_gettime(CLOCK_REALTIME, &at[0]);
	at[0].tv_sec -= seconds;
	at[1] = at[0];
	assert_int_equal(utimensat(AT_FDCWD, path, at, 0), 0);
}

static void
oldest_entries_go(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	const char *mine, *half, *fresh;
	struct cg_cache c;
	struct test t;
	uint32_t i;

	(void)state;
	begin(&t);
	mine = arena_printf(t.a, "%s/notes.image", t.folder);
	half = arena_printf(t.a, "%s.abcdef", entry(&t, key_of("e")));
	fresh = arena_printf(t.a, "%s.ghijkl", entry(&t, key_of("e")));
	fclose(fopen(mine, "wb"));
	fclose(fopen(half, "wb"));
	fclose(fopen(fresh, "wb"));
	age(&t, mine, 100000);
	age(&t, half, 100000);
	for (i = 0; i < 4; i++) {
		put(&t, names[i], 10000);
		age(&t, entry(&t, key_of(names[i])), 1000 - 100 * i);
	}
	assert_true(get(&t, "a", 10000));	/* used just now */
	setenv("LLMC_CACHE_BYTES", "25000", 1);
	cg_cache_open(&c, t.a);
	cg_cache_trim(&c);
	assert_true(get(&t, "a", 10000));
	assert_false(get(&t, "b", 10000));
	assert_false(get(&t, "c", 10000));
	assert_true(get(&t, "d", 10000));
	assert_int_equal(access(mine, F_OK), 0);
	assert_int_not_equal(access(half, F_OK), 0);
	assert_int_equal(access(fresh, F_OK), 0);
	end(&t);
}

/* What cannot be a folder is no cache, and no error. */
static void
no_folder_is_no_cache(void **state)
{
	struct test t;
	char *path;

	(void)state;
	begin(&t);
	path = arena_printf(t.a, "%s/file", t.folder);
	fclose(fopen(path, "wb"));
	setenv("LLMC_CACHE", path, 1);
	put(&t, "a", 10);
	assert_false(get(&t, "a", 10));
	setenv("LLMC_CACHE", arena_printf(t.a, "%s/new/deep/", t.folder), 1);
	put(&t, "a", 10);
	assert_true(get(&t, "a", 10));
	end(&t);
}

/* ---- NVRTC ---- */

static void
sources_for(struct test *t, struct cg_source *out)
{
	uint32_t i;

	for (i = 0; i < NSOURCES; i++) {
		out[i].name = arena_printf(t->a, "nest%u", i);
		out[i].text = arena_printf(t->a, "#include \"prelude.h\"\n"
			"KERNEL(z%u)(float *x)\n{\n\tx[threadIdx.x] = THREE * "
			"%u;\n}\nKERNEL(a%u)(float *x)\n{\n\tx[0] = "
			"x[1];\n}\n", i, i, i);
	}
}

static bool
has_nvrtc(struct test *t)
{
	const char *why = "?";

	return nv_open(t->a, &why) != NULL;
}

static void
same_made(const struct cg_images *x, const struct cg_images *y)
{
	uint32_t i, j;

	assert_string_equal(x->made_by, y->made_by);
	for (i = 0; i < NSOURCES; i++) {
		const struct cg_image *a = &x->at[i], *b = &y->at[i];

		assert_int_equal(a->cubin_bytes, b->cubin_bytes);
		assert_memory_equal(a->cubin, b->cubin,
				    (size_t)a->cubin_bytes);
		assert_int_equal(!a->ptx, !b->ptx);
		if (a->ptx) {
			assert_string_equal(a->ptx, b->ptx);
		}
		assert_int_equal(a->funcs.n, b->funcs.n);
		for (j = 0; j < a->funcs.n; j++) {
			assert_string_equal(a->funcs.at[j].name,
					    b->funcs.at[j].name);
			assert_int_equal(a->funcs.at[j].registers,
					 b->funcs.at[j].registers);
		}
	}
}

static void
check_made(const struct cg_images *x, bool ptx)
{
	uint32_t i;

	assert_null(x->missing);
	for (i = 0; i < NSOURCES; i++) {
		const struct cg_image *m = &x->at[i];

		assert_memory_equal(m->cubin, "\177ELF", 4);
		assert_int_equal(m->ptx != NULL, ptx);
		assert_int_equal(m->funcs.n, 2);
		assert_int_equal(m->funcs.at[0].name[0], 'a');
		assert_int_equal(m->funcs.at[1].name[0], 'z');
		assert_in_range(m->funcs.at[0].registers, 1, 32);
		assert_int_equal(m->funcs.at[0].spill_bytes, 0);
		assert_int_equal(m->slow.n, 0);
	}
}

static void
threads_and_cache_change_nothing(void **state)
{
	struct cg_source sources[NSOURCES];
	struct cg_make make = { .sources = sources, .nsources = NSOURCES,
				.texts = texts, .ntexts = 2,
				.arch = "sm_80", .threads = 1 };
	struct cg_images one, three, again, other;
	struct test t;

	(void)state;
	begin(&t);
	if (!has_nvrtc(&t)) {
		end(&t);
		skip();
	}
	sources_for(&t, sources);
	assert_true(cg_images(&t.ctx, &make, &one));
	assert_int_equal(one.ncached, 0);
	check_made(&one, true);
	make.no_cache = true;
	make.threads = 3;
	assert_true(cg_images(&t.ctx, &make, &three));
	assert_int_equal(three.ncached, 0);
	same_made(&one, &three);
	make.no_cache = false;
	assert_true(cg_images(&t.ctx, &make, &again));
	assert_int_equal(again.ncached, NSOURCES);
	check_made(&again, true);
	same_made(&one, &again);
	sources[2].text = arena_printf(t.a, "%s\n", sources[2].text);
	assert_true(cg_images(&t.ctx, &make, &other));
	assert_int_equal(other.ncached, NSOURCES - 1);
	make.arch = "sm_90a";
	assert_true(cg_images(&t.ctx, &make, &other));
	assert_int_equal(other.ncached, 0);
	check_made(&other, false);
	assert_int_equal(t.ctx.diags.errors, 0);
	end(&t);
}

/* Whether a message or a note of it has these words. */
static bool
says(const struct test *t, const char *words)
{
	const struct diags *d = &t->ctx.diags;
	uint32_t i;

	for (i = 0; i < d->records.n; i++) {
		if (strstr(d->records.at[i].text, words)) {
			return true;
		}
	}
	return false;
}

/* Spills on purpose: many sums at once in few registers. */
static const char *
spilling(struct test *t)
{
	return arena_printf(t->a, "#include \"prelude.h\"\n"
		"extern \"C\" __global__ void __launch_bounds__(1024) s("
		"float *q, int n)\n{\n\tfloat x[128];\n"
		"#pragma unroll\n\tfor (int i = 0; i < 128; i++)\n"
		"\t\tx[i] = q[i * threadIdx.x];\n"
		"\tfor (int j = 0; j < n; j++)\n#pragma unroll\n"
		"\t\tfor (int i = 0; i < 128; i++)\n"
		"\t\t\tx[i] += x[(i * 7 + 1) %% 128] * q[j];\n"
		"#pragma unroll\n\tfor (int i = 0; i < 128; i++)\n"
		"\t\tq[i] = x[i];\n}\n");
}

static void
what_is_wrong_is_said(void **state)
{
	struct cg_source sources[NSOURCES];
	struct cg_make make = { .sources = sources, .nsources = NSOURCES,
				.texts = texts, .ntexts = 2,
				.arch = "sm_80" };
	struct cg_images x = { 0 };
	struct test t;

	(void)state;
	begin(&t);
	if (!has_nvrtc(&t)) {
		end(&t);
		skip();
	}
	sources_for(&t, sources);
	sources[3].text = "#include \"prelude.h\"\nKERNEL(f)(int x) { y; }\n";
	assert_false(cg_images(&t.ctx, &make, &x));
	assert_int_equal(t.ctx.diags.errors, 1);
	assert_true(says(&t, "kernel `nest3` does not compile for sm_80"));
	assert_true(says(&t, "nest3.cu(2): error: identifier \"y\""));
	sources[3].text = "#include \"prelude.h\"\nKERNEL(f)(int x)\n"
			  "{ int z; x; }\n";
	assert_false(cg_images(&t.ctx, &make, &x));
	assert_int_equal(t.ctx.diags.errors, 2);
	assert_true(says(&t, "`nest3` does not compile without warnings"));
	assert_true(says(&t, "nest3.cu(3): warning #174-D"));
	assert_false(says(&t, "177-D"));
	sources[3].text = "#include \"missing.h\"\n";
	assert_false(cg_images(&t.ctx, &make, &x));
	assert_true(says(&t, "cannot open source file \"missing.h\""));
	sources[3].text = spilling(&t);
	assert_true(cg_images(&t.ctx, &make, &x));
	assert_int_equal(t.ctx.diags.errors, 3);
	assert_int_equal(t.ctx.diags.warnings, 0);
	cg_images_warn(&t.ctx, &x);
	assert_int_equal(t.ctx.diags.warnings, 1);
	assert_true(says(&t, "kernel `nest3`: Registers are spilled"));
	assert_true(x.at[3].funcs.at[0].spill_bytes > 0);
	assert_true(x.at[3].funcs.at[0].stack_bytes > 0);
	assert_int_equal(x.at[3].slow.n, 1);
	/* what is cached warns all the same */
	assert_true(cg_images(&t.ctx, &make, &x));
	assert_int_equal(x.ncached, NSOURCES);
	cg_images_warn(&t.ctx, &x);
	assert_int_equal(t.ctx.diags.warnings, 2);
	end(&t);
}

/* Nothing that has that name and text is compiled twice in a run. */
static void
what_was_made_before_stays(void **state)
{
	struct cg_source sources[NSOURCES], turned[NSOURCES];
	struct cg_make make = { .sources = sources, .nsources = NSOURCES,
				.texts = texts, .ntexts = 2,
				.arch = "sm_80", .no_cache = true };
	struct cg_images one, two, fresh;
	struct test t;
	uint32_t i;

	(void)state;
	begin(&t);
	if (!has_nvrtc(&t)) {
		end(&t);
		skip();
	}
	sources_for(&t, sources);
	assert_true(cg_images(&t.ctx, &make, &one));
	assert_int_equal(one.ncached, 0);
	for (i = 0; i < NSOURCES; i++) {
		turned[i] = sources[NSOURCES - 1 - i];
	}
	turned[1].text = spilling(&t);
	turned[2].name = "other";
	make.sources = turned;
	assert_true(cg_images(&t.ctx, &make, &fresh));
	make.before = &one;
	assert_true(cg_images(&t.ctx, &make, &two));
	assert_int_equal(two.ncached, NSOURCES - 2);
	same_made(&two, &fresh);
	assert_true(two.at[1].funcs.at[0].spill_bytes > 0);
	assert_ptr_equal(two.at[0].cubin, one.at[NSOURCES - 1].cubin);
	end(&t);
}

static void
no_library_is_no_error(void **state)
{
	struct cg_source sources[NSOURCES];
	struct cg_make make = { .sources = sources, .nsources = NSOURCES,
				.arch = "sm_90a" };
	struct cg_images x;
	struct test t;

	(void)state;
	begin(&t);
	sources_for(&t, sources);
	setenv("LLMC_NVRTC", "/nonexistent/libnvrtc.so", 1);
	assert_true(cg_images(&t.ctx, &make, &x));
	assert_null(x.made_by);
	assert_null(x.at);
	assert_non_null(x.missing);
	assert_int_equal(t.ctx.diags.errors, 0);
	end(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hashes_are_fnv),
		cmocka_unit_test(object_holds_images),
		cmocka_unit_test(broken_entries_are_none),
		cmocka_unit_test(oldest_entries_go),
		cmocka_unit_test(no_folder_is_no_cache),
		cmocka_unit_test(threads_and_cache_change_nothing),
		cmocka_unit_test(what_is_wrong_is_said),
		cmocka_unit_test(what_was_made_before_stays),
		cmocka_unit_test(no_library_is_no_error)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

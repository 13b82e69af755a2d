/*
 * Compiles the text of kernels to a shared object with the C compiler.  The
 * result is kept in the cache (cache.h), named for all that it was made of.
 * Ranks that start together wait for one of them to compile.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cache.h"
#include "runtime/delay.h"
#include "runtime/emulate/emulate_inner.h"
#include "runtime/scratch.h"

enum {
	PATH_BYTES = 1024, MAX_WORDS = 32, JOBS = 2
};

/* Compiled with the images: the table of kernels. */
static const char glue[] =
	"#include \"emulate_call.h\"\n"
	"#define ENDS __attribute__((weak, visibility(\"hidden\")))\n"
	"extern const struct emu_entry *const __start_emu_entries[] ENDS;\n"
	"extern const struct emu_entry *const __stop_emu_entries[] ENDS;\n"
	"extern const char __ehdr_start[] ENDS, _end[] ENDS;\n"
	"#define HIDDEN __attribute__((visibility(\"hidden\"), "
	"tls_model(\"initial-exec\")))\n"
	"__thread struct emu_thread *emu_self HIDDEN;\n"
	"__thread const struct emu_calls *emu HIDDEN;\n"
	"static struct emu_thread **bind(const struct emu_calls *calls)\n"
	"{\n\temu = calls;\n\treturn &emu_self;\n}\n"
	"const struct emu_library emu_library = { __start_emu_entries, "
	"__stop_emu_entries, __ehdr_start, _end, bind };\n";

/* After it, of checked code: the hooks of -fsanitize=thread, which report plain
 * accesses.  Other code does not call them. */
static const char hooks[] =
	"#define HOOK(n) \\\n"
	"void __tsan_read##n(void *p) { emu->load(p, n); } \\\n"
	"void __tsan_write##n(void *p) { emu->store(p, n); } \\\n"
	"void __tsan_unaligned_read##n(void *p) { emu->load(p, n); } \\\n"
	"void __tsan_unaligned_write##n(void *p) { emu->store(p, n); } \\\n"
	"void __tsan_volatile_read##n(void *p) { emu->load(p, n); } \\\n"
	"void __tsan_volatile_write##n(void *p) { emu->store(p, n); }\n"
	"HOOK(1) HOOK(2) HOOK(4) HOOK(8) HOOK(16)\n"
	"void __tsan_read_range(void *p, unsigned long n) "
	"{ emu->load(p, (long)n); }\n"
	"void __tsan_write_range(void *p, unsigned long n) "
	"{ emu->store(p, (long)n); }\n"
	"void *__tsan_memmove(void *to, const void *p, unsigned long n)\n"
	"{\n\temu->load(p, (long)n);\n\temu->store(to, (long)n);\n"
	"\treturn __builtin_memmove(to, p, n);\n}\n"
	"void __tsan_func_entry(void *p) { (void)p; }\n"
	"void __tsan_func_exit(void) { }\n"
	"void __tsan_init(void) { }\n"
	"void *__tsan_memcpy(void *to, const void *p, unsigned long n)\n"
	"{\n\temu->load(p, (long)n);\n\temu->store(to, (long)n);\n"
	"\treturn __builtin_memcpy(to, p, n);\n}\n"
	"void *__tsan_memset(void *to, int c, unsigned long n)\n"
	"{\n\temu->store(to, (long)n);\n"
	"\treturn __builtin_memset(to, c, n);\n}\n";

/* ---- the command ---- */

static const char *
compiler_command(void)
{
	const char *p = getenv("LLMC_LINKER");

	return p && *p ? p : CONFIG_LINKER;
}

/* The options after its name, which may have several words (`ccache gcc`). */
static const char *
compiler_options(void)
{
	const char *p = compiler_command();

	while (*(p += strspn(p, " ")) && *p != '-') {
		p += strcspn(p, " ");
	}
	return p;
}

static const char *
hooks_of(const struct rt_emu *e)
{
	return e->flags & RT_EMU_CHECK ? hooks : "";
}

static const char *
flags_of(const struct rt_emu *e)
{
	return e->flags & RT_EMU_CHECK ?
		"-Og -std=gnu11 -fPIC -w -ffp-contract=off "
		"-fno-strict-aliasing -fno-math-errno "
		"-fno-stack-protector -Wno-psabi -fsanitize=thread "
		: "-O2 -std=gnu11 -fPIC -w -ffp-contract=off "
		"-fno-strict-aliasing -fno-math-errno "
		"-fno-stack-protector -Wno-psabi ";
}

/* Features of this CPU, so that a multiply and an add are one instruction. */
static const char *
machine_flags(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
		return "-mavx2 -mfma ";
	}
#endif
	return "";
}

int
rt_emu_possible(void)
{
	const char *p = compiler_command(), *path = getenv("PATH");
	size_t n = strcspn(p, " ");
	char at[PATH_BYTES];

	if (memchr(p, '/', n)) {
		snprintf(at, sizeof at, "%.*s", (int)n, p);
		return access(at, X_OK) == 0;
	}
	while (path && *path) {
		snprintf(at, sizeof at, "%.*s/%.*s", (int)strcspn(path, ":"),
			 path, (int)n, p);
		if (access(at, X_OK) == 0) {
			return 1;
		}
		path += strcspn(path, ":");
		path += *path == ':';
	}
	return 0;
}

struct compile_command {
	char text[4096];
	char *words[MAX_WORDS + JOBS + 1];
	size_t used;
	int n;
};

static void
add_word(struct compile_command *c, const char *p, size_t n)
{
	if (c->n < MAX_WORDS && c->used + n + 1 < sizeof c->text) {
		c->words[c->n++] = c->text + c->used;
		memcpy(c->text + c->used, p, n);
		c->text[c->used + n] = '\0';
		c->used += n + 1;
		c->words[c->n] = NULL;
	}
}

static void
add_words(struct compile_command *c, const char *p)
{
	while (*(p += strspn(p, " "))) {
		add_word(c, p, strcspn(p, " "));
		p += strcspn(p, " ");
	}
}

static void
add_name(struct compile_command *c)
{
	const char *p = compiler_command(), *end = compiler_options();

	while ((p += strspn(p, " ")) < end) {
		add_word(c, p, strcspn(p, " "));
		p += strcspn(p, " ");
	}
}

/* ---- files ---- */

/* An entry of the cache. */
struct kept {
	char folder[PATH_BYTES - 64];
	struct rt_hash key;
};

/* The folder where it is compiled; signals are delayed while it exists. */
struct folder {
	char path[PATH_BYTES];
	int64_t nsources;	/* files of images */
	const char *own_places;	/* an option for checked code */
	struct rt_delay *delay;
};

/* An object, and the source that it is made of: 'o' and 'c'. */
static void
source_file(const struct folder *f, int64_t i, char c, char *out, size_t n)
{
	char name[32];

	snprintf(name, sizeof name, EMU_SOURCE, (long long)i, c);
	snprintf(out, n, "%s/%s", f->path, i >= 0 ? name
		 : c == 'o' ? "glue.o" : "glue.c");
}

static enum rt_status
write_all(const struct rt_emu *e, struct folder *f, struct rt_error *err)
{
	enum rt_status s = emu_write_text(f->path, "glue.c", glue,
					  hooks_of(e), err);

	return s == RT_OK ? emu_write_sources(e->images, f->path, &f->nsources,
					      err) : s;
}

/* ---- compiling ---- */

static enum rt_status
start_command(const struct folder *f, struct compile_command *c, pid_t *pid,
	      struct rt_error *err)
{
	struct rt_where where = { NULL, NULL, -1 };
	int error = rt_delay_spawn(f->delay, pid, c->words);

	if (!error) {
		return RT_OK;
	}
	*pid = 0;
	return rt_fail(err, RT_IO, where, "kernels cannot be emulated: the C "
		       "compiler `%s` cannot be run: %s; LLMC_LINKER names "
		       "another one", c->words[0], strerror(error));
}

static enum rt_status
wait_command(const struct folder *f, pid_t pid, struct rt_error *err)
{
	struct rt_where where = { NULL, NULL, -1 };
	int status = 0;

	if (pid && !rt_delay_wait(f->delay, pid, &status)) {
		return rt_fail(err, RT_IO, where, "cannot wait for the C "
			       "compiler: %s", strerror(errno));
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? RT_OK
		: rt_fail(err, RT_FORMAT, where, "kernels cannot be "
			  "emulated: the C compiler `%s` refused their text: "
			  "what it says stands above", compiler_command());
}

/*
 * A variable of wgmma must not share its stack slot, or accesses to another
 * variable there would look like accesses to it. GCC and clang have different
 * options for that, and the name of a compiler does not tell which it is.
 */
static const char *
own_places(const struct folder *f)
{
	static const char gcc[] = "-fstack-reuse=none";
	static const char clang[] = "-Xclang -disable-lifetime-markers";
	static const char quiet[] = "exec \"$0\" \"$@\" 2>/dev/null";
	char path[PATH_BYTES + 64];
	struct compile_command c = { .n = 0 };
	struct rt_error err;
	pid_t pid = 0;

	add_words(&c, "sh -c");
	add_word(&c, quiet, sizeof quiet - 1);
	add_words(&c, compiler_command());
	add_words(&c, gcc);
	add_words(&c, "-w -fsyntax-only");
	snprintf(path, sizeof path, "%s/glue.c", f->path);
	add_word(&c, path, strlen(path));
	return start_command(f, &c, &pid, &err) == RT_OK &&
	       wait_command(f, pid, &err) == RT_OK ? gcc : clang;
}

/* A few processes compile one file at a time: `cc -c` of all files would use
 * one core. */
static enum rt_status
compile_next(const struct rt_emu *e, const struct folder *f, int64_t i,
	     pid_t *pid, struct rt_error *err)
{
	const char *ours = i < 0 ? "-O2 -std=gnu11 -fPIC -w" : flags_of(e);
	bool checked = e->flags & RT_EMU_CHECK;
	const char *options = compiler_options();
	char path[PATH_BYTES + 64];
	struct compile_command c = { .n = 0 };

	/* The last of two options counts. The user's options may make compiling
	 * faster, but what checked code reports must not depend on them. */
	add_name(&c);
	add_words(&c, checked ? options : ours);
	add_words(&c, machine_flags());
	add_words(&c, checked ? ours : options);
	if (f->own_places && i >= 0) {
		add_words(&c, f->own_places);
	}
	add_words(&c, "-c -o");
	source_file(f, i, 'o', path, sizeof path);
	add_word(&c, path, strlen(path));
	source_file(f, i, 'c', path, sizeof path);
	add_word(&c, path, strlen(path));
	return start_command(f, &c, pid, err);
}

static enum rt_status
compile_all(const struct rt_emu *e, const struct folder *f,
	    struct rt_error *err)
{
	pid_t running[JOBS] = { 0 };
	enum rt_status s = RT_OK, end;
	int64_t i;
	int j = 0;

	for (i = -1; i < f->nsources && s == RT_OK; i++) {
		j = (j + 1) % JOBS;
		s = running[j] ? wait_command(f, running[j], err) : RT_OK;
		running[j] = 0;
		if (s == RT_OK) {
			s = compile_next(e, f, i, &running[j], err);
		}
	}
	for (j = 0; j < JOBS; j++) {
		end = running[j] ? wait_command(f, running[j], err) : RT_OK;
		s = s == RT_OK ? end : s;
	}
	return s;
}

/* Objects are listed in a file: a command holds few words. */
static enum rt_status
link_all(const struct folder *f, struct rt_error *err)
{
	char path[PATH_BYTES + 64];
	struct compile_command c = { .n = 0 };
	enum rt_status s;
	FILE *list;
	pid_t pid = 0;
	int64_t i;
	struct rt_where where = { path, NULL, -1 };

	snprintf(path, sizeof path, "%s/glue.c", f->path);
	list = fopen(path, "w");
	if (!list) {
		return rt_fail(err, RT_IO, where, "cannot write: %s",
			       strerror(errno));
	}
	for (i = -1; i < f->nsources; i++) {
		char object[PATH_BYTES + 64];

		source_file(f, i, 'o', object, sizeof object);
		fprintf(list, "%s\n", object);
	}
	if (fclose(list)) {
		return rt_fail(err, RT_IO, where, "cannot write: %s",
			       strerror(errno));
	}
	add_words(&c, compiler_command());
	add_words(&c, "-shared -o");
	snprintf(path, sizeof path, "%s/all.so", f->path);
	add_word(&c, path, strlen(path));
	snprintf(path, sizeof path, "@%s/glue.c", f->path);
	add_word(&c, path, strlen(path));
	add_words(&c, "-lm");
	s = start_command(f, &c, &pid, err);
	return s == RT_OK ? wait_command(f, pid, err) : s;
}

/* ---- what was compiled before ---- */

static struct rt_hash
key_of(const struct rt_emu *e)
{
	struct rt_hash h;
	int64_t i;

	rt_hash_init(&h);
	rt_hash_text(&h, "emulated kernels");
	rt_hash_text(&h, glue);
	rt_hash_text(&h, hooks_of(e));
	rt_hash_text(&h, compiler_command());
	rt_hash_text(&h, flags_of(e));
	rt_hash_text(&h, machine_flags());
	for (i = 0; i < e->images->ntexts; i++) {
		rt_hash_text(&h, e->images->texts[i].name);
		rt_hash_text(&h, e->images->texts[i].text);
	}
	for (i = 0; i < e->images->n; i++) {
		rt_hash_text(&h, e->images->at[i].name);
		rt_hash_text(&h, e->images->at[i].source);
	}
	return h;
}

static bool
load_library(struct rt_emu *e, const char *path)
{
	e->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	e->lib = e->handle ? dlsym(e->handle, "emu_library") : NULL;
	if (e->handle && !e->lib) {
		dlclose(e->handle);
		e->handle = NULL;
	}
	return e->lib != NULL;
}

/* Puts the shared object into the cache. */
static void
keep(const char *path, const struct kept *kept)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	size_t n;
	char *at;

	if (!f) {
		return;
	}
	n = fstat(fileno(f), &st) == 0 ? (size_t)st.st_size : 0;
	at = malloc(n + 1);
	if (at && fread(at, 1, n, f) == n) {
		rt_cache_put(kept->folder, kept->key, at, n);
	}
	free(at);
	fclose(f);
	rt_cache_trim(kept->folder);
}

static enum rt_status
build_in(struct rt_emu *e, struct folder *f, const struct kept *kept,
	 struct rt_error *err)
{
	enum rt_status s = write_all(e, f, err);
	char path[PATH_BYTES + 64];
	struct rt_where where = { path, NULL, -1 };

	if (s == RT_OK && e->flags & RT_EMU_CHECK) {
		f->own_places = own_places(f);
	}
	if (s == RT_OK) {
		s = compile_all(e, f, err);
	}
	if (s == RT_OK) {
		s = link_all(f, err);
	}
	if (s != RT_OK) {
		return s;
	}
	snprintf(path, sizeof path, "%s/all.so", f->path);
	if (!load_library(e, path)) {
		return rt_fail(err, RT_FORMAT, where, "compiled kernels "
			       "cannot be loaded: %s", dlerror());
	}
	if (kept) {
		keep(path, kept);
	}
	return RT_OK;
}

/* Compiles in a new folder, which is removed afterwards. */
static enum rt_status
build_anew(struct rt_emu *e, struct rt_delay *h, const struct kept *kept,
	   struct rt_error *err)
{
	struct folder f = { .delay = h };
	struct rt_scratch made;
	struct rt_where where = { made.path, NULL, -1 };
	enum rt_status s;

	if (!rt_scratch_make(&made, kept ? kept->folder : NULL)) {
		return rt_fail(err, RT_IO, where, "cannot make it: %s",
			       strerror(errno));
	}
	if (snprintf(f.path, sizeof f.path, "%s", made.path) <
	    (int)sizeof f.path) {
		s = build_in(e, &f, kept, err);
	} else {
		s = rt_fail(err, RT_RANGE, where, "the path is too long");
	}
	rt_scratch_remove(&made);
	return s;
}

/*
 * An entry of the cache may be replaced at any time, so its bytes are checked,
 * written to a private file, and loaded from there; then the file is removed.
 */
static bool
load_kept(struct rt_emu *e, const struct kept *kept)
{
	char path[PATH_MAX + 8];
	struct rt_scratch made;
	size_t n = 0;
	char *at = rt_cache_get(kept->folder, kept->key, &n);
	bool ok = false;
	FILE *f;

	if (at && rt_scratch_make(&made, kept->folder)) {
		snprintf(path, sizeof path, "%s/all.so", made.path);
		f = fopen(path, "wb");
		if (f) {
			ok = fwrite(at, 1, n, f) == n;
			ok &= fclose(f) == 0;
			ok = ok && load_library(e, path);
		}
		rt_scratch_remove(&made);
	}
	free(at);
	return ok;
}

/* Of several ranks one compiles and the others wait.  A rank that cannot lock
 * compiles as well.  The compiling rank removes the lock's file. */
static enum rt_status
build_locked(struct rt_emu *e, struct rt_delay *h, const struct kept *kept,
	     struct rt_error *err)
{
	char lock[PATH_BYTES + 72];
	enum rt_status s = RT_OK;
	int fd;

	snprintf(lock, sizeof lock, "%s/emu-%016llx%016llx.lock",
		 kept->folder, (unsigned long long)kept->key.hi,
		 (unsigned long long)kept->key.lo);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		rt_delay_end(h);
		flock(fd, LOCK_EX);
		rt_delay_begin(h);
	}
	if (!load_kept(e, kept)) {
		s = build_anew(e, h, kept, err);
	}
	if (fd >= 0) {
		unlink(lock);
		close(fd);
	}
	return s;
}

enum rt_status
emu_build(struct rt_emu *e, struct rt_error *err)
{
	struct kept kept = { .key = key_of(e) };
	bool keeps = rt_cache_folder(kept.folder, sizeof kept.folder);
	enum rt_status s = RT_OK;
	struct rt_delay h;

	rt_delay_begin(&h);
	if (!keeps) {
		s = build_anew(e, &h, NULL, err);
	} else if (!load_kept(e, &kept)) {
		s = build_locked(e, &h, &kept, err);
	}
	rt_delay_end(&h);
	return s;
}

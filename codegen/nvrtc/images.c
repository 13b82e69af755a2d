/*
 * From the text of kernels to images, as cg_images of cg.h promises.  Sources
 * that the cache does not have are compiled by threads, each with an arena of
 * its own, and put together in the order of sources, so the result does not
 * depend on timing.
 */
#include "codegen/link/compile_cache.h"
#include "codegen/nvrtc/images.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define MOST_THREADS 16		/* NVRTC needs about 100 MB in each thread */
#define MOST_NOTES 6		/* most lines of a compiler's message */

static const struct span nowhere;

/* A source being compiled. */
struct image_job {
	uint32_t source;
	struct rt_hash key;
	struct mem mem;
	struct arena a;
	struct nv_made made;
	bool ok;
};

struct image_making {
	struct ir_ctx *c;
	const struct cg_make *make;
	const struct cu_arch *arch;
	struct nv *nv;
	struct cg_cache cache;
	VEC(struct image_job) jobs; /* sources that the cache does not have */
	struct nv_made *made; /* by source: compiled now, or */
	/* by source: compiled before, in this run */
	const struct cg_image **had;
	atomic_uint next;		/* first job that no thread has begun */
};

const struct cg_source *
cg_prelude(struct arena *a, uint32_t *n)
{
	struct cg_source *all = arena_alloc(a, sizeof *all *
					    (cu_nprelude + 1));
	uint32_t i;

	*n = cu_nprelude;
	for (i = 0; i < cu_nprelude; i++) {
		all[i] = (struct cg_source){ cu_prelude[i].name,
					     cu_prelude[i].text };
	}
	return all;
}

/* ---- messages of the compiler ---- */

/* The next line, without its end; false after the last one. */
static bool
next_line(const char **text, struct arena *a, const char **line)
{
	size_t n = strcspn(*text, "\n");

	if (!**text) {
		return false;
	}
	*line = arena_strndup(a, *text, n);
	*text += n + ((*text)[n] == '\n');
	return true;
}

/* The text after the words; NULL: they are not in the line. */
static const char *
after_words(const char *line, const char *words)
{
	const char *p = strstr(line, words);

	return p ? p + strlen(words) : NULL;
}

/* The number before the words; 0 if they are not in the line. */
static int64_t
number_before(const char *line, const char *words)
{
	const char *p = strstr(line, words), *q = p;
	int64_t v = 0;

	while (q && q > line && q[-1] >= '0' && q[-1] <= '9') {
		q--;
	}
	return p && num_parse_int(q, (size_t)(p - q), &v) ? v : 0;
}

/* The log without compile times, which differ each time. */
static const char *
without_times(const char *log, struct arena *a)
{
	const char *line = NULL;
	struct buf out;

	buf_init(&out, a);
	while (next_line(&log, a, &line)) {
		if (*line && !strstr(line, "Compile time")) {
			buf_printf(&out, "%s\n", line);
		}
	}
	return buf_text(&out);
}

static bool
is_warning(const char *line)
{
	return strstr(line, "): warning") || strstr(line, ": warning #") ||
	       strstr(line, "nvrtc: warning");
}

static bool
has_warnings(const char *log, struct arena *a)
{
	const char *line = NULL;

	while (next_line(&log, a, &line)) {
		if (is_warning(line)) {
			return true;
		}
	}
	return false;
}

/*
 * The assembler's performance warnings: spills, and serialized wgmma products.
 */
static const char *
slow_words(const char *line)
{
	const char *p = after_words(line, "ptxas warning : ");
	const char *q = strstr(line, "Potential Performance Loss");

	return p ? p : q;
}

static void
sort_funcs(struct cg_image *x)
{
	uint32_t i, j;

	for (i = 1; i < x->funcs.n; i++) {
		struct cg_func f = x->funcs.at[i];

		for (j = i; j > 0 && strcmp(x->funcs.at[j - 1].name,
					    f.name) > 0; j--) {
			x->funcs.at[j] = x->funcs.at[j - 1];
		}
		x->funcs.at[j] = f;
	}
}

/* Functions that are called, not inlined, are counted as part of the kernel. */
static void
read_line(struct arena *a, const char *line, struct cg_image *out)
{
	const char *name = after_words(line, "Compiling entry function '");
	struct cg_func *f = out->funcs.n
		? &out->funcs.at[out->funcs.n - 1] : NULL;

	if (slow_words(line)) {
		VEC_PUSH(a, &out->slow, slow_words(line));
	} else if (name) {
		struct cg_func x = { .name = arena_strndup(a, name,
			strcspn(name, "'")) };

		VEC_PUSH(a, &out->funcs, x);
	} else if (f && strstr(line, "bytes stack frame")) {
		f->stack_bytes += number_before(line, " bytes stack frame");
		f->spill_bytes += number_before(line, " bytes spill stores") +
				  number_before(line, " bytes spill loads");
	} else if (f && strstr(line, " registers")) {
		f->registers = number_before(line, " registers");
		f->smem_bytes = number_before(line, " bytes smem");
	}
}

static void
read_log(struct arena *a, const char *log, struct cg_image *out)
{
	const char *line = NULL;

	while (next_line(&log, a, &line)) {
		read_line(a, line, out);
	}
	sort_funcs(out);
}

/* ---- what is reported ---- */

static void
report(struct image_making *k, const struct cg_source *s, const char *log,
       const char *what)
{
	struct diags *d = &k->c->diags;
	const char *line = NULL;
	uint32_t n = 0;

	diag_error(d, nowhere, "kernel `%s` %s for %s: that is a fault of "
		   "llmc, and --emit=cuda prints what it wrote", s->name,
		   what, k->make->arch);
	while (n < MOST_NOTES && next_line(&log, &k->c->perm, &line)) {
		if (strstr(line, "error") || strstr(line, "fatal") ||
		    is_warning(line) || strncmp(line, "NVRTC", 5) == 0) {
			diag_note(d, nowhere, "%s", line);
			n++;
		}
	}
}

static void
put_image(struct image_making *k, uint32_t i, struct cg_image *out)
{
	const struct nv_made *x = &k->made[i];

	if (k->had[i]) {
		*out = *k->had[i];
		return;
	}
	out->cubin = x->cubin;
	out->cubin_bytes = (int64_t)x->cubin_bytes;
	out->ptx = x->ptx;
	read_log(&k->c->perm, x->log, out);
}

void
cg_images_warn(struct ir_ctx *ctx, const struct cg_images *x)
{
	uint32_t i, j;

	for (i = 0; x->at && i < x->make.nsources; i++) {
		for (j = 0; j < x->at[i].slow.n; j++) {
			diag_warn(&ctx->diags, WARN_SLOW_KERNEL, nowhere,
				  "kernel `%s`: %s", x->make.sources[i].name,
				  x->at[i].slow.at[j]);
		}
	}
}

/* ---- jobs ---- */

static void *
run_jobs_of_thread(void *user)
{
	struct image_making *k = user;
	uint32_t i;

	while ((i = atomic_fetch_add(&k->next, 1)) < k->jobs.n) {
		struct image_job *j = &k->jobs.at[i];

		j->ok = nv_compile(k->nv, k->make, j->source, &j->a,
				   &j->made);
		j->made.log = without_times(j->made.log, &j->a);
	}
	return NULL;
}

static uint32_t
count_threads(const struct image_making *k)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t n = k->make->threads ? k->make->threads
		: cores > 0 ? (uint32_t)cores : 1;

	n = n > MOST_THREADS ? MOST_THREADS : n;
	return n < k->jobs.n ? n : k->jobs.n;
}

/* If a thread cannot be created, the others do its work. */
static void
run_jobs(struct image_making *k)
{
	pthread_t threads[MOST_THREADS];
	uint32_t want = count_threads(k), n = 0;

	while (n + 1 < want &&
	       pthread_create(&threads[n], NULL, run_jobs_of_thread, k) == 0) {
		n++;
	}
	run_jobs_of_thread(k);
	while (n > 0) {
		pthread_join(threads[--n], NULL);
	}
}

/* ---- entries of the cache ---- */

enum { PART_CUBIN, PART_PTX, PART_LOG };

static void
keep_in_cache(const struct image_making *k, struct rt_hash key,
	      const struct nv_made *x)
{
	const struct cg_part parts[CG_PARTS] = {
		[PART_CUBIN] = { x->cubin, x->cubin_bytes },
		[PART_PTX] = { x->ptx, x->ptx_bytes },
		[PART_LOG] = { x->log, strlen(x->log) }
	};

	if (!k->make->no_cache) {
		cg_cache_put(&k->cache, key, parts);
	}
}

static bool
find_in_cache(const struct image_making *k, struct rt_hash key,
	      struct nv_made *out)
{
	struct cg_part parts[CG_PARTS];

	if (k->make->no_cache ||
	    !cg_cache_get(&k->cache, key, &k->c->perm, parts)) {
		return false;
	}
	out->cubin = parts[PART_CUBIN].at;
	out->cubin_bytes = parts[PART_CUBIN].n;
	out->ptx = parts[PART_PTX].n ? parts[PART_PTX].at : NULL;
	out->ptx_bytes = parts[PART_PTX].n;
	out->log = parts[PART_LOG].at;
	return true;
}

/* ---- all of it ---- */

/* Keeps what a job compiled, or reports its errors. */
static void
finish_job(struct image_making *k, struct image_job *j)
{
	struct arena *a = &k->c->perm;
	const struct nv_made *x = &j->made;
	struct nv_made *to = &k->made[j->source];
	const struct cg_source *s = &k->make->sources[j->source];

	if (!j->ok) {
		report(k, s, x->log, "does not compile");
		return;
	}
	if (has_warnings(x->log, &j->a)) {
		report(k, s, x->log, "does not compile without warnings");
		return;
	}
	*to = *x;
	to->cubin = arena_dup(a, x->cubin, x->cubin_bytes);
	to->ptx = x->ptx ? arena_strndup(a, x->ptx, x->ptx_bytes) : NULL;
	to->log = arena_printf(a, "%s", x->log);
	keep_in_cache(k, j->key, to);
}

static struct rt_hash
hash_all(const struct image_making *k)
{
	struct rt_hash h;
	uint32_t i;

	rt_hash_init(&h);
	rt_hash_text(&h, nv_version(k->nv));
	rt_hash_text(&h, nv_options(k->nv, k->arch, &k->c->tmp));
	for (i = 0; i < k->make->ntexts; i++) {
		rt_hash_text(&h, k->make->texts[i].name);
		rt_hash_text(&h, k->make->texts[i].text);
	}
	return h;
}

/* An image of that name and text, or NULL. */
static const struct cg_image *
made_before(const struct cg_images *x, const struct cg_source *s)
{
	uint32_t i;

	for (i = 0; x && x->at && i < x->make.nsources; i++) {
		const struct cg_source *t = &x->make.sources[i];

		if (strcmp(t->name, s->name) == 0 &&
		    strcmp(t->text, s->text) == 0) {
			return &x->at[i];
		}
	}
	return NULL;
}

/* The name is part of a key, since cached messages contain it. */
static void
find_jobs(struct image_making *k)
{
	struct rt_hash all = hash_all(k);
	uint32_t i;

	for (i = 0; i < k->make->nsources; i++) {
		struct image_job j = { .source = i, .key = all };

		rt_hash_text(&j.key, k->make->sources[i].name);
		rt_hash_text(&j.key, k->make->sources[i].text);
		k->had[i] = made_before(k->make->before,
					&k->make->sources[i]);
		if (!k->had[i] && !find_in_cache(k, j.key, &k->made[i])) {
			VEC_PUSH(&k->c->perm, &k->jobs, j);
		}
	}
}

static bool
make_all(struct image_making *k, struct cg_images *out)
{
	uint32_t errors = k->c->diags.errors, i;

	find_jobs(k);
	for (i = 0; i < k->jobs.n; i++) {
		mem_init(&k->jobs.at[i].mem);
		arena_init(&k->jobs.at[i].a, &k->jobs.at[i].mem);
	}
	run_jobs(k);
	for (i = 0; i < k->jobs.n; i++) {
		finish_job(k, &k->jobs.at[i]);
		arena_release(&k->jobs.at[i].a);
	}
	if (k->jobs.n && !k->make->no_cache) {
		cg_cache_trim(&k->cache);
	}
	if (k->c->diags.errors != errors) {
		return false;
	}
	for (i = 0; i < k->make->nsources; i++) {
		put_image(k, i, &out->at[i]);
	}
	out->ncached = k->make->nsources - k->jobs.n;
	return true;
}

bool
cg_images(struct ir_ctx *ctx, const struct cg_make *make,
	  struct cg_images *out)
{
	struct image_making k = { .c = ctx, .make = make };
	const char *why = "?";

	*out = (struct cg_images){ .make = *make };
	k.arch = cu_arch_find(make->arch);
	if (!k.arch) {
		die("no kernels for %s", make->arch);
	}
	k.nv = nv_open(&ctx->perm, &why);
	if (!k.nv) {
		out->missing = why;
		return true;
	}
	if (!nv_supports(k.nv, k.arch, &ctx->perm, &why)) {
		out->missing = why;
		return true;
	}
	if (!make->no_cache) {
		cg_cache_open(&k.cache, &ctx->perm);
	}
	k.made = arena_alloc(&ctx->perm, sizeof *k.made * (make->nsources + 1));
	k.had = arena_alloc(&ctx->perm, sizeof *k.had * (make->nsources + 1));
	out->at = arena_alloc(&ctx->perm, sizeof *out->at *
			      (make->nsources + 1));
	out->made_by = arena_printf(&ctx->perm, "%s, %s", nv_version(k.nv),
				    make->arch);
	return make_all(&k, out);
}

/*
 * Memory: one gate to the system, a pool of freed blocks, and arenas.  No
 * object is freed alone, so none is freed twice.
 */
#include "ir/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * Under AddressSanitizer what no object has of a chunk is poisoned, and objects
 * lie apart, so that an overrun hits a redzone instead of a neighbour.  With a
 * chunk for each object, malloc took a third of a search's time.
 */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define SANITIZED 0
#endif
#define CHUNK_BYTES ((size_t)64 * 1024)
#define FIRST_BYTES ((size_t)4 * 1024)	/* of an arena's first chunk: most
					 * arenas stay small */
/* A chunk with its header and the pool's is a whole number of pages. */
#define CHUNK_HEADERS ((size_t)32)

struct arena_chunk {
	struct arena_chunk *older;
	size_t bytes;
};

#define HEADER_BYTES ((sizeof(struct arena_chunk) + 15) / 16 * 16)

static void *
libc_get(void *user, size_t bytes)
{
	(void)user;
	return malloc(bytes);
}

static void
libc_put(void *user, void *p)
{
	(void)user;
	free(p);
}

static void
exit_oom(void *user, size_t bytes)
{
	(void)user;
	fprintf(stderr, "llmc: error: out of memory (%zu bytes asked for)\n",
		bytes);
	exit(1);
}

void
mem_init(struct mem *m)
{
	m->get = libc_get;
	m->put = libc_put;
	m->oom = exit_oom;
	m->user = NULL;
}

/* ---- pools ---- */

#define PAGE ((size_t)4096)
#define LARGE_PAGE ((size_t)2 << 20)
#define SLAB_BYTES ((size_t)32 << 20)	/* pages that are not touched cost
					 * nothing */
#define SMALL_BYTES (PAGE / 2)	/* smaller blocks come from the gate below */
#define EXACT_SIZES ((size_t)64)	/* lists by number of pages up to here,
					 * then by powers of two */

/*
 * A run of pages, free or in use; a slab is a sequence of runs.  `pages` is 0
 * for a small block, which is in no slab.
 */
struct mem_run {
	uint32_t pages, before;	/* its own; the last run's, or 0 */
	bool waits, last;
};

#define RUN_BYTES ((sizeof(struct mem_run) + 15) / 16 * 16)

/* A free run, in a list of runs of about its size. */
struct mem_free {
	struct mem_run run;
	struct mem_free *next, **link;
};

struct mem_slab {
	struct mem_slab *older;
};

static size_t
size_of(size_t pages)
{
	size_t size = EXACT_SIZES;

	if (pages < EXACT_SIZES) {
		return pages;
	}
	while (pages >= 2 * EXACT_SIZES && size + 1 < MEM_POOL_SIZES) {
		pages /= 2;
		size++;
	}
	return size;
}

static struct mem_run *
run_behind(struct mem_run *r)
{
	return r->last ? NULL
		       : (struct mem_run *)((char *)r + r->pages * PAGE);
}

static void
hang(struct mem_pool *p, struct mem_run *r)
{
	struct mem_free *x = (struct mem_free *)r;

	r->waits = true;
	x->link = &p->waiting[size_of(r->pages)];
	x->next = *x->link;
	if (x->next) {
		x->next->link = &x->next;
	}
	*x->link = x;
}

static void
unhang(struct mem_run *r)
{
	struct mem_free *x = (struct mem_free *)r;

	r->waits = false;
	*x->link = x->next;
	if (x->next) {
		x->next->link = x->link;
	}
}

static void
tell_behind(struct mem_run *r)
{
	struct mem_run *behind = run_behind(r);

	if (behind) {
		behind->before = r->pages;
	}
}

/*
 * Cuts r, which is in no list, to so many pages; the rest becomes a free run.
 */
static void
cut_run(struct mem_pool *p, struct mem_run *r, uint32_t pages)
{
	struct mem_run *rest = (struct mem_run *)((char *)r + pages * PAGE);

	if (r->pages == pages) {
		return;
	}
	*rest = (struct mem_run){ .pages = r->pages - pages,
				  .before = pages, .last = r->last };
	r->pages = pages;
	r->last = false;
	tell_behind(rest);
	hang(p, rest);
}

/* Joins r and the run after it, which are in no list. */
static void
join_runs(struct mem_run *r)
{
	const struct mem_run *behind = run_behind(r);

	r->pages += behind->pages;
	r->last = behind->last;
	tell_behind(r);
}

/*
 * About the smallest free run that is large enough; its pages were used before.
 */
static struct mem_run *
find_run(struct mem_pool *p, uint32_t pages)
{
	size_t size;
	struct mem_free *x;

	for (size = size_of(pages); size < MEM_POOL_SIZES; size++) {
		for (x = p->waiting[size]; x; x = x->next) {
			if (x->run.pages >= pages) {
				return &x->run;
			}
		}
	}
	return NULL;
}

/*
 * Most pages of a slab get used, so they are requested as large pages: a sixth
 * of a search's time was the mapping of nine thousand small ones.  The system
 * may refuse, which changes nothing.  Who needs little memory uses less than
 * a large page, and to clear one takes longer than to map a few small ones,
 * 4 ms in a virtual machine: the first of a pool is not requested.
 */
#ifdef MADV_HUGEPAGE
static void
ask_for_large(void *at, size_t bytes)
{
	(void)madvise(at, bytes, MADV_HUGEPAGE);
}
#else
static void
ask_for_large(void *at, size_t bytes)
{
	(void)at;
	(void)bytes;
}
#endif

/* Adds a slab for at least one run. */
static bool
add_slab(struct mem_pool *p, size_t bytes)
{
	size_t all = bytes < SLAB_BYTES ? SLAB_BYTES : bytes;
	struct mem_slab *s = p->under.get(p->under.user, sizeof *s +
					  LARGE_PAGE + all);
	size_t first = p->slabs ? 0 : LARGE_PAGE;
	struct mem_run *r;

	if (!s) {
		return false;
	}
	r = (struct mem_run *)(((uintptr_t)(s + 1) + LARGE_PAGE - 1) /
			       LARGE_PAGE * LARGE_PAGE);
	ask_for_large((char *)r + first, all - first);
	s->older = p->slabs;
	p->slabs = s;
	*r = (struct mem_run){ .pages = (uint32_t)(all / PAGE), .last = true };
	hang(p, r);
	return true;
}

static void *
small_get(struct mem_pool *p, size_t bytes)
{
	struct mem_run *r = p->under.get(p->under.user, RUN_BYTES + bytes);

	if (!r) {
		return NULL;
	}
	r->pages = 0;
	return (char *)r + RUN_BYTES;
}

static void *
pool_get(void *user, size_t bytes)
{
	struct mem_pool *p = user;
	size_t pages = (RUN_BYTES + bytes + PAGE - 1) / PAGE;
	struct mem_run *r;

	/* under AddressSanitizer freed memory must not be reused */
	if (SANITIZED || bytes < SMALL_BYTES || pages > UINT32_MAX) {
		return small_get(p, bytes);
	}
	r = find_run(p, (uint32_t)pages);
	if (!r && add_slab(p, pages * PAGE)) {
		r = find_run(p, (uint32_t)pages);
	}
	if (!r) {
		return NULL;
	}
	unhang(r);
	cut_run(p, r, (uint32_t)pages);
	return (char *)r + RUN_BYTES;
}

static void
pool_put(void *user, void *at)
{
	struct mem_pool *p = user;
	struct mem_run *r, *next;

	if (!at) {
		return;
	}
	r = (struct mem_run *)((char *)at - RUN_BYTES);
	if (!r->pages) {
		p->under.put(p->under.user, r);
		return;
	}
	next = run_behind(r);
	if (next && next->waits) {
		unhang(next);
		join_runs(r);
	}
	next = r->before ? (struct mem_run *)((char *)r - r->before * PAGE)
			 : NULL;
	if (next && next->waits) {
		unhang(next);
		join_runs(next);
		r = next;
	}
	hang(p, r);
}

static void
pool_oom(void *user, size_t bytes)
{
	struct mem_pool *p = user;

	p->under.oom(p->under.user, bytes);
}

void
mem_pool_init(struct mem_pool *p, const struct mem *under, struct mem *gate)
{
	memset(p, 0, sizeof *p);
	p->under = *under;
	*gate = (struct mem){ pool_get, pool_put, pool_oom, p };
}

void
mem_pool_release(struct mem_pool *p)
{
	while (p->slabs) {
		struct mem_slab *s = p->slabs;

		p->slabs = s->older;
		p->under.put(p->under.user, s);
	}
}

/* ---- redzones ---- */

#if SANITIZED
/* Memory that is not zeroed has the bytes that malloc gives it there. */
static void
poison(char *p, size_t bytes)
{
	memset(p, 0xbe, bytes);
	ASAN_POISON_MEMORY_REGION(p, bytes);
}

static void
unpoison(char *p, size_t bytes)
{
	ASAN_UNPOISON_MEMORY_REGION(p, bytes);
}

/* After an object of so many bytes: about as much as malloc has between two, so
 * that two small elements too far is no neighbour, either. */
static size_t
gap_of(size_t bytes)
{
	size_t gap = (bytes / 4 + 15) / 16 * 16;

	return gap < 32 ? 32 : gap < 2048 ? gap : 2048;
}

/* A test's own gate gets a request for each object, so that each can fail. */
static bool
is_apart(const struct mem *m)
{
	while (m->get == pool_get) {
		m = &((const struct mem_pool *)m->user)->under;
	}
	return m->get != libc_get;
}
#else
static void
poison(char *p, size_t bytes)
{
	(void)p;
	(void)bytes;
}

static void
unpoison(char *p, size_t bytes)
{
	(void)p;
	(void)bytes;
}

static size_t
gap_of(size_t bytes)
{
	(void)bytes;
	return 0;
}

static bool
is_apart(const struct mem *m)
{
	(void)m;
	return false;
}
#endif

/* ---- arenas ---- */

void
arena_init(struct arena *a, struct mem *m)
{
	memset(a, 0, sizeof *a);
	a->mem = m;
}

void
arena_release(struct arena *a)
{
	while (a->chunks) {
		struct arena_chunk *c = a->chunks;

		a->chunks = c->older;
		a->mem->put(a->mem->user, c);
	}
	a->next = a->end = NULL;
	a->size = 0;
	a->total_bytes = 0;
}

/* A new chunk; the caller has checked that bytes is sane. */
static char *
new_chunk(struct arena *a, size_t bytes)
{
	struct arena_chunk *c = a->mem->get(a->mem->user,
					    HEADER_BYTES + bytes);

	if (!c) {
		a->mem->oom(a->mem->user, bytes);
		die("the oom hook returned");
	}
	c->older = a->chunks;
	c->bytes = bytes;
	a->chunks = c;
	a->total_bytes += HEADER_BYTES + bytes;
	return (char *)c + HEADER_BYTES;
}

/*
 * Adds a chunk for many objects, twice as large as the one before it up to a
 * limit.
 */
static void
next_chunk(struct arena *a, size_t bytes)
{
	size_t size = a->size ? a->size * 2 : FIRST_BYTES;

	while (size < bytes + CHUNK_HEADERS) {
		size *= 2;
	}
	if (size > CHUNK_BYTES) {
		size = CHUNK_BYTES;
	}
	a->size = size;
	a->next = new_chunk(a, size - CHUNK_HEADERS);
	a->end = a->next + size - CHUNK_HEADERS;
	poison(a->next, size - CHUNK_HEADERS);
	a->next += gap_of(0);
}

/* Memory that is not zeroed; *bytes is rounded up to a multiple of 16. */
static char *
take(struct arena *a, size_t *bytes)
{
	size_t n = *bytes, gap;
	char *p;

	if (n > (size_t)1 << 40) {
		a->mem->oom(a->mem->user, n);
	}
	*bytes = n = n ? (n + 15) / 16 * 16 : 16;
	if (n * 4 > CHUNK_BYTES || is_apart(a->mem)) {
		return new_chunk(a, n);
	}
	gap = gap_of(n);
	if (!a->next || (size_t)(a->end - a->next) < n + gap) {
		next_chunk(a, gap_of(0) + n + gap);
	}
	p = a->next;
	unpoison(p, n);
	a->next += n + gap;
	return p;
}

void *
arena_alloc_raw(struct arena *a, size_t bytes)
{
	return take(a, &bytes);
}

void *
arena_alloc(struct arena *a, size_t bytes)
{
	char *p = take(a, &bytes);

	return memset(p, 0, bytes);
}

void *
arena_dup(struct arena *a, const void *p, size_t bytes)
{
	size_t size = bytes;
	char *q = take(a, &size);

	memset(q + bytes, 0, size - bytes);
	return bytes ? memcpy(q, p, bytes) : q;
}

char *
arena_strndup(struct arena *a, const char *s, size_t n)
{
	size_t size = n + 1;
	char *p = take(a, &size);

	if (n) {
		memcpy(p, s, n);
	}
	memset(p + n, 0, size - n);
	return p;
}

void *
arena_grow(struct arena *a, void *p, size_t old_bytes, size_t bytes)
{
	void *q = arena_alloc(a, bytes);

	if (old_bytes) {
		memcpy(q, p, old_bytes < bytes ? old_bytes : bytes);
	}
	return q;
}

void
arena_join(struct arena *to, struct arena *from)
{
	struct arena_chunk *oldest = from->chunks;

	if (!oldest) {
		return;
	}
	while (oldest->older) {
		oldest = oldest->older;
	}
	oldest->older = to->chunks;
	to->chunks = from->chunks;
	to->total_bytes += from->total_bytes;
	arena_init(from, from->mem);
}

#define VEC_LARGE ((size_t)16 * 1024)

void
vec_grow(struct arena *a, void **at, uint32_t *cap, size_t item_bytes)
{
	size_t old_bytes = *cap * item_bytes, bytes;
	/*
	 * the old copy was touched, spare capacity is not: grow large ones more
	 */
	uint32_t n = !*cap ? 8 : *cap * (old_bytes < VEC_LARGE ? 2 : 4);
	void *to;

	if (n < *cap) {
		a->mem->oom(a->mem->user, SIZE_MAX);
	}
	bytes = n * item_bytes;
	to = take(a, &bytes);	/* not zeroed, so that pages stay untouched */
	if (old_bytes) {
		memcpy(to, *at, old_bytes);
	}
	*at = to;
	*cap = n;
}

void
die_at(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "llmc: %s:%d: internal error: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

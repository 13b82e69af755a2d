/*
 * Memory: one gate to the system, and arenas.  A compiler run owns two
 * arenas (perm, tmp); nothing is freed alone, so nothing is freed twice.
 */
#include "ir/base.h"

#include <stdlib.h>
#include <string.h>

/*
 * Under AddressSanitizer each object gets a chunk of its own, so that an
 * overrun hits a redzone instead of its neighbour.
 */
#if defined(__SANITIZE_ADDRESS__)
#define CHUNK_BYTES ((size_t)0)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHUNK_BYTES ((size_t)0)
#endif
#endif
#ifndef CHUNK_BYTES
#define CHUNK_BYTES ((size_t)64 * 1024)
#endif

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

#define POOL_STEP ((size_t)16 * 1024)
#define POOL_EXTRA ((size_t)64)	/* so that a chunk and its header is 4 steps */
#define POOL_STEPS ((size_t)64)	/* sizes of so many steps, then of twice that */

struct mem_block {
	struct mem_block *next;
	size_t size;		/* its place in waiting[]; 0: it does not */
};

/* The size of a request, and its bytes as they are asked for. */
static size_t
size_of(size_t bytes, size_t *whole)
{
	size_t steps, size;

	*whole = bytes;
	/* where each object has its chunk, it shall not come back */
	if (bytes < POOL_STEP || !CHUNK_BYTES) {
		return 0;
	}
	size = steps = (bytes - POOL_EXTRA + POOL_STEP - 1) / POOL_STEP;
	if (steps > POOL_STEPS) {
		for (steps = POOL_STEPS, size = POOL_STEPS;
		     steps * POOL_STEP + POOL_EXTRA < bytes; size++) {
			steps *= 2;
		}
	}
	if (size >= MEM_POOL_SIZES) {
		return 0;
	}
	*whole = steps * POOL_STEP + POOL_EXTRA;
	return size;
}

static void *
pool_get(void *user, size_t bytes)
{
	struct mem_pool *p = user;
	size_t whole, size = size_of(bytes, &whole);
	struct mem_block *b;

	b = p->waiting[size];
	if (b) {
		p->waiting[size] = b->next;
		return b + 1;
	}
	b = p->under.get(p->under.user, sizeof *b + whole);
	if (b) {
		b->size = size;
	}
	return b ? b + 1 : NULL;
}

static void
pool_put(void *user, void *at)
{
	struct mem_pool *p = user;
	struct mem_block *b = (struct mem_block *)at - 1;

	if (!at) {
		return;
	}
	if (b->size) {
		b->next = p->waiting[b->size];
		p->waiting[b->size] = b;
	} else {
		p->under.put(p->under.user, b);
	}
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
	size_t i;

	for (i = 0; i < MEM_POOL_SIZES; i++) {
		while (p->waiting[i]) {
			struct mem_block *b = p->waiting[i];

			p->waiting[i] = b->next;
			p->under.put(p->under.user, b);
		}
	}
}

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

/* Room that is not zeroed; *bytes becomes a multiple of 16. */
static char *
take(struct arena *a, size_t *bytes)
{
	size_t n = *bytes;
	char *p;

	if (n > (size_t)1 << 40) {
		a->mem->oom(a->mem->user, n);
	}
	*bytes = n = n ? (n + 15) / 16 * 16 : 16;
	if (n * 4 > CHUNK_BYTES) {
		return new_chunk(a, n);
	}
	if (!a->next || (size_t)(a->end - a->next) < n) {
		a->next = new_chunk(a, CHUNK_BYTES);
		a->end = a->next + CHUNK_BYTES;
	}
	p = a->next;
	a->next += n;
	return p;
}

void *
arena_room(struct arena *a, size_t bytes)
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
	size_t room = bytes;
	char *q = take(a, &room);

	memset(q + bytes, 0, room - bytes);
	return bytes ? memcpy(q, p, bytes) : q;
}

char *
arena_strndup(struct arena *a, const char *s, size_t n)
{
	size_t room = n + 1;
	char *p = take(a, &room);

	if (n) {
		memcpy(p, s, n);
	}
	memset(p + n, 0, room - n);
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

char *
arena_printf(struct arena *a, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, a);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	return b.at;
}

#define VEC_LARGE ((size_t)16 * 1024)

void
vec_grow(struct arena *a, void **at, uint32_t *cap, size_t item_bytes)
{
	size_t old_bytes = *cap * item_bytes, bytes;
	/* what is left behind was touched, what is not needed never is */
	uint32_t n = !*cap ? 8 : *cap * (old_bytes < VEC_LARGE ? 2 : 4);
	void *to;

	if (n < *cap) {
		a->mem->oom(a->mem->user, SIZE_MAX);
	}
	bytes = n * item_bytes;
	to = take(a, &bytes);	/* who pushes writes: pages stay untouched */
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

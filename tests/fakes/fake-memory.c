/*
 * Memory of the driver of the tests: nobody can touch it but while it works.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "fake-driver.h"

enum { PAGE = 4096, MOST = 256 };
enum { ON_DEVICE = 1, ON_HOST = 3, LARGE = 2 << 20 };

struct block {			/* of memory */
	char *map;
	size_t mapped;
	uint64_t at;
	size_t bytes;
	int pinned;
	/* of a range of addresses, and what is mapped into it; else 0 */
	size_t reserved;
	uint64_t parts[2];
	int nparts, open;
};

struct memory {			/* that is mapped into a range */
	size_t bytes;
	int place, maps;
};

static struct block blocks[MOST];
static struct memory memories[MOST];
static int nblocks, nmemories;
static size_t used;

size_t
fake_used(void)
{
	return used;
}

int
fake_allocate(size_t bytes, int pinned, uint64_t *out)
{
	size_t rounded = (bytes + 255) / 256 * 256;
	size_t mapped = (rounded + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
	struct block *b = &blocks[nblocks];

	if (nblocks == MOST || bytes == 0) {
		return INVALID;
	}
	if (!pinned && used + bytes > (size_t)fake_number("FAKE_MEMORY",
							  1l << 30)) {
		return NO_MEMORY;
	}
	b->map = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (b->map == MAP_FAILED) {
		return NO_MEMORY;
	}
	b->mapped = mapped;
	/* its end is where the page behind it begins */
	b->at = (uint64_t)(uintptr_t)b->map + mapped - PAGE - rounded;
	b->bytes = bytes;
	b->pinned = pinned;
	b->reserved = 0;
	mprotect(b->map + PAGE, mapped - 2 * PAGE, PROT_READ | PROT_WRITE);
	memset(b->map + PAGE, 0xff, mapped - 2 * PAGE);
	if (!pinned) {
		mprotect(b->map + PAGE, mapped - 2 * PAGE, PROT_NONE);
		used += bytes;
	}
	nblocks++;
	*out = b->at;
	return 0;
}

int
fake_deallocate(uint64_t at, int pinned)
{
	int i;

	for (i = 0; i < nblocks; i++) {
		struct block *b = &blocks[i];

		if (b->at == at && b->pinned == pinned) {
			munmap(b->map, b->mapped);
			used -= pinned ? 0 : b->bytes;
			*b = blocks[--nblocks];
			return 0;
		}
	}
	return INVALID;
}

/* Whether bytes are in more than one memory, which copies are not to cross. */
static int
is_across(const struct block *b, uint64_t at, size_t bytes)
{
	uint64_t edge = b->reserved && b->nparts > 1
		? b->at + memories[b->parts[0] - 1].bytes : 0;

	return at < edge && at + bytes > edge;
}

int
fake_holds(uint64_t at, size_t bytes, int pinned)
{
	int i;

	for (i = 0; i < nblocks; i++) {
		const struct block *b = &blocks[i];

		if (b->pinned == pinned && (!b->reserved || b->open) &&
		    at >= b->at && !is_across(b, at, bytes) &&
		    at + bytes <= b->at + b->bytes) {
			return 1;
		}
	}
	return 0;
}

/* Its memory, for as long as it works in it. */
void
fake_open_memory(int open)
{
	int i;

	for (i = 0; i < nblocks; i++) {
		struct block *b = &blocks[i];
		int rights = open ? PROT_READ | PROT_WRITE : PROT_NONE;

		if (b->reserved) {
			mprotect((void *)(uintptr_t)b->at, b->reserved, rights);
		} else if (!b->pinned) {
			mprotect(b->map + PAGE, b->mapped - 2 * PAGE,
				 rights);
		}
	}
}

int
fake_has(const void *at, size_t bytes)
{
	return fake_holds((uint64_t)(uintptr_t)at, bytes, 0);
}

/* ---- ranges of addresses ---- */

static struct block *
range_of(uint64_t at)
{
	int i;

	for (i = 0; i < nblocks; i++) {
		if (blocks[i].reserved && at >= blocks[i].at &&
		    at < blocks[i].at + blocks[i].reserved) {
			return &blocks[i];
		}
	}
	return NULL;
}

static int
range_reserve(uint64_t *out, size_t bytes, size_t align, uint64_t at,
	      unsigned long long flags)
{
	struct block *b = &blocks[nblocks];
	uint64_t first;

	ENTER;
	if (nblocks == MOST || bytes == 0 || bytes % LARGE || at || flags) {
		return INVALID;
	}
	b->mapped = bytes + align + 2 * PAGE;
	b->map = mmap(NULL, b->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		      MAP_NORESERVE, -1, 0);
	if (b->map == MAP_FAILED) {
		return NO_MEMORY;
	}
	first = (uint64_t)(uintptr_t)b->map + PAGE;
	b->at = (first + align - 1) / align * align;
	b->reserved = bytes;
	b->bytes = 0;
	b->pinned = b->nparts = b->open = 0;
	nblocks++;
	*out = b->at;
	fake_live(MEMORY, 1);
	return 0;
}

static int
range_free(uint64_t at, size_t bytes)
{
	struct block *b = range_of(at);

	if (!b || b->at != at || b->reserved != bytes || b->bytes) {
		return INVALID;
	}
	munmap(b->map, b->mapped);
	*b = blocks[--nblocks];
	fake_live(MEMORY, -1);
	return 0;
}

static int
memory_create(uint64_t *out, size_t bytes, const int *what,
	      unsigned long long flags)
{
	int place = what[2];

	ENTER;
	if (nmemories == MOST || what[0] != 1 || what[1] || flags ||
	    bytes % LARGE || (place != ON_DEVICE && place != ON_HOST)) {
		return INVALID;
	}
	if (place == ON_DEVICE
		? used + bytes > (size_t)fake_number("FAKE_MEMORY", 1l << 30)
		: bytes > (size_t)fake_number("FAKE_HOST_MEMORY", 1l << 40)) {
		return NO_MEMORY;
	}
	used += place == ON_DEVICE ? bytes : 0;
	memories[nmemories] = (struct memory){ bytes, place, 0 };
	*out = (uint64_t)++nmemories;
	fake_live(place == ON_DEVICE ? MEMORY : PINNED, 1);
	fake_mapped(place == ON_HOST ? bytes : 0);
	return 0;
}

static int
memory_release(uint64_t handle)
{
	struct memory *m = &memories[handle - 1];

	used -= m->place == ON_DEVICE ? m->bytes : 0;
	fake_live(m->place == ON_DEVICE ? MEMORY : PINNED, -1);
	return m->maps ? INVALID : 0;
}

/* One after the other, from the range's begin. */
static int
memory_map(uint64_t at, size_t bytes, size_t offset, uint64_t handle,
	   unsigned long long flags)
{
	struct block *b = range_of(at);

	ENTER;
	if (!b || at != b->at + b->bytes || offset || flags || !handle ||
	    memories[handle - 1].bytes != bytes ||
	    b->bytes + bytes > b->reserved) {
		return INVALID;
	}
	memories[handle - 1].maps++;
	b->parts[b->nparts++] = handle;
	b->bytes += bytes;
	return 0;
}

static int
memory_unmap(uint64_t at, size_t bytes)
{
	struct block *b = range_of(at);
	int i;

	for (i = 0; b && i < b->nparts; i++) {
		struct memory *m = &memories[b->parts[i] - 1];

		if (m->maps && m->bytes == bytes) {
			m->maps = 0;
			b->bytes -= bytes;
			return 0;
		}
	}
	return INVALID;
}

/* Until then, its memory cannot be used. */
static int
range_access(uint64_t at, size_t bytes, const int *who, size_t n)
{
	struct block *b = range_of(at);

	ENTER;
	if (!b || b->at != at || b->bytes != bytes || n != 1 ||
	    who[0] != ON_DEVICE || who[2] != 3) {
		return INVALID;
	}
	b->open = 1;
	return 0;
}

/* ---- calls ---- */

#define UNSEEN do { int bad_ = fake_unseen(); if (bad_) return bad_; } while (0)

struct copy {
	uint64_t to, from;
	size_t bytes;
	int value;
};

static int
run_copy(struct fake_op *op)
{
	struct copy *c = (void *)op->data;

	fake_spend(1000);
	fake_open_memory(1);
	if (c->value >= 0) {
		memset((void *)(uintptr_t)c->to, c->value, c->bytes);
	} else {
		memmove((void *)(uintptr_t)c->to,
			(void *)(uintptr_t)c->from, c->bytes);
	}
	fake_open_memory(0);
	return FAKE_DONE;
}

static int
queue_copy(uint64_t to, int to_host, uint64_t from, int from_host,
	   size_t bytes, int value, void *stream)
{
	struct copy c = { to, from, bytes, value };
	struct fake_op *op;

	ENTER;
	if (!fake_holds(to, bytes, to_host) ||
	    (value < 0 && !fake_holds(from, bytes, from_host))) {
		return INVALID;
	}
	op = fake_op(run_copy, sizeof c);
	memcpy(op->data, &c, sizeof c);
	fake_queue(stream, op);
	return 0;
}

static int
to_device(uint64_t to, const void *from, size_t bytes, void *stream)
{
	return queue_copy(to, 0, (uint64_t)(uintptr_t)from, 1, bytes, -1,
			  stream);
}

static int
to_host(void *to, uint64_t from, size_t bytes, void *stream)
{
	return queue_copy((uint64_t)(uintptr_t)to, 1, from, 0, bytes, -1,
			  stream);
}

static int
copy(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
	return queue_copy(to, 0, from, 0, bytes, -1, stream);
}

static int
set(uint64_t to, unsigned char value, size_t bytes, void *stream)
{
	return queue_copy(to, 0, 0, 0, bytes, value, stream);
}

static int
alloc(uint64_t *out, size_t bytes)
{
	int r;

	ENTER;
	UNSEEN;
	r = fake_allocate(bytes, 0, out);
	fake_live(MEMORY, r == 0);
	return r;
}

static int
release(uint64_t at)
{
	int r;

	UNSEEN;
	r = fake_deallocate(at, 0);
	fake_live(MEMORY, -(r == 0));
	return r;
}

static int
pin(void **out, size_t bytes, unsigned flags)
{
	uint64_t at = 0;
	int r;

	(void)flags;
	ENTER;
	UNSEEN;
	r = fake_allocate(bytes, 1, &at);
	*out = (void *)(uintptr_t)at;
	fake_live(PINNED, r == 0);
	return r;
}

static int
unpin(void *at)
{
	int r;

	UNSEEN;
	r = fake_deallocate((uint64_t)(uintptr_t)at, 1);
	fake_live(PINNED, -(r == 0));
	return r;
}

static int
memory(size_t *free_bytes, size_t *total)
{
	ENTER;
	*total = (size_t)fake_number("FAKE_MEMORY", 1l << 30);
	*free_bytes = *total - fake_used();
	return 0;
}

const struct fake_name fake_memory_names[] = {
	{ "cuMemAddressReserve", range_reserve },
	{ "cuMemAddressFree", range_free }, { "cuMemSetAccess", range_access },
	{ "cuMemCreate", memory_create }, { "cuMemRelease", memory_release },
	{ "cuMemMap", memory_map }, { "cuMemUnmap", memory_unmap },
	{ "cuMemAlloc", alloc }, { "cuMemFree", release },
	{ "cuMemHostAlloc", pin }, { "cuMemFreeHost", unpin },
	{ "cuMemcpyHtoDAsync", to_device }, { "cuMemcpyDtoHAsync", to_host },
	{ "cuMemcpyDtoDAsync", copy }, { "cuMemsetD8Async", set },
	{ "cuMemGetInfo", memory }, { NULL, NULL }
};

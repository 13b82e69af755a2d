/*
 * Memory of the driver of the tests: nobody can touch it but while it works.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "fake-driver.h"

enum { INVALID = 1, NO_MEMORY = 2, PAGE = 4096, MOST = 256 };

struct block {			/* of memory */
	char *map;
	size_t mapped;
	uint64_t at;
	size_t bytes;
	int pinned;
};

static struct block blocks[MOST];
static int nblocks;
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

int
fake_holds(uint64_t at, size_t bytes, int pinned)
{
	int i;

	for (i = 0; i < nblocks; i++) {
		const struct block *b = &blocks[i];

		if (b->pinned == pinned && at >= b->at &&
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

		if (!b->pinned) {
			mprotect(b->map + PAGE, b->mapped - 2 * PAGE,
				 open ? PROT_READ | PROT_WRITE : PROT_NONE);
		}
	}
}

int
fake_has(const void *at, size_t bytes)
{
	return fake_holds((uint64_t)(uintptr_t)at, bytes, 0);
}

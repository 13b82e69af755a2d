/*
 * emulate_copy.c - addresses of shared memory, and cp.async: a copy is there
 * when its thread has waited for its group, and not earlier.
 */
#include "runtime/emulate/emulate_inner.h"

#include <stdlib.h>
#include <string.h>

/* ---- addresses ---- */

unsigned
emu_address(const void *p)
{
	struct rt_emu *e = emu_now;
	struct emu_block *b = e->now->block;
	int64_t at = (const char *)p - b->smem;

	if (at < 0 || at > b->smem_bytes) {
		emu_fail(e, "smem_addr of what is not in shared memory");
	}
	return (unsigned)at + EMU_SMEM_BASE;
}

unsigned
emu_map_cta(unsigned at, int cta)
{
	struct rt_emu *e = emu_now;

	if (cta < 0 || cta >= e->nblocks) {
		emu_fail(e, "there is no block %d in a cluster of %d", cta,
			 e->nblocks);
	}
	return (at & ((1u << EMU_CTA_SHIFT) - 1)) |
		(unsigned)(cta + 1) << EMU_CTA_SHIFT;
}

struct emu_block *
emu_block_of(struct rt_emu *e, unsigned at)
{
	unsigned cta = at >> EMU_CTA_SHIFT;

	if (cta == 0) {
		return e->now->block;
	}
	if (cta > (unsigned)e->nblocks) {
		emu_fail(e, "%#x is no address of shared memory", at);
	}
	return &e->blocks[cta - 1];
}

char *
emu_smem(struct rt_emu *e, unsigned at, int64_t n, int64_t align,
	 const char *what)
{
	struct emu_block *b = emu_block_of(e, at);
	int64_t offset = (int64_t)(at & ((1u << EMU_CTA_SHIFT) - 1)) -
		EMU_SMEM_BASE;

	if (offset < 0 || offset + n > b->smem_bytes) {
		emu_fail(e, "%s of %lld bytes at %lld of shared memory, which "
			 "has %lld", what, (long long)n, (long long)offset,
			 (long long)b->smem_bytes);
	}
	if (offset % align) {
		emu_fail(e, "%s at %lld of shared memory, which is not on "
			 "%lld bytes", what, (long long)offset,
			 (long long)align);
	}
	return b->smem + offset;
}

/* ---- cp.async ---- */

static void
finish(struct rt_emu *e, const struct emu_copy *c)
{
	char *to = emu_smem(e, c->at, c->room, c->room, "cp.async");

	if (c->bytes == 16) {
		memcpy(to, c->from, 16);
		emu_check_landed(e, c->at, 16);
		return;
	}
	memcpy(to, c->from, (size_t)c->bytes);
	memset(to + c->bytes, 0, (size_t)(c->room - c->bytes));
	emu_check_landed(e, c->at, c->room);
}

void
emu_cp_async(unsigned to, const void *from, int bytes, int room)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	struct emu_copy *more;

	if (bytes < 0 || bytes > room) {
		emu_fail(e, "cp.async of %d bytes of %d", bytes, room);
	}
	if ((uintptr_t)from % (unsigned)room) {
		emu_fail(e, "cp.async of %d bytes from %p, which is not on "
			 "as many", room, (const void *)from);
	}
	emu_smem(e, to, room, room, "cp.async");
	emu_check_global(e, from, bytes, false);
	emu_check_issue(e, to, room);
	if (t->ncopies == t->room) {
		t->room = t->room ? 2 * t->room : 64;
		more = realloc(t->copies, (size_t)t->room * sizeof *more);
		if (!more) {
			emu_fail(e, "out of memory");
		}
		t->copies = more;
	}
	t->copies[t->ncopies] = (struct emu_copy){ to, from, bytes, room,
						   t->group };
	if (e->seed && emu_random(e) % 2) {
		/* data may be there early; that it is cannot be known */
		memcpy(emu_smem(e, to, room, room, "cp.async"), from,
		       (size_t)bytes);
	}
	t->ncopies++;
}

void
emu_cp_commit(void)
{
	emu_now->now->group++;
}

/* All but the n newest groups are there. */
void
emu_cp_wait(int n)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	int i, k = 0;

	for (i = 0; i < t->ncopies; i++) {
		if (t->copies[i].group < t->group - n) {
			finish(e, &t->copies[i]);
		} else {
			t->copies[k++] = t->copies[i];
		}
	}
	t->ncopies = k;
}

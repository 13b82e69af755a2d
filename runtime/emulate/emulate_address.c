/*
 * Addresses of shared memory: to a kernel they are numbers, as on a GPU, which
 * also hold the block of the cluster (0: the own one).
 */
#include "runtime/emulate/emulate_inner.h"

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

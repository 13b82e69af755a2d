/*
 * Items that blocks take one by one, where there are more of them than blocks.
 * With items in a fixed order a block that starts late, as its multiprocessor
 * still runs a kernel of NCCL, has as many left as all others had at the start;
 * and a block whose items are long keeps all waiting.  Here it finds fewer.
 *
 * The first item of a block follows from its number.  One of its threads takes
 * the next ones from a counter in global memory, in their order, and passes
 * them to the others: how, is up to the kernel.  So every item is made by one
 * block, to the same bits whichever that is.
 *
 * The last block that has found no item sets the counter to 0 for the next
 * kernel, and the number of such blocks: all others have theirs already.
 */
#include "codegen/cuda/cuda.h"

void
cu_take_first(struct cu_func *f, const struct cu_take *t)
{
	cu_line(f, "i32 *const taken = (i32 *)(u64)a.live + %d;",
		2 * RT_NUMBERS);
	cu_line(f, "int %s = %s < %lld ? (int)(%s) : -1;", t->item, t->first,
		(long long)t->items, t->first);
}

void
cu_take_next(struct cu_func *f, const struct cu_take *t)
{
	if (t->who) {
		cu_line(f, "if (%s) {", t->who);
	}
	cu_line(f, "%s = %s + atomic_add_i32(taken, 1);", t->item, t->takers);
	cu_line(f, "%s = %s < %lld ? %s : -1;", t->item, t->item,
		(long long)t->items, t->item);
	if (t->who) {
		cu_line(f, "}");
	}
}

/*
 * All lanes read, though one would do: a load on a condition leaves the
 * assembler unsure that the warp goes one way from there on, and it keeps the
 * descriptors of wgmma in registers of lanes.  By the shuffle it sees that all
 * have the same.
 */
void
cu_take_read(struct cu_func *f, const char *item, const char *at)
{
	cu_line(f, "const int %s = (int)shfl_u32((u32)%s, 0);", item, at);
	cu_comment(f, "all have read it before one says so");
	cu_line(f, "sync_warp();");
}

void
cu_take_end(struct cu_func *f, const struct cu_take *t)
{
	cu_comment(f, "the last block leaves the counters as they were");
	cu_line(f, "if (%s%satomic_add_i32(taken + 1, 1) == %s - 1) {",
		t->who ? t->who : "", t->who ? " && " : "", t->takers);
	cu_line(f, "taken[0] = taken[1] = 0;");
	cu_line(f, "}");
}

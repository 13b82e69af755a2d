/*
 * Loads, stores and atomics of checked code: of shared memory, which
 * emulate_cells.c judges, of global memory, and of registers that a product
 * still uses; and whether a block's memory is there as long as it is used.
 */
#include "runtime/emulate/emulate_cells.h"

#include <stdlib.h>
#include <string.h>

/* ---- global memory ---- */

static bool
is_allowed(struct rt_emu *e, const char *p, int64_t n)
{
	int from = 0, to = e->nallowed, i;

	while (from < to) {
		i = (from + to) / 2;
		if (p < e->allowed[i].p) {
			to = i;
		} else if (p >= e->allowed[i].p + e->allowed[i].bytes) {
			from = i + 1;
		} else {
			return p + n <= e->allowed[i].p +
				e->allowed[i].bytes;
		}
	}
	return n == 0;
}

/* Fails, naming the nearest memory that is allowed. */
static _Noreturn void
fail_outside(struct rt_emu *e, const char *p, int64_t n, bool write)
{
	int64_t best = INT64_MAX, far;
	int i, at = 0;

	for (i = 0; i < e->nallowed; i++) {
		const struct emu_range *r = &e->allowed[i];

		far = p < r->p ? r->p - p : p - (r->p + r->bytes);
		if (far < best) {
			best = far;
			at = i;
		}
	}
	emu_fail(e, "%s %lld bytes of global memory at %lld of an operand of "
		 "%lld bytes", write ? "writes" : "reads", (long long)n,
		 (long long)(p - e->allowed[at].p),
		 (long long)e->allowed[at].bytes);
}

void
emu_begin(void)
{
	emu_now->now->begun = true;
}

void
emu_check_begun(struct rt_emu *e, bool write)
{
	if (e->flags & RT_EMU_EARLY && !e->now->begun) {
		emu_fail(e, "%s global memory before launch_wait: the kernel "
			 "before it may not have ended",
			 write ? "writes" : "reads");
	}
}

void
emu_check_global(struct rt_emu *e, const void *p, int64_t n, bool write)
{
	if (e->shadow && e->nallowed && !is_allowed(e, p, n)) {
		fail_outside(e, p, n, write);
	}
}

/* ---- plain loads and stores ---- */

/* Sums and other registers that a wgmma under way uses. */
static void
touch_sums(struct rt_emu *e, const char *p, long n, bool write)
{
	struct emu_knower *k = emu_knower(e, e->now);
	int i;

	if (p + n <= k->sums_from || p >= k->sums_to) {
		return;
	}
	for (i = 0; i < k->nsums; i++) {
		if (p + n <= k->sums[i].p ||
		    p >= k->sums[i].p + k->sums[i].bytes) {
			continue;
		}
		if (k->sums[i].pending) {
			emu_fail(e, "%s registers of a %s has waited for",
				 write ? "writes" : "reads", k->sums[i].loaded
				 ? "tc_ld that no tc_wait"
				 : "wgmma that no wg_wait");
		}
		if (write) {
			e->now->wg_fenced = false;
		}
	}
}

/* Variables of the library itself: the current thread, and the functions to
 * call. */
static bool
is_own(const struct rt_emu *e, const char *p)
{
	const char *now = (const char *)e->now;
	const char *calls = (const char *)e->calls;
	/* the two variables are next to each other */
	const char *self = (const char *)e->self;

	return (p >= self - 16 && p < self + 16) ||
	       (p >= now && p < now + sizeof *e->now) ||
	       (p >= calls && p < calls + sizeof *e->calls) ||
	       (p >= e->args && p < e->args + e->args_capacity) ||
	       (p >= e->lib->from && p < e->lib->to);
}

/* Where a thread has its own variables, and what stands for registers. */
static inline bool
is_stack(const struct rt_emu *e, const char *p)
{
	return p >= e->stacks && p < e->stacks_end;
}

static void
touch(const void *address, long n, bool write, bool atomic)
{
	struct rt_emu *e = emu_now;
	const struct emu_block *b = e->now->block;
	const char *p = address;
	int64_t at = p - b->smem;
	struct emu_cells r;

	if (at >= 0 && at + n <= b->smem_bytes) {
		r = emu_cells_of(e, b, at, n);
		if (atomic) {
			emu_cells_check_write(e, e->now, r, true);
			emu_cells_atomic(r, emu_index(e, e->now),
					 emu_knower(e, e->now)->clock);
		} else if (write) {
			emu_cells_write(e, e->now, r.cell, r.at, r.end);
		} else {
			emu_cells_read(e, e->now, r.cell, r.at, r.end);
		}
		return;
	}
	if (is_stack(e, p)) {
		touch_sums(e, p, n, write);
		return;
	}
	if (at > -EMU_APART && at < b->smem_bytes + EMU_APART) {
		emu_fail(e, "%s %ld bytes at %lld of shared memory, which "
			 "has %lld", write ? "writes" : "reads", n,
			 (long long)at, (long long)b->smem_bytes);
	}
	if (is_own(e, p)) {
		return;
	}
	emu_check_begun(e, write);
	if (e->nallowed && !is_allowed(e, p, n)) {
		fail_outside(e, p, n, write);
	}
}

/* Whether an access cannot be a mistake: most of all are of this kind. */
static inline bool
is_harmless(const void *p)
{
	const struct rt_emu *e = emu_now;

	return is_stack(e, p) && !e->shadow->has_sums;
}

void
emu_load(const void *p, long n)
{
	if (!is_harmless(p)) {
		touch(p, n, false, false);
	}
}

void
emu_store(const void *p, long n)
{
	if (!is_harmless(p)) {
		touch(p, n, true, false);
	}
}

void
emu_atomic(const void *p, long n)
{
	if (emu_now->shadow) {
		touch(p, n, true, true);
	}
}

/* ---- fences, registers ---- */

void
emu_fence_async(void)
{
	struct rt_emu *e = emu_now;

	if (e->shadow) {
		emu_past_fenced(e, e->now, &emu_knower(e, e->now)->fenced);
	}
}

void
emu_regs(int n, int more)
{
	struct rt_emu *e = emu_now;

	if (n < 24 || n > 256 || n % 8) {
		emu_fail(e, "%s(%d): 24 to 256 by eights are legal",
			 more ? "regs_more" : "regs_fewer", n);
	}
}

/* ---- the end of a block ---- */

void
emu_check_far(struct rt_emu *e, unsigned at)
{
	int block = (int)(emu_block_of(e, at) - e->blocks);

	if (e->shadow && block != e->now->seen.cluster_rank) {
		struct emu_knower *k = emu_knower(e, e->now);

		k->far[block] = k->clock + 1;
	}
}

/* Whether a thread of the block is ordered after `who` at that clock. */
static bool
block_knows(struct rt_emu *e, int block, int who, uint32_t clock)
{
	int n = e->blocks[0].ntasks, i;

	for (i = block * n; i < (block + 1) * n; i++) {
		if (e->shadow->knowers[i].past->at[who] >= clock) {
			return true;
		}
	}
	return false;
}

/* A block's shared memory is gone when its threads have ended, and another
 * block that still uses it then uses what may be a third one's. */
void
emu_check_end(struct rt_emu *e)
{
	int who, block;

	for (who = 0; e->shadow && who < e->shadow->nknowers; who++) {
		const struct emu_knower *k = &e->shadow->knowers[who];

		for (block = 0; block < e->nblocks; block++) {
			if (k->far[block] &&
			    !block_knows(e, block, who, k->far[block] - 1)) {
				emu_fail(e, "block %d of the cluster may have "
					 "ended when %s uses its shared "
					 "memory: no cluster_sync comes after",
					 block, emu_name_of(e, who).text);
			}
		}
	}
}

/* ---- life cycle ---- */

enum rt_status
emu_check_open_launch(struct rt_emu *e, struct rt_error *err)
{
	struct emu_shadow *s;
	int64_t n;
	int i;

	if (!(e->flags & RT_EMU_CHECK)) {
		return RT_OK;
	}
	if (!e->shadow) {
		e->shadow = calloc(1, sizeof *e->shadow);
	}
	s = e->shadow;
	for (i = 0; s && i < e->nblocks; i++) {
		n = e->blocks[i].smem_bytes / 4 + 1;
		if (n > s->cell_capacity[i]) {
			free(s->cells[i]);
			s->cells[i] = malloc((size_t)n * sizeof **s->cells);
			s->cell_capacity[i] = s->cells[i] ? n : 0;
		}
		if (!s->cells[i]) {
			return rt_no_memory(err, NULL);
		}
	}
	return s ? emu_past_open(e, err) : rt_no_memory(err, NULL);
}

void
emu_check_start(struct rt_emu *e)
{
	int i;

	for (i = 0; e->shadow && i < e->nblocks; i++) {
		memset(e->shadow->cells[i], 0,
		       (size_t)(e->blocks[i].smem_bytes / 4 + 1) *
			       sizeof **e->shadow->cells);
	}
	if (e->shadow) {
		emu_past_start(e);
	}
}

void
emu_check_free(struct rt_emu *e)
{
	int i;

	if (!e->shadow) {
		return;
	}
	emu_past_free(e);
	for (i = 0; i < EMU_MAX_CLUSTER; i++) {
		free(e->shadow->cells[i]);
	}
	free(e->shadow);
	e->shadow = NULL;
}

/*
 * Kernels with one mistake each, for t-emulate.c to see it reported.  All are
 * legal C; what is wrong is said above each.
 */
#include "prelude.h"

struct fault_args {
	char *at[2];
	i64 num[1];
	char *shared;
	const i64 *live;
	tensor_map map[2];
};

/* ---- plain loads and stores ---- */

/* No barrier between a write and a read by another warp. */
KERNEL(write_read, 64, 1, struct fault_args)
{
	f32 *s = (f32 *)SMEM;

	s[TID] = (f32)TID;
	((f32 *)a.at[0])[TID] = s[63 - TID];
}

/* No barrier between a read and a write by another warp. */
KERNEL(read_write, 64, 1, struct fault_args)
{
	f32 *s = (f32 *)SMEM, x;

	s[TID] = (f32)TID;
	sync_block();
	x = s[63 - TID];
	s[TID] = x;
}

KERNEL(write_write, 64, 1, struct fault_args)
{
	f32 *s = (f32 *)SMEM;

	s[TID % 32] = (f32)TID;
}

/* Lanes of a warp do not run in step. */
KERNEL(lanes, 32, 1, struct fault_args)
{
	f32 *s = (f32 *)SMEM;

	s[TID] = (f32)TID;
	((f32 *)a.at[0])[TID] = s[TID ^ 1];
}

/* The barrier is one of a warp, the reader in another. */
KERNEL(too_small, 64, 1, struct fault_args)
{
	f32 *s = (f32 *)SMEM;

	s[TID] = (f32)TID;
	sync_warp();
	((f32 *)a.at[0])[TID] = s[TID ^ 32];
}

/* Half of a word is written by a neighbour without harm, then read by him. */
KERNEL(halves, 32, 1, struct fault_args)
{
	bf16 *s = (bf16 *)SMEM;

	s[TID] = (bf16)TID;
	((bf16 *)a.at[0])[TID] = s[TID ^ 1];
}

KERNEL(nobody_wrote, 32, 1, struct fault_args)
{
	((f32 *)a.at[0])[TID] = ((f32 *)SMEM)[TID];
}

KERNEL(past_shared, 32, 1, struct fault_args)
{
	((f32 *)SMEM)[TID + 5000] = 0;
}

KERNEL(past_global, 32, 1, struct fault_args)
{
	((f32 *)a.at[0])[TID + a.num[0]] = 0;
}

/* An atomic beside a plain write. */
KERNEL(half_atomic, 64, 1, struct fault_args)
{
	i32 *s = (i32 *)SMEM;

	if (TID == 0) {
		s[0] = 0;
	}
	atomic_add_i32(s, 1);
}

/* ---- threads that meet ---- */

KERNEL(missing_warp, 64, 1, struct fault_args)
{
	if (WARP == 0) {
		sync_block();
	}
}

KERNEL(two_counts, 96, 1, struct fault_args)
{
	sync_named(1, WARP == 0 ? 64 : 96);
}

KERNEL(half_a_warp, 32, 1, struct fault_args)
{
	if (LANE < 16) {
		shfl_f32(1.0f, 0);
	} else {
		ballot(1);
	}
}

KERNEL(some_lanes, 32, 1, struct fault_args)
{
	if (LANE < 16) {
		shfl_f32(1.0f, 0);
	}
}

/* ---- cp.async, ldmatrix ---- */

KERNEL(not_waited, 32, 1, struct fault_args)
{
	f32 *s = (f32 *)SMEM;

	cp_async4(smem_addr(s + TID), a.at[0] + 4 * TID, 4);
	cp_async_commit();
	cp_async_wait(1);
	((f32 *)a.at[1])[TID] = s[TID];
}

/* Each thread has waited for its own copies only. */
KERNEL(waited_alone, 64, 1, struct fault_args)
{
	f32 *s = (f32 *)SMEM;

	cp_async4(smem_addr(s + TID), a.at[0] + 4 * TID, 4);
	cp_async_commit();
	cp_async_wait(0);
	((f32 *)a.at[1])[TID] = s[63 - TID];
}

/* A stage is filled again while others may still read it. */
KERNEL(filled_again, 64, 1, struct fault_args)
{
	f32 *s = (f32 *)SMEM;
	int i;

	for (i = 0; i < 2; i++) {
		cp_async4(smem_addr(s + TID), a.at[0] + 4 * TID, 4);
		cp_async_commit();
		cp_async_wait(0);
		sync_block();
		((f32 *)a.at[1])[TID] = s[63 - TID];
	}
}

KERNEL(copy_misaligned, 32, 1, struct fault_args)
{
	cp_async16(smem_addr(SMEM + 16 * TID), a.at[0] + 8 * TID, 16);
}

KERNEL(matrix_misaligned, 32, 1, struct fault_args)
{
	u32 r[4];

	ldsm4(r, smem_addr(SMEM + 8 * TID));
	((u32 *)a.at[0])[TID] = r[0];
}

/* Rows of a matrix that other warps wrote. */
KERNEL(matrix_race, 64, 1, struct fault_args)
{
	u32 r[4];

	sts16(SMEM + 16 * TID, u32x4_of(1, 2, 3, 4));
	ldsm4(r, smem_addr(SMEM + 16 * (TID ^ 32)));
	((u32 *)a.at[0])[TID] = r[0];
}

/* ---- mbarriers ---- */

KERNEL(no_mbarrier, 32, 1, struct fault_args)
{
	((u32 *)SMEM)[TID] = 0;
	sync_warp();
	mbar_arrive(smem_addr(SMEM));
}

KERNEL(mbarrier_unseen, 64, 1, struct fault_args)
{
	if (TID == 0) {
		mbar_init(smem_addr(SMEM), 64);
	}
	if (TID >= 32) {
		mbar_arrive(smem_addr(SMEM));
	}
}

KERNEL(mbarrier_written, 32, 1, struct fault_args)
{
	if (TID == 0) {
		mbar_init(smem_addr(SMEM), 32);
		((u32 *)SMEM)[0] = 0;
	}
	sync_block();
	mbar_arrive(smem_addr(SMEM));
}

KERNEL(wrong_parity, 32, 1, struct fault_args)
{
	if (TID == 0) {
		mbar_init(smem_addr(SMEM), 32);
	}
	sync_block();
	mbar_arrive(smem_addr(SMEM));
	mbar_wait(smem_addr(SMEM), 1);
}

/* One lane waits, and nothing lets its warp meet before all of it is to. */
KERNEL(waits_apart, 32, 1, struct fault_args)
{
	if (TID == 0) {
		mbar_init(smem_addr(SMEM), 1);
	}
	sync_block();
	if (LANE == 0) {
		mbar_arrive(smem_addr(SMEM));
		mbar_wait(smem_addr(SMEM), 0);
	}
	sync_named(1, 32);
}

/* What is read was written behind the arrival. */
KERNEL(arrived_early, 64, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM);
	f32 *s = (f32 *)(SMEM + 16);

	if (TID == 0) {
		mbar_init(bar, 32);
	}
	sync_block();
	if (WARP == 0) {
		mbar_arrive(bar);
		s[TID] = 1;
	} else {
		mbar_wait(bar, 0);
		((f32 *)a.at[0])[TID] = s[TID - 32];
	}
}

/* ---- the copying unit: maps of 32 x 16 and 64 x 16 elements of 16 bits --- */

FN void
start(u32 bar, int fence)
{
	if (TID == 0) {
		mbar_init(bar, 1);
		if (fence) {
			fence_mbar_init();
		}
	}
	sync_block();
}

KERNEL(no_mbar_fence, 32, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM + 8192);

	start(bar, 0);
	if (TID == 0) {
		mbar_expect(bar, 1024);
		tma_load2(smem_addr(SMEM), &a.map[0], bar, 0, 0);
	}
	mbar_wait(bar, 0);
}

KERNEL(box_misplaced, 32, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM + 8192);

	start(bar, 1);
	if (TID == 0) {
		mbar_expect(bar, 2048);
		tma_load2(smem_addr(SMEM + 512), &a.map[1], bar, 0, 0);
	}
	mbar_wait(bar, 0);
}

KERNEL(box_not_waited, 32, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM + 8192);

	start(bar, 1);
	if (TID == 0) {
		mbar_expect(bar, 1024);
		tma_load2(smem_addr(SMEM), &a.map[0], bar, 0, 0);
	}
	sync_block();
	((u32 *)a.at[1])[TID] = ((u32 *)SMEM)[TID];
	mbar_wait(bar, 0);
}

KERNEL(box_forgotten, 32, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM + 8192);

	start(bar, 1);
	if (TID == 0) {
		mbar_expect(bar, 1024);
		tma_load2(smem_addr(SMEM), &a.map[0], bar, 0, 0);
	}
}

/* Fewer bytes are announced than come. */
KERNEL(too_few_bytes, 32, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM + 8192);

	start(bar, 1);
	if (TID == 0) {
		mbar_expect(bar, 512);
		tma_load2(smem_addr(SMEM), &a.map[0], bar, 0, 0);
	}
	mbar_wait(bar, 0);
}

/* The next box comes while somebody may still read the one before. */
KERNEL(box_again, 64, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM + 8192);
	int i;

	start(bar, 1);
	for (i = 0; i < 2; i++) {
		if (TID == 0) {
			mbar_expect(bar, 1024);
			tma_load2(smem_addr(SMEM), &a.map[0], bar, 0, 0);
		}
		mbar_wait(bar, i);
		((u32 *)a.at[1])[TID] = ((u32 *)SMEM)[TID];
	}
}

FN void
fill(int bytes, int fence)
{
	int i;

	for (i = TID * 4; i < bytes; i += NTHREADS * 4) {
		*(u32 *)(SMEM + i) = 0;
	}
	if (fence) {
		fence_async();
	}
	sync_block();
}

KERNEL(store_unfenced, 32, 1, struct fault_args)
{
	fill(1024, 0);
	if (TID == 0) {
		tma_store2(&a.map[0], smem_addr(SMEM), 0, 0);
		tma_commit();
		tma_wait(0);
	}
}

/* Only one thread has a fence behind what all wrote. */
KERNEL(store_fenced_by_one, 32, 1, struct fault_args)
{
	fill(1024, 0);
	if (TID == 0) {
		fence_async();
		tma_store2(&a.map[0], smem_addr(SMEM), 0, 0);
		tma_commit();
		tma_wait(0);
	}
}

/* All have a fence, but behind the barrier. */
KERNEL(store_fenced_late, 64, 1, struct fault_args)
{
	fill(1024, 0);
	fence_async();
	if (TID == 0) {
		tma_store2(&a.map[0], smem_addr(SMEM), 0, 0);
		tma_commit();
		tma_wait(0);
	}
}

/* A box is loaded over what was written, with no fence in between. */
KERNEL(load_unfenced, 32, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM + 8192);

	start(bar, 1);
	fill(1024, 0);
	if (TID == 0) {
		mbar_expect(bar, 1024);
		tma_load2(smem_addr(SMEM), &a.map[0], bar, 0, 0);
	}
	mbar_wait(bar, 0);
}

KERNEL(store_written, 32, 1, struct fault_args)
{
	fill(1024, 1);
	if (TID == 0) {
		tma_store2(&a.map[0], smem_addr(SMEM), 0, 0);
		tma_commit();
	}
	sync_block();
	((u32 *)SMEM)[TID] = 1;
	if (TID == 0) {
		tma_wait(0);
	}
}

KERNEL(store_forgotten, 32, 1, struct fault_args)
{
	fill(1024, 1);
	if (TID == 0) {
		tma_store2(&a.map[0], smem_addr(SMEM), 0, 0);
		tma_commit();
	}
}

/* A box as a warp makes it of its sums, to be stored. */
FN void
make_box(int fence)
{
	u32 at = smem_addr(SMEM) + LANE % 16 * 64 + LANE / 16 * 16;
	u32 r[4] = { 1, 2, 3, 4 };

	stsm4(at, r);
	stsm4(at + 32, r);
	if (fence) {
		fence_async();
	}
	sync_warp();
}

FN void
store_made(const struct fault_args *a, int y)
{
	if (LANE == 0) {
		tma_store2(&a->map[0], smem_addr(SMEM), 0, y);
		tma_commit();
	}
}

KERNEL(made_unfenced, 32, 1, struct fault_args)
{
	make_box(0);
	store_made(&a, 0);
	if (LANE == 0) {
		tma_wait_read(0);
	}
}

/* There is one buffer, and the wait leaves a store under way: of two. */
KERNEL(made_again, 32, 1, struct fault_args)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (LANE == 0) {
			tma_wait_read(1);
		}
		sync_warp();
		make_box(1);
		store_made(&a, 0);
	}
	if (LANE == 0) {
		tma_wait_read(0);
	}
}

/* The lane that stores has waited, and nobody has waited for it. */
KERNEL(made_unmet, 32, 1, struct fault_args)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (LANE == 0) {
			tma_wait_read(0);
		}
		make_box(1);
		store_made(&a, 0);
	}
	if (LANE == 0) {
		tma_wait_read(0);
	}
}

/* ---- wgmma: 64 x 8 from 128 rows of 128 bytes ---- */

FN u64
descriptor(int at)
{
	return wg_desc(smem_addr(SMEM + at), 16, 1024, 128);
}

KERNEL(wg_unfenced, 128, 1, struct fault_args)
{
	f32 d[4] = { 0 };

	fill(16384, 1);
	wg_bf16_64x8(d, descriptor(0), descriptor(8192), 1, 0, 0);
	wg_commit();
	wg_wait(0);
	((f32 *)a.at[0])[TID] = d[0];
}

KERNEL(wg_not_waited, 128, 1, struct fault_args)
{
	f32 d[4] = { 0 };

	fill(16384, 1);
	wg_fence();
	wg_bf16_64x8(d, descriptor(0), descriptor(8192), 1, 0, 0);
	wg_commit();
	wg_wait(1);
	((f32 *)a.at[0])[TID] = d[0];
	wg_wait(0);
}

KERNEL(wg_plain_writes, 128, 1, struct fault_args)
{
	f32 d[4] = { 0 };

	fill(16384, 0);
	wg_fence();
	wg_bf16_64x8(d, descriptor(0), descriptor(8192), 1, 0, 0);
	wg_commit();
	wg_wait(0);
	((f32 *)a.at[0])[TID] = d[0];
}

KERNEL(wg_operand_written, 128, 1, struct fault_args)
{
	f32 d[4] = { 0 };

	fill(16384, 1);
	wg_fence();
	wg_bf16_64x8(d, descriptor(0), descriptor(8192), 1, 0, 0);
	wg_commit();
	sync_block();
	((u32 *)SMEM)[TID] = 1;
	wg_wait(0);
	((f32 *)a.at[0])[TID] = d[0];
}

/* Sums are changed between two products without a fence. */
KERNEL(wg_sums_written, 128, 1, struct fault_args)
{
	f32 d[4] = { 0 };
	int i;

	fill(16384, 1);
	wg_fence();
	for (i = 0; i < 2; i++) {
		wg_bf16_64x8(d, descriptor(0), descriptor(8192), 1, 0, 0);
		wg_commit();
		wg_wait(0);
		d[0] *= 2;
	}
	((f32 *)a.at[0])[TID] = d[0];
}

KERNEL(wg_forgotten, 128, 1, struct fault_args)
{
	f32 d[4] = { 0 };

	fill(16384, 1);
	wg_fence();
	wg_bf16_64x8(d, descriptor(0), descriptor(8192), 1, 0, 0);
	wg_commit();
	((f32 *)a.at[0])[TID] = 0;
}

KERNEL(wg_three_warps, 128, 1, struct fault_args)
{
	f32 d[4] = { 0 };

	fill(16384, 1);
	if (WARP < 3) {
		wg_fence();
		wg_bf16_64x8(d, descriptor(0), descriptor(8192), 1, 0, 0);
		wg_commit();
		wg_wait(0);
	}
	((f32 *)a.at[0])[TID] = d[0];
}

/* ---- tcgen05: 128 x 32 from 128 rows of 128 bytes ---- */

enum {
	NOT_ALLOCATED, NOT_FREED, FREED_TWICE, OTHER_LANES, NO_FENCE_BEFORE,
	NO_FENCE_AFTER, NO_MBARRIER, NO_WAIT, NO_COMMIT, OPERAND_WRITTEN,
	ADDED_TO_NOTHING, WRITTEN_AGAIN, WRITTEN_WHILE_READ, THREE_COLUMNS
};

FN void
load_columns(u32 from, int wrong, f32 *d)
{
	const u32 bar = smem_addr(SMEM + 16384);

	if (wrong != NO_MBARRIER) {
		mbar_wait(bar, 0);
	}
	if (wrong != NO_FENCE_AFTER) {
		tc_fence_after();
	}
	tc_ld32(d, from + ((u32)(WARP ^ (wrong == OTHER_LANES)) << 21));
	if (wrong != NO_WAIT) {
		tc_wait(d, 16);
	}
	if (wrong != NO_FENCE_BEFORE) {
		tc_fence_before();
	}
}

FN void
multiply_rows(u32 from, int wrong)
{
	const u64 x = tc_desc(smem_addr(SMEM), 16, 1024, 128);
	const u32 form = tc_form(TC_BF16, 32, 0, 0);

	tc_mma_f16(from, x, x, form, wrong == ADDED_TO_NOTHING);
	if (wrong == OPERAND_WRITTEN) {
		((f32 *)SMEM)[0] = 0.0f;
	}
	if (wrong != NO_COMMIT) {
		tc_commit(smem_addr(SMEM + 16384));
	}
}

FN void
tensor(const struct fault_args *a, int wrong)
{
	const u32 bar = smem_addr(SMEM + 16384);
	f32 d[16];
	u32 from;

	fill(16384, 1);
	if (TID == 0) {
		mbar_init(bar, 1);
		mbar_init(bar + 8, 1);
	}
	if (WARP == 0) {
		tc_alloc(bar + 16, wrong == THREE_COLUMNS ? 3 : 32);
	}
	tc_fence_before();
	sync_block();
	tc_fence_after();
	from = *(const u32 *)(SMEM + 16400);
	if (TID == 0) {
		multiply_rows(wrong == NOT_ALLOCATED ? 0 : from, wrong);
	}
	sync_warp();
	load_columns(from, wrong, d);
	((f32 *)a->at[0])[TID] = d[0];
	if (wrong == WRITTEN_WHILE_READ && TID == 0) {
		multiply_rows(from, wrong);
	}
	sync_block();
	if (TID == 0 && (wrong == NO_FENCE_BEFORE || wrong == WRITTEN_AGAIN)) {
		if (wrong == NO_FENCE_BEFORE) {
			tc_fence_after();
		}
		multiply_rows(from, wrong);
	}
	sync_warp();
	if (WARP == 0 && wrong != NOT_FREED) {
		tc_fence_after();
		tc_dealloc(from, 32);
	}
	if (WARP == 0 && wrong == FREED_TWICE) {
		tc_dealloc(from, 32);
	}
}

#define TENSOR(name, wrong) \
	KERNEL(name, 128, 1, struct fault_args) \
	{ \
		tensor(&a, wrong); \
	}
TENSOR(tc_not_allocated, NOT_ALLOCATED)
TENSOR(tc_not_freed, NOT_FREED)
TENSOR(tc_freed_twice, FREED_TWICE)
TENSOR(tc_other_lanes, OTHER_LANES)
TENSOR(tc_no_fence_before, NO_FENCE_BEFORE)
TENSOR(tc_no_fence_after, NO_FENCE_AFTER)
TENSOR(tc_no_mbarrier, NO_MBARRIER)
TENSOR(tc_no_wait, NO_WAIT)
TENSOR(tc_no_commit, NO_COMMIT)
TENSOR(tc_operand_written, OPERAND_WRITTEN)
TENSOR(tc_added_to_nothing, ADDED_TO_NOTHING)
TENSOR(tc_written_again, WRITTEN_AGAIN)
TENSOR(tc_written_while_read, WRITTEN_WHILE_READ)
TENSOR(tc_three_columns, THREE_COLUMNS)

/* ---- stores, and a left operand in tensor memory ---- */

enum {
	STORE_NOT_WAITED = 1, STORE_NOT_FENCED, STORE_NOT_SEEN, STORE_LOADED,
	STORE_OVER_LEFT, STORE_OVER_SUMS, STORE_OTHER_LANES, STORE_FORGOTTEN,
	LEFT_NOT_WRITTEN
};

FN void
store_columns(u32 to)
{
	u32 w[16] = { 0 };

	tc_st32_pairs(to, w);
	tc_st32_pairs(to + (16 << 16), w);
}

/* Columns 0 to 31 are stored, and multiplied to columns 32 to 63. */
FN void
stored(const struct fault_args *a, int wrong)
{
	const u32 bar = smem_addr(SMEM + 16384);
	const u32 form = tc_form(TC_BF16, 32, 0, 0);
	u32 all, own;
	f32 d[16];

	fill(16384, 1);
	if (TID == 0) {
		mbar_init(bar, 1);
	}
	if (WARP == 0) {
		tc_alloc(bar + 16, 64);
	}
	tc_fence_before();
	sync_block();
	tc_fence_after();
	all = *(const u32 *)(SMEM + 16400);
	own = all + ((u32)(WARP ^ (wrong == STORE_OTHER_LANES)) << 21);
	if (wrong != LEFT_NOT_WRITTEN) {
		store_columns(own);
	}
	if (wrong == STORE_LOADED) {
		tc_ld32(d, own);
		tc_wait(d, 16);
	}
	if (wrong != STORE_NOT_WAITED) {
		tc_wait_st();
	}
	if (wrong != STORE_NOT_FENCED) {
		tc_fence_before();
	}
	sync_block();
	if (TID == 0) {
		if (wrong != STORE_NOT_SEEN) {
			tc_fence_after();
		}
		tc_mma_f16_left(all + 32, all, tc_desc(smem_addr(SMEM), 16,
						       1024, 128), form, 0);
		tc_commit(bar);
	}
	sync_warp();
	if (wrong == STORE_OVER_LEFT || wrong == STORE_OVER_SUMS) {
		store_columns(own + (wrong == STORE_OVER_SUMS) * 32);
	}
	mbar_wait(bar, 0);
	tc_fence_after();
	if (wrong == STORE_FORGOTTEN) {
		store_columns(own);
	}
	tc_ld32(d, own + 32);
	tc_wait(d, 16);
	((f32 *)a->at[0])[TID] = d[0];
	tc_fence_before();
	sync_block();
	if (WARP == 0) {
		tc_fence_after();
		tc_dealloc(all, 64);
	}
}

#define STORED(name, wrong) \
	KERNEL(name, 128, 1, struct fault_args) \
	{ \
		stored(&a, wrong); \
	}
STORED(tc_store_not_waited, STORE_NOT_WAITED)
STORED(tc_store_not_fenced, STORE_NOT_FENCED)
STORED(tc_store_not_seen, STORE_NOT_SEEN)
STORED(tc_store_loaded, STORE_LOADED)
STORED(tc_store_over_left, STORE_OVER_LEFT)
STORED(tc_store_over_sums, STORE_OVER_SUMS)
STORED(tc_store_other_lanes, STORE_OTHER_LANES)
STORED(tc_store_forgotten, STORE_FORGOTTEN)
STORED(tc_left_not_written, LEFT_NOT_WRITTEN)

KERNEL(registers, 128, 1, struct fault_args)
{
	regs_more(250);
}

/* ---- blocks that take turns ---- */

FN void
add_to(struct fault_args *a, int wait)
{
	bulk_add((f32 *)a->at[1], smem_addr(SMEM), 1024);
	tma_commit();
	if (wait) {
		tma_wait(0);
	} else {
		tma_wait_read(0);
	}
}

KERNEL(add_misplaced, 32, 1, struct fault_args)
{
	fill(1024, 1);
	if (TID == 0) {
		bulk_add((f32 *)a.at[1] + 1, smem_addr(SMEM), 1024);
	}
}

KERNEL(add_outside, 32, 1, struct fault_args)
{
	fill(1024, 1);
	if (TID == 32) {
		count_wait((i32 *)a.at[0], 0);
	}
	if (TID == 0) {
		add_to(&a, 1);
	}
}

KERNEL(turn_too_short, 32, 1, struct fault_args)
{
	fill(1024, 1);
	if (TID == 0) {
		count_wait((i32 *)a.at[0], (int)BLOCK_X);
		add_to(&a, 0);
		count_next((i32 *)a.at[0]);
	}
}

KERNEL(turn_without_end, 32, 1, struct fault_args)
{
	fill(1024, 1);
	if (TID == 0) {
		count_wait((i32 *)a.at[0], (int)BLOCK_X);
		add_to(&a, 1);
	}
}

/* The box arrives when all threads of both blocks wait. */
KERNEL(turn_of_both, 32, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM + 8192);

	start(bar, 1);
	if (TID == 0) {
		count_wait((i32 *)a.at[0], 0);
		mbar_expect(bar, 1024);
		tma_load2(smem_addr(SMEM), &a.map[0], bar, 0, 0);
		mbar_wait(bar, 0);
		count_next((i32 *)a.at[0]);
	}
}

KERNEL(turn_is_over, 32, 1, struct fault_args)
{
	fill(1024, 1);
	if (TID == 0) {
		count_wait((i32 *)a.at[0], (int)BLOCK_X);
		add_to(&a, 1);
		count_next((i32 *)a.at[0]);
		count_wait((i32 *)a.at[0], 0);
	}
}

/* The last two blocks run first. */
KERNEL(turn_by_number, 32, 1, struct fault_args)
{
	fill(1024, 1);
	if (TID == 0) {
		count_wait((i32 *)a.at[0], (int)BLOCK_X);
		add_to(&a, 1);
		count_next((i32 *)a.at[0]);
	}
}

/* ---- clusters of 2 ---- */

KERNEL(no_such_block, 32, 1, struct fault_args)
{
	((u32 *)a.at[0])[TID] = map_cta(smem_addr(SMEM), 2);
}

/* The other block may not have come to its mbar_init yet. */
KERNEL(other_not_ready, 32, 1, struct fault_args)
{
	if (TID == 0) {
		mbar_init(smem_addr(SMEM), 1);
		fence_mbar_init();
		mbar_arrive_cta(smem_addr(SMEM), cluster_rank() ^ 1);
	}
	cluster_sync();
}

/* Block 0 knows of its arrival, and block 1 does not of the same one. */
KERNEL(other_arrives_late, 32, 1, struct fault_args)
{
	if (TID == 0) {
		mbar_init(smem_addr(SMEM), 1);
		fence_mbar_init();
	}
	cluster_sync();
	if (TID == 0 && cluster_rank() == 0) {
		tc_commit_multi(smem_addr(SMEM), 3);
		mbar_wait(smem_addr(SMEM), 0);
	}
	sync_warp();
	cluster_sync();
}

/* A lane has waited, and has not met the others since. */
KERNEL(lane_comes_alone, 32, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM);

	if (TID == 0) {
		mbar_init(bar, 1);
		fence_mbar_init();
		mbar_arrive(bar);
		mbar_wait(bar, 0);
	}
	cluster_sync();
}

/* So it has between both halves of the barrier. */
KERNEL(lane_waits_alone, 32, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM);

	cluster_arrive();
	if (TID == 0) {
		mbar_init(bar, 1);
		fence_mbar_init();
		mbar_arrive(bar);
		mbar_wait(bar, 0);
	}
	cluster_wait();
}

/* A word of the other block, which arrives late. */
FN void
send(u32 bar_of)
{
	const u32 at = smem_addr(SMEM);

	if (TID == 0) {
		mbar_init(at + 8, 1);
		fence_mbar_init();
	}
	cluster_sync();
	if (TID == 0 && cluster_rank() == 0) {
		send_word(map_cta(at, 1), 7, map_cta(at + 8, (int)bar_of));
	}
}

KERNEL(word_read_early, 32, 1, struct fault_args)
{
	send(1);
	cluster_sync();
	if (TID == 0 && cluster_rank() == 1) {
		((u32 *)a.at[0])[0] = *(u32 *)SMEM;
	}
}

KERNEL(word_not_counted, 32, 1, struct fault_args)
{
	send(1);
	if (TID == 0 && cluster_rank() == 1) {
		mbar_expect(smem_addr(SMEM + 8), 8);
		mbar_wait(smem_addr(SMEM + 8), 0);
	}
	cluster_sync();
}

KERNEL(word_elsewhere, 32, 1, struct fault_args)
{
	send(0);
	cluster_sync();
}

/* Another block is gone when its memory is filled. */
KERNEL(one_is_gone, 32, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM + 8192);

	start(bar, 1);
	if (cluster_rank() == 0) {
		return;
	}
	cluster_sync();
}

/* ---- before the kernel before it has ended ---- */

KERNEL(early_read, 32, 1, struct fault_args)
{
	f32 x = ((const f32 *)a.at[0])[TID];

	launch_wait();
	((f32 *)a.at[1])[TID] = x;
}

KERNEL(early_write, 32, 1, struct fault_args)
{
	((f32 *)a.at[0])[TID] = 1;
	launch_wait();
}

KERNEL(early_copy, 32, 1, struct fault_args)
{
	f32 *s = (f32 *)SMEM;

	cp_async4(smem_addr(s + TID), a.at[0] + 4 * TID, 4);
	launch_wait();
	cp_async_commit();
	cp_async_wait(0);
}

/* Each thread waits for itself. */
KERNEL(early_half, 64, 1, struct fault_args)
{
	if (TID < 32) {
		launch_wait();
	}
	sync_block();
	((f32 *)a.at[0])[TID] = 1;
	if (TID >= 32) {
		launch_wait();
	}
}

KERNEL(early_end, 64, 1, struct fault_args)
{
	if (TID < 32) {
		launch_wait();
	}
}

KERNEL(early_box, 32, 1, struct fault_args)
{
	u32 bar = smem_addr(SMEM + 16384);

	start(bar, 1);
	if (TID == 0) {
		mbar_expect(bar, 1024);
		tma_load2(smem_addr(SMEM), &a.map[0], bar, 0, 0);
	}
	launch_wait();
	mbar_wait(bar, 0);
}

KERNEL(late_columns, 32, 1, struct fault_args)
{
	launch_wait();
	tc_alloc(smem_addr(SMEM), 32);
	tc_relinquish();
	sync_block();
	tc_dealloc(*(const u32 *)SMEM, 32);
}

/* What is not memory of the kernel before may come first. */
KERNEL(waits_first, 32, 1, struct fault_args)
{
	f32 *s = (f32 *)SMEM;

	s[TID] = (f32)a.num[0];
	launch_wait();
	((f32 *)a.at[0])[TID] = s[TID];
}

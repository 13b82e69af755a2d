/*
 * Runs a grid of a GPU, one cluster of blocks after another.
 */
#include "runtime/emulate/emulate.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emulate/emulate_inner.h"

#define MOST_AT_ONCE 2		/* blocks that are no cluster */

static const struct emu_calls calls = {
	.address = emu_address,
	.sync = emu_sync,
	.arrive = emu_arrive,
	.warp_sync = emu_sync_warp,
	.shuffle = emu_shuffle,
	.warp_ballot = emu_ballot,
	.cp_async = emu_cp_async,
	.cp_commit = emu_cp_commit,
	.cp_wait = emu_cp_wait,
	.ldsm = emu_ldsm,
	.stsm = emu_stsm,
	.mma = emu_mma,
	.bar_init = emu_mbar_init,
	.bar_fence = emu_mbar_fence,
	.bar_arrive = emu_mbar_arrive,
	.bar_wait = emu_mbar_wait,
	.async_fence = emu_fence_async,
	.box_load = emu_tma_load,
	.box_store = emu_tma_store,
	.bulk = emu_bulk,
	.count_wait = emu_count_wait,
	.count_next = emu_count_next,
	.box_commit = emu_tma_commit,
	.box_wait = emu_tma_wait,
	.group_mma = emu_wg_mma,
	.group_fence = emu_wg_fence,
	.group_commit = emu_wg_commit,
	.group_wait = emu_wg_wait,
	.tensor_alloc = emu_tensor_alloc,
	.tensor_dealloc = emu_tensor_dealloc,
	.tensor_relinquish = emu_tensor_relinquish,
	.tensor_mma = emu_tensor_mma,
	.tensor_mma_left = emu_tensor_mma_left,
	.tensor_commit = emu_tensor_commit,
	.tensor_fence = emu_tensor_fence,
	.tensor_load = emu_tensor_load,
	.tensor_wait = emu_tensor_wait,
	.tensor_store = emu_tensor_store,
	.tensor_wait_store = emu_tensor_wait_store,
	.begin = emu_begin,
	.regs = emu_regs,
	.all_arrive = emu_cluster_arrive,
	.all_wait = emu_cluster_wait,
	.address_in = emu_map_cta,
	.word_to = emu_word_to,
	.read_at = emu_read_at,
	.load = emu_load,
	.store = emu_store,
	.atomic = emu_atomic
};

/* ---- life cycle ---- */

/*
 * A thread has returned: what it issued must have been waited for.  So must the
 * kernel before, or the next kernel's wait, which is for this one alone, would
 * say nothing of that one.
 */
static void
end_task(struct rt_emu *e, struct emu_task *t)
{
	if (e->flags & RT_EMU_EARLY && !t->begun) {
		emu_fail(e, "it ends before launch_wait: the kernel after it "
			 "would not wait for the one before it");
	}
	if (t->warp->nwg) {
		emu_fail(e, "it ends with a wgmma that no wg_wait has waited "
			 "for");
	}
	emu_tma_end(e, t);
	emu_count_end(e, t);
	emu_tensor_end(e, t);
	if (e->left == 1) {
		emu_check_end(e);
	}
}

/* What every thread waits for: a box, or else products. */
static bool
deliver(struct rt_emu *e)
{
	if (e->seed && emu_random(e) % 2) {
		return emu_tensor_deliver(e) || emu_tma_deliver(e);
	}
	return emu_tma_deliver(e) || emu_tensor_deliver(e);
}

/* LLMC_EMULATE_SEED, if it is set. */
static enum rt_status
read_seed(struct rt_emu *e, struct rt_error *err)
{
	const char *s = getenv("LLMC_EMULATE_SEED");
	char *end = NULL;

	if (!s || !*s) {
		return RT_OK;
	}
	errno = 0;
	rt_emu_seed(e, strtoull(s, &end, 10));
	return *s >= '0' && *s <= '9' && !*end && !errno ? RT_OK
		: rt_fail(err, RT_RANGE, RT_NOWHERE, "the variable "
			  "LLMC_EMULATE_SEED is '%.40s', expected a number "
			  "from 0 to 18446744073709551615", s);
}

enum rt_status
rt_emu_open(struct rt_emu **out, const struct rt_images *images, int flags,
	    struct rt_error *err)
{
	struct rt_emu *e = calloc(1, sizeof *e);
	enum rt_status s;

	if (!e) {
		return rt_no_memory(err, NULL);
	}
	e->images = images;
	e->flags = flags;
	e->deliver = deliver;
	e->end = end_task;
	s = read_seed(e, err);
	if (s == RT_OK) {
		s = emu_build(e, err);
	}
	if (s == RT_OK) {
		s = emu_count_open(e, err);
	}
	if (s != RT_OK) {
		rt_emu_close(e);
		return s;
	}
	*out = e;
	return RT_OK;
}

static void
free_block(struct emu_block *b)
{
	int i;

	for (i = 0; b->tasks && i < EMU_MAX_THREADS; i++) {
		free(b->tasks[i].copies);
	}
	for (i = 0; b->warps && i < EMU_MAX_THREADS / 32; i++) {
		free(b->warps[i].wg);
		free(b->warps[i].stores);
	}
	emu_tensor_free(b);
	free(b->tasks);
	free(b->warps);
	free(b->waiting);
	free(b->memory);
}

void
rt_emu_close(struct rt_emu *e)
{
	int i;

	if (!e) {
		return;
	}
	for (i = 0; i < e->block_capacity; i++) {
		free_block(&e->blocks[i]);
	}
	emu_check_free(e);
	emu_stacks_free(e);
	free(e->blocks);
	free(e->boxes);
	free(e->orders);
	free(e->ready);
	free(e->args);
	free(e->allowed);
	if (e->handle) {
		dlclose(e->handle);
	}
	free(e);
}

void
rt_emu_seed(struct rt_emu *e, uint64_t seed)
{
	e->seed = e->random = seed;
}

/* ---- memory that kernels may access ---- */

void
rt_emu_allow_none(struct rt_emu *e)
{
	e->nallowed = 0;
}

enum rt_status
rt_emu_allow(struct rt_emu *e, const void *p, int64_t bytes,
	     struct rt_error *err)
{
	struct emu_range *more;
	int i;

	if (e->nallowed == e->allowed_capacity) {
		i = e->allowed_capacity ? 2 * e->allowed_capacity : 16;
		more = realloc(e->allowed, (size_t)i * sizeof *more);
		if (!more) {
			return rt_no_memory(err, NULL);
		}
		e->allowed = more;
		e->allowed_capacity = i;
	}
	for (i = e->nallowed++; i > 0 && e->allowed[i - 1].p >
	     (const char *)p; i--) {
		e->allowed[i] = e->allowed[i - 1];
	}
	e->allowed[i] = (struct emu_range){ p, bytes };
	return RT_OK;
}

/* ---- kernels ---- */

int64_t
rt_emu_functions(const struct rt_emu *e)
{
	return e->lib->end - e->lib->first;
}

int64_t
rt_emu_function(const struct rt_emu *e, int64_t image, const char *func)
{
	const struct emu_entry *const *p;

	for (p = e->lib->first; p < e->lib->end; p++) {
		if ((*p)->image == image && strcmp((*p)->name, func) == 0) {
			return p - e->lib->first;
		}
	}
	return -1;
}

static const struct emu_entry *
find_entry(const struct rt_emu *e, int64_t image, const char *func)
{
	int64_t i = rt_emu_function(e, image, func);

	return i < 0 ? NULL : e->lib->first[i];
}

int64_t
rt_emu_args(const struct rt_emu *e, int64_t image, const char *func)
{
	const struct emu_entry *x = find_entry(e, image, func);

	return x ? x->args_bytes : -1;
}

/* ---- blocks ---- */

static enum rt_status
make_block(struct emu_block *b, struct rt_error *err)
{
	if (!b->tasks) {
		b->tasks = calloc(EMU_MAX_THREADS, sizeof *b->tasks);
	}
	if (!b->warps) {
		b->warps = calloc(EMU_MAX_THREADS / 32, sizeof *b->warps);
	}
	if (!b->waiting) {
		b->waiting = malloc(EMU_BARRIERS * EMU_MAX_THREADS *
				    sizeof *b->waiting);
	}
	return b->tasks && b->warps && b->waiting ? RT_OK
		: rt_no_memory(err, NULL);
}

static enum rt_status
make_smem(struct emu_block *b, int64_t bytes, struct rt_error *err)
{
	size_t size = (size_t)(bytes + 1023) / 1024 * 1024 + 2 * EMU_APART;

	if (b->smem && b->smem_bytes == bytes) {
		return RT_OK;
	}
	free(b->memory);
	b->memory = aligned_alloc(1024, size);
	b->smem = b->memory ? b->memory + EMU_APART : NULL;
	b->smem_bytes = bytes;
	return b->smem ? RT_OK : rt_no_memory(err, NULL);
}

/*
 * Blocks that run at once.  If blocks wait for others of the grid there are
 * several, so that one that does not wait long enough is too early.
 */
static int64_t
at_once(const struct rt_emu *e, const struct rt_grid *g)
{
	int64_t n = g->blocks[0] * g->blocks[1] * g->blocks[2];

	return !e->ordered || g->cluster > 1 ? g->cluster
		: n < MOST_AT_ONCE ? n : MOST_AT_ONCE;
}

static enum rt_status
make_blocks(struct rt_emu *e, const struct rt_grid *g, struct rt_error *err)
{
	enum rt_status s = RT_OK;
	struct emu_block *more;
	int i;

	e->nblocks = (int)at_once(e, g);
	if (e->nblocks > e->block_capacity) {
		more = realloc(e->blocks, (size_t)e->nblocks * sizeof *more);
		if (!more) {
			return rt_no_memory(err, NULL);
		}
		memset(more + e->block_capacity, 0,
		       (size_t)(e->nblocks - e->block_capacity) * sizeof *more);
		e->blocks = more;
		e->block_capacity = e->nblocks;
	}
	for (i = 0; i < e->nblocks && s == RT_OK; i++) {
		s = make_block(&e->blocks[i], err);
		if (s == RT_OK) {
			s = make_smem(&e->blocks[i], g->smem_bytes, err);
		}
	}
	return s;
}

/* Sets fields one by one, as clearing the whole struct would dominate short
 * blocks. */
static void
start_task(struct emu_block *b, int i)
{
	struct emu_task *t = &b->tasks[i];

	t->seen = b->seen;
	t->seen.tid = i;
	t->seen.lane = i % 32;
	t->seen.warp = i / 32;
	t->waits = NULL;
	t->warp = &b->warps[i / 32];
	t->block = b;
	t->ncopies = t->group = t->tma_group = 0;
	t->awaited = t->turn = NULL;
	t->wg_fenced = t->cluster_arrived = t->begun = false;
	t->alone = t->came = 0;
}

static void
start_block(struct emu_block *b, int threads)
{
	int i;

	b->ntasks = b->left = threads;
	b->nmbars = 0;
	emu_tensor_start(b);
	for (i = 0; i < EMU_BARRIERS; i++) {
		b->barriers[i] = (struct emu_barrier){
			.who = b->waiting + i * EMU_MAX_THREADS };
	}
	/* values that no kernel computes with: NaN, or -1 */
	memset(b->smem, 0xff, (size_t)b->smem_bytes);
	b->seen.smem = b->smem;
	b->seen.threads = threads;
	for (i = 0; i < threads; i++) {
		start_task(b, i);
	}
	for (i = 0; i < threads / 32; i++) {
		struct emu_warp *w = &b->warps[i];

		w->lanes = b->tasks + 32 * i;
		w->arrived = w->nwg = w->wg_group = 0;
		w->wg_base = 0;
		w->wg_waiter = NULL;
		w->nloads = w->nstores = 0;
		memset(w->came, 0, sizeof w->came);
	}
}

/* Starts the cluster whose first block has number `first` in the grid, x
 * fastest.  The rank of a block that runs beside others without a cluster is
 * not 0, which no kernel reads then. */
static void
start_cluster(struct rt_emu *e, const struct rt_grid *g, int64_t first)
{
	int64_t at;
	int i, j;

	for (i = 0; i < e->nblocks; i++) {
		struct emu_block *b = &e->blocks[i];

		at = first + i;
		for (j = 0; j < 3; j++) {
			b->seen.block[j] = (int)(at % g->blocks[j]);
			b->seen.blocks[j] = (int)g->blocks[j];
			at /= g->blocks[j];
		}
		b->seen.cluster_rank = i;
		start_block(b, (int)g->threads);
	}
	e->left = e->nblocks * (int)g->threads;
	e->nboxes = 0;
	e->cluster_arrived = e->cluster_phase = 0;
	e->cluster_first = NULL;
	emu_check_start(e);
}

/* ---- a launch ---- */

static enum rt_status
wrong_grid(const struct rt_grid *g, const struct emu_entry *x,
	   struct rt_error *err)
{
	struct rt_where where = { NULL, NULL, -1 };

	if (!x) {
		return rt_fail(err, RT_RANGE, where, "image %lld has no "
			       "kernel %s", (long long)g->image, g->func);
	}
	if (g->threads < 32 || g->threads % 32 ||
	    g->threads > EMU_MAX_THREADS || g->threads > x->threads) {
		return rt_fail(err, RT_RANGE, where, "%s: %lld threads, "
			       "where whole warps and at most %ld are legal",
			       g->func, (long long)g->threads, x->threads);
	}
	if (g->blocks[0] < 1 || g->blocks[1] < 1 || g->blocks[2] < 1 ||
	    g->blocks[0] > INT32_MAX || g->blocks[1] > 65535 ||
	    g->blocks[2] > 65535) {
		return rt_fail(err, RT_RANGE, where, "%s: %lld x %lld x %lld "
			       "blocks, where 2147483647 x 65535 x 65535 are "
			       "legal", g->func, (long long)g->blocks[0],
			       (long long)g->blocks[1],
			       (long long)g->blocks[2]);
	}
	if (g->cluster < 1 || g->cluster > EMU_MAX_CLUSTER ||
	    g->blocks[0] % g->cluster) {
		return rt_fail(err, RT_RANGE, where, "%s: clusters of %lld "
			       "of %lld blocks", g->func,
			       (long long)g->cluster,
			       (long long)g->blocks[0]);
	}
	if (g->smem_bytes < 0 || g->smem_bytes > 227 << 10) {
		return rt_fail(err, RT_RANGE, where, "%s: %lld bytes of "
			       "shared memory, where 232448 are legal",
			       g->func, (long long)g->smem_bytes);
	}
	return RT_OK;
}

/* Kernels may require 64-byte alignment of their arguments. */
static enum rt_status
copy_args(struct rt_emu *e, const void *args, struct rt_error *err)
{
	int64_t n = e->entry->args_bytes;

	if (n > e->args_capacity) {
		free(e->args);
		e->args_capacity = (n + 63) / 64 * 64;
		e->args = aligned_alloc(64, (size_t)e->args_capacity);
		if (!e->args) {
			e->args_capacity = 0;
			return rt_no_memory(err, NULL);
		}
	}
	memcpy(e->args, args, (size_t)n);
	return RT_OK;
}

static enum rt_status
ready_to_launch(struct rt_emu *e, const struct rt_grid *g, const void *args,
		struct rt_error *err)
{
	enum rt_status s;

	e->entry = find_entry(e, g->image, g->func);
	s = wrong_grid(g, e->entry, err);
	if (s == RT_OK) {
		s = copy_args(e, args, err);
	}
	if (s == RT_OK) {
		e->ordered = e->orders[rt_emu_function(e, g->image, g->func)];
		s = make_blocks(e, g, err);
	}
	if (s == RT_OK) {
		s = emu_stacks(e, e->nblocks * g->threads, err);
	}
	if (s == RT_OK) {
		s = emu_check_open_launch(e, err);
	}
	return s;
}

/* A box must not arrive when its shared memory belongs to another block. */
static enum rt_status
left_behind(const struct rt_emu *e, struct rt_error *err)
{
	struct rt_where where = { NULL, NULL, -1 };
	const struct emu_thread *t = &e->boxes[0].task->seen;

	return rt_fail(err, RT_RANGE, where, "%s: block %d,%d,%d: thread %d: "
		       "its load of a box was still under way when all "
		       "threads had ended", e->kernel, t->block[0],
		       t->block[1], t->block[2], t->tid);
}

enum rt_status
rt_emu_launch(struct rt_emu *e, const struct rt_grid *g, const void *args,
	      struct rt_error *err)
{
	int64_t n = g->blocks[0] * g->blocks[1] * g->blocks[2], i, step;
	struct rt_emu *before = emu_now;
	enum rt_status s;

	s = ready_to_launch(e, g, args, err);
	if (s != RT_OK) {
		return s;
	}
	e->kernel = g->func;
	e->grid = g;
	e->err = err;
	e->calls = &calls;
	e->self = e->lib->bind(&calls);
	emu_now = e;
	e->failed = false;
	step = e->nblocks;
	for (i = 0; i < n && !e->failed && s == RT_OK; i += step) {
		if (e->nblocks > n - i) {
			e->nblocks = (int)(n - i);
		}
		/* no order of blocks is promised: from the last one on */
		start_cluster(e, g, e->ordered ? n - i - e->nblocks : i);
		if (emu_run(e) && e->nboxes) {
			s = left_behind(e, err);
		}
	}
	for (i = 0; i < e->nblocks; i++) {
		emu_tensor_stop(e, &e->blocks[i]);
	}
	emu_now = before;
	return e->failed ? RT_RANGE : s;
}

const struct rt_emulator rt_emulator = {
	.abi = RT_ABI_VERSION,
	.open = rt_emu_open,
	.close = rt_emu_close,
	.allow = rt_emu_allow,
	.map = rt_emu_map,
	.args = rt_emu_args,
	.functions = rt_emu_functions,
	.function = rt_emu_function,
	.launch = rt_emu_launch
};

/*
 * The plan of t-toy-gpu.h on four ranks, dp=2 by tp=2, with one collective more
 * in its update: a sum over tp. Where dp is 0 both ranks have all of it, which
 * is an all-reduce; where dp is 1 each has a half, and the host adds them up.
 * tests/cli/gpu/gpu.sh runs it.
 */
#include "tests/unit/runtime/t-toy-gpu.h"

enum {
	MIXED_IN = TOY_ARENA, MIXED_OUT = MIXED_IN + 64,
	MIXED_PACKED = MIXED_OUT + 64, MIXED_PACKED_BYTES = 512
};

/* Of ranks 0 and 1, and of 2 and 3, by microbatch. */
static const struct rt_pieces mixed_rows[] = {
	{ 1, 1, { { 1, 1 } } }, { 1, 2, { { 4, 2 } } },
	{ 1, 1, { { 1, 1 } } }, { 1, 2, { { 4, 2 } } },
	{ 2, 3, { { 0, 1 }, { 2, 2 } } }, { 1, 2, { { 6, 2 } } },
	{ 2, 3, { { 0, 1 }, { 2, 2 } } }, { 1, 2, { { 6, 2 } } }
};
#define MIXED_FOUR(n) \
	{ 1, n, { { 0, n } } }, { 1, n, { { 0, n } } }, \
	{ 1, n, { { 0, n } } }, { 1, n, { { 0, n } } }
static const struct rt_pieces mixed_seq[] = { MIXED_FOUR(TOY_SEQ) };
static const struct rt_pieces mixed_words[] = { MIXED_FOUR(TOY_VOCAB) };
static const struct rt_pieces mixed_one[] = { MIXED_FOUR(1) };
static const struct rt_pieces mixed_halves[] = {
	{ 1, 16, { { 0, 16 } } }, { 1, 16, { { 0, 16 } } },
	{ 1, 8, { { 0, 8 } } }, { 1, 8, { { 8, 8 } } }
};
static const struct rt_spread mixed_spreads[] = {
	{ TOY_BATCH, 1, mixed_rows }, { TOY_SEQ, 0, mixed_seq },
	{ TOY_VOCAB, 0, mixed_words }, { 1, 0, mixed_one },
	{ TOY_VOCAB, 0, mixed_halves }
};
static const struct rt_spread *const mixed_dims[] = {
	&mixed_spreads[0], &mixed_spreads[1], &mixed_spreads[2]
};
static const struct rt_spread *const mixed_of_words[] = { &mixed_spreads[2] };
static const struct rt_spread *const mixed_of_one[] = { &mixed_spreads[3] };
static const struct rt_spread *const mixed_of_halves[] = { &mixed_spreads[4] };

static const struct rt_coll mixed_add_g = {
	.what = "all_reduce gradients on dp", .op = RT_COLL_SUM, .axes = 2,
	.elem = RT_ELEM_F32, .ndims = 1, .in = mixed_of_words,
	.out = mixed_of_words
};
static const struct rt_coll mixed_add_count = {
	.what = "all_reduce count on dp", .op = RT_COLL_SUM, .axes = 2,
	.elem = RT_ELEM_F32, .ndims = 1, .in = mixed_of_one,
	.out = mixed_of_one
};
static const struct rt_coll mixed_add_halves = {
	.what = "all_reduce halves on tp", .op = RT_COLL_SUM, .axes = 4,
	.elem = RT_ELEM_F32, .ndims = 1, .in = mixed_of_halves,
	.out = mixed_of_words
};

static const struct rt_step mixed_steps[] = {
	{ .grid = &toy_grids[2] },
	{ .coll = &mixed_add_count, .in = 0, .out = 64 },
	{ .grid = &toy_grids[3] }
};
static const struct rt_kernel mixed_momentum = {
	.what = "momentum 16", .nsteps = 3, .steps = mixed_steps, .nat = 5,
	.npieces = 1, .nnum = 1, .at_bytes = toy_gpu_sizes[2]
};

static int64_t
mixed_update(struct rt_env *e, int64_t mb)
{
	const int64_t num[1] = { 0 };
	char *at[] = { e->arena + TOY_W, e->arena + TOY_M, e->arena + TOY_G,
		       e->arena + TOY_NORM, e->arena + TOY_G };
	char *g[] = { e->arena + TOY_G, e->arena + TOY_G };
	char *halves[] = { e->arena + MIXED_IN, e->arena + MIXED_OUT };
	struct rt_call c = { .at = at, .pieces = &e->pieces[0], .num = num };
	int64_t status = e->coll(e, &mixed_add_halves, halves, -1);

	(void)mb;
	status = status ? status : e->coll(e, &mixed_add_g, g, -1);
	return status ? status : e->launch(e, &mixed_momentum, &c, -1);
}

static const struct rt_func mixed_func = {
	"pipe0_update", -1, 0, mixed_update, 3
};
static const struct rt_port mixed_inputs[] = {
	{ .name = "tokens", .elem = RT_ELEM_I32, .offset = TOY_IN,
	  .apart = 64, .below = TOY_VOCAB, .ndims = 2, .names = toy_dims,
	  .dims = mixed_dims },
	{ .name = "labels", .elem = RT_ELEM_I32, .offset = TOY_LABELS,
	  .apart = 64, .below = TOY_VOCAB, .ndims = 2, .names = toy_dims,
	  .dims = mixed_dims }
};
static const struct rt_port mixed_results[] = {
	{ .name = "loss", .elem = RT_ELEM_F32, .offset = TOY_LOSS, .apart = 4,
	  .sum = 2 | 8 }
};
static const struct rt_tensor mixed_tensors[] = {
	{ .name = "w", .loaded = 1, .elem = RT_ELEM_F32, .ndims = 1,
	  .dims = &toy_dims[2], .sizes = toy_sizes },
	{ .name = "w.momentum", .elem = RT_ELEM_F32, .ndims = 1,
	  .dims = &toy_dims[2], .sizes = toy_sizes }
};
static const struct rt_hold mixed_holds[] = {
	{ &mixed_tensors[0], TOY_W, mixed_of_words, 1, 0, 0 },
	{ &mixed_tensors[1], TOY_M, mixed_of_words, 1, 0, 0 }
};
static const struct rt_program mixed_program = {
	.arena_bytes = MIXED_PACKED + MIXED_PACKED_BYTES,
	.comm_offset = MIXED_PACKED, .comm_bytes = MIXED_PACKED_BYTES,
	.work_offset = TOY_WORK,
	.shared_bytes = TOY_SHARED, .start = &toy_gpu_funcs[3],
	.update = &mixed_func, .draw = &toy_gpu_funcs[4], .nactions = 4,
	.actions = toy_gpu_actions, .nholds = 2, .holds = mixed_holds,
	.ninputs = 2, .inputs = mixed_inputs, .nresults = 1,
	.results = mixed_results, .nzero = 1, .zero = toy_zero, .nwatch = 1,
	.watch = toy_watch
};
static const int64_t mixed_program_of[4] = { 0 };
static const int64_t mixed_groups[] = { 2, 4 };

const struct rt_plan llmc_plan = {
	.abi = RT_ABI_VERSION, .compiler = "llmc 0.1.0", .model = "toy",
	.target = "h100x4", .cpu = "x86-64", .arch = "sm_90a",
	.images = &toy_gpu_images, .naxes = 4,
	.axes = (const struct rt_axis[]){ { "", 1, 0 }, { "dp", 2, 0 },
		{ "tp", 2, 0 }, { "mb", 2, 1 } },
	.time = 3, .nranks = 4, .npipes = 1, .nstages = 1, .nmicrobatches = 2,
	.workers = TOY_WORKERS, .nspreads = 5, .spreads = mixed_spreads,
	.ngroups = 2, .groups = mixed_groups, .program_of = mixed_program_of,
	.nprograms = 1, .programs = &mixed_program, .ntensors = 2,
	.tensors = mixed_tensors, .batch = TOY_BATCH, .tokens = TOY_TOKENS,
	.step_us = 20, .flops = 1e3, .peak = 1e10, .json = "{}\n",
	.llp = "plan {}\n"
};

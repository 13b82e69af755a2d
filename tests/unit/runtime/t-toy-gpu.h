/*
 * The plan of t-toy.h with kernels for a GPU: the same model, arena and ranks,
 * and a rate of learning that says which step it is.
 */
#ifndef T_TOY_GPU_H
#define T_TOY_GPU_H

#include "codegen/cuda/cuda.h"
#include "t-toy.h"

#define TOY_GPU_HEAD \
	"#include \"prelude.h\"\n" \
	"struct toy_args {\n" \
	"\tchar *at[5];\n" \
	"\tconst struct pieces *pieces[1];\n" \
	"\ti64 num[1];\n" \
	"\tchar *shared;\n" \
	"\tconst i64 *live;\n" \
	"};\n"

static const char toy_gpu_forward_text[] = TOY_GPU_HEAD
	"KERNEL(toy_forward, 32, 1, struct toy_args)\n"
	"{\n"
	"\tlaunch_wait();\n"
	"\tconst f32 *w = (const f32 *)a.at[0];\n"
	"\tconst i32 *tokens = (const i32 *)a.at[1];\n"
	"\tconst i32 *labels = (const i32 *)a.at[2];\n"
	"\tf32 *logits = (f32 *)a.at[4];\n"
	"\tf32 *rows = (f32 *)SMEM;\n"
	"\tint rowsn = (int)a.pieces[0]->total, i, s, v;\n"
	"\tf32 d, sum;\n"
	"\tfor (i = TID; i < rowsn; i += NTHREADS) {\n"
	"\t\tsum = 0;\n"
	"\t\tfor (s = i * 4; s < i * 4 + 4; s++) {\n"
	"\t\t\td = w[tokens[s]] - (f32)labels[s] / 16;\n"
	"\t\t\tsum += d * d;\n"
	"\t\t\tfor (v = 0; v < 16; v++) {\n"
	"\t\t\t\td = 16 * w[tokens[s]] - (f32)v;\n"
	"\t\t\t\tlogits[s * 16 + v] = -d * d;\n"
	"\t\t\t}\n"
	"\t\t}\n"
	"\t\trows[i] = sum / 32;\n"
	"\t}\n"
	"\tsync_block();\n"
	"\tif (TID == 0) {\n"
	"\t\tsum = 0;\n"
	"\t\tfor (i = 0; i < rowsn; i++) {\n"
	"\t\t\tsum += rows[i];\n"
	"\t\t}\n"
	"\t\t*(f32 *)a.at[3] = sum;\n"
	"\t}\n"
	"}\n"
	"KERNEL(toy_backward, 32, 1, struct toy_args)\n"
	"{\n"
	"\tlaunch_wait();\n"
	"\tconst f32 *w = (const f32 *)a.at[0];\n"
	"\tconst i32 *tokens = (const i32 *)a.at[1];\n"
	"\tconst i32 *labels = (const i32 *)a.at[2];\n"
	"\tf32 *g = (f32 *)a.at[3];\n"
	"\tint n = (int)a.pieces[0]->total * 4, v = TID, i;\n"
	"\tfor (i = 0; v < 16 && i < n; i++) {\n"
	"\t\tif (tokens[i] == v) {\n"
	"\t\t\tg[v] += 2 * (w[v] - (f32)labels[i] / 16) / 32;\n"
	"\t\t}\n"
	"\t}\n"
	"}\n";

static const char toy_gpu_update_text[] = TOY_GPU_HEAD
	"KERNEL(toy_count, 32, 1, struct toy_args)\n"
	"{\n"
	"\tlaunch_wait();\n"
	"\tif (TID == 0) {\n"
	"\t\t*(f32 *)a.shared = (f32)(a.pieces[0]->total * 8);\n"
	"\t}\n"
	"}\n"
	"KERNEL(toy_update, 32, 1, struct toy_args)\n"
	"{\n"
	"\tlaunch_wait();\n"
	"\tf32 *w = (f32 *)a.at[0], *m = (f32 *)a.at[1];\n"
	"\tf32 *g = (f32 *)a.at[2], sum = 0;\n"
	"\tf32 mean = 32 / ((f32 *)a.shared)[16];\n"
	"\tint v = TID;\n"
	"\tif (v < 16) {\n"
	"\t\tm[v] = 0.5f * m[v] + g[v] * mean;\n"
	"\t\tw[v] -= 2 / (1 + (f32)a.live[0] / 64) * m[v];\n"
	"\t}\n"
	"\tif (v == 0) {\n"
	"\t\tfor (v = 0; v < 16; v++) {\n"
	"\t\t\tsum += g[v] * g[v];\n"
	"\t\t}\n"
	"\t\t*(f32 *)a.at[3] = f_sqrt(sum);\n"
	"\t}\n"
	"}\n"
	"KERNEL(toy_start, 32, 1, struct toy_args)\n"
	"{\n"
	"\tlaunch_wait();\n"
	"\tif (TID < 16) {\n"
	"\t\t((f32 *)a.at[0])[TID] = (f32)a.num[0] / 64;\n"
	"\t\t((f32 *)a.at[1])[TID] = 0;\n"
	"\t}\n"
	"}\n"
	"KERNEL(toy_draw, 32, 1, struct toy_args)\n"
	"{\n"
	"\tlaunch_wait();\n"
	"\ti32 *tokens = (i32 *)a.at[0], *labels = (i32 *)a.at[1];\n"
	"\tconst struct pieces *p = a.pieces[0];\n"
	"\tint i = TID, k = 0, s;\n"
	"\ti64 row = i;\n"
	"\tif (i >= (int)p->total) {\n"
	"\t\treturn;\n"
	"\t}\n"
	"\twhile (row >= p->at[k].count) {\n"
	"\t\trow -= p->at[k++].count;\n"
	"\t}\n"
	"\trow += p->at[k].start;\n"
	"\tfor (s = 0; s < 4; s++) {\n"
	"\t\ttokens[i * 4 + s] = (i32)(row * 5 + s) % 16;\n"
	"\t\tlabels[i * 4 + s] = (tokens[i * 4 + s] + 1) % 16;\n"
	"\t}\n"
	"}\n";

/* A cubin that only a driver of the tests can load: the image's number. */
static const struct rt_image toy_gpu_image[] = {
	{ .name = "forward", .source = toy_gpu_forward_text,
	  .cubin = "toy cubin 0", .cubin_bytes = 12 },
	{ .name = "update", .source = toy_gpu_update_text,
	  .cubin = "toy cubin 1", .cubin_bytes = 12 }
};

#define TOY_GRID(i, name)						\
	{ .image = i, .func = name, .blocks = { 1, 1, 1 },		\
	  .threads = 32, .cluster = 1, .smem_bytes = 64 }
static const struct rt_grid toy_grids[] = {
	TOY_GRID(0, "toy_forward"), TOY_GRID(0, "toy_backward"),
	TOY_GRID(1, "toy_count"), TOY_GRID(1, "toy_update"),
	TOY_GRID(1, "toy_start"), TOY_GRID(1, "toy_draw")
};
static const struct rt_step toy_gpu_steps[] = {
	{ .grid = &toy_grids[0] }, { .grid = &toy_grids[1] },
	{ .grid = &toy_grids[2] },
	{ .coll = &toy_add_count, .in = 0, .out = 64 },
	{ .grid = &toy_grids[3] }, { .grid = &toy_grids[4] },
	{ .grid = &toy_grids[5] }
};

static const int64_t toy_gpu_sizes[][5] = {
	{ 64, 64, 64, 4, TOY_LOGITS_APART }, { 64, 64, 64, 64, 64 },
	{ 64, 64, 64, 4, 64 }
};

#define TOY_KERNEL(name, first, n, sizes)				\
	{ .what = name, .nsteps = n, .steps = &toy_gpu_steps[first],	\
	  .nat = 5, .npieces = 1, .nnum = 1, .flops = 96, .bytes = 512,	\
	  .us = 3, .at_bytes = sizes }
static const struct rt_kernel toy_gpu_kernels[] = {
	TOY_KERNEL("squares", 0, 1, toy_gpu_sizes[0]),
	TOY_KERNEL("gather gradients 16", 1, 1, toy_gpu_sizes[1]),
	TOY_KERNEL("momentum 16", 2, 3, toy_gpu_sizes[2]),
	TOY_KERNEL("fill", 5, 1, NULL), TOY_KERNEL("draw", 6, 1, NULL)
};

static int64_t
toy_gpu_call(struct rt_env *e, int kernel, const int64_t at[5], int64_t mb)
{
	const int64_t num[1] = { e->seed };
	char *places[5];
	struct rt_call c = { .at = places, .pieces = &e->pieces[0],
			     .num = num };
	int i;

	(void)mb;
	for (i = 0; i < 5; i++) {
		places[i] = e->arena + at[i];
	}
	return e->launch(e, &toy_gpu_kernels[kernel], &c, -1);
}

static int64_t
toy_gpu_forward(struct rt_env *e, int64_t mb)
{
	const int64_t at[] = { TOY_W, TOY_IN + 64 * mb, TOY_LABELS + 64 * mb,
			       TOY_LOSS + 4 * mb,
			       TOY_LOGITS + TOY_LOGITS_APART * mb };

	return toy_gpu_call(e, 0, at, mb);
}

static int64_t
toy_gpu_backward(struct rt_env *e, int64_t mb)
{
	const int64_t at[] = { TOY_W, TOY_IN + 64 * mb, TOY_LABELS + 64 * mb,
			       TOY_G, TOY_G };

	return toy_gpu_call(e, 1, at, mb);
}

static int64_t
toy_gpu_update(struct rt_env *e, int64_t mb)
{
	const int64_t at[] = { TOY_W, TOY_M, TOY_G, TOY_NORM, TOY_G };
	char *g[] = { e->arena + TOY_G, e->arena + TOY_G };
	int64_t status = e->coll(e, &toy_add_g, g, -1);

	return status ? status : toy_gpu_call(e, 2, at, mb);
}

static int64_t
toy_gpu_start(struct rt_env *e, int64_t mb)
{
	const int64_t at[] = { TOY_W, TOY_M, TOY_G, TOY_G, TOY_G };

	return toy_gpu_call(e, 3, at, mb);
}

static int64_t
toy_gpu_draw(struct rt_env *e, int64_t mb)
{
	const int64_t at[] = { TOY_IN + 64 * mb, TOY_LABELS + 64 * mb, TOY_G,
			       TOY_G, TOY_G };

	return toy_gpu_call(e, 4, at, mb);
}

static const struct rt_func toy_gpu_funcs[] = {
	{ "stage0_forward", 0, 'F', toy_gpu_forward, 5 },
	{ "stage0_backward", 0, 'B', toy_gpu_backward, 3 },
	{ "pipe0_update", -1, 0, toy_gpu_update, 2 },
	{ "start", -1, 0, toy_gpu_start, 0 },
	{ "draw", -1, 0, toy_gpu_draw, 0 }
};
static const struct rt_action toy_gpu_actions[] = {
	{ &toy_gpu_funcs[0], 0 }, { &toy_gpu_funcs[0], 1 },
	{ &toy_gpu_funcs[1], 0 }, { &toy_gpu_funcs[1], 1 }
};

/* Which is put together before main: the prelude is the compiler's. */
static struct rt_images toy_gpu_images = {
	.n = 2, .at = toy_gpu_image, .texts = (const void *)cu_prelude,
	.made_by = "NVRTC 13.0, sm_90a"
};

__attribute__((constructor)) static void
toy_gpu_texts(void)
{
	toy_gpu_images.ntexts = cu_nprelude;
}

#define TOY_GPU_PROGRAM(ranks)						\
static const struct rt_program toy_gpu_program##ranks = {		\
	.arena_bytes = TOY_ARENA, .work_offset = TOY_WORK,		\
	.shared_bytes = TOY_SHARED, .start = &toy_gpu_funcs[3],		\
	.update = &toy_gpu_funcs[2], .draw = &toy_gpu_funcs[4],		\
	.nactions = 4, .actions = toy_gpu_actions, .nholds = 2,		\
	.holds = toy_holds, .ninputs = 2, .inputs = toy_inputs##ranks,	\
	.nresults = 1, .results = toy_results##ranks, .nzero = 1,	\
	.zero = toy_zero, .nwatch = 1, .watch = toy_watch,		\
	.logits = &toy_logits##ranks					\
}
TOY_GPU_PROGRAM(1);
TOY_GPU_PROGRAM(2);

#define TOY_GPU_PLAN(ranks) {						\
	.abi = RT_ABI_VERSION, .compiler = "llmc 0.1.0",		\
	.model = "toy", .target = "h100x" #ranks, .cpu = "x86-64",	\
	.arch = "sm_90a", .images = &toy_gpu_images,			\
	.naxes = 3, .axes = (const struct rt_axis[]){			\
		{ "", 1, 0 }, { "dp", ranks, 0 }, { "mb", 2, 1 } },	\
	.time = 2, .nranks = ranks, .npipes = 1, .nstages = 1,		\
	.nmicrobatches = 2, .workers = TOY_WORKERS, .nspreads = 4,	\
	.spreads = toy_spreads##ranks, .ngroups = 1,			\
	.groups = toy_groups, .program_of = toy_program_of,		\
	.nprograms = 1, .programs = &toy_gpu_program##ranks,		\
	.ntensors = 2, .tensors = toy_tensors, .batch = TOY_BATCH,	\
	.tokens = TOY_TOKENS, .step_us = 20, .flops = 1e3,		\
	.peak = 1e10, .json = "{}\n", .llp = "plan {}\n" }

#endif

/*
 * A plan by hand, as a compiler would write it: w[token] learns label / 16.
 * One weight for each of 16 tokens, two microbatches, and as many ranks as
 * share the batch; gradients are added over ranks, so is a count of tokens,
 * inside of a kernel.
 */
#ifndef T_TOY_H
#define T_TOY_H

#include <math.h>
#include <string.h>

#include "runtime/abi.h"

#define TOY_VOCAB 16
#define TOY_SEQ 4
#define TOY_BATCH 8
#define TOY_TOKENS (TOY_BATCH * TOY_SEQ)

/* Places in the arena. */
enum {
	TOY_W = 0, TOY_G = 64, TOY_LOSS = 128, TOY_NORM = 136,
	TOY_COUNT = 140, TOY_M = 192, TOY_IN = 256, TOY_LABELS = 384,
	TOY_LOGITS = 512, TOY_WORK = 2560, TOY_SHARED = 128, TOY_OWN = 64,
	TOY_WORKERS = 4,
	TOY_ARENA = TOY_WORK + TOY_SHARED + TOY_WORKERS * TOY_OWN
};

#define TOY_LOGITS_APART 1024

/* ---- kernels: at[0] weights, at[1] tokens, at[2] labels, ... ---- */

static int64_t
toy_row(const struct rt_call *c, int64_t row)
{
	const struct rt_pieces *p = c->pieces[0];
	int64_t i;

	for (i = 0; row >= p->at[i].count; i++) {
		row -= p->at[i].count;
	}
	return p->at[i].start + row;
}

/* A row of the batch: its loss to shared scratch, its logits. */
static void
toy_forward_rows(const struct rt_call *c, char *own, int64_t from, int64_t to)
{
	const float *w = (void *)c->at[0];
	const int32_t *tokens = (void *)c->at[1], *labels = (void *)c->at[2];
	float *logits = (void *)c->at[4], d;
	double *sum = (void *)own;
	int64_t i, s, v;

	for (i = from; i < to; i++) {
		*sum = 0;
		for (s = i * TOY_SEQ; s < (i + 1) * TOY_SEQ; s++) {
			d = w[tokens[s]] - (float)labels[s] / TOY_VOCAB;
			*sum += d * d;
			for (v = 0; v < TOY_VOCAB; v++) {
				d = TOY_VOCAB * w[tokens[s]] - (float)v;
				logits[s * TOY_VOCAB + v] = -d * d;
			}
		}
		((float *)(void *)c->shared)[i] = (float)(*sum / TOY_TOKENS);
	}
}

static void
toy_forward_sum(const struct rt_call *c, char *own, int64_t from, int64_t to)
{
	const float *rows = (void *)c->shared;
	float *loss = (void *)c->at[3];
	int64_t i;

	(void)own;
	(void)from;
	(void)to;
	*loss = 0;
	for (i = 0; i < c->pieces[0]->total; i++) {
		*loss += rows[i];
	}
}

static void
toy_backward_words(const struct rt_call *c, char *own, int64_t from,
		   int64_t to)
{
	const float *w = (void *)c->at[0];
	const int32_t *tokens = (void *)c->at[1], *labels = (void *)c->at[2];
	float *g = (void *)c->at[3];
	int64_t i, v;

	(void)own;
	for (v = from; v < to; v++) {
		for (i = 0; i < c->pieces[0]->total * TOY_SEQ; i++) {
			if (tokens[i] == v) {
				g[v] += 2 * (w[v] - (float)labels[i] /
						    TOY_VOCAB) / TOY_TOKENS;
			}
		}
	}
}

static void
toy_count(const struct rt_call *c, char *own, int64_t from, int64_t to)
{
	(void)own;
	(void)from;
	(void)to;
	*(float *)(void *)c->shared =
		(float)(c->pieces[0]->total * 2 * TOY_SEQ);
}

static void
toy_update_words(const struct rt_call *c, char *own, int64_t from, int64_t to)
{
	float *w = (void *)c->at[0], *m = (void *)c->at[1];
	const float *g = (void *)c->at[2];
	float mean = TOY_TOKENS / ((float *)(void *)c->shared)[16];
	int64_t v;

	(void)own;
	for (v = from; v < to; v++) {
		m[v] = 0.5f * m[v] + g[v] * mean;
		w[v] -= 2 * m[v];
	}
}

static void
toy_norm(const struct rt_call *c, char *own, int64_t from, int64_t to)
{
	const float *g = (void *)c->at[2];
	float sum = 0;
	int64_t v;

	(void)own;
	(void)from;
	(void)to;
	for (v = 0; v < TOY_VOCAB; v++) {
		sum += g[v] * g[v];
	}
	*(float *)(void *)c->at[3] = sqrtf(sum);
}

/* ---- who has what: axis 1 shares the batch, axis 2 is time ---- */

static const struct rt_pieces toy_rows[][4] = {
	[1] = { { 1, 4, { { 0, 4 } } }, { 1, 4, { { 4, 4 } } } },
	/* uneven, and rank 1 has two pieces */
	[2] = { { 1, 1, { { 1, 1 } } }, { 1, 2, { { 4, 2 } } },
		{ 2, 3, { { 0, 1 }, { 2, 2 } } }, { 1, 2, { { 6, 2 } } } }
};
static const struct rt_pieces toy_seq[2] = {
	{ 1, TOY_SEQ, { { 0, TOY_SEQ } } }, { 1, TOY_SEQ, { { 0, TOY_SEQ } } }
};
static const struct rt_pieces toy_words[2] = {
	{ 1, TOY_VOCAB, { { 0, TOY_VOCAB } } },
	{ 1, TOY_VOCAB, { { 0, TOY_VOCAB } } }
};
static const struct rt_pieces toy_one[2] = {
	{ 1, 1, { { 0, 1 } } }, { 1, 1, { { 0, 1 } } }
};

#define TOY_SPREADS(ranks) {				\
	{ TOY_BATCH, 1, toy_rows[ranks] },		\
	{ TOY_SEQ, 0, toy_seq },			\
	{ TOY_VOCAB, 0, toy_words },			\
	{ 1, 0, toy_one } }
static const struct rt_spread toy_spreads1[] = TOY_SPREADS(1);
static const struct rt_spread toy_spreads2[] = TOY_SPREADS(2);

static const struct rt_spread *const toy_of_words[] = { &toy_spreads1[2] };
static const struct rt_spread *const toy_of_one[] = { &toy_spreads1[3] };

static const struct rt_coll toy_add_g = {
	.what = "all_reduce gradients on dp", .op = RT_COLL_SUM, .axes = 2,
	.elem = RT_ELEM_F32, .ndims = 1, .in = toy_of_words,
	.out = toy_of_words
};
static const struct rt_coll toy_add_count = {
	.what = "all_reduce count on dp", .op = RT_COLL_SUM, .axes = 2,
	.elem = RT_ELEM_F32, .ndims = 1, .in = toy_of_one, .out = toy_of_one
};

static const struct rt_step toy_backward_steps[] = {
	{ .run = toy_backward_words, .items = TOY_VOCAB }
};
static const struct rt_kernel toy_backward_kernel = {
	.what = "gather gradients 16", .nsteps = 1,
	.steps = toy_backward_steps, .flops = 96, .bytes = 512, .us = 3
};
static const struct rt_step toy_update_steps[] = {
	{ .run = toy_count, .items = 1 },
	{ .coll = &toy_add_count, .in = 0, .out = 64 },
	{ .run = toy_update_words, .items = TOY_VOCAB },
	{ .run = toy_norm, .items = 1 }
};
static const struct rt_kernel toy_update_kernel = {
	.what = "momentum 16", .nsteps = 4, .steps = toy_update_steps,
	.flops = 80, .bytes = 256
};

/* ---- programs ---- */

static int64_t
toy_forward(struct rt_env *e, int64_t mb)
{
	/* rows differ by rank and microbatch: a compiled plan has a kernel
	 * for each size */
	struct rt_step steps[2] = {
		{ .run = toy_forward_rows, .items = e->pieces[0]->total },
		{ .run = toy_forward_sum, .items = 1 }
	};
	static const struct rt_kernel first = {
		.what = "squares", .nsteps = 2, .us = 5
	};
	struct rt_kernel k = first;
	char *at[] = { e->arena + TOY_W, e->arena + TOY_IN + 64 * mb,
		       e->arena + TOY_LABELS + 64 * mb,
		       e->arena + TOY_LOSS + 4 * mb,
		       e->arena + TOY_LOGITS + TOY_LOGITS_APART * mb };
	struct rt_call c = { at, &e->pieces[0], NULL, NULL, NULL };

	k.steps = steps;
	return e->launch(e, &k, &c, -1);
}

static int64_t
toy_backward(struct rt_env *e, int64_t mb)
{
	char *at[] = { e->arena + TOY_W, e->arena + TOY_IN + 64 * mb,
		       e->arena + TOY_LABELS + 64 * mb, e->arena + TOY_G };
	struct rt_call c = { at, &e->pieces[0], NULL, NULL, NULL };

	return e->launch(e, &toy_backward_kernel, &c, -1);
}

static int64_t
toy_update(struct rt_env *e, int64_t mb)
{
	char *g[] = { e->arena + TOY_G, e->arena + TOY_G };
	char *at[] = { e->arena + TOY_W, e->arena + TOY_M, e->arena + TOY_G,
		       e->arena + TOY_NORM };
	struct rt_call c = { at, &e->pieces[0], NULL, NULL, NULL };
	int64_t status = e->coll(e, &toy_add_g, g, -1);

	(void)mb;
	return status ? status : e->launch(e, &toy_update_kernel, &c, -1);
}

static int64_t
toy_start(struct rt_env *e, int64_t mb)
{
	float *w = (void *)(e->arena + TOY_W);
	int64_t v;

	(void)mb;
	for (v = 0; v < TOY_VOCAB; v++) {
		w[v] = (float)e->seed / 64;
	}
	memset(e->arena + TOY_M, 0, 64);
	return 0;
}

static int64_t
toy_draw(struct rt_env *e, int64_t mb)
{
	int32_t *tokens = (void *)(e->arena + TOY_IN + 64 * mb);
	int32_t *labels = (void *)(e->arena + TOY_LABELS + 64 * mb);
	struct rt_call c = { NULL, &e->pieces[0], NULL, NULL,
			     NULL };
	int64_t i, s;

	for (i = 0; i < e->pieces[0]->total; i++) {
		for (s = 0; s < TOY_SEQ; s++) {
			*tokens = (int32_t)(toy_row(&c, i) * 5 + s) %
				  TOY_VOCAB;
			*labels++ = (*tokens++ + 1) % TOY_VOCAB;
		}
	}
	return 0;
}

static const struct rt_func toy_funcs[] = {
	{ "stage0_forward", 0, 'F', toy_forward, 5 },
	{ "stage0_backward", 0, 'B', toy_backward, 3 },
	{ "pipe0_update", -1, 0, toy_update, 2 },
	{ "start", -1, 0, toy_start, 0 },
	{ "draw", -1, 0, toy_draw, 0 }
};
static const struct rt_action toy_actions[] = {
	{ &toy_funcs[0], 0 }, { &toy_funcs[0], 1 },
	{ &toy_funcs[1], 0 }, { &toy_funcs[1], 1 }
};

static const char *const toy_dims[] = { "batch", "seq", "vocab" };
static const int64_t toy_sizes[] = { TOY_VOCAB };
static const struct rt_tensor toy_tensors[] = {
	{ "w", 1, 0, RT_ELEM_F32, 1, &toy_dims[2], toy_sizes, 0, 0, 0, 0 },
	{ "w.momentum", 0, 0, RT_ELEM_F32, 1, &toy_dims[2], toy_sizes, 0, 0, 0,
	  0 }
};
static const struct rt_hold toy_holds[] = {
	{ &toy_tensors[0], TOY_W, toy_of_words, 1, 0, 0 },
	{ &toy_tensors[1], TOY_M, toy_of_words, 1, 0, 0 }
};
static const struct rt_range toy_zero[] = { { TOY_G, 64 } };
static const struct rt_watch toy_watch[] = {
	{ "gradient_norm", RT_ELEM_F32, TOY_NORM }
};

#define TOY_PROGRAM(ranks)						\
static const struct rt_spread *const toy_port_dims##ranks[] = {		\
	&toy_spreads##ranks[0], &toy_spreads##ranks[1],			\
	&toy_spreads##ranks[2]						\
};									\
static const struct rt_port toy_inputs##ranks[] = {			\
	{ .name = "tokens", .elem = RT_ELEM_I32, .offset = TOY_IN,	\
	  .apart = 64, .below = TOY_VOCAB, .ndims = 2,			\
	  .names = toy_dims, .dims = toy_port_dims##ranks },		\
	{ .name = "labels", .elem = RT_ELEM_I32, .offset = TOY_LABELS,	\
	  .apart = 64, .below = TOY_VOCAB, .ndims = 2,			\
	  .names = toy_dims, .dims = toy_port_dims##ranks }		\
};									\
static const struct rt_port toy_results##ranks[] = {			\
	{ .name = "loss", .elem = RT_ELEM_F32, .offset = TOY_LOSS,	\
	  .apart = 4, .sum = 2 | 4 }					\
};									\
static const struct rt_port toy_logits##ranks = {			\
	.name = "logits", .elem = RT_ELEM_F32, .offset = TOY_LOGITS,	\
	.apart = TOY_LOGITS_APART, .ndims = 3, .names = toy_dims,	\
	.dims = toy_port_dims##ranks					\
};									\
static const struct rt_program toy_program##ranks = {			\
	.arena_bytes = TOY_ARENA, .work_offset = TOY_WORK,		\
	.shared_bytes = TOY_SHARED, .own_bytes = TOY_OWN,		\
	.start = &toy_funcs[3], .update = &toy_funcs[2],		\
	.draw = &toy_funcs[4], .nactions = 4, .actions = toy_actions,	\
	.nholds = 2, .holds = toy_holds, .ninputs = 2,			\
	.inputs = toy_inputs##ranks, .nresults = 1,			\
	.results = toy_results##ranks, .nzero = 1, .zero = toy_zero,	\
	.nwatch = 1, .watch = toy_watch, .logits = &toy_logits##ranks	\
}
TOY_PROGRAM(1);
TOY_PROGRAM(2);

static const int64_t toy_program_of[2] = { 0, 0 };
static const int64_t toy_groups[] = { 2 };

#define TOY_PLAN(ranks) {						\
	.abi = RT_ABI_VERSION, .compiler = "llmc 0.1.0",		\
	.model = "toy", .target = "cpux" #ranks, .cpu = "x86-64-v2",	\
	.naxes = 3, .axes = (const struct rt_axis[]){			\
		{ "", 1, 0 }, { "dp", ranks, 0 }, { "mb", 2, 1 } },	\
	.time = 2, .nranks = ranks, .npipes = 1, .nstages = 1,		\
	.nmicrobatches = 2, .workers = TOY_WORKERS, .nspreads = 4,	\
	.spreads = toy_spreads##ranks, .ngroups = 1,			\
	.groups = toy_groups, .program_of = toy_program_of,		\
	.nprograms = 1, .programs = &toy_program##ranks,		\
	.ntensors = 2, .tensors = toy_tensors, .batch = TOY_BATCH,	\
	.tokens = TOY_TOKENS, .step_us = 20, .flops = 1e3,		\
	.peak = 1e10, .json = "{}\n", .llp = "plan {}\n" }

#endif

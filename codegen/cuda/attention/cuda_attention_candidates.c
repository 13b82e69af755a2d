/*
 * Candidates of a step of attention, as plans name them: rows and columns of a
 * block, and columns of d at a time.  All that are legal are added, as for
 * contractions (cuda_candidates.c).
 */
#include "codegen/cuda/attention/cuda_attention.h"

/* Multiplications of a multiprocessor in a cycle: mma of 16 bits, and f32. */
#define RATE 1024
#define RATE_FMA 64
/* Exponentials, one for each pair: CUDA C++ Programming Guide, "Throughput of
 * Native Arithmetic Instructions". */
#define EXPS 16

static const char *
name_of(const struct attn *t, const char *made)
{
	const struct plan_attention x = {
		.dtype = t->tile, .batches = t->batches, .heads = t->heads,
		.kv = t->kv, .queries = t->queries, .keys = t->keys,
		.d = t->d, .dv = t->dv, .window = t->window,
		.causal = t->causal, .between = attn_is_between(t),
		.alibi = t->alibi, .softcap = t->softcap
	};

	return plan_attention_name(t->k->c->a, &x, made);
}

void
ca_candidates_begin(const struct attn *t, const char *made,
		    struct cu_candidates *w)
{
	struct cg_cuda *c = t->k->c;

	cu_candidates_open(t->k, c->tiling ? name_of(t, made) : NULL, w);
	cu_candidates_clear(w);
}

bool
ca_candidates_planned(const struct attn *t, const char *made)
{
	const struct cu_tiling *all = t->k->c->tiling;

	return all && cu_tiling_names(all, name_of(t, made));
}

bool
ca_candidates_add(const struct attn *t, struct cu_candidates *w,
		  const struct ca_form *form, int64_t rows, int64_t products)
{
	struct cg_cuda *c = t->k->c;
	double pairs = (double)(t->batches * t->heads) *
		       (double)(t->queries * t->keys) / (t->causal ? 2 : 1);
	double each = (double)products /
		(form->reached * (t->tile == IR_F32 ? RATE_FMA : RATE));
	struct plan_tile tile = { .num = {
		[PLAN_TILE_M] = rows, [PLAN_TILE_N] = form->cols,
		[PLAN_TILE_K] = form->chunk ? form->chunk : t->d,
		[PLAN_TILE_STAGES] = form->stages,
		[PLAN_TILE_TEAMS] = form->teams,
		[PLAN_TILE_WARPS] = form->teams ? 0 : form->warps
	} };

	if (each < 1.0 / EXPS) {
		each = 1.0 / EXPS;
	}
	return cu_candidates_add(c->a, w, &tile, false,
				 pairs * each / (double)c->units);
}

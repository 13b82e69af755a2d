/*
 * Attention whose keys are sharded over ranks: an all-gather brings the keys
 * and values of all ranks into shared scratch, in the order of their
 * positions, and a reduce-scatter sums their gradients.  Collectives are of
 * f32; 16-bit values are converted back before they are used, without loss.
 */
#include "codegen/attention/attention.h"

struct attn_copy *
attn_find_copy(struct attn_group *g, value_id v, bool whole,
	       enum ir_dtype dtype)
{
	uint32_t i;

	for (i = 0; i < g->copies.n; i++) {
		if (g->copies.at[i].value == v &&
		    g->copies.at[i].whole == whole &&
		    g->copies.at[i].dtype == dtype) {
			return &g->copies.at[i];
		}
	}
	return NULL;
}

static void
add_collective(const struct attn *t, const struct ir_type *type,
	       enum rt_coll_op op, int64_t in, int64_t out)
{
	struct attn_group *g = t->g;
	struct cg_step s = { .op = op, .axes = t->axes, .in = in, .out = out,
			     .ndims = type->ndims };
	struct cg_spread *pieces = op == RT_COLL_SUM ? s.to : s.from;
	struct cg_spread *whole = op == RT_COLL_SUM ? s.from : s.to;
	uint32_t i;

	s.elems = attn_elems(g, type,
			     op == RT_COLL_SUM ? t->dim[ATTN_KEYS] : 0);
	for (i = 0; i < type->ndims; i++) {
		pieces[i].size = ir_dim_size(g->m, type->dims[i]);
		pieces[i].cut = type->cut[i];
		whole[i] = pieces[i];
		if (type->dims[i] == t->dim[ATTN_KEYS]) {
			whole[i].cut = 0;
		}
	}
	VEC_PUSH(g->a, &g->out->steps, s);
}

void
attn_gather(struct attn *t, uint32_t input)
{
	struct attn_group *g = t->g;
	value_id v = t->values[input];
	const struct ir_type *type = ir_type(g->m, v);
	struct attn_copy *had = attn_find_copy(g, v, true, t->tile);
	struct attn_copy made = { v, true, t->tile, 0 };
	int64_t here, all, cols = input == ATTN_K ? t->d : t->dv;
	dim_id keys = t->dim[ATTN_KEYS];
	struct attn_view f32, own;

	if (had) {
		attn_view_shared(t, type, keys, true, had->at, t->tile,
				 &t->in[input]);
		return;
	}
	here = attn_alloc_shared(g, 4 * attn_elems(g, type, 0));
	all = attn_alloc_shared(g, 4 * attn_elems(g, type, keys));
	attn_view_shared(t, type, 0, true, here, IR_F32, &f32);
	g->back->copy(
		t, &t->in[input], &f32, t->kv,
		attn_local_size(g, type, (uint32_t)ir_type_at(type, keys)),
		cols);
	add_collective(t, type, RT_COLL_COPY, here, all);
	attn_view_shared(t, type, keys, true, all, IR_F32, &f32);
	made.at = all;
	own = f32;
	if (t->tile != IR_F32) {
		made.at = attn_alloc_shared(g, ir_dtypes[t->tile].bits / 8 *
					 attn_elems(g, type, keys));
		attn_view_shared(t, type, keys, true, made.at, t->tile, &own);
		g->back->copy(t, &f32, &own, t->kv, t->keys, cols);
	}
	t->in[input] = own;
	VEC_PUSH(g->a, &g->copies, made);
}

void
attn_reduce_keys(struct attn *t, enum attn_result r)
{
	struct attn_group *g = t->g;
	struct attn_made *made = &t->made[r];
	int64_t home = attn_alloc_shared(g, 4 * attn_elems(g, &made->type, 0));

	add_collective(t, &made->type, RT_COLL_SUM, made->scratch.shared, home);
	attn_view_shared(t, &made->type, 0, true, home, IR_F32, &made->scratch);
	if (made->memory.place != ATTN_NONE) {
		g->back->copy(t, &made->scratch, &made->memory, t->kv,
			      attn_local_size(g, &made->type, made->pos_at),
			      attn_cols(t, r));
	}
}

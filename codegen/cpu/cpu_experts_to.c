/*
 * dot_to: an item is a block of one expert's matrix.  It goes over the rows of
 * that expert, a number of them at a time: both operands' parts for its block
 * are copied side by side, packed, and their product is added to the tile.
 */
#include "codegen/cpu/cpu_experts.h"

#define DEPTH 256		/* rows at a time, in words */

/* ---- the plan ---- */

static bool
fits(struct experts *x)
{
	struct dot *d = &x->dot;
	int64_t words = 4 * dot_panel_words_of(&d->unit, d->depth), bytes;

	bytes = d->depth * experts_elem_bytes(x, 0);
	d->tile_ld = dot_round_up(d->cols.most, d->unit.lanes);
	d->own_b = 0;
	d->own_c = dot_round_up(
		words * dot_round_up(d->cols.most, dot_nr(&d->unit)), 64);
	d->own_a = d->own_c +
		   dot_round_up(4 * d->tile_ld *
					dot_round_up(d->rows.most, d->unit.mr),
				64);
	x->own_rows[0] =
		d->own_a +
		dot_round_up(words * dot_round_up(d->rows.most, d->unit.mr),
			     64);
	x->own_rows[1] =
		x->own_rows[0] + dot_round_up(bytes * d->rows.most, 64);
	d->out->own_bytes = x->own_rows[1] + bytes * d->cols.most;
	return d->out->own_bytes <= EXPERTS_OWN;
}

bool
experts_plan_to(struct experts *x)
{
	struct dot *d = &x->dot;

	if (!experts_factors(x, &d->m)) {
		return false;
	}
	d->depth = DEPTH * (int64_t)d->unit.per_word;
	x->most = d->depth;
	d->rows = dot_split_dims(&d->dims[1], 64, d->unit.mr);
	return experts_choose_columns(x, fits);
}

/* ---- an item ---- */

struct experts_matrix {
	struct experts_step *s;
	struct ll_value *expert, *first, *rows;
	struct dot_place at[2];	/* in both factors */
};

static void
copy_rows(struct experts_matrix *b, struct ll_value *from, struct ll_value *n)
{
	struct experts_step *s = b->s;
	struct dot *d = &s->x->dot;
	struct ll *l = s->l;
	struct ll_value *offset[2];
	struct ll_loop r;
	int k;

	ll_loop(l, &r, ll_i64(l, 0), n, 1, NULL, 0);
	experts_find_row(s, b->first, ll_add(l, from, r.i), offset, NULL);
	for (k = 0; k < 2; k++) {
		int64_t most = k ? d->cols.most : d->rows.most;
		struct ll_value *to = ll_plus_n(l, s->own, s->x->own_rows[k]);

		experts_copy_part(
			s, k, k ? &d->n : &d->m, offset[k], b->at[k].start,
			b->at[k].live,
			ll_plus(l, to,
				ll_mul_n(l, r.i,
					 most * experts_elem_bytes(s->x, k))));
	}
	ll_loop_end(l, &r, NULL);
}

static void
all_rows(struct experts_matrix *b)
{
	struct experts_step *s = b->s;
	struct dot *d = &s->x->dot;
	struct ll *l = s->l;
	struct ll_value *n, *later, *args[6], *to[2];
	struct ll_loop q;
	int k;

	experts_clear_tile(s, ll_test(l, LL_EQ, b->rows, ll_i64(l, 0)));
	to[0] = ll_plus_n(l, s->own, d->own_a);
	to[1] = ll_plus_n(l, s->own, d->own_b);
	ll_loop(l, &q, ll_i64(l, 0), b->rows, d->depth, NULL, 0);
	n = ll_min(l, ll_i64(l, d->depth), ll_sub(l, b->rows, q.i));
	copy_rows(b, q.i, n);
	for (k = 0; k < 2; k++) {
		args[0] = to[k];
		args[1] = ll_plus_n(l, s->own, s->x->own_rows[k]);
		args[2] = ll_i64(l, 0);
		args[3] = b->at[k].live;
		args[4] = ll_i64(l, 0);
		args[5] = n;
		ll_call(l, s->pack[k], args, 6);
	}
	later = ll_select(l, ll_test(l, LL_GT, q.i, ll_i64(l, 0)),
			  ll_i64(l, 1), ll_i64(l, 0));
	experts_multiply(s, to[0], to[1], dot_words(l, &d->unit, n), later);
	ll_loop_end(l, &q, NULL);
}

static bool
emit_epilogue(struct experts_matrix *b, const char **why)
{
	struct experts_step *s = b->s;
	struct dot *d = &s->x->dot;
	struct cg_nest nest;
	struct cg_leaf leaf = { .value = d->value };
	int at;
	uint32_t i;

	cg_nest_all(d->c, d->k, &nest);
	nest.space = *ir_type(d->c->m, d->value);
	at = ir_type_at(&nest.space, s->x->p.of);
	nest.from[at] = b->expert;
	nest.count[at] = 1;
	leaf.at = ll_plus_n(s->l, s->own, d->own_c);
	dot_nest_place(s->l, &nest, &leaf, &d->dims[1], &d->rows, &b->at[0],
		      d->tile_ld);
	dot_nest_place(s->l, &nest, &leaf, &d->dims[2], &d->cols, &b->at[1],
		      1);
	for (i = 0; i < IR_MAX_DIMS; i++) {
		leaf.from[i] = nest.from[i];
	}
	VEC_PUSH(d->c->a, &nest.leaves, leaf);
	return cg_nest_box(d->c, d->out, s->func, &nest, why);
}

/* ---- the step ---- */

static struct ll_value *
packer(struct experts *x, int which)
{
	struct dot *d = &x->dot;
	int64_t most = which ? d->cols.most : d->rows.most;
	struct cg_factor side = { .n = 1, .size = most }, k = side;

	side.at[0] = (struct cg_run){ most, { 1, 1 } };
	k.size = d->depth;
	k.at[0] = (struct cg_run){ d->depth, { most, most } };
	return experts_packer(x, which, &side, &k);
}

bool
experts_emit_to(struct experts *x, const char **why)
{
	struct dot *d = &x->dot;
	int64_t blocks = d->rows.blocks * d->cols.blocks;
	struct experts_step s;
	struct experts_matrix b = { .s = &s };
	struct ll *l = d->c->ll;
	struct ll_value *i, *end;
	struct ll_loop item;
	bool done;
	int k;

	s.tile = dot_tile_func(d->c, &d->unit);
	for (k = 0; k < 2; k++) {
		s.pack[k] = packer(x, k);
	}
	experts_begin_step(&s, x, "dot_to", x->p.n * blocks);
	dot_tiles_begin(d->c, &d->unit);
	ll_loop(l, &item, ll_param(l, s.func, 2), ll_param(l, s.func, 3), 1,
		NULL, 0);
	b.expert = ll_div_n(l, item.i, blocks);
	i = ll_rem_n(l, item.i, blocks);
	b.first = experts_list_word(&s, x->first, b.expert);
	end = experts_list_word(&s, x->first,
			   ll_add(l, b.expert, ll_i64(l, 1)));
	b.rows = ll_mul_n(l, ll_sub(l, end, b.first), x->p.rows.size);
	b.at[0] = dot_block_place(l, &d->dims[1], &d->rows,
			    ll_div_n(l, i, d->cols.blocks));
	b.at[1] = dot_block_place(l, &d->dims[2], &d->cols,
			    ll_rem_n(l, i, d->cols.blocks));
	s.live[0] = b.at[0].live;
	s.live[1] = b.at[1].live;
	all_rows(&b);
	done = emit_epilogue(&b, why);
	ll_loop_end(l, &item, NULL);
	dot_tiles_end(d->c, &d->unit);
	ll_return(l, NULL);
	return done;
}

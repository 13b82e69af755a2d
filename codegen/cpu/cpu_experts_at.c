/*
 * dot_at: an item is a block of one expert's rows by a block of columns.  Rows
 * are copied side by side, packed and multiplied as in any contraction.  The
 * nodes that follow are computed row by row, at the places that rows come from.
 */
#include "codegen/cpu/cpu_experts.h"

#define MOST 64			/* rows of a block */

/* ---- the plan ---- */

static void
choose_depth(struct dot *d)
{
	int64_t per_block = d->unit.scaled ? IR_GROUP
					   : 512 * (int64_t)d->unit.per_word;
	int64_t whole = (int64_t)d->unit.words * d->unit.per_word;

	d->ndepth = (d->over.size + per_block - 1) / per_block;
	d->depth =
		dot_round_up((d->over.size + d->ndepth - 1) / d->ndepth, whole);
	d->ndepth = (d->over.size + d->depth - 1) / d->depth;
}

static bool
fits(struct experts *x)
{
	struct dot *d = &x->dot;
	int64_t words = 4 * dot_panel_words_of(&d->unit, d->depth);
	int64_t rows = dot_round_up(x->most, d->unit.mr);

	d->tile_ld = dot_round_up(d->cols.most, d->unit.lanes);
	d->own_b = 0;
	d->own_c = d->unit.panels ? 0 : dot_round_up(
		words * dot_round_up(d->cols.most, dot_nr(&d->unit)), 64);
	d->own_a = d->own_c + dot_round_up(4 * rows * d->tile_ld, 64);
	x->own_rows[0] = d->own_a + dot_round_up(words * rows, 64);
	d->out->own_bytes = x->own_rows[0] + rows * d->depth *
					     experts_elem_bytes(x, 0);
	return d->out->own_bytes <= EXPERTS_OWN;
}

bool
experts_plan_at(struct experts *x)
{
	struct dot *d = &x->dot;
	int64_t all = ir_dim_size(d->c->m, x->p.of);

	if (!experts_factors(x, &d->over) ||
	    (d->source[1].view.dtype == IR_INT4 &&
	     (!dot_factor_dense(&d->over, 1) ||
	      d->over.size % IR_GROUP != 0)) ||
	    (d->unit.panels &&
	     !dot_reads_panels(&d->source[1], &d->n, &d->over))) {
		return false;
	}
	choose_depth(d);
	x->most = dot_round_up(
		(x->p.pairs.size * x->p.rows.size + all - 1) / all, d->unit.mr);
	x->most = x->most < MOST ? x->most : MOST;
	d->rows.most = x->most;
	return experts_choose_columns(x, fits);
}

/* ---- an item ---- */

struct experts_rows {
	struct experts_step *s;
	struct ll_value *expert, *first;	/* its first pair */
	struct ll_value *row, *live;	/* the first, and how many */
	struct dot_place n;
};

/* The expert whose block it is: the last one that begins there or before. */
static struct ll_value *
expert_of(struct experts_step *s, struct ll_value *block)
{
	struct ll *l = s->l;
	struct ll_value *n = ll_i64(l, 0), *begins;
	struct ll_loop k;

	ll_loop(l, &k, ll_i64(l, 1), ll_i64(l, s->x->p.n + 1), 1, &n, 1);
	begins = ll_test(l, LL_LE, experts_list_word(s, s->x->block, k.i),
			 block);
	n = ll_add(l, k.at[0], ll_select(l, begins, ll_i64(l, 1),
					  ll_i64(l, 0)));
	ll_loop_end(l, &k, &n);
	return k.at[0];
}

static void
find_rows(struct experts_rows *b, struct ll_value *block)
{
	struct experts_step *s = b->s;
	struct experts *x = s->x;
	struct ll *l = s->l;
	struct ll_value *all;

	b->expert = expert_of(s, block);
	b->first = experts_list_word(s, x->first, b->expert);
	all = experts_list_word(s, x->first,
				ll_add(l, b->expert, ll_i64(l, 1)));
	all = ll_mul_n(l, ll_sub(l, all, b->first), x->p.rows.size);
	b->row = ll_sub(l, block, experts_list_word(s, x->block, b->expert));
	b->row = ll_mul_n(l, b->row, x->most);
	b->live = ll_min(l, ll_i64(l, x->most), ll_sub(l, all, b->row));
}

/* Copies and packs a stretch of k of the rows. */
static void
pack_rows(struct experts_rows *b, struct ll_value *from, struct ll_value *n)
{
	struct experts_step *s = b->s;
	struct dot *d = &s->x->dot;
	struct ll *l = s->l;
	struct ll_value *to = ll_plus_n(l, s->own, s->x->own_rows[0]);
	struct ll_value *offset[2], *args[6];
	struct ll_loop r;

	ll_loop(l, &r, ll_i64(l, 0), b->live, 1, NULL, 0);
	experts_find_row(s, b->first, ll_add(l, b->row, r.i), offset, NULL);
	experts_copy_part(s, 0, &d->over, offset[0], from, n,
		     ll_plus(l, to, ll_mul_n(l, r.i, d->depth *
					    experts_elem_bytes(s->x, 0))));
	ll_loop_end(l, &r, NULL);
	args[0] = ll_plus_n(l, s->own, d->own_a);
	args[1] = to;
	args[2] = ll_i64(l, 0);
	args[3] = b->live;
	args[4] = ll_i64(l, 0);
	args[5] = n;
	ll_call(l, s->pack[0], args, 6);
}

static void
all_depths(struct experts_rows *b)
{
	struct experts_step *s = b->s;
	struct dot *d = &s->x->dot;
	struct ll *l = s->l;
	struct ll_value *none, *matrix, *words, *later, *args[6];
	int at = ir_type_at(s->x->p.types[1], s->x->p.of);
	struct ll_loop q;

	/* the result of pairs of other ranks' experts is zero */
	none = ll_test(l, LL_EQ, b->expert, ll_i64(l, s->x->p.n));
	experts_clear_tile(s, none);
	matrix = ll_mul_n(l, b->expert, dot_bytes(
		dot_size_apart(d->source[1].base,
			       (uint8_t)d->source[1].view.dtype),
		d->source[1].view.stride[at]));
	matrix = ll_plus(l, s->source[1], matrix);
	ll_loop(l, &q, ll_i64(l, 0), ll_select(l, none, ll_i64(l, 0),
					       ll_i64(l, d->ndepth)), 1,
		NULL, 0);
	args[4] = ll_mul_n(l, q.i, d->depth);
	args[5] = ll_min(l, ll_i64(l, d->depth),
			  ll_sub(l, ll_i64(l, d->over.size), args[4]));
	if (d->unit.panels) {
		args[0] = dot_panel_at(d, matrix, b->n.start, args[4]);
	} else {
		args[0] = ll_plus_n(l, s->own, d->own_b);
		args[1] = matrix;
		args[2] = b->n.start;
		args[3] = b->n.live;
		ll_call(l, s->pack[1], args, 6);
	}
	pack_rows(b, args[4], args[5]);
	later = ll_select(l, ll_test(l, LL_GT, q.i, ll_i64(l, 0)),
			  ll_i64(l, 1), ll_i64(l, 0));
	words = dot_words(l, &d->unit, args[5]);
	experts_multiply(s, ll_plus_n(l, s->own, d->own_a), args[0], words,
			 later);
	ll_loop_end(l, &q, NULL);
}

static bool
emit_epilogue(struct experts_rows *b, const char **why)
{
	struct experts_step *s = b->s;
	struct dot *d = &s->x->dot;
	struct ll *l = s->l;
	struct cg_nest nest;
	struct cg_leaf leaf = { .value = d->value };
	struct ll_value *offset[2];
	struct ll_loop r;
	uint32_t i;
	bool done;

	cg_nest_all(d->c, d->k, &nest);
	nest.space = *ir_type(d->c->m, d->value);
	ll_loop(l, &r, ll_i64(l, 0), b->live, 1, NULL, 0);
	experts_find_row(s, b->first, ll_add(l, b->row, r.i), offset,
			 nest.from);
	for (i = 0; i < IR_MAX_DIMS; i++) {
		nest.count[i] = nest.from[i] != NULL;
	}
	leaf.at = ll_plus_n(l, s->own, d->own_c);
	leaf.at = ll_plus(l, leaf.at, ll_mul_n(l, r.i, 4 * d->tile_ld));
	dot_nest_place(l, &nest, &leaf, &d->dims[2], &d->cols, &b->n, 1);
	for (i = 0; i < IR_MAX_DIMS; i++) {
		leaf.from[i] = nest.from[i];
	}
	VEC_PUSH(d->c->a, &nest.leaves, leaf);
	done = cg_nest_box(d->c, d->out, s->func, &nest, why);
	ll_loop_end(l, &r, NULL);
	return done;
}

/* ---- the step ---- */

bool
experts_emit_at(struct experts *x, const char **why)
{
	struct dot *d = &x->dot;
	struct cg_factor rows = { .n = 1, .size = x->most }, k = rows;
	int64_t all = x->p.pairs.size * x->p.rows.size, blocks;
	struct ll_block *body, *next;
	struct experts_step s;
	struct experts_rows b = { .s = &s };
	struct ll_value *i;
	struct ll *l = d->c->ll;
	struct ll_loop item;
	bool done;

	rows.at[0] = (struct cg_run){ x->most, { d->depth, d->depth } };
	k.size = d->depth;
	k.at[0] = (struct cg_run){ d->depth, { 1, 1 } };
	s.tile = dot_tile_func(d->c, &d->unit);
	s.pack[0] = experts_packer(x, 0, &rows, &k);
	s.pack[1] = d->unit.panels ? NULL
		: experts_packer(x, 1, &d->n, &d->over);
	/* each expert may have a block that is not full */
	blocks = all / x->most + x->p.n + 1;
	experts_begin_step(&s, x, "dot_at", blocks * d->cols.blocks);
	dot_tiles_begin(d->c, &d->unit);
	ll_loop(l, &item, ll_param(l, s.func, 2), ll_param(l, s.func, 3), 1,
		NULL, 0);
	i = ll_div_n(l, item.i, d->cols.blocks);
	body = ll_block(l, NULL, "block");
	next = ll_block(l, NULL, "next");
	ll_branch(l, ll_test(l, LL_LT, i, experts_list_word(&s, x->block,
					ll_i64(l, x->p.n + 1))), body, next);
	ll_at(l, body);
	find_rows(&b, i);
	b.n = dot_block_place(l, &d->dims[2], &d->cols,
			ll_rem_n(l, item.i, d->cols.blocks));
	s.live[0] = b.live;
	s.live[1] = b.n.live;
	all_depths(&b);
	done = emit_epilogue(&b, why);
	ll_jump(l, next);
	ll_at(l, next);
	ll_loop_end(l, &item, NULL);
	dot_tiles_end(d->c, &d->unit);
	ll_return(l, NULL);
	return done;
}

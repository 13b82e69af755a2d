/*
 * Steps of contractions with experts: what dot_at and dot_to have in common.
 */
#include "codegen/cpu/cpu_experts.h"

#define MOST_PANELS 4		/* of columns in a block */

/* ---- dims ---- */

void
experts_coords(struct ll *l, const struct cg_counted *d, struct ll_value *i,
	       struct ll_value **out)
{
	uint32_t k;

	for (k = d->n; k-- > 0; ) {
		out[k] = k ? ll_rem_n(l, i, d->at[k].size) : i;
		i = ll_div_n(l, i, d->at[k].size);
	}
}

/* ---- lists in shared scratch ---- */

struct ll_value *
experts_word_at(struct experts_step *s, int64_t list, struct ll_value *i)
{
	struct ll_value *bytes = ll_mul_n(s->l, i, 4);

	return ll_plus(s->l, ll_plus_n(s->l, s->shared, list), bytes);
}

struct ll_value *
experts_list_word(struct experts_step *s, int64_t list, struct ll_value *i)
{
	return ll_cast(s->l, ll_load(s->l, ll_type(LL_I32, 1),
				     experts_word_at(s, list, i)), LL_I64);
}

/* ---- rows ---- */

void
experts_find_row(struct experts_step *s, struct ll_value *first,
	    struct ll_value *j, struct ll_value *offset[2],
	    struct ll_value **at)
{
	const struct cg_counted *d = &s->x->p.pairs;
	struct ll_value *coords[IR_MAX_DIMS], *i;
	struct ll *l = s->l;
	uint32_t k, round;

	offset[0] = offset[1] = ll_i64(l, 0);
	i = ll_add(l, first, ll_div_n(l, j, s->x->p.rows.size));
	i = experts_list_word(s, s->x->order, i);
	for (round = 0; round < 2; round++) {
		experts_coords(l, d, i, coords);
		for (k = 0; k < d->n; k++) {
			offset[0] = ll_add(l, offset[0], ll_mul_n(l,
					coords[k], d->at[k].stride[0]));
			offset[1] = ll_add(l, offset[1], ll_mul_n(l,
					coords[k], d->at[k].stride[1]));
			if (at && d->at[k].at >= 0) {
				at[d->at[k].at] = coords[k];
			}
		}
		d = &s->x->p.rows;
		i = ll_rem_n(l, j, d->size);
	}
}

int64_t
experts_elem_bytes(const struct experts *x, int which)
{
	const struct dot_source *s = &x->dot.source[which];

	return dot_size_along(s->base, (uint8_t)s->view.dtype).bytes;
}

void
experts_copy_part(struct experts_step *s, int which, const struct cg_factor *f,
	     struct ll_value *row, struct ll_value *from,
	     struct ll_value *live, struct ll_value *to)
{
	int64_t bytes = experts_elem_bytes(s->x, which);
	const struct ll_type t = ll_type(bytes == 4 ? LL_I32 : LL_I16, 1);
	struct ll_value *src = ll_plus(s->l, s->source[which],
				       ll_mul_n(s->l, row, bytes)), *at;
	struct ll *l = s->l;
	struct ll_loop k;

	if (dot_factor_dense(f, which)) {
		live = ll_mul_n(l, live, bytes);
		ll_copy(l, to, ll_plus(l, src, ll_mul_n(l, from, bytes)), live);
		return;
	}
	ll_loop(l, &k, ll_i64(l, 0), live, 1, NULL, 0);
	at = dot_factor_at(l, f, which, ll_add(l, from, k.i),
			   (struct dot_size){ bytes, 1 });
	to = ll_plus(l, to, ll_mul_n(l, k.i, bytes));
	ll_store(l, ll_load(l, t, ll_plus(l, src, at)), to);
	ll_loop_end(l, &k, NULL);
}

/* ---- tiles ---- */

/* The tile has space for whole panels. */
void
experts_multiply(struct experts_step *s, struct ll_value *rows,
		 struct ll_value *cols, struct ll_value *words,
		 struct ll_value *add)
{
	const struct dot *d = &s->x->dot;
	int64_t lanes = d->unit.lanes;
	struct ll *l = s->l;
	struct ll_value *args[13], *to = ll_plus_n(l, s->own, d->own_c);
	struct ll_value *panel = dot_panel_words(l, &d->unit, words);
	struct ll_loop r, c;

	ll_loop(l, &r, ll_i64(l, 0), s->live[0], d->unit.mr, NULL, 0);
	ll_loop(l, &c, ll_i64(l, 0), s->live[1], dot_nr(&d->unit), NULL, 0);
	args[0] = ll_plus(l, rows, ll_mul_n(l, ll_bin(l, LL_MUL, r.i, panel),
					   4));
	args[1] = d->unit.panels ? ll_mul_n(l, c.i, dot_column_bytes(d))
		: ll_mul_n(l, ll_bin(l, LL_MUL, c.i, panel), 4);
	args[1] = ll_plus(l, cols, args[1]);
	args[2] = ll_plus(l, to, ll_mul_n(l, r.i, 4 * d->tile_ld));
	args[2] = ll_plus(l, args[2], ll_mul_n(l, c.i, 4));
	args[3] = words;
	args[4] = ll_i64(l, 4 * d->tile_ld);
	args[5] = add;
	args[6] = args[2];	/* nothing to prefetch: it is in a cache */
	args[7] = args[4];
	args[8] = to;
	args[9] = ll_i64(l, 0);
	args[10] = ll_i64(l, d->unit.mr);
	args[11] = ll_add(l, ll_sub(l, s->live[1], c.i),
			   ll_i64(l, lanes - 1));
	args[11] = ll_mul_n(l, ll_div_n(l, args[11], lanes), lanes);
	args[12] = ll_i64(l, lanes * dot_column_bytes(d));
	ll_call(l, s->tile, args, d->unit.panels ? 13 : 12);
	ll_loop_end(l, &c, NULL);
	ll_loop_end(l, &r, NULL);
}

void
experts_clear_tile(struct experts_step *s, struct ll_value *cond)
{
	const struct dot *d = &s->x->dot;
	struct ll_block *yes = ll_block(s->l, NULL, "clear");
	struct ll_block *no = ll_block(s->l, NULL, "next");
	struct ll_value *at = ll_plus_n(s->l, s->own, d->own_c);
	struct ll_loop k;

	ll_branch(s->l, cond, yes, no);
	ll_at(s->l, yes);
	ll_loop(s->l, &k, ll_i64(s->l, 0), ll_i64(s->l, d->tile_ld *
		dot_round_up(d->rows.most, d->unit.mr)), 1, NULL, 0);
	ll_store(s->l, ll_zero(s->l, ll_type(LL_F32, 1)),
		 ll_plus(s->l, at, ll_mul_n(s->l, k.i, 4)));
	ll_loop_end(s->l, &k, NULL);
	ll_jump(s->l, no);
	ll_at(s->l, no);
}

void
experts_begin_step(struct experts_step *s, struct experts *x, const char *what,
	      int64_t items)
{
	struct dot *d = &x->dot;
	int k;

	s->x = x;
	s->l = d->c->ll;
	s->func = cg_cpu_step(d->c, d->out, what, items);
	s->own = ll_param(s->l, s->func, 1);
	s->shared = cg_cpu_shared(d->c, s->func);
	for (k = 0; k < 2; k++) {
		s->source[k] = dot_source_at(d->c, s->func, &d->source[k]);
	}
}

struct ll_value *
experts_packer(struct experts *x, int which, const struct cg_factor *rows,
	       const struct cg_factor *k)
{
	struct dot *d = &x->dot;
	struct dot_pack p = {
		.unit = &d->unit, .base = d->source[which].base,
		.dtype = (uint8_t)d->source[which].view.dtype,
		.rows = rows, .k = k, .which = which,
		.panel_rows = which ? dot_nr(&d->unit) : (int64_t)d->unit.mr,
		.tiles = d->unit.kind == DOT_TILES && which == 0
	};

	return dot_packer_func(d->c, &p);
}

/* ---- plans ---- */

bool
experts_factors(struct experts *x, struct cg_factor *first)
{
	struct dot *d = &x->dot;
	const struct cg_view *views[] = { &d->source[0].view,
					  &d->source[1].view };
	const struct cg_site site = dot_site(d->c, d->out);

	cg_picks_factors(&site, &x->p, views, first, &d->n, d->dims);
	return first->size > 0 && d->n.size > 0;
}

bool
experts_choose_columns(struct experts *x, bool (*fits)(struct experts *x))
{
	struct dot *d = &x->dot;
	const struct cg_dims *n = &d->dims[2];
	int64_t panels, want;

	for (panels = MOST_PANELS; panels >= 0; panels--) {
		want = panels ? panels * dot_nr(&d->unit) : n->size[n->n - 1];
		d->cols = dot_split_dims(n, want, dot_nr(&d->unit));
		if (!(d->whole_last && cg_split_cuts_last(n, &d->cols)) &&
		    fits(x)) {
			return true;
		}
	}
	return false;
}

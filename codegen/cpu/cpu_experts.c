/*
 * Contractions with experts: which kernels they are, and the step that sorts
 * pairs of a token and an expert by expert.
 *
 * Sorting keeps the order of pairs, and blocks depend on counts alone, so
 * sums do not depend on the number of workers.
 */
#include "codegen/cpu/cpu_experts.h"

static void
put_word(struct experts_step *s, int64_t list, struct ll_value *i,
	 struct ll_value *v)
{
	struct ll_value *at = experts_word_at(s, list, i);

	ll_store(s->l, ll_cast(s->l, v, LL_I32), at);
}

/* ---- sorting ---- */

/* An expert's place among those of this rank, or how many these are, if it is
 * on another rank. */
static struct ll_value *
place_of(struct experts_step *s, struct ll_value *expert)
{
	const struct ll_type i64 = ll_type(LL_I64, 1);
	struct experts *x = s->x;
	struct ll *l = s->l;
	struct ll_value *pieces, *at, *i, *n, *carry[2];
	struct ll_loop k;

	if (!x->p.cut) {
		return expert;
	}
	pieces = cg_cpu_pieces(x->dot.c, s->func, x->p.spread);
	carry[0] = ll_i64(l, x->p.n);
	carry[1] = ll_i64(l, 0);
	ll_loop(l, &k, ll_i64(l, 0), ll_load(l, i64, pieces), 1, carry, 2);
	at = ll_plus(l, pieces, ll_mul_n(l, k.i, 16));
	i = ll_sub(l, expert, ll_load(l, i64, ll_plus_n(l, at, (int64_t)
				offsetof(struct rt_pieces, at[0].start))));
	n = ll_load(l, i64, ll_plus_n(l, at, (int64_t)
				offsetof(struct rt_pieces, at[0].count)));
	carry[0] = ll_add(l, k.at[1], i);
	carry[0] = ll_select(l, ll_test(l, LL_ULT, i, n), carry[0], k.at[0]);
	carry[1] = ll_add(l, k.at[1], n);
	ll_loop_end(l, &k, carry);
	return k.at[0];
}

static struct ll_value *
expert_of(struct experts_step *s, struct ll_value *pair)
{
	const struct cg_counted *d = &s->x->p.pairs;
	struct ll_value *coords[IR_MAX_DIMS], *at;
	uint32_t i;

	at = cg_cpu_at(s->x->dot.c, s->func, s->x->p.index);
	experts_coords(s->l, d, pair, coords);
	for (i = 0; i < d->n; i++) {
		at = ll_plus(s->l, at, ll_mul_n(s->l, coords[i],
					       4 * d->at[i].index));
	}
	return place_of(s, ll_cast(s->l, ll_load(s->l, ll_type(LL_I32, 1),
						 at), LL_I64));
}

/* Turns how many pairs each expert has into where these and their blocks
 * begin. */
static void
add_up(struct experts_step *s)
{
	struct experts *x = s->x;
	struct ll *l = s->l;
	struct ll_value *carry[2] = { ll_i64(l, 0), ll_i64(l, 0) }, *n, *rows;
	struct ll_loop k;

	ll_loop(l, &k, ll_i64(l, 0), ll_i64(l, x->p.n + 1), 1, carry, 2);
	n = experts_list_word(s, x->fill, k.i);
	put_word(s, x->first, k.i, k.at[0]);
	put_word(s, x->fill, k.i, k.at[0]);
	put_word(s, x->block, k.i, k.at[1]);
	carry[0] = ll_add(l, k.at[0], n);
	rows = ll_add(l, ll_mul_n(l, n, x->p.rows.size),
		       ll_i64(l, x->most - 1));
	rows = ll_div_n(l, rows, x->most);
	if (!x->p.others) {
		rows = ll_select(l, ll_test(l, LL_LT, k.i, ll_i64(l, x->p.n)),
				 rows, ll_i64(l, 0));
	}
	carry[1] = ll_add(l, k.at[1], rows);
	ll_loop_end(l, &k, carry);
	put_word(s, x->first, ll_i64(l, x->p.n + 1), k.at[0]);
	put_word(s, x->block, ll_i64(l, x->p.n + 1), k.at[1]);
}

static void
sort(struct experts *x)
{
	struct experts_step s;
	struct ll_value *e, *at;
	struct ll_loop all, k;
	struct ll *l;

	experts_begin_step(&s, x, "experts", 1);
	l = s.l;
	ll_loop(l, &all, ll_param(l, s.func, 2), ll_param(l, s.func, 3), 1,
		NULL, 0);
	ll_loop(l, &k, ll_i64(l, 0), ll_i64(l, x->p.n + 1), 1, NULL, 0);
	put_word(&s, x->fill, k.i, ll_i64(l, 0));
	ll_loop_end(l, &k, NULL);
	ll_loop(l, &k, ll_i64(l, 0), ll_i64(l, x->p.pairs.size), 1, NULL, 0);
	e = expert_of(&s, k.i);
	at = experts_list_word(&s, x->fill, e);
	put_word(&s, x->fill, e, ll_add(l, at, ll_i64(l, 1)));
	ll_loop_end(l, &k, NULL);
	add_up(&s);
	ll_loop(l, &k, ll_i64(l, 0), ll_i64(l, x->p.pairs.size), 1, NULL, 0);
	e = expert_of(&s, k.i);
	at = experts_list_word(&s, x->fill, e);
	put_word(&s, x->order, at, k.i);
	put_word(&s, x->fill, e, ll_add(l, at, ll_i64(l, 1)));
	ll_loop_end(l, &k, NULL);
	ll_loop_end(l, &all, NULL);
	ll_return(l, NULL);
}

/* ---- the kernel ---- */

static void
place_lists(struct experts *x)
{
	x->first = x->dot.out->shared_bytes;
	x->block = x->first + 4 * (x->p.n + 2);
	x->fill = x->block + 4 * (x->p.n + 2);
	x->order = x->fill + 4 * (x->p.n + 2);
	x->dot.out->shared_bytes = x->order + 4 * x->p.pairs.size;
}

bool
cg_experts_steps(struct cg_cpu *c, struct cg_kernel *out,
		 const struct kernel *k, const char **why)
{
	struct experts x = { .dot = { .c = c, .out = out, .k = k } };
	const struct cg_site site = dot_site(c, out);
	struct dot_source *s = x.dot.source;
	const struct cg_view *views[] = { &s[0].view, &s[1].view };
	node_id head = cg_dot_head(c->m, k, true);
	int64_t rows;
	bool to;

	*why = NULL;
	if (!head) {
		return false;
	}
	cg_picks_begin(&site, head, &x.p);
	to = x.p.node->op == IR_DOT_TO;
	if (!dot_find_source(c, out, k, x.p.from[0], &s[0]) ||
	    !dot_find_source(c, out, k, x.p.from[1], &s[1]) ||
	    (s[1].base != s[0].base && s[1].base != LL_I8) ||
	    !cg_picks_find(&site, k, views, &x.p)) {
		return false;
	}
	x.dot.value = x.p.node->result;
	x.dot.unit = s[1].view.dtype == IR_INT4
		? dot_int4_unit(c, x.p.types[0]->dtype)
		: dot_unit(c, x.p.types[0]->dtype);
	dot_set_panels(&x.dot.unit, dot_in_panels(c, &s[1]), s[1].base);
	if (dot_in_panels(c, &s[0]) || (to && x.dot.unit.panels)) {
		return false;
	}
	x.dot.whole_last = cg_dot_whole_last(c->m, k, head);
	x.dot.result = DOT_BOX;
	rows = x.p.pairs.size * x.p.rows.size;
	if (rows == 0 || x.p.n == 0 || rows > INT32_MAX ||
	    !(to ? experts_plan_to(&x) : experts_plan_at(&x))) {
		return false;
	}
	place_lists(&x);
	sort(&x);
	return to ? experts_emit_to(&x, why) : experts_emit_at(&x, why);
}

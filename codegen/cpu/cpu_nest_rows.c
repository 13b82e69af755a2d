/*
 * Rows of a nest's step: loops, vectors along one of them, sums, and stores.
 *
 * Sums are stack slots, which LLVM turns into registers.  A long row has
 * several, so that an addition need not wait for the one before.  The order in
 * which a row is added up depends on its length alone.
 */
#include "codegen/cpu/cpu_nest.h"

#include <math.h>

#define UNROLL 4

/* ---- vectors along a loop ---- */

struct emit_along {
	uint32_t loop, unroll, lanes;
	void (*body)(struct emit *e, uint32_t u, void *user);
	void *user;
};

static void
run_body(struct emit *e, const struct emit_along *a, struct ll_value *i,
	 uint32_t unroll)
{
	uint32_t u, since;

	for (u = 0; u < unroll; u++) {
		e->index[a->loop] = u == 0 ? i : ll_bin(e->l, LL_ADD, i,
			ll_i64(e->l, (int64_t)u * a->lanes));
		since = e->scope.order.n;
		a->body(e, u, a->user);
		nest_scope_leave(&e->scope, since);
	}
}

/* A loop over whole vectors.  Returns where they end. */
static struct ll_value *
whole(struct emit *e, const struct emit_along *a, struct ll_value *lo,
      struct ll_value *hi, uint32_t unroll)
{
	int64_t step = (int64_t)unroll * a->lanes;
	struct ll_value *by = ll_i64(e->l, step), *n, *end;
	struct ll_loop k;

	n = ll_bin(e->l, LL_SUB, hi, lo);
	n = ll_bin(e->l, LL_DIV, n, by);
	end = ll_bin(e->l, LL_ADD, lo, ll_bin(e->l, LL_MUL, n, by));
	ll_loop(e->l, &k, lo, end, step, NULL, 0);
	run_body(e, a, k.i, unroll);
	ll_loop_end(e->l, &k, NULL);
	return end;
}

static void
rest(struct emit *e, const struct emit_along *a, struct ll_value *lo,
     struct ll_value *hi, bool is_nonempty)
{
	struct ll_block *yes = NULL, *no = NULL;

	if (!is_nonempty) {
		yes = ll_block(e->l, NULL, "rest");
		no = ll_block(e->l, NULL, "after");
		ll_branch(e->l, ll_test(e->l, LL_LT, lo, hi), yes, no);
		ll_at(e->l, yes);
	}
	e->live = ll_bin(e->l, LL_SUB, hi, lo);
	e->mask = ll_mask(e->l, e->live, a->lanes);
	run_body(e, a, lo, 1);
	e->mask = e->live = NULL;
	if (!is_nonempty) {
		ll_jump(e->l, no);
		ll_at(e->l, no);
	}
}

void
emit_vector_loop(struct emit *e, uint32_t loop, struct ll_value *lo,
	   struct ll_value *hi, int64_t fixed, uint32_t unroll,
	   void (*body)(struct emit *e, uint32_t u, void *user), void *user)
{
	struct emit_along a = { loop, unroll, ll_lanes(e->l, LL_F32), body,
				user };
	int64_t all = (int64_t)unroll * a.lanes, left = fixed;

	e->vec = loop;
	e->lanes = a.lanes;
	if (fixed < 0 || fixed >= all) {
		lo = whole(e, &a, lo, hi, unroll);
		left = fixed < 0 ? -1 : fixed % all;
	}
	if (unroll > 1 && (left < 0 || left >= a.lanes)) {
		lo = whole(e, &a, lo, hi, 1);
		left = left < 0 ? -1 : left % a.lanes;
	}
	if (left != 0) {
		rest(e, &a, lo, hi, left > 0);
	}
	e->lanes = 1;
	e->index[loop] = NULL;
}

/* ---- sums ---- */

static struct ll_value *
neutral(struct emit *e, const struct nest_expr *x, struct ll_type t)
{
	if (x->kind == NEST_INT) {
		return ll_int(e->l, t, x->op == NEST_SUM ? 0
			      : x->op == NEST_MOST ? INT64_MIN : INT64_MAX);
	}
	return ll_num(e->l, t, x->op == NEST_SUM ? 0
		      : x->op == NEST_MOST ? -INFINITY : INFINITY);
}

static struct ll_value *
combine(struct emit *e, const struct nest_expr *x, struct ll_value *a,
	struct ll_value *b)
{
	struct ll_value *args[2] = { a, b };

	if (x->op == NEST_SUM) {
		return ll_bin(e->l, LL_ADD, a, b);
	}
	if (x->kind != NEST_INT) {
		return ll_math(e->l, x->op == NEST_MOST ? "maxnum" : "minnum",
			       args, 2);
	}
	return ll_select(e->l, ll_test(e->l, x->op == NEST_MOST ? LL_GT
				       : LL_LT, a, b), a, b);
}

struct emit_pass {
	const struct nest_pass *p;
	uint32_t unroll;
	bool lanes;		/* its last loop goes in vectors */
};

static struct ll_type
sum_type(struct emit *e, const struct emit_pass *p, const struct nest_expr *x)
{
	uint64_t loops = nest_at(e->n, x->a)->loops;
	bool wide = p->lanes
		? loops >> p->p->loops[p->p->nloops - 1] & 1
		: e->lanes > 1 && loops >> e->vec & 1;

	return ll_type(emit_base_of(x->kind),
		       wide ? ll_lanes(e->l, LL_F32) : 1);
}

static struct ll_value *
sum_slot(struct emit *e, struct ll_value *slots, struct ll_type t, uint32_t u)
{
	int64_t bytes = t.base == LL_F32 ? 4 : 8;

	return ll_plus_n(e->l, slots, u * bytes * t.lanes);
}

static void
start_sums(struct emit *e, const struct emit_pass *p)
{
	uint32_t i, u;

	for (i = 0; i < p->p->sums.n; i++) {
		nest_id id = p->p->sums.at[i];
		const struct nest_expr *x = nest_at(e->n, id);
		struct ll_type t = sum_type(e, p, x);

		e->sum[id] = ll_stack(e->l, t, p->unroll);
		for (u = 0; u < p->unroll; u++) {
			struct ll_value *to = sum_slot(e, e->sum[id], t, u);

			ll_store(e->l, neutral(e, x, t), to);
		}
	}
}

/* acc + the summand in one rounding, if it is a product; else NULL. */
static struct ll_value *
add_product(struct emit *e, const struct nest_expr *x, struct ll_value *acc)
{
	const struct nest_expr *body = nest_at(e->n, x->a);
	struct ll_value *a, *b;

	if (x->op != NEST_SUM || body->op != NEST_MUL ||
	    body->kind > NEST_WIDE || e->scope.made[x->a] || e->mask) {
		return NULL;
	}
	a = emit_expr(e, body->a);
	b = emit_expr(e, body->b);
	emit_same_lanes(e, &a, &b);
	emit_same_lanes(e, &a, &acc);
	emit_same_lanes(e, &b, &acc);
	return ll_fma(e->l, a, b, acc);
}

static void
add_sums(struct emit *e, const struct emit_pass *p, uint32_t u)
{
	uint32_t i;

	for (i = 0; i < p->p->sums.n; i++) {
		nest_id id = p->p->sums.at[i];
		const struct nest_expr *x = nest_at(e->n, id);
		struct ll_type t = sum_type(e, p, x);
		struct ll_value *slot = sum_slot(e, e->sum[id], t, u);
		struct ll_value *acc = ll_load(e->l, t, slot), *v;

		v = add_product(e, x, acc);
		if (!v) {
			v = emit_expr(e, x->a);
			emit_same_lanes(e, &v, &acc);
			if (e->mask && p->lanes && t.lanes > 1) {
				v = ll_select(e->l, e->mask, v,
					      neutral(e, x, t));
			}
			v = combine(e, x, acc, v);
		}
		ll_store(e->l, v, slot);
	}
}

static struct ll_value *
over_lanes(struct emit *e, const struct nest_expr *x, struct ll_value *v)
{
	uint32_t lanes = emit_lanes_of(e, v), i;
	struct ll_value *r;

	if (x->op == NEST_SUM && x->kind != NEST_INT) {
		return ll_sum(e->l, v);
	}
	if (x->op == NEST_MOST && x->kind == NEST_FLOAT) {
		return ll_max(e->l, v);
	}
	r = ll_lane(e->l, v, 0);
	for (i = 1; i < lanes; i++) {
		r = combine(e, x, r, ll_lane(e->l, v, i));
	}
	return r;
}

static void
end_sums(struct emit *e, const struct emit_pass *p)
{
	uint32_t i, u;

	for (i = 0; i < p->p->sums.n; i++) {
		nest_id id = p->p->sums.at[i];
		const struct nest_expr *x = nest_at(e->n, id);
		struct ll_type t = sum_type(e, p, x);
		struct ll_value *v = ll_load(e->l, t, e->sum[id]);

		for (u = 1; u < p->unroll; u++) {
			v = combine(e, x, v, ll_load(e->l, t,
				sum_slot(e, e->sum[id], t, u)));
		}
		emit_set_value(e, id, p->lanes && t.lanes > 1
			 ? over_lanes(e, x, v) : v);
	}
}

/* ---- stores ---- */

/* Stores lanes that are `bytes` apart, one by one. */
static void
store_apart(struct emit *e, struct ll_value *v, struct ll_value *at,
	    int64_t bytes)
{
	struct ll_type t = ll_typeof(e->l, v);
	struct ll_value *slot = ll_stack(e->l, t, 1), *n, *size, *i;
	struct ll_loop k;

	ll_store(e->l, v, slot);
	n = e->live ? e->live : ll_i64(e->l, t.lanes);
	size = ll_i64(e->l, t.base == LL_F64 ? 8
		      : t.base == LL_F32 || t.base == LL_I32 ? 4
		      : t.base == LL_I8 ? 1 : 2);
	ll_loop(e->l, &k, ll_i64(e->l, 0), n, 1, NULL, 0);
	i = ll_bin(e->l, LL_MUL, k.i, size);
	v = ll_load(e->l, ll_type(t.base, 1), ll_plus(e->l, slot, i));
	i = ll_bin(e->l, LL_MUL, k.i, ll_i64(e->l, bytes));
	ll_store(e->l, v, ll_plus(e->l, at, i));
	ll_loop_end(e->l, &k, NULL);
}

static struct ll_value *
old_value(struct emit *e, const struct nest_root *r, struct ll_value *at,
	  int64_t step)
{
	enum ll_base base = emit_stored_base(e->n->memory.at[r->memory].dtype);
	int64_t bytes = emit_elem_bytes(e->n->memory.at[r->memory].dtype);
	struct ll_type t = ll_type(base, step == 0 ? 1 : e->lanes);
	struct ll_value *places;

	if (step == 0 || step == 1) {
		return step && e->mask ? ll_load_if(e->l, t, at, e->mask)
				       : ll_load(e->l, t, at);
	}
	places = ll_iota(e->l, ll_type(LL_I64, e->lanes));
	places = ll_bin(e->l, LL_MUL, places,
			ll_int(e->l, ll_typeof(e->l, places), step * bytes));
	return ll_gather(e->l, t, at, places, e->mask);
}

/* What lies there, or 0 if it is left over from the step before. */
static struct ll_value *
old_or_zero(struct emit *e, const struct nest_root *r, struct ll_value *old)
{
	struct ll_value *is = ll_test(e->l, LL_NE, emit_expr(e, r->old),
				      ll_i64(e->l, 0));

	return ll_select(e->l, is, old, ll_zero(e->l, ll_typeof(e->l, old)));
}

void
emit_store_root(struct emit *e, const struct nest_root *r, struct ll_value *v)
{
	const struct nest_memory *m = &e->n->memory.at[r->memory];
	struct ll_value *places, *at, *old;
	int64_t step;

	at = emit_address(e, r->place, r->memory, &step, &places);
	if (r->part) {
		int64_t bytes = 4 * e->n->temps.at[m->i].elems;

		at = ll_plus(e->l, at, ll_bin(e->l, LL_MUL, e->item,
					      ll_i64(e->l, bytes)));
	}
	if (r->add) {
		old = emit_widen(e, old_value(e, r, at, step), m->dtype);
		if (r->old) {
			old = old_or_zero(e, r, old);
		}
		old = ll_cast(e->l, old, ll_typeof(e->l, v).base);
		emit_same_lanes(e, &v, &old);
		v = ll_bin(e->l, LL_ADD, old, v);
	}
	if (emit_lanes_of(e, v) == 1 && step != 0) {
		v = ll_splat(e->l, v, e->lanes);
	}
	v = emit_narrow(e, v, m->dtype);
	if (step > 1 || step < 0) {
		store_apart(e, v, at, step * emit_elem_bytes(m->dtype));
	} else if (e->mask && step) {
		ll_store_if(e->l, v, at, e->mask);
	} else {
		ll_store(e->l, v, at);
	}
}

/* Reads all before any is written: they may lie in one tensor. */
static void
put_roots(struct emit *e, const struct nest_pass *p)
{
	uint32_t i;

	for (i = 0; i < p->roots.n; i++) {
		emit_expr(e, e->n->roots.at[p->roots.at[i]].value);
	}
	for (i = 0; i < p->roots.n; i++) {
		const struct nest_root *r = &e->n->roots.at[p->roots.at[i]];

		emit_store_root(e, r, emit_expr(e, r->value));
	}
}

/* ---- passes ---- */

static uint64_t
loops_from(const struct nest_pass *p, uint32_t first)
{
	uint64_t mask = 0;

	for (; first < p->nloops; first++) {
		mask |= (uint64_t)1 << p->loops[first];
	}
	return mask;
}

static void
pass_body(struct emit *e, uint32_t u, void *user)
{
	const struct emit_pass *p = user;

	add_sums(e, p, u);
	put_roots(e, p->p);
}

/* Where a loop ends: a box may have fewer positions than the loop. */
static struct ll_value *
loop_size(struct emit *e, uint32_t loop, int64_t *fixed)
{
	const struct nest_loop *x = &e->n->loops.at[loop];
	uint32_t i;

	*fixed = x->size;
	for (i = 0; i < e->s->nrows; i++) {
		if (e->s->rows[i] == loop) {
			*fixed = e->s->size[i];
		}
	}
	if (e->box && x->box >= 0) {
		if (e->box->count[x->box]) {
			*fixed = e->box->count[x->box];
		}
		if (e->box->live[x->box]) {
			*fixed = -1;
			return e->box->live[x->box];
		}
	}
	return ll_i64(e->l, *fixed);
}

static void
pass_loops(struct emit *e, const struct emit_pass *p, uint32_t first)
{
	struct ll_value *size;
	struct ll_loop k;
	int64_t fixed;
	uint32_t since = e->scope.order.n, loop;

	if (first == p->p->nloops) {
		pass_body(e, 0, (void *)(uintptr_t)p);
		return;
	}
	nest_scope_hoist_pass(&e->scope, p->p, loops_from(p->p, first));
	loop = p->p->loops[first];
	size = loop_size(e, loop, &fixed);
	if (p->lanes && first + 1 == p->p->nloops) {
		emit_vector_loop(e, loop, ll_i64(e->l, 0), size, fixed,
				 p->unroll, pass_body, (void *)(uintptr_t)p);
	} else {
		ll_loop(e->l, &k, ll_i64(e->l, 0), size, 1, NULL, 0);
		e->index[loop] = k.i;
		{
			uint32_t inner = e->scope.order.n;

			pass_loops(e, p, first + 1);
			nest_scope_leave(&e->scope, inner);
		}
		ll_loop_end(e->l, &k, NULL);
		e->index[loop] = NULL;
	}
	nest_scope_leave(&e->scope, since);
}

static void
run_pass(struct emit *e, const struct nest_pass *p)
{
	struct emit_pass x = { p, 1, e->lanes == 1 && p->nloops > 0 };
	int64_t size = x.lanes ? e->n->loops.at[p->loops[p->nloops - 1]].size
			       : 0;
	int64_t lanes = ll_lanes(e->l, LL_F32);

	if (p->sums.n > 0 && p->sums.n < 8 && size >= 2 * UNROLL * lanes) {
		x.unroll = UNROLL;
	}
	start_sums(e, &x);
	pass_loops(e, &x, 0);
	end_sums(e, &x);
}

/* ---- rows ---- */

static void
emit_row(struct emit *e)
{
	uint32_t since = e->scope.order.n, i;

	for (i = 0; i < e->s->passes.n; i++) {
		run_pass(e, &e->s->passes.at[i]);
	}
	nest_scope_leave(&e->scope, since);
}

static void
row_of_lanes(struct emit *e, uint32_t u, void *user)
{
	(void)u;
	(void)user;
	emit_row(e);
}

/* All lanes of the last row loop. */
static void
lanes_of_row(struct emit *e)
{
	uint32_t loop = e->s->rows[e->s->nrows - 1];
	struct ll_value *size;
	int64_t fixed;

	size = loop_size(e, loop, &fixed);
	emit_vector_loop(e, loop, ll_i64(e->l, 0), size, fixed, 1, row_of_lanes,
		   NULL);
}

/* Emits what no row loop from number `first` on changes. */
static void
rows_ahead(struct emit *e, uint32_t first)
{
	uint64_t loops = 0;
	uint32_t i;

	for (i = 0; i < e->n->loops.n; i++) {
		loops |= (uint64_t)1 << i;
	}
	for (i = 0; i < first; i++) {
		loops &= ~((uint64_t)1 << e->s->rows[i]);
	}
	for (i = 0; i < e->s->passes.n; i++) {
		nest_scope_hoist_pass(&e->scope, &e->s->passes.at[i], loops);
	}
}

/* From the number of a row to the indices of its loops. */
static void
set_indices(struct emit *e, struct ll_value *row, uint32_t count)
{
	uint32_t i;

	for (i = count; i-- > 0; ) {
		struct ll_value *size = ll_i64(e->l, e->s->size[i]);

		if (i == 0) {
			e->index[e->s->rows[i]] = row;
			break;
		}
		e->index[e->s->rows[i]] = ll_bin(e->l, LL_UREM, row, size);
		row = ll_bin(e->l, LL_UDIV, row, size);
	}
}

void
emit_rows(struct emit *e, struct ll_value *from, struct ll_value *to)
{
	const struct nest_step *s = e->s;
	uint32_t count = s->nrows - s->row_lanes, since;
	struct ll_loop k;

	if (s->row_lanes && s->nrows == 1) {
		since = e->scope.order.n;
		rows_ahead(e, 0);
		emit_vector_loop(e, s->rows[0], from, to, -1, 1, row_of_lanes,
			   NULL);
		nest_scope_leave(&e->scope, since);
		return;
	}
	ll_loop(e->l, &k, from, to, 1, NULL, 0);
	set_indices(e, k.i, count);
	since = e->scope.order.n;
	rows_ahead(e, count);
	if (s->row_lanes) {
		lanes_of_row(e);
	} else {
		emit_row(e);
	}
	nest_scope_leave(&e->scope, since);
	ll_loop_end(e->l, &k, NULL);
}

static void
box_loops(struct emit *e, uint32_t first)
{
	uint32_t count = e->s->nrows - e->s->row_lanes;
	uint32_t since = e->scope.order.n, loop;
	struct ll_value *size;
	struct ll_loop k;
	int64_t fixed;

	rows_ahead(e, first);
	if (first == count && e->s->row_lanes) {
		lanes_of_row(e);
	} else if (first == count) {
		emit_row(e);
	} else {
		loop = e->s->rows[first];
		size = loop_size(e, loop, &fixed);
		ll_loop(e->l, &k, ll_i64(e->l, 0), size, 1, NULL, 0);
		e->index[loop] = k.i;
		{
			uint32_t inner = e->scope.order.n;

			box_loops(e, first + 1);
			nest_scope_leave(&e->scope, inner);
		}
		ll_loop_end(e->l, &k, NULL);
		e->index[loop] = NULL;
	}
	nest_scope_leave(&e->scope, since);
}

void
emit_box(struct emit *e)
{
	box_loops(e, 0);
}

/*
 * Sums of rows by index, as the gradient of an embedding.  A first step links
 * the rows that go to one place, each to the next one.  In a second the first
 * row of each chain adds up the chain and stores the sum.  So sums are in f32
 * and in the order of rows for any number of workers, and a gradient is
 * touched only at places that a row goes to.
 */
#include "codegen/cpu/cpu_nest.h"

#define ITEM_BYTES 32768

struct emit_scatter {
	struct emit_target *a;
	struct nest *n;
	struct nest_scatter of;
	int64_t head, next;	/* in scratch: i32 by place, by row */
};

/* ---- the first step ---- */

static struct ll_value *
word_at(struct emit *e, int64_t base, struct ll_value *i)
{
	struct ll_value *bytes = ll_bin(e->l, LL_MUL, i, ll_i64(e->l, 4));

	return ll_plus(e->l, ll_plus_n(e->l, e->shared, base), bytes);
}

static struct ll_value *
load_word(struct emit *e, int64_t base, struct ll_value *i)
{
	return ll_cast(e->l, ll_load(e->l, ll_type(LL_I32, 1),
				     word_at(e, base, i)), LL_I64);
}

static void
begin(struct emit_scatter *s, struct emit *e, int64_t items)
{
	*e = (struct emit){ .c = s->a->c, .l = s->a->c->ll,
			    .out = s->a->out, .n = s->n };
	e->step = cg_cpu_step(e->c, e->out, "nest", items);
	e->shared = cg_cpu_shared(e->c, e->step);
	emit_open_step(e, NULL);
}

/* Links from the last row to the first, so that a head is its first row. */
static void
link_rows(struct emit_scatter *s)
{
	const struct ll_type i32 = ll_type(LL_I32, 1);
	struct ll_value *row, *to, *next, *head;
	struct ll_block *yes, *no;
	struct ll_loop all, k;
	struct emit e;

	begin(s, &e, 1);
	ll_loop(e.l, &all, ll_param(e.l, e.step, 2),
		ll_param(e.l, e.step, 3), 1, NULL, 0);
	ll_loop(e.l, &k, ll_i64(e.l, 0), ll_i64(e.l, s->of.places), 1, NULL, 0);
	ll_store(e.l, ll_int(e.l, i32, -1), word_at(&e, s->head, k.i));
	ll_loop_end(e.l, &k, NULL);
	ll_loop(e.l, &k, ll_i64(e.l, 0), ll_i64(e.l, s->of.rows), 1, NULL, 0);
	row = ll_bin(e.l, LL_SUB, ll_i64(e.l, s->of.rows - 1), k.i);
	e.index[s->of.row] = row;
	to = emit_expr(&e, s->of.to);
	yes = ll_block(e.l, NULL, "");
	no = ll_block(e.l, NULL, "");
	ll_branch(e.l, ll_test(e.l, LL_LE, ll_i64(e.l, 0), to), yes, no);
	ll_at(e.l, yes);
	next = word_at(&e, s->next, row);
	ll_store(e.l, ll_load(e.l, i32, word_at(&e, s->head, to)), next);
	head = word_at(&e, s->head, to);
	ll_store(e.l, ll_cast(e.l, row, LL_I32), head);
	ll_jump(e.l, no);
	ll_at(e.l, no);
	ll_loop_end(e.l, &k, NULL);
	ll_loop_end(e.l, &all, NULL);
	ll_return(e.l, NULL);
}

/* ---- the second ---- */

struct emit_chain {
	struct emit_scatter *s;
	struct ll_value *first;	/* row, or -1 */
};

/* The sum over a chain, of some columns. */
static void
add_chain(struct emit *e, uint32_t u, void *user)
{
	const struct emit_chain *c = user;
	struct emit_scatter *s = c->s;
	struct ll_type t = ll_type(emit_base_of(nest_at(s->n, s->of.x)->kind),
				   e->lanes);
	struct ll_value *sum = ll_stack(e->l, t, 1), *v;
	struct ll_value *at = ll_stack(e->l, ll_type(LL_I64, 1), 1);
	struct ll_block *head, *body, *after;
	uint32_t since = e->scope.order.n, i;

	(void)u;
	ll_store(e->l, ll_zero(e->l, t), sum);
	ll_store(e->l, c->first, at);
	head = ll_block(e->l, NULL, "");
	body = ll_block(e->l, NULL, "");
	after = ll_block(e->l, NULL, "");
	ll_jump(e->l, head);
	ll_at(e->l, head);
	v = ll_load(e->l, ll_type(LL_I64, 1), at);
	e->index[s->of.row] = v;
	ll_branch(e->l, ll_test(e->l, LL_LE, ll_i64(e->l, 0), v), body,
		  after);
	ll_at(e->l, body);
	v = emit_expr(e, s->of.x);
	if (e->lanes > emit_lanes_of(e, v)) {
		v = ll_splat(e->l, v, e->lanes);
	}
	ll_store(e->l, ll_bin(e->l, LL_ADD, ll_load(e->l, t, sum), v), sum);
	ll_store(e->l, load_word(e, s->next, e->index[s->of.row]), at);
	ll_jump(e->l, head);
	ll_at(e->l, after);
	nest_scope_leave(&e->scope, since);
	e->index[s->of.row] = NULL;
	v = ll_load(e->l, t, sum);
	for (i = 0; i < s->n->roots.n; i++) {
		emit_store_root(e, &s->n->roots.at[i], v);
	}
}

static void
columns(struct emit *e, struct emit_chain *c, uint32_t first)
{
	struct emit_scatter *s = c->s;
	uint32_t loop = s->of.col[first];
	int64_t size = s->n->loops.at[loop].size;
	struct ll_loop k;

	if (first + 1 == s->of.ncols) {
		emit_vector_loop(e, loop, ll_i64(e->l, 0), ll_i64(e->l, size),
			   size, 1, add_chain, c);
		return;
	}
	ll_loop(e->l, &k, ll_i64(e->l, 0), ll_i64(e->l, size), 1, NULL, 0);
	e->index[loop] = k.i;
	columns(e, c, first + 1);
	ll_loop_end(e->l, &k, NULL);
	e->index[loop] = NULL;
}

/* If the row is the first of its chain, the chain's sum goes to its place. */
static void
from_row(struct emit_scatter *s, struct emit *e, struct ll_value *row)
{
	struct emit_chain c = { s, row };
	struct ll_block *yes, *first, *no;
	uint32_t since = e->scope.order.n;
	struct ll_value *to;

	e->index[s->of.row] = row;
	to = emit_expr(e, s->of.to);
	e->index[s->of.row] = NULL;
	nest_scope_leave(&e->scope, since);
	yes = ll_block(e->l, NULL, "");
	first = ll_block(e->l, NULL, "");
	no = ll_block(e->l, NULL, "");
	ll_branch(e->l, ll_test(e->l, LL_LE, ll_i64(e->l, 0), to), yes, no);
	ll_at(e->l, yes);
	ll_branch(e->l, ll_test(e->l, LL_EQ, load_word(e, s->head, to), row),
		  first, no);
	ll_at(e->l, first);
	e->index[s->of.place] = to;
	columns(e, &c, 0);
	e->index[s->of.place] = NULL;
	ll_jump(e->l, no);
	ll_at(e->l, no);
}

static void
add_up(struct emit_scatter *s)
{
	int64_t count = s->of.all ? s->of.places : s->of.rows, per, items;
	struct ll_value *from, *to, *most;
	struct ll_loop all, k;
	struct emit_chain c = { .s = s };
	struct emit e;

	per = ITEM_BYTES / (8 * (s->of.cols > 0 ? s->of.cols : 1));
	per = per < 1 ? 1 : per;
	items = (count + per - 1) / per;
	begin(s, &e, items < 1 ? 1 : items);
	ll_loop(e.l, &all, ll_param(e.l, e.step, 2),
		ll_param(e.l, e.step, 3), 1, NULL, 0);
	from = ll_bin(e.l, LL_MUL, all.i, ll_i64(e.l, per));
	to = ll_bin(e.l, LL_ADD, from, ll_i64(e.l, per));
	most = ll_i64(e.l, count);
	to = ll_select(e.l, ll_test(e.l, LL_LT, to, most), to, most);
	ll_loop(e.l, &k, from, to, 1, NULL, 0);
	if (s->of.all) {
		e.index[s->of.place] = k.i;
		c.first = load_word(&e, s->head, k.i);
		columns(&e, &c, 0);
	} else {
		from_row(s, &e, k.i);
	}
	ll_loop_end(e.l, &k, NULL);
	ll_loop_end(e.l, &all, NULL);
	ll_return(e.l, NULL);
}

bool
emit_scatter_steps(struct emit_target *a, const struct cg_nest *x,
		   const char **why)
{
	const struct nest_input like = { .bare = true };
	struct emit_scatter s = { .a = a };

	s.n = emit_build(a, x, &like, why);
	if (!s.n || !nest_find_scatter(s.n, false, &s.of)) {
		*why = s.n && s.n->why ? s.n->why : *why;
		return false;
	}
	s.head = (a->out->shared_bytes + 63) / 64 * 64;
	s.next = s.head + 4 * s.of.places;
	a->out->shared_bytes = s.next + 4 * s.of.rows;
	link_rows(&s);
	add_up(&s);
	return true;
}

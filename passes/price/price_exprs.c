/*
 * What follows the products of a contraction in its kernel, as expressions of
 * what it loads, computes and stores: nodes become expressions as code
 * generation makes them (codegen/nest/), each once.
 */
#include "passes/price/price_epilogue.h"

#include <string.h>

#define MOST_DEPTH 64	/* of nodes that use each other */

/* ---- expressions ---- */

static uint8_t
by_of(const struct epilogue *e, uint16_t op, uint32_t a, uint32_t b)
{
	return op == PUT_NUMBER ? 0
		: (uint8_t)(e->at[a].by | e->at[b].by);
}

static uint32_t
make(struct epilogue *e, struct put_expr x)
{
	uint32_t i;

	for (i = 1; i < e->n; i++) {
		if (e->at[i].op == x.op && e->at[i].a == x.a &&
		    e->at[i].b == x.b && e->at[i].value == x.value &&
		    e->at[i].number == x.number) {
			return i;
		}
	}
	if (e->n == MOST_EXPRS) {
		return 0;
	}
	e->at[e->n] = x;
	return e->n++;
}

static uint32_t
apply(struct epilogue *e, uint16_t op, uint32_t a, uint32_t b)
{
	return make(e, (struct put_expr){ .op = op, .a = a, .b = b,
				      .by = by_of(e, op, a, b) });
}

static uint32_t
number(struct epilogue *e, double v)
{
	return make(e, (struct put_expr){ .op = PUT_NUMBER, .number = v });
}

uint8_t
price_expr_by(const struct epilogue *e, const struct ir_type *t)
{
	bool last = ir_type_has(t, e->last);

	return (uint8_t)((t->ndims > last ? BY_ROWS : 0) |
			 (last ? BY_LAST | (e->halves ? BY_HALF : 0) : 0));
}

static uint32_t
memory(struct epilogue *e, uint16_t op, value_id v)
{
	uint8_t by = price_expr_by(e, ir_type(e->m, v));

	return make(e, (struct put_expr){ .op = op, .value = v, .by = by });
}

/* ---- nodes ---- */

/* A map that ops.def defines by other maps. */
static uint32_t
defined(struct epilogue *e, const struct ir_definition *d, uint32_t x)
{
	uint32_t stack[IR_MAX_DEFINE], top = 0, i;

	for (i = 0; i < d->n; i++) {
		const struct ir_define_step *s = &d->step[i];

		if (s->kind == IR_DEFINE_OPERAND) {
			stack[top++] = x;
		} else if (s->kind != IR_DEFINE_MAP) {
			stack[top++] = number(e, s->kind == IR_DEFINE_NUMBER
				? s->number : -1.0 - s->key);
		} else if (ir_ops[s->op].nargs == 2) {
			top--;
			stack[top - 1] = apply(e, s->op, stack[top - 1],
					       stack[top]);
		} else {
			stack[top - 1] = apply(e, s->op, stack[top - 1], 0);
		}
	}
	return stack[0];
}

/*
 * An element and its partner times the cosine and the sine of an angle, which
 * both halves have.  Of neighbours each computes the angle, and which of the
 * two it is.
 */
static uint32_t
rotated(struct epilogue *e, uint32_t x)
{
	uint32_t other = make(e, (struct put_expr){
		.op = PUT_SUM, .by = e->at[x].by, .value = e->dot->result,
		.number = 1 });
	uint32_t angle = make(e, (struct put_expr){
		.op = PUT_ANGLE, .by = BY_ROWS | BY_LAST });
	uint32_t sin = apply(e, PUT_SIN, angle, 0);
	uint32_t own = apply(e, IR_MUL, x, apply(e, IR_COS, angle, 0));
	uint32_t sign = e->halves ? number(e, -1)
		: make(e, (struct put_expr){ .op = PUT_SIGN, .by = BY_LAST });

	other = apply(e, IR_MUL, other, sin);
	return apply(e, IR_ADD, own, apply(e, IR_MUL, other, sign));
}

/* A sum over the last dim, of which a thread has a vector. */
static uint32_t
reduced(struct epilogue *e, const struct ir_node *n, uint32_t x)
{
	return make(e, (struct put_expr){ .op = PUT_REDUCED, .a = x,
				      .by = BY_ROWS, .number = n->op });
}

static uint32_t
normed(struct epilogue *e, const struct ir_node *n, uint32_t x)
{
	uint32_t sum = reduced(e, n, apply(e, IR_MUL, x, x));

	x = apply(e, IR_MUL, x, apply(e, IR_RSQRT, sum, 0));
	sum = price_expr_of(e, ir_args(e->m, n)[1]);
	return apply(e, IR_MUL, x, sum);
}

static bool
is_rotation(const struct ir_node *n)
{
	return n->op == IR_ROPE || n->op == IR_ROPE_AT;
}

bool
price_is_handed(const struct epilogue *e, value_id v)
{
	return e->shares && e->k->launch && e->k->launch->sums &&
	       kernel_follows(e->k) &&
	       kernel_makes(e->k->launch->of[e->k->launch->at - 1], v);
}

/* What the first of a pair makes is in registers when the second reads it. */
static bool
is_of_first(const struct epilogue *e, value_id v)
{
	return e->paired && kernel_follows(e->k) &&
	       kernel_makes(e->k->launch->of[0], v);
}

bool
price_is_stored(const struct epilogue *e, value_id v)
{
	return !e->paired || kernel_follows(e->k) ||
	       !kernel_hands_on(e->k->launch, v);
}

static uint32_t
node(struct epilogue *e, const struct ir_node *n)
{
	const value_id *args = ir_args(e->m, n);
	uint32_t a = price_expr_of(e, args[0]);
	struct ir_definition d;

	if (n->nargs == 2 && ir_is(n->op, IRF_MAP)) {
		if (price_is_handed(e, args[1])) {
			return a;
		}
		if (price_is_handed(e, args[0])) {
			return price_expr_of(e, args[1]);
		}
		return apply(e, n->op, a, price_expr_of(e, args[1]));
	}
	if (ir_define(n->op, &d)) {
		return defined(e, &d, a);
	}
	if (is_rotation(n)) {
		return rotated(e, a);
	}
	if (n->op == IR_RMSNORM) {
		return normed(e, n, a);
	}
	return ir_is(n->op, IRF_ROWWISE) ? reduced(e, n, a)
		: ir_is(n->op, IRF_MAP) ? apply(e, n->op, a, 0) : a;
}

/* What a view shows, as long as no node of the kernel has made it. */
static value_id
shown(const struct epilogue *e, value_id v)
{
	node_id id = e->m->values.at[v].node;
	const struct ir_node *n = ir_node(e->m, id);

	while (id && !kernel_has_node(e->k, id) && n->nargs == 1 &&
	       ir_is(n->op, IRF_MOVES)) {
		v = ir_args(e->m, n)[0];
		id = e->m->values.at[v].node;
		n = ir_node(e->m, id);
	}
	return v;
}

/* Where the expression of that node of the kernel is kept, so that what several
 * use is walked once; NULL: it is beyond what is counted. */
static uint32_t *
kept_of(struct epilogue *e, node_id id)
{
	uint32_t i;

	for (i = 0; i < MOST_EXPRS && e->k->nodes.at[i] != id; i++) {
	}
	return i < MOST_EXPRS ? &e->of_node[i] : NULL;
}

uint32_t
price_expr_of(struct epilogue *e, value_id v)
{
	value_id from = shown(e, v);
	node_id id = e->m->values.at[from].node;
	const struct ir_node *n = ir_node(e->m, id);
	uint32_t *kept;

	if (n == e->dot) {
		return memory(e, PUT_SUM, from);
	}
	if (is_of_first(e, from)) {
		return memory(e, PUT_HANDED, from);
	}
	if (id && n->op == IR_CONST) {
		return number(e, n->result);
	}
	if (!id || !kernel_has_node(e->k, id) || e->depth == MOST_DEPTH) {
		return memory(e, PUT_LOAD, v);
	}
	if (n->nargs == 0) {
		return memory(e, n->op == IR_DROPOUT_MASK ? n->op : PUT_LOAD,
			      v);
	}
	kept = kept_of(e, id);
	if (kept && !*kept) {
		e->depth++;
		*kept = 1 + node(e, n);
		e->depth--;
	}
	return kept ? *kept - 1 : 0;
}

/* ---- a kernel ---- */

void
price_exprs_open(struct epilogue *e, struct ir_module *m,
		 const struct kernel *k, enum price_putting by, bool shares)
{
	const struct ir_type *t;
	uint32_t i;

	memset(e, 0, sizeof *e);
	e->m = m;
	e->k = k;
	e->by = by;
	e->shares = shares;
	e->paired = shares && k->launch && k->launch->paired;
	e->dot = price_main_node(m, k, IRF_CONTRACTS, IRF_PAIRS);
	t = ir_type(m, e->dot->result);
	e->last = t->ndims ? t->dims[t->ndims - 1] : 0;
	e->n = 1;
	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, k->nodes.at[i]);

		e->halves |= is_rotation(n) &&
			     !ir_attr(m, n, IR_ATTR_INTERLEAVED);
	}
}

/*
 * Flops and bytes of a node, by the formulas of its row in ops.def.  A formula
 * is a sum of products; a product is a sequence of tokens: a whole number,
 * `out`, `in0`..  (elements), `pairs`, or a factor of the op's rule (the
 * product of its dims' sizes).  Results are doubles: 2^96 flops are no error,
 * and counts below 2^53 are exact.
 */
#include "ir/ir.h"

#include <string.h>

/* ---- reading formulas ---- */

enum what {
	END,			/* of the formula */
	PLUS,			/* of a product */
	NUMBER,
	OUT,
	OPERAND,
	FACTOR,
	PAIRS
};

struct token {
	enum what what;
	uint32_t at;		/* the operand, or the factor in the rule */
	double number;
};

struct ir_formulas {
	struct token *flops, *bytes;
	bool binds;		/* some token is a factor */
};

static struct token
read_token(struct ir_formulas *all, enum ir_op op, const char *p, size_t n)
{
	char name[sizeof ((struct ir_factor *)0)->name];
	const struct ir_factor *x;
	struct ir_rule r;
	int64_t number;

	if (n >= sizeof name) {
		die("formula `%s` of %s", p, ir_ops[op].name);
	}
	memcpy(name, p, n);
	name[n] = '\0';
	if (num_parse_int(p, n, &number)) {
		return (struct token){ NUMBER, 0, (double)number };
	}
	if (strcmp(name, "out") == 0) {
		return (struct token){ .what = OUT };
	}
	if (n == 3 && strncmp(name, "in", 2) == 0 && name[2] >= '0' &&
	    name[2] < '0' + IR_MAX_OPERANDS) {
		return (struct token){ OPERAND, (uint32_t)(name[2] - '0'), 0 };
	}
	all->binds = true;
	if (strcmp(name, "pairs") == 0) {
		return (struct token){ .what = PAIRS };
	}
	ir_rule_read(&r, op);
	x = ir_rule_factor(&r, name);
	if (!x || ir_ops[op].nargs <= 0) {
		die("%s has no factor `%s`", ir_ops[op].name, name);
	}
	return (struct token){ FACTOR, (uint32_t)(x - r.f), 0 };
}

static struct token *
read_formula(struct ir_formulas *all, enum ir_op op, const char *p,
	     struct arena *a)
{
	/* a token has at least one character */
	struct token *list = arena_alloc(a, (strlen(p) + 1) * sizeof *list);
	uint32_t n = 0;

	while (*p) {
		size_t k = strcspn(p, " +");

		if (k > 0) {
			list[n++] = read_token(all, op, p, k);
		} else if (*p == '+') {
			list[n++].what = PLUS;
		}
		p += k > 0 ? k : 1;
	}
	return list;
}

/*
 * The formulas of an op are parsed once per context: nodes are priced often,
 * and there are few ops.
 */
static const struct ir_formulas *
formulas_of(struct ir_ctx *c, enum ir_op op)
{
	struct ir_formulas *f;

	if (!c->formulas[op]) {
		f = arena_alloc(&c->perm, sizeof *f);
		f->flops = read_formula(f, op, ir_ops[op].flops, &c->perm);
		f->bytes = read_formula(f, op, ir_ops[op].bytes, &c->perm);
		c->formulas[op] = f;
	}
	return c->formulas[op];
}

/* ---- counting ---- */

/* One formula of a node. */
struct formula {
	struct ir_module *m;
	const struct ir_node *n;
	const struct ir_rule *r;
	struct ir_counts *to;
	bool in_bytes;
	bool local;		/* of the rank that has most, not of all */
};

static count_id
elems(const struct formula *f, const struct ir_type *t)
{
	count_id v = IR_COUNT_ONE;
	uint8_t i;

	if (f->local) {
		return ir_count_elems(f->to, t);
	}
	for (i = 0; i < t->ndims; i++) {
		v = ir_count_mul(f->to, v, ir_count_len(f->to, t->dims[i], 0));
	}
	return v;
}

/* The axes that split a dim of a factor in the first operand that has it. */
static uint32_t
cut_of(const struct formula *f, const struct ir_factor *x, dim_id d)
{
	const struct ir_type *t = ir_type(f->m, f->n->result);
	uint32_t k, i;

	for (k = 0; k < f->n->nargs && k < IR_MAX_OPERANDS; k++) {
		if (x->in >> k & 1) {
			t = ir_type(f->m, ir_args(f->m, f->n)[k]);
			break;
		}
	}
	for (i = 0; f->local && i < t->ndims; i++) {
		if (t->dims[i] == d) {
			return t->cut[i];
		}
	}
	return 0;
}

static count_id
factor(const struct formula *f, const struct ir_factor *x)
{
	count_id v = IR_COUNT_ONE;
	uint8_t i;

	for (i = 0; i < x->n; i++) {
		v = ir_count_mul(f->to, v, ir_count_len(f->to, x->dims[i],
			cut_of(f, x, x->dims[i])));
	}
	return v;
}

/*
 * A rank sees all keys; if they are split, the ranks of that axis pass them on
 * in a ring.  The last piece of the queries sees most keys, unless the axis is
 * balanced: then each piece sees the same number.
 */
static count_id
pairs_of(const struct formula *f)
{
	const struct ir_factor *s = ir_rule_factor(f->r, "s");
	const struct ir_factor *t = ir_rule_factor(f->r, "t");
	uint32_t cut = cut_of(f, s, s->dims[0]);
	count_id whole = ir_count_len(f->to, s->dims[0], 0);
	count_id here = ir_count_len(f->to, s->dims[0], cut);
	int64_t expect = ir_attr_int(f->m, f->n, IR_ATTR_EXPECT, 0);
	count_id pairs, heads = ir_count_mul(f->to,
		factor(f, ir_rule_factor(f->r, "B")),
		factor(f, ir_rule_factor(f->r, "h")));

	if (ir_is_balanced(f->m, cut)) {
		heads = ir_count_mul(f->to, heads,
				     ir_count_div(f->to, here, whole));
		here = whole;
	}
	pairs = ir_count_pairs(f->to, here, ir_count_len(f->to, t->dims[0], 0),
			       ir_attr(f->m, f->n, IR_ATTR_CAUSAL),
			       ir_attr_int(f->m, f->n, IR_ATTR_WINDOW, 0));
	if (expect > 0) {
		pairs = ir_count_least(f->to, pairs, ir_count_mul(f->to, here,
			ir_count_number(f->to, (double)expect)));
	}
	return ir_count_mul(f->to, heads, pairs);
}

/*
 * The axes along which rows are routed: a product of factors counts the rows of
 * all ranks.
 */
static uint32_t
routed(const struct formula *f)
{
	uint32_t axes = 0, k;

	for (k = 0; f->local && k < f->n->nargs; k++) {
		axes |= ir_type(f->m, ir_args(f->m, f->n)[k])->routed;
	}
	return axes;
}

/* The count of one token; an operand or result also sets *type. */
static count_id
value_of(const struct formula *f, const struct token *t,
	 const struct ir_type **type, bool *whole)
{
	switch (t->what) {
	case NUMBER:
		return ir_count_number(f->to, t->number);
	case OUT:
		*whole = false;
		return elems(f, ir_type(f->m, f->n->result));
	case OPERAND:
		if (t->at >= f->n->nargs) {
			die("%s has no operand %u", ir_ops[f->n->op].name,
			    t->at);
		}
		*type = ir_type(f->m, ir_args(f->m, f->n)[t->at]);
		*whole = false;
		return elems(f, *type);
	case PAIRS:
		return pairs_of(f);
	default:
		return factor(f, &f->r->f[t->at]);
	}
}

/* The count of one product; *list is then after it. */
static count_id
product(const struct formula *f, const struct token **list)
{
	const struct ir_type *type = ir_type(f->m, f->n->result);
	bool whole = true;	/* no factor is a rank's piece */
	count_id v = IR_COUNT_ONE;

	for (; (*list)->what > PLUS; ++*list) {
		v = ir_count_mul(f->to, v, value_of(f, *list, &type, &whole));
	}
	v = whole ? ir_count_div(f->to, v, ir_count_ranks(f->to, routed(f)))
		  : v;
	return f->in_bytes ? ir_count_bytes(f->to, v, type->dtype) : v;
}

static count_id
count(const struct formula *f, const struct token *list)
{
	count_id v = 0;

	while (list->what != END) {
		v = ir_count_add(f->to, v, product(f, &list));
		list += list->what == PLUS;
	}
	return v;
}

/* Binds the rule if any of the op's formulas has a factor. */
static struct formula
open_formula(struct ir_module *m, const struct ir_node *n,
	     const struct ir_formulas *op, struct ir_rule *r,
	     struct ir_counts *to)
{
	if (op->binds) {
		ir_bind(m, n, r);
	}
	return (struct formula){ .m = m, .n = n, .r = r, .to = to };
}

count_id
ir_count_flops(struct ir_counts *c, struct ir_module *m,
	       const struct ir_node *n)
{
	const struct ir_formulas *op = formulas_of(m->ctx, n->op);
	struct ir_rule r;
	struct formula f = open_formula(m, n, op, &r, c);

	f.local = true;
	return count(&f, op->flops);
}

/* The counts of one node at a time; its lists are reused for the next node. */
struct ir_costing {
	struct ir_counts counts;
	VEC(double) values;
};

static struct ir_counts *
open_costing(struct ir_ctx *c)
{
	if (!c->costing) {
		c->costing = arena_alloc(&c->perm, sizeof *c->costing);
		ir_counts_open(&c->costing->counts, &c->perm);
	}
	ir_counts_clear(&c->costing->counts);
	return &c->costing->counts;
}

static const double *
run_costing(struct ir_module *m)
{
	struct ir_costing *x = m->ctx->costing;

	x->values.n = 0;
	while (x->values.n < x->counts.at.n) {
		VEC_PUSH(&m->ctx->perm, &x->values, 0);
	}
	ir_counts_run(m, x->counts.at.at, x->counts.at.n, x->values.at);
	return x->values.at;
}

void
ir_cost(struct ir_module *m, const struct ir_node *n, struct ir_cost *out)
{
	const struct ir_formulas *op = formulas_of(m->ctx, n->op);
	struct ir_rule r;
	struct formula f = open_formula(m, n, op, &r, open_costing(m->ctx));
	count_id flops = count(&f, op->flops), bytes;
	const double *v;

	f.in_bytes = true;
	bytes = count(&f, op->bytes);
	v = run_costing(m);
	out->flops = v[flops];
	out->bytes = v[bytes];
}

double
ir_flops(struct ir_module *m, const struct ir_node *n)
{
	const struct ir_formulas *op = formulas_of(m->ctx, n->op);
	struct ir_rule r;
	struct formula f = open_formula(m, n, op, &r, open_costing(m->ctx));
	count_id flops = count(&f, op->flops);

	return run_costing(m)[flops];
}

double
ir_local_flops(struct ir_module *m, const struct ir_node *n)
{
	count_id flops = ir_count_flops(open_costing(m->ctx), m, n);

	return run_costing(m)[flops];
}

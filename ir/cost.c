/*
 * What a node computes and moves, by the formulas of its row in ops.def.
 * A formula is a sum of products; a product is tokens side by side: a whole
 * number, `out`, `in0`.. (elements), `pairs`, or a factor of the op's rule
 * (the product of its dims' sizes).  Doubles: 2^96 flops are no error, and
 * all counts below 2^53 are exact.
 */
#include "ir/ir.h"

#include <string.h>

/* 1 + 2 + ... + n */
static double
triangle(double n)
{
	return n > 0 ? n * (n + 1) / 2 : 0;
}

/* The sum of min(c, w) over c = 1..n. */
static double
clipped(double n, double w)
{
	return n <= w ? triangle(n) : triangle(w) + (n - w) * w;
}

/*
 * The last query stands beside the last key: query i sees the keys
 * j <= i + T - S if causal, and j > i + T - S - window if windowed.
 */
double
ir_attention_pairs(int64_t queries, int64_t keys, bool causal,
		   int64_t window)
{
	double s = (double)queries, t = (double)keys, w = (double)window;

	if (causal) {
		/* the counts are t-s+1 .. t, those above 0, clipped */
		w = window > 0 ? w : t;
		return clipped(t, w) - (t > s ? clipped(t - s, w) : 0);
	}
	if (window > 0) {
		/* the keys that fall out: t-s-w+1 .. t-w, those above 0 */
		return s * t - (triangle(t - w) - triangle(t - s - w));
	}
	return s * t;
}

/* One formula being evaluated. */
struct formula {
	struct ir_module *m;
	const struct ir_node *n;
	struct ir_rule *r;	/* bound when a factor is asked for */
	bool bound;
	bool in_bytes;
	bool local;		/* of one rank's pieces */
};

static double
elems(const struct formula *f, const struct ir_type *t)
{
	double v = 1;
	uint8_t i;

	if (f->local) {
		return ir_most_elems(f->m, t);
	}
	for (i = 0; i < t->ndims; i++) {
		v *= (double)ir_dim_size(f->m, t->dims[i]);
	}
	return v;
}

/* Most formulas name no factor, and binding takes longer than all else. */
static const struct ir_factor *
find_factor(struct formula *f, const char *name)
{
	if (!f->bound) {
		ir_bind(f->m, f->n, f->r);
		f->bound = true;
	}
	return ir_rule_factor(f->r, name);
}

/* The axes that split a dim of a factor, as its first holder says. */
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
	for (i = 0; i < t->ndims; i++) {
		if (t->dims[i] == d) {
			return t->cut[i];
		}
	}
	return 0;
}

static int64_t
size_of(const struct formula *f, const struct ir_factor *x, dim_id d)
{
	int64_t size = ir_dim_size(f->m, d);

	return f->local ? ir_most(f->m, size, cut_of(f, x, d)) : size;
}

static double
factor(struct formula *f, const char *name)
{
	const struct ir_factor *x = find_factor(f, name);
	double v = 1;
	uint8_t i;

	if (!x) {
		die("%s has no factor `%s`", ir_ops[f->n->op].name, name);
	}
	for (i = 0; i < x->n; i++) {
		v *= (double)size_of(f, x, x->dims[i]);
	}
	return v;
}

static bool
is_balanced(const struct ir_module *m, uint32_t cut)
{
	for (; cut; cut >>= 4) {
		if (m->axes.at[cut & 15].balanced) {
			return true;
		}
	}
	return false;
}

/*
 * A rank sees the keys of all, one after the other if they are split.  The
 * last piece of the queries sees most, unless the axis is balanced.
 */
static double
pairs(struct formula *f)
{
	const struct ir_factor *s = find_factor(f, "s");
	const struct ir_factor *t = find_factor(f, "t");
	int64_t whole = ir_dim_size(f->m, s->dims[0]);
	int64_t here = size_of(f, s, s->dims[0]);
	double heads = factor(f, "B") * factor(f, "h");

	if (here < whole && is_balanced(f->m, cut_of(f, s, s->dims[0]))) {
		heads *= (double)here / (double)whole;
		here = whole;
	}
	return heads *
	       ir_attention_pairs(here, ir_dim_size(f->m, t->dims[0]),
				  ir_attr(f->m, f->n, IR_ATTR_CAUSAL),
				  ir_attr_int(f->m, f->n, IR_ATTR_WINDOW, 0));
}

/* A product of factors of routed rows is of all ranks' rows. */
static double
routed(const struct formula *f)
{
	uint8_t axes = 0;
	double v = 1;
	axis_id a;
	uint32_t k;

	for (k = 0; f->local && k < f->n->nargs; k++) {
		axes |= ir_type(f->m, ir_args(f->m, f->n)[k])->routed;
	}
	for (a = 1; a < f->m->axes.n; a++) {
		v *= axes >> (a - 1) & 1 ? (double)f->m->axes.at[a].size : 1;
	}
	return v;
}

/* The value of one token; an operand's also sets the product's type. */
static double
token(struct formula *f, const char *name, const struct ir_type **type,
      bool *whole)
{
	bool digit = *name >= '0' && *name <= '9';
	int64_t number;
	uint32_t k;

	if (digit && num_parse_int(name, strlen(name), &number)) {
		return (double)number;
	}
	if (strcmp(name, "out") == 0) {
		*whole = false;
		return elems(f, ir_type(f->m, f->n->result));
	}
	if (strcmp(name, "pairs") == 0) {
		return pairs(f);
	}
	k = name[0] == 'i' && name[1] == 'n' && name[2] && !name[3]
		? (uint32_t)(name[2] - '0') : UINT32_MAX;
	if (k < f->n->nargs && k < IR_MAX_OPERANDS) {
		*type = ir_type(f->m, ir_args(f->m, f->n)[k]);
		*whole = false;
		return elems(f, *type);
	}
	return factor(f, name);
}

static double
product(struct formula *f, const char *p, size_t n)
{
	const struct ir_type *type = ir_type(f->m, f->n->result);
	bool whole = true;	/* nothing in it is of the pieces alone */
	double v = 1;
	char name[16];
	size_t k;

	for (;; p += k, n -= k) {
		while (n > 0 && *p == ' ') {
			p++;
			n--;
		}
		if (n == 0) {
			break;
		}
		for (k = 0; k < n && p[k] != ' '; k++) {
			if (k == sizeof name - 1) {
				die("formula `%s`", p);
			}
			name[k] = p[k];
		}
		name[k] = '\0';
		v *= token(f, name, &type, &whole);
	}
	v = whole ? v / routed(f) : v;
	return f->in_bytes ? v * ir_dtypes[type->dtype].bits / 8 : v;
}

static double
evaluate(struct formula *f, const char *p)
{
	double v = 0;

	while (*p) {
		size_t n = strcspn(p, "+");

		v += product(f, p, n);
		p += n + (p[n] == '+');
	}
	return v;
}

void
ir_cost(struct ir_module *m, const struct ir_node *n, struct ir_cost *out)
{
	struct ir_rule r;
	struct formula f = { .m = m, .n = n, .r = &r };

	out->flops = evaluate(&f, ir_ops[n->op].flops);
	f.in_bytes = true;
	out->bytes = evaluate(&f, ir_ops[n->op].bytes);
}

double
ir_local_flops(struct ir_module *m, const struct ir_node *n)
{
	struct ir_rule r;
	struct formula f = { .m = m, .n = n, .r = &r, .local = true };

	return evaluate(&f, ir_ops[n->op].flops);
}

/*
 * Counts as functions of the lengths of dims and axes.  Counts of one module
 * are written down once, as sums and products of others, and evaluated for that
 * module and for others that differ from it in lengths alone.  A count that is
 * written twice is one; ids ascend, so that a count comes after what it is made
 * of.
 */
#include "ir/ir.h"

#include <math.h>
#include <string.h>

void
ir_counts_open(struct ir_counts *c, struct arena *a)
{
	memset(c, 0, sizeof *c);
	c->arena = a;
	ir_count_number(c, 0);
	ir_count_number(c, 1);
	VEC_PUSH(a, &c->types, (struct ir_counted_type){ 0 });
}

void
ir_counts_clear(struct ir_counts *c)
{
	c->at.n = 2;
	table_cut(&c->known, 3);
	c->types.n = 1;
	table_cut(&c->types_known, 1);
}

/* ---- pairs of attention ---- */

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
 * The last query is at the position of the last key: query i sees the keys j <=
 * i + T - S if causal, and j > i + T - S - window if windowed.
 */
double
ir_attention_pairs(int64_t queries, int64_t keys, bool causal,
		   int64_t window)
{
	double s = (double)queries, t = (double)keys, w = (double)window;

	if (causal) {
		/* the queries see t-s+1 .. t keys, if positive, at most w */
		w = window > 0 ? w : t;
		return clipped(t, w) - (t > s ? clipped(t - s, w) : 0);
	}
	if (window > 0) {
		/*
		 * the keys outside of the window: t-s-w+1 .. t-w, if positive
		 */
		return s * t - (triangle(t - w) - triangle(t - s - w));
	}
	return s * t;
}

int64_t
ir_alibi_base(int64_t heads)
{
	int64_t n = 1;

	while (n <= heads / 2) {
		n *= 2;
	}
	return n;
}

double
ir_alibi_slope(double alibi, int64_t heads, int64_t head)
{
	double n = (double)ir_alibi_base(heads);

	return (double)head < n
		? exp2(-alibi * ((double)head + 1) / n)
		: exp2(-alibi * (2 * ((double)head - n) + 1) / (2 * n));
}

/* ---- writing down ---- */

static bool
same(const struct ir_count *x, const struct ir_count *y)
{
	return x->kind == y->kind && x->a == y->a && x->b == y->b &&
	       x->c == y->c;
}

/* The id is the table's entry less 1. */
static count_id
add(struct ir_counts *c, struct ir_count x)
{
	uint64_t hash = hash_word((uint64_t)x.kind << 32 | x.c,
				  (uint64_t)x.a << 32 | x.b);
	uint32_t at = 0;

	while ((at = table_find(&c->known, hash, at)) != 0) {
		if (same(&c->at.at[at - 1], &x)) {
			return at - 1;
		}
	}
	VEC_PUSH(c->arena, &c->at, x);
	return table_add(c->arena, &c->known, hash) - 1;
}

static count_id
add_two(struct ir_counts *c, enum ir_count_kind kind, count_id a, count_id b)
{
	return add(c, (struct ir_count){ .kind = kind, .a = a, .b = b });
}

struct ir_count
ir_count_of(double v)
{
	uint64_t bits = num_bits(v);

	return (struct ir_count){ .kind = IR_COUNT_NUMBER, .a = (uint32_t)bits,
				  .b = (uint32_t)(bits >> 32) };
}

count_id
ir_count_number(struct ir_counts *c, double v)
{
	return add(c, ir_count_of(v));
}

double
ir_count_value(const struct ir_count *x)
{
	uint64_t bits = (uint64_t)x->b << 32 | x->a;
	double v;

	memcpy(&v, &bits, sizeof v);
	return v;
}

count_id
ir_count_len(struct ir_counts *c, dim_id d, uint32_t cut)
{
	return add_two(c, IR_COUNT_LEN, d, cut);
}

count_id
ir_count_ranks(struct ir_counts *c, uint32_t axes)
{
	return axes ? add_two(c, IR_COUNT_RANKS, axes, 0) : IR_COUNT_ONE;
}

count_id
ir_count_add(struct ir_counts *c, count_id a, count_id b)
{
	return !a ? b : !b ? a : add_two(c, IR_COUNT_ADD, a, b);
}

count_id
ir_count_mul(struct ir_counts *c, count_id a, count_id b)
{
	return a == IR_COUNT_ONE ? b : b == IR_COUNT_ONE ? a
		: add_two(c, IR_COUNT_MUL, a, b);
}

count_id
ir_count_div(struct ir_counts *c, count_id a, count_id b)
{
	return b == IR_COUNT_ONE ? a : add_two(c, IR_COUNT_DIV, a, b);
}

count_id
ir_count_shares(struct ir_counts *c, count_id a, count_id b)
{
	return b == IR_COUNT_ONE ? a : add_two(c, IR_COUNT_SHARES, a, b);
}

count_id
ir_count_least(struct ir_counts *c, count_id a, count_id b)
{
	return a == b ? a : add_two(c, IR_COUNT_LEAST, a, b);
}

count_id
ir_count_most(struct ir_counts *c, count_id a, count_id b)
{
	return a == b ? a : add_two(c, IR_COUNT_MOST, a, b);
}

count_id
ir_count_unless(struct ir_counts *c, count_id a, count_id b)
{
	return b == IR_COUNT_ONE ? b : add_two(c, IR_COUNT_UNLESS, a, b);
}

count_id
ir_count_pairs(struct ir_counts *c, count_id queries, count_id keys,
	       bool causal, int64_t window)
{
	struct ir_count x = {
		.kind = causal ? IR_COUNT_PAIRS_BEFORE : IR_COUNT_PAIRS,
		.a = queries, .b = keys,
		.c = ir_count_number(c, (double)window)
	};

	return add(c, x);
}

/* ---- types ---- */

static count_id
elems(struct ir_counts *c, const struct ir_type *t)
{
	count_id v = IR_COUNT_ONE;
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		v = ir_count_mul(c, v, ir_count_len(c, t->dims[i],
						    t->cut[i]));
	}
	for (i = 0; t->routed >> i; i++) {
		if (t->routed >> i & 1) {
			v = ir_count_shares(c, v, ir_count_ranks(c, 1u << i));
		}
	}
	return v;
}

static uint64_t
hash_type(const struct ir_type *t)
{
	uint64_t hash = (uint64_t)t->ndims << 16 |
			(uint64_t)t->routed << 8 | t->dtype;
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		hash = hash_word(hash, (uint64_t)t->dims[i] << 32 | t->cut[i]);
	}
	return hash_word(hash, t->of);
}

/* Counts of a type are written once: many values have the same. */
static const struct ir_counted_type *
of_type(struct ir_counts *c, const struct ir_type *t)
{
	struct ir_counted_type new = { *t, 0, 0 };
	uint64_t hash = hash_type(t);
	uint32_t at = 0;

	while ((at = table_find(&c->types_known, hash, at)) != 0) {
		const struct ir_counted_type *x = &c->types.at[at];

		if (x->type.routed == t->routed &&
		    ir_type_same(&x->type, t) &&
		    memcmp(x->type.cut, t->cut,
			   t->ndims * sizeof *t->cut) == 0) {
			return x;
		}
	}
	new.elems = elems(c, t);
	new.bytes = ir_count_bytes(c, new.elems, t->dtype);
	VEC_PUSH(c->arena, &c->types, new);
	return &c->types.at[table_add(c->arena, &c->types_known, hash)];
}

count_id
ir_count_elems(struct ir_counts *c, const struct ir_type *t)
{
	return of_type(c, t)->elems;
}

count_id
ir_count_type(struct ir_counts *c, const struct ir_type *t)
{
	return of_type(c, t)->bytes;
}

count_id
ir_count_bytes(struct ir_counts *c, count_id elems, uint8_t dtype)
{
	return ir_count_mul(c, elems,
			    ir_count_number(c, ir_elem_bytes(dtype)));
}

/* ---- evaluating ---- */

static double
ranks(const struct ir_module *m, uint32_t axes)
{
	double n = 1;
	axis_id a;

	for (a = 1; a < m->axes.n; a++) {
		n *= axes >> (a - 1) & 1 ? (double)m->axes.at[a].size : 1;
	}
	return n;
}

void
ir_counts_run(const struct ir_module *m, const struct ir_count *at,
	      uint32_t n, double *v)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct ir_count *x = &at[i];

		switch (x->kind) {
		case IR_COUNT_NUMBER:
			v[i] = ir_count_value(x);
			break;
		case IR_COUNT_LEN:
			v[i] = (double)ir_most(m, ir_dim_size(m, x->a), x->b);
			break;
		case IR_COUNT_RANKS:
			v[i] = ranks(m, x->a);
			break;
		case IR_COUNT_ADD:
			v[i] = v[x->a] + v[x->b];
			break;
		case IR_COUNT_MUL:
			v[i] = v[x->a] * v[x->b];
			break;
		case IR_COUNT_DIV:
			v[i] = v[x->a] / v[x->b];
			break;
		case IR_COUNT_SHARES:
			v[i] = ceil(v[x->a] / v[x->b]);
			break;
		case IR_COUNT_LEAST:
			v[i] = fmin(v[x->a], v[x->b]);
			break;
		case IR_COUNT_MOST:
			v[i] = fmax(v[x->a], v[x->b]);
			break;
		case IR_COUNT_UNLESS:
			v[i] = v[x->a] > 1 ? 1 : v[x->b];
			break;
		default:
			v[i] = ir_attention_pairs((int64_t)v[x->a],
				(int64_t)v[x->b],
				x->kind == IR_COUNT_PAIRS_BEFORE,
				(int64_t)v[x->c]);
			break;
		}
	}
}

/*
 * Ways: how an op may run along one axis of the mesh.  They follow from the
 * dimension rule and the split column of the op's row, so that neither the
 * verifier, which checks that a node runs in one of them, nor the pass that
 * chooses among them knows any op.
 */
#include "ir/ir.h"

#include <ctype.h>
#include <string.h>

static const struct ir_along whole = { IR_IS_WHOLE, 0 };

struct way_list {
	struct ir_module *m;
	const struct ir_node *n;
	axis_id axis;
	struct ir_rule r;
	const char *split;	/* the row's column */
	struct ir_way *at;
	uint32_t count;
};

static const struct ir_type *
operand(const struct way_list *w, uint32_t k)
{
	return ir_type(w->m, ir_args(w->m, w->n)[k]);
}

static struct ir_way *
add(struct way_list *w)
{
	struct ir_way *way;

	if (w->count == IR_MAX_WAYS) {
		die("%s has more than %d ways", ir_ops[w->n->op].name,
		    IR_MAX_WAYS);
	}
	way = &w->at[w->count++];
	memset(way, 0, sizeof *way);
	return way;
}

/* Whether the split column has `sign` before the factor's name. */
static bool
marked(const struct way_list *w, char sign, const struct ir_factor *f)
{
	const char *p = w->split;
	size_t n = strlen(f->name);

	while (*p) {
		size_t k = strcspn(p, " ");

		if (*p == sign && k == n + 1 &&
		    strncmp(p + 1, f->name, n) == 0) {
			return true;
		}
		p += k + (p[k] == ' ');
	}
	return false;
}

/* The factor of the rule whose name has those n bytes. */
static const struct ir_factor *
factor(const struct way_list *w, const char *name, size_t n)
{
	char text[8];

	memcpy(text, name, n);
	text[n] = '\0';
	return ir_rule_factor(&w->r, text);
}

/* ---- splitting dims ---- */

/* Splits dim d of factor f in all operands and results that have it. */
static void
split_factor(struct way_list *w, struct ir_way *way, const struct ir_factor *f,
	     dim_id d)
{
	struct ir_along s = { IR_IS_SPLIT, d };
	uint32_t k;

	for (k = 0; k < w->r.nops; k++) {
		if (f->in >> k & 1 && ir_type_has(operand(w, k), d)) {
			way->in[k] = s;
		}
	}
	if (f->out) {
		way->out = s;
	} else if (way->out.how == IR_IS_WHOLE) {
		way->out.how = IR_IS_PART;
	}
}

/*
 * `arrange`: whether a dim that is reduced comes back by the attribute's
 * factor.
 */
static bool
same_again(const struct way_list *w, const struct ir_factor *f)
{
	return strchr(w->r.where, '~') && f->in && !f->out;
}

/* For factor x of a rule x%y, its y; or NULL. */
static const struct ir_factor *
partner(const struct way_list *w, const char *sign, const char *text,
	const struct ir_factor *f, bool left)
{
	const char *p = strstr(text, sign), *x = p;
	const struct ir_factor *a, *b;

	if (!p) {
		return NULL;
	}
	while (x > text && isalnum((unsigned char)x[-1])) {
		x--;
	}
	a = factor(w, x, (size_t)(p - x));
	b = factor(w, p + 1, strcspn(p + 1, " ="));
	return f == (left ? a : b) ? (left ? b : a) : NULL;
}

/* Whether the ranks of the axis can each have whole positions of d. */
static bool
divides(const struct way_list *w, const struct ir_factor *f)
{
	int64_t parts = w->m->axes.at[w->axis].size;
	axis_id axes[IR_MAX_AXES];
	uint32_t k, i, j, n;

	for (k = 0; k < w->r.nops; k++) {
		const struct ir_type *t = operand(w, k);

		for (i = 0; f->in >> k & 1 && i < t->ndims; i++) {
			if (t->dims[i] != f->dims[0]) {
				continue;
			}
			n = ir_cuts(t, i, axes);
			for (j = 0; j < n; j++) {
				parts *= axes[j] == w->axis ? 1
					: w->m->axes.at[axes[j]].size;
			}
			return ir_dim_size(w->m, f->dims[0]) % parts == 0;
		}
	}
	return false;
}

/*
 * Adds the ways to split dim d of factor f: none, one, or one with its partner.
 */
static void
split_dim(struct way_list *w, const struct ir_factor *f, dim_id d)
{
	const struct ir_factor *small = partner(w, "%", w->r.where, f, true);
	const struct ir_factor *ring = partner(w, "=", w->split, f, true);
	struct ir_way *way;

	if (small && (small->dims[0] == d || divides(w, small))) {
		way = add(w);
		split_factor(w, way, f, d);
		split_factor(w, way, small, small->dims[0]);
		if (small->out) {
			way->out = (struct ir_along){ IR_IS_SPLIT,
						      small->dims[0] };
		}
	}
	if (ring && ring->dims[0] == d) {
		way = add(w);
		split_factor(w, way, f, d);
		split_factor(w, way, ring, d);
		way->out = (struct ir_along){ IR_IS_SPLIT, d };
		way->colls = true;
	}
	if (marked(w, '-', f) || partner(w, "%", w->r.where, f, false)) {
		return;
	}
	way = add(w);
	split_factor(w, way, f, d);
	way->colls = marked(w, '!', f);
	if (way->colls && !f->out) {
		way->out = whole;
	}
	if (same_again(w, f)) {
		way->out = (struct ir_along){ IR_IS_SPLIT, d };
	}
}

static void
split_dims(struct way_list *w)
{
	uint32_t i, j;

	for (i = 0; i < w->r.nf; i++) {
		const struct ir_factor *f = &w->r.f[i];

		if (strchr(w->r.where, '~') && !f->in) {
			continue;
		}
		for (j = 0; j < f->n; j++) {
			split_dim(w, f, f->dims[j]);
		}
	}
}

/* ---- sums, routes, conversions ---- */

/* +ab: these operands are parts of a sum, and the result is, too. */
static void
sums(struct way_list *w)
{
	const char *p = w->split;

	for (; *p; p += strcspn(p, " "), p += *p == ' ') {
		const char *q = p + 1;
		struct ir_way *way;

		if (*p != '+') {
			continue;
		}
		way = add(w);
		for (; *q && *q != ' '; q++) {
			way->in[*q - 'a'].how = IR_IS_PART;
		}
		way->out.how = IR_IS_PART;
	}
}

/*
 * @ab: these are routed by the index, and operands that have `of` are split
 * along it.
 */
static void
routes_by_index(struct way_list *w, const char *operands)
{
	const struct ir_factor *of = ir_rule_factor(&w->r, "of");
	struct ir_way *way = add(w);

	split_factor(w, way, of, of->dims[0]);
	if (!of->out) {
		way->out = (struct ir_along){ IR_IS_ROUTED, 0 };
	}
	for (; *operands && *operands != ' '; operands++) {
		way->in[*operands - 'a'].how = IR_IS_ROUTED;
	}
}

/* An op that works row by row works on the rows that are on the rank. */
static void
routes_of_map(struct way_list *w)
{
	uint32_t mask, k;

	for (mask = 1; mask < 1u << w->r.nops; mask++) {
		struct ir_way *way = add(w);

		for (k = 0; k < w->r.nops; k++) {
			way->in[k].how = mask >> k & 1 ? IR_IS_ROUTED
						       : IR_IS_WHOLE;
		}
		way->out.how = IR_IS_ROUTED;
	}
}

static void
routes(struct way_list *w)
{
	const char *at = strchr(w->split, '@');

	if (at && isalpha((unsigned char)at[1])) {
		routes_by_index(w, at + 1);
	} else if (at || ir_is(w->n->op, IRF_MAP) || strchr(w->r.where, '~')) {
		routes_of_map(w);
	}
}

/* The placement that one side of x>y names. */
static struct ir_along
side(const struct way_list *w, const char *text)
{
	static const struct {
		char sign;
		enum ir_how how;
	} signs[] = {
		{ '+', IR_IS_PART }, { '.', IR_IS_WHOLE }, { '@', IR_IS_ROUTED }
	};
	const struct ir_attr *a;
	struct ir_along s = { IR_IS_SPLIT, 0 };
	size_t i;

	for (i = 0; i < sizeof signs / sizeof signs[0]; i++) {
		if (*text == signs[i].sign) {
			s.how = signs[i].how;
			return s;
		}
	}
	a = ir_attr(w->m, w->n, *text == 'o' ? IR_ATTR_OF : IR_ATTR_TO);
	s.dim = a ? a->dims[0] : 0;
	return s;
}

static bool
is_on(const struct way_list *w)
{
	const struct ir_attr *on = ir_attr(w->m, w->n, IR_ATTR_ON);
	uint32_t i;

	for (i = 0; on && i < on->ndims; i++) {
		if (on->dims[i] == w->axis) {
			return true;
		}
	}
	return false;
}

/* Adds the way in which a conversion along another axis changes nothing. */
static void
unchanged(struct way_list *w)
{
	const struct ir_type *t = operand(w, 0);
	struct ir_way *way;
	uint32_t i;

	add(w);
	for (i = 0; i < t->ndims; i++) {
		struct ir_along s = { IR_IS_SPLIT, t->dims[i] };
		uint32_t k;

		way = add(w);
		way->in[0] = way->out = s;
		for (k = 1; k < w->r.nops; k++) {
			if (ir_type_has(operand(w, k), s.dim)) {
				way->in[k] = s;
			}
		}
	}
	way = add(w);
	way->in[0].how = way->out.how = IR_IS_PART;
	way = add(w);
	way->in[0].how = way->out.how = IR_IS_ROUTED;
}

static void
conversion(struct way_list *w)
{
	struct ir_way *way;

	if (!is_on(w)) {
		unchanged(w);
		return;
	}
	way = add(w);
	way->in[0] = side(w, w->split);
	way->out = side(w, strchr(w->split, '>') + 1);
	way->colls = true;
}

bool
ir_same_ways(enum ir_op op)
{
	return !ir_is(op, IRF_CONVERTS | IRF_PEER) &&
	       !strchr(ir_ops[op].rule, '%');
}

uint32_t
ir_ways(struct ir_module *m, const struct ir_node *n, axis_id a,
	struct ir_way *ways)
{
	struct way_list w = { .m = m, .n = n, .axis = a, .at = ways,
			  .split = ir_ops[n->op].split };

	ir_bind(m, n, &w.r);
	if (ir_is(n->op, IRF_CONVERTS)) {
		conversion(&w);
	} else if (ir_is(n->op, IRF_PEER)) {
		unchanged(&w);
	} else {
		add(&w);
		split_dims(&w);
		sums(&w);
		routes(&w);
	}
	return w.count;
}

/*
 * Inserts the chosen conversions between the placement of a value and the one
 * that its user needs, one op each.  If several nodes of a region need the same
 * one, it is done once, before the first of them.
 *
 * A dim's axes are removed innermost first.  If a chosen axis is not the
 * innermost, the axes inside it are gathered too and split again.
 */
#include "passes/derive.h"
#include "passes/place/place.h"

#include <string.h>

/* A conversion that was inserted. */
struct made {
	value_id from, to, index;
	struct ir_type type;
};

struct writer {
	struct place *p;
	struct ir_module *m;
	region_id region;	/* being rebuilt */
	VEC(struct made) made;	/* in it */
	VEC(value_id) route;	/* by value: the index that sent its rows */
	struct span span;
	uint32_t count;
};

/* ---- one step ---- */

/* A conversion to insert: its op, axes, dims. */
struct step {
	enum ir_op op;
	axis_id on[IR_MAX_AXES];
	uint32_t n;
	dim_id of, to;
	struct ir_along end;	/* result along each axis */
};

/* The innermost axis of a cut, or 0. */
static axis_id
inner(uint32_t cut)
{
	axis_id a = 0;

	for (; cut; cut >>= 4) {
		a = cut & 15;
	}
	return a;
}

static uint32_t
cut_depth(uint32_t cut)
{
	uint32_t n = 0;

	for (; cut; cut >>= 4) {
		n++;
	}
	return n;
}

/* The next axis of `want` if `have` is an outer part of it; else 0. */
static axis_id
next_axis(uint32_t have, uint32_t want)
{
	uint32_t n = cut_depth(have) * 4;

	if (n == 32 || (want & ((1u << n) - 1)) != have) {
		return 0;
	}
	return want >> n & 15;
}

/* The innermost axis of `have` if it must go; 0 if `want` extends it. */
static axis_id
surplus(uint32_t have, uint32_t want)
{
	uint32_t n = cut_depth(have) * 4;

	if (n < 32 && (want & ((1u << n) - 1)) == have) {
		return 0;
	}
	return have == want ? 0 : inner(have);
}

/*
 * Splits a dim by its next axis: the value is whole, partial or routed there.
 */
static bool
step_on(const struct ir_type *t, const struct ir_type *want, struct step *s)
{
	int pass, i;

	for (pass = 0; pass < 3; pass++) {
		for (i = 0; i < t->ndims; i++) {
			static const struct {
				enum ir_how how;
				enum ir_op op;
			} kind[] = {
				{ IR_IS_WHOLE, IR_SHARD },
				{ IR_IS_PART, IR_REDUCE_SCATTER },
				{ IR_IS_ROUTED, IR_COMBINE }
			};
			axis_id a = next_axis(t->cut[i], want->cut[i]);

			if (!a || ir_along(t, a).how != kind[pass].how) {
				continue;
			}
			s->op = kind[pass].op;
			s->on[s->n++] = a;
			s->of = t->dims[i];
			s->end = (struct ir_along){ IR_IS_SPLIT, s->of };
			return true;
		}
	}
	return false;
}

/* Removes a dim's innermost axis: gathers it, routes it or moves it. */
static bool
step_off(const struct ir_type *t, const struct ir_type *want, struct step *s)
{
	int i, j;

	for (i = 0; i < t->ndims; i++) {
		axis_id a = surplus(t->cut[i], want->cut[i]);
		struct ir_along end;

		if (!a) {
			continue;
		}
		end = ir_along(want, a);
		s->on[s->n++] = a;
		s->of = t->dims[i];
		s->op = IR_ALL_GATHER;
		s->end = (struct ir_along){ IR_IS_WHOLE, 0 };
		if (end.how == IR_IS_ROUTED) {
			s->op = IR_DISPATCH;
			s->end = end;
		}
		j = end.how == IR_IS_SPLIT ? ir_type_at(t, end.dim) : -1;
		if (j >= 0 && j != i &&
		    next_axis(t->cut[j], want->cut[j]) == a) {
			s->op = IR_ALL_TO_ALL;
			s->to = end.dim;
			s->end = end;
		}
		return true;
	}
	return false;
}

/* Reduces partial sums over all axes at once, or else makes a partial sum. */
static bool
step_sum(const struct ir_module *m, const struct ir_type *t,
	 const struct ir_type *want, struct step *s)
{
	axis_id a;

	for (a = 1; a < m->axes.n; a++) {
		if (t->sum >> (a - 1) & 1 && !(want->sum >> (a - 1) & 1)) {
			s->op = IR_ALL_REDUCE;
			s->on[s->n++] = a;
		}
	}
	s->end = (struct ir_along){ IR_IS_WHOLE, 0 };
	for (a = 1; !s->n && a < m->axes.n; a++) {
		if (!(t->sum >> (a - 1) & 1) && want->sum >> (a - 1) & 1) {
			s->op = IR_ONCE;
			s->on[s->n++] = a;
			s->end = (struct ir_along){ IR_IS_PART, 0 };
		}
	}
	return s->n > 0;
}

static bool
find_step(const struct ir_module *m, const struct ir_type *t,
	  const struct ir_type *want, struct step *s)
{
	memset(s, 0, sizeof *s);
	return !ir_type_equal(t, want) &&
	       (step_on(t, want, s) || step_off(t, want, s) ||
		step_sum(m, t, want, s));
}

/* Adds axes for which the next step would be the same op on the same dim. */
static void
widen(const struct ir_module *m, const struct ir_type *t,
      const struct ir_type *want, struct step *s)
{
	struct ir_type after = *t;
	struct step more;

	if (s->op == IR_ALL_REDUCE || s->op == IR_ALL_TO_ALL ||
	    s->op == IR_DISPATCH || s->op == IR_COMBINE) {
		return;
	}
	ir_set_along(&after, s->on[0], s->end);
	while (find_step(m, &after, want, &more) && more.op == s->op &&
	       more.of == s->of) {
		if (s->op == IR_ALL_GATHER) {
			memmove(s->on + 1, s->on, s->n * sizeof s->on[0]);
			s->on[0] = more.on[0];
			s->n++;
		} else {
			s->on[s->n++] = more.on[0];
		}
		ir_set_along(&after, more.on[0], more.end);
	}
}

/* ---- conversions ---- */

static value_id
make_step(struct writer *w, value_id v, const struct step *s, value_id index)
{
	struct ir_new n;
	struct ir_attr *on;
	uint32_t i;

	ir_new_init(&n, s->op, w->span);
	ir_new_arg(&n, v);
	if (s->op == IR_DISPATCH || s->op == IR_COMBINE) {
		ir_new_arg(&n, index);
	}
	on = ir_new_attr(&n, IR_ATTR_ON);
	n.types[0] = *ir_type(w->m, v);
	for (i = 0; i < s->n; i++) {
		on->dims[on->ndims++] = s->on[i];
	}
	if (s->op == IR_ALL_GATHER) {	/* innermost first */
		for (i = s->n; i-- > 0; ) {
			ir_set_along(&n.types[0], s->on[i], s->end);
		}
	} else {
		for (i = 0; i < s->n; i++) {
			ir_set_along(&n.types[0], s->on[i], s->end);
		}
	}
	if (s->of) {
		ir_new_dim(&n, IR_ATTR_OF, s->of);
	}
	if (s->to) {
		ir_new_dim(&n, IR_ATTR_TO, s->to);
	}
	n.hint = w->m->values.at[v].hint;
	w->count++;
	return derive_append(w->m, w->region, &n);
}

static value_id
find_made(const struct writer *w, value_id v, const struct ir_type *type,
	  value_id index)
{
	uint32_t i;

	for (i = 0; i < w->made.n; i++) {
		if (w->made.at[i].from == v && w->made.at[i].index == index &&
		    ir_type_equal(&w->made.at[i].type, type)) {
			return w->made.at[i].to;
		}
	}
	return 0;
}

static value_id
route_of(const struct writer *w, value_id v)
{
	return v < w->route.n ? w->route.at[v] : 0;
}

static void
set_route(struct writer *w, value_id v, value_id index)
{
	while (w->route.n <= v) {
		VEC_PUSH(&w->p->arena, &w->route, 0);
	}
	w->route.at[v] = index;
}

static value_id convert(struct writer *w, value_id v,
			const struct ir_type *want, value_id index);

/* The index, whole along axis a and otherwise placed like v. */
static value_id
whole_index(struct writer *w, value_id index, value_id v, axis_id a)
{
	struct ir_type want = *ir_type(w->m, index);
	struct ir_type t = *ir_type(w->m, v);
	int i, j;

	for (i = 0; i < want.ndims; i++) {
		j = ir_type_at(&t, want.dims[i]);
		want.cut[i] = j >= 0 ? t.cut[j] : 0;
	}
	ir_set_along(&want, a, (struct ir_along){ IR_IS_WHOLE, 0 });
	return convert(w, index, &want, 0);
}

/* Applies one step to v, or finds it already done. */
static value_id
one_step(struct writer *w, value_id v, const struct step *s, value_id index)
{
	struct made made = { v, 0, 0, *ir_type(w->m, v) };
	uint32_t i;

	for (i = s->n; i-- > 0; ) {
		ir_set_along(&made.type, s->on[i],
			     (struct ir_along){ IR_IS_WHOLE, 0 });
	}
	for (i = 0; i < s->n; i++) {
		ir_set_along(&made.type, s->on[i], s->end);
	}
	if (s->op == IR_DISPATCH || s->op == IR_COMBINE) {
		index = s->op == IR_COMBINE ? route_of(w, v) : index;
		if (!index) {
			die("rows are routed without an index");
		}
		made.index = whole_index(w, index, v, s->on[0]);
	}
	made.to = find_made(w, v, &made.type, made.index);
	if (!made.to) {
		made.to = make_step(w, v, s, made.index);
		VEC_PUSH(&w->p->arena, &w->made, made);
	}
	index = route_of(w, v) ? route_of(w, v) : index;
	if (index) {
		set_route(w, made.to, index);
	}
	return made.to;
}

/* Converts v to `want`; index: what routes rows to its user, or 0. */
static value_id
convert(struct writer *w, value_id v, const struct ir_type *want,
	value_id index)
{
	struct step s;

	while (find_step(w->m, ir_type(w->m, v), want, &s)) {
		widen(w->m, ir_type(w->m, v), want, &s);
		v = one_step(w, v, &s, index);
	}
	return v;
}

/* ---- nodes ---- */

static void
convert_arg(struct writer *w, node_id id, uint32_t k, value_id index)
{
	uint32_t at = ir_node(w->m, id)->args + k;
	value_id v = w->m->args.at[at];

	if (w->m->values.at[v].type != w->p->wants[at]) {
		v = convert(w, v, ir_type_of(w->m->ctx, w->p->wants[at]),
			    index);
		w->m->args.at[at] = v;
	}
}

/* Adds attribute `on=` with these axes; all attributes are moved for it. */
static void
say_on(struct writer *w, node_id id, uint32_t axes)
{
	struct ir_module *m = w->m;
	struct ir_node *n = &m->nodes.at[id];
	struct ir_attr on = { .key = IR_ATTR_ON }, a;
	uint32_t at = m->attrs.n, i;

	for (i = 1; i < m->axes.n; i++) {
		if (axes >> i & 1) {
			on.dims[on.ndims++] = i;
		}
	}
	for (i = 0; i < n->nattrs; i++) {
		a = m->attrs.at[n->attrs + i];
		VEC_PUSH(&m->ctx->perm, &m->attrs, a);
	}
	VEC_PUSH(&m->ctx->perm, &m->attrs, on);
	n->attrs = at;
	n->nattrs++;
}

static void
write_operands(struct writer *w, node_id id)
{
	int at = place_index_operand(ir_node(w->m, id));
	uint32_t nargs = ir_node(w->m, id)->nargs, k;
	value_id index = at < 0 ? 0
		: ir_args(w->m, ir_node(w->m, id))[at];

	w->span = ir_node(w->m, id)->span;
	for (k = 0; k < nargs; k++) {
		convert_arg(w, id, k, index);
	}
	if (w->p->colls[id]) {
		say_on(w, id, w->p->colls[id]);
	}
}

static void write_region(struct writer *w, region_id r);

static void
write_inner(struct writer *w, region_id r)
{
	struct writer in = *w;

	memset(&in.made, 0, sizeof in.made);
	write_region(&in, r);
	w->count = in.count;
	w->route = in.route;
}

static void
write_region(struct writer *w, region_id r)
{
	struct ir_module *m = w->m;
	uint32_t n = m->regions.at[r].nodes.n, i;
	node_id *nodes = arena_dup(&w->p->arena, m->regions.at[r].nodes.at,
				   n * sizeof *nodes);

	m->regions.at[r].nodes.n = 0;
	w->region = r;
	for (i = 0; i < n; i++) {
		write_operands(w, nodes[i]);
		VEC_PUSH(&m->ctx->perm, &m->regions.at[r].nodes, nodes[i]);
		if (ir_node(m, nodes[i])->region) {
			write_inner(w, ir_node(m, nodes[i])->region);
		}
	}
	for (i = 0; w->p->yields[r] && i < m->regions.at[r].results.n; i++) {
		value_id v = convert(w, m->regions.at[r].results.at[i],
				     ir_type_of(m->ctx, w->p->yields[r][i]),
				     0);

		m->regions.at[r].results.at[i] = v;
	}
}

bool
place_write(struct place *p)
{
	struct writer w = { .p = p, .m = p->m };
	func_id f;
	value_id v;

	for (v = 1; v < p->nvalues; v++) {
		if (p->facts->route[v]) {
			set_route(&w, v, p->facts->route[v]);
		}
	}
	for (f = 1; f < p->m->funcs.n; f++) {
		memset(&w.made, 0, sizeof w.made);
		write_region(&w, p->m->funcs.at[f].body);
	}
	pass_count(p->p, "conversions made", w.count);
	return true;
}

/*
 * What a group reads, writes and computes.
 */
#include "passes/fuse.h"

#include <math.h>
#include <string.h>

static const struct ir_node *
node_at(const struct fuse *f, uint32_t place)
{
	return ir_node(f->m, f->nodes[place]);
}

/* ---- what crosses ---- */

/*
 * Of what lies there, with so many bytes.  A node that picks elements touches
 * as many as it makes.
 */
static double
touched(const struct fuse *f, const struct ir_node *n, uint32_t k,
	value_id base, double most)
{
	value_id v = ir_args(f->m, n)[k];
	double bytes = v == base ? most : fmin(most, kernel_bytes(f->m, v));

	if (k == 0 && n->nresults == 1 && ir_is(n->op, IRF_MOVES)) {
		const struct ir_type *t = ir_type(f->m, v);
		double out = ir_most_elems(f->m, ir_type(f->m, n->result));

		return fmin(bytes, out * ir_dtypes[t->dtype].bits / 8);
	}
	return bytes;
}

static bool
is_copy(const struct fuse_group *g, uint32_t place)
{
	uint32_t i;

	for (i = 0; i < g->copies.n; i++) {
		if (g->copies.at[i] == place) {
			return true;
		}
	}
	return false;
}

bool
fuse_has(const struct fuse *f, uint32_t group, value_id base)
{
	node_id id = f->m->values.at[base].node;

	return id && f->home[id] == f->region &&
	       fuse_class(f, id) != FUSE_FREE &&
	       (f->group_of[f->place[id] - 1] == group ||
		is_copy(&f->groups[group], f->place[id] - 1));
}

/* Whether a use needs nothing of memory: by the group, or by a copy. */
static bool
is_inside(struct fuse *f, node_id user, value_id v, void *data)
{
	const uint32_t *group = data;
	const struct ir_node *n = ir_node(f->m, user);
	uint32_t by;

	if (fuse_class(f, user) == FUSE_FREE) {
		return n->nresults && fuse_all_uses(f, n->result, is_inside,
						    data);
	}
	if (f->home[user] != f->region) {
		return false;
	}
	by = f->group_of[f->place[user] - 1];
	return by == *group ||
	       is_copy(&f->groups[by], f->place[f->m->values.at[
			fuse_base(f, v, NULL)].node] - 1);
}

bool
fuse_is_wanted(struct fuse *f, uint32_t group, value_id v)
{
	return !fuse_all_uses(f, v, is_inside, &group);
}

static void
add_use(struct fuse *f, struct kernel *k, value_id base, double bytes,
	double most)
{
	struct kernel_use u = { base, bytes };
	uint32_t i;

	for (i = 0; i < k->inputs.n; i++) {
		struct kernel_use *had = &k->inputs.at[i];

		if (had->value == base) {
			had->bytes = fmin(most, had->bytes + bytes);
			return;
		}
	}
	VEC_PUSH(&f->tmp, &k->inputs, u);
}

static void
add_inputs(struct fuse *f, uint32_t group, uint32_t place, struct kernel *k)
{
	const struct ir_node *n = node_at(f, place);
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		value_id base = fuse_base(f, ir_args(f->m, n)[i], NULL);

		if (base && !fuse_has(f, group, base)) {
			double most = kernel_bytes(f->m, base);

			add_use(f, k, base, touched(f, n, i, base, most),
				most);
		}
	}
}

/* ---- sinks ---- */

/*
 * What a sum is added to, or a tensor that gets a value: if the value is
 * wanted elsewhere too, it is read there, and written once.
 */
static void
add_sink(struct fuse *f, uint32_t place, uint32_t group,
	 struct kernel_work *w)
{
	const struct ir_node *n = node_at(f, place);
	value_id v = ir_args(f->m, n)[0];
	value_id base = fuse_base(f, v, NULL);
	double bytes = kernel_bytes(f->m, v);
	node_id maker = base ? f->m->values.at[base].node : 0;

	if (fuse_stores(n)) {
		bool there = base && fuse_has(f, group, base) &&
			     fuse_is_wanted(f, group, base);

		w->write_bytes += there ? 0 : bytes;
		return;
	}
	/* a sum by index touches as many elements as it adds */
	if (maker && fuse_class(f, maker) == FUSE_SCATTER &&
	    fuse_has(f, group, base)) {
		bytes = fmin(bytes, kernel_bytes(f->m,
			ir_args(f->m, ir_node(f->m, maker))[0]));
	}
	w->read_bytes += bytes;
	w->write_bytes += bytes;
}

/* ---- shapes ---- */

static double
size_in(const struct fuse *f, const struct ir_node *n,
	const struct ir_factor *x)
{
	const struct ir_type *t = ir_type(f->m, n->result);
	double v = 1;
	uint32_t k, i, j;

	for (k = 0; k < n->nargs; k++) {
		if (x->in >> k & 1) {
			t = ir_type(f->m, ir_args(f->m, n)[k]);
			break;
		}
	}
	for (i = 0; i < x->n; i++) {
		for (j = 0; j < t->ndims; j++) {
			if (t->dims[j] == x->dims[i]) {
				v *= (double)ir_most(f->m, ir_dim_size(f->m,
					x->dims[i]), t->cut[j]);
			}
		}
	}
	return v;
}

/* Ranks among which rows of the value are spread by index. */
static double
routed(const struct fuse *f, value_id v)
{
	double n = 1;
	axis_id a;

	for (a = 1; a < f->m->axes.n; a++) {
		if (ir_type(f->m, v)->routed >> (a - 1) & 1) {
			n *= (double)f->m->axes.at[a].size;
		}
	}
	return n;
}

/*
 * By where a factor stands: in both operands and the result it is a batch,
 * in one and the result m or n, else it is summed over.  A matrix is chosen
 * by the factor `of`, and rows that only the index has are more rows.
 */
static void
dot_shape(struct fuse *f, const struct ir_node *n, struct kernel_dot *d)
{
	uint32_t a = UINT32_MAX, b = 0, k;
	struct ir_rule r;

	ir_bind(f->m, n, &r);
	*d = (struct kernel_dot){ 1, 1, 1, 1, 1 };
	for (k = 0; k < n->nargs; k++) {
		if (ir_type(f->m, ir_args(f->m, n)[k])->dtype == IR_IDX) {
			continue;
		}
		a = a == UINT32_MAX ? k : a;
		b = k;
	}
	for (k = 0; k < r.nf; k++) {
		const struct ir_factor *x = &r.f[k];
		bool in_a = x->in >> a & 1, in_b = x->in >> b & 1;
		double size = size_in(f, n, x);

		*(strcmp(x->name, "of") == 0 ? &d->groups
		  : in_a && in_b && x->out ? &d->batch
		  : in_b && x->out ? &d->n
		  : x->out ? &d->m : &d->k) *= size;
	}
	if (routed(f, n->result) > 1) {
		d->m = ceil(d->m / routed(f, n->result));
	} else {
		d->k = ceil(d->k / routed(f, ir_args(f->m, n)[a]));
	}
}

static double
named(struct fuse *f, const struct ir_node *n, const struct ir_rule *r,
      const char *name)
{
	const struct ir_factor *x = ir_rule_factor(r, name);

	return x ? size_in(f, n, x) : 0;
}

static void
pairs_shape(struct fuse *f, const struct ir_node *n,
	    struct kernel_work *w, double flops)
{
	struct kernel_attention *t = arena_alloc(f->shared, sizeof *t);
	struct ir_rule r;
	double d, v;

	if (w->attention) {
		*t = *w->attention;
	}
	w->attention = t;
	ir_bind(f->m, n, &r);
	t->batch = named(f, n, &r, "B");
	t->heads = named(f, n, &r, "h");
	t->kv = named(f, n, &r, "k");
	t->s = named(f, n, &r, "s");
	t->t = named(f, n, &r, "t");
	d = named(f, n, &r, "d");
	v = named(f, n, &r, "v");
	t->d = d > 0 ? d : t->d;
	t->v = v > 0 ? v : t->v;
	t->causal = ir_attr(f->m, n, IR_ATTR_CAUSAL);
	t->window = ir_attr_int(f->m, n, IR_ATTR_WINDOW, 0);
	if (d > 0 && v > 0 && flops > 0) {
		t->pairs = flops / (2 * (d + v));
	}
}

/* Along which axes ranks talk, and what goes over the link. */
static void
talk_of(struct fuse *f, node_id id, struct kernel_talk *t)
{
	const struct ir_node *n = ir_node(f->m, id);
	const struct ir_attr *on = ir_attr(f->m, n, IR_ATTR_ON);
	uint32_t i;

	for (i = 0; on && i < on->ndims; i++) {
		t->axes |= (uint32_t)1 << on->dims[i];
	}
	t->op = n->op;
	if (fuse_class(f, id) == FUSE_TALK) {
		double in = n->nargs ? kernel_bytes(f->m,
						    ir_args(f->m, n)[0]) : 0;
		double out = n->nresults ? kernel_bytes(f->m, n->result) : 0;

		t->bytes = in > out ? in : out;
		t->n = 1;
	} else if (fuse_class(f, id) == FUSE_PAIRS && n->nargs > 2) {
		/* keys and values go round */
		t->bytes = kernel_bytes(f->m, ir_args(f->m, n)[1]) +
				kernel_bytes(f->m, ir_args(f->m, n)[2]);
	} else {
		/* a maximum and a sum, say, of each row */
		struct ir_type rows = fuse_rows(f, n);

		t->bytes += 8 * ir_most_elems(f->m, &rows);
	}
}

static void
add_work(struct fuse *f, uint32_t place, struct kernel_work *w)
{
	node_id id = f->nodes[place];
	const struct ir_node *n = ir_node(f->m, id);
	enum fuse_class class = fuse_class(f, id);
	double flops;

	if (n->region || n->callee) {
		return;
	}
	flops = ir_local_flops(f->m, n);
	w->flops += flops;
	if (class == FUSE_DOT) {
		dot_shape(f, n, &w->dot);
	} else if (class == FUSE_PAIRS) {
		pairs_shape(f, n, w, flops);
	}
	if (class == FUSE_TALK ||
	    (class != FUSE_ELEM && class != FUSE_SINK &&
	     ir_attr(f->m, n, IR_ATTR_ON))) {
		talk_of(f, id, &w->talk);
	}
}

/* ---- a group as a kernel ---- */

static enum kernel_kind
kind_of(const struct fuse *f, const struct fuse_group *g)
{
	bool sinks = false, indexed = false, moves = true;
	uint32_t i;

	switch (g->head) {
	case FUSE_DOT:
		return KERNEL_CONTRACTION;
	case FUSE_PAIRS:
		return KERNEL_ATTENTION;
	case FUSE_TALK:
		return KERNEL_COLLECTIVE;
	case FUSE_REGION:
		return KERNEL_REPEAT;
	case FUSE_CALL:
		return KERNEL_CALL;
	case FUSE_SCATTER:
		return KERNEL_MOVE;
	default:
		break;
	}
	for (i = 0; i < g->places.n; i++) {
		const struct ir_node *n = node_at(f, g->places.at[i]);

		sinks |= ir_is(n->op, IRF_SINK);
		indexed |= ir_is(n->op, IRF_INDEXED);
		moves &= ir_is(n->op, IRF_MOVES) || fuse_stores(n);
	}
	return f->updates && sinks ? KERNEL_OPTIMIZER
		: g->reduced || g->late ? KERNEL_ROWWISE
		: indexed || moves ? KERNEL_MOVE : KERNEL_MAP;
}

static void
add_place(struct fuse *f, uint32_t group, uint32_t place, struct kernel *k,
	  struct kernel_work *w)
{
	const struct ir_node *n = node_at(f, place);
	struct kernel_use u = { 0 };
	uint32_t i;

	VEC_PUSH(&f->tmp, &k->nodes, f->nodes[place]);
	add_inputs(f, group, place, k);
	add_work(f, place, w);
	for (i = 0; i < n->nresults; i++) {
		u.value = n->result + i;
		if (f->group_of[place] == group &&
		    fuse_is_wanted(f, group, u.value)) {
			u.bytes = kernel_bytes(f->m, u.value);
			VEC_PUSH(&f->tmp, &k->outputs, u);
		}
	}
}

#define KEEP(arena, v) \
	((v)->cap = (v)->n, \
	 (void)((v)->at = (v)->n ? arena_dup((arena), (v)->at, \
		(v)->n * sizeof *(v)->at) : NULL))

/* Without the room of its lists, which the next one takes. */
static void
keep_kernel(struct fuse *f, const struct kernel *made, struct kernel *k)
{
	*k = *made;
	KEEP(f->a, &k->nodes);
	KEEP(f->a, &k->inputs);
	KEEP(f->a, &k->outputs);
}

static void
add_crossing(struct fuse *f, uint32_t group, const struct kernel *k,
	     struct kernel_work *w)
{
	const struct fuse_group *g = &f->groups[group];
	uint32_t i;

	for (i = 0; i < g->places.n; i++) {
		if (fuse_class(f, f->nodes[g->places.at[i]]) == FUSE_SINK) {
			add_sink(f, g->places.at[i], group, w);
		}
	}
	for (i = 0; i < k->inputs.n; i++) {
		w->read_bytes += k->inputs.at[i].bytes;
	}
	for (i = 0; i < k->outputs.n; i++) {
		w->write_bytes += k->outputs.at[i].bytes;
	}
}

void
fuse_count(struct fuse *f, uint32_t group, struct kernel *out)
{
	const struct fuse_group *g = &f->groups[group];
	struct kernel_work *w = arena_alloc(f->shared, sizeof *w);
	struct kernel *k = &f->making_one;
	uint32_t i;

	k->kind = kind_of(f, g);
	k->nodes.n = k->inputs.n = k->outputs.n = 0;
	k->work = w;
	w->shape = g->space;
	k->ncopies = g->copies.n;
	for (i = 0; i < g->copies.n; i++) {
		add_place(f, group, g->copies.at[i], k, w);
	}
	for (i = 0; i < g->places.n; i++) {
		add_place(f, group, g->places.at[i], k, w);
	}
	if (k->kind != KERNEL_REPEAT && k->kind != KERNEL_CALL) {
		add_crossing(f, group, k, w);
	}
	keep_kernel(f, k, out);
}

/*
 * The kernel of a group: what it reads, writes and computes.  All that follows
 * from lengths of dims is counts of f->counts, so that the rest can be kept as
 * a template for other lengths.
 */
#include "passes/kernels/fuse.h"

#include <string.h>

static count_id
bytes_of(struct fuse *f, value_id v)
{
	return ir_count_type(&f->counts, ir_type(f->m, v));
}

static void
add_to(struct fuse *f, count_id *sum, count_id v)
{
	*sum = ir_count_add(&f->counts, *sum, v);
}

static const struct ir_node *
node_at(const struct fuse *f, uint32_t place)
{
	return ir_node(f->m, f->nodes[place]);
}

/* ---- what is read and written ---- */

/*
 * The bytes that operand k of a node reads of `base`, which has `most` bytes.
 * A node that selects elements reads as many as it makes.
 */
static count_id
touched(struct fuse *f, const struct ir_node *n, uint32_t k, value_id base,
	count_id most)
{
	struct ir_counts *c = &f->counts;
	value_id v = ir_args(f->m, n)[k];
	count_id bytes = v == base ? most
		: ir_count_least(c, most, bytes_of(f, v));

	if (k == 0 && n->nresults == 1 && ir_is(n->op, IRF_MOVES)) {
		count_id out = ir_count_elems(c, ir_type(f->m, n->result));

		return ir_count_least(c, bytes, ir_count_bytes(c, out,
			ir_type(f->m, v)->dtype));
	}
	return bytes;
}

/* Whether the group computes that place of another group again. */
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

/* Whether a use is by the group itself, or by one that has a copy of v. */
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
fuse_is_read_outside(struct fuse *f, uint32_t group, value_id v)
{
	return !fuse_all_uses(f, v, is_inside, &group);
}

static void
add_use(struct fuse *f, struct kernel *k, value_id base, count_id bytes,
	count_id most)
{
	struct kernel_use u = { .value = base };
	uint32_t i;

	for (i = 0; i < k->inputs.n; i++) {
		if (k->inputs.at[i].value == base) {
			add_to(f, &f->reading.at[i], bytes);
			f->reading.at[i] = ir_count_least(&f->counts, most,
				f->reading.at[i]);
			return;
		}
	}
	VEC_PUSH(&f->tmp, &k->inputs, u);
	VEC_PUSH(&f->tmp, &f->reading, bytes);
}

static void
add_inputs(struct fuse *f, uint32_t group, uint32_t place, struct kernel *k)
{
	const struct ir_node *n = node_at(f, place);
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		value_id base = fuse_operand(f, place, i)->base;

		if (base && !fuse_has(f, group, base)) {
			count_id most = bytes_of(f, base);

			add_use(f, k, base, touched(f, n, i, base, most),
				most);
		}
	}
}

/* ---- sinks ---- */

/*
 * Adds the traffic of a sink: a sum is read and written; a tensor is written,
 * unless the value is an output of the kernel anyway and so made in its place.
 */
static void
add_sink(struct fuse *f, uint32_t place, uint32_t group, struct fuse_work *w)
{
	const struct ir_node *n = node_at(f, place);
	value_id v = ir_args(f->m, n)[0];
	value_id base = fuse_operand(f, place, 0)->base;
	count_id bytes = bytes_of(f, v);
	node_id maker = base ? f->m->values.at[base].node : 0;

	if (fuse_stores(n)) {
		bool there = base && fuse_has(f, group, base) &&
			     fuse_is_read_outside(f, group, base);

		add_to(f, &w->write, there ? 0 : bytes);
		return;
	}
	/* a sum by index touches as many elements as it adds */
	if (maker && fuse_class(f, maker) == FUSE_SCATTER &&
	    fuse_has(f, group, base)) {
		bytes = ir_count_least(&f->counts, bytes, bytes_of(f,
			ir_args(f->m, ir_node(f->m, maker))[0]));
	}
	add_to(f, &w->read, bytes);
	add_to(f, &w->write, bytes);
}

/* ---- shapes ---- */

static count_id
size_in(struct fuse *f, const struct ir_node *n, const struct ir_factor *x)
{
	struct ir_counts *c = &f->counts;
	const struct ir_type *t = ir_type(f->m, n->result);
	count_id v = IR_COUNT_ONE;
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
				v = ir_count_mul(c, v, ir_count_len(c,
					x->dims[i], t->cut[j]));
			}
		}
	}
	return v;
}

/* Ranks among which rows of the value are distributed by index. */
static count_id
routed_ranks(struct fuse *f, value_id v)
{
	return ir_count_ranks(&f->counts, ir_type(f->m, v)->routed);
}

/* Of routed rows a rank has a share: of m, if the result is, else of k. */
static void
share_routed_rows(struct fuse *f, const struct ir_node *n, value_id a,
		  struct fuse_work *w)
{
	struct ir_counts *c = &f->counts;
	count_id out = routed_ranks(f, n->result);

	w->dot.m = ir_count_shares(c, w->dot.m, out);
	w->dot.k = ir_count_shares(c, w->dot.k,
				   ir_count_unless(c, out, routed_ranks(f, a)));
}

/*
 * A factor of both operands and the result belongs to the batch, one of an
 * operand and the result to m or n, any other to k.  The factor `of` is the
 * matrices that rows choose from; factors of the index alone belong to m.
 */
static void
set_dot_shape(struct fuse *f, const struct ir_node *n, struct fuse_work *w)
{
	uint32_t a = UINT32_MAX, b = 0, k;
	struct ir_rule r;

	ir_bind(f->m, n, &r);
	w->dot.batch = w->dot.m = w->dot.n = w->dot.k = w->dot.groups =
		IR_COUNT_ONE;
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
		count_id *to = strcmp(x->name, "of") == 0 ? &w->dot.groups
			: in_a && in_b && x->out ? &w->dot.batch
			: in_b && x->out ? &w->dot.n
			: x->out ? &w->dot.m : &w->dot.k;

		*to = ir_count_mul(&f->counts, *to, size_in(f, n, x));
	}
	share_routed_rows(f, n, ir_args(f->m, n)[a], w);
}

static count_id
factor_size(struct fuse *f, const struct ir_node *n, const struct ir_rule *r,
	    const char *name)
{
	const struct ir_factor *x = ir_rule_factor(r, name);

	return x ? size_in(f, n, x) : 0;
}

/*
 * The shape of attention.  Some nodes of its backward lack d or v; pairs follow
 * from one that has both.
 */
static void
set_attention_shape(struct fuse *f, const struct ir_node *n,
		    struct fuse_work *w, count_id flops)
{
	struct kernel_attention *like = arena_alloc(&f->tmp, sizeof *like);
	struct ir_counts *c = &f->counts;
	struct fuse_attention *t = w->attention;
	struct ir_rule r;
	count_id d, v, two;
	int64_t expect;

	if (!t) {
		w->attention = t = arena_alloc(&f->tmp, sizeof *t);
	}
	ir_bind(f->m, n, &r);
	t->batch = factor_size(f, n, &r, "B");
	t->heads = factor_size(f, n, &r, "h");
	t->kv = factor_size(f, n, &r, "k");
	t->s = factor_size(f, n, &r, "s");
	t->t = factor_size(f, n, &r, "t");
	d = factor_size(f, n, &r, "d");
	v = factor_size(f, n, &r, "v");
	t->d = d ? d : t->d;
	t->v = v ? v : t->v;
	if (d && v && flops) {
		two = ir_count_number(c, 2);
		d = ir_count_add(c, d, v);
		t->pairs = ir_count_div(c, flops, ir_count_mul(c, two, d));
	}
	like->causal = ir_attr(f->m, n, IR_ATTR_CAUSAL);
	like->window = ir_attr_int(f->m, n, IR_ATTR_WINDOW, 0);
	expect = ir_attr_int(f->m, n, IR_ATTR_EXPECT, 0);
	if (expect > 0 && (!like->window || expect < like->window)) {
		like->window = expect;
	}
	w->like.attention = like;
}

/*
 * A node that computes and communicates exchanges 8 bytes of each row, such as
 * a maximum and a sum in f32.
 */
static void
add_row_bytes(struct fuse *f, const struct ir_node *n, count_id *bytes)
{
	struct ir_type rows = fuse_rows(f, n);
	struct ir_counts *c = &f->counts;
	count_id elems = ir_count_elems(c, &rows), each = ir_count_number(c, 8);

	add_to(f, bytes, ir_count_mul(c, each, elems));
}

/* The axes of the node's communication, and its bytes. */
static void
set_coll(struct fuse *f, node_id id, struct fuse_work *w)
{
	const struct ir_node *n = ir_node(f->m, id);
	const struct ir_attr *on = ir_attr(f->m, n, IR_ATTR_ON);
	struct kernel_coll *t = &w->like.coll;
	const value_id *args = ir_args(f->m, n);
	count_id a, b;
	uint32_t i;

	for (i = 0; on && i < on->ndims; i++) {
		t->axes |= (uint32_t)1 << on->dims[i];
	}
	t->op = n->op;
	if (fuse_class(f, id) == FUSE_COMM) {
		a = n->nargs ? bytes_of(f, args[0]) : 0;
		b = n->nresults ? bytes_of(f, n->result) : 0;
		w->coll = ir_count_most(&f->counts, a, b);
		t->n = 1;
	} else if (fuse_class(f, id) == FUSE_PAIRS && n->nargs > 2) {
		/* a ring passes on keys and values */
		a = bytes_of(f, args[1]);
		b = bytes_of(f, args[2]);
		w->coll = ir_count_add(&f->counts, a, b);
	} else {
		add_row_bytes(f, n, &w->coll);
	}
}

static void
add_work(struct fuse *f, uint32_t place, struct fuse_work *w)
{
	node_id id = f->nodes[place];
	const struct ir_node *n = ir_node(f->m, id);
	enum fuse_class class = fuse_class(f, id);
	count_id flops;

	if (n->region || n->callee) {
		return;
	}
	flops = ir_count_flops(&f->counts, f->m, n);
	add_to(f, &w->flops, flops);
	if (class == FUSE_DOT) {
		set_dot_shape(f, n, w);
	} else if (class == FUSE_PAIRS) {
		set_attention_shape(f, n, w, flops);
	}
	/* what comes out of another node's pass comes out of its ring or
	 * exchange, too */
	if (class == FUSE_COMM ||
	    (class != FUSE_ELEM && class != FUSE_SINK &&
	     ir_attr(f->m, n, IR_ATTR_ON) && (flops || !w->coll))) {
		set_coll(f, id, w);
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
	case FUSE_COMM:
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
		/* one that an index is all of compares with it */
		indexed |= ir_is(n->op, IRF_INDEXED) && n->nargs > 1;
		moves &= ir_is(n->op, IRF_MOVES) || fuse_stores(n);
	}
	return f->updates && sinks ? KERNEL_OPTIMIZER
		: g->reduced || g->needs_all ? KERNEL_ROWWISE
		: indexed || moves ? KERNEL_MOVE : KERNEL_MAP;
}

/*
 * Whether the value, of the node at that place, lies in memory: for other
 * groups, or since communication writes it, though nothing here reads it.
 */
static bool
is_written(struct fuse *f, uint32_t group, uint32_t place, value_id v)
{
	return f->group_of[place] == group &&
	       (fuse_is_read_outside(f, group, v) ||
		(!f->uses[v] && fuse_communicates(f, f->nodes[place])));
}

/* Of what is changed in place the rows that are put in, in its type. */
static count_id
kept_bytes(struct fuse *f, const struct ir_node *n)
{
	count_id rows = ir_count_elems(&f->counts, ir_type(f->m,
					ir_args(f->m, n)[0]));

	return ir_count_bytes(&f->counts, rows,
			      ir_type(f->m, n->result)->dtype);
}

static void
add_place(struct fuse *f, uint32_t group, uint32_t place, struct kernel *k,
	  struct fuse_work *w)
{
	const struct ir_node *n = node_at(f, place);
	struct kernel_use u = { 0 };
	uint32_t i;

	VEC_PUSH(&f->tmp, &k->nodes, f->nodes[place]);
	add_inputs(f, group, place, k);
	add_work(f, place, w);
	for (i = 0; i < n->nresults; i++) {
		u.value = n->result + i;
		if (is_written(f, group, place, u.value)) {
			VEC_PUSH(&f->tmp, &k->outputs, u);
			VEC_PUSH(&f->tmp, &f->writing,
				 ir_is(n->op, IRF_KEEPS) ? kept_bytes(f, n)
				 : bytes_of(f, u.value));
		}
	}
}

/* A copy of f->making_one, whose lists the next kernel reuses. */
static void
keep_kernel(struct fuse *f, const struct kernel *made, struct kernel *k)
{
	*k = *made;
	FUSE_KEEP(&f->tmp, &k->nodes);
	FUSE_KEEP(&f->tmp, &k->inputs);
	FUSE_KEEP(&f->tmp, &k->outputs);
}

/* The total bytes that the kernel reads and writes. */
static void
add_traffic(struct fuse *f, uint32_t group, struct fuse_work *w)
{
	const struct fuse_group *g = &f->groups[group];
	uint32_t i;

	for (i = 0; i < g->places.n; i++) {
		if (fuse_class(f, f->nodes[g->places.at[i]]) == FUSE_SINK) {
			add_sink(f, g->places.at[i], group, w);
		}
	}
	for (i = 0; i < f->reading.n; i++) {
		add_to(f, &w->read, f->reading.at[i]);
	}
	for (i = 0; i < f->writing.n; i++) {
		add_to(f, &w->write, f->writing.at[i]);
	}
}

static void
keep_uses(struct fuse *f, struct fuse_work *w)
{
	uint32_t i;

	w->uses = f->uses_bytes.n;
	for (i = 0; i < f->reading.n; i++) {
		VEC_PUSH(&f->tmp, &f->uses_bytes, f->reading.at[i]);
	}
	for (i = 0; i < f->writing.n; i++) {
		VEC_PUSH(&f->tmp, &f->uses_bytes, f->writing.at[i]);
	}
}

void
fuse_count(struct fuse *f, uint32_t group, struct kernel *out)
{
	const struct fuse_group *g = &f->groups[group];
	struct fuse_work *w = arena_alloc(&f->tmp, sizeof *w);
	struct kernel *k = &f->making_one;
	uint32_t i;

	k->kind = kind_of(f, g);
	k->nodes.n = k->inputs.n = k->outputs.n = 0;
	f->reading.n = f->writing.n = 0;
	k->work = &w->like;
	w->like.sums = g->needs_all;
	w->like.shape = arena_dup(&f->tmp, &g->space, sizeof g->space);
	k->ncopies = g->copies.n;
	for (i = 0; i < g->copies.n; i++) {
		add_place(f, group, g->copies.at[i], k, w);
	}
	for (i = 0; i < g->places.n; i++) {
		add_place(f, group, g->places.at[i], k, w);
	}
	if (k->kind != KERNEL_REPEAT && k->kind != KERNEL_CALL) {
		add_traffic(f, group, w);
	}
	keep_uses(f, w);
	keep_kernel(f, k, out);
}

/* ---- all of them ---- */

#define EMPTY(v) ((v)->n = (v)->cap = 0, (void)((v)->at = NULL))

void
fuse_open_counts(struct fuse *f)
{
	f->making_one = (struct kernel){ 0 };
	EMPTY(&f->reading);
	EMPTY(&f->writing);
	EMPTY(&f->uses_bytes);
	ir_counts_open(&f->counts, &f->tmp);
}

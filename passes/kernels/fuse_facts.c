/*
 * The class of each node, by the facts of its op in ops.def: whether it needs a
 * kernel, and of which kind.
 */
#include "passes/kernels/fuse.h"

#include <string.h>

double
kernel_bytes(const struct ir_module *m, value_id v)
{
	const struct ir_type *t = ir_type(m, v);

	return ir_most_elems(m, t) * ir_elem_bytes(t->dtype);
}

static bool
reserves_all_rows(const struct ir_module *m)
{
	const struct ir_setting *s = ir_setting(m, "memory.routed");

	return s && s->kind == SET_WORD &&
	       strcmp(ir_text(m->ctx, s->text), "all") == 0;
}

double
kernel_reserved_bytes(const struct ir_module *m, value_id v)
{
	struct ir_type t = *ir_type(m, v);

	if (t.routed && reserves_all_rows(m)) {
		t.routed = 0;
	}
	return ir_most_elems(m, &t) * ir_elem_bytes(t.dtype);
}

bool
fuse_reaches(struct fuse *f, const value_id *v, uint32_t n, uint32_t times,
	     value_id than)
{
	struct fuse_question q = { f->terms.n, n, times, than, false };
	double bytes = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		bytes += kernel_bytes(f->m, v[i]);
		VEC_PUSH(&f->tmp, &f->terms, v[i]);
	}
	q.yes = bytes >= times * kernel_bytes(f->m, than);
	VEC_PUSH(&f->tmp, &f->asked, q);
	return q.yes;
}

/* ---- spaces ---- */

bool
fuse_covers(const struct ir_type *t, const struct ir_type *rows)
{
	uint32_t i, k;

	for (i = 0; i < rows->ndims; i++) {
		for (k = 0; k < t->ndims; k++) {
			if (t->dims[k] == rows->dims[i] &&
			    t->cut[k] == rows->cut[i]) {
				break;
			}
		}
		if (k == t->ndims) {
			return false;
		}
	}
	return true;
}

bool
fuse_same_space(const struct ir_type *a, const struct ir_type *b)
{
	return a->ndims == b->ndims && a->routed == b->routed &&
	       fuse_covers(a, b);
}

struct ir_type
fuse_rows(const struct fuse *f, const struct ir_node *n)
{
	const struct ir_type *t = ir_type(f->m, ir_args(f->m, n)[0]);
	struct ir_type rows = { .routed = t->routed };
	const struct ir_factor *along;
	struct ir_rule r;
	uint32_t i, k;

	ir_bind(f->m, n, &r);
	along = ir_rule_factor(&r, "over");
	along = along ? along : ir_rule_factor(&r, "of");
	for (i = 0; i < t->ndims; i++) {
		for (k = 0; along && k < along->n; k++) {
			if (along->dims[k] == t->dims[i]) {
				break;
			}
		}
		if (!along || k == along->n) {
			rows.dims[rows.ndims] = t->dims[i];
			rows.cut[rows.ndims++] = t->cut[i];
		}
	}
	return rows;
}

bool
fuse_needs_all(const struct fuse *f, const struct ir_node *n)
{
	const struct ir_type *out = ir_type(f->m, n->result);
	const struct ir_type *in = ir_type(f->m, ir_args(f->m, n)[0]);

	if (n->nargs != 1 || ir_ops[n->op].recompute != IR_RC_ROW ||
	    out->ndims >= in->ndims) {
		return false;
	}
	return out->ndims == 0 ||
	       (!ir_type_has(out, in->dims[0]) &&
		ir_type_has(out, in->dims[in->ndims - 1]));
}

/* ---- views ---- */

const double *
fuse_lens(struct fuse *f)
{
	if (f->nlens < f->lens.at.n) {
		f->nlens = f->lens.at.n;
		f->len = arena_alloc_raw(&f->bench, f->nlens * sizeof *f->len);
		ir_counts_run(f->m, f->lens.at.at, f->nlens, f->len);
	}
	return f->len;
}

/* Whether the result has no more elements than the operand. */
static bool
selects_elems(struct fuse *f, const struct ir_node *n)
{
	const struct ir_type *in = ir_type(f->m, ir_args(f->m, n)[0]);
	struct fuse_view v = { .in = ir_count_elems(&f->lens, in) };
	const double *len;
	uint32_t i;

	v.out = ir_count_elems(&f->lens, ir_type(f->m, n->result));
	for (i = 0; i < f->views.n; i++) {
		const struct fuse_view *had = &f->views.at[i];

		if (had->in == v.in && had->out == v.out) {
			return had->fits;
		}
	}
	len = fuse_lens(f);
	v.fits = len[v.out] <= len[v.in];
	VEC_PUSH(f->scratch, &f->views, v);
	return v.fits;
}

/* Whether v is a weight stored rounded that kernels widen as they load it. */
static bool
is_widened(const struct fuse *f, value_id v)
{
	return ir_node(f->m, f->m->values.at[v].node)->op == IR_CAST &&
	       ir_rounded_weight(f->m, v);
}

/* Whether the node looks up rows of v. */
static bool
looks_up(const struct fuse *f, const struct ir_node *n, value_id v)
{
	return n->op == IR_GATHER && ir_args(f->m, n)[0] == v;
}

static bool
could_be_view(struct fuse *f, node_id id)
{
	const struct ir_node *n = ir_node(f->m, id);
	const struct ir_op_info *op = &ir_ops[n->op];

	if (n->nargs != 1 || n->nresults != 1 || (op->flags & IRF_INDEXED)) {
		return false;
	}
	if (op->flags & IRF_MAP) {	/* the identity */
		return op->bytes[0] == '\0' || is_widened(f, n->result);
	}
	if (op->flags & IRF_CONVERTS) {	/* a local piece */
		return !(op->flags & IRF_COMM) &&
		       ir_op_takes(n->op, IR_ATTR_OF);
	}
	if (!(op->flags & IRF_MOVES)) {
		return false;
	}
	/* a scatter into a larger dim writes zeros, too */
	return !ir_op_takes(n->op, IR_ATTR_AT) || selects_elems(f, n);
}

bool
fuse_classes_hold(struct fuse *f)
{
	const double *len = fuse_lens(f);
	uint32_t i;

	for (i = 0; i < f->views.n; i++) {
		const struct fuse_view *v = &f->views.at[i];

		if (v->fits != (len[v->out] <= len[v->in])) {
			return false;
		}
	}
	return true;
}

/* Whether the elements of a view are contiguous, so any kernel can read it. */
static bool
is_contiguous(const struct fuse *f, const struct ir_node *n)
{
	const struct ir_type *in = ir_type(f->m, ir_args(f->m, n)[0]);
	const struct ir_type *out = ir_type(f->m, n->result);
	uint32_t skip = in->ndims - out->ndims, i;

	if (in->ndims == 0 || out->ndims > in->ndims || skip > 1) {
		return false;
	}
	for (i = skip ? 0 : 1; i < out->ndims; i++) {
		if (in->dims[i + skip] != out->dims[i] ||
		    in->cut[i + skip] != out->cut[i]) {
			return false;
		}
	}
	return true;
}

/* Tensor cores load rows: the last dim must stay the last. */
static bool
keeps_last(const struct fuse *f, const struct ir_node *n)
{
	const struct ir_type *in = ir_type(f->m, ir_args(f->m, n)[0]);
	const struct ir_type *out = ir_type(f->m, n->result);

	return in->ndims == 0 || out->ndims == 0 ||
	       in->dims[in->ndims - 1] == out->dims[out->ndims - 1];
}

/*
 * Whether dims that a contraction sums over follow each other in what the view
 * is of, as they do in the view: rows of the left operand are packed along
 * them, and one number at a time would take longer than a copy.
 */
static bool
keeps_summed(const struct fuse *f, const struct ir_node *n,
	     const struct ir_node *view)
{
	const struct ir_type *in = ir_type(f->m, ir_args(f->m, view)[0]);
	const struct ir_type *out = ir_type(f->m, view->result);
	const struct ir_attr *over = ir_attr(f->m, n, IR_ATTR_OVER);
	uint32_t i;
	int at;

	if (view->op != IR_ARRANGE || !over) {
		return true;
	}
	for (i = 0; i + 1 < out->ndims; i++) {
		at = ir_type_at(in, out->dims[i]);
		if (ir_attr_has(over, out->dims[i]) &&
		    ir_attr_has(over, out->dims[i + 1]) &&
		    ir_type_at(in, out->dims[i + 1]) != at + 1) {
			return false;
		}
	}
	return true;
}

static bool
is_map(struct fuse *f, node_id user, value_id v, void *unused)
{
	(void)v;
	(void)unused;
	return fuse_class(f, user) == FUSE_ELEM ||
	       fuse_class(f, user) == FUSE_ROW ||
	       fuse_class(f, user) == FUSE_SINK;
}

/* Whether the user of v can read it as a view or constant, without a copy. */
static bool
reads_view(struct fuse *f, node_id user, value_id v, void *unused)
{
	const struct ir_node *n = ir_node(f->m, user);
	const struct ir_node *view =
		ir_node(f->m, f->m->values.at[v].node);

	(void)unused;
	if (is_widened(f, v)) {
		return fuse_class(f, user) == FUSE_DOT || looks_up(f, n, v);
	}
	switch (fuse_class(f, user)) {
	case FUSE_ELEM:
	case FUSE_ROW:
	case FUSE_SCATTER:
	case FUSE_SINK:
		return true;
	case FUSE_DOT:
		return view->nargs > 0 && !f->constant[v] &&
		       keeps_last(f, view) && keeps_summed(f, n, view);
	case FUSE_PAIRS:
		return view->nargs > 0 && !f->constant[v] &&
		       keeps_last(f, view);
	case FUSE_FREE:
		return !ir_is(n->op, IRF_SINK) &&
		       (f->constant[v] || is_contiguous(f, view) ||
			fuse_all_uses(f, n->result, is_map, NULL));
	case FUSE_COMM:
		return view->nargs > 0 && !f->constant[v] &&
		       is_contiguous(f, view);
	default:
		return false;
	}
}

bool
fuse_all_uses(struct fuse *f, value_id v,
	      bool (*yes)(struct fuse *, node_id, value_id, void *),
	      void *user_data)
{
	uint32_t i;

	if (f->escapes[v]) {
		return false;
	}
	for (i = f->uses[v]; i; i = f->links.at[i - 1].next) {
		node_id user = f->links.at[i - 1].user;

		if (!yes(f, user, v, user_data)) {
			return false;
		}
	}
	return true;
}

value_id
fuse_base(const struct fuse *f, value_id v, bool *moved)
{
	bool unused;

	moved = moved ? moved : &unused;
	*moved = false;
	for (;;) {
		node_id id = f->m->values.at[v].node;
		const struct ir_node *n = ir_node(f->m, id);

		if (!id || f->class[id] != FUSE_FREE) {
			return v;
		}
		if (f->constant[v]) {
			return 0;
		}
		if (n->nargs == 0) {
			return v;
		}
		v = ir_args(f->m, n)[0];
		*moved |= !fuse_same_space(ir_type(f->m, v),
					   ir_type(f->m, n->result));
	}
}

/* ---- classes ---- */

static enum fuse_class
class_of(enum ir_op id)
{
	const struct ir_op_info *op = &ir_ops[id];

	if (op->flags & IRF_REGION) {
		return FUSE_REGION;
	}
	if (op->flags & IRF_CALLS) {
		return FUSE_CALL;
	}
	if (op->flags & (IRF_COMM | IRF_PEER)) {
		return FUSE_COMM;
	}
	if (op->flags & IRF_SINK) {
		return op->flags & IRF_STASH ? FUSE_FREE : FUSE_SINK;
	}
	if (op->flags & IRF_SOURCE) {	/* only a mask is computed */
		return ir_op_takes(id, IR_ATTR_RATE) ? FUSE_ELEM : FUSE_FREE;
	}
	if (op->flags & IRF_PAIRS) {
		return FUSE_PAIRS;
	}
	if (op->flags & IRF_CONTRACTS) {
		return FUSE_DOT;
	}
	if (op->flags & IRF_ROWWISE) {
		return op->recompute == IR_RC_CHEAP ? FUSE_ELEM : FUSE_ROW;
	}
	if (op->flags & IRF_KEEPS || (op->flags & IRF_MOVES && op->flops[0])) {
		return FUSE_SCATTER;
	}
	return FUSE_ELEM;
}

/* The class of a node that is neither a view nor a constant. */
static enum fuse_class
work_class(struct fuse *f, const struct ir_node *n)
{
	uint8_t *class = &f->op_class[n->op];

	if (!*class) {
		*class = (uint8_t)class_of((enum ir_op)n->op) + 1;
	}
	return (enum fuse_class)(*class - 1);
}

/* Frees views and constants, from last to first, so that users come first. */
static void
find_views(struct fuse *f, region_id r)
{
	uint32_t i;

	for (i = f->m->regions.at[r].nodes.n; i-- > 0; ) {
		node_id id = f->m->regions.at[r].nodes.at[i];
		const struct ir_node *n = ir_node(f->m, id);
		value_id v = n->result;

		if (n->region) {
			find_views(f, n->region);
			continue;
		}
		if (n->nresults != 1 || !(f->constant[v] ||
					  could_be_view(f, id))) {
			continue;
		}
		f->class[id] = fuse_all_uses(f, v, reads_view, NULL)
			? FUSE_FREE : FUSE_ELEM;
	}
}

/* Whether the result is known at compile time. */
static bool
is_constant(const struct fuse *f, const struct ir_node *n,
	    enum fuse_class class)
{
	uint32_t i;

	if (n->nresults != 1) {
		return false;
	}
	if (n->nargs == 0) {
		return ir_op_takes(n->op, IR_ATTR_VALUE) != IR_TAKES_NOT;
	}
	if (class != FUSE_ELEM || !ir_is(n->op, IRF_MAP | IRF_MOVES)) {
		return false;
	}
	for (i = 0; i < n->nargs; i++) {
		if (!f->constant[ir_args(f->m, n)[i]]) {
			return false;
		}
	}
	return true;
}

static void
classify_by_op(struct fuse *f, region_id r)
{
	uint32_t i;

	for (i = 0; i < f->m->regions.at[r].nodes.n; i++) {
		node_id id = f->m->regions.at[r].nodes.at[i];
		const struct ir_node *n = ir_node(f->m, id);
		enum fuse_class class = work_class(f, n);

		f->class[id] = (uint8_t)class;
		if (is_constant(f, n, class)) {
			f->constant[n->result] = true;
		}
		if (n->region) {
			classify_by_op(f, n->region);
		}
	}
}

void
fuse_classify(struct fuse *f, region_id r)
{
	classify_by_op(f, r);
	find_views(f, r);
}

/* ---- values of kernels ---- */

static bool
in_uses(const struct kernel_use *at, uint32_t n, value_id v)
{
	uint32_t i;

	for (i = 0; i < n && at[i].value != v; i++) {
	}
	return i < n;
}

bool
kernel_reads(const struct kernel *k, value_id v)
{
	return in_uses(k->inputs.at, k->inputs.n, v);
}

bool
kernel_makes(const struct kernel *k, value_id v)
{
	return in_uses(k->outputs.at, k->outputs.n, v);
}

bool
kernel_has_node(const struct kernel *k, node_id id)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n && k->nodes.at[i] != id; i++) {
	}
	return i < k->nodes.n;
}

bool
kernel_needs(const struct kernel *k, const struct kernel *maker)
{
	uint32_t i;

	for (i = 0; i < maker->outputs.n &&
	     !kernel_reads(k, maker->outputs.at[i].value); i++) {
	}
	return i < maker->outputs.n;
}

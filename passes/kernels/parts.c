/*
 * Kernels in parts.  A collective and a contraction, the one that makes its
 * operand or the one that reads its result, can both run a few rows at a time,
 * so that one part is computed while another is communicated.  This file says
 * which pairs can, and what a part is; price_parts.c chooses their number.
 *
 * A part is an equal share of the outermost positions of every value that has
 * them, so it is contiguous in the whole and nothing is copied.  It is the same
 * kernel over shorter dims, and computes the same numbers.
 */
#include "passes/kernels/kernels.h"

#include <string.h>

/* ---- which dims, by how much ---- */

/* Ranks that share a dim; 0 if their shares are not equal runs. */
static int64_t
equal_shares(const struct ir_module *m, uint32_t cut)
{
	int64_t n = 1;

	for (; cut; cut >>= 4) {
		const struct ir_axis *a = &m->axes.at[cut & 15];

		n = a->balanced ? 0 : n * a->size;
	}
	return n;
}

/* Cuts the outermost dims of a type, until there are n parts. */
static bool
cut_outermost(const struct ir_module *m, const struct ir_type *t, uint32_t n,
	      struct kernel_parts *out)
{
	int64_t left = n;
	uint32_t i;

	*out = (struct kernel_parts){ .n = n };
	for (i = 0; i < t->ndims && left > 1; i++) {
		int64_t size = ir_dim_size(m, t->dims[i]);
		int64_t ranks = equal_shares(m, t->cut[i]), here, by;

		if (!ranks || size % ranks != 0) {
			return false;
		}
		here = size / ranks;
		by = here < left ? here : left;
		if (here % by != 0 || left % by != 0) {
			return false;
		}
		if (by > 1) {
			out->at[out->ndims].dim = t->dims[i];
			out->at[out->ndims].cut = t->cut[i];
			out->at[out->ndims++].by = by;
		}
		left /= by;
	}
	return left == 1;
}

/* Whether any of the dims is one that is cut into parts. */
static bool
has_cut_dim(const dim_id *dims, uint32_t n, const struct kernel_parts *p)
{
	uint32_t i, k;

	for (i = 0; i < n; i++) {
		for (k = 0; k < p->ndims; k++) {
			if (dims[i] == p->at[k].dim) {
				return true;
			}
		}
	}
	return false;
}

/* Whether a part has a share of a value of that type. */
static bool
has_share(const struct ir_type *t, const struct kernel_parts *p)
{
	return has_cut_dim(t->dims, t->ndims, p);
}

/* Whether a part of it is contiguous: those dims are outermost. */
static bool
is_contiguous_part(const struct ir_module *m, const struct ir_type *t,
		   const struct kernel_parts *p)
{
	uint32_t i, k = 0;

	for (i = 0; i < t->ndims && k < p->ndims; i++) {
		int64_t here = ir_most(m, ir_dim_size(m, t->dims[i]),
				       t->cut[i]);

		if (t->dims[i] == p->at[k].dim) {
			if (t->cut[i] != p->at[k].cut ||
			    (k + 1 < p->ndims && here != p->at[k].by)) {
				return false;
			}
			k++;
		} else if (here != 1) {
			return false;
		}
	}
	return k == p->ndims;
}

/* ---- which kernels ---- */

/* Whether a node treats all positions of those dims alike. */
static bool
treats_alike(struct ir_module *m, const struct ir_node *n,
	     const struct kernel_parts *p)
{
	const struct ir_attr *a = m->attrs.at + n->attrs;
	struct ir_rule r;
	uint32_t i;

	if (n->nargs == 0 || n->nresults != 1 || ir_is(n->op, IRF_PAIRS)) {
		return false;
	}
	for (i = 0; i < n->nattrs; i++) {
		if (ir_attrs[a[i].key].kind != ATTR_AXES &&
		    has_cut_dim(a[i].dims, a[i].ndims, p)) {
			return false;
		}
	}
	ir_bind(m, n, &r);
	for (i = 0; i < r.nf; i++) {
		if (!r.f[i].out && has_cut_dim(r.f[i].dims, r.f[i].n, p)) {
			return false;
		}
	}
	return true;
}

/* The same of all views from a value to an input or node of the kernel. */
static bool
views_treat_alike(struct ir_module *m, const struct kernel *k, value_id v,
		  const struct kernel_parts *p)
{
	while (!kernel_reads(k, v) &&
	       has_share(ir_type(m, v), p)) {
		node_id id = m->values.at[v].node;
		const struct ir_node *n = ir_node(m, id);

		if (kernel_has_node(k, id)) {
			return true;
		}
		if (!id || n->nargs != 1 || !treats_alike(m, n, p)) {
			return false;
		}
		v = ir_args(m, n)[0];
	}
	return true;
}

/*
 * Whether a kernel can run in those parts: it neither sums over the positions
 * that are cut nor draws masks by them.
 */
static bool
can_run_in(struct ir_module *m, const struct kernel *k,
	   const struct kernel_parts *p)
{
	uint32_t i, j;

	for (i = 0; i < k->inputs.n; i++) {
		const struct ir_type *t = ir_type(m, k->inputs.at[i].value);

		if (has_share(t, p) && !is_contiguous_part(m, t, p)) {
			return false;
		}
	}
	for (i = 0; i < k->outputs.n; i++) {
		value_id v = k->outputs.at[i].value;

		if (!v || !is_contiguous_part(m, ir_type(m, v), p)) {
			return false;
		}
	}
	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, k->nodes.at[i]);

		if (!treats_alike(m, n, p)) {
			return false;
		}
		for (j = 0; j < n->nargs; j++) {
			if (!views_treat_alike(m, k, ir_args(m, n)[j], p)) {
				return false;
			}
		}
	}
	return true;
}

/* Whether k is one collective of a whole value, and nothing else. */
static bool
is_comm(const struct ir_module *m, const struct kernel *k)
{
	const struct ir_node *n = ir_node(m, k->nodes.at[0]);

	return k->kind == KERNEL_COLLECTIVE && k->nodes.n == 1 &&
	       k->inputs.n == 1 && k->outputs.n == 1 && !k->parts &&
	       ir_op_takes(n->op, IR_ATTR_CHUNKS) != IR_TAKES_NOT &&
	       ir_args(m, n)[0] == k->inputs.at[0].value;
}

static bool
is_dot(const struct kernel *k)
{
	return k->kind == KERNEL_CONTRACTION && !k->parts && !k->launch &&
	       k->work->dot.groups <= 1 && !k->work->coll.axes &&
	       k->ncopies == 0;
}

/* Whether it sums, so that a contraction comes before it, not after. */
static bool
adds_up(const struct ir_module *m, const struct kernel *k)
{
	return ir_type(m, k->inputs.at[0].value)->sum != 0;
}

static bool
ends_region(const struct kernel *k)
{
	return k->kind == KERNEL_REPEAT || k->kind == KERNEL_CALL;
}

bool
parts_pair(struct ir_module *m, const struct kernel_list *l, uint32_t coll,
	   uint32_t *dot)
{
	const struct kernel *k = &l->at.at[coll];
	uint32_t i;

	if (!is_comm(m, k)) {
		return false;
	}
	if (adds_up(m, k)) {
		*dot = coll - 1;
		return coll > 0 && is_dot(&l->at.at[coll - 1]) &&
		       kernel_makes(&l->at.at[coll - 1],
				    k->inputs.at[0].value);
	}
	for (i = coll + 1; i < l->at.n && !ends_region(&l->at.at[i]) &&
	     !kernel_needs(&l->at.at[i], k); i++) {
	}
	*dot = i;
	return k->until == 0 && i < l->at.n && is_dot(&l->at.at[i]);
}

bool
parts_cut(const struct ir_module *m, const struct kernel *coll, uint32_t n,
	  struct kernel_parts *out)
{
	return cut_outermost(m, ir_type(m, coll->inputs.at[0].value), n, out);
}

bool
parts_fit(struct ir_module *m, const struct kernel *coll,
	  const struct kernel *dot, const struct kernel_parts *p)
{
	value_id v = coll->outputs.at[0].value;

	return is_contiguous_part(m, ir_type(m, v), p) &&
	       can_run_in(m, dot, p);
}

/* The number of parts of the innermost of those dims does not matter. */
bool
parts_alike(const struct kernel_parts *a, const struct kernel_parts *b)
{
	uint32_t i;

	for (i = 0; i < a->ndims && a->ndims == b->ndims; i++) {
		if (a->at[i].dim != b->at[i].dim ||
		    a->at[i].cut != b->at[i].cut ||
		    (i + 1 < a->ndims && a->at[i].by != b->at[i].by)) {
			return false;
		}
	}
	return a->ndims == b->ndims;
}

bool
parts_of(struct ir_module *m, const struct kernel *coll,
	 const struct kernel *dot, uint32_t n, struct kernel_parts *out)
{
	return parts_cut(m, coll, n, out) && parts_fit(m, coll, dot, out);
}

void
parts_set(struct kernel_list *l, uint32_t coll, uint32_t dot,
	  const struct kernel_parts *p)
{
	l->at.at[coll].parts = l->at.at[dot].parts = p;
	l->at.at[coll < dot ? coll : dot].until = coll < dot ? dot : coll;
}

bool
parts_led(const struct kernel_list *l, uint32_t coll)
{
	const struct kernel *k = coll ? &l->at.at[coll - 1] : NULL;

	return k && k->kind != KERNEL_COLLECTIVE && k->parts &&
	       k->until == coll;
}

void
parts_clear(struct kernel_list *l, uint32_t coll, uint32_t dot)
{
	l->at.at[coll].parts = l->at.at[dot].parts = NULL;
	l->at.at[coll < dot ? coll : dot].until = 0;
}

bool
parts_read(struct ir_module *m, struct kernel_list *l)
{
	struct kernel_parts p;
	uint32_t i, dot;
	bool any = false;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];
		int64_t n = ir_attr_int(m, ir_node(m, k->nodes.at[0]),
					IR_ATTR_CHUNKS, 1);

		if (n > 1 && n <= KERNEL_MAX_PARTS &&
		    parts_pair(m, l, i, &dot) &&
		    parts_of(m, k, &l->at.at[dot], (uint32_t)n, &p)) {
			parts_set(l, i, dot, arena_dup(l->arena, &p,
						       sizeof p));
			any = true;
		}
	}
	return any;
}

/* ---- what a part is ---- */

static void
share_uses(const struct ir_module *m, struct arena *a,
	   const struct kernel_parts *p, const struct kernel_use *at,
	   uint32_t n, struct kernel_use **out, double *bytes)
{
	uint32_t i;

	*out = arena_alloc(a, (n + 1) * sizeof **out);
	for (i = 0; i < n; i++) {
		double by = has_share(ir_type(m, at[i].value), p) ? p->n : 1;

		(*out)[i] = at[i];
		(*out)[i].bytes /= by;
		*bytes += (*out)[i].bytes;
	}
}

static double
by_of(const struct kernel_parts *p, dim_id d)
{
	uint32_t i;

	for (i = 0; i < p->ndims && p->at[i].dim != d; i++) {
	}
	return i < p->ndims ? (double)p->at[i].by : 1;
}

/* Cut dims belong to m, to n or to the batch. */
static void
share_dot(struct ir_module *m, const struct ir_node *n,
	  const struct kernel_parts *p, struct kernel_dot *d)
{
	struct ir_rule r;
	uint32_t i, k;

	ir_bind(m, n, &r);
	for (i = 0; i < r.nf; i++) {
		double *to = r.f[i].in == 3 ? &d->batch
			: r.f[i].in == 2 ? &d->n : &d->m;

		for (k = 0; k < r.f[i].n; k++) {
			*to /= by_of(p, r.f[i].dims[k]);
		}
	}
}

void
parts_kernel(struct ir_module *m, const struct kernel *k, struct arena *a,
	     struct kernel *out)
{
	const struct kernel_parts *p = k->parts;
	struct kernel_work *work = arena_dup(a, k->work, sizeof *work);
	uint32_t i;

	*out = *k;
	out->parts = NULL;
	out->work = work;
	work->flops /= p->n;
	work->coll.bytes /= p->n;
	work->read_bytes = work->write_bytes = 0;
	share_uses(m, a, p, k->inputs.at, k->inputs.n, &out->inputs.at,
		   &work->read_bytes);
	share_uses(m, a, p, k->outputs.at, k->outputs.n, &out->outputs.at,
		   &work->write_bytes);
	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, k->nodes.at[i]);

		if (ir_is(n->op, IRF_CONTRACTS)) {
			share_dot(m, n, p, &work->dot);
		}
	}
}

bool
parts_has(const struct ir_module *m, const struct kernel *k, value_id v)
{
	return k->parts && has_share(ir_type(m, v), k->parts);
}

void
parts_open(struct ir_module *m, const struct kernel *k)
{
	const struct kernel_parts *p = k->parts;
	uint32_t i;

	for (i = 0; p && i < p->ndims; i++) {
		m->dims.at[p->at[i].dim].size /= p->at[i].by;
	}
}

void
parts_close(struct ir_module *m, const struct kernel *k)
{
	const struct kernel_parts *p = k->parts;
	uint32_t i;

	for (i = 0; p && i < p->ndims; i++) {
		m->dims.at[p->at[i].dim].size *= p->at[i].by;
	}
}

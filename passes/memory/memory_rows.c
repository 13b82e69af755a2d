/*
 * Which values have rows that lie apart.
 *
 * Tiles of an operand are copied 16 bytes at a time or more, by a GPU's copying
 * unit and by cp.async, only where each row of it begins at a multiple of 16
 * bytes.  Rows of logits over 50,257 words do not.  So what contractions read
 * and write is laid out with rows that begin at multiples of more bytes than an
 * element has (ir_row_pitch), and no code reads what is between them.  Rows of
 * a multiple of 16 bytes lie side by side.
 *
 * That is for values that kernels of one stage alone see: temps and saves.
 * Tensors lie as checkpoints have them; what ranks exchange, what repeats
 * carry and what functions return lies without gaps, as those copy it as a
 * whole.
 */
#include "passes/memory/memory.h"

#define ALIGNED 16	/* bytes */

enum {
	ROWS_DOT = 1,		/* a contraction reads or writes it */
	ROWS_DENSE = 2		/* its rows must not lie apart */
};

struct row_marks {
	const struct ir_module *m;
	uint8_t *of, *by_name;	/* by value; by name of a save */
	bool again;		/* a mark was passed on */
};

static void
mark(struct row_marks *x, const value_id *v, uint32_t n, uint8_t as)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		x->of[v[i]] |= as;
	}
}

static void
mark_results(struct row_marks *x, const struct ir_node *n, uint8_t as)
{
	uint32_t i;

	for (i = 0; i < n->nresults; i++) {
		x->of[n->result + i] |= as;
	}
}

/* ---- nodes ---- */

static bool
is_dense(const struct ir_node *n)
{
	return n->region || n->callee || ir_is(n->op, IRF_COMM | IRF_PEER) ||
	       (ir_is(n->op, IRF_SINK | IRF_SOURCE) &&
		!ir_is(n->op, IRF_STASH));
}

static void
mark_region(struct row_marks *x, region_id id)
{
	const struct ir_module *m = x->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i;

	mark(x, r->params.at, r->params.n, ROWS_DENSE);
	mark(x, r->results.at, r->results.n, ROWS_DENSE);
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		if (is_dense(n)) {
			mark(x, ir_args(m, n), n->nargs, ROWS_DENSE);
			mark_results(x, n, ROWS_DENSE);
		}
		if (n->region) {
			mark_region(x, n->region);
		}
	}
}

/* ---- kernels ---- */

static uint8_t
mark_of(const struct ir_module *m, const struct kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		enum ir_op op = ir_node(m, k->nodes.at[i])->op;

		/* of experts: an index selects rows */
		if (ir_is(op, IRF_CONTRACTS) && ir_is(op, IRF_INDEXED)) {
			return ROWS_DENSE;
		}
	}
	/* what is sent may be a contiguous part of what this reads */
	return k->parts || k->work->coll.axes ||
	       k->kind == KERNEL_COLLECTIVE || k->kind == KERNEL_ATTENTION
		? ROWS_DENSE : k->kind == KERNEL_CONTRACTION ? ROWS_DOT : 0;
}

static void
mark_kernels(struct row_marks *x, const struct kernel_list *l)
{
	uint32_t i, j;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];
		uint8_t as;

		if (k->body) {
			mark_kernels(x, k->body);
			continue;
		}
		if (k->kind == KERNEL_CALL) {
			continue;
		}
		as = mark_of(x->m, k);
		for (j = 0; j < k->inputs.n; j++) {
			x->of[k->inputs.at[j].value] |= as;
		}
		for (j = 0; j < k->outputs.n; j++) {
			x->of[k->outputs.at[j].value] |= as;
		}
	}
}

/* ---- saves ---- */

/* A save and all that is read by its name lie in one place. */
static void
pass_on(struct row_marks *x, region_id id)
{
	const struct ir_module *m = x->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);
		uint8_t *name, *value;

		if (n->region) {
			pass_on(x, n->region);
		}
		if (!ir_is(n->op, IRF_STASH)) {
			continue;
		}
		name = &x->by_name[ir_attr(m, n, IR_ATTR_NAME)->text];
		value = &x->of[n->nargs ? ir_args(m, n)[0] : n->result];
		x->again |= *name != *value;
		*name = *value = *name | *value;
	}
}

/* ---- all ---- */

static int64_t
most_of_row(const struct ir_module *m, const struct ir_type *t)
{
	return ir_most(m, ir_dim_size(m, t->dims[t->ndims - 1]),
		       t->cut[t->ndims - 1]);
}

/* Whether rows of some rank have gaps; not all may have as many elements.
 * Those of a multiple of 16 bytes need none. */
static bool
has_gaps(const struct ir_module *m, const struct ir_type *t)
{
	int64_t row = most_of_row(m, t), all = row;
	int64_t bits = row * ir_dtypes[t->dtype].bits;
	uint32_t cut;

	for (cut = t->cut[t->ndims - 1]; cut; cut >>= 4) {
		all *= m->axes.at[cut & 15].size;
	}
	return all != ir_dim_size(m, t->dims[t->ndims - 1]) ||
	       (bits % (8 * ALIGNED) != 0 &&
		ir_row_pitch((enum ir_dtype)t->dtype, row) != row);
}

bool *
memory_apart(const struct ir_module *m, struct kernels *const *all,
	     struct arena *a)
{
	struct row_marks x = { .m = m, .again = true };
	bool *apart = arena_alloc(a, m->values.n + 1);
	struct arena tmp;
	uint32_t v;
	func_id f;

	arena_init(&tmp, &m->ctx->mem);
	x.of = arena_alloc(&tmp, m->values.n + 1);
	x.by_name = arena_alloc(&tmp, m->ctx->syms.text.n + 1);
	for (f = 1; f < m->funcs.n; f++) {
		if (all[f]) {
			mark_region(&x, m->funcs.at[f].body);
			mark_kernels(&x, all[f]->top);
		}
	}
	while (x.again) {
		x.again = false;
		for (f = 1; f < m->funcs.n; f++) {
			if (all[f]) {
				pass_on(&x, m->funcs.at[f].body);
			}
		}
	}
	for (v = 1; v < m->values.n; v++) {
		const struct ir_type *t = ir_type(m, v);

		apart[v] = x.of[v] == ROWS_DOT && t->ndims > 1 &&
			   !t->routed && has_gaps(m, t);
	}
	arena_release(&tmp);
	return apart;
}

double
memory_value_bytes(const struct ir_module *m, const bool *apart, value_id v)
{
	double bytes = kernel_reserved_bytes(m, v);
	const struct ir_type *t = ir_type(m, v);
	int64_t row;

	if (!apart[v] || bytes == 0) {
		return bytes;
	}
	row = most_of_row(m, t);
	return bytes / (double)row *
	       (double)ir_row_pitch((enum ir_dtype)t->dtype, row);
}

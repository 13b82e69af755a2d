/*
 * Operands that are views of stored tensors, for all back ends: if elements
 * along each dim are a fixed distance apart, a kernel reads through the view
 * instead of copying it.
 */
#include "codegen/kernel.h"

/* The operand's dims, as dims of the value reached so far on the way to
 * memory. */
struct view_walk {
	const struct cg_site *s;
	uint8_t ndims;
	/* 0: broadcast, the same element for each position */
	dim_id dims[IR_MAX_DIMS];
	struct {
		dim_id dim;
		int64_t at;
		/* `at` is a shard, whose first position is added */
		bool piece;
	} fixed[4 * IR_MAX_DIMS];
	uint32_t nfixed;
};

static bool
add_fixed(struct view_walk *w, dim_id d, int64_t at, bool piece)
{
	if (w->nfixed == sizeof w->fixed / sizeof w->fixed[0]) {
		return false;
	}
	w->fixed[w->nfixed].dim = d;
	w->fixed[w->nfixed].piece = piece;
	w->fixed[w->nfixed++].at = at;
	return true;
}

static void
rename_dim(struct view_walk *w, dim_id from, dim_id to)
{
	uint32_t i;

	for (i = 0; i < w->ndims; i++) {
		w->dims[i] = w->dims[i] == from ? to : w->dims[i];
	}
	for (i = 0; i < w->nfixed; i++) {
		if (w->fixed[i].dim == from) {
			w->fixed[i].dim = to;
		}
	}
}

/* A shard of a whole dim begins at this rank's first position. */
static bool
through_shard(struct view_walk *w, const struct ir_node *n, dim_id d)
{
	const struct ir_module *m = w->s->m;
	const struct ir_type *in = ir_type(m, ir_args(m, n)[0]);
	const struct ir_type *to = ir_type(m, n->result);
	uint32_t cut = to->cut[ir_type_at(to, d)];

	if (in->cut[ir_type_at(in, d)] != 0 || ir_is_balanced(m, cut)) {
		return false;
	}
	return add_fixed(w, d, cg_spread(w->s->a, w->s->out,
				ir_dim_size(m, d), cut),
			 true);
}

static bool
through(struct view_walk *w, const struct ir_node *n)
{
	const struct ir_module *m = w->s->m;
	const struct ir_attr *of = ir_attr(m, n, IR_ATTR_OF);
	const struct ir_attr *to = ir_attr(m, n, IR_ATTR_TO);
	const struct ir_attr *over = ir_attr(m, n, IR_ATTR_OVER);
	uint32_t i;

	switch (n->op) {
	case IR_CACHE:
	case IR_CAST:	/* of a weight that is stored rounded */
	case IR_ARRANGE:
		return true;
	case IR_SLICE:
		rename_dim(w, to->dims[0], of->dims[0]);
		return add_fixed(w, of->dims[0],
				 ir_attr_int(m, n, IR_ATTR_AT, 0), false);
	case IR_SELECT:
		return add_fixed(w, of->dims[0],
				 ir_attr_int(m, n, IR_ATTR_AT, 0), false);
	case IR_EXPAND:
		for (i = 0; i < over->ndims; i++) {
			rename_dim(w, over->dims[i], 0);
		}
		return true;
	case IR_SHARD:
		return through_shard(w, n, of->dims[0]);
	default:
		return false;
	}
}

/* Turns dims into strides of the stored value; false: too many offsets. */
static bool
find_strides(struct view_walk *w, value_id v, struct cg_view *out)
{
	const struct ir_type *t = ir_type(w->s->m, v);
	int64_t stride = 1, size;
	uint32_t i, j;

	for (i = t->ndims; i-- > 0;) {
		for (j = 0; j < w->ndims; j++) {
			if (w->dims[j] == t->dims[i]) {
				out->stride[j] = stride;
			}
		}
		for (j = 0; j < w->nfixed; j++) {
			if (w->fixed[j].dim != t->dims[i]) {
				continue;
			}
			if (!w->fixed[j].piece) {
				out->offset += stride * w->fixed[j].at;
				continue;
			}
			if (out->nmoved == IR_MAX_DIMS) {
				return false;
			}
			out->moved[out->nmoved].spread =
				(uint32_t)w->fixed[j].at;
			out->moved[out->nmoved++].stride = stride;
		}
		size = cg_local_size(w->s->m, w->s->at, t->dims[i], t->cut[i]);
		stride *= i + 1 < t->ndims ? size
			: cg_row_pitch(w->s->m, w->s->apart, v, size);
	}
	return true;
}

bool
cg_view(const struct cg_site *s, const struct kernel *x, value_id v,
	struct cg_view *out)
{
	struct ir_module *m = s->m;
	const struct ir_type *t = ir_type(m, v);
	struct view_walk w = { .s = s, .ndims = t->ndims };
	uint32_t i;

	*out = (struct cg_view){ 0 };
	for (i = 0; i < t->ndims; i++) {
		w.dims[i] = t->dims[i];
		out->size[i] = cg_local_size(m, s->at, t->dims[i], t->cut[i]);
	}
	while (!kernel_reads(x, v)) {
		node_id id = m->values.at[v].node;

		if (!id || !through(&w, ir_node(m, id))) {
			return false;
		}
		v = ir_args(m, ir_node(m, id))[0];
	}
	out->stored = v;
	out->dtype = (enum ir_dtype)ir_type(m, v)->dtype;
	out->operand = cg_operand(s->a, s->out, v, 0, false);
	return find_strides(&w, v, out);
}

/* ---- weights in groups ---- */

/* Elements of a row of a weight in groups, as it is stored. */
static int64_t
row_of(const struct cg_site *s, value_id stored)
{
	const struct ir_type *t = ir_type(s->m, stored);
	const struct ir_attr *over =
		ir_attr(s->m, ir_rounded_weight(s->m, stored),
			IR_ATTR_ROUNDED);
	int64_t row = 1;
	uint32_t i;

	for (i = 0; i < over->ndims; i++) {
		int at = ir_type_at(t, over->dims[i]);

		row *= cg_local_size(s->m, s->at, t->dims[at], t->cut[at]);
	}
	return row;
}

int64_t
cg_view_row(const struct cg_site *s, const struct cg_view *v,
	    const struct ir_type *t)
{
	int64_t row = row_of(s, v->stored), n = 1;
	uint32_t i = t->ndims, k;

	while (n < row && i > 0 && v->stride[--i] == n) {
		n *= v->size[i];
	}
	if (n != row || v->offset % row != 0) {
		return 0;
	}
	for (k = 0; k < i; k++) {
		if (v->stride[k] % row != 0) {
			return 0;
		}
	}
	for (k = 0; k < v->nmoved; k++) {
		if (v->moved[k].stride % row != 0) {
			return 0;
		}
	}
	return row;
}

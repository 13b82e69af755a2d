/*
 * Where the operands of a contraction lie.  An operand may be a view of what
 * lies in memory; if elements along each of its dims are a fixed distance
 * apart, packing reads through the view.
 */
#include "codegen/cpu/dot.h"

#include <stddef.h>

/* ---- views ---- */

/* What the operand's dims are in the value at hand, on the way to memory. */
struct walk {
	struct cg_cpu *c;
	struct cg_kernel *out;
	uint8_t ndims;
	dim_id dims[IR_MAX_DIMS];	/* 0: the same element all along */
	struct {
		dim_id dim;
		int64_t at;
		bool piece;		/* `at` is a spread's first position */
	} fixed[4 * IR_MAX_DIMS];
	uint32_t nfixed;
};

static bool
fix(struct walk *w, dim_id d, int64_t at, bool piece)
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
rename_dim(struct walk *w, dim_id from, dim_id to)
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

/* A piece of a whole dim begins where this rank's positions do. */
static bool
through_shard(struct walk *w, const struct ir_node *n, dim_id d)
{
	const struct ir_module *m = w->c->m;
	const struct ir_type *in = ir_type(m, ir_args(m, n)[0]);
	const struct ir_type *to = ir_type(m, n->result);
	uint32_t cut = to->cut[ir_type_at(to, d)], left;

	if (in->cut[ir_type_at(in, d)] != 0) {
		return false;
	}
	for (left = cut; left; left >>= 4) {
		if (m->axes.at[left & 15].balanced) {
			return false;
		}
	}
	return fix(w, d, cg_spread(w->c, w->out, ir_dim_size(m, d), cut),
		   true);
}

static bool
through(struct walk *w, const struct ir_node *n)
{
	const struct ir_module *m = w->c->m;
	const struct ir_attr *of = ir_attr(m, n, IR_ATTR_OF);
	const struct ir_attr *to = ir_attr(m, n, IR_ATTR_TO);
	const struct ir_attr *over = ir_attr(m, n, IR_ATTR_OVER);
	uint32_t i;

	switch (n->op) {
	case IR_CACHE:
	case IR_ARRANGE:
		return true;
	case IR_SLICE:
		rename_dim(w, to->dims[0], of->dims[0]);
		return fix(w, of->dims[0],
			   ir_attr_int(m, n, IR_ATTR_AT, 0), false);
	case IR_SELECT:
		return fix(w, of->dims[0],
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

static bool
in_memory(const struct kernel *k, value_id v)
{
	uint32_t i;

	for (i = 0; i < k->inputs.n; i++) {
		if (k->inputs.at[i].value == v) {
			return true;
		}
	}
	return false;
}

static bool
base_of(enum ir_dtype d, enum ll_base *base)
{
	switch (d) {
	case IR_F32:
	case IR_TF32:
		*base = LL_F32;
		return true;
	case IR_BF16:
		*base = LL_BF16;
		return true;
	case IR_F16:
		*base = LL_F16;
		return true;
	default:
		return false;
	}
}

/* Distances in what lies in memory. */
static bool
settle(struct walk *w, value_id v, struct dot_source *s)
{
	const struct ir_type *t = ir_type(w->c->m, v);
	int64_t stride = 1;
	uint32_t i, j;

	for (i = t->ndims; i-- > 0;) {
		for (j = 0; j < w->ndims; j++) {
			if (w->dims[j] == t->dims[i]) {
				s->stride[j] = stride;
			}
		}
		for (j = 0; j < w->nfixed; j++) {
			if (w->fixed[j].dim != t->dims[i]) {
				continue;
			}
			if (!w->fixed[j].piece) {
				s->offset += stride * w->fixed[j].at;
				continue;
			}
			if (s->nmoved == IR_MAX_DIMS) {
				return false;
			}
			s->moved[s->nmoved].spread =
				(uint32_t)w->fixed[j].at;
			s->moved[s->nmoved++].stride = stride;
		}
		stride *= cg_cpu_local(w->c, t->dims[i], t->cut[i]);
	}
	return true;
}

bool
dot_source(struct cg_cpu *c, struct cg_kernel *out, const struct kernel *k,
	   value_id v, struct dot_source *s)
{
	struct walk w = { .c = c, .out = out };
	const struct ir_type *t = ir_type(c->m, v);
	uint32_t i;

	*s = (struct dot_source){ 0 };
	w.ndims = t->ndims;
	for (i = 0; i < t->ndims; i++) {
		w.dims[i] = t->dims[i];
	}
	if (!base_of(t->dtype, &s->base)) {
		return false;
	}
	while (!in_memory(k, v)) {
		node_id id = c->m->values.at[v].node;

		if (!id || !through(&w, ir_node(c->m, id))) {
			return false;
		}
		v = ir_args(c->m, ir_node(c->m, id))[0];
	}
	s->operand = cg_operand(c, out, v, 0, false);
	return settle(&w, v, s);
}

struct ll_value *
dot_source_at(struct cg_cpu *c, struct ll_value *step,
	      const struct dot_source *s)
{
	int64_t bytes = s->base == LL_F32 ? 4 : 2;
	struct ll_value *at = ll_plus_n(c->ll, cg_cpu_at(c, step, s->operand),
					s->offset * bytes);
	uint32_t i;

	for (i = 0; i < s->nmoved; i++) {
		struct ll_value *p = cg_cpu_pieces(c, step,
						   s->moved[i].spread);

		p = ll_plus_n(c->ll, p,
			      (int64_t)offsetof(struct rt_pieces, at));
		p = ll_load(c->ll, ll_type(LL_I64, 1), p);
		at = ll_plus(c->ll, at, dot_mul(c->ll, p, s->moved[i].stride *
							  bytes));
	}
	return at;
}

/* ---- factors ---- */

void
dot_factor_add(struct dot_factor *f, int64_t size, int64_t stride0,
	       int64_t stride1)
{
	struct dot_run *last = f->n ? &f->at[f->n - 1] : NULL;

	f->size *= size;
	if (size == 1) {
		return;
	}
	if (last && last->stride[0] == stride0 * size &&
	    last->stride[1] == stride1 * size) {
		last->size *= size;
		last->stride[0] = stride0;
		last->stride[1] = stride1;
		return;
	}
	f->at[f->n++] = (struct dot_run){ size, { stride0, stride1 } };
}

bool
dot_factor_dense(const struct dot_factor *f, int which)
{
	return f->n == 0 || (f->n == 1 && f->at[0].stride[which] == 1);
}

struct ll_value *
dot_factor_at(struct ll *l, const struct dot_factor *f, int which,
	      struct ll_value *i, int64_t bytes)
{
	struct ll_value *sum = ll_i64(l, 0);
	uint32_t r;

	for (r = f->n; r-- > 0;) {
		struct ll_value *here = i;

		if (r > 0) {
			here = dot_rem(l, i, f->at[r].size);
			i = dot_div(l, i, f->at[r].size);
		}
		sum = dot_add(l, sum, dot_mul(l, here,
					      f->at[r].stride[which] * bytes));
	}
	return sum;
}

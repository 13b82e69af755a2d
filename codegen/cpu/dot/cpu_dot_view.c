/*
 * Where the operands of a contraction lie.  An operand may be a view of a value
 * in memory: if elements along each of its dims are a fixed distance apart,
 * packing reads it in place.
 */
#include "codegen/cpu/dot/cpu_dot.h"

#include <stddef.h>

/* ---- views ---- */

struct cg_site
dot_site(const struct cg_cpu *c, struct cg_kernel *out)
{
	return (struct cg_site){ c->m, c->a, c->at, out, c->apart };
}

/* Of 8 bits, multiplied in f32 or as pairs of bf16; tiles of AMX are packed
 * from rows. */
static bool
narrow_panel(struct cg_cpu *c, struct cg_panel *out)
{
	struct dot_unit u = dot_unit(c, IR_BF16);

	out->lanes = u.lanes;
	return u.kind != DOT_TILES && out->last > 0 && out->row > 0 &&
	       out->last % u.lanes == 0 &&
	       out->row % ((int64_t)u.words * 2) == 0;
}

bool
cg_cpu_panel(struct cg_cpu *c, value_id v, struct cg_panel *out)
{
	const struct cg_site site = dot_site(c, NULL);
	enum ir_dtype dtype = (enum ir_dtype)ir_type(c->m, v)->dtype;
	struct dot_unit u;

	if (!cg_panel_of(&c->panels, &site, v, out)) {
		return false;
	}
	if (ir_dtypes[dtype].bits == 8) {
		return narrow_panel(c, out);
	}
	u = dot_unit(c, dtype);
	out->lanes = u.lanes;
	return (ir_dtypes[dtype].bits * (int)u.per_word == 32 ||
		dtype == IR_BF16) &&
	       out->last > 0 && out->row > 0 && out->last % u.lanes == 0 &&
	       out->row % ((int64_t)u.words * u.per_word) == 0;
}

bool
dot_find_source(struct cg_cpu *c, struct cg_kernel *out, const struct kernel *k,
	   value_id v, struct dot_source *s)
{
	const struct cg_site site = dot_site(c, out);
	enum ir_dtype dtype = (enum ir_dtype)ir_type(c->m, v)->dtype;

	if (!cg_cpu_elem(dtype, &s->base) || s->base == LL_F64 ||
	    !cg_view(&site, k, v, &s->view)) {
		return false;
	}
	s->base = s->view.dtype == dtype ? s->base : LL_I8;
	return s->view.dtype != IR_INT4 ||
	       cg_view_row(&site, &s->view, ir_type(c->m, v)) > 0;
}

struct ll_value *
dot_source_at(struct cg_cpu *c, struct ll_value *step,
	      const struct dot_source *s)
{
	const struct cg_view *v = &s->view;
	struct dot_size size = dot_size_apart(s->base, (uint8_t)v->dtype);
	struct ll_value *at = ll_plus_n(c->ll, cg_cpu_at(c, step, v->operand),
					dot_bytes(size, v->offset));
	uint32_t i;

	for (i = 0; i < v->nmoved; i++) {
		struct ll_value *p = cg_cpu_pieces(c, step,
						   v->moved[i].spread);

		p = ll_plus_n(c->ll, p,
			      (int64_t)offsetof(struct rt_pieces, at));
		p = ll_load(c->ll, ll_type(LL_I64, 1), p);
		at = ll_plus(c->ll, at, ll_mul_n(c->ll, p,
				dot_bytes(size, v->moved[i].stride)));
	}
	return at;
}

/* ---- factors ---- */

bool
dot_factor_dense(const struct cg_factor *f, int which)
{
	return f->n == 0 || (f->n == 1 && f->at[0].stride[which] == 1);
}

struct ll_value *
dot_factor_at(struct ll *l, const struct cg_factor *f, int which,
	      struct ll_value *i, struct dot_size size)
{
	struct ll_value *sum = ll_i64(l, 0);
	int64_t stride;
	uint32_t r;

	for (r = f->n; r-- > 0;) {
		struct ll_value *here = i;

		if (r > 0) {
			here = ll_rem_n(l, i, f->at[r].size);
			i = ll_div_n(l, i, f->at[r].size);
		}
		stride = f->at[r].stride[which] * size.bytes;
		here = stride % size.elems == 0
			? ll_mul_n(l, here, stride / size.elems)
			: ll_div_n(l, ll_mul_n(l, here, stride), size.elems);
		sum = ll_add(l, sum, here);
	}
	return sum;
}

/* ---- panels ---- */

bool
dot_in_panels(struct cg_cpu *c, const struct dot_source *s)
{
	struct cg_panel p;

	return cg_cpu_panel(c, s->view.stored, &p);
}

bool
dot_reads_panels(const struct dot_source *s, const struct cg_factor *n,
		 const struct cg_factor *over)
{
	return s->view.offset == 0 && s->view.nmoved == 0 && n->n == 1 &&
	       dot_factor_dense(over, 1) &&
	       n->at[0].stride[1] == over->size;
}

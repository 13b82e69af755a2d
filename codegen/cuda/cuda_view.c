/*
 * Operands that are views of stored tensors, as C text.
 */
#include "codegen/cuda/cuda.h"

struct cg_site
cu_site(const struct cu_kernel *k)
{
	return (struct cg_site){ k->c->m, k->c->a, k->c->at, k->out,
				 k->c->apart };
}

bool
cu_view_of(struct cu_kernel *k, const struct kernel *x, value_id v,
	   struct cg_view *out)
{
	const struct cg_site s = cu_site(k);

	return cg_view(&s, x, v, out);
}

const char *
cu_view_at(struct cu_func *f, const struct cg_view *v)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, f->k->c->a);
	buf_printf(&b, "((%s *)%s", cu_elem_type(v->dtype),
		   cu_operand(f, v->operand));
	if (v->offset != 0) {
		buf_printf(&b, " + %lld", (long long)v->offset);
	}
	for (i = 0; i < v->nmoved; i++) {
		buf_printf(&b, " + %s->at[0].start * %lld",
			   cu_pieces(f, v->moved[i].spread),
			   (long long)v->moved[i].stride);
	}
	buf_puts(&b, ")");
	return buf_text(&b);
}

int64_t
cu_view_whole(struct cu_kernel *k, const struct cg_view *v)
{
	const struct cg_operand *o = &k->out->operands.at[v->operand];
	const struct ir_type *t = ir_type(k->c->m, o->value);
	int64_t n = 1, size;
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		size = cu_local_size(k->c, t->dims[i], t->cut[i]);
		n *= i + 1 < t->ndims ? size
			: cg_row_pitch(k->c->m, k->c->apart, o->value, size);
	}
	return n;
}

bool
cu_view_aligned(struct cu_kernel *k, const struct cg_view *v)
{
	int64_t bytes = cu_elem_bytes(v->dtype);

	return cu_view_whole(k, v) * bytes % 16 == 0 &&
	       v->offset * bytes % 16 == 0 && v->nmoved == 0;
}

bool
cu_map_add(struct cg_map *m, int64_t bytes, int64_t size, int64_t stride,
	   int64_t box)
{
	bool inner = m->ndims == 0;

	if (m->ndims == 5 || box > 256 || box < 1 || size > UINT32_MAX ||
	    (inner ? stride != 1 : stride <= 0 || stride * bytes % 16 != 0)) {
		return false;
	}
	m->size[m->ndims] = size;
	m->stride[m->ndims] = bytes * stride;
	m->box[m->ndims++] = box;
	return true;
}

void
cu_fetch_maps(struct cu_func *f)
{
	uint32_t i;

	for (i = 0; i < f->grid->maps.n; i++) {
		cu_line(f, "tma_prefetch(&a.map[%u]);", i);
	}
}

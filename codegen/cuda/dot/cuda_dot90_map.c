/*
 * Operands of a contraction as boxes that the copying unit loads.
 *
 * A stage has 128 bytes of k.  In shared memory a row is 128 bytes, and its
 * 16-byte pieces are swizzled by the row's number modulo 8, as wgmma requires
 * (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout").  If
 * the operand is contiguous along k, a row is one position of m or n.
 * Otherwise, which wgmma can transpose if elements have 16 bits, a row is one
 * position of k, and a box has 64 positions of m or n.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

/* ---- maps ---- */

static bool
put_dim(struct dot90_side *s, enum dot90_factor factor, uint32_t run,
	int64_t size, int64_t stride, int64_t box)
{
	struct cg_map *m = &s->map;
	uint32_t at = m->ndims;

	if (at > 0 && stride == 0 && box == 1) {
		return true;
	}
	if (!cu_map_add(m, cu_elem_bytes(s->dtype), size, stride, box)) {
		return false;
	}
	s->dim[at].factor = factor;
	s->dim[at].run = run;
	return true;
}

/* Appends the first n runs of a factor, which boxes have one position of. */
static bool
put_rest(struct dot90_side *s, enum dot90_factor factor,
	 const struct cg_factor *f, uint32_t n)
{
	while (n-- > 0) {
		if (!put_dim(s, factor, n, f->at[n].size,
			     f->at[n].stride[s->which], 1)) {
			return false;
		}
	}
	return true;
}

/* Rows along k: a box has all rows of the tile. */
static bool
map_by_k(struct dot90_side *s, const struct cu_dot *d, int64_t rows)
{
	const struct cg_factor *x = s->x, *k = &d->over;
	uint32_t n = x->n, last = k->n - 1;

	if (!put_dim(s, DOT90_OVER, last, k->at[last].size,
		     k->at[last].stride[s->which], dot90_k(d))) {
		return false;
	}
	while (n > 0 && rows > 1) {
		int64_t size = x->at[--n].size;
		int64_t box = n > 0 && size < rows ? size : rows;

		if (rows % box != 0 ||
		    !put_dim(s, DOT90_X, n, size, x->at[n].stride[s->which],
			     box)) {
			return false;
		}
		rows /= box;
	}
	return put_rest(s, DOT90_X, x, n) && put_rest(s, DOT90_OVER, k, last);
}

/* Rows along m or n: boxes of 64 positions by a stage of k. */
static bool
map_by_x(struct dot90_side *s, const struct cu_dot *d, int64_t step)
{
	const struct cg_factor *x = s->x, *k = &d->over;
	uint32_t n = x->n - 1, last = k->n - 1;

	if (n > 0 && (x->at[n].size % 64 != 0 || step % 64 != 0)) {
		return false;
	}
	return put_dim(s, DOT90_X, n, x->at[n].size,
		       x->at[n].stride[s->which], 64) &&
	       put_dim(s, DOT90_OVER, last, k->at[last].size,
		       k->at[last].stride[s->which], dot90_k(d)) &&
	       put_rest(s, DOT90_X, x, n) &&
	       put_rest(s, DOT90_OVER, k, last);
}

/* A tensor map has at least two dims. */
static bool
at_least_two(struct dot90_side *s)
{
	int64_t unit = 16 / cu_elem_bytes(s->dtype);

	return s->map.ndims >= 2 ||
	       put_dim(s, DOT90_BATCH, IR_MAX_DIMS, 1,
		       (s->map.size[0] + unit - 1) / unit * unit, 1);
}

static enum rt_elem
elem_of(enum ir_dtype t)
{
	switch (t) {
	case IR_BF16:
		return RT_ELEM_BF16;
	case IR_F16:
		return RT_ELEM_F16;
	case IR_F8E4M3:
		return RT_ELEM_U8;
	default:
		return RT_ELEM_F32;
	}
}

bool
dot90_side_of(const struct cu_dot *d, int which, int64_t rows, int64_t step,
	      bool multi, struct dot90_side *s)
{
	const struct cg_view *v = &d->view[which];
	bool two;

	*s = (struct dot90_side){ .x = which ? &d->n : &d->m,
				  .which = which, .dtype = v->dtype };
	s->map.operand = v->operand;
	s->map.elem = elem_of(v->dtype);
	s->map.offset = v->offset * cu_elem_bytes(v->dtype);
	s->map.swizzle = DOT90_ROW;
	if (!cu_unit_is(d->unit, v->dtype) || d->over.n == 0 ||
	    !cu_view_aligned(d->k, v)) {
		return false;
	}
	two = multi && rows >= 128 && rows % 64 == 0;
	s->by_k = cu_factor_dense(&d->over, which);
	s->loads = s->by_k ? two ? 2 : 1 : rows / 64;
	s->halves = two && s->loads % 2 == 0 && (!s->by_k || s->x->n <= 1);
	s->bytes = rows * DOT90_ROW;
	if (s->loads == 0 || (multi && !s->halves)) {
		return false;
	}
	if (s->by_k) {
		return map_by_k(s, d, rows / s->loads) &&
		       put_rest(s, DOT90_BATCH, &d->batch, d->batch.n) &&
		       at_least_two(s);
	}
	return cu_unit_bytes(d->unit) == 2 &&
	       cu_factor_dense(s->x, which) && map_by_x(s, d, step) &&
	       put_rest(s, DOT90_BATCH, &d->batch, d->batch.n);
}

/* ---- copies ---- */

int64_t
dot90_stages(const struct cu_dot *d)
{
	const struct cg_run *last = &d->over.at[d->over.n - 1];
	int64_t inner = (last->size + dot90_k(d) - 1) / dot90_k(d);

	return d->over.size / last->size * inner;
}

/* C text: the index in one run of position `at`.  The first run's may be beyond
 * its end, where the copying unit returns zeros. */
static const char *
in_run(struct arena *a, const struct cg_factor *f, uint32_t run,
       const char *at)
{
	int64_t below = 1;
	uint32_t i;

	for (i = f->n; i-- > run + 1;) {
		below *= f->at[i].size;
	}
	if (below > 1) {
		at = arena_printf(a, "(%s) / %lld", at, (long long)below);
	}
	return run == 0 ? at : arena_printf(a, below > 1 ? "%s %% %lld"
		: "(%s) %% %lld", at, (long long)f->at[run].size);
}

/* C text: the index in one run of stage `k`; the last run is divided into
 * stages. */
static const char *
in_over(struct arena *a, const struct cg_factor *f, uint32_t run,
	int64_t each)
{
	int64_t inner = (f->at[f->n - 1].size + each - 1) / each;
	struct cg_factor chunks = *f;

	chunks.at[f->n - 1].size = inner;
	return run + 1 < f->n ? in_run(a, &chunks, run, "k")
		: arena_printf(a, "%s * %lld", f->n == 1 ? "k"
			: arena_printf(a, "k %% %lld", (long long)inner),
			(long long)each);
}

static const char *
coordinate(struct arena *a, const struct cu_dot *d,
	   const struct dot90_side *s, uint32_t dim, const char *start,
	   const char *batch)
{
	uint32_t run = s->dim[dim].run;

	if (run == IR_MAX_DIMS) {
		return "0";
	}
	switch (s->dim[dim].factor) {
	case DOT90_X:
		return in_run(a, s->x, run, start);
	case DOT90_OVER:
		return in_over(a, &d->over, run, dot90_k(d));
	default:
		return in_run(a, &d->batch, run, batch);
	}
}

void
dot90_load_stage(struct cu_func *f, const struct cu_dot *d,
		 const struct dot90_side *s, const char *start,
		 const char *batch, const char *to, const char *half)
{
	struct arena *a = f->k->c->a;
	int64_t n = half ? s->loads / 2 : s->loads, i;
	int64_t rows = s->bytes / DOT90_ROW / s->loads;
	struct buf b;
	uint32_t dim;

	for (i = 0; i < n; i++) {
		const char *at = start, *dst = to;

		if (i > 0) {
			at = arena_printf(a, "%s + %lld", at,
					  (long long)(i * rows));
			dst = arena_printf(a, "%s + %lld", dst,
					   (long long)(i * rows * 128));
		}
		if (half) {
			at = arena_printf(a, "%s + %s * %lld", at, half,
					  (long long)(n * rows));
			dst = arena_printf(a, "%s + %s * %lld", dst, half,
					   (long long)(n * rows * 128));
		}
		buf_init(&b, a);
		for (dim = 0; dim < s->map.ndims; dim++) {
			buf_printf(&b, ", %s", coordinate(a, d, s, dim, at,
							  batch));
		}
		cu_line(f, "tma_load%u%s(%s, &a.map[%u], bar%s%s);",
			s->map.ndims, half ? "_multi" : "", dst, s->at,
			buf_text(&b), half ? ", 3" : "");
	}
}

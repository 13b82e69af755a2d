/*
 * Weights that are stored in 8 bits, and their scales; and in 4 bits, with
 * scales that are a part of them.  They are computed from the weight as files
 * have it, whole, since a scale belongs to elements that may be on several
 * ranks.  The runtime rounds the same way when it loads: runtime/data/round.c.
 */
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

struct rounded {
	struct interp *e;
	const struct ir_node *n;
	struct ir_type whole;	/* of the weight, or of a part of it */
	bool shared[IR_MAX_DIMS];	/* one scale is for all of that dim */
	enum ir_dtype dtype;
	const double *weight, *scale;
};

/* The number of the scale of element i. */
static int64_t
scale_of(const struct rounded *x, int64_t i)
{
	int64_t at = 0, stride = 1, size;
	uint32_t d;

	if (x->dtype == IR_INT4) {
		return i / IR_GROUP;
	}
	for (d = x->whole.ndims; d-- > 0;) {
		size = ir_dim_size(x->e->m, x->whole.dims[d]);
		if (!x->shared[d]) {
			at += i % size * stride;
			stride *= size;
		}
		i /= size;
	}
	return at;
}

static int64_t
elems_of(const struct rounded *x, bool scales)
{
	bool shared = scales && x->dtype != IR_INT4;
	int64_t n = 1;
	uint32_t d;

	for (d = 0; d < x->whole.ndims; d++) {
		n *= shared && x->shared[d] ? 1
			: ir_dim_size(x->e->m, x->whole.dims[d]);
	}
	return scales && x->dtype == IR_INT4 ? n / IR_GROUP : n;
}

/* The largest magnitude becomes the largest number of the type; f32, as scales
 * are stored so, or of groups bf16. */
static void
find_scales(const struct rounded *x, double *scale)
{
	int64_t n = elems_of(x, false), scales = elems_of(x, true), i;

	memset(scale, 0, (size_t)scales * sizeof *scale);
	for (i = 0; i < n; i++) {
		double *s = &scale[scale_of(x, i)];

		*s = fmax(*s, fabs(x->weight[i]));
	}
	for (i = 0; i < scales; i++) {
		scale[i] = (float)(scale[i] / ir_dtypes[x->dtype].most);
		if (x->dtype == IR_INT4) {
			scale[i] = ir_interp_nearest(IR_BF16, scale[i]);
		}
	}
}

/* Bits of a float type's numbers, the first included; 0: of a whole number. */
static int
significant_bits(enum ir_dtype t)
{
	switch (t) {
	case IR_F64:
		return 53;
	case IR_F32:
		return 24;
	case IR_TF32:
	case IR_F16:
		return 11;
	case IR_BF16:
		return 8;
	case IR_F8E4M3:
		return 4;
	case IR_F8E5M2:
		return 3;
	default:
		return 0;
	}
}

double
ir_interp_nearest(enum ir_dtype t, double v)
{
	double most = ir_dtypes[t].most, step = 1;
	bool saturates = ir_dtypes[t].bits <= 8;
	int bits = significant_bits(t), exponent;

	if (isnan(v) || (isinf(v) && !saturates)) {
		return v;
	}
	v = saturates ? fmin(fmax(v, -most), most) : v;
	if (bits > 0) {
		frexp(v, &exponent);
		step = fmax(ldexp(1, exponent - bits), ir_dtypes[t].least);
	}
	v = nearbyint(v / step) * step;
	return fabs(v) <= most ? v : copysign(INFINITY, v);
}

static double
element(const struct rounded *x, int64_t i)
{
	double scale = x->scale[scale_of(x, i)], v;

	v = scale > 0 ? ir_interp_nearest(x->dtype, x->weight[i] / scale) : 0;
	return x->dtype == IR_INT4 ? v * scale : v;
}

/* What is not finite has no scale; the runtime refuses it, too. */
static bool
check_finite(const struct rounded *x, const char *name)
{
	int64_t n = elems_of(x, false), i;

	for (i = 0; i < n && isfinite(x->weight[i]); i++) {
	}
	if (i < n) {
		diag_error(&x->e->m->ctx->diags, x->n->span, "element %lld of "
			   "`%s` is %s, and weights that are rounded are "
			   "finite numbers", (long long)i, name,
			   isnan(x->weight[i]) ? "NaN" : "infinite");
	}
	return i == n;
}

/* Dims of the weight, without those that are in its name. */
static bool
describe(struct rounded *x, const struct ir_type *one)
{
	const struct ir_attr *dims = ir_attr(x->e->m, x->n, IR_ATTR_OVER);
	const struct ir_attr *rounded = ir_attr(x->e->m, x->n,
						IR_ATTR_ROUNDED);
	const struct ir_type *t = ir_type(x->e->m, x->n->result);
	uint32_t skip = t->ndims - one->ndims, d, k;

	x->whole = (struct ir_type){ .dtype = IR_F64, .ndims = one->ndims };
	memcpy(x->whole.dims, one->dims, sizeof one->dims);
	if (!rounded) {
		x->whole.ndims = (uint8_t)(dims->ndims - skip);
		memcpy(x->whole.dims, dims->dims + skip,
		       x->whole.ndims * sizeof *dims->dims);
	}
	for (d = 0; d < x->whole.ndims; d++) {
		x->shared[d] = !rounded && !ir_type_has(one, x->whole.dims[d]);
		for (k = 0; rounded && k < rounded->ndims; k++) {
			x->shared[d] |= rounded->dims[k] == x->whole.dims[d];
		}
	}
	return rounded != NULL;
}

bool
ir_interp_read_rounded(struct interp *e, const struct ir_node *n,
		       const struct ir_type *one, interp_read_fn *read,
		       double *out)
{
	struct rounded x = { .e = e, .n = n };
	bool weight = describe(&x, one), ok;
	struct interp_block *b, *s;
	struct ir_local l;
	int64_t i;

	x.dtype = weight ? (enum ir_dtype)one->dtype
		: (enum ir_dtype)ir_attr(e->m, n, IR_ATTR_STORED)->i;
	b = ir_interp_get(e, n, elems_of(&x, false));
	s = b ? ir_interp_get(e, n, elems_of(&x, true)) : NULL;
	ok = s && read(e, n, buf_text(&e->full), &x.whole,
		       elems_of(&x, false), b->data);
	x.weight = ok ? b->data : NULL;
	ok = ok && check_finite(&x, buf_text(&e->full));
	if (ok) {
		find_scales(&x, s->data);
		x.scale = s->data;
		ir_local(e->m, one, e->at, &l);
		for (i = 0; i < l.elems; i++) {
			int64_t at = ir_local_at(&l, i);

			out[i] = weight ? element(&x, at) : x.scale[at];
		}
	}
	if (s) {
		ir_interp_put(e, s);
	}
	if (b) {
		ir_interp_put(e, b);
	}
	return ok;
}

/*
 * Weights that are stored in 8 bits: a rank reads what its elements share
 * scales with, also where others hold it, and rounds.  So scales do not depend
 * on how a weight is split.  ir/interp/interp_rounded.c rounds the same way.
 *
 * Elements that share scales lie in a block of a part: `k` by `inner` elements,
 * of which those at one place of `inner` share one.  A block in 4 bits is a row
 * (`inner` is 1): its groups of RT_GROUP elements have a scale each, and a rank
 * has whole groups of it.
 */
#include "runtime/data/tensor_store.h"

#include <math.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/data/safetensors.h"
#include "runtime/elems.h"

struct rounder {
	const struct rt_store *s;
	const struct rt_st *st;
	const struct rt_hold *weight, *scales;
	struct rt_alloc alloc;
	int64_t k, inner, nblocks;	/* nblocks: of a part */
	bool in_groups;		/* in 4 bits */
	const struct rt_st_tensor *stored;
	int64_t part, block;	/* what is in the buffers; -1: nothing */
	char *raw;		/* as in the file */
	float *value;
	uint8_t *rounded;	/* in 4 bits: numbers, and scales after them */
	/* of all parts: scales, and of which blocks they are known by now, so
	 * that what was read for its weights is not read for its scales */
	float *scale;
	bool *known;
};

/* ---- numbers ---- */

/* To the nearest integer, to even on a tie; |v| < 2^51. */
static double
nearest(double v)
{
	return (v + 0x1.8p52) - 0x1.8p52;
}

/* v is at most 448, but for its rounding. */
static uint8_t
to_e4m3(double v)
{
	double size = fabs(v);
	int exponent;
	uint8_t bits;

	size = size < 448 ? size : 448;
	if (size < 0x1p-6) {
		bits = (uint8_t)nearest(size * 0x1p9);
	} else {
		/* 8 to 16, where 16 is 8 of the next exponent */
		size = nearest(16 * frexp(size, &exponent));
		bits = (uint8_t)(8 * (exponent + 6) + (int)size - 8);
	}
	return v < 0 ? bits | 0x80 : bits;
}

static uint8_t
to_int8(double v)
{
	v = v < 127 ? v : 127;
	return (uint8_t)(int8_t)nearest(v > -127 ? v : -127);
}

/* Number i of eight in a word, as RT_ELEM_I4 has them: -7 to 7. */
static void
put_int4(uint8_t *words, int64_t i, double v)
{
	uint8_t bits = (uint8_t)((int)nearest(v < 7 ? v > -7 ? v : -7 : 7) &
				 15);
	int64_t at = i / 8 * 4 + i % 2 * 2 + i % 8 / 4;

	words[at] |= (uint8_t)(bits << i / 2 % 2 * 4);
}

/* A row in groups. */
static void
round_row(struct rounder *r)
{
	uint8_t *scales = r->rounded + r->k / 2;
	int64_t g, i;

	memset(r->rounded, 0, (size_t)r->k / 2);
	for (g = 0; g < r->k / RT_GROUP; g++) {
		const float *v = r->value + g * RT_GROUP;
		float scale, largest = 0;
		uint8_t *to = r->rounded + g * RT_GROUP / 2;

		for (i = 0; i < RT_GROUP; i++) {
			largest = fabsf(v[i]) > largest ? fabsf(v[i]) : largest;
		}
		scale = (float)((double)largest / 7);
		rt_elems_convert(RT_F32, &scale, RT_ELEM_BF16, scales + 2 * g,
				 1);
		rt_elems_convert(RT_BF16, scales + 2 * g, RT_ELEM_F32, &scale,
				 1);
		for (i = 0; i < RT_GROUP && scale > 0; i++) {
			put_int4(to, i, (double)v[i] / scale);
		}
	}
}

/* The scales of a block. */
static float *
scales_at(const struct rounder *r, int64_t part, int64_t block)
{
	return r->scale + (part * r->nblocks + block) * r->inner;
}

static void
round_block(struct rounder *r, float *scale)
{
	bool int8 = r->weight->tensor->elem == RT_ELEM_I8;
	double most = int8 ? 127 : 448, v;
	int64_t n = r->k * r->inner, i, j;

	for (j = 0; j < r->inner; j++) {
		float largest = 0;

		for (i = j; i < n; i += r->inner) {
			float size = fabsf(r->value[i]);

			largest = size > largest ? size : largest;
		}
		scale[j] = (float)(largest / most);
		for (i = j; i < n; i += r->inner) {
			v = scale[j] > 0 ? (double)r->value[i] / scale[j] : 0;
			r->rounded[i] = int8 ? to_int8(v) : to_e4m3(v);
		}
	}
}

/* ---- blocks ---- */

/* The size of a block, by the dims of a part. */
static void
measure_block(struct rounder *r)
{
	const struct rt_tensor *t = r->weight->tensor;
	int64_t d;

	r->k = r->inner = 1;
	for (d = t->stacked; d < t->ndims; d++) {
		if (t->rounded >> d & 1) {
			r->k *= t->sizes[d];
			r->inner = 1;
		} else {
			r->inner *= t->sizes[d];
		}
	}
	r->in_groups = t->elem == RT_ELEM_I4;
	r->nblocks = rt_part_elems(t) / (r->k * r->inner);
}

static enum rt_status
allocate(struct rounder *r, struct rt_error *err)
{
	const struct rt_tensor *t = r->weight->tensor;
	size_t n = (size_t)(r->k * r->inner);
	size_t blocks = (size_t)(rt_tensor_parts(t) * r->nblocks);

	r->raw = rt_resize(&r->alloc, NULL, n, 8);
	r->value = rt_resize(&r->alloc, NULL, n, sizeof *r->value);
	r->rounded = rt_resize(&r->alloc, NULL, n, 1);
	r->scale = rt_resize(&r->alloc, NULL, blocks * (size_t)r->inner,
			     sizeof *r->scale);
	r->known = rt_resize(&r->alloc, NULL, blocks, sizeof *r->known);
	if (!r->raw || !r->value || !r->rounded || !r->scale || !r->known) {
		return rt_no_memory(err, t->name);
	}
	memset(r->known, 0, blocks * sizeof *r->known);
	return RT_OK;
}

/* What is not finite has no scale. `at`: of the first of the n values. */
static enum rt_status
check_finite(const struct rounder *r, int64_t at, int64_t n,
	     struct rt_error *err)
{
	const struct rt_where where = { rt_st_path(r->st, r->stored),
					r->stored->name, -1 };
	int64_t i;

	for (i = 0; i < n && isfinite(r->value[i]); i++) {
	}
	return i == n ? RT_OK
		: rt_fail(err, RT_FORMAT, where, "element %lld is %s, and the "
			  "weights that are rounded for this plan are finite "
			  "numbers", (long long)(at + i),
			  isnan(r->value[i]) ? "NaN" : "infinite");
}

/* Reads and rounds a block, unless it was the last one. */
static enum rt_status
load_block(struct rounder *r, int64_t part, int64_t block,
	   struct rt_error *err)
{
	const struct rt_tensor *t = r->weight->tensor;
	int64_t n = r->k * r->inner, bytes;
	char name[RT_NAME_BYTES];
	enum rt_status status = RT_OK;

	if (part == r->part && block == r->block) {
		return RT_OK;
	}
	if (part != r->part) {
		status = rt_part_name(t, part, name, err);
		r->stored = status == RT_OK ? rt_st_find(r->st, name) : NULL;
	}
	if (status != RT_OK) {
		return status;
	}
	r->part = part;
	r->block = block;
	bytes = rt_dtype_bits(r->stored->dtype) / 8;
	status = rt_st_read_raw(r->st, r->stored, block * n * bytes, n * bytes,
				r->raw, err);
	if (status == RT_OK) {
		rt_elems_convert(r->stored->dtype, r->raw, RT_ELEM_F32,
				 r->value, n);
		status = check_finite(r, block * n, n, err);
	}
	if (status == RT_OK) {
		if (r->in_groups) {
			round_row(r);
		} else {
			round_block(r, scales_at(r, part, block));
		}
		r->known[part * r->nblocks + block] = true;
	}
	return status;
}

/* ---- what the rank holds ---- */

/* Elements of the weight from `at` on, at most n, into *to; *did: how many. */
static enum rt_status
put_weights(struct rounder *r, int64_t part, int64_t at, int64_t n, char *to,
	    int64_t *did, uint64_t *sum, struct rt_error *err)
{
	int64_t block = r->k * r->inner, from = at % block, bytes;
	enum rt_status status = load_block(r, part, at / block, err);

	*did = n < block - from ? n : block - from;
	if (status == RT_OK) {
		memcpy(to, r->rounded + from, (size_t)*did);
		bytes = rt_dtype_bits(r->stored->dtype) / 8;
		*sum += rt_elems_sum((int)bytes, r->raw + from * bytes, at,
				     *did);
	}
	return status;
}

/* The same of scales: a block has `inner` of them. */
static enum rt_status
put_scales(struct rounder *r, int64_t part, int64_t at, int64_t n, char *to,
	   int64_t *did, struct rt_error *err)
{
	int64_t from = at % r->inner, block = at / r->inner;
	enum rt_status status = r->known[part * r->nblocks + block] ? RT_OK
		: load_block(r, part, block, err);

	*did = n < r->inner - from ? n : r->inner - from;
	if (status == RT_OK) {
		memcpy(to, scales_at(r, part, block) + from,
		       (size_t)*did * sizeof *r->scale);
	}
	return status;
}

static enum rt_status
put_span(struct rounder *r, struct rt_window *w, const struct rt_hold *h,
	 const struct rt_span *span, uint64_t *sum, struct rt_error *err)
{
	int64_t bytes = rt_elem_bytes((enum rt_elem)h->tensor->elem);
	int64_t most = rt_window_most(w) / bytes, i, n, did = 0, done;
	enum rt_status status = RT_OK;
	char *to;

	for (i = 0; i < span->n && status == RT_OK; i += n) {
		n = span->n - i < most ? span->n - i : most;
		status = rt_window_write(w, h->offset +
					 (span->local + i) * bytes, n * bytes,
					 &to, err);
		for (done = 0; done < n && status == RT_OK; done += did) {
			char *at = to + done * bytes;
			int64_t first = span->at + i + done;

			status = h == r->weight
				? put_weights(r, span->part, first, n - done,
					      at, &did, sum, err)
				: put_scales(r, span->part, first, n - done,
					     at, &did, err);
		}
	}
	return status;
}

/* ---- in 4 bits ---- */

/* n bytes at `offset` of the arena. */
static enum rt_status
put_bytes(struct rt_window *w, int64_t offset, const uint8_t *from, int64_t n,
	  struct rt_error *err)
{
	int64_t most = rt_window_most(w), i, now;
	enum rt_status status = RT_OK;
	char *to;

	for (i = 0; i < n && status == RT_OK; i += now) {
		now = n - i < most ? n - i : most;
		status = rt_window_write(w, offset + i, now, &to, err);
		if (status == RT_OK) {
			memcpy(to, from + i, (size_t)now);
		}
	}
	return status;
}

/* Elements of a row that the rank has. */
static int64_t
local_row(const struct rt_spans *spans)
{
	const struct rt_tensor *t = spans->tensor;
	int64_t n = 1, d;

	for (d = t->stacked; d < t->ndims; d++) {
		n *= t->rounded >> d & 1 ? spans->pieces[d]->total : 1;
	}
	return n;
}

/* A span of rows, of which the rank has `row` elements each. */
static enum rt_status
put_rows(struct rounder *r, struct rt_window *w, const struct rt_hold *h,
	 const struct rt_span *span, int64_t row, uint64_t *sum,
	 struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i, at, from, bytes, to;

	for (i = 0; i < span->n && status == RT_OK; i += row) {
		at = span->at + i;
		from = at % r->k;
		to = h->offset + rt_elems_bytes(RT_ELEM_I4, span->local + i);
		status = load_block(r, span->part, at / r->k, err);
		if (status != RT_OK) {
			break;
		}
		bytes = rt_dtype_bits(r->stored->dtype) / 8;
		*sum += rt_elems_sum((int)bytes, r->raw + from * bytes, at,
				     row);
		status = put_bytes(w, to, r->rounded + from / 2, row / 2, err);
		if (status == RT_OK) {
			status = put_bytes(w, to + row / 2, r->rounded +
					   r->k / 2 + from / RT_GROUP * 2,
					   row / RT_GROUP * 2, err);
		}
	}
	return status;
}

static enum rt_status
put_hold(struct rounder *r, const struct rt_hold *h, uint64_t *sums,
	 struct rt_error *err)
{
	uint64_t unwanted = 0;
	enum rt_status status;
	struct rt_spans spans;
	struct rt_window w;
	struct rt_span span;

	rt_spans_begin(&spans, r->s->plan, h, r->s->rank);
	status = rt_window_open(&w, r->s->device, r->s->arena, err);
	while (status == RT_OK && rt_spans_next(&spans, &span)) {
		uint64_t *sum = sums ? &sums[span.part] : &unwanted;

		status = r->in_groups
			? put_rows(r, &w, h, &span, local_row(&spans), sum,
				   err)
			: put_span(r, &w, h, &span, sum, err);
	}
	return rt_window_close(&w, status, err);
}

/* What the rank has of the scales of a weight; NULL: nothing. */
static const struct rt_hold *
scales_of(const struct rt_store *s, const struct rt_hold *weight)
{
	const struct rt_program *g = s->program;
	int64_t number = weight->tensor - s->plan->tensors + 1, i;

	for (i = 0; i < g->nholds; i++) {
		if (g->holds[i].tensor->scales_of == number) {
			return &g->holds[i];
		}
	}
	return NULL;
}

enum rt_status
rt_store_round(const struct rt_store *s, const struct rt_st *st,
	       const struct rt_hold *h, uint64_t *sums, struct rt_error *err)
{
	struct rounder r = { .s = s, .st = st, .weight = h,
			     .scales = scales_of(s, h),
			     .alloc = rt_alloc_or_libc(NULL), .part = -1 };
	enum rt_status status;

	measure_block(&r);
	status = allocate(&r, err);
	if (status == RT_OK) {
		status = put_hold(&r, h, sums, err);
	}
	if (status == RT_OK && r.scales) {
		status = put_hold(&r, r.scales, NULL, err);
	}
	rt_release(&r.alloc, r.raw);
	rt_release(&r.alloc, r.value);
	rt_release(&r.alloc, r.rounded);
	rt_release(&r.alloc, r.scale);
	rt_release(&r.alloc, r.known);
	return status;
}

/*
 * Which positions of a split dim a rank has, and so which elements of a
 * tensor.  An axis cuts the list of positions that is left by the axes outside
 * of it into equal parts, rounded up, so that the last parts may be shorter or
 * empty.
 */
#include "ir/ir.h"

#include <math.h>

/* Adds the entries lo .. hi-1 of a list of positions to another one. */
static void
take(const struct ir_pieces *from, int64_t lo, int64_t hi,
     struct ir_pieces *to)
{
	int64_t before = 0;
	uint32_t i;

	for (i = 0; i < from->n; i++) {
		int64_t count = from->at[i].count;
		int64_t a = lo > before ? lo - before : 0;
		int64_t b = hi - before < count ? hi - before : count;

		before += count;
		if (a >= b) {
			continue;
		}
		to->total += b - a;
		a += from->at[i].start;
		b += from->at[i].start;
		if (to->n && to->at[to->n - 1].start +
			     to->at[to->n - 1].count == a) {
			to->at[to->n - 1].count += b - a;
			continue;
		}
		to->at[to->n].start = a;
		to->at[to->n++].count = b - a;
	}
}

void
ir_pieces(const struct ir_module *m, int64_t size, uint32_t cut,
	  const uint32_t *at, struct ir_pieces *out)
{
	struct ir_pieces next;

	*out = (struct ir_pieces){ .n = 1, .total = size };
	out->at[0].count = size;
	for (; cut; cut >>= 4) {
		const struct ir_axis *a = &m->axes.at[cut & 15];
		int64_t parts = a->balanced ? 2 * a->size : a->size;
		int64_t c = (out->total + parts - 1) / parts;
		int64_t i = at[cut & 15];

		next = (struct ir_pieces){ 0 };
		take(out, i * c, (i + 1) * c, &next);
		if (a->balanced) {
			take(out, (parts - 1 - i) * c, (parts - i) * c, &next);
		}
		*out = next;
	}
}

int64_t
ir_most(const struct ir_module *m, int64_t size, uint32_t cut)
{
	for (; cut; cut >>= 4) {
		const struct ir_axis *a = &m->axes.at[cut & 15];
		int64_t parts = a->balanced ? 2 * a->size : a->size;
		int64_t c = (size + parts - 1) / parts;

		c = a->balanced ? 2 * c : c;
		size = c < size ? c : size;
	}
	return size;
}

bool
ir_is_balanced(const struct ir_module *m, uint32_t cut)
{
	for (; cut; cut >>= 4) {
		if (m->axes.at[cut & 15].balanced) {
			return true;
		}
	}
	return false;
}

uint32_t
ir_pieces_most(const struct ir_module *m, uint32_t cut)
{
	uint32_t n = 1;

	for (; cut; cut >>= 4) {
		n += m->axes.at[cut & 15].balanced;
	}
	return n;
}

int64_t
ir_pieces_at(const struct ir_pieces *p, int64_t i)
{
	uint32_t k;

	for (k = 0; k < p->n; k++) {
		if (i < p->at[k].count) {
			return p->at[k].start + i;
		}
		i -= p->at[k].count;
	}
	die("a place outside of a list of positions");
}

int64_t
ir_pieces_find(const struct ir_pieces *p, int64_t position)
{
	int64_t before = 0;
	uint32_t k;

	for (k = 0; k < p->n; k++) {
		int64_t i = position - p->at[k].start;

		if (i >= 0 && i < p->at[k].count) {
			return before + i;
		}
		before += p->at[k].count;
	}
	return -1;
}

/* ---- a whole tensor ---- */

double
ir_most_elems(const struct ir_module *m, const struct ir_type *t)
{
	double v = 1;
	axis_id a;
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		int64_t size = ir_dim_size(m, t->dims[i]);

		v *= (double)(t->cut[i] ? ir_most(m, size, t->cut[i]) : size);
	}
	for (a = 1; t->routed && a < m->axes.n; a++) {
		if (t->routed >> (a - 1) & 1) {
			v = ceil(v / (double)m->axes.at[a].size);
		}
	}
	return v;
}

int64_t
ir_row_pitch(enum ir_dtype t, int64_t n)
{
	static const int64_t units[] = { 128, 16 };	/* bytes */
	int64_t bits = ir_dtypes[t].bits;
	size_t i;

	for (i = 0; bits >= 8 && i < sizeof units / sizeof units[0]; i++) {
		int64_t unit = 8 * units[i] / bits;
		int64_t apart = num_ceil_div(n, unit) * unit;

		if (16 * (apart - n) <= n) {
			return apart;
		}
	}
	return n;
}

void
ir_local(const struct ir_module *m, const struct ir_type *t,
	 const uint32_t *at, struct ir_local *out)
{
	uint32_t i;

	out->ndims = t->ndims;
	out->elems = 1;
	for (i = 0; i < t->ndims; i++) {
		out->whole[i] = ir_dim_size(m, t->dims[i]);
		ir_pieces(m, out->whole[i], at ? t->cut[i] : 0, at,
			  &out->dims[i]);
		if (!num_mul(out->elems, out->dims[i].total, &out->elems)) {
			die("a type with too many elements: verify first");
		}
	}
}

int64_t
ir_local_at(const struct ir_local *l, int64_t i)
{
	int64_t at = 0, stride = 1;
	uint32_t k;

	for (k = l->ndims; k-- > 0; ) {
		int64_t n = l->dims[k].total;

		at += ir_pieces_at(&l->dims[k], i % n) * stride;
		stride *= l->whole[k];
		i /= n;
	}
	return at;
}

int64_t
ir_local_find(const struct ir_local *l, int64_t at)
{
	int64_t i = 0, stride = 1;
	uint32_t k;

	for (k = l->ndims; k-- > 0; ) {
		int64_t j = ir_pieces_find(&l->dims[k], at % l->whole[k]);

		if (j < 0) {
			return -1;
		}
		i += j * stride;
		stride *= l->dims[k].total;
		at /= l->whole[k];
	}
	return i;
}

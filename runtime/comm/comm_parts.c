/*
 * What one member of a collective has of what another one wants, and the
 * scratch that a GPU needs to pack it: NCCL sends and receives contiguous
 * memory only. The compiler reserves scratch by these functions and the runtime
 * uses it by the same ones, so both always agree.
 */
#include "runtime/comm/transport.h"

enum { ALIGN = 256 };

static void
find_runs(const struct rt_pieces *in, const struct rt_pieces *out,
	  struct rt_overlap *x, int64_t dim)
{
	struct rt_overlap_run *runs = x->runs[dim], r;
	int64_t at[2], i, k, lo, hi, n = 0;

	x->size[dim][RT_PACKED] = 0;
	for (i = 0, at[1] = 0; i < out->n; at[1] += out->at[i++].count) {
		for (k = 0, at[0] = 0; k < in->n; at[0] += in->at[k++].count) {
			int64_t a = in->at[k].start, b = out->at[i].start;

			lo = a > b ? a : b;
			hi = a + in->at[k].count;
			hi = hi < b + out->at[i].count ? hi
				: b + out->at[i].count;
			if (hi <= lo) {
				continue;
			}
			r.at[RT_IN] = at[0] + lo - a;
			r.at[RT_PACKED] = x->size[dim][RT_PACKED];
			r.at[RT_OUT] = at[1] + lo - b;
			r.n = hi - lo;
			x->size[dim][RT_PACKED] += r.n;
			runs[n++] = r;
		}
	}
	x->nruns[dim] = n;
	x->size[dim][RT_IN] = in->total;
	x->size[dim][RT_OUT] = out->total;
}

static bool
one_run(const struct rt_overlap *x, int64_t dim, int layout)
{
	const struct rt_overlap_run *r = x->runs[dim];
	int64_t i;

	for (i = 1; i < x->nruns[dim]; i++) {
		if (r[i].at[layout] != r[i - 1].at[layout] + r[i - 1].n) {
			return false;
		}
	}
	return true;
}

/* The overlap is dense if all dims after the first one of several positions are
 * whole. */
void
rt_overlap(const struct rt_pieces *const *in,
	   const struct rt_pieces *const *out, int64_t ndims,
	   struct rt_overlap *x)
{
	bool single = true;
	int64_t i, n;
	int k;

	x->elems = 1;
	x->ndims = ndims;
	x->dense[RT_IN] = x->dense[RT_PACKED] = x->dense[RT_OUT] = true;
	for (i = 0; i < ndims; i++) {
		find_runs(in[i], out[i], x, i);
		n = x->size[i][RT_PACKED];
		x->elems *= n;
		for (k = 0; k < RT_LAYOUTS; k++) {
			x->dense[k] = x->dense[k] && one_run(x, i, k) &&
				      (single || n == x->size[i][k]);
		}
		single = single && n == 1;
	}
}

/* ---- scratch ---- */

bool
rt_packs_out(const struct rt_overlap *x)
{
	return x->elems > 0 && !x->dense[RT_IN];
}

bool
rt_packs_in(const struct rt_overlap *x, bool sums)
{
	return x->elems > 0 && (sums || !x->dense[RT_OUT]);
}

int64_t
rt_pack_bytes(const struct rt_overlap *x, int64_t elem_bytes)
{
	return (x->elems * elem_bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Whether every member wants just what it has, so that nothing moves. */
static bool
nothing_moves(const struct rt_pieces *const *in,
	      const struct rt_pieces *const *out, int64_t n)
{
	int64_t i;

	for (i = 0; i < n && rt_pieces_equal(in[i], out[i]); i++) {
	}
	return i == n;
}

int64_t
rt_pack_total(const struct rt_pieces *const *in,
	      const struct rt_pieces *const *out, int64_t n, int64_t ndims,
	      int64_t me, int64_t elem_bytes, bool sums)
{
	struct rt_overlap x;
	int64_t bytes = 0, i;

	if (n == 1 || nothing_moves(in, out, n * ndims)) {
		return 0;
	}
	for (i = 0; i < n; i++) {
		rt_overlap(in + me * ndims, out + i * ndims, ndims, &x);
		bytes += rt_packs_out(&x) ? rt_pack_bytes(&x, elem_bytes) : 0;
		rt_overlap(in + i * ndims, out + me * ndims, ndims, &x);
		bytes += rt_packs_in(&x, sums) ? rt_pack_bytes(&x, elem_bytes)
					      : 0;
	}
	return bytes;
}

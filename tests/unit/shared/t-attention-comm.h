/*
 * What ranks receive of each other between two functions of a kernel: shards,
 * or their sums, as the step says.  A part of t-attention.h, with its `s`.
 */
#ifndef T_ATTENTION_COMM_H
#define T_ATTENTION_COMM_H

/* Row-major places of a rank's elements in the whole value. */
static void
find_places(const struct rank *r, const struct cg_spread *d, uint32_t n,
	    struct ir_local *l)
{
	uint32_t i;

	*l = (struct ir_local){ .ndims = n, .elems = 1 };
	for (i = 0; i < n; i++) {
		l->whole[i] = d[i].size;
		ir_pieces(s.m, d[i].size, d[i].cut, r->at, &l->dims[i]);
		l->elems *= l->dims[i].total;
	}
}

static bool
same_group(const struct rank *a, const struct rank *b, uint32_t axes)
{
	axis_id x;

	for (x = 1; x < s.m->axes.n; x++) {
		if (!(axes >> x & 1) && a->at[x] != b->at[x]) {
			return false;
		}
	}
	return true;
}

static void
receive(struct rank *to, uint32_t kernel, uint32_t step)
{
	const struct cg_step *x = &to->k[kernel].steps.at[step];
	struct ir_local in, out;
	int64_t i, j, found;
	uint32_t r;
	float *a;

	find_places(to, x->to, x->ndims, &out);
	a = (float *)(to->shared + x->out);
	for (i = 0; i < out.elems; i++) {
		a[i] = 0;
		found = 0;
		for (r = 0; r < s.nranks; r++) {
			struct rank *from = &s.ranks[r];

			if (!same_group(to, from, x->axes)) {
				continue;
			}
			find_places(from, from->k[kernel].steps.at[step].from,
				    x->ndims, &in);
			j = ir_local_find(&in, ir_local_at(&out, i));
			if (j >= 0) {
				a[i] += ((float *)(from->shared +
					from->k[kernel].steps.at[step].in))[j];
				found++;
			}
		}
		assert_true(x->op == RT_COLL_SUM ? found > 0 : found == 1);
	}
}

#endif

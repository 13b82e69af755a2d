/*
 * From the offsets of a value in all iterations and microbatches to the
 * simplest code that computes them.  Whatever determined an offset (slots,
 * carried values, the first iteration), here it is a function of counters.
 */
#include "codegen/host/host.h"

/* The distance of neighbours along each counter; how many values in all. */
static uint64_t
steps_of(const struct host_fit *f, uint64_t step[HOST_MAX_VARS])
{
	uint64_t total = 1;
	uint32_t i;

	for (i = f->n; i-- > 0; ) {
		step[i] = total;
		total *= f->by[i].count;
	}
	return total;
}

/* Whether the values are a sum of functions of one counter each. */
static bool
is_sum(const struct host_fit *f, const int64_t *at)
{
	uint64_t step[HOST_MAX_VARS], total = steps_of(f, step), i;
	int64_t sum;
	uint32_t k;

	for (i = 0; i < total; i++) {
		sum = at[0];
		for (k = 0; k < f->n; k++) {
			sum += at[i / step[k] % f->by[k].count * step[k]] -
			       at[0];
		}
		if (sum != at[i]) {
			return false;
		}
	}
	return true;
}

static void
fit_one(struct arena *a, struct host_fit *f, uint32_t k, uint64_t step,
	const int64_t *at)
{
	uint32_t n = f->by[k].count, i;
	int64_t stride = n > 1 ? at[step] - at[0] : 0, *table;

	for (i = 0; i < n && at[i * step] - at[0] == i * stride; i++) {
	}
	f->by[k].stride = stride;
	if (i == n) {
		return;
	}
	table = arena_alloc(a, n * sizeof *table);
	for (i = 0; i < n; i++) {
		table[i] = at[i * step] - at[0];
	}
	f->by[k].table = table;
}

static bool
matters(const struct host_fit *f, uint32_t k, uint64_t step, uint64_t total,
	const int64_t *at)
{
	uint64_t i;

	for (i = 0; i < total; i++) {
		if (at[i] != at[i - i / step % f->by[k].count * step]) {
			return true;
		}
	}
	return false;
}

/* A table over the counters that matter. */
static void
fit_all(struct arena *a, struct host_fit *f, const int64_t *at)
{
	uint64_t step[HOST_MAX_VARS], total = steps_of(f, step), n = 0, i;
	int64_t *all = arena_alloc(a, total * sizeof *all);
	uint32_t k;
	bool counts;

	for (k = 0; k < f->n; k++) {
		f->by[k].matters = matters(f, k, step[k], total, at);
	}
	for (i = 0; i < total; i++) {
		counts = true;
		for (k = 0; k < f->n; k++) {
			counts &= f->by[k].matters ||
				  i / step[k] % f->by[k].count == 0;
		}
		if (counts) {
			all[n++] = at[i];
		}
	}
	f->all = all;
}

void
host_find_fit(struct arena *a, const uint32_t *counts, uint32_t n,
	 const int64_t *at, struct host_fit *out)
{
	uint64_t step[HOST_MAX_VARS];
	uint32_t k;

	*out = (struct host_fit){ .base = at[0], .n = n };
	for (k = 0; k < n; k++) {
		out->by[k].count = counts[k];
	}
	if (!is_sum(out, at)) {
		fit_all(a, out, at);
		return;
	}
	steps_of(out, step);
	for (k = 0; k < n; k++) {
		fit_one(a, out, k, step[k], at);
	}
}

bool
host_fit_constant(const struct host_fit *f)
{
	bool moves = f->all != NULL;
	uint32_t k;

	for (k = 0; k < f->n; k++) {
		moves |= f->by[k].table || f->by[k].stride;
	}
	return !moves;
}

int64_t
host_fit_at(const struct host_fit *f, const uint32_t *at)
{
	int64_t v = f->base;
	uint64_t i = 0;
	uint32_t k;

	for (k = 0; k < f->n; k++) {
		if (f->by[k].matters) {
			i = i * f->by[k].count + at[k];
		}
		v += f->by[k].table ? f->by[k].table[at[k]]
				    : f->by[k].stride * at[k];
	}
	return f->all ? f->all[i] : v;
}

static struct ll_value *
looked_up(struct ll *l, const int64_t *table, uint64_t n,
	  struct ll_value *at)
{
	struct ll_value *data = ll_table(l, table, (uint32_t)n);

	at = ll_bin(l, LL_MUL, at, ll_i64(l, 8));
	return ll_load(l, ll_type(LL_I64, 1), ll_plus(l, data, at));
}

static struct ll_value *
from_all(struct ll *l, const struct host_fit *f, struct ll_value *const *at)
{
	struct ll_value *i = ll_i64(l, 0);
	uint64_t n = 1;
	uint32_t k;

	for (k = 0; k < f->n; k++) {
		if (f->by[k].matters) {
			i = ll_bin(l, LL_MUL, i, ll_i64(l, f->by[k].count));
			i = ll_bin(l, LL_ADD, i, at[k]);
			n *= f->by[k].count;
		}
	}
	return looked_up(l, f->all, n, i);
}

struct ll_value *
host_fit_value(struct ll *l, const struct host_fit *f,
	       struct ll_value *const *at)
{
	struct ll_value *v = ll_i64(l, f->base), *more;
	uint32_t k;

	if (f->all) {
		return from_all(l, f, at);
	}
	for (k = 0; k < f->n; k++) {
		if (f->by[k].table) {
			more = looked_up(l, f->by[k].table, f->by[k].count,
					 at[k]);
		} else if (f->by[k].stride) {
			more = ll_bin(l, LL_MUL, at[k],
				      ll_i64(l, f->by[k].stride));
		} else {
			continue;
		}
		v = ll_bin(l, LL_ADD, v, more);
	}
	return v;
}

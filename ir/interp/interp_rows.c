/*
 * Ops on rows: sums, means, maxima, norms, cross entropy.  A row may be split
 * over ranks: then each rank computes what it can of its part, and the group
 * adds that up, or takes the maximum, before the next step.
 */
#include "ir/interp/interp.h"

#include <float.h>
#include <math.h>

static double
row_sum(const double *x, struct interp_nest *w)
{
	double sum = 0;
	bool i;

	for (i = ir_nest_start(w); i; i = ir_nest_next(w)) {
		sum += x[w->in_off[0]];
	}
	return sum;
}

/* The sum of (x - from)^2. */
static double
row_square(const double *x, double from, struct interp_nest *w)
{
	double sum = 0;
	bool i;

	for (i = ir_nest_start(w); i; i = ir_nest_next(w)) {
		sum += (x[w->in_off[0]] - from) * (x[w->in_off[0]] - from);
	}
	return sum;
}

static double
row_max(const double *x, double from, struct interp_nest *w)
{
	double max = -INFINITY;
	bool i;

	(void)from;
	for (i = ir_nest_start(w); i; i = ir_nest_next(w)) {
		max = x[w->in_off[0]] > max ? x[w->in_off[0]] : max;
	}
	return max;
}

static double
row_largest(const double *x, double from, struct interp_nest *w)
{
	double most = 0, v;
	bool i;

	(void)from;
	for (i = ir_nest_start(w); i; i = ir_nest_next(w)) {
		v = fabs(x[w->in_off[0]]);
		most = v > most ? v : most;
	}
	return most;
}

/*
 * The sum of e^(x - max) over the row.  Of a row that has -inf alone it is 0,
 * where -inf less -inf would be NaN: the log of the sum is -inf, as its limit
 * is, and what is divided by the sum is NaN.
 */
static double
row_exp(const double *x, double max, struct interp_nest *w)
{
	double sum = 0;
	bool i;

	max = fmax(max, -DBL_MAX);
	for (i = ir_nest_start(w); i; i = ir_nest_next(w)) {
		sum += exp(x[w->in_off[0]] - max);
	}
	return sum;
}

static double
row_plain(const double *x, double from, struct interp_nest *w)
{
	(void)from;
	return row_sum(x, w);
}

/* The elements of a row, including those on other ranks. */
static double
row_size(const struct interp *e, const struct ir_rule *r)
{
	const struct ir_factor *over = ir_rule_factor(r, "over");
	double size = 1;
	uint32_t i;

	for (i = 0; i < over->n; i++) {
		size *= (double)ir_dim_size(e->m, over->dims[i]);
	}
	return size;
}

bool
ir_eval_sum(struct interp *e, const struct ir_node *n, double *out)
{
	const double *x = interp_arg(e, n, 0);
	struct interp_nest o, w;
	struct ir_rule r;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A");
	ir_nest(e, n, &r, &w, "over");
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		out[o.out_off] = row_sum(x + o.in_off[0], &w);
	}
	return true;
}

/* Of a split row this is the rank's part of the mean, to be summed. */
bool
ir_eval_mean(struct interp *e, const struct ir_node *n, double *out)
{
	const double *x = interp_arg(e, n, 0);
	struct interp_nest o, w;
	struct ir_rule r;
	double size;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A");
	ir_nest(e, n, &r, &w, "over");
	size = row_size(e, &r);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		out[o.out_off] = row_sum(x + o.in_off[0], &w) / size;
	}
	return true;
}

/*
 * Rows that may be split over ranks: partial results are summed, or their
 * maximum taken, over all ranks that have a part.
 */
struct interp_rows {
	struct interp *e;
	const struct ir_node *n;
	struct ir_rule r;
	struct interp_nest o, w;	/* over rows, in a row */
	int64_t count;
	struct interp_block *known[2];	/* by row */
	uint32_t nknown;
};

static void
bind_rows(struct interp_rows *s, struct interp *e, const struct ir_node *n,
	  const char *row)
{
	s->e = e;
	s->n = n;
	s->nknown = 0;
	ir_bind(e->m, n, &s->r);
	ir_nest(e, n, &s->r, &s->o, "A");
	ir_nest(e, n, &s->r, &s->w, row);
	s->count = ir_nest_elems(&s->o);
}

/*
 * Computes f of each row from what is known of it so far, and combines it over
 * ranks; NULL if the machine waits.
 */
static double *
learn(struct interp_rows *s, enum interp_how how,
      double (*f)(const double *x, double from, struct interp_nest *w))
{
	struct interp_block *b = ir_interp_get(s->e, s->n, s->count);
	const double *x = interp_arg(s->e, s->n, 0), *from = NULL;
	int64_t row = 0;
	bool i;

	if (!b) {
		return NULL;
	}
	if (s->nknown > 0) {
		from = s->known[s->nknown - 1]->data;
	}
	for (i = ir_nest_start(&s->o); i; i = ir_nest_next(&s->o), row++) {
		b->data[row] = f(x + s->o.in_off[0], from ? from[row] : 0,
				 &s->w);
	}
	if (!ir_interp_reduce(s->e, s->n, how, b->data, s->count)) {
		return NULL;
	}
	s->known[s->nknown++] = b;
	return b->data;
}

static void
release_rows(struct interp_rows *s)
{
	while (s->nknown > 0) {
		ir_interp_put(s->e, s->known[--s->nknown]);
	}
}

bool
ir_eval_amax(struct interp *e, const struct ir_node *n, double *out)
{
	const double *most;
	struct interp_rows s;
	int64_t row = 0;
	bool i;

	bind_rows(&s, e, n, "over");
	most = learn(&s, INTERP_MAX, row_largest);
	if (!most) {
		return false;
	}
	for (i = ir_nest_start(&s.o); i; i = ir_nest_next(&s.o), row++) {
		out[s.o.out_off] = most[row];
	}
	release_rows(&s);
	return true;
}

/* The maximum of each row, and the sum of e^(x - max) over it. */
static bool
learn_exp(struct interp_rows *s, const double **max, const double **sum)
{
	*max = learn(s, INTERP_MAX, row_max);
	*sum = *max ? learn(s, INTERP_SUM, row_exp) : NULL;
	return *sum != NULL;
}

bool
ir_eval_softmax(struct interp *e, const struct ir_node *n, double *out)
{
	const double *max, *sum;
	struct interp_rows s;
	int64_t row = 0;
	bool i, j;

	bind_rows(&s, e, n, "over");
	if (!learn_exp(&s, &max, &sum)) {
		return false;
	}
	for (i = ir_nest_start(&s.o); i; i = ir_nest_next(&s.o), row++) {
		const double *x = interp_arg(e, n, 0) + s.o.in_off[0];

		for (j = ir_nest_start(&s.w); j; j = ir_nest_next(&s.w)) {
			out[s.o.out_off + s.w.out_off] =
				exp(x[s.w.in_off[0]] - max[row]) / sum[row];
		}
	}
	release_rows(&s);
	return true;
}

bool
ir_eval_rmsnorm(struct interp *e, const struct ir_node *n, double *out)
{
	double eps = ir_attr_num(e->m, n, IR_ATTR_EPS, 0), size;
	const double *g = interp_arg(e, n, 1), *square;
	struct interp_rows s;
	int64_t row = 0;
	bool i, j;

	bind_rows(&s, e, n, "over");
	size = row_size(e, &s.r);
	square = learn(&s, INTERP_SUM, row_square);
	if (!square) {
		return false;
	}
	for (i = ir_nest_start(&s.o); i; i = ir_nest_next(&s.o), row++) {
		const double *x = interp_arg(e, n, 0) + s.o.in_off[0];
		double root = sqrt(square[row] / size + eps);

		for (j = ir_nest_start(&s.w); j; j = ir_nest_next(&s.w)) {
			out[s.o.out_off + s.w.out_off] =
				x[s.w.in_off[0]] / root * g[s.w.in_off[1]];
		}
	}
	release_rows(&s);
	return true;
}

bool
ir_eval_layernorm(struct interp *e, const struct ir_node *n, double *out)
{
	const double *g = interp_arg(e, n, 1), *b = interp_arg(e, n, 2);
	double eps = ir_attr_num(e->m, n, IR_ATTR_EPS, 0), size;
	double *mean;
	const double *square;
	struct interp_rows s;
	int64_t row;
	bool i, j;

	bind_rows(&s, e, n, "over");
	size = row_size(e, &s.r);
	mean = learn(&s, INTERP_SUM, row_plain);
	for (row = 0; mean && row < s.count; row++) {
		mean[row] /= size;
	}
	square = mean ? learn(&s, INTERP_SUM, row_square) : NULL;
	if (!square) {
		return false;
	}
	row = 0;
	for (i = ir_nest_start(&s.o); i; i = ir_nest_next(&s.o), row++) {
		const double *x = interp_arg(e, n, 0) + s.o.in_off[0];
		double root = sqrt(square[row] / size + eps);

		for (j = ir_nest_start(&s.w); j; j = ir_nest_next(&s.w)) {
			out[s.o.out_off + s.w.out_off] =
				(x[s.w.in_off[0]] - mean[row]) / root *
				g[s.w.in_off[1]] + b[s.w.in_off[2]];
		}
	}
	release_rows(&s);
	return true;
}

bool
ir_eval_log_sum_exp(struct interp *e, const struct ir_node *n, double *out)
{
	const double *max, *sum;
	struct interp_rows s;
	int64_t row = 0;
	bool i;

	bind_rows(&s, e, n, "over");
	if (!learn_exp(&s, &max, &sum)) {
		return false;
	}
	for (i = ir_nest_start(&s.o); i; i = ir_nest_next(&s.o), row++) {
		out[s.o.out_off] = max[row] + log(sum[row]);
	}
	release_rows(&s);
	return true;
}

/* The label's logit of each row, or 0 if it is on another rank. */
static bool
label_logits(struct interp_rows *s, double *logit)
{
	const double *x = interp_arg(s->e, s->n, 0);
	const double *label = interp_arg(s->e, s->n, 1);
	struct interp_index of;
	int64_t k;
	bool i;

	ir_interp_of(s->e, s->n, &s->r, &of);
	for (i = ir_nest_start(&s->o); i; i = ir_nest_next(&s->o)) {
		if (!ir_interp_index(s->e, s->n, label[s->o.in_off[1]], &of,
				     &k)) {
			return false;
		}
		*logit++ = k < 0 ? 0 : x[s->o.in_off[0] +
					 k * s->w.in[0][0]];
	}
	return true;
}

bool
ir_eval_cross_entropy(struct interp *e, const struct ir_node *n, double *out)
{
	struct interp_block *logit;
	const double *max, *sum;
	struct interp_rows s;
	int64_t row = 0;
	bool i;

	bind_rows(&s, e, n, "of");
	logit = learn_exp(&s, &max, &sum) ? ir_interp_get(e, n, s.count) : NULL;
	if (!logit || !label_logits(&s, logit->data) ||
	    !ir_interp_reduce(e, n, INTERP_SUM, logit->data, s.count)) {
		return false;
	}
	for (i = ir_nest_start(&s.o); i; i = ir_nest_next(&s.o), row++) {
		out[s.o.out_off] = max[row] + log(sum[row]) -
				   logit->data[row];
	}
	ir_interp_put(e, logit);
	release_rows(&s);
	return true;
}

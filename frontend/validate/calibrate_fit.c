/*
 * Fits the constants of docs/cost.md to measured times, using the formulas that
 * price plans.  Rates are the best that was reached.  The other constants
 * minimize the mean |error| of logarithms, so that half of a time is as wrong
 * as twice of it: first on a coarse grid, then on finer ones around the best
 * point.  The same points give the same constants.
 */
#include "frontend/validate/calibrate.h"

#include "frontend/frontend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum target_rate
cal_rate(enum rt_rate r)
{
	static const enum target_rate rates[RT_RATES] = {
		[RT_RATE_FP32] = TARGET_FP32, [RT_RATE_TF32] = TARGET_TF32,
		[RT_RATE_BF16] = TARGET_BF16, [RT_RATE_FP16] = TARGET_FP16
	};

	return rates[r];
}

double
cal_weight_bytes(const struct cal_point *p)
{
	return p->matmul.n * p->matmul.k * (p->matmul.stored_bytes > 0
		? p->matmul.stored_bytes : cost_rate_bytes(p->matmul.rate));
}

/* As where a program that serves is priced. */
static double
predict_read(const struct target_device *d, const struct cal_point *p)
{
	const struct cost_contraction *x = &p->matmul;
	double moved = x->m * (x->k * cost_rate_bytes(x->rate) +
			       x->n * x->out_bytes);

	return cost_read_us(d, (cal_weight_bytes(p) + moved) /
			    d->read_bytes_us, cost_contraction(d, x).math_us) +
	       d->launch_us;
}

double
cal_predict(const struct target_group *t, const struct cal_point *p)
{
	struct cost_group g = { .per_node = p->coll.ranks, .nodes = 1,
				.sharing = 1 };

	switch (p->group) {
	case CAL_MATMUL:
		return cost_contraction(&t->device, &p->matmul).us;
	case CAL_READ:
		return predict_read(&t->device, p);
	case CAL_ATTEND:
		return cost_attention(&t->device, &p->attend).us;
	case CAL_KEYS:
		return cost_keys(&t->device, &p->keys).us +
		       t->device.launch_us;
	case CAL_STREAM:
		return cost_bytes(&t->device, COST_MAP, p->bytes).us;
	case CAL_COMM:
		return cost_collective(t, p->coll.op, &g, p->coll.bytes,
				       NULL).us;
	default:
		return t->device.launch_us;
	}
}

static double
error_of(const struct target_group *t, const struct cal_point *p)
{
	return fabs(cal_predict(t, p) / p->s.low_us - 1);
}

/* ---- the search ---- */

enum { MOST_KNOBS = 3, COARSE = 13, FINE = 5, ROUNDS = 14 };

/* A constant and its bounds; grid steps have equal ratios. */
struct knob {
	size_t at;	/* offset in struct target_device */
	double lo, hi;
};

/* A fit of some constants to those points that takes() selects. */
struct point_fit {
	struct cal *c;
	const struct knob *knobs;
	int nknobs;
	bool (*takes)(const struct cal_point *p);
	double best;
	double at[MOST_KNOBS];
};

static double *
knob_of(struct cal *c, const struct knob *k)
{
	return (double *)(void *)((char *)&c->fitted.device + k->at);
}

static double
mean_error(const struct point_fit *f)
{
	double sum = 0;
	uint32_t i, n = 0;

	for (i = 0; i < f->c->points.n; i++) {
		const struct cal_point *p = &f->c->points.at[i];

		if (f->takes(p)) {
			sum += fabs(log(cal_predict(&f->c->fitted, p) /
					p->s.low_us));
			n++;
		}
	}
	return n ? sum / n : 0;
}

/*
 * Tries all points of a grid that has n points from lo to hi along each side.
 */
static void
try_grid(struct point_fit *f, const double *lo, const double *hi, int n)
{
	int all = 1, place, k;

	for (k = 0; k < f->nknobs; k++) {
		all *= n;
	}
	for (place = 0; place < all; place++) {
		double at[MOST_KNOBS], error;
		int rest = place;

		for (k = 0; k < f->nknobs; k++, rest /= n) {
			at[k] = lo[k] * pow(hi[k] / lo[k],
					    (double)(rest % n) / (n - 1));
			*knob_of(f->c, &f->knobs[k]) = at[k];
		}
		error = mean_error(f);
		if (error < f->best) {
			f->best = error;
			memcpy(f->at, at, sizeof at);
		}
	}
}

static void
search(struct point_fit *f)
{
	double lo[MOST_KNOBS], hi[MOST_KNOBS], ratio[MOST_KNOBS];
	int round, k;

	f->best = INFINITY;
	for (k = 0; k < f->nknobs; k++) {
		lo[k] = f->knobs[k].lo;
		hi[k] = f->knobs[k].hi;
		ratio[k] = pow(hi[k] / lo[k], 1.0 / (COARSE - 1));
	}
	try_grid(f, lo, hi, COARSE);
	for (round = 0; round < ROUNDS; round++) {
		for (k = 0; k < f->nknobs; k++) {
			lo[k] = fmax(f->knobs[k].lo, f->at[k] / ratio[k]);
			hi[k] = fmin(f->knobs[k].hi, f->at[k] * ratio[k]);
			ratio[k] = pow(ratio[k], 0.6);
		}
		try_grid(f, lo, hi, FINE);
	}
	for (k = 0; k < f->nknobs; k++) {
		*knob_of(f->c, &f->knobs[k]) = f->at[k];
	}
}

/* ---- what is fitted to what ---- */

/* With at most so many rows, memory bandwidth limits a contraction. */
#define FEW_ROWS 16

static bool
is_matmul(const struct cal_point *p)
{
	return p->group == CAL_MATMUL;
}

static bool
is_read(const struct cal_point *p)
{
	return p->group == CAL_READ && p->matmul.stored_bytes == 0;
}

static bool
is_narrow_read(const struct cal_point *p)
{
	return p->group == CAL_READ && p->matmul.stored_bytes == 1;
}

static bool
is_int4_read(const struct cal_point *p)
{
	return p->group == CAL_READ && p->matmul.stored_bytes > 0 &&
	       p->matmul.stored_bytes < 1;
}

static bool
is_memory(const struct cal_point *p)
{
	return p->group == CAL_STREAM ||
	       (p->group == CAL_MATMUL && p->matmul.m <= FEW_ROWS);
}

static bool
is_attention(const struct cal_point *p)
{
	return p->group == CAL_ATTEND;
}

static bool
is_keys(const struct cal_point *p)
{
	return p->group == CAL_KEYS;
}

static bool
is_comm(const struct cal_point *p)
{
	return p->group == CAL_COMM;
}

#define AT(member) offsetof(struct target_device, member)

/* Far beyond sane values; for efficiencies above 1 see move_excess(). */
#define MOST_EFF 1.5

static const struct knob matrix_knobs[] = {
	{ AT(matrix_eff), 0.05, MOST_EFF },
	{ AT(matrix_fill), 0.5, 5000 },
	{ AT(matrix_feed), 0.5, 5000 }
};
static const struct knob memory_knobs[] = {
	{ AT(memory_eff), 0.02, MOST_EFF }
};
static const struct knob attention_knobs[] = {
	{ AT(attention_eff), 0.02, MOST_EFF }, { AT(attention_fill), 0.5, 5000 }
};
static const struct knob widen_knobs[] = { { AT(widen_rows), 0.01, 32 } };
static const struct knob int4_knobs[] = { { AT(widen_int4_rows), 0.01, 64 } };
/* Of a rate that contractions reach; what is not hidden is at most all. */
static const struct knob keys_knobs[] = {
	{ AT(keys_eff), 0.02, 1 }, { AT(keys_shown), 0.001, 1 }
};
static const struct knob link_knobs[] = {
	{ AT(link_eff), 0.02, MOST_EFF }, { AT(link_start_us), 0.01, 1000 },
	{ AT(link_hop_us), 0.01, 1000 }
};

static bool
has(const struct cal *c, bool (*takes)(const struct cal_point *p))
{
	uint32_t i;

	for (i = 0; i < c->points.n; i++) {
		if (takes(&c->points.at[i])) {
			return true;
		}
	}
	return false;
}

static void
fit_constants(struct cal *c, const struct knob *knobs, int n,
	      bool (*takes)(const struct cal_point *p))
{
	struct point_fit f = { .c = c, .knobs = knobs, .nknobs = n,
			 .takes = takes };

	if (has(c, takes)) {
		search(&f);
	}
}

/*
 * What is not measured keeps the constants of a100-sxm, as the file then
 * states; for what is measured they are the start of the search.
 */
static void
set_defaults(struct cal *c)
{
	struct target_device *d = &c->fitted.device;
	const struct target_device *other;
	struct target t;

	if (!fe_target(&c->d->ctx, "a100-sxm", &t)) {
		die("a100-sxm is built in");
	}
	other = &t.groups.at[0].device;
	d->matrix_eff = other->matrix_eff;
	d->matrix_fill = other->matrix_fill;
	d->matrix_feed = other->matrix_feed;
	d->memory_eff = other->memory_eff;
	d->attention_eff = other->attention_eff;
	d->attention_fill = other->attention_fill;
	d->link_eff = other->link_eff;
	d->link_start_us = other->link_start_us;
	d->link_hop_us = other->link_hop_us;
}

/* Nothing is read faster than the best of the points, which computes too. */
#define MOST_READ 4

/* By the rates of contractions, which are fitted before. */
static void
fit_reads(struct cal *c)
{
	double best = c->fitted.device.read_bytes_us;
	const struct knob knobs[] = {
		{ AT(read_bytes_us), best, MOST_READ * best },
		{ AT(read_shown), 0.001, 1 }
	};

	fit_constants(c, knobs, 2, is_read);
}

/* The best rates: flops or bytes over time, without a launch. */
static void
set_rates(struct cal *c)
{
	struct target_device *d = &c->fitted.device;
	uint32_t i;

	for (i = 0; i < c->points.n; i++) {
		const struct cal_point *p = &c->points.at[i];
		double us = p->s.low_us, rate, *to;

		us -= fmin(d->launch_us, us / 2);
		rate = p->work / us;

		switch (p->group) {
		case CAL_MATMUL:
			to = &d->flops_us[p->matmul.rate];
			break;
		case CAL_READ:
			to = &d->read_bytes_us;
			break;
		case CAL_STREAM:
			to = &d->memory_bytes_us;
			break;
		case CAL_COMM:
			/* bytes that a ring sends over one link */
			rate = p->work / p->s.low_us;
			rate *= p->coll.op == COST_SEND ? 1 :
				(p->coll.op == COST_ALL_REDUCE ? 2.0 : 1.0) *
				(double)(p->coll.ranks - 1) /
				(double)p->coll.ranks;
			to = &d->link_bytes_us;
			break;
		case CAL_LAUNCH:
			/*
			 * more is a wait for a core; a target file allows 0.01
			 * to 1000
			 */
			d->launch_us = fmin(fmax(p->s.low_us, 0.01),
					    1000);
			continue;
		default:
			continue;
		}
		*to = fmax(*to, rate);
	}
}

/*
 * A fitted efficiency can exceed 1, because even the best time of a shape
 * includes a prologue and a launch.  The excess is moved to the rate: formulas
 * contain only the product of both.
 */
static void
move_excess(double *eff, double *rate, double *also)
{
	if (*eff > 1) {
		*rate *= *eff;
		if (also) {
			*also /= *eff;
		}
		*eff = 1;
	}
}

static void
move_all_excess(struct target_device *d)
{
	double flops = 1, over;
	int r;

	move_excess(&d->matrix_eff, &flops, &d->attention_eff);
	over = 1;
	move_excess(&d->attention_eff, &over, &d->matrix_eff);
	for (r = 0; r < TARGET_NRATES; r++) {
		d->flops_us[r] *= flops * over;
	}
	d->keys_eff /= flops * over;
	move_excess(&d->memory_eff, &d->memory_bytes_us, NULL);
	move_excess(&d->link_eff, &d->link_bytes_us, NULL);
	/* the least that a target file allows */
	d->memory_bytes_us = fmax(d->memory_bytes_us, 1000);
}

/* ---- how well it holds ---- */

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static struct cal_error
errors_of(struct cal *c, enum cal_group group)
{
	struct cal_error e = { 0, 0, 0 };
	struct arena *a = &c->d->ctx.perm;
	double *all = arena_alloc(a, (c->points.n + 1) * sizeof *all);
	uint32_t i;

	for (i = 0; i < c->points.n; i++) {
		struct cal_point *p = &c->points.at[i];

		if (p->group == group) {
			p->predicted_us = cal_predict(&c->fitted, p);
			all[e.n++] = error_of(&c->fitted, p);
		}
	}
	if (e.n > 0) {
		qsort(all, e.n, sizeof *all, by_size);
		e.median = all[(e.n - 1) / 2];
		e.worst = all[e.n - 1];
	}
	return e;
}

void
cal_fit(struct cal *c)
{
	struct target_device *d = &c->fitted.device;
	int g, turn;

	c->fitted = (struct target_group){ .devices = 1, .nodes = 1 };
	d->arch = c->meter.facts.arch;
	d->units = c->meter.facts.units;
	d->clock_mhz = c->meter.facts.clock_mhz;
	d->memory_bytes = c->meter.facts.memory_bytes;
	set_defaults(c);
	set_rates(c);
	/* contractions of few rows depend on both: alternate */
	for (turn = 0; turn < 2; turn++) {
		fit_constants(c, memory_knobs, 1, is_memory);
		fit_constants(c, matrix_knobs, 3, is_matmul);
	}
	fit_reads(c);
	fit_constants(c, widen_knobs, 1, is_narrow_read);
	fit_constants(c, int4_knobs, 1, is_int4_read);
	fit_constants(c, attention_knobs, 2, is_attention);
	fit_constants(c, keys_knobs, 2, is_keys);
	fit_constants(c, link_knobs, 3, is_comm);
	move_all_excess(d);
	for (g = 0; g < CAL_GROUPS; g++) {
		c->errors[g] = errors_of(c, (enum cal_group)g);
	}
}

/*
 * What a rank takes at least, if its stages recompute so much that it fits.
 * With this a plan is left out before the programs of any slower way are made.
 *
 * That is a bound of a choice for each stage whose bytes have a price
 * (solve/lagrange.h): time is piece_stage_least with the maps of a way, bytes
 * are trial_sure_bytes.
 *
 * What ways take by the programs for one sequence, in sum, has a bound once
 * some are chosen.  By those of the plan's lengths another choice may be
 * quicker, by more than the former say.  So of ways that take at least that
 * sum, too, what counts is piece_stage_least: then a byte is what a way takes
 * less than the slowest.
 */
#include "passes/trial/trial_fit.h"
#include "passes/solve/lagrange.h"

#include <math.h>
#include <string.h>

static void
price_stage(const struct trial_rank *f, uint32_t stage, double *us)
{
	struct trial *x = f->x;
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	double least[SCHED_NKINDS];
	uint32_t c, k;

	for (c = 0; c < x->ways_of->at.n; c++) {
		const struct piece_choice *way = &x->ways_of->at.at[c];

		piece_stage_least(&x->s->space, x->cost, way->maps,
				  x->dev_of[stage], lo, hi, least);
		trial_raise_to_params(x, stage, least);
		trial_raise_to_saves(x, stage, way, least);
		for (k = 0, us[c] = 0; k < SCHED_NKINDS; k++) {
			us[c] += least[k];
		}
	}
}

/* Sets what stages take at least, by way. */
static void
price_ways(const struct trial_rank *f, struct lagrange *x)
{
	const uint32_t *like = f->x->like;
	uint32_t i;

	for (i = 0; i < x->n; i++) {
		double *us = &x->us[i * x->nways];

		if (i && like[f->of[i]] == like[f->of[i - 1]] &&
		    f->x->dev_of[f->of[i]] == f->x->dev_of[f->of[i - 1]]) {
			memcpy(us, us - x->nways, x->nways * sizeof *us);
		} else {
			price_stage(f, f->of[i], us);
		}
	}
}

/* Whether no plan is found yet; without maps all ways are alike. */
static bool
is_unknown(const struct trial *x)
{
	return !isfinite(x->s->worst_us) || x->ways_of->at.n == 1 ||
	       x->s->space.devs.n > 1;
}

static bool
is_slow(struct trial_rank *f, struct lagrange *p)
{
	double us;

	price_ways(f, p);
	us = lagrange_least_us(p) * (1 - PIECE_NEAR);
	arena_release(&f->tmp);
	return trial_is_slow(f->x, f->rank, us);
}

bool
trial_is_slow_rank(struct trial_rank *f)
{
	uint32_t nways = f->x->ways_of->at.n, i, c;
	struct lagrange p;

	if (f->full || is_unknown(f->x)) {
		return false;
	}
	lagrange_open(&f->tmp, &p, f->n, nways, f->free_bytes);
	for (i = 0; i < f->n; i++) {
		for (c = 0; c < nways; c++) {
			p.bytes[i * nways + c] =
				trial_sure_bytes(f, f->of[i], c);
		}
	}
	return is_slow(f, &p);
}

/*
 * With saves on the host, all ways that the device has memory for: what they
 * take at least, and then if the host has memory for their saves, too.
 */
bool
trial_is_slow_hosted(struct trial_rank *f)
{
	struct trial *x = f->x;
	uint32_t nways = x->ways_of->at.n, i, c, k;
	struct lagrange p;
	double us;

	if (is_unknown(x)) {
		return false;
	}
	lagrange_open(&f->tmp, &p, f->n, nways, 0);
	price_ways(f, &p);
	trial_set_room(f);
	for (i = k = 0; i < f->n; i++) {
		for (c = 0; c < nways; c++, k++) {
			p.us[k] = trial_is_too_large(f, f->of[i], c) ? INFINITY
				: p.us[k];
			p.bytes[k] = 0;
		}
	}
	us = lagrange_least_us(&p);
	if (isfinite(us) && isfinite(x->share[f->rank]) &&
	    !trial_is_slow(x, f->rank, us * (1 - PIECE_NEAR))) {
		for (i = k = 0; i < f->n; i++) {
			for (c = 0; c < nways; c++, k++) {
				p.bytes[k] = trial_least_saves(x, f->of[i], c);
			}
		}
		p.room = larger(x->share[f->rank], 1);
		us = lagrange_least_us(&p);
		x->drives_help = true;
	}
	arena_release(&f->tmp);
	return trial_is_slow(x, f->rank, us * (1 - PIECE_NEAR));
}

bool
trial_is_slow_from(struct trial_rank *f, double least_us)
{
	uint32_t nways = f->x->ways_of->at.n, i, c;
	struct lagrange p;
	double most;

	if (is_unknown(f->x)) {
		return false;
	}
	lagrange_open(&f->tmp, &p, f->n, nways, -least_us);
	for (i = 0; i < f->n; i++) {
		const double *us = trial_ways_of(f, f->of[i])->us;

		for (c = 1, most = us[0]; c < nways; c++) {
			most = fmax(most, us[c]);
		}
		for (c = 0; c < nways; c++) {
			p.bytes[i * nways + c] = most - us[c];
		}
		p.room += most;
	}
	if (p.room <= 0) {	/* only the slowest take as much */
		arena_release(&f->tmp);
		return false;
	}
	return is_slow(f, &p);
}

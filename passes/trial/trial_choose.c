/*
 * Which ways to recompute the stages of a rank take: those that together take
 * least, of all that fit.  Used by trial_fit.c.
 *
 * One or two stages have few choices: all that may fit are looked at, as their
 * rank would lay them out.  More have pools of slots (solve/pooling.h): their
 * schedule is an interleaved one, whose backward is whole, so that all that
 * layers save is of one span.
 */
#include "passes/trial/trial_fit.h"
#include "passes/solve/lagrange.h"
#include "passes/solve/pooling.h"

#include <math.h>

#define NEAR 1e-6		/* choices of times so near are as good */
#define SPAN MEMORY_TO_INPUT	/* of what layers save for a whole backward */

double
trial_near_us(const struct trial_rank *f)
{
	return NEAR * f->x->bound_us / (double)f->x->t->nmicrobatches;
}

/* All the bytes that ways may share. */
static double
room_of(const struct trial_rank *f)
{
	return f->hosted ? trial_host_room(f) : f->free_bytes;
}

/*
 * Bytes of the rank with f->keeps.  Temporary ones are not known before the
 * programs are made, and are then the fewest of any way.
 */
static double
kept_bytes(const struct trial_rank *f)
{
	uint32_t i;

	if (f->hosted) {
		return trial_host_bytes(f);
	}
	for (i = 0; i < f->n && !f->made; i++) {
		f->keeps[i].temp = trial_ways_of(f, f->of[i])->other.temp;
	}
	return trial_moving_bytes(f->x, f->rank, f->keeps);
}

/* ---- one or two stages ---- */

static bool
choose_listed(struct trial_rank *f, double most_bytes)
{
	uint32_t nways = f->x->ways_of->at.n, nth[TUPLES_STAGES], i, w;
	struct tuples l = { .n = f->n, .nways = nways,
			     .evenly = f->x->evenly, .seen = f->seen };
	double *least;
	bool fits = false;

	for (i = 0; i < f->n; i++) {
		const struct trial_ways *of = trial_ways_of(f, f->of[i]);

		least = arena_alloc_raw(&f->tmp, nways * sizeof *least);
		for (w = 0; w < nways; w++) {
			least[w] = !f->hosted
				? trial_own_bytes(f, f->of[i], &of->keeps[w])
				: trial_is_too_large(f, f->of[i], w) ? INFINITY
				: trial_then_bytes(f->x, f->of[i],
						   of->keeps[w].host);
		}
		l.us[i] = of->us;
		l.bytes[i] = least;
	}
	tuples_open(&f->tmp, &l);
	while (!fits && tuples_next(&l, most_bytes, nth)) {
		for (i = 0; i < f->n; i++) {
			f->x->choice[f->of[i]] = nth[i];
			f->keeps[i] = trial_ways_of(f, f->of[i])
				->keeps[nth[i]];
		}
		f->taken = kept_bytes(f);
		fits = f->taken <= most_bytes;
	}
	f->x->s->out->looked += l.looked;
	return fits;
}

/* ---- more stages ---- */

/* Bytes of the rank without what layers save, and what each way is known to
 * need for a while, at least. */
static double
other_bytes(const struct trial_rank *f)
{
	uint32_t i;

	for (i = 0; i < f->n && !f->hosted; i++) {
		f->keeps[i] = trial_ways_of(f, f->of[i])->other;
		f->keeps[i].temp = f->made ? 0 : f->keeps[i].temp;
	}
	return f->hosted ? 0 : trial_moving_bytes(f->x, f->rank, f->keeps);
}

/* What slots of a stage share, by way. */
static const double *
slots_of(const struct trial_rank *f, const struct trial_ways *of, uint32_t way)
{
	return f->hosted ? of->keeps[way].host : of->keeps[way].slot;
}

/* A rank while its ways are chosen. */
struct choosing {
	struct trial_rank *f;
	double most_bytes;
	struct pooling p;	/* of its units of stages: see space_unit */
};

/* Whether these ways of units fit, as the arena shares slots. */
static bool
fit_in(void *user, const uint32_t *nth)
{
	struct choosing *c = user;
	struct trial_rank *f = c->f;
	double bytes;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		f->keeps[i] = trial_ways_of(f, f->of[i])
			->keeps[nth[space_unit(i, f->n)]];
	}
	bytes = kept_bytes(f);
	c->p.taken = bytes <= c->most_bytes ? bytes : c->p.taken;
	return bytes <= c->most_bytes;
}

/* Whether n stages of the rank are like others, one by one. */
static bool
are_like(const struct trial_rank *f, uint32_t i, uint32_t j, uint32_t n)
{
	const uint32_t *like = f->x->like;
	uint32_t k;

	for (k = 0; k < n && like[f->of[i + k]] == like[f->of[j + k]]; k++) {
	}
	return k == n;
}

/* The ways of n stages of the rank together, from the i-th on. */
static struct pooling_ways
ways_of_unit(struct trial_rank *f, uint32_t i, uint32_t n)
{
	uint32_t nways = f->x->ways_of->at.n, has = 0, j, w;
	struct pooling_way *at = arena_alloc(&f->tmp, nways * sizeof *at);

	for (j = 0; j < n; j++) {
		const struct trial_ways *of = trial_ways_of(f, f->of[i + j]);

		for (w = 0; w < nways; w++) {
			at[w].nth = w;
			at[w].us += of->us[w];
			at[w].size = fmax(at[w].size, slots_of(f, of, w)[SPAN]);
			at[w].temp = fmax(at[w].temp, f->made && !f->hosted
						  ? of->keeps[w].temp : 0);
		}
	}
	for (w = 0; w < nways; w++) {
		for (j = 0; f->hosted && j < n &&
		     !trial_is_too_large(f, f->of[i + j], w); j++) {
		}
		if (!f->hosted || j == n) {
			at[has++] = at[w];
		}
	}
	return (struct pooling_ways){ at, has, n };
}

/* Sets the units of the rank's stages.  False: one of them has no way. */
static bool
set_units(struct trial_rank *f, struct pooling *p)
{
	uint32_t first[SPACE_UNITS], i, j, n;
	bool ok = true;

	for (i = 0; i < f->n; i += n) {
		uint32_t unit = p->n++;

		first[unit] = i;
		for (n = 0; i + n < f->n &&
		     space_unit(i + n, f->n) == unit; n++) {
		}
		for (j = 0; j < unit && (p->ways[j].parts != n ||
					 !are_like(f, first[j], i, n)); j++) {
		}
		p->ways[unit] = j < unit ? p->ways[j] : ways_of_unit(f, i, n);
		ok &= p->ways[unit].n > 0;
	}
	return ok;
}

/*
 * What the bytes of chosen ways follow from: what each way keeps, and how the
 * rank's schedule shares slots.
 */
static struct hash
key_of_bytes(const struct trial_rank *f)
{
	const struct space_plan *t = f->x->t;
	struct hash key = { (uintptr_t)t->sched,
			    (uint64_t)f->made << 1 | f->hosted };
	uint32_t i, w, size = sizeof(struct piece_bytes) / sizeof(double);

	hash_add(&key, (uint64_t)t->g->pp << 32 | (uint64_t)t->chunks);
	hash_add(&key, (uint64_t)t->nmicrobatches << 32 | f->rank);
	for (i = 0; i < f->n; i++) {
		const struct trial_ways *of = trial_ways_of(f, f->of[i]);

		for (w = 0; w < size * f->x->ways_of->at.n; w++) {
			hash_add_number(&key, ((const double *)of->keeps)[w]);
		}
	}
	return key;
}

/*
 * What any ways that fit take at least, however slots are shared: then they
 * take no less than what they hold when the rank has most.
 */
static double
least_us(struct trial_rank *f)
{
	uint32_t nways = f->x->ways_of->at.n, i, w;
	struct lagrange p;

	lagrange_open(&f->tmp, &p, f->n, nways,
		      room_of(f) - other_bytes(f));
	for (i = 0; i < f->n; i++) {
		const struct trial_ways *of = trial_ways_of(f, f->of[i]);

		for (w = 0; w < nways; w++) {
			p.us[i * nways + w] = of->us[w];
			p.bytes[i * nways + w] =
				trial_then_bytes(f->x, f->of[i],
						 slots_of(f, of, w));
		}
	}
	return lagrange_least_us(&p);
}

void
trial_set_left(struct trial_rank *f)
{
	f->left_us = fmax(trial_chosen_us(f) - least_us(f), 0);
	arena_release(&f->tmp);
}

/*
 * Partial choices of a set of stages: a bound of those that are dropped beyond
 * so many counts in the gap.  A guess is content with what is met on the way.
 */
#define MOST_OPEN 256

_Static_assert((int)SPACE_UNITS <= POOLING_STAGES,
	       "a rank's stages are those of a pooling");

static bool
choose_pooled(struct trial_rank *f, double most_bytes)
{
	struct trial *x = f->x;
	struct choosing c = {
		.f = f, .most_bytes = most_bytes,
		.p = { .room = most_bytes - other_bytes(f),
		       .slots = space_set_slots(&x->s->space, x->t->slots,
						SPAN, f->rank, f->of, f->n),
		       .most = x->s->guessing || f->rough ? 0 : MOST_OPEN,
		       .near_us = trial_near_us(f), .evenly = x->evenly,
		       .fits = fit_in, .user = &c, .taken = f->taken,
		       .memo = x->s->memo, .key = key_of_bytes(f) }
	};
	uint32_t nth[SPACE_UNITS], i;
	double us;
	bool ok;

	ok = set_units(f, &c.p);
	c.p.none = !ok;
	ok = ok && pooling_choose(&f->tmp, &c.p, nth);
	/* units of several stages may have pools of their own */
	f->none |= c.p.none && f->n <= SPACE_UNITS &&
		   most_bytes >= room_of(f);
	x->s->out->looked += c.p.looked;
	f->taken = c.p.taken;
	for (i = 0; ok && i < f->n; i++) {
		x->choice[f->of[i]] = nth[space_unit(i, f->n)];
	}
	us = ok ? trial_chosen_us(f) : 0;
	f->left_us = fmax(us - c.p.left_us, 0);
	f->grouped_us = ok && f->n > SPACE_UNITS ? us - least_us(f) : 0;
	return ok;
}

bool
trial_choose(struct trial_rank *f, double most_bytes)
{
	bool ok = f->n <= TUPLES_STAGES ? choose_listed(f, most_bytes)
					 : choose_pooled(f, most_bytes);

	arena_release(&f->tmp);
	return ok;
}

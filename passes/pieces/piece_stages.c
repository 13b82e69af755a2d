/*
 * Stages as sums of pieces: the time and bytes of any run of layers, and the
 * layers by stage for which the slowest stage is quickest.
 */
#include "passes/pieces/pieces.h"

#include <math.h>
#include <string.h>

int64_t
piece_layers(const struct space *s, uint32_t k, int64_t lo, int64_t hi)
{
	int64_t from = s->kinds[k].first;
	int64_t to = from + s->kinds[k].iterations;

	from = from > lo ? from : lo;
	to = to < hi ? to : hi;
	return to > from ? to - from : 0;
}

double
piece_window_bytes(const struct space *s, const double *each, int64_t lo,
		   int64_t hi)
{
	double bytes = 0;
	uint32_t i;

	for (i = 0; i < s->nkinds; i++) {
		int64_t layers = piece_layers(s, i, lo, hi);

		bytes += (double)(layers > 1 ? 2 : layers) * each[i];
	}
	return bytes;
}

uint32_t
piece_number(const struct space *s)
{
	return PIECE_BODY + s->nkinds;
}

void
piece_count(const struct space *s, int64_t lo, int64_t hi,
	    double n[PIECE_MAX])
{
	bool first = lo == 0, last = hi == s->nlayers;
	uint32_t k;

	memset(n, 0, PIECE_MAX * sizeof *n);
	n[PIECE_FIRST] = first;
	n[PIECE_LAST] = last;
	/* the first and the last piece include PIECE_TOP */
	n[PIECE_TOP] = 1 - (int)first - (int)last;
	for (k = 0; k < s->nkinds; k++) {
		n[PIECE_BODY + k] = (double)piece_layers(s, k, lo, hi);
	}
	if (s->nkinds > 0) {	/* they include a layer each */
		n[PIECE_BODY] -= first;
		n[PIECE_BODY + s->nkinds - 1] -= last;
	}
}

bool
piece_same_stage(const struct space *s, int64_t was, int64_t lo, int64_t hi)
{
	uint32_t k;

	if (was == 0 || hi == s->nlayers || lo - was != hi - lo) {
		return false;
	}
	for (k = 0; k < s->nkinds; k++) {
		int64_t from = s->kinds[k].first;

		if (from <= was && hi <= from + s->kinds[k].iterations) {
			return true;
		}
	}
	return false;
}

void
piece_stage_price(const struct space *s, const struct piece_cost *c,
		  uint32_t dev, int64_t lo, int64_t hi,
		  struct price_func out[SCHED_NKINDS])
{
	double n[PIECE_MAX];
	int i, k;

	piece_count(s, lo, hi, n);
	memset(out, 0, SCHED_NKINDS * sizeof *out);
	for (i = 0; i < (int)piece_number(s); i++) {
		for (k = 0; n[i] != 0 && k < SCHED_NKINDS; k++) {
			price_add(&out[k], piece_fn(c->on[dev], (uint32_t)i,
						    (uint32_t)k), n[i]);
		}
	}
}

void
piece_stage_update(const struct space *s, const struct piece_update *u,
		   uint32_t dev, int64_t lo, int64_t hi,
		   struct price_func *out)
{
	double n[PIECE_MAX];
	int i;

	piece_count(s, lo, hi, n);
	n[PIECE_TOP]--;		/* once a rank; the caller adds it */
	for (i = 0; i < (int)piece_number(s); i++) {
		if (n[i] != 0) {
			price_add(out, &u->on[dev][i], n[i]);
		}
	}
}

double
piece_sum(const struct space *s, const double *piece, int64_t lo, int64_t hi)
{
	double n[PIECE_MAX], all = 0;
	int i;

	piece_count(s, lo, hi, n);
	for (i = 0; i < (int)piece_number(s); i++) {
		all += n[i] * piece[i];
	}
	return all;
}

/* ---- bytes ---- */

/* Whether layers of kind k have a piece of their own. */
static bool
has_body(const struct space *s, uint32_t k)
{
	return s->kinds[k].iterations > (k == 0) + (k + 1 == s->nkinds);
}

/* The kind of a layer. */
static uint32_t
kind_of(const struct space *s, int64_t layer)
{
	uint32_t k = 0;

	while (k + 1 < s->nkinds && layer >= s->kinds[k + 1].first) {
		k++;
	}
	return k;
}

/*
 * At least what layers [lo, hi) save outside of repeats: what their first piece
 * does there; and in the last stage what the last layer's piece has beyond a
 * piece of its kind, which receives the same.
 */
static void
add_top(const struct space *s, const struct piece_bytes *b, int64_t lo,
	int64_t hi, struct piece_bytes *out)
{
	uint32_t from = kind_of(s, lo), to = kind_of(s, hi - 1), k;
	bool last = hi == s->nlayers, only = last && lo > 0 && from == to;

	for (k = 0; k < SPACE_NSPANS; k++) {
		double of_last = b[PIECE_LAST].top[k];

		out->top[k] = lo == 0 ? b[PIECE_FIRST].top[k]
			: has_body(s, from) ? b[PIECE_BODY + from].top[k]
			: only ? of_last : 0;
		if (last && has_body(s, to)) {
			of_last -= b[PIECE_BODY + to].top[k];
			out->top[k] += of_last > 0 ? of_last : 0;
			/* the last layer's result may be among it */
			of_last -= b[PIECE_LAST].sends[1];
			out->end[k] = of_last > 0 ? of_last : 0;
		}
	}
}

/* Lowers what is sent in a direction to that of a piece. */
static void
lower(double *to, double bytes)
{
	*to = *to < 0 || bytes < *to ? bytes : *to;
}

/* One copy of what layers [lo, hi) send. */
static void
set_sends(const struct space *s, const struct piece_bytes *b,
	  const double n[PIECE_MAX], int64_t lo, int64_t hi,
	  struct piece_bytes *out)
{
	int i;

	out->sends[0] = out->sends[1] = -1;
	for (i = 0; i < (int)piece_number(s); i++) {
		if (n[i] > 0 && i != PIECE_TOP && i != PIECE_LAST) {
			lower(&out->sends[0], b[i].sends[0]);
		}
		if (n[i] > 0 && i != PIECE_TOP && i != PIECE_FIRST) {
			lower(&out->sends[1], b[i].sends[1]);
		}
	}
	if (hi == s->nlayers || out->sends[0] < 0) {
		out->sends[0] = 0;
	}
	if (lo == 0 || out->sends[1] < 0) {
		out->sends[1] = 0;
	}
}

void
piece_stage_bytes(const struct space *s, const struct piece_cost *c,
		  int64_t lo, int64_t hi, struct piece_bytes *out)
{
	double n[PIECE_MAX];
	int i, k;

	piece_count(s, lo, hi, n);
	memset(out, 0, sizeof *out);
	for (i = 0; i < (int)piece_number(s); i++) {
		const struct piece_bytes *b = &c->bytes[i];
		bool one = i >= PIECE_BODY && piece_layers(s, (uint32_t)i -
					PIECE_BODY, lo, hi) == 1;

		for (k = 0; k < SPACE_NSPANS; k++) {
			out->slot[k] += n[i] * b->slot[k];
		}
		if (n[i] > 0) {
			out->temp = fmax(out->temp, one ? b->inside : b->temp);
		}
	}
	add_top(s, c->bytes, lo, hi, out);
	set_sends(s, c->bytes, n, lo, hi, out);
}

double
piece_update_temp(const struct space *s, const struct piece_update *u,
		  int64_t lo, int64_t hi)
{
	double n[PIECE_MAX], most = 0;
	int i;

	piece_count(s, lo, hi, n);
	for (i = 0; i < (int)piece_number(s); i++) {
		if (n[i] > 0) {
			most = fmax(most, u->temp[i] + n[i] * u->temp_each[i]);
		}
	}
	return most;
}

static double
per_layer(const struct space *s, const double each[SPACE_MAX_KINDS],
	  int64_t lo, int64_t hi)
{
	double all = 0;
	uint32_t k;

	for (k = 0; k < s->nkinds; k++) {
		all += (double)piece_layers(s, k, lo, hi) * each[k];
	}
	return all;
}

double
piece_extra_us(const struct space *s, const struct piece_choice *c,
		int64_t lo, int64_t hi)
{
	return per_layer(s, c->extra_us, lo, hi);
}

struct piece_each
piece_extra_each(const struct space *s, const struct piece_choice *c,
		 uint32_t kind, int64_t lo, int64_t hi)
{
	struct piece_each all = { 0, 0, 0, 0 };
	uint32_t k;

	for (k = 0; k < s->nkinds; k++) {
		double n = (double)piece_layers(s, k, lo, hi);

		all.us += n * c->each[kind][k].us;
		all.saves_us += n * c->each[kind][k].saves_us;
		all.params_us += n * c->each[kind][k].params_us;
		all.drives_us += n * c->each[kind][k].drives_us;
	}
	return all;
}

double
piece_saved_bytes(const struct space *s, const struct piece_choice *c,
		  uint32_t span, int64_t lo, int64_t hi)
{
	return per_layer(s, c->less[span], lo, hi);
}

/* The part of a kind's piece that grows, and the one that does not. */
static double
both(const struct piece_choice *c, uint32_t span, uint32_t kind,
     double sequences)
{
	return sequences * c->grows[span][kind] + c->stays[span][kind];
}

void
piece_least_bytes(const struct space *s, const struct piece_choice *c,
		  int64_t lo, int64_t hi, bool solo, double sequences,
		  struct piece_bytes *out)
{
	uint32_t from = kind_of(s, lo), to = kind_of(s, hi - 1), k;
	bool first = lo == 0, last = hi == s->nlayers;

	memset(out, 0, sizeof *out);
	if (!solo && !last && hi > 1 && has_body(s, to)) {
		out->sends[0] = sequences * c->sends_grow[0][to];
	}
	if (!solo && !first && lo + 1 < s->nlayers && has_body(s, from)) {
		out->sends[1] = sequences * c->sends_grow[1][from];
		for (k = 0; k < SPACE_NSPANS; k++) {
			out->top[k] = both(c, MEMORY_TOP + k, from, sequences);
		}
	}
	lo += first && !solo;
	hi -= last && !solo;
	for (k = 0; k < SPACE_NSPANS; k++) {
		out->slot[k] = sequences * per_layer(s, c->grows[k], lo, hi) +
			       per_layer(s, c->stays[k], lo, hi);
	}
	for (k = 0; k < s->nkinds; k++) {
		int64_t layers = piece_layers(s, k, lo, hi);

		if (layers > 0) {
			out->temp = fmax(out->temp, c->inside_stays[k] +
					 sequences * c->inside_grows[k]);
		}
		if (layers > 1) {
			out->temp = fmax(out->temp, c->temp_stays[k] +
					 sequences * c->temp_grows[k]);
		}
	}
}

void
piece_kept_bytes(const struct space *s, const struct piece_kept *x, int64_t lo,
		 int64_t hi, bool solo, double sequences,
		 double slot[SPACE_NSPANS])
{
	uint32_t k;

	lo += lo == 0 && !solo;
	hi -= hi == s->nlayers && !solo;
	for (k = 0; k < SPACE_NSPANS; k++) {
		slot[k] = sequences * per_layer(s, x->bytes[k], lo, hi);
	}
}

/*
 * All that forward saves in layers crosses the link once, and again before
 * backward reads it, of a split one before its last half that does.  Values
 * without a dim of sequences are left out: they are known as they lie in
 * memory, aligned, and not as they cross.  Of rows that reserve more than they
 * have, what crosses is not known.
 */
void
piece_least_link_us(const struct space *s, const struct piece_choice *c,
		    uint32_t dev, int64_t lo, int64_t hi,
		    const struct piece_key *key, double sequences,
		    double out[SCHED_NKINDS])
{
	double rate = s->devs.at[dev]->device.host_bytes_us, us[SPACE_NSPANS];
	bool first = lo == 0 && !key->solo;
	bool last = hi == s->nlayers && !key->solo;
	uint32_t k;

	memset(out, 0, SCHED_NKINDS * sizeof *out);
	if (rate <= 0 || ir_setting(s->m, "memory.routed")) {
		return;
	}
	lo += first;
	hi -= last;
	for (k = 0; k < SPACE_NSPANS; k++) {
		us[k] = sequences * per_layer(s, c->grows[k], lo, hi) / rate *
			(1 - PIECE_NEAR);
	}
	out[SCHED_F] = us[MEMORY_TO_INPUT] + us[MEMORY_TO_WEIGHTS];
	out[SCHED_B] = key->split ? 0 : out[SCHED_F];
	out[SCHED_I] = key->split ? us[MEMORY_TO_INPUT] : 0;
	out[SCHED_W] = key->split ? us[MEMORY_TO_WEIGHTS] : 0;
}

/* ---- layers by stage ---- */

/* Times on a device group, and what the first and last stage add. */
struct speed {
	bool known;
	double kind_us[SPACE_MAX_KINDS];	/* of one layer */
	double top_us, before_us, after_us;
	double all_us;
};

static double
piece_us(const struct piece_prices *f, uint32_t piece)
{
	double us = 0;
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		us += piece_fn(f, piece, k)->total_us;
	}
	return us;
}

static void
find_speed(const struct space *s, const struct piece_prices *f,
	   struct speed *out)
{
	uint32_t k;

	out->known = true;
	for (k = 0; k < s->nkinds; k++) {
		out->kind_us[k] = piece_us(f, PIECE_BODY + k);
		out->all_us += (double)s->kinds[k].iterations * out->kind_us[k];
	}
	out->top_us = piece_us(f, PIECE_TOP);
	out->before_us = piece_us(f, PIECE_FIRST) - out->top_us -
			 out->kind_us[0];
	out->after_us = piece_us(f, PIECE_LAST) - out->top_us -
			out->kind_us[s->nkinds - 1];
	out->all_us += out->top_us + fabs(out->before_us) +
		       fabs(out->after_us);
}

/* The result of assigning layers within a time limit for stages. */
struct filled {
	/* time of the slowest stage: as a limit, it gives the same layers */
	double most;
	double next;		/* the least limit that gives other layers */
};

/*
 * How many layers of each_us, at most `most`, fit in a stage that takes us
 * without them.
 */
static int64_t
in_time(double us, double each_us, double limit, int64_t most)
{
	double guess = each_us > 0 ? (limit - us) / each_us : INFINITY;
	int64_t n = guess >= (double)most ? most
		: guess > 0 ? (int64_t)guess : 0;

	while (n < most && us + (double)(n + 1) * each_us <= limit) {
		n++;
	}
	while (n > 0 && us + (double)n * each_us > limit) {
		n--;
	}
	return n;
}

/*
 * Gives a stage layers from the end of the first `left`, but not the first
 * `least`: as many as it runs within the limit, and at least one.  Adds their
 * time to `us`; returns their number.
 */
static int64_t
fill_stage(const struct space *s, const struct speed *x, int64_t left,
	   int64_t least, double limit, double *us, struct filled *f)
{
	int64_t was = left;
	uint32_t k;

	for (k = s->nkinds; k-- > 0 && left > least;) {
		int64_t first = s->kinds[k].first, most, n;

		first = first > least ? first : least;
		most = left > first ? left - first : 0;
		n = in_time(*us, x->kind_us[k], limit, most);
		n = n == 0 && most > 0 && left == was ? 1 : n;
		if (n < most) {
			f->next = fmin(f->next, *us + (double)(n + 1) *
				       x->kind_us[k]);
		}
		*us += (double)n * x->kind_us[k];
		left -= n;
		if (n < most) {
			break;
		}
	}
	return was - left;
}

/*
 * Assigns layers from the last stage to the first.  The first gets the rest,
 * since it holds the most microbatches.  True if all layers are assigned.
 */
static bool
fill(const struct space *s, const struct speed *speed, const uint32_t *dev,
     uint32_t nstages, double limit, int64_t *layers, struct filled *f)
{
	int64_t left = s->nlayers;
	uint32_t i;

	*f = (struct filled){ .most = 0, .next = INFINITY };
	for (i = nstages; i-- > 0;) {
		const struct speed *x = &speed[dev[i]];
		double us = x->top_us + (i == 0 ? x->before_us : 0) +
			    (i + 1 == nstages ? x->after_us : 0);

		layers[i] = fill_stage(s, x, left, (int64_t)i, limit, &us, f);
		left -= layers[i];
		if (us > limit) {
			f->next = us < f->next ? us : f->next;
			return false;
		}
		f->most = us > f->most ? us : f->most;
	}
	return left == 0;
}

/*
 * Finds the least limit by bisection.  Each step moves an end to the nearest
 * limit at which the layers change, so it ends at the exact one.
 */
static void
balance(struct space *s, const struct piece_cost *c, uint32_t nstages,
	const uint32_t *dev, int64_t *layers)
{
	struct speed *speed = arena_alloc(&s->tmp,
					  s->devs.n * sizeof *speed);
	double lo = 0, hi = 0;
	struct filled f;
	uint32_t i;

	for (i = 0; i < nstages; i++) {
		if (!speed[dev[i]].known) {
			find_speed(s, c->on[dev[i]], &speed[dev[i]]);
			hi = fmax(hi, speed[dev[i]].all_us);
		}
	}
	while (lo < hi) {
		double mid = lo + (hi - lo) / 2;

		mid = mid < hi ? mid : lo;
		if (fill(s, speed, dev, nstages, mid, layers, &f)) {
			hi = f.most;
		} else {
			lo = f.next;
		}
	}
	fill(s, speed, dev, nstages, hi, layers, &f);
}

/* With one kind of device, results are kept by the number of stages. */
void
piece_balance(struct space *s, struct piece_cost *c, uint32_t nstages,
	      const uint32_t *dev, int64_t *layers)
{
	size_t bytes = nstages * sizeof *layers;
	struct piece_balanced x = { nstages, NULL };
	uint32_t i;

	for (i = 0; s->devs.n == 1 && i < c->balanced.n; i++) {
		if (c->balanced.at[i].nstages == nstages) {
			memcpy(layers, c->balanced.at[i].layers, bytes);
			return;
		}
	}
	balance(s, c, nstages, dev, layers);
	if (s->devs.n == 1) {
		x.layers = arena_dup(&s->keep, layers, bytes);
		VEC_PUSH(&s->keep, &c->balanced, x);
	}
}

/*
 * Draws stages, ways to recompute and the slots that sets of stages hold, and
 * compares what pooling_choose chooses with all ways and all partitions of the
 * stages into pools.  An answer from the memo is compared with one without.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ir/memo.h"
#include "passes/solve/pooling.h"

#define STAGES 4
#define WAYS 6
#define SETS (1u << STAGES)

struct drawn {
	struct pooling x;
	struct pooling_way all[STAGES][WAYS];
	uint32_t nways, slots[SETS];
	uint64_t r;
	uint32_t refused;	/* of 8 answers, so many do not fit indeed */
};

static uint32_t
draw(struct drawn *d, uint32_t n)
{
	d->r = d->r * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(d->r >> 40) % n;
}

/* What sets hold: the most at any of some moments. */
static void
draw_slots(struct drawn *d, uint32_t *slots)
{
	uint32_t held[STAGES], moment, set, i;

	for (set = 0; set < SETS; set++) {
		slots[set] = 0;
	}
	for (moment = 0; moment < 3; moment++) {
		for (i = 0; i < STAGES; i++) {
			held[i] = 1 + draw(d, 5);
		}
		for (set = 1; set < SETS; set++) {
			uint32_t n = 0;

			for (i = 0; i < STAGES; i++) {
				n += set >> i & 1 ? held[i] : 0;
			}
			slots[set] = n > slots[set] ? n : slots[set];
		}
	}
}

/* Some numbers stand for answers that do not fit as they are laid out. */
static bool
fits(void *user, const uint32_t *nth)
{
	struct drawn *d = user;
	uint32_t sum = 0, i;

	for (i = 0; i < d->x.n; i++) {
		sum = sum * 31 + nth[i] * 7 + i;
	}
	d->x.taken = sum % 8 >= d->refused ? sum : d->x.taken;
	return sum % 8 >= d->refused;
}

/*
 * Every other draw has stages that are alike, as a rank's are.  Times are
 * against a way that is the quickest of all layers, but not of each stage.  In
 * every third draw ways need something for a while.
 */
static void
draw_all(struct drawn *d, uint32_t seed)
{
	uint32_t i, w;

	*d = (struct drawn){ .r = seed + 1, .refused = seed % 5 ? 0 : 3 };
	d->x = (struct pooling){ .n = 1 + seed % STAGES, .fits = fits,
				 .user = d, .most = 1u << 16 };
	d->nways = 1 + seed / STAGES % WAYS;
	draw_slots(d, d->slots);
	d->x.slots = d->slots;
	for (i = 0; i < d->x.n; i++) {
		for (w = 0; w < d->nways; w++) {
			struct pooling_way *to = &d->all[i][w];

			*to = i && seed % 2 ? d->all[0][w]
				: (struct pooling_way){ draw(d, 200) - 60.0,
					draw(d, 200),
					seed % 3 ? 0 : draw(d, 9) * 50, w };
		}
		d->x.ways[i] = i && seed % 2 ? d->x.ways[0]
			: (struct pooling_ways){ d->all[i], d->nways, 1 };
	}
	d->x.room = draw(d, 500) * d->x.n;
}

/* The fewest bytes of pools of a set of stages. */
static double
bytes_of(const struct drawn *d, const uint32_t *nth, uint32_t set)
{
	uint32_t low = set & -set, part, i;
	double least = INFINITY;

	for (part = set; part; part = (part - 1) & set) {
		double size = 0;

		for (i = 0; i < d->x.n; i++) {
			size = part >> i & 1
				? fmax(size, d->all[i][nth[i]].size) : size;
		}
		if (part & low) {
			least = fmin(least, size * d->slots[part] +
				     bytes_of(d, nth, set ^ part));
		}
	}
	return set ? least : 0;
}

static double
time_of(const struct drawn *d, const uint32_t *nth, double *slowest_us)
{
	double us = 0;
	uint32_t i;

	for (i = 0, *slowest_us = -INFINITY; i < d->x.n; i++) {
		us += d->all[i][nth[i]].us;
		*slowest_us = fmax(*slowest_us, d->all[i][nth[i]].us);
	}
	return us;
}

static bool
has_room(struct drawn *d, const uint32_t *nth)
{
	double temp = 0;
	uint32_t i;

	for (i = 0; i < d->x.n; i++) {
		temp = fmax(temp, d->all[i][nth[i]].temp);
	}
	return bytes_of(d, nth, (1u << d->x.n) - 1) + temp <= d->x.room;
}

/* The least of all choices: their time, and their slowest stage. */
struct least {
	double us, slowest_us;
	double fit_us;		/* of those that fit indeed */
};

static struct least
least_of(struct drawn *d)
{
	struct least x = { INFINITY, INFINITY, INFINITY };
	uint32_t nth[STAGES] = { 0 }, i = 0;

	while (i < d->x.n) {
		double slowest_us, us = time_of(d, nth, &slowest_us);

		if (us < x.fit_us || slowest_us < x.slowest_us) {
			bool has = has_room(d, nth);

			x.us = has ? fmin(x.us, us) : x.us;
			x.slowest_us = has ? fmin(x.slowest_us, slowest_us)
					   : x.slowest_us;
			x.fit_us = has && fits(d, nth) ? fmin(x.fit_us, us)
						       : x.fit_us;
		}
		for (i = 0; i < d->x.n && ++nth[i] == d->nways; i++) {
			nth[i] = 0;
		}
	}
	return x;
}

/* An answer, which fits; else none that fits is known to be left. */
static double
chosen_us(struct drawn *d, struct arena *a)
{
	uint32_t nth[STAGES];
	double slowest_us;

	if (!pooling_choose(a, &d->x, nth)) {
		return INFINITY;
	}
	assert_true(has_room(d, nth) && fits(d, nth));
	return time_of(d, nth, &slowest_us);
}

/* With fewer partial answers, a bound of the others is left. */
static void
check_bounds(struct drawn *d, struct arena *a, double least_us,
	     uint32_t *nleft)
{
	double us;

	for (d->x.most = 0; d->x.most < 3; d->x.most++) {
		us = chosen_us(d, a);
		assert_true(fmin(us, d->x.left_us) <= least_us + 1e-6);
		*nleft += d->x.left_us < us;
	}
	d->x.most = 1u << 16;
	d->x.near_us = 20;
	assert_true(chosen_us(d, a) <= least_us + 20.001);
}

static void
test_least(void **state)
{
	uint32_t seed, nfits = 0, nleft = 0, nfull = 0;
	struct mem mem;
	struct arena a;
	struct drawn d;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	for (seed = 0; seed < 3000; seed++) {
		struct least least;
		double us;

		draw_all(&d, seed);
		least = least_of(&d);
		us = chosen_us(&d, &a);
		if (d.refused) {
			assert_true(us >= least.fit_us - 1e-6);
			assert_true(fmin(us, d.x.left_us) <=
				    least.fit_us + 1e-6);
		} else if (isfinite(least.us)) {
			assert_true(fabs(us - least.us) < 1e-6);
			assert_true(!isfinite(d.x.left_us));
			check_bounds(&d, &a, least.us, &nleft);
		} else {
			assert_true(!isfinite(us));
		}
		assert_int_equal(d.x.none, !isfinite(least.us));
		nfits += isfinite(us);
		nfull += !isfinite(least.us);
		arena_release(&a);
	}
	print_message("%u fit, %u do not, %u leave a bound\n", nfits, nfull,
		      nleft);
	assert_in_range(nfits, 1000, 2900);
	assert_in_range(nfull, 100, 2000);
	assert_in_range(nleft, 100, 9000);
}

/* The slowest stage is as quick as it can be. */
static void
test_evenly(void **state)
{
	uint32_t seed, nth[STAGES], nfits = 0;
	struct mem mem;
	struct arena a;
	struct drawn d;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	for (seed = 1; seed < 2000; seed += 2) {
		struct least least;
		double slowest_us;

		draw_all(&d, seed);
		d.refused = 0;
		least = least_of(&d);
		d.x.evenly = true;
		assert_int_equal(pooling_choose(&a, &d.x, nth),
				 isfinite(least.slowest_us));
		if (isfinite(least.slowest_us)) {
			assert_true(time_of(&d, nth, &slowest_us) >=
				    least.us - 1e-6);
			assert_true(slowest_us <= least.slowest_us + 1e-6);
			assert_true(has_room(&d, nth));
			nfits++;
		}
		arena_release(&a);
	}
	assert_in_range(nfits, 300, 950);
}

/* What is chosen, with all that a caller is told of it. */
struct said {
	bool ok, none;
	uint32_t nth[STAGES];
	double left_us, taken;
	uint64_t looked;
};

static struct said
choose(struct drawn *d, struct arena *a, struct memo *memo)
{
	struct said to;

	memset(&to, 0, sizeof to);
	d->x.memo = memo;
	d->x.taken = d->x.left_us = -1;
	d->x.looked = 7;
	d->x.none = !d->x.none;
	to.ok = pooling_choose(a, &d->x, to.nth);
	to.none = d->x.none;
	to.left_us = d->x.left_us;
	to.taken = d->x.taken;
	to.looked = d->x.looked;
	return to;
}

/* Changes one thing that answers follow from. */
static void
vary(struct drawn *d, uint32_t n)
{
	d->x.room *= n == 1 ? 1.2 : 1;
	d->x.near_us = n == 2 ? 30 : 0;
	d->x.most = n == 3 ? 0 : 1u << 16;
	d->x.evenly = n == 4;
	d->slots[(1u << d->x.n) - 1] += n == 5;
	d->all[0][d->nways - 1].us -= n == 6 ? 40 : 0;
	d->all[0][d->nways - 1].size -= n == 7 ? 40 : 0;
	d->all[0][d->nways - 1].temp += n == 8 ? 50 : 0;
	d->refused = n == 9 ? 5 : 0;
	d->x.key.b = d->refused;
}

/* An answer that was kept is the one that would be found again. */
static void
test_kept(void **state)
{
	uint32_t seed, n, nvaried[10] = { 0 };
	struct mem mem;
	struct arena a;
	struct memo memo;
	struct drawn d;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	memo_init(&memo, &mem, MEMO_BYTES);
	for (seed = 0; seed < 600; seed++) {
		struct said first;

		memset(&first, 0, sizeof first);
		for (n = 0; n < 10; n++) {
			struct said is, kept, again;

			draw_all(&d, seed);
			vary(&d, n);
			is = choose(&d, &a, NULL);
			kept = choose(&d, &a, &memo);
			again = choose(&d, &a, &memo);
			assert_true(!is.ok || (is.taken >= 0 &&
					       is.looked > 7));
			assert_memory_equal(&kept, &is, sizeof is);
			assert_memory_equal(&again, &is, sizeof is);
			first = n ? first : is;
			nvaried[n] += memcmp(&is, &first, sizeof is) != 0;
		}
		arena_release(&a);
	}
	for (n = 1; n < 10; n++) {	/* that makes a difference */
		assert_in_range(nvaried[n], 10, 600);
	}
	assert_int_equal(memo.of[MEMO_POOLS].asked, 2 * 10 * 600);
	assert_in_range(memo.of[MEMO_POOLS].found, 10 * 600, 15 * 600);
	memo_release(&memo);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_evenly),
		cmocka_unit_test(test_kept)
	};

	return cmocka_run_group_tests_name("pooling", tests, NULL, NULL);
}

/*
 * Fits of places: computed back at all places of random functions of iterations
 * and microbatches, as the compiler does and as the emitted code does.
 */
#include "tests/unit/shared/t-object.h"

#include "codegen/host/host.h"

struct rng {
	uint64_t key, at;
};

static int64_t
below(struct rng *r, int64_t n)
{
	return ir_rng_below(r->key, r->at++, n);
}

#define MOST 3

struct shape {
	uint32_t counts[MOST], n, total;
	int64_t *at;
};

enum { CONSTANT, LINEAR, TURNS, SLOTS, FIRST, ANY, NKINDS };

/* What counter k at i adds: as slots, turns, strides do. */
static int64_t
part(struct rng *r, uint32_t kind, uint32_t i, const int64_t *slots)
{
	switch (kind) {
	case CONSTANT:
		return 0;
	case LINEAR:
		return i * slots[0];
	case TURNS:
		return i % 2 * slots[0];
	case SLOTS:
		return slots[i];
	case FIRST:
		return i == 0 ? slots[0] : 0;
	default:
		return below(r, 1 << 20) * 256;
	}
}

static void
draw(struct rng *r, struct arena *a, struct shape *s)
{
	uint32_t kind[MOST], i, k, rest;
	int64_t slots[MOST][8], base = below(r, 1 << 20) * 256;
	bool mixed = below(r, 4) == 0;

	s->n = 1 + (uint32_t)below(r, MOST);
	s->total = 1;
	for (k = 0; k < s->n; k++) {
		s->counts[k] = 1 + (uint32_t)below(r, 8);
		s->total *= s->counts[k];
		kind[k] = (uint32_t)below(r, ANY);
		for (i = 0; i < 8; i++) {
			slots[k][i] = below(r, 1000) * 256;
		}
	}
	s->at = arena_alloc(a, s->total * sizeof *s->at);
	for (i = 0; i < s->total; i++) {
		s->at[i] = base;
		for (k = s->n, rest = i; k-- > 0; rest /= s->counts[k]) {
			s->at[i] += part(r, kind[k], rest % s->counts[k],
					 slots[k]);
		}
		/* a first iteration that lies elsewhere in some microbatches */
		if (mixed && i < s->counts[s->n - 1] && i % 2) {
			s->at[i] = part(r, ANY, i, NULL);
		}
	}
}

static void
place_of(const struct shape *s, uint32_t i, uint32_t at[MOST])
{
	uint32_t k;

	for (k = s->n; k-- > 0; i /= s->counts[k]) {
		at[k] = i % s->counts[k];
	}
}

static void
fits_back(void **state)
{
	struct rng r = { 0x6f5713, 0 };
	uint32_t i, k, at[MOST];
	struct host_fit f;
	struct shape s;

	for (i = 0; i < 2000; i++) {
		draw(&r, *state, &s);
		host_find_fit(*state, s.counts, s.n, s.at, &f);
		for (k = 0; k < s.total; k++) {
			place_of(&s, k, at);
			assert_int_equal(host_fit_at(&f, at), s.at[k]);
		}
	}
}

/* What is a constant, or a stride, has no table. */
static void
fits_simply(void **state)
{
	static const uint32_t counts[] = { 4, 3 };
	int64_t at[12];
	struct host_fit f;
	uint32_t i;

	for (i = 0; i < 12; i++) {
		at[i] = 512;
	}
	host_find_fit(*state, counts, 2, at, &f);
	assert_true(host_fit_constant(&f));
	assert_int_equal(f.base, 512);
	for (i = 0; i < 12; i++) {
		at[i] = 512 + i / 3 * 256;
	}
	host_find_fit(*state, counts, 2, at, &f);
	assert_false(host_fit_constant(&f));
	assert_null(f.all);
	assert_null(f.by[0].table);
	assert_int_equal(f.by[0].stride, 256);
	assert_int_equal(f.by[1].stride, 0);
	/* turns: a table of one counter alone */
	for (i = 0; i < 12; i++) {
		at[i] = i % 3 % 2 * 256;
	}
	host_find_fit(*state, counts, 2, at, &f);
	assert_null(f.all);
	assert_null(f.by[0].table);
	assert_non_null(f.by[1].table);
	/* not a sum of both: a table of both */
	at[4] = 1 << 20;
	host_find_fit(*state, counts, 2, at, &f);
	assert_non_null(f.all);
}

#define NFUNCS 60

static void
emits_what_fits(void **state)
{
	struct t_object *o = t_object_begin(*state, "x86-64-v2");
	const struct ll_type i64 = ll_type(LL_I64, 1);
	const struct ll_type params[MOST] = { i64, i64, i64 };
	int64_t (*run)(int64_t, int64_t, int64_t);
	struct ll_value *args[MOST];
	struct rng r = { 0x5eed, 0 };
	struct shape s[NFUNCS];
	uint32_t i, k, at[MOST];
	struct host_fit f;

	for (i = 0; i < NFUNCS; i++) {
		struct ll_value *func = ll_func(o->l, arena_printf(*state,
				"f%u", i), i64, params, MOST, true);

		draw(&r, *state, &s[i]);
		host_find_fit(*state, s[i].counts, s[i].n, s[i].at, &f);
		for (k = 0; k < MOST; k++) {
			args[k] = ll_param(o->l, func, k);
		}
		ll_return(o->l, host_fit_value(o->l, &f, args));
	}
	t_object_end(o);
	for (i = 0; i < NFUNCS; i++) {
		void *p = t_object_find(o, arena_printf(*state, "f%u", i));

		memcpy(&run, &p, sizeof run);
		for (k = 0; k < s[i].total; k++) {
			memset(at, 0, sizeof at);
			place_of(&s[i], k, at);
			assert_int_equal(run(at[0], at[1], at[2]),
					 s[i].at[k]);
		}
	}
	t_object_close(o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fits_back),
		cmocka_unit_test(fits_simply),
		cmocka_unit_test(emits_what_fits),
	};

	return cmocka_run_group_tests(tests, t_object_setup,
				      t_object_teardown);
}

/*
 * Vector functions are as near to libm's as cpu.h says, over all of f32, and
 * the same for any number of lanes; random numbers are ir_rng_*'s bit for bit.
 */
#include "tests/unit/shared/t-object.h"

#include "codegen/cpu/cpu.h"
#include "ir/ir.h"

#include <float.h>
#include <math.h>

/* ---- functions ---- */

static struct ll_value *
sin_of(struct ll *l, struct ll_value *x)
{
	struct ll_value *s, *c;

	cg_sincos(l, x, &s, &c);
	return s;
}

static struct ll_value *
cos_of(struct ll *l, struct ll_value *x)
{
	struct ll_value *s, *c;

	cg_sincos(l, x, &s, &c);
	return c;
}

static double
sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static const struct function {
	const char *name;
	struct ll_value *(*emit)(struct ll *l, struct ll_value *x);
	double (*want)(double x);
	double most;		/* |x| beyond is not promised */
	double units, apart;	/* in the last place; or so much */
} functions[] = {
	{ "exp", cg_exp, exp, INFINITY, 2, 0 },
	{ "log", cg_log, log, INFINITY, 2, 0 },
	{ "tanh", cg_tanh, tanh, INFINITY, 3, 0 },
	{ "sigmoid", cg_sigmoid, sigmoid, INFINITY, 3, 0 },
	{ "erf", cg_erf, erf, INFINITY, 0, 1e-7 },
	{ "sin", sin_of, sin, 0x1p+24, 0, 4e-7 },
	{ "cos", cos_of, cos, 0x1p+24, 0, 4e-7 }
};

#define FUNCTIONS (sizeof functions / sizeof *functions)

static const uint32_t widths[] = { 16, 1, 4, 8, 32 };

#define WIDTHS (sizeof widths / sizeof *widths)

/* y[i] = f(x[i]), of which n is a whole number of vectors. */
static void
emit_function(struct t_object *o, const struct function *f, uint32_t lanes)
{
	static const struct ll_type params[] = {
		{ LL_PTR, 1 }, { LL_PTR, 1 }, { LL_I64, 1 }
	};
	const char *name = arena_printf(o->a, "%s_%u", f->name, lanes);
	struct ll *l = o->l;
	struct ll_value *func, *x, *at;
	struct ll_loop k;

	func = ll_func(l, name, ll_type(LL_VOID, 1), params, 3, true);
	ll_loop(l, &k, ll_i64(l, 0), ll_param(l, func, 2), lanes, NULL, 0);
	at = ll_bin(l, LL_MUL, k.i, ll_i64(l, 4));
	x = ll_load(l, ll_type(LL_F32, lanes),
		    ll_plus(l, ll_param(l, func, 0), at));
	ll_store(l, f->emit(l, x), ll_plus(l, ll_param(l, func, 1), at));
	ll_loop_end(l, &k, NULL);
	ll_return(l, NULL);
}

union symbol {
	void *object;
	void (*map)(const float *x, float *y, int64_t n);
	void (*turn)(const double *x, float *sin, float *cos, int64_t n);
	void (*random)(int64_t key, int64_t step, int64_t from, int64_t n,
		       int64_t *out);
	int64_t (*key)(int64_t hash, int64_t seed);
};

/* How far off, as a part of what is allowed. */
static double
off(const struct function *f, float x, float got)
{
	double want = f->want((double)x), unit;
	int e;

	if (isnan(want)) {
		return isnan(got) ? 0 : INFINITY;
	}
	if (fabs(want) > (double)FLT_MAX) {
		return (double)got == copysign(INFINITY, want) ? 0 : INFINITY;
	}
	frexp(want, &e);
	/* what would be a subnormal number may be 0 */
	unit = fabs(want) < (double)FLT_MIN ? (double)FLT_MIN
		: ldexp(1, e - 24);
	return fabs((double)got - want) /
	       (f->apart > 0 ? f->apart : f->units * unit);
}

/* All signs and exponents, and of each as many mantissas as others. */
static int64_t
all_floats(float *x, uint32_t apart)
{
	uint64_t bits;
	int64_t n = 0;

	for (bits = 0; bits >> 32 == 0; bits += apart) {
		uint32_t u = (uint32_t)bits;

		memcpy(&x[n++], &u, sizeof u);
	}
	return n;
}

/* Around where something is cut off. */
static int64_t
some_floats(float *x)
{
	static const float around[] = {
		0, 1, 2, 4, 9, 9.125f, 0.5f, 88.72284f, 87.33654f, 103.97f,
		104, 16, 17.3f, FLT_MIN, FLT_MAX, INFINITY, 0x1p+24f,
		0.70710678f, 1.41421356f, 0.34657359f, 3.14159265f,
		1.57079633f, 0.78539816f
	};
	int64_t n = 0;
	size_t i;
	int j;

	for (i = 0; i < sizeof around / sizeof *around; i++) {
		float up = around[i], down = around[i];

		for (j = 0; j < 256; j++) {
			x[n++] = up;
			x[n++] = -up;
			x[n++] = down;
			x[n++] = -down;
			up = nextafterf(up, INFINITY);
			down = nextafterf(down, -INFINITY);
		}
	}
	x[n++] = NAN;
	x[n++] = -NAN;
	return n;
}

/* In steps of this over all bits: five million; of masked CPUs fewer. */
#define APART 811
#define APART_MASKED (64 * APART + 1)
#define CAPACITY ((((int64_t)1 << 32) / APART + 40000) / 32 * 32)

static void
hold_function(struct t_object *o, const struct function *f, const float *x,
	      int64_t n, float *y, float *again)
{
	double worst = 0, d;
	float at = 0;
	union symbol s;
	int64_t i;
	uint32_t w;

	s.object = t_object_find(o, arena_printf(o->a, "%s_16", f->name));
	s.map(x, y, n);
	for (i = 0; i < n; i++) {
		if (isfinite(x[i]) && (double)fabsf(x[i]) > f->most) {
			continue;
		}
		d = off(f, x[i], y[i]);
		if (!(d <= worst)) {
			worst = d;
			at = x[i];
		}
	}
	printf("  %-8s %.3f of what is allowed, at %a\n", f->name, worst,
	       (double)at);
	assert_true(worst <= 1);
	for (w = 1; w < WIDTHS; w++) {
		s.object = t_object_find(o, arena_printf(o->a, "%s_%u",
							 f->name, widths[w]));
		s.map(x, again, n);
		for (i = 0; i < n; i++) {
			if (memcmp(&y[i], &again[i], 4) != 0 &&
			    !(isnan(y[i]) && isnan(again[i]))) {
				fail_msg("%s(%a) differs in %u lanes", f->name,
					 (double)x[i], widths[w]);
			}
		}
	}
}

static void
hold_functions(struct arena *a, const char *cpu, uint32_t apart)
{
	struct t_object *o = t_object_begin(a, cpu);
	float *x = arena_alloc(a, sizeof *x * (size_t)CAPACITY);
	float *y = arena_alloc(a, sizeof *x * (size_t)CAPACITY);
	float *again = arena_alloc(a, sizeof *x * (size_t)CAPACITY);
	int64_t n;
	size_t i, w;

	for (i = 0; i < FUNCTIONS; i++) {
		for (w = 0; w < WIDTHS; w++) {
			emit_function(o, &functions[i], widths[w]);
		}
	}
	printf("%s: %s\n", cpu, ll_cpu(o->l));
	t_object_end(o);
	n = all_floats(x, apart);
	n += some_floats(x + n);
	assert_true(n <= CAPACITY);
	/* the rest of the last vector is 0 */
	n = (n + 31) / 32 * 32;
	for (i = 0; i < FUNCTIONS; i++) {
		hold_function(o, &functions[i], x, n, y, again);
	}
	t_object_close(o);
}

static void
test_functions(void **state)
{
	hold_functions(*state, "native", APART);
}

/* FMA or none, and masks of AVX-512 or blends: all are other instructions. */
static void
test_functions_masked(void **state)
{
	uint32_t i;

	for (i = 1; i < t_ncpus(); i++) {
		hold_functions(*state, t_cpu(i), APART_MASKED);
	}
}

/* What a model relies on to the last bit. */
static void
test_exact(void **state)
{
	static const struct {
		const char *f;
		float x, y;
	} exact[] = {
		{ "exp", 0, 1 }, { "exp", -0.0f, 1 },
		{ "exp", INFINITY, INFINITY }, { "exp", -INFINITY, 0 },
		{ "exp", 1e30f, INFINITY }, { "exp", -1e30f, 0 },
		{ "log", 1, 0 }, { "log", 0, -INFINITY },
		{ "log", -0.0f, -INFINITY }, { "log", INFINITY, INFINITY },
		{ "tanh", 0, 0 }, { "tanh", -0.0f, -0.0f },
		{ "tanh", 10, 1 }, { "tanh", -10, -1 },
		{ "tanh", INFINITY, 1 }, { "tanh", -INFINITY, -1 },
		{ "sigmoid", 0, 0.5f }, { "sigmoid", INFINITY, 1 },
		{ "sigmoid", -INFINITY, 0 }, { "sigmoid", 20, 1 },
		{ "erf", 0, 0 }, { "erf", -0.0f, -0.0f }, { "erf", 4, 1 },
		{ "erf", -4, -1 }, { "erf", INFINITY, 1 },
		{ "erf", -INFINITY, -1 }, { "sin", 0, 0 }, { "cos", 0, 1 }
	};
	struct t_object *o = t_object_begin(*state, t_cpu_next());
	float x[16], y[16];
	union symbol s;
	size_t i, j;

	for (i = 0; i < FUNCTIONS; i++) {
		emit_function(o, &functions[i], 16);
	}
	t_object_end(o);
	for (i = 0; i < sizeof exact / sizeof *exact; i++) {
		s.object = t_object_find(o, arena_printf(o->a, "%s_16",
							 exact[i].f));
		for (j = 0; j < 16; j++) {
			x[j] = exact[i].x;
		}
		s.map(x, y, 16);
		if (memcmp(&y[15], &exact[i].y, 4) != 0) {
			fail_msg("%s(%a) is %a", exact[i].f,
				 (double)exact[i].x, (double)y[15]);
		}
	}
	t_object_close(o);
}

/* ---- rotary angles ---- */

#define PI 3.14159265358979323846
#define PAIRS 64
#define POSITIONS 40000

static void
emit_turns(struct t_object *o)
{
	static const struct ll_type params[] = {
		{ LL_PTR, 1 }, { LL_PTR, 1 }, { LL_PTR, 1 }, { LL_I64, 1 }
	};
	struct ll_value *func, *x, *s, *c, *at;
	struct ll *l = o->l;
	struct ll_loop k;

	func = ll_func(l, "turns", ll_type(LL_VOID, 1), params, 4, true);
	ll_loop(l, &k, ll_i64(l, 0), ll_param(l, func, 3), 8, NULL, 0);
	at = ll_bin(l, LL_MUL, k.i, ll_i64(l, 8));
	x = ll_load(l, ll_type(LL_F64, 8),
		    ll_plus(l, ll_param(l, func, 0), at));
	cg_sincos_turns(l, x, &s, &c);
	at = ll_bin(l, LL_MUL, k.i, ll_i64(l, 4));
	ll_store(l, s, ll_plus(l, ll_param(l, func, 1), at));
	ll_store(l, c, ll_plus(l, ll_param(l, func, 2), at));
	ll_loop_end(l, &k, NULL);
	ll_return(l, NULL);
}

/* Positions to 2^24, not all, and forwards as well as back. */
static void
test_turns(void **state)
{
	struct t_object *o = t_object_begin(*state, t_cpu_next());
	double frequency[PAIRS], turns[PAIRS], worst = 0, angle;
	float s[PAIRS], c[PAIRS];
	uint64_t draw = 1;
	union symbol f;
	int64_t i, j, at;

	emit_turns(o);
	t_object_end(o);
	f.object = t_object_find(o, "turns");
	for (j = 0; j < PAIRS; j++) {
		frequency[j] = pow(10000, -2.0 * (double)j / (2 * PAIRS));
	}
	for (i = 0; i < POSITIONS; i++) {
		draw = draw * 6364136223846793005u + 1442695040888963407u;
		at = i < 4096 ? i : (int64_t)(draw >> 40);
		at = i % 2 ? at : -at;
		for (j = 0; j < PAIRS; j++) {
			turns[j] = (double)at * (frequency[j] / (2 * PI));
		}
		f.turn(turns, s, c, PAIRS);
		for (j = 0; j < PAIRS; j++) {
			angle = (double)at * frequency[j];
			worst = fmax(worst, fabs((double)s[j] - sin(angle)));
			worst = fmax(worst, fabs((double)c[j] - cos(angle)));
		}
	}
	printf("  turns    within %.1e\n", worst);
	assert_true(worst <= 2e-7);
	t_object_close(o);
}

/* ---- random numbers ---- */

#define BELOW 50257
#define BELOW_WIDE 0x123456789abcd
#define RATE 0.1

enum draw { NORMAL, SMALL, WIDE, KEEPS, DRAWS };

static struct ll_value *
draw_one(struct ll *l, enum draw d, struct ll_value *key,
	 struct ll_value *step, struct ll_value *i)
{
	switch (d) {
	case NORMAL:
		return ll_bits(l, cg_rng_normal(l, key, i),
			       ll_typeof(l, i));
	case SMALL:
		return cg_rng_below(l, key, i, BELOW);
	case WIDE:
		return cg_rng_below(l, key, i, BELOW_WIDE);
	default:
		return ll_cast(l, cg_rng_keeps(l, key, step, i, RATE), LL_I64);
	}
}

/* out[i] of the numbers from .. from + n - 1 */
static void
emit_draw(struct t_object *o, enum draw d, uint32_t lanes)
{
	static const struct ll_type params[] = {
		{ LL_I64, 1 }, { LL_I64, 1 }, { LL_I64, 1 }, { LL_I64, 1 },
		{ LL_PTR, 1 }
	};
	const char *name = arena_printf(o->a, "draw%d_%u", (int)d, lanes);
	struct ll *l = o->l;
	struct ll_value *f, *i, *x;
	struct ll_loop k;

	f = ll_func(l, name, ll_type(LL_VOID, 1), params, 5, true);
	ll_loop(l, &k, ll_i64(l, 0), ll_param(l, f, 3), lanes, NULL, 0);
	i = ll_bin(l, LL_ADD, ll_param(l, f, 2), k.i);
	if (lanes > 1) {
		i = ll_bin(l, LL_ADD, ll_splat(l, i, lanes),
			   ll_iota(l, ll_type(LL_I64, lanes)));
	}
	x = draw_one(l, d, ll_param(l, f, 0), ll_param(l, f, 1), i);
	ll_store(l, x, ll_plus(l, ll_param(l, f, 4),
			       ll_bin(l, LL_MUL, k.i, ll_i64(l, 8))));
	ll_loop_end(l, &k, NULL);
	ll_return(l, NULL);
}

static void
emit_key(struct ll *l)
{
	static const struct ll_type params[] = {
		{ LL_I64, 1 }, { LL_I64, 1 }
	};
	struct ll_value *f;

	f = ll_func(l, "key", ll_type(LL_I64, 1), params, 2, true);
	ll_return(l, cg_rng_key(l, ll_param(l, f, 0), ll_param(l, f, 1)));
}

static int64_t
drawn(enum draw d, uint64_t key, uint64_t step, uint64_t i)
{
	double x;
	int64_t bits;

	switch (d) {
	case NORMAL:
		x = ir_rng_normal(key, i);
		memcpy(&bits, &x, sizeof x);
		return bits;
	case SMALL:
		return ir_rng_below(key, i, BELOW);
	case WIDE:
		return ir_rng_below(key, i, BELOW_WIDE);
	default:
		return ir_rng_keeps(key, step, i, RATE);
	}
}

#define STRETCH 4096

static void
hold_draws(struct t_object *o, enum draw d, uint32_t lanes)
{
	int64_t *got = arena_alloc(o->a, sizeof *got * STRETCH), n = 0;
	uint64_t key = 1, step = 0, from = 0;
	union symbol s;
	int i, round;

	s.object = t_object_find(o, arena_printf(o->a, "draw%d_%u", (int)d,
						 lanes));
	for (round = 0; round < 100; round++) {
		s.random((int64_t)key, (int64_t)step, (int64_t)from, STRETCH,
			 got);
		for (i = 0; i < STRETCH; i++, n++) {
			if (got[i] != drawn(d, key, step,
					    from + (uint64_t)i)) {
				fail_msg("draw %d of %u lanes: key %llx, step "
					 "%llu, index %llu", (int)d, lanes,
					 (unsigned long long)key,
					 (unsigned long long)step,
					 (unsigned long long)from + i);
			}
		}
		key = key * 6364136223846793005u + 1442695040888963407u;
		step = round % 2 ? key >> 20 : step + 1;
		/* low ones, and past 2^32 */
		from = round % 2 ? key >> (round % 40) : from + STRETCH;
	}
}

static void
test_draws(void **state)
{
	static const uint32_t lanes[] = { 1, 4, 8, 16 };
	static const char *const names[] = {
		"", "wte", "model.layers.31.mlp.down_proj.weight", "\xc3\xa4"
	};
	struct t_object *o = t_object_begin(*state, t_cpu_next());
	union symbol s;
	uint64_t seed, hash;
	size_t i, j;

	emit_key(o->l);
	for (i = 0; i < DRAWS * 4; i++) {
		emit_draw(o, (enum draw)(i / 4), lanes[i % 4]);
	}
	t_object_end(o);
	s.object = t_object_find(o, "key");
	for (i = 0; i < 4; i++) {
		hash = cg_rng_hash(names[i]);
		for (j = 0; j < 100; j++) {
			seed = j < 50 ? j : j * 0x9e3779b97f4a7c15u;
			assert_true((uint64_t)s.key((int64_t)hash,
						    (int64_t)seed) ==
				    ir_rng_key(names[i], seed));
		}
	}
	for (i = 0; i < DRAWS * 4; i++) {
		hold_draws(o, (enum draw)(i / 4), lanes[i % 4]);
	}
	t_object_close(o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_functions_masked),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_draws)
	};

	return cmocka_run_group_tests(tests, t_object_setup, t_object_done);
}

/*
 * Attention of a step that serves, on a GPU: what a query gets has the same
 * bits alone and among others, wherever its keys are in the index, if the first
 * is that of a block of 128.  Each step is held to the interpreter, too.
 * T_ARCH, T_CHECK and T_SHOW as in t-cuda-attention.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cuda/t-attention-compiled.h"
#include "tests/unit/cuda/t-attention-gpu.h"
#include "tests/unit/shared/t-today.h"

#define ROWS 300
#define BAD_ROWS 20		/* the last ones: not our query's */
#define BLOCK 128
#define MOST_KEYS (80 * BLOCK)
#define MOST_OUT (150 * 16 * 128 * 4)

/* Attention that a model asks for, of keys so many in the index. */
struct model {
	const char *arch, *dtype, *attrs, *stored;
	int64_t kv, heads, d, v;
	bool sinks;
	bool latent;		/* values are the first columns of keys */
};

/* A step: others are drawn anywhere, spread over the keys, those of one prompt,
 * or have two parts each. */
enum others { ANYWHERE, SPREAD, PROMPT, SHORT };
#define SHORT_KEYS 600

struct step {
	int64_t queries, keys, query, first, seen;
	enum others others;
	int64_t hidden;	/* keys before the first one that it sees */
};

/* What is planted, and what the emulator reports; NULL: other bits, or wrong
 * results. */
struct mistake {
	const char *cut, *put, *says;
};

static struct {
	const struct model *m;
	const struct step *x;
	int32_t rows[MOST_KEYS];	/* of our query */
	char out[MOST_OUT];
	int64_t bytes;			/* of all queries */
	bool bad;	/* keys and values of others are NaN */
	int32_t slots;	/* that are in use */
} r;

/* ---- what a step reads ---- */

/* Number i of a tensor, which all types have that are used: in eighths, or in
 * halves if they have 8 bits. */
static double
number(uint64_t key, int64_t i)
{
	int parts = r.m->stored ? 2 : 8;
	double x = ir_rng_normal(key, (uint64_t)i);

	x = x < -1.5 ? -1.5 : x > 1.5 ? 1.5 : x;
	return rint(x * parts) / parts;
}

static void
give_ranges(bool last, int64_t queries, double *out)
{
	const struct step *x = r.x;
	int64_t first = x->first + x->hidden, i, from, to;

	for (i = 0; i < queries; i++) {
		from = ir_rng_below(17, 2 * i, x->keys);
		to = ir_rng_below(17, 2 * i + 1, x->keys);
		if (x->others == SPREAD) {
			from = x->keys * i / queries;
			to = x->keys * (i + 1) / queries - 1;
		} else if (x->others == PROMPT) {
			from = first;
			to = x->first + x->seen - 1 - (x->query - i);
		}
		if (x->others == SHORT) {
			from = 0;
			to = SHORT_KEYS - 1;
		}
		if (i == x->query) {
			from = first;
			to = x->first + x->seen - 1;
		}
		out[i] = (double)(last ? to : from);
	}
}

static void
give(const char *name, int64_t elems, double *out)
{
	const struct step *x = r.x;
	int64_t each = r.m->heads * r.m->d, i;

	if (strcmp(name, "first") == 0 || strcmp(name, "last") == 0) {
		give_ranges(*name == 'l', elems, out);
		return;
	}
	for (i = 0; i < elems; i++) {
		if (strcmp(name, "index") == 0) {
			bool own = i >= x->first && i < x->first + x->seen;

			out[i] = own ? r.rows[i - x->first]
				     : (double)ir_rng_below(3, i, ROWS);
		} else if (strcmp(name, "q") == 0) {
			/* our query has the numbers of the first one */
			out[i] = number(11, i / each == x->query ? i % each
					: i + each);
		} else {
			out[i] = number((uint64_t)name[0], i);
		}
	}
	for (i = elems / ROWS * (ROWS - BAD_ROWS); r.bad && i < elems &&
	     (*name == 'k' || *name == 'v'); i++) {
		out[i] = NAN;
	}
}

static void
put_step(void)
{
	const struct model *m = r.m;
	const char *stored = m->stored ? m->stored : m->dtype;

	text[0] = '\0';
	put("llmc-ir 1\ndim b = 1\ndim s = %lld\ndim t = %lld\ndim rows = %d\n"
	    "dim k = %lld\ndim h = %lld\ndim d = %lld\ndim v = %lld\n"
	    "model {\n", (long long)r.x->queries, (long long)r.x->keys, ROWS,
	    (long long)m->kv, (long long)m->heads, (long long)m->d,
	    (long long)m->v);
	put("  %%0 = weight name=\"q\" : %s[b, s, h, d]\n", m->dtype);
	put("  %%1 = weight name=\"keys\" : %s[rows, k, d]\n", stored);
	if (m->latent) {
		put("  %%2 = slice %%1 of=d to=v at=0 : %s[rows, k, v]\n",
		    stored);
	} else {
		put("  %%2 = weight name=\"values\" : %s[rows, k, v]\n",
		    stored);
	}
	put("  %%3 = input name=\"index\" : idx<rows>[b, t]\n");
	put("  %%4 = weight name=\"first\" : f32[b, s]\n");
	put("  %%5 = weight name=\"last\" : f32[b, s]\n");
	put("  %%6 = weight name=\"sinks\" : f32[h]\n");
	put("  %%7 = gather %%1, %%3 of=rows : %s[b, t, k, d]\n", stored);
	put("  %%8 = gather %%2, %%3 of=rows : %s[b, t, k, v]\n", stored);
	if (m->stored) {
		put("  %%10 = cast %%7 : %s[b, t, k, d]\n", m->dtype);
		put("  %%11 = cast %%8 : %s[b, t, k, v]\n", m->dtype);
	}
	put("  %%9 = attention%s_between %%0, %s,%s %%4, %%5%s : "
	    "%s[b, s, h, v]\n  return %%9\n}\n", m->sinks ? "_sinks" : "",
	    m->stored ? "%10, %11" : "%7, %8", m->sinks ? " %6," : "",
	    m->attrs, m->dtype);
}

/* ---- a step ---- */

static void
keep_out(const char *out)
{
	memcpy(r.out, out, (size_t)r.bytes);
	memcpy(&r.slots, s.ranks[0].shared, sizeof r.slots);
}

/* Runs it, and keeps what it gets. */
static void
run_step(void)
{
	bool exact = strcmp(r.m->dtype, "f32") == 0;

	r.bytes = r.x->queries * r.m->heads * r.m->v * (exact ? 4 : 2);
	assert_true(r.bytes <= MOST_OUT);
	s.given = give;
	s.look = keep_out;
	put_step();
	check(text, NULL, exact ? 1e-5 : 2e-2);
	s.given = NULL;
	s.look = NULL;
}

/* Our query among those of the step that ran. */
static const char *
ours(int64_t *bytes)
{
	*bytes = r.bytes / r.x->queries;
	return r.out + r.x->query * *bytes;
}

static char want[16 * 128 * 16];

/* Runs a step whose query gets what all have to give it. */
static void
run_first(const struct model *m, const struct step *x)
{
	const char *out;
	int64_t n, i;

	r.m = m;
	r.x = x;
	b.arch = m->arch;
	for (i = 0; i < MOST_KEYS; i++) {
		r.rows[i] = (int32_t)draw(0, ROWS - BAD_ROWS - 1);
	}
	run_step();
	out = ours(&n);
	assert_true(n <= (int64_t)sizeof want);
	memcpy(want, out, (size_t)n);
}

/* Whether another step has the same bits. */
static bool
runs_same(const struct step *x)
{
	const char *out;
	int64_t n;

	r.x = x;
	run_step();
	out = ours(&n);
	return memcmp(want, out, (size_t)n) == 0;
}

/* Runs steps with the same query, the first of which says what it gets. */
static void
run_steps(const struct model *m, const struct step *all, int n)
{
	struct cost_single x;
	int i;

	run_first(m, &all[0]);
	for (i = 1; i < n; i++) {
		if (!runs_same(&all[i])) {
			fail_msg("%s %s%s of %lld, %lld: query %lld of %lld "
				 "with %lld keys from %lld", m->arch, m->dtype,
				 m->attrs, (long long)m->d, (long long)m->v,
				 (long long)r.x->query, (long long)
				 r.x->queries, (long long)r.x->seen,
				 (long long)r.x->first);
		}
		/* its instructions, launches and scratch are those that prices
		 * count */
		x = (struct cost_single){ .queries = r.x->queries,
			.keys = r.x->keys, .heads = m->heads, .kv = m->kv,
			.d = m->d, .v = m->v, .within = m->latent,
			.exact = strcmp(m->dtype, "f32") == 0,
			.slopes = strstr(m->attrs, "alibi") != NULL,
			.shared_bytes = cost_shared_bytes(m->arch) };
		assert_int_equal(b.wgmma, 0);
		assert_true(b.sync == cost_single_is_sync(&x));
		assert_true(s.ranks[0].k[0].steps.n ==
			    cost_single_launches(&x));
		assert_true((double)s.ranks[0].k[0].shared_bytes ==
			    cost_single_bytes(&x));
	}
}

static const struct model models[] = {
	{ "sm_80", "bf16", "", NULL, 1, 2, 64, 64, false, false },
	{ "sm_90a", "bf16", " softcap=2", "f8e4m3", 2, 8, 64, 64, false,
	  false },
	{ "sm_80", "f32", "", NULL, 1, 3, 24, 40, true, false },
	{ "sm_89", "f16", " alibi=6", NULL, 2, 4, 36, 20, true, false },
	{ "sm_90a", "bf16", "", NULL, 1, 20, 72, 64, true, false },
	/* warps share scores: two or three of them, with two tiles of heads or
	 * part of one; and values that are no part of keys */
	{ "sm_90a", "bf16", "", NULL, 1, 20, 160, 144, true, true },
	{ "sm_80", "bf16", " alibi=4", NULL, 1, 4, 288, 272, false, true },
	{ "sm_90a", "f16", " softcap=2", NULL, 1, 4, 176, 150, false, false }
};

/* Several parts: alone, and with others. */
static void
parts(void **state)
{
	static const struct step all[] = {
		{ 1, 1400, 0, 0, 1300, ANYWHERE, 0 },
		{ 1, 2000, 0, 4 * BLOCK, 1300, ANYWHERE, 0 },
		{ 70, 2100, 69, 5 * BLOCK, 1300, ANYWHERE, 0 },
		{ 20, 1500, 11, BLOCK, 1300, SPREAD, 0 },
		{ 66, 1800, 65, 3 * BLOCK, 1300, PROMPT, 0 },
		/* more parts than are kept of queries that are never a block */
		{ 16, 2100, 15, BLOCK, 1300, PROMPT, 0 },
	};
	static const struct step hidden[] = {
		{ 1, 700, 0, 0, 640, ANYWHERE, 100 },
		{ 40, 900, 30, 2 * BLOCK, 640, ANYWHERE, 100 },
		{ 40, 900, 39, BLOCK, 640, PROMPT, 100 },
		{ 7, 800, 3, BLOCK, 640, SPREAD, 100 }
	};
	size_t i;

	(void)state;
	b.flags = RT_EMU_CHECK;
	for (i = 0; i < sizeof models / sizeof models[0]; i++) {
		if (!t_today((uint32_t)i, 8)) {
			continue;
		}
		/* of one multiprocessor: items of several parts */
		b.units = i % 2;
		run_steps(&models[i], all, sizeof all / sizeof all[0]);
		b.units = !b.units;
		run_steps(&models[i], hidden,
			  sizeof hidden / sizeof hidden[0]);
	}
	b.units = 0;
	b.flags = b.usual_flags;
}

/* More keys than 16 parts of 512 have: parts of 1024. */
static void
many_keys(void **state)
{
	static const struct model few[] = {
		{ "sm_80", "bf16", "", NULL, 1, 1, 16, 16, false, false },
		{ "sm_90a", "bf16", "", NULL, 1, 2, 160, 144, false, true }
	};
	static const struct step all[] = {
		{ 1, 9000, 0, 0, 8300, ANYWHERE, 0 },
		{ 2, 9400, 1, 4 * BLOCK, 8300, SPREAD, 0 },
		{ 18, 9300, 17, 2 * BLOCK, 8300, PROMPT, 0 }
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof few / sizeof few[0]; i++) {
		if (t_today((uint32_t)i, 2)) {
			b.units = i % 2;
			run_steps(&few[i], all, sizeof all / sizeof all[0]);
		}
	}
	b.units = 0;
}

/* Latents of f32: warps do not share their scores, so what sees few keys of a
 * step is single, and the rest is in blocks. */
static void
exact_latents(void **state)
{
	static const struct model exact = { "sm_90a", "f32", "", NULL, 1, 16,
					    160, 144, false, true };
	static const struct step all[] = {
		{ 1, 600, 0, 0, 40, ANYWHERE, 0 },
		{ 17, 700, 16, BLOCK, 40, SPREAD, 0 }
	};

	(void)state;
	run_steps(&exact, all, sizeof all / sizeof all[0]);
}

/* One long query beside many of two parts, which all together have more parts
 * than slots: it alone is divided. */
static void
one_long(void **state)
{
	static const struct model latents = { "sm_80", "bf16", "", NULL, 1, 16,
					      160, 144, false, true };
	static const struct step all[] = {
		{ 1, 4096, 0, 0, 4000, ANYWHERE, 0 },
		{ 71, 5000, 70, 4 * BLOCK, 4000, SHORT, 0 }
	};

	(void)state;
	run_steps(&latents, all, 1);
	assert_int_equal(r.slots, 8);
	assert_true(runs_same(&all[1]));
	assert_int_equal(r.slots, 70 + 8);
}

/* Latents of which two tiles of keys do not fit where one does: queries are
 * single ones all the same, by warps that do not share scores. */
static void
small_memory(void **state)
{
	static const struct model latents = { "sm_89", "bf16", "", NULL, 1, 16,
					      832, 768, false, true };
	static const struct step all[] = {
		{ 1, 1400, 0, 0, 1300, ANYWHERE, 0 },
		{ 20, 1500, 11, BLOCK, 1300, SPREAD, 0 }
	};
	struct cost_single x = { .queries = 20, .keys = 1500, .heads = 16,
				 .kv = 1, .d = 832, .v = 768, .within = true };

	(void)state;
	assert_true(cost_single_is_wide(&x));
	x.shared_bytes = cost_shared_bytes("sm_89");
	assert_false(cost_single_is_wide(&x));
	assert_true(cost_single_fits(&x));
	run_steps(&latents, all, 2);
}

/* NaN of keys and values that single queries do not see, before their first key
 * and after their last one. */
static void
beside_bad(void **state)
{
	static const struct step all[] = {
		{ 1, 700, 0, 0, 640, ANYWHERE, 100 },
		{ 7, 900, 3, BLOCK, 640, SPREAD, 100 },
		{ 30, 900, 29, BLOCK, 640, SPREAD, 100 }
	};
	static const int some[] = { 1, 2, 5 };
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		if (!t_today((uint32_t)i, 3)) {
			continue;
		}
		run_first(&models[some[i]], &all[0]);
		/* what the interpreter makes of others is NaN */
		r.bad = s.planted = true;
		assert_true(runs_same(&all[1]));
		assert_true(runs_same(&all[2]));
		r.bad = s.planted = false;
	}
}

/* Runs steps with a mistake in the kernel's text. */
static void
plant_mistake(const struct model *m, const struct mistake *x,
	      const struct step *all)
{
	bool same;

	b.units = 1;
	run_first(m, &all[0]);
	b.cut = x->cut;
	b.put = x->put;
	b.is_planted = s.wrong = false;
	b.message[0] = '\0';
	s.planted = true;
	same = runs_same(&all[1]);
	same = runs_same(&all[2]) && same;
	s.planted = false;
	b.cut = NULL;
	assert_true(b.is_planted);
	if (x->says ? !strstr(b.message, x->says)
		    : *b.message || (same && !s.wrong)) {
		fail_msg("%s: %s", x->cut, b.message);
	}
}

static void
planted(void **state)
{
	static const struct step all[] = {
		{ 1, 1400, 0, 0, 1300, ANYWHERE, 0 },
		{ 20, 1500, 11, BLOCK, 1300, SPREAD, 0 },
		{ 20, 1800, 19, 3 * BLOCK, 1300, PROMPT, 0 },
	};
	static const struct mistake mistakes[] = {
		/* parts */
		{ "past % ca_part_keys(past + rest) == 0", "0", NULL },
		{ "- low) % size == 0", "- low) % size == 1", NULL },
		{ " * old_by);\n\t\t\t\t\t\to[i][j]", ");\n\t\t\t\t\t\to[i][j]",
		  NULL },
		/* the list */
		{ "sum += LANE >= i ? more : 0;", ";", "of global memory" },
	};
	size_t i;

	(void)state;
	b.flags = RT_EMU_CHECK;
	for (i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
		if (t_today((uint32_t)i, 4)) {
			plant_mistake(&models[4], &mistakes[i], all);
		}
	}
	b.units = 0;
	b.flags = b.usual_flags;
}

/* No kernel spills registers: models' heads, latents, f32. */
static void
compiled(void **state)
{
	static const struct model all[] = {
		{ "sm_80", "bf16", "", NULL, 8, 32, 64, 64, false, false },
		{ "sm_90a", "bf16", "", "f8e4m3", 8, 32, 128, 128, true,
		  false },
		{ "sm_90a", "bf16", "", NULL, 4, 4, 192, 128, false, false },
		{ "sm_90a", "bf16", "", NULL, 1, 32, 576, 512, false, false },
		{ "sm_90a", "bf16", "", NULL, 1, 128, 576, 512, false, true },
		{ "sm_80", "bf16", "", NULL, 1, 16, 576, 512, false, true },
		{ "sm_89", "f32", " softcap=20", NULL, 2, 4, 128, 128, false,
		  false },
		{ "sm_89", "f16", " alibi=8", NULL, 8, 8, 128, 128, false,
		  false },
		{ "sm_90a", "f16", " softcap=20", NULL, 1, 16, 320, 256, true,
		  true }
	};
	static const struct step x = { 256, 16384, 0, 0, 1, ANYWHERE, 0 };
	size_t i;

	(void)state;
	r.x = &x;
	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		if (t_today((uint32_t)i, 4)) {
			r.m = &all[i];
			put_step();
			check_compiled(text, all[i].arch);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts),
		cmocka_unit_test(many_keys),
		cmocka_unit_test(exact_latents),
		cmocka_unit_test(one_long),
		cmocka_unit_test(small_memory),
		cmocka_unit_test(beside_bad),
		cmocka_unit_test(planted),
		cmocka_unit_test(compiled)
	};

	if (t_left_out()) {
		return 77;
	}
	b.arch = "sm_80";
	b.usual_flags = getenv("T_CHECK") ? RT_EMU_CHECK : 0;
	b.flags = b.usual_flags;
	return t_run_today(tests, sizeof tests / sizeof tests[0], 1);
}

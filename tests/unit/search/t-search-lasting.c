/*
 * What runs on one model share, whatever their targets: no answer follows from
 * what another run has kept.  The second target lies where the first one lay,
 * so that a key with an address of it does not tell them apart.  Kinds that may
 * not be shared are, too, to see that this is noticed.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/search/t-search.h"

#define SHARES 3
#define NONE MEMO_NKINDS

#define RUNS 3

/* What searches of some models find on three clusters each, as numbers. */
struct answers {
	double us[RUNS][2 * SHARES], bytes[RUNS][2 * SHARES];
};

static void
search_with(const struct ir_module *base, const struct target *t,
	    struct memo *lasting, int planted, double *us, double *bytes)
{
	struct search_options o = { .target = t, .top = SHARES };
	struct search_report r;
	struct ir_module *m;
	struct memo memo;
	struct ir_ctx c;
	uint32_t i;

	ir_ctx_child(&c, base->ctx);
	m = ir_copy(base, &c);
	memo_init(&memo, &c.mem, MEMO_BYTES);
	memo.lasting = lasting;
	if (planted != NONE) {
		memo.lasts[planted] = true;
	}
	assert_true(search_run(m, &o, &memo, &base->ctx->perm, &r));
	assert_true(r.found.n > 0);
	for (i = 0; i < r.found.n && i < SHARES; i++) {
		us[i] = r.found.at[i].step_us;
		bytes[i] = (double)r.found.at[i].bytes;
	}
	memo_release(&memo);
	ir_ctx_release(&c);
}

/* First the device becomes another, then what links devices. */
static void
change(struct target_group *g, int what)
{
	uint32_t i;

	for (i = 0; what == 0 && i < TARGET_NRATES; i++) {
		g->device.flops_us[i] *= .05;
	}
	g->device.memory_bytes_us *= what == 0 ? 2 : 1;
	g->device.link_bytes_us *= what == 1 ? .05 : 1;
	g->network.bytes_us *= what == 1 ? .1 : 1;
}

/* With one memo for all runs, or each with its own. */
static void
answer(const char *text, const char *cluster, bool shares, int planted,
       struct answers *x, int at)
{
	struct memo lasting;
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	int i;

	ir_ctx_init(&c, NULL);
	m = trained(&c, text);
	t = target(&c, cluster);
	memo_init(&lasting, &c.mem, MEMO_BYTES);
	for (i = 0; i < RUNS; i++) {
		search_with(m, &t, shares ? &lasting : NULL, planted,
			    &x->us[i][at], &x->bytes[i][at]);
		change(&t.groups.at[0], i);
	}
	memo_release(&lasting);
	ir_ctx_release(&c);
}

static void
answer_heavy(bool shares, int planted, struct answers *x)
{
	char text[4096];

	memset(x, 0, sizeof *x);
	snprintf(text, sizeof text, heavy, 8, 3);
	answer(text, "h100x2x2", shares, planted, x, 0);
}

static void
answer_all(bool shares, struct answers *x)
{
	char text[4096];

	answer_heavy(shares, NONE, x);
	snprintf(text, sizeof text, experts, 8, 2);
	answer(text, "rtx4090x4", shares, NONE, x, SHARES);
}

static void
test_shared(void **state)
{
	struct answers own, shared;

	(void)state;
	answer_all(false, &own);
	answer_all(true, &shared);
	assert_memory_equal(&own, &shared, sizeof own);
}

/* If prices were shared, that would be seen. */
static void
test_planted(void **state)
{
	static const enum memo_kind planted[] = {
		MEMO_PARTS, MEMO_PRICES, MEMO_DOTS
	};
	struct answers own, shared;
	size_t i;

	(void)state;
	answer_heavy(false, NONE, &own);
	for (i = 0; i < sizeof planted / sizeof *planted; i++) {
		answer_heavy(true, (int)planted[i], &shared);
		assert_memory_not_equal(&own, &shared, sizeof own);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_planted)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

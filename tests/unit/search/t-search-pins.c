/*
 * What is pinned leaves fewer plans: nothing that is found with pins is
 * quicker than what is found without, however little memory there is, and
 * where something fits with pins, something is found without.
 *
 * SEARCH_PLANS=N draws so many clusters, SEARCH_SEED=S others; T_ONLY='*drawn'
 * runs some of the tests.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/search/t-search.h"
#include "tests/unit/shared/t-today.h"

/* What is found with `pins`, and one number more after them: the best. */
static double
best_pinned(const struct ir_module *m, const struct target *t,
	    const char *pins, const int *numbers, int n, uint64_t *placed)
{
	double best = INFINITY, us;
	char text[80];
	int i;

	for (i = 0; i < n; i++) {
		snprintf(text, sizeof text, "%s=%d", pins, numbers[i]);
		us = counted(m, t, text, placed).step_us;
		best = us > 0 ? fmin(best, us) : best;
	}
	return best;
}

/* Six layers of a model, and a cluster that has no memory set aside. */
static struct ir_module *
small_model(struct ir_ctx *c, const char *model, const char *name,
	    struct target *t)
{
	char text[4096];
	struct ir_module *m;

	snprintf(text, sizeof text, model, 64, 6);
	ir_ctx_init(c, NULL);
	m = trained(c, text);
	*t = target(c, name);
	t->groups.at[0].device.reserve_bytes = 0;
	return m;
}

static void
assert_no_worse(double us, double best, double bytes)
{
	print_message("%.0f bytes: %.3f, of each %.3f\n", bytes, us, best);
	assert_true(us > 0 && us <= best * (1 + 1e-9));
}

/*
 * Where a degree is pinned no sharding with another one is placed: what is
 * found without that pin is no worse, and fewer shardings were placed for it.
 */
static void
stand(const char *model, const char *pins, const char *key,
      const int *numbers, int n, double bytes, double most)
{
	uint64_t placed = 0, pinned = 0;
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	const char *each;
	double us;

	m = small_model(&c, model, "h100x4", &t);
	t.groups.at[0].device.host_bytes_us = 0;
	each = arena_printf(&c.perm, "%s,%s", pins, key);
	for (; bytes < most; bytes *= 1.12) {
		t.groups.at[0].device.memory_bytes = bytes;
		us = counted(m, &t, pins, &placed).step_us;
		assert_no_worse(us, best_pinned(m, &t, each, numbers, n,
						&pinned), bytes);
	}
	print_message("%d shardings, %d of each\n", (int)placed, (int)pinned);
	assert_true(placed > 0 && placed < pinned);
	ir_ctx_release(&c);
}

static void
test_stand(void **state)
{
	static const int zero[] = { 0, 1, 2, 3 }, tp[] = { 1, 2, 4 };

	(void)state;
	stand(dense, "pp=1,tp=1,stages=even", "zero", zero, 4, 59e6, 90e6);
	stand(heavy, "zero=1,stages=even", "tp", tp, 3, 8e9, 14e9);
}

/*
 * What a rank keeps with each ZeRO is known before anything is placed: where
 * it has no memory for 1, placements are made of 2 and 3 only.
 */
static void
test_states(void **state)
{
	static const double bytes[] = { 23e6, 32e6 };
	uint64_t placed[2] = { 0 };
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	int i;

	(void)state;
	m = small_model(&c, dense, "h100x4", &t);
	t.groups.at[0].device.host_bytes_us = 0;
	for (i = 0; i < 2; i++) {
		t.groups.at[0].device.memory_bytes = bytes[i];
		assert_true(counted(m, &t, "pp=1,dp=4,tp=1,microbatch=1",
				    &placed[i]).step_us > 0);
		print_message("%.0f bytes: %d placed\n", bytes[i],
			      (int)placed[i]);
	}
	/* and a program that no axis splits, for bounds */
	assert_int_equal(placed[0], 3);
	assert_true(placed[1] > placed[0]);
	ir_ctx_release(&c);
}

/*
 * The model is small, so kernels consist of launches: what rebuilding is
 * guessed to take must not grow with the microbatch as they would, or plans
 * of a large one are not looked at.
 */
static void
test_launches(void **state)
{
	static const double bytes[] = { 40e6, 44.6e6, 50e6, 63.3e6, 71e6 };
	static const int microbatch[] = { 1, 2, 4, 8, 16, 32 };
	uint64_t placed = 0;
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	size_t i;

	(void)state;
	m = small_model(&c, dense, "h100x2", &t);
	for (i = 0; i < sizeof bytes / sizeof *bytes; i++) {
		t.groups.at[0].device.memory_bytes = bytes[i];
		assert_no_worse(found(m, &t, ""),
				best_pinned(m, &t, "microbatch", microbatch, 6,
					    &placed), bytes[i]);
	}
	ir_ctx_release(&c);
}

/*
 * A pinned schedule that runs any number of stages may run one, which is all
 * that there is on one rank, or on four for six layers: what is found is as
 * quick as with the schedule that runs one alone.
 */
static void
test_interleaved(void **state)
{
	static const int pp[] = { 1, 2, 4 };
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	char pins[40];
	double us, one;
	size_t i;

	(void)state;
	m = small_model(&c, dense, "h100x4", &t);
	for (i = 0; i < sizeof pp / sizeof *pp; i++) {
		snprintf(pins, sizeof pins, "pp=%d,schedule=1f1b", pp[i]);
		one = found(m, &t, pins);
		snprintf(pins, sizeof pins, "pp=%d,schedule=interleaved",
			 pp[i]);
		us = found(m, &t, pins);
		print_message("%s: %.3f, 1f1b %.3f\n", pins, us, one);
		assert_true(us > 0 && us <= one * (1 + 1e-9));
		assert_true(i == 1 || us >= one * (1 - 1e-9));
	}
	ir_ctx_release(&c);
}

/* ---- clusters with little memory ---- */

/* The best with any of these pins. */
static double
best_of(const struct ir_module *m, const struct target *t,
	const char *const *pins, size_t n, const char **which)
{
	double best = INFINITY, us;
	size_t i;

	for (i = 0; i < n; i++) {
		us = found(m, t, pins[i]);
		if (us > 0 && us < best) {
			best = us;
			*which = pins[i];
		}
	}
	return best;
}

static double
best_of_all(const struct ir_module *m, const struct target *t,
	    const char **which)
{
	static const char *const pins[] = {
		"zero=0", "zero=1", "zero=2", "zero=3", "offload=none",
		"offload=optimizer,offload_to=nvme",
		"offload=activations", "offload=optimizer+activations",
		"offload=optimizer", "zero=2,offload=optimizer",
		"zero=3,offload=optimizer", "pp=1", "microbatch=1",
		"microbatch=2", "microbatch=4", "zero=3,microbatch=2",
		"tp=1", "tp=2", "pp=2", "sequence=off",
		/* where hosts have memory: */
		"offload=parameters", "offload=optimizer+parameters",
		"offload=optimizer+parameters,microbatch=2",
		"offload=optimizer+parameters+activations"
	};
	size_t n = sizeof pins / sizeof *pins;


	/* else parameters stay on devices, unless that is pinned */
	n -= t->groups.at[0].device.host_memory_bytes > 0 ? 0 : 4;
	return best_of(m, t, pins, n, which);
}

/* From all that the quickest plan holds to a fifth of that. */
static struct ir_module *
draw_cluster(struct ir_ctx *c, struct target *t)
{
	static const char *const clusters[] = {
		"h100x2", "h100x4", "h100x8", "rtx4090x4", "a100x2x2",
		"h100x2x2"
	};
	const char *model = draw(3) ? drawn_dense : drawn_experts;
	uint32_t ways = model == drawn_dense ? 3 : 2;
	struct target_device *d;
	struct ir_module *m;
	char text[4096];

	snprintf(text, sizeof text, model, 256u << draw(ways),
		 512u << draw(3), 64u << draw(3), 8u << draw(3), 2 + draw(5));
	ir_ctx_init(c, NULL);
	m = trained(c, text);
	*t = target(c, clusters[draw(6)]);
	d = &t->groups.at[0].device;
	d->memory_bytes = (double)search(m, t, "").bytes *
			  exp(-1.6e-3 * draw(1000));
	d->reserve_bytes = 0;
	return m;
}

/* What is found there, and the best with a pin. */
static void
draw_case(double *us, double *best)
{
	const char *pin = "";
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;

	m = draw_cluster(&c, &t);
	*us = found(m, &t, "");
	*best = best_of_all(m, &t, &pin);
	print_message("seed %d, %s, %.0f bytes: %.3f, with %s %.3f\n",
		      (int)seed, t.name, t.groups.at[0].device.memory_bytes,
		      *us, pin, *best);
	ir_ctx_release(&c);
}

/*
 * Of such clusters, those of which an earlier search missed what a pin finds:
 * parameters on hosts, after more than 64 plans that composed to fit and did
 * not, ways that were made for another plan of the placement, and ways that
 * were not made, as a quicker plan's programs were yet to turn out too large.
 */
static void
test_missed(void **state)
{
	static const struct {
		uint64_t seed;
		const char *pin;
	} at[] = {
		{ 12018, "microbatch=4" },
		{ 12241, "offload=optimizer+parameters" },
		{ 12248, "zero=1" },
		{ 41097, "offload=none" },
		{ 65045, "offload=none" }
	};
	uint64_t was = seed;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof at / sizeof *at; i++) {
		struct ir_module *m;
		struct target t;
		struct ir_ctx c;

		seed = at[i].seed;
		drawn = 0;
		m = draw_cluster(&c, &t);
		assert_no_worse(found(m, &t, ""), found(m, &t, at[i].pin),
				t.groups.at[0].device.memory_bytes);
		ir_ctx_release(&c);
	}
	seed = was;
}

/*
 * No pin gives a quicker plan than the search without it, and none that fits is
 * said not to.
 */
static void
test_drawn(void **state)
{
	int64_t asked = env("SEARCH_PLANS", 0), all = asked ? asked : 8;
	int64_t n = 0, slower = 0, missed = 0, none = 0, i;
	double us, best;

	(void)state;
	for (i = 0; i < all; i++, seed++) {
		/* 4 and the days of t_run_today have no divisor in common */
		if (!asked && !t_today((uint64_t)i, 4)) {
			continue;
		}
		n++;
		drawn = 0;
		draw_case(&us, &best);
		none += us <= 0 && !isfinite(best);
		missed += us <= 0 && isfinite(best);
		slower += us > best * (1 + 1e-4);
	}
	print_message("of %d, %d slower than with pins, %d said not to fit; "
		      "nothing fits %d\n", (int)n, (int)slower, (int)missed,
		      (int)none);
	assert_int_equal(slower + missed, 0);
	assert_true(none < n);
}

/* ---- parameters on hosts and drives ---- */

static const char *const streamed[] = {
	"offload=optimizer+parameters",
	"offload=optimizer+parameters,zero=0",
	"offload=optimizer+parameters,zero=3",
	"offload=optimizer+parameters+activations",
	"offload=optimizer+parameters,offload_to=nvme",
	"offload=optimizer+parameters,parameters_to=nvme",
	"offload=optimizer+parameters,offload_to=nvme,parameters_to=nvme",
	"offload=parameters", "zero=2", "pp=1", "pp=2", "tp=1", "tp=2",
	"microbatch=1", "microbatch=2", "sequence=off"
};

/*
 * Lowers memory until the answer has parameters on hosts; of every other
 * cluster, hosts have little, too, so that some lie on drives.  False: nothing
 * fits then.
 */
static bool
draw_streams(const struct ir_module *m, struct target *t,
	     struct search_found *f)
{
	struct target_device *d = &t->groups.at[0].device;
	bool drives = draw(2);
	double part;

	d->reserve_bytes = 0;
	*f = search(m, t, "");
	d->memory_bytes = (double)f->bytes;
	for (part = .9; f->step_us > 0 &&
	     !(f->plan.offload & PLAN_OFFLOAD_PARAMS); part -= .1) {
		d->memory_bytes *= part;
		d->host_memory_bytes = drives ? d->memory_bytes
					      : d->host_memory_bytes;
		*f = search(m, t, "");
	}
	return f->step_us > 0;
}

/* None that is pinned so is quicker than the answer, which has parameters on
 * hosts, nor fits where nothing is found. */
static void
test_streamed(void **state)
{
	static const char *const clusters[] = { "h100x1", "h100x2", "h100x4",
						"a100x2x2" };
	int64_t asked = env("SEARCH_PLANS", 0), all = asked ? asked : 8;
	int64_t i;
	int some = 0, drives = 0;
	uint64_t was = seed;

	(void)state;
	for (i = 0; i < all; i++, seed++) {
		struct search_found f;
		struct ir_module *m;
		struct target t;
		struct ir_ctx c;
		const char *pin = "";
		char text[4096];
		double best;

		if (!asked && !t_today((uint64_t)i, 4)) {
			continue;
		}
		drawn = 0;
		snprintf(text, sizeof text, draw(3) ? drawn_dense
			 : drawn_experts, 512u << draw(2), 1024u << draw(2),
			 64u << draw(2), 8u << draw(2), 3 + draw(6));
		ir_ctx_init(&c, NULL);
		m = trained(&c, text);
		t = target(&c, clusters[draw(4)]);
		some += draw_streams(m, &t, &f);
		drives += f.step_us > 0 && plan_on_drives(f.plan.offload);
		best = best_of(m, &t, streamed,
			       sizeof streamed / sizeof *streamed, &pin);
		print_message("seed %d, %s, %.0f bytes: %.3f, with %s %.3f\n",
			      (int)seed, t.name,
			      t.groups.at[0].device.memory_bytes, f.step_us,
			      pin, best);
		assert_true(f.step_us > 0 ? f.step_us <= best * (1 + 1e-6)
					  : isinf(best));
		ir_ctx_release(&c);
	}
	print_message("%d have parameters on hosts, %d of these some on "
		      "drives\n", some, drives);
	assert_true(asked || some > 0);
	seed = was;
}

/*
 * With a split backward, stages share slots of each span in other pools: where
 * no choice of pools for all spans fits, others do, such as one way for all.
 */
static void
test_split(void **state)
{
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	char text[4096];
	double us, full;

	(void)state;
	snprintf(text, sizeof text, drawn_dense, 1024, 512, 128, 32, 5);
	ir_ctx_init(&c, NULL);
	m = trained(&c, text);
	t = target(&c, "h100x8");
	t.groups.at[0].device.memory_bytes = 124.63e6;
	t.groups.at[0].device.reserve_bytes = 0;
	us = found(m, &t, "schedule=zbv,pp=2");
	full = found(m, &t, "schedule=zbv,pp=2,recompute=full");
	print_message("%.3f, with recompute=full %.3f\n", us, full);
	assert_true(us > 0 && us <= full);
	ir_ctx_release(&c);
}

/*
 * Sequences are as many as devices, but with a microbatch of all of them there
 * are no data ranks: a context may be split, too.
 */
static void
test_context(void **state)
{
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	char text[4096];
	double us, split;

	(void)state;
	snprintf(text, sizeof text, drawn_dense, 512, 1024, 8192, 4, 4);
	ir_ctx_init(&c, NULL);
	m = trained(&c, text);
	t = target(&c, "h100x4");
	us = found(m, &t, "microbatch=4");
	split = found(m, &t, "microbatch=4,cp=2");
	print_message("%.3f, with cp=2 %.3f\n", us, split);
	assert_true(us > 0 && us <= split * (1 + 1e-9));
	ir_ctx_release(&c);
}

/* With so much memory, no ZeRO that is pinned is quicker than the answer. */
static void
check_zero(const char *text, const char *cluster, double bytes)
{
	double us, zero[4], best = INFINITY;
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	char pin[32];
	int i;

	ir_ctx_init(&c, NULL);
	m = trained(&c, text);
	t = target(&c, cluster);
	t.groups.at[0].device.memory_bytes = bytes;
	t.groups.at[0].device.reserve_bytes = 0;
	us = found(m, &t, "");
	print_message("%s: %.3f, with each ZeRO", cluster, us);
	for (i = 0; i < 4; i++) {
		snprintf(pin, sizeof pin, "zero=%d", i);
		zero[i] = found(m, &t, pin);
		best = zero[i] > 0 ? fmin(best, zero[i]) : best;
		print_message(" %.3f", zero[i]);
	}
	print_message("\n");
	assert_true(us > 0 && us <= best * (1 + 1e-9));
	ir_ctx_release(&c);
}

/*
 * Gradients that ZeRO 2 splits are summed beside backward; and experts' ranks
 * hold the rest alike, so states on the host are split, too.
 */
static void
test_zero(void **state)
{
	char text[4096];

	(void)state;
	snprintf(text, sizeof text, drawn_dense, 1024, 512, 128, 32, 2);
	check_zero(text, "h100x8", 127e6);
	snprintf(text, sizeof text, drawn_experts, 512, 1024, 256, 16, 3);
	check_zero(text, "h100x4", 108e6);
}

/*
 * With ZeRO 3 the kernels of a stage depend on dp: those that were found for
 * one must not price a stage for another.
 */
static void
test_lengths(void **state)
{
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	char text[4096];
	double us, pinned;

	(void)state;
	snprintf(text, sizeof text, drawn_dense, 1024, 1024, 256, 8, 5);
	ir_ctx_init(&c, NULL);
	m = trained(&c, text);
	t = target(&c, "a100x2x2");
	t.groups.at[0].device.memory_bytes = 163534383;
	t.groups.at[0].device.reserve_bytes = 0;
	us = found(m, &t, "");
	pinned = found(m, &t, "microbatch=2");
	print_message("%.3f, with microbatch=2 %.3f\n", us, pinned);
	assert_true(us > 0 && us <= pinned * (1 + 1e-9));
	ir_ctx_release(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stand),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_launches),
		cmocka_unit_test(test_interleaved),
		cmocka_unit_test(test_missed),
		cmocka_unit_test(test_drawn),
		cmocka_unit_test(test_streamed),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_context),
		cmocka_unit_test(test_zero),
		cmocka_unit_test(test_lengths)
	};

	seed = (uint64_t)env("SEARCH_SEED", 1);
	return t_run_today(tests, sizeof tests / sizeof tests[0], 3);
}

/*
 * The search against what it stands for: a plan composed of pieces has the
 * price of its rank programs, and of all plans of a small space, each made
 * and priced for itself, none is quicker than what was found.
 *
 * SEARCH_PLANS=N draws more plans, SEARCH_BRUTE=N more small spaces,
 * SEARCH_SEED=S others; T_ONLY='*drawn' runs some of the tests.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "passes/memory/memory.h"
#include "passes/pass.h"
#include "passes/search/search.h"
#include "tests/unit/shared/t-left-out.h"
#include "tests/unit/shared/t-today.h"
#include "tests/unit/search/t-search.h"

/* Bytes that the rank lacks which lacks most; none: what they all have left. */
static int64_t
lack(const struct memory *mem, const struct target_devs *devs)
{
	int64_t most = INT64_MIN;
	uint32_t i;

	for (i = 0; i < mem->nranks; i++) {
		int64_t over =
			mem->rank[i].total -
			(int64_t)target_free_bytes(target_devs_of(devs, i));

		most = over > most ? over : most;
	}
	return most;
}

static const char *
kernels_text(struct ir_module *m, struct kernels *const *all)
{
	struct buf b;

	buf_init(&b, &m->ctx->tmp);
	kernels_print(m, all, NULL, NULL, &b);
	return buf_text(&b);
}

static void
assert_same_parts(const struct kernel_list *x, const struct kernel_list *y)
{
	uint32_t i;

	assert_int_equal(x->at.n, y->at.n);
	for (i = 0; i < x->at.n; i++) {
		const struct kernel *k = &x->at.at[i], *l = &y->at.at[i];

		assert_int_equal(k->until, l->until);
		assert_int_equal(k->parts != NULL, l->parts != NULL);
		if (k->parts) {
			assert_memory_equal(k->parts, l->parts,
					    sizeof *k->parts);
		}
		if (k->body) {
			assert_same_parts(k->body, l->body);
		}
	}
}

/* What `chunk` left of kernels and schedule is what is found of them anew. */
static void
assert_left(const struct ranks *r)
{
	struct ir_module *m = r->m;
	struct kernels *const *left = ranks_kernels(r);
	struct kernels **anew = kernels_all(m, NULL, &m->ctx->tmp);
	func_id f;

	assert_ptr_equal(r->found->kernels, left);
	assert_ptr_equal(r->sched, ranks_schedule(m, r->memo, &m->ctx->tmp));
	assert_string_equal(kernels_text(m, left), kernels_text(m, anew));
	for (f = 1; f < m->funcs.n; f++) {
		assert_same_parts(left[f]->top, anew[f]->top);
	}
	arena_release(&m->ctx->tmp);
}

/*
 * What the rank programs of that plan take, and hold more than the devices
 * have; 0: there are none.
 */
static double
weigh(const struct ir_module *base, const struct target *t,
      const char *pins, int64_t *over)
{
	struct memory mem;
	const struct price_traits traits = { 0 };
	struct target_devs devs;
	struct ir_module *m;
	struct memo memo;
	struct ir_ctx c;
	struct ranks r;
	struct price p = { 0 };
	struct sched *s;
	const char *why;

	ir_ctx_child(&c, base->ctx);
	m = ir_copy(base, &c);
	memo_init(&memo, &c.mem, MEMO_BYTES);
	if (plan_pin(m, pins) &&
	    pass_apply_for(m, "optimize,cse,dce,place,recompute,stage,chunk",
			   t, true, &memo, false) == PASS_OK) {
		s = ranks_schedule(m, &memo, &c.perm);
		assert_non_null(s);
		assert_true(ranks_open(&r, m, s, &memo, &why));
		assert_left(&r);
		price_devs(&r, t, &c.perm, &devs);
		assert_true(price_step(&r, &devs, &traits, &c.perm, &p,
				       &why));
		assert_true(memory_plan(&r, NULL, 0, &c.perm, &mem, &why));
		*over = lack(&mem, &devs);
	}
	memo_release(&memo);
	ir_ctx_release(&c);
	return p.step_us;
}

static double
price_of(const struct ir_module *base, const struct target *t,
	 const char *pins)
{
	int64_t over;

	return weigh(base, t, pins, &over);
}

static void
assert_near(double a, double b, const char *what)
{
	if (fabs(a - b) > 1e-9 * fmax(a, b)) {
		print_message("%s: %.6f and %.6f\n", what, a, b);
		fail();
	}
}

/* ---- composed of pieces ---- */

static const char *const schedules[] = { "gpipe", "1f1b", "interleaved",
					 "zb_h1", "zb_h2", "zbv" };

/* A plan for up to 16 ranks, which may be illegal. */
static const char *
random_plan(struct arena *a, bool moe)
{
	uint32_t pp = 1u << draw(3);
	const char *sched = pp == 1 ? "1f1b" : schedules[draw(6)];
	int v = strcmp(sched, "zbv") == 0 ? 2
		: strcmp(sched, "interleaved") == 0 ? 2 : 1;

	return arena_printf(a, "pp=%u,tp=%u,dp=%u,cp=%u,ep=%u,microbatch=%u,"
		"schedule=%s,interleave=%d,zero=%u,recompute=%s,sequence=%s,"
		"context=ring,balanced=on,stages=even,chunks=%s", pp,
		1u << draw(3),
		1u << draw(2), 1u << (draw(4) == 0), moe ? 1u << draw(2) : 1,
		1u << draw(2), sched, v, draw(4),
		draw(3) ? "none" : draw(2) ? "full" : "attention",
		draw(2) ? "on" : "off", draw(3) ? "auto" :
		draw(2) ? "2" : "4");
}

static void
compare(const char *text, const char *names, bool moe, int64_t plans)
{
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	int64_t i, legal = 0;

	ir_ctx_init(&c, NULL);
	m = trained(&c, text);
	t = cluster(&c, names);
	for (i = 0; i < plans; i++) {
		const char *pins = random_plan(&c.perm, moe);
		double us = price_of(m, &t, pins);

		if (us > 0) {
			assert_near(found(m, &t, pins), us, pins);
			legal++;
		}
	}
	assert_true(legal > plans / 4);
	ir_ctx_release(&c);
}

static void
test_composed(void **state)
{
	int64_t n = env("SEARCH_PLANS", 60);
	char text[4096];

	(void)state;
	print_message("SEARCH_SEED=%llu\n", (unsigned long long)seed);
	snprintf(text, sizeof text, dense, 16, 8);
	compare(text, "h100x4x32", false, n);
	snprintf(text, sizeof text, dense, 8, 3);
	compare(text, "h100x4x32", false, n / 2);
	snprintf(text, sizeof text, experts, 16, 6);
	compare(text, "h100x4x32", true, n);
}

/* Some ranks have a kind of node for themselves, some lie on several. */
static void
test_composed_mixed(void **state)
{
	int64_t n = env("SEARCH_PLANS", 60);
	char text[4096];

	(void)state;
	snprintf(text, sizeof text, dense, 16, 8);
	compare(text, "h100x4+rtx4090x4x2+a100x4x29", false, n);
	snprintf(text, sizeof text, experts, 16, 6);
	compare(text, "rtx4090x2x3+h100x4x8+rtx4090x2x45", true, n);
}

/* What the search composes of a plan's pieces, not what its programs take. */
static double
composed(const struct ir_module *base, const struct target *t,
	 const char *pins)
{
	struct search_options o = { .target = t, .keeps_priced = true };
	struct search_report r;
	struct ir_module *m;
	struct ir_ctx c;
	double us;

	ir_ctx_child(&c, base->ctx);
	m = ir_copy(base, &c);
	assert_true(plan_pin(m, pins));
	assert_true(run_search(m, &o, &c.perm, &r));
	assert_true(r.all.n > 0);
	us = r.all.at[0].step_us;
	ir_ctx_release(&c);
	return us;
}

/*
 * The first and the last layer use one table: where one rank has both it makes
 * one step for it, and sends no gradient of it to another.  Of a V it has most
 * layers, so that its update is the one that counts.
 */
static void
test_composed_tied(void **state)
{
	static const char *const degrees[] = {
		"pp=2,tp=1,dp=1,zero=0", "pp=2,tp=2,dp=1,zero=0",
		"pp=2,tp=1,dp=4,zero=1", "pp=2,tp=2,dp=2,zero=3",
		"pp=2,tp=1,dp=2,zero=2,offload=optimizer"
	};
	static const char *const schedule[] = {
		"1f1b,stages=even", "zbv,stages=(3,1,1,4)"
	};
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	size_t i;

	(void)state;
	ir_ctx_init(&c, NULL);
	m = trained(&c, tied);
	t = cluster(&c, "h100x4x2");
	for (i = 0; i < 2 * sizeof degrees / sizeof *degrees; i++) {
		const char *pins = arena_printf(&c.perm, "%s,schedule=%s,"
			"microbatch=2,recompute=none,"
			"sequence=on", degrees[i / 2], schedule[i % 2]);

		assert_near(composed(m, &t, pins), price_of(m, &t, pins),
			    pins);
	}
	ir_ctx_release(&c);
}

/* ---- all plans of a small space ---- */

struct brute {
	const struct ir_module *m;
	const struct target *t;
	double best;
	const char *pins;
	int64_t plans;
	bool all;		/* any ZeRO, and `sequence` on and off */
};

static void
try(struct brute *b, const char *pins)
{
	double us = price_of(b->m, b->t, pins);

	b->plans += us > 0;
	if (us > 0 && (b->best == 0 || us < b->best)) {
		b->best = us;
		b->pins = pins;
	}
}

/* Tries a schedule with all that is left open. */
static void
try_schedule(struct brute *b, const char *degrees, const char *schedule, int v)
{
	struct arena *a = &b->m->ctx->perm;
	int zero, off;

	for (zero = 0; zero < (b->all ? 4 : 2); zero++) {
		for (off = 0; off < (b->all ? 2 : 1); off++) {
			try(b, arena_printf(a, "%s,schedule=%s,interleave=%d,"
				"zero=%d,sequence=%s,recompute=none,"
				"stages=even", degrees, schedule, v, zero,
				off ? "off" : "on"));
		}
	}
}

/* With memory for all, nothing is recomputed. */
static void
try_schedules(struct brute *b, int pp, int dp, int ep, int tp, int mb)
{
	const char *degrees = arena_printf(&b->m->ctx->perm, "pp=%d,dp=%d,"
		"ep=%d,tp=%d,microbatch=%d", pp, dp, ep, tp, mb);
	size_t i;
	int v;

	for (i = 0; i < sizeof schedules / sizeof *schedules; i++) {
		bool many = strcmp(schedules[i], "interleaved") == 0;

		if (pp == 1 && strcmp(schedules[i], "1f1b") != 0) {
			continue;
		}
		for (v = many ? 2 : 1; v <= (many ? 4 : 1); v++) {
			try_schedule(b, degrees, schedules[i],
				     strcmp(schedules[i], "zbv") == 0 ? 2 : v);
		}
	}
}

static void
all_plans(struct brute *b, int ranks, int batch, bool moe)
{
	int pp, dp, ep, tp, mb;

	for (pp = 1; pp <= ranks; pp *= 2) {
	for (dp = 1; pp * dp <= ranks; dp *= 2) {
	for (ep = 1; pp * dp * ep <= ranks && (moe || ep == 1); ep *= 2) {
	for (tp = 1; pp * dp * ep * tp <= ranks; tp *= 2) {
	for (mb = 1; mb * dp * ep <= batch; mb *= 2) {
		try_schedules(b, pp, dp, ep, tp, mb);
	}}}}}
}

static void
brute(const char *text, const char *names, int ranks, int batch, bool moe,
      bool all)
{
	struct brute b = { .all = all };
	struct target t;
	struct ir_ctx c;
	double us;

	ir_ctx_init(&c, NULL);
	b.m = trained(&c, text);
	t = cluster(&c, names);
	b.t = &t;
	all_plans(&b, ranks, batch, moe);
	assert_true(b.plans > (all ? 8 : 20));
	us = found(b.m, &t, "stages=even,recompute=none");
	print_message("%s: %lld plans, best %s\n", names,
		      (long long)b.plans, b.pins);
	assert_near(us, b.best, b.pins);
	/* what need not be even, or may be computed again, is no worse */
	assert_true(found(b.m, &t, "") <= us);
	ir_ctx_release(&c);
}

static void
test_brute_force(void **state)
{
	char text[4096];

	(void)state;
	snprintf(text, sizeof text, dense, 8, 4);
	brute(text, "h100x2", 2, 8, false, false);
	if (!t_short()) {
		brute(text, "rtx4090x4", 4, 8, false, false);
	}
	snprintf(text, sizeof text, experts, 4, 2);
	brute(text, "h100x2+rtx4090x2", 4, 4, true, false);
	if (t_short()) {
		return;
	}
	brute(text, "h100x2x2", 4, 4, true, false);
	snprintf(text, sizeof text, dense, 8, 4);
	brute(text, "rtx4090x1+h100x2+a100x1", 4, 8, false, false);
}

/*
 * Small models and clusters that are drawn, half of them of several kinds of
 * node, with every ZeRO and `sequence`.
 */
static void
draw_brute(void)
{
	static const char *const clusters[] = {
		"h100x2", "rtx4090x2", "h100x1+a100x1", "rtx4090x1+h100x1",
		"h100x2x2", "rtx4090x4", "h100x2+rtx4090x2",
		"rtx4090x1+h100x2+a100x1"
	};
	bool moe = draw(3) == 0;
	uint32_t at = draw(t_short() ? 4 : 8), batch = 2u << draw(3);
	char text[4096];

	snprintf(text, sizeof text, moe ? drawn_experts : drawn_dense,
		 256u << draw(moe ? 2 : 3), 512u << draw(3), 64u << draw(3),
		 batch, 2 + draw(5));
	brute(text, clusters[at], at < 4 ? 2 : 4, (int)batch, moe, true);
}

static void
test_brute_drawn(void **state)
{
	int64_t asked = env("SEARCH_BRUTE", 0), n = asked ? asked : 3, i;
	uint64_t was = seed;

	(void)state;
	for (i = 0; i < n; i++, seed++) {
		if (!asked && !t_today((uint64_t)i, 3)) {
			continue;
		}
		drawn = 0;
		print_message("SEARCH_SEED=%d, ", (int)seed);
		draw_brute();
	}
	seed = was;
}

/* ---- too little memory for the best plan ---- */

/* The best of all that fit, each key of which is one of a few. */
static void
try_tight(struct brute *b, const char *degrees, int mb)
{
	static const char *const again[] = { "none", "attention", "full" };
	struct arena *a = &b->m->ctx->perm;
	int64_t over;
	int i, zero, schedule;

	for (i = 0; i < 24; i++) {
		const char *pins;
		double us;

		zero = i / 3 % 4;
		schedule = i / 12;
		pins = arena_printf(a, "%s,microbatch=%d,zero=%d,"
			"schedule=%s,recompute=%s,sequence=on,stages=even",
			degrees, mb, zero, schedule ? "gpipe" : "1f1b",
			again[i % 3]);
		us = weigh(b->m, b->t, pins, &over);

		if (us > 0 && over <= 0) {
			b->plans++;
			if (b->best == 0 || us < b->best) {
				b->best = us;
				b->pins = pins;
			}
		}
	}
}

static void
test_tight(void **state)
{
	static const char *const degrees[] = {
		"pp=1,dp=1,tp=1", "pp=2,dp=1,tp=1", "pp=1,dp=2,tp=1",
		"pp=1,dp=1,tp=2"
	};
	struct brute b = { 0 };
	struct target t;
	struct ir_ctx c;
	char text[4096];
	double free_us, us;
	int i, mb;

	(void)state;
	snprintf(text, sizeof text, dense, 8, 6);
	ir_ctx_init(&c, NULL);
	b.m = trained(&c, text);
	t = target(&c, "h100x2");
	b.t = &t;
	free_us = found(b.m, &t, "stages=even");
	/* weights, gradients, states of all: 16 bytes of 3.9 million */
	t.groups.at[0].device.memory_bytes = 40e6;
	t.groups.at[0].device.reserve_bytes = 0;
	t.groups.at[0].device.host_bytes_us = 0;
	for (i = 0; i < 4; i++) {
		for (mb = 1; mb <= 8; mb *= t_short() ? 8 : 2) {
			try_tight(&b, degrees[i], mb);
		}
	}
	assert_true(b.plans > 5);
	us = found(b.m, &t, "stages=even");
	print_message("%lld plans fit, best %s\n", (long long)b.plans,
		      b.pins);
	print_message("free %.3f tight %.3f brute %.3f\n", free_us, us,
		      b.best);
	assert_true(us > free_us && us <= b.best * (1 + 1e-9));
	ir_ctx_release(&c);
}

/* ---- scratch of code ---- */

static struct search_found
found_beside(const struct ir_module *base, const struct target *t,
	     int64_t scratch)
{
	const struct memory_scratch x = { .fixed = scratch };
	struct search_options o = { .target = t, .scratch = &x };
	struct search_report r;
	struct search_found f;
	struct ir_module *m;
	struct ir_ctx c;

	ir_ctx_child(&c, base->ctx);
	m = ir_copy(base, &c);
	assert_true(plan_pin(m, "stages=even"));
	assert_true(run_search(m, &o, &c.perm, &r));
	assert_true(r.found.n > 0);
	f = r.found.at[0];
	ir_ctx_release(&c);
	return f;
}

/* The best plan fits but for its scratch: another is found. */
static void
test_scratch(void **state)
{
	int64_t scratch;
	struct search_found best, other;
	struct target t;
	struct ir_ctx c;
	struct ir_module *m;
	char text[4096];

	(void)state;
	snprintf(text, sizeof text, dense, 8, 6);
	ir_ctx_init(&c, NULL);
	m = trained(&c, text);
	t = cluster(&c, "h100x2");
	t.groups.at[0].device.memory_bytes = 40e6;
	t.groups.at[0].device.reserve_bytes = 0;
	t.groups.at[0].device.host_bytes_us = 0;
	target_settle(&t, &c.perm);
	best = found_beside(m, &t, 0);
	scratch = (int64_t)40e6 - best.bytes + 1;
	other = found_beside(m, &t, scratch);
	assert_true(other.bytes <= (int64_t)40e6);
	assert_true(other.bytes - scratch < best.bytes);
	assert_true(other.step_us >= best.step_us);
	assert_near(search(m, &t, "stages=even").step_us, best.step_us,
		    "no scratch");
	ir_ctx_release(&c);
}

/* ---- several kinds of node ---- */

static bool
same_plan(const struct plan *a, const struct plan *b)
{
	uint32_t i;

	for (i = 0; a->nstages == b->nstages && i < a->nstages &&
	     a->layers[i] == b->layers[i]; i++) {
	}
	return i == a->nstages && a->tp == b->tp && a->dp == b->dp &&
	       a->pp == b->pp && a->ep == b->ep &&
	       a->microbatch == b->microbatch && a->zero == b->zero &&
	       strcmp(a->schedule, b->schedule) == 0 &&
	       strcmp(a->recompute, b->recompute) == 0;
}

/* Two groups that are alike are one, to the last digit. */
static void
test_equal(void **state)
{
	static const char *const pins[] = { "", "pp=4", "pp=1,dp=4",
					    "pp=2,tp=2", "pp=2,zero=3" };
	struct search_found a, b;
	struct target one, two;
	struct ir_module *m;
	struct ir_ctx c;
	char text[4096];
	size_t i;

	(void)state;
	snprintf(text, sizeof text, dense, 8, 6);
	ir_ctx_init(&c, NULL);
	m = trained(&c, text);
	one = cluster(&c, "rtx4090x2x2");
	two = cluster(&c, "rtx4090x2+rtx4090x2");
	for (i = 0; i < sizeof pins / sizeof *pins; i++) {
		a = search(m, &one, pins[i]);
		b = search(m, &two, pins[i]);
		assert_true(a.step_us > 0 && a.step_us == b.step_us);
		assert_true(a.bytes == b.bytes && a.capacity == b.capacity);
		assert_true(same_plan(&a.plan, &b.plan));
	}
	ir_ctx_release(&c);
}

/* Two devices, the second of which is so many times slower. */
static struct target
slower(struct ir_ctx *c, double times)
{
	struct target t = cluster(c, "h100x1+h100x1");
	struct target_device *d = &t.groups.at[1].device;
	int i;

	for (i = 0; i < TARGET_NRATES; i++) {
		d->flops_us[i] /= times;
	}
	d->memory_bytes_us /= times;
	d->launch_us *= times;
	d->clock_mhz /= times;
	target_settle(&t, &c->perm);
	return t;
}

#define TWO_STAGES "pp=2,tp=1,dp=1,schedule=1f1b,microbatch=1," \
	"offload=none,recompute=none"

/* Layers on the second of two devices. */
static int64_t
layers_behind(const struct ir_module *m, const struct target *t)
{
	struct search_found f = search(m, t, TWO_STAGES);

	assert_int_equal(f.plan.nstages, 2);
	return f.plan.layers[1];
}

static void
test_slower(void **state)
{
	static const double times[] = { 1, 2, 5 };
	struct ir_module *m;
	int64_t layers[3];
	struct ir_ctx c;
	struct target t;
	char text[4096];
	int i;

	(void)state;
	snprintf(text, sizeof text, dense, 64, 24);
	ir_ctx_init(&c, NULL);
	m = trained(&c, text);
	for (i = 0; i < 3; i++) {
		t = slower(&c, times[i]);
		layers[i] = layers_behind(m, &t);
	}
	print_message("layers on the second device: %lld, %lld, %lld\n",
		      (long long)layers[0], (long long)layers[1],
		      (long long)layers[2]);
	assert_true(layers[0] >= 10 && layers[0] <= 13);
	assert_true(layers[1] >= 6 && layers[1] <= 8 && layers[2] <= 4);
	ir_ctx_release(&c);
}

/*
 * The quick device has no memory for its 16 of 24 layers: it gets as many as
 * it has memory for, not half of them.
 */
static void
test_fewer(void **state)
{
	struct ir_module *m;
	int64_t over[2];
	struct ir_ctx c;
	struct target t;
	char text[4096];
	double room;
	int i;

	(void)state;
	snprintf(text, sizeof text, dense, 64, 24);
	ir_ctx_init(&c, NULL);
	m = trained(&c, text);
	t = slower(&c, 2);
	room = target_free_bytes(t.groups.at);
	for (i = 0; i < 2; i++) {
		assert_true(weigh(m, &t, arena_printf(&c.perm, TWO_STAGES
			",zero=0,stages=%d+%d", 14 + i,
			10 - i), &over[i]) > 0);
	}
	assert_true(over[0] < over[1]);
	/* between what 14 layers take and what 15 do */
	t.groups.at[0].device.memory_bytes += (double)(over[0] + over[1]) / 2;
	assert_true(target_free_bytes(t.groups.at) < room);
	target_settle(&t, &c.perm);
	assert_int_equal(layers_behind(m, &t), 10);
	ir_ctx_release(&c);
}

/* Of two kinds that differ in memory alone, the smaller one binds. */
static void
test_smaller(void **state)
{
	static const char *const degrees[] = {
		"pp=1,dp=1,tp=1", "pp=2,dp=1,tp=1", "pp=1,dp=2,tp=1",
		"pp=1,dp=1,tp=2"
	};
	struct search_found large, small;
	struct brute b = { 0 };
	struct target t;
	struct ir_ctx c;
	char text[4096];
	int i, mb;

	(void)state;
	snprintf(text, sizeof text, dense, 8, 6);
	ir_ctx_init(&c, NULL);
	b.m = trained(&c, text);
	t = cluster(&c, "h100x1+h100x1");
	b.t = &t;
	for (i = 0; i < 2; i++) {
		t.groups.at[i].device.reserve_bytes = 0;
		t.groups.at[i].device.host_bytes_us = 0;
		t.groups.at[i].device.memory_bytes = i ? 44e6 : 70e6;
	}
	target_settle(&t, &c.perm);
	for (i = 0; i < 4; i++) {
		for (mb = 1; mb <= 8; mb *= t_short() ? 8 : 2) {
			try_tight(&b, degrees[i], mb);
		}
	}
	assert_true(b.plans > 5);
	small = search(b.m, &t, "stages=even");
	print_message("%lld plans fit, best %s\n", (long long)b.plans,
		      b.pins);
	assert_true(small.step_us > 0 &&
		    small.step_us <= b.best * (1 + 1e-9));
	/* both ranks have to be small where both kinds hold them */
	small = search(b.m, &t, "pp=1,dp=2,stages=even");
	assert_int_equal(small.capacity, 44e6);
	assert_true(small.bytes <= small.capacity);
	t.groups.at[1].device.memory_bytes = 70e6;
	target_settle(&t, &c.perm);
	large = search(b.m, &t, "pp=1,dp=2,stages=even");
	assert_int_equal(large.capacity, 70e6);
	assert_true(large.bytes > 44e6 && large.step_us < small.step_us);
	ir_ctx_release(&c);
}

/*
 * A search that is interrupted before it begins still has a plan, also where
 * not all fit, and its bound is none above what there is.
 */
static void
test_interrupted(void **state)
{
	volatile sig_atomic_t interrupted = 1;
	struct search_report all, few;
	struct search_options o = { 0 };
	struct ir_module *m;
	struct target t;
	struct ir_ctx c;
	char text[4096];

	(void)state;
	snprintf(text, sizeof text, dense, 8, 6);
	ir_ctx_init(&c, NULL);
	m = trained(&c, text);
	t = cluster(&c, "h100x4");
	t.groups.at[0].device.reserve_bytes = 0;
	t.groups.at[0].device.host_bytes_us = 0;
	t.groups.at[0].device.memory_bytes = 50e6;
	target_settle(&t, &c.perm);
	o.target = &t;
	assert_true(run_search(m, &o, &c.perm, &all));
	o.interrupted = &interrupted;
	assert_true(run_search(m, &o, &c.perm, &few));
	assert_true(all.found.n > 0 && few.found.n > 0);
	print_message("%.1f us, interrupted %.1f, none below %.1f\n",
		      all.found.at[0].step_us, few.found.at[0].step_us,
		      few.bound_us);
	assert_true(all.open == 0 && few.open > 0);
	assert_true(few.found.at[0].step_us >= all.found.at[0].step_us);
	assert_true(few.bound_us > 0 &&
		    few.bound_us <= all.found.at[0].step_us * (1 + 1e-9));
	ir_ctx_release(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_composed),
		cmocka_unit_test(test_composed_mixed),
		cmocka_unit_test(test_composed_tied),
		cmocka_unit_test(test_brute_force),
		cmocka_unit_test(test_brute_drawn),
		cmocka_unit_test(test_tight),
		cmocka_unit_test(test_scratch),
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_slower),
		cmocka_unit_test(test_fewer),
		cmocka_unit_test(test_smaller),
		cmocka_unit_test(test_interrupted)
	};

	seed = (uint64_t)env("SEARCH_SEED", 1);
	return t_run_today(tests, sizeof tests / sizeof tests[0], 1);
}

/* The fit: points that a known target made give its constants back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "frontend/validate/calibrate.h"
#include "frontend/frontend.h"

#include <math.h>
#include <stdio.h>

static struct driver drv;

static int
open_context(void **state)
{
	(void)state;
	ir_ctx_init(&drv.ctx, NULL);
	return 0;
}

static int
close_context(void **state)
{
	(void)state;
	ir_ctx_release(&drv.ctx);
	return 0;
}

/* What this target would have measured. */
static void
add(struct cal *c, const struct target_group *t, struct cal_point p,
    double work)
{
	p.what = "made";
	p.work = work;
	p.s.low_us = p.s.median_us = p.s.high_us = cal_predict(t, &p);
	p.s.reps = p.s.kept = 1;
	VEC_PUSH(&drv.ctx.perm, &c->points, p);
}

static void
add_kernels(struct cal *c, const struct target_group *t)
{
	static const double sides[] = { 128, 512, 1024, 3000, 8192 };
	int i, j, k;

	for (i = 0; i < 5; i++) {
		for (j = 0; j < 5; j++) {
			struct cal_point p = { .group = CAL_ATTEND };

			p.attend = (struct cost_attention){
				.batch = 1, .heads = 8 * (i + 1), .kv_heads = 8,
				.head_dim = i % 2 ? 64 : 128,
				.queries = sides[j], .keys = sides[j],
				.causal = i > 2, .rate = TARGET_BF16
			};
			add(c, t, p, 1);
			for (k = 0; k < 5; k++) {
				p.group = CAL_MATMUL;
				p.matmul = (struct cost_contraction){
					.m = i ? sides[i] : 8, .n = sides[j],
					.k = sides[k], .batch = 1,
					.rate = TARGET_BF16, .out_bytes = 2
				};
				add(c, t, p, 2 * p.matmul.m * p.matmul.n *
				    p.matmul.k);
			}
		}
	}
}

static void
add_rest(struct cal *c, const struct target_group *t)
{
	struct cal_point p = { .group = CAL_STREAM, .bytes = 1e9 };
	double bytes;
	int op, ranks, rows;

	add(c, t, p, p.bytes);
	for (rows = 1; rows <= 512; rows *= 8) {
		p.group = CAL_READ;
		p.matmul = (struct cost_contraction){
			.m = rows, .n = 65536, .k = 2048, .batch = 1,
			.rate = TARGET_BF16, .out_bytes = 2, .panels = true
		};
		add(c, t, p, cal_weight_bytes(&p));
	}
	p.matmul.stored_bytes = 1;
	for (rows = 1; rows <= 8; rows *= 2) {
		p.matmul.m = rows;
		add(c, t, p, cal_weight_bytes(&p));
	}
	p.matmul.stored_bytes = 0.5 + 2.0 / IR_GROUP;
	p.matmul.panels = false;
	for (rows = 1; rows <= 8; rows *= 2) {
		p.matmul.m = rows;
		add(c, t, p, cal_weight_bytes(&p));
	}
	for (rows = 1; rows <= 64; rows *= 2) {
		p.group = CAL_KEYS;
		p.keys = (struct cost_keys){
			.sequences = 128, .queries = 1, .keys = 4096,
			.heads = rows, .kv = 1, .d = 128, .v = 128,
			.bytes = 512, .rate = TARGET_BF16
		};
		add(c, t, p, p.keys.bytes);
	}
	p.group = CAL_LAUNCH;
	add(c, t, p, 0);
	p.group = CAL_COMM;
	for (ranks = 2; ranks <= 8; ranks *= 2) {
		for (op = 0; op <= COST_REDUCE_SCATTER; op++) {
			for (bytes = 4096; bytes < 1e9; bytes *= 8) {
				p.coll.op = (enum cost_op)op;
				p.coll.ranks = ranks;
				p.coll.bytes = bytes;
				add(c, t, p, bytes);
			}
		}
	}
}

static void
near(const char *what, double got, double want, double part)
{
	if (fabs(got / want - 1) > part) {
		fail_msg("%s: %g, not %g", what, got, want);
	}
}

/* An efficiency counts with its rate only: the best rate is a guess. */
static void
check(const struct target_device *d, const struct target_device *want)
{
	enum target_rate r = TARGET_BF16;

	near("matrix", d->matrix_eff * d->flops_us[r],
	     want->matrix_eff * want->flops_us[r], 0.02);
	near("matrix_fill", d->matrix_fill, want->matrix_fill, 0.1);
	near("matrix_feed", d->matrix_feed, want->matrix_feed, 0.05);
	near("memory", d->memory_eff * d->memory_bytes_us,
	     want->memory_eff * want->memory_bytes_us, 0.02);
	near("read", d->read_bytes_us, want->read_bytes_us, 0.02);
	near("shown", d->read_shown, want->read_shown, 0.1);
	near("keys", d->keys_eff * d->flops_us[r],
	     want->keys_eff * want->flops_us[r], 0.02);
	near("keys_shown", d->keys_shown, want->keys_shown, 0.1);
	near("launch", d->launch_us, want->launch_us, 1e-9);
	near("attention", d->attention_eff * d->flops_us[r],
	     want->attention_eff * want->flops_us[r], 0.02);
	near("attention_fill", d->attention_fill, want->attention_fill, 0.1);
	near("link", d->link_eff * d->link_bytes_us,
	     want->link_eff * want->link_bytes_us, 0.02);
	near("link_start", d->link_start_us, want->link_start_us, 0.1);
	near("link_hop", d->link_hop_us, want->link_hop_us, 0.1);
}

static void
test_known(void **state)
{
	static const char *const names[] = { "a100", "h100", "l40s" };
	int i, g;

	(void)state;
	for (i = 0; i < 3; i++) {
		struct cal c = { .d = &drv };
		struct target_group *t;
		struct target known;

		assert_true(fe_target(&drv.ctx, names[i], &known));
		t = known.groups.at;
		/* what the fit does not know of */
		t->device.reduces = false;
		t->device.bridge_bytes_us = 0;
		t->device.link_devices = 8;
		t->device.read_bytes_us = 1.1 * t->device.memory_bytes_us;
		t->device.read_shown = 0.3;
		/* by which queries of many heads are math, of few reading */
		t->device.keys_eff = 0.05;
		t->device.keys_shown = 0.6;
		c.meter.facts.units = t->device.units;
		c.meter.facts.clock_mhz = t->device.clock_mhz;
		c.meter.facts.memory_bytes = t->device.memory_bytes;
		add_kernels(&c, t);
		add_rest(&c, t);
		cal_fit(&c);
		check(&c.fitted.device, &t->device);
		for (g = 0; g < CAL_GROUPS; g++) {
			assert_true(c.errors[g].n > 0);
			assert_true(c.errors[g].median < 0.01);
		}
	}
}

/* What only a CPU's price has: how many rows widening 8 bits takes. */
static void
test_widened(void **state)
{
	struct cal c = { .d = &drv };
	struct target_device *d;
	struct target known;

	(void)state;
	assert_true(fe_target(&drv.ctx, "cpux1", &known));
	d = &known.groups.at[0].device;
	/* so fast that products of few rows take longer than reading */
	d->read_bytes_us = 100 * d->memory_bytes_us;
	d->read_shown = 0.3;
	d->widen_rows = 2.5;
	d->widen_int4_rows = 9;
	d->keys_eff = 0.3;
	d->keys_shown = 0.6;
	c.meter.facts.units = d->units;
	c.meter.facts.clock_mhz = d->clock_mhz;
	c.meter.facts.memory_bytes = d->memory_bytes;
	snprintf(c.meter.facts.arch, sizeof c.meter.facts.arch, "%s", d->arch);
	add_kernels(&c, known.groups.at);
	add_rest(&c, known.groups.at);
	cal_fit(&c);
	near("widen", c.fitted.device.widen_rows, 2.5, 0.1);
	near("widen int4", c.fitted.device.widen_int4_rows, 9, 0.1);
	assert_true(c.errors[CAL_READ].median < 0.01);
}

/* Twice the same, and what was not measured is an A100's. */
static void
test_again(void **state)
{
	struct target_device first = { 0 };
	struct target a100;
	int turn;

	(void)state;
	assert_true(fe_target(&drv.ctx, "a100", &a100));
	for (turn = 0; turn < 2; turn++) {
		struct cal c = { .d = &drv };
		struct cal_point p = { .group = CAL_STREAM, .bytes = 1e9 };
		struct target_device *d = &c.fitted.device;

		c.meter.facts.units = 108;
		c.meter.facts.clock_mhz = 1410;
		add(&c, a100.groups.at, p, p.bytes);
		cal_fit(&c);
		assert_true(d->link_hop_us ==
			    a100.groups.at[0].device.link_hop_us);
		assert_true(d->attention_eff ==
			    a100.groups.at[0].device.attention_eff);
		assert_int_equal(c.errors[CAL_COMM].n, 0);
		assert_true(turn == 0 || (d->memory_eff == first.memory_eff &&
			    d->memory_bytes_us == first.memory_bytes_us));
		first = *d;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_widened),
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests(tests, open_context, close_context);
}

/*
 * What the cost model says keeps its promises, whatever the sizes: never
 * above the rates, more work never faster, links shared among groups.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "passes/price/price.h"
#include "passes/stage/ranks.h"
#include "tests/unit/shared/t-context.h"

static const struct target_group *
target(const char *name)
{
	struct target *t = arena_alloc(&ctx.perm, sizeof *t);

	assert_true(fe_target(&ctx, name, t));
	return t->groups.at;
}

/* ---- kernels ---- */

static double
matmul(const char *name, double m, double n, double k, enum target_rate r)
{
	struct cost_contraction c = { .m = m, .n = n, .k = k, .batch = 1,
				      .rate = r, .out_bytes = 2 };

	return cost_contraction(&target(name)->device, &c).us;
}

/* A last wave of 36 tiles on 132 units that is cut alone takes at most a third
 * of a wave.  Tiles without padding never take longer so. */
static void
test_tail(void **state)
{
	const struct target_device *d = &target("h100-sxm")->device;
	struct cost_contraction c = { .m = 14 * 128, .n = 12 * 256, .k = 65536,
				      .batch = 1, .rate = TARGET_BF16,
				      .out_bytes = 2 };
	struct cost_contraction own = c;
	double waves, own_waves;
	int i;

	(void)state;
	own.own_tail = true;
	waves = cost_contraction(d, &c).math_us;
	own_waves = cost_contraction(d, &own).math_us;
	c.m = own.m = 11 * 128;		/* 132 tiles */
	waves /= cost_contraction(d, &c).math_us;
	own_waves /= cost_contraction(d, &own).math_us;
	assert_true(waves > 1.4);
	assert_true(own_waves > 168. / 132 && own_waves < 1.34);
	for (i = 1; i < 4000; i++) {
		c.m = own.m = 256 * (1 + i * 37 % 35);
		c.n = own.n = 256 * (1 + i * 91 % 27);
		c.k = own.k = 16 + i * 53 % 20000;
		assert_true(cost_contraction(d, &own).us * (1 - 1e-12) <=
			    cost_contraction(d, &c).us);
	}
}

/* Of a contraction, what its tiles take if all units have as many. */
static double
over_even(const struct target_device *d, const struct cost_contraction *c)
{
	return cost_contraction(d, c).math_us / cost_contraction_split_us(d, c);
}

/*
 * 58 tiles of 128 x 256 in nine pieces would fill 132 units four times; their
 * partial sums would take more than 64 MiB, so there are eight.  Half as many
 * tiles are in nine.
 */
static void
test_tail_bytes(void **state)
{
	const struct target_device *d = &target("h100-sxm")->device;
	struct cost_contraction c = { .m = 29 * 128, .n = 2 * 256, .k = 65536,
				      .batch = 1, .rate = TARGET_BF16,
				      .out_bytes = 2, .own_tail = true };

	(void)state;
	assert_true(over_even(d, &c) > 1.15);
	c.m = 14 * 128;
	assert_true(over_even(d, &c) < 1.13);
}

/*
 * Elements that are copied one by one.  The two gradients of a head of 50,257
 * words for 16,384 tokens took 51.3 and 27.1 ms on an H200, where they did
 * (docs/gpu.md); a thread's wait for memory alone is 33 and 32.
 */
static void
test_single(void **state)
{
	static const struct {
		double m, n, k, measured_us;
	} rows[] = { { 16384, 768, 50257, 51267 },
		     { 50257, 768, 16384, 27114 } };
	const struct target_device *d = &target("h200-sxm")->device;
	struct cost_contraction c = { .batch = 1, .rate = TARGET_BF16,
				      .out_bytes = 2 }, one;
	double us;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		c.m = rows[i].m;
		c.n = rows[i].n;
		c.k = rows[i].k;
		one = c;
		one.single[0] = one.narrow = true;
		us = cost_contraction(d, &one).us;
		printf("one by one: %.1f ms, measured %.1f\n", us / 1000,
		       rows[i].measured_us / 1000);
		assert_true(us > 0.6 * rows[i].measured_us &&
			    us < 1.25 * rows[i].measured_us);
		assert_true(us > 10 * cost_contraction(d, &c).us);
	}
	for (i = 1; i < 2000; i++) {
		c.m = 1 + i * 37 % 9000;
		c.n = 1 + i * 91 % 7000;
		c.k = 16 + i * 53 % 20000;
		one = c;
		c.own_tail = i % 2 != 0;
		one.narrow = true;
		one.single[i / 2 % 2] = i % 3 != 0;
		assert_true(cost_contraction_split_us(d, &c) <=
			    cost_contraction(d, &one).us * (1 + 1e-12));
	}
}

/*
 * Rows of tensors lie side by side, and those of what kernels make apart; dims
 * that only one operand has lie as one row: 72 by 3 elements.
 */
static void
test_copies(void **state)
{
	static const char text[] = "llmc-ir 1\ndim m = 64\ndim v = 1001\n"
		"dim u = 1002\ndim k = 72\ndim h = 3\nmodel {\n"
		"  %0 = weight name=\"a\" : bf16[m, v]\n"
		"  %1 = weight name=\"b\" : bf16[v, k]\n"
		"  %2 = dot %0, %1 over=v : bf16[m, k]\n"
		"  %3 = weight name=\"c\" : bf16[k, u]\n"
		"  %4 = dot %2, %3 over=k : bf16[m, u]\n"
		"  %5 = softmax %4 over=u : bf16[m, u]\n"
		"  %6 = dot %5, %3 over=u : bf16[m, k]\n"
		"  %7 = weight name=\"d\" : bf16[m, k, h]\n"
		"  %8 = dot %5, %7 over=m : bf16[u, k, h]\n"
		"  return %6, %8\n}\n";
	static const int want[][2] = { { 2, 16 }, { 16, 4 }, { 16, 4 },
				       { 16, 16 } };
	struct price_traits traits = { 0 };
	struct pricing p = { .traits = &traits };
	const struct kernel_list *l;
	uint32_t base, i, n = 0;

	(void)state;
	source_add(&ctx.sources, "t.ir", text, strlen(text), &base);
	p.m = ir_read(&ctx, ctx.sources.files.n - 1);
	assert_non_null(p.m);
	l = kernels_find(p.m, 1, NULL, &ctx.perm)->top;
	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];
		const struct ir_node *dot;

		if (k->kind != KERNEL_CONTRACTION) {
			continue;
		}
		dot = price_main_node(p.m, k, IRF_CONTRACTS, IRF_PAIRS);
		assert_int_equal(price_copy_bytes(&p, k, dot, 0), want[n][0]);
		assert_int_equal(price_copy_bytes(&p, k, dot, 1), want[n][1]);
		n++;
	}
	assert_int_equal(n, 4);
}

/* Counts contractions of a list that are narrowed; adds all of them to *f. */
static uint32_t
narrowed_of(struct pricing *p, const struct kernel_list *l,
	    struct price_func *f)
{
	uint32_t i, n = 0;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			n += narrowed_of(p, k->body, f);
		} else if (k->kind == KERNEL_CONTRACTION) {
			assert_int_equal(price_dot_rate(p, k) == TARGET_FP8,
					 price_is_narrowed(p, k));
			n += price_is_narrowed(p, k);
			price_kernel(p, k, f);
		}
	}
	return n;
}

/*
 * By the trait all contractions of a repeat multiply 8 bits, and none outside:
 * here two that read one operand, which is brought to 8 bits once, by a kernel
 * of its own unless that is fused; and the product of two activations, as the
 * gradient of a weight is, which finds its operands narrowed.
 */
static void
test_narrowed(void **state)
{
	static const char text[] = "llmc-ir 1\ndim m = 8192\ndim k = 4096\n"
		"dim q = 4096\nmodel {\n"
		"  %x.0 = weight name=\"x\" : bf16[m, k]\n"
		"  %w.1 = weight name=\"w\" : bf16[q, k]\n"
		"  %z.2 = dot %x.0, %w.1 over=k : bf16[m, q]\n"
		"  %y.3 = repeat count=2 (%y.4 = %z.2) : bf16[m, q] {\n"
		"    %5 = weight name=\"a\" : bf16[k, q]\n"
		"    %6 = weight name=\"b\" : bf16[k, q]\n"
		"    %7 = dot %y.4, %5 over=q : bf16[m, k]\n"
		"    %8 = dot %y.4, %6 over=q : bf16[m, k]\n"
		"    %9 = dot %y.4, %8 over=m : bf16[q, k]\n"
		"    yield %y.4\n  }\n"
		"  return %y.3\n}\n";
	struct price_traits t[3] = { { .eager = true },
		{ .eager = true, .narrow_products = true },
		{ .eager = true, .narrow_products = true,
		  .fused_narrowing = true } };
	struct pricing p = { .t = target("h100-sxm") };
	struct price_func f[3];
	const struct kernel_list *l;
	uint32_t base, i;
	double us;

	(void)state;
	source_add(&ctx.sources, "t.ir", text, strlen(text), &base);
	p.m = ir_read(&ctx, ctx.sources.files.n - 1);
	assert_non_null(p.m);
	l = kernels_find(p.m, 1, NULL, &ctx.perm)->top;
	for (i = 0; i < 3; i++) {
		p.traits = &t[i];
		f[i] = (struct price_func){ 0 };
		assert_int_equal(narrowed_of(&p, l, &f[i]), i ? 3 : 0);
	}
	assert_true(f[2].total_us < 0.8 * f[0].total_us);
	us = cost_bytes(&p.t->device, COST_MAP, 4.0 * 8192 * 4096).us;
	assert_true(fabs(f[1].total_us - f[2].total_us - us) < 1e-6 * us);
	assert_true(f[1].us[PRICE_MATRIX] == f[2].us[PRICE_MATRIX]);
	/* what a device does not multiply is not narrowed for it */
	p.t = target("a100-sxm");
	p.traits = &t[1];
	f[0] = (struct price_func){ 0 };
	assert_int_equal(narrowed_of(&p, l, &f[0]), 0);
}

/* Launches of a sum over dims of f32[a, b] and, but for what they move, its
 * time in launches of the target. */
static double
sum_launches(const char *over, const char *left, const char *on,
	     struct price_traits traits)
{
	const char *text = arena_printf(&ctx.perm, "llmc-ir 1\n"
		"dim a = 4096\ndim b = 1024\nmodel {\n"
		"  %%0 = weight name=\"x\" : f32[a, b]\n"
		"  %%1 = sum %%0 over=%s : f32[%s]\n"
		"  return %%1\n}\n", over, left);
	struct pricing p = { .t = target(on), .traits = &traits };
	const struct target_device *d = &p.t->device;
	struct price_func f = { 0 };
	const struct kernel *k;
	struct cost once;
	uint32_t base;

	source_add(&ctx.sources, "t.ir", text, strlen(text), &base);
	p.m = ir_read(&ctx, ctx.sources.files.n - 1);
	assert_non_null(p.m);
	k = &kernels_find(p.m, 1, NULL, &ctx.perm)->top->at.at[0];
	price_kernel(&p, k, &f);
	once = cost_bytes(d, COST_MAP, k->work->read_bytes +
				       k->work->write_bytes);
	assert_true(fabs(f.total_us - once.us - (f.kernels - 1) *
			 d->launch_us) < 1e-9);
	assert_true(price_launches(&p, k) == f.kernels);
	return f.kernels;
}

/* Sums over all rows have two on a GPU, as llmc makes them: other software may
 * have one, and a CPU's workers wait for each other. */
static void
test_sum_launches(void **state)
{
	const struct price_traits own = { 0 }, eager = { .eager = true };
	const struct price_traits five = { .five_products = true };
	const struct price_traits added = { .zeroed_sums = true };

	(void)state;
	assert_true(sum_launches("a", "b", "h100-sxm", own) == 2);
	assert_true(sum_launches("(a, b)", "", "h100-sxm", own) == 2);
	assert_true(sum_launches("b", "a", "h100-sxm", own) == 1);
	assert_true(sum_launches("a", "b", "h100-sxm", eager) == 1);
	assert_true(sum_launches("a", "b", "h100-sxm", five) == 1);
	assert_true(sum_launches("a", "b", "h100-sxm", added) == 2);
	assert_true(sum_launches("a", "b", "cpu-avx512", own) == 1);
}

/* Of few rows, a matrix of few bits is fed and read in those bits. */
static void
test_stored(void **state)
{
	const struct target_device *d = &target("a100-sxm")->device;
	struct cost_contraction c = { .m = 1, .n = 28672, .k = 8192, .batch = 1,
				      .rate = TARGET_BF16, .out_bytes = 2 };
	double wide = cost_contraction(d, &c).us, narrow;

	(void)state;
	c.stored_bytes = 2;
	assert_true(cost_contraction(d, &c).us == wide);
	c.stored_bytes = 0.5;
	narrow = cost_contraction(d, &c).us;
	assert_true(narrow > wide / 4 && narrow < wide / 2);
}

/* On a CPU few rows of panels take what their products do; one row waits for
 * its own sums.  More rows have tiles. */
static void
test_panels(void **state)
{
	const struct target_device *d = &target("cpu-avx512")->device;
	struct cost_contraction c = { .m = 1, .n = 4096, .k = 4096, .batch = 1,
				      .rate = TARGET_BF16, .out_bytes = 2 };
	double rows[17], panels[17];
	int m;

	(void)state;
	for (m = 1; m <= 16; m *= 2) {
		c.m = m;
		c.panels = false;
		rows[m] = cost_contraction(d, &c).math_us;
		c.panels = true;
		panels[m] = cost_contraction(d, &c).math_us;
		assert_true(m > 8 ? panels[m] == rows[m] : panels[m] < rows[m]);
	}
	assert_true(panels[1] == panels[4]);
	assert_true(fabs(panels[8] / panels[1] * 5.5 / 8 - 1) < 1e-9);
}

/* Never above the rates; near them when large; by bytes when narrow. */
static void
test_contraction(void **state)
{
	const struct target_device *d = &target("h100")->device;
	double m, n, k, us, least;

	(void)state;
	for (m = 1; m < 40000; m *= 5) {
		for (n = 16; n < 40000; n *= 7) {
			for (k = 16; k < 40000; k *= 9) {
				us = matmul("h100", m, n, k, TARGET_BF16);
				least = fmax(2 * m * n * k /
					     d->flops_us[TARGET_BF16],
					     2 * (m * k + k * n + m * n) /
					     d->memory_bytes_us);
				assert_true(us > least && us < 1e7);
				assert_true(matmul("h100", 2 * m, n, k,
						   TARGET_BF16) >= us);
			}
		}
	}
	us = matmul("h100", 16384, 16384, 16384, TARGET_BF16);
	least = 2 * pow(16384, 3) / d->flops_us[TARGET_BF16];
	assert_true(us < 1.05 * least / d->matrix_eff);
	us = matmul("h100", 1, 8192, 28672, TARGET_BF16) - d->launch_us;
	least = 2.0 * 8192 * 28672 / d->memory_bytes_us;
	assert_true(us > least && us < 1.2 * least);
}

static void
test_rates(void **state)
{
	(void)state;
	assert_true(matmul("h100", 8192, 8192, 8192, TARGET_FP8) <
		    matmul("h100", 8192, 8192, 8192, TARGET_BF16));
	/* what has no 8 bits takes as long as 16 */
	assert_true(cost_flops_us(&target("a100")->device, TARGET_FP8) ==
		    312e6);
	assert_true(cost_flops_us(&target("v100")->device, TARGET_BF16) ==
		    125e6);
	/* and 4 bits as long as 8, or where there are none as 16 */
	assert_true(cost_flops_us(&target("b200")->device, TARGET_FP4) ==
		    2 * cost_flops_us(&target("b200")->device, TARGET_FP8));
	assert_true(cost_flops_us(&target("h100")->device, TARGET_FP4) ==
		    cost_flops_us(&target("h100")->device, TARGET_FP8));
	assert_true(cost_flops_us(&target("a100")->device, TARGET_FP4) ==
		    312e6);
}

/* One tile more than units is another wave. */
static void
test_waves(void **state)
{
	double full = matmul("a100", 27 * 256, 512, 8192, TARGET_BF16);
	double more = matmul("a100", 28 * 256, 512, 8192, TARGET_BF16);

	(void)state;
	assert_true(more > 1.1 * full);
}

static void
test_attention(void **state)
{
	struct cost_attention a = { 4, 32, 8, 128, 4096, 4096, true, 0,
				    TARGET_BF16, false, false }, b = a;
	const struct target_device *d = &target("h100")->device;
	const struct target_device *older;
	double us = cost_attention(d, &a).us, ratio;

	(void)state;
	b.causal = false;
	assert_true(cost_attention(d, &b).us > 1.7 * us);
	assert_true(cost_attention(d, &b).us < 2 * us);
	b = a;
	b.narrow = true;
	assert_true(cost_attention(d, &b).us > 1.3 * us);
	b.dated = true;
	ratio = cost_attention(d, &b).us;
	older = &target("a100")->device;
	assert_true(cost_attention(older, &b).us ==
		    cost_attention(older, &a).us);
	/* no more than units and clock make of it, and about that */
	ratio = cost_attention(older, &b).us / ratio;
	assert_true(ratio < 132 * 1.83 / (108 * 1.41));
	assert_true(ratio > 1.4);
	b = a;
	b.window = 512;
	assert_true(cost_attention(d, &b).us < 0.5 * us);
	b = a;
	b.head_dim = 64;
	assert_true(cost_attention(d, &b).us > 0.5 * us);
	assert_true(cost_attention_backward(d, &a).us > 2.4 * us);
	assert_true(cost_attention_backward_apart(d, &a).us >
		    1.3 * cost_attention_backward(d, &a).us);
	assert_true(cost_attention_backward_least(d, &a).us ==
		    cost_attention_backward(d, &a).us);
	b = a;
	b.queries = b.keys = 1;
	assert_true(cost_attention(d, &b).us > d->launch_us);
}

/* Launches, clusters and the choice of one kernel for all gradients. */
static void
test_joint(void **state)
{
	struct cost_gradients g = {
		.batches = 1, .kv = 8, .shared = 4, .queries = 8192,
		.keys = 8192, .d = 128, .dv = 128, .causal = true,
		.units = 132, .scratch = COST_JOINT_SCRATCH
	};
	const struct target_device *d = &target("h100")->device;
	struct cost_joint j;
	double us;

	(void)state;
	assert_true(cost_joint_choose(&g, &j));
	assert_int_equal(j.pairs, 2);
	assert_true(cost_joint_bytes(&g, j.pairs) <= g.scratch);
	assert_true(cost_joint_bytes(&g, g.kv / 2) > g.scratch);
	assert_true(g.shared % j.apart == 0);
	assert_true(cost_joint_is_less(&g, &j));
	us = cost_gradients_us(d, &g, &j);
	assert_true(us < cost_gradients_us(d, &g, NULL));
	g.queries = g.keys = 512;
	assert_true(cost_joint_choose(&g, &j));
	assert_int_equal(j.pairs, 8);
	assert_false(cost_joint_is_less(&g, &j));
	g.queries = 4096;	/* of a causal mask, as many as keys */
	assert_false(cost_joint_choose(&g, &j));
	g.causal = false;
	assert_true(cost_joint_choose(&g, &j));
	g.d = COST_JOINT_ABOVE;
	assert_false(cost_joint_choose(&g, &j));
	g.d = 128;
	g.batches = 64;		/* more than four launches */
	assert_false(cost_joint_choose(&g, &j));
}

/* Where a CPU has one step for all gradients. */
static void
test_cpu_joint(void **state)
{
	struct cost_gradients g = { .batches = 4, .kv = 12, .shared = 1,
				    .queries = 1024, .keys = 1024, .d = 64 };

	(void)state;
	assert_true(cost_cpu_joint(&g));
	g.queries = 4096;	/* 1 MiB of f32 */
	assert_true(cost_cpu_joint(&g));
	g.queries = 4097;
	assert_false(cost_cpu_joint(&g));
	g.queries = 2048;
	g.shared = 2;
	assert_true(cost_cpu_joint(&g));
	g.shared = 3;
	assert_false(cost_cpu_joint(&g));
	g.shared = 1;
	g.batches = 1;
	g.kv = 3;		/* too few items, unless keys are few */
	assert_false(cost_cpu_joint(&g));
	g.keys = 256;
	assert_true(cost_cpu_joint(&g));
}

/* ---- collectives ---- */

static double
collective(const struct target_group *t, enum cost_op op, int64_t per_node,
	   int64_t nodes, int64_t sharing, double bytes, enum cost_way *way)
{
	struct cost_group g = { .per_node = per_node, .nodes = nodes,
				.sharing = sharing };

	return cost_collective(t, op, &g, bytes, way).us;
}

static void
test_collectives(void **state)
{
	const struct target_group *t = target("h100x8x16@ib400");
	int64_t k, n;
	double b;
	int op;

	(void)state;
	for (op = 0; op < COST_NOPS; op++) {
		for (k = 1; k <= 8; k *= 2) {
			for (n = 1; n <= 16; n *= 2) {
				double last = 0;

				for (b = 64; b < 1e10; b *= 3) {
					double us = collective(t,
						(enum cost_op)op, k, n, 8 / k,
						b, NULL);

					assert_true(k * n == 1 ? us == 0 :
						    us > last && us < 1e9);
					last = us;
				}
			}
		}
	}
}

static void
test_ways(void **state)
{
	const struct target_group *t = target("h100x8x16@ib400");
	double large = 1e10, ring, us;
	enum cost_way way;

	(void)state;
	collective(t, COST_ALL_REDUCE, 8, 1, 1, large, &way);
	assert_int_equal(way, COST_SWITCH);
	us = collective(t, COST_ALL_REDUCE, 4, 1, 2, large, &way);
	assert_int_equal(way, COST_RING);
	ring = 2 * 0.75 * large / (t->device.link_bytes_us *
				   t->device.link_eff);
	assert_true(us > ring && us < 1.01 * ring);
	collective(t, COST_ALL_REDUCE, 1, 16, 8, 1024, &way);
	assert_int_equal(way, COST_TREE);
	collective(t, COST_ALL_REDUCE, 1, 1, 1, 1024, &way);
	assert_int_equal(way, COST_NO_WAY);
}

/* Eight groups over eight ports have one each; one group has all. */
static void
test_sharing(void **state)
{
	const struct target_group *t = target("h100x8x2@ib400");
	double one = collective(t, COST_ALL_REDUCE, 1, 2, 8, 1e9, NULL);
	double all = collective(t, COST_ALL_REDUCE, 8, 2, 1, 1e9, NULL);
	double alone = collective(t, COST_ALL_REDUCE, 1, 2, 1, 1e9, NULL);

	(void)state;
	assert_true(one == alone);
	assert_true(one > 3 * all);
	t = target("l40sx8");
	assert_true(collective(t, COST_ALL_GATHER, 4, 1, 2, 1e8, NULL) >
		    1.9 * collective(t, COST_ALL_GATHER, 4, 1, 1, 1e8, NULL));
	t = target("h100x8");
	assert_true(collective(t, COST_ALL_GATHER, 4, 1, 2, 1e8, NULL) ==
		    collective(t, COST_ALL_GATHER, 4, 1, 1, 1e8, NULL));
}

/*
 * Without peer-to-peer every hop of a ring crosses the bridge, and so does what
 * leaves the node and what comes in; groups of a node share it.
 */
static void
test_hosted(void **state)
{
	static const double bytes = 1e9;
	struct target_group t = *target("h100x4x4@ib400");
	double bridge_us = 10e3, alone, both, all, port;

	(void)state;
	t.device.link_devices = 1;
	t.device.bridge_bytes_us = bridge_us;
	alone = collective(&t, COST_ALL_REDUCE, 2, 1, 1, bytes, NULL);
	assert_true(fabs(alone / (bytes * 2 / bridge_us) - 1) < 0.01);
	both = collective(&t, COST_ALL_REDUCE, 2, 1, 2, bytes, NULL);
	assert_true(fabs(both / alone - 2) < 0.01);
	alone = collective(&t, COST_SEND, 2, 1, 1, bytes, NULL);
	assert_true(fabs(alone / (bytes / bridge_us) - 1) < 0.01);
	all = collective(&t, COST_ALL_GATHER, 4, 4, 1, bytes, NULL);
	assert_true(all > bytes * 15 / 16 * 5 / bridge_us);
	/* a link of two reads peers, and so does a network card */
	t.device.link_devices = 2;
	port = collective(&t, COST_ALL_GATHER, 1, 4, 4, bytes, NULL);
	t.device.link_devices = 1;
	assert_true(collective(&t, COST_ALL_GATHER, 1, 4, 4, bytes, NULL) >
		    2 * port);
}

/* ---- groups of ranks ---- */

static void
assert_same_group(struct cost_group a, struct cost_group b)
{
	assert_int_equal(a.per_node, b.per_node);
	assert_int_equal(a.nodes, b.nodes);
	assert_int_equal(a.sharing, b.sharing);
	assert_int_equal(a.sets, b.sets);
}

/* Ranks that are two apart do not meet on a link that joins two. */
static void
test_linked_sets(void **state)
{
	static const int64_t sizes[] = { 2, 2, 2 };
	static const struct {
		const char *target;
		int64_t sharing, outer, middle, inner;
	} cases[] = {
		{ "h100x8", 4, 1, 1, 1 }, { "l40sx8", 4, 2, 2, 1 },
		{ "l40sx4x2", 2, 1, 2, 1 }, { "t4x8", 4, 2, 2, 2 }
	};
	struct ir_module *m = ir_module_new(&ctx);
	struct ranks r = { .m = m };
	uint32_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		ir_axis_add(m, intern_str(&ctx.syms, arena_printf(&ctx.perm,
			"axis%u", i)), sizes[i], (struct span){ 0, 0 });
	}
	ranks_find_axes(&r);
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct target_group *t = target(cases[i].target);
		struct cost_group inner = price_group(&r, t, 1u << 3);

		assert_int_equal(inner.sharing, cases[i].sharing);
		assert_int_equal(inner.sets, cases[i].inner);
		assert_int_equal(price_group(&r, t, 1u << 2).sets,
				 cases[i].middle);
		assert_int_equal(price_group(&r, t, 1u << 1).sets,
				 cases[i].outer);
		assert_same_group(inner, cost_group_apart(t, 2, 1));
		assert_same_group(price_group(&r, t, 1u << 2),
				  cost_group_apart(t, 2, 2));
		assert_same_group(price_group(&r, t, 1u << 1),
				  cost_group_apart(t, 2, 4));
	}
}

/* How many of a group stand in the first node: the same as one by one. */
static void
test_group_below(void **state)
{
	static const int64_t sizes[] = { 2, 3, 4, 1, 2 };
	struct ir_module *m = ir_module_new(&ctx);
	struct ranks r = { .m = m };
	uint32_t axes, n, i, below;

	(void)state;
	for (i = 0; i < 5; i++) {
		ir_axis_add(m, intern_str(&ctx.syms, arena_printf(&ctx.perm,
			"axis%u", i)), sizes[i], (struct span){ 0, 0 });
	}
	m->axes.at[3].time = true;
	ranks_find_axes(&r);
	assert_int_equal(r.time, 3);
	assert_int_equal(r.pp, 0);
	for (axes = 0; axes < 1 << 6; axes += 2) {
		for (n = 1; n <= 14; n++) {
			for (i = below = 0; i < ranks_group_size(&r, axes);
			     i++) {
				below += ranks_member(&r, 0, axes, i) < n;
			}
			assert_int_equal(ranks_group_below(&r, axes, n),
					 below);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_tail, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tail_bytes, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_single, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_narrowed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sum_launches, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_stored, setup, teardown),
		cmocka_unit_test_setup_teardown(test_panels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_contraction, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_rates, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_waves, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_joint, setup, teardown),
		cmocka_unit_test(test_cpu_joint),
		cmocka_unit_test_setup_teardown(test_attention, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_collectives, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_ways, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_sharing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_hosted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_linked_sets, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_group_below, setup,
						teardown)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Plans from C, as a search writes them: what is written reads back, prints
 * the same, and keeps its promises about stages and ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "passes/plan/plan.h"
#include "passes/sched/sched.h"
#include "tests/unit/shared/t-context.h"

static uint32_t
add_text(const char *text)
{
	uint32_t base;

	assert_true(source_add(&ctx.sources, "test", text, strlen(text),
			       &base));
	return ctx.sources.files.n - 1;
}

static struct ir_module *
model(int layers, int batch)
{
	struct ir_module *m = fe_compile(&ctx, add_text(arena_printf(&ctx.perm,
		"model m { dim seq = 8, hidden = 64, vocab = 64;\n"
		"dim expert = 8, choice = 2, heads = 8, hd = 8;\n"
		"x = embed(tokens, vocab -> hidden) @ \"e\";\n"
		"repeat %d as i {\n"
		"  q = linear(x -> heads, hd) @ \"q.{i}\";\n"
		"  a = attention(q, q, q, causal);\n"
		"  x = x + linear(a -> hidden) @ \"o.{i}\";\n"
		"  e = topk(linear(x -> expert) @ \"g.{i}\",\n"
		"           expert -> choice);\n"
		"  x = x + sum(linear(x, e -> heads, hd, over = hidden)\n"
		"              @ \"w.{i}.{expert}\",\n"
		"        over = (choice, heads, hd)) * x;\n"
		"}\n"
		"logits = linear(x -> vocab) @ \"l\"; }\n"
		"train { batch = %d; }\n", layers, batch)));

	if (!m) {
		diag_flush(&ctx.diags, stderr);
		fail_msg("the model does not compile");
	}
	return m;
}

static const char *
text_of(struct ir_module *m, const struct plan *p)
{
	struct buf b;

	buf_init(&b, &ctx.perm);
	plan_print(m, p, &b);
	return buf_text(&b);
}

static const char *
settings_of(struct ir_module *m)
{
	struct buf b;

	buf_init(&b, &ctx.perm);
	ir_print(m, &b);
	return buf_text(&b);
}

static void
must_read(struct ir_module *m, struct plan *p)
{
	if (!plan_read(m, p)) {
		diag_flush(&ctx.diags, stderr);
		fail_msg("a plan that should be legal is refused");
	}
}

/* ---- tests ---- */

static void
test_defaults(void **state)
{
	struct ir_module *m = model(6, 4);
	struct plan p;

	(void)state;
	must_read(m, &p);
	assert_int_equal(p.nranks, 1);
	assert_int_equal(p.pp * p.dp * p.ep * p.cp * p.tp, 1);
	assert_int_equal(p.microbatch, 4);
	assert_int_equal(p.nmicrobatches, 1);
	assert_int_equal(p.batch, 4);
	assert_int_equal(p.nlayers, 6);
	assert_int_equal(p.nstages, 1);
	assert_int_equal(p.layers[0], 6);
	assert_string_equal(p.schedule, "1f1b");
	assert_string_equal(p.recompute, "none");
	assert_null(p.schedule_file);
	assert_true(p.ring && !p.balanced && !p.sequence && p.zero == 0);
	assert_int_equal(p.split[PLAN_TP].n, 0);
}

/* Nothing is lost, nobody has two more than another, the ends have least. */
static void
test_spread(void **state)
{
	int64_t layers[64], n, sum;
	uint32_t stages, i;

	(void)state;
	for (n = 0; n <= 200; n++) {
		for (stages = 1; stages <= 64; stages++) {
			int64_t left = n % stages;

			plan_spread(n, stages, layers);
			for (sum = 0, i = 0; i < stages; i++) {
				sum += layers[i];
				assert_in_range(layers[i] - n / stages, 0, 1);
				/* up once, then down once */
				assert_true(i < 2 || layers[i] >= layers[i - 1]
					    || layers[i - 2] <= layers[i - 1]);
			}
			assert_int_equal(sum, n);
			assert_true(left == 0 || stages - left < 2 ||
				    layers[0] == n / stages);
			assert_true(layers[stages - 1] == n / stages);
		}
	}
}

static void
test_ranks(void **state)
{
	struct ir_module *m = model(6, 24);
	int64_t at[PLAN_NAXES], rank;
	struct plan p;

	(void)state;
	assert_true(plan_pin(m, "tp=2,pp=3,dp=2,ep=2"));
	must_read(m, &p);
	assert_int_equal(p.nranks, 24);
	plan_coords(&p, 1, at);		/* tp is innermost, pp outermost */
	assert_int_equal(at[PLAN_TP], 1);
	plan_coords(&p, 23, at);
	assert_int_equal(at[PLAN_PP], 2);
	assert_true(plan_pin(m, "mesh=tp+ep+pp+cp+dp"));
	must_read(m, &p);
	plan_coords(&p, 1, at);
	assert_int_equal(at[PLAN_DP], 1);
	for (rank = 0; rank < p.nranks; rank++) {
		plan_coords(&p, rank, at);
		assert_int_equal(plan_rank(&p, at), rank);
	}
}

static uint32_t
below(uint64_t *rng, uint32_t n)
{
	*rng = *rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(*rng >> 33) % n;
}

/* One set for all stages, or one for each. */
static void
draw_recompute(uint64_t *rng, struct plan *p)
{
	static const char *const sets[] = {
		"none", "attention", "full", "q", "a q dot"
	};
	uint32_t s;

	p->recompute = sets[below(rng, 5)];
	if (p->nstages > 1 && below(rng, 2)) {
		p->recompute_of = arena_alloc(&ctx.perm, p->nstages *
					      sizeof *p->recompute_of);
		for (s = 0; s < p->nstages; s++) {
			p->recompute_of[s] = sets[below(rng, 5)];
		}
	}
}

/* None, or so many that one setting does not hold them. */
static void
draw_tiles(uint64_t *rng, struct plan *p)
{
	uint32_t n = below(rng, 4) == 0 ? below(rng, 90) : 0, i;
	const char **at = arena_alloc(&ctx.perm, (n + 1) * sizeof *at);

	for (i = 0; i < n; i++) {
		at[i] = arena_printf(&ctx.perm, "bf16 1x%ux(8, 8)*2x64 kn on "
				     "f32 silu+mul: m=%u n=64 k=%u", i,
				     1 + below(rng, 128), 1 + below(rng, 64));
	}
	p->ntiles = n;
	p->tiles = at;
}

/* Fields that one would fill in, drawn so that most of them are legal. */
static void
draw(struct ir_module *m, uint64_t *rng, struct plan *p)
{
	static const dim_id dims[3] = { 1, 2, 3 };
	uint32_t i, j;

	memset(p, 0, sizeof *p);
	p->pp = 1 + below(rng, 4);
	p->interleave = p->pp > 1 ? 1 + below(rng, 3) : 1;
	p->dp = 1 + below(rng, 3);
	p->ep = 1 + below(rng, 3);
	p->cp = 1 + below(rng, 8);
	p->tp = 1 + below(rng, 64);
	p->microbatch = 1 + below(rng, 3);
	p->schedule = p->interleave > 1 ? "interleaved"
		: sched_defs[below(rng, 5)].name;
	p->zero = (int)below(rng, 4);
	p->sequence = below(rng, 2);
	p->offload = below(rng, 4) | (below(rng, 2) ? PLAN_OFFLOAD_PARAMS : 0);
	if (p->offload & PLAN_OFFLOAD_OPTIMIZER && below(rng, 2)) {
		p->offload |= PLAN_NVME_OPTIMIZER;
	}
	if (p->offload & PLAN_OFFLOAD_PARAMS && below(rng, 2)) {
		p->offload |= PLAN_NVME_PARAMS;
	}
	p->ring = below(rng, 2);
	p->nstages = (uint32_t)(p->pp * p->interleave);
	draw_recompute(rng, p);
	p->layers = arena_alloc(&ctx.perm, p->nstages * sizeof *p->layers);
	plan_spread(13, p->nstages, p->layers);
	if (p->nstages > 2 && p->layers[0] > 0) {
		p->layers[0]--;
		p->layers[1]++;
	}
	for (i = 0; i < PLAN_NAXES; i++) {
		p->mesh[i] = (enum plan_axis)i;
	}
	for (i = PLAN_NAXES - 1; i > 0; i--) {
		enum plan_axis was = p->mesh[i];

		j = below(rng, i + 1);
		p->mesh[i] = p->mesh[j];
		p->mesh[j] = was;
	}
	draw_tiles(rng, p);
	p->split[PLAN_TP].n = below(rng, 4);
	p->split[PLAN_TP].dims = dims;
	p->split[PLAN_EP].n = below(rng, 2);
	p->split[PLAN_EP].dims = dims + m->dims.n % 2;
}

static void
same_recompute(const struct plan *p, const struct plan *q)
{
	bool differ = false;
	uint32_t s;

	for (s = 0; s < p->nstages; s++) {
		assert_string_equal(plan_recompute_of(p, s),
				    plan_recompute_of(q, s));
		differ |= strcmp(plan_recompute_of(p, s),
				 plan_recompute_of(p, 0)) != 0;
	}
	assert_true(differ == (p->recompute_of != NULL));
}

static void
same_tiles(const struct plan *p, const struct plan *q)
{
	uint32_t i;

	assert_int_equal(p->ntiles, q->ntiles);
	for (i = 0; i < p->ntiles; i++) {
		assert_string_equal(p->tiles[i], q->tiles[i]);
	}
}

/*
 * What is written reads back as it was, prints as a text that reads back to
 * the same plan, and survives being printed as IR.
 */
static void
test_round_trip(void **state)
{
	struct ir_module *m = model(13, 40), *other = model(13, 40), *back;
	struct plan p, q;
	uint64_t rng = 1;
	const char *text;
	int i;

	(void)state;
	for (i = 0; i < 300; i++) {
		draw(m, &rng, &p);
		assert_true(plan_write(m, &p));
		assert_true(ir_verify(m));
		must_read(m, &q);
		assert_int_equal(q.pp, p.pp);
		assert_int_equal(q.tp, p.tp);
		assert_int_equal(q.microbatch, p.microbatch);
		assert_int_equal(q.interleave, p.interleave);
		assert_int_equal(q.zero, p.zero);
		assert_int_equal(q.sequence, p.sequence);
		assert_int_equal(q.offload, p.offload);
		assert_int_equal(q.ring, p.ring);
		assert_string_equal(q.schedule, p.schedule);
		same_recompute(&q, &p);
		same_tiles(&q, &p);
		assert_memory_equal(q.mesh, p.mesh, sizeof p.mesh);
		assert_memory_equal(q.layers, p.layers,
				    p.nstages * sizeof *p.layers);
		assert_int_equal(q.split[PLAN_TP].n, p.split[PLAN_TP].n);
		assert_int_equal(q.nmicrobatches,
				 (40 + q.dp * q.ep * q.microbatch - 1) /
				 (q.dp * q.ep * q.microbatch));
		text = text_of(m, &q);
		assert_true(fe_read_plan(&ctx, other, add_text(text)));
		must_read(other, &p);
		assert_string_equal(text_of(other, &p), text);
		assert_string_equal(settings_of(other), settings_of(m));
		back = ir_read(&ctx, add_text(settings_of(m)));
		assert_non_null(back);
		must_read(back, &p);
		assert_string_equal(text_of(back, &p), text);
		assert_non_null(plan_schedule(m, &q, &ctx.perm));
		arena_release(&ctx.tmp);
	}
}

/* Every rank has a sequence, and no larger microbatch would leave it so. */
static void
test_microbatch(void **state)
{
	int64_t batch, ranks, most;

	(void)state;
	for (batch = 1; batch <= 20; batch++) {
		struct ir_module *m = model(2, (int)batch);

		for (ranks = 1; ranks <= batch; ranks++) {
			struct plan p;

			plan_clear(m);
			assert_true(plan_pin(m, arena_printf(&ctx.perm,
				"dp=%lld", (long long)ranks)));
			must_read(m, &p);
			most = p.microbatch;
			assert_true(most * ranks >= batch ||
				    most == batch / ranks);
			/* the last rank's first sequence is there */
			assert_true(most * (ranks - 1) < batch);
			assert_true(plan_pin(m, arena_printf(&ctx.perm,
				"microbatch=%lld", (long long)most + 1)));
			assert_false(plan_read(m, &p));
			ctx.diags.errors = 0;
			ctx.diags.records.n = 0;
		}
	}
}

static void
test_out_of_range(void **state)
{
	struct ir_module *m = model(4, 4);
	struct plan p;

	(void)state;
	assert_true(plan_pin(m, "pp=2"));
	must_read(m, &p);
	p.pp = 0;		/* an error of a search is reported, too */
	assert_false(plan_write(m, &p));
	assert_int_equal(ir_setting_num(m, "plan.pp", 0), 2);
	plan_clear(m);
	assert_null(ir_setting(m, "plan.pp"));
	must_read(m, &p);
	assert_int_equal(p.pp, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_defaults, setup,
						teardown),
		cmocka_unit_test(test_spread),
		cmocka_unit_test_setup_teardown(test_ranks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_round_trip, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_microbatch, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_out_of_range, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Recomputation of arbitrary saved values: random modules with repeats in
 * repeats are trained once with all that autodiff saves and once with a
 * random part of it dropped.  Loss and gradients must be the same, bit by
 * bit, and no more bytes saved, but for inputs that had to be kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "passes/pass.h"
#include "tests/unit/shared/t-random-ir.h"

#define MODULES 6000
#define NAMES 5

static const struct span nowhere = { 0, 0 };

/* One training of one module, and what it came to. */
struct run {
	uint64_t digest;	/* of the loss and of all that is accumulated */
	int64_t saved, dropped, kept;
	bool ok;
};

static void
mix(struct run *r, const double *data, int64_t elems)
{
	r->digest = r->digest * 1099511628211u ^ ir_checksum(data, elems);
}

static bool
put(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, const double *data, struct span at)
{
	struct run *r = user;

	(void)type;
	(void)at;
	assert_int_equal(op, IR_ACCUMULATE);
	r->digest = r->digest * 31 + ir_rng_key(name, 0);
	mix(r, data, elems);
	return true;
}

static bool
get(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, double *out, struct span at)
{
	uint64_t key = ir_rng_key(name, 1);
	int64_t i;

	(void)user;
	(void)op;
	(void)type;
	(void)at;
	for (i = 0; i < elems; i++) {
		out[i] = ir_rng_normal(key, (uint64_t)i);
	}
	return true;
}

static struct ir_module *
read_random(struct ir_ctx *c, uint32_t seed)
{
	const char *text = random_module(&c->perm, seed);
	uint32_t base;

	assert_true(source_add(&c->sources, "r.ir", text, strlen(text),
			       &base));
	return ir_read(c, c->sources.files.n - 1);
}

static void
make_loss(struct ir_module *m)
{
	region_id body = m->funcs.at[ir_model(m)].body;
	struct ir_region *r = &m->regions.at[body];
	struct ir_type t = *ir_type(m, r->results.at[0]);
	struct ir_new n;
	const char *why;
	value_id loss;
	uint8_t k;

	ir_new_init(&n, IR_SUM, nowhere);
	ir_new_arg(&n, r->results.at[0]);
	ir_new_attr(&n, IR_ATTR_OVER);
	for (k = 0; k < t.ndims; k++) {
		ir_new_dim(&n, IR_ATTR_OVER, t.dims[k]);
	}
	loss = ir_append(m, body, &n, &why);
	r = &m->regions.at[body];
	r->results.at[0] = loss;
	r->results.n = 1;
}

static void
make_names(struct ir_module *m, uint32_t *rnd)
{
	value_id v;

	for (v = 1; v < m->values.n; v++) {
		const char *name = arena_printf(&m->ctx->perm, "n%u",
						draw(rnd, NAMES));

		m->values.at[v].hint = intern_str(&m->ctx->syms, name);
	}
}

/* A part of the names, or one of the words; it is the plan's. */
static void
set_recompute(struct ir_module *m, uint32_t *rnd)
{
	uint32_t some = draw(rnd, 1 << NAMES), i;
	struct ir_setting s = { .kind = SET_STR };
	struct buf b;
	value_id v;

	buf_init(&b, &m->ctx->perm);
	for (v = 1; v < m->values.n; v++) {
		const char *name = ir_text(m->ctx, m->values.at[v].hint);

		i = (uint32_t)name[1] - '0';
		if (some >> i & 1) {
			some &= ~(1u << i);
			buf_printf(&b, "%s%s", b.n ? ", " : "", name);
		}
	}
	s.key = intern_str(&m->ctx->syms, "plan.recompute");
	s.text = intern_str(&m->ctx->syms, b.n ? buf_text(&b) : "full");
	VEC_PUSH(&m->ctx->perm, &m->settings, s);
}

static bool
passes(struct pass_manager *pm, const char *list, struct ir_module *m)
{
	struct pass_list l = { 0 };

	assert_true(pass_list_parse(pm->table, &l, list));
	return pass_run(pm, &l, m) == PASS_OK;
}

static int64_t
counted(const struct pass_manager *pm, const char *what)
{
	uint32_t i;

	for (i = 0; i < pm->stats.at.n; i++) {
		if (strcmp(pm->stats.at.at[i].what, what) == 0) {
			return pm->stats.at.at[i].n;
		}
	}
	return 0;
}

static void
evaluate(struct run *r, struct ir_module *m)
{
	struct ir_weights w = { .get = get, .put = put, .user = r };
	struct ir_eval_options opt = { .seed = 3, .weights = &w };
	struct ir_eval_result result[1];
	struct pass_sums sums;
	uint32_t n;

	r->ok = ir_eval(m, &opt, result, 1, &n) && pass_sum(m, &sums);
	if (r->ok) {
		mix(r, result[0].data, 1);
		r->saved = sums.saved_bytes;
	}
}

static struct run
train(uint32_t seed, bool drop)
{
	struct run r = { 0 };
	struct pass_table table;
	struct pass_manager pm;
	struct ir_module *m;
	struct ir_ctx c;

	ir_ctx_init(&c, NULL);
	memset(c.diags.on, 0, sizeof c.diags.on);	/* names of no save */
	pass_table_init(&table, &c);
	pass_manager_init(&pm, &table);
	pm.options.verify = true;
	pm.options.reproducer = "t-recompute.ir.tmp";
	m = read_random(&c, seed);
	make_loss(m);
	assert_true(passes(&pm, "inline", m));
	make_names(m, &seed);
	if (drop) {
		set_recompute(m, &seed);
	}
	if (passes(&pm, "autodiff,recompute,dce", m)) {
		evaluate(&r, m);
	}
	if (drop && c.diags.errors) {
		fail_msg("%s", c.diags.records.at[0].text);
	}
	r.dropped = counted(&pm, "saves dropped");
	r.kept = counted(&pm, "inputs kept");
	pass_manager_release(&pm);
	pass_table_release(&table);
	ir_ctx_release(&c);
	return r;
}

static void
test_random(void **state)
{
	uint32_t seed, dropped = 0, kept = 0;

	(void)state;
	for (seed = 1; seed <= MODULES; seed++) {
		struct run all = train(seed, false), some;

		if (!all.ok || !all.saved) {
			continue;
		}
		some = train(seed, true);
		assert_true(some.ok);
		if (some.digest != all.digest) {
			fail_msg("module %u: other gradients", seed);
		}
		if (some.saved > all.saved && !some.kept) {
			fail_msg("module %u: %lld bytes saved, before %lld",
				 seed, (long long)some.saved,
				 (long long)all.saved);
		}
		dropped += some.dropped > 0;
		kept += some.kept > 0;
	}
	print_message("saves dropped in %u modules, inputs kept in %u\n",
		      dropped, kept);
	assert_true(dropped > 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random) };

	return cmocka_run_group_tests_name("recompute", tests, NULL, NULL);
}

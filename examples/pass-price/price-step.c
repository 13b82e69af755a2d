/*
 * A pass that prices what the passes before it made: it reads the rank
 * programs and counts the microseconds of a step, in all and of each stage's
 * forward.  README.md beside this says how to run it.
 */
#include "passes/pass.h"
#include "passes/price/price.h"

static bool
price_programs(struct pass_ctx *p, struct ir_module *m)
{
	static const struct price_traits plain;
	struct arena *a = &m->ctx->tmp;
	struct sched *s = ranks_schedule(m, p->memo, a);
	struct target_devs devs;
	struct ranks r = { 0 };
	struct price price = { 0 };
	const char *why = "no schedule";
	uint32_t i;

	if (!p->target) {
		return true;
	}
	if (!s || !ranks_open(&r, m, s, p->memo, &why)) {
		diag_error(&m->ctx->diags, (struct span){ 0, 0 },
			   "these programs have no price: %s", why);
		return false;
	}
	price_devs(&r, p->target, a, &devs);
	if (!price_step(&r, &devs, &plain, a, &price, &why)) {
		diag_error(&m->ctx->diags, (struct span){ 0, 0 },
			   "these programs have no price: %s", why);
		return false;
	}
	pass_count(p, "microseconds of a step", (int64_t)(price.step_us + 0.5));
	for (i = 0; i < r.nstages; i++) {
		pass_count(p, arena_printf(a, "microseconds of stage %u, "
					   "forward", i),
			   (int64_t)price.stage[i][SCHED_F].total_us);
	}
	return true;
}

static const struct pass passes[] = {
	{ "price-step", PROP_STAGED, 0, 0, price_programs,
	  "what a step of the rank programs takes" }
};

const struct pass_plugin *
llmc_pass_plugin(void)
{
	static const struct pass_plugin plugin = {
		IR_ABI_VERSION, "price-step", "1.0", passes, 1
	};

	return &plugin;
}

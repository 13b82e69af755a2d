/*
 * Two passes that choose what the search would: one key of the plan, and all
 * of it.  README.md beside this says how to run them.
 */
#include "passes/pass.h"
#include "passes/plan/plan.h"

/* What is set before the search is a pin, and the search chooses the rest. */
static bool
always_tp8(struct pass_ctx *p, struct ir_module *m)
{
	(void)p;
	return plan_pin(m, "tp=8");
}

/*
 * A rule of one's own in place of the search: eight tensor ranks, which also
 * split the sequence, and the largest microbatch; what is pinned otherwise
 * stays.  With every key written, nothing is left to search.
 */
static bool
rule_of_eight(struct pass_ctx *p, struct ir_module *m)
{
	struct plan plan;

	if (!plan_read(m, &plan)) {
		return false;
	}
	plan.tp = 8;
	plan.sequence = true;
	if (!ir_setting(m, "plan.microbatch")) {
		plan.microbatch = plan.batch / (plan.dp * plan.ep);
	}
	pass_count(p, "sequences in a microbatch", plan.microbatch);
	return plan_write(m, &plan);
}

static const struct pass passes[] = {
	{ "always-tp8", 0, 0, 0, always_tp8, "eight tensor ranks" },
	{ "rule-of-eight", PROP_FLAT, 0, 0, rule_of_eight,
	  "a whole plan of eight tensor ranks, without a search" }
};

const struct pass_plugin *
llmc_pass_plugin(void)
{
	static const struct pass_plugin plugin = {
		IR_ABI_VERSION, "always-tp8", "1.0", passes, 2
	};

	return &plugin;
}

/*
 * Rank programs as --emit prints them: their IR, kernels, what a step costs,
 * and where their tensors lie in memory.  The answer prices them here too.
 */
#include "frontend/tool/tool.h"

#include "frontend/frontend.h"
#include "passes/memory/memory.h"

/* ---- --emit=ranks ---- */

bool
drv_print_ranks(struct driver *d, struct ir_module *m)
{
	struct sched *s = ranks_schedule(m, d->pm.memo, &d->ctx.perm);
	uint32_t i, k;

	if (!s) {
		return false;
	}
	for (i = 0; i < s->nranks; i++) {
		buf_printf(&d->out, "# pipe %u:", i);
		for (k = 0; k < s->ranks[i].actions.n; k++) {
			buf_printf(&d->out, " %s",
				   sched_name(&d->ctx.tmp,
					      &s->ranks[i].actions.at[k]));
		}
		buf_putc(&d->out, '\n');
	}
	ir_print(m, &d->out);
	return true;
}

/* ---- --emit=cost ---- */

/* --target, which has a device for each rank. */
static bool
target_of_ranks(struct driver *d, const struct ranks *r, struct target *t)
{
	const char *name = d->opts.at[OPT_TARGET].text;
	const struct span nowhere = { 0, 0 };

	if (!name) {
		diag_error(&d->ctx.diags, nowhere, "--emit=%s needs --target, "
			   "such as h100x8", d->opts.at[OPT_EMIT].text);
		return false;
	}
	if (!fe_target(&d->ctx, name, t)) {
		return false;
	}
	if (r->nranks > target_devices(t)) {
		diag_error(&d->ctx.diags, nowhere, "the plan has %u ranks, and "
			   "%s has %lld devices", r->nranks, name,
			   (long long)target_devices(t));
		return false;
	}
	if (r->nranks < target_devices(t)) {
		diag_warn(&d->ctx.diags, WARN_IDLE_DEVICES, nowhere, "the plan "
			  "has %u ranks, and %lld of the %lld devices of %s "
			  "stay idle", r->nranks, (long long)
			  (target_devices(t) - r->nranks),
			  (long long)target_devices(t), name);
	}
	return true;
}

bool
drv_price_ranks(struct driver *d, struct ir_module *m, struct target *t,
		struct ranks *r, struct price *p)
{
	struct price_traits traits = { 0 };
	struct target_devs devs;
	const char *why = "?";

	if (!drv_assume(d, &traits) || !drv_open_ranks(d, m, r) ||
	    !target_of_ranks(d, r, t)) {
		return false;
	}
	price_devs(r, t, &d->ctx.perm, &devs);
	if (!price_step(r, &devs, &traits, &d->ctx.perm, p, &why)) {
		diag_error(&d->ctx.diags, (struct span){ 0, 0 },
			   "this step cannot be priced: %s", why);
		return false;
	}
	return true;
}

bool
drv_print_cost(struct driver *d, struct ir_module *m)
{
	struct target t;
	struct ranks r;
	struct price p;

	if (!drv_price_ranks(d, m, &t, &r, &p)) {
		return false;
	}
	price_print(&r, &p, &d->out);
	return true;
}

/* ---- --emit=kernels ---- */

struct shared_on {
	const struct target *t;
	struct pricing p;
};

/* Whether all kinds of node gain by it. */
static bool
shares_launch(const struct kernel *k, void *user_data)
{
	struct shared_on *x = user_data;
	uint32_t i;

	for (i = 0; i < x->t->groups.n; i++) {
		x->p.t = &x->t->groups.at[i];
		if (!price_shares_launch(&x->p, k)) {
			return false;
		}
	}
	return true;
}

bool
drv_print_kernels(struct driver *d, struct ir_module *m)
{
	const char *name = d->opts.at[OPT_TARGET].text;
	struct price_traits traits = { 0 };
	struct target t;
	struct shared_on x = {
		.t = &t, .p = { .m = m, .traits = &traits,
				.memo = d->pm.memo }
	};

	if (name && (!drv_assume(d, &traits) ||
		     !fe_target(&d->ctx, name, &t))) {
		return false;
	}
	kernels_print(m, kernels_all(m, d->pm.memo, &d->ctx.perm),
		      name ? shares_launch : NULL, &x, &d->out);
	return true;
}

/* ---- --emit=memory and --emit=arena ---- */

bool
drv_print_memory(struct driver *d, struct ir_module *m,
		 drv_memory_print *print)
{
	const struct span nowhere = { 0, 0 };
	bool devs_known = d->opts.at[OPT_TARGET].given;
	struct target_devs devs;
	const char *why = "?";
	struct memory mem;
	struct target t;
	struct ranks r;

	if (!drv_open_ranks(d, m, &r) ||
	    (devs_known && !target_of_ranks(d, &r, &t))) {
		return false;
	}
	if (!memory_plan(&r, NULL, 0, &d->ctx.perm, &mem, &why)) {
		diag_error(&d->ctx.diags, nowhere, "the memory of these rank "
			   "programs cannot be planned: %s", why);
		return false;
	}
	if (devs_known) {
		price_devs(&r, &t, &d->ctx.perm, &devs);
		memory_set_devices(&mem, &r, &devs, &d->ctx.perm);
	}
	if (d->opts.at[OPT_VERIFY_EACH].given) {
		memory_assign_slots(&r, &d->ctx.perm, &mem);
		why = memory_check(&r, &mem);
		if (why) {
			die("the arena is wrong: %s", why);
		}
	}
	print(&r, &mem, &d->out);
	return true;
}

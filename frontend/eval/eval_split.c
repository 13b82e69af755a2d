/*
 * llmc eval with a plan: all ranks of the split program run, and with
 * --compare, beside them, the program that it came from.
 */
#include "frontend/tool/tool_answer.h"

#include <math.h>
#include <string.h>

#include "frontend/eval/eval_compare.h"
#include "passes/memory/memory.h"

#define MAX_BYTES ((int64_t)16 << 30)	/* unless --max-bytes says more */
#define MAX_STEPS 1000000
#define CLOSE 1e-9	/* what --compare calls the same */

struct split {
	struct driver *d;
	const struct drv_course *course;	/* or NULL */
	struct drv_worst worst;
};

/* ---- running ---- */

static bool
after(void *user, const struct sim_result *r)
{
	struct split *s = user;
	struct buf *out = &s->d->out;
	double loss = r->nresults && r->results[0].elems == 1
		? r->results[0].data[0] : NAN;

	buf_printf(out, "step %u loss ", r->step);
	buf_double(out, loss);
	if (s->course) {
		buf_puts(out, " unsplit ");
		buf_double(out, drv_course_loss(s->course, r->step));
		drv_course_hold(s->course, r, &s->worst);
	}
	buf_putc(out, '\n');
	return true;
}

/* How far the two are from each other, and whether that is rounding. */
static bool
verdict(struct split *s, uint32_t steps)
{
	const struct drv_worst *w = &s->worst;
	struct buf *out = &s->d->out;

	buf_printf(out, "compared %llu tensors over %u steps: ",
		   (unsigned long long)w->tensors, steps);
	if (w->off == 0) {
		buf_puts(out, "equal to the last bit\n");
		return true;
	}
	if (w->off <= CLOSE) {
		buf_printf(out, "at most %.1e apart, in %s %s of step %u\n",
			   w->off, w->kind, w->name, w->step);
		return true;
	}
	diag_error(&s->d->ctx.diags, (struct span){ 0, 0 }, "the split program "
		   "is another one: %s %s of step %u is %.1e apart", w->kind,
		   w->name, w->step, w->off);
	return false;
}

static bool
can_run(struct driver *d, struct ir_module *m, struct ranks *r)
{
	const struct opt_value *at = d->opts.at;
	struct sched *sched = ranks_schedule(m, d->pm.memo, &d->ctx.perm);
	const char *why = "?";

	if (!sched) {
		return false;
	}
	if (at[OPT_CHECKSUM].given) {
		diag_error(&d->ctx.diags, (struct span){ 0, 0 }, "--checksum "
			   "goes with the whole model, and these are rank "
			   "programs");
		return false;
	}
	if (at[OPT_STEPS].given && (at[OPT_STEPS].num < 1 ||
				    at[OPT_STEPS].num > MAX_STEPS)) {
		diag_error(&d->ctx.diags, (struct span){ 0, 0 }, "--steps is "
			   "%lld, and 1 to %d is legal",
			   (long long)at[OPT_STEPS].num, MAX_STEPS);
		return false;
	}
	if (!ranks_open(r, m, sched, d->pm.memo, &why)) {
		diag_error(&d->ctx.diags, (struct span){ 0, 0 },
			   "these rank programs cannot run: %s", why);
		return false;
	}
	return true;
}

static bool
run(struct split *s, const struct ranks *r, struct ir_eval_options *eval,
    struct ir_module *unsplit)
{
	const struct opt_value *at = s->d->opts.at;
	struct sim_options o = { .after = after, .user = s };
	struct sim_result result;

	o.steps = at[OPT_STEPS].given ? (uint32_t)at[OPT_STEPS].num : 1;
	o.seed = eval->seed = drv_seed(s->d, r->m);
	o.max_bytes = eval->max_bytes = at[OPT_MAX_BYTES].given
		? at[OPT_MAX_BYTES].num : MAX_BYTES;
	o.weights = eval->weights;
	if (!sim_fits(r, o.max_bytes) ||
	    (unsplit && !drv_fits(unsplit, eval, true, o.steps))) {
		return false;
	}
	if (unsplit) {
		s->course = drv_course_run(unsplit, eval, o.steps);
		if (!s->course) {
			return false;
		}
	}
	buf_printf(&s->d->out, "%u ranks, %u stages, %u microbatches\n",
		   r->nranks, r->nstages, r->nmicrobatches);
	return sim_run(r, &o, &result) &&
	       (!s->course || verdict(s, o.steps));
}

bool
drv_eval_split(struct driver *d, struct ir_module *m,
	       struct ir_module *unsplit)
{
	const struct opt_value *at = d->opts.at;
	struct split s = { .d = d };
	struct ir_eval_options eval = { 0 };
	struct drv_weights *w = NULL;
	struct ranks r;
	bool ok;

	if (!can_run(d, m, &r)) {
		return false;
	}
	if (at[OPT_WEIGHTS].given) {
		w = drv_weights_open(m, at[OPT_WEIGHTS].text);
		if (!w) {
			return false;
		}
		eval.weights = drv_weights_source(w);
	}
	ok = run(&s, &r, &eval, unsplit) &&
	     (!w || drv_weights_check(w, at[OPT_ALLOW_UNUSED].given));
	drv_weights_close(w);
	return ok;
}

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

/* The target, with room for all ranks. */
static bool
read_target(struct driver *d, const struct ranks *r, struct target *t)
{
	const char *name = d->opts.at[OPT_TARGET].text;
	const struct span nowhere = { 0, 0 };

	if (!name) {
		diag_error(&d->ctx.diags, nowhere, "--emit=%s goes with "
			   "--target, as h100x8", d->opts.at[OPT_EMIT].text);
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
drv_price(struct driver *d, struct ir_module *m, struct target *t,
	  struct ranks *r, struct price *p)
{
	struct price_traits traits = { 0 };
	struct target_devs devs;
	const char *why = "?";

	if (!drv_assume(d, &traits) || !can_run(d, m, r) ||
	    !read_target(d, r, t)) {
		return false;
	}
	price_devs(r, t, &d->ctx.perm, &devs);
	if (!price_step(r, &devs, &traits, &d->ctx.perm, p, &why)) {
		diag_error(&d->ctx.diags, (struct span){ 0, 0 },
			   "this step has no price: %s", why);
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

	if (!drv_price(d, m, &t, &r, &p)) {
		return false;
	}
	price_print(&r, &p, &d->out);
	return true;
}

/* ---- --emit=arena ---- */

bool
drv_print_arena(struct driver *d, struct ir_module *m, bool json)
{
	const struct span nowhere = { 0, 0 };
	bool devs_known = d->opts.at[OPT_TARGET].given;
	struct target_devs devs;
	const char *why = "?";
	struct memory mem;
	struct target t;
	struct ranks r;

	if (!can_run(d, m, &r) || (devs_known && !read_target(d, &r, &t))) {
		return false;
	}
	if (!memory_plan(&r, NULL, 0, &d->ctx.perm, &mem, &why)) {
		diag_error(&d->ctx.diags, nowhere, "these rank programs have "
			   "no arena: %s", why);
		return false;
	}
	if (devs_known) {
		price_devs(&r, &t, &d->ctx.perm, &devs);
		memory_set_devices(&mem, &devs);
	}
	if (d->opts.at[OPT_VERIFY_EACH].given) {
		memory_give_slots(&r, &d->ctx.perm, &mem);
		why = memory_check(&r, &mem);
		if (why) {
			die("the arena is wrong: %s", why);
		}
	}
	if (json) {
		memory_print_json(&r, &mem, &d->out);
	} else {
		memory_print(&r, &mem, &d->out);
	}
	return true;
}

/*
 * llmc eval with a plan: runs the programs of all ranks, and with --compare
 * compares every step with the model that they were split from.
 */
#include "frontend/eval/eval.h"

#include <math.h>

#define CLOSE 1e-9	/* what --compare calls rounding */

struct split_run {
	struct driver *d;
	const struct eval_steps *unsplit;	/* or NULL */
	struct eval_worst worst;
};

/* ---- running ---- */

static bool
after_step(void *user, const struct sim_result *r)
{
	struct split_run *s = user;
	struct buf *out = &s->d->out;
	double loss = r->nresults && r->results[0].elems == 1
		? r->results[0].data[0] : NAN;

	buf_printf(out, "step %u loss ", r->step);
	buf_double(out, loss);
	if (s->unsplit) {
		buf_puts(out, " unsplit ");
		buf_double(out, eval_steps_loss(s->unsplit, r->step));
		eval_steps_compare(s->unsplit, r, &s->worst);
	}
	buf_putc(out, '\n');
	return true;
}

/* Prints the largest difference; an error if it is more than rounding. */
static bool
print_worst(struct split_run *s, uint32_t steps)
{
	const struct eval_worst *w = &s->worst;
	struct buf *out = &s->d->out;

	buf_printf(out, "compared %llu tensors over %u step%s: ",
		   (unsigned long long)w->tensors, steps,
		   steps == 1 ? "" : "s");
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
		   "differs from its model: %s %s of step %u is %.1e off",
		   w->kind, w->name, w->step, w->off);
	return false;
}

static bool
run(struct split_run *s, const struct ranks *r, struct ir_eval_options *eval,
    struct ir_module *unsplit)
{
	const struct opt_value *at = s->d->opts.at;
	struct sim_options o = { .after = after_step, .user = s };
	struct sim_result result;

	o.steps = at[OPT_STEPS].given ? (uint32_t)at[OPT_STEPS].num : 1;
	o.seed = eval->seed = eval_seed(s->d, r->m);
	o.max_bytes = eval->max_bytes = eval_max_bytes(s->d);
	o.weights = eval->weights;
	if (!sim_fits(r, o.max_bytes) ||
	    (unsplit && !eval_fits(unsplit, eval, true, o.steps))) {
		return false;
	}
	if (unsplit) {
		s->unsplit = eval_steps_run(unsplit, eval, o.steps);
		if (!s->unsplit) {
			return false;
		}
	}
	buf_puts(&s->d->out, sched_shape_text(s->d->out.arena, r->nranks,
					      r->nstages, r->nmicrobatches));
	buf_putc(&s->d->out, '\n');
	return sim_run(r, &o, &result) &&
	       (!s->unsplit || print_worst(s, o.steps));
}

bool
eval_split(struct driver *d, struct ir_module *m,
	   struct ir_module *unsplit)
{
	const struct opt_value *at = d->opts.at;
	struct split_run s = { .d = d };
	struct ir_eval_options eval = { 0 };
	struct eval_weights *w = NULL;
	struct ranks r;
	bool ok;

	if (at[OPT_CHECKSUM].given) {
		diag_error(&d->ctx.diags, (struct span){ 0, 0 }, "--checksum "
			   "applies to the whole model, and these are rank "
			   "programs");
		return false;
	}
	if (!eval_steps_legal(d) || !drv_open_ranks(d, m, &r)) {
		return false;
	}
	if (at[OPT_WEIGHTS].given) {
		w = eval_weights_open(m, at[OPT_WEIGHTS].text);
		if (!w) {
			return false;
		}
		eval.weights = eval_weights_source(w);
	}
	ok = run(&s, &r, &eval, unsplit) &&
	     (!w || eval_weights_check(w, at[OPT_ALLOW_UNUSED].given));
	eval_weights_close(w);
	return ok;
}

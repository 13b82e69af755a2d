/*
 * Whether what `llmc eval` is to run fits --max-bytes, all of it together: to
 * be known before the first number is computed, and not after minutes.
 */
#include "frontend/tool/driver.h"
#include "ir/machine.h"

/* a * b or what is left of int64_t */
static int64_t
times(int64_t a, int64_t b)
{
	int64_t product;

	return num_mul(a, b, &product) ? product : INT64_MAX;
}

static int64_t
plus(int64_t a, int64_t b)
{
	int64_t sum;

	return num_add(a, b, &sum) ? sum : INT64_MAX;
}

/*
 * What lasts from step to step: each stored tensor as it is and as it will
 * be, and its gradient; and for a comparison, those of every step.
 */
static int64_t
kept_bytes(const struct ir_needs *update, int64_t compared_steps)
{
	int64_t once = plus(update->stored_bytes, update->gradient_bytes);

	return plus(plus(once, update->stored_bytes),
		    times(once, compared_steps));
}

static bool
fits_kept(const struct ir_module *m, struct ir_eval_options *opt, int64_t kept,
	  int64_t compared_steps)
{
	struct ir_ctx *c = m->ctx;
	struct buf b;

	if (kept < opt->max_bytes) {
		opt->max_bytes -= kept;
		return true;
	}
	buf_init(&b, &c->tmp);
	if (kept == INT64_MAX) {
		buf_puts(&b, "more than 2^63");
	} else {
		buf_grouped(&b, kept);
	}
	buf_puts(&b, " bytes of weights, gradients and what the optimizer "
		 "keeps");
	if (compared_steps > 0) {
		buf_printf(&b, ", with those of %lld steps to compare with",
			   (long long)compared_steps);
	}
	buf_puts(&b, ", and the limit is ");
	buf_grouped(&b, opt->max_bytes);
	diag_error(&c->diags, (struct span){ 0, 0 }, "training this takes %s",
		   buf_text(&b));
	return false;
}

bool
drv_fits(struct ir_module *m, struct ir_eval_options *opt, bool trains,
	 int64_t compared_steps)
{
	func_id update = trains ? drv_update(m) : 0;
	struct ir_needs needs = { 0 };
	struct ir_eval_options o = *opt;

	if (!pass_flat_fits(m, ir_model(m)) ||
	    (update && !pass_flat_fits(m, update))) {
		return false;
	}
	o.func = update;
	if (update &&
	    (!ir_eval_count(m, &o, &needs) ||
	     !fits_kept(m, opt, kept_bytes(&needs, compared_steps),
			compared_steps))) {
		return false;
	}
	return ir_eval_count(m, opt, &needs);
}

/*
 * --serve: how a model serves requests on a target.  Reads the serve block,
 * which --workload adds to, and the keys of a plan that split a replica, and
 * prints what passes/serve finds.
 */
#include "frontend/tool/tool.h"

#include "frontend/frontend.h"
#include "passes/serve/serve.h"

#include <math.h>
#include <string.h>

static const struct span nowhere;

static const struct serve_format formats[] = {
	{ "f32", 4, 0 }, { "bf16", 2, 0 }, { "f16", 2, 0 },
	{ "f8e4m3", 1, 0 }, { "f8e5m2", 1, 0 }, { "int8", 1, 1 },
	/* groups of 128 with a scale of 16 bits each; others in int8 */
	{ "int4", 0.5 + 2 / 128.0, 1 }
};

static const struct serve_format *
format_of(const struct ir_module *m, const struct ir_setting *s)
{
	size_t i;

	for (i = 0; s && i < sizeof formats / sizeof *formats; i++) {
		if (strcmp(formats[i].name, ir_text(m->ctx, s->text)) == 0) {
			return &formats[i];
		}
	}
	return NULL;
}

static struct span
value_of(const struct ir_setting *s)
{
	return s ? s->value : nowhere;
}

/* Whether a request fits the longest sequence, and that fits the model. */
static bool
lengths_agree(const struct ir_module *m, const struct serve_model *s,
	      const struct serve_asked *q)
{
	const struct ir_setting *context = ir_setting(m, "serve.context");
	const struct ir_setting *asked = ir_setting(m, "serve.prompt");

	asked = asked ? asked : ir_setting(m, "serve.output");
	if (q->context > (double)s->context) {
		diag_error(&m->ctx->diags, value_of(context), "`context` is "
			   "%.0f, and the model has %lld positions: a longer "
			   "model is --dim %s=%.0f", q->context,
			   (long long)s->context,
			   ir_dim_name(s->m, s->seq), q->context);
		return false;
	}
	if (q->prompt + q->output > q->context) {
		diag_error(&m->ctx->diags, value_of(asked ? asked : context),
			   "a request of %.0f tokens in and %.0f out is longer "
			   "than the longest sequence, which has %.0f: "
			   "`context` says so", q->prompt, q->output,
			   q->context);
		return false;
	}
	return true;
}

/* Without `serve`: as docs/serving.md says. */
static bool
read_asked(struct driver *d, const struct ir_module *m,
	   const struct serve_model *s, const struct target *t,
	   struct serve_asked *q)
{
	double own = (double)s->context;
	double prompt = fmin(1024, own * 3 / 4), output = fmin(256, own / 4);

	*q = (struct serve_asked){ .usd_h =
				   t->groups.at[0].device.price_usd_h };
	q->context = ir_setting_num(m, "serve.context", own);
	q->prompt = ir_setting_num(m, "serve.prompt", prompt);
	q->output = ir_setting_num(m, "serve.output", output);
	q->ttft_s = ir_setting_num(m, "serve.ttft", 0);
	q->tpot_s = ir_setting_num(m, "serve.tpot", 0);
	q->rate = ir_setting_num(m, "serve.rate", 0);
	q->weights = format_of(m, ir_setting(m, "serve.weights"));
	q->cache = format_of(m, ir_setting(m, "serve.cache"));
	q->fp8 = ir_setting(m, "serve.matmul") != NULL;
	drv_set_serve_steps(m, q);
	return lengths_agree(m, s, q) && drv_check_serve_sizes(m, q) &&
	       drv_read_number(d, OPT_PRICE, 1e-6, 1e6, "USD for an hour of "
			       "one device from 1e-6 to 1e6, such as 2.5",
			       &q->usd_h);
}

/* What serving reads of --plan and --pin; false if they have another key. */
static bool
read_pins(const struct ir_module *m, struct serve_pins *out)
{
	uint32_t i;
	bool ok = true;

	*out = (struct serve_pins){
		.sequences = ir_setting_num(m, "serve.sequences", 0),
		.chunk = ir_setting_num(m, "serve.chunk", 0)
	};
	for (i = 0; i < m->settings.n; i++) {
		const struct ir_setting *s = &m->settings.at[i];
		const char *key = ir_text(m->ctx, s->key);
		int64_t n = s->kind == SET_NUM ? (int64_t)s->num[0] : 0;

		if (strncmp(key, "plan.", 5) != 0) {
			continue;
		}
		key += 5;
		if (strcmp(key, "tp") == 0) {
			out->split.tp = n;
		} else if (strcmp(key, "pp") == 0) {
			out->split.pp = n;
		} else if (strcmp(key, "ep") == 0) {
			out->split.ep = n;
		} else if (strcmp(key, "dp") == 0) {
			out->split.replicas = n;
		} else {
			diag_error(&m->ctx->diags, s->span, "serving has no "
				   "`%s`: of a plan it reads tp, pp, ep and "
				   "dp, which is the number of replicas", key);
			ok = false;
		}
	}
	return ok;
}

/* Options about a plan for training, its answer and its code. */
static const enum opt_id of_training[] = {
	OPT_AUTOTUNE, OPT_TRIALS,
	OPT_NO_WHOLE, OPT_TOP, OPT_SEARCH_SECONDS, OPT_EXPLAIN, OPT_REPORT,
	OPT_TRACE, OPT_TOKENS, OPT_STORAGE, OPT_RESTART, OPT_OWN,
	OPT_ENERGY, OPT_PUE, OPT_ASSUME, OPT_PASSES, OPT_INSERT,
	OPT_STOP_AFTER, OPT_PRINT_BEFORE, OPT_PRINT_AFTER, OPT_PRINT_CHANGED,
	OPT_VERIFY_EACH, OPT_TIME_PASSES, OPT_STATS, OPT_BISECT_LIMIT
};

/* Whether --serve and --workload go with what else is given. */
static bool
check_options(struct driver *d)
{
	size_t i;

	for (i = 0; i < sizeof of_training / sizeof *of_training; i++) {
		if (drv_given(d, of_training[i])) {
			diag_error(&d->ctx.diags, nowhere, "--%s is about "
				   "training, and --serve about requests: one "
				   "of them is legal",
				   opt_rows[of_training[i]].name);
			return false;
		}
	}
	if (!drv_given(d, OPT_TARGET)) {
		diag_error(&d->ctx.diags, nowhere, "--serve needs the machine "
			   "that serves: --target, such as --target=h100x8");
		return false;
	}
	if (drv_given(d, OPT_SERVE) && drv_given(d, OPT_EMIT) &&
	    !drv_wants_serving(d)) {
		diag_error(&d->ctx.diags, nowhere, "--serve prints its own "
			   "answer: with it --emit is serve, serve-json or "
			   "ranks, found `%s`", drv_text(d, OPT_EMIT));
		return false;
	}
	if (drv_wants(d, "ranks") && drv_given(d, OPT_WHY_NOT)) {
		diag_error(&d->ctx.diags, nowhere, "--why-not adds to the "
			   "answer, which is not what is written: use "
			   "--emit=serve");
		return false;
	}
	return true;
}

bool
drv_check_serving(struct driver *d)
{
	if (drv_given(d, OPT_SERVE) || drv_wants_serving(d)) {
		return check_options(d);
	}
	if (drv_given(d, OPT_WORKLOAD)) {
		diag_error(&d->ctx.diags, nowhere, "--workload is about "
			   "requests: it needs --serve");
		return false;
	}
	return true;
}

/*
 * The pins of --why-not, which hold beside those of --pin, or change them; to
 * be read before the model is prepared, whose plan goes then.
 */
static bool
read_other_pins(struct driver *d, const struct ir_module *m,
		struct serve_pins *out)
{
	struct ir_module *other;

	if (!drv_given(d, OPT_WHY_NOT)) {
		return true;
	}
	other = ir_copy(m, &d->ctx);
	return plan_pin_of(other, "--why-not", drv_text(d, OPT_WHY_NOT)) &&
	       read_pins(other, out);
}

/* The reason, what would fit, and whether it does with other keys. */
static void
report_misfit(struct driver *d, const struct serve_answer_in *in,
	      const struct serve_answer *x, const struct serve_other *other)
{
	diag_error(&d->ctx.diags, nowhere, "no plan that serves fits %s: %s",
		   in->target->name, x->misfit.why);
	diag_note(&d->ctx.diags, nowhere, "%s", x->misfit.change);
	if (other && other->answer.fits) {
		diag_note(&d->ctx.diags, nowhere, "%s of --why-not fits: %s",
			  other->keys, serve_split_text(
				  &other->answer.best.split, &d->ctx.perm));
	}
}

static void
print_answer(struct driver *d, const struct serve_answer_in *in,
	     const struct serve_answer *x, const struct serve_other *other)
{
	if (drv_wants(d, "serve-json")) {
		serve_print_json(in, x, other, &d->out);
		return;
	}
	serve_print(in, x, &d->out);
	if (other) {
		serve_print_other(x, other, &d->out);
	}
}

/* What a program has: all rows of a step on each rank along ep; and where no
 * pin says else, experts that `tp` splits, and one replica. */
static void
set_program(struct serve_split *split)
{
	split->is_shared = true;
	split->ep = split->ep ? split->ep : 1;
	split->replicas = split->replicas ? split->replicas : 1;
}

/* The same question with the keys of --why-not. */
static void
search_other(struct driver *d, struct serve_answer_in in,
	     const struct serve_pins *pins, struct serve_other *out)
{
	in.pins = *pins;
	out->keys = drv_text(d, OPT_WHY_NOT);
	serve_search(&in, &d->ctx.perm, &out->answer);
}

/* What is asked of which model and machine, and by --why-not. */
struct question {
	struct serve_answer_in in;	/* points to the rest */
	struct serve_pins other_pins;
	/* of which a program is written; NULL: none is */
	struct ir_module *unsplit;
	struct serve_asked asked;
	struct serve_model model;
	struct target target;
};

static bool
read_question(struct driver *d, struct ir_module *m, struct question *x)
{
	*x = (struct question){ .in = { .model = &x->model,
		.target = &x->target, .asked = &x->asked } };
	if (!ir_model(m)) {
		diag_error(&d->ctx.diags, nowhere, "--serve needs a model, "
			   "and %s holds rank programs", d->opts.input);
		return false;
	}
	plan_clear(m);	/* of a model: one for training */
	x->unsplit = drv_wants_folder(d) || drv_wants(d, "ranks")
		? ir_copy(m, &d->ctx) : NULL;
	if (!drv_read_target(d, &x->target) || !drv_set_plan(d, m) ||
	    !read_pins(m, &x->in.pins) ||
	    !read_other_pins(d, m, &x->other_pins)) {
		return false;
	}
	if (x->target.groups.n > 1) {
		diag_error(&d->ctx.diags, x->target.groups.at[1].span,
			   "replicas are on one kind of node, and this is a "
			   "second: give each kind a target of its own");
		return false;
	}
	if (!serve_open(m, d->pm.memo, true, &x->model) ||
	    !read_asked(d, m, &x->model, &x->target, &x->asked)) {
		return false;
	}
	if (x->unsplit) {
		set_program(&x->in.pins.split);
		set_program(&x->other_pins.split);
	}
	return true;
}

bool
drv_serve(struct driver *d, struct ir_module *m)
{
	struct serve_other other, *why_not = NULL;
	struct serve_answer x;
	struct question q;

	if (!read_question(d, m, &q)) {
		return false;
	}
	serve_search(&q.in, &d->ctx.perm, &x);
	if (drv_given(d, OPT_WHY_NOT)) {
		search_other(d, q.in, &q.other_pins, &other);
		why_not = &other;
	}
	if (!x.fits) {
		report_misfit(d, &q.in, &x, why_not);
		return false;
	}
	if (!drv_find_serve_host(d, m, &q.in, &x)) {
		return false;
	}
	if (drv_wants(d, "ranks")) {
		return drv_serve_ranks(d, q.unsplit, &q.in, &x);
	}
	if (q.unsplit && !drv_serve_code(d, q.unsplit, &q.in, &q.asked, &x)) {
		return false;
	}
	if (why_not && q.asked.workspace > 0) {
		search_other(d, q.in, &q.other_pins, &other);
	}
	print_answer(d, &q.in, &x, why_not);
	if (!q.unsplit) {
		drv_warn_of_program(d, m, &q.in, &x);
	}
	return true;
}

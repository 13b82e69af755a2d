/*
 * The answer about a plan: runs the passes, keeps the facts about
 * the model that are lost once it is cut into stages, and prices the step and,
 * by --tokens, --storage and --restart, the whole run.
 */
#include "frontend/tool/tool.h"

#include <math.h>
#include <string.h>

#include "passes/memory/memory.h"
#include "passes/pictures/pictures.h"

#define MOST_KERNELS 20	/* of --explain=cost */

static const struct span nowhere;

/* ---- the run that is priced ---- */

/*
 * A number that may end in K, M, B or T: `2e12`, `2T`, `300B`.  False if it is
 * not a number from `least` to `most`.
 */
static bool
read_number(const char *text, double least, double most, double *out)
{
	static const char units[] = "KMBT";
	size_t n = strlen(text);
	const char *u = n ? strchr(units, text[n - 1]) : NULL;

	if (!num_parse_double(text, u ? n - 1 : n, out)) {
		return false;
	}
	*out *= u ? pow(1000, (double)(u - units + 1)) : 1;
	return *out >= least && *out <= most;
}

bool
drv_read_number(struct driver *d, enum opt_id id, double least, double most,
		const char *legal, double *out)
{
	const struct opt_value *v = &d->opts.at[id];

	if (!v->given || read_number(v->text, least, most, out)) {
		return true;
	}
	diag_error(&d->ctx.diags, nowhere, "--%s takes %s, found `%s`",
		   opt_rows[id].name, legal, v->text);
	return false;
}

/* --price, or --own with what energy costs. */
static bool
read_money(struct driver *d, struct answer_asked *out)
{
	static const enum opt_id with_own[] = { OPT_ENERGY, OPT_PUE };
	bool ok;
	int i;

	ok = drv_read_number(d, OPT_PRICE, 1e-6, 1e6, "USD for an hour of one "
			     "device from 1e-6 to 1e6, such as 2.5",
			     &out->price_usd_h);
	ok &= drv_read_number(d, OPT_OWN, 0.01, 100, "years from 0.01 to 100, "
			      "such as 3", &out->owned_years);
	ok &= drv_read_number(d, OPT_ENERGY, 0, 1e3, "USD for a kWh from 0 to "
			      "1000, such as 0.1", &out->energy_usd_kwh);
	ok &= drv_read_number(d, OPT_PUE, 1, 10, "a factor from 1 to 10, such "
			      "as 1.2", &out->pue);
	for (i = 0; i < 2 && ok; i++) {
		if (drv_given(d, with_own[i]) && !drv_given(d, OPT_OWN)) {
			diag_error(&d->ctx.diags, nowhere, "--%s is about "
				   "devices that are bought: it needs --own, "
				   "such as --own=3",
				   opt_rows[with_own[i]].name);
			return false;
		}
	}
	if (ok && drv_given(d, OPT_OWN) && drv_given(d, OPT_PRICE)) {
		diag_error(&d->ctx.diags, nowhere, "--price is for devices "
			   "that are rented, and --own for those that are "
			   "bought: one of them is legal");
		return false;
	}
	return ok;
}

bool
drv_read_asked(struct driver *d, const struct ir_module *m,
	       int64_t step_tokens, struct answer_asked *out)
{
	const struct ir_setting *tokens = ir_setting(m, "train.tokens");
	const struct ir_setting *steps = ir_setting(m, "train.steps");
	double storage = ANSWER_STORAGE_GB_S;
	double restart = ANSWER_RESTART_MINUTES;
	bool ok;

	*out = (struct answer_asked){ .energy_usd_kwh = ANSWER_ENERGY_USD_KWH,
				      .pue = ANSWER_PUE };
	out->tokens = tokens ? tokens->num[0] :
		      steps ? steps->num[0] * (double)step_tokens : 0;
	ok = drv_read_number(d, OPT_TOKENS, 1, 1e18, "a number of tokens from "
			     "1 to 1e18, such as 2e12, 2T or 300B",
			     &out->tokens);
	ok &= drv_read_number(d, OPT_STORAGE, 1e-6, 1e6, "GB/s of one node "
			      "from 1e-6 to 1e6, such as 2.5", &storage);
	ok &= drv_read_number(d, OPT_RESTART, 0, 1e6, "minutes from 0 to 1e6, "
			      "such as 10", &restart);
	out->storage_bytes_us = storage * 1e3;
	out->restart_s = restart * 60;
	return ok && read_money(d, out);
}

/* ---- facts about the whole model ---- */

static bool
keep_facts(struct driver *d, struct ir_module *m,
	   const struct pass_sums *before)
{
	struct pass_sums after;

	if (!d->opts.at[OPT_TARGET].given) {
		diag_error(&d->ctx.diags, nowhere, "--emit=%s needs --target, "
			   "such as h100x8", d->opts.at[OPT_EMIT].text);
		return false;
	}
	if (!pass_sum(m, &after)) {
		return false;
	}
	d->facts = arena_alloc(&d->ctx.perm, sizeof *d->facts);
	answer_model(m, before, &after, answer_square(m), &d->facts->model);
	return true;
}

struct fact_keeper {
	struct driver *d;
	struct pass_sums before;
};

/* The model is whole until it is cut into stages. */
static bool
before_stages(void *user, struct ir_module *m)
{
	struct fact_keeper *x = user;

	return keep_facts(x->d, m, &x->before);
}

/* Whether the pass that makes_stages into stages is among those that run. */
static bool
makes_stages(const struct driver *d)
{
	const struct pass *stop = d->pm.options.stop;
	uint32_t i;

	for (i = 0; i < d->passes.at.n; i++) {
		const struct pass *p = d->passes.at.at[i];

		if (p->gives & PROP_STAGED) {
			return true;
		}
		if (stop && strcmp(stop->name, p->name) == 0) {
			return false;
		}
	}
	return false;
}

enum pass_result
drv_run_for_answer(struct driver *d, struct ir_module *m)
{
	struct fact_keeper x = { .d = d };
	enum pass_result r;

	if (!ir_model(m)) {
		diag_error(&d->ctx.diags, nowhere, "the answer is about a "
			   "model, and %s holds rank programs", d->opts.input);
		return PASS_BAD_INPUT;
	}
	if (!makes_stages(d)) {
		diag_error(&d->ctx.diags, nowhere, "the answer needs the pass "
			   "`stage`, which is not among those that run");
		return PASS_BAD_INPUT;
	}
	if (!pass_sum(m, &x.before)) {
		return PASS_BAD_INPUT;
	}
	d->facts = NULL;
	d->pm.watch = PROP_STAGED;
	d->pm.look = before_stages;
	d->pm.user = &x;
	r = pass_run(&d->pm, &d->passes, m);
	d->pm.watch = 0;
	return r;
}

/* ---- the answer ---- */

static void
keep_memory(struct driver *d, const struct ranks *r,
	    const struct target_devs *devs)
{
	struct memory mem;
	struct buf text;
	const char *why;

	if (drv_explains(d, "memory") &&
	    memory_plan(r, NULL, 0, &d->ctx.perm, &mem, &why)) {
		memory_set_devices(&mem, r, devs, &d->ctx.perm);
		buf_init(&text, &d->ctx.perm);
		memory_print(r, &mem, &text);
		if (target_is_cuda(&devs->all->device)) {
			buf_putc(&text, '\n');
			memory_print_graphs(r, &mem, devs, &text);
		}
		d->facts->arenas = buf_text(&text);
	}
}

static void
keep_kernels(struct driver *d, const struct ranks *r,
	     const struct target_devs *devs, const struct price *p)
{
	struct answer_kernels all;
	struct buf text;

	if (drv_explains(d, "cost")) {
		buf_init(&text, &d->ctx.perm);
		answer_find_kernels(r, devs, p, &d->ctx.perm, &all);
		answer_print_kernels(&all, p->step_us, MOST_KERNELS, &text);
		d->facts->kernels = buf_text(&text);
	}
}

/* Of the plan that is asked for, not of one of --why-not. */
static void
keep_trace(struct driver *d, const struct ranks *r,
	   const struct target_devs *devs, const struct price *p)
{
	if (drv_given(d, OPT_TRACE) && !d->trace.n) {
		buf_init(&d->trace, &d->ctx.perm);
		answer_trace(r, devs, p, &d->ctx.perm, &d->trace);
	}
}

/* What --report asks for, of the plan that keep_trace keeps it of. */
static void
keep_report(struct driver *d, const struct answer_input *in,
	    const struct answer *x)
{
	struct picture_input p = { x, in->on, in->devs, in->ranks, in->price,
				   NULL };
	struct memory mem;
	const char *why;

	if (drv_given(d, OPT_REPORT) && !d->report.n &&
	    memory_plan(in->ranks, NULL, 0, &d->ctx.perm, &mem, &why)) {
		memory_set_devices(&mem, in->ranks, in->devs, &d->ctx.perm);
		p.memory = &mem;
		buf_init(&d->report, &d->ctx.perm);
		picture_report(&p, &d->report);
	}
}

bool
drv_answer(struct driver *d, struct ir_module *m, struct answer *out)
{
	struct arena *a = &d->ctx.perm;
	struct target *t = arena_alloc(a, sizeof *t);
	struct plan *plan = arena_alloc(a, sizeof *plan);
	struct answer_input in = { .target = d->opts.at[OPT_TARGET].text,
				   .priced_cpu = d->priced_cpu, .plan = plan };
	struct ranks *r = arena_alloc(a, sizeof *r);
	struct price *p = arena_alloc(a, sizeof *p);
	struct target_devs devs;
	struct buf text;
	const char *why = "?";

	*out = (struct answer){ .model = d->facts->model };
	if (!drv_read_asked(d, m, out->model.tokens, &out->asked) ||
	    !drv_price_ranks(d, m, t, r, p) || !plan_read(m, plan)) {
		return false;
	}
	if (d->pm.search && d->pm.search->report->found.n) {
		out->search = d->pm.search->report;
	}
	price_devs(r, t, a, &devs);
	in.on = t;
	in.devs = &devs;
	in.ranks = r;
	in.price = p;
	/* a target by name is in a file of llmc, not of the user */
	in.file = t->groups.at->span.hi
		? in.target
		: arena_printf(a, "targets/%s.target",
			       t->groups.at->device.name);
	if (d->wants_code && !drv_code_begin(d, r, t, &devs, p, plan)) {
		return false;
	}
	price_devs(r, t, a, &devs);	/* code has raised what t reserves */
	buf_init(&text, a);
	plan_print(m, plan, &text);
	in.plan_text = buf_text(&text);
	if (!answer_arena(r, t, &devs, a, &out->memory, &why)) {
		diag_error(&d->ctx.diags, nowhere,
			   "the memory of these rank programs cannot be "
			   "planned: %s", why);
		return false;
	}
	keep_memory(d, r, &devs);
	keep_kernels(d, r, &devs, p);
	keep_trace(d, r, &devs, p);
	answer_make(&in, a, out);
	keep_report(d, &in, out);
	return true;
}

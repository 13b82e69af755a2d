/*
 * llmc eval without a plan: runs the model on the interpreter and prints what
 * it returns, the losses of --steps, and the values that --checksum names.
 * Memory is counted first: a run that cannot end is refused before its first
 * number is computed.
 */
#include "frontend/eval/eval.h"

#include <string.h>

#include "ir/machine.h"

#define MAX_STEPS 1000000
#define MAX_BYTES ((int64_t)16 << 30)	/* without --max-bytes */

/* One name of --checksum. */
struct wanted {
	const char *name;
	bool found;
	struct diag_near near;
};

struct eval {
	struct driver *d;
	struct ir_module *m;
	VEC(struct wanted) wanted;
	bool all;
	struct buf sums;
};

static bool
want_checksums(struct eval *e)
{
	const struct opt_value *v = &e->d->opts.at[OPT_CHECKSUM];
	struct arena *a = &e->d->ctx.perm;
	uint32_t i;
	char *word;

	for (i = 0; i < v->list.n; i++) {
		const char *text = v->list.at[i];

		while (pass_words(a, &text, &word)) {
			struct wanted w = { word, false, { 0 } };

			diag_near_init(&w.near, word);
			VEC_PUSH(a, &e->wanted, w);
			e->all |= strcmp(word, "all") == 0;
		}
	}
	return e->wanted.n > 0;
}

static void
add_shape(const struct eval *e, const struct ir_type *t, struct buf *out)
{
	int i;

	buf_puts(out, " shape [");
	for (i = 0; i < t->ndims; i++) {
		buf_printf(out, "%s%lld", i ? ", " : "",
			   (long long)ir_dim_size(e->m, t->dims[i]));
	}
	buf_printf(out, "] %s\n", ir_dtypes[t->dtype].name);
}

/* Both `q` and `block/q` name repeat[0]/block/q. */
static bool
is_end_of(const char *name, const char *path)
{
	size_t n = strlen(name), all = strlen(path);

	return n <= all && strcmp(path + all - n, name) == 0 &&
	       (n == all || path[all - n - 1] == '/');
}

static void
print_checksum(void *user, const char *path, const struct ir_type *type,
	       const double *data, int64_t elems)
{
	struct eval *e = user;
	const char *last = strrchr(path, '/');
	bool print = e->all;
	uint32_t i;

	for (i = 0; i < e->wanted.n; i++) {
		struct wanted *w = &e->wanted.at[i];

		if (is_end_of(w->name, path)) {
			w->found = print = true;
		} else if (!w->found) {
			const char *name = last ? last + 1 : path;

			diag_near_try(&w->near,
				      arena_strndup(&e->d->ctx.perm, name,
						    strlen(name)));
		}
	}
	if (print) {
		buf_printf(&e->sums, "checksum %s 0x%016llx", path,
			   (unsigned long long)ir_checksum(data, elems));
		add_shape(e, type, &e->sums);
	}
}

static void
check_found(struct eval *e)
{
	struct ir_ctx *c = &e->d->ctx;
	uint32_t i;

	for (i = 0; i < e->wanted.n; i++) {
		struct wanted *w = &e->wanted.at[i];

		if (!w->found && strcmp(w->name, "all") != 0) {
			diag_error(&c->diags, (struct span){ 0, 0 },
				   "no value is called `%s`%s", w->name,
				   diag_near_text(&w->near, &c->perm));
		}
	}
}

static void
add_result(struct eval *e, uint32_t k, const struct ir_eval_result *r)
{
	const struct ir_module *m = e->m;
	value_id v = m->regions.at[m->funcs.at[ir_model(m)].body]
		     .results.at[k];
	const char *name = ir_text(m->ctx, m->values.at[v].hint);
	struct buf *out = &e->d->out;

	buf_puts(out, *name ? name : "result");
	if (!*name && k > 0) {
		buf_printf(out, "[%u]", k);
	}
	if (r->elems == 1) {
		buf_putc(out, ' ');
		buf_double(out, r->data[0]);
		buf_putc(out, '\n');
	} else {
		buf_printf(out, " 0x%016llx",
			   (unsigned long long)ir_checksum(r->data,
							   r->elems));
		add_shape(e, &r->type, out);
	}
}

static bool
evaluate(struct eval *e, struct ir_eval_options *opt)
{
	struct ir_eval_result results[IR_MAX_ARGS];
	uint32_t n, i;

	if (!ir_eval(e->m, opt, results, IR_MAX_ARGS, &n)) {
		return false;
	}
	check_found(e);
	for (i = 0; i < n; i++) {
		add_result(e, i, &results[i]);
	}
	buf_add(&e->d->out, buf_text(&e->sums), e->sums.n);
	return true;
}

/* ---- what a run may be ---- */

int64_t
eval_max_bytes(const struct driver *d)
{
	const struct opt_value *v = drv_given(d, OPT_MAX_BYTES);

	return v ? v->num : MAX_BYTES;
}

bool
eval_steps_legal(struct driver *d)
{
	const struct opt_value *v = drv_given(d, OPT_STEPS);

	if (!v || (v->num >= 1 && v->num <= MAX_STEPS)) {
		return true;
	}
	diag_error(&d->ctx.diags, (struct span){ 0, 0 }, "--steps is %lld, "
		   "and 1 to %d is legal", (long long)v->num, MAX_STEPS);
	return false;
}

uint64_t
eval_seed(const struct driver *d, const struct ir_module *m)
{
	const struct opt_value *seed = drv_given(d, OPT_SEED);

	return seed ? (uint64_t)seed->num
		: (uint64_t)ir_setting_num(m, "train.seed", 0);
}

/* Both saturate: INT64_MAX stands for anything larger. */
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
 * What lasts from step to step: each stored tensor, its next value and its
 * gradient; for a comparison also the stored tensors and gradients of every
 * step that is compared.
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
	buf_puts(&b, " bytes of weights, gradients and states of the "
		 "optimizer");
	if (compared_steps > 0) {
		buf_printf(&b, ", with those of %lld steps to compare with",
			   (long long)compared_steps);
	}
	buf_puts(&b, ", and the limit is ");
	buf_grouped(&b, opt->max_bytes);
	diag_error(&c->diags, (struct span){ 0, 0 }, "training this needs %s: "
		   "--max-bytes sets another", buf_text(&b));
	return false;
}

bool
eval_fits(struct ir_module *m, struct ir_eval_options *opt, bool trains,
	  int64_t compared_steps)
{
	func_id update = trains ? eval_update(m) : 0;
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

/* ---- the run ---- */

static bool
can_train(struct driver *d, const struct ir_module *m)
{
	const struct opt_value *at = d->opts.at;
	struct diags *diags = &d->ctx.diags;
	struct span nowhere = { 0, 0 };

	if (!eval_steps_legal(d)) {
		return false;
	}
	if (at[OPT_CHECKSUM].given) {
		diag_error(diags, nowhere, "--checksum applies to one "
			   "evaluation, and not to --steps");
	} else if (!eval_update(m)) {
		diag_error(diags, nowhere, "this module has no layer "
			   "`update`: run --passes=train");
	} else {
		return true;
	}
	return false;
}

/* The losses of `steps` optimizer steps on one batch. */
static bool
train(struct eval *e, struct ir_eval_options *opt, int64_t steps)
{
	struct eval_store *store = eval_store_open(e->m, opt->weights);
	struct ir_eval_result results[IR_MAX_ARGS];
	int64_t step;
	uint32_t n;

	opt->weights = eval_store_source(store);
	for (step = 1; step <= steps; step++) {
		eval_store_begin(store, step);
		if (!ir_eval(e->m, opt, results, IR_MAX_ARGS, &n)) {
			return false;
		}
		buf_printf(&e->d->out, "step %lld ", (long long)step);
		add_result(e, 0, &results[0]);
		if (!eval_store_end(store, opt)) {
			return false;
		}
	}
	return true;
}

bool
eval_model(struct driver *d, struct ir_module *m)
{
	const struct opt_value *at = d->opts.at;
	struct eval e = { .d = d, .m = m };
	struct ir_eval_options opt = { .max_bytes = eval_max_bytes(d) };
	struct eval_weights *w = NULL;
	bool ok;

	if (at[OPT_STEPS].given && !can_train(d, m)) {
		return false;
	}
	if (!ir_model(m)) {
		diag_error(&d->ctx.diags, (struct span){ 0, 0 },
			   "there is no model to evaluate");
		return false;
	}
	buf_init(&e.sums, &d->ctx.perm);
	opt.seed = eval_seed(d, m);
	opt.user = &e;
	opt.seen = want_checksums(&e) ? print_checksum : NULL;
	if (!eval_fits(m, &opt, at[OPT_STEPS].given, 0)) {
		return false;
	}
	if (at[OPT_WEIGHTS].given) {
		w = eval_weights_open(m, at[OPT_WEIGHTS].text);
		if (!w) {
			return false;
		}
		opt.weights = eval_weights_source(w);
	}
	if (at[OPT_STEPS].given) {
		ok = train(&e, &opt, at[OPT_STEPS].num);
	} else {
		ok = evaluate(&e, &opt);
	}
	ok = ok && (!w || eval_weights_check(w, at[OPT_ALLOW_UNUSED].given));
	eval_weights_close(w);
	return ok;
}

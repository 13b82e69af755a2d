/*
 * Counts on a model's IR: parameters, flops, and the bytes of weights,
 * gradients, optimizer state and of the cache of decoding per token; for
 * --emit=summary and the answer.  One walk over calls and repeats: the body of
 * a repeat is walked once and counts as often as it has iterations.
 *
 * Backward flops: each contraction needs one of the same cost per float
 * operand (the gradient of either side), which is twice the forward pass;
 * attention, maps and reductions are counted as twice theirs, too.
 * Recomputation is not counted, since it depends on the plan.
 *
 * Optimizer bytes per parameter: adamw keeps two moments, lion one, sgd one if
 * it has momentum, muon one of a matrix and two of what adamw updates,
 * adafactor one of rows and one of columns; each f32 (f64 for f64 weights), and
 * all keep an f32 master copy of weights that have fewer bits.
 */
#include "passes/weight_use.h"

#include <string.h>

struct summary_repeat {
	sym_t var;
	int64_t start, count;
};

struct summing {
	struct ir_module *m;
	struct arena *a;
	struct pass_sums *out;
	struct pass_use *uses;	/* by value */
	struct ir_type tokens;
	double step_tokens;	/* 1 if there are none */
	struct intern seen;	/* full names: tied weights count once */
	VEC(struct summary_repeat) repeats;	/* around the current node */
	int64_t times;		/* the product of their iterations */
	uint32_t depth;
	bool overflow;
};

static void
add(struct summing *w, int64_t *to, int64_t a, int64_t b)
{
	int64_t v;

	if (!num_mul(a, b, &v) || !num_add(*to, v, to)) {
		w->overflow = true;
	}
}

static int64_t
product(struct summing *w, int64_t a, int64_t b)
{
	int64_t v = 0;

	if (!num_mul(a, b, &v)) {
		w->overflow = true;
	}
	return v;
}

static int64_t
elems(struct summing *w, const struct ir_type *t)
{
	int64_t n = 0;

	if (!ir_type_elems(w->m, t, &n)) {
		w->overflow = true;
	}
	return n;
}

/* ---- weights ---- */

/*
 * How many tensors the name stands for: one for each iteration of the repeats
 * whose variable it contains.  0: they were counted before.
 */
static int64_t
new_tensors(struct summing *w, const char *name)
{
	const struct ir_ctx *c = w->m->ctx;
	uint32_t known = w->seen.text.n, i;
	int64_t n = 1;

	for (i = w->repeats.n; i-- > 0;) {
		const struct summary_repeat *t = &w->repeats.at[i];
		const char *var = ir_text(c, t->var), *range;

		if (t->var && pass_mentions(name, var)) {
			range = arena_printf(w->a, "%lld+%lld",
					     (long long)t->start,
					     (long long)t->count);
			name = pass_rename(w->a, name, var, range);
			n = product(w, n, t->count);
		}
	}
	intern_str(&w->seen, name);
	/* a tensor without a name is not shared */
	return !*name || w->seen.text.n > known ? n : 0;
}

/* What Adafactor keeps of a weight of n elements: of rows, and of columns. */
static int64_t
factored(struct summing *w, const struct ir_type *t, int64_t n)
{
	uint8_t d = t->ndims;

	return d < 2 ? n : n / ir_dim_size(w->m, t->dims[d - 1]) +
		n / ir_dim_size(w->m, t->dims[d - 2]);
}

static void
add_optimizer(struct summing *w, const struct ir_type *t,
	      const struct pass_use *use, int64_t n)
{
	struct pass_sums *s = w->out;
	int bits = ir_dtypes[t->dtype].bits;
	struct pass_matrix matrix;
	const struct ir_setting *momentum;
	int64_t moments = 0, state_bits = bits > 32 ? 64 : 32;

	if (!s->optimizer) {
		return;
	}
	momentum = ir_setting(w->m, "train.optimizer.momentum");
	s->optimizer_known = true;
	if (strcmp(s->optimizer, "adamw") == 0) {
		moments = 2;
	} else if (strcmp(s->optimizer, "lion") == 0) {
		moments = 1;
	} else if (strcmp(s->optimizer, "muon") == 0) {
		moments = pass_is_matrix(w->m, use, t, &matrix) ? 1 : 2;
	} else if (strcmp(s->optimizer, "adafactor") == 0) {
		add(w, &s->optimizer_bytes, factored(w, t, n),
		    state_bits / 8);
	} else if (strcmp(s->optimizer, "sgd") == 0) {
		moments = momentum && momentum->num[0] != 0;
	} else {
		s->optimizer_known = false;
		return;
	}
	add(w, &s->optimizer_bytes, n,
	    (moments * state_bits + (bits < 32 ? 32 : 0)) / 8);
}

static void
add_weight(struct summing *w, const struct ir_node *n, const char *name)
{
	const struct ir_type *t = ir_type(w->m, n->result);
	const struct pass_use *use = &w->uses[n->result];
	int64_t tensors = new_tensors(w, name), count, active;
	int bits = ir_dtypes[t->dtype].bits;
	struct pass_sums *s = w->out;

	count = product(w, elems(w, t), tensors);
	if (!ir_is(n->op, IRF_PARAM)) {
		add(w, &s->state, count, 1);
		add(w, &s->state_bytes, count, bits / 8);
		return;
	}
	active = count;
	if (use->of > 0 && use->picked < use->of) {
		active = product(w, count / use->of, use->picked);
	}
	add(w, &s->total, count, 1);
	add(w, &s->active, active, 1);
	add(w, &s->group[pass_group_of(use)], count, 1);
	add(w, &s->weight_bytes, count, bits / 8);
	if (!pass_is_trained(w->m, n)) {
		add(w, &s->frozen, count, 1);
		return;
	}
	add(w, &s->gradient_bytes, count, bits / 8);
	if (!ir_attr(w->m, n, IR_ATTR_BALANCE)) {	/* else no moments */
		add_optimizer(w, t, use, count);
	}
}

/* ---- flops and caches ---- */

static void
add_flops(struct summing *w, const struct ir_node *n)
{
	struct pass_sums *s = w->out;
	double flops, back = 0;
	uint32_t i;

	flops = ir_flops(w->m, n) * (double)w->times / w->step_tokens;
	if (!ir_is(n->op, IRF_CONTRACTS)) {
		s->other_flops += flops;
	} else if (ir_is(n->op, IRF_PAIRS)) {
		s->attention_flops += flops;
	} else {
		s->contraction_flops += flops;
		for (i = 0; i < n->nargs; i++) {
			value_id v = ir_args(w->m, n)[i];

			back += ir_dtypes[ir_type(w->m, v)->dtype].is_float;
		}
	}
	if (!s->training) {	/* else backward is walked itself */
		s->backward_flops += flops * (back > 0 ? back : 2);
	}
}

/* A value that forward saves for backward. */
static void
add_saved(struct summing *w, const struct ir_node *n)
{
	const struct ir_type *t = ir_type(w->m, ir_args(w->m, n)[0]);

	add(w, &w->out->saved_bytes, product(w, elems(w, t), w->times),
	    ir_dtypes[t->dtype].bits / 8);
}

/* Elements of a value that belong to one token. */
static int64_t
per_token(struct summing *w, const struct ir_type *t, dim_id also)
{
	int64_t n = 1;
	uint8_t i;

	for (i = 0; i < t->ndims; i++) {
		if (t->dims[i] != also &&
		    !ir_type_has(&w->tokens, t->dims[i])) {
			n = product(w, n, ir_dim_size(w->m, t->dims[i]));
		}
	}
	return n;
}

/* As computed, unless the serve block says otherwise. */
static enum ir_dtype
cache_dtype(const struct summing *w, const struct ir_type *t)
{
	const struct ir_setting *s = ir_setting(w->m, "serve.cache");
	enum ir_dtype dtype;

	return s && s->kind != SET_NUM &&
	       ir_find_dtype(ir_text(w->m->ctx, s->text), &dtype)
		? dtype : (enum ir_dtype)t->dtype;
}

static void
add_cache(struct summing *w, int64_t window, const struct ir_type *t,
	  dim_id keys)
{
	struct pass_sums *s = w->out;
	int64_t bits = product(w, per_token(w, t, keys),
			       ir_dtypes[cache_dtype(w, t)].bits);
	uint32_t i;

	for (i = 0; i < s->ncaches && s->cache[i].window != window; i++) {
		continue;
	}
	if (i == PASS_MAX_CACHES) {
		i--;		/* further windows count for the last one */
	} else if (i == s->ncaches) {
		s->cache[s->ncaches++].window = window;
	}
	add(w, &s->cache[i].bytes, bits / 8, w->times);
}

static void
add_caches(struct summing *w, const struct ir_node *n)
{
	const value_id *args = ir_args(w->m, n);
	struct ir_rule r;
	dim_id keys;

	if (!ir_is(n->op, IRF_CONTRACTS)) {
		add_cache(w, 0, ir_type(w->m, args[0]), 0);
	} else if (!ir_attr(w->m, n, IR_ATTR_UNCACHED)) {
		int64_t window = ir_attr_int(w->m, n, IR_ATTR_WINDOW, 0);

		ir_bind(w->m, n, &r);
		keys = ir_rule_factor(&r, "t")->dims[0];
		add_cache(w, window, ir_type(w->m, args[1]), keys);
		add_cache(w, window, ir_type(w->m, args[2]), keys);
	}
}

/* ---- the walk ---- */

static bool walk_region(struct summing *w, region_id r, const char *prefix);

static bool
walk_repeat(struct summing *w, const struct ir_node *n, const char *prefix)
{
	const struct ir_attr *var = ir_attr(w->m, n, IR_ATTR_VAR);
	struct summary_repeat t = { var ? var->text : 0,
			  ir_attr_int(w->m, n, IR_ATTR_START, 0),
			  ir_attr_int(w->m, n, IR_ATTR_COUNT, 1) };
	int64_t times = w->times;
	bool ok;

	w->times = product(w, times, t.count);
	VEC_PUSH(w->a, &w->repeats, t);
	ok = walk_region(w, n->region, prefix);
	w->repeats.n--;
	w->times = times;
	return ok;
}

static bool
walk_call(struct summing *w, const struct ir_node *n, const char *prefix)
{
	bool ok;

	if (w->depth == IR_MAX_DEPTH) {
		diag_error(&w->m->ctx->diags, n->span,
			   "layers call each other more than %d deep",
			   IR_MAX_DEPTH);
		return false;
	}
	w->depth++;
	ok = walk_region(w, w->m->funcs.at[n->callee].body, prefix);
	w->depth--;
	return ok;
}

static bool
walk_node(struct summing *w, const struct ir_node *n, const char *prefix)
{
	const struct ir_attr *a = ir_attr(w->m, n, IR_ATTR_NAME);
	const char *name = prefix;

	if (a) {
		name = pass_join(w->a, prefix,
				 ir_text(w->m->ctx, a->text));
	}
	if (ir_is(n->op, IRF_REGION)) {
		return walk_repeat(w, n, name);
	}
	if (ir_is(n->op, IRF_CALLS)) {
		return walk_call(w, n, name);
	}
	if (ir_is(n->op, IRF_SINK) && ir_is(n->op, IRF_STASH)) {
		add_saved(w, n);
	} else if (pass_names_tensors(n) && ir_is(n->op, IRF_STORED)) {
		add_weight(w, n, name);
	} else {
		add_flops(w, n);
	}
	if (ir_is(n->op, IRF_CACHED)) {
		add_caches(w, n);
	}
	return true;
}

static bool
walk_region(struct summing *w, region_id r, const char *prefix)
{
	const struct ir_region *region = &w->m->regions.at[r];
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		if (!walk_node(w, ir_node(w->m, region->nodes.at[i]),
			       prefix)) {
			return false;
		}
	}
	return true;
}

/* The input named tokens, else the first of indices. */
static void
find_tokens(struct summing *w, region_id body)
{
	const struct ir_region *r = &w->m->regions.at[body];
	const struct ir_type *best = NULL;
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(w->m, r->nodes.at[i]);
		const struct ir_attr *name = ir_attr(w->m, n, IR_ATTR_NAME);
		const struct ir_type *t = ir_type(w->m, n->result);

		if (!ir_is(n->op, IRF_UNIQUE) || !name ||
		    ir_dtypes[t->dtype].is_float) {
			continue;
		}
		if (strcmp(ir_text(w->m->ctx, name->text), "tokens") == 0) {
			best = t;
			break;
		}
		best = best ? best : t;
	}
	w->step_tokens = 1;
	if (best) {
		w->tokens = *best;
		w->out->tokens = elems(w, best);
		w->step_tokens = (double)w->out->tokens;
	}
}

static bool
check(const struct ir_module *m, func_id model)
{
	struct diags *d = &m->ctx->diags;
	struct span nowhere = { 0, 0 };

	if (!model) {
		diag_error(d, nowhere, "there is no model to sum up");
		return false;
	}
	return pass_flat_fits(m, model);
}

bool
pass_sum(struct ir_module *m, struct pass_sums *out)
{
	struct summing w = {
		.m = m, .a = &m->ctx->tmp, .out = out, .times = 1
	};
	const struct ir_setting *optimizer;
	func_id model = ir_model(m);

	memset(out, 0, sizeof *out);
	if (!check(m, model)) {
		return false;
	}
	optimizer = ir_setting(m, "train.optimizer");
	if (optimizer && optimizer->kind != SET_NUM) {
		out->optimizer = ir_text(m->ctx, optimizer->text);
	}
	out->training = (pass_props(m) & PROP_BACKWARD) != 0;
	intern_init(&w.seen, w.a);
	find_tokens(&w, m->funcs.at[model].body);
	w.uses = pass_uses(m, &w.tokens);
	if (!walk_region(&w, m->funcs.at[model].body, "")) {
		return false;
	}
	if (w.overflow) {
		diag_error(&m->ctx->diags, m->funcs.at[model].span,
			   "the parameters or bytes of this model do not fit "
			   "63 bits");
		return false;
	}
	return true;
}

/*
 * optimize: adds the layer `update`, one optimizer step from the gradients that
 * a training step accumulated.
 *
 * It needs the flat backward program and `set train.optimizer`.  The layer has
 * no operands and no results and runs once after the last microbatch: it clips
 * gradients, and for each weight applies the optimizer's rule and stores the
 * weight and its optimizer state.  The learning rate, the largest norm and the
 * decay of each group of weights are inputs (ir/train/step_numbers.h), so that
 * a run can change them.  It has
 * the model's repeats, so its size does not grow with the number of layers.
 * It runs after autodiff, which decides which weights have a gradient.
 *
 * Clipping visits all weights twice.  The first visit accumulates the squares
 * of each gradient in one scalar and saves the gradient; then the scalar is
 * read, and the second visit reads the saved gradients.  No value passes from
 * one weight to another, so the layer can be cut anywhere and its parts run on
 * different ranks, which then all-reduce one number.  A gradient that is a
 * partial sum is reduced only once, since it is read only once.
 *
 * The state of a weight W is W.exp_avg and W.exp_avg_sq (AdamW), W.momentum
 * (SGD, Muon's matrices), W.exp_avg (Lion) or W.exp_avg_sq_row and _col
 * (Adafactor), and W.master in f32 if W is narrower: the bytes that the summary
 * counts.  optimize_rules.c has the rules.
 */
#include "passes/optimize.h"
#include "ir/train/step_numbers.h"
#include "passes/derive.h"

#include <math.h>
#include <string.h>

/* The name of the squared norm, accumulated like a gradient. */
static sym_t
squared(struct optimizer *o)
{
	return intern_str(&o->m->ctx->syms, "gradient_norm.squared");
}

/* ---- one weight ---- */

static struct opt_weight
weight_of(struct optimizer *o, node_id id)
{
	const struct ir_node *n = ir_node(o->m, id);
	const struct ir_attr *init = ir_attr(o->m, n, IR_ATTR_INIT);
	const struct pass_use *use = &o->uses[n->result];
	struct opt_weight w = { .type = *ir_type(o->m, n->result) };

	w.name = ir_attr(o->m, n, IR_ATTR_NAME)->text;
	if (pass_group_of(use) == GROUP_EMBEDDING) {
		w.group = OPT_EMBEDDINGS;
	} else if (init && strcmp(ir_text(o->m->ctx, init->text),
				  "normal") != 0) {
		w.group = OPT_VECTORS;
	}
	w.is_matrix = pass_is_matrix(o->m, use, &w.type, &w.matrix);
	w.wide = w.type;
	w.wide.dtype = IR_F32;
	return w;
}

/* The attribute `balance` of a weight, or 0. */
static double
balance_of(const struct optimizer *o, node_id id)
{
	return ir_attr_num(o->m, ir_node(o->m, id), IR_ATTR_BALANCE, 0);
}

/*
 * A bias that only chooses experts: its gradient is how many tokens each had,
 * and it grows by a fixed step where these are fewer than the mean, and falls
 * where they are more (Wang et al. 2024).  Neither the learning rate nor the
 * norm of gradients has to do with it.
 */
static void
update_balance(struct optimizer *o, node_id id)
{
	struct opt_weight w = weight_of(o, id);
	value_id load = opt_source(o, IR_GRADIENT, w.name, &w.type, NULL);
	value_id mean = opt_over(o, IR_MEAN, load, NULL, 0);
	value_id step = opt_sign(o, opt_op2(o, IR_SUB, mean, load));

	step = opt_times(o, step, balance_of(o, id));
	step = opt_op2(o, IR_ADD, derive_copy(o->m, o->r, id, NULL), step);
	opt_sink(o, IR_STORE, w.name, step);
	pass_count(o->p, "weights updated", 1);
}

static void
update_weight(struct optimizer *o, node_id id)
{
	struct opt_weight w = weight_of(o, id);
	bool narrow = w.type.dtype != IR_F32 && w.type.dtype != IR_F64;
	sym_t master = opt_named(o, w.name, ".master");
	value_id g, step, old;

	if (balance_of(o, id) > 0) {
		update_balance(o, id);
		return;
	}
	old = derive_cast(o->m, o->r, derive_copy(o->m, o->r, id, NULL), IR_F32,
			  o->span);
	if (narrow) {	/* in the first step master = weight */
		old = opt_op2(o, IR_MUL, old, o->first);
		old = opt_op2(o, IR_ADD,
			      opt_source(o, IR_STATE, master, &w.wide, "zeros"),
			      old);
	}
	g = opt_op2(o, IR_MUL, opt_gradient(o, &w), o->scale);
	step = o->rule->step(o, &w, g);
	step = opt_op2(o, IR_ADD, step,
		       opt_op2(o, IR_MUL, old, o->decay[w.group]));
	step = opt_op2(o, IR_SUB, old, opt_op2(o, IR_MUL, step, o->rate));
	if (narrow) {
		opt_sink(o, IR_STORE, master, step);
	}
	opt_sink(o, IR_STORE, w.name,
		 derive_cast(o->m, o->r, step, w.type.dtype, o->span));
	pass_count(o->p, "weights updated", 1);
}

static void
add_square(struct optimizer *o, node_id id)
{
	struct opt_weight w = weight_of(o, id);
	value_id g;

	if (balance_of(o, id) > 0) {
		return;
	}
	g = opt_source(o, IR_GRADIENT, w.name, &w.type, NULL);
	opt_sink(o, IR_SAVE, opt_named(o, w.name, ".gradient"), g);
	g = derive_cast(o->m, o->r, g, IR_F32, o->span);
	g = opt_over(o, IR_SUM, opt_op2(o, IR_MUL, g, g), NULL, 0);
	opt_sink(o, IR_ACCUMULATE, squared(o), g);
}

/* ---- all weights, in copies of their repeats ---- */

static struct opt_tensors
tensors_of(const struct optimizer *o, node_id id, region_id region)
{
	const struct ir_module *m = o->m;
	struct opt_tensors t = {
		.name = ir_attr(m, ir_node(m, id), IR_ATTR_NAME)->text
	};
	node_id owner = m->regions.at[region].owner;
	const struct ir_node *n = ir_node(m, owner);
	const struct ir_attr *var = owner ? ir_attr(m, n, IR_ATTR_VAR) : NULL;

	if (var && pass_mentions(ir_text(m->ctx, t.name),
				 ir_text(m->ctx, var->text))) {
		t.start = ir_attr_int(m, n, IR_ATTR_START, 0);
		t.count = ir_attr_int(m, n, IR_ATTR_COUNT, 1);
	}
	return t;
}

/* Whether this phase has not visited the weight: backward reads it again. */
static bool
is_new(struct optimizer *o, node_id id, region_id region)
{
	struct opt_tensors t;
	uint32_t i;

	if (!pass_is_trained(o->m, ir_node(o->m, id))) {
		return false;
	}
	t = tensors_of(o, id, region);
	for (i = 0; i < o->done.n; i++) {
		const struct opt_tensors *d = &o->done.at[i];

		if (d->name == t.name && d->start == t.start &&
		    d->count == t.count) {
			return false;
		}
	}
	return true;
}

static bool
has_new(struct optimizer *o, region_id id)
{
	uint32_t i;

	for (i = 0; i < o->m->regions.at[id].nodes.n; i++) {
		node_id k = o->m->regions.at[id].nodes.at[i];

		if (is_new(o, k, id) ||
		    (ir_node(o->m, k)->region &&
		     has_new(o, ir_node(o->m, k)->region))) {
			return true;
		}
	}
	return false;
}

static void visit(struct optimizer *o, region_id from);

/* Appends a copy of the model's repeat that carries nothing. */
static void
visit_repeat(struct optimizer *o, node_id id)
{
	struct ir_node like = *ir_node(o->m, id);
	region_id here = o->r;
	struct ir_new n;
	uint32_t i;

	ir_new_init(&n, IR_REPEAT, like.span);
	n.region = o->r = ir_region_add(o->m, 0);
	for (i = 0; i < like.nattrs; i++) {
		struct ir_attr a = o->m->attrs.at[like.attrs + i];

		*ir_new_attr(&n, a.key) = a;
	}
	visit(o, like.region);
	o->r = here;
	derive_sink(o->m, here, &n);
}

/* Visits each weight once. */
static void
visit(struct optimizer *o, region_id from)
{
	uint32_t i;

	for (i = 0; i < o->m->regions.at[from].nodes.n; i++) {
		node_id id = o->m->regions.at[from].nodes.at[i];
		region_id inner = ir_node(o->m, id)->region;

		if (inner && has_new(o, inner)) {
			visit_repeat(o, id);
		} else if (is_new(o, id, from)) {
			VEC_PUSH(&o->m->ctx->tmp, &o->done,
				 tensors_of(o, id, from));
			o->each(o, id);
		}
	}
}

static void
visit_all(struct optimizer *o, void (*each)(struct optimizer *, node_id))
{
	struct ir_module *m = o->m;

	o->each = each;
	o->done.n = 0;
	visit(o, m->funcs.at[ir_model(m)].body);
}

/* ---- numbers of the step ---- */

/* A number of this step that the run gives. */
static value_id
given(struct optimizer *o, enum ir_number n)
{
	struct ir_type f32 = { .dtype = IR_F32 };

	return opt_source(o, IR_INPUT,
			  intern_str(&o->m->ctx->syms, ir_number_names[n]),
			  &f32, NULL);
}

/* A small number is added to the norm, as in PyTorch's clipping. */
static void
clip(struct optimizer *o)
{
	struct ir_type f32 = { .dtype = IR_F32 };
	value_id norm;

	o->scale = opt_number(o, 1);
	if (o->clips) {
		norm = opt_op1(
			o, IR_SQRT,
			opt_source(o, IR_GRADIENT, squared(o), &f32, NULL));
		norm = opt_op2(o, IR_ADD, norm, opt_number(o, 1e-6));
		norm = opt_op2(o, IR_DIV, given(o, IR_NUMBER_CLIP), norm);
		o->scale = opt_op2(o, IR_MIN, opt_number(o, 1), norm);
	}
}

/* 1 - beta^t */
static value_id
bias_fix(struct optimizer *o, value_id t, double beta)
{
	if (beta == 0) {
		return opt_number(o, 1);
	}
	t = opt_op1(o, IR_EXP, opt_times(o, t, log(beta)));
	return opt_op2(o, IR_SUB, opt_number(o, 1), t);
}

/*
 * False after an error if a tensor of the model has the name of an optimizer
 * state: a checkpoint could not tell the two apart.
 */
static bool
names_are_free(struct optimizer *o)
{
	static const char *const suffixes[] = {
		".exp_avg", ".exp_avg_sq",     ".momentum",
		".master",  ".exp_avg_sq_row", ".exp_avg_sq_col"
	};
	struct ir_ctx *c = o->m->ctx;
	bool *taken = arena_alloc(&c->tmp, c->syms.text.n * sizeof *taken);
	uint32_t known = c->syms.text.n;
	node_id n;
	size_t i;

	for (n = 1; n < o->m->nodes.n; n++) {
		if (ir_is(ir_node(o->m, n)->op, IRF_STORED)) {
			taken[ir_attr(o->m, ir_node(o->m, n), IR_ATTR_NAME)
				      ->text] = true;
		}
	}
	for (n = 1; n < o->m->nodes.n; n++) {
		const struct ir_node *w = ir_node(o->m, n);

		if (o->clips && ir_is(w->op, IRF_PARAM) &&
		    ir_attr(o->m, w, IR_ATTR_NAME)->text == squared(o)) {
			diag_error(&c->diags, w->span,
				   "clipping adds up the "
				   "norm of all gradients as `%s`, and a "
				   "weight has that name",
				   ir_text(c, squared(o)));
			return false;
		}
		for (i = 0; pass_is_trained(o->m, w) && i < 6; i++) {
			sym_t name = opt_named(
				o, ir_attr(o->m, w, IR_ATTR_NAME)->text,
				suffixes[i]);

			if (name < known && taken[name]) {
				diag_error(&c->diags, w->span,
					   "the optimizer "
					   "would keep `%s` of this weight, "
					   "and the model has a tensor of "
					   "that name",
					   ir_text(c, name));
				return false;
			}
		}
	}
	return true;
}

static bool
read_settings(struct optimizer *o)
{
	struct ir_module *m = o->m;
	const struct ir_setting *s = ir_setting(m, "train.optimizer");
	const struct ir_setting *betas = ir_setting(m, "train.optimizer.betas");
	const char *kind = s && s->text ? ir_text(m->ctx, s->text) : "";

	o->rule = opt_rule_find(kind);
	if (!o->rule) {
		diag_error(&m->ctx->diags,
			   s ? s->span : m->funcs.at[ir_model(m)].span,
			   "to train, `train.optimizer` is %s, and %s%s is "
			   "set",
			   opt_rule_names(o), *kind ? "" : "none", kind);
		return false;
	}
	o->beta1 = betas && betas->n == 2 ? betas->num[0] : o->rule->beta1;
	o->beta2 = betas && betas->n == 2 ? betas->num[1] : o->rule->beta2;
	if (!(fmin(o->beta1, o->beta2) >= 0) ||
	    !(fmax(o->beta1, o->beta2) < 1)) {
		/* beta = 1 would divide by 1 - beta^step = 0 */
		diag_error(&m->ctx->diags, betas->span,
			   "`train.optimizer."
			   "betas` is (%.6g, %.6g), and 0 to less than 1 is "
			   "legal",
			   o->beta1, o->beta2);
		return false;
	}
	o->eps = ir_setting_num(m, "train.optimizer.eps", 1e-8);
	o->momentum = ir_setting_num(m, "train.optimizer.momentum",
				     o->rule->momentum);
	o->clips = ir_setting_num(m, "train.clip", 0) > 0;
	return true;
}

/* Adds the empty layer before the model, which stays last. */
static bool
add_layer(struct optimizer *o)
{
	struct ir_module *m = o->m;
	sym_t name = intern_str(&m->ctx->syms, "update");
	func_id f, model = ir_model(m);
	struct ir_func last = m->funcs.at[model];

	if (ir_func_find(m, name)) {
		diag_error(&m->ctx->diags, o->span,
			   "this model has a layer `update` already");
		return false;
	}
	f = ir_func_add(m, name, false, o->span);
	m->funcs.at[model] = m->funcs.at[f];
	m->funcs.at[f] = last;
	o->r = m->funcs.at[model].body;
	return true;
}

bool
pass_optimize(struct pass_ctx *p, struct ir_module *m)
{
	struct optimizer o = { .p = p, .m = m };
	value_id t;
	int i;

	o.span = m->funcs.at[ir_model(m)].span;
	if (!read_settings(&o) || !names_are_free(&o)) {
		return false;
	}
	o.uses = pass_uses(m, &(struct ir_type){ .dtype = IR_F32 });
	if (!add_layer(&o)) {
		return false;
	}
	if (o.clips) {
		visit_all(&o, add_square);
	}
	t = given(&o, IR_NUMBER_STEP);
	o.rate = given(&o, IR_NUMBER_LR);
	for (i = 0; i < OPT_GROUPS; i++) {
		o.decay[i] = given(&o, IR_NUMBER_DECAY + i);
	}
	o.first = opt_op2(&o, IR_SUB, opt_number(&o, 1.5), t);
	o.first = opt_op1(&o, IR_STEP, o.first);
	if (o.rule->corrects) {
		o.fix1 = bias_fix(&o, t, o.beta1);
		o.fix2 = bias_fix(&o, t, o.beta2);
	}
	clip(&o);
	if (o.rule->averages) {
		o.share = opt_op1(&o, IR_LOG, t);
		o.share = opt_op1(&o, IR_EXP, opt_times(&o, o.share, -0.8));
	}
	visit_all(&o, update_weight);
	return true;
}

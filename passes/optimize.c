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
 * (SGD), W.exp_avg (Lion) or W.exp_avg_sq_row and _col (Adafactor), and
 * W.master in f32 if W is narrower: the bytes that the summary counts.  AdamW
 * is that of Loshchilov and Hutter 2019, Lion that of Chen et al., "Symbolic
 * Discovery of Optimization Algorithms", 2023, Adafactor that of Shazeer and
 * Stern 2018 without its relative step: the learning rate is the schedule's.
 */
#include "ir/train/step_numbers.h"
#include "passes/derive.h"
#include "passes/weight_use.h"

#include <math.h>
#include <string.h>

/*
 * Groups of weights with a decay of their own, in the order of enum ir_number:
 * tables that are looked up, what starts as ones or zeros (norms, biases), and
 * all others.
 */
enum group { MATRICES, EMBEDDINGS, VECTORS, GROUPS };

/* Weights of one name: in a repeat, one for each iteration. */
struct tensors {
	sym_t name;
	int64_t start, count;
};

struct optimizer;
struct weight;

/* An update rule: what the learning rate is to be times, by the gradient. */
struct rule {
	const char *name;
	value_id (*step)(struct optimizer *o, const struct weight *w,
			 value_id g);
	/* a visit of its own before that, or NULL */
	void (*before)(struct optimizer *o, node_id id);
	bool corrects;		/* it divides by 1 - beta^t */
	double beta1, beta2;	/* unless they are set */
};

struct optimizer {
	struct pass_ctx *p;
	struct ir_module *m;
	region_id r;		/* of new nodes */
	VEC(struct tensors) done;	/* visited in this phase */
	/* appends the nodes for one weight */
	void (*each)(struct optimizer *o, node_id id);
	struct span span;
	const struct rule *rule;
	double beta1, beta2, eps, momentum;
	bool clips;
	const struct pass_use *uses;	/* of the model's values */
	/* scalars of this step, in the body of `update` */
	value_id rate, scale, first, fix1, fix2, decay[GROUPS];
	value_id share;		/* of this step in moving averages: t^-0.8 */
};

/* ---- small nodes ---- */

static value_id
number(struct optimizer *o, double v)
{
	struct ir_type f32 = { .dtype = IR_F32 };

	return derive_full(o->m, o->r, v, &f32, o->span);
}

static value_id
op1(struct optimizer *o, enum ir_op op, value_id a)
{
	struct ir_new n;

	ir_new_init(&n, op, o->span);
	ir_new_arg(&n, a);
	return derive_append(o->m, o->r, &n);
}

static value_id
op2(struct optimizer *o, enum ir_op op, value_id a, value_id b)
{
	struct ir_new n;

	ir_new_init(&n, op, o->span);
	ir_new_arg(&n, a);
	ir_new_arg(&n, b);
	return derive_append(o->m, o->r, &n);
}

static value_id
times(struct optimizer *o, value_id a, double by)
{
	return op2(o, IR_MUL, a, number(o, by));
}

static sym_t
suffixed(struct optimizer *o, sym_t name, const char *suffix)
{
	struct ir_ctx *c = o->m->ctx;

	return intern_str(&c->syms, arena_printf(&c->tmp, "%s%s",
						 ir_text(c, name), suffix));
}

/* Reads a tensor by name, with the dims of `type`. */
static value_id
source(struct optimizer *o, enum ir_op op, sym_t name,
       const struct ir_type *type, const char *init)
{
	struct ir_new n;

	ir_new_init(&n, op, o->span);
	n.types[0] = *type;
	ir_new_text(&n, IR_ATTR_NAME, name);
	if (init) {
		ir_new_text(&n, IR_ATTR_INIT,
			    intern_str(&o->m->ctx->syms, init));
	}
	return derive_append(o->m, o->r, &n);
}

static void
sink(struct optimizer *o, enum ir_op op, sym_t name, value_id v)
{
	struct ir_new n;

	ir_new_init(&n, op, o->span);
	ir_new_arg(&n, v);
	ir_new_text(&n, IR_ATTR_NAME, name);
	derive_sink(o->m, o->r, &n);
}

/* The name of the squared norm, accumulated like a gradient. */
static sym_t
squared(struct optimizer *o)
{
	return intern_str(&o->m->ctx->syms, "gradient_norm.squared");
}

/* ---- one weight ---- */

struct weight {
	sym_t name, init;
	enum group group;
	struct ir_type type, wide;	/* as stored, and in f32 */
};

static struct weight
weight_of(struct optimizer *o, node_id id)
{
	const struct ir_node *n = ir_node(o->m, id);
	const struct ir_attr *init = ir_attr(o->m, n, IR_ATTR_INIT);
	struct weight w = { .type = *ir_type(o->m, n->result) };

	w.name = ir_attr(o->m, n, IR_ATTR_NAME)->text;
	w.init = init ? init->text : 0;
	if (pass_group_of(&o->uses[n->result]) == GROUP_EMBEDDING) {
		w.group = EMBEDDINGS;
	} else if (w.init && strcmp(ir_text(o->m->ctx, w.init),
				    "normal") != 0) {
		w.group = VECTORS;
	}
	w.wide = w.type;
	w.wide.dtype = IR_F32;
	return w;
}

/* The gradient; for clipping, the saved one. */
static value_id
gradient(struct optimizer *o, const struct weight *w)
{
	value_id g = o->clips
		? source(o, IR_SAVED, suffixed(o, w->name, ".gradient"),
			 &w->type, NULL)
		: source(o, IR_GRADIENT, w->name, &w->type, NULL);

	return derive_cast(o->m, o->r, g, IR_F32, o->span);
}

/* old + (new - old) * by: an exponential moving average. */
static value_id
blend(struct optimizer *o, value_id old, value_id new, double by)
{
	return op2(o, IR_ADD, old,
		   times(o, op2(o, IR_SUB, new, old), by));
}

static value_id
adamw_step(struct optimizer *o, const struct weight *w, value_id g)
{
	sym_t first = suffixed(o, w->name, ".exp_avg");
	sym_t second = suffixed(o, w->name, ".exp_avg_sq");
	value_id m = source(o, IR_STATE, first, &w->wide, "zeros");
	value_id v = source(o, IR_STATE, second, &w->wide, "zeros");

	m = blend(o, m, g, 1 - o->beta1);
	v = blend(o, v, op2(o, IR_MUL, g, g), 1 - o->beta2);
	sink(o, IR_STORE, first, m);
	sink(o, IR_STORE, second, v);
	m = op2(o, IR_DIV, m, o->fix1);
	v = op1(o, IR_SQRT, op2(o, IR_DIV, v, o->fix2));
	return op2(o, IR_DIV, m, op2(o, IR_ADD, v, number(o, o->eps)));
}

static value_id
sgd_step(struct optimizer *o, const struct weight *w, value_id g)
{
	sym_t name = suffixed(o, w->name, ".momentum");
	value_id m;

	if (o->momentum == 0) {
		return g;
	}
	m = source(o, IR_STATE, name, &w->wide, "zeros");
	m = op2(o, IR_ADD, times(o, m, o->momentum), g);
	sink(o, IR_STORE, name, m);
	return m;
}

/* 1, 0 or -1 */
static value_id
sign(struct optimizer *o, value_id a)
{
	value_id above = op1(o, IR_STEP, a);
	value_id below = op1(o, IR_STEP, times(o, a, -1));

	return op2(o, IR_SUB, above, below);
}

static value_id
lion_step(struct optimizer *o, const struct weight *w, value_id g)
{
	sym_t name = suffixed(o, w->name, ".exp_avg");
	value_id m = source(o, IR_STATE, name, &w->wide, "zeros");

	sink(o, IR_STORE, name, blend(o, m, g, 1 - o->beta2));
	return sign(o, blend(o, m, g, 1 - o->beta1));
}

/* The mean over one dim of v, or over all for dim 0. */
static value_id
mean(struct optimizer *o, value_id v, dim_id over)
{
	const struct ir_type t = *ir_type(o->m, v);
	struct ir_new n;
	uint8_t i;

	ir_new_init(&n, IR_MEAN, o->span);
	ir_new_arg(&n, v);
	ir_new_attr(&n, IR_ATTR_OVER);
	for (i = 0; i < t.ndims; i++) {
		if (!over || t.dims[i] == over) {
			ir_new_dim(&n, IR_ATTR_OVER, t.dims[i]);
		}
	}
	return derive_append(o->m, o->r, &n);
}

static value_id
fit(struct optimizer *o, value_id v, const struct ir_type *t)
{
	return derive_fit(o->m, o->r, v, t, o->span);
}

/*
 * A moving average of v, as a state of v's type that begins with v itself.  It
 * is saved for the visit that updates weights: there the state is what it was
 * before the step, or already what it is after.
 */
static void
average(struct optimizer *o, const struct weight *w, const char *suffix,
	value_id v)
{
	struct ir_type t = *ir_type(o->m, v);
	sym_t name = suffixed(o, w->name, suffix);
	value_id old = source(o, IR_STATE, name, &t, "zeros");

	v = op2(o, IR_SUB, v, old);
	v = op2(o, IR_ADD, old, op2(o, IR_MUL, v, o->share));
	sink(o, IR_STORE, name, v);
	sink(o, IR_SAVE, suffixed(o, name, ".now"), v);
}

/* What average() saved, of a weight without its dim number `without`. */
static value_id
averaged(struct optimizer *o, const struct weight *w, const char *suffix,
	 uint8_t without)
{
	struct ir_type t = w->wide;
	sym_t name = suffixed(o, suffixed(o, w->name, suffix), ".now");

	for (; without + 1 < t.ndims; without++) {
		t.dims[without] = t.dims[without + 1];
	}
	t.ndims -= without < t.ndims;
	return source(o, IR_SAVED, name, &t, NULL);
}

/* The visit before the update: second moments, of which it reads means. */
static void
adafactor_moments(struct optimizer *o, node_id id)
{
	struct weight w = weight_of(o, id);
	uint8_t n = w.wide.ndims;
	value_id g = op2(o, IR_MUL, gradient(o, &w), o->scale);
	value_id least = number(o, 1e-30);

	/* a gradient that is a sum over ranks is added up once */
	sink(o, IR_SAVE, suffixed(o, w.name, ".gradient.scaled"), g);
	g = op2(o, IR_ADD, op2(o, IR_MUL, g, g), least);
	if (n < 2) {
		average(o, &w, ".exp_avg_sq", g);
	} else {
		average(o, &w, ".exp_avg_sq_row",
			mean(o, g, w.wide.dims[n - 1]));
		average(o, &w, ".exp_avg_sq_col",
			mean(o, g, w.wide.dims[n - 2]));
	}
}

/*
 * Adafactor: the second moment of a matrix is the product of what its rows and
 * its columns have, by the mean of all; dims before the last two are as many
 * matrices.  A vector's is kept whole.  The step is cut where its root mean
 * square is above 1.
 */
static value_id
adafactor_step(struct optimizer *o, const struct weight *w, value_id g)
{
	uint8_t n = w->wide.ndims;
	value_id row, col, u, v;

	if (n < 2) {
		u = averaged(o, w, ".exp_avg_sq", n);
	} else {
		row = averaged(o, w, ".exp_avg_sq_row", n - 1);
		col = averaged(o, w, ".exp_avg_sq_col", n - 2);
		u = mean(o, row, w->wide.dims[n - 2]);
		u = fit(o, u, ir_type(o->m, row));
		v = fit(o, op2(o, IR_DIV, row, u), &w->wide);
		u = op2(o, IR_MUL, v, fit(o, col, &w->wide));
	}
	/* a product of two small ones is 0 in f32 */
	u = op1(o, IR_SQRT, op2(o, IR_MAX, number(o, 1e-30), u));
	u = op2(o, IR_DIV, g, u);
	v = op1(o, IR_SQRT, mean(o, op2(o, IR_MUL, u, u), 0));
	return op2(o, IR_DIV, u, op2(o, IR_MAX, number(o, 1), v));
}

static const struct rule rules[] = {
	{ "adamw", adamw_step, NULL, true, 0.9, 0.999 },
	{ "sgd", sgd_step, NULL, false, 0, 0 },
	{ "lion", lion_step, NULL, false, 0.9, 0.99 },
	{ "adafactor", adafactor_step, adafactor_moments, false, 0, 0 }
};

static void
update_weight(struct optimizer *o, node_id id)
{
	struct weight w = weight_of(o, id);
	bool narrow = w.type.dtype != IR_F32 && w.type.dtype != IR_F64;
	sym_t master = suffixed(o, w.name, ".master");
	value_id g, step, old;

	old = derive_cast(o->m, o->r, derive_copy(o->m, o->r, id, NULL),
			  IR_F32, o->span);
	if (narrow) {	/* in the first step master = weight */
		old = op2(o, IR_MUL, old, o->first);
		old = op2(o, IR_ADD,
			  source(o, IR_STATE, master, &w.wide, "zeros"), old);
	}
	g = o->rule->before
		? source(o, IR_SAVED, suffixed(o, w.name, ".gradient.scaled"),
			 &w.wide, NULL)
		: op2(o, IR_MUL, gradient(o, &w), o->scale);
	step = o->rule->step(o, &w, g);
	step = op2(o, IR_ADD, step, op2(o, IR_MUL, old, o->decay[w.group]));
	step = op2(o, IR_SUB, old, op2(o, IR_MUL, step, o->rate));
	if (narrow) {
		sink(o, IR_STORE, master, step);
	}
	sink(o, IR_STORE, w.name, derive_cast(o->m, o->r, step, w.type.dtype,
				     o->span));
	pass_count(o->p, "weights updated", 1);
}

static void
add_square(struct optimizer *o, node_id id)
{
	struct weight w = weight_of(o, id);
	value_id g = source(o, IR_GRADIENT, w.name, &w.type, NULL);
	struct ir_new n;
	uint8_t i;

	sink(o, IR_SAVE, suffixed(o, w.name, ".gradient"), g);
	g = derive_cast(o->m, o->r, g, IR_F32, o->span);
	ir_new_init(&n, IR_SUM, o->span);
	ir_new_arg(&n, op2(o, IR_MUL, g, g));
	ir_new_attr(&n, IR_ATTR_OVER);
	for (i = 0; i < w.type.ndims; i++) {
		ir_new_dim(&n, IR_ATTR_OVER, w.type.dims[i]);
	}
	g = derive_append(o->m, o->r, &n);
	sink(o, IR_ACCUMULATE, squared(o), g);
}

/* ---- all weights, in copies of their repeats ---- */

static struct tensors
tensors_of(const struct optimizer *o, node_id id, region_id region)
{
	const struct ir_module *m = o->m;
	struct tensors t = { .name = ir_attr(m, ir_node(m, id),
					     IR_ATTR_NAME)->text };
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
	struct tensors t;
	uint32_t i;

	if (!pass_is_trained(o->m, ir_node(o->m, id))) {
		return false;
	}
	t = tensors_of(o, id, region);
	for (i = 0; i < o->done.n; i++) {
		const struct tensors *d = &o->done.at[i];

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

		if (is_new(o, k, id) || (ir_node(o->m, k)->region &&
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

	return source(o, IR_INPUT, intern_str(&o->m->ctx->syms,
					      ir_number_names[n]), &f32, NULL);
}

/* A small number is added to the norm, as in PyTorch's clipping. */
static void
clip(struct optimizer *o)
{
	struct ir_type f32 = { .dtype = IR_F32 };
	value_id norm;

	o->scale = number(o, 1);
	if (o->clips) {
		norm = op1(o, IR_SQRT, source(o, IR_GRADIENT, squared(o),
					      &f32, NULL));
		norm = op2(o, IR_ADD, norm, number(o, 1e-6));
		norm = op2(o, IR_DIV, given(o, IR_NUMBER_CLIP), norm);
		o->scale = op2(o, IR_MIN, number(o, 1), norm);
	}
}

/* 1 - beta^t */
static value_id
bias_fix(struct optimizer *o, value_id t, double beta)
{
	if (beta == 0) {
		return number(o, 1);
	}
	t = op1(o, IR_EXP, times(o, t, log(beta)));
	return op2(o, IR_SUB, number(o, 1), t);
}

/*
 * False after an error if a tensor of the model has the name of an optimizer
 * state: a checkpoint could not tell the two apart.
 */
static bool
names_are_free(struct optimizer *o)
{
	static const char *const suffixes[] = {
		".exp_avg", ".exp_avg_sq", ".momentum", ".master",
		".exp_avg_sq_row", ".exp_avg_sq_col"
	};
	struct ir_ctx *c = o->m->ctx;
	bool *taken = arena_alloc(&c->tmp, c->syms.text.n * sizeof *taken);
	uint32_t known = c->syms.text.n;
	node_id n;
	size_t i;

	for (n = 1; n < o->m->nodes.n; n++) {
		if (ir_is(ir_node(o->m, n)->op, IRF_STORED)) {
			taken[ir_attr(o->m, ir_node(o->m, n),
				      IR_ATTR_NAME)->text] = true;
		}
	}
	for (n = 1; n < o->m->nodes.n; n++) {
		const struct ir_node *w = ir_node(o->m, n);

		if (o->clips && ir_is(w->op, IRF_PARAM) &&
		    ir_attr(o->m, w, IR_ATTR_NAME)->text == squared(o)) {
			diag_error(&c->diags, w->span, "clipping adds up the "
				   "norm of all gradients as `%s`, and a "
				   "weight has that name",
				   ir_text(c, squared(o)));
			return false;
		}
		for (i = 0; pass_is_trained(o->m, w) && i < 6; i++) {
			sym_t name = suffixed(o, ir_attr(o->m, w,
					      IR_ATTR_NAME)->text,
					      suffixes[i]);

			if (name < known && taken[name]) {
				diag_error(&c->diags, w->span, "the optimizer "
					   "would keep `%s` of this weight, "
					   "and the model has a tensor of "
					   "that name", ir_text(c, name));
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
	const struct ir_setting *betas =
		ir_setting(m, "train.optimizer.betas");
	const char *kind = s && s->text ? ir_text(m->ctx, s->text) : "";
	size_t i = 0;

	while (i < sizeof rules / sizeof *rules &&
	       strcmp(kind, rules[i].name) != 0) {
		i++;
	}
	if (i == sizeof rules / sizeof *rules) {
		diag_error(&m->ctx->diags, s ? s->span
			   : m->funcs.at[ir_model(m)].span,
			   "to train, `train.optimizer` is adamw, sgd, lion "
			   "or adafactor, and %s%s is set", *kind ? "" :
			   "none", kind);
		return false;
	}
	o->rule = &rules[i];
	o->beta1 = betas && betas->n == 2 ? betas->num[0] : o->rule->beta1;
	o->beta2 = betas && betas->n == 2 ? betas->num[1] : o->rule->beta2;
	if (!(fmin(o->beta1, o->beta2) >= 0) ||
	    !(fmax(o->beta1, o->beta2) < 1)) {
		/* beta = 1 would divide by 1 - beta^step = 0 */
		diag_error(&m->ctx->diags, betas->span, "`train.optimizer."
			   "betas` is (%.6g, %.6g), and 0 to less than 1 is "
			   "legal", o->beta1, o->beta2);
		return false;
	}
	o->eps = ir_setting_num(m, "train.optimizer.eps", 1e-8);
	o->momentum = ir_setting_num(m, "train.optimizer.momentum", 0);
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
	for (i = 0; i < GROUPS; i++) {
		o.decay[i] = given(&o, IR_NUMBER_DECAY + i);
	}
	o.first = op1(&o, IR_STEP, op2(&o, IR_SUB, number(&o, 1.5), t));
	if (o.rule->corrects) {
		o.fix1 = bias_fix(&o, t, o.beta1);
		o.fix2 = bias_fix(&o, t, o.beta2);
	}
	clip(&o);
	if (o.rule->before) {
		o.share = op1(&o, IR_LOG, t);
		o.share = op1(&o, IR_EXP, times(&o, o.share, -0.8));
		visit_all(&o, o.rule->before);
	}
	visit_all(&o, update_weight);
	return true;
}

/*
 * Private header of the pass `optimize`: an optimizer that appends nodes for
 * one weight after the other, the nodes that its rules are made of, and the
 * rules.
 */
#ifndef PASSES_OPTIMIZE_H
#define PASSES_OPTIMIZE_H

#include "passes/weight_use.h"

/*
 * Groups of weights with a decay of their own, in the order of enum ir_number:
 * tables that are looked up, what starts as ones or zeros (norms, biases), and
 * all others.
 */
enum opt_group { OPT_MATRICES, OPT_EMBEDDINGS, OPT_VECTORS, OPT_GROUPS };

/* Weights of one name: in a repeat, one for each iteration. */
struct opt_tensors {
	sym_t name;
	int64_t start, count;
};

/* Two more names of a dim, of its size. */
struct opt_names {
	dim_id dim, other, inner;
};

struct optimizer;
struct opt_weight;

/* An update rule: what the learning rate is to be times, by the gradient. */
struct opt_rule {
	const char *name;
	value_id (*step)(struct optimizer *o, const struct opt_weight *w,
			 value_id g);
	bool corrects;	/* it divides by 1 - beta^t */
	bool averages;	/* t^-0.8 of what is new */
	double beta1, beta2, momentum;	/* unless they are set */
};

struct optimizer {
	struct pass_ctx *p;
	struct ir_module *m;
	region_id r;	/* of new nodes */
	VEC(struct opt_tensors) done;	/* visited in this phase */
	VEC(struct opt_names) names;
	/* appends the nodes for one weight */
	void (*each)(struct optimizer *o, node_id id);
	struct span span;
	const struct opt_rule *rule;
	double beta1, beta2, eps, momentum;
	bool clips;
	const struct pass_use *uses;	/* of the model's values */
	/* scalars of this step, in the body of `update` */
	value_id rate, scale, first, fix1, fix2, decay[OPT_GROUPS];
	value_id share;	/* of this step in moving averages: t^-0.8 */
};

struct opt_weight {
	sym_t name;
	enum opt_group group;
	bool is_matrix;	/* of a layer inside the model */
	struct pass_matrix matrix;
	struct ir_type type, wide;	/* as stored, and in f32 */
};

/* ---- optimize_nodes.c ---- */

value_id opt_number(struct optimizer *o, double v);
value_id opt_op1(struct optimizer *o, enum ir_op op, value_id a);
value_id opt_op2(struct optimizer *o, enum ir_op op, value_id a, value_id b);
/* 1, 0 or -1 */
value_id opt_sign(struct optimizer *o, value_id a);
/* a * by */
value_id opt_times(struct optimizer *o, value_id a, double by);
/* old + (new - old) * by: an exponential moving average. */
value_id opt_blend(struct optimizer *o, value_id old, value_id new, double by);
/* A sum or a mean over dims of v; all of them for n = 0. */
value_id opt_over(struct optimizer *o, enum ir_op op, value_id v,
		  const dim_id *dims, uint8_t n);
/* derive_fit: v with these dims and this element type. */
value_id opt_fit(struct optimizer *o, value_id v, const struct ir_type *t);
sym_t opt_named(struct optimizer *o, sym_t name, const char *suffix);
/* Reads a tensor by name, with the dims of `type`. */
value_id opt_source(struct optimizer *o, enum ir_op op, sym_t name,
		    const struct ir_type *type, const char *init);
void opt_sink(struct optimizer *o, enum ir_op op, sym_t name, value_id v);
/* The gradient; for clipping, the saved one. */
value_id opt_gradient(struct optimizer *o, const struct opt_weight *w);

/* ---- optimize_rules.c ---- */

/* The rule of that name, or NULL. */
const struct opt_rule *opt_rule_find(const char *name);
/* "adamw, sgd, lion or ..." */
const char *opt_rule_names(struct optimizer *o);

/* ---- optimize_muon.c ---- */

/*
 * Of a momentum u with the dims of the weight: the matrix with its singular
 * vectors whose singular values are about 1, times 0.2 and the root of the
 * larger side.
 */
value_id opt_orthogonal(struct optimizer *o, const struct opt_weight *w,
			value_id u);

#endif

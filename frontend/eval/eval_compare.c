/*
 * --compare: a split program beside the model that it was split from.  The
 * model runs first, alone, and the loss, the gradients and the stored tensors
 * of each of its steps are kept; then all ranks run, and each of their steps
 * is compared with what was kept.
 */
#include "frontend/eval/eval.h"

#include <math.h>
#include <string.h>

/* ---- the unsplit model ---- */

struct kept_tensor {
	const char *name;
	int64_t elems;
	double *data;
};

struct kept_step {
	double loss;
	VEC(struct kept_tensor) gradients, stored;
};

struct eval_steps {
	struct ir_ctx *c;
	VEC(struct kept_step) steps;
	const struct ir_weights *store;	/* every access is passed on to it */
	struct kept_step *now;
};

static struct kept_tensor
keep(struct eval_steps *k, const char *name, int64_t elems)
{
	struct arena *a = &k->c->perm;
	struct kept_tensor t = { arena_strndup(a, name, strlen(name)), elems,
			    arena_alloc(a, (size_t)elems * sizeof *t.data) };

	return t;
}

static const struct kept_tensor *
find(const struct kept_tensor *at, uint32_t n, const char *name)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (strcmp(at[i].name, name) == 0) {
			return &at[i];
		}
	}
	return NULL;
}

/*
 * Passes the tensor on to the store.  A stored one is kept; of a gradient,
 * which may be added to again, only the name and the size.
 */
static bool
put(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, const double *data, struct span at)
{
	struct eval_steps *k = user;
	struct kept_step *s = k->now;

	if (op == IR_STORE && !find(s->stored.at, s->stored.n, name)) {
		VEC_PUSH(&k->c->perm, &s->stored, keep(k, name, elems));
		memcpy(s->stored.at[s->stored.n - 1].data, data,
		       (size_t)elems * sizeof *data);
	} else if (op == IR_ACCUMULATE &&
		   !find(s->gradients.at, s->gradients.n, name)) {
		VEC_PUSH(&k->c->perm, &s->gradients, keep(k, name, elems));
	}
	return k->store->put(k->store->user, op, name, type, elems, data, at);
}

static bool
get(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, double *out, struct span at)
{
	const struct ir_weights *s = ((struct eval_steps *)user)->store;

	return s->get(s->user, op, name, type, elems, out, at);
}

static bool
has(void *user, enum ir_op op, const char *name)
{
	const struct ir_weights *s = ((struct eval_steps *)user)->store;

	return s->has(s->user, op, name);
}

static bool
input(void *user, const char *name, const struct ir_type *type,
      int64_t elems, double *out)
{
	const struct ir_weights *s = ((struct eval_steps *)user)->store;

	return s->input(s->user, name, type, elems, out);
}

/* Copies the sums of all microbatches, before the update changes them. */
static void
copy_gradients(struct eval_steps *k)
{
	const struct span none = { 0, 0 };
	uint32_t i;

	for (i = 0; i < k->now->gradients.n; i++) {
		struct kept_tensor *t = &k->now->gradients.at[i];

		k->store->get(k->store->user, IR_GRADIENT, t->name, NULL,
			      t->elems, t->data, none);
	}
}

struct eval_steps *
eval_steps_run(struct ir_module *m, const struct ir_eval_options *options,
	       uint32_t steps)
{
	struct eval_store *store = eval_store_open(m, options->weights);
	struct eval_steps *k = arena_alloc(&m->ctx->perm, sizeof *k);
	struct ir_weights tap = { get, put, has, input, k };
	struct ir_eval_options opt = *options;
	struct ir_eval_result loss[IR_MAX_ARGS];
	uint32_t i, n, made;

	k->c = m->ctx;
	k->store = eval_store_source(store);
	opt.weights = &tap;
	for (i = 1; i <= steps; i++) {
		struct kept_step empty = { 0 };

		VEC_PUSH(&m->ctx->perm, &k->steps, empty);
		k->now = &k->steps.at[i - 1];
		eval_store_begin(store, i);
		opt.func = 0;
		if (!ir_eval(m, &opt, loss, IR_MAX_ARGS, &n)) {
			return NULL;
		}
		k->now->loss = loss[0].data[0];
		made = k->now->gradients.n;
		copy_gradients(k);
		if (!eval_store_end(store, &opt)) {
			return NULL;
		}
		k->now->gradients.n = made;	/* not those of the update */
	}
	return k;
}

double
eval_steps_loss(const struct eval_steps *k, uint32_t step)
{
	return k->steps.at[step - 1].loss;
}

/* ---- what differs ---- */

/*
 * Differences are measured against the tensor's largest element, but at least
 * against these shares of the largest element of all tensors of the step.
 * AdamW divides rounding errors by each other where a gradient is 0, so stored
 * tensors need a larger share.
 */
#define GRADIENT_SHARE 1e-6
#define STORED_SHARE 1e-2

static double
largest(const struct kept_tensor *at, uint32_t n)
{
	double most = 0;
	int64_t k;
	uint32_t i;

	for (i = 0; i < n; i++) {
		for (k = 0; k < at[i].elems; k++) {
			most = fmax(most, fabs(at[i].data[k]));
		}
	}
	return most;
}

/*
 * The largest difference over the largest element, or over `least` if that
 * is larger: the gradient of a bias of keys, for one, is 0 but for rounding.
 * INFINITY if the ranks do not have the tensor.
 */
static double
distance(const struct kept_tensor *want, const struct sim_tensor *got,
	 double least)
{
	double most = least, off = 0;
	int64_t i;

	if (!got || got->elems != want->elems) {
		return INFINITY;
	}
	for (i = 0; i < want->elems; i++) {
		double d = fabs(want->data[i] - got->data[i]);

		most = fmax(most, fabs(want->data[i]));
		off = d <= off ? off : isnan(d) ? INFINITY : d;
	}
	return off == 0 ? 0 : off / fmax(most, 1e-30);
}

static void
note(struct eval_worst *w, double off, uint32_t step, const char *kind,
     const char *name)
{
	if (off > w->off) {
		w->off = off;
		w->step = step;
		w->kind = kind;
		w->name = name;
	}
}

void
eval_steps_compare(const struct eval_steps *k, const struct sim_result *r,
		   struct eval_worst *w)
{
	const struct kept_step *s = &k->steps.at[r->step - 1];
	double gradients = GRADIENT_SHARE *
			   largest(s->gradients.at, s->gradients.n);
	double stored = STORED_SHARE * largest(s->stored.at, s->stored.n);
	uint32_t i;

	if (r->nresults == 0 || r->results[0].elems != 1) {
		note(w, INFINITY, r->step, "the loss", "");
		return;
	}
	note(w, fabs(r->results[0].data[0] - s->loss) / fabs(s->loss),
	     r->step, "the loss", "");
	for (i = 0; i < s->gradients.n; i++) {
		const struct kept_tensor *t = &s->gradients.at[i];

		note(w, distance(t, sim_gradient(r, t->name), gradients),
		     r->step, "the gradient of", t->name);
	}
	for (i = 0; i < s->stored.n; i++) {
		const struct kept_tensor *t = &s->stored.at[i];

		note(w, distance(t, sim_stored(r, t->name), stored), r->step,
		     "the stored tensor", t->name);
	}
	w->tensors += s->gradients.n + s->stored.n;
}

/*
 * A split program beside the one that it came from: the same steps, the loss
 * and every gradient of each, every stored tensor after it.
 *
 * First the unsplit program runs in the plain interpreter and leaves what it
 * made; then all ranks run, and each step is held against that.
 */
#include "frontend/eval/eval_compare.h"

#include <math.h>
#include <string.h>

#include "frontend/tool/driver.h"

/* ---- the unsplit program ---- */

struct tensor {
	const char *name;
	int64_t elems;
	double *data;
};

struct step {
	double loss;
	VEC(struct tensor) gradients, stored;
};

struct drv_course {
	struct ir_ctx *c;
	VEC(struct step) steps;
	const struct ir_weights *store;	/* asked first */
	struct step *now;
};

static struct tensor
keep(struct drv_course *k, const char *name, int64_t elems)
{
	struct arena *a = &k->c->perm;
	struct tensor t = { arena_strndup(a, name, strlen(name)), elems,
			    arena_alloc(a, (size_t)elems * sizeof *t.data) };

	return t;
}

static const struct tensor *
find(const struct tensor *at, uint32_t n, const char *name)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (strcmp(at[i].name, name) == 0) {
			return &at[i];
		}
	}
	return NULL;
}

/* Passes everything on, and takes note of names. */
static bool
put(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, const double *data, struct span at)
{
	struct drv_course *k = user;
	struct step *s = k->now;

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
	const struct ir_weights *s = ((struct drv_course *)user)->store;

	return s->get(s->user, op, name, type, elems, out, at);
}

static bool
has(void *user, enum ir_op op, const char *name)
{
	const struct ir_weights *s = ((struct drv_course *)user)->store;

	return s->has(s->user, op, name);
}

static bool
input(void *user, const char *name, const struct ir_type *type,
      int64_t elems, double *out)
{
	const struct ir_weights *s = ((struct drv_course *)user)->store;

	return s->input(s->user, name, type, elems, out);
}

/* The sums, as they are before the update. */
static void
take_gradients(struct drv_course *k)
{
	const struct span none = { 0, 0 };
	uint32_t i;

	for (i = 0; i < k->now->gradients.n; i++) {
		struct tensor *t = &k->now->gradients.at[i];

		k->store->get(k->store->user, IR_GRADIENT, t->name, NULL,
			      t->elems, t->data, none);
	}
}

struct drv_course *
drv_course_run(struct ir_module *m, const struct ir_eval_options *options,
	       uint32_t steps)
{
	struct drv_store *store = drv_store_open(m, options->weights);
	struct drv_course *k = arena_alloc(&m->ctx->perm, sizeof *k);
	struct ir_weights tap = { get, put, has, input, k };
	struct ir_eval_options opt = *options;
	struct ir_eval_result loss[IR_MAX_ARGS];
	uint32_t i, n, made;

	k->c = m->ctx;
	k->store = drv_store_source(store);
	opt.weights = &tap;
	for (i = 1; i <= steps; i++) {
		struct step empty = { 0 };

		VEC_PUSH(&m->ctx->perm, &k->steps, empty);
		k->now = &k->steps.at[i - 1];
		drv_store_begin(store, i);
		opt.func = 0;
		if (!ir_eval(m, &opt, loss, IR_MAX_ARGS, &n)) {
			return NULL;
		}
		k->now->loss = loss[0].data[0];
		made = k->now->gradients.n;
		take_gradients(k);
		if (!drv_store_end(store, &opt)) {
			return NULL;
		}
		k->now->gradients.n = made;	/* not those of the update */
	}
	return k;
}

double
drv_course_loss(const struct drv_course *k, uint32_t step)
{
	return k->steps.at[step - 1].loss;
}

/* ---- what differs ---- */

/*
 * What counts as nothing beside the largest number of a step.  AdamW divides
 * rounding by rounding, so a weight whose gradient is 0 walks about.
 */
#define GRADIENT_FLOOR 1e-6
#define STORED_FLOOR 1e-2

static double
largest(const struct tensor *at, uint32_t n)
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
 * How far off, over the largest element: 0 is equal, INFINITY is missing.
 * A tensor may be 0 but for rounding, as the gradient of a bias of keys is:
 * so it is measured by `least` at least.
 */
static double
distance(const struct tensor *want, const struct sim_tensor *got,
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
note(struct drv_worst *w, double off, uint32_t step, const char *kind,
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
drv_course_hold(const struct drv_course *k, const struct sim_result *r,
		struct drv_worst *w)
{
	const struct step *s = &k->steps.at[r->step - 1];
	double gradients = GRADIENT_FLOOR *
			   largest(s->gradients.at, s->gradients.n);
	double stored = STORED_FLOOR * largest(s->stored.at, s->stored.n);
	uint32_t i;

	if (r->nresults == 0 || r->results[0].elems != 1) {
		note(w, INFINITY, r->step, "the loss", "");
		return;
	}
	note(w, fabs(r->results[0].data[0] - s->loss) / fabs(s->loss),
	     r->step, "the loss", "");
	for (i = 0; i < s->gradients.n; i++) {
		const struct tensor *t = &s->gradients.at[i];

		note(w, distance(t, sim_gradient(r, t->name), gradients),
		     r->step, "the gradient of", t->name);
	}
	for (i = 0; i < s->stored.n; i++) {
		const struct tensor *t = &s->stored.at[i];

		note(w, distance(t, sim_stored(r, t->name), stored), r->step,
		     "what is kept as", t->name);
	}
	w->tensors += s->gradients.n + s->stored.n;
}

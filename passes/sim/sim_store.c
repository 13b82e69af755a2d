/*
 * Tensors that last from step to step: each rank keeps the piece that it
 * has.  What was never stored comes from outside, or from the generator.
 */
#include "passes/sim/sim_parts.h"

#include <string.h>

static const struct span nowhere = { 0, 0 };

/* ---- a rank's cells ---- */

static uint32_t
number_of(struct sim *s, const char *name)
{
	sym_t k = intern_str(&s->m->ctx->syms, name);

	while (s->number.n <= k) {
		VEC_PUSH(&s->pool.own, &s->number, 0);
	}
	if (!s->number.at[k]) {
		VEC_PUSH(&s->pool.own, &s->names, ir_text(s->m->ctx, k));
		VEC_PUSH(&s->pool.own, &s->whole, NULL);
		s->number.at[k] = s->names.n;
	}
	return s->number.at[k] - 1;
}

static struct sim_cell *
cell(struct sim_rank *k, uint32_t number)
{
	while (k->cells.n <= number) {
		VEC_PUSH(&k->s->pool.own, &k->cells, (struct sim_cell){ 0 });
	}
	return &k->cells.at[number];
}

static bool
is_gradient(enum ir_op op)
{
	return !ir_is(op, IRF_STORED) && op != IR_STORE;
}

/*
 * The same dims in the same places, in whatever float type.  That pipelines
 * add to one cell shows where it is read only.
 */
static bool
placed_alike(const struct sim *s, struct ir_type a, struct ir_type b)
{
	const struct ir_along whole = { IR_IS_WHOLE, 0 };

	a.dtype = b.dtype;
	if (s->r->pp) {
		ir_set_along(&a, s->r->pp, whole);
		ir_set_along(&b, s->r->pp, whole);
	}
	return ir_type_equal(&a, &b);
}

/* All nodes of a name place the tensor alike. */
static bool
same_place(struct sim_rank *k, const char *name, struct ir_type *have,
	   bool *known, const struct ir_type *t, struct span at)
{
	struct sim *s = k->s;

	if (!*known) {
		*have = *t;
		*known = true;
	}
	if (placed_alike(s, *have, *t)) {
		return true;
	}
	diag_error(s->diags, at, "`%s` is %s here, and was %s before", name,
		   ir_type_text(s->m, t), ir_type_text(s->m, have));
	return false;
}

/* A whole tensor from outside, once. NULL after an error. */
static const double *
whole_tensor(struct sim *s, enum ir_op op, uint32_t number,
	     const struct ir_type *t, struct span at)
{
	const struct ir_weights *w = s->o->weights;
	struct ir_type type = *t;
	double *data = s->whole.at[number];
	struct ir_local all;
	bool ok;

	if (data) {
		return data;
	}
	memset(type.cut, 0, sizeof type.cut);
	ir_local(s->m, &type, NULL, &all);
	data = ir_pool_get(&s->pool, at, all.elems);
	if (!data) {
		return NULL;
	}
	ok = op == IR_INPUT
		? w->input && w->input(w->user, s->names.at[number], &type,
				       all.elems, data)
		: w->get(w->user, op, s->names.at[number], &type, all.elems,
			 data, at);
	if (!ok) {
		ir_pool_put(&s->pool, data);
		return NULL;
	}
	s->whole.at[number] = data;
	return data;
}

static void
take_piece(const struct sim_rank *k, const struct ir_type *t,
	   const double *whole, double *out)
{
	struct ir_local l;
	int64_t i;

	ir_local(k->s->m, t, k->id.at, &l);
	for (i = 0; i < l.elems; i++) {
		out[i] = whole[ir_local_at(&l, i)];
	}
}

static bool
get(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, double *out, struct span at)
{
	struct sim_rank *k = user;
	uint32_t number = number_of(k->s, name);
	struct sim_cell *c = cell(k, number);
	const double *from = is_gradient(op) ? c->gradient : c->now;
	bool known = c->gradient != NULL;

	if (!same_place(k, name, is_gradient(op) ? &c->gradient_type
						 : &c->type,
			is_gradient(op) ? &known : &c->typed, type, at)) {
		return false;
	}
	if (from) {
		memcpy(out, from, (size_t)elems * sizeof *out);
		return true;
	}
	if (is_gradient(op)) {	/* no token needed this weight */
		memset(out, 0, (size_t)elems * sizeof *out);
		return true;
	}
	from = whole_tensor(k->s, op, number, type, at);
	if (from) {
		take_piece(k, type, from, out);
	}
	return from != NULL;
}

static bool
from_outside(const struct sim *s, enum ir_op op, const char *name)
{
	const struct ir_weights *w = s->o->weights;

	return w && w->get && ir_is(op, IRF_LOADED) &&
	       (!w->has || w->has(w->user, op, name));
}

static bool
has(void *user, enum ir_op op, const char *name)
{
	struct sim_rank *k = user;
	struct sim_cell *c = cell(k, number_of(k->s, name));

	return is_gradient(op) || c->now || from_outside(k->s, op, name);
}

/*
 * What is accumulated over microbatches is a part of a sum along time, and
 * none any more when it has been added up.  What is no part of that sum would
 * be added once per microbatch.
 */
static bool
add_up_time(struct sim_rank *k, const char *name, struct ir_type *t,
	    struct span at)
{
	axis_id time = k->s->r->time;
	struct ir_along along;

	if (!time || !k->action) {	/* an update runs once */
		return true;
	}
	along = ir_along(t, time);
	if (along.how != IR_IS_PART && k->s->r->nmicrobatches > 1) {
		diag_error(k->s->diags, at, "`%s` is accumulated over %u "
			   "microbatches, so a part of a sum along `%s` is "
			   "expected, and %s is %s", name,
			   k->s->r->nmicrobatches,
			   ir_axis_name(k->s->m, time),
			   ir_type_text(k->s->m, t),
			   ir_along_text(k->s->m, along));
		return false;
	}
	along.how = IR_IS_WHOLE;
	ir_set_along(t, time, along);
	return true;
}

static bool
put(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, const double *data, struct span at)
{
	struct sim_rank *k = user;
	struct sim_cell *c = cell(k, number_of(k->s, name));
	bool adds = op == IR_ACCUMULATE, known = c->gradient != NULL;
	double **to = adds ? &c->gradient : &c->next;
	struct ir_type t = *type;
	int64_t i;

	if ((adds && !add_up_time(k, name, &t, at)) ||
	    !same_place(k, name, adds ? &c->gradient_type : &c->type,
			adds ? &known : &c->typed, &t, at)) {
		return false;
	}
	if (!*to) {
		*to = ir_pool_get(&k->s->pool, at, elems);
		if (!*to) {
			return false;
		}
		memset(*to, 0, (size_t)elems * sizeof **to);
	}
	for (i = 0; i < elems; i++) {
		(*to)[i] = adds ? (*to)[i] + data[i] : data[i];
	}
	return true;
}

static bool
input(void *user, const char *name, const struct ir_type *type,
      int64_t elems, double *out)
{
	struct sim_rank *k = user;
	struct sim *s = k->s;
	const struct ir_weights *w = s->o->weights;
	const double *from;

	if (strcmp(name, "step") == 0 && elems == 1) {
		out[0] = s->step;
		return true;
	}
	if (!w || !w->input) {
		return false;
	}
	from = whole_tensor(s, IR_INPUT, number_of(s, name), type, nowhere);
	if (from) {
		take_piece(k, type, from, out);
	}
	return from != NULL;
}

void
sim_store_open(struct sim_rank *k)
{
	k->store = (struct ir_weights){ get, put, has, input, k };
}

static void
drop(struct sim *s, double **data)
{
	if (*data) {
		ir_pool_put(&s->pool, *data);
		*data = NULL;
	}
}

void
sim_commit(struct sim *s)
{
	uint32_t i, j;

	for (i = 0; i < s->r->nranks; i++) {
		for (j = 0; j < s->ranks[i].cells.n; j++) {
			struct sim_cell *c = &s->ranks[i].cells.at[j];

			if (c->next) {
				drop(s, &c->now);
				c->now = c->next;
				c->next = NULL;
			}
			drop(s, &c->gradient);
		}
	}
}

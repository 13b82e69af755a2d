/*
 * Tensors that last from step to step of `llmc eval --steps`: weights, states
 * of the optimizer and gradients, each by its full name.  A weight that no
 * step has stored yet is read from a checkpoint, or generated.
 */
#include "frontend/eval/eval.h"
#include "ir/train/step_numbers.h"

#include <string.h>

/* What a step stores is read from the next step on. */
struct stored {
	double *now, *next, *gradient;
	int64_t elems;
};

struct eval_store {
	struct ir_module *m;
	struct ir_ctx *c;
	const struct ir_weights *first;	/* a checkpoint, or NULL */
	VEC(struct stored) cells;	/* by sym_t */
	struct ir_weights source;
	double step;
};

static struct stored *
cell(struct eval_store *s, const char *name)
{
	sym_t k = intern_str(&s->c->syms, name);

	while (s->cells.n <= k) {
		VEC_PUSH(&s->c->perm, &s->cells, (struct stored){ 0 });
	}
	return &s->cells.at[k];
}

static bool
is_gradient(enum ir_op op)
{
	return !ir_is(op, IRF_STORED | IRF_KEEPS);
}

static bool
get(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, double *out, struct span at)
{
	struct eval_store *s = user;
	const struct stored *k = cell(s, name);
	const double *from = is_gradient(op) ? k->gradient : k->now;

	if (from) {
		memcpy(out, from, (size_t)elems * sizeof *out);
		return true;
	}
	if (is_gradient(op)) {	/* no token needed this weight */
		memset(out, 0, (size_t)elems * sizeof *out);
		return true;
	}
	return s->first->get(s->first->user, op, name, type, elems, out, at);
}

/* No checkpoint holds states of the optimizer: the IR sets their start. */
static bool
has(void *user, enum ir_op op, const char *name)
{
	struct eval_store *s = user;

	return is_gradient(op) || cell(s, name)->now ||
	       (s->first && s->first->has(s->first->user, op, name));
}

static bool
put(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, const double *data, struct span at)
{
	struct eval_store *s = user;
	struct stored *k = cell(s, name);
	double **to = op == IR_ACCUMULATE ? &k->gradient : &k->next;
	int64_t i;

	(void)type;
	(void)at;
	if (!*to) {
		*to = arena_alloc(&s->c->perm, (size_t)elems * sizeof **to);
		k->elems = elems;
	}
	for (i = 0; i < elems; i++) {
		(*to)[i] = op == IR_ACCUMULATE ? (*to)[i] + data[i] : data[i];
	}
	return true;
}

static bool
input(void *user, const char *name, const struct ir_type *type,
      int64_t elems, double *out)
{
	struct eval_store *s = user;

	(void)type;
	return elems == 1 && ir_training_input(s->m, name, s->step, out);
}

struct eval_store *
eval_store_open(struct ir_module *m, const struct ir_weights *first)
{
	struct eval_store *s = arena_alloc(&m->ctx->perm, sizeof *s);

	s->m = m;
	s->c = m->ctx;
	s->first = first;
	s->source = (struct ir_weights){ get, put, has, input, s };
	return s;
}

const struct ir_weights *
eval_store_source(struct eval_store *s)
{
	return &s->source;
}

void
eval_store_begin(struct eval_store *s, int64_t step)
{
	s->step = (double)step;
}

static void
commit(struct eval_store *s)
{
	struct stored *k = s->cells.at;
	uint32_t i;

	for (i = 0; i < s->cells.n; i++, k++) {
		if (k->next) {
			double *old = k->now;

			k->now = k->next;
			k->next = old;
		}
		if (k->gradient) {
			memset(k->gradient, 0,
			       (size_t)k->elems * sizeof *k->gradient);
		}
	}
}

func_id
eval_update(const struct ir_module *m)
{
	return ir_func_find(m, intern_str(&m->ctx->syms, "update"));
}

bool
eval_store_end(struct eval_store *s, const struct ir_eval_options *opt)
{
	struct ir_eval_options update = *opt;
	struct ir_eval_result none[1];
	uint32_t n;

	update.func = eval_update(s->m);
	if (update.func && !ir_eval(s->m, &update, none, 1, &n)) {
		return false;
	}
	commit(s);
	return true;
}

/*
 * Tensors that last from step to step of `llmc eval --steps`: weights, what
 * the optimizer keeps, and gradients, each by its full name.  What was never
 * stored comes from a checkpoint, or from the generator.
 */
#include "frontend/tool/driver.h"

#include <string.h>

/* By name. What a step stores is seen from the next step on. */
struct cell {
	double *now, *next, *gradient;
	int64_t elems;
};

struct drv_store {
	struct ir_module *m;
	struct ir_ctx *c;
	const struct ir_weights *behind;	/* a checkpoint, or NULL */
	VEC(struct cell) cells;		/* by sym_t */
	struct ir_weights source;
	double step;
};

static struct cell *
cell(struct drv_store *s, const char *name)
{
	sym_t k = intern_str(&s->c->syms, name);

	while (s->cells.n <= k) {
		VEC_PUSH(&s->c->perm, &s->cells, (struct cell){ 0 });
	}
	return &s->cells.at[k];
}

static bool
is_gradient(enum ir_op op)
{
	return !ir_is(op, IRF_STORED);
}

static bool
get(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, double *out, struct span at)
{
	struct drv_store *s = user;
	const struct cell *k = cell(s, name);
	const double *from = is_gradient(op) ? k->gradient : k->now;

	if (from) {
		memcpy(out, from, (size_t)elems * sizeof *out);
		return true;
	}
	if (is_gradient(op)) {	/* no token needed this weight */
		memset(out, 0, (size_t)elems * sizeof *out);
		return true;
	}
	return s->behind->get(s->behind->user, op, name, type, elems, out, at);
}

/* What the optimizer keeps is in no file: it starts afresh. */
static bool
has(void *user, enum ir_op op, const char *name)
{
	struct drv_store *s = user;

	return is_gradient(op) || cell(s, name)->now ||
	       (s->behind && s->behind->has(s->behind->user, op, name));
}

static bool
put(void *user, enum ir_op op, const char *name, const struct ir_type *type,
    int64_t elems, const double *data, struct span at)
{
	struct drv_store *s = user;
	struct cell *k = cell(s, name);
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
	struct drv_store *s = user;

	(void)type;
	if (strcmp(name, "step") != 0 || elems != 1) {
		return false;
	}
	out[0] = s->step;
	return true;
}

struct drv_store *
drv_store_open(struct ir_module *m, const struct ir_weights *behind)
{
	struct drv_store *s = arena_alloc(&m->ctx->perm, sizeof *s);

	s->m = m;
	s->c = m->ctx;
	s->behind = behind;
	s->source = (struct ir_weights){ get, put, has, input, s };
	return s;
}

const struct ir_weights *
drv_store_source(struct drv_store *s)
{
	return &s->source;
}

void
drv_store_begin(struct drv_store *s, int64_t step)
{
	s->step = (double)step;
}

static void
commit(struct drv_store *s)
{
	struct cell *k = s->cells.at;
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
drv_update(const struct ir_module *m)
{
	return ir_func_find(m, intern_str(&m->ctx->syms, "update"));
}

bool
drv_store_end(struct drv_store *s, const struct ir_eval_options *opt)
{
	struct ir_eval_options update = *opt;
	struct ir_eval_result none[1];
	uint32_t n;

	update.func = drv_update(s->m);
	if (update.func && !ir_eval(s->m, &update, none, 1, &n)) {
		return false;
	}
	commit(s);
	return true;
}

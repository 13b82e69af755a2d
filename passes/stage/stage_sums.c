/*
 * Gradients that are sums.  For a weight that is used in several places, as at
 * both ends of the model, autodiff accumulates the sum of several terms.  Here
 * each term is accumulated by itself.  If terms are on different stages, the
 * sum would wait for all of them and a whole gradient would be sent per
 * microbatch; now the update adds them once a step.  On one stage, the sum
 * would need memory for a second gradient, mostly zeros for the few rows used
 * of an embedding.
 *
 * Ops between the additions and the sink that are linear in their one operand
 * are applied to each term instead.  The op's rule says which are linear.
 */
#include "passes/stage/stage.h"

#include <string.h>

struct uses {
	const struct stage *st;
	uint32_t *n;		/* by top number: uses */
};

static void
count_use(void *user, value_id v)
{
	struct uses *u = user;

	u->n[u->st->top[v]]++;
}

struct stage_item *
stage_maker(const struct stage *st, value_id v)
{
	return &st->items.at[st->item_of[st->top[v]]];
}

static bool
is_linear(const struct ir_node *n)
{
	return n->nargs == 1 && !n->region &&
	       (ir_is(n->op, IRF_CONVERTS) ||
		strncmp(ir_ops[n->op].split, "+a", 2) == 0);
}

/* Whether v is in backward and can be replaced by one term per operand. */
static bool
comes_apart(const struct uses *u, value_id v)
{
	const struct stage *st = u->st;
	const struct ir_module *m = st->m;
	const struct ir_node *n = ir_node(m, m->values.at[v].node);
	uint32_t i;

	if (!st->top[v] || st->copied[v] || u->n[st->top[v]] != 1 ||
	    !stage_maker(st, v)->backward ||
	    (n->op != IR_ADD && !is_linear(n))) {
		return false;
	}
	for (i = 0; i < n->nargs; i++) {
		value_id a = ir_args(m, n)[i];

		if (!st->top[a] || (n->op == IR_ADD &&
		    !ir_type_equal(ir_type(m, a), ir_type(m, v)))) {
			return false;
		}
	}
	return true;
}

/* A term is accumulated where it is computed, if that is one stage. */
uint32_t
stage_of_part(const struct stage *st, value_id v, uint32_t stage)
{
	const struct stage_item *it = stage_maker(st, v);

	return st->copied[v] || !it->backward || it->cut ? stage : it->stage;
}

/* Whether v is a sum of terms, or a term is computed on another stage. */
static bool
is_spread(const struct uses *u, value_id v, uint32_t stage)
{
	const struct ir_module *m = u->st->m;
	const struct ir_node *n = ir_node(m, m->values.at[v].node);
	uint32_t i;

	if (!comes_apart(u, v)) {
		return u->st->top[v] && stage_of_part(u->st, v, stage) != stage;
	}
	if (n->op == IR_ADD) {
		return true;
	}
	for (i = 0; i < n->nargs; i++) {
		if (is_spread(u, ir_args(m, n)[i], stage)) {
			return true;
		}
	}
	return false;
}

static void
take_apart(const struct uses *u, value_id v)
{
	const struct ir_module *m = u->st->m;
	const struct ir_node *n = ir_node(m, m->values.at[v].node);
	uint32_t i;

	if (comes_apart(u, v)) {
		stage_maker(u->st, v)->apart = true;
		for (i = 0; i < n->nargs; i++) {
			take_apart(u, ir_args(m, n)[i]);
		}
	}
}

void
stage_sums(struct stage *st)
{
	const struct ir_module *m = st->m;
	struct uses u = { .st = st };
	uint32_t i;

	u.n = arena_alloc(st->a, (st->ntop + 1) * sizeof *u.n);
	for (i = 0; i < st->items.n; i++) {
		stage_uses(st, st->items.at[i].node, count_use, &u);
	}
	for (i = 0; i < m->regions.at[st->body].results.n; i++) {
		count_use(&u, m->regions.at[st->body].results.at[i]);
	}
	for (i = 0; i < st->items.n; i++) {
		struct stage_item *it = &st->items.at[i];
		const struct ir_node *n = ir_node(m, it->node);
		value_id v;

		if (!it->backward || n->op != IR_ACCUMULATE) {
			continue;
		}
		v = ir_args(m, n)[0];
		it->spread = is_spread(&u, v, it->stage);
		if (it->spread) {
			take_apart(&u, v);
		}
	}
}

/*
 * Gradients that are sums.  Of a weight that is used at either end of the
 * model, autodiff adds the parts and accumulates the sum.  Each part is
 * accumulated by itself here.  With the parts on different stages the sum
 * would have to wait for all of them, and whole gradients would be sent for
 * each microbatch; now the update adds them up once a step.  On one stage it
 * would be a second gradient in memory, and of an embedding's rows, which are
 * few of all, a whole one of zeros.
 *
 * A sum is taken apart through what is linear in one operand: by its row, an
 * op that may run on a part of a sum.
 */
#include "passes/stage/stage.h"

#include <string.h>

struct uses {
	const struct stage *st;
	uint32_t *n;		/* by top number */
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

/* Whether v is a node of backward whose operands may go ways of their own. */
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

/* Where a part is accumulated: where it is made, if that is known. */
uint32_t
stage_of_part(const struct stage *st, value_id v, uint32_t stage)
{
	const struct stage_item *it = stage_maker(st, v);

	return st->copied[v] || !it->backward || it->cut ? stage : it->stage;
}

/* Whether v is a sum of parts, or one is made on another stage. */
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

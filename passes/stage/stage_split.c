/*
 * Finds what a stage's gradients of its inputs need.  In a schedule with split
 * backward, the first half computes these and sends them at once; everything
 * else is in the second half, which fills gaps (zero bubble, Qi et al. 2023).
 *
 * The roots are the same for every stage: what a cut repeat yields, and what
 * another stage uses.  So a repeat's iterations are split alike on all stages,
 * although the first stage sends its gradients to nobody.
 */
#include "passes/stage/stage.h"

struct chain {
	struct stage *st;
	const struct stage_item *at;	/* whose uses are being examined */
	VEC(value_id) todo;
};

static const struct stage_item *
maker(const struct stage *st, value_id v)
{
	return st->top[v] ? &st->items.at[st->item_of[st->top[v]]] : NULL;
}

static void
mark(struct chain *c, value_id v)
{
	const struct stage_item *by = maker(c->st, v);

	if (!c->st->chain[v] && !c->st->copied[v] && (!by || by->backward)) {
		c->st->chain[v] = true;
		VEC_PUSH(c->st->a, &c->todo, v);
	}
}

/* Marks a value that crosses between stages. */
static void
see_use(void *user, value_id v)
{
	struct chain *c = user;
	const struct stage_item *by = maker(c->st, v);

	if (by && by->backward &&
	    (c->at->cut || by->cut || by->stage != c->at->stage)) {
		mark(c, v);
	}
}

static void
mark_carried(struct chain *c, const struct ir_node *repeat, uint32_t k)
{
	mark(c, ir_args(c->st->m, repeat)[k]);
	mark(c, c->st->m->regions.at[repeat->region].results.at[k]);
}

static void
mark_sources(struct chain *c)
{
	const struct ir_module *m = c->st->m;
	uint32_t i;

	while (c->todo.n) {
		const struct ir_value *v =
			&m->values.at[c->todo.at[--c->todo.n]];
		const struct ir_node *n = ir_node(m, v->node ? v->node
			: m->regions.at[v->region].owner);

		if (n->region) {
			mark_carried(c, n, v->index);
			continue;
		}
		for (i = 0; i < n->nargs; i++) {
			mark(c, ir_args(m, n)[i]);
		}
	}
}

void
stage_chain(struct stage *st)
{
	struct chain c = { .st = st };
	uint32_t i, k;

	st->chain = arena_alloc(st->a, st->nvalues * sizeof *st->chain);
	if (!st->split) {
		return;
	}
	for (i = 0; i < st->items.n; i++) {
		const struct ir_node *n;

		c.at = &st->items.at[i];
		n = ir_node(st->m, c.at->node);
		if (!c.at->backward || c.at->apart || c.at->spread) {
			continue;
		}
		for (k = 0; c.at->cut && k < n->nresults; k++) {
			mark(&c, n->result + k);
		}
		/* values inside of a body have no item and are skipped */
		stage_uses(st, c.at->node, see_use, &c);
	}
	mark_sources(&c);
}

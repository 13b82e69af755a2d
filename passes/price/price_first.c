/*
 * The first microbatch.  The first kernel of a step that adds to a sum of
 * gradients stores it, and reads nothing there (host_sums.c of code
 * generation), so it moves less than in all microbatches that follow.
 *
 * Sums by index read and write just the places that an index names.  In the
 * first microbatch a GPU stores all places instead, and a CPU sets all of them
 * to zero beforehand.  Of a table that a contraction also adds to, as where it
 * is both embedding and head, the contraction comes first, so its rows are
 * added in each microbatch.  That is taken to be so in any plan: where the two
 * are on different ranks of the pipeline, each in truth stores a sum of its
 * own.  Where several contractions add to one sum, as of weights that are tied,
 * each is taken to store it, though only the first one does.
 */
#include "passes/price/price.h"

#include <math.h>

bool
price_adds(const struct ir_node *n)
{
	return ir_is(n->op, IRF_SUMS) && ir_is(n->op, IRF_SINK);
}

static sym_t
name_of(const struct ir_module *m, const struct ir_node *n)
{
	return ir_attr(m, n, IR_ATTR_NAME)->text;
}

/* The node of the kernel that sums the rows of a value by index, or NULL. */
static const struct ir_node *
scatter_of(const struct ir_module *m, const struct kernel *k, value_id v)
{
	node_id id = m->values.at[v].node;
	const struct ir_node *n = ir_node(m, id);

	return id && ir_is(n->op, IRF_MOVES) && *ir_ops[n->op].flops &&
	       kernel_has_node(k, id) ? n : NULL;
}

/* Whether a node that sums no rows by index adds to the same. */
static bool
is_shared(const struct ir_module *m, const struct ir_node *n)
{
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *x = ir_node(m, id);
		node_id maker;

		if (!price_adds(x) || name_of(m, x) != name_of(m, n)) {
			continue;
		}
		maker = m->values.at[ir_args(m, x)[0]].node;
		if (maker && !ir_is(ir_node(m, maker)->op, IRF_MOVES)) {
			return true;
		}
	}
	return false;
}

static double
less_bytes(const struct pricing *p, const struct kernel *k,
	   const struct ir_node *n)
{
	value_id v = ir_args(p->m, n)[0];
	const struct ir_node *rows = scatter_of(p->m, k, v);
	double all = kernel_bytes(p->m, v), some;

	if (!rows) {
		return all;
	}
	if (is_shared(p->m, n)) {
		return 0;
	}
	some = fmin(all, kernel_bytes(p->m, ir_args(p->m, rows)[0]));
	return target_is_cpu(&p->t->device) ? -all : 2 * some - all;
}

double
price_first_bytes(const struct pricing *p, const struct kernel *k)
{
	double bytes = 0;
	uint32_t i;

	for (i = 0; i < k->nodes.n && !p->traits->zeroed_sums; i++) {
		const struct ir_node *n = ir_node(p->m, k->nodes.at[i]);

		if (price_adds(n)) {
			bytes += less_bytes(p, k, n);
		}
	}
	return bytes;
}

double
price_first_share(const struct pricing *p, const struct kernel_list *l,
		  const struct kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(p->m, k->nodes.at[i]);

		if (price_adds(n) &&
		    !ir_name_is_in_layers(p->m, name_of(p->m, n))) {
			return 1 / (double)l->count;
		}
	}
	return 1;
}

void
price_set_mean(struct price_func *f, double runs)
{
	price_add_part(f, PRICE_MAPS, -f->first_us / runs);
	f->beside_us -= f->first_beside_us / runs;
	f->first_us = f->first_beside_us = 0;
}

void
price_set_first(struct price_func *f)
{
	price_set_mean(f, 1);
}

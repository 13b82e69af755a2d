/*
 * A lower bound of a step with parameters on hosts: what crosses their link.
 *
 * Proof.  A function of a stage takes as long as its kernels, and no less than
 * what its layers read and add takes on the link (price_link_us).  So a stage
 * takes at least its kernels forward and its link backward.  Backward of any
 * way to recompute has all nodes of the program that recomputes nothing
 * (piece_least.c): it reads those weights and adds those gradients, of which
 * the fullest rank has at least the mean.  Ranks of tp split all, those of ep
 * experts, and ZeRO splits among ranks that hold the same.
 *
 * What data ranks exchange is beside kernels that the link may hide, so none
 * of it is added.
 */
#include "passes/bound/bound_parts.h"
#include "passes/kernels/kernels.h"

#include <math.h>

/* Whether a weight, or the sum of a gradient, is new among the layer's. */
static bool
is_new(struct bound *b, struct bound_link *x, bool sum, sym_t name)
{
	uint32_t i;

	for (i = 0; i < x->names[sum].n && x->names[sum].at[i] != name; i++) {
	}
	if (i < x->names[sum].n) {
		return false;
	}
	VEC_PUSH(&b->space->keep, &x->names[sum], name);
	return true;
}

/* By enum bound_group; an inner repeat has one of a name, or several. */
static void
add(struct bound *b, const struct ir_module *m, value_id v, double times,
    double *moves, double *held)
{
	int group = ir_type_has(ir_type(m, v), b->space->expert_dim)
		? BOUND_EXPERTS : BOUND_OTHERS;

	moves[group] += times * kernel_bytes(m, v);
	if (held) {
		held[group] += kernel_bytes(m, v);
	}
}

void
bound_add_link(struct bound *b, const struct pricing *p, region_id r,
	       double times, struct bound_link *to)
{
	const struct ir_region *x = &p->m->regions.at[r];
	uint32_t i;

	for (i = 0; i < x->nodes.n; i++) {
		const struct ir_node *n = ir_node(p->m, x->nodes.at[i]);
		value_id in = price_param(p->m, n), sum = price_added(p->m, n);
		bool first = (in || sum) &&
			is_new(b, to, sum != 0,
			       ir_attr(p->m, n, IR_ATTR_NAME)->text);

		if (in) {
			add(b, p->m, in, times, to->moves.weights,
			    first ? to->held.weights : NULL);
		} else if (sum) {
			add(b, p->m, sum, times, to->moves.gradients,
			    first ? to->held.gradients : NULL);
		}
	}
}

void
bound_sum_link(struct bound *b)
{
	double all[PIECE_MAX];
	uint32_t k;
	int i;

	for (k = 0; k < BOUND_NGROUPS; k++) {
		for (i = 0; i < PIECE_MAX; i++) {
			all[i] = b->link[i].held.weights[k];
		}
		b->held.weights[k] = piece_sum(b->space, all, 0,
					       b->space->nlayers);
		for (i = 0; i < PIECE_MAX; i++) {
			all[i] = b->link[i].held.gradients[k];
		}
		b->held.gradients[k] = piece_sum(b->space, all, 0,
						 b->space->nlayers);
	}
}

/* Microseconds of a byte, over the quickest link. */
static double
byte_us(const struct space *s, uint32_t offload)
{
	double us = INFINITY;
	uint32_t i;

	for (i = 0; i < s->nsingle; i++) {
		const struct target_device *d = &s->devs.at[i]->device;
		double rate = d->host_bytes_us;

		if (offload & PLAN_NVME_PARAMS) {
			rate = fmin(rate, d->nvme_bytes_us);
		}
		us = fmin(us, rate > 0 ? 1 / rate : INFINITY);
	}
	return isfinite(us) ? us : 0;
}

/* Of a mean rank, in a microbatch. */
static double
bytes_of(const struct bound_params *x, const struct piece_key *key,
	 const struct space_plan *t)
{
	double moves = t->nmicrobatches > 1 ? 2 : 1, bytes = 0;
	int i;

	for (i = 0; i < BOUND_NGROUPS; i++) {
		enum bound_group k = (enum bound_group)i;

		bytes += x->weights[i] *
			 bound_part_of(t->g, k, key->zero > 2) +
			 moves * x->gradients[i] *
			 bound_part_of(t->g, k, key->zero > 1);
	}
	return bytes / (double)t->g->tp;
}

void
bound_find_link(struct bound *b, const struct piece_key *key,
		const struct space_plan *t, const struct bound_pieces *kernels,
		struct bound_pieces *us)
{
	double each = byte_us(b->space, key->offload) * (1 - PIECE_NEAR) /
		      (double)t->microbatch;
	int i;

	for (i = 0; i < PIECE_MAX; i++) {
		us->forward[i] = kernels->forward[i];
		us->all[i] = us->forward[i] +
			     each * bytes_of(&b->link[i].moves, key, t);
	}
	us->whole_us = piece_sum(b->space, us->all, 0, b->space->nlayers);
}

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
is_new(struct bound *b, struct bound_link *x, enum bound_param of, sym_t name)
{
	uint32_t i;

	for (i = 0; i < x->names[of].n && x->names[of].at[i] != name; i++) {
	}
	if (i < x->names[of].n) {
		return false;
	}
	VEC_PUSH(&b->space->keep, &x->names[of], name);
	return true;
}

/* An inner repeat has one tensor of a name or several: one is held at least. */
void
bound_add_link(struct bound *b, const struct pricing *p, region_id r,
	       double times, struct bound_link *to)
{
	const struct ir_region *x = &p->m->regions.at[r];
	uint32_t i;

	for (i = 0; i < x->nodes.n; i++) {
		const struct ir_node *n = ir_node(p->m, x->nodes.at[i]);
		value_id in = price_param(p->m, n);
		value_id v = in ? in : price_added(p->m, n);
		enum bound_param of = in ? BOUND_WEIGHTS : BOUND_GRADIENTS;
		enum bound_group group;
		double bytes;

		if (!v) {
			continue;
		}
		group = ir_type_has(ir_type(p->m, v), b->space->expert_dim)
			? BOUND_EXPERTS : BOUND_OTHERS;
		bytes = kernel_bytes(p->m, v);
		to->moves[of][group] += times * bytes;
		if (is_new(b, to, of, ir_attr(p->m, n, IR_ATTR_NAME)->text)) {
			to->held[of][group] += bytes;
		}
	}
}

void
bound_sum_link(struct bound *b)
{
	double all[PIECE_MAX];
	int of, group, i;

	for (of = 0; of < BOUND_NPARAMS; of++) {
		for (group = 0; group < BOUND_NGROUPS; group++) {
			for (i = 0; i < PIECE_MAX; i++) {
				all[i] = b->link[i].held[of][group];
			}
			b->held[of][group] = piece_sum(b->space, all, 0,
						       b->space->nlayers);
		}
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
bytes_of(const struct bound_link *x, const struct piece_key *key,
	 const struct space_plan *t)
{
	double moves = t->nmicrobatches > 1 ? 2 : 1, bytes = 0;
	int i;

	for (i = 0; i < BOUND_NGROUPS; i++) {
		enum bound_group k = (enum bound_group)i;

		bytes += x->moves[BOUND_WEIGHTS][i] *
			 bound_part_of(t->g, k, key->zero > 2) +
			 moves * x->moves[BOUND_GRADIENTS][i] *
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
			     each * bytes_of(&b->link[i], key, t);
	}
	us->whole_us = piece_sum(b->space, us->all, 0, b->space->nlayers);
}

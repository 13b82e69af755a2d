/*
 * Lower bounds of what ranks, and the hosts of their nodes, have of weights,
 * gradients and optimizer state.
 *
 * Ranks of tp and pp split a tensor; those of ep one of experts, too, and ZeRO
 * splits it among all ranks that hold the same.  So a mean rank has at least
 * that part of a copy, and if all hosts together have less memory than all
 * ranks have there, the host of some node has too little.
 */
#include "passes/bound/bound_parts.h"

double
bound_part_of(const struct space_degrees *g, enum bound_group group, bool cut)
{
	double ranks = (double)(g->dp * g->cp), ep = (double)g->ep;

	return cut ? 1 / (ranks * ep) : group == BOUND_EXPERTS ? 1 / ep : 1;
}

#define NSTATICS 3	/* weights, gradients, optimizer state */

/* Whether ZeRO splits one of them. */
static bool
is_cut(int zero, int i)
{
	return zero >= NSTATICS - i;
}

/* What of `offload` it lies on hosts by; `drives`: on their drives. */
static uint32_t
home_of(int i, bool drives)
{
	return i == 2 ? drives ? PLAN_NVME_OPTIMIZER : PLAN_OFFLOAD_OPTIMIZER
		      : drives ? PLAN_NVME_PARAMS : PLAN_OFFLOAD_PARAMS;
}

double
bound_least_bytes(const struct bound *b, const struct space_degrees *g,
		  int zero, uint32_t offload)
{
	double others = 1 - b->expert_part, least = 0;
	int i;

	for (i = 0; i < NSTATICS; i++) {
		bool cut = is_cut(zero, i);

		if (!(offload & home_of(i, false))) {
			least += b->static_bytes[i] *
				 (others * bound_part_of(g, BOUND_OTHERS, cut) +
				  b->expert_part *
				  bound_part_of(g, BOUND_EXPERTS, cut));
		}
	}
	return least / (double)(g->tp * g->pp);
}

/* Bytes of a copy that lie on hosts, of parameters those of layers alone. */
static double
hosted_bytes(const struct bound *b, int i, enum bound_group group)
{
	double part = group == BOUND_EXPERTS ? b->expert_part
					     : 1 - b->expert_part;

	return i == 2 ? b->static_bytes[i] * part : !b->link ? 0
		: b->held[i == 1 ? BOUND_GRADIENTS : BOUND_WEIGHTS][group];
}

double
bound_host_bytes(const struct bound *b, const struct space_degrees *g,
		 int zero, uint32_t offload, bool drives)
{
	double all = 0;
	int i, k;

	for (i = 0; i < NSTATICS; i++) {
		if (!(offload & home_of(i, false)) ||
		    !(offload & home_of(i, true)) != !drives) {
			continue;
		}
		for (k = 0; k < BOUND_NGROUPS; k++) {
			enum bound_group group = (enum bound_group)k;

			all += hosted_bytes(b, i, group) *
			       bound_part_of(g, group, is_cut(zero, i));
		}
	}
	return all * (double)g->used / (double)(g->tp * g->pp);
}

bool
bound_is_above_hosts(const struct bound *b, const struct space_degrees *g,
		     int zero, uint32_t offload)
{
	const struct target *t = b->space->target;
	int drives;

	for (drives = 0; drives < 2; drives++) {
		if (bound_host_bytes(b, g, zero, offload, drives) *
			    (1 - PIECE_NEAR) >
		    target_hosts_bytes(t, g->used, drives)) {
			return true;
		}
	}
	return false;
}

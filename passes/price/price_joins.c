/*
 * What shares a call or a launch, by the target.  Below which sizes fuse_join.c
 * joins collectives: the bytes that a link moves while a collective starts, and
 * those that memory moves in the same time.  And whether fuse_launch.c lets
 * contractions share launches: where there are kernels by wgmma or tcgen05.
 * They are settings of the module, as a plan is, so that its kernels do not
 * depend on whether a target is given.  Without them nothing is joined.
 */
#include "passes/price/price.h"

#include <math.h>

static void
set_number(struct ir_module *m, const char *key, double v)
{
	struct ir_setting s = { .kind = SET_NUM, .n = 1, .num = { floor(v) } };

	if (!ir_setting(m, key)) {
		s.key = intern_str(&m->ctx->syms, key);
		VEC_PUSH(&m->ctx->perm, &m->settings, s);
	}
}

/* All devices of a node, or of all nodes if each has one. */
static struct cost_group
all_of(const struct target *t, const struct target_group *of)
{
	return of->devices < 2
		? (struct cost_group){ .per_node = 1, .sharing = 1,
				       .nodes = target_nodes(t) }
		: (struct cost_group){ .per_node = of->devices,
				       .nodes = 1, .sharing = 1 };
}

/* The kind of node with the slowest links, which all others wait for. */
static const struct target_group *
slowest_group(const struct target *t)
{
	static const double large_bytes = 1 << 26;
	const struct target_group *best = t->groups.at;
	double most = 0;
	uint32_t i;

	for (i = 0; i < t->groups.n; i++) {
		const struct target_group *of = &t->groups.at[i];
		struct cost_group g = all_of(t, of);
		double us = cost_collective(of, COST_ALL_REDUCE, &g,
					    large_bytes, NULL).us;

		best = us > most ? of : best;
		most = fmax(us, most);
	}
	return best;
}

static bool
all_share_launches(const struct target *t)
{
	static const struct price_traits ours;
	uint32_t i;

	for (i = 0; i < t->groups.n &&
	     price_has_own_tail(&ours, &t->groups.at[i].device); i++) {
	}
	return i == t->groups.n;
}

void
price_set_joins(struct ir_module *m, const struct target *cluster)
{
	const struct target_group *t = slowest_group(cluster);
	const struct target_device *d = &t->device;
	struct cost_group g = all_of(cluster, t);
	double start_us, rate = t->devices < 2 ? t->network.bytes_us
				: d->link_bytes_us * d->link_eff;

	if (all_share_launches(cluster)) {
		set_number(m, "join.tiles", 1);
	}
	start_us = cost_collective(t, COST_ALL_REDUCE, &g, 1, NULL).launch_us;
	if (start_us * rate < 1) {
		return;
	}
	set_number(m, "join.link", start_us * rate);
	/* on a CPU no kernel runs beside a collective */
	if (!target_is_cpu(d)) {
		set_number(m, "join.work", start_us * d->memory_bytes_us *
					   d->memory_eff);
	}
}

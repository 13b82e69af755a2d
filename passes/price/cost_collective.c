/*
 * Collectives: latency plus bytes over bandwidth at each level, of the cheapest
 * of the algorithms that NCCL has too.  A ring moves (n-1)/n of the bytes once
 * or twice through every link (Patarasuk and Yuan, J. Parallel Distrib. Comput.
 * 69(2), 2009); a pair of trees has fewer steps (Sanders, Speck, Traeff,
 * Parallel Computing 35(12), 2009, as in NCCL 2.4).
 */
#include "passes/price/cost.h"

#include <math.h>

const char *const cost_op_names[COST_NOPS] = {
	"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
	"send_recv", "broadcast"
};

const char *const cost_way_names[COST_NWAYS] = {
	"none", "ring", "trees", "by levels", "in the switch", "direct"
};

/*
 * NCCL moves small messages with a flag in every line (LL, LL128) and large
 * ones in slices (Simple): the first starts at once but reaches a part of the
 * link's bandwidth only, the second reaches all of it after a longer start.
 * Both figures, in parts of the bandwidth and of link_start, are fitted to
 * collectives.tsv, to all devices at once.
 */
#define LINES_PART 0.57
#define SLICES_START 2.0
/* Sends and receives start later, as each waits for its peer (same rows). */
#define PEERS_START 1.67
/*
 * The ring's first step also copies a rank's own part: half a step beside
 * what it sends (same rows: all_gather and reduce_scatter, 2 to 8 ranks).
 */
#define OWN_PART 0.5
/* Each byte goes to the switch and back once; same rows, H100 and B200. */
#define SWITCH_PART 0.74
#define SWITCH_LEAST 8		/* ranks: NCCL uses it from so many on */
/*
 * One kernel that reads the peers' memory, without NCCL; TensorRT-LLM does
 * so up to 8 MiB (its custom all-reduce; same rows).
 */
#define DIRECT_START 0.56
#define DIRECT_MOST (8.0 * 1024 * 1024)
/* Of a port's line rate, headers and flow control taken off. */
#define NETWORK_PART 0.92

/* ---- groups, and the links that they have ---- */

struct cost_group
cost_group_apart(const struct target_group *t, int64_t n, int64_t apart)
{
	int64_t fit = apart < t->devices ? t->devices / apart : 1;
	int64_t linked = t->device.link_devices;
	struct cost_group g = { .per_node = n < fit ? n : fit };

	g.nodes = (n + g.per_node - 1) / g.per_node;
	g.sharing = t->devices > g.per_node ? t->devices / g.per_node : 1;
	linked = linked < 1 ? g.per_node : linked > apart ? linked / apart : 1;
	g.sets = (g.per_node + linked - 1) / linked;
	return g;
}

struct links {
	double inside_us;	/* bytes/us of one rank, inside the node */
	double alone_us;	/* the same, of what stays in the node */
	double outside_us;	/* bytes/us of the whole node */
	double start_us, hop_us, net_us;
	double n, k, nodes;	/* ranks: all, in a node; nodes */
};

/*
 * What one group gets of its node's bridge, for so many crossings of each of
 * its bytes, if the groups beside it do the same at once.
 */
static double
bridge_bytes_us(const struct target_device *d, const struct cost_group *g,
		double crossings)
{
	return d->bridge_bytes_us > 0 && crossings > 0 ?
		d->bridge_bytes_us / (crossings * (double)g->sharing)
		: INFINITY;
}

/*
 * Whether what leaves a device goes through its host's memory: no other device
 * reads it over PCIe, and so no network card does.
 */
static bool
is_hosted(const struct target_device *d)
{
	return d->link_devices == 1 && d->bridge_bytes_us > 0;
}

/*
 * A link joins link_devices devices; between such sets all goes over the bridge
 * that the node's devices share.  A ring crosses it once from each set to the
 * next; in several nodes the last set's next one is in another node.  If
 * hosted, the ring also crosses it on its way out of the node and into it.
 */
static double
ring_crossings(const struct target_device *d, const struct cost_group *g,
	       bool leaves)
{
	double sets = (double)g->sets;

	if (sets <= 0) {
		sets = d->link_devices > 0 ? ceil((double)g->per_node /
						  (double)d->link_devices) : 1;
	}
	if (leaves) {
		return is_hosted(d) ? sets + 1 : sets - 1;
	}
	return sets > 1 ? sets : 0;
}

/* A send goes from one rank to one other. */
static double
crossings_of(const struct target_device *d, enum cost_op op,
	     const struct cost_group *g)
{
	double ring = ring_crossings(d, g, g->nodes > 1);

	return op == COST_SEND ? fmin(ring, 1) : ring;
}

/* What goes out of a node; as much comes in, except of a send. */
static double
outside_crossings(const struct target_device *d, enum cost_op op)
{
	return !is_hosted(d) ? 0 : op == COST_SEND ? 1 : 2;
}

/*
 * Ports belong to devices: a group uses those of its own devices, and where
 * there are more groups than ports, they share them.
 */
static double
port_bytes_us(const struct target_group *t, const struct cost_group *g)
{
	double ports = (double)t->network.ports;
	double own = (double)g->per_node * ports / (double)t->devices;

	own = own < 1 ? 1 : own;
	own = fmin(own, ports / (double)g->sharing);
	return t->network.bytes_us * NETWORK_PART * own;
}

static struct links
links_of(const struct target_group *t, enum cost_op op,
	 const struct cost_group *g)
{
	const struct target_device *d = &t->device;
	double link_us = d->link_bytes_us * d->link_eff;
	struct links l = {
		.inside_us = fmin(link_us, bridge_bytes_us(d, g,
					crossings_of(d, op, g))),
		.alone_us = fmin(link_us, bridge_bytes_us(d, g,
					ring_crossings(d, g, false))),
		.outside_us = g->nodes > 1 ?
			fmin(port_bytes_us(t, g),
			     bridge_bytes_us(d, g, outside_crossings(d, op)))
			: INFINITY,
		.start_us = t->device.link_start_us,
		.hop_us = t->device.link_hop_us,
		.net_us = t->network.latency_us,
		.k = (double)g->per_node, .nodes = (double)g->nodes
	};

	l.n = l.k * l.nodes;
	if (g->per_node == 1) {
		l.inside_us = l.alone_us = INFINITY;
	}
	return l;
}

/* ---- one algorithm at a time ---- */

/* An algorithm with its latency and the time of its bytes. */
struct coll_way {
	enum cost_way way;
	double latency_us, bytes_us;
};

/* The cheaper protocol for what takes this long on full links. */
static struct coll_way
protocol(const struct links *l, enum cost_way way, double latency_us,
	 double full_us)
{
	double lines = full_us / LINES_PART;
	double slices = full_us + SLICES_START * l->start_us;

	if (lines < slices) {
		return (struct coll_way){ way, latency_us, lines };
	}
	return (struct coll_way){ way, latency_us + SLICES_START * l->start_us,
			     full_us };
}

/* Once around: all hops, those between nodes among them. */
static double
ring_hops_us(const struct links *l)
{
	double crossings = l->nodes > 1 ? l->nodes : 0;

	return (l->n - 1 - (crossings > 0 ? crossings - 1 : 0)) * l->hop_us +
	       (crossings > 0 ? crossings - 1 : 0) * l->net_us;
}

static struct coll_way
ring(const struct links *l, enum cost_op op, double bytes)
{
	double narrow = fmin(l->inside_us, l->outside_us);
	double steps = l->n - 1, turns = 1;

	if (op == COST_ALL_REDUCE) {
		turns = 2;
	} else if (op == COST_BROADCAST) {
		steps = l->n;	/* every rank but one sends all of it */
	} else {
		steps += OWN_PART;
	}
	return protocol(l, COST_RING, l->start_us + turns * ring_hops_us(l),
			turns * steps * bytes / l->n / narrow);
}

/*
 * A chain inside each node, two trees of half the bytes between nodes: up
 * and down, a node passes on all bytes twice, or once if there are but two.
 */
static struct coll_way
trees(const struct links *l, enum cost_op op, double bytes)
{
	double turns = op == COST_ALL_REDUCE ? 2 : 1;
	double depth = ceil(log2(l->nodes));
	double out = l->nodes > 2 ? turns * bytes : turns * bytes / 2;

	return protocol(l, COST_TREE, l->start_us +
			turns * ((l->k - 1) * l->hop_us + depth * l->net_us),
			fmax(turns * bytes / l->inside_us,
			     out / l->outside_us));
}

/*
 * In the node, then between nodes with a k-th of the bytes on each rank, then
 * in the node again; the stages do not overlap.
 */
static struct coll_way
levels(const struct links *l, enum cost_op op, double bytes)
{
	double turns = op == COST_ALL_REDUCE ? 2 : 1;
	double in = turns * (l->k - 1 + OWN_PART) / l->k * bytes /
		    l->alone_us;
	double out = turns * (l->nodes - 1) / l->nodes * bytes /
		     l->outside_us;

	return protocol(l, COST_LEVELS, (1 + turns) * l->start_us +
			turns * ((l->k - 1) * l->hop_us +
				 (l->nodes - 1) * l->net_us), in + out);
}

/* All bytes to the switch and back, once. */
static struct coll_way
in_switch(const struct links *l, double bytes)
{
	double up = (l->n + 1) / l->n * bytes /
		    (l->inside_us * SWITCH_PART);

	return (struct coll_way){ COST_SWITCH, l->start_us + 2 * (l->n - 1) *
			     l->hop_us + SLICES_START * l->start_us, up };
}

/* Each rank reads all operands, or adds up a part and reads the other sums. */
static struct coll_way
direct(const struct links *l, double bytes)
{
	double start_us = DIRECT_START * l->start_us;
	struct coll_way once = { COST_DIRECT, start_us,
			    (l->n - 1) * bytes / l->inside_us };
	struct coll_way twice = { COST_DIRECT, 2 * start_us,
			     2 * (l->n - 1) / l->n * bytes / l->inside_us };

	return once.latency_us + once.bytes_us <
	       twice.latency_us + twice.bytes_us ? once : twice;
}

/* All pairs at once; what leaves the node is all but the node's own share. */
static struct coll_way
exchange(const struct links *l, double bytes)
{
	double in = (l->k - 1 + OWN_PART) / l->n * bytes / l->alone_us;
	double out = l->k * (l->nodes - 1) / l->nodes * bytes / l->outside_us;

	return protocol(l, COST_RING, PEERS_START * l->start_us +
			(l->nodes > 1 ? l->net_us : 0), fmax(in, out));
}

/* From one rank to another: a ring of one step, without the slices' start. */
static struct coll_way
send(const struct links *l, double bytes)
{
	double full = bytes / fmin(l->inside_us, l->outside_us);

	return (struct coll_way){ COST_RING, l->start_us +
			     (l->nodes > 1 ? l->net_us : l->hop_us), full };
}

/* ---- the cheapest ---- */

static void
keep_cheaper(struct coll_way *best, struct coll_way w)
{
	if (best->way == COST_NO_WAY || w.latency_us + w.bytes_us <
	    best->latency_us + best->bytes_us) {
		*best = w;
	}
}

static void
ring_or_better(const struct target_device *d, const struct links *l,
	       enum cost_op op, const struct cost_group *g, double bytes,
	       struct coll_way *best)
{
	keep_cheaper(best, ring(l, op, bytes));
	if (l->nodes > 1 && (op == COST_ALL_REDUCE || op == COST_BROADCAST)) {
		keep_cheaper(best, trees(l, op, bytes));
	}
	if (l->nodes > 1 && l->k > 1 && op != COST_BROADCAST) {
		keep_cheaper(best, levels(l, op, bytes));
	}
	if (l->nodes > 1 || op != COST_ALL_REDUCE) {
		return;
	}
	if (d->reduces && l->n >= SWITCH_LEAST) {
		keep_cheaper(best, in_switch(l, bytes));
	}
	/* across a bridge no device reads another's memory */
	if (g->direct && d->bridge_bytes_us <= 0 && bytes <= DIRECT_MOST) {
		keep_cheaper(best, direct(l, bytes));
	}
}

struct cost
cost_collective(const struct target_group *t, enum cost_op op,
		const struct cost_group *g, double bytes, enum cost_way *way)
{
	struct coll_way best = { COST_NO_WAY, 0, 0 };
	struct links l = links_of(t, op, g);
	struct cost c;

	if (l.n <= 1 || bytes <= 0) {
		best.way = COST_NO_WAY;
	} else if (op == COST_ALL_TO_ALL) {
		keep_cheaper(&best, exchange(&l, bytes));
	} else if (op == COST_SEND) {
		keep_cheaper(&best, send(&l, bytes));
	} else {
		ring_or_better(&t->device, &l, op, g, bytes, &best);
	}
	if (way) {
		*way = best.way;
	}
	c.us = best.latency_us + best.bytes_us;
	c.math_us = best.bytes_us;
	c.memory_us = 0;
	c.launch_us = best.latency_us;
	return c;
}

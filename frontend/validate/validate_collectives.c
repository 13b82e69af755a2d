/*
 * Reads rows of collectives: which ranks take part, over which links, and what
 * the size counts.
 */
#include "frontend/validate/validate.h"

#include <string.h>

enum column { OP, GPU, N_GPUS, N_NODES, INTERCONNECT, SIZE, SEMANTICS,
	      TIME_US, TOOL, SOURCE, NCOLUMNS };

static const char *const columns[NCOLUMNS] = {
	"op", "gpu", "n_gpus", "n_nodes", "interconnect", "size_bytes",
	"size_semantics", "time_us", "tool", "source"
};

#define LEAST_MARKED 65536

struct collectives {
	struct val *v;
	int at[NCOLUMNS];
	uint32_t row;
	const struct target_network *network;	/* --network, or NULL */
};

static const char *
cell(const struct collectives *x, enum column c)
{
	return tsv_cell(&x->v->table, x->row, x->at[c]);
}

/* Why the cell is no whole number, or NULL. */
static const char *
whole(const struct collectives *x, enum column c, int64_t *out)
{
	const char *s = cell(x, c);

	return num_parse_int(s, strlen(s), out) && *out > 0 ? NULL
		: val_unread(x->v, x->row, x->at[c],
			     "a whole number from 1 on");
}

static bool
has(const struct collectives *x, enum column c, const char *text)
{
	return strstr(cell(x, c), text) != NULL;
}

static bool
op_of(const char *name, enum cost_op *out)
{
	int i;

	for (i = 0; i < COST_NOPS; i++) {
		if (strcmp(cost_op_names[i], name) == 0) {
			*out = (enum cost_op)i;
			return true;
		}
	}
	return false;
}

/*
 * The size in nccl-tests is the larger side of a rank, as in the cost model; in
 * tables with sizes per rank, that of a gather is what one rank contributes.
 */
static double
bytes_of(const struct collectives *x, enum cost_op op, double size,
	 double ranks)
{
	bool own = has(x, SEMANTICS, "per rank") &&
		   (op == COST_ALL_GATHER || op == COST_REDUCE_SCATTER);

	return own ? size * ranks : size;
}

static const char *
price(struct collectives *x, struct val_row *r)
{
	/* devices that are bridged in pairs */
	const char *name = has(x, INTERCONNECT, "pairwise_nvlink") &&
			   strcmp(cell(x, GPU), "a100") == 0
			   ? "a100-pcie-bridged" : cell(x, GPU);
	const struct target_group *known = val_target(x->v, name);
	struct cost_group g = { .sharing = 1 };
	int64_t size, ranks, nodes;
	struct target_group t;
	const char *why;
	enum cost_op op;

	if (!known) {
		return "its gpu is no target";
	}
	if (!op_of(cell(x, OP), &op)) {
		return "no formula is for this op";
	}
	why = whole(x, SIZE, &size);
	why = why ? why : whole(x, N_GPUS, &ranks);
	why = why ? why : whole(x, N_NODES, &nodes);
	if (why) {
		return why;
	}
	if (ranks % nodes != 0) {
		return "its nodes do not divide its ranks";
	}
	if (!tsv_number(&x->v->table, x->row, x->at[TIME_US],
			&r->measured_us) || r->measured_us <= 0) {
		return val_unread(x->v, x->row, x->at[TIME_US],
				  "a number of microseconds");
	}
	r->marked = size >= LEAST_MARKED;
	t = *known;
	t.nodes = nodes;
	t.devices = t.device.node_devices;
	if (nodes > 1 && !x->network) {
		return "the row does not say what joins its nodes: --network "
		       "does";
	}
	if (nodes > 1) {
		int64_t ports = t.network.ports;

		t.network = *x->network;
		t.network.ports = ports;
	}
	g.per_node = ranks / nodes;
	g.nodes = nodes;
	g.direct = has(x, TOOL, "custom all-reduce");
	val_add(r, cost_collective(&t, op, &g,
				   bytes_of(x, op, (double)size,
					    (double)ranks), NULL));
	return NULL;
}

bool
val_collectives(struct val *v)
{
	const char *network = v->d->opts.at[OPT_NETWORK].text;
	struct arena *a = &v->d->ctx.perm;
	struct collectives x = { .v = v };
	struct target_network joined = { 0 };
	struct diag_near near;

	v->marks = "64 KB and more";
	if (network) {
		diag_near_init(&near, network);
		if (!target_network(network, &joined, &near)) {
			diag_error(&v->d->ctx.diags, (struct span){ 0, 0 },
				   "there is no network `%s`%s: there are %s",
				   network, diag_near_text(&near, a),
				   target_networks(a));
			return false;
		}
		x.network = &joined;
	}
	if (!tsv_columns(&v->table, &v->d->ctx.diags, "collectives", columns,
			 NCOLUMNS, x.at)) {
		return false;
	}
	for (x.row = 0; x.row < v->table.nrows; x.row++) {
		struct val_row r = { .source = cell(&x, SOURCE),
				     .device = cell(&x, GPU),
				     .span = v->table.spans[x.row],
				     .row = x.row };

		r.what = arena_printf(a, "%s %s x%s in %s %s bytes %s",
			cell(&x, OP), cell(&x, GPU), cell(&x, N_GPUS),
			cell(&x, N_NODES), cell(&x, SIZE), cell(&x, TOOL));
		v->unread = (struct span){ 0, 0 };
		r.why = price(&x, &r);
		r.unread = v->unread;
		r.kind = arena_printf(a, "%s, %s", cell(&x, OP), r.marked
			? ">= 64 KB" : "< 64 KB");
		val_push(v, &r);
	}
	return true;
}

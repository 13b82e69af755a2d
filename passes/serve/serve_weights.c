/*
 * The weights of a rank: how each is stored, and their bytes, by the part of
 * the program that reads them.
 */
#include "passes/serve/serve_reading.h"

/* The weight that a contraction multiplies by. */
value_id
serve_weight_of(const struct ir_module *m, const struct ir_node *n)
{
	value_id v = 0;
	uint32_t i;

	for (i = 0; i < n->nargs && !v; i++) {
		v = pass_weight_of(m, ir_args(m, n)[i]);
	}
	return v;
}

/* Whether slices of the weight are read. */
bool
serve_is_cut(const struct ir_module *m, value_id weight)
{
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);

		if (n->op == IR_SLICE && ir_args(m, n)[0] == weight) {
			return true;
		}
	}
	return false;
}

double
serve_elem_bytes(const struct ir_module *m, value_id v)
{
	return ir_elem_bytes(ir_type(m, v)->dtype);
}

static const struct pass_stored *
own_storing(const struct serve_reading *r, value_id weight)
{
	const struct ir_node *n = ir_node(r->m, r->m->values.at[weight].node);

	return &r->as[ir_attr(r->m, n, IR_ATTR_NAME)->text];
}

/*
 * How the weight is stored, in a layer or not.  Published engines store all
 * matrices of layers in one format.
 */
enum serve_stored
serve_stored_as(const struct serve_reading *r, value_id weight, bool is_layer)
{
	const struct pass_stored *as;

	if (!r->as && is_layer) {
		return ir_type(r->m, weight)->ndims > 1 &&
		       !serve_is_cut(r->m, weight) ? SERVE_ASKED
						   : SERVE_DECLARED;
	} else if (!r->as) {
		return SERVE_OUTER;
	}
	as = own_storing(r, weight);
	return !as->is_rounded ? SERVE_DECLARED
		: as->is_outer ? SERVE_OUTER
		: as->in_groups ? SERVE_ASKED : SERVE_WIDE;
}

/* The first contraction of that weight, or NULL. */
static const struct ir_node *
contraction_of(const struct ir_module *m, value_id weight)
{
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);

		if (ir_is(n->op, IRF_CONTRACTS) && !ir_is(n->op, IRF_PAIRS) &&
		    serve_weight_of(m, n) == weight) {
			return n;
		}
	}
	return NULL;
}

/* Scales of a weight in 8 bits, of which each rank has all: one for each index
 * of the dims that no row is along. */
static double
scales_of(const struct serve_reading *r, value_id weight)
{
	const struct ir_type *t = ir_type(r->m, weight);
	const struct ir_attr *over = &own_storing(r, weight)->over;
	double n = 1;
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		n *= ir_attr_has(over, t->dims[i])
			? 1 : (double)ir_dim_size(r->m, t->dims[i]);
	}
	return n;
}

static void
add_weight(const struct serve_reading *r, const struct ir_node *n,
	   double times, struct serve_part *part)
{
	double elems = times * ir_most_elems(r->m, ir_type(r->m, n->result));
	const struct ir_node *reader = contraction_of(r->m, n->result);
	bool of_experts = reader && ir_is(reader->op, IRF_INDEXED);
	enum serve_stored as = SERVE_DECLARED;
	struct serve_held *to;

	if (n->op == IR_WEIGHT && (part->is_layer || reader)) {
		as = serve_stored_as(r, n->result, part->is_layer);
	}
	to = &part->held[as][of_experts];
	to->elems += elems;
	to->bytes += elems * serve_elem_bytes(r->m, n->result);
	if (r->as && as != SERVE_DECLARED) {
		to->rows += times * scales_of(r, n->result);
	}
}

/* The weights of a region and those inside it. */
void
serve_add_weights(const struct serve_reading *r, region_id id, double times,
		  struct serve_part *part)
{
	const struct ir_region *region = &r->m->regions.at[id];
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(r->m, region->nodes.at[i]);

		if (ir_is(n->op, IRF_REGION)) {
			int64_t count = ir_attr_int(r->m, n, IR_ATTR_COUNT, 1);

			serve_add_weights(r, n->region, times * (double)count,
					  part);
		} else if (ir_is(n->op, IRF_LOADED)) {
			add_weight(r, n, times, part);
		}
	}
}

static bool
reads(const struct ir_module *m, const struct ir_node *n, value_id v)
{
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		if (ir_args(m, n)[i] == v) {
			return true;
		}
	}
	return false;
}

/* Weights outside of repeats, each in the first part that reads it. */
void
serve_add_outer_weights(const struct serve_reading *r, region_id body)
{
	const struct ir_region *region = &r->m->regions.at[body];
	uint32_t i, k;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *w = ir_node(r->m, region->nodes.at[i]);
		uint32_t part = 0;

		if (!ir_is(w->op, IRF_LOADED)) {
			continue;
		}
		for (k = 0; k < region->nodes.n; k++) {
			const struct ir_node *n = ir_node(r->m,
						region->nodes.at[k]);

			if (reads(r->m, n, w->result)) {
				break;
			}
			/* a repeat is a part, and what follows another */
			part += ir_is(n->op, IRF_REGION) ? 2 : 0;
		}
		add_weight(r, w, 1, &r->out->part[part < r->out->nparts
						  ? part : 0]);
	}
}

/*
 * The plan of a contraction with experts: its factors, its tile and its
 * blocks.  Candidates are counted as for other contractions, but how long a
 * step takes depends on the router, so --autotune does not time them.
 */
#include "codegen/cuda/experts/cuda_experts.h"

static void
find_factors(struct cu_experts *x)
{
	struct cu_dot *d = &x->dot;
	const struct cg_view *views[] = { &d->view[0], &d->view[1] };
	const struct cg_site site = cu_site(d->k);

	if (x->to) {
		cg_picks_factors(&site, &x->p, views, &d->m, &d->n, d->dims);
		d->dims[0].n = 1;
		d->dims[0].at[0] = ir_type_at(ir_type(site.m, d->value),
					      x->p.of);
		d->dims[0].size[0] = x->p.n;
		d->batch.size = x->p.n;
		/* only its strides are used: the list selects its positions */
		cg_factor_count(&x->p, &d->over);
		return;
	}
	cg_picks_factors(&site, &x->p, views, &d->over, &d->n, d->dims);
	d->dims[1].n = 1;
	d->dims[1].at[0] = -1;
	d->batch.size = 1;
	cg_factor_add(&d->batch, x->p.n, 0, d->view[1].stride[
			      ir_type_at(x->p.types[1], x->p.of)]);
	/* only its strides are used: the list selects its positions */
	cg_factor_count(&x->p, &d->m);
	d->row_at[0] = "where[r]";
	d->table[0] = "const i64 *where";
}

/*
 * Cycles of the whole step.  In dot_at the last block of an expert's rows is
 * half empty on average.
 */
static double
cycles_of(const struct cu_experts *x, const struct cu_tile *t,
	  const struct cg_split *rows, const struct cg_split *cols)
{
	const struct cu_dot *d = &x->dot;
	double n = (double)x->p.n, k = (double)d->over.size, tiles;

	if (x->to) {
		tiles = n * (double)rows->blocks * (double)cols->blocks;
		k /= n;
	} else {
		tiles = ((double)d->m.size / (double)t->m + n / 2) *
			(double)cols->blocks;
	}
	return cu_tiles_cycles(d->k->c, d->unit, t, tiles, k,
			       cu_dot_put_slots(d, t, false));
}

/* Adds a candidate.  True: it is the choice so far. */
static bool
add_way(struct cu_experts *x, const struct cu_tile *t, double cycles)
{
	struct plan_tile tile = { .num = {
		[PLAN_TILE_M] = t->m, [PLAN_TILE_N] = t->n,
		[PLAN_TILE_K] = t->k, [PLAN_TILE_STAGES] = t->stages,
		[PLAN_TILE_WARPS] = t->threads / 32
	} };

	return cu_candidates_add(x->dot.k->c->a, &x->candidates, &tile, false,
				 cycles);
}

/* Tries one size of tiles.  True: it is the choice so far. */
static bool
try_tile(struct cu_experts *x, struct cu_tile t)
{
	struct cu_dot *d = &x->dot;
	struct cg_split rows = d->rows, cols;

	if (x->to) {
		rows = cu_split_of(&d->dims[1], t.m, 16);
	}
	cols = cu_split_of(&d->dims[2], t.n, 16);
	if (!cu_tile_fit(d->k->c, d->unit, d->result == CU_DOT_BOX,
			 x->to ? 0 : 8 * t.m, &t) ||
	    !cu_tile_suits(d, &t, &rows, &cols) ||
	    (d->whole_last && cg_split_cuts_last(&d->dims[2], &cols)) ||
	    !add_way(x, &t, cycles_of(x, &t, &rows, &cols))) {
		return false;
	}
	d->tile = t;
	d->rows = rows;
	d->cols = cols;
	return true;
}

static bool
choose_tile(struct cu_experts *x)
{
	struct cu_dot *d = &x->dot;
	bool any = false;
	uint32_t n, i;
	const struct cu_tile *tiles = cu_tiles_described(d, &n);

	cu_candidates_begin(d, 1, "", &x->candidates);
	cu_candidates_clear(&x->candidates);
	x->candidates.counted = false;
	for (i = 0; i < n; i++) {
		any |= try_tile(x, tiles[i]);
	}
	tiles = cu_tiles(d, &n);
	for (i = 0; i < n; i++) {
		any |= try_tile(x, tiles[i]);
	}
	return any;
}

bool
cu_experts_plan(struct cu_experts *x)
{
	struct cu_dot *d = &x->dot;
	const struct cg_factor *dense = x->to ? &d->m : &d->over;

	find_factors(x);
	if (!cu_dot_has_rows(d) || dense->size == 0 || d->n.size == 0 ||
	    dense->size > INT32_MAX / 2 || d->n.size > INT32_MAX / 2) {
		return false;
	}
	d->by_rows = !x->to;
	if (d->result != CU_DOT_BOX) {
		cu_dims_flatten(&d->dims[1]);
		cu_dims_flatten(&d->dims[2]);
	} else {
		d->nest = d->by_rows ? cu_experts_row_cost(x)
				     : cu_dot_nest_cost(d, false, true);
	}
	d->splits = 1;
	x->most = 1;		/* dot_to has no blocks of rows */
	if (!choose_tile(x)) {
		return false;
	}
	if (!x->to) {
		x->most = d->tile.m;
		d->dims[1].size[0] = d->tile.m;
		d->rows = (struct cg_split){ .step = x->most, .chunks = 1,
			.inner = 1, .blocks = 1, .most = x->most };
	}
	return true;
}

/*
 * place: gives every value a placement on the mesh, and inserts the collectives
 * that convert between placements.
 *
 * Needs: a flat training program and a plan (settings `plan.*`).  Gives: the
 * mesh, types with placements, and conversion ops.  The plan and the rules of
 * ops decide what an axis may split (place_dims.c).  The cheapest choice along
 * one axis is found exactly (place_solve.c), one axis after another:
 * microbatches, data, experts, context, tensor.  No code here depends on a
 * transformer.
 *
 * It runs after all passes that change what is computed, and before `stage`,
 * which only cuts the program.
 */
#include "passes/place/place.h"
#include "passes/place/place_bound.h"

#include <string.h>

#define WEIGHTLESS 1e300	/* ranks over which what counts not is split */

/* ---- the mesh ---- */

struct axes {
	axis_id time, of[PLAN_NAXES], second;	/* 0: of size 1 */
};

/*
 * There are fewer key heads than query heads.  If the tensor degree does not
 * divide their number, the axis becomes two: the outer splits both, the inner
 * splits only the queries, so its ranks share keys.
 */
static int64_t
outer_degree(const struct place *p)
{
	int64_t g = p->plan->tp;
	dim_id d;

	for (d = 1; d < p->m->dims.n; d++) {
		if (p->facts->grouped[d]) {
			g = num_gcd(g, ir_dim_size(p->m, d));
		}
	}
	return g > 1 ? g : p->plan->tp;
}

static axis_id
add_axis(struct place *p, const char *name, int64_t size)
{
	struct span none = { 0, 0 };

	return ir_axis_add(p->m, intern_str(&p->m->ctx->syms, name), size,
			   none);
}

static void
make_mesh(struct place *p, struct axes *x)
{
	int64_t outer = outer_degree(p);
	int i;

	memset(x, 0, sizeof *x);
	if (ir_dim_find(p->m, intern_str(&p->m->ctx->syms, "batch"))) {
		x->time = add_axis(p, "mb", p->plan->nmicrobatches);
		p->m->axes.at[x->time].time = true;
	}
	for (i = 0; i < PLAN_NAXES; i++) {
		enum plan_axis a = p->plan->mesh[i];
		int64_t size = plan_degree(p->plan, a);

		if (size == 1) {
			continue;
		}
		x->of[a] = add_axis(p, plan_axis_name(a),
				    a == PLAN_TP ? outer : size);
		if (a == PLAN_TP && outer < size) {
			x->second = add_axis(p, "tpr", size / outer);
		}
	}
	if (x->of[PLAN_CP]) {
		p->m->axes.at[x->of[PLAN_CP]].balanced = p->plan->balanced;
	}
}

/* ---- the choice ---- */

static void
choice_room(struct place *p)
{
	struct ir_module *m = p->m;
	struct arena *a = &p->arena;
	uint32_t i, k;

	p->spread = arena_alloc(a, p->nvalues * sizeof *p->spread);
	p->asked = arena_alloc(a, p->nvalues * sizeof *p->asked);
	p->shared = arena_alloc(a, p->nnodes * sizeof *p->shared);
	p->colls = arena_alloc(a, p->nnodes * sizeof *p->colls);
	p->runs = arena_alloc(a, p->nnodes);
	p->wants = arena_alloc(a, (m->args.n + 1) * sizeof *p->wants);
	p->yields = arena_alloc(a, m->regions.n * sizeof *p->yields);
	place_open_turns(p);
	for (i = 0; i < p->nvalues; i++) {
		p->spread[i] = p->asked[i] = 1;
	}
	for (i = 0; i < p->nnodes; i++) {
		p->shared[i] = 1;
	}
	for (i = 0; i < m->args.n; i++) {
		p->wants[i] = m->values.at[m->args.at[i]].type;
	}
	for (i = 1; i < m->regions.n; i++) {
		const struct ir_region *r = &m->regions.at[i];

		p->yields[i] = arena_alloc(a, (r->results.n + 1) *
					   sizeof **p->yields);
		for (k = 0; k < r->results.n; k++) {
			p->yields[i][k] = m->values.at[r->results.at[k]].type;
		}
	}
}

static bool
along(struct place *p, axis_id a, enum place_kind kind, bool second)
{
	if (!a) {
		return true;
	}
	place_choose_axis(p, a, kind, second);
	return place_recall(p) || place_solve(p);
}

/* ---- one order for all cuts ---- */

/*
 * Sorts axes outermost first.  ZeRO gathers its axes alone, so those are
 * innermost.
 */
static uint32_t
sort_cut(uint32_t cut, const uint8_t *place)
{
	uint32_t sorted = 0, n = 0, at;

	for (; cut; cut >>= 4, n++) {
		uint32_t low, high;

		for (at = n; at > 0 && place[sorted >> 4 * (at - 1) & 15] >
				       place[cut & 15]; at--) {
		}
		low = sorted & ((1u << 4 * at) - 1);
		high = sorted - low;
		sorted = low | (cut & 15) << 4 * at | high << 4;
	}
	return sorted;
}

#define SIZES 64		/* a power of two */

/* A cache of sorted types, as many values share one. */
struct sorting {
	struct ir_ctx *c;
	const uint8_t *place;
	struct {
		type_id from, to;
	} last[SIZES];		/* hashed by `from` */
};

/* Only a dim that two or more axes split has anything to sort. */
static type_id
sorted(const struct sorting *s, type_id id)
{
	const struct ir_type *t = ir_type_of(s->c, id);
	struct ir_type x;
	uint32_t many = 0, i;

	for (i = 0; i < t->ndims; i++) {
		many |= t->cut[i] >> 4;
	}
	if (!many) {
		return id;
	}
	x = *t;
	for (i = 0; i < x.ndims; i++) {
		x.cut[i] = sort_cut(x.cut[i], s->place);
	}
	return ir_type_keep(s->c, &x);
}

static void
sort_cuts(struct sorting *s, type_id *id)
{
	uint32_t at = *id % SIZES;

	if (s->last[at].from != *id) {
		s->last[at].to = sorted(s, *id);
		s->last[at].from = *id;
	}
	*id = s->last[at].to;
}

static void
sort_all(struct place *p, const struct axes *x)
{
	const axis_id all[] = {
		x->time, x->of[PLAN_CP], x->of[PLAN_TP], x->second,
		x->of[PLAN_DP], x->of[PLAN_EP]
	};
	struct ir_module *m = p->m;
	uint8_t place[IR_MAX_AXES + 1] = { 0 };
	struct sorting s = { .c = m->ctx, .place = place };
	uint32_t i, k;

	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		place[all[i]] = (uint8_t)i;
	}
	for (i = 1; i < m->values.n; i++) {
		sort_cuts(&s, &m->values.at[i].type);
	}
	for (i = 0; i < m->args.n; i++) {
		sort_cuts(&s, &p->wants[i]);
	}
	for (i = 1; i < m->regions.n; i++) {
		for (k = 0; k < m->regions.at[i].results.n; k++) {
			sort_cuts(&s, &p->yields[i][k]);
		}
	}
}

static bool
place(struct place *p)
{
	struct axes x;

	place_find_program(p);
	if (!place_check_dims(p)) {
		return false;
	}
	make_mesh(p, &x);
	place_set_steps(p);
	choice_room(p);
	if (!along(p, x.time, PLACE_TIME, false) ||
	    !along(p, x.of[PLAN_DP], PLACE_DATA, false) ||
	    !along(p, x.of[PLAN_EP], PLACE_EXPERT, false) ||
	    !along(p, x.of[PLAN_CP], PLACE_CONTEXT, false) ||
	    !along(p, x.of[PLAN_TP], PLACE_TENSOR, false) ||
	    !along(p, x.second, PLACE_TENSOR, true)) {
		return false;
	}
	sort_all(p, &x);
	return place_write(p);
}

/* ---- a lower bound ---- */

/*
 * Prices what has a batch for one sequence.  Weights, whose bytes no microbatch
 * makes more, count for nothing.
 */
static void
spread_batch(struct place *p)
{
	dim_id batch = p->facts->batch;
	uint32_t i;

	for (i = 1; i < p->nvalues; i++) {
		p->spread[i] = batch && ir_type_has(ir_type(p->m, i), batch)
			? (double)ir_dim_size(p->m, batch) : WEIGHTLESS;
	}
	for (i = 1; batch && i < p->nnodes; i++) {
		p->shared[i] = (double)ir_dim_size(p->m, batch);
	}
}

static double
least_along(struct place *p, axis_id a, enum place_kind kind, bool second)
{
	const double *known;
	double us;

	if (!a) {
		return 0;
	}
	place_choose_axis(p, a, kind, second);
	known = place_recall_least(p);
	if (known) {
		return *known;
	}
	us = place_least_us(p);
	place_remember_least(p, us);
	return us;
}

/*
 * The two tensor axes split the same values: each is a bound of its own for
 * what the other one leaves.
 */
static double
least_us(struct place *p, const struct plan *alone)
{
	const struct plan *all = p->plan;
	struct axes x;
	double outer, inner, us;

	place_find_program(p);
	p->plan = alone;
	make_mesh(p, &x);
	p->plan = all;		/* it says how far apart ranks are */
	place_set_steps(p);
	choice_room(p);
	spread_batch(p);
	outer = x.of[PLAN_TP]
		? (double)p->m->axes.at[x.of[PLAN_TP]].size : 1;
	inner = x.second ? (double)p->m->axes.at[x.second].size : 1;
	us = least_along(p, x.of[PLAN_EP], PLACE_EXPERT, false);
	us += least_along(p, x.of[PLAN_CP], PLACE_CONTEXT, false);
	us += least_along(p, x.of[PLAN_TP], PLACE_TENSOR, false) / inner;
	return us + least_along(p, x.second, PLACE_TENSOR, true) / outer;
}

double
place_bound(struct pass_ctx *ctx, const struct ir_module *m,
	    const struct plan *plan, enum plan_axis axis, const bool *counted,
	    double shown, double waited)
{
	struct plan alone = *plan;
	struct place p = { .p = ctx, .plan = plan, .model = ir_model(m),
			   .nnodes = m->nodes.n, .nvalues = m->values.n,
			   .counted = counted, .shown = shown,
			   .waited = waited };
	struct ir_ctx c;
	double us;

	ir_ctx_child(&c, m->ctx);
	p.m = ir_copy(m, &c);
	arena_init(&p.arena, &c.mem);
	arena_init(&p.scratch, &c.mem);
	place_price_init(&p);
	alone.tp = axis == PLAN_TP ? plan->tp : 1;
	alone.cp = axis == PLAN_CP ? plan->cp : 1;
	alone.ep = axis == PLAN_EP ? plan->ep : 1;
	us = least_us(&p, &alone);
	arena_release(&p.scratch);
	arena_release(&p.arena);
	ir_ctx_release(&c);
	return us;
}

bool
pass_place(struct pass_ctx *ctx, struct ir_module *m)
{
	struct place p = { .p = ctx, .m = m, .model = ir_model(m),
			   .nnodes = m->nodes.n, .nvalues = m->values.n };
	struct plan plan;
	bool ok;

	if (m->axes.n > 1) {
		diag_error(&m->ctx->diags, m->axes.at[1].span, "this module "
			   "has a mesh: its values are placed already");
		return false;
	}
	if (!plan_read(m, &plan)) {
		return false;
	}
	p.plan = &plan;
	arena_init(&p.arena, &m->ctx->mem);
	arena_init(&p.scratch, &m->ctx->mem);
	place_price_init(&p);
	ok = place(&p);
	arena_release(&p.scratch);
	arena_release(&p.arena);
	return ok;
}

/*
 * What collectives of layers take at least, from a placement alone: most
 * shardings are left out by that, before programs of their pieces are made.
 *
 * Proof.  Passes after `place` move no node into or out of a repeat of layers.
 * `recompute` adds nodes, and removes those of forward that no result of it
 * needs; `stage`, `chunk` and kernels change when a collective runs, and may
 * join several, but each has its bytes, and takes at least these at the rate of
 * the quickest algorithm for long messages.  The fullest rank has at least the
 * mean of a value's bytes, which counts here.
 *
 * What the results of a layer need, which are activations and their gradients,
 * is beside what data ranks exchange.  With ZeRO 2 and 3 that exchange is in
 * layers, too, so there are two sums: of the former alone, and of all.
 */
#include "passes/pieces/piece_parts.h"

#define LARGE 1e12	/* bytes of a message that shows the rate */

/* ---- repeats of layers ---- */

bool
piece_find_repeats(const struct space *s, const struct ir_module *m,
		   uint32_t kind, region_id of[2])
{
	const struct ir_region *r =
		&m->regions.at[m->funcs.at[ir_model(m)].body];
	uint32_t i, forward = 0, back = 0;

	of[0] = of[1] = 0;
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		if (!ir_is(n->op, IRF_REGION)) {
			continue;
		}
		if (ir_attr(m, n, IR_ATTR_REVERSE)) {
			if (s->nkinds - 1 - back++ == kind) {
				of[1] = n->region;
			}
		} else if (n->nresults && forward++ == kind) {
			of[0] = n->region;
		}
	}
	return back == s->nkinds;
}

/* ---- the collectives of a placement ---- */

/* A repeat of layers that is looked at. */
struct looking {
	struct piece_store *s;
	const struct ir_module *m;
	struct piece_repeat *to;
	bool *needed;		/* by value: a result of the repeat needs it */
	bool back;
	bool rings;		/* attention was found that does */
	axis_id dp;
};

/* Marks all that results of the region need; an inner repeat needs all. */
static void
mark(struct looking *x, region_id id)
{
	const struct ir_region *r = &x->m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < r->results.n; i++) {
		x->needed[r->results.at[i]] = true;
	}
	for (i = r->nodes.n; i-- > 0; ) {
		const struct ir_node *n = ir_node(x->m, r->nodes.at[i]);
		bool is = n->region != 0;

		if (n->region) {
			mark(x, n->region);
		}
		for (k = 0; k < n->nresults && !ir_is(n->op, IRF_SINK); k++) {
			is |= x->needed[n->result + k];
		}
		for (k = 0; k < n->nargs && is; k++) {
			x->needed[ir_args(x->m, n)[k]] = true;
		}
	}
}

/* Adds to those that differ in bytes alone. */
static void
add(struct looking *x, struct piece_coll c)
{
	struct piece_repeat *to = x->to;
	uint32_t i;

	for (i = 0; i < to->colls.n; i++) {
		struct piece_coll *y = &to->colls.at[i];

		if (y->op == c.op && y->axes == c.axes && y->how == c.how &&
		    y->batch == c.batch && y->by_dp == c.by_dp &&
		    y->needed == c.needed) {
			y->bytes += c.bytes;
			return;
		}
	}
	VEC_PUSH(&x->s->space->keep, &to->colls, c);
}

/*
 * Sets the bytes of a value on a mean rank, but for data ranks; of one sequence
 * if it has them, then of all these together.
 */
static void
set_bytes(const struct looking *x, value_id v, struct piece_coll *c)
{
	const struct ir_module *m = x->m;
	const struct ir_type *t = ir_type(m, v);
	dim_id batch = x->s->space->batch_dim;
	uint32_t split = (uint32_t)t->routed << 1, i, cut;
	int64_t elems = 0;
	axis_id a;

	c->batch = batch && ir_type_at(t, batch) >= 0;
	c->bytes = ir_type_elems(m, t, &elems)
		? (double)elems * ir_elem_bytes(t->dtype) : 0;
	c->bytes /= c->batch ? (double)ir_dim_size(m, batch) : 1;
	for (i = 0; i < t->ndims; i++) {
		for (cut = t->cut[i]; cut; cut >>= 4) {
			split |= (uint32_t)1 << (cut & 15);
		}
	}
	c->by_dp = x->dp && split >> x->dp & 1;
	for (a = 1; a < m->axes.n; a++) {
		if (split >> a & 1 && a != x->dp && !m->axes.at[a].time) {
			c->bytes /= (double)m->axes.at[a].size;
		}
	}
}

/* Of the larger side, as collectives are priced. */
static struct piece_coll
coll_of(const struct looking *x, const struct ir_node *n)
{
	struct piece_coll c = { .op = price_cost_op(n->op) }, in = c;

	c.how = n->op == IR_ALL_REDUCE || n->op == IR_REDUCE_SCATTER ||
		n->op == IR_ALL_GATHER ? PIECE_HIDES : PIECE_WAITS;
	in.how = c.how;
	set_bytes(x, n->result, &c);
	set_bytes(x, ir_args(x->m, n)[0], &in);
	/* data ranks count as one: then it is the larger side for any number */
	return in.by_dp == c.by_dp ? (in.bytes > c.bytes ? in : c)
				   : in.by_dp ? c : in;
}

/*
 * Attention passes its keys and values on in a ring, as if it gathered them.  A
 * kernel may have several such nodes, so one of a repeat counts.
 */
static struct piece_coll
ring_of(const struct looking *x, const struct ir_node *n)
{
	struct piece_coll k, v;

	set_bytes(x, ir_args(x->m, n)[1], &k);
	set_bytes(x, ir_args(x->m, n)[2], &v);
	k.bytes += v.bytes;
	k.op = COST_ALL_GATHER;
	k.how = PIECE_RINGS;
	return k;
}

static void
look_at(struct looking *x, const struct ir_node *n, double times)
{
	const struct ir_attr *on = ir_attr(x->m, n, IR_ATTR_ON);
	bool rings = ir_is(n->op, IRF_PAIRS) && n->nargs > 2 && !x->rings;
	struct piece_coll c;
	uint32_t i;

	if (!on || !n->nresults || !n->nargs ||
	    !(ir_is(n->op, IRF_COMM) || rings) ||
	    (!x->back && !x->needed[n->result])) {
		return;
	}
	c = rings ? ring_of(x, n) : coll_of(x, n);
	x->rings |= rings;
	c.axes = 0;
	for (i = 0; i < on->ndims; i++) {
		c.axes |= (uint32_t)1 << on->dims[i];
	}
	c.bytes *= times;
	c.needed = x->needed[n->result] && c.batch &&
		   !(x->dp && c.axes >> x->dp & 1);
	add(x, c);
}

static void
look_in(struct looking *x, region_id id, double times)
{
	const struct ir_region *r = &x->m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(x->m, r->nodes.at[i]);

		if (n->region) {
			x->to->nests = true;
			look_in(x, n->region, times * (double)
				ir_attr_int(x->m, n, IR_ATTR_COUNT, 1));
		} else {
			look_at(x, n, times);
		}
	}
}

/* Its mesh alone, for prices. */
static void
keep_mesh(struct piece_store *s, struct piece_placed *w)
{
	struct arena *a = &s->space->keep;

	w->mesh.m = w->m;
	ranks_find_axes(&w->mesh);
	w->mesh.m = arena_alloc(a, sizeof *w->mesh.m);
	w->mesh.m->axes.at = arena_dup(a, w->m->axes.at, w->m->axes.n *
				       sizeof *w->m->axes.at);
	w->mesh.m->axes.n = w->m->axes.n;
}

void
piece_find_colls(struct piece_store *s, struct piece_placed *w)
{
	struct looking x = { .s = s, .m = w->m };
	region_id of[2];
	uint32_t i, k;

	/* of several kinds of device nothing is counted */
	if (w->bad || s->space->devs.n > 1 || !s->space->nkinds) {
		return;
	}
	keep_mesh(s, w);
	x.dp = w->mesh.dp;
	x.needed = arena_alloc(&w->ctx->tmp, w->m->values.n + 1);
	w->repeats = arena_alloc(&s->space->keep, s->space->nkinds *
				 sizeof *w->repeats);
	for (i = 0; i < s->space->nkinds; i++) {
		if (!piece_find_repeats(s->space, w->m, i, of)) {
			continue;
		}
		for (k = 0; k < 2 && of[k]; k++) {
			x.to = &w->repeats[i][k];
			x.back = k == 1;
			x.rings = s->space->traits->unfused;
			mark(&x, of[k]);
			look_in(&x, of[k], 1);
		}
	}
	arena_release(&w->ctx->tmp);
}

/* ---- their time ---- */

/* Of a byte of each collective, where ranks lie with these degrees. */
static double *
find_rates(struct piece_store *s, struct piece_placed *w,
	   const struct space_degrees *g)
{
	const struct target_group *on = s->space->devs.at[0];
	double *us, *at;
	uint32_t n = 0, i;

	for (i = 0; i < 2 * s->space->nkinds; i++) {
		n += w->repeats[i / 2][i % 2].colls.n;
	}
	us = at = arena_alloc(&s->space->keep, (n + 1) * sizeof *us);
	if (w->mesh.dp) {
		w->mesh.m->axes.at[w->mesh.dp].size = g->dp;
	}
	if (w->mesh.pp) {
		w->mesh.m->axes.at[w->mesh.pp].size = g->pp;
	}
	for (i = 0; i < 2 * s->space->nkinds; i++) {
		const struct piece_repeat *r = &w->repeats[i / 2][i % 2];

		for (n = 0; n < r->colls.n; n++) {
			const struct piece_coll *c = &r->colls.at[n];
			double ranks = (double)ranks_group_size(&w->mesh,
								c->axes);

			*at++ = ranks <= 1 ? 0 :
				price_comm(&w->mesh, on, c->op, c->axes,
					   LARGE) / LARGE *
				(c->how == PIECE_RINGS ? ranks : 1);
		}
	}
	return us;
}

static const double *
rates_of(struct piece_store *s, struct piece_placed *w,
	 const struct space_degrees *g)
{
	struct piece_rates *x = w->rates;

	while (x && (x->dp != g->dp || x->pp != g->pp)) {
		x = x->next;
	}
	if (!x) {
		x = arena_alloc(&s->space->keep, sizeof *x);
		x->dp = g->dp;
		x->pp = g->pp;
		x->us = find_rates(s, w, g);
		x->next = w->rates;
		w->rates = x;
	}
	return x->us;
}

static void
add_time(const struct piece_repeat *r, const struct space_plan *t, bool all,
	 const double *rate, struct price_least *to)
{
	double data = (double)(t->microbatch * t->g->dp * t->g->ep);
	uint32_t i;

	for (i = 0; i < r->colls.n; i++) {
		const struct piece_coll *c = &r->colls.at[i];
		double us = c->bytes * rate[i];

		us *= c->batch ? data : 1;
		us /= c->by_dp ? (double)t->g->dp : 1;
		if (!all && !c->needed) {
			continue;
		}
		*(c->how == PIECE_HIDES ? &to->colls_us :
		  c->how == PIECE_WAITS ? &to->waits_us :
					  &to->kernels_us) += us;
	}
}

void
piece_add_colls(struct piece_store *s, struct piece_placed *w,
		const struct space_plan *t, bool all, struct piece_colls *to)
{
	const double *rate = rates_of(s, w, t->g);
	uint32_t i, k;

	for (i = 0; i < s->space->nkinds; i++) {
		for (k = 0; k < 2; k++) {
			const struct piece_repeat *r = &w->repeats[i][k];

			add_time(r, t, all, rate, &to->layer[i][k]);
			rate += r->colls.n;
			to->nests[i] |= r->nests;
		}
	}
}

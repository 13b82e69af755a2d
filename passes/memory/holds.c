/*
 * What a rank holds while it trains: counted on a placed training program,
 * from where its values lie and how long they live; no formula is used.
 *
 * Weights, gradients and what the optimizer keeps are tensors by name, each
 * on the stages that use it.  A `save` lives from the forward trip to the
 * backward one, so at the turn those of all trips of the stage are there,
 * once for each microbatch that the schedule has under way.  A value outside
 * of the repeats lives if something behind the loss reads it.  What lives
 * only inside of one trip is not counted.
 *
 * A size is that of the fullest rank: ceil(n / p) of n positions.  Rows that
 * are routed are taken to be asked for evenly.
 */
#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "passes/sched/sched.h"

#include <stddef.h>
#include <string.h>

/* Where a stored tensor is read before the loss. */
struct place_of {
	value_id v;
	int64_t first, count;	/* trips around it, of all; 0: at the top */
	bool each;		/* each trip has its own, from `start` on */
	int64_t start;
	int64_t inner;		/* tensors per trip */
	struct place_of *next;	/* of the same name */
};

struct holds {
	struct ir_module *m;
	const struct plan *plan;
	struct pass_holds *out;
	struct arena *a;
	func_id model;
	uint32_t turn;		/* the loss's place in the model's body */
	uint32_t *at;		/* by value of the body: its place there */
	bool *top;		/* by value: of the body */
	bool *counted;		/* by value: as saved */
	bool **on;		/* by value of the body: stages that use it */
	bool **late;		/* the same of what stands behind the loss */
	int64_t *start;		/* by stage: its first trip; one more */
	struct place_of **places;	/* by name */
	VEC(sym_t) names;	/* those that have places */
	bool *seen;		/* by name of a gradient or state */
	dim_id choice;		/* of an index that routes rows, or 0 */
	bool overflow;
};

/* ---- sizes ---- */

static int64_t
times(struct holds *h, int64_t a, int64_t b)
{
	int64_t v = 0;

	h->overflow |= !num_mul(a, b, &v);
	return v;
}

static void
add(struct holds *h, int64_t *to, int64_t v)
{
	h->overflow |= !num_add(*to, v, to);
}

/* Positions of a dim that one rank has. */
static int64_t
piece(const struct holds *h, const struct ir_type *t, uint32_t i)
{
	int64_t n = ir_dim_size(h->m, t->dims[i]);
	axis_id axes[IR_MAX_AXES];
	uint32_t count = ir_cuts(t, i, axes), k;

	for (k = 0; k < count; k++) {
		const struct ir_axis *x = &h->m->axes.at[axes[k]];

		n = x->balanced ? 2 * num_ceil_div(n, 2 * x->size)
				: num_ceil_div(n, x->size);
	}
	return n;
}

/*
 * Of rows that went to experts: each of its own place per choice is on one
 * rank, and a row without such places on as many as it has choices.
 */
static int64_t
routed(struct holds *h, const struct ir_type *t, axis_id a, int64_t elems)
{
	int64_t ranks = h->m->axes.at[a].size, copies = 1;

	if (h->choice && !ir_type_has(t, h->choice)) {
		copies = ir_dim_size(h->m, h->choice);
	}
	return copies >= ranks ? elems
		: num_ceil_div(times(h, elems, copies), ranks);
}

static int64_t
bytes_of(struct holds *h, value_id v)
{
	const struct ir_type *t = ir_type(h->m, v);
	int64_t n = 1;
	uint32_t i;
	axis_id a;

	for (i = 0; i < t->ndims; i++) {
		n = times(h, n, piece(h, t, i));
	}
	for (a = 1; a < h->m->axes.n; a++) {
		if (ir_along(t, a).how == IR_IS_ROUTED) {
			n = routed(h, t, a, n);
		}
	}
	return times(h, n, ir_dtypes[t->dtype].bits / 8);
}

/* ---- stages ---- */

/* The trips [*lo, *hi) of a stage among `count` from `first` on. */
static bool
trips_of(const struct holds *h, uint32_t stage, int64_t first, int64_t count,
	 int64_t *lo, int64_t *hi)
{
	int64_t from = h->start[stage], to = h->start[stage + 1];

	*lo = from > first ? from : first;
	*hi = to < first + count ? to : first + count;
	return *lo < *hi;
}

/* The stage of what stands at the top behind so many trips. */
static uint32_t
stage_behind(const struct holds *h, int64_t trips)
{
	uint32_t s = 0;

	if (trips >= h->plan->nlayers) {
		return trips ? h->plan->nstages - 1 : 0;
	}
	while (trips && h->start[s + 1] < trips) {
		s++;
	}
	return s;
}

static bool
carries(const struct holds *h, const struct ir_node *n, bool backward)
{
	return ir_is(n->op, IRF_REGION) && n->nresults &&
	       (backward || !ir_attr(h->m, n, IR_ATTR_REVERSE));
}

static const struct ir_region *
body_of(const struct holds *h)
{
	return &h->m->regions.at[h->m->funcs.at[h->model].body];
}

/* ---- who uses what ---- */

/* A weight may be gathered for its users; it is at hand where they are. */
static value_id
root(const struct holds *h, value_id v)
{
	node_id n = h->m->values.at[v].node;

	while (n && ir_is(ir_node(h->m, n)->op, IRF_CONVERTS)) {
		v = ir_args(h->m, ir_node(h->m, n))[0];
		n = h->m->values.at[v].node;
	}
	return v;
}

static void
mark(struct holds *h, bool **of, value_id v, int64_t first, int64_t count)
{
	uint32_t s, n = h->plan->nstages;
	int64_t lo, hi;

	if (!h->top[v]) {
		return;
	}
	if (!of[v]) {
		of[v] = arena_alloc(h->a, n * sizeof **of);
	}
	if (count == 0) {
		of[v][stage_behind(h, first)] = true;
	}
	for (s = 0; count && s < n; s++) {
		of[v][s] |= trips_of(h, s, first, count, &lo, &hi);
	}
}

/* The operands of a region's nodes, on the stages of `count` trips. */
static void
scan_uses(struct holds *h, const struct ir_node *n, bool backward,
	  int64_t first, int64_t count)
{
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		value_id v = ir_args(h->m, n)[i];

		mark(h, h->on, v, first, count);
		mark(h, h->on, root(h, v), first, count);
		if (backward) {
			mark(h, h->late, v, first, count);
		}
	}
	for (i = 0; n->region && i < h->m->regions.at[n->region].nodes.n;
	     i++) {
		scan_uses(h, ir_node(h->m, h->m->regions.at[n->region]
				     .nodes.at[i]), backward, first, count);
	}
}

/* Trips count up to the loss, and down again behind it. */
static void
find_uses(struct holds *h)
{
	const struct ir_region *r = body_of(h);
	int64_t trip = 0, count;
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(h->m, r->nodes.at[i]);
		bool backward = i > h->turn;

		count = carries(h, n, backward)
			? ir_attr_int(h->m, n, IR_ATTR_COUNT, 1) : 0;
		if (backward) {
			count = count > trip ? trip : count;
			trip -= count;
			scan_uses(h, n, true, trip, count);
		} else {
			scan_uses(h, n, false, trip, count);
			trip += count;
		}
	}
}

/* ---- tensors by name ---- */

/* The repeats around a node; `first`: trips of others before the outermost. */
struct around {
	const struct ir_node *repeat;
	const struct around *outer;
	int64_t first;
};

static void
add_place(struct holds *h, const struct ir_node *n, const struct around *r)
{
	sym_t name = ir_attr(h->m, n, IR_ATTR_NAME)->text;
	struct place_of *p = arena_alloc(h->a, sizeof *p);
	struct place_of **last = &h->places[name];

	p->v = n->result;
	p->inner = 1;
	for (; r; r = r->outer) {
		const struct ir_attr *var = ir_attr(h->m, r->repeat,
						    IR_ATTR_VAR);
		int64_t count = ir_attr_int(h->m, r->repeat, IR_ATTR_COUNT, 1);
		bool each = var && pass_mentions(ir_text(h->m->ctx, name),
					ir_text(h->m->ctx, var->text));

		if (r->outer) {
			p->inner = times(h, p->inner, each ? count : 1);
			continue;
		}
		p->each = each;
		p->first = r->first;
		p->count = count;
		p->start = ir_attr_int(h->m, r->repeat, IR_ATTR_START, 0);
	}
	if (!*last) {
		VEC_PUSH(h->a, &h->names, name);
	}
	while (*last) {
		last = &(*last)->next;
	}
	*last = p;
}

/* Stored tensors up to the loss: backward reads the same again. */
static void
find_places(struct holds *h, const struct ir_region *r, uint32_t nodes,
	    const struct around *outer)
{
	int64_t first = 0;
	uint32_t i;

	for (i = 0; i < nodes; i++) {
		const struct ir_node *n = ir_node(h->m, r->nodes.at[i]);
		struct around in = { n, outer, first };

		if (n->region) {
			const struct ir_region *b =
				&h->m->regions.at[n->region];

			find_places(h, b, b->nodes.n, &in);
			first += carries(h, n, false) ? ir_attr_int(h->m, n,
						IR_ATTR_COUNT, 1) : 0;
		} else if (ir_is(n->op, IRF_STORED) &&
			   !ir_is(n->op, IRF_UNIQUE)) {
			add_place(h, n, outer);
		}
	}
}

/* The tensors [*lo, *hi) of a name that a stage needs at that place. */
static bool
tensors(const struct holds *h, const struct place_of *p, uint32_t stage,
	int64_t *lo, int64_t *hi)
{
	bool any = p->count ? trips_of(h, stage, p->first, p->count, lo, hi)
			    : h->on[p->v] && h->on[p->v][stage];

	*lo = p->each ? *lo - p->first + p->start : 0;
	*hi = p->each ? *hi - p->first + p->start : 1;
	return any;
}

/* How many tensors of the name a stage holds. */
static int64_t
held(struct holds *h, sym_t name, uint32_t stage)
{
	const struct place_of *p, *q;
	int64_t n = 0, lo, hi, from, to;

	for (p = h->places[name]; p; p = p->next) {
		if (!tensors(h, p, stage, &lo, &hi)) {
			continue;
		}
		add(h, &n, times(h, hi - lo, p->inner));
		for (q = h->places[name]; q != p; q = q->next) {
			if (!tensors(h, q, stage, &from, &to)) {
				continue;
			}
			from = from > lo ? from : lo;
			to = to < hi ? to : hi;
			n -= from < to ? (to - from) * p->inner : 0;
		}
	}
	return n;
}

static void
add_held(struct holds *h, sym_t name, int64_t bytes, size_t field)
{
	uint32_t s;

	for (s = 0; s < h->plan->nstages; s++) {
		char *stage = (char *)&h->out->stage[s];

		add(h, (int64_t *)(stage + field),
		    times(h, held(h, name, s), bytes));
	}
}

/* "w" of "w.exp_avg", if there is such a weight; else 0. */
static sym_t
weight_of(const struct holds *h, sym_t name)
{
	struct ir_ctx *c = h->m->ctx;
	const char *text = ir_text(c, name), *dot = strrchr(text, '.');
	uint32_t i;

	for (i = 0; dot && i < h->names.n; i++) {
		const char *w = ir_text(c, h->names.at[i]);

		if (strlen(w) == (size_t)(dot - text) &&
		    strncmp(w, text, strlen(w)) == 0) {
			return h->names.at[i];
		}
	}
	return 0;
}

static void
add_weights(struct holds *h)
{
	uint32_t i;

	for (i = 0; i < h->names.n; i++) {
		sym_t name = h->names.at[i];

		add_held(h, name, bytes_of(h, h->places[name]->v),
			 offsetof(struct pass_stage, weights));
	}
}

/* Gradients that the model adds to, and what the layers of a step keep. */
static void
add_kept(struct holds *h, region_id r, bool model)
{
	struct ir_module *m = h->m;
	uint32_t i;

	for (i = 0; i < m->regions.at[r].nodes.n; i++) {
		const struct ir_node *n = ir_node(m,
						  m->regions.at[r].nodes.at[i]);
		const struct ir_attr *name = ir_attr(m, n, IR_ATTR_NAME);
		bool sums = model && ir_is(n->op, IRF_SINK) &&
			    !ir_is(n->op, IRF_STASH | IRF_PEER);
		bool state = !model && ir_is(n->op, IRF_STORED) &&
			     !ir_is(n->op, IRF_UNIQUE | IRF_PARAM);
		sym_t of;

		if (n->region) {
			add_kept(h, n->region, model);
			continue;
		}
		if ((!sums && !state) || h->seen[name->text]) {
			continue;
		}
		h->seen[name->text] = true;
		of = sums ? name->text : weight_of(h, name->text);
		if (of && h->places[of]) {
			add_held(h, of, bytes_of(h, sums ? ir_args(m, n)[0]
						 : n->result), sums
				 ? offsetof(struct pass_stage, gradients)
				 : h->plan->offload
				 ? offsetof(struct pass_stage, host)
				 : offsetof(struct pass_stage, optimizer));
		}
	}
}

/* ---- activations ---- */

/* What one trip saves; `inner` trips of repeats in it. */
static int64_t
saved_by(struct holds *h, region_id r, int64_t inner)
{
	const struct ir_region *region = &h->m->regions.at[r];
	int64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(h->m, region->nodes.at[i]);
		value_id v;

		if (n->region) {
			add(h, &bytes, saved_by(h, n->region, times(h, inner,
				ir_attr_int(h->m, n, IR_ATTR_COUNT, 1))));
		} else if (ir_is(n->op, IRF_SINK) &&
			   ir_is(n->op, IRF_STASH)) {
			v = ir_args(h->m, n)[0];
			add(h, &bytes, h->counted[v] ? 0
			    : times(h, bytes_of(h, v), inner));
			h->counted[v] = true;
		}
	}
	return bytes;
}

static void
add_saved(struct holds *h)
{
	const struct ir_region *r = body_of(h);
	int64_t trip = 0, bytes, lo, hi;
	uint32_t i, s;

	for (i = 0; i <= h->turn; i++) {
		const struct ir_node *n = ir_node(h->m, r->nodes.at[i]);
		int64_t count = ir_attr_int(h->m, n, IR_ATTR_COUNT, 1);

		if (!carries(h, n, false)) {
			continue;
		}
		bytes = saved_by(h, n->region, 1);
		for (s = 0; s < h->plan->nstages; s++) {
			struct pass_stage *to = &h->out->stage[s];

			if (trips_of(h, s, trip, count, &lo, &hi)) {
				add(h, &to->saved, times(h, hi - lo, bytes));
				to->layer = bytes > to->layer ? bytes
							      : to->layer;
			}
		}
		trip += count;
	}
}

/* Not a weight, nor what is made again rather than kept. */
static bool
is_kept(const struct holds *h, value_id v)
{
	const struct ir_node *n = ir_node(h->m, h->m->values.at[v].node);

	return h->late[v] && h->at[v] <= h->turn &&
	       (!ir_is(n->op, IRF_SOURCE) || ir_is(n->op, IRF_UNIQUE));
}

static void
add_around(struct holds *h)
{
	uint32_t s;
	value_id v;

	for (v = 1; v < h->m->values.n; v++) {
		for (s = 0; is_kept(h, v) && s < h->plan->nstages; s++) {
			if (h->late[v][s]) {
				add(h, &h->out->stage[s].around,
				    bytes_of(h, v));
			}
		}
	}
}

/* ---- the schedule ---- */

/*
 * What a rank's stages hold of all microbatches under way, at most.  `done`
 * is zero for them, by stage and microbatch.
 */
static int64_t
most_alive(struct holds *h, const struct sched *s, uint32_t rank,
	   uint8_t *done)
{
	int64_t now = 0, most = 0;
	uint32_t i;

	for (i = 0; i < s->ranks[rank].actions.n; i++) {
		const struct sched_action *x = &s->ranks[rank].actions.at[i];
		const struct pass_stage *of = &h->out->stage[x->stage];
		uint8_t *d = &done[(size_t)x->stage * s->nmicrobatches +
				   x->microbatch];

		if (sched_kinds[x->kind].does & SCHED_FORWARD) {
			add(h, &now, of->saved);
			add(h, &now, of->around);
		}
		most = now > most ? now : most;
		*d |= sched_kinds[x->kind].does;
		if (*d == SCHED_ALL) {
			now -= of->saved + of->around;
		}
	}
	return most;
}

static bool
add_ranks(struct holds *h)
{
	struct sched *s = plan_schedule(h->m, h->plan, h->a);
	struct pass_holds *out = h->out;
	struct sched_verdict v;
	uint8_t *done;
	uint32_t i;

	if (!s || !sched_check(h->a, s, &v)) {
		return false;
	}
	done = arena_alloc(h->a, (size_t)s->nstages * s->nmicrobatches);
	out->nranks = s->nranks;
	out->rank = arena_alloc(h->a, s->nranks * sizeof *out->rank);
	for (i = 0; i < s->nstages; i++) {
		struct pass_stage *from = &out->stage[i];
		struct pass_rank *to = &out->rank[s->rank_of[i]];

		from->rank = s->rank_of[i];
		from->in_flight = v.stage_peak[i];
		to->nstages++;
		add(h, &to->weights, from->weights);
		add(h, &to->gradients, from->gradients);
		add(h, &to->optimizer, from->optimizer);
		add(h, &to->host, from->host);
	}
	for (i = 0; i < s->nranks; i++) {
		struct pass_rank *to = &out->rank[i];

		to->activations = most_alive(h, s, i, done);
		add(h, &to->total, to->weights);
		add(h, &to->total, to->gradients);
		add(h, &to->total, to->optimizer);
		add(h, &to->total, to->activations);
		if (to->total > out->rank[out->fullest].total) {
			out->fullest = i;
		}
	}
	return true;
}

/* ---- the whole ---- */

/* The loss stands behind all of the forward program, conversions aside. */
static void
find_body(struct holds *h)
{
	const struct ir_region *r = body_of(h);
	uint32_t i, k;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(h->m, r->nodes.at[i]);

		for (k = 0; k < n->nresults; k++) {
			h->top[n->result + k] = true;
			h->at[n->result + k] = i;
		}
		if (ir_is(n->op, IRF_CONVERTS) && n->nargs == 2) {
			struct ir_rule rule;
			const struct ir_factor *f;

			ir_bind(h->m, n, &rule);
			f = ir_rule_factor(&rule, "I");
			h->choice = f->n ? f->dims[0] : h->choice;
		}
	}
	h->turn = h->at[root(h, r->results.at[0])];
}

static void
find_stages(struct holds *h)
{
	uint32_t n = h->plan->nstages, s;

	h->start = arena_alloc(h->a, (n + 1) * sizeof *h->start);
	h->out->nstages = n;
	h->out->stage = arena_alloc(h->a, n * sizeof *h->out->stage);
	for (s = 0; s < n; s++) {
		h->start[s + 1] = h->start[s] + h->plan->layers[s];
		h->out->stage[s].layers = h->plan->layers[s];
	}
}

static bool
check(struct ir_module *m, const struct plan *plan)
{
	uint32_t props = pass_props(m);
	struct diags *d = &m->ctx->diags;
	struct span span = m->funcs.at[ir_model(m)].span;

	if (!(props & PROP_FLAT) || !(props & PROP_BACKWARD)) {
		diag_error(d, span, "what a rank holds is counted on a flat "
			   "program with its backward: run "
			   "--passes=train,place");
		return false;
	}
	if (!(props & PROP_PLACED) &&
	    (plan->nranks > 1 || plan->nmicrobatches > 1)) {
		diag_error(d, span, "the plan has %lld ranks and %lld "
			   "microbatches, and nothing is placed: run "
			   "--passes=train,place", (long long)plan->nranks,
			   (long long)plan->nmicrobatches);
		return false;
	}
	return true;
}

static void
holds_init(struct holds *h)
{
	size_t names = h->m->ctx->syms.text.n, n = h->m->values.n;

	h->at = arena_alloc(h->a, n * sizeof *h->at);
	h->top = arena_alloc(h->a, n * sizeof *h->top);
	h->counted = arena_alloc(h->a, n * sizeof *h->counted);
	h->on = arena_alloc(h->a, n * sizeof *h->on);
	h->late = arena_alloc(h->a, n * sizeof *h->late);
	h->places = arena_alloc(h->a, names * sizeof *h->places);
	h->seen = arena_alloc(h->a, names * sizeof *h->seen);
}

bool
pass_hold(struct ir_module *m, struct pass_holds *out)
{
	struct plan plan;
	struct holds h = { .m = m, .plan = &plan, .out = out,
			   .a = &m->ctx->tmp, .model = ir_model(m) };
	func_id f;

	memset(out, 0, sizeof *out);
	if (!plan_read(m, &plan) || !check(m, &plan)) {
		return false;
	}
	out->ranks = plan.nranks;
	out->microbatches = plan.nmicrobatches;
	holds_init(&h);
	find_body(&h);
	find_stages(&h);
	find_uses(&h);
	find_places(&h, body_of(&h), h.turn + 1, NULL);
	add_weights(&h);
	for (f = 1; f < m->funcs.n; f++) {
		add_kept(&h, m->funcs.at[f].body, f == h.model);
	}
	add_saved(&h);
	add_around(&h);
	if (!add_ranks(&h)) {
		return false;
	}
	if (h.overflow) {
		diag_error(&m->ctx->diags, m->funcs.at[h.model].span,
			   "the bytes of a rank do not fit 63 bits");
		return false;
	}
	return true;
}

/*
 * What pieces take at least, whatever they recompute, from the program that
 * recomputes nothing.
 *
 * Proof.  Pass `recompute` runs after `place`.  It adds copies of forward nodes
 * to backward repeats, it adds and removes saves, and it removes forward nodes
 * that only removed saves needed.  So the program of every way to recompute has
 * all nodes of backward, and those of forward that a result or a message of
 * forward needs, each in the same list: the functions of a stage follow from
 * the nodes that use a value, and no copy is used by forward nor by more of
 * backward than what it replaces.  A contraction, attention or collective of
 * these takes at least price_least, however it is fused then; and a list that
 * has all of them, with the same ranks, at least price_least_us.
 */
#include "passes/pieces/piece_parts.h"

#include <math.h>
#include <string.h>

#define LITTLE 1e-6

/* ---- what no way to recompute removes ---- */

/* A list in a repeat that was seen, by its content, and what it takes. */
struct body_seen {
	struct hash key;
	struct piece_least least;
};

/* By value of a function: whether a result or a message of it needs it. */
struct needed {
	const struct ir_module *m;
	bool *value;
	/* pieces have the same layers, so most lists are seen several times */
	VEC(struct body_seen) seen;
};

static bool
has_needed(const struct needed *x, const struct ir_node *n)
{
	uint32_t i;

	if (n->region || (ir_is(n->op, IRF_SINK) &&
			  !ir_is(n->op, IRF_STASH))) {
		return true;
	}
	for (i = 0; i < n->nresults && !ir_is(n->op, IRF_SINK); i++) {
		if (x->value[n->result + i]) {
			return true;
		}
	}
	return false;
}

/* All that a repeat carries on counts as needed. */
static void
mark_region(struct needed *x, region_id id)
{
	const struct ir_region *r = &x->m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < r->results.n; i++) {
		x->value[r->results.at[i]] = true;
	}
	for (i = r->nodes.n; i-- > 0; ) {
		const struct ir_node *n = ir_node(x->m, r->nodes.at[i]);

		if (n->region) {
			mark_region(x, n->region);
		}
		for (k = 0; k < n->nargs && has_needed(x, n); k++) {
			x->value[ir_args(x->m, n)[k]] = true;
		}
	}
}

/*
 * Whether all collectives of a kernel are needed, or its contraction or
 * attention.
 */
static bool
is_needed(const struct needed *x, const struct kernel *k)
{
	bool any = false;
	uint32_t i;

	if (!x->value) {
		return true;
	}
	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(x->m, k->nodes.at[i]);
		bool is = has_needed(x, n);

		if (k->kind == KERNEL_COLLECTIVE && !is) {
			return false;
		}
		any |= is && (k->kind == KERNEL_COLLECTIVE ||
			      ir_is(n->op, IRF_CONTRACTS | IRF_PAIRS));
	}
	return any;
}

/* ---- lists ---- */

/* Adds the kernels of a list, with those of repeats in it. */
static void
add_all(struct pricing *p, const struct needed *x, const struct kernel_list *l,
	double times, struct price_least *f, bool *nested)
{
	struct price_least once = { 0, 0, 0 };
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			*nested = true;
			add_all(p, x, k->body, (double)k->body->count, &once,
				nested);
		} else if (is_needed(x, k)) {
			price_least(p, k, &once);
		}
	}
	f->kernels_us += times * once.kernels_us;
	f->colls_us += times * once.colls_us;
	f->waits_us += times * once.waits_us;
}

/*
 * One run of a repeat.  The time of a list grows with that of its kernels, and
 * faster the longer these are: so more of them add at least what a little adds.
 */
static struct piece_least
body_least(struct pricing *p, const struct needed *x,
	   const struct kernel_list *l)
{
	struct price_least f = { 0, 0, 0 }, more;
	struct piece_least least;
	enum price_list_kind in;
	bool nested = false;

	add_all(p, x, l, 1, &f, &nested);
	in = nested ? PRICE_IN_NEST : PRICE_IN_BODY;
	least.us = price_least_us(p, &f, in);
	more = f;
	more.kernels_us *= 1 + LITTLE;
	least.adds = more.kernels_us > f.kernels_us
		? (price_least_us(p, &more, in) - least.us) /
		  (more.kernels_us - f.kernels_us) : 0;
	return least;
}

/* Adds the contents of a list and of those inside.  False: one has none. */
static bool
mix_contents(const struct kernel_list *l, struct hash *key)
{
	bool known = l->content.a || l->content.b;
	uint32_t i;

	hash_add(key, l->content.a);
	hash_add(key, l->content.b);
	for (i = 0; known && i < l->at.n; i++) {
		const struct kernel_list *body = l->at.at[i].body;

		if (body) {
			hash_add(key, (uint64_t)body->count);
			known = mix_contents(body, key);
		}
	}
	return known;
}

/* body_least, once for all lists that are alike. */
static struct piece_least
body_least_of(struct pricing *p, struct needed *x, const struct kernel_list *l)
{
	struct body_seen new = { .key = { 1, x->value != NULL } };
	bool known = mix_contents(l, &new.key);
	uint32_t i;

	for (i = 0; known && i < x->seen.n; i++) {
		if (hash_same(x->seen.at[i].key, new.key)) {
			return x->seen.at[i].least;
		}
	}
	new.least = body_least(p, x, l);
	if (known) {
		VEC_PUSH(&p->m->ctx->tmp, &x->seen, new);
	}
	return new.least;
}

/*
 * Adds a function, of a piece of layers divided among these: *top gets what is
 * outside of repeats, and *body one layer.
 */
static void
add_function(struct pricing *p, struct needed *x,
	     const struct kernel_list *l, double layers,
	     struct piece_least *top, struct piece_least *body)
{
	struct price_least f = { 0, 0, 0 };
	double adds = 1;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];
		struct piece_least once;

		if (k->body) {
			once = body_least_of(p, x, k->body);
			body->us += once.us / layers * (double)k->body->count;
			adds = fmin(adds, once.adds);
		} else if (is_needed(x, k)) {
			price_least(p, k, &f);
		}
	}
	body->adds = adds;
	top->us += price_least_us(p, &f, PRICE_IN_TOP);
}

/* ---- pieces ---- */

void
piece_find_least(struct piece_sharding *w, const struct piece_kernels *list,
		 struct pricing *p, struct piece_least (*to)[SCHED_NKINDS])
{
	struct needed x = { .m = w->m };
	bool *value = arena_alloc(&w->ctx->tmp, w->m->values.n + 1);
	struct piece_least spare = { 0, 0 };
	uint32_t i, k;

	for (i = 0; i < w->on->nstages; i++) {
		uint32_t piece = w->on->piece_of[i];
		bool layers = piece >= PIECE_BODY;

		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id f = w->r.of_stage[i][k];
			/* as piece_cost.c: the first piece sets PIECE_TOP */
			struct piece_least *top = !layers ? &to[piece][k]
				: i > 1 ? &spare : &to[PIECE_TOP][k];

			x.value = k == SCHED_F ? value : NULL;
			if (f && x.value) {
				mark_region(&x, w->m->funcs.at[f].body);
			}
			if (f) {
				add_function(p, &x, list->of[f]->top,
					layers ? (double)w->on->iterations[i]
					       : 1, top, &to[piece][k]);
			}
		}
	}
}

/* ---- maps of ways that are known ---- */

/* Whether a value has so many times the bytes for so many sequences. */
static bool
is_of_batch(const struct space *s, const struct ir_module *m, value_id v)
{
	const struct ir_type *t = v ? ir_type(m, v) : NULL;

	return t && !t->routed && ir_type_at(t, s->batch_dim) >= 0;
}

/*
 * What a kernel moves for one sequence, by whether more have more of it.  Which
 * nodes are one kernel does not depend on the number of sequences.
 */
struct map_bytes {
	double batch, fixed;
};

/* Whether v is in registers if the kernel shares its launch, as the price of
 * other lengths may have it: one member makes it, and another one reads it. */
static bool
may_be_handed(const struct kernel_launch *l, uint32_t at, value_id v)
{
	uint32_t i;

	for (i = 0; i < l->n && (i == at || !kernel_makes(l->of[i], v)); i++) {
	}
	return i < l->n || kernel_hands_on(l, v);
}

static void
add_uses(const struct space *s, const struct ir_module *m,
	 const struct kernel *k, const struct kernel_use *u, uint32_t n,
	 struct map_bytes *to)
{
	const struct kernel_launch *l = k->launch;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (!l || !may_be_handed(l, l->at, u[i].value)) {
			*(is_of_batch(s, m, u[i].value)
			  ? &to->batch : &to->fixed) += u[i].bytes;
		}
	}
}

/*
 * Takes off what a contraction's own time includes: its operands and result.
 * False: its result is not of sequences, so it may move no more than that.
 */
static bool
take_own(const struct space *s, struct pricing *p, const struct kernel *k,
	 struct map_bytes *x)
{
	const struct ir_node *n = price_main_node(p->m, k, IRF_CONTRACTS,
						 IRF_PAIRS);
	struct cost_contraction d = price_dot(p, k);
	const value_id *args = ir_args(p->m, n);
	/* as they lie in memory, whatever they are narrowed to */
	double elem = ir_elem_bytes(ir_type(p->m, args[0])->dtype);
	double m = d.batch * d.m * d.k * elem, b = d.batch * d.k * d.n * elem;

	*(is_of_batch(s, p->m, args[0]) ? &x->batch : &x->fixed) -= m;
	*(is_of_batch(s, p->m, args[1]) ? &x->batch : &x->fixed) -= b;
	x->batch -= d.batch * d.m * d.n * d.out_bytes;
	/* other lengths may have less of that, never of what is missing */
	x->fixed = fmin(x->fixed, 0);
	return is_of_batch(s, p->m, n->result) && x->batch + x->fixed > 0;
}

static double
bytes_us(const struct target_device *d, double bytes)
{
	struct cost one = cost_bytes(d, COST_MAP, 1);

	return bytes * (one.us - one.launch_us);
}

/*
 * What a contraction or attention takes at least for each sequence, if it may
 * be one of forward: those that sum over sequences are not, nor are gradients
 * of attention.  Of a contraction sequences must be among the rows: a weight
 * that is its first operand is read once for all of them.
 */
static double
again_us(struct pricing *p, const struct piece_sharding *w,
	 const struct kernel *k)
{
	bool attends = k->kind == KERNEL_ATTENTION;
	const struct ir_node *n;
	const struct ir_type *t;

	if (!attends && k->kind != KERNEL_CONTRACTION) {
		return 0;
	}
	n = attends ? price_main_node(p->m, k, IRF_CACHED, 0)
		    : price_main_node(p->m, k, IRF_CONTRACTS, IRF_PAIRS);
	if (attends &&
	    !(ir_is(n->op, IRF_CACHED) && ir_is(n->op, IRF_PAIRS))) {
		return 0;
	}
	t = ir_type(p->m, n->result);
	return w->batch && ir_type_has(t, w->batch) &&
	       ir_type_has(ir_type(p->m, ir_args(p->m, n)[0]), w->batch) &&
	       !piece_is_cut_by_data(w, t) ? price_least_each_us(p, k) : 0;
}

/*
 * Adds the maps, reductions and copies of a list, and those that contractions
 * have in their kernels.
 */
static void
add_maps(const struct piece_sharding *w, const struct space *s,
	 struct pricing *p, const struct kernel_list *l, double times,
	 struct piece_maps *to)
{
	const struct target_device *d = &s->devs.at[0]->device;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];
		struct map_bytes x = { 0, 0 };

		if (k->body) {
			add_maps(w, s, p, k->body,
				 times * (double)k->body->count, to);
			continue;
		}
		to->again_us += times * again_us(p, w, k);
		add_uses(s, p->m, k, k->inputs.at, k->inputs.n, &x);
		add_uses(s, p->m, k, k->outputs.at, k->outputs.n, &x);
		if (k->kind == KERNEL_CONTRACTION && take_own(s, p, k, &x)) {
			to->starts_us += times * bytes_us(d, x.fixed);
			to->bytes_us += times * bytes_us(d, x.batch);
		} else if (k->kind <= KERNEL_ROWWISE ||
			   k->kind == KERNEL_MOVE) {
			to->starts_us += times * d->launch_us;
			to->bytes_us += times * bytes_us(d, x.batch);
		}
	}
}

void
piece_find_maps(const struct piece_store *s, const struct piece_sharding *w,
		struct kernels *const *of,
		struct piece_maps (*to)[SCHED_NKINDS])
{
	struct pricing p = piece_pricing(s, w, 0);
	uint32_t i, k, n;

	for (i = 0; i < w->on->nstages && s->space->devs.n == 1; i++) {
		uint32_t piece = w->on->piece_of[i];

		for (k = 0; k < SCHED_NKINDS && piece >= PIECE_BODY; k++) {
			func_id f = w->r.of_stage[i][k];
			struct piece_maps *own = &to[piece - PIECE_BODY][k];
			const struct kernel_list *l = f ? of[f]->top : NULL;

			for (n = 0; l && n < l->at.n; n++) {
				const struct kernel *x = &l->at.at[n];

				if (x->body) {
					add_maps(w, s->space, &p, x->body,
						 (double)x->body->count /
						 (double)w->on->iterations[i],
						 own);
				}
			}
			own->again_us = k == SCHED_F ? 0 : own->again_us;
		}
	}
}

/* ---- stages ---- */

/*
 * What layers of a piece add to that.  What is computed again is a copy of
 * forward's, beside all contractions and attention of backward; no microbatch
 * of so many sequences takes less of it than each of them does of many.
 */
static double
maps_us(const struct piece_maps *x, double microbatch, double layers,
	const struct piece_least *of)
{
	return layers > 0 ? layers * of->adds *
		fmax(x->starts_us + microbatch * (x->bytes_us + x->again_us),
		     0) : 0;
}

void
piece_stage_least(const struct space *s, const struct piece_cost *c,
		  const struct piece_maps (*maps)[SCHED_NKINDS], uint32_t dev,
		  int64_t lo, int64_t hi, double out[SCHED_NKINDS])
{
	double n[PIECE_MAX], mb = (double)c->microbatch;
	uint32_t i, k;

	piece_count(s, lo, hi, n);
	memset(out, 0, SCHED_NKINDS * sizeof *out);
	for (i = 0; i < PIECE_BODY + s->nkinds; i++) {
		for (k = 0; n[i] != 0 && k < SCHED_NKINDS; k++) {
			const struct piece_least *x = &c->on[dev]->least[i][k];

			out[k] += n[i] * x->us;
			out[k] += maps && i >= PIECE_BODY
				? maps_us(&maps[i - PIECE_BODY][k], mb, n[i],
					  x)
				: 0;
		}
	}
}

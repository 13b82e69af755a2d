/*
 * The units that a model is cut into, and the stage of each: the iterations of
 * its outermost repeats, and the nodes between them.  An iteration and its
 * gradient are on one stage, so that backward finds there what forward saved.
 */
#include "passes/stage/stage.h"

#include <string.h>

/* 1: computed from constants alone; 2: a source, converted or widened. */
enum { COPIED_CONST = 1, COPIED_SOURCE = 2 };

struct units {
	struct stage *st;
	uint32_t *saver;	/* by name: the item that saves it, plus 1 */
	bool *wanted;		/* by item: it is forward */
	uint32_t *mate;		/* by item: its forward repeat, plus 1 */
	VEC(uint32_t) cuts;	/* indices of cut forward items, ascending */
};

void
stage_uses(const struct stage *st, node_id id,
	   void (*f)(void *user, value_id v), void *user)
{
	const struct ir_module *m = st->m;
	const struct ir_node *n = ir_node(m, id);
	const struct ir_region *r = &m->regions.at[n->region];
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		f(user, ir_args(m, n)[i]);
	}
	for (i = 0; n->region && i < r->nodes.n; i++) {
		stage_uses(st, r->nodes.at[i], f, user);
	}
	for (i = 0; n->region && i < r->results.n; i++) {
		f(user, r->results.at[i]);
	}
}

struct stage_range
stage_range_of(const struct ir_module *m, const struct ir_node *repeat)
{
	struct stage_range r = { ir_attr_int(m, repeat, IR_ATTR_START, 0),
				 ir_attr_int(m, repeat, IR_ATTR_COUNT, 1) };

	return r;
}

struct stage_range
stage_trips(const struct stage *st, const struct stage_item *it,
	    uint32_t stage)
{
	int64_t lo = st->begin[stage], hi = st->begin[stage + 1];
	struct stage_range r;

	lo = lo > it->first ? lo : it->first;
	hi = hi < it->first + it->iters.count ? hi
		: it->first + it->iters.count;
	r.start = it->iters.start + (lo - it->first);
	r.count = hi > lo ? hi - lo : 0;
	return r;
}

static uint32_t
stage_of(const struct stage *st, int64_t layer)
{
	uint32_t s = 0;

	while (layer >= st->begin[s + 1]) {
		s++;
	}
	return s;
}

/* ---- values and items ---- */

/*
 * Whether and why a node is recomputed at each use rather than sent or saved.
 * Scales of a weight that is stored rounded are found by whoever reads it: so
 * the stage that uses the widened weight, and has its scales, holds the weight.
 */
static uint8_t
how_copied(const struct stage *st, const struct ir_node *n)
{
	uint8_t how = COPIED_CONST;
	uint32_t i;

	if (n->region || n->nresults != 1) {
		return 0;
	}
	if (ir_is(n->op, IRF_SOURCE)) {
		return ir_is(n->op, IRF_STORED) ? COPIED_SOURCE
			: ir_is(n->op, IRF_UNIQUE) ? 0
			: ir_op_takes(n->op, IR_ATTR_NAME) ? COPIED_SOURCE
			: COPIED_CONST;
	}
	for (i = 0; i < n->nargs; i++) {
		uint8_t arg = st->copied[ir_args(st->m, n)[i]];

		how = !arg || !how ? 0 : arg > how ? arg : how;
	}
	if (ir_is(n->op, IRF_UNIQUE)) {
		return 0;
	}
	return how != COPIED_SOURCE || ir_is(n->op, IRF_CONVERTS) ||
	       ir_rounded_weight(st->m, n->result) ? how : 0;
}

static void
find_values(struct units *u, region_id id, uint32_t item)
{
	struct stage *st = u->st;
	const struct ir_module *m = st->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < r->params.n; i++) {
		st->home[r->params.at[i]] = id;
	}
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		item = id == st->body ? i : item;
		for (k = 0; k < n->nresults; k++) {
			st->home[n->result + k] = id;
			if (id == st->body) {
				st->item_of[++st->ntop] = i;
				st->top[n->result + k] = st->ntop;
			}
		}
		if (n->nresults == 1) {
			st->copied[n->result] = how_copied(st, n);
		}
		if (ir_is(n->op, IRF_STASH) && ir_is(n->op, IRF_SINK)) {
			u->saver[ir_attr(m, n, IR_ATTR_NAME)->text] = item + 1;
			u->wanted[item] = true;
		}
		if (n->region) {
			st->outer[n->region] = id;
			find_values(u, n->region, item);
		}
	}
}

/* ---- forward ---- */

static void
want(void *user, value_id v)
{
	struct units *u = user;

	if (u->st->top[v]) {
		u->wanted[u->st->item_of[u->st->top[v]]] = true;
	}
}

/* Forward: nodes that results or saves for backward depend on, and what comes
 * out of the pass of such a node. */
static void
find_forward(struct units *u)
{
	struct stage *st = u->st;
	const struct ir_region *r = &st->m->regions.at[st->body];
	uint32_t i;

	for (i = 0; i < r->results.n; i++) {
		want(u, r->results.at[i]);
	}
	for (i = 0; i < r->nodes.n; i++) {
		u->wanted[i] |= ir_is_beside(ir_node(st->m,
						     r->nodes.at[i])->op);
	}
	for (i = r->nodes.n; i-- > 0;) {
		if (u->wanted[i]) {
			stage_uses(st, r->nodes.at[i], want, u);
		}
	}
	for (i = 0; i < r->nodes.n; i++) {
		struct stage_item it = { .node = r->nodes.at[i] };
		const struct ir_node *n = ir_node(st->m, it.node);

		it.backward = !u->wanted[i];
		if (!it.backward && n->region && n->nresults &&
		    !ir_attr(st->m, n, IR_ATTR_REVERSE)) {
			it.cut = true;
			it.iters = stage_range_of(st->m, n);
			VEC_PUSH(st->a, &u->cuts, i);
		}
		VEC_PUSH(st->a, &st->items, it);
	}
}

/* Whether x comes to the result of n on its way (ir_is_beside). */
static bool
comes_to(const struct ir_module *m, const struct ir_node *x,
	 const struct ir_node *n)
{
	uint32_t kind = IRF_PAIRS | IRF_ROWWISE;
	uint32_t same = ir_is(n->op, IRF_PAIRS) ? 2 : 1;

	return !ir_is_beside(x->op) && x->nargs >= same &&
	       (ir_ops[x->op].flags & kind) == (ir_ops[n->op].flags & kind) &&
	       memcmp(ir_args(m, x), ir_args(m, n),
		      same * sizeof *ir_args(m, n)) == 0;
}

/*
 * Where one region has forward and backward, what comes out of another node's
 * pass stands after all of forward (derive.c), but belongs to that node's
 * stage.
 */
static void
place_beside(struct units *u, uint32_t at)
{
	struct stage_item *it = &u->st->items.at[at];
	const struct ir_module *m = u->st->m;
	const struct ir_node *n = ir_node(m, it->node);
	uint32_t i;

	for (i = 0; ir_is_beside(n->op) && i < at; i++) {
		const struct stage_item *x = &u->st->items.at[i];

		if (!x->backward && comes_to(m, ir_node(m, x->node), n)) {
			it->stage = x->stage;
			return;
		}
	}
}

static bool
place_forward(struct units *u)
{
	struct stage *st = u->st;
	int64_t next = 0, total = st->begin[st->nstages];
	uint32_t i;

	for (i = 0; i < st->items.n; i++) {
		struct stage_item *it = &st->items.at[i];

		if (it->backward) {
			continue;
		}
		if (it->cut) {
			it->first = next;
			next += it->iters.count;
		} else {
			it->stage = next >= total ? st->nstages - 1
				: next == 0 ? 0 : stage_of(st, next);
			place_beside(u, i);
		}
		if (next > total) {
			break;
		}
	}
	if (next != total) {
		diag_error(
			&st->m->ctx->diags,
			st->m->funcs.at[ir_model(st->m)].span,
			"the stages of the plan hold %lld layers, and the "
			"forward repeats of this model have %s%lld iterations",
			(long long)total, next > total ? "at least " : "",
			(long long)next);
		return false;
	}
	return true;
}

/* ---- backward ---- */

/* The forward item whose saves the region reads, plus 1; or 0. */
static uint32_t
saver_of(const struct units *u, region_id id)
{
	const struct ir_module *m = u->st->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i, found = 0;

	for (i = 0; i < r->nodes.n && !found; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		if (n->region) {
			found = saver_of(u, n->region);
		} else if (ir_is(n->op, IRF_STASH)) {
			found = u->saver[ir_attr(m, n, IR_ATTR_NAME)->text];
		}
	}
	return found;
}

/* Whether one repeat runs the other's iterations in reverse. */
static bool
mirrors(const struct units *u, uint32_t backward, uint32_t forward)
{
	const struct ir_module *m = u->st->m;
	const struct ir_node *b = ir_node(m, u->st->items.at[backward].node);
	const struct ir_node *f = ir_node(m, u->st->items.at[forward].node);

	struct stage_range x = stage_range_of(m, b), y = stage_range_of(m, f);

	return f->region && x.count == y.count && x.start == y.start &&
	       !ir_attr(m, b, IR_ATTR_REVERSE) !=
	       !ir_attr(m, f, IR_ATTR_REVERSE);
}

static bool
no_mate(const struct units *u, uint32_t i, const char *what)
{
	const struct ir_module *m = u->st->m;
	const struct ir_node *n = ir_node(m, u->st->items.at[i].node);
	const struct ir_attr *var = ir_attr(m, n, IR_ATTR_VAR);
	struct stage_range r = stage_range_of(m, n);

	diag_error(&m->ctx->diags, n->span, "the backward repeat of iterations "
		   "%s = %lld to %lld %s", var ? ir_text(m->ctx, var->text)
		   : "i", (long long)r.start,
		   (long long)(r.start + r.count - 1), what);
	return false;
}

/*
 * The forward repeat of each backward one: by the saves it reads, or by order.
 */
static bool
find_mates(struct units *u)
{
	struct stage *st = u->st;
	uint32_t i, j, last = st->items.n, next;

	for (i = 0; i < st->items.n; i++) {
		region_id r = ir_node(st->m, st->items.at[i].node)->region;

		u->mate[i] = st->items.at[i].backward && r
			? saver_of(u, r) : 0;
	}
	for (i = 0; i < st->items.n; i++) {
		if (!st->items.at[i].backward ||
		    !ir_node(st->m, st->items.at[i].node)->region) {
			continue;
		}
		next = 0;
		for (j = i; j < st->items.n && !next; j++) {
			next = u->mate[j];
		}
		for (j = u->cuts.n; j-- > 0 && !u->mate[i];) {
			uint32_t k = u->cuts.at[j];

			if (k < last && k + 1 > next && mirrors(u, i, k)) {
				u->mate[i] = k + 1;
			}
		}
		if (!u->mate[i] && st->nstages > 1) {
			return no_mate(u, i, "mirrors no forward repeat");
		}
		if (u->mate[i] && !mirrors(u, i, u->mate[i] - 1)) {
			return no_mate(u, i, "takes what a repeat of other "
				       "iterations saves");
		}
		if (u->mate[i] && u->mate[i] - 1 >= last) {
			return no_mate(u, i, "stands before that of a later "
				       "forward repeat");
		}
		last = u->mate[i] ? u->mate[i] - 1 : last;
	}
	return true;
}

static bool
place_backward(struct units *u)
{
	struct stage *st = u->st;
	uint32_t i, left = 0, here = st->nstages - 1;

	for (i = 0; i < st->items.n; i++) {
		struct stage_item *it = &st->items.at[i];

		it->cut |= u->mate[i] && st->items.at[u->mate[i] - 1].cut;
		left += it->backward && it->cut;
	}
	for (i = 0; i < st->items.n; i++) {
		struct stage_item *it = &st->items.at[i];
		const struct stage_item *mate = u->mate[i]
			? &st->items.at[u->mate[i] - 1] : NULL;

		if (it->backward && it->cut) {
			it->first = mate->first;
			it->iters = mate->iters;
			here = --left ? stage_of(st, it->first) : 0;
		} else if (it->backward) {
			it->stage = here;
			if (mate && mate->stage != here) {
				return no_mate(u, i, "is not on the stage of "
					       "its forward repeat");
			}
		}
	}
	return true;
}

bool
stage_units(struct stage *st)
{
	struct units u = { .st = st };
	const struct ir_module *m = st->m;
	uint32_t s, nitems;

	st->body = m->funcs.at[ir_model(m)].body;
	st->nvalues = m->values.n;
	nitems = m->regions.at[st->body].nodes.n;
	st->begin = arena_alloc(st->a, (st->nstages + 1) * sizeof *st->begin);
	for (s = 0; s < st->nstages; s++) {
		st->begin[s + 1] = st->begin[s] + st->plan.layers[s];
	}
	st->home = arena_alloc(st->a, st->nvalues * sizeof *st->home);
	st->outer = arena_alloc(st->a, m->regions.n * sizeof *st->outer);
	st->top = arena_alloc(st->a, st->nvalues * sizeof *st->top);
	st->item_of = arena_alloc(st->a, st->nvalues * sizeof *st->item_of);
	st->copied = arena_alloc(st->a, st->nvalues * sizeof *st->copied);
	u.saver = arena_alloc(st->a, m->ctx->syms.text.n * sizeof *u.saver);
	u.wanted = arena_alloc(st->a, nitems * sizeof *u.wanted + 1);
	u.mate = arena_alloc(st->a, nitems * sizeof *u.mate + 1);
	find_values(&u, st->body, 0);
	find_forward(&u);
	return place_forward(&u) && find_mates(&u) && place_backward(&u);
}

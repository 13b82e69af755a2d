/*
 * Which pipeline rank holds which tensor, and in which iterations of a repeat:
 * the functions of the stages mention what they use, and a rank holds what its
 * stages mention.
 */
#include "passes/stage/stage_holders.h"

#include <string.h>

static sym_t
name_of(const struct ir_module *m, const struct ir_node *n)
{
	return ir_attr(m, n, IR_ATTR_NAME)->text;
}

/* Whether it accesses a named tensor, not one that crosses. */
static bool
is_tensor(const struct ir_node *n)
{
	uint32_t crosses = IRF_STASH | IRF_PEER;

	return ir_is(n->op, IRF_SOURCE)
		? ir_is(n->op, IRF_STORED) && !ir_is(n->op, IRF_UNIQUE)
		: ir_is(n->op, IRF_SINK) && !ir_is(n->op, crosses);
}

static void
mention(struct stage_holders *h, sym_t name, const struct stage_mention *like)
{
	struct stage_mention x = *like;
	const struct stage_mention *last;

	x.next = h->head[name];
	last = x.next ? &h->mentions.at[x.next - 1] : NULL;
	if (last && last->stage == x.stage && last->all == x.all &&
	    last->iters.start == x.iters.start &&
	    last->iters.count == x.iters.count) {
		return;
	}
	VEC_PUSH(h->st->a, &h->mentions, x);
	h->head[name] = h->mentions.n;
}

/*
 * `var` and the iterations in `like` are those of the outermost repeat around.
 */
static void
find_mentions(struct stage_holders *h, region_id id, sym_t var,
	      const struct stage_mention *like)
{
	const struct ir_module *m = h->st->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);
		const struct ir_attr *a = ir_attr(m, n, IR_ATTR_VAR);
		struct stage_mention x = *like;

		if (n->region) {
			if (x.all) {
				x.iters = stage_range_of(m, n);
				x.all = false;
			}
			find_mentions(h, n->region, like->all && a ? a->text
				      : var, &x);
		} else if (is_tensor(n)) {
			const char *text = ir_text(m->ctx, name_of(m, n));

			if (x.all || !var || !pass_mentions(text,
					ir_text(m->ctx, var))) {
				x.all = true;
				memset(&x.iters, 0, sizeof x.iters);
			}
			mention(h, name_of(m, n), &x);
		}
	}
}

void
stage_find_holders(struct stage_holders *h)
{
	uint32_t i, nfns = STAGE_NPHASES * h->st->nstages;

	h->head = arena_alloc(h->st->a, h->nsyms * sizeof *h->head);
	VEC_PUSH(h->st->a, &h->holdings, (struct stage_holding){ 0 });
	for (i = 0; i < nfns; i++) {
		struct stage_mention x = {
			.stage = h->st->fns[i].stage, .all = true
		};

		if (h->st->fns[i].region) {
			find_mentions(h, h->st->fns[i].region, 0, &x);
		}
	}
}

bool
stage_is_held(const struct stage_holders *h, sym_t name)
{
	return name < h->nsyms && h->head[name];
}

bool
stage_overlaps(const struct stage_mention *x, const struct stage_range *r)
{
	return x->all || !r || (x->iters.start < r->start + r->count &&
				r->start < x->iters.start + x->iters.count);
}

static struct stage_holding
find_holding(const struct stage_holders *h, sym_t name,
	     const struct stage_range *r)
{
	struct stage_holding y = { .name = name, .first = UINT32_MAX };
	uint32_t k;

	for (k = stage_is_held(h, name) ? h->head[name] : 0; k;
	     k = h->mentions.at[k - 1].next) {
		const struct stage_mention *x = &h->mentions.at[k - 1];
		uint32_t rank = h->st->rank_of[x->stage];

		if (stage_overlaps(x, r)) {
			y.several |= y.first != UINT32_MAX && y.first != rank;
			y.first = rank < y.first ? rank : y.first;
		}
	}
	if (y.first == UINT32_MAX) {
		y.first = h->st->rank_of[0];
	}
	return y;
}

/* All ranks ask about the same iterations, so answers are cached. */
const struct stage_holding *
stage_holding(struct stage_holders *h, sym_t name, const struct stage_range *r)
{
	int64_t start = r ? r->start : 0, count = r ? r->count : 0;
	uint64_t hash = hash_word(hash_word(name, (uint64_t)start),
				  (uint64_t)count);
	struct stage_holding y;
	uint32_t k = 0;

	while ((k = table_find(&h->asked, hash, k)) != 0) {
		const struct stage_holding *x = &h->holdings.at[k];

		if (x->name == name && x->start == start &&
		    x->count == count) {
			return x;
		}
	}
	y = find_holding(h, name, r);
	y.start = start;
	y.count = count;
	VEC_PUSH(h->st->a, &h->holdings, y);
	k = table_add(h->st->a, &h->asked, hash);
	return &h->holdings.at[k];
}

bool
stage_holds(struct stage_holders *h, uint32_t pipe, sym_t name,
	    const struct stage_range *r)
{
	const struct stage_holding *x = stage_holding(h, name, r);
	uint32_t k;

	if (!x->several) {
		return x->first == pipe;
	}
	for (k = h->head[name]; k; k = h->mentions.at[k - 1].next) {
		const struct stage_mention *y = &h->mentions.at[k - 1];

		if (h->st->rank_of[y->stage] == pipe && stage_overlaps(y, r)) {
			return true;
		}
	}
	return false;
}

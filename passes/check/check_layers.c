/*
 * Whether each iteration of the layers, and each element of a dim that is
 * split, is on exactly one rank of those that share them out.
 */
#include "passes/check/check.h"

#include <stdlib.h>
#include <string.h>

/* ---- layers ---- */

/* An outermost repeat of a forward that carries values: layers of a stage. */
struct piece {
	node_id node;
	uint32_t stage;
	int64_t lo, hi;
	bool later; /* an earlier stage has the iterations before it */
	sym_t sign; /* key that pieces of one repeat share, or 0 */
	const struct check_use *use;	/* a use of that key */
};

struct layers {
	struct check *c;
	VEC(struct piece) at;
	uint32_t *last;		/* by sign: 1 + its last piece so far, or 0 */
};

static struct span
span_of(const struct check *c, const struct check_fn *f)
{
	return c->m->funcs.at[f->func].span;
}

/*
 * Finds the key that shows which pieces belong to one repeat: of a value that
 * they save for backward, or else of a weight. No other repeat has the same
 * key, except if two repeats use the same weight.
 */
static void
find_signs(struct layers *l, const struct check_fn *f, uint32_t from)
{
	struct check *c = l->c;
	uint32_t i, k;
	bool saves;

	for (i = f->first; i < f->first + f->n; i++) {
		const struct check_use *u = &c->uses.at[i];

		if (!u->repeat || !strstr(intern_text(&c->keys, u->key),
					    "{}")) {
			continue;
		}
		saves = ir_is(check_node(c, u)->op, IRF_STASH);
		for (k = from; k < l->at.n; k++) {
			struct piece *p = &l->at.at[k];

			if (p->node == u->repeat && (!p->sign || (saves &&
			    !ir_is(check_node(c, p->use)->op, IRF_STASH)))) {
				p->sign = u->key;
				p->use = u;
			}
		}
	}
}

/*
 * The iterations of a repeat that several stages share must follow each other,
 * or some are run twice or never: each piece begins where the last one ends.
 */
static void
trips_follow(struct layers *l, struct piece *p)
{
	struct check *c = l->c;
	const struct piece *before;

	if (!p->sign) {
		return;
	}
	before = l->last[p->sign] ? &l->at.at[l->last[p->sign] - 1] : NULL;
	p->later = before != NULL;
	if (before && before->hi != p->lo) {
		diag_error(&c->m->ctx->diags, ir_node(c->m, p->node)->span,
			   "stage %u, repeat with `%s`: found iterations from "
			   "%lld on, expected from %lld on, where stage %u "
			   "ends", p->stage, intern_text(&c->keys, p->sign),
			   (long long)p->lo, (long long)before->hi,
			   before->stage);
	}
	l->last[p->sign] = (uint32_t)(p - l->at.at) + 1;
}

static bool
any_read(const struct check *c, const struct ir_node *n)
{
	uint32_t i;

	for (i = 0; i < n->nresults; i++) {
		if (c->reads[n->result + i]) {
			return true;
		}
	}
	return n->nresults == 0;
}

/* Each stage must run as many iterations as the plan gives it. */
static void
layers_of_stage(struct layers *l, const struct check_fn *f)
{
	struct check *c = l->c;
	const struct ir_region *r =
		&c->m->regions.at[c->m->funcs.at[f->func].body];
	uint32_t i, from = l->at.n;
	int64_t sum = 0, count;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(c->m, r->nodes.at[i]);
		struct piece p = { .node = r->nodes.at[i],
				   .stage = f->stage };

		if (!n->region || !n->nresults) {
			continue;
		}
		count = ir_attr_int(c->m, n, IR_ATTR_COUNT, 1);
		p.lo = ir_attr_int(c->m, n, IR_ATTR_START, 0);
		p.hi = p.lo + count;
		if (ir_attr(c->m, n, IR_ATTR_REVERSE)) {
			continue;
		}
		if (!num_add(sum, count, &sum)) {
			sum = INT64_MAX;
		}
		VEC_PUSH(c->a, &l->at, p);
		if (!any_read(c, n)) {
			diag_error(&c->m->ctx->diags, n->span, "stage %u, "
				   "forward: nothing uses what iteration %lld "
				   "hands on, expected a use", f->stage,
				   (long long)(p.hi - 1));
		}
	}
	if (sum != c->plan.layers[f->stage]) {
		diag_error(
			&c->m->ctx->diags, span_of(c, f),
			"stage %u, "
			"forward: found %lld iterations of repeats, expected "
			"%lld: so many layers the plan gives it",
			f->stage, (long long)sum,
			(long long)c->plan.layers[f->stage]);
	}
	find_signs(l, f, from);
	for (i = from; i < l->at.n; i++) {
		trips_follow(l, &l->at.at[i]);
	}
}

/* ---- backward ---- */

/*
 * A repeat of backward must run the same iterations as the forward repeat whose
 * saves it reads, from the last to the first. Otherwise it reads saves of other
 * iterations.
 */
static void
mirrors(struct check *c, const struct check_use *take, node_id forward)
{
	const struct ir_node *b = ir_node(c->m, take->repeat);
	const struct ir_node *f = ir_node(c->m, forward);
	int64_t lo = ir_attr_int(c->m, f, IR_ATTR_START, 0);
	int64_t n = ir_attr_int(c->m, f, IR_ATTR_COUNT, 1);
	int64_t blo = ir_attr_int(c->m, b, IR_ATTR_START, 0);
	int64_t bn = ir_attr_int(c->m, b, IR_ATTR_COUNT, 1);

	if (lo != blo || n != bn) {
		check_fail(c, take,
			   "found it in a repeat of iterations %lld to "
			   "%lld, expected %lld to %lld, as in forward",
			   (long long)blo, (long long)(blo + bn - 1),
			   (long long)lo, (long long)(lo + n - 1));
	} else if (!ir_attr(c->m, b, IR_ATTR_REVERSE) ==
		   !ir_attr(c->m, f, IR_ATTR_REVERSE)) {
		check_fail(c, take,
			   "its repeat runs the iterations in the order "
			   "of forward, expected from the last to the first");
	}
}

/*
 * Iterations must pass on their values: forward to later iterations, backward
 * to earlier ones. Otherwise a part of the model does not depend on the rest.
 */
static void
hands_on(struct layers *l, node_id forward, node_id backward)
{
	struct check *c = l->c;
	const struct piece *p = NULL;
	uint32_t i;

	for (i = 0; i < l->at.n && !p; i++) {
		p = l->at.at[i].node == forward ? &l->at.at[i] : NULL;
	}
	if (p && p->later && !any_read(c, ir_node(c->m, backward))) {
		diag_error(
			&c->m->ctx->diags, ir_node(c->m, backward)->span,
			"stage %u, backward: nothing uses the gradient "
			"that comes out of iteration %lld, expected "
			"iteration %lld to",
			p->stage, (long long)p->lo, (long long)(p->lo - 1));
	}
}

/*
 * Checks each repeat of backward against the forward repeat whose saves it
 * reads.
 */
static void
mirrors_all(struct layers *l)
{
	struct check *c = l->c;
	node_id *saver = arena_alloc(c->a, c->nstages * sizeof *saver);
	node_id *reported = arena_alloc(c->a, c->m->nodes.n * sizeof *reported);
	uint32_t i;
	sym_t key;

	for (key = 1; key < c->keys.text.n; key++) {
		for (i = c->key_begin[key]; i < c->key_begin[key + 1]; i++) {
			const struct check_use *u =
				&c->uses.at[c->by_key[i]];
			const struct ir_node *n = check_node(c, u);
			const struct check_fn *f = check_fn_of(c, u);

			if (!ir_is(n->op, IRF_STASH) || !u->repeat ||
			    f->phase == CHECK_UPDATE) {
				continue;
			}
			if (ir_is(n->op, IRF_SINK)) {
				saver[f->stage] = f->phase == CHECK_FORWARD
					? u->repeat : 0;
			} else if (saver[f->stage] && !reported[u->repeat]) {
				reported[u->repeat] = 1;
				mirrors(c, u, saver[f->stage]);
				if (f->phase == CHECK_BACKWARD) {
					hands_on(l, saver[f->stage],
						 u->repeat);
				}
			}
		}
		for (i = c->key_begin[key]; i < c->key_begin[key + 1]; i++) {
			const struct check_fn *f = check_fn_of(c,
				&c->uses.at[c->by_key[i]]);

			if (f->phase != CHECK_UPDATE) {
				saver[f->stage] = 0;
			}
		}
	}
}

/* ---- what comes from later stages ---- */

static bool
has_use(const struct check *c, const struct check_fn *f, enum ir_op op)
{
	uint32_t i;

	for (i = f->first; i < f->first + f->n; i++) {
		if (check_node(c, &c->uses.at[i])->op == op) {
			return true;
		}
	}
	return false;
}

/*
 * Only the last stage has the loss. An earlier stage must receive the gradients
 * that it starts from, or its own would be made from nothing.
 */
static void
gradients_come(struct check *c, uint32_t s)
{
	const struct check_fn *b = &c->fns[CHECK_BACKWARD * c->nstages + s];
	const struct check_fn *w = &c->fns[CHECK_WEIGHTS * c->nstages + s];

	if (s + 1 < c->nstages && !has_use(c, b, IR_RECV) &&
	    (has_use(c, b, IR_ACCUMULATE) || has_use(c, w, IR_ACCUMULATE) ||
	     has_use(c, b, IR_SEND))) {
		diag_error(&c->m->ctx->diags, span_of(c, b), "stage %u, "
			   "backward: it makes gradients and receives none, "
			   "expected a recv from a later stage", s);
	}
}

void
check_layers(struct check *c)
{
	struct layers l = { .c = c };
	uint32_t s;

	l.last = arena_alloc(c->a, (c->keys.text.n + 1) * sizeof *l.last);
	for (s = 0; s < c->nstages; s++) {
		layers_of_stage(&l, &c->fns[s]);
		gradients_come(c, s);
	}
	mirrors_all(&l);
}

/* ---- elements ---- */

struct slice {
	int64_t start, count;
};

static int
by_start(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/*
 * Goes to the next rank along the axes of a cut, innermost first. False at the
 * end.
 */
static bool
next_rank(const struct check *c, uint32_t cut, uint32_t at[IR_MAX_AXES + 1])
{
	int place;

	for (place = 4 * (IR_MAX_AXES - 1); place >= 0; place -= 4) {
		axis_id a = cut >> place & 15;

		if (a && ++at[a] < (uint32_t)c->m->axes.at[a].size) {
			return true;
		}
		at[a] = 0;
	}
	return false;
}

/*
 * Lists the slices of all ranks. They are in order, unless an axis is balanced.
 */
static uint32_t
all_slices(struct check *c, int64_t size, uint32_t cut, struct slice *out)
{
	uint32_t at[IR_MAX_AXES + 1] = { 0 }, n = 0, i;
	struct ir_pieces p;

	do {
		ir_pieces(c->m, size, cut, at, &p);
		for (i = 0; i < p.n; i++) {
			out[n].start = p.at[i].start;
			out[n++].count = p.at[i].count;
		}
	} while (next_rank(c, cut, at));
	return n;
}

/*
 * Each element of a split dim must be on exactly one rank, or it is computed
 * twice or never. A rank may have no element.
 */
static void
covered_once(struct check *c, dim_id d, uint32_t cut, struct slice *slices)
{
	int64_t size = ir_dim_size(c->m, d), next = 0;
	uint32_t n = all_slices(c, size, cut, slices), i;
	struct buf b;

	for (i = 1; i < n && slices[i - 1].start <= slices[i].start; i++) {
	}
	if (i < n) {
		qsort(slices, n, sizeof *slices, by_start);
	}
	for (i = 0; i < n && slices[i].start == next; i++) {
		next += slices[i].count;
	}
	if (i == n && next == size) {
		return;
	}
	buf_init(&b, c->a);
	ir_put_cut(c->m, cut, &b);
	diag_error(&c->m->ctx->diags, (struct span){ 0, 0 }, "dim `%s%s`: "
		   "found element %lld of %lld on %s, expected each on one",
		   ir_dim_name(c->m, d), buf_text(&b),
		   (long long)next, (long long)size,
		   i < n && slices[i].start < next ? "two ranks" : "no rank");
}

/* An upper bound on the slices of all ranks along a cut. */
static size_t
room_for(const struct check *c, uint32_t cut)
{
	size_t n = 1;

	for (; cut; cut >>= 4) {
		n *= (size_t)c->m->axes.at[cut & 15].size;
	}
	return n * (IR_MAX_AXES + 1);
}

struct cuts {
	struct arena *a;
	VEC(uint64_t) seen;	/* dim << 32 | cut; entry 0 is unused */
	struct table table;
};

static bool
is_new(struct cuts *k, uint64_t cut)
{
	uint64_t hash = hash_word(1, cut);
	uint32_t at = 0;

	while ((at = table_find(&k->table, hash, at)) != 0) {
		if (k->seen.at[at] == cut) {
			return false;
		}
	}
	VEC_PUSH(k->a, &k->seen, cut);
	table_add(k->a, &k->table, hash);
	return true;
}

void
check_pieces(struct check *c)
{
	struct cuts k = { .a = c->a };
	struct slice *slices = NULL;
	size_t has = 0, want;
	value_id v;
	uint32_t i;

	VEC_PUSH(c->a, &k.seen, 0);
	for (v = 1; v < c->m->values.n; v++) {
		const struct ir_type *t = ir_type(c->m, v);

		for (i = 0; i < t->ndims; i++) {
			if (!t->cut[i] || !is_new(&k, (uint64_t)t->dims[i]
						  << 32 | t->cut[i])) {
				continue;
			}
			want = room_for(c, t->cut[i]);
			if (want > has) {
				slices = arena_alloc(c->a,
						     want * sizeof *slices);
				has = want;
			}
			covered_once(c, t->dims[i], t->cut[i], slices);
		}
	}
}

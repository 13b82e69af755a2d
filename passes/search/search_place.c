/*
 * Places shardings: cuts the program into a pipeline of pieces and runs `place`
 * on it, which decides placements and collectives along each axis of the mesh.
 */
#include "passes/search/search_parts.h"

#include <string.h>

/* ---- the program ---- */

bool
search_pass(struct search *s, struct ir_ctx *c, struct ir_module *m,
	    pass_fn *pass)
{
	struct pass_ctx p = { .ctx = c, .stats = &s->stats,
			      .cluster = s->o->target, .memo = s->memo };

	return pass(&p, m) && c->diags.errors == 0;
}

/* The program as the pass `place` gets it, made once. */
static struct ir_module *
ready(struct search *s)
{
	struct ir_module *m;
	struct ir_ctx c;

	if (s->ready) {
		return s->ready;
	}
	ir_ctx_child(&c, s->m->ctx);
	m = ir_copy(s->m, &c);
	plan_write(m, &s->base);
	s->ready_bad = !search_pass(s, &c, m, pass_optimize) ||
		       !search_pass(s, &c, m, pass_cse) ||
		       !search_pass(s, &c, m, pass_dce);
	arena_release(&c.tmp);
	ir_ctx_child(&s->ready_ctx, s->m->ctx);
	return s->ready = ir_move(m, &s->ready_ctx);
}

bool
search_is_refused(struct search *s)
{
	ready(s);
	return s->ready_bad;
}

/* ---- the pipeline of pieces ---- */

/*
 * Cuts layers into pieces: the first layer, the rest of each kind, the last
 * layer.
 */
static void
cut(const struct search *s, struct search_placed *w)
{
	uint32_t k, n = 0;

	if (w->key.solo) {
		w->piece_of[0] = PIECE_FIRST;
		w->iterations[0] = s->nlayers;
		w->nstages = 1;
		return;
	}
	w->piece_of[n] = PIECE_FIRST;
	w->iterations[n++] = 1;
	for (k = 0; k < s->nkinds; k++) {
		int64_t iterations = s->kinds[k].iterations - (k == 0) -
				(k + 1 == s->nkinds);

		if (iterations > 0) {
			w->piece_of[n] = PIECE_BODY + k;
			w->iterations[n++] = iterations;
		}
	}
	w->piece_of[n] = PIECE_LAST;
	w->iterations[n++] = 1;
	w->nstages = n;
}


void
search_write_plan(struct search *s, const struct search_placed *w,
		  const struct search_key *key, const struct search_try *t,
		  struct ir_module *m)
{
	struct plan p = s->base;

	p.tp = w->key.tp;
	p.cp = w->key.cp;
	p.ep = w->key.ep;
	p.sequence = w->key.sequence;
	p.dp = t->g->dp;
	p.pp = w->nstages;
	p.microbatch = t->microbatch;
	p.interleave = 1;
	p.schedule = key->split ? "zb_h1" : "1f1b";
	p.schedule_file = NULL;
	p.zero = w->key.zero;
	p.offload = key->offload;
	p.recompute = key->choice ? w->choices.at[key->choice].words
				  : s->base.recompute;
	p.nstages = w->nstages;
	p.layers = (int64_t *)w->iterations;
	plan_write(m, &p);
}

/* ---- where ---- */

/* Whether plans of g may have the sharding of the key. */
static bool
has_sharding(const struct search *s, const struct search_group *g,
	  const struct search_key *key)
{
	return g->tp == key->tp && g->cp == key->cp && g->ep == key->ep &&
	       (g->dp > 1) == key->data &&
	       (key->solo ? g->pp == 1 : g->pp > 1 || s->nlayers > 2);
}

/*
 * Chooses the plan for which a sharding is placed.  Its microbatch is that of
 * the key, or else that of the first plan that needs the sharding; its degrees
 * are those with the best first guess.
 */
static void
set_place(struct search *s, struct search_placed *w,
	  const struct search_try *t)
{
	int64_t mb = w->key.microbatch ? w->key.microbatch : t->microbatch;
	uint32_t i;

	w->g = *t->g;
	for (i = 0; i < s->groups.n; i++) {
		const struct search_group *g = &s->groups.at[i];

		if (has_sharding(s, g, &w->key) &&
		    mb * g->dp * g->ep <= s->batch &&
		    search_is_before(g, &w->g)) {
			w->g = *g;
		}
	}
	w->at = *t;
	w->at.g = &w->g;
	w->at.microbatch = mb;
	w->at.nmicrobatches = search_microbatches(s, &w->g, mb);
}

static bool
place(struct search *s, struct search_placed *w)
{
	const struct search_try *t = &w->at;
	struct ir_module *m = ready(s), *placed;
	struct ir_ctx c;
	bool ok;

	if (s->ready_bad) {
		return false;
	}
	ir_ctx_child(&c, m->ctx);
	placed = ir_copy(m, &c);
	cut(s, w);
	search_write_plan(s, w, &w->key, t, placed);
	ok = search_pass(s, &c, placed, pass_place);
	arena_release(&c.tmp);
	ir_ctx_child(&w->ctx, m->ctx);
	w->m = ir_move(placed, &w->ctx);
	s->out->placements++;
	return ok;
}

/* ---- which ---- */

bool
search_same_key(const struct search_key *a, const struct search_key *b)
{
	return a->tp == b->tp && a->cp == b->cp && a->ep == b->ep &&
	       a->zero == b->zero && a->data == b->data &&
	       a->sequence == b->sequence &&
	       a->split == b->split && a->solo == b->solo &&
	       a->microbatch == b->microbatch &&
	       a->offload == b->offload && a->choice == b->choice;
}

/* The key without the fields that change programs only. */
static struct search_key
placed_key(const struct search_key *key)
{
	struct search_key whole = *key;

	whole.split = whole.offload = false;
	whole.choice = 0;
	return whole;
}

bool
search_same_sharding(const struct search_key *a, const struct search_key *b)
{
	struct search_key x = placed_key(a), y = placed_key(b);

	x.microbatch = y.microbatch = 0;
	return search_same_key(&x, &y);
}

uint64_t
search_hash_sharding(const struct search_key *key)
{
	uint64_t hash = hash_word((uint64_t)key->tp, (uint64_t)key->cp);
	int flags = key->zero << 3 | key->data << 2 | key->sequence << 1 |
		    key->solo;

	hash = hash_word(hash, (uint64_t)key->ep);
	return hash_word(hash, (uint64_t)flags);
}

int64_t
search_placed_for(const struct search *s, const struct search_key *key)
{
	struct search_key whole = placed_key(key);
	uint32_t i;

	whole.microbatch = 0;
	for (i = 0; i < s->placed.n; i++) {
		if (search_same_key(&s->placed.at[i]->key, &whole)) {
			return s->placed.at[i]->at.microbatch;
		}
	}
	return 0;
}

struct search_placed *
search_place(struct search *s, const struct search_key *key,
	     const struct search_try *t)
{
	struct search_key whole = placed_key(key);
	struct search_placed *w;
	uint32_t i;

	for (i = 0; i < s->placed.n; i++) {
		if (search_same_key(&s->placed.at[i]->key, &whole)) {
			return s->placed.at[i];
		}
	}
	w = arena_alloc(&s->keep, sizeof *w);
	w->key = whole;
	set_place(s, w, t);
	VEC_PUSH(&s->keep, &s->placed, w);
	w->bad = !place(s, w);
	return w;
}

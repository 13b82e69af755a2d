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

struct ir_module *
search_ready(struct search *s)
{
	struct ir_module *m;
	struct ir_ctx c;

	if (s->ready) {
		return s->ready_bad ? NULL : s->ready;
	}
	ir_ctx_child(&c, s->m->ctx);
	m = ir_copy(s->m, &c);
	plan_write(m, &s->base);
	s->ready_bad = !search_pass(s, &c, m, pass_optimize) ||
		       !search_pass(s, &c, m, pass_cse) ||
		       !search_pass(s, &c, m, pass_dce);
	arena_release(&c.tmp);
	ir_ctx_child(&s->ready_ctx, s->m->ctx);
	s->ready = ir_move(m, &s->ready_ctx);
	return s->ready_bad ? NULL : s->ready;
}

bool
search_is_refused(struct search *s)
{
	return !search_ready(s);
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
	p.recompute = w->like->words.at[key->choice];
	p.nstages = w->nstages;
	p.layers = (int64_t *)w->iterations;
	plan_write(m, &p);
}

/* ---- placements ---- */

axis_id
search_axis(const struct ir_module *m, const char *name)
{
	return ir_axis_find(m, intern_str(&m->ctx->syms, name));
}

void
search_drop_updates(struct ir_module *m)
{
	bool *live = arena_alloc(&m->ctx->tmp, m->funcs.n * sizeof *live);

	live[ir_model(m)] = true;
	pass_drop_funcs(m, live);
}

/*
 * What stages are made of: all of the placed program but its updates, whatever
 * the settings and the lengths of dp and time, which are set before it is used.
 * Names that `place` added, such as those of axes, count by their texts: two
 * placements may have given one id to `tp` and to `cp`.
 */
static struct hash
hash_stages(struct search *s, const struct search_placed *w)
{
	struct ir_ctx work, c;
	struct ir_module *m;
	struct hash hash;
	axis_id a;

	ir_ctx_child(&work, w->m->ctx);
	m = ir_copy(w->m, &work);
	search_drop_updates(m);
	m->settings.n = 0;
	for (a = 1; a < m->axes.n; a++) {
		struct ir_axis *x = &m->axes.at[a];

		x->size = x->time || a == search_axis(m, "dp") ? 1 : x->size;
	}
	ir_ctx_child(&c, w->m->ctx);
	m = ir_move(m, &c);
	hash = ir_hash_all(m);
	ir_hash_names(m, search_ready(s)->ctx->syms.text.n, &hash);
	ir_ctx_release(&c);
	return hash;
}

/* Sets w->like, if it is another one. */
static void
find_like(struct search *s, struct search_placed *w)
{
	uint32_t i;

	if (w->bad) {
		return;
	}
	w->stages = hash_stages(s, w);
	for (i = 0; i < s->placed.n && w->like == w; i++) {
		struct search_placed *x = s->placed.at[i];

		if (!x->bad && hash_same(x->stages, w->stages)) {
			w->like = x;
		}
	}
}

void
search_place_again(struct search *s, struct search_placed *w)
{
	struct ir_module *m = search_ready(s), *placed;
	struct ir_ctx c;

	cut(s, w);
	w->bad = true;
	w->used = ++s->clock;
	if (!m) {
		return;
	}
	ir_ctx_child(&c, m->ctx);
	placed = ir_copy(m, &c);
	search_write_plan(s, w, &w->key, &w->at, placed);
	w->bad = !search_pass(s, &c, placed, pass_place);
	arena_release(&c.tmp);
	ir_ctx_child(&w->ctx, m->ctx);
	w->m = ir_move(placed, &w->ctx);
	s->nopen++;
}

bool
search_same_key(const struct search_key *a, const struct search_key *b)
{
	return a->tp == b->tp && a->cp == b->cp && a->ep == b->ep &&
	       a->zero == b->zero && a->data == b->data &&
	       a->sequence == b->sequence && a->single == b->single &&
	       a->split == b->split && a->solo == b->solo &&
	       a->offload == b->offload && a->choice == b->choice;
}

/* The key without the fields that change programs only. */
static struct search_key
placed_key(const struct search_key *key)
{
	struct search_key whole = *key;

	whole.split = whole.single = false;
	whole.offload = 0;
	whole.choice = 0;
	return whole;
}

static struct search_placed *
find_placed(const struct search *s, const struct search_key *whole)
{
	uint32_t i;

	for (i = 0; i < s->placed.n; i++) {
		if (search_same_key(&s->placed.at[i]->key, whole)) {
			return s->placed.at[i];
		}
	}
	return NULL;
}

bool
search_is_placed(const struct search *s, const struct search_key *key)
{
	struct search_key whole = placed_key(key);

	return find_placed(s, &whole) != NULL;
}

struct search_placed *
search_place(struct search *s, const struct search_key *key,
	     const struct search_try *t)
{
	struct search_key whole = placed_key(key);
	struct search_placed *w = s->asked;

	/* mostly the same one several times */
	if (w && search_same_key(&w->key, &whole)) {
		return w;
	}
	w = s->asked = find_placed(s, &whole);
	if (w) {
		return w;
	}
	w = arena_alloc(&s->keep, sizeof *w);
	w->key = whole;
	w->g = *t->g;
	w->at = *t;
	w->at.g = &w->g;
	w->like = w;
	VEC_PUSH(&s->keep, &w->words, s->base.recompute);
	search_place_again(s, w);
	find_like(s, w);
	VEC_PUSH(&s->keep, &s->placed, w);
	s->out->placements++;
	s->out->placed_nodes += w->m ? w->m->nodes.n : 0;
	return w;
}

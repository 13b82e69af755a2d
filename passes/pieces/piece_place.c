/*
 * Places shardings: cuts the program into a pipeline of pieces and runs `place`
 * on it, which decides placements and collectives along each axis of the mesh.
 */
#include "passes/pieces/piece_parts.h"

#include <string.h>

void
piece_open(struct piece_store *s, struct space *space, struct memo *memo)
{
	*s = (struct piece_store){
		.space = space, .memo = memo,
		.stats = { .arena = &space->keep, .pass = "search" }
	};
}

/* ---- the program ---- */

struct ir_module *
piece_keep(struct piece_store *s, struct ir_module *m,
	   const struct ir_ctx *parent, struct ir_ctx **to)
{
	*to = s->spare.n ? s->spare.at[--s->spare.n]
			 : arena_alloc(&s->space->keep, sizeof **to);
	ir_ctx_child(*to, parent);
	return ir_move(m, *to);
}

void
piece_close(struct piece_store *s, struct ir_ctx **ctx, struct ir_module **m)
{
	ir_ctx_release(*ctx);
	VEC_PUSH(&s->space->keep, &s->spare, *ctx);
	*ctx = NULL;
	*m = NULL;
}

static struct pass_ctx
pass_ctx_of(struct piece_store *s, struct ir_ctx *c)
{
	return (struct pass_ctx){ .ctx = c, .stats = &s->stats,
				  .cluster = s->space->target,
				  .memo = s->memo };
}

bool
piece_pass(struct piece_store *s, struct ir_ctx *c, struct ir_module *m,
	   pass_fn *pass)
{
	struct pass_ctx p = pass_ctx_of(s, c);

	return pass(&p, m) && c->diags.errors == 0;
}

bool
piece_stage(struct piece_store *s, struct ir_ctx *c, struct ir_module *m,
	    const bool *only)
{
	struct pass_ctx p = pass_ctx_of(s, c);

	return stage_some(&p, m, only) && c->diags.errors == 0;
}

struct ir_module *
piece_ready(struct piece_store *s)
{
	struct ir_module *m;
	struct ir_ctx c;

	if (s->ready) {
		return s->ready_bad ? NULL : s->ready;
	}
	ir_ctx_child(&c, s->space->m->ctx);
	m = ir_copy(s->space->m, &c);
	plan_write(m, &s->space->base);
	s->ready_bad = !piece_pass(s, &c, m, pass_optimize) ||
		       !piece_pass(s, &c, m, pass_cse) ||
		       !piece_pass(s, &c, m, pass_dce);
	arena_release(&c.tmp);
	ir_ctx_child(&s->ready_ctx, s->space->m->ctx);
	s->ready = ir_move(m, &s->ready_ctx);
	return s->ready_bad ? NULL : s->ready;
}

/* ---- the pipeline of pieces ---- */

/*
 * Cuts layers into pieces: the first layer, the rest of each kind, the last
 * layer.
 */
static void
cut(const struct piece_store *s, struct piece_placed *w)
{
	uint32_t k, n = 0;

	if (w->key.solo) {
		w->piece_of[0] = PIECE_FIRST;
		w->iterations[0] = s->space->nlayers;
		w->nstages = 1;
		return;
	}
	w->piece_of[n] = PIECE_FIRST;
	w->iterations[n++] = 1;
	for (k = 0; k < s->space->nkinds; k++) {
		int64_t iterations = s->space->kinds[k].iterations - (k == 0) -
				(k + 1 == s->space->nkinds);

		if (iterations > 0) {
			w->piece_of[n] = PIECE_BODY + k;
			w->iterations[n++] = iterations;
		}
	}
	w->piece_of[n] = PIECE_LAST;
	w->iterations[n++] = 1;
	w->nstages = n;
}

/*
 * Two ranks, of which the first has the first and the last layer, and the other
 * one two stages of all others.
 */
static void
set_ends(const struct space *s, int64_t layers[4], struct plan *p)
{
	layers[0] = layers[2] = layers[3] = 1;
	layers[1] = s->nlayers - 3;
	p->pp = p->interleave = 2;
	p->schedule = "zbv";
	p->nstages = 4;
	p->layers = layers;
}

void
piece_write_plan(struct piece_store *s, const struct piece_placed *w,
		 const struct piece_key *key, const struct space_plan *t,
		 struct ir_module *m)
{
	struct plan p = s->space->base;
	int64_t layers[4];

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
	if (key->ends) {
		set_ends(s->space, layers, &p);
	}
	plan_write(m, &p);
}

/* ---- placements ---- */

axis_id
piece_axis(const struct ir_module *m, const char *name)
{
	return ir_axis_find(m, intern_str(&m->ctx->syms, name));
}

void
piece_drop_updates(struct ir_module *m)
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
hash_stages(struct piece_store *s, const struct piece_placed *w)
{
	struct ir_ctx work, c;
	struct ir_module *m;
	struct hash hash;
	axis_id a;

	ir_ctx_child(&work, w->m->ctx);
	m = ir_copy(w->m, &work);
	piece_drop_updates(m);
	m->settings.n = 0;
	for (a = 1; a < m->axes.n; a++) {
		struct ir_axis *x = &m->axes.at[a];

		x->size = x->time || a == piece_axis(m, "dp") ? 1 : x->size;
	}
	ir_ctx_child(&c, w->m->ctx);
	m = ir_move(m, &c);
	hash = ir_hash_all(m);
	ir_hash_names(m, piece_ready(s)->ctx->syms.text.n, &hash);
	ir_ctx_release(&c);
	return hash;
}

/* Sets w->like, if it is another one. */
static void
find_like(struct piece_store *s, struct piece_placed *w)
{
	uint32_t i;

	if (w->bad) {
		return;
	}
	w->stages = hash_stages(s, w);
	for (i = 0; i < s->placed.n && w->like == w; i++) {
		struct piece_placed *x = s->placed.at[i];

		if (hash_same(x->stages, w->stages) && !x->bad) {
			w->like = x;
		}
	}
}

void
piece_place_again(struct piece_store *s, struct piece_placed *w)
{
	struct ir_module *m = piece_ready(s), *placed;
	struct ir_ctx c;

	cut(s, w);
	w->bad = true;
	w->used = ++s->clock;
	if (!m) {
		return;
	}
	ir_ctx_child(&c, m->ctx);
	placed = ir_copy(m, &c);
	piece_write_plan(s, w, &w->key, &w->at, placed);
	w->bad = !piece_pass(s, &c, placed, pass_place);
	arena_release(&c.tmp);
	w->m = piece_keep(s, placed, m->ctx, &w->ctx);
	s->nopen++;
}

bool
piece_same_key(const struct piece_key *a, const struct piece_key *b)
{
	return a->choice == b->choice && a->tp == b->tp && a->cp == b->cp &&
	       a->ep == b->ep && a->zero == b->zero && a->data == b->data &&
	       a->sequence == b->sequence && a->single == b->single &&
	       a->split == b->split && a->solo == b->solo &&
	       a->ends == b->ends &&
	       a->offload == b->offload;
}

/* The key without the fields that change programs only. */
static struct piece_key
placed_key(const struct piece_key *key)
{
	struct piece_key whole = *key;

	whole.split = whole.single = whole.ends = false;
	whole.offload = 0;
	whole.choice = 0;
	return whole;
}

static struct piece_placed *
find_placed(const struct piece_store *s, const struct piece_key *whole)
{
	uint32_t i;

	for (i = 0; i < s->placed.n; i++) {
		if (piece_same_key(&s->placed.at[i]->key, whole)) {
			return s->placed.at[i];
		}
	}
	return NULL;
}

bool
piece_is_placed(const struct piece_store *s, const struct piece_key *key)
{
	struct piece_key whole = placed_key(key);
	const struct piece_placed *w = find_placed(s, &whole);

	return w && (w->counted || s->is_ahead);
}

static void
count(struct piece_store *s, struct piece_placed *w)
{
	if (!w->counted) {
		s->placements++;
		s->placed_nodes += w->nodes;
		w->counted = !s->is_ahead;
	}
}

struct piece_placed *
piece_place(struct piece_store *s, const struct piece_key *key,
	    const struct space_plan *t)
{
	struct piece_key whole = placed_key(key);
	struct piece_placed *w = s->asked;

	/* mostly the same one several times */
	if (w && piece_same_key(&w->key, &whole)) {
		return w;
	}
	w = s->asked = find_placed(s, &whole);
	if (w) {
		if (!s->is_ahead) {
			count(s, w);
		}
		return w;
	}
	w = arena_alloc(&s->space->keep, sizeof *w);
	w->key = whole;
	w->g = *t->g;
	w->at = *t;
	w->at.g = &w->g;
	w->like = w;
	VEC_PUSH(&s->space->keep, &w->words, s->space->base.recompute);
	piece_place_again(s, w);
	find_like(s, w);
	piece_find_colls(s, w);
	VEC_PUSH(&s->space->keep, &s->placed, w);
	w->nodes = w->m ? w->m->nodes.n : 0;
	count(s, w);
	return w;
}

/* Plans with pipelines that are tried, one by one, as a search tries them. */
#ifndef T_TRIAL_H
#define T_TRIAL_H

#include "t-stand.h"
#include "passes/trial/trial_fit.h"

/* A search before its first plan. */
struct trial_stand {
	struct ir_ctx c;
	struct target t;
	struct memo memo;
	struct search_options o;
	struct search_report report;
	struct search s;
};

static inline void
open_search(struct trial_stand *x, const char *model, const char *cluster)
{
	struct ir_ctx *c = &x->c;

	memset(x, 0, sizeof *x);
	ir_ctx_init(c, NULL);
	x->t = target(c, cluster);
	x->o.target = &x->t;
	memo_init(&x->memo, &c->mem, MEMO_BYTES);
	x->s = (struct search){
		.o = &x->o, .a = &c->perm, .out = &x->report,
		.memo = &x->memo, .briefs.memo = &x->memo,
		.worst_us = INFINITY,
		.space = { .m = trained(c, model), .target = &x->t,
			   .traits = &x->o.traits }
	};
	assert_true(space_open(&x->s.space));
	piece_open(&x->s.pieces, &x->s.space, &x->memo);
	assert_true(bound_open(&x->s.bounds, &x->s.space, &x->s.pieces,
			       false));
}

static inline void
close_search(struct trial_stand *x)
{
	piece_release(&x->s.pieces);
	space_release(&x->s.space);
	memo_release(&x->memo);
	ir_ctx_release(&x->c);
}

static const char *const schedules[] = { "gpipe", "1f1b", "interleaved",
					 "zb_h1", "zb_h2", "zbv" };

/* Draws a plan.  False: it is none. */
static inline bool
draw_pipeline(const struct space *s, bool moe, struct drawn *x)
{
	struct space_degrees *g = &x->g;
	const struct space_degrees *of = NULL;
	uint32_t i;

	memset(x, 0, sizeof *x);
	g->tp = 1 << draw(3);
	g->cp = 1 << (draw(4) == 0);
	g->ep = moe ? 1 << draw(2) : 1;
	g->dp = 1 << draw(3);
	g->pp = 1 << draw(3);
	g->used = g->tp * g->cp * g->ep * g->dp * g->pp;
	for (i = 0; i < s->degrees.n; i++) {
		const struct space_degrees *y = &s->degrees.at[i];

		if (y->tp == g->tp && y->cp == g->cp && y->ep == g->ep &&
		    y->dp == g->dp && y->pp == g->pp) {
			of = y;
		}
	}
	x->t = (struct space_plan){
		.g = of, .microbatch = 1 << draw(4), .chunks = 1,
		.sched = sched_find(g->pp > 1 ? schedules[draw(6)] : "1f1b")
	};
	if (strcmp(x->t.sched->name, "interleaved") == 0) {
		x->t.chunks = 2 + draw(3);
	} else if (strcmp(x->t.sched->name, "zbv") == 0) {
		x->t.chunks = 2;
	}
	if (!of || g->pp * x->t.chunks > s->nlayers ||
	    x->t.microbatch * g->dp * g->ep > s->batch) {
		return false;
	}
	x->t.nmicrobatches = space_microbatches(s, of, x->t.microbatch);
	x->key = (struct piece_key){
		.tp = g->tp, .cp = g->cp, .ep = g->ep,
		.zero = g->dp * g->cp * g->ep > 1 ? (int)draw(4) : 0,
		.data = g->dp > 1, .sequence = draw(2),
		.split = x->t.sched->split,
		.offload = draw_offload(s)
	};
	return x->t.chunks == 1 || x->t.nmicrobatches % g->pp == 0 ||
	       x->t.sched->vshape;
}

/* Layers by stage: even, or a layer moved. */
static inline void
draw_layers(struct trial *x)
{
	int64_t *layers = arena_alloc(&x->s->space.tmp, x->nstages *
				      sizeof *layers);
	uint32_t i = draw(x->nstages), k = draw(x->nstages);

	plan_spread(x->s->space.nlayers, x->nstages, layers);
	if (draw(2) && layers[i] > 1) {
		layers[i]--;
		layers[k]++;
	}
	trial_set_layers(x, layers);
}

static inline struct trial_rank
open_rank(struct trial *x, uint32_t rank)
{
	uint32_t n = (uint32_t)x->t->chunks;
	struct arena *a = &x->s->space.tmp;
	struct trial_rank f = {
		.x = x, .rank = rank, .of = &x->stages[rank * n], .n = n,
		.free_bytes = INFINITY
	};

	arena_init(&f.tmp, &x->s->space.m->ctx->mem);
	f.ways = arena_alloc(a, x->nstages * sizeof *f.ways);
	f.keeps = arena_alloc(a, n * sizeof *f.keeps);
	f.seen = n > TUPLES_STAGES ? NULL
		: arena_alloc(a, x->ways_of->at.n * sizeof *f.seen);
	return f;
}

#endif

/*
 * Lower bounds of whole steps: of plans that are drawn from the space, with
 * pipelines, offload and several kinds of node, of models whose programs have
 * collectives and contractions that share calls and launches, no step is
 * shorter than any bound of it.
 *
 * SEARCH_BOUNDS=N draws more of them, SEARCH_SEED=S others.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "t-stand.h"
#include "passes/bound/bound_parts.h"
#include "passes/pieces/piece_parts.h"

/* ---- what programs have ---- */

/* How many plans have programs with these, and how near bounds come. */
struct seen {
	int plans, joined, launches, pairs, piped, offloaded, mixed;
	double ratios;
};

/* Which of them a list has. */
struct has {
	bool joined, launches, pairs;
};

static void
look_in(const struct kernel_list *l, struct has *to)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		to->joined |= k->kind == KERNEL_COLLECTIVE &&
			      k->work->coll.n > 1;
		to->launches |= k->launch && !k->launch->paired;
		to->pairs |= k->launch && k->launch->paired;
		if (k->body) {
			look_in(k->body, to);
		}
	}
}

static void
note_programs(struct stand *x, const struct drawn *d, struct seen *to)
{
	struct piece_sharding *w = piece_sharding_of(&x->pieces, &d->key,
						     &d->t);
	struct has has = { false, false, false };
	struct kernels *const *of;
	uint32_t i, k;

	piece_reopen(&x->pieces, w);
	piece_set_axes(w->m, &d->t);
	of = piece_find_kernels(&x->pieces, w, d->t.microbatch, d->t.g->dp);
	for (i = 0; i < w->on->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id id = w->r.of_stage[i][k];

			if (id) {
				look_in(of[id]->top, &has);
			}
		}
	}
	to->plans++;
	to->joined += has.joined;
	to->launches += has.launches;
	to->pairs += has.pairs;
	to->piped += d->t.g->pp > 1;
	to->offloaded += d->key.offload != 0;
	to->mixed += x->space.devs.n > 1;
}

/* ---- the step of a plan ---- */

/* Its stages, evenly: their layers, ranks and devices. */
struct stages {
	uint32_t n, *rank_of, *dev;	/* dev: by rank */
	int64_t *layers, *first;
};

static struct stages
stages_of(struct space *s, const struct space_plan *t)
{
	uint32_t pp = (uint32_t)t->g->pp, i;
	struct stages x = { .n = (uint32_t)(t->g->pp * t->chunks) };

	x.rank_of = arena_alloc(&s->keep, x.n * sizeof *x.rank_of);
	x.layers = arena_alloc(&s->keep, x.n * sizeof *x.layers);
	x.first = arena_alloc(&s->keep, (x.n + 1) * sizeof *x.first);
	x.dev = space_devs_of_ranks(s, t->g, &s->keep);
	plan_spread(s->nlayers, x.n, x.layers);
	for (i = 0; i < x.n; i++) {
		x.rank_of[i] = t->sched->vshape && i / pp % 2
			? pp - 1 - i % pp : i % pp;
		x.first[i + 1] = x.first[i] + x.layers[i];
	}
	return x;
}

static void
price_stages(struct stand *x, const struct drawn *d, const struct stages *s,
	     struct piece_cost *c, struct price *p)
{
	uint32_t i;

	p->stage = arena_alloc(&x->space.keep, s->n * sizeof *p->stage);
	for (i = 0; i < s->n; i++) {
		uint32_t dev = s->dev[s->rank_of[i]];

		piece_price(&x->pieces, &d->key, &d->t, c, dev);
		piece_stage_price(&x->space, c, dev, s->first[i],
				  s->first[i + 1], p->stage[i]);
	}
}

/* What the first and the last stage have in common is not counted twice. */
static void
price_updates(struct stand *x, const struct drawn *d, const struct stages *s,
	      struct price *p)
{
	struct piece_update *u = piece_update_of(&x->pieces, &d->key, &d->t);
	uint32_t pp = (uint32_t)d->t.g->pp, i;

	p->update = arena_alloc(&x->space.keep, pp * sizeof *p->update);
	for (i = 0; i < pp; i++) {
		piece_price_update(&x->pieces, &d->key, &d->t, u, s->dev[i]);
		p->update[i] = u->on[s->dev[i]][PIECE_TOP];
	}
	for (i = 0; i < s->n; i++) {
		piece_stage_update(&x->space, u, s->dev[s->rank_of[i]],
				   s->first[i], s->first[i + 1],
				   &p->update[s->rank_of[i]]);
	}
	if (x->bounds.ties && !d->key.solo &&
	    s->rank_of[0] == s->rank_of[s->n - 1]) {
		piece_join_ends(&x->pieces, &d->key, &d->t, u,
				s->dev[s->rank_of[0]],
				&p->update[s->rank_of[0]]);
	}
}

/* INFINITY: it cannot be placed, or the schedule stalls. */
static double
step_us(struct stand *x, const struct drawn *d)
{
	struct stages s = stages_of(&x->space, &d->t);
	const struct sched sched = {
		.nranks = (uint32_t)d->t.g->pp, .nstages = s.n,
		.nmicrobatches = (uint32_t)d->t.nmicrobatches,
		.def = d->t.sched, .rank_of = s.rank_of
	};
	struct piece_cost *c = piece_cost_of(&x->pieces, &d->key, &d->t);
	struct price p = { .offload = d->key.offload };
	struct sched_briefs briefs = { 0 };

	if (!c) {
		return INFINITY;
	}
	p.hop_us = piece_hop_us(&x->pieces, &d->key, &d->t, c);
	price_stages(x, d, &s, c, &p);
	price_updates(x, d, &s, &p);
	return price_pipeline(&sched, &x->traits, &briefs, &x->space.keep, &p)
		? p.step_us : INFINITY;
}

/* ---- plans of the space ---- */

/* The plan with that number. */
struct drawing {
	int64_t left;
	struct space_plan t;
};

static void
take(void *user, struct space_plan *t)
{
	struct drawing *x = user;

	if (x->left-- == 0) {
		x->t = *t;
	}
}

/*
 * Of degrees that are drawn; what is on hosts costs time in any plan, so each
 * may have it.  False: there is none.
 */
static bool
draw_any(struct stand *x, struct drawn *d)
{
	struct space *s = &x->space;
	const struct space_degrees *g =
		&s->degrees.at[draw(s->degrees.n)];
	uint32_t n = (uint32_t)space_each_plan(s, g, NULL, NULL);
	struct drawing at = { .left = n ? draw(n) : 0 };

	if (!n) {
		return false;
	}
	space_each_plan(s, g, take, &at);
	memset(d, 0, sizeof *d);
	d->t = at.t;
	d->key = (struct piece_key){
		.tp = g->tp, .cp = g->cp, .ep = g->ep, .data = g->dp > 1,
		.zero = g->dp * g->cp * g->ep > 1 ? (int)draw(4) : 0,
		.sequence = g->tp > 1 && draw(2), .split = d->t.sched->split,
		.offload = s->t->device.host_bytes_us > 0 && draw(3) == 0
			? draw(4) : 0,
		.solo = (s->nlayers < 3 || x->bounds.ties) &&
			g->pp * d->t.chunks == 1
	};
	return true;
}

/* ---- bounds ---- */

/* The table is a contraction's weight, and others are as large; few tokens. */
static const char squares[] =
	"model m {\n"
	"  dim hidden = 2048, ffn = 8192, vocab = 8192, seq = 4, batch = 32;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden) @ \"wte\";\n"
	"  repeat 4 as i {\n"
	"    x = x + linear(silu(linear(layernorm(x) -> ffn)) -> hidden);\n"
	"  }\n"
	"  x = linear(layernorm(x) -> vocab, tied = \"wte\");\n"
	"  loss = cross_entropy(x, labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); }\n";

/* Two tables are most parameters, and tokens are more than their rows. */
static const char tables[] =
	"model m {\n"
	"  dim hidden = 1024, ffn = 64, vocab = 512, seq = 1024, batch = 64;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden) +\n"
	"      embed(labels, vocab -> hidden);\n"
	"  repeat 3 as i {\n"
	"    x = x + linear(silu(linear(x -> ffn)) -> hidden);\n"
	"  }\n"
	"  loss = cross_entropy(linear(x -> vocab), labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); }\n";

/* Nothing is exchanged twice: once a step there are no more than all sums. */
static void
check_once(const struct stand *x, const struct drawn *d)
{
	struct piece_key key = d->key;

	key.zero = 0;
	assert_true(bound_once_us(&x->bounds, &key, &d->t) <=
		    bound_all_us(&x->bounds.of[d->t.g->nth]) * (1 + 1e-9));
}

static void
check_step(struct stand *x, const struct drawn *d, struct seen *to)
{
	double us = step_us(x, d) * (1 + PIECE_NEAR), least;

	if (!isfinite(us)) {
		return;
	}
	check_once(x, d);
	least = bound_us(&x->bounds, &d->key, &d->t);
	assert_true(least > 0 && least <= us);
	assert_true(bound_degrees_us(&x->bounds, d->t.g) <= us);
	assert_false(bound_is_above(&x->bounds, &d->key, &d->t, us));
	assert_false(bound_placed_is_above(&x->bounds, &d->key, &d->t, us));
	note_programs(x, d, to);
	to->ratios += least / us;
}

static void
check_model(const char *model, struct seen *to)
{
	static const char *const clusters[] = {
		"h100x8", "rtx4090x8x4", "h100x8x2", "b200x8x2",
		"h100x8x2@eth25", "a100x8x2", "h100x8+a100x8",
		"b200x8+h100x8x2", "cpu-znver5x8x4"
	};
	struct stand x;
	struct drawn d;
	int i;

	stand_as(&x, model, clusters[draw(9)], draw(4) > 0);
	bound_find_work(&x.bounds);
	for (i = 0; i < 4; i++) {
		if (draw_any(&x, &d)) {
			check_step(&x, &d, to);
		}
	}
	leave(&x);
}

static void
test_steps(void **state)
{
	static const char *const models[] = {
		plain, normed, wide, latent, narrow, turned, tied, squares,
		tables
	};
	int64_t n = env("SEARCH_BOUNDS", 12), i;
	struct seen seen = { 0 };
	char text[MODEL_BYTES];
	size_t k;

	(void)state;
	for (i = 0; i < n; i++, seed++) {
		drawn = 0;
		for (k = 0; k < DRAWN_MODELS; k++) {
			check_model(draw_model(&drawn_models[k], text), &seen);
		}
		for (k = 0; k < sizeof models / sizeof *models; k++) {
			check_model(models[k], &seen);
		}
	}
	print_message("%d plans: %d with joined collectives, %d with shared "
		      "launches, %d with pairs, %d pipelines, %d offloaded, "
		      "%d on several kinds of node: bounds are %.3f of steps\n",
		      seen.plans, seen.joined, seen.launches, seen.pairs,
		      seen.piped, seen.offloaded, seen.mixed,
		      seen.ratios / seen.plans);
	assert_true(seen.plans > 20 * n);
	assert_true(seen.joined > n && seen.launches > n && seen.pairs > n);
	assert_true(seen.piped > n && seen.offloaded > n && seen.mixed > n);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_steps) };

	seed = (uint64_t)env("SEARCH_SEED", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * What pieces take at least, whatever they recompute: of drawn models,
 * clusters, plans and all ways to recompute, no program is quicker, neither as
 * a whole nor forward alone, with a backward of one function and of two.
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

/*
 * How near bounds come to the quickest of all ways: before any is known, and
 * with the maps of all.  And of each way to its own time, with what it computes
 * again.
 */
struct nearness {
	double ratios, known, links, own;
	int n, ways, nlinks, nown, params;
};

/* What a piece takes as shown, forward and altogether. */
struct shown {
	double forward, all;
};

static struct shown
shown_of(const struct stand *x, const struct piece_prices *fn, uint32_t piece)
{
	struct shown us = { 0, 0 };
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		double each = price_shown_us(&x->traits,
					     piece_fn(fn, piece, k));

		us.forward += k == SCHED_F ? each : 0;
		us.all += each;
	}
	return us;
}

static struct shown
least_of(const struct piece_prices *fn, uint32_t piece)
{
	struct shown us = { fn->least[piece][SCHED_F].us, 0 };
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		us.all += fn->least[piece][k].us;
	}
	return us;
}

/* The prices of a way; NULL: a pass refuses its program. */
static const struct piece_prices *
way_prices(struct stand *x, const struct drawn *d, uint32_t way)
{
	struct piece_key key = d->key;
	struct piece_cost *c;

	key.choice = way;
	c = piece_cost_of(&x->pieces, &key, &d->t);
	if (!c) {
		return NULL;
	}
	piece_price(&x->pieces, &key, &d->t, c, 0);
	return c->on[0];
}

/* What all inner layers take, forward and altogether. */
static struct shown
inner_least(struct stand *x, const struct drawn *d,
	    const struct piece_maps (*maps)[SCHED_NKINDS])
{
	struct piece_cost *c = piece_cost_of(&x->pieces, &d->key, &d->t);
	double us[SCHED_NKINDS], top[SCHED_NKINDS];
	struct shown all = { 0, 0 };
	uint32_t k;

	piece_stage_least(&x->space, c, maps, 0, 1, x->space.nlayers - 1, us);
	piece_stage_least(&x->space, c, NULL, 0, 1, 1, top);
	for (k = 0; k < SCHED_NKINDS; k++) {
		all.forward += k == SCHED_F ? us[k] - top[k] : 0;
		all.all += us[k] - top[k];
	}
	return all;
}

static struct shown
inner_shown(const struct stand *x, const struct piece_prices *fn)
{
	struct shown all = { 0, 0 };
	double n[PIECE_MAX];
	uint32_t i;

	piece_count(&x->space, 1, x->space.nlayers - 1, n);
	for (i = PIECE_BODY; i < PIECE_BODY + x->space.nkinds; i++) {
		struct shown us = shown_of(x, fn, i);

		all.forward += n[i] * us.forward;
		all.all += n[i] * us.all;
	}
	return all;
}

/* A bound of the placement alone is none above it; of several kinds of node
 * there is none. */
static void
check_placed(struct stand *x, const struct drawn *d,
	     const struct piece_prices *way, bool all)
{
	double mb = (double)d->t.microbatch;
	struct bound_pieces least;
	uint32_t i;

	if (x->space.devs.n > 1) {
		return;
	}
	assert_true(bound_find_placed(&x->bounds, &d->key, &d->t, all,
				      &least));
	for (i = 0; i < PIECE_BODY + x->space.nkinds; i++) {
		struct shown us = shown_of(x, way, i);

		assert_true(mb * least.forward[i] <= us.forward * (1 + 1e-9));
		assert_true(mb * least.all[i] <= us.all * (1 + 1e-9));
	}
}

/* Backward of a way reads no fewer parameters than that without one. */
static void
check_way(const struct stand *x, const struct piece_prices *none,
	  const struct piece_prices *way, struct nearness *near)
{
	uint32_t i, k;

	for (i = 0; i < PIECE_BODY + x->space.nkinds; i++) {
		struct shown least = least_of(none, i);
		struct shown us = shown_of(x, way, i);

		assert_true(least.forward <= us.forward * (1 + 1e-9));
		assert_true(least.all <= us.all * (1 + 1e-9));
		for (k = SCHED_F + 1; k < SCHED_NKINDS; k++) {
			double params = piece_fn(none, i, k)->params_us;

			assert_true(params <= piece_fn(way, i, k)->params_us *
					      (1 + 1e-9));
			near->params += params > 0;
		}
	}
}

/* Saves take no less on the link to the host than is known, in any function. */
static void
check_link(struct stand *x, const struct drawn *d,
	   const struct piece_choices *ways, struct nearness *near)
{
	int64_t hi = x->space.nlayers - 1;
	double n[PIECE_MAX], least[SCHED_NKINDS], us;
	uint32_t i, k, f;

	piece_count(&x->space, 1, hi, n);
	for (i = 0; i < ways->at.n; i++) {
		const struct piece_choice *c = &ways->at.at[i];
		const struct piece_prices *fn = way_prices(x, d, c->nth);

		piece_least_link_us(&x->space, c, 0, 1, hi, &d->key,
				    (double)d->t.microbatch, least);
		for (f = 0; fn && f < SCHED_NKINDS; f++) {
			us = 0;
			for (k = PIECE_BODY; k < piece_number(&x->space); k++) {
				us += n[k] * piece_fn(fn, k, f)->saves_us;
			}
			assert_true(least[f] <= us);
			if (us > 0 && f == SCHED_F) {
				near->links += least[f] / us;
				near->nlinks++;
			}
		}
	}
}

/* No way is quicker than its own bound. */
static void
check_own(struct stand *x, const struct drawn *d,
	  const struct piece_choices *ways, struct nearness *near)
{
	uint32_t i;

	for (i = 0; i < ways->at.n; i++) {
		const struct piece_choice *c = &ways->at.at[i];
		const struct piece_prices *fn = way_prices(x, d, c->nth);
		struct shown least = inner_least(x, d, c->maps), us;

		if (fn) {
			us = inner_shown(x, fn);
			assert_true(least.forward <= us.forward * (1 + 1e-9));
			assert_true(least.all <= us.all * (1 + 1e-9));
			near->own += us.all > 0 ? least.all / us.all : 1;
			near->nown++;
		}
	}
}

static void
check_ways(struct stand *x, const struct drawn *d, struct nearness *near)
{
	const struct piece_prices *none = way_prices(x, d, 0), *way;
	const struct piece_choices *ways;
	struct shown known, us;
	double quickest = INFINITY;
	struct piece_placed *w;
	uint32_t i;

	assert_non_null(none);
	ways = piece_choices_of(&x->pieces, &d->key, &d->t);
	assert_non_null(ways);
	known = inner_least(x, d, ways->maps);
	w = piece_sharding_of(&x->pieces, &d->key, &d->t)->on->like;
	for (i = 0; i < w->words.n; i++) {
		way = way_prices(x, d, i);
		if (!way) {
			continue;
		}
		check_way(x, none, way, near);
		check_placed(x, d, way, false);
		check_placed(x, d, way, true);
		us = inner_shown(x, way);
		assert_true(known.forward <= us.forward * (1 + 1e-9));
		assert_true(known.all <= us.all * (1 + 1e-9));
		quickest = fmin(quickest, us.all);
		near->ways++;
	}
	check_link(x, d, ways, near);
	check_own(x, d, ways, near);
	if (isfinite(quickest) && quickest > 0) {
		near->ratios += inner_least(x, d, NULL).all / quickest;
		near->known += known.all / quickest;
		near->n++;
	}
}

/* Of every third model: software with some traits, and parts of collectives
 * and what is on hosts by a plan. */
static void
draw_traits(struct stand *x)
{
	uint32_t i;

	for (i = 0; i < price_ntraits; i++) {
		*(bool *)((char *)&x->traits + price_traits_table[i].at) =
			draw(4) == 0;
	}
	x->space.base.chunks = draw(2) ? 1 << draw(4) : 0;
}

static void
check_model(const char *model, bool moe, struct nearness *near)
{
	static const char *const clusters[] = {
		"h100x8", "rtx4090x8x4", "a100x8x2", "t4x4x4",
		"h100x8x2@eth25", "cpu-znver5x8x4", "b200x8x2", "h100x8+a100x8"
	};
	bool others = draw(3) == 0;
	struct drawn d;
	struct stand x;
	int i, left = 2;

	stand_as(&x, model, clusters[draw(8)], true);
	if (others) {
		draw_traits(&x);
	}
	bound_find_work(&x.bounds);
	for (i = 0; i < 40 && left > 0; i++) {
		if (draw_plan(&x.space, moe, &d)) {
			d.key.split = draw(3) == 0;
			d.key.offload = others ? draw(8) : 0;
			d.t.sched = sched_find(d.key.split ? "zb_h1" : "1f1b");
			check_ways(&x, &d, near);
			left--;
		}
	}
	leave(&x);
}

static void
test_least(void **state)
{
	int64_t n = env("SEARCH_BOUNDS", 12), i;
	struct nearness near = { 0 }, large = { 0 };
	char text[MODEL_BYTES];
	int k;

	(void)state;
	for (i = 0; i < n; i++, seed++) {
		drawn = 0;
		for (k = 0; k < DRAWN_MODELS; k++) {
			const struct drawn_model *x = &drawn_models[k];

			check_model(draw_model(x, text), x->moe,
				    x->large ? &large : &near);
		}
		check_model(plain, false, &near);
		check_model(normed, false, &near);
		check_model(wide, true, &near);
		check_model(latent, true, &near);
		check_model(narrow, false, &near);
		check_model(turned, false, &near);
	}
	print_message("of what crosses the link to the host %.3f is known\n",
		      near.links / near.nlinks);
	assert_true(near.links > 0.9 * near.nlinks);
	assert_true(near.params > near.ways);
	print_message("%d ways of %d plans: bounds are %.3f of the quickest, "
		      "%.3f if known; of large models, %d of %d: %.3f, %.3f\n",
		      near.ways, near.n, near.ratios / near.n,
		      near.known / near.n, large.ways, large.n,
		      large.ratios / large.n, large.known / large.n);
	print_message("of a way its own bound is %.3f, of large models %.3f\n",
		      near.own / near.nown, large.own / large.nown);
	assert_true(large.own > 0.75 * large.nown);
	assert_true(near.ways > 8 * near.n && near.n > 5 * n);
	assert_true(large.ratios > 0.7 * large.n);
}

/*
 * With collectives in parts, of software that hides those of tensor ranks: each
 * is hidden once, by the trait or by its parts.
 */
static void
test_hidden_once(void **state)
{
	struct nearness near = { 0 };
	struct drawn d = { .t = { .g = &d.g, .microbatch = 8, .chunks = 1,
				  .sched = sched_find("1f1b") } };
	char text[4096];
	struct stand x;

	(void)state;
	snprintf(text, sizeof text, heavy, 32, 4);
	stand_as(&x, text, "h100x8x2@eth25", true);
	x.traits.overlap_tensor = true;
	x.space.base.chunks = 2;
	d.g = (struct space_degrees){ .used = 8, .tp = 4, .cp = 2, .ep = 1,
				      .pp = 1, .dp = 1 };
	d.t.nmicrobatches = space_microbatches(&x.space, &d.g, 8);
	d.key = (struct piece_key){ .tp = 4, .cp = 2, .ep = 1,
				    .sequence = true };
	check_ways(&x, &d, &near);
	assert_true(near.ways > 8);
	leave(&x);
}

/* One rank has all of that model; so many sequences at a time. */
static void
check_one(const char *model, const char *cluster, int64_t microbatch,
	  const struct price_traits *traits)
{
	struct nearness near = { 0 };
	struct drawn d = { .t = { .g = &d.g, .microbatch = microbatch,
				  .chunks = 1, .sched = sched_find("1f1b") } };
	struct stand x;

	stand_as(&x, model, cluster, true);
	x.traits = *traits;
	d.g = (struct space_degrees){ .used = 1, .tp = 1, .cp = 1, .ep = 1,
				      .pp = 1, .dp = 1 };
	d.t.nmicrobatches = space_microbatches(&x.space, &d.g, microbatch);
	d.key = (struct piece_key){ .tp = 1, .cp = 1, .ep = 1 };
	check_ways(&x, &d, &near);
	assert_true(near.ways > 2);
	leave(&x);
}

/* What contractions of one launch hand to each other is in no memory. */
static void
test_handed(void **state)
{
	static const char gated[] =
		"model m {\n"
		"  dim hidden = 4096, ffn = 8192, vocab = 1024, seq = 4096,\n"
		"      batch = 32;\n"
		"  dtype bf16;\n"
		"  x = embed(tokens, vocab -> hidden);\n"
		"  repeat 4 as i {\n"
		"    n = rmsnorm(x);\n"
		"    x = x + linear(silu(linear(n -> ffn)) * linear(n -> ffn)\n"
		"                   -> hidden);\n"
		"  }\n"
		"  loss = cross_entropy(linear(x -> vocab), labels);\n"
		"}\n"
		"train { optimizer = adamw(lr = 1e-4); }\n";
	const struct price_traits own = { 0 };

	(void)state;
	check_one(gated, "b200x1", 4, &own);
}

/* What is narrowed as it is made lies in memory as it was. */
static void
test_narrowed(void **state)
{
	const struct price_traits fp8 = { .narrow_products = true,
					  .fused_narrowing = true };

	(void)state;
	check_one(plain, "h100x1", 1, &fp8);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_hidden_once),
		cmocka_unit_test(test_handed),
		cmocka_unit_test(test_narrowed)
	};

	seed = (uint64_t)env("SEARCH_SEED", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Lower bounds and pieces of shardings: no price is below its bound, no memory
 * below its own, over thousands of drawn models, clusters and plans; a bound of
 * what data ranks exchange, or ranks of experts, counts no more than there is;
 * and prices and bytes of pieces depend on the plan alone, not on which plan
 * needed them first.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "t-stand.h"
#include "passes/bound/bound_parts.h"
#include "passes/pieces/piece_parts.h"

/* ---- prices do not depend on the order of plans ---- */

/* All pieces of tp ranks that split tensors, beside dp data ranks. */
static const struct piece_prices *
pieces(struct stand *x, int64_t tp, int64_t microbatch, int64_t dp)
{
	struct space_degrees g = { .used = tp * dp, .tp = tp, .cp = 1, .ep = 1,
				  .pp = 1, .dp = dp };
	struct space_plan t = { .g = &g, .microbatch = microbatch,
				.nmicrobatches = x->space.batch / dp /
						 microbatch,
				.chunks = 1, .sched = sched_find("1f1b") };
	struct piece_key key = { .tp = tp, .cp = 1, .ep = 1, .data = dp > 1 };
	struct piece_cost *c = piece_cost_of(&x->pieces, &key, &t);

	assert_non_null(c);
	piece_price(&x->pieces, &key, &t, c, 0);
	return c->on[0];
}

static void
assert_same(const struct piece_prices *a, const struct piece_prices *b)
{
	uint32_t i, k;

	assert_int_equal(a->n, b->n);
	for (i = 0; i < a->n; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			assert_true(piece_fn(a, i, k)->total_us ==
				    piece_fn(b, i, k)->total_us);
		}
	}
}

static void
test_order(void **state)
{
	static const int64_t microbatch[] = { 2, 1, 4, 1 };
	static const int64_t dp[] = { 2, 4, 2, 4 };
	const struct piece_prices *first, *later;
	struct stand x, y;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof dp / sizeof *dp; i++) {
		/* of the last one rows of all data ranks are gathered */
		const char *model = i < 3 ? plain : wide;
		int64_t tp = i < 3 ? 2 : 4;

		stand(&x, model, "rtx4090x8x4");
		first = pieces(&x, tp, microbatch[i], dp[i]);
		stand(&y, model, "rtx4090x8x4");
		pieces(&y, tp, 1, 8);	/* for which it is placed */
		later = pieces(&y, tp, microbatch[i], dp[i]);
		assert_true(piece_fn(first, PIECE_BODY, 0)->total_us > 0);
		assert_same(first, later);
		leave(&x);
		leave(&y);
	}
}

/* ---- bounds of drawn plans ---- */

/* ---- contractions in parts ---- */

/*
 * Sizes from 1, of which few are multiples of tiles.  Draws a number of parts
 * for each, and rounds the length of a part up.  Returns that number.
 */
static double
draw_split(double *length, uint32_t most)
{
	double n = 1 << draw(5);

	*length = 1 + draw(1u << (1 + draw(most)));
	return n;
}

/* f parts of a contraction take no less than the whole, as it is bounded. */
static void
check_split(const struct target_device *d, uint32_t *few)
{
	struct cost_contraction x = { .rate = TARGET_BF16, .out_bytes = 2,
				      .panels = draw(2),
				      .own_tail = draw(2) }, part;
	struct cost c;
	double m, n, k, batch, f;

	m = draw_split(&x.m, 10);
	n = draw_split(&x.n, 12);
	k = draw_split(&x.k, 12);
	batch = draw_split(&x.batch, 4);
	part = x;
	part.m = ceil(x.m / m);
	part.n = ceil(x.n / n);
	part.k = ceil(x.k / k);
	part.batch = ceil(x.batch / batch);
	f = m * n * k * batch;
	c = cost_contraction(d, &part);
	*few += x.m > 8 && part.m <= 8;
	assert_true(f * (c.us - c.launch_us) >=
		    cost_contraction_split_us(d, &x) * (1 - 1e-9));
}

static void
test_splits(void **state)
{
	static const char *const targets[] = {
		"h100x8", "a100x8", "t4x4", "cpux8", "cpu-avx512x8",
		"cpu-znver5x8"
	};
	int64_t n = env("SEARCH_BOUNDS", 40) * 500, i;
	uint32_t few = 0, at;

	(void)state;
	for (at = 0; at < sizeof targets / sizeof *targets; at++) {
		struct ir_ctx c;
		struct target t;

		ir_ctx_init(&c, NULL);
		t = target(&c, targets[at]);
		for (i = 0; i < n; i++) {
			check_split(&t.groups.at[0].device, &few);
		}
		ir_ctx_release(&c);
	}
	assert_true(few > n);
}

/* How near bounds come to prices: the sum of their ratios. */
struct nearness {
	double ratios, links;
	int n, nlinks;
};

static void
check_pieces(struct stand *x, struct drawn *d, struct nearness *near)
{
	struct piece_cost *c = piece_cost_of(&x->pieces, &d->key, &d->t);
	struct bound_pieces us;
	uint32_t i, k;

	assert_non_null(c);
	piece_price(&x->pieces, &d->key, &d->t, c, 0);
	bound_find_pieces(&x->bounds, &d->key, &d->t, 1, &us);
	for (i = 0; i < PIECE_BODY + x->space.nkinds; i++) {
		double all = 0, forward = 0, mb = (double)d->t.microbatch;

		for (k = 0; k < SCHED_NKINDS; k++) {
			all += price_shown_us(&x->traits,
					      piece_fn(c->on[0], i, k));
		}
		forward = price_shown_us(&x->traits,
					 piece_fn(c->on[0], i, SCHED_F));
		assert_true(us.all[i] * mb <= all * (1 + 1e-9));
		assert_true(us.forward[i] * mb <= forward * (1 + 1e-9));
		near->ratios += all > 0 ? us.all[i] * mb / all : 0;
		near->n += all > 0;
	}
}

/* What lives all step is no less than the bound of a mean rank. */
static void
check_bytes(struct stand *x, struct drawn *d)
{
	struct piece_update *u = piece_update_of(&x->pieces, &d->key, &d->t);
	double least = bound_least_bytes(&x->bounds, &d->g, d->key.zero,
					 d->key.offload);
	double bytes = piece_sum(&x->space, u->fixed, 0, x->space.nlayers);
	double drives = piece_sum(&x->space, u->drives, 0, x->space.nlayers);
	double host = piece_sum(&x->space, u->host, 0, x->space.nlayers);
	double ranks = (double)d->g.used;

	assert_true(least <= bytes * (1 + 1e-9));
	least = bound_host_bytes(&x->bounds, &d->g, d->key.zero,
				 d->key.offload, true);
	assert_true(least <= ranks * drives * (1 + 1e-9));
	least = bound_host_bytes(&x->bounds, &d->g, d->key.zero,
				 d->key.offload, false);
	assert_true(least <= ranks * (host - drives) * (1 + 1e-9));
}

/* What crosses the link of hosts is no less than its bound. */
static void
check_link(struct stand *x, struct drawn *d, struct nearness *near)
{
	struct piece_cost *c = piece_cost_of(&x->pieces, &d->key, &d->t);
	struct bound_pieces none = { .whole_us = 0 }, us;
	double mb = (double)d->t.microbatch;
	uint32_t i, k;

	if (!(d->key.offload & PLAN_OFFLOAD_PARAMS)) {
		return;
	}
	bound_find_link(&x->bounds, &d->key, &d->t, &none, &us);
	for (i = 0; i < PIECE_BODY + x->space.nkinds; i++) {
		double is = 0;

		for (k = SCHED_F + 1; k < SCHED_NKINDS; k++) {
			is += price_link_us(piece_fn(c->on[0], i, k),
					    d->key.offload);
		}
		assert_true(us.all[i] * mb <= is * (1 + 1e-9));
		near->links += is > 0 ? us.all[i] * mb / is : 0;
		near->nlinks += is > 0;
	}
}

static void
check_drawn(const char *model, bool moe, struct nearness *near)
{
	static const char *const clusters[] = {
		"h100x8", "rtx4090x8x4", "a100x8x2", "t4x4x4",
		"h100x8x2@eth25", "cpu-znver5x8x4", "b200x8x2"
	};
	struct drawn d;
	struct stand x;
	int i;

	stand_as(&x, model, clusters[draw(7)], draw(2));
	bound_find_work(&x.bounds);
	for (i = 0; i < 40; i++) {
		if (draw_plan(&x.space, moe, &d)) {
			check_pieces(&x, &d, near);
			check_bytes(&x, &d);
			check_link(&x, &d, near);
		}
	}
	leave(&x);
}

static void
test_bounds(void **state)
{
	int64_t n = env("SEARCH_BOUNDS", 40), i;
	struct nearness near = { 0 }, large = { 0 };
	char text[MODEL_BYTES];
	int k;

	(void)state;
	for (i = 0; i < n; i++, seed++) {
		drawn = 0;
		for (k = 0; k < DRAWN_MODELS; k++) {
			const struct drawn_model *x = &drawn_models[k];

			check_drawn(draw_model(x, text), x->moe,
				    x->large ? &large : &near);
		}
		check_drawn(wide, true, &near);
		check_drawn(rows, false, &near);
		check_drawn(narrow, false, &near);
		check_drawn(shared, false, &near);
	}
	print_message("%d pieces: bounds are %.3f of prices; of large models, "
		      "%d: %.3f\n", near.n, near.ratios / near.n, large.n,
		      large.ratios / large.n);
	print_message("%d pieces with parameters on hosts: links are %.3f\n",
		      near.nlinks, near.links / near.nlinks);
	assert_true(near.n + large.n > 50 * n);
	assert_true(near.links > 0.5 * near.nlinks && near.nlinks > n);
	assert_true(large.ratios > 0.5 * large.n);
}

/* ---- what kernels wait for ---- */

/* Rows that are far longer to send than to start. */
static const char sends[] = LAYERS_OF_EXPERTS(1024, 8, 65536, 32);

/* Adds what the kernels of a function's repeats take at least, in one run. */
static void
add_repeats(struct pricing *p, const struct kernel_list *l, void *to)
{
	uint32_t i, k;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel_list *body = l->at.at[i].body;

		for (k = 0; body && k < body->at.n; k++) {
			price_least(p, &body->at.at[k], to);
		}
	}
}

/* Calls `look` for the kernels of a layer that has pieces of its own. */
static void
each_of_layer(struct stand *x, const struct piece_key *key,
	      const struct space_plan *t,
	      void (*look)(struct pricing *p, const struct kernel_list *l,
			   void *to),
	      void *to)
{
	struct piece_sharding *w = piece_sharding_of(&x->pieces, key, t);
	struct pricing p = piece_pricing(&x->pieces, w, 0);
	struct kernels *const *of;
	uint32_t i, k;

	piece_set_axes(w->m, t);
	of = piece_find_kernels(&x->pieces, w, t->microbatch, t->g->dp);
	for (i = 0; i < w->on->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id id = w->r.of_stage[i][k];

			if (id && w->on->piece_of[i] == PIECE_BODY) {
				look(&p, of[id]->top, to);
			}
		}
	}
}

/* What its collectives take. */
static struct price_least
colls_of(struct stand *x, const struct piece_key *key,
	 const struct space_plan *t)
{
	struct price_least f = { 0, 0, 0 };

	each_of_layer(x, key, t, add_repeats, &f);
	return f;
}

/* What shows of them. */
static double
colls_us(struct stand *x, const struct piece_key *key,
	 const struct space_plan *t)
{
	struct price_least f = colls_of(x, key, t);

	return f.waits_us + PRICE_SLOWED * f.colls_us;
}

/*
 * Rows that are sent to experts and back are waited for.  Along the axis of
 * experts alone nothing else is exchanged in a layer, so the bound is all of it
 * but starts: 1% more of it would be too much.
 */
static void
test_waited(void **state)
{
	double most = 0;
	int64_t n;

	(void)state;
	for (n = 2; n <= 8; n *= 2) {
		struct space_degrees g = { .used = n, .tp = 1, .cp = 1,
					  .ep = n, .pp = 1, .dp = 1 };
		struct space_plan t = { .g = &g, .microbatch = 1,
					.chunks = 1,
					.sched = sched_find("1f1b") };
		struct piece_key key = { .tp = 1, .cp = 1, .ep = n };
		struct bound_pieces with, without;
		double us, is;
		struct stand x;

		stand(&x, sends, "rtx4090x8");
		t.nmicrobatches = x.space.batch / n;
		bound_find_work(&x.bounds);
		bound_find_pieces(&x.bounds, &key, &t, 1, &with);
		x.bounds.axes.n = 0;
		x.bounds.hurried = true;	/* so axes count nothing */
		bound_find_pieces(&x.bounds, &key, &t, 1, &without);
		us = with.all[PIECE_BODY] - without.all[PIECE_BODY];
		is = colls_us(&x, &key, &t);
		assert_true(us <= is);
		most = fmax(most, us / is);
		leave(&x);
	}
	assert_true(most > 0.99);
}

/* ---- collectives of a placement ---- */

/*
 * What the collectives of a placement take, in a layer and before it is staged,
 * is what its program has, without starts of those that kernels wait for: 1%
 * more of them would be too much.
 */
static void
assert_found(int64_t tp, int64_t ep, int64_t dp, int zero)
{
	struct space_degrees g = { .used = tp * ep * dp, .tp = tp, .cp = 1,
				  .ep = ep, .pp = 1, .dp = dp };
	struct space_plan t = { .g = &g, .microbatch = 1, .chunks = 1,
				.sched = sched_find("1f1b") };
	struct piece_key key = { .tp = tp, .cp = 1, .ep = ep, .zero = zero,
				  .data = dp > 1, .sequence = true };
	struct piece_colls all, needed;
	struct price_least is;
	double colls, waits;
	struct stand x;

	stand(&x, sends, "rtx4090x8x4");
	t.nmicrobatches = x.space.batch / (ep * dp);
	assert_true(piece_colls_least(&x.pieces, &key, &t, true, &all));
	assert_true(piece_colls_least(&x.pieces, &key, &t, false, &needed));
	is = colls_of(&x, &key, &t);
	colls = all.layer[0][0].colls_us + all.layer[0][1].colls_us;
	waits = all.layer[0][0].waits_us + all.layer[0][1].waits_us;
	print_message("tp=%d ep=%d dp=%d zero=%d: of %.1f and %.1f us waited "
		      "for, %.1f and %.1f\n", (int)tp, (int)ep, (int)dp, zero,
		      is.colls_us, is.waits_us, colls, waits);
	assert_true(colls <= is.colls_us * (1 + 1e-6));
	assert_true(waits <= is.waits_us * (1 + 1e-6));
	assert_true(colls >= is.colls_us * 0.99);
	assert_true(waits >= is.waits_us * 0.99);
	/* weights and their gradients are no activations */
	colls -= needed.layer[0][0].colls_us + needed.layer[0][1].colls_us;
	assert_true(zero > 1 ? colls > 0 : colls >= 0);
	leave(&x);
}

static void
test_colls(void **state)
{
	(void)state;
	assert_found(4, 1, 1, 0);
	assert_found(1, 8, 1, 0);
	assert_found(2, 4, 1, 0);
	assert_found(4, 4, 2, 1);
	assert_found(2, 2, 8, 2);
	assert_found(2, 4, 4, 3);
}

/* ---- what data ranks exchange ---- */

/* The time of a microbatch by a sharding, of all layers. */
struct taken {
	double data_us;		/* exchanged among data ranks */
	double kernels_us;	/* all else, but for what runs beside it */
	double shown_us;	/* both, as they run beside each other */
};

/* A function without its data ranks' exchange and without what it hides. */
static double
alone_us(const struct price_func *f)
{
	double coll = fmax(f->us[PRICE_COMM] - f->data_us, 0);

	return f->total_us - f->data_us -
	       fmin(f->beside_us, coll) * (1 - PRICE_SLOWED);
}

static void
take(struct stand *x, const struct piece_cost *c, uint32_t piece,
     double times, struct taken *out)
{
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		const struct price_func *f = piece_fn(c->on[0], piece, k);

		out->data_us += times * f->data_us;
		out->kernels_us += times * alone_us(f);
		out->shown_us += times * price_shown_us(&x->traits, f);
	}
}

static struct taken
taken(struct stand *x, const struct piece_key *key,
      const struct space_plan *t)
{
	struct piece_cost *c = piece_cost_of(&x->pieces, key, t);
	struct taken all = { 0 };

	assert_non_null(c);
	piece_price(&x->pieces, key, t, c, 0);
	take(x, c, PIECE_FIRST, 1, &all);
	take(x, c, PIECE_LAST, 1, &all);
	take(x, c, PIECE_BODY, 4, &all);
	return all;
}

/* What an exchange adds to kernels that take so long, a microbatch. */
static double
added_us(struct stand *x, const struct piece_key *key, struct space_plan t,
	 double us)
{
	double n = (double)t.nmicrobatches;
	double once = bound_data_us(&x->bounds, key, &t, n * us);

	t.nmicrobatches++;
	return bound_data_us(&x->bounds, key, &t, (n + 1) * us) - once;
}

/* The degrees of dp and ep ranks. */
static const struct space_degrees *
data_ranks(const struct space *s, int64_t dp, int64_t ep)
{
	uint32_t i;

	for (i = 0; i < s->degrees.n; i++) {
		const struct space_degrees *g = &s->degrees.at[i];

		if (g->used == dp * ep && g->dp == dp && g->ep == ep) {
			return g;
		}
	}
	fail();
	return NULL;
}

/* Of the model `wide`: positions of a sequence, times their choices. */
#define WIDE_ROWS (32 * 2)

/* What a layer has beside its own rows, and how many calls are of several
 * collectives. */
struct gathered {
	double own_rows, others_us;
	int joined;
};

/*
 * Gradients of experts are sums over rows.  Where the rows of all data ranks
 * are gathered, each rank also multiplies those of the others.
 */
static void
add_gathered(struct pricing *p, const struct kernel_list *l, void *user)
{
	struct gathered *to = user;
	uint32_t i, k;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel_list *body = l->at.at[i].body;

		for (k = 0; body && k < body->at.n; k++) {
			const struct kernel *x = &body->at.at[k];
			struct price_func f = { 0 };

			to->joined += x->kind == KERNEL_COLLECTIVE &&
				      x->work->coll.n > 1;
			if (x->kind == KERNEL_CONTRACTION &&
			    x->work->dot.groups > 1 &&
			    x->work->dot.k > to->own_rows) {
				price_kernel(p, x, &f);
				to->others_us += f.total_us *
					(1 - to->own_rows / x->work->dot.k);
			}
		}
	}
}

/* What an exchange adds to no kernels, if no rows of others are multiplied. */
static double
exchanged_us(struct stand *x, const struct piece_key *key,
	     const struct space_plan *t)
{
	struct bound_degrees *g = &x->bounds.of[t->g->nth], was = *g;
	double us;
	int i;

	for (i = 0; i < BOUND_NGROUPS; i++) {
		g->of[i].flop_us = 1e9;
	}
	us = added_us(x, key, *t, 0);
	*g = was;
	return us;
}

/*
 * A bound counts no more of that than there is, in each microbatch: neither of
 * collectives, nor of these with the products of rows that they bring.  joins:
 * the program may have calls of several collectives.  Returns how many.
 */
static int
assert_counted(const char *model, int64_t ep, int zero, int64_t microbatch,
	       bool joins)
{
	struct space_plan t = { .microbatch = microbatch, .chunks = 1,
				.sched = sched_find("1f1b") };
	struct piece_key key = { .tp = 1, .cp = 1, .ep = ep, .zero = zero,
				 .data = true };
	struct gathered more = { .own_rows = (double)microbatch * WIDE_ROWS };
	struct taken is;
	struct stand x;
	double counted, shown, left, own_us;

	stand_as(&x, model, "rtx4090x8x4", joins);
	t.g = data_ranks(&x.space, 8 / ep, ep);
	t.nmicrobatches = space_microbatches(&x.space, t.g, microbatch);
	is = taken(&x, &key, &t);
	each_of_layer(&x, &key, &t, add_gathered, &more);
	own_us = is.kernels_us - more.others_us * (double)x.space.nlayers;
	counted = exchanged_us(&x, &key, &t);
	shown = own_us + added_us(&x, &key, t, own_us);
	print_message("ep=%d zero=%d, %d joined: %.1f us, counted %.1f; "
		      "%.1f shown, at least %.1f\n", (int)ep, zero, more.joined,
		      is.data_us, counted, is.shown_us, shown);
	assert_true(counted > is.data_us / 2 && counted <= is.data_us);
	assert_true(shown > own_us && shown <= is.shown_us);
	/* the same, asked the other way round */
	shown = own_us + bound_data_us(&x.bounds, &key, &t, own_us);
	left = bound_kernels_us(&x.bounds, &key, &t, shown);
	assert_true(fabs(left - own_us) < 1e-6 * shown);
	leave(&x);
	return more.joined;
}

static void
test_exchange(void **state)
{
	int zero, joins, n = 0;

	(void)state;
	for (zero = 2; zero < 4; zero++) {
		for (joins = 0; joins < 2; joins++) {
			n += assert_counted(plain, 1, zero, 1, joins);
			n += assert_counted(wide, 1, zero, 1, joins);
			n += assert_counted(wide, 1, zero, 4, joins);
			n += assert_counted(wide, 4, zero, 1, joins);
		}
	}
	assert_true(n > 8);
}

/* ---- bytes of other microbatches ---- */

/* What pieces keep at 4 sequences, of a sharding that another plan made. */
static void
held_at_4(int64_t first, int zero, struct piece_bytes out[PIECE_MAX])
{
	struct space_degrees g = { .used = 2, .tp = 1, .cp = 1, .ep = 1,
				  .pp = 1, .dp = 2 };
	struct space_plan t = { .g = &g, .microbatch = first,
				.nmicrobatches = 8 / first, .chunks = 1,
				.sched = sched_find("1f1b") };
	struct piece_key key = { .tp = 1, .cp = 1, .ep = 1, .zero = zero,
				  .data = true };
	struct piece_cost *c;
	struct stand x;

	stand(&x, plain, "rtx4090x8x4");
	piece_cost_of(&x.pieces, &key, &t);
	t.microbatch = 4;
	t.nmicrobatches = 2;
	c = piece_cost_of(&x.pieces, &key, &t);
	assert_non_null(c);
	piece_measure(&x.pieces, &key, &t, c);
	memcpy(out, c->bytes, piece_number(&x.space) * sizeof *out);
	leave(&x);
}

static void
test_bytes(void **state)
{
	struct piece_bytes one[PIECE_MAX], four[PIECE_MAX];
	int zero, i, k;

	(void)state;
	for (zero = 0; zero < 4; zero++) {
		memset(one, 0, sizeof one);
		memset(four, 0, sizeof four);
		held_at_4(1, zero, one);
		held_at_4(4, zero, four);
		assert_true(one[PIECE_BODY].temp > 0);
		for (i = 0; i < PIECE_MAX; i++) {
			assert_true(one[i].temp == four[i].temp);
			for (k = 0; k < SPACE_NSPANS; k++) {
				assert_true(one[i].slot[k] ==
					    four[i].slot[k]);
			}
		}
	}
}

/* ---- ways to recompute ---- */

static double
layer_us(const struct stand *x, const struct piece_cost *c)
{
	double us = 0;
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		us += price_shown_us(&x->traits,
				     piece_fn(c->on[0], PIECE_BODY, k));
	}
	return us;
}

/* The pieces of a way, as a plan of one sequence prices and measures them. */
static struct piece_cost *
of_way(struct stand *x, struct piece_key key, const struct space_plan *t,
       uint32_t way)
{
	struct piece_cost *c;

	key.choice = way;
	c = piece_cost_of(&x->pieces, &key, t);
	assert_non_null(c);
	piece_measure(&x->pieces, &key, t, c);
	piece_price(&x->pieces, &key, t, c, 0);
	return c;
}

/*
 * Ways are priced and measured by the pieces of layers alone; that is what
 * their whole programs have.
 */
static void
test_ways(void **state)
{
	struct space_degrees g = { .used = 2, .tp = 2, .cp = 1, .ep = 1,
				  .pp = 1, .dp = 1 };
	struct space_plan t = { .g = &g, .microbatch = 1, .nmicrobatches = 16,
				.chunks = 1, .sched = sched_find("1f1b") };
	struct piece_key key = { .tp = 2, .cp = 1, .ep = 1 };
	const struct piece_choices *ways;
	const struct piece_cost *c, *first;
	struct stand x;
	uint32_t i, k;

	(void)state;
	stand(&x, plain, "rtx4090x8x4");
	ways = piece_choices_of(&x.pieces, &key, &t);
	assert_non_null(ways);
	assert_true(ways->at.n > 1);
	first = of_way(&x, key, &t, ways->at.at[0].nth);
	for (i = 0; i < ways->at.n; i++) {
		const struct piece_choice *w = &ways->at.at[i];

		c = of_way(&x, key, &t, w->nth);
		assert_true(w->extra_us[0] == layer_us(&x, c) -
					      layer_us(&x, first));
		assert_true(w->temp == c->bytes[PIECE_BODY].temp -
				       first->bytes[PIECE_BODY].temp);
		for (k = 0; k < SPACE_NSPANS; k++) {
			assert_true(w->less[k][0] ==
				    first->bytes[PIECE_BODY].slot[k] -
				    c->bytes[PIECE_BODY].slot[k]);
		}
	}
	leave(&x);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_splits),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_waited),
		cmocka_unit_test(test_colls),
		cmocka_unit_test(test_exchange),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_ways)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

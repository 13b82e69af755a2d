/*
 * Prices of a sharding's pieces depend on the microbatch and on what exchanges,
 * not on who needs them first: a sharding that was placed without data ranks
 * is priced for degrees that have some where it stands for wider ones.  A bound
 * says no more than such prices; and what pieces hold with one microbatch says
 * what they hold with others.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "frontend/frontend.h"
#include "ir/memo.h"
#include "passes/pass.h"
#include "passes/search/search_parts.h"

static const char dense[] =
	"model m {\n"
	"  dim hidden = 256, ffn = 512, vocab = 1024, seq = 128, batch = 16;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat 6 as i {\n"
	"    n = rmsnorm(x);\n"
	"    x = x + linear(silu(linear(n -> ffn)) -> hidden);\n"
	"  }\n"
	"  x = rmsnorm(x);\n"
	"  loss = cross_entropy(linear(x -> vocab), labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); }\n";

/* Few tokens for large experts. */
static const char experts[] =
	"model m {\n"
	"  dim hidden = 1024, ffn = 8192, expert = 32, choice = 2,\n"
	"      vocab = 512, seq = 32, batch = 64;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat 6 as i {\n"
	"    n = rmsnorm(x);\n"
	"    s = softmax(linear(n -> expert));\n"
	"    e = topk(s, expert -> choice);\n"
	"    w = gather(s, e);\n"
	"    y = linear(gelu(linear(n, e -> ffn)), e -> hidden);\n"
	"    x = x + sum(y * w, choice);\n"
	"  }\n"
	"  loss = cross_entropy(linear(x -> vocab), labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); }\n";

/* A search that stands before its first plan. */
struct stand {
	struct ir_ctx c;
	struct target t;
	struct search_options o;
	struct search_report report;
	struct memo memo;
	struct search s;
};

static void
stand(struct stand *x, const char *model)
{
	struct search *s = &x->s;
	struct ir_ctx *c = &x->c;
	uint32_t base;

	memset(x, 0, sizeof *x);
	ir_ctx_init(c, NULL);
	c->diags.on[WARN_UNNAMED_WEIGHT] = false;
	assert_true(source_add(&c->sources, "<model>", model, strlen(model),
			       &base));
	s->m = fe_compile(c, c->sources.files.n - 1);
	assert_non_null(s->m);
	assert_int_equal(pass_apply(s->m, "fold-dims,inline,autodiff", false),
			 PASS_OK);
	assert_true(fe_target(c, "rtx4090x8x4", &x->t));
	x->o.target = &x->t;
	s->o = &x->o;
	s->a = &c->perm;
	s->out = &x->report;
	s->t = target_span(&x->t, 0, x->t.groups.n - 1);
	arena_init(&s->keep, &c->mem);
	arena_init(&s->tmp, &c->mem);
	s->stats.arena = &s->keep;
	s->stats.pass = "search";
	memo_init(&x->memo, &c->mem, MEMO_BYTES);
	s->memo = s->briefs.memo = &x->memo;
	assert_true(plan_read(s->m, &s->base) && plan_names(s->m) &&
		    search_open(s));
}

static void
leave(struct stand *x)
{
	search_release(&x->s);
	memo_release(&x->memo);
	ir_ctx_release(&x->c);
}

/* All pieces of two ranks that split tensors, beside dp data ranks. */
static struct search_fn
pieces(struct stand *x, int64_t microbatch, int64_t dp)
{
	struct search_group g = { .used = 2 * dp, .tp = 2, .cp = 1, .ep = 1,
				  .pp = 1, .dp = dp };
	struct search_try t = { .g = &g, .microbatch = microbatch,
				.nmicrobatches = 16 / dp / microbatch,
				.chunks = 1, .sched = sched_find("1f1b") };
	struct search_key key = { .tp = 2, .cp = 1, .ep = 1 };
	struct search_cost *c = search_cost_of(&x->s, &key, &t);

	assert_non_null(c);
	search_price(&x->s, &key, &t, c, 0);
	return *c->on[0];
}

static void
assert_same(const struct search_fn *a, const struct search_fn *b)
{
	uint32_t i, k;

	for (i = 0; i < PIECE_MAX; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			assert_true(a->fn[i][k].total_us ==
				    b->fn[i][k].total_us);
		}
	}
}

static void
test_data_ranks(void **state)
{
	static const int64_t microbatch[] = { 2, 1, 1 }, dp[] = { 2, 4, 16 };
	struct search_fn none, some;
	struct stand x;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof dp / sizeof *dp; i++) {
		stand(&x, dense);
		pieces(&x, 8, 1);	/* for which it is placed */
		some = pieces(&x, microbatch[i], dp[i]);
		leave(&x);
		stand(&x, dense);
		pieces(&x, 8, 1);
		none = pieces(&x, microbatch[i], 1);
		assert_true(none.fn[PIECE_BODY][0].total_us > 0);
		assert_same(&some, &none);
		leave(&x);
	}
}

/* The time of a microbatch by a sharding, of all layers. */
struct taken {
	double data_us;		/* exchanged among data ranks */
	double kernels_us;	/* all else, but for what goes on beside it */
	double shown_us;	/* both, as they go on beside each other */
};

static void
take(struct stand *x, const struct search_cost *c, uint32_t piece,
     double times, struct taken *out)
{
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		const struct price_func *f = &c->on[0]->fn[piece][k];

		out->data_us += times * f->data_us;
		out->kernels_us += times * search_least_us(&x->s, c, piece, k);
		out->shown_us += times * price_shown_us(&x->o.traits, f);
	}
}

static struct taken
taken(struct stand *x, const struct search_key *key,
      const struct search_try *t)
{
	struct search_cost *c = search_cost_of(&x->s, key, t);
	struct taken all = { 0 };

	assert_non_null(c);
	search_price(&x->s, key, t, c, 0);
	take(x, c, PIECE_FIRST, 1, &all);
	take(x, c, PIECE_LAST, 1, &all);
	take(x, c, PIECE_BODY, 4, &all);
	return all;
}

/* What an exchange adds to kernels that take so long, a microbatch. */
static double
added_us(struct stand *x, const struct search_key *key, struct search_try t,
	 bool part, double us)
{
	double once = search_data_us(&x->s, key, &t, part, us);

	t.nmicrobatches *= 2;
	return search_data_us(&x->s, key, &t, part, 2 * us) - once;
}

/* A bound counts no more of that than there is, in each microbatch. */
static void
assert_counted(const char *model, int64_t ep, int zero, int64_t microbatch)
{
	struct search_group g = { .used = 8, .tp = 1, .cp = 1, .ep = ep,
				  .pp = 1, .dp = 8 / ep };
	struct search_try t = { .g = &g, .microbatch = microbatch,
				.nmicrobatches = 1, .chunks = 1,
				.sched = sched_find("1f1b") };
	struct search_key key = { .tp = 1, .cp = 1, .ep = ep, .zero = zero,
				  .data = true };
	struct taken is;
	struct stand x;
	double counted, shown, left;

	stand(&x, model);
	is = taken(&x, &key, &t);
	search_set_exchange(&x.s, &g);
	counted = added_us(&x, &key, t, false, 0);
	shown = is.kernels_us +
		added_us(&x, &key, t, false, is.kernels_us);
	print_message("ep=%d zero=%d: %.1f us, counted %.1f; "
		      "%.1f shown, at least %.1f\n", (int)ep, zero, is.data_us,
		      counted, is.shown_us, shown);
	assert_true(counted > is.data_us / 2 && counted <= is.data_us);
	assert_true(shown > is.kernels_us && shown <= is.shown_us);
	/* the same, asked the other way round */
	shown = is.kernels_us +
		search_data_us(&x.s, &key, &t, false, is.kernels_us);
	left = search_kernels_us(&x.s, &key, &t, false, shown);
	assert_true(fabs(left - is.kernels_us) < 1e-6 * shown);
	leave(&x);
}

static void
test_exchange(void **state)
{
	int zero;

	(void)state;
	for (zero = 2; zero < 4; zero++) {
		assert_counted(dense, 1, zero, 1);
		assert_counted(dense, 1, zero, 2);
		assert_counted(experts, 1, zero, 1);
		assert_counted(experts, 1, zero, 8);
		assert_counted(experts, 4, zero, 1);
	}
}

/*
 * Without data ranks, experts' ranks exchange what ZeRO cuts: that is
 * communication of theirs, part of what the sharding's pieces cost, and does
 * not count twice.
 */
static void
test_part(void **state)
{
	struct search_group g = { .used = 4, .tp = 1, .cp = 1, .ep = 4,
				  .pp = 1, .dp = 1 };
	struct search_try t = { .g = &g, .microbatch = 1, .nmicrobatches = 1,
				.chunks = 1, .sched = sched_find("1f1b") };
	struct search_key key = { .tp = 1, .cp = 1, .ep = 4, .zero = 3 };
	struct taken is;
	struct stand x;
	double twice;

	(void)state;
	stand(&x, experts);
	is = taken(&x, &key, &t);
	search_set_exchange(&x.s, &g);
	assert_true(search_has_exchange(&key));
	assert_true(is.data_us == 0);
	assert_true(added_us(&x, &key, t, true, is.kernels_us) == 0);
	twice = is.kernels_us +
		added_us(&x, &key, t, false, is.kernels_us);
	print_message("takes %.1f us, counted twice %.1f\n", is.shown_us,
		      twice);
	assert_true(is.kernels_us <= is.shown_us && twice > is.shown_us);
	leave(&x);
}

/* One plan of these ranks and no others. */
static struct search_try
only(const struct search *s, const struct search_key *key, int64_t microbatch,
     struct search_group *g)
{
	*g = (struct search_group){ .used = key->tp * key->ep, .tp = key->tp,
				    .cp = 1, .ep = key->ep, .pp = 1,
				    .dp = 1 };
	return (struct search_try){
		.g = g, .microbatch = microbatch,
		.nmicrobatches = search_microbatches(s, g, microbatch),
		.chunks = 1, .sched = sched_find("1f1b")
	};
}

static struct search_cost *
priced(struct stand *x, const struct search_key *key, int64_t microbatch)
{
	struct search_group g;
	struct search_try t = only(&x->s, key, microbatch, &g);
	struct search_cost *c = search_cost_of(&x->s, key, &t);

	assert_non_null(c);
	search_price(&x->s, key, &t, c, 0);
	return c;
}

/*
 * What others bound of a sharding, of which the last splits tensors, is no
 * more than it takes, and more than its part of what one rank takes.
 */
static void
check_wider(const char *model, const struct search_key *told, size_t n,
	    const struct search_key *key, int64_t microbatch)
{
	struct search_group g;
	struct search_try t;
	struct search_pieces one, us, own;
	struct stand x;
	double part = 0.98 / (double)key->tp;
	uint32_t i;

	stand(&x, model);
	for (i = 0; i < n; i++) {
		priced(&x, &told[i], microbatch);
	}
	t = only(&x.s, key, microbatch, &g);
	search_least_pieces(&x.s, priced(&x, &told[0], microbatch), &one);
	assert_null(search_tensor_bound_from(&x.s, key, &t));
	search_bound_tensor(&x.s, key, &t);
	assert_ptr_equal(search_tensor_bound_from(&x.s, key, &t),
			 x.s.shardings.at[n - 1]);
	assert_false(search_is_known(&x.s, key, &t));
	search_known_pieces(&x.s, key, &t, &us);
	search_least_pieces(&x.s, priced(&x, key, microbatch), &own);
	for (i = 0; i < PIECE_MAX; i++) {
		assert_true(us.all[i] <= own.all[i]);
		assert_true(us.forward[i] <= own.forward[i]);
		assert_true(us.all[i] >= part * one.all[i] * (1 - 1e-9));
	}
	assert_true(us.all[PIECE_BODY] > part * one.all[PIECE_BODY] * 1.01);
	assert_true(search_is_known(&x.s, key, &t));
	leave(&x);
}

static void
test_wider(void **state)
{
	struct search_key told[3] = {
		{ .tp = 1, .cp = 1, .ep = 1 }, { .tp = 2, .cp = 1, .ep = 1 }
	};
	struct search_key key = { .tp = 4, .cp = 1, .ep = 1 };

	(void)state;
	check_wider(dense, told, 2, &key, 1);
	check_wider(dense, told, 2, &key, 8);
	told[1].sequence = true;	/* it says less of one that has none */
	check_wider(dense, told, 2, &key, 8);
	key.tp = 2;
	check_wider(dense, told, 2, &key, 8);
	told[0].ep = key.ep = 2;
	told[1] = (struct search_key){ .tp = 1, .cp = 1, .ep = 1 };
	told[2] = (struct search_key){ .tp = 2, .cp = 1, .ep = 1 };
	check_wider(experts, told, 3, &key, 8);
}

/* What is placed for a larger microbatch, or has other data ranks, does not. */
static void
test_wider_none(void **state)
{
	struct search_group g;
	struct search_try t;
	struct search_key one = { .tp = 1, .cp = 1, .ep = 1 };
	struct search_key two = { .tp = 2, .cp = 1, .ep = 1 };
	struct search_key key = { .tp = 4, .cp = 1, .ep = 1 };
	struct stand x;

	(void)state;
	stand(&x, dense);
	t = only(&x.s, &key, 4, &g);
	priced(&x, &one, 4);
	/* no ranks that split tensors */
	search_bound_tensor(&x.s, &key, &t);
	assert_null(search_tensor_bound_from(&x.s, &key, &t));
	priced(&x, &two, 4);
	key.data = true;
	search_bound_tensor(&x.s, &key, &t);
	assert_null(search_tensor_bound_from(&x.s, &key, &t));
	key.data = false;
	key.zero = 2;
	search_bound_tensor(&x.s, &key, &t);
	assert_null(search_tensor_bound_from(&x.s, &key, &t));
	key.zero = 0;
	t.microbatch = 2;
	search_bound_tensor(&x.s, &key, &t);
	assert_null(search_tensor_bound_from(&x.s, &key, &t));
	t.microbatch = 4;
	search_bound_tensor(&x.s, &key, &t);
	assert_non_null(search_tensor_bound_from(&x.s, &key, &t));
	leave(&x);
}

/* ---- bytes of other microbatches ---- */

/*
 * What pieces hold at 8 sequences, of a sharding that was placed for so many.
 */
static void
held_at_8(int64_t placed_for, int zero, struct search_bytes out[PIECE_MAX])
{
	struct search_group g = { .used = 2, .tp = 1, .cp = 1, .ep = 1,
				  .pp = 1, .dp = 2 };
	struct search_try t = { .g = &g, .microbatch = placed_for,
				.nmicrobatches = 1, .chunks = 1,
				.sched = sched_find("1f1b") };
	struct search_key key = { .tp = 1, .cp = 1, .ep = 1, .zero = zero,
				  .data = true };
	struct search_cost *c;
	struct stand x;

	stand(&x, dense);
	search_cost_of(&x.s, &key, &t);
	t.microbatch = 8;
	c = search_cost_of(&x.s, &key, &t);
	assert_non_null(c);
	memcpy(out, c->bytes, sizeof c->bytes);
	leave(&x);
}

/*
 * Gathered weights and whole gradients are as large with any microbatch, and
 * most of what there is while a function runs here.
 */
static void
test_bytes(void **state)
{
	struct search_bytes one[PIECE_MAX], eight[PIECE_MAX];
	int zero, i, k;

	(void)state;
	for (zero = 1; zero < 4; zero++) {
		held_at_8(1, zero, one);
		held_at_8(8, zero, eight);
		print_message("zero=%d: %.0f bytes, by one %.0f\n", zero,
			      eight[PIECE_BODY].temp, one[PIECE_BODY].temp);
		for (i = 0; i < PIECE_MAX; i++) {
			assert_true(one[i].temp <= eight[i].temp * 1.1);
			assert_true(one[i].temp >= eight[i].temp * 0.85);
			for (k = 0; k < SEARCH_NSPANS; k++) {
				assert_true(fabs(one[i].slot[k] -
						 eight[i].slot[k]) <=
					    8 * MEMORY_ALIGN);
			}
		}
	}
}

/* ---- what a placement for a microbatch gains ---- */

static void
test_gain(void **state)
{
	struct search_key key = { .tp = 1, .cp = 1, .ep = 2 };
	struct search_key own = key, other = key;
	struct search_cost *c;
	struct stand x;
	int k;

	(void)state;
	stand(&x, experts);
	priced(&x, &key, 1);
	priced(&x, &key, 8);
	other.zero = 1;
	assert_true(search_gain(&x.s, &other, 8) == 0);
	own.microbatch = 8;
	c = priced(&x, &own, 8);
	assert_true(search_gain(&x.s, &other, 8) == 1);
	for (k = 0; k < SCHED_NKINDS; k++) {	/* as if it gained more */
		c->on[0]->fn[PIECE_BODY][k].total_us *= 0.8;
	}
	assert_true(fabs(search_gain(&x.s, &other, 8) - 0.8) < 1e-9);
	assert_true(search_gain(&x.s, &key, 8) == 0);	/* it has its own */
	assert_true(search_gain(&x.s, &other, 4) == 0);
	other.ep = 4;
	assert_true(fabs(search_gain(&x.s, &other, 8) - 0.8) < 1e-9);
	other.tp = 2;
	assert_true(search_gain(&x.s, &other, 8) == 0);
	leave(&x);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_data_ranks),
		cmocka_unit_test(test_exchange),
		cmocka_unit_test(test_part),
		cmocka_unit_test(test_wider),
		cmocka_unit_test(test_wider_none),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_gain)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

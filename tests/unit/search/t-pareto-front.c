/*
 * The front of what a block keeps and what it pays: on random modules what
 * front_at says of random words is what the pass `recompute` then does; and
 * the front is that of all sets of words, tried one by one.  A block of many
 * saves, each of its own price, is done in a moment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "passes/recompute/pareto_front.h"
#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "tests/unit/shared/t-random-ir.h"

#define MODULES 1200
#define NAMES 6
#define CLOSE 1e-3

static const struct span nowhere = { 0, 0 };

/* A module and the tables that its passes need. */
struct world {
	struct ir_ctx c;
	struct pass_table table;
	struct pass_manager pm;
	struct ir_module *m;
};

static void
world_open(struct world *w)
{
	ir_ctx_init(&w->c, NULL);
	memset(w->c.diags.on, 0, sizeof w->c.diags.on);
	pass_table_init(&w->table, &w->c);
	pass_manager_init(&w->pm, &w->table);
	w->pm.options.reproducer = "t-pareto-front.ir.tmp";
}

static void
world_close(struct world *w)
{
	pass_manager_release(&w->pm);
	pass_table_release(&w->table);
	ir_ctx_release(&w->c);
}

static bool
passes(struct world *w, const char *list)
{
	struct pass_list l = { 0 };

	assert_true(pass_list_parse(&w->table, &l, list));
	return pass_run(&w->pm, &l, w->m) == PASS_OK;
}

/* ---- random modules ---- */

static void
make_loss(struct ir_module *m)
{
	region_id body = m->funcs.at[ir_model(m)].body;
	struct ir_type t = *ir_type(m, m->regions.at[body].results.at[0]);
	struct ir_new n;
	const char *why;
	value_id loss;
	uint8_t k;

	ir_new_init(&n, IR_SUM, nowhere);
	ir_new_arg(&n, m->regions.at[body].results.at[0]);
	ir_new_attr(&n, IR_ATTR_OVER);
	for (k = 0; k < t.ndims; k++) {
		ir_new_dim(&n, IR_ATTR_OVER, t.dims[k]);
	}
	loss = ir_append(m, body, &n, &why);
	m->regions.at[body].results.at[0] = loss;
	m->regions.at[body].results.n = 1;
}

/* The module of a seed, trained; some values share a name, some have none. */
static bool
random_world(struct world *w, uint32_t seed)
{
	const char *text;
	uint32_t base;
	value_id v;

	world_open(w);
	text = random_module(&w->c.perm, seed);
	assert_true(source_add(&w->c.sources, "r.ir", text, strlen(text),
			       &base));
	w->m = ir_read(&w->c, w->c.sources.files.n - 1);
	make_loss(w->m);
	assert_true(passes(w, "inline"));
	for (v = 1; v < w->m->values.n; v++) {
		uint32_t k = draw(&seed, NAMES + 2);

		w->m->values.at[v].hint = k >= NAMES ? 0 : intern_str(
			&w->c.syms, arena_printf(&w->c.perm, "a%u", k));
	}
	return passes(w, "autodiff");
}

/* A block of one repeat: maps and products of a few names, given again. */
static const char *
block_text(struct arena *a, uint32_t seed, uint32_t names, uint32_t length)
{
	static const char *const ops[] = {
		"a%u = silu(a%u);\n",
		"a%u = linear(linear(a%u -> e) @ \"w%u\" -> d) @ \"v%u\";\n",
		"a%u = rmsnorm(a%u) @ \"n%u\";\n", "a%u = a%u * a%u;\n",
		"a%u = a%u + silu(a%u);\n", "a%u = gelu(a%u) * a%u;\n"
	};
	struct buf b;
	uint32_t i;

	buf_init(&b, a);
	buf_puts(&b, "model m { dim d = 16, e = 24, vocab = 64, seq = 8;\n"
		 "layer block(x[batch, seq, d]) { a0 = rmsnorm(x) @ \"n\";");
	for (i = 1; i < length; i++) {
		uint32_t op = draw(&seed, 6), has = i < names ? i : names;
		uint32_t to = i < names ? i : draw(&seed, names);
		uint32_t from = draw(&seed, has), other = draw(&seed, has);

		buf_printf(&b, ops[op], to, from, op < 3 ? i : other, i);
	}
	buf_puts(&b, " return x + linear(linear(a0 * a1");
	for (i = 2; i < names && i < length; i++) {
		buf_printf(&b, " + a%u", i);
	}
	buf_puts(&b, " -> e) @ \"u\" -> d) @ \"o\"; }\n"
		 "x = embed(tokens, vocab -> d) @ \"e\";\n"
		 "repeat 3 as i { x = block(x) @ \"h.{i}\"; }\n"
		 "logits = linear(x -> vocab) @ \"l\";\n"
		 "loss = cross_entropy(logits, labels); }\n"
		 "train { batch = 4; }\n");
	return buf_text(&b);
}

static void
block_world(struct world *w, uint32_t seed, uint32_t names, uint32_t length)
{
	const char *text;
	uint32_t base;

	world_open(w);
	text = block_text(&w->c.perm, seed, names, length);
	assert_true(source_add(&w->c.sources, "m", text, strlen(text),
			       &base));
	w->m = fe_compile(&w->c, w->c.sources.files.n - 1);
	if (!w->m) {
		diag_flush(&w->c.diags, stderr);
		fail_msg("a block does not compile");
	}
	assert_true(passes(w, "inline,autodiff"));
}

/* One or the other. */
static bool
any_world(struct world *w, uint32_t seed)
{
	if (seed % 4) {
		block_world(w, seed, 4, 5 + seed % 7);
		return true;
	}
	return random_world(w, seed);
}

/* ---- prices ---- */

struct prices {
	const struct ir_module *m;
	uint32_t seed;		/* 0: each node costs 1, each iteration of it */
};

static double
node_us(void *user, node_id n)
{
	const struct prices *p = user;

	assert_true(ir_node(p->m, n)->nargs > 0);
	return p->seed ? 1 + (n * 2654435761u ^ p->seed) % 97 / 8.0 : 1;
}

static double
value_bytes(void *user, value_id v)
{
	const struct prices *p = user;

	return 1 + (v * 2246822519u ^ p->seed) % 13 * 16;
}

/* ---- against the pass ---- */

/* Some of the names and ops, or one of the words alone. */
static const char *
random_words(struct world *w, uint32_t *rnd)
{
	static const char *const modes[] = { "none", "full", "attention" };
	struct buf b;
	uint32_t i, some = draw(rnd, 1 << NAMES);
	enum ir_op op;

	if (draw(rnd, 4) == 0) {
		return modes[draw(rnd, 3)];
	}
	buf_init(&b, &w->c.perm);
	for (i = 0; i < NAMES; i++) {
		if (some >> i & 1) {
			buf_printf(&b, "%sa%u", b.n ? " " : "", i);
		}
	}
	op = (enum ir_op)(1 + draw(rnd, IR_OP_COUNT - 1));
	buf_printf(&b, "%s%s", b.n ? " " : "", ir_ops[op].name);
	return buf_text(&b);
}

/* What the pass does about names that the module has not is an error. */
static const char *
that_are_there(struct world *w, const char *words)
{
	struct ir_module *m = w->m;
	const char *end;
	struct buf b;
	value_id v;

	buf_init(&b, &w->c.perm);
	for (; *words; words = *end ? end + 1 : end) {
		const char *word;

		end = words + strcspn(words, " ");
		word = arena_strndup(&w->c.perm, words, (size_t)(end - words));
		for (v = 1; v < m->values.n; v++) {
			const struct ir_value *x = &m->values.at[v];

			if ((x->hint && strcmp(ir_text(&w->c, x->hint),
					       word) == 0) ||
			    (x->node && ir_ops[ir_node(m, x->node)->op]
					.recompute != IR_RC_NEVER &&
			     strcmp(ir_ops[ir_node(m, x->node)->op].name,
				    word) == 0)) {
				buf_printf(&b, "%s%s", b.n ? " " : "", word);
				break;
			}
		}
	}
	return b.n ? buf_text(&b) : "none";
}

static void
set_recompute(struct world *w, const char *words)
{
	struct ir_setting s = { .kind = SET_STR, .n = 1 };
	char *list = arena_strndup(&w->c.perm, words, strlen(words)), *p;

	for (p = list; *p; p++) {
		*p = *p == ' ' ? ',' : *p;
	}
	s.key = intern_str(&w->c.syms, "plan.recompute");
	s.text = intern_str(&w->c.syms, list);
	VEC_PUSH(&w->c.perm, &w->m->settings, s);
}

static int64_t
counted(const struct world *w, const char *what)
{
	uint32_t i;

	for (i = 0; i < w->pm.stats.at.n; i++) {
		if (strcmp(w->pm.stats.at.at[i].what, what) == 0) {
			return w->pm.stats.at.at[i].n;
		}
	}
	return 0;
}

/* Whether no repeat stands in one of these. */
static bool
is_plain(const struct ir_module *m, node_id block)
{
	const struct ir_region *r = &m->regions.at[ir_node(m, block)->region];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		if (ir_node(m, r->nodes.at[i])->region) {
			return false;
		}
	}
	return true;
}

/* True if words were dropped that somebody rebuilt. */
static bool
same_as_pass(uint32_t seed)
{
	struct front_prices p = { node_us, NULL, NULL };
	struct prices one = { 0 };
	struct front_point x;
	struct pass_sums sums;
	double bytes = 0, nodes = 0;
	const char *words;
	uint32_t n, i, rnd = seed;
	node_id *blocks;
	bool plain = true;
	struct world w;

	if (!any_world(&w, seed)) {
		world_close(&w);
		return false;
	}
	words = that_are_there(&w, random_words(&w, &rnd));
	one.m = w.m;
	p.user = &one;
	n = front_blocks(w.m, &w.c.perm, &blocks);
	for (i = 0; i < n; i++) {
		front_at(front_open(w.m, blocks[i], &p), words, &x);
		plain &= is_plain(w.m, blocks[i]);
		nodes += x.extra_us;
		bytes += x.bytes * (double)ir_attr_int(w.m,
			ir_node(w.m, blocks[i]), IR_ATTR_COUNT, 1);
	}
	set_recompute(&w, words);
	if (!passes(&w, "recompute,dce")) {
		fail_msg("%s", w.c.diags.records.at[0].text);
	}
	assert_true(pass_sum(w.m, &sums));
	if ((double)sums.saved_bytes != bytes) {
		fail_msg("module %u, %s: %.0f bytes expected, %lld saved",
			 seed, words, bytes, (long long)sums.saved_bytes);
	}
	/* the pass counts nodes, and not how often they run */
	if (plain && (double)counted(&w, "nodes rebuilt") != nodes) {
		fail_msg("module %u, %s: %.0f nodes expected, %lld rebuilt",
			 seed, words, nodes,
			 (long long)counted(&w, "nodes rebuilt"));
	}
	world_close(&w);
	return plain && nodes > 0;
}

static void
test_pass(void **state)
{
	uint32_t seed, n = 0;

	(void)state;
	for (seed = 1; seed <= MODULES; seed++) {
		n += same_as_pass(seed);
	}
	print_message("%u plain modules had something rebuilt\n", n);
	assert_true(n > 300);
}

/* ---- against all sets ---- */

static bool
beats(const struct front_point *a, const struct front_point *b)
{
	return a->bytes <= b->bytes && a->extra_us <= b->extra_us + CLOSE;
}

/* Every set of the names and ops of the block; false: too many of them. */
static bool
try_all(struct world *w, node_id block, const struct front_prices *p,
	const struct front *front)
{
	struct front_block *at = front_open(w->m, block, p);
	const char *words[24];
	uint32_t nwords = 0, i, k, set;
	struct front_point x;
	struct ir_region *r = &w->m->regions.at[ir_node(w->m, block)->region];

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(w->m, r->nodes.at[i]);
		const char *names[2] = { ir_ops[n->op].name, NULL };

		if (n->nresults != 1 || n->nargs == 0) {
			continue;
		}
		if (w->m->values.at[n->result].hint) {
			names[1] = ir_text(&w->c, w->m->values.at[n->result]
					   .hint);
		}
		for (k = 0; k < 2; k++) {
			for (set = 0; names[k] && set < nwords && strcmp(
			     words[set], names[k]) != 0; set++) {
				;
			}
			if (names[k] && set == nwords) {
				if (nwords == 10) {
					return false;
				}
				words[nwords++] = names[k];
			}
		}
	}
	for (set = 0; set < 1u << nwords; set++) {
		struct buf b;

		buf_init(&b, &w->c.perm);
		for (i = 0; i < nwords; i++) {
			if (set >> i & 1) {
				buf_printf(&b, "%s%s", b.n ? " " : "",
					   words[i]);
			}
		}
		front_at(at, b.n ? buf_text(&b) : "none", &x);
		for (k = 0; k < front->at.n; k++) {
			if (beats(&front->at.at[k], &x)) {
				break;
			}
		}
		if (k == front->at.n) {
			fail_msg("%s: %.0f bytes in %g us, which no point of "
				 "the front beats", x.recompute, x.bytes,
				 x.extra_us);
		}
	}
	return true;
}

/* Each point is what its words come to, and no other beats it. */
static void
check_points(struct world *w, node_id block, const struct front_prices *p,
	     const struct front *front)
{
	struct front_block *at = front_open(w->m, block, p);
	struct front_point x;
	uint32_t i;

	assert_true(front->at.n > 0);
	assert_true(front->at.at[front->at.n - 1].extra_us == 0);
	for (i = 0; i < front->at.n; i++) {
		const struct front_point *a = &front->at.at[i];

		front_at(at, a->recompute, &x);
		assert_true(x.bytes == a->bytes && x.extra_us == a->extra_us);
		assert_true(i == 0 || (a->bytes > a[-1].bytes &&
				       a->extra_us < a[-1].extra_us));
	}
}

static void
test_all_sets(void **state)
{
	uint32_t seed, i, tried = 0, points = 0;

	(void)state;
	for (seed = 1; seed <= MODULES; seed++) {
		struct prices some = { .seed = seed };
		struct front_prices p = { node_us, value_bytes, &some };
		node_id *blocks;
		struct front front;
		struct world w;
		uint32_t n;

		if (!any_world(&w, seed)) {
			world_close(&w);
			continue;
		}
		some.m = w.m;
		n = front_blocks(w.m, &w.c.perm, &blocks);
		for (i = 0; i < n; i++) {
			front_find(front_open(w.m, blocks[i], &p), 0,
				   &w.c.perm, &front);
			check_points(&w, blocks[i], &p, &front);
			assert_true(front.exact);
			if (is_plain(w.m, blocks[i]) &&
			    try_all(&w, blocks[i], &p, &front)) {
				tried++;
				points += front.at.n;
			}
		}
		world_close(&w);
	}
	print_message("all sets of %u blocks tried, %u points\n", tried,
		      points);
	assert_true(tried > 100 && points > 2 * tried);
}

/* ---- a large one ---- */

/* If fewer are wanted, they are some of these, and both ends. */
static void
check_few(struct world *w, node_id block, const struct front_prices *p,
	  const struct front *all)
{
	struct front_block *at = front_open(w->m, block, p);
	uint32_t want, i, k;
	struct front few;

	for (want = 2; want < 30; want += 9) {
		front_find(at, want, &w->c.perm, &few);
		assert_int_equal(few.at.n, want < all->at.n ? want
							    : all->at.n);
		for (k = 0, i = 0; i < few.at.n; i++, k++) {
			while (k < all->at.n && strcmp(all->at.at[k].recompute,
					few.at.at[i].recompute) != 0) {
				k++;
			}
			assert_true(k < all->at.n);
			assert_true(i > 0 || k == 0);
		}
		assert_int_equal(k, all->at.n);
	}
}

static void
test_large(void **state)
{
	struct prices some = { .seed = 7 };
	struct front_prices p = { node_us, value_bytes, &some };
	double ms, worst = 0;
	uint32_t seed, most = 0;

	(void)state;
	for (seed = 1; seed <= 60; seed++) {
		struct front front;
		node_id *blocks;
		struct world w;
		clock_t t;

		block_world(&w, seed, 24, 26);
		some.m = w.m;
		assert_int_equal(front_blocks(w.m, &w.c.perm, &blocks), 1);
		t = clock();
		front_find(front_open(w.m, blocks[0], &p), 0, &w.c.perm,
			   &front);
		ms = 1e3 * (double)(clock() - t) / CLOCKS_PER_SEC;
		worst = ms > worst ? ms : worst;
		most = front.at.n > most ? front.at.n : most;
		check_points(&w, blocks[0], &p, &front);
		assert_true(front.exact);
		check_few(&w, blocks[0], &p, &front);
		world_close(&w);
	}
	print_message("at most %u points, at most %.1f ms\n", most, worst);
	assert_true(most > 50);
}

/* A gain of r costs r, and no two sums are equal: hardly a set beats others. */
static double
random_bytes(void *user, value_id v)
{
	(void)user;
	return (double)(ir_rng_key("bytes", v) >> 24);
}

static double
random_us(void *user, node_id n)
{
	const struct ir_module *m = user;

	return 1e-6 * random_bytes(user, ir_node(m, n)->result);
}

/* Then some are left out; those that stay are right, and so are the ends. */
static void
test_too_many(void **state)
{
	struct front_prices p = { random_us, random_bytes, NULL };
	struct front_point x;
	struct front front;
	node_id *blocks;
	struct world w;
	clock_t t;

	(void)state;
	block_world(&w, 5, 24, 26);
	p.user = w.m;
	front_blocks(w.m, &w.c.perm, &blocks);
	t = clock();
	front_find(front_open(w.m, blocks[0], &p), 0, &w.c.perm, &front);
	print_message("%u points of far more in %.0f ms\n", front.at.n,
		      1e3 * (double)(clock() - t) / CLOCKS_PER_SEC);
	assert_true(!front.exact && front.at.n > 500);
	check_points(&w, blocks[0], &p, &front);
	front_at(front_open(w.m, blocks[0], &p), "full", &x);
	assert_true(front.at.at[0].bytes == x.bytes);
	world_close(&w);
}

/* ---- collectives ---- */

static double
comm_us(void *user, node_id n)
{
	const struct ir_module *m = user;

	return ir_is(ir_node(m, n)->op, IRF_COMM);
}

static const char placed_model[] =
	"model m { dim hidden = 64, heads = 4, hd = 16, ffn = 128;"
	" dim vocab = 64, seq = 16;"
	" layer block(x[batch, seq, hidden]) { n = rmsnorm(x) @ \"n\";"
	" q = linear(n -> heads, hd) @ \"q\";"
	" a = attention(q, rope(q), q, causal);"
	" x = x + linear(a -> hidden) @ \"o\"; m = rmsnorm(x) @ \"m\";"
	" g = silu(linear(m -> ffn) @ \"g\") * linear(m -> ffn)"
	" @ \"u\"; return x + linear(g -> hidden) @ \"d\"; }"
	" x = embed(tokens, vocab -> hidden) @ \"e\";"
	" repeat 3 as i { x = block(x) @ \"h.{i}\"; }"
	" logits = linear(x -> vocab) @ \"l\";"
	" loss = cross_entropy(logits, labels); }"
	" train { batch = 4; optimizer = sgd(lr = 1); }";

/* Its experts' rows are sent to the ranks of these, and back. */
static const char expert_model[] =
	"model m { dim hidden = 32, heads = 4, hd = 8, ffn = 48;"
	" dim expert = 4, choice = 2, vocab = 64, seq = 16;"
	" layer block(x[batch, seq, hidden]) { n = rmsnorm(x) @ \"n\";"
	" q = linear(n -> heads, hd) @ \"q\";"
	" a = attention(q, rope(q), q, causal);"
	" x = x + linear(a -> hidden) @ \"o\"; m = rmsnorm(x) @ \"m\";"
	" s = softmax(linear(m -> expert) @ \"r\");"
	" e = topk(s, expert -> choice); w = gather(s, e);"
	" g = silu(linear(m, e -> ffn) @ \"g.{expert}\");"
	" y = linear(g, e -> hidden) @ \"d.{expert}\";"
	" return x + sum(y * w, choice); }"
	" x = embed(tokens, vocab -> hidden) @ \"e\";"
	" repeat 3 as i { x = block(x) @ \"h.{i}\"; }"
	" logits = linear(x -> vocab) @ \"l\";"
	" loss = cross_entropy(logits, labels); }"
	" train { batch = 4; optimizer = sgd(lr = 1); }";

static void
open_placed(struct world *w, const char *model, const char *pins)
{
	uint32_t base;

	world_open(w);
	assert_true(source_add(&w->c.sources, "m", model, strlen(model),
			       &base));
	w->m = fe_compile(&w->c, w->c.sources.files.n - 1);
	assert_non_null(w->m);
	assert_true(plan_pin(w->m, pins));
	assert_true(passes(w, "train,place"));
}

/* Behind a sum over ranks a value costs that sum; before it, nothing. */
static void
test_coll(void **state)
{
	static const struct {
		const char *words;
		double colls;
	} want[] = {
		{ "none", 0 }, { "g", 0 }, { "silu", 0 }, { "a", 0 },
		{ "x", 1 }, { "m", 0 }, { "m x", 1 }, { "full", 1 }
	};
	struct front_prices p = { comm_us, NULL, NULL };
	struct front_point x, all;
	struct front front;
	node_id *blocks;
	struct world w;
	size_t i;

	(void)state;
	open_placed(&w, placed_model, "tp=2");
	p.user = w.m;
	assert_int_equal(front_blocks(w.m, &w.c.perm, &blocks), 1);
	front_at(front_open(w.m, blocks[0], &p), "none", &all);
	for (i = 0; i < sizeof want / sizeof want[0]; i++) {
		front_at(front_open(w.m, blocks[0], &p), want[i].words, &x);
		if (x.extra_us != want[i].colls ||
		    (i > 0 && x.bytes >= all.bytes)) {
			fail_msg("%s: %g collectives, %.0f bytes",
				 want[i].words, x.extra_us, x.bytes);
		}
	}
	front_find(front_open(w.m, blocks[0], &p), 0, &w.c.perm, &front);
	check_points(&w, blocks[0], &p, &front);
	assert_int_equal(front.at.n, 2);	/* with one, and without */
	world_close(&w);
}

static double
one(void *user, value_id v)
{
	(void)user;
	(void)v;
	return 1;
}

static uint32_t
saves(const struct ir_module *m, region_id r)
{
	const struct ir_region *x = &m->regions.at[r];
	uint32_t n = 0, i;

	for (i = 0; i < x->nodes.n; i++) {
		const struct ir_node *node = ir_node(m, x->nodes.at[i]);

		n += node->op == IR_SAVE;
		n += node->region ? saves(m, node->region) : 0;
	}
	return n;
}

/*
 * A word names a value wherever it lies: what a front says that is kept is
 * what the pass keeps, of values that a collective has brought as of others.
 */
static void
test_placed_names(void **state)
{
	static const char *const words[] = {
		"none", "dot", "dot_at", "silu", "rmsnorm", "y", "m",
		"dot_at g", "dot silu", "full"
	};
	struct front_prices p = { comm_us, one, NULL };
	struct front_point x;
	node_id *blocks;
	struct world w;
	uint32_t n;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof words / sizeof words[0]; i++) {
		open_placed(&w, expert_model, "ep=2");
		p.user = w.m;
		assert_int_equal(front_blocks(w.m, &w.c.perm, &blocks), 1);
		front_at(front_open(w.m, blocks[0], &p), words[i], &x);
		set_recompute(&w, words[i]);
		assert_true(passes(&w, "recompute,dce"));
		n = saves(w.m, w.m->funcs.at[ir_model(w.m)].body);
		if (x.bytes != n) {
			fail_msg("%s: %.0f values expected, %u saved",
				 words[i], x.bytes, n);
		}
		world_close(&w);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pass),
		cmocka_unit_test(test_all_sets),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_coll),
		cmocka_unit_test(test_placed_names),
	};

	return cmocka_run_group_tests_name("front", tests, NULL, NULL);
}

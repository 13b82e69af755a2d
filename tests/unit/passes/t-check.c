/*
 * check finds what is wrong with rank programs: of some pairs of a model and
 * a plan, the programs are broken in many ways at many places.  Each broken
 * one is reported by ir_verify or by check; or else all ranks run it and
 * come to the losses, gradients and weights of the unsplit program, so that
 * it was not broken.  And check has nothing to say about sound ones.
 *
 * CHECK_PLACES=N how many places of each kind and pair, CHECK_RANDOM=N so many
 * random pairs besides, CHECK_PAIRS=N how many sound ones, CHECK_SEED=S from
 * which seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "frontend/eval/eval.h"
#include "frontend/frontend.h"
#include "passes/pass.h"
#include "t-check-names.h"
#include "tests/unit/shared/t-split.h"

#define PLACES 6
#define PAIRS 200
#define SEED 100001
#define STEPS 2
#define CLOSE 1e-9

/* ---- pairs ---- */

struct source {
	const char *name, *model, *plan;
	int shuffle;		/* 0: prices are what they are */
};

#define BLOCK(more) \
	"model m { dim hidden = 4, heads = 2, hd = 2, ffn = 4;" \
	" dim vocab = 6, seq = 4; dtype f32;" \
	" layer block(x[batch, seq, hidden]) { n = rmsnorm(x) @ \"n1\";" \
	" q = linear(n -> heads, hd) @ \"q\";" \
	" k = linear(n -> heads, hd) @ \"k\";" \
	" v = linear(n -> heads, hd, bias) @ \"v\";" \
	" x = x + linear(attention(q, k, v, causal) -> hidden) @ \"o\";" \
	" m = rmsnorm(x) @ \"n2\";" \
	" return x + linear(silu(linear(m -> ffn) @ \"u\") -> hidden)" \
	" @ \"d\"; } " more
#define HEAD " x = rmsnorm(x) @ \"nf\";" \
	" logits = linear(x -> vocab) @ \"head\";" \
	" loss = cross_entropy(logits, labels); } "
#define TIED " b = weight(hidden, std = 0.1) @ \"both\";" \
	" x = embed(tokens, vocab -> hidden) @ \"wte\" + b;" \
	" repeat 4 as i { x = block(x) @ \"h.{i}\"; }" \
	" x = rmsnorm(x) @ \"nf\" * b;" \
	" logits = linear(x -> vocab, tied = \"wte\");" \
	" loss = cross_entropy(logits, labels); } "
#define PLAIN(n) " x = embed(tokens, vocab -> hidden) @ \"wte\";" \
	" repeat " n " as i { x = block(x) @ \"h.{i}\"; }" HEAD
#define EXPERTS \
	"model m { dim hidden = 4, heads = 2, hd = 2, ffn = 4;" \
	" dim expert = 4, choice = 2, vocab = 6, seq = 4; dtype f32;" \
	" layer dense(x[batch, seq, hidden]) { m = rmsnorm(x) @ \"n\";" \
	" return x + linear(silu(linear(m -> ffn) @ \"u\") -> hidden)" \
	" @ \"d\"; }" \
	" layer moe(x[batch, seq, hidden]) { n = rmsnorm(x) @ \"n\";" \
	" q = linear(n -> heads, hd) @ \"q\";" \
	" x = x + linear(attention(q, q, q, causal) -> hidden) @ \"o\";" \
	" s = softmax(linear(x -> expert) @ \"router\");" \
	" e = topk(s, expert -> choice); w = gather(s, e);" \
	" g = silu(linear(x, e -> ffn) @ \"experts.{expert}.w1\");" \
	" y = linear(g, e -> hidden) @ \"experts.{expert}.w2\";" \
	" return x + sum(y * w, choice); }" \
	" x = embed(tokens, vocab -> hidden) @ \"wte\";" \
	" repeat 2 as i { x = dense(x) @ \"h.{i}\"; }" \
	" repeat 3 as i from 2 { x = moe(x) @ \"h.{i}\"; }" HEAD
#define ADAM(batch) "train { batch = " batch "; clip = 0.5;" \
	" optimizer = adamw(lr = 1e-2, weight_decay = 0.1); }\n"
#define SGD(batch) "train { batch = " batch "; optimizer = sgd(lr = 0.5);" \
	" }\n"

static const struct source sources[] = {
	{ "tensor and data", BLOCK(PLAIN("2")) ADAM("4"),
	  "dp=2,tp=2,microbatch=1", 0 },
	{ "tied, 1f1b", BLOCK(TIED) ADAM("4"), "pp=2,dp=2,tp=2,microbatch=1,"
	  "zero=1,stages=1+3", 0 },
	{ "tied, zb_h1, zero 3", BLOCK(TIED) ADAM("4"),
	  "pp=2,dp=2,schedule=zb_h1,microbatch=1,zero=3", 0 },
	{ "interleaved, zero 2", BLOCK(PLAIN("4")) SGD("6"),
	  "pp=2,interleave=2,dp=2,microbatch=1,zero=2", 0 },
	{ "zbv, recompute", BLOCK(TIED) SGD("4"),
	  "pp=2,schedule=zbv,tp=2,microbatch=1,recompute=full", 0 },
	{ "recompute by stage", BLOCK(PLAIN("4")) ADAM("4"),
	  "pp=2,dp=2,microbatch=1,stages=1+3,recompute=full*1+(n+q)*1", 0 },
	{ "context", BLOCK(PLAIN("2")) ADAM("4"),
	  "pp=2,cp=2,dp=2,microbatch=1,balanced=on", 0 },
	{ "sequence", BLOCK(PLAIN("3")) SGD("4"),
	  "pp=3,tp=2,cp=2,microbatch=2,sequence=on,context=gather", 0 },
	{ "experts", EXPERTS ADAM("4"), "pp=2,ep=2,dp=2,microbatch=1,"
	  "stages=1+4", 0 },
	{ "experts, gpipe", EXPERTS SGD("4"), "pp=2,ep=2,tp=2,microbatch=1,"
	  "schedule=gpipe,zero=1", 0 },
};
#define NSOURCES (sizeof sources / sizeof sources[0])

/* ---- kinds ---- */

#define NODE(f) { #f, f, NULL, NULL }
#define FUNC(f) { #f, NULL, f, NULL }
#define PLACE(f) { #f, NULL, NULL, f }

static const struct mutation kinds[] = {
	NODE(drop_collective), NODE(drop_collective_and_lie),
	NODE(swap_collectives), NODE(other_on), NODE(no_on),
	NODE(wait_for_pipes), PLACE(axis_sizes_swapped), PLACE(axes_swapped),
	PLACE(axis_size), PLACE(axis_balanced), FUNC(axis_forgotten),
	PLACE(axis_forgotten_everywhere), PLACE(axis_forgotten_in_stages),
	FUNC(axes_exchanged), FUNC(cuts_turned), NODE(source_whole),
	NODE(source_cut), NODE(source_part), NODE(source_moved),
	NODE(source_lies), NODE(recv_otherwise), NODE(saved_otherwise),
	NODE(input_otherwise), NODE(gradient_otherwise),
	NODE(weight_otherwise), NODE(state_otherwise),
	NODE(starts_otherwise), NODE(start_later), NODE(start_earlier),
	NODE(one_trip_more), NODE(one_trip_less), NODE(turned_round),
	PLACE(layer_twice), PLACE(layer_left_out), PLACE(layers_shifted),
	PLACE(layer_moved), NODE(drop_send), NODE(copy_send),
	NODE(rename_send), NODE(other_send), NODE(drop_transfer),
	NODE(drop_recv),
	NODE(copy_recv), NODE(rename_recv), NODE(other_recv), NODE(peer_up),
	NODE(peer_down), NODE(renamed_at_both_ends), NODE(drop_save),
	NODE(copy_save), NODE(rename_save), NODE(other_save),
	NODE(drop_saved), NODE(copy_saved), NODE(rename_saved),
	NODE(other_saved), NODE(save_of_one_trip), NODE(save_late),
	NODE(saved_early), NODE(drop_accumulate), NODE(copy_accumulate),
	NODE(rename_accumulate), NODE(other_accumulate),
	NODE(accumulate_weight), NODE(drop_gradient), NODE(copy_gradient),
	NODE(rename_gradient), NODE(other_gradient), NODE(drop_store),
	NODE(copy_store), NODE(rename_store), NODE(other_store),
	NODE(store_another), NODE(copy_weight),
	NODE(rename_weight), NODE(drop_share), PLACE(drop_all_shares),
	NODE(rename_share), NODE(other_share), NODE(swap_shares),
	NODE(put_share), NODE(past_share), NODE(pipes_not_added),
	NODE(read_early),
	NODE(counted_by_two), FUNC(empty_function), FUNC(rename_function),
	FUNC(swap_functions), FUNC(no_result), PLACE(swap_actions),
	PLACE(drop_action), PLACE(action_twice),
	PLACE(action_of_another_rank), PLACE(stages_swapped),
	PLACE(plan_number),
};
#define NKINDS (sizeof kinds / sizeof kinds[0])

enum verdict { NOT_THERE, BY_VERIFY, BY_CHECK, EQUIVALENT, MISSED };

static uint32_t tally[NKINDS][MISSED + 1];

/* ---- the sound program ---- */

struct subject {
	struct ir_ctx c;
	const struct source *of;
	struct eval_steps *course;
	const struct sched *s;
	struct ir_module *ranks;	/* their programs */
};

static void
tell(struct ir_ctx *c, const char *what)
{
	diag_flush(&c->diags, stderr);
	fprintf(stderr, "%s\n", what);
}

static struct ir_module *
compile(struct ir_ctx *c, const char *text)
{
	uint32_t base;
	struct ir_module *m;

	assert_true(source_add(&c->sources, "model", text, strlen(text),
			       &base));
	m = fe_compile(c, c->sources.files.n - 1);
	if (!m) {
		tell(c, text);
		fail();
	}
	return m;
}

/* Prices that say nothing: any legal placement may come out. */
static void
shuffle(struct ir_ctx *c, struct ir_module *m, int seed)
{
	struct ir_setting s = { .kind = SET_NUM, .n = 1 };

	s.key = intern_str(&c->syms, "place.shuffle");
	s.num[0] = seed;
	if (seed > 0) {
		VEC_PUSH(&c->perm, &m->settings, s);
	}
}

/* False: there is no such program, as the plan does not fit the model. */
static bool
open_subject(struct subject *b, const struct source *of)
{
	struct ir_eval_options eval = { .seed = 7 };
	struct ir_module *whole, *m;
	struct plan plan;
	struct buf text;
	uint32_t base;

	memset(b, 0, sizeof *b);
	b->of = of;
	ir_ctx_init(&b->c, NULL);
	whole = compile(&b->c, of->model);
	m = compile(&b->c, of->model);
	shuffle(&b->c, m, of->shuffle);
	if (pass_apply(whole, "train", false) != PASS_OK ||
	    !plan_pin(m, of->plan) ||
	    !plan_read(m, &plan) ||
	    !(b->s = plan_schedule(m, &plan, &b->c.perm)) ||
	    pass_apply(m, "split", false) != PASS_OK) {
		return false;
	}
	b->course = eval_steps_run(whole, &eval, STEPS);
	assert_non_null(b->course);
	buf_init(&text, &b->c.perm);
	ir_print(m, &text);
	/* Anew, with what the programs reach alone. */
	assert_true(source_add(&b->c.sources, "ranks", buf_text(&text), text.n,
			       &base));
	b->ranks = ir_read(&b->c, b->c.sources.files.n - 1);
	assert_non_null(b->ranks);
	return true;
}

/* ---- one broken program ---- */

static struct sched *
copy_schedule(struct arena *a, const struct sched *s)
{
	struct sched *t = sched_new(a, s->nranks, s->nstages,
				    s->nmicrobatches);
	uint32_t i, k;

	memcpy(t->rank_of, s->rank_of, s->nstages * sizeof *t->rank_of);
	for (i = 0; i < s->nranks; i++) {
		for (k = 0; k < s->ranks[i].actions.n; k++) {
			sched_add(a, t, i, s->ranks[i].actions.at[k]);
		}
	}
	return t;
}

struct run {
	const struct subject *b;
	struct eval_worst worst;
};

static bool
after(void *user, const struct sim_result *result)
{
	struct run *r = user;

	eval_steps_compare(r->b->course, result, &r->worst);
	return r->worst.off <= CLOSE;
}

/* What check accepts does what the model does. */
static bool
is_equivalent(const struct subject *b, struct mutant *k)
{
	struct run r = { .b = b };
	struct sim_options o = { .seed = 7, .steps = STEPS, .after = after,
				 .user = &r };
	struct sim_result result;
	struct ranks ranks;
	const char *why;

	return ranks_open(&ranks, k->m, k->s, NULL, &why) &&
	       sim_run(&ranks, &o, &result) && r.worst.off <= CLOSE;
}

static bool
mutate(struct mutant *k, const struct mutation *kind, uint32_t place)
{
	uint32_t nfuncs = k->m->funcs.n - 1;

	if (kind->at_place) {
		return kind->at_place(k, place);
	}
	if (kind->at_func) {
		return kind->at_func(k, 1 + place % nfuncs, place / nfuncs);
	}
	return kind->at_node(k, &k->sites.at[place]);
}

/* How many places there may be. */
static uint32_t
count_places(const struct mutant *k, const struct mutation *kind)
{
	return kind->at_place ? 72 : kind->at_func ? 72 * (k->m->funcs.n - 1)
						   : k->sites.n;
}

static enum verdict
judge(const struct subject *b, struct mutant *k)
{
	struct ir_ctx *c = k->m->ctx;

	if (!ir_verify(k->m)) {
		return c->diags.errors ? BY_VERIFY : MISSED;
	}
	if (!check_ranks(k->m, k->s)) {
		return c->diags.errors ? BY_CHECK : MISSED;
	}
	return is_equivalent(b, k) ? EQUIVALENT : MISSED;
}

static void
open_mutant(struct mutant *k, struct ir_ctx *c, const struct subject *b)
{
	func_id f;

	memset(k, 0, sizeof *k);
	ir_ctx_child(c, &b->c);
	k->m = ir_copy(b->ranks, c);
	k->s = copy_schedule(&c->perm, b->s);
	for (f = 1; f < k->m->funcs.n; f++) {
		find_sites(k, f, k->m->funcs.at[f].body);
	}
}

static void
say_missed(const struct subject *b, const struct mutant *k, uint32_t kind,
	   uint32_t place)
{
	struct buf text;

	fprintf(stderr, "%s at %u of `%s` is not found:\n", kinds[kind].name,
		place, b->of->name);
	if (kinds[kind].at_node) {
		const struct site *x = &k->sites.at[place];
		const struct ir_attr *name = attr_of((struct mutant *)k,
						     x->node, IR_ATTR_NAME);

		fprintf(stderr, "%s: %s %s\n", ir_text(k->m->ctx,
			k->m->funcs.at[x->func].name),
			ir_ops[node_at(k, x)->op].name,
			name ? ir_text(k->m->ctx, name->text) : "");
	}
	tell(k->m->ctx, b->of->plan);
	if (getenv("CHECK_TELL")) {
		buf_init(&text, &k->m->ctx->perm);
		ir_print(k->m, &text);
		fputs(buf_text(&text), stderr);
	}
}

/* So many places of one kind, spread over all that there are. */
static void
damage(const struct subject *b, uint32_t kind, uint32_t places)
{
	struct mutant k;
	struct ir_ctx c;
	uint32_t i, most, place, done = 0;
	enum verdict v;

	open_mutant(&k, &c, b);
	most = count_places(&k, &kinds[kind]);
	for (i = 0; i < most && done < places; i++) {
		place = (uint32_t)((i * (uint64_t)1000003 + 17) % most);
		if (!mutate(&k, &kinds[kind], place)) {
			continue;	/* and left it as it was */
		}
		v = judge(b, &k);
		if (v == MISSED) {
			say_missed(b, &k, kind, place);
		}
		tally[kind][v]++;
		done++;
		ir_ctx_release(&c);
		open_mutant(&k, &c, b);
	}
	ir_ctx_release(&c);
}

static void
print_tally(void)
{
	uint32_t k, v, n, all = 0, sum[MISSED + 1] = { 0 };

	printf("%-28s %6s %7s %6s %11s %7s\n", "damage", "places", "verify",
	       "check", "equivalent", "missed");
	for (k = 0; k < NKINDS; k++) {
		for (n = 0, v = BY_VERIFY; v <= MISSED; v++) {
			n += tally[k][v];
			sum[v] += tally[k][v];
		}
		all += n;
		printf("%-28s %6u %7u %6u %11u %7u\n", kinds[k].name, n,
		       tally[k][BY_VERIFY], tally[k][BY_CHECK],
		       tally[k][EQUIVALENT], tally[k][MISSED]);
	}
	printf("%-28s %6u %7u %6u %11u %7u\n", "all", all, sum[BY_VERIFY],
	       sum[BY_CHECK], sum[EQUIVALENT], sum[MISSED]);
}

static uint32_t
from_env(const char *name, uint32_t absent)
{
	const char *s = getenv(name);

	return s && *s ? (uint32_t)atoi(s) : absent;
}

static bool
damage_all(const struct source *of)
{
	uint32_t places = from_env("CHECK_PLACES", PLACES), k;
	struct subject b;
	bool ok = open_subject(&b, of);

	for (k = 0; k < NKINDS && ok; k++) {
		damage(&b, k, places);
	}
	ir_ctx_release(&b.c);
	return ok;
}

static struct source
random_source(struct arena *a, uint32_t seed)
{
	struct pair p = random_pair(seed);
	struct source of = { "random", model_text(a, &p), plan_text(a, &p),
			     p.n[NR_SHUFFLE] };

	return of;
}

static void
test_damage(void **state)
{
	uint32_t more = from_env("CHECK_RANDOM", 0), i, k;
	uint32_t seed = from_env("CHECK_SEED", SEED);
	uint32_t missed = 0, tried = 0;
	struct ir_ctx c;

	(void)state;
	for (i = 0; i < NSOURCES; i++) {
		assert_true(damage_all(&sources[i]));
	}
	ir_ctx_init(&c, NULL);
	for (i = 0; i < more; i++) {
		struct source of = random_source(&c.perm, seed + i);

		damage_all(&of);
	}
	ir_ctx_release(&c);
	print_tally();
	for (k = 0; k < NKINDS; k++) {
		missed += tally[k][MISSED];
		tried += tally[k][BY_CHECK] > 0;
	}
	assert_int_equal(missed, 0);
	assert_true(tried >= 40);
}

/* ---- orders ---- */

/* Ranks that wait in their receives alone. */
struct race {
	struct check *c;
	bool *sent;		/* by use and microbatch */
};

static bool
is_peer(const struct check *c, const struct check_use *u)
{
	enum ir_op op = check_node(c, u)->op;

	return ir_is(op, IRF_PEER) && ir_is(op, IRF_SOURCE | IRF_SINK);
}

/* The send of a receive. */
static uint32_t
sender_of(const struct check *c, const struct check_use *u)
{
	int64_t from = ir_attr_int(c->m, check_node(c, u), IR_ATTR_STAGE, 0);
	uint32_t here = check_fn_of(c, u)->stage, i;

	for (i = 0; i < c->uses.n; i++) {
		const struct check_use *x = &c->uses.at[i];

		if (x->key == u->key && is_peer(c, x) &&
		    ir_is(check_node(c, x)->op, IRF_SINK) &&
		    check_fn_of(c, x)->stage == from &&
		    ir_attr_int(c->m, check_node(c, x), IR_ATTR_STAGE, 0) ==
		    here) {
			return i;
		}
	}
	fail_msg("nobody sends it");
	return 0;
}

/* False: it waits; what it has sent till then, it has. */
static bool
run_phase(struct race *r, enum check_phase phase, const struct sched_action *x)
{
	const struct check *c = r->c;
	const struct check_fn *f = &c->fns[phase * c->nstages + x->stage];
	size_t n = c->s->nmicrobatches;
	uint32_t i;

	for (i = f->first; i < f->first + f->n; i++) {
		const struct check_use *u = &c->uses.at[i];

		if (!is_peer(c, u)) {
			continue;
		}
		if (ir_is(check_node(c, u)->op, IRF_SINK)) {
			r->sent[i * n + x->microbatch] = true;
		} else if (!r->sent[sender_of(c, u) * n + x->microbatch]) {
			return false;
		}
	}
	return true;
}

static bool
run_action(struct race *r, const struct sched_action *x)
{
	uint8_t does = sched_kinds[x->kind].does;

	return (!(does & SCHED_FORWARD) || run_phase(r, CHECK_FORWARD, x)) &&
	       (!(does & SCHED_INPUT) || run_phase(r, CHECK_BACKWARD, x)) &&
	       (!(does & SCHED_WEIGHTS) || run_phase(r, CHECK_WEIGHTS, x));
}

static bool
all_end(struct race *r)
{
	const struct sched *s = r->c->s;
	uint32_t *at = arena_alloc(r->c->a, s->nranks * sizeof *at), i;
	bool moves = true, ends = true;

	r->sent = arena_alloc(r->c->a, (size_t)(r->c->uses.n + 1) *
			      s->nmicrobatches);
	while (moves) {
		moves = false;
		for (i = 0; i < s->nranks; i++) {
			const struct sched_list *l = &s->ranks[i];

			while (at[i] < l->actions.n &&
			       run_action(r, &l->actions.at[at[i]])) {
				at[i]++;
				moves = true;
			}
		}
	}
	for (i = 0; i < s->nranks; i++) {
		ends &= at[i] == s->ranks[i].actions.n;
	}
	return ends;
}

/* Of programs whose transfers are in pairs. */
static bool
comes_to_an_end(struct mutant *k)
{
	struct check c = { .m = k->m, .a = &k->m->ctx->tmp, .s = k->s };
	struct race r = { .c = &c };

	c.nstages = k->s->nstages;
	c.npipes = k->s->nranks;
	assert_true(check_facts(&c));
	check_comm(&c);
	assert_int_equal(k->m->ctx->diags.errors, 0);
	return all_end(&r);
}

/*
 * What the functions wait for is what their actions need, but that a stage's
 * own need not be waited for: so under an order that the schedule's checker
 * finds sound all ranks come to their end.
 */
static void
test_order(void **state)
{
	uint32_t i, at, stalls = 0, fine = 0;

	(void)state;
	for (i = 0; i < NSOURCES; i++) {
		struct subject b;

		assert_true(open_subject(&b, &sources[i]));
		for (at = 0; at < 40; at++) {
			struct sched_verdict v;
			struct mutant k;
			struct ir_ctx c;

			open_mutant(&k, &c, &b);
			if (swap_actions(&k, at)) {
				bool sound = sched_check(&c.perm, k.s, &v);
				bool ends = comes_to_an_end(&k);

				assert_true(ends || !sound);
				assert_true(check_ranks(k.m, k.s) == sound);
				stalls += !ends;
				fine += ends;
			}
			ir_ctx_release(&c);
		}
		ir_ctx_release(&b.c);
	}
	printf("%u orders stall, %u do not\n", stalls, fine);
	assert_true(stalls > 0 && fine > 0);
}

/* ---- sound programs ---- */

/* What can be placed and cut is accepted. */
static void
test_no_false_alarm(void **state)
{
	uint32_t want = from_env("CHECK_PAIRS", PAIRS), accepted = 0;
	uint32_t first = from_env("CHECK_SEED", SEED), seed;

	(void)state;
	for (seed = first; accepted < want; seed++) {
		struct ir_module *m;
		struct source of;
		struct ir_ctx c;
		struct plan plan;

		ir_ctx_init(&c, NULL);
		of = random_source(&c.perm, seed);
		m = compile(&c, of.model);
		shuffle(&c, m, of.shuffle);
		if (plan_pin(m, of.plan) && plan_read(m, &plan) &&
		    plan_schedule(m, &plan, &c.perm) &&
		    pass_apply(m, "train,place,stage", false) == PASS_OK) {
			if (pass_apply(m, "check", false) != PASS_OK) {
				tell(&c, of.model);
				tell(&c, of.plan);
				fail_msg("seed %u", seed);
			}
			accepted++;
		}
		ir_ctx_release(&c);
	}
	printf("%u programs of %u pairs are accepted\n", accepted,
	       seed - first);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_false_alarm),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}

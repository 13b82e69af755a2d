/*
 * Rank programs: run one after the other they are the training program that
 * they were cut from, and each send, save, iteration and tensor is where
 * docs/ranks.md says.
 *
 * To run them, the functions of all stages are joined to one model in the
 * order forward up, backward down, with each send a save and each recv its
 * saved, and the updates of all ranks to one `update`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "frontend/eval/eval.h"
#include "frontend/frontend.h"
#include "passes/plan/plan.h"
#include "passes/sched/sched.h"
#include "passes/stage/ranks.h"
#include "tests/unit/shared/t-cases.h"
#include "tests/unit/shared/t-context.h"

#define STEPS 3

static void
must(bool holds, const char *what)
{
	if (!holds) {
		diag_flush(&ctx.diags, stderr);
		fail_msg("%s", what);
	}
}

/* ---- models ---- */

#define HEAD "model m { dim batch = 2, seq = 3, hidden = 4, ffn = 6, " \
	"heads = 2, hd = 2, vocab = 5; dtype f32;\n" \
	"layer thin(x[batch, seq, hidden]) {\n" \
	"  f = silu(linear(rmsnorm(x) @ \"n\" -> ffn) @ \"u\");\n" \
	"  return x + linear(f -> hidden) @ \"d\"; }\n" \
	"layer block(x[batch, seq, hidden]) {\n" \
	"  q = linear(rmsnorm(x) @ \"a\" -> heads, hd) @ \"q\";\n" \
	"  x = x + linear(attention(q, q, q, causal) -> hidden) @ \"o\";\n" \
	"  return thin(x); }\n"
#define EMBED "x = embed(tokens, vocab -> hidden) @ \"e\";\n"
#define BLOCKS "repeat %d as i { x = block(x) @ \"h.{i}\"; }\n"
#define ADAM "optimizer = adamw(lr = 0.01, weight_decay = 0.1); }\n"
#define LOSS "loss = cross_entropy(linear(x -> vocab) @ \"head\", labels); }\n"
#define TIED "loss = cross_entropy(linear(x -> vocab, tied = \"e\"), labels" \
	"); }\n"

struct model {
	const char *name, *text;	/* a %d is the layers */
	bool inexact;		/* a sum is added up in another order */
};

static const struct model models[] = {
	{ "dense", HEAD EMBED BLOCKS "x = rmsnorm(x) @ \"f\";\n" LOSS
	  "train { batch = 2; clip = 0.01; " ADAM, false },
	{ "tied", HEAD EMBED BLOCKS TIED "train { batch = 2; clip = 0.01; "
	  "optimizer = sgd(lr = 0.1, momentum = 0.9); }\n", true },
	{ "recompute full", HEAD "recompute full;\n" EMBED BLOCKS LOSS
	  "train { batch = 2; " ADAM, false },
	{ "recompute attention", HEAD "recompute attention;\n" EMBED BLOCKS
	  TIED "train { batch = 2; clip = 0.01; " ADAM, true },
	/* a value used by all iterations of the second, and one by the end */
	{ "two repeats", HEAD EMBED "y = x;\n"
	  "repeat 3 as i { x = block(x) @ \"h.{i}\"; }\n"
	  "z = rmsnorm(x) @ \"mid\";\n"
	  "repeat %d as i { z = thin(z) @ \"g.{i}\" * y; }\n"
	  "x = z + x;\n" TIED "train { batch = 2; clip = 0.01; " ADAM, true },
	/* no saves in the first, whose gradient only passes through */
	{ "sums", HEAD EMBED
	  "repeat %d as i { x = x + weight(hidden) @ \"b.{i}\"; }\n"
	  "repeat 2 as i { x = thin(x) @ \"h.{i}\"; }\n" LOSS
	  "train { batch = 2; clip = 0.01; " ADAM, false },
	/* repeats in repeats */
	{ "nested", HEAD EMBED "repeat %d as i {\n"
	  "repeat 2 as j { x = thin(x) @ \"h.{i}.{j}\"; } }\n" LOSS
	  "train { batch = 2; clip = 0.01; " ADAM, false },
	/* one weight outside of the repeat, used in all of its iterations */
	{ "shared", HEAD EMBED "w = weight(hidden) @ \"w\";\n"
	  "repeat %d as i { x = thin(x * w) @ \"h.{i}\"; }\n" LOSS
	  "train { batch = 2; clip = 0.01; " ADAM, true },
};

#define NMODELS (sizeof models / sizeof *models)

static struct ir_module *
compile(const char *text)
{
	struct ir_module *m;
	uint32_t base;

	assert_true(source_add(&ctx.sources, "test", text, strlen(text),
			       &base));
	m = fe_compile(&ctx, ctx.sources.files.n - 1);
	must(m != NULL, text);
	return m;
}

/* The training program, and the rank programs of it. */
struct pair {
	struct ir_module *whole, *cut;
	struct plan plan;
	uint32_t *rank_of;
};

static void
make_pair(struct pair *p, const char *text, const char *pins)
{
	const char *why;

	p->whole = compile(text);
	must(pass_apply(p->whole, "train", true) == PASS_OK, text);
	p->cut = compile(text);
	must(plan_pin(p->cut, pins) && plan_read(p->cut, &p->plan), pins);
	p->rank_of = sched_make(&ctx.perm, p->plan.schedule,
				(uint32_t)p->plan.pp,
				(uint32_t)p->plan.interleave, 1, &why)
		->rank_of;
	must(pass_apply(p->cut, "train,stage", true) == PASS_OK, pins);
}

static const char *
name_of(const struct ir_module *m, const struct ir_node *n)
{
	return ir_text(m->ctx, ir_attr(m, n, IR_ATTR_NAME)->text);
}

/* The stage of a function, or -1; its pipeline rank of an update. */
static int
stage_of(const struct ir_module *m, func_id f)
{
	const char *name = ir_text(m->ctx, m->funcs.at[f].name);

	return strncmp(name, "stage", 5) == 0 ? atoi(name + 5) : -1;
}

static int
pipe_of(const struct ir_module *m, func_id f)
{
	const char *name = ir_text(m->ctx, m->funcs.at[f].name);

	return strncmp(name, "pipe", 4) == 0 ? atoi(name + 4) : -1;
}

static bool
is_forward(const struct ir_module *m, func_id f)
{
	return strstr(ir_text(m->ctx, m->funcs.at[f].name), "forward") != NULL;
}

/* ---- lists of texts ---- */

struct texts {
	VEC(const char *) at;
};

static void
add(struct texts *t, const char *text)
{
	VEC_PUSH(&ctx.perm, &t->at, text);
}

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void
sort(struct texts *t, bool unique)
{
	uint32_t i, n = 0;

	qsort(t->at.at, t->at.n, sizeof *t->at.at, by_text);
	for (i = 0; i < t->at.n; i++) {
		if (!unique || n == 0 ||
		    strcmp(t->at.at[n - 1], t->at.at[i]) != 0) {
			t->at.at[n++] = t->at.at[i];
		}
	}
	t->at.n = n;
}

static void
same(struct texts *a, struct texts *b, bool unique, const char *what)
{
	uint32_t i;

	if (!a->at.n && !b->at.n) {
		return;
	}
	sort(a, unique);
	sort(b, unique);
	for (i = 0; i < a->at.n && i < b->at.n; i++) {
		if (strcmp(a->at.at[i], b->at.at[i]) != 0) {
			fail_msg("%s: %s, and %s is expected", what,
				 b->at.at[i], a->at.at[i]);
		}
	}
	if (a->at.n != b->at.n) {
		fail_msg("%s: %u, and %u are expected", what, b->at.n,
			 a->at.n);
	}
}

/*
 * Calls see for each node and iteration of it; {i} of names is the iteration.
 */
typedef void see_fn(void *user, const struct ir_module *m,
		    const struct ir_node *n, const char *name);

static void
walk(const struct ir_module *m, region_id id, const char *const *var,
     const int64_t *iter, uint32_t depth, see_fn *see, void *user)
{
	const struct ir_region *r = &m->regions.at[id];
	const char *vars[4];
	int64_t iters[4];
	uint32_t i, k;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);
		const struct ir_attr *a = ir_attr(m, n, IR_ATTR_NAME);
		int64_t t, from = ir_attr_int(m, n, IR_ATTR_START, 0);
		const char *name = a ? ir_text(m->ctx, a->text) : "";

		for (k = depth; k-- > 0;) {
			name = pass_rename(&ctx.perm, name, var[k],
				arena_printf(&ctx.perm, "%d", (int)iter[k]));
		}
		see(user, m, n, name);
		if (!n->region) {
			continue;
		}
		memcpy(vars, var, depth * sizeof *vars);
		memcpy(iters, iter, depth * sizeof *iters);
		vars[depth] = ir_text(m->ctx, ir_attr(m, n,
						      IR_ATTR_VAR)->text);
		for (t = 0; t < ir_attr_int(m, n, IR_ATTR_COUNT, 1); t++) {
			iters[depth] = from + t;
			walk(m, n->region, vars, iters, depth + 1, see, user);
		}
	}
}

static void
each(const struct ir_module *m, func_id f, see_fn *see, void *user)
{
	const char *var[1] = { "" };
	int64_t iter[1] = { 0 };

	walk(m, m->funcs.at[f].body, var, iter, 0, see, user);
}

/* ---- the structure ---- */

static void
see_crossing(void *user, const struct ir_module *m, const struct ir_node *n,
	     const char *name)
{
	struct texts *t = user;	/* of this function: out, in */
	bool sink = ir_is(n->op, IRF_SINK);
	value_id v = sink ? ir_args(m, n)[0] : n->result;

	if (ir_is(n->op, IRF_STASH) ||
	    (ir_is(n->op, IRF_PEER) && n->op != IR_SHARE)) {
		add(&t[!sink], arena_printf(&ctx.perm, "%s %s %d %s",
			ir_is(n->op, IRF_STASH) ? "save" : "send", name,
			(int)ir_attr_int(m, n, IR_ATTR_STAGE, 0),
			ir_type_text(m, ir_type(m, v))));
	}
}

/* Texts of one function's crossings, with who is on either side. */
static void
place(struct texts *to, const struct texts *from, int here, bool forward,
      bool in)
{
	uint32_t i;

	for (i = 0; i < from->at.n; i++) {
		const char *text = from->at.at[i];
		char kind[8], name[300];
		int stage, at;

		assert_int_equal(sscanf(text, "%7s %299s %d%n", kind, name,
					&stage, &at), 3);
		if (strcmp(kind, "save") == 0) {
			add(to, arena_printf(&ctx.perm, "save %d %s%s", here,
					     name, text + at));
			continue;
		}
		assert_true(in == forward ? stage < here : stage > here);
		add(to, arena_printf(&ctx.perm, "%s %d %d %s%s", kind,
				     in ? stage : here, in ? here : stage,
				     name, text + at));
	}
}

/* Each send has its recv, each save its saved: name, type, peers. */
static void
check_crossings(const struct pair *p)
{
	struct texts out = { 0 }, in = { 0 };
	func_id f;

	for (f = 1; f < p->cut->funcs.n; f++) {
		struct texts here[2];
		int stage = stage_of(p->cut, f);
		bool forward = is_forward(p->cut, f);

		memset(here, 0, sizeof here);
		each(p->cut, f, see_crossing, here);
		stage = stage < 0 ? 1000000 + pipe_of(p->cut, f) : stage;
		place(&out, &here[0], stage, forward, false);
		place(&in, &here[1], stage, forward, true);
	}
	same(&out, &in, false, "what is taken");
	sort(&out, true);
	assert_int_equal(out.at.n, in.at.n);	/* no name twice */
}

/* What is too dear to be done twice, and no sum that comes apart. */
static void
see_work(void *user, const struct ir_module *m, const struct ir_node *n,
	 const char *name)
{
	uint32_t work = IRF_CONTRACTS | IRF_INDEXED | IRF_ROWWISE;

	(void)name;
	if (ir_is(n->op, work) && n->op != IR_SUM) {
		add(user, arena_printf(&ctx.perm, "%s %s", ir_ops[n->op].name,
				       ir_type_text(m, ir_type(m, n->result)
						    )));
	} else if (n->op == IR_SILU) {
		add(user, "silu");
	}
}

static void
see_accumulate(void *user, const struct ir_module *m,
	       const struct ir_node *n, const char *name)
{
	(void)m;
	if (n->op == IR_ACCUMULATE) {
		add(user, name);
	}
}

/* Every node of the model is on one stage, in each of its iterations. */
static void
check_work(const struct pair *p)
{
	struct texts whole = { 0 }, cut = { 0 }, gw = { 0 }, gc = { 0 };
	func_id f;

	each(p->whole, ir_model(p->whole), see_work, &whole);
	each(p->whole, ir_model(p->whole), see_accumulate, &gw);
	for (f = 1; f < p->cut->funcs.n; f++) {
		if (stage_of(p->cut, f) >= 0) {
			each(p->cut, f, see_work, &cut);
			each(p->cut, f, see_accumulate, &gc);
		}
	}
	same(&whole, &cut, false, "the nodes of all stages");
	same(&gw, &gc, true, "the gradients of all stages");
}

struct tensors {
	struct texts *texts;
	int rank;
	enum ir_op op[2];
};

static void
see_tensor(void *user, const struct ir_module *m, const struct ir_node *n,
	   const char *name)
{
	struct tensors *t = user;

	(void)m;
	if (n->op == t->op[0] || n->op == t->op[1]) {
		add(t->texts, arena_printf(&ctx.perm, "%s on %d", name,
					   t->rank));
	}
}

/* Who stores a weight is who uses it; with others, whoever shares it. */
static void
check_updates(const struct pair *p)
{
	struct texts used = { 0 }, all = { 0 }, stored = { 0 };
	struct texts weights = { 0 };
	func_id f;
	uint32_t i, j;

	for (f = 1; f < p->cut->funcs.n; f++) {
		int stage = stage_of(p->cut, f);
		struct tensors t = { &used, stage < 0 ? 0
			: (int)p->rank_of[stage], { IR_WEIGHT,
			IR_ACCUMULATE } };

		if (stage >= 0) {
			each(p->cut, f, see_tensor, &t);
			continue;
		}
		t = (struct tensors){ &all, pipe_of(p->cut, f),
				      { IR_STORE, IR_STORE } };
		each(p->cut, f, see_tensor, &t);
		t = (struct tensors){ &weights, pipe_of(p->cut, f),
				      { IR_WEIGHT, IR_WEIGHT } };
		each(p->cut, f, see_tensor, &t);
	}
	sort(&all, false);
	sort(&weights, true);
	for (i = j = 0; i < all.at.n; i++) {	/* not what is kept of one */
		assert_true(i == 0 || strcmp(all.at.at[i - 1],
					     all.at.at[i]) != 0);
		while (j < weights.at.n && strcmp(weights.at.at[j],
						  all.at.at[i]) < 0) {
			j++;
		}
		if (j < weights.at.n && strcmp(weights.at.at[j],
					       all.at.at[i]) == 0) {
			add(&stored, all.at.at[i]);
		}
	}
	same(&used, &stored, true, "weights and where they are stored");
}

static const char *
print(struct ir_module *m)
{
	struct buf b;

	buf_init(&b, &ctx.perm);
	ir_print(m, &b);
	return buf_text(&b);
}

static void
check_text(const struct pair *p)
{
	const char *text = print(p->cut);
	uint32_t base;
	struct ir_module *back;

	assert_true(source_add(&ctx.sources, "ir", text, strlen(text),
			       &base));
	back = ir_read(&ctx, ctx.sources.files.n - 1);
	must(back && ir_verify(back), text);
	assert_string_equal(text, print(back));
}

static void
check_structure(const struct pair *p)
{
	check_text(p);
	check_crossings(p);
	check_work(p);
	check_updates(p);
}

/* ---- running them ---- */

static void
set_name(struct ir_module *m, const struct ir_node *n, const char *text)
{
	m->attrs.at[n->attrs].text = intern_str(&ctx.syms, text);
}

/* A send to a later function is a save that it takes. */
static void
localize(struct ir_module *m, region_id id, int stage, int pipe)
{
	uint32_t i;

	for (i = 0; i < m->regions.at[id].nodes.n; i++) {
		struct ir_node *n = &m->nodes.at[m->regions.at[id].nodes
						 .at[i]];
		int peer = (int)ir_attr_int(m, n, IR_ATTR_STAGE, 0);

		if (n->region) {
			localize(m, n->region, stage, pipe);
		} else if (n->op == IR_SEND || n->op == IR_RECV) {
			bool send = n->op == IR_SEND;

			set_name(m, n, arena_printf(&ctx.perm, "%d.%d.%s",
				 send ? stage : peer, send ? peer : stage,
				 name_of(m, n)));
			n->op = send ? IR_SAVE : IR_SAVED;
			n->nattrs = 1;
		} else if (pipe >= 0 && ir_is(n->op, IRF_STASH)) {
			set_name(m, n, arena_printf(&ctx.perm, "%d.%s", pipe,
						    name_of(m, n)));
		}
	}
}

static func_id
find(struct ir_module *m, const char *stem, int k, const char *what)
{
	return ir_func_find(m, intern_str(&ctx.syms,
		arena_printf(&ctx.perm, "%s%d_%s", stem, k, what)));
}

/* Moves nodes of a function to the end of another region. */
static void
move(struct ir_module *m, region_id to, func_id f, bool from_sum,
     bool to_sum)
{
	const struct ir_region *r = &m->regions.at[m->funcs.at[f].body];
	uint32_t i, cut = 0;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		if (n->op == IR_ALL_REDUCE) {
			cut = i - 1;
		}
	}
	for (i = from_sum ? cut : 0; i < (to_sum ? cut : r->nodes.n); i++) {
		VEC_PUSH(&ctx.perm, &m->regions.at[to].nodes, r->nodes.at[i]);
	}
}

/* The functions of all ranks as a model and its update. */
static void
join(const struct pair *p)
{
	static const char *const back[] = { "backward", "input", "weights" };
	struct ir_module *m = p->cut;
	int s, k, last = (int)p->plan.nstages - 1;
	uint32_t nfuncs = m->funcs.n;
	func_id f, model, update;
	region_id r;
	bool *live;

	for (f = 1; f < nfuncs; f++) {
		localize(m, m->funcs.at[f].body, stage_of(m, f),
			 pipe_of(m, f));
	}
	update = ir_func_add(m, intern_str(&ctx.syms, "update"), false,
			     (struct span){ 0, 0 });
	r = m->funcs.at[update].body;
	for (s = 0; s < (int)p->plan.pp; s++) {
		move(m, r, find(m, "pipe", s, "update"), false, true);
	}
	for (s = 0; s < (int)p->plan.pp; s++) {
		move(m, r, find(m, "pipe", s, "update"), true, false);
	}
	model = ir_func_add(m, 0, true, (struct span){ 0, 0 });
	r = m->funcs.at[model].body;
	for (s = 0; s <= last; s++) {
		move(m, r, find(m, "stage", s, "forward"), false, false);
	}
	for (s = last; s >= 0; s--) {
		for (k = 0; k < 3; k++) {
			if (find(m, "stage", s, back[k])) {
				move(m, r, find(m, "stage", s, back[k]),
				     false, false);
			}
		}
	}
	VEC_PUSH(&ctx.perm, &m->regions.at[r].results, m->regions.at[m->funcs
		 .at[find(m, "stage", last, "forward")].body].results.at[0]);
	live = arena_alloc(&ctx.perm, m->funcs.n * sizeof *live);
	live[update] = live[model] = true;
	pass_drop_funcs(m, live);
}

static void
step(struct ir_module *m, struct eval_store *store, int t, double *loss)
{
	struct ir_eval_options opt = { .seed = 7 };
	struct ir_eval_result r[1];
	uint32_t n;

	opt.weights = eval_store_source(store);
	eval_store_begin(store, t);
	must(ir_eval(m, &opt, r, 1, &n), "it does not run");
	*loss = r[0].data[0];
	must(eval_store_end(store, &opt), "its update does not run");
}

static void
check_run(struct pair *p, bool inexact, const char *what)
{
	struct eval_store *a, *b;
	double x, y;
	int t;

	join(p);
	must(ir_verify(p->cut), what);
	a = eval_store_open(p->whole, NULL);
	b = eval_store_open(p->cut, NULL);
	for (t = 1; t <= STEPS; t++) {
		step(p->whole, a, t, &x);
		step(p->cut, b, t, &y);
		if (!(fabs(x - y) <= (inexact ? 1e-6 * fabs(x) : 0))) {
			fail_msg("%s: loss %.17g in step %d, and %.17g is "
				 "expected", what, y, t, x);
		}
	}
}

/* ---- tests ---- */

static void
check(const struct model *model, int layers, const char *pins)
{
	struct pair p;
	char text[2000];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(text, sizeof text, model->text, layers);
#pragma GCC diagnostic pop
	make_pair(&p, text, pins);
	check_structure(&p);
	check_run(&p, model->inexact, arena_printf(&ctx.perm, "%s with %s",
						   model->name, pins));
	ir_ctx_release(&ctx);
	ir_ctx_init(&ctx, NULL);
}

/* All schedules on all models, with as many stages as fit. */
static void
test_schedules(void **state)
{
	uint32_t i, k, pp;

	(void)state;
	for (i = 0; i < NMODELS; i++) {
		for (k = 0; k < sched_ndefs; k++) {
			for (pp = 1; pp <= 4; pp++) {
				uint32_t v = sched_defs[k].min_chunks;

				if (pp * v <= 4 && (pp > 1 || v == 1)) {
					check(&models[i], 4, arena_printf(
						&ctx.perm, "pp=%u,interleave="
						"%u,schedule=%s", pp, v,
						sched_defs[k].name));
				}
			}
		}
	}
}

static void
test_interleaved(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < NMODELS; i++) {
		check(&models[i], 7, "pp=2,interleave=3");
		check(&models[i], 4, "pp=2,interleave=2,schedule=zbv");
	}
}

static uint32_t rng = 1;

static uint32_t
below(uint32_t n)
{
	rng = rng * 1664525 + 1013904223;
	return (rng >> 8) % n;
}

/* Any numbers of layers; the first and the last stage may have none. */
static void
test_uneven(void **state)
{
	static const uint32_t extra[] = { 0, 0, 0, 0, 3, 2, 0, 0 };
	uint32_t rounds = t_cases(150), round;

	(void)state;
	for (round = 0; round < rounds; round++) {
		uint32_t k = below(NMODELS), pp = 1 + below(4), s, n = 0;
		uint32_t v = pp > 1 ? 1 + below(2) : 1, sum = 0;
		const char *list = "", *schedule;

		for (s = 0; s < pp * v; s++) {
			n = below(4) + (s > 0 && s + 1 < pp * v);
			sum += n;
			list = arena_printf(&ctx.perm, "%s%s%u", list,
					    s ? "+" : "", n);
		}
		if (sum <= extra[k]) {
			continue;
		}
		schedule = v > 1 ? below(2) ? "zbv" : "interleaved"
			: below(2) ? "zb_h1" : "1f1b";
		check(&models[k], (int)(sum - extra[k]),
		      arena_printf(&ctx.perm, "pp=%u,interleave=%u,"
				   "schedule=%s,stages=%s", pp, v, schedule,
				   list));
	}
}

static void
test_without_repeats(void **state)
{
	static const struct model none = {
		"flat", HEAD EMBED "x = block(x) @ \"h\";\n" TIED
		"train { batch = 2; clip = 0.01; " ADAM, false
	};

	(void)state;
	check(&none, 0, "pp=1");
	check(&none, 0, "pp=1,schedule=zb_h1");
}

/* What is too large to run still has its books in order. */
static void
test_examples(void **state)
{
	static const char *const files[] = {
		"deepseek-v3", "gpt2-124m", "llama-2-7b", "mixtral-8x7b"
	};
	const char *top = getenv("top_srcdir"), *why;
	size_t i;

	(void)state;
	for (i = 0; i < 2 * sizeof files / sizeof *files; i++) {
		const char *path = arena_printf(&ctx.perm,
			"%s/examples/%s.llm", top ? top : ".", files[i / 2]);
		struct pair p;
		uint32_t file;

		must(source_read(&ctx.sources, path, &file, &why), path);
		make_pair(&p, ctx.sources.files.at[file].text, i % 2
			  ? "pp=4,schedule=zb_h1" : "pp=3,interleave=2");
		check_text(&p);
		check_crossings(&p);
		check_work(&p);
		ir_ctx_release(&ctx);
		ir_ctx_init(&ctx, NULL);
	}
}

static void
refused(const char *text, const char *pins, const char *why)
{
	struct ir_module *m = compile(text);
	uint32_t n = ctx.diags.records.n;
	const char *said;

	must(plan_pin(m, pins), pins);
	assert_int_equal(pass_apply(m, "train,stage", true), PASS_BAD_INPUT);
	assert_true(ctx.diags.records.n > n);
	said = ctx.diags.records.at[n].text;
	if (!strstr(said, why)) {
		fail_msg("found `%s`, and `%s` is expected", said, why);
	}
}

static void
test_refusals(void **state)
{
	static const char text[] = HEAD EMBED
		"repeat 3 as i { x = thin(x) @ \"h.{i}\"; }\n" LOSS
		"train { batch = 2; " ADAM;

	(void)state;
	refused(text, "pp=4", "the model has 3");
	refused(text, "pp=2,stages=1+1", "the stages hold 2 layers");
	refused(text, "pp=2,stages=3+2", "the stages hold 5 layers");
}

/* ---- some stages only ---- */

/* Two programs with the same names, and what of the first is what of both. */
struct likeness {
	const struct ir_module *a, *b;
	uint32_t *value;	/* by value of a: that of b */
	sym_t *name;		/* by name of a save in a: that in b */
};

static bool
same_attr(const struct likeness *x, enum ir_op op, const struct ir_attr *a,
	  const struct ir_attr *b)
{
	sym_t text = a->text;

	if (ir_is(op, IRF_STASH) && a->key == IR_ATTR_NAME) {
		x->name[text] = x->name[text] ? x->name[text] : b->text;
		text = x->name[text];
	}
	return a->key == b->key && a->ndims == b->ndims && a->i == b->i &&
	       num_bits(a->num) == num_bits(b->num) && text == b->text &&
	       memcmp(a->dims, b->dims, a->ndims * sizeof *a->dims) == 0;
}

static bool same_region(const struct likeness *x, region_id a, region_id b);

static bool
same_node(const struct likeness *x, const struct ir_node *a,
	  const struct ir_node *b)
{
	uint32_t i;

	if (a->op != b->op || a->nargs != b->nargs ||
	    a->nattrs != b->nattrs || a->nresults != b->nresults ||
	    !a->region != !b->region) {
		return false;
	}
	for (i = 0; i < a->nargs; i++) {
		if (x->value[ir_args(x->a, a)[i]] != ir_args(x->b, b)[i]) {
			return false;
		}
	}
	for (i = 0; i < a->nattrs; i++) {
		if (!same_attr(x, a->op, &x->a->attrs.at[a->attrs + i],
			       &x->b->attrs.at[b->attrs + i])) {
			return false;
		}
	}
	for (i = 0; i < a->nresults; i++) {
		x->value[a->result + i] = b->result + i;
		if (!ir_type_equal(ir_type(x->a, a->result + i),
				   ir_type(x->b, b->result + i))) {
			return false;
		}
	}
	return !a->region || same_region(x, a->region, b->region);
}

static bool
same_region(const struct likeness *x, region_id a, region_id b)
{
	const struct ir_region *r = &x->a->regions.at[a];
	const struct ir_region *q = &x->b->regions.at[b];
	uint32_t i;

	if (r->nodes.n != q->nodes.n || r->params.n != q->params.n ||
	    r->results.n != q->results.n) {
		return false;
	}
	for (i = 0; i < r->params.n; i++) {
		x->value[r->params.at[i]] = q->params.at[i];
	}
	for (i = 0; i < r->nodes.n; i++) {
		if (!same_node(x, ir_node(x->a, r->nodes.at[i]),
			       ir_node(x->b, q->nodes.at[i]))) {
			return false;
		}
	}
	for (i = 0; i < r->results.n; i++) {
		if (x->value[r->results.at[i]] != q->results.at[i]) {
			return false;
		}
	}
	return true;
}

/* The functions of that stage are those of both, and no other has a node. */
static void
check_some(const struct pair *p, const struct ir_module *some, int stage)
{
	func_id f, g;

	for (f = 1; f < p->cut->funcs.n; f++) {
		struct likeness x = { .a = p->cut, .b = some };

		if (stage_of(p->cut, f) < 0) {
			continue;
		}
		g = ir_func_find(some, p->cut->funcs.at[f].name);
		assert_true(g != 0);
		if (stage_of(p->cut, f) != stage) {
			assert_int_equal(some->regions.at[some->funcs.at[g]
						.body].nodes.n, 0);
			continue;
		}
		x.value = arena_alloc(&ctx.perm, p->cut->values.n *
						 sizeof *x.value);
		x.name = arena_alloc(&ctx.perm, ctx.syms.text.n *
						sizeof *x.name);
		assert_true(p->cut->regions.at[p->cut->funcs.at[f].body]
			    .nodes.n > 0);
		assert_true(same_region(&x, p->cut->funcs.at[f].body,
					some->funcs.at[g].body));
	}
}

static void
check_each(const char *text, const char *pins)
{
	struct pass_stats stats = { .arena = &ctx.perm, .pass = "stage" };
	struct pass_ctx c = { .ctx = &ctx, .stats = &stats };
	struct pair p;
	uint32_t i;

	make_pair(&p, text, pins);
	for (i = 0; i < p.plan.nstages; i++) {
		struct ir_module *m = compile(text);
		bool *only = arena_alloc(&ctx.perm, p.plan.nstages);

		only[i] = true;
		must(plan_pin(m, pins), pins);
		must(pass_apply(m, "train", true) == PASS_OK, pins);
		assert_true(stage_some(&c, m, only));
		check_some(&p, m, (int)i);
	}
}

/*
 * Where only some stages are wanted, their functions are those that all stages
 * have, and those of other stages are empty.
 */
static void
test_some_stages(void **state)
{
	static const char *const pins[] = {
		"pp=3", "pp=3,schedule=zb_h1", "pp=2,interleave=2"
	};
	char text[2048];
	size_t i, k;

	(void)state;
	for (i = 0; i < NMODELS; i++) {
		snprintf(text, sizeof text, models[i].text, 4);
		for (k = 0; k < sizeof pins / sizeof *pins; k++) {
			check_each(text, pins[k]);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_schedules, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_interleaved, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_uneven, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_repeats, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_examples, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_refusals, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_some_stages, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("stage", tests, NULL, NULL);
}

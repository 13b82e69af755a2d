/*
 * A step over a ragged batch with a cache is the forward of the model: random
 * small models under random plans, served a random trace of requests.  All
 * ranks run in one process in float64, and the logits of each position are
 * those of the whole forward to 1e-9, however the positions were cut into steps
 * and wherever their keys lie in the cache.  In a third of the models the cache
 * has latents, of which keys and values are computed.  Where weights or the
 * cache are rounded, the whole forward rounds the same numbers in its own way.
 *
 * RAGGED_PAIRS=N how many, RAGGED_SEED=S from which seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "frontend/frontend.h"
#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "passes/sim/sim.h"
#include "tests/unit/shared/t-cases.h"
#include "tests/unit/shared/t-split.h"

#define PAIRS 320
#define DAYS 8		/* in which make check tries so many */
#define CLOSE 1e-9
/* Of a step: positions, logits, keys; and places of the cache.  The program is
 * split for TOKENS positions, and then may be made one of fewer. */
enum { TOKENS = 5, ROWS = 3, KEYS = 48, SLOTS = 96 };
enum { MOST_SEQS = 6, MOST_SEQ = 7, MOST_STEPS = 200 };

/* A step: its positions in the order of sequences. */
struct served {
	uint32_t n, nkeys, nrows;
	double token[TOKENS], position[TOKENS], slot[TOKENS];
	double first[TOKENS], last[TOKENS], row[ROWS];
	double key[KEYS], key_position[KEYS];
	struct {
		uint32_t sequence, position;
	} wanted[ROWS];
};

struct trace {
	uint64_t state;
	uint32_t nseqs, length, vocab;
	uint32_t tokens, rows;	/* of a step */
	uint32_t token[MOST_SEQS][MOST_SEQ], slot[MOST_SEQS][MOST_SEQ];
	uint32_t done[MOST_SEQS];
	struct served step[MOST_STEPS];
	uint32_t nsteps, at;	/* at: the one that runs */
	/* of the whole forward: [sequence][position][vocab] */
	const double *logits;
	double off;
	uint32_t compared;
	const char *stored;	/* weights; NULL: as declared */
	const char *cache;	/* its type; NULL: as computed */
	bool is_tied;		/* the head is the embedding */
	bool absorbs;		/* attention is to the latents themselves */
	struct ir_module *m;	/* the whole forward */
};

/* ---- the trace ---- */

/* Places in the cache in any order; slot 0 takes what is left over. */
static void
draw_places(struct trace *t)
{
	uint32_t all[SLOTS], n = 0, i, j;

	for (i = 1; i < SLOTS; i++) {
		uint32_t k = draw(&t->state, i);

		all[i - 1] = all[k];
		all[k] = i;
	}
	for (i = 0; i < t->nseqs; i++) {
		for (j = 0; j < t->length; j++) {
			t->token[i][j] = draw(&t->state, t->vocab);
			t->slot[i][j] = all[n++];
		}
	}
}

/* The next `n` positions of a sequence. */
static void
take(struct trace *t, struct served *s, uint32_t q, uint32_t n)
{
	uint32_t base = s->nkeys + draw(&t->state, 3), p, i;
	uint32_t end = t->done[q] + n;

	for (i = 0; i < end; i++) {
		s->key[base + i] = t->slot[q][i];
		s->key_position[base + i] = i;
	}
	s->nkeys = base + end;
	for (p = t->done[q]; p < end; p++, s->n++) {
		s->token[s->n] = t->token[q][p];
		s->position[s->n] = p;
		s->slot[s->n] = t->slot[q][p];
		s->first[s->n] = base;
		s->last[s->n] = base + p;
		if (s->nrows < t->rows && draw(&t->state, 4)) {
			s->wanted[s->nrows].sequence = q;
			s->wanted[s->nrows].position = p;
			s->row[s->nrows++] = s->n;
		}
	}
	t->done[q] = end;
}

static void
draw_trace(struct trace *t)
{
	uint32_t left = t->nseqs * t->length, q, n;

	draw_places(t);
	while (left > 0) {
		struct served *s = &t->step[t->nsteps++];

		for (q = 0; q < t->nseqs; q++) {
			uint32_t most = t->length - t->done[q];

			most = most < t->tokens - s->n ? most
						      : t->tokens - s->n;
			n = draw(&t->state, most + 1);
			if (n == 0 || s->nkeys + 2 + t->done[q] + n > KEYS) {
				continue;
			}
			take(t, s, q, n);
			left -= n;
		}
		t->nsteps -= s->n == 0;
	}
}

/* ---- inputs ---- */

static bool
whole_input(void *user, const char *name, const struct ir_type *type,
	    int64_t elems, double *out)
{
	const struct trace *t = user;
	int64_t i;

	(void)type;
	if (strcmp(name, "tokens") != 0) {
		return false;
	}
	for (i = 0; i < elems; i++) {
		out[i] = t->token[i / t->length][i % t->length];
	}
	return true;
}

static bool
step_input(void *user, const char *name, const struct ir_type *type,
	   int64_t elems, double *out)
{
	const struct trace *t = user;
	const struct served *s = &t->step[t->at];
	const struct {
		const char *name;
		const double *at;
	} all[] = {
		{ "tokens", s->token }, { "position", s->position },
		{ "positions", s->position }, { "slot", s->slot },
		{ "first", s->first }, { "last", s->last },
		{ "key", s->key }, { "key_positions", s->key_position },
		{ "row", s->row }
	};
	size_t i;

	(void)type;
	for (i = 0; i < sizeof all / sizeof *all; i++) {
		if (strcmp(all[i].name, name) == 0) {
			memcpy(out, all[i].at, (size_t)elems * sizeof *out);
			return true;
		}
	}
	return false;
}

/* ---- weights that are stored rounded: matrices, in f8e4m3 of layers ---- */

static double
nearest8(const struct trace *t, double v)
{
	double size = fabs(v), step = 1;

	if (strcmp(t->stored, "f8e4m3") == 0) {
		for (step = 0x1p-9; size >= 16 * step; step *= 2) {
		}
	}
	return copysign(rint(size / step) * step, v);
}

static bool
is_rounded(void *user, enum ir_op op, const char *name)
{
	const struct trace *t = user;
	const char *last = strrchr(name, '.');

	if (!t->stored || op != IR_WEIGHT) {
		return false;
	}
	if (strcmp(t->stored, "f8e4m3") != 0 &&
	    strcmp(name, t->is_tied ? "wte.weight" : "head.weight") == 0) {
		return true;
	}
	/* of which slices are read */
	if (t->absorbs && strstr(name, ".kvb.")) {
		return false;
	}
	return name[0] == 'h' && name[1] == '.' && last &&
	       strcmp(last, ".weight") == 0 && !strstr(name, ".n1.") &&
	       !strstr(name, ".n2.") && !strstr(name, ".ln.") &&
	       !strstr(name, ".qn.") && !strstr(name, ".router.");
}

static float
to_bf16(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof bits);
	bits += 0x7fff + (bits >> 16 & 1);
	bits &= 0xffff0000;
	memcpy(&v, &bits, sizeof v);
	return v;
}

/* Whether rows of k elements are in groups of 128, of 4 bits: those of layers,
 * if they are whole. */
static bool
in_groups(const struct trace *t, const char *name, int64_t k)
{
	return strcmp(t->stored, "int4") == 0 && k % 128 == 0 &&
	       name[0] == 'h' && name[1] == '.';
}

/*
 * What a weight of a layer comes to when it is stored: drawn as any other, and
 * each row rounded to multiples of its scale.  Rows are those of the first dim
 * if that is what the layer hands on, else all but the last dim are rows.  In 4
 * bits scales are of groups.
 */
static bool
get_rounded(void *user, enum ir_op op, const char *name,
	    const struct ir_type *type, int64_t elems, double *out,
	    struct span at)
{
	const struct trace *t = user;
	uint64_t key = ir_rng_key(name, 7);
	bool outer = strcmp(ir_dim_name(t->m, type->dims[0]), "hidden") == 0;
	dim_id first = type->dims[0], last = type->dims[type->ndims - 1];
	int64_t k = outer ? elems / ir_dim_size(t->m, first)
			  : ir_dim_size(t->m, last), i, j;
	double most = strcmp(t->stored, "f8e4m3") == 0 ? 448 : 127, scale;
	bool groups = in_groups(t, name, k);

	k = groups ? 128 : k;
	most = groups ? 7 : most;
	(void)op;
	(void)at;
	for (i = 0; i < elems; i++) {
		out[i] = 0.02 * ir_rng_normal(key, (uint64_t)i);
	}
	for (i = 0; i < elems; i += k) {
		for (scale = 0, j = i; j < i + k; j++) {
			scale = fmax(scale, fabs(out[j]));
		}
		scale = (float)(scale / most);
		scale = groups ? (double)to_bf16((float)scale) : scale;
		for (j = i; j < i + k; j++) {
			out[j] = scale * nearest8(t, out[j] / scale);
		}
	}
	return true;
}

/* ---- keys and values that are stored rounded ---- */

/* A type: bits of its numbers, the first included; what its subnormal numbers
 * are multiples of; the largest number. */
struct narrow {
	const char *name;
	int bits;
	double step, most;
};

static const struct narrow narrow_types[] = {
	{ "f8e4m3", 4, 0x1p-9, 448 }, { "f8e5m2", 3, 0x1p-16, 57344 },
	{ "bf16", 8, 0x1p-133, 0x1.fep127 }
};

/* Where nodes go that round numbers of v's type. */
struct rounding {
	struct ir_module *m;
	region_id r;
	const struct narrow *to;
	struct ir_type type;
};

static value_id
add(struct rounding *x, struct ir_new *n, const struct ir_type *t)
{
	const char *why = "?";
	value_id v;

	n->nresults = 1;
	n->types[0] = *t;
	v = ir_append(x->m, x->r, n, &why);
	assert_int_not_equal(v, 0);
	return v;
}

/* v and a number. */
static value_id
with(struct rounding *x, enum ir_op op, value_id v, double number)
{
	struct ir_type scalar = { .dtype = x->type.dtype };
	struct span nowhere = { 0, 0 };
	struct ir_new n;
	value_id c;

	ir_new_init(&n, IR_CONST, nowhere);
	ir_new_num(&n, IR_ATTR_VALUE, number);
	c = add(x, &n, &scalar);
	ir_new_init(&n, op, nowhere);
	ir_new_arg(&n, v);
	ir_new_arg(&n, c);
	return add(x, &n, &x->type);
}

static value_id
both(struct rounding *x, enum ir_op op, value_id a, value_id b)
{
	struct span nowhere = { 0, 0 };
	struct ir_new n;

	ir_new_init(&n, op, nowhere);
	ir_new_arg(&n, a);
	ir_new_arg(&n, b);
	return add(x, &n, &x->type);
}

/* To so many bits, by sums in float64 (Veltkamp's splitting). */
static value_id
split_off(struct rounding *x, value_id v)
{
	value_id c = with(x, IR_MUL, v, ldexp(1, 53 - x->to->bits) + 1);

	return both(x, IR_SUB, c, both(x, IR_SUB, c, v));
}

/*
 * v in the type: subnormal numbers are multiples of the step, which a sum with
 * a large number rounds to; of others, which are those from `least` on, bits
 * are split off.  Each part is 0 where the others hold.
 */
static value_id
rounded(struct rounding *x, value_id v)
{
	double least = ldexp(x->to->step, x->to->bits - 1);
	double large = 1.5 * ldexp(x->to->step, 52);
	value_id low, up, down;

	x->type = *ir_type(x->m, v);
	v = with(x, IR_MIN, with(x, IR_MAX, v, -x->to->most), x->to->most);
	low = with(x, IR_MIN, with(x, IR_MAX, v, -least), least);
	low = with(x, IR_SUB, with(x, IR_ADD, low, large), large);
	up = with(x, IR_SUB, split_off(x, with(x, IR_MAX, v, least)), least);
	down = with(x, IR_ADD, split_off(x, with(x, IR_MIN, v, -least)),
		    least);
	return both(x, IR_ADD, low, both(x, IR_ADD, up, down));
}

/* Whether v is computed of rows that are cached, by operands on the left. */
static bool
is_of_cached(const struct ir_module *m, value_id v)
{
	const struct ir_node *n = ir_node(m, m->values.at[v].node);

	while (m->values.at[v].node && n->nargs > 0 && n->op != IR_CACHE) {
		v = ir_args(m, n)[0];
		n = ir_node(m, m->values.at[v].node);
	}
	return m->values.at[v].node && n->op == IR_CACHE;
}

/* Rounds what a node reads: keys and values, or what the model caches first. */
static void
round_operands(struct rounding *x, node_id id, bool says_cache)
{
	bool caches = ir_node(x->m, id)->op == IR_CACHE &&
		      !is_of_cached(x->m, ir_args(x->m, ir_node(x->m, id))[0]);
	bool pairs = ir_is(ir_node(x->m, id)->op, IRF_PAIRS);
	uint32_t at = pairs ? 1 : 0, to = pairs ? 3 : 1;
	value_id v;

	for (; (says_cache ? caches : pairs) && at < to; at++) {
		v = ir_args(x->m, ir_node(x->m, id))[at];
		/* of the type that it is computed in: nothing to round */
		if (strcmp(ir_dtypes[ir_type(x->m, v)->dtype].name,
			   x->to->name) == 0) {
			continue;
		}
		v = rounded(x, v);
		x->m->args.at[ir_node(x->m, id)->args + at] = v;
	}
}

/* Whether the model says what it caches; all attention does, or none. */
static bool
says_cache(const struct ir_module *m)
{
	node_id id;

	for (id = 1; id < m->nodes.n && ir_node(m, id)->op != IR_CACHE; id++) {
	}
	return id < m->nodes.n;
}

static void
round_cached(struct ir_module *m, const struct trace *t)
{
	struct rounding x = { .m = m };
	bool says = says_cache(m);
	uint32_t i, n;
	node_id *old;

	for (x.to = narrow_types; strcmp(x.to->name, t->cache); x.to++) {
	}
	for (x.r = 1; x.r < m->regions.n; x.r++) {
		n = m->regions.at[x.r].nodes.n;
		old = arena_dup(&m->ctx->tmp, m->regions.at[x.r].nodes.at,
				n * sizeof *old);
		m->regions.at[x.r].nodes.n = 0;
		for (i = 0; i < n; i++) {
			round_operands(&x, old[i], says);
			VEC_PUSH(&m->ctx->perm, &m->regions.at[x.r].nodes,
				 old[i]);
		}
	}
}

/* ---- both programs ---- */

/* The text with another part wherever it has this one. */
static const char *
exchange(struct arena *a, const char *text, const char *was, const char *is)
{
	const char *at;
	struct buf b;

	buf_init(&b, a);
	while ((at = strstr(text, was))) {
		buf_add(&b, text, (size_t)(at - text));
		buf_puts(&b, is);
		text = at + strlen(was);
	}
	buf_puts(&b, text);
	return buf_text(&b);
}

/* Whether latents are cached before their norm, and after it once more. */
static bool
caches_twice(const struct pair *p)
{
	return p->n[NR_LATENT] == 1 && p->n[NR_FFN] % 5 == 1;
}

static struct ir_module *
compile(struct ir_ctx *c, const struct pair *p)
{
	const char *text = model_text(&c->perm, p);
	uint32_t base;

	/* Some keep of a token its keys before they are rotated, or that part
	 * of them: any number that is drawn will do. */
	if (p->n[NR_FFN] % 3 == 0 && p->n[NR_LATENT] == 0) {
		text = exchange(&c->perm, text, "rope(k), v",
				"rope(cache(k)), cache(v)");
	} else if (p->n[NR_FFN] % 3 == 0) {
		text = exchange(&c->perm, text, "cache(rope(r))",
				"rope(cache(r))");
	}
	if (caches_twice(p)) {
		text = exchange(&c->perm, text, "l = cache(rmsnorm(l)",
				"l = cache(rmsnorm(cache(l))");
		text = exchange(&c->perm, text, "l = cache(layernorm(l)",
				"l = cache(layernorm(cache(l))");
	}
	assert_true(source_add(&c->sources, "model", text, strlen(text),
			       &base));
	return fe_compile(c, c->sources.files.n - 1);
}

static void
set(struct ir_module *m, const char *key, double v)
{
	struct ir_setting s = { .kind = SET_NUM, .n = 1, .num = { v } };

	s.key = intern_str(&m->ctx->syms, key);
	VEC_PUSH(&m->ctx->perm, &m->settings, s);
}

static void
set_word(struct ir_module *m, const char *key, const char *word)
{
	struct ir_setting s = { .kind = SET_WORD };

	s.key = intern_str(&m->ctx->syms, key);
	s.text = intern_str(&m->ctx->syms, word);
	VEC_PUSH(&m->ctx->perm, &m->settings, s);
}

static void
run_whole(struct ir_module *m, struct trace *t)
{
	struct ir_weights w = { .input = whole_input, .user = t,
				.has = is_rounded, .get = get_rounded };
	struct ir_eval_options o = { .seed = 7, .weights = &w };
	struct ir_eval_result r;
	uint32_t n;

	t->m = m;
	assert_true(pass_keep_logits(m));
	if (t->cache) {
		round_cached(m, t);
	}
	assert_true(ir_eval(m, &o, &r, 1, &n));
	assert_int_equal(n, 1);
	t->logits = r.data;
}

static bool
after(void *user, const struct sim_result *r)
{
	struct trace *t = user;
	const struct served *s = &t->step[t->at];
	uint32_t i, v;

	for (i = 0; i < s->nrows; i++) {
		const double *want = t->logits + (s->wanted[i].sequence *
			t->length + s->wanted[i].position) * t->vocab;
		const double *got = r->results[0].data + i * t->vocab;

		for (v = 0; v < t->vocab; v++) {
			t->off = fmax(t->off, fabs(got[v] - want[v]) /
				      (1 + fabs(want[v])));
		}
		t->compared++;
	}
	t->at++;
	return true;
}

/* Whether keys are products of latents alone, beside what is cached as it is:
 * with a bias they are not, nor where what is cached is rotated later, or has
 * its norm later. */
static bool
has_absorbed(const struct pair *p)
{
	return p->n[NR_LATENT] == 1 && !p->n[NR_BIAS] && !caches_twice(p) &&
	       (p->n[NR_LEARNED] || p->n[NR_FFN] % 3 != 0);
}

/* Whether attention has one kv head of latents. */
static bool
finds_absorbed(const struct ir_module *m)
{
	return ir_dim_find(m, intern_str(&m->ctx->syms, "latents")) != 0;
}

/* False: the plan does not fit the model. */
static bool
run_steps(struct ir_module *m, const struct pair *p, struct trace *t)
{
	struct ir_weights w = { .input = step_input, .user = t };
	struct sim_options o = { .seed = 7, .steps = t->nsteps, .weights = &w,
				 .after = after, .user = t };
	struct sim_result result;
	const char *why = "?";
	struct ranks ranks;
	struct sched *s;
	struct plan plan;

	set(m, "program.serves", 1);
	set(m, "serve.tokens", TOKENS);
	set(m, "serve.rows", ROWS);
	set(m, "serve.keys", KEYS);
	set(m, "serve.slots", SLOTS);
	if (t->stored) {
		set_word(m, "serve.weights", t->stored);
	}
	if (t->cache) {
		set_word(m, "serve.cache", t->cache);
	}
	if (p->n[NR_SHUFFLE]) {
		set(m, "place.shuffle", p->n[NR_SHUFFLE]);
	}
	if (!plan_pin(m, arena_printf(&m->ctx->perm,
			"tp=%d,pp=%d,ep=%d,dp=%d", p->n[NR_TP], p->n[NR_PP],
			p->n[NR_EP], p->n[NR_DP])) ||
	    pass_apply(m, "fold-dims,inline,absorb,ragged,quantise,cse,dce,"
		       "place,stage,check", true) != PASS_OK ||
	    !plan_read(m, &plan)) {
		return false;
	}
	assert_int_equal(finds_absorbed(m), t->absorbs);
	if (t->tokens < TOKENS) {
		pass_resize_step(m, t->tokens, t->rows);
	}
	s = ranks_schedule(m, NULL, &m->ctx->perm);
	assert_non_null(s);
	assert_true(ranks_open(&ranks, m, s, NULL, &why));
	assert_true(sim_run(&ranks, &o, &result));
	return true;
}

/* Matrices with rows of whole groups, of most of which ranks have parts. */
static void
widen(struct pair *p, uint64_t seed)
{
	p->n[NR_HIDDEN] = 64;	/* of two positions */
	p->n[NR_FFN] = 128 * (1 + (int)(seed % 3));
	p->n[NR_KV] = 2;
	p->n[NR_GROUPS] = 2;
	p->n[NR_HD] = seed % 2 ? 32 : 16;
}

static struct pair
served_pair(uint64_t seed, bool is_wide)
{
	struct pair p = random_pair(seed);

	if (is_wide) {
		widen(&p, seed);
	}

	p.n[NR_CAUSAL] = 1;
	p.n[NR_DROP] = 0;
	p.n[NR_CP] = p.n[NR_CHUNKS] = 1;
	/* ALiBi in some, and in some keys and values of latents */
	p.n[NR_LEARNED] = seed / DAYS % 4 == 3 ? 2 : p.n[NR_LEARNED];
	p.n[NR_LATENT] = seed % 3 ? 0 : 1 + (seed / (3 * DAYS) % 3 == 2);
	return p;
}

/* Types that weights and the cache are stored in; NULL: as in the model. */
struct stored {
	const char *weights, *cache;
};

/* Rows of logits that were compared; and pairs that ran, those with experts
 * apart, those whose keys are of latents, and of these those that attend to the
 * latents, and those of these on several tensor ranks; those that cache what is
 * computed of cached rows. */
struct counts {
	uint32_t compared, same, apart, latent, absorbed, split, twice;
};

/* False: refused. */
static bool
run_pair(uint64_t seed, const struct stored *as, struct counts *n)
{
	const char *stored = as->weights;
	struct pair p = served_pair(seed, stored && strcmp(stored, "int4") ==
				    0);
	struct trace *t = calloc(1, sizeof *t);
	struct ir_ctx c;
	bool ran;

	assert_non_null(t);
	t->state = seed;
	t->stored = stored;
	t->cache = as->cache;
	t->is_tied = p.n[NR_TIED];
	t->absorbs = has_absorbed(&p);
	t->nseqs = (uint32_t)p.n[NR_BATCH];
	t->length = (uint32_t)p.n[NR_SEQ];
	t->vocab = (uint32_t)p.n[NR_VOCAB];
	t->tokens = draw(&t->state, 2) ? TOKENS : 1 + draw(&t->state, TOKENS);
	t->rows = t->tokens < ROWS ? t->tokens : ROWS;
	draw_trace(t);
	ir_ctx_init(&c, NULL);
	run_whole(compile(&c, &p), t);
	ran = run_steps(compile(&c, &p), &p, t);
	if (!(t->off <= CLOSE) || (!ran && getenv("RAGGED_TELL"))) {
		diag_flush(&c.diags, stderr);
		fprintf(stderr, "%sseed %llu: tp=%d pp=%d ep=%d dp=%d "
			"shuffle=%d %s %s: %.1e apart\n",
			model_text(&c.perm, &p), (unsigned long long)seed,
			p.n[NR_TP], p.n[NR_PP], p.n[NR_EP], p.n[NR_DP],
			p.n[NR_SHUFFLE], stored ? stored : "",
			as->cache ? as->cache : "", t->off);
	}
	assert_true(t->off <= CLOSE);
	assert_true(!ran || t->at == t->nsteps);
	n->compared += t->compared;
	n->same += ran;
	n->apart += ran && p.n[NR_EP] > 1;
	n->latent += ran && p.n[NR_LATENT];
	n->absorbed += ran && t->absorbs;
	n->twice += ran && caches_twice(&p);
	n->split += ran && t->absorbs && p.n[NR_TP] > 1;
	ir_ctx_release(&c);
	free(t);
	return ran;
}

static uint64_t
from_env(const char *name, uint64_t absent)
{
	const char *s = getenv(name);

	return s && *s ? strtoull(s, NULL, 10) : absent;
}

static void
run_pairs(uint64_t pairs, const struct stored *stored, uint32_t nstored)
{
	bool any = getenv("RAGGED_SEED") || getenv("RAGGED_PAIRS");
	uint64_t seed = from_env("RAGGED_SEED", 1), refused = 0;
	struct counts n = { 0 };

	for (; n.same < pairs; seed++) {
		if (!any && !t_today(seed, DAYS)) {
			continue;
		}
		refused += !run_pair(seed, &stored[seed % nstored], &n);
	}
	printf("%u pairs, %u with experts apart, %u with latents (%u attend "
	       "to them, %u on several tensor ranks; %u cache twice), %u rows "
	       "of logits the same, %llu refused\n", n.same, n.apart,
	       n.latent, n.absorbed, n.split, n.twice, n.compared,
	       (unsigned long long)refused);
	assert_true(refused * 4 <= n.same + 4);
	assert_true(n.compared >= pairs);
	/* a third of many */
	assert_true(pairs < 20 || n.latent * 6 >= pairs);
	assert_true(pairs < 20 || n.absorbed > 0);
}

/* Of each hundred of all pairs so many, today. */
static uint64_t
some_pairs(uint64_t percent)
{
	uint64_t n = from_env("RAGGED_PAIRS", t_some(PAIRS / DAYS, PAIRS));

	return (n * percent + 99) / 100;
}

static void
test_pairs(void **state)
{
	static const struct stored declared[] = { { NULL, NULL } };

	(void)state;
	run_pairs(some_pairs(100), declared, 1);
}

/* The same with weights in 8 bits, which both programs round. */
static void
test_rounded(void **state)
{
	static const struct stored stored[] = {
		{ "int8", NULL }, { "f8e4m3", NULL }
	};

	(void)state;
	run_pairs(some_pairs(25), stored, 2);
}

/* The same in 4 bits. */
static void
test_groups(void **state)
{
	static const struct stored stored[] = { { "int4", NULL } };

	(void)state;
	run_pairs(some_pairs(6), stored, 1);
}

/* The same with a cache of another type. */
static void
test_cached(void **state)
{
	static const struct stored stored[] = {
		{ NULL, "f8e4m3" }, { NULL, "bf16" }, { NULL, "f8e4m3" },
		{ "int8", "f8e4m3" }, { NULL, "f8e5m2" }
	};

	(void)state;
	run_pairs(some_pairs(25), stored, 5);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs), cmocka_unit_test(test_rounded),
		cmocka_unit_test(test_groups), cmocka_unit_test(test_cached)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

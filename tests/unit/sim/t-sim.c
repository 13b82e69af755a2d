/*
 * Whole pipelines against what they compute written again in C, and programs
 * whose ranks do not fit together, each with the message it is to get.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/sim/t-sim.h"
#include "tests/unit/shared/t-scarce.h"

#define BATCH 7
#define H 3
#define STEPS 3

/* ---- a pipeline as text ---- */

/*
 * Stage s is z = tanh(x w.s); the first one multiplies its input by `tied`,
 * and the loss is the mean of (z tied)^2.  The update adds the gradient to a
 * state, and takes step / (1 + |gradients|^2) of it off the weight.
 */
struct pipe {
	struct buf b;
	const struct sched *s;
	bool split;		/* I and W, not B */
};

#define T "f32[batch:mb:dp, h]"

static void
put_forward(struct pipe *p, uint32_t s)
{
	struct buf *b = &p->b;

	buf_printf(b, "layer stage%u_forward() {\n", s);
	if (s == 0) {
		buf_puts(b, "  %0 = input name=\"x\" : " T "\n"
			 "  save %0 name=\"in\"\n"
			 "  %1 = weight name=\"tied\" : f32[h]\n"
			 "  %2 = mul %0, %1 : " T "\n");
	} else {
		buf_printf(b, "  %%2 = recv name=\"act\" stage=%u : " T "\n",
			   s - 1);
	}
	buf_printf(b, "  %%3 = weight name=\"w.%u\" : f32[h]\n"
		   "  %%4 = mul %%2, %%3 : " T "\n"
		   "  %%5 = tanh %%4 : " T "\n"
		   "  save %%2 name=\"x.%u\"\n"
		   "  save %%5 name=\"z.%u\"\n", s, s, s);
	if (s + 1 < p->s->nstages) {
		buf_printf(b, "  send %%5 name=\"act\" stage=%u\n"
			   "  return\n}\n", s + 1);
		return;
	}
	buf_puts(b, "  %6 = weight name=\"tied\" : f32[h]\n"
		 "  %7 = mul %5, %6 : " T "\n"
		 "  %8 = mul %7, %7 : " T "\n"
		 "  %9 = mean %8 over=(batch, h) : f32[]{+mb, +dp}\n"
		 "  return %9\n}\n");
}

static void
put_sum(struct pipe *p, const char *value, int as, const char *name)
{
	buf_printf(&p->b, "  %%%d = sum %s over=batch : f32[h]{+mb, +dp}\n"
		   "  accumulate %%%d name=\"%s\"\n", as, value, as, name);
}

/* The gradient of the stage's input. */
static void
put_input(struct pipe *p, uint32_t s, bool last)
{
	struct buf *b = &p->b;

	buf_printf(b, "  %%1 = saved name=\"z.%u\" : " T "\n", s);
	if (last) {
		buf_puts(b, "  %2 = weight name=\"tied\" : f32[h]\n"
			 "  %3 = mul %1, %2 : " T "\n"
			 "  %4 = const value=");
		buf_double(b, 2.0 / (BATCH * H));
		buf_puts(b, " : f32[]\n"
			 "  %5 = mul %3, %4 : " T "\n"
			 "  %6 = mul %5, %2 : " T "\n"
			 "  %7 = mul %5, %1 : " T "\n");
		put_sum(p, "%7", 8, "tied");
	} else {
		buf_printf(b, "  %%6 = recv name=\"grad\" stage=%u : " T "\n",
			   s + 1);
	}
	buf_printf(b, "  %%9 = mul %%1, %%1 : " T "\n"
		   "  %%10 = const value=1 : f32[]\n"
		   "  %%11 = sub %%10, %%9 : " T "\n"
		   "  %%12 = mul %%6, %%11 : " T "\n"
		   "  %%13 = weight name=\"w.%u\" : f32[h]\n"
		   "  %%14 = mul %%12, %%13 : " T "\n", s);
	if (s > 0) {
		buf_printf(b, "  send %%14 name=\"grad\" stage=%u\n", s - 1);
	}
}

static void
put_weights(struct pipe *p, uint32_t s)
{
	char name[16];

	buf_printf(&p->b, "  %%15 = saved name=\"x.%u\" : " T "\n"
		   "  %%16 = mul %%12, %%15 : " T "\n", s);
	snprintf(name, sizeof name, "w.%u", s);
	put_sum(p, "%16", 17, name);
	if (s == 0) {
		buf_puts(&p->b, "  %18 = saved name=\"in\" : " T "\n"
			 "  %19 = mul %14, %18 : " T "\n");
		put_sum(p, "%19", 20, "tied");
	}
}

static void
put_backward(struct pipe *p, uint32_t s)
{
	bool last = s + 1 == p->s->nstages;
	struct buf *b = &p->b;

	buf_printf(b, "layer stage%u_%s() {\n", s,
		   p->split ? "input" : "backward");
	put_input(p, s, last);
	if (p->split) {
		buf_printf(b, "  save %%12 name=\"dz.%u\"\n  return\n}\n"
			   "layer stage%u_weights() {\n"
			   "  %%12 = saved name=\"dz.%u\" : " T "\n"
			   "  %%13 = weight name=\"w.%u\" : f32[h]\n"
			   "  %%14 = mul %%12, %%13 : " T "\n", s, s, s, s);
	}
	put_weights(p, s);
	buf_puts(b, "  return\n}\n");
}

/* Tensor k is w.k, and that after the last stage `tied`. */
static const char *
tensor(const struct pipe *p, uint32_t k)
{
	return k == p->s->nstages ? "tied"
		: arena_printf(p->b.arena, "w.%u", k);
}

static bool
holds(const struct pipe *p, uint32_t pipe, uint32_t k)
{
	uint32_t last = p->s->nstages - 1;

	return k > last ? p->s->rank_of[0] == pipe ||
			  p->s->rank_of[last] == pipe
			: p->s->rank_of[k] == pipe;
}

/* Values 10 k + ... are of tensor k. */
static void
put_gradients(struct pipe *p, uint32_t pipe)
{
	uint32_t k, n = p->s->nstages;
	struct buf *b = &p->b;
	const char *sum = "%0";

	buf_puts(b, "  %0 = const value=0 : f32[]\n");
	for (k = 0; k <= n; k++) {
		if (!holds(p, pipe, k)) {
			continue;
		}
		buf_printf(b, "  %%%u0 = gradient name=\"%s\" : f32[h]{+dp}\n"
			   "  %%%u1 = all_reduce %%%u0 on=dp : f32[h]\n"
			   "  %%%u2 = %s %%%u1%s : f32[h]\n",
			   k + 1, tensor(p, k), k + 1, k + 1, k + 1,
			   k == n ? "share" : "neg", k + 1,
			   k == n ? " name=\"tied\"" : "");
		if (k == n && p->s->rank_of[0] != pipe) {
			continue;	/* counted by the first stage */
		}
		buf_printf(b, "  %%%u3 = mul %%%u2, %%%u2 : f32[h]\n"
			   "  %%%u4 = sum %%%u3 over=h : f32[]\n"
			   "  %%%u5 = add %s, %%%u4 : f32[]\n", k + 1, k + 1,
			   k + 1, k + 1, k + 1, k + 1, sum, k + 1);
		sum = arena_printf(b->arena, "%%%u5", k + 1);
	}
	buf_printf(b, "  %%1 = share %s name=\"norm\" : f32[]\n", sum);
}

static void
put_update(struct pipe *p, uint32_t pipe)
{
	uint32_t k, n = p->s->nstages;
	struct buf *b = &p->b;

	buf_printf(b, "layer pipe%u_update() {\n", pipe);
	put_gradients(p, pipe);
	buf_puts(b, "  %2 = const value=1 : f32[]\n"
		 "  %3 = add %1, %2 : f32[]\n"
		 "  %4 = input name=\"step\" : f32[]\n"
		 "  %5 = div %4, %3 : f32[]\n");
	for (k = 0; k <= n; k++) {
		const char *name = tensor(p, k);

		if (!holds(p, pipe, k)) {
			continue;
		}
		buf_printf(b, "  %%%u6 = %s %%%u2 : f32[h]\n"
			   "  %%%u7 = state name=\"%s.m\" init=zeros"
			   " : f32[h]\n"
			   "  %%%u8 = add %%%u7, %%%u6 : f32[h]\n"
			   "  store %%%u8 name=\"%s.m\"\n"
			   "  %%%u9 = mul %%%u8, %%5 : f32[h]\n"
			   "  %%%u00 = weight name=\"%s\" : f32[h]\n"
			   "  %%%u01 = sub %%%u00, %%%u9 : f32[h]\n"
			   "  store %%%u01 name=\"%s\"\n",
			   k + 1, k == n ? "cast" : "neg", k + 1, k + 1, name,
			   k + 1, k + 1, k + 1, k + 1, name, k + 1, k + 1,
			   k + 1, name, k + 1, k + 1, k + 1, k + 1, name);
	}
	buf_puts(b, "  return\n}\n");
}

static char *
pipe_text(struct arena *a, const struct sched *s, bool split, uint32_t dp)
{
	struct pipe p = { .s = s, .split = split };
	uint32_t i;

	buf_init(&p.b, a);
	buf_printf(&p.b, "llmc-ir 1\ndim batch = %d\ndim h = %d\n"
		   "axis mb = %u time\naxis pp = %u\naxis dp = %u\n", BATCH,
		   H, s->nmicrobatches, s->nranks, dp);
	for (i = 0; i < s->nstages; i++) {
		put_forward(&p, i);
		put_backward(&p, i);
	}
	for (i = 0; i < s->nranks; i++) {
		put_update(&p, i);
	}
	return arena_strndup(a, buf_text(&p.b), p.b.n);
}

/* ---- and in C ---- */

#define MAX_TENSORS 10

struct model {
	uint32_t nstages;
	double w[MAX_TENSORS][H], m[MAX_TENSORS][H], g[MAX_TENSORS][H], loss;
};

static void
one_row(struct model *k, int row, int c)
{
	double in = ir_rng_normal(ir_rng_key("x", SEED),
				  (uint64_t)(row * H + c));
	double x[MAX_TENSORS], tied = k->w[k->nstages][c], u, g;
	uint32_t s;

	x[0] = in * tied;
	for (s = 0; s < k->nstages; s++) {
		x[s + 1] = tanh(x[s] * k->w[s][c]);
	}
	u = x[s] * tied;
	k->loss += u * u / (BATCH * H);
	g = 2 * u / (BATCH * H);
	k->g[s][c] += g * x[s];
	g *= tied;
	while (s-- > 0) {
		g *= 1 - x[s + 1] * x[s + 1];
		k->g[s][c] += g * x[s];
		g *= k->w[s][c];
	}
	k->g[k->nstages][c] += g * in;
}

static void
one_step(struct model *k, uint32_t step)
{
	double norm = 0;
	uint32_t s;
	int i, c;

	memset(k->g, 0, sizeof k->g);
	k->loss = 0;
	for (i = 0; i < BATCH; i++) {
		for (c = 0; c < H; c++) {
			one_row(k, i, c);
		}
	}
	for (s = 0; s <= k->nstages; s++) {
		for (c = 0; c < H; c++) {
			norm += k->g[s][c] * k->g[s][c];
		}
	}
	for (s = 0; s <= k->nstages; s++) {
		for (c = 0; c < H; c++) {
			k->m[s][c] += k->g[s][c];
			k->w[s][c] -= k->m[s][c] * (step / (1 + norm));
		}
	}
}

static void
tensor_is(const struct sim_tensor *got, const char *name, const double *want)
{
	int c;

	assert_non_null(got);
	assert_int_equal(got->elems, H);
	for (c = 0; c < H; c++) {
		near(name, got->data[c], want[c]);
	}
}

static bool
step_is(void *user, const struct sim_result *r)
{
	struct model *k = user;
	char name[16];
	uint32_t s;

	one_step(k, r->step);
	assert_int_equal(r->nresults, 1);
	near("loss", r->results[0].data[0], k->loss);
	for (s = 0; s <= k->nstages; s++) {
		snprintf(name, sizeof name, s < k->nstages ? "w.%u" : "tied",
			 s);
		tensor_is(sim_gradient(r, name), name, k->g[s]);
		tensor_is(sim_stored(r, name), name, k->w[s]);
		strcat(name, ".m");
		tensor_is(sim_stored(r, name), name, k->m[s]);
	}
	assert_null(sim_stored(r, "no"));
	return true;
}

static void
pipeline(const char *name, uint32_t pp, uint32_t chunks, uint32_t mb,
	 uint32_t dp)
{
	const struct sched_def *def = sched_find(name);
	struct model k = { 0 };
	struct arena a;
	struct mem mem;
	struct sched *s;
	const char *why;
	uint32_t i;
	int c;

	mem_init(&mem);
	arena_init(&a, &mem);
	s = sched_make(&a, name, pp, chunks, mb, &why);
	if (!s) {
		fail_msg("%s", why);
	}
	open_text(NULL, pipe_text(&a, s, def->split, dp));
	k.nstages = s->nstages;
	for (i = 0; i <= k.nstages; i++) {
		char tensor_name[16];

		snprintf(tensor_name, sizeof tensor_name,
			 i < k.nstages ? "w.%u" : "tied", i);
		for (c = 0; c < H; c++) {
			k.w[i][c] = 0.02 * ir_rng_normal(ir_rng_key(
				tensor_name, SEED), (uint64_t)c);
		}
	}
	t.o.steps = STEPS;
	t.o.after = step_is;
	t.o.user = &k;
	must_run(s);
	assert_int_equal(t.res.step, STEPS);
	close_text();
	arena_release(&a);
}

static void
test_pipelines(void **state)
{
	(void)state;
	pipeline("gpipe", 1, 1, 1, 1);
	pipeline("gpipe", 3, 1, 4, 2);
	pipeline("gpipe", 3, 1, 6, 3);
	pipeline("1f1b", 3, 1, 5, 2);
	pipeline("1f1b", 4, 1, 8, 1);
	pipeline("interleaved", 3, 2, 6, 2);
	pipeline("zb_h1", 3, 1, 6, 2);
	pipeline("zb_h2", 3, 1, 8, 1);
	pipeline("zbv", 3, 2, 6, 2);
	pipeline("zbv", 1, 2, 2, 2);
}

/* ---- programs that do not fit together ---- */

/* Forwards of as many stages as ranks, on ranks one to one. */
static struct sched *
row_of(uint32_t nstages, uint32_t nmicrobatches)
{
	struct sched *s = sched_new(&t.c.perm, nstages, nstages,
				    nmicrobatches);
	struct sched_action a = { .kind = SCHED_F };

	for (a.stage = 0; a.stage < nstages; a.stage++) {
		s->rank_of[a.stage] = a.stage;
		for (a.microbatch = 0; a.microbatch < nmicrobatches;
		     a.microbatch++) {
			sched_add(&t.c.perm, s, a.stage, a);
		}
	}
	return s;
}

/* The run fails, and says all of these; up to NULL. */
static void
fails(uint32_t nstages, uint32_t mb, const char *text, ...)
{
	const char *part, *said;
	va_list ap;

	open_text(NULL, text);
	assert_false(run(row_of(nstages, mb)));
	assert_int_equal(t.c.diags.errors, 1);
	said = messages();
	va_start(ap, text);
	while ((part = va_arg(ap, const char *)) != NULL) {
		if (!strstr(said, part)) {
			fail_msg("no \"%s\" in:\n%s", part, said);
		}
	}
	va_end(ap);
	close_text();
}

#define HEAD "llmc-ir 1\ndim a = 4\ndim b = 2\ndim e = 4\ndim k = 1\n"
#define NOTHING(stage) "layer stage" stage "_forward() {\n  return\n}\n"

/* Both know the same collectives, in another order. */
#define SUM(first, second) \
	"  %0 = const value=1 : f32[a]\n" \
	"  %1 = once %0 on=pp : f32[a]{+pp}\n" \
	"  %2 = once %1 on=dp : f32[a]{+pp, +dp}\n" first second \
	"  return\n}\n"
#define SUM_PP "  %3 = all_reduce %1 on=pp : f32[a]\n"
#define SUM_ALL "  %4 = all_reduce %2 on=(pp, dp) : f32[a]\n"

static void
test_swapped(void **state)
{
	(void)state;
	fails(2, 1, HEAD "axis pp = 2\naxis dp = 2\n" NOTHING("0") NOTHING("1")
	      "layer pipe0_update() {\n" SUM(SUM_PP, SUM_ALL)
	      "layer pipe1_update() {\n" SUM(SUM_ALL, SUM_PP),
	      "ranks of one group wait in different collectives: rank 0 "
	      "(pp=0 dp=0) in pipe0_update in all_reduce on=pp of "
	      "f32[a]{+pp}", "and rank 2 (pp=1 dp=0) in pipe1_update in "
	      "all_reduce on=pp,dp of f32[a]{+pp, +dp}", NULL);
	/* the same axes, but not the same type */
	fails(2, 1, HEAD "axis pp = 2\naxis dp = 1\n" NOTHING("0") NOTHING("1")
	      "layer pipe0_update() {\n" SUM(SUM_PP, "")
	      "layer pipe1_update() {\n"
	      "  %0 = const value=1 : f32[b]\n"
	      "  %1 = once %0 on=pp : f32[b]{+pp}\n"
	      "  %2 = all_reduce %1 on=pp : f32[b]\n"
	      "  return\n}\n",
	      "different collectives", "of f32[a]{+pp}", "of f32[b]{+pp}",
	      NULL);
	/* the same axes, but not the same op */
	fails(2, 1, HEAD "axis pp = 2\naxis dp = 1\n" NOTHING("0") NOTHING("1")
	      "layer pipe0_update() {\n" SUM(SUM_PP, "")
	      "layer pipe1_update() {\n"
	      SUM("  %3 = reduce_scatter %1 on=pp of=a : f32[a:pp]\n", ""),
	      "different collectives", "in all_reduce on=pp",
	      "in reduce_scatter on=pp", NULL);
}

static void
test_shares_swapped(void **state)
{
	static const char x[] = "  %1 = share %0 name=\"x\" : f32[a]\n";
	static const char y[] = "  %2 = share %0 name=\"y\" : f32[a]\n";
	char text[2048];

	(void)state;
	snprintf(text, sizeof text, HEAD "axis pp = 2\n"
		 NOTHING("0") NOTHING("1")
		 "layer pipe0_update() {\n  %%0 = const value=1 : f32[a]\n"
		 "%s%s  return\n}\n"
		 "layer pipe1_update() {\n  %%0 = const value=1 : f32[a]\n"
		 "%s%s  return\n}\n", x, y, y, x);
	fails(2, 1, text, "different collectives", "share `x` of f32[a]",
	      "share `y` of f32[a]", NULL);
}

static void
test_ended(void **state)
{
	(void)state;
	fails(2, 1, HEAD "axis pp = 2\naxis dp = 1\n" NOTHING("0") NOTHING("1")
	      "layer pipe0_update() {\n" SUM(SUM_PP, ""),
	      "no rank can go on: 1 of 2 wait, the others have ended",
	      "rank 0 (pp=0 dp=0) in pipe0_update waits in all_reduce on=pp "
	      "of f32[a]{+pp} for rank 1, which has ended", NULL);
}

#define SEND(stage, name, to, type) \
	"layer stage" stage "_forward() {\n" \
	"  %0 = const value=1 : " type "\n" \
	"  send %0 name=\"" name "\" stage=" to "\n  return\n}\n"
#define RECV(stage, name, from, type) \
	"layer stage" stage "_forward() {\n" \
	"  %0 = recv name=\"" name "\" stage=" from " : " type "\n" \
	"  return\n}\n"

static void
test_messages(void **state)
{
	(void)state;
	fails(2, 1, HEAD "axis pp = 2\n" NOTHING("0")
	      RECV("1", "x", "0", "f32[a]"),
	      "rank 1 (pp=1) in 1F0, stage1_forward waits in recv `x` of "
	      "f32[a] for rank 0, which has ended", NULL);
	fails(2, 1, HEAD "axis pp = 2\n" SEND("0", "y", "1", "f32[a]")
	      RECV("1", "x", "0", "f32[a]"),
	      "waits in recv `x`", "`y` of microbatch 0 came to rank 1 from "
	      "stage 0, and nobody took it", NULL);
	fails(2, 1, HEAD "axis pp = 2\n" SEND("0", "x", "1", "f32[b]")
	      RECV("1", "x", "0", "f32[a]"),
	      "`x` is received as f32[a] by rank 1 (pp=1) in 1F0, "
	      "stage1_forward, and was sent as f32[b]",
	      "it was sent here", NULL);
	fails(2, 1, HEAD "axis pp = 2\n" SEND("0", "x", "1", "f32[a]")
	      NOTHING("1"),
	      "`x` of microbatch 0 was sent from stage 0 to stage 1 and never "
	      "received, on rank 1 (pp=1)", NULL);
	fails(2, 1, HEAD "axis pp = 2\n" RECV("0", "x", "1", "f32[a]")
	      RECV("1", "y", "0", "f32[a]"),
	      "no rank can go on: 2 of 2 wait", "recv `x` of f32[a] for rank 1",
	      "recv `y` of f32[a] for rank 0", NULL);
	fails(1, 1, HEAD "axis dp = 1\n" SEND("0", "x", "1", "f32[a]"),
	      "`x` is sent to stage 1 of 1", NULL);
}

static void
test_saves(void **state)
{
	(void)state;
	fails(1, 1, HEAD "axis dp = 2\nlayer stage0_forward() {\n"
	      "  %0 = saved name=\"x\" : f32[a]\n  return\n}\n",
	      "nothing is saved as `x`",
	      "this was rank 0 (dp=0) in 0F0, stage0_forward", NULL);
	fails(1, 1, HEAD "axis dp = 2\nlayer stage0_forward() {\n"
	      "  %0 = input name=\"x\" : f32[a:dp]\n"
	      "  repeat count=3 var=i () {\n"
	      "    save %0 name=\"x.{i}\"\n"
	      "    yield\n  }\n"
	      "  %1 = saved name=\"x.0\" : f32[a]\n  return\n}\n",
	      "`x.0` was saved as f32[a:dp], and is taken as f32[a]", NULL);
	fails(1, 1, HEAD "axis dp = 2\nlayer stage0_forward() {\n"
	      "  %0 = const value=1 : f32[a]\n"
	      "  save %0 name=\"x\"\n  return\n}\n",
	      "`x` was saved and never taken, on rank 0 (dp=0)", NULL);
}

static void
test_cells(void **state)
{
	(void)state;
	fails(1, 2, HEAD "axis mb = 2 time\nlayer stage0_forward() {\n"
	      "  %0 = weight name=\"w\" : f32[a]\n"
	      "  accumulate %0 name=\"w\"\n  return\n}\n",
	      "`w` is accumulated over 2 microbatches, so a part of a sum "
	      "along `mb` is expected, and f32[a] is whole", NULL);
	fails(1, 2, HEAD "axis mb = 2 time\nlayer stage0_forward() {\n"
	      "  %0 = input name=\"x\" : f32[a:mb]\n"
	      "  accumulate %0 name=\"w\"\n  return\n}\n",
	      "and f32[a:mb] is split by `a`", NULL);
	fails(1, 1, HEAD "axis dp = 2\nlayer stage0_forward() {\n"
	      "  %0 = input name=\"x\" : f32[a:dp]\n"
	      "  accumulate %0 name=\"w\"\n  return\n}\n"
	      "layer pipe0_update() {\n"
	      "  %0 = gradient name=\"w\" : f32[a]\n  return\n}\n",
	      "`w` is f32[a] here, and was f32[a:dp] before",
	      "this was rank 0 (dp=0) in pipe0_update", NULL);
	fails(2, 1, HEAD "axis pp = 2\n" NOTHING("0") NOTHING("1")
	      "layer pipe0_update() {\n  %0 = const value=1 : f32[a]\n"
	      "  store %0 name=\"w\"\n  return\n}\n"
	      "layer pipe1_update() {\n  %0 = const value=2 : f32[a]\n"
	      "  store %0 name=\"w\"\n  return\n}\n",
	      "`w` is to be the same on all stages that hold it, and element "
	      "0 is 1 and 2", NULL);
}

#define EXPERTS(index) \
	"layer stage0_forward() {\n" \
	"  %0 = input name=\"x\" : f32[a:ep, b]\n" \
	"  %1 = input name=\"to\" : idx<e>[a:ep, k]\n" \
	"  %2 = all_gather %1 on=ep of=a : idx<e>[a, k]\n" \
	"  %3 = dispatch %0, %2 on=ep of=a : f32[a, b]{@ep}\n" \
	"  %4 = input name=\"other\" : idx<e>[a, k]\n" \
	"  %5 = weight name=\"w\" : f32[e:ep, b]\n" \
	"  %6 = dot_at %3, " index ", %5 over=b of=e : f32[a, k]{@ep}\n" \
	"  return\n}\n"

static void
test_absent(void **state)
{
	(void)state;
	fails(1, 1, HEAD "axis ep = 4\n" EXPERTS("%4"),
	      "dot_at reads a row that is not on this rank, or is not a "
	      "number", "this was rank", NULL);
	open_text(NULL, HEAD "axis ep = 4\n" EXPERTS("%2"));
	must_run(row_of(1, 1));
	close_text();
	/* one row that several ranks have cannot come back */
	fails(1, 1, HEAD "axis ep = 2\nlayer stage0_forward() {\n"
	      "  %0 = input name=\"x\" : f32[a:ep, b]\n"
	      "  %1 = input name=\"to\" : idx<e>[a, k]\n"
	      "  %2 = dispatch %0, %1 on=ep of=a : f32[a, b]{@ep}\n"
	      "  %3 = combine %2, %1 on=ep of=a : f32[a:ep, b]\n"
	      "  return\n}\n", "has several experts per row", NULL);
}

/* ---- what a module and a schedule must agree on ---- */

static void
disagree(uint32_t nstages, uint32_t mb, const char *text, const char *part)
{
	struct ranks r;
	const char *why = "";

	open_text(NULL, text);
	assert_false(ranks_open(&r, t.m, row_of(nstages, mb), NULL, &why));
	if (!strstr(why, part)) {
		fail_msg("no \"%s\" in: %s", part, why);
	}
	close_text();
}

static void
test_disagree(void **state)
{
	(void)state;
	disagree(2, 1, HEAD "axis pp = 3\n" NOTHING("0") NOTHING("1"),
		 "for 2 ranks, and `pp` has 3");
	disagree(1, 2, HEAD "axis mb = 3 time\n" NOTHING("0"),
		 "2 microbatches, and the mesh has time for 3");
	disagree(1, 2, HEAD "axis dp = 3\n" NOTHING("0"),
		 "2 microbatches, and the mesh has time for 1");
	disagree(2, 1, HEAD "axis pp = 2\n" NOTHING("0"),
		 "runs 1F0, and there is no layer `stage1_forward`");
	disagree(1, 1, HEAD "axis dp = 2\nlayer stage0_forward(%0: f32[a]) {\n"
		 "  return\n}\n", "`stage0_forward` has operands");
	disagree(1, 1, HEAD "axis x = 2 time\naxis y = 2 time\n" NOTHING("0"),
		 "more than one axis of time");
}

/* ---- ranks ---- */

static void
test_ranks(void **state)
{
	uint32_t at[IR_MAX_AXES + 1], members[6];
	struct ranks r;
	const char *why;

	(void)state;
	open_text(NULL, HEAD "axis dp = 2\naxis mb = 5 time\naxis pp = 3\n"
		  "axis tp = 2\n" NOTHING("0") NOTHING("1") NOTHING("2"));
	assert_true(ranks_open(&r, t.m, row_of(3, 5), NULL, &why));
	assert_int_equal(r.nranks, 12);
	assert_int_equal(r.npipes, 3);
	assert_int_equal(r.time, 2);
	assert_int_equal(r.pp, 3);
	ranks_at(&r, 9, at);
	assert_int_equal(at[1], 1);
	assert_int_equal(at[3], 1);
	assert_int_equal(at[4], 1);
	assert_int_equal(ranks_number(&r, at), 9);
	assert_int_equal(ranks_pipe(&r, 9), 1);
	assert_int_equal(ranks_on_pipe(&r, 9, 2), 11);
	assert_int_equal(ranks_group_size(&r, 1u << 1 | 1u << 3), 6);
	ranks_group(&r, 9, 1u << 1 | 1u << 3, members);
	assert_int_equal(members[0], 1);
	assert_int_equal(members[2], 5);
	assert_int_equal(members[5], 11);
	assert_string_equal(ranks_text(&r, 9), "rank 9 (dp=1 pp=1 tp=1)");
	close_text();
}

/* ---- running out of memory ---- */

/* Whether the run got through with this many requests. */
static bool
run_within(struct scarce *w, const char *text, struct sched *s, int requests)
{
	static struct mem gate;	/* of the context, which running replaces */
	struct mem mem = scarce_mem(w);
	volatile bool through = false;
	const char *why;

	w->left = -1;
	open_text(&mem, text);
	t.o.steps = 2;
	assert_true(ranks_open(&t.ranks, t.m, s, NULL, &why));
	gate = t.c.mem;
	if (setjmp(w->out) == 0) {
		w->left = requests;
		assert_true(sim_run(&t.ranks, &t.o, &t.res));
		through = true;
	}
	w->left = -1;
	assert_true(t.c.mem.get == gate.get && t.c.mem.user == gate.user);
	close_text();
	assert_int_equal(w->live, 0);
	return through;
}

static void
test_out_of_memory(void **state)
{
	struct scarce w = { .left = -1 };
	struct sched *s;
	struct arena a;
	struct mem mem;
	const char *why, *text;
	int n = 0;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	s = sched_make(&a, "1f1b", 2, 1, 2, &why);
	text = pipe_text(&a, s, false, 2);
	while (!run_within(&w, text, s, n)) {
		n += 1 + n / 100;
	}
	assert_true(n > 100);
	arena_release(&a);
}

static void
test_max_bytes(void **state)
{
	(void)state;
	open_text(NULL, HEAD "axis dp = 2\nlayer stage0_forward() {\n"
		  "  %0 = const value=1 : f32[a]\n"
		  "  %1 = neg %0 : f32[a]\n  return %1\n}\n");
	t.o.max_bytes = 60;
	assert_false(run(row_of(1, 1)));
	assert_non_null(strstr(messages(), "the limit is 60"));
	close_text();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_pipelines),
		cmocka_unit_test(test_swapped),
		cmocka_unit_test(test_shares_swapped),
		cmocka_unit_test(test_ended),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_saves),
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_absent),
		cmocka_unit_test(test_disagree),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_max_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

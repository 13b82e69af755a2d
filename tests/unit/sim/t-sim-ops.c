/*
 * Every op that knows of ranks, split in each of its ways, against the plain
 * interpreter, which runs the same text as if there were one rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/sim/t-sim.h"

/* ---- what the plain interpreter makes of it ---- */

struct sum {
	const char *name;
	double *data;
	int64_t elems;
};

static struct sum sums[8];
static uint32_t nsums;

static bool
put_sum(void *user, enum ir_op op, const char *name,
	const struct ir_type *type, int64_t elems, const double *data,
	struct span at)
{
	struct sum *s = &sums[nsums++];

	(void)user;
	(void)type;
	(void)at;
	assert_int_equal(op, IR_ACCUMULATE);
	assert_true(nsums <= 8);
	s->name = arena_strndup(&t.c.perm, name, strlen(name));
	s->data = arena_dup(&t.c.perm, data, (size_t)elems * sizeof *data);
	s->elems = elems;
	return true;
}

static void
compare(const struct sim_tensor *got, const char *name, const double *want,
	int64_t elems)
{
	int64_t i;

	assert_non_null(got);
	assert_int_equal(got->elems, elems);
	for (i = 0; i < elems; i++) {
		near(name, got->data[i], want[i]);
	}
}

/* One stage on all ranks is as on one. */
static void
same(const char *mesh, const char *body)
{
	struct ir_weights from = { .put = put_sum };
	struct ir_eval_options opt = { .seed = SEED, .weights = &from };
	struct ir_eval_result res[IR_MAX_ARGS];
	uint32_t i, n, time = 1;
	char text[8192];
	axis_id a;

	snprintf(text, sizeof text, "llmc-ir 1\n%s\n"
		 "layer stage0_forward() {\n%s}\n", mesh, body);
	open_text(NULL, text);
	for (a = 1; a < t.m->axes.n; a++) {
		if (t.m->axes.at[a].time) {
			time = (uint32_t)t.m->axes.at[a].size;
		}
	}
	must_run(forwards(time));
	nsums = 0;
	opt.func = t.ranks.of_stage[0][SCHED_F];
	assert_true(ir_eval(t.m, &opt, res, IR_MAX_ARGS, &n));
	assert_int_equal(n, t.res.nresults);
	for (i = 0; i < n; i++) {
		compare(&t.res.results[i], "result", res[i].data,
			res[i].elems);
	}
	assert_int_equal(nsums, t.res.gradients.n);
	for (i = 0; i < nsums; i++) {
		compare(sim_gradient(&t.res, sums[i].name), sums[i].name,
			sums[i].data, sums[i].elems);
	}
	close_text();
}

#define DIMS \
	"dim batch = 7\ndim seq = 7\ndim hidden = 10\ndim ffn = 5\n" \
	"dim heads = 4\ndim kv = 2\ndim hd = 4\ndim vd = 3\n" \
	"dim vocab = 11\ndim expert = 5\ndim top = 2\ndim one = 1\n" \
	"dim keys = 9\n"

/* ---- between placements ---- */

static void
test_collectives(void **state)
{
	static const char body[] =
		"  %0 = input name=\"x\" : f32[batch:dp, hidden:tp]\n"
		"  %1 = weight name=\"w\" : f32[ffn, hidden:tp]\n"
		"  %2 = dot %0, %1 over=hidden : f32[batch:dp, ffn]{+tp}\n"
		"  %3 = all_reduce %2 on=tp : f32[batch:dp, ffn]\n"
		"  %4 = reduce_scatter %2 on=tp of=ffn"
		" : f32[batch:dp, ffn:tp]\n"
		"  %5 = all_gather %4 on=tp of=ffn : f32[batch:dp, ffn]\n"
		"  %6 = all_to_all %4 on=tp of=ffn to=batch"
		" : f32[batch:dp:tp, ffn]\n"
		"  %7 = shard %3 on=tp of=batch : f32[batch:dp:tp, ffn]\n"
		"  %8 = add %6, %7 : f32[batch:dp:tp, ffn]\n"
		"  %9 = all_gather %8 on=(dp, tp) of=batch"
		" : f32[batch, ffn]\n"
		"  %10 = once %3 on=tp : f32[batch:dp, ffn]{+tp}\n"
		"  %11 = all_gather %10 on=dp of=batch"
		" : f32[batch, ffn]{+tp}\n"
		"  %12 = once %11 on=dp : f32[batch, ffn]{+dp, +tp}\n"
		"  %13 = all_reduce %12 on=(dp, tp) : f32[batch, ffn]\n"
		"  %14 = reduce_scatter %12 on=(dp, tp) of=batch"
		" : f32[batch:dp:tp, ffn]\n"
		"  return %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13,"
		" %14\n";

	(void)state;
	same(DIMS "axis dp = 2\naxis tp = 3\n", body);
	same(DIMS "axis dp = 2 balanced\naxis tp = 3\n", body);
	same(DIMS "axis tp = 3 balanced\naxis dp = 4 balanced\n", body);
	/* more ranks than positions */
	same(DIMS "axis dp = 4\naxis tp = 6\n", body);
	same(DIMS "axis dp = 1\naxis tp = 1\n", body);
}

/* ---- rows ---- */

static void
test_rows(void **state)
{
	static const char body[] =
		"  %0 = input name=\"x\" : f32[batch:dp, seq, hidden:tp]\n"
		"  %1 = softmax %0 over=hidden on=tp"
		" : f32[batch:dp, seq, hidden:tp]\n"
		"  %2 = weight name=\"w\" : f32[hidden:tp]\n"
		"  %3 = rmsnorm %0, %2 over=hidden eps=1e-5 on=tp"
		" : f32[batch:dp, seq, hidden:tp]\n"
		"  %4 = weight name=\"b\" : f32[hidden:tp]\n"
		"  %5 = layernorm %0, %2, %4 over=hidden eps=1e-5 on=tp"
		" : f32[batch:dp, seq, hidden:tp]\n"
		"  %6 = mean %0 over=(hidden, seq) : f32[batch:dp]{+tp}\n"
		"  %7 = sum %0 over=(batch, hidden) : f32[seq]{+dp, +tp}\n"
		"  %8 = softmax %0 over=(seq, hidden) on=tp"
		" : f32[batch:dp, seq, hidden:tp]\n"
		"  %9 = softmax %0 over=(batch, hidden) on=(dp, tp)"
		" : f32[batch:dp, seq, hidden:tp]\n"
		"  return %1, %3, %5, %6, %7, %8, %9\n";

	(void)state;
	same(DIMS "axis dp = 2\naxis tp = 3\n", body);
	same(DIMS "axis tp = 4 balanced\naxis dp = 3\n", body);
	same(DIMS "axis tp = 6\naxis dp = 5\n", body);
}

static void
test_vocab(void **state)
{
	static const char body[] =
		"  %0 = input name=\"tokens\" : idx<vocab>[batch:dp, seq]\n"
		"  %1 = weight name=\"e\" : f32[vocab:tp, hidden]\n"
		"  %2 = gather %1, %0 of=vocab"
		" : f32[batch:dp, seq, hidden]{+tp}\n"
		"  %3 = all_reduce %2 on=tp : f32[batch:dp, seq, hidden]\n"
		"  %4 = dot %3, %1 over=hidden"
		" : f32[batch:dp, seq, vocab:tp]\n"
		"  %5 = input name=\"labels\" : idx<vocab>[batch:dp, seq]\n"
		"  %6 = cross_entropy %4, %5 on=tp : f32[batch:dp, seq]\n"
		"  %7 = mean %6 over=(batch, seq) : f32[]{+dp}\n"
		"  %10 = amax %4 over=vocab on=tp : f32[batch:dp, seq]\n"
		"  %11 = quantize %4, %10"
		" : f8e4m3[batch:dp, seq, vocab:tp]\n"
		"  %8 = onehot %5 of=vocab : f32[batch:dp, seq, vocab:tp]\n"
		"  %9 = scatter %3, %0 of=vocab over=(batch, seq)"
		" : f32[vocab:tp, hidden]{+dp}\n"
		"  %12 = log_sum_exp %4 over=vocab on=tp"
		" : f32[batch:dp, seq]\n"
		"  return %2, %4, %6, %7, %8, %9, %10, %11, %12\n";

	(void)state;
	same(DIMS "axis dp = 2\naxis tp = 3\n", body);
	same(DIMS "axis dp = 3\naxis tp = 2 balanced\n", body);
	same(DIMS "axis dp = 1\naxis tp = 8\n", body);
}

/* ---- positions ---- */

#define ATTENTION(q, k, attrs, on) \
	"  %q.0 = input name=\"q\" : f32[batch, " q ", hd]\n" \
	"  %k.1 = input name=\"k\" : f32[batch, " k ", hd]\n" \
	"  %v.2 = input name=\"v\" : f32[batch, " k ", vd]\n" \
	"  %y.3 = attention %q.0, %k.1, %v.2 " attrs on \
	" : f32[batch, " q ", vd]\n" \
	"  %g.4 = input name=\"g\" : f32[batch, " q ", vd]\n" \
	"  %l.5 = attention_lse %q.0, %k.1 " attrs on \
	" : f32[batch, " q "]\n" \
	"  %6 = mul %g.4, %y.3 : f32[batch, " q ", vd]\n" \
	"  %d.7 = sum %6 over=vd : f32[batch, " q "]\n" \
	"  %8 = attention_dq %q.0, %k.1, %v.2, %g.4, %l.5, %d.7 " attrs on \
	" : f32[batch, " q ", hd]\n"

#define SUMS(k, mark, attrs, on) \
	"  %9 = attention_dk %q.0, %k.1, %v.2, %g.4, %l.5, %d.7 " attrs on \
	" : f32[batch, " k ", hd]" mark "\n" \
	"  %10 = attention_dv %q.0, %k.1, %g.4, %l.5 " attrs on \
	" : f32[batch, " k ", vd]" mark "\n" \
	"  return %y.3, %l.5, %8, %9, %10\n"

#define RING(attrs) \
	ATTENTION("seq:cp, heads:tp", "seq:cp, kv:tp", attrs, "on=cp") \
	SUMS("seq:cp, kv:tp", "", attrs, "on=cp")

static void
test_ring(void **state)
{
	static const char *const meshes[] = {
		DIMS "axis cp = 3\naxis tp = 2\n",
		DIMS "axis cp = 4\naxis tp = 1\n",
		DIMS "axis tp = 2\naxis cp = 3 balanced\n",
		DIMS "axis cp = 4 balanced\naxis tp = 2\n",
		DIMS "axis cp = 1\naxis tp = 2\n"
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof meshes / sizeof *meshes; i++) {
		same(meshes[i], RING(""));
		same(meshes[i], RING("causal "));
		same(meshes[i], RING("causal window=3 "));
		same(meshes[i], RING("window=2 scale=0.5 "));
	}
}

/* Two axes make one ring; another that splits the same dim is outside. */
static void
test_ring_of_two(void **state)
{
	(void)state;
	same(DIMS "axis a = 2\naxis b = 2\n",
	     ATTENTION("seq:a:b, heads", "seq:a:b, kv", "causal ",
		       "on=(a, b)")
	     SUMS("seq:a:b, kv", "", "causal ", "on=(a, b)"));
	same(DIMS "axis a = 2\naxis b = 3 balanced\n",
	     ATTENTION("seq:a:b, heads", "seq:a:b, kv", "causal ",
		       "on=(a, b)")
	     SUMS("seq:a:b, kv", "", "causal ", "on=(a, b)"));
}

/* Queries split and keys whole, and heads split and kv heads whole. */
static void
test_attention_alone(void **state)
{
	(void)state;
	same(DIMS "axis cp = 3\n",
	     ATTENTION("seq:cp, heads", "seq, kv", "causal ", "")
	     SUMS("seq, kv", "{+cp}", "causal ", ""));
	same(DIMS "axis cp = 2 balanced\n",
	     ATTENTION("seq:cp, heads", "keys, kv", "causal window=4 ", "")
	     SUMS("keys, kv", "{+cp}", "causal window=4 ", ""));
	same(DIMS "axis tp = 4\n",
	     ATTENTION("seq, heads:tp", "seq, kv", "causal ", "")
	     SUMS("seq, kv", "{+tp}", "causal ", ""));
	same(DIMS "axis tp = 3\n",
	     ATTENTION("seq, heads:tp", "seq, kv", "", "")
	     SUMS("seq, kv", "{+tp}", "", ""));
	same(DIMS "axis tp = 2\naxis ep = 2\n",
	     ATTENTION("seq, heads:tp:ep", "seq, kv:tp", "causal ", "")
	     SUMS("seq, kv:tp", "{+ep}", "causal ", ""));
}

static void
test_rope(void **state)
{
	static const char body[] =
		"  %0 = input name=\"x\" : f32[batch, seq:cp, hd]\n"
		"  %1 = rope %0 seq=seq theta=10000 : f32[batch, seq:cp, hd]\n"
		"  %2 = rope %0 seq=seq theta=100 interleaved inverse"
		" : f32[batch, seq:cp, hd]\n"
		"  %3 = select %0 of=hd at=2 : f32[batch, seq:cp]\n"
		"  %4 = put %3 of=vd at=1 : f32[batch, seq:cp, vd]\n"
		"  %5 = expand %3 over=ffn : f32[batch, seq:cp, ffn]\n"
		"  %6 = arrange %5 over=(ffn, seq, batch)"
		" : f32[ffn, seq:cp, batch]\n"
		"  %7 = slice %0 of=hd to=vd at=1 : f32[batch, seq:cp, vd]\n"
		"  %8 = pad %7 of=vd to=hd at=0 : f32[batch, seq:cp, hd]\n"
		"  %9 = input name=\"p\" : f32[batch, seq:cp]\n"
		"  %10 = rope_at %0, %9 theta=100 : f32[batch, seq:cp, hd]\n"
		"  return %1, %2, %4, %6, %8, %10\n";

	(void)state;
	same(DIMS "axis cp = 3\n", body);
	same(DIMS "axis cp = 3 balanced\n", body);
}

/* ---- experts ---- */

/* Each rank does its experts for all tokens, and the sums are reduced. */
static void
test_experts_summed(void **state)
{
	static const char body[] =
		"  %0 = input name=\"x\" : f32[batch:dp, hidden]\n"
		"  %1 = input name=\"to\" : idx<expert>[batch:dp, top]\n"
		"  %2 = weight name=\"e.{expert}.w\""
		" : f32[expert:ep, ffn, hidden]\n"
		"  %3 = dot_at %0, %1, %2 over=hidden of=expert"
		" : f32[batch:dp, top, ffn]{+ep}\n"
		"  %4 = all_reduce %3 on=ep : f32[batch:dp, top, ffn]\n"
		"  %5 = dot_to %0, %4, %1 of=expert"
		" : f32[expert:ep, ffn, hidden]{+dp}\n"
		"  accumulate %5 name=\"e.{expert}.w\"\n"
		"  return %3, %4, %5\n";

	(void)state;
	same(DIMS "axis dp = 2\naxis ep = 2\n", body);
	same(DIMS "axis ep = 3\naxis dp = 1\n", body);
	same(DIMS "axis ep = 4\naxis dp = 3\n", body);
}

/* Tokens go to the ranks of their experts, and come back. */
static void
test_experts_routed(void **state)
{
	static const char body[] =
		"  %0 = input name=\"x\" : f32[batch:ep, seq:cp, hidden]\n"
		"  %1 = input name=\"to\" : idx<expert>[batch:ep, seq:cp, top]"
		"\n"
		"  %2 = all_gather %1 on=ep of=batch"
		" : idx<expert>[batch, seq:cp, top]\n"
		"  %3 = dispatch %0, %2 on=ep of=batch"
		" : f32[batch, seq:cp, hidden]{@ep}\n"
		"  %4 = weight name=\"e.{expert}.w\""
		" : f32[expert:ep, ffn, hidden]\n"
		"  %5 = dot_at %3, %2, %4 over=hidden of=expert"
		" : f32[batch, seq:cp, top, ffn]{@ep}\n"
		"  %6 = silu %5 : f32[batch, seq:cp, top, ffn]{@ep}\n"
		"  %7 = combine %6, %2 on=ep of=batch"
		" : f32[batch:ep, seq:cp, top, ffn]\n"
		"  %8 = dispatch %7, %2 on=ep of=batch"
		" : f32[batch, seq:cp, top, ffn]{@ep}\n"
		"  %9 = dot_to %3, %8, %2 of=expert"
		" : f32[expert:ep, ffn, hidden]{+cp}\n"
		"  accumulate %9 name=\"e.{expert}.w\"\n"
		"  %10 = dot_at %8, %2, %4 over=ffn of=expert"
		" : f32[batch, seq:cp, top, hidden]{@ep}\n"
		"  %11 = combine %10, %2 on=ep of=batch"
		" : f32[batch:ep, seq:cp, top, hidden]\n"
		"  return %7, %11\n";

	(void)state;
	same(DIMS "axis ep = 2\naxis cp = 1\n", body);
	same(DIMS "axis ep = 3\naxis cp = 2\n", body);
	same(DIMS "axis cp = 2\naxis ep = 4\n", body);
}

/* ---- microbatches ---- */

static void
test_time(void **state)
{
	static const char body[] =
		"  %0 = input name=\"tokens\" : idx<vocab>[batch:mb:dp, seq]\n"
		"  %1 = weight name=\"e\" : f32[vocab, hidden:tp]\n"
		"  %2 = gather %1, %0 of=vocab"
		" : f32[batch:mb:dp, seq, hidden:tp]\n"
		"  %3 = mul %2, %2 : f32[batch:mb:dp, seq, hidden:tp]\n"
		"  %4 = mean %3 over=(batch, seq, hidden)"
		" : f32[]{+mb, +dp, +tp}\n"
		"  %5 = all_reduce %4 on=(dp, tp) : f32[]{+mb}\n"
		"  %6 = scatter %2, %0 of=vocab over=(batch, seq)"
		" : f32[vocab, hidden:tp]{+mb, +dp}\n"
		"  accumulate %6 name=\"e\"\n"
		"  repeat count=2 var=i () {\n"
		"    %7 = sum %2 over=(batch, seq) : f32[hidden:tp]{+mb, +dp}"
		"\n"
		"    %8 = all_reduce %7 on=dp : f32[hidden:tp]{+mb}\n"
		"    accumulate %8 name=\"h.{i}\"\n"
		"    yield\n"
		"  }\n"
		"  return %5, %3\n";

	(void)state;
	same(DIMS "axis mb = 3 time\naxis dp = 2\naxis tp = 2\n", body);
	same(DIMS "axis mb = 4 time\naxis dp = 3\naxis tp = 4\n", body);
	same(DIMS "axis mb = 1 time\naxis dp = 2\naxis tp = 3 balanced\n",
	     body);
	same(DIMS "axis dp = 2\naxis mb = 5 time\naxis tp = 1\n", body);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_vocab),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_ring_of_two),
		cmocka_unit_test(test_attention_alone),
		cmocka_unit_test(test_rope),
		cmocka_unit_test(test_experts_summed),
		cmocka_unit_test(test_experts_routed),
		cmocka_unit_test(test_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Inputs that a rank makes of token files: what documents make of positions,
 * and which labels count in the loss.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/runtime/t-alone.h"

static const struct rt_plan toy = TOY_PLAN(1);

static void
fill_fails(struct bed *b, const struct rt_feed *feed, const char *why)
{
	assert_int_equal(rt_feed_fill_inputs(b->r, feed, &b->err), RT_RANGE);
	assert_non_null(strstr(b->err.message, why));
}

/* Whether a rank has the numbers of positions 2, 3 and 0 of its sequences. */
static void
are_numbers(const struct rt_port *in, const char *got)
{
	int32_t token[TOY_SEQ + 1];
	int64_t row, i, want;

	for (row = 0; row < TOY_BATCH / 2; row++) {
		rt_blend_get(NULL, 5 + row, 0, TOY_SEQ + 1, token, NULL);
		for (i = 0; i < 3; i++, got += 4) {
			want = t_number_of(in->name, token,
					   i == 2 ? 0 : 2 + i);
			assert_true(in->elem == RT_ELEM_F32
				? *(const float *)(const void *)got ==
					(float)want
				: *(const int32_t *)(const void *)got ==
					(int32_t)want);
		}
	}
}

/*
 * What documents make of positions, of the parts of sequences that a rank has:
 * as whole numbers and as f32.
 */
static void
test_documents(void **state)
{
	static const char *const names[] = {
		"documents", "positions", "document_first", "document_last",
		"prefix_last", "loss_mask"
	};
	static const struct rt_pieces part = { 2, 3, { { 2, 2 }, { 0, 1 } } };
	static const struct rt_spread seq = { TOY_SEQ, 0, &part };
	const struct rt_spread *dims[2] = { toy_inputs1[0].dims[0], &seq };
	struct rt_feed feed = rt_feed_of(NULL, 5, &unmarked);
	struct rt_port in = toy_inputs1[0];
	struct rt_program g = toy_program1;
	struct rt_plan p = toy;
	int64_t k;
	struct bed b;

	(void)state;
	in.dims = dims;
	g.inputs = &in;
	g.ninputs = 1;
	p.programs = &g;
	for (k = 0; k < 12; k++) {
		in.name = names[k / 2];
		in.elem = k % 2 ? RT_ELEM_F32 : RT_ELEM_I32;
		in.below = TOY_VOCAB;
		feed.marks = (struct rt_marks){ 8, 3, 5 };
		open_plan(&b, &p, 1);
		assert_int_equal(rt_feed_fill_inputs(b.r, &feed, &b.err),
				 RT_OK);
		are_numbers(&in, b.comm.arena + TOY_IN);
		in.below = 1;
		if (k % 2 == 0) {
			fill_fails(&b, &feed, "the model has 0 to 0: give the "
				   "dim");
		}
		feed.marks.document_end = -1;
		fill_fails(&b, &feed, "--document-end N");
		feed.marks = (struct rt_marks){ 8, -1, -1 };
		in.below = TOY_VOCAB;
		if (k == 8 || k == 9) {
			fill_fails(&b, &feed, "--prefix-end N");
		}
		close_plan(&b);
	}
}

/* How many labels of the whole batch count, on a rank that has half of it. */
static void
test_loss_tokens(void **state)
{
	struct rt_feed feed = rt_feed_of(NULL, 5, &unmarked);
	struct rt_port in[2] = { toy_inputs1[0], toy_inputs1[0] };
	struct rt_program g = toy_program1;
	struct rt_plan p = toy;
	int32_t token[TOY_SEQ + 1];
	int64_t k, row, i, want;
	struct bed b;

	(void)state;
	in[1].name = "loss_tokens";
	in[1].elem = RT_ELEM_F32;
	in[1].ndims = 0;
	in[1].offset = TOY_M;
	g.inputs = in;
	g.ninputs = 2;
	p.programs = &g;
	for (k = 0; k < 2; k++) {
		feed.marks = (struct rt_marks){ k ? 8 : -1, k ? 3 : -1, 5 };
		open_plan(&b, &p, 1);
		assert_int_equal(rt_feed_fill_inputs(b.r, &feed, &b.err),
				 RT_OK);
		for (want = 0, row = 0; row < TOY_BATCH; row++) {
			rt_blend_get(NULL, 5 + row, 0, TOY_SEQ + 1, token,
				     NULL);
			for (i = 0; i < TOY_SEQ; i++) {
				want += k ? t_number_of("loss_mask", token, i)
					  : token[i + 1] != 5;
			}
		}
		assert_true(*(const float *)(const void *)
				    (b.comm.arena + in[1].offset) ==
			    (float)want);
		close_plan(&b);
	}
	feed.marks = unmarked;
	open_plan(&b, &p, 1);
	fill_fails(&b, &feed, "--ignore-label N, or the token that ends a "
		   "document");
	feed.marks.prefix_end = 3;
	feed.marks.ignored = 5;
	fill_fails(&b, &feed, "--document-end N");
	in[1].elem = RT_ELEM_I32;
	fill_fails(&b, &feed, "loss_tokens, f32[]");
	close_plan(&b);
}

/* Two sequences of three positions after four each, and a position more. */
static void
test_full_step(void **state)
{
	static const struct rt_load load = { 2, 3, 4 };
	static const int64_t first[] = { 0, 0, 0, 7, 7, 7, 0 };
	static const int64_t last[] = { 4, 5, 6, 11, 12, 13, 0 };
	int64_t i;

	(void)state;
	for (i = 0; i < 7; i++) {
		assert_int_equal(rt_full_step_number(&load, "first", i),
				 first[i]);
		assert_int_equal(rt_full_step_number(&load, "last", i),
				 last[i]);
		assert_int_equal(rt_full_step_number(&load, "slot", i),
				 last[i]);
		assert_int_equal(rt_full_step_number(&load, "key", i), i);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full_step),
		cmocka_unit_test(test_documents),
		cmocka_unit_test(test_loss_tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

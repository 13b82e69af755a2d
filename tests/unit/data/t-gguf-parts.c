/*
 * A model in several files of llama.cpp: it is opened by the first of three
 * that are made here.  Files that are no parts of one model, or not all of it,
 * are refused.
 */
#include "runtime/data/safetensors.h"
#include "tests/unit/data/t-gguf.h"
#include "tests/unit/data/t-safetensors.h"
#include "tests/unit/shared/t-weights-files.h"

/* ---- files that are made here ---------------------------------------- */

/* A part of a model of three tensors, in files of which this one has one. */
struct part {
	uint64_t no, count, tensors;
	const char *tensor;
	float number;
};

static const struct part parts[] = {
	{ 0, 3, 3, "b", 1 }, { 1, 3, 3, "a", 2 }, { 2, 3, 3, "c", 3 }
};

static size_t
make_part(const struct part *p)
{
	int dims = strchr(p->tensor, '.') ? 3 : 1, i;
	unsigned char *at = begin_file(p->no ? 3 : 4);
	uint32_t bits;

	memcpy(&bits, &p->number, sizeof(bits));
	if (p->no == 0) {
		at = add_text(at, "general.architecture");
		at = add_text(add_number(at, 8, 4),
			      dims == 3 ? "gpt-oss" : "qwen2");
	}
	at = add_number(add_text(at, "split.no"), 2, 4);
	at = add_number(at, p->no, 2);
	at = add_number(add_text(at, "split.count"), 2, 4);
	at = add_number(at, p->count, 2);
	at = add_number(add_text(at, "split.tensors.count"), 5, 4);
	at = add_number(at, p->tensors, 4);
	at = add_number(add_text(at, p->tensor), (uint64_t)dims, 4);
	for (i = 0; i < dims; i++) {
		at = add_number(at, 1, 8);
	}
	at = add_number(at, 0, 4);
	at = add_zeros(add_number(at, 0, 8));
	return (size_t)(add_number(at, bits, 4) - whole_file);
}

/* Writes part p as file `no` of three. */
static const char *
put_part(int no, const struct part *p)
{
	static char path[64];
	size_t n = make_part(p);
	FILE *f;

	snprintf(path, sizeof(path), "t-gguf-%ld-%05d-of-00003.gguf",
		 (long)getpid(), no + 1);
	f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(whole_file, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	return path;
}

/* With another as part `no`, or none if that has no tensor, opening the first
 * says these words; NULL: all is well. */
static void
try_parts(uint32_t no, const struct part *other, const char *words)
{
	struct rt_error err = { 0 };
	struct rt_st *st;
	enum rt_status status;
	char first[64];
	double v = 0;
	uint32_t i;

	for (i = 0; i < 3; i++) {
		const char *path = put_part((int)i, i == no ? other
							    : &parts[i]);

		if (i == no && !other->tensor[0]) {
			unlink(path);
		}
		memcpy(first, i == 0 ? path : first, sizeof(first));
	}
	status = rt_st_open_any(&st, first, NULL, &err);
	for (i = 0; i < 3; i++) {
		unlink(put_part((int)i, &parts[i]));
	}
	if (words) {
		assert_null(st);
		if (status == RT_OK || !strstr(err.message, words)) {
			fail_msg("expected %s: %s", words, err.message);
		}
		return;
	}
	assert_int_equal(rt_st_count(st), 3);
	for (i = 0; i < 3; i++) {
		const struct rt_st_tensor *t = rt_st_find(st, parts[i].tensor);

		assert_non_null(t);
		assert_int_equal(rt_st_read_f64(st, t, 0, 1, &v, &err), RT_OK);
		assert_true(v == (double)parts[i].number);
	}
	rt_st_free(st);
}

/* A model in three files is opened by the first.  Files that are not parts of
 * one model, or not all of it, are refused. */
static void
test_parts(void **state)
{
	static const struct part others[] = {
		{ 1, 3, 3, "", 0 }, { 2, 3, 3, "a", 2 }, { 1, 2, 3, "a", 2 },
		{ 1, 3, 4, "a", 2 }, { 1, 3, 3, "b", 2 }
	};
	static const struct part firsts[] = {
		{ 0, 3, 2, "b", 1 }, { 0, 3, 4, "b", 1 },
		{ 0, 3, 1 << 30, "b", 1 }, { 1, 3, 3, "b", 1 },
		{ 0, 2, 3, "b", 1 }, { 3, 3, 3, "b", 1 },
		{ 0, 65535, 3, "b", 1 }
	};

	(void)state;
	try_parts(1, &parts[1], NULL);
	try_parts(1, &others[0], "-00002-of-00003.gguf");
	try_parts(1, &others[1], "found split.no 2 of 3 and 3 tensors, "
		  "expected 1 of 3 and 3");
	try_parts(1, &others[2], "found split.no 1 of 2 and 3 tensors");
	try_parts(1, &others[3], "and 4 tensors, expected 1 of 3 and 3");
	try_parts(1, &others[4], "-00002-of-00003.gguf: tensor 'b': found the "
		  "name 2 times");
	try_parts(0, &firsts[0], "found split.no 1 of 3 and 3 tensors, "
		  "expected 1 of 3 and 2");
	try_parts(0, &firsts[1], "expected 1 of 3 and 4");
	try_parts(0, &firsts[2], "found split.tensors.count 1073741824, "
		  "expected at most the ");
	try_parts(0, &firsts[3], "expected a name that ends in -00002-of-00003"
		  ".gguf");
	try_parts(0, &firsts[4], "expected a name that ends in -00001-of-00002"
		  ".gguf");
	try_parts(0, &firsts[5], "without a split.no below it");
	try_parts(0, &firsts[6], "expected a name that ends in -00001-of-65535"
		  ".gguf");
}

/* Two tensors that are read as one lie in files of their own. */
static void
test_joined(void **state)
{
	static const struct part of[] = {
		{ 0, 3, 3, "blk.0.ffn_gate_exps.weight", 4 },
		{ 1, 3, 3, "c", 5 }, { 2, 3, 3, "blk.0.ffn_up_exps.weight", 6 }
	};
	const struct rt_st_tensor *t;
	struct rt_error err = { 0 };
	struct rt_st *st;
	double v[2] = { 0 };
	char first[64];
	int i;

	(void)state;
	for (i = 2; i >= 0; i--) {
		memcpy(first, put_part(i, &of[i]), sizeof(first));
	}
	assert_int_equal(rt_st_open_any(&st, first, NULL, &err), RT_OK);
	assert_int_equal(rt_st_count(st), 2);
	t = rt_st_find(st, "model.layers.0.mlp.experts.gate_up_proj");
	assert_non_null(t);
	assert_int_equal(rt_st_read_f64(st, t, 0, 2, v, &err), RT_OK);
	assert_true(v[0] == 4 && v[1] == 6);
	rt_st_free(st);
	for (i = 0; i < 3; i++) {
		unlink(put_part(i, &of[i]));
	}
}

/* ---- memory ---------------------------------------------------------- */

/* Reads of the last file. */
static enum rt_status
read_last(struct rt_st *st, struct rt_error *err)
{
	double v;

	return rt_st_read_f64(st, rt_st_find(st, "embed_out.weight"), 0, 1, &v,
			      err);
}

static void
test_memory(void **state)
{
	(void)state;
	assert_true(t_starve(t_interop("gguf", "gpt_neox",
				       "model-00001-of-00003.gguf"),
			     read_last) > 8);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_joined),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

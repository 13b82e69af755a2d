/*
 * Weights as llama.cpp stores them: what files of tests/interop/make_gguf.py
 * have, whole and in parts, and files that are damaged.
 */
#include "runtime/data/safetensors.h"
#include "tests/unit/data/t-gguf.h"
#include "tests/unit/data/t-safetensors.h"
#include "tests/unit/shared/t-cases.h"
#include "tests/unit/shared/t-weights-files.h"

#include <math.h>

enum { MOST = 1 << 16 };

static size_t file_bytes;

/* ---- numbers --------------------------------------------------------- */

static void
check_file(const char *family, const char *file, size_t count)
{
	struct rt_st *st = t_open_good(t_interop("gguf", family, file));
	struct rt_st *want = t_open_good(t_interop("gguf", family,
						   "model.safetensors"));
	static double a[MOST], b[MOST];
	struct rt_error err = { 0 };
	unsigned seed = 7;
	size_t i;

	assert_int_equal(rt_st_count(want), count);
	assert_int_equal(rt_st_count(st), count);
	for (i = 0; i < count; i++) {
		const struct rt_st_tensor *w = rt_st_at(want, i);
		const struct rt_st_tensor *t = rt_st_at(st, i);
		size_t n = (size_t)rt_st_elems(w);

		assert_string_equal(t->name, w->name);
		assert_int_equal(t->ndim, w->ndim);
		assert_memory_equal(t->shape, w->shape,
				    (size_t)w->ndim * sizeof(w->shape[0]));
		assert_true(n <= MOST);
		rt_st_read_f64(st, t, 0, (int64_t)n, a, &err);
		rt_st_read_f64(want, w, 0, (int64_t)n, b, &err);
		assert_string_equal(err.message, "");
		if (memcmp(a, b, n * sizeof(*a)) != 0) {
			fail_msg("%s of %s has other numbers", t->name, family);
		}
		t_check_parts(st, t, b, 30, &seed);
	}
	rt_st_free(want);
	rt_st_free(st);
}

static void
check_family(const char *family, size_t count)
{
	check_file(family, "model.gguf", count);
}

static void
test_families(void **state)
{
	(void)state;
	check_family("llama", 30);
	check_family("qwen2", 15);
	check_family("mixtral", 19);
	check_family("qwen3_moe", 21);
	check_family("qwen2_moe", 55);
	check_family("gemma", 20);
	check_family("gemma2", 35);
	check_family("gemma3", 93);
	check_family("granite", 21);
	check_family("olmo2", 25);
	check_family("phi3", 15);
	check_family("phi3_long", 17);
	check_family("starcoder2", 35);
	check_family("deepseek_v2", 48);
	check_family("deepseek_v3", 53);
	check_family("deepseek_v3_yarn", 53);
	check_family("gpt_oss", 37);
	check_family("gpt2", 28);
	check_file("gpt_neox", "model-00001-of-00003.gguf", 28);
}

/* Every type whose numbers lie in blocks, in all that its bits can say. */
static void
test_types(void **state)
{
	(void)state;
	check_family("types", 15);
}

/* ---- damaged files --------------------------------------------------- */

static void
read_whole(const char *family)
{
	FILE *f = fopen(t_interop("gguf", family, "model.gguf"), "rb");

	assert_non_null(f);
	file_bytes = fread(whole_file, 1, sizeof(whole_file), f);
	assert_true(file_bytes > 4000 && file_bytes < sizeof(whole_file));
	fclose(f);
}

/* Writes bytes to a file, whose path is good until the next call. */
static const char *
put_file(const unsigned char *bytes, size_t n)
{
	static char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "t-gguf-%ld.gguf", (long)getpid());
	f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	return path;
}

/* What bytes of a file are opened as; all of what is accepted can be read. */
static enum rt_status
try_bytes(const unsigned char *bytes, size_t n, struct rt_error *err)
{
	const char *path = put_file(bytes, n);
	static double out[MOST];
	enum rt_status status;
	struct rt_st *st;
	size_t i;

	memset(err, 0, sizeof(*err));
	status = rt_st_open_any(&st, path, NULL, err);
	unlink(path);
	if (status != RT_OK) {
		assert_null(st);
		assert_true(status == RT_FORMAT);
		assert_true(strstr(err->message, path));
		if (!strstr(err->message, "expected")) {
			fail_msg("nothing is expected: %s", err->message);
		}
		return status;
	}
	for (i = 0; i < rt_st_count(st); i++) {
		const struct rt_st_tensor *t = rt_st_at(st, i);
		int64_t elems = rt_st_elems(t);

		assert_true(elems > 0 && elems <= MOST);
		assert_int_equal(rt_st_read_f64(st, t, 0, elems, out, err),
				 RT_OK);
	}
	rt_st_free(st);
	return status;
}

/* A file that ends too soon is never taken for a whole one. */
static void
test_truncated(void **state)
{
	size_t n, step = t_short() ? 97 : 7;
	struct rt_error err;

	(void)state;
	read_whole("qwen2");
	assert_int_equal(try_bytes(whole_file, file_bytes, &err), RT_OK);
	for (n = 0; n < file_bytes; n += n < 3000 ? 1 : step) {
		if (try_bytes(whole_file, n, &err) == RT_OK) {
			fail_msg("%zu bytes of %zu are accepted", n,
				 file_bytes);
		}
	}
}

/* Each byte before the data in turn is another: an error, or a file all of
 * whose tensors can be read. */
static void
test_damaged(void **state)
{
	static const unsigned char with[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	size_t i, k, step = t_short() ? 11 : 1, refused = 0;
	struct rt_error err;
	unsigned char was;

	(void)state;
	read_whole("qwen2");
	for (i = 0; i < 2200; i += step) {
		for (k = 0; k < sizeof(with); k++) {
			was = whole_file[i];
			whole_file[i] = with[k];
			refused += try_bytes(whole_file, file_bytes, &err) !=
				   RT_OK;
			whole_file[i] = was;
		}
	}
	assert_true(refused * step > 2000);
}

/* The place of a text in the file, or of what follows it. */
static size_t
place_of(const char *text)
{
	size_t n = strlen(text), i;

	for (i = 0; i + n <= file_bytes; i++) {
		if (memcmp(whole_file + i, text, n) == 0) {
			return i;
		}
	}
	fail_msg("no %s in the file", text);
	return 0;
}

/* After byte `at`, changed to v, the message has these words. */
static void
refuse(size_t at, unsigned char v, const char *words)
{
	unsigned char was = whole_file[at];
	struct rt_error err;

	whole_file[at] = v;
	assert_int_equal(try_bytes(whole_file, file_bytes, &err), RT_FORMAT);
	if (!strstr(err.message, words)) {
		fail_msg("expected %s: %s", words, err.message);
	}
	whole_file[at] = was;
}

static void
test_messages(void **state)
{
	size_t head, tensor;

	(void)state;
	read_whole("qwen2");
	for (head = 0; head < 24; head++) {
		struct rt_error err;

		try_bytes(whole_file, head, &err);
		assert_true(strstr(err.message, "found the end of the file "));
	}
	refuse(0, 'g', "found no 'GGUF' at the beginning");
	refuse(4, 2, "found version 2 of GGUF, expected 3");
	refuse(15, 1, "tensors, expected at most");
	head = place_of("general.architecture") + 20 + 4 + 8;
	refuse(head, 'r', "found general.architecture 'rwen2', expected llama, "
	       "qwen2, qwen3, qwen2moe, qwen3moe, gemma, ");
	/* u64 name, u32 dims, sizes, u32 type, u64 offset */
	tensor = place_of("blk.0.attn_q.weight") + 19;
	refuse(tensor, 9, "found 9 dimensions, expected 1 to 4");
	refuse(tensor + 4, 31, "rows of 31 elements of Q8_0, expected a "
	       "multiple of 32");
	refuse(tensor + 4 + 16, 9, "found type 9, Q8_1, expected one of F32");
	refuse(tensor + 4 + 16, 19, "found type 19, IQ1_S, expected one of F");
	refuse(tensor + 4 + 16, 40, "found type 40, NVFP4, expected one of F");
	refuse(tensor + 4 + 16, 99, "found type 99, which is not known, expec");
	refuse(tensor + 4 + 16, 12, "rows of 32 elements of Q4_K, expected a "
	       "multiple of 256");
	refuse(tensor + 4 + 16 + 4, 1, "expected a multiple of the alignment");
	refuse(tensor + 4 + 16 + 4 + 1, 0x55, "found its data elsewhere");
	refuse(place_of("blk.0.attn_k.weight") + 11, 'q', "found the name 2 "
	       "times");
	read_whole("gemma");
	refuse(place_of("blk.0.attn_norm.weight") + 22 + 4 + 8, 1,
	       "found a norm of F16, expected F32");
}

/* ---- files that are made here ---------------------------------------- */

/* A file that was merged of several says that it is one of 0; what parts of
 * several must say is in t-gguf-parts. */
static void
test_split(void **state)
{
	uint64_t count;

	(void)state;
	for (count = 0; count < 4; count++) {
		unsigned char *at = add_text(begin_file(2),
					     "general.architecture");
		struct rt_error err;
		bool whole;

		at = add_text(add_number(at, 8, 4), "qwen2");
		at = add_text(at, "split.count");
		at = add_number(add_number(at, 2, 4), count, 2);
		at = add_number(add_text(at, "a"), 1, 4);
		at = add_number(add_number(at, 1, 8), 0, 4);
		at = add_number(at, 0, 8);
		at = add_zeros(at);
		at = add_number(at, 0, 4);
		whole = try_bytes(whole_file, (size_t)(at - whole_file),
				  &err) == RT_OK;
		assert_int_equal(whole, count < 2);
		assert_true(whole || strstr(err.message, "without a split.no"));
	}
}

/* Keys and values that become one tensor are both there, and of one rank. */
static void
test_joined(void **state)
{
	struct rt_error err;
	unsigned char *sizes;

	(void)state;
	read_whole("gpt_oss");
	refuse(place_of("blk.0.ffn_up_exps.weight") + 8, 'z', "expected both: "
	       "ffn_gate_exps and ffn_up_exps");
	read_whole("deepseek_v3");
	refuse(place_of("blk.0.attn_v_b.weight") + 11, 'z',
	       "found one of two tensors that are read as this, expected "
	       "both: attn_k_b and attn_v_b");
	refuse(place_of("blk.0.attn_k_b.weight") + 11, 'z',
	       "expected both: attn_k_b and attn_v_b");
	/* [rank 4, values 3, heads 4], the first of which comes first */
	sizes = whole_file + place_of("blk.1.attn_v_b.weight") + 21 + 4;
	assert_int_equal(sizes[0], 4);
	assert_int_equal(sizes[8], 3);
	sizes[0] = 3;
	sizes[8] = 4;
	assert_int_equal(try_bytes(whole_file, file_bytes, &err), RT_FORMAT);
	assert_non_null(strstr(err.message, "found 4 matrices of 4 by 2 "
			       "beside 4 of 4 by 3, expected what goes with "
			       "them"));
}

/* Experts of some layers are more tensors than there may be. */
static void
test_many(void **state)
{
	enum { LAYERS = 257, EXPERTS = 4096, BYTES = 2 * EXPERTS };
	size_t bytes = 100 + LAYERS * (size_t)(80 + BYTES);
	unsigned char *file = calloc(bytes, 1), *at;
	struct rt_error err = { 0 };
	char name[40];
	int i;

	(void)state;
	assert_non_null(file);
	memcpy(file, "GGUF", 4);
	at = add_number(add_number(file + 4, 3, 4), LAYERS, 8);
	at = add_text(add_number(at, 1, 8), "general.architecture");
	at = add_text(add_number(at, 8, 4), "qwen3moe");
	for (i = 0; i < LAYERS; i++) {
		snprintf(name, sizeof(name), "blk.%d.ffn_up_exps.weight", i);
		at = add_number(add_text(at, name), 3, 4);
		at = add_number(add_number(at, 1, 8), 1, 8);
		at = add_number(add_number(at, EXPERTS, 8), 1, 4);
		at = add_number(at, (uint64_t)i * BYTES, 8);
	}
	at += 31 - (at - file + 31) % 32 + (size_t)LAYERS * BYTES;
	assert_true(at <= file + bytes);
	assert_int_equal(try_bytes(file, (size_t)(at - file), &err), RT_FORMAT);
	assert_non_null(strstr(err.message, "found 1052672 tensors with those "
			       "of experts, expected at most 1048576"));
	free(file);
}

/* Heads of keys that are said of no model yet are not taken for those of
 * queries. */
static void
test_early_heads(void **state)
{
	unsigned char *at = add_text(begin_file(3),
				     "llama.attention.head_count_kv");
	struct rt_error err;

	(void)state;
	at = add_text(add_number(add_number(at, 4, 4), 1, 4),
		      "general.architecture");
	at = add_text(add_number(at, 8, 4), "llama");
	at = add_text(at, "llama.attention.head_count");
	at = add_number(add_number(at, 4, 4), 2, 4);
	at = add_number(add_text(at, "blk.0.attn_k.weight"), 1, 4);
	at = add_number(add_number(add_number(at, 4, 8), 0, 4), 0, 8);
	at = add_zeros(at);
	at = add_number(add_number(at, 0, 8), 0, 8);
	assert_int_equal(try_bytes(whole_file, (size_t)(at - whole_file), &err),
			 RT_FORMAT);
	assert_true(strstr(err.message, "before general.architecture"));
}

/* Blocks of Q8_0 that are read in several parts: number i is i % 251 - 125 by a
 * scale of 2^-3, of every third block 2^-1. */
static void
test_long(void **state)
{
	enum { ROWS = 12, COLUMNS = 4096 };
	unsigned char *at = begin_file(1);
	static double got[MOST];
	struct rt_error err = { 0 };
	struct rt_st *st;
	const char *path;
	int64_t i;

	(void)state;
	at = add_text(at, "general.architecture");
	at = add_text(add_number(at, 8, 4), "qwen2");
	at = add_number(add_text(at, "output.weight"), 2, 4);
	at = add_number(add_number(at, COLUMNS, 8), ROWS, 8);
	at = add_number(add_number(at, 8, 4), 0, 8);
	at = add_zeros(at);
	for (i = 0; i < ROWS * COLUMNS; i++) {
		if (i % 32 == 0) {
			at = add_number(at, i / 32 % 3 == 0 ? 0x3800 : 0x3000,
					2);
		}
		*at++ = (unsigned char)(i % 251 - 125);
	}
	path = put_file(whole_file, (size_t)(at - whole_file));
	st = t_open_good(path);
	unlink(path);
	assert_string_equal(rt_st_at(st, 0)->name, "lm_head.weight");
	rt_st_read_f64(st, rt_st_at(st, 0), 7, ROWS * COLUMNS - 7, got, &err);
	assert_string_equal(err.message, "");
	for (i = 7; i < ROWS * COLUMNS; i++) {
		assert_true(got[i - 7] == (double)(i % 251 - 125) /
			    (i / 32 % 3 == 0 ? 2 : 8));
	}
	rt_st_free(st);
}

enum { EXPERTS = 2, ROWS = 35, COLUMNS = 32, EACH = ROWS * COLUMNS };

static unsigned char *
add_experts(unsigned char *to, const char *name, uint64_t type, uint64_t offset)
{
	to = add_number(add_text(to, name), 3, 4);
	to = add_number(add_number(to, COLUMNS, 8), ROWS, 8);
	return add_number(add_number(add_number(to, EXPERTS, 8), type, 4),
			  offset, 8);
}

/* The bits of a float whose lowest ones are 0. */
static uint64_t
bits_of(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

static unsigned char *
add_numbers(unsigned char *to, int type)
{
	int64_t i;

	for (i = 0; i < EXPERTS * EACH; i++) {
		uint64_t bits = bits_of((float)(i % 211 + 1));

		if (type == 8 && i % 32 == 0) {
			to = add_number(to, 0x3c00, 2);
		}
		to = type == 8 ? add_number(to, (uint64_t)(i % 251 - 125), 1)
			: add_number(to, type == 30 ? bits >> 16
				     : (bits >> 13) - (112 << 10), 2);
	}
	return add_zeros(to);
}

/* Matrices of 16 bits and of blocks that lie in another order than they are
 * read in, of more rows than are moved at a time. */
static void
test_turned(void **state)
{
	static double up[EXPERTS * EACH * 2], down[EXPERTS * EACH];
	unsigned char *at = begin_file(1);
	struct rt_st *st;
	const char *path;
	unsigned seed = 3;
	int64_t i;

	(void)state;
	whole_file[8] = 3;
	at = add_text(at, "general.architecture");
	at = add_text(add_number(at, 8, 4), "gpt-oss");
	at = add_experts(at, "blk.0.ffn_gate_exps.weight", 1, 0);
	at = add_experts(at, "blk.0.ffn_up_exps.weight", 8, 4480);
	at = add_experts(at, "blk.0.ffn_down_exps.weight", 30, 4480 + 2400);
	at = add_numbers(add_numbers(add_numbers(add_zeros(at), 1), 8), 30);
	for (i = 0; i < EXPERTS * EACH; i++) {
		int64_t r = i % EACH / COLUMNS, c = i % COLUMNS;
		int64_t to = i - i % EACH + c * ROWS + r;

		up[2 * to] = down[to] = (double)(i % 211 + 1);
		up[2 * to + 1] = (double)(i % 251 - 125);
	}
	path = put_file(whole_file, (size_t)(at - whole_file));
	st = t_open_good(path);
	unlink(path);
	assert_int_equal(rt_st_count(st), 2);
	for (i = 0; i < 2; i++) {
		const struct rt_st_tensor *t = rt_st_at(st, (size_t)i);
		static double all[EXPERTS * EACH * 2];
		struct rt_error err = { .message = "" };

		rt_st_read_f64(st, t, 0, rt_st_elems(t), all, &err);
		assert_string_equal(err.message, "");
		assert_memory_equal(all, i == 0 ? down : up,
				    (size_t)rt_st_elems(t) * sizeof(*all));
		t_check_parts(st, t, all, 30, &seed);
	}
	rt_st_free(st);
}

/* ---- keys that say a model -------------------------------------------- */

static size_t
head_end(void)
{
	return place_of("general.architecture") + 20 + 4 + 8 + 5;
}

/* Puts a key of a value of n bytes there, before one that makes both a multiple
 * of what data is aligned to. */
static void
insert_key(size_t where, const char *key, int type, const char *value, size_t n)
{
	unsigned char added[256] = { 0 };
	unsigned char *at = add_number(add_text(added, key), (uint64_t)type, 4);
	size_t bytes;

	memcpy(at, value, n);
	at += n;
	bytes = (size_t)(at - added) + 8 + 1 + 4 + 1;
	bytes = (bytes + 31) / 32 * 32;
	at = add_number(at, bytes - (size_t)(at - added) - 8 - 4 - 1, 8);
	while ((size_t)(at - added) < bytes - 5) {
		*at++ = 'x';
	}
	memmove(whole_file + where + bytes, whole_file + where,
		file_bytes - where);
	memcpy(whole_file + where, added, bytes);
	file_bytes += bytes;
	whole_file[16] = (unsigned char)(whole_file[16] + 2);
}

/* What the model of the file's keys has, or the message why there is none. */
static void
config_has(const char *words)
{
	const char *path = put_file(whole_file, file_bytes);
	struct rt_error err = { 0 };
	struct rt_st *st;
	char *text = NULL;

	if (rt_st_open_any(&st, path, NULL, &err) == RT_OK) {
		rt_st_config(st, &text, &err);
	}
	unlink(path);
	if (!strstr(text ? text : err.message, words)) {
		fail_msg("expected %s: %s", words, text ? text : err.message);
	}
	free(text);
	rt_st_free(st);
}

/* The same of a file after what follows a text in it is another. */
static void
config_of(const char *family, const char *after, const char *value, size_t n,
	  const char *words)
{
	read_whole(family);
	memcpy(whole_file + place_of(after) + strlen(after), value, n);
	config_has(words);
}

static void
config_with(const char *after, const char *value, size_t n, const char *words)
{
	config_of("llama", after, value, n, words);
}

/* The same after a key is put at the place. */
static void
config_more(bool early, const char *key, int type, const char *value, size_t n,
	    const char *words)
{
	read_whole("llama");
	insert_key(early ? 24 : head_end(), key, type, value, n);
	config_has(words);
}

/* What is no number above 0, where a number is said. */
static void
test_no_numbers(void **state)
{
	static const char nan_f32[] = "\6\0\0\0\0\0\xc0\x7f";
	static const char minus_two[] = "\5\0\0\0\xfe\xff\xff\xff";

	(void)state;
	config_with("llama.block_count", minus_two, 8,
		    "no whole number for num_hidden_layers");
	config_with("llama.rope.freq_base", nan_f32, 8,
		    "no number for rope_theta");
	config_with("llama.rope.freq_base", minus_two, 8,
		    "no number for rope_theta");
	config_with("llama.rope.dimension_count", nan_f32, 8,
		    "found rope.dimension_count nan");
	config_with("llama.rope.dimension_count", minus_two, 8,
		    "found rope.dimension_count -2.0");
	/* though frequencies are those of the rule */
	config_with("llama.rope.dimension_count", "\4\0\0\0\4\0\0\0", 8,
		    "found rope.dimension_count 4.0");
	config_more(false, "llama.expert_count", 1, "\xff", 1,
		    "no whole number for num_local_experts");
	config_more(false, "llama.expert_count", 8, "\1\0\0\0\0\0\0\0a", 9,
		    "no whole number for num_local_experts");
}

/* A key that is said before which family it is of would be passed over. */
static void
test_early_keys(void **state)
{
	(void)state;
	config_more(true, "llama.logit_scale", 6, "\0\0\0\x41", 4,
		    "found 'llama.logit_scale' before general.architecture");
	config_more(true, "general.name", 6, "\0\0\0\x41", 4,
		    "\"rope_theta\": 500000.0");
}

/* Frequencies are those of a tensor, or of a factor, which llama.cpp takes for
 * one of positions. */
static void
test_twice(void **state)
{
	static const char alignment[] = "\40\0\0\0", eps[] = "\0\0\x80\x3f";

	(void)state;
	config_more(false, "llama.attention.head_count", 4, "\2\0\0\0", 4,
		    "found 'llama.attention.head_count' twice, expected it "
		    "once");
	config_more(false, "llama.attention.head_count_kv", 4, "\2\0\0\0", 4,
		    "head_count_kv' twice");
	config_more(false, "llama.attention.layer_norm_rms_epsilon", 6, eps, 4,
		    "layer_norm_rms_epsilon' twice");
	read_whole("llama");
	insert_key(head_end(), "general.alignment", 4, alignment, 4);
	config_has("\"rope_theta\": 500000.0");
	insert_key(head_end(), "general.alignment", 4, alignment, 4);
	config_has("found 'general.alignment' twice");
	read_whole("qwen2");
	insert_key(head_end(), "qwen2.rope.scaling.type", 8,
		   "\4\0\0\0\0\0\0\0none", 12);
	config_has("\"rope_theta\": 10000.0");
	insert_key(head_end(), "qwen2.rope.scaling.type", 8,
		   "\4\0\0\0\0\0\0\0yarn", 12);
	config_has("found 'qwen2.rope.scaling.type' twice");
}

static void
test_frequencies(void **state)
{
	static const char eight[] = "\1\0\0\0\x8\0\0\0\0\0\0\0\1";
	static const char four[] = "\0\0\x80\x40";

	(void)state;
	config_with("rope_freqs.weight", eight, sizeof(eight) - 1,
		    "found 8 frequencies in rope_freqs.weight, expected 4, as "
		    "heads have 8 numbers");
	config_more(false, "llama.rope.scaling.factor", 6, four, 4,
		    "found both rope_freqs.weight and rope.scaling of type "
		    "linear");
	config_more(false, "llama.rope.scaling.type", 8,
		    "\6\0\0\0\0\0\0\0linear", 14, "found both");
	config_more(false, "llama.rope.scaling.type", 8,
		    "\4\0\0\0\0\0\0\0none", 12, "\"rope_type\": \"llama3\"");
	config_more(false, "llama.rope.scaling.type", 4, four, 4,
		    "found the key 'llama.rope.scaling.type'");
	read_whole("mixtral");
	insert_key(head_end(), "llama.rope.scaling.factor", 6, four, 4);
	config_has("\"factor\": 4.0,\n    \"rope_type\": \"linear\"");
	insert_key(head_end(), "llama.rope.scaling.type", 8,
		   "\3\0\0\0\0\0\0\0a\nb", 11);
	config_has("found rope.scaling.type 'a?b'");
}

/* What only some families have, and what has a value that no key says. */
static void
test_own_keys(void **state)
{
	static const char none[] = "\4\0\0\0\0\0\0\0";
	static const char two[] = "\4\0\0\0\2\0\0\0";
	static const char layers[] = "\4\0\0\0\x2e\0\0\0";
	static const char three[] = "\4\0\0\0\3\0\0\0";

	(void)state;
	config_of("gemma2", "gemma2.attn_logit_softcapping", none, 8,
		  "\"attn_logit_softcapping\": 50.0");
	config_of("gemma2", "gemma2.final_logit_softcapping", none, 8,
		  "\"final_logit_softcapping\": 30.0");
	config_of("gemma2", "gemma2.attention.sliding_window", none, 8,
		  "\"sliding_window\": 4096");
	config_of("gemma2", "gemma2.block_count", two, 8,
		  "\"query_pre_attn_scalar\": 4.0");
	config_of("gemma2", "gemma2.block_count", layers, 8,
		  "\"query_pre_attn_scalar\": 2.0");
	config_of("granite", "granite.attention.scale", none, 8,
		  "\"attention_multiplier\": 0.70710");
	config_of("granite", "granite.logit_scale", "\6\0\0\0\0\0\x80\xbf", 8,
		  "no number for logits_scaling");
	config_of("phi3", "phi3.rope.dimension_count", "\4\0\0\0\1", 5,
		  "\"partial_rotary_factor\": 0.5");
	config_of("phi3", "phi3.attention.sliding_window", three, 8,
		  "\"sliding_window\": 3");
	config_of("phi3_long", "phi3.rope.scaling.attn_factor", two, 8,
		  "    \"attention_factor\": 2.0");
	config_of("phi3_long", "phi3.rope.dimension_count", two, 8,
		  "found 2 numbers in rope_factors_long.weight, expected 1");
	config_of("phi3_long", "phi3.rope.scaling.original_context_length",
		  none, 8, "found no rope.scaling.original_context_length");
	config_of("deepseek_v3", "deepseek2.expert_gating_func", three, 8,
		  "found expert_gating_func 3.0, expected 1 or 2");
	config_of("deepseek_v3", "deepseek2.expert_group_count", none, 8,
		  "\"n_group\": 1,");
	config_of("deepseek_v3", "deepseek2.expert_weights_norm", "\7\0\0\0\0",
		  5, "\"norm_topk_prob\": false");
	config_of("gemma3", "gemma3.context_length", none, 8,
		  "no whole number for max_position_embeddings");
	read_whole("gemma3");
	insert_key(place_of("general.architecture") + 20 + 4 + 8 + 6,
		   "gemma3.rope.freq_base_swa", 6, "\0\0\xfa\x44", 4);
	config_has("\"rope_local_base_freq\": 2000.0");
	/* a key of another family */
	read_whole("gemma2");
	insert_key(place_of("general.architecture") + 20 + 4 + 8 + 6,
		   "gemma2.embedding_scale", 6, "\0\0\0\x41", 4);
	config_has("found the key 'gemma2.embedding_scale'");
}

/* What follows from keys that are not there, and from tensors. */
static void
test_others(void **state)
{
	static const char none[] = "\4\0\0\0\0\0\0\0";
	static const char two[] = "\4\0\0\0\2\0\0\0";
	static const char three[] = "\4\0\0\0\3\0\0\0";

	(void)state;
	config_of("gemma3", "gemma3.attention.sliding_window", none, 8,
		  "no whole number for sliding_window");
	/* stored so, whether rows of heads take turns or not */
	config_of("granite", "granite.attention.scale", none, 8,
		  "\"torch_dtype\": \"float32\"");
	config_of("phi3", "phi3.attention.sliding_window", three, 8,
		  "\"torch_dtype\": \"float32\"");
	config_of("qwen2", "qwen2.context_length", two, 8,
		  "\"torch_dtype\": \"bfloat16\"");
	/* what scores are divided by is of the head's numbers, if they are
	 * said */
	read_whole("granite");
	whole_file[place_of("granite.attention.scale")] = 'x';
	insert_key(place_of("general.architecture") + 20 + 4 + 8 + 7,
		   "granite.attention.key_length", 4, "\20\0\0\0", 4);
	insert_key(place_of("general.architecture") + 20 + 4 + 8 + 7,
		   "granite.attention.value_length", 4, "\20\0\0\0", 4);
	config_has("\"attention_multiplier\": 0.25,");
}

static void
insert_phi3(const char *key, int type, const char *value, size_t n)
{
	insert_key(place_of("general.architecture") + 20 + 4 + 8 + 4, key, type,
		   value, n);
}

/* Phi-3's positions are scaled by lists; what llama.cpp scales them by besides
 * is not left out in silence. */
static void
test_phi3_scaling(void **state)
{
	static const char four[] = "\0\0\x80\x40", one[] = "\0\0\x80\x3f";

	(void)state;
	read_whole("phi3");
	insert_phi3("phi3.rope.scaling.factor", 6, four, 4);
	config_has("found rope.scaling of type 'linear' and factor 4.0 in a "
		   "file of phi3");
	insert_phi3("phi3.rope.scaling.type", 8, "\4\0\0\0\0\0\0\0none", 12);
	config_has("\"rope_theta\": 10000.0");
	read_whole("phi3");
	insert_phi3("phi3.rope.scaling.type", 8, "\4\0\0\0\0\0\0\0yarn", 12);
	config_has("found rope.scaling of type 'yarn' and factor 0.0");
	read_whole("phi3_long");
	insert_phi3("phi3.rope.scaling.type", 8, "\10\0\0\0\0\0\0\0longrope",
		    16);
	config_has("\"rope_type\": \"longrope\"");
	insert_phi3("phi3.rope.scaling.factor", 6, four, 4);
	config_has("found rope.scaling of type 'longrope' and factor 4.0");
	read_whole("phi3");
	insert_phi3("phi3.rope.scaling.attn_factor", 6, one, 4);
	config_has("\"rope_theta\": 10000.0");
	read_whole("phi3");
	insert_phi3("phi3.rope.scaling.attn_factor", 6, four, 4);
	config_has("expected rope_factors_long.weight beside it");
}

/* ---- memory ---------------------------------------------------------- */

static enum rt_status
make_config(struct rt_st *st, struct rt_error *err)
{
	enum rt_status status;
	char *text;

	status = rt_st_config(st, &text, err);
	rt_release(&st->alloc, text);
	return status;
}

/* Reads what is joined of two. */
static enum rt_status
read_first(struct rt_st *st, struct rt_error *err)
{
	double v;

	return rt_st_read_f64(st, rt_st_find(st, "model.layers.0.self_attn."
					     "kv_b_proj.weight"), 0, 1, &v,
			      err);
}

static void
test_memory(void **state)
{
	(void)state;
	assert_true(t_starve(t_interop("gguf", "llama", "model.gguf"),
			     make_config) > 8);
	assert_true(t_starve(t_interop("gguf", "deepseek_v3", "model.gguf"),
			     read_first) > 8);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_joined),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_early_heads),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_turned),
		cmocka_unit_test(test_no_numbers),
		cmocka_unit_test(test_early_keys),
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_frequencies),
		cmocka_unit_test(test_own_keys),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_phi3_scaling),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Matrices that files have in 8 and 4 bits: each format that other programs
 * write, as PyTorch multiplied it out (tests/interop/make_quantised.py), and
 * what is wrong with files.
 */
#include "tests/unit/data/t-safetensors.h"
#include "tests/unit/shared/t-weights-files.h"

#include <math.h>

static const char *const formats[] = {
	"awq", "float-channel", "fp8-block", "fp8-tensor", "gptq4",
	"gptq4-order", "gptq8", "int8", "int8-zeros", "modelopt", "packed4",
	"packed4-zeros", "packed8",
};

enum { NFORMATS = sizeof(formats) / sizeof(formats[0]) };

/* ---- numbers --------------------------------------------------------- */

static void
check_format(const char *format)
{
	struct rt_st *st = t_open_good(t_interop("quantised", format, ""));
	struct rt_st *want = t_open_good(t_interop("quantised", format,
						   "want.safetensors"));
	struct rt_error err = { 0 };
	double whole[1000];
	unsigned seed = 7;
	size_t i;

	assert_int_equal(rt_st_count(want), 7);
	/* and an embedding, a head and three norms, but no scales */
	assert_int_equal(rt_st_count(st), 12);
	for (i = 0; i < rt_st_count(want); i++) {
		const struct rt_st_tensor *w = rt_st_at(want, i);
		const struct rt_st_tensor *t = rt_st_find(st, w->name);

		assert_non_null(t);
		assert_int_equal(t->dtype, RT_F32);
		assert_true(rt_st_fits(t, w->shape, w->ndim));
		rt_st_read_f64(want, w, 0, rt_st_elems(w), whole, &err);
		t_check_parts(st, t, whole, 20, &seed);
	}
	rt_st_free(want);
	rt_st_free(st);
}

static void
test_formats(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < NFORMATS; i++) {
		check_format(formats[i]);
	}
}

/* ---- what is wrong --------------------------------------------------- */

#define Q(...) "{'quantization_config':{" __VA_ARGS__ "}}"
#define FP8 Q("'quant_method':'fp8'")
#define BLOCK Q("'quant_method':'fp8','weight_block_size':[2,2]")
#define GROUP(w) Q("'quant_method':'compressed-tensors'," \
		   "'config_groups':{'g':{'weights':{" w "}}}")
#define PACKS GROUP("'num_bits':4,'type':'int','group_size':8," \
		    "'strategy':'group','symmetric':false")
#define GPTQ Q("'quant_method':'gptq','bits':4,'group_size':8")
#define AWQ Q("'quant_method':'awq','bits':4,'group_size':8")
#define T(name, dtype, shape, from, to) "'" name "':{'dtype':'" dtype \
	"','shape':[" shape "],'data_offsets':[" #from "," #to "]}"
#define W8 T("a.weight", "F8_E4M3", "4,4", 0, 16)
#define WI8 T("a.weight", "I8", "4,4", 0, 16)
#define S1 T("a.weight_scale", "F32", "1", 16, 20)
#define QW T("a.qweight", "I32", "1,8", 0, 32)
#define SC T("a.scales", "F16", "1,8", 32, 48)
#define QZ T("a.qzeros", "I32", "1,1", 48, 52)

static const struct wrong {
	const char *config, *header;
	size_t bytes;
	const char *message; /* its end, after the folder */
} wrongs[] = {
	/* what is there */
	{ FP8, "{" W8 "}", 16, "m.safetensors: tensor 'a.weight': found "
	  "F8_E4M3 and no 'weight_scale_inv' of its module, expected one: "
	  "quantization_config is of fp8" },
	{ FP8, "{" W8 "," T("a.weight_scale", "I32", "1", 16, 20) "}", 20,
	  "m.safetensors: tensor 'a.weight_scale': found I32, expected F32, "
	  "BF16 or F16 as scales" },
	{ BLOCK, "{" W8 "," T("a.weight_scale_inv", "F32", "2,1", 16, 24) "}",
	  24, "m.safetensors: tensor 'a.weight_scale_inv': found [2, 1], "
	  "expected [2, 2] by its matrix and quantization_config" },
	{ FP8, "{" T("a.weight", "F8_E4M3", "2,2,4", 0, 16) "," S1 "}", 20,
	  "m.safetensors: tensor 'a.weight': found [2, 2, 4], expected [rows, "
	  "columns] of a matrix" },
	{ PACKS, "{" T("a.weight_packed", "I32", "4,1", 0, 16) ","
	  T("a.weight_scale", "F32", "4,1", 16, 32) "}", 32,
	  "m.safetensors: tensor 'a.weight_packed': found I32 and no "
	  "'weight_zero_point' of its module, expected one: "
	  "quantization_config is of compressed-tensors" },
	{ PACKS, "{" T("a.weight_packed", "I32", "4,1", 0, 16) ","
	  T("a.weight_scale", "F32", "4,1", 16, 32) ","
	  T("a.weight_zero_point", "I32", "4,1", 32, 48) "}", 48,
	  "m.safetensors: tensor 'a.weight_zero_point': found [4, 1], "
	  "expected [1, 1] by its matrix and quantization_config" },
	{ PACKS, "{" T("a.weight_packed", "I32", "4,1", 0, 16) ","
	  T("a.weight_scale", "F32", "4,1", 16, 32) ","
	  T("a.weight_zero_point", "I32", "1,1", 32, 36) ","
	  T("a.weight_shape", "I64", "2", 36, 52) "}", 52,
	  "m.safetensors: tensor 'a.weight_shape': found [0, 0], expected the "
	  "shape that 'a.weight_packed' packs, [4, 8] or less than a word "
	  "below" },
	{ PACKS, "{" WI8 "," S1 "}", 20, "m.safetensors: tensor 'a.weight': "
	  "found I8, expected numbers as the groups of quantization_config "
	  "have them" },
	{ GPTQ, "{" QW "," SC "}", 48, "m.safetensors: tensor 'a.qweight': "
	  "found I32 and no 'qzeros' of its module, expected one: "
	  "quantization_config is of gptq" },
	{ GPTQ, "{" QW "," SC "," QZ ","
	  T("a.g_idx", "I32", "7", 52, 80) "}", 80, "m.safetensors: tensor "
	  "'a.g_idx': found [7], expected [8, 1] by its matrix and "
	  "quantization_config" },
	{ GPTQ, "{" QW "," SC "," QZ ","
	  T("a.weight", "F32", "1", 52, 56) "}", 56, "m.safetensors: tensor "
	  "'a.weight': found another tensor of that name beside the quantised "
	  "one, expected one" },
	{ Q("'quant_method':'compressed-tensors','ignore':['a'],"
	    "'config_groups':{'g':{'weights':{'type':'float'}}}"),
	  "{" W8 "," S1 "}", 20, "m.safetensors: tensor 'a.weight': found "
	  "F8_E4M3, expected a wider type: `ignore` of quantization_config "
	  "has its module" },
	/* what is said */
	{ Q("'quant_method':'quip'"), "{" W8 "}", 16, "config.json: found "
	  "quant_method quip, expected fp8, modelopt, compressed-tensors, "
	  "gptq or awq" },
	{ Q("'bits':4"), "{" W8 "}", 16, "config.json: found quant_method "
	  "none, expected fp8, modelopt, compressed-tensors, gptq or awq" },
	{ Q("'quant_method':'fp8','fmt':'e5m2'"), "{" W8 "}", 16,
	  "config.json: found fmt e5m2, expected e4m3" },
	{ Q("'quant_method':'fp8','weight_block_size':[128]"), "{" W8 "}", 16,
	  "config.json: found another size of a block, expected [rows, "
	  "columns]" },
	{ Q("'quant_method':'modelopt','quant_algo':'NVFP4'"), "{" W8 "}", 16,
	  "config.json: found quant_algo NVFP4, expected FP8, "
	  "FP8_PER_CHANNEL_PER_TOKEN or FP8_PB_WO" },
	{ GROUP("'num_bits':4,'type':'float'"), "{" W8 "}", 16,
	  "config.json: found symmetric, float of 4 bits, expected int of 4 "
	  "or 8 bits, or symmetric float of 8" },
	{ GROUP("'strategy':'group'"), "{" W8 "}", 16, "config.json: found "
	  "strategy group, expected tensor, channel, group with a "
	  "group_size, or block with a block_structure" },
	{ Q("'quant_method':'compressed-tensors','format':'marlin-24'"),
	  "{" W8 "}", 16, "config.json: found format marlin-24, expected "
	  "float-quantized, int-quantized, naive-quantized, pack-quantized "
	  "or mixed-precision" },
	{ Q("'quant_method':'compressed-tensors',"
	    "'sparsity_config':{'format':'sparse-bitmask'}"), "{" W8 "}", 16,
	  "config.json: found sparse weights, sparse-bitmask, expected dense "
	  "ones" },
	{ Q("'quant_method':'gptq','bits':3,'group_size':8"), "{" QW "}", 32,
	  "config.json: found bits 3, expected 4 or 8" },
	{ Q("'quant_method':'gptq','bits':4"), "{" QW "}", 32,
	  "config.json: found no group_size, expected numbers of a row that "
	  "share a scale, or -1: all of them" },
	{ Q("'quant_method':'gptq','group_size':8"), "{" QW "}", 32,
	  "config.json: found no bits, expected 4 or 8" },
	{ Q("'quant_method':'gptq','bits':4,'group_size':8,"
	    "'checkpoint_format':'marlin'"), "{" QW "}", 32, "config.json: "
	  "found checkpoint_format marlin, expected gptq or gptq_v2" },
	{ Q("'quant_method':'gptq','bits':4,'group_size':8,"
	    "'dynamic':{'-:lm_head':{}}"), "{" QW "}", 32, "config.json: "
	  "found settings of single modules in `dynamic`, expected none" },
	{ Q("'quant_method':'awq','bits':8,'group_size':8"), "{" QW "}", 32,
	  "config.json: found bits 8, expected 4" },
	{ Q("'quant_method':'awq','bits':4,'group_size':8,'version':'gemv'"),
	  "{" QW "}", 32, "config.json: found version gemv, expected gemm" },
	{ Q("'quant_method':'awq','bits':4,'group_size':8,"
	    "'zero_point':false"), "{" QW "}", 32, "config.json: found "
	  "zero_point false, expected true" },
	/* numbers that are none, or none of a size */
	{ Q("'quant_method':'fp8','weight_block_size':[0,128]"), "{" W8 "}",
	  16, "config.json: found a block of 0 rows, expected 1 or more" },
	{ Q("'quant_method':'fp8','weight_block_size':[128,0]"), "{" W8 "}",
	  16, "config.json: found a block of 0 columns, expected 1 or more" },
	{ Q("'quant_method':'fp8','weight_block_size':[2,2,2]"), "{" W8 "}",
	  16, "config.json: found another size of a block, expected [rows, "
	  "columns]" },
	{ Q("'quant_method':'fp8','weight_block_size':[2,-2]"), "{" W8 "}",
	  16, "config.json: found '-', expected an integer of 0 or more" },
	{ Q("'quant_method':'fp8','weight_block_size':[2.5,2]"), "{" W8 "}",
	  16, "config.json: found '.', expected an integer without fraction "
	  "or exponent" },
	{ Q("'quant_method':'fp8','weight_block_size':[9223372036854775808,2]"),
	  "{" W8 "}", 16, "config.json: found an integer past "
	  "9223372036854775807, expected one of at most that" },
	{ GROUP("'strategy':'block','block_structure':[0,2]"), "{" W8 "}", 16,
	  "config.json: found a block of 0 rows, expected 1 or more" },
	{ GROUP("'group_size':0"), "{" W8 "}", 16, "config.json: found "
	  "group_size 0, expected numbers of a row that share a scale, or "
	  "-1: all of them" },
	{ GROUP("'num_bits':-1"), "{" W8 "}", 16, "config.json: found "
	  "symmetric, int of -1 bits, expected int of 4 or 8 bits, or "
	  "symmetric float of 8" },
	{ Q("'quant_method':'gptq','bits':4,'group_size':0"), "{" QW "}", 32,
	  "config.json: found group_size 0, expected numbers of a row that "
	  "share a scale, or -1: all of them" },
	{ Q("'quant_method':'gptq','bits':4,'group_size':-2"), "{" QW "}", 32,
	  "config.json: found -2, expected a whole number from -1 to "
	  "2147483647" },
	{ Q("'quant_method':'gptq','bits':4.0,'group_size':8"), "{" QW "}", 32,
	  "config.json: found 4.0, expected a whole number from -1 to "
	  "2147483647" },
	{ Q("'quant_method':'awq','bits':'4'"), "{" QW "}", 32,
	  "config.json: found '\"', expected a number, true, false or null" },
};

static const char *const files[] = { "config.json", "m.safetensors", NULL };

static char *
make_wrong(const struct wrong *w)
{
	char *dir = make_dir();

	put_json(dir, "config.json", w->config);
	put_bytes(dir, "m.safetensors", make(w->header, w->bytes));
	return dir;
}

static void
test_wrong(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		char *dir = make_wrong(&wrongs[i]);
		struct rt_error err = { 0 };
		struct rt_st *st;

		assert_int_equal(rt_st_open_any(&st, dir, NULL, &err),
				 RT_FORMAT);
		assert_null(st);
		if (strlen(err.message) < strlen(wrongs[i].message) ||
		    strcmp(err.message + strlen(err.message) -
			   strlen(wrongs[i].message), wrongs[i].message) != 0)
			{
			fail_msg("%zu: %s\nwant %s", i, err.message,
				 wrongs[i].message);
		}
		remove_dir(dir, files);
	}
}

/* A column of no group is found when its matrix is read. */
static void
test_group(void **state)
{
	static const struct wrong w = {
		GPTQ, "{" QW "," SC "," QZ "," T("a.g_idx", "I32", "8", 52, 84)
		"}", 84, NULL
	};
	char *dir = make_dir();
	struct bytes b = make(w.header, w.bytes);
	struct rt_error err = { 0 };
	struct rt_st *st;
	float v[8];

	(void)state;
	b.at[b.n - 4] = 1;
	put_bytes(dir, "m.safetensors", b);
	put_json(dir, "config.json", w.config);
	assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_OK);
	assert_int_equal(rt_st_read_raw(st, rt_st_at(st, 0), 0, 32, v, &err),
			 RT_FORMAT);
	assert_string_equal(after_path(err.message, "m.safetensors"),
			    "tensor 'a.g_idx': found group 1 of column 7, "
			    "expected one of 1");
	rt_st_free(st);
	remove_dir(dir, files);
}

/* A shape that is no whole number of columns. */
static void
test_shape(void **state)
{
	static const struct wrong w = {
		GROUP("'num_bits':4"), "{" T("a.weight_packed", "I32", "4,1",
		0, 16) "," T("a.weight_scale", "F32", "1", 16, 20) ","
		T("a.weight_shape", "F32", "2", 20, 28) "}", 28, NULL
	};
	static const float shape[2] = { 4, 0.5 };
	struct bytes b = make(w.header, w.bytes);
	struct rt_error err = { 0 };
	char *dir = make_dir();
	struct rt_st *st;

	(void)state;
	memcpy(b.at + b.n - sizeof(shape), shape, sizeof(shape));
	put_bytes(dir, "m.safetensors", b);
	put_json(dir, "config.json", w.config);
	assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_FORMAT);
	assert_string_equal(after_path(err.message, "m.safetensors"),
			    "tensor 'a.weight_shape': found [4, 0.5], expected "
			    "the shape that 'a.weight_packed' packs, [4, 8] or "
			    "less than a word below");
	remove_dir(dir, files);
}

/* Zero points of eight rows, a word for each group, in whatever shape. */
static void
test_zeros(void **state)
{
	static const char *const headers[] = {
#define ZEROS(shape) "{" T("a.qweight", "I32", "16,8", 0, 512) "," \
	T("a.scales", "F16", "16,8", 512, 768) "," \
	T("a.qzeros", "I32", shape, 768, 832) "}"
		ZEROS("16,1"), ZEROS("16"), ZEROS("1,16"),
	};
	char *dir = make_dir();
	size_t i, k;

	(void)state;
	put_json(dir, "config.json", GPTQ);
	for (i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		struct bytes b = make(headers[i], 832);
		struct rt_error err = { 0 };
		struct rt_st *st;
		float v[1024];

		memset(b.at + b.n - 832, 0, 832);
		for (k = 0; k < 128; k++) {
			b.at[b.n - 320 + 2 * k + 1] = 0x3c;	/* 1 */
		}
		for (k = 0; k < 16; k++) {
			memset(b.at + b.n - 64 + 4 * k, (int)(k % 15 * 17), 4);
		}
		put_bytes(dir, "m.safetensors", b);
		assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_OK);
		assert_int_equal(rt_st_read_raw(st, rt_st_at(st, 0), 0,
						sizeof(v), v, &err), RT_OK);
		for (k = 0; k < 1024; k++) {
			assert_true(v[k] == -(float)(k % 128 / 8 % 15 + 1));
		}
		rt_st_free(st);
	}
	remove_dir(dir, files);
}

/* Without a config.json tensors are what they are. */
static void
test_plain(void **state)
{
	static const char *const configs[] = {
		NULL, "{}", "{'quantization_config':null,'a':[1]}",
	};
	char *dir = make_dir();
	struct rt_error err = { 0 };
	struct rt_st *st;
	size_t i;

	(void)state;
	put_bytes(dir, "m.safetensors", make("{" W8 "," S1 "}", 20));
	for (i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
		if (configs[i]) {
			put_json(dir, "config.json", configs[i]);
		}
		assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_OK);
		assert_int_equal(rt_st_count(st), 2);
		assert_int_equal(rt_st_at(st, 0)->dtype, RT_F8_E4M3);
		rt_st_free(st);
	}
	remove_dir(dir, files);
}

/* ---- memory ---------------------------------------------------------- */

static enum rt_status
read_matrix(struct rt_st *st, struct rt_error *err)
{
	const struct rt_st_tensor *t =
		rt_st_find(st, "model.layers.0.mlp.up_proj.weight");
	float v[1000];

	return rt_st_read_raw(st, t, 0, t->end, v, err);
}

static void
test_memory(void **state)
{
	static const char *const some[] = { "gptq4-order", "packed4-zeros" };
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		assert_true(t_starve(t_interop("quantised", some[i],
					       "model.safetensors"),
				     read_matrix) > 9);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats), cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_group), cmocka_unit_test(test_shape),
		cmocka_unit_test(test_zeros), cmocka_unit_test(test_plain),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

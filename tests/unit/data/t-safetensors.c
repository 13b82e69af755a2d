/*
 * The header of a weights file: every rule of the format
 * broken once, and every dtype.
 */
#include "tests/unit/data/t-safetensors.h"

/* ---- every rule broken once ---------------------------------------- */

static const struct {
	const char *json;
	size_t data_bytes;
	int64_t offset;
	const char *message;
} broken[] = {
	{ "", 0, 8,
	  "found a header of 0 bytes that does not begin with '{', expected a "
	  "JSON object" },
	{ "[]", 0, 8,
	  "found a header of 2 bytes that does not begin with '{', expected a "
	  "JSON object" },
	{ " {}", 0, 8,
	  "found a header of 3 bytes that does not begin with '{', expected a "
	  "JSON object" },
	{ "{", 0, 9,
	  "found the end of the text, expected a string in double quotes" },
	{ "{}}", 0, 10,
	  "found '}', expected only spaces after the closing '}'" },
	{ "{}\t", 0, 10,
	  "found byte 0x09, expected only spaces after the closing '}'" },
	{ "{}\n ", 0, 10,
	  "found byte 0x0a, expected only spaces after the closing '}'" },
	{ "{'a' 1}", 0, 13, "found '1', expected ':'" },
	{ "{'a':1}", 0, 13, "tensor 'a': found '1', expected '{'" },
	{ "{a:1}", 0, 9, "found 'a', expected a string in double quotes" },
	{ "{'a", 0, 11,
	  "found the end of the text, expected '\"' at the end of the string" },
	{ "{'a':{'dtype':'U8','shape':[],'data_offsets':[0,1]},}", 0, 60,
	  "found '}', expected a string in double quotes" },
	{ "{'a':{'dtype':'U8','shape':[],'data_offsets':[0,1]} 'b':1}", 1, 60,
	  "found '\"', expected ',' or '}'" },
	{ "{'a':{'dtype':'U8','shape':[],'data_offsets':[0,1]}}x", 1, 60,
	  "found 'x', expected only spaces after the closing '}'" },
	{ "{'a':{'dtype':'U8','shape':[],'data_offsets':[0,1]},"
	  "'a':{'dtype':'U8','shape':[0],'data_offsets':[1,1]}}",
	  1, 61,
	  "tensor 'a': found the name twice, expected each tensor once" },
	{ "{'a':{'dtype':'U8','shape':[],'data_offsets':[0,1],'extra':[]}}", 1,
	  60,
	  "tensor 'a': found key 'extra', expected dtype, shape or "
	  "data_offsets" },
	{ "{'a':{'dtype':'U8','shape':[],'offsets':[0,1]}}", 1, 39,
	  "tensor 'a': found key 'offsets', expected dtype, shape or "
	  "data_offsets" },
	{ "{'a':{'dtype':'U8','dtype':'U8','shape':[],'data_offsets':[0,1]}}",
	  1, 28, "tensor 'a': found key 'dtype' twice, expected it once" },
	{ "{'a':{'dtype':'U8','shape':[],'shape':[],'data_offsets':[0,1]}}", 1,
	  39, "tensor 'a': found key 'shape' twice, expected it once" },
	{ "{'a':{'shape':[],'data_offsets':[0,1]}}", 1, 10,
	  "tensor 'a': found no key 'dtype', expected one" },
	{ "{'a':{'dtype':'U8','data_offsets':[0,1]}}", 1, 10,
	  "tensor 'a': found no key 'shape', expected one" },
	{ "{'a':{'dtype':'U8','shape':[]}}", 1, 10,
	  "tensor 'a': found no key 'data_offsets', expected one" },
	{ "{'a':{'dtype':'u8','shape':[],'data_offsets':[0,1]}}", 1, 23,
	  "tensor 'a': found dtype 'u8', expected one of the 22 of the format, "
	  "such as BF16 or F32" },
	{ "{'a':{'dtype':8,'shape':[],'data_offsets':[0,1]}}", 1, 22,
	  "tensor 'a': found '8', expected a string in double quotes" },
	{ "{'a':{'dtype':'U8','shape':1,'data_offsets':[0,1]}}", 1, 35,
	  "tensor 'a': found '1', expected '['" },
	{ "{'a':{'dtype':'U8','shape':[1,],'data_offsets':[0,1]}}", 1, 38,
	  "tensor 'a': found ']', expected an integer of 0 or more" },
	{ "{'a':{'dtype':'U8','shape':[1 1],'data_offsets':[0,1]}}", 1, 38,
	  "tensor 'a': found '1', expected ',' or ']'" },
	{ "{'a':{'dtype':'U8','shape':[-1],'data_offsets':[0,1]}}", 1, 36,
	  "tensor 'a': found '-', expected an integer of 0 or more" },
	{ "{'a':{'dtype':'U8','shape':[1.0],'data_offsets':[0,1]}}", 1, 37,
	  "tensor 'a': found '.', expected an integer without fraction or "
	  "exponent" },
	{ "{'a':{'dtype':'U8','shape':[1e0],'data_offsets':[0,1]}}", 1, 37,
	  "tensor 'a': found 'e', expected an integer without fraction or "
	  "exponent" },
	{ "{'a':{'dtype':'U8','shape':[01],'data_offsets':[0,1]}}", 1, 36,
	  "tensor 'a': found a leading zero, expected an integer without one" },
	{ "{'a':{'dtype':'U8','shape':[[1]],'data_offsets':[0,1]}}", 1, 36,
	  "tensor 'a': found '[', expected an integer of 0 or more" },
	{ "{'a':{'dtype':'U8','shape':[9223372036854775808],'data_offsets':[0,"
	  "1]}}",
	  1, 36,
	  "tensor 'a': found an integer past 9223372036854775807, expected one "
	  "of at most that" },
	{ "{'a':{'dtype':'U8','shape':[4294967296,4294967296],"
	  "'data_offsets':[0,1]}}",
	  1, 10,
	  "tensor 'a': found a shape of more than 9223372036854775807 "
	  "elements, expected at most that" },
	{ "{'a':{'dtype':'F64','shape':[4611686018427387904],'data_offsets':[0,"
	  "1]}}",
	  1, 10,
	  "tensor 'a': found 4611686018427387904 elements of F64 (64 bits "
	  "each), expected fewer than 2^63 bits" },
	{ "{'a':{'dtype':'U8','shape':[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"
	  "'data_offsets':[0,1]}}",
	  1, 68,
	  "tensor 'a': found a shape of more than 16 dimensions, expected at "
	  "most that" },
	{ "{'a':{'dtype':'F4','shape':[3],'data_offsets':[0,1]}}", 1, 10,
	  "tensor 'a': found 3 elements of F4 (4 bits each), which is 12 bits, "
	  "expected whole bytes" },
	{ "{'a':{'dtype':'F6_E2M3','shape':[2],'data_offsets':[0,1]}}", 1, 10,
	  "tensor 'a': found 2 elements of F6_E2M3 (6 bits each), which is 12 "
	  "bits, expected whole bytes" },
	{ "{'a':{'dtype':'F32','shape':[3],'data_offsets':[0,8]}}", 8, 10,
	  "tensor 'a': found data_offsets [0, 8] of 8 bytes, expected 12 "
	  "bytes: 3 elements of F32" },
	{ "{'a':{'dtype':'U8','shape':[],'data_offsets':[]}}", 1, 54,
	  "tensor 'a': found 0 data_offsets, expected 2: [begin, end]" },
	{ "{'a':{'dtype':'U8','shape':[],'data_offsets':[0]}}", 1, 54,
	  "tensor 'a': found 1 data_offsets, expected 2: [begin, end]" },
	{ "{'a':{'dtype':'U8','shape':[],'data_offsets':[0,1,2]}}", 1, 58,
	  "tensor 'a': found more than 2 data_offsets, expected [begin, end]" },
	{ "{'a':{'dtype':'U8','shape':[],'data_offsets':[1,0]}}", 1, 54,
	  "tensor 'a': found data_offsets that begin at 1 and end at 0, "
	  "expected begin <= end" },
	{ "{'a':{'dtype':'U8','shape':[],'data_offsets':[-0,1]}}", 1, 54,
	  "tensor 'a': found '-', expected an integer of 0 or more" },
	{ "{'a':{'dtype':'U8','shape':[],'data_offsets':[1,2]}}", 2, 10,
	  "tensor 'a': found the first data at offset 1, expected it at 0" },
	{ "{'b':{'dtype':'U8','shape':[],'data_offsets':[2,3]},"
	  "'a':{'dtype':'U8','shape':[],'data_offsets':[0,1]}}",
	  3, 10,
	  "tensor 'b': found offset 2, expected 1, where 'a' ends: a hole of 1 "
	  "bytes" },
	{ "{'b':{'dtype':'U8','shape':[2],'data_offsets':[1,3]},"
	  "'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}",
	  3, 10,
	  "tensor 'b': found offset 1, expected 2, where 'a' ends: an overlap "
	  "of 1 bytes" },
	{ "{'b':{'dtype':'U8','shape':[0],'data_offsets':[2,2]},"
	  "'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]}}",
	  4, 10,
	  "tensor 'b': found offset 2, expected 4, where 'a' ends: an overlap "
	  "of 2 bytes" },
	{ "{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]}}", 3, 64,
	  "found 3 bytes after the header, expected 4, where the last tensor "
	  "ends: the file lacks 1 bytes" },
	{ "{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]}}", 5, 65,
	  "found 5 bytes after the header, expected 4, where the last tensor "
	  "ends: no tensor has 1 bytes" },
	{ "{}", 1, 10,
	  "found 1 bytes after the header, expected 0, where the last tensor "
	  "ends: no tensor has 1 bytes" },
	{ "{'__metadata__':{'a':1}}", 0, 29,
	  "found '1', expected a string in double quotes" },
	{ "{'__metadata__':{'a':{}}}", 0, 29,
	  "found '{', expected a string in double quotes" },
	{ "{'__metadata__':[]}", 0, 24, "found '[', expected '{'" },
	{ "{'__metadata__':null}", 0, 24, "found 'n', expected '{'" },
	{ "{'__metadata__':{'a':'1','b':'2','a':'3'}}", 0, 42,
	  "found key 'a' twice, expected each key once" },
	{ "{'__metadata__':{},'__metadata__':{}}", 0, 28,
	  "found '__metadata__' twice, expected it at most once" },
	{ "{'\\x':0}", 0, 11,
	  "found 'x', expected one of \" \\ / b f n r t u after a backslash" },
	{ "{'\\u00g0':0}", 0, 14,
	  "found 'g', expected four hex digits after \\u" },
	{ "{'\\u0000':0}", 0, 10,
	  "found \\u0000, expected a string without NUL" },
	{ "{'\\ud800':0}", 0, 10,
	  "found high surrogate \\ud800, expected a low one after it" },
	{ "{'\\ud800\\n':0}", 0, 10,
	  "found high surrogate \\ud800, expected a low one after it" },
	{ "{'\\ud800\\u0041':0}", 0, 10,
	  "found \\u0041 after high surrogate \\ud800, expected \\udc00 to "
	  "\\udfff" },
	{ "{'\\udc00':0}", 0, 10,
	  "found low surrogate \\udc00, expected a high one before it" },
	{ "{'\\u12", 0, 14,
	  "found the end of the text, expected four hex digits after \\u" },
	{ "{'\\", 0, 11,
	  "found the end of the text, expected one of \" \\ / b f n r t u "
	  "after a backslash" },
};

static void
test_broken_headers(void **state)
{
	struct rt_error err;
	struct bytes b;
	struct rt_st *st;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		b = make(broken[i].json, broken[i].data_bytes);
		assert_int_equal(
			rt_st_parse(&st, b.at, b.n, (int64_t)b.n, NULL, &err),
			RT_FORMAT);
		assert_null(st);
		assert_string_equal(err.message, broken[i].message);
		assert_int_equal(err.offset, broken[i].offset);
		assert_int_equal(err.status, RT_FORMAT);
		/* The error is optional. */
		assert_int_equal(
			rt_st_parse(&st, b.at, b.n, (int64_t)b.n, NULL, NULL),
			RT_FORMAT);
		free(b.at);
	}
}

/* Parses n bytes as a file of file_bytes and wants this refusal. */
static void
refuses(const void *data, size_t n, int64_t file_bytes, enum rt_status status,
	int64_t offset, const char *message)
{
	struct rt_error err;
	struct rt_st *st;

	assert_int_equal(rt_st_parse(&st, data, n, file_bytes, NULL, &err),
			 status);
	assert_string_equal(err.message, message);
	assert_int_equal(err.offset, offset);
}

static void
test_broken_lengths(void **state)
{
	unsigned char b[16] = { 0 };

	(void)state;
	refuses(b, 0, 0, RT_FORMAT, 0,
		"found a file of 0 bytes, expected at least 8 for the length "
		"of the header");
	refuses(b, 7, 7, RT_FORMAT, 0,
		"found a file of 7 bytes, expected at least 8 for the length "
		"of the header");
	b[0] = 9;
	refuses(b, 16, 16, RT_FORMAT, 0,
		"found a header of 9 bytes, expected at most the 8 that follow "
		"its length");
	refuses(b, 16, 17, RT_RANGE, 8,
		"bytes 8 to 17 were asked for, expected bytes below 16, where "
		"the memory given ends");
	memcpy(b, "\x01\xe1\xf5\x05", 4);
	refuses(b, 16, INT64_MAX, RT_FORMAT, 0,
		"found a header of 100000001 bytes, expected at most "
		"100000000; is this a safetensors file?");
	b[0] = 0;
	refuses(b, 16, 16, RT_FORMAT, 0,
		"found a header of 100000000 bytes, expected at most the 8 "
		"that follow its length");
	memset(b, 0xff, 8);
	refuses(b, 16, INT64_MAX, RT_FORMAT, 0,
		"found a header of 18446744073709551615 bytes, expected at "
		"most 100000000; is this a safetensors file?");
}

static void
test_broken_utf8(void **state)
{
	static const char *const bad[] = {
		"\x80",
		"\xc0\x80",
		"\xc1\xbf",
		"\xc2",
		"\xc2 ",
		"\xe0\x9f\xbf",
		"\xe2\x82",
		"\xed\xa0\x80",
		"\xf0\x8f\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xff",
		"\xe2\x82\xc2",
		"\xf0\x90\x80 ",
	};
	char json[100], message[200];
	struct bytes b;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(json, sizeof(json), "{'__metadata__':{'a':'%s'}}",
			 bad[i]);
		snprintf(message, sizeof(message),
			 "found byte 0x%02x, which does not begin a UTF-8 "
			 "character, expected UTF-8 text",
			 (unsigned char)bad[i][0]);
		b = make(json, 0);
		refuses(b.at, b.n, (int64_t)b.n, RT_FORMAT, 30, message);
		free(b.at);
	}
}

/* A name in a message is cut, and cannot speak to the terminal. */
static void
test_names_in_messages(void **state)
{
	char json[600], name[300];
	struct bytes b;

	(void)state;
	b = make("{'\\u001b[31m\\u009b':1}", 0);
	refuses(b.at, b.n, (int64_t)b.n, RT_FORMAT, 28,
		"tensor '?[31m?\?': found '1', expected '{'");
	free(b.at);
	/* 67 bytes, then a character that the cut at 68 would split. */
	memset(name, 'x', 67);
	strcpy(name + 67, "\xc3\xa9");
	memset(name + 69, 'y', 200);
	name[269] = '\0';
	snprintf(json, sizeof(json), "{'%s':1}", name);
	b = make(json, 0);
	strcpy(name + 67, "...");
	snprintf(json, sizeof(json), "tensor '%s': found '1', expected '{'",
		 name);
	refuses(b.at, b.n, (int64_t)b.n, RT_FORMAT, 281, json);
	free(b.at);
}

/* ---- good files ---------------------------------------------------- */

static const struct {
	const char *name;
	int bits;
	bool readable;
} types[] = {
	{ "BOOL", 8, true },	     { "F4", 4, false },
	{ "F6_E2M3", 6, false },     { "F6_E3M2", 6, false },
	{ "U8", 8, true },	     { "I8", 8, true },
	{ "F8_E5M2", 8, true },	     { "F8_E4M3", 8, true },
	{ "F8_E8M0", 8, false },     { "F8_E4M3FNUZ", 8, false },
	{ "F8_E5M2FNUZ", 8, false }, { "I16", 16, true },
	{ "U16", 16, true },	     { "F16", 16, true },
	{ "BF16", 16, true },	     { "I32", 32, true },
	{ "U32", 32, true },	     { "F32", 32, true },
	{ "C64", 64, false },	     { "F64", 64, true },
	{ "I64", 64, true },	     { "U64", 64, true },
};

static void
test_all_dtypes(void **state)
{
	unsigned char data[64] = { 1, 0, 1 }, raw[64];
	const struct rt_st_tensor *t;
	struct rt_error err;
	struct rt_st *st;
	struct bytes b;
	double out[8];
	size_t i, n;

	(void)state;
	assert_int_equal(sizeof(types) / sizeof(types[0]), RT_DTYPE_COUNT);
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		n = (size_t)types[i].bits;
		b = make_one(types[i].name, 8, data, n);
		st = parse(b);
		assert_int_equal(rt_st_count(st), 1);
		t = rt_st_at(st, 0);
		assert_int_equal(t->dtype, i);
		assert_string_equal(rt_dtype_name(t->dtype), types[i].name);
		assert_int_equal(rt_dtype_bits(t->dtype), types[i].bits);
		assert_int_equal(t->end - t->begin, n);
		assert_int_equal(
			rt_st_read_raw(st, t, 0, (int64_t)n, raw, &err), RT_OK);
		assert_memory_equal(raw, data, n);
		if (types[i].readable) {
			assert_int_equal(rt_st_read_f64(st, t, 0, 8, out, &err),
					 RT_OK);
		} else {
			assert_int_equal(rt_st_read_f64(st, t, 0, 8, out, &err),
					 RT_FORMAT);
			assert_non_null(strstr(
				err.message, "tensor 't': unsupported dtype "));
		}
		rt_st_free(st);
		free(b.at);
	}
}

/* Any order in the header, empty tensors, scalars, escapes, metadata. */
static void
test_good_header(void **state)
{
	const struct rt_st_tensor *t;
	struct rt_st *st;
	struct bytes b;

	(void)state;
	b = make("{'z':{'data_offsets' : [ 4 , 6 ],\t'shape':\r\n[],"
		 "'dtype':'I16'},'empty':{'dtype':'F64','shape':[3,0,9],"
		 "'data_offsets':[4,4]},'none':{'dtype':'U8','shape':[0],"
		 "'data_offsets':[4,4]},"
		 "'\\u00e9\\ud83d\\ude00\\n\\\\\\/':{'dtype':'F4','shape':[2,"
		 "4],'data_offsets':[0,4]},'':{'dtype':'U8','shape':[0],"
		 "'data_offsets':[0,0]},'__metadata__':{'format':'pt',"
		 "'a\\u0020b':'\\u20AC'}}   ",
		 6);
	st = parse(b);
	assert_int_equal(rt_st_count(st), 5);
	assert_string_equal(rt_st_at(st, 0)->name, "");
	assert_string_equal(rt_st_at(st, 1)->name, "empty");
	assert_string_equal(rt_st_at(st, 2)->name, "none");
	assert_string_equal(rt_st_at(st, 3)->name, "z");
	t = rt_st_at(st, 4);
	assert_string_equal(t->name, "\xc3\xa9\xf0\x9f\x98\x80\n\\/");
	assert_ptr_equal(rt_st_find(st, t->name), t);
	assert_int_equal(t->ndim, 2);
	assert_int_equal(t->shape[1], 4);
	assert_int_equal(rt_st_elems(t), 8);
	t = rt_st_find(st, "z");
	assert_int_equal(t->ndim, 0);
	assert_int_equal(rt_st_elems(t), 1);
	assert_int_equal(t->begin, 4);
	assert_int_equal(rt_st_elems(rt_st_find(st, "empty")), 0);
	assert_null(rt_st_find(st, "y"));
	assert_null(rt_st_path(st, t));
	assert_string_equal(rt_st_metadata(st, "format"), "pt");
	assert_string_equal(rt_st_metadata(st, "a b"), "\xe2\x82\xac");
	assert_null(rt_st_metadata(st, "b"));
	rt_st_free(st);
	free(b.at);
	rt_st_free(NULL);

	b = make("{}", 0);
	st = parse(b);
	assert_int_equal(rt_st_count(st), 0);
	assert_null(rt_st_find(st, ""));
	assert_null(rt_st_metadata(st, ""));
	rt_st_free(st);
	free(b.at);
}

/* 100,000 tensors: checks that nothing here is quadratic by being quick. */
static void
test_many_tensors(void **state)
{
	const size_t n = 100000, each = 100;
	char *json = malloc(n * each), name[20], *p = json;
	struct rt_st *st;
	struct bytes b;
	size_t i, k;

	(void)state;
	assert_non_null(json);
	for (i = 0; i < n; i++) {
		k = i * 7919 % n; /* neither in order of name... */
		p += snprintf(p, each,
			      "%c'%05zu':{'dtype':'U8','shape':[1],"
			      "'data_offsets':[%zu,%zu]}",
			      i ? ',' : '{', k, n - 1 - k, n - k);
	}
	strcpy(p, "}");
	b = make(json, n);
	st = parse(b);
	assert_int_equal(rt_st_count(st), n);
	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%05zu", i);
		assert_ptr_equal(rt_st_find(st, name), rt_st_at(st, i));
		assert_int_equal(rt_st_at(st, i)->end, n - i);
	}
	rt_st_free(st);
	free(b.at);
	free(json);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_broken_headers),
		cmocka_unit_test(test_broken_lengths),
		cmocka_unit_test(test_broken_utf8),
		cmocka_unit_test(test_names_in_messages),
		cmocka_unit_test(test_all_dtypes),
		cmocka_unit_test(test_good_header),
		cmocka_unit_test(test_many_tensors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The data of weights: every type read exactly, in parts, and
 * from files that misbehave.
 */
#include "tests/unit/data/t-safetensors.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>

/* ---- a pread() that can misbehave ---------------------------------- */

/* Takes the place of the C library's; `most` = 0 leaves it well-behaved. */
static struct {
	size_t most; /* bytes per call */
	int interrupts; /* calls that fail with EINTR first */
	int fail; /* errno of every call, 0: none */
} sick;

ssize_t pread(int fd, void *buf, size_t n, off_t at);

ssize_t
pread(int fd, void *buf, size_t n, off_t at)
{
	if (sick.fail) {
		errno = sick.fail;
		return -1;
	}
	if (sick.interrupts > 0) {
		sick.interrupts--;
		errno = EINTR;
		return -1;
	}
	if (sick.most && n > sick.most) {
		n = sick.most;
	}
	if (lseek(fd, at, SEEK_SET) < 0) {
		return -1;
	}
	return read(fd, buf, n);
}

/* ---- values -------------------------------------------------------- */

/* By the definition: (1 + f/2^m) * 2^(x - bias), not by moving bits. */
static double
reference(unsigned v, int e, int m, bool finite)
{
	int top = (1 << e) - 1, bias = top >> 1;
	int x = (int)(v >> m) & top, f = (int)(v & ((1u << m) - 1));
	double d;

	if (x == top && !finite) {
		d = f ? (double)NAN : (double)INFINITY;
	} else if (x == top && f == (1 << m) - 1) {
		d = (double)NAN;
	} else if (x == 0) {
		d = ldexp(f, 1 - bias - m);
	} else {
		d = ldexp((1 << m) + f, x - bias - m);
	}
	return v >> (e + m) & 1 ? -d : d;
}

static bool
same(double a, double b)
{
	return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof(a)) == 0;
}

/* All patterns of a type of 1 + e + m bits, 8 or 16. */
static void
all_patterns(const char *dtype, int e, int m, bool finite)
{
	size_t n = (size_t)1 << (1 + e + m), bytes = n > 256 ? 2 : 1, i;
	unsigned char *data = malloc(n * bytes);
	double *out = malloc(n * sizeof(*out));
	struct rt_error err;
	struct rt_st *st;
	struct bytes b;

	assert_non_null(data);
	assert_non_null(out);
	for (i = 0; i < n; i++) {
		data[i * bytes] = (unsigned char)i;
		if (bytes == 2) {
			data[i * 2 + 1] = (unsigned char)(i >> 8);
		}
	}
	b = make_one(dtype, n, data, n * bytes);
	st = parse(b);
	assert_int_equal(
		rt_st_read_f64(st, rt_st_at(st, 0), 0, (int64_t)n, out, &err),
		RT_OK);
	for (i = 0; i < n; i++) {
		assert_true(same(out[i], reference((unsigned)i, e, m, finite)));
	}
	rt_st_free(st);
	free(b.at);
	free(out);
	free(data);
}

static void
test_all_small_floats(void **state)
{
	(void)state;
	all_patterns("BF16", 8, 7, false);
	all_patterns("F16", 5, 10, false);
	all_patterns("F8_E5M2", 5, 2, false);
	all_patterns("F8_E4M3", 4, 3, true);
	/* Anchors from the definition of FP8, not from the formula. */
	assert_true(same(reference(0x7e, 4, 3, true), 448));
	assert_true(same(reference(0x7b, 5, 2, false), 57344));
	assert_true(same(reference(0x0001, 5, 10, false), 0x1p-24));
	assert_true(same(reference(0x7bff, 5, 10, false), 65504));
	assert_true(same(reference(0x3f80, 8, 7, false), 1));
}

static const struct {
	const char *dtype;
	unsigned char data[8];
	double value;
} values[] = {
	{ "BOOL", { 0 }, 0 },
	{ "BOOL", { 1 }, 1 },
	{ "U8", { 255 }, 255 },
	{ "I8", { 255 }, -1 },
	{ "I8", { 128 }, -128 },
	{ "I8", { 127 }, 127 },
	{ "U16", { 255, 255 }, 65535 },
	{ "I16", { 0, 128 }, -32768 },
	{ "I16", { 1, 2 }, 513 },
	{ "U32", { 255, 255, 255, 255 }, 4294967295.0 },
	{ "I32", { 0, 0, 0, 128 }, -2147483648.0 },
	{ "I32", { 254, 255, 255, 255 }, -2 },
	{ "I64", { 0, 0, 0, 0, 0, 0, 0, 128 }, -0x1p63 },
	{ "I64", { 255, 255, 255, 255, 255, 255, 255, 255 }, -1 },
	{ "I64", { 0, 0, 0, 0, 0, 0, 32 }, 0x1p53 },
	{ "U64", { 0, 0, 0, 0, 0, 0, 0, 128 }, 0x1p63 },
	{ "U64",
	  { 0, 248, 255, 255, 255, 255, 255, 255 },
	  0x1.fffffffffffffp63 },
	{ "F32", { 1 }, 0x1p-149 },
	{ "F32", { 0, 0, 128, 191 }, -1 },
	{ "F32", { 255, 255, 127, 127 }, 0x1.fffffep127 },
	{ "F32", { 255, 255, 127 }, 0x1.fffffcp-127 },
	{ "F32", { 0, 0, 128, 127 }, (double)INFINITY },
	{ "F32", { 0, 0, 192, 127 }, (double)NAN },
	{ "F32", { 0, 0, 0, 128 }, -0.0 },
	{ "F64", { 1 }, 0x1p-1074 },
	{ "F64", { 0, 0, 0, 0, 0, 0, 240, 63 }, 1 },
};

static void
test_values(void **state)
{
	struct rt_error err;
	struct rt_st *st;
	struct bytes b;
	double out;
	size_t i;
	int k;

	(void)state;
	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		for (k = 0; strcmp(rt_dtype_name((enum rt_dtype)k),
				   values[i].dtype) != 0;
		     k++) {
			continue;
		}
		b = make_one(values[i].dtype, 1, values[i].data,
			     (size_t)rt_dtype_bits((enum rt_dtype)k) / 8);
		st = parse(b);
		assert_int_equal(
			rt_st_read_f64(st, rt_st_at(st, 0), 0, 1, &out, &err),
			RT_OK);
		assert_true(same(out, values[i].value));
		rt_st_free(st);
		free(b.at);
	}
}

/* Two elements, the second of which, at byte `at`, must be refused. */
static void
inexact(const char *dtype, const void *data, size_t n, size_t at,
	const char *message)
{
	struct bytes b = make_one(dtype, 2, data, n);
	struct rt_st *st = parse(b);
	struct rt_error err;
	double out[2];

	assert_int_equal(rt_st_read_f64(st, rt_st_at(st, 0), 0, 1, out, &err),
			 RT_OK);
	assert_int_equal(rt_st_read_f64(st, rt_st_at(st, 0), 0, 2, out, &err),
			 RT_FORMAT);
	assert_string_equal(err.message, message);
	assert_int_equal(err.offset, b.n - n + at);
	rt_st_free(st);
	free(b.at);
}

static void
test_inexact(void **state)
{
	static const unsigned char big[16] = { 0, 0, 0, 0, 0, 0, 0, 0,
					       1, 0, 0, 0, 0, 0, 32 };
	static const unsigned char minus[16] = { 0,   0,   0,	0,   0,	  0,
						 0,   0,   255, 255, 255, 255,
						 255, 255, 223, 255 };

	(void)state;
	inexact("BOOL", "\1\2", 2, 1,
		"tensor 't': found 2 as element 1 of a BOOL, expected 0 or 1");
	inexact("I64", big, 16, 8,
		"tensor 't': found 9007199254740993 as element 1, expected an "
		"integer that a double holds exactly");
	inexact("U64", big, 16, 8,
		"tensor 't': found 9007199254740993 as element 1, expected an "
		"integer that a double holds exactly");
	inexact("I64", minus, 16, 8,
		"tensor 't': found -9007199254740993 as element 1, expected an "
		"integer that a double holds exactly");
}

/* ---- reading from files -------------------------------------------- */

enum {
	MANY = 50000, /* 16-bit elements, several chunks */
};

/* A folder with a.safetensors, which holds MANY elements k -> k. */
static char *
dir_with_many(void)
{
	unsigned char *data = malloc(2 * MANY);
	char *dir = make_dir();
	size_t i;

	assert_non_null(data);
	for (i = 0; i < MANY; i++) {
		data[2 * i] = (unsigned char)i;
		data[2 * i + 1] = (unsigned char)(i >> 8);
	}
	put_bytes(dir, "a.safetensors", make_one("U16", MANY, data, 2 * MANY));
	free(data);
	return dir;
}

/* Of a path the tail is shown, never within a character. */
#define TEN "/90123456/"
#define LONG_PATH       \
	"none/\xc3\xa9" \
	"456" TEN TEN TEN TEN TEN TEN "none"

static const char *const only_a[] = { "a.safetensors", NULL };

static void
test_parts(void **state)
{
	static const struct {
		int64_t first, n;
	} parts[] = {
		{ 0, MANY },	 { 1, MANY - 1 },  { MANY, 0 },
		{ 16383, 2 },	 { 16384, 16384 }, { 16385, 32768 },
		{ MANY - 1, 1 },
	};
	double *out = malloc(MANY * sizeof(*out));
	char *dir = dir_with_many();
	unsigned char raw[5];
	struct rt_error err;
	struct rt_st *st;
	size_t i;
	int64_t k;

	(void)state;
	assert_non_null(out);
	assert_int_equal(
		rt_st_open(&st, path_in(dir, "a.safetensors"), NULL, &err),
		RT_OK);
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		/* Bits of a file must come whole however the system cuts. */
		memset(&sick, 0, sizeof(sick));
		sick.most = i % 2 ? 1001 : 0;
		sick.interrupts = 3;
		assert_int_equal(rt_st_read_f64(st, rt_st_at(st, 0),
						parts[i].first, parts[i].n, out,
						&err),
				 RT_OK);
		for (k = 0; k < parts[i].n; k++) {
			assert_true(out[k] == (double)(parts[i].first + k));
		}
	}
	memset(&sick, 0, sizeof(sick));
	sick.most = 2;
	assert_int_equal(rt_st_read_raw(st, rt_st_at(st, 0), 513, 5, raw, &err),
			 RT_OK);
	assert_memory_equal(raw, "\1\1\1\2\1", 5);
	memset(&sick, 0, sizeof(sick));
	rt_st_free(st);
	free(out);
	remove_dir(dir, only_a);
}

static void
test_bad_ranges(void **state)
{
	static const int64_t bad[][2] = {
		{ 0, 5 },	  { 4, 1 },
		{ 5, 0 },	  { -1, 1 },
		{ 0, -1 },	  { 1, INT64_MAX },
		{ INT64_MAX, 1 }, { INT64_MIN, INT64_MIN },
	};
	struct bytes b = make_one("U8", 4, "abcd", 4);
	struct rt_st *st = parse(b);
	struct rt_error err;
	double out[8];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(rt_st_read_f64(st, rt_st_at(st, 0), bad[i][0],
						bad[i][1], out, &err),
				 RT_RANGE);
		assert_int_equal(rt_st_read_raw(st, rt_st_at(st, 0), bad[i][0],
						bad[i][1], out, &err),
				 RT_RANGE);
	}
	assert_int_equal(rt_st_read_f64(st, rt_st_at(st, 0), 3, 2, out, &err),
			 RT_RANGE);
	assert_string_equal(err.message, "tensor 't': asked for 2 elements "
					 "from 3 on, expected a part of its 4");
	rt_st_free(st);
	/* Only the header was given. */
	assert_int_equal(
		rt_st_parse(&st, b.at, b.n - 4, (int64_t)b.n, NULL, &err),
		RT_OK);
	assert_int_equal(rt_st_read_f64(st, rt_st_at(st, 0), 0, 4, out, &err),
			 RT_RANGE);
	rt_st_free(st);
	free(b.at);
}

static void
test_open_errors(void **state)
{
	char *dir = dir_with_many();
	struct rt_error err;
	struct rt_st *st;

	(void)state;
	assert_int_equal(rt_st_open(&st, path_in(dir, "none"), NULL, &err),
			 RT_IO);
	assert_string_equal(after_path(err.message, "/none"),
			    "cannot open: No such file or directory");
	assert_int_equal(rt_st_open(&st, LONG_PATH, NULL, &err), RT_IO);
	assert_string_equal(err.message,
			    "...456" TEN TEN TEN TEN TEN TEN
			    "none: cannot open: No such file or directory");
	assert_int_equal(rt_st_open(&st, dir, NULL, &err), RT_IO);
	assert_non_null(strstr(err.message,
			       "found a directory, expected a regular file"));
	assert_int_equal(mkfifo(path_in(dir, "pipe"), 0600), 0);
	assert_int_equal(rt_st_open(&st, path_in(dir, "pipe"), NULL, &err),
			 RT_IO);
	assert_string_equal(after_path(err.message, "/pipe"),
			    "found a pipe, socket or device, expected a "
			    "regular file");
	assert_int_equal(remove(path_in(dir, "pipe")), 0);
	sick.fail = EIO;
	assert_int_equal(
		rt_st_open(&st, path_in(dir, "a.safetensors"), NULL, &err),
		RT_IO);
	assert_null(st);
	remove_dir(dir, only_a);
}

static void
test_read_errors(void **state)
{
	char *dir = dir_with_many(), message[200];
	double *out = malloc(MANY * sizeof(*out));
	struct rt_error err;
	struct rt_st *st;
	struct stat sb;

	(void)state;
	assert_non_null(out);
	assert_int_equal(stat(path_in(dir, "a.safetensors"), &sb), 0);
	assert_int_equal(
		rt_st_open(&st, path_in(dir, "a.safetensors"), NULL, &err),
		RT_OK);
	sick.fail = EIO;
	assert_int_equal(
		rt_st_read_f64(st, rt_st_at(st, 0), 0, MANY, out, &err), RT_IO);
	snprintf(message, sizeof(message),
		 "tensor 't': cannot read byte %ld: %s",
		 (long)sb.st_size - 2 * MANY, strerror(EIO));
	assert_string_equal(after_path(err.message, "a.safetensors"), message);
	sick.fail = 0;
	/* The file shrinks while it is open. */
	assert_int_equal(
		truncate(path_in(dir, "a.safetensors"), sb.st_size - 1), 0);
	assert_int_equal(
		rt_st_read_f64(st, rt_st_at(st, 0), 0, MANY, out, &err), RT_IO);
	snprintf(message, sizeof(message),
		 "tensor 't': the file now ends at or before byte %ld, "
		 "expected %ld bytes as when it was opened",
		 (long)sb.st_size - 1, (long)sb.st_size);
	assert_string_equal(after_path(err.message, "a.safetensors"), message);
	assert_int_equal(err.offset, sb.st_size - 1);
	rt_st_free(st);
	free(out);
	remove_dir(dir, only_a);
}

static int
make_well(void **state)
{
	(void)state;
	memset(&sick, 0, sizeof(sick));
	return 0;
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_all_small_floats, make_well),
		cmocka_unit_test_setup(test_values, make_well),
		cmocka_unit_test_setup(test_inexact, make_well),
		cmocka_unit_test_setup(test_parts, make_well),
		cmocka_unit_test_setup(test_bad_ranges, make_well),
		cmocka_unit_test_setup(test_open_errors, make_well),
		cmocka_unit_test_setup(test_read_errors, make_well),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

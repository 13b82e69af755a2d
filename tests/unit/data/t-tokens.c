/*
 * Token files: what they hold, in which order it comes, and what
 * is said of those that are broken.
 */
#include "tests/unit/data/t-safetensors.h"

#include <inttypes.h>

#include "runtime/data/data.h"
#include "runtime/data/tokens.h"

/* ---- files --------------------------------------------------------- */

static void
put_little(unsigned char *p, uint64_t v, int bytes)
{
	for (; bytes > 0; bytes--, v >>= 8) {
		*p++ = (unsigned char)v;
	}
}

/* n tokens first, first + 1, ... after `head` bytes of nothing. */
static struct bytes
numbers(size_t head, int bytes, size_t n, uint64_t first)
{
	struct bytes b;
	size_t i;

	b.n = head + n * (size_t)bytes;
	b.at = calloc(b.n + 1, 1);
	assert_non_null(b.at);
	for (i = 0; i < n; i++) {
		put_little(b.at + head + i * (size_t)bytes, first + i, bytes);
	}
	return b;
}

static struct bytes
llmc(uint32_t magic, uint32_t version, int bytes, size_t n, uint64_t first)
{
	struct bytes b = numbers(1024, bytes, n, first);

	put_little(b.at, magic, 4);
	put_little(b.at + 4, version, 4);
	put_little(b.at + 8, n, 4);
	return b;
}

/* An index of `n` sequences, each a document. */
static struct bytes
megatron(int code, int bytes, const int *lengths, size_t n, bool modes)
{
	size_t at = 34, i;
	struct bytes b;
	uint64_t place = 0;

	b.n = 34 + 12 * n + 8 * (n + 1) + (modes ? n : 0);
	b.at = calloc(b.n, 1);
	assert_non_null(b.at);
	memcpy(b.at, "MMIDIDX", 7);
	put_little(b.at + 9, 1, 8);
	b.at[17] = (unsigned char)code;
	put_little(b.at + 18, n, 8);
	put_little(b.at + 26, n + 1, 8);
	for (i = 0; i < n; i++, at += 4) {
		put_little(b.at + at, (uint64_t)lengths[i], 4);
	}
	for (i = 0; i < n; i++, at += 8) {
		put_little(b.at + at, place, 8);
		place += (uint64_t)(lengths[i] * bytes);
	}
	for (i = 0; i <= n; i++, at += 8) {
		put_little(b.at + at, i, 8);
	}
	return b;
}

static enum rt_status
open_n(struct rt_tokens **t, const char *const *paths, int64_t n,
       int64_t length, bool in_order, struct rt_error *err)
{
	struct rt_tokens_options o = { paths, n, length, 1000 };
	enum rt_status status;

	memset(err, 0, sizeof(*err));
	status = rt_tokens_open(t, &o, err);
	if (status == RT_OK && !in_order) {
		rt_tokens_shuffle(*t, 42);
	}
	return status;
}

static struct rt_tokens *
opened(const char *path, int64_t length)
{
	struct rt_error err;
	struct rt_tokens *t;

	open_n(&t, &path, 1, length, true, &err);
	assert_string_equal(err.message, "");
	return t;
}

/* Tokens of sequence `index` are first, first + 1, ... */
static void
expect(const struct rt_tokens *t, int64_t index, int64_t n, int first)
{
	struct rt_error err = { 0 };
	int32_t out[64];
	int64_t i;

	rt_tokens_get(t, index, 0, n, out, &err);
	assert_string_equal(err.message, "");
	for (i = 0; i < n; i++) {
		assert_int_equal(out[i], first + i);
	}
}

/* ---- what files hold ----------------------------------------------- */

static void
test_raw(void **state)
{
	static const char *const names[] = { "a", NULL };
	char *dir = make_dir();
	struct rt_error err = { 0 };
	struct rt_tokens *t;
	int32_t out[3];

	(void)state;
	put_bytes(dir, "a", numbers(0, 2, 41, 100));
	t = opened(path_in(dir, "a"), 10);
	assert_int_equal(rt_tokens_total(t), 41);
	assert_int_equal(rt_tokens_sequences(t), 4);
	expect(t, 0, 11, 100);
	expect(t, 3, 11, 130);
	expect(t, 4, 11, 100);	/* the next epoch */
	assert_int_equal(rt_tokens_get(t, 1, 8, 3, out, &err), RT_OK);
	assert_int_equal(out[2], 120);
	assert_int_equal(rt_tokens_get(t, 1, 9, 3, out, &err), RT_RANGE);
	assert_int_equal(rt_tokens_get(t, -1, 0, 3, out, &err), RT_RANGE);
	rt_tokens_free(t);
	/* One token less is one sequence less. */
	put_bytes(dir, "a", numbers(0, 2, 40, 100));
	t = opened(path_in(dir, "a"), 10);
	assert_int_equal(rt_tokens_sequences(t), 3);
	rt_tokens_free(t);
	remove_dir(dir, names);
}

/* Bytes, if the name says so; the same file under another name is u16. */
static void
test_text(void **state)
{
	static const char *const names[] = { "a.md", "a.txt", "a", NULL };
	char *dir = make_dir();
	struct rt_tokens *t;
	int i;

	(void)state;
	for (i = 0; names[i]; i++) {
		put_bytes(dir, names[i], numbers(0, 1, 42, 'A'));
		t = opened(path_in(dir, names[i]), 10);
		assert_int_equal(rt_tokens_total(t), i < 2 ? 42 : 21);
		if (i < 2) {
			expect(t, 3, 11, 'A' + 30);
		}
		rt_tokens_free(t);
	}
	remove_dir(dir, names);
}

static void
test_llmc(void **state)
{
	static const char *const names[] = { "a.bin", "b.bin", NULL };
	char *dir = make_dir();
	const char *paths[2];
	struct rt_error err;
	struct rt_tokens *t;

	(void)state;
	put_bytes(dir, "a.bin", llmc(20240520, 1, 2, 21, 7));
	put_bytes(dir, "b.bin", llmc(20240801, 7, 4, 35, 300));
	paths[0] = path_in(dir, "a.bin");
	paths[1] = path_in(dir, "b.bin");
	assert_int_equal(open_n(&t, paths, 2, 10, true, &err), RT_OK);
	assert_int_equal(rt_tokens_total(t), 56);
	assert_int_equal(rt_tokens_sequences(t), 5);
	expect(t, 0, 11, 7);
	expect(t, 1, 11, 17);
	expect(t, 2, 11, 300);	/* none spans both */
	expect(t, 4, 11, 320);
	rt_tokens_free(t);
	remove_dir(dir, names);
}

static void
test_megatron(void **state)
{
	static const char *const names[] = { "a.bin", "a.idx", NULL };
	static const int lengths[] = { 5, 0, 9, 7 };
	static const struct {
		int code, bytes;
	} types[] = { { 1, 1 }, { 8, 2 }, { 4, 4 } };
	char *dir = make_dir();
	struct rt_tokens *t;
	size_t i;

	(void)state;
	for (i = 0; i < 6; i++) {
		int code = types[i / 2].code, bytes = types[i / 2].bytes;

		put_bytes(dir, "a.bin", numbers(0, bytes, 21, 40));
		put_bytes(dir, "a.idx",
			  megatron(code, bytes, lengths, 4, i % 2));
		t = opened(path_in(dir, "a.bin"), 10);
		assert_int_equal(rt_tokens_total(t), 21);
		assert_int_equal(rt_tokens_sequences(t), 2);
		expect(t, 0, 11, 40);
		expect(t, 1, 11, 50);
		rt_tokens_free(t);
	}
	remove_dir(dir, names);
}

/* Each of many more files than may be open at once. */
static void
test_many_files(void **state)
{
	enum { N = 300 };
	static const char *list[N + 1], *paths[N];
	char name[12];
	char *dir = make_dir();
	struct rt_error err;
	struct rt_tokens *t;
	int32_t out[3];
	int i;

	(void)state;
	for (i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "%d", i);
		put_bytes(dir, name, numbers(0, 2, 3, (uint64_t)i));
		list[i] = strdup(name);
		paths[i] = strdup(path_in(dir, name));
	}
	assert_int_equal(open_n(&t, paths, N, 2, true, &err), RT_OK);
	assert_int_equal(rt_tokens_sequences(t), N);
	for (i = 0; i < N; i++) {
		expect(t, i, 3, i);
	}
	/* One that was not kept open has grown. */
	put_bytes(dir, "299", numbers(0, 2, 4, 0));
	assert_int_equal(rt_tokens_get(t, 299, 0, 3, out, &err), RT_IO);
	assert_string_equal(after_path(err.message, "/299"),
			    "found 8 bytes, expected 6 as when the run began");
	rt_tokens_free(t);
	for (i = 0; i < N; i++) {
		free((char *)(uintptr_t)paths[i]);
	}
	remove_dir(dir, list);
	for (i = 0; i < N; i++) {
		free((char *)(uintptr_t)list[i]);
	}
}

/* ---- the order ----------------------------------------------------- */

static void
test_permutation(void **state)
{
	static const int64_t sizes[] = { 1, 2, 3, 4, 5, 16, 17, 63, 64, 65,
					 1000, 4096, 100003 };
	unsigned char *seen;
	int64_t n, i, at;
	uint64_t key;
	size_t k;

	(void)state;
	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		n = sizes[k];
		for (key = 0; key < 5; key++) {
			seen = calloc((size_t)n, 1);
			assert_non_null(seen);
			for (i = 0; i < n; i++) {
				at = rt_tokens_permute(n, key * 977, i);
				assert_true(at >= 0 && at < n && !seen[at]);
				seen[at] = 1;
			}
			free(seen);
		}
	}
	at = rt_tokens_permute(INT64_MAX, 1, INT64_MAX - 1);
	assert_true(at >= 0);
}

/* Chi-squared of where each of 16 comes to under 4096 keys. */
static void
test_permutation_is_even(void **state)
{
	int64_t count[16][16] = { { 0 } };
	double chi = 0, off;
	int64_t key, i, j;

	(void)state;
	for (key = 0; key < 4096; key++) {
		for (i = 0; i < 16; i++) {
			count[i][rt_tokens_permute(16, (uint64_t)key << 7,
						   i)]++;
		}
	}
	for (i = 0; i < 16; i++) {
		for (j = 0; j < 16; j++) {
			off = (double)count[i][j] - 256;
			chi += off * off / 256;
		}
	}
	/* 225 degrees of freedom: 330 is five standard deviations. */
	assert_true(chi < 330);
}

/* Where each of 20 sequences of 5 tokens came, epoch by epoch. */
static void
orders(const struct rt_tokens *t, int first[3][20])
{
	struct rt_error err = { 0 };
	int32_t out[6];
	int e, i;

	for (e = 0; e < 3; e++) {
		int seen[20] = { 0 };

		for (i = 0; i < 20; i++) {
			rt_tokens_get(t, e * 20 + i, 0, 6, out, &err);
			assert_string_equal(err.message, "");
			assert_int_equal(out[5], out[0] + 5);
			first[e][i] = out[0];
			assert_int_equal(seen[out[0] / 5]++, 0);
		}
	}
}

/*
 * docs/checkpoints.md, Order, for n < 2^26: with 64-bit words of two halves
 * and division where the runtime shifts.
 */
static uint64_t
page_shifted_xor(uint64_t x, int by)
{
	uint64_t power = 1;

	while (by-- > 0) {
		power *= 2;
	}
	return x ^ x / power;
}

static uint64_t
page_mix(uint64_t x)
{
	x = page_shifted_xor(x, 30) * 13787848793156543929u;
	x = page_shifted_xor(x, 27) * 10723151780598845931u;
	return page_shifted_xor(x, 31);
}

static int64_t
page_order(uint64_t n, uint64_t seed, uint64_t epoch, uint64_t x)
{
	uint64_t key = page_mix(seed ^ page_mix(epoch + 1));
	uint64_t side = 2, pair[2], i;

	while (side * side < n) {
		side *= 2;
	}
	do {
		pair[0] = x / side;
		pair[1] = x % side;
		for (i = 0; i < 8; i++) {
			pair[i % 2] ^= page_mix(key + pair[1 - i % 2] +
						i * 1099511627776u) % side;
		}
		x = pair[0] * side + pair[1];
	} while (x >= n);
	return (int64_t)x;
}

/* Who reads the page finds each sequence of each epoch. */
static void
test_order_is_what_the_page_says(void **state)
{
	static const int64_t sizes[] = { 1, 2, 4, 5, 16, 17, 64, 65, 700 };
	static const uint64_t seeds[] = { 0, 1, 42, UINT64_MAX };
	struct rt_error err = { 0 };
	char *dir = make_dir();
	const char *path;
	struct rt_tokens *t;
	struct bytes b;
	int64_t n, i;
	size_t k, s;
	int32_t token;

	(void)state;
	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		n = sizes[k];
		b.n = 2 * (size_t)n + 2;
		b.at = calloc(b.n, 1);
		assert_non_null(b.at);
		for (i = 0; i < n; i++) {
			put_little(b.at + 2 * i, (uint64_t)i, 2);
		}
		put_bytes(dir, "x", b);
		path = path_in(dir, "x");
		for (s = 0; s < sizeof(seeds) / sizeof(seeds[0]); s++) {
			t = opened(path, 1);
			for (i = 0; i < 2 * n; i++) {
				rt_tokens_get(t, i, 0, 1, &token, &err);
				assert_int_equal(token, i % n);
			}
			rt_tokens_shuffle(t, seeds[s]);
			for (i = 0; i < 3 * n; i++) {
				rt_tokens_get(t, i, 0, 1, &token, &err);
				assert_int_equal(token, page_order(
					(uint64_t)n, seeds[s],
					(uint64_t)(i / n), (uint64_t)(i % n)));
			}
			rt_tokens_free(t);
		}
		remove(path_in(dir, "x"));
	}
	assert_int_equal(rmdir(dir), 0);
	free(dir);
}

static void
test_epochs(void **state)
{
	static const char *const names[] = { "a", NULL };
	char *dir = make_dir();
	const char *path = path_in(dir, "a");
	int a[3][20], b[3][20];
	struct rt_error err;
	struct rt_tokens *t;

	(void)state;
	put_bytes(dir, "a", numbers(0, 2, 101, 0));
	assert_int_equal(open_n(&t, &path, 1, 5, false, &err), RT_OK);
	orders(t, a);
	rt_tokens_free(t);
	assert_memory_not_equal(a[0], a[1], sizeof(a[0]));
	assert_memory_not_equal(a[1], a[2], sizeof(a[0]));
	assert_int_equal(open_n(&t, &path, 1, 5, false, &err), RT_OK);
	orders(t, b);
	rt_tokens_free(t);
	assert_memory_equal(a, b, sizeof(a));
	/* The bits are promised: a run that goes on must find its place. */
	assert_int_equal(a[0][0] / 5, 9);
	assert_int_equal(a[0][1] / 5, 1);
	assert_int_equal(a[2][19] / 5, 15);
	remove_dir(dir, names);
}

/* ---- refusals ------------------------------------------------------ */

/* Opening a.bin, with a.idx if there is one, says this of `file`. */
static void
refused(const char *dir, const char *file, const char *message)
{
	const char *path = path_in(dir, "a.bin");
	struct rt_error err;
	struct rt_tokens *t;

	assert_int_not_equal(open_n(&t, &path, 1, 10, true, &err), RT_OK);
	assert_null(t);
	assert_string_equal(after_path(err.message, file), message);
}

static void
test_refusals(void **state)
{
	static const char *const names[] = { "a.bin", NULL };
	char *dir = make_dir();
	struct bytes b;

	(void)state;
	refused(dir, "/a.bin", "cannot open: No such file or directory");
	put(dir, "a.bin", "", 0);
	refused(dir, "/a.bin", "found an empty file, expected tokens");
	put_bytes(dir, "a.bin", numbers(0, 1, 7, 0));
	refused(dir, "/a.bin",
		"found 7 bytes, neither with llm.c's header nor with an .idx "
		"beside it, expected u16 tokens, two bytes each");
	put_bytes(dir, "a.bin", numbers(0, 2, 10, 0));
	refused(dir, "/a.bin",
		"found 10 tokens, expected at least 11: a sequence of 10 and "
		"the token after it");
	put_bytes(dir, "a.bin", numbers(0, 2, 1, 0));
	refused(dir, "/a.bin",
		"found 1 token, expected at least 11: a sequence of 10 and "
		"the token after it");
	b = llmc(20240520, 1, 2, 50, 0);
	b.n--;
	put_bytes(dir, "a.bin", b);
	refused(dir, "/a.bin",
		"found 50 tokens in the header at byte 8 and a file of 1123 "
		"bytes, expected 1124 bytes: 1024 and 2 for each token");
	put_bytes(dir, "a.bin", llmc(20240520, 2, 2, 50, 0));
	refused(dir, "/a.bin",
		"found version 2 of llm.c's token files at byte 4, expected 1");
	put_bytes(dir, "a.bin", llmc(20240522, 1, 2, 50, 0));
	refused(dir, "/a.bin",
		"found multiple choice questions of llm.c (magic 20240522), "
		"expected tokens, whose magic is 20240520");
	b = numbers(0, 1, 40, 0);
	memcpy(b.at, "MMIDIDX\0\0", 9);
	put_bytes(dir, "a.bin", b);
	refused(dir, "/a.bin",
		"found Megatron's index, expected the .bin that it belongs to");
	remove_dir(dir, names);
}

/* Puts an index of three sequences, of which a byte is changed. */
static void
put_index(const char *dir, size_t at, unsigned char byte)
{
	static const int lengths[] = { 5, 9, 7 };
	struct bytes b = megatron(8, 2, lengths, 3, false);

	b.at[at] = byte;
	put_bytes(dir, "a.idx", b);
}

static void
test_refused_indexes(void **state)
{
	static const char *const names[] = { "a.bin", "a.idx", NULL };
	char *dir = make_dir();

	(void)state;
	put_bytes(dir, "a.bin", numbers(0, 2, 21, 0));
	put(dir, "a.idx", "MMIDIDX", 7);
	refused(dir, "/a.idx",
		"found 7 bytes, expected Megatron's index of at least 34");
	put_index(dir, 0, 'm');
	refused(dir, "/a.idx",
		"found no MMIDIDX at byte 0, expected Megatron's index, since "
		"there is a .bin of that name");
	put_index(dir, 9, 3);
	refused(dir, "/a.idx", "found version 3 at byte 9, expected 1");
	put_index(dir, 17, 5);
	refused(dir, "/a.idx",
		"found type 5 (i64) at byte 17, expected 1 (u8), 4 (i32) or 8 "
		"(u16)");
	put_index(dir, 17, 200);
	refused(dir, "/a.idx",
		"found type 200 (no known type) at byte 17, expected 1 (u8), "
		"4 (i32) or 8 (u16)");
	put_index(dir, 18, 4);
	refused(dir, "/a.idx",
		"found 4 sequences and 4 ends of documents at byte 18 and 68 "
		"bytes after byte 34, expected 12 or 13 for each sequence "
		"and 8 for each end");
	put_index(dir, 37, 0x80);
	refused(dir, "/a.idx",
		"found -2147483643 as the length of sequence 0, expected 0 or "
		"more");
	put_index(dir, 46 + 8, 11);
	refused(dir, "/a.idx",
		"found sequence 1 at byte 11 of the .bin, expected it at 10, "
		"where the one before it ends");
	put_index(dir, 42, 8);
	refused(dir, "/a.bin",
		"found 42 bytes, expected 44: 22 tokens of 3 sequences by its "
		".idx, 2 bytes each");
	remove_dir(dir, names);
}

/* What is found only when it is read. */
static void
test_bad_tokens(void **state)
{
	static const char *const names[] = { "a.bin", "a.idx", NULL };
	static const int lengths[] = { 21 };
	char *dir = make_dir();
	struct rt_error err;
	struct rt_tokens *t;
	struct bytes b;
	int32_t out[11];

	(void)state;
	put_bytes(dir, "a.bin", llmc(20240520, 1, 2, 21, 985));
	t = opened(path_in(dir, "a.bin"), 10);
	assert_int_equal(rt_tokens_get(t, 0, 0, 11, out, &err), RT_OK);
	assert_int_equal(rt_tokens_get(t, 1, 0, 11, out, &err), RT_FORMAT);
	assert_int_equal(err.offset, 1024 + 2 * 15);
	assert_string_equal(after_path(err.message, "/a.bin"),
			    "found token 1000 as number 15 of the file, at "
			    "byte 1054, expected 0 to 999, as the vocabulary "
			    "has; was it made with another tokenizer?");
	/* Cut short while it is open: no signal, no made up tokens. */
	assert_int_equal(truncate(path_in(dir, "a.bin"), 1030), 0);
	assert_int_equal(rt_tokens_get(t, 0, 0, 11, out, &err), RT_IO);
	assert_non_null(strstr(err.message, "the file now ends"));
	rt_tokens_free(t);
	b = numbers(0, 4, 21, 0);
	put_little(b.at + 8, UINT64_MAX - 6, 4);
	put_bytes(dir, "a.bin", b);
	put_bytes(dir, "a.idx", megatron(4, 4, lengths, 1, false));
	t = opened(path_in(dir, "a.bin"), 10);
	assert_int_equal(rt_tokens_get(t, 0, 0, 11, out, &err), RT_FORMAT);
	assert_non_null(strstr(err.message, "found token -7 as number 2"));
	rt_tokens_free(t);
	remove_dir(dir, names);
}

static void
test_bad_calls(void **state)
{
	struct rt_error err;
	struct rt_tokens *t;
	const char *dir = ".";

	(void)state;
	assert_int_equal(open_n(&t, NULL, 0, 10, true, &err), RT_RANGE);
	assert_int_equal(open_n(&t, &dir, 1, 0, true, &err), RT_RANGE);
	assert_int_equal(open_n(&t, &dir, 1, 10, true, &err), RT_IO);
	assert_string_equal(err.message, ".: found a directory, expected a "
					 "regular file");
	rt_tokens_free(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raw),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_llmc),
		cmocka_unit_test(test_megatron),
		cmocka_unit_test(test_many_files),
		cmocka_unit_test(test_permutation),
		cmocka_unit_test(test_permutation_is_even),
		cmocka_unit_test(test_order_is_what_the_page_says),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_refused_indexes),
		cmocka_unit_test(test_bad_tokens),
		cmocka_unit_test(test_bad_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Sums under a key, held to published vectors; and where a job's
 * secret may come from.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/error.h"
#include "runtime/comm/secret.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
expect(const uint8_t sum[RT_SHA256_BYTES], const char *hex)
{
	char text[2 * RT_SHA256_BYTES + 1];
	int i;

	for (i = 0; i < RT_SHA256_BYTES; i++) {
		snprintf(text + 2 * i, 3, "%02x", sum[i]);
	}
	assert_string_equal(text, hex);
}

/* In pieces of each length, so that every place of a block is met. */
static void
sums_to(const char *what, size_t times, const char *hex)
{
	size_t n = strlen(what) * times, piece, i;
	char *all = malloc(n + 1);

	for (i = 0; i < n; i++) {
		all[i] = what[i % strlen(what)];
	}
	for (piece = 1; piece < 200; piece += n > 10000 ? 67 : 1) {
		uint8_t sum[RT_SHA256_BYTES];
		struct rt_sha256 s;

		rt_sha256_begin(&s);
		for (i = 0; i < n; i += piece) {
			rt_sha256_add(&s, all + i,
				      n - i < piece ? n - i : piece);
		}
		rt_sha256_end(&s, sum);
		expect(sum, hex);
	}
	free(all);
}

/* NIST's examples for FIPS 180-4, and the vectors of the same name. */
static void
test_sha256(void **state)
{
	(void)state;
	sums_to("a", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca49599"
		"1b7852b855");
	sums_to("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb41"
		"0ff61f20015ad");
	sums_to("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
		"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06"
		"c1");
	sums_to("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e"
		"046d39ccc7112cd0");
}

static void
mac(const void *key, size_t n, const void *data, size_t bytes,
    const char *hex)
{
	uint8_t sum[RT_SHA256_BYTES];
	struct rt_hmac h;

	rt_hmac_begin(&h, key, n);
	rt_hmac_add(&h, data, bytes / 2);
	rt_hmac_add(&h, (const char *)data + bytes / 2, bytes - bytes / 2);
	rt_hmac_end(&h, sum);
	expect(sum, hex);
}

/* RFC 4231, sections 4.2 to 4.8 without 4.6, which is cut. */
static void
test_hmac(void **state)
{
	static const char hash_first[] =
		"Test Using Larger Than Block-Size Key - Hash Key First";
	static const char both[] =
		"This is a test using a larger than block-size key and a "
		"larger than block-size data. The key needs to be hashed "
		"before being used by the HMAC algorithm.";
	uint8_t key[131], data[50];
	int i;

	(void)state;
	memset(key, 0x0b, 20);
	mac(key, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9"
	    "833da726e9376c2e32cff7");
	mac("Jefe", 4, "what do ya want for nothing?", 28, "5bdcc146bf60754e6a0"
	    "42426089575c75a003f089d2739839dec58b964ec3843");
	memset(key, 0xaa, sizeof(key));
	memset(data, 0xdd, sizeof(data));
	mac(key, 20, data, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c12"
	    "2d9635514ced565fe");
	mac(key, 131, hash_first, sizeof(hash_first) - 1, "60e431591ee0b67f0d8a"
	    "26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
	mac(key, 131, both, sizeof(both) - 1, "9b09ffa71b942fcb27635fbcd5b0e944"
	    "bfdc63644f0713938a7f51535c3a35e2");
	for (i = 0; i < 25; i++) {
		key[i] = (uint8_t)(i + 1);
	}
	memset(data, 0xcd, sizeof(data));
	mac(key, 25, data, 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f80"
	    "77a2e3ff46729665b");
}

static uint64_t
siphash_of(const uint8_t *at, size_t n, size_t first)
{
	uint8_t key[RT_SIPHASH_KEY];
	struct rt_siphash s;
	int i;

	for (i = 0; i < RT_SIPHASH_KEY; i++) {
		key[i] = (uint8_t)i;
	}
	rt_siphash_begin(&s, key);
	rt_siphash_add(&s, at, first);
	rt_siphash_add(&s, at + first, n - first);
	return rt_siphash_end(&s);
}

/* From the reference's table of vectors; its paper has that of 15 bytes. */
static void
test_siphash(void **state)
{
	static const struct {
		size_t n;
		uint64_t sum;
	} want[] = {
		{ 0, UINT64_C(0x726fdb47dd0e0e31) },
		{ 1, UINT64_C(0x74f839c593dc67fd) },
		{ 2, UINT64_C(0x0d6c8009d9a94f5a) },
		{ 7, UINT64_C(0xab0200f58b01d137) },
		{ 8, UINT64_C(0x93f5f5799a932462) },
		{ 15, UINT64_C(0xa129ca6149be45e5) },
		{ 63, UINT64_C(0x958a324ceb064572) },
	};
	uint8_t at[64];
	size_t i, first;

	(void)state;
	for (i = 0; i < sizeof(at); i++) {
		at[i] = (uint8_t)i;
	}
	for (i = 0; i < sizeof(want) / sizeof(*want); i++) {
		for (first = 0; first <= want[i].n; first++) {
			assert_true(siphash_of(at, want[i].n, first) ==
				    want[i].sum);
		}
	}
}

/* ---- where it comes from ---- */

struct env {
	const char *value, *path;
};

static const char *
get(void *user, const char *name)
{
	const struct env *e = user;

	return strcmp(name, "LLMC_SECRET") == 0 ? e->value :
	       strcmp(name, "LLMC_SECRET_FILE") == 0 ? e->path : NULL;
}

static enum rt_status
read_secret(const char *value, const char *path, struct rt_secret *s,
	    struct rt_error *err)
{
	struct env e = { value, path };
	struct rt_variables v = { get, &e };

	return rt_secret_read(s, &v, err);
}

static void
refused(const char *value, const char *path, const char *text)
{
	struct rt_error err = { RT_OK, -1, "" };
	struct rt_secret s;

	assert_int_not_equal(read_secret(value, path, &s, &err), RT_OK);
	if (!strstr(err.message, text)) {
		fail_msg("'%s' is not in: %s", text, err.message);
	}
}

static const char *
file_of(const char *text, mode_t mode)
{
	static char path[64];
	int fd;

	snprintf(path, sizeof(path), "t-secret-%ld.secret", (long)getpid());
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static void
test_secret(void **state)
{
	static const char text[] = "0123456789abcdef0123";
	struct rt_secret a, b, none;
	struct rt_error err;
	char line[64], fifo[64];
	const char *path;

	(void)state;
	assert_int_equal(read_secret(text, NULL, &a, &err), RT_OK);
	assert_true(a.given);
	snprintf(line, sizeof(line), "%s\n", text);
	assert_int_equal(read_secret(NULL, file_of(line, 0600), &b, &err),
			 RT_OK);
	assert_memory_equal(a.key, b.key, sizeof(a.key));
	assert_int_equal(read_secret(NULL, NULL, &none, &err), RT_OK);
	assert_false(none.given);
	assert_memory_not_equal(a.key, none.key, sizeof(a.key));
	assert_int_equal(read_secret("0123456789abcdef0124", NULL, &b, &err),
			 RT_OK);
	assert_memory_not_equal(a.key, b.key, sizeof(a.key));

	refused("0123456789abcde", NULL, "found a secret of 15 bytes (LLMC_"
		"SECRET), expected 16 to 4096");
	path = file_of("\n\n", 0600);
	refused(NULL, path, "found a secret of 0 bytes (LLMC_SECRET_FILE)");
	refused(text, path, "are both set");
	refused(NULL, file_of(line, 0640), "and mode 0640, expected user ");
	refused(NULL, file_of(line, 0604), "and mode 0604, expected user ");
	unlink(path);
	refused(NULL, path, "cannot be read (LLMC_SECRET_FILE): No such file");
	refused(NULL, ".", "is no file");
	snprintf(fifo, sizeof(fifo), "t-secret-%ld.fifo", (long)getpid());
	assert_int_equal(mkfifo(fifo, 0600), 0);
	refused(NULL, fifo, "is no file");
	unlink(fifo);
	if (geteuid() == 0) {
		path = file_of(line, 0600);
		assert_int_equal(chown(path, 65534, 65534), 0);
		refused(NULL, path, "found user 65534 and mode 0600");
		unlink(path);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sha256),
		cmocka_unit_test(test_hmac),
		cmocka_unit_test(test_siphash),
		cmocka_unit_test(test_secret)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * secret.h - private to runtime/: what ranks of a job know and nobody else,
 * and sums that only those can make who know it.
 */
#ifndef RT_SECRET_H
#define RT_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/comm/comm.h"

/* ---- SHA-256 and HMAC (sha256.c) --------------------------------------- */

enum { RT_SHA256_BYTES = 32, RT_SHA256_BLOCK = 64 };

/* FIPS 180-4 */
struct rt_sha256 {
	uint32_t h[8];
	uint64_t bytes;
	uint8_t block[RT_SHA256_BLOCK];
};

void rt_sha256_begin(struct rt_sha256 *s);
void rt_sha256_add(struct rt_sha256 *s, const void *at, size_t n);
void rt_sha256_end(struct rt_sha256 *s, uint8_t out[RT_SHA256_BYTES]);

/* RFC 2104 */
struct rt_hmac {
	struct rt_sha256 inner;
	uint8_t key[RT_SHA256_BLOCK];
};

void rt_hmac_begin(struct rt_hmac *h, const void *key, size_t n);
void rt_hmac_add(struct rt_hmac *h, const void *at, size_t n);
void rt_hmac_end(struct rt_hmac *h, uint8_t out[RT_SHA256_BYTES]);
/* In a time that does not tell where they differ. */
bool rt_same_bytes(const void *a, const void *b, size_t n);

/* ---- SipHash-2-4, a keyed sum of 64 bits (siphash.c) ------------------- */

enum { RT_SIPHASH_KEY = 16 };

struct rt_siphash {
	uint64_t v[4], tail, bytes;
};

void rt_siphash_begin(struct rt_siphash *s, const uint8_t key[RT_SIPHASH_KEY]);
void rt_siphash_add(struct rt_siphash *s, const void *at, size_t n);
uint64_t rt_siphash_end(struct rt_siphash *s);

/* ---- a job's secret (secret.c) ------------------------------------------ */

struct rt_secret {
	bool given;		/* else the key is everybody's */
	uint8_t key[RT_SHA256_BYTES];
};

/*
 * LLMC_SECRET is it, or LLMC_SECRET_FILE names a file that only this user can
 * read.  What is set and no good is RT_FORMAT or RT_IO.
 */
enum rt_status rt_secret_read(struct rt_secret *s,
			      const struct rt_variables *v,
			      struct rt_error *err);

#endif

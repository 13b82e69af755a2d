/*
 * Private to comm/: what the ranks of a job know and nobody else, and message
 * authentication codes made with it.
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
/* Takes the same time wherever they differ. */
bool rt_same_bytes(const void *a, const void *b, size_t n);

/* ---- SipHash-2-4, a 64-bit authentication code (siphash.c) -------------- */

enum { RT_SIPHASH_KEY = 16 };

struct rt_siphash {
	uint64_t v[4], tail, bytes;
};

void rt_siphash_begin(struct rt_siphash *s, const uint8_t key[RT_SIPHASH_KEY]);
void rt_siphash_add(struct rt_siphash *s, const void *at, size_t n);
uint64_t rt_siphash_end(struct rt_siphash *s);

/* ---- a job's secret (secret.c) ------------------------------------------ */

struct rt_secret {
	bool given;		/* else the key is public */
	uint8_t key[RT_SHA256_BYTES];
};

/* Reads LLMC_SECRET, or the file that LLMC_SECRET_FILE names, which only this
 * user may read.  An invalid setting is RT_FORMAT or RT_IO. */
enum rt_status rt_secret_read(struct rt_secret *s,
			      const struct rt_variables *v,
			      struct rt_error *err);

#endif

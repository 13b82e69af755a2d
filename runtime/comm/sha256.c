/*
 * SHA-256 (FIPS 180-4), and HMAC with it (RFC 2104). Used for a few kilobytes
 * when ranks meet, so it is written for brevity, not speed.
 */
#include "runtime/comm/secret.h"

#include <string.h>

static const uint32_t rounds[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static uint32_t
turn(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static uint32_t
big_endian(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

static void
add_block(uint32_t h[8], const uint8_t *block)
{
	uint32_t w[64], v[8];
	int i;

	for (i = 0; i < 16; i++) {
		w[i] = big_endian(block + 4 * i);
	}
	for (; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + w[i - 7] +
		       (turn(a, 7) ^ turn(a, 18) ^ a >> 3) +
		       (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
	}
	memcpy(v, h, sizeof(v));
	for (i = 0; i < 64; i++) {
		uint32_t e = v[4], a = v[0], t, u;

		t = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
		    ((e & v[5]) ^ (~e & v[6])) + rounds[i] + w[i];
		u = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) +
		    ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += t;
		v[0] = t + u;
	}
	for (i = 0; i < 8; i++) {
		h[i] += v[i];
	}
}

void
rt_sha256_begin(struct rt_sha256 *s)
{
	static const uint32_t begin[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372,
		0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	memcpy(s->h, begin, sizeof(begin));
	s->bytes = 0;
}

void
rt_sha256_add(struct rt_sha256 *s, const void *at, size_t n)
{
	const uint8_t *p = at;

	while (n > 0) {
		size_t have = s->bytes % RT_SHA256_BLOCK;
		size_t some = RT_SHA256_BLOCK - have;

		some = some < n ? some : n;
		memcpy(s->block + have, p, some);
		s->bytes += some;
		p += some;
		n -= some;
		if (s->bytes % RT_SHA256_BLOCK == 0) {
			add_block(s->h, s->block);
		}
	}
}

void
rt_sha256_end(struct rt_sha256 *s, uint8_t out[RT_SHA256_BYTES])
{
	static const uint8_t pad[RT_SHA256_BLOCK] = { 0x80 };
	uint64_t bits = s->bytes * 8;
	uint8_t length[8];
	int i;

	for (i = 0; i < 8; i++) {
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	}
	rt_sha256_add(s, pad, 1 + (119 - s->bytes % 64) % 64);
	rt_sha256_add(s, length, sizeof(length));
	for (i = 0; i < RT_SHA256_BYTES; i++) {
		out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
	}
}

static void
begin_with(struct rt_sha256 *s, const uint8_t key[RT_SHA256_BLOCK],
	   uint8_t mask)
{
	uint8_t block[RT_SHA256_BLOCK];
	int i;

	for (i = 0; i < RT_SHA256_BLOCK; i++) {
		block[i] = key[i] ^ mask;
	}
	rt_sha256_begin(s);
	rt_sha256_add(s, block, sizeof(block));
}

void
rt_hmac_begin(struct rt_hmac *h, const void *key, size_t n)
{
	memset(h->key, 0, sizeof(h->key));
	if (n > sizeof(h->key)) {
		rt_sha256_begin(&h->inner);
		rt_sha256_add(&h->inner, key, n);
		rt_sha256_end(&h->inner, h->key);
	} else if (n > 0) {
		memcpy(h->key, key, n);
	}
	begin_with(&h->inner, h->key, 0x36);
}

void
rt_hmac_add(struct rt_hmac *h, const void *at, size_t n)
{
	rt_sha256_add(&h->inner, at, n);
}

void
rt_hmac_end(struct rt_hmac *h, uint8_t out[RT_SHA256_BYTES])
{
	uint8_t inner[RT_SHA256_BYTES];
	struct rt_sha256 outer;

	rt_sha256_end(&h->inner, inner);
	begin_with(&outer, h->key, 0x5c);
	rt_sha256_add(&outer, inner, sizeof(inner));
	rt_sha256_end(&outer, out);
}

bool
rt_same_bytes(const void *a, const void *b, size_t n)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t differ = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		differ |= x[i] ^ y[i];
	}
	return differ == 0;
}

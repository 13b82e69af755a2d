/*
 * Any bytes as a JSON schema that an answer is to follow: it is refused with a
 * reason, or tokens that are allowed lead on from each beginning.
 */
#include "tests/unit/serve/t-schemas.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TOKENS = 100 };

/* One of the tokens that are allowed, by a number; -1: there is none. */
static int64_t
choose(const uint64_t *bits, uint64_t number)
{
	int64_t i, at;

	for (i = 0; i < SCHEMA_VOCAB; i++) {
		at = (int64_t)((number + (uint64_t)i) % SCHEMA_VOCAB);
		if (schema_is_allowed(bits, at)) {
			return at;
		}
	}
	return -1;
}

static void
follow(const struct rt_grammar *g, const struct rt_spellings *s,
       const uint8_t *data, size_t size)
{
	uint64_t bits[SCHEMA_VOCAB / 64 + 1], at = 7;
	struct rt_error err = { .message = "" };
	struct rt_guide *x;
	bool over = false, may_end;
	int64_t token;
	int i;

	CHECK(rt_guide_open(&x, g, s, &err) == RT_OK);
	for (i = 0; i < TOKENS && !over; i++) {
		CHECK(rt_guide_allow(x, bits, &may_end, &err) == RT_OK);
		at = (at + data[(size_t)i % size]) * 0x9e3779b97f4a7c15u;
		token = choose(bits, at >> 40);
		CHECK(token >= 0);
		CHECK(rt_guide_take(x, token, &over, &err) == RT_OK);
	}
	rt_guide_free(x);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rt_spellings *s;
	struct rt_error err = { .message = "" };
	struct rt_grammar *g;

	CHECK(s || rt_spellings_open(&s, SCHEMA_VOCAB, schema_token, NULL,
				     &err) == RT_OK);
	if (schema_read(&g, (const char *)data, size, &err) == RT_OK) {
		follow(g, s, data, size);
		rt_grammar_free(g);
	} else {
		CHECK(err.message[0]);
	}
	return 0;
}

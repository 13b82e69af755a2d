/*
 * Times of a guide, token by token; see the script `guide`.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/grammar/grammar.h"
#include "runtime/tokenize/tokenize.h"

static double
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void
end(const struct rt_error *err)
{
	fprintf(stderr, "guide: %s\n", err->message);
	exit(1);
}

static char *
bytes_of(void *user, int64_t token, size_t *n)
{
	struct rt_error err;
	char *text = NULL;

	*n = 0;
	if (!rt_tokenizer_has(user, token) ||
	    rt_tokenizer_is_special(user, token) ||
	    rt_token_text(user, (uint32_t)token, true, &text, n, &err) !=
		    RT_OK) {
		return NULL;
	}
	return text;
}

/* Each token of a text, until one is not allowed or nothing may follow. */
static void
follow(struct rt_guide *x, const struct rt_ids *ids, uint64_t *bits)
{
	double sum = 0, most = 0, us, begin;
	struct rt_error err;
	bool may_end, over = false;
	size_t n;

	for (n = 0; n < ids->n && !over; n++) {
		begin = now_us();
		if (rt_guide_allow(x, bits, &may_end, &err) != RT_OK) {
			end(&err);
		}
		us = now_us() - begin;
		sum += us;
		most = us > most ? us : most;
		if (!(bits[ids->at[n] / 64] >> ids->at[n] % 64 & 1)) {
			printf("token %zu may not come; ", n);
			break;
		}
		if (rt_guide_take(x, ids->at[n], &over, &err) != RT_OK) {
			end(&err);
		}
	}
	printf("%zu tokens, %.0f us each, at most %.0f\n", n,
	       sum / (double)(n ? n : 1), most);
}

static void
measure(const struct rt_spellings *s, struct rt_encoder *e, const char *schema,
	const char *text, uint64_t *bits)
{
	struct rt_ids ids = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_error err = { .message = "" };
	char *copy = strdup(schema);
	struct rt_json j = { .text = copy, .len = strlen(schema),
			     .err = &err };
	struct rt_grammar *g = NULL;
	struct rt_guide *x = NULL;
	double begin = now_us();

	if (!copy || rt_grammar_of_schema(&g, &j) != RT_OK) {
		end(&err);
	}
	printf("%.40s: compiled in %.0f us; ", schema, now_us() - begin);
	if (rt_encode(e, text, strlen(text), RT_PART_WHOLE, &ids, &err) !=
		    RT_OK || rt_guide_open(&x, g, s, &err) != RT_OK) {
		end(&err);
	}
	follow(x, &ids, bits);
	rt_guide_free(x);
	rt_grammar_free(g);
	rt_ids_release(&ids);
	free(copy);
}

int
main(int argc, char **argv)
{
	struct rt_error err = { .message = "" };
	struct rt_spellings *s;
	struct rt_tokenizer *t;
	struct rt_encoder *e;
	double begin;
	uint64_t *bits;
	int64_t vocab;
	int i;

	if (argc < 2 || rt_tokenizer_open(&t, argv[1], NULL, &err) != RT_OK ||
	    rt_encoder_open(&e, t, &err) != RT_OK) {
		end(&err);
	}
	begin = now_us();
	vocab = rt_tokenizer_limit(t);
	bits = calloc((size_t)vocab / 64 + 1, sizeof *bits);
	if (!bits || rt_spellings_open(&s, vocab, bytes_of, t, &err) !=
			     RT_OK) {
		end(&err);
	}
	printf("%" PRId64 " tokens spelled out in %.0f ms\n", vocab,
	       (now_us() - begin) * 1e-3);
	for (i = 2; i + 1 < argc; i += 2) {
		measure(s, e, argv[i], argv[i + 1], bits);
	}
	free(bits);
	rt_spellings_free(s);
	rt_encoder_free(e);
	rt_tokenizer_free(t);
	return 0;
}

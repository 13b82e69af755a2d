/*
 * Private to runtime/serve: a token from logits.
 *
 * A draw is a function of the logits, the settings, the tokens so far, the seed
 * and how many were drawn before, and of nothing else.
 */
#ifndef RT_DRAW_H
#define RT_DRAW_H

#include "runtime/error.h"

enum { RT_TOP_MOST = 20 };	/* likeliest tokens that can be asked for */

/* What is added to the logit of a token. */
struct rt_bias {
	int32_t token;
	float logit;
};

/*
 * In the order in which they apply.  rt_draw_plain() has each of them off.
 */
struct rt_draw {
	/* logits of tokens so far, the prompt's too, are divided by it if they
	 * are positive, else multiplied; 1: off */
	double repetition;
	/* subtracted from logits of tokens drawn so far: once, and for each
	 * time; 0: off */
	double presence, frequency;
	/* added to logits of some tokens; borrowed */
	const struct rt_bias *bias;
	int64_t nbias;
	double temperature;	/* 0: the likeliest, the lowest of equals */
	int64_t top_k;		/* only so many likeliest; 0: off */
	double min_p;		/* only those so likely beside the likeliest */
	double top_p;		/* the fewest likeliest that sum up to it */
	uint64_t seed;
	int64_t ntop;		/* likeliest ones to report; -1: no logprobs */
};

struct rt_drawn {
	int32_t token;
	/* natural logarithms of the model's probabilities: of its logits,
	 * before any setting */
	double logprob;
	int64_t ntop;
	int32_t top[RT_TOP_MOST];	/* likeliest first */
	double top_logprob[RT_TOP_MOST];
};

/* What draws need besides: memory for a vocabulary. */
struct rt_drawer;

struct rt_draw rt_draw_plain(void);
enum rt_status rt_drawer_open(struct rt_drawer **out, int64_t vocab,
			      struct rt_error *err);
/* Memory that it has. */
int64_t rt_drawer_bytes(int64_t vocab);
void rt_drawer_free(struct rt_drawer *d);
/*
 * Draws the token after `tokens`, of which the first nprompt are the prompt's.
 * `choice` counts several answers to one prompt.  `allowed` has a bit for each
 * token that may be drawn, bit i % 64 of word i / 64; NULL: any may.
 * RT_FORMAT: no logit of these is a finite number.
 */
enum rt_status rt_draw_token(struct rt_drawer *d, const struct rt_draw *how,
			     const float *logits, const int32_t *tokens,
			     int64_t n, int64_t nprompt, int64_t choice,
			     const uint64_t *allowed, struct rt_drawn *out,
			     struct rt_error *err);

/*
 * The same of a token that is there already: its logprob, and the likeliest
 * ones.  RT_FORMAT: the largest logit is no finite number.
 */
enum rt_status rt_draw_given(struct rt_drawer *d, const struct rt_draw *how,
			     const float *logits, int32_t token,
			     struct rt_drawn *out, struct rt_error *err);

#endif

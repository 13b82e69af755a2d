/*
 * Private to runtime/serve: between a model's tokens and what clients read.
 */
#ifndef RT_CODEC_H
#define RT_CODEC_H

#include <pthread.h>

#include "runtime/grammar/grammar.h"
#include "runtime/serve/chat/chat.h"
#include "runtime/tokenize/tokenize.h"

enum {
	RT_IDLE_ENCODERS = 8,
	RT_CODEC_MARKS = 16,
};

/* What special tokens are marks of, as bits. */
enum rt_marks { RT_MARKS_CALLS = 1, RT_MARKS_REASONING = 2 };

/* A special token, of which answers have no text but where they may call or
 * think. */
struct rt_codec_mark {
	int64_t token;
	char *text;
	int of;
};

/* Used by any number of threads once it is open. */
struct rt_codec {
	struct rt_tokenizer *tokenizer;
	const struct rt_chat *chat;
	bool has_tools;		/* the template tells models of them */
	const struct rt_reasoning *reasoning;	/* or NULL */
	struct rt_codec_mark marks[RT_CODEC_MARKS];
	size_t nmarks;
	struct rt_ids stops;	/* tokens that end an answer */
	int64_t vocab;
	/* encoders that nobody uses: each has a cache that is worth keeping */
	pthread_mutex_t lock;
	struct rt_encoder *idle[RT_IDLE_ENCODERS];
	size_t nidle;
	/* made when a first answer is to follow a schema, or has to call; or
	 * NULL */
	struct rt_spellings *spellings[2];
};

/*
 * `tokenizer` is a path; NULL: tokens are bytes, which a vocabulary of 256 may
 * have.  `chat` is the name of a template; NULL: by the tokenizer.
 */
enum rt_status rt_codec_open(struct rt_codec *c, const char *tokenizer,
			     const char *chat, int64_t vocab,
			     struct rt_error *err);
/* Tells thoughts apart from what is said, by the form of that name.  RT_RANGE:
 * there is none, or it is of other chat templates. */
enum rt_status rt_codec_set_reasoning(struct rt_codec *c, const char *name,
				      struct rt_error *err);
/* Also closes what rt_codec_open failed to open. */
void rt_codec_close(struct rt_codec *c);
/* Appends the ids of a text; `framed`: after what comes before documents. */
enum rt_status rt_codec_encode(struct rt_codec *c, const char *text,
			       size_t n, bool framed, struct rt_ids *out,
			       struct rt_error *err);
/*
 * The bytes of each token that may be in an answer: not of those that end one,
 * and of special ones those alone that calls are marked by, where the answer
 * has to call.  RT_RANGE: what they spell cannot follow a grammar.
 */
enum rt_status rt_codec_spellings(struct rt_codec *c, bool calls,
				  const struct rt_spellings **out,
				  struct rt_error *err);
/* The text of a mark of one of these; NULL: it is another token. */
const char *rt_codec_mark(const struct rt_codec *c, int64_t token, int of);
/*
 * rt_stream_add() of a token that was drawn.  Vocabularies may be larger than
 * their tokenizers, to be a multiple of something; such a token has no text.
 */
enum rt_status rt_codec_text(struct rt_stream *x, int64_t token, char **text,
			     size_t *n, struct rt_error *err);

#endif

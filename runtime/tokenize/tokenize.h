/*
 * Tokenizers: text to ids and back, as the tokenizer.json of a Hugging Face
 * model or a *.gguf of llama.cpp says, and token files made of text.
 *
 * A tokenizer is read once and never changes; any number of threads may use
 * it, each through an encoder of its own.  Ids are exactly those of Hugging
 * Face's package; what the file asks for and is not known here is an error.
 * The folder knows runtime/ and nothing else, so both llmc and `rank` link it.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef RT_TOKENIZE_H
#define RT_TOKENIZE_H

#include <stdio.h>

#include "runtime/rt.h"

/* ---- a tokenizer (tok_open.c) ----------------------------------------- */

struct rt_tokenizer;

/*
 * Reads a tokenizer.json, or the tokenizer of a *.gguf.  RT_FORMAT: it is
 * broken, or asks for what would change ids and is not known; err names it with
 * its byte.
 */
enum rt_status rt_tokenizer_open(struct rt_tokenizer **out, const char *path,
				 const struct rt_alloc *alloc,
				 struct rt_error *err);
/* The same of a text in memory, which is copied; `name` is for messages. */
enum rt_status rt_tokenizer_parse(struct rt_tokenizer **out, const char *name,
				  const void *text, size_t n,
				  const struct rt_alloc *alloc,
				  struct rt_error *err);
/* Of models whose tokens are the 256 bytes (tok_bytes.c). */
enum rt_status rt_tokenizer_of_bytes(struct rt_tokenizer **out,
				     const struct rt_alloc *alloc,
				     struct rt_error *err);
void rt_tokenizer_free(struct rt_tokenizer *t);
/* All ids are less. */
int64_t rt_tokenizer_limit(const struct rt_tokenizer *t);
/* The id of a token, added or of the model; -1: there is none. */
int64_t rt_tokenizer_id(const struct rt_tokenizer *t, const char *token);
bool rt_tokenizer_has(const struct rt_tokenizer *t, int64_t id);
/* Warns on stderr of tokens that a model of `vocab` tokens lacks. */
void rt_tokenizer_warn_beyond(const struct rt_tokenizer *t, const char *path,
			      int64_t vocab);
/* Whether a text leaves it out, such as the end of a document. */
bool rt_tokenizer_is_special(const struct rt_tokenizer *t, int64_t id);
/* Of a *.gguf, the i-th of RT_TOKENIZER_ENDS tokens that it says end a text;
 * -1: none. */
enum { RT_TOKENIZER_ENDS = 3 };
int64_t rt_tokenizer_end(const struct rt_tokenizer *t, size_t i);
/* Of a *.gguf, the template of conversations in the language Jinja; or NULL. */
const char *rt_tokenizer_chat(const struct rt_tokenizer *t);
/* The i-th special token, from 0; NULL: there are fewer. */
const char *rt_tokenizer_special(const struct rt_tokenizer *t, size_t i);

/* ---- what normalizers compose (tok_normalize.c) ----------------------- */

/*
 * How many of the n bytes that a text begins with are written in normal form C
 * as `to`, which has `most` bytes, where the tokenizer writes texts so; 0: none
 * are.  *part: `to` may be the beginning of what they are written as.
 */
size_t rt_tokenizer_composed(const struct rt_tokenizer *t, const char *text,
			     size_t n, const char *to, size_t most,
			     bool *part);

/* ---- text to ids (tok_encode.c) --------------------------------------- */

struct rt_ids {
	uint32_t *at;
	size_t n, cap;
	struct rt_alloc alloc;
};

void rt_ids_release(struct rt_ids *ids);
bool rt_ids_add(struct rt_ids *ids, uint32_t id);

/* Which part of a document a text is. */
enum rt_part {
	RT_PART_WHOLE,		/* all of it */
	RT_PART_FIRST,		/* up to a cut */
	RT_PART_LATER,		/* between two cuts, or from one to the end */
};

struct rt_encoder;

enum rt_status rt_encoder_open(struct rt_encoder **out,
			       const struct rt_tokenizer *t,
			       struct rt_error *err);
void rt_encoder_free(struct rt_encoder *e);
/*
 * Appends the ids of a text without those that frame a document.  RT_FORMAT:
 * it is no UTF-8, or nothing in the vocabulary stands for it; err->offset is
 * the byte of the text.
 */
enum rt_status rt_encode(struct rt_encoder *e, const char *text, size_t n,
			 enum rt_part part, struct rt_ids *out,
			 struct rt_error *err);
/* Appends what the file puts before and after each document. */
bool rt_encode_before(const struct rt_tokenizer *t, struct rt_ids *out);
bool rt_encode_after(const struct rt_tokenizer *t, struct rt_ids *out);
/*
 * Whether a document may be cut at a byte, 0 < at < n: the ids of both parts
 * are those of the whole (tok_cut.c).  The text around is UTF-8.
 */
bool rt_may_cut(const struct rt_tokenizer *t, const char *text, size_t at);

/* ---- ids to text (tok_decode.c) --------------------------------------- */

/*
 * The text of ids, allocated, with a NUL after its n bytes; bytes that are no
 * UTF-8 become U+FFFD.  `skip` leaves special tokens out.  RT_RANGE: an id that
 * the tokenizer does not have; RT_FORMAT: it has no decoder that is known.
 */
enum rt_status rt_decode(const struct rt_tokenizer *t, const uint32_t *ids,
			 size_t n, bool skip, char **text, size_t *text_bytes,
			 struct rt_error *err);
/*
 * The text that one id stands for inside a text, a blank before a word
 * included; `raw`: its bytes as they are, even if they are a part of a
 * character.  Allocated; errors are those of rt_decode().
 */
enum rt_status rt_token_text(const struct rt_tokenizer *t, uint32_t id,
			     bool raw, char **text, size_t *n,
			     struct rt_error *err);

/* ---- ids to text, as they come (tok_stream.c) --------------------------- */

/* The text of ids that come one after the other, in whole characters. */
struct rt_stream {
	const struct rt_tokenizer *tokenizer;
	struct rt_ids ids;
	/* the text of [from, known) has been returned, or comes before */
	size_t from, known;
};

void rt_stream_open(struct rt_stream *x, const struct rt_tokenizer *t);
void rt_stream_close(struct rt_stream *x);
/* What comes before: begins the text anew after these ids. */
enum rt_status rt_stream_begin(struct rt_stream *x, const uint32_t *ids,
			       size_t n, struct rt_error *err);
/*
 * Adds an id, or nothing for -1: the end.  *text is what is known of the text
 * now, allocated by the C library, or NULL with n = 0: a character may be made
 * of several ids.
 */
enum rt_status rt_stream_add(struct rt_stream *x, int64_t id, char **text,
			     size_t *n, struct rt_error *err);

/* ---- token files of text (tok_file.c) --------------------------------- */

struct rt_token_options {
	const char *tokenizer;	/* the path of a tokenizer.json */
	const char *const *inputs;
	size_t ninputs;
	const char *field;	/* of JSON lines; NULL: all inputs are text */
	const char *end;	/* a token after each document, or NULL */
	bool bare;		/* without what frames a document */
	int threads;
	FILE *progress;		/* or NULL */
	/* 0: progress is a terminal.  Else a log, which gets a line after so
	 * many seconds, and then after twice as many each time. */
	double log_seconds;
};

struct rt_token_counts {
	int64_t documents, bytes, tokens;
};

/*
 * Writes a token file of llm.c's format: of 16 bits if all ids fit, else of 32.
 * It appears whole, under its name, or not at all.  An input that ends in .gz
 * or .zst is decompressed; `-' is standard input; of .jsonl each line is a
 * document, else each file.  Takes memory for a few parts of some 256 KiB;
 * a text that cannot be cut for 32 MiB is refused.
 */
enum rt_status rt_tokens_write(const char *path,
			       const struct rt_token_options *o,
			       struct rt_token_counts *counts,
			       struct rt_error *err);

/* Whether a file of that name is text, or lines of JSON, or one of these
 * compressed (tok_input.c). */
bool rt_is_text(const char *path);
/* Whether it is text as it is, so that its bytes could be tokens. */
bool rt_is_plain_text(const char *path);
/* Threads that make tokens if nobody says how many: one a core, at most 16. */
int rt_tokenize_threads(void);

#endif

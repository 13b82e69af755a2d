/*
 * Private to runtime/tokenize/: a tokenizer as it was read, and what an
 * encoder has of its own.
 */
#ifndef RT_TOK_H
#define RT_TOK_H

#include "runtime/json.h"
#include "runtime/text.h"
#include "runtime/tokenize/tok_regex.h"
#include "runtime/tokenize/tok_unicode.h"
#include "runtime/tokenize/tokenize.h"

enum {
	TOK_NONE = -1,
	TOK_MAX_PARTS = 16,	/* of a normalizer, pre-tokenizer, decoder */
};

/* ---- what the file says (tok_parts.c) --------------------------------- */

enum tok_type { TOK_SEQUENCE, TOK_NFC, TOK_PREPEND, TOK_REPLACE,
		TOK_BYTE_LEVEL, TOK_SPLIT, TOK_DIGITS, TOK_METASPACE,
		TOK_BYTE_FALLBACK, TOK_FUSE, TOK_STRIP, TOK_UNKNOWN };

enum tok_behavior { TOK_ISOLATED, TOK_REMOVED, TOK_PREVIOUS, TOK_NEXT,
		    TOK_CONTIGUOUS };

/* A normalizer, pre-tokenizer or decoder; strings are of the file. */
struct tok_part {
	enum tok_type type;
	uint32_t given;		/* members, by bit */
	int64_t at;		/* byte of the file */
	const char *name, *pattern, *content, *behavior, *prepend;
	const char *replacement, *scheme, *ignored;
	int64_t start, stop;
	bool is_regex, invert, split, add_prefix_space, use_regex;
	bool trim_offsets, individual_digits;
	/* what follows from these */
	struct rt_regex *regex;	/* NULL: the pattern is searched as it is */
	size_t pattern_bytes, content_bytes;
	enum tok_behavior how;
	bool first, always;	/* Metaspace, ByteLevel: prepends there */
};

struct tok_parts {
	struct tok_part at[TOK_MAX_PARTS];
	size_t n;
};

enum tok_family { TOK_NORMALIZER, TOK_PRETOKENIZER, TOK_DECODER };

/* Reads a value that is null or a part; Sequences become their parts. */
bool rt_tok_parts_read(struct rt_json *j, struct tok_parts *out,
		       enum tok_family family, const struct rt_alloc *a);
void rt_tok_parts_release(struct tok_parts *p);

/* ---- the model (tok_model.c) ------------------------------------------ */

struct tok_token {
	const char *s;		/* ends with a NUL, which n does not count */
	uint32_t n, id;
	int64_t at;		/* byte of the file */
};

/* Tokens by text, in a table of 2^bits slots. */
struct tok_vocab {
	struct tok_token *at;
	size_t n, cap;
	uint32_t *slots;	/* a token's index + 1 */
	int bits;
};

struct tok_merge {
	uint64_t pair;		/* left id << 32 | right id; ~0: none */
	uint32_t rank, id;
};

struct tok_merge_text {
	const char *a, *b;
	int64_t at;
};

struct tok_model {
	struct tok_vocab vocab;
	struct tok_merge_text *texts;	/* as they were read */
	size_t ntexts, texts_cap;
	/* merges that the text does not have, of ids of the vocabulary */
	const struct tok_merge *given;
	size_t ngiven;
	struct tok_merge *merges;	/* 2^merge_bits slots */
	int merge_bits;
	const char *unk_token;	/* or NULL */
	int64_t unk;		/* its id */
	bool fuse_unk, byte_fallback, ignore_merges;
	int64_t at;		/* of unk_token in the file */
	int32_t byte_id[256];	/* <0x00> .. */
	int32_t alphabet[256];	/* of bytes, as ByteLevel writes them */
	int32_t *chars;		/* of characters below 0x10000 */
	/* whether some merge joins what ends and begins with two symbols */
	uint64_t *joins;
	bool joins_any;		/* it is not known: take it that all do */
	struct tok_vocab words;	/* by bytes, for ignore_merges */
	char *words_text;
};

bool rt_tok_model_read(struct rt_json *j, struct tok_model *m,
		       const struct rt_alloc *a);
/* After the whole file was read; `bytes`: pieces are bytes, not characters. */
bool rt_tok_model_settle(struct rt_json *j, struct tok_model *m, bool bytes,
			 const struct rt_alloc *a);
void rt_tok_model_release(struct tok_model *m, const struct rt_alloc *a);
/* NULL: there is no such token. */
const struct tok_token *rt_tok_find(const struct tok_vocab *v, const char *s,
				    size_t n);
bool rt_tok_add(struct tok_vocab *v, const struct tok_token *x,
		const struct rt_alloc *a);
const struct tok_merge *rt_tok_merge(const struct tok_model *m, uint32_t left,
				     uint32_t right);
bool rt_tok_joins(const struct tok_model *m, int32_t left, int32_t right);
/* The character that ByteLevel writes for a byte, and back (-1: none). */
uint32_t rt_tok_char_of_byte(unsigned char byte);
int rt_tok_byte_of_char(uint32_t c);
/* The symbol of a character that is in the vocabulary, or -1. */
int32_t rt_tok_symbol(const struct tok_model *m, const char *s, size_t n,
		      uint32_t c);

/* ---- added tokens (tok_added.c) --------------------------------------- */

struct tok_added {
	const char *content;
	uint32_t n;
	int64_t id, at;
	bool single_word, lstrip, rstrip, normalized, special;
};

/* Nodes of a tree of bytes. */
struct tok_node {
	uint32_t child, next;	/* 0: none */
	int32_t token;		/* index of one that ends here, or -1 */
	unsigned char byte;
};

/* Those that are looked for in one kind of text. */
struct tok_matcher {
	struct tok_node *nodes;
	size_t n, cap;
	bool begins[256];
	uint64_t near[1024];	/* what may not be cut: hashed */
	bool lstrip, rstrip;	/* of any */
	bool any;
};

struct tok_match {
	size_t from, to;
	const struct tok_added *token;
};

bool rt_tok_added_read(struct rt_json *j, struct rt_tokenizer *t);
/* Adds a token as `content` of n bytes. */
bool rt_tok_matcher_add(struct tok_matcher *m, const struct rt_alloc *a,
			const struct tok_added *x, int32_t index,
			const char *content, size_t n);
/* The index of the token that is added as this text; -1: none. */
int32_t rt_tok_matcher_find(const struct tok_matcher *m, const char *s,
			    size_t n);
/*
 * The next token in text from `at` on, where the one before ended at `done`;
 * false: there is none.
 */
bool rt_tok_next_added(const struct rt_tokenizer *t,
		       const struct tok_matcher *m, const char *s, size_t n,
		       size_t *at, size_t done, struct tok_match *out);
bool rt_tok_matcher_parts(const struct tok_matcher *m, uint32_t a,
			  uint32_t b);

/* ---- all of it -------------------------------------------------------- */

struct rt_tokenizer {
	struct rt_alloc alloc;
	char *text, *name;	/* of the file; strings point into it */
	struct tok_model model;
	struct tok_parts normalizer, pretokenizer, decoder;
	struct rt_nfc *nfc;	/* or NULL */
	struct tok_added *added;
	size_t nadded, added_cap;
	struct tok_matcher raw, normal;
	bool bytes;		/* ByteLevel comes last: pieces are bytes */
	const struct tok_token **by_id;
	int32_t *added_by_id;	/* index, or -1 */
	int64_t limit;
	struct rt_ids before, after;	/* of each document */
	char *chat;		/* the template of conversations, or NULL */
	/* tokens that end a text; -1: none */
	int64_t ends[RT_TOKENIZER_ENDS];
};

/* ---- tokenizers of llama.cpp (tok_gguf.c) ----------------------------- */

/* What a *.gguf says as a tokenizer.json would, and what that cannot. */
struct tok_gguf {
	struct rt_text json;
	struct tok_merge *merges;
	size_t nmerges;
	char *chat;		/* or NULL */
	int64_t ends[RT_TOKENIZER_ENDS];
};

/* On failure nothing is left to release. */
enum rt_status rt_tok_gguf_read(struct tok_gguf *g, const char *path,
				const struct rt_alloc *alloc,
				struct rt_error *err);
void rt_tok_gguf_release(struct tok_gguf *g);

/* ---- a tokenizer.json (tok_load.c) ------------------------------------ */

/* Reads t->text, of n bytes, which it changes. */
enum rt_status rt_tok_load(struct rt_tokenizer *t, size_t n,
			   struct rt_error *err);
/* Adds to a message the byte where it was found, if there is one. */
void rt_tok_say_byte(struct rt_error *err);

/* ---- normalizers (tok_normalize.c) ------------------------------------ */

/* Buffers that two steps fill in turn. */
struct tok_buffers {
	struct rt_bytes at[2];
};

/* Normalizes; *s and *n become what it is. `starts`: nothing was cut off. */
enum rt_status rt_tok_normalize(const struct rt_tokenizer *t,
				struct tok_buffers *b, const char **s,
				size_t *n, bool starts);
/* How many bytes regular expressions have looked at, and how many they may. */
struct tok_work {
	size_t done, most;
};

enum { TOK_WORK_PER_BYTE = 200 };

/* Nothing done yet, of a text of n bytes: a pattern that looks from each byte
 * to the end of a long text has no time for that. */
struct tok_work rt_tok_work(size_t n);
enum rt_status rt_tok_too_much_work(struct rt_error *err);
/* Replaces all that a part matches, appending to out; or RT_RANGE. */
enum rt_status rt_tok_replace(const struct tok_part *p,
			      const struct rt_alloc *a, const char *s,
			      size_t n, struct tok_work *w,
			      struct rt_bytes *out);
/* The next match of a part from `at` on, up to *to; n: none, or w is done. */
size_t rt_tok_search(const struct tok_part *p, const char *s, size_t n,
		     size_t at, size_t *to, struct tok_work *w);

/* ---- words (tok_bpe.c) ------------------------------------------------ */

struct tok_bpe;

struct tok_bpe *rt_tok_bpe_open(const struct rt_tokenizer *t);
void rt_tok_bpe_free(struct tok_bpe *b);
/* Appends the ids of a piece; s has RT_BYTES_SLACK behind it. */
enum rt_status rt_tok_bpe_add(struct tok_bpe *b, const char *s, size_t n,
			      struct rt_ids *out);

/* ---- inputs (tok_input.c) --------------------------------------------- */

struct tok_input;

/* Opens a file or, for `-', standard input; decompresses by its name. */
enum rt_status rt_tok_input_open(struct tok_input **out, const char *path,
				 const struct rt_alloc *a,
				 struct rt_error *err);
/* At most n bytes; *got is 0 at the end only. */
enum rt_status rt_tok_input_read(struct tok_input *in, char *to, size_t n,
				 size_t *got, struct rt_error *err);
/* Bytes of the file that were read, before decompression. */
int64_t rt_tok_input_done(const struct tok_input *in);
void rt_tok_input_close(struct tok_input *in);
/* Whether each line of a file of that name is a document in JSON. */
bool rt_tok_input_has_lines(const char *path);

/* ---- parts of inputs (tok_job.c) --------------------------------------- */

/* A part of one input, and what a thread makes of it. */
struct tok_job {
	struct rt_bytes text;
	struct rt_ids ids;
	const char *path;
	int64_t base;		/* of its first byte in the decompressed file */
	int64_t documents;
	enum rt_part part;
	bool ends;		/* it has the end of a document */
	bool lines;		/* documents in JSON */
	enum rt_status status;
	struct rt_error err;
};

/* What ids of documents are framed with, and where their text is. */
struct tok_framing {
	const struct rt_tokenizer *t;
	const char *field;
	int64_t end;		/* the id after each document, or -1 */
	bool bare;
};

/* Makes the ids of a job. */
void rt_tok_job_run(struct tok_job *job, struct rt_encoder *e,
		    const struct tok_framing *f);

#endif

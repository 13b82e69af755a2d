/*
 * Private to ir/text/: the text form as tokens.  The end of a line is a token,
 * and no token crosses it.
 */
#ifndef IR_SCAN_H
#define IR_SCAN_H

#include "ir/ir.h"

#define SCAN_MAX_NAME 255	/* bytes of a name, dots included */
#define SCAN_MAX_STRING 4096	/* bytes of a string, escapes undone */
#define SCAN_MAX_TERMS 1000	/* numbers and dims in an expression */
#define SCAN_MAX_LINE ((uint32_t)1 << 20)	/* 64 results fit, easily */

enum tok_kind {
	TOK_END,	/* of the file */
	TOK_LINE,	/* end of a line */
	TOK_NAME,	/* a, or a.b.c */
	TOK_NUMBER,	/* without a sign */
	TOK_VALUE,	/* %7 or %hint.7 */
	TOK_STRING,
	TOK_SIGN,	/* one character */
	TOK_BAD		/* has been reported */
};

struct tok {
	enum tok_kind kind;
	char sign;		/* SIGN */
	bool dotted;		/* NAME: has a dot */
	sym_t text;		/* NAME, STRING; a VALUE's hint */
	uint32_t number;	/* VALUE */
	uint32_t lo, hi;	/* bytes of the file's text */
};

struct scan {
	struct ir_ctx *ctx;
	const char *text;
	uint32_t base, len;
	uint32_t at, line_end;
	uint32_t last_hi;	/* end of the token before t */
	bool opens, broken;	/* this line: ended in `{`; has a BAD */
	bool quiet;		/* skipping: report nothing */
	struct tok t;		/* the current token */
};

void scan_init(struct scan *s, struct ir_ctx *c, uint32_t file);
void scan_next(struct scan *s);
/* Skips to the end of the line. */
void scan_to_line_end(struct scan *s);
/*
 * At the end of a line that ends in `{`: skips to the end of the line of the
 * matching `}`.
 */
void scan_past_block(struct scan *s);
/* Skips to the end of the line; whether it ends in `{`. */
bool scan_line_opens(struct scan *s);

bool scan_is(const struct scan *s, char sign);
bool scan_is_word(const struct scan *s, const char *word);
struct span scan_span(const struct scan *s, const struct tok *t);
/* "`foo`", "the end of the line": the current token, for a message. */
const char *scan_found(struct scan *s);

#endif

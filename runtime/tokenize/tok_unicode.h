/*
 * Private to runtime/tokenize/: what Unicode says about characters, and NFC.
 * A character is a code point that is no surrogate.
 */
#ifndef RT_TOK_UNICODE_H
#define RT_TOK_UNICODE_H

#include "runtime/error.h"

enum { RT_UNICODE_END = 0x110000 };	/* no character */

/* ---- tables, written by make-tables.py -------------------------------- */

/* The general categories, in the order of the table. */
#define RT_UNICODE_CATEGORIES \
	"LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn"

#define RT_UNICODE_APART 0x80000000u

extern const uint32_t rt_unicode_categories[];
extern const size_t rt_unicode_ncategories;
extern const uint32_t rt_unicode_classes[];
extern const size_t rt_unicode_nclasses;
extern const uint32_t rt_unicode_pairs[];
extern const size_t rt_unicode_npairs;

/* ---- bytes that grow (tok_unicode.c) ---------------------------------- */

enum { RT_BYTES_SLACK = 16 };	/* readable after the last byte */

struct rt_bytes {
	char *at;
	size_t n, cap;
};

/* Makes place for n more and the slack; false: no memory. */
bool rt_bytes_reserve(const struct rt_alloc *a, struct rt_bytes *b, size_t n);
bool rt_bytes_add(const struct rt_alloc *a, struct rt_bytes *b,
		  const char *s, size_t n);

/* ---- characters (tok_unicode.c) --------------------------------------- */

/* The character at s, of text that is UTF-8; *len: its bytes. */
uint32_t rt_utf8_get(const char *s, size_t *len);
/* Writes a character of at most 4 bytes; returns how many. */
size_t rt_utf8_put(uint32_t c, char *s);
/* Bytes of the character before s[n], n > 0, of text that is UTF-8. */
size_t rt_utf8_before(const char *s, size_t n);
/* The offset of the first byte that is no UTF-8, or n. */
size_t rt_utf8_check(const char *s, size_t n);

/* Spaces, as \s has them. */
bool rt_unicode_is_space(uint32_t c);
/* Of a word, as \w of Rust has them. */
bool rt_unicode_is_word(uint32_t c);
int rt_unicode_category(uint32_t c);

/* ---- sets of characters (tok_unicode.c) ------------------------------- */

/* Ranges from..to - 1 in order; none touches another. */
struct rt_charset {
	uint32_t (*at)[2];
	size_t n, cap;
};

/* All add to the set; false: no memory. */
bool rt_charset_range(const struct rt_alloc *a, struct rt_charset *s,
		      uint32_t from, uint32_t to);
bool rt_charset_categories(const struct rt_alloc *a, struct rt_charset *s,
			   uint32_t mask);
bool rt_charset_spaces(const struct rt_alloc *a, struct rt_charset *s);
/* What is not in the set. */
bool rt_charset_invert(const struct rt_alloc *a, struct rt_charset *s);
/* Brings ranges into order; to be called after all were added. */
void rt_charset_settle(struct rt_charset *s);
bool rt_charset_has(const struct rt_charset *s, uint32_t c);
/* The categories that "L", "Lu", .. stand for; 0: none. */
uint32_t rt_unicode_mask(const char *name, size_t n);

/* ---- NFC (tok_nfc.c) -------------------------------------------------- */

struct rt_nfc;

/* NULL: no memory. */
struct rt_nfc *rt_nfc_open(const struct rt_alloc *alloc);
void rt_nfc_free(struct rt_nfc *f);
/* Whether NFC leaves text before and after the start of c alone. */
bool rt_nfc_starts(const struct rt_nfc *f, uint32_t c);
/*
 * Whether the text is in NFC by its characters alone; if not, appends what it
 * becomes.  RT_NOMEM is the only failure.
 */
bool rt_nfc_is_quick(const struct rt_nfc *f, const char *s, size_t n);
enum rt_status rt_nfc_add(const struct rt_nfc *f, const char *s, size_t n,
			  struct rt_bytes *out);

#endif

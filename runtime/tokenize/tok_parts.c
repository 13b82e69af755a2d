/*
 * Normalizers, pre-tokenizers and decoders: objects with a type and members.
 * One table has the members, another which of them each type has.
 */
#include "runtime/tokenize/tok.h"

#include <inttypes.h>
#include <string.h>

#define GPT2 \
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" \
	" ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* Digits are those of Unicode 17, as Rust's is_numeric() has them. */
#define NUMERIC "[\\p{N}\\x{11de0}-\\x{11de9}\\x{16ff4}-\\x{16ff6}]"

enum { MAX_NESTED = 8 };

/* ---- members ---------------------------------------------------------- */

enum member_kind { TEXT, BOOL, COUNT, PATTERN, PARTS };

enum { M_TYPE = 1, M_PATTERN = 2, M_CONTENT = 4, M_BEHAVIOR = 8,
	M_PREPEND = 16, M_REPLACEMENT = 32, M_SCHEME = 64, M_INVERT = 128,
	M_SPLIT = 256, M_ADD = 512, M_USE = 1024, M_TRIM = 2048,
	M_INDIVIDUAL = 4096, M_START = 8192, M_STOP = 16384, M_PARTS = 32768,
	M_IGNORED = 65536 };

static const struct member_row {
	const char *name;
	uint32_t bit;
	enum member_kind kind;
	size_t at;
} members[] = {
#define AT(m) offsetof(struct tok_part, m)
	{ "type", M_TYPE, TEXT, AT(name) },
	{ "pattern", M_PATTERN, PATTERN, AT(pattern) },
	{ "content", M_CONTENT, TEXT, AT(content) },
	{ "behavior", M_BEHAVIOR, TEXT, AT(behavior) },
	{ "prepend", M_PREPEND, TEXT, AT(prepend) },
	{ "replacement", M_REPLACEMENT, TEXT, AT(replacement) },
	{ "prepend_scheme", M_SCHEME, TEXT, AT(scheme) },
	{ "invert", M_INVERT, BOOL, AT(invert) },
	{ "split", M_SPLIT, BOOL, AT(split) },
	{ "add_prefix_space", M_ADD, BOOL, AT(add_prefix_space) },
	{ "use_regex", M_USE, BOOL, AT(use_regex) },
	{ "trim_offsets", M_TRIM, BOOL, AT(trim_offsets) },
	{ "individual_digits", M_INDIVIDUAL, BOOL, AT(individual_digits) },
	{ "start", M_START, COUNT, AT(start) },
	{ "stop", M_STOP, COUNT, AT(stop) },
	{ "normalizers", M_PARTS, PARTS, 0 },
	{ "pretokenizers", M_PARTS, PARTS, 0 },
	{ "decoders", M_PARTS, PARTS, 0 },
	/* of older files: the replacement once more */
	{ "str_rep", M_IGNORED, TEXT, AT(ignored) },
#undef AT
};

#define N (1u << TOK_NORMALIZER)
#define P (1u << TOK_PRETOKENIZER)
#define D (1u << TOK_DECODER)
#define LEVEL (M_ADD | M_USE | M_TRIM)
#define SPACES (M_REPLACEMENT | M_SCHEME | M_SPLIT | M_ADD | M_IGNORED)

static const struct type_row {
	const char *name;
	enum tok_type type;
	unsigned families;
	uint32_t may, must;
} types[] = {
	{ "Sequence", TOK_SEQUENCE, N | P | D, M_PARTS, M_PARTS },
	{ "NFC", TOK_NFC, N, 0, 0 },
	{ "Prepend", TOK_PREPEND, N, M_PREPEND, M_PREPEND },
	{ "Replace", TOK_REPLACE, N | D, M_PATTERN | M_CONTENT,
	  M_PATTERN | M_CONTENT },
	{ "ByteLevel", TOK_BYTE_LEVEL, P | D, LEVEL, 0 },
	{ "Split", TOK_SPLIT, P, M_PATTERN | M_BEHAVIOR | M_INVERT,
	  M_PATTERN | M_BEHAVIOR },
	{ "Digits", TOK_DIGITS, P, M_INDIVIDUAL, 0 },
	{ "Metaspace", TOK_METASPACE, P | D, SPACES, M_REPLACEMENT },
	{ "ByteFallback", TOK_BYTE_FALLBACK, D, 0, 0 },
	{ "Fuse", TOK_FUSE, D, 0, 0 },
	{ "Strip", TOK_STRIP, D, M_CONTENT | M_START | M_STOP,
	  M_CONTENT | M_START | M_STOP },
};

#define NTYPES (sizeof types / sizeof *types)
#define NMEMBERS (sizeof members / sizeof *members)

static const char *const family_names[] = {
	"normalizer", "pre-tokenizer", "decoder"
};

struct parts_reader {
	struct rt_json *j;
	struct tok_parts *out;
	enum tok_family family;
	const struct rt_alloc *alloc;
};

static bool read_part(struct parts_reader *r, int depth);

static bool
fail_at(struct parts_reader *r, int64_t at, const char *what, const char *name)
{
	struct rt_json *j = r->j;

	return rt_json_fail(j, RT_FORMAT, j->text + at, "found %s `%s` of a "
			    "%s, which is not known here", what,
			    rt_show_name(name).text,
			    family_names[r->family]);
}

/* {"String": ".."} or {"Regex": ".."}. */
static bool
read_pattern(struct rt_json *j, struct tok_part *p)
{
	const char *key = NULL;
	size_t i = 0;
	int64_t at = 0;

	if (!rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &i)) {
		at = (int64_t)j->at;
		if (!rt_json_key(j, &key) || !rt_json_string(j, &p->pattern)) {
			return false;
		}
	}
	if (j->status != RT_OK) {
		return false;
	}
	p->is_regex = key && strcmp(key, "Regex") == 0;
	if (i != 1 || (!p->is_regex && strcmp(key, "String") != 0)) {
		return rt_json_fail(j, RT_FORMAT, j->text + at, "found a "
			"pattern that is neither {\"String\": ..} nor "
			"{\"Regex\": ..}");
	}
	return true;
}

static bool
read_parts(struct parts_reader *r, int depth)
{
	size_t i = 0;

	if (!rt_json_open(r->j, '[')) {
		return false;
	}
	while (rt_json_more(r->j, ']', &i)) {
		if (!read_part(r, depth + 1)) {
			return false;
		}
	}
	return r->j->status == RT_OK;
}

static bool
read_member(struct parts_reader *r, struct tok_part *p, int depth)
{
	int64_t at = (int64_t)r->j->at;
	const char *key;
	size_t i;
	char *to;

	if (!rt_json_key(r->j, &key)) {
		return false;
	}
	for (i = 0; i < NMEMBERS && strcmp(members[i].name, key) != 0; i++) {
	}
	if (i == NMEMBERS) {
		return r->family == TOK_DECODER ? rt_json_skip(r->j)
			: fail_at(r, at, "the member", key);
	}
	if (p->given & members[i].bit) {
		return rt_json_fail(r->j, RT_FORMAT, r->j->text + at,
				    "found `%s` twice", key);
	}
	p->given |= members[i].bit;
	to = (char *)p + members[i].at;
	switch (members[i].kind) {
	case TEXT:
		return rt_json_string(r->j, (const char **)(void *)to);
	case BOOL:
		return rt_json_bool(r->j, (bool *)to);
	case COUNT:
		return rt_json_int(r->j, (int64_t *)(void *)to);
	case PATTERN:
		return read_pattern(r->j, p);
	case PARTS:
		break;
	}
	return read_parts(r, depth);
}

/* ---- what follows from the members ------------------------------------ */

static bool
compile(struct parts_reader *r, struct tok_part *p, const char *pattern)
{
	struct rt_regex_error e = { RT_OK, 0, "" };

	p->regex = rt_regex_open(r->alloc, pattern, strlen(pattern), &e);
	if (p->regex) {
		return true;
	}
	return rt_json_fail(r->j, e.status, r->j->text + p->at, "the pattern "
			    "of `%s` has at its byte %zu %s, which is not "
			    "known here", p->name, e.at, e.message);
}

static bool
settle_behavior(struct parts_reader *r, struct tok_part *p)
{
	static const char *const names[] = { "Isolated", "Removed",
		"MergedWithPrevious", "MergedWithNext", "Contiguous" };
	int i;

	for (i = 0; i < 5; i++) {
		if (strcmp(names[i], p->behavior) == 0) {
			p->how = (enum tok_behavior)i;
			return true;
		}
	}
	return rt_json_fail(r->j, RT_FORMAT, r->j->text + p->at, "found "
			    "behavior `%s`, expected Isolated, Removed, "
			    "MergedWithPrevious, MergedWithNext or Contiguous",
			    rt_show_name(p->behavior).text);
}

/* What must be one character is also the part's content. */
static bool
settle_char(struct parts_reader *r, struct tok_part *p, const char *s)
{
	size_t n = strlen(s), len = 0;

	if (n > 0) {
		rt_utf8_get(s, &len);
	}
	p->content = s;
	p->content_bytes = n;
	return (n > 0 && len == n) ||
	       rt_json_fail(r->j, RT_FORMAT, r->j->text + p->at, "found `%s` "
			    "of a `%s`, expected one character",
			    rt_show_name(s).text, p->name);
}

static bool
settle_metaspace(struct parts_reader *r, struct tok_part *p)
{
	const char *scheme = p->given & M_SCHEME ? p->scheme
		: p->given & M_ADD && !p->add_prefix_space ? "never"
							   : "always";

	p->split = p->given & M_SPLIT ? p->split : true;
	p->always = strcmp(scheme, "always") == 0;
	p->first = strcmp(scheme, "first") == 0;
	if ((!p->always && !p->first && strcmp(scheme, "never") != 0) ||
	    (p->given & M_ADD && !p->add_prefix_space &&
	     (p->always || p->first))) {
		return rt_json_fail(r->j, RT_FORMAT, r->j->text + p->at,
				    "found prepend_scheme `%s`, expected "
				    "first, always or never, and never if "
				    "add_prefix_space is false",
				    rt_show_name(scheme).text);
	}
	return settle_char(r, p, p->replacement);
}

static bool
settle_part(struct parts_reader *r, struct tok_part *p)
{
	switch (p->type) {
	case TOK_SPLIT:
	case TOK_REPLACE:
		p->pattern_bytes = strlen(p->pattern);
		p->content_bytes = p->content ? strlen(p->content) : 0;
		if (p->pattern_bytes == 0) {
			return rt_json_fail(r->j, RT_FORMAT, r->j->text +
					    p->at, "found an empty pattern, "
					    "expected one that matches");
		}
		if (p->type == TOK_SPLIT && !settle_behavior(r, p)) {
			return false;
		}
		return !p->is_regex || compile(r, p, p->pattern);
	case TOK_BYTE_LEVEL:
		p->use_regex = p->given & M_USE ? p->use_regex : true;
		p->always = p->add_prefix_space;
		return r->family != TOK_PRETOKENIZER || !p->use_regex ||
		       compile(r, p, GPT2);
	case TOK_DIGITS:
		p->how = p->individual_digits ? TOK_ISOLATED : TOK_CONTIGUOUS;
		return compile(r, p, NUMERIC);
	case TOK_METASPACE:
		return settle_metaspace(r, p);
	case TOK_STRIP:
		return settle_char(r, p, p->content);
	case TOK_PREPEND:
		p->content = p->prepend;
		p->content_bytes = strlen(p->content);
		return true;
	default:
		return true;
	}
}

/* Finds the type and checks that the members are its own. */
static bool
check_part(struct parts_reader *r, struct tok_part *p)
{
	struct rt_json *j = r->j;
	size_t i, k;

	if (!(p->given & M_TYPE)) {
		return rt_json_fail(j, RT_FORMAT, j->text + p->at, "found a %s "
				    "without a type", family_names[r->family]);
	}
	for (i = 0; i < NTYPES && (strcmp(types[i].name, p->name) != 0 ||
	     !(types[i].families >> r->family & 1)); i++) {
	}
	if (i == NTYPES && r->family == TOK_DECODER) {
		p->type = TOK_UNKNOWN;
		return true;
	}
	if (i == NTYPES) {
		return fail_at(r, p->at, "the type", p->name);
	}
	p->type = types[i].type;
	for (k = 0; k < NMEMBERS; k++) {
		if (p->given & members[k].bit & ~(types[i].may | M_TYPE)) {
			return rt_json_fail(j, RT_FORMAT, j->text + p->at,
					    "found the member `%s` of a `%s`, "
					    "which has none",
					    members[k].name, p->name);
		}
		if (types[i].must & ~p->given & members[k].bit) {
			return rt_json_fail(j, RT_FORMAT, j->text + p->at,
					    "found a `%s` without `%s`",
					    p->name, members[k].name);
		}
	}
	return true;
}

static bool
read_part(struct parts_reader *r, int depth)
{
	struct tok_part p = { .at = 0 };
	struct rt_json *j = r->j;
	size_t i = 0;

	rt_json_peek(j);
	p.at = (int64_t)j->at;
	if (depth > MAX_NESTED) {
		return rt_json_fail(j, RT_FORMAT, j->text + p.at, "found more "
				    "than %d sequences in each other",
				    MAX_NESTED);
	}
	if (!rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &i)) {
		if (!read_member(r, &p, depth)) {
			return false;
		}
	}
	if (j->status != RT_OK || !check_part(r, &p)) {
		return false;
	}
	if (p.type == TOK_SEQUENCE) {
		return true;
	}
	if (r->out->n == TOK_MAX_PARTS) {
		return rt_json_fail(j, RT_FORMAT, j->text + p.at, "found more "
				    "than %d %ss", TOK_MAX_PARTS,
				    family_names[r->family]);
	}
	if (!settle_part(r, &p)) {
		return false;
	}
	r->out->at[r->out->n++] = p;
	return true;
}

bool
rt_tok_parts_read(struct rt_json *j, struct tok_parts *out,
		  enum tok_family family, const struct rt_alloc *a)
{
	struct parts_reader r = { j, out, family, a };

	return rt_json_null(j) || read_part(&r, 0);
}

void
rt_tok_parts_release(struct tok_parts *p)
{
	size_t i;

	for (i = 0; i < p->n; i++) {
		rt_regex_free(p->at[i].regex);
	}
	p->n = 0;
}

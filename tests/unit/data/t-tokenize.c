/*
 * Tokenizers: texts, their ids and what these are decoded to, as Hugging
 * Face's package has them (tests/data/tokenizers), of tokenizer.json and of
 * files of llama.cpp; places where documents are
 * cut; broken files; memory that runs out; lines of progress.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/json.h"
#include "runtime/text.h"
#include "runtime/tokenize/tok_regex.h"
#include "runtime/tokenize/tokenize.h"
#include "tests/unit/shared/t-cases.h"

static const char *const families[] = {
	"deepseek", "gemma", "gpt2", "llama2", "llama3", "mistral", "o200k",
	"odd", "qwen",
};

#define NFAMILIES (sizeof families / sizeof *families)

/* Those that are a file of llama.cpp, too, or only that. */
static const char *const stored[] = {
	"coder", "deepseek", "deepseek_llm", "gemma", "gpt2", "llama2",
	"llama3", "o200k", "qwen", "starcoder", "tekken",
};

#define NSTORED (sizeof stored / sizeof *stored)

/* ---- fixtures --------------------------------------------------------- */

struct text_row {
	const char *text, *all, *plain;
	size_t n, all_n, plain_n;
	uint32_t ids[2000];
	size_t nids;
};

static char *
read_fixture(const char *name, const char *suffix, size_t *n)
{
	const char *top = getenv("top_srcdir");
	char path[1024], *text = malloc(100000);
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/data/tokenizers/%s%s",
		 top ? top : ".", name, suffix);
	f = fopen(path, "rb");
	assert_non_null(f);
	assert_non_null(text);
	*n = fread(text, 1, 99999, f);
	text[*n] = '\0';
	assert_true(feof(f));
	fclose(f);
	return text;
}

static struct rt_tokenizer *
open_fixture(const char *name, const struct rt_alloc *a)
{
	struct rt_error err = { .status = RT_OK };
	struct rt_tokenizer *t;
	size_t n;
	char *text = read_fixture(name, ".json", &n);

	if (rt_tokenizer_parse(&t, name, text, n, a, &err) != RT_OK) {
		fail_msg("%s: %s", name, err.message);
	}
	free(text);
	return t;
}

static struct rt_tokenizer *
open_stored(const char *name)
{
	const char *top = getenv("top_srcdir");
	struct rt_error err = { .status = RT_OK };
	struct rt_tokenizer *t;
	char path[1024];

	snprintf(path, sizeof path, "%s/tests/data/tokenizers/%s.gguf",
		 top ? top : ".", name);
	if (rt_tokenizer_open(&t, path, NULL, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	return t;
}

static void
read_row(struct rt_json *j, struct text_row *r)
{
	const char *key;
	size_t i = 0, k = 0;
	int64_t id;

	r->nids = 0;
	assert_true(rt_json_open(j, '{'));
	while (rt_json_more(j, '}', &i)) {
		assert_true(rt_json_key(j, &key));
		if (strcmp(key, "text") == 0) {
			assert_true(rt_json_any_text(j, &r->text, &r->n));
		} else if (strcmp(key, "all") == 0) {
			assert_true(rt_json_any_text(j, &r->all, &r->all_n));
		} else if (strcmp(key, "plain") == 0) {
			assert_true(rt_json_any_text(j, &r->plain,
						     &r->plain_n));
		} else {
			assert_string_equal(key, "ids");
			assert_true(rt_json_open(j, '['));
			while (rt_json_more(j, ']', &k)) {
				assert_true(rt_json_int(j, &id));
				assert_true(r->nids < 2000);
				r->ids[r->nids++] = (uint32_t)id;
			}
		}
	}
	assert_int_equal(j->status, RT_OK);
}

static struct rt_ids
no_ids(void)
{
	return (struct rt_ids){ .alloc = rt_alloc_or_libc(NULL) };
}

static bool
same_ids(const struct rt_ids *ids, const uint32_t *at, size_t n)
{
	return ids->n == n && (n == 0 || memcmp(ids->at, at, 4 * n) == 0);
}

typedef void row_fn(const struct rt_tokenizer *t, struct rt_encoder *e,
		    const char *name, const struct text_row *r);

static void
each_row_of(struct rt_tokenizer *t, const char *name, row_fn *check)
{
	struct text_row *r = malloc(sizeof *r);
	struct rt_error err = { .status = RT_OK };
	struct rt_json j = { .err = &err };
	struct rt_encoder *e;
	size_t i = 0;

	assert_non_null(r);
	assert_int_equal(rt_encoder_open(&e, t, &err), RT_OK);
	j.text = read_fixture(name, ".ids", &j.len);
	assert_true(rt_json_open(&j, '['));
	while (rt_json_more(&j, ']', &i)) {
		read_row(&j, r);
		check(t, e, name, r);
	}
	assert_int_equal(j.status, RT_OK);
	assert_true(i > 30);
	free(j.text);
	rt_encoder_free(e);
	rt_tokenizer_free(t);
	free(r);
}

static void
each_row(row_fn *check)
{
	size_t f;

	for (f = 0; f < NFAMILIES; f++) {
		each_row_of(open_fixture(families[f], NULL), families[f],
			    check);
	}
	for (f = 0; f < NSTORED; f++) {
		each_row_of(open_stored(stored[f]), stored[f], check);
	}
}

static void
check_ids(const struct rt_tokenizer *t, struct rt_encoder *e,
	  const char *name, const struct text_row *r)
{
	struct rt_ids ids = no_ids();
	struct rt_error err;
	int twice;

	/* the second time from what is remembered of words */
	for (twice = 0; twice < 2; twice++) {
		ids.n = 0;
		assert_true(rt_encode_before(t, &ids));
		assert_int_equal(rt_encode(e, r->text, r->n, RT_PART_WHOLE,
					   &ids, &err), RT_OK);
		assert_true(rt_encode_after(t, &ids));
		if (!same_ids(&ids, r->ids, r->nids)) {
			fail_msg("%s: %s: %zu ids, expected %zu", name,
				 r->text, ids.n, r->nids);
		}
	}
	rt_ids_release(&ids);
}

static void
test_ids(void **state)
{
	(void)state;
	each_row(check_ids);
}

static void
check_decoded(const struct rt_tokenizer *t, struct rt_encoder *e,
	      const char *name, const struct text_row *r)
{
	struct rt_error err;
	char *text;
	size_t n;

	(void)e;
	assert_int_equal(rt_decode(t, r->ids, r->nids, false, &text, &n, &err),
			 RT_OK);
	if (n != r->all_n || memcmp(text, r->all, n) != 0) {
		fail_msg("%s: decoded %s, expected %s", name, text, r->all);
	}
	free(text);
	assert_int_equal(rt_decode(t, r->ids, r->nids, true, &text, &n, &err),
			 RT_OK);
	if (n != r->plain_n || memcmp(text, r->plain, n) != 0) {
		fail_msg("%s: decoded %s, expected %s", name, text, r->plain);
	}
	free(text);
}

static void
test_decode(void **state)
{
	struct rt_tokenizer *t = open_fixture("gpt2", NULL);
	uint32_t id = (uint32_t)rt_tokenizer_limit(t);
	struct rt_error err;
	char *text;
	size_t n;

	(void)state;
	each_row(check_decoded);
	assert_int_equal(rt_decode(t, &id, 1, false, &text, &n, &err),
			 RT_RANGE);
	assert_null(text);
	rt_tokenizer_free(t);
}

/* Texts of single tokens, one after the other, are the text, but for a blank
 * that decoders take from its start. */
static void
check_tokens(const struct rt_tokenizer *t, struct rt_encoder *e,
	     const char *name, const struct text_row *r)
{
	struct rt_text all = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_error err;
	size_t n, i, from;
	char *text;

	(void)e;
	for (i = 0; i < r->nids; i++) {
		if (rt_tokenizer_is_special(t, r->ids[i])) {
			continue;
		}
		assert_int_equal(rt_token_text(t, r->ids[i], true, &text, &n,
					       &err), RT_OK);
		rt_text_bytes(&all, text, n);
		free(text);
	}
	from = all.n == r->plain_n + 1 && all.at[0] == ' ';
	if (all.n != r->plain_n + from ||
	    (r->plain_n > 0 &&
	     memcmp(all.at + from, r->plain, r->plain_n) != 0)) {
		fail_msg("%s: tokens of %s", name, r->plain);
	}
	rt_text_release(&all);
}

static void
test_tokens(void **state)
{
	struct rt_tokenizer *t = open_fixture("llama2", NULL);
	struct rt_error err;
	char *text;
	size_t n;

	(void)state;
	each_row(check_tokens);
	assert_int_equal(rt_token_text(t, (uint32_t)rt_tokenizer_id(t,
		"<0xE4>"), false, &text, &n, &err), RT_OK);
	assert_string_equal(text, "\357\277\275");
	free(text);
	rt_tokenizer_free(t);
}

/* ---- cuts ------------------------------------------------------------- */

static size_t ncuts;

static void
check_cuts(const struct rt_tokenizer *t, struct rt_encoder *e,
	   const char *name, const struct text_row *r)
{
	struct rt_ids whole = no_ids(), parts = no_ids();
	struct rt_error err;
	size_t at;

	assert_int_equal(rt_encode(e, r->text, r->n, RT_PART_WHOLE, &whole,
				   &err), RT_OK);
	for (at = 1; at < r->n; at++) {
		if (((unsigned char)r->text[at] & 0xc0) == 0x80 ||
		    !rt_may_cut(t, r->text, at)) {
			continue;
		}
		ncuts++;
		parts.n = 0;
		rt_encode(e, r->text, at, RT_PART_FIRST, &parts, &err);
		rt_encode(e, r->text + at, r->n - at, RT_PART_LATER, &parts,
			  &err);
		if (!same_ids(&parts, whole.at, whole.n)) {
			fail_msg("%s: %s: cut at %zu: other ids", name,
				 r->text, at);
		}
	}
	rt_ids_release(&whole);
	rt_ids_release(&parts);
}

static void
test_cuts(void **state)
{
	(void)state;
	ncuts = 0;
	each_row(check_cuts);
	assert_true(ncuts > 1000);
}

/* ---- patterns --------------------------------------------------------- */

static void
test_patterns(void **state)
{
	static const struct {
		const char *pattern, *text;
		size_t end;	/* of the match at 0; 0: none */
	} rows[] = {
		{ "a|ab", "ab", 1 }, { "ab|a", "ab", 2 },
		{ "a*b|a", "aaac", 1 }, { "a*b|a", "aaab", 4 },
		{ "a+?", "aaa", 1 }, { "a+?b", "aab", 3 },
		{ "(?:ab){2,3}", "abababab", 6 }, { "(ab){3}", "abab", 0 },
		{ "x{0,2}y", "xxxy", 0 }, { "x{0,2}y", "xxy", 3 },
		{ "\\s+(?!\\S)|\\s+", "   x", 2 },
		{ "\\s+(?!\\S)|\\s+", " x", 1 },
		{ "\\s+(?!\\S)", "  ", 2 }, { "a(?=b)", "ab", 1 },
		{ "a(?=b)", "a", 0 }, { "(?i:'ll|k)", "'lL", 3 },
		{ "a$", "a", 1 }, { "a$", "a\nb", 1 }, { "a$", "ab", 0 },
		{ "\\s+$", "  \n x", 2 }, { "\\s+$", "  ", 2 },
		{ "(?i:k)", "\xe2\x84\xaa", 3 }, { "[^a-c]+", "dea", 2 },
		{ "[\\]\\-x]+", "]-xy", 3 }, { "\\P{L}", "a", 0 },
		{ "\\p{Lu}\\p{^Lu}", "Aa", 2 }, { ".", "\n", 0 },
		{ "\\x{e9}\\u00e9\\x41", "\xc3\xa9\xc3\xa9" "A", 5 },
		{ "\\d+", "12\xd9\xa0", 4 },
	};
	struct rt_alloc a = rt_alloc_or_libc(NULL);
	struct rt_regex_error e;
	size_t i, work = 0;

	(void)state;
	for (i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct rt_regex *r = rt_regex_open(&a, rows[i].pattern,
						   strlen(rows[i].pattern),
						   &e);

		assert_non_null(r);
		if (rt_regex_match(r, rows[i].text, strlen(rows[i].text), 0,
				   &work) != rows[i].end) {
			fail_msg("%s of %s", rows[i].pattern, rows[i].text);
		}
		rt_regex_free(r);
	}
}

static void
test_patterns_refused(void **state)
{
	static const struct {
		const char *pattern, *why;
	} rows[] = {
		{ "a*", "matches nothing" }, { "(a", "( without )" },
		{ "a)", ") without (" }, { "[a", "[ without ]" },
		{ "[]", "empty" }, { "[[a]]", "set within" },
		{ "[a&&b]", "set within" }, { "*a", "repetition of nothing" },
		{ "a++b", "gives nothing back" }, { "^a", "a beginning" },
		{ "(?<=a)b", "a group other" },
		{ "(?>a)", "a group other" }, { "\\bx", "an escape other" },
		{ "\\1", "an escape other" }, { "(?!ab)c", "more than one" },
		{ "\\p{Greek}", "no general" }, { "\\p", "\\p without" },
		{ "a{3,1}", "{n,m}" }, { "a{2000}", "at most 1000" },
		{ "(?:(?:a{100}){100}){100}", "too long" },
		{ "(?:a*)*b", "may be empty" }, { "(?i:ss)", "two letters" },
		{ "(?i:[a-z])", "a set in a group" }, { "(?i:\xc3\xa9)",
		  "outside ASCII" }, { "[z-a]", "ends before" },
		{ "\\x{110000}", "hex digits" }, { "a\\", "before nothing" },
		/* of exponentially many states */
		{ "(?:a|b)*a(?:a|b){12}", "2048 states" },
	};
	struct rt_alloc a = rt_alloc_or_libc(NULL);
	struct rt_regex_error e;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_null(rt_regex_open(&a, rows[i].pattern,
					  strlen(rows[i].pattern), &e));
		if (e.status != RT_FORMAT || !strstr(e.message, rows[i].why)) {
			fail_msg("%s: %s", rows[i].pattern, e.message);
		}
	}
}

/* ---- broken files ----------------------------------------------------- */

static const char good[] =
	"{'version':'1.0','truncation':null,'padding':null,'added_tokens':["
	"{'id':4,'content':'<s>','single_word':false,'lstrip':false,"
	"'rstrip':false,'normalized':false,'special':true}],"
	"'normalizer':null,'pre_tokenizer':null,'post_processor':null,"
	"'decoder':null,'model':{'type':'BPE','dropout':null,'unk_token':null,"
	"'continuing_subword_prefix':null,'end_of_word_suffix':'',"
	"'fuse_unk':false,'byte_fallback':false,'ignore_merges':false,"
	"'vocab':{'a':0,'b':1,'ab':2,'c':3},'merges':['a b']}}";

static const struct broken_row {
	const char *from, *to, *why;
} broken_rows[] = {
	{ "'merges':['a b']}}", "'merges':['a b']}", "found the end of the" },
	{ "'1.0'", "'2.0'", "version `2.0`" },
	{ "'version'", "'model'", "expected '{'" },
	{ "'padding'", "'truncation'", "`truncation` twice" },
	{ "'truncation':null", "'truncation':{}", "found `truncation`" },
	{ "'padding':null", "'padding':1", "found `padding`" },
	{ "'padding'", "'paddings'", "found `paddings`" },
	{ "'BPE'", "'Unigram'", "type `Unigram`, expected BPE" },
	{ "'model':", "'decoder':", "`decoder` twice" },
	{ "'dropout':null", "'dropout':0.1", "dropout" },
	{ "'dropout'", "'drop'", "the member `drop` of the model" },
	{ "'unk_token':null", "'unk_token':'x'", "unk_token `x`" },
	{ "'continuing_subword_prefix':null",
	  "'continuing_subword_prefix':'##'", "`##`" },
	{ "'end_of_word_suffix':''", "'end_of_word_suffix':'</w>'", "`</w>`" },
	{ "'a b'", "'a d'", "the vocabulary has no `d`" },
	{ "'a b'", "'d a'", "the vocabulary has no `d`" },
	{ "'a b'", "'b a'", "the vocabulary has no `ba`" },
	{ "'a b'", "'ab'", "two tokens with a space between" },
	{ "'a b'", "'a b c'", "two tokens with a space between" },
	{ "'a b'", "['a']", "other than two tokens" },
	{ "'a b'", "['a','b','c']", "other than two tokens" },
	{ "'a b'", "7", "string in double quotes" },
	{ "'ab':2", "'ab':0", "found id 0 of token `ab`" },
	{ "'ab':2", "'a':2", "token `a` twice" },
	{ "'c':3", "'c':2000000", "id 2000000 of token `c`" },
	{ "'c':3", "'c':99999999999", "below 2^31" },
	{ "'c':3", "'c':-1", "an integer of 0 or more" },
	{ "'c':3", "'c':'x'", "an integer of 0 or more" },
	{ "'c':3", "'\\ud800':3", "high surrogate" },
	{ "'c':3", "'\xff':3", "UTF-8" },
	{ "'c':3", "'\\u0000':3", "without NUL" },
	{ "'id':4", "'id':7", "expected 4, the next that is free" },
	{ "'<s>'", "'ab'", "expected 2, which it has" },
	{ "'<s>'", "''", "without text" },
	{ "'special':true}],'normalizer':null", "'special':true},{'id':5,"
	  "'content':'q','normalized':true},{'id':6,'content':'r',"
	  "'normalized':true}],'normalizer':{'type':'Replace','pattern':"
	  "{'Regex':'q|r'},'content':'s'}", "the same text as `q`" },
	{ "'id':4,", "", "without id" },
	{ "'special'", "'specials'", "the member `specials`" },
	{ "'normalizer':null", "'normalizer':{'type':'Lowercase'}",
	  "the type `Lowercase`" },
	{ "'normalizer':null", "'normalizer':{'type':'NFKC'}",
	  "the type `NFKC`" },
	{ "'normalizer':null", "'normalizer':{'typ':'NFC'}",
	  "the member `typ`" },
	{ "'normalizer':null", "'normalizer':{'type':'NFC','content':'x'}",
	  "the member `content` of a `NFC`" },
	{ "'normalizer':null", "'normalizer':{'type':'Replace','content':'x'}",
	  "without `pattern`" },
	{ "'normalizer':null", "'normalizer':{'type':'Replace','pattern':"
	  "{'Regex':'(?<=x)y'},'content':'x'}", "a group other than" },
	{ "'normalizer':null", "'normalizer':{'type':'Replace','pattern':"
	  "{'Glob':'y'},'content':'x'}", "neither {\"String\"" },
	{ "'normalizer':null", "'normalizer':{'type':'Replace','pattern':"
	  "{'String':''},'content':'x'}", "an empty pattern" },
	{ "'pre_tokenizer':null", "'pre_tokenizer':{'type':'BertPreTokenizer'}",
	  "the type `BertPreTokenizer`" },
	{ "'pre_tokenizer':null", "'pre_tokenizer':{'type':'Split','pattern':"
	  "{'String':'x'},'behavior':'Cut'}", "behavior `Cut`" },
	{ "'pre_tokenizer':null", "'pre_tokenizer':{'type':'Metaspace',"
	  "'replacement':'xy'}", "expected one character" },
	{ "'pre_tokenizer':null", "'pre_tokenizer':{'type':'Metaspace',"
	  "'replacement':'_','prepend_scheme':'maybe'}", "`maybe`" },
	{ "'pre_tokenizer':null", "'pre_tokenizer':{'type':'Sequence',"
	  "'pretokenizers':[{'type':'ByteLevel'},{'type':'Digits'}]}",
	  "ByteLevel last" },
	{ "'normalizer':null,'pre_tokenizer':null", "'normalizer':{'type':"
	  "'NFC'},'pre_tokenizer':{'type':'Sequence','pretokenizers':["
	  "{'type':'Digits'},{'type':'Metaspace','replacement':'_',"
	  "'prepend_scheme':'first'}]}", "`first` behind a normalizer" },
	{ "'post_processor':null", "'post_processor':{'type':'BertProcessing',"
	  "'sep':['x',1],'cls':['y',2]}", "post-processor `BertProcessing`" },
	{ "'post_processor':null", "'post_processor':{'type':"
	  "'TemplateProcessing','single':[{'SpecialToken':{'id':'<s>',"
	  "'type_id':0}}],'pair':[],'special_tokens':{}}",
	  "without the Sequence `A`" },
	{ "'post_processor':null", "'post_processor':{'type':"
	  "'TemplateProcessing','single':[{'SpecialToken':{'id':'<s>',"
	  "'type_id':0}},{'Sequence':{'id':'A','type_id':0}}],'pair':[],"
	  "'special_tokens':{}}", "`special_tokens` have no id" },
};

/* `good' with one part of it replaced, and " for each '. */
static size_t
break_good(const struct broken_row *row, char *out, size_t size)
{
	const char *hit = row ? strstr(good, row->from) : good;
	size_t i, n;

	assert_non_null(hit);
	n = (size_t)snprintf(out, size, "%.*s%s%s", (int)(hit - good), good,
			     row ? row->to : "",
			     row ? hit + strlen(row->from) : good);
	assert_true(n < size);
	for (i = 0; i < n; i++) {
		out[i] = out[i] == '\'' ? '"' : out[i];
	}
	return n;
}

static void
test_broken(void **state)
{
	struct rt_tokenizer *t;
	struct rt_error err;
	char text[4096];
	size_t i, n;

	(void)state;
	n = break_good(NULL, text, sizeof text);
	assert_int_equal(rt_tokenizer_parse(&t, "good", text, n, NULL, &err),
			 RT_OK);
	rt_tokenizer_free(t);
	for (i = 0; i < sizeof broken_rows / sizeof *broken_rows; i++) {
		n = break_good(&broken_rows[i], text, sizeof text);
		memset(&err, 0, sizeof err);
		if (rt_tokenizer_parse(&t, "bad.json", text, n, NULL, &err) !=
		    RT_FORMAT || !strstr(err.message, broken_rows[i].why) ||
		    strncmp(err.message, "bad.json: ", 10) != 0) {
			fail_msg("%s: %s", broken_rows[i].to, err.message);
		}
		assert_null(t);
		if (!strstr(broken_rows[i].why, "have no id")) {
			assert_non_null(strstr(err.message, ", at byte "));
		}
	}
}

/* Each file ends too early, at every byte. */
static void
test_truncated(void **state)
{
	size_t n, all, f;

	(void)state;
	for (f = 0; f < NFAMILIES; f++) {
		char *text = read_fixture(families[f], ".json", &all);

		for (n = 0; n < all; n += t_short() ? 997 : 97) {
			struct rt_tokenizer *t;
			struct rt_error err = { .status = RT_OK };

			assert_int_equal(rt_tokenizer_parse(&t, "x", text, n,
						NULL, &err), RT_FORMAT);
			assert_true(err.message[0] != '\0');
		}
		free(text);
	}
}

static void
test_invalid_text(void **state)
{
	struct rt_tokenizer *t = open_fixture("gpt2", NULL);
	struct rt_ids ids = no_ids();
	struct rt_encoder *e;
	struct rt_error err;

	(void)state;
	assert_int_equal(rt_encoder_open(&e, t, &err), RT_OK);
	assert_int_equal(rt_encode(e, "ab\xc3(", 4, RT_PART_WHOLE, &ids, &err),
			 RT_FORMAT);
	assert_int_equal(err.offset, 2);
	assert_non_null(strstr(err.message, "0xc3"));
	rt_ids_release(&ids);
	rt_encoder_free(e);
	rt_tokenizer_free(t);
}

/*
 * A pattern that looks far ahead at each place in vain: if nothing ended it,
 * this would take minutes.
 */
static void
test_far_pattern(void **state)
{
	static const struct broken_row rows[] = {
		{ "'pre_tokenizer':null", "'pre_tokenizer':{'type':'Split',"
		  "'pattern':{'Regex':'a+b'},'behavior':'Isolated'}", NULL },
		{ "'normalizer':null", "'normalizer':{'type':'Replace',"
		  "'pattern':{'Regex':'a+b'},'content':'c'}", NULL },
	};
	size_t n = 1000000, i;
	char text[4096], *long_text = malloc(n);

	(void)state;
	assert_non_null(long_text);
	memset(long_text, 'a', n);
	for (i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct rt_ids ids = no_ids();
		struct rt_tokenizer *t;
		struct rt_encoder *e;
		struct rt_error err;

		assert_int_equal(rt_tokenizer_parse(&t, "x", text,
			break_good(&rows[i], text, sizeof text), NULL, &err),
			RT_OK);
		assert_int_equal(rt_encoder_open(&e, t, &err), RT_OK);
		assert_int_equal(rt_encode(e, long_text, n, RT_PART_WHOLE,
					   &ids, &err), RT_RANGE);
		assert_non_null(strstr(err.message, "looks at more than"));
		rt_ids_release(&ids);
		rt_encoder_free(e);
		rt_tokenizer_free(t);
	}
	free(long_text);
}

/* The same of what decodes, in a text of many tokens. */
static void
test_far_replacement(void **state)
{
	static const struct broken_row row = { "'decoder':null",
		"'decoder':{'type':'Sequence','decoders':[{'type':'Fuse'},"
		"{'type':'Replace','pattern':{'Regex':'a+b'},"
		"'content':'c'}]}", NULL };
	struct rt_tokenizer *t;
	struct rt_error err;
	size_t n = 1000000, bytes;
	uint32_t *ids = calloc(n, sizeof *ids);
	char text[4096], *out;

	(void)state;
	assert_non_null(ids);
	assert_int_equal(rt_tokenizer_parse(&t, "x", text, break_good(&row,
				text, sizeof text), NULL, &err), RT_OK);
	assert_int_equal(rt_decode(t, ids, n, false, &out, &bytes, &err),
			 RT_RANGE);
	assert_non_null(strstr(err.message, "looks at more than"));
	assert_int_equal(rt_decode(t, ids, 100, false, &out, &bytes, &err),
			 RT_OK);
	assert_int_equal(bytes, 100);
	free(out);
	rt_tokenizer_free(t);
	free(ids);
}

/* ---- memory ----------------------------------------------------------- */

struct few {
	long left, live;
};

static void *
few_realloc(void *user, void *p, size_t n)
{
	struct few *f = user;
	void *q;

	if (n == 0) {
		f->live -= p != NULL;
		free(p);
		return NULL;
	}
	if (f->left == 0) {
		return NULL;
	}
	f->left--;
	q = realloc(p, n);
	f->live += !p;
	return q;
}

/* Everything once; RT_NOMEM: a request was refused. */
static enum rt_status
use(const char *json, size_t n, struct few *f)
{
	static const char text[] = "It's <s> 12 e\xcc\x81\xcc\xa3 \xea\xb0\x80 "
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	struct rt_alloc a = { few_realloc, f };
	struct rt_ids ids = { .alloc = a };
	struct rt_encoder *e = NULL;
	struct rt_error err = { .status = RT_OK };
	struct rt_tokenizer *t;
	enum rt_status status;
	char *out = NULL;
	size_t out_n;

	status = rt_tokenizer_parse(&t, "x", json, n, &a, &err);
	if (status == RT_OK) {
		status = rt_encoder_open(&e, t, &err);
	}
	if (status == RT_OK) {
		status = rt_encode(e, text, sizeof text - 1, RT_PART_WHOLE,
				   &ids, &err);
	}
	if (status == RT_OK) {
		status = rt_decode(t, ids.at, ids.n, false, &out, &out_n,
				   &err);
	}
	if (status != RT_OK) {
		assert_non_null(strstr(err.message, "out of memory"));
	}
	rt_release(&a, out);
	rt_ids_release(&ids);
	rt_encoder_free(e);
	rt_tokenizer_free(t);
	return status;
}

static void
test_memory(void **state)
{
	static const char *const some[] = { "qwen", "llama2", "llama3", "odd" };
	long granted, step = t_short() ? 5 : 1;
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof some / sizeof *some; i++) {
		char *json = read_fixture(some[i], ".json", &n);
		enum rt_status status = RT_NOMEM;

		for (granted = 0; status != RT_OK; granted += step) {
			struct few f = { granted, 0 };

			status = use(json, n, &f);
			assert_true(status == RT_OK || status == RT_NOMEM);
			assert_int_equal(f.live, 0);
			assert_true(granted < 100000);
		}
		assert_true(granted > 20);
		free(json);
	}
}

/* ---- token files ------------------------------------------------------ */

/* Lines of progress while a text of two MB becomes a token file. */
static uint32_t
progress_lines(const char *folder, double log_seconds)
{
	const char *top = getenv("top_srcdir");
	char json[1024], text[1024], bin[1024], line[256];
	const char *inputs[] = { text };
	struct rt_token_options o = { .tokenizer = json, .inputs = inputs,
		.ninputs = 1, .threads = 2, .progress = tmpfile(),
		.log_seconds = log_seconds };
	struct rt_error err = { .status = RT_OK };
	struct rt_token_counts counts;
	uint32_t n = 0, i;
	FILE *f;

	snprintf(json, sizeof json, "%s/tests/data/tokenizers/llama3.json",
		 top ? top : ".");
	snprintf(text, sizeof text, "%s/text", folder);
	snprintf(bin, sizeof bin, "%s/text.bin", folder);
	f = fopen(text, "w");
	assert_true(f && o.progress);
	for (i = 0; i < 100000; i++) {
		fprintf(f, "line %u of a text\n", i);
	}
	fclose(f);
	if (rt_tokens_write(bin, &o, &counts, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	rewind(o.progress);
	while (fgets(line, sizeof line, o.progress)) {
		assert_int_equal(strncmp(line, text, strlen(text)), 0);
		assert_non_null(strstr(line, " of 2.1 MB, "));
		assert_non_null(strstr(line, " s left\n"));
		n++;
	}
	fclose(o.progress);
	assert_int_equal(unlink(text) | unlink(bin), 0);
	return n;
}

/* Each waits for twice as long as all before it. */
static void
test_progress(void **state)
{
	char folder[] = "t-tokenize-XXXXXX";
	uint32_t n;

	(void)state;
	assert_non_null(mkdtemp(folder));
	n = progress_lines(folder, 1e-6);
	assert_true(n > 0 && n < 40);
	assert_int_equal(progress_lines(folder, 1e6), 0);
	assert_int_equal(rmdir(folder), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_decode),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_patterns_refused),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_invalid_text),
		cmocka_unit_test(test_far_pattern),
		cmocka_unit_test(test_far_replacement),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_progress),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

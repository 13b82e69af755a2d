/*
 * Tokenizers of llama.cpp: what the tokenizer.json of a model would say, of the
 * keys of its *.gguf.  That text is then read as any other is.
 *
 * A file of byte pairs (tokenizer.ggml.model "gpt2") has its merges in order.
 * How text is split before them is not in the file, which only names it
 * (tokenizer.ggml.pre): the patterns here are those that the models' own
 * tokenizer.json have.
 *
 * A file of SentencePiece ("llama") has a score for each token, and no merges:
 * any two neighbours that are a token together may be joined, those of the
 * highest score first.  So each way to cut a token into two others is a merge,
 * and all of one score have one rank.  There are too many of them for a text.
 */
#include "runtime/tokenize/tok.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_SPLITS = 7,
	MOST_PIECE = 1024,	/* bytes of a token that merges may make */
	MOST_WAYS = 24,		/* to make a token, of all tokens on average */
};

/* Where text is split before it is merged: at the matches of each pattern in
 * turn, and then as GPT-2 does, or not. */
struct rule {
	bool nfc, words;
	const char *splits[MOST_SPLITS];
};

enum rule_name { GPT2, DIGITS, LLAMA3, QWEN2, TEKKEN, O200K,
		 DEEPSEEK, DEEPSEEK_CODER, DEEPSEEK3 };

#define SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS(digits) \
	SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
	"| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" REST
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
/* Words whose capitals come first. */
#define CASED(suffix, digits) \
	"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix \
	"|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" suffix "|" digits \
	"| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" REST
#define CJK "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
/* Letters that have two cases, as DeepSeek's file lists them. */
#define LETTERS \
	"A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf" \
	"\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d" \
	"\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5" \
	"\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5" \
	"\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77" \
	"\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d" \
	"\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4" \
	"\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3" \
	"\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107" \
	"\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d" \
	"\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184" \
	"\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d" \
	"\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf" \
	"\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a" \
	"\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb" \
	"\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df" \
	"\U0001e900-\U0001e943"

static const struct rule rules[] = {
	[GPT2] = { .words = true },
	[DIGITS] = { .words = true, .splits = { "\\p{N}" } },
	[LLAMA3] = { .splits = { WORDS("\\p{N}{1,3}") } },
	[QWEN2] = { .nfc = true, .splits = { WORDS("\\p{N}") } },
	[TEKKEN] = { .splits = { CASED("", "\\p{N}") } },
	[O200K] = { .splits = { CASED(SUFFIX "?", "\\p{N}{1,3}") } },
	[DEEPSEEK] = { .splits = {
		"[\\r\\n]", "\\s?[" LETTERS "]+",
		"\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f"
		"\u3000-\u3002]+", "\\s+$", CJK, "\\p{N}+" } },
	[DEEPSEEK_CODER] = { .splits = { "[\\r\\n]", "\\s?\\p{L}+",
					 "\\s?\\p{P}+", CJK, "\\p{N}" } },
	[DEEPSEEK3] = { .splits = {
		"\\p{N}{1,3}",
		"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
		"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
		"|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
		"| ?[\\p{P}\\p{S}]+[\\r\\n]*" REST } },
};

/* What tokenizer.ggml.pre names.  `whole`: a word that is a token is not
 * merged; `bos`: documents begin with a token, unless the file says. */
static const struct {
	const char *name;
	enum rule_name rule;
	bool whole, bos;
} pres[] = {
	{ "llama-bpe", LLAMA3, true, true },
	{ "llama3", LLAMA3, true, true },
	{ "llama-v3", LLAMA3, true, true },
	{ "gpt-2", GPT2, false, false },
	{ "phi-2", GPT2, false, false },
	{ "qwen2", QWEN2, false, false },
	{ "deepseek-r1-qwen", QWEN2, false, false },
	{ "dbrx", LLAMA3, false, false },
	{ "smaug-bpe", LLAMA3, false, false },
	{ "deepseek-llm", DEEPSEEK, false, false },
	{ "deepseek-coder", DEEPSEEK_CODER, false, false },
	{ "deepseek-v3", DEEPSEEK3, false, false },
	{ "starcoder", DIGITS, false, false },
	{ "refact", DIGITS, false, false },
	{ "smollm", DIGITS, false, false },
	{ "tekken", TEKKEN, true, true },
	{ "gpt-4o", O200K, false, false },
};

#define NPRES (sizeof pres / sizeof *pres)

struct making {
	const char *path;
	struct rt_words w;
	struct tok_gguf *g;
	enum rt_status status;
	struct rt_error *err;
};

static void RT_PRINTF(2, 3)
fail(struct making *k, const char *fmt, ...)
{
	struct rt_where where = { k->path, NULL, -1 };
	va_list ap;

	if (k->status == RT_OK) {
		va_start(ap, fmt);
		k->status = rt_vfail(k->err, RT_FORMAT, where, fmt, ap);
		va_end(ap);
	}
}

static const char *
token(const struct making *k, int64_t id)
{
	return k->w.text + k->w.tokens.at[id];
}

/* ---- sections of the text --------------------------------------------- */

/* Those that are looked for in a text before all else. */
static void
add_added(struct making *k)
{
	struct rt_text *t = &k->g->json;
	const char *comma = "";
	size_t i;

	rt_text_add(t, "\"added_tokens\":[");
	for (i = 0; i < k->w.ntypes; i++) {
		int type = k->w.types[i];

		if (type != RT_WORD_UNKNOWN && type != RT_WORD_CONTROL &&
		    type != RT_WORD_OWN) {
			continue;
		}
		rt_text_add(t, "%s{\"id\":%zu,\"content\":", comma, i);
		rt_text_string(t, token(k, (int64_t)i));
		rt_text_add(t, ",\"special\":%s}",
			    type == RT_WORD_OWN ? "false" : "true");
		comma = ",\n";
	}
	rt_text_add(t, "],\n");
}

static void
add_vocab(struct making *k)
{
	struct rt_text *t = &k->g->json;
	size_t i;

	rt_text_add(t, "\"vocab\":{");
	for (i = 0; i < k->w.tokens.n; i++) {
		rt_text_add(t, i > 0 ? ",\n" : "");
		rt_text_string(t, token(k, (int64_t)i));
		rt_text_add(t, ":%zu", i);
	}
	rt_text_add(t, "},\n");
}

static void
add_piece(struct rt_text *t, const char *content)
{
	rt_text_add(t, "{\"SpecialToken\":{\"id\":");
	rt_text_string(t, content);
	rt_text_add(t, ",\"type_id\":0}}");
}

static void
add_special(struct rt_text *t, const char *content, int64_t id)
{
	rt_text_string(t, content);
	rt_text_add(t, ":{\"id\":");
	rt_text_string(t, content);
	rt_text_add(t, ",\"ids\":[%" PRId64 "],\"tokens\":[]}", id);
}

/* What documents are framed with; `bos` unless the file says. */
static void
add_frame(struct making *k, bool bos)
{
	const struct rt_words *w = &k->w;
	struct rt_text *t = &k->g->json;
	int64_t first = w->ids[RT_WORD_BOS], last = w->ids[RT_WORD_EOS];
	int begin = w->flags[RT_WORD_ADD_BOS], end = w->flags[RT_WORD_ADD_EOS];

	begin = begin < 0 ? bos : begin;
	end = end < 0 ? 0 : end;
	if ((begin && first < 0) || (end && last < 0)) {
		fail(k, "found no tokenizer.ggml.%s, expected it, as each text "
		     "%s with that token", begin && first < 0 ? "bos_token_id"
		     : "eos_token_id", begin && first < 0 ? "begins" : "ends");
	} else if (w->flags[RT_WORD_ADD_SEP] > 0) {
		fail(k, "found a tokenizer.ggml.add_sep_token that is true, "
		     "expected none");
	}
	if (k->status != RT_OK || (!begin && !end)) {
		return;
	}
	rt_text_add(t, "\"post_processor\":{\"type\":\"TemplateProcessing\","
		    "\n\"single\":[");
	if (begin) {
		add_piece(t, token(k, first));
		rt_text_add(t, ",");
	}
	rt_text_add(t, "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}");
	if (end) {
		rt_text_add(t, ",");
		add_piece(t, token(k, last));
	}
	rt_text_add(t, "],\n\"special_tokens\":{");
	if (begin) {
		add_special(t, token(k, first), first);
	}
	if (end && (!begin || last != first)) {
		rt_text_add(t, begin ? "," : "");
		add_special(t, token(k, last), last);
	}
	rt_text_add(t, "}},\n");
}

/* ---- byte pairs ------------------------------------------------------- */

static size_t
find_pre(struct making *k)
{
	struct rt_line known = { .n = 0 };
	size_t i;

	for (i = 0; i < NPRES; i++) {
		if (strcmp(pres[i].name, k->w.pre) == 0) {
			return i;
		}
		rt_line_add(&known, "%s%s", i == 0 ? "" : i + 1 == NPRES
			    ? " or " : ", ", pres[i].name);
	}
	fail(k, "found tokenizer.ggml.pre '%s', expected %s",
	     rt_show_name(k->w.pre).text, known.at);
	return 0;
}

static void
add_rule(struct rt_text *t, const struct rule *r)
{
	size_t i;

	rt_text_add(t, "\"normalizer\":%s,\n\"pre_tokenizer\":{\"type\":"
		    "\"Sequence\",\"pretokenizers\":[", r->nfc
		    ? "{\"type\":\"NFC\"}" : "null");
	for (i = 0; i < MOST_SPLITS && r->splits[i]; i++) {
		rt_text_add(t, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
		rt_text_string(t, r->splits[i]);
		rt_text_add(t, "},\"behavior\":\"Isolated\","
			    "\"invert\":false},\n");
	}
	rt_text_add(t, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
		    "\"trim_offsets\":true,\"use_regex\":%s}]},\n"
		    "\"decoder\":{\"type\":\"ByteLevel\"},\n",
		    r->words ? "true" : "false");
}

static void
make_pairs(struct making *k)
{
	struct rt_text *t = &k->g->json;
	size_t pre = find_pre(k), i;

	add_frame(k, pres[pre].bos);
	add_rule(t, &rules[pres[pre].rule]);
	rt_text_add(t, "\"model\":{\"type\":\"BPE\",\"ignore_merges\":%s,\n",
		    pres[pre].whole ? "true" : "false");
	add_vocab(k);
	rt_text_add(t, "\"merges\":[");
	for (i = 0; i < k->w.merges.n; i++) {
		rt_text_add(t, i > 0 ? ",\n" : "");
		rt_text_string(t, k->w.text + k->w.merges.at[i]);
	}
	rt_text_add(t, "]}");
}

/* ---- SentencePiece ---------------------------------------------------- */

/* A token by its score. */
struct scored {
	double score;
	uint32_t id;
};

static int
by_score(const void *a, const void *b)
{
	const struct scored *x = a, *y = b;

	return x->score != y->score ? (x->score > y->score ? -1 : 1)
		: x->id < y->id ? -1 : x->id > y->id;
}

static bool
no_memory(struct making *k)
{
	if (k->status == RT_OK) {
		k->status = rt_no_memory(k->err, k->path);
	}
	return false;
}

static bool
add_merge(struct making *k, size_t *cap, const struct tok_merge *x)
{
	struct tok_gguf *g = k->g;
	struct tok_merge *more;

	if (g->nmerges == MOST_WAYS * k->w.tokens.n + 65536) {
		fail(k, "found more than %d ways to make each token of two "
		     "others, expected at most that on average", MOST_WAYS);
		return false;
	}
	if (g->nmerges == *cap) {
		*cap = *cap ? 2 * *cap : 4096;
		more = rt_resize(&k->w.alloc, g->merges, *cap, sizeof *more);
		if (!more) {
			return no_memory(k);
		}
		g->merges = more;
	}
	g->merges[g->nmerges++] = *x;
	return true;
}

/* Adds the ways to make a token of two others. */
static bool
add_ways(struct making *k, const struct tok_vocab *v, size_t *cap, uint32_t id,
	 uint32_t rank)
{
	const char *s = token(k, id);
	size_t n = strlen(s), at;

	if (n > MOST_PIECE) {
		fail(k, "found token %" PRIu32 " of %zu bytes, expected at "
		     "most %d", id, n, MOST_PIECE);
		return false;
	}
	for (at = 1; at < n; at++) {
		const struct tok_token *left = rt_tok_find(v, s, at), *right;

		right = left ? rt_tok_find(v, s + at, n - at) : NULL;
		if (right && !add_merge(k, cap, &(struct tok_merge){
			(uint64_t)left->id << 32 | right->id, rank, id })) {
			return false;
		}
	}
	return true;
}

static bool
add_all_ways(struct making *k, const struct tok_vocab *v,
	     struct scored *order)
{
	size_t n = k->w.tokens.n, i, cap = 0;
	uint32_t rank = 0;

	for (i = 0; i < n; i++) {
		order[i] = (struct scored){ k->w.scores[i], (uint32_t)i };
	}
	qsort(order, n, sizeof *order, by_score);
	for (i = 0; i < n; i++) {
		rank += i > 0 && order[i].score != order[i - 1].score;
		if (!add_ways(k, v, &cap, order[i].id, rank)) {
			return false;
		}
	}
	return true;
}

/* All merges, of tokens whose texts differ. */
static void
make_merges(struct making *k)
{
	const struct rt_alloc *a = &k->w.alloc;
	size_t n = k->w.tokens.n, i;
	struct tok_vocab v = { 0 };
	struct scored *order = rt_resize(a, NULL, n, sizeof *order);
	bool ok = order != NULL;

	for (i = 0; i < n && ok; i++) {
		struct tok_token x = { .s = token(k, (int64_t)i),
				       .id = (uint32_t)i };

		x.n = (uint32_t)strlen(x.s);
		ok = rt_tok_find(&v, x.s, x.n) || rt_tok_add(&v, &x, a);
	}
	if (!ok) {
		no_memory(k);
	} else {
		add_all_ways(k, &v, order);
	}
	rt_release(a, order);
	rt_release(a, v.at);
	rt_release(a, v.slots);
}

static void
make_pieces(struct making *k)
{
	static const char blank[] = "{\"type\":\"Replace\",\"pattern\":"
		"{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}";
	static const char back[] = "{\"type\":\"Replace\",\"pattern\":"
		"{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"},"
		"{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}";
	struct rt_text *t = &k->g->json;
	bool prefix = k->w.flags[RT_WORD_ADD_SPACE] != 0;
	int64_t *ids = k->w.ids;

	if (k->w.nscores == 0) {
		fail(k, "found no tokenizer.ggml.scores, expected one for each "
		     "token");
		return;
	}
	ids[RT_WORD_UNK] = ids[RT_WORD_UNK] < 0 ? 0 : ids[RT_WORD_UNK];
	add_frame(k, true);
	rt_text_add(t, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":"
		    "[%s%s]},\n\"decoder\":{\"type\":\"Sequence\","
		    "\"decoders\":[%s%s]},\n", prefix
		    ? "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},"
		    : "", blank, back, prefix ? ",{\"type\":\"Strip\","
		    "\"content\":\" \",\"start\":1,\"stop\":0}" : "");
	rt_text_add(t, "\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,"
		    "\"byte_fallback\":true,\"unk_token\":");
	rt_text_string(t, token(k, ids[RT_WORD_UNK]));
	rt_text_add(t, ",\n");
	add_vocab(k);
	rt_text_add(t, "\"merges\":[]}");
	make_merges(k);
}

/* ---- all of it -------------------------------------------------------- */

static void
make(struct making *k)
{
	struct rt_text *t = &k->g->json;

	rt_text_add(t, "{\"version\":\"1.0\",\n");
	add_added(k);
	if (strcmp(k->w.model, "gpt2") == 0) {
		make_pairs(k);
	} else if (strcmp(k->w.model, "llama") == 0) {
		make_pieces(k);
	} else {
		fail(k, "found tokenizer.ggml.model '%s', expected gpt2 or "
		     "llama", rt_show_name(k->w.model).text);
	}
	rt_text_add(t, "}\n");
}

void
rt_tok_gguf_release(struct tok_gguf *g)
{
	struct rt_alloc a = g->json.alloc;

	rt_text_release(&g->json);
	rt_release(&a, g->merges);
	rt_release(&a, g->chat);
	memset(g, 0, sizeof *g);
}

enum rt_status
rt_tok_gguf_read(struct tok_gguf *g, const char *path,
		 const struct rt_alloc *alloc, struct rt_error *err)
{
	struct making k = { .path = path, .g = g, .err = err };

	memset(g, 0, sizeof *g);
	g->json.alloc = rt_alloc_or_libc(alloc);
	k.status = rt_words_read(&k.w, path, alloc, err);
	if (k.status != RT_OK) {
		return k.status;
	}
	make(&k);
	memcpy(g->ends, &k.w.ids[RT_WORD_EOS], sizeof g->ends);
	if (k.w.chat) {
		g->chat = rt_join(&k.w.alloc, k.w.chat, strlen(k.w.chat), "");
	}
	if (g->json.failed || (k.w.chat && !g->chat)) {
		no_memory(&k);
	}
	rt_words_release(&k.w);
	if (k.status != RT_OK) {
		rt_tok_gguf_release(g);
	}
	return k.status;
}

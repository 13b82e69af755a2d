/*
 * Which pairs of queries and keys exist, and which heads share a kv head, as C
 * text.  Local indices of a dim that is not sharded are positions; for others
 * rt_pieces gives positions when the kernel runs.  Local indices are in the
 * order of positions, so the keys that a query sees are a range of local
 * indices, and the text computes ends of such ranges.
 */
#include "codegen/cuda/attention/cuda_attention_forward.h"

#include <string.h>

#define TEXT_OF(number) TEXT(number)
#define TEXT(number) #number

/* Helper functions, inserted only if they are called, since NVRTC warns of
 * unused ones. */
static const struct {
	const char *call, *text;
} helpers[] = {
	{ "ca_clamp(",
	  "\n/* x, from 0 to most. */\n"
	  "FN int\nca_clamp(int x, int most)\n{\n"
	  "\tx = x > 0 ? x : 0;\n"
	  "\treturn x < most ? x : most;\n}\n" },
	{ "ca_min(",
	  "\nFN int\nca_min(int a, int b)\n{\n"
	  "\treturn a < b ? a : b;\n}\n" },
	{ "ca_max(",
	  "\nFN int\nca_max(int a, int b)\n{\n"
	  "\treturn a > b ? a : b;\n}\n" },
	{ "ca_first(",
	  "\n/* The least position that is at or after x, below 2^30. */\n"
	  "FN int\nca_first(f32 x)\n{\n"
	  "\tint n;\n\n"
	  "\tx = x > 0 ? x : 0;\n"
	  "\tx = x < 1073741824.0f ? x : 1073741824.0f;\n"
	  "\tn = (int)x;\n"
	  "\treturn n + ((f32)n < x);\n}\n" },
	{ "ca_after(",
	  "\n/* The least position after x, below 2^30. */\n"
	  "FN int\nca_after(f32 x)\n{\n"
	  "\tx = x > -1 ? x : -1;\n"
	  "\tx = x < 1073741824.0f ? x : 1073741824.0f;\n"
	  "\treturn x < 0 ? 0 : (int)x + 1;\n}\n" },
	{ "ca_part_keys(",
	  "\n/* Keys of a part of so many. */\n"
	  "FN int\nca_part_keys(int keys)\n{\n"
	  "\tint n = " TEXT_OF(COST_PART) ";\n\n"
	  "\twhile (n * " TEXT_OF(COST_PARTS) " < keys) {\n"
	  "\t\tn *= 2;\n"
	  "\t}\n"
	  "\treturn n;\n}\n" },
	{ "ca_parts(",
	  "\n/* The parts of keys low .. to - 1, at least one. */\n"
	  "FN int\nca_parts(int low, int to)\n{\n"
	  "\tint n = to > low ? to - low : 1, size = ca_part_keys(n);\n\n"
	  "\treturn (n + size - 1) / size;\n}\n" },
	{ "ca_extremes(",
	  "\n/* The least and the most of n numbers, in all threads of a "
	  "warp:\n * lane 0's, so that the assembler sees that loops over "
	  "them do\n * not diverge. */\n"
	  "FN void\nca_extremes(const f32 *x, i64 apart, int n, "
	  "f32 *least, f32 *most)\n{\n"
	  "\tf32 a = x[0], b = x[0], y;\n"
	  "\tint i;\n\n"
	  "\tfor (i = LANE; i < n; i += 32) {\n"
	  "\t\ty = x[i * apart];\n"
	  "\t\ta = y < a ? y : a;\n"
	  "\t\tb = y > b ? y : b;\n"
	  "\t}\n"
	  "\tfor (i = 16; i > 0; i /= 2) {\n"
	  "\t\ty = shfl_xor_f32(a, i);\n"
	  "\t\ta = y < a ? y : a;\n"
	  "\t\ty = shfl_xor_f32(b, i);\n"
	  "\t\tb = y > b ? y : b;\n"
	  "\t}\n"
	  "\t*least = shfl_f32(a, 0);\n"
	  "\t*most = shfl_f32(b, 0);\n}\n" },
	{ "ca_position(",
	  "\n/* The position of a place. */\n"
	  "FN i64\nca_position(const struct pieces *p, i64 place)\n{\n"
	  "\ti64 first = 0;\n"
	  "\tint i;\n\n"
	  "\tfor (i = 0; i < p->n - 1; i++) {\n"
	  "\t\tif (place < first + p->at[i].count) {\n"
	  "\t\t\tbreak;\n"
	  "\t\t}\n"
	  "\t\tfirst += p->at[i].count;\n"
	  "\t}\n"
	  "\treturn p->n > 0 ? p->at[i].start + place - first : 0;\n}\n" },
	{ "ca_below(",
	  "\n/* How many places have a position below. */\n"
	  "FN int\nca_below(const struct pieces *p, i64 position)\n{\n"
	  "\ti64 n = 0, k;\n"
	  "\tint i;\n\n"
	  "\tfor (i = 0; i < p->n; i++) {\n"
	  "\t\tk = position - p->at[i].start;\n"
	  "\t\tk = k > 0 ? k : 0;\n"
	  "\t\tn += k < p->at[i].count ? k : p->at[i].count;\n"
	  "\t}\n"
	  "\treturn (int)n;\n}\n" }
};

void
ca_helpers(struct cu_kernel *k)
{
	struct buf text;
	size_t i;

	buf_init(&text, k->c->a);
	for (i = 0; i < sizeof helpers / sizeof helpers[0]; i++) {
		if (strstr(buf_text(&k->text), helpers[i].call)) {
			buf_puts(&text, helpers[i].text);
		}
	}
	buf_puts(&text, buf_text(&k->text));
	k->text = text;
}

static int64_t
count_of(const struct attn *t, uint32_t dim)
{
	return dim == ATTN_QUERIES ? t->queries : dim == ATTN_KEYS ? t->keys
		: dim == ATTN_HEADS ? t->heads : t->kv;
}

const char *
ca_position(struct cu_func *f, const struct attn *t, uint32_t dim,
	    const char *place)
{
	if (t->spread[dim] == UINT32_MAX) {
		return place;
	}
	return arena_printf(f->k->c->a, "ca_position(%s, %s)",
			    cu_pieces(f, t->spread[dim]), place);
}

/* C text: how many local indices of a dim have positions below `at` +
 * `more`. */
static const char *
below(struct cu_func *f, const struct attn *t, uint32_t dim, const char *at,
      int64_t more)
{
	struct arena *a = f->k->c->a;

	if (more != 0) {
		at = arena_printf(a, "%s %c %lld", at, more < 0 ? '-' : '+',
				  (long long)(more < 0 ? -more : more));
	}
	if (t->spread[dim] == UINT32_MAX) {
		return arena_printf(a, "ca_clamp((int)(%s), %lld)", at,
				    (long long)count_of(t, dim));
	}
	return arena_printf(a, "ca_below(%s, %s)",
			    cu_pieces(f, t->spread[dim]), at);
}

/* C text: the keys of positions that causal and window leave to a query. */
static const char *
static_from(struct cu_func *f, const struct attn *t, const char *query)
{
	if (t->window <= 0) {
		return "0";
	}
	return below(f, t, ATTN_KEYS, ca_position(f, t, ATTN_QUERIES, query),
		     t->shift + 1 - t->window);
}

static const char *
static_to(struct cu_func *f, const struct attn *t, const char *query)
{
	if (!t->causal) {
		return arena_printf(f->k->c->a, "%lld", (long long)t->keys);
	}
	return below(f, t, ATTN_KEYS, ca_position(f, t, ATTN_QUERIES, query),
		     t->shift + 1);
}

/* C text: the larger of `other` and the keys before the number `first`. */
static const char *
from_number(struct cu_func *f, const struct attn *t, const char *other,
	    const char *first)
{
	struct arena *a = f->k->c->a;
	const char *own = below(f, t, ATTN_KEYS, arena_printf(
			a, "ca_first(%s)", first), 0);

	return strcmp(other, "0") == 0 ? own
		: arena_printf(a, "ca_max(%s, %s)", other, own);
}

/* C text: the smaller of `other` and the keys up to the number `last`. */
static const char *
to_number(struct cu_func *f, const struct attn *t, const char *other,
	  const char *last)
{
	struct arena *a = f->k->c->a;

	return arena_printf(a, "ca_min(%s, %s)", other,
			    below(f, t, ATTN_KEYS, arena_printf(
				    a, "ca_after(%s)", last), 0));
}

/* C text: the number that `first` or `last` has for a query. */
static const char *
number_of(struct cu_func *f, const struct attn *t, enum attn_input in,
	  const char *query)
{
	return arena_printf(f->k->c->a, "%s[(i64)(%s) * %lld]",
			    in == ATTN_FIRST ? "seen_from" : "seen_to", query,
			    (long long)t->in[in].pos);
}

void
ca_declare_ranges(struct cu_func *f, const struct attn *t)
{
	if (attn_is_between(t)) {
		ca_declare_pointer(f, t, &t->in[ATTN_FIRST], "seen_from", "0");
		ca_declare_pointer(f, t, &t->in[ATTN_LAST], "seen_to", "0");
	}
}

const char *
ca_keys_from(struct cu_func *f, const struct attn *t, const char *query)
{
	const char *from = static_from(f, t, query);

	return !attn_is_between(t) ? from
		: from_number(f, t, from, number_of(f, t, ATTN_FIRST, query));
}

const char *
ca_keys_to(struct cu_func *f, const struct attn *t, const char *query)
{
	const char *to = static_to(f, t, query);

	return !attn_is_between(t) ? to
		: to_number(f, t, to, number_of(f, t, ATTN_LAST, query));
}

/* ---- of all rows of a block ---- */

#define LAST_ROW "(row0 + live - 1)"

/* Declares the least and the most of a number of the block's queries. */
static void
declare_extremes(struct cu_func *f, const struct attn *t, enum attn_input in,
		 const char *name)
{
	cu_line(f, "f32 %s[2];", name);
	cu_line(f, "ca_extremes(&%s, %lld, live, %s, %s + 1);",
		number_of(f, t, in, "row0"), (long long)t->in[in].pos, name,
		name);
}

void
ca_declare_keys(struct cu_func *f, const struct attn *t, int64_t cols)
{
	const char *from = static_from(f, t, "row0");
	const char *to = static_to(f, t, LAST_ROW);

	if (attn_is_between(t)) {
		declare_extremes(f, t, ATTN_FIRST, "firsts");
		declare_extremes(f, t, ATTN_LAST, "lasts");
		from = from_number(f, t, from, "firsts[0]");
		to = to_number(f, t, to, "lasts[1]");
	}
	cu_line(f, "const int begin = %s / %lld * %lld;", from,
		(long long)cols, (long long)cols);
	cu_line(f, "const int end = %s;", to);
}

void
ca_declare_sure(struct cu_func *f, const struct attn *t)
{
	const char *from = static_from(f, t, LAST_ROW);
	const char *to = static_to(f, t, "row0");

	if (!attn_is_masked(t)) {
		return;
	}
	if (attn_is_between(t)) {
		from = from_number(f, t, from, "firsts[1]");
		to = to_number(f, t, to, "lasts[0]");
	}
	cu_line(f, "const int sure_from = %s;", from);
	cu_line(f, "const int sure_to = %s;", to);
}

/* C text: the queries to which causal and window leave any of the keys. */
static const char *
queries_from(struct cu_func *f, const struct attn *t)
{
	if (!t->causal) {
		return "0";
	}
	return below(f, t, ATTN_QUERIES, ca_position(f, t, ATTN_KEYS, "row0"),
		     -t->shift);
}

static const char *
queries_to(struct cu_func *f, const struct attn *t)
{
	if (t->window <= 0) {
		return arena_printf(f->k->c->a, "%lld",
				    (long long)t->queries);
	}
	return below(f, t, ATTN_QUERIES, ca_position(f, t, ATTN_KEYS, LAST_ROW),
		     t->window - t->shift);
}

/*
 * Narrows from .. to - 1 to the first and last query whose numbers leave it
 * any of the keys: -seen[0] and seen[1].  Each warp looks at all queries, in
 * f32, which has all whole numbers up to 2^24.
 */
static void
narrow_queries(struct cu_func *f, const struct attn *t)
{
	cu_line(f, "const int low = (int)%s, high = (int)%s;",
		ca_position(f, t, ATTN_KEYS, "row0"),
		ca_position(f, t, ATTN_KEYS, LAST_ROW));
	cu_line(f, "int seen[2] = { -to, from };");
	cu_line(f, "for (int i = from + LANE; i < to; i += 32) {");
	cu_line(f, "if (ca_first(%s) <= high && ca_after(%s) > low) {",
		number_of(f, t, ATTN_FIRST, "i"),
		number_of(f, t, ATTN_LAST, "i"));
	cu_line(f, "seen[0] = ca_max(seen[0], -i);");
	cu_line(f, "seen[1] = ca_max(seen[1], i + 1);");
	cu_close(f, 2);
	cu_line(f, "for (int i = 16; i > 0; i /= 2) {");
	cu_line(f, "seen[0] = ca_max(seen[0], (int)shfl_xor_f32("
		"(f32)seen[0], i));");
	cu_line(f, "seen[1] = ca_max(seen[1], (int)shfl_xor_f32("
		"(f32)seen[1], i));");
	cu_line(f, "}");
}

void
ca_declare_queries(struct cu_func *f, const struct attn *t, int64_t cols)
{
	bool between = attn_is_between(t);

	cu_line(f, "const int from = %s;", queries_from(f, t));
	cu_line(f, "const int to = %s;", queries_to(f, t));
	if (between) {
		narrow_queries(f, t);
	}
	cu_line(f, "const int begin = %s / %lld * %lld;",
		between ? "-seen[0]" : "from", (long long)cols,
		(long long)cols);
	cu_line(f, "const int end = %s;", between ? "seen[1]" : "to");
}

/* ---- heads ---- */

const char *
ca_kv_head(struct cu_func *f, const struct attn *t, const char *head)
{
	struct arena *a = f->k->c->a;

	if (t->heads_together) {
		return t->shared == 1 ? head
			: arena_printf(a, "%s / %lld", head,
				       (long long)t->shared);
	}
	return below(f, t, ATTN_KV, arena_printf(a, "%s / %lld",
			ca_position(f, t, ATTN_HEADS, head),
			(long long)t->shared), 0);
}

const char *
ca_first_head(struct cu_func *f, const struct attn *t, const char *kv,
	      bool behind)
{
	struct arena *a = f->k->c->a;

	if (t->heads_together) {
		return arena_printf(a, "(%s + %d) * %lld", kv, behind,
				    (long long)t->shared);
	}
	return below(f, t, ATTN_HEADS, arena_printf(a, "(%s + %d) * %lld",
			ca_position(f, t, ATTN_KV, kv), behind,
			(long long)t->shared), 0);
}

/* ---- ALiBi ---- */

/* ir_alibi_slope, both of whose exponents are over 2 n. */
void
ca_declare_slope(struct cu_func *f, const struct attn *t, double by)
{
	int64_t n = ir_alibi_base(ir_dim_size(t->g->m, t->dim[ATTN_HEADS]));

	cu_line(f, "const int nth = (int)%s;",
		ca_position(f, t, ATTN_HEADS, "head"));
	cu_line(f, "const f32 slope = f_exp2((f32)(nth < %lld ? 2 * nth + 2 : "
		"2 * nth - %lld) * %s) * %s;", (long long)n,
		(long long)(2 * n - 1),
		ca_f32(f, -t->alibi / (2 * (double)n)),
		ca_f32(f, by));
}

void
ca_declare_own(struct cu_func *f, const struct attn *t, const char *query)
{
	if (attn_is_from_last(t)) {
		/* rows beyond the last query have what it has */
		query = arena_printf(f->k->c->a, "ca_min(%s, %lld)", query,
				     (long long)(t->queries - 1));
		cu_line(f, "const int own = ca_after(%s) - 1;",
			number_of(f, t, ATTN_LAST, query));
		return;
	}
	cu_line(f, "const int own = (int)%s + %lld;",
		ca_position(f, t, ATTN_QUERIES, query), (long long)t->shift);
}

/* Declares `key`, the position of the key at a local index. */
static void
declare_key(struct cu_func *f, const struct attn *t, const char *place)
{
	cu_line(f, "const int key = (int)%s;",
		ca_position(f, t, ATTN_KEYS, place));
}

void
ca_add_alibi(struct cu_func *f, const struct attn *t,
	     const struct ca_form *form, bool rows, const char *at)
{
	const char *col = arena_printf(f->k->c->a, "(%s + j * 8 + c + e)", at);

	if (t->alibi <= 0) {
		return;
	}
	cu_line(f, "{");
	cu_line(f, "%s", CA_COLUMNS);
	ca_declare_slope(f, t, 1 / t->scale);
	ca_unrolled_for(f, "i", form->mt);
	ca_unrolled_for(f, "h", 2);
	cu_line(f, "const int row = row0 + wrow + i * 16 + h * 8 + g;");
	(rows ? ca_declare_own : declare_key)(f, t, "row");
	ca_unrolled_for(f, "j", form->cols / 8);
	ca_unrolled_for(f, "e", 2);
	(rows ? declare_key : ca_declare_own)(f, t, col);
	cu_line(f, "s[i][j][2 * h + e] = fma_f32((f32)(key - own), slope, "
		"s[i][j][2 * h + e]);");
	cu_close(f, 5);
}

void
ca_add_alibi_of_heads(struct cu_func *f, const struct attn *t,
		      const struct ca_form *form, const char *at)
{
	const char *col = arena_printf(f->k->c->a, "(%s + j * 8 + c + e)", at);

	if (t->alibi <= 0) {
		return;
	}
	cu_line(f, "{");
	cu_line(f, "%s", CA_COLUMNS);
	ca_declare_own(f, t, "query");
	ca_unrolled_for(f, "i", form->mt);
	ca_unrolled_for(f, "h", 2);
	cu_line(f, "const int head = ca_min(head0 + wrow + i * 16 + h * 8 + g, "
		"%lld);", (long long)(t->heads - 1));
	ca_declare_slope(f, t, 1 / t->scale);
	ca_unrolled_for(f, "j", form->cols / 8);
	ca_unrolled_for(f, "e", 2);
	declare_key(f, t, col);
	cu_line(f, "s[i][j][2 * h + e] = fma_f32((f32)(key - own), slope, "
		"s[i][j][2 * h + e]);");
	cu_close(f, 5);
}

/* ---- pairs that are none ---- */

void
ca_mask_keys(struct cu_func *f, const struct ca_form *form, const char *at,
	     const char *none)
{
	cu_line(f, "if (%s < from || %s + %lld > to) {", at, at,
		(long long)form->cols);
	cu_line(f, "%s", CA_COLUMNS);
	ca_unrolled_for(f, "j", form->cols / 8);
	ca_unrolled_for(f, "e", 2);
	cu_line(f, "const int key = %s + j * 8 + c + e;", at);
	cu_line(f, "if (key < from || key >= to) {");
	ca_unrolled_for(f, "i", 2 * form->mt);
	cu_line(f, "s[i / 2][j][i %% 2 * 2 + e] = %s;", none);
	cu_close(f, 5);
}

static void
mask_rows(struct cu_func *f, const struct attn *t, const struct ca_form *form,
	  const struct ca_sees *x)
{
	int e;

	ca_unrolled_for(f, "i", form->mt);
	ca_unrolled_for(f, "h", 2);
	if (attn_is_masked(t)) {
		/* computed here, since few tiles need it: it takes no register
		 * elsewhere */
		cu_line(f, "const int query = ca_min(row0 + wrow + i * 16 + "
			"h * 8 + g, %lld);", (long long)(t->queries - 1));
	}
	cu_line(f, "const int from = %s - %s - c;",
		attn_is_masked(t) ? ca_keys_from(f, t, "query") : "0", x->at);
	cu_line(f, "const int to = %s - %s - c;", ca_keys_to(f, t, "query"),
		x->at);
	ca_unrolled_for(f, "j", x->cols / 8);
	for (e = 0; e < 2; e++) {
		cu_line(f, "if (j * 8 + %d < from || j * 8 + %d >= to) {",
			e, e);
		cu_line(f, "s[i][j][2 * h + %d] = %s;", e, x->none);
		cu_line(f, "}");
	}
	cu_close(f, 3);
}

static void
mask_columns(struct cu_func *f, const struct ca_form *form,
	     const struct ca_sees *x)
{
	ca_unrolled_for(f, "j", x->cols / 8);
	ca_unrolled_for(f, "e", 2);
	cu_line(f, "const int at = j * 8 + c + e;");
	cu_line(f, "const int from = %s - row0 - wrow - g;", x->from);
	cu_line(f, "const int to = %s - row0 - wrow - g;", x->to);
	ca_unrolled_for(f, "i", 2 * form->mt);
	cu_line(f, "if (i * 8 < from || i * 8 >= to) {");
	cu_line(f, "s[i / 2][j][i %% 2 * 2 + e] = %s;", x->none);
	cu_close(f, 4);
}

void
ca_mask_scores(struct cu_func *f, const struct attn *t,
	       const struct ca_form *form, const struct ca_sees *x)
{
	if (x->some) {
		cu_line(f, "if (%s) {", x->some);
	} else if (x->rows && t->keys % x->cols != 0) {
		cu_line(f, "if (%s + %lld > %lld) {", x->at,
			(long long)x->cols, (long long)t->keys);
	} else {
		return;
	}
	cu_line(f, "%s", CA_COLUMNS);
	if (x->rows) {
		mask_rows(f, t, form, x);
	} else {
		mask_columns(f, form, x);
	}
	cu_line(f, "}");
}

/*
 * Which pairs of queries and keys exist, and which heads share a kv head, as C
 * text.  Local indices of a dim that is not sharded are positions; for others
 * rt_pieces gives positions when the kernel runs.  Local indices are in the
 * order of positions, so the keys that a query sees are a range of local
 * indices, and the text computes ends of such ranges.
 */
#include "codegen/cuda/attention/cuda_attention.h"

#include <string.h>

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

/* C text: the position of a local index of a dim. */
static const char *
position(struct cu_func *f, const struct attn *t, uint32_t dim,
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

const char *
ca_keys_from(struct cu_func *f, const struct attn *t, const char *query)
{
	if (t->window <= 0) {
		return "0";
	}
	return below(f, t, ATTN_KEYS, position(f, t, ATTN_QUERIES, query),
		     t->shift + 1 - t->window);
}

const char *
ca_keys_to(struct cu_func *f, const struct attn *t, const char *query)
{
	if (!t->causal) {
		return arena_printf(f->k->c->a, "%lld", (long long)t->keys);
	}
	return below(f, t, ATTN_KEYS, position(f, t, ATTN_QUERIES, query),
		     t->shift + 1);
}

const char *
ca_queries_from(struct cu_func *f, const struct attn *t, const char *first_key)
{
	if (!t->causal) {
		return "0";
	}
	return below(f, t, ATTN_QUERIES, position(f, t, ATTN_KEYS, first_key),
		     -t->shift);
}

const char *
ca_queries_to(struct cu_func *f, const struct attn *t, const char *last_key)
{
	if (t->window <= 0) {
		return arena_printf(f->k->c->a, "%lld",
				    (long long)t->queries);
	}
	return below(f, t, ATTN_QUERIES, position(f, t, ATTN_KEYS, last_key),
		     t->window - t->shift);
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
			position(f, t, ATTN_HEADS, head),
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
			position(f, t, ATTN_KV, kv), behind,
			(long long)t->shared), 0);
}

/* ---- pairs that are none ---- */

static void
mask_rows(struct cu_func *f, const struct attn *t, const struct ca_form *form,
	  const struct ca_sees *x)
{
	int e;

	ca_unrolled_for(f, "i", form->mt);
	ca_unrolled_for(f, "h", 2);
	if (ca_is_masked(t)) {
		/* computed here, since few tiles need it: it takes no register
		 * elsewhere */
		cu_line(f, "const int query = ca_min(row0 + wrow + i * 16 + "
			"h * 8 + g, %lld);", (long long)(t->queries - 1));
	}
	cu_line(f, "const int from = %s - %s - c;",
		ca_is_masked(t) ? ca_keys_from(f, t, "query") : "0", x->at);
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

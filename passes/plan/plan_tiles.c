/*
 * Parses and prints the tiles of GPU contractions in a plan: a contraction, or
 * a step of attention, then a colon and the numbers of its tile.
 */
#include "passes/plan/plan.h"

#include <string.h>

#define MOST_BYTES 512		/* per text */

static const char *const names[PLAN_TILE_NNUMS] = {
	"m", "n", "k", "stages", "splits", "cluster", "teams", "warps"
};

static const char *
all_names(struct arena *a)
{
	struct buf b;
	int i;

	buf_init(&b, a);
	for (i = 0; i < PLAN_TILE_NNUMS; i++) {
		buf_printf(&b, "%s%s", i ? ", " : "", names[i]);
	}
	return buf_text(&b);
}

/* Parses "m=128", len bytes long. */
static bool
read_num(struct arena *a, const char *s, size_t len, struct plan_tile *out,
	 const char **why)
{
	const char *eq = memchr(s, '=', len);
	size_t n = eq ? (size_t)(eq - s) : len;
	int64_t v = 0;
	int i;

	for (i = 0; i < PLAN_TILE_NNUMS; i++) {
		if (strlen(names[i]) == n && memcmp(names[i], s, n) == 0) {
			break;
		}
	}
	if (!eq || i == PLAN_TILE_NNUMS) {
		*why = arena_printf(a, "found `%.*s`, expected NAME=NUMBER, of "
				    "%s", (int)len, s, all_names(a));
	} else if (out->num[i]) {
		*why = arena_printf(a, "`%s` is twice in one tile",
				    names[i]);
	} else if (!num_parse_int(eq + 1, len - n - 1, &v) || v < 1) {
		*why = arena_printf(a, "`%.*s` is not a number of at least 1",
				    (int)len, s);
	} else {
		out->num[i] = v;
		return true;
	}
	return false;
}

bool
plan_tile_read(struct arena *a, const char *text, const char **what,
	       struct plan_tile *out, const char **why)
{
	const char *colon = strstr(text, ": "), *p;
	size_t n;

	memset(out, 0, sizeof *out);
	if (strlen(text) > MOST_BYTES) {
		*why = arena_printf(a, "a text has %zu bytes, and %d is the "
				    "limit", strlen(text), MOST_BYTES);
		return false;
	}
	if (!colon || colon == text) {
		*why = arena_printf(a, "found `%s`, expected CONTRACTION: "
				    "NAME=NUMBER .., as --autotune writes it",
				    text);
		return false;
	}
	*what = arena_strndup(a, text, (size_t)(colon - text));
	for (p = colon + 1; *(p += strspn(p, " ")); p += n) {
		n = strcspn(p, " ");
		if (!read_num(a, p, n, out, why)) {
			return false;
		}
	}
	if (!out->num[PLAN_TILE_M] || !out->num[PLAN_TILE_N] ||
	    !out->num[PLAN_TILE_K]) {
		*why = arena_printf(a, "`%s` does not say m, n and k", text);
		return false;
	}
	return true;
}

const char *
plan_tile_text(struct arena *a, const struct plan_tile *t)
{
	struct buf b;
	int i;

	buf_init(&b, a);
	for (i = 0; i < PLAN_TILE_NNUMS; i++) {
		if (t->num[i]) {
			buf_printf(&b, "%s%s=%lld", b.n ? " " : "", names[i],
				   (long long)t->num[i]);
		}
	}
	return buf_text(&b);
}

const char *
plan_attention_name(struct arena *a, const struct plan_attention *t,
		    const char *made)
{
	struct buf b;

	buf_init(&b, a);
	buf_printf(&b, "attention %s %s %lldx%lld", made,
		   ir_dtypes[t->dtype].name, (long long)t->batches,
		   (long long)t->heads);
	if (t->kv != t->heads) {
		buf_printf(&b, "/%lld", (long long)t->kv);
	}
	buf_printf(&b, "x%lldx%lldx%lld", (long long)t->queries,
		   (long long)t->keys, (long long)t->d);
	if (t->dv > 0 && t->dv != t->d) {
		buf_printf(&b, "/%lld", (long long)t->dv);
	}
	if (t->causal) {
		buf_puts(&b, " causal");
	}
	if (t->window > 0) {
		buf_printf(&b, " window %lld", (long long)t->window);
	}
	if (t->between) {
		buf_puts(&b, " between");
	}
	if (t->alibi > 0) {
		buf_puts(&b, " alibi");
	}
	if (t->softcap > 0) {
		buf_printf(&b, " softcap %g", t->softcap);
	}
	return buf_text(&b);
}

/* A long list is several settings. */
static const struct ir_setting *
piece_of_list(const struct ir_module *m, uint32_t i)
{
	return ir_setting(m, i == 0 ? "plan.tiles"
		: arena_printf(&m->ctx->tmp, "plan.tiles.more%u", i));
}

bool
plan_has_tiles(const struct ir_module *m)
{
	return piece_of_list(m, 0) != NULL;
}

void
plan_mix_tiles(const struct ir_module *m, struct hash *key)
{
	const struct ir_setting *s;
	uint32_t i;

	for (i = 0; (s = piece_of_list(m, i)); i++) {
		hash_add(key, s->text);
	}
}

/* Texts of the list are quoted: no name has a quote. */
bool
plan_has_tile(const struct ir_module *m, const char *what)
{
	const char *text = arena_printf(&m->ctx->tmp, "\"%s: ", what);
	const struct ir_setting *s;
	uint32_t i;

	for (i = 0; (s = piece_of_list(m, i)); i++) {
		if (strstr(ir_text(m->ctx, s->text), text)) {
			return true;
		}
	}
	return false;
}

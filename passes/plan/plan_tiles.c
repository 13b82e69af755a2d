/*
 * Parses and prints the tiles of GPU contractions in a plan: a contraction,
 * then a colon and the numbers of its tile.
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

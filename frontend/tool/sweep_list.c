/*
 * Lists of targets and sizes: `h100x8x{4,8,16,..,64},h200x8x8`.  Commas
 * outside braces separate; braces stand for each of what is in them, as a
 * shell expands them; `..` goes on with a progression up to its last number.
 * Messages point into the list, as into a file.
 */
#include "frontend/tool/sweep.h"

#include <inttypes.h>
#include <string.h>

struct list_reader {
	struct driver *d;
	const char *option, *text;
	uint32_t base;		/* of the text, among sources */
	struct sweep_words *out;
};

static struct arena *
arena_of(const struct list_reader *x)
{
	return &x->d->ctx.perm;
}

/* The span of text[lo, hi). */
static struct span
at(const struct list_reader *x, size_t lo, size_t hi)
{
	return (struct span){ x->base + (uint32_t)lo, x->base + (uint32_t)hi };
}

static bool
add_word(struct list_reader *x, const char *word, size_t lo, size_t hi)
{
	uint32_t i;

	if (!*word) {
		diag_error(&x->d->ctx.diags, at(x, lo, hi), "this part of "
			   "--%s is empty: words with a comma between are "
			   "legal", x->option);
		return false;
	}
	for (i = 0; i < x->out->n; i++) {
		if (strcmp(x->out->at[i], word) == 0) {
			return true;
		}
	}
	if (x->out->n == SWEEP_MOST) {
		diag_error(&x->d->ctx.diags, at(x, lo, hi), "--%s lists more "
			   "than %d words", x->option, SWEEP_MOST);
		return false;
	}
	VEC_PUSH(arena_of(x), x->out, word);
	return true;
}

/* ---- progressions ---- */

#define MOST_NUMBERS 64	/* that may be written before `..` */

struct progression {
	int64_t at[MOST_NUMBERS];
	uint32_t n;
	size_t lo, hi;		/* of all of it in the text */
};

static bool
bad_progression(struct list_reader *x, const struct progression *p,
		const char *why)
{
	diag_error(&x->d->ctx.diags, at(x, p->lo, p->hi), "%s: `..` stands "
		   "between three numbers or more and the last one, as in "
		   "{4,8,16,..,64} or {8,16,24,..,64}", why);
	return false;
}

/* The number after v; false: there is none of 63 bits. */
static bool
next_of(const struct progression *p, bool by_factor, int64_t v, int64_t *next)
{
	return by_factor ? num_mul(v, p->at[1] / p->at[0], next)
			 : num_add(v, p->at[1] - p->at[0], next);
}

static bool
goes_on(const struct progression *p, bool by_factor)
{
	int64_t next;
	uint32_t i;

	if (by_factor ? p->at[0] < 1 || p->at[1] % p->at[0] != 0 ||
			p->at[1] == p->at[0]
		      : p->at[1] <= p->at[0]) {
		return false;
	}
	for (i = 1; i < p->n; i++) {
		if (!next_of(p, by_factor, p->at[i - 1], &next) ||
		    next != p->at[i]) {
			return false;
		}
	}
	return true;
}

/* Adds the numbers after those that are written, up to `last`. */
static bool
add_progression(struct list_reader *x, const struct progression *p,
		int64_t last, struct sweep_words *out)
{
	bool by_factor;
	int64_t v, next;

	if (p->n < 3) {
		return bad_progression(x, p, "too few numbers before `..`");
	}
	by_factor = goes_on(p, true);
	if (!by_factor && !goes_on(p, false)) {
		return bad_progression(x, p, "these numbers have neither one "
				       "factor nor one difference");
	}
	for (v = p->at[p->n - 1]; v < last; v = next) {
		if (!next_of(p, by_factor, v, &next) || next > last) {
			break;
		}
		if (out->n == SWEEP_MOST) {
			diag_error(&x->d->ctx.diags, at(x, p->lo, p->hi),
				   "this makes more than %d words", SWEEP_MOST);
			return false;
		}
		VEC_PUSH(arena_of(x), out, arena_printf(arena_of(x),
							"%" PRId64, next));
	}
	if (v != last) {
		diag_error(&x->d->ctx.diags, at(x, p->lo, p->hi), "this goes "
			   "on to %" PRId64 " and does not meet %" PRId64, v,
			   last);
		return false;
	}
	return true;
}

/* ---- what is in braces ---- */

/* The words of text[lo, hi), which commas separate. */
static bool
read_braces(struct list_reader *x, size_t lo, size_t hi,
	    struct sweep_words *out)
{
	struct progression p = { .lo = lo, .hi = hi };
	bool is_open = false;	/* the last number of `..` is to follow */
	size_t i, n;

	for (i = lo; i <= hi; i += n + 1) {
		const char *s = x->text + i;
		int64_t number = 0;
		bool is_number;

		n = strcspn(s, ",}");
		is_number = num_parse_int(s, n, &number);
		if (is_open) {
			if (!is_number) {
				return bad_progression(x, &p, "no number "
						       "follows `..`");
			}
			if (!add_progression(x, &p, number, out)) {
				return false;
			}
			is_open = false;
			p.n = 0;
		} else if (n == 2 && strncmp(s, "..", 2) == 0) {
			is_open = true;
		} else {
			p.n = is_number && p.n < MOST_NUMBERS ? p.n : 0;
			p.at[p.n] = number;
			p.n += is_number ? 1 : 0;
			VEC_PUSH(arena_of(x), out, arena_strndup(arena_of(x),
								 s, n));
		}
	}
	return !is_open || bad_progression(x, &p, "no number follows `..`");
}

/* Adds all that text[lo, hi) after `head` stands for. */
static bool
expand(struct list_reader *x, const char *head, size_t lo, size_t hi)
{
	struct sweep_words words = { 0 };
	const char *s = x->text + lo;
	size_t n = strcspn(s, "{}"), end;
	uint32_t i;

	if (lo + n >= hi) {
		return add_word(x, arena_printf(arena_of(x), "%s%.*s", head,
						(int)(hi - lo), s), lo, hi);
	}
	end = lo + n + 1 + strcspn(s + n + 1, "{}");
	if (s[n] == '}' || end >= hi || x->text[end] == '{') {
		diag_error(&x->d->ctx.diags, at(x, lo + n, lo + n + 1),
			   s[n] == '}' ? "this `}` closes nothing"
			   : end >= hi ? "this `{` is not closed"
			   : "braces in braces are not legal here");
		return false;
	}
	if (!read_braces(x, lo + n + 1, end, &words)) {
		return false;
	}
	for (i = 0; i < words.n; i++) {
		if (!expand(x, arena_printf(arena_of(x), "%s%.*s%s", head,
					    (int)n, s, words.at[i]),
			    end + 1, hi)) {
			return false;
		}
	}
	return true;
}

bool
sweep_read_list(struct driver *d, const char *option, const char *text,
		struct sweep_words *out)
{
	struct list_reader x = { d, option, text, 0, out };
	size_t lo = 0, i;
	int depth = 0;

	if (!source_add(&d->ctx.sources, arena_printf(&d->ctx.perm, "--%s",
						      option),
			text, strlen(text), &x.base)) {
		diag_error(&d->ctx.diags, (struct span){ 0, 0 }, "a run reads "
			   "at most 2 GiB of text");
		return false;
	}
	for (i = 0; i <= strlen(text); i++) {
		depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
		if (text[i] && (text[i] != ',' || depth > 0)) {
			continue;
		}
		if (!expand(&x, "", lo, i)) {
			return false;
		}
		lo = i + 1;
	}
	return true;
}

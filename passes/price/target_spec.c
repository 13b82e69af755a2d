/*
 * A target in one word: DEVICE, DEVICExN or DEVICExNxM, then @NETWORK.  A
 * device's name may contain an x (rtx4090), so numbers are read from the end.
 */
#include "passes/price/target.h"

#include <string.h>

static const struct span nowhere;

static const char form[] =
	"a target is DEVICE, DEVICExDEVICES or DEVICExDEVICESxNODES, and may "
	"end in @NETWORK, as h100x8x16@ib400; or a file";

/* The place of the last x in s[0..n) that a digit or nothing follows. */
static size_t
last_x(const char *s, size_t n)
{
	size_t i;

	for (i = n; i-- > 1;) {
		bool digit = (s[i] >= '0' && s[i] <= '9') || s[i] == '.';

		if (s[i] == 'x') {
			return i;
		}
		if (!digit && s[i] != '-') {
			break;
		}
	}
	return 0;
}

static bool
number(struct ir_ctx *c, const char *text, const char *s, size_t n,
       const char *what, int64_t *out)
{
	if (!num_parse_int(s, n, out) || *out < 1 ||
	    *out > TARGET_MAX_DEVICES) {
		diag_error(&c->diags, nowhere, "`%s`: `%.*s` is no number of "
			   "%s, which is a whole number from 1 to %lld", text,
			   (int)n, s, what, (long long)TARGET_MAX_DEVICES);
		return false;
	}
	return true;
}

static bool
bad_form(struct ir_ctx *c, const char *text)
{
	diag_error(&c->diags, nowhere, "`%s` is no target: %s", text, form);
	return false;
}

/*
 * The end of an unknown name, of the places cut[0 .. last]: where it is nearest
 * to a known one.  After a cut there must be a number.  If no known name is
 * near, all of the text is the name.
 */
static int
nearest(const char *text, const size_t *cut, int last,
	const struct target_names *known)
{
	size_t least = SIZE_MAX, distance;
	int i, best = 0;

	for (i = 0; i <= last; i++) {
		if (i > 0 && cut[i - 1] == cut[i] + 1) {
			break;
		}
		distance = known->distance(known->user, text, cut[i]);
		if (distance < least) {
			least = distance;
			best = i;
		}
	}
	return best;
}

/* Before the @: the fewest numbers after a known device. */
static bool
read_sizes(struct ir_ctx *c, const char *text, size_t n,
	   const struct target_names *known, struct target_spec *out)
{
	size_t cut[3] = { n, last_x(text, n), 0 };
	int i, last = cut[1] ? 1 : 0;

	cut[2] = cut[1] ? last_x(text, cut[1]) : 0;
	last += cut[2] ? 1 : 0;
	for (i = 0; i <= last; i++) {
		if (known->has(known->user, text, cut[i])) {
			break;
		}
	}
	if (i > last && cut[2] && last_x(text, cut[2]) > 0 &&
	    known->has(known->user, text, last_x(text, cut[2]))) {
		return bad_form(c, text);
	}
	i = i > last ? nearest(text, cut, last, known) : i;
	if ((i > 0 && cut[i - 1] == cut[i] + 1) ||
	    (i == 2 && n == cut[1] + 1)) {
		return bad_form(c, text);
	}
	out->device = arena_strndup(&c->perm, text, cut[i]);
	if (i == 0) {
		return true;
	}
	return number(c, text, text + cut[i] + 1,
		      cut[i - 1] - cut[i] - 1, "devices", &out->devices) &&
	       (i == 1 || number(c, text, text + cut[1] + 1,
				 n - cut[1] - 1, "nodes", &out->nodes));
}

bool
target_spec_read(struct ir_ctx *c, const char *text,
		 const struct target_names *known, struct target_spec *out)
{
	const char *at = strchr(text, '@');
	size_t n = at ? (size_t)(at - text) : strlen(text);

	memset(out, 0, sizeof *out);
	if (n == 0 || (at && (!at[1] || strchr(at + 1, '@')))) {
		return bad_form(c, text);
	}
	if (!read_sizes(c, text, n, known, out)) {
		return false;
	}
	out->network = at ? arena_strndup(&c->perm, at + 1, strlen(at + 1))
			  : NULL;
	return true;
}

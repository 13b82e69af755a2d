/* Models and devices by the names that tables of serving have for them. */
#include "frontend/validate/validate_serve.h"

#include <ctype.h>
#include <string.h>

static const struct {
	const char *name;
	struct serving_shape shape;
} shapes[] = {
#define SHAPE(name, layers, hidden, heads, kv, hd, ffn, gated, window, \
	      experts, choice, vocab) \
	{ name, { layers, hidden, heads, kv, hd, ffn, gated, window, experts, \
		  choice, vocab, 0, 0 } },
#define MIXED(name, layers, hidden, heads, kv, hd, ffn, experts, choice, \
	      vocab, shared, plain) \
	{ name, { layers, hidden, heads, kv, hd, ffn, 1, 0, experts, choice, \
		  vocab, shared, plain } },
#include "frontend/validate/serving_names.def"
};

static const struct {
	const char *name, *part, *target;
	bool fp4;
} devices[] = {
#define DEVICE(name, part, target, fp4) { name, part, target, fp4 },
#include "frontend/validate/serving_names.def"
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool
separates(char c)
{
	return c == ' ' || c == '-' || c == '_';
}

const char *
serving_plain(struct arena *a, const char *text)
{
	char *out = arena_strndup(a, text, strlen(text)), *p;

	for (p = out; *p; p++) {
		*p = *p == ' ' || *p == '_' ? '-'
					    : (char)tolower((unsigned char)*p);
	}
	return out;
}

/*
 * The next character of a name that counts, and moves *p behind it; 0 at its
 * end.  Writers of tables leave out or add what separates words, cases and the
 * `v` of a version.
 */
static char
next_char(const char **p, const char *start)
{
	for (; **p; ++*p) {
		char c = (char)tolower((unsigned char)**p);
		bool version = *p > start && separates((*p)[-1]) && c == 'v' &&
			       isdigit((unsigned char)(*p)[1]);

		if (!separates(c) && !version) {
			++*p;
			return c;
		}
	}
	return '\0';
}

/* Whether what is at p begins with the part; *p is behind it then. */
static bool
begins(const char **p, const char *start, const char *part)
{
	const char *q = part;
	char want = next_char(&q, part);

	while (want && next_char(p, start) == want) {
		want = next_char(&q, part);
	}
	return !want;
}

bool
serving_same(const char *name, const char *other)
{
	const char *p = name;

	return begins(&p, name, other) && !next_char(&p, name);
}

bool
serving_says(const char *name, const char *part)
{
	const char *p = name, *q;

	do {
		q = p;
		if (begins(&q, name, part)) {
			return true;
		}
	} while (next_char(&p, name));
	return false;
}

bool
serving_named_shape(const char *model, struct serving_shape *out)
{
	size_t i;

	/* a model that guesses for another is not described */
	for (i = 0; i < COUNT(shapes) && !strchr(model, '+'); i++) {
		if (serving_says(model, shapes[i].name)) {
			*out = shapes[i].shape;
			return true;
		}
	}
	return false;
}

bool
serving_has_word(const char *text, const char *word)
{
	const char *p = text;

	for (; (p = strstr(p, word)) != NULL; p++) {
		if ((p == text || !isalnum((unsigned char)p[-1])) &&
		    !isalnum((unsigned char)p[strlen(word)])) {
			return true;
		}
	}
	return false;
}

const char *
serving_named_target(struct arena *a, const char *device, bool *fp4)
{
	const char *name = serving_plain(a, device);
	size_t i;

	for (i = 0; i < COUNT(devices); i++) {
		if (serving_has_word(name, devices[i].name) &&
		    strstr(name, devices[i].part)) {
			*fp4 = devices[i].fp4;
			return *devices[i].target ? devices[i].target : NULL;
		}
	}
	return NULL;
}

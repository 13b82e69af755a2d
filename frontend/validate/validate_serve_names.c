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

/* A name without what writers of tables leave out or add. */
static char *
bare(struct arena *a, const char *name)
{
	char *out = arena_strndup(a, name, strlen(name)), *to = out;
	const char *p;

	for (p = name; *p; p++) {
		bool version = p > name && separates(p[-1]) &&
			       tolower((unsigned char)*p) == 'v' &&
			       isdigit((unsigned char)p[1]);

		if (!separates(*p) && !version) {
			*to++ = (char)tolower((unsigned char)*p);
		}
	}
	*to = '\0';
	return out;
}

bool
serving_named_shape(struct arena *a, const char *model,
		    struct serving_shape *out)
{
	const char *name = bare(a, model);
	size_t i;

	/* a model that guesses for another is not described */
	for (i = 0; i < COUNT(shapes) && !strchr(name, '+'); i++) {
		if (strstr(name, bare(a, shapes[i].name))) {
			*out = shapes[i].shape;
			return true;
		}
	}
	return false;
}

static bool
has_word(const char *text, const char *word)
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
		if (has_word(name, devices[i].name) &&
		    strstr(name, devices[i].part)) {
			*fp4 = devices[i].fp4;
			return *devices[i].target ? devices[i].target : NULL;
		}
	}
	return NULL;
}

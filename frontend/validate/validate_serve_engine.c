/*
 * What a line's engine does that the line does not say, by its name and those
 * of the model, the device and the run: tables of serving.def.
 */
#include "frontend/validate/validate_serve.h"

#include <ctype.h>
#include <string.h>

static const struct {
	const char *name;
	enum serving_trait trait;
} engines[] = {
#define ENGINE(name, trait, why) { name, trait },
#include "frontend/validate/serving.def"
};

static const struct serving_limit limits[] = {
#define LIMIT(name, sequences, tokens, reserves, part, why) \
	{ name, sequences, tokens, reserves, part },
#include "frontend/validate/serving.def"
};

static const struct {
	const char *name;
	double input, output, requests;
} runs[] = {
#define RUN(name, input, output, requests) { name, input, output, requests },
#include "frontend/validate/serving.def"
};

static const struct {
	const char *name, *device;
	bool apart;
	double least, steps;
} polls[] = {
#define POLLS(name, device, apart, least, steps, why) \
	{ name, device, apart, least, steps },
#include "frontend/validate/serving.def"
};

static const struct {
	const char *name, *model, *device;
} caches[] = {
#define CACHE(name, model, device, why) { name, model, device },
#include "frontend/validate/serving.def"
};

static const struct {
	const char *name, *model;
	bool apart;
	double drafts;
} drafts[] = {
#define DRAFTS(name, model, apart, drafts, why) { name, model, apart, drafts },
#include "frontend/validate/serving.def"
};

static const struct {
	double drafts, tokens;
} accepted[] = {
#define ACCEPTED(drafts, tokens, why) { drafts, tokens },
#include "frontend/validate/serving.def"
};

static const struct decodes {
	const char *name, *device;
	double input, ranks, requests;
	int64_t width, workers;
	double drafts;
} decodes[] = {
#define DECODES(name, device, input, ranks, requests, width, workers, drafts, \
		why) \
	{ name, device, input, ranks, requests, width, workers, drafts },
#include "frontend/validate/serving.def"
};

static const struct {
	const char *note;
	double least;
} varied[] = {
#define VARIED(note, least, why) { note, least },
#include "frontend/validate/serving.def"
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Tokens of a step, at most: the default of published engines. */
#define STEP_TOKENS 8192
/* Of a run at full load that says no number: of its own, as many as these. */
#define RUN_REQUESTS 3000

bool
serving_has(const struct serving *s, enum serving_trait trait)
{
	size_t i;

	for (i = 0; i < COUNT(engines); i++) {
		if (engines[i].trait == trait &&
		    serving_says(serving_cell(s, SERVING_FRAMEWORK),
				 engines[i].name)) {
			return true;
		}
	}
	return false;
}

bool
serving_heads_are_apart(const struct serving *s)
{
	const struct serving_shape *x = &s->of->shape;
	int64_t shared = x->kv > 0 ? x->heads / x->kv : 1;

	return serving_has(s, SERVING_HEADS_APART) ||
	       (serving_has(s, SERVING_HEADS_BY_8) && shared != 8 &&
		shared != 16);
}

struct serving_limit
serving_limits(const struct serving *s)
{
	struct serving_limit none = { .name = "", .tokens = STEP_TOKENS,
				      .part = 1 };
	size_t i;

	for (i = 0; i < COUNT(limits); i++) {
		if (serving_says(serving_cell(s, SERVING_FRAMEWORK),
				 limits[i].name)) {
			return limits[i];
		}
	}
	return none;
}

double
serving_requests(const struct serving *s)
{
	const char *name = serving_cell(s, SERVING_FRAMEWORK);
	const char *p = strstr(name, " requests");
	size_t i;

	while (p && p > name && isdigit((unsigned char)p[-1])) {
		p--;
	}
	if (p && isdigit((unsigned char)*p)) {
		return serving_digits(p, RUN_REQUESTS);
	}
	for (i = 0; i < COUNT(runs); i++) {
		if (serving_says(name, runs[i].name) &&
		    runs[i].input == s->asked.prompt &&
		    runs[i].output == s->asked.output) {
			return runs[i].requests;
		}
	}
	return RUN_REQUESTS;
}

double
serving_least_length(const struct serving *s)
{
	size_t i;

	for (i = 0; i < COUNT(varied); i++) {
		if (strstr(serving_text(s, s->notes), varied[i].note)) {
			return varied[i].least;
		}
	}
	return 1;
}

bool
serving_narrows_cache(const struct serving *s)
{
	const char *model = serving_cell(s, SERVING_MODEL);
	size_t i;

	for (i = 0; i < COUNT(caches); i++) {
		if (serving_least_length(s) < 1 &&
		    serving_says(model, caches[i].model) &&
		    serving_says(serving_cell(s, SERVING_FRAMEWORK),
				 caches[i].name) &&
		    serving_says(serving_cell(s, SERVING_GPU),
				 caches[i].device)) {
			return true;
		}
	}
	return serving_has(s, SERVING_NARROW_CACHE);
}

/* The line's row of ranks that decode alone; NULL: all ranks do all. */
static const struct decodes *
decoding_ranks(const struct serving *s)
{
	size_t i;

	for (i = 0; i < COUNT(decodes); i++) {
		const struct decodes *x = &decodes[i];

		if (serving_least_length(s) < 1 &&
		    serving_says(serving_cell(s, SERVING_FRAMEWORK),
				 x->name) &&
		    serving_says(serving_cell(s, SERVING_GPU), x->device) &&
		    serving_number(s, SERVING_INPUT, 0) == x->input &&
		    serving_number(s, SERVING_NGPUS, 1) == x->ranks &&
		    (x->requests == 0 || x->requests ==
		     serving_number(s, SERVING_CONCURRENCY, 0))) {
			return x;
		}
	}
	return NULL;
}

/* Takes those that read prompts out of the split. */
static void
find_workers(struct serving *s, const struct decodes *x)
{
	s->workers = s->width = 0;
	if (x) {
		s->workers = x->workers;
		s->width = x->width;
		s->split.tp = s->split.pp = s->split.replicas = 1;
		s->split.ep = (int64_t)x->ranks - x->workers * x->width;
	}
}

/* Tokens that the engine guesses for each sequence. */
static void
find_drafts(struct serving *s, const struct decodes *x, bool apart)
{
	const char *name = serving_cell(s, SERVING_FRAMEWORK);
	const char *model = serving_cell(s, SERVING_MODEL);
	size_t i;

	s->asked.drafts = x ? x->drafts : 0;
	for (i = 0; i < COUNT(drafts); i++) {
		if (serving_says(name, drafts[i].name) &&
		    serving_says(model, drafts[i].model) &&
		    drafts[i].apart == apart) {
			s->asked.drafts = drafts[i].drafts;
		}
	}
	for (i = 0; i < COUNT(accepted); i++) {
		if (accepted[i].drafts == s->asked.drafts) {
			s->asked.accepted = accepted[i].tokens;
		}
	}
}

/* Steps after which the engine looks for requests. */
static void
find_poll(struct serving *s, bool apart)
{
	const char *device = serving_plain(&s->v->d->ctx.perm,
				   serving_cell(s, SERVING_GPU));
	size_t i;

	s->poll = 0;
	for (i = COUNT(polls); i > 0; i--) {
		if (serving_least_length(s) < 1 &&
		    (apart || !polls[i - 1].apart) &&
		    s->concurrency >= polls[i - 1].least &&
		    serving_says(serving_cell(s, SERVING_FRAMEWORK),
				 polls[i - 1].name) &&
		    serving_has_word(device, polls[i - 1].device)) {
			s->poll = polls[i - 1].steps;
		}
	}
}

void
serving_find_roles(struct serving *s, bool apart)
{
	const struct decodes *x = s->of->shape.experts ? decoding_ranks(s)
						       : NULL;

	find_workers(s, x);
	find_drafts(s, x, apart);
	find_poll(s, apart);
}

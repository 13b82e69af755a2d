/*
 * Private to validate_serve*.c: a line of a table of serving, and what is read
 * of it.
 */
#ifndef FRONTEND_VALIDATE_SERVE_H
#define FRONTEND_VALIDATE_SERVE_H

#include "frontend/validate/validate.h"

#include "passes/serve/serve.h"

enum serving_column {
	SERVING_MODEL, SERVING_GPU, SERVING_NGPUS, SERVING_TP, SERVING_PP,
	SERVING_EP, SERVING_PRECISION, SERVING_FRAMEWORK, SERVING_INPUT,
	SERVING_OUTPUT, SERVING_CONCURRENCY, SERVING_SCENARIO, SERVING_RATE,
	SERVING_TTFT, SERVING_TPOT, SERVING_SOURCE, SERVING_NCOLUMNS
};

/* A decoder's shape; experts is 0 of a dense one, layers of DeepSeek-V3's. */
struct serving_shape {
	int64_t layers, hidden, heads, kv, hd, ffn, gated, window, experts,
		choice, vocab;
	int64_t shared;	/* of the expert that all tokens share; 0: none */
	int64_t plain;	/* of every other layer, without experts; 0: none */
};

/* What is true of an engine by default. */
enum serving_trait { SERVING_NARROW_CACHE, SERVING_PROMPTS_FIRST,
		     SERVING_HEADS_APART, SERVING_HEADS_BY_8,
		     SERVING_FUSES_MAPS, SERVING_FUSES_ROUNDING,
		     SERVING_DATA_RANKS, SERVING_DIRECT,
		     SERVING_EXPERT_TILES, SERVING_HOST_CALLS,
		     SERVING_SORTS };

/* How an engine fills its steps. */
struct serving_limit {
	const char *name;	/* a part of the engine's name */
	double sequences;	/* at most; 0: what the cache holds */
	double tokens;		/* of a step, those that decode among them */
	bool reserves;		/* a request's cache is set aside whole */
	double part;		/* of free memory, that the cache gets */
};

struct serving_model {
	struct serving_shape shape;
	struct serve_model model;
};

/* A line, as it is read; kept from line to line. */
struct serving {
	struct val *v;
	int at[SERVING_NCOLUMNS];
	int notes, latency, scope;	/* columns that may be missing: -1 */
	uint32_t row;
	VEC(struct serving_model *) models;	/* in order of first use */
	const struct serving_model *of;
	struct target target;
	struct serve_asked asked;
	double concurrency;	/* requests in flight, of all replicas */
	double spread;		/* of lengths, as struct serve_traffic has */
	double poll;		/* of requests, as struct serve_traffic has */
	const char *note;	/* what the prediction rests on, or NULL */
	struct serve_split split;
	/* prompts are read by so many workers of so many ranks, which do not
	 * decode and are not in `split`; 0: there are none */
	int64_t workers, width;
};

/* ---- validate_serve_cell.c --------------------------------------------- */

const char *serving_cell(const struct serving *s, enum serving_column c);
/* Of a column that may be missing: "" then. */
const char *serving_text(const struct serving *s, int column);
double serving_number(const struct serving *s, enum serving_column c,
		      double absent);
/* Of a batch, in ms; 0: none is said. */
double serving_latency(const struct serving *s);
/*
 * Reports the first cell that is to be a number and is none, and returns why
 * the line is not predicted; NULL: there is none.  any_count: requests in
 * flight may be a word.
 */
const char *serving_unread(const struct serving *s, bool any_count);
/* The first number that follows `key` in the notes of the line. */
double serving_note(const struct serving *s, const char *key, double absent);
/* The digits at p as a number. */
double serving_digits(const char *p, double absent);

/* ---- validate_serve_names.c -------------------------------------------- */

/* The shape of a model of that name; false: none is known. */
bool serving_named_shape(const char *model, struct serving_shape *out);
/* In lower case, with hyphens. */
const char *serving_plain(struct arena *a, const char *text);
/* Whether a name is another in any spelling, or has another as a part. */
bool serving_same(const char *name, const char *other);
bool serving_says(const char *name, const char *part);
/* Whether a plain text has the word, not as a part of a longer one. */
bool serving_has_word(const char *text, const char *word);
/* The target of a device of that name, or NULL; fp4: it multiplies 4 bits. */
const char *serving_named_target(struct arena *a, const char *device,
				 bool *fp4);

/* ---- validate_serve_row.c ---------------------------------------------- */

/* Fills in what the line describes; why that is not possible, or NULL. */
const char *serving_describe(struct serving *s);

/* ---- validate_serve_engine.c ------------------------------------------- */

bool serving_has(const struct serving *s, enum serving_trait trait);
/* Whether query heads that share keys read them each. */
bool serving_heads_are_apart(const struct serving *s);
/* Whether the engine has caches in 8 bits beside weights of 8 and fewer. */
bool serving_narrows_cache(const struct serving *s);
struct serving_limit serving_limits(const struct serving *s);
/* Requests of a run at full load: as its name says, or its page of results. */
double serving_requests(const struct serving *s);
/* The shortest length of the line's run, as a part of the longest. */
double serving_least_length(const struct serving *s);
/*
 * Which ranks of the split only read prompts, what a layer guesses, and when
 * the engine looks for requests; apart: ranks have sequences of their own.
 */
void serving_find_roles(struct serving *s, bool apart);

#endif

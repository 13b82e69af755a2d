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
};

/* What is true of an engine by default. */
enum serving_trait { SERVING_NARROW_CACHE, SERVING_PROMPTS_FIRST,
		     SERVING_HEADS_APART, SERVING_HEADS_BY_8,
		     SERVING_FUSES_MAPS, SERVING_DATA_RANKS, SERVING_DIRECT };

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
	struct serve_split split;
};

/* ---- validate_serve_row.c ---------------------------------------------- */

const char *serving_cell(const struct serving *s, enum serving_column c);
/* Of a column that may be missing: "" then. */
const char *serving_text(const struct serving *s, int column);
double serving_number(const struct serving *s, enum serving_column c,
		      double absent);
/* The first number that follows `key` in the notes of the line. */
double serving_note(const struct serving *s, const char *key, double absent);
bool serving_has(const struct serving *s, enum serving_trait trait);
struct serving_limit serving_limits(const struct serving *s);
/* Requests of a run at full load. */
double serving_requests(const struct serving *s);
/* Fills in what the line describes; why that is not possible, or NULL. */
const char *serving_describe(struct serving *s);

#endif

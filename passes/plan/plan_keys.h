/*
 * Private header of passes/plan: the keys of a plan, their values as settings,
 * and the facts of a model that a plan depends on.
 */
#ifndef PASSES_PLAN_KEYS_H
#define PASSES_PLAN_KEYS_H

#include "passes/plan/plan.h"

enum plan_key {
#define PLAN(id, key, kind, lo, hi, words, help) PLAN_KEY_##id,
#include "passes/plan/plan.def"
#undef PLAN
	PLAN_NKEYS
};

enum plan_kind { PLAN_INT, PLAN_WORD, PLAN_SET, PLAN_COUNT, PLAN_MESH,
		 PLAN_STAGES, PLAN_DIMS, PLAN_RECOMPUTE, PLAN_SCHEDULE,
		 PLAN_TILES };

struct plan_row {
	const char *key;
	enum plan_kind kind;
	double lo, hi;
	const char *words;	/* legal ones, separated by blanks */
};

extern const struct plan_row plan_rows[PLAN_NKEYS];

/* The words of `offload`, without `none`. */
struct plan_offload_word {
	const char *word;
	uint32_t bit;		/* enum plan_offloaded */
};

#define PLAN_NOFFLOADS 3
extern const struct plan_offload_word plan_offload_words[PLAN_NOFFLOADS];

/* ---- plan_keys.c ------------------------------------------------------ */

/* The row of a key.  NULL if unknown, or, with *more, a continuation. */
const struct plan_row *plan_find(const char *key, bool *more);
void plan_unknown(struct ir_module *m, const char *key, struct span at);
/* Does the checks that need no model; false after errors. */
bool plan_check(struct ir_module *m, const struct plan_row *row,
		const struct plan_value *v);
/* Stores v as the key's setting, in place of any other. */
void plan_store(struct ir_module *m, const struct plan_row *row,
		const struct plan_value *v);
/* "a, b or c" of "a b c". */
const char *plan_words(struct arena *a, const char *list, const char *last);
/* Splits the first word off "a b c", in the arena; false at the end. */
bool plan_next_word(struct arena *a, const char **list, const char **word);
/* Whether `recompute` is a list by stage: some item has `run`. */
bool plan_by_stage(const struct plan_value *v);
/*
 * Item *i and the rest of its set as text, "(q+k)*2" or "5*16"; *i becomes the
 * last item used.  Words for which `plain` is false are quoted (NULL: none).
 */
const char *plan_item_text(struct arena *a, const struct plan_value *v,
			   uint32_t *i,
			   bool (*plain)(struct arena *a, const char *word));
bool plan_is_name(const char *text);
/* The schedule that an alias of docs/plan.md means, or the name itself. */
const char *plan_alias(const char *schedule);

/* ---- plan_text.c ------------------------------------------------------ */

/* Parses the setting of a key; false after errors. */
bool plan_fetch(struct ir_module *m, const struct plan_row *row,
		const struct ir_setting *s, struct plan_value *v);

/* ---- plan_facts.c ----------------------------------------------------- */

struct plan_facts {
	bool staged;		/* it has rank programs, no model */
	int64_t nlayers;
	dim_id batch;		/* 0: no value has this dim */
	dim_id experts;		/* the shortest dim of experts, or 0 */
	dim_id seq;		/* shortest dim of attention keys, or 0 */
	dim_id longest;		/* longest dim of any weight, or 0 */
	const char *recompute;	/* the model's hint, or "none" */
};
void plan_facts(struct ir_module *m, struct plan_facts *out);
/* The model's hint for recomputation, or "none". */
const char *plan_recompute_hint(const struct ir_module *m);
/* Whether a value or op has this name; else *near is a similar one. */
bool plan_can_rebuild(struct ir_module *m, const char *name,
		      struct diag_near *near);

/* ---- plan_check.c ----------------------------------------------------- */

/* The state of plan_read: from settings to struct. */
struct plan_reading {
	struct ir_module *m;
	struct plan *p;
	struct plan_value said[PLAN_NKEYS];	/* no items: not set */
	struct plan_facts facts;
};
/* Sets defaults and derived fields, with all checks; false after errors. */
bool plan_settle(struct plan_reading *r);
/* Whether the model has all names of `recompute`. */
bool plan_check_recompute(struct plan_reading *r);

#endif

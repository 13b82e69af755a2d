/*
 * Between the files of the plan: its keys, values as the settings hold them,
 * and what of the model a plan depends on.
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

enum plan_kind { PLAN_INT, PLAN_WORD, PLAN_COUNT, PLAN_MESH, PLAN_STAGES,
		 PLAN_DIMS, PLAN_RECOMPUTE, PLAN_SCHEDULE, PLAN_TILES };

struct plan_row {
	const char *key;
	enum plan_kind kind;
	double lo, hi;
	const char *words;	/* legal ones, between blanks */
};

extern const struct plan_row plan_rows[PLAN_NKEYS];

/* ---- plan_keys.c ------------------------------------------------------ */

/* NULL, with *more set, if it continues another key. */
const struct plan_row *plan_find(const char *key, bool *more);
void plan_unknown(struct ir_module *m, const char *key, struct span at);
/* Legal as far as that is known without a model; else reported. */
bool plan_check(struct ir_module *m, const struct plan_row *row,
		const struct plan_value *v);
/* The value becomes the setting, whatever that was before. */
void plan_store(struct ir_module *m, const struct plan_row *row,
		const struct plan_value *v);
/* "a, b or c" of "a b c". */
const char *plan_words(struct arena *a, const char *list, const char *last);
/* Takes the next word off "a b c", into the arena; false at the end. */
bool plan_next_word(struct arena *a, const char **list, const char **word);
/* Whether `recompute` is said stage by stage: some item is a run. */
bool plan_by_stage(const struct plan_value *v);
/*
 * Item *i and all of its set as text, "(q+k)*2" or "5*16"; *i becomes the
 * last one.  Words that `plain` (NULL: all are) does not like stand in quotes.
 */
const char *plan_item_text(struct arena *a, const struct plan_value *v,
			   uint32_t *i,
			   bool (*plain)(struct arena *a, const char *word));
bool plan_is_name(const char *text);
/* The name behind an alias of docs/plan.md, or the word itself. */
const char *plan_alias(const char *schedule);

/* ---- plan_text.c ------------------------------------------------------ */

/* What the setting of a key says; false after errors. */
bool plan_fetch(struct ir_module *m, const struct plan_row *row,
		const struct ir_setting *s, struct plan_value *v);

/* ---- plan_facts.c ----------------------------------------------------- */

struct plan_facts {
	bool staged;		/* rank programs, of a model that was */
	int64_t nlayers;
	dim_id batch;		/* 0: no value has it */
	dim_id experts;		/* the shortest dim of experts, or 0 */
	dim_id seq;		/* the shortest that keys run along, or 0 */
	dim_id longest;		/* dim of any weight, or 0 */
	const char *recompute;	/* what the model's hint says */
};
void plan_facts(struct ir_module *m, struct plan_facts *out);
/* What the model's hint says of recomputation, or "none". */
const char *plan_recompute_hint(const struct ir_module *m);
/* Whether a value or an op of the model is named so; else *near is one. */
bool plan_can_rebuild(struct ir_module *m, const char *name,
		      struct diag_near *near);

/* ---- plan_check.c ----------------------------------------------------- */

/* A plan on its way from the settings to the struct. */
struct plan_reading {
	struct ir_module *m;
	struct plan *p;
	struct plan_value said[PLAN_NKEYS];	/* no items: nobody did */
	struct plan_facts facts;
};
/* Fills in what was not said and what follows from it all; or reports. */
bool plan_settle(struct plan_reading *r);
/* Whether the model has all names of `recompute`. */
bool plan_check_recompute(struct plan_reading *r);

#endif

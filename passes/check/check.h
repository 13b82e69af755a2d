/*
 * The static checker of rank programs: whether they fit together, without
 * running them.  The driver calls pass_check, in pass.h; tests call
 * check_ranks.
 *
 * A node that names a tensor, a save or a transfer is a use of that name.  A
 * name in a repeat is of one tensor per iteration; such sets are ranges of
 * iterations, so nothing here grows with the depth of a model.
 */
#ifndef PASSES_CHECK_H
#define PASSES_CHECK_H

#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "passes/sched/sched.h"

enum check_phase {
	CHECK_FORWARD,
	CHECK_BACKWARD,		/* all of it, or its part for the inputs */
	CHECK_WEIGHTS,
	CHECK_UPDATE,
	CHECK_NPHASES
};

/* A function that ranks run. */
struct check_fn {
	func_id func;		/* 0: the module has none */
	enum check_phase phase;
	uint32_t stage;		/* of an update: UINT32_MAX */
	uint32_t pipe;		/* who runs it */
	uint32_t first, n;	/* its uses */
};

/* A node that names a tensor, a save or a transfer. */
struct check_use {
	node_id node;
	uint32_t fn;		/* of check.fns */
	sym_t key;		/* the name, see check_facts.c */
	int64_t lo, hi; /* iterations lo .. hi-1; 0 and 1 outside of all */
	int64_t times;		/* how often it runs for each of them */
	uint32_t at;		/* which node of its function */
	node_id repeat;		/* the outermost one around, or 0 */
};

/* Iterations of one use, or of several that follow each other. */
struct check_run {
	int64_t lo, hi;
	uint32_t use;		/* the first of them */
};
struct check_runs {
	struct check_run *at;
	uint32_t n, cap;
};

struct check {
	struct ir_module *m;
	struct arena *a;	/* tmp */
	const struct sched *s;
	struct plan plan;
	axis_id time, pp;	/* 0: the mesh has none */
	uint32_t nstages, npipes;
	struct check_fn *fns;	/* phase * nstages + stage, then updates */
	uint32_t nfns;
	VEC(struct check_use) uses;	/* function by function, in order */
	struct intern keys;
	uint32_t *by_key;	/* uses, key by key */
	/* by key, with one entry more: first in by_key */
	uint32_t *key_begin;
	uint32_t *reads;	/* by value: how many operands and yields */
	uint8_t *at_home;	/* by func: some rank runs it */
	bool updates;		/* a step ends in one */
};

/* ---- check_facts.c: functions and uses of names ---- */

/* False: there is no such function, or one that nobody runs; reported. */
bool check_facts(struct check *c);
static inline const struct ir_node *
check_node(const struct check *c, const struct check_use *u)
{
	return ir_node(c->m, u->node);
}
/* The type of what it reads or writes. */
const struct ir_type *check_type(const struct check *c,
				 const struct check_use *u);
const struct check_fn *check_fn_of(const struct check *c,
				   const struct check_use *u);
/* "stage 2, stage2_forward: weight `h.{i}.w` of iterations 4 to 7" */
const char *check_text(const struct check *c, const struct check_use *u);
/*
 * "iterations 4 to 7", "iteration 3", or "" where the name is the same for all.
 */
const char *check_trips(const struct check *c, const struct check_use *u,
			int64_t lo, int64_t hi);
/* An error about the use: the text above, a colon, and this. */
void check_fail(struct check *c, const struct check_use *u, const char *fmt,
		...) BASE_PRINTF(3, 4);
void check_note(struct check *c, const struct check_use *u, const char *fmt,
		...) BASE_PRINTF(3, 4);

/* ---- check_runs.c: sets of iterations ---- */

void check_run_add(struct check *c, struct check_runs *r, uint32_t use);
/* By their first iteration. */
void check_run_sort(struct check_runs *r);
/* The first two that have an iteration in common; sorted. */
bool check_run_twice(const struct check_runs *r, struct check_run *a,
		     struct check_run *b);
/*
 * Each use runs once, and no two share an iteration; sorted.  `what` is done,
 * `where`: " on this rank" or so.
 */
void check_once(struct check *c, const struct check_runs *r, const char *what,
		const char *where);
/* The first iterations of one that the other lacks; both sorted. */
bool check_run_lacks(const struct check_runs *of, const struct check_runs *in,
		     struct check_run *gap);

/* ---- the rules; each reports what breaks it ---- */

void check_mesh(struct check *c);	/* check.c */
void check_types(struct check *c);	/* check_types.c */
void check_layers(struct check *c);	/* check_layers.c */
void check_pieces(struct check *c);
void check_tensors(struct check *c);	/* check_tensors.c */
void check_sums(struct check *c);	/* check_sums.c */
void check_saves(struct check *c);	/* check_saves.c */
void check_comm(struct check *c);	/* check_comm.c */
void check_updates(struct check *c);	/* check_updates.c */

/*
 * All rules on the module, under that schedule.  False after reporting what
 * breaks them.
 */
bool check_ranks(struct ir_module *m, const struct sched *s);

#endif

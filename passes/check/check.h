/*
 * The static checker of rank programs: whether they fit together, without
 * running them. The driver calls pass_check, declared in pass.h; tests call
 * check_ranks.
 *
 * A node that names a tensor, a save or a transfer is a use of that name.
 * Inside a repeat, such a name stands for one tensor per iteration. Sets of
 * these are kept as ranges of iterations, so the work does not grow with the
 * depth of a model.
 */
#ifndef PASSES_CHECK_H
#define PASSES_CHECK_H

#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "passes/sched/sched.h"

enum check_phase {
	CHECK_FORWARD,
	CHECK_BACKWARD,		/* all of it, or the gradients of inputs */
	CHECK_WEIGHTS,
	CHECK_UPDATE,
	CHECK_NPHASES
};

/* A function of a rank program. */
struct check_fn {
	func_id func;		/* 0: the phase needs none, or it is missing */
	enum check_phase phase;
	uint32_t stage;		/* of an update: UINT32_MAX */
	uint32_t pipe;		/* its pipeline rank */
	uint32_t first, n;	/* of its uses */
};

/* A node that names a tensor, a save or a transfer. */
struct check_use {
	node_id node;
	uint32_t fn;		/* of check.fns */
	sym_t key;		/* from the name; see check_facts.c */
	/* iterations lo .. hi-1; 0, 1 if the name mentions none */
	int64_t lo, hi;
	int64_t times;		/* how often it runs in each of them */
	uint32_t at;		/* position in its function, counted in nodes */
	node_id repeat;		/* the outermost repeat around it, or 0 */
};

/* A range of iterations that one use covers, or several adjacent ones. */
struct check_run {
	int64_t lo, hi;
	uint32_t use;		/* the use, or the first of several */
};
struct check_runs {
	struct check_run *at;
	uint32_t n, cap;
};

struct check {
	struct ir_module *m;
	struct arena *a;	/* ctx->tmp */
	const struct sched *s;
	struct plan plan;
	axis_id time, pp;	/* 0: the mesh has none */
	uint32_t nstages, npipes;
	struct check_fn *fns;	/* phase * nstages + stage, then updates */
	uint32_t nfns;
	VEC(struct check_use) uses; /* in the order of functions and nodes */
	struct intern keys;
	uint32_t *by_key;	/* indices of uses, sorted by key */
	/* by key: where it begins in by_key; one entry more at the end */
	uint32_t *key_begin;
	uint32_t *reads; /* by value: how many operands and yields it is */
	uint8_t *at_home;	/* by func: whether a rank runs it */
	bool updates;		/* a step ends with updates */
};

/* ---- check_facts.c: functions and uses of names ---- */

/*
 * Finds functions and uses. False after reporting a function that is missing,
 * or that no rank runs.
 */
bool check_facts(struct check *c);
static inline const struct ir_node *
check_node(const struct check *c, const struct check_use *u)
{
	return ir_node(c->m, u->node);
}
/* The type of the value that the use reads or writes. */
const struct ir_type *check_type(const struct check *c,
				 const struct check_use *u);
const struct check_fn *check_fn_of(const struct check *c,
				   const struct check_use *u);
/* "stage 2, stage2_forward: weight `h.{i}.w` of iterations 4 to 7" */
const char *check_text(const struct check *c, const struct check_use *u);
/*
 * " of iterations 4 to 7", " of iteration 3", or "" if the name is the same in
 * all iterations.
 */
const char *check_trips(const struct check *c, const struct check_use *u,
			int64_t lo, int64_t hi);
/* Reports an error about the use: check_text, a colon, and this message. */
void check_fail(struct check *c, const struct check_use *u, const char *fmt,
		...) BASE_PRINTF(3, 4);
void check_note(struct check *c, const struct check_use *u, const char *fmt,
		...) BASE_PRINTF(3, 4);

/* ---- check_runs.c: sets of iterations ---- */

void check_run_add(struct check *c, struct check_runs *r, uint32_t use);
/* Sorts the runs by their first iteration. */
void check_run_sort(struct check_runs *r);
/* Finds the first two runs that share an iteration. The runs must be sorted. */
bool check_run_twice(const struct check_runs *r, struct check_run *a,
		     struct check_run *b);
/*
 * Reports a use that runs more than once, and two that share an iteration, in
 * sorted runs. `what` is "saved" or so, `where` " on this rank" or "".
 */
void check_once(struct check *c, const struct check_runs *r, const char *what,
		const char *where);
/* Finds the first iterations of `of` that `in` lacks. Both must be sorted. */
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
void check_scales(struct check *c);	/* check_scales.c */
void check_caches(struct check *c);	/* check_caches.c */

/*
 * Checks all rules on the module under that schedule. False after reporting
 * violations.
 */
bool check_ranks(struct ir_module *m, const struct sched *s);

#endif

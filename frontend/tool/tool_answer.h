/*
 * Between what asks for an answer: tool_answer.c, eval_split.c and plan_diff.c.
 */
#ifndef FRONTEND_ANSWER_H
#define FRONTEND_ANSWER_H

#include "frontend/tool/driver.h"
#include "frontend/tool/tool_target.h"
#include "passes/answer/answer.h"

struct cg_facts;
struct plan;

/* What is known of a model only before it is cut into stages. */
struct drv_facts {
	struct answer_model model;
	const char *arenas;	/* as text, if --explain=memory asks for it */
	const char *kernels;	/* the same, of --explain=cost */
	const char *tiles;	/* of --explain=tiles, or NULL */
};

/* One of two plans beside each other. */
struct drv_side {
	const char *path;	/* what its column is called */
	struct ir_module *m;
	VEC(const char *) text;	/* by key */
	struct answer answer;
};

/* ---- tool_answer.c ------------------------------------------------------ */

/* Of rank programs by drv_run_for_answer, on --target. False if reported. */
bool drv_answer(struct driver *d, struct ir_module *m, struct answer *out);

/* ---- eval_split.c ------------------------------------------------------- */

/*
 * Opens rank programs and prices a step of them on --target; what *p points
 * to is in ctx->perm.  False if reported.
 */
bool drv_price(struct driver *d, struct ir_module *m, struct target *t,
	       struct ranks *r, struct price *p);

/* ---- emit.c ------------------------------------------------------------ */

/*
 * Kernels of rank programs, if the target is a CPU or a GPU; their rooms raise
 * what the device keeps for itself.  --autotune sets the plan's tiles.  False
 * if reported.
 */
bool drv_code_begin(struct driver *d, const struct ranks *r,
		    struct target *t, const struct target_devs *devs,
		    const struct price *p, struct plan *plan);
/* What was begun: LLVM's text to d->out, or the program to d->program. */
bool drv_code_text(struct driver *d, const struct answer *x);
bool drv_code_end(struct driver *d, const struct answer *x);

/* ---- autotune.c --------------------------------------------------------- */

/*
 * Measures all tiles that contractions of a GPU's kernels can have, and makes
 * the fastest the plan's.  False if reported.
 */
bool drv_autotune(struct driver *d, struct cg_input *in, struct plan *plan);

/* ---- whole.c ------------------------------------------------------------ */

/*
 * The object of the model that was taken, unsplit, beside a plan of these
 * facts for d->code_in.  False: there is none, and *why says why; that is no
 * error.
 */
bool drv_whole_object(struct driver *d, const struct cg_facts *f,
		      struct buf *out, const char **why);

/* ---- explain.c --------------------------------------------------------- */

/* Behind an answer what else is asked of it. False if reported. */
bool drv_explain(struct driver *d, struct ir_module *m,
		 const struct answer *x);
bool drv_explains(const struct driver *d, const char *what);
/* If --explain=memory asks for it. */
void drv_keep_memory(struct driver *d, const struct ranks *r,
		     const struct target_devs *devs);
/* Of a priced step, if --explain=cost asks for it. */
void drv_keep_kernels(struct driver *d, const struct ranks *r,
		      const struct target_devs *devs,
		      const struct price *p);

/* ---- why_not.c --------------------------------------------------------- */

/* The best plan beside the best of d->other. False if reported. */
bool drv_why_not(struct driver *d, struct ir_module *m,
		 const struct answer *best);

/* ---- plan_diff.c ------------------------------------------------------- */

/* Every key's text now; of a plan, or NULL: what the settings say. */
void drv_take_keys(struct driver *d, struct drv_side *s,
		   const struct plan *p);
/* Those that differ, a line each. */
void drv_print_keys(struct drv_side *a, struct drv_side *b, struct buf *out);

#endif

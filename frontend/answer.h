/*
 * Between what asks for an answer: answer.c, split.c and plan_diff.c.
 */
#ifndef FRONTEND_ANSWER_H
#define FRONTEND_ANSWER_H

#include "frontend/driver.h"
#include "frontend/target.h"
#include "passes/answer.h"

/* What is known of a model only before it is cut into stages. */
struct drv_facts {
	struct answer_model model;
	struct answer_memory memory;
};

/* ---- answer.c --------------------------------------------------------- */

/* Of rank programs by drv_run_for_answer, on --target. False if reported. */
bool drv_answer(struct driver *d, struct ir_module *m, struct answer *out);

/* ---- split.c ---------------------------------------------------------- */

/*
 * Opens rank programs and prices a step of them on --target; what *p points
 * to is in ctx->perm.  False if reported.
 */
bool drv_price(struct driver *d, struct ir_module *m, struct target *t,
	       struct ranks *r, struct price *p);

#endif

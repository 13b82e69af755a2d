/*
 * Random models, and random plans for them, for tests of kernels.
 */
#ifndef T_MODELS_H
#define T_MODELS_H

#include "tests/unit/shared/t-ranks.h"

#include "frontend/frontend.h"
#include "passes/pass.h"
#include "passes/plan/plan.h"
#define MOST_RANKS 8
#include "tests/unit/shared/t-split.h"

/* Forward, backward and update; with a plan, those of all ranks.  False: the
 * plan is none for the model. */
static inline bool
model_open(struct tk *t, uint64_t seed, bool split, double *most)
{
	struct pair p = random_pair(seed);
	uint32_t base;
	const char *text;
	bool ok;

	memset(t, 0, sizeof *t);
	p.n[NR_PP] = p.n[NR_CHUNKS] = 1;
	ir_ctx_init(&t->c, NULL);
	text = model_text(&t->c.perm, &p);
	source_add(&t->c.sources, "model", text, strlen(text), &base);
	t->m = fe_compile(&t->c, t->c.sources.files.n - 1);
	assert_non_null(t->m);
	*most = p.n[NR_BF16] ? 0x1p-6 : 2e-5;
	ok = (!split || plan_pin(t->m, plan_text(&t->c.perm, &p))) &&
	     pass_apply(t->m, split ? "split" : "train", false) == PASS_OK;
	if (ok && getenv("T_NEST_SHOW")) {
		printf("%s%s\n", text, plan_text(&t->c.perm, &p));
	}
	return ok;
}

#endif

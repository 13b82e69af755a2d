/* Private header of the summary (summary.c): what a weight is used for. */
#ifndef PASSES_GROUPS_H
#define PASSES_GROUPS_H

#include "passes/pass.h"

struct pass_use {
	uint32_t bits;		/* enum use of weight_use.c */
	int64_t picked, of;	/* one token uses `picked` of `of` experts */
};

/* By value, in ctx->tmp.  `tokens` is the type of the model's token input. */
struct pass_use *pass_uses(struct ir_module *m, const struct ir_type *tokens);
enum pass_group pass_group_of(const struct pass_use *u);

#endif

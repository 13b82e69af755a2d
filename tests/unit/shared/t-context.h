/* A context for each test.  Include cmocka's headers first. */
#ifndef T_CONTEXT_H
#define T_CONTEXT_H

#include "ir/ir.h"

static struct ir_ctx ctx;

static int
setup(void **state)
{
	(void)state;
	ir_ctx_init(&ctx, NULL);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	ir_ctx_release(&ctx);
	return 0;
}

#endif

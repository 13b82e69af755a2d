/*
 * What follows the products of a contraction in its kernel, as expressions:
 * price_exprs.c makes them of the kernel's nodes, price_epilogue.c counts them.
 */
#ifndef PASSES_PRICE_EPILOGUE_H
#define PASSES_PRICE_EPILOGUE_H

#include "passes/price/price.h"

#define MOST_EXPRS 256	/* what is beyond is not counted */

/* What an expression changes with: rows of the result, its last dim, and which
 * half of a rotation's dim. */
enum {
	BY_ROWS = 1,
	BY_LAST = 2,
	BY_HALF = 4
};

/* Besides ops: numbers; a value in memory, the contraction's sum, or what the
 * first of a pair computes; half of a rotation, and a sum over a row. */
enum {
	PUT_NUMBER = IR_OP_COUNT,
	PUT_LOAD,
	PUT_SUM,
	PUT_HANDED,
	PUT_ANGLE,
	PUT_SIN,
	PUT_SIGN,
	PUT_REDUCED
};

struct put_expr {
	uint16_t op;
	uint8_t by;
	uint32_t a, b, uses;	/* operands, and how many have it as theirs */
	value_id value;		/* what lies in memory, or is a sum; 0: none */
	double number;		/* 1: the sum is a partner in a rotation */
};

struct epilogue {
	struct ir_module *m;
	const struct kernel *k;
	const struct ir_node *dot;
	enum price_putting by;
	dim_id last;		/* dim of the result along which vectors lie */
	bool shares;		/* a sum so far is in registers */
	bool paired;		/* it has an epilogue with another one */
	bool rounded;		/* its sums are, and other warps read them */
	bool halves;		/* its rotations are of two halves */
	double lanes;
	uint32_t n, depth;
	struct put_expr at[MOST_EXPRS];
	/* by place in k->nodes: 1 + its expression; 0: none yet */
	uint32_t of_node[MOST_EXPRS];
};

/* Begins without expressions; expression 0 is none. */
void price_exprs_open(struct epilogue *e, struct ir_module *m,
		      const struct kernel *k, enum price_putting by,
		      bool shares);
/* The expression that makes a value, each node once. */
uint32_t price_expr_of(struct epilogue *e, value_id v);
/* What an element of that type changes with. */
uint8_t price_expr_by(const struct epilogue *e, const struct ir_type *t);
/* The sum so far of contractions that add up is among a tile's sums. */
bool price_is_handed(const struct epilogue *e, value_id v);
/* What the first of a pair makes for the second alone is not stored. */
bool price_is_stored(const struct epilogue *e, value_id v);

#endif

/*
 * Private to emulate_tensor.c and emulate_tensor_move.c: tensor memory, and
 * what was last done to each column of it.
 */
#ifndef RT_EMULATE_TENSOR_H
#define RT_EMULATE_TENSOR_H

#include "runtime/emulate/emulate_shadow.h"

enum {
	LANES = 128, COLS = 512, UNIT = 32, MAX_K = 32, MAX_N = 256,
	MOVED = 16,		/* lanes that a load or a store accesses */
	GROUPS = LANES / MOVED,
	LEFT = 8,		/* columns of a left operand */
	READERS = 2		/* warps that read a column between products */
};

/* Who wrote a column last, where it is no thread that issued a product. */
enum {
	ALLOCATED = -1, STORED = -2
};

/* A column of a group of lanes. */
struct emu_tensor_cell {
	uint32_t wclock, rclock[READERS];
	uint16_t writer, reader[READERS];
	uint16_t pending;	/* products under way that write it */
	uint16_t reading;	/* those whose left operand it is */
	uint8_t loading, storing;	/* loads and stores under way */
	uint8_t readers;
	bool written;
	int issuer;		/* thread of the last product */
};

struct emu_tensor {
	uint32_t at[LANES][COLS];
	struct emu_tensor_cell cell[GROUPS][COLS];
	int owner[COLS / UNIT]; /* 1 + first unit of the allocation; 0: free */
	bool relinquished;
	float a[LANES][MAX_K], b[MAX_K][MAX_N], c[MAX_N];
};

/* The block's, made when it is first used. */
struct emu_tensor *emu_tensor_of(struct rt_emu *e);
/* The first of n columns, all of which are allocated. */
int emu_tensor_columns(struct rt_emu *e, unsigned at, int n, const char *what);
/* The thread `what` column `col`, which `did` of thread or unit `who` at that
 * clock: fails if it has not waited for that, with fences around. */
void emu_tensor_order(struct rt_emu *e, int who, uint32_t clock,
		      const char *what, int col, const char *did);
/* Before the column is written or freed: nobody still reads it. */
void emu_tensor_unread(struct rt_emu *e, const struct emu_tensor_cell *c,
		       const char *what, int col);
/* What wrote the column last, for messages. */
const char *emu_tensor_wrote(const struct emu_tensor_cell *c);

#endif

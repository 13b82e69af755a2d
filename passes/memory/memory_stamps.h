/*
 * What memory_check.c and memory_stamps.c share: a run of rank programs on a
 * memory of stamps.
 */
#ifndef PASSES_MEMORY_STAMPS_H
#define PASSES_MEMORY_STAMPS_H

#include "passes/memory/memory.h"

/* Bytes that were written last by one write. */
struct stamped_range {
	int64_t lo, hi;
	uint64_t stamp;
};

/* The arena of one rank: disjoint ranges in ascending order. */
struct stamped_arena {
	struct stamped_range *at;
	uint32_t n, cap;
};

/* Something that is found again by a key: a save, a message, a tensor. */
struct stamped_item {
	uint64_t key[3];
	uint64_t stamp;
	struct memory_spot spot;
	int64_t size;
	uint32_t pipe;
};

/* A run on such a memory. */
struct checker {
	const struct ranks *r;
	const struct memory *mem;
	struct ir_module *m;
	struct arena a;
	struct stamped_arena *ranks;	/* by rank of the pipeline */
	uint64_t *stamp;	/* by value, of the current run; 0: none */
	uint64_t next;
	VEC(struct stamped_item *) items;	/* the first is none */
	struct table by_key;
	const char *why;

	/* the current run */
	struct memory_run run;
	func_id func;
	uint32_t pipe;
};

/* Kinds of item: the first of its keys is 3 * a number + one of these. */
enum { STAMPED_SAVES, STAMPED_MESSAGES, STAMPED_TENSORS };

/* Stamps bytes of the running rank. */
void stamp_range(struct checker *c, int64_t at, int64_t bytes, uint64_t stamp);
/* Whether all of these bytes of a rank have that stamp. */
bool stamp_covers(const struct checker *c, uint32_t pipe, int64_t at,
		  int64_t bytes, uint64_t stamp);
/* Notes what is wrong with a value; the first that is said stays. */
void stamp_fail(struct checker *c, value_id v, const char *what);
/* Where a value lies; false: nowhere that it may, and c has why. */
bool stamp_spot(struct checker *c, value_id v,
		const struct memory_iterations *at, struct memory_spot *spot);
int64_t stamp_bytes(const struct checker *c, value_id v);
/* Gives a value that is written a new stamp. */
void stamp_value(struct checker *c, value_id v,
		 const struct memory_iterations *at);
/* Looks for a value's stamp on all of its bytes, and returns it. */
uint64_t stamp_read(struct checker *c, value_id v,
		    const struct memory_iterations *at);
/* Whether a value is a tensor that lasts for the step: its stamp is that of its
 * place, whichever node names it. */
bool stamp_is_tensor(const struct checker *c, value_id v);
/* The item of these keys; NULL: there is none, and none is made. */
struct stamped_item *stamp_item(struct checker *c, uint64_t a, uint64_t b,
				uint64_t d, bool make);
struct stamped_item *stamp_tensor(struct checker *c, uint32_t buffer,
				  int64_t offset, bool make);
/* The first key of saves of the running stage and microbatch. */
uint64_t stamp_save(const struct checker *c);
/* The variables of the running iterations as one number. */
uint64_t stamp_iterations(const struct checker *c,
			  const struct memory_iterations *at);
/* Tensors that last for the step are written before it begins. */
void stamp_tensors(struct checker *c);

#endif

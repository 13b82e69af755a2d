/*
 * Between the files of the check of places; nobody else includes this.
 *
 * Sections follow the .c file that defines them.
 */
#ifndef PASSES_MEMORY_CHECK_H
#define PASSES_MEMORY_CHECK_H

#include "passes/memory/memory.h"

/* ---- memory_stamp.c: memory that knows who wrote it last -------------- */

/* Bytes of one stamp. */
struct stretch {
	int64_t lo, hi;
	uint64_t stamp;
};

/* The arena of one rank, as stretches that follow each other. */
struct bytes {
	struct stretch *at;
	uint32_t n, cap;
};

void memory_stamp(struct arena *a, struct bytes *b, int64_t lo, int64_t hi,
		  uint64_t stamp);
/* Whether all of it has that stamp. */
bool memory_has_stamp(const struct bytes *b, int64_t lo, int64_t hi,
		      uint64_t stamp);

/* ---- memory_check.c: kernels that read and write it -------------------- */

struct known;

struct checker {
	const struct ranks *r;
	const struct memory *mem;
	struct ir_module *m;
	struct arena a;
	struct bytes *ranks;		/* by rank of the pipeline */
	uint64_t *stamp;		/* by value: of this run */
	uint64_t next;
	VEC(struct known *) known;	/* the first is none */
	struct table by_key;
	const char *why;

	/* the run at hand */
	struct memory_run run;
	func_id func;
	uint32_t pipe, back;
};

/* The function, as the stage and microbatch at hand; 0: none. */
void memory_check_func(struct checker *c, func_id f);

/* ---- memory_course.c: which rank may go on ----------------------------- */

/* Every rank runs its list, as far as others let it, then its update. */
void memory_course(struct checker *c);

#endif

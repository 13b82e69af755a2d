/*
 * Private to tally.c and bench.c: the time that phases, kernels and
 * collectives of one rank took, summed up by name.
 */
#ifndef RT_TALLY_H
#define RT_TALLY_H

#include "runtime/train/trace.h"

/* Sent from rank to rank as it is: 8-byte words, no pointers. */
struct rt_tally_record {
	char what[104];
	int64_t kind;		/* enum rt_tallied */
	int64_t calls, ranks;
	double ms, us, flops, bytes;	/* us: predicted */
};

struct rt_tally_entry {
	const void *key;	/* NULL: no entry */
	struct rt_tally_record is;
};

/* An open hash table. */
struct rt_tally {
	struct rt_tally_entry *at;
	size_t capacity, n;	/* capacity: a power of two, or 0 */
	struct rt_trace *trace;	/* gets each call, too; or NULL */
	bool lost;		/* memory ran out: something is not counted */
};

#endif

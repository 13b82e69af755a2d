/*
 * What a program that serves keeps in the memory of hosts.  The engine
 * allocates by these functions, and llmc's answer has their numbers.
 */
#ifndef RT_SERVED_MEMORY_H
#define RT_SERVED_MEMORY_H

#include "runtime/comm/comm.h"
#include "runtime/serve/server.h"

/* The sizes of a program. */
struct rt_served {
	int64_t tokens, rows, keys, slots;	/* of the serve block */
	int64_t vocab;
	int64_t stages, replicas, ranks;
	int64_t host_ranks;	/* of the host of rank 0; the engine needs
				 * none */
};

/* Bytes, at most. */
struct rt_served_memory {
	int64_t queues;		/* between rank 0 and the others */
	int64_t steps;		/* inputs and logits of steps */
	int64_t index;		/* of prefixes */
	int64_t client;		/* of each connection */
};

/* Tokens of a block of the cache. */
#define RT_SERVED_BLOCK 16
/* Numbers before the arrays of what a rank is told of a step. */
#define RT_SERVED_HEAD 4
/* Logits of a step where they are shown: as floats, and in their own type,
 * which has at most twice the bytes. */
#define RT_SERVED_LOGITS 3

/* Blocks of the cache that sequences may have: the first belongs to none. */
int64_t rt_served_blocks(int64_t slots);
/* What a rank is told of a step that has so many keys. */
int64_t rt_served_step_bytes(const struct rt_served *s, int64_t keys);
/* The queues between rank 0 and each other rank. */
struct rt_queues rt_served_queues(const struct rt_served *s);
/* Of the host of rank 0, which has the most. */
struct rt_served_memory rt_served_memory(const struct rt_served *s);

#endif

/*
 * Between the memory*.c files: an arena while it is being laid out.
 */
#ifndef PASSES_MEMORY_PARTS_H
#define PASSES_MEMORY_PARTS_H

#include "passes/memory/memory.h"

/* The repeats around a node, from the inside. */
struct memory_nest {
	const struct ir_node *repeat;
	const struct memory_nest *outer;
};

/* One name under which a stage keeps a value, of the trips [lo, hi). */
struct memory_name {
	sym_t name;
	uint32_t buffer;
	int64_t lo, hi;
	uint32_t next;		/* of the same name, and 1 */
};

/* A region of a function with its steps. */
struct memory_frame {
	const struct kernel_list *list;
	const struct ir_node *repeat;	/* NULL: the function's own */
	struct memory_frame *outer, **inner;	/* by kernel */
	uint32_t *step;		/* by kernel */
	uint32_t begin, end, depth;
	bool *dying;		/* by value that it carries: of the first */
};

/* The weight that a name is of. */
struct memory_owner {
	bool known;
	sym_t of;		/* 0: none */
};

struct memory_work {
	const struct ranks *r;
	struct ir_module *m;
	struct arena *a;	/* of the result */
	struct arena tmp;
	struct memory *out;
	const struct sched *holding;	/* the schedule, less its middle */
	const char *why;	/* something has no place */
	int64_t *bytes;		/* by type, as aligned; 0: nobody asked */
	uint8_t is_tensor[IR_OP_COUNT];	/* by op, and 1; 0: nobody asked */
	uint32_t nsyms;
	bool *is_weight;	/* by name */
	struct memory_owner *owner;	/* the same */
	uint32_t *of_node;	/* tensors: buffer, and 1 */

	/* the function at hand */
	uint32_t pipe, stage, kind;	/* stage UINT32_MAX: the update */
	func_id func;
	struct memory_frame *top;
	uint32_t first_buffer;	/* of the function */
	/* by value */
	struct memory_frame **frame;
	uint32_t *def, *last;	/* steps */
	bool *fresh;		/* a kernel makes it */
	bool *viewed;

	/* the stage at hand */
	uint32_t *names_of;	/* by name: the last in `names`, and 1 */
	VEC(struct memory_name) names;
};

/* ---- memory.c ---- */

/* Bytes of a value as aligned. */
int64_t memory_bytes(const struct memory_work *w, value_id v);
/* A new one of the function at hand; its number. */
uint32_t memory_add(struct memory_work *w, enum memory_kind kind,
		    int64_t bytes);
static inline struct memory_buffer *
memory_at(const struct memory_work *w, uint32_t buffer)
{
	return &w->out->buffers.at[buffer];
}
/* The first trip, and how many there are. */
int64_t memory_start(const struct ir_module *m, const struct ir_node *repeat);
int64_t memory_count(const struct ir_module *m, const struct ir_node *repeat);

/* ---- memory_tensors.c ---- */

/* What lasts for the step, on each rank of the pipeline. */
void memory_tensors(struct memory_work *w);

/* ---- memory_saves.c ---- */

/* Gives what the function at hand saves, and takes, a place. */
void memory_saves(struct memory_work *w);
/* What is known once all functions of the stage are placed. */
void memory_stage_done(struct memory_work *w);

/* ---- memory_slots.c ---- */

struct memory_hold {
	uint8_t from, to;	/* enum sched_part */
};

extern const struct memory_hold memory_holds[MEMORY_NSPANS];
/* Pools of slots, by the schedule. */
void memory_slots(struct memory_work *w);

/* ---- memory_wait.c ---- */

/* In how many places what a stage sends waits by turns. */
void memory_wait(struct memory_work *w);

/* ---- memory_temps.c ---- */

/* Places for all values of a function, and its temps packed. */
void memory_function(struct memory_work *w, struct memory_func *out);

/* ---- memory_carry.c ---- */

/* Values that repeats carry. */
void memory_carries(struct memory_work *w);
/* Whether a kernel may write `made` over v, which nobody reads after it. */
bool memory_in_place(const struct memory_work *w, const struct kernel *k,
		     value_id v, value_id made);
static inline bool
memory_homed(const struct memory_work *w, value_id v)
{
	return w->out->value[v].buffer || w->out->value[v].carry;
}

#endif

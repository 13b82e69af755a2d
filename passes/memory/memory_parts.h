/*
 * Private to memory*.c: the state of a memory plan while it is made, and what
 * its files call of each other.  memory.c calls memory_rows.c and
 * memory_tensors.c, then for each function memory_temps.c, which calls
 * memory_saves.c and memory_carry.c, then memory_slots.c and memory_wait.c; all
 * of them call memory_buffer.c.
 */
#ifndef PASSES_MEMORY_PARTS_H
#define PASSES_MEMORY_PARTS_H

#include "passes/memory/memory.h"
#include "passes/plan/plan.h"

/* The repeats around a node, from the innermost outwards. */
struct memory_repeats {
	const struct ir_node *repeat;
	const struct memory_repeats *outer;
};

/* A name under which a stage saves a value, for iterations [lo, hi). */
struct memory_name {
	sym_t name;
	uint32_t buffer;
	int64_t lo, hi;
	uint32_t next;		/* of the same name, plus 1 */
};

/*
 * A region of a function.  Steps number its kernels and those of inner regions
 * in running order, with one step before and one after each region.
 */
struct memory_frame {
	const struct kernel_list *list;
	const struct ir_node *repeat;	/* NULL: the function's own */
	struct memory_frame *outer, **inner;	/* by kernel */
	uint32_t *step;		/* by kernel */
	uint32_t begin, end, depth;
	bool *dying;		/* by carried value: the repeat is the last
				 * reader of its initial value */
};

/* The weight that an optimizer state belongs to. */
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
	const struct sched *holding;	/* sched_holding of the schedule */
	bool packs;		/* temps get offsets */
	const char *why;	/* set once something has no place */
	int64_t *bytes;		/* by type, aligned; 0: not computed */
	uint8_t is_tensor[IR_OP_COUNT];	/* by op, plus 1; 0: not computed */
	uint32_t nsyms;
	bool *is_weight;	/* by name */
	struct memory_owner *owner;	/* by name */
	uint32_t *of_node;	/* of tensors: buffer, plus 1 */

	/* the current function */
	uint32_t pipe, stage, kind;	/* stage UINT32_MAX: the update */
	func_id func;
	struct memory_frame *top;
	uint32_t first_buffer;	/* of the function */
	/* by value */
	struct memory_frame **frame;
	uint32_t *def, *last;	/* steps */
	bool *fresh;		/* a kernel of the function makes it */
	bool *viewed;		/* a node without a kernel reads it */

	/* the current stage */
	uint32_t *names_of;	/* by name: the last in `names`, plus 1 */
	VEC(struct memory_name) names;
};

/* ---- memory_buffer.c ---- */

/* Bytes of a value, aligned. */
int64_t memory_bytes(const struct memory_work *w, value_id v);
/* Adds a buffer of one item to the current function; returns its number. */
uint32_t memory_add(struct memory_work *w, enum memory_kind kind,
		    int64_t bytes);
/* The same of a temp that is alive at the steps [from, to]. */
uint32_t memory_add_temp(struct memory_work *w, value_id v, uint32_t from,
			 uint32_t to);
static inline struct memory_buffer *
memory_at(const struct memory_work *w, uint32_t buffer)
{
	return &w->out->buffers.at[buffer];
}
/* The first value of a repeat's variable, and how many it has. */
int64_t memory_start(const struct ir_module *m, const struct ir_node *repeat);
int64_t memory_count(const struct ir_module *m, const struct ir_node *repeat);

/* ---- memory_tensors.c ---- */

/* Buffers of what lasts for the step, on each rank of the pipeline. */
void memory_tensors(struct memory_work *w);

/* ---- memory_saves.c ---- */

/* Places for what the current function saves, and reads of saves. */
void memory_saves(struct memory_work *w);
/* Forgets the names under which the current stage saved values. */
void memory_forget_names(struct memory_work *w);

/* ---- memory_slots.c ---- */

/* The parts of a microbatch's work that begin and end a span. */
struct memory_lifetime {
	uint8_t from, to;	/* enum sched_part */
};

extern const struct memory_lifetime memory_lifetimes[MEMORY_NSPANS];
/* Pools of slots, as many as the schedule needs. */
void memory_slots(struct memory_work *w);

/* ---- memory_wait.c ---- */

/* In how many copies the sent values of each stage wait. */
void memory_wait(struct memory_work *w);

/* ---- memory_temps.c ---- */

/* Places for all values of the current function, and its temps packed. */
void memory_function(struct memory_work *w, struct memory_func *out);

/* ---- memory_carry.c ---- */

/* Places for the values that repeats of the current function carry. */
void memory_carries(struct memory_work *w);
/*
 * Whether kernel k may write `made` over v, given that nothing reads v after
 * k: each element of v is read where it is written, or earlier.
 */
bool memory_in_place(const struct memory_work *w, const struct kernel *k,
		     value_id v, value_id made);
/* Whether slots of saves of that span lie on the host. */
static inline bool
memory_is_hosted(const struct memory *m, uint32_t span)
{
	return m->offload & PLAN_OFFLOAD_SAVES && span < MEMORY_TOP;
}

/* Whether weights and gradients of layers lie on the host. */
static inline bool
memory_streams(const struct memory *m)
{
	return m->offload & PLAN_OFFLOAD_PARAMS;
}

static inline bool
memory_is_placed(const struct memory_work *w, value_id v)
{
	return w->out->value[v].buffer || w->out->value[v].carry;
}

#endif

/*
 * Where everything lies: each rank of the pipeline has one arena, and each
 * value that a kernel reads or writes has a constant place in it.  What is
 * estimated is what will be allocated: nothing else is.  docs/memory.md is
 * the page about it.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_MEMORY_H
#define PASSES_MEMORY_H

#include "passes/kernels/kernels.h"
#include "passes/stage/ranks.h"
#include "passes/price/target.h"

#define MEMORY_ALIGN 256	/* of every offset */

enum memory_kind {
	MEMORY_WEIGHTS,
	MEMORY_GRADIENTS,	/* sums over microbatches */
	MEMORY_OPTIMIZER,
	MEMORY_OTHER,		/* inputs, results, other states and sums */
	MEMORY_PIPELINE,	/* values that wait to be taken */
	MEMORY_SAVES,		/* from forward to backward, in slots */
	MEMORY_TEMPS,		/* of one run of one function */
	MEMORY_NKINDS
};

extern const char *const memory_kind_names[MEMORY_NKINDS];

/*
 * When a microbatch has a slot of saves; each has slots of its own.  So have
 * saves outside of repeats, since they differ from stage to stage.
 */
enum memory_span {
	MEMORY_TO_INPUT,	/* forward to backward, or its first half */
	MEMORY_TO_WEIGHTS,	/* forward to the second half */
	MEMORY_BETWEEN,		/* first half to the second */
	MEMORY_TOP,		/* and these once more, outside of repeats */
	MEMORY_NSPANS = 2 * MEMORY_TOP
};

/*
 * Items of one size: one for each trip of the repeats around, side by side,
 * and all of that again for each slot or microbatch.
 */
struct memory_buffer {
	enum memory_kind kind;
	enum memory_span span;	/* of saves */
	uint32_t pipe, stage;	/* stage UINT32_MAX: of the whole rank */
	func_id func;		/* of temps and what waits; 0: any */
	sym_t name;		/* of tensors and saves */
	value_id value;		/* one that lies here; 0: none alone */
	int64_t offset;		/* in the arena of its rank */
	int64_t bytes;		/* of an item, as aligned */
	int64_t trips, first;	/* items; first: the outermost trip */
	uint32_t levels;	/* repeats that count, from the outermost */
	uint32_t copies;
	int64_t apart;		/* from copy to copy */
	uint32_t from, to;	/* steps of the function, of temps */
};

enum memory_role { MEMORY_FIXED_PLACE, MEMORY_INIT, MEMORY_PARAM,
		   MEMORY_MADE, MEMORY_RESULT };

/* Where a value lies. */
struct memory_value {
	uint32_t buffer;	/* and 1; 0: see `carry` */
	uint32_t carry;		/* and 1; it is this role of that */
	enum memory_role role;
};

/*
 * A value that a repeat carries is x0 before the first trip, xN behind the
 * last.  x0 lies where `init` does and xN where `result` does, unless they
 * are `first_here` and `last_here`; all others at[t % 2], of which a save
 * has an item per trip: that of trip t + shift.  Where `init` is not where x0
 * should be, or `made` after a trip not where the next should be, it is copied.
 */
struct memory_carry {
	node_id repeat;
	value_id init, param, made, result;
	uint32_t depth;		/* repeats around the repeat */
	uint32_t at[2];		/* buffers, and 1 */
	int shift;
	bool first_here, last_here;
};

/* A value that is sent. */
struct memory_send {
	node_id node;
	value_id value;
	uint32_t stage, to;
	uint32_t buffer;	/* and 1: it waits there; 0: in its own place */
	bool staged;		/* it is copied there */
};

struct memory_func {
	func_id func;
	int64_t bytes, bound;	/* temps; the most that live at once */
	uint32_t at_step;	/* where those do */
	node_id at_node;	/* the first of the kernel there */
};

struct memory_stage {
	uint32_t rank;
	int64_t fixed[MEMORY_PIPELINE];	/* by kind, of the tensors it uses */
	struct {
		int64_t bytes;		/* of one microbatch */
		uint32_t slots;		/* that it needs at once, alone */
		uint32_t pool;
	} saves[MEMORY_NSPANS];
	/* by microbatch: in the pool; once memory_give_slots was asked */
	uint32_t *slot[MEMORY_NSPANS];
	uint32_t waiting[2];	/* copies of what is sent: forward, back */
	int64_t pipeline;
	struct memory_func func[SCHED_NKINDS];
};

/* Slots that stages of one rank share. */
struct memory_pool {
	uint32_t rank;
	enum memory_span span;
	int64_t bytes;		/* of one */
	uint32_t slots;
	int64_t offset;
};

struct memory_rank {
	int64_t by[MEMORY_NKINDS];
	int64_t reserve, total;
	int64_t device;		/* that its device has; 0: not known */
	int64_t host;		/* of `by`, those that are not on the device */
	int64_t bound;		/* the most that lives at once, and reserve */
	struct memory_func update;
	struct memory_func peak;	/* the function that asks for most */
};

struct memory {
	struct memory_stage *stage;
	struct memory_rank *rank;	/* of the pipeline */
	uint32_t nstages, nranks, fullest;
	uint32_t on_host;	/* the kind that is; MEMORY_NKINDS: none */
	VEC(struct memory_buffer) buffers;
	struct memory_value *value;	/* by value */
	uint32_t *tensor;	/* by node that names one: buffer, and 1 */
	VEC(struct memory_carry) carries;
	VEC(struct memory_pool) pools;
	VEC(struct memory_send) sends;
	struct kernels *const *kernels;
};

/* ---- memory.c --------------------------------------------------------- */

/*
 * The arenas of all ranks of the pipeline, in arena a.  `all` are the
 * kernels of the module by function, NULL: those that the ranks have.
 * `reserve` bytes are added to each.  False: *why says what has no place.
 */
bool memory_plan(const struct ranks *r, struct kernels *const *all,
		 int64_t reserve, struct arena *a, struct memory *out,
		 const char **why);

/*
 * Says what the devices have that ranks lie on, and adds what these keep for
 * themselves, which memory_plan was not told of.  Fullest is who has least
 * left.
 */
void memory_set_devices(struct memory *m, const struct target_devs *s);

/* What lies on the host that has least left of it: see target_fullest_host. */
struct target_host memory_host(const struct memory *m, const struct ranks *r,
			       const struct target *t, struct arena *a);

/* ---- memory_slots.c --------------------------------------------------- */

/*
 * Which slot of its pool each microbatch has, in arena a: who asks where
 * saves lie asks for this first.
 */
void memory_give_slots(const struct ranks *r, struct arena *a,
		       struct memory *mem);

/* ---- memory_where.c --------------------------------------------------- */

/* The trips that are being run, from the inside; 0 is the first to run. */
struct memory_trips {
	const struct ir_node *repeat;
	int64_t trip;
	const struct memory_trips *outer;
};

/* One run of a function. */
struct memory_run {
	struct ir_module *m;
	const struct memory *mem;
	uint32_t stage;		/* UINT32_MAX: an update */
	uint32_t microbatch;
	uint32_t turn[2];	/* how many were sent before: forward, back */
};

/* Where an item lies in the arena of its rank. */
struct memory_spot {
	uint32_t buffer;
	int64_t offset;
};

/* Of a value that a kernel reads or writes. False: it has no place. */
bool memory_where(const struct memory_run *run, value_id v,
		  const struct memory_trips *at, struct memory_spot *out);
/* Of what a repeat carries, behind so many of its trips. */
bool memory_carried(const struct memory_run *run, uint32_t carry, int64_t t,
		    const struct memory_trips *around,
		    struct memory_spot *out);
/* An item of a buffer. */
struct memory_spot memory_item(const struct memory_run *run, uint32_t buffer,
			       const struct memory_trips *at);

/* ---- memory_pack.c ---------------------------------------------------- */

/* Bytes that are needed from one step to another, both included. */
struct memory_block {
	int64_t bytes;		/* a multiple of MEMORY_ALIGN */
	uint32_t from, to;
	int64_t offset;		/* set by memory_pack */
};

/* The most bytes that are needed at once, and the first step with so many. */
int64_t memory_bound(struct arena *a, const struct memory_block *b,
		     uint32_t n, uint32_t *step);
/* Gives each an offset; how many bytes that takes. */
int64_t memory_pack(struct arena *a, struct memory_block *b, uint32_t n);

/* ---- memory_check.c --------------------------------------------------- */

/*
 * Runs all ranks with places instead of numbers: each kernel finds what it
 * reads where it was written, as nobody wrote there since.  It shares no code
 * with the rest.  NULL, or what is wrong, in ctx->tmp.
 */
const char *memory_check(const struct ranks *r, const struct memory *mem);

/* ---- memory_print.c --------------------------------------------------- */

/* By stage, and the kinds of the fullest rank: --emit=memory. */
void memory_print_stages(const struct ranks *r, const struct memory *mem,
			 struct buf *out);
void memory_print_stages_json(const struct ranks *r, const struct memory *mem,
			      struct buf *out);
/* By rank, with the largest buffers or as JSON all of them: --emit=arena. */
void memory_print(const struct ranks *r, const struct memory *mem,
		  struct buf *out);
void memory_print_json(const struct ranks *r, const struct memory *mem,
		       struct buf *out);

#endif

/*
 * The one account of memory.  For the rank programs of a plan it gives each
 * rank of the pipeline an arena, and every value that a kernel reads or writes
 * a constant offset in it: how many bytes a plan needs is the size of what
 * will be allocated, not an estimate beside it.  It reads rank programs,
 * their kernels and their schedule (stage/, kernels/, sched/) and what a
 * target's devices have (price/target.h); it changes no program.
 *
 * The search sizes plans with it, the answer prints it, and codegen/host/
 * emits its addresses.  docs/memory.md is the page about it.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_MEMORY_H
#define PASSES_MEMORY_H

#include "passes/kernels/kernels.h"
#include "passes/stage/ranks.h"
#include "passes/price/target.h"

#define MEMORY_ALIGN 256	/* of every offset */
/* of what lies on the host: a page that any GPU maps */
#define MEMORY_HOST_ALIGN (INT64_C(2) << 20)

enum memory_kind {
	MEMORY_WEIGHTS,
	MEMORY_GRADIENTS,	/* sums over microbatches */
	MEMORY_OPTIMIZER,
	MEMORY_OTHER,		/* inputs, results, other states and sums */
	MEMORY_PIPELINE,	/* sent values until the receiver has them */
	MEMORY_SAVES,		/* from forward to backward, in slots */
	MEMORY_TEMPS,		/* of one run of one function */
	MEMORY_NKINDS
};

extern const char *const memory_kind_names[MEMORY_NKINDS];

/*
 * Between which functions of a microbatch a save lives.  Saves of one span
 * share a slot.  Those outside of repeats have spans of their own, since their
 * sizes differ from stage to stage and those of layers do not.
 */
enum memory_span {
	MEMORY_TO_INPUT,	/* forward to backward, or its input half */
	MEMORY_TO_WEIGHTS,	/* forward to backward's weight half */
	MEMORY_BETWEEN,		/* backward's input half to its weight half */
	MEMORY_TOP,		/* the same three outside of repeats */
	MEMORY_NSPANS = 2 * MEMORY_TOP
};

/*
 * Items of one size, side by side: one for each iteration of the repeats that
 * they depend on.  Of these there are `copies`, one for each slot or
 * microbatch, `apart` bytes from one to the next.
 */
struct memory_buffer {
	enum memory_kind kind;
	enum memory_span span;	/* of saves */
	uint32_t pipe, stage;	/* stage UINT32_MAX: of the whole rank */
	func_id func;		/* of temps and sent values; 0: any */
	sym_t name;		/* of tensors and saves */
	value_id value;		/* one that lies here; 0: none alone */
	int64_t offset;		/* in the arena of its rank */
	int64_t bytes;		/* of an item, aligned */
	int64_t items, first;	/* first: of the outermost repeat's variable */
	uint32_t levels;	/* repeats that count, from the outermost */
	bool in_layers;		/* of tensors: each layer has one */
	uint32_t copies;
	int64_t apart;
	uint32_t from, to;	/* of temps: steps of the function */
};

enum memory_role { MEMORY_FIXED_PLACE, MEMORY_INIT, MEMORY_PARAM,
		   MEMORY_MADE, MEMORY_RESULT };

/* Where a value lies: in a buffer, or as one role of a carried value. */
struct memory_value {
	uint32_t buffer;	/* plus 1; 0: see `carry` */
	uint32_t carry;		/* plus 1 */
	enum memory_role role;
};

/*
 * A value that a repeat carries through N iterations has N + 1 instances: x0
 * before the first iteration, xN after the last.  x0 lies where `init` does
 * and xN where `result` does, unless first_here or last_here is set; all
 * others lie at at[t % 2].  If at[] is a buffer of saves it has an item for
 * each iteration, and x_t is item t + shift.  Where `init` is not in x0's
 * place, or `made` of iteration t not in that of x_(t+1), it is copied.
 */
struct memory_carry {
	node_id repeat;
	value_id init, param, made, result;
	uint32_t depth;		/* repeats around the repeat */
	uint32_t at[2];		/* buffers, plus 1 */
	uint32_t last;		/* where an iteration last reads the old one */
	int shift;
	bool first_here, last_here;
};

/* A value that is sent to another stage. */
struct memory_send {
	node_id node;
	value_id value;
	uint32_t stage, to;
	uint32_t buffer;	/* plus 1: it waits there; 0: where it is */
	bool staged;		/* it is copied there */
};

struct memory_func {
	func_id func;
	int64_t bytes, bound;	/* temps as packed; the most alive at once */
	uint32_t at_step;	/* the step where most are alive */
	node_id at_node;	/* the first node of that step's kernel */
};

struct memory_stage {
	uint32_t rank;
	int64_t fixed[MEMORY_PIPELINE];	/* by kind, of the tensors it uses */
	/* of those, weights and gradients that layers have */
	int64_t in_layers[MEMORY_OPTIMIZER];
	struct {
		int64_t bytes;		/* of one microbatch */
		uint32_t slots;		/* of its own, if it shared none */
		uint32_t pool;
	} saves[MEMORY_NSPANS];
	/* by microbatch, in its pool; set by memory_assign_slots */
	uint32_t *slot[MEMORY_NSPANS];
	int64_t window;	/* where what two layers have on the host passes */
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
	int64_t by[MEMORY_NKINDS];	/* on the device */
	int64_t away[MEMORY_NKINDS];	/* on the host or its drives */
	int64_t reserve, total;
	int64_t host_at;	/* where in the arena what is there begins */
	int64_t device;		/* bytes that its device has; 0: not known */
	int64_t host;		/* all in the host's memory; not in total */
	int64_t drives;		/* on its drives; not in host */
	int64_t bound;		/* the most alive at once, plus reserve */
	struct memory_func update;
	struct memory_func peak;	/* the function with the most temps */
};

struct memory {
	struct memory_stage *stage;
	struct memory_rank *rank;	/* of the pipeline */
	uint32_t nstages, nranks;
	uint32_t fullest;	/* the rank with least left, else most bytes */
	uint32_t offload;	/* of the plan: enum plan_offloaded */
	VEC(struct memory_buffer) buffers;
	struct memory_value *value;	/* by value */
	const bool *apart;	/* see memory_apart */
	uint32_t *tensor;	/* by node that names one: buffer, plus 1 */
	VEC(struct memory_carry) carries;
	VEC(struct memory_pool) pools;
	VEC(struct memory_send) sends;
	struct kernels *const *kernels;	/* by function */
};

/* ---- memory.c --------------------------------------------------------- */

/*
 * Lays out the arenas of all ranks of the pipeline, in arena a.  `all` are the
 * kernels of the module by function, of which those without kernels are left
 * out; NULL: ranks_kernels.  `reserve` bytes are added to each rank.  False:
 * *why says what has no place.
 */
bool memory_plan(const struct ranks *r, struct kernels *const *all,
		 int64_t reserve, struct arena *a, struct memory *out,
		 const char **why);
/*
 * The same without where anything lies: which buffers there are, with their
 * bytes, and of functions when temps are alive and `bound`.  Ranks and the
 * slots of stages are left out.
 */
bool memory_measure(const struct ranks *r, struct kernels *const *all,
		    struct arena *a, struct memory *out, const char **why);

/*
 * Sets what the devices have on which the ranks lie, adds memory_reserve() to
 * each rank, and makes `fullest` the rank that has least left.
 */
void memory_set_devices(struct memory *m, const struct ranks *r,
			const struct target_devs *s, struct arena *a);

/*
 * Of what is offloaded: the host with least left in its memory, or on its
 * drives, as target_fullest_host.
 */
struct target_host memory_host(const struct memory *m, const struct ranks *r,
			       const struct target *t, bool drives,
			       struct arena *a);
/* Whether it fits into the memory of all hosts, as far as is known. */
bool memory_fits_hosts(const struct memory *m, const struct ranks *r,
		       const struct target *t, struct arena *a);

/* Whether what of that kind lies on hosts by `offload` is on their drives. */
bool memory_on_drives(uint32_t offload, enum memory_kind kind);

/* ---- memory_history.c ------------------------------------------------- */

/* What is in use while an action runs, beside what always is. */
struct memory_moment {
	/* on the device, windows included; after: once it has ended */
	int64_t saves, after;
	const struct memory_func *func;	/* whose temps are in use */
};

/* By action of a list that a rank of the pipeline runs; in arena a. */
struct memory_moment *memory_history(const struct memory *mem,
				     const struct sched_list *l,
				     struct arena *a);

/* ---- memory_rows.c ---------------------------------------------------- */

/*
 * By value: whether its rows lie ir_row_pitch apart, of these kernels by
 * function.
 */
bool *memory_apart(const struct ir_module *m, struct kernels *const *all,
		   struct arena *a);
/* Bytes of a value on the rank that has most of it, with what is between
 * rows; `apart` is that of memory_apart. */
double memory_value_bytes(const struct ir_module *m, const bool *apart,
			  value_id v);

/* ---- memory_slots.c --------------------------------------------------- */

/*
 * Sets which slot of its pool each microbatch has, in arena a.  Needed before
 * an address of a save is computed.
 */
void memory_assign_slots(const struct ranks *r, struct arena *a,
			 struct memory *mem);

/* ---- memory_where.c --------------------------------------------------- */

/* The iterations that are running, from the innermost repeat outwards. */
struct memory_iterations {
	const struct ir_node *repeat;
	int64_t index;		/* 0: the first that runs */
	const struct memory_iterations *outer;
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
		  const struct memory_iterations *at, struct memory_spot *out);
/* Of a carried value after t iterations of its repeat. */
bool memory_carried(const struct memory_run *run, uint32_t carry, int64_t t,
		    const struct memory_iterations *around,
		    struct memory_spot *out);
/* Of an item of a buffer. */
struct memory_spot memory_item(const struct memory_run *run, uint32_t buffer,
			       const struct memory_iterations *at);

/* ---- memory_pack.c ---------------------------------------------------- */

/* Bytes that are needed from one step to another, both included. */
struct memory_block {
	int64_t bytes;		/* a multiple of MEMORY_ALIGN */
	uint32_t from, to;
	int64_t offset;		/* set by memory_pack */
};

/* The most bytes alive at once, a lower bound; *step: the first such step. */
int64_t memory_bound(struct arena *a, const struct memory_block *b,
		     uint32_t n, uint32_t *step);
/*
 * Sets the offset of each; returns the bytes that all of them need.  The memo,
 * which may be NULL, keeps that.
 */
int64_t memory_pack(struct memo *memo, struct arena *a, struct memory_block *b,
		    uint32_t n);

/* ---- memory_scratch.c ------------------------------------------------- */

/*
 * An upper bound of what a kernel needs: `base` bytes, and `per_byte` for each
 * byte that it reads or writes, but never more than `most`.
 */
struct memory_scratch_bound {
	int64_t base;
	double per_byte;
	int64_t most;
};

/*
 * The scratch that code needs on a rank beside the arena.  A code generator
 * states it, for all kernels that it can emit.
 */
struct memory_scratch {
	/* of all workers together, and of each alone */
	struct memory_scratch_bound shared[KERNEL_NKINDS], own[KERNEL_NKINDS];
	int64_t workers;
	int64_t fixed;		/* of each program */
	double per_gathered;	/* for each byte of gathered keys and values */
	/*
	 * Of each worker, for attention: for each element along a head's dims
	 * of keys and values; and the f32 gradient of all queries of a kv
	 * head, if it takes at most so much.
	 */
	double own_per_head_elem;
	int64_t most_joint;
	/*
	 * Sums of the gradients of queries, of attention whose heads have more
	 * than `above` and at most `upto` elements: bytes of each query of each
	 * head, in all at most `most`.
	 */
	struct {
		double above, upto, per_query;
		int64_t most;
	} sums;
	bool packs;		/* collectives pack what is not contiguous */
	bool in_reserve;	/* the device's reserve has space for it */
};

/*
 * At most so many bytes on any rank; `all`: the kernels of the module by
 * function.
 */
int64_t memory_scratch_bytes(const struct ranks *r, struct kernels *const *all,
			     const struct memory_scratch *s);

/* ---- memory_check.c --------------------------------------------------- */

/*
 * Runs all ranks with places instead of numbers, and holds every read to find
 * what was written there last.  It calls memory_where.c and nothing else of
 * this folder.  NULL, or what is wrong, in ctx->tmp.
 */
const char *memory_check(const struct ranks *r, const struct memory *mem);

/* ---- memory_graphs.c -------------------------------------------------- */

/* How many kernels the graphs of a step have, by rank of the pipeline, as code
 * generation launches them on those devices. */
double *memory_graph_kernels(const struct ranks *r, const struct memory *mem,
			     const struct target_devs *s, struct arena *a);
/*
 * Bytes that no plan has of a device: what its target reserves, or what graphs
 * of so many kernels take, if that is more.  0 where the target says nothing.
 */
double memory_reserve(const struct target_device *d, double graph_kernels);
/* A line about the fullest rank of a GPU: what graphs of its step take. */
void memory_print_graphs(const struct ranks *r, const struct memory *mem,
			 const struct target_devs *s, struct buf *out);

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

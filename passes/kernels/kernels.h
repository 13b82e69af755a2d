/*
 * Kernel groups: which nodes of a function a back end emits as one kernel.
 * This is an analysis; it changes nothing.  What a group computes and only
 * uses itself never touches memory.  docs/kernels.md is the page about it.
 *
 * Sizes are those of one rank's pieces, of the rank that has most.
 */
#ifndef PASSES_KERNELS_H
#define PASSES_KERNELS_H

#include "ir/ir.h"

enum kernel_kind {
	KERNEL_MAP,		/* element by element, of one shape */
	KERNEL_ROWWISE,		/* sums over rows, and maps around them */
	KERNEL_CONTRACTION,	/* with the maps behind it */
	KERNEL_ATTENTION,	/* forward, or all of backward */
	KERNEL_MOVE,		/* gather, scatter, a copy */
	KERNEL_OPTIMIZER,	/* a tensor's step, or its part of the norm */
	KERNEL_COLLECTIVE,	/* ranks talk */
	KERNEL_REPEAT,		/* no kernel: a loop of such */
	KERNEL_CALL,		/* no kernel: another function's */
	KERNEL_NKINDS
};

/* One value that a kernel reads from memory, or writes. */
struct kernel_use {
	value_id value;		/* what lies in memory, no view of it */
	double bytes;		/* of it that are touched */
};

/* 2 * batch * groups' rows m * n * k flops. */
struct kernel_dot {
	double batch, m, n, k;
	double groups;		/* matrices to choose from; 1: no choice */
};

struct kernel_attention {
	double batch, heads, kv, s, t, d, v;
	double pairs;		/* (query, key) pairs in all of it */
	int64_t window;		/* 0: none */
	bool causal;
};

struct kernel_coll {
	uint32_t axes;		/* bit a: along axis a */
	uint16_t op;		/* enum ir_op */
	double bytes;		/* the larger of what goes in and comes out */
	uint32_t n;		/* COLLECTIVE: so many are one call */
};

#define KERNEL_MAX_COLLS 32
#define KERNEL_MAX_PARTS 64

/* How a kernel runs by parts: an equal share of these dims each time. */
struct kernel_parts {
	uint32_t n, ndims;
	struct {
		dim_id dim;
		uint32_t cut;
		int64_t by;
	} at[IR_MAX_DIMS];	/* outermost first */
};

struct kernel_list;

/* What a kernel takes: the same of all that are alike, wherever they stand. */
struct kernel_work {
	double flops, read_bytes, write_bytes;
	const struct ir_type *shape;	/* rows of ROWWISE, else what it runs
					 * over */
	struct kernel_dot dot;
	const struct kernel_attention *attention;	/* ATTENTION, or NULL */
	struct kernel_coll coll;	/* axes 0: it does not */
};

struct kernel {
	enum kernel_kind kind;
	uint32_t ncopies;	/* of its nodes, the first: another's too */
	VEC(node_id) nodes;	/* as they stand in the region */
	VEC(struct kernel_use) inputs, outputs;
	const struct kernel_work *work;
	/*
	 * COLLECTIVE: it goes on beside others, and the one of that place in
	 * the list waits for it; 0: the next one may.  A contraction's, by
	 * parts: that talk's part follows each of its own.
	 */
	uint32_t until;
	const struct kernel_parts *parts;	/* NULL: it runs whole */
	struct kernel_list *body;	/* REPEAT */
};

/* The kernels of one region in running order. */
struct kernel_list {
	region_id region;
	int64_t count;		/* trips; 1 of a function's own */
	/* a hash of all of it but bodies and parts; 0: not known */
	struct hash content;
	struct arena *arena;	/* where it lives */
	VEC(struct kernel) at;
	VEC(node_id) free;	/* nodes that need no kernel */
};

struct kernels {
	func_id func;
	struct kernel_list *top;
	/* of one run, all trips */
	double nkernels, flops, read_bytes, write_bytes;
};

/* ---- fuse.c ------------------------------------------------------------ */

struct fuse;
struct memo;

/* Of one function, called or inlined, placed or not; memo may be NULL. */
struct kernels *kernels_find(struct ir_module *m, func_id f,
			     struct memo *memo, struct arena *a);
/* Of all functions, by func_id; quicker than one by one. */
struct kernels **kernels_all(struct ir_module *m, struct memo *memo,
			     struct arena *a);
/*
 * For a module whose kernels are asked for again and again, while nothing of
 * it changes but how long dims and axes are; it lives in arena a.
 */
struct fuse *kernels_open(struct ir_module *m, struct memo *memo,
			  struct arena *a);
/* Of these functions, 0 being none, those that `all` lacks, in arena a. */
void kernels_some(struct fuse *f, const func_id *ids, uint32_t n,
		  struct arena *a, struct kernels **all);
/* Of one region of a function, and those inside, alone. */
struct kernel_list *kernels_inside(struct fuse *f, func_id func, region_id r,
				   struct arena *a);
/* "rowwise" */
const char *kernel_kind_name(enum kernel_kind kind);

/* ---- joins.c ----------------------------------------------------------- */

struct target;
/* From here on collectives of the module are joined as it pays there. */
void kernels_join_for(struct ir_module *m, const struct target *t);

/* ---- fuse_facts.c ------------------------------------------------------ */

/* Bytes of a value on the rank that has most of it. */
double kernel_bytes(const struct ir_module *m, value_id v);
/*
 * What has to be kept free for it: the same, but of rows that are routed
 * those of all ranks, where the module's setting `memory.routed` is `all`.
 */
double kernel_reserved_bytes(const struct ir_module *m, value_id v);
/* Whether a kernel reads the value; makes it; reads what another makes. */
bool kernel_reads(const struct kernel *k, value_id v);
bool kernel_makes(const struct kernel *k, value_id v);
bool kernel_needs(const struct kernel *k, const struct kernel *maker);

/* ---- parts.c ------------------------------------------------------------ */

/* The place of the contraction beside a talk of the list; false: none. */
bool parts_pair(struct ir_module *m, const struct kernel_list *l,
		uint32_t coll, uint32_t *dot);
/* Both in n parts; false: these are no n equal pieces. */
bool parts_of(struct ir_module *m, const struct kernel *coll,
	      const struct kernel *dot, uint32_t n,
	      struct kernel_parts *out);
/* The same in two steps: of the talk's operand, then of all else. */
bool parts_cut(const struct ir_module *m, const struct kernel *coll,
	       uint32_t n, struct kernel_parts *out);
bool parts_fit(struct ir_module *m, const struct kernel *coll,
	       const struct kernel *dot, const struct kernel_parts *p);
/* Whether these fit or do not fit alike, in more or fewer parts. */
bool parts_alike(const struct kernel_parts *a, const struct kernel_parts *b);
/* From here on both run so, while p stays where it is; and no longer. */
void parts_set(struct kernel_list *l, uint32_t coll, uint32_t dot,
	       const struct kernel_parts *p);
void parts_clear(struct kernel_list *l, uint32_t coll, uint32_t dot);
/* Whether it follows, part by part, the contraction right before it. */
bool parts_led(const struct kernel_list *l, uint32_t coll);
/* The same for all whose node says `chunks`; whether one does. */
bool parts_read(struct ir_module *m, struct kernel_list *l);

/* One part, as a kernel of its own, in arena a. */
void parts_kernel(struct ir_module *m, const struct kernel *k,
		  struct arena *a, struct kernel *out);
/* Whether a part has its share of the value, and not all of it. */
bool parts_has(const struct ir_module *m, const struct kernel *k, value_id v);
/*
 * Between these two the module's dims are as long as a part of the kernel has
 * them, so that whoever asks for sizes finds those.
 */
void parts_open(struct ir_module *m, const struct kernel *k);
void parts_close(struct ir_module *m, const struct kernel *k);

/* ---- kernels_print.c --------------------------------------------------- */

/* "contraction 4096x128x8192 dot: v by v_proj", the columns of one kernel. */
void kernel_print(const struct ir_module *m, const struct kernel *k,
		  struct buf *out);
/* A table per function. */
void kernels_print(struct ir_module *m, struct kernels *const *all,
		   struct buf *out);

#endif

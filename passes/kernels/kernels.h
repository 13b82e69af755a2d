/*
 * Which nodes of a function become one kernel, in which order kernels run, and
 * what each of them reads, writes and computes.  An analysis that reads IR and
 * plan settings and knows no target: it changes nothing, and the same function
 * has the same kernels for the price, memory, the checker and code
 * generation.  A value that only its own kernel reads never touches
 * memory.  docs/kernels.md is the page about it.
 *
 * Sizes are those of one rank's pieces, of the rank that has most.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_KERNELS_H
#define PASSES_KERNELS_H

#include "ir/ir.h"

enum kernel_kind {
	KERNEL_MAP,		/* element by element, of one shape */
	KERNEL_ROWWISE,		/* reductions over rows, with maps */
	KERNEL_CONTRACTION,	/* with the maps that follow it */
	KERNEL_ATTENTION,	/* forward, or all of backward */
	KERNEL_MOVE,		/* gather, scatter, a copy */
	KERNEL_OPTIMIZER,	/* a tensor's step, or its part of the norm */
	KERNEL_COLLECTIVE,	/* communication of a group of ranks */
	KERNEL_REPEAT,		/* no kernel: a loop of kernels */
	KERNEL_CALL,		/* no kernel: another function */
	KERNEL_NKINDS
};

/* One value that a kernel reads from memory, or writes. */
struct kernel_use {
	value_id value;		/* the value in memory, not a view of it */
	double bytes;		/* of it that are read or written */
};

/* 2 * batch * groups' rows m * n * k flops. */
struct kernel_dot {
	double batch, m, n, k;
	double groups;		/* matrices that rows choose from; 1: none */
};

struct kernel_attention {
	double batch, heads, kv, s, t, d, v;
	double pairs;		/* (query, key) pairs in all of it */
	int64_t window;		/* keys a query sees, or is expected to; 0:
				 * all */
	bool causal;
};

struct kernel_coll {
	uint32_t axes;		/* bit a: along axis a */
	uint16_t op;		/* enum ir_op */
	double bytes;		/* the larger of operand and result */
	uint32_t n;		/* COLLECTIVE: so many in one call */
};

#define KERNEL_MAX_COLLS 32
#define KERNEL_MAX_PARTS 64
#define KERNEL_MAX_LAUNCH 4

/* How a kernel runs in parts: each has an equal share of these dims. */
struct kernel_parts {
	uint32_t n, ndims;
	struct {
		dim_id dim;
		uint32_t cut;
		int64_t by;
	} at[IR_MAX_DIMS];	/* outermost first */
};

struct kernel_list;

/* The work of a kernel; equal kernels may share one. */
struct kernel_work {
	double flops, read_bytes, write_bytes;
	const struct ir_type *shape;	/* rows of ROWWISE, else what it runs
					 * over */
	struct kernel_dot dot;
	const struct kernel_attention *attention;	/* ATTENTION, or NULL */
	struct kernel_coll coll;	/* axes 0: it has none */
	bool sums;	/* it ends in sums over all of its rows */
};

/*
 * Contractions of one launch, which follow each other in their list.  They read
 * one operand; or, with `sums`, each but the first adds the result of the one
 * before to its own: the last one's result is the sum of all their products.
 * With `paired` there are two with one left operand, and what follows the
 * second one's product reads what the first one makes, each element where it
 * computes one: so a tile of both has all that it needs.
 */
struct kernel_launch {
	uint32_t n, at;		/* so many; the one that has this */
	bool sums, paired;
	/* paired: which outputs of the first one, by place, bit 0 the first,
	 * nothing else reads */
	uint32_t unread;
	bool by_rows;		/* they read one right operand, else left */
	const struct kernel *of[KERNEL_MAX_LAUNCH];
};

struct kernel {
	enum kernel_kind kind;
	uint32_t ncopies;	/* its first nodes, which others compute too */
	VEC(node_id) nodes;	/* copies, then all others, in their order */
	VEC(struct kernel_use) inputs, outputs;
	const struct kernel_work *work;
	/*
	 * COLLECTIVE: the place in the list of the kernel that waits for it, if
	 * it runs beside those before that; 0: the next one waits.  Of a
	 * contraction in parts: the collective whose parts follow its own.
	 */
	uint32_t until;
	const struct kernel_parts *parts;	/* NULL: it runs as a whole */
	const struct kernel_launch *launch;	/* NULL: its own */
	/* of a whole launch (kernel_of_launch): its contractions; else none */
	VEC(struct kernel) members;
	struct kernel_list *body;	/* REPEAT */
};

/* The kernels of one region in running order. */
struct kernel_list {
	region_id region;
	int64_t count;		/* iterations; 1 of a function's own */
	/* a hash of all of it but bodies and parts; 0: not known */
	struct hash content;
	struct arena *arena;	/* where it lives */
	VEC(struct kernel) at;
	VEC(node_id) free;	/* nodes that need no kernel */
};

struct kernels {
	func_id func;
	struct kernel_list *top;
	/* of one run, all iterations */
	double nkernels, flops;
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
 * For a module of which only the lengths of dims and axes change between calls
 * of the functions below; it lives in arena a.
 */
struct fuse *kernels_open(struct ir_module *m, struct memo *memo,
			  struct arena *a);
/* Fills `all` for those of these functions, 0 being none, that it lacks. */
void kernels_some(struct fuse *f, const func_id *ids, uint32_t n,
		  struct arena *a, struct kernels **all);
/* Of one region of a function, and those inside. */
struct kernel_list *kernels_inside(struct fuse *f, func_id func, region_id r,
				   struct arena *a);
/* "rowwise" */
const char *kernel_kind_name(enum kernel_kind kind);


/* ---- fuse_facts.c ------------------------------------------------------ */

/* Bytes of a value on the rank that has most of it. */
double kernel_bytes(const struct ir_module *m, value_id v);
/*
 * The capacity for it: the same, but with the rows of all ranks if the value is
 * routed and the module's setting `memory.routed` is `all`.
 */
double kernel_reserved_bytes(const struct ir_module *m, value_id v);
/* Whether a kernel reads v; writes v; reads what `maker` writes. */
bool kernel_reads(const struct kernel *k, value_id v);
bool kernel_makes(const struct kernel *k, value_id v);
bool kernel_needs(const struct kernel *k, const struct kernel *maker);
/* Whether that node is one of the kernel's. */
bool kernel_has_node(const struct kernel *k, node_id id);

/* ---- launch.c ----------------------------------------------------------- */

/* Whether it has no launch of its own, but is in that of one before it. */
static inline bool
kernel_follows(const struct kernel *k)
{
	return k->launch && k->launch->at > 0;
}
/* Whether v is handed from one member of the launch to another and in no
 * memory, if it is one launch. */
bool kernel_hands_on(const struct kernel_launch *l, value_id v);
/* What it reads and writes; of a member of a launch, but for what another one
 * hands to it, an earlier one reads too, or it hands on. */
void kernel_member_bytes(const struct kernel *k, double *read, double *write);
/* The whole launch that begins with kernel i of the list, as one kernel.  What
 * one member hands to another is in no memory then. */
void kernel_of_launch(const struct kernel_list *l, uint32_t i,
		      struct arena *a, struct kernel *out);

/* ---- parts.c ------------------------------------------------------------ */

/* The contraction that can run in parts with a collective; false: none. */
bool parts_pair(struct ir_module *m, const struct kernel_list *l,
		uint32_t coll, uint32_t *dot);
/* Both in n parts; false: they have no n equal parts. */
bool parts_of(struct ir_module *m, const struct kernel *coll,
	      const struct kernel *dot, uint32_t n,
	      struct kernel_parts *out);
/* The same in two steps: of the collective's operand, then of all else. */
bool parts_cut(const struct ir_module *m, const struct kernel *coll,
	       uint32_t n, struct kernel_parts *out);
bool parts_fit(struct ir_module *m, const struct kernel *coll,
	       const struct kernel *dot, const struct kernel_parts *p);
/* Whether parts_fit is the same for both, whatever their number. */
bool parts_alike(const struct kernel_parts *a, const struct kernel_parts *b);
/* Lets both run in parts p, which must outlive l; and as a whole again. */
void parts_set(struct kernel_list *l, uint32_t coll, uint32_t dot,
	       const struct kernel_parts *p);
void parts_clear(struct kernel_list *l, uint32_t coll, uint32_t dot);
/* Whether its parts follow those of the contraction right before it. */
bool parts_led(const struct kernel_list *l, uint32_t coll);
/* Sets the parts of all nodes with an attribute `chunks`; true: of any. */
bool parts_read(struct ir_module *m, struct kernel_list *l);

/* One part, as a kernel of its own, in arena a. */
void parts_kernel(struct ir_module *m, const struct kernel *k,
		  struct arena *a, struct kernel *out);
/* Whether a part reads or writes a share of v, not all of it. */
bool parts_has(const struct ir_module *m, const struct kernel *k, value_id v);
/*
 * Between these two the module's dims have the lengths that a part of the
 * kernel has, so that sizes which are computed then are those of a part.
 */
void parts_open(struct ir_module *m, const struct kernel *k);
void parts_close(struct ir_module *m, const struct kernel *k);

/* ---- kernels_print.c --------------------------------------------------- */

/* Kind, shape, ops and names of one kernel, in columns. */
void kernel_print(const struct ir_module *m, const struct kernel *k,
		  struct buf *out);
/* The same text with one blank between its words, in arena a. */
const char *kernel_squeezed(const char *text, struct arena *a);
/* "all_reduce x on tp" of value v and the node that communicates it. */
const char *kernel_coll_text(const struct ir_module *m,
			     const struct ir_node *n, value_id v,
			     uint32_t axes, struct arena *a);
/* The same of a whole kernel: "all_reduce x on tp, and 6 more". */
const char *kernel_comm_text(const struct ir_module *m,
			     const struct kernel *k, struct arena *a);
/* Whether contractions of that kernel's launch share it. */
typedef bool kernel_shares(const struct kernel *k, void *user_data);
/* A table per function; `shares` NULL: all launches are shared. */
void kernels_print(struct ir_module *m, struct kernels *const *all,
		   kernel_shares *shares, void *user_data, struct buf *out);

#endif

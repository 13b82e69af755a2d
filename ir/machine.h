/*
 * The reference interpreter as a machine that can be suspended: it runs a
 * function until that ends or needs data of another rank, returns what it
 * needs, and continues when it has been given that. ir_eval is one machine that
 * runs alone; passes/sim/sim.c runs one per rank.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef IR_MACHINE_H
#define IR_MACHINE_H

#include "ir/ir.h"

/* ---- interp_pool.c: what machines of one run share --------------------- */

struct interp_block;

/*
 * Memory, and how long each value lives.  While a pool is open, the context's
 * allocation gate is replaced by one that on failure first releases all that
 * the pool holds, then calls the run's own hook: a hook that longjmps past
 * the pool's owner leaks nothing.
 */
struct ir_pool {
	struct ir_module *m;	/* must not change meanwhile */
	int64_t max_bytes;	/* refuse to hold more than this; 0: no limit */
	struct mem outer;	/* the run's gate, which ours replaces */
	struct arena own;	/* released with the pool */
	struct interp_block *blocks;	/* all that are in use */
	int64_t held_bytes;
	region_id *home;	/* by value: the region it belongs to */
	value_id *first_dead;	/* by node: what nobody uses after it ... */
	value_id *next_dead;	/* ... linked by value */
	struct ir_needs *needs;	/* not NULL: nothing is computed, see below */
};

void ir_pool_open(struct ir_pool *p, struct ir_module *m, int64_t max_bytes);
/* Releases everything, also what is in use. */
void ir_pool_close(struct ir_pool *p);
/* Memory for elems doubles, not set; NULL after an error: it is too much. */
double *ir_pool_get(struct ir_pool *p, struct span at, int64_t elems);
void ir_pool_put(struct ir_pool *p, double *data);

/* ---- interp.c: machines ------------------------------------------------ */

/* Which rank a machine is. */
struct ir_rank {
	uint32_t at[IR_MAX_AXES + 1];	/* its coordinates, by axis */
	uint32_t microbatch;
	/* Hands a value to another stage. */
	bool (*send)(void *user, const struct ir_node *n, const char *name,
		     const double *data, int64_t elems);
	void *user;
};

enum ir_state {
	IR_ENDED,
	IR_FAILED,		/* it reported an error */
	IR_EXCHANGES,		/* with ranks of its group */
	IR_SHARES,		/* with other stages, by a name */
	IR_RECEIVES		/* from another stage, by a name */
};

/* What a machine waits for, and what it offers to others. */
struct ir_post {
	enum ir_state state;
	node_id node;
	uint32_t step;		/* exchanges of this node so far */
	uint32_t axes;		/* EXCHANGES: the group's, bit a for axis a */
	const char *name;	/* SHARES, RECEIVES: full */
	const double *data;
	int64_t elems;
};

/* What a rank of the group offered; peers are in the order of the group. */
struct ir_peer {
	uint32_t at[IR_MAX_AXES + 1];	/* its coordinates then */
	const double *data;
	int64_t elems;
};

/*
 * What a run takes, found without computing anything.  Blocks have no data, and
 * a repeat runs at most twice: its second iteration begins with the values that
 * it carries and so holds at least as much as the first; the others are like
 * it.
 */
struct ir_needs {
	int64_t nodes;		/* that run; INT64_MAX: or more */
	int64_t stored_bytes;	/* given to `store` */
	int64_t gradient_bytes;	/* read by `gradient` */
};

struct interp;

/*
 * Adds to *needs what f takes on this rank (NULL: alone).  False, after an
 * error, if it would hold more than p->max_bytes, scratch of single ops not
 * counted, or run more than IR_MAX_RUN_NODES nodes.
 */
bool ir_machine_count(struct ir_pool *p, const struct ir_rank *rank,
		      func_id f, struct ir_needs *needs);
/*
 * Of interp_pool.c: a machine in the pool.  opt->func is ignored; rank NULL: it
 * runs alone.
 */
struct interp *ir_machine_new(struct ir_pool *p,
			      const struct ir_eval_options *opt,
			      const struct ir_rank *rank);
/* Starts a function that has no operands. */
void ir_machine_start(struct interp *e, func_id f);
enum ir_state ir_machine_run(struct interp *e);
const struct ir_post *ir_machine_post(const struct interp *e);
/*
 * Copies what the peers offered, so that the machine can continue; it is peer
 * `me`.
 */
bool ir_machine_give(struct interp *e, const struct ir_peer *peers,
		     uint32_t n, uint32_t me);
/* Where it is: "stage0_forward/repeat[3]/block". */
const char *ir_machine_where(struct interp *e);
/* Result k of the function that ended; false if there are fewer. */
bool ir_machine_result(const struct interp *e, uint32_t k,
		       struct ir_eval_result *out);
/* The name of a value that was saved and not read, or NULL. */
const char *ir_machine_unused(const struct interp *e);

/* ---- interp_io.c: names ------------------------------------------------- */

/*
 * Calls fn for each node with a name that f would run, in order, with its full
 * name; that of a stacked tensor still contains {dim}.
 */
void ir_each_name(struct ir_pool *p, func_id f,
		  void (*fn)(void *user, const struct ir_node *n,
			     const char *name), void *user);

#endif

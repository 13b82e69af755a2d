/*
 * The time of a step of rank programs on a target: of each kernel and
 * collective by the formulas of cost.h, of each function as their sum, then of
 * the schedule and the update.  It reads rank programs, their kernels and
 * their schedule (stage/, kernels/, sched/) and changes none of them.
 *
 * The search calls price_list and price_pipeline for each plan that it
 * compares, the answer and --emit=cost price_step.  docs/cost.md is the page
 * about it.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_PRICE_H
#define PASSES_PRICE_H

#include "passes/price/cost.h"
#include "passes/kernels/kernels.h"
#include "passes/stage/ranks.h"

/*
 * TRAIT(field, name, word of false, word of true, what true means): how other
 * software than llmc runs a step, where that changes the time.  llmc's own
 * code has none of them.
 */
#define PRICE_TRAITS(TRAIT) \
	TRAIT(unfused, "attention", "flash", "unfused", \
	      "attention writes its scores to memory") \
	TRAIT(lone_softmax, "softmax", "fused", "alone", \
	      "unfused attention scales and masks in kernels of their own") \
	TRAIT(first_flash, "flash", "2", "1", \
	      "flash attention is that before FlashAttention-2") \
	TRAIT(five_products, "flash_backward", "own", "five", \
	      "flash attention's backward is one kernel, of five products") \
	TRAIT(sm80_code, "instructions", "native", "sm_80", \
	      "attention uses the matrix instructions of sm_80") \
	TRAIT(overlap_data, "dp_overlap", "0", "1", \
	      "collectives of data ranks overlap with computation") \
	TRAIT(overlap_tensor, "tp_overlap", "0", "1", \
	      "collectives of tensor ranks overlap with contractions") \
	TRAIT(lone_maps, "maps", "fused", "alone", \
	      "no map is fused with a contraction") \
	TRAIT(lone_norms, "norms", "fused", "alone", \
	      "norms and rotary embeddings are kernels of single fp32 steps") \
	TRAIT(wide_logits, "logits", "fused", "fp32", \
	      "the loss reads fp32 logits, kernel by kernel") \
	TRAIT(whole_layers, "rebuild", "needed", "whole", \
	      "a layer is recomputed to its end") \
	TRAIT(alternate, "selective", "attention", "alternate", \
	      "backward computes every second contraction of a layer again") \
	TRAIT(lone_sums, "gradients", "fused", "alone", \
	      "separate kernels add up gradients") \
	TRAIT(wide_sums, "sums", "own", "fp32", \
	      "gradients of bf16 are added up and reduced in fp32") \
	TRAIT(zeroed_sums, "first_sums", "stored", "added", \
	      "the first microbatch adds its gradients to zeros") \
	TRAIT(blocking, "sends", "async", "blocking", \
	      "a rank waits until what it sends is received") \
	TRAIT(narrow_products, "products", "own", "fp8", \
	      "all contractions of layers multiply 8 bits") \
	TRAIT(fused_narrowing, "narrowing", "alone", "fused", \
	      "kernels that make what is multiplied in 8 bits also narrow it") \
	TRAIT(eager, "launches", "native", "eager", \
	      "a framework's host launches each kernel as it runs")

struct price_traits {
#define TRAIT(field, name, no, yes, what) bool field;
	PRICE_TRAITS(TRAIT)
#undef TRAIT
};

struct price_trait {
	const char *name, *words[2], *what;
	size_t at;		/* of its bool in struct price_traits */
};

extern const struct price_trait price_traits_table[];
extern const uint32_t price_ntraits;

/*
 * A device computes slower while it communicates, as NCCL occupies some of its
 * units: this part of a collective's time shows even beside kernels.  Fitted
 * to mosaicml's runs.
 */
#define PRICE_SLOWED 0.4

enum price_part {
	PRICE_MATRIX, PRICE_ATTENTION, PRICE_MAPS, PRICE_COMM,
	PRICE_OFFLOAD, PRICE_HOST, PRICE_NPARTS
};

extern const char *const price_part_names[PRICE_NPARTS];

/* One run of a function or a kernel, in microseconds. */
struct price_func {
	double us[PRICE_NPARTS];
	double total_us;
	double data_us, tensor_us;	/* of its collectives: along dp, tp */
	double beside_us;	/* of those, what runs beside kernels */
	/* over the host's link: saves of layers, their weights and gradients */
	double saves_us, params_us;
	double drives_us;	/* the latter to and from the host's drives */
	/* of its maps, what the first run of a step does not take, which stores
	 * sums that others add to, and what of beside_us: price_first.c */
	double first_us, first_beside_us;
	/* what is counted in llmc's own code: of its contractions, what follows
	 * the products (price_epilogue.c); of its attention, what has prices of
	 * its own (cost_gradients.c) */
	double put_us, own_us;
	double kernels;		/* launched, about */
};

struct price {
	struct price_traits traits;
	uint32_t offload;	/* of the plan: enum plan_offloaded */
	struct price_func (*stage)[SCHED_NKINDS];	/* by stage */
	struct price_func *update;	/* by rank of the pipeline */
	struct price_func (*run)[SCHED_NKINDS];	/* with overlap and waits */
	/* by stage: its first action that gives gradients of its weights, as it
	 * runs, and which kind that is */
	struct price_func *first;
	uint8_t *first_kind;
	struct price_func *updated;	/* the same of `update` */
	double pipe_us;		/* all of the schedule's actions */
	double update_us;	/* of the slowest */
	double step_us;
	double hop_us;		/* of a value from stage to stage */
	double hops_us;		/* of the step, spent waiting for such values */
	/* of the busiest rank, its update included; set by price_busiest */
	double parts_us[PRICE_NPARTS];
};

/* What prices are computed for. */
struct pricing {
	const struct ranks *r;
	struct ir_module *m;
	const struct target_group *t;
	/* the groups that collectives along the pipeline cross; NULL: t */
	const struct target_group *across;
	const struct price_traits *traits;
	struct price_maps *maps;	/* of price_maps.c, or NULL */
	struct memo *memo;	/* of prices; NULL: nothing is kept */
};

/* ---- price.c ---------------------------------------------------------- */

/* Adds one run of a list, by kernel `each`, of which beside_us is hidden. */
void price_sum(struct pricing *p, const struct kernel_list *l,
	       const struct price_func *each, double beside_us,
	       struct price_func *once);
/* Adds the kernels of a repeat, times its iterations. */
void price_list(struct pricing *p, const struct kernel_list *l,
		struct price_func *f);
/* Of a value that is sent from a stage to the next, in microseconds. */
double price_hop(const struct pricing *p);
/* Every function, run once, in arena a; the rest of *out is 0. */
void price_functions(const struct ranks *r, const struct target_devs *t,
		     const struct price_traits *traits, struct arena *a,
		     struct price *out);
/*
 * From the times of functions to that of a step: reads `stage`, `update` and
 * `hop_us`, and writes all else but parts_us and hops_us.  Of a schedule with
 * a name it reads no actions.  False: the schedule stalls.
 */
bool price_pipeline(const struct sched *s, const struct price_traits *traits,
		    struct sched_briefs *briefs, struct arena *a,
		    struct price *out);
/*
 * When each action of a schedule that price_step has priced begins and ends,
 * in arena a.  The updates follow, at pipe_us.  False: the schedule stalls.
 */
bool price_timeline(const struct sched *s, const struct price *p,
		    struct arena *a, struct sched_timeline *out);
/* Sets parts_us of what price_pipeline has priced. */
void price_busiest(const struct sched *s, struct price *out);
/* Where ranks of programs lie on a target; in arena a. */
void price_devs(const struct ranks *r, const struct target *t,
		struct arena *a, struct target_devs *out);
/* price_functions and price_pipeline.  False: *why says what has no price. */
bool price_step(const struct ranks *r, const struct target_devs *t,
		const struct price_traits *traits, struct arena *a,
		struct price *out, const char **why);
void price_print(const struct ranks *r, const struct price *p,
		 struct buf *out);

/* ---- price_facts.c ---------------------------------------------------- */

/* Bytes at the rate of memory, without a launch. */
double price_bytes_us(const struct pricing *p, double bytes);
/* Adds n kernels of that kind that move so many bytes together. */
void price_bytes(const struct pricing *p, enum cost_kind kind, double bytes,
		 uint32_t n, struct price_func *f);
/*
 * The first node of the kernel with that flag and without the other; if there
 * is none, the first of all.
 */
const struct ir_node *price_main_node(const struct ir_module *m,
				      const struct kernel *k, uint32_t flag,
				      uint32_t without);
/* Adds to one part, and to all. */
void price_add_part(struct price_func *f, enum price_part part, double us);
/* Adds `times` runs of `from`. */
void price_add(struct price_func *to, const struct price_func *from,
	       double times);
/* The rate of the matrix units for operands of that enum ir_dtype. */
enum target_rate price_rate(uint8_t dtype);

/* ---- price_first.c ---------------------------------------------------- */

/* Whether it adds to the sum of gradients of a name. */
bool price_adds(const struct ir_node *n);
/*
 * How many bytes fewer a kernel moves in the first microbatch, in which sums of
 * gradients hold nothing yet; below zero: more.
 */
double price_first_bytes(const struct pricing *p, const struct kernel *k);
/* The part of a kernel's first_us that counts in each iteration of its list:
 * all, or if iterations share the sum, that of the first one. */
double price_first_share(const struct pricing *p, const struct kernel_list *l,
			 const struct kernel *k);
/* Makes *f the first run. */
void price_set_first(struct price_func *f);
/* Makes *f the mean of so many runs, one of which is the first. */
void price_set_mean(struct price_func *f, double runs);

/* ---- price_attention.c ------------------------------------------------ */

/* Adds one run of a kernel of attention, without communication. */
void price_attention_kernel(struct pricing *p, const struct kernel *k,
		     struct price_func *f);
/* Whether two kernels make the gradients that it has, with seven products. */
bool price_has_two_kernels(const struct pricing *p, const struct kernel *k);
/* Whether the code is llmc's own, with kernels for sm_90a: those have prices of
 * their own (cost_gradients.c). */
bool price_has_own_attention(const struct price_traits *t,
			     const struct target_device *d);
/* False: two do so, whatever else is in the kernel. */
bool price_may_have_one_kernel(const struct pricing *p,
			       const struct kernel *k);

/* ---- price_served.c --------------------------------------------------- */

/*
 * What a step of a program that serves is full of (cost_full_load), of which
 * prices of the program are: of so many positions and keys, with the requests
 * that its settings say.  False: it trains.
 */
bool price_load(const struct ir_module *m, double positions, double keys,
		struct cost_load *out);
/* Adds one run of attention to keys of a cache.  False: it is other
 * attention. */
bool price_cached_attention(struct pricing *p, const struct kernel *k,
			    struct price_func *f);
/* FLOPs of a kernel, and what it reads and writes: of attention to keys of a
 * cache, with the keys that it has; else as many as there may be. */
void price_kernel_work(const struct pricing *p, const struct kernel *k,
		       double *flops, double *bytes);

/* ---- price_contraction.c ---------------------------------------------- */

/* Adds one run of a kernel that is one, without communication. */
void price_contraction_kernel(struct pricing *p, const struct kernel *k,
			      struct price_func *f);
/* Of an element of a sum of gradients of that type. */
double price_sum_elem_bytes(const struct pricing *p, enum target_rate rate);
/* The rate of the matrix units for a contraction's operands. */
enum target_rate price_dot_rate(const struct pricing *p,
				const struct kernel *k);
/* price_copies.c: bytes that operand `arg` of a contraction is copied at a time
 * on a GPU: 16, 8, 4, 2 or 1. */
int64_t price_copy_bytes(const struct pricing *p, const struct kernel *k,
			 const struct ir_node *n, uint32_t arg);
/* Whether the code is llmc's own, with kernels by wgmma or tcgen05: these cut k
 * in the last wave of tiles alone. */
bool price_has_own_tail(const struct price_traits *t,
			const struct target_device *d);
/* Whether kernels of such a contraction, not of experts, do so. */
bool price_cuts_tail(const struct price_traits *t,
		     const struct target_device *d,
		     const struct cost_contraction *x);
/* Says by which instructions llmc's own kernels of it are, where it has not
 * own_tail: on devices with wgmma or tcgen05, of fewer than 16 rows, columns or
 * products of a sum by those of sm_80; and of experts by either. */
void price_set_unit(const struct price_traits *t, const struct target_device *d,
		    bool of_experts, struct cost_contraction *x);
/* What follows the products of llmc's own kernel of a contraction x, of which
 * rate and own_tail are read; shares: it shares a launch. */
struct cost_put price_put(struct ir_module *m, const struct target_device *d,
			  const struct kernel *k,
			  const struct cost_contraction *x, bool shares);
/* Whether contractions of one launch take less there than a launch of each;
 * code generation and prices both ask. */
bool price_shares_launch(const struct pricing *p, const struct kernel *k);
/* The kernel's contraction, and what the kernel writes of its result, as if all
 * operands could be copied 16 bytes at a time. */
struct cost_contraction price_dot(const struct pricing *p,
				  const struct kernel *k);

/* ---- price_epilogue.c, price_exprs.c ------------------------------------ */

/* Who puts sums away, by which kernels. */
enum price_putting {
	PRICE_PUT_TEAMS,	/* who multiplies by wgmma or tcgen05 what the
				 * copying unit loads (cuda_dot90_put.c) */
	PRICE_PUT_TILES,	/* all threads of a block
				 * (cuda_dot_epilogue.c) */
	PRICE_PUT_ROWS		/* they, row by row of experts, each of which a
				 * warp has (cuda_experts_at.c) */
};

/*
 * Issue slots of a thread for each element of a contraction's result, for what
 * follows the products in its kernel: with a store of the result, if nothing
 * else does.  `shares`: with others of its launch, whose sum so far, or what
 * the first of a pair computes, is then in registers.
 */
double price_put_slots(struct ir_module *m, const struct kernel *k,
		       enum price_putting by, bool shares);
/* The same, beyond those of a store of the result alone. */
double price_more_slots(struct ir_module *m, const struct kernel *k,
			enum price_putting by, bool shares);
/* All that other warps do for each, with sums that are rounded to the type of
 * the contraction's result; 0: who multiplies does it, as it needs no copy of
 * the sums in shared memory, or as that type is wider than 16 bits. */
double price_warps_slots(struct ir_module *m, const struct kernel *k,
			 bool shares);
/* Whether all that follows is to add something that lies as the result does, in
 * 16 bits. */
bool price_adds_boxes(struct ir_module *m, const struct kernel *k,
		      bool shares);

/* ---- price_kernel.c --------------------------------------------------- */

/* What a communication op is as a collective; of others, an all-reduce. */
enum cost_op price_cost_op(uint16_t op);
/* Adds one run of a kernel. */
void price_kernel(struct pricing *p, const struct kernel *k,
		  struct price_func *f);
/* How often such a kernel is launched that only moves bytes. */
uint32_t price_launches(const struct pricing *p, const struct kernel *k);
/* A collective along these axes, bit a each; of several groups the slowest. */
double price_comm(const struct ranks *r, const struct target_group *t,
		  enum cost_op op, uint32_t axes, double bytes);
/* The group of ranks that differ along these axes only. */
struct cost_group price_group(const struct ranks *r,
			      const struct target_group *t, uint32_t axes);
/*
 * How long what an update's kernel reads and writes on the host is on its way;
 * 0 if nothing of it lies there.
 */
double price_host_us(const struct pricing *p, const struct kernel *k);
/*
 * The weight that a node reads, or the gradient that it adds to a sum, if it is
 * of layers: then it may lie on the host; 0: neither.
 */
value_id price_param(const struct ir_module *m, const struct ir_node *n);
value_id price_added(const struct ir_module *m, const struct ir_node *n);
/*
 * Adds how long what one iteration of a list reads and writes of saves, weights
 * and gradients is on its way if it lies on the host: whether it does is read
 * by price_run.
 */
void price_link(const struct pricing *p, const struct kernel_list *l,
		struct price_func *f);

/* ---- price_narrow.c ---------------------------------------------------- */

/* Whether the software multiplies 8 bits where this has operands of 16. */
bool price_is_narrowed(const struct pricing *p, const struct kernel *k);
/* What a kernel of its own moves to bring its operand to 8 bits; 0: none. */
double price_narrowing_bytes(const struct pricing *p, const struct kernel *k);

/* ---- price_least.c ---------------------------------------------------- */

/*
 * What kernels take at least, whatever other nodes they are fused with, and
 * whatever else runs.
 */
struct price_least {
	double kernels_us;	/* contractions and attention */
	double colls_us;	/* the bytes of collectives, without starts */
	double waits_us;	/* collectives that are always waited for */
};

_Static_assert(COST_MAX_LAUNCH == KERNEL_MAX_LAUNCH,
	       "prices count as many contractions of a launch as there may be");

/* A contraction's share of a launch, of as many as may have one. */
static inline double
price_least_launch_us(const struct target_device *d, bool own_tail)
{
	return d->launch_us / (own_tail ? COST_MAX_LAUNCH : 1);
}
/* Adds one run of a kernel. */
void price_least(struct pricing *p, const struct kernel *k,
		 struct price_least *f);
/*
 * What a contraction or attention that is of one sequence takes at least for
 * each of any number of them, which add rows to a contraction's first operand;
 * on one kind of device.
 */
double price_least_each_us(struct pricing *p, const struct kernel *k);

/* ---- price_maps.c ----------------------------------------------------- */

/*
 * From here on price_maps prices the maps of kernels op by op; not those of
 * updates, which any software fuses.
 */
void price_maps_open(struct pricing *p);
/* Adds those of one run of a region, without its repeats. */
void price_maps(struct pricing *p, const struct kernel_list *l,
		struct price_func *f);

/* ---- price_run.c ------------------------------------------------------ */

/* The time of a function, less the collectives that its other work hides. */
double price_shown_us(const struct price_traits *traits,
		      const struct price_func *f);
/* What a list is of: collectives overlap with kernels inside repeats only. */
enum price_list_kind {
	PRICE_IN_TOP,		/* a function, without its repeats */
	PRICE_IN_BODY,		/* a repeat that has none inside */
	PRICE_IN_NEST		/* a repeat, with those inside */
};

/* The time of one run of a list that has at least these kernels, as shown. */
double price_least_us(const struct pricing *p, const struct price_least *f,
		      enum price_list_kind in);
/*
 * The time that what its layers have on the host by the plan's `offload` is on
 * its way, over the link or to and from drives, whichever is longer.  Both work
 * beside kernels, and the function ends when all are done: so it waits for what
 * that takes longer than all of f.
 */
double price_link_us(const struct price_func *f, uint32_t offload);
double price_link_wait_us(const struct price_func *f, uint32_t offload);
/* Sets p->run, p->first and its kinds, and p->updated: functions and updates as
 * they run on a rank. */
void price_run(const struct sched *s, const struct price_traits *traits,
	       struct arena *a, struct price *p);

/*
 * Two clocks of a list that runs, of kernels and of collectives beside them,
 * by the rules of the runtime.
 */
struct price_clocks {
	uint32_t at, n;		/* the next kernel, of so many */
	double now, coll;	/* until when kernels, collectives have run */
	double *end;		/* by kernel: when what it waits for ends */
	double first, part;	/* the last gather in parts: the end of its
				 * first part, and the time of each */
	double sum;		/* of all that has run, one after the other */
	bool any;		/* a kernel waits for a collective */
};

/* At the beginning of a list, in arena a. */
void price_clocks_open(struct price_clocks *c, const struct kernel_list *l,
		       struct arena *a);
/* A copy of the state of `from`, which runs the same list. */
void price_clocks_set(struct price_clocks *c,
		      const struct price_clocks *from);
/* Runs the list up to kernel `to`; `each`: by kernel, its time. */
void price_clocks_run(struct price_clocks *c, const struct pricing *p,
		      const struct kernel_list *l,
		      const struct price_func *each, uint32_t to);
/* At the end of a list: the time of collectives that kernels overlap. */
double price_clocks_beside(const struct price_clocks *c,
			   const struct pricing *p);
/* The same of a whole list; `each`: by kernel, its time. */
double price_beside(const struct pricing *p, const struct kernel_list *l,
		    const struct price_func *each);
/* What of beside_us, of a list whose kernels have such prices, the first run
 * lacks. */
double price_first_beside(const struct pricing *p, const struct kernel_list *l,
			  const struct price_func *each, double beside_us);
/* By kernel, its share of the time that does not show for that. */
void price_hidden(const struct pricing *p, const struct kernel_list *l,
		  const struct price_func *each, double *us);

/* ---- price_traits.c --------------------------------------------------- */

/* What is wrong with a text, and which bytes of it. */
struct price_fault {
	const char *why;
	uint32_t lo, hi;
};

/*
 * Sets the traits of a text: NAME=WORD, some of them, with commas or blanks
 * between.  If `lax`, words without a `=` and unknown names are skipped.
 * False: *fault is the first that is wrong, in arena a.
 */
bool price_traits_parse(struct price_traits *t, const char *text, bool lax,
			struct arena *a, struct price_fault *fault);

/* Whether none is set: only llmc's own code runs in parts (kernels/parts.c). */
bool price_ours(const struct price_traits *t);
/* Whether there are kernels of llmc for that device, a GPU. */
bool price_has_kernels(const struct target_device *d);
/* Whether kernels that move bytes are llmc's: at most traits of when something
 * runs are set, which leave kernels as they are. */
bool price_own_moves(const struct price_traits *t);

/* ---- price_joins.c ---------------------------------------------------- */

/* Sets below which sizes collectives of a module are joined on that target, and
 * whether contractions share launches. */
void price_set_joins(struct ir_module *m, const struct target *t);

/* ---- price_parts.c ---------------------------------------------------- */

/*
 * Sets in how many parts the pairs of a list and of its repeats run (see
 * kernels/parts.c): `chunks`, where they can; 0: the quickest number.
 */
void price_choose_parts(struct pricing *p, int64_t chunks,
			struct kernel_list *l);

/* ---- price_memo.c ----------------------------------------------------- */

/*
 * The key of a list, as p has its ranks, in p->memo for what is kept of one
 * target, its traits and number of chunks.  False: it has none.
 */
bool price_key(const struct pricing *p, const struct kernel_list *l,
	       struct hash *key);
/* Sets the parts that were chosen for that.  False: none were yet. */
bool price_recall_parts(const struct pricing *p, struct hash key,
			struct kernel_list *l);
void price_remember_parts(const struct pricing *p, struct hash key,
			  const struct kernel_list *l);
/* One run of it with the parts that it has; NULL: not known. */
const struct price_func *price_recall(const struct pricing *p,
				      struct hash key,
				      const struct kernel_list *l);
void price_remember(const struct pricing *p, struct hash key,
		    const struct kernel_list *l,
		    const struct price_func *once);

/* What the contraction takes there, known or not. */
double price_dot_us(const struct pricing *p,
		    const struct cost_contraction *x);
/* The same of its parts: see cost_contraction_split_us. */
double price_dot_split_us(const struct pricing *p,
			  const struct cost_contraction *x);

#endif

/*
 * What a step of rank programs takes on a target: kernels and collectives of
 * each function, the schedule as it runs, the update.  docs/cost.md is the
 * page about it; cost.h prices the single kernel.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_PRICE_H
#define PASSES_PRICE_H

#include "passes/price/cost.h"
#include "passes/kernels/kernels.h"
#include "passes/stage/ranks.h"

/*
 * TRAIT(field, name, word of false, word of true, what true means): how
 * software runs a step, where that may differ from how llmc's code does,
 * which has none of these.  A new trait is a row.
 */
#define PRICE_TRAITS(TRAIT) \
	TRAIT(unfused, "attention", "flash", "unfused", \
	      "attention writes its scores to memory") \
	TRAIT(first_flash, "flash", "2", "1", \
	      "flash attention is that of before FlashAttention-2") \
	TRAIT(overlap_data, "dp_overlap", "0", "1", \
	      "what data parallel ranks exchange goes on behind compute") \
	TRAIT(overlap_tensor, "tp_overlap", "0", "1", \
	      "what tensor ranks exchange goes on behind contractions") \
	TRAIT(lone_maps, "maps", "fused", "alone", \
	      "no map rides on a contraction") \
	TRAIT(wide_logits, "logits", "fused", "fp32", \
	      "the loss goes over fp32 logits, kernel by kernel") \
	TRAIT(whole_layers, "rebuild", "needed", "whole", \
	      "a layer that is built again runs to its end") \
	TRAIT(lone_sums, "gradients", "fused", "alone", \
	      "kernels of their own add up gradients, those of bf16 in fp32") \
	TRAIT(blocking, "sends", "async", "blocking", \
	      "a rank waits until what it sends has come in") \
	TRAIT(eager, "launches", "native", "eager", \
	      "a framework's host decides on each kernel as it runs")

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
 * A device that also exchanges computes slower, as NCCL holds some units: so
 * much shows of what goes on beside kernels.  Fitted to mosaicml's runs.
 */
#define PRICE_SLOWED 0.4

enum price_part {
	PRICE_MATRIX, PRICE_ATTENTION, PRICE_MAPS, PRICE_COMM,
	PRICE_OFFLOAD, PRICE_HOST, PRICE_NPARTS
};

extern const char *const price_part_names[PRICE_NPARTS];

/* Of one function run once, in microseconds. */
struct price_func {
	double us[PRICE_NPARTS];
	double total_us;
	double data_us, tensor_us;	/* of its collectives: along dp, tp */
	double beside_us;	/* of those, what goes on beside kernels */
	double kernels;		/* about so many are launched */
};

struct price {
	struct price_traits traits;
	struct price_func (*stage)[SCHED_NKINDS];	/* by stage */
	struct price_func *update;	/* by rank of the pipeline */
	struct price_func (*run)[SCHED_NKINDS];	/* as a rank runs them */
	struct price_func *updated;	/* the same of `update` */
	double pipe_us;		/* from the first forward to the last one */
	double update_us;	/* of the slowest */
	double step_us;
	double hop_us;		/* of a value from stage to stage */
	double hops_us;		/* of the step: such values are waited for */
	/* of the busiest rank, its update with it; of price_busiest */
	double parts_us[PRICE_NPARTS];
};

/* ---- price.c ---------------------------------------------------------- */

/* Every function, run once, in arena a; the rest of *out is 0. */
void price_functions(const struct ranks *r, const struct target_devs *t,
		     const struct price_traits *traits, struct arena *a,
		     struct price *out);
/*
 * From the times of functions to that of a step: `stage`, `update` and
 * `hop_us` are read, all else but parts_us and hops_us is written.  Of a
 * schedule that has a name no actions are read.  False: it stalls.
 */
bool price_pipeline(const struct sched *s, const struct price_traits *traits,
		    struct sched_briefs *briefs, struct arena *a,
		    struct price *out);
/* Sets parts_us of what price_pipeline has priced. */
void price_busiest(const struct sched *s, struct price *out);
/* Where ranks of programs lie on a target; in arena a. */
void price_devs(const struct ranks *r, const struct target *t,
		 struct arena *a, struct target_devs *out);
/* So many runs of `from` more. */
void price_add(struct price_func *to, const struct price_func *from,
	       double times);
/* Both, in arena a. False: *why says what is not priced. */
bool price_step(const struct ranks *r, const struct target_devs *t,
		const struct price_traits *traits, struct arena *a,
		struct price *out, const char **why);
void price_print(const struct ranks *r, const struct price *p,
		 struct buf *out);

/* ---- price_traits.c --------------------------------------------------- */

/* What is wrong with a text, and the bytes of it that are. */
struct price_fault {
	const char *why;
	uint32_t lo, hi;
};

/*
 * Sets what a text says: NAME=WORD, some of them, with commas or blanks
 * between.  Words without a `=` and names that there are not are passed over,
 * if `lax`.  False: *fault is the first that is wrong, in arena a.
 */
bool price_traits_parse(struct price_traits *t, const char *text, bool lax,
			struct arena *a, struct price_fault *fault);

/* Whether none is set: llmc's own code has the parts of parts.c. */
bool price_ours(const struct price_traits *t);

/* ---- price_run.c ------------------------------------------------------ */

/*
 * What of a function's time shows: collectives that go on behind its other
 * work are taken off.
 */
double price_shown_us(const struct price_traits *traits,
		      const struct price_func *f);
/*
 * Functions and updates as they go on a rank: what hides behind other work
 * taken off, what waits added.  Fills p->run and p->updated.
 */
void price_run(const struct sched *s, const struct price_traits *traits,
	       struct arena *a, struct price *p);

/* ---- price_kernel.c --------------------------------------------------- */

struct pricing {
	const struct ranks *r;
	struct ir_module *m;
	const struct target_group *t;
	/* what ranks of the pipeline talk across; NULL: the same */
	const struct target_group *across;
	const struct price_traits *traits;
	struct price_maps *maps;	/* of price_maps.c, or NULL */
	/* of prices: nobody else's while it is p's; NULL: none is kept */
	struct memo *memo;
};

/*
 * Adds up one run of a list; by kernel, what one takes, and what they have
 * room for of talks beside them.
 */
void price_sum(struct pricing *p, const struct kernel_list *l,
	       const struct price_func *each, double beside_us,
	       struct price_func *once);
/* Adds the kernels of a repeat, times its trips. */
void price_list(struct pricing *p, const struct kernel_list *l,
		struct price_func *f);
/* What goes from a stage to the next, in microseconds. */
double price_hop(const struct pricing *p);
/* Adds one run of a kernel. */
void price_kernel(struct pricing *p, const struct kernel *k,
		  struct price_func *f);
/* Of a contraction's operands. */
enum target_rate price_dot_rate(const struct pricing *p,
				const struct kernel *k);
/* n kernels of that kind that move so many bytes together. */
void price_bytes(const struct pricing *p, enum cost_kind kind, double bytes,
		 uint32_t n, struct price_func *f);
/* Of an element of the sum of gradients of that type. */
double price_sum_bytes(const struct pricing *p, enum target_rate rate);
/* One collective along these axes; of several groups the slowest. */
double price_comm(const struct ranks *r, const struct target_group *t,
		  enum cost_op op, uint32_t axes, double bytes);
/* The group that differs along these axes, bit a each. */
struct cost_group price_group(const struct ranks *r,
			      const struct target_group *t, uint32_t axes);

/* ---- price_run.c ------------------------------------------------------ */

/* Two clocks, as the runtime has them, of a list that runs. */
struct price_clocks {
	uint32_t at, n;		/* what runs next, of so many kernels */
	double now, coll;	/* kernels, talks have run till then */
	double *end;		/* by place: when what it waits for ends */
	double first, part;	/* the last gather by parts: its first one's
				 * end, and what each one takes */
	double sum;		/* of what has run, one after the other */
	bool any;		/* there is something that others wait for */
};

/* At the beginning of a list, in arena a. */
void price_clocks_open(struct price_clocks *c, const struct kernel_list *l,
		       struct arena *a);
/* To where another one of the same list is. */
void price_clocks_set(struct price_clocks *c,
		      const struct price_clocks *from);
/* Goes on to that place of the list; by kernel, what one takes. */
void price_clocks_run(struct price_clocks *c, const struct pricing *p,
		      const struct kernel_list *l,
		      const struct price_func *each, uint32_t to);
/*
 * Of talks that go on beside a list's kernels, what these have room for, at
 * its end.
 */
double price_clocks_beside(const struct price_clocks *c,
			   const struct pricing *p);
/* The same of a whole list; by kernel, what one takes. */
double price_beside(const struct pricing *p, const struct kernel_list *l,
		    const struct price_func *each);
/* By kernel, what of that is its share: so much of it does not show. */
void price_hidden(const struct pricing *p, const struct kernel_list *l,
		  const struct price_func *each, double *us);

/* ---- parts_choose.c --------------------------------------------------- */

/*
 * Pairs of the list, and of repeats in it, that run by parts: as many as
 * `chunks`, where they can, or, if it is 0, as many as p makes quickest.
 */
void parts_choose(struct pricing *p, int64_t chunks, struct kernel_list *l);

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

/* ---- price_offload.c -------------------------------------------------- */

/*
 * What the kernel's state takes from its host and back, both ways one after
 * the other; 0, if nothing of it is there.
 */
double price_host_us(const struct pricing *p, const struct kernel *k);

/* ---- price_maps.c ----------------------------------------------------- */

/*
 * From here on the maps of kernels are priced by price_maps, op by op; not
 * those of updates, which are fused anywhere.
 */
void price_maps_open(struct pricing *p);
/* Adds those of one run of a region, its repeats' not. */
void price_maps(struct pricing *p, const struct kernel_list *l,
		struct price_func *f);

/* ---- price_again.c ---------------------------------------------------- */

/* What traits->whole_layers adds to the backward function of a stage. */
void price_again(struct pricing *p, const struct kernels *forward,
		 func_id back, struct price_func *f);

#endif

/*
 * The space of a search: what a plan for a model on a target may be.  It knows
 * the model's layers and dims, the target's device groups, schedules, and the
 * keys that the user has pinned; no program, no price of one, and no plan that
 * is better than another.
 *
 * Degrees are legal sets of tp, cp, ep, pp and dp.  A plan of the space also
 * has a microbatch, a schedule and a number of stages on a rank; ZeRO,
 * `sequence`, offload, layers by stage and recompute are still open in it.
 *
 * Each section is named after the .c file that defines it.
 */
#ifndef PASSES_SPACE_H
#define PASSES_SPACE_H

#include "passes/memory/memory.h"
#include "passes/plan/plan.h"
#include "passes/price/price.h"
#include "passes/sched/sched.h"

#define SPACE_MAX_KINDS 8	/* most repeats of layers in a model */
#define SPACE_CONTEXT_PIECE 1024	/* least positions of a rank with cp */
/* Spans of what is saved in layers, and as many of what is outside of them. */
#define SPACE_NSPANS MEMORY_TOP

/* The layers of one kind, which are one repeat of the model. */
struct space_kind {
	int64_t first, iterations;
	bool experts;		/* it has some */
};

/* Legal degrees. */
struct space_degrees {
	uint32_t nth;		/* index in space.degrees */
	int64_t used;		/* number of devices */
	int64_t tp, cp, ep, pp, dp;
	double capacity;	/* bytes free on a mean rank's device */
};

struct space_pools;

/*
 * The most microbatches that each stage and rank holds at once.  The number
 * stops growing once the pipeline is full, so it is counted in a shorter
 * schedule, whose length sched_held_of gives.
 */
struct space_slots {
	const struct sched_def *def;
	int64_t pp, chunks;
	uint32_t nmicrobatches, times;
	uint32_t *stage[SPACE_NSPANS];	/* by stage */
	uint32_t *rank[SPACE_NSPANS];	/* by rank: all its stages together */
	/* by stage: what it holds when its rank first holds the most */
	uint32_t *then[SPACE_NSPANS];
	/* by span, then by rank: see space_set_slots; NULL: not counted yet */
	uint32_t **of_sets[SPACE_NSPANS];
	/* other sets of stages of a rank, and the most that they hold */
	struct intern sets;
	VEC(uint32_t) peaks;
	struct space_pools *scratch;	/* NULL: not needed yet */
};

/* A plan, as far as the space goes. */
struct space_plan {
	const struct space_degrees *g;
	int64_t microbatch, nmicrobatches, chunks;
	const struct sched_def *sched;
	uint32_t nth;		/* index of this plan among those of g */
	struct space_slots *slots;	/* NULL: not counted yet */
};

enum space_pin {
	SPACE_PIN_PP, SPACE_PIN_DP, SPACE_PIN_EP, SPACE_PIN_CP, SPACE_PIN_TP,
	SPACE_PIN_MICROBATCH, SPACE_PIN_INTERLEAVE, SPACE_PIN_SCHEDULE,
	SPACE_PIN_ZERO, SPACE_PIN_SEQUENCE, SPACE_PIN_CONTEXT,
	SPACE_PIN_BALANCED, SPACE_PIN_RECOMPUTE, SPACE_PIN_STAGES,
	SPACE_PIN_OFFLOAD, SPACE_NPINS
};

struct space {
	/* set by the caller before space_open: the flat training program, */
	struct ir_module *m;
	const struct target *target;
	const struct price_traits *traits;
	/* and whether weights and gradients may be on hosts */
	bool streams;

	struct arena keep, tmp;	/* live as long as the space; as a plan */
	/* the rates and features that all devices have in common */
	const struct target_group *t;
	/* device groups, nsingle of them, then sets of several of these that
	 * a rank may span */
	VEC(const struct target_group *) devs;
	uint32_t nsingle;
	struct plan base;	/* pinned keys; the widest for all others */
	/* by enum space_pin; `stages=even` sets `even` instead */
	bool pinned[SPACE_NPINS];
	bool even;
	struct space_kind kinds[SPACE_MAX_KINDS];
	uint32_t nkinds;
	int64_t nlayers, batch, experts, tensor_most, context_most;
	dim_id batch_dim, expert_dim;
	VEC(struct space_degrees) degrees;
	VEC(struct space_slots *) slots;
	/* the schedule of the slots that were put in pools last */
	struct arena held;
	const struct space_slots *held_of;
	const struct sched *held_sched;
};

/* ---- space.c ----------------------------------------------------------- */

/*
 * Reads the pins and the facts of the model, and finds all legal degrees.
 * False after errors; space_release is needed all the same.
 */
bool space_open(struct space *s);
void space_release(struct space *s);
/* The strictest ZeRO of a plan that may have any. */
static inline int
space_strictest_zero(const struct space *s)
{
	return s->pinned[SPACE_PIN_ZERO] ? s->base.zero : 3;
}

/* What may be on the host of tensors that live for the whole step. */
uint32_t space_may_offload(const struct space *s);

/* ---- space_degrees.c --------------------------------------------------- */

int64_t space_degree(const struct space_degrees *g, enum plan_axis axis);
/* Devices between neighbours along an axis, if ranks have these degrees. */
int64_t space_apart(const struct space *s, const struct space_degrees *g,
		    enum plan_axis axis);
/* Whether a plan has these degrees; sets them. */
bool space_has_degrees(const struct plan *p, const struct space_degrees *g);
void space_set_degrees(struct plan *p, const struct space_degrees *g);
/* Whether degrees have the same shardings, but for data ranks. */
bool space_same_sharding(const struct space_degrees *a,
			 const struct space_degrees *b);

/* ---- space_devs.c ------------------------------------------------------ */

/* Sets s->devs: device groups, then sets of adjacent ones. */
void space_find_devs(struct space *s);
/* The highest flop rate of a device for operands of 16 bits or more. */
double space_float_rate(const struct target_device *d);
/* The same, reached at best; of a set of groups, by the slowest. */
double space_best_rate(const struct target_group *g);
/* The device group with the highest flop rate. */
const struct target_group *space_quickest(const struct space *s);
/* Assigns ranks of these degrees to device groups. */
void space_devs(const struct space *s, const struct space_degrees *g,
		struct arena *a, struct target_devs *out);
/* The device group of each place in the pipeline, as an index of s->devs. */
uint32_t *space_devs_of_ranks(const struct space *s,
			      const struct space_degrees *g, struct arena *a);
/* Bytes free for a plan on a device of that group. */
double space_capacity(const struct space *s, uint32_t dev);
/* All memory of the target's devices, hosts and drives. */
double space_all_memory(const struct target *t);

/* ---- space_each.c ------------------------------------------------------ */

/* How many microbatches a rank runs one after another in a step. */
int64_t space_microbatches(const struct space *s,
			   const struct space_degrees *g, int64_t microbatch);
/*
 * Calls f for each microbatch, schedule and number of stages on a rank, and
 * releases s->tmp after each.  If f is NULL, only counts these plans.  Returns
 * their number.
 */
double space_each_plan(struct space *s, const struct space_degrees *g,
		       void (*f)(void *user, struct space_plan *t),
		       void *user);

/* ---- space_order.c ----------------------------------------------------- */

/*
 * Of an order of all degrees, as indices of s->degrees: puts the first of each
 * of `most` shardings to its front.
 */
void space_vary(const struct space *s, uint32_t *order, uint32_t most);
/* Puts the degrees of p to its front. */
void space_lead(const struct space *s, uint32_t *order, const struct plan *p);
/*
 * Puts those of its first n that share placements side by side, where the first
 * of them stood.
 */
void space_cluster(const struct space *s, uint32_t *order, uint32_t n);
/*
 * Whether its i-th degrees begin a row: degrees side by side that share
 * placements.
 */
bool space_is_new_row(const struct space *s, const uint32_t *order, uint32_t i);

/* ---- space_slots.c ----------------------------------------------------- */

/* Sets t->slots. */
void space_count_slots(struct space *s, struct space_plan *t);
/* Whether an action of a kind is where slots of a span begin or end. */
bool space_begins_slot(uint32_t kind, uint32_t span);
bool space_ends_slot(uint32_t kind, uint32_t span);

/* ---- space_pools.c ----------------------------------------------------- */

/*
 * Bytes of all slots of a rank for a span, of whose n stages `of` each keeps
 * `bytes` in a slot.
 */
double space_pool_bytes(struct space *s, struct space_slots *k, uint32_t span,
			uint32_t rank, const uint32_t *of, uint32_t n,
			const double *bytes);

#define SPACE_UNITS 8	/* of a rank's stages: sets of them are counted */

/* Units of n stages: each stage is one, or some that lie side by side are; then
 * there are fewer, as two less are a quarter of the sets. */
static inline uint32_t
space_units(uint32_t n)
{
	return n <= SPACE_UNITS ? n : SPACE_UNITS - 2;
}

/* Which unit the i-th of n stages is in. */
static inline uint32_t
space_unit(uint32_t i, uint32_t n)
{
	return i * space_units(n) / n;
}

/*
 * The most slots of a span that units of a rank's n stages `of` hold at once,
 * by set of units, as bits.
 */
const uint32_t *space_set_slots(struct space *s, struct space_slots *k,
				uint32_t span, uint32_t rank,
				const uint32_t *of, uint32_t n);

#endif

/*
 * A kernel group of attention, as attention.c and its neighbours take it
 * apart; nobody else includes this.
 */
#ifndef CODEGEN_CPU_ATTENTION_GROUP_H
#define CODEGEN_CPU_ATTENTION_GROUP_H

#include "codegen/cpu/attention.h"

#define ATT_SETS 12		/* 5 results each: bits of 64 */

/* Results of sets, a bit each. */
typedef uint64_t att_bits;

/* Nodes that follow some results, with all that they need of the group. */
struct att_after {
	att_bits from;
	bool later;		/* in a step of their own */
};

/* What is in shared room, as f32; whole: with the keys of all ranks. */
struct att_brought {
	value_id value;
	bool whole;
	int64_t at;
};

struct att_group {
	struct cg_cpu *c;
	struct cg_kernel *out;
	const struct kernel *k;
	const char **why;
	struct att sets[ATT_SETS];
	uint32_t nsets;
	att_bits *from;		/* by node of the kernel: results it needs */
	VEC(struct att_after) after;
	bool folded[ATT_SETS];	/* another set makes its result by the way */
	VEC(struct att_brought) brought;
};

/* ---- attention.c ---- */

bool att_has(const struct att_group *g, node_id n);
/* So many bytes of shared room. */
int64_t att_shared(struct att_group *g, int64_t bytes);
/* All nodes but attention's own that a value needs, and the node itself. */
void att_closure(struct att_group *g, value_id v, bool *in);

/* Those marked. */
void att_take(struct att_group *g, const bool *in, struct cg_nest *n);
bool att_is_output(const struct att_group *g, value_id v);
struct att_brought *att_find_brought(struct att_group *g, value_id v,
				     bool whole);

/* ---- attention_after.c ---- */

/* Where each result of a set goes. */
bool att_place_results(struct att_group *g, uint32_t set);
/* Steps behind all others. */
bool att_finish(struct att_group *g);

/* ---- attention_talk.c ---- */

/* Keys, or values, of all ranks. */
void att_gather(struct att_group *g, struct att *t, uint32_t input);
/* The sum over ranks, of the keys that are here. */
void att_bring_home(struct att_group *g, struct att *t, enum att_result r);

static inline att_bits
att_bit(uint32_t set, uint32_t result)
{
	return (att_bits)1 << (set * ATT_NRESULTS + result);
}

/* ---- attention_sets.c ---- */

/* Finds sets and what each of them is; then what follows. False: *why. */
bool att_find_sets(struct att_group *g);
/* The results that a value is made of, through views too. */
att_bits att_needs(const struct att_group *g, value_id v);
void att_find_after(struct att_group *g);

/* ---- attention_view.c ---- */

bool att_elem(uint8_t dtype, enum ll_base *elem);
/* Positions of a type's dim that the rank has. */
int64_t att_local(const struct att_group *g, const struct ir_type *type,
		  uint32_t i);
/* Elements that the rank has, if it had all of the dim `whole`. */
int64_t att_elems(const struct att_group *g, const struct ir_type *type,
		  dim_id whole);
/* f32, row-major; `keys`: with dims of keys and kv heads. */
void att_view_shared(const struct att_group *g, const struct att *t,
		     const struct ir_type *type, dim_id whole, bool keys,
		     int64_t at, struct att_view *out);
/* False: it is no such view (*why NULL), or of no such type. */
bool att_view_memory(const struct att_group *g, const struct att *t,
		     value_id v, bool keys, bool written,
		     struct att_view *out);

#endif

/*
 * Private to fuse*.c: grouping nodes into kernels, region by region.
 *
 * The nodes of the current region have `places`, from 0.  At first each is a
 * group of its own, in program order; groups merge, and their order stays one
 * in which they can run.
 */
#ifndef PASSES_FUSE_H
#define PASSES_FUSE_H

#include "passes/kernels/kernels.h"

enum fuse_class {
	FUSE_FREE,		/* a source, a save or a view: no kernel */
	FUSE_ELEM,		/* each element by itself */
	FUSE_ROW,		/* a reduction over dims */
	FUSE_SCATTER,		/* sums by index */
	FUSE_DOT,
	FUSE_PAIRS,
	FUSE_SINK,		/* accumulate, store */
	FUSE_COMM,		/* communication */
	FUSE_REGION,
	FUSE_CALL
};

#define FUSE_HOLE UINT32_MAX	/* in `order`: a group that was merged */

/* One use of a value, by a node of any region. */
struct fuse_link {
	node_id user;
	uint32_t next;		/* of the same value, plus 1 */
};

/* An operand of a place. */
struct fuse_operand {
	value_id base;		/* see fuse_base */
	uint32_t maker;		/* its place, or FUSE_NOWHERE */
	bool moved;		/* see fuse_base */
};

#define FUSE_NOWHERE UINT32_MAX	/* not made in the region */

struct fuse_group {
	enum fuse_class head;	/* ELEM: maps and reductions only */
	bool dead;
	bool reduced;		/* `space` is its rows */
	bool needs_all;		/* it ends in sums over all of its blocks */
	struct ir_type space;
	uint32_t at;		/* its place in `order` */
	uint32_t mark;
	VEC(uint32_t) places;	/* ascending */
	VEC(uint32_t) copies;	/* places of other groups, computed again */
};

/* A tensor, sum or save that a place reads or writes by name. */
struct fuse_effect {
	uint64_t key;
	uint32_t place;
	bool writes;
};

/* A comparison: whether some values have `times` the bytes of another. */
struct fuse_question {
	uint32_t first, n;	/* of `terms` */
	uint32_t times;
	value_id than;
	bool yes;
};

/* A dim with a cut that some value of the current key has. */
struct fuse_cut {
	dim_id dim;
	uint32_t cut;
	uint32_t next;		/* another of the dim, plus 1 */
};

/* A type of values in keys. */
struct fuse_typed {
	uint64_t hash;		/* of it */
	uint32_t key;		/* the last key with it, from 1; 0: none */
};

/* A use of a name. */
struct fuse_name {
	sym_t name;
	uint32_t place, op;
	uint32_t next;		/* another of the name, plus 1 */
};

/* The work of one kernel, as counts of what follows from lengths. */
struct fuse_attention {
	count_id batch, heads, kv, s, t, d, v, pairs;
};

struct fuse_work {
	struct kernel_work like;	/* the rest */
	count_id flops, read, write, coll;
	struct {
		count_id batch, m, n, k, groups;
	} dot;
	struct fuse_attention *attention;	/* NULL */
	uint32_t uses;		/* the first of its inputs' bytes */
};

/* Of a kernel that fuse_count made: its work is the first member. */
static inline struct fuse_work *
fuse_work_of(const struct kernel *k)
{
	return (struct fuse_work *)(uintptr_t)k->work;
}

/* What fuse_join.c and fuse_launch.c do to a list; places are those at the
 * time. */
struct fuse_step {
	enum {
		FUSE_COMES,	/* collective b joins a */
		FUSE_FOLLOWS,	/* collective a joins b */
		FUSE_MOVES,	/* from a to b */
		/* the b contractions from a on have one launch: they add up, or
		 * read one right operand, or left */
		FUSE_SUMS, FUSE_BY_ROWS, FUSE_BY_COLUMNS,
		/* the two from a on are a pair; b: `unread` of the launch */
		FUSE_PAIRED
	} does;
	uint32_t a, b;
};

struct fuse_steps {
	uint32_t njoins, n;	/* those of fuse_join.c come first */
	struct fuse_step at[];
};

/* Shapes of kernels, each once. */
struct fuse_shapes {
	struct arena *arena, *types;	/* of the lists; of what they name */
	struct table known;
	VEC(const struct ir_type *) at;	/* the first is none */
};

/* A region's kernels, for all lengths with the same answers to questions. */
struct fuse_template {
	struct fuse_template *older;	/* of the same key but for sizes */
	const struct fuse_shapes *shapes;
	uint32_t nkernels, nfree, nids, nuses, ncounts, nasked;
	uint8_t bytes[];	/* see fuse_pack.c */
};

/*
 * The other names of nodes and values: from places in a region and numbers in
 * its key to the region's own ids, or back.  NULL: they are the same.
 */
struct fuse_names {
	const uint32_t *nodes, *values;
};

/* A template for the sizes at hand. */
struct fuse_known {
	const struct fuse_template *x;
	struct fuse_names names;	/* from its to the region's */
	const uint8_t *at;	/* its bytes behind the questions */
};

/* What a region's kernels follow from; see fuse_key.c. */
struct fuse_key {
	struct hash hash;	/* of all but lengths */
	struct hash sizes;	/* of lengths */
	bool known;
	bool none;		/* they follow from more than is in it */
	bool colls, loose;	/* a part of the outer region's key */
	bool nests;		/* it has inner regions */
	VEC(value_id) values;	/* by number, from 1: as they are met */
	VEC(value_id) outer;	/* those that the region does not make */
	VEC(struct fuse_name) names;
	VEC(struct fuse_cut) cuts;	/* of the current key only */
	VEC(count_id) lens;	/* the lengths of these, in f->lens */
	uint32_t lengths;	/* axes, bit a each, whose lengths count */
	uint32_t several;	/* or whether they have several ranks */
};

/* Elements of an operand, and of a result that may be a view of it. */
struct fuse_view {
	count_id in, out;	/* of f->lens */
	bool fits;		/* it is, as long as this is unchanged */
};

struct fuse {
	struct ir_module *m;
	struct arena *scratch;	/* of what is kept between calls */
	struct arena *a;	/* of the result */
	struct memo *memo;	/* NULL: nothing is kept */
	/* by function */
	bool *classed;		/* its nodes are */
	bool *stores;
	uint8_t op_class[IR_OP_COUNT];	/* plus 1; 0: not computed */
	bool *constant;		/* by value */
	uint8_t *class;		/* by node: enum fuse_class */
	VEC(struct fuse_view) views;	/* on which classes depend */
	struct fuse_key *keys;	/* by region */
	struct ir_counts lens;	/* the lengths of keys and views */
	struct fuse_shapes *shapes;	/* of the memo; NULL: not found yet */

	/*
	 * The current call: allocated when first needed, since most calls find
	 * all kernels in the memo.
	 */
	struct arena bench;
	double *len;		/* by count of `lens`: its value */
	uint32_t nlens;
	func_id func;
	bool *linked;		/* by function: its uses are in `links` */
	/* by value */
	uint32_t *uses;		/* its last link, plus 1 */
	VEC(struct fuse_link) links;
	bool *escapes;		/* a region's result */
	uint32_t *number;	/* in the current key, or 0 */
	/* by node */
	uint32_t *place;	/* in its region, plus 1 */
	region_id *home;
	uint32_t *at;		/* place in the region of the memo */
	uint32_t *said;		/* by name: in the current key, plus 1 */
	uint8_t *in_layers;	/* by name: 0 not known yet, 1 no, 2 yes */
	uint32_t *cut_of;	/* by dim: in the current key, plus 1 */
	struct fuse_typed *typed;	/* by type */
	uint32_t keyed;		/* the number of the current key, from 1 */
	struct fuse_key making;	/* the current key */
	/* the current counts, and their values */
	VEC(struct ir_count) unpacked;
	VEC(double) values;

	/* settings: which collectives are joined */
	bool joins;
	double join_link, join_work;
	bool launches;		/* contractions share launches */
	bool in_parts;		/* the plan says in how many collectives run */

	/* the current region */
	struct arena tmp;
	region_id region;
	bool updates;		/* its function stores */
	uint32_t n;
	const node_id *nodes;
	struct fuse_operand *operands;
	uint32_t *operand;	/* by place: its first, and of the end */
	uint32_t *group_of;	/* by place */
	bool *needs_all;	/* by place: see fuse_needs_all */
	VEC(uint32_t) *preds;	/* by place */
	VEC(uint64_t) replaced;	/* keys of tensors that a sink replaces */
	struct fuse_group *groups;
	uint32_t *order;	/* groups, and holes */
	uint32_t norder, mark;
	struct kernel making_one;	/* the current kernel */
	VEC(count_id) reading, writing;	/* bytes of its inputs, outputs */
	/* the work of all kernels, and the bytes of their uses */
	struct ir_counts counts;
	VEC(count_id) uses_bytes;
	/* the comparisons of sizes on which groups depend */
	VEC(struct fuse_question) asked;
	VEC(value_id) terms;
	VEC(struct fuse_step) steps;	/* of the current list */
};

/* Moves the items of a list to an arena. */
#define FUSE_KEEP(arena, v) \
	((v)->cap = (v)->n, \
	 (void)((v)->at = (v)->n ? arena_dup((arena), (v)->at, \
		(v)->n * sizeof *(v)->at) : NULL))

/* ---- fuse_facts.c ---- */

/* The class of each node of a region and those inside. */
void fuse_classify(struct fuse *f, region_id r);
/* Whether the classes are still right for the present lengths. */
bool fuse_classes_hold(struct fuse *f);
/* By count of f->lens: its value in the current call. */
const double *fuse_lens(struct fuse *f);
/*
 * The value that v is a view of, or v; 0: a constant, which is in no memory.
 * *moved: the view has other dims, or in another order; may be NULL.
 */
value_id fuse_base(const struct fuse *f, value_id v, bool *moved);
/* The same dims with the same cuts, in any order. */
bool fuse_same_space(const struct ir_type *a, const struct ir_type *b);
/* Whether t has all dims of those rows. */
bool fuse_covers(const struct ir_type *t, const struct ir_type *rows);
/* The dims of a reduction's operand that it does not reduce. */
struct ir_type fuse_rows(const struct fuse *f, const struct ir_node *n);
/*
 * Whether a reduction is over its whole operand or over its outer dims, so that
 * the result is known only once all blocks of the kernel are done.
 */
bool fuse_needs_all(const struct fuse *f, const struct ir_node *n);
/*
 * Whether n values together have at least `times` the bytes of another.  All
 * comparisons of sizes on which groups depend are made here and kept, so that
 * a template holds for all lengths with the same answers.
 */
bool fuse_reaches(struct fuse *f, const value_id *v, uint32_t n,
		  uint32_t times, value_id than);
/* Whether yes() of all users of v; false if v is a result of its region. */
bool fuse_all_uses(struct fuse *f, value_id v,
		   bool (*yes)(struct fuse *f, node_id user, value_id v,
			       void *user_data),
		   void *user_data);
static inline enum fuse_class
fuse_class(const struct fuse *f, node_id n)
{
	return (enum fuse_class)f->class[n];
}

static inline const struct fuse_operand *
fuse_operand(const struct fuse *f, uint32_t place, uint32_t k)
{
	return &f->operands[f->operand[place] + k];
}

/* The group that makes it in this region, or UINT32_MAX. */
static inline uint32_t
fuse_maker(const struct fuse *f, const struct fuse_operand *o)
{
	return o->maker == FUSE_NOWHERE ? UINT32_MAX : f->group_of[o->maker];
}

/* The place of the maker of a value of this region. */
static inline uint32_t
fuse_place(const struct fuse *f, value_id v)
{
	return f->place[f->m->values.at[v].node] - 1;
}

/* ---- fuse_key.c ---- */

/* The keys of a region and inner ones, after fuse_classify. */
void fuse_find_keys(struct fuse *f, region_id r);
/* Their hashes of lengths, as dims and axes are now. */
void fuse_find_sizes(struct fuse *f, region_id r);
/* What a list of that key has as its `content`. */
struct hash fuse_content(const struct fuse_key *key);

/* ---- fuse_pack.c ---- */

/*
 * The template, in arena a, of a list that fuse_count made of all groups of the
 * current region; names: from the region's to the template's.
 */
struct fuse_template *fuse_pack(struct fuse *f, const struct kernel_list *l,
				struct fuse_names names,
				struct fuse_shapes *shapes, struct arena *a);
/*
 * Whether all comparisons of sizes come out as they did for the template.  If
 * so, *end is where its bytes go on.
 */
bool fuse_same_answers(const struct fuse *f, const struct fuse_template *x,
		       struct fuse_names names, const uint8_t **end);
/* The kernels without their bodies, and nodes that need none. */
void fuse_unpack(struct fuse *f, const struct fuse_known *known,
		 struct kernel_list *l);

/* ---- fuse_template.c ---- */

/* Allocates f->number, all of it 0. */
void fuse_number_values(struct fuse *f);
/* One of a region with that key, if it was kept. */
bool fuse_find_template(struct fuse *f, const struct fuse_key *key,
			region_id r, struct fuse_known *to);
/* That of a list that was made, kept for its key; key may be NULL. */
void fuse_keep_template(struct fuse *f, const struct fuse_key *key,
			const struct kernel_list *made, struct fuse_known *to);

/* ---- fuse_order.c ---- */

/* Whether a sink replaces a tensor, rather than adding to a sum. */
bool fuse_stores(const struct ir_node *n);
/* Whether a value is a tensor that a sink of the region replaces. */
bool fuse_is_replaced(const struct fuse *f, value_id base);

/* Whether the node itself communicates, not a node in its region. */
bool fuse_communicates(const struct fuse *f, node_id id);

/* Finds places, their predecessors and operands; makes a group of each. */
void fuse_open_region(struct fuse *f, region_id r);
/*
 * Merges two groups into *into, which is one of them.  False, and nothing is
 * changed, if a path leaves them and comes back.
 */
bool fuse_merge(struct fuse *f, uint32_t a, uint32_t b, uint32_t *into);

/* ---- fuse_grow.c ---- */

/* Merges groups as far as that saves memory traffic. */
void fuse_grow(struct fuse *f);

/* ---- fuse_sink.c ---- */

/* Moves cheap values to the groups that read them, so none is written. */
void fuse_sink(struct fuse *f);

/* ---- fuse_count.c ---- */

/* Before those of a region. */
void fuse_open_counts(struct fuse *f);
/* The kernel of a group: what it reads, writes and computes. */
void fuse_count(struct fuse *f, uint32_t group, struct kernel *k);
/* Whether the group computes a value, as its own or as a copy. */
bool fuse_has(const struct fuse *f, uint32_t group, value_id base);
/* Whether v, which the group computes, is read outside of it. */
bool fuse_is_read_outside(struct fuse *f, uint32_t group, value_id v);

/* ---- fuse_join.c ---- */

/*
 * Joins collectives into one call where that is quicker on the target; each
 * that it joins is a step.
 */
void fuse_join(struct fuse *f, struct kernel_list *l);
/* Does so by n steps that were found of a list with the same content. */
void fuse_join_again(struct fuse *f, struct kernel_list *l,
		     const struct fuse_step *steps, uint32_t n);

/* ---- fuse_launch.c ---- */

/* Gives contractions that share operands, add up or are a pair one launch, step
 * by step. */
void fuse_launch(struct fuse *f, struct kernel_list *l);
/* Does so by n steps that were found of a list with the same content. */
void fuse_launch_again(struct kernel_list *l, const struct fuse_step *steps,
		       uint32_t n);

/* ---- fuse_members.c ---- */

/* Whether the kernel is a contraction of matrix units, of two operands of one
 * type, that has no launch yet. */
bool fuse_can_share(const struct fuse *f, const struct kernel *k);
/* Which operands both read in the same way, bit 0: the left one. */
uint32_t fuse_shared_operands(const struct fuse *f, const struct kernel *a,
			      const struct kernel *b);
/* Whether b adds its product to what a makes, which is the first of a sum or,
 * if `later`, adds up too; both of that region. */
bool fuse_adds_to(const struct fuse *f, region_id in, const struct kernel *a,
		  bool later, const struct kernel *b);
/* Whether b, after its product, reads what a makes, element by element. */
bool fuse_is_pair(const struct fuse *f, const struct kernel_list *l,
		  const struct kernel *a, const struct kernel *b);
/* Which outputs of the first of a pair no node but theirs reads, and no kernel
 * that has one of their nodes as a copy; bit 0: the first. */
uint32_t fuse_unread(const struct fuse *f, const struct kernel_list *l,
		     const struct kernel *pair);

/* ---- fuse_comm.c ---- */

/* Moves collectives to where they can run beside kernels. */
void fuse_spread_coll(struct fuse *f, struct kernel_list *l);
/* Whether b must stay after a: it reads its result or uses its tensor. */
bool fuse_must_follow(const struct fuse *f, const struct kernel *a,
		      const struct kernel *b);
/* Sets `until` of collectives that run beside kernels. */
void fuse_wait_comm(struct fuse *f, struct kernel_list *l);

#endif

/*
 * Grouping nodes into kernels; between the fuse*.c files.
 *
 * The nodes of the region at hand are `places`, from 0.  At first each is a
 * group of its own, in program order; groups merge, and their order stays
 * one in which they can run.
 */
#ifndef PASSES_FUSE_H
#define PASSES_FUSE_H

#include "passes/kernels/kernels.h"

enum fuse_class {
	FUSE_FREE,		/* a source, a name or a view: no work */
	FUSE_ELEM,		/* each element on its own */
	FUSE_ROW,		/* sums over dims */
	FUSE_SCATTER,		/* sums by index */
	FUSE_DOT,
	FUSE_PAIRS,
	FUSE_SINK,		/* accumulate, store */
	FUSE_COMM,		/* ranks wait for each other */
	FUSE_REGION,
	FUSE_CALL
};

#define FUSE_HOLE UINT32_MAX	/* in an order: a group that merged */

/* One use of a value, by a node of any region. */
struct fuse_link {
	node_id user;
	uint32_t next;		/* of the same value, and 1 */
};

/* What a place of the region takes. */
struct fuse_operand {
	value_id base;		/* behind views, or 0: a constant */
	uint32_t maker;		/* its place, or FUSE_NOWHERE in the region */
	bool moved;		/* see fuse_base */
};

#define FUSE_NOWHERE UINT32_MAX

struct fuse_group {
	enum fuse_class head;	/* ELEM: of maps and rows alone */
	bool dead;
	bool reduced;		/* `space` is rows, not all it runs over */
	bool late;		/* it ends in sums over its blocks */
	struct ir_type space;
	uint32_t at;		/* its place in `order` */
	uint32_t mark;
	VEC(uint32_t) places;	/* ascending */
	VEC(uint32_t) copies;	/* places that are another group's too */
};

/* One name that a place reads or writes. */
struct fuse_effect {
	uint64_t key;
	uint32_t place;
	bool writes;
};

/* Whether some values together have `times` the bytes of another. */
struct fuse_question {
	uint32_t first, n;	/* of `terms` */
	uint32_t times;
	value_id than;
	bool yes;
};

/* A dim, as some value of the key at hand is cut along it. */
struct fuse_cut {
	dim_id dim;
	uint32_t cut;
	uint32_t next;		/* another of the dim, and 1 */
};

/* A type that keys have met. */
struct fuse_typed {
	uint64_t hash;		/* of it */
	uint32_t key;		/* the last one, from 1; 0: none has */
};

/* Where something is done by a name. */
struct fuse_name {
	sym_t name;
	uint32_t place, op;
	uint32_t next;		/* another of the name, and 1 */
};

/* What one kernel takes: the counts for what follows from lengths. */
struct fuse_attention {
	count_id batch, heads, kv, s, t, d, v, pairs;
};

struct fuse_work {
	struct kernel_work like;	/* all the rest */
	count_id flops, read, write, coll;
	struct {
		count_id batch, m, n, k, groups;
	} dot;
	struct fuse_attention *attention;	/* NULL */
	uint32_t uses;		/* where its inputs' bytes begin */
};

/* Of a kernel of a mould: its work is the first member of that. */
static inline struct fuse_work *
fuse_work_of(const struct kernel *k)
{
	return (struct fuse_work *)(uintptr_t)k->work;
}

/* A region's kernels, for all sizes that answer all questions alike. */
struct fuse_template {
	struct fuse_template *older;	/* of the same key but for sizes */
	bool kept;		/* by the memo, and so by other names */
	struct kernel_list list;	/* without what follows from sizes */
	const struct ir_count *counts;
	const count_id *uses;	/* bytes of inputs, then those of outputs */
	uint32_t ncounts, nuses, nasked;
	/* `terms` and `than` are places in the key's values */
	const struct fuse_question *asked;
	const uint32_t *terms;
};

/*
 * What names become: by place in a region or by node, and by place in its
 * key's values or by value.
 */
struct fuse_names {
	const uint32_t *nodes, *values;
};

/* What a region's kernels follow from. */
struct fuse_key {
	struct hash hash;	/* of all but sizes */
	struct hash sizes;
	bool known;
	bool none;		/* from more than is in it */
	bool colls, loose;	/* what a region around it has to know */
	bool nests;		/* it has regions inside */
	VEC(value_id) values;	/* by number, from 1: as they are met */
	VEC(value_id) outer;	/* those of them that it does not make */
	VEC(struct fuse_name) names;
	VEC(struct fuse_cut) cuts;	/* of the key at hand alone */
	VEC(count_id) lens;	/* what these follow from, of f->lens */
	uint32_t lengths;	/* axes, bit a each, whose lengths count */
	uint32_t several;	/* or whether they have several ranks */
};

/* Elements of an operand, and of what may be a view of it. */
struct fuse_view {
	count_id in, out;	/* of f->lens */
	bool fits;		/* it may, as long as this stays so */
};

struct fuse {
	struct ir_module *m;
	struct arena *scratch;	/* of all that is known of the module */
	struct arena *a;	/* of the result */
	struct arena *shared;	/* of what its kernels take */
	struct memo *memo;	/* NULL: nothing is kept */
	/* by function */
	bool *classed;		/* its nodes are */
	bool *stores;
	uint8_t op_class[IR_OP_COUNT];	/* and 1, once it was asked for */
	bool *constant;		/* by value */
	uint8_t *class;		/* by node: enum fuse_class */
	VEC(struct fuse_view) views;	/* that classes were asked for */
	struct fuse_key *keys;	/* by region */
	struct ir_counts lens;	/* all that these follow from */

	/*
	 * The call at hand: what most calls need nothing of, since kernels
	 * are known, lies there once somebody asks.
	 */
	struct arena bench;
	double *len;		/* by count of `lens`, those that it had */
	uint32_t nlens;
	func_id func;
	bool *linked;		/* by function: its values' uses are */
	/* by value */
	uint32_t *uses;		/* its last link, and 1 */
	VEC(struct fuse_link) links;
	bool *escapes;		/* a region's result */
	uint32_t *number;	/* of the key at hand, or 0 */
	/* by node */
	uint32_t *place;	/* in its region, and 1 */
	region_id *home;
	uint32_t *at;		/* in the region at hand of the memo */
	uint32_t *said;		/* by name: in the key at hand, and 1 */
	uint32_t *cut_of;	/* by dim: in the key at hand, and 1 */
	struct fuse_typed *typed;	/* by type */
	uint32_t keyed;		/* the key at hand, from 1 */
	struct fuse_key making;	/* the key at hand: its lists have room */
	VEC(double) values;	/* of the counts at hand */

	/* settings: what joins talks */
	bool joins;
	double join_link, join_work;

	/* the region at hand */
	struct arena tmp;
	region_id region;
	bool updates;		/* its function stores */
	uint32_t n;
	const node_id *nodes;
	struct fuse_operand *operands;
	uint32_t *operand;	/* by place: its first, and of the end */
	uint32_t *group_of;	/* by place */
	bool *late;		/* by place: known when all blocks are done */
	VEC(uint32_t) *preds;	/* by place */
	struct fuse_group *groups;
	uint32_t *order;	/* groups, and holes */
	uint32_t norder, mark;
	struct kernel making_one;	/* its lists have room, too */
	VEC(count_id) reading, writing;	/* what it reads and writes */
	/* all that its kernels take, and the bytes of their uses */
	struct ir_counts counts;
	VEC(count_id) uses_bytes;
	/* all that was asked of sizes when groups were made */
	VEC(struct fuse_question) asked;
	VEC(value_id) terms;
};

/* ---- fuse_facts.c ---- */

/* The class of each node of a region and those inside. */
void fuse_classify(struct fuse *f, region_id r);
/* Whether the classes would be the same again. */
bool fuse_classes_hold(struct fuse *f);
/* By count of f->lens, as long as all is in this call. */
const double *fuse_lens(struct fuse *f);
/*
 * What lies in memory behind views, or 0: a constant.  *moved: an element is
 * not where it was.  `moved` may be NULL.
 */
value_id fuse_base(const struct fuse *f, value_id v, bool *moved);
/* The same dims, cut alike, in any order. */
bool fuse_same_space(const struct ir_type *a, const struct ir_type *b);
/* Whether it has all the dims of those rows. */
bool fuse_covers(const struct ir_type *t, const struct ir_type *rows);
/* The rows of a node that sums over the others of its operand's dims. */
struct ir_type fuse_rows(const struct fuse *f, const struct ir_node *n);
/*
 * Whether a sum is over all of its operand, or over the outer dims of it: it
 * is known only when all blocks of a kernel are done.
 */
bool fuse_is_late(const struct fuse *f, const struct ir_node *n);
bool fuse_indexed(const struct ir_node *n);
/*
 * Whether n values together have `times` the bytes of another, at least.  No
 * group is made for another reason of size.
 */
bool fuse_reaches(struct fuse *f, const value_id *v, uint32_t n,
		  uint32_t times, value_id than);
/* Whether all that use the value, through views too, say yes. */
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

/* Where the maker of a value of this region stands. */
static inline uint32_t
fuse_place(const struct fuse *f, value_id v)
{
	return f->place[f->m->values.at[v].node] - 1;
}

/* ---- fuse_key.c ---- */

/* The keys of a region and those inside, whose nodes have their classes. */
void fuse_find_keys(struct fuse *f, region_id r);
/* As long as dims and axes are now. */
void fuse_find_sizes(struct fuse *f, region_id r);

/* ---- fuse_copy.c ---- */

/* From places to the region's own names. */
struct fuse_names fuse_names(const struct fuse *f, const struct fuse_key *key,
			     region_id r);
/* Kernels, without bodies, and nodes that need none. */
void fuse_copy_list(struct arena *a, const struct kernel_list *from,
		    struct fuse_names names, struct kernel_list *to);
/* From here on f->number is there, all of it 0. */
void fuse_number_values(struct fuse *f);
/*
 * Between these two f->at and f->number say which place in the region a node
 * is, and which of the key's values a value.
 */
void fuse_open_names(struct fuse *f, const struct fuse_key *key, region_id r);
void fuse_close_names(struct fuse *f, const struct fuse_key *key);

/* ---- fuse_template.c ---- */

/* Of a region with that key, if one was kept; or NULL. */
const struct fuse_template *fuse_find_template(struct fuse *f,
					 const struct fuse_key *key);
/* What is kept of it, or itself if there is no room. */
const struct fuse_template *fuse_keep_template(struct fuse *f,
					 const struct fuse_key *key,
					 const struct fuse_template *made);
/* A list's kernels, which are the mould's, take what they do now. */
void fuse_fill(struct fuse *f, const struct fuse_template *x,
	       struct kernel_list *l);

/* ---- fuse_memo.c ---- */

/* What a list of that key has as its `content`. */
struct hash fuse_content(const struct fuse_key *key);
/* Fills a list from one that has the key.  False: there is none. */
bool fuse_recall(struct fuse *f, const struct fuse_key *key,
		 struct kernel_list *l);
/*
 * Where what its kernels take may stay for others, so that the list can be
 * remembered; NULL: nowhere.
 */
struct arena *fuse_scratch(struct fuse *f, const struct fuse_template *x);
/* `own`: it differs from the mould by more than what its kernels take. */
void fuse_remember(struct fuse *f, const struct fuse_key *key,
		   const struct fuse_template *tmpl, bool own,
		   struct kernel_list *l);

/* ---- fuse_order.c ---- */

/* Whether a sink puts its value in place of a tensor, not beside a sum. */
bool fuse_stores(const struct ir_node *n);

/* Whether ranks talk in the node itself, not in a region of it. */
bool fuse_colls(const struct fuse *f, node_id id);

/* Places, what each comes behind, and a group for each. */
void fuse_open_region(struct fuse *f, region_id r);
/*
 * Makes one group of two, the one that stands there in the end in *into, if
 * no path leaves them and comes back.
 */
bool fuse_merge(struct fuse *f, uint32_t a, uint32_t b, uint32_t *into);

/* ---- fuse_grow.c ---- */

void fuse_grow(struct fuse *f);

/* ---- fuse_sink.c ---- */

/* Computes cheap values where they are used, not where they are written. */
void fuse_sink(struct fuse *f);

/* ---- fuse_count.c ---- */

/* Between these two groups become kernels. */
void fuse_open_counts(struct fuse *f);
/* The mould of the list. */
struct fuse_template *fuse_close_counts(struct fuse *f,
				     const struct kernel_list *l);
/* What a group reads, writes and computes. */
void fuse_count(struct fuse *f, uint32_t group, struct kernel *k);
/* Whether a value is made in the group, there or as a copy. */
bool fuse_has(const struct fuse *f, uint32_t group, value_id base);
/* Whether a value that the group makes is wanted outside of it. */
bool fuse_is_wanted(struct fuse *f, uint32_t group, value_id v);

/* ---- fuse_join.c ---- */

/*
 * Collectives that are ready near each other become one call, as it pays for
 * what they take.  Whether some do.
 */
bool fuse_join(struct fuse *f, struct kernel_list *l);

/* ---- fuse_comm.c ---- */

/* Puts talk where it can go on beside kernels. */
void fuse_spread_coll(struct fuse *f, struct kernel_list *l);
/* What waits for talk that goes on beside others. */
void fuse_wait_comm(struct fuse *f, struct kernel_list *l);

#endif

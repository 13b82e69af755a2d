/*
 * The IR: an SSA graph of few ops over tensors whose dims have names, in
 * regions.  References are ids, indices into arrays of the module, or of the
 * run for what never changes, and not pointers, so that a pass may append while
 * it walks. docs/ir.md specifies the text form, which has all of it but the
 * spans.
 *
 * Every folder of the compiler includes this; plug-ins do, too.
 */
#ifndef IR_IR_H
#define IR_IR_H

#include "ir/base.h"

/*
 * Must be raised when a struct here, in passes/pass.h or in passes/plan/plan.h
 * changes its meaning or its size.
 */
#define IR_ABI_VERSION 6

enum ir_op {
#define OP(id, name, n, rule, split, dtypes, attrs, flags, flops, bytes, rc, \
	   grad, help) \
	IR_##id,
#include "ir/ops.def"
#undef OP
	IR_OP_COUNT
};

enum ir_dtype {
#define DTYPE(id, name, bits, is_float, most, least) IR_##id,
#include "ir/dtypes.def"
#undef DTYPE
	IR_DTYPE_COUNT
};

enum ir_attr_kind {
	ATTR_DIM, ATTR_DIMS, ATTR_INT, ATTR_NUM, ATTR_FLAG, ATTR_WORD,
	ATTR_STR, ATTR_DTYPE, ATTR_AXES, ATTR_NUMS
};

enum ir_attr_key {
#define ATTR(id, name, kind, help) IR_ATTR_##id,
#include "ir/attrs.def"
#undef ATTR
	IR_NATTRS
};

/* Facts of an op: passes test these instead of comparing ops. */
enum ir_flag {
	IRF_SOURCE = 1 << 0,	/* no operands: a source */
	IRF_UNIQUE = 1 << 1,	/* equal nodes are not merged */
	IRF_PARAM = 1 << 2,	/* a trained weight */
	IRF_MAP = 1 << 3,	/* element by element */
	IRF_SPREAD = 1 << 4,	/* an operand may lack dims of another */
	IRF_COMMUTES = 1 << 5,
	IRF_ROWWISE = 1 << 6,	/* needs whole rows */
	IRF_MOVES = 1 << 7,	/* copies elements */
	IRF_INDEXED = 1 << 8,	/* an operand is looked up by an index */
	IRF_CONTRACTS = 1 << 9,	/* a contraction, for tensor cores */
	IRF_CACHED = 1 << 10,	/* decoding would cache its operands */
	IRF_REGION = 1 << 11,
	IRF_CALLS = 1 << 12,
	IRF_SINK = 1 << 13,	/* no result: stores its operand */
	IRF_STORED = 1 << 14,	/* a tensor from outside of the program */
	IRF_STASH = 1 << 15,	/* saves a value, or reads a saved one */
	IRF_PAIRS = 1 << 16,	/* computes (query, key) pairs */
	IRF_CONVERTS = 1 << 17,	/* changes its operand's placement */
	IRF_COMM = 1 << 18,	/* ranks communicate in it */
	IRF_PEER = 1 << 19,	/* ... with one other stage */
	IRF_LOADED = 1 << 20,	/* read from the files of the model's weights */
	IRF_COUNTS = 1 << 21,	/* operand 1 gets counts, no gradient */
	/* the result is the tensor of its name, of which it writes rows */
	IRF_KEEPS = 1 << 22,
	IRF_SUMS = 1 << 23,	/* the sum that gradients of its name make */
	/* operand 0 may be a cache: of it, places along `of` are read that
	 * operand 1 says, and no others */
	IRF_TAKES = 1 << 24
};

enum ir_recompute { IR_RC_NEVER, IR_RC_CHEAP, IR_RC_ROW, IR_RC_HEAVY };

#define IR_MAX_DIMS 8
#define IR_MAX_RUN_NODES ((int64_t)1 << 40)	/* days of interpreting */
#define IR_MAX_ARGS 64		/* values that a repeat carries, operands of a
				 * layer */
#define IR_MAX_SIZE ((int64_t)1 << 48)	/* of one dim */
#define IR_MAX_DEPTH 200	/* of nested regions, and of expressions */

#define IR_MAX_AXES 8		/* of a mesh */
#define IR_MAX_AXIS (1 << 20)	/* ranks along one */

/* 0 is "none" for each of these. */
typedef uint32_t dim_id, expr_id, value_id, node_id, region_id, func_id;
typedef uint32_t axis_id;	/* 1 .. IR_MAX_AXES */
typedef uint32_t type_id;	/* of the run; 0 is empty */

/*
 * The type of a value.  Along axes of the mesh that it does not mention, the
 * value is whole.
 */
struct ir_type {
	uint8_t dtype;		/* enum ir_dtype */
	uint8_t ndims;
	uint8_t sum;		/* axes along which it is a part of a sum, bit a
				 * each */
	uint8_t routed;		/* axes along which its rows are at their
				 * experts */
	dim_id of;		/* IDX: the dim that it indexes */
	dim_id dims[IR_MAX_DIMS];	/* outermost first */
	uint32_t cut[IR_MAX_DIMS];	/* by dim: the axes that split it, four
					 * bits each, the outermost lowest */
};

/* One axis of the mesh of ranks. */
struct ir_axis {
	sym_t name;
	int64_t size;
	bool time;		/* microbatches, one after another */
	bool balanced;		/* each rank has a piece from either end of a
				 * dim */
	struct span span;
};

enum ir_expr_kind { EXPR_CONST, EXPR_DIM, EXPR_ADD, EXPR_SUB, EXPR_MUL,
		    EXPR_DIV };

/* Integer arithmetic over dims, as written. */
struct ir_expr {
	uint8_t kind;
	uint8_t depth;
	expr_id lhs, rhs;	/* operators */
	dim_id dim;		/* EXPR_DIM */
	int64_t value;		/* its value, always */
};

struct ir_dim {
	sym_t name;
	int64_t size;
	expr_id expr;		/* how size was written; 0: a plain number */
	struct span span;
};

struct ir_attr {
	uint8_t key;		/* enum ir_attr_key */
	uint8_t ndims;
	dim_id dims[IR_MAX_DIMS];	/* DIM, DIMS; AXES: axis_id */
	sym_t text;		/* WORD, STR; NUMS: as it is printed */
	int64_t i;		/* INT, DTYPE; FLAG is 1 */
	double num;		/* NUM */
	expr_id expr;		/* INT written as an expression */
};

struct ir_value {
	type_id type;		/* many have the same */
	sym_t hint;		/* the user's name for it, or 0 */
	node_id node;		/* the node that makes it; 0 for a parameter */
	uint32_t index;		/* index of the result or parameter */
	region_id region;	/* parameter: of this region */
};

struct ir_node {
	uint16_t op;
	uint16_t nargs, nattrs, nresults;
	uint32_t args;		/* index into module args */
	/*
	 * Index into module attrs.  Nodes that are copies of each other share
	 * theirs; to change a node's attributes, give it new ones.
	 */
	uint32_t attrs;
	value_id result;	/* first of its consecutive results */
	region_id region;	/* REPEAT: the body */
	func_id callee;		/* CALL */
	struct span span;
};

/* A list of nodes in order, with parameters and results. */
struct ir_region {
	node_id owner;		/* the repeat, or 0 for a layer's body */
	VEC(node_id) nodes;
	VEC(value_id) params;
	VEC(value_id) results;
};

/* A layer, or the model itself (the last one). */
struct ir_func {
	sym_t name;
	bool is_model;
	region_id body;
	struct span span;
};

enum ir_setting_kind { SET_NUM, SET_WORD, SET_STR };

/*
 * One `set key = value...` line: the settings of blocks like train and serve,
 * and of the plan.
 */
struct ir_setting {
	sym_t key;		/* "train.batch" */
	uint8_t kind;
	uint8_t n;		/* numbers in a tuple; 1 otherwise */
	double num[8];
	sym_t text;
	struct span span;
	struct span value;	/* what follows its `=` */
};

/* `hint shard ffn on tp`, `hint recompute attention`. */
struct ir_hint {
	sym_t verb, what, axis;
	struct span span;
};

struct ir_module {
	struct ir_ctx *ctx;
	sym_t name;
	/* by id; entry 0 of each is "none" */
	VEC(struct ir_dim) dims;
	VEC(struct ir_axis) axes;	/* the mesh, outermost first */
	VEC(struct ir_expr) exprs;
	VEC(struct ir_value) values;
	VEC(struct ir_node) nodes;
	VEC(struct ir_region) regions;
	VEC(struct ir_func) funcs;
	/* arrays that nodes have slices of */
	VEC(value_id) args;
	VEC(struct ir_attr) attrs;
	VEC(struct ir_setting) settings;
	VEC(struct ir_hint) hints;
};

/* All types of a run, each once, shared by its modules. */
struct ir_types {
	struct arena *arena;
	VEC(struct ir_type) at;	/* by id */
	struct table table;
};

/* What all modules of a run share. */
struct ir_ctx {
	/*
	 * of libc's memory; empty in a child, which uses its parent's, and
	 * unused if the context was opened with another gate
	 */
	struct mem_pool pool;
	struct mem mem;		/* its gate */
	struct arena perm;	/* as long as the run */
	struct arena tmp;	/* as long as one pass */
	struct intern syms;
	struct sources sources;
	struct diags diags;
	const struct ir_rule *rules[IR_OP_COUNT];	/* read so far */
	const struct ir_formulas *formulas[IR_OP_COUNT];	/* the same */
	struct ir_costing *costing;	/* of cost.c; NULL: none yet */
	struct arena shared;	/* shared with children; none in a child */
	struct ir_types *types;	/* of type.c, shared with children */
};

/* ---- ops.c: the tables of ops.def, attrs.def, dtypes.def -------------- */

struct ir_op_info {
	const char *name;
	int nargs;		/* -1: any number */
	const char *rule, *split, *dtypes, *attrs;
	uint32_t flags;
	const char *flops, *bytes;
	enum ir_recompute recompute;
	const char *grad;
	const char *help;
};

struct ir_attr_info {
	const char *name;
	enum ir_attr_kind kind;
	const char *help;
};

struct ir_dtype_info {
	const char *name;
	int bits;
	bool is_float;
	double most, least;	/* the range of its positive values */
};

/* What names of scales end in, after that of their weight. */
#define IR_SCALES_SUFFIX "_scale_inv"

/* Elements of a row of an int4 that share a scale of 16 bits. */
#define IR_GROUP 128

extern const struct ir_op_info ir_ops[IR_OP_COUNT];
extern const struct ir_attr_info ir_attrs[IR_NATTRS];
extern const struct ir_dtype_info ir_dtypes[IR_DTYPE_COUNT];

bool ir_find_op(const char *name, enum ir_op *op);
bool ir_find_attr(const char *name, enum ir_attr_key *key);
bool ir_find_dtype(const char *name, enum ir_dtype *dtype);
/* Bytes of an element in memory; of int4 with its part of a scale. */
double ir_elem_bytes(uint8_t dtype);
static inline bool
ir_is(enum ir_op op, uint32_t flag)
{
	return (ir_ops[op].flags & flag) != 0;
}

/*
 * Whether another node that reads the same operands comes to the result on its
 * way, in one kernel with it, so that it costs no operations of its own: the
 * log-sum-exp of attention and of cross-entropy.
 */
static inline bool
ir_is_beside(enum ir_op op)
{
	return ir_ops[op].recompute > IR_RC_CHEAP &&
	       ir_ops[op].flops[0] == '\0';
}

/* Where an op's row lists the attribute, in bytes; -1: it does not. */
long ir_attr_place(enum ir_op op, enum ir_attr_key key);
enum ir_takes { IR_TAKES_NOT, IR_TAKES_OPTION, IR_TAKES_MUST };
/* Whether an op's row lists the attribute. */
enum ir_takes ir_op_takes(enum ir_op op, enum ir_attr_key key);
/* The first attribute that an op's row needs and these lack; or IR_NATTRS. */
enum ir_attr_key ir_missing_attr(enum ir_op op, const struct ir_attr *attrs,
				 uint32_t nattrs);

/* ---- define.c: maps that are defined by other maps --------------------- */

enum ir_define_kind {
	IR_DEFINE_OPERAND, IR_DEFINE_NUMBER, IR_DEFINE_ATTR, IR_DEFINE_MAP
};

/* A step pushes a number, or replaces a map's operands by its result. */
struct ir_define_step {
	enum ir_define_kind kind;
	enum ir_op op;		/* MAP */
	enum ir_attr_key key;	/* ATTR: a number of the node */
	double number;		/* NUMBER */
};

#define IR_MAX_DEFINE 32

struct ir_definition {
	struct ir_define_step step[IR_MAX_DEFINE];
	uint32_t n;
};

/* The steps that compute the op; false: it is not defined by other maps. */
bool ir_define(enum ir_op op, struct ir_definition *out);

/* ---- rule.c: dimension rules ------------------------------------------ */

#define IR_MAX_FACTORS 8
#define IR_MAX_OPERANDS 8

/* One letter or word of a rule, and, once bound, the dims it stands for. */
struct ir_factor {
	char name[8];
	bool group;		/* upper case, or list by attribute */
	bool by_attr;		/* dims named by the attribute `name` */
	uint8_t key;		/* that attribute: enum ir_attr_key */
	uint8_t in;		/* bit k: operand k has it */
	bool out;		/* the result has it: else it is reduced */
	bool bound;
	uint8_t n;
	dim_id dims[IR_MAX_DIMS];
};

struct ir_rule {
	struct ir_factor f[IR_MAX_FACTORS];
	uint8_t nf, nops;
	uint8_t op[IR_MAX_OPERANDS][IR_MAX_FACTORS], nop[IR_MAX_OPERANDS];
	uint8_t out[IR_MAX_FACTORS], nout;
	const char *where;	/* conditions, or "" */
};

/* Parses the op's rule; nothing is bound yet. */
void ir_rule_read(struct ir_rule *r, enum ir_op op);
const struct ir_factor *ir_rule_factor(const struct ir_rule *r,
				       const char *name);
/*
 * Binds the rule of a node to the dims of its operands.  On failure *why is
 * a sentence (in ctx->tmp) that names the rule and the numbers.
 */
bool ir_rule_bind(struct ir_module *m, enum ir_op op,
		  const struct ir_type *const *operands,
		  const struct ir_attr *attrs, uint32_t nattrs,
		  struct ir_rule *r, const char **why);
/*
 * The type of an op's result.  For ops whose dtype column says `t`, and for
 * sources, *out holds the type as written on entry.
 */
bool ir_infer(struct ir_module *m, enum ir_op op,
	      const struct ir_type *const *operands, uint32_t nargs,
	      const struct ir_attr *attrs, uint32_t nattrs,
	      struct ir_type *out, const char **why);

/* The op's rule, parsed once per context. */
const struct ir_rule *ir_rule_of(struct ir_ctx *c, enum ir_op op);

/* Binds the rule of a verified node; dies if it does not bind. */
void ir_bind(struct ir_module *m, const struct ir_node *n,
	     struct ir_rule *r);

/* ---- module.c: names, dims, functions, settings, attributes ----------- */

const char *ir_text(const struct ir_ctx *c, sym_t s);
struct ir_module *ir_module_new(struct ir_ctx *c);
dim_id ir_dim_add(struct ir_module *m, sym_t name, int64_t size,
		  expr_id expr, struct span span);
dim_id ir_dim_find(const struct ir_module *m, sym_t name);
const char *ir_dim_name(const struct ir_module *m, dim_id d);
int64_t ir_dim_size(const struct ir_module *m, dim_id d);

expr_id ir_expr_const(struct ir_module *m, int64_t v);
expr_id ir_expr_dim(struct ir_module *m, dim_id d);
/* 0, and *why, if the result overflows, divides unevenly or by zero. */
expr_id ir_expr_op(struct ir_module *m, enum ir_expr_kind kind, expr_id a,
		   expr_id b, const char **why);

func_id ir_func_add(struct ir_module *m, sym_t name, bool is_model,
		    struct span span);
func_id ir_func_find(const struct ir_module *m, sym_t name);
func_id ir_model(const struct ir_module *m);	/* 0 if there is none */
region_id ir_region_add(struct ir_module *m, node_id owner);

const struct ir_attr *ir_attr(const struct ir_module *m,
			      const struct ir_node *n, enum ir_attr_key key);
/* Whether the dim, or axis, is among those of the attribute. */
bool ir_attr_has(const struct ir_attr *a, dim_id d);
int64_t ir_attr_int(const struct ir_module *m, const struct ir_node *n,
		    enum ir_attr_key key, int64_t absent);
double ir_attr_num(const struct ir_module *m, const struct ir_node *n,
		   enum ir_attr_key key, double absent);
const struct ir_setting *ir_setting(const struct ir_module *m,
				    const char *key);
double ir_setting_num(const struct ir_module *m, const char *key,
		      double absent);

/* A list of numbers is kept as text, "1, 2.5". */
#define IR_MAX_LIST 65536
void ir_list_add(struct buf *list, double v);
/* Reads the first number; returns the text of the others. */
const char *ir_list_next(const char *list, double *v);
int64_t ir_list_count(const char *list);

/* Placeholders in names of tensors: {i} and {2*i+1} are numbers that the
 * variable of a repeat gives, {expert} is the index of a dim. */
#define IR_MAX_PLACEHOLDER 1000000	/* of its two numbers */

/* What is between the braces: [times *] variable [+ plus]. */
struct ir_placeholder {
	const char *var;		/* n characters */
	size_t n;
	int64_t times, plus;
};

/* Text of another form is as a whole the name of a variable, of none. */
void ir_placeholder_read(const char *text, size_t n,
			 struct ir_placeholder *out);
bool ir_placeholder_is(const struct ir_placeholder *p, const char *var);
/* The number that it stands for where the variable is i. */
int64_t ir_placeholder_at(const struct ir_placeholder *p, int64_t i);
/* Appends it with braces, and `by` in place of the variable. */
void ir_placeholder_put(struct buf *out, const struct ir_placeholder *p,
			const char *by);
/*
 * Whether each layer has a tensor of that full name: a variable in it is of a
 * repeat, and not the index of a dim, as experts have.
 */
bool ir_name_is_in_layers(const struct ir_module *m, sym_t name);

/* ---- graph.c: parameters, nodes, uses ---------------------------------- */

value_id ir_param_add(struct ir_module *m, region_id r,
		      const struct ir_type *type, sym_t hint);

/* A node to be appended. types[0] is empty at first; the others are not set. */
struct ir_new {
	enum ir_op op;
	value_id args[IR_MAX_ARGS];
	uint32_t nargs;
	struct ir_attr attrs[IR_NATTRS];
	uint32_t nattrs;
	struct ir_type types[IR_MAX_ARGS];	/* of the results */
	uint32_t nresults;
	region_id region;
	func_id callee;
	sym_t hint;
	struct span span;
};
void ir_new_init(struct ir_new *n, enum ir_op op, struct span span);
void ir_new_arg(struct ir_new *n, value_id v);
struct ir_attr *ir_new_attr(struct ir_new *n, enum ir_attr_key key);
void ir_new_dim(struct ir_new *n, enum ir_attr_key key, dim_id d);
void ir_new_int(struct ir_new *n, enum ir_attr_key key, int64_t v);
void ir_new_num(struct ir_new *n, enum ir_attr_key key, double v);
void ir_new_text(struct ir_new *n, enum ir_attr_key key, sym_t s);
/*
 * Infers the result type, sorts the attributes into the row's order and
 * appends to the region.  0, and *why, if the rule does not hold.
 */
value_id ir_append(struct ir_module *m, region_id r, struct ir_new *n,
		   const char **why);

/* The same for a sink, which has no result. */
bool ir_append_sink(struct ir_module *m, region_id r, struct ir_new *n,
		    const char **why);
/*
 * Appends a copy of a node that has no region, with other arguments of the same
 * types: the result has the same type, placement included.
 */
value_id ir_append_like(struct ir_module *m, region_id r, node_id like,
			const value_id *args);

static inline const struct ir_node *
ir_node(const struct ir_module *m, node_id n)
{
	return &m->nodes.at[n];
}
static inline const struct ir_type *
ir_type_of(const struct ir_ctx *c, type_id t)
{
	return &c->types->at.at[t];
}
static inline const struct ir_type *
ir_type(const struct ir_module *m, value_id v)
{
	return ir_type_of(m->ctx, m->values.at[v].type);
}
static inline value_id *
ir_args(const struct ir_module *m, const struct ir_node *n)
{
	return m->args.at ? m->args.at + n->args : NULL;
}

/*
 * The weight stored rounded whose elements v has, perhaps a part of them: v is
 * the weight, what conversions of its placement make of it, or a cast of that,
 * which kernels do while they load.  NULL: it is none.
 */
const struct ir_node *ir_rounded_weight(const struct ir_module *m, value_id v);

/* Replaces uses of v by map[v], unless that is 0. */
void ir_replace_uses(struct ir_module *m, const value_id *map);

/* ---- type.c: types ---------------------------------------------------- */

/* A new set in arena a, which has the empty type alone. */
struct ir_types *ir_types_new(struct arena *a);
/* The same types with the same ids in arena a. */
struct ir_types *ir_types_copy(const struct ir_types *x, struct arena *a);
/*
 * The id of a type.  Pointers to kept types stay valid; to change what a value
 * is, give it another type.
 */
type_id ir_type_keep(struct ir_ctx *c, const struct ir_type *t);
/* A hash, equal for equal types; entries after the last dim do not count. */
uint64_t ir_type_hash(const struct ir_type *t);
/*
 * Whether they are equal: ir_type_equal compares placements, too, ir_type_same
 * does not.
 */
bool ir_type_equal(const struct ir_type *a, const struct ir_type *b);
bool ir_type_same(const struct ir_type *a, const struct ir_type *b);
bool ir_type_has(const struct ir_type *t, dim_id d);
/* Elements of a row along these dims, if they are the type's last; else 0. */
int64_t ir_row_elems(const struct ir_module *m, const struct ir_type *t,
		     const struct ir_attr *over);
/* Whether, of an int4 with such rows, as many equal parts along dim i have
 * whole groups. */
bool ir_keeps_groups(const struct ir_module *m, const struct ir_type *t,
		     const struct ir_attr *over, uint32_t i, int64_t parts);
/* The index of a dim, or -1. */
int ir_type_at(const struct ir_type *t, dim_id d);
/* The number of elements; false if it does not fit 63 bits. */
bool ir_type_elems(const struct ir_module *m, const struct ir_type *t,
		   int64_t *elems);
const char *ir_type_text(const struct ir_module *m, const struct ir_type *t);

/* ---- rope.c: rotary frequencies ----------------------------------------- */

/* Sets out[0 .. d / 2): radians per position of each pair of a rope's row. */
void ir_rope_frequencies(const struct ir_module *m, const struct ir_node *n,
			 int64_t d, double *out);

/* ---- copy.c: contexts, and copies of modules -------------------------- */

/* m: the gate for all allocations, or NULL. */
void ir_ctx_init(struct ir_ctx *c, const struct mem *m);
void ir_ctx_release(struct ir_ctx *c);
/*
 * A context for one trial: it has the parent's names, sources and warning
 * settings, and no errors.  What is added to it, names and errors included, is
 * released with it and not seen in the parent, which must outlive it.  A
 * context must not be moved.
 */
void ir_ctx_child(struct ir_ctx *c, const struct ir_ctx *parent);
/*
 * A child with memory, of libc, and types of its own: while one thread uses it
 * and children of it, another may use the parent.
 */
void ir_ctx_apart(struct ir_ctx *c, const struct ir_ctx *parent);
/*
 * A copy of the module in c, with the same ids; the two share nothing that
 * either may change. c is m's context, or a child of it that was made after the
 * last name of m was added.
 */
struct ir_module *ir_copy(const struct ir_module *m, struct ir_ctx *c);
/* A copy in the same context, but in arena a, and read-only. */
struct ir_module *ir_copy_in(const struct ir_module *m, struct arena *a);
/*
 * By id: the number among those that functions reach, from 1; 0: not reached.
 */
struct ir_reached {
	uint32_t *node, *value, *region;
	uint32_t nnodes, nvalues, nregions;	/* how many, "none" included */
	uint32_t nargs;		/* operands of these nodes */
};

/* Numbers what functions reach: passes leave nodes that are in no region. */
void ir_reach(const struct ir_module *m, struct arena *a,
	      struct ir_reached *x);
/*
 * A module of what is reached alone, with these numbers as ids, in the same
 * context, but in arena a.
 */
struct ir_module *ir_compact(const struct ir_module *m,
			     const struct ir_reached *as, struct arena *a);
/*
 * The same in c, a new context beside m's, which is released with all that
 * passes have left there: both are children of one parent.
 */
struct ir_module *ir_move(struct ir_module *m, struct ir_ctx *c);

/* ---- hash.c: whether two modules compute the same ---------------------- */

/*
 * A hash of all that functions compute: dims by names and sizes, values by
 * types, nodes with their attributes.  The mesh, settings, hints, spans and
 * names of values do not count.
 */
struct hash ir_hash(const struct ir_module *m);
/*
 * A hash of all of it, names by their ids, which are the same in a context and
 * its children; but children may give one id to two names that they add.
 */
struct hash ir_hash_all(const struct ir_module *m);
/* Adds the texts of names whose ids are not below `from`. */
void ir_hash_names(const struct ir_module *m, sym_t from, struct hash *to);

/* ---- axes.c: the mesh, and how values are placed on it ------------------ */

axis_id ir_axis_add(struct ir_module *m, sym_t name, int64_t size,
		    struct span span);
axis_id ir_axis_find(const struct ir_module *m, sym_t name);
const char *ir_axis_name(const struct ir_module *m, axis_id a);

enum ir_how { IR_IS_WHOLE, IR_IS_PART, IR_IS_SPLIT, IR_IS_ROUTED };

/* The placement of a value along one axis. */
struct ir_along {
	enum ir_how how;
	dim_id dim;		/* SPLIT: along this dim */
};

struct ir_along ir_along(const struct ir_type *t, axis_id a);
bool ir_along_equal(struct ir_along a, struct ir_along b);
/* A new split is inside of those that the dim has. */
void ir_set_along(struct ir_type *t, axis_id a, struct ir_along s);
/*
 * The axes that split dim i of the type, outermost first; returns their number.
 */
uint32_t ir_cuts(const struct ir_type *t, uint32_t i,
		 axis_id axes[IR_MAX_AXES]);
/* "split by `heads`", for a message. */
const char *ir_along_text(const struct ir_module *m, struct ir_along s);
/* Add ":dp:tp" and "{+tp, @ep}", or nothing. */
void ir_put_cut(const struct ir_module *m, uint32_t cut, struct buf *out);
void ir_put_marks(const struct ir_module *m, const struct ir_type *t,
		  struct buf *out);

/* ---- pieces.c: which elements a rank has -------------------------------- */

/* The positions of a dim that a rank has, in its order. */
struct ir_pieces {
	uint32_t n;
	int64_t total;		/* the number of positions, possibly 0 */
	struct {
		int64_t start, count;
	} at[IR_MAX_AXES + 1];	/* a balanced axis adds one at most */
};

/*
 * Those of a dim of that size, cut as in ir_type.cut, on the rank of coordinate
 * at[a] on axis a.  Only this function knows how an axis cuts.
 */
void ir_pieces(const struct ir_module *m, int64_t size, uint32_t cut,
	       const uint32_t *at, struct ir_pieces *out);
/* Whether an axis of that cut is balanced. */
bool ir_is_balanced(const struct ir_module *m, uint32_t cut);
/* The largest number of pieces of a dim with that cut on any rank. */
uint32_t ir_pieces_most(const struct ir_module *m, uint32_t cut);
/* The position at index i. */
int64_t ir_pieces_at(const struct ir_pieces *p, int64_t i);
/* The index of a position, or -1. */
int64_t ir_pieces_find(const struct ir_pieces *p, int64_t position);

/* The most positions of a dim of that size that any rank has. */
int64_t ir_most(const struct ir_module *m, int64_t size, uint32_t cut);
/*
 * The most elements that any rank has; rows that are routed count as spread
 * evenly over all ranks.
 */
double ir_most_elems(const struct ir_module *m, const struct ir_type *t);
/*
 * Elements from one row to the next of rows of n elements that may lie apart.
 * They begin at multiples of 128 bytes, as stages of tiles and lines of caches
 * do, or else of 16, as tensor maps must (PTX ISA, "Tensor-map"), if at most a
 * sixteenth of a row is added; else they are n.  A longer row never has less.
 */
int64_t ir_row_pitch(enum ir_dtype t, int64_t n);

/*
 * The elements of a tensor that a rank has; they are row-major, as those of the
 * whole tensor are.
 */
struct ir_local {
	uint32_t ndims;
	struct ir_pieces dims[IR_MAX_DIMS];
	int64_t whole[IR_MAX_DIMS];	/* sizes of the dims */
	int64_t elems;
};

/* `at` NULL: there is one rank, which has all. */
void ir_local(const struct ir_module *m, const struct ir_type *t,
	      const uint32_t *at, struct ir_local *out);
/* The index in the whole tensor of the rank's element i. */
int64_t ir_local_at(const struct ir_local *l, int64_t i);
/* The rank's element that has this index in the whole tensor, or -1. */
int64_t ir_local_find(const struct ir_local *l, int64_t at);

/* ---- ways.c: how an op may run along an axis --------------------------- */

#define IR_MAX_WAYS 40

/* The placements of its operands and its result if it runs this way. */
struct ir_way {
	struct ir_along in[IR_MAX_OPERANDS], out;
	bool colls;		/* the node must have the axis in `on` */
};

/*
 * All ways of a node that is no source, sink, region or call; the first has
 * everything whole.  They follow from the rule and the split column of its row
 * alone.  Returns their number.
 */
uint32_t ir_ways(struct ir_module *m, const struct ir_node *n, axis_id a,
		 struct ir_way *ways);
/* Whether the op has the same ways along every axis, whatever its size. */
bool ir_same_ways(enum ir_op op);

/* ---- placement.c: whether placements compose ---------------------------- */

/* The op that converts one placement to the other; false: no single op does. */
bool ir_conversion(struct ir_along from, struct ir_along to, enum ir_op *op);
/*
 * NULL if the placements of operands and result agree, else a sentence that
 * names what differs and what is missing.
 */
const char *ir_place_fault(struct ir_module *m, const struct ir_node *n);

/* ---- counts.c: counts as functions of the lengths of dims and axes ------ */

/* The index of a count in a list; 0 is the number 0, and 1 is 1. */
typedef uint32_t count_id;
#define IR_COUNT_ONE 1

enum ir_count_kind {
	IR_COUNT_NUMBER,	/* the bits of a double: a, and b << 32 */
	IR_COUNT_LEN,		/* the most positions of dim a, cut by b */
	IR_COUNT_RANKS,		/* the product of axes a, bit 0 being axis 1 */
	IR_COUNT_ADD,
	IR_COUNT_MUL,
	IR_COUNT_DIV,
	IR_COUNT_SHARES,	/* a / b, rounded up */
	IR_COUNT_LEAST,
	IR_COUNT_MOST,
	IR_COUNT_UNLESS,	/* 1 if a is above 1, else b */
	IR_COUNT_PAIRS,		/* of a queries and b keys, c: the window */
	IR_COUNT_PAIRS_BEFORE	/* the same, causal */
};

struct ir_count {
	uint32_t kind;		/* enum ir_count_kind */
	uint32_t a, b, c;
};

struct ir_counted_type {
	struct ir_type type;
	count_id elems, bytes;
};

struct ir_counts {
	struct arena *arena;
	VEC(struct ir_count) at;	/* by count_id */
	VEC(struct ir_counted_type) types;	/* the first is none */
	struct table known, types_known;
};

/* A number as an IR_COUNT_NUMBER, and back. */
struct ir_count ir_count_of(double v);
double ir_count_value(const struct ir_count *x);
void ir_counts_open(struct ir_counts *c, struct arena *a);
void ir_counts_clear(struct ir_counts *c);
count_id ir_count_number(struct ir_counts *c, double v);
count_id ir_count_len(struct ir_counts *c, dim_id d, uint32_t cut);
count_id ir_count_ranks(struct ir_counts *c, uint32_t axes);
count_id ir_count_add(struct ir_counts *c, count_id a, count_id b);
count_id ir_count_mul(struct ir_counts *c, count_id a, count_id b);
count_id ir_count_div(struct ir_counts *c, count_id a, count_id b);
count_id ir_count_shares(struct ir_counts *c, count_id a, count_id b);
count_id ir_count_least(struct ir_counts *c, count_id a, count_id b);
count_id ir_count_most(struct ir_counts *c, count_id a, count_id b);
count_id ir_count_unless(struct ir_counts *c, count_id a, count_id b);
count_id ir_count_pairs(struct ir_counts *c, count_id queries, count_id keys,
			bool causal, int64_t window);
/* What ir_most_elems returns; its bytes; and the bytes of elems of a dtype. */
count_id ir_count_elems(struct ir_counts *c, const struct ir_type *t);
count_id ir_count_type(struct ir_counts *c, const struct ir_type *t);
count_id ir_count_bytes(struct ir_counts *c, count_id elems, uint8_t dtype);
/*
 * Evaluates the first n of a list for the lengths of m as they are now; v by
 * id.
 */
void ir_counts_run(const struct ir_module *m, const struct ir_count *at,
		   uint32_t n, double *v);

/* By how much a score is less for each position between query and key, in a
 * head of so many: 2^-(alibi / heads), its square, ... (Press et al. 2021).
 * Where heads are no power of two, the next smaller one has these, and the rest
 * every other one of twice as many. */
double ir_alibi_slope(double alibi, int64_t heads, int64_t head);
/* The largest power of two of at most so many heads. */
int64_t ir_alibi_base(int64_t heads);
/* The (query, key) pairs of one head and one sequence. */
double ir_attention_pairs(int64_t queries, int64_t keys, bool causal,
			  int64_t window);

/* ---- cost.c: flops and bytes of a node --------------------------------- */

struct ir_cost {
	double flops, bytes;
};
/* One execution of the node, by its row's formulas; not its region. */
void ir_cost(struct ir_module *m, const struct ir_node *n,
	     struct ir_cost *out);
/* The flops of a node alone. */
double ir_flops(struct ir_module *m, const struct ir_node *n);
/* The flops of the rank that has most to compute. */
double ir_local_flops(struct ir_module *m, const struct ir_node *n);
count_id ir_count_flops(struct ir_counts *c, struct ir_module *m,
			const struct ir_node *n);

/* ---- print.c, read.c, verify.c: text form and rules ------------------- */

void ir_print(struct ir_module *m, struct buf *out);
/*
 * The same without an allocation, for signal handlers: *scratch was prepared by
 * ir_print_ready for a module of at most as many values and regions, and serves
 * once.
 */
struct ir_print_scratch {
	uint32_t *number;	/* by value */
	bool *done;		/* by region */
};
void ir_print_ready(const struct ir_module *m, struct arena *a,
		    struct ir_print_scratch *out);
void ir_print_in(struct ir_module *m, const struct ir_print_scratch *scratch,
		 struct buf *out);
/* NULL after reporting at least one error. file is an index of sources. */
struct ir_module *ir_read(struct ir_ctx *c, uint32_t file);
/* Reports the first broken rule of each node; true if there is none. */
bool ir_verify(struct ir_module *m);

/* ---- rng.c: the counter-based generator ------------------------------- */

/* Philox-4x32-10 with a 64-bit key; the upper half of the counter is 0. */
void ir_philox(uint64_t key, uint64_t counter, uint32_t out[4]);
/* The key of a tensor's stream: its name and the run's seed. */
uint64_t ir_rng_key(const char *name, uint64_t seed);
/* Element `index` of a standard normal stream; the same on every machine. */
double ir_rng_normal(uint64_t key, uint64_t index);
/*
 * Element `index` of a dropout mask in that optimizer step: false with
 * probability `rate`, which is at least 0 and below 1.
 */
bool ir_rng_keeps(uint64_t key, uint64_t step, uint64_t index, double rate);
/* Element `index` of a stream of integers below n. */
int64_t ir_rng_below(uint64_t key, uint64_t index, int64_t n);

/* ---- interp.c: the reference interpreter ------------------------------ */

/*
 * Tensors from elsewhere than the generator, and where sinks put theirs.  `op`
 * says which of the tensors of a name is meant: the weight, the optimizer
 * state, its gradient.  NULL functions do nothing.
 */
struct ir_weights {
	/*
	 * Fills out[0..elems) with a stored tensor; false: it reported an
	 * error.
	 */
	bool (*get)(void *user, enum ir_op op, const char *name,
		    const struct ir_type *type, int64_t elems, double *out,
		    struct span at);
	/* `accumulate` adds to what is there, `store` replaces it. */
	bool (*put)(void *user, enum ir_op op, const char *name,
		    const struct ir_type *type, int64_t elems,
		    const double *data, struct span at);
	/* False: `get` has no tensor of that name; the generator makes it. */
	bool (*has)(void *user, enum ir_op op, const char *name);
	/* Fills an input; false: it is drawn at random. */
	bool (*input)(void *user, const char *name,
		      const struct ir_type *type, int64_t elems, double *out);
	void *user;
};

struct ir_eval_options {
	uint64_t seed;
	func_id func;		/* the function to run, which has no operands;
				 * 0: the model */
	const struct ir_weights *weights;	/* NULL: the generator */
	/*
	 * Called for each value that has a name; path is "repeat[3]/block/q".
	 * May be NULL.
	 */
	void (*seen)(void *user, const char *path, const struct ir_type *type,
		     const double *data, int64_t elems);
	void *user;
	int64_t max_bytes;	/* refuse to hold more than this; 0: no limit */
};

struct ir_eval_result {
	struct ir_type type;
	double *data;		/* in ctx->perm */
	int64_t elems;
};

/*
 * Runs the model, and sets the first *n <= max results.  False after an error.
 */
bool ir_eval(struct ir_module *m, const struct ir_eval_options *opt,
	     struct ir_eval_result *results, uint32_t max, uint32_t *n);
/*
 * What that takes, without computing anything.  False, after an error, if it
 * would hold more than opt->max_bytes or compute for days.
 */
struct ir_needs;
bool ir_eval_count(struct ir_module *m, const struct ir_eval_options *opt,
		   struct ir_needs *needs);
/* A checksum of the bits of a tensor, for --checksum. */
uint64_t ir_checksum(const double *data, int64_t elems);

#endif

/*
 * The rank program, between the files of codegen/host/: nobody else includes
 * this.  What others call is in codegen/cg.h (cg_code_*).
 *
 * From rank programs and their kernels this folder makes the LLVM module that
 * every rank runs.  host_code.c leads: kernels are emitted first, by
 * codegen/cpu/ or codegen/cuda/, so that their scratch is known before memory
 * is planned; then functions, which find all operands at constant places of
 * the arena, and the data of runtime/abi.h that describe everything to the
 * runtime.
 *
 * Sections are named for the .c that defines them, and stand in the order in
 * which files call each other: each calls those above it.
 */
#ifndef CODEGEN_HOST_HOST_H
#define CODEGEN_HOST_HOST_H

#include "codegen/cg.h"
#include "codegen/cpu/cpu.h"
#include "codegen/cuda/cuda.h"
#include "passes/memory/memory.h"
#include "passes/price/price.h"

#define HOST_MAX_VARS 8		/* repeats around a launch, and microbatches */
#define HOST_WORKERS 8		/* of a rank's CPU, at most */
#define HOST_ALIGN 256		/* of scratch, as of the arena */
#define HOST_NUMS 24		/* number arguments of a service, at most */
/*
 * Weights and states of a program.  The program has tables of them: each
 * takes 0.4 kB there, and 3 kB and 25 us to compile.
 */
#define HOST_MOST_TENSORS 1048576

/* ---- host_fit.c --------------------------------------------------------- */

/*
 * A function of a few counters, in the simplest form that computes it: the
 * sum of a constant and, for each counter, a multiple of it or a table
 * lookup; if it is no such sum, one table over all counters that matter.
 */
struct host_fit {
	int64_t base;
	uint32_t n;		/* counters, the last fastest in `all` */
	struct {
		uint32_t count;
		int64_t stride;		/* if there is no table */
		const int64_t *table;
		bool matters;		/* to `all` */
	} by[HOST_MAX_VARS];
	const int64_t *all;
};

/* Fits the values at all places of the counters, the last one fastest. */
void host_find_fit(struct arena *a, const uint32_t *counts, uint32_t n,
		   const int64_t *at, struct host_fit *out);
bool host_fit_constant(const struct host_fit *f);
/* Its value; the compiled form is tested against this. */
int64_t host_fit_at(const struct host_fit *f, const uint32_t *at);
/* Emits code that computes it from the counters `at`. */
struct ll_value *host_fit_value(struct ll *l, const struct host_fit *f,
				struct ll_value *const *at);

/* ---- the plan being compiled --------------------------------------------- */

/* Which positions of a dim ranks have: see rt_spread. */
struct host_spread {
	int64_t size;
	uint32_t cut;
	bool by_time;
};

/* A collective, as far as the scratch that it packs in depends on it. */
struct host_coll {
	uint32_t class, axes;
	int64_t elem_bytes;
	bool sums;		/* what is received is added up */
	uint32_t ndims;
	struct cg_spread in[IR_MAX_DIMS], out[IR_MAX_DIMS];
	int64_t bytes;		/* its scratch */
};

/* An emitted kernel.  All launches of equal kernels share it. */
struct host_kernel {
	struct cg_kernel k;
	VEC(value_id) values;	/* of the first such kernel, as numbered */
	VEC(node_id) nodes;
	struct ll_value *steps;
	uint32_t image;		/* of a GPU: its number */
	VEC(struct cu_candidates) ways;	/* of a GPU: which tiles were chosen */
	int64_t *at_bytes;	/* of operands */
	bool apart;		/* each of its members has a launch: no code */
};

/* One launch of it: the launch's own values and nodes, in the same order. */
struct host_use {
	struct host_kernel *kernel;
	VEC(value_id) values;
	VEC(node_id) nodes;
};

/* Ranks at one place of the pipeline whose pieces all have equal sizes. */
struct host_class {
	struct cg_code *c;
	uint32_t pipe, number;	/* among those of the place */
	uint32_t at[IR_MAX_AXES + 1];	/* coordinates of one of them */
	struct cg_cpu cpu;	/* what emits kernels: this, or of a GPU that */
	struct cg_cuda cuda;
	int64_t comm_bytes, comm_offset;	/* packing of collectives */
	int64_t shared_bytes, own_bytes, work_offset, watch_offset;
	int64_t arena_bytes;
	int64_t host_at;	/* where its host's part begins; 0: none */
	bool watches;		/* the update computes the gradient's norm */
	/* by buffer, of each item; NULL: it is set to zero before a step */
	struct host_opener **openers;
};

/* A weight or state, and where a place of the pipeline holds one. */
struct host_tensor {
	const char *name;
	node_id node;		/* one that reads it */
	uint32_t pipe;		/* the place that saves it */
	uint32_t number;	/* in the order of names */
};

struct host_hold {
	uint32_t tensor, pipe;
	int64_t offset;
};

struct cg_code {
	struct cg_input in;
	const struct ranks *r;
	struct ir_module *m;
	struct ll *ll;
	struct arena *a;
	struct kernels *const *all;
	struct cg_panel_weights panels;	/* none, unless it serves */
	const bool *apart;	/* by value: see memory_apart */
	struct memory mem;
	struct intern keys;	/* kernels as text */
	VEC(struct host_kernel *) kernels;	/* by key */
	VEC(struct host_class) classes;
	uint32_t *class_of;	/* by rank */
	VEC(struct host_spread) spreads;
	struct ll_value *spread_data;	/* NULL: more may be added */
	VEC(int64_t) groups;	/* of axes that collectives go along */
	uint32_t most[3];	/* operands, spreads, numbers of a kernel */
	uint32_t nfuncs;	/* of kernels so far, for names */
	const struct cu_arch *arch;	/* NULL: kernels are for CPUs */
	struct cu_tiling *tiling;	/* of a GPU's, or NULL */
	VEC(struct cg_source) sources;	/* of a GPU: by image */
	VEC(struct host_coll) colls;	/* that were counted */
	struct pricing pricing;
	struct ll_value *copy, *place;	/* functions; NULL: not emitted yet */
	VEC(struct ll_value *) fills;	/* by key, see host_start.c */
	VEC(struct host_tensor) tensors;
	VEC(struct host_hold) holds;
	struct ll_value *tensor_data;
	VEC(int64_t) joins;	/* by name of a tensor: see host_joins.c */
	struct intern shared_names;
	VEC(uint64_t) holders;	/* by shared name, a bit for each place */
};

/* ---- host_data.c: words of structs of abi.h ----------------------------- */

#define HOST_WORDS(type) (sizeof(type) / 8)
#define HOST_SET(words, type, member, value) \
	((words)[offsetof(type, member) / 8] = (value))

/* n words that are 0. */
struct ll_value **host_words(struct cg_code *c, size_t n);
/* The numbers of a struct of abi.h; its pointers are set by HOST_SET. */
#define HOST_FILL(c, words, x) host_fill_words(c, words, &(x), sizeof(x))
void host_fill_words(struct cg_code *c, struct ll_value **words, const void *x,
		     size_t bytes);
struct ll_value *host_data(struct cg_code *c, struct ll_value *const *words,
			   size_t n);
/* RT_ELEM_*; -1: the runtime has no such elements. */
int host_elem(enum ir_dtype t);
/* The same of a tensor: weights may be stored in 8 bits. */
int host_stored_elem(enum ir_dtype t);
/* The same of elements that collectives move: those of 8 bits, too. */
int host_coll_elem(enum ir_dtype t);
/* Positions of a dim on a rank of the class; bytes of a value there. */
int64_t host_local(const struct host_class *k, dim_id d, uint32_t cut);
int64_t host_bytes(const struct host_class *k, value_id v);
/* Whether a weight lies in panels on ranks of the class. */
bool host_panel(const struct host_class *k, value_id v, struct cg_panel *out);
/* Of a kernel that runs by parts: from the value to this part of it. */
int64_t host_part_bytes(const struct host_class *k, const struct kernel *x,
			value_id v, uint32_t part);

/* ---- host_spread.c: positions of dims, and classes of ranks -------------- */

/* Its number; a new one is added unless host_spread_data was called. */
uint32_t host_add_spread(struct cg_code *c, int64_t size, uint32_t cut);
struct ll_value *host_spread_at(struct cg_code *c, uint32_t number);
/* Pointers to those of all dims of a type. */
struct ll_value *host_spreads_of(struct cg_code *c, const struct ir_type *t);
/* The spread whose first position is a rank's coordinate on the axis. */
uint32_t host_coordinate(struct cg_code *c, axis_id a);
/* The positions of a rank, as the runtime has them. */
void host_pieces_of(const struct cg_code *c, int64_t size, uint32_t cut,
		    uint32_t rank, uint32_t microbatch, struct rt_pieces *out);
/* How combine `n` cuts the experts' dim among the ranks of its group. */
uint32_t host_experts_cut(const struct ir_module *m, const struct ir_node *n);
/* All that types of the program refer to, as data. */
void host_spread_data(struct cg_code *c);
/* False: the sizes of microbatches differ, which is reported. */
bool host_find_classes(struct cg_code *c);

/* ---- host_coll.c: collectives -------------------------------------------- */

/* An rt_coll before it is data: its numbers, and what its pointers lead to. */
struct host_rt_coll {
	struct rt_coll is;
	const char *what;
	struct ll_value *in, *out;
	struct ll_value *next;	/* NULL: none */
};

struct ll_value *host_coll_data(struct cg_code *c,
				const struct host_rt_coll *t);
/* That of a step of a kernel. */
struct ll_value *host_step_coll(struct cg_code *c, const struct cg_step *s,
				const char *what);
/* Counts the scratch of n more collectives of the class that are one call. */
void host_pack_scratch(struct host_class *k, struct host_coll *t, uint32_t n);

/* ---- host_trials.c: all tiles of a contraction --------------------------- */

/* A map as a rank has it. */
struct rt_map host_map(const struct cg_map *m);
/* The kernel, called `what`, was emitted as x; its first function was number
 * `nfuncs`. */
void host_add_trials(struct cg_code *c, struct host_class *k,
		     const struct kernel *kernel, const char *what,
		     const struct host_kernel *x, uint32_t nfuncs);

/* ---- host_kernel.c: kernels, each emitted once --------------------------- */

/* Bytes of arguments that a GPU's function gets: the most of all steps. */
int64_t host_args_bytes(const struct cg_kernel *k);
/* False after an error there: they are more than a function can have. */
bool host_args_fit(struct cg_code *c, const struct cg_kernel *k,
		   struct span span);
/* Emits the kernel, unless an equal one was emitted.  False: reported.  Of a
 * launch of several, true too where these are to be launched one by one. */
bool host_emit_kernel(struct cg_code *c, struct host_class *k,
		      const struct kernel *x);
/* Emits what is launched at place i of a list. */
bool host_emit_launch(struct cg_code *c, struct host_class *k,
		      const struct kernel_list *l, uint32_t i);
/* What is launched there, when all is emitted: the kernel, or all contractions
 * of a launch that begins with it.  NULL: it is in a launch before. */
const struct kernel *host_launched(struct cg_code *c, struct host_class *k,
				   const struct kernel_list *l, uint32_t i);
/* A launch of a kernel that was emitted. */
void host_use_kernel(struct cg_code *c, struct host_class *k,
		     const struct kernel *x, struct host_use *out);
/* The launch's node and value in place of those of the emitted kernel. */
node_id host_use_node(const struct host_use *u, node_id of);
value_id host_use_value(const struct host_use *u, value_id of);
/* An rt_kernel; its name, flops, bytes and time are those of x. */
struct ll_value *host_kernel_data(struct cg_code *c, struct host_kernel *h,
				  const struct kernel *x);
/* The same of a kernel of the host program's own. */
struct ll_value *host_own_kernel(struct cg_code *c, const struct cg_kernel *k,
				 const int64_t *at_bytes, double bytes);

/* ---- host_func.c: a function, and calls of the runtime ------------------- */

/* A repeat that is being emitted. */
struct host_scope {
	const struct ir_node *repeat;
	uint32_t count;
	struct ll_value *i;
	const struct host_scope *outer;
};

/* A function that is being emitted. */
struct host_func {
	struct cg_code *c;
	struct host_class *k;
	struct memory_run run;
	uint32_t kind;		/* enum sched_kind; SCHED_NKINDS: none */
	func_id id;
	uint32_t *turn[2];	/* by microbatch: as in memory_run */
	const struct host_scope *scope;
	struct ll_value *func, *env, *microbatch, *arena, *all_pieces;
	struct ll_value *at, *pieces, *num, *call;	/* an rt_call */
};

/* Begins a function, and emits the rt_call that its launches fill in. */
void host_func_begin(struct cg_code *c, struct host_class *k,
		     const char *name, struct host_func *f);
void host_func_end(struct host_func *f);
/* A member of rt_env. */
struct ll_value *host_env_field(struct host_func *f, size_t offset,
				enum ll_base base);
/* The rank's pieces of a spread, and the first position of them. */
struct ll_value *host_pieces(struct host_func *f, uint32_t spread);
struct ll_value *host_first_position(struct host_func *f, uint32_t spread);
/* Stores word i of an array. */
void host_store(struct host_func *f, struct ll_value *array, uint32_t i,
		struct ll_value *word);
/* Returns a status that is not 0 at once. */
void host_return_if_failed(struct host_func *f, struct ll_value *status);
/* Launches with what f->at, f->pieces and f->num hold. */
void host_launch(struct host_func *f, struct ll_value *kernel);
void host_call_coll(struct host_func *f, struct ll_value *coll,
		    struct ll_value *from, struct ll_value *to);

/* ---- host_service.c: kernels of the host program's own ------------------- */

/* Copies so many bytes, unless both are one place. */
void host_copy(struct host_func *f, struct ll_value *from, struct ll_value *to,
	       int64_t bytes);
/*
 * Before combine `n`: rows at `rows` whose expert, by `index`, is on another
 * rank are set to 0.
 */
void host_keep_own(struct host_func *f, const struct ir_node *n,
		   struct ll_value *rows, struct ll_value *index);

/* On a GPU: a number of the step (enum ir_number) as f32; the square root of
 * one f32. */
void host_service_number(struct host_func *f, int64_t number,
			 struct ll_value *to);
void host_service_root(struct host_func *f, struct ll_value *from,
		       struct ll_value *to);

/* What fills a tensor. */
struct host_fill {
	struct ir_type type;
	uint32_t stacked;	/* dims that are in its name */
	char how;		/* 'n'ormal, '0', '1', 'b'elow */
	double std;
	int64_t below;
	int64_t more, shift;	/* elements between rows, and before them */
};

/* On a GPU: one of the stacked tensors, at `to`; all, if none is stacked. */
void host_service_fill(struct host_func *f, const struct host_fill *x,
		       struct ll_value *key, struct ll_value *to);

/* ---- host_place.c: where operands lie ------------------------------------ */

/* A number that depends on iterations and the microbatch. */
typedef int64_t host_sampler(void *user, const struct memory_run *run,
			     const struct memory_iterations *at);

/* Sets f->turn of a stage's function. */
void host_find_turns(struct host_func *f);
/* The fit of such a number in the scope at hand; code that computes it. */
void host_sample(struct host_func *f, host_sampler *fn, void *user,
		 struct host_fit *out);
struct ll_value *host_sampled_value(struct host_func *f, host_sampler *fn,
				    void *user);
/* Where a value lies, in the scope at hand; where an item of a buffer does. */
struct ll_value *host_value_at(struct host_func *f, value_id v);
struct ll_value *host_item_at(struct host_func *f, uint32_t buffer);
/* Where `v` lies, a view of `base` along the outermost dim, or base itself. */
struct ll_value *host_view_at(struct host_func *f, value_id v, value_id base);
/* The name with iterations in place of variables. */
const char *host_full_name(struct arena *a, struct ir_module *m, sym_t name,
			   const struct memory_iterations *at);
/*
 * Copies a carried value into a repeat's first iteration, or from each to the
 * next, if it does not lie there already.
 */
void host_copy_carried(struct host_func *f, uint32_t carry, bool first,
		       value_id v);

/* ---- host_sums.c: which launch is the first to add to a gradient --------- */

/* Finds the openers of all classes. */
void host_find_openers(struct cg_code *c);
/* CG_OLD: 0 if the node's kernel is to store, as nothing was added yet. */
struct ll_value *host_has_old(struct host_func *f, node_id id);

/* ---- host_comm.c: collectives, sends and receives ------------------------ */

/* A kernel that only communicates; of one that runs by parts, that part. */
void host_emit_collective(struct host_func *f, const struct kernel *x,
			  uint32_t part);
/* Counts what it packs, before memory is planned. */
void host_coll_packs(struct host_class *k, const struct kernel *x);
/* Tells the runtime that what this function sends over is free from here. */
void host_free_sends(struct host_func *f);
/* Finds which places hold the tensors that updates share. */
void host_find_shares(struct cg_code *c);

/* ---- host_stage.c: functions of stages and updates ----------------------- */

struct ll_value *host_stage_func(struct cg_code *c, struct host_class *k,
				 uint32_t stage, uint32_t kind);
struct ll_value *host_update_func(struct cg_code *c, struct host_class *k);

/* ---- host_tensor.c: weights and states by name --------------------------- */

/* False: tables of them would be too large, which is reported. */
bool host_tensors_fit(struct cg_code *c);
/* Finds all of them, and which places of the pipeline hold them. */
void host_find_tensors(struct cg_code *c);
/* Their members of rt_program, and of rt_plan. */
void host_put_holds(struct cg_code *c, const struct host_class *k,
		    struct ll_value **program);
void host_put_tensors(struct cg_code *c, struct ll_value **plan);
/* How many of the outermost dims stand in the name as {dim}. */
uint32_t host_stacked_dims(const struct ir_module *m, const struct ir_type *t,
			   const char *name);

/* ---- host_joins.c: how other programs see a tensor ----------------------- */

/* Member `joins` of the tensor that the node reads. */
int64_t host_joins(struct cg_code *c, node_id node);

/* ---- host_port.c: inputs, results, what is logged ------------------------ */

/* The inputs of a place of the pipeline, by name, once each. */
struct host_input {
	sym_t name;
	node_id node;
};

struct host_inputs {
	VEC(struct host_input) at;
};

void host_find_inputs(const struct cg_code *c, uint32_t pipe,
		      struct host_inputs *out);
/* Members of rt_program: inputs, results, what is zero before a step. */
void host_put_ports(struct cg_code *c, const struct host_class *k,
		    struct ll_value **program);

/* ---- host_start.c: functions that fill weights and states, and inputs ---- */

struct ll_value *host_start_func(struct cg_code *c, struct host_class *k);
struct ll_value *host_draw_func(struct cg_code *c, struct host_class *k);

/* ---- host_program.c ----------------------------------------------------- */

/* All rt_funcs, rt_programs and the rt_plan.  False: reported. */
bool host_put_plan(struct cg_code *c, const struct cg_facts *facts);

#endif

/*
 * Between the files of codegen/host/: the rank program.  Kernels are emitted
 * first, so that what they need beside the arena is known before memory is
 * planned; then functions, which find everything at constants, and the data
 * that describe all of it to the runtime.
 */
#ifndef CODEGEN_HOST_HOST_H
#define CODEGEN_HOST_HOST_H

#include "codegen/cg.h"
#include "codegen/cpu/cpu.h"
#include "codegen/cuda/cuda.h"
#include "passes/memory/memory.h"
#include "passes/price/price.h"

#define HOST_MAX_VARS 8		/* repeats around a launch, and time */
#define HOST_WORKERS 8		/* on a rank, at most */
#define HOST_ALIGN 256		/* of rooms: as of the arena */
#define HOST_NUMS 24		/* that a service takes, at most */
/*
 * That a program has tables of: each takes 0.4 kB of it, and compiling them
 * 3 kB and 25 us.
 */
#define HOST_MOST_TENSORS 1048576

/* ---- host_fit.c --------------------------------------------------------- */

/*
 * A function of a few counters, as simply as it can be computed: a sum of
 * one constant, and for each counter a multiple of it or a table; or, if it
 * is no such sum, a table over those counters that matter.
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

/* From its value at all places of the counters, the last fastest. */
void host_fit(struct arena *a, const uint32_t *counts, uint32_t n,
	      const int64_t *at, struct host_fit *out);
bool host_fit_constant(const struct host_fit *f);
/* Its value, for tests. */
int64_t host_fit_at(const struct host_fit *f, const uint32_t *at);
/* The same when it runs. */
struct ll_value *host_fit_value(struct ll *l, const struct host_fit *f,
				struct ll_value *const *at);

/* ---- the plan being compiled --------------------------------------------- */

/* How ranks share a dim. */
struct host_spread {
	int64_t size;
	uint32_t cut;
	bool by_time;
};

/* What ranks exchange, as far as its room depends on it. */
struct host_coll {
	uint32_t class, axes;
	int64_t elem_bytes;
	bool sums;		/* what comes is added up */
	uint32_t ndims;
	struct cg_spread in[IR_MAX_DIMS], out[IR_MAX_DIMS];
	int64_t bytes;		/* its room */
};

/* Kernels that are alike share their steps. */
struct host_kernel {
	struct cg_kernel k;
	VEC(value_id) values;	/* of the first, as they were numbered */
	VEC(node_id) nodes;
	struct ll_value *steps;
	uint32_t image;		/* of a GPU: its number */
	VEC(struct cu_ways) ways;	/* and what tiles were chosen */
	int64_t *at_bytes;	/* of operands */
};

/* What a launch needs of a kernel: its own values in the same order. */
struct host_use {
	struct host_kernel *kernel;
	VEC(value_id) values;
	VEC(node_id) nodes;
};

/* Ranks at one place of the pipeline whose sizes all agree. */
struct host_class {
	struct cg_code *c;
	uint32_t pipe, number;	/* among those there */
	uint32_t at[IR_MAX_AXES + 1];	/* one of them */
	struct cg_cpu cpu;	/* unless kernels are a GPU's: */
	struct cg_cuda cuda;
	int64_t comm_bytes, comm_offset;	/* host_scratch.c */
	int64_t shared_bytes, own_bytes, work_offset, watch_offset;
	int64_t arena_bytes;
	bool watches;		/* the update computes a norm */
	/* by buffer, of each item; NULL: it is made zero before a step */
	struct host_opener **openers;
};

/* A tensor that lasts, and what a place of the pipeline has of one. */
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
	struct memory mem;
	struct intern keys;	/* kernels as text */
	VEC(struct host_kernel *) kernels;	/* by key */
	VEC(struct host_class) classes;
	uint32_t *class_of;	/* by rank */
	VEC(struct host_spread) spreads;
	struct ll_value *spread_data;	/* once all of them are known */
	VEC(int64_t) groups;
	uint32_t most[3];	/* operands, spreads, numbers of a kernel */
	uint32_t nfuncs;	/* of kernels, for names */
	const struct cu_arch *arch;	/* NULL: kernels are the host's */
	struct cu_tiling *tiling;	/* of a GPU's, or NULL */
	VEC(struct cg_source) sources;	/* of a GPU: by image */
	VEC(struct host_coll) colls;	/* host_scratch.c */
	struct pricing pricing;
	struct ll_value *copy, *place;	/* functions, once they are needed */
	VEC(struct ll_value *) fills;	/* by key, see host_start.c */
	VEC(struct host_tensor) tensors;
	VEC(struct host_hold) holds;
	struct ll_value *tensor_data;
	struct intern shared_names;
	VEC(uint64_t) holders;	/* by shared name, a bit each */
};

/* ---- host_data.c: words of structs of abi.h ----------------------------- */

#define HOST_WORDS(type) (sizeof(type) / 8)
#define HOST_SET(words, type, member, value) \
	((words)[offsetof(type, member) / 8] = (value))

/* Zeros, until they are set. */
struct ll_value **host_words(struct cg_code *c, size_t n);
struct ll_value *host_data(struct cg_code *c, struct ll_value *const *words,
			   size_t n);
struct ll_value *host_double(struct cg_code *c, double v);
/* RT_ELEM_*, or -1 if there is none. */
int host_elem(enum ir_dtype t);
/* The same of what is only moved: 8 bits, too. */
int host_coll_elem(enum ir_dtype t);
/* Positions of a dim on a rank of the class; bytes of a value. */
int64_t host_local(const struct host_class *k, dim_id d, uint32_t cut);
int64_t host_bytes(const struct host_class *k, value_id v);
/* From where a value of the kernel lies to where a part of it does. */
int64_t host_part_bytes(const struct host_class *k, const struct kernel *x,
			value_id v, uint32_t part);

/* ---- host_spread.c ------------------------------------------------------ */

/* Its number; a new one is added until host_spread_data. */
uint32_t host_spread(struct cg_code *c, int64_t size, uint32_t cut);
struct ll_value *host_spread_at(struct cg_code *c, uint32_t number);
/* Pointers to those of all dims of a type. */
struct ll_value *host_spreads_of(struct cg_code *c, const struct ir_type *t);
/* The spread whose first position is a rank's coordinate. */
uint32_t host_coordinate(struct cg_code *c, axis_id a);
/* What a rank has of a dim that is cut so, as the runtime knows it. */
void host_pieces_of(const struct cg_code *c, int64_t size, uint32_t cut,
		 uint32_t rank, uint32_t microbatch, struct rt_pieces *out);
/* All that types of the program ask for, as data. */
void host_spread_data(struct cg_code *c);
/* False if ranks cannot be told into classes: reported. */
bool host_classes(struct cg_code *c);

/* ---- host_trials.c: all ways to make a contraction ---------------------- */

/* It was emitted as x; `nfuncs` is what it began with. */
void host_trials(struct cg_code *c, struct host_class *k,
		 const struct kernel *kernel, const struct host_kernel *x,
		 uint32_t nfuncs);

/* ---- host_canon.c ------------------------------------------------------- */

/* Emits the kernel, unless one like it was. False: reported. */
/* Of a function of a GPU: the most that a part of the kernel takes. */
int64_t host_args_bytes(const struct cg_kernel *k);
/* False and an error there: it is more than a function can take. */
bool host_args_fit(struct cg_code *c, const struct cg_kernel *k,
		   struct span span);
bool host_kernel(struct cg_code *c, struct host_class *k,
		 const struct kernel *x);
/* Of a kernel that was emitted. */
void host_use(struct cg_code *c, struct host_class *k,
	      const struct kernel *x, struct host_use *out);
/* An rt_kernel; what, flops, bytes and time are its own. */
struct ll_value *host_kernel_data(struct cg_code *c,
				  struct host_kernel *h,
				  const struct kernel *x);
/* One of the host's own, not shared; of a GPU with bytes of operands. */
struct ll_value *host_own_kernel(struct cg_code *c, const struct cg_kernel *k,
				 const int64_t *at_bytes, double bytes);

/* ---- host_scratch.c: what talks of a GPU need beside their operands ----- */

/* More talks of the class, that are one call. */
void host_scratch(struct host_class *k, struct host_coll *t, uint32_t n);

/* ---- host_func.c -------------------------------------------------------- */

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
	struct ll_value *at, *pieces, *num, *call;	/* rooms */
};

/* A new function and what it needs at hand. */
void host_func_begin(struct cg_code *c, struct host_class *k,
		     const char *name, struct host_func *f);
void host_func_end(struct host_func *f);
/* A field of rt_env. */
struct ll_value *host_env(struct host_func *f, size_t offset,
			  enum ll_base base);
/* This rank's pieces by a spread, and the first position of them. */
struct ll_value *host_pieces(struct host_func *f, uint32_t spread);
struct ll_value *host_first(struct host_func *f, uint32_t spread);
/* Stores a word into a room. */
void host_put(struct host_func *f, struct ll_value *room, uint32_t i,
	      struct ll_value *word);
/* With f->at, f->pieces, f->num filled. */
void host_launch(struct host_func *f, struct ll_value *kernel);
void host_coll(struct host_func *f, struct ll_value *coll,
	       struct ll_value *from, struct ll_value *to);
/* So many bytes, unless both are one place. */
void host_copy(struct host_func *f, struct ll_value *from,
	       struct ll_value *to, int64_t bytes);
/* The launch's node in the place of the kernel's first. */
node_id host_use_node(const struct host_use *u, node_id of);
/* Sets f->turn of a stage's function. */
void host_turns(struct host_func *f);
/* Stage S's functions, its update. Returns the function. */
struct ll_value *host_stage(struct cg_code *c, struct host_class *k,
			    uint32_t stage, uint32_t kind);
struct ll_value *host_update(struct cg_code *c, struct host_class *k);

/* ---- host_service.c: what the host program launches on a GPU ------------ */

/*
 * Functions of codegen/cuda/prelude/services.cu; each fills f->at, f->num
 * and f->pieces as that file wants them.
 */
void host_service_copy(struct host_func *f, struct ll_value *from,
		       struct ll_value *to, int64_t bytes);
/* The step's number as f32; the root of one f32. */
void host_service_step(struct host_func *f, struct ll_value *to);
void host_service_root(struct host_func *f, struct ll_value *from,
		       struct ll_value *to);

/* Rows of routed values, as host_route.c finds them. */
struct host_rows {
	int64_t n, bytes, per;		/* rows, of one, in an item */
	uint32_t ndims;
	int64_t size[IR_MAX_DIMS];	/* of all dims that choose one */
	int64_t apart[IR_MAX_DIMS];	/* in the index; 0: not of it */
};

/* What fills a tensor. */
struct host_fill {
	struct ir_type type;
	uint32_t stacked;	/* dims that are in its name */
	char how;		/* 'n'ormal, '0', '1', 'b'elow */
	double std;
	int64_t below;
	int64_t more, shift;	/* elements between rows, and before them */
};

/* One of the stacked tensors, at `to`; all dims, if none is stacked. */
void host_service_fill(struct host_func *f, const struct host_fill *x,
		       struct ll_value *key, struct ll_value *to);
/* With f->at and f->pieces as host_route.c fills them. */
void host_service_keep_own(struct host_func *f, const struct host_rows *x);

/* ---- host_place.c ------------------------------------------------------- */

/* A number of each trip and microbatch. */
typedef int64_t host_sampler(void *user, const struct memory_run *run,
			     const struct memory_iterations *at);

void host_sample(struct host_func *f, host_sampler *fn, void *user,
		 struct host_fit *out);
struct ll_value *host_sampled(struct host_func *f, host_sampler *fn,
			      void *user);
/* Where a value lies, in the scope at hand. */
struct ll_value *host_where(struct host_func *f, value_id v);
/* Where an item of a buffer does. */
struct ll_value *host_item(struct host_func *f, uint32_t buffer);
/* `v`, or a view of it, where a talk can take it. */
struct ll_value *host_view(struct host_func *f, value_id v, value_id base);
/* The name with trips in place of variables. */
const char *host_name(struct arena *a, struct ir_module *m, sym_t name,
		      const struct memory_iterations *at);
/* A copy into a repeat's first trip, or from this one to the next, if it is
 * needed. */
void host_hand_on(struct host_func *f, uint32_t carry, bool first,
		  value_id v);

/* ---- host_comm.c -------------------------------------------------------- */

/* A kernel that only talks; of one that runs by parts, that part. */
void host_collective(struct host_func *f, const struct kernel *x,
		     uint32_t part);
/* Ahead of that: the room that it needs. */
void host_coll_scratch(struct host_class *k, const struct kernel *x);
/* What this function sends over may be overwritten from here on. */
void host_free_sends(struct host_func *f);
/* Of a step that talks. */
struct ll_value *host_step_coll(struct cg_code *c, const struct cg_step *s,
				const char *what);
/* Finds who holds what updates share. */
void host_find_shares(struct cg_code *c);

/* ---- host_route.c ------------------------------------------------------- */

/* The experts that a rank of a node's group has, as a cut of their dim. */
uint32_t host_experts(const struct ir_module *m, const struct ir_node *n);
/*
 * Before combine `n`: what lies at `rows` is made 0 where the expert that
 * `index` names is on another rank.
 */
void host_keep_own(struct host_func *f, const struct ir_node *n,
		   struct ll_value *rows, struct ll_value *index);

/* ---- host_tensor.c ------------------------------------------------------ */

/* Whether tables of all that lasts can be made; else reported. */
bool host_tensors_fit(struct cg_code *c);
/* Finds what lasts from step to step, and on which places of the pipeline. */
void host_tensors(struct cg_code *c);
/* Its part of rt_program, and of rt_plan. */
void host_holds(struct cg_code *c, const struct host_class *k,
		struct ll_value **program);
void host_plan_tensors(struct cg_code *c, struct ll_value **plan);
/* The outermost dims that stand in the name as {dim}. */
uint32_t host_stacked(const struct ir_module *m, const struct ir_type *t,
		      const char *name);

/* ---- host_sums.c -------------------------------------------------------- */

/* Finds who stores gradients that others add to: openers of all classes. */
void host_sums(struct cg_code *c);
/* Whether a node adds to something, or its kernel is to store: CG_OLD. */
struct ll_value *host_old(struct host_func *f, node_id id);

/* ---- host_port.c -------------------------------------------------------- */

/* Inputs, results, what is zero before a step, what is watched. */
void host_ports(struct cg_code *c, const struct host_class *k,
		struct ll_value **program);

/* ---- host_start.c ------------------------------------------------------- */

/* Functions that fill weights and states, and inputs. */
struct ll_value *host_start(struct cg_code *c, struct host_class *k);
struct ll_value *host_draw(struct cg_code *c, struct host_class *k);

/* ---- host_program.c ----------------------------------------------------- */

/* All rt_funcs, rt_programs and llmc_plan. False: reported. */
bool host_program(struct cg_code *c, const struct cg_facts *facts);

/* The inputs of a place of the pipeline, by name, once each. */
struct host_input {
	sym_t name;
	node_id node;
};

struct host_inputs {
	VEC(struct host_input) at;
};

void host_inputs(const struct cg_code *c, uint32_t pipe,
		 struct host_inputs *out);

#endif

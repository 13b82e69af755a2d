/*
 * The binary interface between a compiled plan and the runtime.
 *
 * The compiler writes one `const struct rt_plan llmc_plan` with all that it
 * refers to; the runtime reads it and calls its functions. Every field is eight
 * bytes wide, an int64_t, a double or a pointer, so that both sides agree on
 * the layout without a C compiler; a change of meaning raises RT_ABI_VERSION.
 * codegen/ includes this file, and of runtime/ only the few other headers that
 * tests/layering.sh lists.
 *
 * Counts come before the arrays that they count. Axes are numbered from 1, as
 * in the IR; a set of axes has bit a for axis a.
 */
#ifndef RT_ABI_H
#define RT_ABI_H

#include <stdbool.h>
#include <stdint.h>

#define RT_ABI_VERSION 14
/* The shared object of the emulator, in the folder of a program for GPUs. */
#define RT_EMULATOR_FILE "emulate.so"
#define RT_MAX_AXES 8
#define RT_MAX_PIECES 9
#define RT_MAX_DIMS 8

/* An element, in memory. */
enum rt_elem {
	RT_ELEM_F64, RT_ELEM_F32, RT_ELEM_BF16, RT_ELEM_F16, RT_ELEM_I32,
	RT_ELEM_U8,		/* of 8 bits: only moved, never summed */
	/* of weights that are stored in 8 bits: neither moved nor summed */
	RT_ELEM_I8, RT_ELEM_E4M3,
	/*
	 * The same in 4 bits, in rows of whole groups: numbers from -7 to 7,
	 * and after those of a row its groups' scales, each a bf16.  Of eight
	 * numbers, which are a word, number i has its lowest bit at bit
	 * i / 2 * 4 of the lower half if i is even, else of the upper one.
	 */
	RT_ELEM_I4
};
/* Elements of a group. */
#define RT_GROUP 128

/* ---- pieces of a dim ---------------------------------------------------- */

/* Positions of a dim that a rank has, in its order. */
struct rt_pieces {
	int64_t n, total;
	struct {
		int64_t start, count;
	} at[RT_MAX_PIECES];
};

/* How ranks, and microbatches, share the positions of a dim. */
struct rt_spread {
	int64_t size;		/* positions in all */
	int64_t by_time;	/* 1: each microbatch has its own */
	/* by rank; if by_time: [rank * microbatches + microbatch] */
	const struct rt_pieces *at;
};

/* An axis of the mesh.  A rank's number counts through its axes but time, the
 * last one fastest. */
struct rt_axis {
	const char *name;
	int64_t size;
	int64_t time;		/* 1: microbatches, one after another */
};

/* ---- kernels ----------------------------------------------------------- */

/* The arguments of a kernel. */
struct rt_call {
	char *const *at;	/* its operands */
	/* of the dims that it depends on */
	const struct rt_pieces *const *pieces;
	const int64_t *num;	/* other numbers: keys, the step */
	char *shared;		/* scratch that all workers share */
	/*
	 * of a GPU, in memory that kernels can read: [0] is the step, [n] for
	 * n > 0 has the bits of enum rt_number n as a float; and two words of
	 * 32 bits from [RT_NUMBERS] on, by which the blocks of a kernel share
	 * out its work, and which are 0 between kernels
	 */
	const int64_t *live;
};

/*
 * Elements of a value that ranks exchange.  Each rank of the group has the
 * pieces `in` of each dim; of the pieces `out` it gets the sum over all ranks
 * that have an element, or the element of the one that has it. For a send and
 * its recv, `in` and `out` are the same.
 */
enum rt_coll_op {
	RT_COLL_SUM,		/* all-reduce, reduce-scatter */
	RT_COLL_MAX,
	RT_COLL_COPY,		/* all-gather, all-to-all */
	RT_COLL_SEND,		/* to the rank of another stage */
	RT_COLL_RECV,
	RT_COLL_FREE /* waits until what was sent may be overwritten */
};

struct rt_coll {
	const char *what;	/* "all_reduce x on tp", for messages */
	int64_t op;		/* enum rt_coll_op */
	int64_t axes; /* the group: ranks that differ on these axes only */
	int64_t elem;		/* enum rt_elem */
	int64_t ndims;
	const struct rt_spread *const *in, *const *out;	/* by dim */
	/* SEND, RECV, FREE */
	int64_t channel;	/* the same number at both ends, from 0 */
	int64_t peer;		/* the other end's place in the pipeline */
	int64_t copies; /* FREE: how many copies of the value take turns */
	/* stages that take part, as bits; 0: all */
	int64_t holders;
	/* of the same op, group and type: one call runs both; NULL: alone */
	const struct rt_coll *next;
};

/* The most collectives that are joined to one call. */
enum { RT_MAX_JOINED = 32 };

/* ---- numbers of a step -------------------------------------------------- */

/*
 * What the update reads anew in each step: a run may change them without
 * compiling again.  As enum ir_number of ir/train/step_numbers.h.
 */
enum rt_number {
	RT_NUMBER_STEP,
	RT_NUMBER_LR,		/* of this step, by the schedule */
	RT_NUMBER_CLIP,
	RT_NUMBER_DECAY,	/* of each group of weights */
	RT_NUMBER_DECAY_EMBEDDINGS, RT_NUMBER_DECAY_VECTORS,
	RT_NUMBERS
};
#define RT_LIVE (RT_NUMBERS + 1)	/* words of rt_call.live */

enum rt_schedule { RT_CONSTANT, RT_LINEAR, RT_COSINE, RT_WSD, RT_SCHEDULES };

/* The course of the learning rate, and the other numbers. */
struct rt_training {
	int64_t schedule;	/* enum rt_schedule */
	double lr, min_lr;
	double warmup;		/* steps */
	double decay;		/* steps; 0: to the last of `steps` */
	double steps;		/* 0: not known */
	double at[RT_NUMBERS];	/* the first two are those of a step */
};

/* ---- kernels of a GPU --------------------------------------------------- */

/* One source file and what NVRTC made of it. */
struct rt_image {
	const char *name;	/* "dot12" */
	/* CUDA C; the emulator compiles it, and people read it */
	const char *source;
	const char *cubin;	/* for the plan's arch; NULL: not compiled */
	int64_t cubin_bytes;
	const char *ptx;	/* for later architectures; NULL: none */
};

/* In an object file of their own, as `llmc_plan_images`. */
struct rt_images {
	int64_t n;
	const struct rt_image *at;
	int64_t ntexts;		/* files that the sources include */
	const struct {
		const char *name, *text;
	} *texts;
	const char *made_by; /* "NVRTC 13.0, sm_90a"; NULL: not compiled yet */
};

/* A tensor map (cuTensorMapEncodeTiled): boxes of an operand that the copying
 * unit of a GPU moves. */
struct rt_map {
	int64_t operand, offset; /* operand's number; bytes to its element 0 */
	int64_t elem;		/* enum rt_elem */
	int64_t ndims;		/* dim 0 is the innermost, dense */
	int64_t size[5], stride[5];	/* elements; bytes, from dim 1 on */
	int64_t box[5];
	int64_t swizzle;	/* bytes: 0, 32, 64, 128 */
};

/*
 * The most bytes of arguments that a function takes (CUDA C++ Programming
 * Guide, __global__ parameters, before 12.1); bytes of a map, and its
 * alignment.
 */
enum { RT_ARGS_BYTES = 4096, RT_MAP_BYTES = 128, RT_MAP_ALIGN = 64 };

/*
 * A function and its grid.  It takes one struct by value: the operands of the
 * call, its pieces, its numbers, the shared scratch and `live`, 8 bytes each;
 * then, aligned to 64 bytes, the maps, 128 bytes each.
 */
struct rt_grid {
	int64_t image;		/* number of its image */
	const char *func;
	int64_t blocks[3], threads;
	int64_t cluster; /* blocks along x that form a cluster; 1: none */
	int64_t smem_bytes;
	int64_t nmaps;
	const struct rt_map *maps;
};

/*
 * One step of a kernel: a function over items that any worker may run in any
 * order, a grid of a GPU, or a collective on shared scratch. A step begins when
 * all workers have finished the one before.
 */
struct rt_step {
	/* items from .. to - 1; `own` is the worker's scratch */
	void (*run)(const struct rt_call *c, char *own, int64_t from,
		    int64_t to);
	int64_t items;
	const struct rt_grid *grid;	/* if run is NULL: a grid */
	const struct rt_coll *coll;	/* if grid is NULL too: a collective */
	int64_t in, out; /* of the collective: offsets into shared scratch */
};

struct rt_kernel {
	const char *what;	/* "contraction 256x768x768 dot+add" */
	int64_t nsteps;
	const struct rt_step *steps;
	int64_t nat, npieces, nnum;	/* of a call; grids get all of them */
	double flops, bytes;
	double us;		/* predicted; 0: not known */
	/* Bytes of each operand, -1: not known; NULL: of none.  They show which
	 * collectives a kernel must wait for. */
	const int64_t *at_bytes;
};

/* ---- programs ---------------------------------------------------------- */

/*
 * What the runtime provides to a program's functions; the first member of its
 * own state. launch and coll return 0, or a status that the function returns at
 * once.  `layer` is the iteration of the repeat, -1: outside of any.
 */
struct rt_env {
	char *arena;
	/* by spread of the plan: this rank's pieces, in this microbatch */
	const struct rt_pieces *const *pieces;
	int64_t step;		/* of the optimizer, from 1 */
	int64_t seed;
	double numbers[RT_NUMBERS];
	int64_t (*launch)(struct rt_env *env, const struct rt_kernel *k,
			  const struct rt_call *c, int64_t layer);
	/* at[0] is the input, at[1] the output; then those of the next joined
	 * one */
	int64_t (*coll)(struct rt_env *env, const struct rt_coll *t,
			char *const *at, int64_t layer);
};

/* The forward or backward of a stage, an update, or the start. */
struct rt_func {
	const char *name;	/* "stage0_forward" */
	int64_t stage;		/* -1: not of a stage */
	int64_t kind;		/* of its action: 'F', 'B', 'I', 'W', or 0 */
	int64_t (*run)(struct rt_env *env, int64_t microbatch);
	double us;		/* predicted; 0: not known */
};

struct rt_action {
	const struct rt_func *func;
	int64_t microbatch;
};

/* A tensor that lasts from step to step, whole, as checkpoints name it. */
struct rt_tensor {
	const char *name; /* variables of repeats are replaced by numbers */
	/* 1: part of files of weights; 0: state of the optimizer */
	int64_t loaded;
	int64_t frozen;		/* 1: a weight that is not trained */
	int64_t elem;		/* enum rt_elem, in the arena */
	int64_t ndims;
	const char *const *dims;	/* names */
	const int64_t *sizes;
	/* so many outermost dims are {dim} in the name: one tensor for each
	 * index */
	int64_t stacked;
	/* bit d: other programs have dim d in one with the dim before it, as
	 * [heads, hd, hidden] is a matrix of two dims */
	int64_t joins;
	/* bit d: elements along dim d share a scale, by which the weight of the
	 * files is divided, and then rounded; 0: it is stored as it is */
	int64_t rounded;
	/* these are the scales of tensor scales_of - 1; 0: of none */
	int64_t scales_of;
};

/* The part of a tensor that a rank has. */
struct rt_hold {
	const struct rt_tensor *tensor;
	int64_t offset;		/* in the arena, row-major without gaps */
	const struct rt_spread *const *dims;
	int64_t writes;		/* 1: this stage writes it to checkpoints */
	/*
	 * If lanes > 0, kernels read it in panels: of so many rows of `row`
	 * elements take turns, one after another 4 bytes.  It is loaded and
	 * saved as it is without them (data/turn_panels.c).
	 */
	int64_t lanes, row;
};

/* An input or a result; one for each microbatch. */
struct rt_port {
	const char *name;	/* "tokens" */
	int64_t elem;		/* enum rt_elem; inputs: RT_ELEM_I32 */
	/* of microbatch 0; bytes from one microbatch to the next */
	int64_t offset, apart;
	int64_t below;		/* inputs: every number is below it */
	int64_t ndims;
	const char *const *names;	/* of the dims */
	const struct rt_spread *const *dims;
	/* results: parts of a sum over these axes, time included */
	int64_t sum;
};

struct rt_range {
	int64_t offset, bytes;
};

/* A number of the update that is logged, as the gradient's norm. */
struct rt_watch {
	const char *name;
	int64_t elem;
	int64_t offset;
};

/* The program of the ranks at one place of the pipeline whose sizes are all the
 * same. */
struct rt_program {
	int64_t pipe;
	int64_t arena_bytes;	/* of the whole arena */
	/* where in it what lies in a GPU's host begins; 0: all is its own */
	int64_t host_at;
	int64_t work_offset, shared_bytes, own_bytes; /* own: of each worker */
	/*
	 * Of a GPU: scratch into which a collective packs what it sends and
	 * receives. One collective uses it at a time; its size is the largest
	 * rt_pack_total.
	 */
	int64_t comm_offset, comm_bytes;
	/* initializes weights and states for a new run; may be NULL */
	const struct rt_func *start;
	const struct rt_func *update;
	/* fills inputs with random numbers; may be NULL */
	const struct rt_func *draw;
	int64_t nactions;
	const struct rt_action *actions;	/* of one step */
	int64_t nholds;
	const struct rt_hold *holds;
	int64_t ninputs;
	const struct rt_port *inputs;
	int64_t nresults;
	const struct rt_port *results;
	int64_t nzero;
	const struct rt_range *zero;	/* before each step */
	/* sums of gradients whose first launch in a step stores: what is there
	 * before it must reach no result */
	int64_t nstored;
	const struct rt_range *stored;
	int64_t nwatch;
	const struct rt_watch *watch;
	/* what labels are compared with: batch, seq, vocab.  Complete when the
	 * last stage's forward of a microbatch has returned; may be NULL */
	const struct rt_port *logits;
};

/* What a full step of a plan that serves has: so many sequences, each with so
 * many positions after so many that are cached. */
struct rt_load {
	int64_t sequences, positions, before;
};

struct rt_plan {
	int64_t abi;		/* RT_ABI_VERSION */
	const char *compiler;	/* "llmc 0.1.0" */
	const char *model, *target;
	const char *cpu; /* "x86-64-v4"; beside a GPU, that of the host */
	const char *arch;	/* "sm_90a"; NULL: kernels run on the CPU */
	const struct rt_images *images;
	int64_t nfeatures;
	const char *const *features; /* CPU features that it needs: "avx512f" */
	int64_t naxes;		/* axes[0] included */
	const struct rt_axis *axes;	/* by number; [0] is unused */
	int64_t pp, time;	/* numbers of axes; 0: none */
	int64_t nranks, npipes, nstages, nmicrobatches;
	int64_t workers;	/* the most of any rank */
	int64_t nspreads;
	const struct rt_spread *spreads;
	int64_t ngroups;
	/* sets of axes, in the order in which groups are created */
	const int64_t *groups;
	int64_t nchannels;
	const int64_t *program_of;	/* by rank */
	int64_t nprograms;
	const struct rt_program *programs;
	int64_t ntensors;
	const struct rt_tensor *tensors;	/* by name */
	int64_t batch, tokens;	/* of one step: sequences, tokens */
	/* tokens of the longest sequence that it serves; 0: it trains */
	int64_t context;
	/* of which step_us is, and what it measures by itself; sequences 0: it
	 * trains */
	struct rt_load load;
	/*
	 * The same step of fewer positions, ascending: plans with the same
	 * ranks, groups and channels, and no weights and states of their own.
	 * Those of this plan lie at the same offsets in the arena, which is
	 * large enough for all.
	 */
	int64_t nsizes;
	const struct rt_plan *const *sizes;
	int64_t seed;		/* unless --seed is given */
	int64_t steps;		/* unless --steps is given; 0: not known */
	struct rt_training training;	/* unless options change it */
	int64_t clips;		/* 1: the norm of gradients is computed */
	double step_us;		/* predicted */
	double flops;		/* of one step; for MFU */
	double peak;		/* FLOP/s of all ranks */
	const char *json, *llp;	/* plan.json, plan.llp */
	/* The same model and step for one rank, not split: verify compares the
	 * ranks with it. NULL: there is none, and whole_why is the reason. */
	const struct rt_plan *whole;
	const char *whole_why;
	/* the model's config.json for exports; NULL: it has no such block */
	const char *config;
};

/* Defined in the object that the compiler writes. */
extern const struct rt_plan llmc_plan;

/* ---- scratch of collectives on a GPU (comm/comm_parts.c) ---------------- */

/*
 * The overlap of what one rank has and what another one wants, in the order of
 * the latter, and its place in three layouts: the first rank's memory, packed,
 * and the other rank's memory.
 */
enum { RT_IN, RT_PACKED, RT_OUT, RT_LAYOUTS };

/* A run of positions of a dim: where it begins in each layout. */
struct rt_overlap_run {
	int64_t at[RT_LAYOUTS], n;
};

struct rt_overlap {
	int64_t elems, ndims;
	int64_t size[RT_MAX_DIMS][RT_LAYOUTS];
	int64_t nruns[RT_MAX_DIMS];
	struct rt_overlap_run runs[RT_MAX_DIMS][RT_MAX_PIECES * RT_MAX_PIECES];
	bool dense[RT_LAYOUTS];	/* contiguous in that layout */
};

/* By dim, what the one has and what the other wants. */
void rt_overlap(const struct rt_pieces *const *in,
		const struct rt_pieces *const *out, int64_t ndims,
		struct rt_overlap *x);
/* Whether it is packed before it is sent, and whether it is received into
 * scratch instead of its place. */
bool rt_packs_out(const struct rt_overlap *x);
bool rt_packs_in(const struct rt_overlap *x, bool sums);
/* Bytes of scratch of one overlap, rounded up to where the next one begins. */
int64_t rt_pack_bytes(const struct rt_overlap *x, int64_t elem_bytes);
/* Bytes of scratch that member `me` of n needs for the whole collective, where
 * members have and want [member * ndims + dim]; 0 if nothing moves. */
int64_t rt_pack_total(const struct rt_pieces *const *in,
		const struct rt_pieces *const *out, int64_t n, int64_t ndims,
		int64_t me, int64_t elem_bytes, bool sums);

#endif

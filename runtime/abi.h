/*
 * abi.h - what a compiled plan and the runtime know of each other.
 *
 * The compiler writes one `const struct rt_plan llmc_plan` with all that hangs
 * on it; the runtime reads it and calls its functions.  Every field is eight
 * bytes wide, an int64_t, a double or a pointer, so that both sides agree on
 * where it lies without asking a C compiler; a change of meaning raises
 * RT_ABI_VERSION.  Of runtime/, codegen/ includes this and the few headers
 * that tests/layering.sh lists.
 *
 * Counts come before the arrays that they count.  Axes are numbered from 1,
 * as in the IR; a set of axes has bit a for axis a.
 */
#ifndef RT_ABI_H
#define RT_ABI_H

#include <stdbool.h>
#include <stdint.h>

#define RT_ABI_VERSION 6
/* The emulator, a file beside the program of a plan for GPUs. */
#define RT_EMULATOR_FILE "emulate.so"
#define RT_MAX_AXES 8
#define RT_MAX_PIECES 9
#define RT_MAX_DIMS 8

/* An element, in memory. */
enum rt_elem {
	RT_ELEM_F64, RT_ELEM_F32, RT_ELEM_BF16, RT_ELEM_F16, RT_ELEM_I32,
	RT_ELEM_U8		/* of 8 bits: only moved, never summed */
};

/* ---- who has what ------------------------------------------------------ */

/* Positions of a dim, in the order in which a rank has them. */
struct rt_pieces {
	int64_t n, total;
	struct {
		int64_t start, count;
	} at[RT_MAX_PIECES];
};

/* How ranks, and microbatches, share the positions of a dim. */
struct rt_spread {
	int64_t size;		/* positions in all */
	int64_t by_time;	/* 1: microbatches have different ones */
	/* by rank; if by_time: [rank * microbatches + microbatch] */
	const struct rt_pieces *at;
};

/* An axis of the mesh; ranks count its axes but time, the last fastest. */
struct rt_axis {
	const char *name;
	int64_t size;
	int64_t time;		/* 1: microbatches, one after the other */
};

/* ---- kernels ----------------------------------------------------------- */

/* What a kernel is called with. */
struct rt_call {
	char *const *at;	/* its operands */
	const struct rt_pieces *const *pieces;	/* of the dims it asks about */
	const int64_t *num;	/* other numbers: keys, the step */
	char *shared;		/* room that all workers share */
	/* of a GPU: [0] is the step, where kernels can read it */
	const int64_t *live;
};

/*
 * Elements of a value that ranks exchange.  Each rank of the group has the
 * pieces `in` of each dim; what it gets is, of the pieces `out`, the sum over
 * all ranks that have an element, or the element of the one that has it.
 * Of a send and its recv in and out are the same.
 */
enum rt_coll_op {
	RT_COLL_SUM,		/* all-reduce, reduce-scatter */
	RT_COLL_MAX,
	RT_COLL_COPY,		/* all-gather, all-to-all */
	RT_COLL_SEND,		/* to the rank of another stage */
	RT_COLL_RECV,
	RT_COLL_FREE		/* until what was sent may be overwritten */
};

struct rt_coll {
	const char *what;	/* "all_reduce x on tp", for messages */
	int64_t op;		/* enum rt_coll_op */
	int64_t axes;		/* the group: ranks that differ there only */
	int64_t elem;		/* enum rt_elem */
	int64_t ndims;
	const struct rt_spread *const *in, *const *out;	/* by dim */
	/* SEND, RECV, FREE */
	int64_t channel;	/* the same number at both ends, from 0 */
	int64_t peer;		/* the other end's place in the pipeline */
	int64_t copies;		/* FREE: places by turns */
	/* places in the pipeline that take part, by bits; 0: all */
	int64_t holders;
	/* of the same op, group and type: one call does both; NULL: alone */
	const struct rt_coll *next;
};

/* Talks that are one call, at most. */
enum { RT_MAX_JOINED = 32 };

/* ---- functions of a GPU ------------------------------------------------ */

/* One source file and what NVRTC made of it. */
struct rt_image {
	const char *name;	/* "dot12" */
	const char *source;	/* CUDA C; for the emulator, and to be read */
	const char *cubin;	/* for the plan's arch; NULL: none */
	int64_t cubin_bytes;
	const char *ptx;	/* for devices that came later; NULL: none */
};

/* In an object of their own: `llmc_images`. */
struct rt_images {
	int64_t n;
	const struct rt_image *at;
	int64_t ntexts;		/* files that sources include */
	const struct {
		const char *name, *text;
	} *texts;
	const char *made_by;	/* "NVRTC 13.0, sm_90a"; NULL: not yet */
};

/* Boxes of an operand that the copying unit moves (cuTensorMapEncodeTiled). */
struct rt_map {
	int64_t operand, offset;	/* number; bytes to element 0 */
	int64_t elem;		/* enum rt_elem */
	int64_t ndims;		/* dim 0 is the innermost, dense */
	int64_t size[5], stride[5];	/* elements; bytes, from dim 1 on */
	int64_t box[5];
	int64_t swizzle;	/* bytes: 0, 32, 64, 128 */
};

/* Of arguments: all that a function takes (CUDA C++ Programming Guide,
 * __global__ parameters, before 12.1), one map, and where maps begin. */
enum { RT_ARGS_BYTES = 4096, RT_MAP_BYTES = 128, RT_MAP_ALIGN = 64 };

/*
 * A function and its grid.  It takes one struct by value: the operands of the
 * call, its pieces, its numbers, the shared room, `live`, each of them 8
 * bytes, and on the next 64 bytes the maps, 128 bytes each.
 */
struct rt_grid {
	int64_t image;		/* number of it */
	const char *func;
	int64_t blocks[3], threads;
	int64_t cluster;	/* blocks along x that are one; 1: none */
	int64_t smem_bytes;
	int64_t nmaps;
	const struct rt_map *maps;
};

/*
 * One part of a kernel: a function over items in any order by any workers, a
 * grid of a GPU, or a talk about what lies in shared room.  A part begins when
 * the one before has ended on all workers.
 */
struct rt_step {
	/* items from .. to - 1; `own` is the worker's room */
	void (*run)(const struct rt_call *c, char *own, int64_t from,
		    int64_t to);
	int64_t items;
	const struct rt_grid *grid;	/* if run is NULL */
	const struct rt_coll *coll;	/* if grid is NULL too */
	int64_t in, out;	/* of the talk: bytes into shared room */
};

struct rt_kernel {
	const char *what;	/* "contraction 256x768x768 dot+add" */
	int64_t nsteps;
	const struct rt_step *steps;
	int64_t nat, npieces, nnum;	/* of a call; grids get them all */
	double flops, bytes;
	double us;		/* as predicted; 0: not */
	/* bytes of each operand, -1: unknown; NULL: of none.  For the order
	 * of kernels and talks. */
	const int64_t *at_bytes;
};

/* ---- programs ---------------------------------------------------------- */

/*
 * What the runtime lends to a program's functions; the first member of its
 * own state.  launch and talk return 0, or what the function returns at once.
 * `trip` is the number of the layer, -1: outside of any.
 */
struct rt_env {
	char *arena;
	/* by spread of the plan: this rank's, in this microbatch */
	const struct rt_pieces *const *pieces;
	int64_t step;		/* of the optimizer, from 1 */
	int64_t seed;
	int64_t (*launch)(struct rt_env *env, const struct rt_kernel *k,
			  const struct rt_call *c, int64_t trip);
	/* at[0]: where it comes from, at[1]: where it goes to; those of
	 * the next one behind */
	int64_t (*coll)(struct rt_env *env, const struct rt_coll *t,
			char *const *at, int64_t trip);
};

/* A phase of a stage, or an update, or the start. */
struct rt_func {
	const char *name;	/* "stage0_forward" */
	int64_t stage;		/* -1: of the whole rank */
	int64_t kind;		/* of its action: 'F', 'B', 'I', 'W', or 0 */
	int64_t (*run)(struct rt_env *env, int64_t microbatch);
	double us;		/* as predicted; 0: not */
};

struct rt_action {
	const struct rt_func *func;
	int64_t microbatch;
};

/* A tensor that lasts from step to step, whole, as checkpoints know it. */
struct rt_tensor {
	const char *name;	/* repeats' variables are replaced */
	/* 1: files of weights have it; 0: a state of the optimizer */
	int64_t loaded;
	int64_t elem;		/* enum rt_elem, in the arena */
	int64_t ndims;
	const char *const *dims;	/* names */
	const int64_t *sizes;
	/* so many outermost dims are {dim} in the name: a tensor for each */
	int64_t stacked;
};

/* What a rank has of one. */
struct rt_hold {
	const struct rt_tensor *tensor;
	int64_t offset;		/* in the arena, row-major without gaps */
	const struct rt_spread *const *dims;
	int64_t writes;		/* 1: this place of the pipeline saves it */
};

/* Data from outside, or a result: one for each microbatch. */
struct rt_port {
	const char *name;	/* "tokens" */
	int64_t elem;		/* enum rt_elem; inputs: RT_ELEM_I32 */
	int64_t offset, apart;	/* of microbatch 0, and from one to the next */
	int64_t below;		/* inputs: numbers are less than this */
	int64_t ndims;
	const char *const *names;	/* of the dims */
	const struct rt_spread *const *dims;
	/* results: parts of a sum over these axes, time too */
	int64_t sum;
};

struct rt_range {
	int64_t offset, bytes;
};

/* A number of the update that is worth a log: the gradient's norm. */
struct rt_watch {
	const char *name;
	int64_t elem;
	int64_t offset;
};

/* What ranks of one place in the pipeline run, all of whose sizes agree. */
struct rt_program {
	int64_t pipe;
	int64_t arena_bytes;	/* all of it, to the byte */
	int64_t work_offset, shared_bytes, own_bytes;	/* own: a worker's */
	/*
	 * Of a GPU: where talks pack what they send and get, one talk at a
	 * time; the most that rt_pack_total says of any.
	 */
	int64_t comm_offset, comm_bytes;
	/* fills weights and states as a new run has them; may be NULL */
	const struct rt_func *start;
	const struct rt_func *update;
	/* fills inputs with drawn numbers; may be NULL */
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
	int64_t nwatch;
	const struct rt_watch *watch;
	/* what labels are compared with, batch, seq, vocab; whole when the
	 * last stage's forward of a microbatch has returned; may be NULL */
	const struct rt_port *logits;
};

struct rt_plan {
	int64_t abi;		/* RT_ABI_VERSION */
	const char *compiler;	/* "llmc 0.1.0" */
	const char *model, *target;
	const char *cpu;	/* "x86-64-v4"; of the host, beside a GPU */
	const char *arch;	/* "sm_90a"; NULL: kernels are the CPU's */
	const struct rt_images *images;
	int64_t nfeatures;
	const char *const *features;	/* that it needs: "avx512f" */
	int64_t naxes;		/* with [0] */
	const struct rt_axis *axes;	/* by number; [0] is none */
	int64_t pp, time;	/* axes; 0: none */
	int64_t nranks, npipes, nstages, nmicrobatches;
	int64_t workers;	/* at most, on a rank */
	int64_t nspreads;
	const struct rt_spread *spreads;
	int64_t ngroups;
	const int64_t *groups;	/* sets of axes, in the order of making them */
	int64_t nchannels;
	const int64_t *program_of;	/* by rank */
	int64_t nprograms;
	const struct rt_program *programs;
	int64_t ntensors;
	const struct rt_tensor *tensors;	/* by name */
	int64_t batch, tokens;	/* of one step: sequences, tokens */
	int64_t seed;		/* unless --seed says another */
	int64_t steps;		/* unless --steps does; 0: not known */
	double step_us;		/* as predicted */
	double flops;		/* of one step, for MFU */
	double peak;		/* FLOP/s of all ranks */
	const char *json, *llp;	/* plan.json, plan.llp */
	/*
	 * The same model and step on one rank, not split, which verify holds
	 * the ranks against.  NULL: there is none, and whole_why says why.
	 */
	const struct rt_plan *whole;
	const char *whole_why;
};

/* In the object that the compiler writes. */
extern const struct rt_plan llmc_plan;

/* ---- room for talks on a GPU (comm_parts.c) ----------------------------- */

/*
 * What one rank has of what another one wants, in the order in which that one
 * has it: where it lies with the one, packed, and with the other.
 */
enum { RT_IN, RT_PACKED, RT_OUT, RT_LAYOUTS };

/* Positions of a dim, in each layout. */
struct rt_overlap_run {
	int64_t at[RT_LAYOUTS], n;
};

struct rt_overlap {
	int64_t elems, ndims;
	int64_t size[RT_MAX_DIMS][RT_LAYOUTS];
	int64_t nruns[RT_MAX_DIMS];
	struct rt_overlap_run runs[RT_MAX_DIMS][RT_MAX_PIECES * RT_MAX_PIECES];
	bool dense[RT_LAYOUTS];	/* side by side there */
};

/* By dim, what the one has and what the other wants. */
void rt_overlap(const struct rt_pieces *const *in,
		const struct rt_pieces *const *out, int64_t ndims,
		struct rt_overlap *x);
/* Is it packed before it is sent?  And put beside its place when it comes? */
bool rt_packs_out(const struct rt_overlap *x);
bool rt_packs_in(const struct rt_overlap *x, bool sums);
/* What that takes, up to where the next one begins. */
int64_t rt_pack_bytes(const struct rt_overlap *x, int64_t elem_bytes);
/*
 * What all of it takes for member `me` of n, who have and want [member *
 * ndims + dim]; none where nothing moves.
 */
int64_t rt_pack_total(const struct rt_pieces *const *in,
		const struct rt_pieces *const *out, int64_t n, int64_t ndims,
		int64_t me, int64_t elem_bytes, bool sums);

#endif

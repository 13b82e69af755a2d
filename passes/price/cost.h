/*
 * The time of one kernel or one collective on a target, in microseconds, by the
 * formulas of docs/cost.md.  Pure functions of their arguments that know no IR:
 * price_kernel.c, price_joins.c and `llmc validate` call them.  Sizes are
 * doubles, since shards are not always whole.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_COST_H
#define PASSES_COST_H

#include "passes/price/target.h"

/* A time and what it is made of: us = max(math, memory) + launch. */
struct cost {
	double us;
	double math_us;		/* with memory for free; on a link: its bytes */
	double memory_us;	/* with math for free */
	double launch_us;	/* launches; on a link: all latency */
};

/* ---- cost_slots.c ----------------------------------------------------- */

#define SLOTS(name, slots, what) COSTS_##name,
enum cost_slot {
#include "passes/price/cost_slots.def"
	COSTS_NKINDS
};
#undef SLOTS

/* By enum cost_slot. */
extern const double cost_slots[COSTS_NKINDS];

/*
 * Vectors of a thread of so many whose loads are in flight at once, of a box of
 * an epilogue that has so many vectors of so many lanes, or pairs of such, with
 * so many loads each.  cuda_nest_box.c emits so many.
 */
int64_t cost_at_once(int64_t loads, int64_t lanes, bool pair, int64_t vectors,
		     int64_t threads);
/* Issue slots that pass, for each of so many elements of such a box, while a
 * warp that has its scheduler alone waits for loads. */
double cost_wait_slots(int64_t loads, int64_t lanes, bool pair, int64_t elems,
		       int64_t threads);

/*
 * What a multiprocessor does while a tile's sums are put away
 * (codegen/cuda/dot/): all who multiply have that tile; or they do where tiles
 * are large, and take turns where they are small, one multiplying while another
 * puts away; or, besides both, other warps may put away what those of large
 * tiles have stored; or one thread multiplies, whose sums lie in tensor memory.
 */
enum cost_beside {
	COST_BESIDE_NONE,
	COST_BESIDE_TURNS,
	COST_BESIDE_WARPS,
	COST_BESIDE_THREAD
};

/* Cycles of the stages of teams that take turns, in those of a tile of both, by
 * the estimate that chooses tiles: 722 for what a tile of 128 x 128 loads, of
 * which there are two, where 128 x 256 multiply in 1078
 * (codegen/cuda/dot/cuda_dot90.c, held by t-cuda-slots). */
#define COST_TURNS_TIMES (2 * 722 / 1078.)

/* Cycles in which a scheduler issues an instruction of its only warp: a unit of
 * 16 lanes takes one every second cycle, and of eight elements side by side few
 * wait for each other.  Assumed, as are the cycles until what the L2 cache
 * lacks is there, beside products.  And the threads of such warps of a block:
 * 32 of them on each of three schedulers. */
#define COST_ALONE 2.0
#define COST_LOAD_CYCLES 800.0
#define COST_WARPS_THREADS 96

/* What becomes of sums. */
struct cost_put {
	/* issue slots of a thread for each, beyond those of a store; and all of
	 * them, by other warps that put away what is rounded */
	double slots, warps_slots;
	enum cost_beside beside;
	/* the copying unit loads what is added, and stores sums */
	bool boxes;
};

/*
 * What it adds, of so many sums, to products that take so long: what of it does
 * not run beside products.
 *
 * A warp of 32 threads has a slot of one of four schedulers for each
 * instruction.  Of those who all have one tile, nobody multiplies meanwhile, so
 * all of it is added.  Two teams in turns multiply at the same time as one puts
 * away, so the longer of both counts, and the last tile; but their tiles are
 * small, and wait longer for their operands.  The less of both counts, as code
 * generation chooses a tile.  Other warps, of which a scheduler has one, put a
 * tile away while the next is made: the longer of both counts again, and the
 * last tile.  A thread that multiplies alone has two tiles in tensor memory,
 * whatever their size.
 *
 * Nothing of it is in cost_contraction_split_us, which so stays the least.
 */
double cost_put_us(const struct target_device *d, const struct cost_put *x,
		   double sums, double math_us);
/* Whether other warps put away, and so read and write beside products. */
bool cost_put_by_warps(const struct target_device *d, const struct cost_put *x,
		       double sums, double math_us);
/* The part of so many sums that are of the last tile of each multiprocessor. */
double cost_last_tiles(const struct target_device *d, double sums);

/* ---- cost_kernel.c ---------------------------------------------------- */

/* C[m,n] = A[m,k] B[k,n], `batch` of them. */
struct cost_contraction {
	double m, n, k, batch;
	enum target_rate rate;	/* of its operands */
	double out_bytes;	/* of one element of the result */
	bool narrow;		/* by sm_80's instructions on any device */
	/* by these or by later ones, whichever take less: experts, of whose
	 * rows a tile by later ones has COST_TILE_ROWS */
	bool either;
	/* of an element of the n times k operand in memory, widened only in
	 * registers; 0: it is stored as it is multiplied */
	double stored_bytes;
	bool panels;	/* on a CPU that operand lies in panels (codegen.md) */
	bool widened;	/* on a GPU it has 8 or 4 bits (cuda.md) */
	bool widened_apart;	/* which takes its time beside all else */
	bool own_tail;	/* k is cut in the last wave of tiles alone */
	struct cost_put put;	/* what follows the products */
	/* on a GPU, elements of the m times k, of the n times k operand are
	 * copied to shared memory one by one */
	bool single[2];
};

struct cost_attention {
	double batch, heads, kv_heads, head_dim, queries, keys;
	bool causal;
	double window;		/* keys that a query sees; 0: all */
	enum target_rate rate;
	bool narrow;		/* by sm_80's instructions on a later device */
	bool dated;		/* by code made for sm_80: its cycles */
};

/* Kinds of kernels by the part of the memory's bandwidth that they reach. */
enum cost_kind {
	COST_MAP,	/* each element by itself: adds, copies, an update */
	COST_GATED,	/* an activation times its gate */
	COST_ROTARY,
	COST_ROWS,	/* norms, softmax: a sum over each row first */
	COST_GATHER,	/* rows of a table, by index */
	COST_QUANTIZE,	/* a largest value, then 8 bits of each */
	COST_NKINDS
};

/* Bytes of an element; fp32 and tf32 have 4. */
double cost_rate_bytes(enum target_rate r);
/* The device's rate for these operands, or for the nearest wider ones. */
double cost_flops_us(const struct target_device *d, enum target_rate r);

struct cost cost_contraction(const struct target_device *d,
			     const struct cost_contraction *x);
/* Until all weights of it are widened that a GPU's kernels widen. */
double cost_widening_us(const struct target_device *d,
			const struct cost_contraction *x);
/*
 * What f parts of it take together at least, without a launch of each, if its
 * dims are split in f parts of equal length, or of lengths that are rounded up.
 *
 * Proof: f times the tiles, waves, steps and bytes of a part are no less than
 * those of the whole, since f * ceil(x / f) >= ceil(x) for a whole f.  Only a
 * part of few rows on a CPU needs no tiles: its products take as long as those
 * of CPU_TURN_ROWS rows more, and it has at most CPU_FEW_ROWS.  So f such parts
 * take at least 1 + CPU_TURN_ROWS / CPU_FEW_ROWS times the products of the
 * whole; from panels, at least the products.  If the whole has few rows, all
 * its parts have.
 *
 * With own_tail, a contraction or a part may be one of several of a launch, or
 * have its last wave's tiles cut in pieces of k.  So what counts is its tiles'
 * time, divided evenly by units: no waves of whole tiles or of pieces, shared
 * or not, take less, and f parts of c tiles have f * c of these, no fewer than
 * the whole.  Of the larger operand's bytes a share counts, that of the fullest
 * launch: f parts, in which the other one may be the larger, move no less.  Of
 * filling and draining the tiles, and of the result's bytes, the same share
 * counts, since members that add up do so once.
 * Parts may be too small for such a kernel, so the less of both ways counts.
 */
double cost_contraction_split_us(const struct target_device *d,
				 const struct cost_contraction *x);
#define COST_TILE_ROWS 128	/* of wgmma and tcgen05 */
#define COST_MAX_LAUNCH 4	/* contractions of one launch */

/*
 * What one of n contractions takes of a launch of all of them, with its share
 * of starting that.  They have the same k and rate, and own_tail, and read one
 * operand: by_rows, for rows of their own, the right one, else the left one.
 * All have one kind of tile, and those of all run in waves together, in an
 * order in which that operand comes from memory once.  Each takes the time of
 * its tiles, or of its bytes.
 */
double cost_contraction_among_us(const struct target_device *d,
				 const struct cost_contraction *x, uint32_t n,
				 uint32_t at, bool by_rows);
/*
 * What one of n contractions takes of a launch that adds all of them up, with
 * its share of starting that.  They have the same m, n, batch and rate, and
 * own_tail.  The tiles are those of one with the k of all.  Each takes the time
 * of its steps through k and its share of filling and draining the tiles; or of
 * its operands' bytes and its share of the result's.
 */
double cost_contraction_summed_us(const struct target_device *d,
				  const struct cost_contraction *x, uint32_t n,
				  uint32_t at);
/* The rate at which kernels that decode read weights and keys; and the weights
 * of that contraction. */
double cost_read_bytes_us(const struct target_device *d);
double cost_weight_bytes_us(const struct target_device *d,
			    const struct cost_contraction *x);
/* A kernel that reads weights so long, at that rate, and computes so long. */
double cost_read_us(const struct target_device *d, double read_us,
		    double math_us);
/* FLOPs of one unit in a microsecond that mma.sync reaches at most. */
double cost_sync_flops_us(const struct target_device *d, enum target_rate r);
struct cost cost_attention(const struct target_device *d,
			   const struct cost_attention *x);
/*
 * All gradients of it: by one kernel, of five products, or by one for queries
 * and one for keys and values, of seven; and the less of both.
 */
struct cost cost_attention_backward(const struct target_device *d,
				    const struct cost_attention *x);
struct cost cost_attention_backward_apart(const struct target_device *d,
					  const struct cost_attention *x);
struct cost cost_attention_backward_least(const struct target_device *d,
					  const struct cost_attention *x);
/* `bytes` are all that is read and written, each once. */
struct cost cost_bytes(const struct target_device *d, enum cost_kind kind,
		       double bytes);

/* ---- cost_keys.c ------------------------------------------------------ */

/* Attention of sequences that decode to keys of a cache. */
struct cost_keys {
	double sequences;	/* each of which has keys of its own */
	double queries;		/* of each sequence */
	double keys;		/* of each sequence */
	double heads, kv;
	double d, v;		/* numbers of a head's key and value */
	double latent;		/* of a latent that all heads have; 0: none */
	double bytes;		/* that are read of each key, with its value */
	/* by kernels of this compiler for a GPU (cost_single_keys): rows of
	 * tiles for a query and kv head; how often scores are computed; bytes
	 * that items leave and that are read again; bytes of a key that
	 * multiprocessors load, with those that other items of the query load
	 * again.  0: by others */
	double rows, scores, left, loaded;
	double beside;		/* parts of the step's other queries */
	enum target_rate rate;
};

/* Without launches. */
struct cost cost_keys(const struct target_device *d,
		      const struct cost_keys *x);

/* ---- cost_single.c ---------------------------------------------------- */

/* Keys of the shortest part of a query's, and parts of a query at most: where
 * it has more keys, parts are 2, 4, 8 .. times as long. */
#define COST_PART 512
#define COST_PARTS 16
/* Columns of results that a block with mma makes at most. */
#define COST_OUT_COLS 128

/*
 * Attention of a step that serves, on one rank with a GPU: its kernels compute
 * single queries, heads of one kv head together.  Code generation and prices
 * both ask here how.
 */
struct cost_single {
	int64_t queries, keys;	/* of the step, of all its sequences */
	int64_t heads, kv, d, v;
	/* values are the first numbers of keys, as of latents */
	bool within;
	bool exact;		/* numbers of more than 16 bits */
	bool slopes;		/* of heads, as alibi's */
	/* of a number of a key, and of a value, in memory; 0: as wide as it is
	 * computed with.  What is narrower is widened in registers. */
	double key_bytes, value_bytes;
	/* of the shared memory of a block; 0: as much as it needs */
	int64_t shared_bytes;
};

/* The scratch of its items: each of a query has a slot.  In bytes from the
 * start, where a number is: how many there are. */
struct cost_single_scratch {
	int64_t slots;
	int64_t items;		/* i32[slots][3]: query, its parts from, to */
	int64_t first;		/* i32[queries]: the first slot */
	int64_t count;		/* i32[queries]: slots; 0: it is in a block */
	int64_t sums;		/* f32[slots][heads][2]: largest score, sum */
	int64_t results;	/* f32[slots][heads][cols] */
	int64_t bytes;
};

/*
 * Shared memory of a block, in bytes, without the 1 KiB that the driver
 * reserves: CUDA C++ Programming Guide, "Technical Specifications per Compute
 * Capability".
 */
enum {
	COST_SHARED_80 = 163 << 10,
	COST_SHARED_90 = 227 << 10,	/* and later ones of servers */
	COST_SHARED_SMALL = 99 << 10	/* of sm_86, sm_89 and sm_120 */
};

/* By the name of an architecture; 0: not known. */
int64_t cost_shared_bytes(const char *arch);
/* Keys of a tile where keys are in parts, the same for blocks of queries and
 * single ones; 0: no tile fits. */
int64_t cost_single_tile_keys(const struct cost_single *x);
/* Whether single queries have kernels: else all are in blocks. */
bool cost_single_fits(const struct cost_single *x);
/* Keys of a part of a query that sees so many. */
int64_t cost_part_keys(int64_t keys);
/* Parts of the columns of results; and all columns of these. */
int64_t cost_single_outs(const struct cost_single *x);
int64_t cost_single_cols(const struct cost_single *x);
/* Whether warps that make parts of the columns share scores, beside two tiles
 * of keys; else each computes them. */
bool cost_single_is_wide(const struct cost_single *x);
/* Whether no query is in a block of queries. */
bool cost_single_is_always(const struct cost_single *x, bool wide);
/* Tiles of 16 heads of an item: as many as fit. */
int64_t cost_single_tiles(const struct cost_single *x, bool wide);
/* Items for so many multiprocessors, more than which have all parts of a query
 * each. */
int64_t cost_single_items(int64_t units);
struct cost_single_scratch
cost_single_scratch(const struct cost_single *x, bool always);
/* The launches of such a step; the scratch of all its kernels; and how often it
 * computes scores. */
double cost_single_launches(const struct cost_single *x);
double cost_single_bytes(const struct cost_single *x);
double cost_single_scores(const struct cost_single *x);
/* Parts of the keys of so many queries that see so many each. */
double cost_single_parts(double queries, double keys);
/* Whether products are by mma.sync on any device: no faster instruction reads
 * rows through an index.  Exact ones are by no matrix unit. */
bool cost_single_is_sync(const struct cost_single *x);
/* Says how single queries are computed on a device of so many multiprocessors:
 * rows, scores, left and loaded; `beside` is read. */
void cost_single_keys(const struct cost_single *x, int64_t units,
		      struct cost_keys *k);

/* ---- cost_cached.c ---------------------------------------------------- */

/* What is in a step that serves, of a replica. */
struct cost_load {
	double decoding;	/* sequences, one position each */
	double keys;		/* of each, in the mean */
	double chunk;		/* positions of prompts beside them */
	double prompts;		/* sequences that these are of */
	double before;		/* positions of each that are cached already */
};

/* Steps of at most so many positions are of sequences that decode, and programs
 * have some of them (serve_next_size). */
#define COST_FEW_POSITIONS 32

/* All keys of a step, on each of so many ranks that sequences are spread
 * over. */
double cost_step_keys(const struct cost_load *l, double ranks);
/*
 * What a program's step of so many positions is full of, with requests of such
 * lengths: sequences that decode, in the middle of their answers; or, of more
 * than a few positions, chunks of as many prompts as it has whole ones, of one
 * at least, in the middle of it.  It has at most so many keys.  Sequences have
 * whole positions.
 */
struct cost_load cost_full_load(double prompt, double output,
				double positions, double keys);

/* Attention to keys of a cache, of one rank. */
struct cost_cached {
	double ranks;		/* over which sequences are spread */
	double heads, kv;
	double d, v;		/* numbers of a head's key and value */
	double latent;		/* of a latent that all heads have; 0: none */
	double window;		/* 0: all keys */
	double queries;		/* of a sequence that decodes */
	double key_bytes;	/* that it reads of a key, with its value */
	enum target_rate rate;
	/* by kernels of this compiler for a GPU; NULL: by others */
	const struct cost_single *single;
};

/* The time that sequences that decode read their cache, and all beyond it;
 * without launches, and how many these are. */
struct cost_cached_us {
	double cache_us, math_us, launches;
};

struct cost_cached_us cost_cached(const struct target_device *d,
				  const struct cost_cached *x,
				  const struct cost_load *l);
/* Of what queries see: products, and what is read and written. */
double cost_cached_flops(const struct cost_cached *x,
			 const struct cost_load *l);
double cost_cached_bytes(const struct cost_cached *x,
			 const struct cost_load *l);

/* ---- cost_gradients.c ------------------------------------------------- */

/*
 * Attention all of whose gradients one kernel of sm_90a (docs/cuda.md) or one
 * step on a CPU (docs/codegen.md) may make.  Code generation and prices both
 * ask here which there are, so that the price is that of what is emitted.
 */
struct cost_gradients {
	int64_t batches, kv;	/* sequences; heads of keys of each */
	int64_t shared;		/* heads of queries of each of those */
	int64_t queries, keys, d, dv;
	bool causal;
	int64_t units;		/* multiprocessors */
	int64_t scratch;	/* bytes that sums of a launch may take */
};

/* How one kernel makes them. */
struct cost_joint {
	int64_t pairs;		/* heads of keys of a launch */
	int64_t apart;		/* blocks of a cluster that share such a head */
};

/* Keys of a block, and queries of a tile; columns of its sums, which heads have
 * at most, and more than how many. */
#define COST_JOINT_KEYS 128
#define COST_JOINT_QUERIES 64
#define COST_JOINT_HEAD 128
#define COST_JOINT_ABOVE 96
/* Instructions that a scheduler issues for such a tile, unless a mask cuts it:
 * those of two warps. */
#define COST_JOINT_SLOTS 840
/* What llmc gives sums at most. */
#define COST_JOINT_SCRATCH (INT64_C(96) << 20)

/* Whether its sizes are those of such attention. */
bool cost_joint_suits(const struct cost_gradients *g);
/*
 * Whether a block has two parts of the keys, one after the other, a late one
 * and an early one, so that all blocks have as many tiles: with a causal mask.
 */
bool cost_joint_is_paired(const struct cost_gradients *g);
/* The first tile of a head's queries that late keys add to, where there are
 * pairs; tiles from there on have two sums. */
int64_t cost_joint_late(const struct cost_gradients *g);
/* Bytes of sums, and numbers, of so many heads of keys. */
int64_t cost_joint_bytes(const struct cost_gradients *g, int64_t pairs);
/* The fewest launches whose sums have space, and the best cluster.  False: no
 * kernel makes all gradients of it. */
bool cost_joint_choose(const struct cost_gradients *g, struct cost_joint *out);
/* Whether it is predicted to take less time than two. */
bool cost_joint_is_less(const struct cost_gradients *g,
			const struct cost_joint *j);
/* What they take on sm_90a, with the map that sums O dO: by one kernel, or,
 * where j is NULL, by two. */
double cost_gradients_us(const struct target_device *d,
			 const struct cost_gradients *g,
			 const struct cost_joint *j);
/* What kernels that make gradients of so many pairs of a query and a key take
 * together at least, one or two: their tiles alone, evenly on all units. */
double cost_gradients_least_us(const struct target_device *d, double pairs,
			       double head_dim);
/* What forward takes on sm_90a.  It reads neither scratch nor how keys are
 * shared; a causal mask is of as many keys as queries. */
double cost_forward_us(const struct target_device *d,
		       const struct cost_gradients *g);
/* Instructions that a scheduler issues for a tile of 128 queries and 128 keys
 * that no mask cuts, those of two warps. */
double cost_forward_slots(double d, double dv);
/* The same of a kernel that issues so many instructions for a tile. */
double cost_forward_of_us(const struct target_device *d,
			  const struct cost_gradients *g, double slots);
/* What kernels that have so many pairs of a query and a key together take at
 * least: the same, without whole tiles, items and launches. */
double cost_forward_least_us(const struct target_device *d, double pairs,
			     double head_dim);
/*
 * Whether a CPU makes them in one step, whose workers have all queries of a
 * head of keys in their cache.  It reads the sizes from batches to d.
 */
bool cost_cpu_joint(const struct cost_gradients *g);

/* ---- cost_collective.c ------------------------------------------------ */

enum cost_op { COST_ALL_REDUCE, COST_ALL_GATHER, COST_REDUCE_SCATTER,
	       COST_ALL_TO_ALL, COST_SEND, COST_BROADCAST, COST_NOPS };

extern const char *const cost_op_names[COST_NOPS];

/* The ranks of a collective: per_node of them in each of `nodes` nodes. */
struct cost_group {
	int64_t per_node, nodes;
	int64_t sharing;	/* such groups in a node that run at once */
	bool direct;		/* ranks may read each other's memory */
	int64_t sets;		/* sets of linked devices that its ranks of a
				 * node are in; 0: as few as hold them */
};

/* The group of n ranks, each `apart` devices from the next. */
struct cost_group cost_group_apart(const struct target_group *t, int64_t n,
				   int64_t apart);

enum cost_way { COST_NO_WAY, COST_RING, COST_TREE, COST_LEVELS, COST_SWITCH,
		COST_DIRECT, COST_NWAYS };

extern const char *const cost_way_names[COST_NWAYS];

/*
 * By the cheapest algorithm, which *way is set to unless it is NULL.  `bytes`
 * are the larger side of one rank: the operand of all-reduce, send, broadcast,
 * reduce-scatter and all-to-all, the result of all-gather.
 */
struct cost cost_collective(const struct target_group *t, enum cost_op op,
			    const struct cost_group *g, double bytes,
			    enum cost_way *way);

#endif

/*
 * Measures the machine that this runs on: the measuring half of `llmc
 * calibrate`, which is its only caller.
 *
 * A meter is a device as a struct of functions: the cores of this machine, or
 * its CUDA devices.  Each function runs one shape several times, checks the
 * results, and returns times; it does not know the cost model that these are
 * for.  Kernels for a CPU come from the caller, since runtime/ knows nothing of
 * the compiler but abi.h.  Like all of runtime/ it never exits and never
 * prints.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef RT_MEASURE_H
#define RT_MEASURE_H

#include <stdbool.h>

#include "runtime/rt.h"

/* ---- times (measure.c) --------------------------------------------- */

/* How much time to spend on one shape. */
struct rt_pace {
	double budget_us; /* for all repetitions together */
	/* so many budgets while all repetitions are disturbed */
	double patience;
	int least, most; /* of repetitions, at most */
	/* a repetition is as many runs in a row as take this long */
	double batch_us;
};

enum { RT_SAMPLE_REPS = 200 };

/*
 * The result, in microseconds of one run.  `low_us` is the value to use: the
 * lower quartile of undisturbed repetitions.  If there were too few of those,
 * the sample is disturbed: then all repetitions count, by the CPU time of the
 * busiest thread if that is known, and low_us is the least.
 */
struct rt_sample {
	int reps, kept; /* kept: undisturbed ones, or all */
	int runs; /* in one repetition */
	double best_us, low_us, median_us, high_us; /* best, and quartiles */
	double share; /* CPU time over wall time, of all threads */
	bool disturbed;
	bool by_cpu; /* disturbed, and times are CPU times */
};

/* The time of some runs in a row; below 0: unknown. */
struct rt_timing {
	double wall_us;
	double cpu_us; /* of all threads, also while they spin */
	double busy_us; /* CPU time of the thread that worked longest */
};

/* Measures run(); `threads`: how many threads use CPU time. */
enum rt_status rt_sample_measure(const struct rt_pace *pace, int threads,
				 enum rt_status (*run)(void *user, int runs,
						       struct rt_timing *out,
						       struct rt_error *err),
				 void *user, struct rt_sample *out,
				 struct rt_error *err);

/* ---- meters -------------------------------------------------------- */

enum rt_rate { RT_RATE_FP32, RT_RATE_TF32, RT_RATE_BF16, RT_RATE_FP16,
	       RT_RATES };

enum rt_stream { RT_READ, RT_WRITE, RT_COPY, RT_TRIAD, RT_STREAMS };

enum rt_collective { RT_ALL_REDUCE, RT_ALL_GATHER, RT_REDUCE_SCATTER, RT_SEND,
		     RT_COLLECTIVES };

struct rt_kernel;
struct rt_pieces;

/* A kernel that the compiler made, loaded into this process. */
struct rt_made {
	const struct rt_kernel *kernel;
	/*
	 * by operand: number of its value; inputs are 0, 1, .., then the result
	 */
	const uint32_t *values;
	const struct rt_pieces *const *pieces; /* rt_call.pieces */
	/* scratch memory; own: of each thread */
	int64_t shared_bytes, own_bytes;
	/* by operand: as in rt_hold; NULL: all lie in rows */
	const uint32_t *lanes;
};

/* C[m,n] = A[m,k] B[k,n], row-major.  B of a model's weights is stored as they
 * are: [n,k], in rows or in panels; those in 8 or 4 bits are made wider where
 * they are multiplied. */
struct rt_matmul_shape {
	enum rt_rate rate; /* of A and B, and on a CPU of C */
	bool weights;
	int64_t m, n, k;
	/* on a CPU: values A, B, C; in 8 or 4 bits A, B, wider B, C */
	const struct rt_made *made;
	int bits;	/* 8: B is int8; 4: int4, in groups; 0: of the rate */
};

enum { RT_MOST_HEAD_DIM = 128 };

/*
 * In fp32; values are queries, keys, values and the result, each [length,
 * heads, head_dim].  Causal: a query sees the keys up to its own place.
 *
 * With sequences: each has one query of `heads`, and `length` keys of `kv`
 * heads, a multiple of 16, in a cache.  Values are queries, keys, values, the
 * index of keys in the cache, the first and the last key of each query, the
 * gathered keys and values, and the result.
 */
struct rt_attention_shape {
	int64_t heads, length, head_dim;
	bool causal;
	const struct rt_made *made;
	int64_t sequences, kv;
	enum rt_rate rate;	/* of queries and keys of sequences */
};

/* Bytes are those of the larger side of one rank, as in nccl-tests. */
struct rt_coll_shape {
	enum rt_collective op;
	int ranks;
	int64_t bytes;
};

enum { RT_METER_NAME = 64 };

struct rt_facts {
	char name[RT_METER_NAME], vendor[RT_METER_NAME];
	char arch[RT_METER_NAME], link[RT_METER_NAME];
	char code[RT_RATES][RT_METER_NAME]; /* what multiplies; "": it cannot */
	double out_bytes[RT_RATES]; /* bytes of an element of C */
	int64_t units; /* cores, or SMs */
	double clock_mhz;
	double memory_bytes, cache_bytes;
	int ranks; /* ranks of a collective, at most */
	/* why it cannot measure them; NULL: it can */
	const char *no_attention, *no_comm;
	const char *launch; /* what `launch` measures */
};

struct rt_meter;

struct rt_meter_ops {
	enum rt_status (*matmul)(struct rt_meter *,
				 const struct rt_matmul_shape *,
				 struct rt_sample *, struct rt_error *);
	enum rt_status (*attention)(struct rt_meter *,
				    const struct rt_attention_shape *,
				    struct rt_sample *, struct rt_error *);
	/* `bytes` of each array */
	enum rt_status (*stream)(struct rt_meter *, enum rt_stream,
				 int64_t bytes, struct rt_sample *,
				 struct rt_error *);
	enum rt_status (*launch)(struct rt_meter *, struct rt_sample *,
				 struct rt_error *);
	enum rt_status (*coll)(struct rt_meter *, const struct rt_coll_shape *,
			       struct rt_sample *, struct rt_error *);
	void (*close)(struct rt_meter *);
};

struct rt_meter {
	const struct rt_meter_ops *ops;
	void *self;
	struct rt_facts facts;
	struct rt_pace pace;
};

extern const char *const rt_stream_names[RT_STREAMS];
/* The number of arrays that a stream reads or writes: 1 to 3. */
int rt_stream_arrays(enum rt_stream s);

/* ---- the cores of this machine (measure_cpu.c) --------------------- */

/*
 * Opens the cores that this process may run on.  The caller provides a kernel
 * with each shape, and fills facts.code and facts.out_bytes.  After a failure
 * there is nothing to close.
 */
enum rt_status rt_meter_cpu(struct rt_meter *m, struct rt_pace pace,
			    struct rt_error *err);

/* ---- CUDA devices (measure_cuda.c) --------------------------------- */

/*
 * Loads libcuda, libcublas and, if there are two devices or more, libnccl; an
 * error names the library or function that is missing.  Of two the caller may
 * choose the file; NULL: the usual one.
 */
enum rt_status rt_meter_cuda(struct rt_meter *m, struct rt_pace pace,
			     const char *libcuda, const char *libnccl,
			     struct rt_error *err);

#endif

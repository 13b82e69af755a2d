/*
 * Times candidate tilings of one kernel on a GPU: the measuring half of `llmc
 * --autotune`, which is its only caller.
 */
#ifndef RT_TUNE_H
#define RT_TUNE_H

#include "runtime/abi.h"
#include "runtime/rt.h"

/* A buffer that candidates read or write; the same for all of them. */
struct rt_tune_buffer {
	int64_t bytes;
	int64_t elem;		/* enum rt_elem; -1: 8-bit floats */
};

struct rt_tune_way {
	const struct rt_kernel *kernel;	/* its steps are grids */
	const uint32_t *operands;	/* by operand: which buffer */
	const struct rt_pieces *pieces;	/* in the call's order */
	int64_t shared_bytes;
	double us;			/* result: the median */
};

struct rt_tune_case {
	const struct rt_tune_buffer *buffers;
	uint32_t nbuffers, nways;
	struct rt_tune_way *ways;
};

struct rt_tuner;

/*
 * Opens the first GPU, with this libcuda (NULL: the default).  RT_RANGE: there
 * is none, or it is not of architecture `arch`, "sm_90a".
 */
enum rt_status rt_tuner_open(struct rt_tuner **out, const char *libcuda,
			     const char *arch, struct rt_error *err);
/* Sets the images that grids refer to, once; they must outlive the tuner. */
enum rt_status rt_tuner_load(struct rt_tuner *t, const struct rt_images *m,
			     struct rt_error *err);
/* The name of the GPU: "NVIDIA H100 80GB HBM3". */
const char *rt_tuner_name(const struct rt_tuner *t);
/*
 * Times all candidates of a case in turns, on random numbers that the caches do
 * not hold at the start.
 */
enum rt_status rt_tuner_run(struct rt_tuner *t, const struct rt_tune_case *x,
			    struct rt_error *err);
/* NULL is allowed. */
void rt_tuner_close(struct rt_tuner *t);

#endif

/*
 * tune.h - ways to run one kernel, timed side by side on a GPU: the measuring
 * half of `llmc --autotune`.
 */
#ifndef RT_TUNE_H
#define RT_TUNE_H

#include "runtime/abi.h"
#include "runtime/rt.h"

/* What ways read and write; the same for all of them. */
struct rt_tune_buffer {
	int64_t bytes;
	int64_t elem;		/* enum rt_elem; -1: of 8 bits */
};

struct rt_tune_way {
	const struct rt_kernel *kernel;	/* its steps are grids */
	const uint32_t *operands;	/* by operand: which buffer */
	const struct rt_pieces *pieces;	/* in the call's order */
	int64_t shared_bytes;
	double us;			/* out: the median */
};

struct rt_tune_case {
	const struct rt_tune_buffer *buffers;
	uint32_t nbuffers, nways;
	struct rt_tune_way *ways;
};

struct rt_tuner;

/*
 * The first GPU, by this libcuda (NULL: the usual one).  RT_RANGE: there is
 * none, or it is of another architecture than "sm_90a".
 */
enum rt_status rt_tuner_open(struct rt_tuner **out, const char *libcuda,
			     const char *arch, struct rt_error *err);
/* Takes the images that grids are of, once; they outlive the tuner. */
enum rt_status rt_tuner_load(struct rt_tuner *t, const struct rt_images *m,
			     struct rt_error *err);
/* "NVIDIA H100 80GB HBM3" */
const char *rt_tuner_name(const struct rt_tuner *t);
/*
 * All ways of a case by turns, on drawn numbers, which the caches do not hold
 * before.
 */
enum rt_status rt_tuner_run(struct rt_tuner *t, const struct rt_tune_case *x,
			    struct rt_error *err);
/* NULL, too. */
void rt_tuner_close(struct rt_tuner *t);

#endif

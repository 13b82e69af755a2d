/*
 * Times candidates of one kernel on a GPU, and checks what they compute: for
 * `llmc --autotune`, and for who measures the folder of --trials.
 */
#ifndef RT_TUNE_H
#define RT_TUNE_H

#include "runtime/abi.h"
#include "runtime/rt.h"

/* A buffer that candidates read or write; the same for all of them. */
struct rt_tune_buffer {
	int64_t bytes;
	int64_t elem;		/* enum rt_elem; RT_ELEM_U8: f8e5m2 */
	/* elements of a row, and from one to the next; 0: they are dense.  What
	 * is between two rows is not compared. */
	int64_t row, pitch;
	bool written;
};

struct rt_tune_way {
	const struct rt_kernel *kernel;	/* its steps are grids */
	const uint32_t *operands;	/* by operand: which buffer */
	const struct rt_pieces *pieces;	/* in the call's order */
	const int64_t *nums;
	int64_t shared_bytes;
	double us;			/* result: the median */
	/* results of a check: elements that were compared, that are wrong, and
	 * the first of these; by_host: with those that the host computed */
	int64_t checked, wrong;
	bool by_host;
	struct {
		int64_t buffer, at;
		double want, got;
	} first;
};

/* A factor of a contraction, as runs of positions, outermost first: elements
 * from one to the next in each operand. */
struct rt_tune_factor {
	int64_t n, size[RT_MAX_DIMS], stride[RT_MAX_DIMS][2];
};

/* Element (batch, m, n) of the result, row-major, is the sum over k of the
 * products of both operands, or that on top of what was there. */
struct rt_tune_product {
	bool adds;
	int64_t buffer[3];		/* left, right, result */
	int64_t offset[2];		/* elements of left and right */
	struct rt_tune_factor batch, m, n, k;
};

struct rt_tune_case {
	const struct rt_tune_buffer *buffers;
	uint32_t nbuffers, nways;
	struct rt_tune_way *ways;
	/* NULL, or of numbers that are no sums to the last bit, such as
	 * f8e5m2: what candidates compute is compared with the first one's */
	const struct rt_tune_product *product;
	int rounds;			/* 0: as many as are usual */
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
/* Its greatest clock; 0: the driver does not say. */
double rt_tuner_clock_mhz(const struct rt_tuner *t);
/*
 * Times all candidates of a case in turns, on random numbers that the caches do
 * not hold at the start.
 */
enum rt_status rt_tuner_run(struct rt_tuner *t, const struct rt_tune_case *x,
			    struct rt_error *err);
/*
 * Runs each candidate once, and compares elements of what it wrote, drawn at
 * random.  Of a product they must be those that the host computes in float64,
 * to the last bit, since numbers are drawn so that sums are exact in any order;
 * other candidates must come close to the first.
 */
enum rt_status rt_tuner_check(struct rt_tuner *t, const struct rt_tune_case *x,
			      struct rt_error *err);
/* NULL is allowed. */
void rt_tuner_close(struct rt_tuner *t);

#endif

/*
 * Private to runtime/measure/tune*.c: a GPU that times kernels, and a case's
 * memory on it.
 */
#ifndef RT_TUNE_INNER_H
#define RT_TUNE_INNER_H

#include "runtime/device/cuda_device.h"
#include "runtime/measure/tune.h"

/* Bytes of the host's memory through which buffers are filled and read. */
enum { RT_TUNE_BOUNCE = 1 << 20 };

struct rt_tuner {
	struct rt_gpu g;
	struct rt_device d;
	struct rt_plan plan;
	uint64_t flush;		/* buffer that is written to flush L2 */
	size_t flush_bytes;
	double clock_mhz;
	void *bounce;		/* pinned, of RT_TUNE_BOUNCE bytes */
};

/* A case and its memory on the GPU. */
struct rt_tune_bench {
	struct rt_tuner *t;
	const struct rt_tune_case *x;
	int64_t nsets;		/* copies of all buffers */
	/* [set * nbuffers + buffer] */
	uint64_t *buffers, shared;
	struct rt_tune_turn {	/* by way */
		char **at;	/* [set * nat + operand] */
		const struct rt_pieces **pieces;
		int64_t *nums;
		double *ms;	/* of each round */
	} *ways;
};

/* Allocates it; rt_tune_close also after a failure. */
enum rt_status rt_tune_open(struct rt_tune_bench *b, struct rt_error *err);
void rt_tune_close(struct rt_tune_bench *b);
/* Fills a buffer of the first set with drawn numbers; `bits` as in
 * rt_tune_number, or 0: whatever numbers its elements can be. */
enum rt_status rt_tune_fill(struct rt_tune_bench *b, uint32_t buffer, int bits,
			    struct rt_error *err);
/* Before a way is launched: its pieces are on the GPU from then on. */
enum rt_status rt_tune_pieces(struct rt_tune_bench *b, uint32_t way,
			      struct rt_error *err);
/* All steps of a way, on a set's buffers. */
enum rt_status rt_tune_launch(struct rt_tune_bench *b, uint32_t way,
			      int64_t set, struct rt_error *err);

/* ---- tune_numbers.c ---- */

int64_t rt_tune_elem_bytes(int64_t elem);
/* The bits after the point of numbers of which a type has all; 0: it is no
 * type of numbers that are drawn. */
int rt_tune_elem_bits(int64_t elem);
/* An odd multiple of 2^-bits between -1 and 1, by an element's index. */
double rt_tune_number(int bits, uint32_t buffer, int64_t i);
/* Writes a number that the type has. */
void rt_tune_put(char *to, int64_t elem, double v);
/* A number of 8 bits whose value nobody asks for. */
void rt_tune_put_any(char *to, int64_t i);
double rt_tune_get(const char *at, int64_t elem);
/* To the nearest of the type, ties to even: of numbers in its range, or of 8
 * bits, which saturate. */
double rt_tune_round(int64_t elem, double v);

#endif

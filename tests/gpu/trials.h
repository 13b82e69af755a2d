/*
 * trials.json, as `llmc --trials` writes it, and the files that it names.
 */
#ifndef TESTS_GPU_TRIALS_H
#define TESTS_GPU_TRIALS_H

#include "runtime/measure/tune.h"

struct trial {
	struct rt_kernel kernel;
	const char *tile;	/* "m=128 n=256 .."; "": there is no choice */
	double cycles;		/* estimated; 0: not */
	int64_t spill_bytes;
};

struct trial_case {
	const char *what;
	int64_t nkernels;	/* of the plan */
	/* predicted time, and work; 0: not known */
	double us, flops, bytes;
	double peak_flops_us, peak_bytes_us;	/* of the target */
	struct rt_tune_buffer *buffers;
	size_t nbuffers, ntrials;
	struct rt_tune_product product;
	bool has_product;
	struct trial *trials;
	struct rt_tune_way *ways;	/* by trial */
};

struct trials {
	const char *text;	/* of the file, which strings point into */
	const char *arch;
	struct rt_images images;	/* texts: where there are sources */
	struct trial_case *cases;
	size_t ncases;
};

/* Reads FOLDER/trials.json, and the files that it names. */
enum rt_status trials_read(const char *folder, struct trials *out,
			   struct rt_error *err);

#endif

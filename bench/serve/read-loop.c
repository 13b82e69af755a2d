/*
 * Prints how many GB/s the loop of read-loop.h reads, in the best of some
 * rounds.  The program of reading.py.
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "bench/serve/read-loop.h"

int
main(int argc, char **argv)
{
	struct rt_workers_options o = { .n = argc > 1 ? atoi(argv[1]) : 0 };
	int64_t bytes = (argc > 2 ? (int64_t)atoi(argv[2]) : 0) << 20;
	int rounds = argc > 3 ? atoi(argv[3]) : 0, i;
	struct bench_reading r = { NULL, 0 };
	struct rt_workers *w;
	struct bench_round t;
	struct rt_error err;
	double best = 0;
	char *memory;

	if (o.n < 1 || bytes < 1 || rounds < 1) {
		bench_fail("read-loop", "THREADS MIB ROUNDS");
	}
	memory = bench_space(bytes);
	if (!memory || rt_workers_start(&w, &o, &err) != RT_OK) {
		bench_fail("read-loop", memory ? err.message
					       : "out of memory");
	}
	r.at = memory;
	for (i = 0; i < rounds; i++) {
		bench_begin(&t);
		bench_read(&r, w, bytes);
		bench_end(&t);
		best = best > (double)bytes / t.wall ? best
						     : (double)bytes / t.wall;
	}
	printf("%.2f\n", best / 1e9);
	rt_workers_stop(w);
	free(memory);
	return 0;
}

/*
 * A loop of vector loads, which workers run over memory in pieces: what memory
 * gives to a program that does nothing else.
 */
#ifndef BENCH_SERVE_READ_LOOP_H
#define BENCH_SERVE_READ_LOOP_H

#include <stdatomic.h>

#include "bench/rounds.h"
#include "runtime/device/pool.h"

#define BENCH_READ_PIECE 65536	/* bytes of an item */

struct bench_reading {
	const char *at;
	_Atomic int sink;	/* so that no load is left out */
};

typedef float bench_vector __attribute__((vector_size(32), aligned(4)));

static inline void
bench_read_part(void *user, int64_t worker, int64_t from, int64_t to)
{
	struct bench_reading *r = user;
	bench_vector sum[8];
	int64_t i;
	int j;

	(void)worker;
	for (; from < to; from++) {
		const char *at = r->at + from * BENCH_READ_PIECE;

		memset(sum, 0, sizeof sum);
		for (i = 0; i < BENCH_READ_PIECE; i += 256) {
			for (j = 0; j < 8; j++) {
				sum[j] += *(const bench_vector *)(at + i +
								  32 * j);
			}
		}
		for (j = 1; j < 8; j++) {
			sum[0] += sum[j];
		}
		atomic_fetch_add_explicit(&r->sink, (int)sum[0][0],
					  memory_order_relaxed);
	}
}

/* Reads whole pieces of so many bytes, once. */
static inline void
bench_read(struct bench_reading *r, struct rt_workers *w, int64_t bytes)
{
	rt_workers_run(w, bench_read_part, r, bytes / BENCH_READ_PIECE);
}

#endif

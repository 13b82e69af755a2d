/*
 * measure_cpu.h - private to runtime/: the parts of the CPU's meter.
 */
#ifndef RT_MEASURE_CPU_H
#define RT_MEASURE_CPU_H

#include "runtime/error.h"
#include "runtime/measure/measure.h"

/* ---- measure_pool.c ------------------------------------------------ */

/* Threads that wait for work by spinning, so that a region starts at once. */
struct rt_pool;

enum rt_status rt_pool_start(struct rt_pool **out, int threads,
			     struct rt_error *err);
/* work(user, i, n) for each i of n threads, of which the caller is 0. */
void rt_pool_run(struct rt_pool *p, void (*work)(void *user, int i, int n),
		 void *user);
/* The same, and what it took: all of *out. */
void rt_pool_time(struct rt_pool *p, void (*work)(void *user, int i, int n),
		  void *user, struct rt_stretch *out);
int rt_pool_threads(const struct rt_pool *p);
void rt_pool_stop(struct rt_pool *p);

/* Cores that a thread may run on. */
struct rt_cores {
	_Alignas(8) unsigned char bytes[128]; /* a cpu_set_t of 1024 */
};

/* Of the caller; how many. */
int rt_cores_get(struct rt_cores *c);
void rt_cores_set(const struct rt_cores *c);
/*
 * Ties the caller to the i-th of them: two threads that wait for each other
 * by spinning on one core take turns at the pace of the scheduler.
 */
void rt_cores_pin(const struct rt_cores *c, int i);

double rt_wall_us(void);
/* Of all threads of this process. */
double rt_cpu_us(void);
/* Of the caller. */
double rt_thread_us(void);
/* Lets another thread of the core go ahead, and from time to time anybody. */
void rt_spin(unsigned *spins);

/* Zeroed pages, or NULL. */
void *rt_pages(size_t bytes);
/* The same, shared with children that are forked later. */
void *rt_shared_pages(size_t bytes);
void rt_pages_free(void *p, size_t bytes);

/* ---- measure_tile.c ------------------------------------------------ */

/*
 * A register tile: C[mr,nr] = A[mr,kc] B[kc,nr], added to C if `add`.  A lies
 * packed as [kc/unit_a][mr][unit_a], B as [kc/unit_b][nr][unit_b], zeros
 * behind a ragged end; the rows of B are ldb apart where unit_b is 1.
 */
struct rt_tile {
	const char *name;
	enum rt_rate rate; /* of its operands in memory */
	bool widens; /* packs 16-bit operands as fp32 */
	int mr, nr, unit_a, unit_b;
	int kc, mc, nc; /* blocks for its caches */
	bool (*there)(void); /* does this machine have it? */
	void (*enter)(void), (*leave)(void); /* of each thread, or NULL */
	void (*run)(int64_t kc, const void *a, const void *b, int64_t ldb,
		    float *c, int64_t ldc, bool add);
};

enum { RT_TILE_MR = 32, RT_TILE_NR = 32 }; /* the largest */

/* Fastest first; the last of each rate runs everywhere. */
extern const struct rt_tile rt_tiles[];
extern const size_t rt_ntiles;

/* ---- measure_gemm.c ------------------------------------------------ */

/* Bytes of an element as it lies in memory, and once packed. */
size_t rt_rate_bytes(enum rt_rate r);
size_t rt_tile_bytes(const struct rt_tile *t);

/* Elements of a matrix, `step_i` and `step_k` apart. */
struct rt_view {
	const void *at;
	int64_t step_i, step_k;
};

/*
 * Packs n (at most `width`) rows or columns of kc elements as the tile wants
 * them in units of `unit`, zeros behind both ends; kc is rounded up to
 * `round`.
 */
void rt_pack(const struct rt_tile *t, void *to, struct rt_view from, int n,
	     int width, int64_t kc, int unit, int round);
/* What kc is rounded up to. */
int rt_tile_round(const struct rt_tile *t);

/* Numbers in [-1, 1) that are the same everywhere, bf16 where it says so. */
void rt_fill(void *to, enum rt_rate rate, int64_t n, uint32_t seed);
double rt_element(const void *from, enum rt_rate rate, int64_t i);
uint16_t rt_to_bf16(float v);

enum rt_status rt_cpu_matmul(struct rt_pool *p, const struct rt_tile *t,
			     const struct rt_matmul *x,
			     const struct rt_pace *pace,
			     struct rt_sample *out, struct rt_error *err);
/* Holds all of an odd shape to a plain loop. */
bool rt_tile_agrees(struct rt_pool *p, const struct rt_tile *t);

/* ---- measure_attend.c ---------------------------------------------- */

enum rt_status rt_cpu_attend(struct rt_pool *p, const struct rt_tile *t,
			     const struct rt_attend *x,
			     const struct rt_pace *pace,
			     struct rt_sample *out, struct rt_error *err);

/* ---- measure_stream.c ---------------------------------------------- */

enum rt_status rt_cpu_stream(struct rt_pool *p, enum rt_stream s,
			     int64_t bytes, const struct rt_pace *pace,
			     struct rt_sample *out, struct rt_error *err);
enum rt_status rt_cpu_launch(struct rt_pool *p, const struct rt_pace *pace,
			     struct rt_sample *out, struct rt_error *err);
/* From a chain of additions, one a cycle. */
double rt_cpu_clock_mhz(void);

/* ---- measure_comm.c ------------------------------------------------ */

/*
 * Between forked processes, over pages that they share; no thread may run
 * beside the caller.
 */
enum rt_status rt_cpu_comm(const struct rt_coll *x, const struct rt_pace *pace,
			   struct rt_sample *out, struct rt_error *err);

#endif

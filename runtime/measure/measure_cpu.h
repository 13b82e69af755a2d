/* Private to runtime/measure/: the parts of the CPU meter. */
#ifndef RT_MEASURE_CPU_H
#define RT_MEASURE_CPU_H

#include "runtime/error.h"
#include "runtime/measure/measure.h"

/* ---- measure_pool.c ------------------------------------------------ */

/*
 * Threads that spin while they wait, so that a region starts at once and CPU
 * time that is missing shows that others used a core.
 */
struct rt_pool;

enum rt_status rt_pool_start(struct rt_pool **out, int threads,
			     struct rt_error *err);
/* Calls work(user, i, n) on each thread i of n; the caller is thread 0. */
void rt_pool_run(struct rt_pool *p, void (*work)(void *user, int i, int n),
		 void *user);
/* The same, and measures it. */
void rt_pool_time(struct rt_pool *p, void (*work)(void *user, int i, int n),
		  void *user, struct rt_timing *out);
int rt_pool_threads(const struct rt_pool *p);
void rt_pool_stop(struct rt_pool *p);

/* Cores that a thread may run on. */
struct rt_cores {
	_Alignas(8) unsigned char bytes[128]; /* a cpu_set_t of 1024 */
};

/* The affinity of the caller; returns how many cores that is. */
int rt_cores_get(struct rt_cores *c);
void rt_cores_set(const struct rt_cores *c);
/*
 * Pins the caller to the i-th of the cores: two spinning threads on one core
 * would take turns at the pace of the scheduler.
 */
void rt_cores_pin(const struct rt_cores *c, int i);

double rt_wall_us(void);
/* CPU time of all threads of this process. */
double rt_cpu_us(void);
/* CPU time of the caller. */
double rt_thread_us(void);
/* To call in spin loops: pauses, and sometimes yields the core. */
void rt_spin(unsigned *spins);

/* Zeroed pages, or NULL: huge ones where the system has them, as a rank's. */
void *rt_pages(size_t bytes);
/* Pages that are shared with children that are forked later. */
void *rt_shared_pages(size_t bytes);
void rt_pages_free(void *p, size_t bytes);

/* ---- measure_kernel.c ---------------------------------------------- */

uint16_t rt_to_bf16(float v);

/* RT_FORMAT: the kernel computed wrong results. */
enum rt_status rt_cpu_matmul(struct rt_pool *p,
			     const struct rt_matmul_shape *x,
			     const struct rt_pace *pace,
			     struct rt_sample *out, struct rt_error *err);
enum rt_status rt_cpu_attention(struct rt_pool *p,
				const struct rt_attention_shape *x,
				const struct rt_pace *pace,
				struct rt_sample *out, struct rt_error *err);
/* The same of a shape with sequences. */
enum rt_status rt_cpu_keys(struct rt_pool *p,
			   const struct rt_attention_shape *x,
			   const struct rt_pace *pace,
			   struct rt_sample *out, struct rt_error *err);

/* ---- measure_stream.c ---------------------------------------------- */

enum rt_status rt_cpu_stream(struct rt_pool *p, enum rt_stream s,
			     int64_t bytes, const struct rt_pace *pace,
			     struct rt_sample *out, struct rt_error *err);
enum rt_status rt_cpu_launch(struct rt_pool *p, const struct rt_pace *pace,
			     struct rt_sample *out, struct rt_error *err);
/* Measured by a chain of dependent additions, one a cycle. */
double rt_cpu_clock_mhz(void);

/* ---- measure_comm.c ------------------------------------------------ */

/*
 * Between forked processes, over shared memory; the caller must have no other
 * threads.
 */
enum rt_status rt_cpu_comm(const struct rt_coll_shape *x,
			   const struct rt_pace *pace, struct rt_sample *out,
			   struct rt_error *err);

#endif

/*
 * The host that a rank runs on: its CPU, its cores and memory, its GPUs before
 * any is opened.
 */
#ifndef RT_THIS_MACHINE_H
#define RT_THIS_MACHINE_H

#include "runtime/abi.h"
#include "runtime/comm/comm.h"
#include "runtime/error.h"

/* ---- the CPU and the plan (cpuid.c) ----------------------------------- */

/* The brand name; "": unknown. */
struct rt_shown rt_cpu_name(void);
/*
 * RT_RANGE: the plan needs a feature that this CPU lacks; err names it, and a
 * --cpu that would run here.  Requests permissions that features need (AMX).
 */
enum rt_status rt_cpu_check(const struct rt_plan *p, struct rt_error *err);

/* ---- this host (machine.c) -------------------------------------------- */

#define RT_MAX_CORES 1024

struct rt_machine {
	int64_t ncores;		/* that the affinity of the process allows */
	/* cores of one NUMA node are adjacent */
	int cores[RT_MAX_CORES];
	int64_t online;		/* online cores of the host */
	int64_t free_bytes;	/* available memory; -1: unknown */
};

void rt_machine_look(struct rt_machine *m);

/* The part of one rank. */
struct rt_share {
	int64_t threads;
	/* points into rt_machine.cores; NULL: not bound */
	const int *cores;
	bool crowded;
};

/* wanted: threads, 0 for as many as fit; `most`: upper bound. */
struct rt_share rt_machine_share(const struct rt_machine *m,
				 const struct rt_world *w, int64_t wanted,
				 int64_t most, bool bind);
/* Monotonic. */
double rt_now_ms(void);

/* ---- GPUs before ranks are started (cuda_probe.c) ---------------------- */

/*
 * Before ranks are started: would `n` of them find their GPUs on this host?
 * Runs in a child process: a process that forks ranks must not have initialized
 * CUDA.
 */
enum rt_status rt_gpu_probe(const struct rt_plan *p, int64_t n,
			    const char *libcuda, struct rt_error *err);

#endif

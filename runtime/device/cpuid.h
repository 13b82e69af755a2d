/*
 * cpuid.h - what this CPU has, by LLVM's names of features.
 *
 * Whoever runs code for a CPU, a rank, `llmc calibrate` or a test, asks here
 * first: that a CPU has a feature is not yet the permission to use it.
 */
#ifndef RT_CPUID_H
#define RT_CPUID_H

#include <stdbool.h>

/*
 * Whether this CPU has a feature, "avx512f", and the system saves the registers
 * that come with it.  True of names that only say how fast something is.
 */
bool rt_cpu_has(const char *feature);
/*
 * Asks the system for what a process may not use unasked: the state of AMX's
 * tiles, 8 KB of each thread.  It holds for all threads, and for good.  False:
 * the system refuses, and an instruction of that feature would be SIGILL.
 */
bool rt_cpu_allow(const char *feature);

#endif

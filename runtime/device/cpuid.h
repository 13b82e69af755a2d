/*
 * The features of this CPU, by LLVM's names.
 *
 * A rank, `llmc calibrate` and the tests check here before they run code for a
 * CPU: a feature that the CPU has may still lack the system's permission.
 */
#ifndef RT_CPUID_H
#define RT_CPUID_H

#include <stdbool.h>

/* Whether this CPU has a feature, "avx512f", and the system saves its
 * registers.  True of names that affect speed alone. */
bool rt_cpu_has(const char *feature);
/*
 * Requests what the system grants on demand only: the state of AMX's tiles, 8
 * KB of each thread.  The grant holds for all threads until the process ends.
 * False: refused, and an instruction of that feature would raise SIGILL.
 */
bool rt_cpu_allow(const char *feature);

#endif

/*
 * The features of this CPU, by LLVM's names.
 *
 * A rank, `llmc calibrate` and the tests check here before they run code for a
 * CPU: a feature that the CPU has may still lack the system's permission.
 */
#ifndef RT_CPUID_H
#define RT_CPUID_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What this CPU says of its features.  It is read at once for all that are
 * asked for: in a virtual machine each CPUID goes through the host.
 */
enum { RT_CPU_LEAVES = 4 };

struct rt_cpu {
	uint32_t r[RT_CPU_LEAVES][4];	/* 0 of a leaf that it has not */
	uint64_t state;			/* that the system saves: XCR0 */
};

void rt_cpu_read(struct rt_cpu *c);
/* Whether it has a feature, "avx512f", and the system saves its registers.
 * True of names that affect speed alone. */
bool rt_cpu_has(const struct rt_cpu *c, const char *feature);
/*
 * Requests what the system grants on demand only: the state of AMX's tiles, 8
 * KB of each thread.  The grant holds for all threads until the process ends.
 * False: refused, and an instruction of that feature would raise SIGILL.
 */
bool rt_cpu_allow(const char *feature);

#endif

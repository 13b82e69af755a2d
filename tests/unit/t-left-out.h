/* Which tests are left out of which runs. */
#ifndef T_LEFT_OUT_H
#define T_LEFT_OUT_H

#include "runtime/emulate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Whether many emulated kernels are left out: where there is no emulator, of a
 * release, and under sanitizers, which find llmc's mistakes in fewer of them
 * (cuda-train.sh) and spend their time in kernels.
 */
static inline bool
t_left_out(void)
{
	const char *slow = getenv("SLOW_TESTS");

	return getenv("BINARY_TESTS") || !rt_emu_possible() ||
	       (slow && strcmp(slow, "skip") == 0);
}

#endif

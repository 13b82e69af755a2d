/* Which tests are left out of which runs, and what is compiled how well. */
#ifndef T_LEFT_OUT_H
#define T_LEFT_OUT_H

#include "runtime/emulate/emulate.h"
#include "tests/unit/shared/t-cases.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Emulated kernels need an emulator, and are no part of a release's tests. */
static inline bool
t_left_out(void)
{
	return getenv("BINARY_TESTS") || !rt_emu_possible();
}

/*
 * For rt_emu_open with these flags: what is not checked runs once, and takes
 * longer to compile well than to run.
 */
static inline void
t_quick(int flags)
{
	static char as_is[512], quick[520];
	const char *cc = getenv("LLMC_LINKER");

	if (!*as_is) {
		cc = cc ? cc : getenv("CC");
		snprintf(as_is, sizeof as_is, "%s", cc ? cc : "cc");
		snprintf(quick, sizeof quick, "%s -O0", as_is);
	}
	setenv("LLMC_LINKER", flags & RT_EMU_CHECK ? as_is : quick, 1);
}

#endif

/*
 * Code generation.  So far: which tool chains this build found.
 */
#ifndef CODEGEN_CG_H
#define CODEGEN_CG_H

#include "ir/base.h"

/* ---- toolchain.c ------------------------------------------------------ */

/* One line per back end: what it was built with, or what is missing. */
void cg_toolchain(struct buf *out);

#endif

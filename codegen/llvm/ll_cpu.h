/*
 * CPUs by name.  This needs no LLVM.
 */
#ifndef CODEGEN_LL_CPU_H
#define CODEGEN_LL_CPU_H

#include "ir/base.h"

struct ll_cpu_row {
	const char *name;	/* as LLVM calls it */
	const char *features;	/* separated by spaces */
	/* of these, those that it computes slower than what they replace */
	const char *slow;
};

const struct ll_cpu_row *ll_cpu_rows(uint32_t *n);
const struct ll_cpu_row *ll_cpu_find(const char *name);
/* Whether code for the CPU of that name is quicker by a feature that it has: of
 * one without a row, it is. */
bool ll_cpu_gains(const char *name, const char *feature);
/* Features that code may use, and that a program checks before it runs. */
const char *const *ll_cpu_features(uint32_t *n);
/*
 * Of "NAME+FEATURE+FEATURE" the name, and in *more the rest, with those before
 * each feature that it needs; ll_cpu_next takes one at a time, and NULL after
 * the last.
 */
const char *ll_cpu_split(struct arena *a, const char *cpu, const char **more);
const char *ll_cpu_next(struct arena *a, const char **more);
/* The name by which LLVM makes code for a CPU of a name with those features. */
const char *ll_cpu_of_llvm(const char *name, const char *features);
/* Whether a list, "+a,-b" as LLVM writes it or "a b", has the feature. */
bool ll_cpu_has(const char *features, const char *feature);

#endif

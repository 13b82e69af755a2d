/*
 * Names of CPUs, and what else the files ll*.c have in common.
 */
#ifndef CODEGEN_LL_CPU_H
#define CODEGEN_LL_CPU_H

#include "codegen/llvm/ll.h"

struct ll_cpu_row {
	const char *name;	/* as LLVM calls it */
	const char *features;	/* with spaces between */
};

const struct ll_cpu_row *ll_cpu_rows(uint32_t *n);
const struct ll_cpu_row *ll_cpu_find(const char *name);
/* What a program may need, and asks its CPU for before it runs. */
const char *const *ll_cpu_features(uint32_t *n);
/*
 * "NAME+FEATURE+FEATURE": the name, and in *more what comes behind it, of which
 * ll_cpu_next gives a feature at a time, NULL behind the last.
 */
const char *ll_cpu_split(struct arena *a, const char *cpu, const char **more);
const char *ll_cpu_next(struct arena *a, const char **more);
/* Whether a list has one; "+a,-b" as LLVM writes it, or "a b". */
bool ll_cpu_has(const char *features, const char *feature);

struct arena *ll_arena(struct ll *l);
/* Of LLVM, by their names. False: *why. */
bool ll_passes(struct ll *l, const char *passes, const char **why);
/* The object file of the module as it is. */
bool ll_object(struct ll *l, struct buf *out, const char **why);
/* What an object depends on beside the module and passes. */
const char *ll_settings(struct ll *l);
/* ll.c's casts of vectors of any lanes; ll_more.c has them. */
struct ll_value *ll_from_bf16(struct ll *l, struct ll_value *v);
struct ll_value *ll_to_bf16(struct ll *l, struct ll_value *v);

#endif

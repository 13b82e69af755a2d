/*
 * Code generation: from rank programs and their schedule to a program that
 * every rank runs.
 */
#ifndef CODEGEN_CG_H
#define CODEGEN_CG_H

#include "passes/price.h"
#include "passes/ranks.h"

/* ---- toolchain.c ------------------------------------------------------ */

/* One line per back end: what it was built with, or what is missing. */
void cg_toolchain(struct buf *out);

/* ---- cpu_names.c ------------------------------------------------------ */

/* False: *why, with the nearest name and all of them, in the arena. */
bool cg_cpu_known(const char *name, struct arena *a, const char **why);

/* ---- host/code.c; none.c without LLVM ---------------------------------- */

/* A plan being compiled. */
struct cg_code;

struct cg_input {
	const struct ranks *ranks;	/* all of it outlives the code */
	const struct target_group *target;
	const struct price *price;
	const char *cpu;		/* "native", "x86-64-v4" */
};

/* What is known once the plan was answered. */
struct cg_facts {
	const char *compiler, *model, *target;
	int64_t batch, tokens;		/* of one step */
	double step_us;			/* as predicted */
	double flops, peak;		/* of a step; a second, all ranks */
	const char *json, *llp;
	/* it is what a split plan is held against */
	bool is_whole;
	/* an object with such a plan is linked too; else why none is */
	bool has_whole;
	const char *whole_why;
};

/* Emits all kernels. NULL after errors. */
struct cg_code *cg_code_new(struct arena *a, const struct cg_input *in);
/* Bytes that they need on each rank, beside what is planned. */
int64_t cg_code_reserve(const struct cg_code *c);
/*
 * Plans memory with that much reserve, or more, and emits all else.  False
 * after errors.
 */
bool cg_code_finish(struct cg_code *c, int64_t reserve,
		    const struct cg_facts *facts);
/* LLVM's text of it, or the object. */
void cg_code_text(struct cg_code *c, struct buf *out);
bool cg_code_object(struct cg_code *c, struct buf *out);
void cg_code_free(struct cg_code *c);

/* ---- link.c ------------------------------------------------------------- */

#define CG_MAX_OBJECTS 2	/* a plan's, and that of the whole */

/*
 * The program that ranks run, of objects and the runtime: byte for byte
 * the same wherever and whenever it is linked.  False after errors.
 */
bool cg_link(struct ir_ctx *ctx, const struct buf *objects, uint32_t n,
	     struct buf *out);

#endif

/*
 * Target files: those built in, and those of the user.
 */
#ifndef FRONTEND_TARGET_H
#define FRONTEND_TARGET_H

#include "frontend/lang/ast.h"
#include "passes/price/target.h"

/* One file of targets/, as it stands there. */
struct fe_target_file {
	const char *name;	/* without .target */
	const char *text;
};

/* ---- target_files.c: made of targets/ when llmc is built -------------- */

extern const struct fe_target_file fe_target_files[];
extern const size_t fe_target_nfiles;

/* ---- tool_target.c ------------------------------------------------------ */

/*
 * `h100x8x16@ib400`, or a file of target blocks (a name with a `/`, or that
 * ends in .target or .llm; `-` is standard input).  False after errors.
 */
bool fe_target(struct ir_ctx *c, const char *text, struct target *out);
/* The same of a source that was read. */
bool fe_read_target(struct ir_ctx *c, uint32_t file, struct target *out);
/* Whether an accelerator of this name is built in. */
bool fe_target_known(const char *name);

#endif

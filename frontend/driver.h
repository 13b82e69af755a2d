/*
 * One run of llmc, which frontend/tool, frontend/eval and frontend/validate
 * share: the context, the options as they were given, and the text of the
 * result.  eval and validate use these three alone.  The other fields belong
 * to frontend/tool, which calls both and which neither of them includes.
 */
#ifndef FRONTEND_DRIVER_H
#define FRONTEND_DRIVER_H

#include "frontend/options/options.h"
#include "ir/memo.h"
#include "passes/pass.h"

struct cg_code;
struct cg_input;
struct drv_facts;
struct drv_kernels;
struct drv_whole;
struct price_traits;
struct ranks;

/* One file of a plan's folder. */
struct drv_file {
	const char *name;	/* "plan.json", "kernels/dot12.cu" */
	const struct buf *text;
	bool is_program;	/* it gets the mode of an executable file */
};

struct drv_files {
	struct drv_file *at;
	uint32_t n, cap;
};

struct driver {
	struct ir_ctx ctx;
	struct options opts;
	struct buf out;		/* the result, written if nothing failed */

	/* ---- of frontend/tool ---- */

	struct pass_table table;
	struct pass_manager pm;
	struct memo memo;	/* pm.memo, unless it is switched off */
	struct pass_list passes;
	struct ir_module *unsplit;	/* of --compare, or NULL */
	struct ir_module *other;	/* of --why-not, or NULL */
	struct drv_facts *facts;	/* what the answer needs: tool.h */
	/* "znver5, priced by targets/..", or NULL: --target names the file */
	const char *priced_cpu;
	struct buf json, plan;	/* plan.json and plan.llp of an answer */
	struct buf trace;	/* of --trace; empty if it is not given */
	struct buf report;	/* the file of --report */
	struct buf program;	/* the file `rank`; empty if there is none */
	struct drv_files files;	/* all files of the plan's folder */
	struct cg_code *code;	/* code that is being compiled, or NULL */
	const struct cg_input *code_in;	/* what `code` is made of */
	struct drv_kernels *kernels;	/* what the program links, or NULL */
	struct drv_whole *whole;	/* the model unsplit, or NULL */
	/* one of many runs of a process: it shows no progress, is not ended by
	 * an interrupt of its own, and looks for no advice */
	bool is_part;
	bool wants_code;
	bool reruns;		/* `finish` compiles the plan again: rerun.c */
	bool for_gpu;		/* code for the target's GPUs is wanted */
	bool for_code;		/* for_gpu, or the target is a CPU with code */
	/* bytes of a device that code and its driver keep, beside the arena */
	int64_t reserve_bytes;
};

/* What was given for an option, or NULL if it was not given. */
static inline const struct opt_value *
drv_given(const struct driver *d, enum opt_id id)
{
	return d->opts.at[id].given ? &d->opts.at[id] : NULL;
}

/* The text that was given for an option, or NULL. */
static inline const char *
drv_text(const struct driver *d, enum opt_id id)
{
	return d->opts.at[id].text;
}

/* ---- driver.c --------------------------------------------------------- */

/*
 * Opens the context, the passes and the memo of a run, with no options.  Its
 * memory comes through the gate; NULL: from a pool of its own.
 */
void drv_open(struct driver *d, const struct mem *gate);
void drv_close(struct driver *d);
/* Sets the traits that --assume names; false after errors. */
bool drv_assume(struct driver *d, struct price_traits *traits);
/* Opens the rank programs of a module; false after reporting. */
bool drv_open_ranks(struct driver *d, struct ir_module *m, struct ranks *r);
/* The text of the first error in `c`, or NULL if there was none. */
const char *drv_first_error(const struct ir_ctx *c);

#endif

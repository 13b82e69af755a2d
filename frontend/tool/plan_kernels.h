/*
 * Kernels of a GPU in a plan's folder: between emit.c, whole.c, plan_kernels.c
 * and finish.c.
 */
#ifndef FRONTEND_KERNELS_H
#define FRONTEND_KERNELS_H

#include "codegen/cg.h"
#include "frontend/tool/driver.h"

/* What a program is linked of; of a CPU there are no images. */
struct drv_kernels {
	struct buf plan_object, whole_object;
	bool has_whole;
	struct cg_images plan, whole;	/* no sources: none */
};

/* Files of unfinished/, and what a line of its list begins with. */
#define DRV_LIST "llmc-unfinished 1"
#define DRV_COMPILER "llmc " PACKAGE_VERSION

/* ---- rerun.c ------------------------------------------------------------- */

/* Text of a file that a run has read. */
struct drv_read {
	const char *text;
	size_t bytes;
};
struct drv_reads {
	struct drv_read *at;
	uint32_t n, cap;
};

/* The run so far: its options and, behind them, what it read, a line each. */
void drv_rerun_keep(struct driver *d, struct buf *words,
		    struct drv_reads *reads);
/*
 * Lets the driver begin anew, with these options and files, for the plan whose
 * folder is its input.  False after errors.
 */
bool drv_rerun(struct driver *d, const char *words,
	       const struct drv_reads *reads);

/* ---- plan_kernels.c ----------------------------------------------------- */

/*
 * As cg_images, of what `out` has not been made of; at first it is zeros.
 * Messages go to `c`.  False after errors.
 */
bool drv_kernels_make(struct driver *d, struct ir_ctx *c,
		      const struct cg_source *at, uint32_t n,
		      struct cg_images *out);
/*
 * Kernels of a plan, and of a GPU's what they are compiled into: tiles that
 * spill give way to the next best, until none does or none is left.  in->tiling
 * is there.  NULL after errors, which go to `c`.
 */
struct cg_code *drv_kernels_settle(struct driver *d, struct ir_ctx *c,
				   const struct cg_input *in,
				   struct cg_images *out);
/*
 * Links the program and adds what of the kernels the folder gets, and to
 * d->json a table of them; where NVRTC is missing what `llmc finish` needs.
 * False after errors.
 */
bool drv_kernels_end(struct driver *d, const struct drv_kernels *k);

#endif

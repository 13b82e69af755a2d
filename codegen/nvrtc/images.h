/*
 * Compiling kernels, for the files of codegen/nvrtc/ alone: images.c, which
 * caches and schedules, nvrtc.c, which calls the library (nvrtc_none.c without
 * it), and images_object.c. cg.h has what others call.
 */
#ifndef CODEGEN_IMAGES_H
#define CODEGEN_IMAGES_H

#include "codegen/cg.h"
#include "codegen/cuda/cuda.h"

/* ---- nvrtc.c; nvrtc_none.c without its header --------------------------- */

struct nv;			/* the library, loaded */

/* A compiled source; all in one arena. */
struct nv_made {
	const char *cubin, *ptx;
	size_t cubin_bytes, ptx_bytes;
	const char *log;	/* messages of compiler and assembler */
};

/* Loads the library, or the one that LLMC_NVRTC names.  NULL: *why. */
struct nv *nv_open(struct arena *a, const char **why);
/* "NVRTC 13.0" */
const char *nv_version(const struct nv *v);
/* Whether it can compile for an architecture.  False: *why, for the user. */
bool nv_supports(const struct nv *v, const struct cu_arch *arch,
		 struct arena *a, const char **why);
/* All options that sources are compiled with, separated by spaces. */
const char *nv_options(const struct nv *v, const struct cu_arch *arch,
		       struct arena *a);
/* Compiles a source; on any thread.  False: out->log has the errors. */
bool nv_compile(const struct nv *v, const struct cg_make *m, uint32_t source,
		struct arena *a, struct nv_made *out);

#endif

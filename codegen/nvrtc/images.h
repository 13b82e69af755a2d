/*
 * Between the files that make images of kernels: images.c, nvrtc.c and
 * images_object.c.
 */
#ifndef CODEGEN_IMAGES_H
#define CODEGEN_IMAGES_H

#include "codegen/cg.h"
#include "codegen/cuda/cuda.h"

/* ---- nvrtc.c; nvrtc_none.c without its header --------------------------- */

struct nv;			/* the library, loaded */

/* What it made of one source; all in one arena. */
struct nv_made {
	const char *cubin, *ptx;
	size_t cubin_bytes, ptx_bytes;
	const char *log;	/* of compiler and assembler */
};

/* LLMC_NVRTC names another library. NULL: *why. */
struct nv *nv_open(struct arena *a, const char **why);
/* "NVRTC 13.0" */
const char *nv_version(const struct nv *v);
/* False: *why, for the user. */
bool nv_supports(const struct nv *v, const struct cu_arch *arch,
		 struct arena *a, const char **why);
/* All options that a source is compiled with, with spaces between. */
const char *nv_options(const struct nv *v, const struct cu_arch *arch,
		       struct arena *a);
/* On any thread. False: out->log says what is wrong. */
bool nv_compile(const struct nv *v, const struct cg_make *m, uint32_t source,
		struct arena *a, struct nv_made *out);

#endif

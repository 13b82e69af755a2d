/*
 * Between the files that make images of kernels: images.c, nvrtc.c, cache.c
 * and images_object.c.
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
bool nv_knows(const struct nv *v, const struct cu_arch *arch,
	      struct arena *a, const char **why);
/* All options that a source is compiled with, with spaces between. */
const char *nv_options(const struct nv *v, const struct cu_arch *arch,
		       struct arena *a);
/* On any thread. False: out->log says what is wrong. */
bool nv_compile(const struct nv *v, const struct cg_make *m, uint32_t source,
		struct arena *a, struct nv_made *out);

/* ---- cache.c ------------------------------------------------------------- */

struct cg_hash {
	uint64_t hi, lo;
};

/* FNV-1a of 128 bits: of strings with their ends, one after the other. */
void cg_hash_init(struct cg_hash *h);
void cg_hash_add(struct cg_hash *h, const void *at, size_t n);
void cg_hash_text(struct cg_hash *h, const char *s);

struct cg_cache {
	struct arena *a;
	const char *folder;	/* NULL: there is none */
	int64_t most_bytes;
};

/*
 * The folder that LLMC_CACHE, XDG_CACHE_HOME or HOME say.  A cache that can
 * not be read or written is as one that is empty.
 */
void cg_cache_open(struct cg_cache *c, struct arena *a);
/* False: there is no such entry, or it is broken. */
bool cg_cache_get(const struct cg_cache *c, struct cg_hash key,
		  struct arena *a, struct nv_made *out);
void cg_cache_put(const struct cg_cache *c, struct cg_hash key,
		  const struct nv_made *x);
/* The oldest entries go, until the rest is small enough. */
void cg_cache_trim(const struct cg_cache *c);

#endif

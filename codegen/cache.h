/*
 * What was compiled before: kernels by NVRTC, and objects by LLVM.
 */
#ifndef CODEGEN_CACHE_H
#define CODEGEN_CACHE_H

#include "ir/base.h"

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

/* An entry has so many, some of them empty. */
#define CG_PARTS 3
struct cg_part {
	const char *at;		/* of what was read, with a NUL behind it */
	size_t n;
};

/*
 * The folder that LLMC_CACHE, XDG_CACHE_HOME or HOME say.  A cache that can
 * not be read or written is as one that is empty.
 */
void cg_cache_open(struct cg_cache *c, struct arena *a);
/* False: there is no such entry, or it is broken. */
bool cg_cache_get(const struct cg_cache *c, struct cg_hash key,
		  struct arena *a, struct cg_part *parts);
void cg_cache_put(const struct cg_cache *c, struct cg_hash key,
		  const struct cg_part *parts);
/* The oldest entries go, until the rest is small enough. */
void cg_cache_trim(const struct cg_cache *c);

#endif

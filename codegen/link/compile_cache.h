/*
 * What was compiled before: kernels by NVRTC, and objects by LLVM.
 */
#ifndef CODEGEN_CACHE_H
#define CODEGEN_CACHE_H

#include "ir/base.h"
#include "runtime/cache.h"

struct cg_cache {
	struct arena *a;
	const char *folder;	/* NULL: there is none */
};

/* An entry has so many, some of them empty. */
#define CG_PARTS 3
struct cg_part {
	const char *at;		/* of what was read, with a NUL behind it */
	size_t n;
};

/*
 * The folder of runtime/cache.h.  A cache that cannot be read or written is
 * as one that is empty.
 */
void cg_cache_open(struct cg_cache *c, struct arena *a);
/* False: there is no such entry, or it is broken. */
bool cg_cache_get(const struct cg_cache *c, struct rt_hash key,
		  struct arena *a, struct cg_part *parts);
void cg_cache_put(const struct cg_cache *c, struct rt_hash key,
		  const struct cg_part *parts);
/* The oldest entries go, until the rest is small enough. */
void cg_cache_trim(const struct cg_cache *c);

#endif

/*
 * The cache of compiled code: kernels by NVRTC, and objects by LLVM.
 */
#ifndef CODEGEN_CACHE_H
#define CODEGEN_CACHE_H

#include "ir/base.h"
#include "runtime/cache.h"

struct cg_cache {
	struct arena *a;
	const char *folder;	/* NULL: there is none */
};

/* Parts of an entry; some are empty. */
#define CG_PARTS 3
struct cg_part {
	const char *at;		/* followed by a NUL, if it was read */
	size_t n;
};

/*
 * Opens the folder of runtime/cache.h.  A cache that cannot be read or written
 * behaves as an empty one.
 */
void cg_cache_open(struct cg_cache *c, struct arena *a);
/* False: there is no such entry, or it is damaged. */
bool cg_cache_get(const struct cg_cache *c, struct rt_hash key,
		  struct arena *a, struct cg_part *parts);
void cg_cache_put(const struct cg_cache *c, struct rt_hash key,
		  const struct cg_part *parts);
/* Removes the oldest entries until the cache is small enough. */
void cg_cache_trim(const struct cg_cache *c);

#endif

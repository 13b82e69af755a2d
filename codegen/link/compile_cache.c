/*
 * The cache of compiled kernels and objects: entries of several parts, on top
 * of runtime/cache.h. images.c and codegen/llvm use it.
 */
#include "codegen/link/compile_cache.h"
#include "codegen/cg.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

const char *
cg_digest(struct arena *a, const void *at, size_t n)
{
	struct rt_hash h;

	rt_hash_init(&h);
	rt_hash_add(&h, at, n);
	return arena_printf(a, "%016llx%016llx", (unsigned long long)h.hi,
			    (unsigned long long)h.lo);
}

void
cg_cache_open(struct cg_cache *c, struct arena *a)
{
	char path[PATH_BYTES];

	*c = (struct cg_cache){ .a = a };
	c->folder = rt_cache_folder(path, sizeof path)
		? arena_printf(a, "%s", path) : NULL;
}

/* An entry is the lengths of its parts, then the parts, each with a NUL. */
static bool
split(const char *at, size_t n, struct cg_part *parts)
{
	uint64_t bytes[CG_PARTS];
	uint32_t i;

	if (n < sizeof bytes) {
		return false;
	}
	memcpy(bytes, at, sizeof bytes);
	at += sizeof bytes;
	n -= sizeof bytes;
	for (i = 0; i < CG_PARTS; i++) {
		if (bytes[i] >= n) {
			return false;
		}
		parts[i] = (struct cg_part){ at, bytes[i] };
		at += bytes[i] + 1;
		n -= bytes[i] + 1;
	}
	return n == 0;
}

bool
cg_cache_get(const struct cg_cache *c, struct rt_hash key, struct arena *a,
	     struct cg_part *parts)
{
	size_t n = 0;
	char *at = c->folder ? rt_cache_get(c->folder, key, &n) : NULL;
	char *own;

	if (!at) {
		return false;
	}
	own = arena_alloc(a, n + 1);
	memcpy(own, at, n);
	free(at);
	return split(own, n, parts);
}

void
cg_cache_put(const struct cg_cache *c, struct rt_hash key,
	     const struct cg_part *parts)
{
	uint64_t bytes[CG_PARTS];
	struct buf body;
	uint32_t i;

	if (!c->folder) {
		return;
	}
	for (i = 0; i < CG_PARTS; i++) {
		bytes[i] = parts[i].n;
	}
	buf_init(&body, c->a);
	buf_add(&body, (const char *)bytes, sizeof bytes);
	for (i = 0; i < CG_PARTS; i++) {
		if (parts[i].n) {
			buf_add(&body, parts[i].at, parts[i].n);
		}
		buf_putc(&body, '\0');
	}
	rt_cache_put(c->folder, key, body.at, body.n);
}

void
cg_cache_trim(const struct cg_cache *c)
{
	if (c->folder) {
		rt_cache_trim(c->folder);
	}
}

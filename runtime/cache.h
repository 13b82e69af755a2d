/*
 * cache.h - what was compiled before, by llmc or by a rank: files of one
 * folder, named for the hash of all that they depend on.
 *
 * An entry appears whole, by a rename, and says what its bytes sum to.  One
 * that is not as it was written, or that another user could have written, is
 * as one that is not there: it is made again, and no answer depends on it.
 * The sum finds damage, not forgery: whoever can write as this user can
 * write an entry.
 */
#ifndef RT_CACHE_H
#define RT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_hash {
	uint64_t hi, lo;
};

/* FNV-1a of 128 bits: of strings with their ends, one after the other. */
void rt_hash_init(struct rt_hash *h);
void rt_hash_add(struct rt_hash *h, const void *at, size_t n);
void rt_hash_text(struct rt_hash *h, const char *s);

/*
 * The folder that LLMC_CACHE, XDG_CACHE_HOME or HOME say, made if it is not
 * there.  False: there is none that can be read and written.
 */
bool rt_cache_folder(char *out, size_t n);
/*
 * What was put there, allocated, with a NUL behind it; it counts as used now.
 * NULL: there is no such entry, or it is not to be trusted.
 */
char *rt_cache_get(const char *folder, struct rt_hash key, size_t *n);
/* What fails leaves no entry. */
void rt_cache_put(const char *folder, struct rt_hash key, const void *at,
		  size_t n);
/* The entries used longest ago go until the rest is small enough, by
 * LLMC_CACHE_BYTES; and what somebody who was killed left of one. */
void rt_cache_trim(const char *folder);

#endif

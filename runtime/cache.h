/*
 * Code that was compiled before, by llmc or by a rank: files of one folder,
 * named for the hash of all that they depend on.
 *
 * An entry appears whole, by a rename, and holds a checksum of its bytes. One
 * that is damaged, or that another user could have written, counts as missing:
 * it is compiled again, and no result depends on it. The checksum finds damage,
 * not forgery: whoever can write as this user can write an entry.
 */
#ifndef RT_CACHE_H
#define RT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_hash {
	uint64_t hi, lo;
};

/* FNV-1a of 128 bits; rt_hash_text includes the string's end. */
void rt_hash_init(struct rt_hash *h);
void rt_hash_add(struct rt_hash *h, const void *at, size_t n);
void rt_hash_text(struct rt_hash *h, const char *s);

/* The folder that LLMC_CACHE, XDG_CACHE_HOME or HOME names, created if it is
 * missing.  False: there is none that can be read and written. */
bool rt_cache_folder(char *out, size_t n);
/* The entry's bytes, allocated, with a NUL after them; marks it as used now.
 * NULL: there is no such entry, or it is not to be trusted. */
char *rt_cache_get(const char *folder, struct rt_hash key, size_t *n);
/* Writes an entry, or none at all if that fails. */
void rt_cache_put(const char *folder, struct rt_hash key, const void *at,
		  size_t n);
/* Removes the entries that were used longest ago until the rest is at most
 * LLMC_CACHE_BYTES, and unfinished ones of processes that were killed. */
void rt_cache_trim(const char *folder);

#endif

/*
 * cgroup.h - what the control groups of this process leave it of memory.
 */
#ifndef RUNTIME_CGROUP_H
#define RUNTIME_CGROUP_H

#include <stdint.h>

/* -1: no group sets a limit. */
struct rt_group_memory {
	int64_t limit_bytes;	/* the least limit of all */
	int64_t free_bytes;	/* the least that any leaves */
};

/*
 * Of this process's group and of each group around it, as far as they can be
 * seen from here.  Paths begin with root: "" but in tests.
 */
struct rt_group_memory rt_cgroup_memory(const char *root);

/* The number behind a key, or of a file of one number; -1: none there. */
int64_t rt_number_in(const char *path, const char *key);

/* The lesser; -1 is more than all. */
int64_t rt_least(int64_t a, int64_t b);

#endif

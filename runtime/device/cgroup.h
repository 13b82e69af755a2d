/*
 * How much memory the control groups of this process leave it.
 */
#ifndef RUNTIME_CGROUP_H
#define RUNTIME_CGROUP_H

#include <stdint.h>

/* -1: no group sets a limit. */
struct rt_group_memory {
	int64_t limit_bytes;	/* the least limit of all groups */
	int64_t free_bytes;	/* the least that any group leaves */
};

/* Of this process's group and of each group above it that is visible.  Paths
 * begin with root: "" except in tests. */
struct rt_group_memory rt_cgroup_memory(const char *root);

/* The number after a key, or of a file of one number; -1: there is none. */
int64_t rt_number_in(const char *path, const char *key);

/* The lesser of both; -1 stands for no limit. */
int64_t rt_least(int64_t a, int64_t b);

#endif

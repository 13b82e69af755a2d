/*
 * Private to runtime/: the system calls that change files.
 *
 * They are in a table so that tests can make any of them fail, or end the
 * process at it.  Each behaves as its namesake does; `reserve` is
 * posix_fallocate(3) and returns an error number.
 */
#ifndef RT_FILES_H
#define RT_FILES_H

#include <sys/types.h>

#include "runtime/error.h"

struct rt_files {
	int (*mkdir)(const char *path, mode_t mode);
	int (*open)(const char *path, int flags, mode_t mode);
	int (*reserve)(int fd, int64_t bytes);
	ssize_t (*pwrite)(int fd, const void *p, size_t n, off_t at);
	int (*fsync)(int fd);
	int (*close)(int fd);
	int (*rename)(const char *from, const char *to);
	int (*unlinkat)(int dir, const char *name, int flags);
};

/* The table itself, or the system's calls for NULL. */
const struct rt_files *rt_files_or_system(const struct rt_files *f);

/* Creates a file and reserves so many bytes for it; -1: failed. */
int rt_files_create(const struct rt_files *f, const char *path, int64_t bytes,
		    struct rt_error *err);
/* Writes all n bytes at `at`. */
enum rt_status rt_files_write(const struct rt_files *f, int fd,
			      const char *path, const void *p, int64_t n,
			      int64_t at, struct rt_error *err);
/* Syncs the file to the disk; closes fd in any case. */
enum rt_status rt_files_finish(const struct rt_files *f, int fd,
			       const char *path, struct rt_error *err);
/* Syncs the entries of a folder. */
enum rt_status rt_files_sync_dir(const struct rt_files *f, const char *path,
				 struct rt_error *err);
/* Makes a folder; it may exist already. */
enum rt_status rt_files_make_dir(const struct rt_files *f, const char *path,
				 struct rt_error *err);
/*
 * Locks a folder against other processes that claim it, until what is returned
 * is closed; -1: failed. The kernel releases the lock when a process has ended,
 * which may take a moment after a kill: so the lock is tried for that many
 * seconds.
 */
int rt_files_claim(const char *path, double wait_s, struct rt_error *err);

/* "cannot WHAT: " and strerror(number). */
enum rt_status rt_files_fail(struct rt_error *err, const char *path,
			     const char *what, int number);

#endif

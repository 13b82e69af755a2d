/*
 * Changes to files that survive a crash.
 */
#define _GNU_SOURCE	/* flock, makedev */

#include "runtime/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/* open(2) takes its mode as a variable argument. */
static int
system_open(const char *path, int flags, mode_t mode)
{
	return open(path, flags, mode);
}

static int
system_reserve(int fd, int64_t bytes)
{
	return posix_fallocate(fd, 0, (off_t)bytes);
}

const struct rt_files *
rt_files_or_system(const struct rt_files *f)
{
	static const struct rt_files system = {
		mkdir, system_open, system_reserve, pwrite, fsync,
		close, rename, unlinkat,
	};

	return f ? f : &system;
}

enum rt_status
rt_files_fail(struct rt_error *err, const char *path, const char *what,
	      int number)
{
	struct rt_where where = { path, NULL, -1 };

	return rt_fail(err, RT_IO, where, "cannot %s: %s", what,
		       strerror(number));
}

int
rt_files_create(const struct rt_files *f, const char *path, int64_t bytes,
		struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	int fd, number = 0;

	fd = f->open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0) {
		rt_files_fail(err, path, "create", errno);
		return -1;
	}
	/* posix_fallocate refuses 0 bytes; every file here has some. */
	do {
		number = f->reserve(fd, bytes);
	} while (number == EINTR);
	if (number != 0) {
		rt_fail(err, RT_IO, where,
			"cannot reserve its %lld bytes: %s",
			(long long)bytes, strerror(number));
		f->close(fd);
		return -1;
	}
	return fd;
}

enum rt_status
rt_files_write(const struct rt_files *f, int fd, const char *path,
	       const void *p, int64_t n, int64_t at, struct rt_error *err)
{
	const unsigned char *from = p;
	ssize_t done;

	while (n > 0) {
		done = f->pwrite(fd, from, (size_t)n, (off_t)at);
		if (done < 0 && errno == EINTR) {
			continue;
		}
		if (done <= 0) {
			/* nothing written and no error: POSIX leaves only a
			 * full disk */
			return rt_files_fail(err, path, "write",
					     done < 0 ? errno : ENOSPC);
		}
		from += done;
		n -= done;
		at += done;
	}
	return RT_OK;
}

enum rt_status
rt_files_finish(const struct rt_files *f, int fd, const char *path,
		struct rt_error *err)
{
	int failed;

	do {
		failed = f->fsync(fd);
	} while (failed && errno == EINTR);
	if (failed) {
		rt_files_fail(err, path, "write to disk", errno);
		f->close(fd);
		return RT_IO;
	}
	/* After EINTR the descriptor is closed all the same. */
	if (f->close(fd) != 0 && errno != EINTR) {
		return rt_files_fail(err, path, "close", errno);
	}
	return RT_OK;
}

enum rt_status
rt_files_sync_dir(const struct rt_files *f, const char *path,
		  struct rt_error *err)
{
	int fd = f->open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd < 0) {
		return rt_files_fail(err, path, "open", errno);
	}
	return rt_files_finish(f, fd, path, err);
}

/* A new folder survives a crash only once its parent has been synced. */
static enum rt_status
sync_parent(const struct rt_files *f, const char *path, struct rt_error *err)
{
	struct rt_alloc a = rt_alloc_or_libc(NULL);
	size_t n = strlen(path);
	enum rt_status status;
	char *parent;

	while (n > 0 && path[n - 1] == '/') {
		n--;
	}
	while (n > 0 && path[n - 1] != '/') {
		n--;
	}
	parent = rt_join(&a, path, n, n ? "" : ".");
	if (!parent) {
		return rt_no_memory(err, path);
	}
	status = rt_files_sync_dir(f, parent, err);
	rt_release(&a, parent);
	return status;
}

enum rt_status
rt_files_make_dir(const struct rt_files *f, const char *path,
		  struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	struct stat sb;

	if (f->mkdir(path, 0777) == 0) {
		return sync_parent(f, path, err);
	}
	if (errno != EEXIST || stat(path, &sb) != 0) {
		return rt_files_fail(err, path, "make the folder", errno);
	}
	return S_ISDIR(sb.st_mode) ? RT_OK :
		rt_fail(err, RT_IO, where, "found a file, expected a folder, "
			"or nothing yet");
}

/* The process that has a lock on an open folder, on Linux; 0: not known. */
static long
holder(int fd)
{
	unsigned long major, minor, inode;
	char line[256];
	struct stat sb;
	long pid = 0;
	FILE *f;

	if (fstat(fd, &sb) != 0 || !(f = fopen("/proc/locks", "re"))) {
		return 0;
	}
	while (fgets(line, sizeof line, f)) {
		if (sscanf(line, "%*d: FLOCK %*s %*s %ld %lx:%lx:%lu", &pid,
			   &major, &minor, &inode) == 4 &&
		    inode == (unsigned long)sb.st_ino &&
		    makedev((unsigned)major, (unsigned)minor) == sb.st_dev &&
		    pid > 0) {
			break;
		}
		pid = 0;
	}
	fclose(f);
	return pid;
}

static void
fail_held(int fd, const char *path, struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	long pid = holder(fd);
	char who[48] = "";

	if (pid > 0) {
		snprintf(who, sizeof who, ", process %ld of this host,", pid);
	}
	rt_fail(err, RT_IO, where, "another run%s saves into this folder: "
		"wait for its end, or take another folder", who);
}

int
rt_files_claim(const char *path, double wait_s, struct rt_error *err)
{
	static const struct timespec nap = { 0, 50000000 };
	int fd, taken;

	if (rt_files_make_dir(rt_files_or_system(NULL), path, err) != RT_OK) {
		return -1;
	}
	if (access(path, W_OK | X_OK) != 0) {
		rt_files_fail(err, path, "write into the folder", errno);
		return -1;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		rt_files_fail(err, path, "open", errno);
		return -1;
	}
	/* a file system without locks fails with another error than
	 * EWOULDBLOCK */
	while ((taken = flock(fd, LOCK_EX | LOCK_NB)) != 0 &&
	       errno == EWOULDBLOCK && wait_s > 0) {
		nanosleep(&nap, NULL);
		wait_s -= 0.05;
	}
	if (taken != 0 && errno == EWOULDBLOCK) {
		fail_held(fd, path, err);
		close(fd);
		return -1;
	}
	return fd;
}

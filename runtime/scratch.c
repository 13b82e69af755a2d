/*
 * Folders for temporary files.
 *
 * Their maker holds a lock on each (flock), which the kernel releases when the
 * process ends, in whatever way. So a folder of this name that is not locked is
 * a leftover, and is removed.  In a folder that all users share, names prove
 * nothing: only a real folder that this user owns and nobody else may enter is
 * touched, and in it only files.
 */
#define _GNU_SOURCE	/* flock, O_DIRECTORY, dirfd */

#include "runtime/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "llmc-scratch-"
#define RANDOM "XXXXXX"

/* The locked folder, or -1; *busy: another process has the lock. */
static int
lock_folder(int at, const char *name, bool *busy)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
			O_CLOEXEC);

	*busy = false;
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		*busy = errno == EWOULDBLOCK;
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool
is_own(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid() && (st.st_mode & 0777) == 0700;
}

/* Removes all files of the folder fd, and then the folder: `name` in the folder
 * at. */
static void
remove_locked(int at, const char *name, int fd)
{
	const struct dirent *f;
	int copy = dup(fd);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);

	while (d && (f = readdir(d))) {
		unlinkat(fd, f->d_name, 0);
	}
	if (d) {
		closedir(d);
	} else if (copy >= 0) {
		close(copy);
	}
	unlinkat(at, name, AT_REMOVEDIR);
}

/* Removes what processes that were killed have left. */
static void
remove_left(const char *in)
{
	DIR *d = opendir(in);
	const struct dirent *f;
	bool busy;
	int fd;

	while (d && (f = readdir(d))) {
		if (strlen(f->d_name) != strlen(PREFIX RANDOM) ||
		    strncmp(f->d_name, PREFIX, strlen(PREFIX)) != 0) {
			continue;
		}
		fd = lock_folder(dirfd(d), f->d_name, &busy);
		if (fd < 0) {
			continue;
		}
		if (is_own(fd)) {
			remove_locked(dirfd(d), f->d_name, fd);
		}
		close(fd);
	}
	if (d) {
		closedir(d);
	}
}

/* Whether another process may remove it: one that found it before it was
 * locked. */
static bool
is_lost(const struct rt_scratch *s, bool busy)
{
	struct stat here, st;

	return busy || stat(s->path, &here) != 0 ||
	       (s->fd >= 0 && (fstat(s->fd, &st) != 0 ||
			       st.st_ino != here.st_ino));
}

bool
rt_scratch_make(struct rt_scratch *s, const char *in)
{
	const char *tmp = getenv("TMPDIR");
	int tries;
	bool busy;

	in = in ? in : tmp && *tmp ? tmp : "/tmp";
	remove_left(in);
	for (tries = 0; tries < 100; tries++) {
		s->fd = -1;
		if (snprintf(s->path, sizeof s->path, "%s/" PREFIX RANDOM,
			     in) >= (int)sizeof s->path) {
			errno = ENAMETOOLONG;
			return false;
		}
		if (!mkdtemp(s->path)) {
			return false;
		}
		/* on file systems without locks nobody removes a folder */
		s->fd = lock_folder(AT_FDCWD, s->path, &busy);
		if (!is_lost(s, busy)) {
			return true;
		}
		if (s->fd >= 0) {
			close(s->fd);
		}
	}
	errno = EBUSY;
	return false;
}

void
rt_scratch_remove(struct rt_scratch *s)
{
	int fd = s->fd >= 0 ? s->fd : open(s->path, O_RDONLY | O_DIRECTORY |
					   O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0) {
		remove_locked(AT_FDCWD, s->path, fd);
		close(fd);
	}
	s->fd = -1;
}

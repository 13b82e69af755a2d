/*
 * A token file of llm.c's format: 256 numbers of 32 bits, of which the first
 * are a magic number, a version and how many tokens there are, then the tokens.
 * The number of tokens has 64 bits here; llm.c itself reads the lower half.
 *
 * Until it is complete the file has no name, so that nothing is left of it
 * however the process ends; where the file system cannot do that, it has
 * another name meanwhile.
 */
#define _GNU_SOURCE	/* O_TMPFILE */

#include "runtime/tokenize/tok_output.h"

#include "runtime/delay.h"
#include "runtime/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 1024, MAGIC16 = 20240520, MAGIC32 = 20240801,
	VERSION16 = 1, VERSION32 = 7 };

static enum rt_status
fail(const struct tok_output *o, const char *what, struct rt_error *err)
{
	return rt_files_fail(err, o->path, what, errno);
}

static enum rt_status
open_named(struct tok_output *o, struct rt_error *err)
{
	o->temporary = rt_join(&o->alloc, o->path, strlen(o->path),
			       ".XXXXXX");
	if (!o->temporary) {
		return rt_no_memory(err, o->path);
	}
	o->fd = mkstemp(o->temporary);
	return o->fd >= 0 ? RT_OK : fail(o, "create", err);
}

enum rt_status
rt_tok_output_open(struct tok_output *o, const char *path, int64_t limit,
		   const struct rt_alloc *a, struct rt_error *err)
{
	static const char zeros[HEADER_BYTES];
	struct rt_where where = { path, NULL, -1 };
	const char *slash = strrchr(path, '/');
	enum rt_status status = RT_OK;
	struct stat old;
	char *folder;

	memset(o, 0, sizeof *o);
	o->path = path;
	o->alloc = *a;
	o->fd = -1;
	o->wide = limit > 65536;
	if (stat(path, &old) == 0 && !S_ISREG(old.st_mode)) {
		return rt_fail(err, RT_IO, where, "found no regular file, "
			       "expected one to write tokens to, or nothing");
	}
	folder = rt_join(a, path, slash ? (size_t)(slash - path) + 1 : 0,
			 slash ? "" : ".");
	if (!folder) {
		return rt_no_memory(err, path);
	}
	o->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	if (o->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR ||
			  errno == EINVAL)) {
		status = open_named(o, err);
	} else if (o->fd < 0) {
		status = fail(o, "create", err);
	}
	rt_release(a, folder);
	return status != RT_OK ? status
		: rt_files_write(rt_files_or_system(NULL), o->fd, path, zeros,
				 HEADER_BYTES, 0, err);
}

static void
put32(char *to, uint32_t x)
{
	to[0] = (char)(x & 0xff);
	to[1] = (char)(x >> 8 & 0xff);
	to[2] = (char)(x >> 16 & 0xff);
	to[3] = (char)(x >> 24);
}

enum rt_status
rt_tok_output_add(struct tok_output *o, const struct rt_ids *ids,
		  struct rt_error *err)
{
	size_t size = o->wide ? 4 : 2, i;
	char *to;

	o->packed.n = 0;
	if (!rt_bytes_reserve(&o->alloc, &o->packed, ids->n * size + 4)) {
		return rt_no_memory(err, o->path);
	}
	to = o->packed.at;
	for (i = 0; i < ids->n; i++, to += size) {
		if (o->wide) {
			put32(to, ids->at[i]);
		} else {
			to[0] = (char)(ids->at[i] & 0xff);
			to[1] = (char)(ids->at[i] >> 8);
		}
	}
	o->tokens += (int64_t)ids->n;
	return rt_files_write(rt_files_or_system(NULL), o->fd, o->path,
			      o->packed.at, (int64_t)(ids->n * size),
			      HEADER_BYTES + (o->tokens - (int64_t)ids->n) *
			      (int64_t)size, err);
}

static enum rt_status
write_header(struct tok_output *o, struct rt_error *err)
{
	char head[16];

	put32(head, o->wide ? MAGIC32 : MAGIC16);
	put32(head + 4, o->wide ? VERSION32 : VERSION16);
	put32(head + 8, (uint32_t)((uint64_t)o->tokens & UINT32_MAX));
	put32(head + 12, (uint32_t)((uint64_t)o->tokens >> 32));
	return rt_files_write(rt_files_or_system(NULL), o->fd, o->path, head,
			      sizeof head, 0, err);
}

/* Gives a file without a name one that no other has. */
static enum rt_status
link_file(struct tok_output *o, struct rt_error *err)
{
	char fd_path[32], end[32];
	int tries;

	snprintf(fd_path, sizeof fd_path, "/proc/self/fd/%d", o->fd);
	for (tries = 0; tries < 100; tries++) {
		rt_release(&o->alloc, o->temporary);
		snprintf(end, sizeof end, ".%ld-%d", (long)getpid(), tries);
		o->temporary = rt_join(&o->alloc, o->path, strlen(o->path),
				       end);
		if (!o->temporary) {
			return rt_no_memory(err, o->path);
		}
		if (linkat(AT_FDCWD, fd_path, AT_FDCWD, o->temporary,
			   AT_SYMLINK_FOLLOW) == 0) {
			return RT_OK;
		}
		if (errno != EEXIST) {
			break;
		}
	}
	rt_release(&o->alloc, o->temporary);
	o->temporary = NULL;
	return fail(o, "name the file", err);
}

/* The mode that a new file has, or that of the file it replaces. */
static void
set_mode(const struct tok_output *o)
{
	mode_t mask = umask(0);
	struct stat old;

	umask(mask);
	fchmod(o->fd, stat(o->path, &old) == 0 ? old.st_mode & 0777
					       : 0666 & ~mask);
}

enum rt_status
rt_tok_output_finish(struct tok_output *o, struct rt_error *err)
{
	struct rt_where where = { o->path, NULL, -1 };
	enum rt_status status;
	struct rt_delay h;

	if (o->tokens == 0) {
		return rt_fail(err, RT_FORMAT, where, "there is no text in "
			       "the inputs, so no token to write");
	}
	status = write_header(o, err);
	if (status != RT_OK) {
		return status;
	}
	set_mode(o);
	rt_delay_begin(&h);
	if (!o->temporary) {
		status = link_file(o, err);
	}
	if (status == RT_OK) {
		status = rt_files_finish(rt_files_or_system(NULL), o->fd,
					 o->path, err);
		o->fd = -1;
	}
	if (status == RT_OK && rename(o->temporary, o->path) != 0) {
		status = fail(o, "name the file", err);
	}
	if (status == RT_OK) {
		rt_release(&o->alloc, o->temporary);
		o->temporary = NULL;
	}
	rt_tok_output_release(o);
	rt_delay_end(&h);
	return status;
}

void
rt_tok_output_release(struct tok_output *o)
{
	if (o->fd >= 0) {
		close(o->fd);
	}
	if (o->temporary) {
		unlink(o->temporary);
	}
	rt_release(&o->alloc, o->temporary);
	rt_release(&o->alloc, o->packed.at);
	o->fd = -1;
	o->temporary = NULL;
	o->packed.at = NULL;
}

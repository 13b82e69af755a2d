/*
 * A file in a folder that all hosts share, in which the first rank writes its
 * addresses, and a token that only readers of the file know.
 *
 * Only its user can read and write it, and only such a file is used or
 * replaced: links are not followed, and nothing but a regular file is opened.
 * Whether a file is left over from an earlier run is found by connecting to the
 * addresses in it.
 */
#define _GNU_SOURCE	/* O_NOFOLLOW */

#include "runtime/comm/tcp/tcp_meet.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEGIN "llmc-rendezvous"
#define END "end"

enum { MOST_BYTES = 8192, TRIES = 3 };

/* Of all connections to addresses of an old file. */
#define ALIVE_US 2e6

/* ---- reading ---- */

static const char *
kind_of(mode_t mode)
{
	return S_ISDIR(mode) ? "it is a folder" :
	       S_ISFIFO(mode) ? "it is a FIFO" :
	       S_ISSOCK(mode) ? "it is a socket" :
	       S_ISREG(mode) ? "it is too long" : "it is a device";
}

/* NULL: `why` is the reason, or errno is ENOENT. */
static FILE *
open_place(const char *path, char *why, size_t why_size)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	FILE *f = NULL;

	if (fd < 0 && errno == ENOENT) {
		snprintf(why, why_size, "there is no such file");
		errno = ENOENT;
		return NULL;
	}
	if (fd < 0 || fstat(fd, &st) != 0) {
		snprintf(why, why_size, "%s", errno == ELOOP ?
			 "it is a symbolic link" : strerror(errno));
	} else if (!S_ISREG(st.st_mode) || st.st_size > MOST_BYTES) {
		snprintf(why, why_size, "%s", kind_of(st.st_mode));
	} else if (st.st_uid != geteuid()) {
		snprintf(why, why_size,
			 "it is of user %lld, not of this one, %lld",
			 (long long)st.st_uid, (long long)geteuid());
	} else {
		f = fdopen(fd, "r");
	}
	if (!f && fd >= 0) {
		close(fd);
	}
	errno = EEXIST;
	return f;
}

static bool
read_bytes(FILE *f, uint8_t *out, int n)
{
	unsigned byte;
	int i;

	for (i = 0; i < n; i++) {
		if (fscanf(f, "%2x", &byte) != 1) {
			return false;
		}
		out[i] = (uint8_t)byte;
	}
	return true;
}

static bool
read_address(FILE *f, struct rt_tcp_address *a)
{
	unsigned family;

	memset(a, 0, sizeof(*a));
	if (fscanf(f, "%u", &family) != 1 || (family != 4 && family != 6)) {
		return false;
	}
	a->family = (int32_t)family;
	return read_bytes(f, a->bytes, family == 4 ? 4 : 16);
}

/* A file that is still being written lacks its last line. */
static int64_t
parse_place(FILE *f, struct rt_rendezvous *r, struct rt_tcp_address *out)
{
	unsigned long long key;
	int version, port;
	char end[sizeof(END)] = "";
	int64_t n = 0;

	if (fscanf(f, BEGIN " %d %llx %d", &version, &key, &port) != 3 ||
	    version != RT_TCP_VERSION || port < 1 || port > 65535 ||
	    !read_bytes(f, r->token, sizeof(r->token))) {
		return 0;
	}
	r->key = key;
	while (n < RT_TCP_ADDRESSES && read_address(f, &out[n])) {
		out[n++].port = port;
	}
	return fscanf(f, "%3s", end) == 1 && strcmp(end, END) == 0 ? n : 0;
}

/* A file that others can read has no secret in it. */
static bool
is_private(FILE *f)
{
	struct stat st;

	return fstat(fileno(f), &st) == 0 && (st.st_mode & 077) == 0;
}

int64_t
rt_tcp_place_read(struct rt_tcp_meeting *m, struct rt_tcp_address *out,
		  char *why, size_t why_size)
{
	FILE *f = open_place(m->at.place, why, why_size);
	int64_t n = 0;

	if (!f) {
		return 0;
	}
	if (is_private(f)) {
		n = parse_place(f, &m->at, out);
		snprintf(why, why_size, "there is no place in it");
	} else {
		snprintf(why, why_size, "others than its user may read it");
	}
	fclose(f);
	return n;
}

/* ---- writing ---- */

static enum rt_status
write_failed(const struct rt_tcp_meeting *m, const char *why,
	     struct rt_error *err)
{
	return rt_fail(err, RT_IO, (struct rt_where){ m->at.place, NULL, -1 },
		       "cannot be written (LLMC_RENDEZVOUS): %s", why);
}

/* Whether a first rank waits at one of these, whose meeting has that key. */
static bool
is_alive(const struct rt_tcp_address *all, int64_t n, uint64_t key)
{
	double until = rt_now_us() + ALIVE_US;
	size_t old = offsetof(struct rt_tcp_greeting, rank);
	struct rt_tcp_greeting g;
	bool alive = false;
	int64_t i;

	for (i = 0; i < n && !alive; i++) {
		int fd = rt_tcp_connect(&all[i], until);

		alive = fd >= 0 && rt_tcp_read(fd, &g, old, until) &&
			g.magic == RT_TCP_MAGIC && g.key == key &&
			g.version == RT_TCP_VERSION &&
			rt_tcp_read(fd, (char *)&g + old, sizeof(g) - old,
				    until);
		if (fd >= 0) {
			close(fd);
		}
	}
	return alive;
}

/* Removes the file that is there, if an earlier run has left it or if it is
 * empty. */
static enum rt_status
remove_old_file(const struct rt_tcp_meeting *m, struct rt_error *err)
{
	struct rt_tcp_address all[RT_TCP_ADDRESSES];
	struct rt_rendezvous there;
	char why[128] = "", word[sizeof(BEGIN)] = "";
	FILE *f = open_place(m->at.place, why, sizeof(why));
	bool ours, empty, alive;
	int64_t n;

	if (!f) {
		return errno == ENOENT ? RT_OK : write_failed(m, why, err);
	}
	empty = fscanf(f, "%15s", word) != 1;
	ours = strcmp(word, BEGIN) == 0;
	rewind(f);
	n = ours ? parse_place(f, &there, all) : 0;
	fclose(f);
	if (!ours && !empty) {
		return write_failed(m, "a file with something else is there",
				    err);
	}
	alive = n > 0 && is_alive(all, n, there.key);
	if (alive) {
		return write_failed(m, "the first rank of another run waits "
				    "there; name another file", err);
	}
	if (unlink(m->at.place) != 0 && errno != ENOENT) {
		return write_failed(m, strerror(errno), err);
	}
	return RT_OK;
}

static void
print_bytes(FILE *f, const uint8_t *at, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		fprintf(f, "%02x", at[i]);
	}
	putc('\n', f);
}

/* Writes the file: a line with a word, a version, the key and the port; one
 * with the token; an address a line; and a last word. */
static bool
print_place(FILE *f, const struct rt_tcp_meeting *m,
	    const struct rt_tcp_address *at)
{
	struct rt_tcp_address all[RT_TCP_ADDRESSES];
	int64_t n = 1, i;

	all[0] = *at;
	if (at->family == 0) {
		n = rt_tcp_own_addresses(all, RT_TCP_ADDRESSES);
	}
	fprintf(f, BEGIN " %d %llx %d\n", RT_TCP_VERSION,
		(unsigned long long)m->at.key, (int)at->port);
	print_bytes(f, m->at.token, sizeof(m->at.token));
	for (i = 0; i < n; i++) {
		fprintf(f, "%d ", (int)all[i].family);
		print_bytes(f, all[i].bytes, all[i].family == 4 ? 4 : 16);
	}
	fprintf(f, END "\n");
	return fflush(f) == 0 && fsync(fileno(f)) == 0;
}

enum rt_status
rt_tcp_place_write(struct rt_tcp_meeting *m, const struct rt_tcp_address *at,
		   struct rt_error *err)
{
	int fd = -1, i, why = 0;
	FILE *f = NULL;
	bool good;

	for (i = 0; i < TRIES && fd < 0; i++) {
		enum rt_status s = remove_old_file(m, err);

		if (s != RT_OK) {
			return s;
		}
		fd = open(m->at.place, O_WRONLY | O_CREAT | O_EXCL |
			  O_NOFOLLOW | O_CLOEXEC, 0600);
		why = errno;
		if (fd < 0 && why != EEXIST) {
			break;
		}
	}
	if (fd < 0) {
		return write_failed(m, strerror(why), err);
	}
	f = fdopen(fd, "w");
	good = f && print_place(f, m, at);
	why = errno;
	if ((f ? fclose(f) : close(fd)) != 0 || !good) {
		unlink(m->at.place);
		return write_failed(m, strerror(good ? errno : why), err);
	}
	return RT_OK;
}

void
rt_tcp_place_remove(const struct rt_tcp_meeting *m)
{
	struct rt_tcp_address all[RT_TCP_ADDRESSES];
	struct rt_tcp_meeting there;
	char why[128];

	if (!m->at.by_file) {
		return;
	}
	there.at = m->at;
	there.at.key = ~m->at.key;
	if (rt_tcp_place_read(&there, all, why, sizeof(why)) > 0 &&
	    there.at.key == m->at.key) {
		unlink(m->at.place);
	}
}

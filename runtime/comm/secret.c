/*
 * The secret of a job, from the environment or from a file.  A text of any
 * length is hashed to a key of fixed length.
 */
#include "runtime/comm/secret.h"

#include "runtime/error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VALUE "LLMC_SECRET"
#define FILENAME "LLMC_SECRET_FILE"
#define NOWHERE ((struct rt_where){ NULL, NULL, -1 })

/* Fewer characters could be guessed by trying, offline, from a recorded
 * meeting. */
enum { LEAST = 16, MOST = 4096 };

static const char *
variable_of(const struct rt_variables *v, const char *name)
{
	const char *s = v->get ? v->get(v->user, name) : NULL;

	return s && *s ? s : NULL;
}

/* The key is a function of the secret alone, and differs from all other hashes
 * that are made of it. */
static void
make_key(struct rt_secret *s, const void *at, size_t n)
{
	static const char what[] = "llmc secret of a job";
	struct rt_hmac h;

	rt_hmac_begin(&h, at, n);
	rt_hmac_add(&h, what, sizeof(what));
	rt_hmac_end(&h, s->key);
}

/* A file that other users can read or write is refused. */
static enum rt_status
open_file(const char *path, int *fd, struct rt_error *err)
{
	struct rt_where at = { path, NULL, -1 };
	struct stat st;

	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*fd < 0 || fstat(*fd, &st) != 0) {
		return rt_fail(err, RT_IO, at, "cannot be read ("
			       FILENAME "): %s", strerror(errno));
	}
	if (!S_ISREG(st.st_mode)) {
		return rt_fail(err, RT_FORMAT, at, "is no file (" FILENAME
			       ")");
	}
	if (st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
		return rt_fail(err, RT_FORMAT, at, "found user %lld and mode "
			       "%04o, expected user %lld and mode 0600, as "
			       "nobody else may read a secret (" FILENAME ")",
			       (long long)st.st_uid,
			       (unsigned)st.st_mode & 07777,
			       (long long)geteuid());
	}
	return RT_OK;
}

static enum rt_status
read_file(const char *path, char *text, size_t *n, struct rt_error *err)
{
	int fd;
	enum rt_status s = open_file(path, &fd, err);
	ssize_t got = 1;

	for (*n = 0; s == RT_OK && got > 0 && *n <= MOST;) {
		got = read(fd, text + *n, MOST + 1 - *n);
		*n += got > 0 ? (size_t)got : 0;
	}
	if (s == RT_OK && got < 0) {
		s = rt_fail(err, RT_IO, (struct rt_where){ path, NULL, -1 },
			    "cannot be read: %s", strerror(errno));
	}
	if (fd >= 0) {
		close(fd);
	}
	/* editors end a file with a newline */
	while (*n > 0 && (text[*n - 1] == '\n' || text[*n - 1] == '\r')) {
		(*n)--;
	}
	return s;
}

enum rt_status
rt_secret_read(struct rt_secret *s, const struct rt_variables *v,
	       struct rt_error *err)
{
	const char *value = variable_of(v, VALUE);
	const char *path = variable_of(v, FILENAME);
	char text[MOST + 1];
	size_t n = 0;

	*s = (struct rt_secret){ .given = value || path };
	if (value && path) {
		return rt_fail(err, RT_FORMAT, NOWHERE, "the variables " VALUE
			       " and " FILENAME " are both set: set one");
	}
	if (path) {
		enum rt_status status = read_file(path, text, &n, err);

		if (status != RT_OK) {
			return status;
		}
	} else if (value) {
		n = strlen(value);
		memcpy(text, value, n < sizeof(text) ? n : sizeof(text));
	}
	if (s->given && (n < LEAST || n > MOST)) {
		return rt_fail(err, RT_FORMAT, NOWHERE, "found a secret of "
			       "%s%zu bytes (%s), expected %d to %d, drawn at "
			       "random", n > MOST ? "at least " : "", n,
			       path ? FILENAME : VALUE, (int)LEAST, (int)MOST);
	}
	make_key(s, text, n);
	return RT_OK;
}

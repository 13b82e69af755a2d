/*
 * The cache of compiled kernels: one file for each hash of all that it depends
 * on.
 */
#include "runtime/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/delay.h"

#define MAGIC "llmc-cache 2\n"
#define MOST_BYTES ((int64_t)512 << 20)	/* unless LLMC_CACHE_BYTES is set */
#define STALE_SECONDS 3600	/* of an entry that was never completed */

/* ENTRY_NAME: 32 digits, ".image" and the NUL. */
enum { PATH_BYTES = 4096, ENTRY_NAME = 39 };

/* ---- hashes ---- */

void
rt_hash_init(struct rt_hash *h)
{
	h->hi = 0x6c62272e07bb0142u;
	h->lo = 0x62b821756295c58du;
}

/* The prime is 2^88 + 315. */
void
rt_hash_add(struct rt_hash *h, const void *at, size_t n)
{
	const unsigned char *p = at;
	uint64_t hi = h->hi, lo = h->lo, low, carry;
	size_t i;

	for (i = 0; i < n; i++) {
		lo ^= p[i];
		low = (lo & 0xffffffffu) * 315;
		carry = (lo >> 32) * 315 + (low >> 32);
		hi = hi * 315 + (carry >> 32) + (lo << 24);
		lo = carry << 32 | (low & 0xffffffffu);
	}
	h->hi = hi;
	h->lo = lo;
}

void
rt_hash_text(struct rt_hash *h, const char *s)
{
	rt_hash_add(h, s, strlen(s) + 1);
}

/* ---- the folder ---- */

static bool
make_folders(char *path)
{
	char *p;

	for (p = path + 1; *p; p++) {
		if (*p == '/') {
			*p = '\0';
			mkdir(path, 0777);
			*p = '/';
		}
	}
	mkdir(path, 0777);
	return access(path, R_OK | W_OK | X_OK) == 0;
}

/* Leaves enough of the path's length for names of entries. */
bool
rt_cache_folder(char *out, size_t n)
{
	const char *own = getenv("LLMC_CACHE");
	const char *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	int used = 0;

	if (own && *own) {
		used = snprintf(out, n, "%s", own);
	} else if (xdg && *xdg) {
		used = snprintf(out, n, "%s/llmc", xdg);
	} else if (home && *home) {
		used = snprintf(out, n, "%s/.cache/llmc", home);
	}
	return used > 0 && (size_t)used + 64 < n && make_folders(out);
}

struct path {
	char text[PATH_BYTES];
};

static struct path
path_of(const char *folder, struct rt_hash key)
{
	struct path p;

	snprintf(p.text, sizeof p.text, "%s/%016llx%016llx.image", folder,
		 (unsigned long long)key.hi, (unsigned long long)key.lo);
	return p;
}

/* ---- entries ---- */

/* Follows the magic; the entry's bytes follow it. */
struct cache_head {
	struct rt_hash key, sum;	/* sum: of the bytes */
	uint64_t bytes;
};

#define HEAD_BYTES (sizeof MAGIC - 1 + sizeof(struct cache_head))

/* A link, or a file that another user owns or may write, is not trusted. */
static bool
is_ours(int fd, struct stat *st)
{
	return fstat(fd, st) == 0 && S_ISREG(st->st_mode) &&
	       st->st_uid == geteuid() &&
	       !(st->st_mode & (S_IWGRP | S_IWOTH)) &&
	       st->st_size >= (off_t)HEAD_BYTES;
}

static bool
read_all(int fd, char *to, size_t n)
{
	ssize_t got;

	while (n > 0) {
		got = read(fd, to, n);
		if (got <= 0 && !(got < 0 && errno == EINTR)) {
			return false;
		}
		to += got > 0 ? got : 0;
		n -= got > 0 ? (size_t)got : 0;
	}
	return true;
}

static bool
read_head(int fd, struct rt_hash key, struct cache_head *h)
{
	char magic[sizeof MAGIC - 1];

	return read_all(fd, magic, sizeof magic) &&
	       memcmp(magic, MAGIC, sizeof magic) == 0 &&
	       read_all(fd, (char *)h, sizeof *h) && h->key.hi == key.hi &&
	       h->key.lo == key.lo;
}

static char *
read_entry(int fd, struct rt_hash key, size_t *n)
{
	struct rt_hash sum;
	struct stat st;
	struct cache_head h;
	char *at;

	if (!is_ours(fd, &st) || !read_head(fd, key, &h) ||
	    h.bytes != (uint64_t)st.st_size - HEAD_BYTES) {
		return NULL;
	}
	*n = (size_t)h.bytes;
	at = malloc(*n + 1);
	if (!at || !read_all(fd, at, *n)) {
		free(at);
		return NULL;
	}
	at[*n] = '\0';
	rt_hash_init(&sum);
	rt_hash_add(&sum, at, *n);
	if (sum.hi != h.sum.hi || sum.lo != h.sum.lo) {
		free(at);
		return NULL;
	}
	return at;
}

char *
rt_cache_get(const char *folder, struct rt_hash key, size_t *n)
{
	struct path path = path_of(folder, key);
	int fd = open(path.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW |
		      O_NONBLOCK);
	char *at;

	if (fd < 0) {
		return NULL;
	}
	at = read_entry(fd, key, n);
	if (at) {
		/* the oldest entries are removed first, and this one is in
		 * use */
		futimens(fd, NULL);
	}
	close(fd);
	return at;
}

static bool
write_entry(FILE *f, struct rt_hash key, const void *at, size_t n)
{
	struct cache_head h = { .key = key, .bytes = n };

	rt_hash_init(&h.sum);
	rt_hash_add(&h.sum, at, n);
	return fwrite(MAGIC, 1, sizeof MAGIC - 1, f) == sizeof MAGIC - 1 &&
	       fwrite(&h, 1, sizeof h, f) == sizeof h &&
	       fwrite(at, 1, n, f) == n;
}

static void
put(const char *folder, struct rt_hash key, const void *at, size_t n)
{
	struct path path = path_of(folder, key), tmp;
	FILE *f;
	bool ok;
	int fd;

	if (strlen(path.text) + 8 > sizeof tmp.text) {
		return;
	}
	tmp = path;
	strcat(tmp.text, ".XXXXXX");
	fd = mkstemp(tmp.text);
	if (fd < 0) {
		return;
	}
	f = fdopen(fd, "wb");
	if (!f) {
		close(fd);
		unlink(tmp.text);
		return;
	}
	ok = write_entry(f, key, at, n);
	ok &= fclose(f) == 0;
	if (!ok || rename(tmp.text, path.text) != 0) {
		unlink(tmp.text);
	}
}

void
rt_cache_put(const char *folder, struct rt_hash key, const void *at, size_t n)
{
	struct rt_delay h;

	rt_delay_begin(&h);
	put(folder, key, at, n);
	rt_delay_end(&h);
}

/* ---- its size ---- */

struct cache_entry {
	char name[ENTRY_NAME];
	int64_t bytes;
	struct timespec used;
};

/* 32 hexadecimal digits and ".image"; six more characters while it is being
 * written. */
static bool
is_entry(const char *name, bool *written)
{
	size_t n = strspn(name, "0123456789abcdef");

	if (n != 32 || strncmp(name + n, ".image", 6) != 0) {
		return false;
	}
	*written = name[n + 6] == '\0';
	return *written || (name[n + 6] == '.' && strlen(name + n) == 13);
}

static int
by_age(const void *a, const void *b)
{
	const struct cache_entry *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec) {
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	}
	if (x->used.tv_nsec != y->used.tv_nsec) {
		return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
	}
	return strcmp(x->name, y->name);
}

static int64_t
most_bytes(void)
{
	const char *s = getenv("LLMC_CACHE_BYTES");
	long long v;
	char *end;

	errno = 0;
	v = s && *s >= '0' && *s <= '9' ? strtoll(s, &end, 10) : -1;
	return v < 0 || errno || *end ? MOST_BYTES : v;
}

/* False: out of memory, and no entry is removed. */
static bool
add_entry(struct cache_entry **all, size_t *n, const char *name,
	  const struct stat *st)
{
	struct cache_entry *more = *all;

	if (*n == 0 || (*n >= 16 && (*n & (*n - 1)) == 0)) {
		more = realloc(*all, (*n ? 2 * *n : 16) * sizeof *more);
		if (!more) {
			return false;
		}
		*all = more;
	}
	memcpy(more[*n].name, name, ENTRY_NAME);
	more[*n].bytes = st->st_size;
	more[*n].used = st->st_mtim;
	++*n;
	return true;
}

static void
trim(DIR *d)
{
	int64_t total = 0, most = most_bytes();
	struct cache_entry *all = NULL;
	const struct dirent *e;
	size_t n = 0, i;
	struct stat st;
	bool written;

	while ((e = readdir(d)) != NULL) {
		if (!is_entry(e->d_name, &written) ||
		    fstatat(dirfd(d), e->d_name, &st,
			    AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(st.st_mode)) {
			continue;
		}
		if (!written) {
			if (time(NULL) - st.st_mtime > STALE_SECONDS) {
				unlinkat(dirfd(d), e->d_name, 0);
			}
		} else if (add_entry(&all, &n, e->d_name, &st)) {
			total += st.st_size;
		}
	}
	if (total > most) {
		qsort(all, n, sizeof *all, by_age);
	}
	for (i = 0; i < n && total > most; i++) {
		total -= unlinkat(dirfd(d), all[i].name, 0) == 0
			? all[i].bytes : 0;
	}
	free(all);
}

void
rt_cache_trim(const char *folder)
{
	DIR *d = opendir(folder);

	if (d) {
		trim(d);
		closedir(d);
	}
}

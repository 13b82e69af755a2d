/*
 * What was compiled before, kernels and objects: files by the hash of all
 * that they depend on.  An entry appears whole, by a rename, and says how long
 * it is and what its bytes sum to; what is not so is made again.
 */
#include "codegen/cache.h"
#include "codegen/cg.h"
#include "runtime/delay.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "llmc-image 1\n"
#define MOST_BYTES ((int64_t)512 << 20)	/* unless LLMC_CACHE_BYTES says */
#define STALE_SECONDS 3600	/* of an entry that nobody finished */

/* ---- hashes ---- */

void
cg_hash_init(struct cg_hash *h)
{
	h->hi = 0x6c62272e07bb0142u;
	h->lo = 0x62b821756295c58du;
}

/* The prime is 2^88 + 315. */
void
cg_hash_add(struct cg_hash *h, const void *at, size_t n)
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
cg_hash_text(struct cg_hash *h, const char *s)
{
	cg_hash_add(h, s, strlen(s) + 1);
}

const char *
cg_sum(struct arena *a, const void *at, size_t n)
{
	struct cg_hash h;

	cg_hash_init(&h);
	cg_hash_add(&h, at, n);
	return arena_printf(a, "%016llx%016llx", (unsigned long long)h.hi,
			    (unsigned long long)h.lo);
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

void
cg_cache_open(struct cg_cache *c, struct arena *a)
{
	const char *own = getenv("LLMC_CACHE");
	const char *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	const char *most = getenv("LLMC_CACHE_BYTES");
	char *path = own && *own ? arena_printf(a, "%s", own)
		: xdg && *xdg ? arena_printf(a, "%s/llmc", xdg)
		: home && *home ? arena_printf(a, "%s/.cache/llmc", home)
		: NULL;

	*c = (struct cg_cache){ .a = a, .most_bytes = MOST_BYTES };
	c->folder = path && make_folders(path) ? path : NULL;
	if (most && (!num_parse_int(most, strlen(most), &c->most_bytes) ||
		     c->most_bytes < 0)) {
		c->most_bytes = MOST_BYTES;
	}
}

static const char *
path_of(const struct cg_cache *c, struct cg_hash key, struct arena *a)
{
	return arena_printf(a, "%s/%016llx%016llx.image", c->folder,
			    (unsigned long long)key.hi,
			    (unsigned long long)key.lo);
}

/* ---- entries ---- */

/* Behind the magic; then the parts, each with a NUL. */
struct head {
	struct cg_hash key, sum;	/* sum: of what is behind the head */
	uint64_t bytes[CG_PARTS];
};

#define HEAD_BYTES (sizeof MAGIC - 1 + sizeof(struct head))

static char *
read_all(const char *path, struct arena *a, size_t *n)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	char *text = NULL;

	if (!f) {
		return NULL;
	}
	if (fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size >= (off_t)HEAD_BYTES) {
		*n = (size_t)st.st_size;
		text = arena_alloc(a, *n + 1);
		if (fread(text, 1, *n, f) != *n) {
			text = NULL;
		}
	}
	fclose(f);
	return text;
}

static bool
is_whole(const struct head *h, struct cg_hash key, const char *at, size_t n)
{
	struct cg_hash sum;
	uint64_t total = 0;
	uint32_t i;

	for (i = 0; i < CG_PARTS && h->bytes[i] <= n; i++) {
		total += h->bytes[i] + 1;
	}
	if (h->key.hi != key.hi || h->key.lo != key.lo || i < CG_PARTS ||
	    total != n) {
		return false;
	}
	cg_hash_init(&sum);
	cg_hash_add(&sum, at, n);
	return sum.hi == h->sum.hi && sum.lo == h->sum.lo;
}

bool
cg_cache_get(const struct cg_cache *c, struct cg_hash key, struct arena *a,
	     struct cg_part *parts)
{
	const char *path, *text, *at;
	struct head h;
	size_t n = 0;
	uint32_t i;

	if (!c->folder) {
		return false;
	}
	path = path_of(c, key, a);
	text = read_all(path, a, &n);
	if (!text || memcmp(text, MAGIC, sizeof MAGIC - 1) != 0) {
		return false;
	}
	memcpy(&h, text + sizeof MAGIC - 1, sizeof h);
	at = text + HEAD_BYTES;
	if (!is_whole(&h, key, at, n - HEAD_BYTES)) {
		return false;
	}
	for (i = 0; i < CG_PARTS; i++) {
		parts[i] = (struct cg_part){ at, h.bytes[i] };
		at += h.bytes[i] + 1;
	}
	/* the oldest go first, and this one is in use */
	utimensat(AT_FDCWD, path, NULL, 0);
	return true;
}

static bool
write_entry(const struct cg_cache *c, FILE *f, struct cg_hash key,
	    const struct cg_part *parts)
{
	struct head h = { .key = key };
	struct buf body;
	uint32_t i;

	buf_init(&body, c->a);
	for (i = 0; i < CG_PARTS; i++) {
		h.bytes[i] = parts[i].n;
		if (parts[i].n) {
			buf_add(&body, parts[i].at, parts[i].n);
		}
		buf_putc(&body, '\0');
	}
	cg_hash_init(&h.sum);
	cg_hash_add(&h.sum, body.at, body.n);
	return fwrite(MAGIC, 1, sizeof MAGIC - 1, f) == sizeof MAGIC - 1 &&
	       fwrite(&h, 1, sizeof h, f) == sizeof h &&
	       fwrite(body.at, 1, body.n, f) == body.n;
}

static void
put(const struct cg_cache *c, struct cg_hash key, const struct cg_part *parts)
{
	const char *path = path_of(c, key, c->a);
	char *tmp = arena_printf(c->a, "%s.XXXXXX", path);
	int fd = mkstemp(tmp);
	FILE *f;
	bool ok;

	if (fd < 0) {
		return;
	}
	f = fdopen(fd, "wb");
	if (!f) {
		close(fd);
		unlink(tmp);
		return;
	}
	ok = write_entry(c, f, key, parts);
	ok &= fclose(f) == 0;
	if (!ok || rename(tmp, path) != 0) {
		unlink(tmp);
	}
}

void
cg_cache_put(const struct cg_cache *c, struct cg_hash key,
	     const struct cg_part *parts)
{
	struct rt_delay h;

	if (c->folder) {
		rt_delay_begin(&h);
		put(c, key, parts);
		rt_delay_end(&h);
	}
}

/* ---- its size ---- */

struct entry {
	const char *path;
	int64_t bytes;
	struct timespec used;
};

/* 32 hexadecimal digits, ".image", and of one being written six more. */
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
	const struct entry *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec) {
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	}
	if (x->used.tv_nsec != y->used.tv_nsec) {
		return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
	}
	return strcmp(x->path, y->path);
}

void
cg_cache_trim(const struct cg_cache *c)
{
	DIR *d = c->folder ? opendir(c->folder) : NULL;
	VEC(struct entry) all = { 0 };
	const struct dirent *e;
	int64_t total = 0;
	struct stat st;
	bool written;
	uint32_t i;

	while (d && (e = readdir(d)) != NULL) {
		struct entry x = { .path = arena_printf(c->a, "%s/%s",
			c->folder, e->d_name) };

		if (!is_entry(e->d_name, &written) ||
		    lstat(x.path, &st) != 0 || !S_ISREG(st.st_mode)) {
			continue;
		}
		if (!written) {
			if (time(NULL) - st.st_mtime > STALE_SECONDS) {
				unlink(x.path);
			}
			continue;
		}
		x.bytes = st.st_size;
		x.used = st.st_mtim;
		total += x.bytes;
		VEC_PUSH(c->a, &all, x);
	}
	if (d) {
		closedir(d);
	}
	if (total > c->most_bytes) {
		qsort(all.at, all.n, sizeof *all.at, by_age);
	}
	for (i = 0; i < all.n && total > c->most_bytes; i++) {
		total -= unlink(all.at[i].path) == 0 ? all.at[i].bytes : 0;
	}
}

/*
 * Source files.  A span is two byte offsets into one address space that all
 * files share; lines and columns are computed only for messages.
 */
#include "ir/base.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_BYTES ((size_t)1 << 31)
#define MAX_FILE ((size_t)64 << 20)

void
source_init(struct sources *s, struct arena *a)
{
	memset(s, 0, sizeof *s);
	s->arena = a;
	s->next_base = 1;	/* offset 0 is "nowhere" */
}

bool
source_add(struct sources *s, const char *name, const char *text, size_t len,
	   uint32_t *base)
{
	struct source_file f = { .name = name, .text = text };

	if (len > MAX_BYTES || s->next_base + len + 1 > MAX_BYTES) {
		return false;
	}
	f.base = s->next_base;
	f.len = (uint32_t)len;
	s->next_base += f.len + 1;	/* the end of the file has an offset of
					 * its own */
	VEC_PUSH(s->arena, &s->files, f);
	*base = f.base;
	return true;
}

/* Reads all of a stream, and adds the two NULs that flex needs. */
static bool
slurp(struct sources *s, FILE *in, char **text, size_t *len, const char **why)
{
	size_t cap = 1 << 16, n = 0, got;
	char *p = arena_alloc(s->arena, cap + 2);

	while ((got = fread(p + n, 1, cap - n, in)) > 0) {
		n += got;
		if (n > MAX_FILE) {
			*why = "is larger than 64 MiB";
			return false;
		}
		if (n == cap) {
			p = arena_grow(s->arena, p, n, cap * 2 + 2);
			cap *= 2;
		}
	}
	if (ferror(in)) {
		*why = strerror(errno);
		return false;
	}
	p[n] = p[n + 1] = '\0';
	*text = p;
	*len = n;
	return true;
}

void
source_keep(struct sources *s, const char *path, const char *text,
	    size_t len)
{
	char *copy = arena_alloc(s->arena, len + 2);
	struct source_kept k = { path, copy, len };

	memcpy(copy, text, len);
	copy[len] = copy[len + 1] = '\0';
	VEC_PUSH(s->arena, &s->kept, k);
}

static bool
read_kept(const struct sources *s, const char *path, const char **text,
	  size_t *len)
{
	uint32_t i;

	for (i = 0; i < s->kept.n; i++) {
		if (strcmp(s->kept.at[i].path, path) == 0) {
			*text = s->kept.at[i].text;
			*len = s->kept.at[i].len;
			return true;
		}
	}
	return false;
}

static bool
read_stream(struct sources *s, const char *path, const char **text,
	    size_t *len, const char **why)
{
	bool is_stdin = strcmp(path, "-") == 0, ok;
	FILE *in = is_stdin ? stdin : fopen(path, "rb");
	struct stat st;
	char *got = NULL;

	if (!in) {
		*why = strerror(errno);
		return false;
	}
	if (fstat(fileno(in), &st) == 0 && S_ISDIR(st.st_mode)) {
		*why = "is a directory, and a file is expected";
		ok = false;
	} else {
		ok = slurp(s, in, &got, len, why);
	}
	if (!is_stdin) {
		fclose(in);
	}
	*text = got;
	return ok;
}

bool
source_read(struct sources *s, const char *path, uint32_t *index,
	    const char **why)
{
	bool is_stdin = strcmp(path, "-") == 0;
	const char *text = NULL;
	size_t len = 0;
	uint32_t base;

	if (!read_kept(s, path, &text, &len) &&
	    !read_stream(s, path, &text, &len, why)) {
		return false;
	}
	if (!source_add(s, is_stdin ? "<stdin>" : path, text, len, &base)) {
		*why = "is one file too many: 2 GiB of text in one run";
		return false;
	}
	*index = s->files.n - 1;
	s->files.at[*index].is_read = true;
	return true;
}

static void
find_lines(struct sources *s, struct source_file *f)
{
	const char *p = f->text, *end = f->text + f->len;

	VEC_PUSH(s->arena, &f->lines, 0);
	while ((p = memchr(p, '\n', (size_t)(end - p)))) {
		p++;
		VEC_PUSH(s->arena, &f->lines, (uint32_t)(p - f->text));
	}
}

/* The last line that starts at or before the offset. */
static uint32_t
line_of(const struct source_file *f, uint32_t offset)
{
	uint32_t lo = 0, hi = f->lines.n;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (f->lines.at[mid] <= offset) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return lo;
}

bool
source_locate(struct sources *s, uint32_t offset, struct source_pos *pos)
{
	uint32_t i, at, line;

	for (i = 0; i < s->files.n; i++) {
		struct source_file *f = &s->files.at[i];

		if (offset < f->base || offset > f->base + f->len) {
			continue;
		}
		if (!f->lines.n) {
			find_lines(s, f);
		}
		at = offset - f->base;
		line = line_of(f, at);
		pos->file = f;
		pos->line = line + 1;
		pos->line_lo = f->lines.at[line];
		pos->line_hi = line + 1 < f->lines.n
			? f->lines.at[line + 1] - 1 : f->len;
		pos->col = 1;
		for (i = pos->line_lo; i < at; i++) {
			pos->col += (f->text[i] & 0xc0) != 0x80;
		}
		return true;
	}
	return false;
}

struct span
span_join(struct span a, struct span b)
{
	struct span s = a;

	if (!a.hi) {
		return b;
	}
	if (b.hi) {
		s.lo = a.lo < b.lo ? a.lo : b.lo;
		s.hi = a.hi > b.hi ? a.hi : b.hi;
	}
	return s;
}

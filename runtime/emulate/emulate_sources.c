/*
 * Writes the text of kernels for the C compiler, several images to a file: to
 * start a compiler and to read the prelude takes longer than to compile most
 * kernels.  Images of one file have no name in common, and nothing that could
 * change the meaning of another.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emulate/emulate_inner.h"

enum {
	MOST_TOGETHER = 16, /* images of a file */
	PATH_BYTES = 1024
};

/* What an image defines. */
struct defined_name {
	const char *at;
	size_t n;
	int64_t file;
};

struct division {
	int64_t nfiles;
	int64_t *file_of;	/* by image */
	int64_t *images_of;	/* by file */
	struct defined_name *names;
	size_t nnames, capacity;
};

/* ---- what a text defines ---- */

static size_t
word_length(const char *p)
{
	size_t n = 0;

	while (isalnum((unsigned char)p[n]) || p[n] == '_') {
		n++;
	}
	return n;
}

static bool
begins(const char *p, const char *with)
{
	return strncmp(p, with, strlen(with)) == 0;
}

/*
 * A line that does not begin with white space: what it defines goes to `name`,
 * of no letters if that is nothing.  False: it may be anything, as a macro or a
 * variable, which would be shared with the other images of a file.
 */
static bool
read_line(const char *p, struct defined_name *name)
{
	const char *end = p + strcspn(p, "\n"), *open;
	const char *paren = memchr(p, '(', (size_t)(end - p));

	name->at = p;
	name->n = 0;
	if (begins(p, "KERNEL(")) {
		name->at = paren + 1;
		name->n = word_length(name->at);
		return name->n > 0;
	}
	if (begins(p, "struct ") || begins(p, "union ")) {
		name->at = strchr(p, ' ') + 1;
		name->n = word_length(name->at);
		return name->n > 0 && begins(name->at + name->n, " {\n");
	}
	if (isalpha((unsigned char)*p) && paren) {
		for (open = paren; open > p && word_length(open - 1) > 0;) {
			open--;
		}
		name->at = open;
		name->n = (size_t)(paren - open);
		return name->n > 0;
	}
	return strchr("{/", *p) || begins(p, "}\n") || begins(p, "};\n") ||
	       begins(p, "#include ") || begins(p, "#pragma unroll") ||
	       begins(p, "FN ") || p == end;
}

static enum rt_status
add_name(struct division *d, struct defined_name name, struct rt_error *err)
{
	size_t capacity = 2 * d->capacity + 64;
	struct defined_name *more = d->names;

	if (d->nnames == d->capacity) {
		more = realloc(d->names, capacity * sizeof *more);
		if (!more) {
			return rt_no_memory(err, NULL);
		}
		d->names = more;
		d->capacity = capacity;
	}
	d->names[d->nnames++] = name;
	return RT_OK;
}

/* The names of a text are added; `plain': it has nothing else. */
static enum rt_status
add_names(struct division *d, const char *text, bool *plain,
	  struct rt_error *err)
{
	enum rt_status s = RT_OK;
	struct defined_name name;

	*plain = true;
	while (*text && s == RT_OK) {
		if (*text != ' ' && *text != '\t') {
			*plain = *plain && read_line(text, &name);
			name.file = -1;
			if (*plain && name.n > 0) {
				s = add_name(d, name, err);
			}
		}
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return s;
}

/* ---- which file has which image ---- */

/* Names from `first` on are of an image that is in no file yet. */
static bool
fits(const struct division *d, int64_t file, size_t first)
{
	size_t i, k;

	for (i = 0; i < first; i++) {
		const struct defined_name *a = &d->names[i];

		for (k = first; a->file == file && k < d->nnames; k++) {
			const struct defined_name *b = &d->names[k];

			if (a->n == b->n && memcmp(a->at, b->at, a->n) == 0) {
				return false;
			}
		}
	}
	return true;
}

static enum rt_status
place(struct division *d, int64_t image, const char *text,
      struct rt_error *err)
{
	int64_t file = 0;
	size_t first = d->nnames, i;
	bool plain;
	enum rt_status s = add_names(d, text, &plain, err);

	while (file < d->nfiles && (!plain ||
	       d->images_of[file] >= MOST_TOGETHER || !fits(d, file, first))) {
		file++;
	}
	if (file == d->nfiles) {
		d->nfiles++;
	}
	for (i = first; i < d->nnames; i++) {
		d->names[i].file = file;
	}
	d->images_of[file] += plain ? 1 : MOST_TOGETHER;
	d->file_of[image] = file;
	return s;
}

static enum rt_status
divide(struct division *d, const struct rt_images *x, struct rt_error *err)
{
	enum rt_status s = RT_OK;
	int64_t i;

	d->file_of = calloc((size_t)x->n + 1, sizeof *d->file_of);
	d->images_of = calloc((size_t)x->n + 1, sizeof *d->images_of);
	if (!d->file_of || !d->images_of) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < x->n && s == RT_OK; i++) {
		s = place(d, i, x->at[i].source, err);
	}
	return s;
}

/* ---- files ---- */

static enum rt_status
cannot_write(const char *path, struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };

	return rt_fail(err, RT_IO, where, "cannot write: %s", strerror(errno));
}

enum rt_status
emu_write_text(const char *folder, const char *name, const char *head,
	       const char *text, struct rt_error *err)
{
	char path[PATH_BYTES + 64];
	FILE *file;
	int ok;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "w");
	if (!file) {
		return cannot_write(path, err);
	}
	ok = fputs(head, file) >= 0;
	ok &= fputs(text, file) >= 0;
	ok &= fclose(file) == 0;
	return ok ? RT_OK : cannot_write(path, err);
}

static enum rt_status
write_images(const struct division *d, int64_t which,
	     const struct rt_images *x, const char *folder,
	     struct rt_error *err)
{
	char path[PATH_BYTES + 64];
	FILE *file;
	int64_t i;
	int ok = 1;

	snprintf(path, sizeof path, "%s/" EMU_SOURCE, folder,
		 (long long)which, 'c');
	file = fopen(path, "w");
	if (!file) {
		return cannot_write(path, err);
	}
	for (i = 0; i < x->n; i++) {
		if (d->file_of[i] == which) {
			ok &= fprintf(file, "#undef LLMC_IMAGE\n"
				      "#define LLMC_IMAGE %lld\n"
				      "#line 1 \"%.200s\"\n", (long long)i,
				      x->at[i].name) >= 0;
			ok &= fputs(x->at[i].source, file) >= 0;
			ok &= fputs("\n", file) >= 0;
		}
	}
	ok &= fclose(file) == 0;
	return ok ? RT_OK : cannot_write(path, err);
}

enum rt_status
emu_write_sources(const struct rt_images *x, const char *folder,
		  int64_t *nfiles, struct rt_error *err)
{
	struct division d = { .nfiles = 0 };
	enum rt_status s = divide(&d, x, err);
	int64_t i;

	for (i = 0; i < d.nfiles && s == RT_OK; i++) {
		s = write_images(&d, i, x, folder, err);
	}
	for (i = 0; i < x->ntexts && s == RT_OK; i++) {
		s = emu_write_text(folder, x->texts[i].name, "",
				   x->texts[i].text, err);
	}
	*nfiles = d.nfiles;
	free(d.file_of);
	free(d.images_of);
	free(d.names);
	return s;
}

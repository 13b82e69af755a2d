/*
 * What the tests of weights on disk share: files to read.
 *
 * In their JSON ' stands for ", so that it can be read.
 */
#ifndef T_SAFETENSORS_H
#define T_SAFETENSORS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/rt.h"

/* ---- files --------------------------------------------------------- */

struct bytes {
	unsigned char *at;
	size_t n;
};

/* A file: the length, the JSON with ' for ", and space for the data. */
static inline struct bytes
make(const char *json, size_t data_bytes)
{
	size_t n = strlen(json), i;
	struct bytes b;

	b.n = 8 + n + data_bytes;
	b.at = calloc(b.n, 1);
	assert_non_null(b.at);
	for (i = 0; i < 8; i++) {
		b.at[i] = (unsigned char)((uint64_t)n >> 8 * i);
	}
	for (i = 0; i < n; i++) {
		b.at[8 + i] = json[i] == '\'' ? '"' : (unsigned char)json[i];
	}
	return b;
}

/* The same with one tensor 't' of this type and shape [elems]. */
static inline struct bytes
make_one(const char *dtype, size_t elems, const void *data, size_t n)
{
	char json[200];
	struct bytes b;

	snprintf(json, sizeof(json),
		 "{'t':{'dtype':'%s','shape':[%zu],'data_offsets':[0,%zu]}}",
		 dtype, elems, n);
	b = make(json, n);
	memcpy(b.at + b.n - n, data, n);
	return b;
}

/* A fresh folder; its files are named by path_in(). */
static inline char *
make_dir(void)
{
	const char *tmp = getenv("TMPDIR");
	char *dir = malloc(1000);

	assert_non_null(dir);
	snprintf(dir, 1000, "%s/t-safetensors.XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(dir));
	return dir;
}

/* The path of a file, good until the fourth next call. */
static inline const char *
path_in(const char *dir, const char *name)
{
	static char paths[4][1300];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static inline void
put(const char *dir, const char *name, const void *data, size_t n)
{
	FILE *f = fopen(path_in(dir, name), "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static inline void
put_bytes(const char *dir, const char *name, struct bytes b)
{
	put(dir, name, b.at, b.n);
	free(b.at);
}

/* Text with ' for ". */
static inline void
put_json(const char *dir, const char *name, const char *json)
{
	struct bytes b = make(json, 0);

	put(dir, name, b.at + 8, b.n - 8);
	free(b.at);
}

/* Removes the named files, then the folder, which they must empty. */
static inline void
remove_dir(char *dir, const char *const *names)
{
	for (; *names; names++) {
		remove(path_in(dir, *names));
	}
	assert_int_equal(rmdir(dir), 0);
	free(dir);
}

/* What a message says after the path, which differs from run to run. */
static inline const char *
after_path(const char *message, const char *file)
{
	const char *p = strstr(message, file);

	assert_non_null(p);
	p += strlen(file);
	assert_memory_equal(p, ": ", 2);
	return p + 2;
}

static inline struct rt_st *
parse(struct bytes b)
{
	struct rt_error err = { 0 };
	struct rt_st *st;

	rt_st_parse(&st, b.at, b.n, (int64_t)b.n, NULL, &err);
	assert_string_equal(err.message, "");
	assert_non_null(st);
	return st;
}

#endif

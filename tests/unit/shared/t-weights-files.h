/*
 * Files of weights that tests read: in whole and in parts, and with memory that
 * runs out at each request in turn.  Include cmocka's headers first.
 */
#ifndef T_WEIGHTS_FILES_H
#define T_WEIGHTS_FILES_H

#include "runtime/rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ----------------------------------------------------------- */

/* The path of a file of tests/interop, good until the next call. */
static inline const char *
t_interop(const char *folder, const char *family, const char *file)
{
	static char path[1200];
	const char *top = getenv("top_srcdir");

	snprintf(path, sizeof(path), "%s/tests/interop/%s/%s/%s",
		 top ? top : ".", folder, family, file);
	return path;
}

/* Opens what is expected to be good. */
static inline struct rt_st *
t_open_good(const char *path)
{
	struct rt_error err = { 0 };
	struct rt_st *st;

	rt_st_open_any(&st, path, NULL, &err);
	assert_string_equal(err.message, "");
	assert_non_null(st);
	return st;
}

/* ---- parts ----------------------------------------------------------- */

static inline int64_t
t_drawn_below(unsigned *seed, int64_t n)
{
	*seed = *seed * 1103515245 + 12345;
	return (int64_t)(*seed >> 8) % n;
}

/* Any n elements of a tensor are those of the whole, whatever was read before:
 * so many parts are drawn from the seed. */
static inline void
t_check_parts(const struct rt_st *st, const struct rt_st_tensor *t,
	      const double *whole, int parts, unsigned *seed)
{
	int64_t all = rt_st_elems(t), first, n, i;
	double *got = malloc((size_t)all * sizeof(*got));
	float *raw = malloc((size_t)all * sizeof(*raw));
	struct rt_error err = { 0 };

	assert_non_null(got);
	assert_non_null(raw);
	for (; parts > 0; parts--) {
		first = t_drawn_below(seed, all);
		n = t_drawn_below(seed, all - first + 1);
		rt_st_read_f64(st, t, first, n, got, &err);
		assert_string_equal(err.message, "");
		for (i = 0; i < n; i++) {
			assert_true(got[i] == whole[first + i]);
		}
		if (t->dtype != RT_F32) {
			continue;
		}
		rt_st_read_raw(st, t, 4 * first, 4 * n, raw, &err);
		assert_string_equal(err.message, "");
		for (i = 0; i < n; i++) {
			assert_true((double)raw[i] == whole[first + i]);
		}
	}
	free(got);
	free(raw);
}

/* ---- memory that runs out --------------------------------------------- */

struct t_granted {
	long left; /* requests until all fail */
	long live; /* blocks not yet freed */
};

static inline void *
t_granted_realloc(void *user, void *p, size_t n)
{
	struct t_granted *g = user;
	void *q;

	if (n == 0) {
		g->live -= p != NULL;
		free(p);
		return NULL;
	}
	if (g->left == 0) {
		return NULL;
	}
	g->left--;
	q = realloc(p, n);
	assert_non_null(q);
	g->live += p == NULL;
	return q;
}

/*
 * Opens a file, and does what `then` does with it if that is not NULL, while
 * the 1st, 2nd, ... request for memory fails, until none does.  Each failure is
 * told, and leaves nothing.  Returns how many requests there were.
 */
static inline long
t_starve(const char *path,
	 enum rt_status (*then)(struct rt_st *, struct rt_error *))
{
	enum rt_status status = RT_NOMEM;
	long n;

	for (n = 0; status == RT_NOMEM; n++) {
		struct t_granted g = { n, 0 };
		struct rt_alloc alloc = { t_granted_realloc, &g };
		struct rt_error err = { 0 };
		struct rt_st *st;

		assert_true(n < 10000);
		status = rt_st_open_any(&st, path, &alloc, &err);
		assert_int_equal(st != NULL, status == RT_OK);
		if (status == RT_OK && then) {
			status = then(st, &err);
		}
		rt_st_free(st);
		assert_int_equal(g.live, 0);
		if (status != RT_OK) {
			assert_int_equal(status, RT_NOMEM);
			assert_int_equal(err.status, RT_NOMEM);
			assert_non_null(strstr(err.message, "out of memory"));
		}
	}
	return n - 1;
}

#endif

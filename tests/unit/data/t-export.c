/*
 * Exports: any plan writes the same files, in the shapes that other programs
 * have, and whatever call fails, no folder is left.
 */
#include "tests/unit/data/t-store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WHOLE_FILE = 1 << 20, SHARD = 500 };

static const char config[] = "{\n  \"model_type\": \"m\"\n}\n";

/* A plan whose matrices have dims that are one to others. */
static struct test_plan *
export_plan(struct spec s)
{
	struct test_plan *t = make_plan(s);

	t->plan.config = config;
	t->tensors[3].joins = 1 << 3;	/* [hidden, one * ffn] */
	t->tensors[6].joins = 1 << 1;	/* [vocab * hidden] */
	return t;
}

static int
remove_file(const char *dir, const char *name)
{
	char path[400];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return unlink(path);
}

/* Removes a folder of an export, all of whose files have these names. */
static void
remove_export(const char *dir)
{
	static const char *const fixed[] = { "config.json",
		"model.safetensors", "model.safetensors.index.json" };
	char name[64];
	int i, k;

	for (i = 0; i < 3; i++) {
		remove_file(dir, fixed[i]);
	}
	for (i = 1; i <= 9; i++) {
		for (k = 1; k <= 9; k++) {
			snprintf(name, sizeof name,
				 "model-%05d-of-%05d.safetensors", k, i);
			remove_file(dir, name);
		}
	}
	assert_int_equal(rmdir(dir), 0);
}

/* Loads an export and compares its shapes with those that are expected. */
static void
check_export(const char *dir, int shards)
{
	struct rt_error err = { .message = "" };
	const struct rt_st_tensor *t;
	struct rt_st *st;
	char path[400];
	FILE *f;

	assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_OK);
	assert_int_equal(rt_st_count(st), 4 * LAYERS + 1);
	t = rt_st_find(st, "h.2.mlp.down");
	assert_true(t && t->ndim == 2 && t->shape[0] == HIDDEN &&
		    t->shape[1] == FFN);
	t = rt_st_find(st, "h.2.mlp.up");
	assert_true(t && t->ndim == 2 && t->shape[0] == FFN);
	t = rt_st_find(st, "wte.weight");
	assert_true(t && t->ndim == 1 && t->shape[0] == VOCAB * HIDDEN);
	assert_null(rt_st_find(st, "wte.weight.exp_avg"));
	rt_st_free(st);
	snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir);
	assert_int_equal(access(path, F_OK) == 0, shards > 1);
	snprintf(path, sizeof path, "%s/config.json", dir);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fread(path, 1, sizeof path, f), strlen(config));
	assert_memory_equal(path, config, strlen(config));
	fclose(f);
}

/* A checksum of all tensors of a folder, in the order of their names. */
static uint64_t
sum_of(const char *dir)
{
	uint64_t sum = 14695981039346656037u;
	struct rt_error err;
	struct rt_st *st;
	size_t i;
	int64_t k;

	assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_OK);
	for (i = 0; i < rt_st_count(st); i++) {
		const struct rt_st_tensor *t = rt_st_at(st, i);
		unsigned char bytes[4096];
		int64_t n = t->end - t->begin;

		assert_true(n <= (int64_t)sizeof bytes);
		assert_int_equal(rt_st_read_raw(st, t, 0, n, bytes, &err),
				 RT_OK);
		for (k = 0; k < n; k++) {
			sum = (sum ^ bytes[k]) * 1099511628211u;
		}
	}
	rt_st_free(st);
	return sum;
}

static void
test_any_plan_exports_the_same(void **state)
{
	static const struct spec specs[] = {
		{ 1, 1, 1, false }, { 2, 2, 1, true }, { 1, 3, 2, true },
		{ 4, 1, 2, false }, { 1, 8, 1, false }
	};
	const int n = sizeof specs / sizeof *specs;
	char *dir = make_dir();
	uint64_t first = 0, sum;
	struct run r;
	int i;

	(void)state;
	for (i = 0; i < 2 * n; i++) {
		struct test_plan *t = export_plan(specs[i % n]);

		/* the folder is empty the first time, and none later */
		run_all(&r, t, EXPORT, dir, 5, i < n ? WHOLE_FILE : SHARD,
			NULL);
		assert_string_equal(r.message, "");
		run_free(&r);
		check_export(dir, i < n ? 1 : 2);
		sum = sum_of(dir);
		first = i ? first : sum;
		assert_true(sum == first);
		run_all(&r, t, EXPORT, dir, 5, WHOLE_FILE, NULL);
		assert_non_null(strstr(r.message, "that is not empty"));
		run_free(&r);
		check_export(dir, i < n ? 1 : 2);
		remove_export(dir);
		free(t);
	}
	free(dir);
}

/* ---- calls that fail ---- */

static struct {
	pthread_mutex_t lock;
	int at, count;
} full = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Whether it is this call's turn to fail. */
static bool
fails(void)
{
	bool now;

	pthread_mutex_lock(&full.lock);
	now = full.count++ == full.at;
	pthread_mutex_unlock(&full.lock);
	errno = ENOSPC;
	return now;
}

static int
full_mkdir(const char *path, mode_t mode)
{
	return fails() ? -1 : mkdir(path, mode);
}

static int
full_open(const char *path, int flags, mode_t mode)
{
	return fails() ? -1 : open(path, flags, mode);
}

static int
full_reserve(int fd, int64_t bytes)
{
	return fails() ? ENOSPC : posix_fallocate(fd, 0, bytes);
}

static ssize_t
full_pwrite(int fd, const void *p, size_t n, off_t at)
{
	return fails() ? -1 : pwrite(fd, p, n, at);
}

static int
full_fsync(int fd)
{
	(void)fd;
	return fails() ? -1 : 0;
}

static int
full_close(int fd)
{
	bool now = fails();

	close(fd);
	return now ? -1 : 0;
}

static int
full_rename(const char *from, const char *to)
{
	return fails() ? -1 : rename(from, to);
}

static void
test_full_disk_at_every_call(void **state)
{
	struct rt_files files = { full_mkdir, full_open, full_reserve,
				  full_pwrite, full_fsync, full_close,
				  full_rename, unlinkat };
	struct test_plan *t = export_plan((struct spec){ 2, 2, 1, false });
	char *dir = make_dir(), tmp[400];
	int failures = 0;
	struct run r;

	(void)state;
	rmdir(dir);
	snprintf(tmp, sizeof tmp, "%s.tmp-%x", dir, (unsigned)getpid());
	for (full.at = 0;; full.at++) {
		full.count = 0;
		run_all(&r, t, EXPORT, dir, 5, SHARD, &files);
		if (full.count <= full.at) {
			break;
		}
		failures++;
		assert_int_equal(r.status, RT_IO);
		assert_non_null(strstr(r.message, "No space left on device"));
		assert_int_not_equal(access(dir, F_OK), 0);
		assert_int_not_equal(access(tmp, F_OK), 0);
		run_free(&r);
	}
	assert_int_equal(r.status, RT_OK);
	assert_true(failures > 20);
	run_free(&r);
	remove_export(dir);
	free(dir);
	free(t);
}

/* Whichever call fails, there is the earlier export or the new one, whole. */
static void
test_replacing(void **state)
{
	struct rt_files files = { full_mkdir, full_open, full_reserve,
				  full_pwrite, full_fsync, full_close,
				  full_rename, unlinkat };
	struct test_plan *t = export_plan((struct spec){ 2, 2, 1, false });
	char *dir = make_dir(), more[400];
	struct run r = { .status = RT_IO };
	int failures = 0;

	(void)state;
	rmdir(dir);
	run_all(&r, t, EXPORT, dir, 5, WHOLE_FILE, NULL);
	assert_int_equal(r.status, RT_OK);
	for (full.at = 0;; full.at++) {
		run_free(&r);
		full.count = 0;
		run_all(&r, t, EXPORT_AGAIN, dir, 5, SHARD, &files);
		if (full.count <= full.at) {
			break;
		}
		failures++;
		assert_int_equal(r.status, RT_IO);
		check_export(dir, 1);
		snprintf(more, sizeof more, "%s.tmp-%x", dir,
			 (unsigned)getpid());
		assert_int_not_equal(access(more, F_OK), 0);
		strcat(more, ".old");
		assert_int_not_equal(access(more, F_OK), 0);
	}
	assert_int_equal(r.status, RT_OK);
	assert_true(failures > 20);
	run_free(&r);
	check_export(dir, 2);
	remove_export(dir);
	free(dir);
	free(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_plan_exports_the_same),
		cmocka_unit_test(test_full_disk_at_every_call),
		cmocka_unit_test(test_replacing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

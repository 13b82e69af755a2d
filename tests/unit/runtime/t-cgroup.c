/* Memory that control groups leave, read from trees that are made here. */
#define _GNU_SOURCE	/* nftw */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/device/cgroup.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)
#define UNLIMITED "9223372036854771712\n"	/* as version 1 says it */

static char root[64];

/* A file of the tree, with the folders that lead to it. */
static void
file(const char *name, const char *text)
{
	char path[512], *slash;
	FILE *f;

	snprintf(path, sizeof path, "%s%s", root, name);
	for (slash = strchr(path + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		assert_true(mkdir(path, 0777) == 0 || errno == EEXIST);
		*slash = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void
number(const char *group, const char *name, int64_t v)
{
	char path[256], text[32];

	snprintf(path, sizeof path, "%s/%s", group, name);
	snprintf(text, sizeof text, "%lld\n", (long long)v);
	file(path, text);
}

/* A group of version 2: max, high (-1: none), current. */
static void
group2(const char *path, int64_t max, int64_t high, int64_t current)
{
	char name[256];

	number(path, "memory.max", max);
	number(path, "memory.high", high);
	number(path, "memory.current", current);
	snprintf(name, sizeof name, "%s/memory.max", path);
	if (max < 0) {
		file(name, "max\n");
	}
	snprintf(name, sizeof name, "%s/memory.high", path);
	if (high < 0) {
		file(name, "max\n");
	}
}

static void
assert_memory(int64_t limit, int64_t left)
{
	struct rt_group_memory m = rt_cgroup_memory(root);

	assert_int_equal(m.limit_bytes, limit);
	assert_int_equal(m.free_bytes, left);
}

static int
set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(root, sizeof root, "%.40s/t-cgroup.XXXXXX",
		 tmp ? tmp : "/tmp");
	return mkdtemp(root) ? 0 : -1;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int
tear_down(void **state)
{
	(void)state;
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void
test_nothing(void **state)
{
	(void)state;
	assert_memory(-1, -1);
	file("/proc/self/cgroup", "0::/\n");
	assert_memory(-1, -1);
	file("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 "
	     "cgroup2 rw\n");
	assert_memory(-1, -1);
}

/* A group's limit is not the root's. */
static void
test_child_of_version_2(void **state)
{
	(void)state;
	file("/proc/self/cgroup", "0::/jobs.slice/run 7\n");
	file("/proc/self/mountinfo",
	     "30 23 0:27 / /sys rw shared:7 - sysfs sysfs rw\n"
	     "31 30 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 "
	     "cgroup2 rw,nsdelegate\n");
	group2("/sys/fs/cgroup/jobs.slice/run 7", 200 * MIB, -1, 50 * MIB);
	assert_memory(200 * MIB, 150 * MIB);
	/* pages of files can be dropped; shmem cannot, and is on no list */
	file("/sys/fs/cgroup/jobs.slice/run 7/memory.stat",
	     "anon 10485760\nfile 41943040\nshmem 10485760\n"
	     "inactive_file 20971520\nactive_file 10485760\n");
	assert_memory(200 * MIB, 180 * MIB);
	/* above high the kernel keeps a group waiting */
	group2("/sys/fs/cgroup/jobs.slice/run 7", 200 * MIB, 100 * MIB,
	       50 * MIB);
	assert_memory(100 * MIB, 80 * MIB);
	/* a group around it has others in it, too */
	group2("/sys/fs/cgroup/jobs.slice", 900 * MIB, -1, 890 * MIB);
	assert_memory(100 * MIB, 10 * MIB);
	group2("/sys/fs/cgroup", 800 * MIB, -1, 801 * MIB);
	assert_memory(100 * MIB, 0);
	/* what is beside it says nothing */
	group2("/sys/fs/cgroup/jobs.slice/run 8", 1 * MIB, -1, 0);
	assert_memory(100 * MIB, 0);
}

/* A mount that begins at this container's group, whatever is around it. */
static void
test_containers(void **state)
{
	(void)state;
	file("/proc/self/cgroup", "0::/docker/abc/inner\n");
	file("/proc/self/mountinfo", "31 23 0:28 /docker/abc /sys/fs/cgroup ro "
	     "- cgroup2 cgroup rw\n");
	group2("/sys/fs/cgroup", 300 * MIB, -1, 100 * MIB);
	group2("/sys/fs/cgroup/inner", -1, -1, 50 * MIB);
	assert_memory(300 * MIB, 200 * MIB);
	/* not /docker/ab */
	file("/proc/self/cgroup", "0::/docker/abcd\n");
	assert_memory(-1, -1);
	/* a namespace of its own; the mount is older, and around it */
	file("/proc/self/cgroup", "0::/\n");
	file("/proc/self/mountinfo", "31 23 0:28 /../.. /sys/fs/cgroup ro - "
	     "cgroup2 cgroup rw\n");
	assert_memory(300 * MIB, 200 * MIB);
	/* the process was put outside of its namespace's root */
	file("/proc/self/cgroup", "0::/../other\n");
	file("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup ro - "
	     "cgroup2 cgroup rw\n");
	assert_memory(-1, -1);
}

static void
test_version_1(void **state)
{
	static const char mem[] = "/sys/fs/cgroup/me mory/slurm/uid_7";

	(void)state;
	file("/proc/self/cgroup", "5:cpu,cpuacct:/other\n"
	     "4:hugetlb,memory:/slurm/uid_7\n0::/none\n");
	file("/proc/self/mountinfo",
	     "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	     "35 31 0:32 / /sys/fs/cgroup/me\\040mory rw,relatime - cgroup "
	     "cgroup rw,hugetlb,memory\n"
	     "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	file("/sys/fs/cgroup/me mory/memory.limit_in_bytes", UNLIMITED);
	number("/sys/fs/cgroup/me mory", "memory.usage_in_bytes", 700 * MIB);
	number("/sys/fs/cgroup/me mory", "memory.use_hierarchy", 1);
	number(mem, "memory.limit_in_bytes", 200 * MIB);
	number(mem, "memory.usage_in_bytes", 120 * MIB);
	file("/sys/fs/cgroup/me mory/slurm/uid_7/memory.stat",
	     "inactive_file 1\ntotal_inactive_file 20971520\n"
	     "total_active_file 0\n");
	assert_memory(200 * MIB, 100 * MIB);
	number("/sys/fs/cgroup/me mory/slurm", "memory.limit_in_bytes",
	       150 * MIB);
	number("/sys/fs/cgroup/me mory/slurm", "memory.usage_in_bytes",
	       120 * MIB);
	assert_memory(150 * MIB, 30 * MIB);
	/* old kernels let a group be out of the one around it */
	number("/sys/fs/cgroup/me mory/slurm", "memory.use_hierarchy", 0);
	assert_memory(200 * MIB, 100 * MIB);
}

/* Whatever stands there, nothing is made up, and nothing crashes. */
static void
test_damage(void **state)
{
	static const char *const mounts[] = {
		"", "\n", " - ", "31 - cgroup2", "31 23 0:28 / - cgroup2 a b\n",
		"31 23 0:28 / /sys\\04 rw - cgroup2 a b\n",
		"31 23 0:28 / /sys/fs/cgroup rw - cgroup\n",
		"31 23 0:28 / /sys/fs/cgroup rw - cgroup a rw,memoryx\n"
	};
	size_t i;

	(void)state;
	file("/proc/self/cgroup", "0::/a\n");
	group2("/sys/fs/cgroup/a", 5, -1, 1);
	for (i = 0; i < sizeof mounts / sizeof *mounts; i++) {
		file("/proc/self/mountinfo", mounts[i]);
		assert_memory(-1, -1);
	}
	file("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 "
	     "a b\n");
	assert_memory(5, 4);
	file("/sys/fs/cgroup/a/memory.current", "many\n");
	assert_memory(-1, -1);
	file("/proc/self/cgroup", "0:\n:\n");
	assert_memory(-1, -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_child_of_version_2,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_containers, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_version_1, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_damage, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

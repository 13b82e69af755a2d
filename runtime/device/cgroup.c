/*
 * How much memory the control groups of this process leave it.
 *
 * /proc/self/cgroup names the group it is in, /proc/self/mountinfo where that
 * hierarchy is mounted and which group the mount begins at: in a container that
 * is often the container's own.  A limit holds for all groups below, so every
 * group from this one up to the mount's is read, in both versions of the
 * interface: see cgroup-v2.rst and cgroup-v1/memory.rst of the kernel.
 */
#include "runtime/device/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t
rt_number_in(const char *path, const char *key)
{
	FILE *f = fopen(path, "r");
	char line[256];
	long long n = -1;

	while (f && n < 0 && fgets(line, sizeof line, f)) {
		if (strncmp(line, key, strlen(key)) == 0 &&
		    sscanf(line + strlen(key), "%lld", &n) != 1) {
			n = -1;
		}
	}
	if (f) {
		fclose(f);
	}
	return n;
}

int64_t
rt_least(int64_t a, int64_t b)
{
	return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

/* ---- one group ---- */

/* Files of a group; "" where this version has no such file. */
struct names {
	const char *limits[2], *used, *file_pages[2], *inherits;
};

static const struct names v2 = {
	{ "memory.max", "memory.high" }, "memory.current",
	{ "inactive_file ", "active_file " }, ""
};
static const struct names v1 = {
	{ "memory.limit_in_bytes", "" }, "memory.usage_in_bytes",
	{ "total_inactive_file ", "total_active_file " },
	"memory.use_hierarchy"
};

static int64_t
number_of(const char *group, const char *name, const char *key)
{
	char path[PATH_MAX];

	if (!*name || snprintf(path, sizeof path, "%s/%s", group, name) >=
	    (int)sizeof path) {
		return -1;
	}
	return rt_number_in(path, key);
}

/*
 * Pages of files count as used, but the kernel drops them before it kills a
 * process for lack of memory.  Those of tmpfs, which it cannot drop, are on
 * neither of the two lists.
 */
static void
read_group(const char *group, const struct names *n, struct rt_group_memory *m)
{
	int64_t limit = rt_least(number_of(group, n->limits[0], ""),
				 number_of(group, n->limits[1], ""));
	int64_t used = number_of(group, n->used, ""), pages;
	int i;

	if (limit < 0 || used < 0) {
		return;
	}
	for (i = 0; i < 2; i++) {
		pages = number_of(group, "memory.stat", n->file_pages[i]);
		used -= pages > 0 ? pages : 0;
	}
	used = used > 0 ? used : 0;
	m->limit_bytes = rt_least(m->limit_bytes, limit);
	m->free_bytes = rt_least(m->free_bytes,
				 limit > used ? limit - used : 0);
}

/* Reads the group at the end of path, and those above it up to the mount's,
 * which is the first n bytes. */
static void
read_groups(char *path, size_t n, const struct names *names,
	    struct rt_group_memory *m)
{
	for (;;) {
		read_group(path, names, m);
		if (strlen(path) <= n) {
			return;
		}
		*strrchr(path, '/') = '\0';
		/* version 1 can exclude the groups above */
		if (number_of(path, names->inherits, "") == 0) {
			return;
		}
	}
}

/* ---- where groups are mounted ---- */

/* Whether word is one of a list with commas. */
static bool
is_listed(const char *list, const char *word)
{
	size_t n = strlen(word);
	const char *at;

	for (at = list; (at = strstr(at, word)); at += n) {
		if ((at == list || at[-1] == ',') &&
		    (at[n] == ',' || at[n] == '\0')) {
			return true;
		}
	}
	return false;
}

/* Mountinfo writes blanks and the like in paths as \ and three octal digits. */
static void
unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] && s[2] && s[3]) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 |
				       (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

/* This process's group in a hierarchy; false: it has none.  A line is
 * "number:controllers:path"; version 2 has the number 0 and no controllers. */
static bool
find_own(const char *root, bool two, char *out, size_t n)
{
	char file[PATH_MAX], *line = NULL, *list, *path;
	bool found = false;
	size_t capacity = 0;
	FILE *f;

	snprintf(file, sizeof file, "%s/proc/self/cgroup", root);
	f = fopen(file, "r");
	while (f && !found && getline(&line, &capacity, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		list = strchr(line, ':');
		path = list ? strchr(list + 1, ':') : NULL;
		if (!path) {
			continue;
		}
		*path++ = '\0';
		found = (two ? strcmp(line, "0:") == 0
			     : is_listed(list + 1, "memory")) &&
			snprintf(out, n, "%s", path) < (int)n;
	}
	free(line);
	if (f) {
		fclose(f);
	}
	return found;
}

/*
 * The path of this process's group below a mount that begins at the group top;
 * NULL: it is not below, or that is hidden. Paths are relative to a namespace's
 * root, so a top of "/.." is above that, where the names in between are hidden:
 * then only the mount's own group is read.
 */
static const char *
below(const char *own, const char *top)
{
	size_t n = strcmp(top, "/") == 0 ? 0 : strlen(top);

	if (strncmp(own, top, n) == 0 && (own[n] == '/' || !own[n])) {
		own += n;
		return strncmp(own, "/..", 3) == 0 ? NULL :
			strcmp(own, "/") == 0 ? "" : own;
	}
	return strncmp(top, "/..", 3) == 0 ? "" : NULL;
}

/* One line: id, parent, device, top, mount point, options, optional fields,
 * "-", type, source, options of the file system. */
static void
read_mount(const char *root, char *line, struct rt_group_memory *m)
{
	char *words[6], *rest = strstr(line, " - "), *save = NULL, *word;
	char own[PATH_MAX], path[2 * PATH_MAX];
	const char *type, *options, *rel;
	bool two;
	int i;

	if (!rest) {
		return;
	}
	*rest = '\0';
	for (i = 0; i < 6; i++) {
		words[i] = strtok_r(i ? NULL : line, " ", &save);
	}
	type = strtok_r(rest + 3, " \n", &save);
	word = strtok_r(NULL, " \n", &save);
	options = word ? strtok_r(NULL, " \n", &save) : NULL;
	two = type && strcmp(type, "cgroup2") == 0;
	if (!words[4] || !type || (!two && (strcmp(type, "cgroup") != 0 ||
	    !options || !is_listed(options, "memory")))) {
		return;
	}
	unescape(words[3]);
	unescape(words[4]);
	if (!find_own(root, two, own, sizeof own) ||
	    !(rel = below(own, words[3])) ||
	    snprintf(path, sizeof path, "%s%s%s", root, words[4], rel) >=
	    (int)sizeof path) {
		return;
	}
	read_groups(path, strlen(root) + strlen(words[4]), two ? &v2 : &v1, m);
}

struct rt_group_memory
rt_cgroup_memory(const char *root)
{
	struct rt_group_memory m = { -1, -1 };
	char file[PATH_MAX], *line = NULL;
	size_t capacity = 0;
	FILE *f;

	snprintf(file, sizeof file, "%s/proc/self/mountinfo", root);
	f = fopen(file, "r");
	while (f && getline(&line, &capacity, f) > 0) {
		read_mount(root, line, &m);
	}
	free(line);
	if (f) {
		fclose(f);
	}
	return m;
}

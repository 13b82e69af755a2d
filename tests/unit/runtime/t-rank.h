/* Of the tests of a rank: command lines, and what files hold. */
#ifndef T_RANK_H
#define T_RANK_H

#include "runtime/train/rank.h"

#include <stdlib.h>

/* As a shell would split it; what argv points to stays until the next. */
static int
split(const char *line, char *argv[33])
{
	static char words[32][64];
	int argc = 1, n;

	argv[0] = words[0];
	while (sscanf(line, "%63s%n", words[argc], &n) == 1) {
		argv[argc] = words[argc];
		argc++;
		line += n;
	}
	return argc;
}

static struct rt_options
options(const char *line)
{
	struct rt_error err = { .status = RT_OK };
	struct rt_options o;
	char *argv[33];
	int argc = split(line, argv);

	if (rt_options_read(&o, argc, argv, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	return o;
}

/* All that a file has, for the caller to free. */
static char *
text_of(FILE *f)
{
	long n;
	char *s;

	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	n = ftell(f);
	rewind(f);
	s = calloc((size_t)n + 1, 1);
	assert_int_equal(fread(s, 1, (size_t)n, f), (size_t)n);
	return s;
}

static char *
file_text(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *s;

	assert_non_null(f);
	s = text_of(f);
	fclose(f);
	return s;
}

#endif

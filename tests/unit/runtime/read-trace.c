/*
 * Reads a Chrome trace and prints its slices, one a line, with tabs between:
 * process, thread, begin and end in nanoseconds, own and predicted time in
 * microseconds (-1: not given), name.  It fails unless the text is a JSON array
 * of events, each thread is named and its slices follow one another in the
 * file, none before the end of the one before.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/json.h"
#include "runtime/rt.h"

#define MOST_THREADS 512

struct thread {
	long pid, tid;
	char name[200];
	long long end_ns;
};

struct event {
	char phase;
	long pid, tid;
	double ts, dur, own_us, predicted_us;
	const char *name, *arg_name;
};

struct trace {
	struct thread at[MOST_THREADS];
	int n;
};

static void
fail(const char *why, const struct event *e)
{
	printf("%s: pid %ld, tid %ld, ts %.3f, %s\n", why, e->pid, e->tid,
	       e->ts, e->name ? e->name : "");
	exit(EXIT_FAILURE);
}

static double
number(struct rt_json *j)
{
	char text[64] = "";
	const char *at;
	size_t n;

	if (rt_json_word(j, &at, &n) && n < sizeof text) {
		memcpy(text, at, n);
	}
	return strtod(text, NULL);
}

static void
read_args(struct rt_json *j, struct event *e)
{
	const char *key;
	size_t i = 0;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "name") == 0) {
			rt_json_string(j, &e->arg_name);
		} else if (strcmp(key, "own_us") == 0) {
			e->own_us = number(j);
		} else if (strcmp(key, "predicted_us") == 0) {
			e->predicted_us = number(j);
		} else {
			rt_json_skip(j);
		}
	}
}

static void
read_event(struct rt_json *j, struct event *e)
{
	const char *key, *text;
	size_t i = 0;

	*e = (struct event){ .own_us = -1, .predicted_us = -1 };
	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "ph") == 0) {
			e->phase = rt_json_string(j, &text) ? text[0] : 0;
		} else if (strcmp(key, "pid") == 0) {
			e->pid = (long)number(j);
		} else if (strcmp(key, "tid") == 0) {
			e->tid = (long)number(j);
		} else if (strcmp(key, "ts") == 0) {
			e->ts = number(j);
		} else if (strcmp(key, "dur") == 0) {
			e->dur = number(j);
		} else if (strcmp(key, "name") == 0) {
			rt_json_string(j, &e->name);
		} else if (strcmp(key, "args") == 0) {
			read_args(j, e);
		} else {
			rt_json_skip(j);
		}
	}
}

static struct thread *
find(struct trace *t, long pid, long tid)
{
	int i;

	for (i = 0; i < t->n; i++) {
		if (t->at[i].pid == pid && t->at[i].tid == tid) {
			return &t->at[i];
		}
	}
	return NULL;
}

/* The process is thread 0 of itself. */
static void
add_name(struct trace *t, const struct event *e)
{
	struct thread *to = &t->at[t->n];

	if (strcmp(e->name, "process_name") != 0 &&
	    strcmp(e->name, "thread_name") != 0) {
		return;
	}
	if (t->n == MOST_THREADS || !e->arg_name ||
	    find(t, e->pid, e->tid)) {
		fail("too many names, or one twice", e);
	}
	t->n++;
	to->pid = e->pid;
	to->tid = e->tid;
	snprintf(to->name, sizeof to->name, "%s", e->arg_name);
}

static void
add_slice(struct trace *t, const struct event *e)
{
	const struct thread *process = find(t, e->pid, 0);
	struct thread *thread = find(t, e->pid, e->tid);
	long long begin = llround(e->ts * 1e3);
	long long end = begin + llround(e->dur * 1e3);

	if (!process || !thread || thread == process || !e->name) {
		fail("no name of a process, a thread or a slice", e);
	}
	if (e->dur < 0 || begin < thread->end_ns) {
		fail("a slice before the end of the one before", e);
	}
	thread->end_ns = end;
	printf("%s\t%s\t%lld\t%lld\t%.3f\t%.3f\t%s\n", process->name,
	       thread->name, begin, end, e->own_us, e->predicted_us, e->name);
}

static char *
read_all(FILE *f, size_t *n)
{
	size_t capacity = 1 << 16, got;
	char *text = malloc(capacity + 1);

	*n = 0;
	while (text && (got = fread(text + *n, 1, capacity - *n, f)) > 0) {
		*n += got;
		if (*n == capacity) {
			capacity *= 2;
			text = realloc(text, capacity + 1);
		}
	}
	return text;
}

int
main(int argc, char **argv)
{
	FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
	static struct trace t;
	struct rt_error err = { .status = RT_OK };
	struct rt_json j = { .path = "trace", .err = &err };
	struct event e;
	size_t i = 0;

	if (!f || !(j.text = read_all(f, &j.len))) {
		fputs("usage: read-trace FILE\n", stderr);
		return 2;
	}
	fclose(f);
	rt_json_check_utf8(&j);
	rt_json_open(&j, '[');
	while (rt_json_more(&j, ']', &i)) {
		read_event(&j, &e);
		if (j.status == RT_OK && e.phase == 'M') {
			add_name(&t, &e);
		} else if (j.status == RT_OK && e.phase == 'X') {
			add_slice(&t, &e);
		} else if (j.status == RT_OK && e.phase == 'i') {
			printf("note\t%s\n", e.name);
		} else if (j.status == RT_OK) {
			fail("another phase than M, X and i", &e);
		}
	}
	rt_json_end(&j, "\n");
	if (j.status != RT_OK) {
		printf("%s\n", err.message);
	}
	free(j.text);
	return j.status == RT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

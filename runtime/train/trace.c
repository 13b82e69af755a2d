/*
 * One measured step as a trace for Perfetto: `rank bench --trace`.  Processes
 * are ranks, threads are the queues below, and all names are those of
 * `llmc --trace` (passes/answer/answer_trace.c), so that both files lie above
 * each other in one window.
 *
 * Each rank keeps the slices of all steps that are measured; rank 0 then gets
 * those of one step from all ranks, one after the other, and writes them.
 */
#include "runtime/train/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The most slices of a step on a rank. */
#define MOST_SLICES 200000
/* Of more ranks than that, only the first of each place in the pipeline. */
#define MOST_RANKS 64
#define CHUNK 1024	/* slices sent at once */
#define CLOCKS 9	/* readings, of which the median counts */
#define BOOT_BYTES 40

static const char *const queues[RT_NQUEUES] = {
	"schedule", "kernels", "collectives", "transfers"
};

/* ---- what a rank keeps ---- */

static void
push(struct rt_trace *t, const struct rt_slice *s)
{
	size_t capacity = t->capacity ? 2 * t->capacity : 1024;
	struct rt_slice *at;

	if (t->n - t->step[t->nsteps - 1] >= MOST_SLICES) {
		t->cut = true;
		return;
	}
	if (t->n == t->capacity) {
		at = realloc(t->at, capacity * sizeof *at);
		if (!at) {
			t->lost = true;
			return;
		}
		t->at = at;
		t->capacity = capacity;
	}
	t->at[t->n++] = *s;
}

/*
 * A function that begins by receiving begins, in the trace, when it has what it
 * received: as in the prediction, where its rank is idle until then.
 */
static double
begin_of(const struct rt_trace *t, double begin_ms)
{
	size_t i;

	for (i = t->func; i < t->n && t->at[i].receives; i++) {
		begin_ms = t->at[i].end_ms;
	}
	return begin_ms;
}

/* Cut before a character of UTF-8 that would not be whole. */
static void
set_what(struct rt_slice *s, const char *what)
{
	size_t n = strlen(what);

	if (n >= sizeof s->what) {
		n = sizeof s->what - 1;
		while (n > 0 && ((unsigned char)what[n] & 0xc0) == 0x80) {
			n--;
		}
	}
	memcpy(s->what, what, n);
}

static enum rt_queue
queue_of(const struct rt_tallied_call *c)
{
	const struct rt_coll *t = c->key;

	if (c->kind != RT_TALLY_COLL) {
		return c->kind == RT_TALLY_PHASE ? RT_QUEUE_SCHEDULE
						 : RT_QUEUE_KERNELS;
	}
	return t->op == RT_COLL_SEND || t->op == RT_COLL_RECV ||
	       t->op == RT_COLL_FREE ? RT_QUEUE_TRANSFERS
				     : RT_QUEUE_COLLECTIVES;
}

void
rt_trace_add(struct rt_trace *t, const struct rt_tallied_call *c)
{
	struct rt_slice s = { .begin_ms = c->begin_ms, .end_ms = c->end_ms,
			      .ms = c->ms, .us = c->us, .queue = queue_of(c),
			      .stage = -1, .microbatch = c->microbatch };
	const struct rt_func *f = c->kind == RT_TALLY_PHASE ? c->key : NULL;

	if (f && f == t->draw) {	/* before the step's actions */
		t->n = t->func;
		return;
	}
	set_what(&s, c->what);
	if (f) {
		s.begin_ms = begin_of(t, c->begin_ms);
		s.stage = f->stage;
	} else if (c->kind == RT_TALLY_COLL) {
		s.receives = ((const struct rt_coll *)c->key)->op ==
			     RT_COLL_RECV;
	}
	push(t, &s);
	t->func = f ? t->n : t->func;
}

enum rt_status
rt_trace_step(struct rt_trace *t, struct rt_error *err)
{
	size_t *step = realloc(t->step, (t->nsteps + 1) * sizeof *step);

	if (!step) {
		return rt_no_memory(err, NULL);
	}
	t->step = step;
	t->step[t->nsteps++] = t->func = t->n;
	return RT_OK;
}

/* ---- clocks ---- */

/* Another kernel has another one; empty where it cannot be read. */
static void
read_boot(char boot[BOOT_BYTES])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

	memset(boot, 0, BOOT_BYTES);
	if (f) {
		if (!fgets(boot, BOOT_BYTES, f)) {
			boot[0] = '\0';
		}
		fclose(f);
	}
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/*
 * How far this rank's clock is before that of rank 0: nothing under one kernel;
 * else the median difference of what both show when they leave a barrier.
 */
static enum rt_status
find_ahead(struct rt_run *r, double *ahead_ms, struct rt_error *err)
{
	char own[BOOT_BYTES], first[BOOT_BYTES];
	enum rt_status status = RT_OK;
	double at[CLOCKS], zero_ms;
	int i;

	for (i = 0; i < CLOCKS && status == RT_OK; i++) {
		status = rt_comm_barrier(r->comm, "the clocks of a trace",
					 err);
		at[i] = zero_ms = rt_now_ms();
		if (status == RT_OK) {
			status = rt_comm_spread(r->comm, 0, &zero_ms,
						sizeof zero_ms, err);
			at[i] -= zero_ms;
		}
	}
	read_boot(own);
	memcpy(first, own, sizeof first);
	if (status == RT_OK) {
		status = rt_comm_spread(r->comm, 0, first, sizeof first, err);
	}
	if (status == RT_OK) {
		qsort(at, CLOCKS, sizeof *at, by_value);
		*ahead_ms = own[0] && memcmp(own, first, sizeof own) == 0
			? 0 : at[CLOCKS / 2];
	}
	return status;
}

/* Times of the slices from the first one of any rank on. */
static enum rt_status
set_zero(struct rt_run *r, struct rt_slice *at, size_t n, struct rt_error *err)
{
	double ahead_ms = 0, zero_ms;
	enum rt_status status = find_ahead(r, &ahead_ms, err);
	int64_t first_ns = INT64_MIN;
	size_t i;

	for (i = 0; i < n && status == RT_OK; i++) {
		int64_t ns = -llround((at[i].begin_ms - ahead_ms) * 1e6);

		first_ns = ns > first_ns ? ns : first_ns;
	}
	if (status == RT_OK) {
		status = rt_comm_max_i64(r->comm, &first_ns, 1, err);
	}
	zero_ms = ahead_ms - (double)first_ns * 1e-6;
	for (i = 0; i < n && status == RT_OK; i++) {
		at[i].begin_ms = fmax(at[i].begin_ms - zero_ms, 0);
		at[i].end_ms = fmax(at[i].end_ms - zero_ms, at[i].begin_ms);
	}
	return status;
}

/* ---- the file ---- */

/* An existing file that is no regular one, as /dev/null, is not replaced. */
enum rt_status
rt_trace_open(struct rt_trace *t, const char *path, struct rt_error *err)
{
	size_t n = strlen(path) + sizeof ".part";
	struct stat old;

	t->path = path;
	t->beside = malloc(n);
	if (!t->beside) {
		return rt_no_memory(err, NULL);
	}
	snprintf(t->beside, n, "%s%s", path, lstat(path, &old) == 0 &&
		 !S_ISREG(old.st_mode) ? "" : ".part");
	t->file = fopen(t->beside, "w");
	return t->file ? RT_OK
		: rt_fail(err, RT_IO, RT_NOWHERE, "cannot write %s: %s", path,
			  strerror(errno));
}

static void
drop_part(const struct rt_trace *t)
{
	if (strcmp(t->beside, t->path) != 0) {
		unlink(t->beside);
	}
}

static enum rt_status
finish(struct rt_trace *t, struct rt_error *err)
{
	bool ok = fflush(t->file) == 0 && !ferror(t->file);

	ok = fclose(t->file) == 0 && ok;
	t->file = NULL;
	ok = ok && (strcmp(t->beside, t->path) == 0 ||
		    rename(t->beside, t->path) == 0);
	if (ok) {
		return RT_OK;
	}
	rt_fail(err, RT_IO, RT_NOWHERE, "cannot write %s: %s", t->path,
		strerror(errno));
	drop_part(t);
	return RT_IO;
}

void
rt_trace_release(struct rt_trace *t)
{
	if (t->file) {		/* it is not complete */
		fclose(t->file);
		drop_part(t);
	}
	free(t->beside);
	free(t->at);
	free(t->step);
}

static void
put_name(FILE *out, const char *what, int64_t pid, int tid, const char *name)
{
	fprintf(out, "{\"ph\":\"M\",\"pid\":%" PRId64 ",\"tid\":%d,"
		"\"name\":\"%s\",\"args\":{\"name\":", pid, tid, what);
	rt_json_text(out, name);
	fputs("}},\n", out);
}

static int64_t
pid_of(int64_t rank)
{
	return 2 * rank + 2;	/* the predicted one is the number before */
}

/* Ends with a line that another event may follow. */
static void
put_process(FILE *out, const struct rt_plan *p, int64_t rank, bool cut)
{
	int64_t pid = pid_of(rank);
	char who[96], name[112];
	int i;

	rt_mesh_text(p, rank, who, sizeof who);
	snprintf(name, sizeof name, "%s measured", who);
	put_name(out, "process_name", pid, 0, name);
	for (i = 0; i < RT_NQUEUES; i++) {
		put_name(out, "thread_name", pid, i + 1, queues[i]);
	}
	if (cut) {
		fprintf(out, "{\"ph\":\"i\",\"pid\":%" PRId64 ",\"tid\":1,"
			"\"s\":\"g\",\"ts\":0,\"name\":\"the first %d slices "
			"of %s\"},\n", pid, MOST_SLICES, who);
	}
	fprintf(out, "{\"ph\":\"M\",\"pid\":%" PRId64 ",\"tid\":0,\"name\":"
		"\"process_sort_index\",\"args\":{\"sort_index\":%" PRId64
		"}}", pid, pid);
}

/* Milliseconds as microseconds, in whole nanoseconds. */
static void
put_time(FILE *out, const char *key, int64_t ns)
{
	fprintf(out, ",\"%s\":%" PRId64 ".%03" PRId64, key, ns / 1000,
		ns % 1000);
}

static void
put_slice(FILE *out, int64_t pid, const struct rt_slice *s)
{
	int64_t begin = llround(s->begin_ms * 1e6);
	int64_t end = llround(s->end_ms * 1e6);
	char what[sizeof s->what + 24];

	snprintf(what, sizeof what, s->stage >= 0 ? "%s %" PRId64 : "%s",
		 s->what, s->microbatch);
	fprintf(out, ",\n{\"ph\":\"X\",\"pid\":%" PRId64 ",\"tid\":%" PRId64,
		pid, s->queue + 1);
	put_time(out, "ts", begin);
	put_time(out, "dur", end - begin);
	fputs(",\"name\":", out);
	rt_json_text(out, what);
	if (s->queue == RT_QUEUE_SCHEDULE || s->us > 0) {
		fprintf(out, ",\"args\":{\"own_us\":%.3f,"
			"\"predicted_us\":%.3f", s->ms * 1e3, s->us);
		if (s->stage >= 0) {
			fprintf(out, ",\"stage\":%" PRId64 ",\"microbatch\":%"
				PRId64, s->stage, s->microbatch);
		}
		putc('}', out);
	}
	putc('}', out);
}

/* ---- from all ranks ---- */

/* The slices of that step; rank 0 writes them. */
static enum rt_status
send_slices(struct rt_run *r, struct rt_trace *t, int64_t rank,
	    struct rt_slice *own, int64_t n, struct rt_error *err)
{
	struct rt_slice *chunk = calloc(CHUNK, sizeof *chunk), *at;
	enum rt_status status = chunk ? RT_OK : rt_no_memory(err, NULL);
	int64_t i, k;

	for (i = 0; i < n && status == RT_OK; i += CHUNK) {
		int64_t some = n - i < CHUNK ? n - i : CHUNK;

		at = r->rank == rank ? own + i : chunk;
		status = rt_comm_spread(r->comm, rank, at, some *
					(int64_t)sizeof *at, err);
		for (k = 0; k < some && status == RT_OK && t->file; k++) {
			put_slice(t->file, pid_of(rank), &at[k]);
		}
	}
	free(chunk);
	return status;
}

/* Whether slices of a rank are in the file. */
static bool
is_shown(const struct rt_plan *p, int64_t rank)
{
	int64_t at[RT_MAX_AXES + 1], a;

	rt_mesh_at(p, rank, at);
	for (a = 1; a < p->naxes && p->nranks > MOST_RANKS; a++) {
		if (a != p->pp && at[a] != 0) {
			return false;
		}
	}
	return true;
}

enum rt_status
rt_trace_write(struct rt_trace *t, struct rt_run *r, int64_t step,
	       struct rt_error *err)
{
	size_t from = t->step[step];
	size_t to = (size_t)step + 1 < t->nsteps ? t->step[step + 1] : t->n;
	enum rt_status status = t->lost ? rt_no_memory(err, NULL)
		: set_zero(r, t->at + from, to - from, err);
	int64_t rank, head[2];

	if (t->file) {
		fputs("[\n", t->file);
	}
	for (rank = 0; rank < r->plan->nranks && status == RT_OK; rank++) {
		if (!is_shown(r->plan, rank)) {
			continue;
		}
		head[0] = (int64_t)(to - from);
		head[1] = t->cut;
		status = rt_comm_spread(r->comm, rank, head, sizeof head, err);
		if (status == RT_OK && t->file) {
			fputs(rank ? ",\n" : "", t->file);
			put_process(t->file, r->plan, rank, head[1] != 0);
		}
		if (status == RT_OK) {
			status = send_slices(r, t, rank, t->at + from, head[0],
					     err);
		}
	}
	if (status == RT_OK && t->file) {
		fputs("\n]\n", t->file);
		status = finish(t, err);
	}
	return status;
}

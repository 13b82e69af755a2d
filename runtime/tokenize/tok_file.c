/*
 * Token files of text.  One thread reads inputs, cuts them in parts and writes
 * what comes of the parts, in order; others make ids of parts.  A ring of parts
 * bounds what is in memory.
 */
#include "runtime/tokenize/tok_output.h"

#include "runtime/delay.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	CHUNK = 256 * 1024,		/* bytes of a part */
	MOST = 32 * 1024 * 1024,	/* without a place to cut */
	MAX_THREADS = 64,
};

struct tok_worker {
	struct tok_pipe *pipe;
	struct rt_encoder *encoder;
	pthread_t thread;
};

struct tok_pipe {
	const struct rt_token_options *o;
	struct rt_alloc alloc;
	struct rt_tokenizer *t;
	struct tok_framing framing;
	struct tok_output out;
	struct rt_token_counts counts;
	struct rt_error *err;
	/* parts by number, each in its place of the ring */
	struct tok_job *jobs;
	bool *done;
	size_t njobs;
	uint64_t filled, begun, written;	/* how many so far */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool stop;
	struct tok_worker workers[MAX_THREADS];
	int nworkers;
	/* the input that is being read */
	struct tok_input *in;
	const char *path;
	struct rt_bytes text;	/* read, and not yet in a part */
	int64_t base;		/* of its first byte */
	int64_t all_bytes, done_bytes;	/* of files; all: -1 if not known */
	double began, shown;	/* seconds */
	double wait;		/* until the next line in a log */
};

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- threads ---------------------------------------------------------- */

static void *
work(void *user)
{
	struct tok_worker *w = user;
	struct tok_pipe *p = w->pipe;
	uint64_t i;

	pthread_mutex_lock(&p->mutex);
	for (;;) {
		while (p->begun == p->filled && !p->stop) {
			pthread_cond_wait(&p->changed, &p->mutex);
		}
		if (p->stop) {
			break;
		}
		i = p->begun++ % p->njobs;
		pthread_mutex_unlock(&p->mutex);
		rt_tok_job_run(&p->jobs[i], w->encoder, &p->framing);
		pthread_mutex_lock(&p->mutex);
		p->done[i] = true;
		pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->mutex);
	return NULL;
}

static enum rt_status
start_workers(struct tok_pipe *p)
{
	enum rt_status status = RT_OK;
	sigset_t all, before;
	int error = 0, i;

	rt_delay_all(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	for (i = 0; i < p->o->threads && status == RT_OK; i++) {
		struct tok_worker *w = &p->workers[i];

		w->pipe = p;
		status = rt_encoder_open(&w->encoder, p->t, p->err);
		if (status != RT_OK) {
			break;
		}
		error = pthread_create(&w->thread, NULL, work, w);
		if (error) {
			rt_encoder_free(w->encoder);
			status = rt_fail(p->err, RT_IO, RT_NOWHERE, "cannot "
					 "start a thread: %s",
					 strerror(error));
			break;
		}
		p->nworkers++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return status;
}

static void
stop_workers(struct tok_pipe *p)
{
	int i;

	pthread_mutex_lock(&p->mutex);
	p->stop = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->mutex);
	for (i = 0; i < p->nworkers; i++) {
		pthread_join(p->workers[i].thread, NULL);
		rt_encoder_free(p->workers[i].encoder);
	}
}

/* ---- progress --------------------------------------------------------- */

/* On a terminal a line that changes; in a log, lines that become rare. */
static bool
is_due(struct tok_pipe *p, double t, bool last)
{
	if (!p->o->log_seconds) {
		return last || t - p->shown >= 0.5;
	}
	if (last || t - p->began < p->wait) {
		return false;
	}
	while (p->wait <= t - p->began) {
		p->wait *= 2;
	}
	return true;
}

static void
show(struct tok_pipe *p, bool last)
{
	double t = now_s(), s = t - p->began;
	int64_t read = p->done_bytes + (p->in ? rt_tok_input_done(p->in) : 0);
	FILE *out = p->o->progress;

	if (!out || !is_due(p, t, last)) {
		return;
	}
	p->shown = t;
	if (p->o->log_seconds) {
		fprintf(out, "%s: ", p->path);
	} else {
		fputc('\r', out);
	}
	fprintf(out, "%.1f", (double)read / 1e6);
	if (p->all_bytes > 0) {
		fprintf(out, " of %.1f", (double)p->all_bytes / 1e6);
	}
	fprintf(out, " MB, %" PRId64 " tokens, %.1f MB/s", p->out.tokens,
		(double)p->counts.bytes / 1e6 / (s > 1e-3 ? s : 1e-3));
	if (p->all_bytes > 0 && read > 0 && !last) {
		fprintf(out, ", %.0f s left",
			s * (double)(p->all_bytes - read) / (double)read);
	}
	fprintf(out, "%s%s", p->o->log_seconds ? "" : "\033[K",
		last || p->o->log_seconds ? "\n" : "");
	fflush(out);
}

static int64_t
all_bytes(const struct rt_token_options *o)
{
	int64_t n = 0;
	struct stat sb;
	size_t i;

	for (i = 0; i < o->ninputs; i++) {
		if (stat(o->inputs[i], &sb) != 0 || !S_ISREG(sb.st_mode)) {
			return -1;
		}
		n += sb.st_size;
	}
	return n;
}

/* ---- the ring --------------------------------------------------------- */

/* Waits for the oldest part and writes its ids. */
static enum rt_status
write_oldest(struct tok_pipe *p)
{
	size_t i = p->written % p->njobs;
	struct tok_job *job = &p->jobs[i];

	pthread_mutex_lock(&p->mutex);
	while (!p->done[i]) {
		pthread_cond_wait(&p->changed, &p->mutex);
	}
	p->done[i] = false;
	pthread_mutex_unlock(&p->mutex);
	p->written++;
	if (job->status != RT_OK) {
		*p->err = job->err;
		return job->status;
	}
	p->counts.documents += job->documents;
	p->counts.bytes += (int64_t)job->text.n;
	show(p, false);
	return rt_tok_output_add(&p->out, &job->ids, p->err);
}

static enum rt_status
drain(struct tok_pipe *p)
{
	enum rt_status status = RT_OK;

	while (p->written < p->filled && status == RT_OK) {
		status = write_oldest(p);
	}
	return status;
}

/* Makes a part of the first n bytes of what was read. */
static enum rt_status
add_part(struct tok_pipe *p, size_t n, const struct tok_job *like)
{
	enum rt_status status = RT_OK;
	struct tok_job *job;

	if (p->filled - p->written == p->njobs) {
		status = write_oldest(p);
	}
	if (status != RT_OK) {
		return status;
	}
	job = &p->jobs[p->filled % p->njobs];
	job->text.n = 0;
	if (!rt_bytes_add(&p->alloc, &job->text, p->text.at, n)) {
		return rt_no_memory(p->err, p->path);
	}
	job->path = p->path;
	job->base = p->base;
	job->part = like->part;
	job->ends = like->ends;
	job->lines = like->lines;
	memmove(p->text.at, p->text.at + n, p->text.n - n);
	p->text.n -= n;
	p->base += (int64_t)n;
	pthread_mutex_lock(&p->mutex);
	p->filled++;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->mutex);
	return RT_OK;
}

/* ---- one input -------------------------------------------------------- */

/* Reads until there are so many bytes, or until the end. */
static enum rt_status
read_up_to(struct tok_pipe *p, size_t want, bool *ended)
{
	enum rt_status status = RT_OK;
	size_t got = 1;

	if (!rt_bytes_reserve(&p->alloc, &p->text, want)) {
		return rt_no_memory(p->err, p->path);
	}
	while (p->text.n < want && status == RT_OK && got > 0) {
		status = rt_tok_input_read(p->in, p->text.at + p->text.n,
					   want - p->text.n, &got, p->err);
		p->text.n += got;
	}
	*ended = got == 0;
	return status;
}

static enum rt_status
fail_uncut(struct tok_pipe *p, const char *what)
{
	struct rt_where where = { p->path, NULL, p->base };

	return rt_fail(p->err, RT_FORMAT, where, "found %s of more than %d "
		       "bytes", what, MOST);
}

/* The last place between two bytes where the text may be cut, or 0. */
static size_t
last_cut(const struct tok_pipe *p, size_t from, size_t to, bool lines)
{
	const char *s = p->text.at;

	for (; to > from; to--) {
		if (lines ? s[to - 1] == '\n'
			  : ((unsigned char)s[to] & 0xc0) != 0x80 &&
			    rt_may_cut(p->t, s, to)) {
			return to;
		}
	}
	return 0;
}

/* Checks what was read up to its last whole character. */
static enum rt_status
check_text(struct tok_pipe *p, size_t *checked, bool ended)
{
	size_t n = p->text.n, ok;
	struct rt_where where = { p->path, NULL, -1 };

	ok = *checked + rt_utf8_check(p->text.at + *checked, n - *checked);
	*checked = ok;
	if (ok == n || (!ended && n - ok < 4)) {
		return RT_OK;
	}
	where.offset = p->base + (int64_t)ok;
	return rt_fail(p->err, RT_FORMAT, where, "found byte 0x%02x, which "
		       "begins no UTF-8 character, expected UTF-8 text",
		       (unsigned char)p->text.at[ok]);
}

static enum rt_status
read_input(struct tok_pipe *p, bool lines)
{
	struct tok_job like = { .part = RT_PART_WHOLE, .lines = lines };
	size_t want = CHUNK, looked = 0, checked = 0, cut;
	enum rt_status status;
	bool ended = false;

	p->base = 0;
	p->text.n = 0;
	for (;;) {
		status = read_up_to(p, want, &ended);
		if (status == RT_OK && !lines) {
			status = check_text(p, &checked, ended);
		}
		if (status != RT_OK) {
			return status;
		}
		if (ended) {
			like.ends = true;
			return add_part(p, p->text.n, &like);
		}
		cut = last_cut(p, looked, lines ? p->text.n : checked - 1,
			       lines);
		if (cut == 0) {
			looked = lines ? p->text.n : checked - 1;
			want *= 2;
			if (want > MOST) {
				return fail_uncut(p, lines ? "a line" :
					"text that cannot be cut");
			}
			continue;
		}
		status = add_part(p, cut, &like);
		if (status != RT_OK) {
			return status;
		}
		like.part = RT_PART_LATER;
		checked -= lines ? 0 : cut;
		looked = 0;
		want = CHUNK;
	}
}

static enum rt_status
add_input(struct tok_pipe *p, const char *path)
{
	bool lines = rt_tok_input_has_lines(path) || p->o->field;
	enum rt_status status;

	p->path = path;
	status = rt_tok_input_open(&p->in, path, &p->alloc, p->err);
	if (status == RT_OK) {
		status = read_input(p, lines);
		p->done_bytes += rt_tok_input_done(p->in);
		rt_tok_input_close(p->in);
	}
	p->in = NULL;
	return status;
}

/* ---- the whole -------------------------------------------------------- */

static enum rt_status
find_end(struct tok_pipe *p)
{
	const char *a, *b;

	p->framing = (struct tok_framing){ p->t, p->o->field ? p->o->field
					   : "text", -1, p->o->bare };
	if (!p->o->end) {
		return RT_OK;
	}
	p->framing.end = rt_tokenizer_id(p->t, p->o->end);
	if (p->framing.end >= 0) {
		return RT_OK;
	}
	a = rt_tokenizer_special(p->t, 0);
	b = a ? rt_tokenizer_special(p->t, 1) : NULL;
	return rt_fail(p->err, RT_RANGE, RT_NOWHERE, "found no token `%s` to "
		       "end documents with in %s, whose special tokens are "
		       "%s%s%s%s", rt_show_name(p->o->end).text,
		       rt_show_path(p->o->tokenizer).text,
		       a ? rt_show_name(a).text : "none", b ? ", " : "",
		       b ? rt_show_name(b).text : "", b ? ", .." : "");
}

static enum rt_status
make_ring(struct tok_pipe *p)
{
	size_t i;

	p->njobs = 2 * (size_t)p->o->threads + 1;
	p->jobs = rt_resize(&p->alloc, NULL, p->njobs, sizeof *p->jobs);
	p->done = rt_resize(&p->alloc, NULL, p->njobs, sizeof *p->done);
	if (!p->jobs || !p->done) {
		rt_release(&p->alloc, p->jobs);
		p->jobs = NULL;
		return rt_no_memory(p->err, NULL);
	}
	for (i = 0; i < p->njobs; i++) {
		p->jobs[i] = (struct tok_job){ .ids.alloc = p->alloc };
		p->done[i] = false;
	}
	return start_workers(p);
}

static enum rt_status
run(struct tok_pipe *p, const char *path)
{
	enum rt_status status = rt_tokenizer_open(&p->t, p->o->tokenizer,
						  &p->alloc, p->err);
	size_t i;

	if (status != RT_OK) {
		return status;
	}
	status = find_end(p);
	if (status == RT_OK) {
		status = rt_tok_output_open(&p->out, path,
			rt_tokenizer_limit(p->t), &p->alloc, p->err);
	}
	if (status == RT_OK) {
		status = make_ring(p);
	}
	for (i = 0; i < p->o->ninputs && status == RT_OK; i++) {
		status = add_input(p, p->o->inputs[i]);
	}
	if (status == RT_OK) {
		status = drain(p);
	}
	if (status == RT_OK) {
		show(p, true);
		p->counts.tokens = p->out.tokens;
		return rt_tok_output_finish(&p->out, p->err);
	}
	rt_tok_say_byte(p->err);
	if (p->shown > 0 && !p->o->log_seconds) {
		fputc('\n', p->o->progress);
	}
	return status;
}

int
rt_tokenize_threads(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	return cores < 1 ? 1 : cores > 16 ? 16 : (int)cores;
}

enum rt_status
rt_tokens_write(const char *path, const struct rt_token_options *o,
		struct rt_token_counts *counts, struct rt_error *err)
{
	struct tok_pipe p = { .o = o, .alloc = rt_alloc_or_libc(NULL),
			      .err = err, .out = { .fd = -1 },
			      .all_bytes = all_bytes(o), .began = now_s(),
			      .wait = o->log_seconds,
			      .mutex = PTHREAD_MUTEX_INITIALIZER,
			      .changed = PTHREAD_COND_INITIALIZER };
	enum rt_status status;
	size_t i;

	p.out.alloc = p.alloc;
	err->offset = -1;
	if (o->threads < 1 || o->threads > MAX_THREADS) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "found %d threads, "
			       "expected 1 to %d", o->threads, MAX_THREADS);
	}
	status = run(&p, path);
	stop_workers(&p);
	rt_tok_output_release(&p.out);
	for (i = 0; i < p.njobs && p.jobs; i++) {
		rt_release(&p.alloc, p.jobs[i].text.at);
		rt_ids_release(&p.jobs[i].ids);
	}
	rt_release(&p.alloc, p.jobs);
	rt_release(&p.alloc, p.done);
	rt_release(&p.alloc, p.text.at);
	rt_tokenizer_free(p.t);
	*counts = p.counts;
	return status;
}

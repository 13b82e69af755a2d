/*
 * llmc sweep: reads the lists of targets and sizes, checks every cell before
 * any search, plans them on threads, and orders what came of them.  Which
 * thread plans which cell changes nothing that is printed.
 */
#define _XOPEN_SOURCE 700	/* pthread_cond_timedwait, alarm */

#include "frontend/frontend.h"
#include "frontend/tool/sweep.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 64
#define USUAL_THREADS 8	/* at most, where --threads is not given */
#define SHOW_NS 200000000	/* from a progress bar to the next */
#define BAR 24			/* characters of it */

static const struct span nowhere;

/* ---- cells ---- */

/* "seq=1,2" is read as "seq={1,2}", so that both may list progressions. */
static bool
read_dims(struct driver *d, const char *option, const char *text,
	  struct sweep_words *out)
{
	const char *eq = strchr(text, '=');

	if (eq && !strchr(text, '{')) {
		text = arena_printf(&d->ctx.perm, "%.*s={%s}",
				    (int)(eq - text), text, eq + 1);
	}
	return sweep_read_list(d, option, text, out);
}

/* One dim with all its sizes. */
struct dim_sizes {
	const char *name;
	VEC(int64_t) at;
};

struct dim_lists {
	struct dim_sizes *at;
	uint32_t n, cap;
};

static struct dim_sizes *
sizes_of(struct driver *d, struct dim_lists *all, const char *name)
{
	uint32_t i;

	for (i = 0; i < all->n; i++) {
		if (strcmp(all->at[i].name, name) == 0) {
			return &all->at[i];
		}
	}
	VEC_PUSH(&d->ctx.perm, all, ((struct dim_sizes){ .name = name }));
	return &all->at[all->n - 1];
}

/* Adds a word like "seq=4096". */
static bool
add_size(struct driver *d, const char *word, struct dim_lists *all)
{
	const char *eq = strchr(word, '=');
	struct dim_sizes *to;
	int64_t size;

	if (!eq || eq == word ||
	    !num_parse_int(eq + 1, strlen(eq + 1), &size) || size < 1) {
		diag_error(&d->ctx.diags, nowhere, "a dim of a sweep is "
			   "NAME=N,M,.., and --batch N,M,.., with whole "
			   "numbers of at least 1; found `%s`", word);
		return false;
	}
	to = sizes_of(d, all, arena_strndup(&d->ctx.perm, word,
					    (size_t)(eq - word)));
	VEC_PUSH(&d->ctx.perm, &to->at, size);
	return true;
}

static bool
read_sizes(struct driver *d, struct dim_lists *all)
{
	const struct opt_value *dims = &d->opts.at[OPT_DIM];
	const struct opt_value *batch = &d->opts.at[OPT_BATCH];
	struct sweep_words words = { 0 };
	uint32_t i;

	for (i = 0; i < dims->list.n; i++) {
		if (!read_dims(d, "dim", dims->list.at[i], &words)) {
			return false;
		}
	}
	for (i = 0; i < batch->list.n; i++) {
		if (!read_dims(d, "batch", arena_printf(&d->ctx.perm,
				"batch=%s", batch->list.at[i]), &words)) {
			return false;
		}
	}
	for (i = 0; i < words.n; i++) {
		if (!add_size(d, words.at[i], all)) {
			return false;
		}
	}
	return true;
}

/* Whether the fewest nodes of this target are asked for. */
static bool
asks_nodes(const struct sweep *s, const char *target)
{
	return s->days > 0 && s->has_tokens &&
	       fe_target_of_nodes(&s->d->ctx, target, 1);
}

/* A shell that expands {4,8,16,..,64} leaves the dots in a word. */
static void
note_shell(struct driver *d, const char *word)
{
	if (strstr(word, "..") && !strchr(word, '/')) {
		diag_note(&d->ctx.diags, nowhere, "a shell expands braces that "
			  "are not quoted: write '{4,8,16,..,64}' in quotes");
	}
}

static bool
read_targets(struct sweep *s, struct sweep_words *out)
{
	struct driver *d = s->d;
	const struct opt_value *v = &d->opts.at[OPT_TARGET];
	const char *two;
	struct target t;
	uint32_t i;

	for (i = 0; i < v->list.n; i++) {
		if (!sweep_read_list(d, "target", v->list.at[i], out)) {
			return false;
		}
	}
	for (i = 0; i < out->n; i++) {
		two = asks_nodes(s, out->at[i])
			? fe_target_of_nodes(&d->ctx, out->at[i], 2) : NULL;
		if (!fe_target(&d->ctx, two ? two : out->at[i], &t)) {
			note_shell(d, out->at[i]);
			return false;
		}
	}
	return true;
}

/* The sizes of cell number `nth`: the last dim changes first. */
static struct opt_dim *
dims_of(struct sweep *s, const struct dim_lists *all, uint32_t nth)
{
	struct opt_dim *at = arena_alloc(&s->d->ctx.perm,
					 (all->n + 1) * sizeof *at);
	uint32_t i;

	for (i = all->n; i-- > 0;) {
		at[i].name = all->at[i].name;
		at[i].size = all->at[i].at.at[nth % all->at[i].at.n];
		nth /= all->at[i].at.n;
	}
	return at;
}

static void
make_job(struct sweep *s, const char *target, const struct opt_dim *dims,
	 struct sweep_job *job)
{
	uint32_t i, n;

	job->asks_nodes = asks_nodes(s, target);
	n = job->asks_nodes ? SWEEP_SLOTS : 1;
	job->row = arena_alloc(&s->d->ctx.perm, n * sizeof *job->row);
	for (i = 0; i < n; i++) {
		job->row[i].cell = (struct sweep_cell){
			.target = target, .dims = dims, .ndims = s->ndims
		};
	}
}

static bool
make_jobs(struct sweep *s, const struct sweep_words *targets,
	  const struct dim_lists *all)
{
	struct arena *a = &s->d->ctx.perm;
	int64_t each = 1;
	uint32_t i;

	for (i = 0; i < all->n; i++) {
		each *= all->at[i].at.n;
		if (each * targets->n > SWEEP_MOST) {
			diag_error(&s->d->ctx.diags, nowhere, "this sweep has "
				   "more than %d cells", SWEEP_MOST);
			return false;
		}
	}
	s->njobs = (uint32_t)each * targets->n;
	s->job = arena_alloc(a, s->njobs * sizeof *s->job);
	s->ndims = all->n;
	for (i = 0; i < s->njobs; i++) {
		make_job(s, targets->at[i / (uint32_t)each],
			 dims_of(s, all, i % (uint32_t)each), &s->job[i]);
	}
	return true;
}

/* ---- threads ---- */

struct sweep_work {
	struct sweep *s;
	atomic_uint next;	/* cell that no thread has begun */
	pthread_mutex_t lock;
	pthread_cond_t ended;	/* a thread */
	uint32_t done, running;	/* cells; threads */
};

static void *
run_cells(void *user)
{
	struct sweep_work *w = user;
	struct sweep_thread t;
	uint32_t i;

	sweep_open_thread(&t);
	while ((i = atomic_fetch_add(&w->next, 1)) < w->s->njobs) {
		struct sweep_job *job = &w->s->job[i];

		if (job->asks_nodes) {
			sweep_find_nodes(w->s, &t, job);
		} else {
			sweep_run_cell(w->s, &t, job->row);
		}
		pthread_mutex_lock(&w->lock);
		w->done++;
		pthread_mutex_unlock(&w->lock);
	}
	sweep_close_thread(&t);
	pthread_mutex_lock(&w->lock);
	w->running--;
	pthread_cond_signal(&w->ended);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static uint32_t
count_threads(const struct sweep *s)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	int64_t n = cores < USUAL_THREADS ? cores : USUAL_THREADS;

	if (s->d->opts.at[OPT_THREADS].given) {
		n = s->d->opts.at[OPT_THREADS].num;
		n = n < MOST_THREADS ? n : MOST_THREADS;
	}
	n = n < s->njobs ? n : s->njobs;
	return n > 1 ? (uint32_t)n : 1;
}

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* "[########........] 8 of 20 cells, 3 s, about 5 s more" */
static void
show(const struct sweep_work *w, double since_s)
{
	uint32_t full = BAR * w->done / w->s->njobs, i;
	char bar[BAR + 1];

	for (i = 0; i < BAR; i++) {
		bar[i] = i < full ? '#' : '.';
	}
	bar[BAR] = '\0';
	fprintf(stderr, "\r[%s] %u of %u cells, %.0f s", bar, w->done,
		w->s->njobs, since_s);
	if (w->done) {
		fprintf(stderr, ", about %.0f s more   ", since_s *
			(double)(w->s->njobs - w->done) / w->done);
	}
}

/* Waits for the threads; on a terminal, with a bar from a second on. */
static void
wait_for_threads(struct sweep_work *w)
{
	bool shows = isatty(STDERR_FILENO), shown = false;
	double begin_s = now_s();
	struct timespec t;

	if (shows) {
		alarm(0);	/* main's progress would be written across it */
	}
	pthread_mutex_lock(&w->lock);
	while (w->running > 0) {
		if (shows && now_s() - begin_s > 1) {
			show(w, now_s() - begin_s);
			shown = true;
		}
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_nsec += SHOW_NS;
		t.tv_sec += t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&w->ended, &w->lock, &t);
	}
	pthread_mutex_unlock(&w->lock);
	if (shown) {
		fprintf(stderr, "\r%72s\r", "");
	}
}

/* If no thread can be created, this one does the work. */
static void
run_all(struct sweep *s)
{
	pthread_t threads[MOST_THREADS];
	struct sweep_work w = { .s = s };
	uint32_t want = count_threads(s), n = 0;

	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.ended, NULL);
	w.running = want;
	while (n < want &&
	       pthread_create(&threads[n], NULL, run_cells, &w) == 0) {
		n++;
	}
	pthread_mutex_lock(&w.lock);
	w.running -= want - n;
	w.running += n == 0;
	pthread_mutex_unlock(&w.lock);
	if (n == 0) {
		run_cells(&w);
	}
	wait_for_threads(&w);
	while (n > 0) {
		pthread_join(threads[--n], NULL);
	}
	pthread_cond_destroy(&w.ended);
	pthread_mutex_destroy(&w.lock);
}

/* ---- order ---- */

/* What the table is sorted by; an unknown number is last. */
static double
key_of(const struct sweep_row *r, const char *by)
{
	double kept = isnan(r->goodput) ? 1 : r->goodput;
	double us = isnan(sweep_days(r)) ? 1e6 / r->tokens_s / kept
					 : sweep_days(r);
	double usd = us * r->usd_h;
	double key = strcmp(by, "usd") == 0 ? usd
		: strcmp(by, "usd-days") == 0 ? usd * us : us;

	return r->outcome != SWEEP_FITS || isnan(key) ? INFINITY : key;
}

static bool
is_after(const struct sweep_row *a, const struct sweep_row *b, const char *by)
{
	double x = key_of(a, by), y = key_of(b, by);

	return x != y ? x > y : a->outcome > b->outcome;
}

/* The rows of the table, in the order of the jobs. */
static void
gather(struct sweep *s)
{
	struct arena *a = &s->d->ctx.perm;
	VEC(struct sweep_row *) rows = { 0 };
	uint32_t i;

	for (i = 0; i < s->njobs; i++) {
		struct sweep_job *j = &s->job[i];

		if (!j->asks_nodes) {
			VEC_PUSH(a, &rows, j->row);
			continue;
		}
		if (j->less) {
			VEC_PUSH(a, &rows, j->less);
		}
		if (j->enough) {
			VEC_PUSH(a, &rows, j->enough);
		}
	}
	s->sorted = rows.at;
	s->n = rows.n;
}

static void
sort(struct sweep *s, const char *by)
{
	uint32_t i, k;

	for (i = 1; i < s->n; i++) {
		struct sweep_row *r = s->sorted[i];

		for (k = i; k > 0 && is_after(s->sorted[k - 1], r, by); k--) {
			s->sorted[k] = s->sorted[k - 1];
		}
		s->sorted[k] = r;
	}
}

/* The front of time over dollars: no other cell is better in one of them and
 * as good in the other. */
static void
mark_front(struct sweep *s)
{
	uint32_t i, k;

	for (i = 0; i < s->n; i++) {
		double time = key_of(s->sorted[i], "time");
		double usd = key_of(s->sorted[i], "usd");
		bool is_best = isfinite(usd);

		for (k = 0; k < s->n && is_best; k++) {
			double t = key_of(s->sorted[k], "time");
			double u = key_of(s->sorted[k], "usd");

			is_best = !(t <= time && u <= usd &&
				    (t < time || u < usd));
		}
		s->sorted[i]->is_on_front = is_best;
	}
}

/* ---- the whole ---- */

static void
print(const struct sweep *s, struct buf *out)
{
	if (drv_given(s->d, OPT_JSON)) {
		sweep_print_json(s, out);
	} else if (drv_given(s->d, OPT_CSV)) {
		sweep_print_csv(s, out);
	} else {
		sweep_print_table(s, out);
	}
}

/* A question is checked for one node. */
static bool
check_jobs(const struct sweep *s)
{
	uint32_t i;

	for (i = 0; i < s->njobs; i++) {
		struct sweep_cell cell = s->job[i].row->cell;

		if (s->job[i].asks_nodes) {
			cell.target = fe_target_of_nodes(&s->d->ctx,
							 cell.target, 1);
		}
		if (!sweep_check_cell(s, &cell, i == 0)) {
			return false;
		}
	}
	return true;
}

/* Options that do not go with each other. */
static bool
check_options(struct driver *d)
{
	if (!drv_given(d, OPT_TARGET)) {
		diag_error(&d->ctx.diags, nowhere, "`llmc sweep` needs "
			   "--target, such as 'h100x8x{4,8,16}'");
		return false;
	}
	if (drv_given(d, OPT_CSV) && drv_given(d, OPT_JSON)) {
		diag_error(&d->ctx.diags, nowhere, "--csv and --json are two "
			   "forms of one table: one of them is legal");
		return false;
	}
	return true;
}

int
drv_sweep(struct driver *d)
{
	const char *by = drv_text(d, OPT_SORT);
	struct sweep_words targets = { 0 };
	struct dim_lists dims = { 0 };
	struct sweep s = { .d = d };
	uint32_t i;

	if (!check_options(d)) {
		return DRV_BAD_USAGE;
	}
	if (!drv_read_source(d, d->opts.input, &s.file) ||
	    !sweep_read_asked(&s)) {
		return DRV_BAD_INPUT;
	}
	s.has_tokens = sweep_has_tokens(&s);
	if (!read_targets(&s, &targets) || !read_sizes(d, &dims) ||
	    !make_jobs(&s, &targets, &dims) || !check_jobs(&s)) {
		return DRV_BAD_INPUT;
	}
	d->pm.crash->doing = "sweep";
	run_all(&s);
	gather(&s);
	sort(&s, by ? by : "time");
	mark_front(&s);
	sweep_mark_answers(&s);
	print(&s, &d->out);
	for (i = 0; i < s.n; i++) {
		sweep_drop_row(s.sorted[i]);
	}
	return DRV_OK;
}

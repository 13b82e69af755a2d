/*
 * The command `bench`: the time of phases, kernels and collectives, beside what
 * was predicted.
 *
 * Each rank counts its own by name (tally.c).  Ranks of different pipeline
 * stages run different ones, so the records of all ranks are broadcast, one
 * rank after the other, and merged.
 */
#include "runtime/train/rank.h"
#include "runtime/train/tally.h"

#include <stdlib.h>
#include <string.h>

/* Steps that are not counted: pages and caches are cold. */
#define WARM_STEPS 1
/* On a GPU: kernels one by one, then the capture of a graph. */
#define WARM_ON_DEVICE 3
#define DEFAULT_STEPS 5

#define RECORD_WORDS (sizeof(struct rt_tally_record) / sizeof(uint64_t))

struct records {
	struct rt_tally_record *at;
	size_t n;
};

/* ---- from all ranks ---- */

/* `same_rank`: two keys of one name on one rank count as one rank. */
static void
merge(struct records *all, const struct rt_tally_record *r, bool same_rank)
{
	struct rt_tally_record *to;
	size_t i;

	for (i = 0; i < all->n; i++) {
		to = &all->at[i];
		if (to->kind == r->kind && strcmp(to->what, r->what) == 0) {
			to->calls += r->calls;
			to->ranks += same_rank ? 0 : r->ranks;
			to->ms += r->ms;
			to->us += r->us;
			to->flops += r->flops;
			to->bytes += r->bytes;
			return;
		}
	}
	all->at[all->n++] = *r;
}

/* The records of this rank, merged by name. */
static enum rt_status
own_records(const struct rt_tally *t, struct records *own,
	    struct rt_error *err)
{
	size_t i;

	own->at = calloc(t->n + 1, sizeof *own->at);
	if (!own->at || t->lost) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < t->capacity; i++) {
		if (t->at[i].key) {
			merge(own, &t->at[i].is, true);
		}
	}
	return RT_OK;
}

/* The records of all ranks, merged by name. */
static enum rt_status
all_records(struct rt_run *r, const struct records *own, struct records *all,
	    struct rt_error *err)
{
	int64_t most = (int64_t)own->n, rank;
	enum rt_status status = rt_comm_max_i64(r->comm, &most, 1, err);
	size_t n, i;
	struct rt_tally_record *one;

	if (status != RT_OK) {
		return status;
	}
	n = (size_t)most;
	one = calloc(n + 1, sizeof *one);
	all->at = calloc(n * (size_t)r->plan->nranks + 1, sizeof *all->at);
	if (!one || !all->at) {
		free(one);
		return rt_no_memory(err, NULL);
	}
	for (rank = 0; rank < r->plan->nranks && status == RT_OK; rank++) {
		memset(one, 0, n * sizeof *one);
		if (rank == r->rank && own->n > 0) {
			memcpy(one, own->at, own->n * sizeof *one);
		}
		status = rt_comm_sum_u64(r->comm, (uint64_t *)(void *)one,
					 (int64_t)(n * RECORD_WORDS), err);
		for (i = 0; i < n && status == RT_OK; i++) {
			if (one[i].calls > 0) {
				merge(all, &one[i], false);
			}
		}
	}
	free(one);
	return status;
}

/* The time of kernels in one step, by rank; 0: not on this rank. */
static enum rt_status
own_time(struct rt_run *r, const struct records *own, int64_t steps,
	 double *at, struct rt_error *err)
{
	size_t i;

	for (i = 0; i < own->n; i++) {
		if (own->at[i].kind == RT_TALLY_KERNEL) {
			at[r->rank] += own->at[i].ms / (double)steps;
		}
	}
	return rt_comm_sum_f64(r->comm, r->axes, at, r->plan->nranks, err);
}

/* ---- showing ---- */

struct report {
	const struct rt_plan *plan;
	struct records all;
	int64_t steps;
	double step_ms;		/* the median */
	int64_t median;		/* its number, from 0 */
	struct rt_times times;	/* of that step, the mean over ranks */
	/* the ranks whose kernels took longest and shortest, per step */
	int64_t slow, fast;
	double slow_ms, fast_ms;
};

static int
by_kind_and_time(const void *a, const void *b)
{
	const struct rt_tally_record *x = a, *y = b;
	double s = x->ms / (double)x->ranks, t = y->ms / (double)y->ranks;

	if (x->kind != y->kind) {
		return x->kind < y->kind ? -1 : 1;
	}
	return s > t ? -1 : s < t ? 1 : strcmp(x->what, y->what);
}

/* A record per step and rank that has it. */
struct report_line {
	double calls, ms, predicted_ms, ratio, gflops, gbs;
};

static struct report_line
line_of(const struct report *p, const struct rt_tally_record *r)
{
	double n = (double)(r->ranks * p->steps);
	struct report_line l = { (double)r->calls / n, r->ms / n,
			  r->us * 1e-3 / n, 0, 0, 0 };

	if (r->us > 0) {
		l.ratio = r->ms / (r->us * 1e-3);
	}
	if (r->ms > 0) {
		l.gflops = r->flops / r->ms * 1e-6;
		l.gbs = r->bytes / r->ms * 1e-6;
	}
	return l;
}

static void
show_number(FILE *out, double v, int width, int digits)
{
	if (v > 0) {
		fprintf(out, " %*.*f", width, digits, v);
	} else {
		fprintf(out, " %*s", width, "-");
	}
}

static void
show_record(const struct report *p, const struct rt_tally_record *r, FILE *out)
{
	struct report_line l = line_of(p, r);

	fprintf(out, "%7.4g %9.3f", l.calls, l.ms);
	if (r->kind != RT_TALLY_COLL) {
		show_number(out, l.predicted_ms, 9, 3);
		show_number(out, l.ratio, 6, 2);
	}
	if (r->kind == RT_TALLY_KERNEL) {
		show_number(out, l.gflops, 8, 1);
		show_number(out, l.gbs, 6, 1);
	}
	fprintf(out, "  %s\n", r->what);
}

static void
show_text(const struct report *p, FILE *out)
{
	static const char *const heads[] = {
		[RT_TALLY_PHASE] = "  calls        ms predicted  ratio  "
			"phase",
		[RT_TALLY_KERNEL] = "  calls        ms predicted  ratio  "
			"GFLOP/s   GB/s  kernel",
		[RT_TALLY_COLL] = "  calls        ms  collective"
	};
	double predicted_ms = p->plan->step_us * 1e-3;
	double second = p->step_ms * 1e-3;
	int64_t kind = -1;
	size_t i;

	fprintf(out, "%-10s %9.3f ms, %.0f tokens/s", "step", p->step_ms,
		(double)p->plan->tokens / second);
	if (p->plan->peak > 0) {
		fprintf(out, ", MFU %.1f%%", 100 * p->plan->flops / second /
						     p->plan->peak);
	}
	fprintf(out, "\n%-10s %9.3f ms, ratio %.3f\n", "predicted",
		predicted_ms, predicted_ms > 0 ? p->step_ms / predicted_ms
					       : 0);
	fprintf(out, "%-10s %9.3f ms\n%-10s %9.3f ms\n%-10s %9.3f ms\n"
		"%-10s %9.3f ms\n%-10s %9.3f ms\n", "compute",
		p->times.compute, "collective", p->times.coll, "waiting",
		p->times.waiting, "update", p->times.update, "data",
		p->times.data);
	if (p->slow_ms > p->fast_ms) {
		fprintf(out, "%-10s %9.3f ms on rank %lld, %.3f ms on rank "
			"%lld\n", "kernels", p->slow_ms, (long long)p->slow,
			p->fast_ms, (long long)p->fast);
	}
	for (i = 0; i < p->all.n; i++) {
		if (p->all.at[i].kind != kind) {
			kind = p->all.at[i].kind;
			fprintf(out, "\n%s\n", heads[kind]);
		}
		show_record(p, &p->all.at[i], out);
	}
}

static void
show_json(const struct report *p, FILE *out)
{
	static const char *const kinds[] = { "phase", "kernel",
						     "collective" };
	size_t i;

	fprintf(out, "{\n  \"step_ms\": %.17g,\n  \"predicted_ms\": %.17g,\n"
		"  \"steps\": %lld,\n  \"tokens_per_s\": %.17g,\n"
		"  \"compute_ms\": %.17g,\n  \"collective_ms\": %.17g,\n"
		"  \"waiting_ms\": %.17g,\n  \"update_ms\": %.17g,\n"
		"  \"data_ms\": %.17g,\n  \"slowest_rank\": %lld,\n"
		"  \"slowest_ms\": %.17g,\n  \"fastest_rank\": %lld,\n"
		"  \"fastest_ms\": %.17g,\n  \"parts\": [", p->step_ms,
		p->plan->step_us * 1e-3, (long long)p->steps,
		(double)p->plan->tokens / (p->step_ms * 1e-3),
		p->times.compute, p->times.coll, p->times.waiting,
		p->times.update, p->times.data, (long long)p->slow,
		p->slow_ms, (long long)p->fast, p->fast_ms);
	for (i = 0; i < p->all.n; i++) {
		const struct rt_tally_record *r = &p->all.at[i];
		struct report_line l = line_of(p, r);

		fprintf(out, "%s\n    {\"kind\": \"%s\", \"what\": ",
			i ? "," : "", kinds[r->kind]);
		rt_json_text(out, r->what);
		fprintf(out, ", \"ranks\": %lld, \"calls\": %.17g, "
			"\"ms\": %.17g, \"predicted_ms\": %.17g, "
			"\"gflops\": %.17g, \"gbs\": %.17g}",
			(long long)r->ranks, l.calls, l.ms, l.predicted_ms,
			l.gflops, l.gbs);
	}
	fputs("\n  ]\n}\n", out);
}

/* ---- running ---- */

struct timed_step {
	int64_t number;		/* from 0 */
	double step_ms;
	struct rt_times times;
};

static int
by_time(const void *a, const void *b)
{
	double x = ((const struct timed_step *)a)->step_ms;
	double y = ((const struct timed_step *)b)->step_ms;

	return x < y ? -1 : x > y;
}

/* A step whose parts are measured, if r->tally is set. */
static enum rt_status
begin_step(struct rt_run *r, struct rt_error *err)
{
	return r->tally && r->tally->trace
		? rt_trace_step(r->tally->trace, err) : RT_OK;
}

/*
 * The time of one kernel on an asynchronous device is known only if the host
 * waits for it.  So whole steps are measured first, and their parts in further
 * steps.
 */
static enum rt_status
run_parts(struct rt_run *r, struct rt_tally *tally, struct report *p,
	  struct timed_step *t, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	struct rt_outcome c;
	int64_t i;

	r->tally = tally;
	r->device->timed = true;
	for (i = 0; i < p->steps && status == RT_OK; i++) {
		status = begin_step(r, err);
		if (status == RT_OK) {
			status = rt_run_step(r, p->steps + WARM_ON_DEVICE + 1 +
					     i, NULL, true, false, &c, err);
		}
		if (status == RT_OK) {
			t[i] = (struct timed_step){ i, c.step_ms, c.times };
		}
	}
	r->device->timed = false;
	r->tally = NULL;
	if (status == RT_OK) {	/* a trace shows the median of these */
		qsort(t, (size_t)p->steps, sizeof *t, by_time);
		p->median = t[p->steps / 2].number;
	}
	return status;
}

static enum rt_status
run_steps(struct rt_run *r, struct rt_tally *tally, struct report *p,
	  struct rt_error *err)
{
	bool apart = r->device->kind->last_ms != NULL;
	int64_t warm = apart ? WARM_ON_DEVICE : WARM_STEPS;
	struct timed_step *t = calloc((size_t)p->steps, sizeof *t);
	enum rt_status status = t ? RT_OK : rt_no_memory(err, NULL);
	struct rt_outcome c;
	int64_t i;

	for (i = -warm; i < p->steps && status == RT_OK; i++) {
		r->tally = i < 0 || apart ? NULL : tally;
		status = begin_step(r, err);
		if (status == RT_OK) {
			status = rt_run_step(r, i + warm + 1, NULL, true,
					     false, &c, err);
		}
		if (status == RT_OK && i >= 0) {
			t[i] = (struct timed_step){ i, c.step_ms, c.times };
		}
	}
	r->tally = NULL;
	if (status == RT_OK) {
		qsort(t, (size_t)p->steps, sizeof *t, by_time);
		p->step_ms = t[p->steps / 2].step_ms;
		p->times = t[p->steps / 2].times;
		p->median = t[p->steps / 2].number;
	}
	if (status == RT_OK && apart) {
		status = run_parts(r, tally, p, t, err);
	}
	free(t);
	return status;
}

static enum rt_status
find_stragglers(struct rt_run *r, const struct records *own, struct report *p,
		struct rt_error *err)
{
	double *at = calloc((size_t)r->plan->nranks, sizeof *at);
	enum rt_status status = at ? own_time(r, own, p->steps, at, err)
				   : rt_no_memory(err, NULL);
	int64_t i;

	for (i = 1; i < r->plan->nranks && status == RT_OK; i++) {
		p->slow = at[i] > at[p->slow] ? i : p->slow;
		p->fast = at[i] < at[p->fast] ? i : p->fast;
	}
	if (status == RT_OK) {
		p->slow_ms = at[p->slow];
		p->fast_ms = at[p->fast];
	}
	free(at);
	return status;
}

/* The step that rank 0 found to be the median. */
static enum rt_status
write_trace(struct rt_run *r, struct rt_trace *t, const struct report *p,
	    struct rt_error *err)
{
	int64_t step = p->median;
	enum rt_status status = rt_comm_spread(r->comm, 0, &step, sizeof step,
					       err);

	return status == RT_OK ? rt_trace_write(t, r, step, err) : status;
}

static enum rt_status
gather(struct rt_run *r, const struct rt_tally *tally, struct records *own,
       struct report *p, struct rt_error *err)
{
	enum rt_status status = own_records(tally, own, err);

	if (status == RT_OK) {
		status = find_stragglers(r, own, p, err);
	}
	return status == RT_OK ? all_records(r, own, &p->all, err) : status;
}

enum rt_status
rt_bench(struct rt_run *r, const struct rt_options *o, FILE *out,
	 struct rt_error *err)
{
	struct report p = { .plan = r->plan,
			    .steps = o->steps ? o->steps : DEFAULT_STEPS };
	struct rt_trace trace = { .draw = r->program->draw };
	struct rt_tally tally = { .trace = o->trace ? &trace : NULL };
	struct records own = { 0 };
	enum rt_status status = o->trace && r->rank == 0
		? rt_trace_open(&trace, o->trace, err) : RT_OK;

	if (status == RT_OK) {
		status = rt_run_start(r, err);
	}
	if (status == RT_OK) {
		status = run_steps(r, &tally, &p, err);
	}
	if (status == RT_OK) {
		status = gather(r, &tally, &own, &p, err);
	}
	if (status == RT_OK && o->trace) {
		status = write_trace(r, &trace, &p, err);
	}
	if (status == RT_OK && r->rank == 0) {
		qsort(p.all.at, p.all.n, sizeof *p.all.at, by_kind_and_time);
		(o->json ? show_json : show_text)(&p, out);
	}
	rt_trace_release(&trace);
	free(tally.at);
	free(own.at);
	free(p.all.at);
	return status;
}

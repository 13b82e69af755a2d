/*
 * The command `train`: steps, evaluations and checkpoints, until the last step
 * or until a rank gets a signal to end.  All ranks take the same decisions,
 * because these depend only on numbers that a step has summed over all ranks.
 */
#include "runtime/files.h"
#include "runtime/train/rank.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * How long to wait for the lock of another run: a little more than ranks get to
 * end before they are killed.
 */
#define CLAIM_S 10.0
/* Part of the identity of data that is not shuffled. */
#define IN_ORDER UINT64_C(0x66696c65)
/* Times the token that ends documents, plus 1: another part. */
#define DOCUMENTS UINT64_C(0x9e3779b97f4a7c15)
/* The same of the token that ends prefixes. */
#define PREFIXES UINT64_C(0xc2b2ae3d27d4eb4f)
/* The same of the label that does not count. */
#define IGNORED UINT64_C(0x165667b19e3779f9)

struct train {
	struct rt_run *r;
	const struct rt_options *o;
	const volatile sig_atomic_t *signalled;	/* a signal's number, or 0 */
	struct rt_log *log;	/* NULL on all ranks but 0 */
	struct rt_blend *blend;	/* NULL: drawn */
	struct rt_eval_set sets[RT_BLEND_SOURCES];
	int64_t nsets;
	struct rt_progress at;
	uint64_t data;		/* identity, on rank 0; 0: drawn */
	int64_t steps;		/* in all */
	int64_t saved, evaluated, exported;	/* last step of each */
	double checkpoint_ms;	/* since the last line of the log */
	struct rt_behind *behind;	/* NULL: steps wait for saves */
	/* of the last save: when it was copied, and how long steps waited */
	double copied_ms, stall_ms;
	double begun_ms;	/* when the first step began */
	int64_t first;		/* that step, less 1 */
	int64_t device_bytes;	/* as of rt_log_step */
	int claim;		/* lock of the folder of checkpoints; or -1 */
	bool stop;
	char before[RT_SETTINGS_BYTES];	/* settings of the checkpoint, or "" */
};

/* ---- the beginning ---- */

/*
 * Resumes from a checkpoint; *found is false: there is none, and none was
 * named.
 */
static enum rt_status
resume_checkpoint(struct train *t, bool *found, struct rt_error *err)
{
	const struct rt_options *o = t->o;
	const char *path = o->resume_path ? o->resume_path : o->checkpoint;
	struct rt_store store = rt_run_store(t->r);
	enum rt_status status = rt_checkpoint_load(&store, path, &t->at, err);

	*found = status == RT_OK;
	if (status == RT_RANGE && !o->resume_path) {
		return RT_OK;
	}
	if (status == RT_OK && o->seed >= 0 &&
	    (uint64_t)o->seed != t->at.seed) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the checkpoint is "
			"of a run of seed %llu, and --seed says %lld: leave "
			"it out", (unsigned long long)t->at.seed,
			(long long)o->seed);
	}
	if (status == RT_OK) {
		t->r->env.seed = (int64_t)t->at.seed;
	}
	return status;
}

static void
say_start(struct train *t, bool resumed)
{
	const struct rt_plan *p = t->r->plan;
	char line[256];

	snprintf(line, sizeof line, "%s: %lld rank%s of %lld thread%s, %s %lld",
		 rt_show_name(p->model).text, (long long)p->nranks,
		 p->nranks == 1 ? "" : "s",
		 (long long)rt_workers_count(t->r->workers),
		 rt_workers_count(t->r->workers) == 1 ? "" : "s",
		 resumed ? "resumed at step" : "seed",
		 resumed ? (long long)t->at.step : (long long)t->at.seed);
	rt_log_event(t->log, resumed ? "resume" : "start", line,
		"\"step\": %lld, \"sequences\": %lld, \"seed\": %llu, "
		"\"ranks\": %lld, \"threads\": %lld, \"steps\": %lld",
		(long long)t->at.step, (long long)t->at.sequences,
		(unsigned long long)t->at.seed, (long long)p->nranks,
		(long long)rt_workers_count(t->r->workers),
		(long long)t->steps);
}

/* Says of each source of a blend how much of it the run reads. */
static void
say_sources(struct train *t)
{
	int64_t n = t->blend ? rt_blend_count(t->blend) : 0, i;
	char line[256];

	for (i = 0; i < n && n > 1; i++) {
		struct rt_blended s = rt_blend_after(t->blend, i, t->steps *
						     t->r->plan->batch);
		double epochs = (double)s.consumed / (double)s.sequences;

		snprintf(line, sizeof line, "data %.4g of %s%s: %lld "
			 "sequences, %.2f epochs by step %lld", s.share,
			 rt_show_path(t->o->sources.at[i].paths[0]).text,
			 t->o->sources.at[i].npaths > 1 ? " .." : "",
			 (long long)s.sequences, epochs, (long long)t->steps);
		rt_log_event(t->log, "data", line, "\"source\": %lld, "
			     "\"share\": %.17g, \"sequences\": %lld, "
			     "\"epochs\": %.17g", (long long)i, s.share,
			     (long long)s.sequences, epochs);
	}
}

static enum rt_status
open_data(struct train *t, struct rt_error *err)
{
	const struct rt_options *o = t->o;
	enum rt_status status = RT_OK;
	int64_t i;

	if (!rt_options_draw(o)) {
		status = rt_feed_open(&t->blend, t->r->plan, o->sources.at,
				      o->sources.n, err);
	}
	if (status == RT_OK && t->blend && t->r->rank == 0) {
		status = rt_blend_identity(t->blend, &t->data, err);
		t->data ^= rt_options_in_order(o) ? IN_ORDER : 0;
		t->data += (uint64_t)(o->marks.document_end + 1) * DOCUMENTS;
		t->data += (uint64_t)(o->marks.prefix_end + 1) * PREFIXES;
		t->data += (uint64_t)(o->marks.ignored + 1) * IGNORED;
	}
	for (i = 0; i < o->sets.n && status == RT_OK; i++) {
		t->nsets++;
		status = rt_eval_set_open(&t->sets[i], t->r, o,
					  &o->sets.at[i], o->sets.names[i],
					  err);
	}
	return status;
}

/* Locks the folder of checkpoints against other runs until this one ends. */
static enum rt_status
claim(struct train *t, struct rt_error *err)
{
	/* all other ranks wait for rank 0 meanwhile, and must not time out */
	double wait_s = t->o->timeout_s / 2 < CLAIM_S ? t->o->timeout_s / 2
						      : CLAIM_S;

	if (!t->o->checkpoint || t->r->rank != 0) {
		return RT_OK;
	}
	t->claim = rt_files_claim(t->o->checkpoint, wait_s, err);
	return t->claim < 0 ? RT_IO : RT_OK;
}

/* The count of consumed sequences means something for the same data only. */
static enum rt_status
check_data(const struct train *t, struct rt_error *err)
{
	if (t->r->rank != 0 || t->data == t->at.data ||
	    t->o->allow_other_data) {
		return RT_OK;
	}
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "the checkpoint is of a run "
		       "of other data, or in another order: give --data and "
		       "--data-order as they were, or --allow-other-data to "
		       "go on with sequence %lld of these",
		       (long long)t->at.sequences);
}

/* The largest arena of any rank; 0: arenas are memory of the host. */
static int64_t
largest_arena(const struct rt_run *r)
{
	int64_t most = 0, i;

	for (i = 0; i < r->plan->nprograms && !r->device->host; i++) {
		int64_t bytes = r->plan->programs[i].arena_bytes;

		most = bytes > most ? bytes : most;
	}
	return most;
}

/* What the command line and the plan say counts, and the log has changes. */
static enum rt_status
settle_training(struct train *t, bool resumed, struct rt_error *err)
{
	struct rt_training *now = &t->r->training;
	enum rt_status status;

	*now = t->o->training;
	now->steps = now->steps > 0 ? now->steps : (double)t->steps;
	status = rt_training_agree(now, t->r, err);
	snprintf(t->before, sizeof t->before, "%s",
		 resumed ? t->at.settings : "");
	rt_training_print(now, t->r->plan->clips, t->at.settings);
	return status;
}

static enum rt_status
open_behind(struct train *t, struct rt_error *err)
{
	struct rt_store store = rt_run_store(t->r);

	return rt_behind_open(&t->behind, &store, t->o->checkpoint,
			      t->o->keep, err);
}

/*
 * A checkpoint of a later step than the run begins with is another run's, and
 * stays the newest until this run is past it.
 */
static void
say_newer(struct train *t)
{
	int64_t last;
	char line[400];

	if (!t->o->checkpoint || t->r->rank != 0) {
		return;
	}
	last = rt_checkpoint_last_step(t->o->checkpoint);
	if (last > t->at.step) {
		snprintf(line, sizeof line, "%s has a checkpoint of step %lld, "
			 "and this run begins at step %lld: until it is past "
			 "that, --resume goes on from the other",
			 rt_show_path(t->o->checkpoint).text, (long long)last,
			 (long long)t->at.step);
		rt_log_event(t->log, "remark", line, "\"step\": %lld",
			     (long long)t->at.step);
	}
}

static void
say_remarks(struct train *t)
{
	if (t->at.remark[0]) {
		rt_log_event(t->log, "remark", t->at.remark, "\"step\": %lld",
			     (long long)t->at.step);
	}
	if (t->r->device->remark) {
		rt_log_event(t->log, "remark", t->r->device->remark,
			     "\"step\": %lld", (long long)t->at.step);
	}
}

static enum rt_status
open_all(struct train *t, FILE *screen, struct rt_error *err)
{
	const struct rt_options *o = t->o;
	struct rt_log_options lo = { o->log, o->tensorboard, screen,
				     isatty(fileno(screen)), t->r->plan };
	enum rt_status status;
	bool resumed = false;

	status = t->r->rank == 0 ? rt_log_open(&t->log, &lo, err) : RT_OK;
	if (status == RT_OK) {
		status = open_data(t, err);
	}
	/* first, lest another run removes what is being read */
	if (status == RT_OK && o->resume) {
		status = claim(t, err);
	}
	if (status == RT_OK && o->resume) {
		status = resume_checkpoint(t, &resumed, err);
	}
	if (status == RT_OK && !resumed) {
		status = rt_load_initial(t->r, o, &t->at, err);
	}
	if (status == RT_OK && !o->resume) {
		status = claim(t, err);
	}
	if (status == RT_OK && resumed) {
		status = check_data(t, err);
	}
	if (status == RT_OK && o->async) {
		status = open_behind(t, err);
	}
	if (status == RT_OK) {
		status = rt_export_open(t->r, o, err);
	}
	if (status != RT_OK) {
		return status;
	}
	t->at.data = t->data;
	if (t->blend && !rt_options_in_order(o)) {
		rt_blend_shuffle(t->blend, t->at.seed);
	}
	t->steps = o->steps ? o->steps :
		rt_blend_sequences(t->blend) / t->r->plan->batch;
	status = settle_training(t, resumed, err);
	if (status != RT_OK) {
		return status;
	}
	t->device_bytes = largest_arena(t->r);
	t->evaluated = t->exported = -1;
	t->saved = resumed && !o->resume_path ? t->at.step : -1;
	say_remarks(t);
	say_newer(t);
	say_start(t, resumed);
	rt_training_say_changes(t->log, t->before, t->at.settings,
				t->at.step);
	say_sources(t);
	return RT_OK;
}

/* ---- what comes between steps ---- */

static enum rt_status
evaluate(struct train *t, struct rt_error *err)
{
	struct rt_evaluation e = { 0 };
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < t->nsets && status == RT_OK && !t->stop; i++) {
		status = rt_evaluate(t->r, &t->sets[i], t->at.step,
				     t->signalled, &e, err);
		if (status == RT_OK) {
			rt_evaluation_log(&e, t->log);
			t->stop = e.stop;
		}
	}
	t->evaluated = t->at.step;
	return status;
}

/* `behind_ms`: from the copy to the end, of a save behind steps; else 0. */
static void
say_saved(struct train *t, int64_t step, double ms, double behind_ms)
{
	char line[200], more[64] = "";
	int n = snprintf(line, sizeof line, "checkpoint of step %lld in %s, "
			 "%.1f ms", (long long)step,
			 rt_show_path(t->o->checkpoint).text, ms);

	if (behind_ms > 0) {
		snprintf(line + n, sizeof line - (size_t)n,
			 ", complete after %.1f ms", behind_ms);
		snprintf(more, sizeof more, ", \"behind_ms\": %.17g",
			 behind_ms);
	}
	rt_log_event(t->log, "checkpoint", line,
		     "\"step\": %lld, \"checkpoint_ms\": %.17g%s",
		     (long long)step, ms, more);
}

/* Goes on with a save behind the steps; `wait`: to its end. */
static enum rt_status
poll_behind(struct train *t, bool wait, struct rt_error *err)
{
	enum rt_status status;
	double ms = rt_now_ms();
	int64_t step;

	if (!rt_behind_is_busy(t->behind)) {
		return RT_OK;
	}
	status = rt_behind_poll(t->behind, wait, &step, err);
	ms = rt_now_ms() - ms;
	t->checkpoint_ms += ms;
	t->stall_ms += ms;
	if (status == RT_OK && step >= 0) {
		say_saved(t, step, t->stall_ms, rt_now_ms() - t->copied_ms);
	}
	return status;
}

/* Saves, or with `behind` only begins to. */
static enum rt_status
save(struct train *t, bool behind, struct rt_error *err)
{
	struct rt_store store = rt_run_store(t->r);
	enum rt_status status = poll_behind(t, true, err);
	double ms = rt_now_ms();

	if (status == RT_OK) {
		status = behind ? rt_behind_begin(t->behind, &t->at, err)
			: rt_checkpoint_save(&store, &t->at, t->o->checkpoint,
					     t->o->keep, err);
	}
	if (status != RT_OK) {
		return status;
	}
	t->copied_ms = ms;
	t->stall_ms = rt_now_ms() - ms;
	t->checkpoint_ms += t->stall_ms;
	t->saved = t->at.step;
	if (!behind) {
		say_saved(t, t->at.step, t->stall_ms, 0);
	}
	return RT_OK;
}

static enum rt_status
export(struct train *t, struct rt_error *err)
{
	t->exported = t->at.step;
	return rt_export_step(t->r, t->o, t->at.step, t->log, err);
}

/* The most memory that this process has had resident. */
static int64_t
resident_bytes(void)
{
	struct rusage u;

	return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024
					       : 0;
}

static void
log_step(struct train *t, const struct rt_outcome *c, double step_ms)
{
	double done = (double)(t->at.step - t->first);
	struct rt_log_step s = {
		.step = t->at.step, .steps = t->steps, .outcome = c,
		.lr = t->r->env.numbers[RT_NUMBER_LR], .step_ms = step_ms,
		.checkpoint_ms = t->checkpoint_ms,
		.left_s = (rt_now_ms() - t->begun_ms) * 1e-3 / done *
			  (double)(t->steps - t->at.step),
		.device_bytes = t->device_bytes,
		.host_bytes = resident_bytes()
	};

	rt_log_step(t->log, &s);
	t->checkpoint_ms = 0;
}

static enum rt_status
one_step(struct train *t, struct rt_error *err)
{
	double ms = rt_now_ms();
	struct rt_feed feed = rt_feed_of(t->blend, t->at.sequences,
					 &t->o->marks);
	struct rt_outcome c;
	enum rt_status status;

	status = rt_run_step(t->r, t->at.step + 1, t->blend ? &feed : NULL,
			     true, *t->signalled, &c, err);
	if (status != RT_OK) {
		return status;
	}
	t->at.step++;
	t->at.sequences += t->r->plan->batch;
	t->stop = c.stop;
	log_step(t, &c, rt_now_ms() - ms);
	return RT_OK;
}

static bool
is_due(int64_t step, int64_t every)
{
	return every > 0 && step % every == 0;
}

static enum rt_status
run_all(struct train *t, struct rt_error *err)
{
	const struct rt_options *o = t->o;
	enum rt_status status = RT_OK;

	t->first = t->at.step;
	t->begun_ms = rt_now_ms();
	while (status == RT_OK && !t->stop && t->at.step < t->steps) {
		status = one_step(t, err);
		if (status == RT_OK && !t->stop && t->nsets > 0 &&
		    is_due(t->at.step, o->eval_every)) {
			status = evaluate(t, err);
		}
		if (status == RT_OK) {
			status = poll_behind(t, false, err);
		}
		if (status == RT_OK && is_due(t->at.step, o->every)) {
			status = save(t, t->behind != NULL, err);
		}
		if (status == RT_OK && is_due(t->at.step, o->export_every)) {
			status = export(t, err);
		}
	}
	if (status == RT_OK && t->nsets > 0 && !t->stop &&
	    t->evaluated != t->at.step) {
		status = evaluate(t, err);
	}
	if (status == RT_OK && t->stop) {
		rt_log_event(t->log, "signal", "stopped by a signal",
			     "\"step\": %lld, \"signal\": %d",
			     (long long)t->at.step, (int)*t->signalled);
	}
	if (status == RT_OK) {
		status = poll_behind(t, true, err);
	}
	if (status == RT_OK && o->checkpoint && t->saved != t->at.step) {
		status = save(t, false, err);
	}
	if (status == RT_OK && o->exports && !t->stop &&
	    t->exported != t->at.step) {
		status = export(t, err);
	}
	return status;
}

enum rt_status
rt_train(struct rt_run *r, const struct rt_options *o,
	 const volatile sig_atomic_t *signalled, FILE *screen,
	 struct rt_error *err)
{
	struct train t = { .r = r, .o = o, .signalled = signalled,
			   .claim = -1 };
	enum rt_status status = open_all(&t, screen, err);
	bool none = t.at.step >= t.steps;
	char line[128];
	int64_t i;

	if (status == RT_OK) {
		status = run_all(&t, err);
	}
	if (status == RT_OK) {
		snprintf(line, sizeof line, "ended at step %lld%s",
			 (long long)t.at.step, none ? ": the checkpoint has "
			 "all steps that are asked for" : "");
		rt_log_event(t.log, "end", line, "\"step\": %lld",
			     (long long)t.at.step);
	}
	rt_behind_close(t.behind);
	if (t.claim >= 0) {
		close(t.claim);
	}
	rt_log_close(t.log);
	rt_blend_free(t.blend);
	for (i = 0; i < t.nsets; i++) {
		rt_eval_set_close(&t.sets[i]);
	}
	return status;
}

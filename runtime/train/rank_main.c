/*
 * main() of every rank: one plan, compiled in.  But for the tokens of text,
 * nothing is written to disk before it is known that this is the right machine,
 * that all ranks have joined, and that what they need fits into memory.
 */
#define _GNU_SOURCE	/* sigaction */

#include "runtime/train/engine.h"
#include "runtime/train/rank.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Time from the death of one rank until the others are killed. */
#define GRACE_S 8.0
/* A signal of the terminal comes twice if the launcher forwards it too. */
#define SAME_SIGNAL_MS 500

/* Written by the signal handler: the first signal, and when it came. */
static volatile sig_atomic_t signalled;
static volatile int64_t reported_ms;

static void
on_signal(int number)
{
	struct timespec t;
	int64_t ms;

	clock_gettime(CLOCK_MONOTONIC, &t);
	ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
	if (signalled && ms - reported_ms > SAME_SIGNAL_MS) {
		_exit(128 + number);
	}
	if (!signalled) {
		reported_ms = ms;
		signalled = number;
	}
}

/*
 * SIGPIPE and SIGXFSZ are ignored, so that a reader that went away does not end
 * a run, and a file that may not grow is an error of the write.  Batch systems
 * warn by any of the others (--signal of Slurm).  SIGHUP, SIGUSR1 and SIGUSR2
 * stay ignored if they were, as under nohup; SIGINT and SIGQUIT do not,
 * although a shell ignores them for background jobs: whoever sends one to such
 * a job means it.
 */
static void
handle_signals(bool handle)
{
	static const int warnings[] = { SIGHUP, SIGUSR1, SIGUSR2 };
	struct sigaction a = { .sa_flags = SA_RESTART }, before;
	size_t i;

	a.sa_handler = handle ? on_signal : SIG_DFL;
	sigemptyset(&a.sa_mask);
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGINT, &a, NULL);
	sigaction(SIGQUIT, &a, NULL);
	for (i = 0; i < sizeof warnings / sizeof *warnings; i++) {
		if (sigaction(warnings[i], NULL, &before) == 0 &&
		    before.sa_handler != SIG_IGN) {
			sigaction(warnings[i], &a, NULL);
		}
	}
	a.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &a, NULL);
	sigaction(SIGXFSZ, &a, NULL);
}

static const char *
get_variable(void *user, const char *name)
{
	(void)user;
	return getenv(name);
}

static bool
wrote_all(void)
{
	return fflush(stdout) == 0 && !ferror(stdout);
}

/* ---- checks ---- */

static enum rt_status
check_abi(const struct rt_plan *p, struct rt_error *err)
{
	if (p->abi != RT_ABI_VERSION) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the plan was "
			"compiled for a runtime of version %lld, and this is "
			"%d: compile it again", (long long)p->abi,
			RT_ABI_VERSION);
	}
	return RT_OK;
}

static enum rt_status
check_world(const struct rt_plan *p, const struct rt_world *w,
	    struct rt_error *err)
{
	bool alone = strcmp(w->how, "alone") == 0;

	if (w->size == p->nranks) {
		return RT_OK;
	}
	if (alone) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the plan is for "
			"%lld ranks, and no launcher started the others: "
			"--local starts all on this host; mpirun -n %lld, "
			"torchrun or srun start them too", (long long)p->nranks,
			(long long)p->nranks);
	}
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "the plan is for %lld ranks, "
		       "%s started %lld: start %lld, or compile it for %lld",
		       (long long)p->nranks, w->how, (long long)w->size,
		       (long long)p->nranks, (long long)w->size);
}

/*
 * Checks the host's memory that ranks from .. to - 1, all of this host, need:
 * their arenas, if no GPU has them, and copies for saves behind steps.
 */
static enum rt_status
check_memory(const struct rt_plan *p, const struct rt_options *o,
	     const struct rt_machine *m, enum rt_on on, int64_t from,
	     int64_t to, struct rt_error *err)
{
	static const double gib = 1 << 30;
	int64_t bytes = 0, copies = 0, i;
	char more[80] = "";

	for (i = from; i < to; i++) {
		bytes += on == RT_ON_CUDA ? 0
			: p->programs[p->program_of[i]].arena_bytes;
		copies += o->async ? rt_behind_bytes(p, i) : 0;
	}
	if (m->free_bytes < 0 || bytes + copies <= m->free_bytes) {
		return RT_OK;
	}
	if (copies) {
		snprintf(more, sizeof more, ", %.2f GiB of it for copies of "
			 "--async-checkpoint", (double)copies / gib);
	}
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "%lld rank%s of this host "
		"need%s %.2f GiB%s, and %.2f GiB are free: take fewer ranks a "
		"host, or another plan%s", (long long)(to - from),
		to - from == 1 ? "" : "s", to - from == 1 ? "s" : "",
		(double)(bytes + copies) / gib, more,
		(double)m->free_bytes / gib,
		copies && bytes <= m->free_bytes
		? ", or save without --async-checkpoint" : "");
}

/* ---- a rank ---- */

/*
 * A plan that was compiled to train computes a whole microbatch of sequences
 * for each token that is sampled.
 */
static void
note_sequences(const struct rt_run *r)
{
	int64_t n = r->plan->batch / r->plan->nmicrobatches;

	if (r->rank == 0 && n > 1) {
		fprintf(stderr, "rank: note: each token takes the forward of "
			"%lld sequences, of which one is used; a plan "
			"compiled with --pin dp=1,microbatch=1 computes one\n",
			(long long)n);
	}
}

/* Whether the plan is of the kind that the command runs. */
static enum rt_status
check_kind(const struct rt_plan *p, const struct rt_options *o,
	   struct rt_error *err)
{
	int64_t command = o->command;
	bool serves = p->context > 0;

	if (serves && command & (RT_TRAIN | RT_VERIFY | RT_SAMPLE | RT_EVAL)) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "this plan was "
			       "compiled to serve: its commands are generate, "
			       "serve, bench, export, inspect and preflight");
	}
	if (!serves && o->sequences) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "this plan was "
			       "compiled to train: --sequences is of plans "
			       "that serve");
	}
	if (!serves && command & (RT_GENERATE | RT_SERVE)) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "this plan was "
			       "compiled to train: llmc --serve -o FOLDER "
			       "makes one that serves, and `sample` continues "
			       "a text with this one");
	}
	if (serves && o->in_flight > p->npipes) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "--in-flight is "
			       "%lld, and 1 to %lld is legal: this plan has "
			       "%lld stage%s", (long long)o->in_flight,
			       (long long)p->npipes, (long long)p->npipes,
			       p->npipes == 1 ? "" : "s");
	}
	return RT_OK;
}

static enum rt_status
run_command(struct rt_run *r, const struct rt_options *o, struct rt_error *err)
{
	switch ((enum rt_command)o->command) {
	case RT_TRAIN:
		return rt_train(r, o, &signalled, stdout, err);
	case RT_BENCH:
		return o->sequences ? rt_serving(r, o, &signalled, stdout, err)
				    : rt_bench(r, o, stdout, err);
	case RT_VERIFY:
		return rt_verify(r, o, stdout, err);
	case RT_EVAL:
		return rt_eval(r, o, stdout, err);
	case RT_SAMPLE:
		note_sequences(r);
		return rt_sample(r, o, stdout, err);
	case RT_EXPORT:
		return rt_export_run(r, o, stdout, err);
	case RT_PREFLIGHT:
		return rt_preflight(r, stdout, err);
	case RT_GENERATE:
	case RT_SERVE:
		return rt_serving(r, o, &signalled, stdout, err);
	case RT_INSPECT:
		break;
	}
	return RT_OK;
}

static enum rt_status
start_workers(struct rt_workers **out, const struct rt_plan *p,
	      const struct rt_world *w, const struct rt_options *o,
	      const struct rt_machine *m, struct rt_error *err)
{
	struct rt_share s = rt_machine_share(m, w, o->threads, p->workers,
					     strcmp(o->bind, "cores") == 0);
	struct rt_workers_options wo = { s.threads, s.cores, s.crowded };

	return rt_workers_start(out, &wo, err);
}

/* The transport by option, else by variable, else what fits. */
static enum rt_status
choose_via(const struct rt_options *o, enum rt_via *via, struct rt_error *err)
{
	static const char *const words[] = { "auto", "shm", "mpi", "tcp" };
	const char *s = o->transport;
	size_t i;

	if (!s) {
		s = getenv("LLMC_TRANSPORT");
	}
	for (i = 0; i < 4; i++) {
		if (!s || !*s || strcmp(s, words[i]) == 0) {
			*via = (enum rt_via)i;
			return RT_OK;
		}
	}
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "the variable "
		       "LLMC_TRANSPORT is '%s', expected auto, shm, mpi or "
		       "tcp",
		       rt_show_name(s).text);
}

/* Which of the words a variable is, the first one if it is not set; n: none. */
static int
word_of(const char *variable, const char *const *words, int n)
{
	const char *s = getenv(variable);
	int i = 0;

	while (s && *s && i < n && strcmp(s, words[i]) != 0) {
		i++;
	}
	return i;
}

static enum rt_status
device_options(const struct rt_options *o, struct rt_device_options *out,
	       struct rt_error *err)
{
	static const char *const checks[] = { "first", "0", "1" };
	static const char *const early[] = { "1", "0" };
	int i = word_of("LLMC_EMULATE_CHECK", checks, 3);
	int late = word_of("LLMC_EARLY_LAUNCH", early, 2);

	*out = (struct rt_device_options){ .no_graph = o->no_graph,
		.timeout_s = o->timeout_s, .check = (enum rt_check)i,
		.late = late == 1,
		.libcuda = getenv("LLMC_LIBCUDA"),
		.libnccl = getenv("LLMC_LIBNCCL") };
	if (i == 3) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the variable "
			"LLMC_EMULATE_CHECK is '%s', expected first, 0 "
			"(never) or 1 (always)",
			rt_show_name(getenv("LLMC_EMULATE_CHECK")).text);
	}
	if (late == 2) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the variable "
			"LLMC_EARLY_LAUNCH is '%s', expected 0 (a kernel "
			"begins when the one before it has ended) or 1",
			rt_show_name(getenv("LLMC_EARLY_LAUNCH")).text);
	}
	return RT_OK;
}

/* Prints why this rank fails, unless that is printed already. */
static enum rt_status
say_rank(const struct rt_plan *p, const struct rt_world *w,
	 struct rt_comm *comm, const struct rt_error *err)
{
	char who[96];

	if (rt_local_is_news(w, err->message) &&
	    (w->said || !comm || rt_comm_is_news(comm, err->message))) {
		rt_mesh_text(p, w->rank, who, sizeof who);
		fprintf(stderr, "%s: %s\n", who, err->message);
	}
	return err->status;
}

/* Runs the command, after which all ranks wait for each other. */
static enum rt_status
run_to_end(struct rt_run *r, struct rt_comm *comm, const struct rt_options *o,
	   struct rt_error *err)
{
	enum rt_status status = run_command(r, o, err);

	if (status == RT_OK) {
		status = rt_comm_barrier(comm, "the end", err);
	}
	if (status == RT_OK && !wrote_all()) {
		status = rt_fail(err, RT_IO, RT_NOWHERE, "standard output "
				 "cannot be written");
	}
	return status;
}

/* Runs the command on this rank; on failure the other ranks get the reason,
 * which is printed before: whoever learns it can rely on that. */
static enum rt_status
run_rank(const struct rt_plan *p, const struct rt_world *w,
	 const struct rt_options *o, const struct rt_machine *m,
	 struct rt_error *err)
{
	struct rt_comm_options co = { .plan = p, .world = *w,
		.end_asked = &signalled, .timeout_s = o->timeout_s,
		.queues = rt_plan_engine_queues(p), .report_fd = STDERR_FILENO,
		.variables = { get_variable, NULL } };
	struct rt_device_options dopt;
	struct rt_workers *workers = NULL;
	struct rt_device device = { 0 };
	struct rt_comm *comm = NULL;
	struct rt_run *r = NULL;
	enum rt_status status;
	enum rt_on on;

	status = rt_device_choose(p, o->device, &on, err);
	if (status == RT_OK) {
		status = choose_via(o, &co.via, err);
	}
	status = status == RT_OK ? device_options(o, &dopt, err) : status;
	if (status == RT_OK) {
		status = rt_comm_open(&comm, &co,
				      p->programs[p->program_of[w->rank]]
				      .arena_bytes, err);
	}
	if (status != RT_OK) {
		return say_rank(p, w, NULL, err);
	}
	/* from here on a signal ends the run after the current step */
	handle_signals(o->command & (RT_TRAIN | RT_SERVE));
	status = start_workers(&workers, p, w, o, m, err);
	if (status == RT_OK) {
		status = rt_device_open(&device, on, p, w->rank, comm, workers,
					&dopt, err);
	}
	if (status == RT_OK) {
		status = rt_run_open(&r, p, w->rank, &device,
				     rt_options_seed(o, p), err);
	}
	if (status == RT_OK) {
		status = run_to_end(r, comm, o, err);
	}
	if (status != RT_OK) {
		say_rank(p, w, comm, err);
		rt_comm_abort(comm, err->message);
	}
	rt_run_free(r);
	device.failed = status != RT_OK;
	rt_device_close(&device);
	rt_workers_stop(workers);
	rt_comm_free(comm);
	return status;
}

static int
be_rank(const struct rt_plan *p, const struct rt_world *w,
	const struct rt_options *o, const struct rt_machine *m)
{
	struct rt_error err = { .status = RT_OK };

	handle_signals(false);
	return run_rank(p, w, o, m, &err) == RT_OK ? EXIT_SUCCESS
						    : EXIT_FAILURE;
}

/* ---- all ranks ---- */

static int
report_error(const struct rt_error *err, int status)
{
	fprintf(stderr, "rank: %s\n", err->message);
	return status;
}

/* Forks all ranks; each child returns, to run as its rank. */
static int
start_all(const struct rt_plan *p, struct rt_world *w,
	  const struct rt_options *o, const struct rt_machine *m)
{
	struct rt_error err = { .status = RT_OK };
	bool child = false;
	int status = EXIT_FAILURE;
	enum rt_via via;
	enum rt_on on;

	if (w->size > 1) {
		rt_fail(&err, RT_RANGE, RT_NOWHERE, "--local starts all "
			"ranks, and %s has started %lld already: leave it out",
			w->how, (long long)w->size);
		return report_error(&err, EXIT_FAILURE);
	}
	if (choose_via(o, &via, &err) != RT_OK) {
		return report_error(&err, EXIT_FAILURE);
	}
	if (via == RT_VIA_MPI || via == RT_VIA_TCP) {
		rt_fail(&err, RT_RANGE, RT_NOWHERE, "ranks that --local "
			"starts use shared memory: leave out --transport "
			"and LLMC_TRANSPORT, or start them with mpirun, "
			"torchrun or srun");
		return report_error(&err, EXIT_FAILURE);
	}
	if (rt_device_choose(p, o->device, &on, &err) != RT_OK ||
	    check_memory(p, o, m, on, 0, p->nranks, &err) != RT_OK) {
		return report_error(&err, EXIT_FAILURE);
	}
	if (rt_local_start(p->nranks, GRACE_S, w, &child, &status, &err) !=
	    RT_OK) {
		return report_error(&err, EXIT_FAILURE);
	}
	return child ? be_rank(p, w, o, m) : status;
}

static int
run(const struct rt_plan *p, struct rt_options *o)
{
	struct rt_error err = { .status = RT_OK };
	struct rt_machine m;
	struct rt_world w;
	enum rt_on on;
	int64_t from;

	if (check_abi(p, &err) != RT_OK ||
	    rt_cpu_check(p, &err) != RT_OK ||
	    rt_device_choose(p, o->device, &on, &err) != RT_OK ||
	    rt_world_find(&w, get_variable, NULL, &err) != RT_OK) {
		return report_error(&err, EXIT_FAILURE);
	}
	if (on == RT_ON_CUDA && rt_gpu_probe(p, o->local ? p->nranks
				: w.local_size, getenv("LLMC_LIBCUDA"),
				&err) != RT_OK) {
		/* one message a host, not one a rank */
		return w.local_rank == 0 ? report_error(&err, EXIT_FAILURE)
					 : EXIT_FAILURE;
	}
	/* with --json, standard output is JSON alone */
	if (rt_tokenize_data(o, o->json ? stderr : stdout, &err) != RT_OK) {
		return report_error(&err, EXIT_FAILURE);
	}
	rt_machine_look(&m);
	if (o->local && p->nranks > 1) {
		return start_all(p, &w, o, &m);
	}
	from = w.rank - w.local_rank;
	if (check_world(p, &w, &err) != RT_OK ||
	    check_memory(p, o, &m, on, from < 0 ? 0 : from,
			 from + w.local_size < p->nranks ?
			 from + w.local_size : p->nranks, &err) != RT_OK) {
		return w.local_rank == 0 ? report_error(&err, EXIT_FAILURE)
					 : EXIT_FAILURE;
	}
	return be_rank(p, &w, o, &m);
}

static int
inspect(const struct rt_plan *p, const struct rt_options *o)
{
	struct rt_error err = { .status = RT_OK };

	if (check_abi(p, &err) == RT_OK && o->llp && p->context > 0) {
		rt_fail(&err, RT_RANGE, RT_NOWHERE, "this plan was compiled to "
			"serve, and has no plan.llp; --json prints its answer");
	}
	if (err.status != RT_OK) {
		return report_error(&err, EXIT_FAILURE);
	}
	if (o->json || o->llp) {
		fputs(o->json ? p->json : p->llp, stdout);
	} else {
		rt_inspect(p, stdout);
	}
	return EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
	const struct rt_plan *p = &llmc_plan;
	struct rt_error err = { .status = RT_OK };
	struct rt_options o;
	enum rt_status read;
	int status = EXIT_SUCCESS;

	/* the launcher may have SIGCHLD ignored, but this process waits */
	signal(SIGCHLD, SIG_DFL);
	read = rt_options_read(&o, argc, argv, &err);
	/* a command of another kind of plan lacks more than its options */
	if ((!o.help && check_kind(p, &o, &err) != RT_OK) || read != RT_OK ||
	    rt_options_settle(&o, p, &err) != RT_OK) {
		report_error(&err, 2);
		rt_options_release(&o);
		return 2;
	}
	if (o.help) {
		rt_options_help(stdout, o.command);
	} else if (o.version) {
		printf("rank of %s for %s, by %s\n", p->model, p->target,
		       p->compiler);
	} else if (o.command == RT_INSPECT) {
		status = inspect(p, &o);
	} else {
		status = run(p, &o);
	}
	rt_options_release(&o);
	if (!wrote_all() && status == EXIT_SUCCESS) {
		rt_fail(&err, RT_IO, RT_NOWHERE,
			"standard output cannot be written");
		status = report_error(&err, EXIT_FAILURE);
	}
	return status;
}

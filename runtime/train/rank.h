/*
 * rank.h - private to runtime/: the program that runs on every rank.
 *
 * rank_main.c is the one file that exits and owns the terminal; all others
 * write to a FILE that they are lent.  Sections are named for the .c that
 * defines them.
 */
#ifndef RT_RANK_H
#define RT_RANK_H

#include <signal.h>
#include <stdio.h>

#include "runtime/comm/comm.h"
#include "runtime/data/data.h"
#include "runtime/device/device.h"
#include "runtime/error.h"
#include "runtime/device/pool.h"

#define RT_NOWHERE ((struct rt_where){ NULL, NULL, -1 })

/* ---- what the command line says (rank_options.c) ------------------------ */

enum rt_command {
	RT_TRAIN = 1, RT_BENCH = 2, RT_INSPECT = 4, RT_VERIFY = 8,
	RT_SAMPLE = 16, RT_PREFLIGHT = 32, RT_EVAL = 64
};

struct rt_list {
	const char **at;
	int64_t n;
};

struct rt_options {
	int64_t command;	/* enum rt_command; 0: --help, --version */
	bool help, version, local, json, llp, resume, no_graph;
	bool allow_unused, allow_other_data;
	int64_t steps, eval_every, eval_steps, every, keep, threads, tokens;
	int64_t seed;		/* -1: not given */
	double timeout_s, temperature;
	const char *resume_path, *checkpoint, *weights, *log, *tensorboard;
	const char *prompt, *bind, *transport, *device, *data_order;
	struct rt_list data, eval_data;
};

/* RT_RANGE: what is wrong with the command line, and what would be right. */
enum rt_status rt_options_read(struct rt_options *o, int argc,
			       char *const *argv, struct rt_error *err);
void rt_options_release(struct rt_options *o);
/* Whether tokens are drawn, not read. */
bool rt_options_draw(const struct rt_options *o);
/* Whether sequences come as they stand in the files. */
bool rt_options_in_order(const struct rt_options *o);
/* How long to train if nobody has said it: as the plan says, if it does. */
enum rt_status rt_options_settle(struct rt_options *o,
				 const struct rt_plan *p,
				 struct rt_error *err);
/* The one that was given, or the plan's. */
int64_t rt_options_seed(const struct rt_options *o, const struct rt_plan *p);
void rt_options_help(FILE *out);

/* ---- the CPU and the plan (cpuid.c) ----------------------------------- */

/* As the maker calls it; "" if it does not. */
struct rt_shown rt_cpu_name(void);
/*
 * RT_RANGE: the plan needs what this CPU has not; names it, and a --cpu that
 * would run here.  Asks the system for what must be asked for.
 */
enum rt_status rt_cpu_check(const struct rt_plan *p, struct rt_error *err);

/* ---- this host (machine.c) -------------------------------------------- */

#define RT_MAX_CORES 1024

struct rt_machine {
	int64_t ncores;		/* that this process may use */
	int cores[RT_MAX_CORES];	/* neighbours in memory side by side */
	int64_t online;		/* of the host */
	int64_t free_bytes;	/* memory to be had; -1: unknown */
};

void rt_machine_look(struct rt_machine *m);

/* A rank's part of it. */
struct rt_share {
	int64_t threads;
	const int *cores;	/* into the machine's; NULL: not bound */
	bool crowded;
};

/* wanted: 0 for as many as fit; at most `most`. */
struct rt_share rt_machine_share(const struct rt_machine *m,
				 const struct rt_world *w, int64_t wanted,
				 int64_t most, bool bind);
/* Monotonic. */
double rt_now_ms(void);

/* ---- a step (run.c, feed.c) ------------------------------------------- */

/* Where sequences come from; NULL for a plan's own drawn numbers. */
struct rt_feed {
	/* n tokens of a sequence from a position on, one beyond its end too */
	enum rt_status (*get)(const struct rt_feed *f, int64_t sequence,
			      int64_t from, int64_t n, int32_t *out,
			      struct rt_error *err);
	void *user;
	int64_t first;		/* sequence of the batch */
};

struct rt_times {
	double data, compute, coll, waiting, update;	/* ms */
};

#define RT_MAX_NUMBERS 16

/* What all ranks know after a step. */
struct rt_outcome {
	int64_t n;		/* results that are one number */
	double at[RT_MAX_NUMBERS];	/* the loss first */
	int64_t nwatch;
	double watch[RT_MAX_NUMBERS];
	double step_ms;		/* of this rank */
	struct rt_times times;	/* mean over the ranks */
	bool stop;		/* somebody was told to end */
};

struct rt_tally;

struct rt_run {
	struct rt_env env;	/* the first: it is cast */
	const struct rt_plan *plan;
	const struct rt_program *program;
	struct rt_comm *comm;
	struct rt_workers *workers;
	struct rt_device *device;
	int64_t rank, microbatch;
	int64_t axes;		/* all but time */
	const struct rt_pieces **pieces;	/* [microbatch][spread] */
	/* inputs on their way to where the host cannot write */
	char *room;
	int64_t room_bytes;
	const struct rt_program *shows;	/* one that has results */
	int64_t first_watch;	/* lowest rank whose program watches */
	struct rt_times times;	/* of the step so far */
	struct rt_tally *tally;	/* or NULL */
	double lost_ms;		/* launching, where kernels tell their own */
	/* called after each kernel, where others wait for this run; or NULL */
	enum rt_status (*pulse)(void *user, struct rt_error *err);
	void *pulse_user;
	struct rt_error err;	/* of what the program's function met */
};

enum rt_status rt_run_open(struct rt_run **out, const struct rt_plan *plan,
			   int64_t rank, struct rt_device *device,
			   int64_t seed, struct rt_error *err);
void rt_run_free(struct rt_run *r);
/* Weights and states as a new run has them. */
enum rt_status rt_run_start(struct rt_run *r, struct rt_error *err);
/*
 * All of a step, whose number counts from 1; without the update if it is not
 * wanted.  All ranks call it, and have the same numbers after it.
 */
enum rt_status rt_run_step(struct rt_run *r, int64_t step,
			   const struct rt_feed *feed, bool update, bool stop,
			   struct rt_outcome *out, struct rt_error *err);
/* The forward of microbatch 0 alone. */
enum rt_status rt_run_forward(struct rt_run *r, const struct rt_feed *feed,
			      struct rt_error *err);
/* A number in the arena. */
double rt_number(const char *at, int64_t elem, int64_t i);
struct rt_store rt_run_store(const struct rt_run *r);

/* Puts the inputs of a microbatch where the program finds them. */
enum rt_status rt_feed_inputs(struct rt_run *r, const struct rt_feed *feed,
			      struct rt_error *err);
/* Opens token files for what a plan reads. */
enum rt_status rt_feed_open(struct rt_tokens **out, const struct rt_plan *p,
			    const struct rt_list *files, struct rt_error *err);
/* Sequences from token files. */
struct rt_feed rt_feed_tokens(struct rt_tokens *t, int64_t first);
/* The input of that name, or NULL. */
const struct rt_port *rt_input(const struct rt_program *p, const char *name);
/* Tokens of a sequence, and what they are less than; 0: no tokens. */
int64_t rt_plan_length(const struct rt_plan *p, int64_t *below);

/* ---- evaluations (evaluate.c) ------------------------------------------ */

struct rt_log;

struct rt_evaluation {
	int64_t step, batches, tokens;
	double loss;		/* the mean over all tokens */
	bool stop;		/* somebody was told to end */
};

/*
 * How many batches to evaluate on: as many as are wanted, or for 0 all whole
 * ones that there are.  RT_RANGE: there is none.  NULL: drawn tokens.
 */
enum rt_status rt_evaluation_size(const struct rt_run *r,
				  const struct rt_tokens *t, int64_t wanted,
				  int64_t *batches, struct rt_error *err);
/* Weights stay as they are.  `step` is that of these weights. */
enum rt_status rt_evaluate(struct rt_run *r, struct rt_tokens *t, int64_t step,
			   int64_t batches, const volatile sig_atomic_t *told,
			   struct rt_evaluation *e, struct rt_error *err);
void rt_evaluation_log(const struct rt_evaluation *e, struct rt_log *l);

/* ---- what was measured (bench.c) --------------------------------------- */

/* To what time goes; by name. */
enum rt_tallied { RT_TALLY_PHASE, RT_TALLY_KERNEL, RT_TALLY_COLL };

void rt_tally_add(struct rt_tally *m, enum rt_tallied kind, const void *key,
		  const char *what, double ms, double us, double flops,
		  double bytes);

enum rt_status rt_bench(struct rt_run *r, int64_t steps, bool json, FILE *out,
			struct rt_error *err);

/* ---- what a run writes down (log.c, tensorboard.c) --------------------- */

struct rt_log_options {
	const char *path;	/* JSON lines are added there; or NULL */
	const char *tensorboard;	/* a folder, or NULL */
	FILE *screen;	/* NULL, if there are only events: not shown */
	bool terminal;		/* one line that is written over */
	const struct rt_plan *plan;
};

struct rt_log_step {
	int64_t step, steps;	/* steps: in all, 0: unknown */
	const struct rt_outcome *outcome;
	double step_ms, checkpoint_ms;
};

enum rt_status rt_log_open(struct rt_log **out, const struct rt_log_options *o,
			   struct rt_error *err);
/*
 * Only rank 0 has one: all of these take NULL, and do nothing then.  What
 * cannot be written is warned of on standard error once for each file, tried
 * again with the next record, and counted at the end.
 */
void rt_log_step(struct rt_log *l, const struct rt_log_step *s);
/* `more`: members of the object, as "\"step\": 3", or "". */
void rt_log_event(struct rt_log *l, const char *event, const char *say,
		  const char *more, ...) RT_PRINTF(4, 5);
void rt_log_scalar(struct rt_log *l, const char *name, int64_t step, double v);
void rt_log_close(struct rt_log *l);
/* A string as JSON has it, quotes included. */
void rt_json_text(FILE *f, const char *s);

struct rt_events;		/* a file of TensorBoard */

enum rt_status rt_events_open(struct rt_events **out, const char *folder,
			      struct rt_error *err);
enum rt_status rt_events_scalar(struct rt_events *e, const char *tag,
				int64_t step, double v, struct rt_error *err);
/* Records that could not be written. */
int64_t rt_events_lost(const struct rt_events *e);
enum rt_status rt_events_close(struct rt_events *e, struct rt_error *err);
uint32_t rt_crc32c(const void *at, size_t n);

/* ---- commands (train.c, evaluate.c, inspect.c, rank_verify.c, ...) ------ */

enum rt_status rt_train(struct rt_run *r, const struct rt_options *o,
			const volatile sig_atomic_t *told, FILE *screen,
			struct rt_error *err);
void rt_inspect(const struct rt_plan *p, FILE *out);
enum rt_status rt_verify(struct rt_run *r, const struct rt_options *o,
			 FILE *out, struct rt_error *err);
/*
 * rank_verify_whole.c: holds what the ranks have after the first step, whose
 * numbers `first` is, against one rank's program; then further steps' numbers.
 */
enum rt_status rt_verify_whole(struct rt_run *r, const struct rt_options *o,
			       const struct rt_outcome *first, FILE *out,
			       struct rt_error *err);
enum rt_status rt_sample(struct rt_run *r, const struct rt_options *o,
			 FILE *out, struct rt_error *err);
/* The loss of a checkpoint, or of weights, on data. */
enum rt_status rt_eval(struct rt_run *r, const struct rt_options *o, FILE *out,
		       struct rt_error *err);
/* What ranks run on, and how fast they reach each other. */
enum rt_status rt_preflight(struct rt_run *r, FILE *out, struct rt_error *err);
/*
 * Before ranks are started: would `n` of them find their GPUs on this host?
 * Asks in a process of its own, as who starts others must not have asked.
 */
enum rt_status rt_gpu_probe(const struct rt_plan *p, int64_t n,
			    const char *libcuda, struct rt_error *err);
/* Loads what train, eval, verify and sample are told to begin with. */
enum rt_status rt_begin(struct rt_run *r, const struct rt_options *o,
			struct rt_progress *p, struct rt_error *err);

#endif

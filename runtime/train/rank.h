/*
 * The program that runs on every rank: its options, a step, and its commands.
 * runtime/train/ implements it; rank_main.c is the only file that exits and
 * owns the terminal, all others write to a FILE that the caller passes.  It
 * knows all other folders of runtime/ except measure/, and nothing of the
 * compiler but abi.h.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef RT_RANK_H
#define RT_RANK_H

#include <signal.h>
#include <stdio.h>

#include "runtime/comm/comm.h"
#include "runtime/data/data.h"
#include "runtime/device/device.h"
#include "runtime/device/this_machine.h"
#include "runtime/device/pool.h"
#include "runtime/error.h"
#include "runtime/serve/server.h"

/* ---- the command line (rank_options.c) ---------------------------------- */

enum rt_command {
	RT_TRAIN = 1, RT_BENCH = 2, RT_INSPECT = 4, RT_VERIFY = 8,
	RT_SAMPLE = 16, RT_PREFLIGHT = 32, RT_EVAL = 64, RT_EXPORT = 128,
	RT_GENERATE = 256, RT_SERVE = 512
};

struct rt_paths {
	const char **at;
	int64_t n;
};

enum { RT_SET_NAME_BYTES = 48 };

/* Sources of a blend, or sets to evaluate on. */
struct rt_data {
	int64_t n;
	bool weighted;		/* sources, which have weights, not names */
	struct rt_source at[RT_BLEND_SOURCES];
	/* "": the files before the first name; of a source its weight */
	char names[RT_BLEND_SOURCES][RT_SET_NAME_BYTES];
};

/* Tokens that divide sequences: the last one of a document, and the last one of
 * the prefix that a document may begin with; and the label that does not count
 * in the loss.  -1: not given. */
struct rt_marks {
	int64_t document_end, prefix_end, ignored;
};

struct rt_options {
	int64_t command;	/* enum rt_command; 0: --help, --version */
	bool help, version, local, json, llp, resume, no_graph;
	bool allow_unused, allow_missing, allow_other_data, async;
	int64_t steps, eval_every, eval_steps, every, keep, threads, tokens;
	int64_t seed;		/* -1: not given */
	int64_t shard_bytes;
	struct rt_marks marks;
	double lr, min_lr, clip;	/* -1: not given */
	int64_t warmup, decay_steps;	/* -1, 0: not given */
	const char *schedule;
	struct rt_paths weight_decay, renames;	/* words */
	struct rt_training training;	/* the plan's, with these options */
	double timeout_s, temperature;
	const char *resume_path, *checkpoint, *weights, *log, *tensorboard;
	const char *prompt, *prompt_file;	/* a text, or a file */
	const char *bind, *transport, *device, *data_order;
	const char *folder;	/* of export */
	const char *exports;	/* of train: where exports go */
	int64_t export_every;
	const char *trace;	/* of bench: a file, or NULL */
	/* of bench, of a plan that serves; 0: not given */
	int64_t sequences, prompt_tokens;
	bool mixed;
	int64_t in_flight;	/* steps, of a plan that serves; 0: not given */
	const char *tokenizer, *field, *end;
	/* what the options of generate and serve alone say */
	struct rt_generate_options generate;
	struct rt_serve_options serve;
	struct rt_paths data, eval_data;	/* words */
	struct rt_data sources, sets;	/* what they mean */
	struct rt_paths made;	/* paths in them that tokenized.c allocated */
};

/*
 * RT_RANGE: err names what is wrong with the command line and what is expected.
 */
enum rt_status rt_options_read(struct rt_options *o, int argc,
			       char *const *argv, struct rt_error *err);
void rt_options_release(struct rt_options *o);
/* Whether tokens are drawn, not read from files. */
bool rt_options_draw(const struct rt_options *o);
/* Whether sequences come in the order of the files. */
bool rt_options_in_order(const struct rt_options *o);
/* Sets the number of steps if no option did: to that of the plan, if any. */
enum rt_status rt_options_settle(struct rt_options *o,
				 const struct rt_plan *p,
				 struct rt_error *err);
/* The seed that was given, or that of the plan. */
int64_t rt_options_seed(const struct rt_options *o, const struct rt_plan *p);
/* Those of a command, or of all if it is 0. */
void rt_options_help(FILE *out, int64_t command);
/*
 * data_words.c: what the words of --data (weighted) or of sets to evaluate on
 * mean; RT_RANGE: they mean nothing.  *d points into the words, of which those
 * with a weight or a name lose it.
 */
enum rt_status rt_data_read(struct rt_data *d, const struct rt_paths *words,
			    bool weighted, struct rt_error *err);

/* ---- text as data (tokenized.c) ----------------------------------------- */

/*
 * Puts token files in the place of what is text in the options' data.  They
 * lie beside the text, and are made once, by the first process that needs
 * them.  Says on `screen` what it makes.
 */
enum rt_status rt_tokenize_data(struct rt_options *o, FILE *screen,
				struct rt_error *err);

/* ---- a step (run.c, feed.c) ------------------------------------------- */

/* Where sequences come from; NULL for a plan's own drawn numbers. */
struct rt_feed {
	/*
	 * n tokens of a sequence from a position on; its last label is one past
	 * its end
	 */
	enum rt_status (*get)(const struct rt_feed *f, int64_t sequence,
			      int64_t from, int64_t n, int32_t *out,
			      struct rt_error *err);
	void *user;
	int64_t first;		/* first sequence of the batch */
	struct rt_marks marks;
};

struct rt_times {
	double data, compute, coll, waiting, update;	/* ms */
};

#define RT_MAX_NUMBERS 16

/* The outcome of a step, the same on all ranks but for step_ms. */
struct rt_outcome {
	int64_t n;		/* results that are scalars */
	double at[RT_MAX_NUMBERS];	/* the loss is first */
	int64_t nwatch;
	double watch[RT_MAX_NUMBERS];
	double step_ms;		/* of this rank */
	struct rt_times times;	/* mean over the ranks */
	bool stop;		/* a rank got a signal to end */
};

struct rt_tally;

struct rt_run {
	struct rt_env env;	/* first member, because functions cast it */
	const struct rt_plan *plan;
	const struct rt_program *program;
	struct rt_comm *comm;
	struct rt_workers *workers;
	struct rt_device *device;
	int64_t rank, microbatch;
	int64_t axes;		/* set of all axes except time */
	struct rt_training training;	/* the plan's; a run may change it */
	const struct rt_pieces **pieces;	/* [microbatch][spread] */
	/* inputs before they are copied to where the host cannot write */
	char *staging;
	int64_t staging_bytes;
	const struct rt_program *shows;	/* a program that has results */
	/* lowest rank whose program has watched numbers */
	int64_t first_watch;
	struct rt_times times;	/* of the step so far */
	float batch_sum;	/* an input that is one number of the batch */
	struct rt_tally *tally;	/* or NULL */
	/* time of launches, where kernels are timed themselves */
	double lost_ms;
	/*
	 * called after each kernel, if other ranks wait for this run; or NULL
	 */
	enum rt_status (*pulse)(void *user, struct rt_error *err);
	void *pulse_user;
	/* error of a callback that the program called */
	struct rt_error err;
};

enum rt_status rt_run_open(struct rt_run **out, const struct rt_plan *plan,
			   int64_t rank, struct rt_device *device,
			   int64_t seed, struct rt_error *err);
void rt_run_free(struct rt_run *r);
/* Initializes weights and states as of a new run. */
enum rt_status rt_run_start(struct rt_run *r, struct rt_error *err);
/*
 * Runs a whole step, numbered from 1; without the update if `update` is false.
 * A collective: all ranks get the same outcome.
 */
enum rt_status rt_run_step(struct rt_run *r, int64_t step,
			   const struct rt_feed *feed, bool update, bool stop,
			   struct rt_outcome *out, struct rt_error *err);
/* Runs the forward of microbatch 0 alone; without a feed its inputs are
 * there. */
enum rt_status rt_run_forward(struct rt_run *r, const struct rt_feed *feed,
			      struct rt_error *err);
struct rt_store rt_run_store(const struct rt_run *r);

/* Fills the inputs of the current microbatch. */
enum rt_status rt_feed_fill_inputs(struct rt_run *r, const struct rt_feed *feed,
				   struct rt_error *err);
/* Where an input of so many bytes is assembled; with no memory of the device
 * that the host writes, it has to be written there. */
enum rt_status rt_feed_staging(struct rt_run *r, int64_t offset, int64_t bytes,
			       int32_t **out, struct rt_error *err);
/* full_step.c: number i of an input of a full step that says where keys are:
 * first, last, key, slot; and fills those inputs, which have drawn numbers. */
int64_t rt_full_step_number(const struct rt_load *l, const char *name,
			    int64_t i);
enum rt_status rt_fill_full_step(struct rt_run *r, struct rt_error *err);
/* Opens sources with the sequence length and vocabulary of a plan. */
enum rt_status rt_feed_open(struct rt_blend **out, const struct rt_plan *p,
			    const struct rt_source *sources, int64_t n,
			    struct rt_error *err);
/* A feed of the sequences of a blend, from number `first` on. */
struct rt_feed rt_feed_of(struct rt_blend *b, int64_t first,
			  const struct rt_marks *marks);
/* The input of that name, or NULL. */
const struct rt_port *rt_find_input(const struct rt_program *p, const char
				    *name);
/* The length of sequences, and the vocabulary; 0: the plan reads no tokens. */
int64_t rt_plan_length(const struct rt_plan *p, int64_t *below);

struct rt_log;

/* ---- settings of training (training.c) --------------------------------- */

/* The learning rate of a step, from 1. */
double rt_training_rate(const struct rt_training *t, int64_t step);
/* RT_RANGE: options say what is not legal, or not of this plan. */
enum rt_status rt_training_settle(struct rt_training *t,
				  const struct rt_options *o,
				  const struct rt_plan *p,
				  struct rt_error *err);
/* A collective: all ranks get what rank 0 has. */
enum rt_status rt_training_agree(struct rt_training *t, const struct rt_run *r,
				 struct rt_error *err);
/* "lr=0.001 schedule=constant ..." */
void rt_training_print(const struct rt_training *t, bool clips,
		       char out[RT_SETTINGS_BYTES]);
/* Logs what changed after `step`; was is "": nothing is known of before. */
void rt_training_say_changes(struct rt_log *l, const char *was,
			     const char *is, int64_t step);

/* ---- evaluations (evaluate.c) ------------------------------------------ */

/* A set to evaluate on. */
struct rt_eval_set {
	const char *name;	/* "": it has none */
	struct rt_blend *blend;	/* NULL: tokens are drawn */
	int64_t batches;	/* of an evaluation */
	struct rt_marks marks;
};

struct rt_evaluation {
	const char *name;	/* of the set */
	int64_t step, batches, tokens;
	double loss;		/* the mean over all tokens */
	bool stop;		/* a rank got a signal to end */
};

/*
 * Opens a set, and settles its batches: o->eval_steps of them (`eval`: steps),
 * or as many whole ones as there are.  RT_RANGE: there is none.  `source` is
 * NULL: tokens are drawn.  After a failure the set has to be closed, too.
 */
enum rt_status rt_eval_set_open(struct rt_eval_set *s, const struct rt_run *r,
				const struct rt_options *o,
				const struct rt_source *source,
				const char *name, struct rt_error *err);
void rt_eval_set_close(struct rt_eval_set *s);
/* Evaluates without changing weights; `step` is the step that they are of. */
enum rt_status rt_evaluate(struct rt_run *r, const struct rt_eval_set *s,
			   int64_t step, const volatile sig_atomic_t
			   *signalled, struct rt_evaluation *e, struct rt_error
			   *err);
void rt_evaluation_log(const struct rt_evaluation *e, struct rt_log *l);

/* ---- times (tally.c, trace.c, bench.c) --------------------------------- */

/* What time is attributed to. */
enum rt_tallied { RT_TALLY_PHASE, RT_TALLY_KERNEL, RT_TALLY_COLL };

/* One run of a function, a kernel or a collective. */
struct rt_tallied_call {
	enum rt_tallied kind;
	const void *key;	/* its rt_func, rt_kernel or rt_coll */
	const char *what;
	int64_t microbatch;
	double begin_ms, end_ms;
	double ms;		/* without waiting or communicating inside */
	double us, flops, bytes;	/* us: predicted; 0: not known */
};

void rt_tally_add(struct rt_tally *m, const struct rt_tallied_call *c);

/* By o->steps, o->json and o->trace. */
enum rt_status rt_bench(struct rt_run *r, const struct rt_options *o, FILE *out,
			struct rt_error *err);

/* ---- what a run writes down (log.c, tensorboard.c) --------------------- */

struct rt_log_options {
	const char *path;	/* to append JSON lines to; or NULL */
	const char *tensorboard;	/* a folder, or NULL */
	FILE *screen;	/* NULL: steps are not shown */
	bool terminal;		/* steps overwrite one line */
	const struct rt_plan *plan;
};

struct rt_log_step {
	int64_t step, steps;	/* steps: in all, 0: unknown */
	const struct rt_outcome *outcome;
	double lr;
	double step_ms, checkpoint_ms;
	double left_s;		/* until the last step, at the rate so far */
	int64_t device_bytes;	/* arena of the largest rank; 0: the host's */
	int64_t host_bytes;	/* the most that rank 0 had resident */
};

enum rt_status rt_log_open(struct rt_log **out, const struct rt_log_options *o,
			   struct rt_error *err);
/*
 * Only rank 0 has a log: all of these accept NULL, and then do nothing.  What
 * cannot be written is reported on standard error once a file, retried with the
 * next record, and counted at the end.
 */
void rt_log_step(struct rt_log *l, const struct rt_log_step *s);
/* `more`: further members of the object, as "\"step\": 3", or "". */
void rt_log_event(struct rt_log *l, const char *event, const char *say,
		  const char *more, ...) RT_PRINTF(4, 5);
void rt_log_scalar(struct rt_log *l, const char *name, int64_t step, double v);
void rt_log_close(struct rt_log *l);
/* Prints a JSON string with its quotes. */
void rt_json_text(FILE *f, const char *s);

struct rt_events;		/* an event file of TensorBoard */

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
			const volatile sig_atomic_t *signalled, FILE *screen,
			struct rt_error *err);
void rt_inspect(const struct rt_plan *p, FILE *out);
enum rt_status rt_verify(struct rt_run *r, const struct rt_options *o,
			 FILE *out, struct rt_error *err);
/*
 * rank_verify_whole.c: compares the state after the first step, whose numbers
 * are `first`, with that of the unsplit program; then the numbers of further
 * steps.
 */
enum rt_status rt_verify_whole(struct rt_run *r, const struct rt_options *o,
			       const struct rt_outcome *first, FILE *out,
			       struct rt_error *err);
enum rt_status rt_sample(struct rt_run *r, const struct rt_options *o,
			 FILE *out, struct rt_error *err);
/* serving.c: the commands `generate`, `serve` and `bench --sequences`. */
enum rt_status rt_serving(struct rt_run *r, const struct rt_options *o,
			  const volatile sig_atomic_t *signalled, FILE *out,
			  struct rt_error *err);
/* The command `eval`. */
enum rt_status rt_eval(struct rt_run *r, const struct rt_options *o, FILE *out,
		       struct rt_error *err);
/* export_run.c: the command `export`. */
enum rt_status rt_export_run(struct rt_run *r, const struct rt_options *o,
			     FILE *out, struct rt_error *err);
/* Of training: makes the folder of exports, if any are asked for. */
enum rt_status rt_export_open(const struct rt_run *r,
			      const struct rt_options *o,
			      struct rt_error *err);
/* Exports weights as they are after that step.  A collective. */
enum rt_status rt_export_step(const struct rt_run *r,
			      const struct rt_options *o, int64_t step,
			      struct rt_log *log, struct rt_error *err);
/* The command `preflight`. */
enum rt_status rt_preflight(struct rt_run *r, FILE *out, struct rt_error *err);
/* load.c: initializes a run, and loads weights if an option names them; or
 * the checkpoint that --checkpoint names. */
enum rt_status rt_load_initial(struct rt_run *r, const struct rt_options *o,
			       struct rt_progress *p, struct rt_error *err);
enum rt_status rt_load_saved(struct rt_run *r, const struct rt_options *o,
			     struct rt_progress *p, struct rt_error *err);

#endif

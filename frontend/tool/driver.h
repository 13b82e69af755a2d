/*
 * Between main.c, the driver and its helpers; nobody else includes this.
 */
#ifndef FRONTEND_DRIVER_H
#define FRONTEND_DRIVER_H

#include "frontend/tool/options.h"
#include "ir/memo.h"
#include "passes/pass.h"

/* Exit statuses; anything else is an abort, and our fault. */
enum { DRV_OK = 0, DRV_BAD_INPUT = 1, DRV_BAD_USAGE = 2 };

struct drv_facts;
struct drv_kernels;
struct drv_whole;
struct cg_code;
struct cg_input;

#define DRV_SUBFOLDERS 2	/* of a plan's folder: see output.c */

/* A file of a folder. */
struct drv_file {
	const char *name;	/* "plan.json", "kernels/dot12.cu" */
	const struct buf *text;
	bool runs;		/* it is a program */
};

struct drv_files {
	struct drv_file *at;
	uint32_t n, cap;
};

struct target;

/* One run of llmc. */
struct driver {
	struct ir_ctx ctx;
	struct options opts;
	struct pass_table table;
	struct pass_manager pm;
	struct memo memo;	/* pm.memo, unless it is switched off */
	struct pass_list passes;
	struct ir_module *unsplit;	/* for --compare, or NULL */
	struct drv_facts *facts;	/* for the answer: see tool_answer.h */
	const char *priced_cpu;	/* and by which file; NULL: --target says it */
	struct ir_module *other;	/* for --why-not, or NULL */
	struct buf out;		/* the result; written once all went well */
	struct buf json, plan;	/* beside an answer: plan.json and plan.llp */
	struct buf program;	/* and `rank`; empty: none */
	struct drv_files files;	/* and all of them, and of kernels */
	struct cg_code *code;	/* that is being compiled, or NULL */
	const struct cg_input *code_in;	/* and of what */
	struct drv_kernels *kernels;	/* what is linked, or NULL */
	struct drv_whole *whole;	/* the model unsplit, or NULL */
	bool wants_code;
	bool reruns;		/* an unfinished plan is made anew: rerun.c */
	bool for_gpu;		/* code for the target's GPUs is wanted */
	bool for_code;		/* so it is, or they are CPUs */
	int64_t reserve_bytes;	/* of each rank's arena, with its rooms */
};

/* What an option was given, or NULL; its text, or NULL. */
static inline const struct opt_value *
drv_given(const struct driver *d, enum opt_id id)
{
	return d->opts.at[id].given ? &d->opts.at[id] : NULL;
}

static inline const char *
drv_text(const struct driver *d, enum opt_id id)
{
	return d->opts.at[id].text;
}

/* ---- driver.c --------------------------------------------------------- */

/* All of llmc but what must be global; `crash` is what handlers look at. */
int drv_main(int argc, char *const *argv, struct pass_crash *crash);
/* What an input file holds, or NULL: it was reported. */
struct ir_module *drv_load(struct driver *d, const char *path);
bool drv_read_source(struct driver *d, const char *path, uint32_t *index);
/* All that was made of a plan, into its folder. False if reported. */
bool drv_write_plan(struct driver *d, const char *path);

/* ---- messages.c -------------------------------------------------------- */

/* The option, then NO_COLOR, then CLICOLOR_FORCE, then the terminal. */
bool drv_want_color(const struct driver *d);
/* False after an error: there is no such warning. */
bool drv_set_messages(struct driver *d);

/* ---- wants.c: what a run is to make ------------------------------------ */

bool drv_wants(const struct driver *d, const char *what);	/* of --emit */
bool drv_wants_answer(const struct driver *d);
/* -o names a folder for the plan, and the answer is on standard output. */
bool drv_wants_folder(const struct driver *d);
/* Text of what else would be in it. */
bool drv_wants_code(const struct driver *d);
/* What a rank holds shows once values are placed; opt says what runs. */
bool drv_counts_memory(const struct driver *d);
/* Whether rank programs are wanted, not the model as it is. */
bool drv_is_split(const struct driver *d);
/* To d->out, of what passes have made. False if reported. */
bool drv_emit(struct driver *d, struct ir_module *m);
bool drv_print_target(struct driver *d, const char *name);

/* ---- reproducer.c ----------------------------------------------------- */

/*
 * Replaces the options by those in the first line of the file that
 * --run-reproducer names. False: *why is one line for the user.
 */
bool drv_replay(struct driver *d, struct buf *why);

/* ---- tell.c: what llmc says about itself ------------------------------ */

/* --help, --version, --list-...: true if one of them was given. */
bool drv_tell(struct driver *d);

/* ---- tool_search.c: --target, and what it searches for ------------------ */

/* What --target says, which is given; passes know it from here on. */
bool drv_take_target(struct driver *d, struct target *t);
/*
 * family.c: of `--target cpu` the target whose constants are those of --cpu,
 * before anything reads it.
 */
void drv_take_family(struct driver *d);
/*
 * Lets pass `search` choose what nobody has: with --target, for a model
 * without a plan of its own or by --plan.  To be called before pins are set.
 * False after errors.
 */
bool drv_set_search(struct driver *d, struct ir_module *m);

/* ---- emit.c ------------------------------------------------------------ */

/* Whether a target's `arch` is a CPU that there is code for. */
bool drv_is_cpu(struct driver *d, const char *name);
/* There are kernels for devices of that architecture, or for --arch. */
bool drv_has_kernels(struct driver *d, const char *arch);
struct search_options;
/* A search counts the scratch of the code that is to be generated.  False
 * after errors. */
bool drv_set_scratch(struct driver *d, struct search_options *o);

/* ---- output.c --------------------------------------------------------- */

/* Writes all of the text or nothing; NULL and "-" are standard output. */
bool drv_write(struct ir_ctx *c, const char *path, const struct buf *text);

/*
 * All of these files or, in a folder that is new, none of it.  What a former
 * plan left there and this one has not, a program or kernels, goes.
 */
bool drv_write_folder(struct ir_ctx *c, const char *path,
		      const struct drv_files *files);
/* Before minutes of compiling: is it a folder, or can one be made there? */
bool drv_may_write_folder(struct ir_ctx *c, const char *path);

/* ---- eval.c ----------------------------------------------------------- */

/* Runs the model; results and checksums go to d->out. False if reported. */
bool drv_eval(struct driver *d, struct ir_module *m);
/* What --seed says, or the model's `train` block. */
uint64_t drv_seed(const struct driver *d, const struct ir_module *m);

/* ---- eval_fits.c -------------------------------------------------------- */

/*
 * Whether a run of the model, and of its update if it trains, will hold no
 * more than opt->max_bytes, and be over in days; of `compared_steps` all that
 * steps make is kept.  What the steps keep is taken off opt->max_bytes.
 * False if reported.
 */
bool drv_fits(struct ir_module *m, struct ir_eval_options *opt, bool trains,
	      int64_t compared_steps);

/* ---- eval_split.c ------------------------------------------------------- */

/*
 * Runs rank programs, and if `unsplit` is given holds them against it.  The
 * losses go to d->out. False if reported.
 */
bool drv_eval_split(struct driver *d, struct ir_module *m,
		    struct ir_module *unsplit);
/* What a step of them takes on the target of --target. */
bool drv_print_cost(struct driver *d, struct ir_module *m);
/* Where everything lies in each rank's memory. */
bool drv_print_arena(struct driver *d, struct ir_module *m, bool json);
/* The programs as IR text, and in comments who runs them when. */
bool drv_print_ranks(struct driver *d, struct ir_module *m);

/* ---- tool_answer.c ------------------------------------------------------ */

/* As pass_run of d->passes, and d->facts is filled on the way. */
enum pass_result drv_run_for_answer(struct driver *d, struct ir_module *m);
enum drv_answer_form { DRV_ANSWER_TEXT, DRV_ANSWER_JSON, DRV_ANSWER_CODE };
/*
 * Of rank programs made so, on --target, to d->out; with `code` they are
 * compiled, if the target is a CPU.  False if reported.
 */
bool drv_print_answer(struct driver *d, struct ir_module *m,
		      enum drv_answer_form form, bool code);

/* ---- explain.c: what is asked beside the answer ------------------------ */

/*
 * Whether --top, --why-not and --explain go with all else that is given, and
 * takes a copy of the model for them; to be called once the plan is set.
 * False after errors.
 */
bool drv_set_explain(struct driver *d, struct ir_module *m);
/* --emit=plans. */
bool drv_print_plans(struct driver *d);

/* ---- whole.c: the unsplit plan that goes with a split one --------------- */

/* Keeps a copy of the model, for drv_whole_object; before any pass. */
void drv_whole_take(struct driver *d, const struct ir_module *m);
void drv_whole_release(struct driver *d);

/* ---- finish.c: a plan whose kernels were not compiled ------------------- */

/* The folder that is the input, written anew. False if reported. */
bool drv_finish(struct driver *d);

/* ---- plan_diff.c ------------------------------------------------------ */

/* Two plans beside each other; false if reported. */
bool drv_diff(struct driver *d);
/* ---- assume.c --------------------------------------------------------- */

struct price_traits;
/* Sets the traits that --assume names; false after errors. */
bool drv_assume(struct driver *d, struct price_traits *traits);

/* ---- schedule.c ------------------------------------------------------- */

/* Makes or reads a pipeline schedule; d->out gets it. False if reported. */
bool drv_schedule(struct driver *d);

/* ---- calibrate.c ------------------------------------------------------ */

/* Measures this machine; d->out gets it as a target. False if reported. */
bool drv_calibrate(struct driver *d);

/* ---- eval_weights.c ----------------------------------------------------- */

struct drv_weights;
/* NULL after an error. */
struct drv_weights *drv_weights_open(struct ir_module *m, const char *path);
const struct ir_weights *drv_weights_source(struct drv_weights *w);
/* False: there are tensors that were never read, and it reported them. */
bool drv_weights_check(struct drv_weights *w, bool allow_unused);
/* NULL is allowed. */
void drv_weights_close(struct drv_weights *w);

/* ---- eval_store.c ------------------------------------------------------- */

struct drv_store;
/* Tensors that last; what was never stored comes from behind (or NULL). */
struct drv_store *drv_store_open(struct ir_module *m,
				 const struct ir_weights *behind);
const struct ir_weights *drv_store_source(struct drv_store *s);
/* Step 1, 2, ...: what the input `step` is. */
void drv_store_begin(struct drv_store *s, int64_t step);
/*
 * Runs the layers that make an optimizer step, by these options.  What they
 * store counts from now on; gradients are zero again.
 */
bool drv_store_end(struct drv_store *s, const struct ir_eval_options *opt);
/* The layer that updates weights, or 0. */
func_id drv_update(const struct ir_module *m);

#endif

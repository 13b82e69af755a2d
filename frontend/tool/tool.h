/*
 * The commands of llmc.  tool.c reads the command line, runs passes and writes
 * what comes of them; every other file here is one thing that a run may be
 * asked for.  main.c calls drv_main() and nothing else of it; inside the
 * folder all calls go from the top of this header towards its end.  The
 * folder sees the public headers of ir/, passes/, codegen/ and runtime/.
 *
 * Every function that returns bool returns false after it reported an error,
 * unless its comment says otherwise.
 */
#ifndef FRONTEND_TOOL_H
#define FRONTEND_TOOL_H

#include "codegen/cg.h"
#include "frontend/driver.h"
#include "passes/answer/answer.h"

struct plan;
struct search_options;

/* Exit statuses; a run that ends otherwise has met a bug of llmc. */
enum { DRV_OK = 0, DRV_BAD_INPUT = 1, DRV_BAD_USAGE = 2 };

/* ---- tool.c ----------------------------------------------------------- */

/* All of llmc except what is global to a process: see main.c, whose signal
 * handlers read `crash`.  Returns the exit status. */
int drv_main(int argc, char *const *argv, struct pass_crash *crash);

/* ---- about.c: help, version, lists ------------------------------------ */

/* True if --help, --version or a --list- option was given: d->out has it. */
bool drv_print_about(struct driver *d);

/* ---- finish.c: llmc finish -------------------------------------------- */

/* Compiles the kernels of an unfinished plan, and writes its folder anew. */
bool drv_finish(struct driver *d);

/* ---- tool_tokenize.c: llmc tokenize ------------------------------------ */

/* Writes the token file that -o names, and sums it up in d->out.  Returns the
 * exit status. */
int drv_tokenize(struct driver *d);

/* ---- sweep.c: llmc sweep ----------------------------------------------- */

/* Plans a model for many targets and sizes.  Returns the exit status. */
int drv_sweep(struct driver *d);

/* ---- schedule.c: llmc schedule ---------------------------------------- */

/* Makes or reads a pipeline schedule and prints it, or sums it up. */
bool drv_schedule(struct driver *d);

/* ---- explain.c: the answer, and what is printed after it -------------- */

enum drv_answer_form { DRV_ANSWER_TEXT, DRV_ANSWER_JSON, DRV_ANSWER_CODE };
/*
 * Prints the answer about rank programs of drv_run_for_answer(); with `code`
 * they are compiled too, if there is code for the target.
 */
bool drv_print_answer(struct driver *d, struct ir_module *m,
		      enum drv_answer_form form, bool code);
/* --emit=plans and plans-json: the table of --top alone, of plans for m. */
bool drv_print_plans(struct driver *d, struct ir_module *m);

/* ---- tool_serve.c: --serve --------------------------------------------- */

/* Whether --serve and --workload go with the other options. */
bool drv_check_serving(struct driver *d);
/* Prints how the model serves requests on --target. */
bool drv_serve(struct driver *d, struct ir_module *m);

struct serve_answer;
struct serve_answer_in;
struct serve_asked;
struct serve_plan;

/* ---- serve_code.c: the program of --serve ------------------------------- */

/* Compiles m, which is as it was read, as that answer says; false after
 * errors.  Where the program needs more memory than was foreseen, the answer
 * becomes that of fewer slots; it has what the program has, and `asked`, which
 * `in` has, says how much that is. */
bool drv_serve_code(struct driver *d, struct ir_module *m,
		    const struct serve_answer_in *in, struct serve_asked *asked,
		    struct serve_answer *x);
/* The same, but that it prints the rank programs of its largest step. */
bool drv_serve_ranks(struct driver *d, struct ir_module *m,
		     const struct serve_answer_in *in,
		     const struct serve_answer *x);
/* A price needs no program: where m can have none, a warning says why. */
void drv_warn_of_program(struct driver *d, const struct ir_module *m,
			 const struct serve_answer_in *in,
			 const struct serve_answer *x);

/* ---- serve_sizes.c: how large a step of that program is ---------------- */

/* What is chosen for keys and slots is a multiple of this, as where a
 * sequence's keys begin. */
#define DRV_SERVE_UNIT SERVE_KEYS_UNIT

/* A size of the serve block, which m has. */
int64_t drv_serve_size(const struct ir_module *m, const char *key);
/*
 * Adds the sizes of a step of the plan's program that m does not have.  The
 * cache holds what sequences in flight have, or what memory is left for; the
 * first block of it takes what positions without a sequence write.
 */
void drv_set_serve_sizes(struct ir_module *m, const struct serve_answer_in *in,
			 const struct serve_plan *x);
/* Sets the positions and keys of the largest step of a program of m, as far as
 * they are known before it is: *q has all else. */
void drv_set_serve_steps(const struct ir_module *m, struct serve_asked *q);
/*
 * Whether the sizes that the user set are those of a step that can answer such
 * a request; reports the first that is not.
 */
bool drv_check_serve_sizes(const struct ir_module *m,
			   const struct serve_asked *q);
/* Finds the host's memory of x->best; reports that hosts have less. */
bool drv_find_serve_host(struct driver *d, const struct ir_module *m,
			 const struct serve_answer_in *in,
			 struct serve_answer *x);

/* ---- plan_diff.c: two plans beside each other ------------------------- */

struct drv_side {
	const char *path;	/* the heading of its column */
	struct ir_module *m;
	VEC(const char *) text;	/* of each key of the plan */
	struct answer answer;
};

/* llmc diff. */
bool drv_diff(struct driver *d);
/* Copies the text of every key; of the module's settings if `p` is NULL. */
void drv_copy_keys(struct driver *d, struct drv_side *s,
		   const struct plan *p);
/* Prints the keys that differ, a line each. */
void drv_print_keys(struct drv_side *a, struct drv_side *b, struct buf *out);

/* ---- tool_answer.c: pricing a plan ------------------------------------ */

/* What the answer needs and a module no longer tells once it is staged. */
struct drv_facts {
	struct answer_model model;
	const char *arenas;	/* text of --explain=memory, or NULL */
	const char *kernels;	/* text of --explain=cost, or NULL */
	const char *tiles;	/* text of --explain=tiles, or NULL */
};

/*
 * The number that was given for an option, such as 2e12 or 2T, unless none
 * was.  False: it is not one from `least` to `most`, and `legal` was reported.
 */
bool drv_read_number(struct driver *d, enum opt_id id, double least,
		     double most, const char *legal, double *out);
/*
 * The run that --tokens, --storage, --restart and the model's train block
 * describe; of step_tokens tokens a step.
 */
bool drv_read_asked(struct driver *d, const struct ir_module *m,
		    int64_t step_tokens, struct answer_asked *out);
/* As pass_run() of d->passes; fills d->facts on the way. */
enum pass_result drv_run_for_answer(struct driver *d, struct ir_module *m);
/* Prices those rank programs on --target; compiles them if d->wants_code. */
bool drv_answer(struct driver *d, struct ir_module *m, struct answer *out);

/* ---- tool_target.c: --target ------------------------------------------ */

/*
 * Reads --target and --cpu, checks that they fit what is wanted, and sets
 * d->for_gpu, d->for_code and d->priced_cpu.
 */
bool drv_check_target(struct driver *d);
/* Makes memory count what code of the target needs of a model. */
void drv_set_capacity(struct driver *d, struct ir_module *m);
/* Reads --target, which is given; passes price for it from here on. */
bool drv_read_target(struct driver *d, struct target *t);
/*
 * Sets up the pass `search` if --target is given and the model has no plan of
 * its own or of --plan.  To be called before --pin is applied.  From here on
 * the first interrupt ends the search only.
 */
bool drv_set_search(struct driver *d, struct ir_module *m);
/* Passes have run: the next interrupt ends the program. */
void drv_heed_interrupts(void);

/* ---- rank_programs.c: what passes made of a plan ---------------------- */

/* Opens rank programs and prices one step of them on --target; the memory
 * that *p points to is of ctx->perm. */
bool drv_price_ranks(struct driver *d, struct ir_module *m,
		     struct target *t, struct ranks *r, struct price *p);
/* --emit=cost: the price of one step. */
bool drv_print_cost(struct driver *d, struct ir_module *m);
/* --emit=kernels; on --target, with launches only where they gain by it. */
bool drv_print_kernels(struct driver *d, struct ir_module *m);
typedef void drv_memory_print(const struct ranks *r, const struct memory *mem,
			      struct buf *out);
/* The memory of each rank of the pipeline; print is one of memory_print.c. */
bool drv_print_memory(struct driver *d, struct ir_module *m,
		      drv_memory_print *print);
/* --emit=ranks: the programs as IR, and as comments the order they run in. */
bool drv_print_ranks(struct driver *d, struct ir_module *m);

/* ---- plan_code.c: code of a plan -------------------------------------- */

/* Whether there is code for CPUs that a target calls so. */
bool drv_is_cpu(struct driver *d, const char *name);
/* Whether there is code for GPUs of that architecture, or for --arch. */
bool drv_has_kernels(struct driver *d, const char *arch);
/* Lets a search count the bytes that code needs beside the arena. */
bool drv_set_scratch(struct driver *d, struct search_options *o);
/*
 * Starts to compile rank programs for `t`, and adds the bytes that their code
 * keeps on each device to what the target reserves.  --autotune writes the
 * plan's tiles.  d->code stays NULL if there is no code for the target.
 */
bool drv_code_begin(struct driver *d, const struct ranks *r,
		    struct target *t, const struct target_devs *devs,
		    const struct price *p, struct plan *plan);
/* Sets what code for that device is for; no CPU: there is none. */
bool drv_code_for(struct driver *d, const struct target_device *device,
		  struct cg_input *in);
/* Says why there is no code for that device: the plan is written alone.  False:
 * --emit names code. */
bool drv_report_no_code(struct driver *d, const struct target_device *device);
/* Says what kernels of this module for an architecture, or NULL, do not use
 * yet. */
void drv_note_arch(const char *arch, const struct ir_module *m);
/* Prints the LLVM or CUDA text of d->code. */
bool drv_code_text(struct driver *d, const struct answer *x);
/* Links the program of d->code into d->program. */
bool drv_code_end(struct driver *d, const struct answer *x);

/* ---- autotune.c: --autotune ------------------------------------------- */

/* Measures the tiles that contractions may have on the GPU of this machine,
 * and writes the fastest of each into the plan. */
bool drv_autotune(struct driver *d, struct cg_input *in, struct plan *plan);

/* ---- plan_trials.c: --trials ------------------------------------------- */

/*
 * Emits all tiles of the plan's contractions and attention, and compiles them:
 * images[i] is of source i of `all`.  Messages of the compiler go to `c`; false
 * after an error of --OPTION.
 */
bool drv_trials_make(struct driver *d, struct ir_ctx *c,
		     const struct cg_input *in, const char *option,
		     struct cg_tiling *all, struct cg_images *images);
/* Adds them, and kernels without a choice, to the files of the folder. */
bool drv_trials(struct driver *d, const struct cg_input *in);

/* ---- whole.c: the unsplit program beside a split one ------------------ */

/* Keeps a copy of the model as it is before any pass. */
void drv_whole_copy(struct driver *d, const struct ir_module *m);
void drv_whole_release(struct driver *d);
/*
 * Compiles that copy on one rank, as a part beside a plan of these facts for
 * d->code_in.
 * False, which is no error: there is no such object, and *why says why.
 */
bool drv_whole_object(struct driver *d, const struct cg_facts *f,
		      const char **why);

/* ---- plan_kernels.c: kernels in a plan's folder ----------------------- */

/* One of the programs that are linked together. */
struct drv_part {
	const char *name;	/* cg_facts.part */
	struct buf object;
	struct cg_images images;	/* of a GPU; no sources: none */
};

/* What a program is linked of; the first is CG_PLAN. */
struct drv_kernels {
	struct drv_part part[CG_MAX_PARTS];
	uint32_t n;
};

/* "dot12.cu" of the plan; "whole-dot12.cu" of another part. */
const char *drv_kernels_file(struct arena *a, const char *part,
			     const char *name, const char *end);
/* One more part, still empty. */
struct drv_part *drv_kernels_part(struct driver *d, struct drv_kernels *k,
				  const char *name);

/* The first lines of unfinished/list. */
#define DRV_LIST "llmc-unfinished 1"
#define DRV_COMPILER "llmc " PACKAGE_VERSION

/*
 * As cg_images(), of those sources that `out` was not yet made of; before the
 * first call it is zeros.  Messages go to `c`.
 */
bool drv_kernels_make(struct driver *d, struct ir_ctx *c,
		      const struct cg_source *at, uint32_t n,
		      struct cg_images *out);
/*
 * Generates the code of `in`, and compiles its kernels if they are a GPU's.
 * A tile that spills registers gives way to the next best, until none spills
 * or none is left; in->tiling is not NULL.  NULL after errors, in `c`.
 */
struct cg_code *drv_kernels_settle(struct driver *d, struct ir_ctx *c,
				   const struct cg_input *in,
				   struct cg_images *out);
/*
 * Links the program, adds the kernels to the files of the folder and their
 * table to d->json; without NVRTC, also what `llmc finish` needs.
 */
bool drv_kernels_end(struct driver *d, const struct drv_kernels *k);

/* ---- rerun.c: runs that a file describes ----------------------------- */

/* The text of a file that a run has read. */
struct drv_read {
	const char *text;
	size_t bytes;
};
struct drv_reads {
	struct drv_read *at;
	uint32_t n, cap;
};

/*
 * Replaces the options by those in the first line of the file that
 * --run-reproducer names.  False: *why is one line for the user.
 */
bool drv_replay(struct driver *d, struct buf *why);
/* Writes the options of this run, and the names of the files that it read,
 * one to a line; their texts go to `reads` in the same order. */
void drv_rerun_keep(struct driver *d, struct buf *words,
		    struct drv_reads *reads);
/* Sets the options and files of such a run, with the input as its -o; the
 * driver then starts again. */
bool drv_rerun(struct driver *d, const char *words,
	       const struct drv_reads *reads);

/* ---- input.c: what a run reads ---------------------------------------- */

/* Prints "llmc: reading model.llm" if --verbose is given. */
void drv_print_verbose(const struct driver *d, const char *what,
		       const char *name);
bool drv_read_source(struct driver *d, const char *path, uint32_t *index);
/* The module of an input file.  NULL: an error was reported, or --emit=ast
 * has printed the tree. */
struct ir_module *drv_load(struct driver *d, const char *path);
/* Writes --plan and then every --pin into the module's settings. */
bool drv_set_plan(struct driver *d, struct ir_module *m);

/* ---- output.c: what a run writes -------------------------------------- */

/* Writes all of the text or nothing; NULL and "-" are standard output. */
bool drv_write(struct ir_ctx *c, const char *path, const struct buf *text);
void drv_add_file(struct driver *d, const char *name,
		  const struct buf *text, bool is_program);
/*
 * Writes d->files, d->json, d->plan and d->program into a plan's folder: all
 * of them or, if the folder is new, none.  A program and kernels that an
 * earlier plan left there are removed.
 */
bool drv_write_plan(struct driver *d, const char *path);
/* Checked before minutes of compiling: is it a folder, or can it be made? */
bool drv_may_write_folder(struct ir_ctx *c, const char *path);
/* The same of a file. */
bool drv_may_write_file(struct ir_ctx *c, const char *path);

/* ---- messages.c ------------------------------------------------------- */

/* --color, else NO_COLOR, else CLICOLOR_FORCE, else the terminal. */
bool drv_want_color(const struct driver *d);
/* Sets form, color and warnings of messages. */
bool drv_set_messages(struct driver *d);

/* ---- endings.c: types that names of files say ------------------------- */

/* Whether no name of an output says another type than what is written. */
bool drv_check_endings(struct driver *d);

/* ---- wants.c: what a run is asked for --------------------------------- */

/* Whether --emit, given or by default, is `what`. */
bool drv_wants(const struct driver *d, const char *what);
bool drv_wants_answer(const struct driver *d);
/* A table of plans, or the same for programs. */
bool drv_wants_plans(const struct driver *d);
/* --serve, or its answer or rank programs by --emit. */
bool drv_wants_serving(const struct driver *d);
/* -o names a folder for the plan; the answer goes to standard output. */
bool drv_wants_folder(const struct driver *d);
/* --emit=llvm or cuda: the text of the code. */
bool drv_wants_code(const struct driver *d);
/* What prints memory in the form that --emit names; NULL: another output. */
drv_memory_print *drv_memory_printer(const struct driver *d);
/* Whether passes make rank programs, not a model. */
bool drv_wants_ranks(const struct driver *d);
/* Whether --explain names `what`. */
bool drv_explains(const struct driver *d, const char *what);
/*
 * Whether the options about the target, the plan and the answer go with each
 * other; keeps a copy of the model for --why-not.  To be called once the plan
 * is set.
 */
bool drv_check_wants(struct driver *d, struct ir_module *m);

#endif

/*
 * The interface of passes: what a pass is, the table of passes, and the manager
 * that runs, times, prints and verifies them.  A pass itself never prints.
 * docs/passes.md says how to write one.  Each section names the .c file that
 * defines what it declares.
 */
#ifndef PASSES_PASS_H
#define PASSES_PASS_H

#include "ir/ir.h"

/* Properties of a module that a pass may need, give or kill. */
enum pass_prop {
	PROP_CALLS = 1 << 0,	/* layers may be called, not inlined */
	PROP_FLAT = 1 << 1,	/* no calls are left */
	PROP_FOLDED = 1 << 2,	/* no dim is an expression */
	PROP_BACKWARD = 1 << 3,	/* gradients are accumulated */
	PROP_UPDATE = 1 << 4,	/* there is a layer `update` */
	PROP_PLACED = 1 << 5,	/* there is a mesh; values have placements */
	PROP_STAGED = 1 << 6	/* rank programs instead of a model */
};
#define PASS_NPROPS 7
/* A flag in `gives`: the pass leaves the module unchanged. */
#define PASS_SAME (1u << 31)

struct pass_stats;
struct search_options;
struct target;
struct memo;
struct pass_ahead;

/* What a pass receives besides the module. */
struct pass_ctx {
	struct ir_ctx *ctx;
	struct pass_stats *stats;
	const struct search_options *search;	/* NULL: there is no target */
	const struct target *target;	/* compile for it; or NULL */
	const struct target *cluster;	/* place for it; or NULL */
	struct memo *memo;	/* of earlier results, or NULL */
	struct pass_ahead *ahead;	/* may run passes ahead; or NULL */
};

/* False after errors.  ctx->tmp is scratch and is reset after the pass. */
typedef bool pass_fn(struct pass_ctx *p, struct ir_module *m);

struct pass {
	const char *name;
	uint32_t needs, gives, kills;	/* enum pass_prop */
	pass_fn *run;
	const char *purpose;	/* one line */
};

/* The passes themselves, each in a file of its own. */
#define PASS(id, name, needs, gives, kills, purpose) pass_fn pass_##id;
#include "passes/passes.def"
#undef PASS

/* ---- pass_table.c: which passes there are, and their order ------------ */

/* passes.def, in running order. */
extern const struct pass pass_builtin[];
extern const uint32_t pass_nbuiltin;

/* A known pass, built in or from a plug-in. */
struct pass_known {
	struct pass pass;
	const char *file;	/* the plug-in, or NULL */
};

/* All known passes, and the plug-ins that must stay loaded for them. */
struct pass_table {
	struct ir_ctx *ctx;
	VEC(struct pass_known) known;
	VEC(void *) handles;
};

void pass_table_init(struct pass_table *t, struct ir_ctx *c);
void pass_table_release(struct pass_table *t);
const struct pass_known *pass_find(const struct pass_table *t,
				   const char *name);
/* The pass of that name, or NULL after an error that suggests one. */
const struct pass_known *pass_want(struct pass_table *t, const char *name);

/* "flat", or NULL after the last property. */
const char *pass_prop_name(uint32_t bit);
/* A module's set of pass_prop. */
uint32_t pass_props(const struct ir_module *m);

/* Splits the first word off "a,b,c"; false at the end. */
bool pass_words(struct arena *a, const char **text, char **word);

/* Passes to run, in order. */
struct pass_list {
	VEC(const struct pass *) at;
};

/*
 * Parses "a,b,c", which may be empty.  `split` means all built-in passes in
 * order, `train` those that need no plan, and `default` those that neither
 * add training nor split the model.  False after an error.
 */
bool pass_list_parse(struct pass_table *t, struct pass_list *l,
		     const char *text);
/*
 * Inserts one pass: "name@after:pass" or "name@before:pass"; "name@for:pass"
 * replaces the other pass.
 */
bool pass_list_insert(struct pass_table *t, struct pass_list *l,
		      const char *text);
/* Reports that the list lacks the pass of that name, and what it has. */
void pass_list_lacks(struct pass_table *t, const struct pass_list *l,
		     const char *name);
/*
 * Whether each pass has the properties it needs, if the module starts with
 * `have`.  If not, *why says which pass needs what, and which pass gives it.
 */
bool pass_order(const struct pass_table *t, const struct pass_list *l,
		uint32_t have, struct buf *why);

/* ---- served.c ---------------------------------------------------------- */

/*
 * Makes the logits the model's result in place of its loss: the value of that
 * name, or the result if it is no scalar.  False after an error.
 */
bool pass_keep_logits(struct ir_module *m);
/* The dims of the model's tokens: `batch`, and the one of positions.  False
 * after an error. */
bool pass_find_tokens(struct ir_module *m, dim_id *batch, dim_id *seq);

/* ---- absorb.c ---------------------------------------------------------- */

/*
 * Attention whose keys and values are computed of cached rows by weights alone
 * attends to these rows, which are cached as the keys of one kv head; a cache
 * of what is computed of cached rows is left out.  Returns how many attentions
 * did not yet.  The module must be flat and folded.
 */
uint32_t pass_absorb_latents(struct ir_module *m);

/* ---- ragged.c ---------------------------------------------------------- */

/* Makes a step that `ragged` made, and that may be split, one of so many
 * positions and logits. */
void pass_resize_step(struct ir_module *m, int64_t tokens, int64_t rows);

/* ---- plugin.c: passes from shared objects ----------------------------- */

/*
 * What a plug-in's `llmc_pass_plugin` returns.  abi_version must stay the first
 * member, so that every version of llmc can read it from any plug-in.
 */
struct pass_plugin {
	uint32_t abi_version;	/* the plug-in's IR_ABI_VERSION */
	const char *name, *version;
	const struct pass *passes;
	uint32_t npasses;
};
typedef const struct pass_plugin *pass_plugin_fn(void);
#define PASS_PLUGIN_SYMBOL "llmc_pass_plugin"

/* Defined by the plug-in: the one symbol that llmc looks up. */
const struct pass_plugin *llmc_pass_plugin(void);

/* Loads a plug-in and adds its passes to the table.  False after an error. */
bool pass_load(struct pass_table *t, const char *file);

/* ---- crash.c: the reproducer of a pass that crashed ------------------- */

/*
 * The module before the running pass, for a signal handler to print.  The
 * program's main owns the only record and installs the handler; the manager
 * fills the record before a pass and clears it after.
 */
struct pass_crash {
	struct ir_module *volatile before;	/* NULL: no pass is running */
	struct ir_print_scratch scratch;	/* for the printer */
	const char *args;	/* first line of the file */
	const char *file;	/* where to write it */
	const char *message;	/* for the user, once it is written */
	volatile bool writing;	/* a second fault then ends the attempt */
	/* what runs, to tell the user: "pass search", "evaluation" */
	const char *volatile doing;
};

/* Writes the reproducer file, only once.  Allocates nothing. */
void pass_crash_write(struct pass_crash *c);

/* ---- ahead.c: results of passes that ran ahead of their turn ---------- */

struct pass_made;
struct pass_name;

/* A later pass in the list that is running. */
struct pass_follow {
	pass_fn *run;
	bool seen;		/* its result is observed */
};

struct pass_ahead {
	struct arena arena;
	const struct target *target;	/* of these results, or NULL */
	VEC(struct pass_follow) follow;	/* in running order */
	VEC(struct pass_made) at;	/* in running order */
	VEC(struct pass_name) names;	/* by number, from nshared on */
	uint32_t nshared, next, taken;
	bool ended;		/* store no more results */
};

/* Prepares to run passes in a child context of c for target t.  `of` has the
 * list of later passes; NULL if it is unknown. */
void pass_ahead_init(struct pass_ahead *a, struct ir_ctx *c,
		     const struct target *t, const struct pass_ahead *of);
void pass_ahead_release(struct pass_ahead *a);
/* Runs a pass on m for the target of `a`, and stores its result. */
bool pass_ahead_make(struct pass_ahead *a, struct pass_ctx *p,
		     struct ir_module *m, pass_fn *run);
/* After the last pass: keeps its module and the memory of its context. */
void pass_ahead_end(struct pass_ahead *a, struct ir_module *m);
/* Moves the results of `from` to `to`; their memory lives as long as c. */
void pass_ahead_give(struct pass_ahead *to, struct pass_ahead *from,
		     struct ir_ctx *c);
/*
 * Whether the result of pass `run` is stored.  Since the results were given,
 * the caller must have run only the passes before it on the module.
 */
bool pass_ahead_has(const struct pass_ahead *a, const struct pass_ctx *p,
		    pass_fn *run);
/* Sets m to the stored result and adds the pass's counts; valid once. */
void pass_ahead_take(struct pass_ahead *a, struct pass_ctx *p,
		     struct ir_module *m);
/* Discards stored results: the module changes. */
void pass_ahead_drop(struct pass_ahead *a);

/* ---- manager.c: running a list ---------------------------------------- */

/* The passes that an option names. */
struct pass_set {
	bool all;
	VEC(const struct pass *) at;
};
/* Adds passes "a,b"; NULL or "all" means all.  False after an error. */
bool pass_set_parse(struct pass_table *t, struct pass_set *s,
		    const char *text);

struct pass_options {
	struct pass_set before, after;	/* print the IR there */
	bool compare;		/* find out which passes changed it */
	bool changed;		/* compare, and print after a change */
	bool verify;		/* after each pass too, not only at the start */
	bool verbose;		/* say which pass runs */
	const struct pass *stop;	/* the last to run, or NULL */
	bool bisect;		/* number and log the runs */
	int64_t limit;		/* skip all runs after this many; -1: none */
	const char *reproducer;	/* file, or NULL: llmc-repro-NAME.ir */
	FILE *log;
};

/* Times of one run of a pass. */
struct pass_time {
	const struct pass *pass;
	double wall_us, cpu_us;
	int64_t peak_bytes;	/* allocated from arenas */
	bool changed;		/* true if not compared */
	bool skipped;
};

/* A count for --stats. */
struct pass_count {
	const char *pass, *what;
	int64_t n;
};

struct pass_stats {
	struct arena *arena;
	const char *pass;	/* the one that is running */
	VEC(struct pass_count) at;
};

struct pass_manager {
	struct pass_table *table;
	struct pass_options options;
	struct pass_crash *crash;	/* may be NULL */
	const struct search_options *search;	/* may be NULL */
	const struct target *target;	/* may be NULL */
	const struct target *cluster;	/* to place for; may be NULL */
	struct memo *memo;	/* shared by runs; NULL: no caching */
	/* `look` is called before the first pass that gives any property
	 * in `watch`; it returns false after errors. */
	uint32_t watch;
	bool (*look)(void *user, struct ir_module *m);
	void *user;
	struct pass_stats stats;
	struct pass_ahead ahead;	/* results in this run of the list */
	VEC(struct pass_time) times;
	int64_t runs;		/* so far, for the bisect limit */
	struct arena before;	/* copy of the module, for a crash */
	struct arena text[2];	/* before and after a pass, to compare */
};

/* All options are off and the log is stderr. */
void pass_manager_init(struct pass_manager *pm, struct pass_table *t);
void pass_manager_release(struct pass_manager *pm);
enum pass_result {
	PASS_OK,
	PASS_BAD_ORDER,		/* the list cannot run on this module */
	PASS_BAD_INPUT		/* errors in the module or from a pass */
};
/*
 * Checks the order, verifies the module, runs the list on it, and reports
 * errors.  If a pass leaves an invalid module, which is a bug of llmc, this
 * writes the reproducer and aborts.
 */
enum pass_result pass_run(struct pass_manager *pm, const struct pass_list *l,
			  struct ir_module *m);

/*
 * Runs a list given by name, "split", with a table and a manager of its own
 * and without plug-ins.  `verify`: verify the module after each pass.
 */
enum pass_result pass_apply(struct ir_module *m, const char *passes,
			    bool verify);
/*
 * pass_apply with a cluster and a memo; each may be NULL.  `ours`: llmc's own
 * code runs on it.
 */
enum pass_result pass_apply_for(struct ir_module *m, const char *passes,
				const struct target *cluster, bool ours,
				struct memo *memo, bool verify);

/* ---- report.c: --time-passes, --stats, --list-passes ------------------ */

/* Counts something under a name, for --stats: "values merged". */
void pass_count(struct pass_ctx *p, const char *what, int64_t n);

void pass_print_times(const struct pass_manager *pm, struct buf *out);
void pass_print_stats(const struct pass_manager *pm, struct buf *out);
void pass_print_table(const struct pass_table *t, struct buf *out);

/* ---- funcs.c: layers, and who calls them ------------------------------ */

#define PASS_MAX_NODES ((int64_t)1 << 20)	/* of an inlined module */

/* By func_id, in ctx->tmp: is it reachable from the model (if there is one)? */
bool *pass_live_funcs(const struct ir_module *m);
/* Removes the functions not in `live`, and returns how many. */
uint32_t pass_drop_funcs(struct ir_module *m, const bool *live);
/* The size of a function after all its calls are inlined. */
struct pass_flat {
	/* plus one for each call; counting stops above the maximum */
	int64_t nodes;
	uint32_t depth;		/* nesting depth of repeats */
};
/* By func_id, in ctx->tmp. */
struct pass_flat *pass_flat_sizes(const struct ir_module *m);
/* False after an error: f, inlined, has more than PASS_MAX_NODES nodes. */
bool pass_flat_fits(const struct ir_module *m, func_id f);

/* ---- tensor_names.c: full names of tensors ------------------------------ */

/* Whether the node's name is a tensor's, or a part of tensors' names. */
bool pass_names_tensors(const struct ir_node *n);
/* Whether the node is a weight that gradients train. */
bool pass_is_trained(const struct ir_module *m, const struct ir_node *n);
/* Whether `text` mentions {var}. */
bool pass_mentions(const char *text, const char *var);
/* A copy of `text` with each {var} replaced by {by}. */
const char *pass_rename(struct arena *a, const char *text, const char *var,
			const char *by);
/* prefix.name; either may be NULL or empty. */
const char *pass_join(struct arena *a, const char *prefix, const char *name);

/* ---- weight_values.c: values computed from weights alone ---------------- */

/* The weight that v is, or the first of those that it is computed from with
 * numbers alone, gathered between ranks or not; 0: it takes anything else. */
value_id pass_weight_of(const struct ir_module *m, value_id v);
bool pass_is_weight(const struct ir_module *m, value_id v);

/* ---- choices.c: what chooses experts ------------------------------------ */

/* Marks the values of a region, without those inside it, that indices depend
 * on, back to contractions; `chooses` is by value. */
void pass_find_choices(const struct ir_module *m, const struct ir_region *r,
		       bool *chooses);

/* ---- stored.c: how weights may be stored in fewer bits ------------------- */

struct pass_stored {
	bool is_rounded;	/* else it stays as it is declared */
	bool is_outer;		/* it is of no layer; formats may leave it */
	bool in_groups;		/* of IR_GROUP elements of its rows, side by
				 * side; else a format of groups has it in 8
				 * bits */
	struct ir_attr over;	/* if it is rounded: the dims of a row */
};

/* By name of a weight of the model, which is flat; in arena a. */
const struct pass_stored *pass_find_stored(const struct ir_module *m,
					   struct arena *a);

/* ---- quantise.c ---------------------------------------------------------- */

/* Stores as int4 the weights that have groups, and no others: how such weights
 * may be split, a program's price has from their type. */
void pass_store_groups(struct ir_module *m, const struct pass_stored *as);

/* ---- summary.c: what a model costs ------------------------------------ */

/* Groups of weights by use; "other" has norms, biases and the like. */
enum pass_group {
	GROUP_EMBEDDING, GROUP_ATTENTION, GROUP_MLP, GROUP_EXPERTS,
	GROUP_HEAD, GROUP_OTHER, GROUP_COUNT
};

/* Bytes that decoding keeps per token, for the last `window` tokens. */
struct pass_cache {
	int64_t window;		/* 0: all tokens */
	int64_t bytes;
};

#define PASS_MAX_CACHES 8

struct pass_sums {
	int64_t tokens;		/* per step; 0: the model reads none */
	int64_t total, active, group[GROUP_COUNT];	/* parameters */
	int64_t frozen;		/* of the parameters */
	int64_t state;		/* elements stored but not trained */
	int64_t weight_bytes, gradient_bytes, optimizer_bytes, state_bytes;
	const char *optimizer;	/* NULL: none is set */
	bool optimizer_known;
	bool training;		/* there is a backward program */
	int64_t saved_bytes;	/* saved by repeats in a step */
	/* per token, or per run if there are no tokens */
	double contraction_flops, attention_flops, other_flops;
	double backward_flops;
	struct pass_cache cache[PASS_MAX_CACHES];
	uint32_t ncaches;
};

/* Works before and after inlining.  False after an error. */
bool pass_sum(struct ir_module *m, struct pass_sums *out);

/* ---- summary_print.c: the summary as text ----------------------------- */

void pass_print_sums(const struct ir_module *m, const struct pass_sums *s,
		     struct buf *out);
void pass_print_sums_json(const struct ir_module *m,
			  const struct pass_sums *s, struct buf *out);

#endif

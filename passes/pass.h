/*
 * Passes: what one is, their table, and the manager that runs, times, prints
 * and verifies them.  A pass itself never prints. docs/passes.md describes how
 * to write one.  Sections are named for the .c that defines them.
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
	PROP_PLACED = 1 << 5,	/* there is a mesh, and values lie on it */
	PROP_STAGED = 1 << 6	/* rank programs, and no model */
};
#define PASS_NPROPS 7
/* Beside what a pass gives: it leaves the module as it was. */
#define PASS_SAME (1u << 31)

struct pass_stats;
struct search_options;
struct target;
struct memo;
struct pass_ahead;

/* What a pass is handed besides the module. */
struct pass_ctx {
	struct ir_ctx *ctx;
	struct pass_stats *stats;
	const struct search_options *search;	/* NULL: there is no target */
	const struct target *target;	/* what runs it, or NULL */
	struct memo *memo;	/* of what was found before, or NULL */
	struct pass_ahead *ahead;	/* for what it has made, or NULL */
};

/* False: it reported errors. It may use ctx->tmp, which is then reset. */
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

/* One pass that is known: built in, or out of a plug-in. */
struct pass_known {
	struct pass pass;
	const char *file;	/* the plug-in, or NULL */
};

/* All known passes, and the plug-ins that must stay open for them. */
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

/* "flat", or NULL past the last. */
const char *pass_prop_name(uint32_t bit);
/* Properties of a module. */
uint32_t pass_props(const struct ir_module *m);

/* Takes the next word off "a,b,c"; false at the end. */
bool pass_words(struct arena *a, const char **text, char **word);

/* Passes to run, in order. */
struct pass_list {
	VEC(const struct pass *) at;
};

/*
 * Reads "a,b,c"; `split` stands for all built-in passes in order, `train` for
 * those that need no plan, `default` for those that keep a model as it is.
 * May be "".  False after an error.
 */
bool pass_list_parse(struct pass_table *t, struct pass_list *l,
		     const char *text);
/*
 * Adds one pass by "name@after:pass" or "name@before:pass"; "name@for:pass"
 * takes that one's place.
 */
bool pass_list_insert(struct pass_table *t, struct pass_list *l,
		      const char *text);
/*
 * Whether each pass finds what it needs, given `have` at the start.  If not,
 * *why says which pass needs what, and which pass of the table gives it.
 */
bool pass_order(const struct pass_table *t, const struct pass_list *l,
		uint32_t have, struct buf *why);

/* ---- plugin.c: passes from shared objects ----------------------------- */

/*
 * What `llmc_pass_plugin` of a plug-in returns.  abi_version is first and
 * stays first, so that any version can read it of any other.
 */
struct pass_plugin {
	uint32_t abi_version;	/* IR_ABI_VERSION it was compiled with */
	const char *name, *version;
	const struct pass *passes;
	uint32_t npasses;
};
typedef const struct pass_plugin *pass_plugin_fn(void);
#define PASS_PLUGIN_SYMBOL "llmc_pass_plugin"

/* For the plug-in itself: the one symbol llmc looks for. */
const struct pass_plugin *llmc_pass_plugin(void);

/* Loads a plug-in and adds its passes. False after an error. */
bool pass_load(struct pass_table *t, const char *file);

/* ---- crash.c: what is left behind when a pass dies -------------------- */

/*
 * The module before the running pass, to be printed by a signal handler.
 * Whoever owns the process owns the one record and installs the handler; the
 * manager fills it before a pass and empties it after.
 */
struct pass_crash {
	struct ir_module *volatile before;	/* NULL: no pass is running */
	struct ir_print_scratch scratch;	/* to print it */
	const char *args;	/* the line before it */
	const char *file;	/* where to write it */
	const char *message;	/* for the user, once it is written */
	volatile bool writing;	/* a fault means that it cannot be written */
	/* for who waits at a terminal: "pass search", "evaluation" */
	const char *volatile doing;
};

/* Writes the record, once, and allocates nothing. */
void pass_crash_write(struct pass_crash *c);

/* ---- ahead.c: what a pass had made of its module by those after it ---- */

struct pass_made;
struct pass_name;

/* One that stands after, in the list that runs. */
struct pass_follow {
	pass_fn *run;
	bool seen;		/* what it leaves, before the next one runs */
};

struct pass_ahead {
	struct arena arena;
	const struct target *target;	/* it was made for, or NULL */
	VEC(struct pass_follow) follow;	/* in running order */
	VEC(struct pass_made) at;	/* in running order */
	VEC(struct pass_name) names;	/* after the shared ones, by number */
	uint32_t nshared, next, taken;
	bool ended;		/* nothing more is kept */
};

/* Of a module that becomes one of a child of c, made for that target and for
 * what follows in `of`; NULL: nobody knows. */
void pass_ahead_init(struct pass_ahead *a, struct ir_ctx *c,
		     const struct target *t, const struct pass_ahead *of);
void pass_ahead_release(struct pass_ahead *a);
/* Runs a pass on it, for that target, and keeps what it left. */
bool pass_ahead_make(struct pass_ahead *a, struct pass_ctx *p,
		     struct ir_module *m, pass_fn *run);
/* The last one has run: what it left stays, with the memory of its context. */
void pass_ahead_end(struct pass_ahead *a, struct ir_module *m);
/* What `from` has, in place of what `to` had, for as long as c lives. */
void pass_ahead_give(struct pass_ahead *to, struct pass_ahead *from,
		     struct ir_ctx *c);
/*
 * Whether what this pass would make is there.  Who asks has run those before
 * it on the module since it was given, and nothing else.
 */
bool pass_ahead_has(const struct pass_ahead *a, const struct pass_ctx *p,
		    pass_fn *run);
/* m is what it made, once: it was counted as if the pass had run. */
void pass_ahead_take(struct pass_ahead *a, struct pass_ctx *p,
		     struct ir_module *m);
/* The module is going to be another one. */
void pass_ahead_drop(struct pass_ahead *a);

/* ---- manager.c: running a list ---------------------------------------- */

/* Which passes an option named. */
struct pass_set {
	bool all;
	VEC(const struct pass *) at;
};
/* Adds the passes of "a,b"; NULL or "all" is all. False after an error. */
bool pass_set_parse(struct pass_table *t, struct pass_set *s,
		    const char *text);

struct pass_options {
	struct pass_set before, after;	/* print the IR there */
	bool compare;		/* find out which passes changed it */
	bool changed;		/* the same, and print it after these */
	bool verify;		/* after each pass, not only before the first */
	bool verbose;		/* say which pass runs */
	const struct pass *stop;	/* the last to run, or NULL */
	bool bisect;		/* number the runs, and say so */
	int64_t limit;		/* skip all runs after this many; -1: none */
	const char *reproducer;	/* file, or NULL: llmc-repro-NAME.ir */
	FILE *log;
};

/* One run of one pass. */
struct pass_time {
	const struct pass *pass;
	double wall_us, cpu_us;
	int64_t peak_bytes;	/* asked of the arenas meanwhile */
	bool changed;		/* or nobody asked */
	bool skipped;
};

/* What a pass counted. */
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
	const struct target *target;	/* the same */
	struct memo *memo;	/* of this run and others; NULL: none is kept */
	/* Asked before the first pass that gives any of these.  False: it
	 * reported errors. */
	uint32_t watch;
	bool (*look)(void *user, struct ir_module *m);
	void *user;
	struct pass_stats stats;
	struct pass_ahead ahead;	/* of a pass of this run of the list */
	VEC(struct pass_time) times;
	int64_t runs;		/* so far, for the bisect limit */
	struct arena before;	/* the module as it was, for a crash */
	struct arena text[2];	/* before and after a pass, to compare */
};

/* All options off; the log is stderr. */
void pass_manager_init(struct pass_manager *pm, struct pass_table *t);
void pass_manager_release(struct pass_manager *pm);
enum pass_result {
	PASS_OK,
	PASS_BAD_ORDER,		/* the list cannot run on this module */
	PASS_BAD_INPUT		/* the module, or what a pass found in it */
};
/*
 * Checks the order, verifies the module and runs the list on it.  Errors are
 * reported.  A pass that leaves a broken module behind is our own fault: it
 * does not return then, but writes the reproducer and aborts.
 */
enum pass_result pass_run(struct pass_manager *pm, const struct pass_list *l,
			  struct ir_module *m);

/*
 * The same of a list by name, "split", with a table and a manager of its own;
 * no plug-in has a say.  `verify`: after each pass.
 */
enum pass_result pass_apply(struct ir_module *m, const char *passes,
			    bool verify);
/* For what will run it, or NULL, and with a memo, or NULL. */
enum pass_result pass_apply_for(struct ir_module *m, const char *passes,
				const struct target *target,
				struct memo *memo, bool verify);

/* ---- report.c: --time-passes, --stats, --list-passes ------------------ */

/* Counts something under a name, for --stats: "values merged". */
void pass_count(struct pass_ctx *p, const char *what, int64_t n);

void pass_print_times(const struct pass_manager *pm, struct buf *out);
void pass_print_stats(const struct pass_manager *pm, struct buf *out);
void pass_print_table(const struct pass_table *t, struct buf *out);

/* ---- funcs.c: layers, and who calls them ------------------------------ */

#define PASS_MAX_NODES ((int64_t)1 << 20)	/* of an inlined module */

/* By func_id, in ctx->tmp: what the model reaches; all, if there is none. */
bool *pass_live_funcs(const struct ir_module *m);
/* Removes the functions that are not in `live`; how many. */
uint32_t pass_drop_funcs(struct ir_module *m, const bool *live);
/* A function once all calls in it are inlined. */
struct pass_flat {
	/* and a call one more; counted up to a little over the maximum */
	int64_t nodes;
	uint32_t depth;		/* of repeats in repeats */
};
/* By func_id, in ctx->tmp. */
struct pass_flat *pass_flat_sizes(const struct ir_module *m);
/* False, reported: following all calls of f is more than PASS_MAX_NODES. */
bool pass_flat_fits(const struct ir_module *m, func_id f);

/* ---- tensor_names.c: what tensors are called ---------------------------- */

/* Whether the node's name is a tensor's, or a part of tensors' names. */
bool pass_names_tensors(const struct ir_node *n);
/* Whether `text` mentions {var}. */
bool pass_mentions(const char *text, const char *var);
/* `text` with each {var} as {by}, in the arena. */
const char *pass_rename(struct arena *a, const char *text, const char *var,
			const char *by);
/* prefix.name; either may be NULL or empty. */
const char *pass_join(struct arena *a, const char *prefix, const char *name);

/* ---- weight_values.c: what is made of weights --------------------------- */

/* Whether v is a weight, or is made of weights and numbers alone. */
bool pass_is_weight(const struct ir_module *m, value_id v);

/* ---- summary.c: what a model costs ------------------------------------ */

/* Weights by what uses them; "other" is norms, biases, and the like. */
enum pass_group {
	GROUP_EMBEDDING, GROUP_ATTENTION, GROUP_MLP, GROUP_EXPERTS,
	GROUP_HEAD, GROUP_OTHER, GROUP_COUNT
};

/* Decoding keeps so much per token, for the last `window` tokens. */
struct pass_cache {
	int64_t window;		/* 0: all tokens */
	int64_t bytes;
};

#define PASS_MAX_CACHES 8

struct pass_sums {
	int64_t tokens;		/* of one step; 0: the model reads none */
	int64_t total, active, group[GROUP_COUNT];	/* parameters */
	int64_t state;		/* elements kept but not trained */
	int64_t weight_bytes, gradient_bytes, optimizer_bytes, state_bytes;
	const char *optimizer;	/* NULL: none is set */
	bool optimizer_known;
	bool training;		/* the backward program is there */
	int64_t saved_bytes;	/* that repeats keep for it, in a step */
	/* per token, or per run if there are no tokens */
	double contraction_flops, attention_flops, other_flops;
	double backward_flops;
	struct pass_cache cache[PASS_MAX_CACHES];
	uint32_t ncaches;
};

/* Works on called and on inlined modules. False after an error. */
bool pass_sum(struct ir_module *m, struct pass_sums *out);

/* ---- summary_print.c: the same as text -------------------------------- */

void pass_print_sums(const struct ir_module *m, const struct pass_sums *s,
		     struct buf *out);
void pass_print_sums_json(const struct ir_module *m,
			  const struct pass_sums *s, struct buf *out);

#endif

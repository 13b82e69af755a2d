/*
 * What a person reads about a plan: the time of a step by what it is spent on,
 * memory, rates, money and failures, on one screen and as plan.json.  It reads
 * a priced plan, its rank programs and its memory (price/, stage/, memory/) and
 * computes no price of its own; frontend/tool/ calls it.  docs/answer.md is the
 * page about it, with a source for every definition.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_ANSWER_H
#define PASSES_ANSWER_H

#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "passes/price/price.h"
#include "passes/search/search.h"

/*
 * Of plan.json.  Version 3 had target.not_measured, a list of constants, where
 * version 4 has target.origins of all of them.  Version 2 had
 * search.shardings_ruled_out, of shardings that a rule left out, where
 * version 3 has search.plans_left_open.  Version 1 called it
 * search.placements_ruled_out, and plan.places and search.placements what is
 * now plan.device_groups and search.shardings.
 */
#define ANSWER_VERSION 4
#define ANSWER_LABEL 27	/* columns of the longest row of a time */
/*
 * Written to storage by each node: 2 TB/s held by 2,000 nodes (The Llama 3
 * Herd of Models, arXiv:2407.21783, 3.1).
 */
#define ANSWER_STORAGE_GB_S 1.0
#define ANSWER_RESTART_MINUTES 10.0	/* from a failure to the next step */

/*
 * TIME(id, key, what it is): what a step's time is spent on.  Collectives are
 * counted by the axis of the mesh along which they run.
 */
#define ANSWER_TIMES(TIME) \
	TIME(MATRIX, "contractions", "contractions") \
	TIME(ATTENTION, "attention", "attention") \
	TIME(MAPS, "maps", "maps and rows") \
	TIME(RECOMPUTE, "recomputation", "recomputation") \
	TIME(LAUNCH, "launches", "launches") \
	TIME(TENSOR, "tensor", "communication: tensor") \
	TIME(SEQUENCE, "sequence", "communication: sequence") \
	TIME(CONTEXT, "context", "communication: context") \
	TIME(EXPERT, "expert", "communication: expert") \
	TIME(DATA, "data", "communication: data, ZeRO") \
	TIME(PIPELINE, "pipeline", "communication: pipeline") \
	TIME(OPTIMIZER, "optimizer", "optimizer") \
	TIME(HOST, "host", "host transfers") \
	TIME(BUBBLE, "bubble", "waiting (bubble)")

enum answer_time {
#define TIME(id, key, what) ANSWER_##id,
	ANSWER_TIMES(TIME)
#undef TIME
	ANSWER_NTIMES
};

struct answer_time_row {
	const char *key, *what;
};

/* Bytes of one rank of the pipeline. */
struct answer_rank {
	uint32_t stages;
	int64_t weights, gradients, optimizer, saved, reserve;
	int64_t temps;		/* with inputs, results and sent values */
	int64_t total;
	int64_t host;		/* on its host or drives; not in total */
	int64_t device;		/* bytes that its device has */
};

/*
 * What of a step's time is counted in the code of llmc's own kernels: what
 * follows the products of contractions, and attention.  All else is by the
 * measured kernels of others, or by rates of a device.
 */
struct answer_counted {
	double epilogues_us, attention_us;
};

struct answer_memory {
	struct answer_rank *rank;
	uint32_t nranks, fullest;
	const char *peak_op;	/* where most bytes are alive; NULL: unknown */
	int64_t device_bytes;	/* that the fullest rank's device has */
	int64_t left_bytes;	/* on the fullest; negative: missing */
	/* of the host that has least left */
	int64_t host_bytes;	/* that its ranks keep there; 0: nothing */
	int64_t node_bytes;	/* that it has; 0: not known */
	int64_t drives_bytes, node_drives_bytes;	/* the same of drives */
};

#define ANSWER_ENERGY_USD_KWH 0.1
#define ANSWER_PUE 1.2	/* energy of a data center over that of its devices */

/* Settings of the run; 0 where none is given. */
struct answer_asked {
	double tokens;		/* of the run */
	double storage_bytes_us;	/* of one node */
	double restart_s;
	double price_usd_h;	/* of one device; 0: the target's */
	/* years over which devices that are bought are paid; 0: rented */
	double owned_years;
	double energy_usd_kwh, pue;
};

struct answer_model {
	const char *name;
	int64_t parameters, active;
	int64_t sequences, tokens;	/* of a step */
	/* of one token, forward and backward */
	double flops;		/* all pairs of attention: as MFU counts */
	double flops_seen;	/* only unmasked pairs */
	double flops_6n;	/* 6 times active parameters */
	double flops_run;	/* as `flops`, with recomputation */
	int64_t checkpoint_bytes;	/* weights and optimizer state */
};

enum answer_link { ANSWER_NO_LINK, ANSWER_IN_NODE, ANSWER_ACROSS,
		   ANSWER_BOTH };

/* Of a run of `tokens`; NAN: not known. */
struct answer_run {
	double days, usd;
	double device_hours;	/* of all devices of the cluster */
};

/* A kind of node of the target. */
struct answer_group {
	const char *device;
	int64_t devices, nodes, used;
};

/* Consecutive ranks of the pipeline on the same kinds of node. */
struct answer_device_group {
	const char *devices;	/* "h100-sxm and a100-sxm" */
	uint32_t first, last;
	int64_t layers;
};

/* What a run has in common with others that are predicted about as well. */
enum answer_split { ANSWER_BY_DATA, ANSWER_BY_TENSOR, ANSWER_BY_PIPELINE };
enum answer_length { ANSWER_SHORT, ANSWER_MIDDLE, ANSWER_LONG };
enum answer_scores { ANSWER_FLASH, ANSWER_UNFUSED };

struct answer_kind {
	int generation;		/* of the device: 9 for sm_90; 0: no sm_NN */
	enum answer_split split;
	enum answer_length length;	/* of a sequence */
	enum answer_scores scores;	/* of attention */
};

/* A run that was published: what it took over what is predicted of it. */
struct answer_published {
	const char *source;
	struct answer_kind kind;
	double took;
};

/* Of published runs 90% took from `low` to `high` of what is predicted. */
struct answer_accuracy {
	struct answer_kind kind;
	double low, high;
	uint32_t runs, alike;	/* all, and those of that kind */
	uint32_t sources;	/* of the latter */
};

struct answer {
	struct answer_model model;
	struct answer_asked asked;
	const char *target;	/* as --target has it */
	const char *file;	/* of its device's facts */
	const char *priced_cpu;	/* a line about the CPU of that file, or NULL */
	const char *device;	/* "h100-sxm", of all kinds of node */
	bool is_gpu;		/* all of them are GPUs */
	int64_t devices, nodes, used;	/* `used` devices have a rank */
	struct answer_group *group;
	uint32_t ngroups;
	struct answer_device_group *place;	/* of the pipeline */
	uint32_t nplaces;
	const struct plan *plan;
	const char *plan_text;	/* with every key */
	const struct search_report *search;	/* NULL: there was none */
	/* of the constants of its devices that count: bit `1 << id` */
	uint32_t counts;
	enum target_origin origin[TARGET_NCONSTANTS];
	const char *lender;	/* of those that are borrowed */
	bool has_accuracy;	/* runs on such devices are published */
	struct answer_accuracy accuracy;
	enum answer_link link[PLAN_NAXES];
	/* of an all-reduce on the axis: the bandwidth of a link, and the time
	 * of a small one; NaN: the axis has one rank */
	double link_gbs[PLAN_NAXES], link_us[PLAN_NAXES];
	double step_us, us[ANSWER_NTIMES];	/* which add up to the step */
	struct answer_counted counted;	/* of these */
	double host_us;		/* of transfers of state to and from hosts, of
				 * which us[ANSWER_HOST] is not overlapped */
	struct answer_memory memory;
	/* of all devices that are used */
	double tokens_s, flops_s, mfu, mfu_seen, hfu;
	/* NAN: not known of the target */
	double usd_h, usd_mtoken;
	/* parts of usd_h, if devices are bought; else NAN */
	double purchase_usd_h, energy_usd_h;
	double mtbf_s, checkpoint_s, interval_s, goodput;
	struct answer_run plain, faulty;	/* without failures, and with */
};

/* ---- answer.c ---------------------------------------------------------- */

struct answer_input {
	const char *target, *file, *priced_cpu;	/* as in struct answer */
	const struct target *on;
	const struct target_devs *devs;
	const struct plan *plan;
	const char *plan_text;
	const struct ranks *ranks;
	const struct price *price;
};

/*
 * From the sums of the model and of its training program; `square` is
 * answer_square of the model.
 */
void answer_model(const struct ir_module *m, const struct pass_sums *model,
		  const struct pass_sums *training, double square,
		  struct answer_model *out);
/* Attention's flops with all pairs over those with unmasked ones. */
double answer_square(struct ir_module *m);
/* Sets all of *out but model, memory and asked, which it reads; in arena a. */
void answer_make(const struct answer_input *in, struct arena *a,
		 struct answer *out);

/* ---- answer_accuracy.c -------------------------------------------------- */

extern const struct answer_published answer_published[];
extern const uint32_t answer_npublished;

/* Of an instruction set; 0: it is no GPU's of NVIDIA. */
int answer_generation(const char *arch);
/*
 * `tensor`: ranks that split tensors of a stage, along tp, cp and ep.
 * `unfused`: attention writes its scores to memory.
 */
struct answer_kind answer_kind(int generation, int64_t pp, int64_t tensor,
			       int64_t sequence, bool unfused);
/* By all published runs but those of the source `without`, unless NULL. */
void answer_accuracy(const struct answer_kind *k, const char *without,
		     struct arena *a, struct answer_accuracy *out);
/*
 * 0.1: of two plans whose predicted steps differ by less than 10%, either may
 * be the faster one.
 */
double answer_least_difference(struct arena *a);

/* ---- answer_faults.c ---------------------------------------------------- */

/* The mean time between failures of n devices; INFINITY: they have none. */
double answer_mtbf_s(double failures_year, double n);
/* The best time from a checkpoint to the next (Daly 2006). */
double answer_interval_s(double write_s, double mtbf_s);
/* The part of the time that is spent on steps that are not lost, 0 .. 1. */
double answer_goodput(double interval_s, double write_s, double restart_s,
		      double mtbf_s);

/* ---- answer_time.c ------------------------------------------------------ */

extern const struct answer_time_row answer_times[ANSWER_NTIMES];

/*
 * Splits the time of a step that price_step has priced, by the kernels of the
 * busiest rank; us[] adds up to p->step_us.
 */
void answer_split_time(const struct ranks *r, const struct target_devs *t,
		       const struct price *p, struct arena *a,
		       double us[ANSWER_NTIMES],
		       struct answer_counted *counted);
/* The time of the busiest rank's transfers from and to its host. */
double answer_host_us(const struct ranks *r, const struct target_devs *t,
		      const struct price *p);

/* The rank of the pipeline with most to do. */
uint32_t answer_busiest(const struct ranks *r, const struct price *p);

/* ---- answer_kernels.c --------------------------------------------------- */

/* Equal kernels of a step, on one rank. */
struct answer_kernel {
	const char *what;	/* kind, shape, ops */
	double count, us;	/* in a step; of all of them */
	double all_us;		/* with what runs beside other kernels */
	double counted_us;	/* of that, counted in llmc's own kernels */
	double flops, bytes;	/* of one */
	enum kernel_kind kind;
	uint16_t op;		/* of a collective: enum ir_op, */
	uint32_t axes;		/* and bit a: along axis a */
};

struct answer_kernels {
	uint32_t rank;		/* of the pipeline: the busiest */
	double count;		/* of a step */
	VEC(struct answer_kernel) at;	/* by time, the longest first */
};

void answer_find_kernels(const struct ranks *r, const struct target_devs *t,
			 const struct price *p, struct arena *a,
			 struct answer_kernels *out);
/* The first `most`, with their parts of the step. */
void answer_print_kernels(const struct answer_kernels *x, double step_us,
			  uint32_t most, struct buf *out);

/* ---- answer_trace.c ----------------------------------------------------- */

/* The most slices of actions, of kernels in them, and of those in updates. */
#define ANSWER_TRACE_SLICES 100000

/*
 * The step as a Chrome trace: a JSON array, one event a line.  docs/trace.md
 * says what is in it.
 */
void answer_trace(const struct ranks *r, const struct target_devs *t,
		  const struct price *p, struct arena *a, struct buf *out);

/* ---- answer_memory.c --------------------------------------------------- */

/* The memory of ranks on t, in arena a.  False: *why says what has no place. */
bool answer_arena(const struct ranks *r, const struct target *t,
		  const struct target_devs *devs, struct arena *a,
		  struct answer_memory *out, const char **why);
/* Whether the plan fits the devices, and the hosts as far as known. */
bool answer_fits(const struct answer_memory *m);

/* ---- answer_list.c ----------------------------------------------------- */

/* Three digits below 100 and from 1e15 on, between them a whole number in
 * groups of three digits. */
void answer_add_count(struct buf *out, double v);
/* "57.1", "0.00471", "1.2e+08"; "-" of what is not known */
const char *answer_days_text(struct arena *a, double days);
/* Dollars: whole ones from 1000 on, with cents from 0.1 on, else two digits. */
void answer_add_usd(struct buf *out, double usd);
/* The unit of a rank's memory: by a reserve of gigabytes a small model would
 * have 0.00 of everything. */
struct scale answer_bytes_scale(const struct answer_rank *r);

/* ---- answer_print.c ---------------------------------------------------- */

/* One screen: at most 46 lines of 80 columns. */
void answer_print(const struct answer *x, struct buf *out);

/* ---- answer_compare.c -------------------------------------------------- */

/* Two plans of one model on one target, in two columns. */
void answer_print_both(const struct answer *x, const struct answer *y,
		       struct buf *out);

/* ---- answer_json.c ------------------------------------------------------ */

void answer_print_json(const struct answer *x, struct buf *out);

/* ---- answer_plans.c ---------------------------------------------------- */

/* Prints the best plans as a table, one line for each. */
void answer_print_plans(const struct search_report *r, struct buf *out);
/* The same for programs, each with its whole text; of a plan for m. */
void answer_print_plans_json(struct ir_module *m, const struct search_report *r,
			     struct buf *out);
/* Prints the size of the space, and what became of its plans. */
void answer_print_search(const struct search_report *r, struct buf *out);

#endif

/*
 * Serving: what a model costs when it answers requests, and how it is best
 * split for that.  The program of a step is the forward program of the model
 * over a batch of positions: one of each sequence that decodes, and chunks of
 * the prompts of others.  The passes that prepare and place a model for
 * training prepare and place it here, kernels/ says what its kernels are, and
 * price/ what each costs; only attention over a cache is priced here.
 *
 * It includes the public headers of ir/, plan/, kernels/, price/ and of
 * passes/.  frontend/tool prints its answer, frontend/validate compares it
 * with measurements.  docs/serving.md is the page about it.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_SERVE_H
#define PASSES_SERVE_H

#include "passes/kernels/kernels.h"
#include "passes/pass.h"
#include "passes/price/cost.h"

/* How a tensor is stored, and its bytes for each element. */
struct serve_format {
	const char *name;
	double bytes;
	double head_bytes;	/* outside of layers; 0: as declared */
};

/*
 * How the model is split.  A replica has tp * ep * pp devices.  Along ep ranks
 * have the experts together.  Of their sequences each has its own and computes
 * attention for these alone, as published engines do; or all have the same
 * ones, as those of a program that llmc makes.
 */
struct serve_split {
	int64_t tp, pp, ep, replicas;
	bool is_shared;		/* the same sequences on all ranks along ep */
};

/* What is asked for: the settings of a serve block. */
struct serve_asked {
	double prompt, output;	/* tokens of a request, in the mean */
	double context;		/* of the longest sequence */
	double ttft_s, tpot_s;	/* limits; 0: none */
	double rate;		/* requests a second; 0: as many as fit */
	/* of the layers' contractions, and of the cache; NULL: as declared */
	const struct serve_format *weights, *cache;
	bool fp8;		/* the layers' contractions multiply 8 bits */
	/* of measured engines: those of weights of 4 bits multiply 4, where
	 * the device does */
	bool fp4;
	bool experts_only;	/* of these only experts' have those two */
	/* of measured engines: each query head that decodes reads keys anew */
	bool heads_apart;
	/* of measured engines: maps that follow a contraction are kernels of
	 * their own, and all maps as slow as those of servers */
	bool maps_alone;
	/* of measured engines: what is multiplied in 8 bits or 4 is brought to
	 * those by kernels of their own */
	bool rounds_alone;
	/* of measured engines: kernels widen weights of 8 and 4 bits while they
	 * load no others */
	bool widened_apart;
	/* of measured engines: ranks of a node read each other's memory to add
	 * up what is small */
	bool direct;
	/* of measured engines: kernels of experts have tiles of so many rows
	 * for each expert, chosen or not; 0: for those that are chosen alone */
	double expert_rows;
	/* of measured engines: tokens that a layer more guesses for each
	 * sequence, which a step then checks; and tokens that a step brings */
	double drafts, accepted;	/* accepted 0: one, as no drafts do */
	/* of measured engines: hosts call for each collective of a step, as no
	 * graph of kernels has them */
	bool host_calls;
	/* of measured engines: of each sequence one block sorts so many scores
	 * of tokens, to draw one; 0: none */
	double sorted;
	/* positions and keys of the largest step of a program; 0: as many as
	 * a load has */
	double step_tokens, step_keys;
	double usd_h;		/* rent of a device; 0: not known */
	/* bytes of a device that the program of this split was found to need
	 * beside its weights and its cache; 0: no more than was foreseen */
	double workspace;
	struct serve_split made;
};

/* Keys of a split that are given; 0: any. */
struct serve_pins {
	struct serve_split split;
	double sequences, chunk;
};

/* What all of the folder reads. */
struct serve_answer_in {
	const struct serve_model *model;
	const struct target *target;
	const struct serve_asked *asked;
	struct serve_pins pins;
};

/* ---- serve_model.c: the program of a step ------------------------------ */

#define SERVE_MAX_PARTS 64
#define SERVE_MAX_STAGES 512

/* A number that grows with the rows of a step: fixed + row * rows. */
struct serve_line {
	double fixed, row;
};

enum serve_work { SERVE_DOT, SERVE_ATTENTION, SERVE_MAP, SERVE_COMM };

/* How a weight is stored if weights are asked for in a format: as it is
 * declared; so; so, but in 8 bits in place of groups of 4; as the format has
 * those outside of layers. */
enum serve_stored {
	SERVE_DECLARED, SERVE_ASKED, SERVE_WIDE, SERVE_OUTER, SERVE_NSTORED
};

/* One kernel or collective of a rank, which runs `times` in its part. */
struct serve_item {
	enum serve_work work;
	double times;
	/* SERVE_DOT: rows m of `groups` matrices each of k times n */
	struct serve_line m, n, k, batch;
	double groups;
	enum target_rate rate;
	double out_bytes;
	double weight_bytes;	/* of an element; 0: no operand is a weight */
	enum serve_stored stored;
	bool is_cut;		/* slices of the weight are read */
	/* what follows the products in kernels of a program for a GPU: by the
	 * copying unit, where they cut k in the last wave alone; by threads
	 * that copy and multiply */
	struct cost_put put_unit, put_threads;
	/* SERVE_DOT, SERVE_MAP: its rows are all keys of the step's sequences,
	 * which it computes of the cache */
	bool of_keys;
	bool is_expert;		/* rows choose among such weights */
	/* SERVE_ATTENTION, of one sequence on one rank */
	double heads, kv, d, v;
	double cached;		/* elements that a token has in the cache */
	double cached_bytes;	/* of one of them, as declared */
	/* of what is cached keys are computed: by an engine that attends to the
	 * latents where it decodes; or all of them in each step, so many
	 * elements of a token (0: none), beside so many that lie there */
	bool latent;
	double computed, beside;
	bool keys_lie, values_lie;	/* there, and are not computed */
	double window;		/* 0: all keys */
	bool slopes;		/* of heads, as alibi's */
	bool own;	/* by kernels of a program that llmc makes, no engine */
	bool within;	/* values are the first numbers of keys */
	/* SERVE_MAP: what it moves; SERVE_COMM: the larger side; SERVE_DOT:
	 * what its maps would move if they were a kernel of their own */
	struct serve_line bytes;
	/* SERVE_DOT: of its operand beside the weight, where it is the first to
	 * read that */
	struct serve_line operand_bytes;
	enum cost_kind kind;	/* SERVE_MAP */
	enum cost_op op;
	struct cost_group group;
};

/* Weights that are stored alike. */
struct serve_held {
	double elems, bytes;	/* bytes: as they are declared */
	double rows;		/* of which each has a scale if it has 8 bits */
};

/* What runs before, in or after a repeat; a repeat runs count times. */
struct serve_part {
	bool is_layer;
	int64_t count;
	VEC(struct serve_item) items;
	/* weights on a rank, in one iteration; [1]: of experts */
	struct serve_held held[SERVE_NSTORED][2];
};

/* The program of a rank, before it is cut into stages. */
struct serve_program {
	struct serve_split split;
	const char *why;	/* why there is none; NULL: there is one */
	struct serve_part part[SERVE_MAX_PARTS];
	uint32_t nparts;
	double hop_row_bytes;	/* from stage to stage, of one row */
	int64_t layers;
};

/* A model that is prepared for serving. */
struct serve_model {
	struct ir_module *m;	/* flat, and its result is the logits */
	struct memo *memo;
	dim_id batch, seq;	/* the dims of its tokens */
	int64_t context;	/* the model's own length */
	int64_t experts;	/* of the largest layer; 0: none */
	int64_t heads;		/* the most of any attention */
	bool absorbs;		/* as serve_open was told */
	bool in_groups;		/* a program of llmc, with weights of int4 */
	struct pass_sums sums;
};

/*
 * Prepares the model in m, which is changed: without a loss, if it has one,
 * its logits are the result.  With `absorbs` attention to latents is that of
 * programs that llmc makes, in all steps; else that of published engines, which
 * attend to latents where they decode, and compute keys of prompts.  False
 * after an error.
 */
bool serve_open(struct ir_module *m, struct memo *memo, bool absorbs,
		struct serve_model *out);
/* The program of the tp and ep ranks of a split, on target t; in arena a. */
void serve_program(const struct serve_model *s, const struct target *t,
		   const struct serve_split *split, struct arena *a,
		   struct serve_program *out);
/* Ranks of a stage that have sequences of their own. */
int64_t serve_apart(const struct serve_split *s);

/* ---- serve_cached.c ------------------------------------------------------ */

/* Whether v is a cache, or a slice of one, which attention reads where it
 * lies. */
bool serve_lies_cached(const struct ir_module *m, value_id v);
/* Whether v and k are of one cache, and begin at one place. */
bool serve_lies_within(const struct ir_module *m, value_id v, value_id k);
/*
 * Marks the values that a region computes of what is cached, up to attention;
 * what that reads of the cache itself is not computed.  By value.
 */
void serve_find_computed(const struct ir_module *m, region_id id,
			 bool *of_cache);

/* ---- serve_price.c: the time and the memory of a step ------------------ */

enum serve_part_kind {
	SERVE_WEIGHTS, SERVE_CACHE, SERVE_CONTRACTIONS, SERVE_ATTENDING,
	SERVE_MAPS, SERVE_COMMUNICATION, SERVE_LAUNCHES, SERVE_NTIMES
};

extern const char *const serve_time_names[SERVE_NTIMES];

struct serve_time {
	double us[SERVE_NTIMES];
	double total_us;
};

/* Bytes of a rank of the fullest stage. */
struct serve_memory {
	double weights, workspace;
	double token;		/* of the cache, one token of one sequence */
	double tokens;		/* that the rest holds; below 0: none */
	double free;		/* of a device, to all of these */
};

/* For steps of that load; a request's mean length says what windows keep. */
void serve_memory(const struct serve_program *p, const struct target *t,
		  const struct serve_asked *q, const struct cost_load *load,
		  struct serve_memory *out);
/*
 * A program's step computes all of its positions however few it is given, so
 * others are compiled beside the largest: the next one after a step of so many.
 * Of more than a few positions, less than half are for nothing.
 */
int64_t serve_next_size(int64_t positions);
/* One step of a batch, in the stage that takes longest. */
void serve_step(const struct serve_program *p, const struct target *t,
		const struct serve_asked *q, const struct cost_load *load,
		struct serve_time *out);
/* Tokens of a sequence that a step brings. */
double serve_step_tokens(const struct serve_asked *q);
/* From a stage to the next, of so many rows. */
double serve_hop_us(const struct serve_program *p, const struct target *t,
		    double rows);

/* Of prompts of the mean length, and sequences in the middle of theirs. */
struct cost_load serve_load_of(const struct serve_asked *q, double decoding,
				double chunk);
/*
 * A token of each of so many sequences of a replica, in as many batches as it
 * has stages, with so many prompt tokens: until all have passed all stages.
 * *out is a stage's step.
 */
double serve_cycle_us(const struct serve_answer_in *in,
		      const struct serve_program *p, double sequences,
		      double tokens, struct serve_time *out);

/* ---- serve_queue.c: what requests wait ---------------------------------- */

/* Requests before a replica. */
struct serve_traffic {
	double rate;		/* a second, at random; 0: each that ends is
				 * followed by one, and all sequences busy */
	bool is_staggered;	/* without a rate: they begin evenly apart, not
				 * all at once */
	/* without a rate: those that follow others of one step come one after
	 * another, so the next step begins with the first of them alone */
	bool is_serial;
	bool prompts_first;	/* none decodes while a prompt waits, and a
				 * step has no tokens of both */
	double clients;		/* without a rate: requests that wait or are in
				 * flight, if more than sequences */
	double sequences;	/* in flight, at most */
	double chunk;		/* prompt tokens of a step, at most */
	double step_tokens;	/* with those that decode, at most; 0: any */
	/* lengths of prompts and answers are drawn evenly from so much of the
	 * mean below it to as much above; 0: all have the mean */
	double spread;
	/* steps of tokens after which the engine looks for requests, if it
	 * read no prompt meanwhile; 0: after each */
	double poll;
	uint32_t requests;	/* that are simulated */
	/* of these the first that are left out, and so many that end it: the
	 * others keep the load what it is until then; 0: all are counted */
	uint32_t skipped, counted;
};

/* Of those that ended, in microseconds; lists are sorted. */
struct serve_waits {
	double *ttft, *tpot;
	uint32_t n;
	double total_us;	/* until the last has ended */
};

/* In arena a. */
void serve_queue(const struct serve_answer_in *in,
		 const struct serve_program *p, const struct serve_traffic *t,
		 struct arena *a, struct serve_waits *out);
double serve_mean(const double *x, uint32_t n);
/* 0.5: the median. */
double serve_quantile(const double *sorted, uint32_t n, double part);

/* ---- serve_search.c: which split and which batch ----------------------- */

/* A way to serve, at the load it is chosen for. */
struct serve_plan {
	struct serve_split split;
	struct serve_memory memory;
	double sequences;	/* in flight, of a replica */
	double chunk;		/* the most prompt positions of a step */
	double decode_us, mixed_us;	/* a step without and with a chunk */
	double mixed;		/* the part of steps that have one */
	double tpot_us;		/* in the mean */
	double ttft_us;		/* under load, without a queue */
	/* of the best plan: half of the requests, and 99 of 100, wait less */
	double ttft_p50_us, ttft_p99_us, tpot_p50_us, tpot_p99_us;
	double alone_ttft_us, alone_tpot_us;	/* of one request */
	double requests_s, tokens_s;	/* of the cluster; tokens out */
	double prefill_share;	/* of the time */
	struct serve_time decode, prefill;	/* of one stage, by parts */
};

#define SERVE_MAX_CURVE 24

/* Why nothing fits: what the roomiest split lacks. */
struct serve_misfit {
	const char *why;
	const char *change;
};

/* What a program of the best plan keeps in the memory of rank 0's host, in
 * bytes; runtime/train/served_memory.h says of what. */
struct serve_host {
	double queues, steps, index;
	double client;		/* of each connection, at most */
};

/* The program that was made: sizes of its largest step, its slots, and bytes
 * of the fullest device. */
struct serve_made {
	double tokens, rows, keys, slots;	/* 0: none was */
	double weights, cache, workspace;
	/* by serve_price_made: sizes of a step that holds the best batch, and
	 * the largest batch that its own steps hold */
	double needs_tokens, needs_rows, needs_keys;
	struct serve_plan own;
};

/* What a step's keys are a multiple of. */
#define SERVE_KEYS_UNIT 128

struct serve_answer {
	bool fits;
	struct serve_misfit misfit;
	struct serve_plan best;
	/* the best throughput by batch, in order of latency */
	struct serve_plan curve[SERVE_MAX_CURVE];
	uint32_t ncurve;
	uint32_t tried;		/* splits */
	/* of the caller; 0: not known */
	struct serve_host host;
	struct serve_made program;
};

/* Prices all splits of the target, and batches; in arena a. */
void serve_search(const struct serve_answer_in *in, struct arena *a,
		  struct serve_answer *out);
/*
 * A plan of that program with so many sequences in flight, but for what one
 * request alone waits.
 */
void serve_plan_of(const struct serve_answer_in *in,
		   const struct serve_program *p, double sequences,
		   double chunk, struct serve_plan *out);

/* ---- serve_made.c ------------------------------------------------------- */

/* Sets what x->program needs for the best plan, and what it brings. */
void serve_price_made(const struct serve_answer_in *in, struct arena *a,
		      struct serve_answer *x);
/* Whether its steps hold the batch of the best plan. */
bool serve_holds_best(const struct serve_made *x);

/* ---- serve_print.c ------------------------------------------------------ */

/* The answer with other keys pinned, beside the answer. */
struct serve_other {
	const char *keys;	/* as --why-not has them */
	struct serve_answer answer;
};

int64_t serve_devices(const struct serve_plan *x);
const char *serve_split_text(const struct serve_split *s, struct arena *a);
void serve_print(const struct serve_answer_in *in,
		 const struct serve_answer *x, struct buf *out);
/* `other` may be NULL. */
void serve_print_json(const struct serve_answer_in *in,
		      const struct serve_answer *x,
		      const struct serve_other *other, struct buf *out);

/* ---- serve_other.c ------------------------------------------------------ */

/* Why the other answer is not the best, which fits or not. */
void serve_print_other(const struct serve_answer *best,
		       const struct serve_other *other, struct buf *out);

/* ---- serve_text.c ------------------------------------------------------- */

/* So many digits of a number that is not negative, without an exponent. */
const char *serve_number_text(double v, int digits, struct arena *a);
/* With so many decimals, or more where these would leave less than two digits
 * of a small number. */
const char *serve_rate_text(double v, int places, struct arena *a);

#endif

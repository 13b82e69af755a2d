/*
 * Between the files sim*.c; nobody else includes this.
 */
#ifndef PASSES_SIM_PARTS_H
#define PASSES_SIM_PARTS_H

#include "ir/machine.h"
#include "passes/sim/sim.h"

/* What a rank keeps of one stored tensor from step to step. */
struct sim_cell {
	struct ir_type type;	/* of weight or state */
	struct ir_type gradient_type;
	double *now, *next;	/* NULL: as it started */
	double *gradient;	/* NULL: there was none so far */
	bool typed;		/* type is known */
};

/* What a result of the last stage was on one rank, for one microbatch. */
struct sim_part {
	uint32_t rank;
	uint32_t at[IR_MAX_AXES + 1];	/* time is the microbatch */
	double *data;
};

struct sim_message {
	sym_t name;
	uint32_t microbatch, from_stage, to_stage;
	uint32_t from, to;	/* ranks */
	struct ir_type type;
	double *data;
	int64_t elems;
	struct span span;
};

/* A pipeline rank whose update shares a tensor. */
struct sim_share {
	sym_t name;
	uint32_t pipe;
};

enum sim_doing { SIM_READY, SIM_WAITS, SIM_OVER };

struct sim;

struct sim_rank {
	struct sim *s;
	uint32_t number, pipe;
	struct ir_rank id;
	struct ir_weights store;
	struct ir_eval_options opt;
	struct interp *e;
	enum sim_doing doing;
	enum ir_state state;	/* SIM_WAITS: what in */
	uint32_t next;		/* action of its list */
	const struct sched_action *action;	/* NULL: the update */
	VEC(struct sim_cell) cells;	/* by number of the tensor */
};

struct sim {
	const struct ranks *r;
	const struct sim_options *o;
	struct ir_module *m;
	struct diags *diags;
	struct ir_pool pool;
	struct sim_rank *ranks;
	VEC(struct sim_message) mail;
	VEC(struct sim_share) shares;
	VEC(struct sim_part) parts[IR_MAX_ARGS];	/* by result */
	VEC(const char *) names;	/* of stored tensors, by number */
	VEC(uint32_t) number;	/* by sym_t: 1 + the tensor's number */
	VEC(double *) whole;	/* by number: what weights->get gave */
	uint32_t *members, *others;	/* as many as a group of all */
	struct ir_peer *peers;		/* the same */
	struct sim_part *pieces;	/* the same */
	uint32_t step;
	struct sim_result *out;
};

/* ---- sim_match.c: which ranks may go on ---- */

/* A machine's send; user is its sim_rank. */
bool sim_send(void *user, const struct ir_node *n, const char *name,
	      const double *data, int64_t elems);
/* Gives the rank what it waits for if that is there; *on says whether. */
bool sim_match(struct sim *s, struct sim_rank *k, bool *on);

/* ---- sim_fault.c: errors if no rank may go on ---- */

/* "rank 3 (tp=1) in 0F1, stage0_forward/repeat[2]", in ctx->tmp. */
const char *sim_where(const struct sim_rank *k);
/* Reports two ranks of a group that wait in different collectives. */
void sim_mismatch(struct sim *s, const struct sim_rank *a,
		  const struct sim_rank *b);
void sim_stuck(struct sim *s);
/* What a step left behind; false after reporting it. */
bool sim_all_taken(struct sim *s);

/* ---- sim_store.c: tensors that last ---- */

/* The functions of k->store. */
void sim_store_open(struct sim_rank *k);
/* What was stored counts from now on; gradients are zero again. */
void sim_commit(struct sim *s);

/* ---- sim_collect.c: whole tensors ---- */

/* The step's results, gradients and stored tensors go to s->out. */
bool sim_collect(struct sim *s);

#endif

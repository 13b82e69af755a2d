/*
 * What the files sim*.c share; users include sim.h instead.
 */
#ifndef PASSES_SIM_PARTS_H
#define PASSES_SIM_PARTS_H

#include "ir/machine.h"
#include "passes/sim/sim.h"

/* What a rank keeps of one tensor from step to step. */
struct sim_cell {
	struct ir_type type;	/* of the weight or state */
	struct ir_type gradient_type;
	double *now, *next;	/* NULL: never stored */
	double *gradient;	/* NULL: none in this step yet */
	bool typed;		/* type is known */
};

/* One result of the last stage, or a piece of a tensor, on one rank. */
struct sim_part {
	uint32_t rank;
	uint32_t at[IR_MAX_AXES + 1]; /* at the axis of time: the microbatch */
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
	enum ir_state state;	/* if SIM_WAITS: in what */
	uint32_t next;		/* index in its list */
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
	VEC(double *) whole;	/* by number: from weights->get, or NULL */
	VEC(uint32_t) inputs;	/* numbers of inputs in `whole`, of this step */
	uint32_t *members, *others;	/* nranks entries each */
	struct ir_peer *peers;		/* nranks entries */
	struct sim_part *pieces;	/* nranks entries */
	uint32_t step;
	struct sim_result *out;
};

/* ---- sim_match.c: which ranks may go on ---- */

/* The `send` of an interpreter; user is its sim_rank. */
bool sim_send(void *user, const struct ir_node *n, const char *name,
	      const double *data, int64_t elems);
/*
 * Gives the rank what it waits for, if that is available; sets *on if so. False
 * after an error.
 */
bool sim_match(struct sim *s, struct sim_rank *k, bool *on);

/* ---- sim_fault.c: errors if no rank can go on ---- */

/* "rank 3 (tp=1) in 0F1, stage0_forward/repeat[2]", in ctx->tmp. */
const char *sim_where(const struct sim_rank *k);
/* Reports two ranks of a group that wait in different collectives. */
void sim_mismatch(struct sim *s, const struct sim_rank *a,
		  const struct sim_rank *b);
void sim_stuck(struct sim *s);
/* Whether all that a step sent or saved was used; false after reporting it. */
bool sim_all_taken(struct sim *s);

/* ---- sim_store.c: tensors kept from step to step ---- */

/* Fills in k->store. */
void sim_store_open(struct sim_rank *k);
/* Makes what was stored current; gradients are zero again. */
void sim_commit(struct sim *s);

/* ---- sim_collect.c: whole tensors ---- */

/* Puts the step's results, gradients and stored tensors into s->out. */
bool sim_collect(struct sim *s);

#endif

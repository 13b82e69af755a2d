/*
 * Private header of trial_fit.c, trial_ways.c, trial_choose.c and
 * trial_slow.c: a rank of a plan that is tried, whose stages choose how they
 * recompute.
 */
#ifndef PASSES_TRIAL_FIT_H
#define PASSES_TRIAL_FIT_H

#include "passes/trial/trial.h"
#include "passes/solve/tuples.h"

/*
 * What a stage takes by each way to recompute, as the programs for one sequence
 * say of the plan's microbatch, and keeps.
 */
struct trial_ways {
	double *us;		/* against the quickest way */
	struct piece_bytes *keeps;
	uint32_t least;		/* the way that keeps least */
	/* the fewest of each kind of any way; of layers' slots none */
	struct piece_bytes other;
	bool made;		/* see trial_rank */
};

/*
 * What a stage has at least with a way, of piece_bytes, as the programs for one
 * sequence are; slots lie on the host, if saves do.
 */
struct trial_sure {
	double slot[SPACE_NSPANS], top[SPACE_NSPANS], sends[2], temp;
};

/* The fitting of one rank. */
struct trial_rank {
	struct trial *x;
	uint32_t rank;
	const uint32_t *of;	/* its stages */
	uint32_t n;
	/* capacity for tensors that do not live all step */
	double free_bytes;
	/* by stage, for the first of equal stages */
	struct trial_ways *ways;
	struct piece_bytes *keeps;	/* by stage of the rank */
	const char **words;	/* by stage of the rank: `recompute` */
	/* bytes of ways are of the programs of the plan's lengths, which are
	 * made; else of those for one sequence */
	bool made;
	/* of more than two stages the first choice that is met will do, if it
	 * fits, with left_us beside the bound; it need not be the best */
	bool rough;
	/* bytes that ways share are those on the host, not on the device */
	bool hosted;
	double temp_room;	/* see trial_set_room */
	double taken;		/* see trial_choose */
	/* no ways of more than two stages fit, by f->made: found by a choice
	 * in all the memory that there is */
	bool none;
	uint32_t *seen;		/* see struct tuples; NULL: of more stages */
	bool full;		/* a rank before does not fit */
	/* see trial.left_us and grouped_us, for one microbatch; grouped_us has
	 * both */
	double left_us, grouped_us;
	struct arena tmp;	/* lives as long as a choice is made */
};

/* Where the bytes of ways are from. */
enum trial_source {
	/* the programs for one sequence: what longer ones keep at least */
	TRIAL_SURE,
	TRIAL_MADE	/* the programs of the plan's lengths */
};

/* ---- trial_ways.c ----------------------------------------------------- */

/* Turns to the stages of a rank; f->free_bytes stays. */
void trial_turn_to(struct trial_rank *f, uint32_t rank);

/*
 * Bytes of the rank without tensors that live all step; `made`: from the
 * programs of the choices, not from those for one sequence.
 */
double trial_chosen_bytes(const struct trial_rank *f, bool made);
/* What the choices take more than the quickest ways, for one microbatch. */
double trial_chosen_us(const struct trial_rank *f);
/* What the ways of a stage take and keep, by f->made. */
const struct trial_ways *trial_ways_of(const struct trial_rank *f,
				       uint32_t stage);
/* Bytes of a stage's slots, each span's as often as the stage holds it when the
 * rank first holds most. */
double trial_then_bytes(const struct trial *x, uint32_t stage,
			const double slot[SPACE_NSPANS]);
/*
 * Bytes of a stage by itself but for temporary ones, when its rank has most:
 * those of all stages add up to no more than what the rank has.
 */
double trial_own_bytes(const struct trial_rank *f, uint32_t stage,
		       const struct piece_bytes *b);
/* Sets what a device has room for beside what its stages have all the time at
 * least, with saves on the host. */
void trial_set_room(struct trial_rank *f);
/* Lowers f->temp_room below what one of the chosen ways needs. */
void trial_leave_less(struct trial_rank *f);
/* The rank's share of its host, or more than its ways can have there. */
double trial_host_room(const struct trial_rank *f);
/* Whether what a stage has for a while with a way is more than f->temp_room: by
 * the programs of the plan's lengths, or without f->made at least. */
bool trial_is_too_large(const struct trial_rank *f, uint32_t stage,
			uint32_t way);
/*
 * Chooses for each stage the way that has least on the host, of those that are
 * not too large.  False: with any ways the rank has more than its share there,
 * or of some stage all are too large.
 */
bool trial_choose_hosted(struct trial_rank *f);
/* Chooses for each stage the way that keeps least, by these programs. */
void trial_choose_least(struct trial_rank *f);
/*
 * A lower bound of the bytes of the rank with any ways, if they have those
 * bytes; of programs that are made, with any that may fit.
 */
double trial_least_bytes(struct trial_rank *f, enum trial_source from);
/* What a stage has at least with each way, by index in ways_of. */
const struct trial_sure *trial_sure_of(struct trial *x, uint32_t stage);
/*
 * Bytes of a stage with a way, as the program for one sequence is.  Those of
 * all stages of a rank add up to less than what it has, whatever else it keeps.
 */
double trial_sure_bytes(const struct trial_rank *f, uint32_t stage,
			uint32_t way);

/* ---- trial_host.c ----------------------------------------------------- */

/* What a stage has on the host at least with a way, when its rank has most:
 * however slots are shared, all its stages have it at once. */
double trial_least_saves(struct trial *x, uint32_t stage, uint32_t way);

/* Bytes of f->keeps on the host. */
double trial_host_bytes(const struct trial_rank *f);
/* What ranks have of states on their hosts, in memory and on drives. */
struct trial_states {
	double *host, *drives;	/* by rank */
};

struct trial_states trial_find_states(struct trial *x);
/* Adds what ranks save on hosts with the chosen ways; *saves: that alone. */
void trial_add_saves(struct trial_rank *f, double *bytes, double *saves);
/* Notes for the report what hosts lack with the chosen ways. */
void trial_note_hosts(struct trial_rank *f);

/* ---- trial_shares.c --------------------------------------------------- */

/* Sets x->share and x->shared, once x->quickest is. */
void trial_set_shares(struct trial_rank *f);

/* ---- trial_choose.c --------------------------------------------------- */

/* What is as good as nothing, of the time of a microbatch on the rank. */
double trial_near_us(const struct trial_rank *f);
/*
 * Chooses the ways that take least and keep at most `most_bytes`, by f->made,
 * and sets f->taken to what they keep.  Of one or two stages none that are
 * f->seen, which these then are; of more, with less than f->taken they are not
 * found in the same way again.  False: none do.
 */
bool trial_choose(struct trial_rank *f, double most_bytes);
/* Sets f->left_us to what other ways of more than two stages, which fit, may
 * take less than those that are chosen. */
void trial_set_left(struct trial_rank *f);

/* ---- trial_slow.c ----------------------------------------------------- */

/*
 * Whether the plan's bound is above the plans found with all ways with which
 * this rank may fit.
 */
bool trial_is_slow_rank(struct trial_rank *f);
/* The same of a plan with saves on hosts, of which x->share is known. */
bool trial_is_slow_hosted(struct trial_rank *f);
/* The same with all ways that take as much as that more than the quickest, for
 * one microbatch, as trial_chosen_us says. */
bool trial_is_slow_from(struct trial_rank *f, double least_us);

#endif

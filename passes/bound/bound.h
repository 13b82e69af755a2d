/*
 * Lower bounds of a step, by which a search leaves plans out before it places
 * them.  It knows the space, the prices of kernels and collectives, and the
 * program that no axis splits; not what was found so far, nor how plans are
 * walked over.  Each proof stands at its function or at the head of its file.
 *
 * Each section is named after the .c file that defines it.
 */
#ifndef PASSES_BOUND_H
#define PASSES_BOUND_H

#include "passes/pieces/pieces.h"

struct bound_degrees;
struct bound_rows;
struct bound_work;
struct bound_arithmetic;
struct bound_axis;
struct bound_spread;

/* Parameters by which ranks hold the same: those of experts, and all others. */
enum bound_group { BOUND_OTHERS, BOUND_EXPERTS, BOUND_NGROUPS };

enum bound_param { BOUND_WEIGHTS, BOUND_GRADIENTS, BOUND_NPARAMS };

/* Bytes of a layer that lie on hosts if these have parameters, at least. */
struct bound_link {
	/* that backward reads and adds; of these, each tensor once */
	double moves[BOUND_NPARAMS][BOUND_NGROUPS];
	double held[BOUND_NPARAMS][BOUND_NGROUPS];
	VEC(sym_t) names[BOUND_NPARAMS];	/* of these tensors */
};

struct bound {
	struct space *space;
	struct piece_store *pieces;
	bool hurried;
	/* lower bound of a step: arithmetic alone, on all devices */
	double flops_us;
	double static_bytes[3];	/* of weights, gradients, optimizer state */
	double params;		/* elements of all parameters */
	double expert_part;	/* fraction of parameters in experts */
	double table_part;	/* fraction in embedding tables */
	/* fraction that forward and backward read, without experts */
	double twice_part;
	/* the first and the last layer use one tensor, such as a table */
	bool ties;
	VEC(struct bound_rows) rows;	/* of gradients */
	VEC(struct bound_work) work;	/* of an unsplit program */
	struct bound_link *link;	/* by piece; NULL: nothing is known */
	double held[BOUND_NPARAMS][BOUND_NGROUPS];	/* of all layers */
	struct bound_degrees *of;	/* by space_degrees.nth */
	/* results so far */
	VEC(struct bound_arithmetic *) arithmetic;
	VEC(struct bound_axis *) axes;
	VEC(struct bound_spread *) spreads;	/* by number of stages */
};

/* ---- bound_bytes.c ----------------------------------------------------- */

/*
 * Lower bound of the bytes that a mean rank needs of weights, gradients and
 * optimizer state, without those of `offload`.
 */
double bound_least_bytes(const struct bound *b, const struct space_degrees *g,
			 int zero, uint32_t offload);
/*
 * Whether what lies on hosts, or on their drives, is more than all of them
 * have.
 */
bool bound_is_above_hosts(const struct bound *b, const struct space_degrees *g,
			  int zero, uint32_t offload);

/* ---- bound_degrees.c --------------------------------------------------- */

/*
 * Bounds all degrees of the space; what is found out lives as long as the
 * space.  hurried: communication, which takes long to bound, counts for
 * nothing.  False after errors.
 */
bool bound_open(struct bound *b, struct space *space,
		struct piece_store *pieces, bool hurried);
/* What a step with these degrees takes at least: arithmetic and exchange. */
double bound_degrees_us(const struct bound *b, const struct space_degrees *g);
/*
 * Finds the work of the program that no axis splits.  Returns all degrees, as
 * indices of space.degrees, by a guessed step: arithmetic, the least
 * communication, what data ranks exchange and the wait of a pipeline.  It is an
 * order to look in.
 */
uint32_t *bound_order(struct bound *b);

/* ---- bound.c ----------------------------------------------------------- */

/* Whether t takes at least us, however its values are placed. */
bool bound_is_above(struct bound *b, const struct piece_key *key,
		    const struct space_plan *t, double us);
/* The same with the collectives of its placement, which is made for that. */
bool bound_placed_is_above(struct bound *b, const struct piece_key *key,
			   const struct space_plan *t, double us);
/* The largest us for which bound_is_above holds, about. */
double bound_us(struct bound *b, const struct piece_key *key,
		const struct space_plan *t);

#endif

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

/*
 * What a rank takes at least for one sequence, in microseconds and without
 * communication among data ranks: in each piece, and in all layers together.
 */
struct bound_pieces {
	double all[PIECE_MAX], forward[PIECE_MAX];
	double whole_us;
};

/*
 * Lower bounds of a mean rank's time of exchange among data ranks in each
 * microbatch, with ZeRO 2 and 3.
 */
struct bound_cut {
	double dense_us, experts_us;	/* gradients, without those of tables */
	/*
	 * instead of experts_us, experts' rows may be gathered: time for each
	 * byte of them, and for each flop of their products
	 */
	double row_us, flop_us;
	double weights_us;	/* weights gathered at each use */
	double gather_us;	/* weights gathered once, after updates */
};

/* What holds for all plans of the same degrees. */
struct bound_degrees {
	double us;		/* of a step: arithmetic and exchange */
	/* lower bounds: summing gradients, gathering weights */
	double sum_us, gather_us;
	struct bound_cut cut;
	double guess_us;	/* no bound: the order to look in */
};

/* A contraction that computes experts' gradients, over all layers. */
struct bound_rows {
	/* its results' part of the elements of all experts' gradients */
	double weight;
	double bytes, flops;	/* for one sequence: operands, work */
};

struct bound_work;
struct bound_arithmetic;
struct bound_axis;
struct bound_spread;

struct bound {
	struct space *space;
	struct piece_store *pieces;
	bool hurried;		/* communication counts for nothing */
	/* lower bound of a step: arithmetic alone, on all devices */
	double flops_us;
	double static_bytes[3];	/* of weights, gradients, optimizer state */
	double expert_part;	/* fraction of parameters in experts */
	double table_part;	/* fraction in embedding tables */
	/* fraction that forward and backward read, without experts */
	double twice_part;
	/* the first and the last layer use one tensor, such as a table */
	bool ties;
	VEC(struct bound_rows) rows;
	VEC(struct bound_work) work;	/* of an unsplit program */
	struct bound_degrees *of;	/* by space_degrees.nth */
	/* results so far */
	VEC(struct bound_arithmetic *) arithmetic;
	VEC(struct bound_axis *) axes;
	VEC(struct bound_spread *) spreads;	/* by number of stages */
};

/* ---- bound_degrees.c --------------------------------------------------- */

/*
 * Reads the facts of the model, and bounds all degrees of the space, if they
 * were found; what is found out lives as long as the space.  False after
 * errors.
 */
bool bound_open(struct bound *b, struct space *space,
		struct piece_store *pieces);
/*
 * The degrees by a guessed step, as indices of space.degrees: arithmetic, the
 * least communication, what data ranks exchange and the wait of a pipeline.  It
 * is an order to look in.
 */
uint32_t *bound_order(struct bound *b);
/*
 * Lower bound of the bytes that a mean rank needs of weights, gradients and
 * optimizer state, without those of `offload`.
 */
double bound_least_bytes(const struct bound *b, const struct space_degrees *g,
			 int zero, uint32_t offload);

/* ---- bound.c ----------------------------------------------------------- */

/* Sets b->work. */
void bound_find_work(struct bound *b);
/*
 * The least time of each piece, for one sequence; communication is multiplied
 * by `comm`.
 */
void bound_find_pieces(struct bound *b, const struct piece_key *key,
		       const struct space_plan *t, double comm,
		       struct bound_pieces *us);
/* Whether t takes at least us, however its values are placed. */
bool bound_is_above(struct bound *b, const struct piece_key *key,
		    const struct space_plan *t, double us);
/* The largest us for which that holds, about. */
double bound_us(struct bound *b, const struct piece_key *key,
		const struct space_plan *t);
/* A guess of the pipeline, where kernels hide no communication. */
double bound_guess_us(struct bound *b, const struct piece_key *key,
		      const struct space_plan *t);

/* ---- bound_data.c ------------------------------------------------------ */

/*
 * Lower bound of the time that the exchange adds to a pipeline that takes us.
 */
double bound_data_us(const struct bound *b, const struct piece_key *key,
		     const struct space_plan *t, double us);
/*
 * The inverse of bound_data_us: the time of a pipeline which with the exchange
 * takes us.
 */
double bound_kernels_us(const struct bound *b, const struct piece_key *key,
			const struct space_plan *t, double us);

#endif

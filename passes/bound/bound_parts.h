/*
 * Private header of the bounds: of pieces, of a pipeline of them, and of what
 * data ranks exchange.
 */
#ifndef PASSES_BOUND_PARTS_H
#define PASSES_BOUND_PARTS_H

#include "passes/bound/bound.h"

/*
 * What a rank takes at least for one sequence, in microseconds and without
 * communication among data ranks: in each piece, and in all layers together.
 */
struct bound_pieces {
	double all[PIECE_MAX], forward[PIECE_MAX];
	double whole_us;
};

/*
 * Lower bounds of a mean rank's time of exchange among data ranks of one group
 * of parameters.
 */
struct bound_exchange {
	/* of a step: summing gradients, gathering weights */
	double sum_us, gather_us;
	/* in each microbatch with ZeRO 2 and 3, without those of tables:
	 * gradients, and weights gathered at each use */
	double gradients_us, weights_us;
	/*
	 * instead of gradients, rows may be gathered, or multiplied for all
	 * data ranks: time for each byte of them, and for each flop
	 */
	double row_us, flop_us;
};

/* What holds for all plans of the same degrees. */
struct bound_degrees {
	double us;		/* of a step: arithmetic and exchange */
	struct bound_exchange of[BOUND_NGROUPS];
	double table_us;	/* tables gathered at each use, as weights_us */
	double again_us;	/* weights gathered once, after updates */
	double guess_us;	/* no bound: the order to look in */
};

/*
 * A gradient of parameters that is a sum over rows of sequences: of a
 * contraction, in all layers, or of a table.
 */
struct bound_rows {
	enum bound_group group;
	bool table;
	double elems;
	double part;		/* of its group's parameters; of all tables */
	/* for one sequence: of its operands' rows; of its products */
	double bytes, flops;
};

/* A contraction or attention of an unsplit program, for one sequence. */
struct bound_work {
	uint32_t piece, kind;
	double times;		/* in one run of the piece */
	bool attends, backward;
	struct cost_contraction dot;
	/* which sizes of `dot` grow with the number of sequences */
	bool m, n, k, batch;
	struct cost_attention pairs;
};

/*
 * What contractions and attention take at least in each piece, of a microbatch
 * of so many sequences on all data ranks together, on so many ranks.
 */
struct bound_arithmetic {
	int64_t sequences, ranks;
	struct bound_pieces us;
};

/* What an axis of length n adds to that at least, by kind of layer. */
struct bound_axis {
	enum plan_axis axis;
	int64_t n, apart;	/* apart: devices between neighbours */
	bool sequence;
	double us[SPACE_MAX_KINDS];
};

/* Layers by stage, where only one choice of them is tried. */
struct bound_spread {
	struct bound_spread *next;	/* for the same number of stages */
	int64_t chunks;		/* stages on a rank */
	bool vshape;
	int64_t *first;		/* layer of each stage, and the end */
	double (*on_rank)[PIECE_MAX];	/* number of each piece on each rank */
};

/* ---- bound.c ----------------------------------------------------------- */

/* Sets b->work. */
void bound_find_work(struct bound *b);
/*
 * The least time of each piece, for one sequence; communication is multiplied
 * by `comm`, but not that along ep: it is exchanges, of which all shows.
 */
void bound_find_pieces(struct bound *b, const struct piece_key *key,
		       const struct space_plan *t, double comm,
		       struct bound_pieces *us);
/*
 * The same of arithmetic and the collectives of the key's placement, which is
 * made: those beside the exchange of data ranks, or all.  False: nothing is
 * known of it.
 */
bool bound_find_placed(struct bound *b, const struct piece_key *key,
		       const struct space_plan *t, bool all,
		       struct bound_pieces *us);
/* A guess of the pipeline, where kernels hide no communication. */
double bound_guess_us(struct bound *b, const struct piece_key *key,
		      const struct space_plan *t);

/* ---- bound_bytes.c ----------------------------------------------------- */

/*
 * The part that a mean rank has of what ranks of tp and pp split: ranks of dp
 * and cp hold the same tensors of experts, and ranks of ep, too, all others;
 * `cut`: ZeRO splits a tensor among all that hold it.
 */
double bound_part_of(const struct space_degrees *g, enum bound_group group,
		     bool cut);
/* Lower bound of what all ranks have on hosts, or on their drives. */
double bound_host_bytes(const struct bound *b, const struct space_degrees *g,
			int zero, uint32_t offload, bool drives);

/* ---- bound_line.c ------------------------------------------------------ */

/* Whether the pipeline takes at least us with any layers by stage. */
bool bound_line_is_above(struct bound *b, const struct space_plan *t,
			 const struct bound_pieces *x, double us);
/* The largest us for which bound_line_is_above holds. */
double bound_line_us(struct bound *b, const struct space_plan *t,
		     const struct bound_pieces *x);

/* ---- bound_link.c ------------------------------------------------------ */

/* Adds what a list of backward has on the link, `times` in its piece. */
void bound_add_link(struct bound *b, const struct pricing *p, region_id r,
		    double times, struct bound_link *to);
/* Sets b->held. */
void bound_sum_link(struct bound *b);
/*
 * Sets the times of pieces in which kernels of backward take nothing, but what
 * they read and add crosses the link of hosts that have the parameters, as
 * the key's `offload` says.
 */
void bound_find_link(struct bound *b, const struct piece_key *key,
		     const struct space_plan *t,
		     const struct bound_pieces *kernels,
		     struct bound_pieces *us);

/* ---- bound_data.c ------------------------------------------------------ */

/* Sets b->rows from a model with its backward; its sums are known. */
void bound_find_rows(struct bound *b);
/* Sets lower bounds of the time of g's exchange among data ranks. */
void bound_set_exchange(struct bound *b, const struct space_degrees *g);
/* Summing all gradients and gathering all weights, once. */
double bound_all_us(const struct bound_degrees *x);
/* What the exchange adds to the kernels of any plan with these degrees. */
double bound_any_data_us(const struct bound *b, const struct space_degrees *g);
/* Of that what is exchanged once a step. */
double bound_once_us(const struct bound *b, const struct piece_key *key,
		     const struct space_plan *t);
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

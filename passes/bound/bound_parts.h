/*
 * Private header of the bounds: the bound of a pipeline from bounds of its
 * pieces, and experts' rows.
 */
#ifndef PASSES_BOUND_PARTS_H
#define PASSES_BOUND_PARTS_H

#include "passes/bound/bound.h"

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

/* ---- bound_line.c ------------------------------------------------------ */

/* Whether the pipeline takes at least us with any layers by stage. */
bool bound_line_is_above(struct bound *b, const struct space_plan *t,
			 const struct bound_pieces *x, double us);
/* The largest us for which bound_line_is_above holds. */
double bound_line_us(struct bound *b, const struct space_plan *t,
		     const struct bound_pieces *x);

/* ---- bound_data.c ------------------------------------------------------ */

/* Sets b->rows from a model with its backward. */
void bound_find_rows(struct bound *b);
/* Sets lower bounds of the time of g's exchange among data ranks. */
void bound_set_exchange(struct bound *b, const struct space_degrees *g);

#endif

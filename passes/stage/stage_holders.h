/*
 * Which pipeline rank holds which tensor: those whose stages use it.
 */
#ifndef PASSES_STAGE_HOLDERS_H
#define PASSES_STAGE_HOLDERS_H

#include "passes/stage/stage.h"

/* A use of a tensor by a stage, in some or in all iterations. */
struct stage_mention {
	uint32_t next;		/* of this name, plus 1 */
	uint32_t stage;
	bool all;
	struct stage_range iters;
};

/* The holders of a tensor in some iterations. */
struct stage_holding {
	sym_t name;
	int64_t start, count;
	bool several;
	uint32_t first;		/* rank of the pipeline */
};

struct stage_holders {
	struct stage *st;
	size_t nsyms;		/* names that it knows; later ones are none */
	VEC(struct stage_mention) mentions;
	uint32_t *head;		/* by name: its latest mention, plus 1 */
	VEC(struct stage_holding) holdings;	/* answers so far, from 1 */
	struct table asked;
};

/* Reads the functions of all stages; h has st and nsyms. */
void stage_find_holders(struct stage_holders *h);
/* Whether a stage uses a tensor of that name. */
bool stage_is_held(const struct stage_holders *h, sym_t name);
/* Whether that use is in one of these iterations; NULL: in any. */
bool stage_overlaps(const struct stage_mention *x,
		    const struct stage_range *r);
/* Who holds it in iterations r; NULL: in all of them.  The rank of stage 0
 * holds what no stage uses. */
const struct stage_holding *stage_holding(struct stage_holders *h, sym_t name,
					  const struct stage_range *r);
/* Whether that rank of the pipeline is among them. */
bool stage_holds(struct stage_holders *h, uint32_t pipe, sym_t name,
		 const struct stage_range *r);

#endif

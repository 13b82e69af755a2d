/*
 * Private to serve_model.c and serve_weights.c: a program while it is read.
 */
#ifndef PASSES_SERVE_READING_H
#define PASSES_SERVE_READING_H

#include "passes/serve/serve.h"

struct serve_reading {
	const struct serve_model *s;
	const struct target_group *t;
	struct ir_module *m;
	struct arena *a;
	struct serve_program *out;
	bool *of_cache;	/* by value: it is computed of what is cached */
	/* by name: how programs of llmc store weights; NULL: others do */
	const struct pass_stored *as;
};

/* ---- serve_weights.c ---------------------------------------------------- */

/* The weight that a contraction multiplies by; 0: none. */
value_id serve_weight_of(const struct ir_module *m, const struct ir_node *n);
/* Whether slices of the weight are read. */
bool serve_is_cut(const struct ir_module *m, value_id weight);
/* Bytes of an element of a value. */
double serve_elem_bytes(const struct ir_module *m, value_id v);
/* How a weight is stored, in a layer or not. */
enum serve_stored serve_stored_as(const struct serve_reading *r,
				  value_id weight, bool is_layer);
/* Adds the weights of a region and those inside it to a part. */
void serve_add_weights(const struct serve_reading *r, region_id id,
		       double times, struct serve_part *part);
/* Adds weights outside of repeats, each to the first part that reads it. */
void serve_add_outer_weights(const struct serve_reading *r, region_id body);

#endif

/*
 * What a run may change without compiling again: the numbers of each step that
 * the layer `update` reads as inputs, f32[] by name, and the settings of the
 * `train` block that they follow from.  passes/optimize.c emits the inputs;
 * interpreters, and the runtime on its own, give their values.
 */
#ifndef IR_STEP_NUMBERS_H
#define IR_STEP_NUMBERS_H

#include "ir/ir.h"

/* As enum rt_number of runtime/abi.h. */
enum ir_number {
	IR_NUMBER_STEP,		/* from 1 */
	IR_NUMBER_LR,		/* of this step, by the schedule */
	IR_NUMBER_CLIP,
	IR_NUMBER_DECAY,	/* of each group of weights */
	IR_NUMBER_DECAY_EMBEDDINGS,
	IR_NUMBER_DECAY_VECTORS,
	IR_NUMBERS
};

enum ir_schedule {
	IR_SCHEDULE_CONSTANT, IR_SCHEDULE_LINEAR, IR_SCHEDULE_COSINE,
	IR_SCHEDULE_WSD
};

struct ir_training {
	enum ir_schedule schedule;
	double lr, min_lr, warmup;
	double decay;		/* steps; 0: to the last of `steps` */
	double steps;		/* 0: unknown */
	double at[IR_NUMBERS];	/* but for the first two, which steps have */
};

extern const char *const ir_number_names[IR_NUMBERS];

/* The number of that name; IR_NUMBERS: none has it. */
enum ir_number ir_number_find(const char *name);
/* Reads the `train` block of a module. */
void ir_training_read(const struct ir_module *m, struct ir_training *t);
double ir_training_number(const struct ir_training *t, enum ir_number n,
			  double step);
/*
 * What an input of one element is in `update`; false: it is none of these
 * numbers.
 */
bool ir_training_input(const struct ir_module *m, const char *name,
		       double step, double *out);

#endif

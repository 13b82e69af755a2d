/*
 * Private to calibrate*.c: measured points, and the target that is fitted to
 * them.
 */
#ifndef FRONTEND_CALIBRATE_H
#define FRONTEND_CALIBRATE_H

#include "codegen/cg.h"
#include "frontend/driver.h"
#include "passes/price/cost.h"
#include "runtime/measure/measure.h"

enum cal_group { CAL_MATMUL, CAL_READ, CAL_ATTEND, CAL_KEYS, CAL_STREAM,
		 CAL_LAUNCH, CAL_COMM, CAL_GROUPS };

/* A measured shape, and the time that the fitted target predicts. */
struct cal_point {
	enum cal_group group;
	const char *what;	/* "fp32 512x512x512" */
	struct rt_sample s;
	double work;		/* flops, or bytes moved */
	double predicted_us;
	union {
		struct cost_contraction matmul;	/* of weights, too */
		struct cost_attention attend;
		struct cost_keys keys;
		double bytes;
		struct {
			enum cost_op op;
			int64_t ranks;
			double bytes;
		} coll;
	};
};

/* Relative errors of a group. */
struct cal_error {
	uint32_t n;
	double median, worst;
};

struct cal {
	struct driver *d;
	struct rt_meter meter;
	bool quick;
	VEC(struct rt_matmul_shape) matmuls;
	VEC(struct rt_attention_shape) attentions;
	struct cg_singles kernels;	/* on a CPU: of all those shapes */
	/* the same, in the form that the meter needs */
	struct rt_made *made;
	VEC(struct cal_point) points;
	struct target_group fitted;
	struct cal_error errors[CAL_GROUPS];
};

extern const char *const cal_group_names[CAL_GROUPS];

/* ---- calibrate_kernels.c ---------------------------------------------- */

/* Compiles the kernels of all shapes, for a CPU; false after errors. */
bool cal_kernels_open(struct cal *c);

/* ---- calibrate_fit.c -------------------------------------------------- */

/* Fits rates and constants to the points, and predicts each point with them. */
void cal_fit(struct cal *c);
/* Of a point of weights: what it reads of them. */
double cal_weight_bytes(const struct cal_point *p);
/* The predicted time of a point on this target. */
double cal_predict(const struct target_group *t, const struct cal_point *p);
/* The rate of a target that is a rate of the meter. */
enum target_rate cal_rate(enum rt_rate r);

/* ---- calibrate_print.c ------------------------------------------------ */

/* Prints the points as a table, or as JSON. */
void cal_print_points(const struct cal *c, struct buf *out);
void cal_print_json(const struct cal *c, struct buf *out);
/* Prints a target file, with a comment of its origin before each number. */
void cal_print_target(const struct cal *c, struct buf *out);

#endif

/*
 * Between the files of `llmc calibrate`: what was measured, and the target
 * that it was fitted to.
 */
#ifndef FRONTEND_CALIBRATE_H
#define FRONTEND_CALIBRATE_H

#include "codegen/cg.h"
#include "frontend/tool/driver.h"
#include "passes/price/cost.h"
#include "runtime/measure/measure.h"

enum cal_group { CAL_MATMUL, CAL_ATTEND, CAL_STREAM, CAL_LAUNCH, CAL_COMM,
		 CAL_GROUPS };

/* One shape: what it was, what it took, what the fitted target says. */
struct cal_point {
	enum cal_group group;
	const char *what;	/* "fp32 512x512x512" */
	struct rt_sample s;
	double work;		/* flops, or bytes moved */
	double predicted_us;
	union {
		struct cost_contraction matmul;
		struct cost_attention attend;
		double bytes;
		struct {
			enum cost_op op;
			int64_t ranks;
			double bytes;
		} coll;
	};
};

/* The errors of a group, in parts of what was measured. */
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
	struct cg_singles kernels;	/* of a CPU: of all those shapes */
	struct rt_made *made;		/* the same, as the meter has them */
	VEC(struct cal_point) points;
	struct target_group fitted;
	struct cal_error errors[CAL_GROUPS];
};

extern const char *const cal_group_names[CAL_GROUPS];

/* ---- calibrate_kernels.c ---------------------------------------------- */

/* Makes the kernels of all shapes, for a CPU; false after errors. */
bool cal_kernels_open(struct cal *c);

/* ---- calibrate_fit.c -------------------------------------------------- */

/* Rates and constants from the points, and what those then say of them. */
void cal_fit(struct cal *c);
/* The formula's time of one point on this target. */
double cal_predict(const struct target_group *t, const struct cal_point *p);
/* Of a rate that the meter knows. */
enum target_rate cal_rate(enum rt_rate r);

/* ---- calibrate_print.c ------------------------------------------------ */

/* The points, for people or as JSON. */
void cal_print_points(const struct cal *c, struct buf *out);
void cal_print_json(const struct cal *c, struct buf *out);
/* A target file; each number under a comment that says where it is from. */
void cal_print_target(const struct cal *c, struct buf *out);

#endif

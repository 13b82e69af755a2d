/*
 * What the readers of all kinds of tables share: targets by name, costs that
 * are added up, models of rows that are compiled, and quantiles.
 */
#include "frontend/validate/validate_serve.h"

#include <math.h>
#include <string.h>

const struct target_group *
val_target(struct val *v, const char *name)
{
	struct ir_ctx *c = &v->d->ctx;
	struct target t;
	bool fp4;
	uint32_t i;

	if (!fe_target_known(name)) {
		name = serving_named_target(&c->perm, name, &fp4);
	}
	if (!name) {
		return NULL;
	}
	for (i = 0; i < v->targets.n; i++) {
		if (strcmp(v->targets.at[i].name, name) == 0) {
			return v->targets.at[i].groups.at;
		}
	}
	if (!fe_target(c, arena_strndup(&c->perm, name, strlen(name)), &t)) {
		die("built-in target %s", name);
	}
	VEC_PUSH(&c->perm, &v->targets, t);
	return t.groups.at;
}

/* Errors are printed in percent, so that has to be a number, too. */
void
val_push(struct val *v, struct val_row *r)
{
	struct arena *a = &v->d->ctx.perm;

	if (!isfinite(r->measured_us)) {
		r->why = "what it took is no finite number of microseconds";
		r->measured_us = 0;
	} else if (!r->why &&
		   !isfinite(100 * (r->predicted_us / r->measured_us))) {
		r->why = arena_printf(a, "what it took, %.3g us, has no ratio "
				      "to a prediction", r->measured_us);
	}
	VEC_PUSH(a, &v->rows, *r);
}

void
val_add(struct val_row *r, struct cost c)
{
	r->predicted_us += c.us;
	r->math_us += c.math_us;
	r->memory_us += c.memory_us;
	r->launch_us += c.launch_us;
}

/* Weights need no names: no checkpoint holds them. */
struct ir_module *
val_compile(struct ir_ctx *c, const char *text)
{
	bool on = c->diags.on[WARN_UNNAMED_WEIGHT];
	struct ir_module *m = NULL;
	uint32_t base;

	c->diags.on[WARN_UNNAMED_WEIGHT] = false;
	if (source_add(&c->sources, "<row>", text, strlen(text), &base)) {
		m = fe_compile(c, c->sources.files.n - 1);
	}
	c->diags.on[WARN_UNNAMED_WEIGHT] = on;
	return m;
}

const char *
val_first_error(struct val *v, const struct ir_ctx *c)
{
	return c->diags.records.n ? arena_printf(&v->d->ctx.perm, "%s",
						 c->diags.records.at[0].text)
				  : "its plan does not fit it";
}

double
val_quantile(const double *sorted, uint32_t n, double q)
{
	double at = q * (n - 1);
	uint32_t lo = (uint32_t)at;
	double part = at - lo;

	return lo + 1 < n ? sorted[lo] * (1 - part) + sorted[lo + 1] * part
			  : sorted[lo];
}

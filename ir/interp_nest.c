/*
 * Loops for the interpreter's ops: dims are found by name, so that no op
 * needs to know in which order an operand has them.
 */
#include "ir/interp.h"

#include <math.h>
#include <string.h>

/* 0 if the tensor lacks the dim: it is the same all along it. */
static int64_t
stride(const struct ir_module *m, const struct ir_type *t, dim_id d)
{
	int64_t s = 1;
	int i;

	for (i = t->ndims - 1; i >= 0; i--) {
		if (t->dims[i] == d) {
			return s;
		}
		s *= ir_dim_size(m, t->dims[i]);
	}
	return 0;
}

void
ir_nest_add(const struct interp *e, const struct ir_node *n, struct nest *w,
	  const struct ir_factor *f)
{
	const struct ir_module *m = e->m;
	uint32_t i, k;

	for (i = 0; i < f->n; i++, w->n++) {
		dim_id d = f->dims[i];

		if (w->n == NEST_DIMS) {
			die("more than %d loops", NEST_DIMS);
		}
		w->size[w->n] = ir_dim_size(m, d);
		w->out[w->n] = f->out ? stride(m, ir_type(m, n->result), d) :
					0;
		for (k = 0; k < n->nargs && k < IR_MAX_OPERANDS; k++) {
			w->in[k][w->n] = f->in >> k & 1 ?
				stride(m, ir_type(m, ir_args(m, n)[k]), d) : 0;
		}
	}
}

void
ir_nest(const struct interp *e, const struct ir_node *n,
      const struct ir_rule *r, struct nest *w, const char *factors)
{
	const char *p = factors;
	char name[8];

	memset(w, 0, sizeof *w);
	while (*p) {
		size_t k = strcspn(p, " ");
		const struct ir_factor *f;

		memcpy(name, p, k);
		name[k] = '\0';
		f = ir_rule_factor(r, name);
		if (!f) {
			die("%s has no factor `%s`", ir_ops[n->op].name, name);
		}
		ir_nest_add(e, n, w, f);
		p += k + (p[k] == ' ');
	}
}

bool
ir_nest_start(struct nest *w)
{
	int i;

	memset(w->at, 0, sizeof w->at);
	memset(w->in_off, 0, sizeof w->in_off);
	w->out_off = 0;
	for (i = 0; i < w->n; i++) {
		if (w->size[i] < 1) {
			return false;
		}
	}
	return true;
}

bool
ir_nest_next(struct nest *w)
{
	int i, k;

	for (i = w->n - 1; i >= 0; i--) {
		bool on = ++w->at[i] < w->size[i];
		int64_t step = on ? 1 : 1 - w->size[i];

		w->out_off += step * w->out[i];
		for (k = 0; k < IR_MAX_OPERANDS; k++) {
			w->in_off[k] += step * w->in[k][i];
		}
		if (on) {
			return true;
		}
		w->at[i] = 0;
	}
	return false;
}

void
ir_nest_one(const struct interp *e, const struct ir_node *n,
     const struct ir_rule *r, struct nest *w, const char *name)
{
	ir_nest(e, n, r, w, name);
	if (w->n != 1) {
		die("%s: `%s` is not one dim", ir_ops[n->op].name, name);
	}
}

bool
ir_interp_index(const struct interp *e, const struct ir_node *n, double v,
	 dim_id d, int64_t *index)
{
	int64_t size = ir_dim_size(e->m, d);

	if (!(v >= 0 && v < (double)size) || v != floor(v)) {
		diag_error(&e->m->ctx->diags, n->span, "%s by index %.15g, "
			   "and the indices of `%s` are 0 to %lld",
			   ir_ops[n->op].name, v, ir_dim_name(e->m, d),
			   (long long)size - 1);
		return false;
	}
	*index = (int64_t)v;
	return true;
}

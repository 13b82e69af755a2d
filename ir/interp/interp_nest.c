/*
 * Loops for the interpreter's ops.  Dims are found by name, so that an op does
 * not depend on the order in which an operand has them.
 */
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

/* ---- positions on this rank ---- */

static const struct ir_type *
type_of(const struct interp *e, const struct ir_node *n, uint32_t k)
{
	return k == INTERP_RESULT ? ir_type(e->m, n->result)
				  : interp_type(e, n, k);
}

/* The number of positions of a dim on this rank, or of all if it runs alone. */
static int64_t
extent(const struct interp *e, uint32_t k, const struct ir_type *t,
       uint32_t i)
{
	struct ir_pieces p;

	if (!e->at || !t->cut[i]) {
		return ir_dim_size(e->m, t->dims[i]);
	}
	ir_pieces(e->m, ir_dim_size(e->m, t->dims[i]), t->cut[i],
		  e->away_set >> k & 1 ? e->away : e->at, &p);
	return p.total;
}

void
ir_interp_pieces(const struct interp *e, const struct ir_node *n, uint32_t k,
		 dim_id d, struct ir_pieces *out)
{
	const struct ir_type *t = type_of(e, n, k);
	uint32_t i, cut = 0;

	for (i = 0; e->at && i < t->ndims; i++) {
		if (t->dims[i] == d) {
			cut = t->cut[i];
		}
	}
	ir_pieces(e->m, ir_dim_size(e->m, d), cut,
		  e->away_set >> k & 1 ? e->away : e->at, out);
}

int64_t
ir_interp_elems(const struct interp *e, const struct ir_node *n, uint32_t k)
{
	const struct ir_type *t = type_of(e, n, k);
	int64_t elems = 1;
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		if (!num_mul(elems, extent(e, k, t, i), &elems)) {
			return INT64_MAX;
		}
	}
	return elems;
}

/* ---- loops ---- */

/* The stride of a dim; 0 if the tensor lacks it and so is constant along it. */
static int64_t
stride(const struct interp *e, const struct ir_node *n, uint32_t k, dim_id d,
       int64_t *size)
{
	const struct ir_type *t = type_of(e, n, k);
	int64_t s = 1;
	uint32_t i;

	for (i = t->ndims; i-- > 0; ) {
		int64_t here = extent(e, k, t, i);

		if (t->dims[i] == d) {
			*size = here;
			return s;
		}
		s *= here;
	}
	return 0;
}

void
ir_nest_add(const struct interp *e, const struct ir_node *n,
	    struct interp_nest *w, const struct ir_factor *f)
{
	uint32_t i, k;

	w->nin = n->nargs < IR_MAX_OPERANDS ? (int)n->nargs : IR_MAX_OPERANDS;
	for (i = 0; i < f->n; i++, w->n++) {
		int64_t *size = &w->size[w->n];
		dim_id d = f->dims[i];

		if (w->n == NEST_DIMS) {
			die("more than %d loops", NEST_DIMS);
		}
		*size = ir_dim_size(e->m, d);
		w->out[w->n] = f->out ? stride(e, n, INTERP_RESULT, d, size)
				      : 0;
		for (k = 0; k < (uint32_t)w->nin; k++) {
			w->in[k][w->n] = f->in >> k & 1 ?
				stride(e, n, k, d, size) : 0;
		}
	}
}

int64_t
ir_nest_elems(const struct interp_nest *w)
{
	int64_t elems = 1;
	int i;

	for (i = 0; i < w->n; i++) {
		elems *= w->size[i];
	}
	return elems;
}

void
ir_nest(const struct interp *e, const struct ir_node *n,
	const struct ir_rule *r, struct interp_nest *w, const char *factors)
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

int
ir_nest_hoist(struct interp_nest *w, int k, int64_t *count)
{
	int last = w->n > 0 ? w->n - 1 : 0;

	*count = 1;
	if (w->n > 0 && w->in[k][last] == 0) {
		*count = w->size[last];
		w->n = last;
	}
	return last;
}

bool
ir_nest_start(struct interp_nest *w)
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
ir_nest_next(struct interp_nest *w)
{
	int i, k;

	for (i = w->n - 1; i >= 0; i--) {
		bool on = ++w->at[i] < w->size[i];
		int64_t step = on ? 1 : 1 - w->size[i];

		w->out_off += step * w->out[i];
		for (k = 0; k < w->nin; k++) {
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
	    const struct ir_rule *r, struct interp_nest *w, const char *name)
{
	ir_nest(e, n, r, w, name);
	if (w->n != 1) {
		die("%s: `%s` is not one dim", ir_ops[n->op].name, name);
	}
}

/* ---- looking up ---- */

void
ir_interp_of(const struct interp *e, const struct ir_node *n,
	     const struct ir_rule *r, struct interp_index *x)
{
	const struct ir_factor *of = ir_rule_factor(r, "of");
	uint32_t k = 0;

	while (k < n->nargs && !(of->in >> k & 1)) {
		k++;
	}
	x->dim = of->dims[0];
	ir_interp_pieces(e, n, k < n->nargs ? k : INTERP_RESULT, x->dim,
			 &x->here);
}

bool
ir_interp_index(const struct interp *e, const struct ir_node *n, double v,
		const struct interp_index *x, int64_t *index)
{
	int64_t size = ir_dim_size(e->m, x->dim);

	if (!(v >= 0 && v < (double)size) || v != floor(v)) {
		diag_error(&e->m->ctx->diags, n->span, "%s by index %.15g, "
			   "and the indices of `%s` are 0 to %lld",
			   ir_ops[n->op].name, v, ir_dim_name(e->m, x->dim),
			   (long long)size - 1);
		return false;
	}
	*index = ir_pieces_find(&x->here, (int64_t)v);
	return true;
}

/*
 * Ops that only backward and the optimizer need: moving elements back to where
 * they came from, and sinks.
 */
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

static void
clear(const struct interp *e, const struct ir_node *n, double *out)
{
	memset(out, 0, (size_t)ir_interp_elems(e, n, INTERP_RESULT) *
		       sizeof *out);
}

bool
ir_eval_counted(struct interp *e, const struct ir_node *n, double *out)
{
	memcpy(out, interp_arg(e, n, 0),
	       (size_t)ir_interp_elems(e, n, INTERP_RESULT) * sizeof *out);
	return true;
}

bool
ir_eval_expand(struct interp *e, const struct ir_node *n, double *out)
{
	const double *x = interp_arg(e, n, 0);
	struct ir_rule r;
	struct interp_nest o;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A over");
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		out[o.out_off] = x[o.in_off[0]];
	}
	return true;
}

bool
ir_eval_arrange(struct interp *e, const struct ir_node *n, double *out)
{
	const double *x = interp_arg(e, n, 0);
	struct ir_factor all;
	struct ir_rule r;
	struct interp_nest o;
	bool i;

	ir_bind(e->m, n, &r);
	all = *ir_rule_factor(&r, "over");
	all.in = 1;	/* same elements as A, in another order */
	memset(&o, 0, sizeof o);
	ir_nest_add(e, n, &o, &all);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		out[o.out_off] = x[o.in_off[0]];
	}
	return true;
}

bool
ir_eval_pad(struct interp *e, const struct ir_node *n, double *out)
{
	int64_t at = ir_attr_int(e->m, n, IR_ATTR_AT, 0), k;
	struct interp_nest o, of, to;
	struct ir_rule r;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A");
	ir_nest_one(e, n, &r, &of, "of");
	ir_nest_one(e, n, &r, &to, "to");
	if (at < 0 || at > to.size[0] - of.size[0]) {
		diag_error(&e->m->ctx->diags, n->span,
			   "%lld elements from %lld on do not fit in %lld",
			   (long long)of.size[0], (long long)at,
			   (long long)to.size[0]);
		return false;
	}
	clear(e, n, out);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		for (k = 0; k < of.size[0]; k++) {
			out[o.out_off + (at + k) * to.out[0]] =
				interp_arg(e, n, 0)[o.in_off[0] +
						    k * of.in[0][0]];
		}
	}
	return true;
}

bool
ir_eval_put(struct interp *e, const struct ir_node *n, double *out)
{
	int64_t at = ir_attr_int(e->m, n, IR_ATTR_AT, 0);
	const double *x = interp_arg(e, n, 0);
	struct interp_nest o, of;
	struct ir_rule r;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A");
	ir_nest_one(e, n, &r, &of, "of");
	if (at < 0 || at >= of.size[0]) {
		diag_error(&e->m->ctx->diags, n->span,
			   "index %lld, and 0 to %lld is legal",
			   (long long)at, (long long)of.size[0] - 1);
		return false;
	}
	clear(e, n, out);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		out[o.out_off + at * of.out[0]] = x[o.in_off[0]];
	}
	return true;
}

/*
 * Puts rows of operand 0 where operand 1, an index, says, or adds them up
 * there; the factors are those of operand 0.
 */
static bool
put_rows(struct interp *e, const struct ir_node *n,
	 const char *factors, bool adds, double *out)
{
	const double *x = interp_arg(e, n, 0), *index = interp_arg(e, n, 1);
	struct interp_index here;
	struct interp_nest o, of;
	struct ir_rule r;
	int64_t k;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, factors);
	ir_nest_one(e, n, &r, &of, "of");
	ir_interp_of(e, n, &r, &here);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		if (!ir_interp_index(e, n, index[o.in_off[1]], &here, &k)) {
			return false;
		}
		if (k >= 0) {
			double *to = &out[o.out_off + k * of.out[0]];

			*to = (adds ? *to : 0) + x[o.in_off[0]];
		}
	}
	return true;
}

bool
ir_eval_scatter(struct interp *e, const struct ir_node *n, double *out)
{
	clear(e, n, out);
	return put_rows(e, n, "A over N", true, out);
}

/* Rounds numbers to a cache's type, if it is another than that of its rows. */
static void
round_rows(const struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_type *t = ir_type(e->m, n->result);
	int64_t elems = ir_interp_elems(e, n, INTERP_RESULT), i;

	if (t->dtype == interp_type(e, n, 0)->dtype) {
		return;
	}
	for (i = 0; i < elems; i++) {
		out[i] = ir_interp_nearest((enum ir_dtype)t->dtype, out[i]);
	}
}

bool
ir_eval_append(struct interp *e, const struct ir_node *n, double *out)
{
	const struct ir_type *t = ir_type(e->m, n->result);
	size_t length = ir_interp_enter_name(e, n);
	bool ok = ir_interp_read_tensor(e, n, out) &&
		  put_rows(e, n, "over N", false, out);

	if (ok) {
		round_rows(e, n, out);
		ok = ir_interp_write_tensor(e, n, t, out);
	}
	ir_interp_leave(&e->name, length);
	return ok;
}

bool
ir_eval_onehot(struct interp *e, const struct ir_node *n, double *out)
{
	const double *index = interp_arg(e, n, 0);
	struct interp_index here;
	struct interp_nest o, of;
	struct ir_rule r;
	int64_t k;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "A");
	ir_nest_one(e, n, &r, &of, "of");
	clear(e, n, out);
	ir_interp_of(e, n, &r, &here);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		if (!ir_interp_index(e, n, index[o.in_off[0]], &here, &k)) {
			return false;
		}
		if (k >= 0) {
			out[o.out_off + k * of.out[0]] = 1;
		}
	}
	return true;
}

/* Adds products along loop `last` of o; false: one is of an absent row. */
static bool
add_row(const double *x, const double *g, const struct interp_nest *o, int last,
	int64_t count, bool routed, double *out)
{
	int64_t dx = o->in[0][last], dg = o->in[1][last], j;

	for (j = 0; j < count; j++) {
		double product = x[j * dx] * g[j * dg];

		if (routed && isnan(product)) {
			return false;
		}
		out[j * o->out[last]] += product;
	}
	return true;
}

bool
ir_eval_dot_to(struct interp *e, const struct ir_node *n, double *out)
{
	const double *x = interp_arg(e, n, 0), *g = interp_arg(e, n, 1);
	bool routed = e->at && (interp_type(e, n, 0)->routed |
				interp_type(e, n, 1)->routed);
	const double *index = interp_arg(e, n, 2);
	struct interp_index here;
	struct interp_nest o, of;
	struct ir_rule r;
	int64_t k, count;
	int last;
	bool i;

	ir_bind(e->m, n, &r);
	ir_nest(e, n, &r, &o, "S C M N K");
	ir_nest_one(e, n, &r, &of, "of");
	clear(e, n, out);
	ir_interp_of(e, n, &r, &here);
	last = ir_nest_hoist(&o, 2, &count);
	for (i = ir_nest_start(&o); i; i = ir_nest_next(&o)) {
		if (!ir_interp_index(e, n, index[o.in_off[2]], &here, &k)) {
			return false;
		}
		/* below 0: its expert is on another rank */
		if (k >= 0 &&
		    !add_row(x + o.in_off[0], g + o.in_off[1], &o, last, count,
			     routed, out + o.out_off + k * of.out[0])) {
			return ir_interp_absent(e, n);
		}
	}
	return true;
}

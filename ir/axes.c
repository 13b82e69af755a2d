/*
 * The mesh of ranks, and how a value is placed on it.  Along each axis a value
 * is whole, split along one of its dims, a part of a sum, or routed; a type has
 * this for all axes at once.
 */
#include "ir/ir.h"

#include <inttypes.h>
#include <string.h>

axis_id
ir_axis_add(struct ir_module *m, sym_t name, int64_t size, struct span span)
{
	struct ir_axis a = { .name = name, .size = size, .span = span };

	if (m->axes.n > IR_MAX_AXES) {
		die("more than %d axes", IR_MAX_AXES);
	}
	VEC_PUSH(&m->ctx->perm, &m->axes, a);
	return m->axes.n - 1;
}

axis_id
ir_axis_find(const struct ir_module *m, sym_t name)
{
	axis_id a;

	for (a = 1; a < m->axes.n; a++) {
		if (m->axes.at[a].name == name) {
			return a;
		}
	}
	return 0;
}

/* "?" for an axis that the mesh lacks: a broken type may name one. */
const char *
ir_axis_name(const struct ir_module *m, axis_id a)
{
	return a && a < m->axes.n ? ir_text(m->ctx, m->axes.at[a].name) : "?";
}

uint32_t
ir_cuts(const struct ir_type *t, uint32_t i, axis_id axes[IR_MAX_AXES])
{
	uint32_t cut = t->cut[i], n = 0;

	for (; cut; cut >>= 4) {
		axes[n++] = cut & 15;
	}
	return n;
}

struct ir_along
ir_along(const struct ir_type *t, axis_id a)
{
	struct ir_along s = { IR_IS_WHOLE, 0 };
	uint32_t i, cut;

	if (t->sum >> (a - 1) & 1) {
		s.how = IR_IS_PART;
	} else if (t->routed >> (a - 1) & 1) {
		s.how = IR_IS_ROUTED;
	}
	for (i = 0; i < t->ndims; i++) {
		for (cut = t->cut[i]; cut; cut >>= 4) {
			if ((cut & 15) == a) {
				s.how = IR_IS_SPLIT;
				s.dim = t->dims[i];
			}
		}
	}
	return s;
}

bool
ir_along_equal(struct ir_along a, struct ir_along b)
{
	return a.how == b.how && a.dim == b.dim;
}

/* The cut without axis a; the axes inside of it move out by one place. */
static uint32_t
cut_without(uint32_t cut, axis_id a)
{
	uint32_t out = 0, at = 0;

	for (; cut; cut >>= 4) {
		if ((cut & 15) != a) {
			out |= (cut & 15) << at;
			at += 4;
		}
	}
	return out;
}

void
ir_set_along(struct ir_type *t, axis_id a, struct ir_along s)
{
	uint8_t bit = (uint8_t)(1u << (a - 1));
	uint32_t i, at;

	t->sum &= (uint8_t)~bit;
	t->routed &= (uint8_t)~bit;
	for (i = 0; i < t->ndims; i++) {
		t->cut[i] = cut_without(t->cut[i], a);
		if (s.how == IR_IS_SPLIT && t->dims[i] == s.dim) {
			for (at = 0; t->cut[i] >> at; at += 4) {
			}
			t->cut[i] |= a << at;
		}
	}
	t->sum |= s.how == IR_IS_PART ? bit : 0;
	t->routed |= s.how == IR_IS_ROUTED ? bit : 0;
}

/* ---- as text ---- */

const char *
ir_along_text(const struct ir_module *m, struct ir_along s)
{
	switch (s.how) {
	case IR_IS_PART:
		return "a part of a sum";
	case IR_IS_ROUTED:
		return "routed";
	case IR_IS_SPLIT:
		return arena_printf(&m->ctx->tmp, "split by `%s`",
				    ir_dim_name(m, s.dim));
	default:
		return "whole";
	}
}

void
ir_put_cut(const struct ir_module *m, uint32_t cut, struct buf *out)
{
	for (; cut; cut >>= 4) {
		buf_putc(out, ':');
		buf_puts(out, ir_axis_name(m, cut & 15));
	}
}

void
ir_put_marks(const struct ir_module *m, const struct ir_type *t,
	     struct buf *out)
{
	const char *before = "{";
	axis_id a;

	for (a = 1; a <= IR_MAX_AXES; a++) {
		bool sum = t->sum >> (a - 1) & 1;

		if (sum || t->routed >> (a - 1) & 1) {
			buf_puts(out, before);
			buf_putc(out, sum ? '+' : '@');
			buf_puts(out, ir_axis_name(m, a));
			before = ", ";
		}
	}
	buf_puts(out, *before == '{' ? "" : "}");
}

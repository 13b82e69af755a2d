/*
 * Weights of attention forward with wgmma, for cuda_attention90_forward.c.
 *
 * A weight is 2^(score - reference), and the reference of a row need not be its
 * largest score: whatever it is, it is in the sum of weights, too, by which
 * results are divided.  So it rises only where a score exceeds it by more than
 * RISE, a factor of 2^RISE: weights stay below that, and as precise as they
 * are, since their types are floating point.  Whether it rises is decided for
 * each row by the row's own scores, so that bits depend on nothing else.  Most
 * tiles raise no reference of a warp's 16 rows, and so no sum is rescaled.
 *
 * Whether any of them does is all that a tile needs to know of its scores'
 * maximum.  Each thread compares its own scores, and for that as integers:
 * sm_90a has a maximum of three of these, and of two floats.  Of positive
 * floats that order is the same, and a negative one is less than 0, which is
 * among them, too.  Rows whose limit is below 0 take the way on which rows
 * rise, in each tile, where the maximum is that of floats.
 */
#include "codegen/cuda/attention/cuda_attention90_forward.h"

#define RISE 8.0

void
ca90_weigh_begin(struct ca90_forward *p)
{
	struct ca_forward *s = &p->s;
	struct cu_func *f = &s->f;
	const char *by = ca_f32(f, ca_forward_by(s));

	cu_comment(f, "a score above the limit raises its row's reference, "
		   "`most'");
	cu_line(f, "f32 limit[2], less[2];");
	ca_unrolled_for(f, "h", 2);
	cu_line(f, "limit[h] = most[0][h] + %s;",
		ca_f32(f, RISE / ca_forward_by(s)));
	cu_line(f, "less[h] = %s;", s->t->values[ATTN_SINK]
		? arena_printf(f->k->c->a, "most[0][h] * %s", by) : "0");
	cu_line(f, "}");
}

/* Opens what is done for both of a thread's rows, in which `top` is the largest
 * of the row's scores and its reference; `bits`: of scores as integers, and
 * 0. */
static void
open_largest(struct ca90_forward *p, bool bits)
{
	struct ca_forward *s = &p->s;
	struct cu_func *f = &s->f;

	ca_unrolled_for(f, "h", 2);
	cu_line(f, bits ? "i32 top = 0;" : "f32 top = most[0][h];");
	ca_unrolled_for(f, "j", s->form.cols / 8);
	cu_line(f, bits ? "top = max3_i32(top, (i32)f32_bits(s[0][j][2 * h]), "
			  "(i32)f32_bits(s[0][j][2 * h + 1]));"
			: "top = f_max(top, f_max(s[0][j][2 * h], "
			  "s[0][j][2 * h + 1]));");
	cu_line(f, "}");
}

/* Declares `rises`: some row of the warp may. */
static void
look(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "int above = 0;");
	open_largest(p, true);
	cu_line(f, "above |= bits_f32((u32)top) > limit[h];");
	cu_line(f, "}");
	cu_line(f, "const int rises = warp_any(above);");
}

/* Raises references, and rescales sums of weights.  Sets `fades`, by which sums
 * of values are to be rescaled; exactly 1 of a row that stays. */
static void
rise(struct ca90_forward *p)
{
	struct ca_forward *s = &p->s;
	struct cu_func *f = &s->f;
	const char *by = ca_f32(f, ca_forward_by(s));

	open_largest(p, false);
	cu_line(f, "top = f_max(top, shfl_xor_f32(top, 1));");
	cu_line(f, "top = f_max(top, shfl_xor_f32(top, 2));");
	cu_line(f, "top = top > limit[h] ? top : most[0][h];");
	cu_line(f, "fades[h] = %s((most[0][h] - top) * %s);", ca_exp2(s->t),
		by);
	cu_line(f, "sum[0][h] *= fades[h];");
	cu_line(f, "most[0][h] = top;");
	cu_line(f, "limit[h] = top + %s;", ca_f32(f, RISE / ca_forward_by(s)));
	cu_comment(f, "of a row that has seen no key yet all weights are 0");
	cu_line(f, "less[h] = top > 0.5f * %s ? top * %s : 0.0f;", CA_LEAST,
		by);
	cu_line(f, "}");
}

void
ca90_weigh(struct ca90_forward *p, bool first)
{
	struct ca_forward *s = &p->s;
	struct cu_func *f = &s->f;

	ca_forward_scores(s);
	if (first) {
		cu_line(f, "{");
	} else {
		look(p);
		cu_line(f, "if (rises) {");
	}
	rise(p);
	cu_line(f, "}");
	ca_unrolled_for(f, "h", 2);
	cu_line(f, "f32 add = 0;");
	ca_unrolled_for(f, "j", s->form.cols / 8);
	ca_unrolled_for(f, "e", 2);
	cu_line(f, "f32 w = %s(fma_f32(s[0][j][2 * h + e], %s, -less[h]));",
		ca_exp2(s->t), ca_f32(f, ca_forward_by(s)));
	cu_line(f, "s[0][j][2 * h + e] = w;");
	cu_line(f, "add += w;");
	cu_close(f, 2);
	cu_line(f, "sum[0][h] += add;");
	cu_line(f, "}");
}

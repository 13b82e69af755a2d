/*
 * Rows that attention forward computes once more.  Values of a tile are
 * multiplied with the weights of all rows of a block, and those of keys that a
 * row does not see have weight 0, whose product with NaN or an infinity is NaN.
 * So a row of a block that is no number may come from values of others: of
 * other sequences of a step that serves.  It is computed again here, by a warp,
 * from the keys that it sees alone; a row that sees NaN comes to NaN again.
 */
#include "codegen/cuda/attention/cuda_attention_forward.h"

#define MANY "0x7f800000u"	/* exponent bits of what is no finite number */

/* Declares the pointers of what is read again, and `whose`, the kv head. */
static void
declare_inputs(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	struct attn *t = s->t;

	cu_line(f, "const int whose = %s;", ca_kv_head(f, t, "head"));
	ca_declare_pointer(f, t, &t->in[ATTN_Q], "qs", "head");
	ca_declare_pointer(f, t, &t->in[ATTN_K], "ks", "whose");
	ca_declare_pointer(f, t, &t->in[ATTN_V], "vs", "whose");
	if (t->in[ATTN_K].is_selected) {
		ca_declare_index(f, t, &t->in[ATTN_K], "ks_at");
	}
	if (t->in[ATTN_V].is_selected) {
		ca_declare_index(f, t, &t->in[ATTN_V], "vs_at");
	}
}

/* Declares most, sum and acc, before the first key. */
static void
begin_row(struct ca_forward *s, int64_t columns)
{
	const struct attn_view *v = &s->t->in[ATTN_SINK];
	struct cu_func *f = &s->f;

	cu_line(f, "f32 acc[%lld], sum = %d;", (long long)columns,
		s->t->values[ATTN_SINK] != 0);
	if (s->t->values[ATTN_SINK]) {
		ca_declare_pointer(f, s->t, v, "sink", "head");
		cu_line(f, "f32 most = (f32)(%s) * %s;",
			cu_widen(f->k->c->a, v->dtype, "sink[0]"),
			ca_f32(f, CA_LOG2E));
		cu_line(f, "most = most > %s ? most : %s;", CA_LEAST, CA_LEAST);
	} else {
		cu_line(f, "f32 most = %s;", CA_LEAST);
	}
	ca_unrolled_for(f, "i", columns);
	cu_line(f, "acc[i] = 0;");
	cu_line(f, "}");
}

/* C text: element `at` of a row, widened. */
static const char *
element(struct ca_forward *s, uint32_t in, const char *from, const char *row,
	const char *at)
{
	struct arena *a = s->f.k->c->a;
	const struct attn_view *v = &s->t->in[in];
	const char *x;

	if (v->is_selected) {
		row = arena_printf(a, "%s_at[(i64)%s * %lld]", from, row,
				   (long long)v->index_pos);
	}
	x = arena_printf(a, "%s[(i64)(%s) * %lld + (%s) * %lld]", from, row,
			 (long long)v->pos, at, (long long)v->col);
	return arena_printf(a, "(f32)(%s)", cu_widen(a, v->dtype, x));
}

/* Declares x, the score of a key in the unit of powers of two. */
static void
score(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	struct attn *t = s->t;

	cu_line(f, "f32 x = 0;");
	cu_line(f, "for (int i = LANE; i < %lld; i += 32) {", (long long)t->d);
	cu_line(f, "x = fma_f32(%s, %s, x);",
		element(s, ATTN_Q, "qs", "query", "i"),
		element(s, ATTN_K, "ks", "key", "i"));
	cu_line(f, "}");
	cu_line(f, "for (int i = 16; i > 0; i /= 2) {");
	cu_line(f, "x += shfl_xor_f32(x, i);");
	cu_line(f, "}");
	if (t->softcap > 0) {
		cu_line(f, "x = %s * f_tanh(x * %s);",
			ca_f32(f, t->softcap * CA_LOG2E),
			ca_f32(f, t->scale / t->softcap));
	} else {
		cu_line(f, "x *= %s;", ca_f32(f, t->scale * CA_LOG2E));
	}
	if (t->alibi > 0) {
		cu_line(f, "x = fma_f32((f32)((int)%s - own), slope, x);",
			ca_position(f, t, ATTN_KEYS, "key"));
	}
}

static void
each_key(struct ca_forward *s, int64_t columns)
{
	struct cu_func *f = &s->f;
	struct arena *a = f->k->c->a;

	if (s->t->alibi > 0) {
		ca_declare_slope(f, s->t, CA_LOG2E);
		ca_declare_own(f, s->t, "query");
	}
	cu_line(f, "const int until = %s;", ca_keys_to(f, s->t, "query"));
	cu_line(f, "for (int key = %s; key < until; key++) {",
		ca_keys_from(f, s->t, "query"));
	score(s);
	cu_line(f, "const f32 top = x > most ? x : most;");
	cu_line(f, "const f32 fade = f_exp2(most - top), w = f_exp2(x - top);");
	cu_line(f, "most = top;");
	cu_line(f, "sum = fma_f32(sum, fade, w);");
	ca_unrolled_for(f, "i", columns);
	cu_line(f, "const int col = i * 32 + LANE;");
	cu_line(f, "if (col < %lld && out0 + col < %lld) {",
		(long long)s->form.out, (long long)s->t->dv);
	cu_line(f, "acc[i] = fma_f32(w, %s, acc[i] * fade);",
		element(s, ATTN_V, "vs", "key",
			arena_printf(a, "out0 + col")));
	cu_close(f, 3);
}

void
ca_forward_again(struct ca_forward *s, const struct ca_put *out)
{
	int64_t columns = ca_ceil_div(s->form.out, 32);
	struct cu_func *f = &s->f;

	if (!attn_is_between(s->t)) {
		return;
	}
	cu_comment(f, "rows that are no numbers, of their own keys alone");
	/* from lane 0, so that the assembler sees that a warp does not
	 * diverge: otherwise each shuffle has another path, with a call */
	cu_line(f, "for (int r = (int)shfl_u32((u32)(%s / 32), 0); "
		"r < %lld && r < %s; r += %lld) {", s->thread,
		(long long)out->rows, out->live,
		(long long)(s->threads / 32));
	cu_line(f, "f32 *to = (f32 *)(SMEM + %lld%s%s) + r * %lld;",
		(long long)out->at, out->more ? " + " : "",
		out->more ? out->more : "", (long long)out->pitch);
	cu_line(f, "int bad = 0;");
	cu_line(f, "for (int i = LANE; i < %lld; i += 32) {",
		(long long)s->form.out);
	cu_line(f, "bad |= (f32_bits(to[i]) & " MANY ") == " MANY ";");
	cu_line(f, "}");
	cu_line(f, "if (warp_any(bad)) {");
	cu_line(f, "const int query = %s + r;", out->row);
	declare_inputs(s);
	begin_row(s, columns);
	each_key(s, columns);
	cu_line(f, "const f32 per = sum > 0 ? f_div(1.0f, sum) : 0.0f;");
	ca_unrolled_for(f, "i", columns);
	cu_line(f, "if (i * 32 + LANE < %lld) {", (long long)s->form.out);
	cu_line(f, "to[i * 32 + LANE] = acc[i] * per;");
	cu_close(f, 4);
	cu_line(f, "%s", s->meet);
}

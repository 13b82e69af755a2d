/*
 * Keys of a query in parts, where an index selects keys and values say which of
 * them a query sees, as in a step that serves.  A part has a largest score,
 * sums and weights of its own, which begin with nothing; sums of parts are
 * joined in the order of their keys.  Where parts begin depends on the query's
 * range alone.  So several blocks may compute the parts of one query, and its
 * bits depend neither on which block has which part nor on what else is in the
 * step.
 *
 * A sink is joined last, to the sums of all parts.
 */
#include "codegen/cuda/attention/cuda_attention_forward.h"

bool
ca_has_parts(const struct attn *t)
{
	return t->made[ATTN_OUT].value && attn_is_between(t) && !t->axes &&
	       t->heads_together && t->batches == 1 &&
	       t->spread[ATTN_KEYS] == UINT32_MAX &&
	       t->in[ATTN_K].is_selected && t->in[ATTN_V].is_selected &&
	       t->keys > COST_PART;
}

/* ---- sums of all parts: each thread's own, in shared memory or registers */

static int64_t
sums_at(const struct ca_forward *s)
{
	return 2 * s->form.mt;
}

static int64_t
results_at(const struct ca_forward *s)
{
	return 4 * s->form.mt;
}

void
ca_parts_place(struct ca_forward *s)
{
	int64_t each = results_at(s) + s->form.mt * s->form.out / 2;

	if (s->kept) {
		return;
	}
	s->all = attn_round_up(s->smem, 16);
	s->smem = s->all + 4 * s->threads * each;
}

/* C text: of row i, h the largest score of all parts, and the sum of weights;
 * and number j, e of its results. */
static const char *
most_of(const struct ca_forward *s)
{
	return s->kept ? "all_most[i][h]"
		: arena_printf(s->f.k->c->a, "all[(i * 2 + h) * %lld]",
			       (long long)s->threads);
}

static const char *
sum_of(const struct ca_forward *s)
{
	return s->kept ? "all_sum[i][h]"
		: arena_printf(s->f.k->c->a, "all[(%lld + i * 2 + h) * %lld]",
			       (long long)sums_at(s), (long long)s->threads);
}

static const char *
result_of(const struct ca_forward *s)
{
	return s->kept ? "all_o[i][j][2 * h + e]"
		: arena_printf(s->f.k->c->a, "all[(%lld + (i * %lld + j) * 4 + "
			       "2 * h + e) * %lld]", (long long)results_at(s),
			       (long long)(s->form.out / 8),
			       (long long)s->threads);
}

void
ca_parts_declare(struct ca_forward *s)
{
	long long mt = (long long)s->form.mt;

	cu_comment(&s->f, "this thread's numbers of the parts so far");
	if (s->kept) {
		cu_line(&s->f, "f32 all_most[%lld][2], all_sum[%lld][2];", mt,
			mt);
		cu_line(&s->f, "f32 all_o[%lld][%lld][4];", mt,
			(long long)(s->form.out / 8));
		return;
	}
	cu_line(&s->f, "f32 *all = (f32 *)(SMEM + %lld) + TID;",
		(long long)s->all);
}

/* Sets a thread's numbers: of its rows the largest scores and the sums of
 * weights, and the results. */
static void
set_numbers(struct ca_forward *s, const char *const to[3],
	    const char *const from[3])
{
	struct cu_func *f = &s->f;

	ca_unrolled_for(f, "i", s->form.mt);
	ca_unrolled_for(f, "h", 2);
	cu_line(f, "%s = %s;", to[0], from[0]);
	cu_line(f, "%s = %s;", to[1], from[1]);
	ca_unrolled_for(f, "j", s->form.out / 8);
	ca_unrolled_for(f, "e", 2);
	cu_line(f, "%s = %s;", to[2], from[2]);
	cu_close(f, 4);
}

/* Numbers in shared memory are apart by the threads.  Loops over one number
 * after another are not unrolled: with as many stores as numbers the loop over
 * keys had 29 of 1,665 issue slots and 25 registers more. */
static void
begin_shared(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	long long apart = (long long)s->threads;

	cu_line(f, "for (int i = 0; i < %lld; i++) {", (long long)sums_at(s));
	cu_line(f, "all[i * %lld] = %s;", apart, CA_LEAST);
	cu_line(f, "}");
	cu_line(f, "for (int i = %lld; i < %lld; i++) {",
		(long long)sums_at(s),
		(long long)(results_at(s) + s->form.mt * s->form.out / 2));
	cu_line(f, "all[i * %lld] = 0;", apart);
	cu_line(f, "}");
}

void
ca_parts_begin(struct ca_forward *s)
{
	const char *const all[] = { most_of(s), sum_of(s), result_of(s) };

	if (!s->kept) {
		begin_shared(s);
		return;
	}
	set_numbers(s, all, (const char *const[]){ CA_LEAST, "0", "0" });
}

void
ca_parts_join(struct cu_func *f, const struct attn *t, const char *by)
{
	cu_line(f, "const f32 top = f_max(had, more);");
	cu_line(f, "const f32 old_by = %s((had - top) * %s);", ca_exp2(t), by);
	cu_line(f, "const f32 by = %s((more - top) * %s);", ca_exp2(t), by);
}

/* Adds what row i, h has of a part, whose sum of weights is x, to all before
 * it. */
static void
join_row(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	const char *most = most_of(s), *sum = sum_of(s), *at = result_of(s);

	cu_line(f, "const f32 had = %s, more = most[i][h];", most);
	ca_parts_join(f, s->t, ca_f32(f, ca_forward_by(s)));
	cu_line(f, "%s = top;", most);
	cu_line(f, "%s = fma_f32(x, by, %s * old_by);", sum, sum);
	ca_unrolled_for(f, "j", s->form.out / 8);
	ca_unrolled_for(f, "e", 2);
	cu_line(f, "%s = fma_f32(o[i][j][2 * h + e], by, %s * old_by);", at,
		at);
	cu_line(f, "o[i][j][2 * h + e] = 0;");
	cu_close(f, 2);
	cu_line(f, "most[i][h] = %s;", CA_LEAST);
	cu_line(f, "sum[i][h] = 0;");
}

/* Opens loops over a thread's rows, with x, the sum of a row's weights. */
static void
open_rows(struct ca_forward *s)
{
	struct cu_func *f = &s->f;

	ca_unrolled_for(f, "i", s->form.mt);
	ca_unrolled_for(f, "h", 2);
	cu_line(f, "f32 x = sum[i][h];");
	cu_line(f, "x += shfl_xor_f32(x, 1);");
	cu_line(f, "x += shfl_xor_f32(x, 2);");
}

void
ca_parts_next(struct ca_forward *s)
{
	open_rows(s);
	join_row(s);
	cu_close(&s->f, 2);
}

void
ca_parts_take(struct ca_forward *s)
{
	static const char *const own[] = { "most[i][h]", "sum[i][h]",
					   "o[i][j][2 * h + e]" };
	const char *const all[] = { most_of(s), sum_of(s), result_of(s) };

	set_numbers(s, own, all);
}

/* ---- a block of queries ---- */

void
ca_parts_of_block(struct ca_forward *s)
{
	struct cu_func *f = &s->f;

	cu_comment(f, "no query's second part begins before");
	cu_line(f, "const int second = begin / %d * %d + %d;", CA_PART_UNIT,
		CA_PART_UNIT, COST_PART);
	ca_parts_declare(s);
	cu_line(f, "if (second < end) {");
	ca_parts_begin(s);
	cu_line(f, "}");
}

void
ca_parts_of_rows(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	struct attn *t = s->t;

	cu_line(f, "if (key0 >= second && key0 %% %d == 0) {", CA_PART_UNIT);
	open_rows(s);
	cu_line(f, "const int query = ca_min(row0 + wrow + i * 16 + h * 8 + g, "
		"%lld);", (long long)(t->queries - 1));
	cu_line(f, "const int past = key0 - %s / %d * %d;",
		ca_keys_from(f, t, "query"), CA_PART_UNIT, CA_PART_UNIT);
	cu_line(f, "const int rest = %s - key0;", ca_keys_to(f, t, "query"));
	cu_line(f, "if (past > 0 && rest > 0 && "
		"past %% ca_part_keys(past + rest) == 0) {");
	join_row(s);
	cu_close(f, 4);
}

void
ca_parts_end(struct ca_forward *s)
{
	struct cu_func *f = &s->f;

	cu_line(f, "if (second < end) {");
	ca_parts_next(s);
	ca_parts_take(s);
	cu_line(f, "} else {");
	open_rows(s);
	cu_line(f, "sum[i][h] = x;");
	cu_close(f, 3);
}

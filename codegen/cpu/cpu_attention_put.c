/*
 * Where results go: to memory as they are, to shared scratch for a later step,
 * and through the nodes that follow, block by block; such a later step; and
 * copies from one view to another.
 */
#include "codegen/cpu/cpu_attention.h"

static struct att_rows
rows_of(struct attn *t, const struct attn_view *v, enum attn_result r,
	const struct att_index *i, struct ll_value *live)
{
	return att_rows_at(t, v, i, live, attn_cols(t, r));
}

/* From an index to places by the dims of a result. */
static void
index_of(const struct attn *t, const struct attn_made *made,
	 const struct att_index *i, struct ll_value *from[IR_MAX_DIMS])
{
	uint32_t k;

	for (k = 0; k < t->nbatch; k++) {
		from[made->batch_at[k]] = i->batch[k];
	}
	from[made->pos_at] = i->pos;
	from[made->head_at] = i->head;
}

static bool
put_box(struct attn *t, const struct attn_made *made, const struct att_index *i,
	struct ll_value *rows, int64_t stride, int64_t count,
	struct ll_value *live)
{
	struct cg_leaf leaf = { .value = made->value, .at = rows };
	struct attn_group *g = t->g;
	struct cg_nest n;
	uint32_t k;

	att_make_nest(t, &made->box, &n);
	index_of(t, made, i, leaf.from);
	leaf.stride[made->pos_at] = stride;
	if (made->col_at < made->type.ndims) {
		leaf.stride[made->col_at] = 1;
	}
	index_of(t, made, i, n.from);
	for (k = 0; k < made->type.ndims; k++) {
		n.count[k] = k == made->col_at ? 0 : 1;
	}
	n.count[made->pos_at] = count;
	n.live[made->pos_at] = live;
	VEC_PUSH(g->a, &n.leaves, leaf);
	return cg_nest_box(g->cpu, g->out, t->step, &n, &g->why);
}

bool
att_store_result(struct attn *t, enum attn_result r, const struct att_index *i,
	struct ll_value *rows, int64_t stride, int64_t count,
	struct ll_value *live)
{
	const struct attn_made *made = &t->made[r];
	struct att_rows to;

	if (made->memory.place != ATTN_NONE && !made->partial) {
		to = rows_of(t, &made->memory, r, i, live);
		att_write_rows(t->l, &to, rows, stride);
	}
	if (made->scratch.place != ATTN_NONE) {
		to = rows_of(t, &made->scratch, r, i, live);
		att_write_rows(t->l, &to, rows, stride);
	}
	return !made->has_box ||
	       put_box(t, made, i, rows, stride, count, live);
}

/* ---- a step after results ---- */

#define BOX_ROWS 32

/* The block of an item: some rows of one head. */
static void
open_block(struct attn *t, const struct attn_made *made,
	   struct ll_value *item, struct cg_nest *n)
{
	int64_t count = attn_local_size(t->g, &made->type, made->pos_at);
	int64_t heads = attn_local_size(t->g, &made->type, made->head_at);
	struct ll *l = t->l;
	struct ll_value *size;
	struct att_index i;
	uint32_t k;

	size = ll_i64(l, attn_divisor((count + BOX_ROWS - 1) / BOX_ROWS));
	i.pos = ll_mul_n(l, ll_bin(l, LL_REM, item, size), BOX_ROWS);
	item = ll_bin(l, LL_DIV, item, size);
	size = ll_i64(l, attn_divisor(heads));
	i.head = ll_bin(l, LL_REM, item, size);
	att_batch(t, ll_bin(l, LL_DIV, item, size), &i);
	index_of(t, made, &i, n->from);
	for (k = 0; k < made->type.ndims; k++) {
		n->count[k] = k == made->col_at ? 0 : 1;
	}
	n->count[made->pos_at] = BOX_ROWS;
	n->live[made->pos_at] = ll_min(l, ll_i64(l, BOX_ROWS),
		ll_bin(l, LL_SUB, ll_i64(l, count), i.pos));
}

bool
att_follow(struct attn *t, const struct attn_made *made,
	   const struct attn_nest *from)
{
	struct attn_group *g = t->g;
	int64_t count = attn_local_size(g, &made->type, made->pos_at);
	int64_t heads = attn_local_size(g, &made->type, made->head_at);
	struct ll_loop item;
	struct cg_nest n;
	bool ok;

	count = (count + BOX_ROWS - 1) / BOX_ROWS;
	att_step(t, "attention_after", t->batches * heads * count);
	att_make_nest(t, from, &n);
	att_items(t, &item);
	open_block(t, made, item.i, &n);
	ok = cg_nest_box(g->cpu, g->out, t->step, &n, &g->why);
	ll_loop_end(t->l, &item, NULL);
	att_step_end(t);
	return ok;
}

/* ---- copies ---- */

#define COPY_ROWS 64

void
att_copy_rows(struct attn *t, const struct attn_view *from,
	 const struct attn_view *to, int64_t heads, int64_t count,
	 int64_t cols)
{
	struct ll *l = t->l;
	int64_t wide = attn_round_up(cols, t->lanes), rows;
	struct ll_loop item, row;
	struct attn_view there;
	struct ll_value *live;
	struct att_rows a, b;
	struct att_index i;

	att_step(t, "attention_keys", t->batches * heads);
	there = *to;
	if (!there.at) {
		there.at = att_view_at(t, to);
	}
	rows = att_own_alloc(t, COPY_ROWS * wide);
	att_items(t, &item);
	i.head = ll_bin(l, LL_REM, item.i, ll_i64(l, attn_divisor(heads)));
	att_batch(t, ll_bin(l, LL_DIV, item.i,
			    ll_i64(l, attn_divisor(heads))), &i);
	ll_loop(l, &row, ll_i64(l, 0), ll_i64(l, count), COPY_ROWS, NULL, 0);
	i.pos = row.i;
	live = ll_min(l, ll_i64(l, COPY_ROWS),
		       ll_bin(l, LL_SUB, ll_i64(l, count), row.i));
	a = att_rows_at(t, from, &i, live, cols);
	b = att_rows_at(t, &there, &i, live, cols);
	att_read_rows(l, &a, att_own_at(t, rows), wide, COPY_ROWS, NULL);
	att_write_rows(l, &b, att_own_at(t, rows), wide);
	ll_loop_end(l, &row, NULL);
	ll_loop_end(l, &item, NULL);
	att_step_end(t);
}

/*
 * Where results go: to memory as they are, to shared room for a later step,
 * and through the nodes that follow, block by block.
 */
#include "codegen/cpu/attention.h"

static struct att_rows
rows_of(struct att *t, const struct att_view *v, enum att_result r,
	const struct att_index *i, struct ll_value *live)
{
	int64_t cols = r == ATT_LSE ? 1
		: r == ATT_OUT || r == ATT_DV ? t->dv : t->d;

	return att_rows_at(t, v, i, live, cols);
}

void
att_index_of(const struct att *t, const struct att_made *made,
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
put_box(struct att *t, const struct att_made *made, const struct att_index *i,
	struct ll_value *rows, int64_t stride, int64_t count,
	struct ll_value *live)
{
	struct cg_nest n = made->box;
	struct cg_leaf leaf = { .value = made->value, .at = rows };
	uint32_t k;

	att_index_of(t, made, i, leaf.from);
	leaf.stride[made->pos_at] = stride;
	if (made->col_at < made->type.ndims) {
		leaf.stride[made->col_at] = 1;
	}
	n.space = made->type;
	att_index_of(t, made, i, n.from);
	for (k = 0; k < made->type.ndims; k++) {
		n.count[k] = k == made->col_at ? 0 : 1;
	}
	n.count[made->pos_at] = count;
	n.live[made->pos_at] = live;
	VEC_PUSH(t->c->a, &n.leaves, leaf);
	return cg_nest_box(t->c, t->out, t->step, &n, t->why);
}

bool
att_put(struct att *t, enum att_result r, const struct att_index *i,
	struct ll_value *rows, int64_t stride, int64_t count,
	struct ll_value *live)
{
	const struct att_made *made = &t->made[r];
	struct att_rows to;

	if (made->memory.place != ATT_NONE && !made->apart) {
		to = rows_of(t, &made->memory, r, i, live);
		att_write(t->l, &to, rows, stride);
	}
	if (made->room.place != ATT_NONE) {
		to = rows_of(t, &made->room, r, i, live);
		att_write(t->l, &to, rows, stride);
	}
	return !made->has_box ||
	       put_box(t, made, i, rows, stride, count, live);
}

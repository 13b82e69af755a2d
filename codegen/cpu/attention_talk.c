/*
 * Attention whose keys lie on several ranks: keys and values of all of them
 * come together in shared room, in the order of their positions, and what
 * flows back to them is summed up by the rank that has them.
 */
#include "codegen/cpu/attention_group.h"

static void
talk(struct att_group *g, const struct att *t, const struct ir_type *type,
     enum rt_talk_op op, int64_t in, int64_t out)
{
	struct cg_step s = { .op = op, .axes = t->axes, .in = in, .out = out,
			     .ndims = type->ndims };
	struct cg_spread *pieces = op == RT_TALK_SUM ? s.to : s.from;
	struct cg_spread *whole = op == RT_TALK_SUM ? s.from : s.to;
	uint32_t i;

	s.elems = att_elems(g, type, op == RT_TALK_SUM ? t->dim[ATT_KEYS]
						       : 0);
	for (i = 0; i < type->ndims; i++) {
		pieces[i].size = ir_dim_size(g->c->m, type->dims[i]);
		pieces[i].cut = type->cut[i];
		whole[i] = pieces[i];
		if (type->dims[i] == t->dim[ATT_KEYS]) {
			whole[i].cut = 0;
		}
	}
	VEC_PUSH(g->c->a, &g->out->steps, s);
}

#define COPY_ROWS 64

/* Rows of each sequence and head, from one view to another. */
static void
copy_rows(struct att *t, const struct att_view *from,
	  const struct att_view *to, int64_t heads, int64_t count,
	  int64_t cols)
{
	struct ll *l = t->l;
	int64_t wide = att_whole(cols, t->lanes), room;
	struct ll_loop item, row;
	struct ll_value *live;
	struct att_rows a, b;
	struct att_index i;

	room = att_own(t, COPY_ROWS * wide);
	att_items(t, &item);
	i.head = ll_bin(l, LL_REM, item.i, ll_i64(l, att_some(heads)));
	att_batch(t, ll_bin(l, LL_DIV, item.i,
			    ll_i64(l, att_some(heads))), &i);
	ll_loop(l, &row, ll_i64(l, 0), ll_i64(l, count), COPY_ROWS, NULL, 0);
	i.pos = row.i;
	live = att_min(l, ll_i64(l, COPY_ROWS),
		       ll_bin(l, LL_SUB, ll_i64(l, count), row.i));
	a = att_rows_at(t, from, &i, live, cols);
	b = att_rows_at(t, to, &i, live, cols);
	att_read(l, &a, att_own_at(t, room), wide, COPY_ROWS, NULL);
	att_write(l, &b, att_own_at(t, room), wide);
	ll_loop_end(l, &row, NULL);
	ll_loop_end(l, &item, NULL);
	att_step_end(t);
}

void
att_gather(struct att_group *g, struct att *t, uint32_t input)
{
	const struct ir_type *type = ir_type(g->c->m, t->values[input]);
	struct att_brought *had = att_find_brought(g, t->values[input], true);
	struct att_brought made = { t->values[input], true, 0 };
	struct att_view from, to;
	dim_id keys = t->dim[ATT_KEYS];
	int64_t here, cols = input == ATT_K ? t->d : t->dv;

	if (!had) {
		here = att_shared(g, 4 * att_elems(g, type, 0));
		made.at = att_shared(g, 4 * att_elems(g, type, keys));
		att_view_shared(g, t, type, 0, true, here, &to);
		att_step(t, "attention_keys", t->batches * t->kv);
		from = t->in[input];
		to.at = ll_plus_n(t->l, cg_cpu_shared(t->c, t->step), here);
		copy_rows(t, &from, &to, t->kv,
			  att_local(g, type, t->nbatch), cols);
		talk(g, t, type, RT_TALK_COPY, here, made.at);
		VEC_PUSH(g->c->a, &g->brought, made);
		had = &made;
	}
	att_view_shared(g, t, type, keys, true, had->at, &t->in[input]);
}

void
att_bring_home(struct att_group *g, struct att *t, enum att_result r)
{
	struct att_made *made = &t->made[r];
	int64_t home = att_shared(g, 4 * att_elems(g, &made->type, 0));
	struct att_view to;

	talk(g, t, &made->type, RT_TALK_SUM, made->room.shared, home);
	att_view_shared(g, t, &made->type, 0, true, home, &made->room);
	if (!att_is_output(g, made->value) ||
	    made->memory.place == ATT_NONE) {
		return;
	}
	att_step(t, "attention_keys", t->batches * t->kv);
	to = made->memory;
	copy_rows(t, &made->room, &to, t->kv,
		  att_local(g, &made->type, made->pos_at),
		  r == ATT_DK ? t->d : t->dv);
}

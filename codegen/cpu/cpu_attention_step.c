/*
 * A step of attention for a CPU: where its operands lie, the worker's scratch,
 * and the nests of nodes around it.
 */
#include "codegen/cpu/cpu_attention.h"

#include <stddef.h>
#include <string.h>

/* LL_I8: an f8, which is read alone. */
static enum ll_base
elem_of(const struct attn_view *v)
{
	enum ll_base elem = LL_I8;

	if (!cg_cpu_elem(v->dtype, &elem) && ir_dtypes[v->dtype].bits != 8) {
		die("elements that attention has refused");
	}
	return elem;
}

/* Where an operand's view begins, without its constant offset. */
static struct ll_value *
operand_at(struct attn *t, const struct cg_view *v)
{
	int64_t bytes = ir_dtypes[v->dtype].bits / 8;
	struct cg_cpu *c = t->g->cpu;
	struct ll_value *at, *p;
	uint32_t i;

	at = cg_cpu_at(c, t->step, v->operand);
	for (i = 0; i < v->nmoved; i++) {
		p = cg_cpu_pieces(c, t->step, v->moved[i].spread);
		p = ll_plus_n(t->l, p, (int64_t)offsetof(struct rt_pieces,
							 at));
		p = ll_load(t->l, ll_type(LL_I64, 1), p);
		at = ll_plus(t->l, at, ll_mul_n(t->l, p,
						v->moved[i].stride * bytes));
	}
	return at;
}

struct ll_value *
att_view_at(struct attn *t, const struct attn_view *v)
{
	if (v->place == ATTN_SHARED) {
		return ll_plus_n(t->l, cg_cpu_shared(t->g->cpu, t->step),
				 v->shared);
	}
	return operand_at(t, &v->memory);
}

void
att_step(struct attn *t, const char *what, int64_t items)
{
	uint32_t i;

	t->step = cg_cpu_step(t->g->cpu, t->g->out, what, items);
	t->own = 0;
	for (i = 0; i < ATTN_NINPUTS + 2 * ATTN_NRESULTS; i++) {
		struct attn_view *v = i < ATTN_NINPUTS ? &t->in[i]
			: i < ATTN_NINPUTS + ATTN_NRESULTS
			? &t->made[i - ATTN_NINPUTS].memory
			: &t->made[i - ATTN_NINPUTS - ATTN_NRESULTS].scratch;

		if (v->place != ATTN_NONE) {
			v->at = att_view_at(t, v);
		}
		if (v->is_selected) {
			v->index_at = operand_at(t, &v->index);
		}
	}
	for (i = 0; i < 4; i++) {
		t->pieces[i] = t->spread[i] == UINT32_MAX ? NULL
			: cg_cpu_pieces(t->g->cpu, t->step, t->spread[i]);
	}
}

void
att_step_end(struct attn *t)
{
	ll_return(t->l, NULL);
	if (t->own > t->g->out->own_bytes) {
		t->g->out->own_bytes = t->own;
	}
}

void
att_items(struct attn *t, struct ll_loop *item)
{
	ll_loop(t->l, item, ll_param(t->l, t->step, 2),
		ll_param(t->l, t->step, 3), 1, NULL, 0);
}

int64_t
att_own_alloc(struct attn *t, int64_t floats)
{
	int64_t at = t->own;

	t->own += attn_round_up(4 * floats, 64);
	return at;
}

struct ll_value *
att_own_at(struct attn *t, int64_t at)
{
	return ll_plus_n(t->l, ll_param(t->l, t->step, 1), at);
}

void
att_batch(struct attn *t, struct ll_value *b, struct att_index *i)
{
	struct ll_value *size;
	uint32_t k;

	for (k = t->nbatch; k-- > 0; ) {
		size = ll_i64(t->l, attn_divisor(t->batch_size[k]));
		i->batch[k] = ll_bin(t->l, LL_REM, b, size);
		b = ll_bin(t->l, LL_DIV, b, size);
	}
}

struct ll_value *
att_ptr(struct attn *t, const struct attn_view *v, const struct att_index *i)
{
	struct ll *l = t->l;
	int64_t bytes = ir_dtypes[v->dtype].bits / 8;
	struct ll_value *at = ll_i64(l, v->memory.offset);
	uint32_t k;

	for (k = 0; k < t->nbatch; k++) {
		at = ll_add(l, at, ll_mul_n(l, i->batch[k], v->batch[k]));
	}
	at = ll_add(l, at, ll_mul_n(l, i->head, v->head));
	at = ll_add(l, at, ll_mul_n(l, i->pos, v->pos));
	return att_elem_at(l, v->at, at, bytes);
}

/* The address of the index's number for a key. */
static struct ll_value *
index_ptr(struct attn *t, const struct attn_view *v, const struct att_index *i)
{
	struct ll_value *at = ll_i64(t->l, v->index.offset);
	uint32_t k;

	for (k = 0; k < t->nbatch; k++) {
		at = ll_add(t->l, at, ll_mul_n(t->l, i->batch[k],
					       v->index_batch[k]));
	}
	at = ll_add(t->l, at, ll_mul_n(t->l, i->pos, v->index_pos));
	return att_elem_at(t->l, v->index_at, at, 4);
}

struct att_rows
att_rows_at(struct attn *t, const struct attn_view *v,
	    const struct att_index *i, struct ll_value *live, int64_t cols)
{
	struct att_rows rows = { .elem = elem_of(v), .dtype = v->dtype,
				 .row = v->pos, .col = v->col, .live = live,
				 .cols = cols };
	struct att_index first = *i;

	if (v->is_selected) {
		rows.index = index_ptr(t, v, i);
		rows.index_step = 4 * v->index_pos;
		first.pos = ll_i64(t->l, 0);
	}
	rows.at = att_ptr(t, v, &first);
	return rows;
}

/* ---- nests ---- */

void
att_make_nest(struct attn *t, const struct attn_nest *from, struct cg_nest *n)
{
	struct attn_group *g = t->g;
	struct ll_value *shared = from->leaves.n
		? cg_cpu_shared(g->cpu, t->step) : NULL;
	uint32_t i;

	*n = (struct cg_nest){ .k = from->x, .space = from->space };
	for (i = 0; i < from->nodes.n; i++) {
		VEC_PUSH(g->a, &n->nodes, from->nodes.at[i]);
	}
	for (i = 0; i < from->leaves.n; i++) {
		const struct attn_leaf *had = &from->leaves.at[i];
		struct cg_leaf leaf = { .value = had->value };

		leaf.at = ll_plus_n(t->l, shared, had->shared);
		memcpy(leaf.stride, had->stride, sizeof leaf.stride);
		VEC_PUSH(g->a, &n->leaves, leaf);
	}
}

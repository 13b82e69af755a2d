/*
 * Where a block's rows go: to outputs, to shared scratch for later steps, and
 * through the nodes that follow; and the step of nodes that follow several
 * results.
 */
#include "codegen/cuda/attention/cuda_attention.h"

/* ---- a block's rows ---- */

void
ca_nest_of(const struct attn_group *g, const struct attn_nest *from,
	   struct cu_nest *n)
{
	uint32_t i;

	*n = (struct cu_nest){ .k = from->x, .space = from->space };
	for (i = 0; i < from->nodes.n; i++) {
		VEC_PUSH(g->a, &n->nodes, from->nodes.at[i]);
	}
	for (i = 0; i < from->leaves.n; i++) {
		const struct attn_leaf *had = &from->leaves.at[i];
		struct cu_leaf leaf = { .value = had->value };

		leaf.at = arena_printf(g->a, "((f32 *)(a.shared + %lld))",
				       (long long)had->shared);
		memcpy(leaf.stride, had->stride, sizeof leaf.stride);
		VEC_PUSH(g->a, &n->leaves, leaf);
	}
}

/* Whether rows can be stored by vectors of 16 bytes. */
static bool
is_wide(const struct attn *t, const struct attn_view *v, int64_t cols,
	int64_t chunk)
{
	int64_t n = 16 / cu_elem_bytes(v->dtype);
	uint32_t i;

	if ((v->dtype != IR_BF16 && v->dtype != IR_F16 &&
	     v->dtype != IR_F32) || v->col != 1 || v->pos % n ||
	    v->head % n || cols % n || chunk % n || v->shared % 16) {
		return false;
	}
	for (i = 0; i < t->nbatch; i++) {
		if (v->batch[i] % n) {
			return false;
		}
	}
	return true;
}

static void
put_wide(struct cu_func *f, enum ir_dtype dtype)
{
	const char *pack = dtype == IR_BF16 ? "pack_bf16" : "pack_f16";

	if (dtype == IR_F32) {
		cu_line(f, "st16(to, lds16(x));");
		return;
	}
	cu_line(f, "u32x4 y;");
	cu_line(f, "y.x = %s(x[0], x[1]);", pack);
	cu_line(f, "y.y = %s(x[2], x[3]);", pack);
	cu_line(f, "y.z = %s(x[4], x[5]);", pack);
	cu_line(f, "y.w = %s(x[6], x[7]);", pack);
	cu_line(f, "st16(to, y);");
}

/* C text: a pointer to what is staged. */
static const char *
staged(struct cu_func *f, const struct ca_put *p)
{
	return arena_printf(f->k->c->a, "((f32 *)(SMEM + %lld%s%s))",
			    (long long)p->at, p->more ? " + " : "",
			    p->more ? p->more : "");
}

static void
put_rows(struct cu_func *f, struct attn *t, const struct ca_put *p,
	 const struct attn_view *v, int64_t cols)
{
	bool wide = is_wide(t, v, cols, p->cols);
	int64_t n = wide ? 16 / cu_elem_bytes(v->dtype) : 1;
	int64_t parts = p->cols / n;

	cu_line(f, "{");
	ca_declare_pointer(f, t, v, "base", p->head);
	cu_line(f, "for (int i = %s; i < %lld; i += %lld) {", p->thread,
		(long long)(p->rows * parts), (long long)p->threads);
	cu_line(f, "int row = i / %lld, col = i %% %lld * %lld;",
		(long long)parts, (long long)parts, (long long)n);
	cu_line(f, "if (row < %s && %s + col < %lld) {", p->live, p->from,
		(long long)cols);
	cu_line(f, "const f32 *x = %s + row * %lld + col;", staged(f, p),
		(long long)p->pitch);
	cu_line(f, "%s *to = base + (i64)(%s + row) * %lld + (%s + col) * "
		"%lld;", cu_elem_type(v->dtype), p->row, (long long)v->pos,
		p->from, (long long)v->col);
	if (wide) {
		put_wide(f, v->dtype);
	} else {
		cu_line(f, "*to = %s;", cu_narrow(f->k->c->a, v->dtype,
						  "*x"));
	}
	cu_close(f, 3);
}

/* The first index of a block, by dim of a result. */
static void
index_of(struct cu_func *f, const struct attn *t, const struct attn_made *made,
	 const char *row, const char *head, const char *from[IR_MAX_DIMS])
{
	int64_t apart = 1;
	uint32_t k;

	for (k = t->nbatch; k-- > 0; ) {
		from[made->batch_at[k]] =
			arena_printf(f->k->c->a, "(bat / %lld %% %lld)",
				     (long long)apart,
				     (long long)attn_divisor(t->batch_size[k]));
		apart *= attn_divisor(t->batch_size[k]);
	}
	from[made->pos_at] = row;
	from[made->head_at] = head;
}

static bool
put_box(struct cu_func *f, struct attn *t, const struct ca_put *p)
{
	const struct attn_made *made = &t->made[p->r];
	struct cu_leaf leaf = { .value = made->value };
	struct cu_nest n;
	uint32_t k;

	ca_nest_of(t->g, &made->box, &n);
	leaf.at = staged(f, p);
	index_of(f, t, made, p->row, p->head, leaf.from);
	leaf.stride[made->pos_at] = p->pitch;
	if (made->col_at < made->type.ndims) {
		leaf.stride[made->col_at] = 1;
	}
	index_of(f, t, made, p->row, p->head, n.from);
	for (k = 0; k < made->type.ndims; k++) {
		n.count[k] = k == made->col_at ? 0 : 1;
	}
	n.count[made->pos_at] = p->rows;
	n.live[made->pos_at] = p->live;
	VEC_PUSH(f->k->c->a, &n.leaves, leaf);
	return cu_nest_box(f, &n, p->threads, p->thread);
}

bool
ca_put_rows(struct cu_func *f, struct attn *t, const struct ca_put *p)
{
	const struct attn_made *made = &t->made[p->r];
	int64_t cols = attn_cols(t, p->r);

	if (made->memory.place != ATTN_NONE && !made->partial) {
		put_rows(f, t, p, &made->memory, cols);
	}
	if (made->scratch.place != ATTN_NONE) {
		put_rows(f, t, p, &made->scratch, cols);
	}
	return !made->has_box || put_box(f, t, p);
}

/* ---- steps after all sets ---- */

#define BOX_ROWS 16
#define THREADS 256

/* The block of a later step: some rows of one head. */
static void
open_block(struct cu_func *f, struct attn *t, const struct attn_made *made,
	   struct cu_nest *n)
{
	int64_t count = attn_local_size(t->g, &made->type, made->pos_at);
	int64_t heads = attn_local_size(t->g, &made->type, made->head_at);
	int64_t blocks = ca_ceil_div(count, BOX_ROWS);
	uint32_t k;

	f->grid->blocks[0] = attn_divisor(t->batches * heads) * blocks;
	f->grid->threads = THREADS;
	cu_line(f, "const int head = BLOCK_X %% %lld;",
		(long long)attn_divisor(heads));
	cu_line(f, "const int row0 = BLOCK_X / %lld %% %lld * %d;",
		(long long)attn_divisor(heads), (long long)blocks, BOX_ROWS);
	cu_line(f, "const int bat = BLOCK_X / %lld;",
		(long long)(attn_divisor(heads) * blocks));
	cu_line(f, "const int live = ca_min(%d, %lld - row0);", BOX_ROWS,
		(long long)count);
	index_of(f, t, made, "row0", "head", n->from);
	for (k = 0; k < made->type.ndims; k++) {
		n->count[k] = k == made->col_at ? 0 : 1;
	}
	n->count[made->pos_at] = BOX_ROWS;
	n->live[made->pos_at] = "live";
}

bool
ca_epilogue_step(struct attn *t, const struct attn_made *made,
		 const struct attn_nest *from)
{
	struct cu_nest n;
	struct cu_func f;

	cu_func_begin(t->k, "attention_after", &f);
	ca_nest_of(t->g, from, &n);
	open_block(&f, t, made, &n);
	if (t->batches * attn_local_size(t->g, &made->type, made->head_at) ==
	    0) {
		cu_line(&f, "return;");
	}
	if (!cu_nest_box(&f, &n, THREADS, "TID")) {
		return false;
	}
	cu_func_end(&f);
	return true;
}

/*
 * Where results go.  Nodes behind one result run on each of its blocks as it
 * is made; nodes behind several, behind sums over ranks, or behind blocks
 * that do not have all columns, in a step of their own, from shared room.
 */
#include "codegen/cuda/attention.h"

/* Nodes behind some results, with what else these nodes need. */
static void
nodes_behind(struct ca_group *g, ca_bits from, struct cu_nest *n)
{
	bool *in = arena_alloc(g->k->c->a, g->x->nodes.n + 1);
	uint32_t i, k;

	for (i = 0; i < g->x->nodes.n; i++) {
		const struct ir_node *node = ir_node(g->k->c->m,
						     g->x->nodes.at[i]);

		if (!(g->from[i] & from)) {
			continue;
		}
		in[i] = true;
		for (k = 0; k < node->nargs; k++) {
			ca_closure(g, ir_args(g->k->c->m, node)[k], in);
		}
	}
	ca_take(g, in, n);
}

/* Whether ranks have parts of it, to be summed up. */
static bool
is_apart(const struct ca *t, uint32_t r)
{
	return t->axes && ca_is_keys(r);
}

/* What follows the result, or NULL. */
static struct ca_after *
after_of(struct ca_group *g, ca_bits bit)
{
	uint32_t i;

	for (i = 0; i < g->after.n; i++) {
		if (g->after.at[i].from & bit) {
			return &g->after.at[i];
		}
	}
	return NULL;
}

static bool
is_read(const struct ca_group *g, value_id v)
{
	uint32_t i, k;

	for (i = 0; i < g->nsets; i++) {
		for (k = 0; k < CA_NINPUTS; k++) {
			if (g->sets[i].values[k] == v) {
				return true;
			}
		}
	}
	return false;
}

static bool
place_result(struct ca *t, uint32_t set, uint32_t r, bool whole)
{
	struct ca_group *g = t->g;
	struct ca_made *made = &t->made[r];
	ca_bits bit = ca_bit(set, r);
	struct ca_after *after = after_of(g, bit);
	dim_id keys = is_apart(t, r) ? t->dim[CA_KEYS] : 0;

	made->apart = is_apart(t, r);
	if (after) {
		after->later |= is_apart(t, r) || !whole ||
				(after->from & ~bit) != 0;
		made->has_box = !after->later;
	}
	if (made->has_box) {
		nodes_behind(g, bit, &made->box);
	}
	if (is_apart(t, r) || is_read(g, made->value) ||
	    (after && after->later)) {
		int64_t n = ca_elems(g, &made->type, keys);

		ca_view_shared(g, t, &made->type, keys, ca_is_keys(r),
			       ca_shared(g, 4 * n), IR_F32, &made->room);
	}
	return !ca_is_output(g, made->value) ||
	       ca_view_memory(g, t, made->value, ca_is_keys(r), true,
			      &made->memory);
}

bool
ca_place_results(struct ca *t, uint32_t set, bool whole)
{
	uint32_t r;

	for (r = 0; r < CA_NRESULTS; r++) {
		if (t->made[r].value && !place_result(t, set, r, whole)) {
			return false;
		}
	}
	return true;
}

/* ---- a block's rows ---- */

/* Whether rows can be written 16 bytes at once. */
static bool
is_wide(const struct ca *t, const struct ca_view *v, int64_t cols,
	int64_t chunk)
{
	int64_t n = 16 / cu_bytes(v->dtype);
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

static void
put_rows(struct cu_func *f, struct ca *t, const struct ca_put *p,
	 const struct ca_view *v, int64_t cols)
{
	bool wide = is_wide(t, v, cols, p->cols);
	int64_t n = wide ? 16 / cu_bytes(v->dtype) : 1;
	int64_t parts = p->cols / n;

	cu_line(f, "{");
	ca_pointer(f, t, v, "base", p->head);
	cu_line(f, "for (int i = TID; i < %lld; i += %lld) {",
		(long long)(p->rows * parts), (long long)p->threads);
	cu_line(f, "int row = i / %lld, col = i %% %lld * %lld;",
		(long long)parts, (long long)parts, (long long)n);
	cu_line(f, "if (row < %s && %s + col < %lld) {", p->live, p->from,
		(long long)cols);
	cu_line(f, "const f32 *x = (const f32 *)(SMEM + %lld) + row * %lld "
		"+ col;", (long long)p->at, (long long)p->pitch);
	cu_line(f, "%s *to = base + (i64)(%s + row) * %lld + (%s + col) * "
		"%lld;", cu_type(v->dtype), p->row, (long long)v->pos,
		p->from, (long long)v->col);
	if (wide) {
		put_wide(f, v->dtype);
	} else {
		cu_line(f, "*to = %s;", cu_narrow(f->k->c->a, v->dtype,
						  "*x"));
	}
	cu_line(f, "}");
	cu_line(f, "}");
	cu_line(f, "}");
}

/* The index of a block's first element by the dims of a result. */
static void
index_of(struct cu_func *f, const struct ca *t, const struct ca_made *made,
	 const char *row, const char *head, const char *from[IR_MAX_DIMS])
{
	int64_t apart = 1;
	uint32_t k;

	for (k = t->nbatch; k-- > 0; ) {
		from[made->batch_at[k]] =
			arena_printf(f->k->c->a, "(bat / %lld %% %lld)",
				     (long long)apart,
				     (long long)ca_some(t->batch_size[k]));
		apart *= ca_some(t->batch_size[k]);
	}
	from[made->pos_at] = row;
	from[made->head_at] = head;
}

static bool
put_box(struct cu_func *f, struct ca *t, const struct ca_put *p)
{
	const struct ca_made *made = &t->made[p->r];
	struct cu_nest n = made->box;
	struct cu_leaf leaf = { .value = made->value };
	uint32_t k;

	leaf.at = arena_printf(f->k->c->a, "((f32 *)(SMEM + %lld))",
			       (long long)p->at);
	index_of(f, t, made, p->row, p->head, leaf.from);
	leaf.stride[made->pos_at] = p->pitch;
	if (made->col_at < made->type.ndims) {
		leaf.stride[made->col_at] = 1;
	}
	n.space = made->type;
	index_of(f, t, made, p->row, p->head, n.from);
	for (k = 0; k < made->type.ndims; k++) {
		n.count[k] = k == made->col_at ? 0 : 1;
	}
	n.count[made->pos_at] = p->rows;
	n.live[made->pos_at] = p->live;
	VEC_PUSH(f->k->c->a, &n.leaves, leaf);
	return cu_nest_box(f, &n, p->threads, "TID");
}

bool
ca_put(struct cu_func *f, struct ca *t, const struct ca_put *p)
{
	const struct ca_made *made = &t->made[p->r];
	int64_t cols = p->r == CA_LSE ? 1
		: p->r == CA_OUT || p->r == CA_DV ? t->dv : t->d;

	if (made->memory.place != CA_NONE && !made->apart) {
		put_rows(f, t, p, &made->memory, cols);
	}
	if (made->room.place != CA_NONE) {
		put_rows(f, t, p, &made->room, cols);
	}
	return !made->has_box || put_box(f, t, p);
}

/* ---- steps behind all others ---- */

#define BOX_ROWS 16
#define THREADS 256

/* The results that the nodes follow, as they lie in shared room. */
static void
add_leaves(struct ca_group *g, const struct ca_after *after,
	   struct cu_nest *n)
{
	uint32_t i, r, k;

	for (i = 0; i < g->nsets; i++) {
		struct ca *t = &g->sets[i];

		for (r = 0; r < CA_NRESULTS; r++) {
			struct ca_made *made = &t->made[r];
			struct cu_leaf leaf = { .value = made->value };

			if (!(after->from & ca_bit(i, r))) {
				continue;
			}
			leaf.at = arena_printf(g->k->c->a,
				"((f32 *)(a.shared + %lld))",
				(long long)made->room.shared);
			for (k = 0; k < t->nbatch; k++) {
				leaf.stride[made->batch_at[k]] =
					made->room.batch[k];
			}
			leaf.stride[made->pos_at] = made->room.pos;
			leaf.stride[made->head_at] = made->room.head;
			if (made->col_at < made->type.ndims) {
				leaf.stride[made->col_at] = made->room.col;
			}
			VEC_PUSH(g->k->c->a, &n->leaves, leaf);
		}
	}
}

/* The first of the results: its dims are what the step runs over. */
static void
first_of(struct ca_group *g, const struct ca_after *after, struct ca **set,
	 struct ca_made **made)
{
	uint32_t i, r;

	for (i = 0; i < g->nsets; i++) {
		for (r = 0; r < CA_NRESULTS; r++) {
			if (after->from & ca_bit(i, r)) {
				*set = &g->sets[i];
				*made = &g->sets[i].made[r];
				return;
			}
		}
	}
	die("a step behind nothing");
}

/* The block of a box: some rows of one head. */
static void
open_block(struct cu_func *f, struct ca *t, const struct ca_made *made,
	   struct cu_nest *n)
{
	int64_t count = ca_local(t->g, &made->type, made->pos_at);
	int64_t heads = ca_local(t->g, &made->type, made->head_at);
	int64_t blocks = ca_parts(count, BOX_ROWS);
	uint32_t k;

	f->grid->blocks[0] = ca_some(t->batches * heads) * blocks;
	f->grid->threads = THREADS;
	cu_line(f, "const int head = BLOCK_X %% %lld;",
		(long long)ca_some(heads));
	cu_line(f, "const int row0 = BLOCK_X / %lld %% %lld * %d;",
		(long long)ca_some(heads), (long long)blocks, BOX_ROWS);
	cu_line(f, "const int bat = BLOCK_X / %lld;",
		(long long)(ca_some(heads) * blocks));
	cu_line(f, "const int live = ca_min(%d, %lld - row0);", BOX_ROWS,
		(long long)count);
	n->space = made->type;
	index_of(f, t, made, "row0", "head", n->from);
	for (k = 0; k < made->type.ndims; k++) {
		n->count[k] = k == made->col_at ? 0 : 1;
	}
	n->count[made->pos_at] = BOX_ROWS;
	n->live[made->pos_at] = "live";
}

static bool
follow(struct ca_group *g, const struct ca_after *after)
{
	struct cu_nest n = { 0 };
	struct ca_made *made = NULL;
	struct ca *t = NULL;
	struct cu_func f;

	first_of(g, after, &t, &made);
	cu_begin(g->k, "attention_after", &f);
	nodes_behind(g, after->from, &n);
	add_leaves(g, after, &n);
	open_block(&f, t, made, &n);
	if (t->batches * ca_local(g, &made->type, made->head_at) == 0) {
		cu_line(&f, "return;");
	}
	if (!cu_nest_box(&f, &n, THREADS, "TID")) {
		return false;
	}
	cu_end(&f);
	return true;
}

bool
ca_finish(struct ca_group *g)
{
	uint32_t i, r;

	for (i = 0; i < g->nsets; i++) {
		for (r = 0; r < CA_NRESULTS; r++) {
			if (g->sets[i].made[r].value &&
			    is_apart(&g->sets[i], r)) {
				ca_bring_home(&g->sets[i], r);
			}
		}
	}
	for (i = 0; i < g->after.n; i++) {
		if (g->after.at[i].later && !follow(g, &g->after.at[i])) {
			return false;
		}
	}
	return true;
}

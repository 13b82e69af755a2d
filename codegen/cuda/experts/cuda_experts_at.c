/*
 * dot_at: a block makes rows of one expert by a block of columns.  Rows are
 * read through the list.  The epilogue runs row by row, a warp for each, at
 * the positions of the rows.
 */
#include "codegen/cuda/experts/cuda_experts.h"

/* ---- a block ---- */

/* Declares the expert whose block it is: the last one that begins at or before
 * it. */
static void
put_expert(struct cu_func *f, const struct cu_experts *x)
{
	cu_line(f, "const i32 *const block = %s;",
		cu_experts_list(f, x->block));
	cu_line(f, "const i32 *const first = %s;",
		cu_experts_list(f, x->first));
	cu_line(f, "const i32 *const order = %s;",
		cu_experts_list(f, x->order));
	cu_line(f, "const int bn = BLOCK_X %% %lld, bm = BLOCK_X / %lld;",
		(long long)x->dot.cols.blocks, (long long)x->dot.cols.blocks);
	cu_line(f, "int expert = 0, last = %lld;", (long long)x->p.n);
	cu_line(f, "if (bm >= block[%lld]) {", (long long)x->p.n + 1);
	cu_loop_leave(f, &x->dot.tile);
	cu_line(f, "}");
	cu_line(f, "while (expert < last) {");
	cu_line(f, "const int mid = (expert + last + 1) / 2;");
	cu_line(f, "if (block[mid] <= bm) {");
	cu_line(f, "expert = mid;");
	cu_line(f, "} else {");
	cu_line(f, "last = mid - 1;");
	cu_close(f, 2);
}

/* Declares the pair of the block's row r, and which of its rows that is. */
static void
put_pair(struct cu_func *f, const struct cu_experts *x)
{
	cu_line(f, "const int p = order[first[expert] + (row0 + r) / %lld];",
		(long long)x->p.rows.size);
	cu_line(f, "const int in = (row0 + r) %% %lld;",
		(long long)x->p.rows.size);
	cu_line(f, "(void)in;");
}

/* Declares the block's rows and, in shared memory, their offsets. */
static void
put_rows(struct cu_func *f, const struct cu_experts *x, int64_t table)
{
	const struct cu_dot *d = &x->dot;

	cu_line(f, "i64 *const where = (i64 *)(SMEM + %lld);",
		(long long)table);
	cu_line(f, "const int row0 = (bm - block[expert]) * %lld;",
		(long long)x->most);
	cu_line(f, "const int left = (first[expert + 1] - first[expert]) * "
		"%lld - row0;", (long long)x->p.rows.size);
	cu_line(f, "const int live = left < %lld ? left : %lld;",
		(long long)x->most, (long long)x->most);
	cu_line(f, "int r;");
	cu_line(f, "for (r = TID; r < live; r += %lld) {",
		(long long)d->tile.threads);
	put_pair(f, x);
	cu_line(f, "where[r] = %s;", cu_experts_at(f->k->c->a, x, 0));
	cu_line(f, "}");
	cu_line(f, "sync_block();");
}

static void
put_loop(struct cu_func *f, const struct cu_experts *x,
	 const struct cu_block *b, struct cu_loop *l)
{
	const struct cu_dot *d = &x->dot;
	struct arena *a = f->k->c->a;
	int i;

	*l = (struct cu_loop){ .tile = &d->tile, .unit = d->unit,
			       .from = "0", .to = "k1", .none = x->p.others };
	l->end = arena_printf(a, "%lld", (long long)d->over.size);
	if (x->p.others) {
		cu_line(f, "const int k1 = expert == %lld ? 0 : %s;",
			(long long)x->p.n, l->end);
	} else {
		l->to = l->end;
	}
	for (i = 0; i < 2; i++) {
		cu_loop_side(f, d, i, l);
	}
	l->args[0] = "a_at, 0, live";
	l->args[1] = arena_printf(a, "b_at, n0, %s", b->n.live);
	l->table[0] = ", where";
	l->table[1] = "";
	cu_loop_emit(f, l);
}

/* ---- the result ---- */

static void
name_coords(struct arena *a, struct cu_nest *n, const struct cg_counted *d,
	    const char *i)
{
	int64_t below = 1;
	uint32_t k;

	for (k = d->n; k-- > 0; below *= d->at[k].size) {
		if (d->at[k].at < 0) {
			continue;
		}
		n->from[d->at[k].at] = arena_printf(a,
			"(%s / %lld %% %lld)", i, (long long)below,
			(long long)d->at[k].size);
		n->count[d->at[k].at] = 1;
	}
}

/* The epilogue on one row, whose sums in such columns are there. */
static struct cu_nest
row_nest(const struct cu_experts *x, const char *sums,
	 const struct cg_split *cols, const struct cu_place *n)
{
	const struct cu_dot *d = &x->dot;
	struct arena *a = d->k->c->a;
	struct cu_nest nest = cu_nest_of(a, d->x,
					 ir_type(d->k->c->m, d->value));
	struct cu_leaf leaf = { .value = d->value, .at = sums, .bytes = 16 };

	name_coords(a, &nest, &x->p.pairs, "p");
	name_coords(a, &nest, &x->p.rows, "in");
	cu_place_leaf(a, &nest, &leaf, &d->dims[2], cols, n, 1);
	cu_nest_add_leaf(a, &nest, leaf);
	return nest;
}

struct cu_nest_cost
cu_experts_row_cost(const struct cu_experts *x)
{
	const struct cg_split whole = { .chunks = 1 };
	const struct cu_place none = { 0 };
	struct cu_nest nest = row_nest(x, "sums", &whole, &none);

	return cu_nest_cost_of(x->dot.k, &nest);
}

static bool
epilogue(struct cu_func *f, const struct cu_experts *x,
	 const struct cu_block *b)
{
	const struct cu_dot *d = &x->dot;
	struct cu_nest nest;
	bool done;

	/* unrolled, loads of a row would wait for stores of the one before */
	cu_line(f, "ROLLED");
	cu_line(f, "for (r = WARP; r < live; r += %lld) {",
		(long long)d->tile.threads / 32);
	put_pair(f, x);
	nest = row_nest(x, arena_printf(f->k->c->a,
					"((f32 *)(SMEM + r * %lld))",
					(long long)b->line), &d->cols, &b->n);
	done = cu_nest_box(f, &nest, 32, "LANE");
	cu_line(f, "}");
	return done;
}

/* Stores sums directly: the rows' offsets in the result replace those in the
 * operand. */
static void
store(struct cu_func *f, const struct cu_experts *x, const struct cu_loop *l,
      const struct cu_block *b)
{
	const struct cu_dot *d = &x->dot;
	const char *at;

	cu_line(f, "for (r = TID; r < live; r += %lld) {",
		(long long)d->tile.threads);
	put_pair(f, x);
	cu_line(f, "where[r] = %s;", cu_experts_at(f->k->c->a, x, 2));
	cu_line(f, "}");
	cu_line(f, "sync_block();");
	/* with all of a place computed for each pair, stores took five slots */
	at = cu_pairs_places(f, l, "where[row < live ? row : 0] + n0");
	cu_pairs_store(f, d, l, b, cu_operand(f, d->target), at,
		       d->dtype == IR_TF32 ? IR_F32 : d->dtype,
		       d->result == CU_DOT_ADD);
}

static void
comment_step(struct cu_func *f, const struct cu_experts *x)
{
	const struct cu_dot *d = &x->dot;

	cu_comment(f, "dot_at %%%u: %lld rows of %lld by %lld, %lld experts",
		   d->value, (long long)d->m.size, (long long)d->over.size,
		   (long long)d->n.size, (long long)x->p.n);
	cu_comment(f, "tiles of %lld x %lld, %lld of k in %lld stages",
		   (long long)d->tile.m, (long long)d->tile.n,
		   (long long)d->tile.k, (long long)d->tile.stages);
	cu_dot_put_comment(f, d);
}

bool
cu_experts_at_step(struct cu_experts *x)
{
	struct cu_dot *d = &x->dot;
	int at = ir_type_at(x->p.types[1], x->p.of);
	bool box = d->result == CU_DOT_BOX, done = true;
	int64_t table = cu_tile_smem(d->unit, &d->tile, box), blocks;
	struct cu_block b = { .rows = &d->rows, .cols = &d->cols,
			      .fewer = true };
	struct cu_loop l;
	struct cu_func f;

	/* each expert may have one block that is not full */
	blocks = (d->m.size / x->most + x->p.n + 1) * d->cols.blocks;
	if (blocks > INT32_MAX) {
		return false;
	}
	cu_func_begin(d->k, "dot_at", &f);
	f.grid->threads = d->tile.threads;
	f.grid->blocks[0] = blocks;
	f.grid->smem_bytes = table + 8 * d->tile.m;
	f.minblocks = (uint32_t)d->tile.blocks;
	comment_step(&f, x);
	cu_loop_open(&f, &d->tile, cu_tile_bars(d->unit, &d->tile, box));
	put_expert(&f, x);
	put_rows(&f, x, table);
	b.m.live = "live";
	b.n = cu_place_of(&f, "n", &d->dims[2], &d->cols, "bn");
	b.line = cu_tile_line(&d->tile);
	cu_line(&f, "const %s *const a_at = %s;",
		cu_elem_type(d->view[0].dtype), cu_view_at(&f, &d->view[0]));
	cu_line(&f, "const %s *const b_at = %s + expert * (i64)%lld;",
		cu_elem_type(d->view[1].dtype), cu_view_at(&f, &d->view[1]),
		(long long)d->view[1].stride[at]);
	put_loop(&f, x, &b, &l);
	if (box) {
		cu_pairs_to_tile(&f, &l);
		done = epilogue(&f, x, &b);
	} else {
		store(&f, x, &l, &b);
	}
	cu_func_end(&f);
	return done;
}

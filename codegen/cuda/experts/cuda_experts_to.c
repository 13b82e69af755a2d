/*
 * dot_to, the gradient of experts' matrices: a block makes a block of one
 * expert's matrix, summing over the rows of that expert in the order of the
 * list; there may be none.
 */
#include "codegen/cuda/experts/cuda_experts.h"

/* ---- rows by the list ---- */

/* Writes a function NAME(order, q, end): the offset of row q of an expert. */
static void
put_where(struct cu_func *f, const struct cu_experts *x, int which,
	  const char *name)
{
	buf_printf(&f->k->text, "\n/* Where row q of an expert is */\n"
		   "FN i64\n%s(const i32 *order, int q, int end)\n{\n"
		   "\tconst int at = q < end ? q : 0;\n"
		   "\tconst int p = order[at / %lld], in = at %% %lld;\n\n"
		   "\t(void)in;\n\treturn %s;\n}\n", name,
		   (long long)x->p.rows.size, (long long)x->p.rows.size,
		   cu_experts_at(f->k->c->a, x, which));
}

static void
put_loop(struct cu_func *f, struct cu_experts *x, const struct cu_block *b,
	 struct cu_loop *l)
{
	struct cu_dot *d = &x->dot;
	struct arena *a = f->k->c->a;
	int i;

	*l = (struct cu_loop){ .tile = &d->tile, .unit = d->unit,
			       .from = "0", .to = "end", .end = "end",
			       .none = true };
	for (i = 0; i < 2; i++) {
		const char *name = arena_printf(a, "%s_row%d", f->grid->func,
						i);
		const struct cu_place *p = i ? &b->n : &b->m;

		put_where(f, x, i, name);
		d->k_at[i] = arena_printf(a, "%s(order, q, end)", name);
		d->table[i] = "const i32 *order";
		cu_loop_side(f, d, i, l);
		l->args[i] = arena_printf(a, "%s_at, %s, %s", i ? "b" : "a",
					  p->start, p->live);
		l->table[i] = ", order";
	}
	cu_loop_emit(f, l);
}

/* ---- the step ---- */

static void
put_head(struct cu_func *f, const struct cu_experts *x)
{
	const struct cu_dot *d = &x->dot;
	long long rows = (long long)d->rows.blocks;
	long long cols = (long long)d->cols.blocks;

	cu_comment(f,
		   "dot_to %%%u: %lld experts, %lld x %lld of each, over %lld "
		   "rows in all",
		   d->value, (long long)x->p.n, (long long)d->m.size,
		   (long long)d->n.size, (long long)d->over.size);
	cu_comment(f, "tiles of %lld x %lld, %lld of k in %lld stages",
		   (long long)d->tile.m, (long long)d->tile.n,
		   (long long)d->tile.k, (long long)d->tile.stages);
	cu_dot_put_comment(f, d);
	cu_loop_open(f, &d->tile, cu_tile_bars(d->unit, &d->tile,
		     d->result == CU_DOT_BOX));
	cu_line(f, "const int b = BLOCK_X / %lld;", rows * cols);
	cu_line(f, "const int bm = BLOCK_X %% %lld, bn = BLOCK_X / %lld %% "
		"%lld;", rows, rows, cols);
	cu_line(f, "const i32 *const first = %s + b;",
		cu_experts_list(f, x->first));
	cu_line(f, "const i32 *const order = %s + first[0];",
		cu_experts_list(f, x->order));
	cu_line(f, "const int end = (first[1] - first[0]) * %lld;",
		(long long)x->p.rows.size);
	cu_line(f, "const %s *const a_at = %s;", cu_elem_type(d->view[0].dtype),
		cu_view_at(f, &d->view[0]));
	cu_line(f, "const %s *const b_at = %s;", cu_elem_type(d->view[1].dtype),
		cu_view_at(f, &d->view[1]));
}

bool
cu_experts_to_step(struct cu_experts *x)
{
	struct cu_dot *d = &x->dot;
	struct cu_block b = { .rows = &d->rows, .cols = &d->cols,
			      .batch = "b" };
	bool box = d->result == CU_DOT_BOX, done = true;
	struct cu_loop l;
	struct cu_func f;

	if (x->p.n * d->rows.blocks * d->cols.blocks > INT32_MAX) {
		return false;
	}
	cu_func_begin(d->k, "dot_to", &f);
	f.grid->threads = d->tile.threads;
	f.grid->blocks[0] = x->p.n * d->rows.blocks * d->cols.blocks;
	f.grid->smem_bytes = cu_tile_smem(d->unit, &d->tile, box);
	f.minblocks = (uint32_t)d->tile.blocks;
	put_head(&f, x);
	b.m = cu_place_of(&f, "m", &d->dims[1], &d->rows, "bm");
	b.n = cu_place_of(&f, "n", &d->dims[2], &d->cols, "bn");
	b.line = cu_tile_line(&d->tile);
	put_loop(&f, x, &b, &l);
	if (box) {
		cu_pairs_to_tile(&f, &l);
		done = cu_dot_epilogue(&f, d, &b, d->tile.threads);
	} else {
		cu_pairs_store(&f, d, &l, &b, cu_operand(&f, d->target),
			arena_printf(f.k->c->a, "((i64)b * %lld + m0 + row) * "
				     "%lld + n0 + col", (long long)d->m.size,
				     (long long)d->n.size),
			d->dtype == IR_TF32 ? IR_F32 : d->dtype,
			d->result == CU_DOT_ADD);
	}
	cu_func_end(&f);
	return done;
}

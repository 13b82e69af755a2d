/*
 * The step of a contraction that multiplies, without wgmma.
 */
#include "codegen/cuda/dot/cuda_dot.h"

#define GROUP 8		/* rows of blocks in a group */

/* ---- which block ---- */

/*
 * Declares the block's place.  Blocks of a group of rows run at about the same
 * time, so that the L2 cache holds the rows and columns that they read.
 */
static void
put_blocks(struct cu_func *f, const struct cu_dot *d)
{
	long long rows = (long long)d->rows.blocks;
	long long cols = (long long)d->cols.blocks;

	cu_line(f, "const int t = BLOCK_X %% %lld;", rows * cols);
	if (d->splits > 1) {
		cu_line(f, "const int s = BLOCK_X / %lld %% %lld;",
			rows * cols, (long long)d->splits);
	}
	if (d->batch.size > 1) {
		cu_line(f, "const int b = BLOCK_X / %lld;",
			rows * cols * (long long)d->splits);
	}
	if (rows <= GROUP || cols == 1) {
		cu_line(f, "const int bm = t %% %lld, bn = t / %lld;", rows,
			rows);
		return;
	}
	cu_line(f, "const int group = t / %lld * %d, in = t %% %lld;",
		GROUP * cols, GROUP, GROUP * cols);
	if (rows % GROUP == 0) {
		cu_line(f, "const int high = %d;", GROUP);
	} else {
		cu_line(f, "const int high = %lld - group < %d ? %lld - group "
			": %d;", rows, GROUP, rows, GROUP);
	}
	cu_line(f, "const int bm = group + in %% high, bn = in / high;");
}

static void
put_operand(struct cu_func *f, const struct cu_dot *d, int which,
	    const char *name)
{
	const char *type = cu_elem_type(d->view[which].dtype);

	cu_line(f, "const %s *const %s = %s + %s;", type, name,
		cu_view_at(f, &d->view[which]),
		d->batch.size > 1
			? cu_factor_at(f->k->c->a, &d->batch, which, "b")
			: "0");
}

/* ---- the loop ---- */

static void
find_loop(struct cu_func *f, const struct cu_dot *d,
	  const struct cu_block *b, struct cu_loop *l)
{
	struct arena *a = f->k->c->a;
	int i;

	*l = (struct cu_loop){ .tile = &d->tile, .unit = d->unit };
	l->end = arena_printf(a, "%lld", (long long)d->over.size);
	l->from = d->splits > 1 ? "k0" : "0";
	l->to = d->splits > 1 ? "k1" : l->end;
	for (i = 0; i < 2; i++) {
		const struct cu_place *p = i ? &b->n : &b->m;

		cu_loop_side(f, d, i, l);
		l->args[i] = arena_printf(a, "%s_at, %s, %s", i ? "b" : "a",
					  p->start, p->live);
		l->table[i] = "";
	}
	if (d->splits > 1) {
		cu_line(f, "const int k0 = s * %lld;",
			(long long)d->per_split);
		cu_line(f, "const int k1 = s == %lld ? %lld : k0 + %lld;",
			(long long)d->splits - 1, (long long)d->over.size,
			(long long)d->per_split);
	}
}

/* ---- the result ---- */

static bool
finish(struct cu_func *f, const struct cu_dot *d, const struct cu_loop *l,
       struct cu_block *b)
{
	struct arena *a = f->k->c->a;
	bool waits = d->splits > 1 || d->apart;
	const char *row = "m0 + row", *to;

	if (d->result == CU_DOT_BOX && !waits) {
		b->line = cu_tile_line(&d->tile);
		cu_pairs_to_tile(f, l);
		return cu_dot_epilogue(f, d, b, d->tile.threads);
	}
	if (d->batch.size > 1) {
		row = arena_printf(a, "(i64)b * %lld + m0 + row",
				   (long long)d->m.size);
	}
	if (d->splits > 1) {
		row = arena_printf(a, "(i64)s * %lld + %s",
				   (long long)(d->batch.size * d->m.size),
				   row);
	}
	to = arena_printf(a, "(i64)(%s) * %lld + n0 + col", row,
			  (long long)(waits ? d->n.size : d->pitch));
	if (waits) {
		cu_pairs_store(f, d, l, b, arena_printf(a, "(a.shared + %lld)",
				(long long)d->parts), to, IR_F32, false);
	} else {
		cu_pairs_store(f, d, l, b, cu_operand(f, d->target), to,
			       d->dtype == IR_TF32 ? IR_F32 : d->dtype,
			       d->result == CU_DOT_ADD);
	}
	return true;
}

/* ---- the step ---- */

static void
comment_step(struct cu_func *f, const struct cu_dot *d)
{
	static const char *const units[CU_DOT_NUNITS] = {
		"f32", "tf32", "bf16", "f16", "f8e4m3", "f8e5m2"
	};
	static const char *const ends[] = { "with an epilogue", "stored",
					    "added" };

	cu_comment(f, "dot %%%u: %lld x %lld x %lld x %lld in %s, %s", d->value,
		   (long long)d->batch.size, (long long)d->m.size,
		   (long long)d->n.size, (long long)d->over.size,
		   units[d->unit], ends[d->result]);
	cu_comment(f, "tiles of %lld x %lld, %lld of k in %lld stages; blocks "
		   "of %lld x %lld; k in %lld parts", (long long)d->tile.m,
		   (long long)d->tile.n, (long long)d->tile.k,
		   (long long)d->tile.stages, (long long)d->rows.most,
		   (long long)d->cols.most, (long long)d->splits);
	cu_dot_put_comment(f, d);
}

static bool
multiply(struct cu_dot *d)
{
	struct cu_block b = { .rows = &d->rows, .cols = &d->cols,
			      .batch = d->batch.size > 1 ? "b" : "0" };
	bool box = d->result == CU_DOT_BOX && d->splits == 1 && !d->apart;
	struct cu_loop l;
	struct cu_func f;

	cu_func_begin(d->k, "dot", &f);
	f.grid->threads = d->tile.threads;
	f.grid->blocks[0] = d->rows.blocks * d->cols.blocks * d->splits *
			    d->batch.size;
	f.grid->smem_bytes = cu_tile_smem(d->unit, &d->tile, box);
	f.minblocks = (uint32_t)d->tile.blocks;
	comment_step(&f, d);
	put_blocks(&f, d);
	b.m = cu_place_of(&f, "m", &d->dims[1], &d->rows, "bm");
	b.n = cu_place_of(&f, "n", &d->dims[2], &d->cols, "bn");
	cu_launch_wait(&f);
	put_operand(&f, d, 0, "a_at");
	put_operand(&f, d, 1, "b_at");
	find_loop(&f, d, &b, &l);
	cu_loop_emit(&f, &l);
	if (!finish(&f, d, &l, &b)) {
		return false;
	}
	cu_func_end(&f);
	return true;
}

bool
cu_dot_emit(struct cu_dot *d)
{
	return d->batch.size * d->rows.blocks * d->cols.blocks * d->splits <=
	       INT32_MAX && multiply(d) && cu_dot_sum(d);
}

/*
 * After the loop over k: sums are stored, or go to a tile on which the
 * epilogue runs; if k is split, another step adds partial sums.  With experts,
 * too.
 */
#include "codegen/cuda/dot/cuda_dot.h"

#define SUM_THREADS 256
/* rows of a block that adds partial sums and has an epilogue */
#define SUM_ROWS 16

/* ---- sums in registers ---- */

/* The tile replaces the stages, which other threads may still read. */
void
cu_pairs_to_tile(struct cu_func *f, const struct cu_loop *l)
{
	cu_line(f, "sync_block();");
	cu_pairs_begin(f, l);
	cu_line(f, "f32 *const to = (f32 *)(SMEM + row * %lld) + col;",
		(long long)cu_tile_line(l->tile));
	cu_line(f, "to[0] = x;");
	cu_line(f, "to[1] = y;");
	cu_pairs_end(f);
	cu_line(f, "sync_block();");
}

/* Whether all blocks have even first positions and even sizes. */
static bool
in_twos(const struct cg_split *s, const struct cg_dims *d, int64_t n)
{
	return n % 2 == 0 && (s->chunks == 1 || s->step * s->inner % 2 == 0) &&
	       (s->cut == 0 || d->size[s->cut] * s->inner % 2 == 0);
}

/* Whether some tiles are larger than their blocks. */
static bool
is_ragged(int64_t tile, const struct cg_split *s, const struct cg_dims *d)
{
	return s->most < tile || s->step * s->chunks != d->size[s->cut];
}

/* Opens a block of C that runs if the row and column `col` exist. */
static void
guard(struct cu_func *f, const struct cu_dot *d, const struct cu_loop *l,
      const struct cu_block *b, const char *col)
{
	bool rows = b->fewer ||
		    is_ragged(l->tile->m, b->rows, &d->dims[1]);
	bool cols = is_ragged(l->tile->n, b->cols, &d->dims[2]);

	if (rows && cols) {
		cu_line(f, "if (row < %s && %s < %s) {", b->m.live, col,
			b->n.live);
	} else if (rows) {
		cu_line(f, "if (row < %s) {", b->m.live);
	} else if (cols) {
		cu_line(f, "if (%s < %s) {", col, b->n.live);
	} else {
		cu_line(f, "{");
	}
}

static void
store_one(struct cu_func *f, enum ir_dtype t, const char *to, const char *x,
	  bool add)
{
	cu_line(f, "%s %s %s;", to, add ? "+=" : "=",
		t == IR_F32 ? x : cu_narrow(f->k->c->a, t, x));
}

/* Stores two elements at once. */
static void
store_two(struct cu_func *f, enum ir_dtype t, bool add)
{
	switch (t) {
	case IR_BF16:
		cu_line(f, "*(u32 *)to = pack_bf16(x, y);");
		break;
	case IR_F16:
		cu_line(f, "*(u32 *)to = pack_f16(x, y);");
		break;
	default:
		cu_line(f, "struct f32x2 *const two = (struct f32x2 *)to;");
		cu_line(f, "struct f32x2 v;");
		if (add) {
			cu_line(f, "v = *two;");
			cu_line(f, "v.x += x;");
			cu_line(f, "v.y += y;");
		} else {
			cu_line(f, "v.x = x;");
			cu_line(f, "v.y = y;");
		}
		cu_line(f, "*two = v;");
	}
}

static void
store_pairs(struct cu_func *f, const struct cu_dot *d,
	    const struct cu_loop *l, const struct cu_block *b,
	    const char *at, const char *to, enum ir_dtype t, bool add)
{
	bool two = in_twos(b->cols, &d->dims[2], d->n.size) &&
		   d->pitch % 2 == 0 &&
		   cu_elem_bytes(t) > 1;

	cu_pairs_begin(f, l);
	cu_line(f, "%s *const to = (%s *)%s + %s;", cu_elem_type(t),
		cu_elem_type(t), at, to);
	if (two) {
		guard(f, d, l, b, "col");
		store_two(f, t, add);
		cu_line(f, "}");
	} else {
		guard(f, d, l, b, "col");
		store_one(f, t, "to[0]", "x", add);
		cu_line(f, "}");
		guard(f, d, l, b, "col + 1");
		store_one(f, t, "to[1]", "y", add);
		cu_line(f, "}");
	}
	cu_pairs_end(f);
}

void
cu_pairs_store(struct cu_func *f, const struct cu_dot *d,
	       const struct cu_loop *l, const struct cu_block *b,
	       const char *at, const char *to, enum ir_dtype t, bool add)
{
	if (add) {
		cu_line(f, "if (%s) {", cu_old(f, d->sink));
		store_pairs(f, d, l, b, at, to, t, true);
		cu_line(f, "} else {");
	}
	store_pairs(f, d, l, b, at, to, t, false);
	if (add) {
		cu_line(f, "}");
	}
}

/* ---- a nest ---- */

bool
cu_dot_epilogue(struct cu_func *f, const struct cu_dot *d,
		const struct cu_block *b, int64_t threads)
{
	const struct cg_dims *batch = &d->dims[0];
	struct cg_split one = { .cut = batch->n - 1, .step = 1,
				.chunks = batch->size[batch->n - 1],
				.inner = 1 };
	struct arena *a = f->k->c->a;
	struct cu_place p = {
		.outer = arena_printf(a, "(%s / %lld)", b->batch,
				      (long long)one.chunks),
		.chunk = arena_printf(a, "(%s %% %lld)", b->batch,
				      (long long)one.chunks)
	};
	struct cu_nest nest = cu_nest_of(a, d->x,
					 ir_type(f->k->c->m, d->value));
	struct cu_leaf leaf = { .value = d->value, .at = "((f32 *)SMEM)",
				.bytes = 16 };

	cu_place_leaf(a, &nest, &leaf, batch, &one, &p, 0);
	cu_place_leaf(a, &nest, &leaf, &d->dims[1], b->rows, &b->m,
		      b->line / 4);
	cu_place_leaf(a, &nest, &leaf, &d->dims[2], b->cols, &b->n, 1);
	cu_nest_add_leaf(a, &nest, leaf);
	return cu_nest_box(f, &nest, threads, "TID");
}

/* ---- sums of parts ---- */

/* Emits a loop that adds element `i` of all partial sums to `sum`. */
static void
add_parts(struct cu_func *f, const struct cu_dot *d, const char *i)
{
	int64_t elems = d->batch.size * d->m.size * d->n.size;

	cu_line(f, "const f32 *const from = (const f32 *)(a.shared + %lld) + "
		"%s;", (long long)d->parts, i);
	cu_line(f, "f32 sum = from[0];");
	cu_line(f, "int s;");
	cu_line(f, "UNROLL");
	cu_line(f, "for (s = 1; s < %lld; s++) {", (long long)d->splits);
	cu_line(f, "sum += from[s * (i64)%lld];", (long long)elems);
	cu_line(f, "}");
}

static void
sum_alone(struct cu_dot *d)
{
	int64_t elems = d->batch.size * d->m.size * d->n.size;
	const char *at;
	struct cu_func f;

	cu_func_begin(d->k, "sum", &f);
	f.grid->threads = SUM_THREADS;
	f.grid->blocks[0] = (elems + SUM_THREADS - 1) / SUM_THREADS;
	cu_comment(&f, "%lld parts of %lld sums", (long long)d->splits,
		   (long long)elems);
	cu_line(&f, "const i64 i = (i64)BLOCK_X * %d + TID;", SUM_THREADS);
	cu_line(&f, "if (i < %lld) {", (long long)elems);
	add_parts(&f, d, "i");
	at = d->pitch == d->n.size ? "i"
		: arena_printf(d->k->c->a, "i / %lld * %lld + i %% %lld",
			       (long long)d->n.size, (long long)d->pitch,
			       (long long)d->n.size);
	at = arena_printf(d->k->c->a, "((%s *)%s)[%s]", cu_elem_type(d->dtype),
			  cu_operand(&f, d->target), at);
	if (d->result == CU_DOT_ADD) {
		cu_line(&f, "if (%s) {", cu_old(&f, d->sink));
		cu_line(&f, "sum += %s;", at);
		cu_line(&f, "}");
	}
	store_one(&f, d->dtype == IR_TF32 ? IR_F32 : d->dtype, at, "sum",
		  false);
	cu_line(&f, "}");
	cu_func_end(&f);
}

/* Adds partial sums and runs the epilogue, for blocks of rows and columns. */
static bool
sum_with_nest(struct cu_dot *d)
{
	struct cg_split rows = cu_split_of(&d->dims[1], SUM_ROWS, 1);
	struct cu_block b = { .rows = &rows, .cols = &d->cols, .batch = "b" };
	struct cu_func f;

	b.line = 4 * ((d->cols.most + 3) / 4 * 4);
	cu_func_begin(d->k, "sum", &f);
	f.grid->threads = SUM_THREADS;
	f.grid->blocks[0] = rows.blocks * d->cols.blocks * d->batch.size;
	f.grid->smem_bytes = rows.most * b.line;
	cu_comment(&f, "%lld parts, and the epilogue: %lld x %lld",
		   (long long)d->splits, (long long)rows.most,
		   (long long)d->cols.most);
	cu_line(&f, "const int bn = BLOCK_X %% %lld, bm = BLOCK_X / %lld %% "
		"%lld;", (long long)d->cols.blocks, (long long)d->cols.blocks,
		(long long)rows.blocks);
	cu_line(&f, "const int b = BLOCK_X / %lld;",
		(long long)(rows.blocks * d->cols.blocks));
	b.m = cu_place_of(&f, "m", &d->dims[1], &rows, "bm");
	b.n = cu_place_of(&f, "n", &d->dims[2], &d->cols, "bn");
	cu_line(&f, "int e;");
	cu_line(&f, "for (e = TID; e < %s * %lld; e += %d) {", b.m.live,
		(long long)b.line / 4, SUM_THREADS);
	cu_line(&f, "const int row = e / %lld, col = e %% %lld;",
		(long long)b.line / 4, (long long)b.line / 4);
	cu_line(&f, "if (col < %s) {", b.n.live);
	add_parts(&f, d, arena_printf(d->k->c->a, "((i64)b * %lld + m0 + row)"
				      " * %lld + n0 + col",
				      (long long)d->m.size,
				      (long long)d->n.size));
	cu_line(&f, "((f32 *)SMEM)[e] = sum;");
	cu_close(&f, 2);
	cu_line(&f, "sync_block();");
	if (!cu_dot_epilogue(&f, d, &b, SUM_THREADS)) {
		return false;
	}
	cu_func_end(&f);
	return true;
}

/* The epilogue as steps of its own, on sums in shared scratch. */
static bool
nest_alone(struct cu_dot *d)
{
	struct arena *a = d->k->c->a;
	const struct ir_type *t = ir_type(d->k->c->m, d->value);
	struct cu_nest n = cu_nest_of(a, d->x, d->x->work->shape);
	struct cu_leaf leaf = { .value = d->value };
	int64_t stride = 1;
	uint32_t i;

	leaf.at = arena_printf(a, "((f32 *)(a.shared + %lld))",
			       (long long)d->parts);
	for (i = t->ndims; i-- > 0; ) {
		leaf.stride[i] = stride;
		stride *= cu_local_size(d->k->c, t->dims[i], t->cut[i]);
	}
	cu_nest_add_leaf(a, &n, leaf);
	return cu_nest_steps(d->k, &n);
}

bool
cu_dot_sum(struct cu_dot *d)
{
	if (d->apart) {
		return nest_alone(d);
	}
	if (d->splits == 1) {
		return true;
	}
	if (d->result == CU_DOT_BOX) {
		return sum_with_nest(d);
	}
	sum_alone(d);
	return true;
}

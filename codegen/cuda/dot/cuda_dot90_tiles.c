/*
 * The tiles of a contraction by wgmma or tcgen05: their order, and which
 * sums of one a thread has.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

#define BAND 8	/* rows of tiles in a band; with clusters, pairs of rows */

/* ---- the order of tiles ---- */

/*
 * Tiles are ordered in bands of rows, one column of a band after another, so
 * that tiles that run at the same time share rows and columns in the L2 cache.
 */
void
dot90_order_emit(struct cu_func *f, const struct dot90 *p)
{
	struct buf *b = &f->k->text;
	long long rows = p->row_blocks / p->cluster, cols = p->col_blocks;

	buf_printf(b, "\n/* Block (row, col) of the result, of batch z. */\n"
		   "FN void\n%s_tile(int tile, %sint *row, int *col, int *z)"
		   "\n{\n\tconst int at = tile %% %lld, band = at / %lld;\n",
		   f->grid->func, p->cluster > 1 ? "int rank, " : "",
		   rows * cols, BAND * cols);
	buf_printf(b, "\tconst int left = %lld - band * %d;\n"
		   "\tconst int high = left < %d ? left : %d;\n"
		   "\tconst int in = at %% %lld;\n\n", rows, BAND, BAND, BAND,
		   BAND * cols);
	buf_printf(b, "\t*row = (band * %d + in %% high)", BAND);
	if (p->cluster > 1) {
		buf_printf(b, " * %lld + rank",
			   (long long)p->cluster);
	}
	buf_printf(b, ";\n\t*col = in / high;\n\t*z = tile / %lld;\n}\n",
		   rows * cols);
}

void
dot90_places(struct cu_func *f, const struct dot90 *p, struct cu_place *m,
	     struct cu_place *n)
{
	const struct cu_dot *d = p->d;
	struct cg_split cols = { .cut = 0, .inner = 1,
				 .step = dot90_width(p) };
	struct cg_dims flat = { .n = 1, .size = { d->n.size } };

	cols.chunks = cols.blocks = p->col_blocks;
	cols.most = cols.step;
	*m = cu_place_of(f, "m", &d->dims[1], &d->rows, "row");
	*n = cu_place_of(f, "n", &flat, &cols, "col");
}

const char *
dot90_first_tile(const struct dot90 *p)
{
	return p->cluster > 1 ? "BLOCK_X / 2" : "BLOCK_X";
}

void
dot90_open_tile(struct cu_func *f, const struct dot90 *p, const char *when)
{
	if (when) {
		cu_line(f, "if (%s) {", when);
	} else {
		cu_line(f, "{");
	}
	cu_line(f, "const int tile = %s;", dot90_first_tile(p));
	dot90_tile_place(f, p);
}

void
dot90_tile_place(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "int row, col, z;");
	if (p->splits > 1) {
		cu_line(f, "const int split = %s;",
			dot90_split_text(p, f->k->c->a));
	}
	cu_line(f, "%s_tile(tile%s%s, &row, &col, &z);", f->grid->func,
		p->splits > 1 ? arena_printf(f->k->c->a, " - split * %lld",
			(long long)((p->tiles - p->whole) / p->cluster)) : "",
		p->cluster > 1 ? ", cluster_rank()" : "");
	cu_line(f, "const int batch = z;");
}

void
dot90_used(struct cu_func *f, const struct cu_place *m,
	   const struct cu_place *n)
{
	cu_line(f, "(void)m0, (void)n0, (void)batch;");
	if (m->live[0] == 'm') {
		cu_line(f, "(void)m_live;");
	}
	if (n->live[0] == 'n') {
		cu_line(f, "(void)n_live;");
	}
}

void
dot90_next_stage(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "if (++stage == %lld) {", (long long)p->ring);
	cu_line(f, "stage = 0;");
	cu_line(f, "parity ^= 1;");
	cu_line(f, "}");
}

/* ---- sums ---- */

void
dot90_sums_at(struct cu_func *f, const struct dot90 *p)
{
	cu_comment(f,
		   "The first of the sums that this thread has, in the tile.");
	cu_line(f, "const int r0 = %lld * group + TID / 32 %% 4 * %lld + LANE "
		"/ 4;", (long long)dot90_group_rows(p),
		(long long)p->has->warp_rows);
	cu_line(f, "const int lc = LANE %% 4 * 2;");
}

bool
dot90_put_item(struct cu_func *f, const struct dot90 *p,
	       const struct dot90 *q, const struct cu_place *m,
	       const char *sub)
{
	bool done;

	if (p->splits == 1) {
		return dot90_put_tile(f, q, m);
	}
	if (p->whole == 0) {
		dot90_put_part(f, p, q, sub);
		return true;
	}
	cu_line(f, "if (tile >= %lld) {", (long long)(p->whole / p->cluster));
	dot90_put_part(f, p, q, sub);
	cu_line(f, "} else {");
	done = dot90_put_tile(f, q, m);
	cu_line(f, "}");
	return done;
}

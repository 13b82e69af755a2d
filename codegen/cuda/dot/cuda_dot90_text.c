/*
 * The text of a contraction with wgmma: the order of tiles, the warpgroup that
 * copies, and the teams that multiply.
 *
 * How the ring is synchronized: the copying unit writes a stage after the
 * stage's `empty` barrier shows that all readers are done, and wgmma reads it
 * after its `full` barrier has counted its bytes.  Both are of the async
 * proxy, so no proxy fence is needed (PTX ISA, "Async Proxy").  No generic
 * store writes to the ring.
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

/* C text: the step from a tile of this block, or cluster, to its next. */
static const char *
by_of(const struct dot90 *p)
{
	return p->cluster > 1 ? "(NBLOCKS_X / 2)" : "NBLOCKS_X";
}

void
dot90_places(struct cu_func *f, const struct dot90 *p, struct cu_place *m,
	     struct cu_place *n)
{
	const struct cu_dot *d = p->d;
	struct cg_split cols = { .cut = 0, .inner = 1, .step = p->cols };
	struct cg_dims flat = { .n = 1, .size = { d->n.size } };

	cols.chunks = cols.blocks = p->col_blocks;
	cols.most = p->cols;
	*m = cu_place_of(f, "m", &d->dims[1], &d->rows, "row");
	*n = cu_place_of(f, "n", &flat, &cols, "col");
}

/* Opens the loop over items of team `team` or, if it is NULL, of all teams. */
static void
open_tiles(struct cu_func *f, const struct dot90 *p, const char *team,
	   struct cu_place *m, struct cu_place *n)
{
	const char *at = p->cluster > 1 ? "BLOCK_X / 2" : "BLOCK_X";
	const char *by = by_of(p);

	if (team && p->teams > 1) {
		at = arena_printf(f->k->c->a, "%s + %s * %s", at, team, by);
		by = arena_printf(f->k->c->a, "%lld * %s",
				  (long long)p->teams, by);
	}
	cu_line(f, "for (int tile = %s; tile < %lld; tile += %s) {", at,
		(long long)(p->items / p->cluster), by);
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
	dot90_places(f, p, m, n);
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

/* The next stage of the ring. */
static void
put_next_stage(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "if (++stage == %lld) {", (long long)p->ring);
	cu_line(f, "stage = 0;");
	cu_line(f, "parity ^= 1;");
	cu_line(f, "}");
}

/* ---- the warpgroup that copies ---- */

static void
put_producer(struct cu_func *f, const struct dot90 *p)
{
	const char *half = p->cluster > 1 ? "cluster_rank()" : NULL;
	long long stage = dot90_stage_bytes(p);
	struct cu_place m, n;

	cu_line(f, "regs_fewer(40);");
	cu_line(f, "if (TID == 0) {");
	cu_comment(f, "The first round does not wait: the phase before the "
		   "first one has ended.");
	cu_line(f, "int stage = 0, parity = 1;");
	open_tiles(f, p, NULL, &m, &n);
	if (p->splits > 1) {
		cu_line(f, "const int steps = %s;",
			dot90_steps_text(f, p, "tile"));
	}
	cu_line(f, "for (int q = 0; q < %s; q++) {",
		p->splits > 1 ? "steps" : dot90_steps_text(f, p, "tile"));
	if (p->splits > 1) {
		cu_line(f, "const int k = split * %lld + q;",
			(long long)p->steps);
	} else {
		cu_line(f, "const int k = q;");
	}
	cu_line(f, "const u32 bar = full + 8 * stage;");
	cu_line(f, "const u32 to = ring + %lld * stage;", stage);
	cu_line(f, "mbar_wait(empty + 8 * stage, parity);");
	cu_line(f, "mbar_expect(bar, %lld);", stage);
	dot90_load_stage(f, p->d, &p->side[0], m.start, "batch", "to", NULL);
	dot90_load_stage(f, p->d, &p->side[1], n.start, "batch",
			 arena_printf(f->k->c->a, "to + %lld",
				      (long long)p->side[0].bytes), half);
	put_next_stage(f, p);
	cu_line(f, "}");
	dot90_used(f, &m, &n);
	cu_close(f, 2);
	if (p->cluster > 1) {
		/* lanes must converge before the cluster's barrier */
		cu_line(f, "sync_warp();");
	}
}

/* ---- teams ---- */

/* Emits all products of a stage; those of the first stage overwrite the
 * sums. */
static void
put_products(struct cu_func *f, const struct dot90 *p, bool first)
{
	static const char *const types[CU_DOT_NUNITS] = {
		[CU_DOT_TF32] = "tf32", [CU_DOT_BF16] = "bf16",
		[CU_DOT_F16] = "f16", [CU_DOT_E4M3] = "e4m3"
	};
	const struct dot90_side *s = p->side;
	long long cols = (long long)p->cols;
	/* steps of descriptors, in units of 16 bytes */
	int x = s[0].by_k ? 2 : 128, y = s[1].by_k ? 2 : 128, k, i;
	/* only elements of 16 bits are transposed */
	const char *turns = cu_unit_bytes(p->d->unit) != 2 ? ""
		: arena_printf(f->k->c->a, ", %d, %d", !s[0].by_k,
			       !s[1].by_k);

	cu_line(f, "const u64 x = wg_desc(ring + %lld * stage + %lld * group, "
		"%d, 1024, 128);", (long long)dot90_stage_bytes(p),
		(long long)(dot90_group_rows(p) * 128), s[0].by_k ? 16 : 8192);
	cu_line(f, "const u64 y = wg_desc(ring + %lld * stage + %lld, %d, "
		"1024, 128);", (long long)dot90_stage_bytes(p),
		(long long)s[0].bytes, s[1].by_k ? 16 : 8192);
	cu_line(f, "wg_fence();");
	for (k = 0; k < DOT90_ROW / 32; k++) {
		for (i = 0; i < dot90_group_rows(p) / 64; i++) {
			cu_line(f, "wg_%s_64x%lld(d + %lld, x + %d, y + %d, "
				"%d%s);", types[p->d->unit], cols,
				i * cols / 2, x * k + 512 * i, y * k,
				!first || k > 0, turns);
		}
	}
	cu_line(f, "wg_commit();");
}

/*
 * Frees a stage.  A warp has waited for its own part of the products alone, so
 * each warp arrives, at this block's barrier and at those of other blocks of
 * the cluster.
 */
static void
put_release(struct cu_func *f, const struct dot90 *p, const char *stage)
{
	if (p->cluster > 1) {
		cu_line(f, "if (LANE < %lld) {", (long long)p->cluster);
		cu_line(f, "mbar_arrive_cta(empty + 8 * %s, LANE);", stage);
	} else {
		cu_line(f, "if (LANE == 0) {");
		cu_line(f, "mbar_arrive(empty + 8 * %s);", stage);
	}
	cu_line(f, "}");
}

/*
 * Two teams take turns.  A wait for a phase's parity also passes if the phase
 * before has not ended, so a team may wait for a stage only after all stages
 * before it have arrived, which are the other team's.
 */
static void
put_turn(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "if (tile != %s) {", p->cluster > 1 ? "BLOCK_X / 2"
						       : "BLOCK_X");
	cu_line(f, "sync_named(3 + team, 256);");
	cu_line(f, "}");
}

static void
put_sums(struct cu_func *f, const struct dot90 *p)
{
	long long ring = (long long)p->ring;

	if (p->splits > 1) {
		cu_line(f, "const int steps = %s;",
			dot90_steps_text(f, p, "tile"));
	}
	if (p->teams > 1) {
		put_turn(f, p);
		cu_line(f, "int stage = slot %% %lld;", ring);
		cu_line(f, "int parity = slot / %lld & 1;", ring);
		if (p->splits > 1) {
			cu_line(f, "slot += (u32)(steps + %s);",
				dot90_steps_text(f, p, arena_printf(f->k->c->a,
					"tile + %s", by_of(p))));
		} else {
			cu_line(f, "slot += %lld;",
				(long long)(p->teams * p->steps));
		}
	}
	cu_line(f, "{");
	cu_line(f, "mbar_wait(full + 8 * stage, parity);");
	put_products(f, p, true);
	cu_line(f, "}");
	cu_line(f, "for (int q = 1; q < %s; q++) {",
		p->splits > 1 ? "steps" : dot90_steps_text(f, p, "tile"));
	cu_line(f, "const int before = stage;");
	put_next_stage(f, p);
	cu_line(f, "mbar_wait(full + 8 * stage, parity);");
	put_products(f, p, false);
	cu_line(f, "wg_wait(1);");
	put_release(f, p, "before");
	cu_line(f, "}");
	if (p->teams > 1) {
		cu_comment(f,
			   "The other team's turn, if there is one more tile.");
		cu_line(f, "if (tile + %s < %lld) {", by_of(p),
			(long long)(p->items / p->cluster));
		cu_line(f, "arrive_named(4 - team, 256);");
		cu_line(f, "}");
	}
	cu_line(f, "wg_wait(0);");
	cu_line(f, "wg_sums(d, %lld);", (long long)(dot90_group_rows(p) *
						    p->cols / 128));
	put_release(f, p, "stage");
	if (p->teams == 1) {
		put_next_stage(f, p);
	}
}

void
dot90_sums_at(struct cu_func *f, const struct dot90 *p)
{
	cu_comment(f,
		   "The first of the sums that this thread has, in the tile.");
	cu_line(f, "const int r0 = %lld * group + TID / 32 %% 4 * 16 + LANE "
		"/ 4;", (long long)dot90_group_rows(p));
	cu_line(f, "const int lc = LANE %% 4 * 2;");
}

/* What becomes of sums: of a part, or of a whole tile. */
static bool
put_item(struct cu_func *f, const struct dot90 *p, const struct cu_place *m)
{
	bool done;

	if (p->splits == 1) {
		return dot90_put_tile(f, p, m);
	}
	if (p->whole == 0) {
		dot90_put_part(f, p);
		return true;
	}
	cu_line(f, "if (tile >= %lld) {", (long long)(p->whole / p->cluster));
	dot90_put_part(f, p);
	cu_line(f, "} else {");
	done = dot90_put_tile(f, p, m);
	cu_line(f, "}");
	return done;
}

static bool
put_team(struct cu_func *f, const struct dot90 *p)
{
	struct cu_place m, n;
	bool done;

	/* 128 threads of 40 and 256 of 232: 64512 of 65536 registers */
	cu_line(f, "regs_more(232);");
	cu_line(f, "f32 d[%lld];", (long long)(dot90_group_rows(p) * p->cols /
					       128));
	if (p->teams > 1) {
		cu_line(f, "const int team = TID / 128 - 1, group = 0;");
		cu_line(f, "u32 slot = team * %s;", dot90_steps_text(f, p,
			p->cluster > 1 ? "BLOCK_X / 2" : "BLOCK_X"));
	} else {
		cu_line(f, "const int team = 0, group = TID / 128 - 1;");
		cu_line(f, "int stage = 0, parity = 0;");
	}
	dot90_sums_at(f, p);
	open_tiles(f, p, "team", &m, &n);
	put_sums(f, p);
	done = put_item(f, p, &m);
	dot90_used(f, &m, &n);
	cu_line(f, "}");
	if (p->box) {
		dot90_store_end(f);
	}
	cu_line(f, "(void)team;");
	return done;
}

/* ---- all of it ---- */

static void
put_barriers(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "const u32 ring = smem_addr(SMEM);");
	cu_line(f, "const u32 full = ring + %lld, empty = full + %lld;",
		(long long)dot90_bars_at(p), (long long)(8 * p->ring));
	cu_line(f, "if (TID == 0) {");
	cu_line(f, "for (int i = 0; i < %lld; i++) {", (long long)p->ring);
	cu_line(f, "mbar_init(full + 8 * i, 1);");
	cu_line(f, "mbar_init(empty + 8 * i, %lld);",
		(long long)(4 * p->groups * p->cluster));
	cu_line(f, "}");
	cu_line(f, "fence_mbar_init();");
	cu_line(f, "}");
	cu_line(f, p->cluster > 1 ? "cluster_sync();" : "sync_block();");
}

static void
put_words(struct cu_func *f, const struct dot90 *p)
{
	const struct cu_dot *d = p->d;

	cu_comment(f, "%lld x %lld x %lld by %lld, %s and %s",
		   (long long)d->m.size, (long long)d->n.size,
		   (long long)d->over.size, (long long)d->batch.size,
		   p->side[0].by_k ? "k dense" : "m dense",
		   p->side[1].by_k ? "k dense" : "n dense");
	cu_comment(f,
		   "%lld tiles of %lld x %lld, %lld stages of %lld of k, %lld "
		   "of them in the ring",
		   (long long)p->tiles, (long long)p->rows, (long long)p->cols,
		   (long long)dot90_stages(d), (long long)dot90_k(d),
		   (long long)p->ring);
	if (p->whole > 0) {
		cu_comment(f, "after the products: some %.0f issue slots of a "
			   "thread", dot90_put_slots(p));
	}
	if (p->splits > 1) {
		cu_comment(f,
			   "tiles from %lld on in %lld parts, %lld stages each",
			   (long long)p->whole, (long long)p->splits,
			   (long long)p->steps);
	}
}

bool
dot90_emit(struct dot90 *p)
{
	struct cu_kernel *k = p->d->k;
	struct cu_func f;
	bool done;

	cu_func_begin(k, "dot", &f);
	f.minblocks = 1;
	f.grid->threads = 384;
	f.grid->cluster = p->cluster;
	f.grid->blocks[0] = p->items < p->blocks ? p->items
		: p->blocks / p->cluster * p->cluster;
	f.grid->smem_bytes = dot90_bars_at(p) + 256;
	VEC_PUSH(k->c->a, &f.grid->maps, p->side[0].map);
	VEC_PUSH(k->c->a, &f.grid->maps, p->side[1].map);
	if (p->box) {
		VEC_PUSH(k->c->a, &f.grid->maps, p->out);
	}
	dot90_order_emit(&f, p);
	dot90_steps_emit(&f, p);
	put_words(&f, p);
	put_barriers(&f, p);
	cu_line(&f, "if (TID < 128) {");
	put_producer(&f, p);
	cu_line(&f, "} else {");
	done = put_team(&f, p);
	cu_line(&f, "}");
	if (p->cluster > 1) {
		cu_comment(&f,
			   "The other block may still copy to this one, and "
			   "say so here.");
		cu_line(&f, "cluster_sync();");
	}
	cu_func_end(&f);
	return done;
}

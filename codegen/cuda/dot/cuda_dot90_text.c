/*
 * The text of a contraction: the warpgroup that copies, and the teams that
 * multiply by wgmma.  cuda_dot90_tensor.c has those by tcgen05.
 *
 * How the ring is synchronized: the copying unit writes a stage after the
 * stage's `empty` barrier shows that all readers are done, and wgmma reads it
 * after its `full` barrier has counted its bytes.  Both are of the async
 * proxy, so no proxy fence is needed (PTX ISA, "Async Proxy").  No generic
 * store writes to the ring.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

/* ---- the warpgroup that copies ---- */

/* All stages of a tile. */
static void
put_copies(struct cu_func *f, const struct dot90 *p)
{
	const char *half = p->cluster > 1 ? "cluster_rank()" : NULL;
	long long stage = dot90_stage_bytes(p);
	struct cu_place m, n;

	dot90_places(f, p, &m, &n);
	if (p->splits > 1) {
		cu_line(f, "const int steps = %s;",
			dot90_steps_text(f, p, "tile"));
	}
	cu_line(f, "for (int q = 0; q < %s; q++) {",
		p->splits > 1 ? "steps" : dot90_steps_text(f, p, "tile"));
	if (p->splits > 1) {
		cu_line(f, "%sint k = split * %lld + q;",
			p->nterms ? "" : "const ", (long long)p->steps);
	} else {
		cu_line(f, "%sint k = q;", p->nterms ? "" : "const ");
	}
	cu_line(f, "const u32 bar = full + 8 * stage;");
	cu_line(f, "const u32 to = ring + %lld * stage;", stage);
	cu_line(f, "mbar_wait(empty + 8 * stage, parity);");
	cu_line(f, "mbar_expect(bar, %lld);", stage);
	dot90_terms_load(f, p, m.start, n.start, half);
	dot90_next_stage(f, p);
	cu_line(f, "}");
	dot90_used(f, &m, &n);
}

static bool
put_producer(struct cu_func *f, struct dot90 *p)
{
	bool done = true;
	uint32_t i;

	cu_line(f, "regs_fewer(%d);", dot90_regs(p, true));
	if (p->has->tensor) {
		cu_line(f, "const int warp = (int)shfl_u32((u32)WARP, 0);");
	}
	cu_line(f, p->has->tensor ? "if (warp == 0 && elect_one()) {"
		: "if (TID == 0) {");
	cu_comment(f, "The first round does not wait: the phase before the "
		   "first one has ended.");
	cu_line(f, "int stage = 0, parity = 1;");
	if (p->takes) {
		dot90_open_taking(f, p);
	} else {
		dot90_open_tile(f, p, NULL);
	}
	for (i = 0; i < dot90_nmembers(p); i++) {
		dot90_open_member(f, p, i);
		put_copies(f, dot90_member(p, i));
	}
	dot90_close_members(f, p);
	if (p->takes) {
		dot90_close_taking(f, p);
	} else {
		cu_line(f, "}");
	}
	if (p->cluster > 1 && p->has->tensor) {
		cu_comment(f, "The block ends when the other one's products "
			   "have arrived.");
		cu_line(f, "for (int i = 0; i < %lld; i++) {",
			(long long)p->ring);
		cu_line(f, "mbar_wait(empty + 8 * stage, parity);");
		dot90_next_stage(f, p);
		cu_line(f, "}");
	}
	if (p->beside) {
		done = dot90_beside_put(f, p);
	}
	cu_line(f, "}");
	if (p->has->tensor) {
		dot90_tensor_multiply(f, p);
	}
	if (p->cluster > 1 || p->has->tensor) {
		/* lanes must converge before the barrier that follows */
		cu_line(f, "sync_warp();");
	}
	return done;
}

/* ---- teams ---- */

/* Sums of a thread; and where wgmma makes them. */
static long long
nsums(const struct dot90 *p)
{
	return (long long)(dot90_group_rows(p) * p->cols / 128);
}

static const char *
sums_of(const struct dot90 *p)
{
	return p->has->promotes ? "part" : "d";
}

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
			cu_line(f, "wg_%s_64x%lld(%s + %lld, x + %d, y + %d, "
				"%d%s);", types[p->d->unit], cols, sums_of(p),
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
 * The other team's turn, after the last stage of a tile; `last`: C text, what
 * holds of that one.  A wait for a phase's parity also passes if the phase
 * before has not ended, so a team may wait for a stage only after all stages
 * before it have arrived, which are the other team's.
 */
static void
end_turn(struct cu_func *f, const struct dot90 *p, const char *last)
{
	if (p->teams == 1 || !p->takes) {
		return;
	}
	if (*last) {
		cu_line(f, "if (%s) {", last);
	}
	dot90_pass_turn(f, p, arena_printf(f->k->c->a, "slot + (u32)(%s)",
		p->splits > 1 ? "steps" : dot90_steps_text(f, p, "tile")));
	if (*last) {
		cu_line(f, "}");
	}
}

/* Products of the stages up to `end` (C text), the last of which runs. */
static void
put_stages(struct cu_func *f, const struct dot90 *p, const char *end)
{
	cu_line(f, "{");
	if (!p->takes || p->has->promotes) {
		cu_line(f, "mbar_wait(full + 8 * stage, parity);");
	}
	put_products(f, p, true);
	cu_line(f, "}");
	if (p->adds) {
		dot90_add_load(f, p);
	}
	cu_line(f, "for (int q = 1; q < %s; q++) {", end);
	cu_line(f, "const int before = stage;");
	dot90_next_stage(f, p);
	cu_line(f, "mbar_wait(full + 8 * stage, parity);");
	put_products(f, p, false);
	cu_line(f, "wg_wait(1);");
	put_release(f, p, "before");
	cu_line(f, "}");
}

/* Some stages at a time, whose sums are added to d. */
static void
put_promoted(struct cu_func *f, const struct dot90 *p, const char *steps)
{
	cu_line(f, "UNROLL");
	cu_line(f, "for (int j = 0; j < %lld; j++) {", nsums(p));
	cu_line(f, "d[j] = 0;");
	cu_line(f, "}");
	cu_line(f, "for (int left = %s; left > 0; left -= %d) {", steps,
		CU_PROMOTED);
	cu_line(f, "const int most = left < %d ? left : %d;", CU_PROMOTED,
		CU_PROMOTED);
	put_stages(f, p, "most");
	end_turn(f, p, arena_printf(f->k->c->a, "left <= %d", CU_PROMOTED));
	cu_line(f, "wg_wait(0);");
	put_release(f, p, "stage");
	cu_promote(f, nsums(p), "d[j]");
	dot90_next_stage(f, p);
	cu_line(f, "}");
}

static void
put_sums(struct cu_func *f, const struct dot90 *p)
{
	const char *steps = p->splits > 1 ? "steps"
		: dot90_steps_text(f, p, "tile");

	if (p->splits > 1) {
		cu_line(f, "const int steps = %s;",
			dot90_steps_text(f, p, "tile"));
	}
	if (p->has->promotes) {
		put_promoted(f, p, steps);
		return;
	}
	put_stages(f, p, steps);
	end_turn(f, p, "");
	cu_line(f, "wg_wait(0);");
	cu_line(f, "wg_sums(d, %lld);", nsums(p));
	put_release(f, p, "stage");
	if (p->teams == 1 && p->takes) {
		dot90_next_stage(f, p);
	}
}

/* A tile: its products, and what becomes of their sums. */
static bool
put_tile(struct cu_func *f, const struct dot90 *p)
{
	struct cu_place m, n;
	bool done = true;

	dot90_places(f, p, &m, &n);
	if (p->adds) {
		dot90_add_place(f, p, &m);
	}
	put_sums(f, p);
	if (p->beside) {
		dot90_beside_item(f, p);
	} else {
		done = dot90_put_item(f, p, p, &m, NULL);
	}
	dot90_used(f, &m, &n);
	return done;
}

static bool
put_team(struct cu_func *f, struct dot90 *p)
{
	bool done = true;
	uint32_t i;

	/* 64512 of 65536 registers: see dot90_regs */
	cu_line(f, "regs_more(%d);", dot90_regs(p, false));
	cu_line(f, "f32 d[%lld];", nsums(p));
	if (p->has->promotes) {
		cu_line(f, "f32 part[%lld];", nsums(p));
	}
	if (p->teams > 1) {
		cu_line(f, "const int team = TID / 128 - 1, group = 0;");
	} else {
		cu_line(f, "const int team = 0, group = TID / 128 - 1;");
	}
	cu_line(f, p->teams > 1 && p->takes ? "u32 slot = 0;"
		: "int stage = 0, parity = 0;");
	if (p->adds) {
		dot90_add_open(f, p);
	}
	if (p->beside) {
		dot90_beside_open(f);
	}
	dot90_sums_at(f, p);
	if (p->takes) {
		dot90_open_taken(f, p);
	} else {
		dot90_open_tile(f, p, p->teams > 1 ? "team == 0" : NULL);
	}
	for (i = 0; done && i < dot90_nmembers(p); i++) {
		dot90_open_member(f, p, i);
		done = put_tile(f, dot90_member(p, i));
	}
	dot90_close_members(f, p);
	cu_line(f, "}");
	if (dot90_any_box(p)) {
		dot90_store_end(f);
	}
	if (p->beside) {
		dot90_beside_end(f, p);
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
	cu_fetch_maps(f);
	cu_line(f, "for (int i = 0; i < %lld; i++) {", (long long)p->ring);
	cu_line(f, "mbar_init(full + 8 * i, 1);");
	cu_line(f, "mbar_init(empty + 8 * i, %lld);", (long long)(p->cluster *
		(p->has->tensor ? 1 + p->takes : 4 * p->groups)));
	cu_line(f, "}");
	if (p->has->tensor) {
		dot90_tensor_bars(f, p);
	}
	if (p->adds) {
		dot90_add_bars(f, p);
	}
	if (p->takes) {
		dot90_take_bars(f, p);
	}
	if (p->beside) {
		dot90_beside_bars(f, p);
	}
	cu_line(f, "fence_mbar_init();");
	cu_line(f, "}");
	if (p->has->tensor) {
		dot90_tensor_open(f, p);
	} else {
		cu_line(f, p->cluster > 1 ? "cluster_sync();"
			: "sync_block();");
	}
	cu_launch_wait(f);
}

static void
put_sizes(struct cu_func *f, const struct dot90 *p, const struct cu_dot *x)
{
	cu_comment(f, "%lld x %lld x %lld by %lld, %s and %s",
		   (long long)x->m.size, (long long)x->n.size,
		   (long long)x->over.size, (long long)x->batch.size,
		   p->side[0].by_k ? "k dense" : "m dense",
		   p->side[1].by_k ? "k dense" : "n dense");
}

static void
put_words(struct cu_func *f, struct dot90 *p)
{
	const struct cu_dot *d = p->d;
	uint32_t i;

	for (i = 0; !p->nterms && i < dot90_nmembers(p); i++) {
		put_sizes(f, p, dot90_member(p, i)->d);
	}
	for (i = 0; i < p->nterms; i++) {
		put_sizes(f, p, p->term[i].d);
	}
	cu_comment(f,
		   "%lld tiles of %lld x %lld, %lld stages of %lld of k, %lld "
		   "of them in the ring",
		   (long long)p->tiles, (long long)p->rows, (long long)p->cols,
		   (long long)dot90_all_stages(p), (long long)dot90_k(d),
		   (long long)p->ring);
	for (i = 0; p->whole > 0 && i < dot90_nmembers(p); i++) {
		cu_comment(f, "after the products: some %.0f issue slots of a "
			   "thread", dot90_put_slots(dot90_member(p, i)));
		if (dot90_member(p, i)->beside) {
			cu_comment(f, "beside the next ones: some %.0f of one "
				   "of %lld", dot90_beside_slots(dot90_member(
					p, i)), (long long)DOT90_BESIDE);
		}
	}
	if (p->splits > 1) {
		cu_comment(f,
			   "tiles from %lld on in %lld parts, %lld stages each",
			   (long long)p->whole, (long long)p->splits,
			   (long long)p->steps);
	}
}

/* Appends the maps of a contraction; an operand that the first one has too is
 * its map. */
static void
add_maps(struct cu_func *f, struct dot90 *p, const struct dot90 *first)
{
	struct arena *a = f->k->c->a;
	int i;

	dot90_terms_maps(f, p);
	for (i = 0; i < 2 && !p->nterms; i++) {
		if (p != first && i == p->by_rows) {
			p->side[i].at = first->side[i].at;
			continue;
		}
		p->side[i].at = f->grid->maps.n;
		VEC_PUSH(a, &f->grid->maps, p->side[i].map);
	}
	if (p->adds) {
		p->in_at = f->grid->maps.n;
		VEC_PUSH(a, &f->grid->maps, p->in);
	}
	if (p->box) {
		p->out_at = f->grid->maps.n;
		VEC_PUSH(a, &f->grid->maps, p->out);
	}
}

bool
dot90_emit(struct dot90 *p)
{
	struct cu_kernel *k = p->d->k;
	struct cu_func f;
	uint32_t i;
	bool done;

	cu_func_begin(k, "dot", &f);
	f.minblocks = 1;
	f.grid->threads = 384;
	f.grid->cluster = p->cluster;
	f.grid->blocks[0] = p->items < p->blocks ? p->items
		: p->blocks / p->cluster * p->cluster;
	p->takes = p->items > f.grid->blocks[0];
	f.grid->smem_bytes = dot90_bars_at(p) +
			     (p->takes || p->beside ? DOT90_TAKE_BYTES : 256);
	for (i = 0; i < dot90_nmembers(p); i++) {
		struct dot90 *q = dot90_member(p, i);

		q->takes = p->takes;
		add_maps(&f, q, i ? dot90_member(p, 0) : q);
	}
	dot90_order_emit(&f, p);
	dot90_steps_emit(&f, p);
	put_words(&f, p);
	put_barriers(&f, p);
	cu_line(&f, "if (TID < 128) {");
	done = put_producer(&f, p);
	cu_line(&f, "} else {");
	done = (p->has->tensor ? dot90_tensor_team(&f, p)
			       : put_team(&f, p)) && done;
	cu_line(&f, "}");
	if (p->has->tensor) {
		dot90_tensor_close(&f, p);
	} else if (p->cluster > 1) {
		cu_comment(&f,
			   "The other block may still copy to this one, and "
			   "say so here.");
		cu_line(&f, "cluster_sync();");
	}
	cu_func_end(&f);
	return done;
}

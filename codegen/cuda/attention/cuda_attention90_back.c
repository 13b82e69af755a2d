/*
 * The gradients of attention with the copying unit: with wgmma (sm_90a); what
 * differs with tcgen05 (sm_100a) is in cuda_attention90_back_tensor.c.  A block
 * has 128 rows: queries of a head, for DQ, or keys of a kv head, for DK and DV.
 * One warpgroup loads columns, 64 at a time, into a ring of three stages; two
 * multiply, 64 rows each:
 *
 *	S = X0 Y0^T	dP = X1 Y1^T	DV += P Y1	DX += dS Y0
 *
 * The left operands of the last two products are in registers, as the first
 * two left them; the right ones are the same tiles, transposed by their
 * descriptors.  If columns are queries, threads of the first warpgroup load
 * the numbers that each of them has.
 */
#include "codegen/cuda/attention/cuda_attention90_back.h"

#define MOST_STAGES 3	/* the last product of one is still under way */
#define LEAST_STAGES 2
#define BARRIERS 64	/* bytes */
/* As many blocks as keep all multiprocessors busy, though blocks of causal
 * attention take different times. */
#define WAVES 2
#define MOST_APART 8		/* blocks of a cluster */

/* The shares of mma's rate are guesses: 0.45 of wgmma's, which is twice as
 * much, and 0.6 of tcgen05's, four times as much.  Products with 64 columns by
 * tcgen05 read more of the shared memory in a cycle than it has. */
static const struct ca90_back_unit wgmma = {
	.cols = { 64 }, .wide = CA_MOST_OUT, .values = CA_MOST_OUT,
	.arrivals = CA90_CONSUMERS / 32, .bars = BARRIERS, .reached = { 0.9 }
}, tcgen05 = {
	.tensor = true, .cols = { 128, 64 }, .wide = CG_TENSOR_HEAD,
	.values = CG_TENSOR_VALUES, .arrivals = 1,
	.bars = BARRIERS + CA90_BACK_BARS, .reached = { 2.4, 1.8 }
};

/* ---- how it is cut up ---- */

/*
 * Blocks of keys are few where few kv heads have many queries: then the heads
 * of a kv head are divided over the blocks of a cluster, the least number that
 * makes blocks enough.  Queries have blocks for each head anyway.
 */
static int64_t
apart_of(const struct ca_back *s)
{
	const struct attn *t = s->t;
	const struct cg_cuda *c = t->k->c;
	int64_t most = WAVES * c->units, best = 1, n;

	for (n = 2; s->keys && t->heads_together && n <= MOST_APART &&
		    s->blocks * t->kv * t->batches * best < most; n++) {
		best = t->shared % n == 0 ? n : best;
	}
	return best;
}

static void
lay_out_numbers(struct ca90_back *p, int64_t at)
{
	struct ca_back *s = &p->s;

	p->numbers = at;
	s->lse = at;
	s->delta = s->lse + 4 * s->form.cols;
	s->from = s->delta + 4 * s->form.cols;
	s->to = s->from + 4 * s->form.cols;
	p->bars = at + s->form.stages * ca90_back_numbers(p);
	s->smem = p->bars + p->unit->bars + (p->joint ? CA90_JOINT_BARS : 0);
}

/* The number of columns of a result that a block has. */
static int64_t
out_of(int64_t cols)
{
	return cols > CA_MOST_OUT ? attn_round_up(cols, CA90_BOX_COLS)
				  : ca_wide(cols);
}

static void
lay_out(struct ca90_back *p)
{
	struct ca_back *s = &p->s;
	int64_t most = s->out_slope > CA_MOST_OUT ? s->out_slope : CA_MOST_OUT;
	int64_t put = 4 * CA90_ROWS * ca_stage_pitch(most), at;

	s->gather = put;
	put += s->apart > 1 ? 4 * ca_ceil_div(CA90_ROWS, s->apart) *
			      ca_stage_pitch(most) : 0;
	p->x[1].at = p->x[0].bytes;
	p->ring = p->x[1].at + p->x[1].bytes;
	p->y[0].at = p->ring;
	if (p->unit->tensor) {
		p->step[0] = p->y[0].bytes;
		p->step[1] = p->y[1].bytes;
		p->y[1].at = p->ring + s->form.stages * p->step[0];
		at = p->y[1].at + p->stages1 * p->step[1];
	} else {
		p->step[0] = p->step[1] = p->y[0].bytes + p->y[1].bytes;
		p->y[1].at = p->ring + p->y[0].bytes;
		at = p->ring + s->form.stages * p->step[0];
	}
	if (p->joint) {
		p->slopes = attn_round_up(at, 1024);
		p->part = p->slopes + 2 * CA90_ROWS * CA90_BOX_ROW;
		at = p->part + CA90_JOINT_PARTS * 4 * ca90_joint_elems(p);
	}
	lay_out_numbers(p, at > put ? at : put);
}

/* Whether so many stages fit. */
static bool
fit(struct ca90_back *p, int64_t stages, int64_t stages1)
{
	p->s.form.stages = stages;
	p->stages1 = stages1;
	lay_out(p);
	return p->s.smem <= p->s.t->k->c->arch->smem_bytes;
}

/* With tiles of that many columns, and as many stages as fit, tiles 0 first,
 * which are used for longer.  False: none do. */
static bool
fits(struct ca90_back *p, int nth)
{
	struct ca_back *s = &p->s;
	int64_t cols = p->unit->cols[nth];

	s->form = (struct ca_form){ .warps = CA90_CONSUMERS / 32, .mt = 1,
				    .cols = cols, .teams = 1,
				    .reached = p->unit->reached[nth] };
	if (p->unit->tensor &&
	    2 * cols + s->out_slope + s->out_weight > CA_TC_COLUMNS) {
		return false;
	}
	return fit(p, MOST_STAGES, MOST_STAGES) ||
	       (p->unit->tensor && fit(p, MOST_STAGES, LEAST_STAGES)) ||
	       fit(p, LEAST_STAGES, LEAST_STAGES);
}

static void
begin(struct ca90_back *p)
{
	struct ca_back *s = &p->s;

	s->rows = CA90_ROWS;
	s->blocks = ca_ceil_div(s->keys ? s->t->keys : s->t->queries, s->rows);
	s->threads = CA90_CONSUMERS;
	s->thread = "(TID - 128)";
	s->meet = "sync_named(1, 256);";
	s->scales = !p->unit->tensor;
	s->loads = p->unit->tensor ? "TID - 64" : NULL;
	s->loaders = CA90_BRINGERS;
	s->out_slope = out_of(s->t->d);
	s->out_weight = s->weight ? out_of(s->t->dv) : 0;
	s->out_blocks = 1;
	s->apart = p->joint ? p->how.apart : apart_of(s);
}

/* Finds tiles of rows, and of `cols` columns.  False: the copying unit cannot
 * read one. */
static bool
find_sides(struct ca90_back *p, int64_t cols)
{
	const struct attn *t = p->s.t;
	/* whether queries, and whether keys, are columns */
	uint32_t q = p->s.keys, k = !p->s.keys;
	int64_t queries = q ? cols : CA90_ROWS, keys = k ? cols : CA90_ROWS;

	return ca_side_of(t, ATTN_Q, queries, q ? &p->y[0] : &p->x[0]) &&
	       ca_side_of(t, ATTN_K, keys, k ? &p->y[0] : &p->x[0]) &&
	       ca_side_of(t, ATTN_V, keys, k ? &p->y[1] : &p->x[1]) &&
	       ca_side_of(t, ATTN_G, queries, q ? &p->y[1] : &p->x[1]);
}

bool
ca90_back_suits(struct ca90_back *p)
{
	const struct ca_back *s = &p->s;
	const struct attn *t = s->t;
	const struct cu_arch *arch = t->k->c->arch;
	int i;

	p->unit = arch->tcgen05 ? &tcgen05 : &wgmma;
	if ((!arch->wgmma && !p->unit->tensor) || t->tile == IR_F32 ||
	    t->d > p->unit->wide || t->dv > p->unit->values ||
	    !s->slope || s->weight != s->keys || t->queries <= CA90_FEW ||
	    t->keys <= CA90_FEW) {
		return false;
	}
	begin(p);
	for (i = 0; i < 2 && p->unit->cols[i]; i++) {
		if (find_sides(p, p->unit->cols[i]) && fits(p, i)) {
			return true;
		}
	}
	return false;
}

static void
put_maps(struct ca90_back *p)
{
	struct ca_side *all[4];
	struct cu_func *f = &p->s.f;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		all[p->x[i].number] = &p->x[i];
		all[p->y[i].number] = &p->y[i];
	}
	for (i = 0; i < 4; i++) {
		VEC_PUSH(f->k->c->a, &f->grid->maps, all[i]->map);
	}
}

/* ---- the warpgroup that loads ---- */

static void
put_barriers(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "const u32 sm = smem_addr(SMEM);");
	cu_line(f, "const u32 bars = sm + %lld;", (long long)p->bars);
	cu_line(f, "const u32 full = bars + 8, empty = full + %d;",
		8 * (int)p->s.form.stages);
	if (p->joint) {
		ca90_joint_declare(p);
	}
	cu_line(f, "if (TID == 0) {");
	cu_fetch_maps(f);
	cu_line(f, "mbar_init(bars, 1);");
	cu_line(f, "for (int i = 0; i < %d; i++) {", (int)p->s.form.stages);
	cu_line(f, "mbar_init(full + 8 * i, %d);",
		p->s.keys ? CA90_BRINGERS + 1 : 1);
	cu_line(f, "mbar_init(empty + 8 * i, %d);", (int)p->unit->arrivals);
	cu_line(f, "}");
	if (p->unit->tensor) {
		ca90_back_bars(p);
	} else if (p->joint) {
		ca90_joint_bars(p);
	}
	cu_line(f, "fence_mbar_init();");
	cu_line(f, "}");
	if (p->unit->tensor) {
		ca90_back_open(p);
	} else if (!p->joint) {
		cu_line(f, "sync_block();");
	}
	cu_launch_wait(f);
}

static void
meet_cluster(struct ca_back *s)
{
	int i;

	if (s->apart > 1) {
		cu_line(&s->f, "sync_warp();");
	}
	for (i = 0; i < ca_back_meetings(s); i++) {
		cu_line(&s->f, "cluster_sync();");
	}
}

/*
 * Sums of DK and DV, of S and of dP, and the left operand of the product that
 * runs into the next turn are 208 registers.  128 threads of 24 and 256 of 240
 * have 64512 of 65536, and so have those of 40 and of 232.
 */
static bool
is_tight(const struct ca90_back *p)
{
	return p->s.weight;
}

/* What some warps do in each half. */
static void
put_part(struct ca90_back *p, void (*part)(struct ca90_back *))
{
	ca90_joint_open_half(p);
	part(p);
	meet_cluster(&p->s);
	ca90_joint_close_half(p);
}

static void
put_producer(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "regs_fewer(%d);", p->unit->tensor ? CA_TC_FEWER
		: is_tight(p) ? 24 : 40);
	if (p->joint) {
		cu_line(f, "if (TID < %d) {", CA90_BRINGERS);
		put_part(p, ca90_back_load);
		cu_line(f, "} else {");
		put_part(p, ca90_joint_add);
		cu_line(f, "}");
		return;
	}
	ca90_back_load(p);
	if (p->unit->tensor) {
		ca90_back_multiply(p);
	}
	meet_cluster(&p->s);
}

/* ---- those that multiply ---- */

/* Emits DV += P Y1, which runs while dP is made. */
static void
with_weights(struct ca90_back *p)
{
	struct ca_back *s = &p->s;
	struct cu_func *f = &s->f;

	ca_wg_pack(f, s->t, "p", "s", s->form.cols);
	ca90_back_tile(p, "z1", 1, "stage", true);
	cu_line(f, "wg_fence();");
	ca_wg_on(f, s->t, "dv", s->out_weight, "p", &p->y[1], "z1");
	ca_wg_wait(f, 1, "ds", s->form.cols);
}

/* Frees the stage of the tile before, whose products are done. */
static void
release(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	if (p->s.keys) {
		/* otherwise only products read the stage, and wg_wait is the
		 * warp's */
		cu_comment(f, "all lanes have read what the stage's columns "
			   "have");
		cu_line(f, "sync_warp();");
	}
	cu_line(f, "if (LANE == 0 && it > 0) {");
	cu_line(f, "mbar_arrive(empty + 8 * ((it - 1) %% %d));",
		(int)p->s.form.stages);
	cu_line(f, "}");
}

/* Waits for what adds to sums. */
static void
wait_for_sums(struct ca_back *s)
{
	ca_wg_wait(&s->f, 0, "dx", s->out_slope);
	if (s->weight) {
		ca_wg_pin(&s->f, "dv", s->out_weight);
	}
}

/*
 * The product that adds to DX is still under way when the next tile's first
 * two begin, and is waited for together with the first of these.
 */
static void
put_turn(struct ca90_back *p)
{
	struct ca_back *s = &p->s;
	struct cu_func *f = &s->f;
	const struct attn *t = s->t;
	int cols = (int)s->form.cols;

	cu_line(f, "const int stage = it %% %d;", (int)s->form.stages);
	ca90_back_columns(p);
	cu_line(f, "f32 s[1][%d][4], ds[1][%d][4];", cols / 8, cols / 8);
	ca90_back_tile(p, "y0", 0, "stage", false);
	ca90_back_tile(p, "y1", 1, "stage", false);
	ca90_back_wait(p, 0);
	cu_line(f, "wg_fence();");
	ca_wg_pairs(f, t, "s", &p->x[0], "x0", &p->y[0], "y0");
	ca_wg_pairs(f, t, "ds", &p->x[1], "x1", &p->y[1], "y1");
	ca_wg_wait(f, 1, "s", cols);
	release(p);
	ca_back_weigh(s);
	if (p->joint) {
		ca90_joint_mask(p);
	}
	if (s->weight) {
		with_weights(p);
	} else {
		ca_wg_pin(f, "s", cols);
		ca_wg_wait(f, 0, "ds", cols);
	}
	ca_back_slope(s);
	ca_wg_pack(f, t, "q", "s", cols);
	ca90_back_tile(p, "z0", 0, "stage", true);
	if (p->joint) {
		ca90_joint_share(p);
	}
	cu_line(f, "wg_fence();");
	ca_wg_on(f, t, "dx", s->out_slope, "q", &p->y[0], "z0");
	if (p->joint) {
		ca90_joint_put(p);
	} else if (s->weight) {
		ca_wg_wait(f, 1, "dv", s->out_weight);
	}
}

static bool
put_consumers(struct ca90_back *p)
{
	struct ca_back *s = &p->s;
	struct cu_func *f = &s->f;
	int steps = (int)s->form.cols / 16, i;
	bool done;

	cu_line(f, "regs_more(%d);", is_tight(p) ? 240 : 232);
	cu_comment(f, "rows g and g + 8 of the warp's 16 are this thread's");
	cu_line(f, "const int g = LANE / 4;");
	cu_line(f, "const int wrow = (WARP - 4) * 16;");
	ca90_declare_group(f);
	ca90_joint_open_half(p);
	if (!s->keys) {
		ca_declare_pointer(f, s->t, &s->t->in[ATTN_L], "l", "head");
		ca_declare_pointer(f, s->t, &s->t->in[ATTN_DELTA], "dt",
				   "head");
		ca_back_rows(s);
	}
	ca_back_begin(s);
	cu_line(f, "if (count > 0) {");
	for (i = 0; i < 2; i++) {
		cu_line(f, "const u64 x%d = wg_desc(sm + %lld + %d * group, "
			"16, 1024, 128);", i, (long long)p->x[i].at,
			CA90_GROUP_ROWS * CA90_BOX_ROW);
	}
	if (p->joint) {
		ca90_joint_keys(p);
	}
	cu_line(f, "u32 %sq[%d][4];", s->weight ?
		arena_printf(f->k->c->a, "p[%d][4], ", steps) : "", steps);
	cu_line(f, "mbar_wait(bars, %s);", p->paired ? "half" : "0");
	if (p->paired) {
		cu_comment(f, "counted: a division takes some 25 instructions");
		cu_line(f, "int nth = 0;");
		s->nth = "nth";
	}
	ca90_back_each(p);
	put_turn(p);
	if (p->paired) {
		cu_line(f, "nth = nth + 1 < tiles ? nth + 1 : 0;");
	}
	cu_line(f, "}");
	wait_for_sums(s);
	cu_line(f, "}");
	if (p->paired) {
		s->thread = "(thread_again() - 128)";
	}
	done = ca_back_put(s);
	ca90_joint_close_half(p);
	return done;
}

/* ---- all of it ---- */

bool
ca_back90_takes(const struct ca_back *asked)
{
	struct ca90_back p = { .s = *asked };

	return ca90_back_suits(&p);
}

bool
ca_back90_candidate(const struct ca_back *asked, struct cu_candidates *w)
{
	struct ca90_back p = { .s = *asked };

	return ca90_back_suits(&p) &&
	       ca_candidates_add(p.s.t, w, &p.s.form, p.s.rows,
				 ca_back_products(&p.s));
}

bool
ca_back90(const struct ca_back *asked)
{
	struct ca90_back p = { .s = *asked };

	if (!ca90_back_suits(&p)) {
		die("wgmma was a candidate");
	}
	return ca90_back_emit(&p);
}

/* Where a block's rows are. */
static void
put_place(struct ca90_back *p)
{
	if (p->joint) {
		ca90_joint_open(p);
		ca90_joint_place(p);
	} else {
		ca_back_place(&p->s);
		ca_back_kv(&p->s);
	}
	if (!p->paired) {
		ca_back_columns(&p->s);
	}
}

bool
ca90_back_emit(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;
	bool done;

	cu_func_begin(p->s.t->k, p->joint ? "attention_joint" : p->s.keys
		      ? "attention_keys" : "attention_queries", f);
	ca_back_open(&p->s);
	if (p->joint) {
		cu_comment(f, "a tile that no mask cuts: some %d issue slots "
			   "of a thread", COST_JOINT_SLOTS / 2);
	}
	f->grid->threads = CA90_PRODUCER + CA90_CONSUMERS;
	put_maps(p);
	put_barriers(p);
	put_place(p);
	cu_line(f, "if (TID < %d) {", CA90_PRODUCER);
	put_producer(p);
	cu_line(f, "} else {");
	done = p->unit->tensor ? ca90_back_weigh(p) : put_consumers(p);
	cu_line(f, "}");
	if (p->unit->tensor) {
		ca_tc_close(f);
	}
	if (done) {
		cu_func_end(f);
	}
	return done;
}

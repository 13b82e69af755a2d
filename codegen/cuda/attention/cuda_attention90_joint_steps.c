/*
 * The steps of all three gradients of attention, where one kernel makes them
 * (cuda_attention90_joint.c): numbers in shared scratch begin as zeros, the
 * kernel makes sums of DQ there, and the last step scales and stores them.  If
 * those of all heads are too many bytes, some kv heads follow after others.
 */
#include "codegen/cuda/attention/cuda_attention90_back.h"

#define THREADS 256
#define FINISH_THREADS 128	/* 64 rows of four warps */

static struct cost_gradients
gradients_of(const struct attn *t)
{
	const struct cg_cuda *c = t->k->c;

	return (struct cost_gradients){
		.batches = t->batches, .kv = t->kv, .shared = t->shared,
		.queries = t->queries, .keys = t->keys, .d = t->d, .dv = t->dv,
		.causal = t->causal, .units = c->units,
		.scratch = c->joint_scratch ? c->joint_scratch
					    : COST_JOINT_SCRATCH
	};
}

/* Of a launch: its sums and numbers. */
static int64_t
scratch_bytes(const struct ca90_back *p)
{
	const struct cost_gradients g = gradients_of(p->s.t);

	return cost_joint_bytes(&g, p->how.pairs);
}

/* Heads of a launch; and sums of tiles that these have. */
static int64_t
all_heads(const struct ca90_back *p)
{
	return p->how.pairs * p->s.t->shared;
}

static int64_t
all_sums(const struct ca90_back *p)
{
	return all_heads(p) * (ca90_joint_tiles(p) + ca90_joint_again(p));
}

/* ---- the steps before and after ---- */

/* Numbers begin as zeros; what is first at a tile of sums stores it. */
static void
clear_step(struct ca90_back *p)
{
	int64_t n = (scratch_bytes(p) - (p->counts - p->sums)) / 16;
	struct cu_func f;

	cu_func_begin(p->s.t->k, "attention_clear", &f);
	f.grid->threads = THREADS;
	f.grid->blocks[0] = ca_ceil_div(n, THREADS);
	cu_line(&f, "const i64 i = (i64)BLOCK_X * %d + TID;", THREADS);
	cu_line(&f, "const u32x4 none = { 0, 0, 0, 0 };");
	cu_line(&f, "if (i < %lld) {", (long long)n);
	cu_line(&f, "st16(a.shared + %lld + i * 16, none);",
		(long long)p->counts);
	cu_line(&f, "}");
	cu_func_end(&f);
}

/* Where a block of the last step is: a tile of queries. */
static void
place_tile(struct ca90_back *p, struct cu_func *f)
{
	struct attn *t = p->s.t;
	long long cols = p->s.form.cols, tiles = ca90_joint_tiles(p);

	cu_line(f, "const int nth = BLOCK_X / %lld + %lld;", tiles,
		(long long)(p->first * t->shared));
	cu_line(f, "const int head = nth %% %lld, bat = nth / %lld;",
		(long long)t->heads, (long long)t->heads);
	cu_line(f, "const int row0 = BLOCK_X %% %lld * %lld;", tiles, cols);
	cu_line(f, "const int live = ca_min(%lld, %lld - row0);", cols,
		(long long)t->queries);
	cu_line(f, "const int g = LANE / 4, wrow = WARP * 16;");
	cu_line(f, "(void)head, (void)bat;");
}

/* Emits dq = the sums at `nth` (C text), as the products left them, or dq +=:
 * those of the second warpgroup are the second half of the columns. */
static void
load_sum(struct ca90_back *p, struct cu_func *f, const char *nth,
	 const char *is)
{
	long long half = p->s.out_slope / 2;

	cu_line(f, "const f32 *from = (const f32 *)(a.shared + %lld) + "
		"(i64)(%s) * %lld + TID * 4;", (long long)p->sums, nth,
		(long long)ca90_joint_elems(p));
	ca_unrolled_for(f, "j", half / 4);
	cu_line(f, "const u32x4 x = ld16(from + (j %% %lld * %d + j / %lld * "
		"%d) * 4);", half / 8, CA90_CONSUMERS, half / 8,
		CA90_CONSUMERS / 2);
	cu_line(f, "dq[0][j][0] %s bits_f32(x.x);", is);
	cu_line(f, "dq[0][j][1] %s bits_f32(x.y);", is);
	cu_line(f, "dq[0][j][2] %s bits_f32(x.z);", is);
	cu_line(f, "dq[0][j][3] %s bits_f32(x.w);", is);
	cu_line(f, "}");
}

/* Late tiles have a sum of late keys, too. */
static void
load_sums(struct ca90_back *p, struct cu_func *f)
{
	long long tiles = (long long)ca90_joint_tiles(p), late = p->late;

	cu_line(f, "f32 dq[1][%lld][4];", (long long)(p->s.out_slope / 8));
	cu_line(f, "{");
	load_sum(p, f, "BLOCK_X", "=");
	cu_line(f, "}");
	if (!p->paired) {
		return;
	}
	cu_line(f, "if (BLOCK_X %% %lld >= %lld) {", tiles, late);
	load_sum(p, f, arena_printf(f->k->c->a, "%lld + BLOCK_X / %lld * %lld "
				    "+ BLOCK_X %% %lld",
				    (long long)all_heads(p) * tiles - late,
				    tiles, (long long)ca90_joint_again(p),
				    tiles), "+=");
	cu_line(f, "}");
}

static bool
finish_step(struct ca90_back *p)
{
	struct ca_back *s = &p->s;
	struct ca_form form = { .warps = FINISH_THREADS / 32, .mt = 1 };
	struct ca_put put = { .r = ATTN_DQ, .rows = s->form.cols,
			      .pitch = ca_stage_pitch(s->out_slope),
			      .cols = s->out_slope, .from = "0",
			      .row = "row0", .live = "live", .head = "head",
			      .threads = FINISH_THREADS, .thread = "TID" };
	struct cu_func f;

	cu_func_begin(s->t->k, "attention_finish", &f);
	f.grid->threads = FINISH_THREADS;
	f.grid->blocks[0] = all_heads(p) * ca90_joint_tiles(p);
	f.grid->smem_bytes = 4 * put.rows * put.pitch;
	place_tile(p, &f);
	load_sums(p, &f);
	ca_stage_sums(&f, &form, "dq", ca_f32(&f, s->t->scale), false,
		      s->out_slope, 0);
	cu_line(&f, "sync_block();");
	if (!ca_put_rows(&f, s->t, &put)) {
		return false;
	}
	cu_func_end(&f);
	return true;
}

/* ---- all of it ---- */

/*
 * Which blocks see a tile must follow from their numbers alone: every query
 * sees all keys, or all up to its own position.
 */
static bool
is_plain(const struct attn *t)
{
	return !t->axes && !attn_is_between(t) && t->window <= 0 &&
	       t->spread[ATTN_QUERIES] == UINT32_MAX &&
	       t->spread[ATTN_KEYS] == UINT32_MAX && t->heads_together &&
	       (!t->causal || (t->queries == t->keys && t->shift == 0));
}

/* Besides what the price asks, too, operands are as the copying unit reads
 * them. */
static bool
suits(struct ca90_back *p)
{
	const struct attn *t = p->s.t;
	const struct cost_gradients g = gradients_of(t);

	p->joint = true;
	p->paired = p->s.turns = cost_joint_is_paired(&g);
	p->late = cost_joint_late(&g);
	if (!is_plain(t) || !t->k->c->arch->wgmma ||
	    !cost_joint_choose(&g, &p->how) || !ca90_back_suits(p)) {
		return false;
	}
	if (p->s.rows != COST_JOINT_KEYS ||
	    p->s.form.cols != COST_JOINT_QUERIES ||
	    p->s.out_slope != COST_JOINT_HEAD) {
		die("tiles of attention's gradients are not those priced");
	}
	return true;
}

#define JOINT "queries+keys+values"	/* as plans name the step */

/* A plan that has a tile of one kernel's step, or of one of the two others',
 * has that code, whatever is predicted. */
bool
ca_back90_joint_pays(const struct ca_back *asked)
{
	const struct attn *t = asked->t;
	const struct cost_gradients g = gradients_of(t);
	struct ca90_back p = { .s = *asked };

	if (!suits(&p)) {
		return false;
	}
	return t->k->c->joint_scratch || ca_candidates_planned(t, JOINT) ||
	       (!ca_candidates_planned(t, "queries") &&
		!ca_candidates_planned(t, "keys+values") &&
		cost_joint_is_less(&g, &p.how));
}

/* The steps of some kv heads. */
static bool
launch(const struct ca90_back *of, int64_t first)
{
	struct ca90_back p = *of;
	struct cu_candidates w;

	p.first = first;
	clear_step(&p);
	ca_candidates_begin(p.s.t, JOINT, &w);
	ca_candidates_add(p.s.t, &w, &p.s.form, p.s.rows,
			  ca_back_products(&p.s) + p.s.t->d);
	if (!ca90_back_emit(&p)) {
		return false;
	}
	cu_candidates_close(p.s.t->k, &w);
	return finish_step(&p);
}

bool
ca_back90_joint(const struct ca_back *asked)
{
	struct ca90_back p = { .s = *asked };
	int64_t all = asked->t->kv * asked->t->batches, i;

	if (!suits(&p)) {
		die("attention that one kernel was chosen for");
	}
	p.sums = attn_alloc_shared(p.s.t->g, scratch_bytes(&p));
	p.counts = p.sums + 4 * all_sums(&p) * ca90_joint_elems(&p);
	p.ticket = p.counts + 4 * all_sums(&p);
	for (i = 0; i < all; i += p.how.pairs) {
		if (!launch(&p, i)) {
			return false;
		}
	}
	return true;
}

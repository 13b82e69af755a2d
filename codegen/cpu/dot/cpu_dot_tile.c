/*
 * The microkernel: a tile of the result stays in registers while a loop over k
 * reads two panels.  Eight rows by three vectors take 24 of 32 registers, and
 * leave some for a row of B and a number of A; sizes that are powers of two or
 * their triples, as in most models, are whole tiles.  With 16 registers a tile
 * has four rows by three vectors.
 */
#include "codegen/cpu/dot/cpu_dot.h"

#include <string.h>

#define UNROLL 4
#define VECTORS 3	/* of a tile's row; in AMX it has two */
#define AHEAD 2048	/* bytes of a panel of A: a microsecond or less */
/*
 * Steps of AMX take 64 cycles each at best, so four are about the latency of
 * the third-level cache.
 */
#define TILES_AHEAD 4

struct dot_unit
dot_unit(struct cg_cpu *c, enum ir_dtype dtype)
{
	struct dot_unit u = { .kind = DOT_FMA, .nv = VECTORS, .per_word = 1,
			      .words = UNROLL, .parts = 1 };

	u.lanes = ll_lanes(c->ll, LL_F32);
	u.mr = u.lanes == 16 ? 8 : 4;
	if (dtype != IR_BF16) {
		return u;
	}
	if (ll_has(c->ll, "amx-bf16") && ll_has(c->ll, "amx-tile")) {
		return (struct dot_unit){
			.kind = DOT_TILES, .lanes = 16, .mr = 32, .nv = 2,
			.per_word = 2, .words = 16, .parts = 1
		};
	}
	if (ll_gains(c->ll, "avx512bf16") && u.lanes == 16) {
		u.kind = DOT_PAIRS;
		u.per_word = 2;
	}
	return u;
}

void
dot_set_panels(struct dot_unit *u, bool panels, enum ll_base base)
{
	u->panels = panels;
	u->parts = !panels ? 1 : base == LL_I8 ? 4 / u->per_word
		: base == LL_BF16 && u->kind == DOT_FMA ? 2 : 1;
	/* of 16 registers some hold what is widened for the next word */
	if (u->kind != DOT_TILES) {
		u->nv = base == LL_BF16 && u->parts == 2 && u->lanes < 16
			? VECTORS - 1 : VECTORS;
	}
}

/* AMX sums up over all of k, which groups cut: it gets scaled numbers. */
struct dot_unit
dot_int4_unit(struct cg_cpu *c, enum ir_dtype dtype)
{
	struct dot_unit u = dot_unit(c, dtype);

	u.scaled = u.kind != DOT_TILES;
	return u;
}

/* ---- in vector registers ---- */

struct dot_tile {
	struct ll *l;
	const struct dot_unit *u;
	uint32_t nv;		/* vectors; at the right end fewer */
	struct ll_value *a, *b, *c, *words, *ldc, *add;
	struct ll_value *next, *next_ld, *lines, *nlines;
	struct ll_value *apart;	/* panels of B: from one to the next */
};

/* Bytes of B from word to word, and where vector v of a word is. */
static int64_t
word_bytes(const struct dot_tile *t)
{
	return t->u->panels ? dot_word_bytes(t->u) : 4 * dot_nr(t->u);
}

static struct ll_value *
vector_at(const struct dot_tile *t, struct ll_value *word, uint32_t v)
{
	return t->u->panels ? ll_plus(t->l, word, ll_mul_n(t->l, t->apart, v))
			    : ll_plus_n(t->l, word, 4 * v * t->u->lanes);
}

struct ll_value *
dot_multiply_add(struct ll *l, const struct dot_unit *u, struct ll_value *a,
		 struct ll_value *b, struct ll_value *sum)
{
	const struct ll_type pairs = ll_type(LL_BF16, 2 * u->lanes);
	struct ll_value *args[3] = { sum, a, b };

	if (u->kind == DOT_FMA && ll_has(l, "fma")) {
		return ll_fma(l, a, b, sum);
	}
	if (u->kind == DOT_FMA) {	/* LLVM would call a library */
		return ll_add(l, ll_bin(l, LL_MUL, a, b), sum);
	}
	args[1] = ll_bits(l, a, pairs);
	args[2] = ll_bits(l, b, pairs);
	return ll_intrinsic(l, "llvm.x86.avx512bf16.dpbf16ps.512",
			    ll_type(LL_F32, u->lanes), args, 3);
}

struct ll_value *
dot_scale_add(struct ll *l, struct ll_value *sum, struct ll_value *scale,
	      struct ll_value *to)
{
	return ll_has(l, "fma") ? ll_fma(l, sum, scale, to)
				: ll_add(l, ll_bin(l, LL_MUL, sum, scale), to);
}

/* A bf16 is the upper half of a float; of a pair the first one is below. */
void
dot_split(struct ll *l, struct ll_value *pairs, struct ll_value *out[2])
{
	const struct ll_type t = ll_typeof(l, pairs);
	const struct ll_type f32 = ll_type(LL_F32, t.lanes);
	struct ll_value *upper = ll_int(l, t, -(int64_t)0x10000);

	out[0] = ll_bin(l, LL_SHL, pairs, ll_int(l, t, 16));
	out[0] = ll_bits(l, out[0], f32);
	out[1] = ll_bits(l, ll_bin(l, LL_AND, pairs, upper), f32);
}

/* Word i of both panels. */
static void
one_word(const struct dot_tile *t, struct ll_value *a, struct ll_value *b,
	 uint32_t i, struct ll_value **sum)
{
	enum ll_base word = t->u->kind == DOT_FMA ? LL_F32 : LL_I32;
	struct ll_value *bv[4], *av;
	uint32_t per = t->u->parts, r, v;

	b = ll_plus_n(t->l, b, i / per * per * word_bytes(t));
	for (v = 0; v < t->nv; v++) {
		struct ll_value *at = vector_at(t, b, v), *half[2];

		if (t->u->panels && i % per == 0) {
			ll_prefetch(t->l, ll_plus_n(t->l, at,
						    DOT_PANEL_AHEAD));
		}
		if (per == 2) {
			at = ll_load(t->l, ll_type(LL_I32, t->u->lanes), at);
			dot_split(t->l, at, half);
			bv[v] = half[i % 2];
			continue;
		}
		bv[v] = ll_load(t->l, ll_type(word, t->u->lanes), at);
	}
	for (r = 0; r < t->u->mr; r++) {
		av = ll_load(t->l, ll_type(word, 1),
			     ll_plus_n(t->l, a, 4 * (i * t->u->mr + r)));
		av = ll_splat(t->l, av, t->u->lanes);
		for (v = 0; v < t->nv; v++) {
			sum[r * t->nv + v] = dot_multiply_add(
				t->l, t->u, av, bv[v], sum[r * t->nv + v]);
		}
	}
}

/* The scales of the columns, which follow the words of B. */
static void
load_scales(const struct dot_tile *t, struct ll_value **scale)
{
	const struct ll_type vec = ll_type(LL_F32, t->u->lanes);
	struct ll_value *at;
	uint32_t v;

	at = ll_plus(t->l, t->b, ll_mul_n(t->l, t->words, 4 * dot_nr(t->u)));
	for (v = 0; v < t->nv; v++) {
		scale[v] = ll_load(t->l, vec, ll_plus_n(t->l, at,
							4 * v * t->u->lanes));
	}
}

/* Stores the sums, or adds them to what is there. */
static void
put_sums(const struct dot_tile *t, struct ll_value *const *sum, bool add)
{
	const struct ll_type vec = ll_type(LL_F32, t->u->lanes);
	struct ll_value *scale[4] = { NULL }, *old;
	uint32_t r, v;

	if (t->u->scaled) {
		load_scales(t, scale);
	}

	for (r = 0; r < t->u->mr; r++) {
		struct ll_value *row = ll_plus(t->l, t->c,
					       ll_mul_n(t->l, t->ldc, r));

		for (v = 0; v < t->nv; v++) {
			struct ll_value *at = ll_plus_n(t->l, row,
							4 * v * t->u->lanes);
			struct ll_value *x = sum[r * t->nv + v];

			old = add ? ll_load(t->l, vec, at)
				  : ll_zero(t->l, vec);
			if (t->u->scaled) {
				x = dot_scale_add(t->l, x, scale[v], old);
			} else if (add) {
				x = ll_add(t->l, x, old);
			}
			ll_store(t->l, x, at);
		}
	}
}

/*
 * Prefetches a part of what is far away, in each of as many stretches of the
 * loop as the tile has rows: all at once it would delay everything else that
 * misses the first-level cache.  Of the tensor that is added to, these are the
 * next tile's rows, as this tile's would come too late if k is short.
 */
static void
prefetch_row(const struct dot_tile *t, struct ll_value *r)
{
	struct ll *l = t->l;
	struct ll_value *row, *lines;
	struct ll_loop i;
	uint32_t v;

	row = ll_plus(l, t->next, ll_bin(l, LL_MUL, r, t->next_ld));
	lines = ll_plus(l, t->lines,
			ll_mul_n(l, ll_bin(l, LL_MUL, r, t->nlines), 8));
	for (v = 0; v < t->nv; v++) {
		ll_prefetch(l, ll_plus_n(l, row, 4 * v * t->u->lanes));
	}
	ll_loop(l, &i, ll_i64(l, 0), t->nlines, 1, NULL, 0);
	ll_prefetch(l, ll_load(l, ll_type(LL_PTR, 1),
			       ll_plus(l, lines, ll_mul_n(l, i.i, 8))));
	ll_loop_end(l, &i, NULL);
}

/* Words of a stretch, of which there are as many as the tile has rows. */
static struct ll_value *
stretch_words(const struct dot_tile *t, struct ll_value *all)
{
	int64_t each = (int64_t)t->u->mr * t->u->words;

	all = ll_add(t->l, all, ll_i64(t->l, each - 1));
	return ll_mul_n(t->l, ll_div_n(t->l, all, each), t->u->words);
}

/* Words `from` to before `to` of both panels. */
static void
words(const struct dot_tile *t, struct ll_value *from, struct ll_value *to,
      struct ll_value **sum)
{
	const struct dot_unit *u = t->u;
	struct ll *l = t->l;
	struct ll_value *a, *b;
	struct ll_loop k;
	uint32_t n = u->mr * t->nv, i;

	ll_loop(l, &k, from, to, u->words, sum, n);
	a = ll_plus(l, t->a, ll_mul_n(l, k.i, 4 * u->mr));
	b = ll_plus(l, t->b, ll_mul_n(l, k.i, word_bytes(t)));
	for (i = 0; i < 4 * u->mr * u->words; i += 64) {
		ll_prefetch(l, ll_plus_n(l, a, AHEAD + i));
	}
	memcpy(sum, k.at, n * sizeof *sum);
	for (i = 0; i < u->words; i++) {
		one_word(t, a, b, i, sum);
	}
	ll_loop_end(l, &k, sum);
	memcpy(sum, k.at, n * sizeof *sum);
}

/* Sums over the stretches from the first one to before the end. */
static void
add_up(const struct dot_tile *t, uint32_t first, uint32_t end,
       struct ll_value **sum)
{
	const struct dot_unit *u = t->u;
	struct ll *l = t->l;
	struct ll_value *step = stretch_words(t, t->words), *from, *to;
	uint32_t n = u->mr * t->nv, k;
	struct ll_loop r;

	for (k = 0; k < n; k++) {
		sum[k] = ll_zero(l, ll_type(LL_F32, u->lanes));
	}
	ll_loop(l, &r, ll_i64(l, first), ll_i64(l, end), 1, sum, n);
	prefetch_row(t, r.i);
	from = ll_bin(l, LL_MUL, r.i, step);
	to = ll_min(l, t->words, ll_add(l, from, step));
	memcpy(sum, r.at, n * sizeof *sum);
	words(t, from, to, sum);
	ll_loop_end(l, &r, sum);
	memcpy(sum, r.at, n * sizeof *sum);
}

/* Stores the sums, or adds them if that is asked for; then goes to `next`. */
static void
put_first(const struct dot_tile *t, struct ll_value *const *sum,
	  struct ll_block *next)
{
	struct ll *l = t->l;
	struct ll_block *more = ll_block(l, NULL, "more");
	struct ll_block *fresh = ll_block(l, NULL, "fresh");

	ll_branch(l, ll_test(l, LL_NE, t->add, ll_i64(l, 0)), more, fresh);
	ll_at(l, more);
	put_sums(t, sum, true);
	ll_jump(l, next);
	ll_at(l, fresh);
	put_sums(t, sum, false);
	ll_jump(l, next);
	ll_at(l, next);
}

/* Of a group of an int4 each half is a sum of its own: of few rows, sums of
 * fewer products wait less for each other. */
static void
in_vectors(const struct dot_tile *t)
{
	uint32_t mr = t->u->mr, first = t->u->scaled ? mr / 2 : mr;
	struct ll_value *sum[LL_CARRY];

	add_up(t, 0, first, sum);
	put_first(t, sum, ll_block(t->l, NULL, "put"));
	if (t->u->scaled) {
		add_up(t, first, mr, sum);
		put_sums(t, sum, true);
	}
	ll_return(t->l, NULL);
}

/* ---- in AMX tiles: 0 to 3 are sums, 4 and 5 of A, 6 and 7 of B ---- */

void
dot_amx(struct ll *l, const char *name, const int *tiles, uint32_t ntiles,
	struct ll_value *at, struct ll_value *apart)
{
	struct ll_value *args[5];
	uint32_t n;

	for (n = 0; n < ntiles; n++) {
		args[n] = ll_int(l, ll_type(LL_I8, 1), tiles[n]);
	}
	if (at) {
		args[n++] = at;
		args[n++] = apart;
	}
	ll_intrinsic(l, name, ll_type(LL_VOID, 1), args, n);
}

static struct ll_value *
tile_of_c(const struct dot_tile *t, int r, int v)
{
	struct ll_value *row = ll_plus(t->l, t->c,
				       ll_mul_n(t->l, t->ldc, 16 * r));

	return ll_plus_n(t->l, row, 64 * v);
}

static void
each_sum(const struct dot_tile *t, const char *name, bool memory)
{
	int r, v;

	for (r = 0; r < 2; r++) {
		for (v = 0; v < (int)t->nv; v++) {
			int sum = 2 * r + v;

			dot_amx(t->l, name, &sum, 1,
			    memory ? tile_of_c(t, r, v) : NULL, t->ldc);
		}
	}
}

/* The tile of A, 0 or 1, or of B whose first word along k is word k. */
static void
load_a(const struct dot_tile *t, int r, struct ll_value *k)
{
	struct ll_value *at = ll_plus(t->l, t->a, ll_mul_n(t->l, k,
							  4 * t->u->mr));

	dot_amx(t->l, "llvm.x86.tileloadd64", (int[]){ 4 + r }, 1,
	    ll_plus_n(t->l, at, 1024 * r), ll_i64(t->l, 64));
}

static void
load_b(const struct dot_tile *t, int v, struct ll_value *k)
{
	int64_t row = word_bytes(t);
	struct ll_value *at = ll_plus(t->l, t->b, ll_mul_n(t->l, k, row));

	dot_amx(t->l, "llvm.x86.tileloadd64", (int[]){ 6 + v }, 1,
	    vector_at(t, at, (uint32_t)v), ll_i64(t->l, row));
}

/*
 * Prefetches the i-th of n parts of a step's lines of both panels, some steps
 * ahead: at least one of them was packed by another step.
 */
static void
prefetch_panels(const struct dot_tile *t, struct ll_value *k, uint32_t i,
		uint32_t n)
{
	int64_t row[3] = { 4 * t->u->mr, word_bytes(t), word_bytes(t) };
	struct ll_value *panel[3] = { t->a, t->b, t->b }, *at;
	int64_t bytes, line;
	int which, panels = t->u->panels ? 1 + (int)t->nv : 2;

	panel[2] = panels == 3 ? vector_at(t, t->b, 1) : t->b;
	for (which = 0; which < panels; which++) {
		bytes = row[which] * t->u->words;
		at = ll_plus(t->l, panel[which], ll_mul_n(t->l, k, row[which]));
		at = ll_plus_n(t->l, at, TILES_AHEAD * bytes);
		for (line = bytes * i / n; line < bytes * (i + 1) / n;
		     line += 64) {
			ll_prefetch(t->l, ll_plus_n(t->l, at, line));
		}
	}
}

/*
 * The products of step k.  Each tile is loaded for step `next` as soon as no
 * product of step k uses it: there are only eight, and loads run beside
 * products.
 */
static void
products(const struct dot_tile *t, struct ll_value *k, struct ll_value *next)
{
	uint32_t r, v;

	for (r = 0; r < 2; r++) {
		for (v = 0; v < t->nv; v++) {
			const int tiles[] = { (int)(2 * r + v), (int)(4 + r),
					      (int)(6 + v) };

			dot_amx(t->l, "llvm.x86.tdpbf16ps", tiles, 3, NULL,
				NULL);
			if (next && r == 1) {
				load_b(t, (int)v, next);
			}
			if (next) {
				prefetch_panels(t, k, r * t->nv + v, 2 * t->nv);
			}
		}
		if (next) {
			load_a(t, (int)r, next);
		}
	}
}

/* A loop of stretches, as with vectors; the last step loads nothing. */
static void
tile_steps(const struct dot_tile *t)
{
	const struct dot_unit *u = t->u;
	struct ll *l = t->l;
	struct ll_value *last = ll_sub(l, t->words, ll_i64(l, u->words));
	struct ll_value *step, *from, *to, *zero = ll_i64(l, 0);
	struct ll_loop r, k;
	int i;

	for (i = 0; i < 2; i++) {
		load_a(t, i, zero);
		if (i < (int)t->nv) {
			load_b(t, i, zero);
		}
	}
	step = stretch_words(t, last);
	ll_loop(l, &r, zero, ll_i64(l, u->mr), 1, NULL, 0);
	prefetch_row(t, r.i);
	from = ll_bin(l, LL_MUL, r.i, step);
	to = ll_min(l, last, ll_add(l, from, step));
	ll_loop(l, &k, from, to, u->words, NULL, 0);
	products(t, k.i, ll_add(l, k.i, ll_i64(l, u->words)));
	ll_loop_end(l, &k, NULL);
	ll_loop_end(l, &r, NULL);
	products(t, last, NULL);
}

static void
in_tiles(const struct dot_tile *t)
{
	struct ll *l = t->l;
	struct ll_block *more = ll_block(l, NULL, "more");
	struct ll_block *fresh = ll_block(l, NULL, "fresh");
	struct ll_block *sums = ll_block(l, NULL, "sums");

	ll_branch(l, ll_test(l, LL_NE, t->add, ll_i64(l, 0)), more, fresh);
	ll_at(l, more);
	each_sum(t, "llvm.x86.tileloadd64", true);
	ll_jump(l, sums);
	ll_at(l, fresh);
	each_sum(t, "llvm.x86.tilezero", false);
	ll_jump(l, sums);
	ll_at(l, sums);
	tile_steps(t);
	each_sum(t, "llvm.x86.tilestored64", true);
	ll_return(l, NULL);
}

void
dot_tiles_begin(struct cg_cpu *c, const struct dot_unit *u)
{
	uint8_t config[64] = { 1 };	/* the palette of 8 tiles */
	struct ll_value *at;
	int i;

	if (u->kind != DOT_TILES) {
		return;
	}
	for (i = 0; i < 8; i++) {
		config[16 + 2 * i] = 64;	/* bytes of a row, u16 */
		config[48 + i] = 16;		/* rows */
	}
	at = ll_bytes(c->ll, config, sizeof config);
	ll_intrinsic(c->ll, "llvm.x86.ldtilecfg", ll_type(LL_VOID, 1), &at, 1);
}

void
dot_tiles_end(struct cg_cpu *c, const struct dot_unit *u)
{
	if (u->kind == DOT_TILES) {
		ll_intrinsic(c->ll, "llvm.x86.tilerelease",
			     ll_type(LL_VOID, 1), NULL, 0);
	}
}

/* ---- whole tiles, and those at the ends of a matrix ---- */

/* Of the unit's function among those of all units. */
static int
number_of(const struct dot_unit *u)
{
	int how = u->parts > 1 ? 3 : u->panels ? 2 : u->scaled;

	return (int)u->kind + how * DOT_NKINDS;
}

/* Of the functions of a whole tile. */
static uint32_t
nargs(const struct dot_unit *u)
{
	return u->panels ? 11 : 10;
}

static struct ll_value *
emit_whole(struct cg_cpu *c, const struct dot_unit *u, uint32_t nv)
{
	const struct ll_type p = ll_type(LL_PTR, 1), n = ll_type(LL_I64, 1);
	const struct ll_type types[] = { p, p, p, n, n, n, p, n, p, n, n };
	struct dot_tile t = { .l = c->ll, .u = u, .nv = nv };
	struct ll_value *f;

	f = ll_func(c->ll, arena_printf(c->a, "dot_%d_%ux%u", number_of(u),
					u->mr, nv * u->lanes),
		    ll_type(LL_VOID, 1), types, nargs(u), false);
	ll_noalias(c->ll, f, 2);
	t.a = ll_param(c->ll, f, 0);
	t.b = ll_param(c->ll, f, 1);
	t.c = ll_param(c->ll, f, 2);
	t.words = ll_param(c->ll, f, 3);
	t.ldc = ll_param(c->ll, f, 4);
	t.add = ll_param(c->ll, f, 5);
	t.next = ll_param(c->ll, f, 6);
	t.next_ld = ll_param(c->ll, f, 7);
	t.lines = ll_param(c->ll, f, 8);
	t.nlines = ll_param(c->ll, f, 9);
	t.apart = u->panels ? ll_param(c->ll, f, 10) : NULL;
	if (u->kind == DOT_TILES) {
		in_tiles(&t);
	} else {
		in_vectors(&t);
	}
	return f;
}

/* The function of dot_tile_func, and those that it calls. */
struct ends {
	struct ll *l;
	const struct dot_unit *u;
	struct ll_value *whole[4];	/* by vectors in a row */
	struct ll_value *arg[11], *rows, *cols;
};

/*
 * Copies the tile's part that is there to the stack, or from it.  What is to be
 * added goes there before the product, so that the sum of an element has the
 * same order in whole tiles and in parts of them.
 */
static void
copy_part(const struct ends *e, struct ll_value *stack, bool back)
{
	const struct ll_type vec = ll_type(LL_F32, e->u->lanes);
	struct ll *l = e->l;
	struct ll_value *at, *far, *mask;
	struct ll_loop r;
	uint32_t v;

	ll_loop(l, &r, ll_i64(l, 0),
		ll_min(l, e->rows, ll_i64(l, e->u->mr)), 1, NULL, 0);
	for (v = 0; v < e->u->nv; v++) {
		int64_t col = v * e->u->lanes;

		mask = ll_mask(l, ll_sub(l, e->cols, ll_i64(l, col)),
			       e->u->lanes);
		at = ll_plus(l, stack, ll_mul_n(l, r.i, 4 * dot_nr(e->u)));
		at = ll_plus_n(l, at, 4 * col);
		far = ll_plus(l, e->arg[2], ll_bin(l, LL_MUL, r.i, e->arg[4]));
		far = ll_plus_n(l, far, 4 * col);
		if (back) {
			ll_store_if(l, ll_load(l, vec, at), far, mask);
		} else {
			ll_store(l, ll_load_if(l, vec, far, mask), at);
		}
	}
	ll_loop_end(l, &r, NULL);
}

/* Calls the tile of nv vectors if there are that many columns. */
static void
call_if_whole(const struct ends *e, uint32_t nv)
{
	struct ll_block *yes = ll_block(e->l, NULL, "yes");
	struct ll_block *no = ll_block(e->l, NULL, "no");
	struct ll_value *n = ll_i64(e->l, (int64_t)nv * e->u->lanes);

	ll_branch(e->l, ll_test(e->l, nv == e->u->nv ? LL_GE : LL_EQ, e->cols,
				n), yes, no);
	ll_at(e->l, yes);
	ll_call(e->l, e->whole[nv], e->arg, nargs(e->u));
	ll_return(e->l, NULL);
	ll_at(e->l, no);
}

/* The product of a part of a tile.  There are as many panels as there are
 * columns; what was packed has whole tiles. */
static void
call_part(const struct ends *e, struct ll_value *const *args)
{
	struct ll *l = e->l;
	struct ll_block *next = ll_block(l, NULL, "next");
	uint32_t nv;

	for (nv = e->u->panels ? 1 : e->u->nv; nv < e->u->nv; nv++) {
		struct ll_block *yes = ll_block(l, NULL, "yes");
		struct ll_block *no = ll_block(l, NULL, "no");

		ll_branch(l, ll_test(l, LL_LE, e->cols, ll_i64(l,
				(int64_t)nv * e->u->lanes)), yes, no);
		ll_at(l, yes);
		ll_call(l, e->whole[nv], args, nargs(e->u));
		ll_jump(l, next);
		ll_at(l, no);
	}
	ll_call(l, e->whole[nv], args, nargs(e->u));
	ll_jump(l, next);
	ll_at(l, next);
}

static void
emit_ends(const struct ends *e)
{
	struct ll *l = e->l;
	const struct dot_unit *u = e->u;
	struct ll_block *rows = ll_block(l, NULL, "rows");
	struct ll_block *part = ll_block(l, NULL, "part");
	struct ll_block *old = ll_block(l, NULL, "old");
	struct ll_block *sums = ll_block(l, NULL, "sums");
	struct ll_value *stack, *args[11];
	uint32_t nv;

	stack = ll_stack(l, ll_type(LL_F32, 1), u->mr * dot_nr(u));
	ll_branch(l, ll_test(l, LL_GE, e->rows, ll_i64(l, u->mr)), rows, part);
	ll_at(l, rows);
	for (nv = u->nv; nv > 0; nv--) {
		call_if_whole(e, nv);
	}
	ll_jump(l, part);
	ll_at(l, part);
	ll_branch(l, ll_test(l, LL_NE, e->arg[5], ll_i64(l, 0)), old, sums);
	ll_at(l, old);
	copy_part(e, stack, false);
	ll_jump(l, sums);
	ll_at(l, sums);
	args[0] = e->arg[0];
	args[1] = e->arg[1];
	args[2] = stack;
	args[3] = e->arg[3];
	args[4] = ll_i64(l, 4 * dot_nr(u));
	memcpy(args + 5, e->arg + 5, 6 * sizeof *args);
	call_part(e, args);
	copy_part(e, stack, true);
	ll_return(l, NULL);
}

struct ll_value *
dot_tile_func(struct cg_cpu *c, const struct dot_unit *u)
{
	const struct ll_type p = ll_type(LL_PTR, 1), n = ll_type(LL_I64, 1);
	const struct ll_type types[] = { p, p, p, n, n, n, p, n, p, n, n, n,
					 n };
	struct ends e = { .l = c->ll, .u = u };
	struct ll_value *f = c->dot[number_of(u)];
	uint32_t i;

	if (f) {
		return f;
	}
	for (i = 1; i <= u->nv; i++) {
		e.whole[i] = emit_whole(c, u, i);
	}
	f = ll_func(c->ll, arena_printf(c->a, "dot_%d", number_of(u)),
		    ll_type(LL_VOID, 1), types, nargs(u) + 2, false);
	for (i = 0; i < 10; i++) {
		e.arg[i] = ll_param(c->ll, f, i);
	}
	e.rows = ll_param(c->ll, f, 10);
	e.cols = ll_param(c->ll, f, 11);
	e.arg[10] = u->panels ? ll_param(c->ll, f, 12) : NULL;
	emit_ends(&e);
	c->dot[number_of(u)] = f;
	return f;
}

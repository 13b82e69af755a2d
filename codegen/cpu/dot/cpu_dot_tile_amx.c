/*
 * The microkernel in AMX tiles: 0 to 3 are sums, 4 and 5 of A, 6 and 7 of B.
 */
#include "codegen/cpu/dot/cpu_dot_tile.h"

/*
 * Steps of AMX take 64 cycles each at best, so four are about the latency of
 * the third-level cache.
 */
#define TILES_AHEAD 4

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
	int64_t row = dot_tile_word_bytes(t);
	struct ll_value *at = ll_plus(t->l, t->b, ll_mul_n(t->l, k, row));

	dot_amx(t->l, "llvm.x86.tileloadd64", (int[]){ 6 + v }, 1,
	    dot_tile_vector_at(t, at, (uint32_t)v), ll_i64(t->l, row));
}

/*
 * Prefetches the i-th of n parts of a step's lines of both panels, some steps
 * ahead: at least one of them was packed by another step.
 */
static void
prefetch_panels(const struct dot_tile *t, struct ll_value *k, uint32_t i,
		uint32_t n)
{
	int64_t word = dot_tile_word_bytes(t);
	int64_t row[3] = { 4 * t->u->mr, word, word };
	struct ll_value *panel[3] = { t->a, t->b, t->b }, *at;
	int64_t bytes, line;
	int which, panels = t->u->panels ? 1 + (int)t->nv : 2;

	panel[2] = panels == 3 ? dot_tile_vector_at(t, t->b, 1) : t->b;
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
	step = dot_tile_stretch_words(t, last);
	ll_loop(l, &r, zero, ll_i64(l, u->mr), 1, NULL, 0);
	dot_tile_prefetch_row(t, r.i);
	from = ll_bin(l, LL_MUL, r.i, step);
	to = ll_min(l, last, ll_add(l, from, step));
	ll_loop(l, &k, from, to, u->words, NULL, 0);
	products(t, k.i, ll_add(l, k.i, ll_i64(l, u->words)));
	ll_loop_end(l, &k, NULL);
	ll_loop_end(l, &r, NULL);
	products(t, last, NULL);
}

void
dot_tile_amx(const struct dot_tile *t)
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

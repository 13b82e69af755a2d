/*
 * The microkernel: a tile of the result stays in registers while a loop over k
 * reads two panels.  Eight rows by three vectors take 24 of 32 registers, and
 * leave some for a row of B and a number of A; sizes that are powers of two or
 * their triples, as in most models, are whole tiles.  With 16 registers a tile
 * has four rows by three vectors.
 */
#include "codegen/cpu/dot/cpu_dot_tile.h"

#include <string.h>

#define AHEAD 2048	/* bytes of a panel of A: a microsecond or less */

/* ---- in vector registers ---- */

/* Word i of both panels. */
static void
one_word(const struct dot_tile *t, struct ll_value *a, struct ll_value *b,
	 uint32_t i, struct ll_value **sum)
{
	enum ll_base word = t->u->kind == DOT_FMA ? LL_F32 : LL_I32;
	struct ll_value *bv[4], *av;
	uint32_t per = t->u->parts, r, v;

	b = ll_plus_n(t->l, b, i / per * per * dot_tile_word_bytes(t));
	for (v = 0; v < t->nv; v++) {
		struct ll_value *at = dot_tile_vector_at(t, b, v), *half[2];

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
	b = ll_plus(l, t->b, ll_mul_n(l, k.i, dot_tile_word_bytes(t)));
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
	struct ll_value *step = dot_tile_stretch_words(t, t->words), *from, *to;
	uint32_t n = u->mr * t->nv, k;
	struct ll_loop r;

	for (k = 0; k < n; k++) {
		sum[k] = ll_zero(l, ll_type(LL_F32, u->lanes));
	}
	ll_loop(l, &r, ll_i64(l, first), ll_i64(l, end), 1, sum, n);
	dot_tile_prefetch_row(t, r.i);
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
		dot_tile_amx(&t);
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

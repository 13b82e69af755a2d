/*
 * Packing: from an operand in memory to panels of words.
 *
 * A block of an operand is loaded as vectors along k or along its rows,
 * whichever is contiguous, and transposed in registers if the panel has the
 * other order.  An operand that is contiguous in neither direction is copied
 * element by element.
 */
#include "codegen/cpu/dot/cpu_dot.h"

#define MAX_LANES 16
#define SPAN 64		/* contiguous rows that are read together, at least */
#define AHEAD 8		/* words along k that are prefetched in advance */

/* A packing function that is being emitted. */
struct packer {
	struct ll *l;
	const struct dot_pack *p;
	const struct dot_unit *u;
	uint32_t g;		/* rows of a block */
	bool along_k;		/* loads are along k, not along rows */
	bool int4;		/* what is packed is that */
	int64_t elem_bytes;
	struct dot_size along, apart;	/* of elements along k, and of rows */
	struct ll_value *src, *row, *rows, *k, *kn;	/* parameters */
	struct ll_value *words, *panel_words;
	struct ll_value *turn, *turn_words;	/* of elements, of words */
	struct ll_value *stack, *turned;	/* a block, twice */
	/* of the current block */
	struct ll_value *to;	/* word 0 of its first row */
	struct ll_value *first, *live;	/* its first row; how many */
	struct ll_value *row_at[MAX_LANES];
	int64_t skip;			/* rows, all of them contiguous */
};

int64_t
dot_panel_words_of(const struct dot_unit *u, int64_t kn)
{
	int64_t elems = (int64_t)u->words * u->per_word;

	return (kn + elems - 1) / elems * u->words + u->scaled;
}

struct ll_value *
dot_panel_words(struct ll *l, const struct dot_unit *u, struct ll_value *words)
{
	return u->scaled ? ll_add(l, words, ll_i64(l, 1)) : words;
}

struct ll_value *
dot_words(struct ll *l, const struct dot_unit *u, struct ll_value *kn)
{
	int64_t elems = (int64_t)u->words * u->per_word;

	kn = ll_add(l, kn, ll_i64(l, elems - 1));
	return ll_mul_n(l, ll_div_n(l, kn, elems), u->words);
}

/* ---- loading ---- */

/* n contiguous elements, those of the mask; NULL: all. */
static struct ll_value *
load_elems(const struct packer *b, struct ll_value *at, uint32_t n,
	   struct ll_value *mask)
{
	enum ll_base base = b->elem_bytes == 2 ? LL_I16 : b->p->base;
	struct ll_type t = ll_type(base, n);
	struct ll_value *v = mask ? ll_load_if(b->l, t, at, mask)
				  : ll_load(b->l, t, at);

	if (base == LL_I8) {
		return dot_widen_elems(b->l, v, b->p->dtype,
				       b->u->per_word == 2);
	}
	return base == LL_F32 ? v
			      : ll_bits(b->l, v, ll_type(b->p->base, n));
}

/* Loaded elements as words, `per_word` elements in each. */
static struct ll_value *
as_words(const struct packer *b, struct ll_value *v)
{
	uint32_t n = ll_typeof(b->l, v).lanes;

	if (b->u->per_word == 2) {
		return ll_bits(b->l, v, ll_type(LL_I32, n / 2));
	}
	return ll_cast(b->l, v, LL_F32);
}

/* n int4 of row i from element k on, zeros if the row is not live: all of its
 * groups are whole. */
static struct ll_value *
load_int4s(const struct packer *b, uint32_t i, struct ll_value *k, uint32_t n,
	   bool part)
{
	struct ll *l = b->l;
	struct ll_value *row = b->row_at[i], *is = NULL, *v, *scale;

	if (part) {	/* the first row is live */
		is = ll_test(l, LL_LT, ll_i64(l, i), b->live);
		row = ll_select(l, is, row, b->row_at[0]);
	}
	v = ll_load(l, ll_type(LL_I32, n / 8),
		    ll_plus(l, row, dot_bytes_of(l, b->along, k)));
	if (part) {
		v = ll_select(l, is, v, ll_zero(l, ll_typeof(l, v)));
	}
	if (b->u->kind != DOT_TILES) {
		return dot_widen_int4s(l, v, b->u->per_word == 2);
	}
	scale = ll_mul_n(l, ll_div_n(l, k, IR_GROUP), 2);
	scale = ll_plus(l, row, scale);
	return dot_scale_int4s(l, v, ll_plus_n(l, scale, dot_bytes(b->along,
						b->p->k->size)));
}

/* Words k, k + 1, ... of one row. */
static struct ll_value *
load_along_k(const struct packer *b, uint32_t i, struct ll_value *k, bool part)
{
	uint32_t n = b->u->lanes * b->u->per_word;
	struct ll_value *at, *left, *mask = NULL;

	if (b->int4) {
		k = ll_add(b->l, b->k, k);
		return as_words(b, load_int4s(b, i, k, n, part));
	}
	at = dot_factor_at(b->l, b->p->k, b->p->which,
			   ll_add(b->l, b->k, k), b->along);
	at = ll_plus(b->l, b->row_at[i], at);
	if (part) {
		left = ll_sub(b->l, b->kn, k);
		left = ll_select(b->l, ll_test(b->l, LL_LT, ll_i64(b->l, i),
					       b->live),
				 left, ll_i64(b->l, 0));
		mask = ll_mask(b->l, left, n);
	}
	return as_words(b, load_elems(b, at, n, mask));
}

/* Where element k of the first row lies. */
static struct ll_value *
at_k(const struct packer *b, struct ll_value *k)
{
	struct ll_value *at = dot_factor_at(b->l, b->p->k, b->p->which,
					    ll_add(b->l, b->k, k), b->along);

	return ll_plus(b->l, b->row_at[0], at);
}

/* Element k of the block's rows. */
static struct ll_value *
load_rows(const struct packer *b, struct ll_value *k, bool part)
{
	struct ll_value *at = at_k(b, k), *n, *mask = NULL;

	at = ll_plus_n(b->l, at, b->skip * b->elem_bytes);
	if (part) {
		n = ll_select(b->l, ll_test(b->l, LL_LT, k, b->kn), b->live,
			      ll_i64(b->l, 0));
		mask = ll_mask(b->l, n, b->g);
	}
	return load_elems(b, at, b->g, mask);
}

/* Word k of the block's rows. */
static struct ll_value *
load_along_rows(const struct packer *b, struct ll_value *k, bool part)
{
	struct ll_value *even = load_rows(b, k, part), *odd;
	const struct ll_type half = ll_type(LL_I16, b->g);
	int pick[2 * MAX_LANES];
	uint32_t i;

	if (b->u->per_word == 1) {
		return as_words(b, even);
	}
	odd = load_rows(b, ll_add(b->l, k, ll_i64(b->l, 1)), part);
	for (i = 0; i < b->g; i++) {
		pick[2 * i] = (int)i;
		pick[2 * i + 1] = (int)(b->g + i);
	}
	odd = ll_bits(b->l, odd, half);
	even = ll_bits(b->l, even, half);
	return as_words(b, ll_shuffle(b->l, even, odd, pick, 2 * b->g));
}

/* ---- transposing ---- */

void
dot_transpose(struct ll *l, struct ll_value **v, uint32_t n)
{
	uint32_t lanes = ll_typeof(l, v[0]).lanes, h, i, j;
	int low[MAX_LANES], high[MAX_LANES];

	for (h = 1; h < n; h *= 2) {
		for (j = 0; j < lanes; j++) {
			low[j] = (int)(j & h ? lanes + j - h : j);
			high[j] = (int)(j & h ? lanes + j : j + h);
		}
		for (i = 0; i < n; i++) {
			struct ll_value *a = v[i], *b;

			if (i & h) {
				continue;
			}
			b = v[i + h];
			v[i] = ll_shuffle(l, a, b, low, lanes);
			v[i + h] = ll_shuffle(l, a, b, high, lanes);
		}
	}
}

static struct ll_value *
emit_turn(struct cg_cpu *c, const char *name, enum ll_base base, uint32_t g,
	  uint32_t lanes)
{
	const struct ll_type p = ll_type(LL_PTR, 1), n = ll_type(LL_I64, 1);
	const struct ll_type types[] = { p, n, p, n };
	struct ll *l = c->ll;
	struct ll_value *f = ll_func(l, name, ll_type(LL_VOID, 1), types, 4,
				     false);
	struct ll_value *v[MAX_LANES] = { NULL }, *at;
	int pick[MAX_LANES];
	uint32_t i, j;

	ll_noalias(l, f, 2);
	for (i = 0; i < g; i++) {
		at = ll_plus(l, ll_param(l, f, 0),
			     ll_mul_n(l, ll_param(l, f, 1), i));
		v[i] = ll_cast(l, ll_load(l, ll_type(base, lanes), at),
			       LL_F32);
	}
	dot_transpose(l, v, g);
	for (i = 0; i < lanes; i++) {
		for (j = 0; j < g; j++) {
			pick[j] = (int)(i / g * g + j);
		}
		at = ll_plus(l, ll_param(l, f, 2),
			     ll_mul_n(l, ll_param(l, f, 3), i));
		ll_store(l, g == lanes ? v[i]
				       : ll_shuffle(l, v[i % g], v[i % g],
						    pick, g), at);
	}
	ll_return(l, NULL);
	return f;
}

struct ll_value *
dot_turn_func(struct cg_cpu *c, const struct dot_unit *u, enum ll_base base,
	      uint32_t g)
{
	uint32_t kind = base == LL_F32 ? 0 : base == LL_BF16 ? 1 : 2;
	uint32_t at = 4 * DOT_NKINDS + 5 * kind, i;

	for (i = g; i > 1; i /= 2) {	/* 1, 2, 4, 8 or 16 rows */
		at++;
	}
	if (!c->dot[at]) {
		c->dot[at] = emit_turn(c, arena_printf(c->a, "turn%u", at),
				       base, g, u->lanes);
	}
	return c->dot[at];
}

static void
call_turn(const struct packer *b, struct ll_value *turn, struct ll_value *from,
	  int64_t apart, struct ll_value *to, int64_t to_apart)
{
	struct ll_value *args[] = { from, ll_i64(b->l, apart), to,
				    ll_i64(b->l, to_apart) };

	ll_call(b->l, turn, args, 4);
}

/* ---- storing ---- */

/* Where the word of the block's rows at k begins. */
static struct ll_value *
place(const struct packer *b, struct ll_value *k)
{
	struct ll_value *word = ll_div_n(b->l, k, b->u->per_word);

	return ll_plus(b->l, b->to, ll_mul_n(b->l, word, 4 * b->p->panel_rows));
}

/*
 * A block that is loaded one row at a time, `part`: with fewer rows or words,
 * of which those after the last are not stored.
 */
static void
turn_rows(const struct packer *b, struct ll_value *k, bool part)
{
	struct ll *l = b->l;
	int64_t apart = 4 * b->u->lanes, to_apart = 4 * b->g;
	struct ll_value *left, *from, *to;
	struct ll_loop j;
	uint32_t i;

	for (i = 0; i < b->g; i++) {
		to = ll_plus_n(l, b->stack, i * apart);
		ll_store(l, load_along_k(b, i, k, part), to);
	}
	call_turn(b, b->turn_words, b->stack, apart, b->turned, to_apart);
	left = ll_sub(l, b->words, ll_div_n(l, k, b->u->per_word));
	ll_loop(l, &j, ll_i64(l, 0), ll_min(l, left, ll_i64(l, b->u->lanes)),
		1, NULL, 0);
	to = ll_mul_n(l, j.i, 4 * b->p->panel_rows);
	to = ll_plus(l, place(b, k), to);
	from = ll_plus(l, b->turned, ll_mul_n(l, j.i, to_apart));
	ll_store(l, ll_load(l, ll_type(LL_F32, b->g), from), to);
	ll_loop_end(l, &j, NULL);
}

/* A whole block.  If its rows are a fixed distance apart it is not copied. */
static void
turn_whole(const struct packer *b, struct ll_value *k)
{
	const struct cg_factor *r = b->p->rows;
	int64_t apart = r->n ? r->at[0].stride[b->p->which] : 0;
	struct ll_value *at, *to;

	if (r->n > 1 || b->p->base == LL_I8) {
		turn_rows(b, k, r->n > 1);
		return;
	}
	at = dot_factor_at(b->l, b->p->k, b->p->which,
			   ll_add(b->l, b->k, k), b->along);
	to = place(b, k);
	call_turn(b, b->turn, ll_plus(b->l, b->row_at[0], at),
		  apart * b->elem_bytes, to, 4 * b->p->panel_rows);
}

/* A tile of AMX is 16 rows of 16 words, one row after the other. */
static struct ll_value *
tile_at(const struct packer *b, struct ll_value *k)
{
	return ll_plus(b->l, b->to,
		       ll_mul_n(b->l, ll_div_n(b->l, k, b->u->per_word),
			       4 * b->p->panel_rows));
}

static void
store_tile(const struct packer *b, struct ll_value **v, struct ll_value *k)
{
	struct ll_value *at = tile_at(b, k);
	uint32_t i;

	for (i = 0; i < 16; i++) {
		ll_store(b->l, v[i], ll_plus_n(b->l, at, 64 * i));
	}
}

/* ---- blocks ---- */

/* Elements along k in a block. */
static int64_t
depth(const struct packer *b)
{
	return (b->along_k || b->p->tiles ? b->u->lanes : 1) *
	       b->u->per_word;
}

static void
one_block(const struct packer *b, struct ll_value *k, bool part)
{
	struct ll_value *v[MAX_LANES], *to;
	struct ll *l = b->l;
	uint32_t i;

	if (!b->along_k && !b->p->tiles) {
		to = place(b, k);
		ll_store(l, load_along_rows(b, k, part), to);
	} else if (!b->along_k) {
		for (i = 0; i < b->u->lanes; i++) {
			struct ll_value *at = ll_i64(l, i * b->u->per_word);

			to = ll_plus_n(l, b->stack, 4 * i * b->g);
			at = ll_add(l, k, at);
			ll_store(l, load_along_rows(b, at, part), to);
		}
		call_turn(b, b->turn_words, b->stack, 4 * b->g, tile_at(b, k),
			  64);
	} else if (b->p->tiles) {
		for (i = 0; i < b->g; i++) {
			v[i] = load_along_k(b, i, k, part);
		}
		store_tile(b, v, k);
	} else if (part) {
		turn_rows(b, k, true);
	} else {
		turn_whole(b, k);
	}
}

/* All words of the block's rows: whole blocks, then the rest. */
static void
all_words(struct packer *b)
{
	struct ll *l = b->l;
	struct ll_value *whole, *end;
	struct ll_loop k;
	uint32_t i;

	for (i = 0; i < (b->along_k ? b->g : 1); i++) {
		struct ll_value *at = ll_add(l, b->first, ll_i64(l, i));

		at = dot_factor_at(l, b->p->rows, b->p->which, at, b->apart);
		b->row_at[i] = ll_plus(l, b->src, at);
	}
	whole = ll_mul_n(l, ll_div_n(l, b->kn, depth(b)), depth(b));
	whole = ll_select(l, ll_test(l, LL_GE, b->live, ll_i64(l, b->g)),
			  whole, ll_i64(l, 0));
	end = ll_mul_n(l, b->words, b->u->per_word);
	ll_loop(l, &k, ll_i64(l, 0), whole, depth(b), NULL, 0);
	one_block(b, k.i, false);
	ll_loop_end(l, &k, NULL);
	ll_loop(l, &k, whole, end, depth(b), NULL, 0);
	one_block(b, k.i, true);
	ll_loop_end(l, &k, NULL);
}

/* ---- element by element ---- */

/* Lane i, which is known when the program runs. */
static struct ll_value *
lane_of(const struct packer *b, struct ll_value *v, struct ll_value *i)
{
	const struct ll_type t = ll_typeof(b->l, v);
	struct ll_value *stack = ll_stack(b->l, t, 1);

	ll_store(b->l, v, stack);
	i = ll_mul_n(b->l, i, t.base == LL_F32 ? 4 : 2);
	return ll_load(b->l, ll_type(t.base, 1), ll_plus(b->l, stack, i));
}

/* Element k of row r; 0 after the last one. */
static struct ll_value *
one_elem(const struct packer *b, struct ll_value *r, struct ll_value *k)
{
	struct ll_value *zero = ll_i64(b->l, 0), *is, *row, *at, *v;

	is = ll_test(b->l, LL_LT, k, b->kn);
	is = ll_bin(b->l, LL_AND, ll_test(b->l, LL_LT, r, b->live), is);
	row = ll_select(b->l, is, ll_add(b->l, b->first, r), zero);
	k = ll_select(b->l, is, ll_add(b->l, b->k, k), zero);
	at = dot_factor_at(b->l, b->p->k, b->p->which, b->int4 ?
			   ll_mul_n(b->l, ll_div_n(b->l, k, 8), 8) : k,
			   b->along);
	row = dot_factor_at(b->l, b->p->rows, b->p->which, row, b->apart);
	at = ll_plus(b->l, b->src, ll_add(b->l, row, at));
	v = ll_load(b->l, ll_type(b->int4 ? LL_I32 : b->p->base, 1), at);
	if (b->int4) {
		v = dot_widen_int4s(b->l, v, b->u->per_word == 2);
		v = lane_of(b, v, ll_rem_n(b->l, k, 8));
	} else if (b->p->base == LL_I8) {
		v = dot_widen_elems(b->l, v, b->p->dtype,
				    b->u->per_word == 2);
	}
	if (b->u->per_word == 2) {
		v = ll_bits(b->l, v, ll_type(LL_I16, 1));
		return ll_select(b->l, is, v,
				 ll_int(b->l, ll_type(LL_I16, 1), 0));
	}
	v = ll_cast(b->l, v, LL_F32);
	return ll_select(b->l, is, v, ll_zero(b->l, ll_type(LL_F32, 1)));
}

static void
one_by_one(const struct packer *b)
{
	struct ll *l = b->l;
	int64_t bytes = 4 / b->u->per_word;
	struct ll_value *at, *word, *half;
	struct ll_loop k, r;

	ll_loop(l, &k, ll_i64(l, 0), ll_mul_n(l, b->words, b->u->per_word), 1,
		NULL, 0);
	ll_loop(l, &r, ll_i64(l, 0), ll_i64(l, b->g), 1, NULL, 0);
	word = ll_div_n(l, k.i, b->u->per_word);
	half = ll_mul_n(l, ll_rem_n(l, k.i, b->u->per_word), bytes);
	if (b->p->tiles) {
		at = ll_mul_n(l, ll_div_n(l, word, 16),
			      4 * 16 * b->p->panel_rows);
		at = ll_add(l, at, ll_mul_n(l, ll_rem_n(l, word, 16), 4));
		at = ll_add(l, at, ll_mul_n(l, r.i, 64));
	} else {
		at = ll_mul_n(l, r.i, 4);
		at = ll_add(l, ll_mul_n(l, word, 4 * b->p->panel_rows), at);
	}
	at = ll_plus(l, b->to, ll_add(l, at, half));
	ll_store(l, one_elem(b, r.i, k.i), at);
	ll_loop_end(l, &r, NULL);
	ll_loop_end(l, &k, NULL);
}

/* ---- scales of an int4 ---- */

/* A word after those of a panel: of each of the block's rows the scale of this
 * group of k. */
static void
put_scales(const struct packer *b)
{
	const struct ll_type half = ll_type(LL_I16, 1);
	struct ll *l = b->l;
	int64_t row = dot_bytes(b->along, b->p->k->size);
	struct ll_value *is, *at, *v, *group;
	struct ll_loop r;

	group = ll_mul_n(l, ll_div_n(l, b->k, IR_GROUP), 2);
	ll_loop(l, &r, ll_i64(l, 0), ll_i64(l, b->g), 1, NULL, 0);
	is = ll_test(l, LL_LT, r.i, b->live);
	at = ll_add(l, b->first, ll_select(l, is, r.i, ll_i64(l, 0)));
	at = dot_factor_at(l, b->p->rows, b->p->which, at, b->apart);
	at = ll_plus_n(l, ll_plus(l, b->src, ll_add(l, at, group)), row);
	v = ll_cast(l, ll_load(l, half, at), LL_I32);
	v = ll_bin(l, LL_SHL, v, ll_int(l, ll_type(LL_I32, 1), 16));
	v = ll_select(l, is, v, ll_int(l, ll_type(LL_I32, 1), 0));
	at = ll_mul_n(l, b->words, 4 * b->p->panel_rows);
	at = ll_add(l, at, ll_mul_n(l, r.i, 4));
	ll_store(l, v, ll_plus(l, b->to, at));
	ll_loop_end(l, &r, NULL);
}

/* ---- many contiguous rows ---- */

/* Word k of a span of rows, which belong to several panels. */
static void
span_word(struct packer *b, struct ll_value *k, int64_t span, bool part)
{
	struct ll *l = b->l;
	struct ll_value *to = b->to, *ahead, *at;
	int64_t per_line = 64 / b->elem_bytes, w = b->p->panel_rows;

	ahead = at_k(b, ll_add(l, k, ll_i64(l, AHEAD * b->u->per_word)));
	for (b->skip = 0; !part && b->skip < span; b->skip += per_line) {
		ll_prefetch(l, ll_plus_n(l, ahead, b->skip * b->elem_bytes));
	}
	for (b->skip = 0; b->skip < span; b->skip += b->g) {
		b->to = ll_plus(l, to, ll_mul_n(l, b->panel_words,
					       4 * (b->skip / w * w)));
		b->to = ll_plus_n(l, b->to, 4 * (b->skip % w));
		at = place(b, k);
		ll_store(l, load_along_rows(b, k, part), at);
	}
	b->skip = 0;
	b->to = to;
}

/* Packs whole spans of rows.  Returns how many rows these are. */
static struct ll_value *
all_spans(struct packer *b, struct ll_value *dst)
{
	struct ll *l = b->l;
	int64_t span =
		dot_round_up(b->p->panel_rows < SPAN ? SPAN : b->p->panel_rows,
			     b->p->panel_rows);
	int64_t step = b->u->per_word;
	struct ll_value *all, *whole, *at;
	struct ll_loop s, k;

	if (b->p->panel_rows > SPAN / 2) {
		span = b->p->panel_rows;
	}
	all = ll_mul_n(l, ll_div_n(l, b->rows, span), span);
	ll_loop(l, &s, ll_i64(l, 0), all, span, NULL, 0);
	b->to = ll_plus(l, dst, ll_mul_n(l, ll_bin(l, LL_MUL, s.i,
						  b->panel_words), 4));
	at = dot_factor_at(l, b->p->rows, b->p->which,
			   ll_add(l, b->row, s.i), b->apart);
	b->row_at[0] = ll_plus(l, b->src, at);
	b->live = ll_i64(l, span);
	whole = ll_mul_n(l, ll_div_n(l, b->kn, step), step);
	ll_loop(l, &k, ll_i64(l, 0), whole, step, NULL, 0);
	span_word(b, k.i, span, false);
	ll_loop_end(l, &k, NULL);
	ll_loop(l, &k, whole, ll_mul_n(l, b->words, step), step, NULL, 0);
	span_word(b, k.i, span, true);
	ll_loop_end(l, &k, NULL);
	ll_loop_end(l, &s, NULL);
	return all;
}

/* ---- the function ---- */

static void
all_panels(struct packer *b, struct ll_value *dst, bool dense)
{
	struct ll *l = b->l;
	int64_t row_bytes = b->p->tiles ? 64 : 4;
	struct ll_value *left, *first = ll_i64(l, 0);
	struct ll_loop panel, group;

	if (dense && !b->along_k && !b->p->tiles) {
		first = all_spans(b, dst);
	}
	ll_loop(l, &panel, first, b->rows, b->p->panel_rows, NULL, 0);
	left = ll_sub(l, b->rows, panel.i);
	left = b->p->tiles ? ll_i64(l, b->p->panel_rows)
			   : ll_min(l, left, ll_i64(l, b->p->panel_rows));
	ll_loop(l, &group, ll_i64(l, 0), left, b->g, NULL, 0);
	b->to = ll_plus(l, dst, ll_mul_n(l, ll_bin(l, LL_MUL, panel.i,
						  b->panel_words), 4));
	b->to = ll_plus(l, b->to, ll_mul_n(l, group.i, row_bytes));
	b->first = ll_add(l, panel.i, group.i);
	b->live = ll_sub(l, b->rows, b->first);
	b->first = ll_add(l, b->first, b->row);
	if (dense) {
		all_words(b);
	} else {
		one_by_one(b);
	}
	if (b->int4 && b->u->scaled) {
		put_scales(b);
	}
	ll_loop_end(l, &group, NULL);
	ll_loop_end(l, &panel, NULL);
	ll_return(l, NULL);
}

struct ll_value *
dot_packer_func(struct cg_cpu *c, const struct dot_pack *p)
{
	const struct ll_type ptr = ll_type(LL_PTR, 1), n = ll_type(LL_I64, 1);
	const struct ll_type types[] = { ptr, ptr, n, n, n, n };
	struct packer b = { .l = c->ll, .p = p, .u = p->unit };
	struct ll_value *f;
	bool dense;

	b.along_k = dot_factor_dense(p->k, p->which);
	b.int4 = p->base == LL_I8 && p->dtype == IR_INT4;
	b.along = dot_size_along(p->base, p->dtype);
	b.apart = dot_size_apart(p->base, p->dtype);
	b.g = p->panel_rows < b.u->lanes ? (uint32_t)p->panel_rows : b.u->lanes;
	dense = b.along_k || dot_factor_dense(p->rows, p->which);
	if (b.int4 && b.u->lanes * b.u->per_word < 8) {
		dense = false;	/* vectors have less than a word of them */
	}
	if (b.g == 1 && !b.along_k) {
		dense = false;	/* along a single row there is no vector */
	}
	if (dense && b.along_k != p->tiles) {
		b.turn_words = dot_turn_func(c, b.u, LL_F32, b.g);
		b.turn = b.u->per_word == 2 || p->base == LL_I8 ? b.turn_words
					    : dot_turn_func(c, b.u, p->base,
							    b.g);
	}
	f = ll_func(c->ll, arena_printf(c->a, "pack%u", c->nfuncs++),
		    ll_type(LL_VOID, 1), types, 6, false);
	ll_noalias(c->ll, f, 0);
	b.src = ll_param(c->ll, f, 1);
	b.row = ll_param(c->ll, f, 2);
	b.rows = ll_param(c->ll, f, 3);
	b.k = ll_param(c->ll, f, 4);
	b.kn = ll_param(c->ll, f, 5);
	b.words = dot_words(c->ll, p->unit, b.kn);
	b.panel_words = dot_panel_words(c->ll, p->unit, b.words);
	b.elem_bytes = b.along.bytes;
	if (b.turn) {
		b.stack = ll_stack(c->ll, ll_type(LL_F32, 1), b.g * b.u->lanes);
		b.turned = ll_stack(c->ll, ll_type(LL_F32, 1),
				   b.g * b.u->lanes);
	}
	all_panels(&b, ll_param(c->ll, f, 0), dense);
	return f;
}

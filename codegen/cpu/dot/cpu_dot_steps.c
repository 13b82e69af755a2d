/*
 * The steps of a contraction: one that packs and one that multiplies, several
 * times if scratch does not hold all that is packed.
 */
#include "codegen/cpu/dot/cpu_dot.h"

#define PACKED_ROWS 64		/* of an item that packs, about */

/* ---- positions of a block ---- */

struct dot_place
dot_block_place(struct ll *l, const struct cg_dims *d, const struct cg_split *s,
	 struct ll_value *block)
{
	int64_t size = d->size[s->cut];
	struct dot_place p;
	struct ll_value *first;

	p.outer = ll_div_n(l, block, s->chunks);
	p.chunk = ll_rem_n(l, block, s->chunks);
	first = ll_mul_n(l, p.chunk, s->step);
	p.live = ll_min(l, ll_i64(l, s->step),
			 ll_sub(l, ll_i64(l, size), first));
	p.live = ll_mul_n(l, p.live, s->inner);
	first = ll_add(l, ll_mul_n(l, p.outer, size), first);
	p.start = ll_mul_n(l, first, s->inner);
	return p;
}

/* A stretch of k. */
struct dot_stretch {
	struct ll_value *from, *n, *words;
};

static struct dot_stretch
stretch_of(struct ll *l, const struct dot *d, struct ll_value *i)
{
	struct dot_stretch s;

	s.from = ll_mul_n(l, i, d->depth);
	s.n = ll_min(l, ll_i64(l, d->depth),
		      ll_sub(l, ll_i64(l, d->over.size), s.from));
	s.words = dot_words(l, &d->unit, s.n);
	return s;
}

/*
 * Where a packed block of an operand begins in shared scratch, which has blocks
 * of one chunk of A, or of all of B.
 */
static struct ll_value *
packed_at(struct ll *l, const struct dot *d, int which, struct ll_value *block,
	  struct ll_value *depth)
{
	int64_t unit = which ? dot_nr(&d->unit) : (int64_t)d->unit.mr;
	int64_t most = which ? d->cols.most : d->rows.most;
	int64_t bytes = 4 * dot_panel_words_of(&d->unit, d->depth) *
			dot_round_up(most, unit);

	block = ll_mul_n(l, block, which ? d->ndepth : d->chunk_depth);
	block = ll_mul_n(l, ll_add(l, block, depth), bytes);
	return which ? ll_add(l, block, ll_i64(l, d->shared_b)) : block;
}

/* Elements that are packed in less time than a launch on all threads takes. */
#define PACKED_ALONE 8192

/* ---- bodies: functions of steps, with the chunk as arguments ---- */

struct dot_body {
	struct dot *d;
	struct ll *l;
	/* tile: dot_tile_func, or dot_stream_func */
	struct ll_value *func, *pack[2], *list, *tile;
	struct ll_value *first_row, *first_depth, *end_depth;
};

static void
open_body(struct dot_body *b, const char *what)
{
	const struct ll_type p = ll_type(LL_PTR, 1), n = ll_type(LL_I64, 1);
	const struct ll_type types[] = { p, p, n, n, n, n, n };
	struct cg_cpu *c = b->d->c;

	b->func = ll_func(b->l, arena_printf(c->a, "%s%u", what, c->nfuncs++),
			  ll_type(LL_VOID, 1), types, 7, false);
	b->first_row = ll_param(b->l, b->func, 4);
	b->first_depth = ll_param(b->l, b->func, 5);
	b->end_depth = ll_param(b->l, b->func, 6);
}

/* A step that calls the body for a chunk; `alone`: for all items in one, which
 * the thread that launches it runs without waking others. */
static void
add_step(struct dot_body *b, const char *what, int64_t items, bool alone,
	 int64_t row, int64_t depth, int64_t end)
{
	struct ll_value *args[7], *step;
	uint32_t i;

	step = cg_cpu_step(b->d->c, b->d->out, what, alone ? 1 : items);
	for (i = 0; i < 4; i++) {
		args[i] = ll_param(b->l, step, i);
	}
	if (alone) {
		args[2] = ll_i64(b->l, 0);
		args[3] = ll_i64(b->l, items);
	}
	args[4] = ll_i64(b->l, row);
	args[5] = ll_i64(b->l, depth);
	args[6] = ll_i64(b->l, end);
	ll_call(b->l, b->func, args, 7);
	ll_return(b->l, NULL);
}

/* ---- packing ---- */

/* Rows, or columns, that one item packs: whole panels. */
static int64_t
packed_rows(const struct dot *d, int which)
{
	return dot_round_up(PACKED_ROWS, which ? dot_nr(&d->unit) : d->unit.mr);
}

static int64_t
groups(const struct dot *d, int which)
{
	int64_t most = which ? d->cols.most : d->rows.most;

	return (most + packed_rows(d, which) - 1) / packed_rows(d, which);
}

/* Where the rows of an operand begin in a batch. */
static struct ll_value *
in_batch(const struct dot_body *b, int which, struct ll_value *at,
	 struct ll_value *batch)
{
	const struct dot_source *s = &b->d->source[which];
	struct dot_size size = dot_size_apart(s->base, (uint8_t)s->view.dtype);

	return ll_plus(b->l, at, dot_factor_at(b->l, &b->d->batch, which,
					       batch, size));
}

static void
pack_body(struct dot_body *b, int which)
{
	struct dot *d = b->d;
	const struct cg_split *split = which ? &d->cols : &d->rows;
	struct ll *l = b->l;
	struct ll_value *src, *group, *row, *depth, *to, *at, *args[6], *words;
	int64_t rows = packed_rows(d, which);
	struct dot_stretch k;
	struct dot_place m;
	struct ll_loop i;

	open_body(b, which ? "pack_cols" : "pack_rows");
	src = dot_source_at(d->c, b->func, &d->source[which]);
	to = cg_cpu_shared(d->c, b->func);
	ll_loop(l, &i, ll_param(l, b->func, 2), ll_param(l, b->func, 3), 1,
		NULL, 0);
	group = ll_rem_n(l, i.i, groups(d, which));
	at = ll_div_n(l, i.i, groups(d, which));
	depth = ll_sub(l, b->end_depth, b->first_depth);
	row = ll_bin(l, LL_UDIV, at, depth);
	depth = ll_bin(l, LL_UREM, at, depth);
	to = ll_plus(l, to, packed_at(l, d, which, row, depth));
	row = ll_add(l, row, b->first_row);
	k = stretch_of(l, d, ll_add(l, depth, b->first_depth));
	m = dot_block_place(l, &d->dims[1 + which], split,
		      ll_rem_n(l, row, split->blocks));
	group = ll_mul_n(l, group, rows);
	words = dot_panel_words(l, &d->unit, k.words);
	args[0] = ll_plus(l, to, ll_mul_n(l, ll_bin(l, LL_MUL, group, words),
					 4));
	args[1] = in_batch(b, which, src, ll_div_n(l, row, split->blocks));
	args[2] = ll_add(l, m.start, group);
	args[3] = ll_min(l, ll_i64(l, rows), ll_sub(l, m.live, group));
	args[4] = k.from;
	args[5] = k.n;
	ll_call(l, b->pack[which], args, 6);
	ll_loop_end(l, &i, NULL);
	ll_return(l, NULL);
}

/* ---- the nodes that follow ---- */

void
dot_nest_place(struct ll *l, struct cg_nest *n, struct cg_leaf *leaf,
	  const struct cg_dims *d, const struct cg_split *s,
	  const struct dot_place *p, int64_t stride)
{
	struct ll_value *outer = p->outer;
	uint32_t i;

	for (i = d->n; i-- > 0;) {
		int at = d->at[i];

		if (at < 0) {
			continue;
		}
		if (i > s->cut) {
			leaf->stride[at] = stride;
			stride *= d->size[i];
			continue;
		}
		if (i == s->cut) {
			leaf->stride[at] = stride;
			if (s->chunks == 1) {
				continue;
			}
			n->from[at] = ll_mul_n(l, p->chunk, s->step);
			n->count[at] = s->step;
			if (d->size[i] % s->step != 0) {
				n->live[at] = ll_div_n(l, p->live, s->inner);
			}
			continue;
		}
		n->from[at] = ll_rem_n(l, outer, d->size[i]);
		n->count[at] = 1;
		outer = ll_div_n(l, outer, d->size[i]);
	}
}

static bool
emit_epilogue(const struct dot_body *b, struct ll_value *tile,
	      struct ll_value *batch, const struct dot_place *m,
	      const struct dot_place *n, const char **why)
{
	const struct dot *d = b->d;
	struct cg_split one = { .cut = d->dims[0].n - 1, .step = 1,
				 .chunks = d->dims[0].size[d->dims[0].n - 1],
				 .inner = 1 };
	struct dot_place p = dot_block_place(b->l, &d->dims[0], &one, batch);
	struct cg_nest nest;
	struct cg_leaf leaf = { .value = d->value, .at = tile };
	uint32_t i;

	cg_nest_all(d->c, d->k, &nest);
	nest.space = *ir_type(d->c->m, d->value);
	dot_nest_place(b->l, &nest, &leaf, &d->dims[0], &one, &p, 0);
	dot_nest_place(b->l, &nest, &leaf, &d->dims[1], &d->rows, m,
		       d->tile_ld);
	dot_nest_place(b->l, &nest, &leaf, &d->dims[2], &d->cols, n, 1);
	for (i = 0; i < IR_MAX_DIMS; i++) {
		leaf.from[i] = nest.from[i];
	}
	VEC_PUSH(d->c->a, &nest.leaves, leaf);
	return cg_nest_box(d->c, d->out, b->func, &nest, why);
}

/* ---- multiplying ---- */

/* One item. */
struct dot_item {
	struct ll_value *i, *end;	/* number; where the worker's end */
	struct ll_value *row, *batch;	/* row: among those of the chunk */
	struct dot_place m, n;
	struct ll_value *to, *ld;	/* the tile; bytes of a row */
	struct ll_value *far, *far_ld;	/* where it ends up in memory */
	struct ll_value *old;		/* 0: store, do not add */
	struct ll_value *col;		/* among all of the batch */
	struct ll_value *src[2];
	struct ll_value *own, *shared;
};

static void
go_to(const struct dot_body *b, struct dot_item *t, struct ll_value *i)
{
	const struct dot *d = b->d;
	struct ll *l = b->l;
	struct ll_value *row;

	t->i = i;
	t->row = ll_div_n(l, i, d->cols.blocks);
	row = ll_add(l, t->row, b->first_row);
	t->batch = ll_div_n(l, row, d->rows.blocks);
	t->m = dot_block_place(l, &d->dims[1], &d->rows,
			 ll_rem_n(l, row, d->rows.blocks));
	t->col = ll_rem_n(l, i, d->cols.blocks);
	t->n = dot_block_place(l, &d->dims[2], &d->cols, t->col);
	t->col = ll_add(l, ll_mul_n(l, t->batch, d->cols.blocks), t->col);
}

/* The lines that tiles prefetch while they multiply. */
struct dot_lines {
	struct ll_value *at, *n;	/* of the whole block */
	struct ll_value *each;		/* for a row of a tile */
};

/* Where this tile's part of them begins. */
static struct ll_value *
lines_at(const struct dot_body *b, const struct dot_lines *x,
	 struct ll_value *tile)
{
	struct ll *l = b->l;
	struct ll_value *each = ll_mul_n(l, x->each, b->d->unit.mr);
	struct ll_value *at = ll_bin(l, LL_MUL, tile, each);

	at = ll_min(l, at, ll_sub(l, x->n, each));
	return ll_plus(l, x->at, ll_mul_n(l, at, 8));
}

/* How many tiles of so many positions cover the live ones. */
static struct ll_value *
tiles(struct ll *l, struct ll_value *live, int64_t each)
{
	return ll_div_n(l, ll_add(l, live, ll_i64(l, each - 1)), each);
}

/* Where the tile after that at (row, col) ends up in memory. */
static struct ll_value *
next_tile(const struct dot_body *b, const struct dot_item *t,
	  struct ll_value *row, struct ll_value *col)
{
	int64_t bytes = b->d->far_bytes ? b->d->far_bytes : 4;
	struct ll *l = b->l;
	struct ll_value *last, *at;

	col = ll_add(l, col, ll_i64(l, dot_nr(&b->d->unit)));
	last = ll_test(l, LL_GE, col, t->n.live);
	col = ll_select(l, last, ll_i64(l, 0), col);
	at = ll_add(l, row, ll_i64(l, b->d->unit.mr));
	row = ll_select(l, last, at, row);
	at = ll_plus(l, t->far, ll_bin(l, LL_MUL, row, t->far_ld));
	return ll_plus(l, at, ll_mul_n(l, col, bytes));
}

/* Tiles of the microkernel over a stretch of k. */
static void
multiply(const struct dot_body *b, const struct dot_item *t, struct ll_value *a,
	 struct ll_value *panels, struct ll_value *words,
	 struct ll_value *add, const struct dot_lines *lines)
{
	const struct dot *d = b->d;
	struct ll *l = b->l;
	int64_t mr = d->unit.mr, nr = dot_nr(&d->unit);
	struct ll_value *args[13], *tile;
	struct ll_value *panel = dot_panel_words(l, &d->unit, words);
	struct ll_loop r, c;

	ll_loop(l, &r, ll_i64(l, 0), t->m.live, mr, NULL, 0);
	ll_loop(l, &c, ll_i64(l, 0), t->n.live, nr, NULL, 0);
	args[0] = ll_plus(l, a, ll_mul_n(l, ll_bin(l, LL_MUL, r.i, panel), 4));
	args[1] = d->unit.panels ? ll_mul_n(l, c.i, dot_column_bytes(d))
		: ll_mul_n(l, ll_bin(l, LL_MUL, c.i, panel), 4);
	args[1] = ll_plus(l, panels, args[1]);
	args[2] = ll_plus(l, t->to, ll_bin(l, LL_MUL, r.i, t->ld));
	args[2] = ll_plus(l, args[2], ll_mul_n(l, c.i, 4));
	args[3] = words;
	args[4] = t->ld;
	args[5] = add;
	tile = tiles(l, t->n.live, nr);
	tile = ll_bin(l, LL_MUL, ll_div_n(l, r.i, mr), tile);
	args[6] = next_tile(b, t, r.i, c.i);
	args[7] = t->far_ld;
	args[8] = lines_at(b, lines, ll_add(l, tile, ll_div_n(l, c.i, nr)));
	args[9] = lines->each;
	args[10] = ll_sub(l, t->m.live, r.i);
	args[11] = ll_sub(l, t->n.live, c.i);
	if (d->result == DOT_BOX) {	/* it has space for whole tiles */
		int64_t lanes = d->unit.lanes;

		args[10] = ll_i64(l, d->unit.mr);
		args[11] = ll_add(l, args[11], ll_i64(l, lanes - 1));
		args[11] = ll_mul_n(l, ll_div_n(l, args[11], lanes), lanes);
	}
	args[12] = ll_i64(l, d->unit.lanes * dot_column_bytes(d));
	ll_call(l, b->tile, args, d->unit.panels ? 13 : 12);
	ll_loop_end(l, &c, NULL);
	ll_loop_end(l, &r, NULL);
}

/* A packed stretch of an item's block of an operand; packs it if that is the
 * item's to do. */
static struct ll_value *
panels_of(const struct dot_body *b, const struct dot_item *t, int which,
	  struct ll_value *depth, const struct dot_stretch *k)
{
	const struct dot *d = b->d;
	const struct dot_place *p = which ? &t->n : &t->m;
	struct ll *l = b->l;
	struct ll_value *args[6];

	if (which == 1 && d->unit.panels) {
		return dot_panel_at(d, in_batch(b, 1, t->src[1], t->batch),
				    t->n.start, k->from);
	}
	if (!d->own[which]) {
		depth = ll_sub(l, depth, which ? ll_i64(l, 0)
						: b->first_depth);
		return ll_plus(l, t->shared,
			       packed_at(l, d, which, which ? t->col : t->row,
					 depth));
	}
	args[0] = ll_plus_n(l, t->own, which ? d->own_b : d->own_a);
	args[1] = in_batch(b, which, t->src[which], t->batch);
	args[2] = p->start;
	args[3] = p->live;
	args[4] = k->from;
	args[5] = k->n;
	ll_call(l, b->pack[which], args, 6);
	return args[0];
}

/*
 * The lines of what the item packs after this stretch: its next stretch, or the
 * first of the next item, if that is the same worker's.
 */
static struct dot_lines
list_next(const struct dot_body *b, const struct dot_item *t,
	  struct ll_value *depth)
{
	struct dot *d = b->d;
	int which = d->own[1];
	struct ll *l = b->l;
	struct dot_lines x = { t->own, ll_i64(l, 0), ll_i64(l, 0) };
	struct ll_value *last, *is, *calls, *args[6];
	struct dot_place *p;
	struct dot_stretch k;
	struct dot_item next = *t;

	if (d->own_list < 0) {
		return x;
	}
	depth = ll_add(l, depth, ll_i64(l, 1));
	last = ll_test(l, LL_EQ, depth, b->end_depth);
	depth = ll_select(l, last, b->first_depth, depth);
	is = ll_add(l, t->i, ll_cast(l, last, LL_I64));
	k = stretch_of(l, d, depth);
	go_to(b, &next, is);
	p = which ? &next.n : &next.m;
	x.at = ll_plus_n(l, t->own, d->own_list);
	args[0] = x.at;
	args[1] = in_batch(b, which, t->src[which], next.batch);
	args[2] = p->start;
	args[3] = ll_select(l, ll_test(l, LL_LT, is, t->end), p->live,
			    ll_i64(l, 0));
	args[4] = k.from;
	args[5] = k.n;
	x.n = ll_call(l, b->list, args, 6);
	calls = tiles(l, t->n.live, dot_nr(&d->unit));
	calls = ll_bin(l, LL_MUL, tiles(l, t->m.live, d->unit.mr), calls);
	calls = ll_mul_n(l, calls, d->unit.mr);
	x.each = ll_add(l, x.n, ll_sub(l, calls, ll_i64(l, 1)));
	x.each = ll_bin(l, LL_UDIV, x.each, calls);
	/* for a few lines a list costs more than it saves */
	x.each = ll_select(l, ll_test(l, LL_LT, x.n,
				      ll_mul_n(l, x.each, d->unit.mr)),
			   ll_i64(l, 0), x.each);
	return x;
}

static void
all_depths(const struct dot_body *b, const struct dot_item *t)
{
	const struct dot *d = b->d;
	struct ll *l = b->l;
	struct ll_value *rows, *cols, *add;
	struct dot_lines lines;
	struct dot_stretch k;
	struct ll_loop q;

	ll_loop(l, &q, b->first_depth, b->end_depth, 1, NULL, 0);
	k = stretch_of(l, d, q.i);
	cols = panels_of(b, t, 1, q.i, &k);
	rows = panels_of(b, t, 0, q.i, &k);
	lines = list_next(b, t, q.i);
	add = ll_select(l, ll_test(l, LL_GT, q.i, ll_i64(l, 0)),
			ll_i64(l, 1), t->old);
	multiply(b, t, rows, cols, k.words, add, &lines);
	ll_loop_end(l, &q, NULL);
}

/* Columns in place by rows that are packed. */
static void
stream_columns(const struct dot_body *b, const struct dot_item *t)
{
	const struct dot *d = b->d;
	struct ll *l = b->l;
	struct ll_value *args[7];

	args[0] = ll_plus(l, t->shared,
			  packed_at(l, d, 0, t->row, ll_i64(l, 0)));
	args[1] = in_batch(b, 1, t->src[1], t->batch);
	args[1] = ll_plus(l, args[1], ll_mul_n(l, t->n.start,
					       d->stream.row_bytes));
	args[2] = t->to;
	args[3] = t->ld;
	args[4] = t->m.live;
	args[5] = t->n.live;
	args[6] = ll_sub(l, ll_i64(l, d->n.size), t->n.start);
	ll_call(l, b->tile, args, 7);
}

static void
put_target(const struct dot_body *b, struct dot_item *t)
{
	const struct dot *d = b->d;
	struct ll *l = b->l;
	int64_t tile = 4 * d->tile_ld * dot_round_up(d->rows.most, d->unit.mr);
	struct ll_value *at;

	if (d->far_bytes) {
		t->far_ld = ll_i64(l, d->far_bytes * d->pitch);
		at = ll_mul_n(l, t->batch, d->m.size);
		at = ll_mul_n(l, ll_add(l, at, t->m.start), d->pitch);
		at = ll_mul_n(l, ll_add(l, at, t->n.start), d->far_bytes);
		t->far = ll_plus(l, cg_cpu_at(d->c, b->func, d->target), at);
	}
	t->ld = ll_i64(l, 4 * d->tile_ld);
	if (d->result != DOT_BOX) {
		t->ld = t->far_ld;
		t->to = t->far;
	} else if (d->shared_c >= 0) {
		t->to = ll_plus_n(l, t->shared, d->shared_c);
		t->to = ll_plus(l, t->to,
				ll_mul_n(l, t->i, dot_round_up(tile, 64)));
	} else {
		t->to = ll_plus_n(l, t->own, d->own_c);
	}
	if (!d->far_bytes) {
		t->far = t->to;
		t->far_ld = t->ld;
	}
}

/* The nodes that follow, when the sum over k is complete. */
static bool
finish(const struct dot_body *b, const struct dot_item *t, const char **why)
{
	const struct dot *d = b->d;
	struct ll *l = b->l;
	struct ll_block *yes, *no;
	bool done;

	if (d->result != DOT_BOX) {
		return true;
	}
	yes = ll_block(l, NULL, "complete");
	no = ll_block(l, NULL, "partial");
	ll_branch(l, ll_test(l, LL_EQ, b->end_depth, ll_i64(l, d->ndepth)),
		  yes, no);
	ll_at(l, yes);
	done = emit_epilogue(b, t->to, t->batch, &t->m, &t->n, why);
	ll_jump(l, no);
	ll_at(l, no);
	return done;
}

static bool
multiply_body(struct dot_body *b, const char **why)
{
	struct dot *d = b->d;
	struct ll *l = b->l;
	struct dot_item t;
	struct ll_loop i;
	bool done;

	open_body(b, "multiply");
	t.own = ll_param(l, b->func, 1);
	t.shared = cg_cpu_shared(d->c, b->func);
	t.src[0] = dot_source_at(d->c, b->func, &d->source[0]);
	t.src[1] = dot_source_at(d->c, b->func, &d->source[1]);
	t.old = d->result == DOT_ADD ? cg_cpu_num(d->c, b->func, d->old)
				     : ll_i64(l, 0);
	t.end = ll_param(l, b->func, 3);
	dot_tiles_begin(d->c, &d->unit);
	ll_loop(l, &i, ll_param(l, b->func, 2), ll_param(l, b->func, 3), 1,
		NULL, 0);
	go_to(b, &t, i.i);
	put_target(b, &t);
	if (d->stream.rows > 0) {
		stream_columns(b, &t);
	} else {
		all_depths(b, &t);
	}
	done = finish(b, &t, why);
	ll_loop_end(l, &i, NULL);
	dot_tiles_end(d->c, &d->unit);
	ll_return(l, NULL);
	return done;
}

/* ---- all steps ---- */

/* Steps for one chunk of rows, for some stretches of k each. */
static void
add_steps(struct dot_body *pack, struct dot_body *mul, int64_t row,
	  int64_t rows)
{
	const struct dot *d = mul->d;
	int64_t q, end;

	for (q = 0; q < d->ndepth; q = end) {
		end = q + d->chunk_depth;
		end = end < d->ndepth ? end : d->ndepth;
		if (!d->own[0]) {
			add_step(pack, "pack", rows * groups(d, 0) * (end - q),
				 rows * d->rows.most * (end - q) * d->depth <=
				 PACKED_ALONE, row, q, end);
		}
		add_step(mul, "dot", rows * d->cols.blocks, false, row, q, end);
	}
}

bool
dot_emit(struct dot *d, const char **why)
{
	struct dot_body mul = { .d = d, .l = d->c->ll }, pack[2];
	int64_t all = d->batch.size * d->rows.blocks, row, n;
	int i;

	mul.tile = d->stream.rows > 0
		? dot_stream_func(d->c, &d->unit, &d->stream)
		: dot_tile_func(d->c, &d->unit);
	for (i = 0; i < 2; i++) {
		struct dot_pack p = dot_packing(d, i);

		if (i == 1 && (d->stream.rows > 0 || d->unit.panels)) {
			continue;
		}
		mul.pack[i] = p.parts > 0 ? dot_panel_packer_func(d->c, &p)
					  : dot_packer_func(d->c, &p);
		if (d->own_list >= 0 && i == d->own[1]) {
			mul.list = dot_lister_func(d->c, &p);
		}
	}
	for (i = 0; i < 2; i++) {
		pack[i] = mul;
		if (!d->own[i]) {
			pack_body(&pack[i], i);
		}
	}
	if (!multiply_body(&mul, why)) {
		return false;
	}
	if (!d->own[1]) {
		n = d->batch.size * d->cols.blocks;
		add_step(&pack[1], "pack", n * groups(d, 1) * d->ndepth, false,
			 0, 0, d->ndepth);
	}
	for (row = 0; row < all; row += n) {
		n = all - row < d->chunk_rows ? all - row : d->chunk_rows;
		add_steps(&pack[0], &mul, row, n);
	}
	return true;
}

/*
 * The steps of a contraction: one that packs rows, one that multiplies; over
 * and over if what is packed does not fit into its room at once.
 */
#include "codegen/cpu/dot.h"

#define PACKED_ROWS 64		/* of an item that packs */

/* ---- positions of a block ---- */

struct dot_place
dot_place(struct ll *l, const struct cg_dims *d, const struct cg_split *s,
	 struct ll_value *block)
{
	int64_t size = d->size[s->cut];
	struct dot_place p;
	struct ll_value *first;

	p.outer = dot_div(l, block, s->chunks);
	p.chunk = dot_rem(l, block, s->chunks);
	first = dot_mul(l, p.chunk, s->step);
	p.live = dot_min(l, ll_i64(l, s->step),
			 dot_sub(l, ll_i64(l, size), first));
	p.live = dot_mul(l, p.live, s->inner);
	first = dot_add(l, dot_mul(l, p.outer, size), first);
	p.start = dot_mul(l, first, s->inner);
	return p;
}

/* A stretch of k. */
struct stretch {
	struct ll_value *from, *n, *words;
};

static struct stretch
stretch_of(struct ll *l, const struct dot *d, struct ll_value *i)
{
	struct stretch s;

	s.from = dot_mul(l, i, d->depth);
	s.n = dot_min(l, ll_i64(l, d->depth),
		      dot_sub(l, ll_i64(l, d->over.size), s.from));
	s.words = dot_words(l, &d->unit, s.n);
	return s;
}

/* Where block (rows, depth) of what is packed at a time begins. */
static struct ll_value *
packed_at(struct ll *l, const struct dot *d, struct ll_value *rows,
	  struct ll_value *depth)
{
	int64_t bytes = 4 * dot_words_of(&d->unit, d->depth) *
			dot_up(d->rows.most, d->unit.mr);

	return dot_mul(l, dot_add(l, dot_mul(l, rows, d->chunk_depth), depth),
		       bytes);
}

/* ---- bodies: steps that are also told which chunk ---- */

struct body {
	struct dot *d;
	struct ll *l;
	struct ll_value *func, *pack_a, *pack_b, *tile;
	struct ll_value *first_row, *first_depth, *end_depth;
};

static void
open_body(struct body *b, const char *what)
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

/* A step that calls the body for a chunk. */
static void
add_step(struct body *b, const char *what, int64_t items, int64_t row,
	 int64_t depth, int64_t end)
{
	struct ll_value *args[7], *step;
	uint32_t i;

	step = cg_cpu_step(b->d->c, b->d->out, what, items);
	for (i = 0; i < 4; i++) {
		args[i] = ll_param(b->l, step, i);
	}
	args[4] = ll_i64(b->l, row);
	args[5] = ll_i64(b->l, depth);
	args[6] = ll_i64(b->l, end);
	ll_call(b->l, b->func, args, 7);
	ll_return(b->l, NULL);
}

/* ---- packing ---- */

static int64_t
groups(const struct dot *d)
{
	return (d->rows.most + PACKED_ROWS - 1) / PACKED_ROWS;
}

static int64_t
elem_bytes(const struct dot_source *s)
{
	return s->base == LL_F32 ? 4 : 2;
}

/* Rows of one operand in the batch at hand. */
static struct ll_value *
in_batch(const struct body *b, int which, struct ll_value *at,
	 struct ll_value *batch)
{
	int64_t bytes = elem_bytes(&b->d->source[which]);

	return ll_plus(b->l, at, dot_factor_at(b->l, &b->d->batch, which,
					       batch, bytes));
}

static void
pack_body(struct body *b)
{
	struct dot *d = b->d;
	struct ll *l = b->l;
	struct ll_value *src, *shared, *group, *row, *depth, *to, *at, *args[6];
	struct stretch k;
	struct dot_place m;
	struct ll_loop i;

	open_body(b, "pack_rows");
	src = dot_source_at(d->c, b->func, &d->source[0]);
	shared = cg_cpu_shared(d->c, b->func);
	ll_loop(l, &i, ll_param(l, b->func, 2), ll_param(l, b->func, 3), 1,
		NULL, 0);
	group = dot_rem(l, i.i, groups(d));
	at = dot_div(l, i.i, groups(d));
	depth = dot_sub(l, b->end_depth, b->first_depth);
	row = ll_bin(l, LL_UDIV, at, depth);
	depth = ll_bin(l, LL_UREM, at, depth);
	to = ll_plus(l, shared, packed_at(l, d, row, depth));
	row = dot_add(l, row, b->first_row);
	k = stretch_of(l, d, dot_add(l, depth, b->first_depth));
	m = dot_place(l, &d->dims[1], &d->rows, dot_rem(l, row,
						       d->rows.blocks));
	group = dot_mul(l, group, PACKED_ROWS);
	args[0] = ll_plus(l, to, dot_mul(l, ll_bin(l, LL_MUL, group, k.words),
					 4));
	args[1] = in_batch(b, 0, src, dot_div(l, row, d->rows.blocks));
	args[2] = dot_add(l, m.start, group);
	args[3] = dot_min(l, ll_i64(l, PACKED_ROWS),
			  dot_sub(l, m.live, group));
	args[4] = k.from;
	args[5] = k.n;
	ll_call(l, b->pack_a, args, 6);
	ll_loop_end(l, &i, NULL);
	ll_return(l, NULL);
}

/* ---- what stands behind ---- */

void
dot_put_place(struct ll *l, struct cg_nest *n, struct cg_leaf *leaf,
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
			n->from[at] = dot_mul(l, p->chunk, s->step);
			n->count[at] = s->step;
			if (d->size[i] % s->step != 0) {
				n->live[at] = dot_div(l, p->live, s->inner);
			}
			continue;
		}
		n->from[at] = dot_rem(l, outer, d->size[i]);
		n->count[at] = 1;
		outer = dot_div(l, outer, d->size[i]);
	}
}

static bool
behind(const struct body *b, struct ll_value *tile, struct ll_value *batch,
       const struct dot_place *m, const struct dot_place *n, const char **why)
{
	const struct dot *d = b->d;
	struct cg_split one = { .cut = d->dims[0].n - 1, .step = 1,
				 .chunks = d->dims[0].size[d->dims[0].n - 1],
				 .inner = 1 };
	struct dot_place p = dot_place(b->l, &d->dims[0], &one, batch);
	struct cg_nest nest = { .k = d->k };
	struct cg_leaf leaf = { .value = d->value, .at = tile };
	uint32_t i;

	nest.space = *ir_type(d->c->m, d->value);
	for (i = 0; i < d->k->nodes.n; i++) {
		VEC_PUSH(d->c->a, &nest.nodes, d->k->nodes.at[i]);
	}
	dot_put_place(b->l, &nest, &leaf, &d->dims[0], &one, &p, 0);
	dot_put_place(b->l, &nest, &leaf, &d->dims[1], &d->rows, m, d->tile_ld);
	dot_put_place(b->l, &nest, &leaf, &d->dims[2], &d->cols, n, 1);
	for (i = 0; i < IR_MAX_DIMS; i++) {
		leaf.from[i] = nest.from[i];
	}
	VEC_PUSH(d->c->a, &nest.leaves, leaf);
	return cg_nest_box(d->c, d->out, b->func, &nest, why);
}

/* ---- multiplying ---- */

/* One item. */
struct item {
	struct ll_value *i, *row, *batch;	/* row: of those in the chunk */
	struct dot_place m, n;
	struct ll_value *to, *ld;	/* the tile; bytes of a row */
	struct ll_value *old;		/* 0: nothing is there yet */
	struct ll_value *a, *b;		/* sources */
	struct ll_value *own, *shared;
};

/* Tiles of the microkernel over a stretch of k. */
static void
multiply(const struct body *b, const struct item *t, struct ll_value *a,
	 struct ll_value *panels, struct ll_value *words,
	 struct ll_value *add)
{
	const struct dot *d = b->d;
	struct ll *l = b->l;
	struct ll_value *args[8];
	struct ll_loop r, c;

	ll_loop(l, &r, ll_i64(l, 0), t->m.live, d->unit.mr, NULL, 0);
	ll_loop(l, &c, ll_i64(l, 0), t->n.live, dot_nr(&d->unit), NULL, 0);
	args[0] = ll_plus(l, a, dot_mul(l, ll_bin(l, LL_MUL, r.i, words), 4));
	args[1] = ll_plus(l, panels,
			  dot_mul(l, ll_bin(l, LL_MUL, c.i, words), 4));
	args[2] = ll_plus(l, t->to, ll_bin(l, LL_MUL, r.i, t->ld));
	args[2] = ll_plus(l, args[2], dot_mul(l, c.i, 4));
	args[3] = words;
	args[4] = t->ld;
	args[5] = add;
	args[6] = dot_sub(l, t->m.live, r.i);
	args[7] = dot_sub(l, t->n.live, c.i);
	if (d->result == DOT_BOX) {	/* there is room for whole tiles */
		int64_t lanes = d->unit.lanes;

		args[6] = ll_i64(l, d->unit.mr);
		args[7] = dot_add(l, args[7], ll_i64(l, lanes - 1));
		args[7] = dot_mul(l, dot_div(l, args[7], lanes), lanes);
	}
	ll_call(l, b->tile, args, 8);
	ll_loop_end(l, &c, NULL);
	ll_loop_end(l, &r, NULL);
}

static void
all_depths(const struct body *b, const struct item *t)
{
	const struct dot *d = b->d;
	struct ll *l = b->l;
	struct ll_value *panels = ll_plus_n(l, t->own, d->own_b), *a, *add;
	struct ll_value *args[6];
	struct stretch k;
	struct ll_loop q;

	ll_loop(l, &q, b->first_depth, b->end_depth, 1, NULL, 0);
	k = stretch_of(l, d, q.i);
	args[0] = panels;
	args[1] = in_batch(b, 1, t->b, t->batch);
	args[2] = t->n.start;
	args[3] = t->n.live;
	args[4] = k.from;
	args[5] = k.n;
	ll_call(l, b->pack_b, args, 6);
	if (d->pack_own) {
		a = ll_plus_n(l, t->own, d->own_a);
		args[0] = a;
		args[1] = in_batch(b, 0, t->a, t->batch);
		args[2] = t->m.start;
		args[3] = t->m.live;
		ll_call(l, b->pack_a, args, 6);
	} else {
		a = packed_at(l, d, t->row, dot_sub(l, q.i, b->first_depth));
		a = ll_plus(l, t->shared, a);
	}
	add = ll_select(l, ll_test(l, LL_GT, q.i, ll_i64(l, 0)),
			ll_i64(l, 1), t->old);
	multiply(b, t, a, panels, k.words, add);
	ll_loop_end(l, &q, NULL);
}

static void
put_target(const struct body *b, struct item *t)
{
	const struct dot *d = b->d;
	struct ll *l = b->l;
	int64_t tile = 4 * d->tile_ld * dot_up(d->rows.most, d->unit.mr);
	struct ll_value *at;

	t->ld = ll_i64(l, 4 * d->tile_ld);
	if (d->result != DOT_BOX) {
		t->ld = ll_i64(l, 4 * d->n.size);
		at = dot_mul(l, t->batch, d->m.size);
		at = dot_mul(l, dot_add(l, at, t->m.start), d->n.size);
		at = dot_mul(l, dot_add(l, at, t->n.start), 4);
		t->to = ll_plus(l, cg_cpu_at(d->c, b->func, d->target), at);
	} else if (d->shared_c >= 0) {
		t->to = ll_plus_n(l, t->shared, d->shared_c);
		t->to = ll_plus(l, t->to, dot_mul(l, t->i, dot_up(tile, 64)));
	} else {
		t->to = ll_plus_n(l, t->own, d->own_c);
	}
}

/* The epilogue, when the sum over k is complete. */
static bool
finish(const struct body *b, const struct item *t, const char **why)
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
	done = behind(b, t->to, t->batch, &t->m, &t->n, why);
	ll_jump(l, no);
	ll_at(l, no);
	return done;
}

static bool
multiply_body(struct body *b, const char **why)
{
	struct dot *d = b->d;
	struct ll *l = b->l;
	struct item t;
	struct ll_value *row;
	struct ll_loop i;
	bool done;

	open_body(b, "multiply");
	t.own = ll_param(l, b->func, 1);
	t.shared = cg_cpu_shared(d->c, b->func);
	t.a = dot_source_at(d->c, b->func, &d->source[0]);
	t.b = dot_source_at(d->c, b->func, &d->source[1]);
	t.old = d->result == DOT_ADD ? cg_cpu_num(d->c, b->func, d->old)
				     : ll_i64(l, 0);
	dot_tiles_begin(d->c, &d->unit);
	ll_loop(l, &i, ll_param(l, b->func, 2), ll_param(l, b->func, 3), 1,
		NULL, 0);
	t.i = i.i;
	t.row = dot_div(l, i.i, d->cols.blocks);
	row = dot_add(l, t.row, b->first_row);
	t.batch = dot_div(l, row, d->rows.blocks);
	t.m = dot_place(l, &d->dims[1], &d->rows,
		       dot_rem(l, row, d->rows.blocks));
	t.n = dot_place(l, &d->dims[2], &d->cols,
		       dot_rem(l, i.i, d->cols.blocks));
	put_target(b, &t);
	all_depths(b, &t);
	done = finish(b, &t, why);
	ll_loop_end(l, &i, NULL);
	dot_tiles_end(d->c, &d->unit);
	ll_return(l, NULL);
	return done;
}

/* ---- all steps ---- */

static struct ll_value *
packer_of(struct dot *d, int which)
{
	bool tiles = d->unit.kind == DOT_TILES && which == 0;
	struct dot_pack p = {
		.unit = &d->unit, .base = d->source[which].base,
		.rows = which ? &d->n : &d->m, .k = &d->over, .which = which,
		.width = which ? dot_nr(&d->unit) : (int64_t)d->unit.mr,
		.tiles = tiles,
	};

	return dot_packer(d->c, &p);
}

/* One chunk of rows: stretches of k, so many at a time. */
static void
add_steps(struct body *pack, struct body *mul, int64_t row, int64_t rows)
{
	const struct dot *d = mul->d;
	int64_t q, end;

	for (q = 0; q < d->ndepth; q = end) {
		end = q + d->chunk_depth;
		end = end < d->ndepth ? end : d->ndepth;
		if (!d->pack_own) {
			add_step(pack, "pack", rows * groups(d) * (end - q),
				 row, q, end);
		}
		add_step(mul, "dot", rows * d->cols.blocks, row, q, end);
	}
}

bool
dot_emit(struct dot *d, const char **why)
{
	struct body mul = { .d = d, .l = d->c->ll }, pack;
	int64_t all = d->batch.size * d->rows.blocks, row, n;

	mul.tile = dot_tile(d->c, &d->unit);
	mul.pack_a = packer_of(d, 0);
	mul.pack_b = packer_of(d, 1);
	pack = mul;
	if (!d->pack_own) {
		pack_body(&pack);
	}
	if (!multiply_body(&mul, why)) {
		return false;
	}
	for (row = 0; row < all; row += n) {
		n = all - row < d->chunk_rows ? all - row : d->chunk_rows;
		add_steps(&pack, &mul, row, n);
	}
	return true;
}

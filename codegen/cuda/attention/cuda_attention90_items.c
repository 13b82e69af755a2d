/*
 * Items of attention forward with the copying unit: how they are ordered and
 * given to blocks, the rings that their keys and values pass, and what becomes
 * of their results.
 *
 * Where there are more items than blocks, the thread that copies takes them
 * from a counter (cuda_take.c).  Each item has a phase of the queries'
 * barriers, though it may have no key, and so no tile and no queries.  The
 * thread stores the item's number before it arrives at `full`: who waits there
 * reads it, and has read it when the queries are freed.
 */
#include "codegen/cuda/attention/cuda_attention90_forward.h"

#define NUMBER_AT 120	/* bytes, after all barriers: the next item */

/* ---- items ---- */

void
ca90_share_out(struct ca90_forward *p)
{
	struct ca_forward *s = &p->s;
	const struct attn *t = s->t;
	int64_t units = t->k->c->units;
	int64_t all = t->heads * t->batches;
	/* bytes of keys and values for each of the queries' heads */
	int64_t bytes = 2 * t->keys * (t->d + t->dv) / t->shared;

	p->items = s->blocks * all;
	p->blocks = p->lasts && units < p->items ? units : p->items;
	p->takes = p->blocks < p->items;
	p->heads = ca90_cached_bytes(t) / (bytes > 0 ? bytes : 1);
	p->heads = p->heads < 1 ? 1 : p->heads < all ? p->heads : all;
}

/*
 * In a section of heads, whose keys stay in the cache, the last queries see
 * most keys and come first: blocks that take items end at nearly the same time.
 */
static void
put_place(struct ca90_forward *p)
{
	struct ca_forward *s = &p->s;
	struct cu_func *f = &s->f;
	const struct attn *t = s->t;
	long long all = (long long)(t->heads * t->batches);
	long long heads = (long long)p->heads, blocks = (long long)s->blocks;

	cu_line(f, "const int section = item / %lld, in = item %% %lld;",
		heads * blocks, heads * blocks);
	if (all % heads) {
		cu_line(f, "const int wide = ca_min(%lld, %lld - section * "
			"%lld);", heads, all, heads);
	} else {
		cu_line(f, "const int wide = %lld;", heads);
	}
	cu_line(f, "const int nth = section * %lld + in %% wide;", heads);
	cu_line(f, "const int head = nth %% %lld, bat = nth / %lld;",
		(long long)t->heads, (long long)t->heads);
	cu_line(f, "const int row0 = (%lld - in / wide) * %lld;", blocks - 1,
		(long long)s->rows);
	cu_line(f, "const int live = ca_min(%lld, %lld - row0);",
		(long long)s->rows, (long long)t->queries);
	cu_line(f, "const int kv = %s;", ca_kv_head(f, t, "head"));
	ca_forward_keys(s);
	cu_line(f, "(void)head, (void)bat, (void)kv%s;", attn_is_masked(t)
		? ", (void)sure_from, (void)sure_to" : "");
	/* the first key of queries may come after their last one */
	cu_line(f, "const int tiles = %s(end - begin + %lld) / %lld%s;",
		attn_is_between(t) ? "end > begin ? " : "",
		(long long)(s->form.cols - 1), (long long)s->form.cols,
		attn_is_between(t) ? " : 0" : "");
}

/* Without a counter each block has one item. */
static void
open_single(struct ca90_forward *p)
{
	cu_line(&p->s.f, "{");
	cu_line(&p->s.f, "const int item = BLOCK_X;");
	put_place(p);
}

/* ---- items that are taken ---- */

static struct cu_take
take_of(const struct ca90_forward *p)
{
	return (struct cu_take){ .item = "item", .first = "BLOCK_X",
				 .takers = "NBLOCKS_X", .items = p->items };
}

/* C text: the item whose queries are there. */
static const char *
number(struct ca90_forward *p)
{
	return arena_printf(p->s.f.k->c->a, "*(i32 *)(SMEM + %lld)",
			    (long long)p->bars + NUMBER_AT);
}

void
ca90_say_item(struct ca90_forward *p)
{
	if (p->takes) {
		cu_line(&p->s.f, "%s = item;", number(p));
	}
}

/* A phase of the queries' barriers without queries. */
static void
put_none(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "mbar_wait(%s, turn);", ca90_bar(p, ATTN_Q, true, ""));
	ca90_say_item(p);
	cu_line(f, "mbar_arrive(%s);", ca90_bar(p, ATTN_Q, false, ""));
}

void
ca90_open_taking(struct ca90_forward *p)
{
	const struct cu_take t = take_of(p);
	struct cu_func *f = &p->s.f;

	if (p->takes) {
		cu_take_first(f, &t);
		buf_puts(&f->text, "#pragma unroll 1\n");
		cu_line(f, "while (item >= 0) {");
		put_place(p);
	} else {
		open_single(p);
	}
	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "if (tiles == 0) {");
	put_none(p);
	cu_line(f, "}");
}

void
ca90_close_taking(struct ca90_forward *p)
{
	const struct cu_take t = take_of(p);
	struct cu_func *f = &p->s.f;

	if (p->takes) {
		cu_take_next(f, &t);
		cu_line(f, "}");
		cu_line(f, "item = (int)shfl_u32((u32)item, 0);");
	} else {
		cu_line(f, "}");
	}
	cu_line(f, "slot += (u32)tiles;");
	cu_line(f, "turn ^= 1;");
	cu_line(f, "}");
	if (p->takes) {
		cu_line(f, "if (LANE == 0) {");
		put_none(p);
		cu_take_end(f, &t);
		cu_line(f, "}");
	}
}

void
ca90_open_items(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	if (!p->takes) {
		open_single(p);
		return;
	}
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (;;) {");
	cu_line(f, "mbar_wait(%s, turn);", ca90_bar(p, ATTN_Q, false, ""));
	cu_take_read(f, "item", number(p));
	cu_line(f, "if (item < 0) {");
	cu_line(f, "break;");
	cu_line(f, "}");
	put_place(p);
}

void
ca90_wait_queries(struct ca90_forward *p)
{
	if (!p->takes) {
		cu_line(&p->s.f, "mbar_wait(%s, turn);",
			ca90_bar(p, ATTN_Q, false, ""));
	}
}

void
ca90_free_queries(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "mbar_arrive(%s);", ca90_bar(p, ATTN_Q, true, ""));
	cu_line(f, "}");
}

/* ---- rings ---- */

const char *
ca90_bar(struct ca90_forward *p, uint32_t in, bool empty,
	 const char *stage)
{
	if (in == ATTN_Q) {
		return empty ? "bars + 8" : "bars";
	}
	return arena_printf(p->s.f.k->c->a, "bars + %d + 8 * (%s)",
			    16 + 16 * CA90_STAGES * (in == ATTN_V) +
			    8 * CA90_STAGES * empty, stage);
}

const char *
ca90_place(struct ca90_forward *p, uint32_t in, const char *stage)
{
	if (in == ATTN_Q) {
		return "sm";
	}
	return arena_printf(p->s.f.k->c->a, "sm + %lld + %lld * (%s)",
			    (long long)p->side[in].at,
			    (long long)p->side[in].bytes, stage);
}

/* C text: the place in a ring of tile `tile` of this item; `slot` tiles came
 * before the item. */
static const char *
slot(struct ca90_forward *p, const char *tile)
{
	return arena_printf(p->s.f.k->c->a, "(slot + %s)", tile);
}

const char *
ca90_stage_of(struct ca90_forward *p, const char *tile)
{
	return arena_printf(p->s.f.k->c->a, "%s %% %d", slot(p, tile),
			    CA90_STAGES);
}

void
ca90_wait_full(struct ca90_forward *p, uint32_t in, const char *tile)
{
	cu_line(&p->s.f, "mbar_wait(%s, %s / %d & 1);",
		ca90_bar(p, in, false, ca90_stage_of(p, tile)),
		slot(p, tile), CA90_STAGES);
}

/* ---- results ---- */

bool
ca90_put_results(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	if (p->lasts) {
		cu_comment(f, "the last results have left shared memory");
		cu_line(f, "%s", p->s.meet);
	} else {
		cu_comment(f, "Results overwrite what both warpgroups are done "
			   "with.");
		cu_line(f, "sync_named(5, 256);");
	}
	return ca_forward_put(&p->s);
}

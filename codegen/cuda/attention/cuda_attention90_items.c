/*
 * Items of attention forward with the copying unit: how they are ordered and
 * given to blocks, the rings that their keys and values pass, and what becomes
 * of their results.
 */
#include "codegen/cuda/attention/cuda_attention90_forward.h"

/* Keys and values that items are allowed to read again and again before others
 * begin: they stay in the L2 cache, which has 50 MB. */
#define CACHED_BYTES (INT64_C(32) << 20)

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
	p->heads = CACHED_BYTES / (bytes > 0 ? bytes : 1);
	p->heads = p->heads < 1 ? 1 : p->heads < all ? p->heads : all;
}

/*
 * In a section of heads, whose keys stay in the cache, the last queries see
 * most keys and come first; every second round of all blocks is in the opposite
 * order, so that no block has the longest item of each.
 */
void
ca90_open_items(struct ca90_forward *p)
{
	struct ca_forward *s = &p->s;
	struct cu_func *f = &s->f;
	const struct attn *t = s->t;
	long long all = (long long)(t->heads * t->batches);
	long long heads = (long long)p->heads, blocks = (long long)s->blocks;

	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int i = 0; i < %lld; i += NBLOCKS_X) {",
		(long long)p->items);
	cu_line(f, "const int item = i + (i / NBLOCKS_X %% 2 ? NBLOCKS_X - 1 - "
		"BLOCK_X : BLOCK_X);");
	cu_line(f, "if (item >= %lld) {", (long long)p->items);
	cu_line(f, "break;");
	cu_line(f, "}");
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
	cu_line(f, "const int tiles = (end - begin + %lld) / %lld;",
		(long long)(s->form.cols - 1), (long long)s->form.cols);
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

/*
 * The step that lists single queries.  A block of queries that share few of
 * their keys would compute scores of all its queries with the keys of each, so
 * its queries are single ones.  Items have one part of a query each if one item
 * would else have more than its share of the work, and otherwise all parts of a
 * query.  Where all queries are single ones and there are fewer slots than that
 * takes, only the longest are divided.  None of it changes a query's bits.
 */
#include "codegen/cuda/attention/cuda_attention_single.h"

#define WARPS 8
/* Queries of a block that see a key, in the mean: with fewer they are single
 * ones. */
#define DENSE "2.0f"

/* ---- text ---- */

/* Opens a loop over blocks of queries, of which a warp has some. */
static void
open_blocks(struct cu_func *f, const struct ca_single *x, int64_t blocks)
{
	cu_line(f, "for (int block = WARP; block < %lld; block += %d) {",
		(long long)blocks, WARPS);
	cu_line(f, "const int behind = ca_min(%lld, block * %lld + %lld);",
		(long long)x->s.t->queries, (long long)x->block,
		(long long)x->block);
}

/* Opens a loop over 32 queries of a block; `query` may be behind its end. */
static void
open_queries(struct cu_func *f, const struct ca_single *x)
{
	const struct attn *t = x->s.t;

	cu_line(f, "for (int at = block * %lld; at < behind; at += 32) {",
		(long long)x->block);
	cu_line(f, "const int own = ca_min(at + LANE, behind - 1);");
	cu_line(f, "const int from = %s;", ca_keys_from(f, t, "own"));
	cu_line(f, "const int to = %s;", ca_keys_to(f, t, "own"));
	cu_line(f, "int parts = at + LANE < behind ? ca_parts(from / %d * %d, "
		"to) : 0;", CA_PART_UNIT, CA_PART_UNIT);
}

/* Sets need[block] to the parts of its queries, or 0 if it stays a block; and
 * sized[n] to how many queries have n parts. */
static void
find_sparse(struct cu_func *f, const struct ca_single *x, int64_t blocks)
{
	cu_line(f, "if (TID <= %d) {", COST_PARTS);
	cu_line(f, "all[TID] = 0;");
	cu_line(f, "}");
	cu_line(f, "sync_block();");
	open_blocks(f, x, blocks);
	cu_line(f, "int first = %lld, last = 0, sum = 0;",
		(long long)x->s.t->keys);
	cu_line(f, "f32 seen = 0;");
	open_queries(f, x);
	cu_line(f, "if (parts > 0 && to > from) {");
	cu_line(f, "first = ca_min(first, from);");
	cu_line(f, "last = ca_max(last, to);");
	cu_line(f, "seen += (f32)(to - from);");
	cu_line(f, "}");
	cu_line(f, "sum += parts;");
	if (x->always) {
		cu_line(f, "if (parts > 0) {");
		cu_line(f, "atomic_add_i32(sized + parts, 1);");
		cu_line(f, "}");
	}
	cu_line(f, "}");
	cu_line(f, "for (int i = 16; i > 0; i /= 2) {");
	cu_line(f, "first = ca_min(first, (int)shfl_xor_u32((u32)first, i));");
	cu_line(f, "last = ca_max(last, (int)shfl_xor_u32((u32)last, i));");
	cu_line(f, "sum += (int)shfl_xor_u32((u32)sum, i);");
	cu_line(f, "seen += shfl_xor_f32(seen, i);");
	cu_line(f, "}");
	if (!x->always) {
		cu_line(f, "sum = seen < " DENSE " * (f32)(last - first) "
			"? sum : 0;");
	}
	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "need[block] = sum;");
	cu_line(f, "atomic_add_i32(all, sum);");
	cu_close(f, 2);
	cu_line(f, "sync_block();");
}

/*
 * Declares most: an item has one part of queries with more.  Queries that are
 * always single ones have no block to stay in, so `most` is what leaves no more
 * items than slots: of all queries with 16 parts or fewer as many as queries.
 */
static void
find_share(struct cu_func *f, const struct ca_single *x)
{
	const struct attn *t = x->s.t;

	cu_line(f, "int most = ca_max(1, (int)((i64)*all * %lld / %lld));",
		(long long)(t->kv * ca_single_items_of_kv(x)),
		(long long)cost_single_items(t->k->c->units));
	if (x->always) {
		cu_line(f, "for (; most < %d; most++) {", COST_PARTS);
		cu_line(f, "int slots = 0;");
		cu_line(f, "for (int i = 1; i <= %d; i++) {", COST_PARTS);
		cu_line(f, "slots += sized[i] * (i > most ? i : 1);");
		cu_line(f, "}");
		cu_line(f, "if (slots <= %lld) {", (long long)x->in.slots);
		cu_line(f, "break;");
		cu_close(f, 2);
	}
}

/* Sets need[block] to its first slot; -1: it stays a block. */
static void
divide_slots(struct cu_func *f, const struct ca_single *x, int64_t blocks)
{
	open_blocks(f, x, blocks);
	cu_line(f, "int sum = 0;");
	open_queries(f, x);
	cu_line(f, "sum += parts > most ? parts : parts > 0;");
	cu_line(f, "}");
	cu_line(f, "for (int i = 16; i > 0; i /= 2) {");
	cu_line(f, "sum += (int)shfl_xor_u32((u32)sum, i);");
	cu_line(f, "}");
	cu_line(f, "if (LANE == 0 && need[block] > 0) {");
	cu_line(f, "need[block] = sum;");
	cu_close(f, 2);
	cu_line(f, "sync_block();");
	cu_line(f, "if (TID == 0) {");
	cu_line(f, "int slots = 0;");
	cu_line(f, "for (int i = 0; i < %lld; i++) {", (long long)blocks);
	cu_line(f, "const int n = need[i];");
	cu_line(f, "const int fits = n > 0 && slots + n <= %lld;",
		(long long)x->in.slots);
	cu_line(f, "need[i] = fits ? slots : -1;");
	cu_line(f, "slots += fits ? n : 0;");
	cu_line(f, "}");
	cu_line(f, "*%s = slots;", ca_single_at(x, "i32", 0));
	cu_line(f, "}");
	cu_line(f, "sync_block();");
}

static void
list_items(struct cu_func *f, const struct ca_single *x, int64_t blocks)
{
	open_blocks(f, x, blocks);
	cu_line(f, "int slot = need[block];");
	cu_line(f, "const int is_block = slot < 0;");
	open_queries(f, x);
	cu_line(f, "const int n = is_block ? 0 : parts > most ? parts "
		": parts > 0;");
	cu_comment(f, "those of the lanes before, and this one's");
	cu_line(f, "int sum = n;");
	cu_line(f, "for (int i = 1; i < 32; i *= 2) {");
	cu_line(f, "const int more = (int)shfl_u32((u32)sum, "
		"(LANE - i) & 31);");
	cu_line(f, "sum += LANE >= i ? more : 0;");
	cu_line(f, "}");
	cu_line(f, "if (at + LANE < behind) {");
	cu_line(f, "%s[own] = slot + sum - n;",
		ca_single_at(x, "i32", x->in.first));
	cu_line(f, "%s[own] = n;", ca_single_at(x, "i32", x->in.count));
	cu_line(f, "i32 *to_item = %s + 3 * (slot + sum - n);",
		ca_single_at(x, "i32", x->in.items));
	cu_line(f, "for (int i = 0; i < n; i++) {");
	cu_line(f, "to_item[3 * i] = own;");
	cu_line(f, "to_item[3 * i + 1] = i;");
	cu_line(f, "to_item[3 * i + 2] = n > 1 ? i + 1 : parts;");
	cu_close(f, 2);
	cu_line(f, "slot += (int)shfl_u32((u32)sum, 31);");
	cu_close(f, 2);
}

void
ca_single_list(struct ca_single *x)
{
	struct cu_func *f = &x->s.f;
	const struct attn *t = x->s.t;
	int64_t blocks = ca_ceil_div(t->queries, x->block);

	cu_func_begin(t->k, "attention_list", f);
	f->grid->threads = 32 * WARPS;
	f->grid->blocks[0] = 1;
	f->grid->smem_bytes = 4 * (blocks + 1 + COST_PARTS);
	cu_comment(f, "%lld queries in blocks of %lld, %lld items at most",
		   (long long)t->queries, (long long)x->block,
		   (long long)x->in.slots);
	cu_launch_wait(f);
	cu_line(f, "i32 *need = (i32 *)SMEM, *all = need + %lld;",
		(long long)blocks);
	if (x->always) {
		cu_comment(f, "0 is of no query, so sized[1] follows all");
		cu_line(f, "i32 *sized = all;");
	}
	ca_declare_ranges(f, t);
	find_sparse(f, x, blocks);
	find_share(f, x);
	divide_slots(f, x, blocks);
	list_items(f, x, blocks);
	cu_func_end(f);
}

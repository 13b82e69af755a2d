/*
 * Pairs sorted by expert: steps that count the pairs of each expert in each
 * part, find where experts begin, and store each pair at its place.  A part
 * belongs to one warp.  Experts on other ranks count as one expert after all
 * that are here.
 */
#include "codegen/cuda/experts/cuda_experts.h"

#define PART 256		/* pairs of a part */
#define THREADS 256

/* C text: offset of position `i` of counted dims. */
static const char *
sum_at(struct arena *a, const struct cg_counted *d, const char *i, int which)
{
	const char *sum = "0", *here;
	int64_t below = 1, stride;
	uint32_t k;

	for (k = d->n; k-- > 0; below *= d->at[k].size) {
		stride = which == 2 ? d->at[k].out : d->at[k].stride[which];
		if (stride == 0 || d->at[k].size == 1) {
			continue;
		}
		here = below == 1 ? i
			: arena_printf(a, "%s / %lld", i, (long long)below);
		if (k > 0) {
			here = arena_printf(a, "%s %% %lld", here,
					    (long long)d->at[k].size);
		}
		sum = arena_printf(a, "%s + (i64)(%s) * %lld", sum, here,
				   (long long)stride);
	}
	return sum;
}

const char *
cu_experts_at(struct arena *a, const struct cu_experts *x, int which)
{
	return arena_printf(a, "(%s + %s)", sum_at(a, &x->p.pairs, "p", which),
			    sum_at(a, &x->p.rows, "in", which));
}

const char *
cu_experts_list(struct cu_func *f, int64_t list)
{
	return arena_printf(f->k->c->a, "((const i32 *)(a.shared + %lld))",
			    (long long)list);
}

static void
place_lists(struct cu_experts *x)
{
	struct cg_kernel *out = x->dot.k->out;

	x->sorters = (x->p.pairs.size + PART - 1) / PART;
	x->first = cg_reserve_shared(out, 256, 8 * (x->p.n + 2));
	x->block = x->first + 4 * (x->p.n + 2);
	x->order = cg_reserve_shared(out, 4, 4 * x->p.pairs.size);
	x->counts = cg_reserve_shared(out, 4, 4 * x->sorters * (x->p.n + 1));
}

/* ---- whose a pair is ---- */

static const char *
index_at(struct arena *a, const struct cu_experts *x)
{
	const char *sum = "0";
	int64_t below = 1;
	uint32_t k;

	for (k = x->p.pairs.n; k-- > 0; below *= x->p.pairs.at[k].size) {
		sum = arena_printf(a, "%s + (i64)(p / %lld %% %lld) * %lld",
				   sum, (long long)below,
				   (long long)x->p.pairs.at[k].size,
				   (long long)x->p.pairs.at[k].index);
	}
	return sum;
}

/* Writes a function NAME(index, pieces, p): the local index of a pair's
 * expert. */
static void
put_whose(const struct cu_experts *x, const char *name)
{
	struct cu_kernel *k = x->dot.k;
	struct buf *out = &k->text;

	buf_printf(out, "\n/* The expert of pair p; %lld: one elsewhere */\n"
		   "FN int\n%s(const i32 *index, const struct pieces *pieces, "
		   "int p)\n{\n\tconst int e = index[%s];\n", (long long)x->p.n,
		   name, index_at(k->c->a, x));
	if (!x->p.cut) {
		buf_puts(out, "\n\t(void)pieces;\n\treturn e;\n}\n");
		return;
	}
	buf_printf(out, "\tint before = 0, i;\n\n"
		   "\tfor (i = 0; i < pieces->n; i++) {\n"
		   "\t\tconst int at = e - (int)pieces->at[i].start;\n\n"
		   "\t\tif (at >= 0 && at < pieces->at[i].count) {\n"
		   "\t\t\treturn before + at;\n\t\t}\n"
		   "\t\tbefore += (int)pieces->at[i].count;\n\t}\n"
		   "\treturn %lld;\n}\n", (long long)x->p.n);
}

static const char *
call_whose(struct cu_func *f, const struct cu_experts *x, const char *name,
	   const char *p)
{
	return arena_printf(f->k->c->a, "%s((const i32 *)%s, %s, %s)", name,
			    cu_operand(f, x->p.index),
			    cu_pieces(f, x->p.spread), p);
}

/* ---- counting ---- */

static void
begin_warps(struct cu_experts *x, struct cu_func *f, const char *what)
{
	cu_func_begin(x->dot.k, what, f);
	f->grid->blocks[0] = x->sorters;
	f->grid->smem_bytes = 4 * (x->p.n + 1);
	cu_comment(f, "%lld pairs, %lld experts", (long long)x->p.pairs.size,
		   (long long)x->p.n);
	cu_line(f, "i32 *const count = (i32 *)SMEM;");
	cu_line(f, "const int from = BLOCK_X * %d;", PART);
	if (x->p.pairs.size % PART) {
		cu_line(f, "const int to = from + %d < %lld ? from + %d : "
			"%lld;", PART, (long long)x->p.pairs.size, PART,
			(long long)x->p.pairs.size);
	} else {
		cu_line(f, "const int to = from + %d;", PART);
	}
	cu_line(f, "int p, e;");
}

static void
count(struct cu_experts *x, const char *whose)
{
	struct cu_func f;
	long long n = (long long)x->p.n + 1;

	begin_warps(x, &f, "count");
	cu_line(&f, "for (e = LANE; e < %lld; e += 32) {", n);
	cu_line(&f, "count[e] = 0;");
	cu_line(&f, "}");
	cu_line(&f, "sync_block();");
	cu_launch_wait(&f);
	cu_line(&f, "for (p = from + LANE; p < to; p += 32) {");
	cu_line(&f, "atomic_add_i32(&count[%s], 1);",
		call_whose(&f, x, whose, "p"));
	cu_line(&f, "}");
	cu_line(&f, "sync_block();");
	cu_line(&f, "for (e = LANE; e < %lld; e += 32) {", n);
	cu_line(&f, "((i32 *)(a.shared + %lld))[BLOCK_X * %lld + e] = "
		"count[e];", (long long)x->counts, n);
	cu_line(&f, "}");
	cu_func_end(&f);
}

/* ---- where experts begin ---- */

/* From the number of pairs of each expert to its first pair and first block. */
static void
put_begins(struct cu_func *f, const struct cu_experts *x)
{
	cu_line(f, "if (TID == 0) {");
	cu_line(f, "int pairs = 0, blocks = 0;");
	cu_line(f, "for (e = 0; e < %lld; e++) {", (long long)x->p.n + 1);
	cu_line(f, "first[e] = pairs;");
	cu_line(f, "block[e] = blocks;");
	cu_line(f, "pairs += total[e];");
	if (!x->p.others) {
		cu_line(f, "if (e < %lld) {", (long long)x->p.n);
	}
	cu_line(f, "blocks += (total[e] * %lld + %lld) / %lld;",
		(long long)x->p.rows.size, (long long)x->most - 1,
		(long long)x->most);
	if (!x->p.others) {
		cu_line(f, "}");
	}
	cu_line(f, "}");
	cu_line(f, "first[%lld] = pairs;", (long long)x->p.n + 1);
	cu_line(f, "block[%lld] = blocks;", (long long)x->p.n + 1);
	cu_line(f, "}");
}

static void
begins(struct cu_experts *x)
{
	struct cu_func f;
	long long n = (long long)x->p.n + 1;

	cu_func_begin(x->dot.k, "begins", &f);
	f.grid->threads = THREADS;
	f.grid->smem_bytes = 4 * n;
	cu_comment(&f, "%lld parts of %lld experts; blocks of %lld rows",
		   (long long)x->sorters, (long long)x->p.n,
		   (long long)x->most);
	cu_line(&f, "i32 *const total = (i32 *)SMEM;");
	cu_line(&f, "i32 *const counts = (i32 *)(a.shared + %lld);",
		(long long)x->counts);
	cu_line(&f, "i32 *const first = (i32 *)(a.shared + %lld);",
		(long long)x->first);
	cu_line(&f, "i32 *const block = (i32 *)(a.shared + %lld);",
		(long long)x->block);
	cu_line(&f, "int e, i;");
	cu_line(&f, "for (e = TID; e < %lld; e += %d) {", n, THREADS);
	cu_line(&f, "int sum = 0;");
	cu_line(&f, "for (i = 0; i < %lld; i++) {", (long long)x->sorters);
	cu_line(&f, "const int here = counts[i * %lld + e];", n);
	cu_line(&f, "counts[i * %lld + e] = sum;", n);
	cu_line(&f, "sum += here;");
	cu_line(&f, "}");
	cu_line(&f, "total[e] = sum;");
	cu_line(&f, "}");
	cu_line(&f, "sync_block();");
	put_begins(&f, x);
	cu_func_end(&f);
}

/* ---- each to its place ---- */

/* 32 pairs at once, each after those of lower lanes with the same expert. */
static void
put_places(struct cu_func *f, const struct cu_experts *x, const char *whose)
{
	cu_line(f, "for (p = from; p < to; p += 32) {");
	cu_line(f, "const int mine = p + LANE < to ? %s : -1;",
		call_whose(f, x, whose, "p + LANE"));
	cu_line(f, "int before = 0, behind = 0, i;");
	cu_line(f, "for (i = 0; i < 32; i++) {");
	cu_line(f, "const int other = (int)shfl_u32((u32)mine, i);");
	cu_line(f, "before += other == mine && i < LANE;");
	cu_line(f, "behind += other == mine && i > LANE;");
	cu_line(f, "}");
	cu_line(f, "if (mine >= 0) {");
	cu_line(f, "order[count[mine] + before] = p + LANE;");
	cu_line(f, "}");
	cu_line(f, "sync_block();");
	cu_line(f, "if (mine >= 0 && behind == 0) {");
	cu_line(f, "count[mine] += before + 1;");
	cu_line(f, "}");
	cu_line(f, "sync_block();");
	cu_line(f, "}");
}

static void
place(struct cu_experts *x, const char *whose)
{
	struct cu_func f;
	long long n = (long long)x->p.n + 1;

	begin_warps(x, &f, "order");
	cu_line(&f, "i32 *const order = (i32 *)(a.shared + %lld);",
		(long long)x->order);
	cu_line(&f, "for (e = LANE; e < %lld; e += 32) {", n);
	cu_line(&f, "count[e] = %s[e] + %s[BLOCK_X * %lld + e];",
		cu_experts_list(&f, x->first), cu_experts_list(&f, x->counts),
		n);
	cu_line(&f, "}");
	cu_line(&f, "sync_block();");
	put_places(&f, x, whose);
	cu_func_end(&f);
}

void
cu_experts_sort(struct cu_experts *x)
{
	const char *whose = cu_func_name(x->dot.k, "expert_of");

	place_lists(x);
	put_whose(x, whose);
	count(x, whose);
	begins(x);
	place(x, whose);
}

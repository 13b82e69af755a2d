/*
 * Split k: tiles whose k is divided among several blocks, so that the last
 * wave is as full as the others.
 *
 * A wave has as many tiles as there are multiprocessors.  Tiles of full waves
 * are not split.  The remaining tiles, or all tiles if there is no full wave,
 * would leave multiprocessors idle, so each of them is made by several blocks,
 * of one part of k each.  Partial sums are stored in shared scratch as they
 * lie in registers, 16 bytes at a time; a later step adds them in the order of
 * k and runs the epilogue, so sums are the same bits in every run.
 *
 * Blocks that take over in the middle of a tile ("stream-K") would fill the
 * last wave entirely, but then the order of a sum would depend on the tile's
 * place.  With equal parts, at most one part's share of a wave is lost.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

#define MOST_PARTS ((int64_t)64 << 20)	/* most bytes of partial sums */
#define MOST_SPLITS 16
#define LEAST_STAGES 4		/* fewest stages of a part */

int64_t
dot90_most_splits(const struct dot90 *p)
{
	int64_t most = dot90_all_stages(p) / LEAST_STAGES;

	return most < 1 ? 1 : most < MOST_SPLITS ? most : MOST_SPLITS;
}

static bool
part_suits(struct dot90 *p, int64_t part)
{
	uint32_t i, n = dot90_nmembers(p);

	for (i = 0; i < n && dot90_part_suits(dot90_member(p, i)->d,
					      dot90_width(p), part); i++) {
	}
	return i == n;
}

/* Columns of a block that adds partial sums; 0: no number suits the
 * epilogue. */
static int64_t
sum_cols(struct dot90 *p)
{
	static const int64_t cols[] = { 64, 32, 128, 256, 16 };
	size_t i;

	for (i = 0; i < sizeof cols / sizeof cols[0]; i++) {
		if (dot90_width(p) % cols[i] == 0 && part_suits(p, cols[i])) {
			return cols[i];
		}
	}
	return 0;
}

bool
dot90_set_parts(struct dot90 *p, int64_t splits)
{
	int64_t units = p->blocks / p->cluster * p->cluster;
	int64_t stages = dot90_all_stages(p);

	p->steps = (stages + splits - 1) / splits;
	p->splits = (stages + p->steps - 1) / p->steps;
	p->whole = p->splits == 1 ? p->tiles : p->tiles / units * units;
	p->items = p->whole + (p->tiles - p->whole) * p->splits;
	p->sum_cols = p->splits == 1 ? 0 : sum_cols(p);
	return p->splits == splits && p->items < INT32_MAX &&
	       (splits == 1 || (p->whole < p->tiles && p->sum_cols > 0 &&
				dot90_parts_bytes(p) <= MOST_PARTS));
}

int64_t
dot90_parts_bytes(const struct dot90 *p)
{
	return 4 * p->rows * p->cols * (p->items - p->whole);
}

/* ---- text of items ---- */

const char *
dot90_split_text(const struct dot90 *p, struct arena *a)
{
	long long whole = (long long)(p->whole / p->cluster);
	long long rest = (long long)(p->tiles / p->cluster) - whole;

	if (p->splits == 1) {
		return "0";
	}
	return whole ? arena_printf(a, "tile < %lld ? 0 : (tile - %lld) / "
				    "%lld", whole, whole, rest)
		: arena_printf(a, "tile / %lld", rest);
}

void
dot90_steps_emit(struct cu_func *f, const struct dot90 *p)
{
	long long whole = (long long)(p->whole / p->cluster);
	long long rest = (long long)(p->tiles / p->cluster) - whole;
	long long all = (long long)dot90_all_stages(p), last;
	struct buf *b = &f->k->text;

	if (p->splits == 1) {
		return;
	}
	last = all - (long long)(p->steps * (p->splits - 1));
	buf_printf(b, "\n/* Stages of k: of a whole tile, of a part, of the "
		   "last part. */\nFN int\n%s_steps(int tile)\n{\n",
		   f->grid->func);
	if (whole) {
		buf_printf(b, "\tif (tile < %lld) {\n\t\treturn %lld;\n\t}\n",
			   whole, all);
	}
	buf_printf(b, "\treturn tile < %lld ? %lld : %lld;\n}\n", whole + rest *
		   (long long)(p->splits - 1), (long long)p->steps, last);
}

const char *
dot90_steps_text(struct cu_func *f, const struct dot90 *p, const char *tile)
{
	struct arena *a = f->k->c->a;

	return p->splits == 1 ? arena_printf(a, "%lld", (long long)p->steps)
		: arena_printf(a, "%s_steps(%s)", f->grid->func, tile);
}

/* ---- parts that wait ---- */

/* A function that stores a thread's sums: `pieces` of n, as dot90_piece_at has
 * them. */
static void
part_emit(struct cu_func *f, const struct dot90 *p, const char *func,
	  long long n, long long pieces, long long threads)
{
	struct buf *b = &f->k->text;
	long long i;

	buf_printf(b, "\n/* A part, as it lies in registers. */\n"
		   "FN void\n%s(f32 *to, const f32 *s)\n{\n\tint j;\n\n"
		   "#pragma unroll\n\tfor (j = 0; j < %lld; j += 4) {\n",
		   func, n);
	for (i = 0; i < pieces; i++) {
		const char *at = i == 0 ? "" : arena_printf(f->k->c->a,
			"%lld + ", i * n);
		const char *to = i == 0 ? "j" : arena_printf(f->k->c->a,
			"(j + %lld)", (long long)dot90_piece_at(p, i));

		buf_printf(b, "\t\t*(f32x4 *)(to + %s * %lld) = f32x4_of("
			   "s[%sj], s[%sj + 1], s[%sj + 2], s[%sj + 3]);\n",
			   to, threads, at, at, at, at);
	}
	buf_puts(b, "\t}\n}\n");
}

void
dot90_put_part(struct cu_func *f, const struct dot90 *p,
	       const struct dot90 *q, const char *sub)
{
	struct arena *a = f->k->c->a;
	long long pieces = sub ? (long long)(dot90_units(p) * dot90_each(p))
			       : 1;
	const char *at = arena_printf(a, p->whole ? "(tile - %lld)" : "tile",
				      (long long)(p->whole / p->cluster));
	long long threads = (long long)dot90_team_threads(p);

	part_emit(f, p, dot90_func(f, p, "part"),
		  (long long)(p->rows * q->cols) / threads / pieces, pieces,
		  threads);
	if (p->cluster > 1) {
		at = arena_printf(a, "(%s * %lld + cluster_rank())", at,
				  (long long)p->cluster);
	}
	cu_line(f, "%s((f32 *)(a.shared + %lld) + (i64)%s * %lld + %s * "
		"4%s, d);", dot90_func(f, p, "part"), (long long)p->d->parts,
		at,
		(long long)(p->rows * p->cols), dot90_thread(p), sub
		? arena_printf(a, " + %s * %lld", sub,
			       (long long)dot90_width(q) / 2 * threads) : "");
}

/*
 * How the tiles that a block takes (cuda_take.c) become known to its threads.
 *
 * The thread that copies takes a tile once it has ordered all stages of the
 * last, and stores its number beside the stage that begins it, before it
 * arrives at the stage's `full` barrier: who waits for the stage reads it
 * there, and has read it when the stage is freed.  After the last tile a stage
 * without bytes has none.
 *
 * Of a cluster the first block takes the number, and sends it to the other one
 * as a word that an mbarrier of that stage counts.  All readers in both blocks
 * are done with the stage then, as its `empty` barrier says.
 *
 * With tcgen05 the thread that multiplies is the only reader.  A commit says
 * when products have read a stage, and nothing of what the thread itself has
 * read, so the thread arrives at `empty` as well.  Stages are free long before
 * sums are put away: so it passes the number on to the team whose sums these
 * will be, once that team has drained the ones before, and so has read their
 * number.  That there is no tile it passes on to both teams.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

/* Bytes, after the barriers of the ring: of numbers passed on to two teams; of
 * numbers that were sent, one for each stage; numbers; and for each of two
 * teams the stages before its turn, or its tile. */
#define PASSED_AT 176
#define HEARD_AT 192
#define TILES_AT 256
#define SLOTS_AT 288

static long long
smem_at(const struct dot90 *p, int offset)
{
	return (long long)dot90_bars_at(p) + offset;
}

/* C text: the number of the tile that begins at this stage. */
static const char *
number(struct cu_func *f, const struct dot90 *p)
{
	return arena_printf(f->k->c->a, "*(i32 *)(SMEM + %lld + 4 * stage)",
			    smem_at(p, TILES_AT));
}

void
dot90_take_bars(struct cu_func *f, const struct dot90 *p)
{
	if (p->cluster > 1) {
		cu_line(f, "for (int i = 0; i < %lld; i++) {",
			(long long)p->ring);
		cu_line(f, "mbar_init(full + %d + 8 * i, 1);", HEARD_AT);
		cu_line(f, "}");
	}
	if (p->has->tensor) {
		cu_line(f, "for (int i = 0; i < 2; i++) {");
		cu_line(f, "mbar_init(full + %d + 8 * i, 1);", PASSED_AT);
		cu_line(f, "}");
	}
}

/* ---- the thread that copies ---- */

/* The other block of a cluster learns a number, or sends it. */
static void
put_pair(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "const u32 heard = full + %d + 8 * stage;", HEARD_AT);
	cu_line(f, "if (cluster_rank() == 0) {");
	cu_line(f, "%s = tile;", number(f, p));
	cu_line(f, "if (more) {");
	cu_line(f, "send_word(map_cta(full + %d + 4 * stage, 1), (u32)tile, "
		"map_cta(heard, 1));", TILES_AT);
	cu_line(f, "}");
	cu_line(f, "} else if (more) {");
	cu_line(f, "mbar_expect(heard, 4);");
	cu_line(f, "mbar_wait(heard, phases >> stage & 1);");
	cu_line(f, "phases ^= 1u << stage;");
	cu_line(f, "tile = %s;", number(f, p));
	cu_line(f, "} else {");
	cu_line(f, "%s = tile;", number(f, p));
	cu_line(f, "}");
}

static struct cu_take
take_of(const struct dot90 *p)
{
	return (struct cu_take){
		.item = "tile", .first = dot90_first_tile(p),
		.takers = p->cluster > 1 ? "(NBLOCKS_X / 2)" : "NBLOCKS_X",
		.items = p->items / p->cluster,
		.who = p->cluster > 1 ? "cluster_rank() == 0" : NULL
	};
}

void
dot90_open_taking(struct cu_func *f, const struct dot90 *p)
{
	const struct cu_take t = take_of(p);

	cu_take_first(f, &t);
	if (p->cluster > 1) {
		cu_line(f, "u32 phases = 0;");
	}
	cu_line(f, p->cluster > 1 ? "for (int more = 0;; more = 1) {"
		: "for (;;) {");
	cu_line(f, "mbar_wait(empty + 8 * stage, parity);");
	if (p->cluster > 1) {
		put_pair(f, p);
	} else {
		cu_line(f, "%s = tile;", number(f, p));
	}
	cu_line(f, "if (tile < 0) {");
	cu_line(f, "mbar_arrive(full + 8 * stage);");
	cu_line(f, "break;");
	cu_line(f, "}");
	dot90_tile_place(f, p);
}

void
dot90_close_taking(struct cu_func *f, const struct dot90 *p)
{
	const struct cu_take t = take_of(p);

	cu_take_next(f, &t);
	cu_line(f, "}");
	cu_take_end(f, &t);
}

/* ---- teams that multiply ---- */

static void
put_number(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "mbar_wait(full + 8 * stage, parity);");
	cu_take_read(f, "tile", number(f, p));
}

/* Two teams take turns, and the one whose turn ends says where the other one's
 * begins; or that there is no tile. */
static void
open_turns(struct cu_func *f, const struct dot90 *p)
{
	long long ring = (long long)p->ring;

	cu_line(f, "for (int more = team;; more = 1) {");
	cu_line(f, "if (more) {");
	cu_line(f, "sync_named(3 + team, 256);");
	cu_line(f, "slot = shfl_u32(*(const u32 *)(SMEM + %lld + 4 * team), "
		"0);", smem_at(p, SLOTS_AT));
	cu_line(f, "}");
	cu_line(f, "if (slot == ~0u) {");
	cu_line(f, "break;");
	cu_line(f, "}");
	cu_line(f, "int stage = (int)(slot %% %lld);", ring);
	cu_line(f, "int parity = (int)(slot / %lld & 1);", ring);
	put_number(f, p);
	cu_line(f, "if (tile < 0) {");
	dot90_pass_turn(f, p, "~0u");
	cu_line(f, "break;");
	cu_line(f, "}");
}

void
dot90_pass_turn(struct cu_func *f, const struct dot90 *p, const char *slot)
{
	cu_line(f, "if (TID %% 128 == 0) {");
	cu_line(f, "*(u32 *)(SMEM + %lld + 4 * (1 - team)) = %s;",
		smem_at(p, SLOTS_AT), slot);
	cu_line(f, "}");
	cu_line(f, "arrive_named(4 - team, 256);");
}

void
dot90_open_taken(struct cu_func *f, const struct dot90 *p)
{
	if (p->teams > 1) {
		open_turns(f, p);
	} else {
		cu_line(f, "for (;;) {");
		put_number(f, p);
		cu_line(f, "if (tile < 0) {");
		cu_line(f, "break;");
		cu_line(f, "}");
	}
	dot90_tile_place(f, p);
}

/* ---- the thread that multiplies by tcgen05, and both teams ---- */

void
dot90_open_passing(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "for (int ended = 0; ended < 2; turn++) {");
	cu_line(f, "const int which = turn %% 2;");
	cu_line(f, "mbar_wait(full + 8 * stage, parity);");
	cu_line(f, "const int tile = %s;", number(f, p));
	cu_line(f, "mbar_wait(drained + 8 * which, turn / 2 %% 2 ^ 1);");
	cu_line(f, "*(i32 *)(SMEM + %lld + 4 * which) = tile;",
		smem_at(p, SLOTS_AT));
	cu_line(f, "mbar_arrive(full + %d + 8 * which);", PASSED_AT);
	cu_line(f, "if (tile < 0) {");
	cu_line(f, "ended++;");
	cu_line(f, "continue;");
	cu_line(f, "}");
	dot90_tile_place(f, p);
}

void
dot90_number_read(struct cu_func *f, const struct dot90 *p)
{
	int64_t i;

	if (p->cluster == 1) {
		cu_line(f, "mbar_arrive(empty + 8 * stage);");
	}
	for (i = 0; p->cluster > 1 && i < p->cluster; i++) {
		cu_line(f, "mbar_arrive_cta(empty + 8 * stage, %lld);",
			(long long)i);
	}
}

void
dot90_open_passed(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "for (;;) {");
	cu_line(f, "mbar_wait(full + %d + 8 * team, parity);", PASSED_AT);
	cu_line(f, "const int tile = (int)shfl_u32(*(const u32 *)(SMEM + %lld "
		"+ 4 * team), 0);", smem_at(p, SLOTS_AT));
	cu_line(f, "if (tile < 0) {");
	cu_line(f, "break;");
	cu_line(f, "}");
	dot90_tile_place(f, p);
}

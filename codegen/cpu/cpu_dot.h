/*
 * Contractions on a CPU, between the files of dot*.c.
 *
 * Both operands are packed into panels of 4-byte words: a word is a float, or
 * two bf16 that stand side by side along k.  A panel of A has `mr` rows, one
 * of B `nr` columns; the microkernel makes mr x nr floats of two panels.
 */
#ifndef CODEGEN_CPU_DOT_H
#define CODEGEN_CPU_DOT_H

#include "codegen/cpu/cpu.h"
#include "codegen/dot/dot.h"

/* ---- cpu_dot_view.c: where operands lie --------------------------------- */

/* An operand as it lies in memory, through views. */
struct dot_source {
	struct cg_view view;
	enum ll_base base;
};

struct cg_site dot_site(const struct cg_cpu *c, struct cg_kernel *out);
/* False: it is no such view. */
bool dot_find_source(struct cg_cpu *c, struct cg_kernel *out,
		const struct kernel *k, value_id v, struct dot_source *s);
/* The first element, in the step at hand. */
struct ll_value *dot_source_at(struct cg_cpu *c, struct ll_value *step,
			       const struct dot_source *s);
/* Whether the operand's elements lie side by side along all of it. */
bool dot_factor_dense(const struct cg_factor *f, int which);
/* Bytes from position 0 to position i; `bytes` of an element. */
struct ll_value *dot_factor_at(struct ll *l, const struct cg_factor *f,
			       int which, struct ll_value *i, int64_t bytes);

/* ---- cpu_dot_tile.c: the microkernel ------------------------------------ */

enum dot_kind {
	DOT_FMA,		/* words are f32 */
	DOT_PAIRS,		/* two bf16; AVX-512 BF16 */
	DOT_TILES,		/* two bf16; AMX */
	DOT_NKINDS
};

struct dot_unit {
	enum dot_kind kind;
	uint32_t lanes;		/* floats of a vector */
	uint32_t mr, nv;	/* rows; vectors in a row */
	uint32_t per_word;	/* elements along k */
	uint32_t words;		/* k is padded to so many words */
};

/* For operands of that dtype on the module's CPU. */
struct dot_unit dot_unit(struct cg_cpu *c, enum ir_dtype dtype);
static inline int64_t
dot_nr(const struct dot_unit *u)
{
	return (int64_t)u->nv * u->lanes;
}
/*
 * void (a, b, c, words, ldc, add, next, next_ld, lines, nlines, rows, cols):
 * c[rows][cols] is the product of two panels, plus what is there if `add`.
 * On the way it asks for what is wanted then: rows at `next`, and `mr` times
 * `nlines` lines whose addresses are listed.  Rows are so many bytes apart.
 * Emitted once.
 */
struct ll_value *dot_tile_func(struct cg_cpu *c, const struct dot_unit *u);
/* What a worker must do before and behind tiles of a step. */
void dot_tiles_begin(struct cg_cpu *c, const struct dot_unit *u);
void dot_tiles_end(struct cg_cpu *c, const struct dot_unit *u);

/* ---- cpu_dot_pack.c: panels --------------------------------------------- */

struct dot_pack {
	const struct dot_unit *unit;
	enum ll_base base;	/* of what is read */
	const struct cg_factor *rows, *k;
	int which;		/* of their strides */
	int64_t width;		/* rows of a panel */
	bool tiles;		/* 16 words of a row, then the next row */
};

/* Words that kn elements along k become. */
struct ll_value *dot_words(struct ll *l, const struct dot_unit *u,
			   struct ll_value *kn);
int64_t dot_words_of(const struct dot_unit *u, int64_t kn);
/*
 * void (dst, src, row, rows, k, kn): panels of those rows, with zeros up to
 * a whole panel and up to whole words.
 */
struct ll_value *dot_packer_func(struct cg_cpu *c, const struct dot_pack *p);

/* ---- cpu_dot_ahead.c: lines that will be wanted ------------------------- */

/* Bytes of a list of the lines of a block, so many rows by k elements. */
int64_t dot_list_bytes(const struct dot_pack *p, int64_t rows, int64_t k);
/*
 * i64 (list, src, row, rows, k, kn): the addresses of the lines that packing
 * this block will read, and how many they are.
 */
struct ll_value *dot_lister_func(struct cg_cpu *c, const struct dot_pack *p);

/* -- cpu_dot.c, cpu_dot_plan.c, cpu_dot_steps.c: a contraction as steps -- */

enum dot_result {
	DOT_BOX,		/* nodes behind it make something of a tile */
	DOT_STORE,		/* f32, as it is */
	DOT_ADD			/* on top of what is there, f32 */
};

struct dot {
	struct cg_cpu *c;
	struct cg_kernel *out;
	const struct kernel *k;
	value_id value;		/* the contraction's result */
	struct dot_unit unit;
	struct dot_source source[2];
	struct cg_factor batch, m, n, over;
	struct cg_dims dims[3];	/* of batch, m, n */
	enum dot_result result;
	uint32_t target;	/* operand of STORE, ADD, and of far tiles */
	int64_t far_bytes;	/* of its elements; 0: they lie in none */
	uint32_t old;		/* ADD: number, 0 if there is nothing yet */
	bool whole_last;	/* the epilogue wants whole last dims */
	/* the plan */
	struct cg_split rows, cols;
	int64_t depth, ndepth;	/* along k, of a block of both operands */
	int64_t tile_ld;	/* floats of a row of a tile in a room */
	/* by operand: each item packs its block; else a step before does */
	bool own[2];
	int64_t chunk_rows, chunk_depth;	/* blocks of A at a time */
	/* offsets in a worker's room; of the list of lines, or -1 */
	int64_t own_b, own_c, own_a, own_list;
	int64_t shared_b, shared_c;	/* panels; tiles that wait, or -1 */
};

/* How an operand is packed. */
struct dot_pack dot_packing(const struct dot *d, int which);
/* False: another way is better, or the only one. */
bool dot_plan(struct dot *d);
bool dot_emit(struct dot *d, const char **why);
static inline int64_t
dot_round_up(int64_t n, int64_t to)
{
	return (n + to - 1) / to * to;
}

/* ---- for experts, which are contractions as well ----------------------- */

/* Dims of a factor, in the order of `dims`, as they lie in both sources. */
void dot_add_factor(const struct dot *d, const struct ir_factor *f,
		    const dim_id *dims, const struct ir_type *const *types,
		    struct cg_factor *to);
/* Where they are in the result. */
void dot_add_dims(const struct dot *d, const struct ir_factor *f,
		  struct cg_dims *to);
/* Blocks of about `want` positions, at least one and whole units of them. */
struct cg_split dot_split_dims(const struct cg_dims *d, int64_t want,
			   int64_t unit);

/* A block, and what a nest has to know of it. */
struct dot_place {
	struct ll_value *outer, *chunk;	/* of the split */
	struct ll_value *start, *live;	/* positions */
};

struct dot_place dot_block_place(struct ll *l, const struct cg_dims *d,
			   const struct cg_split *s,
			   struct ll_value *block);
void dot_nest_place(struct ll *l, struct cg_nest *n, struct cg_leaf *leaf,
		   const struct cg_dims *d, const struct cg_split *s,
		   const struct dot_place *p, int64_t stride);

#endif

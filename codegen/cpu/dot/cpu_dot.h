/*
 * Contractions on a CPU, between the files cpu_dot*.c and cpu_experts*.c.
 *
 * Both operands are packed into panels of 4-byte words: a word is a float, or
 * two bf16 that are neighbours along k.  A panel of A has `mr` rows, one of B
 * `nr` columns; the microkernel computes mr x nr floats from two panels.
 *
 * The order of each sum follows from the sizes of k, the dtype and the CPU
 * alone.  k is divided into stretches of at most 512 words.  In a stretch one
 * product after another is added to zero, in the order of k: with FMA where the
 * CPU has it, two products at a time with AVX-512 BF16.  Then stretches are
 * added in their order.  With AMX there is one sum over all of k, of 32
 * products at a time.  Of an int4 a stretch is half of a group, whose scale its
 * sum is multiplied by when it is added; AMX, whose sums are of many groups,
 * multiplies numbers that are scaled and rounded to bf16.  So a row of the
 * result has the same bits whatever other rows are computed with it:
 * tests/unit/codegen/t-dot-rows.c.
 */
#ifndef CODEGEN_CPU_DOT_H
#define CODEGEN_CPU_DOT_H

#include "codegen/cpu/cpu.h"
#include "codegen/dot/dot.h"

/* ---- cpu_dot_view.c: where operands lie --------------------------------- */

/* An operand as it lies in memory, through views. */
struct dot_source {
	struct cg_view view;
	/* LL_I8: a weight that is stored in view.dtype */
	enum ll_base base;
};

/*
 * So many elements have so many bytes.  A row of an int4 is its numbers and
 * then its scales: elements that are contiguous along k have 1 byte for 2, but
 * rows and what consists of rows 33 for 64.
 */
struct dot_size {
	int64_t bytes, elems;
};

struct dot_size dot_size_along(enum ll_base base, uint8_t dtype);
struct dot_size dot_size_apart(enum ll_base base, uint8_t dtype);
static inline int64_t
dot_bytes(struct dot_size z, int64_t elems)
{
	return elems * z.bytes / z.elems;
}
struct ll_value *dot_bytes_of(struct ll *l, struct dot_size z,
			      struct ll_value *elems);

/* Whether the source is a weight in panels; whether it can be read as one:
 * whole, as the right operand, whose columns n follow each other. */
bool dot_in_panels(struct cg_cpu *c, const struct dot_source *s);
bool dot_reads_panels(const struct dot_source *s, const struct cg_factor *n,
		      const struct cg_factor *over);
struct cg_site dot_site(const struct cg_cpu *c, struct cg_kernel *out);
/* False: elements along its dims are no fixed distances apart. */
bool dot_find_source(struct cg_cpu *c, struct cg_kernel *out,
		const struct kernel *k, value_id v, struct dot_source *s);
/* Where its first element lies, in a step. */
struct ll_value *dot_source_at(struct cg_cpu *c, struct ll_value *step,
			       const struct dot_source *s);
/* Whether the operand is contiguous along the factor. */
bool dot_factor_dense(const struct cg_factor *f, int which);
/* Bytes from position 0 to position i, of elements of that size. */
struct ll_value *dot_factor_at(struct ll *l, const struct cg_factor *f,
			       int which, struct ll_value *i,
			       struct dot_size size);

/* ---- cpu_dot_unit.c: units and their instructions ------------------------ */

enum dot_kind {
	DOT_FMA,		/* words are f32 */
	DOT_PAIRS,		/* two bf16; AVX-512 BF16 */
	DOT_TILES,		/* two bf16; AMX */
	DOT_NKINDS
};

struct dot_unit {
	enum dot_kind kind;
	uint32_t lanes;		/* floats of a vector */
	uint32_t mr, nv;	/* of a tile: rows, and vectors in a row */
	uint32_t per_word;	/* elements along k */
	uint32_t words;		/* k is padded to a multiple of so many */
	/* a panel of B has a word more, the scales of its columns, by which the
	 * sums over the panel's words are multiplied */
	bool scaled;
	/* B lies in panels of its own, of a vector's columns, instead */
	bool panels;
	/* words of the unit that a vector of these is widened to: two where it
	 * has pairs of bf16 and the unit multiplies f32, two or four of 8 bits;
	 * else 1 */
	uint32_t parts;
};

/* The unit for operands of that dtype on the module's CPU. */
struct dot_unit dot_unit(struct cg_cpu *c, enum ir_dtype dtype);
/* Sets whether B, of elements of that base, lies in panels. */
void dot_set_panels(struct dot_unit *u, bool panels, enum ll_base base);
/* Bytes of a panel of B's own from a word of the unit to the next. */
static inline int64_t
dot_word_bytes(const struct dot_unit *u)
{
	return 4 / (int64_t)u->parts * u->lanes;
}
/* The same where B is an int4. */
struct dot_unit dot_int4_unit(struct cg_cpu *c, enum ir_dtype dtype);
static inline int64_t
dot_nr(const struct dot_unit *u)
{
	return (int64_t)u->nv * u->lanes;
}
/* sum + a b, of vectors of words. */
struct ll_value *dot_multiply_add(struct ll *l, const struct dot_unit *u,
				  struct ll_value *a, struct ll_value *b,
				  struct ll_value *sum);
/* A vector of pairs of bf16, as i32, as two of f32. */
void dot_split(struct ll *l, struct ll_value *pairs, struct ll_value *out[2]);
/* sum times scale, added to `to`. */
struct ll_value *dot_scale_add(struct ll *l, struct ll_value *sum,
			       struct ll_value *scale, struct ll_value *to);
/* An instruction on tiles by number; `at`, with a distance from row to row:
 * NULL, or the memory that it accesses. */
void dot_amx(struct ll *l, const char *name, const int *tiles, uint32_t ntiles,
	     struct ll_value *at, struct ll_value *apart);
/* Sets up and releases the unit's tiles, around their use in a step. */
void dot_tiles_begin(struct cg_cpu *c, const struct dot_unit *u);
void dot_tiles_end(struct cg_cpu *c, const struct dot_unit *u);

/* ---- cpu_dot_tile*.c: the microkernel ------------------------------------ */

/*
 * The function void (a, b, c, words, ldc, add, next, next_ld, lines, nlines,
 * rows, cols), and of a unit with panels (.., apart), the bytes from one to the
 * next: c[rows][cols] becomes the product of two panels, or is
 * increased by it if `add`.  Meanwhile it prefetches `mr` rows at `next`, and
 * `mr` times `nlines` cache lines whose addresses are listed at `lines`.  ldc
 * and next_ld are bytes from row to row.  It is emitted once.
 */
struct ll_value *dot_tile_func(struct cg_cpu *c, const struct dot_unit *u);

/* ---- cpu_dot_widen.c: weights of 8 and 4 bits ---------------------------- */

/* Numbers of that type, each in the low byte of an i32 and with its sign above
 * it, as f32. */
struct ll_value *dot_widen(struct ll *l, struct ll_value *v, uint8_t dtype);
/* Word i, as the unit multiplies it, of what is in vectors of 4-byte words. */
struct ll_value *dot_widen_word(struct ll *l, const struct dot_unit *u,
				struct ll_value *words, uint8_t dtype, int i);
/* Whether such a unit widens the type by tables, in fewer instructions: those
 * are at `tables` then, in registers. */
#define DOT_TABLES 4
bool dot_has_tables(struct ll *l, const struct dot_unit *u, uint8_t dtype);
void dot_load_tables(struct ll *l, uint8_t dtype, struct ll_value **tables);
/*
 * The words of a vector of bytes, two pairs of bf16 or four f32: first those of
 * the lower half of each 16 bytes, then those of the upper one.
 */
void dot_widen_halves(struct ll *l, const struct dot_unit *u,
		      struct ll_value *const *tables, struct ll_value *bytes,
		      uint8_t dtype, struct ll_value **out);
/* The same of a vector of words: of the lower half of each, of the upper. */
void dot_widen_words(struct ll *l, const struct dot_unit *u,
		     struct ll_value *const *tables, struct ll_value *words,
		     uint8_t dtype, struct ll_value **out);
/* A vector of them as f32, or if `pairs` as bf16. */
struct ll_value *dot_widen_elems(struct ll *l, struct ll_value *v,
				 uint8_t dtype, bool pairs);
/* The same of 8 int4 in each word. */
struct ll_value *dot_widen_int4s(struct ll *l, struct ll_value *words,
				 bool pairs);
/* The same times the scale at `scale`, rounded to bf16. */
struct ll_value *dot_scale_int4s(struct ll *l, struct ll_value *words,
				 struct ll_value *scale);

/* ---- cpu_dot_pack.c: panels --------------------------------------------- */

struct dot_pack {
	const struct dot_unit *unit;
	enum ll_base base;	/* of the operand's elements */
	uint8_t dtype;		/* of these, if they have 8 bits */
	const struct cg_factor *rows, *k;
	int which;		/* operand: 0 or 1 */
	int64_t panel_rows;
	bool tiles;		/* a row's 16 words, then the next row's */
	/* the operand lies in panels, of which a vector is so many words */
	uint32_t parts;		/* 0: it lies in rows */
};

/* How many words kn elements along k become, and how many of a row a panel
 * with these words has. */
struct ll_value *dot_words(struct ll *l, const struct dot_unit *u,
			   struct ll_value *kn);
struct ll_value *dot_panel_words(struct ll *l, const struct dot_unit *u,
				 struct ll_value *words);
int64_t dot_panel_words_of(const struct dot_unit *u, int64_t kn);
/*
 * The function void (dst, src, row, rows, k, kn), which packs these rows into
 * panels, with zeros up to whole panels and whole words.
 */
struct ll_value *dot_packer_func(struct cg_cpu *c, const struct dot_pack *p);

/*
 * Transposes squares of n x n in n vectors; n is a power of two that divides
 * their lanes.  Lane q n + j of vector i becomes lane q n + i of vector j.
 */
void dot_transpose(struct ll *l, struct ll_value **v, uint32_t n);
/*
 * The function void (from, bytes from row to row, to, bytes from word to
 * word), which transposes `g` rows of as many words as a vector has; `base` is
 * of elements, LL_F32: of whole words.  LLVM takes long for its many shuffles:
 * it is emitted once for all kernels.
 */
struct ll_value *dot_turn_func(struct cg_cpu *c, const struct dot_unit *u,
			       enum ll_base base, uint32_t g);

/* ---- cpu_dot_ahead.c: lines to prefetch --------------------------------- */

/* Bytes of a list of the cache lines of so many rows by k elements. */
int64_t dot_list_bytes(const struct dot_pack *p, int64_t rows, int64_t k);
/*
 * The function i64 (list, src, row, rows, k, kn), which lists the addresses of
 * the lines that packing this block will read, and returns their number.
 */
struct ll_value *dot_lister_func(struct cg_cpu *c, const struct dot_pack *p);

/* -- cpu_dot.c, cpu_dot_plan.c, cpu_dot_steps.c: a contraction as steps -- */

enum dot_result {
	DOT_BOX,		/* other nodes are computed on each tile */
	DOT_STORE,		/* it is stored as f32 */
	DOT_ADD			/* it is added to an f32 tensor */
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
	uint32_t target;	/* the operand that tiles end up in */
	int64_t far_bytes;	/* of its elements; 0: there is none */
	int64_t pitch;	/* elements from one of its rows to the next */
	uint32_t old;		/* ADD: a number, 0 if it is to be stored */
	uint32_t parts;		/* of B in panels that are packed: dot_pack */
	bool whole_last;	/* the epilogue needs whole last dims */
	/* the plan */
	struct dot_stream stream;
	struct cg_split rows, cols;
	int64_t depth, ndepth;	/* k of a block, and how many these are */
	int64_t tile_ld;	/* floats of a row of a tile in scratch */
	/* by operand: each item packs its block; else an earlier step does */
	bool own[2];
	int64_t chunk_rows, chunk_depth;	/* blocks of A in one step */
	/* offsets in a worker's scratch; of the list of lines, or -1 */
	int64_t own_b, own_c, own_a, own_list;
	/* in shared scratch: panels; tiles of incomplete sums, or -1 */
	int64_t shared_b, shared_c;
};

/* How an operand is packed. */
struct dot_pack dot_packing(const struct dot *d, int which);
/* Chooses blocks and scratch.  False: no choice fits. */
bool dot_plan(struct dot *d);
bool dot_emit(struct dot *d, const char **why);
static inline int64_t
dot_round_up(int64_t n, int64_t to)
{
	return (n + to - 1) / to * to;
}

/* ---- cpu_dot_stream.c: few rows ----------------------------------------- */

/* Whether the contraction, whose stretches of k are planned, is one of few rows
 * by columns that are contiguous along k; how it is computed. */
bool dot_stream_find(const struct dot *d, struct dot_stream *s);
/*
 * The function void (a, b, c, ldc, rows, cols, left): c[rows][cols] becomes the
 * product of packed panels, one for each stretch of k, with columns in place of
 * which `left` follow in memory.  ldc is bytes from row to row.
 */
struct ll_value *dot_stream_func(struct cg_cpu *c, const struct dot_unit *u,
				 const struct dot_stream *s);

/* ---- cpu_dot_panels.c: the right operand lies in panels ------------------ */

/* Bytes from column to column, as if they were rows. */
static inline int64_t
dot_column_bytes(const struct dot *d)
{
	return dot_word_bytes(&d->unit) / d->unit.lanes * d->over.size /
	       d->unit.per_word;
}

/*
 * Bytes of a panel that are prefetched in advance: a page, at whose end the
 * prefetchers of processors stop.  A core of Emerald Rapids reads so 14.6
 * instead of 10.4 GB/s of bf16 for one row, 14.0 instead of 9.9 for eight.
 */
#define DOT_PANEL_AHEAD 4096

/* Element k of a column, the first one of a panel, in the matrix at `at`. */
struct ll_value *dot_panel_at(const struct dot *d, struct ll_value *at,
			      struct ll_value *column, struct ll_value *k);

/* How many panels are read at once. */
uint32_t dot_panels_at_once(const struct dot_unit *u, uint32_t rows);
/* What dot_packer_func is, of an operand in panels of 8 bits or of bf16. */
struct ll_value *dot_panel_packer_func(struct cg_cpu *c,
				       const struct dot_pack *p);
/* The function void (a, b, to): sums of nv panels, for each of them a vector
 * for each row. */
struct ll_value *dot_panel_sums(struct cg_cpu *c, const struct dot_unit *u,
				const struct dot_stream *s, uint32_t nv);

/* ---- also for experts -------------------------------------------------- */

/* Blocks of about `want` positions: at least one, and multiples of `unit`. */
struct cg_split dot_split_dims(const struct cg_dims *d, int64_t want,
			   int64_t unit);

/* The positions of a block. */
struct dot_place {
	struct ll_value *outer, *chunk;	/* of the split: see cg_split */
	struct ll_value *start, *live;	/* the first, and how many */
};

struct dot_place dot_block_place(struct ll *l, const struct cg_dims *d,
			   const struct cg_split *s,
			   struct ll_value *block);
void dot_nest_place(struct ll *l, struct cg_nest *n, struct cg_leaf *leaf,
		   const struct cg_dims *d, const struct cg_split *s,
		   const struct dot_place *p, int64_t stride);

#endif

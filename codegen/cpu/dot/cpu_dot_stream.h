/*
 * Private to cpu_dot_stream*.c, cpu_dot_stretches.c and cpu_dot_panels.c: sums
 * of few rows.
 */
#ifndef CPU_DOT_STREAM_H
#define CPU_DOT_STREAM_H

#include "codegen/cpu/dot/cpu_dot.h"

#define STREAM_ROWS 8	/* at most; with AMX twice as many */
#define STREAM_LANES 16	/* these transpose a line at once */
#define STREAM_LINE 64	/* bytes of a row that are read together */
#define STREAM_SUMS 24	/* vectors of sums in registers, at most */
#define STREAM_PART 16 /* bytes that are transposed together, by 8 lanes */

/* What the function of a group's sums is emitted from. */
struct stream {
	struct cg_cpu *c;
	struct ll *l;
	const struct dot_unit *u;
	const struct dot_stream *s;
	uint32_t nv; /* vectors of columns, in AMX tiles of them */
	struct dot_size size; /* of elements along k */
	int64_t per;		/* elements in 4 bytes */
	struct ll_value *a, *b, *to;	/* parameters */
	/* on the stack: sums of a stretch; the last few words of rows, or a
	 * tile */
	struct ll_value *sums, *last;
	/* of an int4: of each stretch, for all vectors of columns */
	struct ll_value *scales;
	struct ll_value *wide; /* in AMX: a tile of B in bf16, if it is not */
	bool has_tables; /* that widen a line of 8 bits */
	struct ll_value *tables[DOT_TABLES];
};

/*
 * What the three steps along k do to the sums of a vector of columns, whose
 * first row has element k of a stretch at `b`, and A its word at `a`.
 */
struct step {
	struct ll_value *a, *b, *left;
	/* for each row of A; of an int4 for each half of a line */
	struct ll_value *sum[2 * STREAM_ROWS];
};

/* ---- lines of B (cpu_dot_stream_line.c) --------------------------------- */

/* Where row r lies, if the first one is at `first`. */
struct ll_value *dot_stream_row(const struct stream *x, struct ll_value *first,
				int64_t r);
/* Where element k of a row at `at` lies. */
struct ll_value *dot_stream_elems(const struct stream *x, struct ll_value *at,
				  struct ll_value *k);
/* Word of A that multiplies element k of B. */
struct ll_value *dot_stream_word(const struct stream *x, struct ll_value *panel,
				 struct ll_value *k);
/*
 * Where B is prefetched: so far on in the same rows, or in those of the next
 * group, which follow.  `k` is counted from the row's beginning.
 */
struct ll_value *dot_stream_ahead(const struct stream *x, struct ll_value *k);
/*
 * STREAM_PART bytes at `at` of as many rows as a vector has lanes, `apart`
 * bytes from row to row, as four vectors of 4-byte words: one lane for each
 * row.
 */
void dot_stream_part(const struct stream *x, struct ll_value *at, int64_t apart,
		     struct ll_value **out);
/* A line of each row, while those of `far` are prefetched. */
void dot_stream_line(const struct stream *x, struct step *t,
		     struct ll_value *far);
/* Adds to the sums of a vector of columns the products of n words, at most
 * four, that are at `b` of each row, with words of A from `a` on. */
void dot_stream_words(const struct stream *x, struct ll_value *a,
		      struct ll_value *b, int64_t apart, uint32_t n,
		      struct ll_value **sum);
/*
 * The last elements of a stretch, `left` or at most those of unit.words words:
 * the rest of these words is zero, as packing would have it, and memory after
 * the row is not read.
 */
void dot_stream_last(const struct stream *x, struct step *t);

/* ---- sums (cpu_dot_stream_sums.c) --------------------------------------- */

/* The function void (a, b, to) for a group of nv vectors. */
struct ll_value *dot_stream_sums(struct cg_cpu *c, const struct dot_unit *u,
				 const struct dot_stream *s, uint32_t nv);

/* ---- the order of sums in registers (cpu_dot_stretches.c) --------------- */

/* Sums over so many words, of A from `a` on and of B from `b` on. */
typedef void dot_stream_words_fn(const struct stream *x, struct ll_value *a,
				 struct ll_value *b, struct ll_value *words,
				 struct ll_value **sum);
/* Sums of all stretches, which become a vector for each row at `to` of each
 * vector of columns; B has so many bytes from word to word. */
void dot_stream_stretches(const struct stream *x, int64_t word_bytes,
			  dot_stream_words_fn *sum_words);

/* ---- B is contiguous along columns (cpu_dot_stream_across.c) ------------ */

/* How many vectors of columns are read at once. */
uint32_t dot_across_at_once(const struct dot_unit *u, uint32_t rows);
/* What dot_stream_sums is. */
struct ll_value *dot_across_sums(struct cg_cpu *c, const struct dot_unit *u,
				 const struct dot_stream *s, uint32_t nv);

#endif

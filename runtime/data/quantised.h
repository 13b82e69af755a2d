/*
 * Private to runtime/data/: files whose matrices are stored in 8 or 4 bits, as
 * other programs quantise them.  quantization_config of the config.json beside
 * a file says how (quantised_config.c).  Each such matrix is found by the names
 * of its tensors, which become one tensor in F32, NAME.weight, of the opened
 * checkpoint (quantised_find.c).  What is read of it is computed from what is
 * stored (quantised_read.c):
 *
 *	weight[r][c] = (number[r][c] - zero point) * scale
 *
 * as a product of f32.  So whoever reads a checkpoint knows nothing of this.
 */
#ifndef RT_QUANTISED_H
#define RT_QUANTISED_H

#include "runtime/data/safetensors.h"

/* ---- quantised_config.c --------------------------------------------- */

enum { RT_MOST_SCHEMES = 8 };

/* How numbers are stored, and which of them share a scale. */
struct rt_scheme {
	int64_t bits; /* of a number: 4 or 8 */
	bool is_float; /* f8e4m3; else an integer */
	/* of what shares a scale; 0: all of them */
	int64_t rows, columns;
	bool has_zeros; /* a zero point beside each scale */
	bool less_one; /* zero points are stored less one, modulo 2^bits */
};

/* What a quantization_config says; its strings lie in `text`. */
struct rt_quantisation {
	const char *method; /* NULL: it has none */
	struct rt_scheme schemes[RT_MOST_SCHEMES];
	int64_t nschemes;
	struct rt_pairs ignored; /* names of modules, as keys; sorted */
	char *text;
};

/*
 * Reads what config.json, or hf_quant_config.json, in the folder of `path` says
 * about files there.  Without either nothing is said.
 */
enum rt_status rt_quantisation_read(struct rt_quantisation *q, const char *path,
				    const struct rt_alloc *alloc,
				    struct rt_error *err);
void rt_quantisation_release(struct rt_quantisation *q,
			     const struct rt_alloc *alloc);

/* ---- quantised_find.c ----------------------------------------------- */

/* Where the numbers of a matrix lie in the words of a tensor. */
enum rt_packing {
	RT_IN_ROWS, /* [rows, columns], 4 bits from the low one on */
	RT_DOWN, /* [columns in words, rows] */
	RT_ACROSS, /* [columns, rows in words], in the order of AWQ */
};

/* A matrix that is stored quantised, and the tensors that it is made of. */
struct rt_packed {
	struct rt_scheme scheme;
	enum rt_packing packing;
	int64_t rows, columns;
	int64_t groups; /* of columns, each with scales of its own */
	int64_t scale_rows; /* of rows, likewise */
	int64_t row_bytes; /* of a row of the numbers' tensor */
	/* without a name: the file has none of that */
	struct rt_st_tensor numbers, scales, zeros, order;
};

struct rt_unpacker;

/* Whether a file may have quantised matrices: by the types of its tensors. */
bool rt_may_be_quantised(const struct rt_header *h);

/*
 * Makes one tensor of those of each quantised matrix, as q says.  RT_FORMAT: a
 * tensor is missing, or has another shape or type than its matrix needs.
 */
enum rt_status rt_quantised_find(struct rt_st *st,
				 const struct rt_quantisation *q,
				 struct rt_error *err);

/* ---- quantised_read.c ----------------------------------------------- */

/* What matrices are read through; NULL: no memory. */
struct rt_unpacker *rt_unpacker_new(const struct rt_alloc *alloc);
void rt_unpacker_free(struct rt_unpacker *u);

/*
 * Elements first .. first + n - 1 of a matrix, as f32 at any address.  Several
 * threads may call it.
 */
enum rt_status rt_packed_read(const struct rt_st *st,
			      const struct rt_st_tensor *t, int64_t first,
			      int64_t n, void *out, struct rt_error *err);

#endif

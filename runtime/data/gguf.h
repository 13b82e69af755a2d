/*
 * Private to runtime/data/: weights of llama.cpp, files of GGUF version 3.  A
 * tensor of such a file becomes one of the opened checkpoint under the name
 * that Hugging Face has for it, in the order of rows that it has there; one of
 * Q8_0 becomes one in F32.  So whoever reads a checkpoint knows nothing of
 * this.
 *
 * gguf.c reads what stands before the data, gguf_names.c says what tensors are
 * called, gguf_read.c computes what is read.
 */
#ifndef RT_GGUF_H
#define RT_GGUF_H

#include "runtime/data/safetensors.h"

/* Types of tensors that are read, by their numbers in the format. */
enum rt_gguf_type {
	RT_GGUF_F32 = 0, RT_GGUF_F16 = 1, RT_GGUF_Q8_0 = 8, RT_GGUF_BF16 = 30
};

/* Q8_0: so many numbers of 8 bits share a scale, an f16 before them. */
enum { RT_GGUF_BLOCK = 32, RT_GGUF_BLOCK_BYTES = 2 + RT_GGUF_BLOCK };

/* How a tensor that is not read as it is stored is read. */
struct rt_gguf_view {
	bool is_q8; /* else as its dtype says */
	int64_t at; /* of its bytes, from the start of the data */
	int64_t columns; /* elements of a row */
	int64_t elem_bytes; /* of one as it is read */
	/* rows of a head: those of its halves take turns in the file; 0: rows
	 * have the order that they are read in */
	int64_t head_rows;
};

/* What the names of tensors depend on. */
struct rt_gguf_model {
	bool turns; /* halves of heads of queries and keys take turns */
	int64_t heads, key_heads; /* 0: not said */
};

/* ---- gguf.c ---------------------------------------------------------- */

/* Whether a path is one of a GGUF file, by how it ends. */
bool rt_gguf_is_path(const char *path);
/* As rt_st_open(). */
enum rt_status rt_gguf_open(struct rt_st **out, const char *path,
			    const struct rt_alloc *alloc, struct rt_error *err);

/* ---- gguf_names.c ---------------------------------------------------- */

/* Bytes of a name in a file, which are at most 64, and of one here. */
enum { RT_GGUF_MOST_NAME = 64, RT_GGUF_NAME_BYTES = 112 };

/*
 * The name at Hugging Face of a tensor, or its own if there is none; returns
 * the heads whose halves take turns in its rows, or 0.
 */
int64_t rt_gguf_name(const struct rt_gguf_model *m, const char *name,
		     char out[RT_GGUF_NAME_BYTES]);
/* The families whose names are known, and which of them have turns. */
bool rt_gguf_family(const char *architecture, struct rt_gguf_model *m);
extern const char rt_gguf_families[];

/* ---- gguf_read.c ----------------------------------------------------- */

/* Elements first .. first + n - 1 of a tensor that has a view. */
enum rt_status rt_gguf_read(const struct rt_st *st,
			    const struct rt_st_tensor *t, int64_t first,
			    int64_t n, void *out, struct rt_error *err);

#endif

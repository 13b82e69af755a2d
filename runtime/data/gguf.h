/*
 * Private to runtime/data/: weights of llama.cpp, files of GGUF version 3.  A
 * tensor of such a file becomes one of the opened checkpoint under the name
 * that Hugging Face has for it, in the order of rows that it has there; one
 * whose numbers lie in blocks becomes one in F32.  So whoever reads a
 * checkpoint knows nothing of this.
 *
 * gguf.c reads keys of the model, gguf_words.c those of its tokenizer, both
 * with gguf_reading.c; gguf_names.c says what tensors are called, gguf_blocks.c
 * how numbers lie, gguf_read.c computes what is read.  gguf_tensors.c reads
 * what is said of tensors, and makes one of each expert of those that have the
 * matrices of all; gguf_config.c makes a config.json of the keys.
 */
#ifndef RT_GGUF_H
#define RT_GGUF_H

#include "runtime/data/safetensors.h"

/* How the numbers of a tensor lie in the file. */
struct rt_gguf_type {
	int number; /* that the format has for it */
	const char *name;
	enum rt_dtype dtype; /* that they are read as */
	int block, bytes; /* numbers of a block, and what it takes */
	/* what the numbers of a block are; NULL: they are stored as read */
	void (*widen)(const unsigned char *block, float *out);
};

/* The most of any type's. */
enum { RT_GGUF_BLOCK = 256, RT_GGUF_BLOCK_BYTES = 210 };

/* How a tensor that is not read as it is stored is read. */
struct rt_gguf_view {
	const struct rt_gguf_type *type;
	size_t shard; /* the file that has it, as joined need not be in t's */
	int64_t at; /* of its bytes, from the start of the data */
	int64_t columns; /* elements of a row */
	int64_t elem_bytes; /* of one as it is read */
	/* rows of a head: those of its halves take turns in the file; 0: rows
	 * have the order that they are read in */
	int64_t head_rows;
	/* rows that the file has of all heads' queries, as of their keys and
	 * values; head_rows: rows of a query, a key or a value; 0: no thirds */
	int64_t third_rows;
	float less; /* what is subtracted from each number of an F32 */
	/* of a tensor whose numbers lie in another order, that is of several
	 * matrices of so many rows and columns */
	int64_t matrices, rows, cols;
	/* of each matrix number (r, c) is read as number base + r * by_row +
	 * c * by_col of so many; each = 0: it lies as it is read */
	int64_t each, base, by_row, by_col;
	/* has the others of `each`; or NULL */
	const struct rt_gguf_view *joined;
};

/* A bit for each family. */
enum rt_gguf_of {
	RT_GGUF_LLAMA = 1 << 0, RT_GGUF_QWEN2 = 1 << 1, RT_GGUF_QWEN3 = 1 << 2,
	RT_GGUF_QWEN3MOE = 1 << 3, RT_GGUF_QWEN2MOE = 1 << 4,
	RT_GGUF_GEMMA = 1 << 5, RT_GGUF_GEMMA2 = 1 << 6,
	RT_GGUF_GEMMA3 = 1 << 7, RT_GGUF_GRANITE = 1 << 8,
	RT_GGUF_OLMO2 = 1 << 9, RT_GGUF_STARCODER2 = 1 << 10,
	RT_GGUF_PHI3 = 1 << 11, RT_GGUF_DEEPSEEK2 = 1 << 12,
	RT_GGUF_GPT_OSS = 1 << 13, RT_GGUF_GPT2 = 1 << 14,
	RT_GGUF_GPTNEOX = 1 << 15, RT_GGUF_ALL = (1 << 16) - 1
};

/* What Hugging Face calls a kind of model, and its class. */
struct rt_gguf_kind {
	const char *model_type, *class;
};

/* A general.architecture that is known. */
struct rt_gguf_family {
	const char *name;
	enum rt_gguf_of of;
	bool turns; /* halves of heads of queries and keys take turns */
	bool plus_one; /* norms have the weight that is multiplied by */
	struct rt_gguf_kind dense, sparse; /* without and with experts */
};

/* What keys ARCHITECTURE.* say of a model besides its heads. */
enum rt_gguf_fact {
	RT_GGUF_CONTEXT, RT_GGUF_HIDDEN, RT_GGUF_LAYERS, RT_GGUF_FFN,
	RT_GGUF_KEY_DIM, RT_GGUF_VALUE_DIM, RT_GGUF_EPS, RT_GGUF_THETA,
	RT_GGUF_TURNED, RT_GGUF_EXPERTS, RT_GGUF_CHOICES, RT_GGUF_EXPERT_FFN,
	RT_GGUF_SCALING, RT_GGUF_SCALED_FROM, RT_GGUF_VOCAB,
	RT_GGUF_SHARED_FFN, RT_GGUF_WINDOW, RT_GGUF_ATTENTION_CAP,
	RT_GGUF_LOGIT_CAP, RT_GGUF_ATTENTION_SCALE, RT_GGUF_EMBEDDING_SCALE,
	RT_GGUF_RESIDUAL_SCALE, RT_GGUF_LOGIT_SCALE, RT_GGUF_LAYER_EPS,
	RT_GGUF_TURN_FACTOR, RT_GGUF_QUERY_RANK, RT_GGUF_RANK,
	RT_GGUF_LATENT_KEY_DIM, RT_GGUF_LATENT_VALUE_DIM, RT_GGUF_DENSE_LAYERS,
	RT_GGUF_SHARED, RT_GGUF_EXPERT_SCALE, RT_GGUF_EXPERT_NORM,
	RT_GGUF_GATING, RT_GGUF_GROUPS, RT_GGUF_TOP_GROUPS, RT_GGUF_LOG_FACTOR,
	RT_GGUF_NEAR_THETA, RT_GGUF_PARALLEL, RT_GGUF_NFACTS
};

/* What the keys of a file say. */
struct rt_gguf_model {
	const struct rt_gguf_family *family;
	int64_t heads, key_heads; /* 0: not said */
	/* 0: not said; NaN: no number; of yes and no: 1 and -1 */
	double facts[RT_GGUF_NFACTS];
	char scaling[16]; /* rope.scaling.type; "": not said */
	char unknown[96]; /* the first key that may change what is computed */
};

/* Bytes of a name in a file, which are at most 64, and of one here. */
enum { RT_GGUF_MOST_NAME = 64, RT_GGUF_NAME_BYTES = 112 };

/* What is read in another order than it lies in: the matrices of all heads or
 * experts.  Keys and values are one tensor, head by head; so are gates and
 * what is gated, of each expert the columns of both in turns. */
enum rt_gguf_part { RT_GGUF_WHOLE, RT_GGUF_KEYS, RT_GGUF_VALUES, RT_GGUF_GATES,
		    RT_GGUF_GATED, RT_GGUF_TURNED_PART };

/* A tensor at Hugging Face. */
struct rt_gguf_name {
	char text[RT_GGUF_NAME_BYTES];
	/* whose halves take turns in its rows, or 0; with thirds: whose
	 * queries, keys and values do, which the file has apart */
	int64_t heads;
	bool thirds;
	bool plus_one; /* the file has one more in each number */
	bool is_row; /* a matrix of one row, which the file has as a vector */
	enum rt_gguf_part part;
	/* it has the matrices of all experts: the one of number 7 has the name
	 * with 7 in place of `*` */
	bool experts;
};

/* ---- gguf.c ---------------------------------------------------------- */

/* Whether a path is one of a GGUF file, by how it ends. */
bool rt_gguf_is_path(const char *path);
/* As rt_st_open(). */
enum rt_status rt_gguf_open(struct rt_st **out, const char *path,
			    const struct rt_alloc *alloc, struct rt_error *err);

/* ---- gguf_names.c ---------------------------------------------------- */

/* What Hugging Face calls a tensor; if no name is known, as the file does. */
void rt_gguf_name(const struct rt_gguf_model *m, const char *name,
		  struct rt_gguf_name *out);
/* The family of that name, or NULL; and the names of all, as text. */
const struct rt_gguf_family *rt_gguf_family(const char *architecture);
extern const char rt_gguf_families[];

/* ---- gguf_blocks.c --------------------------------------------------- */

/* The type of that number, or NULL; and the names of all, as text; what one of
 * no type is called, for a message. */
const struct rt_gguf_type *rt_gguf_type(uint64_t number);
const char *rt_gguf_type_name(uint64_t number);
extern const char rt_gguf_types[];

/* ---- gguf_read.c ----------------------------------------------------- */

/* A matrix that lies in another order than it is read in, as it is read. */
struct rt_gguf_kept;
/* NULL: no memory. */
struct rt_gguf_kept *rt_gguf_kept_new(const struct rt_alloc *alloc);
void rt_gguf_kept_free(struct rt_gguf_kept *k);

/* Elements first .. first + n - 1 of a tensor that has a view. */
enum rt_status rt_gguf_read(const struct rt_st *st,
			    const struct rt_st_tensor *t, int64_t first,
			    int64_t n, void *out, struct rt_error *err);

#endif

/*
 * Private to gguf*.c: what is known of a GGUF file while what stands before its
 * data is read.
 */
#ifndef RT_GGUF_READING_H
#define RT_GGUF_READING_H

#include "runtime/data/gguf.h"

/* Bytes of a text that is looked at, and of the buffer. */
enum { RT_GGUF_MOST_WORD = 64, RT_GGUF_BUFFER = 65536 };
/* Bytes of what is said of a tensor, at least. */
enum { RT_GGUF_LEAST_TENSOR = 8 + 4 + 8 + 4 + 8 };

/* What a file says of the parts that a model has; -1: it does not. */
struct gguf_split {
	int64_t no, count, tensors;
};

/* `at` is the byte after the last one that was read. */
struct gguf_reading {
	struct rt_st *st;
	struct rt_shard *s;
	struct rt_error *err;
	enum rt_status status;
	const char *tensor; /* that is read; or NULL */
	int64_t at;
	int64_t from, held; /* what `buffer` has */
	unsigned char *buffer;
	/* of the keys */
	struct rt_gguf_model *model; /* that of `st` */
	char architecture[RT_GGUF_MOST_WORD + 1];
	int64_t alignment;
	uint64_t seen; /* a bit for each key of which there is one */
	struct gguf_split split; /* of the file that is read */
	/* by tensor of the file */
	struct rt_gguf_view *views;
	struct rt_gguf_name *names;
};

/* ---- gguf_reading.c -------------------------------------------------- */

/* Opens the file, with a buffer; whether that failed is the status.  Whoever
 * reads frees `buffer` and, after a failure, `st`. */
void rt_gguf_begin(struct gguf_reading *r, const char *path,
		   const struct rt_alloc *alloc, struct rt_error *err);
/* The same of another file of the model, with the same buffer. */
void rt_gguf_begin_part(struct gguf_reading *r, struct rt_shard *s);
/* Fails, unless it has, at that byte or, with -1, at none, and names the tensor
 * that is read. */
void rt_gguf_fail(struct gguf_reading *r, int64_t at, const char *fmt, ...)
	RT_PRINTF(3, 4);
/* The next n bytes, at most those of the buffer; NULL: the file has ended. */
const unsigned char *rt_gguf_take(struct gguf_reading *r, int64_t n);
/* Moves past n of `each` bytes. */
void rt_gguf_skip(struct gguf_reading *r, uint64_t n, int each,
		  const char *what);
/* The next so many bytes, a number; what it is after an error is no matter. */
uint64_t rt_gguf_number(struct gguf_reading *r, int bytes);
/* The bytes of a text, of which those that fit go to `out`, with a NUL. */
uint64_t rt_gguf_text(struct gguf_reading *r, char *out, size_t size);
/* What `n` is padded to, so that data may begin there. */
int64_t rt_gguf_padded(const struct gguf_reading *r, int64_t n);

/* Types of values, by their numbers. */
enum rt_gguf_value {
	RT_GGUF_U8, RT_GGUF_I8, RT_GGUF_U16, RT_GGUF_I16, RT_GGUF_U32,
	RT_GGUF_I32, RT_GGUF_F32, RT_GGUF_BOOL, RT_GGUF_TEXT, RT_GGUF_LIST,
	RT_GGUF_U64, RT_GGUF_I64, RT_GGUF_F64, RT_GGUF_NVALUES
};

/* What stands before the keys: how many there are of both. */
void rt_gguf_read_head(struct gguf_reading *r, uint64_t *tensors,
		       uint64_t *keys);
/* The next key, of which the bytes that fit go to `key`, and what its value is;
 * false after an error. */
bool rt_gguf_read_key(struct gguf_reading *r, char *key, size_t size,
		      uint64_t *type);
/* What a list has, which follows: n values of a type, none of them a list. */
bool rt_gguf_read_list(struct gguf_reading *r, uint64_t *type, uint64_t *n);
void rt_gguf_skip_value(struct gguf_reading *r, uint64_t type);
/* A whole number of at least so many that a key says; else it fails. */
int64_t rt_gguf_whole(struct gguf_reading *r, const char *key, uint64_t type,
		      uint64_t least);
/* A number of any type; NaN of what is none. */
double rt_gguf_real(struct gguf_reading *r, uint64_t type);

/* ---- gguf_tensors.c -------------------------------------------------- */

/* Those of all files: first that there are n at most, then those of each file,
 * and where its data begins; then what is read of them, sorted by name. */
void rt_gguf_begin_tensors(struct gguf_reading *r, uint64_t n);
void rt_gguf_read_part(struct gguf_reading *r, uint64_t n);
void rt_gguf_end_tensors(struct gguf_reading *r);

#endif

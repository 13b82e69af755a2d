/*
 * Private to gguf*.c: what is known of a GGUF file while what stands before its
 * data is read.
 */
#ifndef RT_GGUF_READING_H
#define RT_GGUF_READING_H

#include "runtime/data/gguf.h"

/* Bytes of a text that is looked at, and of the buffer. */
enum { RT_GGUF_MOST_WORD = 64, RT_GGUF_BUFFER = 65536 };

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
	/* by tensor of the file */
	struct rt_gguf_view *views;
	struct rt_gguf_name *names;
};

/* ---- gguf_reading.c -------------------------------------------------- */

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

/* ---- gguf_tensors.c -------------------------------------------------- */

/* All of them, and where the data begins; sorted by name. */
void rt_gguf_read_tensors(struct gguf_reading *r, uint64_t n);

#endif

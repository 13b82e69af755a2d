/*
 * Private to runtime/data/: what saving and loading share.
 *
 * A tensor of the plan is one tensor of a file.  If some of its dims are
 * stacked (layers of a repeat), it is one tensor of a file for each index of
 * these: its parts.
 */
#ifndef RT_STORE_H
#define RT_STORE_H

#include "runtime/data/data.h"
#include "runtime/error.h"

enum {
	RT_NAME_BYTES = 512, /* of a tensor in a file */
	RT_WINDOW_BYTES = 65536, /* of one read */
};

/* ---- tensor_store.c ----------------------------------------------------- */

/* The number of parts, the elements of each, and the name of one. */
int64_t rt_tensor_parts(const struct rt_tensor *t);
int64_t rt_part_elems(const struct rt_tensor *t);
enum rt_status rt_part_name(const struct rt_tensor *t, int64_t part,
			    char out[RT_NAME_BYTES], struct rt_error *err);

/* Elements that are contiguous both in a part and in memory. */
struct rt_span {
	int64_t part;
	int64_t at; /* index of its first element in the part */
	int64_t local; /* index in what the rank holds */
	int64_t n;
};

/*
 * Iterates over the spans of what a rank holds of a tensor, in the order of
 * memory.
 */
struct rt_spans {
	const struct rt_tensor *tensor;
	const struct rt_pieces *pieces[RT_MAX_DIMS];
	int64_t stride[RT_MAX_DIMS]; /* in elements, of parts if stacked */
	int64_t piece[RT_MAX_DIMS], pos[RT_MAX_DIMS];
	/* dims that are iterated; the rank holds all later ones whole */
	int64_t ndims;
	int64_t inner; /* elements of the later dims */
	int64_t local;
	/* the last iterated dim advances by piece, not by position */
	bool by_piece;
	bool dense; /* what lies between spans is mostly needed too */
	bool done;
};

void rt_spans_begin(struct rt_spans *r, const struct rt_plan *p,
		   const struct rt_hold *h, int64_t rank);
bool rt_spans_next(struct rt_spans *r, struct rt_span *span);

/* Whether this rank, of all that hold the same pieces, saves them. */
bool rt_store_writes(const struct rt_store *s, const struct rt_hold *h);

/*
 * A collective: each rank passes the status of its own work, and the result is
 * RT_OK on all ranks or on none.  A rank that did not fail gets the message of
 * one that did, after the number of that rank.
 */
enum rt_status rt_store_agree_status(const struct rt_store *s, enum rt_status
				     mine, struct rt_error *err);

/* ---- tensor_store_read.c ------------------------------------------------ */

struct rt_st;
struct rt_st_tensor;

/* Finds `part` of a tensor, and checks its shape and dtype. */
enum rt_status rt_find_part(const struct rt_st *st, const char *path,
			    const struct rt_tensor *t, int64_t part,
			    const struct rt_st_tensor **found,
			    struct rt_error *err);

/* ---- round.c ------------------------------------------------------------ */

/* rt_store_read of a weight that is stored in 8 bits, and its scales. */
enum rt_status rt_store_round(const struct rt_store *s, const struct rt_st *st,
			      const struct rt_hold *h, uint64_t *sums,
			      struct rt_error *err);

/* ---- tensor_store_read.c, too ------------------------------------------- */

/*
 * Reads and converts all that the rank holds of a tensor.  Unless sums is NULL,
 * the checksum over what was read of part i is added to sums[i].
 */
enum rt_status rt_store_read(const struct rt_store *s, const struct rt_st *st,
			     const struct rt_hold *h, uint64_t *sums,
			     struct rt_error *err);

#endif

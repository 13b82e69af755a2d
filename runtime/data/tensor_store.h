/*
 * tensor_store.h - private to runtime/: what saving and loading share.
 *
 * A tensor of the plan is one tensor of a file, or, if dims of it are stacked,
 * one for each index of these: its parts.
 */
#ifndef RT_STORE_H
#define RT_STORE_H

#include "runtime/data/data.h"
#include "runtime/error.h"

enum {
	RT_NAME_BYTES = 512, /* of a tensor in a file */
	RT_WINDOW_BYTES = 65536, /* read together */
};

/* ---- tensor_store.c ----------------------------------------------------- */

/* Parts of a tensor, elements of each, and the n-th part's name. */
int64_t rt_tensor_parts(const struct rt_tensor *t);
int64_t rt_part_elems(const struct rt_tensor *t);
enum rt_status rt_part_name(const struct rt_tensor *t, int64_t part,
			    char out[RT_NAME_BYTES], struct rt_error *err);

/* Elements that lie side by side in a part and in memory. */
struct rt_span {
	int64_t part;
	int64_t at; /* its first element, by number in the part */
	int64_t local; /* by number in what the rank has */
	int64_t n;
};

/* All spans of what a rank holds of a tensor, in the order of memory. */
struct rt_spans {
	const struct rt_tensor *tensor;
	const struct rt_pieces *pieces[RT_MAX_DIMS];
	int64_t stride[RT_MAX_DIMS]; /* in elements, of parts if stacked */
	int64_t piece[RT_MAX_DIMS], pos[RT_MAX_DIMS];
	int64_t ndims; /* that are walked; those behind are whole */
	int64_t inner; /* elements of those behind */
	int64_t local;
	bool by_piece; /* the last walked dim, else by position */
	bool dense; /* most of what lies between them is wanted too */
	bool done;
};

void rt_spans_begin(struct rt_spans *r, const struct rt_plan *p,
		   const struct rt_hold *h, int64_t rank);
bool rt_spans_next(struct rt_spans *r, struct rt_span *span);

/* Is it this rank that saves what it holds, of all that have the same? */
bool rt_store_writes(const struct rt_store *s, const struct rt_hold *h);

/*
 * All ranks call it, each with the status of its own work.  It is RT_OK on
 * all of them or on none: who did not fail gets what one that did has to say,
 * behind the number of that rank.
 */
enum rt_status rt_store_agree(const struct rt_store *s, enum rt_status mine,
			      struct rt_error *err);

/* ---- tensor_store_read.c ------------------------------------------------ */

struct rt_st;
struct rt_st_tensor;

/* Asks whether `part` of a tensor can be read from what is stored. */
enum rt_status rt_part_find(const struct rt_st *st, const char *path,
			    const struct rt_tensor *t, int64_t part,
			    const struct rt_st_tensor **found,
			    struct rt_error *err);

/*
 * Reads all that the rank holds of a tensor, converted.  If `sums` is there
 * the sum over what was read of part i is added to sums[i].
 */
enum rt_status rt_store_read(const struct rt_store *s, const struct rt_st *st,
			     const struct rt_hold *h, uint64_t *sums,
			     struct rt_error *err);

#endif

/*
 * Labels in the first columns of a line, and items after one.
 */
#ifndef PASSES_ANSWER_LIST_H
#define PASSES_ANSWER_LIST_H

#include "ir/base.h"

#define ANSWER_COLUMNS 80	/* of a line */
#define ANSWER_INDENT 11	/* of what follows a label */

/* Items after a label, on as many lines as they need. */
struct answer_list {
	struct buf *out;
	size_t column;
};

void answer_label(struct buf *out, const char *label);
void answer_list_begin(struct answer_list *l, struct buf *out,
		       const char *label);
void answer_list_add(struct answer_list *l, const char *fmt, ...)
	BASE_PRINTF(2, 3);
/* Ends the line; without items it says "none". */
void answer_list_end(struct answer_list *l);

#endif

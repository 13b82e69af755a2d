/*
 * append.h - a file that grows by records, each of which is there whole or
 * not at all, also where the disk is full.
 */
#ifndef RT_APPEND_H
#define RT_APPEND_H

#include <stdbool.h>

#include "runtime/error.h"

struct rt_append {
	int fd;
	char *path;
	const char *mend;
	bool torn;	/* a part of a record stands at the end */
	int64_t lost;	/* records that were not written */
};

/*
 * A file that is there stays, unless it is to be anew.  mend comes before the
 * next record where a part of one could not be taken back, as it cannot from
 * a pipe, or where the file does not end with mend: "\n" for lines.  NULL: no
 * record can follow such a part.
 */
enum rt_status rt_append_open(struct rt_append *a, const char *path, bool anew,
			      const char *mend, struct rt_error *err);
/* RT_IO: it is not there, and counts as lost; the next one may succeed. */
enum rt_status rt_append_record(struct rt_append *a, const void *at, size_t n,
				struct rt_error *err);
/* What open did not succeed in may be closed, too. */
enum rt_status rt_append_close(struct rt_append *a, struct rt_error *err);

#endif

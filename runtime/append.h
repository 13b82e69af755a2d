/*
 * A file that grows by records. Each of them is in it whole or not at all, on a
 * full disk as well.  Logs are written by it.
 */
#ifndef RT_APPEND_H
#define RT_APPEND_H

#include <stdbool.h>

#include "runtime/error.h"

struct rt_append {
	int fd;
	char *path;
	const char *mend;
	bool torn;	/* the file ends with a part of a record */
	int64_t lost;	/* records that could not be written */
};

/*
 * Keeps a file that exists, unless `anew`.  `mend` is written before the next
 * record where a part of one could not be taken back (from a pipe it never can)
 * or where the file does not end with it: "\n" for lines. NULL: no record can
 * follow such a part.
 */
enum rt_status rt_append_open(struct rt_append *a, const char *path, bool anew,
			      const char *mend, struct rt_error *err);
/* RT_IO: the record was not written and counts as lost; the next one may
 * succeed. */
enum rt_status rt_append_record(struct rt_append *a, const void *at, size_t n,
				struct rt_error *err);
/* Also closes what rt_append_open failed to open. */
enum rt_status rt_append_close(struct rt_append *a, struct rt_error *err);

#endif

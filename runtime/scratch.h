/*
 * scratch.h - folders for the files of a moment, which do not stay when the
 * process that made one is killed: the next to make one removes it.
 */
#ifndef RT_SCRATCH_H
#define RT_SCRATCH_H

#include <limits.h>
#include <stdbool.h>

struct rt_scratch {
	char path[PATH_MAX];
	int fd;		/* of the folder, locked while it is in use; -1: none */
};

/*
 * A new folder in `in`; NULL: in $TMPDIR, or /tmp.  Only this user may look
 * into it.  false: errno says why, and path what could not be made.  Signals
 * that end the process are the caller's to delay, see delay.h.
 */
bool rt_scratch_make(struct rt_scratch *s, const char *in);
/* With all files in it. */
void rt_scratch_remove(struct rt_scratch *s);

#endif

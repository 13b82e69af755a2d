/*
 * Folders for temporary files. They are removed even if the process that made
 * one is killed: by the next process that makes one.
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
 * Makes a folder in `in`; NULL: in $TMPDIR, or /tmp. Only this user may enter
 * it. False: errno says why, and path what could not be made. The caller delays
 * signals that end the process, see delay.h.
 */
bool rt_scratch_make(struct rt_scratch *s, const char *in);
/* Removes it with all files in it. */
void rt_scratch_remove(struct rt_scratch *s);

#endif

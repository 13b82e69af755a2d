/*
 * delay.h - what may not be ended halfway, of llmc or of a rank: signals that
 * end a process wait while it has files that must not stay behind.
 */
#ifndef RT_DELAY_H
#define RT_DELAY_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct rt_delay {
	sigset_t before, delayed;
	int told;	/* the one that came while a process was waited for */
};

/* These and that a child has ended are for a process's first thread. */
void rt_delay_all(sigset_t *set);
/* From here to rt_delay_end those wait that would end the process. */
void rt_delay_begin(struct rt_delay *h);
void rt_delay_end(struct rt_delay *h);
/* Starts a process meanwhile; an errno if it cannot. */
int rt_delay_spawn(const struct rt_delay *h, pid_t *pid, char *const *words);
/* Until it has ended; what would end us ends it first, and is in `told`. */
bool rt_delay_wait(struct rt_delay *h, pid_t pid, int *status);

#endif

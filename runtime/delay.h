/*
 * Sections that must not be interrupted halfway, in llmc or in a rank: signals
 * that end a process wait while it has temporary files to remove.
 */
#ifndef RT_DELAY_H
#define RT_DELAY_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct rt_delay {
	sigset_t before, delayed;
	/* the signal that arrived while a child was waited for; 0: none */
	int caught;
};

/* The signals that end a process, and SIGCHLD, which only the first thread of a
 * process should receive. */
void rt_delay_all(sigset_t *set);
/* Between these two, signals that would end the process are delayed. */
void rt_delay_begin(struct rt_delay *h);
void rt_delay_end(struct rt_delay *h);
/* Starts a child process meanwhile; returns an errno if it cannot. */
int rt_delay_spawn(const struct rt_delay *h, pid_t *pid, char *const *words);
/* Waits until the child has ended; a delayed signal is passed on to it, and is
 * in `caught`. */
bool rt_delay_wait(struct rt_delay *h, pid_t pid, int *status);

#endif

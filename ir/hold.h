/*
 * What may not be ended halfway.  It stands apart from base.h since plug-ins
 * read that one in plain C.
 */
#ifndef IR_HOLD_H
#define IR_HOLD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Signals that end a process wait from the one to the other. */
struct hold {
	sigset_t before, held;
	int told;	/* the one that came while a process was waited for */
};

void hold_begin(struct hold *h);
void hold_end(struct hold *h);
/* Starts a process meanwhile; an errno if it cannot. */
int hold_spawn(const struct hold *h, pid_t *pid, char *const *words);
/* Until it has ended; what would end llmc ends it first, and is in `told`. */
bool hold_wait(struct hold *h, pid_t pid, int *status);

#endif

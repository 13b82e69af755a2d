/*
 * What may not be ended halfway.  It stands apart from base.h since plug-ins
 * read that one in plain C.
 */
#ifndef IR_HOLD_H
#define IR_HOLD_H

#include <signal.h>

/* Signals that end a process wait from the one to the other. */
struct hold {
	sigset_t before;
};

void hold_begin(struct hold *h);
void hold_end(const struct hold *h);

#endif

/*
 * What ends llmc from outside, a Ctrl-C first of all, waits while there are
 * files that must not stay behind.
 */
#include "ir/hold.h"

#include <stddef.h>

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

void
hold_begin(struct hold *h)
{
	sigset_t set;
	size_t i;

	sigemptyset(&set);
	for (i = 0; i < sizeof ending / sizeof ending[0]; i++) {
		sigaddset(&set, ending[i]);
	}
	sigprocmask(SIG_BLOCK, &set, &h->before);
}

void
hold_end(const struct hold *h)
{
	sigprocmask(SIG_SETMASK, &h->before, NULL);
}

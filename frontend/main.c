/*
 * main, and the little that a process has only one of: its signal handlers,
 * and the record that they write when a pass brings it down.
 */
#define _XOPEN_SOURCE 700	/* sigaltstack is not in POSIX proper */

#include "frontend/driver.h"

#include <signal.h>
#include <stdlib.h>

static const int fatal[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV };

#define NFATAL (sizeof fatal / sizeof *fatal)

static struct pass_crash crash;
static struct sigaction before[NFATAL];

/*
 * A stack that has run out is one way to get here: handlers have their own,
 * on which a module is printed, whose regions stand in each other.
 */
static union {
	char bytes[256 * 1024];
	max_align_t align;
} stack;

/*
 * Leaves the reproducer, then lets the signal do what it did before: a
 * fault strikes again on return, one that was sent is sent again.  One in
 * here comes here too, and ends what cannot be written.
 */
static void
on_fatal(int sig, siginfo_t *info, void *where)
{
	size_t i;

	(void)where;
	pass_crash_write(&crash);
	for (i = 0; i < NFATAL; i++) {
		sigaction(fatal[i], &before[i], NULL);
	}
	if (info->si_code <= 0) {
		raise(sig);
	}
}

static void
catch_signals(void)
{
	struct sigaction act = { 0 };
	stack_t own = { 0 };
	size_t i;

	own.ss_sp = stack.bytes;
	own.ss_size = sizeof stack.bytes;
	sigaltstack(&own, NULL);
	act.sa_sigaction = on_fatal;
	act.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
	sigemptyset(&act.sa_mask);
	for (i = 0; i < NFATAL; i++) {
		sigaction(fatal[i], &act, &before[i]);
	}
	/* a closed pipe is an error of a write, to be reported as one */
	signal(SIGPIPE, SIG_IGN);
	/* who started us may not care how its children end; we do */
	signal(SIGCHLD, SIG_DFL);
}

int
main(int argc, char **argv)
{
	catch_signals();
	return drv_main(argc, argv, &crash);
}

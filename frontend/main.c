/*
 * main, and what is global to the process: signal handlers, and the record
 * from which they write a reproducer when a pass crashes.
 */
#define _XOPEN_SOURCE 700	/* sigaltstack is not in POSIX proper */

#include "frontend/tool/tool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static const int fatal[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV };

#define NFATAL (sizeof fatal / sizeof *fatal)

static struct pass_crash crash;
static volatile int seconds;	/* since the start, at the next alarm */
static struct sigaction before[NFATAL];

/*
 * Handlers have a stack of their own, since the other may have overflowed. It
 * is large because printing a module recurses into its nested regions.
 */
static union {
	char bytes[256 * 1024];
	max_align_t align;
} stack;

/*
 * Writes the reproducer, then restores the former handlers: a fault occurs
 * again on return, and a signal that was sent is raised again.  A second fault
 * while the reproducer is written calls this function again, which then only
 * ends the process.
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
	/* an ignored SIGCHLD is inherited; llmc waits for its children */
	signal(SIGCHLD, SIG_DFL);
}

/* ---- progress ---- */

/* Until the first line; then twice as many each time. */
#define ON_TERMINAL_SECONDS 5
#define ELSEWHERE_SECONDS 60
/* Columns of a terminal that the line of a search may take. */
#define SEARCH_COLUMNS 60

static bool on_terminal;

static void
alarm_after(int in_seconds)
{
	struct itimerval t = { { 0, 0 }, { in_seconds, 0 } };

	seconds += in_seconds;
	setitimer(ITIMER_REAL, &t, NULL);
}

/* "llmc: 10 s so far, in search", in place of what a search has drawn there;
 * nothing here may allocate. */
static void
on_alarm(int sig)
{
	const char *doing = crash.doing ? crash.doing : "input";
	int saved = errno, n = seconds;
	char line[SEARCH_COLUMNS + 80], digits[12];
	size_t at = 0, d = sizeof digits;

	(void)sig;
	if (on_terminal) {
		memset(line, ' ', sizeof line);
		line[0] = line[SEARCH_COLUMNS + 1] = '\r';
		at = SEARCH_COLUMNS + 2;
	}
	memcpy(line + at, "llmc: ", 6);
	at += 6;
	do {
		digits[--d] = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0);
	while (d < sizeof digits) {
		line[at++] = digits[d++];
	}
	memcpy(line + at, " s so far, in ", 14);
	at += 14;
	while (*doing && at < sizeof line - 1) {
		line[at++] = *doing++;
	}
	line[at++] = '\n';
	if (write(STDERR_FILENO, line, at) > 0) {
		alarm_after(seconds);
	}
	errno = saved;
}

/* LLMC_PROGRESS says after how many seconds; 0: never.  False: it does not. */
static bool
show_progress(void)
{
	struct sigaction act = { .sa_flags = SA_RESTART };
	const char *given = getenv("LLMC_PROGRESS");
	int first;

	on_terminal = isatty(STDERR_FILENO);
	first = on_terminal ? ON_TERMINAL_SECONDS : ELSEWHERE_SECONDS;
	if (given && *given) {
		if (strspn(given, "0123456789") != strlen(given) ||
		    strlen(given) > 6) {
			fprintf(stderr, "llmc: error: the variable "
				"LLMC_PROGRESS is not a number of seconds up "
				"to 999999\n");
			return false;
		}
		first = atoi(given);
	}
	if (first > 0) {
		act.sa_handler = on_alarm;
		sigemptyset(&act.sa_mask);
		sigaction(SIGALRM, &act, NULL);
		alarm_after(first);
	}
	return true;
}

int
main(int argc, char **argv)
{
	catch_signals();
	return show_progress() ? drv_main(argc, argv, &crash) : DRV_BAD_USAGE;
}

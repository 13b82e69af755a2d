/*
 * What ends llmc from outside, a Ctrl-C first of all, waits while there are
 * files that must not stay behind.  A process that llmc waits for meanwhile
 * is ended by it, with all that it has started, so the wait is short.
 */
#include "ir/hold.h"

#include <spawn.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

/* Nothing that is ignored, or that a handler takes, ends a process. */
static bool
ends(int sig)
{
	struct sigaction a;

	return sigaction(sig, NULL, &a) == 0 && !(a.sa_flags & SA_SIGINFO) &&
	       a.sa_handler == SIG_DFL;
}

void
hold_begin(struct hold *h)
{
	size_t i;

	h->told = 0;
	sigemptyset(&h->held);
	sigaddset(&h->held, SIGCHLD);
	for (i = 0; i < sizeof ending / sizeof ending[0]; i++) {
		if (ends(ending[i])) {
			sigaddset(&h->held, ending[i]);
		}
	}
	sigprocmask(SIG_BLOCK, &h->held, &h->before);
}

void
hold_end(struct hold *h)
{
	if (h->told) {
		raise(h->told);
	}
	sigprocmask(SIG_SETMASK, &h->before, NULL);
}

/* In a group of its own, which a terminal's Ctrl-C reaches through us. */
int
hold_spawn(const struct hold *h, pid_t *pid, char *const *words)
{
	posix_spawnattr_t a;
	int error = posix_spawnattr_init(&a);

	if (error) {
		return error;
	}
	posix_spawnattr_setflags(&a, POSIX_SPAWN_SETSIGMASK |
				 POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setsigmask(&a, &h->before);
	posix_spawnattr_setpgroup(&a, 0);
	error = posix_spawnp(pid, words[0], NULL, &a, words, environ);
	posix_spawnattr_destroy(&a);
	return error;
}

bool
hold_wait(struct hold *h, pid_t pid, int *status)
{
	/* that a child has ended may be told to another thread */
	static const struct timespec at_most = { 0, 100000000 };
	pid_t got;
	int sig;

	while ((got = waitpid(pid, status, WNOHANG)) == 0) {
		if (h->told) {
			kill(-pid, h->told);
		}
		sig = sigtimedwait(&h->held, NULL, &at_most);
		if (sig > 0 && sig != SIGCHLD) {
			h->told = sig;
		}
	}
	return got == pid;
}

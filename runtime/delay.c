/*
 * delay.c - signals wait while files lie about; see delay.h.  A process that
 * is waited for meanwhile is ended by them, with all that it has started, so
 * the wait is short.
 */
#include "runtime/delay.h"

#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1,
	SIGUSR2 };

void
rt_delay_all(sigset_t *set)
{
	size_t i;

	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (i = 0; i < sizeof ending / sizeof *ending; i++) {
		sigaddset(set, ending[i]);
	}
}

/* A run that a handler tells to end does so after its step: it goes on. */
static bool
ends(int sig)
{
	struct sigaction a;

	return sigaction(sig, NULL, &a) == 0 && !(a.sa_flags & SA_SIGINFO) &&
	       a.sa_handler == SIG_DFL;
}

void
rt_delay_begin(struct rt_delay *h)
{
	size_t i;

	h->told = 0;
	rt_delay_all(&h->delayed);
	for (i = 0; i < sizeof ending / sizeof *ending; i++) {
		if (!ends(ending[i])) {
			sigdelset(&h->delayed, ending[i]);
		}
	}
	pthread_sigmask(SIG_BLOCK, &h->delayed, &h->before);
}

void
rt_delay_end(struct rt_delay *h)
{
	if (h->told) {
		raise(h->told);
	}
	pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

/* In a group of its own, so that it hears of each signal once, from us. */
int
rt_delay_spawn(const struct rt_delay *h, pid_t *pid, char *const *words)
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
rt_delay_wait(struct rt_delay *h, pid_t pid, int *status)
{
	/* a library's thread may have been told that a child has ended */
	static const struct timespec at_most = { 0, 100000000 };
	pid_t got;
	int sig;

	while ((got = waitpid(pid, status, WNOHANG)) == 0) {
		if (h->told) {
			kill(-pid, h->told);
		}
		sig = sigtimedwait(&h->delayed, NULL, &at_most);
		if (sig > 0 && sig != SIGCHLD) {
			h->told = sig;
		}
	}
	return got == pid;
}

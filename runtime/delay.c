/*
 * Delays signals while temporary files exist.  A signal that arrives while a
 * child process is waited for ends the child and all that it has started, so
 * the delay is short.
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

/* Whether the signal would end this process now.  A run with a handler ends
 * after its step instead, and so is not affected. */
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

	h->caught = 0;
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
	if (h->caught) {
		raise(h->caught);
	}
	pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

/* In a process group of its own, so that a signal of the terminal reaches it
 * once, by rt_delay_wait. */
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
	/* a library's thread may have taken the SIGCHLD of this child */
	static const struct timespec at_most = { 0, 100000000 };
	pid_t got;
	int sig;

	while ((got = waitpid(pid, status, WNOHANG)) == 0) {
		if (h->caught) {
			kill(-pid, h->caught);
		}
		sig = sigtimedwait(&h->delayed, NULL, &at_most);
		if (sig > 0 && sig != SIGCHLD) {
			h->caught = sig;
		}
	}
	return got == pid;
}

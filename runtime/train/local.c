/*
 * Starts all ranks of a plan on this host, as children of one process that only
 * waits: it forwards signals, reports which rank died, and kills the ranks that
 * are left.
 *
 * Each child has a process group of its own, so that a signal to the terminal's
 * group reaches it exactly once, through the parent.
 */
#define _GNU_SOURCE	/* signalfd, pipe2 */

#include "runtime/comm/comm.h"

#include "runtime/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOWHERE ((struct rt_where){ NULL, NULL, -1 })

struct children {
	int64_t n, left;	/* children, and how many of them still run */
	pid_t *pids;		/* by rank; 0: ended */
	int fd;			/* a signalfd */
	/* a pipe: a struct rt_news for each child that ended */
	int news[2];
	sigset_t before;
	/* the first that failed */
	int64_t failed;		/* -1: none */
	int status;		/* to exit with */
	int killed_by;		/* the signal that killed it; 0: it exited */
	double kill_at_s;	/* when to kill all that still run; 0: never */
	bool ended;		/* they were killed */
};

/*
 * Shared by all ranks of this host.  The rank that is first to fail stores what
 * it says.
 */
struct rt_said {
	_Atomic int state;	/* enum said_state */
	char text[RT_ERROR_BYTES];
};

enum said_state { NOTHING_SAID, BEING_STORED, STORED };

static const int passed_on[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1,
	SIGUSR2 };

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void
signal_all(const struct children *f, int sig)
{
	int64_t i;

	for (i = 0; i < f->n; i++) {
		if (f->pids[i] > 0) {
			kill(f->pids[i], sig);
		}
	}
}

/* In a child: it dies with its parent, however that dies. */
static void
become(const struct children *f, pid_t parent)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) {
		_exit(1);
	}
	close(f->fd);
	close(f->news[1]);
	sigprocmask(SIG_SETMASK, &f->before, NULL);
}

/* From now on signals to forward, and SIGCHLD, are read from f->fd. */
static enum rt_status
catch_signals(struct children *f, struct rt_error *err)
{
	sigset_t set;
	size_t i;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++) {
		sigaddset(&set, passed_on[i]);
	}
	if (sigprocmask(SIG_BLOCK, &set, &f->before) != 0) {
		return rt_fail(err, RT_IO, NOWHERE, "cannot block signals: %s",
			       strerror(errno));
	}
	f->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (f->fd < 0) {
		sigprocmask(SIG_SETMASK, &f->before, NULL);
		return rt_fail(err, RT_IO, NOWHERE, "cannot wait for signals: "
			       "%s", strerror(errno));
	}
	return RT_OK;
}

/* In a child *rank is its own, in the parent -1. */
static enum rt_status
fork_all(struct children *f, int64_t *rank, struct rt_error *err)
{
	pid_t parent = getpid();
	int64_t i;

	*rank = -1;
	for (i = 0; i < f->n; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			return rt_fail(err, RT_IO, NOWHERE,
				       "cannot start rank %lld: %s",
				       (long long)i, strerror(errno));
		}
		if (pid == 0) {
			become(f, parent);
			*rank = i;
			return RT_OK;
		}
		f->pids[i] = pid;
		f->left++;
	}
	return RT_OK;
}

/* NULL if there is no memory: then each rank says what it finds. */
static struct rt_said *
share_said(void)
{
	void *p = mmap(NULL, sizeof(struct rt_said), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* X of "rank 0 (pp=0 tp=0) gave up: X", which rank 0 says as X. */
static const char *
cause_of(const char *message)
{
	static const char mark[] = " gave up: ";
	const char *at = strstr(message, mark);

	return at ? at + strlen(mark) : message;
}

/* Whether it is "rank 0: X": so others learn of X before the first step. */
static bool
is_told(const char *message, const char *cause)
{
	size_t n = strlen(message), end = strlen(cause);

	return strncmp(message, "rank ", 5) == 0 && n > end + 2 &&
	       strcmp(message + n - end, cause) == 0 &&
	       memcmp(message + n - end - 2, ": ", 2) == 0;
}

bool
rt_local_is_news(const struct rt_world *w, const char *message)
{
	const char *cause = cause_of(message);
	struct rt_said *s = w->said;
	int none = NOTHING_SAID, tries;

	if (!s) {
		return true;
	}
	if (atomic_compare_exchange_strong(&s->state, &none, BEING_STORED)) {
		snprintf(s->text, sizeof(s->text), "%s", cause);
		atomic_store(&s->state, STORED);
		return true;
	}
	/* whoever stores it may be killed in between */
	for (tries = 0; tries < 100 && atomic_load(&s->state) != STORED;
	     tries++) {
		poll(NULL, 0, 1);
	}
	return atomic_load(&s->state) != STORED ||
	       (strcmp(cause, s->text) != 0 && !is_told(cause, s->text) &&
		!is_told(s->text, cause));
}

/* ---- the parent ---- */

/*
 * Ranks that wait for this one to join read news from the pipe; later it is in
 * the shared segment.
 */
static void
report_news(const struct children *f, int64_t rank, int sig)
{
	struct rt_news news = { rank, sig };
	int64_t i;

	for (i = 0; i < f->n; i++) {
		if (write(f->news[1], &news, sizeof(news)) < 0) {
			break;
		}
	}
}

/*
 * A rank that fails because another was killed may be reaped before that other.
 * So a rank that was killed, but not by us, replaces one that only failed as
 * the cause.
 */
static void
record_end(struct children *f, int64_t rank, int how, double grace_s)
{
	int sig = WIFSIGNALED(how) ? WTERMSIG(how) : 0;

	f->pids[rank] = 0;
	f->left--;
	if (WIFEXITED(how) && WEXITSTATUS(how) == 0) {
		return;
	}
	if (f->failed >= 0 && (!sig || f->killed_by || f->ended)) {
		return;
	}
	if (f->failed < 0) {
		f->kill_at_s = now_s() + grace_s;
		report_news(f, rank, sig);
	}
	f->failed = rank;
	f->killed_by = sig;
	f->status = sig ? 128 + sig : WEXITSTATUS(how);
}

static void
reap(struct children *f, double grace_s)
{
	int64_t i;
	int how;

	for (i = 0; i < f->n; i++) {
		if (f->pids[i] > 0 &&
		    waitpid(f->pids[i], &how, WNOHANG) == f->pids[i]) {
			record_end(f, i, how, grace_s);
		}
	}
}

static void
read_signals(const struct children *f)
{
	struct signalfd_siginfo s;

	while (read(f->fd, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
		if (s.ssi_signo != SIGCHLD) {
			signal_all(f, (int)s.ssi_signo);
		}
	}
}

/* A rank that is stopped (SIGSTOP) does not notice that others ended. */
static void
wait_for_all(struct children *f, double grace_s)
{
	while (f->left > 0) {
		struct pollfd p = { f->fd, POLLIN, 0 };
		double left_s = f->kill_at_s - now_s();

		if (f->kill_at_s > 0 && left_s <= 0) {
			signal_all(f, SIGKILL);
			f->ended = true;
		}
		/* polls too: a signal may have merged with another */
		poll(&p, 1, f->kill_at_s <= 0 || left_s > 0.5 ? 500 :
			     left_s > 0 ? (int)(left_s * 1e3) + 1 : 50);
		read_signals(f);
		reap(f, grace_s);
	}
}

static enum rt_status
report_killed(const struct children *f, struct rt_error *err)
{
	if (f->failed < 0 || !f->killed_by) {
		return RT_OK;
	}
	return rt_fail(err, RT_IO, NOWHERE,
		       "rank %lld was killed by signal %d (%s)%s",
		       (long long)f->failed, f->killed_by,
		       strsignal(f->killed_by),
		       f->n > 1 ? "; the others were notified" : "");
}

static void
close_news(const struct children *f)
{
	close(f->news[0]);
	close(f->news[1]);
}

enum rt_status
rt_local_start(int64_t n, double grace_s, struct rt_world *w, bool *child,
	       int *status, struct rt_error *err)
{
	struct children f = { .n = n, .failed = -1 };
	double start_s = now_s();
	struct rt_said *said = share_said();
	pid_t parent = getpid();
	enum rt_status s;
	int64_t rank;

	*child = false;
	*status = 0;
	f.pids = calloc((size_t)n, sizeof(*f.pids));
	if (!f.pids) {
		return rt_no_memory(err, NULL);
	}
	if (pipe2(f.news, O_CLOEXEC | O_NONBLOCK) != 0) {
		free(f.pids);
		return rt_fail(err, RT_IO, NOWHERE, "cannot make a pipe: %s",
			       strerror(errno));
	}
	s = catch_signals(&f, err);
	if (s != RT_OK) {
		close_news(&f);
		free(f.pids);
		return s;
	}
	s = fork_all(&f, &rank, err);
	if (rank >= 0) {
		free(f.pids);
		*child = true;
		*w = (struct rt_world){ rank, n, rank, n, "local", "",
			f.news[0], said };
		/* process ids recur, but not at the same time */
		snprintf(w->job, sizeof(w->job), "local-%ld-%.6f",
			 (long)parent, start_s);
		return RT_OK;
	}
	if (s != RT_OK) {
		signal_all(&f, SIGKILL);
		f.ended = true;
	}
	wait_for_all(&f, grace_s);
	close(f.fd);
	close_news(&f);
	sigprocmask(SIG_SETMASK, &f.before, NULL);
	free(f.pids);
	*status = f.status;
	return s == RT_OK ? report_killed(&f, err) : s;
}

/*
 * Ranks that meet by TCP among others that are no ranks of
 * theirs: who knows no secret, says what another said, says nothing many
 * times, or changes what is said; at which addresses ranks listen; and what
 * lies where the file of a rendezvous should.
 */
#include "tests/unit/comm/t-tcp.h"

#include "runtime/comm/tcp/tcp_meet.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#define GOOD "LLMC_SECRET=this is known to all ranks"
#define WRONG_ONE "LLMC_SECRET=this is known to one only"

static const struct rt_axis two[] = { { NULL, 0, 0 }, { "dp", 2, 0 } };

/* An environment with the file and up to two more variables. */
struct env {
	char place[160];
	const char *all[4];
};

static const char *const *
env_of(struct env *e, const char *a, const char *b)
{
	snprintf(e->place, sizeof(e->place), "LLMC_RENDEZVOUS=%s",
		 ranks_place);
	e->all[0] = e->place;
	e->all[1] = a;
	e->all[2] = a ? b : NULL;
	e->all[3] = NULL;
	return e->all;
}

static void
all_met(const struct ranks *r, int64_t but)
{
	int64_t i;

	for (i = 0; i < r->n; i++) {
		if (i != but && r->exits[i] != 0) {
			fail_msg("process %d ends with %d and says: %s",
				 (int)i, r->exits[i], r->said[i]);
		}
	}
}

static void
has_said(const struct ranks *r, int64_t i, const char *text)
{
	if (!strstr(r->said[i], text)) {
		fail_msg("process %d does not say '%s' but: %s", (int)i, text,
			 r->said[i]);
	}
}

/* The first child that ends. */
static pid_t
first_to_end(void)
{
	siginfo_t i;

	assert_int_equal(waitid(P_ALL, 0, &i, WEXITED | WNOWAIT), 0);
	return i.si_pid;
}

/* ---- secrets ---- */

static void
test_same_secret(void **state)
{
	struct rt_plan p = plan_of(three, 2);
	struct ranks r = { .n = 0 };
	struct env e;
	int64_t i;

	(void)state;
	new_place();
	for (i = 0; i < 3; i++) {
		start_in(env_of(&e, GOOD, NULL), &r, &p, i, 3, 60);
	}
	ranks_wait(&r, 120, -1);
	all_met(&r, -1);
}

/* Both sides say so, and the run goes on with who knows the secret. */
static void
wrong_secret(const char *its)
{
	struct rt_plan p = plan_of(three, 2);
	struct ranks r = { .n = 0 };
	struct env e;

	new_place();
	start_in(env_of(&e, GOOD, NULL), &r, &p, 0, 3, 120);
	start_in(env_of(&e, its, NULL), &r, &p, 2, 3, 3);
	assert_int_equal(first_to_end(), r.pids[1]);
	start_in(env_of(&e, GOOD, NULL), &r, &p, 1, 3, 120);
	start_in(env_of(&e, GOOD, NULL), &r, &p, 2, 3, 120);
	ranks_wait(&r, 240, -1);
	all_met(&r, 1);
	expect_said(&r, 1, "does not know this job's secret: give all ranks");
	has_said(&r, 0, "turned away ");
	has_said(&r, 0, "which says that it is rank 2 on ");
	has_said(&r, 0, ": it does not know this job's secret");
}

static void
test_wrong_secret(void **state)
{
	(void)state;
	wrong_secret(WRONG_ONE);
}

static void
test_no_secret(void **state)
{
	(void)state;
	wrong_secret(NULL);
}

static void
test_other_sums(void **state)
{
	struct rt_plan p = plan_of(two, 2);
	struct ranks r = { .n = 0 };
	struct env e;

	(void)state;
	new_place();
	start_in(env_of(&e, "LLMC_MESSAGE_SUMS=on", NULL), &r, &p, 0, 2, 60);
	start_in(env_of(&e, NULL, NULL), &r, &p, 1, 2, 60);
	assert_int_equal(first_to_end(), r.pids[1]);
	start_in(env_of(&e, "LLMC_MESSAGE_SUMS=on", NULL), &r, &p, 1, 2, 60);
	ranks_wait(&r, 120, -1);
	all_met(&r, 1);
	expect_said(&r, 1, "has LLMC_MESSAGE_SUMS off, rank 0 has it on");
	r.n = 0;
	start_in(env_of(&e, "LLMC_MESSAGE_SUMS=yes", NULL), &r, &p, 1, 2, 60);
	ranks_wait(&r, 120, -1);
	expect_said(&r, 0, "LLMC_MESSAGE_SUMS is 'yes', expected on or off");
}

/* ---- what is not a rank of ours ---- */

static int
new_listener(int *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(at);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (void *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (void *)&at, &size), 0);
	assert_int_equal(listen(fd, 8), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static void
read_all(int fd, void *at, size_t n)
{
	assert_true(rt_tcp_read(fd, at, n, rt_now_us() + 60e6));
}

static int
greeted(int port, struct rt_tcp_greeting *g)
{
	int fd = stranger(port, "", 0);

	read_all(fd, g, sizeof(*g));
	assert_int_equal(g->magic, RT_TCP_MAGIC);
	return fd;
}

static void
closed(int fd)
{
	char byte[1024];
	ssize_t n;

	while ((n = read(fd, byte, sizeof(byte))) > 0) {
	}
	close(fd);
}

/* Another version, noise, and a hello of which half is missing. */
static void
test_nonsense(void **state)
{
	struct rt_plan p = plan_of(two, 2);
	struct ranks r = { .n = 0 };
	struct rt_tcp_hello h = { .magic = RT_TCP_MAGIC, .version = 1000,
				  .rank = 1 };
	struct rt_tcp_greeting g;
	struct env e;
	char noise[8192];
	uint64_t seed = 3;
	int port, i, fds[3];

	(void)state;
	new_place();
	start_in(env_of(&e, GOOD, NULL), &r, &p, 0, 2, 120);
	port = port_of_first();
	fds[0] = greeted(port, &g);
	assert_int_equal(write(fds[0], &h, 24), 24);
	closed(fds[0]);
	for (i = 0; i < 40; i++) {
		size_t n = 1 + (size_t)draw_below(&seed, sizeof(noise)), k;

		for (k = 0; k < n; k++) {
			noise[k] = (char)draw(&seed);
		}
		/* half of them begin well */
		h = (struct rt_tcp_hello){ .magic = RT_TCP_MAGIC,
			.version = RT_TCP_VERSION,
			.rank = draw_below(&seed, 4) - 1, .size = 2 };
		memset(h.host, 'x', sizeof(h.host));
		if (i % 2) {
			memcpy(noise, &h, n < sizeof(h) ? n : sizeof(h));
		}
		close(stranger(port, noise, n));
	}
	fds[1] = stranger(port, "", 0);
	fds[2] = stranger(port, &h, sizeof(h) / 2);
	start_in(env_of(&e, GOOD, NULL), &r, &p, 1, 2, 120);
	ranks_wait(&r, 240, -1);
	close(fds[1]);
	close(fds[2]);
	all_met(&r, -1);
	has_said(&r, 0, "rank 1: found version 1000 of how ranks meet, "
		 "expected 2");
	has_said(&r, 0, "does not know this job's secret");
}

/* The key of a job is no secret: it is made of where its ranks meet. */
static uint64_t
key_of(const char *place)
{
	const char *env[] = { place, NULL };
	struct rt_variables vars = { get, env };
	struct rt_rendezvous where;
	struct rt_error err;

	assert_int_equal(rt_rendezvous_find(&where, &vars, &err), RT_OK);
	return where.key;
}

/*
 * Rank 1 calls another one than rank 0, who greets it as that did, and hears
 * its hello; *caller is that connection.
 */
static struct rt_tcp_hello
overheard(struct ranks *r, const struct rt_plan *p, int listener, int port,
	  struct rt_tcp_greeting g, int *caller)
{
	char place[64];
	const char *env[] = { place, GOOD, NULL };
	struct rt_tcp_hello h;

	snprintf(place, sizeof(place), "LLMC_RENDEZVOUS=127.0.0.1:%d", port);
	start_in(env, r, p, 1, 2, 120);
	*caller = accept(listener, NULL, NULL);
	assert_true(*caller >= 0);
	g.key = key_of(place);
	assert_int_equal(write(*caller, &g, sizeof(g)), sizeof(g));
	read_all(*caller, &h, sizeof(h));
	assert_int_equal(h.rank, 1);
	return h;
}

/* That hello is not believed. */
static struct rt_tcp_verdict
said_again(int fd, const struct rt_tcp_hello *h)
{
	struct rt_tcp_verdict v;

	assert_int_equal(write(fd, h, sizeof(*h)), sizeof(*h));
	read_all(fd, &v, sizeof(v));
	assert_int_equal(v.ok, 0);
	return v;
}

/* What a rank said on one connection proves nothing on another. */
static void
test_replay(void **state)
{
	struct rt_plan p = plan_of(two, 2);
	struct ranks r = { .n = 0 };
	struct rt_tcp_greeting g, other;
	struct rt_tcp_hello h;
	struct rt_tcp_verdict v;
	int port, listener, first, caller, again, free_port;
	char number[64];
	const char *env[] = { "MASTER_ADDR=127.0.0.1", number, GOOD, NULL };
	struct rt_tcp_address a = { .family = 4, .bytes = { 127, 0, 0, 1 } };

	(void)state;
	listener = new_listener(&free_port);
	close(listener);
	snprintf(number, sizeof(number), "MASTER_PORT=%d", free_port);
	start_in(env, &r, &p, 0, 2, 120);
	a.port = free_port;
	while ((first = rt_tcp_connect(&a, rt_now_us() + 60e6)) < 0) {
		poll(NULL, 0, 5);
	}
	read_all(first, &g, sizeof(g));
	listener = new_listener(&port);
	h = overheard(&r, &p, listener, port, g, &caller);
	/* where its number was drawn, but of another job; and elsewhere */
	said_again(first, &h);
	again = greeted(free_port, &other);
	v = said_again(again, &h);
	/* nor does the caller take another's word for rank 0's */
	v.ok = 1;
	assert_int_equal(write(caller, &v, sizeof(v)), sizeof(v));
	close(caller);
	/* it has said so when it comes again */
	caller = accept(listener, NULL, NULL);
	assert_true(caller >= 0);
	close(caller);
	close(listener);
	close(first);
	close(again);
	kill(r.pids[1], SIGTERM);
	start_in(env, &r, &p, 1, 2, 120);
	ranks_wait(&r, 240, -1);
	all_met(&r, 1);
	has_said(&r, 0, "does not know this job's secret");
	has_said(&r, 1, "does not know this job's secret");
}

/*
 * All listening sockets of a process; whether they are of loopback alone, and
 * the last one's port.
 */
static int
listens(pid_t pid, bool *loopback, int *port)
{
	static const char *const lists[] = { "/proc/net/tcp",
		"/proc/net/tcp6" };
	char folder[64], path[400], to[64], line[512];
	struct dirent *d;
	int found = 0;
	size_t i;
	DIR *all;

	*loopback = true;
	snprintf(folder, sizeof(folder), "/proc/%ld/fd", (long)pid);
	all = opendir(folder);
	while (all && (d = readdir(all))) {
		unsigned long inode, have;
		ssize_t n;

		snprintf(path, sizeof(path), "%s/%s", folder, d->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = '\0';
		if (sscanf(to, "socket:[%lu]", &inode) != 1) {
			continue;
		}
		for (i = 0; i < 2; i++) {
			FILE *f = fopen(lists[i], "r");

			while (f && fgets(line, sizeof(line), f)) {
				char at[40];
				unsigned state, number;

				if (sscanf(line, "%*s %39[0-9A-F]:%x %*s %x "
					   "%*s %*s %*s %*s %*s %lu", at,
					   &number, &state, &have) != 4 ||
				    have != inode || state != 0x0a) {
					continue;
				}
				found++;
				*port = (int)number;
				*loopback &= strcmp(at, "0100007F") == 0 ||
					strcmp(at, "0000000000000000"
					       "0000000001000000") == 0;
			}
			if (f) {
				fclose(f);
			}
		}
	}
	if (all) {
		closedir(all);
	}
	return found;
}

/* As many connections as it can have, for ever, that say nothing. */
static void
hold_many(int port)
{
	enum { MANY = 600 };
	static struct pollfd p[MANY];
	struct sockaddr_in a = { .sin_family = AF_INET };
	int i;

	a.sin_port = htons((uint16_t)port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (i = 0; i < MANY; i++) {
		p[i].fd = -1;
	}
	for (;;) {
		char bytes[256];

		for (i = 0; i < MANY; i++) {
			if (p[i].fd >= 0 &&
			    recv(p[i].fd, bytes, sizeof(bytes),
				 MSG_DONTWAIT) == 0) {
				close(p[i].fd);
				p[i].fd = -1;
			}
			if (p[i].fd < 0) {
				p[i].fd = socket(AF_INET, SOCK_STREAM |
						 SOCK_NONBLOCK, 0);
				connect(p[i].fd, (void *)&a, sizeof(a));
			}
		}
		poll(NULL, 0, 20);
	}
}

static void
test_idle(void **state)
{
	struct rt_plan p = plan_of(three, 2);
	struct ranks r = { .n = 0 };
	int port;
	pid_t pid;

	(void)state;
	new_place();
	start(&r, &p, 0, 3, 100);
	port = port_of_first();
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		hold_many(port);
	}
	poll(NULL, 0, 300);
	start(&r, &p, 1, 3, 100);
	start(&r, &p, 2, 3, 100);
	ranks_wait(&r, 200, -1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	all_met(&r, -1);
}

/* The same of a rank that awaits those above it. */
static void
test_idle_at_another(void **state)
{
	struct rt_plan p = plan_of(three, 2);
	struct ranks r = { .n = 0 };
	char number[64];
	const char *env[] = { "MASTER_ADDR=127.0.0.1", number, NULL };
	int idle[30], port, i;
	bool loopback;

	(void)state;
	close(new_listener(&port));
	snprintf(number, sizeof(number), "MASTER_PORT=%d", port);
	start_in(env, &r, &p, 0, 3, 60);
	start_in(env, &r, &p, 1, 3, 60);
	for (i = 0; i < 60000 && listens(r.pids[1], &loopback, &port) == 0;
	     i++) {
		poll(NULL, 0, 1);
	}
	for (i = 0; i < 30; i++) {
		idle[i] = stranger(port, "", 0);
	}
	start_in(env, &r, &p, 2, 3, 60);
	ranks_wait(&r, 120, -1);
	for (i = 0; i < 30; i++) {
		close(idle[i]);
	}
	all_met(&r, -1);
}

/* ---- what is changed on its way ---- */

/* Carries all bytes, but changes one of those to the caller. */
static void
carry(int listener, int port, int64_t change)
{
	int fds[2];
	int64_t moved = 0;

	fds[0] = accept(listener, NULL, NULL);
	fds[1] = stranger(port, "", 0);
	for (;;) {
		struct pollfd p[2] = { { fds[0], POLLIN, 0 },
				       { fds[1], POLLIN, 0 } };
		char bytes[4096];
		int i;

		poll(p, 2, -1);
		for (i = 0; i < 2; i++) {
			ssize_t n = p[i].revents ? read(fds[i], bytes,
							sizeof(bytes)) : 1;

			if (n <= 0) {
				_exit(0);
			}
			if (!p[i].revents) {
				continue;
			}
			if (i == 1 && change >= moved && change < moved + n) {
				bytes[change - moved] ^= 4;
			}
			moved += i == 1 ? n : 0;
			if (write(fds[1 - i], bytes, (size_t)n) != n) {
				_exit(0);
			}
		}
	}
}

/* A copy of the file, that names another port. */
static void
copy_place(const char *to, int port)
{
	FILE *in = fopen(ranks_place + 5, "r");
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600), version, was;
	FILE *out = fdopen(fd, "w");
	unsigned long long key;
	char line[128];

	assert_int_equal(fscanf(in, "llmc-rendezvous %d %llx %d", &version,
				&key, &was), 3);
	fprintf(out, "llmc-rendezvous %d %llx %d", version, key, port);
	while (fgets(line, sizeof(line), in)) {
		fputs(line, out);
	}
	fclose(in);
	fclose(out);
}

/* Sum of many numbers, so that messages have heads and what is after. */
static void
change_at(int64_t at, const char *sums, const char *says)
{
	struct rt_plan p = plan_of(two, 2);
	struct ranks r = { .n = 0 };
	char to[64], place[96];
	const char *env[] = { place, sums, NULL };
	struct env e;
	int port, listener;
	pid_t pid;

	new_place();
	start_in(env_of(&e, sums, NULL), &r, &p, 0, 2, 60);
	listener = new_listener(&port);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		carry(listener, port_of_first(), at);
	}
	port_of_first();
	snprintf(to, sizeof(to), "t-tcp-guard-%ld.place", (long)getpid());
	copy_place(to, port);
	snprintf(place, sizeof(place), "LLMC_RENDEZVOUS=file:%s", to);
	start_in(env, &r, &p, 1, 2, 60);
	ranks_wait(&r, 120, -1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(listener);
	unlink(to);
	if (says) {
		expect_said(&r, 1, says);
		assert_int_equal(r.exits[0], GAVE_UP);
	} else {
		all_met(&r, -1);
	}
}

static void
test_changed(void **state)
{
	static const char on[] = "LLMC_MESSAGE_SUMS=on";
	static const char text[] = "rank 0 (dp=0) sent a message that was "
		"changed on its way, or is not its own, while rank 1 waited ";
	/* the greeting, to be let in, the table, and go */
	int64_t met = (int64_t)(sizeof(struct rt_tcp_greeting) +
				3 * sizeof(struct rt_tcp_verdict) +
				2 * sizeof(struct rt_tcp_address));

	(void)state;
	change_at(met + 100000, on, NULL);
	/* a head of 40 bytes, a letter after it */
	change_at(met + 8, on, text);
	change_at(met + 39, on, text);
	change_at(met + 40 + 100, on, text);
	change_at(met + 40 + (int64_t)offsetof(struct rt_letter, mail), on,
		  text);
}

/* ---- where they listen ---- */

static void
listens_on_loopback(const char *addr, const char *port)
{
	struct rt_plan p = plan_of(three, 2);
	struct ranks r = { .n = 0 };
	const char *env[] = { addr, port, NULL };
	bool loopback;
	int64_t i, k;
	int at;

	start_in(env, &r, &p, 0, 3, 60);
	start_in(env, &r, &p, 1, 3, 60);
	for (i = 0; i < 2; i++) {
		for (k = 0; k < 30000 &&
		     listens(r.pids[i], &loopback, &at) == 0; k++) {
			poll(NULL, 0, 1);
		}
		assert_int_equal(listens(r.pids[i], &loopback, &at), 1);
		if (!loopback) {
			fail_msg("%s: rank %d listens elsewhere, too", addr,
				 (int)i);
		}
	}
	start_in(env, &r, &p, 2, 3, 60);
	ranks_wait(&r, 120, -1);
	all_met(&r, -1);
}

static void
test_addresses(void **state)
{
	struct rt_plan p = plan_of(two, 2);
	struct ranks r = { .n = 0 };
	char number[64];
	int port, fd = new_listener(&port);

	(void)state;
	close(fd);
	snprintf(number, sizeof(number), "MASTER_PORT=%d", port);
	listens_on_loopback("MASTER_ADDR=127.0.0.1", number);
	listens_on_loopback("MASTER_ADDR=localhost", number);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	if (fd >= 0) {
		struct sockaddr_in6 a = { .sin6_family = AF_INET6,
					  .sin6_addr = IN6ADDR_LOOPBACK_INIT };

		if (bind(fd, (void *)&a, sizeof(a)) == 0) {
			listens_on_loopback("MASTER_ADDR=::1", number);
		}
		close(fd);
	}
	/* an address of documents (RFC 5737) is no host's */
	start_in(ENV("MASTER_ADDR=198.51.100.77", "MASTER_PORT=29500"), &r, &p,
		 0, 2, 60);
	ranks_wait(&r, 120, -1);
	expect_said(&r, 0, "rank 0 cannot listen at 198.51.100.77, port 29500");
	expect_said(&r, 0, "name an address of rank 0's host");
}

/* ---- the file ---- */

static void
mode_of_place(mode_t want)
{
	struct stat st;

	assert_int_equal(lstat(ranks_place + 5, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(st.st_mode & 0777, want);
}

static void
first_is_refused(const char *text)
{
	struct rt_plan p = plan_of(two, 2);
	struct ranks r = { .n = 0 };

	start(&r, &p, 0, 2, 60);
	ranks_wait(&r, 120, -1);
	expect_said(&r, 0, text);
}

static void
other_is_refused(const char *text)
{
	struct rt_plan p = plan_of(two, 2);
	struct ranks r = { .n = 0 };

	start(&r, &p, 1, 2, 0.3);
	ranks_wait(&r, 120, -1);
	expect_said(&r, 0, text);
}

/* What is no file of ours is neither read, nor followed, nor replaced. */
static void
test_in_the_way(void **state)
{
	char other[64], text[64] = "";
	const char *path = ranks_place + 5;
	FILE *f;

	(void)state;
	new_place();
	assert_int_equal(mkfifo(path, 0600), 0);
	first_is_refused("cannot be written (LLMC_RENDEZVOUS): it is a FIFO");
	other_is_refused("within 0.3 s: it is a FIFO");
	unlink(path);
	snprintf(other, sizeof(other), "t-tcp-guard-%ld.other",
		 (long)getpid());
	f = fopen(other, "w");
	fputs("dear", f);
	fclose(f);
	assert_int_equal(symlink(other, path), 0);
	first_is_refused("it is a symbolic link");
	other_is_refused("it is a symbolic link");
	unlink(path);
	assert_int_equal(rename(other, path), 0);
	first_is_refused("a file with something else is there");
	f = fopen(path, "r");
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, "dear");
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	first_is_refused("it is a folder");
	rmdir(path);
	if (geteuid() == 0) {
		f = fopen(path, "w");
		fputs("llmc-rendezvous 2 0 1\n", f);
		fclose(f);
		assert_int_equal(chown(path, 65534, 65534), 0);
		first_is_refused("it is of user 65534, not of this one");
		other_is_refused("it is of user 65534, not of this one");
		unlink(path);
	}
}

static void
test_stale(void **state)
{
	struct rt_plan p = plan_of(two, 2);
	struct ranks r = { .n = 0 }, next = { .n = 0 };

	(void)state;
	new_place();
	start(&r, &p, 0, 2, 100);
	port_of_first();
	mode_of_place(0600);
	/* one that waits is not to be robbed of its place */
	first_is_refused("the first rank of another run waits there");
	kill(r.pids[0], SIGKILL);
	ranks_wait(&r, 120, -1);
	mode_of_place(0600);
	/* one that is dead is */
	start(&next, &p, 1, 2, 100);
	start(&next, &p, 0, 2, 100);
	ranks_wait(&next, 200, -1);
	all_met(&next, -1);
	assert_int_equal(access(ranks_place + 5, F_OK), -1);
	/* others could have read what is in it */
	next.n = 0;
	start(&next, &p, 0, 2, 1);
	port_of_first();
	assert_int_equal(chmod(ranks_place + 5, 0644), 0);
	other_is_refused("others than its user may read it");
	ranks_wait(&next, 200, -1);
	unlink(ranks_place + 5);
}

static void
test_removed(void **state)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT,
		SIGUSR1, SIGUSR2 };
	struct rt_plan p = plan_of(three, 2);
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		struct ranks r = { .n = 0 };

		/* a shell's job in the background ignores some of them */
		signal(signals[i], SIG_DFL);
		new_place();
		start(&r, &p, 0, 3, 100);
		start(&r, &p, 1, 3, 100);
		port_of_first();
		kill(r.pids[0], signals[i]);
		ranks_wait(&r, 200, -1);
		assert_int_equal(r.exits[0], -1);
		assert_int_equal(access(ranks_place + 5, F_OK), -1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_secret),
		cmocka_unit_test(test_wrong_secret),
		cmocka_unit_test(test_no_secret),
		cmocka_unit_test(test_other_sums),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_replay),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_idle_at_another),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_in_the_way),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_removed)
	};

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_DFL);	/* nohup has it ignored */
	return cmocka_run_group_tests(tests, NULL, NULL);
}

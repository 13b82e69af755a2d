#!/bin/sh
# Another user of a node, who knows the job's name: takes the names of the
# sockets by which ranks meet, and calls those that listen. The ranks meet all
# the same, send that user nothing, and say who is in the way.
. "${top_srcdir:?}/tests/lib.sh"
need binaries llvm linker compiler
[ "$(id -u)" -eq 0 ] || skip 'only root can be two users'

cat >stranger.c <<'END'
/* stranger UID HOW TIMES NAME..: as that user takes each name and notes what
 * comes (take), takes it and never listens (keep), or calls it (call). */
#define _GNU_SOURCE
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int at(const char *name, int call)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				  strlen(name));

	memcpy(a.sun_path + 1, name, strlen(name));
	if ((call ? connect : bind)(fd, (void *)&a, n) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int main(int argc, char **argv)
{
	int times = atoi(argv[3]), n = argc - 4, i;
	struct pollfd *p = calloc((size_t)n, sizeof(*p));
	char bytes[4096], path[64];

	if (setuid((uid_t)atoi(argv[1])) != 0) {
		return 1;
	}
	for (i = 0; argv[2][0] == 'c' && i < times; i++) {
		int fd = at(argv[4], 1);

		if (fd < 0) {
			poll(NULL, 0, 1);
		}
		close(fd);
	}
	for (i = 0; argv[2][0] != 'c' && i < n; i++) {
		p[i] = (struct pollfd){ at(argv[4 + i], 0), POLLIN, 0 };
		if (p[i].fd < 0 || (argv[2][0] == 't' && listen(p[i].fd, 64))) {
			perror(argv[4 + i]);
			return 1;
		}
	}
	snprintf(path, sizeof(path), "ready");
	puts(path);
	fflush(stdout);
	while (argv[2][0] != 'c' && poll(p, (nfds_t)n, -1) > 0) {
		for (i = 0; i < n; i++) {
			int fd = p[i].revents ? accept(p[i].fd, 0, 0) : -1;
			ssize_t got = fd < 0 ? 0 : read(fd, bytes, 4096);

			printf("%s%zd bytes\n", got > 0 ? "got " : "", got);
			fflush(stdout);
			close(fd);
		}
	}
	return 0;
}
END
# shellcheck disable=SC2086 # CC may hold options
${CC:-cc} -std=gnu11 -O1 -o stranger stranger.c >out 2>&1 || fail 'no stranger'

run -w --draft --target cpux2 --pin tp=2 --no-whole -o plan \
	"$examples/tiny-dense.llm" || exit
job=torchrun-$TORCHELASTIC_RUN_ID-29500
name=llmc-0-$job

# ranks: two, as torchrun starts them
ranks()
{
	pids='' worst=0
	for r in 1 0; do
		RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 \
			MASTER_PORT=29500 plan/rank bench --steps 1 \
			--timeout 120 >out.$r 2>err.$r &
		pids="$pids $!"
	done
	for pid in $pids; do
		wait "$pid" || worst=$?
	done
	[ $worst -eq 0 ] || bad "$1: $(cat err.0 err.1)"
}

# beside HOW TEXT NAME..: ranks that meet while another user has these names
beside()
{
	how=$1 text=$2
	shift 2
	./stranger 65534 "$how" 0 "$@" >seen 2>err &
	stranger=$!
	waits_for ready seen
	ranks "$how"
	kill $stranger
	wait $stranger
	! grep -q '^got' seen || bad "$how: another user was sent $(cat seen)"
	grep -q "$text" err.0 || bad "$how: not said: $text: $(cat err.0)"
}

beside take "process [0-9]* of user 65534 has the name by which" "$name"
beside keep "another process has the name by which" "$name"

# calls N: while another user calls the first rank again and again
calls()
{
	./stranger 65534 call "$1" "$name" >seen 2>err &
	stranger=$!
	ranks call
	kill $stranger 2>/dev/null
	wait $stranger
}
calls 20000

have attacks || exit $failed

# Any number of names that begin as the job's does.
names=$(seq 300 | while read -r i; do
	printf '%s-%016x\n' "$name" "$i"
done)
# shellcheck disable=SC2086 # words
beside take "process [0-9]* of user 65534 has the name by which" \
	"$name" $names
for _ in $(seq 20); do
	calls 1000000
done
exit $failed

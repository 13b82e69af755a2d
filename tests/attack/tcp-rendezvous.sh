#!/bin/sh
# A network that is not to be trusted: whoever can call rank 0 sends it
# garbage, parts of what ranks say, another version, or nothing, once and in
# floods; ranks come with another secret, none, or another plan. The job's own
# ranks meet all the same, and both sides say who was turned away.
. "${top_srcdir:?}/tests/lib.sh"
need binaries llvm linker compiler

cat >caller.c <<'END'
/* caller PORT HOW N: calls 127.0.0.1 N times, and sends noise, a hello that is
 * cut, a hello of another version, one byte a tenth of a second (slow), or
 * nothing (idle); idle and slow ones stay, and come again. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int dial(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_port = htons((uint16_t)port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (void *)&a, sizeof(a)) != 0) {
		close(fd);
		poll(NULL, 0, 5);
		return -1;
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

int main(int argc, char **argv)
{
	int port = atoi(argv[1]), n = argc > 3 ? atoi(argv[3]) : 1, i, round;
	int stay = !strcmp(argv[2], "idle") || !strcmp(argv[2], "slow");
	int slow = !strcmp(argv[2], "slow"), fds[1000];
	struct { uint64_t magic; int64_t version, rank; char rest[200]; } h = {
		0x31706374636d6c6cu, strcmp(argv[2], "version") ? 2 : 77, 1,
		"" };
	char noise[3000], byte;

	for (i = 0; i < n && !stay; i++) {
		int fd = dial(port), k;

		for (k = 0; k < (int)sizeof(noise); k++) {
			noise[k] = (char)rand();
		}
		if (fd >= 0 && !strcmp(argv[2], "noise")) {
			send(fd, noise, (size_t)(rand() % 3000), MSG_NOSIGNAL);
		} else if (fd >= 0) {
			send(fd, &h, (size_t)(24 + rand() % 200),
			     MSG_NOSIGNAL);
		}
		while (fd >= 0 && recv(fd, noise, sizeof(noise), 0) > 0) {
		}
		close(fd);
	}
	n = n < 1000 ? n : 1000;
	memset(fds, -1, sizeof(fds));
	for (round = 0; stay; round++) {
		for (i = 0; i < n; i++) {
			ssize_t got = 1;

			while (fds[i] >= 0 &&
			       (got = recv(fds[i], noise, 3000, 0)) > 0) {
			}
			if (fds[i] >= 0 && got == 0) {
				close(fds[i]);
				fds[i] = -1;
			}
			fds[i] = fds[i] < 0 ? dial(port) : fds[i];
			byte = ((char *)&h)[round % 24];
			if (slow && fds[i] >= 0) {
				send(fds[i], &byte, 1, MSG_NOSIGNAL);
			}
		}
		if (round == 0) {
			puts("ready");
			fflush(stdout);
		}
		poll(NULL, 0, 100);
	}
	return 0;
}
END
# shellcheck disable=SC2086 # CC may hold options
${CC:-cc} -std=gnu11 -O1 -o caller caller.c >out 2>&1 || fail 'no caller'

for plan in 'tensor tp=2' 'data dp=2'; do
	run -w --draft --target cpux2 --pin "${plan#* }" --no-whole \
		-o "${plan% *}" "$examples/tiny-dense.llm" || exit
done
port=$((10000 + $$ % 20000))
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$port

# rank NUMBER PLAN SECRET ARGUMENTS..
rank()
{
	r=$1 plan=$2 LLMC_SECRET=$3
	shift 3
	[ ! "$LLMC_SECRET" ] || export LLMC_SECRET
	RANK=$r WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
		exec "$plan/rank" bench --steps 1 "$@"
}
secret='what all ranks of this job know'

first_waits()
{
	(rank 0 tensor "$secret" --timeout 200) >out.0 2>err.0 &
	first=$!
	until ./caller $port noise 1 && grep -qi ":$(printf %04X $port) " \
		/proc/net/tcp; do
		sleep 0.1
	done
}

# they_meet WORDS: rank 1 comes, and both run
they_meet()
{
	(rank 1 tensor "$secret" --timeout 200) >out 2>err ||
		bad "$1: rank 1: $(cat err.0)"
	wait $first || bad "$1: rank 0: $(cat err.0)"
}

# said TEXT FILE
said()
{
	grep -qF -- "$1" "$2" || bad "not said: $1, but: $(cat "$2")"
}

# Once each: what is no rank of this job, and then the right one.
first_waits
for how in noise cut; do
	./caller $port $how 20
done
./caller $port version 3
(rank 1 tensor 'what nobody else here knows' --timeout 3) >out 2>err &&
	bad 'another secret is as good'
said "does not know this job's secret" err
(rank 1 tensor '' --timeout 3) >out 2>err && bad 'no secret is as good'
said "does not know this job's secret" err
(rank 1 data "$secret" --timeout 60) >out 2>err && bad 'another plan is as good'
said 'rank 1 runs another plan than rank 0' err
they_meet 'after all of these'
said "it does not know this job's secret" err.0
said 'found version 77 of how ranks meet, expected 2' err.0
said 'rank 1 runs another plan than rank 0' err.0

# beside HOW N: they meet while these connections stay
beside()
{
	first_waits
	./caller $port "$1" "$2" >calls &
	caller=$!
	waits_for ready calls
	they_meet "$1"
	kill $caller
	wait $caller
}
beside idle 400
beside slow 400

have attacks || exit $failed

for n in 64 300 1000; do
	for how in idle slow; do
		beside $how $n
	done
done
for how in noise cut version; do
	first_waits
	./caller $port $how 20000 &
	caller=$!
	they_meet "$how, many"
	kill $caller
	wait $caller
	[ "$(wc -c <err.0)" -le 20000 ] || bad "$how: the log is flooded"
done
exit $failed

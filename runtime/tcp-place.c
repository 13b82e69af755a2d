/*
 * tcp-place.c - a file in a folder that all hosts share, in which the first
 * rank says where it listens.
 */
#include "runtime/tcp-meet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * One line: a word, a version, the key and the port; then an address a line.
 */
enum rt_status
rt_tcp_place_write(const struct rt_tcp_meeting *m, int64_t port,
		   struct rt_error *err)
{
	struct rt_tcp_address all[RT_TCP_ADDRESSES];
	int64_t n = rt_tcp_own_addresses(all, RT_TCP_ADDRESSES), i;
	char path[sizeof(m->at.place) + 32];
	FILE *f;
	bool good;

	snprintf(path, sizeof(path), "%s.%ld", m->at.place, (long)getpid());
	f = fopen(path, "w");
	if (!f) {
		return rt_fail(err, RT_IO, (struct rt_where){ path, NULL, -1 },
			       "cannot be written (LLMC_RENDEZVOUS): %s",
			       strerror(errno));
	}
	fprintf(f, "llmc-rendezvous %d %llx %d\n", RT_TCP_VERSION,
		(unsigned long long)m->at.key, (int)port);
	for (i = 0; i < n; i++) {
		int k, bytes = all[i].family == 4 ? 4 : 16;

		fprintf(f, "%d ", (int)all[i].family);
		for (k = 0; k < bytes; k++) {
			fprintf(f, "%02x", all[i].bytes[k]);
		}
		putc('\n', f);
	}
	good = fflush(f) == 0 && fsync(fileno(f)) == 0;
	if (fclose(f) != 0 || !good || rename(path, m->at.place) != 0) {
		enum rt_status s = rt_fail(err, RT_IO, (struct rt_where){
			path, NULL, -1 }, "cannot be written: %s",
			strerror(errno));

		unlink(path);
		return s;
	}
	return RT_OK;
}

static bool
read_address(FILE *f, struct rt_tcp_address *a)
{
	unsigned family, byte, i;

	memset(a, 0, sizeof(*a));
	if (fscanf(f, "%u", &family) != 1 || (family != 4 && family != 6)) {
		return false;
	}
	a->family = (int32_t)family;
	for (i = 0; i < (family == 4 ? 4 : 16); i++) {
		if (fscanf(f, "%2x", &byte) != 1) {
			return false;
		}
		a->bytes[i] = (uint8_t)byte;
	}
	return true;
}

int64_t
rt_tcp_place_read(struct rt_tcp_meeting *m, struct rt_tcp_address *out)
{
	FILE *f = fopen(m->at.place, "r");
	unsigned long long key;
	int version, port;
	int64_t n = 0;

	if (!f) {
		return 0;
	}
	if (fscanf(f, "llmc-rendezvous %d %llx %d", &version, &key, &port) ==
		    3 &&
	    port > 0 && port < 65536) {
		m->at.key = key;
		while (n < RT_TCP_ADDRESSES && read_address(f, &out[n])) {
			out[n++].port = port;
		}
	}
	fclose(f);
	return n;
}

void
rt_tcp_place_remove(const struct rt_tcp_meeting *m)
{
	struct rt_tcp_meeting there;
	struct rt_tcp_address all[RT_TCP_ADDRESSES];

	if (!m->at.by_file) {
		return;
	}
	there.at = m->at;
	there.at.key = 0;
	if (rt_tcp_place_read(&there, all) > 0 && there.at.key == m->at.key) {
		unlink(m->at.place);
	}
}

/*
 * Files in memory, which ranks of a host share: messages that carry their
 * descriptors, and the pages that they are mapped to.
 */
#define _GNU_SOURCE	/* memfd_create */

#include "runtime/comm/shm_meet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HUGE_BYTES = 2 << 20 };

/* ---- messages with file descriptors ---- */

int
rt_shm_left_ms(double until_us)
{
	double left = (until_us - rt_now_us()) * 1e-3;

	return left < 0 ? 0 : left > 1e9 ? 1000000000 : (int)left + 1;
}

bool
rt_shm_can_read(int fd, double until_us)
{
	struct pollfd p = { fd, POLLIN, 0 };
	int n;

	do {
		n = poll(&p, 1, rt_shm_left_ms(until_us));
	} while (n < 0 && errno == EINTR);
	return n > 0;
}

bool
rt_shm_send(int sock, const void *at, size_t bytes, const int *fds, int nfds)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * (RT_SHM_MOST + 1))];
		struct cmsghdr align;
	} area;
	struct iovec v = { (void *)(uintptr_t)at, bytes };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (nfds > 0) {
		struct cmsghdr *h;

		memset(&area, 0, sizeof(area));
		m.msg_control = area.bytes;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nfds);
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
		memcpy(CMSG_DATA(h), fds, sizeof(int) * (size_t)nfds);
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL) == (ssize_t)bytes;
}

ssize_t
rt_shm_read(int sock, double until_us, void *at, size_t bytes, int *fds,
	    int most, int *nfds)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * (RT_SHM_MOST + 1))];
		struct cmsghdr align;
	} area;
	struct iovec v = { at, bytes };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1,
		.msg_control = area.bytes, .msg_controllen = sizeof(area) };
	struct cmsghdr *h;
	ssize_t n;
	int i;

	*nfds = 0;
	if (!rt_shm_can_read(sock, until_us)) {
		return -1;
	}
	n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	if (n < 0) {
		return -1;
	}
	for (h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
		int got[RT_SHM_MOST + 1], ngot;

		if (h->cmsg_type != SCM_RIGHTS) {
			continue;
		}
		ngot = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(got, CMSG_DATA(h), sizeof(int) * (size_t)ngot);
		for (i = 0; i < ngot; i++) {
			if (*nfds < most) {
				fds[(*nfds)++] = got[i];
			} else {
				close(got[i]);
			}
		}
	}
	if (m.msg_flags & MSG_TRUNC) {
		n = -1;	/* longer than any valid message */
	}
	if (m.msg_flags & MSG_CTRUNC) {
		for (i = 0; i < *nfds; i++) {
			close(fds[i]);
			fds[i] = -1;
		}
		*nfds = -1;
	}
	return n;
}

/* ---- files ---- */

int
rt_shm_new_file(const char *name, int64_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, bytes) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * Maps a file at the start of a huge page, so that all processes can map it by
 * huge pages: address and file offset must both be aligned.  The address is
 * chosen inside a larger reservation.
 */
void *
rt_shm_map_file(int fd, int64_t bytes, int how)
{
	size_t n = bytes ? (size_t)bytes : 1, front;
	char *area = mmap(NULL, n + HUGE_BYTES, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	void *p;

	if (area == MAP_FAILED) {
		return NULL;
	}
	front = (HUGE_BYTES - (uintptr_t)area % HUGE_BYTES) % HUGE_BYTES;
	p = mmap(area + front, n, how, MAP_SHARED | MAP_FIXED, fd, 0);
	if (p == MAP_FAILED) {
		munmap(area, n + HUGE_BYTES);
		return NULL;
	}
	if (front > 0) {
		munmap(area, front);
	}
	n = (n + 4095) / 4096 * 4096;
	munmap(area + front + n, HUGE_BYTES - front);
	madvise(p, n, MADV_HUGEPAGE);
	return p;
}

int
rt_shm_open_again(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

bool
rt_shm_holds(int fd, int64_t bytes)
{
	struct stat st;

	return bytes >= 0 && fstat(fd, &st) == 0 && st.st_size >= bytes;
}

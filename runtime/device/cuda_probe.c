/*
 * Which GPUs this host has, before any rank is started.  The driver does not
 * survive a fork, so a child process of its own queries it.
 */
#define _GNU_SOURCE	/* pipe2 */

#include "runtime/device/cuda_device.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/device/this_machine.h"

static enum rt_status
look(const struct rt_plan *p, int64_t n, const char *libcuda,
     struct rt_error *err)
{
	struct rt_gpu_facts f = { .count = 1 };
	struct rt_gpu_api api;
	enum rt_status status = rt_gpu_load(&api, libcuda, err);
	int64_t i;

	for (i = 0; status == RT_OK && i < n && i < f.count; i++) {
		status = rt_gpu_query(&api, i, &f, err);
		if (status == RT_OK) {
			status = rt_gpu_fits(p, &f, err);
		}
	}
	return status;
}

/* Reads all bytes; false: the pipe ended early. */
static bool
read_all(int fd, void *to, size_t bytes)
{
	ssize_t n;

	while (bytes > 0) {
		n = read(fd, to, bytes);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return false;
		}
		to = (char *)to + n;
		bytes -= (size_t)n;
	}
	return true;
}

static void
ask(int fd, const struct rt_plan *p, int64_t n, const char *libcuda)
{
	struct rt_error err = { .status = RT_OK };
	ssize_t sent;

	err.status = look(p, n, libcuda, &err);
	sent = write(fd, &err, sizeof err);
	_exit(sent == (ssize_t)sizeof err ? 0 : 1);
}

enum rt_status
rt_gpu_probe(const struct rt_plan *p, int64_t n, const char *libcuda,
	     struct rt_error *err)
{
	struct rt_error said;
	bool whole;
	int fds[2], status;
	pid_t child;

	if (pipe2(fds, O_CLOEXEC) != 0) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "no pipe: %s",
			       strerror(errno));
	}
	child = fork();
	if (child == 0) {
		close(fds[0]);
		ask(fds[1], p, n, libcuda);
	}
	close(fds[1]);
	whole = child > 0 && read_all(fds[0], &said, sizeof said);
	close(fds[0]);
	while (child > 0 && waitpid(child, &status, 0) < 0 &&
	       errno == EINTR) {
	}
	if (!whole) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "NVIDIA's driver ended "
			       "the process that asked it; " RT_GPU_ELSE);
	}
	if (said.status != RT_OK) {
		*err = said;
	}
	return said.status;
}

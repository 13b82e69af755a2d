/*
 * Private to comm/shm_*.c: how the ranks of a host find each other, and the
 * messages of that.
 *
 * Any process may create or call a socket of any name.  So each end asks the
 * kernel for the user of the other one before it sends or trusts anything.
 */
#ifndef RT_SHM_MEET_H
#define RT_SHM_MEET_H

#include "runtime/comm/shm.h"

#include <sys/types.h>

#define RT_SHM_MAGIC 0x6c6c6d632d686921u

/* The kernel passes at most 253 file descriptors in one message. */
enum { RT_SHM_MOST = 240 };

/* Sent by a rank, with the descriptor of its arena. */
struct rt_shm_hello {
	uint64_t magic, plan;
	int64_t abi, rank, size, local_rank, local_size, arena_bytes;
};

/* Its answer, with the descriptors of the segment and of all arenas; or the
 * reason why not. */
struct rt_shm_answer {
	int64_t ok;
	int64_t ranks[RT_SHM_MOST], arena_bytes[RT_SHM_MOST];
	char why[RT_ERROR_BYTES];
};

/* ---- names of sockets (shm_name.c) ------------------------------------ */

/* A process of another user that has our name. */
struct rt_shm_stranger {
	/* known: it listens, so the kernel knows its process */
	bool met, known;
	pid_t pid;
	uid_t uid;
};

/* "process 12 of user 1000", by value, for messages. */
struct rt_shm_stranger_text {
	char text[64];
};
struct rt_shm_stranger_text
rt_shm_stranger_text(const struct rt_shm_stranger *s);

/*
 * Listens where this host's other ranks look for the first one. If another user
 * has the job's name already, *other describes it, and the socket gets a random
 * name. -1: err says why.
 */
int rt_shm_listen(const struct rt_comm *c, struct rt_shm_stranger *other,
		  struct rt_error *err);
/*
 * Connects to the first rank, of this very user; -1 and errno if it does not
 * listen yet. `all`: tries all names that begin with the job's, not only that
 * one.
 */
int rt_shm_call(const struct rt_comm *c, bool all,
		struct rt_shm_stranger *other);
/* Whether the other end of this connection is a process of this user. */
bool rt_shm_is_ours(int fd, struct rt_shm_stranger *other);

/* ---- files that ranks share (shm_files.c) ----------------------------- */

int rt_shm_left_ms(double until_us);
bool rt_shm_can_read(int fd, double until_us);
bool rt_shm_send(int sock, const void *at, size_t bytes, const int *fds,
		 int nfds);
/*
 * Receives a message's bytes and at most `most` file descriptors; -1: none
 * came.  If this process may open no more files, the descriptors of a message
 * are lost: *nfds is -1.
 */
ssize_t rt_shm_read(int sock, double until_us, void *at, size_t bytes,
		    int *fds, int most, int *nfds);
/* -1 and errno. */
int rt_shm_new_file(const char *name, int64_t bytes);
/* NULL and errno; `how` is as for mmap. */
void *rt_shm_map_file(int fd, int64_t bytes, int how);
/* Opens the file anew, as locks belong to an open file description. */
int rt_shm_open_again(int fd);
/* Whether the file is that long: reading beyond its end would raise SIGBUS. */
bool rt_shm_holds(int fd, int64_t bytes);

#endif

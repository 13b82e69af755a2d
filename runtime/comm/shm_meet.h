/*
 * shm_meet.h - private to shm-*.c: how the ranks of a host find each other,
 * and what they say then.
 *
 * Names of sockets are for anybody to take and to call.  So each end asks the
 * kernel for the user of the other one before it sends or believes anything.
 */
#ifndef RT_SHM_MEET_H
#define RT_SHM_MEET_H

#include "runtime/comm/shm.h"

#include <sys/types.h>

#define RT_SHM_MAGIC 0x6c6c6d632d686921u

/* The kernel passes 253 files at once. */
enum { RT_SHM_MOST = 240 };

/* What a rank brings, with its arena's file. */
struct rt_shm_hello {
	uint64_t magic, plan;
	int64_t abi, rank, size, local_rank, local_size, arena_bytes;
};

/* What it gets, with the files of the hall and of all arenas; or why not. */
struct rt_shm_answer {
	int64_t ok;
	int64_t ranks[RT_SHM_MOST], arena_bytes[RT_SHM_MOST];
	char why[RT_ERROR_BYTES];
};

/* ---- names of sockets (shm_name.c) ------------------------------------ */

/* Another user's process that has a name of ours. */
struct rt_shm_stranger {
	bool met, known;	/* known: it listens, so the kernel says who */
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
 * Where this host's other ranks find the first one.  If another user has the
 * name of the job already, *other is whose it is, and the socket gets a name
 * that nobody can know beforehand.  -1: err says why.
 */
int rt_shm_listen(const struct rt_comm *c, struct rt_shm_stranger *other,
		  struct rt_error *err);
/*
 * A connection to the first rank, of this very user; -1 and errno if it has
 * not come.  `all`: not only at the job's name, but at all that begin so.
 */
int rt_shm_call(const struct rt_comm *c, bool all,
		struct rt_shm_stranger *other);
/* Is the other end of this connection a process of this user? */
bool rt_shm_is_ours(int fd, struct rt_shm_stranger *other);

#endif

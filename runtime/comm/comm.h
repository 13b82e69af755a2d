/*
 * Communication between the ranks of a plan, for the rest of runtime/. comm.c
 * checks a collective and hands it to a transport: shared memory between
 * processes of one host (shm.c), messages by MPI or TCP between hosts
 * (msg_collective.c). Nothing here depends on a GPU: device/ calls this where
 * NCCL has no call of its own.
 *
 * Each section is named for the .c files that define it.
 */
#ifndef RT_COMM_H
#define RT_COMM_H

#include <signal.h>
#include <stdbool.h>

#include "runtime/abi.h"
#include "runtime/elems.h"
#include "runtime/rt.h"

/* ---- which rank this is (world.c) ----------------------------------- */

struct rt_said;

struct rt_world {
	int64_t rank, size;
	int64_t local_rank, local_size;	/* on this host */
	const char *how;	/* "torchrun", "Open MPI", "local", "alone" */
	char job[64];		/* the same on all ranks, no other job's */
	/* a pipe that yields a struct rt_news when a rank ends too early; 0:
	 * none */
	int news;
	/* what a rank of this host said first; NULL: they share none */
	struct rt_said *said;
};

/* Sent by the process that started the ranks. */
struct rt_news {
	int64_t rank;		/* the rank that has failed */
	int64_t signal;		/* 0: it exited by itself */
};

/*
 * Reads the environment by the caller's getenv: torchrun's variables, then Open
 * MPI's, PMIx's, Slurm's; if none of them is set, this process is rank 0 of 1.
 * Variables that contradict each other are RT_FORMAT.
 */
enum rt_status rt_world_find(struct rt_world *w,
			     const char *(*get)(void *user, const char *name),
			     void *user, struct rt_error *err);

/* ---- where ranks of several hosts meet (rendezvous.c) ----------------- */

/* How the environment is read; get may be NULL: no variable is set. */
struct rt_variables {
	const char *(*get)(void *user, const char *name);
	void *user;
};

/* Where the first rank listens. */
struct rt_rendezvous {
	const char *from;	/* the variable that names the place */
	/* `place` is the path of a file that holds the addresses */
	bool by_file;
	char place[256];	/* the path, or the name of a host */
	/* the first rank listens at the first of these ports that is free */
	int64_t port, nports;
	uint64_t key;		/* the same on all ranks, no other job's */
	uint8_t token[32]; /* by file: a secret that only its readers know */
};

/*
 * Reads LLMC_RENDEZVOUS, or torchrun's MASTER_ADDR and MASTER_PORT, or the
 * first host of Slurm's list and a port derived from the job's number.  An
 * invalid value is RT_FORMAT; RT_RANGE if none of them is set.
 */
enum rt_status rt_rendezvous_find(struct rt_rendezvous *r,
				  const struct rt_variables *v,
				  struct rt_error *err);
/* Whether LLMC_RENDEZVOUS is set. */
bool rt_rendezvous_given(const struct rt_variables *v);

/* ---- starting all ranks on this host (train/local.c) ----------------- */

/*
 * Forks a process for each rank and waits for them. In a child it returns RT_OK
 * with *child set and *w filled in; in the parent, once all have ended, with
 * *status to exit with: that of the first that failed, or of the first that a
 * signal killed, which is RT_IO with err. The other ranks learn who died while
 * they communicate; those that are left `grace_s` later are killed.  Signals
 * that end a process are passed on to the ranks.
 */
enum rt_status rt_local_start(int64_t n, double grace_s, struct rt_world *w,
			      bool *child, int *status, struct rt_error *err);

/*
 * Whether nobody among the ranks that rt_local_start() started has said this
 * yet. What all ranks find, or learn from one that gave up, is printed once.
 */
bool rt_local_is_news(const struct rt_world *w, const char *message);

/* ---- collectives (comm.c, shm.c, msg_collective.c), and queues (queue.c,
 * msg_queue.c) ------------------------------------------------------------ */

struct rt_comm;

/* The transport.  AUTO: MPI or TCP if ranks are on several hosts, else shared
 * memory. */
enum rt_via { RT_VIA_AUTO, RT_VIA_SHM, RT_VIA_MPI, RT_VIA_TCP };

/*
 * Queues of messages between rank 0 and each other rank, `down` from rank 0 and
 * `up` to it: a message has at most so many bytes, and `depth` of them wait at
 * most.  0: there are none.
 */
struct rt_queues {
	int64_t depth, down_bytes, up_bytes;
};

/* Memory of the host for one of them, at most. */
int64_t rt_queue_bytes(const struct rt_queues *q, bool up);

struct rt_comm_options {
	const struct rt_plan *plan;
	struct rt_queues queues;
	struct rt_world world;
	double timeout_s; /* of one collective, until the watchdog reports */
	/* receives a report when a collective fails or hangs: for each rank
	 * what it does and since when */
	int report_fd;
	enum rt_via via;
	struct rt_variables variables;	/* for the meeting by TCP */
	/* not 0 once this process has been asked to end; or NULL */
	const volatile sig_atomic_t *end_asked;
};

/*
 * Connects to the other ranks, maps an arena of `arena_bytes` zeros, and makes
 * the plan's groups in their order.  All ranks must call it; an error names
 * those that did not.  A rank that runs another plan is refused.
 */
enum rt_status rt_comm_open(struct rt_comm **out,
			    const struct rt_comm_options *o,
			    int64_t arena_bytes, struct rt_error *err);
void rt_comm_free(struct rt_comm *c);
char *rt_comm_arena(struct rt_comm *c);

/*
 * Runs a collective of the plan in this microbatch, and those joined to it;
 * at[2 i] and at[2 i + 1], in and out of the i-th, lie in the arena. Sums are
 * added in the order of ranks, in f32 or wider, so that all ranks of a group
 * get the same bits, joined or not. On failure err names the rank, its group,
 * the collective, the layer, and the rank that it waited for.
 */
enum rt_status rt_comm_join(struct rt_comm *c, const struct rt_coll *t,
			    int64_t microbatch, char *const *at, int64_t layer,
			    struct rt_error *err);
/* The same for a collective without its joined ones. */
enum rt_status rt_comm_coll(struct rt_comm *c, const struct rt_coll *t,
			    int64_t microbatch, char *in, char *out,
			    int64_t layer, struct rt_error *err);

/* Sums and maxima of a few numbers of the host, over ranks that differ on the
 * axes only. */
enum rt_status rt_comm_sum_f64(struct rt_comm *c, int64_t axes, double *at,
			       int64_t n, struct rt_error *err);
/* Over all ranks; the sum wraps around. */
enum rt_status rt_comm_sum_u64(struct rt_comm *c, uint64_t *at, int64_t n,
			       struct rt_error *err);
enum rt_status rt_comm_max_i64(struct rt_comm *c, int64_t *at, int64_t n,
			       struct rt_error *err);
/* Copies the bytes of rank `from` to all ranks. */
enum rt_status rt_comm_spread(struct rt_comm *c, int64_t from, void *at,
			      int64_t bytes, struct rt_error *err);
enum rt_status rt_comm_barrier(struct rt_comm *c, const char *what,
			       struct rt_error *err);
/*
 * A message to another rank; rank 0 or that one is 0.  It waits for a place in
 * the queue alone, and the bytes are the caller's again.  `what` names it.
 */
enum rt_status rt_comm_send_queued(struct rt_comm *c, const char *what,
				   int64_t rank, const void *at, int64_t bytes,
				   struct rt_error *err);
/* Waits for the next message of that rank, of at most so many bytes; *bytes is
 * how many it has. */
enum rt_status rt_comm_receive_queued(struct rt_comm *c, const char *what,
				      int64_t rank, void *at, int64_t most,
				      int64_t *bytes, struct rt_error *err);
/* Waits until the other stages have received all that this rank has sent along
 * the pipeline. */
enum rt_status rt_comm_settle(struct rt_comm *c, const char *what,
			      struct rt_error *err);
/*
 * Records what this rank begins to do (a kernel's name, say), for the reports
 * of ranks that wait for it.  Collectives record themselves.  Costs some ten
 * nanoseconds.
 */
void rt_comm_note(struct rt_comm *c, const char *what, int64_t layer,
		  int64_t microbatch);
/* Makes the collectives of all other ranks fail soon, with this reason, which
 * this rank has printed. */
void rt_comm_abort(struct rt_comm *c, const char *why);
/*
 * Whether nobody has printed why this rank fails where it would be printed: on
 * this host, or for the other ranks of this host by the first of them.  What
 * all ranks find is printed by rank 0, for which others wait a moment; what one
 * has learned from a rank that gave up was printed by that one before.
 */
bool rt_comm_is_news(struct rt_comm *c, const char *message);

/* ---- ranks and axes (mesh.c) ----------------------------------------- */

/* A rank's coordinates by axis; 0 on time. */
void rt_mesh_at(const struct rt_plan *p, int64_t rank,
		int64_t at[RT_MAX_AXES + 1]);
int64_t rt_mesh_number(const struct rt_plan *p,
		       const int64_t at[RT_MAX_AXES + 1]);
/* Writes "rank 3 (dp=0 tp=1)". */
void rt_mesh_text(const struct rt_plan *p, int64_t rank, char *out,
		  size_t size);
/* The pieces of a dim on a rank in a microbatch. */
const struct rt_pieces *rt_pieces_of(const struct rt_plan *p,
				     const struct rt_spread *s, int64_t rank,
				     int64_t microbatch);

#endif

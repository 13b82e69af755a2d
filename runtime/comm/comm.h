/*
 * comm.h - ranks and how they reach each other.  Behind a small table of
 * functions stand transports: shared memory between processes of one host, and
 * MPI or TCP between hosts.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef RT_COMM_H
#define RT_COMM_H

#include <signal.h>
#include <stdbool.h>

#include "runtime/abi.h"
#include "runtime/elems.h"
#include "runtime/rt.h"

/* ---- which rank this is (world.c) ----------------------------------- */

struct rt_world {
	int64_t rank, size;
	int64_t local_rank, local_size;	/* on this host */
	const char *how;	/* "torchrun", "Open MPI", "local", "alone" */
	char job[64];		/* the same on all ranks, no other job's */
	/* a pipe: a struct rt_news if a rank ends too early; 0: none */
	int news;
};

/* From the one who started the ranks. */
struct rt_news {
	int64_t rank;		/* that has failed */
	int64_t signal;		/* 0: by itself */
};

/*
 * Reads the environment by the caller's getenv: torchrun's variables, then
 * Open MPI's, PMIx's, Slurm's; without any it is alone, rank 0 of 1.
 * Variables that contradict each other are RT_FORMAT.
 */
enum rt_status rt_world_find(struct rt_world *w,
			     const char *(*get)(void *user, const char *name),
			     void *user, struct rt_error *err);

/* ---- where ranks of several hosts meet (rendezvous.c) ----------------- */

/* Who reads the environment; get may be NULL: it says nothing. */
struct rt_variables {
	const char *(*get)(void *user, const char *name);
	void *user;
};

/* The first rank listens there. */
struct rt_rendezvous {
	const char *from;	/* the variable that says so */
	bool by_file;		/* `place` is a file that says where */
	char place[256];	/* or a host */
	int64_t port, nports;	/* the first of them that is free */
	uint64_t key;		/* the same on all ranks, no other job's */
	uint8_t token[32];	/* by file: what only its readers know */
};

/*
 * LLMC_RENDEZVOUS, or torchrun's MASTER_ADDR and MASTER_PORT, or the first
 * host of Slurm's list and a port made of the job's number.  What makes no
 * sense is RT_FORMAT, none of them RT_RANGE.
 */
enum rt_status rt_rendezvous_find(struct rt_rendezvous *r,
				  const struct rt_variables *v,
				  struct rt_error *err);
/* Is LLMC_RENDEZVOUS set? */
bool rt_rendezvous_given(const struct rt_variables *v);

/* ---- starting all ranks on this host (local.c) ----------------------- */

/*
 * Forks a process for each rank and waits for them.  In a child it returns
 * RT_OK with *child set and *w filled; in the parent, once all have ended,
 * with *status to exit with: that of the first that failed, or of the first
 * that a signal killed, which is RT_IO with err.  The others see who died while
 * they talk; what is left `grace_s` later is killed.  Signals that ask to end
 * are passed on.
 */
enum rt_status rt_local_start(int64_t n, double grace_s, struct rt_world *w,
			      bool *child, int *status, struct rt_error *err);

/* ---- talking (comm.c, shm.c, msg_collective.c) -------------------------- */

struct rt_comm;

/* By what ranks talk; AUTO: MPI or TCP if they are on several hosts. */
enum rt_via { RT_VIA_AUTO, RT_VIA_SHM, RT_VIA_MPI, RT_VIA_TCP };

struct rt_comm_options {
	const struct rt_plan *plan;
	struct rt_world world;
	double timeout_s;	/* of a talk, until the watchdog speaks */
	/* written when a talk fails or hangs: which rank, what, since when */
	int report_fd;
	enum rt_via via;
	struct rt_variables variables;	/* where to meet by TCP */
	/* not 0 once this process is told to end; or NULL */
	const volatile sig_atomic_t *told;
};

/*
 * Meets the other ranks, maps an arena of `arena_bytes` that starts as zeros,
 * and makes the plan's groups in their order.  All ranks must come; who does
 * not is named.  A rank that runs another plan is refused.
 */
enum rt_status rt_comm_open(struct rt_comm **out,
			    const struct rt_comm_options *o,
			    int64_t arena_bytes, struct rt_error *err);
void rt_comm_free(struct rt_comm *c);
char *rt_comm_arena(struct rt_comm *c);

/*
 * A talk of the plan in this microbatch, and those joined to it; at[2 i] and
 * at[2 i + 1], in and out of the i-th, lie in the arena.  Sums are added in
 * the order of ranks, in f32 or wider, so that all ranks of a group have the
 * same bits, joined or not.  On failure err says which rank of which group,
 * in which talk, in which layer, and for whom it waited.
 */
enum rt_status rt_comm_join(struct rt_comm *c, const struct rt_coll *t,
			    int64_t microbatch, char *const *at, int64_t trip,
			    struct rt_error *err);
/* One that is alone. */
enum rt_status rt_comm_coll(struct rt_comm *c, const struct rt_coll *t,
			    int64_t microbatch, char *in, char *out,
			    int64_t trip, struct rt_error *err);

/* Numbers of the host's own business, over ranks that differ on the axes. */
enum rt_status rt_comm_sum_f64(struct rt_comm *c, int64_t axes, double *at,
			       int64_t n, struct rt_error *err);
/* Over all ranks; the sum wraps. */
enum rt_status rt_comm_sum_u64(struct rt_comm *c, uint64_t *at, int64_t n,
			       struct rt_error *err);
enum rt_status rt_comm_max_i64(struct rt_comm *c, int64_t *at, int64_t n,
			       struct rt_error *err);
/* Bytes as rank `from` has them, to all ranks. */
enum rt_status rt_comm_spread(struct rt_comm *c, int64_t from, void *at,
			      int64_t bytes, struct rt_error *err);
enum rt_status rt_comm_barrier(struct rt_comm *c, const char *what,
			       struct rt_error *err);
/*
 * What this rank begins to do, for those who wait for it: a kernel's name,
 * say.  Talks note themselves.  Costs some ten nanoseconds.
 */
void rt_comm_note(struct rt_comm *c, const char *what, int64_t trip,
		  int64_t microbatch);
/* Tells all others that this rank gives up, and why; they fail soon. */
void rt_comm_abort(struct rt_comm *c, const char *why);

/* ---- ranks and axes (mesh.c) ----------------------------------------- */

/* Coordinates by axis; 0 on time. */
void rt_mesh_at(const struct rt_plan *p, int64_t rank,
		int64_t at[RT_MAX_AXES + 1]);
int64_t rt_mesh_number(const struct rt_plan *p,
		       const int64_t at[RT_MAX_AXES + 1]);
/* "rank 3 (dp=0 tp=1)" */
void rt_mesh_text(const struct rt_plan *p, int64_t rank, char *out,
		  size_t room);
/* The pieces of a dim on a rank in a microbatch. */
const struct rt_pieces *rt_pieces_of(const struct rt_plan *p,
				     const struct rt_spread *s, int64_t rank,
				     int64_t microbatch);

#endif

/*
 * device.h - private to runtime/: where a rank's arena lies, and what runs its
 * kernels: the threads of this host, an emulated GPU, or a GPU.
 *
 * Programs only add offsets to `arena`.  What the host itself reads and writes
 * goes through the functions below, which cost nothing where it can reach the
 * arena: `host` is it then, and NULL where it cannot.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef RT_DEVICE_H
#define RT_DEVICE_H

#include "runtime/comm/comm.h"
#include "runtime/error.h"
#include "runtime/device/pool.h"

struct rt_device;

/* Of a launch or a talk: for messages. */
struct rt_place {
	int64_t trip, microbatch;	/* -1: of none */
};

struct rt_device_kind {
	const char *name;
	/* A part of a kernel that is no talk; c->shared is set. */
	enum rt_status (*step)(struct rt_device *d, const struct rt_kernel *k,
			       const struct rt_step *s,
			       const struct rt_call *c,
			       const struct rt_place *at,
			       struct rt_error *err);
	/* NULL: rt_comm_join can do it; `at` as there. */
	enum rt_status (*coll)(struct rt_device *d, const struct rt_coll *t,
			       char *const *at, const struct rt_place *place,
			       struct rt_error *err);
	/* Offsets into the arena; all that was begun before has ended. */
	enum rt_status (*read)(struct rt_device *d, int64_t offset, void *to,
			       int64_t bytes, struct rt_error *err);
	enum rt_status (*write)(struct rt_device *d, int64_t offset,
				const void *from, int64_t bytes,
				struct rt_error *err);
	enum rt_status (*zero)(struct rt_device *d, int64_t offset,
			       int64_t bytes, struct rt_error *err);
	/* The members below may be NULL. */
	/* The pieces that calls will point to. */
	enum rt_status (*pieces)(struct rt_device *d,
				 const struct rt_pieces *const *pieces,
				 int64_t n, struct rt_error *err);
	/* Of the optimizer: what rt_call.live says from here on. */
	enum rt_status (*set_step)(struct rt_device *d, int64_t step,
				   struct rt_error *err);
	/*
	 * Around all that a step calls.  *done: the device has done it, as it
	 * had seen it before; `update`: with the update.
	 */
	enum rt_status (*begin)(struct rt_device *d, bool update, bool *done,
				struct rt_error *err);
	enum rt_status (*end)(struct rt_device *d, struct rt_error *err);
	/* What was begun has ended. */
	enum rt_status (*wait)(struct rt_device *d, struct rt_error *err);
	/* Milliseconds of the last call of step(), which then has ended. */
	enum rt_status (*last_ms)(struct rt_device *d, double *ms,
				  struct rt_error *err);
	void (*close)(struct rt_device *d);
};

/* What runs kernels; AUTO: what they were compiled for. */
enum rt_on { RT_ON_AUTO, RT_ON_CPU, RT_ON_EMULATE, RT_ON_CUDA };

/* When an emulated kernel is checked: all that it touches, for races too. */
enum rt_check { RT_CHECK_FIRST, RT_CHECK_NEVER, RT_CHECK_ALWAYS };

struct rt_device_options {
	bool no_graph;		/* calls of a step are not kept as one */
	double timeout_s;	/* until what does not end is given up */
	enum rt_check check;
	const char *libcuda, *libnccl;	/* files; NULL: the usual ones */
};

struct rt_device {
	const struct rt_device_kind *kind;
	enum rt_on on;
	const struct rt_device_options *options;
	const struct rt_plan *plan;
	const struct rt_program *program;
	struct rt_comm *comm;
	struct rt_workers *workers;	/* of the host */
	char *arena, *host;
	int64_t live[1];	/* rt_call.live, if that is the host's */
	/* of a device's own memory, beside the arena; -1: it is the host's */
	int64_t free_bytes;
	bool timed;		/* last_ms will be asked for */
	const char *remark;	/* what whoever runs it should know, or NULL */
	bool failed;		/* others may not come to say goodbye */
	void *self;
};

/* ---- device.c ----------------------------------------------------------- */

/* Threads of this host; cannot fail. */
void rt_device_cpu(struct rt_device *d, const struct rt_plan *plan,
		   int64_t rank, struct rt_comm *comm,
		   struct rt_workers *workers);
/* Those of a device whose arena the host reaches. */
enum rt_status rt_host_read(struct rt_device *d, int64_t offset, void *to,
			    int64_t bytes, struct rt_error *err);
enum rt_status rt_host_write(struct rt_device *d, int64_t offset,
			     const void *from, int64_t bytes,
			     struct rt_error *err);
enum rt_status rt_host_zero(struct rt_device *d, int64_t offset,
			    int64_t bytes, struct rt_error *err);
/* What was opened; all zeros, too. */
void rt_device_close(struct rt_device *d);

/* Bytes of the arena: where they lie, or a copy in `room`. */
enum rt_status rt_device_view(struct rt_device *d, int64_t offset,
			      int64_t bytes, void *room, const char **at,
			      struct rt_error *err);
/* A number in the arena, the i-th from an offset on. */
enum rt_status rt_device_number(struct rt_device *d, int64_t offset,
				int64_t elem, int64_t i, double *out,
				struct rt_error *err);

/* ---- device_open.c ----------------------------------------------------- */

/*
 * The word of --device for this plan; RT_RANGE: its kernels do not run there,
 * and err says where they do.
 */
enum rt_status rt_device_choose(const struct rt_plan *plan, const char *word,
				enum rt_on *on, struct rt_error *err);
/* `options` outlives it. */
enum rt_status rt_device_open(struct rt_device *d, enum rt_on on,
			      const struct rt_plan *plan, int64_t rank,
			      struct rt_comm *comm, struct rt_workers *workers,
			      const struct rt_device_options *options,
			      struct rt_error *err);

/* ---- device_window.c --------------------------------------------------- */

/*
 * A stretch of the arena that moves on, to be read or to be written.  `room`
 * is there only where the host cannot reach the arena.
 */
struct rt_window {
	struct rt_device *device;	/* NULL: `arena` is the host's */
	char *arena, *room;
	int64_t from, to;		/* what is in the room */
	bool written;
};

enum rt_status rt_window_open(struct rt_window *w, struct rt_device *d,
			      char *arena, struct rt_error *err);
/* Bytes that one call may ask for. */
int64_t rt_window_most(const struct rt_window *w);
/* Up to `ahead` bytes behind will be asked for next. */
enum rt_status rt_window_read(struct rt_window *w, int64_t offset,
			      int64_t bytes, int64_t ahead, char **at,
			      struct rt_error *err);
/* All of them will be written before the next call. */
enum rt_status rt_window_write(struct rt_window *w, int64_t offset,
			       int64_t bytes, char **at,
			       struct rt_error *err);
/* With the status of what was done; NULL in it: nothing is open. */
enum rt_status rt_window_close(struct rt_window *w, enum rt_status status,
			       struct rt_error *err);

/* ---- grid.c: what a function of a GPU is called with --------------------- */

/* Where maps begin, and bytes of all of it. */
int64_t rt_args_maps(const struct rt_kernel *k);
int64_t rt_args_bytes(const struct rt_kernel *k, const struct rt_grid *g);
/* All words but the maps; RT_RANGE: more than a function can take. */
enum rt_status rt_args_words(const struct rt_kernel *k,
			     const struct rt_grid *g, const struct rt_call *c,
			     void *out, struct rt_error *err);
/* ", layer 3, microbatch 1", or less. */
struct rt_shown rt_place_text(const struct rt_place *at);

/* ---- comm_scratch.c: where a GPU packs what it sends and gets ----------- */

struct rt_group;

/* Bytes that this rank needs for a talk of a group. */
enum rt_status rt_coll_scratch(const struct rt_plan *p, const struct rt_coll *t,
			    const struct rt_group *g, int64_t microbatch,
			    int64_t *out, struct rt_error *err);
/* RT_FORMAT: the program has less. */
enum rt_status rt_coll_fits(const struct rt_device *d,
			    const struct rt_coll *t, int64_t microbatch,
			    struct rt_error *err);

/* ---- device_emulate.c --------------------------------------------------- */

/* A GPU that is not there: slow, and exact about what it does. */
enum rt_status rt_device_emulate(struct rt_device *d, struct rt_error *err);

/* ---- cuda.c ------------------------------------------------------------- */

/* The GPU that this rank has; see docs/gpu.md. */
enum rt_status rt_device_cuda(struct rt_device *d, struct rt_error *err);

#endif

/*
 * Private to runtime/: where a rank's arena is, and what runs its kernels: the
 * threads of this host, an emulated GPU, or a GPU. train/ drives a device;
 * comm/ runs its collectives where they go through the host.
 *
 * Programs only add offsets to `arena`. Where the host can address it, `host`
 * is the same pointer, else NULL; the functions below read and write it in both
 * cases.
 *
 * Each section is named for the .c file that defines it.
 */
#ifndef RT_DEVICE_H
#define RT_DEVICE_H

#include "runtime/comm/comm.h"
#include "runtime/error.h"
#include "runtime/device/pool.h"

struct rt_device;

/* Where a launch or collective is in the program: for messages. */
struct rt_place {
	int64_t layer, microbatch;	/* -1: of none */
};

struct rt_device_kind {
	const char *name;
	/* Runs a step of a kernel that is no collective; c->shared is set. */
	enum rt_status (*step)(struct rt_device *d, const struct rt_kernel *k,
			       const struct rt_step *s,
			       const struct rt_call *c,
			       const struct rt_place *at,
			       struct rt_error *err);
	/* NULL: rt_comm_join runs it; `at` as there. */
	enum rt_status (*coll)(struct rt_device *d, const struct rt_coll *t,
			       char *const *at, const struct rt_place *place,
			       struct rt_error *err);
	/* At an offset into the arena; all work begun before has ended. */
	enum rt_status (*read)(struct rt_device *d, int64_t offset, void *to,
			       int64_t bytes, struct rt_error *err);
	enum rt_status (*write)(struct rt_device *d, int64_t offset,
				const void *from, int64_t bytes,
				struct rt_error *err);
	enum rt_status (*zero)(struct rt_device *d, int64_t offset,
			       int64_t bytes, struct rt_error *err);
	/* The members below may be NULL. */
	/* Copies the pieces that calls will point to, those of the plan's
	 * spreads in each microbatch; they must outlive the device. */
	enum rt_status (*pieces)(struct rt_device *d,
				 const struct rt_pieces *const *pieces,
				 int64_t n, struct rt_error *err);
	/* Sets the numbers of a step, which rt_call.live holds from now on:
	 * RT_NUMBERS of them, the first a whole number. */
	enum rt_status (*set_step)(struct rt_device *d, const double *numbers,
				   struct rt_error *err);
	/* Called around all calls of a step, and around those of each of its
	 * actions; the number of the update is nactions.  *done: the device
	 * has replayed what the action did in an earlier step. */
	enum rt_status (*begin)(struct rt_device *d, struct rt_error *err);
	enum rt_status (*end)(struct rt_device *d, struct rt_error *err);
	enum rt_status (*enter)(struct rt_device *d, int64_t action,
				int64_t microbatch, bool *done,
				struct rt_error *err);
	enum rt_status (*leave)(struct rt_device *d, struct rt_error *err);
	/* Waits for all work begun. */
	enum rt_status (*wait)(struct rt_device *d, struct rt_error *err);
	/* Milliseconds of the last call of step(), after waiting for it. */
	enum rt_status (*last_ms)(struct rt_device *d, double *ms,
				  struct rt_error *err);
	void (*close)(struct rt_device *d);
};

/* What runs kernels; AUTO: what they were compiled for. */
enum rt_on { RT_ON_AUTO, RT_ON_CPU, RT_ON_EMULATE, RT_ON_CUDA };

/* When an emulated kernel runs as checked code, which finds races and wrong
 * accesses. */
enum rt_check { RT_CHECK_FIRST, RT_CHECK_NEVER, RT_CHECK_ALWAYS };

struct rt_device_options {
	bool no_graph; /* do not keep the calls of a step as graphs */
	double timeout_s; /* after which a call that does not end is an error */
	enum rt_check check;
	bool late;	/* a kernel begins when the one before it has ended */
	const char *libcuda, *libnccl;	/* paths; NULL: the usual names */
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
	/* rt_call.live, where it is in the host's memory */
	int64_t live[RT_LIVE];
	/* of the device's own memory, after the arena; -1: it is the host's */
	int64_t free_bytes;
	bool timed;		/* last_ms will be called */
	const char *remark;	/* a note for whoever runs it, or NULL */
	bool failed;		/* close without waiting for other ranks */
	void *self;
};

/* ---- device.c ----------------------------------------------------------- */

/* The threads of this host; cannot fail. */
void rt_device_cpu(struct rt_device *d, const struct rt_plan *plan,
		   int64_t rank, struct rt_comm *comm,
		   struct rt_workers *workers);
/* For devices whose arena the host can address. */
/* The numbers of a step as rt_call.live has them; what blocks share out is
 * 0. */
void rt_device_live(const double *numbers, int64_t live[RT_LIVE]);
enum rt_status rt_host_read(struct rt_device *d, int64_t offset, void *to,
			    int64_t bytes, struct rt_error *err);
enum rt_status rt_host_write(struct rt_device *d, int64_t offset,
			     const void *from, int64_t bytes,
			     struct rt_error *err);
enum rt_status rt_host_zero(struct rt_device *d, int64_t offset,
			    int64_t bytes, struct rt_error *err);
/* Also of a struct that is all zeros. */
void rt_device_close(struct rt_device *d);

/* Bytes of the arena: their address, or a copy in `copy`. */
enum rt_status rt_device_view(struct rt_device *d, int64_t offset,
			      int64_t bytes, void *copy, const char **at,
			      struct rt_error *err);
/* The i-th number after an offset of the arena. */
enum rt_status rt_device_number(struct rt_device *d, int64_t offset,
				int64_t elem, int64_t i, double *out,
				struct rt_error *err);

/* ---- device_open.c ----------------------------------------------------- */

/* The device for the word of --device and this plan; RT_RANGE: its kernels do
 * not run there, and err names a device that runs them. */
enum rt_status rt_device_choose(const struct rt_plan *plan, const char *word,
				enum rt_on *on, struct rt_error *err);
/* `options` must outlive it. */
enum rt_status rt_device_open(struct rt_device *d, enum rt_on on,
			      const struct rt_plan *plan, int64_t rank,
			      struct rt_comm *comm, struct rt_workers *workers,
			      const struct rt_device_options *options,
			      struct rt_error *err);

/*
 * A device for another plan of the same ranks, as rt_plan.sizes: the arena and
 * what runs kernels are those of `of`, which outlives it.  One of them runs at
 * a time, after the other's wait() if both are used.
 */
enum rt_status rt_device_beside(struct rt_device *d,
				const struct rt_device *of,
				const struct rt_plan *plan, int64_t rank,
				struct rt_error *err);

/* ---- device_window.c --------------------------------------------------- */

/* A window that moves over the arena, to read or to write it in order. `buffer`
 * is allocated only where the host cannot address the arena. */
struct rt_window {
	struct rt_device *device; /* NULL: `arena` is in the host's memory */
	char *arena, *buffer;
	int64_t from, to; /* range of the arena that is in the buffer */
	bool written;
};

enum rt_status rt_window_open(struct rt_window *w, struct rt_device *d,
			      char *arena, struct rt_error *err);
/* The most bytes that one call may ask for. */
int64_t rt_window_most(const struct rt_window *w);
/* Up to `ahead` more bytes will be read next. */
enum rt_status rt_window_read(struct rt_window *w, int64_t offset,
			      int64_t bytes, int64_t ahead, char **at,
			      struct rt_error *err);
/* The caller writes all of them before the next call. */
enum rt_status rt_window_write(struct rt_window *w, int64_t offset,
			       int64_t bytes, char **at,
			       struct rt_error *err);
/* Writes what is buffered; returns `status` if that is an error. No effect if
 * nothing is open. */
enum rt_status rt_window_close(struct rt_window *w, enum rt_status status,
			       struct rt_error *err);

/* ---- grid.c: arguments of a function of a GPU ---------------------------- */

/* Offset of the maps, and bytes of the whole struct. */
int64_t rt_args_maps(const struct rt_kernel *k);
int64_t rt_args_bytes(const struct rt_kernel *k, const struct rt_grid *g);
/* Writes all words but the maps; RT_RANGE: more than a function can take. */
enum rt_status rt_args_words(const struct rt_kernel *k,
			     const struct rt_grid *g, const struct rt_call *c,
			     void *out, struct rt_error *err);
/* ", layer 3, microbatch 1", or less. */
struct rt_shown rt_place_text(const struct rt_place *at);

/* ---- comm_scratch.c: scratch of collectives on a GPU --------------------- */

struct rt_group;

/* Bytes that this rank needs for a collective of a group. */
enum rt_status rt_coll_scratch(const struct rt_plan *p, const struct rt_coll *t,
			    const struct rt_group *g, int64_t microbatch,
			    int64_t *out, struct rt_error *err);
/* RT_FORMAT: the program has less. */
enum rt_status rt_coll_fits(const struct rt_device *d,
			    const struct rt_coll *t, int64_t microbatch,
			    struct rt_error *err);

/* ---- device_emulate.c --------------------------------------------------- */

/* An emulated GPU: slow, and exact. */
enum rt_status rt_device_emulate(struct rt_device *d, struct rt_error *err);

/* ---- cuda.c ------------------------------------------------------------- */

/* The GPU that this rank has; see docs/gpu.md. */
enum rt_status rt_device_cuda(struct rt_device *d, struct rt_error *err);
/* The same of a device beside another: with kernels of its own. */
enum rt_status rt_device_cuda_beside(struct rt_device *d,
				     const struct rt_device *of,
				     struct rt_error *err);

#endif

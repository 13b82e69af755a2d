/*
 * Private to runtime/: a GPU as a device, and what it needs of two libraries
 * that are loaded when it is opened, NVIDIA's driver and NCCL.
 *
 * The types are those of the libraries' binary interface: handles are pointers,
 * device addresses 64-bit numbers, enums int. So nothing of CUDA is needed to
 * build, or to start, a plan's program.
 */
#ifndef RT_CUDA_H
#define RT_CUDA_H

#include "runtime/device/device.h"
#include "runtime/comm/transport.h"

/* ---- the driver (cuda_load.c) -------------------------------------------- */

struct rt_gpu_config {		/* CUlaunchConfig */
	unsigned blocks[3], threads[3], smem_bytes;
	void *stream;
	void *attributes;
	unsigned nattributes;
};

struct rt_gpu_attribute {	/* CUlaunchAttribute */
	int id, pad;
	unsigned value[16];
};

struct rt_gpu_memory {		/* CUmemAllocationProp */
	int type, handles;
	int place, id;
	void *metadata;
	unsigned char flags[8];
};

struct rt_gpu_access {		/* CUmemAccessDesc */
	int place, id, flags;
};

/* G(member, symbol, arguments) */
#define RT_GPU_FUNCTIONS(G) \
	G(init, "cuInit", (unsigned)) \
	G(error_string, "cuGetErrorString", (int, const char **)) \
	G(driver_version, "cuDriverGetVersion", (int *)) \
	G(device_count, "cuDeviceGetCount", (int *)) \
	G(device_get, "cuDeviceGet", (int *, int ordinal)) \
	G(device_name, "cuDeviceGetName", (char *, int capacity, int dev)) \
	G(device_uuid, "cuDeviceGetUuid", (void *uuid, int dev)) \
	G(device_attribute, "cuDeviceGetAttribute", (int *, int, int dev)) \
	G(context_retain, "cuDevicePrimaryCtxRetain", (void **, int dev)) \
	G(context_release, "cuDevicePrimaryCtxRelease", (int dev)) \
	G(context_set, "cuCtxSetCurrent", (void *)) \
	G(memory, "cuMemGetInfo", (size_t *free, size_t *total)) \
	G(alloc, "cuMemAlloc", (uint64_t *, size_t)) \
	G(release, "cuMemFree", (uint64_t)) \
	G(range_reserve, "cuMemAddressReserve", \
	  (uint64_t *, size_t, size_t align, uint64_t at, \
	   unsigned long long)) \
	G(range_free, "cuMemAddressFree", (uint64_t, size_t)) \
	G(range_access, "cuMemSetAccess", \
	  (uint64_t, size_t, const struct rt_gpu_access *, size_t n)) \
	G(memory_create, "cuMemCreate", \
	  (uint64_t *handle, size_t, const struct rt_gpu_memory *, \
	   unsigned long long)) \
	G(memory_release, "cuMemRelease", (uint64_t handle)) \
	G(memory_map, "cuMemMap", \
	  (uint64_t at, size_t, size_t offset, uint64_t handle, \
	   unsigned long long)) \
	G(memory_unmap, "cuMemUnmap", (uint64_t at, size_t)) \
	G(pin, "cuMemHostAlloc", (void **, size_t, unsigned)) \
	G(unpin, "cuMemFreeHost", (void *)) \
	G(to_device, "cuMemcpyHtoDAsync", \
	  (uint64_t, const void *, size_t, void *stream)) \
	G(to_host, "cuMemcpyDtoHAsync", \
	  (void *, uint64_t, size_t, void *stream)) \
	G(copy, "cuMemcpyDtoDAsync", \
	  (uint64_t to, uint64_t from, size_t, void *stream)) \
	G(set, "cuMemsetD8Async", \
	  (uint64_t, unsigned char, size_t, void *stream)) \
	G(stream_create, "cuStreamCreate", (void **, unsigned flags)) \
	G(stream_urgent, "cuStreamCreateWithPriority", \
	  (void **, unsigned flags, int priority)) \
	G(priorities, "cuCtxGetStreamPriorityRange", \
	  (int *least, int *greatest)) \
	G(stream_destroy, "cuStreamDestroy", (void *)) \
	G(stream_query, "cuStreamQuery", (void *)) \
	G(stream_wait, "cuStreamWaitEvent", \
	  (void *stream, void *event, unsigned)) \
	G(capture, "cuStreamBeginCapture", (void *stream, int mode)) \
	G(end_capture, "cuStreamEndCapture", (void *stream, void **graph)) \
	G(instantiate, "cuGraphInstantiateWithFlags", \
	  (void **exec, void *graph, unsigned long long)) \
	G(graph_launch, "cuGraphLaunch", (void *exec, void *stream)) \
	G(graph_destroy, "cuGraphDestroy", (void *)) \
	G(exec_destroy, "cuGraphExecDestroy", (void *)) \
	G(event_create, "cuEventCreate", (void **, unsigned flags)) \
	G(event_destroy, "cuEventDestroy", (void *)) \
	G(event_record, "cuEventRecord", (void *event, void *stream)) \
	G(event_query, "cuEventQuery", (void *)) \
	G(event_elapsed, "cuEventElapsedTime", \
	  (float *ms, void *from, void *to)) \
	G(module_load, "cuModuleLoadData", (void **, const void *)) \
	G(module_unload, "cuModuleUnload", (void *)) \
	G(module_function, "cuModuleGetFunction", \
	  (void **, void *module, const char *name)) \
	G(function_set, "cuFuncSetAttribute", (void *, int, int value)) \
	G(launch, "cuLaunchKernelEx", \
	  (const struct rt_gpu_config *, void *function, void **params, \
	   void **extra)) \
	G(map, "cuTensorMapEncodeTiled", \
	  (void *out, int type, unsigned rank, void *at, \
	   const uint64_t *size, const uint64_t *stride, \
	   const unsigned *box, const unsigned *apart, int interleave, \
	   int swizzle, int promotion, int fill))

struct rt_gpu_api {
	void *library;
#define G(member, symbol, arguments) int (*member) arguments;
	RT_GPU_FUNCTIONS(G)
#undef G
};

enum {
	RT_GPU_NO_MEMORY = 2, RT_GPU_NO_IMAGE = 209, RT_GPU_NOT_READY = 600
};

#define RT_GPU_SHARED "ranks share a GPU, which NCCL does not allow: the " \
	"host carries what they exchange, which is for tests alone"
/* The end of messages where there is no GPU for the plan. */
#define RT_GPU_ELSE "--device emulate runs the plan without a GPU, slowly"

/*
 * Opens the library that is chosen, or else the first of the usual ones, a list
 * that NULL ends.  *file is what was opened, or what is missing.
 */
void *rt_gpu_library(const char *chosen, const char *const *usual,
		     const char **file);
/* Loads and initializes the driver; `file` NULL: under its usual name. */
enum rt_status rt_gpu_load(struct rt_gpu_api *api, const char *file,
			   struct rt_error *err);
void rt_gpu_unload(struct rt_gpu_api *api);
/* A result as a status; `member` is the function's offset in the table. */
enum rt_status rt_gpu_check(const struct rt_gpu_api *api, int result,
			    size_t member, struct rt_error *err);

/* GPU(api, alloc, &at, n): calls it, and returns a status; the caller has an
 * `err`. */
#define GPU(api, member, ...) \
	rt_gpu_check(api, (api)->member(__VA_ARGS__), \
		     offsetof(struct rt_gpu_api, member), err)

/* ---- one GPU (cuda_query.c) ---------------------------------------------- */

struct rt_gpu_facts {
	char name[64];
	int ordinal, count;	/* of the devices that this process sees */
	int dev, major, minor, driver;	/* 13000: CUDA 13.0 */
	int64_t free_bytes, total_bytes, smem_bytes;
	uint64_t uuid[2];
};

/* The GPU of a rank: by the rank's number on its host. */
enum rt_status rt_gpu_query(const struct rt_gpu_api *api, int64_t local_rank,
			    struct rt_gpu_facts *out, struct rt_error *err);
/* Whether the plan's kernels run on it. */
enum rt_status rt_gpu_fits(const struct rt_plan *p,
			   const struct rt_gpu_facts *f, struct rt_error *err);
/* Whether kernels of the plan may begin there before others end: they were
 * compiled to wait (prelude-device.h), and graphs of the driver keep that. */
bool rt_gpu_early(const struct rt_plan *p, const struct rt_gpu_facts *f);
/* Whether its memory holds the arena and what a driver needs beside it. */
enum rt_status rt_gpu_scratch(const struct rt_gpu_facts *f, int64_t arena_bytes,
			   struct rt_error *err);

/* ---- the device (cuda.c, cuda_image.c, cuda_comm.c) ---------------------- */

struct rt_gpu_function;

/* A collective or transfer by NCCL, one of the last RT_GPU_SENT of either. */
struct rt_gpu_sent {
	const struct rt_coll *coll;	/* NULL: unused */
	struct rt_place place;
	/* memory that it reads, that it writes, and that it packs into */
	const char *lo[3], *hi[3];
	void *event;			/* recorded at its end */
	int64_t number;			/* of all of them, from 0 */
	bool open;			/* nothing has waited for it yet */
};

/* A call of joined collectives uses an entry for each. */
enum { RT_GPU_SENT = 512, RT_GPU_BOUNCE = 16 << 20 };

/* What differs between microbatches, at fixed addresses (cuda_window.c). */
struct rt_gpu_window {
	uint64_t base, pieces;	/* pieces: of all spreads */
	struct rt_gpu_slot *slots;
	int64_t nslots, nspreads;
	/* by spread: stands for its pieces in the window */
	struct rt_pieces *stand_ins;
};

/* Copies between the memory of a microbatch and the window. */
struct rt_gpu_copies {
	struct rt_gpu_copy {
		uint64_t there, window;
		int64_t bytes;
		bool result;	/* copied back after the graph */
	} *at;
	int64_t n;
};

/* An arena that is in two memories (cuda_host.c). */
struct rt_gpu_split {
	uint64_t at;
	int64_t own_bytes, host_bytes;
	uint64_t own, host;	/* handles of them; 0: none */
};

struct rt_gpu_graphs;
struct rt_nccl;

struct rt_gpu {
	struct rt_gpu_api api;
	/* context, streams, arena and NCCL are another device's */
	bool is_beside;
	struct rt_gpu_facts facts;
	void *context, *stream;		/* for kernels */
	void *from, *to; /* recorded around the last kernel, if timed */
	uint64_t arena, live, pieces;
	struct rt_gpu_split split;	/* `at` 0: the arena is not */
	/* sorted; copies of them are on the GPU */
	const struct rt_pieces **known;
	int64_t nknown;
	void *bounce;
	void **modules;
	struct rt_gpu_function *functions;	/* by hash of the grid */
	size_t capacity, nfunctions;
	/* the plan's pieces: [microbatch * nspreads + spread] */
	const struct rt_pieces *const *by_microbatch;
	void **execs;		/* graphs that can be launched */
	int64_t nexecs;
	struct rt_gpu_graphs *graphs;	/* the actions that launch them */
	struct rt_gpu_window window;
	bool capturing, eager;	/* eager: each kernel is waited for */
	/* a kernel may begin before the one before it has ended */
	bool early;
	/* whether the last that was enqueued on the stream is a kernel; of a
	 * device beside another, that one's */
	bool last_is_kernel, *follows;
	bool staged; /* ranks share a GPU: the host runs collectives */
	/* of streams of collectives: their blocks are placed before those of
	 * kernels that wait as well */
	int priority;
	struct rt_nccl *nccl;	/* NULL: a single rank, or staged */
	bool hosted;	/* NCCL cannot run some collective of this rank */
	void *ready;		/* event that a collective waits for */
	struct rt_grid move, fold;	/* of services.cu */
	/* two rings: collectives, and transfers along the pipeline */
	struct rt_gpu_sent sent[2 * RT_GPU_SENT];
	int64_t nsent[2];
	const char *last;	/* the last kernel launched */
};

/* ---- cuda_query.c ---- */

/* Makes its context the thread's, reads how much memory it has, and makes the
 * stream of kernels; what follows is for its end, also after a failure. */
enum rt_status rt_gpu_context(struct rt_gpu *g, struct rt_error *err);
/* Destroys the stream and its events, before memory that they use is released;
 * and, after all memory, releases context and driver. */
void rt_gpu_end_stream(struct rt_gpu *g);
void rt_gpu_leave(struct rt_gpu *g);

/* ---- cuda_host.c ---- */

/* Bytes of an arena that are in the device's own memory. */
int64_t rt_gpu_own_bytes(const struct rt_program *p);
/* How many of `bytes` from an offset on are in the memory of the first. */
int64_t rt_gpu_same_memory(const struct rt_program *p, int64_t offset,
			   int64_t bytes);
/* The arena of a program that has a part on the host. */
enum rt_status rt_gpu_alloc_split(struct rt_device *d, struct rt_error *err);
/* No effect on an arena that is in one memory. */
void rt_gpu_free_split(struct rt_gpu *g);

/* Waits until the stream is idle, or the timeout. */
enum rt_status rt_gpu_wait(struct rt_device *d, struct rt_error *err);

/*
 * Destroys all graphs, and one that is being captured.  NCCL (2.26 and later)
 * neither destroys nor aborts a communicator before every graph with a call on
 * it is gone; one that still runs is freed when it ends.
 */
void rt_gpu_graphs_free(struct rt_gpu *g);

enum rt_status rt_gpu_images(struct rt_device *d, struct rt_error *err);
void rt_gpu_images_free(struct rt_gpu *g);
/* Where pieces of the plan, or a stand-in of the window, are on the GPU; false:
 * nowhere. */
bool rt_gpu_pieces_at(const struct rt_gpu *g, const struct rt_pieces *p,
		      uint64_t *at);
/* The stream of kernels, to enqueue something else on. */
void *rt_gpu_stream(struct rt_gpu *g);
/*
 * A kernel that follows another one on the stream of kernels may begin, up to
 * its launch_wait, before that has ended, where `early` is set.
 */
enum rt_status rt_gpu_launch(struct rt_device *d, const struct rt_kernel *k,
			     const struct rt_grid *grid,
			     const struct rt_call *c, void *stream,
			     struct rt_error *err);

enum rt_status rt_gpu_coll(struct rt_device *d, const struct rt_coll *t,
			   char *const *at, const struct rt_place *place,
			   struct rt_error *err);
/* Waits for collectives under way that touch what a kernel reads or writes. */
enum rt_status rt_gpu_settle(struct rt_device *d, const struct rt_kernel *k,
			     const struct rt_call *c, struct rt_error *err);
enum rt_status rt_gpu_settle_all(struct rt_device *d, struct rt_error *err);
/* For all collectives, and for all that is being received. */
enum rt_status rt_gpu_settle_colls(struct rt_device *d, struct rt_error *err);
enum rt_status rt_gpu_settle_received(struct rt_device *d,
				      struct rt_error *err);
/* The first collective that has not ended; NULL: none, or it is in a graph. */
const struct rt_gpu_sent *rt_gpu_hanging(const struct rt_gpu *g);

/* ---- graphs (cuda_graph.c, cuda_window.c) ------------------------------- */

/* Once; the GPU's own close releases what a failure leaves. */
enum rt_status rt_gpu_graphs_open(struct rt_device *d, struct rt_error *err);
/* After rt_gpu_graphs_free. */
void rt_gpu_graphs_close(struct rt_gpu *g);
/* Around an action of a step; the update's number is nactions.  *done: it was
 * replayed, and its function must not be called. */
enum rt_status rt_gpu_graph_enter(struct rt_device *d, int64_t action,
				  int64_t microbatch, bool *done,
				  struct rt_error *err);
enum rt_status rt_gpu_graph_leave(struct rt_device *d, struct rt_error *err);
/* Before each call of an action.  *skip: it must not be made, since a graph
 * has it.  The operands of a call that is captured become others. */
enum rt_status rt_gpu_graph_kernel(struct rt_device *d,
				   const struct rt_kernel *k,
				   const struct rt_grid *grid,
				   struct rt_call *c, bool *skip,
				   struct rt_error *err);
enum rt_status rt_gpu_graph_coll(struct rt_device *d, const struct rt_coll *t,
				 char *const **at,
				 const struct rt_place *place, bool *skip,
				 struct rt_error *err);
/* Before each send, recv and free along the pipeline. */
enum rt_status rt_gpu_graph_transfer(struct rt_device *d,
				     const struct rt_coll *t, char *const *at,
				     const struct rt_place *place,
				     struct rt_error *err);
/* At the end of a step, by all ranks. */
enum rt_status rt_gpu_graph_agree(struct rt_device *d, struct rt_error *err);

enum rt_status rt_gpu_window_open(struct rt_device *d, struct rt_error *err);
void rt_gpu_window_close(struct rt_gpu *g);
/* The address in the window of an operand that is in an input or a result of
 * this microbatch, and of pieces that differ between microbatches; others stay
 * as they are.  The copy that this needs is added to `copies`. */
enum rt_status rt_gpu_window_operand(const struct rt_device *d, int64_t mb,
				     char **at, struct rt_gpu_copies *copies,
				     struct rt_error *err);
enum rt_status rt_gpu_window_pieces(const struct rt_device *d, int64_t mb,
				    const struct rt_pieces **at,
				    struct rt_gpu_copies *copies,
				    struct rt_error *err);
/* Into the window, or results back from there. */
enum rt_status rt_gpu_window_copy(struct rt_gpu *g,
				  const struct rt_gpu_copies *x, bool back,
				  struct rt_error *err);

/* ---- NCCL (nccl.c) ------------------------------------------------------- */

/* A communicator of this rank. */
struct rt_nccl_comm {
	int64_t axes, holders;	/* of the group */
	int64_t from, to;	/* an edge of the pipeline; -1: of a group */
	void *comm, *stream;
	int64_t n, me;
};

/* Loads the library, which allocates the arena. */
enum rt_status rt_nccl_load(struct rt_device *d, struct rt_error *err);
/* The arena, such that NVLink SHARP can reduce in it, by all ranks or by none;
 * *out 0: this NCCL has no memory of its own. */
enum rt_status rt_nccl_alloc(struct rt_device *d, size_t bytes, uint64_t *out,
			     struct rt_error *err);
/* Creates communicators. */
enum rt_status rt_nccl_open(struct rt_device *d, struct rt_error *err);
/* Ends the communicators; their streams are gone. */
void rt_nccl_close(struct rt_device *d);
/* Releases the arena, if it is NCCL's, which no work may use any more, and the
 * library. */
void rt_nccl_unload(struct rt_device *d);
/* Whether a communicator has failed meanwhile. */
enum rt_status rt_nccl_poll(struct rt_device *d, struct rt_error *err);
/* Aborts all communicators after a timeout, so that a report can be written. */
void rt_nccl_abort(struct rt_device *d);
/* "2.28.9"; "" if there is none. */
const char *rt_nccl_version(const struct rt_device *d);

enum rt_nccl_op {
	RT_NCCL_REDUCE, RT_NCCL_GATHER, RT_NCCL_SCATTER, RT_NCCL_SEND,
	RT_NCCL_RECV
};

/* NULL: there is none for that group. */
const struct rt_nccl_comm *rt_nccl_group(const struct rt_device *d,
					 const struct rt_group *g);
/* Creates one; all members call it. */
enum rt_status rt_nccl_join(struct rt_device *d, const struct rt_group *g,
			    const struct rt_nccl_comm **out,
			    struct rt_error *err);
const struct rt_nccl_comm *rt_nccl_edge(const struct rt_device *d,
					int64_t from, int64_t to);
/* A call: n elements of each member. */
struct rt_nccl_call {
	enum rt_nccl_op op;
	const struct rt_coll *coll;
	char *in, *out;
	int64_t n;
};

/* As one launch, if there are several; on the communicator's stream. */
enum rt_status rt_nccl_calls(struct rt_device *d,
			     const struct rt_nccl_comm *c,
			     const struct rt_nccl_call *calls, int64_t n,
			     struct rt_error *err);

/* A part of an exchange: elements to, or from, a member of the group. */
struct rt_nccl_part {
	int64_t peer, n;
	char *at;
	bool send;
};

/* Sends and receives all of them at once. */
enum rt_status rt_nccl_exchange(struct rt_device *d,
				const struct rt_nccl_comm *c, int64_t elem,
				const struct rt_nccl_part *parts, int64_t n,
				struct rt_error *err);

/* ---- collectives by parts (cuda_comm_parts.c) --------------------------- */

/* How a collective is run.  All members choose the same way. */
enum rt_gpu_way {
	RT_GPU_HOST,		/* through the host: NCCL cannot */
	RT_GPU_CALL,		/* one NCCL call */
	RT_GPU_UNPACK,		/* an all-gather into scratch, then unpacking */
	RT_GPU_PACK,		/* packing, then a reduce-scatter */
	RT_GPU_PARTS		/* each part by itself */
};

/* Of a collective that is not a single NCCL call. */
enum rt_gpu_way rt_gpu_parts_way(const struct rt_device *d,
				 const struct rt_coll *t,
				 const struct rt_group *g, int64_t mb);
/* The way of a collective, and its call. */
struct rt_gpu_leg {
	enum rt_gpu_way way;
	/* of UNPACK and PACK: in, out and coll only */
	struct rt_nccl_call call;
};

/* Runs joined collectives on the communicator's stream: packs, makes one launch
 * of all that have an NCCL call, unpacks, and then runs those by parts. */
enum rt_status rt_gpu_legs(struct rt_device *d, const struct rt_nccl_comm *c,
			   const struct rt_group *g,
			   const struct rt_gpu_leg *legs, int64_t n,
			   int64_t mb, struct rt_error *err);

#endif

/*
 * What the driver of the tests and their NCCL know of each other.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_stream;

/* Other results are errors of the driver. */
enum { FAKE_DONE = 0, FAKE_LATER = -1 };

/* Work on a stream. */
struct fake_op {
	int (*run)(struct fake_op *op);
	struct fake_op *next;
	struct fake_stream *stream;
	void *event;
	uint64_t version;	/* of the event */
	int captured;		/* in a graph */
	int *graphs;		/* counts the graphs that hold it, or NULL */
	/* called when the host launches it, alone or in a graph; or NULL */
	void (*launched)(struct fake_op *op);
	size_t bytes;
	_Alignas(64) char data[];
};

struct fake_config {		/* CUlaunchConfig */
	unsigned blocks[3], threads[3], smem_bytes;
	void *stream, *attributes;
	unsigned nattributes;
};

struct fake_attribute {		/* CUlaunchAttribute */
	int id, pad;
	unsigned value[16];
};

/* Results of calls. */
enum {
	INVALID = 1, NO_MEMORY = 2, NO_IMAGE = 209, NOT_READY = 600,
	LAUNCH_FAILED = 719, UNSUPPORTED = 900,
	INVALIDATED = 901, UNJOINED = 904, ISOLATION = 905,
	CAPTURED_EVENT = 907, INJECTED = 999
};

/* A function that the driver is asked for. */
struct fake_name {
	const char *name;
	void *f;
};

/* fake-device.c, fake-memory.c and fake-kernels.c; the last has no name. */
extern const struct fake_name fake_device_names[];
extern const struct fake_name fake_memory_names[];
extern const struct fake_name fake_kernel_names[];
/* Why a kernel failed (fake-kernels.c). */
extern char fake_why[384];

/* What is counted as a leak at the end. */
enum { CONTEXT, MEMORY, PINNED, STREAM, EVENT, MODULE, GRAPH, EXEC };
void fake_live(int kind, int more);
/* So many bytes of the host's memory are mapped for the device. */
void fake_mapped(size_t bytes);
/* Counts a launch. */
void fake_launched(bool early);
/* Whether what was enqueued last on the stream runs so. */
bool fake_after(const struct fake_stream *s, int (*run)(struct fake_op *));
/* Lets time pass, of that which FAKE_TIMES makes events tell. */
void fake_spend(double ms);

long fake_number(const char *name, long otherwise);
/* Every call comes by here: 0, or what it is to return. */
int fake_enter(void);
/* 0, or an error while something is captured: of calls that no capture sees. */
int fake_unseen(void);
#define ENTER do { int bad_ = fake_enter(); if (bad_) return bad_; } while (0)

/* fake-memory.c; pinned: the host's.  0, or why not. */
int fake_allocate(size_t bytes, int pinned, uint64_t *out);
int fake_deallocate(uint64_t at, int pinned);
int fake_holds(uint64_t at, size_t bytes, int pinned);
size_t fake_used(void);
/* Bytes of shared memory that a block can have, if a function asks for them. */
int fake_most_smem(void);
/* Its memory, for as long as it works in it. */
void fake_open_memory(int open);
/* Is all of it memory of a device? */
int fake_has(const void *at, size_t bytes);

struct fake_op *fake_op(int (*run)(struct fake_op *), size_t bytes);
void fake_queue(struct fake_stream *s, struct fake_op *op);

int cuGetProcAddress_v2(const char *name, void **out, int version,
			uint64_t flags, int *found);

#endif

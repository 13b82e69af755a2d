/*
 * What the files of the NCCL of the tests know of each other: fake-nccl.c has
 * its calls, and fake-nccl-work.c does what they ask for.
 */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H

#include <stdatomic.h>

#include "fake-driver.h"

enum { RANKS = 16, SLOTS = 8, SLOT_BYTES = 1 << 18 };
enum { PARTS = 2 * RANKS };
enum {
	OK = 0, UNHANDLED = 1, SYSTEM = 2, INTERNAL = 3, ARGUMENT = 4,
	USAGE = 5, IN_PROGRESS = 7
};

enum kind { REDUCE, GATHER, SCATTER, SEND, RECV, EXCHANGE, KINDS };

/* What a rank says of its part of a collective. */
struct told {
	int kind, type, fold, registered, captured;
	size_t n;
};

struct shm {
	_Atomic uint64_t here;
	_Atomic uint64_t posted[RANKS], taken[RANKS];
	struct told told[RANKS][SLOTS];
	char data[RANKS][SLOTS][SLOT_BYTES];
};

struct comm {
	struct shm *shm;
	int n, rank, registered, dead;
	int running;		/* a collective is */
	/* a call has not been seen to be done; and finalizing was called, and
	 * was seen to be done */
	int pending, finalizing, finalized;
	/* what it will enqueue by then, at the latest that is legal */
	struct late {
		struct fake_op *op;
		struct fake_stream *stream;
	} *late;
	int nlate;
	const char *lo, *hi;	/* what is registered */
	char name[32];		/* the same on all ranks */
	int graphs;		/* that have a call on it */
	uint64_t op;		/* of this rank, so far */
	struct comm *next;	/* made before it; dead ones stay */
};

/* Of an exchange. */
struct part {
	enum kind kind;
	int peer;
	char *at;
	size_t bytes;
};

struct work {
	struct comm *comm;
	enum kind kind;
	const char *in;
	char *out;
	size_t n;
	int type, fold, done;
	uint64_t op;
	int nparts;
	struct part parts[PARTS];
};

/* The driver's functions that they call. */
struct driver {
	struct fake_op *(*op)(int (*)(struct fake_op *), size_t);
	void (*queue)(struct fake_stream *, struct fake_op *);
	void (*open)(int);
	int (*has)(const void *, size_t);
	int (*allocate)(size_t, int, uint64_t *);
	int (*deallocate)(uint64_t, int);
	void (*live)(int, int);
};

/* ---- fake-nccl.c ---- */

extern struct comm *fake_comms;
const struct driver *fake_driver(void);
/* Ends the process: the real one would hang, or nobody knows what it does. */
void fake_refuse(const char *why);
long fake_setting(const char *name, long otherwise);

/* ---- fake-nccl-work.c ---- */

size_t fake_bytes_of(int type);
/* Bytes before which an exchange has none, in a slot. */
size_t fake_exchange_head(void);
/* How an op of a stream runs that holds such work; and what is done when the
 * host launches it. */
int fake_run_work(struct fake_op *op);
void fake_note_launch(struct fake_op *op);

#endif

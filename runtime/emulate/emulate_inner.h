/*
 * Private to emulate/: threads, blocks and clusters while they run.
 */
#ifndef RT_EMULATE_INNER_H
#define RT_EMULATE_INNER_H

#include <setjmp.h>
#include <stdbool.h>

#include "runtime/emulate/emulate_call.h"
#include "runtime/emulate/emulate.h"
#include "runtime/error.h"

enum {
	EMU_MAX_THREADS = 1024,	/* of a block */
	EMU_MAX_CLUSTER = 16,
	EMU_BARRIERS = 16,
	EMU_MBARS = 512,	/* of a block */
	/* loads, and stores, of tensor memory of a warp that are under way */
	EMU_TENSOR_MOVES = 16,
	/* the first address of shared memory, as a GPU keeps the first 1024
	 * bytes for itself */
	EMU_SMEM_BASE = 1024,
	EMU_CTA_SHIFT = 24,
	/* unused bytes around shared memory, so that an access next to it hits
	 * nothing else */
	EMU_APART = 4096
};

struct emu_block;

/* A copy to shared memory that is under way. */
struct emu_copy {
	unsigned at;
	const char *from;
	int bytes, size, group;
};

/* A thread of a block. */
struct emu_task {
	struct emu_thread seen; /* first: the kernel has a pointer to it */
	void *sp;			/* saved while it waits */
	/* what it waits for, for the report of a deadlock; NULL: it does not
	 * wait */
	const char *waits;
	unsigned which, other;
	struct emu_warp *warp;
	struct emu_block *block;
	struct emu_task *next;		/* in a list of waiting threads */
	/* its operands of an instruction of the whole warp */
	void *ptr[3];
	unsigned num[4];
	uint64_t wide[2];
	/* cp.async copies of this thread that are under way */
	struct emu_copy *copies;
	int ncopies, capacity, group;
	/* of the copying unit: group of its stores */
	int tma_group;
	/* the number that orders blocks and that it waits for; and the one
	 * whose turn it has, until it adds 1; NULL */
	const int *awaited, *turn;
	bool wg_fenced, cluster_arrived;
	/* its waits since the lanes of its warp last met; barriers that it has
	 * come to */
	unsigned alone, came;
	bool begun;	/* launch_wait has returned */
};

/* A load of tensor memory: 16 lanes from `lane` on, n columns; d: to where, of
 * each lane of the warp. */
struct emu_tensor_load {
	float *d[32];
	int lane, col, n;
};

#define EMU_WARP_BARRIERS 4	/* that a lane may be ahead of others */

/* A warp, and what its lanes do together. */
struct emu_warp {
	struct emu_task *lanes;		/* 32 of them */
	int arrived;
	const char *what; /* instruction that the first lane has come to */
	/* lanes that have come to the next barriers; the first's waits */
	unsigned came[EMU_WARP_BARRIERS], alone[EMU_WARP_BARRIERS];
	struct emu_wg *wg;		/* wgmma instructions under way */
	int nwg, wg_capacity, wg_group;
	int64_t wg_base;		/* number of the first in the queue */
	struct emu_task *wg_waiter;	/* waits for the other three warps */
	struct emu_tensor_load loads[EMU_TENSOR_MOVES];
	int nloads;
	struct emu_tensor_store *stores;	/* as many, when first used */
	int nstores;
};

/* An instruction of a warp's quarter of a warpgroup, not yet executed. */
struct emu_wg {
	float *d[32];
	const char *from[32];		/* of ra */
	unsigned ra[32][4];
	bool regs, done;
	uint64_t a, b;
	int n, kind, flags, group;
};

struct emu_barrier {
	int arrived, want, waiting;
	struct emu_task **who;		/* EMU_MAX_THREADS of them */
};

struct emu_mbar {
	unsigned at;
	int expected, pending, phase;
	int64_t tx;
	bool fenced;
	/* phases that are over; as many of them as a thread has waited for, and
	 * up to the last one in which another block's products have arrived */
	int64_t over, waited, far;
	struct emu_task *first;
};

struct emu_block {
	struct emu_thread seen; /* what all its threads have in common */
	char *memory, *smem;
	int64_t smem_bytes;
	struct emu_task *tasks;
	struct emu_warp *warps;
	int ntasks, left;
	struct emu_barrier barriers[EMU_BARRIERS];
	struct emu_task **waiting;	/* memory of the barriers' lists */
	struct emu_mbar mbars[EMU_MBARS];
	int nmbars;
	struct emu_tensor *tensor;	/* NULL: none was allocated yet */
	struct emu_tensor_op *products; /* under way, in their order */
	int nproducts, product_capacity;
};

/* As rt_emu_map writes it. */
struct emu_map {
	char *base;
	int64_t size[5], stride[4];
	uint16_t box[5];
	uint8_t ndims, elem, swizzle, magic;
};

/* A box that the copying unit moves. A load for several blocks has one for each
 * block. */
struct emu_box {
	struct emu_map map;
	int at[5];
	struct emu_block *block;
	struct emu_task *task;		/* of a store */
	struct emu_mbar *mbar;
	unsigned smem;
	int group;
	bool store, add, taken, released;
	/* a word from a thread's register, in place of a box */
	bool is_word;
	unsigned word;
	char *data; /* of a store whose shared memory has been read */
};

struct emu_fiber {
	char *stack;
	void *sp;	/* where it was when it was left, or NULL */
	struct emu_fiber *next;
};

struct rt_emu {
	const struct rt_images *images;
	int flags;
	void *handle;
	const struct emu_library *lib;
	bool *orders;	/* by function: its blocks wait for other blocks */
	/* where the library keeps the current thread */
	struct emu_thread **self;
	const struct emu_calls *calls;
	/* called by the scheduler: completes a box, or products of tcgen05,
	 * that are under way, false if there are none; ends a thread that has
	 * returned */
	bool (*deliver)(struct rt_emu *e);
	void (*end)(struct rt_emu *e, struct emu_task *t);
	uint64_t seed, random;
	struct rt_error *err;
	bool failed;
	/* of the launch */
	const char *kernel;
	const struct emu_entry *entry;
	const struct rt_grid *grid;
	char *args;
	int64_t args_capacity;
	/* of the current cluster */
	struct emu_block *blocks;
	int nblocks, block_capacity;
	bool ordered;		/* of the launch: its function's `orders' */
	int fresh_block, fresh_task;	/* the next thread to be started */
	int left;			/* tasks of all its blocks */
	int cluster_arrived, cluster_phase;
	struct emu_task *cluster_first;
	struct emu_box *boxes;
	int nboxes, box_capacity;
	/* threads that can continue, a ring; its capacity is a power of 2 */
	struct emu_task **ready;
	unsigned head, tail, mask;
	struct emu_task *now;
	void *main_sp;
	/* stacks */
	char *stacks, *stacks_end;
	int64_t stack_bytes, nstacks, stack_capacity;
	struct emu_fiber *fibers, *free_fibers;
	/* memory that kernels may access, sorted */
	struct emu_range {
		const char *p;
		int64_t bytes;
	} *allowed;
	int nallowed, allowed_capacity;
	struct emu_shadow *shadow;
};

/* The emulator that runs on this thread of the system. */
extern _Thread_local struct rt_emu *emu_now;

/* ---- emulate_build.c ---------------------------------------------------- */

enum rt_status emu_build(struct rt_emu *e, struct rt_error *err);

/* ---- emulate_sources.c -------------------------------------------------- */

/* The name of a file of images, by its number, and a letter of what it is. */
#define EMU_SOURCE "i%lld.%c"

enum rt_status emu_write_text(const char *folder, const char *name,
			      const char *head, const char *text,
			      struct rt_error *err);
/* Writes these images to so many files, and what they include. */
enum rt_status emu_write_sources(const struct rt_images *x, const char *folder,
				 int64_t *nfiles, struct rt_error *err);

/* ---- emulate_fiber.c ---------------------------------------------------- */

enum rt_status emu_stacks(struct rt_emu *e, int64_t n, struct rt_error *err);
void emu_stacks_free(struct rt_emu *e);
/* Runs all threads of the cluster to their end; false: one of them failed. */
bool emu_run(struct rt_emu *e);
/* The current thread waits, for the reason of the message, until it is
 * woken. */
void emu_wait(struct rt_emu *e, const char *what, unsigned which,
	      unsigned other);
void emu_wake(struct rt_emu *e, struct emu_task *t);
void emu_wake_all(struct rt_emu *e, struct emu_task *const *t, int n);
/* Reports a mistake of the current thread, and ends the launch. */
_Noreturn void emu_fail(struct rt_emu *e, const char *fmt, ...)
	RT_PRINTF(2, 3);
uint64_t emu_random(struct rt_emu *e);

/* ---- emulate_sync.c ----------------------------------------------------- */

/*
 * Waits until all lanes have come. Returns true to the last one, which acts for
 * all lanes and then calls emu_warp_go; the other lanes return false after
 * that.
 */
bool emu_warp_meet(struct rt_emu *e, const char *what);
void emu_warp_go(struct rt_emu *e);
void emu_sync(int id, int n);
void emu_arrive(int id, int n);
void emu_sync_warp(void);
unsigned emu_shuffle(unsigned x, int from);
unsigned emu_ballot(int x);
void emu_cluster_arrive(void);
void emu_cluster_wait(void);

/* ---- emulate_mma.c ------------------------------------------------------ */

void emu_ldsm(unsigned *r, unsigned at, int n, int trans);
void emu_stsm(unsigned at, const unsigned *r, int n, int trans);
void emu_mma(float *c, const unsigned *a, const unsigned *b, int kind);
/* c[0 .. n) = a[0 .. depth) times rows of b, `apart` elements from row to
 * row. */
void emu_row(const float *a, const float *b, int apart, int depth, int n,
	     float *c);
/* c, the sum of products of a row and a column, whose elements are `apart`
 * from each other, and d: as the instruction adds them. */
float emu_added(int kind, const float *a, const float *b, int apart, int depth,
		float c, float d);
/* The value of an element of memory. */
float emu_bf16(unsigned x);
float emu_f16(unsigned x);
float emu_e4m3(unsigned x);
float emu_e5m2(unsigned x);

/* ---- emulate_operand.c -------------------------------------------------- */

struct emu_operand {
	unsigned at;
	int lead, stride;	/* bytes */
	int swizzle;		/* bytes of a row: 16 (none), 32, 64, 128 */
	int trans;		/* rows, not k, are contiguous */
	int elem;		/* bytes */
	const char *what;	/* the instruction, for messages */
};

/* Bytes of an element, and how many of k an instruction multiplies. */
int emu_kind_bytes(int kind);
int emu_kind_depth(int kind);
/* The value of an element at p. */
float emu_element(int kind, const char *p);
/* rows x depth elements as numbers: (row, k) at row * by_row + k * by_k. */
void emu_operand_fetch(struct rt_emu *e, const struct emu_operand *o, int kind,
		       int rows, int depth, float *out, int by_row, int by_k);
/* Calls f for each 16 bytes of these rows. */
void emu_operand_each(struct rt_emu *e, const struct emu_operand *o, int from,
		      int rows, int depth,
		      void (*f)(struct rt_emu *, unsigned at));

/* ---- emulate_wgmma.c ---------------------------------------------------- */

void emu_wg_mma(float *d, const unsigned *ra, unsigned long long a,
		unsigned long long b, int n, int kind, int flags);
void emu_wg_fence(void);
void emu_wg_commit(void);
void emu_wg_wait(int n);

/* ---- emulate_tensor.c --------------------------------------------------- */

void emu_tensor_alloc(unsigned at, int n);
void emu_tensor_dealloc(unsigned at, int n);
void emu_tensor_relinquish(void);
void emu_tensor_mma(unsigned d, unsigned long long a, unsigned long long b,
		    unsigned form, int what, int add);
void emu_tensor_mma_left(unsigned d, unsigned a, unsigned long long b,
			 unsigned form, int what, int add);
void emu_tensor_commit(unsigned bar, unsigned mask);
void emu_tensor_fence(int after);
/* Completes products up to a commit, if one is under way. */
bool emu_tensor_deliver(struct rt_emu *e);
/* A block begins; its thread has ended; the launch has ended, what was under
 * way is dropped; its memory is freed. */
void emu_tensor_start(struct emu_block *b);
void emu_tensor_end(struct rt_emu *e, struct emu_task *t);
void emu_tensor_stop(struct rt_emu *e, struct emu_block *b);
void emu_tensor_free(struct emu_block *b);

/* ---- emulate_tensor_move.c ---------------------------------------------- */

void emu_tensor_load(float *d, unsigned at, int n);
void emu_tensor_wait(void);
void emu_tensor_store(unsigned at, const void *from, int pairs);
void emu_tensor_wait_store(void);

/* ---- emulate_address.c -------------------------------------------------- */

unsigned emu_address(const void *p);
unsigned emu_map_cta(unsigned at, int cta);
/* The host's address of n bytes, aligned to `align`; fails if they are not in
 * shared memory. */
char *emu_smem(struct rt_emu *e, unsigned at, int64_t n, int64_t align,
	       const char *what);
struct emu_block *emu_block_of(struct rt_emu *e, unsigned at);

/* ---- emulate_copy.c ----------------------------------------------------- */

void emu_cp_async(unsigned to, const void *from, int bytes, int size);
void emu_cp_commit(void);
void emu_cp_wait(int n);
/* Four words that the thread loads, of any block of the cluster. */
void emu_read_at(unsigned at, unsigned *to);

/* ---- emulate_mbar.c ----------------------------------------------------- */

void emu_mbar_init(unsigned bar, int count);
void emu_mbar_fence(void);
void emu_mbar_arrive(unsigned bar, int cta, int bytes);
void emu_mbar_wait(unsigned bar, int parity);
struct emu_mbar *emu_mbar_at(struct rt_emu *e, struct emu_block *b,
			     unsigned at);
void emu_mbar_bytes(struct rt_emu *e, struct emu_mbar *m, int64_t n);
/* An arrival when products are done; `far`: those of another block. */
void emu_mbar_products(struct rt_emu *e, struct emu_mbar *m, bool far);

/* ---- emulate_tma.c ------------------------------------------------------ */

void emu_tma_load(unsigned to, const void *map, unsigned bar, int n,
		  const int *at, unsigned mask);
void emu_word_to(unsigned to, unsigned x, unsigned bar);
void emu_tma_store(const void *map, unsigned from, int n, const int *at,
		   int add);
void emu_bulk(float *to, unsigned from, int bytes, int add);
void emu_tma_commit(void);
void emu_tma_wait(int n, int read);
/* Completes one box, if one is under way. */
bool emu_tma_deliver(struct rt_emu *e);

/* The thread has ended: its stores are completed, or reported if it never
 * waited for them. */
void emu_tma_end(struct rt_emu *e, struct emu_task *t);

/* ---- emulate_count.c ---------------------------------------------------- */

/* Finds, by their text, which functions of the library order their blocks. */
enum rt_status emu_count_open(struct rt_emu *e, struct rt_error *err);
void emu_count_wait(const int *at, int n);
void emu_count_next(int *at);
/* The thread adds to global memory, or stores there, by `call'; it ends. */
void emu_count_add(struct rt_emu *e, const char *call, const void *to);
void emu_count_end(struct rt_emu *e, struct emu_task *t);

/* ---- emulate_check.c, emulate_check_async.c: accesses of checked code --- */

enum emu_mbar_event {
	EMU_MBAR_INIT, EMU_MBAR_ARRIVE, EMU_MBAR_LANDED, EMU_MBAR_OPEN,
	EMU_MBAR_WAIT
};

enum emu_box_event {
	EMU_BOX_LOAD,		/* shared memory will be written */
	EMU_BOX_LANDED,
	EMU_BOX_STORE,		/* it will be read */
	EMU_BOX_TAKEN
};

void emu_load(const void *p, long n);
void emu_store(const void *p, long n);
void emu_atomic(const void *p, long n);
void emu_fence_async(void);
void emu_begin(void);
void emu_regs(int n, int more);
enum rt_status emu_check_open_launch(struct rt_emu *e, struct rt_error *err);
void emu_check_start(struct rt_emu *e);
void emu_check_free(struct rt_emu *e);
/* Threads that synchronize: accesses before are ordered before accesses
 * after. */
void emu_check_arrive(struct rt_emu *e, struct emu_barrier *x);
void emu_check_join(struct rt_emu *e, struct emu_barrier *x,
		    struct emu_task *t);
void emu_check_open(struct rt_emu *e, struct emu_barrier *x);
void emu_check_warp(struct rt_emu *e, struct emu_warp *w);
void emu_check_cluster(struct rt_emu *e, bool wait);
void emu_check_mbar(struct rt_emu *e, struct emu_mbar *m,
		    enum emu_mbar_event what);
void emu_check_mbar_fence(struct rt_emu *e);
/* Accesses to shared memory by instructions. */
void emu_check_global(struct rt_emu *e, const void *p, int64_t n, bool write);
/* Where a thread begins to read or write global memory. */
void emu_check_begun(struct rt_emu *e, bool write);
void emu_check_issue(struct rt_emu *e, unsigned at, int64_t n);
void emu_check_landed(struct rt_emu *e, unsigned at, int64_t n);
void emu_check_read(struct rt_emu *e, unsigned at, int64_t n);
/* The thread uses an address of shared memory, perhaps of another block. */
void emu_check_far(struct rt_emu *e, unsigned at);
/* The last thread of all blocks has ended. */
void emu_check_end(struct rt_emu *e);
void emu_check_row(struct rt_emu *e, struct emu_task *t, unsigned at,
		   bool write);
void emu_check_wg(struct rt_emu *e, unsigned at);
void emu_check_wg_read(struct rt_emu *e, unsigned at);
void emu_check_wg_tick(struct rt_emu *e);
void emu_check_sums(struct rt_emu *e, struct emu_warp *w,
		    const struct emu_wg *x);
void emu_check_wg_done(struct rt_emu *e, struct emu_warp *w);
/* Registers that a tc_ld will write, or has written. */
void emu_check_loaded(struct rt_emu *e, const struct emu_task *t,
		      const void *p, int64_t bytes, bool pending);
void emu_check_box(struct rt_emu *e, const struct emu_box *x,
		   enum emu_box_event what);

#endif

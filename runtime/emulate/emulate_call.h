/*
 * The interface between a kernel compiled for a CPU and the emulator.  It is
 * compiled into the emulator, and is a file that kernels include: so it
 * includes nothing, and a change of it changes the cache key of every kernel.
 */
#ifndef RT_EMULATE_CALL_H
#define RT_EMULATE_CALL_H

/* What a kernel knows of the thread that runs it. */
struct emu_thread {
	int tid, lane, warp, threads;
	int block[3], blocks[3];
	int cluster_rank;
	char *smem;
};

enum emu_mma {
	EMU_BF16, EMU_F16, EMU_TF32, EMU_E4M3, EMU_E5M2
};

/* Kinds of products of tcgen05: .kind::f16, .kind::tf32, .kind::f8f6f4. */
enum {
	EMU_TC_F16, EMU_TC_TF32, EMU_TC_F8
};

/* Flags of wgmma. */
enum {
	EMU_ADD = 1, EMU_TRANS_A = 2, EMU_TRANS_B = 4
};

/* What the emulator does for a kernel. Addresses of shared memory are numbers,
 * as smem_addr returns them. */
struct emu_calls {
	unsigned (*address)(const void *p);
	/* n threads; 0: all of the block */
	void (*sync)(int id, int n);
	void (*arrive)(int id, int n);
	void (*warp_sync)(void);
	/* each lane reads the value of lane `from` */
	unsigned (*shuffle)(unsigned x, int from);
	unsigned (*warp_ballot)(int x);
	void (*cp_async)(unsigned to, const void *from, int bytes, int size);
	void (*cp_commit)(void);
	void (*cp_wait)(int n);
	void (*ldsm)(unsigned *r, unsigned at, int n, int trans);
	void (*stsm)(unsigned at, const unsigned *r, int n, int trans);
	void (*mma)(float *c, const unsigned *a, const unsigned *b,
		    int kind);
	void (*bar_init)(unsigned bar, int count);
	void (*bar_fence)(void);
	/* cta -1: that of this block */
	void (*bar_arrive)(unsigned bar, int cta, int bytes);
	void (*bar_wait)(unsigned bar, int parity);
	void (*async_fence)(void);
	/* mask 0: to this block */
	void (*box_load)(unsigned to, const void *map, unsigned bar, int n,
			 const int *at, unsigned mask);
	void (*box_store)(const void *map, unsigned from, int n,
			  const int *at, int add);
	void (*bulk)(float *to, unsigned from, int bytes, int add);
	/* a number in global memory that orders blocks */
	void (*count_wait)(const int *at, int n);
	void (*count_next)(int *at);
	void (*box_commit)(void);
	void (*box_wait)(int n, int read);
	void (*group_mma)(float *d, const unsigned *ra, unsigned long long a,
		       unsigned long long b, int n, int kind, int flags);
	void (*group_fence)(void);
	void (*group_commit)(void);
	void (*group_wait)(int n);
	/* tensor memory: n columns, whose address is stored at `at` */
	void (*tensor_alloc)(unsigned at, int n);
	void (*tensor_dealloc)(unsigned at, int n);
	void (*tensor_relinquish)(void);
	void (*tensor_mma)(unsigned d, unsigned long long a,
			   unsigned long long b, unsigned form, int what,
			   int add);
	/* a: an address of tensor memory */
	void (*tensor_mma_left)(unsigned d, unsigned a, unsigned long long b,
				unsigned form, int what, int add);
	/* mask 0: of this block */
	void (*tensor_commit)(unsigned bar, unsigned mask);
	void (*tensor_fence)(int after);
	void (*tensor_load)(float *d, unsigned at, int n);
	void (*tensor_wait)(void);
	/* of 32 columns; pairs: a thread has one of four, not two of eight */
	void (*tensor_store)(unsigned at, const void *from, int pairs);
	void (*tensor_wait_store)(void);
	void (*begin)(void);
	void (*regs)(int n, int more);
	void (*all_arrive)(void);
	void (*all_wait)(void);
	unsigned (*address_in)(unsigned at, int cta);
	/* a word, with the mbarrier that counts it, of any block */
	void (*word_to)(unsigned to, unsigned x, unsigned bar);
	/* four words, of any block of the cluster */
	void (*read_at)(unsigned at, unsigned *to);
	/* called by checked code: a plain load, a plain store, an atomic */
	void (*load)(const void *p, long n);
	void (*store)(const void *p, long n);
	void (*atomic)(const void *p, long n);
};

/* A kernel function of an image. */
struct emu_entry {
	const char *name;
	long image;
	void (*run)(const void *args);
	long args_bytes, threads;
};

/* The table that a compiled set of images exports. */
struct emu_library {
	const struct emu_entry *const *first, *const *end;
	const char *from, *to; /* the range of its constants and variables */
	/* sets the functions to call on this thread of the system; returns
	 * where to store the thread of the kernel that runs */
	struct emu_thread **(*bind)(const struct emu_calls *calls);
};

#endif

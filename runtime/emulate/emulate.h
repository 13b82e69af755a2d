/*
 * Runs kernels of a GPU on a CPU: the text that NVRTC compiles is compiled as
 * C, and each thread is a fibre (docs/cuda.md).  Built as the shared object
 * emulate.so, which device/ loads; tests link it.
 *
 * What is asynchronous on a GPU happens here as late as it may, or at moments
 * that a seed draws. Mistakes that a GPU answers with wrong numbers are errors
 * that name the kernel, the block and the thread.  Those in plain loads and
 * stores (races, reads of uninitialized memory, accesses out of bounds) are
 * found in checked code, which is some ten times slower.
 */
#ifndef RT_EMULATE_H
#define RT_EMULATE_H

#include "runtime/abi.h"
#include "runtime/rt.h"

struct rt_emu;

enum {
	RT_EMU_CHECK = 1,	/* compile checked code */
	/* a kernel may begin before the one before it has ended: what a thread
	 * does to global memory before launch_wait is an error, and so is its
	 * end */
	RT_EMU_EARLY = 2
};

/* Whether there is a C compiler that can compile kernels. */
int rt_emu_possible(void);
/* Compiles all images, or loads what was compiled before.  The images must
 * outlive it. */
enum rt_status rt_emu_open(struct rt_emu **out, const struct rt_images *images,
			   int flags, struct rt_error *err);
void rt_emu_close(struct rt_emu *e);

/* 0: as late as is legal; other seeds draw moments and orders. */
void rt_emu_seed(struct rt_emu *e, uint64_t seed);
/* Memory that kernels may access besides their own.  Once any is allowed,
 * checked code reports accesses to other memory. */
enum rt_status rt_emu_allow(struct rt_emu *e, const void *p, int64_t bytes,
			    struct rt_error *err);
void rt_emu_allow_none(struct rt_emu *e);

/* Writes the 128 bytes of a map, aligned to 64, as a kernel gets it; refuses
 * what cuTensorMapEncodeTiled refuses. */
enum rt_status rt_emu_map(void *out, const struct rt_map *m, char *operand,
			  struct rt_error *err);
/* Bytes of the struct that a function takes; -1: no such function. */
int64_t rt_emu_args(const struct rt_emu *e, int64_t image, const char *func);
/* The number of functions of all images; the index of one of them, -1: there is
 * none. */
int64_t rt_emu_functions(const struct rt_emu *e);
int64_t rt_emu_function(const struct rt_emu *e, int64_t image,
			const char *func);
/* Runs all blocks, one after another; `args` as in rt_grid. */
enum rt_status rt_emu_launch(struct rt_emu *e, const struct rt_grid *g,
			     const void *args, struct rt_error *err);

/* What emulate.so exports, and all that it does: the functions above that a
 * rank calls. */
struct rt_emulator {
	int64_t abi;		/* RT_ABI_VERSION when it was compiled */
	enum rt_status (*open)(struct rt_emu **, const struct rt_images *,
			       int, struct rt_error *);
	void (*close)(struct rt_emu *);
	enum rt_status (*allow)(struct rt_emu *, const void *, int64_t,
				struct rt_error *);
	enum rt_status (*map)(void *, const struct rt_map *, char *,
			      struct rt_error *);
	int64_t (*args)(const struct rt_emu *, int64_t, const char *);
	int64_t (*functions)(const struct rt_emu *);
	int64_t (*function)(const struct rt_emu *, int64_t, const char *);
	enum rt_status (*launch)(struct rt_emu *, const struct rt_grid *,
				 const void *, struct rt_error *);
};
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const struct rt_emulator rt_emulator;

#endif

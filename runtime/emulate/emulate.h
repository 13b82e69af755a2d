/*
 * emulate.h - kernels of a GPU on a CPU: the text that NVRTC compiles,
 * compiled as C, with a fibre for each thread (docs/cuda.md).
 *
 * What is asynchronous on a GPU arrives here as late as it may, or at moments
 * that a seed draws.  Mistakes that a GPU answers with wrong numbers are
 * errors that name the kernel, the block and the thread; those that only show
 * in plain loads and stores (races, reads of what nobody wrote, what lies
 * outside of memory) are found in checked code, which is some ten times
 * slower.
 */
#ifndef RT_EMULATE_H
#define RT_EMULATE_H

#include "runtime/abi.h"
#include "runtime/rt.h"

struct rt_emu;

enum {
	RT_EMU_CHECK = 1	/* compile checked code */
};

/* Whether there is a C compiler to compile kernels with. */
int rt_emu_possible(void);
/*
 * Compiles all images, unless they have been compiled before; copies nothing:
 * the images must outlive it.
 */
enum rt_status rt_emu_open(struct rt_emu **out, const struct rt_images *images,
			   int flags, struct rt_error *err);
void rt_emu_close(struct rt_emu *e);

/* 0: as late as is legal; other seeds: at moments, and in orders, that they
 * draw. */
void rt_emu_seed(struct rt_emu *e, uint64_t seed);
/*
 * Memory that kernels may touch, beside their own; checked code stays within
 * what has been allowed, if anything has.
 */
enum rt_status rt_emu_allow(struct rt_emu *e, const void *p, int64_t bytes,
			    struct rt_error *err);
void rt_emu_allow_none(struct rt_emu *e);

/* The 128 bytes of a map, on 64 bytes, as a kernel is called with it: what
 * cuTensorMapEncodeTiled refuses is refused here too. */
enum rt_status rt_emu_map(void *out, const struct rt_map *m, char *operand,
			  struct rt_error *err);
/* Bytes of the struct that a function takes; -1: no such function. */
int64_t rt_emu_args(const struct rt_emu *e, int64_t image, const char *func);
/* How many functions all images have, and which of them one is; -1: none. */
int64_t rt_emu_functions(const struct rt_emu *e);
int64_t rt_emu_function(const struct rt_emu *e, int64_t image,
			const char *func);
/* All blocks, one after the other; `args` as rt_grid says. */
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

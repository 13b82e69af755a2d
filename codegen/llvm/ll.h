/*
 * LLVM, as far as emitters need it.  codegen/cpu/ and codegen/host/ build
 * modules by these functions; ll.c alone includes LLVM's headers, and loads the
 * library when code is generated.  Types are small structs, values are opaque.
 * Functions that return a value append its instruction at the end of the
 * current block (ll_at, ll_here).
 */
#ifndef CODEGEN_LL_H
#define CODEGEN_LL_H

#include "ir/base.h"

enum ll_base {
	LL_VOID, LL_I1, LL_I8, LL_I16, LL_I32, LL_I64,
	LL_F16, LL_BF16, LL_F32, LL_F64, LL_PTR
};

/* A number, or a vector of `lanes` > 1 of them. */
struct ll_type {
	uint8_t base;		/* enum ll_base */
	uint16_t lanes;		/* 1: no vector */
};

static inline struct ll_type
ll_type(enum ll_base base, uint32_t lanes)
{
	return (struct ll_type){ (uint8_t)base, (uint16_t)lanes };
}

struct cg_cache;
struct ll;			/* a module being built, and its builder */
struct ll_value;		/* a number, a pointer, a function, data */
struct ll_block;

/* ---- modules ---- */

/*
 * A module for that CPU ("native", "x86-64-v3", "x86-64-v3+gfni", ..);
 * `quick`: with fast instruction selection.  NULL: *why.
 */
struct ll *ll_new(struct arena *a, const char *cpu, bool quick,
		  const char **why);
void ll_free(struct ll *l);
/* The CPU and its features, as LLVM has them: "znver4", "+avx512f,...". */
const char *ll_cpu(const struct ll *l);
const char *ll_features(const struct ll *l);
bool ll_has(const struct ll *l, const char *feature);	/* "avx512f" */
/* Whether it has the feature, and is quicker by it. */
bool ll_gains(const struct ll *l, const char *feature);
/* How many numbers of that base the widest register has. */
uint32_t ll_lanes(const struct ll *l, enum ll_base base);
/* Text; unoptimised before ll_optimize. */
void ll_print(struct ll *l, struct buf *out);
/* False: *why, which is a bug of an emitter. */
bool ll_verify(struct ll *l, const char **why);
enum ll_effort { LL_WELL, LL_QUICKLY, LL_TIDILY };
bool ll_optimize(struct ll *l, enum ll_effort e, const char **why);
/*
 * Optimises the module and appends its object file, or one from the cache
 * that was made of an equal module.  `cache` NULL: always a new one.
 */
bool ll_compile(struct ll *l, enum ll_effort e, const struct cg_cache *cache,
		struct buf *out, const char **why);

/* ---- functions ---- */

/* A function, external if `shown`; its first block becomes the current one. */
struct ll_value *ll_func(struct ll *l, const char *name, struct ll_type ret,
			 const struct ll_type *params, uint32_t n, bool shown);
struct ll_value *ll_param(struct ll *l, struct ll_value *func, uint32_t i);
/* A function of the C library, or the runtime. */
struct ll_value *ll_extern(struct ll *l, const char *name, struct ll_type ret,
			   const struct ll_type *params, uint32_t n);
/* No other pointer of the function leads there, as with `restrict`. */
void ll_noalias(struct ll *l, struct ll_value *func, uint32_t param);
/* It is never inlined. */
void ll_apart(struct ll *l, struct ll_value *func);
/* A new block of func; NULL: of the function of the current block. */
struct ll_block *ll_block(struct ll *l, struct ll_value *func,
			  const char *name);
void ll_at(struct ll *l, struct ll_block *b);
struct ll_block *ll_here(struct ll *l);

void ll_jump(struct ll *l, struct ll_block *to);
void ll_branch(struct ll *l, struct ll_value *cond, struct ll_block *yes,
	       struct ll_block *no);
void ll_return(struct ll *l, struct ll_value *v);	/* NULL: nothing */
/* ll_phi_add is called for each block that jumps here, when that ends. */
struct ll_value *ll_phi(struct ll *l, struct ll_type t);
void ll_phi_add(struct ll *l, struct ll_value *phi, struct ll_value *v,
		struct ll_block *from);
struct ll_value *ll_call(struct ll *l, struct ll_value *func,
			 struct ll_value *const *args, uint32_t n);
/* The same of a pointer to such a function. */
struct ll_value *ll_call_ptr(struct ll *l, struct ll_value *ptr,
			     struct ll_type ret, const struct ll_type *params,
			     struct ll_value *const *args, uint32_t n);

/*
 * for (i = from; i < to; i += step), all i64; carries up to LL_CARRY values.
 *	ll_loop(l, &k, from, to, 1, init, n);   body: k.i, k.at[0] ...
 *	ll_loop_end(l, &k, next);               then: k.at[0] .. are the last
 * The body may run not even once.
 */
#define LL_CARRY 64
struct ll_loop {
	struct ll_value *i;
	struct ll_value *at[LL_CARRY];
	uint32_t n;
	/* for ll_loop_end */
	struct ll_value *to;
	int64_t step;
	struct ll_block *head, *after;
};
void ll_loop(struct ll *l, struct ll_loop *k, struct ll_value *from,
	     struct ll_value *to, int64_t step,
	     struct ll_value *const *init, uint32_t n);
void ll_loop_end(struct ll *l, struct ll_loop *k,
		 struct ll_value *const *next);

/* ---- constants and data ---- */

/* The number in all lanes. */
struct ll_value *ll_int(struct ll *l, struct ll_type t, int64_t v);
struct ll_value *ll_num(struct ll *l, struct ll_type t, double v);
struct ll_value *ll_i64(struct ll *l, int64_t v);
struct ll_value *ll_null(struct ll *l);	/* a pointer */
struct ll_value *ll_zero(struct ll *l, struct ll_type t);
struct ll_value *ll_undef(struct ll *l, struct ll_type t);
/* <0, 1, 2, ...> */
struct ll_value *ll_iota(struct ll *l, struct ll_type t);
/*
 * Constant data: i64, double and pointers side by side.  `name` NULL: they are
 * internal, and equal data are one object.  `words` NULL: they are defined in
 * another object file.
 */
struct ll_value *ll_data(struct ll *l, const char *name,
			 struct ll_value *const *words, uint32_t n);
/* A constant pointer to word i of data. */
struct ll_value *ll_data_at(struct ll *l, struct ll_value *data, uint32_t i);
/* The same of n i64. */
struct ll_value *ll_table(struct ll *l, const int64_t *at, uint32_t n);
/* A string with its NUL; equal ones are one. */
struct ll_value *ll_text(struct ll *l, const char *s);
struct ll_value *ll_bytes(struct ll *l, const void *at, size_t n);

/* ---- arithmetic; operands of one type ---- */

enum ll_op {
	LL_ADD, LL_SUB, LL_MUL, LL_DIV, LL_REM,	/* of floats, or signed */
	LL_UDIV, LL_UREM, LL_AND, LL_OR, LL_XOR, LL_SHL, LL_LSHR, LL_ASHR
};
enum ll_test { LL_EQ, LL_NE, LL_LT, LL_LE, LL_GT, LL_GE, LL_ULT };

struct ll_type ll_typeof(struct ll *l, struct ll_value *v);
struct ll_value *ll_bin(struct ll *l, enum ll_op op, struct ll_value *a,
			struct ll_value *b);
struct ll_value *ll_neg(struct ll *l, struct ll_value *a);
/* i1.  With NaN all are false but LL_NE. */
struct ll_value *ll_test(struct ll *l, enum ll_test t, struct ll_value *a,
			 struct ll_value *b);
struct ll_value *ll_select(struct ll *l, struct ll_value *cond,
			   struct ll_value *yes, struct ll_value *no);
/* To another base, with as many lanes; integers are signed, i1 is 0 or 1. */
struct ll_value *ll_cast(struct ll *l, struct ll_value *v, enum ll_base to);
/* The same bits as another type. */
struct ll_value *ll_bits(struct ll *l, struct ll_value *v, struct ll_type to);
struct ll_value *ll_fma(struct ll *l, struct ll_value *a, struct ll_value *b,
			struct ll_value *c);
/*
 * llvm.NAME of one to three operands of one type: "sqrt", "fabs", "floor",
 * "maxnum", "minnum", "roundeven".
 */
struct ll_value *ll_math(struct ll *l, const char *name,
			 struct ll_value *const *args, uint32_t n);
/* An intrinsic by its full name, and the types that overload it. */
struct ll_value *ll_overloaded(struct ll *l, const char *name,
			       const struct ll_type *over, uint32_t nover,
			       struct ll_value *const *args, uint32_t n);
/* One without overloads, or for the type of its result. */
struct ll_value *ll_intrinsic(struct ll *l, const char *name,
			      struct ll_type ret,
			      struct ll_value *const *args, uint32_t n);

/* ---- arithmetic of i64 ---- */

static inline struct ll_value *
ll_add(struct ll *l, struct ll_value *a, struct ll_value *b)
{
	return ll_bin(l, LL_ADD, a, b);
}

static inline struct ll_value *
ll_sub(struct ll *l, struct ll_value *a, struct ll_value *b)
{
	return ll_bin(l, LL_SUB, a, b);
}

static inline struct ll_value *
ll_min(struct ll *l, struct ll_value *a, struct ll_value *b)
{
	return ll_select(l, ll_test(l, LL_LT, a, b), a, b);
}

/* By a constant; of numbers that are not negative. */
static inline struct ll_value *
ll_mul_n(struct ll *l, struct ll_value *a, int64_t n)
{
	return n == 1 ? a : ll_bin(l, LL_MUL, a, ll_i64(l, n));
}

static inline struct ll_value *
ll_div_n(struct ll *l, struct ll_value *a, int64_t n)
{
	return n == 1 ? a : ll_bin(l, LL_UDIV, a, ll_i64(l, n));
}

static inline struct ll_value *
ll_rem_n(struct ll *l, struct ll_value *a, int64_t n)
{
	return n == 1 ? ll_i64(l, 0) : ll_bin(l, LL_UREM, a, ll_i64(l, n));
}

/* ---- vectors ---- */

struct ll_value *ll_splat(struct ll *l, struct ll_value *v, uint32_t lanes);
struct ll_value *ll_lane(struct ll *l, struct ll_value *v, uint32_t i);
struct ll_value *ll_set_lane(struct ll *l, struct ll_value *v,
			     struct ll_value *x, uint32_t i);
/* n lanes of a and b, by number, a's first; -1: any. */
struct ll_value *ll_shuffle(struct ll *l, struct ll_value *a,
			    struct ll_value *b, const int *pick, uint32_t n);
/* Over all lanes, in the order of a tree. */
struct ll_value *ll_sum(struct ll *l, struct ll_value *v);
struct ll_value *ll_max(struct ll *l, struct ll_value *v);
/* i1 of the first n lanes; n is an i64. */
struct ll_value *ll_mask(struct ll *l, struct ll_value *n, uint32_t lanes);

/* ---- memory ---- */

/* Alignment is that of an element. */
struct ll_value *ll_load(struct ll *l, struct ll_type t, struct ll_value *ptr);
void ll_store(struct ll *l, struct ll_value *v, struct ll_value *ptr);
/* Memory is only touched where the mask is set; other lanes load 0. */
struct ll_value *ll_load_if(struct ll *l, struct ll_type t,
			    struct ll_value *ptr, struct ll_value *mask);
void ll_store_if(struct ll *l, struct ll_value *v, struct ll_value *ptr,
		 struct ll_value *mask);
/* Loads from base + offsets, i64 of bytes; mask NULL: all lanes. */
struct ll_value *ll_gather(struct ll *l, struct ll_type t,
			   struct ll_value *base, struct ll_value *offsets,
			   struct ll_value *mask);
/* Adds to the i32 at ptr, as one step for all threads, and returns what it had.
 * Of a thread that reads what another added, all loads after it see all stores
 * of the other before its own. */
struct ll_value *ll_add_atomic(struct ll *l, struct ll_value *ptr,
			       struct ll_value *v);
struct ll_value *ll_plus(struct ll *l, struct ll_value *ptr,
			 struct ll_value *bytes);
struct ll_value *ll_plus_n(struct ll *l, struct ll_value *ptr, int64_t bytes);
/* An array on the stack, allocated when the function begins; 64-byte
 * aligned. */
struct ll_value *ll_stack(struct ll *l, struct ll_type t, int64_t n);
void ll_copy(struct ll *l, struct ll_value *to, struct ll_value *from,
	     struct ll_value *bytes);
/* Of the line at ptr: into all caches, or all but the first. */
void ll_prefetch(struct ll *l, struct ll_value *ptr);
void ll_prefetch_l2(struct ll *l, struct ll_value *ptr);

/* ---- from ll.c for ll_derived.c alone ---- */

struct arena *ll_arena(struct ll *l);
/* Runs LLVM's passes by their names.  False: *why. */
bool ll_passes(struct ll *l, const char *passes, const char **why);
/* Appends the object file of the module as it is. */
bool ll_object(struct ll *l, struct buf *out, const char **why);
/* What an object depends on beside the module and passes. */
const char *ll_settings(struct ll *l);
/* ll_cast to another base; neither is bf16. */
struct ll_value *ll_convert(struct ll *l, struct ll_value *v,
			    enum ll_base base);

#endif

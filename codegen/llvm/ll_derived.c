/*
 * Loops, bf16, masked memory, optimising and compiling: all that is composed
 * of functions of ll.c and needs no header of LLVM.
 */
#include "codegen/link/compile_cache.h"
#include "codegen/cg.h"
#include "codegen/llvm/ll.h"
#include "codegen/llvm/ll_cpu.h"

#include <string.h>

/* ---- the CPU that code is for ---- */

const char *
cg_cpu_host(struct arena *a)
{
	const char *why, *name;
	struct ll *l = ll_new(a, "native", true, &why);

	if (!l) {
		return "native";
	}
	name = ll_cpu(l);
	ll_free(l);
	return name;
}

bool
cg_cpu_host_has(struct arena *a, const char *feature)
{
	const char *why;
	struct ll *l = ll_new(a, "native", true, &why);
	bool has = l && ll_has(l, feature);

	if (l) {
		ll_free(l);
	}
	return has;
}

bool
ll_gains(const struct ll *l, const char *feature)
{
	return ll_has(l, feature) && ll_cpu_gains(ll_cpu(l), feature);
}

/* ---- modules ---- */

/*
 * LLVM neither vectorises nor unrolls loops: emitters have done so, and a
 * second time costs time and code.  LL_QUICKLY, with LLVM's fast instruction
 * selection, takes a fifth of the time of LL_WELL.  Code that only launches
 * kernels is LL_TIDILY optimised, without InstCombine, which for each store
 * into an array of arguments looks at all others: 15 s for GPT-2.
 */
static const char *const passes_of[] = {
	[LL_WELL] = "default<O2>",
	[LL_QUICKLY] = "function(sroa,early-cse<memssa>,simplifycfg,"
		       "instcombine<no-verify-fixpoint>,simplifycfg,"
		       "early-cse<memssa>),globaldce",
	[LL_TIDILY] = "function(early-cse,simplifycfg),globaldce"
};

bool
ll_optimize(struct ll *l, enum ll_effort e, const char **why)
{
	return ll_passes(l, passes_of[e], why);
}

/* A hash of all that an object depends on. */
static struct rt_hash
key_of(struct ll *l, enum ll_effort e)
{
	struct rt_hash h;
	struct buf text;

	buf_init(&text, ll_arena(l));
	ll_print(l, &text);
	rt_hash_init(&h);
	rt_hash_text(&h, "object");
	rt_hash_text(&h, ll_settings(l));
	rt_hash_text(&h, passes_of[e]);
	rt_hash_add(&h, text.at, text.n);
	return h;
}

bool
ll_compile(struct ll *l, enum ll_effort e, const struct cg_cache *cache,
	   struct buf *out, const char **why)
{
	struct cg_part parts[CG_PARTS] = { { NULL, 0 } };
	struct rt_hash key = { 0, 0 };
	size_t before = out->n;

	if (cache) {
		key = key_of(l, e);
		if (cg_cache_get(cache, key, ll_arena(l), parts)) {
			buf_add(out, parts[0].at, parts[0].n);
			return true;
		}
	}
	if (!ll_optimize(l, e, why) || !ll_object(l, out, why)) {
		return false;
	}
	if (cache) {
		parts[0] = (struct cg_part){ out->at + before,
					     out->n - before };
		cg_cache_put(cache, key, parts);
		cg_cache_trim(cache);
	}
	return true;
}

/* ---- loops ---- */

void
ll_loop(struct ll *l, struct ll_loop *k, struct ll_value *from,
	struct ll_value *to, int64_t step, struct ll_value *const *init,
	uint32_t n)
{
	struct ll_block *before = ll_here(l), *body = ll_block(l, NULL, "");
	uint32_t i;

	if (n > LL_CARRY) {
		die("%u values in a loop", n);
	}
	k->n = n;
	k->to = to;
	k->step = step;
	k->head = ll_block(l, NULL, "");
	k->after = ll_block(l, NULL, "");
	ll_jump(l, k->head);
	ll_at(l, k->head);
	k->i = ll_phi(l, ll_type(LL_I64, 1));
	ll_phi_add(l, k->i, from, before);
	for (i = 0; i < n; i++) {
		k->at[i] = ll_phi(l, ll_typeof(l, init[i]));
		ll_phi_add(l, k->at[i], init[i], before);
	}
	ll_branch(l, ll_test(l, LL_LT, k->i, to), body, k->after);
	ll_at(l, body);
}

void
ll_loop_end(struct ll *l, struct ll_loop *k, struct ll_value *const *next)
{
	struct ll_block *last = ll_here(l);
	uint32_t i;

	ll_phi_add(l, k->i, ll_bin(l, LL_ADD, k->i, ll_i64(l, k->step)), last);
	for (i = 0; i < k->n; i++) {
		ll_phi_add(l, k->at[i], next[i], last);
	}
	ll_jump(l, k->head);
	ll_at(l, k->after);
}

/* ---- bf16 ---- */

/*
 * For bf16 LLVM uses instructions that flush subnormal numbers on some CPUs,
 * and library calls on all others.  So casts are integer arithmetic on all
 * CPUs: a bf16 is the upper half of an f32.
 */
static struct ll_value *
from_bf16(struct ll *l, struct ll_value *v)
{
	uint32_t lanes = ll_typeof(l, v).lanes;
	struct ll_type i32 = ll_type(LL_I32, lanes);

	v = ll_bits(l, v, ll_type(LL_I16, lanes));
	v = ll_convert(l, v, LL_I32);	/* the sign bits are shifted out */
	v = ll_bin(l, LL_SHL, v, ll_int(l, i32, 16));
	return ll_bits(l, v, ll_type(LL_F32, lanes));
}

/* Rounded to the nearest, to even on a tie; NaN stays NaN. */
static struct ll_value *
to_bf16(struct ll *l, struct ll_value *v)
{
	uint32_t lanes = ll_typeof(l, v).lanes;
	struct ll_type i32 = ll_type(LL_I32, lanes);
	struct ll_value *x = ll_bits(l, v, i32), *up, *nan;

	nan = ll_test(l, LL_NE, v, v);
	up = ll_bin(l, LL_LSHR, x, ll_int(l, i32, 16));
	up = ll_bin(l, LL_AND, up, ll_int(l, i32, 1));
	up = ll_bin(l, LL_ADD, up, ll_int(l, i32, 0x7fff));
	up = ll_bin(l, LL_ADD, x, up);
	x = ll_bin(l, LL_OR, x, ll_int(l, i32, 0x400000));
	x = ll_bin(l, LL_LSHR, ll_select(l, nan, x, up), ll_int(l, i32, 16));
	x = ll_convert(l, x, LL_I16);
	return ll_bits(l, x, ll_type(LL_BF16, lanes));
}

struct ll_value *
ll_cast(struct ll *l, struct ll_value *v, enum ll_base base)
{
	enum ll_base from = (enum ll_base)ll_typeof(l, v).base;

	if (from == base) {
		return v;
	}
	if (from == LL_BF16) {
		return ll_cast(l, from_bf16(l, v), base);
	}
	if (base == LL_BF16) {
		return to_bf16(l, ll_cast(l, v, LL_F32));
	}
	return ll_convert(l, v, base);
}

/* ---- vectors ---- */

struct ll_value *
ll_splat(struct ll *l, struct ll_value *v, uint32_t lanes)
{
	static const int first[LL_CARRY];
	struct ll_type t = ll_typeof(l, v);

	if (lanes <= 1) {
		return v;
	}
	t.lanes = (uint16_t)lanes;
	v = ll_set_lane(l, ll_undef(l, t), v, 0);
	return ll_shuffle(l, v, v, first, lanes);
}

/* Combines the two halves of a vector until one lane is left. */
static struct ll_value *
fold(struct ll *l, struct ll_value *v,
     struct ll_value *(*both)(struct ll *l, struct ll_value *a,
			      struct ll_value *b))
{
	uint32_t n = ll_typeof(l, v).lanes, i;
	struct ll_value *rest;

	for (; n > 2; n /= 2) {
		int low[LL_CARRY], high[LL_CARRY];

		for (i = 0; i < n / 2; i++) {
			low[i] = (int)i;
			high[i] = (int)(n / 2 + i);
		}
		rest = ll_shuffle(l, v, v, high, n / 2);
		v = both(l, ll_shuffle(l, v, v, low, n / 2), rest);
	}
	if (n < 2) {
		return v;
	}
	rest = ll_lane(l, v, 1);
	return both(l, ll_lane(l, v, 0), rest);
}

static struct ll_value *
both_sum(struct ll *l, struct ll_value *a, struct ll_value *b)
{
	return ll_bin(l, LL_ADD, a, b);
}

static struct ll_value *
both_max(struct ll *l, struct ll_value *a, struct ll_value *b)
{
	return ll_select(l, ll_test(l, LL_GT, a, b), a, b);
}

struct ll_value *
ll_sum(struct ll *l, struct ll_value *v)
{
	return fold(l, v, both_sum);
}

struct ll_value *
ll_max(struct ll *l, struct ll_value *v)
{
	return fold(l, v, both_max);
}

struct ll_value *
ll_mask(struct ll *l, struct ll_value *n, uint32_t lanes)
{
	struct ll_value *most = ll_i64(l, lanes);

	n = ll_select(l, ll_test(l, LL_LT, n, most), n, most);
	n = ll_splat(l, ll_cast(l, n, LL_I32), lanes);
	return ll_test(l, LL_LT, ll_iota(l, ll_type(LL_I32, lanes)), n);
}

/* ---- constants, intrinsics, memory ---- */

struct ll_value *
ll_null(struct ll *l)
{
	return ll_zero(l, ll_type(LL_PTR, 1));
}

struct ll_value *
ll_i64(struct ll *l, int64_t v)
{
	return ll_int(l, ll_type(LL_I64, 1), v);
}

struct ll_value *
ll_table(struct ll *l, const int64_t *at, uint32_t n)
{
	struct ll_value **words;
	uint32_t i;

	words = arena_alloc(ll_arena(l), (n + 1) * sizeof *words);
	for (i = 0; i < n; i++) {
		words[i] = ll_i64(l, at[i]);
	}
	return ll_data(l, NULL, words, n);
}

struct ll_value *
ll_math(struct ll *l, const char *name, struct ll_value *const *args,
	uint32_t n)
{
	char full[40];
	struct buf b;

	buf_init(&b, ll_arena(l));
	buf_printf(&b, "llvm.%s", name);
	if (b.n >= sizeof full) {
		die("%s", name);
	}
	memcpy(full, b.at, b.n + 1);
	return ll_intrinsic(l, full, ll_typeof(l, args[0]), args, n);
}

struct ll_value *
ll_fma(struct ll *l, struct ll_value *a, struct ll_value *b,
       struct ll_value *c)
{
	struct ll_value *args[] = { a, b, c };

	return ll_intrinsic(l, "llvm.fma", ll_typeof(l, a), args, 3);
}

struct ll_value *
ll_plus_n(struct ll *l, struct ll_value *ptr, int64_t bytes)
{
	return bytes ? ll_plus(l, ptr, ll_i64(l, bytes)) : ptr;
}

static struct ll_value *
i32_of(struct ll *l, int64_t i)
{
	return ll_int(l, ll_type(LL_I32, 1), i);
}

/* Most are overloaded by the type of their result alone. */
struct ll_value *
ll_intrinsic(struct ll *l, const char *name, struct ll_type ret,
	     struct ll_value *const *args, uint32_t n)
{
	return ll_overloaded(l, name, &ret, 1, args, n);
}

static struct ll_value *
alignment(struct ll *l, struct ll_type t)
{
	static const uint8_t bytes[] = {
		[LL_VOID] = 1, [LL_I1] = 1, [LL_I8] = 1, [LL_I16] = 2,
		[LL_I32] = 4, [LL_I64] = 8, [LL_F16] = 2, [LL_BF16] = 2,
		[LL_F32] = 4, [LL_F64] = 8, [LL_PTR] = 8
	};

	return i32_of(l, bytes[t.base]);
}

/*
 * bf16 goes to and from memory as integers: LLVM would make scalars of masked
 * lanes, and of a scalar bf16 a call of compiler-rt, which is not linked.
 */
static struct ll_type
in_memory(struct ll_type t)
{
	return t.base == LL_BF16 ? ll_type(LL_I16, t.lanes) : t;
}

struct ll_value *
ll_load_if(struct ll *l, struct ll_type t, struct ll_value *ptr,
	   struct ll_value *mask)
{
	struct ll_type as = in_memory(t);
	struct ll_value *args[] = { ptr, alignment(l, t), mask,
				    ll_zero(l, as) };
	struct ll_type over[] = { as, ll_type(LL_PTR, 1) };

	return ll_bits(l, ll_overloaded(l, "llvm.masked.load", over, 2, args,
					4), t);
}

void
ll_store_if(struct ll *l, struct ll_value *v, struct ll_value *ptr,
	    struct ll_value *mask)
{
	struct ll_type as = in_memory(ll_typeof(l, v));
	struct ll_value *args[] = { ll_bits(l, v, as), ptr,
				    alignment(l, as), mask };
	struct ll_type over[] = { as, ll_type(LL_PTR, 1) };

	ll_overloaded(l, "llvm.masked.store", over, 2, args, 4);
}

struct ll_value *
ll_gather(struct ll *l, struct ll_type t, struct ll_value *base,
	  struct ll_value *offsets, struct ll_value *mask)
{
	struct ll_type as = in_memory(t);
	struct ll_value *ptrs = ll_plus(l, base, offsets);
	struct ll_value *args[] = { ptrs, alignment(l, t), mask,
				    ll_zero(l, as) };
	struct ll_type over[] = { as, ll_type(LL_PTR, t.lanes) };

	if (!mask) {
		args[2] = ll_int(l, ll_type(LL_I1, t.lanes), 1);
	}
	return ll_bits(l, ll_overloaded(l, "llvm.masked.gather", over, 2,
					args, 4), t);
}

static void
prefetch(struct ll *l, struct ll_value *ptr, int locality)
{
	/* for a read, of data */
	struct ll_value *args[] = { ptr, i32_of(l, 0), i32_of(l, locality),
				    i32_of(l, 1) };
	struct ll_type over = ll_type(LL_PTR, 1);

	ll_overloaded(l, "llvm.prefetch", &over, 1, args, 4);
}

void
ll_prefetch(struct ll *l, struct ll_value *ptr)
{
	prefetch(l, ptr, 3);
}

void
ll_prefetch_l2(struct ll *l, struct ll_value *ptr)
{
	prefetch(l, ptr, 2);
}

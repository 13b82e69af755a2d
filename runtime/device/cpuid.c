/*
 * Whether this CPU has the features that the plan's code needs.
 *
 * Names are LLVM's, bits those of Intel's manual, volume 2A, CPUID. Names that
 * are not in the table affect speed alone, or belong to code that no plan has;
 * they are not checked.
 */
#include "runtime/device/cpuid.h"
#include "runtime/device/this_machine.h"

#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum reg { A, B, C, D };

/* Registers that the system must save: bits of XCR0. */
#define SSE_STATE 0
#define AVX_STATE 0x6
#define AVX512_STATE 0xe6
#define AMX_STATE 0x60000

#define ASK_PERMISSION 0x1023	/* ARCH_REQ_XCOMP_PERM, of Linux */
#define AMX_DATA 18

static const struct feature {
	const char *name;
	uint32_t leaf, sub;
	enum reg reg;
	int bit;
	uint64_t state;
} features[] = {
	{ "sse3", 1, 0, C, 0, SSE_STATE },
	{ "pclmul", 1, 0, C, 1, SSE_STATE },
	{ "ssse3", 1, 0, C, 9, SSE_STATE },
	{ "fma", 1, 0, C, 12, AVX_STATE },
	{ "cx16", 1, 0, C, 13, SSE_STATE },
	{ "sse4.1", 1, 0, C, 19, SSE_STATE },
	{ "sse4.2", 1, 0, C, 20, SSE_STATE },
	{ "movbe", 1, 0, C, 22, SSE_STATE },
	{ "popcnt", 1, 0, C, 23, SSE_STATE },
	{ "aes", 1, 0, C, 25, SSE_STATE },
	{ "xsave", 1, 0, C, 26, SSE_STATE },
	{ "avx", 1, 0, C, 28, AVX_STATE },
	{ "f16c", 1, 0, C, 29, AVX_STATE },
	{ "rdrnd", 1, 0, C, 30, SSE_STATE },
	{ "bmi", 7, 0, B, 3, SSE_STATE },
	{ "avx2", 7, 0, B, 5, AVX_STATE },
	{ "bmi2", 7, 0, B, 8, SSE_STATE },
	{ "avx512f", 7, 0, B, 16, AVX512_STATE },
	{ "avx512dq", 7, 0, B, 17, AVX512_STATE },
	{ "adx", 7, 0, B, 19, SSE_STATE },
	{ "avx512ifma", 7, 0, B, 21, AVX512_STATE },
	{ "avx512cd", 7, 0, B, 28, AVX512_STATE },
	{ "sha", 7, 0, B, 29, SSE_STATE },
	{ "avx512bw", 7, 0, B, 30, AVX512_STATE },
	{ "avx512vl", 7, 0, B, 31, AVX512_STATE },
	{ "avx512vbmi", 7, 0, C, 1, AVX512_STATE },
	{ "avx512vbmi2", 7, 0, C, 6, AVX512_STATE },
	{ "gfni", 7, 0, C, 8, SSE_STATE },
	{ "vaes", 7, 0, C, 9, AVX_STATE },
	{ "vpclmulqdq", 7, 0, C, 10, AVX_STATE },
	{ "avx512vnni", 7, 0, C, 11, AVX512_STATE },
	{ "avx512bitalg", 7, 0, C, 12, AVX512_STATE },
	{ "avx512vpopcntdq", 7, 0, C, 14, AVX512_STATE },
	{ "avx512vp2intersect", 7, 0, D, 8, AVX512_STATE },
	{ "amx-bf16", 7, 0, D, 22, AMX_STATE },
	{ "avx512fp16", 7, 0, D, 23, AVX512_STATE },
	{ "amx-tile", 7, 0, D, 24, AMX_STATE },
	{ "amx-int8", 7, 0, D, 25, AMX_STATE },
	{ "avxvnni", 7, 1, A, 4, AVX_STATE },
	{ "avx512bf16", 7, 1, A, 5, AVX512_STATE },
	{ "amx-fp16", 7, 1, A, 21, AMX_STATE },
	{ "avxifma", 7, 1, A, 23, AVX_STATE },
	{ "avxvnniint8", 7, 1, D, 4, AVX_STATE },
	{ "avxneconvert", 7, 1, D, 5, AVX_STATE },
	{ "lzcnt", 0x80000001, 0, C, 5, SSE_STATE },
	{ "sse4a", 0x80000001, 0, C, 6, SSE_STATE },
	{ "xop", 0x80000001, 0, C, 11, AVX_STATE },
	{ "fma4", 0x80000001, 0, C, 16, AVX_STATE },
	{ "tbm", 0x80000001, 0, C, 21, SSE_STATE },
};

static uint64_t
saved_state(void)
{
	uint32_t a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) {
		return 0;
	}
	__asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
	return (uint64_t)d << 32 | a;
}

static bool
has_feature(const struct feature *f)
{
	uint32_t r[4] = { 0 };

	return __get_cpuid_count(f->leaf, f->sub, &r[A], &r[B], &r[C],
				 &r[D]) &&
	       r[f->reg] >> f->bit & 1 &&
	       (saved_state() & f->state) == f->state;
}

bool
rt_cpu_has(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof features / sizeof *features; i++) {
		if (strcmp(features[i].name, name) == 0) {
			return has_feature(&features[i]);
		}
	}
	return true;
}

static const char *
best_level(void)
{
	if (rt_cpu_has("avx512f") && rt_cpu_has("avx512bw") &&
	    rt_cpu_has("avx512cd") && rt_cpu_has("avx512dq") &&
	    rt_cpu_has("avx512vl")) {
		return "x86-64-v4";
	}
	return rt_cpu_has("avx2") && rt_cpu_has("fma") &&
	       rt_cpu_has("bmi2") && rt_cpu_has("f16c") ? "x86-64-v3"
							: "x86-64-v2";
}

bool
rt_cpu_allow(const char *name)
{
	return strcmp(name, "amx-tile") != 0 ||
	       syscall(SYS_arch_prctl, ASK_PERMISSION, AMX_DATA) == 0;
}

struct rt_shown
rt_cpu_name(void)
{
	char name[49] = "";
	uint32_t r[12], i;

	for (i = 0; i < 3; i++) {
		if (!__get_cpuid(0x80000002 + i, &r[4 * i], &r[4 * i + 1],
				 &r[4 * i + 2], &r[4 * i + 3])) {
			return rt_show_name("");
		}
	}
	memcpy(name, r, sizeof r);
	return rt_show_name(name + strspn(name, " "));
}

#else

bool
rt_cpu_has(const char *name)
{
	(void)name;
	return false;
}

static const char *
best_level(void)
{
	return "native";
}

bool
rt_cpu_allow(const char *name)
{
	(void)name;
	return true;
}

struct rt_shown
rt_cpu_name(void)
{
	return rt_show_name("");
}

#endif

enum rt_status
rt_cpu_check(const struct rt_plan *p, struct rt_error *err)
{
	struct rt_shown cpu = rt_cpu_name();
	int64_t i;

	for (i = 0; i < p->nfeatures; i++) {
		if (!rt_cpu_has(p->features[i])) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE,
				"this plan is for the CPU %s and needs %s; "
				"this CPU (%s) has not; compile it with --cpu "
				"%s", p->cpu, p->features[i],
				cpu.text[0] ? cpu.text : "unnamed",
				best_level());
		}
	}
	for (i = 0; i < p->nfeatures; i++) {
		if (!rt_cpu_allow(p->features[i])) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE,
				"this plan needs %s, which this system does "
				"not let programs use; compile it with --cpu "
				"%s", p->features[i], best_level());
		}
	}
	return RT_OK;
}

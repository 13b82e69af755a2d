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

enum leaf { LEAF_1, LEAF_7, LEAF_7_1, LEAF_AMD };

static const struct {
	uint32_t leaf, sub;
} leaves[RT_CPU_LEAVES] = { { 1, 0 }, { 7, 0 }, { 7, 1 }, { 0x80000001, 0 } };

/* Registers that the system must save: bits of XCR0. */
#define SSE_STATE 0
#define AVX_STATE 0x6
#define AVX512_STATE 0xe6
#define AMX_STATE 0x60000

#define ASK_PERMISSION 0x1023	/* ARCH_REQ_XCOMP_PERM, of Linux */
#define AMX_DATA 18

static const struct feature {
	const char *name;
	enum leaf leaf;
	enum reg reg;
	int bit;
	uint64_t state;
} features[] = {
	{ "sse3", LEAF_1, C, 0, SSE_STATE },
	{ "pclmul", LEAF_1, C, 1, SSE_STATE },
	{ "ssse3", LEAF_1, C, 9, SSE_STATE },
	{ "fma", LEAF_1, C, 12, AVX_STATE },
	{ "cx16", LEAF_1, C, 13, SSE_STATE },
	{ "sse4.1", LEAF_1, C, 19, SSE_STATE },
	{ "sse4.2", LEAF_1, C, 20, SSE_STATE },
	{ "movbe", LEAF_1, C, 22, SSE_STATE },
	{ "popcnt", LEAF_1, C, 23, SSE_STATE },
	{ "aes", LEAF_1, C, 25, SSE_STATE },
	{ "xsave", LEAF_1, C, 26, SSE_STATE },
	{ "avx", LEAF_1, C, 28, AVX_STATE },
	{ "f16c", LEAF_1, C, 29, AVX_STATE },
	{ "rdrnd", LEAF_1, C, 30, SSE_STATE },
	{ "bmi", LEAF_7, B, 3, SSE_STATE },
	{ "avx2", LEAF_7, B, 5, AVX_STATE },
	{ "bmi2", LEAF_7, B, 8, SSE_STATE },
	{ "avx512f", LEAF_7, B, 16, AVX512_STATE },
	{ "avx512dq", LEAF_7, B, 17, AVX512_STATE },
	{ "adx", LEAF_7, B, 19, SSE_STATE },
	{ "avx512ifma", LEAF_7, B, 21, AVX512_STATE },
	{ "avx512cd", LEAF_7, B, 28, AVX512_STATE },
	{ "sha", LEAF_7, B, 29, SSE_STATE },
	{ "avx512bw", LEAF_7, B, 30, AVX512_STATE },
	{ "avx512vl", LEAF_7, B, 31, AVX512_STATE },
	{ "avx512vbmi", LEAF_7, C, 1, AVX512_STATE },
	{ "avx512vbmi2", LEAF_7, C, 6, AVX512_STATE },
	{ "gfni", LEAF_7, C, 8, SSE_STATE },
	{ "vaes", LEAF_7, C, 9, AVX_STATE },
	{ "vpclmulqdq", LEAF_7, C, 10, AVX_STATE },
	{ "avx512vnni", LEAF_7, C, 11, AVX512_STATE },
	{ "avx512bitalg", LEAF_7, C, 12, AVX512_STATE },
	{ "avx512vpopcntdq", LEAF_7, C, 14, AVX512_STATE },
	{ "avx512vp2intersect", LEAF_7, D, 8, AVX512_STATE },
	{ "amx-bf16", LEAF_7, D, 22, AMX_STATE },
	{ "avx512fp16", LEAF_7, D, 23, AVX512_STATE },
	{ "amx-tile", LEAF_7, D, 24, AMX_STATE },
	{ "amx-int8", LEAF_7, D, 25, AMX_STATE },
	{ "avxvnni", LEAF_7_1, A, 4, AVX_STATE },
	{ "avx512bf16", LEAF_7_1, A, 5, AVX512_STATE },
	{ "amx-fp16", LEAF_7_1, A, 21, AMX_STATE },
	{ "avxifma", LEAF_7_1, A, 23, AVX_STATE },
	{ "avxvnniint8", LEAF_7_1, D, 4, AVX_STATE },
	{ "avxneconvert", LEAF_7_1, D, 5, AVX_STATE },
	{ "lzcnt", LEAF_AMD, C, 5, SSE_STATE },
	{ "sse4a", LEAF_AMD, C, 6, SSE_STATE },
	{ "xop", LEAF_AMD, C, 11, AVX_STATE },
	{ "fma4", LEAF_AMD, C, 16, AVX_STATE },
	{ "tbm", LEAF_AMD, C, 21, SSE_STATE },
};

void
rt_cpu_read(struct rt_cpu *c)
{
	uint32_t a, d, *r;
	int i;

	memset(c, 0, sizeof *c);
	for (i = 0; i < RT_CPU_LEAVES; i++) {
		r = c->r[i];
		__get_cpuid_count(leaves[i].leaf, leaves[i].sub, &r[A], &r[B],
				  &r[C], &r[D]);
	}
	if (c->r[LEAF_1][C] >> 27 & 1) {
		__asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
		c->state = (uint64_t)d << 32 | a;
	}
}

bool
rt_cpu_has(const struct rt_cpu *c, const char *name)
{
	const struct feature *f;
	size_t i;

	for (i = 0; i < sizeof features / sizeof *features; i++) {
		f = &features[i];
		if (strcmp(f->name, name) == 0) {
			return c->r[f->leaf][f->reg] >> f->bit & 1 &&
			       (c->state & f->state) == f->state;
		}
	}
	return true;
}

static const char *
best_level(const struct rt_cpu *c)
{
	if (rt_cpu_has(c, "avx512f") && rt_cpu_has(c, "avx512bw") &&
	    rt_cpu_has(c, "avx512cd") && rt_cpu_has(c, "avx512dq") &&
	    rt_cpu_has(c, "avx512vl")) {
		return "x86-64-v4";
	}
	return rt_cpu_has(c, "avx2") && rt_cpu_has(c, "fma") &&
	       rt_cpu_has(c, "bmi2") && rt_cpu_has(c, "f16c")
	       ? "x86-64-v3" : "x86-64-v2";
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

void
rt_cpu_read(struct rt_cpu *c)
{
	memset(c, 0, sizeof *c);
}

bool
rt_cpu_has(const struct rt_cpu *c, const char *name)
{
	(void)c;
	(void)name;
	return false;
}

static const char *
best_level(const struct rt_cpu *c)
{
	(void)c;
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
	struct rt_shown cpu;
	struct rt_cpu c;
	int64_t i;

	rt_cpu_read(&c);
	for (i = 0; i < p->nfeatures; i++) {
		if (!rt_cpu_has(&c, p->features[i])) {
			cpu = rt_cpu_name();
			return rt_fail(err, RT_RANGE, RT_NOWHERE,
				"this plan is for the CPU %s and needs %s; "
				"this CPU (%s) has not; compile it with --cpu "
				"%s", p->cpu, p->features[i],
				cpu.text[0] ? cpu.text : "unnamed",
				best_level(&c));
		}
	}
	for (i = 0; i < p->nfeatures; i++) {
		if (!rt_cpu_allow(p->features[i])) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE,
				"this plan needs %s, which this system does "
				"not let programs use; compile it with --cpu "
				"%s", p->features[i], best_level(&c));
		}
	}
	return RT_OK;
}

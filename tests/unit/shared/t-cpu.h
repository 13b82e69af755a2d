/*
 * CPUs that tests of generated code run it as.  `native` is what the machine
 * has, real; the others are masked: a CPU that has less, so that a new machine
 * tests what an old one runs.  What it has not, AMX, is emulated.
 *
 * t_cpu_begin sets a process up for code as rank_main.c does, by the same
 * functions.  t_cpus_say, after all tests, prints for `quickstart check` which
 * CPUs code was run as.
 */
#ifndef T_CPU_H
#define T_CPU_H

#include "codegen/llvm/ll.h"
#include "codegen/llvm/ll_cpu.h"
#include "ir/ir.h"
#include "runtime/device/cpuid.h"
#include "runtime/device/this_machine.h"
#include "tests/unit/shared/t-amx.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>

#define T_AMX "+amx-tile+amx-bf16"
#define T_V3 "avx2 fma bmi bmi2 f16c lzcnt movbe"
#define T_V4 T_V3 " avx512f avx512bw avx512cd avx512dq avx512vl"

static struct t_cpu {
	const char *name;	/* for ll_new */
	const char *needs;	/* of what is there, to be run */
	bool is_here, ran;
} t_cpu_list[] = {
	{ .name = "native", .needs = "" },
	{ .name = "x86-64-v4" T_AMX, .needs = T_V4 },
	/* where there is no AVX-512 */
	{ .name = "x86-64-v3" T_AMX, .needs = T_V3 },
	/* pairs of bf16, unless `native` tests those */
	{ .name = "x86-64-v4+avx512bf16", .needs = T_V4 " avx512bf16" },
	{ .name = "x86-64-v4", .needs = T_V4 },
	{ .name = "x86-64-v3", .needs = T_V3 },
	{ .name = "x86-64-v2", .needs = "sse4.2 popcnt" },
};

enum {
	T_NATIVE, T_V4_AMX, T_V3_AMX, T_PAIRS,
	T_NCPUS = sizeof t_cpu_list / sizeof t_cpu_list[0]
};

/* Whether this CPU has a feature; it is asked once, and then remembered. */
static inline bool
t_cpu_has(const char *feature)
{
	static struct rt_cpu cpu;
	static bool known;

	if (!known) {
		rt_cpu_read(&cpu);
		known = true;
	}
	return rt_cpu_has(&cpu, feature);
}

/* Whether code for AMX can be run by the CPU, and by this process. */
static inline bool
t_amx_is_real(void)
{
	return t_cpu_has("amx-tile") && t_cpu_has("amx-bf16") &&
	       rt_cpu_allow("amx-tile");
}

/* Of a list with spaces between. */
static inline bool
t_cpu_has_all(const char *needs)
{
	char feature[32];
	size_t n;

	for (; *needs; needs += n + (needs[n] == ' ')) {
		n = strcspn(needs, " ");
		snprintf(feature, sizeof feature, "%.*s", (int)n, needs);
		if (!t_cpu_has(feature)) {
			return false;
		}
	}
	return true;
}

/* Whether code for this CPU multiplies pairs of bf16 by AVX-512. */
static inline bool
t_native_has_pairs(void)
{
	static int known;	/* 1: no, 2: yes */
	const char *why;
	struct ir_ctx c;
	struct ll *l;

	if (!known) {
		ir_ctx_init(&c, NULL);
		l = ll_new(&c.perm, "native", true, &why);
		known = l && ll_gains(l, "avx512bf16") && !t_amx_is_real()
			? 2 : 1;
		if (l) {
			ll_free(l);
		}
		ir_ctx_release(&c);
	}
	return known == 2;
}

/* Which ones can be run here; how many. */
static inline uint32_t
t_ncpus(void)
{
	uint32_t n = 0, i;

	for (i = 0; i < T_NCPUS; i++) {
		t_cpu_list[i].is_here = t_cpu_has_all(t_cpu_list[i].needs) &&
			(i != T_V3_AMX || !t_cpu_list[T_V4_AMX].is_here) &&
			(i != T_PAIRS || !t_native_has_pairs());
		n += t_cpu_list[i].is_here;
	}
	return n;
}

/* The i-th of those, `native` first, and again from there after the last. */
static inline const char *
t_cpu(uint64_t i)
{
	uint32_t at = 0;

	for (i %= t_ncpus();; at++) {
		if (t_cpu_list[at].is_here && i-- == 0) {
			return t_cpu_list[at].name;
		}
	}
}

/* The same, for a program of its own, in which nothing is emulated. */
static inline const char *
t_cpu_alone(uint64_t i)
{
	const char *cpu = t_cpu(i);

	return t_amx_is_real() || !strstr(cpu, T_AMX) ? cpu : t_cpu(i + 1);
}

/*
 * One after the other; or, swapped, another one for each that was `native`, and
 * `native` for each that was not: of two runs one is real, and one masked.
 */
static inline const char *
t_cpu_turn(uint64_t turn, bool swapped)
{
	uint64_t n = t_ncpus();

	if (swapped && n > 1) {
		turn = turn % n ? 0 : 1 + turn / n % (n - 1);
	}
	return t_cpu(turn);
}

/* T_CPU=NAME always takes that one; T_CPU_SWAP is for a second run. */
static inline const char *
t_cpu_next(void)
{
	static uint64_t turn;
	const char *cpu = getenv("T_CPU");

	return cpu ? cpu : t_cpu_turn(turn++, getenv("T_CPU_SWAP") != NULL);
}

/* What has AMX, and beside it only what this CPU has; NULL: none. */
static inline const char *
t_cpu_amx(void)
{
	t_ncpus();
	return t_cpu_list[T_V4_AMX].is_here ? t_cpu_list[T_V4_AMX].name
		: t_cpu_list[T_V3_AMX].is_here ? t_cpu_list[T_V3_AMX].name
		: NULL;
}

/* Before code that was made for `cpu` runs, whose features are LLVM's. */
static inline void
t_cpu_begin(const char *cpu, const char *features)
{
	uint32_t n, i, used = 0;
	const char *const *all = ll_cpu_features(&n);
	const char *needs[64];
	struct rt_plan p = { .cpu = cpu, .features = needs };
	bool tiles = ll_cpu_has(features, "amx-tile");
	struct rt_error err;

	assert_true(n <= 64);
	for (i = 0; i < n; i++) {
		bool is_amx = strncmp(all[i], "amx-", 4) == 0;

		if (ll_cpu_has(features, all[i]) &&
		    (!is_amx || t_amx_is_real())) {
			needs[used++] = all[i];
		}
	}
	p.nfeatures = used;
	if (rt_cpu_check(&p, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	if (tiles && !t_amx_is_real()) {
		amx_begin();
	}
	for (i = 0; i < T_NCPUS; i++) {
		if (strcmp(t_cpu_list[i].name, cpu) == 0) {
			t_cpu_list[i].ran = true;
		}
	}
}

static inline void
t_cpu_end(void)
{
	if (amx_all.on) {
		assert_false(amx.configured);
		amx_end();
	}
}

static inline void
t_cpus_say(void)
{
	static const char *const most[] = { "amx-bf16", "avx512bf16",
					    "avx512f", "avx2" };
	uint32_t i, has = 0;

	while (has < 4 && (has == 0 ? !t_amx_is_real()
			   : has == 1 ? !t_native_has_pairs()
				      : !t_cpu_has(most[has]))) {
		has++;
	}
	for (i = 0; i < T_NCPUS; i++) {
		bool tiles = i == T_V4_AMX || i == T_V3_AMX;

		/* code for AMX without a tile is as any other */
		if (!t_cpu_list[i].ran || (tiles && !t_amx_is_real() &&
					   amx_all.products == 0)) {
			continue;
		}
		printf("CPU code: %s %s%s%s\n",
		       i == T_NATIVE ? "real" : !tiles ? "masked"
		       : t_amx_is_real() ? "real" : "emulated",
		       t_cpu_list[i].name, i == T_NATIVE && has < 4 ? "+" : "",
		       i == T_NATIVE && has < 4 ? most[has] : "");
	}
}

#endif

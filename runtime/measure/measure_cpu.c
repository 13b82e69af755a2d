/*
 * The cores of this machine as a meter.
 *
 * Threads exist only while they are needed: collectives fork, which a process
 * with threads should not do.
 */
#include "runtime/device/cgroup.h"
#include "runtime/device/cpuid.h"
#include "runtime/measure/measure_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

struct cpu {
	struct rt_pool *pool; /* NULL while it is not needed */
	int threads;
};

/* ---- facts ---- */

/* A number in a file of /sys, or 0. */
static double
number_in(const char *path)
{
	FILE *f = fopen(path, "r");
	double v = 0;

	if (f) {
		if (fscanf(f, "%lf", &v) != 1) {
			v = 0;
		}
		fclose(f);
	}
	return v;
}

/* All memory, or what control groups allow this process. */
static double
memory_bytes(void)
{
	int64_t all = (int64_t)sysconf(_SC_PHYS_PAGES) *
		      sysconf(_SC_PAGESIZE);

	return (double)rt_least(all, rt_cgroup_memory("").limit_bytes);
}

/* Size of the last cache; sysconf() would add up all sockets. */
static double
cache_bytes(void)
{
	static const char *const files[] = {
		"/sys/devices/system/cpu/cpu0/cache/index3/size",
		"/sys/devices/system/cpu/cpu0/cache/index2/size"
	};
	double kib = 0;
	size_t i;

	for (i = 0; i < 2 && kib <= 0; i++) {
		kib = number_in(files[i]);
	}
	return kib > 0 ? kib * 1024 : 32 * 1024 * 1024;
}

#if defined(__x86_64__)
/* CPUID returns the vendor in 12 bytes and the brand in 48. */
static void
name_cores(struct rt_facts *f)
{
	unsigned r[12] = { 0 }, a, i;
	char vendor[13] = "", brand[49] = "";

	if (__get_cpuid(0, &a, &r[0], &r[2], &r[1])) {
		memcpy(vendor, r, 12);
	}
	for (i = 0; i < 3; i++) {
		__get_cpuid(0x80000002 + i, &r[4 * i], &r[4 * i + 1],
			    &r[4 * i + 2], &r[4 * i + 3]);
	}
	memcpy(brand, r, 48);
	snprintf(f->vendor, sizeof f->vendor, "%s",
		 strcmp(vendor, "GenuineIntel") == 0 ? "intel" :
		 strcmp(vendor, "AuthenticAMD") == 0 ? "amd" : vendor);
	snprintf(f->name, sizeof f->name, "%s",
		 brand + strspn(brand, " "));
	snprintf(f->arch, sizeof f->arch, "x86-64%s",
		 __builtin_cpu_supports("avx512f") ? "-v4" :
		 __builtin_cpu_supports("avx2") ? "-v3" : "");
}
#else
static void
name_cores(struct rt_facts *f)
{
	snprintf(f->vendor, sizeof f->vendor, "unknown");
	snprintf(f->name, sizeof f->name, "unknown cores");
	snprintf(f->arch, sizeof f->arch, "native");
}
#endif

/* ---- the meter ---- */

static enum rt_status
need_threads(struct cpu *c, struct rt_error *err)
{
	return c->pool ? RT_OK : rt_pool_start(&c->pool, c->threads, err);
}

static void
drop_threads(struct cpu *c)
{
	rt_pool_stop(c->pool);
	c->pool = NULL;
}

/* Other rates have kernels, too, but no check of their results here. */
static enum rt_status
check_made(const struct rt_made *made, enum rt_rate rate, struct rt_error *err)
{
	if (made && (rate == RT_RATE_FP32 || rate == RT_RATE_BF16)) {
		return RT_OK;
	}
	return rt_fail(err, RT_RANGE, (struct rt_where){ NULL, NULL, -1 },
		       "the cores multiply fp32 and bf16 only, by a kernel "
		       "that was made for it");
}

static enum rt_status
matmul(struct rt_meter *m, const struct rt_matmul_shape *x,
       struct rt_sample *out, struct rt_error *err)
{
	struct cpu *c = m->self;
	enum rt_status status = check_made(x->made, x->rate, err);

	status = status == RT_OK ? need_threads(c, err) : status;
	return status != RT_OK ? status
		: rt_cpu_matmul(c->pool, x, &m->pace, out, err);
}

static enum rt_status
attention(struct rt_meter *m, const struct rt_attention_shape *x,
	  struct rt_sample *out, struct rt_error *err)
{
	struct cpu *c = m->self;
	enum rt_rate rate = x->sequences > 0 ? x->rate : RT_RATE_FP32;
	enum rt_status status = check_made(x->made, rate, err);

	status = status == RT_OK ? need_threads(c, err) : status;
	return status != RT_OK ? status
		: x->sequences > 0
		? rt_cpu_keys(c->pool, x, &m->pace, out, err)
		: rt_cpu_attention(c->pool, x, &m->pace, out, err);
}

static enum rt_status
stream(struct rt_meter *m, enum rt_stream s, int64_t bytes,
       struct rt_sample *out, struct rt_error *err)
{
	struct cpu *c = m->self;
	enum rt_status status = need_threads(c, err);

	return status != RT_OK ? status
		: rt_cpu_stream(c->pool, s, bytes, &m->pace, out, err);
}

static enum rt_status
launch(struct rt_meter *m, struct rt_sample *out, struct rt_error *err)
{
	struct cpu *c = m->self;
	enum rt_status status = need_threads(c, err);

	return status != RT_OK ? status
		: rt_cpu_launch(c->pool, &m->pace, out, err);
}

static enum rt_status
coll(struct rt_meter *m, const struct rt_coll_shape *x, struct rt_sample *out,
     struct rt_error *err)
{
	drop_threads(m->self);
	return rt_cpu_comm(x, &m->pace, out, err);
}

static void
close_cpu(struct rt_meter *m)
{
	drop_threads(m->self);
	free(m->self);
	m->self = NULL;
}

static const struct rt_meter_ops ops = {
	matmul, attention, stream, launch, coll, close_cpu
};

enum rt_status
rt_meter_cpu(struct rt_meter *m, struct rt_pace pace, struct rt_error *err)
{
	struct cpu *c;
	struct rt_cores cores;
	struct rt_cpu cpu;

	memset(m, 0, sizeof *m);
	rt_cpu_read(&cpu);
	if (rt_cpu_has(&cpu, "amx-tile") && !rt_cpu_allow("amx-tile")) {
		return rt_fail(err, RT_IO, (struct rt_where){ NULL, NULL, -1 },
			       "the system does not let programs use AMX");
	}
	c = calloc(1, sizeof *c);
	if (!c) {
		return rt_no_memory(err, NULL);
	}
	c->threads = rt_cores_get(&cores);
	m->ops = &ops;
	m->self = c;
	m->pace = pace;
	name_cores(&m->facts);
	snprintf(m->facts.link, sizeof m->facts.link, "shared memory");
	m->facts.units = c->threads;
	m->facts.clock_mhz = rt_cpu_clock_mhz();
	m->facts.memory_bytes = memory_bytes();
	m->facts.cache_bytes = cache_bytes();
	m->facts.ranks = c->threads;
	if (c->threads < 2) {
		m->facts.no_comm = "there is one core only";
	}
	m->facts.launch = "a region on all threads, which spin for it";
	return RT_OK;
}

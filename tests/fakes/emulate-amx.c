/*
 * What tests/cli/run/cpu-kinds.sh links into a plan for AMX: a rank runs it on
 * any CPU, with the handler of tests/unit/shared/t-amx.h.  AMX is the only
 * feature that is not checked: a CPU that lacks another one is still refused.
 */
#include "runtime/device/this_machine.h"
#include "tests/unit/shared/t-amx.h"

#include <stdio.h>

enum rt_status __real_rt_cpu_check(const struct rt_plan *p,
				   struct rt_error *err);
enum rt_status __wrap_rt_cpu_check(const struct rt_plan *p,
				   struct rt_error *err);

static void
say_products(void)
{
	fprintf(stderr, "tiles: %llu\n",
		(unsigned long long)amx_all.products);
}

enum rt_status
__wrap_rt_cpu_check(const struct rt_plan *p, struct rt_error *err)
{
	struct rt_plan rest = *p;
	const char *names[64];
	int64_t i;

	if (__real_rt_cpu_check(p, err) == RT_OK) {
		fputs("tiles: real\n", stderr);
		return RT_OK;
	}
	rest.nfeatures = 0;
	rest.features = names;
	for (i = 0; i < p->nfeatures && i < 64; i++) {
		if (strncmp(p->features[i], "amx-", 4) != 0) {
			names[rest.nfeatures++] = p->features[i];
		}
	}
	amx_begin();
	atexit(say_products);
	return __real_rt_cpu_check(&rest, err);
}

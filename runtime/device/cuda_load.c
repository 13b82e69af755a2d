/*
 * NVIDIA's driver, by dlopen: a program that was built without CUDA runs on a
 * GPU, and where there is no GPU it starts and can report that.
 */
#include "runtime/device/cuda_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* cuLaunchKernelEx and cuTensorMapEncodeTiled came with 11.8 and 12.0. */
#define LEAST_DRIVER 12000

static const char *const usual[] = { "libcuda.so.1", NULL };

static const struct {
	size_t at;
	const char *symbol;
} functions[] = {
#define G(member, symbol, arguments) \
	{ offsetof(struct rt_gpu_api, member), symbol },
	RT_GPU_FUNCTIONS(G)
#undef G
};

static enum rt_status
too_old(const struct rt_gpu_api *api, const char *what, struct rt_error *err)
{
	int version = 0;

	if (api->driver_version) {
		api->driver_version(&version);
	}
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "NVIDIA's driver is for "
		       "CUDA %d.%d%s%s, and CUDA %d.%d or later is needed: "
		       "update the driver; " RT_GPU_ELSE, version / 1000,
		       version % 1000 / 10, *what ? " and has no " : "", what,
		       LEAST_DRIVER / 1000, LEAST_DRIVER % 1000 / 10);
}

/* By cuGetProcAddress, which knows the symbol of a function for a version of
 * CUDA. */
static enum rt_status
find_functions(struct rt_gpu_api *api, struct rt_error *err)
{
	int (*get)(const char *, void **, int, uint64_t, int *);
	void *f = dlsym(api->library, "cuGetProcAddress_v2");
	int found = 0;
	size_t i;

	if (!f) {
		return too_old(api, "cuGetProcAddress_v2", err);
	}
	/* POSIX lets a data pointer hold a function's address, C does not
	 * convert it */
	memcpy(&get, &f, sizeof f);
	for (i = 0; i < sizeof functions / sizeof *functions; i++) {
		f = NULL;
		if (get(functions[i].symbol, &f, LEAST_DRIVER, 0, &found) !=
		    0 || !f) {
			return too_old(api, functions[i].symbol, err);
		}
		memcpy((char *)api + functions[i].at, &f, sizeof f);
	}
	return RT_OK;
}

static enum rt_status
start(struct rt_gpu_api *api, struct rt_error *err)
{
	const char *why = NULL;
	int version = 0, r = api->init(0);

	if (r != 0) {
		api->error_string(r, &why);
		return rt_fail(err, RT_IO, RT_NOWHERE, "no GPU can be used: "
			"%s (%d); " RT_GPU_ELSE, why ? why : "cuInit failed",
			r);
	}
	if (GPU(api, driver_version, &version) != RT_OK) {
		return RT_IO;
	}
	return version < LEAST_DRIVER ? too_old(api, "", err) : RT_OK;
}

void *
rt_gpu_library(const char *chosen, const char *const *usual_files,
	       const char **file)
{
	bool is_chosen = chosen && *chosen;
	void *lib = NULL;
	size_t i;

	*file = is_chosen ? chosen : usual_files[0];
	for (i = 0; !lib && usual_files[i] && (i == 0 || !is_chosen); i++) {
		lib = dlopen(is_chosen ? chosen : usual_files[i],
			     RTLD_NOW | RTLD_LOCAL);
	}
	return lib;
}

enum rt_status
rt_gpu_load(struct rt_gpu_api *api, const char *file, struct rt_error *err)
{
	enum rt_status status;

	memset(api, 0, sizeof *api);
	api->library = rt_gpu_library(file, usual, &file);
	if (!api->library) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "no GPU can be "
			"used: %s is missing, which comes with NVIDIA's "
			"driver; " RT_GPU_ELSE, rt_show_path(file).text);
	}
	status = find_functions(api, err);
	if (status == RT_OK) {
		status = start(api, err);
	}
	if (status != RT_OK) {
		rt_gpu_unload(api);
	}
	return status;
}

void
rt_gpu_unload(struct rt_gpu_api *api)
{
	if (api->library) {
		dlclose(api->library);
	}
	memset(api, 0, sizeof *api);
}

enum rt_status
rt_gpu_check(const struct rt_gpu_api *api, int result, size_t member,
	     struct rt_error *err)
{
	const char *why = NULL;
	size_t i = 0;

	if (result == 0) {
		return RT_OK;
	}
	while (functions[i].at != member) {
		i++;
	}
	api->error_string(result, &why);
	return rt_fail(err, result == RT_GPU_NO_MEMORY ? RT_NOMEM : RT_IO,
		       RT_NOWHERE, "%s failed: %s (%d)", functions[i].symbol,
		       why ? why : "no reason given", result);
}

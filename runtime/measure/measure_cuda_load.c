/*
 * Loads the libraries of the CUDA meter with dlopen(), so that a build without
 * CUDA measures GPUs too.
 */
#include "runtime/device/cuda_device.h"
#include "runtime/measure/measure_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const struct rt_where nowhere = { NULL, NULL, -1 };

/* Newest version first; the file name has the version of the ABI. */
static const char *const files[RT_CU_LIBRARIES][4] = {
	[RT_CU_CUDA] = { "libcuda.so.1" },
	[RT_CU_BLAS] = { "libcublas.so.13", "libcublas.so.12",
			 "libcublas.so.11" },
	[RT_CU_NCCL] = { "libnccl.so.2" }
};

static const char *const packages[RT_CU_LIBRARIES] = {
	"NVIDIA's driver", "the CUDA toolkit", "NCCL"
};

/* The variable of the environment that names another file. */
static const char *const variables[RT_CU_LIBRARIES] = {
	[RT_CU_CUDA] = ", and LLMC_LIBCUDA may name another file",
	[RT_CU_BLAS] = "",
	[RT_CU_NCCL] = ", and LLMC_LIBNCCL may name another file"
};

static const struct {
	int library;
	size_t at;
	const char *symbol;
} functions[] = {
#define CU(library, member, symbol, arguments) \
	{ library, offsetof(struct rt_cu_api, member), symbol },
	RT_CU_FUNCTIONS(CU)
#undef CU
};

enum rt_status
rt_cu_load(struct rt_cu_api *api, int library, const char *chosen,
	   struct rt_error *err)
{
	const char *file;
	void *lib = rt_gpu_library(chosen, files[library], &file), *f;
	size_t i;

	if (!lib) {
		return rt_fail(err, RT_IO, nowhere, "%s is missing: it comes "
			       "with %s%s", rt_show_path(file).text,
			       packages[library], variables[library]);
	}
	api->libraries[library] = lib;
	for (i = 0; i < sizeof functions / sizeof *functions; i++) {
		if (functions[i].library != library) {
			continue;
		}
		f = dlsym(lib, functions[i].symbol);
		if (!f) {
			return rt_fail(err, RT_IO, nowhere, "%s has no %s: it "
				       "is too old", rt_show_path(file).text,
				       functions[i].symbol);
		}
		/*
		 * a function pointer fits into a data pointer by POSIX, not by
		 * C
		 */
		memcpy((char *)api + functions[i].at, &f, sizeof f);
	}
	return RT_OK;
}

void
rt_cu_unload(struct rt_cu_api *api)
{
	int i;

	for (i = RT_CU_LIBRARIES - 1; i >= 0; i--) {
		if (api->libraries[i]) {
			dlclose(api->libraries[i]);
			api->libraries[i] = NULL;
		}
	}
}

enum rt_status
rt_cu_check(const struct rt_cu_api *api, int result, size_t member,
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
	/* the other two libraries have no text for their numbers */
	if (functions[i].library == RT_CU_CUDA) {
		api->error_string(result, &why);
	}
	return rt_fail(err, RT_IO, nowhere, "%s failed: %s (%d)",
		       functions[i].symbol, why ? why : "no reason given",
		       result);
}

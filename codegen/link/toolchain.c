/*
 * What this build of llmc can generate code with: a line for each library.
 * LLVM and NVRTC are large and planning does not need them, so they are loaded
 * on demand; without one, everything else works.
 */
#include "config.h"

#include "codegen/cg.h"

#include <dlfcn.h>
#include <stdlib.h>

#ifndef CONFIG_LLVM_LIBRARY
#define CONFIG_LLVM_LIBRARY NULL
#endif
#ifndef CONFIG_NVRTC_LIBRARY
#define CONFIG_NVRTC_LIBRARY NULL
#endif

/* ISO C has no cast from dlsym's pointer to a function's. */
union symbol {
	void *object;
	void (*llvm_version)(unsigned *, unsigned *, unsigned *);
	char *(*llvm_host_cpu)(void);
	void (*llvm_dispose)(char *);
	int (*nvrtc_version)(int *, int *);
};

static union symbol
find(void *library, const char *name)
{
	union symbol s;

	s.object = library ? dlsym(library, name) : NULL;
	return s;
}

static void
llvm_line(struct buf *out, const char *file)
{
	void *lib = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
	union symbol version = find(lib, "LLVMGetVersion");
	union symbol cpu = find(lib, "LLVMGetHostCPUName");
	union symbol dispose = find(lib, "LLVMDisposeMessage");
	unsigned major, minor, patch;
	char *name;

	if (!version.object || !cpu.object || !dispose.object) {
		buf_printf(out, "cpu: no code without LLVM (%s)\n",
			   file ? file : "built without it: llvm-19-dev");
		return;
	}
	version.llvm_version(&major, &minor, &patch);
	name = cpu.llvm_host_cpu();
	buf_printf(out, "cpu: LLVM %u.%u.%u; this machine is %s\n", major,
		   minor, patch, name);
	dispose.llvm_dispose(name);
}

static void
nvrtc_line(struct buf *out, const char *file)
{
	void *lib = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
	union symbol version = find(lib, "nvrtcVersion");
	int major = 0, minor = 0;

	if (!version.object || version.nvrtc_version(&major, &minor) != 0) {
		buf_printf(out, "cuda: no code without NVRTC (%s)\n",
			   file ? file : "built without it: CUDA toolkit");
		return;
	}
	buf_printf(out, "cuda: NVRTC %d.%d\n", major, minor);
}

/* The library's file; NULL: built without it, when no variable helps. */
static const char *
file_of(const char *variable, const char *built_with)
{
	const char *other = getenv(variable);

	return built_with && other && *other ? other : built_with;
}

void
cg_toolchain(struct buf *out)
{
	llvm_line(out, file_of("LLMC_LIBLLVM", CONFIG_LLVM_LIBRARY));
	nvrtc_line(out, file_of("LLMC_NVRTC", CONFIG_NVRTC_LIBRARY));
}

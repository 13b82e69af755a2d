/*
 * The only file that includes nvrtc.h.  The library is loaded when kernels are
 * compiled; it needs neither a GPU nor a driver.
 */
#include "config.h"

#include "codegen/nvrtc/images.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <nvrtc.h>

/* The functions that are called, without their prefix. */
#define FUNCTIONS(F) \
	F(Version) F(GetNumSupportedArchs) F(GetSupportedArchs) \
	F(CreateProgram) F(DestroyProgram) F(CompileProgram) \
	F(GetCUBINSize) F(GetCUBIN) F(GetPTXSize) F(GetPTX) \
	F(GetProgramLogSize) F(GetProgramLog) F(GetErrorString)

struct nvrtc_api {
#define MEMBER(name) __typeof__(&nvrtc##name) name;
	FUNCTIONS(MEMBER)
#undef MEMBER
};

struct nv {
	struct nvrtc_api f;
	const char *file, *version;
	int major, minor;
};

#define MAX_OPTIONS 8

/*
 * -v: registers and spills are read from the assembler's messages.  NVRTC's
 * own cache is off: it does not include ours, and would make times of tests
 * random. 177: indices that no expression uses are declared nevertheless.
 */
static uint32_t
options(const struct nv *v, const struct cu_arch *arch, struct arena *a,
	const char *out[MAX_OPTIONS])
{
	uint32_t n = 0;

	out[n++] = arena_printf(a, "--gpu-architecture=%s", arch->name);
	out[n++] = "--std=c++17";
	out[n++] = "--minimal";
	out[n++] = "--diag-suppress=177";
	out[n++] = "--ptxas-options=-v";
	out[n++] = "--ptxas-options=-warn-spills";
	if (v->major > 12 || (v->major == 12 && v->minor >= 9)) {
		out[n++] = "--no-cache";
	}
	return n;
}

const char *
nv_options(const struct nv *v, const struct cu_arch *arch, struct arena *a)
{
	const char *at[MAX_OPTIONS];
	uint32_t n = options(v, arch, a, at), i;
	struct buf out;

	buf_init(&out, a);
	for (i = 0; i < n; i++) {
		buf_printf(&out, "%s%s", i ? " " : "", at[i]);
	}
	return buf_text(&out);
}

/* ---- the library ---- */

static bool
load(struct nv *v, struct arena *a, const char **why)
{
	void *lib = dlopen(v->file, RTLD_NOW | RTLD_LOCAL);
	/* ISO C has no cast from dlsym's pointer to a function's. */
	union {
		void *object;
		void (*function)(void);
	} s;

	if (!lib) {
		*why = arena_printf(a, "NVRTC cannot be loaded: %s",
				    dlerror());
		return false;
	}
#define LOAD(name) \
	s.object = dlsym(lib, "nvrtc" #name); \
	if (!s.object) { \
		*why = arena_printf(a, "%s has no nvrtc%s, as NVRTC 12 " \
				    "and later have", v->file, #name); \
		return false; \
	} \
	v->f.name = (__typeof__(&nvrtc##name))s.function;
	FUNCTIONS(LOAD)
#undef LOAD
	return true;
}

struct nv *
nv_open(struct arena *a, const char **why)
{
	const char *other = getenv("LLMC_NVRTC");
	struct nv *v = arena_alloc(a, sizeof *v);

	v->file = other && *other ? other : CONFIG_NVRTC_LIBRARY;
	if (!load(v, a, why)) {
		return NULL;
	}
	if (v->f.Version(&v->major, &v->minor) != NVRTC_SUCCESS) {
		*why = arena_printf(a, "%s does not say its version",
				    v->file);
		return NULL;
	}
	v->version = arena_printf(a, "NVRTC %d.%d", v->major, v->minor);
	return v;
}

const char *
nv_version(const struct nv *v)
{
	return v->version;
}

bool
nv_supports(const struct nv *v, const struct cu_arch *arch, struct arena *a,
	    const char **why)
{
	int n = 0, i, want = arch->major * 10 + arch->minor;
	int *all;

	if (v->f.GetNumSupportedArchs(&n) == NVRTC_SUCCESS && n > 0) {
		all = arena_alloc(a, sizeof *all * (size_t)n);
		n = v->f.GetSupportedArchs(all) == NVRTC_SUCCESS ? n : 0;
		for (i = 0; i < n; i++) {
			if (all[i] == want) {
				return true;
			}
		}
	}
	*why = arena_printf(a, "%s of %s does not compile for %s, as NVRTC "
			    "12 and 13 do", v->version, v->file, arch->name);
	return false;
}

/* ---- one source ---- */

static const char *
log_of(const struct nv *v, nvrtcProgram p, struct arena *a)
{
	size_t n = 0;
	char *log;

	if (v->f.GetProgramLogSize(p, &n) != NVRTC_SUCCESS || n == 0) {
		return "";
	}
	log = arena_alloc(a, n + 1);
	return v->f.GetProgramLog(p, log) == NVRTC_SUCCESS ? log : "";
}

typedef nvrtcResult get_size(nvrtcProgram p, size_t *n);
typedef nvrtcResult get_bytes(nvrtcProgram p, char *to);

static nvrtcResult
read_output(nvrtcProgram p, get_size *size, get_bytes *bytes, struct arena *a,
	    const char **at, size_t *n)
{
	nvrtcResult r = size(p, n);
	char *to;

	if (r != NVRTC_SUCCESS) {
		return r;
	}
	to = arena_alloc(a, *n + 1);
	*at = to;
	return bytes(p, to);
}

static nvrtcResult
compile(const struct nv *v, nvrtcProgram p, const struct cu_arch *arch,
	struct arena *a, struct nv_made *out)
{
	const char *at[MAX_OPTIONS];
	uint32_t n = options(v, arch, a, at);
	nvrtcResult r = v->f.CompileProgram(p, (int)n, at);

	out->log = log_of(v, p, a);
	if (r == NVRTC_SUCCESS) {
		r = read_output(p, v->f.GetCUBINSize, v->f.GetCUBIN, a,
				&out->cubin, &out->cubin_bytes);
	}
	/* PTX is for later devices; its size counts the NUL */
	if (r == NVRTC_SUCCESS && arch->fallback[0]) {
		r = read_output(p, v->f.GetPTXSize, v->f.GetPTX, a, &out->ptx,
				&out->ptx_bytes);
		out->ptx_bytes = r == NVRTC_SUCCESS ? strlen(out->ptx) : 0;
	}
	return r;
}

bool
nv_compile(const struct nv *v, const struct cg_make *m, uint32_t source,
	   struct arena *a, struct nv_made *out)
{
	const struct cg_source *s = &m->sources[source];
	const char **texts = arena_alloc(a, sizeof *texts * (m->ntexts + 1));
	const char **names = arena_alloc(a, sizeof *names * (m->ntexts + 1));
	nvrtcProgram p = NULL;
	nvrtcResult r;
	uint32_t i;

	*out = (struct nv_made){ .log = "" };
	for (i = 0; i < m->ntexts; i++) {
		names[i] = m->texts[i].name;
		texts[i] = m->texts[i].text;
	}
	r = v->f.CreateProgram(&p, s->text,
			       arena_printf(a, "%s.cu", s->name),
			       (int)m->ntexts, texts, names);
	if (r == NVRTC_SUCCESS) {
		r = compile(v, p, cu_arch_find(m->arch), a, out);
		v->f.DestroyProgram(&p);
	}
	if (r != NVRTC_SUCCESS && !out->log[strspn(out->log, "\n ")]) {
		out->log = arena_printf(a, "%s: %s", v->version,
					v->f.GetErrorString(r));
	}
	return r == NVRTC_SUCCESS;
}

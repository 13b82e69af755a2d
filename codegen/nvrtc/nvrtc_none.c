/*
 * Replaces nvrtc.c where NVRTC's header was not found: every function reports
 * that.
 */
#include "codegen/nvrtc/images.h"

struct nv *
nv_open(struct arena *a, const char **why)
{
	(void)a;
	*why = "this llmc was built without NVRTC (CUDA toolkit 12 or 13)";
	return NULL;
}

const char *
nv_version(const struct nv *v)
{
	(void)v;
	return "";
}

bool
nv_supports(const struct nv *v, const struct cu_arch *arch, struct arena *a,
	    const char **why)
{
	(void)v;
	(void)arch;
	return nv_open(a, why) != NULL;
}

const char *
nv_options(const struct nv *v, const struct cu_arch *arch, struct arena *a)
{
	(void)v;
	(void)arch;
	(void)a;
	return "";
}

bool
nv_compile(const struct nv *v, const struct cg_make *m, uint32_t source,
	   struct arena *a, struct nv_made *out)
{
	(void)v;
	(void)m;
	(void)source;
	*out = (struct nv_made){ .log = "" };
	return nv_open(a, &out->log) != NULL;
}

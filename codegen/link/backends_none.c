/*
 * Replaces codegen/cpu, codegen/host and codegen/llvm where LLVM's headers
 * were not found: cg_code_new reports that.
 */
#include "codegen/cg.h"

const char *
cg_cpu_host(struct arena *a)
{
	(void)a;
	return "native";
}

bool
cg_cpu_host_has(struct arena *a, const char *feature)
{
	(void)a;
	(void)feature;
	return false;
}

struct cg_code *
cg_code_new(struct arena *a, const struct cg_input *in)
{
	(void)a;
	diag_error(&in->ranks->m->ctx->diags, (struct span){ 0, 0 },
		   "code for a CPU needs LLVM, and this llmc was built "
		   "without it (llvm-19-dev); --emit=answer goes without");
	return NULL;
}

uint32_t
cg_code_sources(const struct cg_code *c, const struct cg_source **out)
{
	(void)c;
	*out = NULL;
	return 0;
}

uint32_t
cg_code_spills(struct cg_code *c, const struct cg_images *x)
{
	(void)c;
	(void)x;
	return 0;
}

int64_t
cg_code_reserve(const struct cg_code *c)
{
	(void)c;
	return 0;
}

int64_t
cg_code_arena(const struct cg_code *c, uint32_t pipe)
{
	(void)c;
	(void)pipe;
	return 0;
}

bool
cg_code_finish(struct cg_code *c, int64_t reserve,
	       const struct cg_facts *facts)
{
	(void)c;
	(void)reserve;
	(void)facts;
	return false;
}

bool
cg_code_text(struct cg_code *c, struct buf *out)
{
	(void)c;
	(void)out;
	return false;
}

bool
cg_code_object(struct cg_code *c, struct buf *out)
{
	(void)c;
	(void)out;
	return false;
}

void
cg_code_free(struct cg_code *c)
{
	(void)c;
}

bool
cg_singles_open(struct ir_ctx *ctx, const char *cpu, const char *const *texts,
		uint32_t n, struct cg_singles *out)
{
	(void)cpu;
	(void)texts;
	(void)n;
	*out = (struct cg_singles){ 0 };
	diag_error(&ctx->diags, (struct span){ 0, 0 },
		   "kernels for a CPU need LLVM, and this llmc was built "
		   "without it (llvm-19-dev)");
	return false;
}

void
cg_singles_close(struct cg_singles *s)
{
	(void)s;
}

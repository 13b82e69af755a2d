/*
 * Kernels of one op each, loaded into this process: `llmc calibrate` and
 * bench/cpu-gemm time the code that plans run, made by the same emitters.
 * All kernels of a list become one shared object: linking costs more time
 * than compiling most of them.
 */
#include "codegen/cg.h"
#include "codegen/cpu/cpu.h"
#include "codegen/link/compile_cache.h"

#include <dlfcn.h>
#include <string.h>

static const struct span nowhere;

/* ---- from text to functions ---- */

/* A kernel of uncut values depends on no step, seed or rank. */
static bool
emit_one(struct cg_cpu *c, struct ir_ctx *ctx, const char *text,
	 struct cg_kernel *out, const char **why)
{
	struct kernel_list *list;
	uint32_t base;

	if (!source_add(&ctx->sources, "single", text, strlen(text), &base)) {
		*why = "too many texts";
		return false;
	}
	c->m = ir_read(ctx, ctx->sources.files.n - 1);
	c->panels = c->m ? cg_find_panels(c->m, c->a) : c->panels;
	list = c->m ? kernels_find(c->m, 1, NULL, c->a)->top : NULL;
	if (!list || list->at.n != 1) {
		*why = "it is not one kernel";
		return false;
	}
	if (!cg_cpu_kernel(c, &list->at.at[0], out, why)) {
		return false;
	}
	if (out->nums.n > 0) {
		*why = "it depends on the step";
		return false;
	}
	return true;
}

/* Pieces of all dims that the kernel asks about: one rank has them whole. */
static const struct rt_pieces *const *
whole_pieces(const struct cg_kernel *k, struct arena *a)
{
	const struct rt_pieces **all = arena_alloc(a, (k->spreads.n + 1) *
						      sizeof(void *));
	uint32_t i;

	for (i = 0; i < k->spreads.n; i++) {
		struct rt_pieces *p = arena_alloc(a, sizeof *p);

		p->n = 1;
		p->total = p->at[0].count = k->spreads.at[i].size;
		all[i] = p;
	}
	return all;
}

static void
describe(struct cg_cpu *c, const struct cg_kernel *k, struct cg_single *out)
{
	uint32_t *values = arena_alloc(c->a, (k->operands.n + 1) *
					     sizeof *values), i;
	uint32_t *lanes = arena_alloc(c->a, (k->operands.n + 1) *
					    sizeof *lanes);
	struct cg_panel p;

	for (i = 0; i < k->operands.n; i++) {
		value_id v = k->operands.at[i].value;

		values[i] = v - 1;
		lanes[i] = cg_cpu_panel(c, v, &p) ? p.lanes : 0;
	}
	*out = (struct cg_single){
		.values = values, .lanes = lanes,
		.pieces = whole_pieces(k, c->a),
		.shared_bytes = k->shared_bytes, .own_bytes = k->own_bytes
	};
}

/* ---- data: a table of struct rt_kernel ---- */

enum {
	STEP_WORDS = sizeof(struct rt_step) / 8,
	KERNEL_WORDS = sizeof(struct rt_kernel) / 8
};

#define TABLE "llmc_singles"

static struct ll_value *
steps_data(struct ll *l, const struct cg_kernel *k, struct arena *a)
{
	uint32_t n = STEP_WORDS * k->steps.n, i;
	struct ll_value **w = arena_alloc(a, (n + 1) * sizeof *w);

	for (i = 0; i < n; i++) {
		w[i] = ll_i64(l, 0);
	}
	for (i = 0; i < k->steps.n; i++) {
		struct ll_value **step = w + STEP_WORDS * i;

		step[offsetof(struct rt_step, run) / 8] = k->steps.at[i].func;
		step[offsetof(struct rt_step, items) / 8] =
			ll_i64(l, k->steps.at[i].items);
	}
	return ll_data(l, NULL, w, n);
}

static void
fill_kernel(struct ll *l, const struct cg_kernel *k, struct ll_value **w,
	    struct arena *a)
{
	int i;

	for (i = 0; i < KERNEL_WORDS; i++) {
		w[i] = ll_i64(l, 0);
	}
	w[offsetof(struct rt_kernel, what) / 8] = ll_text(l, k->what);
	w[offsetof(struct rt_kernel, nsteps) / 8] = ll_i64(l, k->steps.n);
	w[offsetof(struct rt_kernel, steps) / 8] = steps_data(l, k, a);
	w[offsetof(struct rt_kernel, nat) / 8] = ll_i64(l, k->operands.n);
	w[offsetof(struct rt_kernel, npieces) / 8] = ll_i64(l, k->spreads.n);
}

/* ---- all of it ---- */

static bool
emit_all(struct cg_cpu *c, struct ir_ctx *ctx, const char *const *texts,
	 struct cg_singles *out, const char **why)
{
	struct ll_value **table = arena_alloc(c->a, ((size_t)out->n + 1) *
						    KERNEL_WORDS *
						    sizeof *table);
	uint32_t i;

	for (i = 0; i < out->n; i++) {
		struct cg_kernel k;

		if (!emit_one(c, ctx, texts[i], &k, why)) {
			return false;
		}
		describe(c, &k, &out->at[i]);
		fill_kernel(c->ll, &k, table + i * KERNEL_WORDS, c->a);
	}
	ll_data(c->ll, TABLE, table, out->n * KERNEL_WORDS);
	return true;
}

static bool
compile(struct cg_cpu *c, struct buf *object, const char **why)
{
	struct cg_cache cache;

	cg_cache_open(&cache, c->a);
	return ll_verify(c->ll, why) &&
	       ll_compile(c->ll, LL_WELL, &cache, object, why);
}

/* The kernels of the loaded table. */
static bool
find_kernels(struct ir_ctx *ctx, struct cg_singles *out)
{
	const struct rt_kernel *table = dlsym(out->library, TABLE);
	uint32_t i;

	for (i = 0; table && i < out->n; i++) {
		out->at[i].kernel = &table[i];
	}
	if (!table) {
		diag_error(&ctx->diags, nowhere, "the object of measured "
			   "kernels has no " TABLE);
		cg_singles_close(out);
	}
	return table != NULL;
}

bool
cg_singles_open(struct ir_ctx *ctx, const char *cpu, const char *const *texts,
		uint32_t n, struct cg_singles *out)
{
	struct cg_cpu c = { .a = &ctx->perm };
	const char *why = NULL;
	struct buf object;
	bool ok;

	*out = (struct cg_singles){ .n = n };
	out->at = arena_alloc(&ctx->perm, ((size_t)n + 1) * sizeof *out->at);
	c.ll = ll_new(&ctx->perm, cpu, false, &why);
	if (!c.ll) {
		diag_error(&ctx->diags, nowhere, "%s", why);
		return false;
	}
	out->cpu = arena_printf(&ctx->perm, "%s", ll_cpu(c.ll));
	out->lanes = ll_lanes(c.ll, LL_F32);
	buf_init(&object, &ctx->perm);
	ok = emit_all(&c, ctx, texts, out, &why) &&
	     compile(&c, &object, &why);
	ll_free(c.ll);
	if (!ok) {
		diag_error(&ctx->diags, nowhere, "no kernel can be made to "
			   "measure: %s", why ? why : "the emitters refuse");
		return false;
	}
	out->library = cg_load(ctx, &object);
	return out->library && find_kernels(ctx, out);
}

void
cg_singles_close(struct cg_singles *s)
{
	if (s->library) {
		dlclose(s->library);
	}
	s->library = NULL;
}

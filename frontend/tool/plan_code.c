/*
 * Code of a plan: which CPU or GPU it is for, the bytes that it keeps on a
 * device beside the arena, its text, and the program that is linked of it.
 */
#include "config.h"

#include "frontend/tool/tool.h"

#include "frontend/frontend.h"

#include <math.h>
#include <string.h>

#include "codegen/cg.h"
#include "passes/search/search.h"

/* Any host of a GPU of the last ten years is one; --cpu may name another. */
#define HOST_CPU "x86-64-v3"

#ifdef HAVE_LLVM
#define HAS_LLVM true
#else
#define HAS_LLVM false
#endif

static const struct span nowhere;

bool
drv_is_cpu(struct driver *d, const char *name)
{
	const char *why;

	return cg_cpu_known(name, &d->ctx.tmp, &why);
}

bool
drv_has_kernels(struct driver *d, const char *arch)
{
	const char *why;

	return d->opts.at[OPT_ARCH].given ||
	       cg_arch_known(arch, &d->ctx.tmp, &why);
}

/* What code is for. */
struct code_for {
	const char *cpu;	/* of kernels, or of the GPU's host */
	const char *arch;	/* of a GPU's kernels; NULL: none */
};

static bool
refuse(struct driver *d, const char *option, const char *what,
       const struct target_device *device)
{
	diag_error(&d->ctx.diags, nowhere, "--%s needs %s, and %s is not "
		   "one", option, what, device->name);
	return false;
}

/* The architecture of --arch or of the target; NULL: no GPU with code. */
static bool
find_arch(struct driver *d, const struct target_device *device,
	  const char **arch)
{
	const struct opt_value *v = &d->opts.at[OPT_ARCH];
	const char *why = "?";

	*arch = cg_arch_known(device->arch, &d->ctx.tmp, &why) ? device->arch
							       : NULL;
	if (!v->given) {
		return true;
	}
	if (!target_is_cuda(device)) {
		return refuse(d, "arch", "an NVIDIA GPU as target, such as "
			      "h100x8", device);
	}
	*arch = v->text;
	if (!cg_arch_known(*arch, &d->ctx.perm, &why)) {
		diag_error(&d->ctx.diags, nowhere, "--arch: %s", why);
		return false;
	}
	return true;
}

/* The CPU of --cpu, of the target, or of a GPU's host; NULL: no code. */
static bool
find_cpu(struct driver *d, const struct target_device *device,
	 struct code_for *x)
{
	const struct opt_value *v = &d->opts.at[OPT_CPU];
	const char *why = "?";

	x->cpu = drv_is_cpu(d, device->arch) ? device->arch
		: x->arch ? HOST_CPU : NULL;
	if (!v->given) {
		return true;
	}
	if (!x->cpu) {
		return refuse(d, "cpu", "a target with code, such as cpux4 or "
			      "h100x8", device);
	}
	x->cpu = v->text;
	if (!cg_cpu_known(v->text, &d->ctx.perm, &why)) {
		diag_error(&d->ctx.diags, nowhere, "--cpu: %s", why);
		return false;
	}
	return true;
}

bool
drv_code_for(struct driver *d, const struct target_device *device,
	     struct cg_input *in)
{
	struct code_for x = { NULL, NULL };

	if (!find_arch(d, device, &x.arch) || !find_cpu(d, device, &x)) {
		return false;
	}
	in->cpu = x.arch && !HAS_LLVM ? NULL : x.cpu;
	in->arch = x.arch;
	in->quick = d->opts.at[OPT_DRAFT].given;
	in->no_cache = d->opts.at[OPT_NO_CACHE].given;
	return true;
}

/* Without code the plan is written alone; an error if --emit names code. */
bool
drv_report_no_code(struct driver *d, const struct target_device *device)
{
	const char *what = device->arch[0] ? device->arch : device->name;
	const struct opt_value *emit = &d->opts.at[OPT_EMIT];
	const char *why = "code of a GPU's host needs LLVM, and this llmc was "
			  "built without it (llvm-19-dev)";

	if (emit->given && cg_arch_known(what, &d->ctx.perm, &why)) {
		diag_error(&d->ctx.diags, nowhere, "--emit=%s: %s; "
			   "--emit=cuda goes without", emit->text, why);
		return false;
	}
	if (emit->given) {
		return refuse(d, arena_printf(&d->ctx.perm, "emit=%s",
			emit->text), "a target with code, such as cpux4 or "
			"h100x8", device);
	}
	if (!cg_arch_known(what, &d->ctx.perm, &why) || !HAS_LLVM) {
		fprintf(stderr, "llmc: note: %s; the plan alone is written\n",
			why);
	}
	return true;
}

void
drv_note_arch(const char *arch, const struct ir_module *m)
{
	const char *lacks = arch ? cg_arch_lacks(arch, m) : NULL;

	if (lacks) {
		fprintf(stderr, "llmc: note: experts of tf32, and gradients "
			"of attention with heads of more than %d or values "
			"of more than %d, for %s multiply with mma, as "
			"those for sm_80 do, and not with %s, as other "
			"products do: they take longer than predicted\n",
			CG_TENSOR_HEAD, CG_TENSOR_VALUES, arch, lacks);
	}
}

/* Bytes of scratch beside what the target reserves on a CPU already; a GPU's
 * target reserves what its driver keeps. */
static double
scratch_bytes(const struct cg_code *code, const struct code_for *x,
	      const struct target_device *device)
{
	double all = (double)cg_code_reserve(code);
	double more = x->arch ? all : all - device->reserve_bytes;

	return more > 0 ? more : 0;
}

bool
drv_set_scratch(struct driver *d, struct search_options *o)
{
	const struct target_device *device =
		&target_span(o->target, 0, o->target->groups.n - 1)->device;
	struct code_for x = { NULL, NULL };

	if (!find_arch(d, device, &x.arch) || !find_cpu(d, device, &x)) {
		return false;
	}
	o->scratch = x.cpu ? cg_scratch(x.cpu, x.arch) : NULL;
	return true;
}

/* Adds the scratch of this code to what each device of the target reserves. */
static void
reserve_scratch(struct driver *d, const struct code_for *x, struct target *t)
{
	struct target_device *device;
	uint32_t i;

	for (i = 0; i < t->groups.n; i++) {
		device = &t->groups.at[i].device;
		device->reserve_bytes += scratch_bytes(d->code, x, device);
	}
	target_settle(t, &d->ctx.perm);
	d->reserve_bytes = (int64_t)target_span(t, 0, t->groups.n - 1)
		->device.reserve_bytes;
}

bool
drv_code_begin(struct driver *d, const struct ranks *r, struct target *t,
	       const struct target_devs *devs, const struct price *p,
	       struct plan *plan)
{
	const struct target_device *device = &devs->all->device;
	struct cg_input *in = arena_alloc(&d->ctx.perm, sizeof *in);
	struct code_for x = { NULL, NULL };
	struct cg_tiling *tiles = arena_alloc(&d->ctx.perm, sizeof *tiles);
	const struct opt_value *emit = &d->opts.at[OPT_EMIT];
	const char *tunes = d->opts.at[OPT_AUTOTUNE].given ? "autotune"
		: d->opts.at[OPT_TRIALS].given ? "trials" : NULL;
	struct drv_part *plan_part;

	if (!find_arch(d, device, &x.arch) || !find_cpu(d, device, &x)) {
		return false;
	}
	*in = (struct cg_input){ .ranks = r, .target = devs->all, .price = p,
				 .cpu = x.cpu, .arch = x.arch,
				 .quick = d->opts.at[OPT_DRAFT].given,
				 .no_cache = d->opts.at[OPT_NO_CACHE].given };
	d->code_in = in;
	if (tunes && !x.arch) {
		return refuse(d, tunes, "a GPU as target, such as h100x8",
			      device);
	}
	if (!x.cpu) {
		return drv_report_no_code(d, device);
	}
	if ((d->opts.at[OPT_AUTOTUNE].given && !drv_autotune(d, in, plan)) ||
	    (d->opts.at[OPT_TRIALS].given && !drv_trials(d, in))) {
		return false;
	}
	in->sources_only = x.arch && emit->given &&
			   strcmp(emit->text, "cuda") == 0;
	if (x.arch && !HAS_LLVM && !in->sources_only) {
		return drv_report_no_code(d, device);
	}
	tiles->rows = plan->tiles;
	tiles->nrows = plan->ntiles;
	tiles->rows_at = plan->tiles_at;
	in->tiling = tiles;
	drv_note_arch(x.arch, r->m);
	d->kernels = arena_alloc(&d->ctx.perm, sizeof *d->kernels);
	plan_part = drv_kernels_part(d, d->kernels, CG_PLAN);
	/* for its text alone nothing is compiled: tiles are as the table has
	 * them */
	d->code = emit->given
		? cg_code_new(&d->ctx.perm, in)
		: drv_kernels_settle(d, &d->ctx, in, &plan_part->images);
	if (!d->code) {
		return false;
	}
	reserve_scratch(d, &x, t);
	return true;
}

static struct cg_facts
facts_of(struct driver *d, const struct answer *x)
{
	struct buf config;
	bool has_config;

	buf_init(&config, &d->ctx.perm);
	has_config = fe_config_json(d->code_in->ranks->m, &config);
	return (struct cg_facts){
		.part = CG_PLAN, .compiler = "llmc " PACKAGE_VERSION,
		.model = x->model.name, .target = x->target,
		.batch = x->model.sequences, .tokens = x->model.tokens,
		.step_us = x->step_us,
		.flops = x->model.flops * (double)x->model.tokens,
		.peak = x->mfu > 0 ? x->flops_s / x->mfu : 0,
		.json = buf_text(&d->json), .llp = buf_text(&d->plan),
		.config = has_config ? buf_text(&config) : NULL
	};
}

/* The sources of a GPU's kernels, one after the other. */
static bool
print_sources(struct driver *d)
{
	const struct cg_source *at;
	uint32_t n = cg_code_sources(d->code, &at), i;

	if (!d->code_in->arch) {
		return refuse(d, "emit=cuda", "a GPU as target, such as h100x8",
			      &d->code_in->target->device);
	}
	for (i = 0; i < n; i++) {
		buf_printf(&d->out, "%s/* ---- %s.cu ---- */\n",
			   i ? "\n" : "", at[i].name);
		buf_puts(&d->out, at[i].text);
	}
	return true;
}

bool
drv_code_text(struct driver *d, const struct answer *x)
{
	struct cg_facts f;
	bool ok;

	if (!d->code) {
		return false;
	}
	if (strcmp(d->opts.at[OPT_EMIT].text, "cuda") == 0) {
		ok = print_sources(d);
	} else {
		f = facts_of(d, x);
		ok = cg_code_finish(d->code, d->reserve_bytes, &f) &&
		     cg_code_text(d->code, &d->out);
	}
	cg_code_free(d->code);
	return ok;
}

bool
drv_code_end(struct driver *d, const struct answer *x)
{
	struct drv_kernels *k = d->kernels;
	struct cg_facts f;
	bool ok;

	if (!d->code) {
		return true;
	}
	buf_init(&d->program, &d->ctx.perm);
	f = facts_of(d, x);
	f.has_whole = drv_whole_object(d, &f, &f.whole_why);
	ok = cg_code_finish(d->code, d->reserve_bytes, &f) &&
	     cg_code_object(d->code, &k->part[0].object);
	cg_code_free(d->code);
	return ok && drv_kernels_end(d, k);
}

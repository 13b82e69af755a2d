/*
 * Behind an answer: code of the plan, for a CPU.
 */
#include "config.h"

#include "frontend/answer.h"

#include "codegen/cg.h"

static const struct span nowhere;

bool
drv_is_cpu(struct driver *d, const char *name)
{
	const char *why;

	return cg_cpu_known(name, &d->ctx.tmp, &why);
}

/* The target's, or what --cpu says instead. */
static const char *
cpu_of(struct driver *d, const struct target_device *device)
{
	const struct opt_value *v = &d->opts.at[OPT_CPU];
	const char *why = "?";

	if (!drv_is_cpu(d, device->arch)) {
		if (v->given) {
			diag_error(&d->ctx.diags, nowhere, "--cpu goes with a "
				   "CPU as target, as cpux4, and %s is none",
				   device->name);
		}
		return NULL;
	}
	if (v->given && !cg_cpu_known(v->text, &d->ctx.perm, &why)) {
		diag_error(&d->ctx.diags, nowhere, "--cpu: %s", why);
		return NULL;
	}
	return v->given ? v->text : device->arch;
}

/* So far llmc has code for CPUs alone. */
static bool
tell_none(struct driver *d, const struct target_device *device)
{
	const char *what = device->arch[0] ? device->arch : device->name;

	if (d->opts.at[OPT_EMIT].given) {
		diag_error(&d->ctx.diags, nowhere, "--emit=llvm goes with a "
			   "CPU as target, as cpux4, and %s is none",
			   device->name);
		return false;
	}
	fprintf(stderr, "llmc: note: code for %s is not generated yet; "
		"plan.json and plan.llp are written\n", what);
	return true;
}

bool
drv_code_begin(struct driver *d, const struct ranks *r,
	       struct target_group *t, const struct price *p)
{
	struct cg_input *in = arena_alloc(&d->ctx.perm, sizeof *in);
	double rooms;

	*in = (struct cg_input){ r, t, p, cpu_of(d, &t->device) };
	d->code_in = in;

	if (d->ctx.diags.errors) {
		return false;
	}
	if (!in->cpu) {
		return tell_none(d, &t->device);
	}
	d->code = cg_code_new(&d->ctx.perm, in);
	if (!d->code) {
		return false;
	}
	rooms = (double)cg_code_reserve(d->code);
	if (rooms > t->device.reserve_bytes) {
		t->device.reserve_bytes = rooms;
	}
	d->reserve_bytes = (int64_t)t->device.reserve_bytes;
	return true;
}

static struct cg_facts
facts_of(struct driver *d, const struct answer *x)
{
	return (struct cg_facts){
		.compiler = "llmc " PACKAGE_VERSION,
		.model = x->model.name, .target = x->target,
		.batch = x->model.sequences, .tokens = x->model.tokens,
		.step_us = x->step_us,
		.flops = x->model.flops * (double)x->model.tokens,
		.peak = x->mfu > 0 ? x->flops_s / x->mfu : 0,
		.json = buf_text(&d->json), .llp = buf_text(&d->plan)
	};
}

bool
drv_code_text(struct driver *d, const struct answer *x)
{
	struct cg_facts f = facts_of(d, x);
	bool ok = cg_code_finish(d->code, d->reserve_bytes, &f);

	if (ok) {
		cg_code_text(d->code, &d->out);
	}
	cg_code_free(d->code);
	return ok;
}

bool
drv_code_end(struct driver *d, const struct answer *x)
{
	struct cg_facts f;
	struct buf objects[CG_MAX_OBJECTS];
	bool ok;

	if (!d->code) {
		return true;
	}
	f = facts_of(d, x);
	buf_init(&objects[0], &d->ctx.perm);
	buf_init(&objects[1], &d->ctx.perm);
	buf_init(&d->program, &d->ctx.perm);
	f.has_whole = drv_whole_object(d, &f, &objects[1], &f.whole_why);
	ok = cg_code_finish(d->code, d->reserve_bytes, &f) &&
	     cg_code_object(d->code, &objects[0]);
	cg_code_free(d->code);
	return ok && cg_link(&d->ctx, objects, f.has_whole ? 2 : 1,
			     &d->program);
}

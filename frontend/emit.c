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
	struct cg_input in = { r, t, p, cpu_of(d, &t->device) };
	double rooms;

	if (d->ctx.diags.errors) {
		return false;
	}
	if (!in.cpu) {
		return tell_none(d, &t->device);
	}
	d->code = cg_code_new(&d->ctx.perm, &in);
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

static bool
finish(struct driver *d, const struct answer *x)
{
	struct cg_facts f = {
		.compiler = "llmc " PACKAGE_VERSION,
		.model = x->model.name, .target = x->target,
		.batch = x->model.sequences, .tokens = x->model.tokens,
		.step_us = x->step_us,
		.flops = x->model.flops * (double)x->model.tokens,
		.peak = x->mfu > 0 ? x->flops_s / x->mfu : 0,
		.json = buf_text(&d->json), .llp = buf_text(&d->plan)
	};

	return cg_code_finish(d->code, d->reserve_bytes, &f);
}

bool
drv_code_text(struct driver *d, const struct answer *x)
{
	bool ok = finish(d, x);

	if (ok) {
		cg_code_text(d->code, &d->out);
	}
	cg_code_free(d->code);
	return ok;
}

bool
drv_code_end(struct driver *d, const struct answer *x)
{
	struct buf object;
	bool ok;

	if (!d->code) {
		return true;
	}
	buf_init(&object, &d->ctx.perm);
	buf_init(&d->program, &d->ctx.perm);
	ok = finish(d, x) && cg_code_object(d->code, &object);
	cg_code_free(d->code);
	return ok && cg_link(&d->ctx, &object, &d->program);
}

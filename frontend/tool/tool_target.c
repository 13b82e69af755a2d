/*
 * --target: whether it fits what is wanted, whose constants it has, and
 * whether a plan is searched for on it.  The language reads target files
 * (frontend/lang/lang_target.c); here is what a run does with one.
 */
#include "frontend/tool/tool.h"

#include "frontend/frontend.h"
#include "passes/search/search.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define ANY_CPU "cpu"

/*
 * Plans that a search for a report ends with, so that it prices some hundreds.
 * The best of them is the best without a report, unless the search ends early.
 */
#define REPORT_TOP 20

static const struct span nowhere;

/*
 * ---- families of CPUs ----
 *
 * `--target cpu` is one core of any machine.  If llmc has constants of the
 * CPU that --cpu names, that core is priced by them, and the answer says so.
 */

/* The target whose constants are those of a CPU, by LLVM's name of it. */
static const struct family {
	const char *cpu, *target;
	bool is_guess;		/* measured on a related CPU */
	/* features that the constants rest on; virtual machines hide some */
	const char *needs[2];
} families[] = {
	{ "znver4", "cpu-avx512", false, { "avx512f", "avx512bf16" } },
	{ "znver5", "cpu-znver5", false, { "avx512f", "avx512bf16" } },
	{ "sapphirerapids", "cpu-sapphirerapids", false,
	  { "avx512f", "amx-bf16" } },
	{ "emeraldrapids", "cpu-sapphirerapids", true,
	  { "avx512f", "amx-bf16" } },
	{ "graniterapids", "cpu-sapphirerapids", true,
	  { "avx512f", "amx-bf16" } },
};

static const struct family *
family_of(const char *cpu)
{
	size_t i;

	for (i = 0; i < sizeof families / sizeof *families; i++) {
		if (strcmp(families[i].cpu, cpu) == 0) {
			return &families[i];
		}
	}
	return NULL;
}

/* The feature of `f` that this machine lacks, or NULL. */
static const char *
host_lacks(const struct family *f, struct arena *a)
{
	size_t i;

	for (i = 0; f && i < sizeof f->needs / sizeof *f->needs; i++) {
		if (!cg_cpu_host_has(a, f->needs[i])) {
			return f->needs[i];
		}
	}
	return NULL;
}

/* "x4@eth10" of "cpux4@eth10"; NULL: another target. */
static const char *
how_many(const char *target)
{
	const char *rest = target + strlen(ANY_CPU);

	return strncmp(target, ANY_CPU, strlen(ANY_CPU)) == 0 &&
	       (*rest == '\0' || *rest == '@' ||
		(*rest == 'x' && rest[1] >= '0' && rest[1] <= '9')) ? rest
								    : NULL;
}

static void
set_family(struct driver *d)
{
	struct opt_value *target = &d->opts.at[OPT_TARGET];
	const struct opt_value *cpu = &d->opts.at[OPT_CPU];
	struct arena *a = &d->ctx.perm;
	const struct family *f;
	const char *rest, *name, *why, *target_name, *lacks = NULL;

	if (!target->given || !cpu->given ||
	    !cg_cpu_known(cpu->text, a, &why) ||
	    (rest = how_many(target->text)) == NULL) {
		return;
	}
	name = arena_printf(a, "%.*s", (int)strcspn(cpu->text, "+"),
			    cpu->text);
	if (strcmp(name, "native") == 0) {
		name = cg_cpu_host(a);
		lacks = host_lacks(family_of(name), a);
	}
	f = lacks ? NULL : family_of(name);
	if (lacks) {
		name = arena_printf(a, "%s without %s", name, lacks);
	}
	target_name = f ? f->target : ANY_CPU;
	target->text = arena_printf(a, "%s%s", target_name, rest);
	d->priced_cpu = arena_printf(a, f && !f->is_guess
		? "%s, priced by targets/%s.target"
		: "%s, priced by targets/%s.target, which is a guess", name,
		target_name);
}

/* ---- does it fit what is wanted ---- */

/* Passes price the code that llmc emits, so not with --assume. */
bool
drv_read_target(struct driver *d, struct target *t)
{
	if (!fe_target(&d->ctx, d->opts.at[OPT_TARGET].text, t)) {
		return false;
	}
	d->pm.cluster = arena_dup(&d->ctx.perm, t, sizeof *t);
	if (!d->opts.at[OPT_ASSUME].given) {
		d->pm.target = d->pm.cluster;
	}
	return true;
}

static const char *
arch_of(const struct target_group *g)
{
	return g->device.arch[0] ? g->device.arch : "of unknown architecture";
}

/* All ranks run one program. */
static bool
one_arch(struct driver *d, const struct target *t)
{
	const struct target_group *a = t->groups.at, *b;
	uint32_t i;

	for (i = 1; i < t->groups.n; i++) {
		b = &t->groups.at[i];
		if (strcmp(a->device.arch, b->device.arch) != 0) {
			diag_error(&d->ctx.diags, b->span, "all ranks run one "
				   "program, and %s is %s while %s is %s",
				   b->device.name, arch_of(b),
				   a->device.name, arch_of(a));
			diag_note(&d->ctx.diags, nowhere, "without -o llmc "
				  "plans for it as it is; code needs nodes of "
				  "one architecture");
			return false;
		}
	}
	return true;
}

bool
drv_check_target(struct driver *d)
{
	const char *name;
	struct target t;

	set_family(d);
	name = drv_text(d, OPT_TARGET);
	if (!name && drv_wants(d, "target")) {
		diag_error(&d->ctx.diags, nowhere,
			   "--emit=target needs --target");
		return false;
	}
	if ((name && !drv_read_target(d, &t)) ||
	    (drv_wants_folder(d) &&
	     !drv_may_write_folder(&d->ctx, drv_text(d, OPT_OUTPUT))) ||
	    (name && (drv_wants_folder(d) || drv_wants_code(d)) &&
	     !one_arch(d, &t))) {
		return false;
	}
	d->for_gpu = name && (drv_wants_folder(d) || drv_wants_code(d)) &&
		     drv_has_kernels(d, t.groups.at->device.arch);
	d->for_code = d->for_gpu ||
		      (name && drv_is_cpu(d, t.groups.at->device.arch));
	return true;
}

/*
 * Compiled code has buffers for all rows that may be routed to a rank, so the
 * account of memory must count them too.
 */
void
drv_set_capacity(struct driver *d, struct ir_module *m)
{
	struct ir_setting s = { .kind = SET_WORD, .n = 1 };

	if (d->for_code && !ir_setting(m, "memory.routed")) {
		s.key = intern_str(&d->ctx.syms, "memory.routed");
		s.text = intern_str(&d->ctx.syms, "all");
		VEC_PUSH(&d->ctx.perm, &m->settings, s);
	}
}

/* ---- is a plan searched for ---- */

static bool
has_plan(const struct ir_module *m)
{
	uint32_t i;

	for (i = 0; i < m->settings.n; i++) {
		if (strncmp(ir_text(m->ctx, m->settings.at[i].key), "plan.",
			    5) == 0) {
			return true;
		}
	}
	return false;
}

/* How many plans to keep: ten, if they are printed and --top says nothing. */
static uint32_t
top(const struct driver *d)
{
	return d->opts.at[OPT_TOP].given
		? (uint32_t)d->opts.at[OPT_TOP].num
		: drv_wants_plans(d) ? 10 : 1;
}

static volatile sig_atomic_t interrupted;

static void
note_interrupt(int sig)
{
	(void)sig;
	interrupted = 1;
}

/*
 * While a search runs, the first interrupt ends it with the best plan so far;
 * the second ends the program, as does one where the shell ignores it.
 */
static void
watch_interrupts(struct search_options *o)
{
	struct sigaction act = { .sa_handler = note_interrupt,
				 .sa_flags = SA_RESETHAND }, old;

	o->interrupted = &interrupted;
	if (sigaction(SIGINT, NULL, &old) == 0 &&
	    old.sa_handler == SIG_DFL) {
		sigaction(SIGINT, &act, NULL);
	}
}

void
drv_heed_interrupts(void)
{
	struct sigaction act;

	if (sigaction(SIGINT, NULL, &act) == 0 &&
	    act.sa_handler == note_interrupt) {
		signal(SIGINT, SIG_DFL);
	}
}

/*
 * Searches of a sweep have a thread each, of as many as there are cores.  What
 * two threads find in their memos depends on how quick they are, so where that
 * is printed there is one.
 */
static bool
has_two_threads(const struct driver *d)
{
	const struct opt_value *v = &d->opts.at[OPT_THREADS];

	if (d->is_part || d->opts.at[OPT_STATS].given) {
		return false;
	}
	return v->given ? v->num > 1 : sysconf(_SC_NPROCESSORS_ONLN) > 1;
}

bool
drv_set_search(struct driver *d, struct ir_module *m)
{
	const char *name = d->opts.at[OPT_TARGET].text;
	struct search_options *o;
	struct target *t = NULL;

	if (!name || d->opts.at[OPT_PLAN].given || has_plan(m) ||
	    !ir_model(m)) {
		return true;
	}
	o = arena_alloc(&d->ctx.perm, sizeof *o);
	if (!d->pm.target) {
		t = arena_alloc(&d->ctx.perm, sizeof *t);
		if (!fe_target(&d->ctx, name, t)) {
			return false;
		}
	}
	o->target = t ? t : d->pm.target;
	o->top = top(d);
	o->distinct = o->top > 1 && !d->opts.at[OPT_ALL_PLANS].given;
	o->seconds = (double)d->opts.at[OPT_SEARCH_SECONDS].num;
	o->no_advice = d->is_part;
	o->compiled = d->for_gpu && !drv_wants_serving(d);
	if (!d->is_part) {
		o->shows = isatty(STDERR_FILENO);
		watch_interrupts(o);
	}
	o->two_threads = has_two_threads(d);
	o->keeps_priced = d->opts.at[OPT_REPORT].given;
	if (o->keeps_priced && !d->opts.at[OPT_TOP].given &&
	    !d->opts.at[OPT_SEARCH_SECONDS].given) {
		o->top = REPORT_TOP;
	}
	o->report = arena_alloc(&d->ctx.perm, sizeof *o->report);
	if (d->for_code && !drv_set_scratch(d, o)) {
		return false;
	}
	d->pm.search = o;
	return true;
}

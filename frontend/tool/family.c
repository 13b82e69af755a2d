/*
 * Families of CPUs.  `--target cpu` is one core of any machine; a core of one
 * that `--cpu` names is priced by constants of its own, if llmc has any, and
 * the answer says by whose.
 */
#include "frontend/tool/driver.h"

#include <string.h>

#include "codegen/cg.h"

#define ANY "cpu"

/* Which target's constants are those of a CPU, as LLVM calls it. */
static const struct family {
	const char *cpu, *target;
	bool is_guess;		/* measured on a relative of it */
	/* what the constants are of; virtual machines often hide it */
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

/* What the constants of `f` take and this machine has not; NULL: nothing. */
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
	const char *rest = target + strlen(ANY);

	return strncmp(target, ANY, strlen(ANY)) == 0 &&
	       (*rest == '\0' || *rest == '@' ||
		(*rest == 'x' && rest[1] >= '0' && rest[1] <= '9')) ? rest
								    : NULL;
}

void
drv_take_family(struct driver *d)
{
	struct opt_value *target = &d->opts.at[OPT_TARGET];
	const struct opt_value *cpu = &d->opts.at[OPT_CPU];
	struct arena *a = &d->ctx.perm;
	const struct family *f;
	const char *rest, *name, *why, *take, *lacks = NULL;

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
	take = f ? f->target : ANY;
	target->text = arena_printf(a, "%s%s", take, rest);
	d->priced_cpu = arena_printf(a, f && !f->is_guess
		? "%s, priced by targets/%s.target"
		: "%s, priced by targets/%s.target, which is a guess", name,
		take);
}

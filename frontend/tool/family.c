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
} families[] = {
	{ "znver4", "cpu-avx512", false },
	{ "znver5", "cpu-znver5", false },
	{ "sapphirerapids", "cpu-sapphirerapids", false },
	{ "emeraldrapids", "cpu-sapphirerapids", true },
	{ "graniterapids", "cpu-sapphirerapids", true },
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
	const char *rest, *name, *why, *take;

	if (!target->given || !cpu->given ||
	    !cg_cpu_known(cpu->text, a, &why) ||
	    (rest = how_many(target->text)) == NULL) {
		return;
	}
	name = arena_printf(a, "%.*s", (int)strcspn(cpu->text, "+"),
			    cpu->text);
	if (strcmp(name, "native") == 0) {
		name = cg_cpu_host(a);
	}
	f = family_of(name);
	take = f ? f->target : ANY;
	target->text = arena_printf(a, "%s%s", take, rest);
	d->priced_cpu = arena_printf(a, f && !f->is_guess
		? "%s, priced by targets/%s.target"
		: "%s, priced by targets/%s.target, which is a guess", name,
		take);
}

/*
 * --assume: traits of the software whose steps are priced.
 */
#include "frontend/tool/driver.h"

#include <string.h>

#include "passes/price/price.h"

/* Each text is a source like a file, so messages point into it. */
static bool
assume(struct driver *d, const char *text, struct price_traits *traits)
{
	struct price_fault fault;
	struct span at = { 0, 0 };
	uint32_t base;

	if (price_traits_parse(traits, text, false, &d->ctx.perm, &fault)) {
		return true;
	}
	if (source_add(&d->ctx.sources, "--assume", text, strlen(text),
		       &base)) {
		at = (struct span){ base + fault.lo, base + fault.hi };
	}
	diag_error(&d->ctx.diags, at, "%s", fault.why);
	return false;
}

bool
drv_assume(struct driver *d, struct price_traits *traits)
{
	const struct opt_value *v = &d->opts.at[OPT_ASSUME];
	uint32_t i;

	for (i = 0; i < v->list.n; i++) {
		if (!assume(d, v->list.at[i], traits)) {
			return false;
		}
	}
	return true;
}

/*
 * CPUs by name, for who asks before LLVM is loaded.
 */
#include "codegen/cg.h"
#include "codegen/llvm/ll_cpu.h"

#include <string.h>

static bool
feature_known(const char *name, struct arena *a, const char **why)
{
	uint32_t n, i;
	const char *const *all = ll_cpu_features(&n);
	struct diag_near near;
	struct buf list;

	diag_near_init(&near, name);
	buf_init(&list, a);
	for (i = 0; i < n; i++) {
		if (strcmp(all[i], name) == 0) {
			return true;
		}
		diag_near_try(&near, all[i]);
		buf_printf(&list, "%s%s", i == 0 ? "" : i + 1 < n ? ", "
								  : " and ",
			   all[i]);
	}
	*why = arena_printf(a, "there is no feature `%s` of a CPU%s: there are "
			    "%s", name, diag_near_text(&near, a),
			    buf_text(&list));
	return false;
}

static bool
name_known(const char *name, struct arena *a, const char **why)
{
	uint32_t n, i;
	const struct ll_cpu_row *rows = ll_cpu_rows(&n);
	struct diag_near near;
	struct buf all;

	if (strcmp(name, "native") == 0 || ll_cpu_find(name)) {
		return true;
	}
	diag_near_init(&near, name);
	diag_near_try(&near, "native");
	buf_init(&all, a);
	buf_puts(&all, "native");
	for (i = 0; i < n; i++) {
		diag_near_try(&near, rows[i].name);
		buf_printf(&all, "%s%s", i + 1 < n ? ", " : " and ",
			   rows[i].name);
	}
	*why = arena_printf(a, "there is no CPU `%s`%s: there are %s", name,
			    diag_near_text(&near, a), buf_text(&all));
	return false;
}

bool
cg_cpu_known(const char *cpu, struct arena *a, const char **why)
{
	const char *more, *name = ll_cpu_split(a, cpu, &more);

	if (!name_known(name, a, why)) {
		return false;
	}
	while ((name = ll_cpu_next(a, &more)) != NULL) {
		if (!feature_known(name, a, why)) {
			return false;
		}
	}
	return true;
}

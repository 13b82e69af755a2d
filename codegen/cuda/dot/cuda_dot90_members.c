/*
 * Where the text of contractions of one launch, and of one alone, differs: see
 * cuda_dot90_launch.c.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

const char *
dot90_func(const struct cu_func *f, const struct dot90 *p, const char *what)
{
	struct arena *a = f->k->c->a;

	return p->number ? arena_printf(a, "%s_m%u_%s", f->grid->func,
					p->number, what)
			 : arena_printf(a, "%s_%s", f->grid->func, what);
}

void
dot90_open_member(struct cu_func *f, const struct dot90 *p, uint32_t i)
{
	const char *at = p->by_rows ? "row" : "col";

	if (!p->nmembers) {
		return;
	}
	if (i + 1 == p->nmembers) {
		cu_line(f, "} else {");
	} else {
		cu_line(f, "%sif (%s < %lld) {", i ? "} else " : "", at,
			(long long)p->member[i + 1].first_block);
	}
	if (i > 0) {
		cu_line(f, "%s -= %lld;", at,
			(long long)p->member[i].first_block);
	}
}

void
dot90_close_members(struct cu_func *f, const struct dot90 *p)
{
	if (p->nmembers) {
		cu_line(f, "}");
	}
}

bool
dot90_any_box(const struct dot90 *p)
{
	bool any = p->box > 0;
	uint32_t i;

	for (i = 0; i < p->nmembers; i++) {
		any |= p->member[i].box > 0;
	}
	return any;
}

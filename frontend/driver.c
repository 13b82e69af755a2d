/*
 * What more than one command of llmc does with its options and its input.
 * It is here, below frontend/tool, frontend/eval and frontend/validate, so
 * that none of these includes another one for it.
 */
#include "frontend/driver.h"

#include <string.h>

#include "passes/price/price.h"
#include "passes/stage/ranks.h"

void
drv_open(struct driver *d, const struct mem *gate)
{
	ir_ctx_init(&d->ctx, gate);
	memo_init(&d->memo, &d->ctx.mem, MEMO_BYTES);
	opt_init(&d->opts, &d->ctx.perm);
	buf_init(&d->out, &d->ctx.perm);
	pass_table_init(&d->table, &d->ctx);
	pass_manager_init(&d->pm, &d->table);
}

void
drv_close(struct driver *d)
{
	pass_manager_release(&d->pm);
	pass_table_release(&d->table);
	memo_release(&d->memo);
	ir_ctx_release(&d->ctx);
}

/* Each text is a source like a file, so messages point into it. */
static bool
assume_one(struct driver *d, const char *text, struct price_traits *traits)
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
		if (!assume_one(d, v->list.at[i], traits)) {
			return false;
		}
	}
	return true;
}

bool
drv_open_ranks(struct driver *d, struct ir_module *m, struct ranks *r)
{
	struct sched *sched = ranks_schedule(m, d->pm.memo, &d->ctx.perm);
	const char *why = "?";

	if (!sched) {
		return false;
	}
	if (!ranks_open(r, m, sched, d->pm.memo, &why)) {
		diag_error(&d->ctx.diags, (struct span){ 0, 0 },
			   "these rank programs cannot run: %s", why);
		return false;
	}
	return true;
}

const char *
drv_first_error(const struct ir_ctx *c)
{
	const struct diag_record *r = c->diags.records.at;
	uint32_t i;

	for (i = 0; i < c->diags.records.n; i++) {
		if (r[i].level == DIAG_ERROR) {
			return r[i].text;
		}
	}
	return NULL;
}

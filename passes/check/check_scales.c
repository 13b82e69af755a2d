/*
 * Scales of weights that are stored in 8 bits: whoever reads the weight finds
 * them, so a rank that reads scales must hold all of what they are of.
 */
#include "passes/check/check.h"

#include <string.h>

/* The weight's key: that of its scales without what their names end in. */
static sym_t
weight_key(const struct check *c, sym_t scales)
{
	const char *text = intern_text(&c->keys, scales);
	size_t n = strlen(text) - strlen(IR_SCALES_SUFFIX);

	return intern_find(&c->keys, arena_printf(c->a, "%.*s", (int)n, text));
}

static void
check_held(struct check *c, uint32_t use)
{
	const struct check_use *u = &c->uses.at[use];
	uint32_t pipe = check_fn_of(c, u)->pipe, i;
	struct check_runs wanted = { 0 }, held = { 0 };
	sym_t key = weight_key(c, u->key);
	struct check_run gap;

	check_run_add(c, &wanted, use);
	for (i = key ? c->key_begin[key] : 0;
	     key && i < c->key_begin[key + 1]; i++) {
		const struct check_use *w = &c->uses.at[c->by_key[i]];

		if (check_node(c, w)->op == IR_WEIGHT &&
		    check_fn_of(c, w)->pipe == pipe) {
			check_run_add(c, &held, c->by_key[i]);
		}
	}
	check_run_sort(&held);
	if (check_run_lacks(&wanted, &held, &gap)) {
		check_fail(c, u, "this rank has no weight that they are of%s, "
			   "expected it here, too",
			   check_trips(c, u, gap.lo, gap.hi));
	}
}

void
check_scales(struct check *c)
{
	uint32_t i;

	for (i = 0; i < c->uses.n; i++) {
		if (check_node(c, &c->uses.at[i])->op == IR_SCALES) {
			check_held(c, i);
		}
	}
}

/*
 * Scales of weights that are stored in 8 bits: whoever reads the weight finds
 * them, so a rank that reads scales must hold all of what they are of.  Those
 * of 4 bits are a part of their weight: a rank must have whole groups of it.
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

/* In how many parts dim i is split; false: not in equal ones in order. */
static bool
count_parts(const struct check *c, const struct ir_type *t, uint32_t i,
	    int64_t *parts)
{
	axis_id axes[IR_MAX_AXES];
	uint32_t n = ir_cuts(t, i, axes), k;
	bool plain = true;

	*parts = 1;
	for (k = 0; k < n; k++) {
		const struct ir_axis *a = &c->m->axes.at[axes[k]];

		plain = plain && !a->balanced && !a->time;
		*parts *= a->size;
	}
	return plain;
}

static void
check_groups(struct check *c, const struct check_use *u)
{
	const struct ir_node *n = check_node(c, u);
	const struct ir_attr *over = ir_attr(c->m, n, IR_ATTR_ROUNDED);
	const struct ir_type *t = ir_type(c->m, n->result);
	int64_t parts;
	uint32_t i;

	if (!over || t->dtype != IR_INT4) {
		return;
	}
	for (i = 0; i < t->ndims; i++) {
		if (!ir_attr_has(over, t->dims[i])) {
			continue;
		}
		if (!count_parts(c, t, i, &parts) ||
		    !ir_keeps_groups(c->m, t, over, i, parts)) {
			check_fail(c, u, "its rows of %lld are split in %lld "
				   "along `%s`, which divides groups of %d "
				   "that share a scale, expected whole groups "
				   "on each rank", (long long)
				   ir_row_elems(c->m, t, over),
				   (long long)parts,
				   ir_dim_name(c->m, t->dims[i]), IR_GROUP);
		}
	}
}

void
check_scales(struct check *c)
{
	uint32_t i;

	for (i = 0; i < c->uses.n; i++) {
		const struct check_use *u = &c->uses.at[i];

		if (check_node(c, u)->op == IR_SCALES) {
			check_held(c, i);
		} else if (check_node(c, u)->op == IR_WEIGHT) {
			check_groups(c, u);
		}
	}
}

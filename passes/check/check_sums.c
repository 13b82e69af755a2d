/*
 * Sums over all tensors that the updates make, such as the sum of the squares
 * of all gradients. Each tensor must be counted once, even if several ranks
 * hold it, and all ranks of the pipeline must read the sum when it is complete.
 */
#include "passes/check/check.h"

/* A sum: a name that updates accumulate and that no tensor has. */
struct cell {
	struct check *c;
	sym_t key;
	uint32_t *seen;		/* by value: the last search that visited it */
	uint32_t searches;
	uint32_t *use_of;	/* by node: 1 + its use, or 0 */
	/* by tensor: its counted reads */
	struct check_runs *counted;
	VEC(sym_t) tensors;	/* keys of the tensors that the sum counts */
};

static bool
is_tensor(const struct check *c, sym_t key)
{
	uint32_t i;

	for (i = c->key_begin[key]; i < c->key_begin[key + 1]; i++) {
		const struct check_use *u = &c->uses.at[c->by_key[i]];
		const struct ir_node *n = check_node(c, u);

		if (ir_is(n->op, IRF_STORED) ||
		    (n->op == IR_ACCUMULATE &&
		     check_fn_of(c, u)->phase != CHECK_UPDATE)) {
			return true;
		}
	}
	return false;
}

static bool
is_sum(const struct check *c, const struct check_use *u)
{
	return ir_is(check_node(c, u)->op, IRF_SUMS);
}

/* ---- what the sum contains ---- */

/* The gradient from which a value is made, or NULL; of several, the first. */
static const struct check_use *
gradient_in(struct cell *k, value_id v)
{
	struct check *c = k->c;
	const struct check_use *found = NULL;
	node_id id = c->m->values.at[v].node;
	const struct ir_node *n = ir_node(c->m, id);
	uint32_t i;

	if (!id || n->region || k->seen[v] == k->searches) {
		return NULL;
	}
	k->seen[v] = k->searches;
	if (n->op == IR_GRADIENT) {
		return &c->uses.at[k->use_of[id] - 1];
	}
	for (i = 0; i < n->nargs && !found; i++) {
		found = gradient_in(k, ir_args(c->m, n)[i]);
	}
	return found;
}

static int64_t
all_trips(const struct check_use *u)
{
	int64_t n;

	return num_mul(u->hi - u->lo, u->times, &n) ? n : INT64_MAX;
}

static void
count(struct cell *k, const struct check_use *add)
{
	struct check *c = k->c;
	const struct check_use *g;

	k->searches++;
	g = gradient_in(k, ir_args(c->m, check_node(c, add))[0]);
	if (!g || g->key == k->key) {
		return;
	}
	if (all_trips(g) != all_trips(add)) {
		check_fail(c, add, "it is added %lld times, and what it is "
			   "made of is there %lld times",
			   (long long)all_trips(add),
			   (long long)all_trips(g));
	}
	if (!k->counted[g->key].n) {
		VEC_PUSH(c->a, &k->tensors, g->key);
	}
	check_run_add(c, &k->counted[g->key], (uint32_t)(g - c->uses.at));
}

/*
 * Of the ranks that hold a tensor exactly one counts it. With two the norm
 * would be too large, and with none too small.
 */
static void
counted_once(struct cell *k, sym_t tensor)
{
	struct check *c = k->c;
	struct check_runs all = { 0 }, *r = &k->counted[tensor];
	struct check_run a, b;
	const char *name = intern_text(&c->keys, k->key);
	uint32_t i;

	for (i = c->key_begin[tensor]; i < c->key_begin[tensor + 1]; i++) {
		if (check_node(c, &c->uses.at[c->by_key[i]])->op ==
		    IR_GRADIENT) {
			check_run_add(c, &all, c->by_key[i]);
		}
	}
	check_run_sort(&all);
	check_run_sort(r);
	if (check_run_twice(r, &a, &b)) {
		check_fail(c, &c->uses.at[b.use], "it is counted in `%s` a "
			   "second time, expected once", name);
		check_note(c, &c->uses.at[a.use], "the first time is here");
	}
	if (check_run_lacks(&all, r, &a)) {
		const struct check_use *u = &c->uses.at[a.use];

		check_fail(c, u, "no rank counts it in `%s`%s, expected one "
			   "of its holders to", name,
			   check_trips(c, u, a.lo, a.hi));
	}
	r->n = 0;
}

/* ---- when it is read ---- */

/*
 * Each rank of the pipeline must read the sum once, after all that it adds.
 * What it adds later is lost, and a rank that does not read the sum is missing
 * from the all-reduce.
 */
static void
read_complete(struct cell *k, uint32_t pipe, const uint32_t *uses, uint32_t n)
{
	struct check *c = k->c;
	const struct check_use *read = NULL;
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct check_use *u = &c->uses.at[uses[i]];

		if (check_node(c, u)->op == IR_ACCUMULATE && read) {
			check_fail(c, u, "it is added when the sum has been "
				   "read, expected it before");
			check_note(c, read, "it is read here");
			return;
		}
		if (check_node(c, u)->op == IR_GRADIENT) {
			if (read || all_trips(u) != 1) {
				check_fail(c, u, "the sum is read more than "
					   "once, expected once");
			}
			read = u;
		}
	}
	if (!read) {
		check_fail(c, &c->uses.at[c->by_key[c->key_begin[k->key]]],
			   "pipe %u does not read the sum, expected all to",
			   pipe);
	}
}

/*
 * Uses of a key are in the order of functions, so those of an update are
 * adjacent.
 */
static void
read_by_all(struct cell *k)
{
	struct check *c = k->c;
	uint32_t from = c->key_begin[k->key], end = c->key_begin[k->key + 1];
	uint32_t pipe, i, first = CHECK_UPDATE * c->nstages;

	for (pipe = 0; pipe < c->npipes; pipe++) {
		for (i = from; i < end && c->uses.at[c->by_key[i]].fn ==
		     first + pipe; i++) {
		}
		read_complete(k, pipe, c->by_key + from, i - from);
		from = i;
	}
}

static void
one_cell(struct cell *k)
{
	struct check *c = k->c;
	bool added = false;
	uint32_t i;

	for (i = c->key_begin[k->key]; i < c->key_begin[k->key + 1]; i++) {
		const struct check_use *u = &c->uses.at[c->by_key[i]];

		if (!is_sum(c, u)) {
			check_fail(c, u, "no rank reads a tensor so called, "
				   "and it is added up as a sum");
			return;
		}
		added |= check_node(c, u)->op == IR_ACCUMULATE;
	}
	if (!added) {
		check_fail(c, &c->uses.at[c->by_key[c->key_begin[k->key]]],
			   "nothing is accumulated under that name");
		return;
	}
	k->tensors.n = 0;
	for (i = c->key_begin[k->key]; i < c->key_begin[k->key + 1]; i++) {
		const struct check_use *u = &c->uses.at[c->by_key[i]];

		if (check_node(c, u)->op == IR_ACCUMULATE) {
			count(k, u);
		}
	}
	for (i = 0; i < k->tensors.n; i++) {
		counted_once(k, k->tensors.at[i]);
	}
	read_by_all(k);
}

void
check_sums(struct check *c)
{
	struct cell k = { .c = c };
	uint32_t i;

	k.seen = arena_alloc(c->a, c->m->values.n * sizeof *k.seen);
	k.use_of = arena_alloc(c->a, c->m->nodes.n * sizeof *k.use_of);
	k.counted = arena_alloc(c->a, c->keys.text.n * sizeof *k.counted);
	for (i = 0; i < c->uses.n; i++) {
		k.use_of[c->uses.at[i].node] = i + 1;
	}
	for (k.key = 1; k.key < c->keys.text.n; k.key++) {
		uint32_t from = c->key_begin[k.key];
		uint32_t end = c->key_begin[k.key + 1];

		for (i = from; i < end && !is_sum(c,
		     &c->uses.at[c->by_key[i]]); i++) {
		}
		if (i < end && !is_tensor(c, k.key)) {
			one_cell(&k);
		}
	}
}

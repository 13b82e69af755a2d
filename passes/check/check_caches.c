/*
 * Caches of a program that serves: a place of a cache has one owner.  The
 * runtime decides which sequence a place is of, and says so by indices, the
 * inputs of a step.  These rules prove that the rank programs keep to that: a
 * cache is written by one node alone, where the step says; and a rank reads
 * places only where the step says, of a cache that it has itself.
 */
#include "passes/check/check.h"

/* What all indices of one kind are read from. */
struct said_by {
	sym_t name;		/* of the input; 0: none yet */
	const struct check_use *first;	/* the cache that it is used with */
};

struct caches {
	struct check *c;
	const struct check_use **at;	/* by value: the cache that it is */
	struct said_by put, taken;
};

/* The input that a value is, or 0. */
static sym_t
input_of(const struct ir_module *m, value_id v)
{
	node_id id = m->values.at[v].node;

	return id && ir_node(m, id)->op == IR_INPUT
		? ir_attr(m, ir_node(m, id), IR_ATTR_NAME)->text : 0;
}

/* The input that says where; another one would have another order of rows. */
static void
same_index(struct caches *x, struct said_by *s, const struct check_use *u,
	   value_id index, const char *what)
{
	const struct ir_module *m = x->c->m;
	sym_t name = input_of(m, index);

	if (!name) {
		check_fail(x->c, u, "places are %s where no input says, "
			   "expected one: the runtime decides whose they are",
			   what);
	} else if (!s->name) {
		s->name = name;
		s->first = u;
	} else if (s->name != name) {
		check_fail(x->c, u, "places are %s where `%s` says, expected "
			   "`%s`, as everywhere", what,
			   ir_text(m->ctx, name), ir_text(m->ctx, s->name));
		check_note(x->c, s->first, "the other is here");
	}
}

/* The ops that may read a cache, as words. */
static const char *
takers(struct caches *x)
{
	const char *names = NULL;
	int op;

	for (op = 0; op < IR_OP_COUNT; op++) {
		if (ir_is((enum ir_op)op, IRF_TAKES)) {
			names = names ? arena_printf(x->c->a, "%s or %s", names,
						     ir_ops[op].name)
				      : ir_ops[op].name;
		}
	}
	return names;
}

/* Whether the node cuts each place of a cache: what it makes is a cache. */
static bool
cuts_places(struct caches *x, const struct ir_node *n)
{
	const struct ir_module *m = x->c->m;
	const struct check_use *u = x->at[ir_args(m, n)[0]];

	return n->op == IR_SLICE &&
	       ir_attr(m, n, IR_ATTR_OF)->dims[0] !=
	       ir_attr(m, check_node(x->c, u), IR_ATTR_OF)->dims[0];
}

/* Who reads a cache takes places of it, or of a slice of each, and nothing
 * else. */
static void
check_read(struct caches *x, const struct ir_node *n, uint32_t arg)
{
	const struct ir_module *m = x->c->m;
	const struct check_use *u = x->at[ir_args(m, n)[arg]];
	const struct ir_attr *of = ir_attr(m, n, IR_ATTR_OF);
	const struct ir_attr *places = ir_attr(m, check_node(x->c, u),
					       IR_ATTR_OF);

	if (!ir_is(n->op, IRF_TAKES) || arg != 0 ||
	    of->dims[0] != places->dims[0]) {
		check_fail(x->c, u, "a %s reads all of it, expected a %s "
			   "along `%s`: places are of several sequences",
			   ir_ops[n->op].name, takers(x),
			   ir_dim_name(m, places->dims[0]));
		return;
	}
	same_index(x, &x->taken, u, ir_args(m, n)[1], "taken");
}

static void
check_reads(struct caches *x, region_id id)
{
	const struct ir_module *m = x->c->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		for (k = 0; k < n->nargs; k++) {
			if (!x->at[ir_args(m, n)[k]]) {
				continue;
			}
			if (cuts_places(x, n)) {
				x->at[n->result] = x->at[ir_args(m, n)[k]];
			} else {
				check_read(x, n, k);
			}
		}
		if (n->region) {
			check_reads(x, n->region);
		}
	}
	for (i = 0; i < r->results.n; i++) {
		const struct check_use *u = x->at[r->results.at[i]];

		if (u) {
			check_fail(x->c, u, "it leaves the layer or the "
				   "repeat, expected that this rank keeps it");
		}
	}
}

/* One node writes a cache: a second one would write over its rows. */
static void
check_key(struct caches *x, sym_t key)
{
	struct check *c = x->c;
	struct check_runs puts = { 0 };
	uint32_t i;

	for (i = c->key_begin[key]; i < c->key_begin[key + 1]; i++) {
		const struct check_use *u = &c->uses.at[c->by_key[i]];
		const struct ir_node *n = check_node(c, u);

		if (ir_is(n->op, IRF_KEEPS)) {
			check_run_add(c, &puts, c->by_key[i]);
			x->at[n->result] = u;
			same_index(x, &x->put, u, ir_args(c->m, n)[1], "put");
		}
	}
	check_run_sort(&puts);
	check_once(c, &puts, "appended to", "");
}

void
check_caches(struct check *c)
{
	struct caches x = { .c = c };
	uint32_t i;
	sym_t key;

	x.at = arena_alloc(c->a, c->m->values.n * sizeof *x.at);
	for (key = 1; key < c->keys.text.n; key++) {
		check_key(&x, key);
	}
	for (i = 0; i < c->nfns; i++) {
		if (c->fns[i].func) {
			check_reads(&x, c->m->funcs.at[c->fns[i].func].body);
		}
	}
}

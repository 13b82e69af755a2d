/*
 * cse: replaces a node by an earlier one that computes the same: equal op,
 * operands (sorted if they commute), attributes and result types.  A value of
 * an outer region may replace one of an inner region, never the reverse.
 * Sources follow the same rule, so two weights of one name are one tensor with
 * two uses.  Nodes of IRF_UNIQUE ops and repeats are never merged.  What
 * `counted` makes is its operand: it is there for autodiff alone.
 *
 * It needs `flat`, since only then is a weight's name its full name.  It runs
 * after inline, which brings equal nodes into one region, and before dce, which
 * removes the nodes that it leaves unused.
 */
#include "passes/pass.h"

#include <string.h>

struct entry {
	node_id node;
	uint32_t depth;		/* of its region */
};

struct cse {
	struct ir_module *m;
	struct arena *a;
	value_id *use;		/* by value: its replacement, or 0 */
	VEC(struct entry) seen;	/* a stack by scope; entry 0 is unused */
	struct table table;
	node_id repeat[IR_MAX_DEPTH + 2];	/* by depth, from 1 */
	uint32_t depth;
	int64_t merged;
};

static uint64_t
hash_node(const struct cse *c, const struct ir_node *n)
{
	const value_id *args = ir_args(c->m, n);
	uint64_t h = hash_word(1, n->op), sum = 0;
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		if (ir_is(n->op, IRF_COMMUTES)) {
			sum += hash_word(1, args[i]);
		} else {
			h = hash_word(h, args[i]);
		}
	}
	h = hash_word(h, sum);
	for (i = 0; i < n->nattrs; i++) {
		const struct ir_attr *a = &c->m->attrs.at[n->attrs + i];

		h = hash_word(h, a->key);
		h = hash_word(h, a->text ^ (uint64_t)a->i ^ a->dims[0]);
	}
	return h;
}

static bool
same_attr(const struct ir_attr *a, const struct ir_attr *b)
{
	return a->key == b->key && a->ndims == b->ndims &&
	       a->text == b->text && a->i == b->i &&
	       memcmp(&a->num, &b->num, sizeof a->num) == 0 &&
	       memcmp(a->dims, b->dims, a->ndims * sizeof a->dims[0]) == 0;
}

static bool
same_args(const struct cse *c, const struct ir_node *x,
	  const struct ir_node *y)
{
	const value_id *a = ir_args(c->m, x), *b = ir_args(c->m, y);
	uint32_t i = 0;

	if (x->nargs != y->nargs) {
		return false;
	}
	while (i < x->nargs && a[i] == b[i]) {
		i++;
	}
	return i == x->nargs ||
	       (ir_is(x->op, IRF_COMMUTES) && x->nargs == 2 &&
		a[0] == b[1] && a[1] == b[0]);
}

static bool
same_node(const struct cse *c, const struct ir_node *x,
	  const struct ir_node *y)
{
	const struct ir_module *m = c->m;
	uint32_t i;

	if (x->op != y->op || x->nattrs != y->nattrs ||
	    x->nresults != y->nresults || !same_args(c, x, y)) {
		return false;
	}
	for (i = 0; i < x->nattrs; i++) {
		if (!same_attr(&m->attrs.at[x->attrs + i],
			       &m->attrs.at[y->attrs + i])) {
			return false;
		}
	}
	for (i = 0; i < x->nresults; i++) {
		if (!ir_type_equal(ir_type(m, x->result + i),
				   ir_type(m, y->result + i))) {
			return false;
		}
	}
	return true;
}

/*
 * Whether the name means the same tensor at `depth` and here.  It does not if
 * a repeat between them counts an {i} in it or prefixes its own name.
 */
static bool
same_name(const struct cse *c, const struct ir_node *n, uint32_t depth)
{
	const struct ir_module *m = c->m;
	const struct ir_attr *name = ir_attr(m, n, IR_ATTR_NAME);

	while (name && depth++ < c->depth) {
		const struct ir_node *repeat = ir_node(m, c->repeat[depth]);
		const struct ir_attr *var = ir_attr(m, repeat, IR_ATTR_VAR);

		if (ir_attr(m, repeat, IR_ATTR_NAME) ||
		    (var && pass_mentions(ir_text(m->ctx, name->text),
					  ir_text(m->ctx, var->text)))) {
			return false;
		}
	}
	return true;
}

/* An earlier node equal to id; or 0, after id was recorded. */
static node_id
find_or_note(struct cse *c, node_id id)
{
	const struct ir_node *n = ir_node(c->m, id);
	struct entry e = { id, c->depth };
	uint64_t hash = hash_node(c, n);
	uint32_t at = 0;

	while ((at = table_find(&c->table, hash, at)) != 0) {
		const struct entry *old = &c->seen.at[at];

		if (same_node(c, ir_node(c->m, old->node), n) &&
		    same_name(c, n, old->depth)) {
			return old->node;
		}
	}
	table_add(c->a, &c->table, hash);
	VEC_PUSH(c->a, &c->seen, e);
	return 0;
}

static void
merge(struct cse *c, const struct ir_node *gone, node_id by)
{
	const struct ir_node *kept = ir_node(c->m, by);
	uint32_t i;

	for (i = 0; i < gone->nresults; i++) {
		struct ir_value *k = &c->m->values.at[kept->result + i];

		c->use[gone->result + i] = kept->result + i;
		if (!k->hint) {
			k->hint = c->m->values.at[gone->result + i].hint;
		}
	}
	c->merged++;
}

static void
use_values(const struct cse *c, value_id *v, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (c->use[v[i]]) {
			v[i] = c->use[v[i]];
		}
	}
}

static void
cse_region(struct cse *c, region_id id)
{
	struct ir_region *r = &c->m->regions.at[id];
	uint32_t since = c->seen.n, i, kept = 0;

	for (i = 0; i < r->nodes.n; i++) {
		node_id nid = r->nodes.at[i], by = 0;
		const struct ir_node *n = ir_node(c->m, nid);

		use_values(c, ir_args(c->m, n), n->nargs);
		if (ir_is(n->op, IRF_REGION)) {
			c->repeat[++c->depth] = nid;
			cse_region(c, n->region);
			c->depth--;
		} else if (ir_is(n->op, IRF_COUNTS)) {
			c->use[n->result] = ir_args(c->m, n)[0];
			c->merged++;
			continue;
		} else if (!ir_is(n->op, IRF_UNIQUE | IRF_CALLS)) {
			by = find_or_note(c, nid);
		}
		if (by) {
			merge(c, n, by);
		} else {
			r->nodes.at[kept++] = nid;
		}
	}
	r->nodes.n = kept;
	use_values(c, r->results.at, r->results.n);
	c->seen.n = since;
	table_cut(&c->table, since);
}

bool
pass_cse(struct pass_ctx *p, struct ir_module *m)
{
	struct cse c = { .m = m, .a = &p->ctx->tmp };
	func_id f;

	c.use = arena_alloc(c.a, m->values.n * sizeof *c.use);
	VEC_PUSH(c.a, &c.seen, (struct entry){ 0 });
	for (f = 1; f < m->funcs.n; f++) {
		cse_region(&c, m->funcs.at[f].body);
	}
	pass_count(p, "nodes merged", c.merged);
	return true;
}

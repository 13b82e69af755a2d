/*
 * cse: of two nodes that compute the same, the later goes away.  The same
 * means equal op, operands (sorted where they commute), attributes and
 * result types; a value of an outer region may stand in for one of an inner
 * region, never the reverse.  Sources follow the same rule, so two weights
 * of one name are one tensor with two uses.  Nodes of IRF_UNIQUE ops and
 * repeats stay as they are.
 *
 * It needs `flat`: only then is a weight's name its full name.  It stands
 * after inline, which brings equal nodes together, and before dce, which
 * takes away what it leaves unused.
 */
#include "passes/pass.h"

#include <string.h>

struct entry {
	node_id node;
	uint32_t hash, next;	/* next: of the same slot, 0 at the end */
	uint32_t depth;		/* of the region it is in */
};

struct cse {
	struct ir_module *m;
	struct arena *a;
	value_id *use;		/* by value: what to use for it, or 0 */
	VEC(struct entry) seen;	/* entry 0 is "none"; a stack by scope */
	uint32_t *slots, mask;
	node_id repeat[IR_MAX_DEPTH + 2];	/* around depth 1, 2, ... */
	uint32_t depth;
	int64_t merged;
};

static uint32_t
mix(uint32_t h, uint32_t v)
{
	h = (h ^ v) * 0x9e3779b1u;
	return h ^ h >> 15;
}

static uint32_t
hash_node(const struct cse *c, const struct ir_node *n)
{
	const value_id *args = ir_args(c->m, n);
	uint32_t h = mix(0, n->op), sum = 0, i;

	for (i = 0; i < n->nargs; i++) {
		if (ir_is(n->op, IRF_COMMUTES)) {
			sum += mix(1, args[i]);
		} else {
			h = mix(h, args[i]);
		}
	}
	h = mix(h, sum);
	for (i = 0; i < n->nattrs; i++) {
		const struct ir_attr *a = &c->m->attrs.at[n->attrs + i];

		h = mix(h, a->key);
		h = mix(h, a->text ^ (uint32_t)a->i ^ a->dims[0]);
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
 * Equal text is an equal name only where it is read alike: not across a
 * repeat that counts an {i} in it, or that puts its own name before it.
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

/* The node to use instead of n, or 0 after n itself was noted. */
static node_id
find_or_note(struct cse *c, node_id id)
{
	const struct ir_node *n = ir_node(c->m, id);
	struct entry e = { id, hash_node(c, n), 0, c->depth };
	uint32_t *slot = &c->slots[e.hash & c->mask], i;

	for (i = *slot; i; i = c->seen.at[i].next) {
		const struct entry *old = &c->seen.at[i];

		if (old->hash == e.hash &&
		    same_node(c, ir_node(c->m, old->node), n) &&
		    same_name(c, n, old->depth)) {
			return old->node;
		}
	}
	e.next = *slot;
	VEC_PUSH(c->a, &c->seen, e);
	*slot = c->seen.n - 1;
	return 0;
}

/* Forgets what was noted since; newest first, so chains unwind in order. */
static void
forget(struct cse *c, uint32_t since)
{
	while (c->seen.n > since) {
		const struct entry *e = &c->seen.at[--c->seen.n];

		c->slots[e->hash & c->mask] = e->next;
	}
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
	forget(c, since);
}

bool
pass_cse(struct pass_ctx *p, struct ir_module *m)
{
	struct cse c = { .m = m, .a = &p->ctx->tmp };
	uint32_t slots = 64;
	func_id f;

	while (slots < m->nodes.n && slots < 1u << 24) {
		slots *= 2;
	}
	c.mask = slots - 1;
	c.slots = arena_alloc(c.a, slots * sizeof *c.slots);
	c.use = arena_alloc(c.a, m->values.n * sizeof *c.use);
	VEC_PUSH(c.a, &c.seen, (struct entry){ 0 });
	for (f = 1; f < m->funcs.n; f++) {
		cse_region(&c, m->funcs.at[f].body);
	}
	pass_count(p, "nodes merged", c.merged);
	return true;
}

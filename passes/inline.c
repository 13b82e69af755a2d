/*
 * inline: replaces each call by the body of its layer, and removes layers that
 * the model no longer needs.  The names of calls and repeats move to the
 * weights in them, joined by dots, so that in a flat module the name of a
 * weight is its full name, except for {i} of a repeat.  Repeats are kept: a
 * model of 126 layers becomes one body, not 126.
 *
 * It runs before every pass that works across layers.  It runs after fold-dims
 * only so that expressions need not be copied.
 */
#include "passes/pass.h"

#include <inttypes.h>
#include <string.h>

struct inliner {
	struct ir_module *m;
	struct arena *a;
	value_id *use;		/* by result of a call: its replacement */
	uint32_t nuse;
	value_id *map;		/* by value of the layer: its copy */
	uint32_t nmap;
	int64_t calls;
};

static void copy_nodes(struct inliner *in, region_id from, region_id to,
		       const char *prefix);

static value_id
used(const struct inliner *in, value_id v)
{
	return v < in->nuse && in->use[v] ? in->use[v] : v;
}

static sym_t
join(const struct inliner *in, const char *prefix, sym_t name)
{
	struct ir_ctx *c = in->m->ctx;

	return intern_str(&c->syms,
			  pass_join(in->a, prefix, ir_text(c, name)));
}

/* ---- copies ---- */

static void
copy_attrs(const struct inliner *in, const struct ir_node *n,
	   struct ir_new *copy, const char *prefix)
{
	bool named = pass_names_tensors(n);
	uint32_t i;

	for (i = 0; i < n->nattrs; i++) {
		struct ir_attr a = in->m->attrs.at[n->attrs + i];

		if (named && a.key == IR_ATTR_NAME) {
			a.text = join(in, prefix, a.text);
		}
		copy->attrs[copy->nattrs++] = a;
	}
}

/* Copies a repeat's body: its parameters, nodes and results. */
static region_id
copy_body(struct inliner *in, region_id from, const char *prefix)
{
	struct ir_module *m = in->m;
	region_id to = ir_region_add(m, 0);
	uint32_t i;

	for (i = 0; i < m->regions.at[from].params.n; i++) {
		value_id v = m->regions.at[from].params.at[i];
		struct ir_value value = m->values.at[v];

		in->map[v] = ir_param_add(m, to, ir_type(m, v), value.hint);
	}
	copy_nodes(in, from, to, prefix);
	for (i = 0; i < m->regions.at[from].results.n; i++) {
		VEC_PUSH(&m->ctx->perm, &m->regions.at[to].results,
			 in->map[m->regions.at[from].results.at[i]]);
	}
	return to;
}

static void
copy_node(struct inliner *in, node_id id, region_id to, const char *prefix)
{
	struct ir_module *m = in->m;
	struct ir_node n = *ir_node(m, id);
	const char *why = "?";
	struct ir_new copy;
	value_id first;
	uint32_t i;

	ir_new_init(&copy, n.op, n.span);
	for (i = 0; i < n.nargs; i++) {
		ir_new_arg(&copy, in->map[ir_args(m, &n)[i]]);
	}
	copy_attrs(in, &n, &copy, prefix);
	copy.nresults = n.nresults;
	for (i = 0; i < n.nresults; i++) {
		copy.types[i] = *ir_type(m, n.result + i);
	}
	if (ir_is(n.op, IRF_REGION)) {
		copy.region = copy_body(in, n.region, prefix);
	}
	first = ir_append(m, to, &copy, &why);
	if (!first) {
		die("a copied %s does not fit: %s", ir_ops[n.op].name, why);
	}
	for (i = 0; i < n.nresults; i++) {
		m->values.at[first + i].hint = m->values.at[n.result + i].hint;
		in->map[n.result + i] = first + i;
	}
}

static void
copy_nodes(struct inliner *in, region_id from, region_id to,
	   const char *prefix)
{
	uint32_t i;

	for (i = 0; i < in->m->regions.at[from].nodes.n; i++) {
		copy_node(in, in->m->regions.at[from].nodes.at[i], to,
			  prefix);
	}
}

/* ---- calls ---- */

/* Appends the callee's body, which has no calls left, to `to`. */
static void
splice(struct inliner *in, const struct ir_node *call, region_id to,
       const char *prefix)
{
	struct ir_module *m = in->m;
	region_id body = m->funcs.at[call->callee].body;
	value_id first = m->values.n;
	uint32_t i;

	if (in->nmap < m->values.n) {
		in->map = arena_grow(in->a, in->map,
				     in->nmap * sizeof *in->map,
				     2 * m->values.n * sizeof *in->map);
		in->nmap = 2 * m->values.n;
	}
	for (i = 0; i < call->nargs; i++) {
		in->map[m->regions.at[body].params.at[i]] =
			ir_args(m, call)[i];
	}
	copy_nodes(in, body, to, prefix);
	for (i = 0; i < call->nresults; i++) {
		value_id v = in->map[m->regions.at[body].results.at[i]];

		in->use[call->result + i] = v;
		if (v >= first && !m->values.at[v].hint) {
			m->values.at[v].hint =
				m->values.at[call->result + i].hint;
		}
	}
	in->calls++;
}

/* Removes the node's name; returns the prefix joined with it. */
static const char *
take_name(const struct inliner *in, struct ir_node *n, const char *prefix)
{
	struct ir_attr *a = in->m->attrs.at + n->attrs;
	uint32_t i, kept = 0;

	for (i = 0; i < n->nattrs; i++) {
		if (a[i].key == IR_ATTR_NAME) {
			prefix = pass_join(in->a, prefix,
					   ir_text(in->m->ctx, a[i].text));
		} else {
			a[kept++] = a[i];
		}
	}
	n->nattrs = (uint16_t)kept;
	return prefix;
}

static void
give_name(const struct inliner *in, const struct ir_node *n,
	  const char *prefix)
{
	struct ir_attr *a = in->m->attrs.at + n->attrs;
	uint32_t i;

	for (i = 0; i < n->nattrs; i++) {
		if (a[i].key == IR_ATTR_NAME) {
			a[i].text = join(in, prefix, a[i].text);
		}
	}
}

static void
use_values(const struct inliner *in, value_id *v, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		v[i] = used(in, v[i]);
	}
}

/* Rebuilds a region's nodes, with each call replaced by its body. */
static void
flatten(struct inliner *in, region_id id, const char *prefix)
{
	struct ir_module *m = in->m;
	struct ir_region old = m->regions.at[id];
	uint32_t i;

	memset(&m->regions.at[id].nodes, 0, sizeof old.nodes);
	for (i = 0; i < old.nodes.n; i++) {
		node_id nid = old.nodes.at[i];
		struct ir_node n = m->nodes.at[nid];

		use_values(in, ir_args(m, &n), n.nargs);
		if (ir_is(n.op, IRF_CALLS)) {
			splice(in, &n, id, take_name(in, &n, prefix));
			continue;
		}
		VEC_PUSH(&m->ctx->perm, &m->regions.at[id].nodes, nid);
		if (ir_is(n.op, IRF_REGION)) {
			const char *inner = take_name(in, &n, prefix);

			m->nodes.at[nid].nattrs = n.nattrs;
			flatten(in, n.region, inner);
		}
		if (pass_names_tensors(&n)) {
			give_name(in, &n, prefix);
		}
	}
	use_values(in, old.results.at, old.results.n);
}

static bool
fits(const struct ir_module *m, const bool *live)
{
	const struct pass_flat *flat = pass_flat_sizes(m);
	struct diags *d = &m->ctx->diags;
	int64_t sum = 0;
	func_id f;

	for (f = 1; f < m->funcs.n; f++) {
		struct span at = m->funcs.at[f].span;

		sum += live[f] ? flat[f].nodes : 0;
		if (sum > PASS_MAX_NODES) {
			diag_error(d, at, "with all calls inlined down to "
				   "here there are more than %" PRId64
				   " nodes", PASS_MAX_NODES);
			return false;
		}
		if (live[f] && flat[f].depth > IR_MAX_DEPTH) {
			diag_error(d, at, "with all calls inlined, %u repeats "
				   "stand in each other here, and %d may",
				   flat[f].depth, IR_MAX_DEPTH);
			return false;
		}
	}
	return true;
}

bool
pass_inline(struct pass_ctx *p, struct ir_module *m)
{
	struct inliner in = { .m = m, .a = &p->ctx->tmp };
	bool *live = pass_live_funcs(m);
	func_id model = ir_model(m), f;

	if (!fits(m, live)) {
		return false;
	}
	in.nuse = m->values.n;
	in.use = arena_alloc(in.a, in.nuse * sizeof *in.use);
	for (f = 1; f < m->funcs.n; f++) {
		if (live[f]) {
			flatten(&in, m->funcs.at[f].body, NULL);
		}
		live[f] = !model || f == model;
	}
	pass_count(p, "calls inlined", in.calls);
	pass_count(p, "layers removed", pass_drop_funcs(m, live));
	return true;
}

/*
 * Cuts repeats if the stages of a plan recompute different values.  A repeat
 * whose iterations are on several stages becomes several repeats, one for each
 * run of neighbouring stages that drop the same set.  Its backward repeat is
 * cut alike, in the opposite order.  Carried values pass from part to part.
 *
 * Each part is then an ordinary repeat, as if the model had been written so,
 * and later passes need no special case.  Saves of all parts but the first are
 * renamed, since each part is a body of its own.
 */
#include "passes/recompute/recompute.h"

#include "passes/derive.h"

#include <string.h>

/* Iterations of a repeat that drop one set. */
struct part {
	int64_t start, count;
	const char *what;
	uint32_t number;	/* in names of its saves; 0: unchanged */
};

/* An outermost repeat of the model. */
struct unit {
	node_id node;
	uint32_t mate;		/* unit whose saves it reads, plus 1 */
	bool saves, torn;	/* torn: reads saves of several units */
	uint32_t part, nparts;	/* if it saves: index in `parts` */
};

struct split {
	struct pass_ctx *p;
	struct ir_module *m;
	struct arena *a;	/* ctx->tmp */
	const struct plan *plan;
	region_id body;
	uint32_t nvalues;	/* before the cut */
	VEC(struct unit) units;
	VEC(struct part) parts;
	uint32_t *saver;	/* by name: the unit, plus 1 */
	uint32_t nnames, numbers;
	value_id *map;		/* by inner value: its last copy */
	value_id *use;		/* by value: its replacement */
};

static bool
is_stash(const struct ir_node *n)
{
	return ir_is(n->op, IRF_STASH);
}

/* ---- repeats and their saves ---- */

/* Skips numbers used by an earlier run, as in "part3.save0.{i}". */
static void
see_number(struct split *s, const char *name)
{
	uint32_t n = 0;

	if (strncmp(name, "part", 4) != 0) {
		return;
	}
	for (name += 4; *name >= '0' && *name <= '9' && n < 1u << 24; name++) {
		n = 10 * n + (uint32_t)(*name - '0');
	}
	s->numbers = n > s->numbers ? n : s->numbers;
}

static void
find_saves(struct split *s, region_id r, uint32_t unit)
{
	struct unit *u = &s->units.at[unit];
	uint32_t i, from;

	for (i = 0; i < s->m->regions.at[r].nodes.n; i++) {
		const struct ir_node *n = ir_node(s->m,
				s->m->regions.at[r].nodes.at[i]);
		sym_t name;

		if (n->region) {
			find_saves(s, n->region, unit);
		}
		if (!is_stash(n)) {
			continue;
		}
		name = ir_attr(s->m, n, IR_ATTR_NAME)->text;
		if (ir_is(n->op, IRF_SINK)) {
			see_number(s, ir_text(s->m->ctx, name));
			s->saver[name] = unit + 1;
			u->saves = true;
			continue;
		}
		from = s->saver[name];
		u->torn |= from && u->mate && u->mate != from;
		u->mate = from && from != unit + 1 ? from : u->mate;
	}
}

static void
find_units(struct split *s)
{
	uint32_t i;

	for (i = 0; i < s->m->regions.at[s->body].nodes.n; i++) {
		struct unit u = {
			.node = s->m->regions.at[s->body].nodes.at[i]
		};
		region_id r = ir_node(s->m, u.node)->region;

		if (r) {
			VEC_PUSH(s->a, &s->units, u);
			find_saves(s, r, s->units.n - 1);
		}
	}
}

/* ---- parts ---- */

/* Whether stages divide its iterations, by the rule of stage.c. */
static bool
is_cut(const struct split *s, const struct unit *u)
{
	const struct ir_node *n = ir_node(s->m, u->node);

	return n->nresults && !ir_attr(s->m, n, IR_ATTR_REVERSE);
}

/* Finds the parts of a unit whose first iteration is layer `first`. */
static void
find_parts(struct split *s, struct unit *u, int64_t first)
{
	const struct plan *plan = s->plan;
	const struct ir_node *n = ir_node(s->m, u->node);
	int64_t count = ir_attr_int(s->m, n, IR_ATTR_COUNT, 1);
	int64_t end = is_cut(s, u) ? first + count : first + 1, lo = 0, hi;
	struct part part = { .start = ir_attr_int(s->m, n, IR_ATTR_START, 0) };
	uint32_t k;

	u->part = s->parts.n;
	for (k = 0; k < plan->nstages; k++, lo = hi) {
		const char *what = plan_recompute_of(plan, k);

		hi = lo + plan->layers[k];
		part.count = (hi < end ? hi : end) - (lo > first ? lo : first);
		if (part.count <= 0) {
			continue;
		}
		if (u->nparts && strcmp(what, s->parts.at[s->parts.n - 1]
					.what) == 0) {
			s->parts.at[s->parts.n - 1].count += part.count;
		} else {
			part.what = what;
			part.number = u->nparts ? ++s->numbers : 0;
			VEC_PUSH(s->a, &s->parts, part);
			u->nparts++;
		}
		part.start += part.count;
	}
	if (!u->nparts) {	/* it is after the last layer */
		part.what = plan_recompute_of(plan, plan->nstages - 1);
		part.count = count;
		VEC_PUSH(s->a, &s->parts, part);
		u->nparts = 1;
	}
}

static void
find_all_parts(struct split *s)
{
	int64_t next = 0;
	uint32_t i;

	for (i = 0; i < s->units.n; i++) {
		struct unit *u = &s->units.at[i];

		if (u->saves) {
			find_parts(s, u, next);
		}
		if (is_cut(s, u)) {
			next += ir_attr_int(s->m, ir_node(s->m, u->node),
					    IR_ATTR_COUNT, 1);
		}
	}
}

/* Whether unit b runs the iterations of f from the last to the first. */
static bool
mirrors(const struct split *s, const struct unit *b, const struct unit *f)
{
	const struct ir_node *x = ir_node(s->m, b->node);
	const struct ir_node *y = ir_node(s->m, f->node);

	return ir_attr_int(s->m, x, IR_ATTR_START, 0) ==
	       ir_attr_int(s->m, y, IR_ATTR_START, 0) &&
	       ir_attr_int(s->m, x, IR_ATTR_COUNT, 1) ==
	       ir_attr_int(s->m, y, IR_ATTR_COUNT, 1) &&
	       ir_attr(s->m, x, IR_ATTR_REVERSE);
}

/* The unit that decides where u is cut; NULL if u stays whole. */
static const struct unit *
cut_like(const struct split *s, const struct unit *u)
{
	const struct unit *f = u->saves ? u
		: u->mate ? &s->units.at[u->mate - 1] : NULL;

	return f && f->nparts > 1 ? f : NULL;
}

static bool
check_mates(const struct split *s)
{
	uint32_t i;

	for (i = 0; i < s->units.n; i++) {
		const struct unit *u = &s->units.at[i], *f = cut_like(s, u);

		if (f && f != u && (u->torn || !mirrors(s, u, f))) {
			diag_error(
				&s->m->ctx->diags, ir_node(s->m, u->node)->span,
				"the stages "
				"of the plan recompute differently, so "
				"repeats are cut between them, and this one "
				"%s, expected the iterations of one, reversed",
				u->torn ?
					"takes the saves of several" :
					"takes the saves of other iterations");
			return false;
		}
	}
	return true;
}

/* ---- copies ---- */

static value_id
mapped(const struct split *s, value_id v)
{
	return v < s->nvalues && s->map[v] ? s->map[v] : v;
}

static void
copy_attrs(struct split *s, const struct ir_node *n, const struct part *part,
	   struct ir_new *copy)
{
	struct ir_ctx *c = s->m->ctx;
	uint32_t i;

	for (i = 0; i < n->nattrs; i++) {
		struct ir_attr a = s->m->attrs.at[n->attrs + i];

		if (a.key == IR_ATTR_NAME && is_stash(n) && part->number &&
		    a.text < s->nnames && s->saver[a.text]) {
			a.text = intern_str(&c->syms, arena_printf(s->a,
				"part%u.%s", part->number,
				ir_text(c, a.text)));
		}
		*ir_new_attr(copy, a.key) = a;
	}
}

/* Appends `copy` with the result types, placements and hints of n. */
static value_id
copy_into(struct split *s, region_id to, const struct ir_node *n,
	  struct ir_new *copy)
{
	struct ir_module *m = s->m;
	value_id v = 0;
	uint32_t i;

	copy->nresults = n->nresults;
	for (i = 0; i < n->nresults; i++) {
		copy->types[i] = *ir_type(m, n->result + i);
	}
	if (n->nresults) {
		v = derive_append(m, to, copy);
	} else {
		derive_sink(m, to, copy);
	}
	for (i = 0; i < n->nresults; i++) {
		m->values.at[v + i].type = m->values.at[n->result + i].type;
		m->values.at[v + i].hint = m->values.at[n->result + i].hint;
	}
	return v;
}

static region_id copy_body(struct split *s, region_id from,
			   const struct part *part);

/* Copies a node that has a region or the name of a save. */
static value_id
copy_changed(struct split *s, const struct ir_node *n, region_id to,
	     const struct part *part)
{
	struct ir_new copy;
	uint32_t i;

	ir_new_init(&copy, n->op, n->span);
	for (i = 0; i < n->nargs; i++) {
		ir_new_arg(&copy, mapped(s, ir_args(s->m, n)[i]));
	}
	copy_attrs(s, n, part, &copy);
	copy.region = n->region ? copy_body(s, n->region, part) : 0;
	return copy_into(s, to, n, &copy);
}

static void
copy_node(struct split *s, node_id id, region_id to, const struct part *part)
{
	struct ir_node n = *ir_node(s->m, id);
	value_id args[IR_MAX_ARGS], v;
	uint32_t i;

	if (n.region || is_stash(&n)) {
		v = copy_changed(s, &n, to, part);
	} else {
		for (i = 0; i < n.nargs; i++) {
			args[i] = mapped(s, ir_args(s->m, &n)[i]);
		}
		v = ir_append_like(s->m, to, id, args);
	}
	for (i = 0; i < n.nresults; i++) {
		s->map[n.result + i] = v + i;
	}
}

static region_id
copy_body(struct split *s, region_id from, const struct part *part)
{
	struct ir_module *m = s->m;
	region_id to = ir_region_add(m, 0);
	uint32_t i;

	for (i = 0; i < m->regions.at[from].params.n; i++) {
		value_id v = m->regions.at[from].params.at[i];
		struct ir_type type = *ir_type(m, v);

		s->map[v] = ir_param_add(m, to, &type, m->values.at[v].hint);
	}
	for (i = 0; i < m->regions.at[from].nodes.n; i++) {
		copy_node(s, m->regions.at[from].nodes.at[i], to, part);
	}
	for (i = 0; i < m->regions.at[from].results.n; i++) {
		VEC_PUSH(&m->ctx->perm, &m->regions.at[to].results,
			 mapped(s, m->regions.at[from].results.at[i]));
	}
	return to;
}

/*
 * Appends a copy of a repeat for the iterations of a part, on operands `from`.
 */
static value_id
copy_repeat(struct split *s, node_id id, const value_id *from,
	    const struct part *part)
{
	struct ir_node n = *ir_node(s->m, id);
	struct ir_new copy;
	uint32_t i;

	ir_new_init(&copy, n.op, n.span);
	for (i = 0; i < n.nargs; i++) {
		ir_new_arg(&copy, from[i]);
	}
	for (i = 0; i < n.nattrs; i++) {
		struct ir_attr a = s->m->attrs.at[n.attrs + i];

		if (a.key != IR_ATTR_COUNT && a.key != IR_ATTR_START) {
			*ir_new_attr(&copy, a.key) = a;
		}
	}
	ir_new_int(&copy, IR_ATTR_COUNT, part->count);
	if (part->start) {
		ir_new_int(&copy, IR_ATTR_START, part->start);
	}
	copy.region = copy_body(s, n.region, part);
	return copy_into(s, s->body, &n, &copy);
}

/* Appends all parts of a repeat, in running order. */
static void
put_parts(struct split *s, const struct unit *u, const struct unit *f)
{
	struct ir_node n = *ir_node(s->m, u->node);
	value_id args[IR_MAX_ARGS], v = 0;
	uint32_t i, k;

	for (i = 0; i < n.nargs; i++) {
		args[i] = ir_args(s->m, &n)[i];
	}
	for (k = 0; k < f->nparts; k++) {
		uint32_t at = u == f ? k : f->nparts - 1 - k;

		v = copy_repeat(s, u->node, args, &s->parts.at[f->part + at]);
		for (i = 0; i < n.nresults; i++) {
			args[i] = v + i;
		}
	}
	for (i = 0; i < n.nresults; i++) {
		s->use[n.result + i] = v + i;
	}
	pass_count(s->p, "repeats cut", 1);
}

/* Rebuilds the model's body with each repeat replaced by its parts. */
static void
put_all(struct split *s)
{
	struct ir_module *m = s->m;
	struct ir_region old = m->regions.at[s->body];
	value_id *use;
	uint32_t i, next = 0;

	memset(&m->regions.at[s->body].nodes, 0, sizeof old.nodes);
	for (i = 0; i < old.nodes.n; i++) {
		const struct unit *u = next < s->units.n &&
			s->units.at[next].node == old.nodes.at[i]
			? &s->units.at[next++] : NULL;
		const struct unit *f = u ? cut_like(s, u) : NULL;

		if (f) {
			put_parts(s, u, f);
		} else {
			VEC_PUSH(&m->ctx->perm, &m->regions.at[s->body].nodes,
				 old.nodes.at[i]);
		}
	}
	use = arena_alloc(s->a, m->values.n * sizeof *use);
	memcpy(use, s->use, s->nvalues * sizeof *use);
	ir_replace_uses(m, use);
}

/* ---- the interface ---- */

/* By body of a repeat that saves: the set that it drops. */
static const char **
sets_of(struct split *s)
{
	struct ir_module *m = s->m;
	const struct ir_region *r = &m->regions.at[s->body];
	const char **what = arena_alloc(s->a, m->regions.n * sizeof *what);
	uint32_t i, k, at = 0;

	for (i = 0; i < s->units.n; i++) {
		const struct unit *u = &s->units.at[i];
		const struct unit *f = cut_like(s, u);
		uint32_t n = f ? f->nparts : 1;

		for (k = 0; k < n; k++, at++) {
			while (!ir_node(m, r->nodes.at[at])->region) {
				at++;
			}
			if (u->saves) {
				what[ir_node(m, r->nodes.at[at])->region] =
					s->parts.at[u->part + k].what;
			}
		}
	}
	return what;
}

const char **
recompute_split(struct pass_ctx *p, struct ir_module *m,
		const struct plan *plan)
{
	struct split s = { .p = p, .m = m, .a = &m->ctx->tmp, .plan = plan };
	uint32_t i;
	bool cut = false;

	s.body = m->funcs.at[ir_model(m)].body;
	s.nvalues = m->values.n;
	s.nnames = m->ctx->syms.text.n;
	s.saver = arena_alloc(s.a, s.nnames * sizeof *s.saver);
	find_units(&s);
	find_all_parts(&s);
	if (!check_mates(&s)) {
		return NULL;
	}
	for (i = 0; i < s.units.n; i++) {
		cut |= cut_like(&s, &s.units.at[i]) != NULL;
	}
	if (cut) {
		s.map = arena_alloc(s.a, s.nvalues * sizeof *s.map);
		s.use = arena_alloc(s.a, s.nvalues * sizeof *s.use);
		put_all(&s);
	}
	return sets_of(&s);
}

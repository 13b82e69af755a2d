/*
 * Collectives of the updates. Each pipeline rank runs an update of its own, and
 * all must reach the same collectives in the same order. Ranks of one stage run
 * one program, so they cannot differ.
 */
#include "passes/check/check.h"

#include <string.h>

/* One level of where an update is: a function or repeat body. */
struct level {
	region_id region;
	uint32_t next;		/* the next node */
	int64_t iter, left;	/* current; how many left */
	sym_t var;
	bool reverse;
};

struct pipe {
	struct level *at;
	uint32_t depth;
	node_id node; /* the collective it waits in; 0: it has ended */
	sym_t name;		/* of a share: filled in */
	sym_t key;
	int64_t iter;
};

struct updates {
	struct check *c;
	struct pipe *pipes;
	uint8_t *busy; /* by region: 0 unknown, 1 no collective in it, 2 some */
	uint32_t *use_of;	/* by node: 1 + its use, or 0 */
	struct intern names;	/* of shares */
};

/* ---- one pipeline rank ---- */

/* Whether other pipeline ranks take part in the node. */
static bool
crosses(const struct check *c, const struct ir_node *n)
{
	const struct ir_attr *on = ir_attr(c->m, n, IR_ATTR_ON);
	uint32_t i;

	for (i = 0; on && i < on->ndims; i++) {
		if (on->dims[i] == c->pp && ir_is(n->op, IRF_COMM)) {
			return true;
		}
	}
	return n->op == IR_SHARE;
}

static bool
is_busy(struct updates *x, region_id id)
{
	const struct ir_region *r = &x->c->m->regions.at[id];
	uint32_t i;

	if (!x->busy[id]) {
		x->busy[id] = 1;
		for (i = 0; i < r->nodes.n; i++) {
			const struct ir_node *n = ir_node(x->c->m,
							  r->nodes.at[i]);

			if (crosses(x->c, n) ||
			    (n->region && is_busy(x, n->region))) {
				x->busy[id] = 2;
			}
		}
	}
	return x->busy[id] == 2;
}

static void
enter(struct updates *x, struct pipe *p, const struct ir_node *n)
{
	const struct check *c = x->c;
	const struct ir_attr *var = ir_attr(c->m, n, IR_ATTR_VAR);
	struct level l = { .region = n->region };

	l.left = ir_attr_int(c->m, n, IR_ATTR_COUNT, 1);
	l.iter = ir_attr_int(c->m, n, IR_ATTR_START, 0);
	l.reverse = ir_attr(c->m, n, IR_ATTR_REVERSE) != NULL;
	l.iter += l.reverse ? l.left - 1 : 0;
	l.var = var ? var->text : 0;
	p->at[p->depth++] = l;
}

/*
 * Sets the name and iteration of a share. The key already contains the
 * iterations of inner repeats.
 */
static void
set_name(struct updates *x, struct pipe *p)
{
	struct check *c = x->c;
	const struct check_use *u = &c->uses.at[x->use_of[p->node] - 1];
	const char *name = ir_text(c->m->ctx, ir_attr(c->m,
				   ir_node(c->m, p->node),
				   IR_ATTR_NAME)->text);
	uint32_t i;

	p->key = u->key;
	p->iter = u->lo;
	for (i = p->depth; i-- > 1;) {
		const char *var = ir_text(c->m->ctx, p->at[i].var);

		if (p->at[i].var && pass_mentions(name, var)) {
			p->iter = p->at[i].iter; /* the outermost one remains */
			name = pass_rename(c->a, name, var, arena_printf(c->a,
				"%lld", (long long)p->at[i].iter));
		}
	}
	p->name = intern_str(&x->names, name);
}

/* Goes to the next collective across the pipeline. */
static void
step(struct updates *x, struct pipe *p)
{
	const struct ir_module *m = x->c->m;

	p->node = 0;
	while (p->depth) {
		struct level *l = &p->at[p->depth - 1];
		const struct ir_region *r = &m->regions.at[l->region];
		const struct ir_node *n;

		if (l->next == r->nodes.n) {
			l->next = 0;
			l->iter += l->reverse ? -1 : 1;
			p->depth -= --l->left <= 0;
			continue;
		}
		p->node = r->nodes.at[l->next++];
		n = ir_node(m, p->node);
		if (crosses(x->c, n)) {
			if (n->op == IR_SHARE) {
				set_name(x, p);
			}
			return;
		}
		if (n->region && is_busy(x, n->region)) {
			enter(x, p, n);
		}
		p->node = 0;
	}
}

/* ---- all pipeline ranks ---- */

static const char *
event_text(struct updates *x, const struct pipe *p)
{
	struct check *c = x->c;
	const struct ir_node *n = ir_node(c->m, p->node);

	if (!p->node) {
		return "the end of its update";
	}
	if (n->op == IR_SHARE) {
		return arena_printf(c->a, "share `%s` of %s",
				    intern_text(&x->names, p->name),
				    ir_type_text(c->m, ir_type(c->m,
							       n->result)));
	}
	return arena_printf(c->a, "%s on=pp of %s", ir_ops[n->op].name,
			    ir_type_text(c->m, ir_type(c->m,
						       ir_args(c->m, n)[0])));
}

static struct span
span_of(const struct updates *x, const struct pipe *p)
{
	const struct check *c = x->c;
	uint32_t i = (uint32_t)(p - x->pipes);

	return p->node ? ir_node(c->m, p->node)->span
		: c->m->funcs.at[c->fns[CHECK_UPDATE * c->nstages + i].func]
			.span;
}

static bool
same_axes(const struct ir_attr *a, const struct ir_attr *b)
{
	return !a == !b && (!a || (a->ndims == b->ndims &&
		memcmp(a->dims, b->dims, a->ndims * sizeof *a->dims) == 0));
}

/* Whether two pipeline ranks wait in the same collective. */
static bool
same_event(const struct updates *x, const struct pipe *p,
	   const struct pipe *q)
{
	const struct ir_module *m = x->c->m;
	const struct ir_node *n = ir_node(m, p->node), *o = ir_node(m, q->node);

	return p->node && q->node && n->op == o->op &&
	       (n->op != IR_SHARE || p->name == q->name) &&
	       same_axes(ir_attr(m, n, IR_ATTR_ON),
			 ir_attr(m, o, IR_ATTR_ON)) &&
	       ir_type_equal(ir_type(m, n->result), ir_type(m, o->result)) &&
	       ir_type_equal(ir_type(m, ir_args(m, n)[0]),
			     ir_type(m, ir_args(m, o)[0]));
}

/* Whether pipeline rank i takes part in the collective that p waits in. */
static bool
takes_part(const struct updates *x, const struct pipe *p, uint32_t i)
{
	const struct check *c = x->c;
	uint32_t k;

	if (ir_node(c->m, p->node)->op != IR_SHARE) {
		return true;
	}
	for (k = c->key_begin[p->key]; k < c->key_begin[p->key + 1]; k++) {
		const struct check_use *u = &c->uses.at[c->by_key[k]];

		if (check_fn_of(c, u)->pipe == i && u->lo <= p->iter &&
		    p->iter < u->hi && check_node(c, u)->op == IR_SHARE) {
			return true;
		}
	}
	return false;
}

/*
 * If all that take part have arrived, they go on: NULL. Else the first that has
 * not.
 */
static struct pipe *
meet(struct updates *x, struct pipe *p)
{
	struct pipe was = *p;
	uint32_t i;

	for (i = 0; i < x->c->npipes; i++) {
		if (takes_part(x, p, i) && !same_event(x, p, &x->pipes[i])) {
			return &x->pipes[i];
		}
	}
	for (i = 0; i < x->c->npipes; i++) {
		if (takes_part(x, &was, i)) {
			step(x, &x->pipes[i]);
		}
	}
	return NULL;
}

/*
 * All ranks of a communicator must reach the same collectives in the same
 * order. Otherwise they hang, or add up values that do not belong together.
 */
static void
all_meet(struct updates *x)
{
	struct check *c = x->c;
	struct pipe *p, *q = NULL;
	bool on = true;
	uint32_t i;

	while (on) {
		on = false;
		for (i = 0; i < c->npipes; i++) {
			p = &x->pipes[i];
			on |= p->node && !meet(x, p);
		}
	}
	for (i = 0; i < c->npipes; i++) {
		p = &x->pipes[i];
		if (!p->node) {
			continue;
		}
		q = meet(x, p);
		diag_error(&c->m->ctx->diags, span_of(x, p), "pipe %u, "
			   "pipe%u_update: it waits in %s, expected the same "
			   "of pipe %u, which comes to %s", i, i,
			   event_text(x, p), (uint32_t)(q - x->pipes),
			   event_text(x, q));
		diag_note(&c->m->ctx->diags, span_of(x, q), "that is here");
		return;
	}
}

void
check_updates(struct check *c)
{
	struct updates x = { .c = c };
	uint32_t i;

	intern_init(&x.names, c->a);
	x.pipes = arena_alloc(c->a, c->npipes * sizeof *x.pipes);
	x.busy = arena_alloc(c->a, c->m->regions.n);
	x.use_of = arena_alloc(c->a, c->m->nodes.n * sizeof *x.use_of);
	for (i = 0; i < c->uses.n; i++) {
		x.use_of[c->uses.at[i].node] = i + 1;
	}
	for (i = 0; i < c->npipes; i++) {
		struct pipe *p = &x.pipes[i];
		func_id f = c->fns[CHECK_UPDATE * c->nstages + i].func;

		p->at = arena_alloc(c->a, IR_MAX_DEPTH * sizeof *p->at);
		p->at[0].region = c->m->funcs.at[f].body;
		p->at[0].left = 1;
		p->depth = 1;
		step(&x, p);
	}
	all_meet(&x);
}

/*
 * Places of the values that repeats carry.  One that each iteration saves is
 * made in the slot where it is saved.  Of any other, one buffer is enough if
 * an iteration no longer reads the old value when it makes the new one;
 * otherwise two alternate.
 */
#include "passes/memory/memory_parts.h"

struct carry_work {
	struct memory_work *w;
	struct memory_frame *outer, *body;
	uint32_t number;	/* of the repeat's first carried value */
	bool copies;		/* some new value is made elsewhere */
};

static struct memory_carry *
at(const struct carry_work *c, uint32_t k)
{
	return &c->w->out->carries.at[c->number + k];
}

static void
set_role(struct carry_work *c, value_id v, uint32_t k, enum memory_role role)
{
	struct memory_value *to = &c->w->out->value[v];

	to->carry = c->number + k + 1;
	to->role = role;
}

/* Whether a kernel of this region makes v, and v has no place yet. */
static bool
is_open(const struct memory_work *w, value_id v, const struct memory_frame *f)
{
	return w->fresh[v] && w->frame[v] == f && !memory_is_placed(w, v);
}

static bool
is_saved(const struct memory_work *w, value_id v, uint32_t depth)
{
	uint32_t b = w->out->value[v].buffer;

	/* other buffers than saves have level 0 */
	return b && memory_at(w, b - 1)->levels > depth;
}

/* ---- saved by each iteration ---- */

/*
 * Records the carried values of a repeat; those whose old value each iteration
 * saves are made where that is saved.
 */
static void
add_carries(struct carry_work *c)
{
	struct memory_work *w = c->w;
	const struct ir_node *n = c->body->repeat;
	uint32_t k;

	c->number = w->out->carries.n;
	for (k = 0; k < n->nargs; k++) {
		const struct ir_region *r = &w->m->regions.at[n->region];
		struct memory_carry x = {
			.repeat = (node_id)(n - w->m->nodes.at),
			.init = ir_args(w->m, n)[k],
			.param = r->params.at[k], .made = r->results.at[k],
			.result = n->result + k, .depth = c->outer->depth,
			.last = w->last[r->params.at[k]]
		};
		bool saved = is_saved(w, x.param, c->outer->depth);

		if (saved) {
			x.at[0] = x.at[1] = w->out->value[x.param].buffer;
			x.first_here = true;
		}
		VEC_PUSH(w->a, &w->out->carries, x);
		if (saved && is_open(w, x.init, c->outer)) {
			set_role(c, x.init, k, MEMORY_INIT);
		}
	}
}

/* ---- all others ---- */

bool
memory_in_place(const struct memory_work *w, const struct kernel *k, value_id v,
		value_id made)
{
	const struct ir_type *from = ir_type(w->m, v);
	const struct ir_type *to = ir_type(w->m, made);
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(w->m, k->nodes.at[i]);

		if (!ir_is(n->op, IRF_MAP | IRF_SINK | IRF_COMM)) {
			return false;
		}
	}
	/* of collectives that share a call, v must be the operand of `made` */
	if (k->kind == KERNEL_COLLECTIVE &&
	    ir_args(w->m, ir_node(w->m, w->m->values.at[made].node))[0] != v) {
		return false;
	}
	if ((k->kind != KERNEL_MAP && k->kind != KERNEL_COLLECTIVE) ||
	    w->viewed[v] || w->out->apart[v] != w->out->apart[made] ||
	    from->ndims != to->ndims || from->dtype != to->dtype ||
	    from->routed != to->routed) {
		return false;
	}
	for (i = 0; i < from->ndims; i++) {
		if (from->dims[i] != to->dims[i] ||
		    from->cut[i] != to->cut[i]) {
			return false;
		}
	}
	return true;
}

static const struct kernel *
kernel_at(const struct memory_frame *f, uint32_t step)
{
	uint32_t i;

	for (i = 0; i < f->list->at.n && f->step[i] != step; i++) {
	}
	return i < f->list->at.n ? &f->list->at.at[i] : NULL;
}

/* Whether the old value is not read after the new one is written. */
static bool
needs_one_buffer(const struct carry_work *c, const struct memory_carry *x)
{
	const struct memory_work *w = c->w;
	const struct kernel *k;

	if (w->last[x->param] > w->def[x->made]) {
		return false;
	}
	if (w->last[x->param] < w->def[x->made]) {
		return true;
	}
	k = kernel_at(c->body, w->def[x->made]);
	return k && memory_in_place(w, k, x->param, x->made);
}

/*
 * The temp of the initial value, if this carried value alone is its last
 * reader; else a new one.
 */
static uint32_t
first_temp(struct carry_work *c, struct memory_carry *x)
{
	struct memory_work *w = c->w;
	const struct memory_value *init = &w->out->value[x->init];
	const struct ir_node *n = c->body->repeat;
	uint32_t k, b, uses = 0;
	bool dying = false;

	for (k = 0; k < n->nargs; k++) {
		bool mine = ir_args(w->m, n)[k] == x->init;

		uses += mine;
		dying |= mine && c->body->dying[k];
	}
	if (uses == 1 && dying) {
		if (is_open(w, x->init, c->outer)) {
			b = memory_add_temp(w, x->init, w->def[x->init],
					    c->body->end);
			w->out->value[x->init].buffer = b + 1;
			return b;
		}
		if (init->carry && init->role == MEMORY_RESULT) {
			const struct memory_carry *y =
				&w->out->carries.at[init->carry - 1];

			b = y->at[memory_count(w->m, ir_node(w->m,
						y->repeat)) & 1] - 1;
			if (memory_at(w, b)->kind == MEMORY_TEMPS &&
			    memory_at(w, b)->bytes ==
			    memory_bytes(w, x->param)) {
				memory_at(w, b)->to = c->body->end;
				return b;
			}
		}
	}
	return memory_add_temp(w, x->param, c->body->begin, c->body->end);
}

/* One buffer or two, if neither the old nor the new value is saved. */
static void
place_in_temps(struct carry_work *c, struct memory_carry *x, uint32_t k)
{
	struct memory_work *w = c->w;
	int64_t count = memory_count(w->m, c->body->repeat);
	uint32_t b;

	if (count == 1) {
		return;
	}
	x->at[0] = first_temp(c, x) + 1;
	x->at[1] = x->at[0];
	if (c->copies || !needs_one_buffer(c, x)) {
		x->at[1] = memory_add_temp(w, x->made, c->body->begin,
					   c->body->end) + 1;
	}
	if (!memory_is_placed(w, x->result)) {
		x->last_here = true;
		set_role(c, x->result, k, MEMORY_RESULT);
		b = x->at[count & 1] - 1;
		if (w->last[x->result] > memory_at(w, b)->to) {
			memory_at(w, b)->to = w->last[x->result];
		}
	}
}

static void
place_carries(struct carry_work *c)
{
	struct memory_work *w = c->w;
	const struct ir_node *n = c->body->repeat;
	uint32_t k;

	for (k = 0; k < n->nargs; k++) {
		struct memory_carry *x = at(c, k);

		if (is_open(w, x->made, c->body)) {
			set_role(c, x->made, k, MEMORY_MADE);
		} else {
			c->copies = true;
		}
	}
	for (k = 0; k < n->nargs; k++) {
		struct memory_carry *x = at(c, k);
		bool saved = is_saved(w, x->made, c->outer->depth);

		if (!x->first_here && saved) {
			x->at[0] = x->at[1] = w->out->value[x->made].buffer;
			x->shift = -1;
			x->last_here = !memory_is_placed(w, x->result);
			if (x->last_here) {
				set_role(c, x->result, k, MEMORY_RESULT);
			}
		} else if (!x->first_here) {
			place_in_temps(c, x, k);
		}
		if (!memory_is_placed(w, x->param)) {
			set_role(c, x->param, k, MEMORY_PARAM);
		}
	}
}

/* ---- all repeats of a function ---- */

static void
walk_repeats(struct memory_work *w, struct memory_frame *f, bool adds,
	     uint32_t *number)
{
	uint32_t i;

	for (i = 0; i < f->list->at.n; i++) {
		struct carry_work c = {
			.w = w, .outer = f, .body = f->inner[i]
		};

		if (!c.body) {
			continue;
		}
		if (adds) {
			add_carries(&c);
		} else {
			c.number = *number;
			*number += c.body->repeat->nargs;
			place_carries(&c);
		}
		walk_repeats(w, c.body, adds, number);
	}
}

void
memory_carries(struct memory_work *w)
{
	uint32_t number = w->out->carries.n;

	walk_repeats(w, w->top, true, NULL);
	walk_repeats(w, w->top, false, &number);
}

/*
 * What one function keeps for another of its stage, and under which names.
 * A value is made where it is kept, and what is kept already is kept there:
 * no save copies anything.
 */
#include "passes/memory/memory_parts.h"

/* ---- names ---- */

static void
add_name(struct memory_work *w, sym_t name, uint32_t buffer,
	 const struct memory_nest *nest)
{
	struct memory_name x = { name, buffer, 0, 1, w->names_of[name] };

	while (nest && nest->outer) {
		nest = nest->outer;
	}
	if (nest) {
		x.lo = memory_start(w->m, nest->repeat);
		x.hi = x.lo + memory_count(w->m, nest->repeat);
	}
	VEC_PUSH(&w->tmp, &w->names, x);
	w->names_of[name] = w->names.n;
}

/* Where a name is kept in the trips around, or UINT32_MAX. */
static uint32_t
find_name(const struct memory_work *w, sym_t name,
	  const struct memory_nest *nest)
{
	int64_t lo = 0;
	uint32_t i;

	while (nest && nest->outer) {
		nest = nest->outer;
	}
	lo = nest ? memory_start(w->m, nest->repeat) : 0;
	for (i = w->names_of[name]; i; i = w->names.at[i - 1].next) {
		const struct memory_name *x = &w->names.at[i - 1];

		if (lo >= x->lo && lo < x->hi) {
			return x->buffer;
		}
	}
	return UINT32_MAX;
}

/* ---- what is saved ---- */

/*
 * An item for each trip of the repeats around what is saved.  What an update
 * saves it takes itself, and so it is a temp.
 */
static uint32_t
new_save(struct memory_work *w, value_id v, sym_t name)
{
	const struct memory_frame *f = w->frame[v];
	bool update = w->stage == UINT32_MAX;
	uint32_t b = memory_add(w, update ? MEMORY_TEMPS : MEMORY_SAVES,
				memory_bytes(w, v));
	struct memory_buffer *to = memory_at(w, b);

	to->name = name;
	to->value = v;
	to->func = update ? w->func : 0;
	to->levels = f->depth;
	to->span = (w->kind == SCHED_F ? MEMORY_TO_INPUT : MEMORY_BETWEEN) +
		   (f->depth ? 0 : MEMORY_TOP);
	to->from = w->def[v];
	to->to = w->top->end;
	for (; f->repeat; f = f->outer) {
		to->trips *= memory_count(w->m, f->repeat);
		to->first = memory_start(w->m, f->repeat);
		to->from = f->begin;
	}
	w->out->value[v].buffer = b + 1;
	return b;
}

static void
save(struct memory_work *w, const struct ir_node *n,
     const struct memory_nest *nest)
{
	sym_t name = ir_attr(w->m, n, IR_ATTR_NAME)->text;
	value_id v = ir_args(w->m, n)[0];
	uint32_t b = w->out->value[v].buffer;

	/* what was taken, a weight or an input stays where it is */
	if (!b) {
		if (!w->frame[v]) {
			w->why = arena_printf(&w->m->ctx->tmp, "`%s` saves "
				"what no kernel makes",
				ir_text(w->m->ctx, name));
			return;
		}
		b = new_save(w, v, name) + 1;
	}
	add_name(w, name, b - 1, nest);
}

static void
take(struct memory_work *w, const struct ir_node *n,
     const struct memory_nest *nest)
{
	sym_t name = ir_attr(w->m, n, IR_ATTR_NAME)->text;
	uint32_t b = find_name(w, name, nest);

	if (b == UINT32_MAX) {
		w->why = arena_printf(&w->m->ctx->tmp, "nothing is saved as "
				      "`%s` before it is taken",
				      ir_text(w->m->ctx, name));
		return;
	}
	w->out->value[n->result].buffer = b + 1;
	if (w->kind == SCHED_W && memory_at(w, b)->kind == MEMORY_SAVES &&
	    memory_at(w, b)->span % MEMORY_TOP == MEMORY_TO_INPUT) {
		memory_at(w, b)->span += MEMORY_TO_WEIGHTS - MEMORY_TO_INPUT;
	}
}

static void
scan(struct memory_work *w, region_id r, const struct memory_nest *outer)
{
	uint32_t i;

	for (i = 0; !w->why && i < w->m->regions.at[r].nodes.n; i++) {
		node_id id = w->m->regions.at[r].nodes.at[i];
		const struct ir_node *n = ir_node(w->m, id);
		struct memory_nest in = { n, outer };

		if (n->region) {
			scan(w, n->region, &in);
		} else if (!ir_is(n->op, IRF_STASH)) {
			continue;
		} else if (ir_is(n->op, IRF_SINK)) {
			save(w, n, outer);
		} else {
			take(w, n, outer);
		}
	}
}

void
memory_saves(struct memory_work *w)
{
	scan(w, w->m->funcs.at[w->func].body, NULL);
}

void
memory_stage_done(struct memory_work *w)
{
	uint32_t i;

	for (i = 0; i < w->names.n; i++) {
		w->names_of[w->names.at[i].name] = 0;
	}
	w->names.n = 0;
}

/*
 * Saves: what one function of a stage keeps for a later one, by name.  A value
 * is made where it is saved, and one that already has a lasting place is saved
 * there, so that no save copies anything.
 */
#include "passes/memory/memory_parts.h"

/* ---- names ---- */

static void
add_name(struct memory_work *w, sym_t name, uint32_t buffer,
	 const struct memory_repeats *around)
{
	struct memory_name x = { name, buffer, 0, 1, w->names_of[name] };

	while (around && around->outer) {
		around = around->outer;
	}
	if (around) {
		x.lo = memory_start(w->m, around->repeat);
		x.hi = x.lo + memory_count(w->m, around->repeat);
	}
	VEC_PUSH(&w->tmp, &w->names, x);
	w->names_of[name] = w->names.n;
}

/* The buffer of a name in the iterations around, or UINT32_MAX. */
static uint32_t
find_name(const struct memory_work *w, sym_t name,
	  const struct memory_repeats *around)
{
	int64_t lo = 0;
	uint32_t i;

	while (around && around->outer) {
		around = around->outer;
	}
	lo = around ? memory_start(w->m, around->repeat) : 0;
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
 * A buffer with an item for each iteration of the repeats around v.  An update
 * reads its own saves, so those are temps.
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
		to->items *= memory_count(w->m, f->repeat);
		to->first = memory_start(w->m, f->repeat);
		to->from = f->begin;
	}
	w->out->value[v].buffer = b + 1;
	return b;
}

static void
place_save(struct memory_work *w, const struct ir_node *n,
	   const struct memory_repeats *around)
{
	sym_t name = ir_attr(w->m, n, IR_ATTR_NAME)->text;
	value_id v = ir_args(w->m, n)[0];
	uint32_t b = w->out->value[v].buffer;

	/* a weight, an input or an earlier save stays where it is */
	if (!b) {
		if (!w->frame[v]) {
			w->why = arena_printf(&w->m->ctx->tmp, "`%s` saves "
				"what no kernel makes",
				ir_text(w->m->ctx, name));
			return;
		}
		b = new_save(w, v, name) + 1;
	}
	add_name(w, name, b - 1, around);
}

static void
place_saved(struct memory_work *w, const struct ir_node *n,
	    const struct memory_repeats *around)
{
	sym_t name = ir_attr(w->m, n, IR_ATTR_NAME)->text;
	uint32_t b = find_name(w, name, around);

	if (b == UINT32_MAX) {
		w->why = arena_printf(&w->m->ctx->tmp, "nothing is saved as "
				      "`%s` before it is read",
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
scan(struct memory_work *w, region_id r, const struct memory_repeats *outer)
{
	uint32_t i;

	for (i = 0; !w->why && i < w->m->regions.at[r].nodes.n; i++) {
		node_id id = w->m->regions.at[r].nodes.at[i];
		const struct ir_node *n = ir_node(w->m, id);
		struct memory_repeats in = { n, outer };

		if (n->region) {
			scan(w, n->region, &in);
		} else if (!ir_is(n->op, IRF_STASH)) {
			continue;
		} else if (ir_is(n->op, IRF_SINK)) {
			place_save(w, n, outer);
		} else {
			place_saved(w, n, outer);
		}
	}
}

void
memory_saves(struct memory_work *w)
{
	scan(w, w->m->funcs.at[w->func].body, NULL);
}

void
memory_forget_names(struct memory_work *w)
{
	uint32_t i;

	for (i = 0; i < w->names.n; i++) {
		w->names_of[w->names.at[i].name] = 0;
	}
	w->names.n = 0;
}

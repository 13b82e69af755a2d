/*
 * The address function: from a value, the running iterations, the microbatch
 * and the number of messages sent to an offset.  Everything that uses an
 * address calls it: codegen/host/, memory_check.c and the printers.
 */
#include "passes/memory/memory_parts.h"

#include "passes/pass.h"

/* The value of the repeat's variable. */
static int64_t
variable(const struct ir_module *m, const struct memory_iterations *at)
{
	bool back = ir_attr(m, at->repeat, IR_ATTR_REVERSE);

	return memory_start(m, at->repeat) +
	       (back ? memory_count(m, at->repeat) - 1 - at->index
		     : at->index);
}

/* Whether the item depends on this repeat, `depth` from the outermost. */
static bool
depends_on(const struct ir_module *m, const struct memory_buffer *b,
	   const struct memory_iterations *at, uint32_t depth)
{
	const struct ir_attr *var = ir_attr(m, at->repeat, IR_ATTR_VAR);

	if (b->kind == MEMORY_SAVES || b->kind == MEMORY_TEMPS) {
		return depth < b->levels;
	}
	return b->kind < MEMORY_PIPELINE && b->name && var &&
	       pass_mentions(ir_text(m->ctx, b->name),
			     ir_text(m->ctx, var->text));
}

/*
 * The item of the running iterations, the innermost repeat fastest; returns how
 * many repeats it depends on.
 */
static uint32_t
index_of(const struct ir_module *m, const struct memory_buffer *b,
	 const struct memory_iterations *at, uint32_t *depth, int64_t *index)
{
	uint32_t levels = 0;

	*index = 0;
	*depth = 0;
	if (!at) {
		return 0;
	}
	levels = index_of(m, b, at->outer, depth, index);
	if (depends_on(m, b, at, *depth)) {
		*index = levels == 0 ? variable(m, at) - b->first
			: *index * memory_count(m, at->repeat) +
			  variable(m, at) - memory_start(m, at->repeat);
		levels++;
	}
	++*depth;
	return levels;
}

static uint32_t
copy_of(const struct memory_run *run, const struct memory_buffer *b)
{
	const struct memory_stage *s;
	uint32_t back;

	if (b->stage == UINT32_MAX || run->stage == UINT32_MAX) {
		return b->copies > 1 ? run->microbatch : 0;
	}
	s = &run->mem->stage[run->stage];
	if (b->kind == MEMORY_SAVES) {
		return s->slot[b->span][run->microbatch];
	}
	back = b->func != s->func[SCHED_F].func;
	return b->kind == MEMORY_PIPELINE ? run->turn[back] % b->copies
		: b->copies > 1 ? run->microbatch : 0;
}

struct memory_spot
memory_item(const struct memory_run *run, uint32_t buffer,
	    const struct memory_iterations *at)
{
	const struct memory_buffer *b = &run->mem->buffers.at[buffer];
	int64_t index;
	uint32_t depth;

	index_of(run->m, b, at, &depth, &index);
	return (struct memory_spot){ buffer, b->offset + index * b->bytes +
				     copy_of(run, b) * b->apart };
}

bool
memory_carried(const struct memory_run *run, uint32_t carry, int64_t t,
	       const struct memory_iterations *around, struct memory_spot *out)
{
	const struct memory_carry *c = &run->mem->carries.at[carry];
	const struct ir_node *n = ir_node(run->m, c->repeat);
	struct memory_iterations at = { n, t + c->shift, around };

	if (t == 0 && !c->first_here) {
		return memory_where(run, c->init, around, out);
	}
	if (t == memory_count(run->m, n) && !c->last_here) {
		return memory_where(run, c->result, around, out);
	}
	if (!c->at[t & 1]) {
		return false;
	}
	*out = memory_item(run, c->at[t & 1] - 1, &at);
	return true;
}

bool
memory_where(const struct memory_run *run, value_id v,
	     const struct memory_iterations *at, struct memory_spot *out)
{
	const struct memory_value *x = &run->mem->value[v];
	const struct memory_carry *c;
	int64_t t;

	if (x->buffer) {
		*out = memory_item(run, x->buffer - 1, at);
		return true;
	}
	if (!x->carry) {
		return false;
	}
	c = &run->mem->carries.at[x->carry - 1];
	if (x->role == MEMORY_INIT || x->role == MEMORY_RESULT) {
		/* the reader may be inside of other repeats */
		const struct memory_iterations *a = at;
		uint32_t depth = 0;

		for (; a; a = a->outer) {
			depth++;
		}
		for (; depth > c->depth; depth--) {
			at = at->outer;
		}
		t = x->role == MEMORY_INIT ? 0
			: memory_count(run->m, ir_node(run->m, c->repeat));
		return memory_carried(run, x->carry - 1, t, at, out);
	}
	while (at && at->repeat != ir_node(run->m, c->repeat)) {
		at = at->outer;
	}
	if (!at) {
		return false;
	}
	t = at->index + (x->role == MEMORY_MADE);
	return memory_carried(run, x->carry - 1, t, at->outer, out);
}

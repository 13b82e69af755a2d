/*
 * Buffers of a memory plan: how large a value is, and adding one.  What the
 * other memory*.c files share, so that they need not call memory.c.
 */
#include "passes/memory/memory_parts.h"

#define MOST 1e15	/* bytes of one value: far above any machine's */

int64_t
memory_start(const struct ir_module *m, const struct ir_node *repeat)
{
	return ir_attr_int(m, repeat, IR_ATTR_START, 0);
}

int64_t
memory_count(const struct ir_module *m, const struct ir_node *repeat)
{
	return ir_attr_int(m, repeat, IR_ATTR_COUNT, 1);
}

static int64_t
aligned(const struct memory_work *w, value_id v)
{
	double bytes = memory_value_bytes(w->m, w->out->apart, v);
	int64_t n = bytes < MOST ? (int64_t)bytes : (int64_t)MOST;

	n = (n + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
	return n ? n : MEMORY_ALIGN;
}

/* Kept by type, since many values have the same one, unless rows lie apart. */
int64_t
memory_bytes(const struct memory_work *w, value_id v)
{
	int64_t *bytes = &w->bytes[w->m->values.at[v].type];

	if (w->out->apart[v]) {
		return aligned(w, v);
	}
	if (!*bytes) {
		*bytes = aligned(w, v);
	}
	return *bytes;
}

uint32_t
memory_add(struct memory_work *w, enum memory_kind kind, int64_t bytes)
{
	struct memory_buffer b = {
		.kind = kind, .pipe = w->pipe, .stage = w->stage,
		.func = w->func, .bytes = bytes, .items = 1, .copies = 1
	};

	VEC_PUSH(w->a, &w->out->buffers, b);
	return w->out->buffers.n - 1;
}

uint32_t
memory_add_temp(struct memory_work *w, value_id v, uint32_t from, uint32_t to)
{
	uint32_t b = memory_add(w, MEMORY_TEMPS, memory_bytes(w, v));

	memory_at(w, b)->value = v;
	memory_at(w, b)->from = from;
	memory_at(w, b)->to = to;
	return b;
}

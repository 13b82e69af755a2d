/*
 * What is in use while a rank runs its actions, one after the other: saves come
 * and go with the actions that make and read them, temps with each action.
 * Everything else is there all the time.
 */
#include "passes/memory/memory_parts.h"

/* Bytes of saves whose lifetime begins with such an action, or ends with it. */
static int64_t
changed_bytes(const struct memory *m, const struct memory_stage *s,
	      uint32_t kind, bool begins)
{
	uint8_t does = sched_kinds[kind].does;
	int64_t bytes = 0;
	uint32_t span;

	for (span = 0; span < MEMORY_NSPANS; span++) {
		const struct memory_lifetime *l = &memory_lifetimes[span];

		if (does & (begins ? l->from : l->to) &&
		    !memory_is_hosted(m, span)) {
			bytes += s->saves[span].bytes;
		}
	}
	return bytes;
}

struct memory_moment *
memory_history(const struct memory *mem, const struct sched_list *l,
	       struct arena *a)
{
	struct memory_moment *out = arena_alloc(a, (l->actions.n + 1) *
						sizeof *out);
	int64_t now = 0;
	uint32_t i;

	for (i = 0; i < l->actions.n; i++) {
		const struct sched_action *x = &l->actions.at[i];
		const struct memory_stage *s = &mem->stage[x->stage];

		now += changed_bytes(mem, s, x->kind, true);
		out[i].saves = now + s->window;
		out[i].func = &s->func[x->kind];
		now -= changed_bytes(mem, s, x->kind, false);
		out[i].after = now;
	}
	return out;
}

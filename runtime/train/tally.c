/*
 * Counts what a rank runs.  run.c adds to the tally while a step runs, and
 * bench.c reads it afterwards: so it belongs to neither of them.
 */
#include "runtime/train/tally.h"

#include <stdlib.h>

static struct rt_tally_entry *
find(struct rt_tally *t, const void *key)
{
	size_t i = (uintptr_t)key / 8 * 0x9e3779b1u;

	for (i &= t->capacity - 1; t->at[i].key && t->at[i].key != key;) {
		i = (i + 1) & (t->capacity - 1);
	}
	return &t->at[i];
}

static bool
grow(struct rt_tally *t)
{
	struct rt_tally old = *t;
	size_t i;

	t->capacity = old.capacity ? old.capacity * 2 : 256;
	t->at = calloc(t->capacity, sizeof *t->at);
	if (!t->at) {
		*t = old;
		t->lost = true;
		return false;
	}
	for (i = 0; i < old.capacity; i++) {
		if (old.at[i].key) {
			*find(t, old.at[i].key) = old.at[i];
		}
	}
	free(old.at);
	return true;
}

void
rt_tally_add(struct rt_tally *t, const struct rt_tallied_call *c)
{
	struct rt_tally_entry *e;

	if (t->trace) {
		rt_trace_add(t->trace, c);
	}
	if (t->n * 2 >= t->capacity && !grow(t)) {
		return;
	}
	e = find(t, c->key);
	if (!e->key) {
		e->key = c->key;
		e->is = (struct rt_tally_record){ .kind = c->kind, .ranks = 1 };
		snprintf(e->is.what, sizeof e->is.what, "%s", c->what);
		t->n++;
	}
	e->is.calls++;
	e->is.ms += c->ms;
	e->is.us += c->us;
	e->is.flops += c->flops;
	e->is.bytes += c->bytes;
}

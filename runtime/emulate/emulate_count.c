/*
 * Blocks that take turns: a number in global memory says how many are done.  A
 * block may wait for blocks that have begun.  Two run at once, the last ones of
 * the grid first, so one that waits for a block by its number waits for ever,
 * as it may on a GPU, and one that does not wait long enough is too early.
 */
#include "runtime/emulate/emulate_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char reason[] = "its turn, when %u blocks have added: %u have";

static bool
orders(const struct rt_image *x, const char *func)
{
	const char *text = x->source, *call, *end;
	char head[256];

	snprintf(head, sizeof head, "KERNEL(%s,", func);
	text = text ? strstr(text, head) : NULL;
	call = text ? strstr(text, "count_wait(") : NULL;
	end = text ? strstr(text, "\n}\n") : NULL;
	return call && (!end || call < end);
}

enum rt_status
emu_count_open(struct rt_emu *e, struct rt_error *err)
{
	int64_t n = e->lib->end - e->lib->first, i;

	e->orders = calloc((size_t)n + 1, sizeof *e->orders);
	if (!e->orders) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < n; i++) {
		const struct emu_entry *x = e->lib->first[i];

		e->orders[i] = x->image < e->images->n &&
			       orders(&e->images->at[x->image], x->name);
	}
	return RT_OK;
}

/* What other threads do with this number: whether one has its turn; `wake':
 * those that wait for it go on. */
static bool
look_at_others(struct rt_emu *e, const int *at, bool wake)
{
	bool taken = false;
	int i, k;

	for (i = 0; i < e->nblocks; i++) {
		for (k = 0; k < e->blocks[i].ntasks; k++) {
			struct emu_task *t = &e->blocks[i].tasks[k];

			taken |= t->turn == at;
			if (wake && t->awaited == at) {
				t->awaited = NULL;
				emu_wake(e, t);
			}
		}
	}
	return taken;
}

void
emu_count_wait(const int *at, int n)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;

	emu_check_begun(e, false);
	emu_check_global(e, at, sizeof *at, false);
	if (t->turn) {
		emu_fail(e, "count_wait before count_next ends the turn that "
			 "it has");
	}
	t->alone++;
	while (*at != n) {
		if (*at > n) {
			emu_fail(e, "its turn is over: it waits until %d "
				 "blocks have added, and %d have", n, *at);
		}
		t->awaited = at;
		emu_wait(e, reason, (unsigned)n, (unsigned)*at);
	}
	if (look_at_others(e, at, false)) {
		emu_fail(e, "another block has the same turn, the one after %d "
			 "blocks", n);
	}
	t->turn = at;
}

void
emu_count_next(int *at)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	int i;

	if (t->turn != at) {
		emu_fail(e, "count_next of a turn that it has not waited for");
	}
	for (i = 0; i < e->nboxes; i++) {
		if (e->boxes[i].store && e->boxes[i].task == t) {
			emu_fail(e, "its turn ends before what it adds has "
				 "arrived: tma_commit and tma_wait(0)");
		}
	}
	t->turn = NULL;
	emu_check_global(e, at, sizeof *at, true);
	++*at;
	look_at_others(e, at, true);
}

void
emu_count_add(struct rt_emu *e, const char *call, const void *to)
{
	if (e->ordered && !e->now->turn) {
		emu_fail(e, "%s to %p outside of its turn", call, to);
	}
}

void
emu_count_end(struct rt_emu *e, struct emu_task *t)
{
	if (t->turn) {
		emu_fail(e, "it ends in its turn, with no count_next");
	}
}

/*
 * Shared memory in checked code: for each four bytes who wrote them, who read
 * them, and which copies to them are under way. Two threads race for a byte if
 * one of them writes it and neither is ordered after the other's access
 * (emulate_past.c).
 */
#include "runtime/emulate/emulate_cells.h"

#include <stdio.h>

/* ---- names in messages ---- */

struct emu_name
emu_name_of(struct rt_emu *e, int who)
{
	int n = e->blocks[0].ntasks;
	struct emu_name x;

	if (who >= e->shadow->n - EMU_GROUPS) {
		snprintf(x.text, sizeof x.text, "a product");
	} else if (who >= e->shadow->n - EMU_OTHERS) {
		snprintf(x.text, sizeof x.text, "the copying unit");
	} else if (e->grid->cluster > 1) {
		snprintf(x.text, sizeof x.text, "thread %d of the cluster's "
			 "block %d", who % n, who / n);
	} else {
		snprintf(x.text, sizeof x.text, "thread %d", who % n);
	}
	return x;
}

/* ---- cells ---- */

/* A thread that wrote these bytes and is not ordered before t; -1: none.
 * Atomics do not race with each other. */
static int
racing_writer(struct rt_emu *e, const struct emu_task *t,
	      const struct emu_cell *c, uint8_t mask, bool atomic)
{
	if (c->wmask & mask && !emu_knows(e, t, c->writer, c->wclock)) {
		return c->writer;
	}
	return !atomic && c->amask & mask &&
		!emu_knows(e, t, c->atomic, c->aclock) ? c->atomic : -1;
}

void
emu_cells_check_write(struct rt_emu *e, const struct emu_task *t,
		      struct emu_cells r, bool atomic)
{
	int i;

	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		int64_t at = r.at;
		uint8_t mask = emu_take_cell(&r);

		if (c->filling & mask) {
			emu_fail(e, "writes to %lld of shared memory, which "
				 "a copy that %s began still fills",
				 (long long)at, emu_name_of(e, c->writer).text);
		}
		if (c->reading) {
			emu_fail(e, "writes to %lld of shared memory, which "
				 "a product or a store of a box still reads",
				 (long long)at);
		}
		i = racing_writer(e, t, c, mask, atomic);
		if (i >= 0) {
			emu_fail(e, "writes to %lld of shared memory, where "
				 "%s wrote, with no barrier in between",
				 (long long)at, emu_name_of(e, i).text);
		}
		for (i = 0; i < 2; i++) {
			if (c->rmask[i] & mask &&
			    !emu_knows(e, t, c->reader[i], c->rclock[i])) {
				emu_fail(e, "writes to %lld of shared "
					 "memory, which %s read, with no "
					 "barrier in between", (long long)at,
					 emu_name_of(e, c->reader[i]).text);
			}
		}
	}
}

static inline void
mark_cell_write(struct emu_cell *c, uint8_t mask, int who, uint32_t clock,
		bool plain)
{
	c->writer = (uint16_t)who;
	c->wclock = clock;
	c->wmask = mask;
	c->init |= mask;
	c->filling &= (uint8_t)~mask;
	c->rmask[0] &= (uint8_t)~mask;
	c->rmask[1] &= (uint8_t)~mask;
	c->amask &= (uint8_t)~mask;
	c->plain = plain;
}

void
emu_cells_written(struct emu_cells r, int who, uint32_t clock, bool plain)
{
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;

		mark_cell_write(c, emu_take_cell(&r), who, clock, plain);
	}
}

void
emu_cells_atomic(struct emu_cells r, int who, uint32_t clock)
{
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		uint8_t mask = emu_take_cell(&r);

		c->atomic = (uint16_t)who;
		c->aclock = clock;
		c->amask |= mask;
		c->init |= mask;
	}
}

void
emu_cells_check_read(struct rt_emu *e, const struct emu_task *t,
		     struct emu_cells r, bool async)
{
	int who;

	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		int64_t at = r.at;
		uint8_t mask = emu_take_cell(&r);

		if (c->filling & mask) {
			emu_fail(e, "reads %lld of shared memory, which a "
				 "copy still fills: nobody has waited for "
				 "it", (long long)at);
		}
		if ((c->init & mask) != mask) {
			emu_fail(e, "reads %lld of shared memory, which "
				 "nobody has written", (long long)at);
		}
		who = racing_writer(e, t, c, mask, false);
		if (who >= 0) {
			emu_fail(e, "reads %lld of shared memory, where %s "
				 "wrote, with no barrier in between",
				 (long long)at, emu_name_of(e, who).text);
		}
		if (async && !emu_cell_fenced(e, t, c, mask)) {
			emu_fail(e, "a product or a store of a box reads %lld "
				 "of shared memory, which %s wrote with no "
				 "fence_async after it", (long long)at,
				 emu_name_of(e, c->writer).text);
		}
	}
}

void
emu_cells_were_read(struct emu_cells r, int who, uint32_t clock)
{
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;

		emu_cell_was_read(c, emu_take_cell(&r), who, clock);
	}
}

/* ---- plain accesses: most of all, and nearly all of them are legal ---- */

static inline bool
may_write(const struct emu_accessor *a, const struct emu_cell *c, uint8_t mask)
{
	return !(c->filling & mask) && !c->reading &&
	       emu_is_ordered(a, mask, c->wmask, c->writer, c->wclock) &&
	       emu_is_ordered(a, mask, c->amask, c->atomic, c->aclock) &&
	       emu_is_ordered(a, mask, c->rmask[0], c->reader[0],
			      c->rclock[0]) &&
	       emu_is_ordered(a, mask, c->rmask[1], c->reader[1], c->rclock[1]);
}

/* What may not be done is reported by the checks above. */
void
emu_cells_read(struct rt_emu *e, const struct emu_task *t,
	       struct emu_cell *cell, int64_t at, int64_t end)
{
	struct emu_accessor a = emu_accessor_of(e, t);
	struct emu_cells r = { cell, at, end };

	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		uint8_t mask = emu_take_cell(&r);

		if (!emu_may_read(&a, c, mask)) {
			emu_cells_check_read(
				e, t, (struct emu_cells){ cell, at, end },
				false);
		}
		emu_cell_was_read(c, mask, a.self, a.clock);
	}
}

void
emu_cells_write(struct rt_emu *e, const struct emu_task *t,
		struct emu_cell *cell, int64_t at, int64_t end)
{
	struct emu_accessor a = emu_accessor_of(e, t);
	struct emu_cells r = { cell, at, end };

	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		uint8_t mask = emu_take_cell(&r);

		if (!may_write(&a, c, mask)) {
			emu_cells_check_write(
				e, t, (struct emu_cells){ cell, at, end },
				false);
		}
		mark_cell_write(c, mask, a.self, a.clock, true);
	}
}

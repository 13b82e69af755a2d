/*
 * Private to the files of checked code: cells, of four bytes of shared memory
 * each, and whether an access to them races with another.
 */
#ifndef RT_EMULATE_CELLS_H
#define RT_EMULATE_CELLS_H

#include "runtime/emulate/emulate_shadow.h"

/* A thread, or what works for it, in a message. */
struct emu_name {
	char text[64];
};

struct emu_cells {
	struct emu_cell *cell;
	int64_t at, end;	/* bytes of shared memory */
};

struct emu_accessor {
	int self;
	uint32_t clock;
	const uint32_t *past;
};

static inline struct emu_cells
emu_cells_of(struct rt_emu *e, const struct emu_block *b, int64_t at, int64_t n)
{
	return (struct emu_cells){ e->shadow->cells[b - e->blocks] + at / 4, at,
				   at + n };
}

/* The bytes of the range in its first cell; removes them from the range. */
static inline uint8_t
emu_take_cell(struct emu_cells *r)
{
	int64_t from = r->at % 4, to = r->at - from + 4;

	to = to < r->end ? to : r->end;
	from = (1 << (to - (r->at - from))) - (1 << from);
	r->at = to;
	r->cell++;
	return (uint8_t)from;
}

/* Whether the writer has fenced what a product or a store of a box reads that
 * thread t begins. */
static inline bool
emu_cell_fenced(const struct rt_emu *e, const struct emu_task *t,
		const struct emu_cell *c, uint8_t mask)
{
	return !c->plain || !(c->wmask & mask) ||
	       emu_knows_fence(e, t, c->writer,
			       &e->shadow->knowers[c->writer].fenced,
			       c->wclock);
}

/* The last two readers are remembered. */
static inline void
emu_cell_was_read(struct emu_cell *c, uint8_t mask, int who, uint32_t clock)
{
	if (c->rmask[0] && c->reader[0] != who) {
		c->reader[1] = c->reader[0];
		c->rclock[1] = c->rclock[0];
		c->rmask[1] = c->rmask[0];
		c->rmask[0] = 0;
	}
	c->reader[0] = (uint16_t)who;
	c->rclock[0] = clock;
	c->rmask[0] |= mask;
}

static inline struct emu_accessor
emu_accessor_of(const struct rt_emu *e, const struct emu_task *t)
{
	int self = emu_index(e, t);
	const struct emu_knower *k = &e->shadow->knowers[self];

	return (struct emu_accessor){ self, k->clock, k->past->at };
}

/* Whether the bytes of `mask` among `used` were used by nobody who is not
 * ordered before. */
static inline bool
emu_is_ordered(const struct emu_accessor *a, uint8_t mask, uint8_t used,
	       int who, uint32_t clock)
{
	return !(mask & used) || who == a->self || a->past[who] >= clock;
}

static inline bool
emu_may_read(const struct emu_accessor *a, const struct emu_cell *c,
	     uint8_t mask)
{
	return !(c->filling & mask) && (c->init & mask) == mask &&
	       emu_is_ordered(a, mask, c->wmask, c->writer, c->wclock) &&
	       emu_is_ordered(a, mask, c->amask, c->atomic, c->aclock);
}

struct emu_name emu_name_of(struct rt_emu *e, int who);

/* Each fails unless the access is legal. async: by a product or a store of a
 * box. Atomics do not race with each other. */
void emu_cells_check_write(struct rt_emu *e, const struct emu_task *t,
			   struct emu_cells r, bool atomic);
void emu_cells_check_read(struct rt_emu *e, const struct emu_task *t,
			  struct emu_cells r, bool async);
/* These note an access. plain: not by the copying unit. */
void emu_cells_written(struct emu_cells r, int who, uint32_t clock,
		       bool plain);
void emu_cells_atomic(struct emu_cells r, int who, uint32_t clock);
void emu_cells_were_read(struct emu_cells r, int who, uint32_t clock);

/* Both, of a plain access.  A range comes as numbers: as a structure it would
 * go through memory, in parts that are written apart and read together, for
 * which a CPU waits. */
void emu_cells_read(struct rt_emu *e, const struct emu_task *t,
		    struct emu_cell *cell, int64_t at, int64_t end);
void emu_cells_write(struct rt_emu *e, const struct emu_task *t,
		     struct emu_cell *cell, int64_t at, int64_t end);

#endif

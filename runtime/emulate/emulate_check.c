/*
 * Shared memory in checked code: for each four bytes who wrote them, who read
 * them, and which copies to them are under way. Two threads race for a byte if
 * one of them writes it and neither is ordered after the other's access
 * (emulate_past.c).
 */
#include "runtime/emulate/emulate_shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names in messages ---- */

struct thread_name {
	char text[64];
};

static struct thread_name
name_of(struct rt_emu *e, int who)
{
	int n = e->blocks[0].ntasks;
	struct thread_name x;

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

struct range {
	struct emu_cell *cell;
	int64_t at, end;	/* bytes of shared memory */
};

static struct range
range_of(struct rt_emu *e, const struct emu_block *b, int64_t at, int64_t n)
{
	return (struct range){ e->shadow->cells[b - e->blocks] + at / 4, at,
			       at + n };
}

/* The bytes of the range in its first cell; removes them from the range. */
static uint8_t
take_cell(struct range *r)
{
	int64_t from = r->at % 4, to = r->at - from + 4;

	to = to < r->end ? to : r->end;
	from = (1 << (to - (r->at - from))) - (1 << from);
	r->at = to;
	r->cell++;
	return (uint8_t)from;
}

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

static void
check_write(struct rt_emu *e, const struct emu_task *t, struct range r,
	    bool atomic)
{
	int i;

	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		int64_t at = r.at;
		uint8_t mask = take_cell(&r);

		if (c->filling & mask) {
			emu_fail(e, "writes to %lld of shared memory, which "
				 "a copy that %s began still fills",
				 (long long)at, name_of(e, c->writer).text);
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
				 (long long)at, name_of(e, i).text);
		}
		for (i = 0; i < 2; i++) {
			if (c->rmask[i] & mask &&
			    !emu_knows(e, t, c->reader[i], c->rclock[i])) {
				emu_fail(e, "writes to %lld of shared "
					 "memory, which %s read, with no "
					 "barrier in between", (long long)at,
					 name_of(e, c->reader[i]).text);
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

static void
mark_write(struct range r, int who, uint32_t clock, bool plain)
{
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;

		mark_cell_write(c, take_cell(&r), who, clock, plain);
	}
}

static void
mark_atomic(struct range r, int who, uint32_t clock)
{
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		uint8_t mask = take_cell(&r);

		c->atomic = (uint16_t)who;
		c->aclock = clock;
		c->amask |= mask;
		c->init |= mask;
	}
}

/* Whether the writer has fenced what a product or a store of a box reads. */
static inline bool
is_fenced(const struct rt_emu *e, const struct emu_cell *c, uint8_t mask)
{
	return !c->plain || !(c->wmask & mask) ||
		c->wclock <= e->shadow->knowers[c->writer].fenced;
}

static void
check_read(struct rt_emu *e, const struct emu_task *t, struct range r,
	   bool async)
{
	int who;

	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		int64_t at = r.at;
		uint8_t mask = take_cell(&r);

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
				 (long long)at, name_of(e, who).text);
		}
		if (async && !is_fenced(e, c, mask)) {
			emu_fail(e, "a product or a store of a box reads %lld "
				 "of shared memory, which %s wrote with no "
				 "fence_async after it", (long long)at,
				 name_of(e, c->writer).text);
		}
	}
}

/* The last two readers are remembered. */
static inline void
mark_cell_read(struct emu_cell *c, uint8_t mask, int who, uint32_t clock)
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

static void
mark_read(struct range r, int who, uint32_t clock)
{
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;

		mark_cell_read(c, take_cell(&r), who, clock);
	}
}

/* ---- plain accesses: most of all, and nearly all of them are legal ---- */

struct accessor {
	int self;
	uint32_t clock;
	const uint32_t *past;
};

static inline struct accessor
accessor_of(const struct rt_emu *e, const struct emu_task *t)
{
	int self = emu_index(e, t);
	const struct emu_knower *k = &e->shadow->knowers[self];

	return (struct accessor){ self, k->clock, k->past->at };
}

/* Whether the bytes of `mask` among `used` were used by nobody who is not
 * ordered before. */
static inline bool
is_ordered(const struct accessor *a, uint8_t mask, uint8_t used, int who,
	   uint32_t clock)
{
	return !(mask & used) || who == a->self || a->past[who] >= clock;
}

static inline bool
may_read(const struct accessor *a, const struct emu_cell *c, uint8_t mask)
{
	return !(c->filling & mask) && (c->init & mask) == mask &&
		is_ordered(a, mask, c->wmask, c->writer, c->wclock) &&
		is_ordered(a, mask, c->amask, c->atomic, c->aclock);
}

static inline bool
may_write(const struct accessor *a, const struct emu_cell *c, uint8_t mask)
{
	return !(c->filling & mask) && !c->reading &&
		is_ordered(a, mask, c->wmask, c->writer, c->wclock) &&
		is_ordered(a, mask, c->amask, c->atomic, c->aclock) &&
		is_ordered(a, mask, c->rmask[0], c->reader[0], c->rclock[0]) &&
		is_ordered(a, mask, c->rmask[1], c->reader[1], c->rclock[1]);
}

/*
 * What may not be done is reported by check_read and check_write.  A range
 * comes as numbers: as a structure it would go through memory, in parts that
 * are written apart and read together, for which a CPU waits.
 */
static void
plain_read(struct rt_emu *e, const struct emu_task *t, struct emu_cell *cell,
	   int64_t at, int64_t end)
{
	struct accessor a = accessor_of(e, t);
	struct range r = { cell, at, end };

	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		uint8_t mask = take_cell(&r);

		if (!may_read(&a, c, mask)) {
			check_read(e, t, (struct range){ cell, at, end },
				   false);
		}
		mark_cell_read(c, mask, a.self, a.clock);
	}
}

static void
plain_write(struct rt_emu *e, const struct emu_task *t, struct emu_cell *cell,
	    int64_t at, int64_t end)
{
	struct accessor a = accessor_of(e, t);
	struct range r = { cell, at, end };

	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		uint8_t mask = take_cell(&r);

		if (!may_write(&a, c, mask)) {
			check_write(e, t, (struct range){ cell, at, end },
				    false);
		}
		mark_cell_write(c, mask, a.self, a.clock, true);
	}
}

/* ---- global memory ---- */

static bool
is_allowed(struct rt_emu *e, const char *p, int64_t n)
{
	int from = 0, to = e->nallowed, i;

	while (from < to) {
		i = (from + to) / 2;
		if (p < e->allowed[i].p) {
			to = i;
		} else if (p >= e->allowed[i].p + e->allowed[i].bytes) {
			from = i + 1;
		} else {
			return p + n <= e->allowed[i].p +
				e->allowed[i].bytes;
		}
	}
	return n == 0;
}

/* Fails, naming the nearest memory that is allowed. */
static _Noreturn void
fail_outside(struct rt_emu *e, const char *p, int64_t n, bool write)
{
	int64_t best = INT64_MAX, far;
	int i, at = 0;

	for (i = 0; i < e->nallowed; i++) {
		const struct emu_range *r = &e->allowed[i];

		far = p < r->p ? r->p - p : p - (r->p + r->bytes);
		if (far < best) {
			best = far;
			at = i;
		}
	}
	emu_fail(e, "%s %lld bytes of global memory at %lld of an operand of "
		 "%lld bytes", write ? "writes" : "reads", (long long)n,
		 (long long)(p - e->allowed[at].p),
		 (long long)e->allowed[at].bytes);
}

void
emu_begin(void)
{
	emu_now->now->begun = true;
}

void
emu_check_begun(struct rt_emu *e, bool write)
{
	if (e->flags & RT_EMU_EARLY && !e->now->begun) {
		emu_fail(e, "%s global memory before launch_wait: the kernel "
			 "before it may not have ended",
			 write ? "writes" : "reads");
	}
}

void
emu_check_global(struct rt_emu *e, const void *p, int64_t n, bool write)
{
	if (e->shadow && e->nallowed && !is_allowed(e, p, n)) {
		fail_outside(e, p, n, write);
	}
}

/* ---- plain loads and stores ---- */

/* Sums and other registers that a wgmma under way uses. */
static void
touch_sums(struct rt_emu *e, const char *p, long n, bool write)
{
	struct emu_knower *k = emu_knower(e, e->now);
	int i;

	if (p + n <= k->sums_from || p >= k->sums_to) {
		return;
	}
	for (i = 0; i < k->nsums; i++) {
		if (p + n <= k->sums[i].p ||
		    p >= k->sums[i].p + k->sums[i].bytes) {
			continue;
		}
		if (k->sums[i].pending) {
			emu_fail(e, "%s registers of a %s has waited for",
				 write ? "writes" : "reads", k->sums[i].loaded
				 ? "tc_ld that no tc_wait"
				 : "wgmma that no wg_wait");
		}
		if (write) {
			e->now->wg_fenced = false;
		}
	}
}

/* Variables of the library itself: the current thread, and the functions to
 * call. */
static bool
is_own(const struct rt_emu *e, const char *p)
{
	const char *now = (const char *)e->now;
	const char *calls = (const char *)e->calls;
	/* the two variables are next to each other */
	const char *self = (const char *)e->self;

	return (p >= self - 16 && p < self + 16) ||
	       (p >= now && p < now + sizeof *e->now) ||
	       (p >= calls && p < calls + sizeof *e->calls) ||
	       (p >= e->args && p < e->args + e->args_capacity) ||
	       (p >= e->lib->from && p < e->lib->to);
}

/* Where a thread has its own variables, and what stands for registers. */
static inline bool
is_stack(const struct rt_emu *e, const char *p)
{
	return p >= e->stacks && p < e->stacks_end;
}

static void
touch(const void *address, long n, bool write, bool atomic)
{
	struct rt_emu *e = emu_now;
	const struct emu_block *b = e->now->block;
	const char *p = address;
	int64_t at = p - b->smem;
	struct range r;

	if (at >= 0 && at + n <= b->smem_bytes) {
		r = range_of(e, b, at, n);
		if (atomic) {
			check_write(e, e->now, r, true);
			mark_atomic(r, emu_index(e, e->now),
				    emu_knower(e, e->now)->clock);
		} else if (write) {
			plain_write(e, e->now, r.cell, r.at, r.end);
		} else {
			plain_read(e, e->now, r.cell, r.at, r.end);
		}
		return;
	}
	if (is_stack(e, p)) {
		touch_sums(e, p, n, write);
		return;
	}
	if (at > -EMU_APART && at < b->smem_bytes + EMU_APART) {
		emu_fail(e, "%s %ld bytes at %lld of shared memory, which "
			 "has %lld", write ? "writes" : "reads", n,
			 (long long)at, (long long)b->smem_bytes);
	}
	if (is_own(e, p)) {
		return;
	}
	emu_check_begun(e, write);
	if (e->nallowed && !is_allowed(e, p, n)) {
		fail_outside(e, p, n, write);
	}
}

/* Whether an access cannot be a mistake: most of all are of this kind. */
static inline bool
is_harmless(const void *p)
{
	const struct rt_emu *e = emu_now;

	return is_stack(e, p) && !e->shadow->has_sums;
}

void
emu_load(const void *p, long n)
{
	if (!is_harmless(p)) {
		touch(p, n, false, false);
	}
}

void
emu_store(const void *p, long n)
{
	if (!is_harmless(p)) {
		touch(p, n, true, false);
	}
}

void
emu_atomic(const void *p, long n)
{
	if (emu_now->shadow) {
		touch(p, n, true, true);
	}
}

/* ---- instructions that read and write shared memory ---- */

static struct range
range_at(struct rt_emu *e, unsigned at, int64_t n)
{
	return range_of(e, emu_block_of(e, at),
			(int64_t)(at & ((1u << EMU_CTA_SHIFT) - 1)) -
			EMU_SMEM_BASE, n);
}

static void
mark_filling(struct range r, int who, bool filling)
{
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		uint8_t mask = take_cell(&r);

		c->filling = filling ? c->filling | mask
			: c->filling & (uint8_t)~mask;
		c->writer = (uint16_t)who;
	}
}

void
emu_check_issue(struct rt_emu *e, unsigned at, int64_t n)
{
	struct range r;

	if (e->shadow) {
		r = range_at(e, at, n);
		check_write(e, e->now, r, false);
		mark_filling(r, emu_index(e, e->now), true);
	}
}

void
emu_check_landed(struct rt_emu *e, unsigned at, int64_t n)
{
	if (e->shadow) {
		mark_write(range_at(e, at, n), emu_index(e, e->now),
			   emu_knower(e, e->now)->clock, true);
	}
}

void
emu_check_read(struct rt_emu *e, unsigned at, int64_t n)
{
	struct range r;

	if (e->shadow) {
		r = range_at(e, at, n);
		plain_read(e, e->now, r.cell, r.at, r.end);
	}
}

/* 16 bytes of which `t` and its three neighbours have a word each. */
void
emu_check_row(struct rt_emu *e, struct emu_task *t, unsigned at, bool write)
{
	struct range r;
	int i;

	for (i = 0; e->shadow && i < 4; i++) {
		r = range_at(e, at + 4 * (unsigned)i, 4);
		(write ? plain_write : plain_read)(e, t + i, r.cell, r.at,
						   r.end);
	}
}

static void
mark_reading(struct range r, int n)
{
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;

		take_cell(&r);
		c->reading = (uint16_t)(c->reading + n);
	}
}

/* ---- wgmma ---- */

void
emu_check_wg(struct rt_emu *e, unsigned at)
{
	struct accessor a;
	struct range r;

	if (!e->shadow) {
		return;
	}
	a = accessor_of(e, e->now);
	r = range_at(e, at, 16);
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		struct range one = { c, r.at, r.end };
		uint8_t mask = take_cell(&r);

		if (!may_read(&a, c, mask) || !is_fenced(e, c, mask)) {
			check_read(e, e->now, one, true);
		}
		c->reading++;
	}
}

/* The product is done: a thread that has waited for it may overwrite its
 * operands. */
void
emu_check_wg_read(struct rt_emu *e, unsigned at)
{
	uint32_t clock;
	struct range r;
	int group;

	if (!e->shadow) {
		return;
	}
	group = emu_group(e, e->now->warp);
	clock = emu_past_now(e, group);
	r = range_at(e, at, 16);
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;

		c->reading--;
		mark_cell_read(c, take_cell(&r), group, clock);
	}
}

static void
add_sum(struct rt_emu *e, struct emu_knower *k, const void *p, int64_t bytes,
	bool pending, bool loaded)
{
	int i;

	for (i = 0; i < k->nsums && k->sums[i].p != p; i++) {
	}
	if (i == EMU_SUMS) {
		emu_fail(e, "%s on more than %d arrays", loaded ? "tc_ld"
			 : "wgmma", EMU_SUMS);
	}
	if (k->nsums == 0 || (const char *)p < k->sums_from) {
		k->sums_from = p;
	}
	if (k->nsums == 0 || (const char *)p + bytes > k->sums_to) {
		k->sums_to = (const char *)p + bytes;
	}
	e->shadow->has_sums = true;
	k->nsums += i == k->nsums;
	k->sums[i] = (struct emu_sum){ p, bytes, pending, loaded };
}

void
emu_check_sums(struct rt_emu *e, struct emu_warp *w, const struct emu_wg *x)
{
	int i;

	for (i = 0; e->shadow && i < 32; i++) {
		struct emu_knower *k = emu_knower(e, &w->lanes[i]);

		add_sum(e, k, x->d[i], (int64_t)x->n / 2 * 4, true, false);
		if (x->regs) {
			add_sum(e, k, w->lanes[i].ptr[1], 16, true, false);
		}
	}
}

void
emu_check_loaded(struct rt_emu *e, const struct emu_task *t, const void *p,
		 int64_t bytes, bool pending)
{
	if (e->shadow) {
		add_sum(e, emu_knower(e, t), p, bytes, pending, true);
	}
}

void
emu_check_wg_tick(struct rt_emu *e)
{
	if (e->shadow) {
		emu_past_tick(e, emu_group(e, e->now->warp));
	}
}

/* All lanes have waited: they may use the sums that no product under way adds
 * to. */
void
emu_check_wg_done(struct rt_emu *e, struct emu_warp *w)
{
	struct emu_shadow *s = e->shadow;
	int i, j, m, group;

	if (!s) {
		return;
	}
	group = emu_group(e, w);
	for (i = 0; i < 32; i++) {
		struct emu_knower *k = emu_knower(e, &w->lanes[i]);

		emu_past_learn(e, &w->lanes[i], group,
			       s->clocks[group - (s->n - EMU_OTHERS)]);
		for (j = 0; j < k->nsums; j++) {
			k->sums[j].pending = false;
			for (m = 0; m < w->nwg; m++) {
				k->sums[j].pending |= k->sums[j].p ==
					(const char *)w->wg[m].d[i] ||
					k->sums[j].p == w->wg[m].from[i];
			}
		}
	}
}

/* ---- boxes ---- */

void
emu_check_box(struct rt_emu *e, const struct emu_box *x,
	      enum emu_box_event what)
{
	struct range r;
	int64_t n = x->map.elem;
	int i, who;

	if (!e->shadow) {
		return;
	}
	for (i = 0; i < x->map.ndims; i++) {
		n *= x->map.box[i];
	}
	r = range_of(e, x->block, (int64_t)x->smem - EMU_SMEM_BASE, n);
	switch (what) {
	case EMU_BOX_LOAD:
		if (!x->mbar->fenced) {
			emu_fail(e, "the copying unit is given an mbarrier "
				 "with no fence_mbar_init after its "
				 "mbar_init");
		}
		check_write(e, e->now, r, false);
		mark_filling(r, emu_index(e, e->now), true);
		break;
	case EMU_BOX_LANDED:
		who = emu_copier(e, x->mbar);
		mark_write(r, who, emu_past_tick(e, who), false);
		break;
	case EMU_BOX_STORE:
		check_read(e, e->now, r, true);
		mark_reading(r, 1);
		break;
	case EMU_BOX_TAKEN:
		mark_reading(r, -1);
		mark_read(r, emu_index(e, x->task),
			  emu_knower(e, x->task)->clock);
		break;
	}
}

/* ---- fences, registers ---- */

void
emu_fence_async(void)
{
	struct rt_emu *e = emu_now;

	if (e->shadow) {
		emu_knower(e, e->now)->fenced = emu_knower(e, e->now)->clock;
		emu_knower(e, e->now)->clock++;
	}
}

void
emu_regs(int n, int more)
{
	struct rt_emu *e = emu_now;

	if (n < 24 || n > 256 || n % 8) {
		emu_fail(e, "%s(%d): 24 to 256 by eights are legal",
			 more ? "regs_more" : "regs_fewer", n);
	}
}

/* ---- the end of a block ---- */

void
emu_check_far(struct rt_emu *e, unsigned at)
{
	int block = (int)(emu_block_of(e, at) - e->blocks);

	if (e->shadow && block != e->now->seen.cluster_rank) {
		struct emu_knower *k = emu_knower(e, e->now);

		k->far[block] = k->clock + 1;
	}
}

/* Whether a thread of the block is ordered after `who` at that clock. */
static bool
block_knows(struct rt_emu *e, int block, int who, uint32_t clock)
{
	int n = e->blocks[0].ntasks, i;

	for (i = block * n; i < (block + 1) * n; i++) {
		if (e->shadow->knowers[i].past->at[who] >= clock) {
			return true;
		}
	}
	return false;
}

/* A block's shared memory is gone when its threads have ended, and another
 * block that still uses it then uses what may be a third one's. */
void
emu_check_end(struct rt_emu *e)
{
	int who, block;

	for (who = 0; e->shadow && who < e->shadow->nknowers; who++) {
		const struct emu_knower *k = &e->shadow->knowers[who];

		for (block = 0; block < e->nblocks; block++) {
			if (k->far[block] &&
			    !block_knows(e, block, who, k->far[block] - 1)) {
				emu_fail(e, "block %d of the cluster may have "
					 "ended when %s uses its shared "
					 "memory: no cluster_sync comes after",
					 block, name_of(e, who).text);
			}
		}
	}
}

/* ---- life cycle ---- */

enum rt_status
emu_check_open_launch(struct rt_emu *e, struct rt_error *err)
{
	struct emu_shadow *s;
	int64_t n;
	int i;

	if (!(e->flags & RT_EMU_CHECK)) {
		return RT_OK;
	}
	if (!e->shadow) {
		e->shadow = calloc(1, sizeof *e->shadow);
	}
	s = e->shadow;
	for (i = 0; s && i < e->nblocks; i++) {
		n = e->blocks[i].smem_bytes / 4 + 1;
		if (n > s->cell_capacity[i]) {
			free(s->cells[i]);
			s->cells[i] = malloc((size_t)n * sizeof **s->cells);
			s->cell_capacity[i] = s->cells[i] ? n : 0;
		}
		if (!s->cells[i]) {
			return rt_no_memory(err, NULL);
		}
	}
	return s ? emu_past_open(e, err) : rt_no_memory(err, NULL);
}

void
emu_check_start(struct rt_emu *e)
{
	int i;

	for (i = 0; e->shadow && i < e->nblocks; i++) {
		memset(e->shadow->cells[i], 0,
		       (size_t)(e->blocks[i].smem_bytes / 4 + 1) *
		       sizeof **e->shadow->cells);
	}
	if (e->shadow) {
		emu_past_start(e);
	}
}

void
emu_check_free(struct rt_emu *e)
{
	int i;

	if (!e->shadow) {
		return;
	}
	emu_past_free(e);
	for (i = 0; i < EMU_MAX_CLUSTER; i++) {
		free(e->shadow->cells[i]);
	}
	free(e->shadow);
	e->shadow = NULL;
}

/*
 * Instructions of checked code that read and write shared memory: copies of
 * a thread, products of a warpgroup (wgmma) and boxes of the copying unit.
 * Most go on after the instruction that begins them.
 */
#include "runtime/emulate/emulate_cells.h"

/* ---- copies and loads ---- */

static struct emu_cells
range_at(struct rt_emu *e, unsigned at, int64_t n)
{
	return emu_cells_of(e, emu_block_of(e, at),
			(int64_t)(at & ((1u << EMU_CTA_SHIFT) - 1)) -
			EMU_SMEM_BASE, n);
}

static void
mark_filling(struct emu_cells r, int who, bool filling)
{
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		uint8_t mask = emu_take_cell(&r);

		c->filling = filling ? c->filling | mask
			: c->filling & (uint8_t)~mask;
		c->writer = (uint16_t)who;
	}
}

void
emu_check_issue(struct rt_emu *e, unsigned at, int64_t n)
{
	struct emu_cells r;

	if (e->shadow) {
		r = range_at(e, at, n);
		emu_cells_check_write(e, e->now, r, false);
		mark_filling(r, emu_index(e, e->now), true);
	}
}

void
emu_check_landed(struct rt_emu *e, unsigned at, int64_t n)
{
	if (e->shadow) {
		emu_cells_written(range_at(e, at, n), emu_index(e, e->now),
				  emu_knower(e, e->now)->clock, true);
	}
}

void
emu_check_read(struct rt_emu *e, unsigned at, int64_t n)
{
	struct emu_cells r;

	if (e->shadow) {
		r = range_at(e, at, n);
		emu_cells_read(e, e->now, r.cell, r.at, r.end);
	}
}

/* 16 bytes of which `t` and its three neighbours have a word each. */
void
emu_check_row(struct rt_emu *e, struct emu_task *t, unsigned at, bool write)
{
	struct emu_cells r;
	int i;

	for (i = 0; e->shadow && i < 4; i++) {
		r = range_at(e, at + 4 * (unsigned)i, 4);
		(write ? emu_cells_write : emu_cells_read)(e, t + i, r.cell,
							   r.at, r.end);
	}
}

static void
mark_reading(struct emu_cells r, int n)
{
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;

		emu_take_cell(&r);
		c->reading = (uint16_t)(c->reading + n);
	}
}

/* ---- wgmma ---- */

void
emu_check_wg(struct rt_emu *e, unsigned at)
{
	struct emu_accessor a;
	struct emu_cells r;

	if (!e->shadow) {
		return;
	}
	a = emu_accessor_of(e, e->now);
	r = range_at(e, at, 16);
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		struct emu_cells one = { c, r.at, r.end };
		uint8_t mask = emu_take_cell(&r);

		if (!emu_may_read(&a, c, mask) ||
		    !emu_cell_fenced(e, e->now, c, mask)) {
			emu_cells_check_read(e, e->now, one, true);
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
	struct emu_cells r;
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
		emu_cell_was_read(c, emu_take_cell(&r), group, clock);
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

/*
 * What the copying unit writes over must be fenced, as what it reads must: it
 * is another proxy, which no barrier orders alone (PTX ISA, "Async proxy":
 * access to the same memory across proxies needs a fence).
 */
static void
check_fill(struct rt_emu *e, struct emu_cells r)
{
	while (r.at < r.end) {
		struct emu_cell *c = r.cell;
		int64_t at = r.at;

		if (!emu_cell_fenced(e, e->now, c, emu_take_cell(&r))) {
			emu_fail(e, "a box is loaded to %lld of shared memory, "
				 "where %s wrote with no fence_async after it",
				 (long long)at, emu_name_of(e, c->writer).text);
		}
	}
}

void
emu_check_box(struct rt_emu *e, const struct emu_box *x,
	      enum emu_box_event what)
{
	struct emu_cells r;
	int64_t n = x->map.elem;
	int i, who;

	if (!e->shadow) {
		return;
	}
	for (i = 0; i < x->map.ndims; i++) {
		n *= x->map.box[i];
	}
	r = emu_cells_of(e, x->block, (int64_t)x->smem - EMU_SMEM_BASE, n);
	switch (what) {
	case EMU_BOX_LOAD:
		if (!x->mbar->fenced) {
			emu_fail(e, "the copying unit is given an mbarrier "
				    "with no fence_mbar_init after its "
				    "mbar_init");
		}
		emu_cells_check_write(e, e->now, r, false);
		if (!x->is_word) {
			check_fill(e, r);
		}
		mark_filling(r, emu_index(e, e->now), true);
		break;
	case EMU_BOX_LANDED:
		who = emu_copier(e, x->mbar);
		emu_cells_written(r, who, emu_past_tick(e, who), false);
		break;
	case EMU_BOX_STORE:
		emu_cells_check_read(e, e->now, r, true);
		mark_reading(r, 1);
		break;
	case EMU_BOX_TAKEN:
		mark_reading(r, -1);
		emu_cells_were_read(r, emu_index(e, x->task),
				    emu_knower(e, x->task)->clock);
		break;
	}
}

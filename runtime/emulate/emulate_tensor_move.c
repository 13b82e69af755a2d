/*
 * Loads and stores of tensor memory: a warp accesses 16 of the 32 lanes that
 * are its own.  A load writes its registers, and a store tensor memory, when
 * the warp waits.
 *
 * PTX ISA, "TensorCore 5th Generation Family Instructions": the fragments of
 * .16x256b, where a thread has two adjacent columns of each eight, in rows lane
 * / 4 and 8 further on, and of .16x128b, where it has one of each four.
 */
#include "runtime/emulate/emulate_tensor.h"

#include <stdlib.h>
#include <string.h>

/* ---- who may access a column ---- */

/* Instructions of a warp, which all its lanes execute, are ordered by its
 * waits. */
static bool
is_own(struct rt_emu *e, int who)
{
	return who < e->shadow->nknowers &&
	       who / 32 == emu_index(e, e->now) / 32;
}

static void
check_writer(struct rt_emu *e, const struct emu_tensor_cell *c,
	     const char *what, int col)
{
	if (e->shadow && !(c->issuer == STORED && is_own(e, c->writer))) {
		emu_tensor_order(e, c->writer, c->wclock, what, col,
				 emu_tensor_wrote(c));
	}
}

static void
check_load(struct rt_emu *e, const struct emu_tensor_cell *c, int col)
{
	if (c->pending || c->storing) {
		emu_fail(e, "a tc_ld reads column %d of tensor memory, which "
			 "a %s: nothing has waited for it", col, c->pending
			 ? "product under way writes" : "tc_st still writes");
	}
	if (!c->written) {
		emu_fail(e, "a tc_ld reads column %d of tensor memory, which "
			 "nothing has written", col);
	}
	check_writer(e, c, "a tc_ld reads", col);
}

static void
check_store(struct rt_emu *e, const struct emu_tensor_cell *c, int col)
{
	int i;

	if (c->pending || c->reading) {
		emu_fail(e, "a tc_st writes column %d of tensor memory, which "
			 "a product under way %s", col, c->pending ? "writes"
			 : "reads");
	}
	if (c->loading) {
		emu_fail(e, "a tc_st writes column %d of tensor memory, which "
			 "a tc_ld still reads", col);
	}
	check_writer(e, c, "a tc_st writes", col);
	for (i = 0; e->shadow && i < c->readers; i++) {
		if (!is_own(e, c->reader[i])) {
			emu_tensor_order(e, c->reader[i], c->rclock[i],
					 "a tc_st writes", col,
					 "a warp has read");
		}
	}
}

/* Where all lanes of the warp say, and what it is called. */
static void
check_lanes(struct rt_emu *e, unsigned at, const char *what)
{
	const struct emu_warp *w = e->now->warp;
	int lane = (int)(at >> 16), own = e->now->seen.warp % 4 * UNIT, i;

	if (lane != own && lane != own + MOVED) {
		emu_fail(e, "a %s of lanes %d to %d of tensor memory: this "
			 "warp's are %d to %d", what, lane, lane + MOVED - 1,
			 own, own + UNIT - 1);
	}
	for (i = 0; i < 32; i++) {
		if (w->lanes[i].num[0] != at) {
			emu_fail(e, "%s: lanes of the warp name different "
				 "addresses", what);
		}
	}
}

/* ---- loads ---- */

/* Sums of 16 lanes and n columns. */
void
emu_tensor_load(float *d, unsigned at, int n)
{
	struct rt_emu *e = emu_now;
	struct emu_warp *w = e->now->warp;
	struct emu_tensor *x = emu_tensor_of(e);
	struct emu_tensor_load *l;
	int col, i, j;

	e->now->ptr[0] = d;
	e->now->num[0] = at;
	if (!emu_warp_meet(e, "tc_ld")) {
		return;
	}
	if (w->nloads == EMU_TENSOR_MOVES) {
		emu_fail(e, "more than %d tc_ld with no tc_wait",
			 EMU_TENSOR_MOVES);
	}
	check_lanes(e, at, "tc_ld");
	col = emu_tensor_columns(e, at, n, "a tc_ld");
	i = (int)(at >> 16) / MOVED;
	for (j = col; j < col + n; j++) {
		check_load(e, &x->cell[i][j], j);
		x->cell[i][j].loading++;
	}
	l = &w->loads[w->nloads++];
	l->lane = (int)(at >> 16);
	l->col = col;
	l->n = n;
	for (i = 0; i < 32; i++) {
		l->d[i] = w->lanes[i].ptr[0];
		emu_check_loaded(e, &w->lanes[i], l->d[i], n / 2 * 4, true);
	}
	emu_warp_go(e);
}

/*
 * Who loads and stores for a warp.  Each lane's part is its own, and only its
 * own fence orders it (PTX ISA, "tcgen05.fence": operations of the executing
 * thread); so where one lane arrives for a warp, the others must have come.
 * That is the first one in kernels, and the last one stands for the others.
 */
static const struct emu_task *
last_lane(const struct emu_warp *w)
{
	return &w->lanes[31];
}

static void
mark_readers(struct rt_emu *e, struct emu_tensor_cell *c,
	     const struct emu_task *t)
{
	int who, i;

	c->loading--;
	if (!e->shadow) {
		return;
	}
	who = emu_index(e, t);
	for (i = 0; i < c->readers && c->reader[i] != who; i++) {
	}
	if (i == READERS) {
		emu_fail(e, "more than %d warps read a column of tensor "
			 "memory between two products", READERS);
	}
	c->readers = (uint8_t)(i == c->readers ? i + 1 : c->readers);
	c->reader[i] = (uint16_t)who;
	c->rclock[i] = emu_knower(e, t)->clock;
}

/* Where register j of lane i is, counted from the first lane and column. */
static uint32_t *
cell_at(struct emu_tensor *x, int lane, int col, bool pairs, int i, int j)
{
	lane += i / 4;
	return pairs ? &x->at[lane + j % 2 * 8][col + j / 2 * 4 + i % 4]
		: &x->at[lane + j / 2 % 2 * 8][col + j / 4 * 8 + i % 4 * 2 +
					       j % 2];
}

static void
finish_load(struct rt_emu *e, struct emu_warp *w,
	    const struct emu_tensor_load *l)
{
	struct emu_tensor *x = w->lanes->block->tensor;
	int i, j;

	for (i = 0; i < 32; i++) {
		for (j = 0; j < l->n / 2; j++) {
			memcpy(l->d[i] + j, cell_at(x, l->lane, l->col, false,
						    i, j), 4);
		}
		emu_check_loaded(e, &w->lanes[i], l->d[i], l->n / 2 * 4,
				 false);
	}
	for (j = l->col; j < l->col + l->n; j++) {
		mark_readers(e, &x->cell[l->lane / MOVED][j], last_lane(w));
	}
}

void
emu_tensor_wait(void)
{
	struct rt_emu *e = emu_now;
	struct emu_warp *w = e->now->warp;
	int i;

	if (emu_warp_meet(e, "tc_wait")) {
		for (i = 0; i < w->nloads; i++) {
			finish_load(e, w, &w->loads[i]);
		}
		w->nloads = 0;
		emu_warp_go(e);
	}
}

/* ---- stores ---- */

/* A store under way: what lanes gave. */
struct emu_tensor_store {
	uint32_t from[32][UNIT / 2];
	int lane, col;
	bool pairs;
};

static struct emu_tensor_store *
new_store(struct rt_emu *e, struct emu_warp *w)
{
	if (w->nstores == EMU_TENSOR_MOVES) {
		emu_fail(e, "more than %d tc_st with no tc_wait_st",
			 EMU_TENSOR_MOVES);
	}
	if (!w->stores) {
		w->stores = malloc(EMU_TENSOR_MOVES * sizeof *w->stores);
	}
	if (!w->stores) {
		emu_fail(e, "out of memory");
	}
	return &w->stores[w->nstores++];
}

/* To 16 lanes and 32 columns; `pairs`: a thread has one of each four
 * columns. */
void
emu_tensor_store(unsigned at, const void *from, int pairs)
{
	struct rt_emu *e = emu_now;
	struct emu_warp *w = e->now->warp;
	struct emu_tensor *x = emu_tensor_of(e);
	struct emu_tensor_store *s;
	int i, j;

	memcpy(&e->now->ptr[0], &from, sizeof from);
	e->now->num[0] = at;
	if (!emu_warp_meet(e, "tc_st")) {
		return;
	}
	check_lanes(e, at, "tc_st");
	s = new_store(e, w);
	s->lane = (int)(at >> 16);
	s->col = emu_tensor_columns(e, at, UNIT, "a tc_st");
	s->pairs = pairs != 0;
	for (j = s->col; j < s->col + UNIT; j++) {
		check_store(e, &x->cell[s->lane / MOVED][j], j);
		x->cell[s->lane / MOVED][j].storing++;
	}
	for (i = 0; i < 32; i++) {
		memcpy(s->from[i], w->lanes[i].ptr[0], sizeof s->from[i]);
	}
	emu_warp_go(e);
}

static void
finish_store(struct rt_emu *e, struct emu_warp *w,
	     const struct emu_tensor_store *s)
{
	struct emu_tensor *x = w->lanes->block->tensor;
	struct emu_tensor_cell *c;
	int i, j;

	for (i = 0; i < 32; i++) {
		for (j = 0; j < UNIT / 2; j++) {
			*cell_at(x, s->lane, s->col, s->pairs, i, j) =
				s->from[i][j];
		}
	}
	for (j = s->col; j < s->col + UNIT; j++) {
		c = &x->cell[s->lane / MOVED][j];
		c->storing--;
		c->written = true;
		c->issuer = STORED;
		if (e->shadow) {
			c->writer = (uint16_t)emu_index(e, last_lane(w));
			c->wclock = emu_knower(e, last_lane(w))->clock;
		}
	}
}

void
emu_tensor_wait_store(void)
{
	struct rt_emu *e = emu_now;
	struct emu_warp *w = e->now->warp;
	int i;

	if (emu_warp_meet(e, "tc_wait_st")) {
		for (i = 0; i < w->nstores; i++) {
			finish_store(e, w, &w->stores[i]);
		}
		w->nstores = 0;
		emu_warp_go(e);
	}
}

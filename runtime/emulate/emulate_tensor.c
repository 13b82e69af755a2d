/*
 * Tensor memory and its products (tcgen05): 128 lanes of 512 columns of 32
 * bits beside the shared memory of a block.  One thread issues products, whose
 * operands lie in shared memory, or the left one in tensor memory; they are
 * computed, in their order, when the arrival at an mbarrier that a tc_commit
 * has ordered is delivered, which is when every thread waits.
 *
 * PTX ISA, "TensorCore 5th Generation Family Instructions": descriptors, the
 * layouts of sums and of left operands (128 rows: row i in lane i), and what
 * orders these instructions between threads.  emulate_tensor_move.c has loads
 * and stores.
 */
#include "runtime/emulate/emulate_tensor.h"

#include <stdlib.h>
#include <string.h>

/* A product, or a commit: an mbarrier of each block of the mask. */
struct emu_tensor_op {
	struct emu_task *task;
	bool commit, add;
	unsigned bar, mask;
	int col, n, kind;
	int left;	/* column of the left operand; -1: it is x */
	struct emu_operand x, y;
	/* of a commit, in checked code: what its thread knew */
	struct emu_past *past;
};

/* ---- allocation ---- */

struct emu_tensor *
emu_tensor_of(struct rt_emu *e)
{
	struct emu_block *b = e->now->block;

	if (!b->tensor) {
		b->tensor = calloc(1, sizeof *b->tensor);
	}
	if (!b->tensor) {
		emu_fail(e, "out of memory");
	}
	return b->tensor;
}

void
emu_tensor_start(struct emu_block *b)
{
	if (b->tensor) {
		memset(b->tensor->owner, 0, sizeof b->tensor->owner);
		b->tensor->relinquished = false;
	}
}

void
emu_tensor_stop(struct rt_emu *e, struct emu_block *b)
{
	while (b->nproducts > 0) {
		b->nproducts--;
		if (b->products[b->nproducts].past) {
			emu_past_drop(e, &b->products[b->nproducts].past);
		}
	}
}

void
emu_tensor_free(struct emu_block *b)
{
	free(b->tensor);
	free(b->products);
}

static void
check_columns(struct rt_emu *e, int n)
{
	if (n < UNIT || n > COLS || (n & (n - 1))) {
		emu_fail(e, "%d columns of tensor memory: powers of two from "
			 "%d to %d are legal", n, UNIT, COLS);
	}
}

static void
clear_columns(struct rt_emu *e, struct emu_tensor *x, int col, int n)
{
	int i, j;

	for (i = 0; i < LANES; i++) {
		memset(&x->at[i][col], 0xff, (size_t)n * sizeof x->at[i][0]);
	}
	for (i = 0; i < GROUPS; i++) {
		for (j = col; j < col + n; j++) {
			x->cell[i][j] = (struct emu_tensor_cell){
				.issuer = ALLOCATED };
			if (e->shadow) {
				x->cell[i][j].writer =
					(uint16_t)emu_index(e, e->now);
				x->cell[i][j].wclock =
					emu_knower(e, e->now)->clock;
			}
		}
	}
}

/* The last columns that are free, so that no kernel can count on column 0. */
static int
find_columns(const struct emu_tensor *x, int n)
{
	int col, i;

	for (col = COLS - n; col >= 0; col -= UNIT) {
		for (i = 0; i < n / UNIT && !x->owner[col / UNIT + i]; i++) {
		}
		if (i == n / UNIT) {
			return col;
		}
	}
	return -1;
}

void
emu_tensor_alloc(unsigned at, int n)
{
	struct rt_emu *e = emu_now;
	struct emu_tensor *x = emu_tensor_of(e);
	int col, i;

	if (!emu_warp_meet(e, "tc_alloc")) {
		return;
	}
	check_columns(e, n);
	if (e->flags & RT_EMU_EARLY && e->now->begun) {
		emu_fail(e, "tc_alloc after launch_wait: blocks of the next "
			 "kernel may have the columns, and wait for the end of "
			 "this one");
	}
	if (x->relinquished) {
		emu_fail(e, "tc_alloc after tc_relinquish");
	}
	col = find_columns(x, n);
	if (col < 0) {
		emu_fail(e, "tc_alloc of %d columns of tensor memory, which "
			 "has not so many free: it waits for ever", n);
	}
	for (i = 0; i < n / UNIT; i++) {
		x->owner[col / UNIT + i] = 1 + col / UNIT;
	}
	clear_columns(e, x, col, n);
	emu_check_issue(e, at, 4);
	memcpy(emu_smem(e, at, 4, 4, "tc_alloc"), &(uint32_t){ (uint32_t)col },
	       4);
	emu_check_landed(e, at, 4);
	emu_warp_go(e);
}

void
emu_tensor_relinquish(void)
{
	struct rt_emu *e = emu_now;

	if (emu_warp_meet(e, "tc_relinquish")) {
		emu_tensor_of(e)->relinquished = true;
		emu_warp_go(e);
	}
}

/* ---- who may access a column ---- */

int
emu_tensor_columns(struct rt_emu *e, unsigned at, int n, const char *what)
{
	const struct emu_tensor *x = emu_tensor_of(e);
	int col = (int)(at & 0xffff), i;

	for (i = col / UNIT; i <= (col + n - 1) / UNIT; i++) {
		if (col + n > COLS || !x->owner[i]) {
			emu_fail(e, "%s of columns %d to %d of tensor memory, "
				 "which tc_alloc has not allocated", what, col,
				 col + n - 1);
		}
	}
	return col;
}

/* Whether the thread's last tc_fence_after came after it learnt of what `who`
 * did at that clock. */
static bool
knows_fenced(struct rt_emu *e, const struct emu_task *t, int who,
	     uint32_t clock)
{
	const struct emu_past *p = emu_knower(e, t)->tensor_past;

	return who == emu_index(e, t) || (p && p->at[who] >= clock);
}

void
emu_tensor_order(struct rt_emu *e, int who, uint32_t clock, const char *what,
	    int col, const char *did)
{
	const struct emu_task *t = e->now;

	if (!emu_knows(e, t, who, clock)) {
		emu_fail(e, "%s column %d of tensor memory, which %s: nothing "
			 "that it has waited for comes after that", what, col,
			 did);
	}
	if (!knows_fenced(e, t, who, clock)) {
		emu_fail(e, "%s column %d of tensor memory, which %s, with no "
			 "tc_fence_after after the wait for it", what, col,
			 did);
	}
	if (who < e->shadow->nknowers && who != emu_index(e, t) &&
	    !emu_knows_fence(e, t, who, &e->shadow->knowers[who].tensor_fenced,
			     clock)) {
		emu_fail(e, "%s column %d of tensor memory, which %s, with no "
			 "tc_fence_before after it", what, col, did);
	}
}

void
emu_tensor_unread(struct rt_emu *e, const struct emu_tensor_cell *c,
		  const char *what, int col)
{
	int i;

	if (c->loading || c->storing) {
		emu_fail(e, "%s column %d of tensor memory, which a tc_%s",
			 what, col, c->loading ? "ld still reads"
			 : "st still writes");
	}
	for (i = 0; e->shadow && i < c->readers; i++) {
		emu_tensor_order(e, c->reader[i], c->rclock[i], what, col,
				 "a warp has read");
	}
}

const char *
emu_tensor_wrote(const struct emu_tensor_cell *c)
{
	return c->issuer == ALLOCATED ? "tc_alloc gave"
		: c->issuer == STORED ? "a tc_st wrote" : "a product wrote";
}

static void
check_product(struct rt_emu *e, const struct emu_tensor_cell *c, int col,
	      bool add)
{
	int self = e->now->seen.tid;

	emu_tensor_unread(e, c, "a product writes", col);
	if (c->pending && c->issuer != self) {
		emu_fail(e, "a product writes column %d of tensor memory, "
			 "as does one under way that thread %d issued", col,
			 c->issuer);
	}
	if (add && !c->written && !c->pending) {
		emu_fail(e, "a product adds to column %d of tensor memory, "
			 "which nothing has written", col);
	}
	/* products of one thread are executed in their order */
	if (e->shadow && c->issuer != self && !c->pending) {
		emu_tensor_order(e, c->writer, c->wclock, "a product writes",
				 col, c->issuer < 0 ? emu_tensor_wrote(c)
				 : "another thread's product wrote");
	}
}

static void
check_idle(struct rt_emu *e, const struct emu_tensor_cell *c, const char *what,
	   int col)
{
	if (c->pending || c->reading) {
		emu_fail(e, "%s column %d of tensor memory, which a product "
			 "under way %s", what, col, c->pending ? "writes"
			 : "reads");
	}
}

/* A column of a left operand. */
static void
check_left(struct rt_emu *e, const struct emu_tensor_cell *c, int col)
{
	if (c->storing) {
		emu_fail(e, "a product reads column %d of tensor memory, which "
			 "a tc_st still writes", col);
	}
	if (!c->written && !c->pending) {
		emu_fail(e, "a product reads column %d of tensor memory, which "
			 "nothing has written", col);
	}
	if (e->shadow && c->issuer != e->now->seen.tid) {
		emu_tensor_order(e, c->writer, c->wclock, "a product reads",
				 col, emu_tensor_wrote(c));
	}
}

void
emu_tensor_dealloc(unsigned at, int n)
{
	struct rt_emu *e = emu_now;
	struct emu_tensor *x = emu_tensor_of(e);
	int col, i, j;

	if (!emu_warp_meet(e, "tc_dealloc")) {
		return;
	}
	check_columns(e, n);
	col = emu_tensor_columns(e, at, n, "tc_dealloc");
	for (i = 0; i < n / UNIT; i++) {
		if (x->owner[col / UNIT + i] != 1 + col / UNIT) {
			emu_fail(e, "tc_dealloc of what is not one "
				 "allocation");
		}
		x->owner[col / UNIT + i] = 0;
	}
	if (col + n < COLS && x->owner[(col + n) / UNIT] == 1 + col / UNIT) {
		emu_fail(e, "tc_dealloc of a part of an allocation");
	}
	for (i = 0; i < GROUPS; i++) {
		for (j = col; j < col + n; j++) {
			emu_tensor_unread(e, &x->cell[i][j], "tc_dealloc of",
					  j);
			check_idle(e, &x->cell[i][j], "tc_dealloc of", j);
		}
	}
	emu_warp_go(e);
}

/* ---- fences ---- */

void
emu_tensor_fence(int after)
{
	struct rt_emu *e = emu_now;

	if (e->shadow && after) {
		emu_past_fence(e, e->now);
	} else if (e->shadow) {
		emu_past_fenced(e, e->now,
				&emu_knower(e, e->now)->tensor_fenced);
	}
}

/* ---- products ---- */

static struct emu_tensor_op *
push_op(struct rt_emu *e)
{
	struct emu_block *b = e->now->block;
	struct emu_tensor_op *more;

	if (b->nproducts == b->product_capacity) {
		b->product_capacity = 2 * b->product_capacity + 16;
		more = realloc(b->products, (size_t)b->product_capacity *
			       sizeof *more);
		if (!more) {
			emu_fail(e, "out of memory");
		}
		b->products = more;
	}
	more = &b->products[b->nproducts++];
	*more = (struct emu_tensor_op){ .task = e->now };
	return more;
}

static struct emu_operand
decode_operand(struct rt_emu *e, uint64_t desc, int kind, int trans)
{
	static const int swizzles[8] = { 16, 0, 128, 0, 64, 0, 32, 0 };
	struct emu_operand o;

	o.at = (unsigned)(desc & 0x3fff) << 4;
	o.lead = (int)(desc >> 16 & 0x3fff) << 4;
	o.stride = (int)(desc >> 32 & 0x3fff) << 4;
	o.swizzle = swizzles[desc >> 61];
	o.trans = trans;
	o.elem = emu_kind_bytes(kind);
	o.what = "tcgen05";
	if ((desc >> 46 & 7) != 1 || !o.swizzle || desc >> 49 & 0xfff) {
		emu_fail(e, "tcgen05: %#llx is no descriptor of an operand",
			 (unsigned long long)desc);
	}
	if (trans && o.elem != 2) {
		emu_fail(e, "tcgen05: only elements of 16 bits may be turned");
	}
	return o;
}

/* The type of both operands; -1: none that there is.  `what` is the kind of the
 * instruction. */
static int
kind_of(unsigned form, int what)
{
	unsigned type = form >> 7 & 7;

	if (type != (form >> 10 & 7)) {
		return -1;
	}
	switch (what) {
	case EMU_TC_F16:
		return type == 0 ? EMU_F16 : type == 1 ? EMU_BF16 : -1;
	case EMU_TC_TF32:
		return type == 2 ? EMU_TF32 : -1;
	default:
		return type == 0 ? EMU_E4M3 : type == 1 ? EMU_E5M2 : -1;
	}
}

static void
each_operand(struct rt_emu *e, const struct emu_tensor_op *p,
	     void (*f)(struct rt_emu *, unsigned at))
{
	int depth = emu_kind_depth(p->kind);

	if (!e->shadow) {
		return;
	}
	if (p->left < 0) {
		emu_operand_each(e, &p->x, 0, LANES, depth, f);
	}
	emu_operand_each(e, &p->y, 0, p->n, depth, f);
}

static struct emu_tensor_op *
push_product(struct rt_emu *e, unsigned d, unsigned long long b, unsigned form,
	     int what, int add)
{
	struct emu_tensor_op *p = push_op(e);

	p->n = (int)(form >> 17 & 63) * 8;
	p->kind = kind_of(form, what);
	p->add = add != 0;
	if (p->kind < 0 || (form >> 24 & 31) != LANES / 16 || p->n % 16 ||
	    p->n < 16 || p->n > MAX_N || (form >> 4 & 3) != 1 ||
	    form & 0xe080600fu || d >> 16) {
		emu_fail(e, "tcgen05: %#x is no product of 128 rows by 16 to "
			 "%d columns in f32", form, MAX_N);
	}
	p->left = -1;
	p->y = decode_operand(e, b, p->kind, form >> 16 & 1);
	p->col = emu_tensor_columns(e, d, p->n, "a product");
	return p;
}

/* Its sums are under way. */
static void
begin_product(struct rt_emu *e, const struct emu_tensor_op *p)
{
	struct emu_tensor *x = emu_tensor_of(e);
	int i, j;

	for (i = 0; i < GROUPS; i++) {
		for (j = p->col; j < p->col + p->n; j++) {
			check_product(e, &x->cell[i][j], j, p->add);
			x->cell[i][j].pending++;
			x->cell[i][j].issuer = e->now->seen.tid;
			x->cell[i][j].readers = 0;
		}
	}
	each_operand(e, p, emu_check_wg);
}

void
emu_tensor_mma(unsigned d, unsigned long long a, unsigned long long b,
	       unsigned form, int what, int add)
{
	struct rt_emu *e = emu_now;
	struct emu_tensor_op *p = push_product(e, d, b, form, what, add);

	p->x = decode_operand(e, a, p->kind, form >> 15 & 1);
	begin_product(e, p);
}

/* The left operand is in tensor memory: row i in lane i, 32 bits of k in a
 * column. */
void
emu_tensor_mma_left(unsigned d, unsigned a, unsigned long long b,
		    unsigned form, int what, int add)
{
	struct rt_emu *e = emu_now;
	struct emu_tensor *x = emu_tensor_of(e);
	struct emu_tensor_op *p = push_product(e, d, b, form, what, add);
	int i, j;

	if (form >> 15 & 1 || a >> 16) {
		emu_fail(e, "tcgen05: a left operand at %#x of tensor memory "
			 "begins in lane 0, and is not turned", a);
	}
	p->left = emu_tensor_columns(e, a, LEFT, "a product's left operand");
	for (i = 0; i < GROUPS; i++) {
		for (j = p->left; j < p->left + LEFT; j++) {
			check_left(e, &x->cell[i][j], j);
			x->cell[i][j].reading++;
		}
	}
	begin_product(e, p);
}

/* The left operand, of which a column has 32 bits in each lane. */
static void
fetch_left(struct rt_emu *e, const struct emu_tensor_op *p)
{
	struct emu_tensor *x = p->task->block->tensor;
	int bytes = emu_kind_bytes(p->kind), m, k;

	if (p->left < 0) {
		emu_operand_fetch(e, &p->x, p->kind, LANES, MAX_K / bytes,
				  &x->a[0][0], MAX_K, 1);
		return;
	}
	for (m = 0; m < LANES; m++) {
		for (k = 0; k < MAX_K / bytes; k++) {
			x->a[m][k] = emu_element(p->kind,
				(const char *)&x->at[m][p->left] + k * bytes);
		}
	}
	for (m = 0; m < GROUPS; m++) {
		for (k = p->left; k < p->left + LEFT; k++) {
			x->cell[m][k].reading--;
		}
	}
}

static void
execute(struct rt_emu *e, const struct emu_tensor_op *p)
{
	struct emu_tensor *x = p->task->block->tensor;
	int depth = emu_kind_depth(p->kind), m, n;
	float f;

	fetch_left(e, p);
	emu_operand_fetch(e, &p->y, p->kind, p->n, depth, &x->b[0][0], 1,
			  MAX_N);
	for (m = 0; m < LANES; m++) {
		emu_row(x->a[m], &x->b[0][0], MAX_N, depth, p->n, x->c);
		for (n = 0; n < p->n; n++) {
			memcpy(&f, &x->at[m][p->col + n], sizeof f);
			f = p->add ? f + x->c[n] : x->c[n];
			memcpy(&x->at[m][p->col + n], &f, sizeof f);
		}
	}
}

static void
mark_written(struct rt_emu *e, const struct emu_tensor_op *p)
{
	struct emu_tensor *x = p->task->block->tensor;
	int i, j, group;

	for (i = 0; i < GROUPS; i++) {
		for (j = p->col; j < p->col + p->n; j++) {
			struct emu_tensor_cell *c = &x->cell[i][j];

			c->pending--;
			c->written = true;
			if (e->shadow) {
				group = emu_group(e, p->task->warp);
				c->writer = (uint16_t)group;
				c->wclock = emu_past_now(e, group);
			}
		}
	}
}

/* ---- commits ---- */

void
emu_tensor_commit(unsigned bar, unsigned mask)
{
	struct rt_emu *e = emu_now;
	struct emu_tensor_op *p = push_op(e);
	int i;

	p->commit = true;
	p->bar = bar;
	p->mask = mask ? mask : 1u << e->now->seen.cluster_rank;
	if (p->mask >> e->nblocks) {
		emu_fail(e, "a tc_commit for blocks %#x of a cluster of %d",
			 mask, e->nblocks);
	}
	p->past = e->shadow ? emu_past_hold(e, e->now) : NULL;
	for (i = 0; i < e->nblocks; i++) {
		if (p->mask >> i & 1) {
			emu_mbar_at(e, NULL, emu_map_cta(bar, i));
			emu_check_far(e, emu_map_cta(bar, i));
		}
	}
	if (e->seed && emu_random(e) % 3 == 0) {
		emu_tensor_deliver(e);
	}
}

/* The threads that wait there know what the thread knew that issued the
 * products, and that these are done. */
static void
arrive(struct rt_emu *e, struct emu_tensor_op *p)
{
	struct emu_mbar *m;
	int i;

	for (i = 0; i < e->nblocks; i++) {
		if (p->mask >> i & 1) {
			m = emu_mbar_at(e, NULL, emu_map_cta(p->bar, i));
			if (p->past) {
				emu_past_products(e, m, p->past, emu_group(e,
					p->task->warp));
			}
			emu_mbar_products(e, m, &e->blocks[i] !=
					  p->task->block);
		}
	}
	if (p->past) {
		emu_past_drop(e, &p->past);
	}
}

static void
complete_op(struct rt_emu *e, struct emu_tensor_op *p)
{
	if (!p->commit) {
		execute(e, p);
		each_operand(e, p, emu_check_wg_read);
		mark_written(e, p);
		return;
	}
	arrive(e, p);
}

/* Completes the first n of a block. */
static void
complete(struct rt_emu *e, struct emu_block *b, int n)
{
	struct emu_task *now = e->now;
	int i;

	/* in the name of the thread that issued them */
	e->now = b->products[0].task;
	emu_check_wg_tick(e);
	for (i = 0; i < n; i++) {
		e->now = b->products[i].task;
		complete_op(e, &b->products[i]);
	}
	e->now = now;
	b->nproducts -= n;
	memmove(b->products, b->products + n,
		(size_t)b->nproducts * sizeof *b->products);
}

/* Up to and with the first commit of a block that has one. */
bool
emu_tensor_deliver(struct rt_emu *e)
{
	int first = e->seed ? (int)(emu_random(e) % (uint64_t)e->nblocks) : 0;
	int i, k;

	for (i = 0; i < e->nblocks; i++) {
		struct emu_block *b = &e->blocks[(first + i) % e->nblocks];

		for (k = 0; k < b->nproducts && !b->products[k].commit; k++) {
		}
		if (k < b->nproducts) {
			complete(e, b, k + 1);
			return true;
		}
	}
	return false;
}

/* ---- the end ---- */

/* Products of another block arrive when they are done, which may be after that
 * block's threads have gone on: only a wait for it tells that they have. */
static void
check_arrivals(struct rt_emu *e, const struct emu_block *b)
{
	int i;

	for (i = 0; i < b->nmbars; i++) {
		if (b->mbars[i].far > b->mbars[i].waited) {
			emu_fail(e, "its block ends and has not waited at the "
				 "mbarrier at %u, where another block's "
				 "products arrive: that may be later",
				 b->mbars[i].at - EMU_SMEM_BASE);
		}
	}
}

void
emu_tensor_end(struct rt_emu *e, struct emu_task *t)
{
	const struct emu_block *b = t->block;
	int i;

	if (t->warp->nloads || t->warp->nstores) {
		emu_fail(e, "it ends with a tc_%s has waited for",
			 t->warp->nloads ? "ld that no tc_wait"
			 : "st that no tc_wait_st");
	}
	if (b->left > 1) {
		return;
	}
	if (b->nproducts) {
		emu_fail(e, "its block ends with products of tcgen05 under "
			 "way, or arrivals that a tc_commit ordered");
	}
	check_arrivals(e, b);
	for (i = 0; b->tensor && i < COLS / UNIT; i++) {
		if (b->tensor->owner[i]) {
			emu_fail(e, "its block ends with tensor memory that "
				 "no tc_dealloc has freed");
		}
	}
}

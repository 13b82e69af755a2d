/*
 * Matrix products of a warpgroup. Each of its four warps has 16 of the 64 rows,
 * reads those and all columns, and may run ahead of the others; so each of the
 * four issues its part of a product. The product is computed when the first of
 * them waits for it: until then its operands in shared memory must not change,
 * and its sums are undefined.
 *
 * PTX ISA, "Asynchronous warpgroup-level matrix": descriptors, and the
 * canonical layouts of operands in shared memory.
 */
#include "runtime/emulate/emulate_inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- operands in shared memory ---- */

static struct emu_operand
decode_descriptor(struct rt_emu *e, uint64_t desc, int kind, int trans)
{
	static const int swizzles[4] = { 16, 128, 64, 32 };
	struct emu_operand o;

	o.at = (unsigned)(desc & 0x3fff) << 4;
	o.lead = (int)(desc >> 16 & 0x3fff) << 4;
	o.stride = (int)(desc >> 32 & 0x3fff) << 4;
	o.swizzle = swizzles[desc >> 62];
	o.trans = trans;
	o.elem = emu_kind_bytes(kind);
	o.what = "wgmma";
	if (desc >> 49 & 7) {
		emu_fail(e, "wgmma: a descriptor with a base offset");
	}
	if (trans && o.elem != 2) {
		emu_fail(e, "wgmma: only elements of 16 bits may be turned");
	}
	return o;
}

/* ---- a product ---- */

enum {
	MAX_K = 32, MAX_N = 256
};

/* Registers of the four lanes of a row, laid out as in mma. */
static void
fetch_regs(const struct emu_wg *x, float a[16][MAX_K])
{
	int lane, i, j, row, k;
	unsigned h;

	for (lane = 0; lane < 32; lane++) {
		for (i = 0; i < 4; i++) {
			row = lane / 4 + i % 2 * 8;
			k = lane % 4 * 2 + i / 2 * 8;
			for (j = 0; j < 2; j++) {
				h = x->ra[lane][i] >> 16 * j & 0xffff;
				a[row][k + j] = x->kind == EMU_BF16
					? emu_bf16(h) : emu_f16(h);
			}
		}
	}
}

/* The product of a warpgroup: x[q] is the part of its warp q. */
static void
execute_product(struct rt_emu *e, struct emu_wg *const x[4])
{
	float a[64][MAX_K], b[MAX_K][MAX_N], c[MAX_N];
	int depth = emu_kind_depth(x[0]->kind), m, n, t;
	bool add = x[0]->flags & EMU_ADD;
	struct emu_operand o;
	int kind = x[0]->kind, i;
	float *d, *to;

	o = decode_descriptor(e, x[0]->b, x[0]->kind,
			      x[0]->flags & EMU_TRANS_B);
	emu_operand_fetch(e, &o, x[0]->kind, x[0]->n, depth, &b[0][0], 1,
			  MAX_N);
	if (x[0]->regs) {
		for (m = 0; m < 4; m++) {
			fetch_regs(x[m], a + 16 * m);
		}
	} else {
		o = decode_descriptor(e, x[0]->a, x[0]->kind,
				      x[0]->flags & EMU_TRANS_A);
		emu_operand_fetch(e, &o, x[0]->kind, 64, depth, &a[0][0],
				  MAX_K, 1);
	}
	for (m = 0; m < 64; m++) {
		emu_row(a[m], &b[0][0], MAX_N, depth, x[0]->n, c);
		for (t = 0; t < 4; t++) {
			d = x[m / 16]->d[m % 8 * 4 + t] + m % 16 / 8 * 2;
			for (n = 0; n < x[0]->n / 4; n++) {
				i = n / 2 * 8 + 2 * t + n % 2;
				to = &d[n / 2 * 4 + n % 2];
				*to = emu_added(kind, a[m], &b[0][i], MAX_N,
						depth, c[i], add ? *to : 0);
			}
		}
	}
}

/* ---- the queue ---- */

static struct emu_wg *
push_product(struct rt_emu *e, struct emu_warp *w)
{
	struct emu_wg *more;

	if (w->nwg == w->wg_capacity) {
		w->wg_capacity = w->wg_capacity ? 2 * w->wg_capacity : 8;
		more = realloc(w->wg, (size_t)w->wg_capacity * sizeof *more);
		if (!more) {
			emu_fail(e, "out of memory");
		}
		w->wg = more;
	}
	return &w->wg[w->nwg++];
}

static void
each_operand(struct rt_emu *e, const struct emu_warp *w,
	     const struct emu_wg *x, void (*f)(struct rt_emu *, unsigned at))
{
	struct emu_operand o;

	o = decode_descriptor(e, x->b, x->kind, x->flags & EMU_TRANS_B);
	emu_operand_each(e, &o, 0, x->n, emu_kind_depth(x->kind), f);
	if (!x->regs) {
		o = decode_descriptor(e, x->a, x->kind, x->flags & EMU_TRANS_A);
		emu_operand_each(e, &o, w->lanes->seen.warp % 4 * 16, 16,
			   emu_kind_depth(x->kind), f);
	}
}

/* What all lanes agree on, and each lane's operands. */
static void
issue(struct rt_emu *e, struct emu_warp *w)
{
	struct emu_task *l = w->lanes, *t;
	struct emu_wg *x = push_product(e, w);
	int i;

	*x = (struct emu_wg){ .a = l->wide[0], .b = l->wide[1],
			      .n = (int)l->num[0], .kind = (int)l->num[1],
			      .flags = (int)l->num[2],
			      .regs = l->ptr[1] != NULL,
			      .group = w->wg_group };
	for (i = 0; i < 32; i++) {
		if (l[i].wide[0] != x->a || l[i].wide[1] != x->b ||
		    (int)l[i].num[2] != x->flags) {
			emu_fail(e, "wgmma: lanes of the warp name different "
				 "operands");
		}
		if (!l[i].wg_fenced) {
			emu_fail(e, "wgmma with no wg_fence after what "
				 "wrote its registers");
		}
		x->d[i] = l[i].ptr[0];
		x->from[i] = l[i].ptr[1];
		if (x->regs) {
			memcpy(x->ra[i], l[i].ptr[1], sizeof x->ra[i]);
		}
	}
	if (e->shadow) {
		each_operand(e, w, x, emu_check_wg);
		emu_check_sums(e, w, x);
	}
	w -= l->seen.warp % 4;
	for (i = 0; i < 4; i++) {
		t = w[i].wg_waiter;
		w[i].wg_waiter = NULL;
		if (t) {
			emu_wake(e, t);
		}
	}
}

void
emu_wg_mma(float *d, const unsigned *ra, unsigned long long a,
	   unsigned long long b, int n, int kind, int flags)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;

	if (t->seen.warp / 4 * 4 + 4 > t->seen.threads / 32) {
		emu_fail(e, "wgmma outside of a whole warpgroup");
	}
	t->ptr[0] = d;
	t->ptr[1] = (void *)(uintptr_t)ra;
	t->wide[0] = a;
	t->wide[1] = b;
	t->num[0] = (unsigned)n;
	t->num[1] = (unsigned)kind;
	t->num[2] = (unsigned)flags;
	if (emu_warp_meet(e, "wgmma")) {
		issue(e, t->warp);
		emu_warp_go(e);
	}
}

void
emu_wg_fence(void)
{
	struct rt_emu *e = emu_now;

	e->now->wg_fenced = true;
	if (emu_warp_meet(e, "wg_fence")) {
		emu_warp_go(e);
	}
}

void
emu_wg_commit(void)
{
	struct rt_emu *e = emu_now;

	if (emu_warp_meet(e, "wg_commit")) {
		e->now->warp->wg_group++;
		emu_warp_go(e);
	}
}

/* Computes product number `seq` of the warpgroup, once all four warps have
 * issued it. */
static void
run_product(struct rt_emu *e, struct emu_warp *w, int64_t seq)
{
	struct emu_warp *first = w - w->lanes->seen.warp % 4;
	struct emu_wg *x[4];
	int q;

	for (q = 0; q < 4; q++) {
		while (first[q].wg_base + first[q].nwg <= seq) {
			w->wg_waiter = e->now;
			emu_wait(e, "wgmma by the other warps of its "
				 "warpgroup", 0, 0);
			if (w->wg[seq - w->wg_base].done) {
				return;
			}
		}
	}
	for (q = 0; q < 4; q++) {
		x[q] = &first[q].wg[seq - first[q].wg_base];
		if (x[q]->b != x[0]->b || x[q]->a != x[0]->a ||
		    x[q]->n != x[0]->n || x[q]->flags != x[0]->flags) {
			emu_fail(e, "wgmma: the warps of a warpgroup name "
				 "different operands");
		}
	}
	execute_product(e, x);
	emu_check_wg_tick(e);
	for (q = 0; q < 4; q++) {
		x[q]->done = true;
		if (e->shadow) {
			each_operand(e, &first[q], x[q], emu_check_wg_read);
		}
	}
}

/*
 * Waits for all but the n newest groups.  The first warp to wait computes the
 * product for all four: memory that one thread frees after its wait is not read
 * by the others any more.
 */
void
emu_wg_wait(int n)
{
	struct rt_emu *e = emu_now;
	struct emu_warp *w = e->now->warp;
	int k = 0;

	if (!emu_warp_meet(e, "wg_wait")) {
		return;
	}
	while (k < w->nwg && w->wg[k].group < w->wg_group - n) {
		if (!w->wg[k].done) {
			run_product(e, w, w->wg_base + k);
		}
		k++;
	}
	w->nwg -= k;
	w->wg_base += k;
	memmove(w->wg, w->wg + k, (size_t)w->nwg * sizeof *w->wg);
	emu_check_wg_done(e, w);
	emu_warp_go(e);
}

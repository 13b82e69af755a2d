/*
 * Threads that wait for each other: barriers of a block, of a warp and of a
 * cluster, and data that the lanes of a warp exchange.
 */
#include "runtime/emulate/emulate_inner.h"

#include <stdio.h>
#include <string.h>

/* ---- a block's barriers ---- */

/* In the place of a barrier's number. */
enum { CLUSTER_ARRIVE = -1, CLUSTER_WAIT = -2 };

/*
 * Named ones, and that of a cluster, are .aligned: all lanes of a warp come to
 * them together (PTX ISA, "bar, barrier" and "barrier.cluster"), where each
 * thread comes to __syncthreads for itself.  Lanes that have waited apart, in a
 * loop of one of them, only do if they have met since.
 */
static void
come(struct rt_emu *e, struct emu_task *t, int id)
{
	unsigned i = t->came++ % EMU_WARP_BARRIERS;
	struct emu_warp *w = t->warp;

	if (w->came[i] == 0) {
		w->alone[i] = t->alone;
	} else if (id != 0 && w->alone[i] != t->alone) {
		char at[16];

		snprintf(at, sizeof at, "barrier %d", id);
		emu_fail(e, "%s: this lane has waited %u times since its warp "
			 "met, another one %u times: sync_warp comes before",
			 id == CLUSTER_ARRIVE ? "cluster_arrive"
			 : id == CLUSTER_WAIT ? "cluster_wait" : at,
			 t->alone, w->alone[i]);
	}
	w->came[i] = (w->came[i] + 1) % 32;
	t->alone = 0;
}

static struct emu_barrier *
arrive(struct rt_emu *e, int id, int n)
{
	struct emu_block *b = e->now->block;
	struct emu_barrier *x;

	if (id < 0 || id >= EMU_BARRIERS) {
		emu_fail(e, "there is no barrier %d: there are %d", id,
			 EMU_BARRIERS);
	}
	x = &b->barriers[id];
	n = n ? n : b->ntasks;
	if (n < 32 || n % 32 || n > b->ntasks) {
		emu_fail(e, "barrier %d of %d threads: whole warps of a block "
			 "of %d meet there", id, n, b->ntasks);
	}
	if (x->arrived == 0) {
		x->want = n;
		x->waiting = 0;
	} else if (x->want != n) {
		emu_fail(e, "barrier %d: this thread says that %d meet there, "
			 "one before it said %d", id, n, x->want);
	}
	come(e, e->now, id);
	x->arrived++;
	emu_check_arrive(e, x);
	return x;
}

static void
open_barrier(struct rt_emu *e, struct emu_barrier *x)
{
	emu_check_open(e, x);
	x->arrived = 0;
	emu_wake_all(e, x->who, x->waiting);
}

void
emu_sync(int id, int n)
{
	struct rt_emu *e = emu_now;
	struct emu_barrier *x = arrive(e, id, n);
	struct emu_task *t = e->now;

	if (x->arrived == x->want) {
		emu_check_join(e, x, t);
		open_barrier(e, x);
		return;
	}
	x->who[x->waiting++] = t;
	emu_wait(e, "barrier %u of %u threads", (unsigned)id,
		 (unsigned)x->want);
}

void
emu_arrive(int id, int n)
{
	struct rt_emu *e = emu_now;
	struct emu_barrier *x = arrive(e, id, n);

	if (x->arrived == x->want) {
		open_barrier(e, x);
	}
}

/* ---- a warp ---- */

bool
emu_warp_meet(struct rt_emu *e, const char *what)
{
	struct emu_task *t = e->now;
	struct emu_warp *w = t->warp;

	if (w->arrived == 0) {
		w->what = what;
	} else if (w->what != what) {
		emu_fail(e, "%s, where other lanes of the warp do %s", what,
			 w->what);
	}
	if (++w->arrived == 32) {
		return true;
	}
	emu_wait(e, what, 0, 0);
	return false;
}

void
emu_warp_go(struct rt_emu *e)
{
	struct emu_warp *w = e->now->warp;
	int i;

	w->arrived = 0;
	for (i = 0; i < 32; i++) {
		w->lanes[i].alone = 0;
		if (&w->lanes[i] != e->now) {
			emu_wake(e, &w->lanes[i]);
		}
	}
}

void
emu_sync_warp(void)
{
	struct rt_emu *e = emu_now;

	if (emu_warp_meet(e, "sync_warp")) {
		emu_check_warp(e, e->now->warp);
		emu_warp_go(e);
	}
}

unsigned
emu_shuffle(unsigned x, int from)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	struct emu_task *lanes = t->warp->lanes;
	int i;

	t->num[0] = x;
	t->num[1] = (unsigned)from;
	if (emu_warp_meet(e, "shfl")) {
		for (i = 0; i < 32; i++) {
			lanes[i].num[2] = lanes[lanes[i].num[1]].num[0];
		}
		emu_warp_go(e);
	}
	return t->num[2];
}

unsigned
emu_ballot(int x)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	struct emu_task *lanes = t->warp->lanes;
	unsigned all = 0;
	int i;

	t->num[0] = x != 0;
	if (emu_warp_meet(e, "ballot")) {
		for (i = 0; i < 32; i++) {
			all |= lanes[i].num[0] << i;
		}
		for (i = 0; i < 32; i++) {
			lanes[i].num[2] = all;
		}
		emu_warp_go(e);
	}
	return t->num[2];
}

/* ---- a cluster ---- */

void
emu_cluster_arrive(void)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now, *next;
	int all = e->nblocks * e->blocks[0].ntasks;

	if (t->cluster_arrived) {
		emu_fail(e, "cluster_arrive again, without a cluster_wait");
	}
	come(e, t, CLUSTER_ARRIVE);
	t->cluster_arrived = true;
	t->num[3] = (unsigned)e->cluster_phase;
	emu_check_cluster(e, false);
	if (++e->cluster_arrived < all) {
		return;
	}
	e->cluster_arrived = 0;
	e->cluster_phase++;
	for (t = e->cluster_first; t; t = next) {
		next = t->next;
		emu_wake(e, t);
	}
	e->cluster_first = NULL;
}

void
emu_cluster_wait(void)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;

	if (!t->cluster_arrived) {
		emu_fail(e, "cluster_wait without a cluster_arrive");
	}
	come(e, t, CLUSTER_WAIT);
	t->cluster_arrived = false;
	if (t->num[3] == (unsigned)e->cluster_phase) {
		t->next = e->cluster_first;
		e->cluster_first = t;
		emu_wait(e, "the other blocks of the cluster", 0, 0);
	}
	emu_check_cluster(e, true);
}

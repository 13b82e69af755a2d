/*
 * Barriers in shared memory: a phase ends when all expected threads have
 * arrived and all announced bytes have come.
 *
 * PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
 * Shared memory holds the barrier's number, so that one that was overwritten is
 * detected.
 */
#include "runtime/emulate/emulate_inner.h"

#include <string.h>

#define MAGIC 0x6d626172u

static unsigned
offset_of(unsigned at)
{
	return at & ((1u << EMU_CTA_SHIFT) - 1);
}

struct emu_mbar *
emu_mbar_at(struct rt_emu *e, struct emu_block *b, unsigned at)
{
	const char *p = emu_smem(e, at, 8, 8, "an mbarrier");
	uint32_t x[2];

	(void)b;
	b = emu_block_of(e, at);
	memcpy(x, p, sizeof x);
	if (x[0] != MAGIC || x[1] >= (uint32_t)b->nmbars ||
	    b->mbars[x[1]].at != offset_of(at)) {
		emu_fail(e, "there is no mbarrier at %u of shared memory: "
			 "mbar_init makes one, and nothing else may write "
			 "there", offset_of(at) - EMU_SMEM_BASE);
	}
	return &b->mbars[x[1]];
}

void
emu_mbar_init(unsigned bar, int count)
{
	struct rt_emu *e = emu_now;
	struct emu_block *b = e->now->block;
	char *p = emu_smem(e, bar, 8, 8, "an mbarrier");
	uint32_t x[2] = { MAGIC, 0 };
	int i;

	if (emu_block_of(e, bar) != b) {
		emu_fail(e, "mbar_init of another block's mbarrier");
	}
	if (count < 1 || count >= 1 << 20) {
		emu_fail(e, "mbar_init for %d arrivals", count);
	}
	for (i = 0; i < b->nmbars && b->mbars[i].at != offset_of(bar); i++) {
	}
	if (i == EMU_MBARS) {
		emu_fail(e, "more than %d mbarriers", EMU_MBARS);
	}
	if (i == b->nmbars) {
		b->nmbars++;
	}
	x[1] = (uint32_t)i;
	memcpy(p, x, sizeof x);
	b->mbars[i] = (struct emu_mbar){ .at = offset_of(bar),
					 .expected = count,
					 .pending = count };
	emu_check_mbar(e, &b->mbars[i], EMU_MBAR_INIT);
}

void
emu_mbar_fence(void)
{
	emu_check_mbar_fence(emu_now);
}

/* ---- phases ---- */

static void
complete(struct rt_emu *e, struct emu_mbar *m)
{
	struct emu_task *t, *next;

	if (m->pending > 0 || m->tx != 0) {
		return;
	}
	m->pending = m->expected;
	m->phase ^= 1;
	m->over++;
	emu_check_mbar(e, m, EMU_MBAR_OPEN);
	for (t = m->first; t; t = next) {
		next = t->next;
		emu_wake(e, t);
	}
	m->first = NULL;
}

/* Bytes have come: fewer are expected. */
void
emu_mbar_bytes(struct rt_emu *e, struct emu_mbar *m, int64_t n)
{
	m->tx -= n;
	emu_check_mbar(e, m, EMU_MBAR_LANDED);
	complete(e, m);
}

void
emu_mbar_arrive(unsigned bar, int cta, int bytes)
{
	struct rt_emu *e = emu_now;
	struct emu_mbar *m;

	if (cta >= 0) {
		bar = emu_map_cta(bar, cta);
	}
	m = emu_mbar_at(e, NULL, bar);
	if (bytes < 0 || bytes >= 1 << 20) {
		emu_fail(e, "mbar_expect of %d bytes: at most %d", bytes,
			 (1 << 20) - 1);
	}
	if (m->pending == 0) {
		emu_fail(e, "more than %d arrive at the mbarrier at %u in "
			 "one phase", m->expected, m->at - EMU_SMEM_BASE);
	}
	emu_check_far(e, bar);
	emu_check_mbar(e, m, EMU_MBAR_ARRIVE);
	m->tx += bytes;
	m->pending--;
	complete(e, m);
}

void
emu_mbar_products(struct rt_emu *e, struct emu_mbar *m, bool far)
{
	if (m->pending == 0) {
		emu_fail(e, "more than %d arrive at the mbarrier at %u in "
			 "one phase", m->expected, m->at - EMU_SMEM_BASE);
	}
	m->far = far ? m->over + 1 : m->far;
	m->pending--;
	complete(e, m);
}

/* Returns once the phase of this parity is over: the one before the current. */
void
emu_mbar_wait(unsigned bar, int parity)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	struct emu_mbar *m = emu_mbar_at(e, NULL, bar);

	if (emu_block_of(e, bar) != t->block) {
		emu_fail(e, "mbar_wait at another block's mbarrier");
	}
	if (parity != 0 && parity != 1) {
		emu_fail(e, "mbar_wait for parity %d", parity);
	}
	t->alone++;
	while (m->phase == parity) {
		t->next = m->first;
		m->first = t;
		emu_wait(e, "the mbarrier at %u, parity %u",
			 m->at - EMU_SMEM_BASE, (unsigned)parity);
	}
	m->waited = m->over;
	emu_check_mbar(e, m, EMU_MBAR_WAIT);
}

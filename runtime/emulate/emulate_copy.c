/*
 * cp.async: a copy is done when its thread waits for the copy's group, and not
 * earlier.  And loads of shared memory that may be another block's.
 */
#include "runtime/emulate/emulate_inner.h"

#include <stdlib.h>
#include <string.h>

static void
finish_copy(struct rt_emu *e, const struct emu_copy *c)
{
	char *to = emu_smem(e, c->at, c->size, c->size, "cp.async");

	if (c->bytes == 16) {
		memcpy(to, c->from, 16);
		emu_check_landed(e, c->at, 16);
		return;
	}
	memcpy(to, c->from, (size_t)c->bytes);
	memset(to + c->bytes, 0, (size_t)(c->size - c->bytes));
	emu_check_landed(e, c->at, c->size);
}

void
emu_cp_async(unsigned to, const void *from, int bytes, int size)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	struct emu_copy *more;

	if (bytes < 0 || bytes > size) {
		emu_fail(e, "cp.async of %d bytes of %d", bytes, size);
	}
	if ((uintptr_t)from % (unsigned)size) {
		emu_fail(e, "cp.async of %d bytes from %p, which is not on "
			 "as many", size, (const void *)from);
	}
	emu_smem(e, to, size, size, "cp.async");
	emu_check_begun(e, false);
	emu_check_global(e, from, bytes, false);
	emu_check_issue(e, to, size);
	if (t->ncopies == t->capacity) {
		t->capacity = t->capacity ? 2 * t->capacity : 64;
		more = realloc(t->copies, (size_t)t->capacity * sizeof *more);
		if (!more) {
			emu_fail(e, "out of memory");
		}
		t->copies = more;
	}
	t->copies[t->ncopies] = (struct emu_copy){ to, from, bytes, size,
						   t->group };
	if (e->seed && emu_random(e) % 2) {
		/* data may arrive early; no thread may rely on it */
		memcpy(emu_smem(e, to, size, size, "cp.async"), from,
		       (size_t)bytes);
	}
	t->ncopies++;
}

void
emu_cp_commit(void)
{
	emu_now->now->group++;
}

/* Waits for all but the n newest groups. */
void
emu_cp_wait(int n)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	int i, k = 0;

	for (i = 0; i < t->ncopies; i++) {
		if (t->copies[i].group < t->group - n) {
			finish_copy(e, &t->copies[i]);
		} else {
			t->copies[k++] = t->copies[i];
		}
	}
	t->ncopies = k;
}

/* ---- loads from another block ---- */

void
emu_read_at(unsigned at, unsigned *to)
{
	struct rt_emu *e = emu_now;
	const char *p = emu_smem(e, at, 16, 16, "a load");

	emu_check_read(e, at, 16);
	emu_check_far(e, at);
	memcpy(to, p, 16);
}

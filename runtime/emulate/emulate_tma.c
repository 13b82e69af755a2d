/*
 * The copying unit (TMA): boxes of a tensor, between global and shared memory.
 * A box that is loaded arrives when every thread waits; one that is stored is
 * read when its thread waits for the reading, and arrives when the thread waits
 * for its group: never earlier, unless a seed says so.
 *
 * CUDA driver API, cuTensorMapEncodeTiled; PTX ISA, "Tensor" (bounding box,
 * swizzling modes).
 */
#include "runtime/emulate/emulate_inner.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC 0x7a

static const int elem_bytes[] = { 8, 4, 2, 2, 4, 1 };

/* ---- maps ---- */

static const char *
map_wrong(const struct rt_map *m, const char *base)
{
	int64_t inner, i;

	if (m->ndims < 2 || m->ndims > 5) {
		return "it has 2 to 5 dims";
	}
	if (m->elem < 0 || m->elem > RT_ELEM_U8) {
		return "it has no such elements";
	}
	if ((uintptr_t)base % 16) {
		return "its tensor is not on 16 bytes";
	}
	inner = m->box[0] * elem_bytes[m->elem];
	if (inner % 16) {
		return "rows of its box are no multiple of 16 bytes";
	}
	for (i = 0; i < m->ndims; i++) {
		if (m->box[i] < 1 || m->box[i] > 256) {
			return "a box has 1 to 256 elements of a dim";
		}
		if (m->size[i] < 1 || m->size[i] > (int64_t)1 << 32) {
			return "a dim has 1 to 2^32 elements";
		}
		if (i > 0 && (m->stride[i] % 16 || m->stride[i] < 0 ||
			      m->stride[i] >= (int64_t)1 << 40)) {
			return "a stride is no multiple of 16 bytes, or out "
				"of range";
		}
	}
	if (m->swizzle != 0 && m->swizzle != 32 && m->swizzle != 64 &&
	    m->swizzle != 128) {
		return "there is no such swizzle";
	}
	/* a shorter row is legal, but leaves gaps that no kernel here uses */
	return m->swizzle && inner != m->swizzle
		? "rows of its box are not what is swizzled" : NULL;
}

enum rt_status
rt_emu_map(void *out, const struct rt_map *m, char *operand,
	   struct rt_error *err)
{
	struct rt_where where = { NULL, NULL, -1 };
	struct emu_map x = { .magic = MAGIC };
	const char *wrong = map_wrong(m, operand + m->offset);
	int64_t i;

	if (wrong) {
		return rt_fail(err, RT_RANGE, where, "a map of operand %lld "
			       "is refused: %s", (long long)m->operand,
			       wrong);
	}
	x.base = operand + m->offset;
	x.ndims = (uint8_t)m->ndims;
	x.elem = (uint8_t)elem_bytes[m->elem];
	x.swizzle = (uint8_t)m->swizzle;
	for (i = 0; i < m->ndims; i++) {
		x.size[i] = m->size[i];
		x.box[i] = (uint16_t)m->box[i];
		if (i > 0) {
			x.stride[i - 1] = m->stride[i];
		}
	}
	memset(out, 0, 128);
	memcpy(out, &x, sizeof x);
	return RT_OK;
}

static struct emu_map
map_of(struct rt_emu *e, const void *p, int n)
{
	struct emu_map m;

	if ((uintptr_t)p % 64) {
		emu_fail(e, "a tensor map that is not on 64 bytes");
	}
	memcpy(&m, p, sizeof m);
	if (m.magic != MAGIC) {
		emu_fail(e, "this is no tensor map");
	}
	if (m.ndims != n) {
		emu_fail(e, "a copy of %d dims by a map of %d", n, m.ndims);
	}
	return m;
}

static int64_t
box_bytes(const struct emu_map *m)
{
	int64_t n = m->elem;
	int i;

	for (i = 0; i < m->ndims; i++) {
		n *= m->box[i];
	}
	return n;
}

/* ---- a box, row by row ---- */

static unsigned
swizzled(const struct emu_map *m, unsigned at)
{
	unsigned mask = m->swizzle / 16 ? m->swizzle / 16u - 1 : 0;

	return at ^ ((at >> 7 & mask) << 4);
}

/* Global memory of a row's first element, and which elements are within
 * bounds. */
static char *
row_of(const struct emu_box *x, int64_t row, int64_t *from, int64_t *to)
{
	const struct emu_map *m = &x->map;
	char *p = m->base;
	int64_t at;
	int i;

	*from = x->at[0] < 0 ? -x->at[0] : 0;
	*to = m->box[0];
	if (*to > m->size[0] - x->at[0]) {
		*to = m->size[0] - x->at[0];
	}
	for (i = 1; i < m->ndims; i++) {
		at = x->at[i] + row % m->box[i];
		row /= m->box[i];
		p += at * m->stride[i - 1];
		if (at < 0 || at >= m->size[i]) {
			*to = *from;
		}
	}
	*from = *from > *to ? *to : *from;
	return p + (int64_t)x->at[0] * m->elem;
}

static void
load_box(struct rt_emu *e, const struct emu_box *x)
{
	const struct emu_map *m = &x->map;
	int64_t inner = (int64_t)m->box[0] * m->elem, row, i, from, to;
	int64_t rows = box_bytes(m) / inner;
	char *base = x->block->smem - EMU_SMEM_BASE, line[2048];
	const char *p;
	unsigned at;

	for (row = 0; row < rows; row++) {
		p = row_of(x, row, &from, &to);
		memset(line, 0, (size_t)inner);
		if (to > from) {
			emu_check_global(e, p + from * m->elem,
					 (to - from) * m->elem, false);
			memcpy(line + from * m->elem, p + from * m->elem,
			       (size_t)((to - from) * m->elem));
		}
		for (i = 0; i < inner; i += 16) {
			at = swizzled(m, x->smem + (unsigned)(row * inner +
							      i));
			memcpy(base + at, line + i, 16);
		}
	}
}

/* Reads shared memory into x->data, row by row. */
static void
take_box(struct rt_emu *e, struct emu_box *x)
{
	int64_t n = box_bytes(&x->map), i;
	const char *base = x->block->smem - EMU_SMEM_BASE;

	x->data = malloc((size_t)n);
	if (!x->data) {
		emu_fail(e, "out of memory");
	}
	for (i = 0; i < n; i += 16) {
		memcpy(x->data + i, base + swizzled(&x->map, x->smem +
						    (unsigned)i), 16);
	}
	x->taken = true;
}

static void
add_row(char *to, const char *from, int64_t n)
{
	float a, b;
	int64_t i;

	for (i = 0; i < n; i += 4) {
		memcpy(&a, to + i, 4);
		memcpy(&b, from + i, 4);
		a += b;
		memcpy(to + i, &a, 4);
	}
}

static void
put_box(struct rt_emu *e, struct emu_box *x)
{
	const struct emu_map *m = &x->map;
	int64_t inner = (int64_t)m->box[0] * m->elem, row, from, to;
	int64_t rows = box_bytes(m) / inner;
	const char *line;
	char *p;

	for (row = 0; row < rows; row++) {
		p = row_of(x, row, &from, &to);
		if (to <= from) {
			continue;
		}
		p += from * m->elem;
		line = x->data + row * inner + from * m->elem;
		emu_check_global(e, p, (to - from) * m->elem, true);
		if (x->add) {
			add_row(p, line, (to - from) * m->elem);
		} else {
			memcpy(p, line, (size_t)((to - from) * m->elem));
		}
	}
	free(x->data);
	x->data = NULL;
}

/* ---- the queue ---- */

static struct emu_box *
push_box(struct rt_emu *e)
{
	struct emu_box *more;

	if (e->nboxes == e->box_capacity) {
		e->box_capacity = e->box_capacity ? 2 * e->box_capacity : 64;
		more = realloc(e->boxes,
			       (size_t)e->box_capacity * sizeof *more);
		if (!more) {
			emu_fail(e, "out of memory");
		}
		e->boxes = more;
	}
	return &e->boxes[e->nboxes++];
}

static void
check_place(struct rt_emu *e, const struct emu_map *m, unsigned at,
	    const char *what)
{
	/* the period of the swizzling pattern */
	int64_t align = m->swizzle ? 8 * m->swizzle : 128;

	emu_smem(e, at, box_bytes(m), align, what);
}

static bool
load_due(const struct emu_box *x)
{
	return !x->store;
}

/* Completes the n-th load of those under way. */
static void
complete_load(struct rt_emu *e, int n)
{
	struct emu_box x;
	int i;

	for (i = 0; i < e->nboxes && (!load_due(&e->boxes[i]) || n > 0);
	     i++) {
		n -= load_due(&e->boxes[i]);
	}
	x = e->boxes[i];
	memmove(&e->boxes[i], &e->boxes[i + 1],
		(size_t)(e->nboxes - i - 1) * sizeof x);
	e->nboxes--;
	if (x.is_word) {
		memcpy(x.block->smem - EMU_SMEM_BASE + x.smem, &x.word,
		       sizeof x.word);
	} else {
		load_box(e, &x);
	}
	emu_check_box(e, &x, EMU_BOX_LANDED);
	emu_mbar_bytes(e, x.mbar, box_bytes(&x.map));
}

bool
emu_tma_deliver(struct rt_emu *e)
{
	int i, n = 0;

	for (i = 0; i < e->nboxes; i++) {
		n += load_due(&e->boxes[i]);
	}
	if (n) {
		complete_load(e, e->seed ? (int)(emu_random(e) % (uint64_t)n) :
			      0);
	}
	return n > 0;
}

void
emu_tma_load(unsigned to, const void *map, unsigned bar, int n, const int *at,
	     unsigned mask)
{
	struct rt_emu *e = emu_now;
	struct emu_map m = map_of(e, map, n);
	unsigned place = to & ((1u << EMU_CTA_SHIFT) - 1);
	struct emu_box *x;
	int i, own = e->now->seen.cluster_rank;

	emu_check_begun(e, false);
	if (mask && mask >> e->nblocks) {
		emu_fail(e, "a load for blocks %#x of a cluster of %d", mask,
			 e->nblocks);
	}
	check_place(e, &m, to, "a load of a box");
	for (i = 0; i < e->nblocks; i++) {
		if (mask ? !(mask >> i & 1) : i != own) {
			continue;
		}
		x = push_box(e);
		*x = (struct emu_box){ .map = m, .block = &e->blocks[i],
				       .task = e->now, .smem = place };
		memcpy(x->at, at, (size_t)n * sizeof *at);
		x->mbar = emu_mbar_at(e, NULL, emu_map_cta(bar, i));
		emu_check_box(e, x, EMU_BOX_LOAD);
	}
	if (e->seed && emu_random(e) % 3 == 0) {
		emu_tma_deliver(e);
	}
}

/* A word that a thread sends arrives as a box does: late, with its mbarrier. */
void
emu_word_to(unsigned to, unsigned word, unsigned bar)
{
	struct rt_emu *e = emu_now;
	struct emu_map m = { .ndims = 2, .elem = 4, .box = { 1, 1 } };
	struct emu_box *x;

	emu_smem(e, to, 4, 4, "a word that is sent");
	if (emu_block_of(e, to) != emu_block_of(e, bar)) {
		emu_fail(e, "a word that is sent to one block, and its "
			 "mbarrier of another");
	}
	emu_check_far(e, bar);
	x = push_box(e);
	*x = (struct emu_box){ .map = m, .block = emu_block_of(e, to),
			       .task = e->now, .is_word = true, .word = word,
			       .smem = to & ((1u << EMU_CTA_SHIFT) - 1),
			       .mbar = emu_mbar_at(e, NULL, bar) };
	emu_check_box(e, x, EMU_BOX_LOAD);
	if (e->seed && emu_random(e) % 3 == 0) {
		emu_tma_deliver(e);
	}
}

static void
store(struct rt_emu *e, const struct emu_map *m, unsigned from, const int *at,
      bool add)
{
	struct emu_box *x;

	check_place(e, m, from, "a store of a box");
	if (emu_block_of(e, from) != e->now->block) {
		emu_fail(e, "a store of another block's shared memory");
	}
	x = push_box(e);
	*x = (struct emu_box){ .map = *m, .block = e->now->block,
			       .task = e->now, .store = true, .add = add,
			       .smem = from & ((1u << EMU_CTA_SHIFT) - 1),
			       .group = e->now->tma_group };
	memcpy(x->at, at, m->ndims * sizeof *at);
	emu_check_box(e, x, EMU_BOX_STORE);
	if (e->seed && emu_random(e) % 2) {
		take_box(e, x);
	}
}

void
emu_tma_store(const void *map, unsigned from, int n, const int *at, int add)
{
	struct rt_emu *e = emu_now;
	struct emu_map m = map_of(e, map, n);

	emu_check_begun(e, true);
	if (add && m.elem != 4) {
		emu_fail(e, "tma_add adds f32");
	}
	store(e, &m, from, at, add);
}

/* Rows of 16 bytes, one behind the other. */
void
emu_bulk(float *to, unsigned from, int bytes, int add)
{
	struct rt_emu *e = emu_now;
	struct emu_map m = { .base = (char *)to, .magic = MAGIC, .ndims = 2,
			     .elem = 4, .size = { 4, bytes / 16 },
			     .stride = { 16 },
			     .box = { 4, (uint16_t)(bytes / 16) } };
	const char *call = add ? "bulk_add" : "bulk_put";
	static const int start[2];

	emu_check_begun(e, true);
	if (bytes <= 0 || bytes % 16 || (uintptr_t)to % 16) {
		emu_fail(e, "%s of %d bytes to an address %d bytes after a "
			 "multiple of 16, where multiples of 16 are legal",
			 call, bytes, (int)((uintptr_t)to % 16));
	}
	emu_count_add(e, call, to);
	store(e, &m, from, start, add);
}

void
emu_tma_commit(void)
{
	emu_now->now->tma_group++;
}

/* All but the n newest groups of this thread have been read, or have
 * arrived. */
void
emu_tma_wait(int n, int read)
{
	struct rt_emu *e = emu_now;
	struct emu_task *t = e->now;
	int i, k = 0;

	for (i = 0; i < e->nboxes; i++) {
		struct emu_box *x = &e->boxes[i];

		if (x->store && x->task == t &&
		    x->group < t->tma_group - n) {
			if (!x->taken) {
				take_box(e, x);
			}
			if (!x->released) {
				x->released = true;
				emu_check_box(e, x, EMU_BOX_TAKEN);
			}
			if (!read) {
				put_box(e, x);
				continue;
			}
		}
		e->boxes[k++] = *x;
	}
	e->nboxes = k;
}

void
emu_tma_end(struct rt_emu *e, struct emu_task *t)
{
	int i, k = 0;

	for (i = 0; i < e->nboxes; i++) {
		struct emu_box *x = &e->boxes[i];

		if (!x->store || x->task != t) {
			e->boxes[k++] = *x;
			continue;
		}
		if (!x->released) {
			emu_fail(e, "it ends before its store of a box has "
				 "been read: tma_commit and tma_wait_read");
		}
		put_box(e, x);
	}
	e->nboxes = k;
}

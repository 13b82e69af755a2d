/*
 * The GPU as a back end of t-attention.h: kernels of attention run on the
 * emulator, with what a test plants in their text.
 */
#ifndef T_ATTENTION_GPU_H
#define T_ATTENTION_GPU_H

#include "codegen/cg.h"
#include "codegen/cuda/cuda.h"
#include "runtime/emulate/emulate.h"
#include "tests/unit/shared/t-attention.h"
#include "tests/unit/shared/t-left-out.h"

#define USUAL_UNITS 132		/* multiprocessors of H100 SXM */

static struct {
	struct cg_cuda cuda[MOST_RANKS];
	struct rt_image images[MOST_KERNELS * MOST_RANKS];
	uint32_t nimages;
	/* by kernel and rank */
	uint32_t image[MOST_KERNELS][MOST_RANKS];
	struct rt_images all;
	struct rt_emu *emu;
	const char *arch;
	int64_t units;		/* multiprocessors; 0: USUAL_UNITS */
	int64_t joint;		/* bytes of scratch of one kernel */
	int flags, usual_flags;	/* of rt_emu_open */
	int64_t cached;		/* bytes of the L2 cache; 0: as usual */
	uint64_t seed;		/* of the emulator */
	int64_t live[RT_LIVE];	/* rt_call.live */
	/* what is planted: a part of the text, and what takes its place */
	const char *cut, *put;
	bool is_planted;
	char message[1024];	/* of the emulator, if it found it */
	uint32_t wgmma;		/* grids that ran, and have maps */
	bool sync;		/* a kernel multiplies by mma.sync */
} b;

static const char *
from_env(const char *name, const char *otherwise)
{
	const char *p = getenv(name);

	return p && *p ? p : otherwise;
}

static void
back_open(void)
{
	uint32_t r;

	b.nimages = 0;
	b.sync = false;
	memset(b.live, 0, sizeof b.live);
	b.live[0] = 1;
	for (r = 0; r < s.nranks; r++) {
		b.cuda[r] = (struct cg_cuda){
			.m = s.m, .a = &s.c.perm,
			.units = b.units ? b.units : USUAL_UNITS,
			.joint_scratch = b.joint,
			.cached_bytes = b.cached,
			.arch = cu_arch_find(from_env("T_ARCH", b.arch)) };
		assert_non_null(b.cuda[r].arch);
		memcpy(b.cuda[r].at, s.ranks[r].at, sizeof b.cuda[r].at);
	}
}

/* Replaces a part of the kernel's text everywhere. */
static void
plant(struct cg_kernel *k)
{
	const char *from = k->source, *at;
	struct buf out;

	buf_init(&out, &s.c.perm);
	for (; (at = strstr(from, b.cut)); from = at + strlen(b.cut)) {
		buf_printf(&out, "%.*s%s", (int)(at - from), from, b.put);
		b.is_planted = true;
	}
	buf_puts(&out, from);
	k->source = buf_text(&out);
}

static void
back_emit(uint32_t kernel, uint32_t rank)
{
	struct cg_kernel *k = &s.ranks[rank].k[kernel];
	const char *why = NULL;
	uint32_t i;

	/* the same names on all ranks: most have the same text */
	b.cuda[rank].nfuncs = 100 * kernel;
	if (!cg_cuda_kernel_by(&b.cuda[rank], s.kernels[kernel],
			       cu_attention_steps, k, &why)) {
		fail_msg("%s\n%s", why, s.text);
	}
	b.sync |= strstr(k->source, "mma_bf16(") ||
		  strstr(k->source, "mma_f16(");
	if (b.cut) {
		plant(k);
	}
	if (getenv("T_SHOW")) {
		printf("%s\n", k->source);
	}
	for (i = 0; i < b.nimages; i++) {
		if (strcmp(b.images[i].source, k->source) == 0) {
			b.image[kernel][rank] = i;
			return;
		}
	}
	b.images[i].name = arena_printf(&s.c.perm, "%s_%u", k->name, i);
	b.images[i].source = k->source;
	b.image[kernel][rank] = b.nimages++;
}

static void
report(enum rt_status status, const struct rt_error *e)
{
	if (status != RT_OK) {
		fail_msg("%s\n%s", e->message, s.text);
	}
}

static void
back_ready(void)
{
	struct rt_error e = { 0 };
	uint32_t i;
	void *p;

	b.all = (struct rt_images){ .n = b.nimages, .at = b.images,
				    .ntexts = cu_nprelude };
	p = arena_alloc(&s.c.perm, cu_nprelude * sizeof *b.all.texts);
	memcpy(&b.all.texts, &p, sizeof p);
	for (i = 0; i < cu_nprelude; i++) {
		((const char **)p)[2 * i] = cu_prelude[i].name;
		((const char **)p)[2 * i + 1] = cu_prelude[i].text;
	}
	t_quick(b.flags);
	report(rt_emu_open(&b.emu, &b.all, b.flags | RT_EMU_EARLY, &e), &e);
	rt_emu_seed(b.emu, b.seed);
}

static void
back_close(void)
{
	rt_emu_close(b.emu);
}

/* Checked code stays within these. */
static void
allow(struct rank *r, const struct cg_kernel *k)
{
	struct rt_error e = { 0 };
	struct ir_local l;
	uint32_t i;

	rt_emu_allow_none(b.emu);
	for (i = 0; i < k->operands.n; i++) {
		const struct ir_type *t =
			ir_type(s.m, value_of(&k->operands.at[i]));

		ir_local(s.m, t, r->at, &l);
		report(rt_emu_allow(b.emu, r->at_of[i], l.elems *
				    (int64_t)bytes_of(t->dtype), &e), &e);
	}
	for (i = 0; i < k->spreads.n; i++) {
		report(rt_emu_allow(b.emu, r->piece_at[i],
				    sizeof *r->piece_at[i], &e), &e);
	}
	report(rt_emu_allow(b.emu, r->shared, k->shared_bytes, &e), &e);
	report(rt_emu_allow(b.emu, b.live, sizeof b.live, &e), &e);
}

#define MOST_WORDS 256
#define MOST_MAPS 4

static void
put_maps(const struct rank *r, const struct cg_grid *g, char *to)
{
	struct rt_error e = { 0 };
	uint32_t i, d;

	assert_true(g->maps.n <= MOST_MAPS);
	for (i = 0; i < g->maps.n; i++) {
		const struct cg_map *m = &g->maps.at[i];
		struct rt_map map = { .operand = m->operand, .elem = m->elem,
			.offset = m->offset, .ndims = m->ndims,
			.swizzle = m->swizzle };

		for (d = 0; d < m->ndims; d++) {
			map.size[d] = m->size[d];
			map.stride[d] = m->stride[d];
			map.box[d] = m->box[d];
		}
		report(rt_emu_map(to + 128 * i, &map, r->at_of[m->operand],
				  &e), &e);
	}
}

/* What a grid of the kernel is called with: words, then maps. */
static void
back_run(uint32_t kernel, uint32_t rank, uint32_t step)
{
	struct rank *r = &s.ranks[rank];
	const struct cg_kernel *k = &r->k[kernel];
	const struct cg_grid *from = k->steps.at[step].grid;
	struct rt_grid g = { .image = b.image[kernel][rank],
			     .func = from->func, .threads = from->threads,
			     .cluster = from->cluster,
			     .smem_bytes = from->smem_bytes };
	struct rt_error e = { 0 };
	static _Alignas(64) int64_t words[MOST_WORDS + 16 * MOST_MAPS];
	enum rt_status status;
	uint32_t i, n = 0;

	b.wgmma += from->maps.n > 0;
	g.nmaps = from->maps.n;
	assert_true(k->operands.n + k->spreads.n + k->nums.n + 2 <=
		    MOST_WORDS);
	assert_true(from->smem_bytes <= b.cuda[rank].arch->smem_bytes);
	memcpy(g.blocks, from->blocks, sizeof g.blocks);
	for (i = 0; i < k->operands.n; i++) {
		words[n++] = (int64_t)(intptr_t)r->at_of[i];
	}
	for (i = 0; i < k->spreads.n; i++) {
		words[n++] = (int64_t)(intptr_t)r->piece_at[i];
	}
	for (i = 0; i < k->nums.n; i++) {
		words[n++] = r->num[i];
	}
	words[n++] = (int64_t)(intptr_t)r->shared;
	words[n++] = (int64_t)(intptr_t)b.live;
	put_maps(r, from, (char *)(words + (n + 7) / 8 * 8));
	if (b.flags & RT_EMU_CHECK) {
		allow(r, k);
	}
	status = rt_emu_launch(b.emu, &g, words, &e);
	if (status == RT_OK && b.live[RT_NUMBERS] != 0) {
		status = RT_RANGE;
		snprintf(e.message, sizeof e.message,
			 "its counters are not 0 after it");
	}
	b.live[RT_NUMBERS] = 0;
	if (status != RT_OK && b.cut) {
		snprintf(b.message, sizeof b.message, "%s", e.message);
	} else {
		report(status, &e);
	}
}

#endif

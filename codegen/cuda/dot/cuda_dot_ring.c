/*
 * Stages of shared memory into which threads copy tiles of both operands: a
 * ring.  When all threads have left tile i - 1, its stage is filled with tile
 * i + stages - 1; before tile i is used, a thread waits for all copies but the
 * newest, so copies are that many tiles ahead.  With wgmma and tcgen05 the
 * product of tile i - 1 may still be under way, so it is the stage of tile
 * i - 2 that is filled, with tile i + stages - 2.
 */
#include "codegen/cuda/dot/cuda_dot.h"

/* Starts to copy both operands' tiles from k on into stage `slot`. */
static void
load(struct cu_func *f, const struct cu_loop *l, const char *slot,
     const char *k)
{
	int64_t a = cu_side_bytes(&l->side[0]);
	int64_t b = cu_side_bytes(&l->side[1]);
	int i;

	for (i = 0; i < 2; i++) {
		cu_line(f, "%s(%s * %lld + %lld, %s, %s, %s%s);", l->load[i],
			slot, (long long)(a + b), i ? (long long)a : 0,
			l->args[i], k, l->end, l->table[i]);
	}
}

void
cu_loop_ahead(struct cu_func *f, const struct cu_loop *l)
{
	long long ahead = cu_loop_lead(l);

	cu_line(f, "for (it = 0; it < %lld; it++) {", ahead);
	cu_line(f, "if (it < nk) {");
	load(f, l, "it", arena_printf(f->k->c->a, "%s + it * %lld", l->from,
				      (long long)l->tile->k));
	cu_line(f, "}");
	cu_line(f, "cp_async_commit();");
	cu_line(f, "}");
}

void
cu_loop_next(struct cu_func *f, const struct cu_loop *l)
{
	long long ahead = cu_loop_lead(l);

	cu_line(f, "if (it + %lld < nk) {", ahead);
	load(f, l, "put", arena_printf(f->k->c->a, "%s + (it + %lld) * %lld",
				       l->from, ahead,
				       (long long)l->tile->k));
	cu_line(f, "}");
	cu_line(f, "cp_async_commit();");
	cu_line(f, "put = put == %lld ? 0 : put + 1;",
		(long long)l->tile->stages - 1);
}

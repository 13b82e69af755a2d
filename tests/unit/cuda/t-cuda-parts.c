/*
 * Collectives by parts, at random, without GPUs: functions of services.cu run
 * on the emulator, and what NCCL would carry goes by a mail box for each pair.
 * All ranks run twice, as in one process who sends first cannot wait for
 * others. What comes out must have the bits of the host's own collective.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "codegen/cuda/cuda.h"
#include "runtime/device/cuda_device.h"
#include "runtime/emulate/emulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4, DIMS = 3, SPAN = 1 << 18, HERE = 3 * SPAN, TRIES = 150 };

static struct {
	uint64_t seed;
	struct rt_emu *emu;
	struct rt_plan plan;
	struct rt_program program;
	struct rt_coll coll;
	struct rt_group group;
	struct rt_spread in[DIMS], out[DIMS];
	const struct rt_spread *ins[DIMS], *outs[DIMS];
	struct rt_pieces pieces[2 * DIMS][MOST];
	struct rt_gpu gpu[MOST];
	char *arena[MOST];
	char mail[MOST][MOST][SPAN], shared[MOST][SPAN];
	int ways[RT_GPU_PARTS + 1], launches;
} t;

static int64_t
below(int64_t n)
{
	t.seed = t.seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((t.seed >> 33) % (uint64_t)n);
}

static int64_t
bytes_of(void)
{
	return rt_elem_bytes((enum rt_elem)t.coll.elem);
}

/* ---- what is wrapped ---- */

enum rt_status __wrap_rt_gpu_launch(struct rt_device *,
				    const struct rt_kernel *,
				    const struct rt_grid *,
				    const struct rt_call *, void *,
				    struct rt_error *);
enum rt_status __wrap_rt_nccl_calls(struct rt_device *,
				    const struct rt_nccl_comm *,
				    const struct rt_nccl_call *, int64_t,
				    struct rt_error *);
enum rt_status __wrap_rt_nccl_exchange(struct rt_device *,
				       const struct rt_nccl_comm *, int64_t,
				       const struct rt_nccl_part *, int64_t,
				       struct rt_error *);

enum rt_status
__wrap_rt_gpu_launch(struct rt_device *d, const struct rt_kernel *k,
		     const struct rt_grid *grid, const struct rt_call *c,
		     void *stream, struct rt_error *err)
{
	_Alignas(RT_MAP_ALIGN) char args[RT_ARGS_BYTES];
	enum rt_status status = rt_args_words(k, grid, c, args, err);

	(void)d;
	(void)stream;
	t.launches++;
	assert_int_equal(rt_emu_args(t.emu, grid->image, grid->func),
			 rt_args_bytes(k, grid));
	return status == RT_OK ? rt_emu_launch(t.emu, grid, args, err)
			       : status;
}

/* NCCL's sums, in the order of ranks. */
static void
add_up(int64_t me, char *out, int64_t n)
{
	struct rt_part parts[MOST] = { { .at = NULL } };
	static char acc[RT_ACC_BYTES];
	struct rt_pieces flat = { 1, n, { { 0, n } } };
	const struct rt_pieces *dims[] = { &flat };
	int64_t i;

	for (i = 0; i < t.group.n; i++) {
		parts[i].dims[0] = &flat;
		parts[i].at = t.shared[i] + me * n * bytes_of();
	}
	rt_gather_parts(parts, t.group.n, dims, 1, (enum rt_elem)t.coll.elem,
			RT_COLL_SUM, out, acc);
}

enum rt_status
__wrap_rt_nccl_calls(struct rt_device *d, const struct rt_nccl_comm *c,
		     const struct rt_nccl_call *call, int64_t n,
		     struct rt_error *err)
{
	int64_t bytes = call->n * bytes_of(), i;

	(void)d;
	(void)err;
	assert_int_equal(n, 1);
	memcpy(t.shared[c->me], call->in, (size_t)(call->op == RT_NCCL_SCATTER
						 ? bytes * c->n : bytes));
	if (call->op == RT_NCCL_SCATTER) {
		add_up(c->me, call->out, call->n);
		return RT_OK;
	}
	for (i = 0; i < c->n; i++) {
		memcpy(call->out + i * bytes, t.shared[i], (size_t)bytes);
	}
	return RT_OK;
}

enum rt_status
__wrap_rt_nccl_exchange(struct rt_device *d, const struct rt_nccl_comm *c,
			int64_t elem, const struct rt_nccl_part *parts,
			int64_t n, struct rt_error *err)
{
	int64_t i;

	(void)d;
	(void)elem;
	(void)err;
	for (i = 0; i < n; i++) {
		const struct rt_nccl_part *p = &parts[i];
		size_t bytes = (size_t)(p->n * bytes_of());

		assert_true(p->peer != c->me && p->peer < c->n && p->n > 0);
		if (p->send) {
			memcpy(t.mail[c->me][p->peer], p->at, bytes);
		} else {
			memcpy(p->at, t.mail[p->peer][c->me], bytes);
		}
	}
	return RT_OK;
}

/* ---- collectives at random ---- */

static void
add_piece(struct rt_pieces *p, int64_t start, int64_t end)
{
	if (end > start) {
		p->at[p->n].start = start;
		p->at[p->n++].count = end - start;
		p->total += end - start;
	}
}

/* 'w'hole, 'c'ut as evenly as can be, 'b'alanced: a head and a tail. */
static void
cut(struct rt_spread *s, struct rt_pieces *p, int64_t size, int how)
{
	int64_t n = t.group.n, each = (size + n - 1) / n, half, i;

	half = (size + 2 * n - 1) / (2 * n);
	*s = (struct rt_spread){ .size = size, .at = p };
	memset(p, 0, MOST * sizeof *p);
	for (i = 0; i < n; i++) {
		int64_t a = i * each, b = a + each;

		if (how == 'b') {
			a = i * half;
			b = a + half;
		} else if (how == 'w') {
			a = 0;
			b = size;
		}
		add_piece(&p[i], a < size ? a : size, b < size ? b : size);
		a = (2 * n - 1 - i) * half;
		if (how == 'b') {
			add_piece(&p[i], a < size ? a : size,
				  a + half < size ? a + half : size);
		}
	}
}

/* Sums are of what all have, to what each has of it: an all-reduce is none. */
static void
draw_coll(void)
{
	static const int64_t ops[] = { RT_COLL_COPY, RT_COLL_COPY,
				       RT_COLL_SUM, RT_COLL_MAX };
	static const char ways[] = "wcb";
	int64_t d, from, to, size;

	t.group.n = 2 + below(MOST - 1);
	t.plan.nranks = t.group.n;
	t.coll = (struct rt_coll){ .op = ops[below(4)], .elem = below(5),
		.ndims = 1 + below(DIMS), .in = t.ins, .out = t.outs };
	if (t.coll.op == RT_COLL_COPY && below(4) == 0) {
		t.coll.elem = RT_ELEM_U8;
	}
	from = t.coll.op == RT_COLL_COPY ? below(t.coll.ndims) : -1;
	to = below(t.coll.ndims + (t.coll.op == RT_COLL_COPY));
	for (d = 0; d < t.coll.ndims; d++) {
		size = d == t.coll.ndims - 1 && below(2)
			? 128 * t.group.n : 1 + below(7);
		t.ins[d] = &t.in[d];
		t.outs[d] = &t.out[d];
		cut(&t.in[d], t.pieces[2 * d], size,
		    d == from ? ways[1 + below(2)] : 'w');
		cut(&t.out[d], t.pieces[2 * d + 1], size,
		    d == to ? ways[1 + below(2)] : 'w');
	}
}

/* Small numbers, so that a sum of halves does not depend on rounding. */
static void
fill(char *in, int64_t rank)
{
	int64_t i, size = bytes_of(), v;
	float f;

	for (i = 0; i < SPAN / size; i++) {
		v = (i * 7 + rank * 3) % 64;
		f = (float)v;
		if (t.coll.elem == RT_ELEM_U8) {
			in[i] = (char)v;
		} else if (t.coll.elem == RT_ELEM_F64) {
			((double *)(void *)in)[i] = (double)v;
		} else if (t.coll.elem == RT_ELEM_F32) {
			((float *)(void *)in)[i] = f;
		} else if (t.coll.elem == RT_ELEM_I32) {
			((int32_t *)(void *)in)[i] = (int32_t)v;
		} else {
			rt_narrow((enum rt_elem)t.coll.elem, in + i * size,
				  &f, 1);
		}
	}
}

/* ---- the ranks ---- */

static void
run_rank(int64_t me)
{
	struct rt_comm comm = { .plan = &t.plan, .world = { .rank = me } };
	struct rt_nccl_comm c = { .n = t.group.n, .me = me };
	struct rt_group g = t.group;
	struct rt_device d = { .plan = &t.plan, .program = &t.program,
		.comm = &comm, .arena = t.arena[me], .self = &t.gpu[me] };
	struct rt_error err = { .status = RT_OK };
	struct rt_gpu_leg leg = { .call = { .coll = &t.coll,
		.in = t.arena[me], .out = t.arena[me] + SPAN } };

	g.me = me;
	leg.way = rt_gpu_parts_way(&d, &t.coll, &g, 0);
	assert_int_not_equal(leg.way, RT_GPU_HOST);
	t.ways[leg.way]++;
	/* no byte more than what the compiler counts */
	assert_int_equal(rt_coll_scratch(&t.plan, &t.coll, &g, 0,
				      &t.program.comm_bytes, &err), RT_OK);
	assert_in_range(t.program.comm_bytes, 0, SPAN);
	if (rt_gpu_legs(&d, &c, &g, &leg, 1, 0, &err) != RT_OK) {
		fail_msg("rank %d: %s", (int)me, err.message);
	}
}

static void
check_rank(int64_t me)
{
	static char want[SPAN], acc[RT_ACC_BYTES];
	const struct rt_pieces *dims[DIMS];
	struct rt_part parts[MOST] = { { .at = NULL } };
	int64_t i, d;

	for (d = 0; d < t.coll.ndims; d++) {
		dims[d] = &t.out[d].at[me];
		for (i = 0; i < t.group.n; i++) {
			parts[i].dims[d] = &t.in[d].at[i];
			parts[i].at = t.arena[i];
		}
	}
	memset(want, 0xee, sizeof want);
	rt_gather_parts(parts, t.group.n, dims, t.coll.ndims,
			(enum rt_elem)t.coll.elem,
			(enum rt_coll_op)t.coll.op, want, acc);
	assert_memory_equal(t.arena[me] + SPAN, want, SPAN);
}

static void
random_colls(void **state)
{
	int64_t i, r;
	int pass;

	(void)state;
	for (i = 0; i < TRIES; i++) {
		t.seed = (uint64_t)i;
		draw_coll();
		for (r = 0; r < t.group.n; r++) {
			fill(t.arena[r], r);
			memset(t.arena[r] + SPAN, 0xee, SPAN);
		}
		for (pass = 0; pass < 2; pass++) {
			for (r = 0; r < t.group.n; r++) {
				run_rank(r);
			}
		}
		for (r = 0; r < t.group.n; r++) {
			check_rank(r);
		}
	}
	/* each way was gone */
	assert_true(t.ways[RT_GPU_PACK] > 0 && t.ways[RT_GPU_UNPACK] > 0);
	assert_true(t.ways[RT_GPU_PARTS] > 0 && t.launches > 0);
}

/* Scratch that does not suffice is reported, not written past. */
static void
little_room(void **state)
{
	struct rt_comm comm = { .plan = &t.plan };
	struct rt_nccl_comm c = { .n = 2 };
	struct rt_device d = { .plan = &t.plan, .comm = &comm,
		.arena = t.arena[0], .self = &t.gpu[0] };
	struct rt_program p = { .comm_offset = 2 * SPAN, .comm_bytes = 256 };
	struct rt_error err = { .status = RT_OK };
	struct rt_gpu_leg leg = { RT_GPU_PARTS, { .coll = &t.coll,
		.in = t.arena[0], .out = t.arena[0] + SPAN } };

	(void)state;
	d.program = &p;
	t.group.n = t.plan.nranks = 2;
	t.coll = (struct rt_coll){ .op = RT_COLL_SUM, .elem = RT_ELEM_F32,
		.ndims = 1, .in = t.ins, .out = t.outs };
	cut(&t.in[0], t.pieces[0], 201, 'w');
	cut(&t.out[0], t.pieces[1], 201, 'c');
	assert_int_equal(rt_gpu_legs(&d, &c, &t.group, &leg, 1, 0, &err),
			 RT_RANGE);
	assert_non_null(strstr(err.message, "more than the 256 bytes"));
}

static int64_t ranks[MOST] = { 0, 1, 2, 3 };

static int
setup(void **state)
{
	static struct rt_image image = { .name = "services" };
	static struct rt_images images = { .n = 1, .at = &image };
	struct rt_error err;
	int64_t i;

	(void)state;
	image.source = cu_services;
	images.ntexts = cu_nprelude;
	images.texts = (const void *)cu_prelude;
	if (rt_emu_open(&t.emu, &images, 0, &err) != RT_OK) {
		fprintf(stderr, "%s\n", err.message);
		return -1;
	}
	t.plan.images = &images;
	t.plan.nmicrobatches = 1;
	t.group.ranks = ranks;
	t.program.comm_offset = 2 * SPAN;
	for (i = 0; i < MOST; i++) {
		t.arena[i] = aligned_alloc(256, HERE);
		memset(t.arena[i], 0, HERE);
	}
	return 0;
}

static int
teardown(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < MOST; i++) {
		free(t.arena[i]);
	}
	rt_emu_close(t.emu);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_colls),
		cmocka_unit_test(little_room),
	};

	if (!rt_emu_possible()) {
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}

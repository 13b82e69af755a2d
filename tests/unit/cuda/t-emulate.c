/*
 * The emulator of GPUs: kernels of tests/gpu/clean.cu compute what they should
 * and are found clean, in plain and in checked code and at moments that seeds
 * draw; each of tests/gpu/faults.cu is found out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "t-emulate.h"

struct args {
	char *at[3];
	int64_t num[1];
	char *shared;
	const int64_t *live;
	_Alignas(64) char map[3][128];
};

struct fault_args {
	char *at[2];
	int64_t num[1];
	char *shared;
	const int64_t *live;
	_Alignas(64) char map[2][128];
};

static struct rt_emu *
open_file(const char *name, int flags)
{
	struct rt_error err = { 0 };
	struct rt_emu *e = NULL;
	struct t_images x;
	char *text = t_source(name);

	t_images_init(&x);
	t_images_add(&x, name, text);
	if (rt_emu_open(&e, &x.all, flags, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	free(text);
	return e;
}

/* ---- mistakes ---- */

static const struct fault {
	const char *func;
	int64_t threads, cluster;
	const char *says;
} faults[] = {
	{ "write_read", 64, 1, "thread 0: reads 252 of shared memory, which "
	  "nobody has written" },
	{ "read_write", 64, 1, "thread 0: reads 252 of shared memory, where "
	  "thread 63 wrote, with no barrier in between" },
	{ "write_write", 64, 1, "thread 32: writes to 0 of shared memory, "
	  "where thread 0 wrote, with no barrier in between" },
	{ "lanes", 32, 1, "which nobody has written" },
	{ "too_small", 64, 1, "thread 31: reads 252 of shared memory, which "
	  "nobody has written" },
	{ "halves", 32, 1, "which nobody has written" },
	{ "nobody_wrote", 32, 1, "reads 0 of shared memory, which nobody has "
	  "written" },
	{ "past_shared", 32, 1, "writes 4 bytes at 20000 of shared memory, "
	  "which has 20000" },
	{ "past_global", 32, 1, "thread 31: writes 4 bytes of global memory "
	  "at 4096 of an operand of 4096 bytes" },
	{ "half_atomic", 64, 1, "where thread 0 wrote, with no barrier" },
	{ "missing_warp", 64, 1, "all threads wait: thread 0 of block 0 for "
	  "barrier 0 of 64 threads" },
	{ "two_counts", 96, 1, "barrier 1: this thread says that 96 meet "
	  "there, one before it said 64" },
	{ "half_a_warp", 32, 1, "thread 16: ballot, where other lanes of the "
	  "warp do shfl" },
	{ "some_lanes", 32, 1, "all threads wait: thread 0 of block 0 for "
	  "shfl" },
	{ "not_waited", 32, 1, "which a copy still fills" },
	{ "waited_alone", 64, 1, "shared memory, which nobody has written" },
	{ "filled_again", 64, 1, "thread 0: reads 252 of shared memory, where "
	  "thread 63 wrote, with no barrier in between" },
	{ "copy_misaligned", 32, 1, "cp.async of 16 bytes from 0x" },
	{ "matrix_misaligned", 32, 1, "ldmatrix at 8 of shared memory, which "
	  "is not on 16 bytes" },
	{ "matrix_race", 64, 1, "which nobody has written" },
	{ "no_mbarrier", 32, 1, "there is no mbarrier at 0" },
	{ "mbarrier_unseen", 64, 1, "thread 32: the mbarrier at 0 is used "
	  "with no barrier after its mbar_init" },
	{ "mbarrier_written", 32, 1, "there is no mbarrier at 0" },
	{ "wrong_parity", 32, 1, "all threads wait: thread 30 of block 0 for "
	  "the mbarrier at 0, parity 1" },
	{ "arrived_early", 64, 1, "with no barrier in between" },
	{ "waits_apart", 32, 1, "times since its warp met" },
	{ "no_mbar_fence", 32, 1, "thread 0: the copying unit is given an "
	  "mbarrier with no fence_mbar_init" },
	{ "box_misplaced", 32, 1, "a load of a box at 512 of shared memory, "
	  "which is not on 1024 bytes" },
	{ "box_not_waited", 32, 1, "reads 120 of shared memory, which a copy "
	  "still fills: nobody has waited for it" },
	{ "box_forgotten", 32, 1, "thread 0: its load of a box was still "
	  "under way when all threads had ended" },
	{ "too_few_bytes", 32, 1, "all threads wait: thread 0 of block 0 for "
	  "the mbarrier at 8192, parity 0" },
	{ "box_again", 64, 1, "with no barrier in between" },
	{ "store_unfenced", 32, 1, "with no fence_async after it" },
	{ "store_fenced_by_one", 32, 1, "thread 0: a product or a store of a "
	  "box reads 4 of shared memory, which thread 1 wrote with no "
	  "fence_async" },
	{ "store_fenced_late", 64, 1, "with no fence_async after it" },
	{ "load_unfenced", 32, 1, "thread 0: a box is loaded to 0 of shared "
	  "memory, where thread 0 wrote with no fence_async after it" },
	{ "store_written", 32, 1, "which a product or a store of a box still "
	  "reads" },
	{ "store_forgotten", 32, 1, "it ends before its store of a box has "
	  "been read" },
	{ "made_unfenced", 32, 1, "with no fence_async after it" },
	{ "made_again", 32, 1, "which a product or a store of a box still "
	  "reads" },
	{ "made_unmet", 32, 1, "with no barrier in between" },
	{ "wg_unfenced", 128, 1, "wgmma with no wg_fence" },
	{ "wg_not_waited", 128, 1, "reads registers of a wgmma that no "
	  "wg_wait has waited for" },
	{ "wg_plain_writes", 128, 1, "with no fence_async after it" },
	{ "wg_operand_written", 128, 1, "which a product or a store of a box "
	  "still reads" },
	{ "wg_sums_written", 128, 1, "wgmma with no wg_fence after what "
	  "wrote its registers" },
	{ "wg_forgotten", 128, 1, "it ends with a wgmma that no wg_wait has "
	  "waited for" },
	{ "wg_three_warps", 128, 1, "wgmma by the other warps of its "
	  "warpgroup" },
	{ "tc_not_allocated", 128, 1, "a product of columns 0 to 31 of tensor "
	  "memory, which tc_alloc has not allocated" },
	{ "tc_not_freed", 128, 1, "its block ends with tensor memory that no "
	  "tc_dealloc has freed" },
	{ "tc_freed_twice", 128, 1, "tc_dealloc of columns 480 to 511 of "
	  "tensor memory, which tc_alloc has not" },
	{ "tc_other_lanes", 128, 1, "a tc_ld of lanes 32 to 47 of tensor "
	  "memory: this warp's are 0 to 31" },
	{ "tc_no_fence_before", 128, 1, "a product writes column 480 of "
	  "tensor memory, which a warp has read, with no tc_fence_before" },
	{ "tc_no_fence_after", 128, 1, "a tc_ld reads column 480 of tensor "
	  "memory, which a product wrote, with no tc_fence_after" },
	{ "tc_no_mbarrier", 128, 1, "a tc_ld reads column 480 of tensor "
	  "memory, which a product under way writes" },
	{ "tc_no_wait", 128, 1, "reads registers of a tc_ld that no tc_wait "
	  "has waited for" },
	{ "tc_no_commit", 128, 1, "all threads wait" },
	{ "tc_operand_written", 128, 1, "which a product or a store of a box "
	  "still reads" },
	{ "tc_added_to_nothing", 128, 1, "a product adds to column 480 of "
	  "tensor memory, which nothing has written" },
	{ "tc_written_again", 128, 1, "a product writes column 480 of tensor "
	  "memory, which a warp has read, with no tc_fence_after" },
	{ "tc_written_while_read", 128, 1, "a product writes column 480 of "
	  "tensor memory, which a warp has read: nothing" },
	{ "tc_three_columns", 128, 1, "3 columns of tensor memory" },
	{ "tc_store_not_waited", 128, 1, "a product reads column 448 of tensor "
	  "memory, which a tc_st still writes" },
	{ "tc_store_not_fenced", 128, 1, "a product reads column 448 of tensor "
	  "memory, which a tc_st wrote, with no tc_fence_before" },
	{ "tc_store_not_seen", 128, 1, "a product reads column 448 of tensor "
	  "memory, which a tc_st wrote, with no tc_fence_after" },
	{ "tc_store_loaded", 128, 1, "a tc_ld reads column 448 of tensor "
	  "memory, which a tc_st still writes" },
	{ "tc_store_over_left", 128, 1, "a tc_st writes column 448 of tensor "
	  "memory, which a product under way reads" },
	{ "tc_store_over_sums", 128, 1, "a tc_st writes column 480 of tensor "
	  "memory, which a product under way writes" },
	{ "tc_store_other_lanes", 128, 1, "a tc_st of lanes 0 to 15 of tensor "
	  "memory: this warp's are 32 to 63" },
	{ "tc_store_forgotten", 128, 1, "st that no tc_wait_st has waited "
	  "for" },
	{ "tc_left_not_written", 128, 1, "a product reads column 448 of tensor "
	  "memory, which nothing has written" },
	{ "registers", 128, 1, "regs_more(250): 24 to 256 by eights" },
	{ "add_misplaced", 32, 1, "bulk_add of 1024 bytes to an address 4 "
	  "bytes after a multiple of 16" },
	{ "add_outside", 32, 1, "outside of its turn" },
	{ "turn_too_short", 32, 1, "its turn ends before what it adds has "
	  "arrived" },
	{ "turn_without_end", 32, 1, "it ends in its turn, with no "
	  "count_next" },
	{ "turn_of_both", 32, 1, "another block has the same turn, the one "
	  "after 0 blocks" },
	{ "turn_is_over", 32, 1, "its turn is over: it waits until 0 blocks "
	  "have added, and" },
	{ "turn_by_number", 32, 1, "all threads wait: thread 0 of block 1 for "
	  "its turn, when 1 blocks have added: 0 have" },
	{ "no_such_block", 32, 2, "there is no block 2 in a cluster of 2" },
	{ "other_not_ready", 32, 2, "there is no mbarrier at 0" },
	{ "other_arrives_late", 32, 2, "has not waited at the mbarrier at 0, "
	  "where another block's products arrive" },
	{ "lane_comes_alone", 32, 2, "cluster_arrive: this lane has waited 0 "
	  "times since its warp met, another one 1 times" },
	{ "lane_waits_alone", 32, 2, "cluster_wait: this lane has waited 0 "
	  "times since its warp met, another one 1 times" },
	{ "word_read_early", 32, 2, "thread 0: reads 0 of shared memory, which "
	  "a copy still fills" },
	{ "word_not_counted", 32, 2, "the mbarrier at 8" },
	{ "word_elsewhere", 32, 2, "a word that is sent to one block, and its "
	  "mbarrier of another" },
	{ "one_is_gone", 32, 2, "the other blocks of the cluster" }
};

static void
fault_maps(struct fault_args *a)
{
	struct rt_map m = { .elem = RT_ELEM_BF16, .ndims = 2,
			    .size = { 32, 64 }, .stride = { 0, 64 },
			    .box = { 32, 16 } };
	struct rt_error err;

	assert_int_equal(rt_emu_map(a->map[0], &m, a->at[0], &err), RT_OK);
	m.size[0] = m.box[0] = 64;
	m.size[1] = 16;
	m.stride[1] = 128;
	m.swizzle = 128;
	assert_int_equal(rt_emu_map(a->map[1], &m, a->at[0], &err), RT_OK);
}

static void
test_faults(void **state)
{
	struct rt_emu *e = open_file("tests/gpu/faults.cu", RT_EMU_CHECK);
	struct fault_args a = { .at = { NULL } };
	struct rt_grid g = { .blocks = { 2, 1, 1 } };
	struct rt_error err;
	int wrong = 0;
	size_t i;

	(void)state;
	a.at[0] = aligned_alloc(64, 4096);
	a.at[1] = aligned_alloc(64, 4096);
	memset(a.at[0], 0, 4096);
	a.num[0] = 1024 - 31;
	fault_maps(&a);
	rt_emu_allow(e, a.at[0], 4096, &err);
	rt_emu_allow(e, a.at[1], 4096, &err);
	for (i = 0; i < sizeof faults / sizeof faults[0]; i++) {
		const struct fault *f = &faults[i];

		g.func = f->func;
		g.threads = f->threads;
		g.cluster = f->cluster;
		g.smem_bytes = strcmp(f->func, "past_shared") ? 20480
			: 20000;
		/* three blocks: two run at once */
		g.blocks[0] = strcmp(f->func, "turn_by_number") ? 2 : 3;
		memset(&err, 0, sizeof err);
		memset(a.at[0], 0, 4096);
		if (rt_emu_launch(e, &g, &a, &err) == RT_OK ||
		    !strstr(err.message, f->says) ||
		    strncmp(err.message, f->func, strlen(f->func)) != 0) {
			print_error("%s says \"%s\", not \"%s\"\n", f->func,
				    err.message, f->says);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
	free(a.at[0]);
	free(a.at[1]);
	rt_emu_close(e);
}

/* What a kernel may do before it knows that the one before it has ended: plain
 * loads and stores are seen in checked code alone. */
static void
test_early(void **state)
{
	static const struct {
		const char *func, *says;
		int64_t threads;
		bool plain;
	} early[] = {
		{ "early_read", "thread 0: reads global memory before "
		  "launch_wait", 32, true },
		{ "early_write", "thread 0: writes global memory before "
		  "launch_wait", 32, true },
		{ "early_half", "writes global memory before launch_wait",
		  64, true },
		{ "early_end", "thread 32: it ends before launch_wait", 64,
		  false },
		{ "early_copy", "reads global memory before launch_wait", 32,
		  false },
		{ "early_box", "thread 0: reads global memory before "
		  "launch_wait", 32, false },
		{ "late_columns", "tc_alloc after launch_wait", 32, false },
		{ "waits_first", NULL, 32, false }
	};
	struct fault_args a = { .num = { 7 } };
	struct rt_grid g = { .blocks = { 1, 1, 1 }, .cluster = 1,
			     .smem_bytes = 20000 };
	struct rt_error err;
	struct rt_emu *e;
	int checked, when;
	size_t i;

	(void)state;
	a.at[0] = aligned_alloc(64, 4096);
	a.at[1] = aligned_alloc(64, 4096);
	memset(a.at[0], 0, 4096);
	fault_maps(&a);
	for (checked = 0; checked < 4; checked++) {
		when = checked & 1 ? RT_EMU_EARLY : 0;
		e = open_file("tests/gpu/faults.cu", when | (checked & 2
			? RT_EMU_CHECK : 0));
		for (i = 0; i < sizeof early / sizeof early[0]; i++) {
			bool wrong = when && early[i].says &&
				(checked & 2 || !early[i].plain);

			g.func = early[i].func;
			g.threads = early[i].threads;
			memset(&err, 0, sizeof err);
			assert_int_equal(rt_emu_launch(e, &g, &a, &err) !=
					 RT_OK, wrong);
			if (wrong && !strstr(err.message, early[i].says)) {
				fail_msg("%s", err.message);
			}
		}
		rt_emu_close(e);
	}
	free(a.at[0]);
	free(a.at[1]);
}

/* ---- kernels without a mistake ---- */

static float
drawn(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return (float)((int)(*seed >> 16) % 17 - 8) / 8;
}

static uint16_t
as_bf16(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	return (uint16_t)(u >> 16);
}

static float
from_bf16(uint16_t x)
{
	uint32_t u = (uint32_t)x << 16;
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

/* Products of eighths, few enough for f32 to hold their sums exactly. */
static void
check_product(const uint16_t *x, const uint16_t *y, const float *c, int n)
{
	int i, j, k;
	float sum;

	for (i = 0; i < n; i++) {
		for (j = 0; j < n; j++) {
			sum = 0;
			for (k = 0; k < n; k++) {
				sum += from_bf16(x[i * n + k]) *
					from_bf16(y[j * n + k]);
			}
			if (sum != c[i * n + j]) {
				fail_msg("%d, %d: %g, not %g", i, j,
					 c[i * n + j], sum);
			}
		}
	}
}

enum {
	N = 128
};

struct work {
	struct rt_emu *e;
	struct args a;
	uint16_t *x, *y;
	float *c;
};

static void
launch(struct work *w, const char *func, int64_t blocks, int64_t rows,
       int64_t threads, int64_t cluster, int64_t smem)
{
	struct rt_grid g = { .func = func, .blocks = { blocks, rows, 1 },
			     .threads = threads, .cluster = cluster,
			     .smem_bytes = smem };
	struct rt_error err;

	if (rt_emu_launch(w->e, &g, &w->a, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
}

static void
work_init(struct work *w, int flags)
{
	struct rt_map m = { .elem = RT_ELEM_BF16, .ndims = 2,
			    .size = { N, N }, .stride = { 0, 2 * N },
			    .box = { 64, 32 }, .swizzle = 128 };
	struct rt_error err;
	uint32_t seed = 1;
	int i;

	memset(w, 0, sizeof *w);
	w->e = open_file("tests/gpu/clean.cu", flags);
	w->x = aligned_alloc(64, N * N * 2);
	w->y = aligned_alloc(64, N * N * 2);
	w->c = aligned_alloc(64, N * N * 4);
	for (i = 0; i < N * N; i++) {
		w->x[i] = as_bf16(drawn(&seed));
		w->y[i] = as_bf16(drawn(&seed));
	}
	w->a.at[0] = (char *)w->x;
	w->a.at[1] = (char *)w->y;
	w->a.at[2] = (char *)w->c;
	w->a.num[0] = N;
	rt_emu_map(w->a.map[0], &m, w->a.at[0], &err);
	m.box[1] = 64;
	rt_emu_map(w->a.map[1], &m, w->a.at[1], &err);
	m.elem = RT_ELEM_F32;
	m.stride[1] = 4 * N;
	m.swizzle = 0;
	rt_emu_map(w->a.map[2], &m, w->a.at[2], &err);
	rt_emu_allow(w->e, w->x, N * N * 2, &err);
	rt_emu_allow(w->e, w->c, N * N * 4, &err);
	rt_emu_allow(w->e, w->y, N * N * 2, &err);
}

static void
work_free(struct work *w)
{
	rt_emu_close(w->e);
	free(w->x);
	free(w->y);
	free(w->c);
}

/* What is computed with each mode and seed. */
static void
run_small(struct work *w)
{
	float *in = w->c, *out = (float *)(void *)w->y, sum;
	int32_t *n = (int32_t *)(void *)w->y;
	int i, j;

	for (i = 0; i < 1024; i++) {
		in[i] = (float)(i % 100);
	}
	w->a.at[0] = (char *)in;
	launch(w, "sums", 4, 1, 256, 1, 64);
	for (i = 0; i < 4; i++) {
		for (j = 0, sum = 0; j < 256; j++) {
			sum += in[256 * i + j];
		}
		assert_true(sum == out[i]);
	}
	launch(w, "turns", 1, 1, 64, 1, 128);
	for (i = 0; i < 32; i++) {
		assert_int_equal(n[i], 45 * (31 - i));
	}
	launch(w, "small", 1, 1, 64, 1, 128);
	assert_int_equal(n[5], 63 * 64 / 2);
	launch(w, "words", 2, 1, 32, 2, 48);
	assert_int_equal(n[0], 6);
	assert_int_equal(n[1], 7);
	w->a.at[0] = (char *)w->x;
}

static void
run_products(struct work *w)
{
	memset(w->c, 0xff, N * N * 4);
	launch(w, "mma", N / 64, N / 64, 128, 1, 24576);
	check_product(w->x, w->y, w->c, N);
	memset(w->c, 0xff, N * N * 4);
	launch(w, "hopper", N / 64, N / 64, 160, 2, 49152 + 64);
	check_product(w->x, w->y, w->c, N);
}

static void
run_all(int flags, uint64_t seeds)
{
	struct work w;
	uint64_t seed;

	work_init(&w, flags);
	for (seed = 0; seed < seeds; seed++) {
		rt_emu_seed(w.e, seed);
		run_products(&w);
	}
	run_small(&w);
	work_free(&w);
}

static void
test_plain(void **state)
{
	(void)state;
	run_all(0, 4);
}

static void
test_checked(void **state)
{
	(void)state;
	run_all(RT_EMU_CHECK, 4);
}

/* ---- launches and maps that are refused ---- */

static void
test_refused(void **state)
{
	struct rt_grid g = { .func = "sums", .blocks = { 1, 1, 1 },
			     .threads = 256, .cluster = 1 };
	struct rt_map m = { .elem = RT_ELEM_BF16, .ndims = 2,
			    .size = { 64, 64 }, .stride = { 0, 100 },
			    .box = { 64, 64 } };
	_Alignas(64) char map[128];
	struct rt_error err;
	struct work w;

	(void)state;
	work_init(&w, 0);
	g.threads = 100;
	assert_int_not_equal(rt_emu_launch(w.e, &g, &w.a, &err), RT_OK);
	g.threads = 512;
	assert_int_not_equal(rt_emu_launch(w.e, &g, &w.a, &err), RT_OK);
	assert_non_null(strstr(err.message, "at most 256 are legal"));
	g.threads = 256;
	g.smem_bytes = 300000;
	assert_int_not_equal(rt_emu_launch(w.e, &g, &w.a, &err), RT_OK);
	g.smem_bytes = 0;
	g.cluster = 2;
	assert_int_not_equal(rt_emu_launch(w.e, &g, &w.a, &err), RT_OK);
	g.func = "product";
	assert_int_not_equal(rt_emu_launch(w.e, &g, &w.a, &err), RT_OK);
	assert_string_equal(err.message, "image 0 has no kernel product");
	assert_int_equal(rt_emu_args(w.e, 0, "product"), -1);
	assert_int_equal(rt_emu_args(w.e, 0, "sums"), sizeof(struct args));
	assert_int_not_equal(rt_emu_map(map, &m, (char *)w.x, &err), RT_OK);
	assert_non_null(strstr(err.message, "a stride is no multiple of 16"));
	m.stride[1] = 128;
	assert_int_not_equal(rt_emu_map(map, &m, (char *)w.x + 8, &err),
			     RT_OK);
	m.swizzle = 64;
	assert_int_not_equal(rt_emu_map(map, &m, (char *)w.x, &err), RT_OK);
	m.swizzle = 128;
	assert_int_equal(rt_emu_map(map, &m, (char *)w.x, &err), RT_OK);
	work_free(&w);
}

/* ---- images of one plan ---- */

#define IMAGE(n, before, value) { "image" #n, "#include \"prelude.h\"\n" \
	before "struct image" #n "_args {\n\tchar *at[1];\n};\n" \
	"KERNEL(image" #n ", 32, 0, struct image" #n "_args)\n{\n" \
	"\tif (TID == 0) {\n\t\t*(i32 *)a.at[0] = " value ";\n\t}\n}\n" }

/* Names in several images mean what each says, and so do macros and variables
 * of one that others have as well. */
static void
test_images(void **state)
{
	static const struct {
		const char *func, *source;
	} images[8] = {
		IMAGE(0, "FN i32\nhelper(void)\n{\n\treturn 10;\n}\n",
		      "helper()"),
		IMAGE(1, "FN i32\nhelper(void)\n{\n\treturn 11;\n}\n",
		      "helper()"),
		IMAGE(2, "enum { NUMBER = 12 };\n", "NUMBER"),
		IMAGE(3, "enum { NUMBER = 13 };\n", "NUMBER"),
		IMAGE(4, "#define VALUE 14\n", "VALUE"),
		IMAGE(5, "#ifndef VALUE\n#define VALUE 15\n#endif\n", "VALUE"),
		IMAGE(6, "static i32 had = 15;\n", "++had"),
		IMAGE(7, "static i32 had;\n", "had += 17"),
	};
	struct rt_grid g = { .blocks = { 1, 1, 1 }, .threads = 32,
			     .cluster = 1 };
	struct rt_error err = { 0 };
	struct rt_emu *e = NULL;
	struct t_images x;
	int got;
	void *at[1] = { &got };

	(void)state;
	t_images_init(&x);
	for (g.image = 0; g.image < 8; g.image++) {
		t_images_add(&x, "image.cu", images[g.image].source);
	}
	if (rt_emu_open(&e, &x.all, 0, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	assert_int_equal(rt_emu_functions(e), 8);
	for (g.image = 0; g.image < 8; g.image++) {
		g.func = images[g.image].func;
		assert_int_equal(rt_emu_launch(e, &g, at, &err), RT_OK);
		assert_int_equal(got, 10 + g.image);
	}
	rt_emu_close(e);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_checked),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_early),
	};

	if (!rt_emu_possible()) {
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

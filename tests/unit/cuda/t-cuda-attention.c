/*
 * Attention for a GPU against the interpreter: kernels run on the emulator,
 * alone and split, forward and backward, of f32 and of 16 bits.  T_ARCH=NAME
 * tries another architecture, T_CHECK=1 checked code, T_SHOW=1 prints the
 * text, T_ONLY='*apart' some of the tests.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cuda/t-attention-gpu.h"
#include "tests/unit/cuda/t-attention-compiled.h"
#include "tests/unit/shared/t-attention-tests.h"
#include "tests/unit/shared/t-today.h"

/* ---- tests ---- */

/* Keys that an index selects, also of 8 bits: they are read where they lie, and
 * a key whose values are NaN is read again by the queries that see it alone. */
static void
selected(void **state)
{
	static const struct {
		const char *arch, *dtype, *stored;
		int64_t d, v;
	} all[] = {
		{ "sm_80", "bf16", NULL, 64, 64 },
		{ "sm_80", "f32", "f8e4m3", 64, 40 },
		{ "sm_90a", "bf16", "f8e4m3", 128, 128 },
		{ "sm_89", "f16", "f8e5m2", 72, 24 },
		{ "sm_80", "bf16", "f8e4m3", 36, 20 },
		{ "sm_80", "f32", "f8e5m2", 576, 512 }
	};
	struct shape x = plain;
	size_t i;

	(void)state;
	b.flags = RT_EMU_CHECK;
	x.between = x.selected = true;
	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		b.arch = all[i].arch;
		x.dtype = all[i].dtype;
		x.stored = all[i].stored;
		x.d = all[i].d;
		x.v = all[i].v;
		x.k = 1 + i % 2;
		x.h = 2 * x.k;
		x.sinks = i % 2;
		x.s = draw(60, 100);
		x.t = draw(70, 200);
		forward_bad(&x, x.dtype[0] == 'f' && x.dtype[1] == '3' ? 1e-5
			    : 2e-2);
		/* attention, and nothing before it */
		assert_int_equal(s.ranks[0].k[0].steps.n, 1);
	}
	b.flags = b.usual_flags;
	b.arch = "sm_80";
}

/* More keys than a tile has, and more queries than a block. */
static void
long_ones(void **state)
{
	static const char *const how[] = { " causal", "",
					   " causal window=150",
					   " causal softcap=1.5",
					   " alibi=6" };
	struct shape x = plain;
	int i;

	(void)state;
	for (i = 0; i < 5; i++) {
		x.how = how[i];
		x.sinks = i % 2;
		x.between = i > 1;
		x.s = draw(130, 300);
		x.t = i == 1 ? draw(130, 300) : x.s;
		x.k = 2;
		x.h = x.k * (i % 4 + 1);
		x.d = i == 1 ? 128 : 64;
		x.v = x.d;
		x.dtype = "bf16";
		both(&x, 2e-2);
	}
}

/* Beside a key whose values are NaN: in f32 and 16 bits, with mma, wgmma and
 * tensor memory. */
static void
beside_bad(void **state)
{
	static const char *const arch[] = { "sm_80", "sm_80", "sm_90a",
					    "sm_100a" };
	struct shape x = plain;
	int i;

	(void)state;
	b.flags = RT_EMU_CHECK;
	for (i = 0; i < 4; i++) {
		b.arch = arch[i];
		x.between = true;
		x.sinks = i % 2;
		x.how = i == 2 ? " softcap=1.5" : i == 1 ? " alibi=6" : "";
		x.s = draw(130, 200);
		x.t = draw(130, 200);
		x.k = 2;
		x.h = 2 * x.k;
		x.d = 64;
		x.v = i == 1 ? 72 : 64;
		x.dtype = i == 0 ? "f32" : "bf16";
		b.wgmma = 0;
		forward_bad(&x, i == 0 ? 1e-5 : 2e-2);
		assert_int_equal(b.wgmma, i > 1);
	}
	b.flags = b.usual_flags;
	b.arch = "sm_80";
}

/* Heads so wide that results, or operands, come in parts. */
static void
wide_heads(void **state)
{
	static const int64_t d[] = { 192, 576, 1100 }, v[] = { 128, 512, 40 };
	struct shape x = plain;
	int i;

	(void)state;
	for (i = 0; i < times(3); i++) {
		x.how = " causal";
		x.s = x.t = draw(20, 90);
		x.h = 2;
		x.d = d[i % 3];
		x.v = v[i % 3];
		x.dtype = i % 2 ? "f32" : "bf16";
		both(&x, i % 2 ? 1e-5 : 2e-2);
	}
}

static void
f16_and_scales(void **state)
{
	static const char *const how[] = { " scale=-0.2", " causal scale=1",
					   " causal window=40" };
	struct shape x = plain;
	int i;

	(void)state;
	for (i = 0; i < times(3); i++) {
		x = random_shape();
		x.s = x.t = draw(1, 100);
		x.d = 8 * draw(1, 16);
		x.v = 8 * draw(1, 16);
		x.h = 2 * x.k;
		x.how = how[i % 3];
		x.dtype = i == 1 ? "bf16" : "f16";
		both(&x, i == 1 ? 2e-2 : 4e-3);
	}
}

/* Races, reads of what nobody wrote, and what lies outside. */
static void
checked(void **state)
{
	struct shape x;
	int i;

	(void)state;
	b.flags = RT_EMU_CHECK;
	for (i = 0; i < times(2); i++) {
		x = random_shape();
		x.s = draw(20, 100);
		x.t = draw(20, 100);
		x.keys = "t";
		x.dtype = i % 2 ? "f32" : "bf16";
		both(&x, i % 2 ? 1e-5 : 2e-2);
	}
	b.flags = b.usual_flags;
}

/* Which heads a rank has is in memory, and read behind launch_wait. */
static void
heads_checked(void **state)
{
	b.flags = RT_EMU_CHECK;
	heads_apart(state);
	b.flags = b.usual_flags;
}

struct boxed {
	int64_t s, t, d, v;
	const char *how, *dtype;
	uint32_t grids;		/* that have maps, of both directions */
	bool back;
	int64_t shared, units;
};

/* Shapes that the copying unit loads, in checked code. */
static void
check_boxed(const char *arch, const struct boxed *all, int n)
{
	struct shape x = plain;
	int i;

	b.arch = arch;
	b.flags = RT_EMU_CHECK;
	for (i = 0; i < n; i++) {
		x.b = 1 + i % 2;
		x.k = 1 + i % 2;
		x.h = x.k * all[i].shared;
		b.units = all[i].units;
		x.s = all[i].s;
		x.t = all[i].t;
		x.d = all[i].d;
		x.v = all[i].v;
		x.how = all[i].how;
		x.sinks = i % 3 == 2;
		x.between = i % 2 && !b.joint;
		x.dtype = all[i].dtype;
		b.wgmma = 0;
		put_forward(&x);
		check(text, NULL, *x.dtype == 'b' ? 2e-2 : 4e-3);
		if (all[i].back) {
			put_backward(&x);
			check(text, NULL, *x.dtype == 'b' ? 2e-2 : 4e-3);
		}
		assert_int_equal(b.wgmma, all[i].grids);
	}
	b.units = 0;
	b.flags = b.usual_flags;
	b.arch = "sm_80";
}

/*
 * With wgmma and the copying unit: ragged, with windows, heads that share,
 * rows that are no whole boxes, queries that see no key.  The heads of a kv
 * head are in one block, or divided over two or three.
 */
static void
hopper(void **state)
{
	static const struct boxed all[] = {
		{ 140, 200, 128, 128, "", "f16", 4, true, 1, 0 },
		{ 190, 190, 64, 64, " causal window=70", "bf16", 4, true, 2,
		  0 },
		{ 150, 90, 80, 88, " causal scale=-0.2 alibi=9", "bf16", 4,
		  true, 3, 0 },
		{ 130, 150, 64, 64, " causal softcap=1.5", "f16", 4, true, 2,
		  1 },
		{ 70, 140, 192, 128, " window=40 alibi=6", "bf16", 1, false, 1,
		  0 },
		{ 130, 140, 64, 64, " causal", "bf16", 4, true, 4, 2 },
		/* tiles raise references, from far below 0; and a sink's */
		{ 390, 390, 64, 64, " causal alibi=0.01 scale=1", "bf16", 4,
		  true, 1, 0 },
		{ 300, 300, 64, 64, " scale=1", "f16", 4, true, 1, 1 }
	};

	(void)state;
	check_boxed("sm_90a", all, sizeof all / sizeof all[0]);
}

/*
 * All three gradients in one kernel: ragged rows, several sequences, and heads
 * that share, in one block or in a cluster.
 */
static void
joint(void **state)
{
	static const struct boxed all[] = {
		{ 520, 520, 128, 128, " causal", "bf16", 3, true, 1, 0 },
		{ 330, 400, 128, 96, "", "f16", 3, true, 1, 1 },
		{ 384, 384, 128, 128, " causal softcap=1.5", "bf16", 3, true,
		  2, 3 },
		{ 300, 300, 104, 64, " causal alibi=6", "f16", 3, true, 2, 1 }
	};
	static const struct boxed parts[] = {
		{ 130, 130, 128, 128, " causal", "bf16", 3, true, 1, 1 },
		{ 200, 200, 128, 128, " causal", "bf16", 6, true, 1, 1 }
	};
	static const struct boxed sections[] = {
		{ 260, 260, 128, 128, " causal", "bf16", 3, true, 1, 0 },
		{ 390, 390, 128, 128, " causal", "bf16", 3, true, 1, 0 }
	};

	(void)state;
	b.joint = COST_JOINT_SCRATCH;
	check_boxed("sm_90a", all, sizeof all / sizeof all[0]);
	/* the second in four launches, of a head of a sequence each */
	b.joint = 200000;
	check_boxed("sm_90a", parts, sizeof parts / sizeof parts[0]);
	/* a section for each kv head: the second has four */
	b.joint = COST_JOINT_SCRATCH;
	b.cached = 1;
	check_boxed("sm_90a", sections, sizeof sections / sizeof sections[0]);
	b.cached = 0;
	b.joint = 0;
}

/*
 * With tensor memory: one block with several items, results in the place of
 * tiles, tiles of 64 keys, half a block of queries, queries that see no key;
 * gradients with two and three stages, with tiles of 64 columns, of heads that
 * are no whole boxes, with the heads of a kv head in one block or divided over
 * two or three.
 */
static void
blackwell(void **state)
{
	static const struct boxed all[] = {
		{ 330, 390, 128, 128, " causal", "f16", 4, true, 1, 0 },
		{ 300, 520, 64, 64, " causal window=200", "bf16", 4, true, 2,
		  2 },
		{ 150, 90, 80, 88, " causal scale=-0.2 alibi=9", "bf16", 4,
		  true, 3, 0 },
		{ 70, 300, 192, 128, " softcap=1.5", "bf16", 4, true, 1, 0 },
		{ 300, 150, 64, 64, " causal softcap=1.5", "f16", 4, true, 2,
		  0 },
		{ 140, 200, 128, 64, "", "bf16", 4, true, 4, 2 }
	};
	struct boxed late = all[1];

	(void)state;
	check_boxed("sm_100a", all, sizeof all / sizeof all[0]);
	/* a warp that is late finds no barrier two phases ahead */
	for (b.seed = 3; b.seed < 5; b.seed++) {
		check_boxed("sm_100a", &late, 1);
	}
	b.seed = 0;
}

/* What is planted, and what the emulator reports; NULL: the results are
 * wrong. */
struct mistake {
	const char *cut, *put;
	const char *says;
};

/* Of those with one report make check tries the first. */
static bool
is_tried(const struct mistake *all, uint32_t i)
{
	const char *says = all[i].says ? all[i].says : "";
	uint32_t k = 0;

	while (k < i && strcmp(all[k].says ? all[k].says : "", says) != 0) {
		k++;
	}
	return k == i || t_soaks();
}

static void
plant_each(const struct shape *x, void (*write)(const struct shape *),
	   const struct mistake *all, uint32_t n)
{
	uint32_t tried = 0, i;

	b.arch = "sm_90a";
	b.flags = RT_EMU_CHECK;
	s.planted = true;
	for (i = 0; i < n; i++) {
		if (!is_tried(all, i)) {
			continue;
		}
		tried++;
		b.cut = all[i].cut;
		b.put = all[i].put;
		b.is_planted = s.wrong = false;
		b.message[0] = '\0';
		write(x);
		check(text, NULL, 2e-2);
		assert_true(b.is_planted);
		if (all[i].says ? !strstr(b.message, all[i].says)
				: *b.message || !s.wrong) {
			fail_msg("%s: %s", b.cut, b.message);
		}
	}
	printf("%u of %u mistakes\n", tried, n);
	s.planted = false;
	b.cut = NULL;
	b.flags = b.usual_flags;
	b.arch = "sm_80";
}

/* In the gradients, with two heads in a cluster of two blocks. */
static void
planted(void **state)
{
	static const struct mistake all[] = {
		{ "cluster_sync();", ";", "no barrier in between" },
		{ "others read */\n\t\tcluster_sync();", "*/",
		  "no barrier in between" },
		{ "for (int r = 1; r < 2", "for (int r = 2; r < 2", NULL },
		{ "+ cluster_rank() * 1;", "+ 0;", NULL },
		{ "it / 3 & 1);", "it / 3 & 1);\nif (LANE == 0) "
		  "mbar_arrive(empty + 8 * stage);", "still reads" },
		{ "empty + 8 * ((it - 1) % 3)", "empty + 8 * (it % 2)",
		  "all threads wait" },
		{ "mbar_arrive(empty", "(void)(empty", "all threads wait" },
		{ "it / 3 & 1);", "~(it / 3) & 1);", "a copy still fills" },
		{ "sync_warp();", ";", "no barrier in between" },
		{ "sync_named(1, 256);", ";", "no barrier in between" },
		{ "wg_wait(0);", ";", "no wg_wait has waited for" },
		{ "wg_wait(1);", ";", "no wg_wait has waited for" },
		{ "wg_fence();", ";", "no wg_fence after" }
	};
	struct shape x = plain;

	(void)state;
	x.h = 2;
	x.s = 350;
	x.t = 330;
	x.d = x.v = 64;
	x.dtype = "bf16";
	plant_each(&x, put_backward, all, sizeof all / sizeof all[0]);
}

/* In the forward kernel, whose two blocks have two or three items each. */
static void
planted_forward(void **state)
{
	static const struct mistake all[] = {
		/* an item that nobody takes, or all blocks do */
		{ "NBLOCKS_X + atomic_add_i32", "3 + atomic_add_i32", NULL },
		{ "+ in % wide", "+ 0", NULL },
		/* turns, whose waits are for speed alone */
		{ "arrive_named(4 - group, 256);", ";", "all threads wait" },
		{ "arrive_named(3, 256);", ";", "all threads wait" },
		/* rings */
		{ "int turn = 1;", "int turn = 0;", "all threads wait" },
		{ "int turn = 0;", "int turn = 1;", "of shared memory" },
		{ "turn ^= 1;", ";", "a copy still fills" },
		{ "slot += (u32)tiles;", ";", "all threads wait" },
		{ "~((slot + t) / 2) & 1", "(slot + t) / 2 & 1",
		  "all threads wait" },
		{ "(slot + t) / 2 & 1);", "~((slot + t) / 2) & 1);",
		  "a copy still fills" },
		{ "(slot + t - 1) / 2 & 1);", "~((slot + t - 1) / 2) & 1);",
		  "all threads wait" },
		{ "arrive_named(4 - group, 256);", "arrive_named(4 - group, "
		  "256);\nif (LANE == 0) mbar_arrive(bars + 32 + 8 * ((slot + "
		  "t) % 2));", "all threads wait" },
		{ "arrive_named(4 - group, 256);", "arrive_named(4 - group, "
		  "256);\nif (LANE == 0) mbar_arrive(bars + 64 + 8 * ((slot + t"
		  " - 1) % 2));", "a copy still fills" },
		{ "mbar_wait(bars, turn);", "mbar_wait(bars, turn);\nif (LANE "
		  "== 0) mbar_arrive(bars + 8);", "a copy still fills" },
		{ "mbar_arrive(bars + 8);", ";", "all threads wait" },
		{ "mbar_arrive(bars + 32", "(void)(bars", "all threads wait" },
		{ "mbar_arrive(bars + 64", "(void)(bars", "all threads wait" },
		{ "mbar_init(bars + 8, 8);", "mbar_init(bars + 8, 4);",
		  "still reads" },
		{ "fence_mbar_init();", ";", "fence_mbar_init" },
		/* sums */
		{ "wg_wait(0);", ";", "no wg_wait has waited for" },
		{ "wg_wait(1);", ";", "no wg_wait has waited for" },
		{ "wg_fence();", ";", "no wg_fence after" },
		/* what is staged, by each warpgroup for itself */
		{ "sync_named(1 + group, 128);", ";",
		  "nobody has written" },
		{ " + group * 64", " + 0 * 64", NULL }
	};
	/* with one tile of keys, there is no turn in between; and results that
	 * have no space of their own */
	static const struct mistake staged = {
		"the last results have left shared memory */\n\t\t\t"
		"sync_named", "*/\nif (0) sync_named", "no barrier in between"
	}, over = {
		"sync_named(5, 256);", ";", "no barrier in between"
	};
	struct shape x = plain;

	(void)state;
	x.h = 2;
	x.k = 2;
	x.s = 300;
	x.t = 330;
	x.d = x.v = 64;
	x.dtype = "bf16";
	b.units = 2;
	plant_each(&x, put_forward, all, sizeof all / sizeof all[0]);
	x.t = 100;
	plant_each(&x, put_forward, &staged, 1);
	x.d = 192;
	x.v = 128;
	plant_each(&x, put_forward, &over, 1);
	b.units = 0;
}

/* In the forward kernel, where tiles raise references, from far below 0. */
static void
planted_rising(void **state)
{
	static const struct mistake all[] = {
		{ "o[0][j][e] *= fades", "o[0][j][e] += 0 * fades", NULL },
		{ "sum[0][h] *= fades[h];", ";", NULL },
		{ "i32 top = 0;", "i32 top = (i32)0x80000000;", NULL }
	};
	struct shape x = plain;

	(void)state;
	x.s = x.t = 390;
	x.d = x.v = 64;
	x.how = " causal alibi=0.01 scale=1";
	x.dtype = "bf16";
	plant_each(&x, put_forward, all, sizeof all / sizeof all[0]);
}

/* In a forward kernel whose keys and values of 8 bits an index selects. */
static void
planted_selected(void **state)
{
	static const struct mistake all[] = {
		{ "(k_at + (i64)(begin)", "(k_at + 1 + (i64)(begin)", NULL },
		{ "(k_at + (i64)((key0", "(k_at + 0 * (i64)((key0", NULL },
		{ "(v_at + (i64)", "(v_at + 1 + (i64)",
		  "reads 4 bytes of global memory at 800" },
		{ "[(i64)row * 1]", "[0]", NULL },
		{ "put_bf16_8(to, x);", ";", "nobody has written" },
		{ "get_e4m3_8(", "get_e5m2_8(", NULL }
	};
	struct shape x = plain;

	(void)state;
	x.h = 2;
	x.k = 2;
	x.s = 70;
	x.t = 200;
	x.d = x.v = 64;
	x.dtype = "bf16";
	x.between = x.selected = true;
	x.stored = "f8e4m3";
	plant_each(&x, put_forward, all, sizeof all / sizeof all[0]);
}

/* The same of random shapes, some of which it is not for, with wgmma or tensor
 * memory. */
static void
boxed_at_random(void **state)
{
	struct shape x;
	int i;

	(void)state;
	for (i = 0; i < times(1); i++) {
		b.arch = draw(0, 1) ? "sm_90a" : "sm_100a";
		x = random_shape();
		x.s += 64;
		x.t = draw(0, 1) ? x.s : draw(60, 400);
		x.keys = x.s == x.t ? "s" : "t";
		x.d = draw(0, 3) ? 8 * draw(2, 24) : draw(8, 100);
		x.v = draw(0, 3) ? 8 * draw(1, 16) : draw(8, 140);
		x.dtype = draw(0, 3) ? "bf16" : "f16";
		both(&x, 2e-2);
	}
	b.arch = "sm_80";
}

/* What stands around it; queries that are apart. */
static void
hopper_around(void **state)
{
	struct shape x = plain;

	(void)state;
	b.arch = "sm_90a";
	b.wgmma = 0;
	x.b = x.h = 2;
	x.s = x.t = 100;
	x.keys = "s";
	x.d = x.v = 64;
	x.how = " causal";
	x.dtype = "bf16";
	around(&x);
	check(text, "autodiff,cse,dce", 3e-2);
	x.axes = "axis cp = 2 balanced";
	x.cut_s = ":cp";
	x.keys = "t";
	x.sum = "{+cp}";
	x.s = x.t = 290;
	both(&x, 2e-2);
	assert_true(b.wgmma > 10);
	b.arch = "sm_80";
}

/* ---- what NVRTC says ---- */

/* Models' heads: GPT-2's, Llama's, with a window, DeepSeek's, exact ones. */
static void
compiled(void **state)
{
	static const struct {
		const char *arch, *dtype, *how;
		int64_t shared, d, v;
	} all[] = {
		{ "sm_80", "bf16", " causal", 4, 128, 128 },
		{ "sm_86", "bf16", " causal window=512", 1, 64, 64 },
		{ "sm_90a", "f16", " causal", 2, 128, 128 },
		{ "sm_100a", "bf16", " causal", 4, 128, 128 },
		{ "sm_103a", "bf16", " causal", 4, 128, 128 },
		/* if SLOW_TESTS is 1, these too */
		{ "sm_80", "f32", "", 1, 64, 64 },
		{ "sm_80", "bf16", " causal", 1, 64, 64 },
		{ "sm_86", "bf16", " causal", 4, 128, 128 },
		{ "sm_89", "bf16", " causal", 1, 192, 128 },
		{ "sm_80", "bf16", "", 1, 80, 80 },
		{ "sm_90a", "bf16", "", 1, 64, 64 },
		{ "sm_90a", "bf16", " causal window=4096", 8, 256, 256 },
		{ "sm_90a", "bf16", " causal", 4, 576, 512 },
		{ "sm_90a", "f32", " causal", 1, 128, 128 },
		{ "sm_103a", "bf16", " causal window=512", 1, 64, 64 },
		{ "sm_100a", "f16", " softcap=30", 1, 192, 128 }
	};
	const char *slow = getenv("SLOW_TESTS");
	size_t n = slow && strcmp(slow, "1") == 0 ? sizeof all / sizeof all[0]
						  : 5, i;
	struct shape x = plain;

	(void)state;
	for (i = 0; i < n; i++) {
		x.b = 2;
		x.s = x.t = 2048;
		x.k = 2;
		x.h = x.k * all[i].shared;
		x.d = all[i].d;
		x.v = all[i].v;
		x.how = all[i].how;
		x.dtype = all[i].dtype;
		put_forward(&x);
		check_compiled(text, all[i].arch);
		put_backward(&x);
		check_compiled(text, all[i].arch);
		b.joint = COST_JOINT_SCRATCH;
		check_compiled(text, all[i].arch);
		b.joint = 0;
	}
	x.between = true;
	put_forward(&x);
	check_compiled(text, all[0].arch);
	x.selected = true;
	put_forward(&x);
	check_compiled(text, all[0].arch);
	x.stored = "f8e4m3";
	put_forward(&x);
	check_compiled(text, all[0].arch);
	check_compiled(text, "sm_90a");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone),
		cmocka_unit_test(half_as_wide),
		cmocka_unit_test(long_ones),
		cmocka_unit_test(selected),
		cmocka_unit_test(beside_bad),
		cmocka_unit_test(wide_heads),
		cmocka_unit_test(f16_and_scales),
		cmocka_unit_test(heads_checked),
		cmocka_unit_test(sequences_apart),
		cmocka_unit_test(queries_apart),
		cmocka_unit_test(with_neighbours),
		cmocka_unit_test(checked),
		cmocka_unit_test(hopper),
		cmocka_unit_test(joint),
		cmocka_unit_test(blackwell),
		cmocka_unit_test(planted),
		cmocka_unit_test(planted_forward),
		cmocka_unit_test(planted_rising),
		cmocka_unit_test(planted_selected),
		cmocka_unit_test(boxed_at_random),
		cmocka_unit_test(hopper_around),
		cmocka_unit_test(compiled),
	};

	if (t_left_out()) {
		return 77;
	}
	b.arch = "sm_80";
	b.usual_flags = getenv("T_CHECK") ? RT_EMU_CHECK : 0;
	b.flags = b.usual_flags;
	return t_run_today(tests, sizeof tests / sizeof tests[0], 10);
}

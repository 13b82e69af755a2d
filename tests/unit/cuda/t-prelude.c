/*
 * Every function of the prelude, by NVRTC for each architecture and by the C
 * compiler; and what is arithmetic in it against the compiler's own.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "codegen/cg.h"

#include "t-emulate.h"
#include "tests/gpu/primitives.h"

/* ---- NVRTC ---- */

static bool no_nvrtc;

static void
check_image(const char *arch, const struct cg_image *x)
{
	size_t i;

	assert_true(x->cubin_bytes > 0);
	assert_true(x->funcs.n > 0);
	assert_int_equal(x->slow.n, 0);
	for (i = 0; i < x->funcs.n; i++) {
		if (x->funcs.at[i].spill_bytes) {
			fail_msg("%s for %s spills %lld bytes",
				 x->funcs.at[i].name, arch,
				 (long long)x->funcs.at[i].spill_bytes);
		}
	}
}

static void
compile(const char *file, const char *arch)
{
	struct cg_source source = { file, NULL };
	struct cg_images out = { .made_by = NULL };
	char *text = t_source(file);
	struct cg_make make = { .sources = &source, .nsources = 1,
				.arch = arch, .no_cache = true,
				.threads = 1 };
	struct ir_ctx ctx;

	source.text = text;
	ir_ctx_init(&ctx, NULL);
	make.texts = cg_prelude(&ctx.perm, &make.ntexts);
	assert_true(cg_images(&ctx, &make, &out));
	if (out.made_by) {
		check_image(arch, &out.at[0]);
	} else {
		no_nvrtc = true;
	}
	ir_ctx_release(&ctx);
	free(text);
}

static void
test_nvrtc(void **state)
{
	static const char *const archs[] = { "sm_80", "sm_86", "sm_89",
		"sm_90a", "sm_100a", "sm_103a", "sm_120a" };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof archs / sizeof archs[0]; i++) {
		compile("tests/gpu/every-80.cu", archs[i]);
	}
	compile("tests/gpu/every-90.cu", "sm_90a");
	compile("tests/gpu/primitives.cu", "sm_90a");
	compile("tests/gpu/primitives.cu", "sm_100a");
	compile("tests/gpu/primitives.cu", "sm_103a");
	if (no_nvrtc) {
		skip();
	}
}

/* ---- what instructions do, by the emulator ---- */

struct primitive_args {
	char *at[2];
	char *shared;
	const int64_t *live;
	_Alignas(64) char map[PRIMITIVE_MAPS][128];
};

struct bench {
	struct rt_emu *e;
	struct primitive_args a;
};

static void
bench_init(struct bench *b)
{
	char *text = t_source("tests/gpu/primitives.cu");
	struct rt_error err;
	struct t_images x;
	struct rt_map m;
	int i;

	memset(b, 0, sizeof *b);
	t_images_init(&x);
	t_images_add(&x, "primitives.cu", text);
	if (rt_emu_open(&b->e, &x.all, RT_EMU_CHECK, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	free(text);
	b->a.at[0] = aligned_alloc(64, PRIMITIVE_IN_BYTES);
	b->a.at[1] = aligned_alloc(64, PRIMITIVE_OUT_BYTES);
	primitive_fill(b->a.at[0]);
	for (i = 0; i < PRIMITIVE_MAPS; i++) {
		primitive_map(i, &m);
		if (rt_emu_map(b->a.map[i], &m, b->a.at[m.operand], &err) !=
		    RT_OK) {
			fail_msg("%s", err.message);
		}
	}
	rt_emu_allow(b->e, b->a.at[0], PRIMITIVE_IN_BYTES, &err);
	rt_emu_allow(b->e, b->a.at[1], PRIMITIVE_OUT_BYTES, &err);
}

static void
bench_free(struct bench *b)
{
	rt_emu_close(b->e);
	free(b->a.at[0]);
	free(b->a.at[1]);
}

static void
run(struct bench *b, const struct primitive *p)
{
	struct rt_grid g = { .func = p->func, .blocks = { 1, 1, 1 },
			     .threads = p->threads, .cluster = 1,
			     .smem_bytes = PRIMITIVE_SMEM_BYTES };
	struct rt_error err;

	memset(b->a.at[1], 0, PRIMITIVE_OUT_BYTES);
	if (rt_emu_launch(b->e, &g, &b->a, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
}

/* tests/gpu/primitives.out: what a GPU must print too. */
static void
test_golden(void **state)
{
	char *golden = t_source("tests/gpu/primitives.out");
	char line[256];
	struct bench b;
	int i, wrong = 0;

	(void)state;
	bench_init(&b);
	for (i = 0; i < PRIMITIVES; i++) {
		run(&b, &primitives[i]);
		primitive_line(&primitives[i],
			       (const uint32_t *)(void *)b.a.at[1], line,
			       sizeof line - 1);
		if (!strstr(golden, line)) {
			print_error("%s\n", line);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
	bench_free(&b);
	free(golden);
}

static float
bf16_at(const char *p, int64_t i)
{
	uint32_t u = 0;
	float f;

	memcpy((char *)&u + 2, p + 2 * i, 2);
	memcpy(&f, &u, sizeof f);
	return f;
}

/* Sums as lanes have them: row and column of word i of thread t.  Of 64 rows a
 * warp has 16, of wgmma; of 128, 32, of which the last 16 come last. */
static void
place(int t, int i, int rows, int n, int *row, int *col)
{
	*row = t / 32 * (rows / 4) + t % 32 / 4 + i % 4 / 2 * 8 +
		i / (n / 2) * 16;
	*col = i % (n / 2) / 4 * 8 + t % 4 * 2 + i % 2;
}

/* Element (m, k) of rows from m = 64 on is `far` further on. */
struct strides {
	int m, k, far, n, k2;
};

/* Element (n, k) of the other operand is at n * by.n + k * by.k2; 64 deep. */
static void
check_sums(const struct bench *b, int rows, int n, struct strides by)
{
	const float *out = (const float *)(void *)b->a.at[1];
	int t, i, k, row, col;
	float sum;

	for (t = 0; t < 128; t++) {
		for (i = 0; i < rows * n / 128; i++) {
			place(t, i, rows, n, &row, &col);
			for (k = 0, sum = 0; k < 64; k++) {
				sum += bf16_at(b->a.at[0], row % 64 * by.m +
					       row / 64 * by.far + k * by.k) *
					bf16_at(b->a.at[0], col * by.n +
						k * by.k2);
			}
			if (out[i * 128 + t] != sum) {
				fail_msg("row %d, column %d: %g, not %g", row,
					 col, out[i * 128 + t], sum);
			}
		}
	}
}

/* Operands come by the copying unit, along k and along m and n: a layout that
 * only one of both knew would make other sums. */
static void
test_products(void **state)
{
	struct bench b;
	int i;

	(void)state;
	bench_init(&b);
	for (i = 0; i < PRIMITIVES; i++) {
		if (strcmp(primitives[i].func, "wgmma_along_k") == 0) {
			run(&b, &primitives[i]);
			check_sums(&b, 64, 64, (struct strides){
				64, 1, 0, 64, 1 });
		} else if (strcmp(primitives[i].func, "wgmma_along_mn") == 0) {
			run(&b, &primitives[i]);
			check_sums(&b, 64, 128, (struct strides){
				1, 64, 0, 1, 128 });
		} else if (strcmp(primitives[i].func, "tensor_along_k") == 0) {
			run(&b, &primitives[i]);
			check_sums(&b, 128, 64, (struct strides){
				128, 1, 64, 64, 1 });
		} else if (strcmp(primitives[i].func, "tensor_along_mn") ==
			   0) {
			run(&b, &primitives[i]);
			check_sums(&b, 128, 64, (struct strides){
				1, 128, 64, 1, 64 });
		} else if (strcmp(primitives[i].func, "tensor_left") == 0) {
			run(&b, &primitives[i]);
			check_sums(&b, 128, 64, (struct strides){
				64, 1, 4096, 64, 1 });
		}
	}
	bench_free(&b);
}

/* Sines and cosines of rotations keep the bound that the prelude promises. */
static void
test_turns(void **state)
{
	const double unit = 6.283185307179586477 / 4294967296.0;
	const float *out;
	double worst = 0, off;
	struct bench b;
	uint32_t t;
	int i;

	(void)state;
	bench_init(&b);
	out = (const float *)(void *)b.a.at[1];
	for (i = 0; strcmp(primitives[i].func, "turns") != 0; i++) {
	}
	run(&b, &primitives[i]);
	for (i = 0; i < 4096; i++) {
		const float *at = out + i / 128 * 256 + i % 128;

		t = (uint32_t)i * 0x9e3779b1u;
		off = fabs((double)at[0] - sin(t * unit));
		worst = off > worst ? off : worst;
		off = fabs((double)at[128] - cos(t * unit));
		worst = off > worst ? off : worst;
	}
	if (worst >= 0x1p-22) {
		fail_msg("an error of %g", worst);
	}
	bench_free(&b);
}

/*
 * Against whole numbers: x counts halves, so x times a frequency counts 2^-65
 * turns.  Of the frequency that half a position is multiplied with, 32 bits
 * count, and the angle is cut off to whole units of 2^-32 turns.
 */
static void
test_angles(void **state)
{
	const uint32_t *out;
	struct bench b;
	int i;

	(void)state;
	bench_init(&b);
	out = (const uint32_t *)(void *)b.a.at[1];
	for (i = 0; strcmp(primitives[i].func, "angles") != 0; i++) {
	}
	run(&b, &primitives[i]);
	for (i = 0; i < 4096; i++) {
		uint64_t by = 0x9e3779b97f4a7c15u * ((uint64_t)i + 1) >> i % 17;
		int32_t x = (int32_t)((uint32_t)i * 2654435761u) >> 14, off;
		uint64_t turns = (uint64_t)(int64_t)x * (by >> 1) +
			(x < 0 ? -((uint64_t)-x * (by & 1) / 2)
			       : (uint64_t)x * (by & 1) / 2);

		off = (int32_t)(out[i] - (uint32_t)(turns >> 32));
		if (off < -1 || off > 1) {
			fail_msg("%d: %08x, not %08x", i, out[i],
				 (uint32_t)(turns >> 32));
		}
	}
	bench_free(&b);
}

/* Angles of 1024 positions at 16 frequencies. */
static const char rotations[] =
	"#include \"prelude.h\"\n"
	"struct rotation_args {\n"
	"\tchar *at[2];\n\tchar *shared;\n\tconst i64 *live;\n};\n"
	"KERNEL(rotations, 128, 1, struct rotation_args)\n{\n"
	"\tint i = BLOCK_X * 128 + TID, k;\n"
	"\tf32 x = ((const f32 *)a.at[0])[i], *to = (f32 *)a.at[1] + i * 32;\n"
	"\n\tfor (k = 0; k < 16; k++) {\n"
	"\t\tu64 by = ((const u64 *)(a.at[0] + 4096))[k];\n"
	"\n\t\tto[k * 2] = turn_sin(turn_scaled(x, by));\n"
	"\t\tto[k * 2 + 1] = turn_cos(turn_scaled(x, by));\n\t}\n}\n";

struct rotations {
	struct {
		float x[1024];
		uint64_t by[16];
	} in;
	float out[1024][16][2];
};

/* The largest error of 1024 positions from `first` on, `step` apart. */
static double
worst_rotation(struct rt_emu *e, struct rotations *r, double first, double step)
{
	struct rt_grid g = { .func = "rotations", .blocks = { 8, 1, 1 },
			     .threads = 128, .cluster = 1 };
	struct {
		void *at[2], *shared, *live;
	} a = { { &r->in, r->out }, NULL, NULL };
	const long double turn = 6.28318530717958647693L;
	struct rt_error err;
	double worst = 0;
	int i, k;

	for (i = 0; i < 1024; i++) {
		r->in.x[i] = (float)(first + i * step);
	}
	if (rt_emu_launch(e, &g, &a, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	for (i = 0; i < 1024 * 16; i++) {
		const float *y = r->out[i / 16][k = i % 16];
		long double t = ldexpl((long double)r->in.by[k], -64) *
			r->in.x[i / 16];
		double x = (double)((t - rintl(t)) * turn);

		worst = fmax(worst, fabs((double)y[0] - sin(x)));
		worst = fmax(worst, fabs((double)y[1] - cos(x)));
	}
	return worst;
}

/* All positions of a context of 2^17 tokens, as many up to 2^24, numbers below
 * 0 and parts of a position: the bound holds as for one. */
static void
test_positions(void **state)
{
	struct rotations *r = calloc(1, sizeof *r);
	struct rt_error err;
	struct t_images x;
	struct rt_emu *e;
	double worst = 0;
	int i;

	(void)state;
	assert_non_null(r);
	t_images_init(&x);
	t_images_add(&x, "rotations.cu", rotations);
	if (rt_emu_open(&e, &x.all, 0, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	for (i = 0; i < 16; i++) {	/* theta 500000, heads of 128 */
		r->in.by[i] = (uint64_t)ldexp(pow(500000, -i / 16.0) *
					      0.15915494309189533577, 64);
	}
	for (i = 0; i < 128; i++) {
		worst = fmax(worst, worst_rotation(e, r, 1024.0 * i, 1));
		worst = fmax(worst, worst_rotation(e, r, 131072.0 * i + i,
						   127));
	}
	worst = fmax(worst, worst_rotation(e, r, -0x1p24, 16411));
	worst = fmax(worst, worst_rotation(e, r, -3, 1 / 256.0));
	worst = fmax(worst, worst_rotation(e, r, 0, 0x1p-40));
	if (worst >= 0x1p-22) {
		fail_msg("an error of %g", worst);
	}
	rt_emu_close(e);
	free(r);
}

/* A kernel begins while the one before it writes, so nothing that it reads is
 * read-only as long as it runs. */
static void
test_coherent(void **state)
{
	uint32_t i;

	(void)state;
	assert_true(cu_nprelude > 0);
	for (i = 0; i < cu_nprelude; i++) {
		if (strstr(cu_prelude[i].text, "global.nc")) {
			fail_msg("%s has loads that are not coherent",
				 cu_prelude[i].name);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_coherent),
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_products),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_angles),
		cmocka_unit_test(test_positions),
		cmocka_unit_test(test_nvrtc),
	};

	if (!rt_emu_possible()) {
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * What primitives.cu makes of its operands, on a GPU or on the emulator, a
 * line for each function: primitives.out is what both must print.
 *
 *	primitives compile ARCH CU CUBIN	by NVRTC, where that is
 *	primitives cuda|emulate CU CUBIN [ARCH]	prints it; ARCH: sm_90a
 *
 * Without what it takes it says so in a line; the exit status is 1.
 */
#include <stdlib.h>

#include "codegen/cg.h"
#include "runtime/device/cuda_device.h"
#include "runtime/emulate/emulate.h"
#include "runtime/train/rank.h"
#include "tests/gpu/primitives.h"

/* A driver of the tests finds its images here. */
static struct rt_image image = { .name = "primitives" };
static struct rt_images images = { .n = 1, .at = &image,
				   .made_by = "NVRTC" };
const struct rt_plan llmc_plan = { .arch = "sm_90a", .images = &images };

static const struct rt_kernel kernel = { .what = "primitives", .nat = 2 };

struct bench {
	struct rt_gpu g;
	struct rt_device d;
	struct rt_plan plan;
	struct rt_map maps[PRIMITIVE_MAPS];
	char *at[2];		/* of the device */
	char *host;		/* PRIMITIVE_IN_BYTES, or what comes out */
	struct rt_emu *emu;
	struct rt_error err;
};

static int
fail(const char *why)
{
	fprintf(stderr, "primitives: %s\n", why);
	return 1;
}

static char *
read_file(const char *path)
{
	enum { MOST = 1 << 22 };
	char *text = calloc(1, MOST);
	FILE *f = fopen(path, "rb");

	if (!f || !text || fread(text, 1, MOST - 1, f) == 0) {
		free(text);
		text = NULL;
	}
	if (f) {
		fclose(f);
	}
	return text;
}

/* ---- compiling ---- */

static int
compile(const char *arch, const char *from, const char *to)
{
	struct cg_source source = { "primitives", read_file(from) };
	struct cg_make make = { .sources = &source, .nsources = 1,
				.arch = arch, .no_cache = true };
	struct cg_images made = { .made_by = NULL };
	const char *why = NULL;
	struct ir_ctx ctx;
	FILE *f = NULL;
	bool done;

	if (!source.text) {
		return fail("its source cannot be read");
	}
	ir_ctx_init(&ctx, NULL);
	make.texts = cg_prelude(&ctx.perm, &make.ntexts);
	done = cg_arch_known(arch, &ctx.perm, &why) &&
	       cg_images(&ctx, &make, &made);
	diag_flush(&ctx.diags, stderr);
	if (!done || !made.made_by) {
		return fail(why ? why : made.missing ? made.missing
			    : "it does not compile");
	}
	f = fopen(to, "wb");
	done = f && fwrite(made.at[0].cubin, 1, (size_t)
			   made.at[0].cubin_bytes, f) ==
		(size_t)made.at[0].cubin_bytes;
	done = (!f || fclose(f) == 0) && done;
	ir_ctx_release(&ctx);
	free((char *)(uintptr_t)source.text);
	return done ? 0 : fail("what was compiled cannot be written");
}

/* ---- by a GPU ---- */

static enum rt_status
open_gpu(struct bench *b)
{
	struct rt_gpu *g = &b->g;
	struct rt_error *err = &b->err;
	uint64_t at[2] = { 0, 0 };
	enum rt_status status = rt_gpu_load(&g->api, getenv("LLMC_LIBCUDA"),
					    err);

	if (status == RT_OK) {
		status = rt_gpu_query(&g->api, 0, &g->facts, err);
	}
	if (status == RT_OK) {
		status = rt_gpu_fits(&b->plan, &g->facts, err);
	}
	if (status == RT_OK) {
		status = rt_gpu_context(g, err);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, alloc, &at[0], PRIMITIVE_IN_BYTES);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, alloc, &at[1], PRIMITIVE_OUT_BYTES);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, pin, (void **)&b->host,
			     PRIMITIVE_IN_BYTES, 0);
	}
	b->at[0] = (char *)(uintptr_t)at[0];
	b->at[1] = (char *)(uintptr_t)at[1];
	return status == RT_OK ? rt_gpu_images(&b->d, err) : status;
}

static void
close_gpu(struct bench *b)
{
	struct rt_gpu *g = &b->g;
	int i;

	rt_gpu_images_free(g);
	rt_gpu_end_stream(g);
	if (b->host) {
		g->api.unpin(b->host);
	}
	for (i = 0; i < 2; i++) {
		if (b->at[i]) {
			g->api.release((uint64_t)(uintptr_t)b->at[i]);
		}
	}
	rt_gpu_leave(g);
}

static enum rt_status
run_gpu(struct bench *b, const struct rt_grid *grid, size_t bytes)
{
	struct rt_call c = { .at = b->at };
	struct rt_gpu *g = &b->g;
	struct rt_error *err = &b->err;
	uint64_t out = (uint64_t)(uintptr_t)b->at[1];
	enum rt_status status = GPU(&g->api, set, out, 0,
				    PRIMITIVE_OUT_BYTES, g->stream);

	if (status == RT_OK) {
		status = rt_gpu_launch(&b->d, &kernel, grid, &c,
				       g->stream, err);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, to_host, b->host, out, bytes,
			     g->stream);
	}
	return status == RT_OK ? rt_gpu_wait(&b->d, err) : status;
}

static enum rt_status
fill_gpu(struct bench *b)
{
	struct rt_gpu *g = &b->g;
	struct rt_error *err = &b->err;
	enum rt_status status;

	primitive_fill(b->host);
	status = GPU(&g->api, to_device, (uint64_t)(uintptr_t)b->at[0],
		     b->host, PRIMITIVE_IN_BYTES, g->stream);
	return status == RT_OK ? rt_gpu_wait(&b->d, err) : status;
}

/* ---- by the emulator ---- */

static enum rt_status
open_emulator(struct bench *b)
{
	b->at[0] = aligned_alloc(64, PRIMITIVE_IN_BYTES);
	b->at[1] = aligned_alloc(64, PRIMITIVE_OUT_BYTES);
	if (!b->at[0] || !b->at[1]) {
		return rt_no_memory(&b->err, NULL);
	}
	primitive_fill(b->at[0]);
	b->host = b->at[1];
	return rt_emu_open(&b->emu, &images, 0, &b->err);
}

static enum rt_status
run_emulator(struct bench *b, const struct rt_grid *grid)
{
	_Alignas(RT_MAP_ALIGN) char args[RT_ARGS_BYTES];
	struct rt_call c = { .at = b->at };
	enum rt_status status = rt_args_words(&kernel, grid, &c, args,
					      &b->err);
	int64_t i;

	memset(b->at[1], 0, PRIMITIVE_OUT_BYTES);
	for (i = 0; i < grid->nmaps && status == RT_OK; i++) {
		status = rt_emu_map(args + rt_args_maps(&kernel) +
				    i * RT_MAP_BYTES, &b->maps[i],
				    b->at[b->maps[i].operand], &b->err);
	}
	return status == RT_OK ? rt_emu_launch(b->emu, grid, args, &b->err)
			       : status;
}

/* ---- all of them ---- */

static enum rt_status
run_all(struct bench *b)
{
	static struct rt_grid grids[PRIMITIVES];
	/* 9 of sm_90a */
	int major = atoi(b->plan.arch + strlen("sm_")) / 10;
	enum rt_status status = RT_OK;
	char line[256];
	int i;

	for (i = 0; i < PRIMITIVES && status == RT_OK; i++) {
		const struct primitive *p = &primitives[i];

		if (p->major && p->major != major) {
			continue;
		}
		grids[i] = (struct rt_grid){ .func = p->func,
			.blocks = { 1, 1, 1 }, .threads = p->threads,
			.cluster = 1, .smem_bytes = PRIMITIVE_SMEM_BYTES,
			.nmaps = PRIMITIVE_MAPS, .maps = b->maps };
		status = b->emu ? run_emulator(b, &grids[i])
			: run_gpu(b, &grids[i], (size_t)p->words * 4);
		if (status == RT_OK) {
			primitive_line(p, (const uint32_t *)(const void *)
				       b->host, line, sizeof line);
			puts(line);
		}
	}
	return status;
}

static int
dump(bool emulate, const char *arch)
{
	struct bench b = { .plan = llmc_plan };
	enum rt_status status;
	int i;

	b.plan.arch = arch;
	b.d.plan = &b.plan;
	b.d.self = &b.g;
	for (i = 0; i < PRIMITIVE_MAPS; i++) {
		primitive_map(i, &b.maps[i]);
	}
	status = emulate ? open_emulator(&b) : open_gpu(&b);
	if (status == RT_OK && !emulate) {
		status = fill_gpu(&b);
	}
	if (status == RT_OK) {
		status = run_all(&b);
	}
	if (emulate) {
		rt_emu_close(b.emu);
		free(b.at[0]);
		free(b.at[1]);
	} else {
		close_gpu(&b);
	}
	return status == RT_OK ? 0 : fail(b.err.message);
}

static void
take_prelude(void)
{
	/* as in struct rt_images, which names no type for them */
	static struct {
		const char *name, *text;
	} texts[16];
	const struct cg_source *at;
	struct ir_ctx ctx;
	uint32_t n, i;

	ir_ctx_init(&ctx, NULL);
	at = cg_prelude(&ctx.perm, &n);
	for (i = 0; i < n && i < 16; i++) {
		texts[i].name = at[i].name;
		texts[i].text = at[i].text;
	}
	ir_ctx_release(&ctx);
	images.ntexts = i;
	images.texts = (const void *)texts;
}

int
main(int argc, char **argv)
{
	bool emulate = argc >= 4 && strcmp(argv[1], "emulate") == 0;

	if (argc == 5 && strcmp(argv[1], "compile") == 0) {
		return compile(argv[2], argv[3], argv[4]);
	}
	if (argc < 4 || argc > 5 ||
	    (!emulate && strcmp(argv[1], "cuda") != 0)) {
		return fail("compile ARCH CU CUBIN, or cuda|emulate CU CUBIN "
			    "[ARCH]");
	}
	image.source = read_file(argv[2]);
	image.cubin = read_file(argv[3]);
	if (!image.source || (!emulate && !image.cubin)) {
		return fail("what it is to run cannot be read");
	}
	take_prelude();
	return dump(emulate, argc == 5 ? argv[4] : llmc_plan.arch);
}

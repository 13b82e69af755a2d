/*
 * CUDA devices as a meter: cuBLAS multiplies, two kernels in PTX read and add,
 * events on a stream measure time.  Everything but collectives is measured on
 * the first device.
 *
 * Numbers are never zeros, which a device multiplies with less power and so at
 * a higher clock.
 */
#include "runtime/measure/measure_cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rt_where nowhere = { NULL, NULL, -1 };

/* cuda_device.h: CUdevice_attribute. */
enum {
	ATTR_CLOCK_KHZ = 13, ATTR_UNITS = 16, ATTR_L2_BYTES = 38,
	ATTR_MAJOR = 75, ATTR_MINOR = 76
};
/* cublas_api.h and library_types.h. */
enum {
	BLAS_OP_N = 0, BLAS_DEFAULT = -1, BLAS_FP32 = 68, BLAS_EXACT = 69,
	BLAS_TF32 = 77
};
enum { TYPE_FP32 = 0, TYPE_FP16 = 2, TYPE_BF16 = 14 };

/* ---- kernels ---- */

/*
 * PTX, which the driver compiles for the device: an empty kernel; a sum that is
 * stored only if it has a value that it never has; and a + 3 b.  n counts
 * 16-byte pieces, over which threads stride.
 */
#define PTX_INDEX \
	"mov.u32 i, %ctaid.x; mov.u32 w, %ntid.x; mov.u32 s, %tid.x;\n" \
	"mad.lo.u32 i, i, w, s; mov.u32 s, %nctaid.x;\n" \
	"mul.lo.u32 s, s, w;\n"
#define PTX_REGISTERS \
	".reg .pred p; .reg .u32 i, w, s, n; .reg .u64 a, b, c, o, x;\n" \
	".reg .f32 f<9>;\n"

static const char ptx[] =
	".version 6.4\n.target sm_70\n.address_size 64\n"
	".visible .entry empty() { ret; }\n"
	".visible .entry read(.param .u64 pa, .param .u64 pb, "
	".param .u64 pc, .param .u32 pn) {\n"
	PTX_REGISTERS
	"ld.param.u64 a, [pa]; ld.param.u64 b, [pb]; ld.param.u32 n, [pn];\n"
	"cvta.to.global.u64 a, a; cvta.to.global.u64 b, b;\n"
	"mov.f32 f8, 0f00000000;\n"
	PTX_INDEX
	"READ_LOOP: setp.ge.u32 p, i, n; @p bra READ_END;\n"
	"mul.wide.u32 o, i, 16; add.u64 x, b, o;\n"
	"ld.global.v4.f32 {f0, f1, f2, f3}, [x];\n"
	"add.f32 f0, f0, f1; add.f32 f2, f2, f3; add.f32 f0, f0, f2;\n"
	"add.f32 f8, f8, f0; add.u32 i, i, s; bra READ_LOOP;\n"
	"READ_END: setp.neu.f32 p, f8, 0fC2280000; @p bra READ_RET;\n"
	"st.global.f32 [a], f8;\n"
	"READ_RET: ret;\n}\n"
	".visible .entry triad(.param .u64 pa, .param .u64 pb, "
	".param .u64 pc, .param .u32 pn) {\n"
	PTX_REGISTERS
	"ld.param.u64 a, [pa]; ld.param.u64 b, [pb];\n"
	"ld.param.u64 c, [pc]; ld.param.u32 n, [pn];\n"
	"cvta.to.global.u64 a, a; cvta.to.global.u64 b, b;\n"
	"cvta.to.global.u64 c, c;\n"
	PTX_INDEX
	"TRIAD_LOOP: setp.ge.u32 p, i, n; @p bra TRIAD_END;\n"
	"mul.wide.u32 o, i, 16;\n"
	"add.u64 x, b, o; ld.global.v4.f32 {f0, f1, f2, f3}, [x];\n"
	"add.u64 x, c, o; ld.global.v4.f32 {f4, f5, f6, f7}, [x];\n"
	"fma.rn.f32 f0, f4, 0f40400000, f0;\n"
	"fma.rn.f32 f1, f5, 0f40400000, f1;\n"
	"fma.rn.f32 f2, f6, 0f40400000, f2;\n"
	"fma.rn.f32 f3, f7, 0f40400000, f3;\n"
	"add.u64 x, a, o; st.global.v4.f32 [x], {f0, f1, f2, f3};\n"
	"add.u32 i, i, s; bra TRIAD_LOOP;\n"
	"TRIAD_END: ret;\n}\n";

enum { THREADS = 256, BLOCKS_A_UNIT = 16, PIECE = 16 };

/* ---- the clock ---- */

/* Work that is enqueued `runs` times between two events. */
struct queued {
	struct rt_cuda *c;
	enum rt_status (*once)(void *user, struct rt_error *err);
	void *user;
};

static enum rt_status
run_queue(void *user, int runs, struct rt_timing *out, struct rt_error *err)
{
	struct queued *q = user;
	struct rt_cuda *c = q->c;
	enum rt_status status = CALL(c, event_record, c->from, c->stream);
	float ms = 0;
	int i;

	for (i = 0; i < runs && status == RT_OK; i++) {
		status = q->once(q->user, err);
	}
	if (status == RT_OK) {
		status = CALL(c, event_record, c->to, c->stream);
	}
	if (status == RT_OK) {
		status = CALL(c, event_wait, c->to);
	}
	if (status == RT_OK) {
		status = CALL(c, event_elapsed, &ms, c->from, c->to);
	}
	out->wall_us = (double)ms * 1e3;
	return status;
}

static enum rt_status
measure_queued(struct rt_meter *m, enum rt_status (*once)(void *,
							  struct rt_error *),
	       void *user, struct rt_sample *out, struct rt_error *err)
{
	struct queued q = { m->self, once, user };

	return rt_sample_measure(&m->pace, 1, run_queue, &q, out, err);
}

/* ---- contractions ---- */

struct matmul {
	struct rt_cuda *c;
	struct rt_matmul_shape x;
	rt_cu_address a, b, out;
};

static int
type_of(enum rt_rate r)
{
	return r == RT_RATE_BF16 ? TYPE_BF16 : r == RT_RATE_FP16 ? TYPE_FP16
		: TYPE_FP32;
}

static size_t
bytes_of(enum rt_rate r)
{
	return r == RT_RATE_BF16 || r == RT_RATE_FP16 ? 2 : 4;
}

/* cuBLAS is column-major: it computes C' = B' A'. */
static enum rt_status
multiply(void *user, struct rt_error *err)
{
	struct matmul *g = user;
	const struct rt_matmul_shape *x = &g->x;
	static const float one = 1, zero = 0;
	int type = type_of(x->rate), n = (int)x->n, m = (int)x->m;
	int k = (int)x->k;

	return CALL(g->c, gemm, g->c->blas, BLAS_OP_N, BLAS_OP_N, n, m, k,
		    &one, (const void *)(uintptr_t)g->b, type, n,
		    (const void *)(uintptr_t)g->a, type, k, &zero,
		    (void *)(uintptr_t)g->out, type, n,
		    x->rate == RT_RATE_FP32 ? BLAS_EXACT :
		    x->rate == RT_RATE_TF32 ? BLAS_TF32 : BLAS_FP32,
		    BLAS_DEFAULT);
}

/* Element i of a matrix: k / 128 with k of 8 bits, exact in every type. */
static float
element(int64_t i, uint32_t seed)
{
	uint32_t x = ((uint32_t)i + seed) * 2654435761u;

	x = (x ^ x >> 15) * 2246822519u;
	return (float)((int)(x >> 24) - 128) / 128;
}

/* Its bits in that type, for numbers that need no rounding. */
static uint32_t
bits_of(enum rt_rate rate, float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof bits);
	if (rate == RT_RATE_BF16) {
		return bits >> 16;
	}
	if (rate != RT_RATE_FP16 || v == 0) {
		return bits;
	}
	return (bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) |
	       (bits >> 13 & 0x3ff);
}

static float
value_of(enum rt_rate rate, uint32_t bits)
{
	float v;

	if (rate == RT_RATE_BF16) {
		bits <<= 16;
	} else if (rate == RT_RATE_FP16) {
		if (!(bits & 0x7fff)) {
			return 0;
		}
		bits = (bits & 0x8000) << 16 |
		       ((bits >> 10 & 0x1f) + 112) << 23 |
		       (bits & 0x3ff) << 13;
	}
	memcpy(&v, &bits, sizeof v);
	return v;
}

/* Fills a matrix on the device, a megabyte at a time. */
static enum rt_status
make_matrix(struct rt_cuda *c, enum rt_rate rate, int64_t n, uint32_t seed,
	    rt_cu_address *out, struct rt_error *err)
{
	size_t elem = bytes_of(rate), piece = (size_t)1 << 20, fill = 0;
	enum rt_status status = CALL(c, alloc, out, (size_t)n * elem);
	char *host = malloc(piece);
	int64_t i, from = 0;

	if (!host && status == RT_OK) {
		status = rt_no_memory(err, NULL);
	}
	for (i = 0; i < n && status == RT_OK; i++) {
		uint32_t bits = bits_of(rate, element(i, seed));

		memcpy(host + fill, &bits, elem); /* little-endian */
		fill += elem;
		if (fill == piece || i + 1 == n) {
			status = CALL(c, to_device, *out + (size_t)from * elem,
				      host, fill);
			from = i + 1;
			fill = 0;
		}
	}
	free(host);
	return status;
}

/* Compares one element of the result with its definition, within rounding. */
static enum rt_status
check_element(struct matmul *g, int64_t i, int64_t j, struct rt_error *err)
{
	size_t elem = bytes_of(g->x.rate);
	double want = 0, got;
	uint32_t bits = 0;
	enum rt_status status;
	int64_t k;

	status = CALL(g->c, to_host, &bits, g->out +
		      (size_t)(i * g->x.n + j) * elem, elem);
	if (status != RT_OK) {
		return status;
	}
	for (k = 0; k < g->x.k; k++) {
		want += (double)element(i * g->x.k + k, 1) *
			(double)element(k * g->x.n + j, 2);
	}
	got = (double)value_of(g->x.rate, bits);
	if (fabs(got - want) <= fabs(want) / 100 +
	    1e-3 * sqrt((double)g->x.k)) {
		return RT_OK;
	}
	return rt_fail(err, RT_FORMAT, nowhere, "cublasGemmEx computes "
		       "%lldx%lldx%lld wrong: %g where %g is right",
		       (long long)g->x.m, (long long)g->x.n,
		       (long long)g->x.k, got, want);
}

static enum rt_status
matmul(struct rt_meter *m, const struct rt_matmul_shape *x,
       struct rt_sample *out, struct rt_error *err)
{
	struct matmul g = { m->self, *x, 0, 0, 0 };
	enum rt_status status;

	status = make_matrix(g.c, x->rate, x->m * x->k, 1, &g.a, err);
	if (status == RT_OK) {
		status = make_matrix(g.c, x->rate, x->k * x->n, 2, &g.b, err);
	}
	if (status == RT_OK) {
		status = CALL(g.c, alloc, &g.out, (size_t)(x->m * x->n) *
			      bytes_of(x->rate));
	}
	if (status == RT_OK) {
		status = measure_queued(m, multiply, &g, out, err);
	}
	if (status == RT_OK) {
		status = check_element(&g, 0, 0, err);
	}
	if (status == RT_OK) {
		status = check_element(&g, x->m - 1, x->n / 2, err);
	}
	g.c->api.release(g.a);
	g.c->api.release(g.b);
	g.c->api.release(g.out);
	return status;
}

/* ---- what only moves bytes, and nothing ---- */

struct gpu_stream {
	struct rt_meter *m;
	struct rt_cuda *c;
	enum rt_stream kind;
	rt_cu_address a, b, d;
	size_t bytes;
};

static enum rt_status
launch_kernel(struct gpu_stream *s, void *kernel, struct rt_error *err)
{
	uint32_t n = (uint32_t)(s->bytes / PIECE);
	void *arguments[] = { &s->a, &s->b, &s->d, &n };

	return CALL(s->c, launch, kernel,
		    (unsigned)s->m->facts.units * BLOCKS_A_UNIT, 1, 1,
		    THREADS, 1, 1, 0, s->c->stream, arguments, NULL);
}

static enum rt_status
move(void *user, struct rt_error *err)
{
	struct gpu_stream *s = user;

	switch (s->kind) {
	case RT_READ:
		return launch_kernel(s, s->c->read, err);
	case RT_WRITE:
		return CALL(s->c, set, s->a, 0x40400000, s->bytes / 4,
			    s->c->stream);
	case RT_COPY:
		return CALL(s->c, copy, s->a, s->b, s->bytes, s->c->stream);
	default:
		return launch_kernel(s, s->c->triad, err);
	}
}

/*
 * Checks the last element: 3 of a write, that of b of a copy, b + 3 d of a
 * triad, where all are ones.
 */
static enum rt_status
check_move(struct gpu_stream *s, struct rt_error *err)
{
	static const float wants[RT_STREAMS] = { 0, 3, 1, 4 };
	float got = 0;
	enum rt_status status = CALL(s->c, to_host, &got,
				     s->a + s->bytes - 4, sizeof got);

	if (status == RT_OK && s->kind != RT_READ && got != wants[s->kind]) {
		status = rt_fail(err, RT_FORMAT, nowhere, "a %s gave %g where "
				 "%g is right", rt_stream_names[s->kind],
				 (double)got, (double)wants[s->kind]);
	}
	return status;
}

static enum rt_status
stream(struct rt_meter *m, enum rt_stream kind, int64_t bytes,
       struct rt_sample *out, struct rt_error *err)
{
	struct gpu_stream s = { m, m->self, kind, 0, 0, 0, (size_t)bytes };
	rt_cu_address *at[3] = { &s.a, &s.b, &s.d };
	enum rt_status status = RT_OK;
	int i;

	for (i = 0; i < 3 && status == RT_OK; i++) {
		status = CALL(s.c, alloc, at[i], s.bytes);
		if (status == RT_OK) {
			status = CALL(s.c, set, *at[i], 0x3f800000,
				      s.bytes / 4, s.c->stream);
		}
	}
	if (status == RT_OK) {
		status = measure_queued(m, move, &s, out, err);
	}
	if (status == RT_OK) {
		status = check_move(&s, err);
	}
	for (i = 0; i < 3; i++) {
		s.c->api.release(*at[i]);
	}
	return status;
}

static enum rt_status
launch_empty(void *user, struct rt_error *err)
{
	struct rt_cuda *c = user;

	return CALL(c, launch, c->empty, 1, 1, 1, 32, 1, 1, 0, c->stream,
		    NULL, NULL);
}

static enum rt_status
launch(struct rt_meter *m, struct rt_sample *out, struct rt_error *err)
{
	return measure_queued(m, launch_empty, m->self, out, err);
}

static enum rt_status
attention(struct rt_meter *m, const struct rt_attention_shape *x,
	  struct rt_sample *out, struct rt_error *err)
{
	(void)x;
	(void)out;
	return rt_fail(err, RT_RANGE, nowhere, "%s", m->facts.no_attention);
}

/* ---- opening ---- */

static enum rt_status
get_attribute(struct rt_cuda *c, int attribute, int64_t *out,
	      struct rt_error *err)
{
	int v = 0;
	enum rt_status status = CALL(c, device_attribute, &v, attribute,
				     c->devices[0]);

	*out = v;
	return status;
}

static enum rt_status
read_facts(struct rt_meter *m, struct rt_cuda *c, struct rt_error *err)
{
	struct rt_facts *f = &m->facts;
	int64_t khz, cache, major, minor;
	size_t memory = 0;
	int r;

	if (CALL(c, device_name, f->name, sizeof f->name - 1,
		 c->devices[0]) != RT_OK ||
	    CALL(c, device_memory, &memory, c->devices[0]) != RT_OK ||
	    get_attribute(c, ATTR_CLOCK_KHZ, &khz, err) != RT_OK ||
	    get_attribute(c, ATTR_UNITS, &f->units, err) != RT_OK ||
	    get_attribute(c, ATTR_L2_BYTES, &cache, err) != RT_OK ||
	    get_attribute(c, ATTR_MAJOR, &major, err) != RT_OK ||
	    get_attribute(c, ATTR_MINOR, &minor, err) != RT_OK) {
		return RT_IO;
	}
	f->clock_mhz = (double)khz / 1e3;
	f->memory_bytes = (double)memory;
	f->cache_bytes = (double)cache;
	f->ranks = c->n;
	snprintf(f->vendor, sizeof f->vendor, "nvidia");
	snprintf(f->arch, sizeof f->arch, "sm_%d%d%s", (int)major, (int)minor,
		 major == 9 && minor == 0 ? "a" : "");
	snprintf(f->link, sizeof f->link, "what NCCL found");
	for (r = 0; r < RT_RATES; r++) {
		/* tf32 and bf16 need sm_80 */
		if (r == RT_RATE_FP32 || r == RT_RATE_FP16 || major >= 8) {
			snprintf(f->code[r], sizeof f->code[r],
				 "cublasGemmEx");
		}
		f->out_bytes[r] = (double)bytes_of((enum rt_rate)r);
	}
	f->launch = "an empty kernel after others on a stream";
	f->no_attention = "that needs a kernel which no library here has";
	f->no_comm = c->n < 2 ? "there is one device only" : NULL;
	return RT_OK;
}

static enum rt_status
retain(struct rt_cuda *c, struct rt_error *err)
{
	enum rt_status status = CALL(c, init, 0);
	int i, n = 0;

	if (status == RT_OK) {
		status = CALL(c, device_count, &n);
	}
	if (status == RT_OK && n < 1) {
		return rt_fail(err, RT_IO, nowhere, "there is no CUDA device");
	}
	n = n < RT_CU_DEVICES ? n : RT_CU_DEVICES;
	for (i = 0; i < n && status == RT_OK; i++) {
		status = CALL(c, device_get, &c->devices[i], i);
		if (status == RT_OK) {
			status = CALL(c, context_retain, &c->contexts[i],
				      c->devices[i]);
		}
		c->n += status == RT_OK;
	}
	return status == RT_OK ? CALL(c, context_set, c->contexts[0])
			       : status;
}

static enum rt_status
prepare(struct rt_cuda *c, struct rt_error *err)
{
	if (CALL(c, stream_create, &c->stream, 0) != RT_OK ||
	    CALL(c, event_create, &c->from, 0) != RT_OK ||
	    CALL(c, event_create, &c->to, 0) != RT_OK ||
	    CALL(c, module_load, &c->module, ptx) != RT_OK ||
	    CALL(c, module_function, &c->empty, c->module, "empty") != RT_OK ||
	    CALL(c, module_function, &c->read, c->module, "read") != RT_OK ||
	    CALL(c, module_function, &c->triad, c->module, "triad") != RT_OK ||
	    CALL(c, blas_create, &c->blas) != RT_OK ||
	    CALL(c, blas_stream, c->blas, c->stream) != RT_OK) {
		return RT_IO;
	}
	return RT_OK;
}

/* Also after opening failed half-way. */
static void
close_cuda(struct rt_meter *m)
{
	struct rt_cuda *c = m->self;
	int i;

	if (c->blas) {
		c->api.blas_destroy(c->blas);
	}
	if (c->module) {
		c->api.module_unload(c->module);
	}
	if (c->from) {
		c->api.event_destroy(c->from);
	}
	if (c->to) {
		c->api.event_destroy(c->to);
	}
	if (c->stream) {
		c->api.stream_destroy(c->stream);
	}
	for (i = 0; i < c->n; i++) {
		c->api.context_release(c->devices[i]);
	}
	rt_cu_unload(&c->api);
	free(c);
	m->self = NULL;
}

static const struct rt_meter_ops ops = {
	matmul, attention, stream, launch, rt_cuda_comm, close_cuda
};

enum rt_status
rt_meter_cuda(struct rt_meter *m, struct rt_pace pace, const char *libcuda,
	      const char *libnccl, struct rt_error *err)
{
	struct rt_cuda *c = calloc(1, sizeof *c);
	enum rt_status status;

	memset(m, 0, sizeof *m);
	if (!c) {
		return rt_no_memory(err, NULL);
	}
	m->ops = &ops;
	m->self = c;
	m->pace = pace;
	status = rt_cu_load(&c->api, RT_CU_CUDA, libcuda, err);
	if (status == RT_OK) {
		status = rt_cu_load(&c->api, RT_CU_BLAS, NULL, err);
	}
	if (status == RT_OK) {
		status = retain(c, err);
	}
	if (status == RT_OK && c->n > 1) {
		status = rt_cu_load(&c->api, RT_CU_NCCL, libnccl, err);
	}
	if (status == RT_OK) {
		status = prepare(c, err);
	}
	if (status == RT_OK) {
		status = read_facts(m, c, err);
	}
	if (status != RT_OK) {
		close_cuda(m);
	}
	return status;
}

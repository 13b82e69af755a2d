/*
 * The command `llmc calibrate`: which shapes to measure on which device.  The
 * shapes resemble those of the tables that the cost model is validated with,
 * made smaller for a CPU: squares, shallow and deep contractions, few rows,
 * messages of 4 KB to 64 MB.
 */
#include "frontend/validate/calibrate.h"
#include "frontend/validate/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct span nowhere;

const char *const cal_group_names[CAL_GROUPS] = {
	"contractions", "weights", "attention", "keys", "streams", "launch",
	"collectives"
};

/* ---- shapes ---- */

struct sides {
	int64_t m, n, k;
};

static const struct sides quick_shapes[] = {
	{ 128, 128, 128 }, { 256, 256, 256 }, { 384, 384, 384 },
	{ 512, 512, 64 }, { 8, 1024, 512 }, { 64, 512, 1024 }
};

/* For a CPU; on a GPU sides are multiplied by 4. */
static const struct sides shapes[] = {
	{ 256, 256, 256 }, { 512, 512, 512 }, { 768, 768, 768 },
	{ 1024, 1024, 1024 }, { 1536, 1536, 1536 }, { 2048, 2048, 2048 },
	{ 512, 512, 64 }, { 512, 512, 256 }, { 512, 512, 2048 },
	{ 1024, 1024, 128 }, { 1024, 1024, 4096 },
	{ 256, 768, 768 }, { 256, 2304, 768 }, { 256, 3072, 768 },
	{ 256, 768, 3072 }, { 512, 4096, 1024 },
	{ 4, 1024, 1024 }, { 8, 4096, 1024 }, { 16, 1024, 4096 },
	{ 32, 4096, 1024 }, { 64, 4096, 1024 }, { 128, 1024, 4096 }
};

struct attention_shape {
	int64_t heads, length, head_dim;
	bool causal;
};

static const struct attention_shape quick_attention[] = {
	{ 4, 256, 64, false }, { 2, 512, 128, true }
};

static const struct attention_shape attention[] = {
	{ 32, 64, 64, true }, { 16, 64, 128, true }, { 16, 128, 64, true },
	{ 8, 256, 64, false }, { 8, 512, 64, true }, { 8, 1024, 64, true },
	{ 8, 128, 128, true }, { 8, 256, 128, true }, { 8, 512, 128, false },
	{ 8, 1024, 128, true }, { 4, 2048, 128, true }
};

static const int64_t quick_coll[] = { 4096, 65536, 1048576 };
static const int64_t coll[] = {
	4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20
};

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const enum cost_op coll_ops[RT_COLLECTIVES] = {
	[RT_ALL_REDUCE] = COST_ALL_REDUCE,
	[RT_ALL_GATHER] = COST_ALL_GATHER,
	[RT_REDUCE_SCATTER] = COST_REDUCE_SCATTER,
	[RT_SEND] = COST_SEND
};

/* ---- points ---- */

static bool
report_failure(struct cal *c, const struct rt_error *err)
{
	diag_error(&c->d->ctx.diags, nowhere, "cannot measure: %s",
		   err->message);
	return false;
}

static void
add_point(struct cal *c, struct cal_point p)
{
	VEC_PUSH(&c->d->ctx.perm, &c->points, p);
}

/* Sides are multiplied by `scale`, but not a small number of rows. */
static void
list_matmuls(struct cal *c, enum rt_rate rate, int64_t scale)
{
	const struct sides *list = c->quick ? quick_shapes : shapes;
	size_t n = c->quick ? COUNT(quick_shapes) : COUNT(shapes), i;

	for (i = 0; i < n; i++) {
		const struct sides *s = &list[i];
		struct rt_matmul_shape x = {
			.rate = rate, .m = s->m < 256 ? s->m : s->m * scale,
			.n = s->n * scale, .k = s->k * scale
		};

		VEC_PUSH(&c->d->ctx.perm, &c->matmuls, x);
	}
}

/* Of arrays that do not fit the caches. */
static int64_t
memory_mib(const struct cal *c)
{
	double cache = c->meter.facts.cache_bytes;

	return c->quick ? 16 : (int64_t)fmin(fmax(4 * cache / 1e6, 64), 512);
}

#define WEIGHTS_K 2048

/* Of a number of 8 or 4 bits, in which a scale of each group counts. */
static double
narrow_bytes(int bits)
{
	return bits == 8 ? 1 : 0.5 + 2.0 / IR_GROUP;
}

/* Few rows times weights that lie in memory, as where a model decodes. */
static void
list_reads(struct cal *c, enum rt_rate rate, int bits)
{
	static const int64_t rows[] = { 1, 2, 4, 8 };
	double elem = bits ? narrow_bytes(bits)
			   : cost_rate_bytes(cal_rate(rate));
	size_t i;

	for (i = 0; i < COUNT(rows); i++) {
		struct rt_matmul_shape x = {
			.rate = rate, .weights = true, .bits = bits,
			.m = rows[i],
			.n = (int64_t)((double)(memory_mib(c) << 20) /
				       (elem * WEIGHTS_K)) / 64 * 64,
			.k = WEIGHTS_K
		};

		VEC_PUSH(&c->d->ctx.perm, &c->matmuls, x);
	}
}

/* In f32, in which the compiler computes attention on a CPU. */
static void
list_attentions(struct cal *c)
{
	const struct attention_shape *list = c->quick ? quick_attention
						      : attention;
	size_t n = c->quick ? COUNT(quick_attention) : COUNT(attention), i;

	for (i = 0; i < n; i++) {
		const struct attention_shape *s = &list[i];
		struct rt_attention_shape x = {
			.heads = s->heads, .length = s->length,
			.head_dim = s->head_dim, .causal = s->causal
		};

		VEC_PUSH(&c->d->ctx.perm, &c->attentions, x);
	}
}

#define KEYS_SEQUENCES 8

/* Sequences that decode, with keys that no cache holds, in cache blocks of 16
 * tokens. */
static void
list_keys(struct cal *c, enum rt_rate rate)
{
	static const struct {
		int64_t heads, kv, head_dim;
	} list[] = { { 12, 12, 64 }, { 32, 8, 64 }, { 32, 8, 128 } };
	int64_t elem = (int64_t)cost_rate_bytes(cal_rate(rate));
	size_t i;

	for (i = 0; i < COUNT(list); i++) {
		int64_t key = 2 * elem * list[i].kv * list[i].head_dim;
		struct rt_attention_shape x = {
			.sequences = KEYS_SEQUENCES, .heads = list[i].heads,
			.kv = list[i].kv, .head_dim = list[i].head_dim,
			.length = (memory_mib(c) << 20) /
				  (KEYS_SEQUENCES * key) / 16 * 16,
			.rate = rate
		};

		VEC_PUSH(&c->d->ctx.perm, &c->attentions, x);
	}
}

static bool
measure_matmul(struct cal *c, const struct rt_matmul_shape *x)
{
	struct cal_point p = { 0 };
	struct rt_error err;

	if (c->meter.ops->matmul(&c->meter, x, &p.s, &err) != RT_OK) {
		return report_failure(c, &err);
	}
	p.what = arena_printf(&c->d->ctx.perm, "%s%s %lldx%lldx%lld",
		target_rate_names[cal_rate(x->rate)], x->bits == 8 ? "*int8"
		: x->bits == 4 ? "*int4" : "",
		(long long)x->m, (long long)x->n, (long long)x->k);
	p.matmul = (struct cost_contraction){
		.m = (double)x->m, .n = (double)x->n, .k = (double)x->k,
		.batch = 1, .rate = cal_rate(x->rate),
		.panels = x->weights && x->bits != 4,
		.stored_bytes = x->bits ? narrow_bytes(x->bits) : 0,
		.out_bytes = c->meter.facts.out_bytes[x->rate]
	};
	p.group = x->weights ? CAL_READ : CAL_MATMUL;
	p.work = x->weights ? cal_weight_bytes(&p)
			    : 2 * p.matmul.m * p.matmul.n * p.matmul.k;
	add_point(c, p);
	return true;
}

static void
describe_keys(struct cal *c, const struct rt_attention_shape *x,
	      struct cal_point *p)
{
	double elem = cost_rate_bytes(cal_rate(x->rate));

	p->group = CAL_KEYS;
	p->what = arena_printf(&c->d->ctx.perm, "%s %lldx%lld %lld/%lldx%lld",
		target_rate_names[cal_rate(x->rate)], (long long)x->sequences,
		(long long)x->length, (long long)x->heads, (long long)x->kv,
		(long long)x->head_dim);
	p->keys = (struct cost_keys){
		.sequences = (double)x->sequences, .queries = 1,
		.keys = (double)x->length, .heads = (double)x->heads,
		.kv = (double)x->kv, .d = (double)x->head_dim,
		.v = (double)x->head_dim,
		.bytes = 2 * elem * (double)(x->kv * x->head_dim),
		.rate = cal_rate(x->rate)
	};
	p->work = p->keys.sequences * p->keys.keys * p->keys.bytes;
}

static bool
measure_attention(struct cal *c, const struct rt_attention_shape *x)
{
	struct cal_point p = { .group = CAL_ATTEND };
	double pairs = (double)x->length * (double)x->length;
	struct rt_error err;

	if (c->meter.ops->attention(&c->meter, x, &p.s, &err) != RT_OK) {
		return report_failure(c, &err);
	}
	if (x->sequences > 0) {
		describe_keys(c, x, &p);
		add_point(c, p);
		return true;
	}
	p.what = arena_printf(&c->d->ctx.perm, "%s %lldx%lldx%lld%s",
		target_rate_names[TARGET_FP32], (long long)x->heads,
		(long long)x->length, (long long)x->head_dim,
		x->causal ? " causal" : "");
	p.work = 4 * (double)x->heads * (double)x->head_dim *
		 (x->causal ? (pairs + (double)x->length) / 2 : pairs);
	p.attend = (struct cost_attention){
		.batch = 1, .heads = (double)x->heads,
		.kv_heads = (double)x->heads, .head_dim = (double)x->head_dim,
		.queries = (double)x->length, .keys = (double)x->length,
		.causal = x->causal, .rate = TARGET_FP32
	};
	add_point(c, p);
	return true;
}

static bool
measure_kernels(struct cal *c)
{
	uint32_t i;

	for (i = 0; i < c->matmuls.n; i++) {
		if (!measure_matmul(c, &c->matmuls.at[i])) {
			return false;
		}
	}
	for (i = 0; i < c->attentions.n; i++) {
		if (!measure_attention(c, &c->attentions.at[i])) {
			return false;
		}
	}
	return true;
}

/* Each array has four times the size of the last cache. */
static bool
measure_streams(struct cal *c)
{
	int64_t mb = memory_mib(c);
	struct rt_error err;
	int s;

	for (s = 0; s < RT_STREAMS; s++) {
		struct cal_point p = { .group = CAL_STREAM };

		if (c->meter.ops->stream(&c->meter, (enum rt_stream)s,
					 mb << 20, &p.s, &err) != RT_OK) {
			return report_failure(c, &err);
		}
		p.work = (double)(mb << 20) *
			 rt_stream_arrays((enum rt_stream)s);
		p.bytes = p.work;
		p.what = arena_printf(&c->d->ctx.perm, "%s of %lld MiB",
				      rt_stream_names[s], (long long)mb);
		add_point(c, p);
	}
	return true;
}

static bool
measure_launch(struct cal *c)
{
	struct cal_point p = { .group = CAL_LAUNCH, .what = "empty" };
	struct rt_error err;

	if (c->meter.ops->launch(&c->meter, &p.s, &err) != RT_OK) {
		return report_failure(c, &err);
	}
	add_point(c, p);
	return true;
}

static bool
measure_coll(struct cal *c, enum rt_collective op, int ranks, int64_t bytes)
{
	struct rt_coll_shape x = { op, ranks, bytes };
	struct cal_point p = { .group = CAL_COMM };
	struct rt_error err;

	if (c->meter.ops->coll(&c->meter, &x, &p.s, &err) != RT_OK) {
		return report_failure(c, &err);
	}
	p.what = arena_printf(&c->d->ctx.perm, "%s x%d %lld",
		cost_op_names[coll_ops[op]], ranks, (long long)bytes);
	p.work = (double)bytes;
	p.coll.op = coll_ops[op];
	p.coll.ranks = ranks;
	p.coll.bytes = (double)bytes;
	add_point(c, p);
	return true;
}

/*
 * Groups of 2, 4, 8, .. and all ranks, up to a sixteenth of memory for the
 * messages of all ranks.
 */
static bool
measure_colls(struct cal *c)
{
	const int64_t *sizes = c->quick ? quick_coll : coll;
	size_t n = c->quick ? COUNT(quick_coll) : COUNT(coll), i;
	int most = c->meter.facts.no_comm ? 0 : c->meter.facts.ranks;
	int op, ranks;

	for (ranks = 2; ranks <= most; ranks = ranks < most &&
	     2 * ranks > most ? most : 2 * ranks) {
		for (op = 0; op < RT_COLLECTIVES; op++) {
			if (op == RT_SEND && ranks > 2) {
				continue;
			}
			for (i = 0; i < n && 16.0 * (double)sizes[i] * ranks <
			     c->meter.facts.memory_bytes; i++) {
				if (!measure_coll(c, (enum rt_collective)op,
						  ranks, sizes[i])) {
					return false;
				}
			}
		}
	}
	return true;
}

/* ---- the command ---- */

/* A full run takes some minutes; a quick one is for tests only. */
static struct rt_pace
pace_of(bool quick)
{
	return quick ? (struct rt_pace){ 8e3, 1, 3, 15, 40 }
		     : (struct rt_pace){ 200e3, 5, 7, 64, 200 };
}

static bool
open_cpu(struct cal *c)
{
	struct rt_error err;

	if (rt_meter_cpu(&c->meter, pace_of(c->quick), &err) != RT_OK) {
		return report_failure(c, &err);
	}
	list_matmuls(c, RT_RATE_FP32, 1);
	list_matmuls(c, RT_RATE_BF16, 1);
	list_reads(c, RT_RATE_FP32, 0);
	list_reads(c, RT_RATE_BF16, 0);
	list_reads(c, RT_RATE_BF16, 8);
	list_reads(c, RT_RATE_BF16, 4);
	list_attentions(c);
	list_keys(c, RT_RATE_FP32);
	list_keys(c, RT_RATE_BF16);
	if (!cal_kernels_open(c)) {
		c->meter.ops->close(&c->meter);
		return false;
	}
	return true;
}

static bool
open_cuda(struct cal *c)
{
	struct rt_error err;
	int r;

	if (rt_meter_cuda(&c->meter, pace_of(c->quick),
			  getenv("LLMC_LIBCUDA"), getenv("LLMC_LIBNCCL"),
			  &err) != RT_OK) {
		return report_failure(c, &err);
	}
	for (r = 0; r < RT_RATES; r++) {
		if (*c->meter.facts.code[r]) {
			list_matmuls(c, (enum rt_rate)r, 4);
		}
	}
	return true;
}

static void
print_result(const struct cal *c)
{
	struct buf text;

	buf_init(&text, &c->d->ctx.perm);
	if (c->d->opts.at[OPT_JSON].given) {
		cal_print_json(c, &text);
	} else {
		cal_print_points(c, &text);
	}
	fputs(buf_text(&text), stderr);
}

bool
drv_calibrate(struct driver *d)
{
	struct cal c = { .d = d, .quick = d->opts.at[OPT_QUICK].given };
	const char *device = d->opts.at[OPT_DEVICE].text;
	bool ok = device && strcmp(device, "cuda") == 0 ? open_cuda(&c)
							 : open_cpu(&c);

	if (!ok) {
		return false;
	}
	ok = measure_launch(&c) && measure_kernels(&c) &&
	     measure_streams(&c) && measure_colls(&c);
	if (ok) {
		cal_fit(&c);
		print_result(&c);
		cal_print_target(&c, &d->out);
	}
	c.meter.ops->close(&c.meter);
	cg_singles_close(&c.kernels);
	return ok;
}

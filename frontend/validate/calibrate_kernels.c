/*
 * The kernels that `llmc calibrate` times on a CPU: a model of one op for each
 * shape, compiled for this machine as plans of `--cpu native` are.
 */
#include "frontend/validate/calibrate.h"

#include <stdio.h>

/* The dtype of a rate in IR. */
static const char *
dtype_of(enum rt_rate r)
{
	return r == RT_RATE_BF16 ? "bf16" : "f32";
}

/* Weights in 8 or 4 bits, which are made wider. */
static const char *
narrow_text(struct cal *c, const struct rt_matmul_shape *x)
{
	const char *dtype = dtype_of(x->rate);

	return arena_printf(&c->d->ctx.perm,
		"llmc-ir 1\ndim m = %lld\ndim n = %lld\ndim k = %lld\n"
		"model {\n"
		"  %%0 = weight name=\"a\" : %s[m, k]\n"
		"  %%1 = weight name=\"b\" frozen rounded=k : int%d[n, k]\n"
		"  %%2 = cast %%1 : %s[n, k]\n"
		"  %%3 = dot %%0, %%2 over=k : %s[m, n]\n"
		"  return %%3\n}\n", (long long)x->m, (long long)x->n,
		(long long)x->k, dtype, x->bits, dtype, dtype);
}

static const char *
matmul_text(struct cal *c, const struct rt_matmul_shape *x)
{
	const char *dtype = dtype_of(x->rate);
	const char *stored = x->weights ? "n, k" : "k, n";

	return arena_printf(&c->d->ctx.perm,
		"llmc-ir 1\ndim m = %lld\ndim n = %lld\ndim k = %lld\n"
		"model {\n"
		"  %%0 = weight name=\"a\" : %s[m, k]\n"
		"  %%1 = weight name=\"b\"%s : %s[%s]\n"
		"  %%2 = dot %%0, %%1 over=k : %s[m, n]\n"
		"  return %%2\n}\n", (long long)x->m, (long long)x->n,
		(long long)x->k, dtype, x->weights ? " frozen" : "", dtype,
		stored, dtype);
}

/* Attention to keys of a cache, as pass `ragged` leaves it. */
static const char *
keys_text(struct cal *c, const struct rt_attention_shape *x)
{
	const char *dtype = dtype_of(x->rate);

	return arena_printf(&c->d->ctx.perm,
		"llmc-ir 1\ndim s = %lld\ndim t = %lld\ndim rows = %lld\n"
		"dim k = %lld\ndim h = %lld\ndim d = %lld\nmodel {\n"
		"  %%0 = weight name=\"q\" : %s[s, h, d]\n"
		"  %%1 = weight name=\"keys\" : %s[rows, k, d]\n"
		"  %%2 = weight name=\"values\" : %s[rows, k, d]\n"
		"  %%3 = input name=\"index\" : idx<rows>[t]\n"
		"  %%4 = weight name=\"first\" : f32[s]\n"
		"  %%5 = weight name=\"last\" : f32[s]\n"
		"  %%6 = gather %%1, %%3 of=rows : %s[t, k, d]\n"
		"  %%7 = gather %%2, %%3 of=rows : %s[t, k, d]\n"
		"  %%8 = attention_between %%0, %%6, %%7, %%4, %%5 : "
		"%s[s, h, d]\n  return %%8\n}\n", (long long)x->sequences,
		(long long)(x->sequences * x->length),
		(long long)(x->sequences * x->length), (long long)x->kv,
		(long long)x->heads, (long long)x->head_dim, dtype, dtype,
		dtype, dtype, dtype, dtype);
}

static const char *
attention_text(struct cal *c, const struct rt_attention_shape *x)
{
	struct arena *a = &c->d->ctx.perm;

	return x->sequences > 0 ? keys_text(c, x) : arena_printf(a,
		"llmc-ir 1\ndim s = %lld\ndim h = %lld\ndim d = %lld\n"
		"model {\n"
		"  %%0 = weight name=\"q\" : f32[s, h, d]\n"
		"  %%1 = weight name=\"k\" : f32[s, h, d]\n"
		"  %%2 = weight name=\"v\" : f32[s, h, d]\n"
		"  %%3 = attention %%0, %%1, %%2%s : f32[s, h, d]\n"
		"  return %%3\n}\n", (long long)x->length,
		(long long)x->heads, (long long)x->head_dim,
		x->causal ? " causal" : "");
}

static struct rt_made
made_of(const struct cg_single *k)
{
	return (struct rt_made){ k->kernel, k->values, k->pieces,
				 k->shared_bytes, k->own_bytes, k->lanes };
}

/* Names the code, for the table and the target file. */
static void
describe_code(struct cal *c)
{
	static const enum rt_rate rates[] = { RT_RATE_FP32, RT_RATE_BF16 };
	struct rt_facts *f = &c->meter.facts;
	const char *code = arena_printf(&c->d->ctx.perm, "llmc's kernels for "
		"%s, vectors of %u floats", c->kernels.cpu, c->kernels.lanes);
	int i;

	for (i = 0; i < 2; i++) {
		f->out_bytes[rates[i]] = rates[i] == RT_RATE_BF16 ? 2 : 4;
		snprintf(f->code[rates[i]], sizeof f->code[rates[i]], "%s",
			 code);
	}
}

bool
cal_kernels_open(struct cal *c)
{
	uint32_t n = c->matmuls.n + c->attentions.n, i, at = 0;
	struct arena *a = &c->d->ctx.perm;
	const char **texts = arena_alloc(a, (n + 1) * sizeof *texts);

	for (i = 0; i < c->matmuls.n; i++) {
		const struct rt_matmul_shape *x = &c->matmuls.at[i];

		texts[at++] = x->bits ? narrow_text(c, x) : matmul_text(c, x);
	}
	for (i = 0; i < c->attentions.n; i++) {
		texts[at++] = attention_text(c, &c->attentions.at[i]);
	}
	if (!cg_singles_open(&c->d->ctx, "native", texts, n, &c->kernels)) {
		return false;
	}
	c->made = arena_alloc(a, (n + 1) * sizeof *c->made);
	for (i = 0; i < n; i++) {
		c->made[i] = made_of(&c->kernels.at[i]);
	}
	for (i = 0; i < c->matmuls.n; i++) {
		c->matmuls.at[i].made = &c->made[i];
	}
	for (i = 0; i < c->attentions.n; i++) {
		c->attentions.at[i].made = &c->made[c->matmuls.n + i];
	}
	describe_code(c);
	return true;
}

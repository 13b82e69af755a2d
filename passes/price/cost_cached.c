/*
 * Attention of a step that serves: of sequences that decode, each of which
 * reads its cache once, and of chunks of prompts, the attention of training
 * with more keys than queries.  The planner prices a step by it, and so do the
 * prices of the kernels of a program.
 */
#include "passes/price/cost.h"

#include <math.h>

/* ---- what is in a step ---- */

double
cost_step_keys(const struct cost_load *l, double ranks)
{
	double keys = l->decoding * l->keys + l->prompts * l->before + l->chunk;

	return fmax(keys / ranks, 1);
}

struct cost_load
cost_full_load(double prompt, double output, double positions, double keys)
{
	struct cost_load l = { 0 };
	double each;

	if (positions <= COST_FEW_POSITIONS) {
		l.decoding = positions;
		l.keys = fmax(floor(fmin(prompt + output / 2,
					 keys / positions)), 1);
		return l;
	}
	positions = fmin(positions, keys);
	l.prompts = fmax(floor(positions / prompt), 1);
	each = floor(positions / l.prompts);
	l.chunk = each * l.prompts;
	l.before = floor(fmin(fmax(prompt - each, 0) / 2,
			      keys / l.prompts - each));
	return l;
}

static double
kept(const struct cost_cached *x, double keys)
{
	return x->window > 0 ? fmin(keys, x->window) : keys;
}

/* Keys that a query of a chunk sees in the mean. */
static double
chunk_keys(const struct cost_cached *x, const struct cost_load *l)
{
	double queries = l->chunk / fmax(l->prompts, 1);

	return kept(x, l->before + (queries + 1) / 2);
}

/* Whether kernels of single queries compute chunks, too. */
static bool
is_all_single(const struct cost_cached *x)
{
	return x->single && cost_single_fits(x->single) &&
	       cost_single_is_always(x->single,
				     cost_single_is_wide(x->single));
}

/* ---- sequences that decode ---- */

static struct cost
decoding(const struct target_device *d, const struct cost_cached *x,
	 const struct cost_load *l)
{
	struct cost_keys k = {
		.sequences = fmax(l->decoding / x->ranks, 1),
		.queries = x->queries, .keys = kept(x, l->keys),
		.heads = x->heads, .kv = x->kv, .d = x->d, .v = x->v,
		.latent = x->latent, .bytes = x->key_bytes, .rate = x->rate
	};

	if (x->single) {
		k.beside = is_all_single(x)
			? cost_single_parts(l->chunk / x->ranks,
					    chunk_keys(x, l)) : 0;
		cost_single_keys(x->single, d->units, &k);
	}
	return cost_keys(d, &k);
}

/* ---- chunks of prompts ---- */

/*
 * A chunk whose queries are single ones, each of which loads keys of its own,
 * and leaves results.  Memory is read once for all of a prompt.
 */
static double
single_prompts_us(const struct target_device *d, const struct cost_cached *x,
		  const struct cost_load *l)
{
	double prompts = fmax(l->prompts / x->ranks, 1);
	double queries = fmax(l->chunk / x->ranks, 1);
	struct cost_keys k = {
		.sequences = queries, .queries = 1, .keys = chunk_keys(x, l),
		.heads = x->heads, .kv = x->kv, .d = x->d, .v = x->v,
		.rate = x->rate,
		.beside = cost_single_parts(l->decoding / x->ranks,
					    kept(x, l->keys))
	};

	k.bytes = x->key_bytes * prompts *
		  kept(x, l->before + queries / prompts) /
		  (queries * k.keys);
	cost_single_keys(x->single, d->units, &k);
	return cost_keys(d, &k).us;
}

/* Blocks of queries, and of a program for a GPU the scores of each part of the
 * columns of results. */
static double
block_prompts_us(const struct target_device *d, const struct cost_cached *x,
		 const struct cost_load *l)
{
	double scores = x->single ? cost_single_scores(x->single) : 1;
	struct cost_attention a = {
		.batch = fmax(l->prompts / x->ranks, 1),
		.heads = x->heads, .kv_heads = x->kv,
		.head_dim = (x->d * scores + x->v) / 2,
		.causal = true, .window = x->window, .rate = x->rate,
		.narrow = x->single && cost_single_is_sync(x->single)
	};
	struct cost c;

	a.queries = fmax(l->chunk / x->ranks / a.batch, 1);
	a.keys = l->before + a.queries;
	c = cost_attention(d, &a);
	return c.us - c.launch_us;
}

/* ---- a step ---- */

/* What sequences that decode, or prompts, launch alone: of engines keys in
 * several blocks, and a kernel to join their sums. */
static double
launches(const struct target_device *d, const struct cost_cached *x,
	 bool decodes)
{
	return x->single ? cost_single_launches(x->single)
		: decodes && !target_is_cpu(d) ? 2 : 1;
}

struct cost_cached_us
cost_cached(const struct target_device *d, const struct cost_cached *x,
	    const struct cost_load *l)
{
	struct cost_cached_us out = { 0 };
	struct cost c;

	if (l->decoding > 0) {
		c = decoding(d, x, l);
		out.cache_us = fmin(c.memory_us, c.us);
		out.math_us = fmax(c.us - c.memory_us, 0);
		out.launches = launches(d, x, true);
	}
	if (l->chunk > 0) {
		out.math_us += is_all_single(x) ? single_prompts_us(d, x, l)
						: block_prompts_us(d, x, l);
		/* of a program, kernels of sequences that decode */
		out.launches += x->single && l->decoding > 0
			? 0 : launches(d, x, false);
	}
	return out;
}

/* Pairs of a query and a key. */
static double
pairs(const struct cost_cached *x, const struct cost_load *l)
{
	return l->decoding * kept(x, l->keys) + l->chunk * chunk_keys(x, l);
}

double
cost_cached_flops(const struct cost_cached *x, const struct cost_load *l)
{
	return 2 * x->heads * (x->d + x->v) * pairs(x, l);
}

double
cost_cached_bytes(const struct cost_cached *x, const struct cost_load *l)
{
	double each = l->chunk / fmax(l->prompts, 1);
	double positions = l->decoding + l->chunk;

	return x->key_bytes * (l->decoding * kept(x, l->keys) +
			       l->prompts * (kept(x, l->before) + each)) +
	       positions * x->heads * (x->d + x->v) * cost_rate_bytes(x->rate);
}

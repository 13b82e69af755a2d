/*
 * Bytes of the pieces of a sharding on a rank: measured once, at the microbatch
 * and dp at which it was staged, and scaled to any microbatch, dp and offload.
 * Saved and temporary values grow with the microbatch, except weights that ZeRO
 * gathers and gradients that it splits.
 */
#include "passes/search/search_parts.h"

#include <math.h>

/* ---- measured ---- */

/*
 * For each of these multiples of the measured microbatch, the bytes of the
 * largest moment of a function are kept.
 */
static const double sized[SEARCH_NMOMENTS] = { 0.25, 1, 4, 16 };

/* Bytes of a buffer.  One without a value is for a transfer between stages. */
static struct search_size
size_of(const struct search_sharding *w, const struct memory_buffer *b)
{
	double bytes = (double)b->bytes * (double)b->items;
	bool still = b->value && ir_along(ir_type(w->m, b->value),
					  w->r.time).how != IR_IS_SPLIT;

	return still ? (struct search_size){ .still = bytes }
		     : (struct search_size){ .grows = bytes };
}

static void
add_size(struct search_size *to, struct search_size x, double times)
{
	to->still += times * x.still;
	to->grows += times * x.grows;
}

/* Bytes at `more` times the measured microbatch. */
static double
at(struct search_size x, double more)
{
	return x.still + more * x.grows;
}

/*
 * For each step of one function: the bytes of buffers that begin there, less
 * those of buffers that ended at the step before.
 */
static struct search_size *
changes(struct search_sharding *w, const struct memory_buffer *b, uint32_t n,
	uint32_t *steps)
{
	struct search_size *change;
	uint32_t i;

	*steps = 0;
	for (i = 0; i < n; i++) {
		*steps = b[i].to > *steps ? b[i].to : *steps;
	}
	change = arena_alloc(&w->ctx.tmp, (*steps + 2) * sizeof *change);
	for (i = 0; i < n; i++) {
		if (b[i].kind == MEMORY_TEMPS) {
			struct search_size x = size_of(w, &b[i]);

			add_size(&change[b[i].from], x, 1);
			add_size(&change[b[i].to + 1], x, -1);
		}
	}
	return change;
}

/*
 * The ratio of a function's arena to the most bytes that live at once: above 1
 * where values cannot be packed without gaps.
 */
static double
packed(const struct memory_stage *x, func_id f)
{
	uint32_t k = 0;

	while (x->func[k].func != f) {
		k++;
	}
	return x->func[k].bound
		? (double)x->func[k].bytes / (double)x->func[k].bound : 0;
}

static void
add_moments(struct search_sharding *w, const struct memory_buffer *b,
	    uint32_t n, double times, struct search_sizes *out)
{
	struct search_size now = { 0 }, *change, x;
	uint32_t steps, i, k;

	change = changes(w, b, n, &steps);
	for (i = 0; i <= steps; i++) {
		add_size(&now, change[i], 1);
		x = (struct search_size){ times * now.still,
					  times * now.grows };
		for (k = 0; k < SEARCH_NMOMENTS; k++) {
			if (at(x, sized[k]) > at(out->temp[k], sized[k])) {
				out->temp[k] = x;
			}
		}
	}
}

/*
 * Adds temporary bytes.  In the list, only buffers of other kinds lie between
 * the temporary buffers of a function.
 */
static void
add_temps(struct search_sharding *w, const struct memory *mem)
{
	const struct memory_buffer *b = mem->buffers.at;
	uint32_t n = mem->buffers.n, i, end;

	for (i = 0; i < n; i = end) {
		end = i + 1;
		if (b[i].kind != MEMORY_TEMPS || b[i].stage == UINT32_MAX) {
			continue;
		}
		while (end < n && (b[end].kind != MEMORY_TEMPS ||
				   b[end].func == b[i].func)) {
			end++;
		}
		add_moments(w, b + i, end - i,
			    packed(&mem->stage[b[i].stage], b[i].func),
			    &w->sizes[w->on->piece_of[b[i].stage]]);
	}
}

/* Adds what is saved from forward to backward; of layers, the share of one. */
static void
add_saves(struct search_sharding *w, const struct memory *mem)
{
	uint32_t i;

	for (i = 0; i < mem->buffers.n; i++) {
		const struct memory_buffer *b = &mem->buffers.at[i];
		struct search_sizes *to;
		uint32_t p;

		if (b->stage == UINT32_MAX) {
			continue;
		}
		p = w->on->piece_of[b->stage];
		to = &w->sizes[p];
		if (b->kind == MEMORY_SAVES && b->span < SEARCH_NSPANS) {
			add_size(&to->slot[b->span], size_of(w, b),
				 p >= PIECE_BODY
				 ? 1 / (double)w->on->iterations[b->stage] : 1);
		}
	}
}

void
search_measure_bytes(struct search_sharding *w, const struct memory *mem)
{
	uint32_t i, k;

	for (i = 0; i < w->on->nstages; i++) {
		uint32_t p = w->on->piece_of[i];
		double n = p >= PIECE_BODY ? (double)w->on->iterations[i] : 1;

		for (k = 0; k < MEMORY_PIPELINE; k++) {
			w->fixed[p][k] = (double)mem->stage[i].fixed[k] / n;
		}
		w->sizes[p].waits = (double)mem->stage[i].pipeline;
		w->update_temp[p] = (double)mem->rank[i].update.bytes / n;
	}
	add_temps(w, mem);
	add_saves(w, mem);
}

/* ---- scaled ---- */

void
search_scale_bytes(const struct search_sharding *w, struct search_cost *c)
{
	double more = (double)c->microbatch / (double)w->microbatch;
	int i, k;

	for (i = 0; i < PIECE_MAX; i++) {
		const struct search_sizes *x = &w->sizes[i];
		struct search_bytes *to = &c->bytes[i];

		for (k = 0; k < SEARCH_NSPANS; k++) {
			to->slot[k] = at(x->slot[k], more);
		}
		for (k = 0; k < SEARCH_NMOMENTS; k++) {
			to->temp = fmax(to->temp, at(x->temp[k], more));
		}
		to->waits = more * x->waits;
	}
}

/*
 * Scales tensors that ZeRO splits from `level` on: the least factor from the
 * share of a rank of w to that of a rank of the key.  Where ZeRO splits them,
 * ranks of cp and ep that hold the same tensors have a part each, too.
 */
static double
least_share(const struct search_sharding *w, const struct search_key *key,
	    int64_t dp, int level)
{
	double more = w->key.zero >= level ? (double)w->dp : 1;
	int64_t alike = w->key.zero >= level ? 1 : key->cp * key->ep;

	return key->zero >= level ? more / (double)(dp * alike) : more;
}

void
search_fix_as(const struct search_sharding *like, const struct search_key *key,
	      int64_t dp, struct search_update *u)
{
	const struct search_sharding *w = search_with_updates(like);
	double part = (double)w->key.tp / (double)key->tp;
	double weights = part * least_share(w, key, dp, 3);
	double gradients = part * least_share(w, key, dp, 2);
	double states = part * least_share(w, key, dp, 1);
	double here = key->offload ? 0 : 1;
	int i;

	u->dp = dp;
	for (i = 0; i < PIECE_MAX; i++) {
		const double *f = w->fixed[i];

		u->fixed[i] = weights * f[MEMORY_WEIGHTS] +
			      gradients * f[MEMORY_GRADIENTS] +
			      here * states * f[MEMORY_OPTIMIZER] +
			      part * f[MEMORY_OTHER];
		u->host[i] = (1 - here) * states * f[MEMORY_OPTIMIZER];
	}
}

/* Scales from the dp at which w was measured to that of u. */
void
search_scale_fixed(const struct search_sharding *w, struct search_update *u)
{
	double placed = (double)w->dp, dp = placed / (double)u->dp;
	double here = u->offload ? 0 : 1;
	int i, zero = w->key.zero;

	for (i = 0; i < PIECE_MAX; i++) {
		const double *f = w->fixed[i];

		u->fixed[i] = f[MEMORY_WEIGHTS] * (zero > 2 ? dp : 1) +
			      f[MEMORY_GRADIENTS] * (zero > 1 ? dp : 1) +
			      here * f[MEMORY_OPTIMIZER] *
					(zero > 0 ? dp : 1) +
			      f[MEMORY_OTHER];
		u->whole[i] = f[MEMORY_WEIGHTS] * (zero > 2 ? placed : 1) +
			      f[MEMORY_GRADIENTS] * (zero > 1 ? placed : 1) +
			      here * f[MEMORY_OPTIMIZER] *
					(zero > 0 ? placed : 1) +
			      f[MEMORY_OTHER];
		u->temp[i] = w->update_temp[i] * (zero > 0 ? dp : 1);
		u->host[i] = (1 - here) * f[MEMORY_OPTIMIZER] *
			     (zero > 0 ? dp : 1);
	}
}

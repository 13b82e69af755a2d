/*
 * The time of a step and the memory of a rank, from the items of its program.
 * A contraction is the larger of its math and of what it reads and writes, as
 * price/ has it, but with its weights in the form that they are stored in, and
 * with what a CPU does not hide of the smaller.  A decoding sequence reads its
 * cache once; a chunk of a prompt is the attention of training with more keys
 * than queries.
 */
#include "passes/serve/serve.h"

#include "passes/plan/plan.h"
#include "passes/price/price.h"

#include <math.h>

const char *const serve_time_names[SERVE_NTIMES] = {
	[SERVE_WEIGHTS] = "weights", [SERVE_CACHE] = "cache",
	[SERVE_CONTRACTIONS] = "contractions",
	[SERVE_ATTENDING] = "attention", [SERVE_MAPS] = "maps",
	[SERVE_COMMUNICATION] = "communication",
	[SERVE_LAUNCHES] = "launches"
};

#define BLOCK 16		/* tokens of a block of the cache */
#define SCALE_BYTES 4		/* of a row of a weight in 8 bits: an f32 */
/*
 * How much later a collective begins for which the hosts of ranks call one
 * after another: each waits for the last, whose host has other work, too.  The
 * median of what Vidur's profile has beyond NCCL's own tests, which call for
 * nothing else: all-reduces of up to 68 KB in a node (25 rows of
 * collectives.tsv; docs/cost.md).
 */
#define HOST_CALL_US 27
/*
 * To draw by top_p FasterTransformer sorts all scores with cub's segmented
 * radix sort, where one block has a segment: in each of 6 passes of 6 bits or
 * fewer it reads keys of 32 bits twice and their indices once, and writes both
 * (the bits of a pass from memory).
 */
#define SORT_PASSES 6
#define SORT_BYTES 20

struct stepping {
	const struct serve_program *p;
	const struct target_group *t;
	const struct serve_asked *q;
	const struct cost_load *load;
	double ranks;		/* over which sequences are spread */
	double memory_bytes_us;
	double read_bytes_us;	/* of weights and what is with them */
	double launch_us;
};

static double
at(struct serve_line l, double rows)
{
	return l.fixed + l.row * rows;
}

static void
add(struct serve_time *to, enum serve_part_kind part, double us)
{
	to->us[part] += us;
	to->total_us += us;
}

/* What is read takes up to `read_us` of a kernel's time, the rest is math. */
static void
add_larger(struct serve_time *to, enum serve_part_kind read, double read_us,
	   enum serve_part_kind math, double all_us)
{
	add(to, read, fmin(read_us, all_us));
	add(to, math, fmax(all_us - read_us, 0));
}

/* ---- contractions ---- */

/* Whether what is asked of layers' weights is asked of this one. */
static bool
is_narrow(const struct serve_item *x, const struct serve_asked *q)
{
	return (x->stored == SERVE_ASKED || x->stored == SERVE_WIDE) &&
	       (x->is_expert || !q->experts_only);
}

/* Bytes of an element of a weight that is stored so; 0: as it is declared. */
static double
format_bytes(const struct serve_asked *q, enum serve_stored stored,
	     bool is_expert)
{
	const struct serve_format *f = q->weights;

	if (!f || stored == SERVE_DECLARED) {
		return 0;
	}
	return stored == SERVE_OUTER ? f->head_bytes
		: q->experts_only && !is_expert ? 0
		: stored == SERVE_WIDE ? fmax(f->bytes, f->head_bytes)
		: f->bytes;
}

/* Bytes of an element of a contraction's weight where it is not stored as it is
 * declared; 0: it is. */
static double
narrow_bytes(const struct serve_item *x, const struct serve_asked *q)
{
	return x->weight_bytes > 0
		? format_bytes(q, x->stored, x->is_expert) : 0;
}

static double
stored_bytes(const struct serve_item *x, const struct serve_asked *q)
{
	double bytes = narrow_bytes(x, q);

	return bytes > 0 ? bytes : x->weight_bytes;
}

/*
 * Of m rows that each choose one of n matrices evenly, the matrices that any
 * row has chosen.
 */
static double
chosen(double m, double n)
{
	return n > 1 ? n * (1 - pow(1 - 1 / n, m)) : 1;
}

/*
 * Of m rows that choose among n matrices, those of whole tiles: a host that
 * does not know the choice launches what the worst one needs, and tiles without
 * rows load their operands too.
 */
static double
padded_rows(double m, double n, double tile)
{
	return tile > 0 ? ceil((m + n * (tile - 1)) / tile) * tile : m;
}

/* Maps at the bandwidth that those of servers reach, without a launch. */
static double
server_map_us(const struct stepping *s, enum cost_kind kind, double bytes)
{
	struct cost c = cost_bytes(&s->t->device, kind, bytes);

	return c.us - c.launch_us;
}

/*
 * Of engines that multiply 8 bits or 4: a kernel reads an operand of 16 and
 * writes it in those.
 */
static double
rounding_us(const struct stepping *s, const struct serve_item *x, double rows,
	    enum target_rate rate)
{
	double bytes = at(x->operand_bytes, rows);

	return server_map_us(s, COST_GATED, bytes + bytes *
			     cost_rate_bytes(rate) / cost_rate_bytes(x->rate));
}

/*
 * Of a program for a GPU: how kernels cut the contraction, and what follows its
 * products.  Sums of a weight in 8 bits are multiplied by the scales of their
 * columns, which are loaded as vectors of four.
 */
static void
set_own(const struct stepping *s, const struct serve_item *x,
	struct cost_contraction *c)
{
	static const struct price_traits plain;

	if (!x->own || target_is_cpu(&s->t->device)) {
		return;
	}
	c->own_tail = !c->widened && x->groups <= 1 &&
		      price_cuts_tail(&plain, &s->t->device, c);
	price_set_unit(&plain, &s->t->device, x->groups > 1, c);
	c->put = c->own_tail ? x->put_unit : x->put_threads;
	if (c->widened && c->stored_bytes == 1 &&
	    price_has_kernels(&s->t->device)) {
		c->put.slots += cost_slots[COSTS_ACCESS] / 4 +
				cost_slots[COSTS_PLAIN];
	}
}

static void
add_dot(const struct stepping *s, const struct serve_item *x, double rows,
	struct serve_time *out)
{
	struct cost_contraction c = {
		.m = at(x->m, rows), .n = at(x->n, rows), .k = at(x->k, rows),
		.batch = at(x->batch, rows), .rate = x->rate,
		.out_bytes = x->out_bytes
	};
	double weight_us, moved_us, us;

	if (is_narrow(x, s->q) && s->q->fp8) {
		c.rate = s->q->fp4 && narrow_bytes(x, s->q) < 1 &&
			 s->t->device.flops_us[TARGET_FP4] > 0
			? TARGET_FP4 : TARGET_FP8;
	}
	c.stored_bytes = narrow_bytes(x, s->q);
	/* numbers of f16 and of 4 bits lie in rows, and experts in 8 bits, and
	 * what slices are read of (codegen/cpu/dot/cpu_dot_view.c,
	 * codegen/panels.c) */
	c.panels = c.stored_bytes == 0 ? c.rate != TARGET_FP16 && !x->is_cut
		: c.stored_bytes == 1 && x->groups <= 1;
	c.widened = c.stored_bytes > 0 && c.stored_bytes <= 1 &&
		    c.rate != TARGET_FP8 && c.rate != TARGET_FP4 &&
		    target_is_cuda(&s->t->device);
	c.widened_apart = c.widened && s->q->widened_apart;
	if (x->groups > 1) {
		double n = s->q->expert_rows > 0
			? x->groups : fmax(chosen(c.m, x->groups), 1);

		c.m = padded_rows(c.m, x->groups, s->q->expert_rows) / n;
		c.batch *= n;
	}
	c.m = fmax(c.m, 1);
	set_own(s, x, &c);
	weight_us = c.batch * c.n * c.k * stored_bytes(x, s->q) /
		    cost_weight_bytes_us(&s->t->device, &c);
	moved_us = c.batch * c.m * (c.k * cost_rate_bytes(c.rate) + c.n *
				    x->out_bytes) / s->read_bytes_us;
	us = cost_read_us(&s->t->device, weight_us + moved_us,
			  cost_contraction(&s->t->device, &c).math_us) +
	     (c.widened_apart ? cost_widening_us(&s->t->device, &c) : 0);
	add_larger(out, SERVE_WEIGHTS, x->times * weight_us,
		   SERVE_CONTRACTIONS, x->times * us);
	add(out, SERVE_LAUNCHES, x->times * s->launch_us);
	if (s->q->maps_alone) {
		add(out, SERVE_MAPS, x->times *
		    server_map_us(s, COST_GATED, at(x->bytes, rows)));
	}
	if (s->q->rounds_alone && c.rate != x->rate) {
		add(out, SERVE_MAPS, x->times *
		    rounding_us(s, x, rows, c.rate));
	}
}

/* ---- attention ---- */

/* Of so many elements of the cache. */
static double
cached_bytes(const struct serve_item *x, const struct serve_asked *q,
	     double elems)
{
	return elems * (q->cache ? q->cache->bytes : x->cached_bytes);
}

static double
keys_of(const struct serve_item *x, double keys)
{
	return x->window > 0 ? fmin(keys, x->window) : keys;
}

/* How often a decoding sequence reads its cache. */
static double
reads_of(const struct serve_item *x, const struct serve_asked *q)
{
	return q->heads_apart && !x->latent ? x->heads / x->kv : 1;
}

/* Of a key of a sequence that decodes: what is cached, or where a step has
 * computed keys, these, and the rest of what it reads of the cache. */
static double
key_bytes(const struct serve_item *x, const struct serve_asked *q)
{
	double there = x->computed > 0 ? x->beside : x->cached;

	return x->computed * cost_rate_bytes(x->rate) +
	       cached_bytes(x, q, there) * reads_of(x, q);
}

/* Of steps that a program has, the smallest of at least so many positions. */
static double
step_size(const struct serve_asked *q, double positions)
{
	int64_t size = serve_next_size(0);

	while ((double)size < positions) {
		size = serve_next_size(size);
	}
	return q->step_tokens >= positions
		? fmin((double)size, q->step_tokens) : (double)size;
}

/* Whether kernels of a program for a GPU compute it: as single queries, or
 * blocks of these.  They are those of a step that may have more positions and
 * keys than the load. */
static bool
is_own(const struct serve_item *x, const struct target_group *t,
       const struct serve_asked *q, const struct cost_load *l, double ranks,
       struct cost_single *out)
{
	*out = (struct cost_single){
		.queries = (int64_t)step_size(q, (l->decoding + l->chunk) /
						 ranks),
		.keys = (int64_t)fmax(q->step_keys, cost_step_keys(l, ranks)),
		.heads = (int64_t)x->heads, .kv = (int64_t)x->kv,
		.d = (int64_t)x->d, .v = (int64_t)x->v, .within = x->within,
		.exact = cost_rate_bytes(x->rate) > 2, .slopes = x->slopes,
		.key_bytes = x->keys_lie ? cached_bytes(x, q, 1) : 0,
		.value_bytes = x->values_lie ? cached_bytes(x, q, 1) : 0,
		.shared_bytes = cost_shared_bytes(t->device.arch)
	};
	return x->own && !target_is_cpu(&t->device);
}

static void
add_attention(const struct stepping *s, const struct serve_item *x,
	      struct serve_time *out)
{
	struct cost_cached c = {
		.ranks = s->ranks, .heads = x->heads, .kv = x->kv,
		.d = x->d, .v = x->v, .latent = x->latent ? x->cached : 0,
		.window = x->window, .queries = 1 + s->q->drafts,
		.key_bytes = key_bytes(x, s->q), .rate = x->rate
	};
	struct cost_single single;
	struct cost_cached_us us;

	c.single = is_own(x, s->t, s->q, s->load, s->ranks, &single)
		? &single : NULL;
	us = cost_cached(&s->t->device, &c, s->load);
	add(out, SERVE_CACHE, x->times * us.cache_us);
	add(out, SERVE_ATTENDING, x->times * us.math_us);
	add(out, SERVE_LAUNCHES, x->times * us.launches * s->launch_us);
}

/* ---- draws ---- */

/* Of a block that sorts, memory has the part that its unit has of all. */
static void
add_sort(const struct stepping *s, struct serve_time *out)
{
	double drawn = (s->load->decoding + s->load->prompts) / s->ranks;
	double units = (double)s->t->device.units;

	if (s->q->sorted > 0 && drawn > 0) {
		add(out, SERVE_MAPS, ceil(drawn / units) * SORT_PASSES *
		    SORT_BYTES * s->q->sorted * units / s->memory_bytes_us);
		add(out, SERVE_LAUNCHES, SORT_PASSES * s->launch_us);
	}
}

/* ---- a part, a stage, a step ---- */

static void
add_item(const struct stepping *s, const struct serve_item *x, double rows,
	 struct serve_time *out)
{
	struct cost_group group = x->group;
	double bytes;

	rows = x->of_keys ? cost_step_keys(s->load, s->ranks) : rows;
	bytes = at(x->bytes, rows);
	switch (x->work) {
	case SERVE_DOT:
		add_dot(s, x, rows, out);
		break;
	case SERVE_ATTENTION:
		add_attention(s, x, out);
		break;
	case SERVE_MAP:
		add(out, SERVE_MAPS, x->times * (s->q->maps_alone
		    ? server_map_us(s, x->kind, bytes)
		    : bytes / s->memory_bytes_us));
		add(out, SERVE_LAUNCHES, x->times * s->launch_us);
		break;
	case SERVE_COMM:
		group.direct = s->q->direct;
		add(out, SERVE_COMMUNICATION, x->times *
		    ((s->q->host_calls ? HOST_CALL_US : 0) +
		     cost_collective(s->t, x->op, &group, bytes, NULL).us));
		break;
	}
}

int64_t
serve_next_size(int64_t positions)
{
	return positions < 1 ? 1 : positions < 8 ? 8
		: positions < COST_FEW_POSITIONS ? COST_FEW_POSITIONS
		: 2 * positions;
}

/* Rows of a rank in part i: after the last layer, one of each sequence. */
static double
rows_of(const struct serve_program *p, const struct serve_asked *q,
	const struct cost_load *l, uint32_t i)
{
	double rows = l->decoding * (1 + q->drafts) +
		      (i + 1 == p->nparts ? l->prompts : l->chunk);

	return fmax(rows / (double)serve_apart(&p->split), 1);
}

/*
 * Those that are computed.  On a CPU a step of a few positions is that of the
 * next size that is compiled; how large larger ones are is a setting of the
 * program (`tokens`), and a GPU reads its weights as long for either.
 */
static double
computed_rows(const struct stepping *s, double rows)
{
	return !target_is_cpu(&s->t->device) || rows > COST_FEW_POSITIONS
		? rows : step_size(s->q, rows);
}

static struct serve_time
part_time(const struct stepping *s, uint32_t i)
{
	const struct serve_part *part = &s->p->part[i];
	double rows = computed_rows(s, rows_of(s->p, s->q, s->load, i));
	struct serve_time t = { 0 };
	uint32_t k;

	for (k = 0; k < part->items.n; k++) {
		add_item(s, &part->items.at[k], rows, &t);
	}
	return t;
}

/*
 * How often a stage runs part i: its iterations of a layer; a part between
 * layers is run by the stage of the layer before it.
 */
static double
runs_of(const struct serve_program *p, const int64_t *layers, uint32_t stage,
	uint32_t i)
{
	int64_t first = 0, end, lo = 0, n;
	uint32_t k;

	for (k = 0; k < stage; k++) {
		first += layers[k];
	}
	end = first + layers[stage];
	for (k = 0; k < i; k++) {
		lo += p->part[k].is_layer ? p->part[k].count : 0;
	}
	if (!p->part[i].is_layer) {
		return lo == 0 ? stage == 0 : lo > first && lo <= end;
	}
	n = lo + p->part[i].count;
	n = (n < end ? n : end) - (lo > first ? lo : first);
	return n > 0 ? (double)n : 0;
}

/* Iterations of layers by stage; false: there are too many stages. */
static bool
spread(const struct serve_program *p, int64_t layers[SERVE_MAX_STAGES])
{
	if (p->split.pp > 1 && (p->split.pp > p->layers ||
				p->split.pp > SERVE_MAX_STAGES)) {
		return false;
	}
	plan_spread(p->layers, (uint32_t)p->split.pp, layers);
	return true;
}

double
serve_step_tokens(const struct serve_asked *q)
{
	return q->drafts > 0 ? q->accepted : 1;
}

/*
 * What guesses for a sequence is a layer as the last one is, and the head,
 * which run once for each token that they guess (DeepSeek-V3,
 * arXiv:2412.19437, section 2.2).
 */
static void
add_drafts(const struct stepping *s, struct serve_time *out)
{
	struct serve_asked one = *s->q;
	struct cost_load load = *s->load;
	struct stepping alone = *s;
	uint32_t i, last = 0;
	int k;

	for (i = 0; i < s->p->nparts; i++) {
		last = s->p->part[i].is_layer ? i : last;
	}
	one.drafts = 0;
	load.chunk = load.prompts = 0;
	alone.q = &one;
	alone.load = &load;
	for (i = last; s->q->drafts > 0 && s->load->decoding > 0 &&
	     i < s->p->nparts; i++) {
		struct serve_time t = part_time(&alone, i);

		for (k = 0; k < SERVE_NTIMES; k++) {
			add(out, k, s->q->drafts * t.us[k]);
		}
	}
}

void
serve_step(const struct serve_program *p, const struct target *t,
	   const struct serve_asked *q, const struct cost_load *load,
	   struct serve_time *out)
{
	const struct target_group *g = &t->groups.at[0];
	const struct target_device *d = &g->device;
	struct stepping s = { .p = p, .t = g, .q = q,
			      .load = load,
			      .ranks = (double)serve_apart(&p->split) };
	struct serve_time part[SERVE_MAX_PARTS];
	int64_t layers[SERVE_MAX_STAGES];
	uint32_t stage, i;
	int k;

	s.launch_us = d->launch_us;
	s.memory_bytes_us = d->memory_bytes_us * d->memory_eff;
	s.read_bytes_us = cost_read_bytes_us(d);
	*out = (struct serve_time){ 0 };
	if (!spread(p, layers)) {
		return;
	}
	for (i = 0; i < p->nparts; i++) {
		part[i] = part_time(&s, i);
	}
	for (stage = 0; stage < p->split.pp; stage++) {
		struct serve_time one = { 0 };

		for (i = 0; i < p->nparts; i++) {
			double n = runs_of(p, layers, stage, i);

			for (k = 0; n > 0 && k < SERVE_NTIMES; k++) {
				add(&one, k, n * part[i].us[k]);
			}
		}
		if (stage + 1 == p->split.pp) {
			add_drafts(&s, &one);
			add_sort(&s, &one);
		}
		if (one.total_us > out->total_us) {
			*out = one;
		}
	}
}

double
serve_hop_us(const struct serve_program *p, const struct target *t,
	     double rows)
{
	const struct target_group *g = &t->groups.at[0];
	struct cost_group group;

	if (p->split.pp < 2) {
		return 0;
	}
	group = cost_group_apart(g, p->split.pp, p->split.tp * p->split.ep);
	if (group.nodes > 1) {	/* the slowest hop is between nodes */
		group.per_node = 1;
		group.nodes = 2;
	} else {
		group.per_node = 2;
	}
	return cost_collective(g, COST_SEND, &group, p->hop_row_bytes *
			       fmax(rows / (double)serve_apart(&p->split), 1),
			       NULL).us;
}

struct cost_load
serve_load_of(const struct serve_asked *q, double decoding, double chunk)
{
	struct cost_load l = { .decoding = decoding,
				.keys = q->prompt + q->output / 2,
				.chunk = chunk };

	l.prompts = chunk > 0 ? fmax(chunk / q->prompt, 1) : 0;
	l.before = chunk > 0 ? fmax(q->prompt - chunk, 0) / 2 : 0;
	return l;
}

double
serve_cycle_us(const struct serve_answer_in *in, const struct serve_program *p,
	       double sequences, double tokens, struct serve_time *out)
{
	double pp = (double)p->split.pp;
	double each = sequences > 0 ? fmax(sequences / pp, 1) : 0;
	struct cost_load l = serve_load_of(in->asked, each, tokens / pp);

	serve_step(p, in->target, in->asked, &l, out);
	return pp * (out->total_us +
		     serve_hop_us(p, in->target, each + tokens / pp));
}

/* ---- memory ---- */

static double
held_bytes(const struct serve_held *h, double bytes)
{
	return bytes > 0 ? h->elems * bytes +
			   (bytes == 1 ? h->rows * SCALE_BYTES : 0)
			 : h->bytes;
}

static double
part_weights(const struct serve_part *part, const struct serve_asked *q)
{
	double bytes = 0;
	int as, of_experts;

	for (as = 0; as < SERVE_NSTORED; as++) {
		for (of_experts = 0; of_experts < 2; of_experts++) {
			bytes += held_bytes(&part->held[as][of_experts],
					    format_bytes(q, as, of_experts));
		}
	}
	return bytes;
}

/* Of a token of a sequence of so many.  Engines keep no more of it than windows
 * show; a program of llmc keeps all positions that its slots have. */
static double
part_token(const struct serve_part *part, const struct serve_asked *q,
	   double length)
{
	double bytes = 0;
	uint32_t i;

	for (i = 0; i < part->items.n; i++) {
		const struct serve_item *x = &part->items.at[i];

		if (x->work == SERVE_ATTENTION) {
			bytes += x->times * cached_bytes(x, q, x->cached) *
				 (x->own ? 1 : keys_of(x, length) / length);
		}
	}
	return bytes;
}

/* The most that a kernel of the part reads and writes of activations. */
static double
part_workspace(const struct serve_part *part, double rows)
{
	double most = 0;
	uint32_t i;

	for (i = 0; i < part->items.n; i++) {
		const struct serve_item *x = &part->items.at[i];
		double bytes = at(x->bytes, rows);

		if (x->work == SERVE_DOT) {
			bytes = at(x->m, rows) * at(x->batch, rows) *
				(at(x->k, rows) + at(x->n, rows)) *
				x->out_bytes;
		}
		most = fmax(most, bytes);
	}
	return most;
}

/* The scratch of its kernels of attention, which all layers share. */
static double
part_scratch(const struct serve_part *part, const struct target *t,
	     const struct serve_asked *q, const struct cost_load *load,
	     double ranks)
{
	struct cost_single single;
	double most = 0;
	uint32_t i;

	for (i = 0; i < part->items.n; i++) {
		const struct serve_item *x = &part->items.at[i];

		if (x->work == SERVE_ATTENTION &&
		    is_own(x, &t->groups.at[0], q, load, ranks, &single)) {
			most = fmax(most, cost_single_bytes(&single));
		}
	}
	return most;
}

/* Whether it is known what the program of that split needs. */
static bool
is_made(const struct serve_asked *q, const struct serve_split *s)
{
	const struct serve_split *m = &q->made;

	return q->workspace > 0 && s->tp == m->tp && s->pp == m->pp &&
	       s->ep == m->ep && s->replicas == m->replicas;
}

void
serve_memory(const struct serve_program *p, const struct target *t,
	     const struct serve_asked *q, const struct cost_load *load,
	     struct serve_memory *out)
{
	double length = q->prompt + q->output;
	double ranks = (double)serve_apart(&p->split);
	int64_t layers[SERVE_MAX_STAGES];
	double scratch = 0;
	uint32_t stage, i;

	*out = (struct serve_memory){ .tokens = INFINITY };
	out->free = target_free_bytes(&t->groups.at[0]);
	if (!spread(p, layers)) {
		out->tokens = -1;
		return;
	}
	for (i = 0; i < p->nparts; i++) {
		double rows = rows_of(p, q, load, i);

		out->workspace = fmax(out->workspace,
				      part_workspace(&p->part[i], rows) +
				      2 * rows * p->hop_row_bytes);
		scratch = fmax(scratch,
			       part_scratch(&p->part[i], t, q, load, ranks));
	}
	out->workspace += scratch;
	if (is_made(q, &p->split)) {
		out->workspace = fmax(out->workspace, q->workspace);
	}
	for (stage = 0; stage < p->split.pp; stage++) {
		double weights = 0, token = 0, tokens;

		for (i = 0; i < p->nparts; i++) {
			double n = runs_of(p, layers, stage, i);

			weights += n * part_weights(&p->part[i], q);
			token += n * part_token(&p->part[i], q, length);
		}
		tokens = out->free - weights - out->workspace;
		tokens = token > 0 && tokens >= 0
			? floor(tokens / token / BLOCK) * BLOCK * ranks
			: tokens;
		if (tokens < out->tokens) {
			out->tokens = tokens;
			out->weights = weights;
			out->token = token;
		}
	}
}

/*
 * Lower bounds of the time of a sharding, by which search_zero.c leaves out
 * shardings before they are placed.
 *
 * A proven bound takes each contraction at the best rate of its operands, each
 * map at the rate of memory and each collective at that of the link, without
 * launches.  ZeRO, dp, schedule and microbatch do not change it, so the first
 * sharding that is priced gives it for all others of its degrees.  Prices give
 * higher bounds at their microbatch, by the rules of docs/search.md: for
 * shardings that split further, and for those whose placement differs in the
 * lengths of axes only.
 *
 * Bounds are kept by piece, since the bound of a plan is a sum over the pieces
 * of its stages.
 */
#include "passes/search/search_parts.h"

#include <math.h>
#include <string.h>

#define BEST_MAP 1.12	/* of the rate of memory: docs/cost.md */

static double
contraction_us(const struct pricing *p, const struct kernel *k)
{
	const struct target_device *d = &p->t->device;
	const struct kernel_dot *x = &k->work->dot;

	return 2 * x->batch * x->m * x->n * x->k /
	       cost_flops_us(d, price_dot_rate(p, k)) /
	       fmax(d->matrix_eff, 1e-3);
}

/* Two products for each pair of query and key; a mask may drop half of them. */
static double
attention_us(const struct pricing *p, const struct kernel *k)
{
	const struct target_device *d = &p->t->device;
	const struct kernel_attention *a = k->work->attention;

	return a->pairs * (a->d + a->v) / search_float_rate(d) /
	       fmax(d->attention_eff, d->matrix_eff);
}

/* It may run beside contractions, and then adds PRICE_SLOWED of its time. */
static double
comm_us(const struct pricing *p, const struct kernel *k)
{
	const struct target_device *d = &p->t->device;
	double n = ranks_group_size(p->r, k->work->coll.axes);
	double link = fmax(d->link_bytes_us, d->bridge_bytes_us);

	return link > 0 ? PRICE_SLOWED * k->work->coll.bytes * (n - 1) / n /
			  link : 0;
}

static double
device_us(const struct pricing *p, const struct kernel *k, uint32_t data)
{
	const struct target_device *d = &p->t->device;
	uint32_t axes = k->work->coll.axes;
	double us = axes && !(axes & data) ? comm_us(p, k) : 0;

	switch (k->kind) {
	case KERNEL_CONTRACTION:
		return us + contraction_us(p, k);
	case KERNEL_ATTENTION:
		return us + attention_us(p, k);
	case KERNEL_MAP:
	case KERNEL_ROWWISE:
		return us + (k->work->read_bytes + k->work->write_bytes) /
			    (d->memory_bytes_us * d->memory_eff * BEST_MAP);
	default:
		return us;
	}
}

/* Time of a kernel on the quickest device group. */
static double
kernel_us(const struct search *s, struct pricing *p, const struct kernel *k,
	  uint32_t data)
{
	double us = INFINITY;
	uint32_t i;

	for (i = 0; i < s->ngroups; i++) {
		p->t = s->devs.at[i];
		us = fmin(us, device_us(p, k, data));
	}
	return us;
}

/* Adds time outside of repeats to *top, and time inside to *body. */
static void
list_us(const struct search *s, struct pricing *p, const struct kernel_list *l,
	uint32_t data, double *top, double *body)
{
	double once = 0, inner = 0;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			list_us(s, p, k->body, data, &inner, &inner);
		} else {
			once += kernel_us(s, p, k, data);
		}
	}
	*top += once * (double)l->count;
	*body += inner * (double)l->count;
}

/* Adds the time of a function of a piece. */
static void
add(struct search_pieces *us, uint32_t piece, uint32_t kind, double more)
{
	us->all[piece] += more;
	us->forward[piece] += kind == SCHED_F ? more : 0;
}

/* ---- proven, by degrees ---- */

static struct search_lower_bound *
find(const struct search *s, const struct search_key *key)
{
	uint32_t i;

	for (i = 0; i < s->lower_bounds.n; i++) {
		struct search_lower_bound *f = s->lower_bounds.at[i];

		if (f->tp == key->tp && f->cp == key->cp &&
		    f->ep == key->ep && f->sequence == key->sequence) {
			return f;
		}
	}
	return NULL;
}

void
search_add_lower_bound(struct search *s, const struct search_sharding *w,
		 const struct search_kernels *kernels)
{
	struct pricing at = { .r = &w->r, .m = w->m,
			      .traits = &s->o->traits };
	axis_id dp = ir_axis_find(w->m, intern_str(&w->m->ctx->syms, "dp"));
	struct search_lower_bound *f;
	struct search_pieces us = { 0 };
	uint32_t i, k;

	if (find(s, &w->key) || w->key.choice || w->key.microbatch ||
	    search_has_exchange(&w->key)) {
		return;
	}
	for (i = 0; i < w->on->nstages; i++) {
		uint32_t p = w->on->piece_of[i];
		double n = (double)kernels->size;

		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id id = w->r.of_stage[i][k];
			double top = 0, body = 0;

			if (id) {
				list_us(s, &at, kernels->of[id]->top,
					dp ? 1u << dp : 0, &top, &body);
			}
			if (p < PIECE_BODY) {
				add(&us, p, k, (top + body) / n);
				continue;
			}
			add(&us, p, k, body / n / (double)w->on->iterations[i]);
			/* the same for all: set by the first */
			add(&us, PIECE_TOP, k, i > 1 ? 0 : top / n);
		}
	}
	f = arena_alloc(&s->keep, sizeof *f);
	f->tp = w->key.tp;
	f->cp = w->key.cp;
	f->ep = w->key.ep;
	f->sequence = w->key.sequence;
	f->us = us;
	search_set_line(s, &us, &f->line);
	VEC_PUSH(&s->keep, &s->lower_bounds, f);
}

/* ---- from shardings that were priced ---- */

/*
 * Rule: a sharding takes at least this part of the time of another sharding's
 * placement, priced at its own axis lengths; its own placement may be better.
 * Where both were priced, for llama-3-8b and mixtral on clusters of H100 and
 * RTX 4090, its own took at least 0.974 of it, and in most cases all of it.
 */
#define SHARE 0.96
/*
 * Rule: that part where the other sharding was placed for a larger microbatch,
 * which may suit this one less: 0.913 for llama-3-8b on 32 RTX 4090.
 */
#define LARGER_MB_SHARE 0.9
/*
 * Rule: with ZeRO 2 and 3 functions take at least this part of their time with
 * ZeRO 1, without communication among data ranks (search_data.c): a rank adds
 * up only its part of the gradients, and all else is the same.  The ratio was
 * at least 0.99 in 21,142 of 21,154 pairs, and 0.966 at the least.
 */
#define CUT_SHARE 0.98

/*
 * What ZeRO splits within a microbatch: 0 nothing, 2 gradients, 3 weights, too.
 */
static int
cut_of(const struct search_key *key)
{
	return key->zero > 1 ? key->zero : 0;
}

static bool
like_stages(const struct search_key *a, const struct search_key *b)
{
	return (a->sequence == b->sequence || a->tp == 1) &&
	       a->solo == b->solo;
}

/*
 * ZeRO 0 and 1, with or without data ranks, differ only in updates and in
 * communication among data ranks, neither of which counts here.  With ZeRO 2
 * and 3, ranks may gather the rows of all data ranks and multiply these: then
 * the programs differ.
 */
bool
search_same_programs(const struct search_key *a, const struct search_key *b)
{
	return like_stages(a, b) && cut_of(a) == cut_of(b) &&
	       (!cut_of(a) || a->data == b->data);
}

/*
 * dp, if an axis other than pp is outside of it, so that dp moves its ranks
 * apart; else 0.
 */
static int64_t
apart(const struct search *s, int64_t dp)
{
	const enum plan_axis *mesh = s->base.mesh;
	bool outside = false;
	int i;

	for (i = 0; i < PLAN_NAXES && mesh[i] != PLAN_DP; i++) {
		outside |= mesh[i] != PLAN_PP;
	}
	return outside ? dp : 0;
}

static uint64_t
hash_known(const struct search_key *key, int64_t far, int64_t microbatch)
{
	uint64_t hash = hash_word((uint64_t)far, (uint64_t)microbatch);

	return hash_word(hash, (uint64_t)key->ep << 1 | key->solo);
}

/* Index of the list of entries that may bound that key; 0: none. */
static uint32_t
find_known(const struct search *s, const struct search_key *key, int64_t far,
	   int64_t microbatch)
{
	uint64_t hash = hash_known(key, far, microbatch);
	uint32_t at = 0;

	while ((at = table_find(&s->known_table, hash, at)) != 0) {
		const struct search_known_list *l = &s->known.at[at];

		if (l->apart == far && l->microbatch == microbatch &&
		    l->ep == key->ep && l->solo == key->solo) {
			break;
		}
	}
	return at;
}

/* Whether the entry is for that key, apart from ZeRO. */
static bool
is_bound_of(const struct search_known *k, const struct search_key *key)
{
	return k->key.tp == key->tp && k->key.cp == key->cp &&
	       k->key.data == key->data && k->key.sequence == key->sequence;
}

/* The entry of a key: its price, or if `derived` the bound from others. */
static struct search_known *
find_as(const struct search *s, const struct search_key *key, int64_t dp,
	int64_t microbatch, bool derived)
{
	uint32_t at = find_known(s, key, apart(s, dp), microbatch), i;

	for (i = 0; at && i < s->known.at[at].at.n; i++) {
		struct search_known *k = &s->known.at[at].at.at[i];

		if ((k->from != NULL) == derived && k->key.tp == key->tp &&
		    k->key.cp == key->cp &&
		    search_same_programs(&k->key, key) &&
		    (!derived || is_bound_of(k, key))) {
			return k;
		}
	}
	return NULL;
}

static struct search_known *
known(const struct search *s, const struct search_key *key, int64_t dp,
      int64_t microbatch)
{
	return find_as(s, key, dp, microbatch, false);
}

static void
push_known(struct search *s, const struct search_known *k)
{
	uint32_t at = find_known(s, &k->key, k->apart, k->microbatch);
	struct search_known_list l = {
		.apart = k->apart, .microbatch = k->microbatch,
		.ep = k->key.ep, .solo = k->key.solo
	};

	if (!at) {
		at = table_add(&s->keep, &s->known_table,
			       hash_known(&k->key, k->apart, k->microbatch));
		while (s->known.n <= at) {
			VEC_PUSH(&s->keep, &s->known, l);
		}
	}
	VEC_PUSH(&s->keep, &s->known.at[at].at, *k);
}

/*
 * Time of collectives that kernels may hide, without collectives among data
 * ranks.
 */
static double
hidden_us(const struct search *s, const struct price_func *f)
{
	double coll = fmax(f->us[PRICE_COMM] - f->data_us, 0);
	double us = fmin(f->beside_us, coll) * (1 - PRICE_SLOWED);

	return s->o->traits.overlap_tensor ? fmax(us, f->tensor_us) : us;
}

double
search_least_us(const struct search *s, const struct search_cost *c,
		uint32_t piece, uint32_t kind)
{
	double us = INFINITY;
	uint32_t i;

	for (i = 0; i < s->ngroups; i++) {
		const struct price_func *x = &c->on[i]->fn[piece][kind];

		us = fmin(us, x->total_us - x->data_us - hidden_us(s, x));
	}
	return us;
}

bool
search_is_known(const struct search *s, const struct search_key *key,
		const struct search_try *t)
{
	return known(s, key, t->g->dp, t->microbatch) != NULL;
}

void
search_least_pieces(const struct search *s, const struct search_cost *c,
		    struct search_pieces *out)
{
	uint32_t i, j;

	memset(out, 0, sizeof *out);
	for (i = 0; i < PIECE_BODY + s->nkinds; i++) {
		for (j = 0; j < SCHED_NKINDS; j++) {
			add(out, i, j, search_least_us(s, c, i, j) /
				       (double)c->microbatch);
		}
	}
}

/* Adds an entry, or replaces `old`. */
static void
learn(struct search *s, struct search_known *old, struct search_known *k)
{
	search_set_line(s, &k->us, &k->line);
	s->learnt++;
	if (old) {
		*old = *k;
	} else {
		push_known(s, k);
	}
}

void
search_add_known(struct search *s, const struct search_sharding *w,
		 const struct search_key *key, const struct search_cost *c)
{
	struct search_known *old = known(s, key, c->dp, c->microbatch);
	struct search_known k = {
		.key = *key, .apart = apart(s, c->dp),
		.microbatch = c->microbatch,
		.larger_mb = w->on->at.microbatch > c->microbatch,
		.guess = w->key.tp != key->tp || w->key.cp != key->cp ||
			 w->key.ep != key->ep
	};

	if (w->key.choice || w->key.split || w->key.microbatch ||
	    (old && !old->guess)) {
		return;
	}
	search_least_pieces(s, c, &k.us);
	learn(s, old, &k);
}

/* ---- bounds of shardings that split further ---- */

const struct search_sharding *
search_tensor_bound_from(const struct search *s, const struct search_key *key,
		  const struct search_try *t)
{
	const struct search_known *k = find_as(s, key, t->g->dp,
					       t->microbatch, true);

	return k ? k->from : NULL;
}

void
search_add_tensor_bound(struct search *s, const struct search_key *key,
		 const struct search_try *t, const struct search_sharding *from,
		 const struct search_pieces *us)
{
	struct search_known k = {
		.key = *key, .apart = apart(s, t->g->dp),
		.microbatch = t->microbatch, .from = from, .us = *us
	};

	learn(s, find_as(s, key, t->g->dp, t->microbatch, true), &k);
}

/*
 * Whether b splits tensors further than a, in a model without experts.
 * Splitting further makes kernels smaller, not more efficient, and adds
 * collectives: so all ranks together take no less.  Without experts tensor
 * ranks add so much that this holds with any `sequence` and any ZeRO: the ratio
 * was at least 0.980 in 1,700,000 pairs of pieces of all examples, and 1.07 in
 * 390,000 of drawn models.
 */
static bool
splits_further(const struct search *s, const struct search_key *a,
	       const struct search_key *b)
{
	return s->experts == 1 && a->tp < b->tp && a->cp == 1 && b->cp == 1;
}

static bool
is_as_wide(const struct search_key *a, const struct search_key *b)
{
	return a->tp * a->cp == b->tp * b->cp;
}

/*
 * With ZeRO 2 and 3, a time that includes communication of ep and cp is no
 * bound for a sharding that splits tensors further: that may send rows instead.
 */
bool
search_is_bound_for(const struct search *s, const struct search_key *a,
		   const struct search_key *b)
{
	return a->ep == b->ep && b->tp % a->tp == 0 && b->cp % a->cp == 0 &&
	       a->solo == b->solo &&
	       (!search_has_exchange(a) || is_as_wide(a, b)) &&
	       (splits_further(s, a, b) || search_same_programs(a, b) ||
		(like_stages(a, b) && !cut_of(a)));
}

/* A rank's part of a's time in b, with CUT_SHARE where ZeRO 2 or 3 differ. */
static double
part_of(const struct search *s, const struct search_key *a,
	const struct search_key *b)
{
	bool cut = cut_of(a) != cut_of(b) && !splits_further(s, a, b);

	return (cut ? CUT_SHARE : 1) *
	       (double)(a->tp * a->cp) / (double)(b->tp * b->cp);
}

static bool
cuts_states(const struct search_key *key)
{
	return key->zero > 0;
}

double
search_cost_share(const struct search *s, const struct search_key *a,
	     const struct search_key *b, bool larger_mb)
{
	double share = part_of(s, a, b);

	return !is_as_wide(a, b) ? share * (larger_mb ? LARGER_MB_SHARE : SHARE)
		: cuts_states(a) != cuts_states(b) ? share * SEARCH_SAME
		: share;
}

/* The factor that makes an entry's time a bound for the key; 0: it is none. */
static double
share_of(const struct search *s, const struct search_known *k,
	 const struct search_key *key)
{
	double share;

	if (!search_is_bound_for(s, &k->key, key) ||
	    (k->from && !is_bound_of(k, key))) {
		return 0;
	}
	share = part_of(s, &k->key, key);
	if (k->from) {
		return share;
	}
	if (k->guess || !is_as_wide(&k->key, key)) {
		return share * (k->larger_mb ? LARGER_MB_SHARE : SHARE);
	}
	share *= cuts_states(&k->key) != cuts_states(key) ? SEARCH_SAME : 1;
	return key->microbatch ? share * SEARCH_OWN : share;
}

static void
raise(struct search_pieces *us, const struct search_pieces *to, double share)
{
	int i;

	for (i = 0; i < PIECE_MAX; i++) {
		us->all[i] = fmax(us->all[i], share * to->all[i]);
		us->forward[i] = fmax(us->forward[i], share * to->forward[i]);
	}
}

void
search_known_pieces(const struct search *s, const struct search_key *key,
		    const struct search_try *t, struct search_pieces *us)
{
	uint32_t at = find_known(s, key, apart(s, t->g->dp), t->microbatch);
	const struct search_lower_bound *f = find(s, key);
	uint32_t i;

	memset(us, 0, sizeof *us);
	if (f) {
		raise(us, &f->us, 1);
	}
	for (i = 0; at && i < s->known.at[at].at.n; i++) {
		const struct search_known *k = &s->known.at[at].at.at[i];

		if (!search_has_exchange(&k->key)) {
			raise(us, &k->us, share_of(s, k, key));
		}
	}
}

/* ---- bounds ---- */

bool
search_is_above(struct search *s, const struct search_key *key,
		const struct search_try *t, double us)
{
	const struct search_lower_bound *f = find(s, key);

	us = search_kernels_us(s, key, t, false, us);
	return us <= 0 || (f && search_line_is_above(s, t, &f->line, us));
}

bool
search_seems_above(struct search *s, const struct search_key *key,
		   const struct search_try *t, double us)
{
	uint32_t at = find_known(s, key, apart(s, t->g->dp), t->microbatch);
	double left_us = search_kernels_us(s, key, t, false, us);
	double part_us = search_kernels_us(s, key, t, true, us);
	uint32_t i;

	for (i = 0; at && i < s->known.at[at].at.n && left_us > 0; i++) {
		const struct search_known *k = &s->known.at[at].at.at[i];
		double share = share_of(s, k, key);

		us = search_has_exchange(&k->key) ? part_us : left_us;
		if (share > 0 &&
		    search_line_is_above(s, t, &k->line, us / share)) {
			return true;
		}
	}
	return left_us <= 0;
}

double
search_lower_bound_us(struct search *s, const struct search_key *key,
		const struct search_try *t)
{
	uint32_t at = find_known(s, key, apart(s, t->g->dp), t->microbatch);
	double most = search_data_us(s, key, t, false, 0);
	uint32_t i;

	for (i = 0; at && i < s->known.at[at].at.n; i++) {
		const struct search_known *k = &s->known.at[at].at.at[i];
		double share = share_of(s, k, key), us;
		bool part = search_has_exchange(&k->key);

		if (share > 0) {
			us = share * search_line_us(s, t, &k->line);
			most = fmax(most, us + search_data_us(s, key, t, part,
							      us));
		}
	}
	return most;
}

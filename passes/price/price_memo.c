/*
 * What lists of kernels take, and in how many parts their pairs run, once for
 * all that are alike.  Both follow from what a list consists of
 * (kernel_list.content), on which devices, and from where the ranks are with
 * which its kernels communicate: how long the axes are that lie inside of the
 * outermost of these, and those that cut what they exchange.  What an update's
 * kernels wait for depends on whether its state is there.
 *
 * Keys have the addresses of devices and leave out traits, so they hold for
 * one search.
 */
#include "passes/price/price.h"

#include "ir/memo.h"
#include "passes/plan/plan.h"

/* A pair that runs by parts. */
struct parts_pair {
	uint32_t coll, dot;
	struct kernel_parts parts;
};

struct parts_pairs {
	uint32_t n;
	struct parts_pair at[];
};

/* ---- where ranks are ---- */

/* Into how many parts it can be cut depends on how many share its rows. */
static void
mix_shares(const struct ir_module *m, const struct kernel *k, struct hash *key)
{
	const struct ir_type *t;
	uint32_t i, cut;
	uint64_t ranks;

	if (k->kind != KERNEL_COLLECTIVE || k->inputs.n == 0) {
		return;
	}
	t = ir_type(m, k->inputs.at[0].value);
	for (i = 0; i < t->ndims; i++) {
		for (cut = t->cut[i], ranks = 1; cut; cut >>= 4) {
			ranks *= (uint64_t)m->axes.at[cut & 15].size;
		}
		if (t->cut[i]) {
			hash_add(key, ranks);
		}
	}
}

/* Lists inside are like others, too, and run as often. */
static bool
mix_lists(const struct kernel_list *l, struct hash *key)
{
	bool known = l->content.a || l->content.b;
	uint32_t i;

	hash_add(key, l->content.a);
	hash_add(key, l->content.b);
	for (i = 0; i < l->at.n; i++) {
		const struct kernel_list *body = l->at.at[i].body;

		if (body) {
			hash_add(key, (uint64_t)body->count);
			known &= mix_lists(body, key);
		}
	}
	return known;
}

/* Bit 0: some of it updates tensors, which may have to wait for their host. */
static uint32_t
axes_of(const struct ir_module *m, const struct kernel_list *l,
	struct hash *key)
{
	uint32_t axes = 0, i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		axes |= k->kind == KERNEL_OPTIMIZER;
		axes |= k->body ? axes_of(m, k->body, key)
				: k->work->coll.axes;
		mix_shares(m, k, key);
	}
	return axes;
}

static void
mix_mesh(const struct pricing *p, const struct kernel_list *l,
	 struct hash *key)
{
	const struct ir_module *m = p->m;
	uint32_t axes = axes_of(m, l, key);
	axis_id a;

	hash_add(key, axes & 1 ? plan_offload(m) &
				~(uint32_t)PLAN_OFFLOAD_SAVES : 0);
	hash_add(key, p->r->time != 0);
	if (!(axes >> 1)) {
		return;
	}
	for (a = 1; !(axes >> a & 1); a++) {
	}
	hash_add(key, a);
	hash_add(key, p->r->time);
	hash_add(key, (uint64_t)p->r->dp << 8 | p->r->tp);
	for (; a < m->axes.n; a++) {
		hash_add(key, a == p->r->time ? 0
			: (uint64_t)m->axes.at[a].size);
	}
}

bool
price_key(const struct pricing *p, const struct kernel_list *l,
	  struct hash *key)
{
	*key = (struct hash){ 7, 8 };
	if (!p->memo || !mix_lists(l, key)) {
		return false;
	}
	hash_add(key, (uint64_t)(uintptr_t)p->t);
	hash_add(key, (uint64_t)(uintptr_t)(p->across ? p->across : p->t));
	plan_mix_tiles(p->m, key);
	mix_mesh(p, l, key);
	return true;
}

/* ---- pairs that run by parts ---- */

bool
price_recall_parts(const struct pricing *p, struct hash key,
		   struct kernel_list *l)
{
	const struct parts_pairs *x = memo_find(p->memo, MEMO_PARTS, key);
	uint32_t i;

	for (i = 0; x && i < x->n; i++) {
		const struct parts_pair *c = &x->at[i];

		parts_set(l, c->coll, c->dot, &c->parts);
	}
	return x != NULL;
}

static bool
leads(const struct kernel *k)
{
	return k->kind == KERNEL_COLLECTIVE && k->parts;
}

void
price_remember_parts(const struct pricing *p, struct hash key,
		     const struct kernel_list *l)
{
	struct arena *a = memo_arena(p->memo, MEMO_PARTS);
	struct parts_pairs *x;
	uint32_t i, n = 0;

	if (!a) {
		return;
	}
	for (i = 0; i < l->at.n; i++) {
		n += leads(&l->at.at[i]);
	}
	x = arena_alloc(a, sizeof *x + n * sizeof *x->at);
	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (leads(k)) {
			x->at[x->n++] = (struct parts_pair){
				i, parts_led(l, i) ? i - 1 : k->until,
				*k->parts
			};
		}
	}
	memo_keep(p->memo, MEMO_PARTS, key, x);
}

/* ---- one run ---- */

/* Of the list and those inside. */
static void
mix_parts(const struct kernel_list *l, struct hash *key)
{
	uint32_t i, k;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *x = &l->at.at[i];

		if (x->body) {
			mix_parts(x->body, key);
		}
		if (!x->parts) {
			continue;
		}
		hash_add(key, (uint64_t)i << 32 | x->until);
		hash_add(key, (uint64_t)x->parts->n << 32 | x->parts->ndims);
		for (k = 0; k < x->parts->ndims; k++) {
			hash_add(key, (uint64_t)x->parts->at[k].dim << 32 |
				      x->parts->at[k].cut);
			hash_add(key, (uint64_t)x->parts->at[k].by);
		}
	}
}

const struct price_func *
price_recall(const struct pricing *p, struct hash key,
	     const struct kernel_list *l)
{
	mix_parts(l, &key);
	return memo_find(p->memo, MEMO_PRICES, key);
}

void
price_remember(const struct pricing *p, struct hash key,
	       const struct kernel_list *l, const struct price_func *once)
{
	struct arena *a = memo_arena(p->memo, MEMO_PRICES);

	if (a) {
		mix_parts(l, &key);
		memo_keep(p->memo, MEMO_PRICES, key,
			  arena_dup(a, once, sizeof *once));
	}
}

/* ---- contractions ---- */

static struct hash
hash_dot(const struct target_device *on, const struct cost_contraction *x)
{
	struct hash key = { 9, (uint64_t)(uintptr_t)on };

	hash_add(&key, num_bits(x->m));
	hash_add(&key, num_bits(x->n));
	hash_add(&key, num_bits(x->k));
	hash_add(&key, num_bits(x->batch));
	hash_add(&key, num_bits(x->out_bytes));
	hash_add(&key, num_bits(x->stored_bytes));
	hash_add(&key, num_bits(x->put.slots));
	hash_add(&key, num_bits(x->put.warps_slots));
	hash_add(&key, (uint64_t)x->put.beside << 1 | x->either);
	hash_add(&key, (uint64_t)x->rate << 7 | x->widened_apart << 6 |
		      x->single[1] << 5 |
		      x->single[0] << 4 | x->own_tail << 3 |
		      x->widened << 2 | x->panels << 1 | x->narrow);
	return key;
}

typedef double dot_time(const struct target_device *on,
			const struct cost_contraction *x);

/* What `time` says of it, known by `key` or not. */
static double
known_dot_us(const struct pricing *p, struct hash key, dot_time *time,
	     const struct cost_contraction *x)
{
	const double *known = memo_find(p->memo, MEMO_DOTS, key);
	struct arena *a;
	double us;

	if (known) {
		return *known;
	}
	us = time(&p->t->device, x);
	a = memo_arena(p->memo, MEMO_DOTS);
	if (a) {
		memo_keep(p->memo, MEMO_DOTS, key,
			  arena_dup(a, &us, sizeof us));
	}
	return us;
}

static double
whole_us(const struct target_device *on, const struct cost_contraction *x)
{
	return cost_contraction(on, x).us;
}

double
price_dot_us(const struct pricing *p, const struct cost_contraction *x)
{
	return known_dot_us(p, hash_dot(&p->t->device, x), whole_us, x);
}

double
price_dot_split_us(const struct pricing *p, const struct cost_contraction *x)
{
	struct hash key = hash_dot(&p->t->device, x);

	hash_add(&key, 1);
	return known_dot_us(p, key, cost_contraction_split_us, x);
}

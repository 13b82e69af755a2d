/*
 * What lists of kernels took before, and in how many parts their pairs run.
 * Both follow from what the list is (kernel_list.like), on which devices, and
 * from where the ranks are with which its kernels talk: how long the axes are
 * that lie inside of the outermost of these, and those that cut what they talk
 * about.
 * What an update's kernels wait for depends on whether its state is there.
 */
#include "passes/price/price.h"

#include "passes/plan/plan.h"

/* A pair that runs by parts. */
struct cut {
	uint32_t coll, dot;
	struct kernel_parts parts;
};

struct known {
	uint64_t mesh;
	const struct target_group *on, *across;	/* see struct pricing */
	uint32_t like;
	bool is_cut, is_priced;
	VEC(struct cut) cuts;
	struct price_func once;
};

/* A contraction: many kernels and parts of them have the same shape. */
struct dot {
	struct cost_contraction x;
	const struct target_device *on;
	double us;
};

struct price_memo {
	struct arena *arena;
	VEC(struct known) known;	/* the first is none */
	VEC(struct dot) dots;	/* the same */
	struct table known_table, dot_table;
};

struct price_memo *
price_memo_new(struct arena *a)
{
	struct price_memo *m = arena_alloc(a, sizeof *m);

	m->arena = a;
	VEC_PUSH(a, &m->known, (struct known){ 0 });
	VEC_PUSH(a, &m->dots, (struct dot){ 0 });
	return m;
}

/* ---- where ranks are ---- */

static void
mix(uint64_t *hash, uint64_t word)
{
	*hash = hash_word(*hash, word);
}

/* Into how many parts a talk can be cut depends on how many share its rows. */
static void
mix_shares(const struct ir_module *m, const struct kernel *k, uint64_t *hash)
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
		mix(hash, ranks);
	}
}

/* Lists inside are like others, too, and run as often. */
static bool
mix_bodies(const struct kernel_list *l, uint64_t *hash)
{
	bool known = l->like != 0;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel_list *body = l->at.at[i].body;

		if (body) {
			mix(hash, (uint64_t)body->count << 32 | body->like);
			known &= mix_bodies(body, hash);
		}
	}
	return known;
}

/* Bit 0: some of it updates tensors, which may have to wait for their host. */
static uint32_t
axes_of(const struct ir_module *m, const struct kernel_list *l, uint64_t *hash)
{
	uint32_t axes = 0, i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		axes |= k->kind == KERNEL_OPTIMIZER;
		axes |= k->body ? axes_of(m, k->body, hash)
				: k->work->coll.axes;
		mix_shares(m, k, hash);
	}
	return axes;
}

static void
mix_mesh(const struct pricing *p, const struct kernel_list *l, uint64_t *hash)
{
	const struct ir_module *m = p->m;
	uint32_t axes = axes_of(m, l, hash);
	axis_id a;

	mix(hash, (axes & 1) && plan_offload(m));
	if (!(axes >> 1)) {
		return;
	}
	for (a = 1; !(axes >> a & 1); a++) {
	}
	mix(hash, a);
	mix(hash, p->r->time);
	mix(hash, (uint64_t)p->r->dp << 8 | p->r->tp);
	for (; a < m->axes.n; a++) {
		mix(hash, a == p->r->time ? 0
			: (uint64_t)m->axes.at[a].size);
	}
}

/* ---- what is known ---- */

static bool
same_list(const struct known *x, const struct known *y)
{
	return x->like == y->like && x->mesh == y->mesh && x->on == y->on &&
	       x->across == y->across;
}

uint32_t
price_memo_find(const struct pricing *p, const struct kernel_list *l)
{
	struct known new = {
		.like = l->like, .mesh = 1, .on = p->t,
		.across = p->across ? p->across : p->t
	};
	struct price_memo *m = p->memo;
	uint64_t hash = l->like;
	uint32_t at = 0;

	if (!m || !mix_bodies(l, &new.mesh)) {
		return 0;
	}
	mix_mesh(p, l, &new.mesh);
	mix(&hash, new.mesh);
	while ((at = table_find(&m->known_table, hash, at)) != 0) {
		if (same_list(&m->known.at[at], &new)) {
			return at;
		}
	}
	VEC_PUSH(m->arena, &m->known, new);
	return table_add(m->arena, &m->known_table, hash);
}

bool
price_memo_cuts(const struct pricing *p, uint32_t at, struct kernel_list *l)
{
	const struct known *x = &p->memo->known.at[at];
	uint32_t i;

	for (i = 0; i < x->cuts.n; i++) {
		const struct cut *c = &x->cuts.at[i];

		parts_set(l, c->coll, c->dot, &c->parts);
	}
	l->cut_for = x->is_cut ? at : 0;
	return x->is_cut;
}

void
price_memo_keep_cuts(const struct pricing *p, uint32_t at,
		     struct kernel_list *l)
{
	struct known *x = &p->memo->known.at[at];
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->kind == KERNEL_COLLECTIVE && k->parts) {
			struct cut c = { i, parts_led(l, i) ? i - 1
							    : k->until,
					 *k->parts };

			VEC_PUSH(p->memo->arena, &x->cuts, c);
		}
	}
	x->is_cut = true;
	l->cut_for = at;
}

const struct price_func *
price_memo_once(const struct pricing *p, uint32_t at,
		const struct kernel_list *l)
{
	const struct known *x;

	if (!at || at != l->cut_for) {	/* there may be no memo */
		return NULL;
	}
	x = &p->memo->known.at[at];
	return x->is_priced ? &x->once : NULL;
}

void
price_memo_keep(const struct pricing *p, uint32_t at,
		const struct kernel_list *l, const struct price_func *once)
{
	struct known *x;

	if (at && at == l->cut_for) {
		x = &p->memo->known.at[at];
		x->once = *once;
		x->is_priced = true;
	}
}

/* ---- contractions ---- */

static uint64_t
hash_dot(const struct cost_contraction *x)
{
	uint64_t hash = num_bits(x->m);

	mix(&hash, num_bits(x->n));
	mix(&hash, num_bits(x->k));
	mix(&hash, num_bits(x->batch));
	return hash;
}

static bool
same_dot(const struct cost_contraction *a, const struct cost_contraction *b)
{
	return a->m == b->m && a->n == b->n && a->k == b->k &&
	       a->batch == b->batch && a->rate == b->rate &&
	       a->out_bytes == b->out_bytes && a->narrow == b->narrow;
}

double
price_memo_dot(const struct pricing *p, const struct cost_contraction *x)
{
	const struct target_device *on = &p->t->device;
	struct price_memo *m = p->memo;
	struct dot new = { .x = *x, .on = on };
	uint64_t hash = hash_dot(x);
	uint32_t at = 0;

	if (!m) {
		return cost_contraction(on, x).us;
	}
	while ((at = table_find(&m->dot_table, hash, at)) != 0) {
		const struct dot *d = &m->dots.at[at];

		if (d->on == on && same_dot(&d->x, x)) {
			return d->us;
		}
	}
	new.us = cost_contraction(on, x).us;
	table_add(m->arena, &m->dot_table, hash);
	VEC_PUSH(m->arena, &m->dots, new);
	return new.us;
}

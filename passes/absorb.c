/*
 * absorb: attention whose keys and values are computed of what is cached
 * attends to what is cached.  A model with latents has
 *
 *	k = concat(dot(cache(l), Wk, over=rank), cache(r))
 *	v = dot(cache(l), Wv, over=rank)
 *	y = attention(concat(a, b), k, v)
 *
 * where Wk and Wv may be slices of one weight, and heads share r.  A step that
 * serves would compute k and v of all keys of all its sequences each time.
 * But a dot (l Wk) is (Wk a) dot l, and a sum of l Wv with weights is that sum
 * of l, times Wv (DeepSeek-V2, arXiv:2405.04434, section 2.1.2).  So it becomes
 *
 *	c = cache(concat(l, r))			one kv head, of all heads
 *	z = attention(concat(dot(a, Wk, over=nope), b), c, l of c)
 *	y = dot(z, Wv, over=rank)
 *
 * whose contractions are of the step's positions alone.  It is the same but for
 * rounding.  Scores keep the scale of k's size.
 *
 * It is done only if all that stands between the cache and attention is a
 * product with a weight, slices of that, and `concat` with something that is
 * cached as it is; else keys are computed, as the model says: where they are
 * rotated or have a norm or a bias after the product, where heads share the
 * keys of several kv heads, and where others read them, too.  A `cache` of what
 * is computed of cached rows is left out before: `cache(f(cache(x)))` keeps x,
 * of which keys are computed.
 *
 * The pass stands before `ragged`, which makes the cache of what it finds, and
 * acts if the setting `program.serves` is there; what prices a program that
 * serves calls pass_absorb_latents for the same model.
 */
#include "passes/derive.h"

#include <math.h>

#define MOST_SLICES 8

/* What a weight makes of rows that are cached. */
struct linear {
	value_id cached;	/* the rows, a result of `cache` */
	value_id weight;
	dim_id rank;		/* which it sums over */
	dim_id dim;		/* the last one of what it makes */
	node_id slice[MOST_SLICES];	/* of the product, the last first */
	uint32_t nslices;
};

/* Attention that can be absorbed. */
struct latents {
	struct linear k, v;
	value_id shared;	/* keys' part that heads share; 0: none */
	bool shared_first;	/* it stands before the other part */
};

struct absorb {
	struct ir_module *m;
	uint32_t *uses;		/* by value: how often it is read */
	value_id *feeds;	/* by value: attention that alone it feeds */
	dim_id one;		/* of the one kv head */
	dim_id latent;		/* the last one that was made; or 0 */
	region_id r;		/* where new nodes go */
	VEC(value_id) from, to;	/* results, and what takes their place */
};

/* ---- which attention ---- */

static const struct ir_node *
maker(const struct absorb *x, value_id v)
{
	return ir_node(x->m, x->m->values.at[v].node);
}

static bool
is_cached(const struct absorb *x, value_id v)
{
	return maker(x, v)->op == IR_CACHE;
}

static dim_id
last_dim(const struct ir_module *m, value_id v)
{
	const struct ir_type *t = ir_type(m, v);

	return t->ndims ? t->dims[t->ndims - 1] : 0;
}

/* Whether slices of what it makes are dims of a slice of the weight, too. */
static bool
may_slice(const struct absorb *x, const struct linear *p)
{
	uint32_t i;

	for (i = 0; i < p->nslices; i++) {
		if (ir_attr(x->m, ir_node(x->m, p->slice[i]), IR_ATTR_TO)
		    ->dims[0] == p->rank) {
			return false;
		}
	}
	return true;
}

/* Whether the weight has these three dims: of heads, of `dim` before it is
 * sliced, and the contracted one. */
static bool
is_weight_of(const struct absorb *x, const struct linear *p, dim_id head,
	     dim_id dim)
{
	const struct ir_type *t = ir_type(x->m, p->weight);

	return maker(x, p->weight)->op == IR_WEIGHT && t->ndims == 3 &&
	       ir_type_has(t, head) && ir_type_has(t, dim) &&
	       ir_type_has(t, p->rank);
}

/* Whether v is what a weight with heads makes of cached rows. */
static bool
find_linear(const struct absorb *x, value_id v, dim_id head, struct linear *p)
{
	const struct ir_node *n = maker(x, v);
	const struct ir_attr *over;
	dim_id dim = last_dim(x->m, v);
	uint32_t w;

	*p = (struct linear){ .dim = dim };
	for (; n->op == IR_SLICE && p->nslices < MOST_SLICES;
	     n = maker(x, ir_args(x->m, n)[0])) {
		if (ir_attr(x->m, n, IR_ATTR_TO)->dims[0] != dim) {
			return false;
		}
		dim = ir_attr(x->m, n, IR_ATTR_OF)->dims[0];
		p->slice[p->nslices++] = x->m->values.at[n->result].node;
	}
	if (n->op != IR_DOT) {
		return false;
	}
	over = ir_attr(x->m, n, IR_ATTR_OVER);
	w = maker(x, ir_args(x->m, n)[0])->op == IR_WEIGHT ? 0 : 1;
	p->weight = ir_args(x->m, n)[w];
	p->cached = ir_args(x->m, n)[!w];
	p->rank = over->dims[0];
	return over->ndims == 1 && is_cached(x, p->cached) &&
	       last_dim(x->m, p->cached) == p->rank &&
	       !ir_type_has(ir_type(x->m, p->cached), head) &&
	       is_weight_of(x, p, head, dim) && may_slice(x, p);
}

/* Whether all that reads v, in the region of attention, ends in that. */
static bool
feeds_alone(struct absorb *x, const struct ir_region *r, value_id v,
	    value_id attention)
{
	uint32_t i, k, found = 0;

	if (x->feeds[v] == attention) {
		return true;
	}
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(x->m, r->nodes.at[i]);
		uint32_t reads = 0;

		for (k = 0; k < n->nargs; k++) {
			reads += ir_args(x->m, n)[k] == v;
		}
		if (reads == 0 || n->region) {
			continue;
		}
		found += reads;
		if (n->result != attention &&
		    ((n->op != IR_DOT && n->op != IR_SLICE &&
		      n->op != IR_CONCAT) ||
		     !feeds_alone(x, r, n->result, attention))) {
			return false;
		}
	}
	if (found == x->uses[v]) {
		x->feeds[v] = attention;
	}
	return found == x->uses[v];
}

/* Whether keys are linear in cached rows, perhaps beside others that heads
 * share. */
static bool
find_keys(const struct absorb *x, value_id k, dim_id head, struct latents *out)
{
	const struct ir_node *n = maker(x, k);
	const value_id *part;
	value_id v = k;

	if (n->op == IR_CONCAT) {
		part = ir_args(x->m, n);
		out->shared_first = is_cached(x, part[0]);
		out->shared = part[!out->shared_first];
		v = part[out->shared_first];
		if (!is_cached(x, out->shared) ||
		    ir_type_has(ir_type(x->m, out->shared), head)) {
			return false;
		}
	}
	return find_linear(x, v, head, &out->k) &&
	       (!out->shared || last_dim(x->m, out->shared) != out->k.rank);
}

static bool
same_rows(const struct ir_module *m, value_id a, value_id b)
{
	const struct ir_type *s = ir_type(m, a), *t = ir_type(m, b);
	uint32_t i;

	for (i = 0; i + 1 < s->ndims && s->ndims == t->ndims; i++) {
		if (s->dims[i] != t->dims[i]) {
			return false;
		}
	}
	return s->ndims == t->ndims && s->dtype == t->dtype;
}

static bool
find_latents(struct absorb *x, const struct ir_region *r, node_id id,
	     struct latents *out)
{
	const struct ir_node *n = ir_node(x->m, id);
	const value_id *args = ir_args(x->m, n);
	struct ir_rule rule;
	dim_id head;

	*out = (struct latents){ 0 };
	if ((n->op != IR_ATTENTION && n->op != IR_ATTENTION_SINKS) ||
	    !ir_attr(x->m, n, IR_ATTR_UNCACHED)) {
		return false;
	}
	ir_bind(x->m, n, &rule);
	head = ir_rule_factor(&rule, "h")->dims[0];
	if (ir_rule_factor(&rule, "k")->dims[0] != head ||
	    !find_keys(x, args[1], head, out) ||
	    !find_linear(x, args[2], head, &out->v)) {
		return false;
	}
	return out->k.cached == out->v.cached &&
	       last_dim(x->m, out->k.cached) == out->k.rank &&
	       feeds_alone(x, r, out->k.cached, n->result) &&
	       (!out->shared ||
		(same_rows(x->m, out->shared, out->k.cached) &&
		 feeds_alone(x, r, out->shared, n->result)));
}

/* ---- what it becomes ---- */

static value_id
one_arg(struct absorb *x, enum ir_op op, value_id v, enum ir_attr_key key,
	const struct ir_type *dims, struct span at)
{
	struct ir_new n;
	uint32_t i;

	ir_new_init(&n, op, at);
	ir_new_arg(&n, v);
	for (i = 0; dims && i < dims->ndims; i++) {
		ir_new_dim(&n, key, dims->dims[i]);
	}
	return derive_append(x->m, x->r, &n);
}

static value_id
slice(struct absorb *x, value_id v, dim_id of, dim_id to, int64_t from,
      struct span at)
{
	struct ir_new n;

	if (of == to) {
		return v;
	}
	ir_new_init(&n, IR_SLICE, at);
	ir_new_arg(&n, v);
	ir_new_dim(&n, IR_ATTR_OF, of);
	ir_new_dim(&n, IR_ATTR_TO, to);
	ir_new_int(&n, IR_ATTR_AT, from);
	return derive_append(x->m, x->r, &n);
}

static value_id
concat(struct absorb *x, value_id a, value_id b, dim_id to, struct span at)
{
	struct ir_new n;

	ir_new_init(&n, IR_CONCAT, at);
	ir_new_arg(&n, a);
	ir_new_arg(&n, b);
	ir_new_dim(&n, IR_ATTR_TO, to);
	return derive_append(x->m, x->r, &n);
}

/* The part of the weight that made p, by the slices of its product. */
static value_id
weight_of(struct absorb *x, const struct linear *p)
{
	value_id v = p->weight;
	uint32_t i;

	for (i = p->nslices; i-- > 0;) {
		const struct ir_node n = *ir_node(x->m, p->slice[i]);

		v = slice(x, v, ir_attr(x->m, &n, IR_ATTR_OF)->dims[0],
			  ir_attr(x->m, &n, IR_ATTR_TO)->dims[0],
			  ir_attr_int(x->m, &n, IR_ATTR_AT, 0), n.span);
	}
	return v;
}

/* v times the weight, `over` one of its dims; dims as v's, with `to` last. */
static value_id
times(struct absorb *x, value_id v, const struct linear *p, dim_id over,
      dim_id to, struct span at)
{
	struct ir_type t = *ir_type(x->m, v);
	struct ir_new n;
	value_id w = weight_of(x, p);

	ir_new_init(&n, IR_DOT, at);
	ir_new_arg(&n, v);
	ir_new_arg(&n, w);
	ir_new_dim(&n, IR_ATTR_OVER, over);
	v = derive_append(x->m, x->r, &n);
	t.dims[t.ndims - 1] = to;
	return one_arg(x, IR_ARRANGE, v, IR_ATTR_OVER, &t, at);
}

/* A dim of that size, under a name that no dim has. */
static dim_id
new_dim(struct absorb *x, const char *name, int64_t size)
{
	struct span nowhere = { 0, 0 };
	struct ir_module *m = x->m;
	const char *text = name;
	int i;

	for (i = 2; ir_dim_find(m, intern_str(&m->ctx->syms, text)); i++) {
		text = arena_printf(&m->ctx->tmp, "%s%d", name, i);
	}
	return ir_dim_add(m, intern_str(&m->ctx->syms, text), size, 0,
			  nowhere);
}

static value_id
before_cache(const struct absorb *x, value_id cached)
{
	return ir_args(x->m, maker(x, cached))[0];
}

/* What is cached, as the keys of one head: the latent, then what is shared. */
static value_id
keys(struct absorb *x, const struct latents *f, dim_id dim, struct span at)
{
	value_id v = before_cache(x, f->k.cached);
	struct ir_type t, one = { .ndims = 1 };

	if (f->shared) {
		v = concat(x, v, before_cache(x, f->shared), dim, at);
	}
	t = *ir_type(x->m, v);
	x->one = x->one ? x->one : new_dim(x, "latents", 1);
	one.dims[0] = x->one;
	v = one_arg(x, IR_EXPAND, v, IR_ATTR_OVER, &one, at);
	t.dims[t.ndims - 1] = x->one;
	t.dims[t.ndims++] = dim;
	v = one_arg(x, IR_ARRANGE, v, IR_ATTR_OVER, &t, at);
	return one_arg(x, IR_CACHE, v, 0, NULL, at);
}

/* A part of the queries: an operand of their `concat`, if that is it. */
static value_id
part_of(struct absorb *x, value_id q, dim_id dim, int64_t from, struct span at)
{
	const struct ir_node *n = maker(x, q);
	bool second = from > 0;
	value_id v = n->op == IR_CONCAT ? ir_args(x->m, n)[second] : q;

	if (n->op == IR_CONCAT && last_dim(x->m, v) == dim &&
	    ir_type(x->m, v)->ndims == ir_type(x->m, q)->ndims) {
		return v;
	}
	return slice(x, q, last_dim(x->m, q), dim, from, at);
}

/* Queries in the space of what is cached. */
static value_id
queries(struct absorb *x, value_id q, const struct latents *f, dim_id dim,
	struct span at)
{
	dim_id shared = f->shared ? last_dim(x->m, f->shared) : 0;
	int64_t first = f->shared_first ? ir_dim_size(x->m, shared) : 0;
	int64_t second = f->shared_first ? 0 : ir_dim_size(x->m, f->k.dim);
	value_id a = part_of(x, q, f->k.dim, first, at), b;

	a = times(x, a, &f->k, f->k.dim, f->k.rank, at);
	if (!shared) {
		return a;
	}
	b = part_of(x, q, shared, second, at);
	return concat(x, a, b, dim, at);
}

static void
set_scale(struct absorb *x, const struct ir_node *was, struct ir_new *n)
{
	dim_id d = last_dim(x->m, ir_args(x->m, was)[0]);

	if (!ir_attr(x->m, was, IR_ATTR_SCALE)) {
		ir_new_num(n, IR_ATTR_SCALE,
			   1 / sqrt((double)ir_dim_size(x->m, d)));
	}
}

static void
replace(struct absorb *x, node_id id, const struct latents *f)
{
	const struct ir_node was = *ir_node(x->m, id);
	struct ir_module *m = x->m;
	int64_t size = ir_dim_size(m, f->k.rank);
	dim_id dim = f->k.rank;
	struct ir_new n;
	value_id k, v;
	uint32_t i;

	if (f->shared) {
		size += ir_dim_size(m, last_dim(m, f->shared));
		if (!x->latent || ir_dim_size(m, x->latent) != size) {
			x->latent = new_dim(x, "latent", size);
		}
		dim = x->latent;
	}
	k = keys(x, f, dim, was.span);
	ir_new_init(&n, (enum ir_op)was.op, was.span);
	ir_new_arg(&n, queries(x, ir_args(m, &was)[0], f, dim, was.span));
	ir_new_arg(&n, k);
	ir_new_arg(&n, slice(x, k, dim, f->k.rank, 0, was.span));
	for (i = 3; i < was.nargs; i++) {
		ir_new_arg(&n, ir_args(m, &was)[i]);
	}
	for (i = 0; i < was.nattrs; i++) {
		struct ir_attr a = m->attrs.at[was.attrs + i];

		*ir_new_attr(&n, a.key) = a;
	}
	set_scale(x, &was, &n);
	v = derive_append(m, x->r, &n);
	v = times(x, v, &f->v, f->v.rank, f->v.dim, was.span);
	m->values.at[v].hint = m->values.at[was.result].hint;
	VEC_PUSH(&m->ctx->tmp, &x->from, was.result);
	VEC_PUSH(&m->ctx->tmp, &x->to, v);
}

static void
absorb_region(struct absorb *x, region_id id)
{
	struct ir_module *m = x->m;
	const struct ir_region was = m->regions.at[id];
	uint32_t n = was.nodes.n, i;
	node_id *old = arena_dup(&m->ctx->tmp, was.nodes.at, n * sizeof *old);
	struct ir_region all = { .nodes = { .at = old, .n = n } };
	struct latents f;

	m->regions.at[id].nodes.n = 0;
	for (i = 0; i < n; i++) {
		if (ir_node(m, old[i])->region) {
			absorb_region(x, ir_node(m, old[i])->region);
		}
		x->r = id;
		if (find_latents(x, &all, old[i], &f)) {
			replace(x, old[i], &f);
			continue;
		}
		VEC_PUSH(&m->ctx->perm, &m->regions.at[id].nodes, old[i]);
	}
}

/* ---- caches of what is cached ---- */

/*
 * Rows that are computed of cached ones are of all positions already, so a
 * `cache` of them keeps nothing: it is what it reads.  `cached`: by value, such
 * rows; `map`: what takes the place of a value.
 */
static void
drop_second_caches(struct ir_module *m, region_id id, bool *cached,
		   value_id *map)
{
	struct ir_region *r = &m->regions.at[id];
	uint32_t i, k, kept = 0;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);
		const value_id *args = ir_args(m, n);
		bool of = false;

		for (k = 0; k < n->nargs; k++) {
			of |= cached[args[k]];
		}
		if (n->region) {
			drop_second_caches(m, n->region, cached, map);
		} else if (n->op == IR_CACHE && of) {
			map[n->result] = map[args[0]] ? map[args[0]] : args[0];
			cached[n->result] = true;
			continue;
		} else if (n->nresults == 1 && !ir_is(n->op, IRF_PAIRS)) {
			cached[n->result] = of || n->op == IR_CACHE;
		}
		r->nodes.at[kept++] = r->nodes.at[i];
	}
	r->nodes.n = kept;
}

static void
count_uses(struct absorb *x)
{
	const struct ir_module *m = x->m;
	struct ir_reached reached;
	region_id r;
	uint32_t k;
	node_id id;

	x->uses = arena_alloc(&m->ctx->tmp, m->values.n * sizeof *x->uses);
	x->feeds = arena_alloc(&m->ctx->tmp, m->values.n * sizeof *x->feeds);
	ir_reach(m, &m->ctx->tmp, &reached);
	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);

		for (k = 0; reached.node[id] && k < n->nargs; k++) {
			x->uses[ir_args(m, n)[k]]++;
		}
	}
	for (r = 1; r < m->regions.n; r++) {
		for (k = 0; k < m->regions.at[r].results.n; k++) {
			x->uses[m->regions.at[r].results.at[k]]++;
		}
	}
}

uint32_t
pass_absorb_latents(struct ir_module *m)
{
	struct absorb x = { .m = m };
	region_id body = m->funcs.at[ir_model(m)].body;
	value_id *map = arena_alloc(&m->ctx->tmp, m->values.n * sizeof *map);
	uint32_t i;

	drop_second_caches(m, body, arena_alloc(&m->ctx->tmp, m->values.n),
			   map);
	ir_replace_uses(m, map);
	count_uses(&x);
	absorb_region(&x, body);
	map = arena_alloc(&m->ctx->tmp, m->values.n * sizeof *map);
	for (i = 0; i < x.from.n; i++) {
		map[x.from.at[i]] = x.to.at[i];
	}
	ir_replace_uses(m, map);
	return x.from.n;
}

bool
pass_absorb(struct pass_ctx *p, struct ir_module *m)
{
	if (ir_model(m) && ir_setting(m, "program.serves")) {
		pass_count(p, "attentions to latents", pass_absorb_latents(m));
	}
	return true;
}

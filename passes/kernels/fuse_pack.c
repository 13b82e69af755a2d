/*
 * Templates as bytes.  A run keeps thousands of them, and nearly all numbers in
 * one are small: a number is written in as few groups of 7 bits as it has, the
 * lowest first, with bit 7 set in all but the last.  Nodes are places in the
 * region, values are numbers of its key, and counts name those that they are
 * made of by how far these are before them.  In this order:
 *
 *	questions	how many values, how often, than which, the answer; the
 *			values
 *	counts		the kind, then what it is made of
 *	nodes that need no kernel
 *	kernels		kind and which kinds of work it has, nodes, uses with
 *			the counts of their bytes, counts of its work
 */
#include "passes/kernels/fuse.h"

/* Bits beside the kind of a kernel. */
enum {
	HAS_DOT = 1 << 4,
	HAS_ATTENTION = 1 << 5,
	HAS_COLL = 1 << 6,
	HAS_SUMS = 1 << 7,
	KIND = HAS_DOT - 1
};

/* Instead of IR_COUNT_NUMBER: a whole number below 2^32. */
#define SMALL_NUMBER 127

/* ---- writing ---- */

struct packing {
	struct buf out;
	const struct fuse *f;
	/* from the region's to the template's */
	struct fuse_names names;
	struct fuse_shapes *shapes;
};

static void
put(struct packing *w, uint64_t v)
{
	for (; v >= 128; v >>= 7) {
		buf_putc(&w->out, (char)(v | 128));
	}
	buf_putc(&w->out, (char)v);
}

static void
put_node(struct packing *w, node_id n)
{
	put(w, w->names.nodes ? w->names.nodes[n] : n);
}

static void
put_value(struct packing *w, value_id v)
{
	put(w, w->names.values ? w->names.values[v] : v);
}

static void
put_questions(struct packing *w)
{
	const struct fuse *f = w->f;
	uint32_t i, k;

	for (i = 0; i < f->asked.n; i++) {
		const struct fuse_question *q = &f->asked.at[i];

		put(w, q->n);
		put(w, q->times);
		put_value(w, q->than);
		put(w, q->yes);
		for (k = 0; k < q->n; k++) {
			put_value(w, f->terms.at[q->first + k]);
		}
	}
}

static void
put_number(struct packing *w, const struct ir_count *x)
{
	double v = ir_count_value(x);
	uint32_t whole = v >= 0 && v <= UINT32_MAX ? (uint32_t)v : 0;

	if (num_bits((double)whole) == num_bits(v)) {
		put(w, SMALL_NUMBER);
		put(w, whole);
	} else {
		put(w, IR_COUNT_NUMBER);
		put(w, x->a);
		put(w, x->b);
	}
}

static void
put_counts(struct packing *w)
{
	uint32_t i;

	for (i = 0; i < w->f->counts.at.n; i++) {
		const struct ir_count *x = &w->f->counts.at.at[i];

		if (x->kind == IR_COUNT_NUMBER) {
			put_number(w, x);
			continue;
		}
		put(w, x->kind);
		if (x->kind == IR_COUNT_LEN || x->kind == IR_COUNT_RANKS) {
			put(w, x->a);
			put(w, x->b);
			continue;
		}
		put(w, i - x->a);
		put(w, i - x->b);
		if (x->kind >= IR_COUNT_PAIRS) {
			put(w, i - x->c);
		}
	}
}

static void
put_uses(struct packing *w, const struct kernel_use *at, uint32_t n,
	 const count_id *bytes)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		put_value(w, at[i].value);
		put(w, bytes[i]);
	}
}

static bool
has_dot(const struct fuse_work *x)
{
	return x->dot.batch || x->dot.m || x->dot.n || x->dot.k ||
	       x->dot.groups;
}

static bool
has_coll(const struct fuse_work *x)
{
	return x->like.coll.axes || x->like.coll.op || x->like.coll.n ||
	       x->coll;
}

static void
put_work(struct packing *w, const struct fuse_work *x)
{
	const struct fuse_attention *a = x->attention;

	put(w, x->flops);
	put(w, x->read);
	put(w, x->write);
	if (has_dot(x)) {
		put(w, x->dot.batch);
		put(w, x->dot.m);
		put(w, x->dot.n);
		put(w, x->dot.k);
		put(w, x->dot.groups);
	}
	if (a) {
		put(w, (uint64_t)x->like.attention->window);
		put(w, x->like.attention->causal);
		put(w, a->batch);
		put(w, a->heads);
		put(w, a->kv);
		put(w, a->s);
		put(w, a->t);
		put(w, a->d);
		put(w, a->v);
		put(w, a->pairs);
	}
	if (has_coll(x)) {
		put(w, x->like.coll.axes);
		put(w, x->like.coll.op);
		put(w, x->like.coll.n);
		put(w, x->coll);
	}
}

/* The number of a shape, of which each is kept once. */
static uint32_t
shape_of(struct fuse_shapes *s, const struct ir_type *t)
{
	uint64_t hash = hash_word((uint64_t)t->dtype << 24 |
				  (uint64_t)t->ndims << 16 |
				  (uint64_t)t->sum << 8 | t->routed, t->of);
	uint32_t at = 0, i;

	for (i = 0; i < t->ndims; i++) {
		hash = hash_word(hash, (uint64_t)t->dims[i] << 32 | t->cut[i]);
	}
	while ((at = table_find(&s->known, hash, at)) != 0) {
		if (ir_type_equal(s->at.at[at], t)) {
			return at;
		}
	}
	if (!s->at.n) {
		VEC_PUSH(s->arena, &s->at, NULL);
	}
	VEC_PUSH(s->arena, &s->at, arena_dup(s->types, t, sizeof *t));
	return table_add(s->arena, &s->known, hash);
}

static void
put_kernel(struct packing *w, const struct kernel *k)
{
	const struct fuse_work *x = fuse_work_of(k);
	const count_id *bytes = w->f->uses_bytes.at + x->uses;
	uint32_t i;

	put(w, (uint32_t)k->kind | (has_dot(x) ? HAS_DOT : 0) |
	       (x->attention ? HAS_ATTENTION : 0) |
	       (has_coll(x) ? HAS_COLL : 0) |
	       (x->like.sums ? HAS_SUMS : 0));
	put(w, shape_of(w->shapes, k->work->shape));
	put(w, k->ncopies);
	put(w, k->until);
	put(w, k->nodes.n);
	put(w, k->inputs.n);
	put(w, k->outputs.n);
	for (i = 0; i < k->nodes.n; i++) {
		put_node(w, k->nodes.at[i]);
	}
	put_uses(w, k->inputs.at, k->inputs.n, bytes);
	put_uses(w, k->outputs.at, k->outputs.n, bytes + k->inputs.n);
	put_work(w, x);
}

static void
count_elems(const struct kernel_list *l, struct fuse_template *x)
{
	uint32_t i;

	x->nids = l->free.n;
	x->nuses = 0;
	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		x->nids += k->nodes.n;
		x->nuses += k->inputs.n + k->outputs.n;
	}
}

struct fuse_template *
fuse_pack(struct fuse *f, const struct kernel_list *l, struct fuse_names names,
	  struct fuse_shapes *shapes, struct arena *a)
{
	struct packing w = { .f = f, .names = names, .shapes = shapes };
	struct fuse_template x = { .shapes = shapes, .nkernels = l->at.n,
				   .nfree = l->free.n, .nasked = f->asked.n,
				   .ncounts = f->counts.at.n }, *to;
	uint32_t i;

	buf_init(&w.out, &f->tmp);
	put_questions(&w);
	put_counts(&w);
	for (i = 0; i < l->free.n; i++) {
		put_node(&w, l->free.at[i]);
	}
	for (i = 0; i < l->at.n; i++) {
		put_kernel(&w, &l->at.at[i]);
	}
	count_elems(l, &x);
	to = arena_alloc_raw(a, sizeof *to + w.out.n);
	*to = x;
	memcpy(to->bytes, w.out.at, w.out.n);
	return to;
}

/* ---- reading ---- */

struct unpacking {
	const uint8_t *at;
	const uint32_t *nodes, *values;	/* from the template's; or NULL */
	const struct ir_type *const *shapes;
	const double *v;	/* by count */
	/* what is free of the list's arrays */
	node_id *ids;
	struct kernel_use *uses;
};

static inline uint64_t
get(struct unpacking *r)
{
	uint64_t byte = *r->at++, v = byte & 127;
	uint32_t bit;

	for (bit = 7; byte & 128; bit += 7) {
		byte = *r->at++;
		v |= (byte & 127) << bit;
	}
	return v;
}

static inline uint32_t
get_id(struct unpacking *r)
{
	return (uint32_t)get(r);
}

static inline node_id
get_node(struct unpacking *r)
{
	uint32_t n = get_id(r);

	return r->nodes ? r->nodes[n] : n;
}

static inline value_id
get_value(struct unpacking *r)
{
	uint32_t n = get_id(r);

	return r->values ? r->values[n] : n;
}

static inline double
get_count(struct unpacking *r)
{
	return r->v[get_id(r)];
}

bool
fuse_same_answers(const struct fuse *f, const struct fuse_template *x,
		  struct fuse_names names, const uint8_t **end)
{
	struct unpacking r = { .at = x->bytes, .values = names.values };
	bool same = true;
	uint32_t i, k;

	for (i = 0; same && i < x->nasked; i++) {
		uint32_t n = get_id(&r), times = get_id(&r);
		double than = kernel_bytes(f->m, get_value(&r)), bytes = 0;
		bool yes = get(&r);

		for (k = 0; k < n; k++) {
			bytes += kernel_bytes(f->m, get_value(&r));
		}
		same = yes == (bytes >= times * than);
	}
	*end = r.at;
	return same;
}

static void
get_one_count(struct unpacking *r, uint32_t i, struct ir_count *x)
{
	x->kind = get_id(r);
	x->c = 0;
	if (x->kind == SMALL_NUMBER) {
		*x = ir_count_of((double)get_id(r));
	} else if (x->kind <= IR_COUNT_RANKS) {
		x->a = get_id(r);
		x->b = get_id(r);
	} else {
		x->a = i - get_id(r);
		x->b = i - get_id(r);
		x->c = x->kind >= IR_COUNT_PAIRS ? i - get_id(r) : 0;
	}
}

/* Evaluates counts for the lengths at hand. */
static void
run_counts(struct fuse *f, const struct fuse_template *x, struct unpacking *r)
{
	uint32_t i;

	while (f->values.n < x->ncounts) {
		VEC_PUSH(&f->bench, &f->values, 0);
		VEC_PUSH(&f->bench, &f->unpacked, (struct ir_count){ 0 });
	}
	for (i = 0; i < x->ncounts; i++) {
		get_one_count(r, i, &f->unpacked.at[i]);
	}
	ir_counts_run(f->m, f->unpacked.at, x->ncounts, f->values.at);
	r->v = f->values.at;
}

static struct kernel_use *
get_uses(struct unpacking *r, uint32_t n)
{
	struct kernel_use *at = r->uses;
	uint32_t i;

	for (i = 0; i < n; i++) {
		at[i].value = get_value(r);
		at[i].bytes = get_count(r);
	}
	r->uses += n;
	return at;
}

static const struct kernel_attention *
get_attention(struct unpacking *r, struct arena *a)
{
	struct kernel_attention *t = arena_alloc(a, sizeof *t);

	t->window = (int64_t)get(r);
	t->causal = get(r);
	t->batch = get_count(r);
	t->heads = get_count(r);
	t->kv = get_count(r);
	t->s = get_count(r);
	t->t = get_count(r);
	t->d = get_count(r);
	t->v = get_count(r);
	t->pairs = get_count(r);
	return t;
}

static void
get_work(struct unpacking *r, uint32_t has, struct arena *a,
	 struct kernel_work *w)
{
	w->flops = get_count(r);
	w->read_bytes = get_count(r);
	w->write_bytes = get_count(r);
	if (has & HAS_DOT) {
		w->dot.batch = get_count(r);
		w->dot.m = get_count(r);
		w->dot.n = get_count(r);
		w->dot.k = get_count(r);
		w->dot.groups = get_count(r);
	}
	if (has & HAS_ATTENTION) {
		w->attention = get_attention(r, a);
	}
	if (has & HAS_COLL) {
		w->coll.axes = get_id(r);
		w->coll.op = (uint16_t)get(r);
		w->coll.n = get_id(r);
		w->coll.bytes = get_count(r);
	}
}

static void
get_kernel(struct unpacking *r, struct arena *a, struct kernel *k,
	   struct kernel_work *w)
{
	uint32_t has = get_id(r), i;

	*k = (struct kernel){ .kind = (enum kernel_kind)(has & KIND) };
	*w = (struct kernel_work){ .shape = r->shapes[get_id(r)],
				   .sums = (has & HAS_SUMS) != 0 };
	k->work = w;
	k->ncopies = get_id(r);
	k->until = get_id(r);
	k->nodes.n = k->nodes.cap = get_id(r);
	k->inputs.n = k->inputs.cap = get_id(r);
	k->outputs.n = k->outputs.cap = get_id(r);
	k->nodes.at = r->ids;
	r->ids += k->nodes.n;
	for (i = 0; i < k->nodes.n; i++) {
		k->nodes.at[i] = get_node(r);
	}
	k->inputs.at = get_uses(r, k->inputs.n);
	k->outputs.at = get_uses(r, k->outputs.n);
	get_work(r, has, a, w);
}

void
fuse_unpack(struct fuse *f, const struct fuse_known *known,
	    struct kernel_list *l)
{
	const struct fuse_template *x = known->x;
	struct arena *a = f->a;
	struct unpacking r = {
		.at = known->at, .nodes = known->names.nodes,
		.values = known->names.values,
		.shapes = x->shapes->at.at,
		.ids = arena_alloc_raw(a, x->nids * sizeof *r.ids),
		.uses = arena_alloc_raw(a, x->nuses * sizeof *r.uses)
	};
	struct kernel_work *w = arena_alloc_raw(a, x->nkernels * sizeof *w);
	uint32_t i;

	l->at.n = l->at.cap = x->nkernels;
	l->at.at = arena_alloc_raw(a, x->nkernels * sizeof *l->at.at);
	run_counts(f, x, &r);
	l->free.n = l->free.cap = x->nfree;
	l->free.at = r.ids;
	r.ids += x->nfree;
	for (i = 0; i < x->nfree; i++) {
		l->free.at[i] = get_node(&r);
	}
	for (i = 0; i < x->nkernels; i++) {
		get_kernel(&r, a, &l->at.at[i], &w[i]);
	}
}

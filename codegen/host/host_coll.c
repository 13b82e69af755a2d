/*
 * Collectives of a rank program: as data, for the runtime, and what they
 * pack.  A GPU's libraries send and receive only what is contiguous; the rest
 * is packed in scratch, whose size is the most that any collective needs on
 * any rank of a class, by rt_pack_total, as the runtime computes it.
 */
#include "codegen/host/host.h"

/* ---- as data ---- */

struct ll_value *
host_coll_data(struct cg_code *c, const struct host_rt_coll *t)
{
	struct ll_value **w = host_words(c, HOST_WORDS(struct rt_coll));
	uint32_t i;

	for (i = 0; i < c->groups.n && c->groups.at[i] != t->is.axes; i++) {
	}
	if (t->is.axes && i == c->groups.n) {
		VEC_PUSH(c->a, &c->groups, t->is.axes);
	}
	HOST_FILL(c, w, t->is);
	HOST_SET(w, struct rt_coll, what, ll_text(c->ll, t->what));
	HOST_SET(w, struct rt_coll, in, t->in);
	HOST_SET(w, struct rt_coll, out, t->out);
	if (t->next) {
		HOST_SET(w, struct rt_coll, next, t->next);
	}
	return host_data(c, w, HOST_WORDS(struct rt_coll));
}

static struct ll_value *
some_spreads(struct cg_code *c, const struct cg_spread *s, uint32_t n)
{
	struct ll_value **w = host_words(c, n);
	uint32_t i;

	for (i = 0; i < n; i++) {
		w[i] = host_spread_at(c, host_add_spread(c, s[i].size,
						     s[i].cut));
	}
	return host_data(c, w, n);
}

struct ll_value *
host_step_coll(struct cg_code *c, const struct cg_step *s, const char *what)
{
	struct cg_spread alike = { s->elems, 0 };
	struct host_rt_coll t = {
		.what = what, .is = { .op = s->op, .axes = s->axes,
				      .elem = RT_ELEM_F32, .ndims = 1 }
	};

	if (s->ndims) {
		t.is.ndims = s->ndims;
		t.in = some_spreads(c, s->from, s->ndims);
		t.out = some_spreads(c, s->to, s->ndims);
	} else {
		t.in = t.out = some_spreads(c, &alike, 1);
	}
	return host_coll_data(c, &t);
}

/* ---- what they pack ---- */

/* The positions of members by dim: [member * ndims + dim]. */
static const struct rt_pieces **
pieces_of(const struct cg_code *c, struct arena *a, const struct cg_spread *s,
	  uint32_t ndims, const uint32_t *members, uint32_t n,
	  uint32_t microbatch)
{
	struct rt_pieces *p = arena_alloc(a, (n * ndims + 1) * sizeof *p);
	const struct rt_pieces **out;
	uint32_t i, d;

	out = arena_alloc(a, (n * ndims + 1) * sizeof *out);
	for (i = 0; i < n; i++) {
		for (d = 0; d < ndims; d++, p++) {
			host_pieces_of(c, s[d].size, s[d].cut, members[i],
				    microbatch, p);
			out[i * ndims + d] = p;
		}
	}
	return out;
}

static int64_t
packed_on(const struct cg_code *c, const struct host_coll *t, uint32_t rank,
	uint32_t microbatch)
{
	uint32_t n = ranks_group_size(c->r, t->axes), me, *members;
	const struct rt_pieces **in, **out;
	struct arena a;
	int64_t bytes;

	arena_init(&a, &c->m->ctx->mem);
	members = arena_alloc(&a, n * sizeof *members);
	ranks_group(c->r, rank, t->axes, members);
	for (me = 0; members[me] != rank; me++) {
	}
	in = pieces_of(c, &a, t->in, t->ndims, members, n, microbatch);
	out = pieces_of(c, &a, t->out, t->ndims, members, n, microbatch);
	bytes = rt_pack_total(in, out, n, t->ndims, me, t->elem_bytes, t->sums);
	arena_release(&a);
	return bytes;
}

static bool
alike(const struct cg_spread *a, const struct cg_spread *b, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n && a[i].size == b[i].size && a[i].cut == b[i].cut;
	     i++) {
	}
	return i == n;
}

static bool
same(const struct host_coll *a, const struct host_coll *b)
{
	return a->class == b->class && a->axes == b->axes &&
	       a->elem_bytes == b->elem_bytes && a->sums == b->sums &&
	       a->ndims == b->ndims && alike(a->in, b->in, a->ndims) &&
	       alike(a->out, b->out, a->ndims);
}

/* The set of axes that the members' pieces depend on. */
static uint32_t
axes_of(const struct host_coll *t)
{
	uint32_t axes = t->axes, i, cut;

	for (i = 0; i < t->ndims; i++) {
		for (cut = t->in[i].cut; cut; cut >>= 4) {
			axes |= 1u << (cut & 15);
		}
		for (cut = t->out[i].cut; cut; cut >>= 4) {
			axes |= 1u << (cut & 15);
		}
	}
	return axes;
}

/* Whether the rank has the class's coordinates on all other axes. */
static bool
stands_for(const struct host_class *k, uint32_t axes, uint32_t rank)
{
	const struct cg_code *c = k->c;
	uint32_t at[IR_MAX_AXES + 1];
	axis_id a;

	ranks_at(c->r, rank, at);
	for (a = 1; a < c->m->axes.n; a++) {
		if (at[a] != k->at[a] && !(axes >> a & 1)) {
			return false;
		}
	}
	return true;
}

/*
 * The most on any rank that may be of the class.  Microbatches differ in
 * positions, if at all: the first and the last are looked at.
 */
static int64_t
largest(const struct host_class *k, const struct host_coll *t)
{
	const struct cg_code *c = k->c;
	uint32_t last = c->r->time ? c->r->nmicrobatches - 1 : 0;
	uint32_t axes = axes_of(t), rank, i;
	int64_t most = 0, bytes;

	for (rank = 0; rank < c->r->nranks; rank++) {
		for (i = 0; i < 2 && stands_for(k, axes, rank); i++) {
			bytes = packed_on(c, t, rank, i ? last : 0);
			most = bytes > most ? bytes : most;
		}
	}
	return most;
}

static int64_t
packed_bytes(struct host_class *k, struct host_coll *t)
{
	struct cg_code *c = k->c;
	uint32_t i;

	t->class = (uint32_t)(k - c->classes.at);
	for (i = 0; i < c->colls.n && !same(&c->colls.at[i], t); i++) {
	}
	if (!c->arch) {
		return 0;
	}
	if (i == c->colls.n) {
		t->bytes = largest(k, t);
		VEC_PUSH(c->a, &c->colls, *t);
	}
	return c->colls.at[i].bytes;
}

void
host_pack_scratch(struct host_class *k, struct host_coll *t, uint32_t n)
{
	int64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		bytes += packed_bytes(k, &t[i]);
	}
	k->comm_bytes = bytes > k->comm_bytes ? bytes : k->comm_bytes;
}

/*
 * Rooms of talks on a GPU, whose libraries send and get what lies side by
 * side.  A part of a value that does not is packed before it is sent, and
 * what comes is unpacked, or added up, from where it was put.  A talk whose
 * ranks have alike before and after it has no parts.
 */
#include "codegen/host/host.h"

/* What two ranks have of a dim, in places of the one and of the other. */
struct common {
	int64_t n;
	bool one_run[2];	/* in and out: side by side there */
};

/* Of a part: whether it lies side by side at both ends. */
struct part {
	int64_t elems;
	bool dense[2];
};

static void
common_of(const struct ir_pieces *in, const struct ir_pieces *out,
	  struct common *x)
{
	int64_t at[2] = { 0, 0 }, end[2] = { -1, -1 };
	uint32_t i, k;

	*x = (struct common){ 0, { true, true } };
	for (i = 0; i < out->n; at[1] += out->at[i++].count) {
		at[0] = 0;
		for (k = 0; k < in->n; at[0] += in->at[k++].count) {
			int64_t lo = in->at[k].start, hi, here[2];

			lo = lo > out->at[i].start ? lo : out->at[i].start;
			hi = in->at[k].start + in->at[k].count;
			if (hi > out->at[i].start + out->at[i].count) {
				hi = out->at[i].start + out->at[i].count;
			}
			if (hi <= lo) {
				continue;
			}
			here[0] = at[0] + lo - in->at[k].start;
			here[1] = at[1] + lo - out->at[i].start;
			x->one_run[0] &= x->n == 0 || here[0] == end[0];
			x->one_run[1] &= x->n == 0 || here[1] == end[1];
			end[0] = here[0] + hi - lo;
			end[1] = here[1] + hi - lo;
			x->n += hi - lo;
		}
	}
}

static void
pieces(const struct cg_code *c, const struct cg_spread *s, uint32_t rank,
       uint32_t microbatch, struct ir_pieces *out)
{
	uint32_t at[IR_MAX_AXES + 1];

	ranks_at(c->r, rank, at);
	at[c->r->time] = c->r->time ? microbatch : 0;
	ir_pieces(c->m, s->size, s->cut, at, out);
}

/*
 * What rank `from` has before and rank `to` wants.  It is dense if all dims
 * behind the first one that it has more than one position of are whole, and
 * that one is a single run.
 */
static struct part
part_of(const struct cg_code *c, const struct host_talk *t, uint32_t from,
	uint32_t to, uint32_t microbatch)
{
	struct part x = { 1, { true, true } };
	bool single[2] = { true, true };
	uint32_t i, k;

	for (i = 0; i < t->ndims; i++) {
		struct ir_pieces p[2];
		struct common both;

		pieces(c, &t->in[i], from, microbatch, &p[0]);
		pieces(c, &t->out[i], to, microbatch, &p[1]);
		common_of(&p[0], &p[1], &both);
		x.elems *= both.n;
		for (k = 0; k < 2; k++) {
			x.dense[k] &= both.one_run[k] &&
				      (single[k] || both.n == p[k].total);
			single[k] &= both.n == 1;
		}
	}
	return x;
}

static int64_t
aligned(int64_t bytes)
{
	return (bytes + HOST_ALIGN - 1) / HOST_ALIGN * HOST_ALIGN;
}

/* Packed on the way out, and on the way in. */
static int64_t
room_of(const struct cg_code *c, const struct host_talk *t, uint32_t rank,
	uint32_t microbatch)
{
	uint32_t n = ranks_group_size(c->r, t->axes), i;
	uint32_t *members = arena_alloc(&c->m->ctx->tmp,
					n * sizeof *members);
	int64_t bytes = 0;

	ranks_group(c->r, rank, t->axes, members);
	for (i = 0; i < n; i++) {
		struct part out = part_of(c, t, rank, members[i], microbatch);
		struct part in = part_of(c, t, members[i], rank, microbatch);

		bytes += out.dense[0] ? 0 : aligned(out.elems *
						    t->elem_bytes);
		/* what is added up comes beside what is here */
		bytes += in.dense[1] && !t->sums ? 0
			: aligned(in.elems * t->elem_bytes);
	}
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
same(const struct host_talk *a, const struct host_talk *b)
{
	return a->class == b->class && a->axes == b->axes &&
	       a->elem_bytes == b->elem_bytes && a->sums == b->sums &&
	       a->ndims == b->ndims && alike(a->in, b->in, a->ndims) &&
	       alike(a->out, b->out, a->ndims);
}

/* Axes that parts depend on, as a set. */
static uint32_t
axes_of(const struct host_talk *t)
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

/* Whether the rank stands where the class does on all other axes. */
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
 * Of all ranks that may be of the class, as far as it matters; microbatches
 * differ in where, if at all.
 */
static int64_t
largest(const struct host_class *k, const struct host_talk *t)
{
	const struct cg_code *c = k->c;
	uint32_t last = c->r->time ? c->r->nmicrobatches - 1 : 0;
	uint32_t axes = axes_of(t), rank, i;
	int64_t most = 0, bytes;

	for (rank = 0; rank < c->r->nranks; rank++) {
		for (i = 0; i < 2 && stands_for(k, axes, rank); i++) {
			bytes = room_of(c, t, rank, i ? last : 0);
			most = bytes > most ? bytes : most;
		}
	}
	return most;
}

void
host_room(struct host_class *k, struct host_talk *t)
{
	struct cg_code *c = k->c;
	int64_t bytes;
	uint32_t i;

	t->class = (uint32_t)(k - c->classes.at);
	for (i = 0; i < c->talks.n && !same(&c->talks.at[i], t); i++) {
	}
	if (!c->arch || alike(t->in, t->out, t->ndims) || i < c->talks.n ||
	    ranks_group_size(c->r, t->axes) == 1) {
		return;
	}
	bytes = largest(k, t);
	k->talk_bytes = bytes > k->talk_bytes ? bytes : k->talk_bytes;
	VEC_PUSH(c->a, &c->talks, *t);
}

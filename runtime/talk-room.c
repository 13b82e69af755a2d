/*
 * talk-room.c - what a talk needs of the room that a plan has for packing on
 * a GPU, by the rule of abi.h: an emulated GPU packs nothing, but a plan that
 * has too little room is as wrong there.
 */
#include "runtime/device.h"
#include "runtime/transport.h"

enum { ALIGN = 256 };

/* What two ranks have of a dim: how much, and whether it is one run in the
 * places of the one, and of the other. */
struct common {
	int64_t n;
	bool one_run[2];
};

static struct common
common_of(const struct rt_pieces *in, const struct rt_pieces *out)
{
	struct common x = { 0, { true, true } };
	int64_t at[2] = { 0, 0 }, end[2] = { -1, -1 }, i, k;

	for (i = 0; i < out->n; at[1] += out->at[i++].count) {
		at[0] = 0;
		for (k = 0; k < in->n; at[0] += in->at[k++].count) {
			int64_t a = in->at[k].start, b = out->at[i].start;
			int64_t lo = a > b ? a : b, hi = a + in->at[k].count;
			int64_t last = b + out->at[i].count;

			hi = hi < last ? hi : last;
			if (hi <= lo) {
				continue;
			}
			x.one_run[0] &= x.n == 0 || at[0] + lo - a == end[0];
			x.one_run[1] &= x.n == 0 || at[1] + lo - b == end[1];
			end[0] = at[0] + hi - a;
			end[1] = at[1] + hi - b;
			x.n += hi - lo;
		}
	}
	return x;
}

/* Bytes, aligned, of what `from` has and `to` wants; whether it lies side by
 * side in the one's `in`, and in the other's `out`. */
static int64_t
part_bytes(const struct rt_plan *p, const struct rt_talk *t, int64_t from,
	   int64_t to, int64_t microbatch, bool dense[2])
{
	int64_t bytes = rt_elem_bytes((enum rt_elem)t->elem), i;
	bool single[2] = { true, true };
	int k;

	dense[0] = dense[1] = true;
	for (i = 0; i < t->ndims; i++) {
		const struct rt_pieces *both[2] = {
			rt_pieces_of(p, t->in[i], from, microbatch),
			rt_pieces_of(p, t->out[i], to, microbatch)
		};
		struct common x = common_of(both[0], both[1]);

		bytes *= x.n;
		for (k = 0; k < 2; k++) {
			dense[k] &= x.one_run[k] &&
				    (single[k] || x.n == both[k]->total);
			single[k] &= x.n == 1;
		}
	}
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Do all members have before what they want behind? */
static bool
stays(const struct rt_plan *p, const struct rt_talk *t,
      const struct rt_group *g, int64_t microbatch)
{
	int64_t i, d;

	for (i = 0; i < g->n; i++) {
		for (d = 0; d < t->ndims; d++) {
			if (!rt_pieces_equal(rt_pieces_of(p, t->in[d],
						g->ranks[i], microbatch),
					     rt_pieces_of(p, t->out[d],
						g->ranks[i], microbatch))) {
				return false;
			}
		}
	}
	return true;
}

int64_t
rt_talk_room(const struct rt_plan *p, const struct rt_talk *t,
	     const struct rt_group *g, int64_t microbatch)
{
	int64_t me = g->ranks[g->me], bytes = 0, i;
	bool sums = t->op != RT_TALK_COPY, dense[2];

	if (g->n == 1 || stays(p, t, g, microbatch)) {
		return 0;
	}
	for (i = 0; i < g->n; i++) {
		int64_t out = part_bytes(p, t, me, g->ranks[i], microbatch,
					 dense);

		bytes += dense[0] ? 0 : out;
		out = part_bytes(p, t, g->ranks[i], me, microbatch, dense);
		/* what is added up comes beside what is here */
		bytes += dense[1] && !sums ? 0 : out;
	}
	return bytes;
}

enum rt_status
rt_talk_fits(const struct rt_device *d, const struct rt_talk *t,
	     int64_t microbatch, struct rt_error *err)
{
	struct rt_group *g;
	enum rt_status status;
	int64_t bytes;

	if (t->op == RT_TALK_SEND || t->op == RT_TALK_RECV ||
	    t->op == RT_TALK_FREE) {
		return RT_OK;
	}
	status = rt_group_find(d->comm, t->axes, t->holders, &g, err);
	if (status != RT_OK) {
		return status;
	}
	bytes = rt_talk_room(d->plan, t, g, microbatch);
	return bytes <= d->program->talk_bytes ? RT_OK :
		rt_fail(err, RT_FORMAT, RT_NOWHERE, "%s packs %lld bytes on a "
			"GPU, and the plan has room for %lld: that is a fault "
			"of the compiler", rt_show_name(t->what).text,
			(long long)bytes, (long long)d->program->talk_bytes);
}

/*
 * What a collective is about, for all transports: the pieces that each member
 * contributes and wants, the slice that each member sums, and the checksum by
 * which ranks see that they run the same plan.
 */
#define _GNU_SOURCE	/* MAP_ANONYMOUS */

#include "runtime/comm/transport.h"

#include <string.h>
#include <sys/mman.h>

enum { LINE = 64 };

void
rt_coll_pieces(const struct rt_plan *p, const struct rt_coll *t,
	       const struct rt_spread *const *spreads, int64_t rank,
	       int64_t microbatch, const struct rt_pieces **out)
{
	int64_t d;

	for (d = 0; d < t->ndims; d++) {
		out[d] = rt_pieces_of(p, spreads[d], rank, microbatch);
	}
}

void
rt_meeting_pieces(const struct rt_comm *c, const struct rt_meeting *m,
		  const struct rt_spread *const *spreads, int64_t rank,
		  const struct rt_pieces **out)
{
	rt_coll_pieces(c->plan, m->coll, spreads, rank, m->activity.microbatch,
		       out);
}

int64_t
rt_meeting_bytes(const struct rt_comm *c, const struct rt_meeting *m,
		 int64_t rank)
{
	const struct rt_pieces *dims[RT_MAX_DIMS];

	rt_meeting_pieces(c, m, m->coll->in, rank, dims);
	return rt_pieces_elems(dims, m->coll->ndims) *
	       rt_elem_bytes((enum rt_elem)m->coll->elem);
}

bool
rt_meeting_equal(const struct rt_comm *c, const struct rt_meeting *m)
{
	const struct rt_pieces *first[RT_MAX_DIMS], *dims[RT_MAX_DIMS];
	int64_t i, d;

	rt_meeting_pieces(c, m, m->coll->in, m->group->ranks[0], first);
	for (i = 0; i < 2 * m->group->n; i++) {
		rt_meeting_pieces(c, m, i & 1 ? m->coll->in : m->coll->out,
				  m->group->ranks[i / 2], dims);
		for (d = 0; d < m->coll->ndims; d++) {
			if (!rt_pieces_equal(first[d], dims[d])) {
				return false;
			}
		}
	}
	return true;
}

int64_t
rt_meeting_most(const struct rt_comm *c, const struct rt_meeting *m)
{
	const struct rt_meeting *x;
	int64_t most = 0, i;

	for (i = 0; i < m->group->n; i++) {
		int64_t n = 0;

		for (x = m; x; x = x->next) {
			n += rt_meeting_bytes(c, x, m->group->ranks[i]);
		}
		most = n > most ? n : most;
	}
	return most;
}

/* The `in` of each member lies at c->theirs[member]; writes this rank's
 * `out`. */
static void
gather(struct rt_comm *c, const struct rt_meeting *m, struct rt_part *parts,
       char *acc)
{
	const struct rt_pieces *want[RT_MAX_DIMS];
	const struct rt_group *g = m->group;
	int64_t i;

	for (i = 0; i < g->n; i++) {
		parts[i] = (struct rt_part){ .at = c->theirs[i] };
		rt_meeting_pieces(c, m, m->coll->in, g->ranks[i],
				  parts[i].dims);
	}
	rt_meeting_pieces(c, m, m->coll->out, c->world.rank, want);
	rt_gather_parts(parts, g->n, want, m->coll->ndims,
			(enum rt_elem)m->coll->elem,
			(enum rt_coll_op)m->coll->op, m->out, acc);
}

enum rt_status
rt_meeting_by_mail(struct rt_comm *c, const struct rt_meeting *m,
		   struct rt_part *parts, char *acc, struct rt_error *err)
{
	int64_t me = c->world.rank, bytes = rt_meeting_bytes(c, m, me), i;
	char several[RT_MAIL_BYTES];
	const struct rt_meeting *x;
	enum rt_status s;

	for (x = m, i = 0; m->next && x; x = x->next, i += bytes) {
		bytes = rt_meeting_bytes(c, x, me);
		memcpy(several + i, x->in, (size_t)bytes);
	}
	s = c->via->show(c, m->group, &m->activity, m->next ? several : m->in,
			 m->next ? i : bytes, c->theirs, err);
	for (x = m; x && s == RT_OK; x = x->next) {
		gather(c, x, parts, acc);
		for (i = 0; i < m->group->n; i++) {
			c->theirs[i] += rt_meeting_bytes(c, x,
						m->group->ranks[i]);
		}
	}
	return s;
}

int64_t
rt_slice_at(int64_t member, int64_t members, int64_t n)
{
	int64_t lines = (n + LINE - 1) / LINE;
	int64_t at = lines * member / members * LINE;

	return at < n ? at : n;
}

static uint64_t
hash_text(uint64_t h, const char *s)
{
	for (; s && *s; s++) {
		h = (h ^ (unsigned char)*s) * 1099511628211u;
	}
	return (h ^ 0xff) * 1099511628211u;
}

uint64_t
rt_plan_sum(const struct rt_plan *p)
{
	uint64_t h = 14695981039346656037u;

	h = hash_text(h, p->compiler);
	h = hash_text(h, p->model);
	h = hash_text(h, p->target);
	h = hash_text(h, p->json);
	h = hash_text(h, p->llp);
	h = (h ^ (uint64_t)p->nranks) * 1099511628211u;
	return (h ^ (uint64_t)p->nmicrobatches) * 1099511628211u;
}

void *
rt_private_pages(size_t bytes)
{
	void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

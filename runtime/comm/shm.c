/*
 * Collectives between processes of one host. Each rank reads what it needs from
 * the other ranks' arenas: nothing is packed, and each element is copied once.
 * Small collectives go through mailboxes in the shared segment, which needs one
 * barrier instead of two.
 */
#define _GNU_SOURCE	/* MAP_ANONYMOUS, MADV_HUGEPAGE */

#include "runtime/comm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	/* a large sum is reduced by chunks, so that the slice that one rank has
	 * summed is still in the shared cache when the others copy it */
	CHUNK_BYTES = 4 << 20,
	LINE = 64,
	STRETCH_BYTES = 256 << 10,
	HELD_BYTES = 16 << 20
};

/* ---- barriers ---- */

static size_t
held_bits(int64_t bytes)
{
	return (size_t)(bytes / STRETCH_BYTES / 8 + 1);
}

static uint64_t *
id_of(struct rt_comm *c, const struct rt_group *g, int64_t member)
{
	struct rt_shm *s = c->shm;

	return &rt_segment_meeting(s, g->row, s->local_of[g->ranks[member]])
			->ids[g->met & 1];
}

/* Returns once all members have called it; what each wrote before, the others
 * may read after.  A member that runs another collective is reported here. */
static enum rt_status
group_barrier(struct rt_comm *c, struct rt_group *g,
	      const struct rt_activity *activity, struct rt_error *err)
{
	struct rt_wait w = { NULL, ++g->met, 0, activity, g };
	struct rt_shm *s = c->shm;
	int64_t i;

	*id_of(c, g, g->me) = activity->id;
	rt_doorbell_ring(&rt_segment_meeting(s, g->row, s->me)->doorbell);
	for (i = 0; i < g->n; i++) {
		w.rank = g->ranks[i];
		w.doorbell = &rt_segment_meeting(s, g->row, s->local_of[w.rank])
				      ->doorbell;
		if (!rt_doorbell_reached(w.doorbell, w.want)) {
			enum rt_status status = rt_watch_wait(c, &w, err);

			if (status != RT_OK) {
				return status;
			}
		}
		if (*id_of(c, g, i) != activity->id) {
			return rt_watch_mismatch(c, activity, w.rank, err);
		}
	}
	return RT_OK;
}

/* Drops all pages of other arenas that have been read. */
static void
drop_read_pages(struct rt_shm *s)
{
	int64_t i;

	s->held_bytes = 0;
	for (i = 0; i < s->n; i++) {
		struct rt_peer *p = &s->peers[i];

		if (i != s->me) {
			madvise((void *)(uintptr_t)p->arena,
				(size_t)p->arena_bytes, MADV_DONTNEED);
			memset(p->held, 0, held_bits(p->arena_bytes));
		}
	}
}

/*
 * Pages of another rank's arena count as resident in this process once they are
 * read, so they are dropped when there are many. Faulting them in again costs
 * about half as much as copying them, so those that are read in every step are
 * kept.
 */
static void
has_read(void *user, const char *at, int64_t bytes)
{
	struct rt_peer *p = user;
	int64_t from = (at - p->arena) / STRETCH_BYTES;
	int64_t to = (at - p->arena + bytes - 1) / STRETCH_BYTES, i;

	for (i = from; i <= to; i++) {
		if (!(p->held[i / 8] >> i % 8 & 1)) {
			p->held[i / 8] |= (unsigned char)(1 << i % 8);
			p->shm->held_bytes += STRETCH_BYTES;
		}
	}
	if (p->shm->held_bytes > HELD_BYTES) {
		drop_read_pages(p->shm);
	}
}

/* A member's part, at that place of its arena. */
static void
open_part(struct rt_comm *c, struct rt_part *part, int64_t rank, int64_t at)
{
	struct rt_peer *p = &c->shm->peers[c->shm->local_of[rank]];

	part->at = p->arena + at;
	part->read = rank == c->world.rank ? NULL : has_read;
	part->user = p;
}

static enum rt_status
show_mail(struct rt_comm *c, struct rt_group *g,
	  const struct rt_activity *activity, const void *mine, int64_t bytes,
	  const char **theirs, struct rt_error *err)
{
	struct rt_shm *s = c->shm;
	unsigned turn = g->met + 1;
	enum rt_status status;
	int64_t i;

	memcpy(rt_segment_letter(s, g->row, s->me, turn), mine, (size_t)bytes);
	status = group_barrier(c, g, activity, err);
	for (i = 0; i < g->n; i++) {
		theirs[i] = rt_segment_letter(s, g->row,
					      s->local_of[g->ranks[i]], turn);
	}
	return status;
}

/* ---- one barrier pair, for one collective or several joined ones ---- */

/* One of the joined collectives. */
struct leg {
	const struct rt_meeting *m;
	struct rt_part *parts;	/* `in` of each member */
	const char **outs;	/* `out` of each member */
	/* elements to be summed by slices; 0: not an equal sum */
	int64_t elems;
	char *aside; /* where the result is made, if not in its place */
	int64_t bytes;		/* of `aside` */
};

struct reduction {
	struct rt_comm *c;
	const struct rt_group *group;
	struct leg *legs;
	int64_t n, elem_bytes;
	enum rt_elem elem;
	enum rt_coll_op op;
};

/* Sums this rank's slice of a range of elements, over all members. */
static void
sum_slice(const struct reduction *r, const struct leg *x, int64_t from,
	  int64_t n)
{
	const struct rt_group *g = r->group;
	int64_t lo = rt_slice_at(g->me, g->n, n), i;
	int64_t hi = rt_slice_at(g->me + 1, g->n, n);
	struct rt_pieces row = { .n = 1, .total = hi - lo };
	const struct rt_pieces *dims[1] = { &row };
	int64_t at = (from + lo) * r->elem_bytes;

	row.at[0].start = 0;
	row.at[0].count = hi - lo;
	for (i = 0; i < g->n; i++) {
		x->parts[i].dims[0] = &row;
		x->parts[i].at += at;
	}
	rt_gather_parts(x->parts, g->n, dims, 1, r->elem, r->op,
			x->m->out + at, r->c->shm->acc);
	for (i = 0; i < g->n; i++) {
		x->parts[i].at -= at;
	}
}

/* Copies the slices that the other members have summed. */
static void
copy_slices(const struct reduction *r, const struct leg *x, int64_t from,
	    int64_t n)
{
	const struct rt_group *g = r->group;
	int64_t i;

	for (i = 1; i < g->n; i++) {
		/* not all from the same rank at once */
		int64_t who = (g->me + i) % g->n;
		int64_t lo = rt_slice_at(who, g->n, n);
		int64_t at = (from + lo) * r->elem_bytes;
		int64_t len = (rt_slice_at(who + 1, g->n, n) - lo) *
			      r->elem_bytes;

		rt_copy_part(&x->parts[who], x->m->out + at, x->outs[who] + at,
			     len);
	}
}

/* Calls do_it for each collective's share of a range of all elements, which are
 * numbered through. */
static void
each_slice(const struct reduction *r, int64_t from, int64_t n,
	   void (*do_it)(const struct reduction *r, const struct leg *x,
			 int64_t from, int64_t n))
{
	int64_t before = 0, i, lo, hi;

	for (i = 0; i < r->n; before += r->legs[i++].elems) {
		lo = from > before ? from - before : 0;
		hi = from + n - before;
		hi = hi < r->legs[i].elems ? hi : r->legs[i].elems;
		if (lo < hi) {
			do_it(r, &r->legs[i], lo, hi - lo);
		}
	}
}

/*
 * A chunk is summed, slice by slice, while the one before it is copied, so one
 * barrier for each is enough. This is correct in place: within its slice a rank
 * is the only reader of the others' elements and the only writer of its own.
 */
static enum rt_status
sum_chunks(const struct reduction *r, struct rt_group *g, int64_t elems,
	   struct rt_error *err)
{
	int64_t most = CHUNK_BYTES / r->elem_bytes, done = 0, before = -1;
	enum rt_status s = RT_OK;

	while (s == RT_OK && (done < elems || before >= 0)) {
		int64_t n = elems - done < most ? elems - done : most;

		if (before >= 0) {
			each_slice(r, before, done - before, copy_slices);
		}
		before = -1;
		if (n > 0) {
			each_slice(r, done, n, sum_slice);
			before = done;
			done += n;
		}
		s = group_barrier(r->c, g, &r->legs->m->activity, err);
	}
	return s;
}

static int64_t
arena_offset(const struct rt_comm *c, const char *at)
{
	return at - c->arena;
}

static bool
overlap(const char *a, int64_t na, const char *b, int64_t nb)
{
	return a < b + nb && b < a + na;
}

/* Finds what it reads of each member, whose offsets are in the letters. */
static void
open_leg(struct rt_comm *c, struct leg *x, int64_t number)
{
	const struct rt_group *g = x->m->group;
	int64_t i, at[2];

	for (i = 0; i < g->n; i++) {
		memcpy(at, c->theirs[i] + number * (int64_t)sizeof(at),
		       sizeof(at));
		rt_meeting_pieces(c, x->m, x->m->coll->in, g->ranks[i],
				  x->parts[i].dims);
		open_part(c, &x->parts[i], g->ranks[i], at[0]);
		x->outs[i] = c->shm->peers[c->shm->local_of[g->ranks[i]]].arena
			     + at[1];
	}
}

/* An output that overlaps an input is made aside until all members have
 * read. */
static enum rt_status
gather_leg(struct rt_comm *c, struct leg *x, struct rt_error *err)
{
	const struct rt_meeting *m = x->m;
	const struct rt_pieces *want[RT_MAX_DIMS];
	int64_t in = rt_meeting_bytes(c, m, c->world.rank);

	rt_meeting_pieces(c, m, m->coll->out, c->world.rank, want);
	x->bytes = rt_pieces_elems(want, m->coll->ndims) *
		   rt_elem_bytes((enum rt_elem)m->coll->elem);
	if (x->bytes > 0 && overlap(m->in, in, m->out, x->bytes)) {
		x->aside = malloc((size_t)x->bytes);
		if (!x->aside) {
			return rt_no_memory(err, NULL);
		}
	}
	rt_gather_parts(x->parts, m->group->n, want, m->coll->ndims,
			(enum rt_elem)m->coll->elem,
			(enum rt_coll_op)m->coll->op,
			x->aside ? x->aside : m->out, c->shm->acc);
	return RT_OK;
}

/* Exchanges offsets, runs all collectives, and ends with a barrier. */
static enum rt_status
meet_legs(struct rt_comm *c, struct leg *legs, int64_t n,
	  struct rt_error *err)
{
	const struct rt_meeting *m = legs->m;
	struct reduction r = { c, m->group, legs, n,
		rt_elem_bytes((enum rt_elem)m->coll->elem),
		(enum rt_elem)m->coll->elem, (enum rt_coll_op)m->coll->op };
	int64_t at[2 * RT_MAX_JOINED], sums = 0, i;
	enum rt_status s;

	for (i = 0; i < n; i++) {
		at[2 * i] = arena_offset(c, legs[i].m->in);
		at[2 * i + 1] = arena_offset(c, legs[i].m->out);
	}
	s = show_mail(c, m->group, &m->activity, at,
		      2 * n * (int64_t)sizeof(*at), c->theirs, err);
	for (i = 0; i < n && s == RT_OK; i++) {
		open_leg(c, &legs[i], i);
		if (m->coll->op != RT_COLL_COPY &&
		    rt_meeting_equal(c, legs[i].m)) {
			legs[i].elems = rt_meeting_bytes(c, legs[i].m,
				c->world.rank) / r.elem_bytes;
			sums += legs[i].elems;
		} else {
			s = gather_leg(c, &legs[i], err);
		}
	}
	if (s == RT_OK) {
		s = sums > 0 ? sum_chunks(&r, m->group, sums, err)
			     : group_barrier(c, m->group, &m->activity, err);
	}
	for (i = 0; i < n; i++) {
		if (legs[i].aside && s == RT_OK) {
			memcpy(legs[i].m->out, legs[i].aside,
			       (size_t)legs[i].bytes);
		}
		free(legs[i].aside);
	}
	return s;
}

static enum rt_status
meet(struct rt_comm *c, const struct rt_meeting *m, struct rt_error *err)
{
	struct leg legs[RT_MAX_JOINED] = { { .m = NULL } };
	int64_t members = m->group->n, n = 0, i;
	const struct rt_meeting *x;
	struct rt_part *parts;
	const char **outs;
	enum rt_status s;

	if (members == 1 && !m->next && m->in == m->out &&
	    rt_meeting_equal(c, m)) {
		return RT_OK;
	}
	for (x = m; x; x = x->next) {
		legs[n++].m = x;
	}
	parts = malloc((size_t)(n * members) * sizeof(*parts));
	outs = malloc((size_t)(n * members) * sizeof(*outs));
	if (!parts || !outs) {
		s = rt_no_memory(err, NULL);
	} else if (rt_meeting_most(c, m) <= RT_MAIL_BYTES) {
		s = rt_meeting_by_mail(c, m, parts, c->shm->acc, err);
	} else {
		for (i = 0; i < n; i++) {
			legs[i].parts = parts + i * members;
			legs[i].outs = outs + i * members;
		}
		s = meet_legs(c, legs, n, err);
	}
	free(outs);
	free(parts);
	return s;
}

/* ---- point to point ---- */

static enum rt_status
send(struct rt_comm *c, const struct rt_meeting *m, int64_t bytes,
     int64_t rank, struct rt_error *err)
{
	struct rt_sent *sent = &c->shm->sent[m->coll->channel];
	int64_t last = sent->n % c->plan->nmicrobatches;
	struct rt_post *p = rt_segment_board(c->shm, c->plan, m->coll->channel,
					 c->shm->me, m->activity.microbatch);
	/* the same place of the last step must have been received before it is
	 * overwritten */
	struct rt_wait w = { &p->taken, atomic_load(&p->sent.count), rank,
		&m->activity, NULL };

	if (!rt_doorbell_reached(w.doorbell, w.want)) {
		enum rt_status s = rt_watch_wait(c, &w, err);

		if (s != RT_OK) {
			return s;
		}
	}
	p->at = arena_offset(c, m->in);
	p->bytes = bytes;
	rt_doorbell_ring(&p->sent);
	sent->at[last].post = p;
	sent->at[last].want = w.want + 1;
	sent->at[last].rank = rank;
	sent->n++;
	return RT_OK;
}

static enum rt_status
recv(struct rt_comm *c, const struct rt_meeting *m, int64_t bytes,
     int64_t rank, struct rt_error *err)
{
	int64_t local = c->shm->local_of[rank];
	struct rt_post *p = rt_segment_board(c->shm, c->plan, m->coll->channel,
					     local, m->activity.microbatch);
	struct rt_wait w = { &p->sent, atomic_load(&p->taken.count) + 1, rank,
		&m->activity, NULL };
	struct rt_part part;

	if (!rt_doorbell_reached(w.doorbell, w.want)) {
		enum rt_status s = rt_watch_wait(c, &w, err);

		if (s != RT_OK) {
			return s;
		}
	}
	if (p->bytes != bytes) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE,
			       "%s sends %lld bytes, rank %lld expects %lld in "
			       "%s%s", rt_rank_text(c, rank).text,
			       (long long)p->bytes, (long long)c->world.rank,
			       (long long)bytes,
			       rt_show_name(m->activity.what).text,
			       rt_activity_text(&m->activity).text);
	}
	open_part(c, &part, rank, p->at);
	rt_copy_part(&part, m->out, part.at, bytes);
	rt_doorbell_ring(&p->taken);
	return RT_OK;
}

/* Waits until all sends but the last `but` have been received. */
static enum rt_status
settle_sent(struct rt_comm *c, struct rt_sent *sent, int64_t but,
	    const struct rt_activity *activity, struct rt_error *err)
{
	int64_t most = c->plan->nmicrobatches;

	/* older sends have been received, or they could not have been sent
	 * again */
	if (sent->settled < sent->n - most) {
		sent->settled = sent->n - most;
	}
	for (; sent->settled < sent->n - but; sent->settled++) {
		struct rt_wait w = {
			&sent->at[sent->settled % most].post->taken,
			sent->at[sent->settled % most].want,
			sent->at[sent->settled % most].rank, activity, NULL
		};

		if (!rt_doorbell_reached(w.doorbell, w.want)) {
			enum rt_status s = rt_watch_wait(c, &w, err);

			if (s != RT_OK) {
				return s;
			}
		}
	}
	return RT_OK;
}

static enum rt_status
settle(struct rt_comm *c, const struct rt_meeting *m, struct rt_error *err)
{
	return settle_sent(c, &c->shm->sent[m->coll->channel],
			   m->coll->copies - 1, &m->activity, err);
}

static enum rt_status
settle_all(struct rt_comm *c, const struct rt_activity *s,
	   struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < c->plan->nchannels && status == RT_OK; i++) {
		status = settle_sent(c, &c->shm->sent[i], 0, s, err);
	}
	return status;
}

/* ---- opening and closing ---- */

static enum rt_status
make_tables(struct rt_comm *c, struct rt_error *err)
{
	size_t n = (size_t)c->world.local_size;
	struct rt_shm *s = calloc(1, sizeof(*s));
	int64_t i;

	c->shm = s;
	if (!s) {
		return rt_no_memory(err, NULL);
	}
	s->n = (int64_t)n;
	s->me = c->world.local_rank;
	s->lock_fd = -1;
	s->rank_of = calloc(n, sizeof(*s->rank_of));
	s->local_of = calloc((size_t)c->world.size, sizeof(*s->local_of));
	s->peers = calloc(n, sizeof(*s->peers));
	s->sent = calloc((size_t)c->plan->nchannels + 1, sizeof(*s->sent));
	s->acc = aligned_alloc(LINE, RT_ACC_BYTES);
	if (!s->rank_of || !s->local_of || !s->peers || !s->sent || !s->acc) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < c->world.size; i++) {
		s->local_of[i] = -1;
	}
	for (i = 0; i < c->plan->nchannels; i++) {
		s->sent[i].at = calloc((size_t)c->plan->nmicrobatches,
				       sizeof(*s->sent[i].at));
		if (!s->sent[i].at) {
			return rt_no_memory(err, NULL);
		}
	}
	rt_segment_lay_out(s, c->plan, &c->queues);
	return RT_OK;
}

/* A rank that runs alone uses private pages instead of a shared segment. */
static enum rt_status
be_alone(struct rt_comm *c, struct rt_error *err)
{
	struct rt_shm *s = c->shm;

	s->segment = rt_private_pages(s->segment_bytes);
	c->arena = rt_private_pages((size_t)c->arena_bytes);
	if (!s->segment || !c->arena) {
		return rt_fail(err, RT_NOMEM, RT_NOWHERE,
			       "cannot map %lld bytes for the arena: %s",
			       (long long)c->arena_bytes, strerror(errno));
	}
	madvise(c->arena, (size_t)c->arena_bytes, MADV_HUGEPAGE);
	s->rank_of[0] = c->world.rank;
	s->local_of[c->world.rank] = 0;
	s->peers[0].arena = c->arena;
	s->peers[0].arena_bytes = c->arena_bytes;
	return rt_watch_enter(c, err);
}

/* Ranks may be bound to cores: what counts is the union over all ranks. */
static enum rt_status
count_cores(struct rt_comm *c, struct rt_error *err)
{
	struct rt_activity activity = { "the start", -1, -1, 0 };
	struct rt_core_set own;
	struct rt_group *g;
	enum rt_status s = rt_group_find(c, -1, 0, &g, err);

	rt_cores_of(&own);
	if (s == RT_OK) {
		s = show_mail(c, g, &activity, &own, sizeof(own), c->theirs,
			      err);
	}
	if (s == RT_OK) {
		c->shm->patience = rt_patience_of(
			(const void *)c->theirs, g->n);
	}
	return s;
}

static enum rt_status
open_shm(struct rt_comm *c, struct rt_error *err)
{
	enum rt_status s = make_tables(c, err);
	int64_t i;

	if (s != RT_OK) {
		return s;
	}
	s = c->shm->n == 1 ? be_alone(c, err) : rt_shm_meet(c, err);
	for (i = 0; i < c->shm->n && s == RT_OK; i++) {
		struct rt_peer *p = &c->shm->peers[i];

		p->shm = c->shm;
		p->held = calloc(held_bits(p->arena_bytes), 1);
		s = p->held ? RT_OK : rt_no_memory(err, NULL);
	}
	return s == RT_OK ? count_cores(c, err) : s;
}

static void
unmap(const void *p, int64_t bytes)
{
	if (p) {
		munmap((void *)(uintptr_t)p, bytes ? (size_t)bytes : 1);
	}
}

static void
close_shm(struct rt_comm *c)
{
	struct rt_shm *s = c->shm;
	int64_t i;

	if (!s) {
		return;
	}
	if (s->segment) {
		atomic_store(&rt_segment_slot(s, s->me)->state, RT_LEFT);
	}
	for (i = 0; s->peers && i < s->n; i++) {
		if (i != s->me) {
			unmap(s->peers[i].arena, s->peers[i].arena_bytes);
		}
		free(s->peers[i].held);
	}
	unmap(c->arena, c->arena_bytes);
	unmap(s->segment, (int64_t)s->segment_bytes);
	if (s->lock_fd >= 0) {
		close(s->lock_fd);
	}
	for (i = 0; s->sent && i < c->plan->nchannels; i++) {
		free(s->sent[i].at);
	}
	free(s->sent);
	free(s->acc);
	free(s->rank_of);
	free(s->local_of);
	free(s->peers);
	free(s);
	c->shm = NULL;
}

static void
give_up(struct rt_comm *c, const char *why)
{
	rt_watch_give_up(c, -1, true, why);
}

static int64_t
row(struct rt_comm *c, int64_t axes, int64_t holders)
{
	return rt_segment_row(c->shm, axes, holders);
}

const struct rt_transport rt_shm = { "shared memory", open_shm, close_shm,
	row, rt_watch_note, show_mail, meet, send, recv, settle, settle_all,
	rt_shm_put, rt_shm_get, give_up, rt_watch_heard };

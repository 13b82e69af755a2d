/*
 * Collectives of ranks on several hosts.  Members of a group first send each
 * other letters: which collective it is, and the elements if they are few. Many
 * elements follow in an order that the plan fixes.
 */
#define _GNU_SOURCE	/* MADV_HUGEPAGE */

#include "runtime/comm/tcp/tcp.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	LINE = 64,
	SCRATCH_BYTES = 4 << 20,
	LEAST_BOX = 4096	/* a box, if there are very many members */
};

/* ---- letters ---- */

static enum rt_status
check_letter(struct rt_comm *c, const struct rt_group *g, int64_t i,
	     const struct rt_activity *activity, struct rt_error *err)
{
	const struct rt_letter *l = &c->msg->letters[i];

	return l->id == activity->id ? RT_OK :
		rt_event_mismatch(c, activity, &l->about, g->ranks[i], err);
}

static enum rt_status
show_letters(struct rt_comm *c, struct rt_group *g,
	     const struct rt_activity *activity, const void *mine,
	     int64_t bytes, const char **theirs, struct rt_error *err)
{
	struct rt_msg *m = c->msg;
	int64_t head = offsetof(struct rt_letter, mail), i;
	enum rt_status s = RT_OK;

	m->own.id = activity->id;
	m->own.about = rt_msg_event(c);
	memcpy(m->own.mail, mine, (size_t)bytes);
	rt_msg_start_posts(c);
	for (i = 0; i < g->n && s == RT_OK; i++) {
		theirs[i] = i == g->me ? m->own.mail : m->letters[i].mail;
		if (i != g->me) {
			s = rt_msg_post_receive(
				c, &m->letters[i], sizeof(m->letters[i]),
				g->ranks[i], RT_TAG_LETTER, err);
		}
	}
	for (i = 1; i < g->n && s == RT_OK; i++) {
		s = rt_msg_post_send(c, &m->own, head + bytes,
				     g->ranks[(g->me + i) % g->n],
				     RT_TAG_LETTER, err);
	}
	if (s == RT_OK) {
		s = rt_msg_wait_posts(c, activity, g, err);
	}
	for (i = 0; i < g->n && s == RT_OK; i++) {
		s = i == g->me ? RT_OK : check_letter(c, g, i, activity, err);
	}
	return s;
}

/* ---- collectives ---- */

static enum rt_status
meet(struct rt_comm *c, const struct rt_meeting *m, struct rt_error *err)
{
	struct rt_part *parts;
	enum rt_status s;

	if (m->group->n == 1 && !m->next && m->in == m->out &&
	    rt_meeting_equal(c, m)) {
		return RT_OK;
	}
	if (rt_meeting_most(c, m) > RT_MAIL_BYTES) {
		s = show_letters(c, m->group, &m->activity, "", 0, c->theirs,
				 err);
		for (; m && s == RT_OK; m = m->next) {
			s = rt_msg_move(c, m, err);
		}
		return s;
	}
	parts = malloc((size_t)m->group->n * sizeof(*parts));
	if (!parts) {
		return rt_no_memory(err, NULL);
	}
	s = rt_meeting_by_mail(c, m, parts, c->msg->acc, err);
	free(parts);
	return s;
}

/* ---- point to point ---- */

static int64_t
tag_of(const struct rt_comm *c, const struct rt_meeting *m)
{
	return RT_TAG_SENT + m->coll->channel * c->plan->nmicrobatches +
	       m->activity.microbatch;
}

static int64_t
part_of(int64_t bytes, int64_t from)
{
	return bytes - from < RT_MSG_MOST ? bytes - from : RT_MSG_MOST;
}

/* Waits until all sends of the channel before that one have been received. */
static enum rt_status
settle_until(struct rt_comm *c, const struct rt_activity *activity,
	     int64_t channel, int64_t until, struct rt_error *err)
{
	struct rt_msg_sent *sent = &c->msg->sent[channel];
	int64_t most = c->plan->nmicrobatches;
	enum rt_status s = RT_OK;

	for (; sent->settled < until && s == RT_OK; sent->settled++) {
		int64_t i = sent->settled % most;

		s = rt_msg_wait_for(c, sent->at[i].parts, sent->at[i].nparts,
				    activity, NULL, err);
		c->msg->under_way--;
	}
	return s;
}

static enum rt_status
send(struct rt_comm *c, const struct rt_meeting *m, int64_t bytes,
     int64_t rank, struct rt_error *err)
{
	struct rt_msg *msg = c->msg;
	struct rt_msg_sent *sent = &msg->sent[m->coll->channel];
	int64_t last = sent->n % c->plan->nmicrobatches, from = 0;
	int64_t parts = bytes / RT_MSG_MOST + 1, i = 0;
	struct rt_msg_post *more;
	enum rt_status s;

	s = settle_until(c, &m->activity, m->coll->channel,
			 sent->n - c->plan->nmicrobatches + 1, err);
	if (s != RT_OK) {
		return s;
	}
	more = realloc(sent->at[last].parts, (size_t)parts * sizeof(*more));
	if (!more) {
		return rt_no_memory(err, NULL);
	}
	sent->at[last].parts = more;
	sent->at[last].nparts = 0;
	for (; i < parts && s == RT_OK; i++, from += RT_MSG_MOST) {
		s = msg->calls->send(msg->lib, m->in + from,
				     part_of(bytes, from), rank,
				     tag_of(c, m), &more[i], err);
		sent->at[last].nparts += s == RT_OK;
	}
	sent->n++;
	msg->under_way++;
	return s;
}

static enum rt_status
recv(struct rt_comm *c, const struct rt_meeting *m, int64_t bytes,
     int64_t rank, struct rt_error *err)
{
	int64_t parts = bytes / RT_MSG_MOST + 1, from = 0, i = 0;
	enum rt_status s = RT_OK;

	for (; i < parts && s == RT_OK; i++, from += RT_MSG_MOST) {
		int64_t n = part_of(bytes, from);

		rt_msg_start_posts(c);
		s = rt_msg_post_receive(c, m->out + from, n, rank, tag_of(c, m),
					err);
		if (s == RT_OK) {
			s = rt_msg_wait_posts(c, &m->activity, NULL, err);
		}
		if (s == RT_OK && c->msg->posts[0].bytes != n) {
			return rt_fail(err, RT_FORMAT, RT_NOWHERE,
				"%s sends %lld bytes, rank %lld expects %lld "
				"in %s%s", rt_rank_text(c, rank).text,
				(long long)(from + c->msg->posts[0].bytes),
				(long long)c->world.rank, (long long)bytes,
				rt_show_name(m->activity.what).text,
				rt_activity_text(&m->activity).text);
		}
	}
	return s;
}

static enum rt_status
settle(struct rt_comm *c, const struct rt_meeting *m, struct rt_error *err)
{
	return settle_until(c, &m->activity, m->coll->channel,
			    c->msg->sent[m->coll->channel].n -
			    (m->coll->copies - 1), err);
}

static enum rt_status
settle_all(struct rt_comm *c, const struct rt_activity *s,
	   struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < c->plan->nchannels && status == RT_OK; i++) {
		status = settle_until(c, s, i, c->msg->sent[i].n, err);
	}
	return status;
}

/* ---- opening and closing ---- */

static enum rt_status
make_tables(struct rt_comm *c, struct rt_error *err)
{
	size_t n = (size_t)c->world.size;
	struct rt_msg *m = calloc(1, sizeof(*m));
	int64_t i;

	c->msg = m;
	if (!m) {
		return rt_no_memory(err, NULL);
	}
	m->scratch_bytes = (2 * c->world.size + 1) * LEAST_BOX;
	m->scratch_bytes = m->scratch_bytes < SCRATCH_BYTES ? SCRATCH_BYTES :
							      m->scratch_bytes;
	/* slices are rounded up to whole lines, so they may be a little
	 * longer */
	m->scratch = malloc((size_t)m->scratch_bytes + n * LINE * 8);
	m->letters = calloc(n, sizeof(*m->letters));
	m->posts = calloc(2 * n, sizeof(*m->posts));
	m->sent = calloc((size_t)c->plan->nchannels + 1, sizeof(*m->sent));
	m->acc = aligned_alloc(LINE, RT_ACC_BYTES);
	c->arena = rt_private_pages((size_t)c->arena_bytes);
	if (!m->scratch || !m->letters || !m->posts || !m->sent || !m->acc ||
	    !c->arena || !rt_msg_open_queues(c)) {
		return rt_no_memory(err, NULL);
	}
	madvise(c->arena, (size_t)c->arena_bytes, MADV_HUGEPAGE);
	for (i = 0; i < c->plan->nchannels; i++) {
		m->sent[i].at = calloc((size_t)c->plan->nmicrobatches,
				       sizeof(*m->sent[i].at));
		if (!m->sent[i].at) {
			return rt_no_memory(err, NULL);
		}
	}
	return RT_OK;
}

static enum rt_status
check_self(const struct rt_comm *c, const struct rt_msg_self *self,
	   struct rt_error *err)
{
	int64_t tags = RT_TAG_SENT +
		       c->plan->nchannels * c->plan->nmicrobatches;

	if (self->size != c->world.size || self->rank != c->world.rank) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE,
			       "%s says that this is rank %lld of %lld, MPI "
			       "that it is %lld of %lld: start it by mpirun "
			       "of the same MPI, or srun --mpi=pmix",
			       c->world.how, (long long)c->world.rank,
			       (long long)c->world.size,
			       (long long)self->rank,
			       (long long)self->size);
	}
	if (tags - 1 > self->most_tag) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE,
			       "the plan has %lld channels times microbatches, "
			       "and this MPI tells %lld apart: compile it with "
			       "fewer microbatches",
			       (long long)(tags - RT_TAG_SENT),
			       (long long)(self->most_tag + 1 - RT_TAG_SENT));
	}
	return RT_OK;
}

/* All ranks compare their plan's checksum with that of rank 0. */
static enum rt_status
check_plans(struct rt_comm *c, struct rt_error *err)
{
	struct rt_activity activity = { "the start", -1, -1, 0 };
	uint64_t own = rt_plan_sum(c->plan), theirs;
	struct rt_group *g;
	enum rt_status s = rt_group_find(c, -1, 0, &g, err);
	int64_t i;

	if (s == RT_OK) {
		s = show_letters(c, g, &activity, &own, sizeof(own), c->theirs,
				 err);
	}
	for (i = 0; i < c->world.size && s == RT_OK; i++) {
		uint64_t first;

		memcpy(&first, c->theirs[0], sizeof(first));
		memcpy(&theirs, c->theirs[i], sizeof(theirs));
		if (theirs != first) {
			s = rt_fail(err, RT_FORMAT, RT_NOWHERE,
				    "rank %lld runs another plan than rank "
				    "0: start the same plan on all ranks",
				    (long long)i);
		}
	}
	return s;
}

static enum rt_status
open_by(struct rt_comm *c, const struct rt_msg_calls *calls,
	struct rt_error *err)
{
	struct rt_msg_self self;
	struct rt_msg *m = c->msg;
	enum rt_status s;

	m->calls = calls;
	s = calls->start(&m->lib, c, &self, err);
	if (s == RT_OK) {
		s = check_self(c, &self, err);
	}
	if (s == RT_OK) {
		m->started = true;
		s = check_plans(c, err);
	}
	m->over |= s != RT_OK && m->lib;
	return s;
}

static enum rt_status
open_mpi(struct rt_comm *c, struct rt_error *err)
{
	const struct rt_msg_calls *calls = NULL;
	enum rt_status s = make_tables(c, err);

	if (s == RT_OK) {
		s = rt_mpi_calls_find(&calls, err);
	}
	return s == RT_OK ? open_by(c, calls, err) : s;
}

static enum rt_status
open_tcp(struct rt_comm *c, struct rt_error *err)
{
	enum rt_status s = make_tables(c, err);

	return s == RT_OK ? open_by(c, &rt_tcp_calls, err) : s;
}

static void
release(struct rt_comm *c)
{
	struct rt_msg *m = c->msg;
	int64_t i, j;

	for (i = 0; m->sent && i < c->plan->nchannels; i++) {
		for (j = 0; m->sent[i].at && j < c->plan->nmicrobatches; j++) {
			free(m->sent[i].at[j].parts);
		}
		free(m->sent[i].at);
	}
	if (c->arena) {
		munmap(c->arena, c->arena_bytes ? (size_t)c->arena_bytes : 1);
	}
	rt_msg_close_queues(c);
	free(m->sent);
	free(m->scratch);
	free(m->letters);
	free(m->posts);
	free(m->acc);
	free(m);
}

/* Whether all that was sent has been received. */
static bool
settle_end(struct rt_comm *c)
{
	struct rt_activity end = { "the end", -1, -1, 0 };
	bool sent = settle_all(c, &end, NULL) == RT_OK;

	return rt_msg_settle_queues(c) && sent;
}

/* Once a rank has given up, nobody is waited for.  Messages of MPI may then
 * still be under way, so their memory must stay until the process ends. */
static void
close_msg(struct rt_comm *c)
{
	struct rt_msg *m = c->msg;
	bool well;

	if (!m) {
		return;
	}
	well = !m->over && (!m->started || settle_end(c));
	if (!well && m->calls->drop) {
		m->calls->drop(m->lib);
		m->lib = NULL;
	} else if (!well) {
		return;
	}
	if (!m->lib || m->calls->stop(m->lib, c->timeout_us) ||
	    m->calls->drop) {
		release(c);
	}
	c->msg = NULL;
}

static int64_t
row(struct rt_comm *c, int64_t axes, int64_t holders)
{
	(void)axes;
	(void)holders;
	return c->ngroups;
}

const struct rt_transport rt_by_mpi = { "MPI", open_mpi, close_msg, row,
	rt_msg_note, show_letters, meet, send, recv, settle, settle_all,
	rt_msg_put, rt_msg_get, rt_msg_abort, rt_msg_heard };

const struct rt_transport rt_by_tcp = { "TCP", open_tcp, close_msg, row,
	rt_msg_note, show_letters, meet, send, recv, settle, settle_all,
	rt_msg_put, rt_msg_get, rt_msg_abort, rt_msg_heard };

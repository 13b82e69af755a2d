/*
 * How a rank waits for messages: it polls whether they have arrived, and now
 * and then whether another rank gave up, whether this process is asked to end,
 * and whether it has waited longer than the timeout.
 */
#include "runtime/comm/msg.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	SPINS = 200,		/* then it yields its core */
	YIELDS = 2000,		/* then it sleeps between polls */
	NAP_NS = 50000,
	NAP_MS = 5		/* of a sleep that a message can interrupt */
};

#define LOOK_US 2000.0
/* When a rank dies, mpirun asks the others to end, and kills them a second
 * later: in between they report what they waited for. */
#define NOTICE_US 200000.0
/* How long the notice of a rank that gives up may take to be sent. */
#define FAREWELL_US 500000.0

/* ---- what this rank has done ---- */

void
rt_msg_note(struct rt_comm *c, const char *what, int64_t layer,
	    int64_t microbatch)
{
	struct rt_msg *m = c->msg;
	struct rt_event *e = &m->events[m->nevents++ % RT_EVENTS];
	int64_t nobody;

	e->at_us = rt_now_us();
	e->layer = layer;
	e->microbatch = microbatch;
	snprintf(e->what, sizeof(e->what), "%s", what);
	/* MPI makes progress with sends only while one of its functions runs */
	if (m->under_way > 0) {
		m->calls->probe(m->lib, RT_TAG_NOTICE, &nobody, NULL);
	}
}

struct rt_event
rt_msg_event(const struct rt_comm *c)
{
	const struct rt_msg *m = c->msg;
	struct rt_event e = { 0, -1, -1, "its start" };

	return m->nevents ? m->events[(m->nevents - 1) % RT_EVENTS] : e;
}

static void
report_events(const struct rt_comm *c, const char *message)
{
	const struct rt_msg *m = c->msg;
	double now = rt_now_us();
	unsigned back;

	if (c->report_fd < 0 ||
	    dprintf(c->report_fd, "%s: %s\n",
		    rt_rank_text(c, c->world.rank).text, message) < 0) {
		return;
	}
	for (back = m->nevents < 4 ? m->nevents : 4; back > 0; back--) {
		const struct rt_event *e =
			&m->events[(m->nevents - back) % RT_EVENTS];

		dprintf(c->report_fd, "  %s: %s%s, since %.1f s\n",
			rt_rank_text(c, c->world.rank).text,
			rt_show_name(e->what).text, rt_event_text(e).text,
			(now - e->at_us) * 1e-6);
	}
}

/* ---- notices ---- */

static void
sleep_briefly(void)
{
	static const struct timespec t = { 0, NAP_NS };

	nanosleep(&t, NULL);
}

static enum rt_msg_peer
state_of(const struct rt_comm *c, int64_t rank)
{
	const struct rt_msg *m = c->msg;

	return m->calls->peer_state ? m->calls->peer_state(m->lib, rank)
				 : RT_MSG_HERE;
}

void
rt_msg_give_up(struct rt_comm *c, const char *why)
{
	struct rt_msg *m = c->msg;
	double until = rt_now_us() + FAREWELL_US;
	struct rt_msg_post p;
	int64_t i, nobody;

	if (m->over || !m->started) {
		return;
	}
	m->over = true;
	snprintf(m->last_words.why, sizeof(m->last_words.why), "%s", why);
	for (i = 0; i < c->world.size; i++) {
		if (i == c->world.rank || state_of(c, i) != RT_MSG_HERE ||
		    m->calls->send(m->lib, &m->last_words,
				   sizeof(m->last_words), i, RT_TAG_NOTICE,
				   &p, NULL) != RT_OK) {
			continue;
		}
		while (p.busy && rt_now_us() < until &&
		       m->calls->test(m->lib, &p, NULL) == RT_OK) {
			sleep_briefly();
		}
	}
	/* an accepted send may not have left, and leaves in a call of MPI */
	until = rt_now_us() + FAREWELL_US / 10;
	while (rt_now_us() < until &&
	       m->calls->probe(m->lib, RT_TAG_NOTICE, &nobody, NULL) ==
		       RT_OK) {
		sleep_briefly();
	}
}

void
rt_msg_abort(struct rt_comm *c, const char *why)
{
	c->msg->last_words.said |= !c->msg->over;
	rt_msg_give_up(c, why);
}

/* ---- messages ---- */

struct msg_wait {
	struct rt_msg_post *posts;
	int64_t n;
	const struct rt_activity *activity;
	const struct rt_group *group;
	double since, checked;
	unsigned rounds;
	bool reported;
};

static bool
is_missing(const struct msg_wait *w, int64_t rank)
{
	int64_t i;

	for (i = 0; i < w->n; i++) {
		if (w->posts[i].busy && w->posts[i].rank == rank) {
			return true;
		}
	}
	return false;
}

static void
add_ranks(struct rt_line *t, const struct rt_comm *c, const struct msg_wait *w,
	  bool missing)
{
	int64_t found = 0, r;

	for (r = 0; r < c->world.size; r++) {
		bool member = r == c->world.rank || is_missing(w, r);
		int64_t i;

		for (i = 0; w->group && i < w->group->n; i++) {
			member |= w->group->ranks[i] == r;
		}
		if (!member || is_missing(w, r) != missing) {
			continue;
		}
		rt_line_rank(t, found++, r);
	}
	rt_line_more_ranks(t, found);
}

static struct rt_line
waited_text(const struct rt_comm *c, const struct msg_wait *w)
{
	struct rt_line t = { "", 0 };

	rt_line_add(&t, "waited %.1f s in %s%s: arrived: ",
		    (rt_now_us() - w->since) * 1e-6,
		    rt_show_name(w->activity->what).text,
		    rt_activity_text(w->activity).text);
	add_ranks(&t, c, w, false);
	rt_line_add(&t, "; missing: ");
	add_ranks(&t, c, w, true);
	return t;
}

/* Receives the notice of a rank, which is there. */
static enum rt_status
receive_notice(struct rt_comm *c, int64_t rank, struct rt_error *err)
{
	struct rt_msg *m = c->msg;
	double until = rt_now_us() + FAREWELL_US;
	struct rt_notice *n = &m->last_words;
	struct rt_msg_post p;
	enum rt_status s;

	m->over = true;
	s = m->calls->recv(m->lib, n, sizeof(*n), rank, RT_TAG_NOTICE, &p,
			   err);
	while (s == RT_OK && p.busy && rt_now_us() < until) {
		s = m->calls->test(m->lib, &p, err);
	}
	if (s == RT_OK) {
		n->why[p.busy ? 0 : sizeof(n->why) - 1] = '\0';
		m->told_by = p.busy ? 0 : rank + 1;
	}
	return s;
}

bool
rt_msg_heard(struct rt_comm *c, struct rt_heard *out)
{
	struct rt_msg *m = c->msg;
	int64_t rank = -1;

	if (!m->over && (m->calls->probe(m->lib, RT_TAG_NOTICE, &rank, NULL) !=
			 RT_OK || rank < 0 ||
			 receive_notice(c, rank, NULL) != RT_OK)) {
		return false;
	}
	*out = (struct rt_heard){ m->told_by ? m->told_by - 1 : c->world.rank,
				  m->last_words.said, m->last_words.why };
	return true;
}

/* The first rank to time out need not wait for the rank that is lost: so the
 * others add to its notice whom they have been waiting for. */
static enum rt_status
read_notice(struct rt_comm *c, const struct msg_wait *w, int64_t rank,
	    struct rt_error *err)
{
	const struct rt_notice *n = &c->msg->last_words;
	enum rt_status s = receive_notice(c, rank, err);
	struct rt_line t = { "", 0 };

	if (s != RT_OK) {
		return s;
	}
	if (n->late) {
		t = waited_text(c, w);
		rt_line_add(&t, ", when ");
	}
	rt_line_add(&t, "%s gave up: %s", rt_rank_text(c, rank).text, n->why);
	return rt_fail(err, RT_IO, RT_NOWHERE, "%s", t.at);
}

static enum rt_status
fail_late(struct rt_comm *c, const struct msg_wait *w, struct rt_error *err)
{
	struct rt_line t = waited_text(c, w);

	rt_line_add(&t, "; whoever of these lives says itself what it does");
	c->msg->last_words.late = 1;
	rt_msg_give_up(c, t.at);
	report_events(c, t.at);
	return rt_fail(err, RT_IO, RT_NOWHERE, "%s", t.at);
}

/* The carrier's own message, and the collective that failed. */
static enum rt_status
fail_broken(struct rt_comm *c, const struct msg_wait *w, int64_t rank,
	    const struct rt_error *why, struct rt_error *err)
{
	return rt_fail(err, RT_IO, RT_NOWHERE, "%s while rank %lld waited for "
		       "rank %lld in %s%s", why->message,
		       (long long)c->world.rank, (long long)rank,
		       rt_show_name(w->activity->what).text,
		       rt_activity_text(w->activity).text);
}

static const char *
what_happened(enum rt_msg_peer is)
{
	return is == RT_MSG_DEAD ? "died" : is == RT_MSG_LEFT ? "has ended" :
	       "sent a message that was changed on its way, or is not its own,";
}

/* Reports that the rank died, to all others as well. */
static enum rt_status
fail_gone(struct rt_comm *c, const struct msg_wait *w, int64_t rank,
	  enum rt_msg_peer is, struct rt_error *err)
{
	struct rt_error own;
	enum rt_status s;

	s = rt_fail(&own, RT_IO, RT_NOWHERE, "%s %s while rank %lld waited "
		    "%s in %s%s", rt_rank_text(c, rank).text,
		    what_happened(is), (long long)c->world.rank,
		    is_missing(w, rank) ? "for it" : "for others",
		    rt_show_name(w->activity->what).text,
		    rt_activity_text(w->activity).text);
	rt_msg_give_up(c, own.message);
	report_events(c, own.message);
	if (err) {
		*err = own;
	}
	return s;
}

static enum rt_status
test_all(struct rt_comm *c, struct msg_wait *w, bool *done,
	 struct rt_error *err)
{
	struct rt_msg *m = c->msg;
	struct rt_error why = { .status = RT_OK };
	int64_t i;

	*done = true;
	for (i = 0; i < w->n; i++) {
		struct rt_msg_post *p = &w->posts[i];

		if (p->busy && m->calls->test(m->lib, p, &why) != RT_OK) {
			return fail_broken(c, w, p->rank, &why, err);
		}
		*done &= !p->busy;
	}
	return RT_OK;
}

/*
 * Whether a rank has died, or one that this rank waits for has ended.  A rank
 * that ended had sent everything before, and that may have arrived together
 * with the news of its end.
 */
static enum rt_status
check_others(struct rt_comm *c, struct msg_wait *w, struct rt_error *err)
{
	enum rt_status s;
	bool done;
	int64_t r;

	for (r = 0; r < c->world.size; r++) {
		enum rt_msg_peer is = state_of(c, r);

		if (is == RT_MSG_LEFT && is_missing(w, r)) {
			s = test_all(c, w, &done, err);
			if (s != RT_OK) {
				return s;
			}
		}
		if (is == RT_MSG_DEAD || is == RT_MSG_BROKEN ||
		    (is == RT_MSG_LEFT && is_missing(w, r))) {
			return fail_gone(c, w, r, is, err);
		}
	}
	return RT_OK;
}

static enum rt_status
check_ranks(struct rt_comm *c, struct msg_wait *w, struct rt_error *err)
{
	struct rt_msg *m = c->msg;
	enum rt_status s;
	int64_t rank;

	s = m->calls->probe(m->lib, RT_TAG_NOTICE, &rank, err);
	if (s == RT_OK) {
		s = check_others(c, w, err);
	}
	if (s != RT_OK) {
		return s;
	}
	if (rank >= 0) {
		s = read_notice(c, w, rank, err);
		report_events(c, "this rank heard that another gave up");
		return s;
	}
	if (!w->reported && c->end_asked && *c->end_asked &&
	    w->checked - w->since > NOTICE_US) {
		struct rt_line t = waited_text(c, w);

		w->reported = true;
		rt_line_add(&t, "; asked to end meanwhile, as all are when one "
			    "dies");
		report_events(c, t.at);
	}
	return w->checked - w->since > c->timeout_us ? fail_late(c, w, err)
						    : RT_OK;
}

/* Where a message can interrupt a sleep, the rank sleeps early; else it yields
 * first. */
static void
be_patient(const struct rt_msg *m, const struct msg_wait *w)
{
	if (m->calls->await) {
		m->calls->await(m->lib, NAP_MS);
	} else if (w->rounds > YIELDS) {
		sleep_briefly();
	} else if (w->rounds > SPINS) {
		sched_yield();
	}
}

enum rt_status
rt_msg_wait_for(struct rt_comm *c, struct rt_msg_post *posts, int64_t n,
		const struct rt_activity *s, const struct rt_group *g,
		struct rt_error *err)
{
	struct msg_wait w = { .posts = posts, .n = n, .activity = s,
			      .group = g };
	unsigned spins = c->msg->calls->await ? SPINS / 10 : SPINS;
	bool done = false;
	enum rt_status status;

	for (;;) {
		status = test_all(c, &w, &done, err);
		if (status != RT_OK || done) {
			return status;
		}
		if (w.rounds == spins) {
			w.since = w.checked = rt_now_us();
		}
		/* after a yield, a round may take as long as the other process
		 * wants */
		if (w.rounds >= spins) {
			double now = rt_now_us();

			if (now - w.checked > LOOK_US) {
				w.checked = now;
				status = check_ranks(c, &w, err);
			}
			if (status != RT_OK) {
				return status;
			}
		}
		w.rounds++;
		if (w.rounds > spins) {
			be_patient(c->msg, &w);
		}
	}
}

/* ---- the current posts ---- */

void
rt_msg_start_posts(struct rt_comm *c)
{
	c->msg->nposts = 0;
}

enum rt_status
rt_msg_post_send(struct rt_comm *c, const void *at, int64_t bytes, int64_t rank,
		 int64_t tag, struct rt_error *err)
{
	struct rt_msg *m = c->msg;

	return m->calls->send(m->lib, at, bytes, rank, tag,
			      &m->posts[m->nposts++], err);
}

enum rt_status
rt_msg_post_receive(struct rt_comm *c, void *at, int64_t bytes, int64_t rank,
		    int64_t tag, struct rt_error *err)
{
	struct rt_msg *m = c->msg;

	return m->calls->recv(m->lib, at, bytes, rank, tag,
			      &m->posts[m->nposts++], err);
}

enum rt_status
rt_msg_wait_posts(struct rt_comm *c, const struct rt_activity *s,
		  const struct rt_group *g, struct rt_error *err)
{
	return rt_msg_wait_for(c, c->msg->posts, c->msg->nposts, s, g, err);
}

/*
 * What a waiting rank checks: whether all others live, whether one has given
 * up, and whether it has waited longer than the timeout; and the report of
 * which ranks did not come and what they do instead.
 *
 * Each rank locks one byte of the shared segment's file.  The kernel releases
 * the lock when the process ends, in whatever way, and no other process can.
 */
#define _GNU_SOURCE	/* F_OFD_SETLK */

#include "runtime/comm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the event recorder ---- */

void
rt_watch_note(struct rt_comm *c, const char *what, int64_t layer,
	      int64_t microbatch)
{
	struct rt_rank_slot *d = rt_segment_slot(c->shm, c->shm->me);
	unsigned n = atomic_load_explicit(&d->nevents, memory_order_relaxed);
	struct rt_event *e = &d->events[n % RT_EVENTS];
	size_t len = strlen(what);

	len = len < sizeof(e->what) - 1 ? len : sizeof(e->what) - 1;
	e->at_us = rt_now_us();
	e->layer = layer;
	e->microbatch = microbatch;
	memcpy(e->what, what, len);
	e->what[len] = '\0';
	atomic_store_explicit(&d->nevents, n + 1, memory_order_release);
}

/* The i-th last event of a rank; one that is being overwritten may be
 * garbled. */
static bool
event_of(const struct rt_comm *c, int64_t local, unsigned back,
	 struct rt_event *out)
{
	struct rt_rank_slot *d = rt_segment_slot(c->shm, local);
	unsigned n = atomic_load_explicit(&d->nevents, memory_order_acquire);

	if (back >= n || back >= RT_EVENTS) {
		return false;
	}
	*out = d->events[(n - 1 - back) % RT_EVENTS];
	out->what[sizeof(out->what) - 1] = '\0';
	return true;
}

/* ---- who is alive ---- */

enum rt_status
rt_watch_enter(struct rt_comm *c, struct rt_error *err)
{
	struct rt_shm *s = c->shm;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET,
		.l_start = s->me, .l_len = 1 };

	if (s->lock_fd >= 0 && fcntl(s->lock_fd, F_OFD_SETLK, &lock) != 0) {
		return rt_fail(err, RT_IO, RT_NOWHERE,
			       "cannot lock this rank's place: %s",
			       strerror(errno));
	}
	atomic_store(&rt_segment_slot(s, s->me)->state, RT_HERE);
	return RT_OK;
}

static bool
is_dead(const struct rt_comm *c, int64_t local)
{
	const struct rt_shm *s = c->shm;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET,
		.l_start = local, .l_len = 1 };

	if (local == s->me || s->lock_fd < 0 ||
	    atomic_load(&rt_segment_slot(s, local)->state) != RT_HERE) {
		return false;
	}
	if (fcntl(s->lock_fd, F_OFD_GETLK, &lock) != 0 ||
	    lock.l_type != F_UNLCK) {
		return false;
	}
	/* it may have ended in between */
	return atomic_load(&rt_segment_slot(s, local)->state) == RT_HERE;
}

static int64_t
find_dead(const struct rt_comm *c)
{
	int64_t i;

	for (i = 0; i < c->shm->n; i++) {
		if (is_dead(c, i)) {
			return c->shm->rank_of[i];
		}
	}
	return -1;
}

void
rt_watch_give_up(struct rt_comm *c, int64_t dead, bool said, const char *why)
{
	struct rt_segment *h = c->shm->segment;
	int zero = 0;

	if (!atomic_compare_exchange_strong(&h->given_up, &zero, 1)) {
		return;
	}
	h->who = c->world.rank;
	h->dead = dead;
	h->said = said;
	snprintf(h->why, sizeof(h->why), "%s", why);
	atomic_store(&h->given_up, 2);
}

bool
rt_watch_heard(struct rt_comm *c, struct rt_heard *out)
{
	const struct rt_segment *h = c->shm->segment;

	if (atomic_load(&h->given_up) != 2) {
		return false;
	}
	*out = (struct rt_heard){ h->who, h->said, h->why };
	return true;
}

/* ---- messages ---- */

/* Adds " for it" if this rank waits for the rank that died. */
static enum rt_status
fail_died(struct rt_comm *c, const struct rt_wait *w, int64_t dead,
	  struct rt_error *err)
{
	char whom[32] = "it";

	if (dead != w->rank) {
		snprintf(whom, sizeof(whom), "rank %lld", (long long)w->rank);
	}
	return rt_fail(err, RT_IO, RT_NOWHERE,
		       "%s died while rank %lld waited for %s in %s%s",
		       rt_rank_text(c, dead).text, (long long)c->world.rank,
		       whom, rt_show_name(w->activity->what).text,
		       rt_activity_text(w->activity).text);
}

static enum rt_status
fail_left(struct rt_comm *c, const struct rt_wait *w, struct rt_error *err)
{
	return rt_fail(err, RT_IO, RT_NOWHERE,
		       "%s has ended while rank %lld waited for it in %s%s",
		       rt_rank_text(c, w->rank).text, (long long)c->world.rank,
		       rt_show_name(w->activity->what).text,
		       rt_activity_text(w->activity).text);
}

static enum rt_status
fail_given_up(struct rt_comm *c, const struct rt_wait *w, struct rt_error *err)
{
	struct rt_segment *h = c->shm->segment;

	if (h->dead >= 0) {
		return fail_died(c, w, h->dead, err);
	}
	return rt_fail(err, RT_IO, RT_NOWHERE, "%s gave up: %s",
		       rt_rank_text(c, h->who).text, h->why);
}

enum rt_status
rt_watch_mismatch(struct rt_comm *c, const struct rt_activity *s, int64_t rank,
		  struct rt_error *err)
{
	struct rt_event e;

	if (!event_of(c, c->shm->local_of[rank], 0, &e)) {
		snprintf(e.what, sizeof(e.what), "its start");
		e.layer = e.microbatch = -1;
	}
	return rt_event_mismatch(c, s, &e, rank, err);
}

/* ---- timeouts ---- */

/* Whether that rank has come to the collective that this one waits in. */
static bool
has_come(const struct rt_comm *c, const struct rt_wait *w, int64_t rank)
{
	int64_t local = c->shm->local_of[rank];

	if (rank == c->world.rank) {
		return true;
	}
	if (!w->group || local < 0) {
		return rank != w->rank;
	}
	return rt_doorbell_reached(
		&rt_segment_meeting(c->shm, w->group->row, local)->doorbell,
		w->want);
}

/* Adds the ranks that have come, or those that have not. */
static void
add_ranks(struct rt_line *t, const struct rt_comm *c, const struct rt_wait *w,
	  bool come)
{
	int64_t n = w->group ? w->group->n : 1, found = 0, i;

	for (i = 0; i < n; i++) {
		int64_t r = w->group ? w->group->ranks[i] : w->rank;

		if (has_come(c, w, r) != come) {
			continue;
		}
		rt_line_rank(t, found++, r);
	}
	rt_line_more_ranks(t, found);
	if (found == 0) {
		rt_line_add(t, "none");
	}
}

static void
add_event(struct rt_line *t, const struct rt_event *e, double now)
{
	rt_line_add(t, "%s%s, since %.1f s", rt_show_name(e->what).text,
		    rt_event_text(e).text, (now - e->at_us) * 1e-6);
}

/* Follows who waits for whom from that rank to the end of the chain. */
static int64_t
follow(const struct rt_comm *c, int64_t rank)
{
	int64_t i, next;

	for (i = 0; i < c->shm->n; i++) {
		next = atomic_load(&rt_segment_slot(c->shm,
			c->shm->local_of[rank])->waits_for) - 1;
		if (next < 0) {
			break;
		}
		rank = next;
	}
	return rank;
}

/* Adds the first rank that has not come, or the one that it waits for, and what
 * that one does. */
static void
add_first(struct rt_line *t, const struct rt_comm *c, const struct rt_wait *w,
	  double now)
{
	int64_t r = w->rank, i, root;
	struct rt_event e;

	for (i = 0; w->group && i < w->group->n; i++) {
		r = w->group->ranks[i];
		if (!has_come(c, w, r)) {
			break;
		}
	}
	root = follow(c, r);
	rt_line_add(t, "; %s ", rt_rank_text(c, r).text);
	if (root != r) {
		rt_line_add(t, "waits for %s, which ",
			    rt_rank_text(c, root).text);
	}
	if (event_of(c, c->shm->local_of[root], 0, &e)) {
		rt_line_add(t, "is in ");
		add_event(t, &e, now);
	} else {
		rt_line_add(t, "has done nothing yet");
	}
}

/* Writes all recorded events, a line each. */
static void
write_report(struct rt_comm *c, const char *message)
{
	double now = rt_now_us();
	int64_t i;

	if (c->report_fd < 0) {
		return;
	}
	if (dprintf(c->report_fd, "%s: %s\n",
		    rt_rank_text(c, c->world.rank).text, message) < 0) {
		return;
	}
	for (i = 0; i < c->shm->n; i++) {
		struct rt_event e;
		unsigned back;

		for (back = 4; back-- > 0;) {
			struct rt_line t = { "", 0 };

			if (event_of(c, i, back, &e)) {
				rt_line_add(&t, "  %s: ",
					    rt_rank_text(c,
						c->shm->rank_of[i]).text);
				add_event(&t, &e, now);
				dprintf(c->report_fd, "%s\n", t.at);
			}
		}
	}
}

static enum rt_status
fail_late(struct rt_comm *c, const struct rt_wait *w, double since,
	  struct rt_error *err)
{
	double now = rt_now_us();
	struct rt_line t = { "", 0 };

	rt_line_add(&t, "waited %.1f s in %s%s: arrived: ",
		    (now - since) * 1e-6,
		    rt_show_name(w->activity->what).text,
		    rt_activity_text(w->activity).text);
	add_ranks(&t, c, w, true);
	rt_line_add(&t, "; missing: ");
	add_ranks(&t, c, w, false);
	add_first(&t, c, w, now);
	rt_watch_give_up(c, -1, false, t.at);
	write_report(c, t.at);
	return rt_fail(err, RT_IO, RT_NOWHERE, "%s", t.at);
}

static enum rt_status
check_ranks(struct rt_comm *c, const struct rt_wait *w, double since,
	    struct rt_error *err)
{
	int64_t local = c->shm->local_of[w->rank], dead;
	enum rt_status s;

	/* a rank that dies while it writes its reason is found to be dead */
	if (atomic_load(&c->shm->segment->given_up) == 2) {
		return fail_given_up(c, w, err);
	}
	dead = find_dead(c);
	if (dead >= 0) {
		struct rt_error own;

		s = fail_died(c, w, dead, &own);
		rt_watch_give_up(c, dead, false, own.message);
		write_report(c, own.message);
		if (err) {
			*err = own;
		}
		return s;
	}
	if (local >= 0 && !rt_doorbell_reached(w->doorbell, w->want) &&
	    atomic_load(&rt_segment_slot(c->shm, local)->state) == RT_LEFT &&
	    !rt_doorbell_reached(w->doorbell, w->want)) {
		return fail_left(c, w, err);
	}
	if (rt_now_us() - since > c->timeout_us) {
		return fail_late(c, w, since, err);
	}
	return RT_OK;
}

enum rt_status
rt_watch_wait(struct rt_comm *c, const struct rt_wait *w,
	      struct rt_error *err)
{
	struct rt_rank_slot *d = rt_segment_slot(c->shm, c->shm->me);
	enum rt_status s = RT_OK;
	double since;

	if (rt_doorbell_await(w->doorbell, w->want, c->shm->patience)) {
		return RT_OK;
	}
	since = rt_now_us();
	atomic_store(&d->waits_for, w->rank + 1);
	do {
		s = check_ranks(c, w, since, err);
	} while (s == RT_OK &&
		 !rt_doorbell_await(w->doorbell, w->want, c->shm->patience));
	atomic_store(&d->waits_for, 0);
	return s;
}

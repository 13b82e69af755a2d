/*
 * Another thread, which looks ahead of a walk.  What takes time in a walk is to
 * place shardings and to price and measure their pieces, and all of that is
 * kept.  So the thread, with a search of its own, looks at rows of degrees to
 * which the walk has not come yet; when it does, it takes their placements with
 * all that was found of them, and looks at the row again, which takes a
 * twentieth of the time.
 *
 * So the walk decides alone, in its order, and the answer does not depend on
 * which rows the thread was quick enough to look at.  What the walk takes is
 * what it would find itself, as it follows from a placement's key; it counts
 * placements when it asks for them.  The thread knows the plans that the walk
 * had found when it began the row, and those that it finds itself.  These are
 * fewer than the walk knows when it comes to the row, so the thread cuts no
 * more.
 *
 * The two share nothing that either changes.  The other search has its own
 * program, memory and memo, and notes nothing about plans.  A placement is at
 * one thread at a time: its degrees are in one row, and it changes hands
 * without programs.
 */
#define _XOPEN_SOURCE 700
#include "ir/memo.h"
#include "passes/search/search_parts.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

enum row_state {
	ROW_FREE,
	ROW_OURS,		/* the walk looks at it, or did */
	ROW_ITS,		/* the thread does */
	ROW_ENDED		/* the thread did */
};

/* Degrees side by side in the order that share placements. */
struct ahead_row {
	enum row_state state;
	uint32_t at, n;
};

struct search_ahead {
	struct search s;
	struct search_options o;
	struct search_report out;	/* nobody reads it */
	struct ir_ctx ctx;
	struct memo memo;
	bool runs;
	pthread_t thread;
	/* those that were placed when the walk began */
	VEC(struct piece_placed *) lent;
	pthread_mutex_t lock;	/* of the rest */
	pthread_cond_t ended;	/* a row */
	bool stops;
	double worst_us;	/* the walk's, when it turned to a row */
	VEC(struct ahead_row) rows;
	VEC(struct piece_placed *) made;	/* that the walk has not yet */
};

/* ---- the other search ---- */

static void
open_space(struct search_ahead *x, const struct space *of)
{
	struct space *s = &x->s.space;

	*s = *of;
	s->m = ir_copy(of->m, &x->ctx);
	arena_init(&s->keep, &x->ctx.mem);
	arena_init(&s->tmp, &x->ctx.mem);
	arena_init(&s->held, &x->ctx.mem);
	memset(&s->slots, 0, sizeof s->slots);
	s->held_of = NULL;
}

/* What is known of axes is shared; all else is found again. */
static void
open_bounds(struct search_ahead *x, const struct bound *of)
{
	struct bound *b = &x->s.bounds;

	*b = *of;
	b->space = &x->s.space;
	b->pieces = &x->s.pieces;
	b->axes.at = arena_dup(&x->s.space.keep, b->axes.at,
			       b->axes.cap * sizeof *b->axes.at);
	memset(&b->arithmetic, 0, sizeof b->arithmetic);
	memset(&b->spreads, 0, sizeof b->spreads);
}

void
search_ahead_open(struct search *s)
{
	struct search_ahead *x;

	/* effort is counted as one thread spends it */
	if (!s->o->two_threads || s->o->effort) {
		return;
	}
	x = s->ahead = arena_alloc(&s->space.keep, sizeof *x);
	ir_ctx_apart(&x->ctx, s->space.m->ctx);
	memo_init(&x->memo, &x->ctx.mem, MEMO_BYTES);
	x->o = *s->o;
	x->o.shows = x->o.keeps_priced = false;
	x->s = (struct search){
		.o = &x->o, .out = &x->out, .a = &x->ctx.perm,
		.memo = s->memo ? &x->memo : NULL, .begin_s = s->begin_s,
		.is_ahead = true
	};
	x->s.briefs.memo = x->s.memo;
	open_space(x, &s->space);
	piece_open(&x->s.pieces, &x->s.space, x->s.memo);
	x->s.pieces.is_ahead = true;
	open_bounds(x, &s->bounds);
	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->ended, NULL);
}

void
search_ahead_close(struct search *s)
{
	struct search_ahead *x = s->ahead;

	if (!x) {
		return;
	}
	pthread_cond_destroy(&x->ended);
	pthread_mutex_destroy(&x->lock);
	piece_release(&x->s.pieces);
	memo_release(&x->memo);
	space_release(&x->s.space);
	ir_ctx_release(&x->ctx);
	s->ahead = NULL;
}

/* ---- the thread ---- */

/*
 * The next row for the thread.  It leaves one to the walk, so that this need
 * not wait for the thread as soon as it ends its own row.
 */
static struct ahead_row *
next_row(struct search_ahead *x)
{
	struct ahead_row *first = NULL;
	uint32_t i;

	for (i = 0; i < x->rows.n && !x->stops; i++) {
		struct ahead_row *r = &x->rows.at[i];

		if (r->state == ROW_FREE && first) {
			return r;
		}
		first = r->state == ROW_FREE ? r : first;
	}
	return x->stops ? NULL : first;
}

static struct ahead_row *
begin_row(struct search_ahead *x)
{
	struct ahead_row *r;

	pthread_mutex_lock(&x->lock);
	r = next_row(x);
	if (r) {
		r->state = ROW_ITS;
		x->s.worst_us = fmin(x->s.worst_us, x->worst_us);
	}
	pthread_mutex_unlock(&x->lock);
	return r;
}

/* Gives back what it borrowed, without programs, and adds what it placed. */
static void
end_row(struct search_ahead *x, struct ahead_row *r, uint32_t nlent)
{
	struct piece_store *p = &x->s.pieces;
	uint32_t i;

	piece_drop_programs(p);
	pthread_mutex_lock(&x->lock);
	for (i = nlent; i < p->placed.n; i++) {
		VEC_PUSH(&x->ctx.perm, &x->made, p->placed.at[i]);
	}
	r->state = ROW_ENDED;
	pthread_cond_signal(&x->ended);
	pthread_mutex_unlock(&x->lock);
}

static const struct space_degrees *
row_degrees(const struct search *s, uint32_t at)
{
	return &s->space.degrees.at[s->order[at]];
}

static void *
look_ahead(void *user)
{
	struct search_ahead *x = user;
	struct ahead_row *r;
	uint32_t i, nlent;

	while ((r = begin_row(x)) != NULL) {
		piece_borrow(&x->s.pieces, x->lent.at, x->lent.n,
			     row_degrees(&x->s, r->at));
		nlent = x->s.pieces.placed.n;
		for (i = 0; i < r->n; i++) {
			search_look_at(&x->s, r->at + i);
		}
		end_row(x, r, nlent);
	}
	return NULL;
}

/* ---- a walk ---- */

/*
 * What the other search needs to know of this one for a walk.  It reads what
 * earlier walks noted about plans of its rows, which the walk does not change
 * before it comes to these.
 */
static void
copy_walk(struct search *to, const struct search *s)
{
	to->seen = s->seen;
	to->ways.at = s->ways.at;
	to->ways.n = s->ways.n;
	to->order = s->order;
	to->unfit.at = s->unfit.at;
	to->unfit.n = s->unfit.n;
	to->settled.at = s->settled.at;
	to->settled.n = s->settled.n;
	to->worst_us = s->worst_us;
	to->enough = s->enough;
	to->guessing = s->guessing;
	to->open_us = INFINITY;
	to->out->found.n = 0;
}

/* The rows of the first n degrees. */
static void
set_rows(struct search_ahead *x, const struct search *s, uint32_t n)
{
	struct arena *a = &x->s.space.keep;
	uint32_t i;

	x->rows.n = 0;
	for (i = 0; i < n; i++) {
		if (space_is_new_row(&s->space, s->order, i)) {
			VEC_PUSH(a, &x->rows,
				 ((struct ahead_row){ ROW_FREE, i, 0 }));
		}
		x->rows.at[x->rows.n - 1].n++;
	}
}

/* Signals are for the thread of the walk.  False: there is no other one. */
static bool
start(struct search_ahead *x)
{
	sigset_t all, was;
	bool ok;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	ok = pthread_create(&x->thread, NULL, look_ahead, x) == 0;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return ok;
}

void
search_ahead_begin(struct search *s, uint32_t n)
{
	struct search_ahead *x = s->ahead;

	if (!x) {
		return;
	}
	piece_lend(&s->pieces);
	set_rows(x, s, n);
	copy_walk(&x->s, s);
	x->worst_us = s->worst_us;
	x->lent.n = s->pieces.placed.n;
	x->lent.at = arena_dup(&x->s.space.keep, s->pieces.placed.at,
			       x->lent.n * sizeof *x->lent.at);
	x->stops = false;
	x->runs = start(x);
}

/* Takes what the thread has placed. */
static void
take(struct search *s)
{
	struct search_ahead *x = s->ahead;
	uint32_t i;

	for (i = 0; i < x->made.n; i++) {
		VEC_PUSH(&s->space.keep, &s->pieces.placed, x->made.at[i]);
	}
	x->made.n = 0;
}

void
search_ahead_turn_to(struct search *s, uint32_t at)
{
	struct search_ahead *x = s->ahead;
	struct ahead_row *r;

	if (!x) {
		return;
	}
	pthread_mutex_lock(&x->lock);
	for (r = x->rows.at; r->at != at; r++) {
	}
	x->worst_us = s->worst_us;
	x->stops = search_is_over(s);	/* then nothing more is placed */
	if (r->state == ROW_FREE) {
		r->state = ROW_OURS;
	}
	while (r->state == ROW_ITS) {
		pthread_cond_wait(&x->ended, &x->lock);
	}
	take(s);
	pthread_mutex_unlock(&x->lock);
	piece_regain(&s->pieces, row_degrees(s, at));
}

void
search_ahead_end(struct search *s)
{
	struct search_ahead *x = s->ahead;

	if (!x) {
		return;
	}
	pthread_mutex_lock(&x->lock);
	x->stops = true;
	pthread_mutex_unlock(&x->lock);
	if (x->runs) {
		pthread_join(x->thread, NULL);
	}
	x->runs = false;
	take(s);
	piece_regain(&s->pieces, NULL);
	memo_drop(x->s.memo, MEMO_BRIEFS);
}

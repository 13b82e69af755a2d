/*
 * The plan's collectives: which ranks take part and whether their sizes and
 * operands are valid, before the transport moves any element; and small
 * reductions that the host itself needs.
 */
#include "runtime/comm/msg.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

struct rt_rank_text
rt_rank_text(const struct rt_comm *c, int64_t rank)
{
	struct rt_rank_text t;

	rt_mesh_text(c->plan, rank, t.text, sizeof(t.text));
	return t;
}

struct rt_rank_text
rt_activity_text(const struct rt_activity *s)
{
	struct rt_rank_text t = { "" };
	size_t n = 0;

	if (s->layer >= 0) {
		n = (size_t)snprintf(t.text, sizeof(t.text), ", layer %lld",
				     (long long)s->layer);
	}
	if (s->microbatch >= 0) {
		snprintf(t.text + n, sizeof(t.text) - n, ", microbatch %lld",
			 (long long)s->microbatch);
	}
	return t;
}

struct rt_rank_text
rt_event_text(const struct rt_event *e)
{
	struct rt_activity s = { e->what, e->layer, e->microbatch, 0 };

	return rt_activity_text(&s);
}

enum rt_status
rt_event_mismatch(const struct rt_comm *c, const struct rt_activity *s,
		  const struct rt_event *theirs, int64_t rank,
		  struct rt_error *err)
{
	struct rt_event e = *theirs;

	e.what[sizeof(e.what) - 1] = '\0';
	return rt_fail(err, RT_FORMAT, RT_NOWHERE,
		       "%s is in %s%s, %s in %s%s: they run different plans, "
		       "or one of them is broken",
		       rt_rank_text(c, c->world.rank).text,
		       rt_show_name(s->what).text, rt_activity_text(s).text,
		       rt_rank_text(c, rank).text, rt_show_name(e.what).text,
		       rt_event_text(&e).text);
}

void
rt_line_rank(struct rt_line *t, int64_t found, int64_t rank)
{
	if (found < 8) {
		rt_line_add(t, "%s%lld", found ? ", " : "", (long long)rank);
	}
}

void
rt_line_more_ranks(struct rt_line *t, int64_t found)
{
	if (found > 8) {
		rt_line_add(t, " and %lld more", (long long)(found - 8));
	}
}

/* ---- groups ---- */

static int64_t
space_axes(const struct rt_plan *p, int64_t axes)
{
	int64_t out = 0, a;

	for (a = 1; a < p->naxes; a++) {
		if (axes >> a & 1 && !p->axes[a].time && p->axes[a].size > 1) {
			out |= (int64_t)1 << a;
		}
	}
	return out;
}

int64_t
rt_rank_at_pipe(const struct rt_plan *p, int64_t rank, int64_t pipe)
{
	int64_t at[RT_MAX_AXES + 1];

	if (!p->pp) {
		return rank;
	}
	rt_mesh_at(p, rank, at);
	at[p->pp] = pipe;
	return rt_mesh_number(p, at);
}

static bool
is_member(const struct rt_comm *c, const struct rt_group *g, int64_t rank)
{
	int64_t mine[RT_MAX_AXES + 1], at[RT_MAX_AXES + 1], a;

	rt_mesh_at(c->plan, c->world.rank, mine);
	rt_mesh_at(c->plan, rank, at);
	for (a = 1; a < c->plan->naxes; a++) {
		if (mine[a] != at[a] && !(g->axes >> a & 1)) {
			return false;
		}
	}
	return !g->holders || !c->plan->pp ||
	       g->holders >> at[c->plan->pp] & 1;
}

static enum rt_status
make_group(struct rt_comm *c, int64_t axes, int64_t holders,
	   struct rt_error *err)
{
	struct rt_group g = { .axes = axes, .holders = holders, .me = -1 };
	struct rt_group *more;
	int64_t r;

	more = realloc(c->groups, (size_t)(c->ngroups + 1) * sizeof(*more));
	if (!more) {
		return rt_no_memory(err, NULL);
	}
	c->groups = more;
	g.ranks = malloc((size_t)c->world.size * sizeof(*g.ranks));
	if (!g.ranks) {
		return rt_no_memory(err, NULL);
	}
	for (r = 0; r < c->world.size; r++) {
		if (is_member(c, &g, r)) {
			g.me = r == c->world.rank ? g.n : g.me;
			g.ranks[g.n++] = r;
		}
	}
	g.row = c->via->row(c, axes, holders);
	if (g.me < 0 || g.row < 0) {
		free(g.ranks);
		return rt_fail(err, RT_RANGE, RT_NOWHERE, g.me < 0 ?
			       "rank %lld is not part of a group in which it "
			       "communicates" : "rank %lld: more than 64 "
			       "kinds of groups", (long long)c->world.rank);
	}
	c->groups[c->ngroups++] = g;
	return RT_OK;
}

enum rt_status
rt_group_find(struct rt_comm *c, int64_t axes, int64_t holders,
	      struct rt_group **out, struct rt_error *err)
{
	enum rt_status s;
	int64_t i;

	axes = space_axes(c->plan, axes);
	for (i = 0; i < c->ngroups; i++) {
		if (c->groups[i].axes == axes &&
		    c->groups[i].holders == holders) {
			break;
		}
	}
	if (i == c->ngroups) {
		s = make_group(c, axes, holders, err);
		if (s != RT_OK) {
			return s;
		}
	}
	*out = &c->groups[i];
	return RT_OK;
}

/* ---- collectives ---- */

static uint64_t
add_number(uint64_t h, int64_t n)
{
	h ^= (uint64_t)n + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
	return h * 0xff51afd7ed558ccdu;
}

static uint64_t
of_text(const char *s)
{
	uint64_t h = 14695981039346656037u;

	for (; *s; s++) {
		h = (h ^ (unsigned char)*s) * 1099511628211u;
	}
	return h;
}

/* An id that is the same for all members of a group that run the same
 * collective of the same iteration and microbatch. */
static uint64_t
id_of(const struct rt_coll *t, int64_t layer, int64_t microbatch)
{
	uint64_t h = add_number(of_text(t->what), t->op);

	h = add_number(h, t->elem);
	for (; t; t = t->next) {
		h = add_number(h, t->ndims);
	}
	h = add_number(h, layer);
	return add_number(h, microbatch);
}

static bool
inside(const struct rt_comm *c, const char *at, int64_t bytes)
{
	return at >= c->arena && bytes <= c->arena_bytes &&
	       at - c->arena <= c->arena_bytes - bytes;
}

static int64_t
bytes_of(const struct rt_comm *c, const struct rt_coll *t,
	 const struct rt_spread *const *spreads, int64_t microbatch)
{
	int64_t n = rt_elem_bytes((enum rt_elem)t->elem), d;

	for (d = 0; d < t->ndims; d++) {
		n *= rt_pieces_of(c->plan, spreads[d], c->world.rank,
				  microbatch)->total;
	}
	return n;
}

static enum rt_status
check_coll(const struct rt_comm *c, const struct rt_coll *t, int64_t microbatch,
	   const char *in, const char *out, struct rt_error *err)
{
	bool ends = t->op == RT_COLL_SEND || t->op == RT_COLL_RECV ||
		    t->op == RT_COLL_FREE;
	int64_t nin, nout;

	if (t->ndims > RT_MAX_DIMS || microbatch < 0 ||
	    microbatch >= c->plan->nmicrobatches ||
	    (ends && (t->channel < 0 || t->channel >= c->plan->nchannels ||
		      t->peer < 0 || t->peer >= c->plan->npipes))) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE,
			       "%s: no such channel, place or microbatch in "
			       "this plan", rt_show_name(t->what).text);
	}
	if (t->op == RT_COLL_FREE) {
		return RT_OK;
	}
	nin = bytes_of(c, t, t->in, microbatch);
	nout = bytes_of(c, t, t->out, microbatch);
	if ((t->op != RT_COLL_RECV && !inside(c, in, nin)) ||
	    (t->op != RT_COLL_SEND && !inside(c, out, nout))) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE,
			       "%s: not in the arena",
			       rt_show_name(t->what).text);
	}
	if (!ends && in != out && in < out + nout && out < in + nin &&
	    t->op != RT_COLL_COPY) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE,
			       "%s: its two ends overlap in part",
			       rt_show_name(t->what).text);
	}
	return RT_OK;
}

static enum rt_status
carry_out(struct rt_comm *c, const struct rt_meeting *m, struct rt_error *err)
{
	const struct rt_coll *t = m->coll;
	int64_t mb = m->activity.microbatch;
	int64_t peer = rt_rank_at_pipe(c->plan, c->world.rank, t->peer);

	switch (t->op) {
	case RT_COLL_SEND:
		return c->via->send(c, m, bytes_of(c, t, t->in, mb), peer,
				    err);
	case RT_COLL_RECV:
		return c->via->recv(c, m, bytes_of(c, t, t->out, mb), peer,
				    err);
	case RT_COLL_FREE:
		return c->via->settle(c, m, err);
	default:
		return c->via->meet(c, m, err);
	}
}

/* Checks each of the joined collectives as if it ran alone; *n is how many they
 * are. */
static enum rt_status
check_all(const struct rt_comm *c, const struct rt_coll *t, int64_t microbatch,
	  char *const *at, int64_t *n, struct rt_error *err)
{
	const struct rt_coll *x;
	enum rt_status s = RT_OK;

	for (x = t, *n = 0; x && s == RT_OK; x = x->next, ++*n) {
		s = check_coll(c, x, microbatch, at[2 * *n], at[2 * *n + 1],
			       err);
		if (s == RT_OK && (*n == RT_MAX_JOINED || x->op != t->op ||
				   x->axes != t->axes || x->elem != t->elem ||
				   x->holders != t->holders)) {
			s = rt_fail(err, RT_RANGE, RT_NOWHERE, "%s: what is "
				    "joined differs, or is too much",
				    rt_show_name(t->what).text);
		}
	}
	return s;
}

enum rt_status
rt_comm_join(struct rt_comm *c, const struct rt_coll *t, int64_t microbatch,
	     char *const *at, int64_t layer, struct rt_error *err)
{
	struct rt_meeting m[RT_MAX_JOINED];
	struct rt_group *g = NULL;
	int64_t n, i;
	enum rt_status s = check_all(c, t, microbatch, at, &n, err);

	if (s != RT_OK) {
		return s;
	}
	rt_comm_note(c, t->what, layer, microbatch);
	if (t->op != RT_COLL_SEND && t->op != RT_COLL_RECV &&
	    t->op != RT_COLL_FREE) {
		s = rt_group_find(c, t->axes, t->holders, &g, err);
	}
	m[0].activity = (struct rt_activity){ t->what, layer, microbatch,
					id_of(t, layer, microbatch) };
	for (i = 0; i < n; i++, t = t->next) {
		m[i] = (struct rt_meeting){ g, m[0].activity, t, at[2 * i],
			at[2 * i + 1], t->next ? &m[i + 1] : NULL };
	}
	return s == RT_OK ? carry_out(c, m, err) : s;
}

enum rt_status
rt_comm_coll(struct rt_comm *c, const struct rt_coll *t, int64_t microbatch,
	     char *in, char *out, int64_t layer, struct rt_error *err)
{
	char *const at[] = { in, out };

	return rt_comm_join(c, t, microbatch, at, layer, err);
}

void
rt_comm_note(struct rt_comm *c, const char *what, int64_t layer,
	     int64_t microbatch)
{
	c->via->note(c, what, layer, microbatch);
}

/* ---- the host's own reductions ---- */

enum number { SUM_F64, SUM_U64, MAX_I64 };

static void
fold_number(enum number kind, void *to, const void *from, int64_t i,
	    bool first)
{
	double *f = to;
	uint64_t *u = to;
	int64_t *n = to, v;

	switch (kind) {
	case SUM_F64:
		f[i] = first ? ((const double *)from)[i] :
			f[i] + ((const double *)from)[i];
		break;
	case SUM_U64:
		u[i] = (first ? 0 : u[i]) + ((const uint64_t *)from)[i];
		break;
	case MAX_I64:
		v = ((const int64_t *)from)[i];
		n[i] = first || v > n[i] ? v : n[i];
		break;
	}
}

static enum rt_status
combine_numbers(struct rt_comm *c, int64_t axes, enum number kind,
		const char *what, void *at, int64_t n, struct rt_error *err)
{
	struct rt_activity activity = { what, -1, -1,
		add_number(add_number(of_text(what), n), kind) };
	const int64_t most = RT_MAIL_BYTES / 8;
	struct rt_group *g;
	enum rt_status s = rt_group_find(c, axes, 0, &g, err);
	int64_t done, i, r;

	rt_comm_note(c, what, -1, -1);
	for (done = 0; s == RT_OK && (done < n || done == 0); done += most) {
		char *to = n ? (char *)at + done * 8 : NULL;
		int64_t part = n - done < most ? n - done : most;

		s = c->via->show(c, g, &activity, to ? to : "", part * 8,
				 c->theirs, err);
		for (r = 0; s == RT_OK && r < g->n; r++) {
			for (i = 0; i < part; i++) {
				fold_number(kind, to, c->theirs[r], i, r == 0);
			}
		}
	}
	return s;
}

enum rt_status
rt_comm_sum_f64(struct rt_comm *c, int64_t axes, double *at, int64_t n,
		struct rt_error *err)
{
	return combine_numbers(c, axes, SUM_F64, "a sum of numbers", at, n,
			       err);
}

enum rt_status
rt_comm_sum_u64(struct rt_comm *c, uint64_t *at, int64_t n,
		struct rt_error *err)
{
	return combine_numbers(c, -1, SUM_U64, "a sum of check sums", at, n,
			       err);
}

enum rt_status
rt_comm_max_i64(struct rt_comm *c, int64_t *at, int64_t n,
		struct rt_error *err)
{
	return combine_numbers(c, -1, MAX_I64, "a maximum of all ranks", at, n,
			       err);
}

enum rt_status
rt_comm_spread(struct rt_comm *c, int64_t from, void *at, int64_t bytes,
	       struct rt_error *err)
{
	static const char what[] = "bytes of one rank for all";
	struct rt_activity activity = { what, -1, -1,
		add_number(add_number(of_text(what), bytes), from) };
	bool mine = c->world.rank == from;
	struct rt_group *g;
	enum rt_status s = rt_group_find(c, -1, 0, &g, err);
	int64_t done, part;

	rt_comm_note(c, what, -1, -1);
	for (done = 0; s == RT_OK && done < bytes; done += part) {
		char *to = (char *)at + done;

		part = bytes - done < RT_MAIL_BYTES ? bytes - done
						    : RT_MAIL_BYTES;
		s = c->via->show(c, g, &activity, to, mine ? part : 0,
				 c->theirs, err);
		if (s == RT_OK && !mine) {
			memcpy(to, c->theirs[from], (size_t)part);
		}
	}
	return s;
}

enum rt_status
rt_comm_show_first(struct rt_comm *c, const struct rt_group *g, void *at,
		   int64_t bytes, struct rt_error *err)
{
	static const char what[] = "bytes of one rank for its group";
	struct rt_activity activity = { what, -1, -1,
		add_number(of_text(what), bytes) };
	struct rt_group *mine;
	enum rt_status s = rt_group_find(c, g->axes, g->holders, &mine, err);

	rt_comm_note(c, what, -1, -1);
	if (s == RT_OK) {
		s = c->via->show(c, mine, &activity, at, g->me == 0 ? bytes : 0,
				 c->theirs, err);
	}
	if (s == RT_OK && g->me != 0) {
		memcpy(at, c->theirs[0], (size_t)bytes);
	}
	return s;
}

enum rt_status
rt_comm_barrier(struct rt_comm *c, const char *what, struct rt_error *err)
{
	return combine_numbers(c, -1, MAX_I64, what, NULL, 0, err);
}

/* ---- opening and closing ---- */

static enum rt_status
check_world(const struct rt_comm_options *o, struct rt_error *err)
{
	const struct rt_world *w = &o->world;

	if (w->size != o->plan->nranks) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE,
			       "the plan is for %lld ranks, but there are %lld "
			       "(%s)", (long long)o->plan->nranks,
			       (long long)w->size, w->how);
	}
	return RT_OK;
}

/* Whether MPI connects the ranks that this launcher has started. torchrun does
 * not start MPI, nor does srun without PMIx or PMI. */
static bool
starts_mpi(const struct rt_world *w)
{
	return strcmp(w->how, "torchrun") != 0 &&
	       strcmp(w->how, "Slurm") != 0;
}

/* A rank that runs alone needs no transport. */
static enum rt_status
choose(const struct rt_comm_options *o, const struct rt_transport **via,
       struct rt_error *err)
{
	const struct rt_world *w = &o->world;
	bool several = w->local_size != w->size;
	const struct rt_msg_calls *mpi;
	enum rt_via by = o->via;

	if (several && by == RT_VIA_SHM) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE,
			       "%lld of %lld ranks are on this host: shared "
			       "memory does not reach the others, MPI and TCP "
			       "do", (long long)w->local_size,
			       (long long)w->size);
	}
	if (by == RT_VIA_AUTO && several) {
		by = rt_rendezvous_given(&o->variables) || !starts_mpi(w) ||
		     rt_mpi_calls_find(&mpi, NULL) != RT_OK ? RT_VIA_TCP
							    : RT_VIA_MPI;
	}
	*via = w->size == 1 ? &rt_shm : by == RT_VIA_TCP ? &rt_by_tcp :
	       by == RT_VIA_MPI ? &rt_by_mpi : &rt_shm;
	return RT_OK;
}

static enum rt_status
open_groups(struct rt_comm *c, struct rt_error *err)
{
	struct rt_group *g;
	enum rt_status s = RT_OK;
	int64_t i;

	for (i = 0; i < c->plan->ngroups && s == RT_OK; i++) {
		s = rt_group_find(c, c->plan->groups[i], 0, &g, err);
	}
	return s == RT_OK ? rt_group_find(c, -1, 0, &g, err) : s;
}

enum rt_status
rt_comm_open(struct rt_comm **out, const struct rt_comm_options *o,
	     int64_t arena_bytes, struct rt_error *err)
{
	const struct rt_transport *via = NULL;
	enum rt_status s = check_world(o, err);
	struct rt_comm *c;

	*out = NULL;
	if (s == RT_OK) {
		s = choose(o, &via, err);
	}
	if (s != RT_OK) {
		return s;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		return rt_no_memory(err, NULL);
	}
	c->plan = o->plan;
	c->queues = o->queues;
	c->world = o->world;
	c->timeout_us = o->timeout_s * 1e6;
	c->report_fd = o->report_fd;
	c->end_asked = o->end_asked;
	c->variables = o->variables;
	c->arena_bytes = arena_bytes;
	c->via = via;
	c->theirs = calloc((size_t)o->world.size, sizeof(*c->theirs));
	s = c->theirs ? c->via->open(c, err) : rt_no_memory(err, NULL);
	if (s == RT_OK) {
		s = open_groups(c, err);
	}
	if (s != RT_OK) {
		rt_comm_free(c);
		return s;
	}
	*out = c;
	return RT_OK;
}

void
rt_comm_free(struct rt_comm *c)
{
	int64_t i;

	if (!c) {
		return;
	}
	c->via->close(c);
	for (i = 0; i < c->ngroups; i++) {
		free(c->groups[i].ranks);
	}
	free(c->groups);
	free(c->theirs);
	free(c);
}

char *
rt_comm_arena(struct rt_comm *c)
{
	return c->arena;
}

void
rt_comm_abort(struct rt_comm *c, const char *why)
{
	c->via->abort(c, why);
}

/* How long ranks wait for rank 0 to say what they have found, too. */
#define ELDEST_US 2e5

static bool
is_same(const struct rt_comm *c, const struct rt_heard *h, const char *message)
{
	struct rt_line t = { "", 0 };

	rt_line_add(&t, "%s gave up: %s", rt_rank_text(c, h->rank).text,
		    h->why);
	return strcmp(message, h->why) == 0 || strcmp(message, t.at) == 0;
}

bool
rt_comm_is_news(struct rt_comm *c, const char *message)
{
	const struct rt_world *w = &c->world;
	double until = rt_now_us() + (w->rank > 0 ? ELDEST_US : 0);
	int64_t first = w->rank - w->local_rank;
	struct rt_heard h = { .rank = -1 };

	while (!c->via->heard(c, &h) && rt_now_us() < until) {
		poll(NULL, 0, 2);
	}
	if (h.rank < 0 || h.rank == w->rank || !h.said ||
	    !is_same(c, &h, message)) {
		return true;
	}
	/* of a rank of another host the first one here tells */
	return w->local_rank == 0 && (h.rank < first ||
				      h.rank >= first + w->local_size);
}

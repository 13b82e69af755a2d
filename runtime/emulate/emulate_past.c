/*
 * Which accesses each thread is ordered after: vector clocks. All threads that
 * came through the same barrier share one past, and each has its own clock
 * beside it; so a barrier of n threads costs n steps, not n squared.
 *
 * Flanagan, Freund, "FastTrack: efficient and precise dynamic race detection"
 * (PLDI 2009) for the idea of clocks in place of sets.
 */
#include "runtime/emulate/emulate_shadow.h"

#include <stdlib.h>
#include <string.h>

/* ---- pasts ---- */

static struct emu_past *
make_past(const struct emu_shadow *s)
{
	return malloc(sizeof(struct emu_past) +
		      (size_t)s->past_capacity * sizeof(uint32_t));
}

static struct emu_past *
new_past(struct emu_shadow *s)
{
	struct emu_past *p = s->free;

	if (p) {
		s->free = p->next;
	} else {
		p = make_past(s);
		if (!p) {
			emu_fail(emu_now, "out of memory");
		}
	}
	p->refs = 1;
	return p;
}

static void
drop_past(struct emu_shadow *s, struct emu_past **p)
{
	if (*p && --(*p)->refs == 0) {
		(*p)->next = s->free;
		s->free = *p;
	}
	*p = NULL;
}

static void
set_past(struct emu_shadow *s, struct emu_past **p, struct emu_past *to)
{
	to->refs++;
	drop_past(s, p);
	*p = to;
}

static void
merge_past(const struct emu_shadow *s, struct emu_past *to,
	   const struct emu_past *from)
{
	int i;

	for (i = 0; i < s->n; i++) {
		to->at[i] = to->at[i] > from->at[i] ? to->at[i]
			: from->at[i];
	}
}

/* Merges b into p.  Neighbouring threads ask for the same merge. */
static void
join_past(struct emu_shadow *s, struct emu_past **p, struct emu_past *b)
{
	struct emu_past *all;

	if (!b || *p == b) {
		return;
	}
	if (s->join_a == *p && s->join_b == b) {
		set_past(s, p, s->joined);
		return;
	}
	all = new_past(s);
	memcpy(all->at, (*p)->at, (size_t)s->n * sizeof all->at[0]);
	merge_past(s, all, b);
	set_past(s, &s->join_a, *p);
	set_past(s, &s->join_b, b);
	drop_past(s, &s->joined);
	s->joined = all;
	set_past(s, p, all);
}

/* ---- threads ---- */

/* Adds what a thread has done so far; its later accesses get a new clock. */
static void
grow_past(struct rt_emu *e, struct emu_grown *g, const struct emu_task *t)
{
	struct emu_shadow *s = e->shadow;
	struct emu_knower *k = emu_knower(e, t);

	if (!g->all) {
		g->all = new_past(s);
		memcpy(g->all->at, k->past->at,
		       (size_t)s->n * sizeof g->all->at[0]);
		set_past(s, &g->last, k->past);
	} else if (g->last != k->past) {
		merge_past(s, g->all, k->past);
		set_past(s, &g->last, k->past);
	}
	g->all->at[emu_index(e, t)] = k->clock++;
}

static void
reset_grown(struct emu_shadow *s, struct emu_grown *g)
{
	drop_past(s, &g->all);
	drop_past(s, &g->last);
}

/* ---- barriers ---- */

static struct emu_grown *
grown_of(struct rt_emu *e, const struct emu_barrier *x)
{
	const struct emu_block *b = e->now->block;

	return &e->shadow->bars[b - e->blocks][x - b->barriers];
}

void
emu_check_arrive(struct rt_emu *e, struct emu_barrier *x)
{
	if (e->shadow) {
		grow_past(e, grown_of(e, x), e->now);
	}
}

void
emu_check_join(struct rt_emu *e, struct emu_barrier *x, struct emu_task *t)
{
	if (e->shadow) {
		set_past(e->shadow, &emu_knower(e, t)->past,
			 grown_of(e, x)->all);
	}
}

void
emu_check_open(struct rt_emu *e, struct emu_barrier *x)
{
	int i;

	if (!e->shadow) {
		return;
	}
	for (i = 0; i < x->waiting; i++) {
		emu_check_join(e, x, x->who[i]);
	}
	reset_grown(e->shadow, grown_of(e, x));
}

void
emu_check_warp(struct rt_emu *e, struct emu_warp *w)
{
	struct emu_grown g = { NULL, NULL };
	int i;

	if (!e->shadow) {
		return;
	}
	for (i = 0; i < 32; i++) {
		grow_past(e, &g, &w->lanes[i]);
	}
	for (i = 0; i < 32; i++) {
		set_past(e->shadow, &emu_knower(e, &w->lanes[i])->past, g.all);
	}
	reset_grown(e->shadow, &g);
}

/* Threads of the next phase may arrive before all have left this one. */
void
emu_check_cluster(struct rt_emu *e, bool wait)
{
	struct emu_shadow *s = e->shadow;
	struct emu_task *t = e->now;
	unsigned phase = t->num[3] % 2;

	if (!s) {
		return;
	}
	if (wait) {
		join_past(s, &emu_knower(e, t)->past, s->cluster[phase].all);
		return;
	}
	if (e->cluster_arrived == 0) {
		reset_grown(s, &s->cluster[phase]);
	}
	grow_past(e, &s->cluster[phase], t);
}

/* ---- mbarriers ---- */

int
emu_copier(const struct rt_emu *e, const struct emu_mbar *m)
{
	return e->shadow->n - EMU_OTHERS + (int)(m->at / 8 % EMU_COPIERS);
}

int
emu_group(struct rt_emu *e, const struct emu_warp *w)
{
	return e->shadow->n - EMU_GROUPS +
		emu_index(e, w->lanes) / 128 % EMU_GROUPS;
}

uint32_t
emu_past_tick(struct rt_emu *e, int other)
{
	struct emu_shadow *s = e->shadow;

	return ++s->clocks[other - (s->n - EMU_OTHERS)];
}

uint32_t
emu_past_now(const struct rt_emu *e, int other)
{
	return e->shadow->clocks[other - (e->shadow->n - EMU_OTHERS)];
}

struct emu_past *
emu_past_hold(struct rt_emu *e, const struct emu_task *t)
{
	struct emu_past *p = emu_knower(e, t)->past;

	p->refs++;
	return p;
}

void
emu_past_drop(struct rt_emu *e, struct emu_past **p)
{
	drop_past(e->shadow, p);
}

void
emu_past_fenced(struct rt_emu *e, const struct emu_task *t,
		struct emu_fences *f)
{
	memmove(f->at + 1, f->at, sizeof f->at - sizeof f->at[0]);
	f->at[0] = emu_knower(e, t)->clock++;
}

void
emu_past_fence(struct rt_emu *e, const struct emu_task *t)
{
	struct emu_knower *k = emu_knower(e, t);

	set_past(e->shadow, &k->tensor_past, k->past);
}

void
emu_past_learn(struct rt_emu *e, struct emu_task *t, int other,
	       uint32_t clock)
{
	struct emu_shadow *s = e->shadow;
	struct emu_knower *k = emu_knower(e, t);
	struct emu_past *news;

	if (k->past->at[other] >= clock) {
		return;
	}
	/* the neighbouring thread's past, if that has just learnt the same */
	if (s->joined && s->join_a == k->past && !s->join_b &&
	    s->joined->at[other] == clock) {
		set_past(s, &k->past, s->joined);
		return;
	}
	news = new_past(s);
	memcpy(news->at, k->past->at, (size_t)s->n * sizeof news->at[0]);
	news->at[other] = clock;
	set_past(s, &s->join_a, k->past);
	drop_past(s, &s->join_b);
	drop_past(s, &s->joined);
	s->joined = news;
	set_past(s, &k->past, news);
}

static void
use_mbar(struct rt_emu *e, const struct emu_mbar *m, int block, int64_t i)
{
	struct emu_shadow *s = e->shadow;

	if (!emu_knows(e, e->now, s->made[block][i].who,
		       s->made[block][i].clock)) {
		emu_fail(e, "the mbarrier at %u is used with no barrier "
			 "after its mbar_init", m->at - EMU_SMEM_BASE);
	}
}

static void
begin_grown(struct emu_shadow *s, struct emu_grown *g)
{
	if (!g->all) {
		g->all = new_past(s);
		memset(g->all->at, 0, (size_t)s->n * sizeof g->all->at[0]);
	}
}

/* Its block, and its number there. */
static int
place_of(const struct rt_emu *e, const struct emu_mbar *m, int64_t *i)
{
	int block = 0;

	while (m < e->blocks[block].mbars ||
	       m >= e->blocks[block].mbars + EMU_MBARS) {
		block++;
	}
	*i = m - e->blocks[block].mbars;
	return block;
}

void
emu_past_products(struct rt_emu *e, struct emu_mbar *m,
		  const struct emu_past *p, int other)
{
	struct emu_shadow *s = e->shadow;
	int64_t i;
	int block = place_of(e, m, &i);
	struct emu_grown *g = &s->mbars[block][i];

	begin_grown(s, g);
	merge_past(s, g->all, p);
	g->all->at[other] = emu_past_now(e, other);
}

void
emu_check_mbar(struct rt_emu *e, struct emu_mbar *m, enum emu_mbar_event what)
{
	struct emu_shadow *s = e->shadow;
	struct emu_grown *g;
	int block, other;
	int64_t i;

	if (!s) {
		return;
	}
	block = place_of(e, m, &i);
	g = &s->mbars[block][i];
	switch (what) {
	case EMU_MBAR_INIT:
		reset_grown(s, g);
		drop_past(s, &s->over[block][i]);
		s->made[block][i].who = (uint16_t)emu_index(e, e->now);
		s->made[block][i].clock = emu_knower(e, e->now)->clock;
		break;
	case EMU_MBAR_ARRIVE:
		use_mbar(e, m, block, i);
		grow_past(e, g, e->now);
		break;
	case EMU_MBAR_LANDED:
		other = emu_copier(e, m);
		begin_grown(s, g);
		g->all->at[other] = emu_past_now(e, other);
		break;
	case EMU_MBAR_OPEN:
		drop_past(s, &s->over[block][i]);
		s->over[block][i] = g->all;
		g->all = NULL;
		reset_grown(s, g);
		break;
	case EMU_MBAR_WAIT:
		use_mbar(e, m, block, i);
		join_past(s, &emu_knower(e, e->now)->past, s->over[block][i]);
		break;
	}
}

void
emu_check_mbar_fence(struct rt_emu *e)
{
	struct emu_block *b = e->now->block;
	int i;

	for (i = 0; i < b->nmbars; i++) {
		b->mbars[i].fenced = true;
	}
}

/* ---- life cycle ---- */

static void
drop_knowers(struct emu_shadow *s)
{
	while (s->nknowers > 0) {
		s->nknowers--;
		drop_past(s, &s->knowers[s->nknowers].past);
		drop_past(s, &s->knowers[s->nknowers].tensor_past);
	}
}

void
emu_past_free(struct rt_emu *e)
{
	struct emu_shadow *s = e->shadow;
	struct emu_past *p;

	emu_past_start(e);
	p = NULL;
	drop_knowers(s);
	while (s->free) {
		p = s->free;
		s->free = p->next;
		free(p);
	}
	free(s->knowers);
	free(s->bars);
	free(s->mbars);
	free(s->over);
	free(s->made);
}

static enum rt_status
make_room(struct rt_emu *e, struct rt_error *err)
{
	struct emu_shadow *s = e->shadow;
	size_t n = (size_t)e->nblocks;

	if (e->nblocks > s->block_capacity) {
		free(s->bars);
		free(s->mbars);
		free(s->over);
		free(s->made);
		s->bars = calloc(n, sizeof *s->bars);
		s->mbars = calloc(n, sizeof *s->mbars);
		s->over = calloc(n, sizeof *s->over);
		s->made = calloc(n, sizeof *s->made);
		if (!s->bars || !s->mbars || !s->over || !s->made) {
			s->block_capacity = 0;
			return rt_no_memory(err, NULL);
		}
		s->block_capacity = e->nblocks;
	}
	return RT_OK;
}

/* Memory for the threads of the launch. */
enum rt_status
emu_past_open(struct rt_emu *e, struct rt_error *err)
{
	struct emu_shadow *s = e->shadow;
	int n = e->nblocks * (int)e->entry->threads;
	struct emu_knower *more;
	struct emu_past *p;

	emu_past_start(e);
	drop_knowers(s);
	if (make_room(e, err) != RT_OK) {
		return RT_NOMEM;
	}
	if (n + EMU_OTHERS > s->past_capacity) {
		while (s->free) {
			p = s->free;
			s->free = p->next;
			free(p);
		}
		s->past_capacity = n + EMU_OTHERS;
	}
	if (n > s->knower_capacity) {
		more = realloc(s->knowers, (size_t)n * sizeof *more);
		if (!more) {
			return rt_no_memory(err, NULL);
		}
		s->knowers = more;
		s->knower_capacity = n;
	}
	memset(s->knowers, 0, (size_t)n * sizeof *s->knowers);
	s->nknowers = n;
	s->n = n + EMU_OTHERS;
	/* the past that all threads begin with; made here, where failing is
	 * possible */
	if (!s->free) {
		s->free = make_past(s);
		if (!s->free) {
			return rt_no_memory(err, NULL);
		}
		s->free->next = NULL;
	}
	return RT_OK;
}

/* No thread is ordered after any other. */
void
emu_past_start(struct rt_emu *e)
{
	struct emu_shadow *s = e->shadow;
	struct emu_past *none;
	int i, j;

	for (i = 0; i < s->block_capacity; i++) {
		for (j = 0; j < EMU_BARRIERS; j++) {
			reset_grown(s, &s->bars[i][j]);
		}
		for (j = 0; j < EMU_MBARS; j++) {
			reset_grown(s, &s->mbars[i][j]);
			drop_past(s, &s->over[i][j]);
		}
	}
	reset_grown(s, &s->cluster[0]);
	reset_grown(s, &s->cluster[1]);
	drop_past(s, &s->join_a);
	drop_past(s, &s->join_b);
	drop_past(s, &s->joined);
	memset(s->clocks, 0, sizeof s->clocks);
	s->has_sums = false;
	if (s->nknowers == 0) {
		return;
	}
	none = new_past(s);
	memset(none->at, 0, (size_t)s->n * sizeof none->at[0]);
	for (i = 0; i < s->nknowers; i++) {
		set_past(s, &s->knowers[i].past, none);
		s->knowers[i].clock = 1;
		drop_past(s, &s->knowers[i].tensor_past);
		s->knowers[i].fenced = s->knowers[i].tensor_fenced =
			(struct emu_fences){ { 0 } };
		s->knowers[i].nsums = 0;
		memset(s->knowers[i].far, 0, sizeof s->knowers[i].far);
	}
	drop_past(s, &none);
}

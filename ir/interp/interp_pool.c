/*
 * What the machines of one run share: the allocation gate, the blocks that
 * hold values, and how long each value lives.
 */
#include "ir/interp/interp.h"

#include <string.h>

/* ---- the gate ---- */

static void *
gate_get(void *user, size_t bytes)
{
	struct ir_pool *p = user;

	return p->outer.get(p->outer.user, bytes);
}

static void
gate_put(void *user, void *at)
{
	struct ir_pool *p = user;

	p->outer.put(p->outer.user, at);
}

void
ir_pool_close(struct ir_pool *p)
{
	p->m->ctx->mem = p->outer;
	while (p->blocks) {
		struct interp_block *b = p->blocks;

		p->blocks = b->older;
		p->outer.put(p->outer.user, b);
	}
	arena_release(&p->own);
}

static void
gate_oom(void *user, size_t bytes)
{
	struct ir_pool *p = user;
	struct mem outer = p->outer;

	ir_pool_close(p);
	outer.oom(outer.user, bytes);
}

/* ---- blocks ---- */

bool
ir_pool_fits(struct ir_pool *p, struct span at, int64_t bytes)
{
	struct ir_ctx *c = p->m->ctx;
	struct buf b;

	/* no machine has more than the 2^40 bytes that an arena allows */
	if (bytes >= 0 && bytes <= (int64_t)1 << 40 &&
	    (p->max_bytes <= 0 || bytes <= p->max_bytes - p->held_bytes)) {
		return true;
	}
	buf_init(&b, &c->tmp);
	buf_puts(&b, "evaluating this takes ");
	if (bytes >= 0) {
		buf_grouped(&b, bytes);
	} else {
		buf_puts(&b, "more than 2^63");
	}
	buf_puts(&b, " bytes more, ");
	buf_grouped(&b, p->held_bytes);
	buf_puts(&b, " are held, and the limit is ");
	buf_grouped(&b, p->max_bytes > 0 ? p->max_bytes : (int64_t)1 << 40);
	buf_puts(&b, p->max_bytes > 0 ? ": --max-bytes sets another" : "");
	diag_error(&c->diags, at, "%s", buf_text(&b));
	return false;
}

static struct interp_block *
new_block(struct ir_pool *p, struct span at, int64_t elems)
{
	struct interp_block *b;
	int64_t bytes;
	size_t all;

	if (!num_mul(elems, (int64_t)sizeof *b->data, &bytes)) {
		bytes = -1;
	}
	if (!ir_pool_fits(p, at, bytes)) {
		return NULL;
	}
	all = sizeof *b + (p->needs ? 0 : (size_t)bytes);
	b = p->outer.get(p->outer.user, all);
	if (!b) {
		gate_oom(p, all);
		die("the oom hook returned");
	}
	b->bytes = bytes;
	b->refs = 1;
	b->newer = NULL;
	b->older = p->blocks;
	if (b->older) {
		b->older->newer = b;
	}
	p->blocks = b;
	p->held_bytes += bytes;
	return b;
}

void
ir_pool_drop(struct ir_pool *p, struct interp_block *b)
{
	if (--b->refs > 0) {
		return;
	}
	if (b->newer) {
		b->newer->older = b->older;
	} else {
		p->blocks = b->older;
	}
	if (b->older) {
		b->older->newer = b->newer;
	}
	p->held_bytes -= b->bytes;
	p->outer.put(p->outer.user, b);
}

double *
ir_pool_get(struct ir_pool *p, struct span at, int64_t elems)
{
	struct interp_block *b = new_block(p, at, elems);

	return b ? b->data : NULL;
}

void
ir_pool_put(struct ir_pool *p, double *data)
{
	ir_pool_drop(p, (struct interp_block *)(void *)((char *)data -
			offsetof(struct interp_block, data)));
}

/* ---- how long values live ---- */

#define KEEP UINT32_MAX	/* it lives as long as its region runs */

/*
 * The node that is scanned, by region, and the last use of each value so far.
 */
struct lives {
	node_id *now, *last;
};

/*
 * A use in a repeat of a value from outside counts as a use by the repeat: the
 * next iteration needs the value again.
 */
static void
use(const struct ir_pool *p, struct lives *l, value_id v)
{
	if (l->last[v] != KEEP) {
		l->last[v] = l->now[p->home[v]];
	}
}

static void
scan_region(struct ir_pool *p, struct lives *l, region_id id)
{
	const struct ir_module *m = p->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < r->params.n; i++) {
		p->home[r->params.at[i]] = id;
		l->last[r->params.at[i]] = 0;	/* until the region ends */
	}
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		l->now[id] = r->nodes.at[i];
		for (k = 0; k < n->nargs; k++) {
			use(p, l, ir_args(m, n)[k]);
		}
		if (n->region) {
			scan_region(p, l, n->region);
		}
		for (k = 0; k < n->nresults; k++) {
			p->home[n->result + k] = id;
			use(p, l, n->result + k);
		}
	}
	for (i = 0; i < r->results.n; i++) {
		value_id v = r->results.at[i];

		use(p, l, v);
		if (p->home[v] == id) {
			l->last[v] = KEEP;
		}
	}
}

static void
scan_lives(struct ir_pool *p)
{
	const struct ir_module *m = p->m;
	struct arena *a = &p->own;
	struct lives l;
	uint32_t i;

	p->home = arena_alloc(a, m->values.n * sizeof *p->home);
	p->next_dead = arena_alloc(a, m->values.n * sizeof *p->next_dead);
	p->first_dead = arena_alloc(a, m->nodes.n * sizeof *p->first_dead);
	l.last = arena_alloc(a, m->values.n * sizeof *l.last);
	l.now = arena_alloc(a, m->regions.n * sizeof *l.now);
	for (i = 1; i < m->funcs.n; i++) {
		scan_region(p, &l, m->funcs.at[i].body);
	}
	for (i = 1; i < m->values.n; i++) {
		if (l.last[i] && l.last[i] != KEEP) {
			p->next_dead[i] = p->first_dead[l.last[i]];
			p->first_dead[l.last[i]] = i;
		}
	}
}

void
ir_pool_open(struct ir_pool *p, struct ir_module *m, int64_t max_bytes)
{
	memset(p, 0, sizeof *p);
	p->m = m;
	p->max_bytes = max_bytes;
	p->outer = m->ctx->mem;
	m->ctx->mem = (struct mem){ gate_get, gate_put, gate_oom, p };
	arena_init(&p->own, &m->ctx->mem);
	scan_lives(p);
}

/* ---- machines ---- */

struct interp_block *
ir_interp_get(struct interp *e, const struct ir_node *n, int64_t elems)
{
	return new_block(e->pool, n->span, elems);
}

void
ir_interp_put(struct interp *e, struct interp_block *b)
{
	ir_pool_drop(e->pool, b);
}

struct interp_block *
ir_interp_hold(const struct interp *e, value_id v)
{
	e->slot[v]->refs++;
	return e->slot[v];
}

struct interp *
ir_machine_new(struct ir_pool *p, const struct ir_eval_options *opt,
	       const struct ir_rank *rank)
{
	struct interp *e = arena_alloc(&p->own, sizeof *e);

	e->m = p->m;
	e->pool = p;
	e->opt = opt;
	e->rank = rank;
	e->at = rank ? rank->at : NULL;
	e->slot = arena_alloc(&p->own, p->m->values.n * sizeof *e->slot);
	buf_init(&e->name, &p->own);
	buf_init(&e->full, &p->own);
	buf_init(&e->path, &p->own);
	return e;
}

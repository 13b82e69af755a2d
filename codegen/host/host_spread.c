/*
 * Tables of the positions of dims that ranks have; and classes of ranks.
 * Kernels are emitted for sizes: ranks at one place of the pipeline whose
 * pieces differ in size, as where a degree does not divide a dim, run kernels
 * of their own.
 */
#include "codegen/host/host.h"

#include <string.h>

static bool
has_time(const struct cg_code *c, uint32_t cut)
{
	for (; cut; cut >>= 4) {
		if ((cut & 15) == c->r->time) {
			return true;
		}
	}
	return false;
}

uint32_t
host_add_spread(struct cg_code *c, int64_t size, uint32_t cut)
{
	struct host_spread s = { size, cut, has_time(c, cut) };
	uint32_t i;

	for (i = 0; i < c->spreads.n; i++) {
		const struct host_spread *had = &c->spreads.at[i];

		if (had->size == size && had->cut == cut) {
			return i;
		}
	}
	if (c->spread_data) {
		die("a spread of %lld that no type has", (long long)size);
	}
	VEC_PUSH(c->a, &c->spreads, s);
	return i;
}

struct ll_value *
host_spread_at(struct cg_code *c, uint32_t number)
{
	return ll_data_at(c->ll, c->spread_data, (uint32_t)
			  (number * HOST_WORDS(struct rt_spread)));
}

struct ll_value *
host_spreads_of(struct cg_code *c, const struct ir_type *t)
{
	struct ll_value **w = host_words(c, t->ndims);
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		w[i] = host_spread_at(c, host_add_spread(c,
			ir_dim_size(c->m, t->dims[i]), t->cut[i]));
	}
	return host_data(c, w, t->ndims);
}

uint32_t
host_coordinate(struct cg_code *c, axis_id a)
{
	const struct ir_axis *x = &c->m->axes.at[a];

	/* a balanced axis cuts a dim into twice as many parts */
	return host_add_spread(c, x->balanced ? 2 * x->size : x->size, a);
}

/* ---- as data ---- */

void
host_pieces_of(const struct cg_code *c, int64_t size, uint32_t cut,
	    uint32_t rank, uint32_t microbatch, struct rt_pieces *out)
{
	uint32_t at[IR_MAX_AXES + 1], i;
	struct ir_pieces p;

	ranks_at(c->r, rank, at);
	at[c->r->time] = c->r->time ? microbatch : 0;
	ir_pieces(c->m, size, cut, at, &p);
	memset(out, 0, sizeof *out);
	out->n = p.n;
	out->total = p.total;
	for (i = 0; i < p.n; i++) {
		out->at[i].start = p.at[i].start;
		out->at[i].count = p.at[i].count;
	}
}

static struct ll_value *
pieces_data(struct cg_code *c, const struct host_spread *s)
{
	uint32_t times = s->by_time ? c->r->nmicrobatches : 1, rank, t;
	size_t size = HOST_WORDS(struct rt_pieces);
	int64_t *w = arena_alloc(c->a, c->r->nranks * times * size * 8);
	struct rt_pieces p;

	for (rank = 0; rank < c->r->nranks; rank++) {
		for (t = 0; t < times; t++) {
			host_pieces_of(c, s->size, s->cut, rank, t, &p);
			memcpy(w + (rank * times + t) * size, &p, sizeof p);
		}
	}
	return ll_table(c->ll, w, (uint32_t)(c->r->nranks * times * size));
}

uint32_t
host_experts_cut(const struct ir_module *m, const struct ir_node *n)
{
	const struct ir_attr *on = ir_attr(m, n, IR_ATTR_ON);
	uint32_t cut = 0, i;

	for (i = 0; i < on->ndims; i++) {
		cut |= (uint32_t)on->dims[i] << 4 * i;
	}
	return cut;
}

static void
find_experts(struct cg_code *c, value_id v)
{
	const struct ir_node *n = ir_node(c->m, c->m->values.at[v].node);
	const struct ir_type *index;

	if (c->m->values.at[v].node && n->op == IR_COMBINE) {
		index = ir_type(c->m, ir_args(c->m, n)[1]);
		host_add_spread(c, ir_dim_size(c->m, index->of),
			    host_experts_cut(c->m, n));
	}
}

/* Those of all types of the program. */
static void
find_all(struct cg_code *c)
{
	value_id v;
	uint32_t i;

	for (v = 1; v < c->m->values.n; v++) {
		const struct ir_type *t = ir_type(c->m, v);

		for (i = 0; i < t->ndims; i++) {
			host_add_spread(c, ir_dim_size(c->m, t->dims[i]),
				    t->cut[i]);
		}
		find_experts(c, v);
	}
}

void
host_spread_data(struct cg_code *c)
{
	size_t size = HOST_WORDS(struct rt_spread);
	struct ll_value **w, **x;
	uint32_t i;

	find_all(c);
	w = host_words(c, c->spreads.n * size);
	for (i = 0; i < c->spreads.n; i++) {
		const struct host_spread *s = &c->spreads.at[i];

		x = w + i * size;
		HOST_SET(x, struct rt_spread, size, ll_i64(c->ll, s->size));
		HOST_SET(x, struct rt_spread, by_time,
			 ll_i64(c->ll, s->by_time));
		HOST_SET(x, struct rt_spread, at, pieces_data(c, s));
	}
	c->spread_data = ll_data(c->ll, NULL, w,
				 (uint32_t)(c->spreads.n * size));
}

/* ---- classes ---- */

struct sizes {
	struct cg_code *c;
	struct {
		int64_t size;
		uint32_t cut;
	} *at;
	uint32_t n, cap;
};

static void
note_type(struct sizes *s, const struct ir_type *t)
{
	uint32_t i, k;

	for (i = 0; i < t->ndims; i++) {
		int64_t size = ir_dim_size(s->c->m, t->dims[i]);

		for (k = 0; k < s->n && (s->at[k].size != size ||
					 s->at[k].cut != t->cut[i]); k++) {
		}
		if (k < s->n || !t->cut[i]) {
			continue;
		}
		if (s->n == s->cap) {
			s->at = arena_grow(s->c->a, s->at,
					   s->cap * sizeof *s->at,
					   (2 * s->cap + 8) * sizeof *s->at);
			s->cap = 2 * s->cap + 8;
		}
		s->at[s->n].size = size;
		s->at[s->n++].cut = t->cut[i];
	}
}

/* Notes the types of all nodes of a region. */
static void
note_region(struct sizes *s, region_id id)
{
	const struct ir_module *m = s->c->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		for (k = 0; k < n->nresults; k++) {
			note_type(s, ir_type(m, n->result + k));
		}
		if (n->region) {
			note_region(s, n->region);
		}
	}
}

static void
note_pipe(struct sizes *s, uint32_t pipe)
{
	const struct ranks *r = s->c->r;
	uint32_t i, k;

	for (i = 0; i < r->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			if (r->sched->rank_of[i] == pipe &&
			    r->of_stage[i][k]) {
				note_region(s, s->c->m->funcs.at[
					    r->of_stage[i][k]].body);
			}
		}
	}
	if (r->update[pipe]) {
		note_region(s, s->c->m->funcs.at[r->update[pipe]].body);
	}
}

static int64_t
total(const struct sizes *s, uint32_t k, const uint32_t *at)
{
	struct ir_pieces p;

	ir_pieces(s->c->m, s->at[k].size, s->at[k].cut, at, &p);
	return p.total;
}

static bool
alike(const struct sizes *s, const uint32_t *a, const uint32_t *b)
{
	uint32_t k;

	for (k = 0; k < s->n && total(s, k, a) == total(s, k, b); k++) {
	}
	return k == s->n;
}

/* Checks that the rank's sizes are the same in all microbatches. */
static bool
even_in_time(const struct sizes *s, const uint32_t *rank)
{
	static const struct span nowhere;
	struct cg_code *c = s->c;
	uint32_t at[IR_MAX_AXES + 1], k;

	memcpy(at, rank, sizeof at);
	for (k = 0; c->r->time && k < s->n; k++) {
		int64_t first, last;

		at[c->r->time] = 0;
		first = total(s, k, at);
		at[c->r->time] = c->r->nmicrobatches - 1;
		last = total(s, k, at);
		if (first != last) {
			diag_error(&c->m->ctx->diags, nowhere, "code for "
				   "microbatches of different sizes is not "
				   "compiled yet: %u of %lld leave %lld in "
				   "the last and %lld in the others",
				   c->r->nmicrobatches,
				   (long long)s->at[k].size, (long long)last,
				   (long long)first);
			return false;
		}
	}
	return true;
}

/* Multiprocessors that every device of the program has. */
static int64_t
least_units(const struct target_group *g)
{
	int64_t units = g->device.units;
	uint32_t i;

	for (i = 0; i < g->nof; i++) {
		int64_t here = g->of[i]->device.units;

		units = here < units ? here : units;
	}
	return units;
}

static void
new_class(struct cg_code *c, uint32_t pipe, uint32_t number,
	  const uint32_t *at)
{
	struct host_class k = { .c = c, .pipe = pipe, .number = number };

	memcpy(k.at, at, sizeof k.at);
	k.cpu = (struct cg_cpu){ .m = c->m, .ll = c->ll, .a = c->a,
				 .apart = c->apart,
				 .panels = c->panels };
	memcpy(k.cpu.at, at, sizeof k.cpu.at);
	k.cuda = (struct cg_cuda){ .m = c->m, .a = c->a, .arch = c->arch,
				   .apart = c->apart,
				   .units = least_units(c->in.target),
				   .tiling = c->tiling };
	memcpy(k.cuda.at, at, sizeof k.cuda.at);
	VEC_PUSH(c->a, &c->classes, k);
}

static bool
classes_of(struct cg_code *c, uint32_t pipe)
{
	struct sizes s = { .c = c };
	uint32_t first = c->classes.n, rank, k, at[IR_MAX_AXES + 1];

	note_pipe(&s, pipe);
	for (rank = 0; rank < c->r->nranks; rank++) {
		if (ranks_pipe(c->r, rank) != pipe) {
			continue;
		}
		ranks_at(c->r, rank, at);
		if (!even_in_time(&s, at)) {
			return false;
		}
		for (k = first; k < c->classes.n; k++) {
			if (alike(&s, at, c->classes.at[k].at)) {
				break;
			}
		}
		if (k == c->classes.n) {
			new_class(c, pipe, k - first, at);
		}
		c->class_of[rank] = k;
	}
	return true;
}

bool
host_find_classes(struct cg_code *c)
{
	uint32_t pipe;

	c->class_of = arena_alloc(c->a, c->r->nranks * sizeof *c->class_of);
	for (pipe = 0; pipe < c->r->npipes; pipe++) {
		if (!classes_of(c, pipe)) {
			return false;
		}
	}
	return true;
}

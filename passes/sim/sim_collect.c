/*
 * Assembles whole tensors from what the ranks have: pieces by their positions,
 * and partial sums added in the order of ranks. Elements that several ranks
 * have must be equal to the last bit.
 */
#include "passes/sim/sim_parts.h"

#include <string.h>

static const struct span nowhere = { 0, 0 };

/* A tensor while it is assembled. */
struct whole {
	struct sim *s;
	const char *name;
	struct ir_type type;	/* with its placements */
	int64_t elems;
	double *sum;		/* of the partial sums so far */
	double *part;		/* the partial sum being assembled */
	double *from;		/* by element of `part`: 1 + its rank, or 0 */
};

/*
 * The number of the partial sum that a rank has: its coordinates on the axes of
 * the sum.
 */
static uint64_t
part_of(const struct whole *w, const uint32_t *at)
{
	uint64_t part = 0;
	axis_id a;

	for (a = 1; a < w->s->m->axes.n; a++) {
		if (w->type.sum >> (a - 1) & 1) {
			part = part * (uint64_t)w->s->m->axes.at[a].size +
			       at[a];
		}
	}
	return part;
}

static uint64_t
count_parts(const struct whole *w)
{
	uint64_t n = 1;
	axis_id a;

	for (a = 1; a < w->s->m->axes.n; a++) {
		if (w->type.sum >> (a - 1) & 1) {
			n *= (uint64_t)w->s->m->axes.at[a].size;
		}
	}
	return n;
}

static bool
open_whole(struct whole *w, struct sim *s, const char *name,
	   const struct ir_type *t)
{
	struct ir_local all;

	w->s = s;
	w->name = name;
	w->type = *t;
	ir_local(s->m, t, NULL, &all);
	w->elems = all.elems;
	w->sum = ir_pool_get(&s->pool, nowhere, 3 * all.elems);
	if (!w->sum) {
		return false;
	}
	w->part = w->sum + all.elems;
	w->from = w->part + all.elems;
	memset(w->sum, 0, (size_t)all.elems * sizeof *w->sum);
	return true;
}

/*
 * Adds a rank's elements to the partial sum; those already there must be equal.
 */
static bool
add_piece(struct whole *w, const struct sim_part *p)
{
	struct sim *s = w->s;
	struct ir_local l;
	int64_t i, at;

	ir_local(s->m, &w->type, p->at, &l);
	for (i = 0; i < l.elems; i++) {
		at = ir_local_at(&l, i);
		if (w->from[at] == 0) {
			w->part[at] = p->data[i];
			w->from[at] = p->rank + 1.0;
		} else if (memcmp(&w->part[at], &p->data[i],
				  sizeof p->data[i]) != 0) {
			diag_error(s->diags, nowhere, "`%s` of type %s is to "
				   "be the same on %s and on rank %u, and "
				   "element %lld is %.17g and %.17g", w->name,
				   ir_type_text(s->m, &w->type),
				   ranks_text(s->r, p->rank),
				   (unsigned)w->from[at] - 1, (long long)at,
				   p->data[i], w->part[at]);
			return false;
		}
	}
	return true;
}

/* Assembles each partial sum in turn, and adds it up. */
static bool
add_pieces(struct whole *w, const struct sim_part *p, uint32_t n)
{
	uint64_t parts = count_parts(w), k;
	uint32_t i;
	int64_t at;

	for (k = 0; k < parts; k++) {
		memset(w->part, 0, (size_t)(2 * w->elems) * sizeof *w->part);
		for (i = 0; i < n; i++) {
			if (part_of(w, p[i].at) == k && !add_piece(w, &p[i])) {
				return false;
			}
		}
		for (at = 0; at < w->elems; at++) {
			if (w->from[at] == 0) {
				diag_error(w->s->diags, nowhere, "no rank has "
					   "element %lld of `%s`, %s",
					   (long long)at, w->name,
					   ir_type_text(w->s->m, &w->type));
				return false;
			}
			w->sum[at] += w->part[at];
		}
	}
	return true;
}

static struct ir_type
unplaced(const struct ir_type *t)
{
	struct ir_type u = *t;

	u.sum = u.routed = 0;
	memset(u.cut, 0, sizeof u.cut);
	return u;
}

/* Copies the tensor for the caller; the memory of t is used again each step. */
static void
deliver(const struct whole *w, struct sim_tensor *t)
{
	struct arena *perm = &w->s->m->ctx->perm;

	if (!t->data) {
		t->name = arena_strndup(perm, w->name, strlen(w->name));
		t->data = arena_alloc(perm, (size_t)w->elems *
					    sizeof *t->data);
	}
	t->type = unplaced(&w->type);
	t->elems = w->elems;
	memcpy(t->data, w->sum, (size_t)w->elems * sizeof *t->data);
}

/* ---- what the last stage returned ---- */

static bool
collect_results(struct sim *s)
{
	func_id f = s->r->of_stage[s->r->nstages - 1][SCHED_F];
	const struct ir_region *r = &s->m->regions.at[s->m->funcs.at[f].body];
	struct sim_result *out = s->out;
	struct whole w;
	uint32_t i, j;

	if (!f) {
		return true;
	}
	if (!out->results) {
		out->results = arena_alloc(&s->m->ctx->perm, r->results.n *
					   sizeof *out->results);
		out->nresults = r->results.n;
	}
	for (i = 0; i < r->results.n; i++) {
		const char *name = arena_printf(&s->m->ctx->tmp,
						"result[%u]", i);

		if (!open_whole(&w, s, name,
				ir_type(s->m, r->results.at[i])) ||
		    !add_pieces(&w, s->parts[i].at, s->parts[i].n)) {
			return false;
		}
		deliver(&w, &out->results[i]);
		ir_pool_put(&s->pool, w.sum);
		for (j = 0; j < s->parts[i].n; j++) {
			ir_pool_put(&s->pool, s->parts[i].at[j].data);
		}
		s->parts[i].n = 0;
	}
	return true;
}

/* ---- stored tensors and gradients ---- */

/* Lists the pieces of a tensor on one pipeline rank; returns how many. */
static uint32_t
pieces_on(struct sim *s, uint32_t pipe, uint32_t number, bool gradient,
	  struct sim_part *parts, struct ir_type *t)
{
	uint32_t i, n = 0;

	for (i = 0; i < s->r->nranks; i++) {
		const struct sim_rank *k = &s->ranks[i];
		const struct sim_cell *c;

		if (k->pipe != pipe || k->cells.n <= number) {
			continue;
		}
		c = &k->cells.at[number];
		parts[n].data = gradient ? c->gradient
			: c->next ? c->next : c->now;
		if (!parts[n].data) {
			continue;
		}
		*t = gradient ? c->gradient_type : c->type;
		parts[n].rank = i;
		ranks_at(s->r, i, parts[n++].at);
	}
	return n;
}

/*
 * Joins a tensor that several pipeline ranks hold: gradients are added,
 * anything else must be equal.
 */
static bool
join(struct whole *all, const struct whole *w, bool gradient)
{
	int64_t i;

	for (i = 0; i < w->elems; i++) {
		if (gradient) {
			all->sum[i] += w->sum[i];
		} else if (memcmp(&all->sum[i], &w->sum[i],
				  sizeof w->sum[i]) != 0) {
			diag_error(w->s->diags, nowhere, "`%s` is to be the "
				   "same on all stages that hold it, and "
				   "element %lld is %.17g and %.17g", w->name,
				   (long long)i, all->sum[i], w->sum[i]);
			return false;
		}
	}
	return true;
}

/* Assembles one tensor from all ranks; *some: a rank has a piece of it. */
static bool
collect_one(struct sim *s, uint32_t number, bool gradient,
	    struct sim_part *parts, struct whole *all, bool *some)
{
	struct ir_type t = { 0 };
	struct whole w;
	uint32_t pipe, n;

	*some = false;
	for (pipe = 0; pipe < s->r->npipes; pipe++) {
		n = pieces_on(s, pipe, number, gradient, parts, &t);
		if (n == 0) {
			continue;
		}
		if (!open_whole(&w, s, s->names.at[number], &t) ||
		    !add_pieces(&w, parts, n) ||
		    (*some && !join(all, &w, gradient))) {
			return false;
		}
		if (*some) {
			ir_pool_put(&s->pool, w.sum);
		} else {
			*all = w;
			*some = true;
		}
	}
	return true;
}

/* The caller's tensor of that name, new in the first step. */
static struct sim_tensor *
tensor_of(struct sim *s, const char *name, bool gradient)
{
	struct sim_result *out = s->out;
	const struct sim_tensor *t = gradient ? sim_gradient(out, name)
					      : sim_stored(out, name);

	if (t) {
		return (struct sim_tensor *)t;
	}
	if (gradient) {
		VEC_PUSH(&s->m->ctx->perm, &out->gradients,
			 (struct sim_tensor){ 0 });
		return &out->gradients.at[out->gradients.n - 1];
	}
	VEC_PUSH(&s->m->ctx->perm, &out->stored, (struct sim_tensor){ 0 });
	return &out->stored.at[out->stored.n - 1];
}

bool
sim_collect(struct sim *s)
{
	struct sim_part *parts = s->pieces;
	struct whole w;
	uint32_t i, gradient;
	bool some;

	if (!collect_results(s)) {
		return false;
	}
	for (i = 0; i < s->names.n; i++) {
		for (gradient = 0; gradient < 2; gradient++) {
			if (!collect_one(s, i, gradient, parts, &w, &some)) {
				return false;
			}
			if (some) {
				deliver(&w, tensor_of(s, w.name, gradient));
				ir_pool_put(&s->pool, w.sum);
			}
		}
	}
	return true;
}

static const struct sim_tensor *
find(const struct sim_tensor *t, uint32_t n, const char *name)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (strcmp(t[i].name, name) == 0) {
			return &t[i];
		}
	}
	return NULL;
}

const struct sim_tensor *
sim_gradient(const struct sim_result *r, const char *name)
{
	return find(r->gradients.at, r->gradients.n, name);
}

const struct sim_tensor *
sim_stored(const struct sim_result *r, const char *name)
{
	return find(r->stored.at, r->stored.n, name);
}

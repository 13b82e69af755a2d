/*
 * How a thread loads and stores several consecutive elements at once: vectors
 * of 16 bytes, if elements are contiguous and aligned.  Rows that lie apart may
 * end inside of a vector: it is loaded whole, with what is between the rows,
 * and its lanes that have no element compute and store nothing.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#include <string.h>

/* ---- whether elements lie on whole vectors ---- */

static int64_t
memory_bytes(const struct cu_emit *e, uint32_t memory)
{
	return cu_elem_bytes((enum ir_dtype)e->n->memory.at[memory].dtype);
}

/* What a first index is a multiple of. */
static int64_t
from_unit(const struct cu_emit *e, int64_t i)
{
	int64_t unit = i < 8 ? e->box->unit[i] : 0;

	return unit ? unit : 1;
}

/* The type of an operand. */
static const struct ir_type *
operand_type(const struct cu_emit *e, const struct nest_memory *m)
{
	const struct ir_module *mod = e->n->in.m;

	return ir_type(mod, m->sink ? ir_args(mod, ir_node(mod, m->sink))[0]
				    : m->value);
}

/* Alignment of a memory, in bytes. */
static int64_t
begins_on(const struct cu_emit *e, uint32_t memory)
{
	const struct nest_memory *m = &e->n->memory.at[memory];
	struct ir_module *mod = e->n->in.m;
	const struct ir_type *t;
	int64_t bytes, size;
	uint32_t i;

	switch (m->where) {
	case NEST_OPERAND:
		/* layers follow each other, so an operand is aligned to its own
		 * size */
		t = operand_type(e, m);
		bytes = memory_bytes(e, memory);
		for (i = 0; i < t->ndims; i++) {
			size = nest_local_size(e->n, t->dims[i], t->cut[i]);
			bytes *= i + 1 < t->ndims ? size
				: cg_row_pitch(mod, e->n->in.apart, m->value,
					       size);
		}
		return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : 4;
	case NEST_TEMP:
		return 16;
	case NEST_LEAF:
		return e->box->leaves.at[m->i].bytes;
	default:
		return 0;
	}
}

/* Whether n lanes along the loop are contiguous and aligned for vectors,
 * wherever the loop ends. */
static bool
is_contiguous(const struct cu_emit *e, nest_id place, uint32_t memory,
	     uint32_t loop, uint32_t n)
{
	int64_t bytes = memory_bytes(e, memory), unit = n, on;
	struct nest_affine a;
	uint32_t i;

	cu_affine(e, place, &a);
	on = bytes * n < 16 ? bytes * n : 16;
	unit = on / bytes > 0 ? on / bytes : 1;
	if (a.coef[loop] != 1 || begins_on(e, memory) < on ||
	    begins_on(e, memory) % on != 0 || bytes * n < 4 ||
	    a.base % unit != 0) {
		return false;
	}
	for (i = 0; i < e->n->loops.n; i++) {
		if (i != loop && e->index[i] && a.coef[i] % unit != 0) {
			return false;
		}
	}
	for (i = 0; i < a.nrest; i++) {
		const struct nest_expr *x = nest_at(e->n, a.rest[i].e);
		int64_t by = x->op == NEST_FROM ? from_unit(e, x->i) : 1;

		if (x->loops >> loop & 1 || a.rest[i].scale * by % unit != 0) {
			return false;
		}
	}
	return true;
}

/* Whether the loop is over whole rows that lie so far apart that n lanes from
 * the last ones on are still in the row's memory. */
static bool
covers_tail(const struct cu_emit *e, nest_id place, uint32_t memory,
	    uint32_t loop, uint32_t n)
{
	const struct nest_memory *m = &e->n->memory.at[memory];
	int64_t size = cu_loop_size(e, loop), row;
	const struct ir_type *t;
	struct nest_affine a;

	cu_affine(e, place, &a);
	if (m->where != NEST_OPERAND || a.base != 0 || a.nrest > 0) {
		return false;
	}
	t = operand_type(e, m);
	row = t->ndims ? nest_local_size(e->n, t->dims[t->ndims - 1],
					 t->cut[t->ndims - 1]) : 1;
	return row == size && is_contiguous(e, place, memory, loop, n) &&
	       cg_row_pitch(e->n->in.m, e->n->in.apart, m->value, row) >=
	       (size + n - 1) / n * n;
}

/* Whether n lanes along the loop are loaded and stored as vectors. */
static bool
side_by_side(const struct cu_emit *e, nest_id place, uint32_t memory,
	     uint32_t loop, uint32_t n)
{
	return e->whole && cu_loop_size(e, loop) % n != 0
		? covers_tail(e, place, memory, loop, n)
		: is_contiguous(e, place, memory, loop, n);
}

/* Whether lanes of the last vector may have no element. */
static bool
has_tail(const struct cu_emit *e)
{
	return e->lanes > 1 && e->whole &&
	       cu_loop_size(e, e->vec) % e->lanes != 0;
}

bool
cu_is_vector(const struct cu_emit *e, nest_id load, uint32_t loop,
	     uint32_t lanes)
{
	const struct nest_expr *x = nest_at(e->n, load);

	return side_by_side(e, x->a, x->ref, loop, lanes);
}

/* ---- how many lanes ---- */

struct lane_search {
	struct cu_emit *e;
	uint8_t *seen;
	uint32_t loop;
	int64_t widest;	/* bytes of the widest element accessed by vectors */
	/* something that changes along the loop has no vector at its end */
	bool cut;
};

static bool
changes_along(const struct cu_emit *e, nest_id place, uint32_t loop)
{
	return nest_at(e->n, place)->loops >> loop & 1;
}

static void
search_access(struct lane_search *x, nest_id place, uint32_t memory)
{
	int64_t bytes = memory_bytes(x->e, memory);

	if (is_contiguous(x->e, place, memory, x->loop,
			  bytes < 4 ? 4 : (uint32_t)(16 / bytes)) &&
	    x->widest < bytes) {
		x->widest = bytes;
	}
	x->cut |= changes_along(x->e, place, x->loop) &&
		  (bytes > 4 || !covers_tail(x->e, place, memory, x->loop,
					     bytes < 4 ? 8 : 4));
}

static void
search(struct lane_search *x, nest_id id)
{
	const struct nest_expr *p = nest_at(x->e->n, id);
	struct nest_affine a;
	uint32_t i;

	if (!id || x->seen[id] || x->e->scope.made[id]) {
		return;
	}
	x->seen[id] = 1;
	if (p->op == NEST_LOAD) {
		search_access(x, p->a, p->ref);
		nest_affine(x->e->n, p->a, &a);
		for (i = 0; i < a.nrest; i++) {
			search(x, a.rest[i].e);
		}
		return;
	}
	if (p->over) {
		return;
	}
	search(x, p->a);
	search(x, p->b);
	search(x, p->c);
}

static int64_t
live_unit(const struct cu_emit *e, uint32_t loop)
{
	int box = e->n->loops.at[loop].box;
	int64_t count = cu_loop_size(e, loop);

	if (e->whole || box < 0) {
		return count;
	}
	if (e->box->count[box]) {
		count = e->box->count[box];
	}
	/* the rest of a dim that is divided into such units */
	if (e->box->live[box]) {
		int64_t all = nest_local_size(e->n, e->box->space.dims[box],
					      e->box->space.cut[box]);

		return e->box->unit[box] == 0 || all % 4 != 0 ||
		       count % 4 != 0 ? 1 : all % 8 != 0 ? 4 : count;
	}
	return count;
}

uint32_t
cu_best_lanes(struct cu_emit *e, const nest_id *of, uint32_t nof,
	      const uint32_t *roots, uint32_t nroots, uint32_t loop,
	      bool tail)
{
	struct lane_search x = { .e = e, .loop = loop,
			  .seen = arena_alloc(e->a, e->n->exprs.n) };
	int64_t size = live_unit(e, loop);
	uint32_t i;

	for (i = 0; i < nof; i++) {
		search(&x, of[i]);
	}
	for (i = 0; i < nroots; i++) {
		const struct nest_root *r = &e->n->roots.at[roots[i]];

		search(&x, r->value);
		if (!r->part) {
			search_access(&x, r->place, r->memory);
		}
	}
	if (x.widest == 0) {
		return 1;
	}
	if (x.widest <= 2 && size % 8 == 0) {
		return 8;
	}
	if (tail && !x.cut && size % 4 != 0) {
		return x.widest <= 2 ? 8 : 4;
	}
	return x.widest <= 4 && size % 4 == 0 ? 4
		: size % 2 == 0 && x.widest == 8 ? 2 : 1;
}

/* ---- vectors ---- */

/* Emits an access to all lanes: vectors of 16 bytes, or one of 8 or 4. */
static void
each_vector(struct cu_emit *e, uint32_t memory, const char *array,
	    const char *at, bool put)
{
	const struct nest_memory *m = &e->n->memory.at[memory];
	const char *type = cu_elem_type((enum ir_dtype)m->dtype);
	int64_t bytes = memory_bytes(e, memory), i, n;

	n = 16 / bytes < e->lanes ? 16 / bytes : e->lanes;
	for (i = 0; i < e->lanes; i += n) {
		const char *to = i ? arena_printf(e->a, "%s + %lld", array,
						  (long long)i) : array;
		const char *from = i ? arena_printf(e->a, "%s + %lld", at,
						    (long long)i) : at;

		cu_line(e->f, put ? "put_%s_%lld(%s, %s);"
			: "get_%s_%lld(%s, %s);", type, (long long)n,
			put ? from : to, put ? to : from);
	}
}

void
cu_lanes_open(struct cu_emit *e)
{
	if (e->lanes == 1) {
		return;
	}
	cu_line(e->f, "UNROLL");
	cu_line(e->f, "for (int k = 0; k < %u; k++) {", e->lanes);
	if (has_tail(e)) {
		cu_line(e->f, "if (%s + k < %lld) {", e->index[e->vec],
			(long long)cu_loop_size(e, e->vec));
	}
}

void
cu_lanes_close(struct cu_emit *e)
{
	if (e->lanes == 1) {
		return;
	}
	if (has_tail(e)) {
		cu_line(e->f, "}");
	}
	cu_line(e->f, "}");
}

/* C text: the element of lane 0. */
static const char *
first_lane(struct cu_emit *e, nest_id place, uint32_t memory)
{
	uint32_t lanes = e->lanes;
	const char *at;

	e->lanes = 1;
	at = cu_element(e, place, memory, NULL);
	e->lanes = lanes;
	return at;
}

/* A load that passes share: the first of them fills its array. */
static void
load_kept(struct cu_emit *e, nest_id id)
{
	const struct nest_expr *x = nest_at(e->n, id);
	bool one = e->lanes == 1, fill = !e->in_kept[id];
	const char *at = fill ? first_lane(e, x->a, x->ref) : NULL;
	const char *array = arena_printf(e->a, one ? "%s[t]" : "%s + t * %u",
					 e->kept[id], e->lanes);

	e->in_kept[id] = true;
	if (fill && one) {
		cu_line(e->f, "%s = %s;", array, cu_widen(e->a,
			(enum ir_dtype)e->n->memory.at[x->ref].dtype, at));
	} else if (fill) {
		each_vector(e, x->ref, array, arena_printf(e->a, "&%s", at),
			    false);
	}
	cu_expr_set(e, id, one ? array : arena_printf(e->a, "%s[t * %u + k]",
						      e->kept[id], e->lanes));
}

static void
load_vector(struct cu_emit *e, nest_id id)
{
	const struct nest_expr *x = nest_at(e->n, id);
	/* a pass over other elements has its own beside the one that is kept */
	const char *array = arena_printf(e->a, e->kept[id] ? "x%uv" : "x%u",
					 id);

	cu_line(e->f, "%s %s[%u];", x->kind == NEST_INT ? "i32"
		: cu_expr_type(e, id), array, e->lanes);
	each_vector(e, x->ref, array, arena_printf(e->a, "&%s",
			first_lane(e, x->a, x->ref)), false);
	cu_expr_set(e, id, arena_printf(e->a, "%s[k]", array));
}

static void
load_lanes(struct cu_emit *e, nest_id id)
{
	const struct nest_expr *x = nest_at(e->n, id);
	struct nest_affine a;
	uint32_t i;

	if (!id || e->scope.made[id] ||
	    e->scope.seen[id] == e->scope.stamp || x->over ||
	    (e->lanes > 1 && !(x->loops >> e->vec & 1))) {
		return;
	}
	e->scope.seen[id] = e->scope.stamp;
	if (x->op == NEST_LOAD) {
		nest_affine(e->n, x->a, &a);
		for (i = 0; i < a.nrest; i++) {
			load_lanes(e, a.rest[i].e);
		}
		if (e->lanes > 1 && !side_by_side(e, x->a, x->ref, e->vec,
						  e->lanes)) {
			return;
		}
		if (e->kept[id] && e->kept_loops[id] == e->loops) {
			load_kept(e, id);
		} else if (e->lanes > 1 && !e->early) {
			load_vector(e, id);
		}
		return;
	}
	load_lanes(e, x->a);
	load_lanes(e, x->b);
	load_lanes(e, x->c);
}

void
cu_load_lanes(struct cu_emit *e, nest_id id)
{
	e->scope.stamp++;
	load_lanes(e, id);
}

/* ---- putting away ---- */

bool
cu_root_lanes(struct cu_emit *e, const struct nest_root *r)
{
	return e->lanes > 1 && !r->part &&
	       side_by_side(e, r->place, r->memory, e->vec, e->lanes);
}

/* Stores a vector, or those of its lanes that have an element: what is between
 * rows stays as it is. */
static void
store_tail(struct cu_emit *e, uint32_t memory, const char *at,
	   const char *from)
{
	enum ir_dtype t = (enum ir_dtype)e->n->memory.at[memory].dtype;

	cu_line(e->f, "if (%s + %u <= %lld) {", e->index[e->vec], e->lanes,
		(long long)cu_loop_size(e, e->vec));
	each_vector(e, memory, from, at, true);
	cu_line(e->f, "} else {");
	cu_lanes_open(e);
	cu_line(e->f, "(%s)[k] = %s;", at,
		cu_narrow(e->a, t, arena_printf(e->a, "%s[k]", from)));
	cu_lanes_close(e);
	cu_line(e->f, "}");
}

void
cu_store_lanes(struct cu_emit *e, const struct nest_root *r, const char *live,
	       const char *from)
{
	const char *at = arena_printf(e->a, "&%s",
				      first_lane(e, r->place, r->memory));

	if (live) {
		cu_line(e->f, "if (%s) {", live);
	}
	if (has_tail(e)) {
		store_tail(e, r->memory, at, from);
	} else {
		each_vector(e, r->memory, from, at, true);
	}
	if (live) {
		cu_line(e->f, "}");
	}
}

const char *
cu_root_old(struct cu_emit *e, const struct nest_root *r)
{
	return r->old ? cu_num(e->f, nest_at(e->n, r->old)->ref) : NULL;
}

void
cu_declare_old_lanes(struct cu_emit *e, const struct nest_root *r,
		     const char *name)
{
	bool wide = e->n->memory.at[r->memory].dtype == IR_F64;
	const char *old = cu_root_old(e, r);

	cu_line(e->f, "%s %s[%u]%s;", wide ? "f64" : "f32", name, e->lanes,
		old ? " = { 0 }" : "");
	if (old) {
		cu_line(e->f, "if (%s) {", old);
	}
	each_vector(e, r->memory, name, arena_printf(e->a, "&%s",
			first_lane(e, r->place, r->memory)), false);
	if (old) {
		cu_line(e->f, "}");
	}
}

void
cu_store(struct cu_emit *e, const struct nest_root *r, const char *v,
	 const char *more)
{
	const struct nest_memory *m = &e->n->memory.at[r->memory];
	const char *at = cu_element(e, r->place, r->memory, more);
	enum ir_dtype t = (enum ir_dtype)m->dtype;
	const char *old = cu_root_old(e, r);

	if (old) {
		v = arena_printf(e->a, "(%s ? %s : 0) + %s", old,
				 cu_widen(e->a, t, at), v);
	} else if (r->add) {
		v = arena_printf(e->a, "%s + %s", cu_widen(e->a, t, at), v);
	}
	cu_line(e->f, "%s = %s;", at, cu_narrow(e->a, t, v));
}

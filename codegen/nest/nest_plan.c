/*
 * From expressions to steps: the roots of one stage over the same rows are one
 * step, whose items are groups of rows.  Inside of a row, a pass is the loops
 * in which those reductions and results are made whose operands are known by
 * then.
 */
#include "codegen/nest/nest.h"

#include <string.h>

#define ITEM_BYTES 32768	/* bytes that an item reads and writes, about */
#define LANES 16	/* of a vector, about */
#define MANY ((int64_t)1 << 40)	/* vectors: sums of more would overflow */

/* ---- what a step's expressions do with loops ---- */

struct step_walk {
	struct nest *n;
	uint8_t *seen;		/* by expression */
	uint64_t used;		/* loops whose index is used as a number */
	VEC(nest_id) sums;
	/* indices of elements that are read or written */
	VEC(struct nest_affine) places;
	VEC(int64_t) elem_bytes;
};

static void visit(struct step_walk *w, nest_id id);

static void
visit_place(struct step_walk *w, nest_id place, uint32_t memory)
{
	struct nest_affine a;
	uint32_t i;

	nest_affine(w->n, place, &a);
	VEC_PUSH(w->n->in.a, &w->places, a);
	VEC_PUSH(w->n->in.a, &w->elem_bytes,
		 ir_dtypes[w->n->memory.at[memory].dtype].bits / 8);
	for (i = 0; i < a.nrest; i++) {
		visit(w, a.rest[i].e);
	}
}

static void
visit(struct step_walk *w, nest_id id)
{
	const struct nest_expr e = *nest_at(w->n, id);

	if (!id || w->seen[id]) {
		return;
	}
	w->seen[id] = 1;
	if (e.op == NEST_LOOP) {
		w->used |= (uint64_t)1 << e.i;
	} else if (e.op == NEST_LOAD) {
		visit_place(w, e.a, e.ref);
	} else {
		visit(w, e.a);
		visit(w, e.b);
		visit(w, e.c);
	}
	if (e.over) {
		VEC_PUSH(w->n->in.a, &w->sums, id);
	}
}

static void
walk_step(struct nest *n, const struct nest_step *s, struct step_walk *w)
{
	uint32_t i;

	memset(w, 0, sizeof *w);
	w->n = n;
	w->seen = arena_alloc(n->in.a, n->exprs.n);
	for (i = 0; i < s->roots.n; i++) {
		const struct nest_root *r = &n->roots.at[s->roots.at[i]];

		visit(w, r->value);
		visit_place(w, r->place, r->memory);
	}
}

/* ---- passes ---- */

/* Vectors of one row that an access touches: 1, if it is once a row. */
static int64_t
vectors_of(const struct step_walk *w, const struct nest_affine *a,
	   uint64_t rows)
{
	double elems = 1;
	uint32_t i;

	for (i = 0; i < w->n->loops.n; i++) {
		if (a->loops & ~rows & (uint64_t)1 << i) {
			elems *= (double)w->n->loops.at[i].size;
		}
	}
	return elems <= LANES ? 1
		: elems < MANY ? ((int64_t)elems + LANES - 1) / LANES : MANY;
}

/* How well vectors along a loop access memory: positive if mostly contiguous,
 * negative if mostly strided. */
static int64_t
vector_score(const struct step_walk *w, uint64_t rows, uint32_t loop)
{
	int64_t score = 0;
	uint32_t i, k;

	for (i = 0; i < w->places.n; i++) {
		const struct nest_affine *a = &w->places.at[i];
		int64_t c = a->coef[loop];

		for (k = 0; k < a->nrest; k++) {
			c |= nest_at(w->n, a->rest[k].e)->loops >> loop & 1
				? 2 : 0;
		}
		score += (c == 1 ? 2 : c ? -2 : 0) * vectors_of(w, a, rows);
	}
	return score;
}

/* The largest stride along a loop: loops of a pass are ordered by it, the
 * largest outermost. */
static int64_t
largest_stride(const struct step_walk *w, uint32_t loop)
{
	int64_t most = 0;
	uint32_t i;

	for (i = 0; i < w->places.n; i++) {
		int64_t c = w->places.at[i].coef[loop];

		c = c < 0 ? -c : c;
		most = c > most ? c : most;
	}
	return most;
}

static struct nest_pass *
pass_of(struct nest *n, struct nest_step *s, const struct step_walk *w,
	uint64_t mask, uint16_t rank, uint16_t *ranks)
{
	struct nest_pass p = { 0 };
	uint32_t i, k;

	for (i = 0; i < s->passes.n; i++) {
		uint64_t have = 0;

		for (k = 0; k < s->passes.at[i].nloops; k++) {
			have |= (uint64_t)1 << s->passes.at[i].loops[k];
		}
		if (have == mask && ranks[i] == rank) {
			return &s->passes.at[i];
		}
	}
	for (i = 0; i < n->loops.n; i++) {
		if (!(mask >> i & 1)) {
			continue;
		}
		for (k = p.nloops++;
		     k > 0 &&
		     largest_stride(w, p.loops[k - 1]) < largest_stride(w, i);
		     k--) {
			p.loops[k] = p.loops[k - 1];
		}
		p.loops[k] = i;
	}
	ranks[s->passes.n] = rank;
	VEC_PUSH(n->in.a, &s->passes, p);
	return &s->passes.at[s->passes.n - 1];
}

static uint64_t
inner_mask(const struct nest_root *r)
{
	uint64_t mask = 0;
	uint32_t i;

	for (i = 0; i < r->ninner; i++) {
		mask |= (uint64_t)1 << r->inner[i];
	}
	return mask;
}

static void
sort_passes(struct nest_step *s, uint16_t *ranks)
{
	uint32_t i, k;

	for (i = 1; i < s->passes.n; i++) {
		for (k = i; k > 0 && ranks[k - 1] > ranks[k]; k--) {
			struct nest_pass p = s->passes.at[k];
			uint16_t rank = ranks[k];

			s->passes.at[k] = s->passes.at[k - 1];
			s->passes.at[k - 1] = p;
			ranks[k] = ranks[k - 1];
			ranks[k - 1] = rank;
		}
	}
}

static void
make_passes(struct nest *n, struct nest_step *s, const struct step_walk *w)
{
	uint16_t *ranks = arena_alloc(n->in.a, sizeof *ranks *
				      (w->sums.n + s->roots.n + 1));
	uint32_t i;

	for (i = 0; i < w->sums.n; i++) {
		const struct nest_expr *e = nest_at(n, w->sums.at[i]);
		struct nest_pass *p = pass_of(n, s, w, e->over,
			(uint16_t)(e->rank - 1), ranks);

		VEC_PUSH(n->in.a, &p->sums, w->sums.at[i]);
	}
	for (i = 0; i < s->roots.n; i++) {
		const struct nest_root *r = &n->roots.at[s->roots.at[i]];
		struct nest_pass *p = pass_of(n, s, w, inner_mask(r), r->rank,
					      ranks);

		VEC_PUSH(n->in.a, &p->roots, s->roots.at[i]);
	}
	sort_passes(s, ranks);
}

/* ---- rows ---- */

/* Whether lanes may be rows: no two rows store the same element. */
static bool
rows_are_distinct(const struct nest *n, const struct nest_step *s,
		  uint32_t loop)
{
	struct nest_affine a;
	uint32_t i;

	for (i = 0; i < s->roots.n; i++) {
		const struct nest_root *r = &n->roots.at[s->roots.at[i]];

		nest_affine(n, r->place, &a);
		if (a.coef[loop] == 0 || r->ninner > 0) {
			return false;
		}
	}
	return true;
}

static void
choose_lanes(const struct nest *n, struct nest_step *s,
	     const struct step_walk *w)
{
	uint64_t rows = n->roots.at[s->roots.at[0]].row_mask;
	uint32_t last, i;
	int64_t best = INT64_MIN;

	if (s->nrows == 0) {
		return;
	}
	last = s->rows[s->nrows - 1];
	for (i = 0; i < s->passes.n; i++) {
		const struct nest_pass *p = &s->passes.at[i];

		if (p->nloops > 0) {
			int64_t x = vector_score(w, rows,
						 p->loops[p->nloops - 1]);

			best = x > best ? x : best;
		}
	}
	s->row_lanes = rows_are_distinct(n, s, last) &&
		       (best == INT64_MIN ||
			vector_score(w, rows, last) > best);
}

/* Two loops can be one if all accesses are contiguous over both. */
static bool
can_collapse(const struct step_walk *w, uint32_t outer, uint32_t inner,
	     int64_t size)
{
	uint32_t i, k;

	if ((w->used >> outer | w->used >> inner) & 1) {
		return false;
	}
	for (i = 0; i < w->places.n; i++) {
		const struct nest_affine *a = &w->places.at[i];

		if (a->coef[outer] != a->coef[inner] * size) {
			return false;
		}
		for (k = 0; k < a->nrest; k++) {
			uint64_t loops = nest_at(w->n, a->rest[k].e)->loops;

			if ((loops >> outer | loops >> inner) & 1) {
				return false;
			}
		}
	}
	return true;
}

static void
collapse(struct nest_step *s, const struct step_walk *w)
{
	while (s->nrows > 1 &&
	       can_collapse(w, s->rows[s->nrows - 2], s->rows[s->nrows - 1],
			    s->size[s->nrows - 1])) {
		s->rows[s->nrows - 2] = s->rows[s->nrows - 1];
		s->size[s->nrows - 2] *= s->size[s->nrows - 1];
		s->nrows--;
	}
}

/* Bytes that one row, or vector of rows, reads and writes. */
static double
row_bytes(const struct nest *n, const struct step_walk *w, uint64_t rows)
{
	double sum = 1, v;
	uint32_t i, k;

	for (i = 0; i < w->places.n; i++) {
		const struct nest_affine *a = &w->places.at[i];

		v = (double)w->elem_bytes.at[i];
		for (k = 0; k < n->loops.n; k++) {
			if (a->loops & ~rows & (uint64_t)1 << k) {
				v *= (double)n->loops.at[k].size;
			}
		}
		sum += v;
	}
	return sum;
}

static void
divide_rows(const struct nest *n, struct nest_step *s,
	    const struct step_walk *w)
{
	bool flat = s->row_lanes && s->nrows == 1;
	uint32_t count = s->nrows - (s->row_lanes && !flat), i;
	uint64_t rows = n->roots.at[s->roots.at[0]].row_mask;
	double per;

	s->nrow = 1;
	for (i = 0; i < count; i++) {
		s->nrow *= s->size[i];
	}
	if (count < s->nrows) {
		rows &= ~((uint64_t)1 << s->rows[count]);
	}
	if (s->parts) {
		s->nitems = nest_parts(s->nrow, n->in.parts);
		s->per = (s->nrow + s->nitems - 1) / s->nitems;
		return;
	}
	per = ITEM_BYTES / row_bytes(n, w, rows);
	s->per = per < 1 ? 1 : (int64_t)per;
	s->per = flat ? (s->per + 255) / 256 * 256 : s->per;
	s->nitems = (s->nrow + s->per - 1) / s->per;
	s->nitems = s->nitems < 1 ? 1 : s->nitems;
}

/* ---- steps ---- */

static void
finish_step(struct nest *n, struct nest_step *s)
{
	struct step_walk w;
	uint32_t i;

	walk_step(n, s, &w);
	for (i = 0; i < s->nrows; i++) {
		s->size[i] = n->loops.at[s->rows[i]].size;
	}
	make_passes(n, s, &w);
	choose_lanes(n, s, &w);
	if (s->row_lanes && w.sums.n == 0 && !n->in.box) {
		collapse(s, &w);
	}
	divide_rows(n, s, &w);
}

static void
add_to_step(struct nest *n, struct nest_steps *out, uint32_t first,
	    uint32_t root)
{
	struct nest_root *r = &n->roots.at[root];
	struct nest_step s = { .stage = r->stage, .nrows = r->nrows };
	uint32_t i;

	for (i = first; i < out->at.n; i++) {
		struct nest_step *had = &out->at.at[i];
		const struct nest_root *x = &n->roots.at[had->roots.at[0]];

		/* with a partial sum per item all roots of the step have these
		 * items */
		if (x->row_mask == r->row_mask) {
			had->parts |= r->part;
			VEC_PUSH(n->in.a, &had->roots, root);
			return;
		}
	}
	memcpy(s.rows, r->rows, sizeof s.rows);
	s.parts = r->part;
	VEC_PUSH(n->in.a, &s.roots, root);
	VEC_PUSH(n->in.a, &out->at, s);
}

void
nest_make_steps(struct nest *n, struct nest_steps *out)
{
	uint32_t stage, most = 0, first, i;

	for (i = 0; i < n->roots.n; i++) {
		most = n->roots.at[i].stage > most ? n->roots.at[i].stage
						   : most;
	}
	memset(out, 0, sizeof *out);
	for (stage = 0; stage <= most; stage++) {
		first = out->at.n;
		for (i = 0; i < n->roots.n; i++) {
			if (n->roots.at[i].stage == stage) {
				add_to_step(n, out, first, i);
			}
		}
		for (i = first; i < out->at.n; i++) {
			finish_step(n, &out->at.at[i]);
		}
	}
}

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

/* ---- roots ---- */

static bool
covers(const struct ir_type *t, const struct ir_type *rows)
{
	uint32_t i;

	for (i = 0; i < rows->ndims; i++) {
		int k = ir_type_at(t, rows->dims[i]);

		if (k < 0 || t->cut[k] != rows->cut[i]) {
			return false;
		}
	}
	return true;
}

static void
set_rows(struct nest *n, const struct ir_type *t, struct nest_root *root)
{
	const struct kernel *k = n->in.k;
	uint32_t all[NEST_LOOPS], count = nest_type_loops(n, t, all), i;

	if (!n->in.box && k->kind == KERNEL_ROWWISE &&
	    covers(t, k->work->shape)) {
		root->nrows = nest_type_loops(n, k->work->shape, root->rows);
	} else {
		root->nrows = count;
		memcpy(root->rows, all, sizeof all);
	}
	for (i = 0; i < root->nrows; i++) {
		root->row_mask |= (uint64_t)1 << root->rows[i];
	}
	for (i = 0; i < count; i++) {
		if (!(root->row_mask >> all[i] & 1)) {
			root->inner[root->ninner++] = all[i];
		}
	}
}

nest_id
nest_has_old(struct nest *n, node_id sink)
{
	return nest_make(n, (struct nest_expr){
		.op = NEST_CALL, .kind = NEST_INT,
		.ref = n->in.number(n->in.user, NEST_N_OLD, sink) });
}

static bool
add_root(struct nest *n, value_id v, node_id sink)
{
	const struct ir_type *t = ir_type(n->in.m, v);
	struct nest_root root = { 0 };
	struct nest_memory m = { .where = NEST_OPERAND, .dtype = t->dtype,
				 .written = true, .value = sink ? 0 : v,
				 .sink = sink };
	nest_id at[IR_MAX_DIMS];
	uint32_t i;

	set_rows(n, t, &root);
	n->rows = root.row_mask;
	for (i = 0; i < t->ndims; i++) {
		at[i] = nest_dim_of(n, t->dims[i], t->cut[i])->index;
	}
	root.value = nest_pull(n, v, at);
	if (!root.value) {
		return false;
	}
	if (sink) {
		root.add = ir_node(n->in.m, sink)->op == IR_ACCUMULATE;
		root.old = root.add ? nest_has_old(n, sink) : 0;
	} else if (v == n->in.only) {
		struct nest_temp temp = { 0 };

		temp.elems = 1;
		temp.stage = nest_at(n, root.value)->stage;
		for (i = 0; i < t->ndims; i++) {
			temp.elems *= nest_local_size(n, t->dims[i], t->cut[i]);
		}
		m = (struct nest_memory){ .where = NEST_TEMP,
			.dtype = IR_F32, .written = true, .i = n->temps.n };
		VEC_PUSH(n->in.a, &n->temps, temp);
	}
	root.memory = nest_add_memory(n, m);
	root.place = nest_offset(n, m.where == NEST_OPERAND ? m.value : 0, t,
				 at);
	root.stage = nest_at(n, root.value)->stage;
	VEC_PUSH(n->in.a, &n->roots, root);
	return true;
}

static bool
add_roots(struct nest *n)
{
	const struct kernel *k = n->in.k;
	uint32_t i;

	if (n->in.only) {
		return add_root(n, n->in.only, 0);
	}
	for (i = 0; i < k->outputs.n; i++) {
		value_id v = k->outputs.at[i].value;

		if (nest_has_node(n, n->in.m->values.at[v].node) &&
		    !add_root(n, v, 0)) {
			return false;
		}
	}
	for (i = 0; i < n->in.nnodes; i++) {
		const struct ir_node *x = ir_node(n->in.m, n->in.nodes[i]);

		if (ir_is(x->op, IRF_SINK) && !ir_is(x->op, IRF_STASH) &&
		    !add_root(n, ir_args(n->in.m, x)[0],
				   n->in.nodes[i])) {
			return false;
		}
	}
	return true;
}

/* ---- tensors that the kernel reads and replaces ---- */

/* Marks memories from which the tensor that the root replaces is read. */
static bool
find_replaced(const struct nest *n, const struct nest_root *r, uint8_t *old)
{
	const struct ir_module *m = n->in.m;
	node_id sink = n->memory.at[r->memory].sink;
	const struct ir_attr *name = sink && !r->add
		? ir_attr(m, ir_node(m, sink), IR_ATTR_NAME) : NULL;
	bool any = false;
	uint32_t i;

	for (i = 0; i < n->memory.n; i++) {
		const struct nest_memory *x = &n->memory.at[i];
		node_id id = x->where == NEST_OPERAND && x->value
			? m->values.at[x->value].node : 0;
		const struct ir_node *source = ir_node(m, id);

		old[i] = name && id && ir_is(source->op, IRF_STORED) &&
			 ir_attr(m, source, IR_ATTR_NAME)->text == name->text;
		any |= old[i];
	}
	return any;
}

/* Whether e loads old values; *elsewhere: not only of the element `place`. */
static bool
loads(const struct nest *n, nest_id id, const uint8_t *old, nest_id place,
      uint8_t *seen, bool *elsewhere)
{
	const struct nest_expr *e = nest_at(n, id);
	bool any;

	if (!id || seen[id]) {
		return false;
	}
	seen[id] = 1;
	any = e->op == NEST_LOAD && old[e->ref];
	*elsewhere |= any && e->a != place;
	any |= loads(n, e->a, old, place, seen, elsewhere);
	any |= loads(n, e->b, old, place, seen, elsewhere);
	return loads(n, e->c, old, place, seen, elsewhere) || any;
}

/*
 * Lets root k wait for what other roots read of the tensor that it replaces.
 * In a step over the same rows a later pass is enough where they read the
 * element that is stored; else a later stage.  True: something changed.
 */
static bool
wait_for_readers(struct nest *n, uint32_t k, const uint8_t *old,
		 uint8_t *seen)
{
	struct nest_root *r = &n->roots.at[k];
	struct nest_root was = *r;
	uint32_t i;

	for (i = 0; i < n->roots.n; i++) {
		const struct nest_root *q = &n->roots.at[i];
		bool apart = q->row_mask != r->row_mask;

		if (i == k || q->stage < r->stage) {
			continue;
		}
		memset(seen, 0, n->exprs.n);
		if (!loads(n, q->value, old, r->place, seen, &apart)) {
			continue;
		}
		if (apart || q->stage > r->stage) {
			r->stage = q->stage + apart;
			r->rank = was.rank;
		}
		if (q->stage == r->stage && q->rank > r->rank) {
			r->rank = q->rank;
		}
	}
	return r->stage != was.stage || r->rank != was.rank;
}

/*
 * What replaces a tensor, as a step replaces states, is stored after all reads
 * of the old value, also of results that are computed again in a later pass.
 * False: each of two tensors is replaced after reads of the other, so that no
 * order is left.  Without such a circle, each round settles one root at least.
 */
static bool
delay_stores(struct nest *n)
{
	uint8_t *old = arena_alloc(n->in.a, n->memory.n + 1);
	uint8_t *seen = arena_alloc(n->in.a, n->exprs.n);
	uint32_t i, rounds = n->roots.n + 1;
	bool changed = true;

	for (i = 0; i < n->roots.n; i++) {
		n->roots.at[i].rank = nest_at(n, n->roots.at[i].value)->rank;
	}
	while (changed && rounds-- > 0) {
		changed = false;
		for (i = 0; i < n->roots.n; i++) {
			changed |= find_replaced(n, &n->roots.at[i], old) &&
				   wait_for_readers(n, i, old, seen);
		}
	}
	return !changed;
}

bool
nest_build(struct nest *n, const struct nest_input *in, const char **why)
{
	struct nest_expr none = { 0 };

	memset(n, 0, sizeof *n);
	n->in = *in;
	n->value_at = nest_pull;
	n->wide = !in->box && in->k->kind == KERNEL_MAP &&
		  in->k->work->shape->ndims == 0;
	VEC_PUSH(in->a, &n->exprs, none);
	if (!in->bare && !add_roots(n)) {
		*why = n->why ? n->why : "no kernel can do this";
		return false;
	}
	if (!delay_stores(n)) {
		*why = "each of two tensors is replaced after reads of the "
		       "other";
		return false;
	}
	return true;
}

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

/*
 * Expressions of a nest: equal ones share an id, constants are folded, and
 * indices are split into an affine part and a rest.  Below nest_pull.c, which
 * knows what ops mean.
 */
#include "codegen/nest/nest.h"

#include <string.h>

#define PARTS 32	/* partial sums, unless the back end sets a number */
/* rows of each of so many parts; with fewer rows there are half as many, since
 * partial sums would be as much traffic as what they are of */
#define FEW_ROWS 4

/* ---- making ---- */

static uint64_t
hash_of(const struct nest_expr *e)
{
	uint64_t h = hash_word(e->op * 31u + e->kind, e->ref);

	h = hash_word(h, (uint64_t)e->a << 32 | e->b);
	h = hash_word(h, e->c);
	h = hash_word(h, num_bits(e->num));
	h = hash_word(h, (uint64_t)e->i);
	return hash_word(h, e->over);
}

static bool
is_same(const struct nest_expr *x, const struct nest_expr *y)
{
	return x->op == y->op && x->kind == y->kind && x->ref == y->ref &&
	       x->a == y->a && x->b == y->b && x->c == y->c &&
	       memcmp(&x->num, &y->num, sizeof x->num) == 0 &&
	       x->i == y->i && x->over == y->over;
}

static void
inherit_facts(const struct nest *n, struct nest_expr *e, nest_id of)
{
	const struct nest_expr *x = nest_at(n, of);

	if (of) {
		e->loops |= x->loops;
		e->rank = x->rank > e->rank ? x->rank : e->rank;
		e->stage = x->stage > e->stage ? x->stage : e->stage;
	}
}

nest_id
nest_make(struct nest *n, struct nest_expr e)
{
	uint64_t h = hash_of(&e);
	nest_id id = 0;

	while ((id = table_find(&n->by_hash, h, id)) != 0) {
		if (is_same(&e, nest_at(n, id))) {
			return id;
		}
	}
	e.loops = e.op == NEST_LOOP ? (uint64_t)1 << e.i : 0;
	e.rank = e.stage = 0;
	inherit_facts(n, &e, e.a);
	inherit_facts(n, &e, e.b);
	inherit_facts(n, &e, e.c);
	if (e.op == NEST_LOAD &&
	    n->memory.at[e.ref].where == NEST_TEMP) {
		uint16_t made = n->temps.at[n->memory.at[e.ref].i].stage;

		e.stage = made + 1 > e.stage ? made + 1 : e.stage;
	}
	e.loops &= ~e.over;
	e.rank = (uint16_t)(e.rank + (e.over != 0));
	VEC_PUSH(n->in.a, &n->exprs, e);
	return table_add(n->in.a, &n->by_hash, h);
}

nest_id
nest_num(struct nest *n, double v)
{
	return nest_make(n, (struct nest_expr){ .op = NEST_NUM, .num = v,
		.kind = n->wide ? NEST_WIDE : NEST_FLOAT });
}

nest_id
nest_int(struct nest *n, int64_t v)
{
	return nest_make(n, (struct nest_expr){ .op = NEST_NUM, .i = v,
						.kind = NEST_INT });
}

static bool
is_int(const struct nest *n, nest_id e, int64_t *v)
{
	const struct nest_expr *x = nest_at(n, e);

	*v = x->i;
	return x->op == NEST_NUM && x->kind == NEST_INT;
}

static bool
is_num(const struct nest *n, nest_id e, double *v)
{
	const struct nest_expr *x = nest_at(n, e);

	*v = x->num;
	return x->op == NEST_NUM && x->kind <= NEST_WIDE;
}

nest_id
nest_cast(struct nest *n, nest_id a, enum nest_kind kind)
{
	const struct nest_expr *x = nest_at(n, a);

	if (!a || x->kind == kind) {
		return a;
	}
	if (x->op == NEST_NUM && kind <= NEST_WIDE && x->kind <= NEST_INT) {
		return nest_make(n, (struct nest_expr){
			.op = NEST_NUM, .kind = (uint8_t)kind,
			.num = x->kind == NEST_INT ? (double)x->i
						   : x->num });
	}
	return nest_make(n, (struct nest_expr){
		.op = NEST_CAST, .kind = (uint8_t)kind, .a = a });
}

nest_id
nest_unary(struct nest *n, enum nest_op op, nest_id a)
{
	uint8_t kind;

	if (!a) {
		return 0;
	}
	kind = nest_at(n, a)->kind;
	if (op == NEST_SIN || op == NEST_COS) {
		kind = NEST_FLOAT;
	}
	return nest_make(n, (struct nest_expr){
		.op = (uint8_t)op, .kind = kind, .a = a });
}

/* Folds integer constants, and x + 0, x * 1, x * 0. */
static nest_id
fold_int(struct nest *n, enum nest_op op, nest_id a, nest_id b)
{
	int64_t x, y;
	bool ca = is_int(n, a, &x), cb = is_int(n, b, &y);

	if (ca && cb) {
		switch (op) {
		case NEST_ADD:
			return nest_int(n, x + y);
		case NEST_SUB:
			return nest_int(n, x - y);
		case NEST_MUL:
			return nest_int(n, x * y);
		case NEST_DIV:
			return nest_int(n, x / y);
		case NEST_REM:
			return nest_int(n, x % y);
		case NEST_MIN:
			return x < y ? a : b;
		case NEST_MAX:
			return x > y ? a : b;
		default:
			return 0;
		}
	}
	if (ca && (op == NEST_ADD || op == NEST_MUL)) {
		return fold_int(n, op, b, a);
	}
	if (cb && y == 0 && (op == NEST_ADD || op == NEST_SUB)) {
		return a;
	}
	if (cb && y == 1 && (op == NEST_MUL || op == NEST_DIV)) {
		return a;
	}
	if (cb && ((y == 0 && op == NEST_MUL) ||
		   (y == 1 && op == NEST_REM))) {
		return nest_int(n, 0);
	}
	return 0;
}

/* Folds constants, and 1 * x, x / 1, x - 0, which derivatives leave. */
static nest_id
fold_num(struct nest *n, enum nest_op op, nest_id a, nest_id b)
{
	double x, y;
	bool ca = is_num(n, a, &x), cb = is_num(n, b, &y);

	if (cb && ((y == 1 && (op == NEST_MUL || op == NEST_DIV)) ||
		   (y == 0 && op == NEST_SUB))) {
		return a;
	}
	if (ca && x == 1 && op == NEST_MUL) {
		return b;
	}
	if (!ca || !cb) {
		return 0;
	}
	switch (op) {
	case NEST_ADD:
		x += y;
		break;
	case NEST_SUB:
		x -= y;
		break;
	case NEST_MUL:
		x *= y;
		break;
	case NEST_DIV:
		x /= y;
		break;
	default:
		return 0;
	}
	return nest_make(n, (struct nest_expr){
		.op = NEST_NUM, .kind = nest_at(n, a)->kind, .num = x });
}

nest_id
nest_binary(struct nest *n, enum nest_op op, nest_id a, nest_id b)
{
	uint8_t kind;
	nest_id e;

	if (!a || !b) {
		return 0;
	}
	kind = nest_at(n, a)->kind;
	if (kind != nest_at(n, b)->kind) {
		kind = kind == NEST_WIDE || nest_at(n, b)->kind == NEST_WIDE
			? NEST_WIDE : NEST_FLOAT;
		a = nest_cast(n, a, kind);
		b = nest_cast(n, b, kind);
	}
	e = kind == NEST_INT ? fold_int(n, op, a, b)
		: kind <= NEST_WIDE ? fold_num(n, op, a, b) : 0;
	if (e) {
		return e;
	}
	if (op == NEST_LT || op == NEST_LE || op == NEST_EQ) {
		kind = NEST_BOOL;
	}
	return nest_make(n, (struct nest_expr){
		.op = (uint8_t)op, .kind = kind, .a = a, .b = b });
}

nest_id
nest_select(struct nest *n, nest_id cond, nest_id yes, nest_id no)
{
	uint8_t kind;

	if (!cond || !yes || !no || yes == no) {
		return cond && no ? yes : 0;
	}
	kind = nest_at(n, yes)->kind;
	if (kind != nest_at(n, no)->kind) {
		kind = NEST_WIDE;
		yes = nest_cast(n, yes, kind);
		no = nest_cast(n, no, kind);
	}
	return nest_make(n, (struct nest_expr){
		.op = NEST_PICK, .kind = kind, .a = cond, .b = yes,
		.c = no });
}

static int64_t
iterations(const struct nest *n, uint64_t loops)
{
	int64_t v = 1;
	uint32_t i;

	for (i = 0; i < n->loops.n; i++) {
		v *= loops >> i & 1 ? n->loops.at[i].size : 1;
	}
	return v;
}

nest_id
nest_reduce(struct nest *n, enum nest_op op, nest_id a, uint64_t over)
{
	uint64_t none;

	if (!a || !over) {
		return a;
	}
	/* it is the same in all iterations of these loops */
	none = over & ~nest_at(n, a)->loops;
	over &= ~none;
	if (over) {
		a = nest_make(n, (struct nest_expr){
			.op = (uint8_t)op, .kind = nest_at(n, a)->kind,
			.a = a, .over = over });
	}
	if (none && op == NEST_SUM) {
		nest_id by = nest_cast(n, nest_int(n, iterations(n, none)),
				       nest_at(n, a)->kind);

		a = nest_binary(n, NEST_MUL, a, by);
	}
	return a;
}

/* ---- affine ---- */

static void
add_rest(struct nest_affine *out, nest_id e, int64_t scale)
{
	uint32_t i;

	for (i = 0; i < out->nrest && out->rest[i].e != e; i++) {
	}
	if (i == sizeof out->rest / sizeof *out->rest) {
		die("an index of more than %u parts", i);
	}
	out->rest[i].scale = i == out->nrest ? scale
					     : out->rest[i].scale + scale;
	out->rest[i].e = e;
	out->nrest += i == out->nrest;
}

static void
add_affine(const struct nest *n, nest_id id, int64_t scale,
	   struct nest_affine *out)
{
	const struct nest_expr *e = nest_at(n, id);
	int64_t v;

	if (is_int(n, id, &v)) {
		out->base += scale * v;
	} else if (e->op == NEST_LOOP) {
		out->coef[e->i] += scale;
		out->loops |= (uint64_t)1 << e->i;
	} else if (e->op == NEST_ADD || e->op == NEST_SUB) {
		add_affine(n, e->a, scale, out);
		add_affine(n, e->b, e->op == NEST_ADD ? scale : -scale, out);
	} else if (e->op == NEST_MUL && is_int(n, e->b, &v)) {
		add_affine(n, e->a, scale * v, out);
	} else if (e->op == NEST_MUL && is_int(n, e->a, &v)) {
		add_affine(n, e->b, scale * v, out);
	} else {
		add_rest(out, id, scale);
	}
}

void
nest_affine(const struct nest *n, nest_id e, struct nest_affine *out)
{
	memset(out, 0, sizeof *out);
	add_affine(n, e, 1, out);
}

/* ---- loops, memory ---- */

uint32_t
nest_add_loop(struct nest *n, int64_t size, int box)
{
	struct nest_loop l = { size, box };

	if (n->loops.n == NEST_LOOPS) {
		die("more than %d loops", NEST_LOOPS);
	}
	VEC_PUSH(n->in.a, &n->loops, l);
	return n->loops.n - 1;
}

int64_t
nest_local_size(const struct nest *n, dim_id d, uint32_t cut)
{
	struct ir_pieces p;

	ir_pieces(n->in.m, ir_dim_size(n->in.m, d), cut, n->in.at, &p);
	return p.total;
}

static nest_id
loop_index(struct nest *n, uint32_t loop)
{
	return nest_make(n, (struct nest_expr){
		.op = NEST_LOOP, .kind = NEST_INT, .i = loop });
}

/* Whether a rotation pairs elements half of the dim apart. */
static bool
has_halves(const struct nest *n, dim_id d, uint32_t cut)
{
	uint32_t i;

	for (i = 0; i < n->in.nnodes; i++) {
		const struct ir_node *x = ir_node(n->in.m, n->in.nodes[i]);
		const struct ir_type *t;

		if (!ir_op_takes(x->op, IR_ATTR_THETA) ||
		    ir_attr(n->in.m, x, IR_ATTR_INTERLEAVED)) {
			continue;
		}
		t = ir_type(n->in.m, x->result);
		if (t->dims[t->ndims - 1] == d && t->cut[t->ndims - 1] == cut) {
			return nest_local_size(n, d, cut) % 2 == 0;
		}
	}
	return false;
}

const struct nest_dim *
nest_dim_of(struct nest *n, dim_id d, uint32_t cut)
{
	int64_t size = nest_local_size(n, d, cut);
	struct nest_dim x = { .dim = d, .cut = cut, .n = 1 };
	nest_id half, low;
	int box = -1;
	uint32_t i;

	for (i = 0; i < n->dims.n; i++) {
		if (n->dims.at[i].dim == d && n->dims.at[i].cut == cut) {
			return &n->dims.at[i];
		}
	}
	for (i = 0; n->in.box && i < n->in.box->ndims; i++) {
		if (n->in.box->dims[i] == d && n->in.box->cut[i] == cut) {
			box = (int)i;
		}
	}
	if (has_halves(n, d, cut) && (box < 0 || !n->in.moves[box])) {
		x.n = 2;
		x.loop[0] = nest_add_loop(n, 2, -1);
		x.loop[1] = nest_add_loop(n, size / 2, -1);
		low = loop_index(n, x.loop[1]);
		half = nest_int(n, size / 2);
		half = nest_binary(n, NEST_MUL, loop_index(n, x.loop[0]), half);
		x.index = nest_binary(n, NEST_ADD, half, low);
	} else {
		x.loop[0] = nest_add_loop(n, size, box);
		x.index = loop_index(n, x.loop[0]);
		if (box >= 0 && n->in.moves[box]) {
			x.index = nest_binary(n, NEST_ADD, x.index,
				nest_make(n, (struct nest_expr){
					.op = NEST_FROM, .kind = NEST_INT,
					.i = box }));
		}
	}
	for (i = 0; i < x.n; i++) {
		x.mask |= (uint64_t)1 << x.loop[i];
	}
	VEC_PUSH(n->in.a, &n->dims, x);
	return &n->dims.at[n->dims.n - 1];
}

uint32_t
nest_add_memory(struct nest *n, struct nest_memory m)
{
	uint32_t i;

	for (i = 0; i < n->memory.n; i++) {
		struct nest_memory *had = &n->memory.at[i];

		if (had->where == m.where && had->value == m.value &&
		    had->sink == m.sink && had->i == m.i) {
			had->written |= m.written;
			return i;
		}
	}
	VEC_PUSH(n->in.a, &n->memory, m);
	return i;
}

/* ---- positions ---- */

static nest_id
word(struct nest *n, uint32_t spread, int64_t i)
{
	return nest_make(n, (struct nest_expr){
		.op = NEST_WORD, .kind = NEST_INT, .ref = spread, .i = i });
}

/* Words of rt_pieces: n, total, then start and count of each piece. */
#define START(k) (2 + 2 * (int64_t)(k))
#define COUNT(k) (3 + 2 * (int64_t)(k))

static nest_id
is_piece(struct nest *n, uint32_t s, uint32_t k)
{
	nest_id count = word(n, s, 0);

	return nest_binary(n, NEST_LT, nest_int(n, k), count);
}

nest_id
nest_within(struct nest *n, nest_id e, nest_id size)
{
	nest_id below = nest_binary(n, NEST_LT, e, size);

	return nest_binary(n, NEST_AND,
			   nest_binary(n, NEST_LE, nest_int(n, 0), e), below);
}

nest_id
nest_if_placed(struct nest *n, nest_id place, nest_id v)
{
	nest_id zero = nest_num(n, 0);

	return nest_select(n, nest_binary(n, NEST_LE, nest_int(n, 0), place), v,
			   zero);
}

nest_id
nest_position(struct nest *n, dim_id d, uint32_t cut, nest_id place)
{
	uint32_t most = ir_pieces_most(n->in.m, cut), s, k;
	nest_id at, before;

	if (!cut) {
		return place;
	}
	s = n->in.pieces(n->in.user, ir_dim_size(n->in.m, d), cut);
	at = nest_binary(n, NEST_ADD, place, word(n, s, START(0)));
	before = word(n, s, COUNT(0));
	for (k = 1; k < most; k++) {
		nest_id there = is_piece(n, s, k);
		nest_id here = nest_binary(n, NEST_AND,
			nest_binary(n, NEST_LE, before, place), there);
		nest_id moved = nest_binary(n, NEST_ADD, place,
			nest_binary(n, NEST_SUB, word(n, s, START(k)), before));

		at = nest_select(n, here, moved, at);
		before = nest_binary(n, NEST_ADD, before, word(n, s, COUNT(k)));
	}
	return at;
}

nest_id
nest_place(struct nest *n, dim_id d, uint32_t cut, nest_id position)
{
	uint32_t most = ir_pieces_most(n->in.m, cut), s, k;
	nest_id at = nest_int(n, -1), before = nest_int(n, 0);

	if (!cut) {
		return position;
	}
	s = n->in.pieces(n->in.user, ir_dim_size(n->in.m, d), cut);
	for (k = 0; k < most; k++) {
		nest_id i = nest_binary(n, NEST_SUB, position,
					word(n, s, START(k)));
		nest_id here = nest_within(n, i, word(n, s, COUNT(k)));

		here = nest_binary(n, NEST_AND, here, is_piece(n, s, k));
		at = nest_select(n, here, nest_binary(n, NEST_ADD, i, before),
				 at);
		before = nest_binary(n, NEST_ADD, before, word(n, s, COUNT(k)));
	}
	return at;
}

uint32_t
nest_type_loops(struct nest *n, const struct ir_type *t, uint32_t *loops)
{
	uint32_t i, k, count = 0;

	for (i = 0; i < t->ndims; i++) {
		const struct nest_dim *d =
			nest_dim_of(n, t->dims[i], t->cut[i]);

		for (k = 0; k < d->n; k++) {
			loops[count++] = d->loop[k];
		}
	}
	return count;
}

bool
nest_has_node(const struct nest *n, node_id id)
{
	uint32_t i;

	for (i = 0; i < n->in.nnodes && n->in.nodes[i] != id; i++) {
	}
	return i < n->in.nnodes;
}

int64_t
nest_parts(int64_t rows, int64_t most)
{
	int64_t parts = most ? most : PARTS, per;

	parts = most && rows < FEW_ROWS * most ? (most + 1) / 2 : parts;
	per = (rows + parts - 1) / parts;

	return rows < 1 ? 1 : (rows + per - 1) / per;
}

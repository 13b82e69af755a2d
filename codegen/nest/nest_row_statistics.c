/*
 * What is known of a row: a maximum or a sum, its statistic.  It is part of the
 * expression if the loops at hand are at that row.  Otherwise an earlier step
 * stores it in a temp, one number per row: if it is reduced over ranks, if it
 * is read at another row's index, or if the rows themselves are summed over,
 * which is done in partial sums.
 *
 * Where ranks share a row of exponentials, each sums up its own part relative
 * to its own maximum, in the step that finds that.  When all know the greatest
 * of their maxima, each converts its sum to it, and the sums are added up: so
 * the elements are read once, not once more when the maximum is known.
 */
#include "codegen/nest/nest_row.h"

#include <float.h>

/* most elements of a partial sum, if they are as many as a CPU's; and most of
 * all partial sums together, if the back end says how many they are */
#define PARTIAL_ELEMS 65536
#define ALL_PARTIAL_ELEMS ((int64_t)16 << 20)

/* ---- what is summed up ---- */

static bool
is_of_exponentials(const struct ir_node *node)
{
	return node->op == IR_SOFTMAX || node->op == IR_CROSS_ENTROPY ||
	       node->op == IR_LOG_SUM_EXP;
}

static bool
is_maximum(const struct nest_row *s, uint32_t part)
{
	if (is_of_exponentials(s->node)) {
		return part == NEST_PART_MOST || part == NEST_PART_OWN_MOST;
	}
	return s->node->op == IR_AMAX;
}

static nest_id reduce_row(struct nest_row *s, uint32_t part,
			  struct nest_env env, uint64_t over);

static nest_id
square(struct nest *n, nest_id x)
{
	return nest_binary(n, NEST_MUL, x, x);
}

nest_id
nest_row_mean(struct nest_row *s, const struct nest_env *env)
{
	nest_id part = nest_num(s->n, 1 / s->size);

	return nest_binary(s->n, NEST_MUL, nest_row_statistic(s, 0, env), part);
}

static nest_id
product(struct nest_row *s, uint32_t a, uint32_t b, const struct nest_env *env)
{
	nest_id y = nest_operand(s->n, s->node, b, env);

	return nest_binary(s->n, NEST_MUL, nest_operand(s->n, s->node, a, env),
			   y);
}

/* One product of a dot_at: the matrix is the expert's that the index
 * selects. */
static nest_id
chosen(struct nest_row *s, const struct nest_env *env)
{
	struct nest *n = s->n;
	const struct ir_factor *f = ir_rule_factor(&s->r, "of");
	uint32_t cut = nest_row_cut(n, s->node, f, f->dims[0]);
	nest_id i = nest_operand(n, s->node, 1, env), v;
	struct nest_env e = *env;

	i = nest_place(n, f->dims[0], cut, i);
	nest_env_bind(&e, f->dims[0],
		      cut ? nest_binary(n, NEST_MAX, i, nest_int(n, 0)) : i);
	v = product(s, 0, 2, &e);
	return cut ? nest_if_placed(n, i, v) : v;
}

/* v, where operand k's index is the result's; else 0. */
static nest_id
if_here(struct nest_row *s, uint32_t k, nest_id v, const struct nest_env *env)
{
	struct nest *n = s->n;
	dim_id of = ir_rule_factor(&s->r, "of")->dims[0];
	const struct ir_type *out = ir_type(n->in.m, s->node->result);
	uint32_t cut = out->cut[ir_type_at(out, of)];
	nest_id at = nest_position(n, of, cut, nest_env_at(env, of));

	nest_id zero = nest_num(n, 0);

	at = nest_binary(n, NEST_EQ, at, nest_operand(n, s->node, k, env));
	return nest_select(n, at, v, zero);
}

static nest_id
label(struct nest_row *s, const struct nest_env *env)
{
	struct nest *n = s->n;
	dim_id of = s->over.dims[0];
	uint32_t cut = s->over.cut[0];
	nest_id i = nest_operand(n, s->node, 1, env), v;
	struct nest_env e = *env;

	i = nest_place(n, of, cut, i);
	nest_env_bind(&e, of,
		      cut ? nest_binary(n, NEST_MAX, i, nest_int(n, 0)) : i);
	v = nest_operand(n, s->node, 0, &e);
	return cut && v ? nest_if_placed(n, i, v) : v;
}

/*
 * What exponentials of a row are relative to: its maximum, or the lowest finite
 * number where that is -inf, as masks make it.  A sum is 0 then, where -inf
 * less -inf would be NaN: its log is -inf, and what is divided by it is NaN.
 */
static nest_id
from_most(struct nest *n, nest_id most)
{
	return nest_binary(n, NEST_MAX, most, nest_num(n, -FLT_MAX));
}

nest_id
nest_row_exponential(struct nest_row *s, uint32_t part,
		     const struct nest_env *env)
{
	struct nest *n = s->n;
	nest_id x = nest_operand(n, s->node, 0, env), most;

	most = part == NEST_PART_ABOVE
		? nest_row_statistic(s, NEST_PART_MOST, env)
		: reduce_row(s, NEST_PART_OWN_MOST, *env, s->over_mask);
	x = nest_binary(n, NEST_SUB, x, from_most(n, most));
	return nest_unary(n, NEST_EXP, x);
}

/* What one element contributes to statistic `part`; env has the index of the
 * row and of the element. */
static nest_id
contribution(struct nest_row *s, uint32_t part, const struct nest_env *env)
{
	struct nest *n = s->n;
	nest_id x;

	switch (s->node->op) {
	case IR_DOT:
	case IR_DOT_F32:
		return product(s, 0, 1, env);
	case IR_DOT_AT:
	case IR_DOT_AT_F32:
		return chosen(s, env);
	case IR_DOT_TO:
		return if_here(s, 2, product(s, 0, 1, env), env);
	case IR_SCATTER:
		return if_here(s, 1, nest_operand(n, s->node, 0, env), env);
	default:
		break;
	}
	x = nest_operand(n, s->node, 0, env);
	switch (s->node->op) {
	case IR_AMAX:
		return nest_binary(n, NEST_MAX, x,
				   nest_binary(n, NEST_SUB, nest_num(n, 0), x));
	case IR_RMSNORM:
		return square(n, x);
	case IR_LAYERNORM:
		return part == 0 ? x : square(n, nest_binary(n, NEST_SUB, x,
						nest_row_mean(s, env)));
	default:
		return is_of_exponentials(s->node) && !is_maximum(s, part)
			? nest_row_exponential(s, part, env) : x;
	}
}

static nest_id
reduce_row(struct nest_row *s, uint32_t part, struct nest_env env,
	   uint64_t over)
{
	uint32_t i;

	if (part == NEST_PART_LABEL) {	/* one element, no reduction */
		return label(s, &env);
	}
	for (i = 0; i < s->over.ndims; i++) {
		nest_env_bind(&env, s->over.dims[i], nest_dim_of(s->n,
			s->over.dims[i], s->over.cut[i])->index);
	}
	return nest_reduce(s->n, is_maximum(s, part) ? NEST_MOST : NEST_SUM,
			   contribution(s, part, &env), over);
}

/* ---- temps ---- */

/* Whether a statistic of a node is the same number for s: s is that node, or
 * both are of the exponentials of the same rows. */
static bool
is_alike(const struct nest_row *s, const struct nest_statistic *k)
{
	const struct ir_module *m = s->n->in.m;
	const struct ir_node *node = ir_node(m, k->node);

	return node == s->node ||
	       (k->part != NEST_PART_LABEL && is_of_exponentials(node) &&
		is_of_exponentials(s->node) && k->over == s->over_mask &&
		ir_args(m, node)[0] == ir_args(m, s->node)[0]);
}

/* The memory of a statistic that is stored already. */
static bool
is_stored(const struct nest_row *s, uint32_t part, uint32_t *memory)
{
	const struct nest *n = s->n;
	uint32_t i;

	for (i = 0; i < n->statistics.n; i++) {
		if (n->statistics.at[i].part == part &&
		    is_alike(s, &n->statistics.at[i])) {
			*memory = n->statistics.at[i].memory;
			return true;
		}
	}
	return false;
}

/* Adds a temp, and the root that stores to it. */
static uint32_t
add_temp(struct nest_row *s, uint32_t part, struct nest_root *root,
	 struct nest_temp temp)
{
	struct nest *n = s->n;
	struct nest_memory m = { .where = NEST_TEMP, .dtype = IR_F32,
				 .written = true, .i = n->temps.n };
	struct nest_statistic k = { (node_id)(s->node - n->in.m->nodes.at),
				part, 0, s->over_mask };
	uint16_t stage = nest_at(n, root->value)->stage;

	root->stage = nest_at(n, root->place)->stage;
	root->stage = stage > root->stage ? stage : root->stage;
	temp.stage = root->stage;
	VEC_PUSH(n->in.a, &n->temps, temp);
	k.memory = root->memory = nest_add_memory(n, m);
	VEC_PUSH(n->in.a, &n->roots, *root);
	VEC_PUSH(n->in.a, &n->statistics, k);
	return k.memory;
}

static void
add_loops(struct nest *n, struct nest_root *root, const struct ir_type *t)
{
	root->nrows += nest_type_loops(n, t, root->rows + root->nrows);
}

static uint64_t
mask_of(const uint32_t *loops, uint32_t count)
{
	uint64_t mask = 0;
	uint32_t i;

	for (i = 0; i < count; i++) {
		mask |= (uint64_t)1 << loops[i];
	}
	return mask;
}

static nest_id stored_statistic(struct nest_row *s, uint32_t part,
				const struct nest_env *env);

/* This rank's sum of exponentials, relative to the maximum over all ranks.  A
 * rank without elements, or with -inf alone, has a sum of 0, and a maximum of
 * -inf; so has a row where all ranks are such. */
static nest_id
converted_sum(struct nest_row *s, const struct nest_env *env)
{
	struct nest *n = s->n;
	nest_id own = stored_statistic(s, NEST_PART_OWN_MOST, env);
	nest_id sum = stored_statistic(s, NEST_PART_OWN_ABOVE, env);
	nest_id all = stored_statistic(s, NEST_PART_MOST, env);

	own = nest_binary(n, NEST_SUB, own, from_most(n, all));
	own = nest_unary(n, NEST_EXP, own);
	return nest_binary(n, NEST_MUL, sum, own);
}

/* A statistic that an earlier step stores for all rows. */
static nest_id
stored_statistic(struct nest_row *s, uint32_t part, const struct nest_env *env)
{
	bool own = part == NEST_PART_OWN_MOST || part == NEST_PART_OWN_ABOVE;
	struct nest *n = s->n;
	uint64_t outer = n->rows;
	struct nest_root root = { 0 };
	struct nest_temp temp = { 0 };
	struct nest_env rows;
	uint32_t memory;

	if (n->in.box) {
		n->why = "a sum is used in a tile at another index than "
			 "that of its rows";
		return 0;
	}
	if (!is_stored(s, part, &memory)) {
		nest_row_index(s, &rows);
		add_loops(n, &root, &s->rows);
		root.row_mask = n->rows = mask_of(root.rows, root.nrows);
		root.value = nest_row_axes(s) && part == NEST_PART_ABOVE &&
			     is_of_exponentials(s->node)
			? converted_sum(s, &rows)
			: reduce_row(s, part, rows, s->over_mask);
		root.place = nest_row_offset(s, &rows);
		n->rows = outer;
		if (!root.value) {
			return 0;
		}
		temp.elems = nest_row_count(n, &s->rows);
		temp.axes = own ? 0 : nest_row_axes(s);
		temp.colls = temp.axes != 0;
		temp.most = is_maximum(s, part);
		memory = add_temp(s, part, &root, temp);
	}
	return nest_make(n, (struct nest_expr){
		.op = NEST_LOAD, .kind = NEST_FLOAT, .ref = memory,
		.a = nest_row_offset(s, env) });
}

/* ---- sums over the rows themselves ---- */

/* Whether a node sums over rows of the kernel: *rows are those, *inside the
 * other dims that it sums over.  Only sums are made of partial results. */
static bool
sums_over_rows(struct nest_row *s, struct ir_type *rows, struct ir_type *inside)
{
	const struct nest *n = s->n;
	const int64_t most = n->in.parts ? ALL_PARTIAL_ELEMS / n->in.parts
					 : PARTIAL_ELEMS;
	const struct ir_type *shape = n->in.k->work->shape;
	const struct ir_type *in = ir_type(n->in.m,
					   ir_args(n->in.m, s->node)[0]);
	uint32_t i;

	*rows = *inside = (struct ir_type){ 0 };
	if (n->in.box || s->node->nargs != 1 || is_maximum(s, 0) ||
	    nest_row_count(n, &s->rows) > most) {
		return false;
	}
	for (i = 0; i < shape->ndims; i++) {
		if (!ir_type_has(in, shape->dims[i])) {
			return false;
		}
		if (ir_type_has(&s->over, shape->dims[i])) {
			rows->dims[rows->ndims] = shape->dims[i];
			rows->cut[rows->ndims++] = shape->cut[i];
		}
	}
	for (i = 0; i < s->over.ndims; i++) {
		if (!ir_type_has(rows, s->over.dims[i])) {
			inside->dims[inside->ndims] = s->over.dims[i];
			inside->cut[inside->ndims++] = s->over.cut[i];
		}
	}
	/* a sum over everything: reduce its last dim in each row */
	if (inside->ndims == 0 && s->rows.ndims == 0 && rows->ndims > 1) {
		inside->dims[0] = rows->dims[rows->ndims - 1];
		inside->cut[0] = rows->cut[--rows->ndims];
		inside->ndims = 1;
	}
	return rows->ndims > 0;
}

/* A loop over partial sums; one for each number of them. */
static uint32_t
part_loop(struct nest *n, int64_t parts)
{
	uint32_t i;

	for (i = 0; i < n->loops.n; i++) {
		if (n->loops.at[i].box == -2 && n->loops.at[i].size == parts) {
			return i;
		}
	}
	return nest_add_loop(n, parts, -2);
}

/* Adds a temp with one partial sum per item. */
static bool
store_partials(struct nest_row *s, const struct ir_type *rows,
	       const struct ir_type *inside, uint32_t *memory)
{
	struct nest *n = s->n;
	uint64_t outer = n->rows, over = 0;
	struct nest_root root = { .part = true, .add = true };
	struct nest_temp temp = { 0 };
	struct nest_env own;
	int64_t all = nest_row_count(n, rows);
	uint32_t i;

	nest_row_index(s, &own);
	add_loops(n, &root, rows);
	for (i = 0; i < inside->ndims; i++) {
		over |= nest_dim_of(n, inside->dims[i], inside->cut[i])->mask;
	}
	if (inside->ndims > 0) {
		add_loops(n, &root, &s->rows);
		all *= nest_row_count(n, &s->rows);
	} else {
		root.ninner = nest_type_loops(n, &s->rows, root.inner);
	}
	root.row_mask = n->rows = mask_of(root.rows, root.nrows);
	root.value = reduce_row(s, 0, own, over);
	root.place = nest_row_offset(s, &own);
	n->rows = outer;
	if (!root.value) {
		return false;
	}
	temp.elems = nest_row_count(n, &s->rows);
	temp.parts = nest_parts(all, n->in.parts);
	*memory = add_temp(s, 0, &root, temp);
	return true;
}

static nest_id
sum_of_partials(struct nest_row *s, const struct ir_type *rows,
		const struct ir_type *inside, const struct nest_env *env)
{
	struct nest *n = s->n;
	const struct nest_temp *temp;
	uint32_t memory, loop;
	nest_id at;

	if (!is_stored(s, 0, &memory) &&
	    !store_partials(s, rows, inside, &memory)) {
		return 0;
	}
	temp = &n->temps.at[n->memory.at[memory].i];
	loop = part_loop(n, temp->parts);
	at = nest_make(n, (struct nest_expr){
		.op = NEST_LOOP, .kind = NEST_INT, .i = loop });
	at = nest_binary(n, NEST_MUL, at, nest_int(n, temp->elems));
	at = nest_binary(n, NEST_ADD, at, nest_row_offset(s, env));
	at = nest_make(n, (struct nest_expr){
		.op = NEST_LOAD, .kind = NEST_FLOAT, .ref = memory, .a = at });
	return nest_reduce(n, NEST_SUM, n->wide ? nest_cast(n, at, NEST_WIDE)
						: at, (uint64_t)1 << loop);
}

/* ---- what is known of a row ---- */

nest_id
nest_row_statistic(struct nest_row *s, uint32_t part,
		   const struct nest_env *env)
{
	struct nest *n = s->n;
	struct ir_type rows, inside;
	uint64_t loops = 0;
	uint32_t i;

	for (i = 0; i < s->rows.ndims; i++) {
		nest_id at = nest_env_at(env, s->rows.dims[i]);

		loops |= nest_at(n, at)->loops;
	}
	if (sums_over_rows(s, &rows, &inside)) {
		return sum_of_partials(s, &rows, &inside, env);
	}
	if (!nest_row_axes(s) && !(loops & ~n->rows) &&
	    !(s->over_mask & (n->rows | loops))) {
		return reduce_row(s, part, *env, s->over_mask);
	}
	return stored_statistic(s, part, env);
}

nest_id
nest_row_label(struct nest_row *s, const struct nest_env *env)
{
	return nest_row_axes(s) ? stored_statistic(s, NEST_PART_LABEL, env)
				: label(s, env);
}

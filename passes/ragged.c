/*
 * ragged: turns the model into the step that serves it.  The step computes
 * `serve.tokens` positions of any sequences, in any mix, and the logits of
 * `serve.rows` of them.  Keys and values that attention has of earlier steps
 * lie in a cache of `serve.slots` positions a layer.  Inputs say where:
 *
 *   tokens, positions   of each position of the step; `position`, too, is its
 *                       number, as an index
 *   slot                where the cache keeps its keys and values
 *   key                 the slots of all keys that the step attends to
 *   key_positions       of each of these keys
 *   first, last         of each position, its keys: numbers into `key`
 *   row                 the positions whose logits are wanted
 *
 * A value is one of four kinds.  It depends on no position (weights,
 * constants), or it has a row for each position of the step, for each key, or
 * for each position whose logits are wanted.  The model has one dim of
 * positions, which becomes that of the kind; `batch` goes away.  Where
 * attention takes keys, or where the model says `cache`, rows of the step are
 * appended to the cache and those of all keys gathered from it; after the last
 * layer, the wanted rows are gathered.  Causal masks and windows become ranges
 * of keys.  With `serve.cache` the cache has that type: `append` rounds rows to
 * it, and a `cast` after the gather makes them what the model computes with.
 *
 * A serve block alone changes nothing, as the model may be trained, too: the
 * pass acts if the setting `program.serves` is there, which --serve makes with
 * -o or --emit=ranks.
 */
#include "passes/pass.h"
#include "passes/ragged.h"

#include <stddef.h>
#include <string.h>

/* ---- inputs ---- */

/* What the numbers of an input count; NOTHING: it is f32. */
enum counted { NOTHING, OF_SEQ, OF_SLOTS, OF_STEP_ROWS, NCOUNTED };

static const struct step_input {
	const char *name;
	enum counted of;
	enum ragged_rows rows;
	size_t at;		/* in struct ragged */
} step_inputs[] = {
#define INPUT(name, of, rows) { #name, of, rows, offsetof(struct ragged, name) }
	INPUT(position, OF_SEQ, OF_STEP),
	INPUT(positions, NOTHING, OF_STEP),
	INPUT(slot, OF_SLOTS, OF_STEP),
	INPUT(key, OF_SLOTS, OF_KEYS),
	INPUT(first, NOTHING, OF_STEP),
	INPUT(last, NOTHING, OF_STEP),
	INPUT(row, OF_STEP_ROWS, OF_WANTED),
	INPUT(key_positions, NOTHING, OF_KEYS),
#undef INPUT
};
#define NINPUTS (sizeof step_inputs / sizeof *step_inputs)

/* Which of them the node is; NULL: none. */
static const struct step_input *
step_input(const struct ir_module *m, const struct ir_node *n)
{
	const char *name = n->op == IR_INPUT
		? ir_text(m->ctx, ir_attr(m, n, IR_ATTR_NAME)->text) : "";
	uint32_t i;

	for (i = 0; i < NINPUTS; i++) {
		if (strcmp(step_inputs[i].name, name) == 0) {
			return &step_inputs[i];
		}
	}
	return NULL;
}

static value_id
input(struct ragged *r, const char *name, enum ir_dtype dtype, dim_id of,
      dim_id dim)
{
	struct ir_type t = { .dtype = (uint8_t)dtype, .ndims = 1, .of = of,
			     .dims = { dim } };
	struct span nowhere = { 0, 0 };
	struct ir_new n;

	ir_new_init(&n, IR_INPUT, nowhere);
	ir_new_text(&n, IR_ATTR_NAME, intern_str(&r->m->ctx->syms, name));
	return ragged_append(r, r->body, &n, &t);
}

/* ---- attention ---- */

static value_id
number(struct ragged *r, region_id to, double v, struct span at)
{
	struct ir_type t = { .dtype = IR_F32 };
	struct ir_new n;

	ir_new_init(&n, IR_CONST, at);
	ir_new_num(&n, IR_ATTR_VALUE, v);
	return ragged_append(r, to, &n, &t);
}

static value_id
pair(struct ragged *r, region_id to, enum ir_op op, value_id a, value_id b,
     struct span at)
{
	struct ir_new n;

	ir_new_init(&n, op, at);
	ir_new_arg(&n, a);
	ir_new_arg(&n, b);
	return ragged_append(r, to, &n, ir_type(r->m, a));
}

/* The first key of each position: with a window one of the latest. */
static value_id
first_key(struct ragged *r, region_id to, const struct ir_node *n)
{
	int64_t window = ir_attr_int(r->m, n, IR_ATTR_WINDOW, 0);

	return window == 0 ? r->first
		: pair(r, to, IR_MAX, r->first, pair(r, to, IR_SUB, r->last,
			number(r, to, (double)(window - 1), n->span),
			n->span), n->span);
}

static bool
copy_attention(struct ragged *r, const struct ir_node *n, region_id to,
	       const char *around)
{
	bool sinks = n->op == IR_ATTENTION_SINKS;
	const value_id *args = ir_args(r->m, n);
	struct ir_type t = ragged_type(r, ir_type(r->m, n->result), OF_STEP);
	struct ir_new copy;
	value_id v[6];
	uint32_t i, nv = 0;

	if (n->op != IR_ATTENTION && !sinks) {
		return ragged_refuse(r, n, "its ranges of keys are of a batch "
				     "for training");
	}
	if (!ir_attr(r->m, n, IR_ATTR_CAUSAL)) {
		return ragged_refuse(r, n, "its queries see later keys, which "
				     "come in later steps: `causal` is "
				     "missing");
	}
	if (r->rows[args[0]] != OF_STEP || !ragged_may_be_keys(r, args[1]) ||
	    !ragged_may_be_keys(r, args[2])) {
		return ragged_refuse(r, n, "positions are not the outermost "
				     "dim of its operands");
	}
	v[nv++] = r->map[args[0]];
	v[nv++] = ragged_keys(r, to, args[1], around, n->span);
	v[nv++] = ragged_keys(r, to, args[2], around, n->span);
	if (sinks) {
		v[nv++] = r->map[args[3]];
	}
	v[nv++] = first_key(r, to, n);
	v[nv++] = r->last;
	ir_new_init(&copy, sinks ? IR_ATTENTION_SINKS_BETWEEN
				 : IR_ATTENTION_BETWEEN, n->span);
	for (i = 0; i < nv; i++) {
		ir_new_arg(&copy, v[i]);
	}
	for (i = 0; i < n->nattrs; i++) {
		struct ir_attr a = r->m->attrs.at[n->attrs + i];

		/* ALiBi counts from `last`, as it is not causal here */
		if (a.key == IR_ATTR_SCALE || a.key == IR_ATTR_SOFTCAP ||
		    a.key == IR_ATTR_ALIBI) {
			copy.attrs[copy.nattrs++] = a;
		}
	}
	copy.hint = r->m->values.at[n->result].hint;
	r->map[n->result] = ragged_append(r, to, &copy, &t);
	r->rows[n->result] = OF_STEP;
	return true;
}

/* ---- nodes ---- */

static bool copy_nodes(struct ragged *r, region_id from, region_id to,
		       const char *around);

/* What is gathered inside is no value outside. */
static bool
copy_inside(struct ragged *r, region_id from, region_id to, const char *around)
{
	value_id *outside = arena_dup(&r->m->ctx->tmp, r->as_keys,
				      r->nold * sizeof *outside);
	bool ok = copy_nodes(r, from, to, around);

	r->as_keys = outside;
	return ok;
}

/* A repeat carries the rows that it starts with. */
static bool
copy_repeat(struct ragged *r, const struct ir_node *n, region_id to,
	    const char *around)
{
	struct ir_module *m = r->m;
	const struct ir_attr *var = ir_attr(m, n, IR_ATTR_VAR);
	struct ir_new copy;
	const char *why = "?", *inside = around;
	uint32_t at[IR_MAX_ARGS], i;
	value_id first;

	if (var) {
		inside = arena_printf(&m->ctx->tmp, "%s.{%s}", around,
				      ir_text(m->ctx, var->text));
	}
	ir_new_init(&copy, (enum ir_op)n->op, n->span);
	ragged_copy_attrs(r, n, NO_ROWS, &copy);
	copy.region = ir_region_add(m, 0);
	copy.nresults = 0;
	for (i = 0; i < n->nargs; i++) {
		value_id v = ir_args(m, n)[i];
		value_id p = m->regions.at[n->region].params.at[i];
		struct ir_type *t = &copy.types[copy.nresults];

		if (!ragged_is_carried(r, n, i)) {
			continue;
		}
		ir_new_arg(&copy, r->map[v]);
		*t = *ir_type(m, r->map[v]);
		at[copy.nresults++] = i;
		r->map[p] = ir_param_add(m, copy.region, t,
					 m->values.at[p].hint);
		r->rows[p] = r->rows[v];
	}
	if (!copy_inside(r, n->region, copy.region, inside)) {
		return false;
	}
	for (i = 0; i < copy.nresults; i++) {
		value_id y = m->regions.at[n->region].results.at[at[i]];

		if (r->rows[y] != r->rows[ir_args(m, n)[at[i]]]) {
			return ragged_refuse(r, n, "it carries other rows than "
					     "it starts with");
		}
		VEC_PUSH(&m->ctx->perm, &m->regions.at[copy.region].results,
			 r->map[y]);
	}
	first = ir_append(m, to, &copy, &why);
	if (!first) {
		die("a repeat of a step does not fit: %s", why);
	}
	for (i = 0; i < copy.nresults; i++) {
		value_id old = n->result + at[i];

		m->values.at[first + i].hint = m->values.at[old].hint;
		r->map[old] = first + i;
		r->rows[old] = r->rows[ir_args(m, n)[at[i]]];
	}
	return true;
}

/* Others than these have no copy. */
static bool
copy_input(struct ragged *r, const struct ir_node *n)
{
	const char *name = ir_text(r->m->ctx, ir_attr(r->m, n,
						      IR_ATTR_NAME)->text);
	const struct ir_type *t = ir_type(r->m, n->result);

	r->rows[n->result] = OF_STEP;
	if (strcmp(name, "positions") == 0 && t->dtype == IR_F32) {
		r->map[n->result] = r->positions;
		return true;
	}
	if (t->of && t->ndims == 2 && t->dims[1] == r->seq &&
	    strcmp(name, "tokens") == 0) {
		r->map[n->result] = input(r, "tokens", IR_IDX, t->of,
					  r->dim[OF_STEP]);
		return true;
	}
	return true;
}

static bool
refuse_input(const struct ragged *r, const struct ir_node *n)
{
	const char *name = ir_text(r->m->ctx, ir_attr(r->m, n,
						      IR_ATTR_NAME)->text);
	bool marks = strncmp(name, "document", 8) == 0 ||
		     strncmp(name, "prefix", 6) == 0;

	diag_error(&r->m->ctx->diags, n->span, "the input `%s` cannot be "
		   "served: a request %s", name, marks ? "is one document, "
		   "and `attention` with `causal` is what its tokens see"
		   : "has `tokens` alone");
	return false;
}

/* Whether all operands have copies; labels and the like have none. */
static bool
has_operands(const struct ragged *r, const struct ir_node *n)
{
	struct ir_module *m = r->m;
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		value_id v = ir_args(m, n)[i];

		if (!r->map[v] && (!n->region || ragged_is_carried(r, n, i))) {
			return refuse_input(r, ir_node(m,
						m->values.at[v].node));
		}
	}
	return true;
}

/* A mask of dropout keeps everything: what is kept was scaled up. */
static void
copy_mask(struct ragged *r, const struct ir_node *n, region_id to)
{
	struct ir_type t = { .dtype = ir_type(r->m, n->result)->dtype };
	struct ir_new one;

	ir_new_init(&one, IR_CONST, n->span);
	ir_new_num(&one, IR_ATTR_VALUE, 1 - ir_attr_num(r->m, n, IR_ATTR_RATE,
							0));
	r->map[n->result] = ragged_append(r, to, &one, &t);
	r->rows[n->result] = NO_ROWS;
}

/* rope counts rows of a dim; here rows have positions of their own. */
static void
place_rope(struct ragged *r, struct ir_new *copy, region_id to,
	   enum ragged_rows rows)
{
	uint32_t i, kept = 0;

	copy->op = IR_ROPE_AT;
	ir_new_arg(copy, rows == OF_KEYS ? r->key_positions
		   : rows == OF_STEP ? r->positions
		   : ragged_wanted(r, to, r->positions, copy->span));
	for (i = 0; i < copy->nattrs; i++) {
		if (copy->attrs[i].key != IR_ATTR_SEQ) {
			copy->attrs[kept++] = copy->attrs[i];
		}
	}
	copy->nattrs = kept;
}

/* Whether operand i is a table that a gather takes rows of by index. */
static bool
is_table(const struct ragged *r, const struct ir_node *n, uint32_t i)
{
	return n->op == IR_GATHER && i == 0 &&
	       r->rows[ir_args(r->m, n)[0]] == NO_ROWS;
}

static bool
copy_node(struct ragged *r, node_id id, region_id to, const char *around)
{
	const struct ir_node n = *ir_node(r->m, id);
	enum ragged_rows rows;
	struct ir_type t;
	struct ir_new copy;
	uint32_t i;

	if (n.op == IR_INPUT) {
		return copy_input(r, &n);
	}
	if (!has_operands(r, &n)) {
		return false;
	}
	if (n.op == IR_DROPOUT_MASK) {
		copy_mask(r, &n, to);
		return true;
	}
	if (ir_is(n.op, IRF_REGION)) {
		return copy_repeat(r, &n, to, around);
	}
	if (ir_is(n.op, IRF_PAIRS)) {
		return copy_attention(r, &n, to, around);
	}
	rows = ragged_rows_of(r, &n);
	if (n.op == IR_SLICE && rows == OF_KEYS &&
	    ragged_slice_keys(r, &n, to)) {
		return true;
	}
	if (n.op == IR_CACHE && ragged_may_be_keys(r, ir_args(r->m, &n)[0])) {
		r->map[n.result] = ragged_keys(r, to, ir_args(r->m, &n)[0],
					   around, n.span);
		r->rows[n.result] = OF_KEYS;
		return true;
	}
	if (rows != NO_ROWS && !is_table(r, &n, 0) && ragged_mixes(r, &n)) {
		return ragged_refuse(r, &n, "it brings positions together, and "
				     "only attention may");
	}
	ir_new_init(&copy, (enum ir_op)n.op, n.span);
	for (i = 0; i < n.nargs; i++) {
		value_id v = ir_args(r->m, &n)[i], of = r->map[v];

		if (!is_table(r, &n, i) &&
		    !ragged_operand(r, &n, to, v, rows, &of)) {
			return false;
		}
		ir_new_arg(&copy, of);
	}
	ragged_copy_attrs(r, &n, rows, &copy);
	if (n.op == IR_ROPE) {
		place_rope(r, &copy, to, rows);
	}
	t = ragged_type(r, ir_type(r->m, n.result), rows);
	copy.hint = r->m->values.at[n.result].hint;
	r->map[n.result] = ragged_append(r, to, &copy, &t);
	r->rows[n.result] = (uint8_t)rows;
	return true;
}

static bool
copy_nodes(struct ragged *r, region_id from, region_id to, const char *around)
{
	uint32_t n = r->m->regions.at[from].nodes.n, i, last = 0;
	bool top = to == r->body;

	for (i = 0; i < n && top; i++) {
		const struct ir_node *x = ir_node(r->m,
			r->m->regions.at[from].nodes.at[i]);

		last = ir_is(x->op, IRF_REGION | IRF_PAIRS) ? i + 1 : last;
	}
	for (i = 0; i < n; i++) {
		node_id id = r->m->regions.at[from].nodes.at[i];

		r->is_tail = top && i >= last;
		if (ragged_is_used(r, id) && !copy_node(r, id, to, around)) {
			return false;
		}
	}
	return true;
}

/* ---- the step ---- */

/* A dim of that size, under a name that no dim has. */
static dim_id
new_dim(struct ragged *r, const char *name, const char *setting)
{
	struct span nowhere = { 0, 0 };
	struct ir_module *m = r->m;
	const char *text = name;
	int i;

	for (i = 2; ir_dim_find(m, intern_str(&m->ctx->syms, text)); i++) {
		text = arena_printf(&m->ctx->tmp, "%s%d", name, i);
	}
	return ir_dim_add(m, intern_str(&m->ctx->syms, text),
			  (int64_t)ir_setting_num(m, setting, 0), 0, nowhere);
}

static void
add_inputs(struct ragged *r)
{
	const dim_id of[NCOUNTED] = {
		[OF_SEQ] = r->seq, [OF_SLOTS] = r->slots,
		[OF_STEP_ROWS] = r->dim[OF_STEP]
	};
	uint32_t i;

	for (i = 0; i < NINPUTS; i++) {
		const struct step_input *x = &step_inputs[i];
		value_id v = input(r, x->name, x->of ? IR_IDX : IR_F32,
				   of[x->of], r->dim[x->rows]);

		memcpy((char *)r + x->at, &v, sizeof v);
	}
}

/* The result of the model: its logits, of the wanted rows. */
static bool
add_result(struct ragged *r, region_id model)
{
	struct ir_module *m = r->m;
	value_id v = m->regions.at[model].results.at[0], rows;
	node_id maker = m->values.at[v].node;

	if (!ragged_operand(r, ir_node(m, maker), r->body, v, OF_WANTED,
			    &rows)) {
		return false;
	}
	if (r->ncaches == 0) {
		return ragged_refuse(r, ir_node(m, maker), "no attention "
				     "before it reads keys of earlier "
				     "positions, so there is no cache");
	}
	VEC_PUSH(&m->ctx->perm, &m->regions.at[r->body].results, rows);
	return true;
}

static bool
has_sizes(const struct ir_module *m)
{
	static const char *const keys[] = { "serve.tokens", "serve.rows",
					    "serve.keys", "serve.slots" };
	size_t i;

	for (i = 0; i < sizeof keys / sizeof *keys; i++) {
		if (!ir_setting(m, keys[i])) {
			diag_error(&m->ctx->diags, m->funcs.at[ir_model(m)]
				   .span, "a step that serves has a size for "
				   "each dim, and `%s` is not set", keys[i]);
			return false;
		}
	}
	return true;
}

bool
pass_ragged(struct pass_ctx *p, struct ir_module *m)
{
	struct ragged r = { .m = m, .nold = m->values.n, .cache = IR_IDX };
	const struct ir_setting *cache;
	struct arena *a = &p->ctx->tmp;
	func_id f = ir_model(m);
	region_id old;

	if (!f || !ir_setting(m, "program.serves")) {
		return true;
	}
	if (!has_sizes(m) || !pass_keep_logits(m) ||
	    !pass_find_tokens(m, &r.batch, &r.seq)) {
		return false;
	}
	cache = ir_setting(m, "serve.cache");
	if (cache) {
		ir_find_dtype(ir_text(m->ctx, cache->text), &r.cache);
	}
	old = m->funcs.at[f].body;
	r.used = arena_alloc(a, r.nold);
	r.used[m->regions.at[old].results.at[0]] = true;
	ragged_find_used(&r, old);
	r.map = arena_alloc(a, r.nold * sizeof *r.map);
	r.as_keys = arena_alloc(a, r.nold * sizeof *r.as_keys);
	r.as_wanted = arena_alloc(a, r.nold * sizeof *r.as_wanted);
	r.rows = arena_alloc(a, r.nold);
	r.dim[OF_STEP] = new_dim(&r, "step", "serve.tokens");
	r.dim[OF_KEYS] = new_dim(&r, "keys", "serve.keys");
	r.dim[OF_WANTED] = new_dim(&r, "rows", "serve.rows");
	r.slots = new_dim(&r, "slots", "serve.slots");
	r.body = ir_region_add(m, 0);
	add_inputs(&r);
	if (!copy_nodes(&r, old, r.body, "") || !add_result(&r, old)) {
		return false;
	}
	m->funcs.at[f].body = r.body;
	pass_count(p, "caches", r.ncaches);
	return true;
}

void
pass_resize_step(struct ir_module *m, int64_t tokens, int64_t rows)
{
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);
		const struct step_input *x = step_input(m, n);

		if (x && x->rows != OF_KEYS) {
			m->dims.at[ir_type(m, n->result)->dims[0]].size =
				x->rows == OF_STEP ? tokens : rows;
		}
	}
}

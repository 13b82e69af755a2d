/*
 * Values of the step that serves a model, by the rows that they have: their
 * types, the rows of one that another takes, and the cache, from which rows of
 * all keys come.
 */
#include "passes/ragged.h"

/* ---- values ---- */

value_id
ragged_append(struct ragged *r, region_id to, struct ir_new *n,
	      const struct ir_type *t)
{
	const char *why = "?";
	value_id v;

	n->nresults = 1;
	n->types[0] = *t;
	v = ir_append(r->m, to, n, &why);
	if (!v) {
		die("a %s of a step does not fit: %s", ir_ops[n->op].name,
		    why);
	}
	return v;
}

static int
at_dim(const struct ir_type *t, dim_id d)
{
	return d ? ir_type_at(t, d) : -1;
}

static void
drop_dim(struct ir_type *t, int at)
{
	uint32_t i;

	for (i = (uint32_t)at; i + 1 < t->ndims; i++) {
		t->dims[i] = t->dims[i + 1];
	}
	t->ndims--;
}

struct ir_type
ragged_type(const struct ragged *r, const struct ir_type *old,
	    enum ragged_rows rows)
{
	struct ir_type t = *old;
	int at;

	if (rows == NO_ROWS) {
		return t;
	}
	at = at_dim(&t, r->batch);
	if (at >= 0) {
		drop_dim(&t, at);
	}
	at = at_dim(&t, r->seq);
	if (at >= 0) {
		t.dims[at] = r->dim[rows];
	}
	return t;
}

/* Rows of v, whose positions dim is the outermost, by index. */
static value_id
gather(struct ragged *r, region_id to, value_id v, dim_id of, value_id index,
       struct span at)
{
	struct ir_type t = *ir_type(r->m, v);
	struct ir_new n;

	t.dims[0] = ir_type(r->m, index)->dims[0];
	ir_new_init(&n, IR_GATHER, at);
	ir_new_arg(&n, v);
	ir_new_arg(&n, index);
	ir_new_dim(&n, IR_ATTR_OF, of);
	return ragged_append(r, to, &n, &t);
}

value_id
ragged_wanted(struct ragged *r, region_id to, value_id v, struct span at)
{
	return gather(r, to, v, r->dim[OF_STEP], r->row, at);
}

/* ---- the cache ---- */

/* "cache3.{i}.{j}": one tensor in each iteration of the repeats around. */
static sym_t
cache_name(struct ragged *r, const char *around)
{
	return intern_str(&r->m->ctx->syms, arena_printf(&r->m->ctx->tmp,
		"cache%u%s", r->ncaches++, around));
}

bool
ragged_may_be_keys(const struct ragged *r, value_id v)
{
	return r->rows[v] == OF_KEYS ||
	       (r->rows[v] == OF_STEP &&
		ir_type_at(ir_type(r->m, r->map[v]), r->dim[OF_STEP]) == 0);
}

/* The cache of rows v of a step, with these put in. */
static value_id
append_rows(struct ragged *r, region_id to, value_id v, const char *around,
	    struct span at)
{
	struct ir_type t = *ir_type(r->m, v);
	struct ir_new n;

	t.dims[0] = r->slots;
	t.dtype = (uint8_t)(r->cache == IR_IDX ? t.dtype : r->cache);
	ir_new_init(&n, IR_APPEND, at);
	ir_new_arg(&n, v);
	ir_new_arg(&n, r->slot);
	ir_new_text(&n, IR_ATTR_NAME, cache_name(r, around));
	ir_new_dim(&n, IR_ATTR_OF, r->slots);
	ir_new_dim(&n, IR_ATTR_OVER, r->dim[OF_STEP]);
	return ragged_append(r, to, &n, &t);
}

static value_id
cast(struct ragged *r, region_id to, value_id v, uint8_t dtype, struct span at)
{
	struct ir_type t = *ir_type(r->m, v);
	struct ir_new n;

	if (t.dtype == dtype) {
		return v;
	}
	t.dtype = dtype;
	ir_new_init(&n, IR_CAST, at);
	ir_new_arg(&n, v);
	return ragged_append(r, to, &n, &t);
}

value_id
ragged_keys(struct ragged *r, region_id to, value_id v, const char *around,
	struct span at)
{
	value_id of = r->map[v], rows;

	if (r->rows[v] == OF_KEYS) {
		return of;
	}
	if (!r->as_keys[v]) {
		rows = gather(r, to, append_rows(r, to, of, around, at),
			      r->slots, r->key, at);
		r->as_keys[v] = cast(r, to, rows, ir_type(r->m, of)->dtype,
				     at);
	}
	return r->as_keys[v];
}

/* What the node casts; the node itself if it is no cast. */
static const struct ir_node *
before_cast(const struct ir_module *m, const struct ir_node *n)
{
	return n->op == IR_CAST
		? ir_node(m, m->values.at[ir_args(m, n)[0]].node) : n;
}

bool
ragged_slice_keys(struct ragged *r, const struct ir_node *n, region_id to)
{
	struct ir_module *m = r->m;
	const struct ir_type t = *ir_type(m, n->result);
	value_id v = r->map[ir_args(m, n)[0]], cache;
	const struct ir_node *of;
	struct ir_type rows;
	struct ir_new copy;

	of = before_cast(m, ir_node(m, m->values.at[v].node));
	if (of->op != IR_GATHER || ir_args(m, of)[1] != r->key) {
		return false;
	}
	cache = ir_args(m, of)[0];
	rows = ragged_type(r, &t, OF_KEYS);
	if (rows.dims[0] != r->dim[OF_KEYS]) {
		return false;
	}
	rows.dims[0] = r->slots;
	rows.dtype = ir_type(m, cache)->dtype;
	ir_new_init(&copy, IR_SLICE, n->span);
	ir_new_arg(&copy, cache);
	ragged_copy_attrs(r, n, NO_ROWS, &copy);
	cache = ragged_append(r, to, &copy, &rows);
	v = gather(r, to, cache, r->slots, r->key, n->span);
	v = cast(r, to, v, t.dtype, n->span);
	m->values.at[v].hint = m->values.at[n->result].hint;
	r->map[n->result] = v;
	r->rows[n->result] = OF_KEYS;
	return true;
}

/* ---- operands ---- */

bool
ragged_refuse(struct ragged *r, const struct ir_node *n, const char *why)
{
	diag_error(&r->m->ctx->diags, n->span, "`%s` cannot be served: %s",
		   ir_ops[n->op].name, why);
	return false;
}

bool
ragged_operand(struct ragged *r, const struct ir_node *n, region_id to,
	       value_id v, enum ragged_rows rows, value_id *out)
{
	const struct ir_type *t = ir_type(r->m, r->map[v]);
	int at = at_dim(t, r->seq);

	*out = r->map[v];
	if (r->rows[v] == rows || (r->rows[v] == NO_ROWS && at < 0)) {
		return true;
	}
	if (r->rows[v] == NO_ROWS && at == 0 && rows != OF_KEYS) {
		/* a table that has a row for each position */
		*out = gather(r, to, r->map[v], r->seq, r->position,
			      n->span);
		if (rows == OF_WANTED) {
			*out = ragged_wanted(r, to, *out, n->span);
		}
		return true;
	}
	if (r->rows[v] == OF_STEP && rows == OF_WANTED &&
	    ir_type_at(t, r->dim[OF_STEP]) == 0) {
		if (!r->as_wanted[v]) {
			r->as_wanted[v] = ragged_wanted(r, to, r->map[v],
							n->span);
		}
		*out = r->as_wanted[v];
		return true;
	}
	return ragged_refuse(r, n, "it takes a value of each key and one of "
			     "each query, and only attention may");
}

enum ragged_rows
ragged_rows_of(const struct ragged *r, const struct ir_node *n)
{
	const struct ir_type *t = ir_type(r->m, n->result);
	enum ragged_rows most = NO_ROWS;
	bool may_select = r->is_tail;
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		value_id v = ir_args(r->m, n)[i];
		enum ragged_rows of = r->rows[v];

		most = of == OF_KEYS || most == NO_ROWS ? of : most;
		may_select &= of != OF_STEP ||
			      ir_type(r->m, v)->dtype != IR_IDX;
	}
	if (most == NO_ROWS && at_dim(t, r->batch) >= 0) {
		most = OF_STEP;
	}
	return most == OF_STEP && may_select ? OF_WANTED : most;
}

bool
ragged_mixes(const struct ragged *r, const struct ir_node *n)
{
	uint32_t i, k;

	for (i = 0; i < n->nattrs; i++) {
		const struct ir_attr *a = &r->m->attrs.at[n->attrs + i];

		for (k = 0; k < a->ndims; k++) {
			bool rows = a->dims[k] == r->seq ||
				    a->dims[k] == r->batch;

			if (rows && n->op != IR_ROPE && n->op != IR_EXPAND &&
			    n->op != IR_ARRANGE) {
				return true;
			}
		}
	}
	return false;
}

void
ragged_copy_attrs(const struct ragged *r, const struct ir_node *n,
		  enum ragged_rows rows, struct ir_new *copy)
{
	uint32_t i, k, kept;

	for (i = 0; i < n->nattrs; i++) {
		struct ir_attr a = r->m->attrs.at[n->attrs + i];

		if (rows != NO_ROWS && a.key != IR_ATTR_OF) {
			for (k = kept = 0; k < a.ndims; k++) {
				dim_id d = a.dims[k];

				d = d == r->seq ? r->dim[rows] : d;
				if (d != r->batch) {
					a.dims[kept++] = d;
				}
			}
			a.ndims = (uint8_t)kept;
		}
		if (a.key != IR_ATTR_BALANCE) {
			copy->attrs[copy->nattrs++] = a;
		}
	}
	if (ir_is(n->op, IRF_PARAM) && !ir_attr(r->m, n, IR_ATTR_FROZEN)) {
		ir_new_int(copy, IR_ATTR_FROZEN, 1);
	}
}

/*
 * Values of attention that are NaN in one key, once the interpreter has been
 * asked: what comes of queries that see it is NaN in that column, and all else
 * is as if they were not.  A part of t-attention.h, with its `s`.
 */
#ifndef T_ATTENTION_BAD_H
#define T_ATTENTION_BAD_H

/* Where a key's values lie: keys may be rows that an index selects. */
static int64_t
row_of(int64_t key)
{
	return s.index ? (int64_t)s.values[s.index].data[key] : key;
}

/* Whether an element of OUT is of a query that sees the key that is bad, in the
 * column that is. */
static bool
is_bad(value_id v, int64_t place)
{
	const struct ir_type *type = ir_type(s.m, v);
	int64_t heads, cols, query, key, keys;

	if (!s.bad || type->ndims != 4) {
		return false;
	}
	heads = ir_dim_size(s.m, type->dims[2]);
	cols = ir_dim_size(s.m, type->dims[3]);
	query = place / cols / heads;
	if (place % cols != s.bad_col) {
		return false;
	}
	keys = ir_dim_size(s.m, ir_type(s.m, s.keys)->dims[1]);
	for (key = 0; key < keys; key++) {
		if (row_of(key) == row_of(s.bad_key) &&
		    s.values[s.first].data[query] <= (double)key &&
		    s.values[s.last].data[query] >= (double)key) {
			return true;
		}
	}
	return false;
}

/* Finds where values come from: from a cast, of a gather of rows. */
static void
find_rows(value_id v)
{
	const struct ir_node *n = ir_node(s.m, s.m->values.at[v].node);

	s.index = 0;
	if (n->op == IR_CAST) {
		v = ir_args(s.m, n)[0];
		n = ir_node(s.m, s.m->values.at[v].node);
	}
	if (n->op == IR_GATHER) {
		s.index = ir_args(s.m, n)[1];
		v = ir_args(s.m, n)[0];
	}
	s.bad_v = v;
}

/* Finds what attention reads. */
static void
find_values(void)
{
	node_id id;

	for (id = 1; id < s.m->nodes.n; id++) {
		const struct ir_node *n = ir_node(s.m, id);
		const value_id *of = ir_args(s.m, n);

		if (n->nargs >= 5 && ir_type(s.m, n->result)->ndims == 4) {
			s.keys = of[1];
			find_rows(of[2]);
			s.first = of[n->nargs - 2];
			s.last = of[n->nargs - 1];
		}
	}
}

/* A column of the values is NaN in one key, of all kv heads. */
static void
spoil_values(void)
{
	const struct ir_type *type;
	int64_t kv, cols, i;
	double *x;

	find_values();
	type = ir_type(s.m, s.bad_v);
	kv = ir_dim_size(s.m, type->dims[type->ndims - 2]);
	cols = ir_dim_size(s.m, type->dims[type->ndims - 1]);
	x = arena_dup(&s.c.perm, s.values[s.bad_v].data,
		      (size_t)s.values[s.bad_v].elems * sizeof *x);
	for (i = 0; i < kv; i++) {
		x[(row_of(s.bad_key) * kv + i) * cols + s.bad_col] = NAN;
	}
	s.values[s.bad_v].data = x;
}

#endif

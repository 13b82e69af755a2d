/*
 * quantise: stores the matrices of a program that serves as `serve.weights`
 * says: in f8e4m3 those of layers, in int8 also those outside of them, as the
 * head; with int4 those of layers are int4 and the others int8.
 *
 * It needs a flat program.  Elements of a matrix W that one contraction sums up
 * over share a scale: W[n, k] = V[n, k] * S[n], with V in 8 bits.  So
 *
 *	y = dot(x, W, over=k)
 *
 * becomes
 *
 *	y = rescale(dot_f32(x, cast(V), over=k), S)
 *
 * 8 bits are exact in any wider type, so `cast` rounds nothing; it is free in
 * kernels, which widen V as they load it.  S does not depend on how k is
 * split, so ranks that hold parts of k have the same S.  A choice of experts,
 * dot_at, takes the scales of the chosen by the same index.  Rows that are
 * looked up, as those of an embedding that is the head, too, become
 *
 *	y = rescale(f32(gather(cast(V), i)), gather(S, i))
 *
 * Both are sources of the program.  V has the weight's name and says along
 * which dims a scale is shared (`rounded`); S is `scales` of that name and
 * `_scale_inv`, as published files have it.  Whoever reads the weight rounds
 * it: the interpreter, and ranks when they load.
 *
 * A scale of a group of k cannot be applied after the sum over k, so an int4
 * has its scales inside: an element of it is the number that it stands for,
 * and
 *
 *	y = dot(x, cast(W), over=k)
 *
 * where `cast` stands for what kernels do: they sum up x times the whole
 * numbers of a group, and multiply that by its scale, which rounds less than
 * the type that is named.  The groups lie side by side along the last dims, so
 * a matrix that is contracted along others is int8, as are one whose rows are
 * no whole groups and one that rows are looked up in.
 *
 * stored.c says which weights stay as they are declared.  In f8e4m3 those
 * outside of layers do: published models of that type have a wider head, and
 * rounding it to three bits changes which token is the likeliest.
 */
#include "passes/derive.h"

#include <string.h>

struct quantise {
	struct ir_module *m;
	enum ir_dtype dtype;
	const struct pass_stored *as;	/* by name of a weight */
	bool groups_alone;	/* others are left as they are declared */
	region_id r;		/* where new nodes go */
	uint32_t rounded;
	VEC(value_id) from, to;
};

static sym_t
name_of(const struct quantise *x, const struct ir_node *weight)
{
	return ir_attr(x->m, weight, IR_ATTR_NAME)->text;
}

/* What the weight of that name is stored in. */
static enum ir_dtype
dtype_of(const struct quantise *x, sym_t name)
{
	return x->dtype == IR_INT4 && !x->as[name].in_groups ? IR_INT8
							     : x->dtype;
}

/* Rows of a weight along one dim of it are looked up. */
static bool
looks_up(const struct ir_node *n, uint32_t k)
{
	return n->op == IR_GATHER && k == 0;
}

static bool
is_rounded(const struct quantise *x, const struct ir_node *weight)
{
	const struct pass_stored *as = &x->as[name_of(x, weight)];

	return x->groups_alone ? as->in_groups
		: as->is_rounded && (!as->is_outer || x->dtype != IR_F8E4M3);
}

/* The weight that a node reads and that is rounded, and as which operand. */
static const struct ir_node *
rounded_in(const struct quantise *x, const struct ir_node *n, uint32_t *at)
{
	for (*at = 0; *at < n->nargs; ++*at) {
		value_id v = ir_args(x->m, n)[*at];
		const struct ir_node *w = ir_node(x->m,
						  x->m->values.at[v].node);

		if (x->m->values.at[v].node && w->op == IR_WEIGHT &&
		    is_rounded(x, w)) {
			return w;
		}
	}
	return NULL;
}

/* ---- the replacement ---- */

static void
set_dims(struct ir_new *n, enum ir_attr_key key, const dim_id *dims,
	 uint8_t ndims)
{
	struct ir_attr *a = ir_new_attr(n, key);

	a->ndims = ndims;
	memcpy(a->dims, dims, ndims * sizeof *dims);
}

/* The stored weight, or its scales. */
static value_id
source(struct quantise *x, const struct ir_node *w, bool scales)
{
	const struct ir_attr over = x->as[name_of(x, w)].over;
	const struct ir_type t = *ir_type(x->m, w->result);
	sym_t name = name_of(x, w);
	struct ir_new n;
	uint32_t i;

	ir_new_init(&n, scales ? IR_SCALES : IR_WEIGHT, w->span);
	for (i = 0; i < w->nattrs; i++) {
		const struct ir_attr *a = &x->m->attrs.at[w->attrs + i];

		if (!scales || a->key == IR_ATTR_INIT ||
		    a->key == IR_ATTR_STD) {
			n.attrs[n.nattrs++] = *a;
		}
	}
	n.nresults = 1;
	n.types[0].dtype = scales ? IR_F32 : (uint8_t)dtype_of(x, name);
	for (i = 0; i < t.ndims; i++) {
		if (!scales || !ir_attr_has(&over, t.dims[i])) {
			n.types[0].dims[n.types[0].ndims++] = t.dims[i];
		}
	}
	if (scales) {
		ir_new_text(&n, IR_ATTR_NAME, intern_str(&x->m->ctx->syms,
			arena_printf(&x->m->ctx->tmp, "%s" IR_SCALES_SUFFIX,
				     ir_text(x->m->ctx, name))));
		ir_new_attr(&n, IR_ATTR_STORED)->i = dtype_of(x, name);
		set_dims(&n, IR_ATTR_OVER, t.dims, t.ndims);
	} else {
		set_dims(&n, IR_ATTR_ROUNDED, over.dims, over.ndims);
	}
	return derive_append(x->m, x->r, &n);
}

static value_id
pair(struct quantise *x, enum ir_op op, value_id a, value_id b, uint8_t dtype,
     struct span at)
{
	struct ir_new n;

	ir_new_init(&n, op, at);
	ir_new_arg(&n, a);
	ir_new_arg(&n, b);
	n.types[0].dtype = dtype;
	return derive_append(x->m, x->r, &n);
}

/* What the node looks up by its index, in `table`. */
static value_id
look_up(struct quantise *x, const struct ir_node *by, value_id table)
{
	const struct ir_node node = *by;
	struct ir_new n;

	ir_new_init(&n, IR_GATHER, node.span);
	ir_new_arg(&n, table);
	ir_new_arg(&n, ir_args(x->m, &node)[1]);
	*ir_new_attr(&n, IR_ATTR_OF) = *ir_attr(x->m, &node, IR_ATTR_OF);
	return derive_append(x->m, x->r, &n);
}

/* The contraction by v in place of operand `at`. */
static value_id
contract_by(struct quantise *x, const struct ir_node *dot, enum ir_op op,
	    uint32_t at, value_id v)
{
	struct ir_new n;
	uint32_t i;

	ir_new_init(&n, op, dot->span);
	for (i = 0; i < dot->nargs; i++) {
		ir_new_arg(&n, i == at ? v : ir_args(x->m, dot)[i]);
	}
	for (i = 0; i < dot->nattrs; i++) {
		n.attrs[n.nattrs++] = x->m->attrs.at[dot->attrs + i];
	}
	return derive_append(x->m, x->r, &n);
}

/* The contraction by operand `at` in 8 bits, v; *scales become its rows'. */
static value_id
contract(struct quantise *x, const struct ir_node *dot, uint32_t at,
	 value_id v, value_id *scales)
{
	value_id y = contract_by(x, dot, dot->op == IR_DOT ? IR_DOT_F32
				 : IR_DOT_AT, at, v);

	if (dot->op == IR_DOT_AT) {
		y = derive_cast(x->m, x->r, y, IR_F32, dot->span);
		*scales = look_up(x, dot, *scales);
	}
	return y;
}

/* A node that reads a weight that is rounded, as operand `at`. */
static void
replace(struct quantise *x, node_id id, const struct ir_node *w, uint32_t at)
{
	const struct ir_node was = *ir_node(x->m, id);
	const struct ir_type t = *ir_type(x->m, was.result);
	value_id v = derive_cast(x->m, x->r, source(x, w, false),
				 ir_type(x->m, w->result)->dtype, was.span);
	bool has_scales = dtype_of(x, name_of(x, w)) != IR_INT4;
	value_id scales = has_scales ? source(x, w, true) : 0, y;

	if (!has_scales) {
		y = contract_by(x, &was, (enum ir_op)was.op, at, v);
	} else if (looks_up(&was, at)) {
		y = derive_cast(x->m, x->r, look_up(x, &was, v), IR_F32,
				was.span);
		scales = look_up(x, &was, scales);
	} else {
		y = contract(x, &was, at, v, &scales);
	}
	y = has_scales ? pair(x, IR_RESCALE, y, scales, t.dtype, was.span) : y;
	y = derive_fit(x->m, x->r, y, &t, was.span);
	x->m->values.at[y].hint = x->m->values.at[was.result].hint;
	VEC_PUSH(&x->m->ctx->tmp, &x->from, was.result);
	VEC_PUSH(&x->m->ctx->tmp, &x->to, y);
	x->rounded += !looks_up(&was, at);
}

static void
rewrite(struct quantise *x, region_id r)
{
	struct ir_module *m = x->m;
	uint32_t n = m->regions.at[r].nodes.n, i, at;
	node_id *old = arena_dup(&m->ctx->tmp, m->regions.at[r].nodes.at,
				 n * sizeof *old);

	m->regions.at[r].nodes.n = 0;
	for (i = 0; i < n; i++) {
		const struct ir_node *k = ir_node(m, old[i]);
		const struct ir_node *w = rounded_in(x, k, &at);

		if (k->region) {
			rewrite(x, k->region);
		}
		x->r = r;
		if (w) {
			struct ir_node weight = *w;

			replace(x, old[i], &weight, at);
		} else if (ir_node(m, old[i])->op != IR_WEIGHT ||
			   !is_rounded(x, ir_node(m, old[i]))) {
			VEC_PUSH(&m->ctx->perm, &m->regions.at[r].nodes,
				 old[i]);
		}
	}
}

/* ---- the setting ---- */

/* False after an error; *dtype: what weights are stored in. */
static bool
read_setting(struct ir_module *m, const struct ir_setting *s,
	     enum ir_dtype *dtype)
{
	const char *word = ir_text(m->ctx, s->text);

	if (ir_find_dtype(word, dtype) && (*dtype == IR_INT8 ||
	    *dtype == IR_INT4 || *dtype == IR_F8E4M3)) {
		return true;
	}
	diag_error(&m->ctx->diags, s->value, "`weights` is %s, and a program "
		   "that serves stores weights as int8, int4, f8e4m3, or as "
		   "they are declared: leave it out, or take one of these",
		   word);
	return false;
}

/* Makes the replacements. */
static void
store(struct quantise *x)
{
	struct ir_module *m = x->m;
	value_id *map;
	uint32_t i;

	rewrite(x, m->funcs.at[ir_model(m)].body);
	map = arena_alloc(&m->ctx->tmp, m->values.n * sizeof *map);
	for (i = 0; i < x->from.n; i++) {
		map[x->from.at[i]] = x->to.at[i];
	}
	ir_replace_uses(m, map);
}

void
pass_store_groups(struct ir_module *m, const struct pass_stored *as)
{
	struct quantise x = { .m = m, .dtype = IR_INT4, .as = as,
			      .groups_alone = true };

	store(&x);
}

bool
pass_quantise(struct pass_ctx *p, struct ir_module *m)
{
	const struct ir_setting *s = ir_setting(m, "serve.weights");
	struct quantise x = { .m = m };

	if (!s || !ir_setting(m, "program.serves")) {
		return true;
	}
	if (!read_setting(m, s, &x.dtype)) {
		return false;
	}
	x.as = pass_find_stored(m, &m->ctx->tmp);
	store(&x);
	if (x.rounded == 0) {
		diag_error(&m->ctx->diags, s->span, "`weights` is %s, and "
			   "there is nothing to store so: expected is a "
			   "contraction of a wider weight%s",
			   ir_dtypes[x.dtype].name,
			   x.dtype == IR_F8E4M3 ? " inside of a repeat" : "");
		return false;
	}
	pass_count(p, "contractions of rounded weights", x.rounded);
	return true;
}

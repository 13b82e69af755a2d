/*
 * For tests of kernels: a module on all ranks of its mesh, as the interpreter
 * computes it; operands of a kernel as they lie in memory, and what it wrote
 * held against what the interpreter made.
 */
#ifndef T_RANKS_H
#define T_RANKS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/kernel.h"
#include "ir/machine.h"

struct t_object;

#define TK_RANKS 8
#define TK_SEED 7
#define TK_STEP 3
/* Of bytes that nobody has written: large numbers of any type, that show. */
#define TK_LARGE 0x7f

struct tk_kernel {
	const struct kernel *k;
	struct cg_kernel made[TK_RANKS];
	const char *table[TK_RANKS];
};

struct tk {
	struct ir_ctx c;
	struct ir_module *m;
	struct t_object *o;
	uint32_t nranks;
	uint32_t at[TK_RANKS][IR_MAX_AXES + 1];
	/* by rank and value */
	double **seen[TK_RANKS];
	int64_t *elems[TK_RANKS];
	VEC(struct tk_kernel) kernels;
	uint32_t refused, ran;
	const char *cpu;	/* to make code for; NULL: any */
	bool dots;		/* contractions alone, by cg_dot_steps */
	uint32_t dotted, chosen;
	bool attention;		/* kernels of attention too */
	bool rows_apart;	/* calls tk_set_apart */
	uint32_t gaps;		/* operands whose rows did lie apart */
	/* by value, as in struct memory: see tk_set_apart; NULL: none are */
	const bool *apart;
	uint32_t turn;		/* 1: sums begin that did not with 0 */
	double worst;
	const char **name;	/* by node: in full, in its first iteration */
};

struct tk_rank {
	struct tk *t;
	uint32_t r;
};

static inline void
tk_note(void *user, const char *path, const struct ir_type *type,
	const double *data, int64_t elems)
{
	struct tk_rank *x = user;
	const char *v = strrchr(path, '/');
	uint32_t id = (uint32_t)atoi((v ? v + 1 : path) + 1);

	(void)type;
	if (!x->t->seen[x->r][id]) {
		x->t->seen[x->r][id] = elems
			? arena_dup(&x->t->c.perm, data,
				    (size_t)elems * sizeof *data)
			: arena_alloc(&x->t->c.perm, sizeof *data);
		x->t->elems[x->r][id] = elems;
	}
}

/*
 * Inputs: the step; and those of 8 bits, which are numbers of their type, 0.25
 * to 7.5, one in eight of them negative, so that sums grow with their length.
 */
static inline bool
tk_input(void *user, const char *name, const struct ir_type *type,
	 int64_t elems, double *out)
{
	int64_t apart = type->dtype == IR_F8E4M3 ? 1
			: type->dtype == IR_F8E5M2 ? 2 : 0;
	uint64_t key = ir_rng_key(name, TK_SEED);
	int64_t i, n;

	(void)user;
	for (i = 0; apart && i < elems; i++) {
		n = ir_rng_below(key, (uint64_t)i, 8 * 40);
		out[i] = (n % 8 ? 1 : -1) *
			 ldexp((double)(8 + n / 8 % 8 / apart * apart),
			       (int)(n / 64) - 5);
	}
	if (apart) {
		return true;
	}
	if (strcmp(name, "step") != 0) {
		return false;
	}
	*out = TK_STEP;
	return true;
}

static inline const char *
tk_messages(struct tk *t)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, &t->c.perm);
	for (i = 0; i < t->c.diags.records.n; i++) {
		buf_printf(&b, "%s\n", t->c.diags.records.at[i].text);
	}
	return buf_text(&b);
}

/* ---- the interpreter ---- */

/* Of microbatches it is always the first. */
static inline uint32_t
tk_size(const struct tk *t, axis_id a)
{
	return t->m->axes.at[a].time ? 1 : (uint32_t)t->m->axes.at[a].size;
}

static inline void
tk_mesh(struct tk *t)
{
	uint32_t r, a, left;

	t->nranks = 1;
	for (a = 1; a < t->m->axes.n; a++) {
		t->nranks *= tk_size(t, a);
	}
	assert_true(t->nranks <= TK_RANKS);
	for (r = 0; r < t->nranks; r++) {
		for (left = r, a = t->m->axes.n; a-- > 1; ) {
			t->at[r][a] = left % tk_size(t, a);
			left /= tk_size(t, a);
		}
		t->seen[r] = arena_alloc(&t->c.perm, t->m->values.n *
					 sizeof *t->seen[r]);
		t->elems[r] = arena_alloc(&t->c.perm, t->m->values.n *
					  sizeof *t->elems[r]);
	}
}

/* All machines of the group give what they posted. */
static inline void
tk_exchange(struct tk *t, struct interp **e, enum ir_state *state)
{
	struct ir_peer peers[TK_RANKS];
	uint32_t r, k, a, n, me;
	bool ok = true;

	for (r = 0; r < t->nranks; r++) {
		assert_int_equal(state[r], IR_EXCHANGES);
	}
	for (r = 0; r < t->nranks; r++) {
		uint32_t axes = ir_machine_post(e[r])->axes;

		for (n = me = k = 0; k < t->nranks; k++) {
			const struct ir_post *p = ir_machine_post(e[k]);
			bool group = true;

			for (a = 1; a < t->m->axes.n; a++) {
				group &= (axes >> a & 1) ||
					 t->at[r][a] == t->at[k][a];
			}
			if (!group) {
				continue;
			}
			me = k == r ? n : me;
			memcpy(peers[n].at, t->at[k], sizeof peers[n].at);
			peers[n].data = p->data;
			peers[n++].elems = p->elems;
		}
		ok &= ir_machine_give(e[r], peers, n, me);
	}
	assert_true(ok);
}

struct tk_machines {
	struct ir_weights from;
	struct ir_eval_options opt[TK_RANKS];
	struct tk_rank user[TK_RANKS];
	struct ir_rank rank[TK_RANKS];
	struct interp *e[TK_RANKS];
	struct ir_pool pool;
};

/* Whether the iterations around a node run from the last to the first. */
static inline bool
tk_reversed(const struct tk *t, node_id id)
{
	node_id i;
	uint32_t k;

	for (i = 1; i < t->m->nodes.n; i++) {
		const struct ir_node *x = ir_node(t->m, i);
		const struct ir_region *r = &t->m->regions.at[x->region];

		for (k = 0; x->region && k < r->nodes.n; k++) {
			if (r->nodes.at[k] == id) {
				return ir_attr(t->m, x, IR_ATTR_REVERSE);
			}
		}
	}
	return false;
}

static inline void
tk_note_name(void *user, const struct ir_node *n, const char *name)
{
	struct tk *t = user;
	node_id id = (node_id)(n - t->m->nodes.at);

	if (!t->name[id] || tk_reversed(t, id)) {
		t->name[id] = arena_strndup(&t->c.perm, name, strlen(name));
	}
}

static inline void
tk_start(struct tk *t, struct tk_machines *x)
{
	uint32_t r;

	memset(x, 0, sizeof *x);
	x->from.input = tk_input;
	ir_pool_open(&x->pool, t->m, 0);
	for (r = 0; r < t->nranks; r++) {
		x->user[r] = (struct tk_rank){ t, r };
		x->opt[r] = (struct ir_eval_options){ .seed = TK_SEED,
			.weights = &x->from, .seen = tk_note,
			.user = &x->user[r] };
		memcpy(x->rank[r].at, t->at[r], sizeof x->rank[r].at);
		x->e[r] = ir_machine_new(&x->pool, &x->opt[r], &x->rank[r]);
	}
}

static inline void
tk_interpret(struct tk *t, struct tk_machines *x, func_id f)
{
	enum ir_state state[TK_RANKS];
	uint32_t r;

	for (r = 0; r < t->nranks; r++) {
		ir_machine_start(x->e[r], f);
		state[r] = ir_machine_run(x->e[r]);
	}
	while (state[0] != IR_ENDED) {
		if (state[0] == IR_FAILED) {
			fail_msg("%s", tk_messages(t));
		}
		tk_exchange(t, x->e, state);
		for (r = 0; r < t->nranks; r++) {
			state[r] = ir_machine_run(x->e[r]);
		}
	}
}

/* ---- memory ---- */

static inline double
tk_from_f8(char c)
{
	int e = c >> 3 & 15, m = c & 7;
	double v = e ? ldexp(1 + m / 8.0, e - 7) : ldexp(m, -9);

	return (c & 0x7f) == 0x7f ? (double)NAN : c & 0x80 ? -v : v;
}

enum { TK_F8_MOST = 0x7e };	/* the largest number */

/* The nearest, of two the even one. */
static inline char
tk_to_f8(float f)
{
	static double all[TK_F8_MOST + 1];	/* they grow */
	double x = fabs((double)f), less, more;
	int from = 0, to = TK_F8_MOST, at;

	for (at = 0; all[TK_F8_MOST] == 0 && at <= TK_F8_MOST; at++) {
		all[at] = tk_from_f8((char)at);
	}
	while (from < to) {	/* to the last one that is not above */
		at = (from + to + 1) / 2;
		if (all[at] <= x) {
			from = at;
		} else {
			to = at - 1;
		}
	}
	if (from < TK_F8_MOST) {
		less = x - all[from];
		more = all[from + 1] - x;
		from += more < less || (more == less && from % 2);
	}
	return (char)(signbit(f) ? from | 0x80 : from);
}

static inline double
tk_from_f16(uint16_t u)
{
	return (u & 0x8000 ? -1 : 1) *
	       ldexp((u & 0x3ff) | (u & 0x7c00 ? 0x400 : 0),
		     (u & 0x7c00 ? u >> 10 & 31 : 1) - 25);
}

/* To the nearest; of what f16 can hold. */
static inline uint16_t
tk_to_f16(double v)
{
	int e = v == 0 || ilogb(v) < -14 ? -14 : ilogb(v);
	double n = nearbyint(ldexp(fabs(v), 10 - e));

	/* 2048 is the next exponent, 1024 the first normal number */
	return (uint16_t)((v < 0 ? 0x8000 : 0) +
			  ((e + 14) << 10) + (int)n);
}

static inline void
tk_put(uint8_t dtype, char *to, int64_t i, double v)
{
	float f = (float)v;
	uint32_t u;
	int32_t n = (int32_t)v;

	memcpy(&u, &f, sizeof u);
	switch (dtype) {
	case IR_F64:
		memcpy(to + 8 * i, &v, 8);
		break;
	case IR_BF16:
		u += 0x7fff + (u >> 16 & 1);
		u >>= 16;
		memcpy(to + 2 * i, &u, 2);
		break;
	case IR_F16:
		u = tk_to_f16(v);
		memcpy(to + 2 * i, &u, 2);
		break;
	case IR_F8E4M3:
		to[i] = tk_to_f8(f);
		break;
	case IR_F8E5M2:	/* the upper byte of an f16 */
		u = tk_to_f16(v);
		to[i] = (char)((u + 0x7f + (u >> 8 & 1)) >> 8);
		break;
	case IR_INT8:
		to[i] = (char)n;
		break;
	case IR_IDX:
		memcpy(to + 4 * i, &n, 4);
		break;
	default:
		memcpy(to + 4 * i, &f, 4);
	}
}

static inline double
tk_get(uint8_t dtype, const char *from, int64_t i)
{
	float f;
	double v;
	uint32_t u = 0;
	int32_t n;

	switch (dtype) {
	case IR_F64:
		memcpy(&v, from + 8 * i, 8);
		return v;
	case IR_BF16:
		memcpy(&u, from + 2 * i, 2);
		u <<= 16;
		memcpy(&f, &u, 4);
		return (double)f;
	case IR_F16:
		memcpy(&u, from + 2 * i, 2);
		return tk_from_f16((uint16_t)u);
	case IR_F8E4M3:
		return tk_from_f8(from[i]);
	case IR_F8E5M2:
		return tk_from_f16((uint16_t)((unsigned char)from[i] << 8));
	case IR_INT8:
		return (signed char)from[i];
	case IR_IDX:
		memcpy(&n, from + 4 * i, 4);
		return n;
	default:
		memcpy(&f, from + 4 * i, 4);
		return (double)f;
	}
}

/* ---- running ---- */

struct tk_run {
	const struct cg_kernel *k;
	char **at;
	double **old;
	const struct rt_pieces **pieces;
	int64_t *num;
	char *shared, *own;
	void *const *steps;
};

static inline value_id
tk_value(const struct tk *t, const struct cg_operand *o)
{
	return o->sink ? ir_args(t->m, ir_node(t->m, o->sink))[0] : o->value;
}

/* What replaces a stored tensor lies where the tensor lies. */
static inline void
tk_in_place(struct tk *t, struct tk_run *x)
{
	const struct cg_kernel *k = x->k;
	uint32_t i, j;

	for (i = 0; i < k->operands.n * k->operands.n; i++) {
		node_id sink = k->operands.at[i / k->operands.n].sink;
		value_id v = k->operands.at[j = i % k->operands.n].value;
		const struct ir_node *s = ir_node(t->m, sink), *n;

		n = ir_node(t->m, v ? t->m->values.at[v].node : 0);
		if (sink && v && s->op == IR_STORE &&
		    ir_is(n->op, IRF_STORED) &&
		    ir_attr(t->m, s, IR_ATTR_NAME)->text ==
		    ir_attr(t->m, n, IR_ATTR_NAME)->text) {
			free(x->at[i / k->operands.n]);
			x->at[i / k->operands.n] = x->at[j];
		}
	}
}

static inline int64_t
tk_bytes(uint8_t dtype, int64_t elems)
{
	return (int64_t)((double)elems * ir_elem_bytes(dtype));
}

/* Whether a node stores what a kernel may read in the same place. */
static inline bool
tk_stores(const struct tk *t)
{
	node_id id;

	for (id = 1; id < t->m->nodes.n; id++) {
		if (ir_node(t->m, id)->op == IR_STORE) {
			return true;
		}
	}
	return false;
}

/* Rows of all values lie apart, unless a tensor is stored. */
static inline void
tk_set_apart(struct tk *t)
{
	bool *apart = arena_alloc(&t->c.perm, t->m->values.n);
	value_id v;

	for (v = 1; v < t->m->values.n && !tk_stores(t); v++) {
		apart[v] = ir_type(t->m, v)->ndims > 1;
	}
	t->apart = apart;
}

/* Where element j of an operand lies. */
static inline int64_t
tk_spot(const struct tk *t, uint32_t r, const struct cg_operand *o, int64_t j)
{
	const struct ir_type *type;
	uint32_t last;
	int64_t row;

	if (!t->apart || !o->value || !t->apart[o->value]) {
		return j;
	}
	type = ir_type(t->m, o->value);
	last = type->ndims - 1u;
	row = cg_local_size(t->m, t->at[r], type->dims[last], type->cut[last]);
	return row == 0 ? j : j % row + j / row *
	       cg_row_pitch(t->m, t->apart, o->value, row);
}

/* Elements of a row of an int4. */
static inline int64_t
tk_row(const struct tk *t, uint32_t r, value_id v)
{
	const struct ir_type *type = ir_type(t->m, v);
	const struct ir_attr *over = ir_attr(t->m, ir_rounded_weight(t->m, v),
					     IR_ATTR_ROUNDED);
	int64_t n = 1;
	uint32_t i;

	for (i = 0; i < over->ndims; i++) {
		n *= cg_local_size(t->m, t->at[r], over->dims[i],
				   type->cut[ir_type_at(type, over->dims[i])]);
	}
	return n;
}

/* A group of 128 numbers, of each of which the scale is a factor: see
 * RT_ELEM_I4. */
static inline void
tk_put_group(const double *v, char *to, char *scale_at)
{
	double most = 0;
	uint32_t bits;
	float scale;
	int i, n;

	for (i = 0; i < 128; i++) {
		most = fmax(most, fabs(v[i]));
	}
	scale = (float)(most / 7);
	memcpy(&bits, &scale, 4);
	bits >>= 16;
	memcpy(scale_at, &bits, 2);
	memset(to, 0, 64);
	for (i = 0; i < 128; i++) {
		n = scale > 0 ? (int)nearbyint(v[i] / (double)scale) : 0;
		to[i / 8 * 4 + i % 2 * 2 + i % 8 / 4] |=
			(char)((n & 15) << i / 2 % 2 * 4);
	}
}

static inline void
tk_put_groups(const struct tk *t, uint32_t r, value_id v, char *to)
{
	int64_t row = tk_row(t, r, v), i;
	char *at;

	for (i = 0; i < t->elems[r][v]; i += 128) {
		at = to + i / row * (row / 64 * 33);
		tk_put_group(&t->seen[r][v][i], at + i % row / 2,
			     at + row / 2 + i % row / 64);
	}
}

static inline void
tk_operands(struct tk *t, uint32_t r, struct tk_run *x)
{
	uint32_t i;
	int64_t j;

	for (i = 0; i < x->k->operands.n; i++) {
		const struct cg_operand *o = &x->k->operands.at[i];
		value_id v = tk_value(t, o);
		uint8_t dtype = ir_type(t->m, v)->dtype;
		int64_t elems = t->elems[r][v];
		int64_t spread = tk_spot(t, r, o, elems);

		x->at[i] = malloc((size_t)spread * 8 + 64);
		memset(x->at[i], 0xa5, (size_t)spread * 8 + 64);
		if (spread != elems) {
			/* between rows is what no sum may have */
			t->gaps++;
			memset(x->at[i], 0xff, (size_t)tk_bytes(dtype, spread));
		}
		x->old[i] = arena_alloc(&t->c.perm, (size_t)(elems + 1) * 8);
		assert_non_null(t->seen[r][v]);
		if (dtype == IR_INT4) {
			tk_put_groups(t, r, v, x->at[i]);
			memcpy(x->old[i], t->seen[r][v], (size_t)elems * 8);
			continue;
		}
		for (j = 0; j < elems; j++) {
			double old = o->sink ? (double)(j % 13) / 16 - 0.3
					     : t->seen[r][v][j];

			if (o->sink || !o->written) {
				tk_put(dtype, x->at[i], tk_spot(t, r, o, j),
				       old);
				x->old[i][j] = tk_get(dtype, x->at[i],
						      tk_spot(t, r, o, j));
			}
		}
	}
	tk_in_place(t, x);
}

/* Every other sum begins here: what is there must not be looked at. */
static inline int64_t
tk_old(struct tk *t, uint32_t r, struct tk_run *x, uint32_t sink)
{
	uint32_t i;
	int64_t j;

	for (i = 0; i < x->k->operands.n && (sink + t->turn) % 2 == 0; i++) {
		const struct cg_operand *o = &x->k->operands.at[i];
		value_id v = tk_value(t, o);

		for (j = 0; o->sink == sink && j < t->elems[r][v]; j++) {
			tk_put(ir_type(t->m, v)->dtype, x->at[i], j, NAN);
			x->old[i][j] = 0;
		}
	}
	return (sink + t->turn) % 2;
}

static inline void
tk_numbers(struct tk *t, uint32_t r, struct tk_run *x)
{
	uint32_t i, k;

	for (i = 0; i < x->k->spreads.n; i++) {
		struct rt_pieces *p = arena_alloc(&t->c.perm, sizeof *p);
		struct ir_pieces q;

		ir_pieces(t->m, x->k->spreads.at[i].size,
			  x->k->spreads.at[i].cut, t->at[r], &q);
		memset(p, 0x7f, sizeof *p);
		p->n = q.n;
		p->total = q.total;
		for (k = 0; k < q.n; k++) {
			p->at[k].start = q.at[k].start;
			p->at[k].count = q.at[k].count;
		}
		x->pieces[i] = p;
	}
	for (i = 0; i < x->k->nums.n; i++) {
		const struct cg_num *n = &x->k->nums.at[i];

		x->num[i] = n->kind == CG_STEP ? TK_STEP
			: n->kind == CG_AT ? (int64_t)t->at[r][n->node]
			: n->kind == CG_OLD ? tk_old(t, r, x, n->node)
			: (int64_t)ir_rng_key(t->name[n->node], TK_SEED);
	}
}

static inline void
tk_rooms(struct tk *t, const struct tk_kernel *k, uint32_t r,
	 struct tk_run *x)
{
	x->k = &k->made[r];
	x->at = arena_alloc(&t->c.perm, (x->k->operands.n + 1) * 8);
	x->old = arena_alloc(&t->c.perm, (x->k->operands.n + 1) * 8);
	x->pieces = arena_alloc(&t->c.perm, (x->k->spreads.n + 1) * 8);
	x->num = arena_alloc(&t->c.perm, (x->k->nums.n + 1) * 8);
	x->shared = malloc((size_t)x->k->shared_bytes + 64);
	memset(x->shared, TK_LARGE, (size_t)x->k->shared_bytes + 64);
	x->own = malloc((size_t)x->k->own_bytes + 64);
	memset(x->own, TK_LARGE, (size_t)x->k->own_bytes + 64);
	tk_operands(t, r, x);
	tk_numbers(t, r, x);
}

static inline void
tk_coll(struct tk *t, struct tk_run *x, uint32_t s)
{
	const struct cg_step *step = &x[0].k->steps.at[s];
	float *sum = malloc((size_t)step->elems * 4 * TK_RANKS + 4);
	uint32_t r, k, a;
	int64_t i;

	for (r = 0; r < t->nranks; r++) {
		for (i = 0; i < step->elems; i++) {
			float v = step->op == RT_COLL_MAX ? -INFINITY : 0, y;

			for (k = 0; k < t->nranks; k++) {
				bool group = true;

				for (a = 1; a < t->m->axes.n; a++) {
					group &= (step->axes >> a & 1) ||
						 t->at[r][a] == t->at[k][a];
				}
				memcpy(&y, x[k].shared + step->in + 4 * i, 4);
				v = !group ? v : step->op == RT_COLL_MAX
					? fmaxf(v, y) : v + y;
			}
			sum[r * step->elems + i] = v;
		}
	}
	for (r = 0; r < t->nranks; r++) {
		memcpy(x[r].shared + step->out, sum + r * step->elems,
		       (size_t)step->elems * 4);
	}
	free(sum);
}

/* Two operands may lie in one place. */
static inline void
tk_free(const struct tk_run *x)
{
	uint32_t i, before;

	for (i = 0; i < x->k->operands.n; i++) {
		before = 0;
		while (before < i && x->at[before] != x->at[i]) {
			before++;
		}
		if (before == i) {
			free(x->at[i]);
		}
	}
	free(x->shared);
	free(x->own);
}

/* What lies between rows is as tk_operands left it. */
static inline void
tk_compare_gaps(const struct tk *t, uint32_t r, const struct cg_operand *o,
		const char *at, int64_t elems)
{
	uint8_t dtype = ir_type(t->m, tk_value(t, o))->dtype;
	int64_t changed = 0, j, k;

	for (j = 0; j < elems; j++) {
		int64_t end = tk_bytes(dtype, tk_spot(t, r, o, j + 1));

		k = tk_bytes(dtype, tk_spot(t, r, o, j) + 1);
		for (; k < end; k++) {
			changed += (unsigned char)at[k] != 0xff;
		}
	}
	assert_true(changed == 0);
}

/* How far off a number is; what is not finite is met or missed. */
static inline double
tk_off(double got, double want)
{
	return isfinite(want) ? fabs(got - want) :
	       got == want || (isnan(got) && isnan(want)) ? 0 : INFINITY;
}

static inline void
tk_compare(struct tk *t, const struct tk_kernel *k, uint32_t r,
	   const struct tk_run *x, double most)
{
	uint32_t i;
	int64_t j;

	for (i = 0; i < x->k->operands.n; i++) {
		const struct cg_operand *o = &x->k->operands.at[i];
		value_id v = tk_value(t, o);
		uint8_t dtype = ir_type(t->m, v)->dtype;
		const double *want = t->seen[r][v];
		double scale = 1e-30, more, got, off;

		for (j = 0; j < t->elems[r][v]; j++) {
			scale = isfinite(want[j]) ? fmax(scale, fabs(want[j]))
						  : scale;
		}
		for (j = 0; o->written && j < t->elems[r][v]; j++) {
			bool adds = o->sink && ir_node(t->m, o->sink)->op ==
					       IR_ACCUMULATE;

			more = adds ? x->old[i][j] : 0;
			/* also of a sum that begins, as tk_operands has it */
			scale = fmax(scale, adds ? 0.4 : 0);
			got = tk_get(dtype, x->at[i], tk_spot(t, r, o, j));
			off = tk_off(got, want[j] + more) / scale;
			/* a row that is not here means nothing */
			if (isnan(want[j]) && ir_type(t->m, v)->routed) {
				continue;
			}
			if (!(off <= most)) {
				struct buf b;

				buf_init(&b, &t->c.perm);
				kernel_print(t->m, k->k, &b);
				fail_msg("%srank %u %%%u [%lld]: got %.9g, "
					 "expected %.9g (of %.3g)",
					 buf_text(&b), r, v, (long long)j,
					 got, want[j] + more, scale);
			}
			t->worst = fmax(t->worst, off);
		}
		tk_compare_gaps(t, r, o, x->at[i], t->elems[r][v]);
		/* nothing after the end */
		got = 0;
		for (j = 0; j < 64; j++) {
			got += (unsigned char)x->at[i][tk_bytes(dtype,
				tk_spot(t, r, o, t->elems[r][v])) + j] != 0xa5;
		}
		assert_true(got == 0);
	}
	tk_free(x);
}

/* ---- all of it ---- */

/* Every value gets a name, so that the interpreter shows it. */
static inline void
tk_name_values(struct tk *t)
{
	value_id v;

	for (v = 1; v < t->m->values.n; v++) {
		t->m->values.at[v].hint = intern_str(&t->c.syms,
			arena_printf(&t->c.perm, "v%u", v));
	}
}

static inline void
tk_open_text(struct tk *t, const struct mem *mem, const char *text)
{
	uint32_t base;

	memset(t, 0, sizeof *t);
	ir_ctx_init(&t->c, mem);
	source_add(&t->c.sources, "t.ir", text, strlen(text), &base);
	t->m = ir_read(&t->c, t->c.sources.files.n - 1);
	if (!t->m || !ir_verify(t->m)) {
		fail_msg("%s\n%s", tk_messages(t), text);
	}
}

#endif

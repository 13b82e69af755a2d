/*
 * Attention of a back end against the interpreter: the interpreter knows what
 * each value of the whole program is; each rank is given its pieces of the
 * operands, runs the kernel's steps in turn with the others, and must write
 * its pieces of the results.  T_TIMES=N tries more.
 *
 * Whoever includes it emits all kernels (back_emit) and runs their steps.
 */
#ifndef T_ATTENTION_H
#define T_ATTENTION_H

#include <math.h>

#include "codegen/kernel.h"
#include "passes/pass.h"

#define MOST_RANKS 8
#define MOST_KERNELS 24

struct value {
	const double *data;	/* whole */
	int64_t elems;
};

struct rank {
	uint32_t at[IR_MAX_AXES + 1];
	struct cg_kernel k[MOST_KERNELS];
	/* of the kernel that runs */
	char **at_of;
	struct rt_pieces *pieces;
	const struct rt_pieces **piece_at;
	int64_t *num;
	char *shared, *own;
};

static struct {
	struct ir_ctx c;
	struct ir_module *m;
	struct value *values;	/* by id */
	struct rank ranks[MOST_RANKS];
	uint32_t nranks;
	const struct kernel *kernels[MOST_KERNELS];
	uint32_t nkernels;
	uint64_t rng;
	const char *text;
	double bound;
	bool planted, wrong;	/* results may be wrong; some were */
	/* the column of values that is NaN in one key, if some are; that key */
	bool stored;		/* keys and values are, in 8 bits */
	bool bad;
	int64_t bad_col, bad_key;
	/* those values; ranges of keys; keys, and what selects them, or 0 */
	value_id bad_v, first, last, keys, index;
	int64_t seen_bad;	/* results that are NaN for it */
	/* Fills what the program reads; NULL: it is drawn at random. */
	void (*given)(const char *name, int64_t elems, double *out);
	/* Called for each result of a rank; NULL: nobody looks. */
	void (*look)(const char *out);
} s = { .rng = 88172645463325252u };

static int64_t
draw(int64_t lo, int64_t hi)
{
	s.rng ^= s.rng << 13;
	s.rng ^= s.rng >> 7;
	s.rng ^= s.rng << 17;
	return lo + (int64_t)((s.rng >> 20) % (uint64_t)(hi - lo + 1));
}

#include "tests/unit/shared/t-attention-bad.h"
#include "tests/unit/shared/t-attention-f8.h"
#include "tests/unit/shared/t-attention-kept.h"

/* ---- what the interpreter says ---- */

static void
note(void *user, const char *path, const struct ir_type *type,
     const double *data, int64_t elems)
{
	const char *name = strrchr(path, '/');
	value_id v = (value_id)atoi((name ? name + 1 : path) + 1);

	(void)user;
	(void)type;
	s.values[v].data = arena_dup(&s.c.perm, data,
				     (size_t)elems * sizeof *data);
	s.values[v].elems = elems;
}

static bool
is_given(void *user, enum ir_op op, const char *name)
{
	(void)user;
	(void)op;
	(void)name;
	return true;
}

static bool
get_given(void *user, enum ir_op op, const char *name,
	  const struct ir_type *type, int64_t elems, double *out,
	  struct span at)
{
	(void)user;
	(void)op;
	(void)type;
	(void)at;
	s.given(name, elems, out);
	return true;
}

static bool
input_given(void *user, const char *name, const struct ir_type *type,
	    int64_t elems, double *out)
{
	(void)user;
	(void)type;
	s.given(name, elems, out);
	return true;
}

static void
evaluate(void)
{
	struct ir_weights w = { .has = is_rounded, .get = get_rounded };
	struct ir_eval_options opt = { .seed = 5, .seen = note,
				       .weights = &w };
	struct ir_eval_result r[16];
	uint32_t n, v;

	if (take_kept()) {
		return;
	}
	if (s.given) {
		w = (struct ir_weights){ .has = is_given, .get = get_given,
					 .input = input_given };
	}
	s.values = arena_alloc(&s.c.perm, s.m->values.n * sizeof *s.values);
	for (v = 1; v < s.m->values.n; v++) {
		char *hint = arena_printf(&s.c.perm, "v%u", v);

		s.m->values.at[v].hint = intern_str(&s.c.syms, hint);
	}
	if (!ir_eval(s.m, &opt, r, 16, &n)) {
		fail_msg("%s\n%s", s.c.diags.records.at[0].text, s.text);
	}
	keep();
}

static void
open_text(const char *source, const char *passes)
{
	uint32_t base;

	s.text = source;
	ir_ctx_init(&s.c, NULL);
	assert_true(source_add(&s.c.sources, "text", source, strlen(source),
			       &base));
	s.m = ir_read(&s.c, s.c.sources.files.n - 1);
	if (!s.m || !ir_verify(s.m)) {
		fail_msg("%s\n%s", s.c.diags.records.at[0].text, source);
	}
	if (passes) {
		assert_int_equal(pass_apply(s.m, passes, false), PASS_OK);
	}
	evaluate();
}

/* ---- emitting ---- */

static void
find_ranks(void)
{
	axis_id a;
	uint32_t i, left;

	s.nranks = 1;
	for (a = 1; a < s.m->axes.n; a++) {
		s.nranks *= (uint32_t)s.m->axes.at[a].size;
	}
	assert_true(s.nranks <= MOST_RANKS);
	for (i = 0; i < s.nranks; i++) {
		memset(s.ranks[i].at, 0, sizeof s.ranks[i].at);
		left = i;
		for (a = (axis_id)s.m->axes.n; a-- > 1; ) {
			uint32_t n = (uint32_t)s.m->axes.at[a].size;

			s.ranks[i].at[a] = left % n;
			left /= n;
		}
	}
}

static void
add_kernels(const struct kernel_list *l)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		if (l->at.at[i].kind == KERNEL_ATTENTION) {
			assert_true(s.nkernels < MOST_KERNELS);
			s.kernels[s.nkernels++] = &l->at.at[i];
		}
	}
}

/* ---- the back end ---- */

static void back_open(void);
static void back_emit(uint32_t kernel, uint32_t rank);
static void back_ready(void);
static void back_run(uint32_t kernel, uint32_t rank, uint32_t step);
static void back_close(void);

static bool
is_comm(const struct cg_step *x)
{
	return !x->func && !x->grid;
}

static void
emit(void)
{
	uint32_t i, r;

	s.nkernels = 0;
	add_kernels(kernels_find(s.m, ir_model(s.m), NULL, &s.c.perm)->top);
	assert_true(s.nkernels > 0);
	find_ranks();
	back_open();
	for (r = 0; r < s.nranks; r++) {
		for (i = 0; i < s.nkernels; i++) {
			s.ranks[r].k[i] = (struct cg_kernel){ 0 };
			back_emit(i, r);
			assert_true(s.ranks[r].k[i].steps.n > 0);
		}
	}
	back_ready();
}

/* ---- memory ---- */

static size_t
bytes_of(uint8_t dtype)
{
	return (size_t)ir_dtypes[dtype].bits / 8;
}

static uint16_t
to_bf16(double x)
{
	float f = (float)x;
	uint32_t b;

	memcpy(&b, &f, 4);
	return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

/* Subnormal numbers too; what is too large is not asked for. */
static float
from_f16(uint16_t h)
{
	float m = h & 0x3ff;
	int e = h >> 10 & 31;

	if (e == 31) {
		m = m > 0 ? NAN : INFINITY;
	} else {
		m = e ? ldexpf(m + 1024, e - 25) : ldexpf(m, -24);
	}
	return h >> 15 ? -m : m;
}

static uint16_t
to_f16(float x)
{
	float a = fabsf(x), m;
	uint16_t sign = x < 0 ? 0x8000 : 0;
	int e = 0;

	assert_true(a < 65504);
	frexpf(a, &e);
	e = e < -13 || a == 0 ? -13 : e;
	m = rintf(ldexpf(a, 11 - e));	/* to even */
	return sign | (uint16_t)((uint16_t)m + ((e + 13) << 10));
}

static void
put_elem(char *at, uint8_t dtype, double x)
{
	float f = (float)x;
	uint16_t h = to_bf16(x);

	if (is_f8(dtype)) {
		*(uint8_t *)at = to_f8(x, dtype);
	} else if (dtype == IR_BF16) {
		memcpy(at, &h, 2);
	} else if (dtype == IR_F16) {
		h = to_f16(f);
		memcpy(at, &h, 2);
	} else if (dtype == IR_IDX) {
		int32_t i = (int32_t)x;

		memcpy(at, &i, 4);
	} else {
		assert_int_equal(dtype, IR_F32);
		memcpy(at, &f, 4);
	}
}

static double
get_elem(const char *at, uint8_t dtype)
{
	uint32_t b = 0;
	uint16_t h;
	float f;

	if (dtype == IR_BF16) {
		memcpy(&h, at, 2);
		b = (uint32_t)h << 16;
		memcpy(&f, &b, 4);
	} else if (dtype == IR_F16) {
		memcpy(&h, at, 2);
		f = from_f16(h);
	} else {
		memcpy(&f, at, 4);
	}
	return f;
}

/* What is not said is nonsense, and must not be seen in any result. */
static char *
nonsense(int64_t bytes)
{
	char *p = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);

	memset(p, 0xff, (size_t)(bytes + 127) / 64 * 64);
	return p;
}

/* The value that lies there, or is added to what lies there. */
static value_id
value_of(const struct cg_operand *o)
{
	return o->value ? o->value
			: ir_args(s.m, ir_node(s.m, o->sink))[0];
}

#define BEFORE 0.5	/* what lies where a sink adds */

/* Every other sum begins here: what is there must not be looked at. */
static int64_t
is_old(node_id sink)
{
	return sink % 2;
}

static bool
begins(const struct cg_kernel *k, const struct cg_operand *o)
{
	uint32_t i;

	for (i = 0; i < k->nums.n; i++) {
		if (k->nums.at[i].kind == CG_OLD &&
		    k->nums.at[i].node == o->sink) {
			return !is_old(o->sink);
		}
	}
	return false;
}

static char *
make_operand(struct rank *r, const struct cg_kernel *k,
	     const struct cg_operand *o)
{
	const struct ir_type *type = ir_type(s.m, value_of(o));
	size_t bytes = bytes_of(type->dtype);
	struct ir_local l;
	int64_t i;
	char *p;

	ir_local(s.m, type, r->at, &l);
	p = nonsense(l.elems * (int64_t)bytes);
	for (i = 0; o->sink && !begins(k, o) && i < l.elems; i++) {
		put_elem(p + (size_t)i * bytes, type->dtype, BEFORE);
	}
	for (i = 0; !o->written && i < l.elems; i++) {
		assert_non_null(s.values[o->value].data);
		put_elem(p + (size_t)i * bytes, type->dtype,
			 s.values[o->value].data[ir_local_at(&l, i)]);
	}
	return p;
}

static struct rt_pieces
pieces_of(const struct rank *r, int64_t size, uint32_t cut)
{
	struct rt_pieces out = { 0 };
	struct ir_pieces p;
	uint32_t i;

	ir_pieces(s.m, size, cut, r->at, &p);
	out.n = p.n;
	out.total = p.total;
	for (i = 0; i < p.n; i++) {
		out.at[i].start = p.at[i].start;
		out.at[i].count = p.at[i].count;
	}
	return out;
}

static void
open_rank(struct rank *r, const struct cg_kernel *k)
{
	uint32_t i;

	r->at_of = calloc(k->operands.n + 1, sizeof *r->at_of);
	r->pieces = calloc(k->spreads.n + 1, sizeof *r->pieces);
	r->piece_at = calloc(k->spreads.n + 1, sizeof *r->piece_at);
	for (i = 0; i < k->operands.n; i++) {
		r->at_of[i] = make_operand(r, k, &k->operands.at[i]);
	}
	for (i = 0; i < k->spreads.n; i++) {
		r->pieces[i] = pieces_of(r, k->spreads.at[i].size,
					 k->spreads.at[i].cut);
		r->piece_at[i] = &r->pieces[i];
	}
	r->num = calloc(k->nums.n + 1, sizeof *r->num);
	for (i = 0; i < k->nums.n; i++) {
		assert_int_equal(k->nums.at[i].kind, CG_OLD);
		r->num[i] = is_old(k->nums.at[i].node);
	}
	r->shared = nonsense(k->shared_bytes);
	r->own = nonsense(k->own_bytes);
}

static void
close_rank(struct rank *r, const struct cg_kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->operands.n; i++) {
		free(r->at_of[i]);
	}
	free(r->at_of);
	free(r->pieces);
	free(r->piece_at);
	free(r->num);
	free(r->shared);
	free(r->own);
}

#include "tests/unit/shared/t-attention-comm.h"

/* ---- running ---- */

static void
run_kernel(uint32_t kernel)
{
	uint32_t i, r;

	for (i = 0; i < s.ranks[0].k[kernel].steps.n; i++) {
		for (r = 0; r < s.nranks; r++) {
			if (is_comm(&s.ranks[r].k[kernel].steps.at[i])) {
				receive(&s.ranks[r], kernel, i);
			} else {
				back_run(kernel, r, i);
			}
		}
	}
}

/* What that operand is for another rank, which may have others before it. */
static const char *
of_rank(const struct rank *r, uint32_t kernel, const struct cg_operand *o)
{
	const struct cg_kernel *k = &r->k[kernel];
	uint32_t i;

	for (i = 0; i < k->operands.n && (!k->operands.at[i].written ||
	     value_of(&k->operands.at[i]) != value_of(o)); i++) {
	}
	assert_true(i < k->operands.n);
	return r->at_of[i];
}

/* Of parts of a sum what all ranks have together. */
static double
over_ranks(const struct rank *me, uint32_t kernel, uint32_t operand,
	   int64_t place)
{
	const struct cg_operand *o = &me->k[kernel].operands.at[operand];
	const struct ir_type *type = ir_type(s.m, value_of(o));
	struct ir_local l;
	double sum = 0;
	uint32_t r;
	int64_t i;

	for (r = 0; r < s.nranks; r++) {
		if (!same_group(me, &s.ranks[r], (uint32_t)type->sum << 1)) {
			continue;
		}
		ir_local(s.m, type, s.ranks[r].at, &l);
		i = ir_local_find(&l, place);
		sum -= o->sink && !begins(&me->k[kernel], o) ? BEFORE : 0;
		sum += get_elem(of_rank(&s.ranks[r], kernel, o) +
				(size_t)i * bytes_of(type->dtype),
				type->dtype);
	}
	return sum;
}

static void
compare(struct rank *r, uint32_t kernel, uint32_t operand)
{
	const struct cg_operand *o = &r->k[kernel].operands.at[operand];
	const struct ir_type *type = ir_type(s.m, value_of(o));
	const double *want = s.values[value_of(o)].data;
	/* what cancels out is as rounded as its parts */
	double most = type->dtype == IR_BF16 ? 1 : 0.1, got;
	struct ir_local l;
	int64_t i;

	assert_non_null(want);
	ir_local(s.m, type, r->at, &l);
	for (i = 0; i < s.values[value_of(o)].elems; i++) {
		most = fabs(want[i]) > most ? fabs(want[i]) : most;
	}
	for (i = 0; i < l.elems; i++) {
		int64_t place = ir_local_at(&l, i);

		got = over_ranks(r, kernel, operand, place);
		if (is_bad(value_of(o), place)) {
			assert_true(isnan(got));
			s.seen_bad++;
			continue;
		}
		if (s.planted) {
			s.wrong |= !(fabs(got - want[place]) <=
				     s.bound * most);
			continue;
		}
		if (!(fabs(got - want[place]) <= s.bound * most)) {
			fail_msg("element %lld of %%%u is %.9g, and %.9g is "
				 "expected (of at most %.3g)\n%s",
				 (long long)place, value_of(o), got,
				 want[place], most, s.text);
		}
	}
}

static void
look_at(const char *out)
{
	if (s.look) {
		s.look(out);
	}
}

static void
check(const char *source, const char *passes, double bound)
{
	uint32_t i, r, k, written = 0;

	open_text(source, passes);
	if (s.bad) {
		spoil_values();
	}
	s.bound = bound;
	emit();
	for (k = 0; k < s.nkernels; k++) {
		for (r = 0; r < s.nranks; r++) {
			open_rank(&s.ranks[r], &s.ranks[r].k[k]);
		}
		run_kernel(k);
		for (r = 0; r < s.nranks; r++) {
			struct cg_kernel *x = &s.ranks[r].k[k];

			for (i = 0; i < x->operands.n; i++) {
				if (x->operands.at[i].written) {
					compare(&s.ranks[r], k, i);
					look_at(s.ranks[r].at_of[i]);
					written++;
				}
			}
		}
		for (r = 0; r < s.nranks; r++) {
			close_rank(&s.ranks[r], &s.ranks[r].k[k]);
		}
	}
	assert_true(written > 0);
	back_close();
	ir_ctx_release(&s.c);
}

/* ---- programs ---- */

static char text[16384];

static void
put(const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, sizeof text - n, fmt, ap);
	va_end(ap);
}

#endif

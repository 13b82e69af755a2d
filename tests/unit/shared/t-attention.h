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

struct shape {
	int64_t b, s, t, h, k, d, v;
	const char *how;	/* "causal", "window=3", ... */
	const char *dtype;
	const char *axes;
	/*
	 * after dims: how they are cut; the dim of keys; where it communicates
	 */
	const char *cut_s, *keys, *cut_t, *cut_h, *cut_k, *on;
	/* after types: sums that dk and dv are parts of */
	const char *sum;
	bool sinks, between, selected;
	const char *stored;	/* of 8 bits: what is selected; NULL: dtype */
};

static const struct shape plain = {
	1, 1, 1, 1, 1, 1, 1, "", "f32", "", "", "t", "", "", "", "", "",
	false, false, false, NULL
};

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

static void
put_head(const struct shape *x)
{
	text[0] = '\0';
	s.stored = x->stored != NULL;
	put("llmc-ir 1\n%s\n", x->axes);
	put("dim b = %lld\ndim s = %lld\ndim t = %lld\ndim h = %lld\n",
	    (long long)x->b, (long long)x->s, (long long)x->t,
	    (long long)x->h);
	put("dim rows = %lld\n", (long long)x->t + 40);
	put("dim k = %lld\ndim d = %lld\ndim v = %lld\ndim three = 3\n\n",
	    (long long)x->k, (long long)x->d, (long long)x->v);
	put("model {\n");
}

/* "f32[b, s, h, d]": of queries, or of keys; d or v, or neither. */
static const char *
type_of(const struct shape *x, bool keys, const char *col, const char *sum)
{
	static char names[8][96];
	static int next;
	char *at = names[next++ % 8];

	/* one dim, so that what is made of both can be added */
	col = *col && x->d == x->v ? "d" : col;

	snprintf(at, sizeof names[0], "%s[b, %s%s, %s%s%s%s]%s",
		 *col ? x->dtype : "f32", keys ? x->keys : "s",
		 keys ? x->cut_t : x->cut_s, keys ? "k" : "h",
		 keys ? x->cut_k : x->cut_h, *col ? ", " : "", col, sum);
	return at;
}

static void
put_source(int number, const char *type)
{
	put("  %%%d = weight name=\"w%d\" init=normal std=1 : %s\n", number,
	    number, type);
}

/* their values */
enum { SINKS = 16, FIRST, LAST, INDEX, KEYS_OF, VALUES_OF, KEYS, VALUES };

/* Keys or values, perhaps as rows that an index selects. */
static void
put_keys(const struct shape *x, int number, const char *col)
{
	const char *type = type_of(x, true, col, "");
	const char *stored = x->stored ? x->stored : x->dtype;
	int of = number == 1 ? KEYS_OF : VALUES_OF;
	int rows = !x->stored ? number : number == 1 ? KEYS : VALUES;

	if (!x->selected || *x->axes || x->keys[0] != 't') {
		put_source(number, type);
		return;
	}
	if (number == 1) {
		put("  %%%d = input name=\"index\" : idx<rows>[b, t]\n", INDEX);
	}
	put("  %%%d = weight name=\"w%d\" init=normal std=1 : %s[rows, k%s]\n",
	    of, number, stored, strrchr(type, ','));
	text[strlen(text) - 2] = '\0';	/* its last bracket is the type's */
	put("\n  %%%d = gather %%%d, %%%d of=rows : %s%s\n", rows, of, INDEX,
	    stored, strchr(type, '['));
	if (x->stored) {
		put("  %%%d = cast %%%d : %s\n", number, rows, type);
	}
}

static const char *
suffix(const struct shape *x)
{
	return !x->between ? x->sinks ? "_sinks" : ""
		: x->sinks ? "_sinks_between" : "_between";
}

/* The operands after those of plain attention. */
static void
put_more(const struct shape *x, bool sinks)
{
	if (x->sinks && sinks) {
		put(", %%%d", SINKS);
	}
	if (x->between) {
		put(", %%%d, %%%d", FIRST, LAST);
	}
	put("%s%s : ", x->how, x->on);
}

/* The lse of value `to`, and what it and attention itself read beside q, k and
 * v.  Some queries see no key, others all. */
static void
put_lse(const struct shape *x, int to)
{
	if (x->sinks) {
		put("  %%%d = weight name=\"sinks\" init=normal std=1 : "
		    "f32[h%s]\n", SINKS, x->cut_h);
	}
	if (x->between) {
		put("  %%%d = weight name=\"first\" init=normal std=%g : "
		    "f32[b, s%s]\n", FIRST, (double)x->t / 3, x->cut_s);
		put("  %%%d = weight name=\"last\" init=normal std=%g : "
		    "f32[b, s%s]\n", LAST, (double)x->t * 2, x->cut_s);
	}
	put("  %%%d = attention%s_lse %%0, %%1", to, suffix(x));
	put_more(x, true);
	put("%s\n", type_of(x, false, "", ""));
}

/* A derivative of value `to`, of the operands that all have. */
static void
put_back(const struct shape *x, int to, const char *what, const char *operands,
	 const char *type)
{
	put("  %%%d = attention%s_%s %s", to, x->between ? "_between" : "",
	    what, operands);
	put_more(x, false);
	put("%s\n", type);
}

static void
put_forward(const struct shape *x)
{
	put_head(x);
	put_source(0, type_of(x, false, "d", ""));
	put_keys(x, 1, "d");
	put_keys(x, 2, "v");
	put_lse(x, 4);
	put("  %%3 = attention%s %%0, %%1, %%2", suffix(x));
	put_more(x, true);
	put("%s\n", type_of(x, false, "v", ""));
	put("  return %%3, %%4\n}\n");
}

static void
put_backward(const struct shape *x)
{
	put_head(x);
	put_source(0, type_of(x, false, "d", ""));
	put_keys(x, 1, "d");
	put_keys(x, 2, "v");
	put_source(3, type_of(x, false, "v", ""));
	put_source(4, type_of(x, false, "", ""));
	put_lse(x, 5);
	put_back(x, 6, "dq", "%0, %1, %2, %3, %5, %4",
		 type_of(x, false, "d", ""));
	put_back(x, 7, "dk", "%0, %1, %2, %3, %5, %4",
		 type_of(x, true, "d", x->sum));
	put_back(x, 8, "dv", "%0, %1, %3, %5", type_of(x, true, "v", x->sum));
	if (x->d % 2) {
		put("  return %%6, %%7, %%8\n}\n");
		return;
	}
	put("  %%9 = rope %%6 seq=s theta=10000 inverse : %s\n",
	    type_of(x, false, "d", ""));
	put("  %%10 = rope %%7 seq=%s theta=10000 inverse : %s\n", x->keys,
	    type_of(x, true, "d", x->sum));
	if (x->d != x->v) {
		put("  return %%9, %%10, %%8\n}\n");
		return;
	}
	put("  %%11 = rope %%8 seq=%s theta=10000 inverse : %s\n", x->keys,
	    type_of(x, true, "v", x->sum));
	put("  %%12 = add %%10, %%11 : %s\n",
	    type_of(x, true, "v", x->sum));
	put("  return %%9, %%10, %%12\n}\n");
}

static struct shape
random_shape(void)
{
	static const char *const stored[] = { NULL, "f8e4m3", "f8e5m2" };
	static const char *const how[] = { "", " causal", " causal",
					   " causal window=5",
					   " window=17", " scale=0.3",
					   " causal softcap=1.5",
					   " causal alibi=4", " alibi=8" };
	struct shape x = plain;

	x.b = draw(1, 3);
	x.s = draw(0, 3) ? draw(1, 130) : draw(1, 3);
	x.t = draw(0, 1) ? x.s : draw(1, 130);
	x.k = draw(1, 3);
	x.h = x.k * draw(1, 3);
	x.d = draw(1, 128);
	x.v = draw(1, 128);
	if (draw(0, 1)) {
		x.keys = x.s == x.t ? "s" : x.keys;
		x.v = x.d;
	}
	x.how = how[draw(0, 8)];
	x.sinks = draw(0, 2) == 0;
	x.between = draw(0, 2) == 0;
	x.selected = draw(0, 1);
	x.stored = x.selected ? stored[draw(0, 2)] : NULL;
	return x;
}

static int
times(int n)
{
	return getenv("T_TIMES") ? atoi(getenv("T_TIMES")) : n;
}

static void
both(const struct shape *x, double bound)
{
	put_forward(x);
	check(text, NULL, bound);
	put_backward(x);
	check(text, NULL, bound);
}

/* NaN of a key's values reaches the queries that see it, and no others of their
 * block. */
static void
forward_bad(const struct shape *x, double bound)
{
	assert_true(x->between && x->b == 1);
	s.bad = true;
	s.bad_key = draw(1, x->t - 1);
	s.bad_col = draw(0, x->v - 1);
	s.seen_bad = 0;
	put_forward(x);
	check(text, NULL, bound);
	s.bad = false;
	assert_true(s.seen_bad > 0);
}

/* ---- with what stands around it ---- */

/* As autodiff makes it, with rotations, and one tensor for q, k and v. */
static void
around(const struct shape *x)
{
	const char *q = type_of(x, false, "d", "");
	const char *k = type_of(x, true, "d", "");

	put_head(x);
	put("  %%0 = weight name=\"p\" init=normal std=1 : "
	    "%s[b, s, three, h, d]\n", x->dtype);
	put("  %%1 = select %%0 of=three at=0 : %s\n", q);
	put("  %%2 = select %%0 of=three at=1 : %s\n", q);
	put("  %%3 = select %%0 of=three at=2 : %s\n", q);
	put("  %%4 = rope %%1 seq=s theta=10000 : %s\n", q);
	put("  %%5 = weight name=\"k\" init=normal std=1 : %s\n", k);
	put("  %%6 = rope %%5 seq=%s theta=10000 : %s\n", x->keys, k);
	put("  %%7 = attention %%4, %%6, %%6%s : %s\n", x->how, q);
	put("  %%8 = attention %%1, %%2, %%3%s : %s\n", x->how, q);
	put("  %%9 = attention %%7, %%7, %%7%s : %s\n", x->how, q);
	put("  %%10 = mul %%7, %%8 : %s\n", q);
	put("  %%11 = add %%9, %%10 : %s\n", q);
	put("  %%12 = cast %%11 : f32[b, s, h, d]\n");
	put("  %%13 = tanh %%12 : f32[b, s, h, d]\n");
	put("  %%14 = sum %%13 over=(b, s, h, d) : f32[]\n");
	put("  return %%14\n}\n");
}

/* ---- tests of every back end ---- */

static void
alone(void **state)
{
	struct shape x;
	int i;

	(void)state;
	for (i = 0; i < times(2); i++) {
		x = random_shape();
		both(&x, 1e-5);
	}
}

static void
half_as_wide(void **state)
{
	struct shape x;
	int i;

	(void)state;
	for (i = 0; i < times(3); i++) {
		x = random_shape();
		x.dtype = "bf16";
		both(&x, 2e-2);
	}
}

static void
heads_apart(void **state)
{
	struct shape x = random_shape();

	(void)state;
	x.axes = "axis tp = 2";
	x.cut_h = x.cut_k = ":tp";
	x.k = 2;
	x.h = 6;
	both(&x, 1e-5);
	x.cut_k = "";		/* more ranks than kv heads */
	x.k = 1;
	x.h = 4;
	x.sum = "{+tp}";
	both(&x, 1e-5);
	x.k = 3;		/* a rank has some heads of the second */
	x.h = 6;
	both(&x, 1e-5);
	x.k = x.h = 1;		/* one has none, and all are small */
	x.s = x.t = 4;
	x.d = x.v = 8;
	both(&x, 1e-5);
}

/* Queries and keys by ring: along one axis or two, balanced or not. */
static void
sequences_apart(void **state)
{
	static const char *const axes[] = {
		"axis cp = 2", "axis cp = 2 balanced",
		"axis cp = 3\naxis tp = 2", "axis cp = 3 balanced"
	};
	struct shape x;
	int i;

	(void)state;
	for (i = 0; i < 4; i++) {
		x = random_shape();
		x.t = x.s = draw(1, 100);
		x.keys = "s";
		x.axes = axes[i];
		x.cut_s = x.cut_t = ":cp";
		x.on = " on=cp";
		x.dtype = i % 2 ? "bf16" : "f32";
		if (i == 2) {
			x.cut_h = x.cut_k = ":tp";
			x.k = 2;
			x.h = 4;
		}
		both(&x, i % 2 ? 2e-2 : 1e-5);
	}
}

/* Queries are split, and all keys are on each rank. */
static void
queries_apart(void **state)
{
	struct shape x = random_shape();

	(void)state;
	x.axes = "axis cp = 2 balanced";
	x.cut_s = ":cp";
	x.sum = "{+cp}";
	x.how = " causal";
	x.s = x.t = 45;
	both(&x, 1e-5);
}

static void
with_neighbours(void **state)
{
	struct shape x;
	int i;

	(void)state;
	for (i = 0; i < times(2); i++) {
		x = random_shape();
		x.d = 2 * draw(1, 32);
		x.t = x.s;
		x.keys = "s";
		x.dtype = i % 2 ? "bf16" : "f32";
		around(&x);
		check(text, "autodiff,cse,dce", i % 2 ? 3e-2 : 1e-5);
	}
}

#endif

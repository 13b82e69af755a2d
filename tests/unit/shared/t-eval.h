/*
 * For tests that build a small module, evaluate it and look at its values by
 * name: a value's element is read at one index per dim, `t.ix`, so that a
 * test can write an op's formula as a textbook does.  Include cmocka first.
 */
#ifndef TESTS_UNIT_T_EVAL_H
#define TESTS_UNIT_T_EVAL_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

struct seen {
	const char *path;
	struct ir_type type;
	const double *data;
	int64_t elems;
};

static struct {
	struct ir_ctx c;
	struct ir_module *m;
	region_id r;		/* where nodes go */
	struct ir_new n;	/* the next node */
	struct ir_eval_options opt;
	struct ir_eval_result res[4];
	uint32_t nres;
	struct seen seen[128];
	int nseen;
	int64_t ix[16];		/* by dim */
	uint32_t rnd;
} t = { .rnd = 2463534242u };

static inline int64_t
draw(int64_t lo, int64_t hi)
{
	t.rnd ^= t.rnd << 13;
	t.rnd ^= t.rnd >> 17;
	t.rnd ^= t.rnd << 5;
	return lo + (int64_t)(t.rnd % (uint32_t)(hi - lo + 1));
}

static inline sym_t
sym(const char *s)
{
	return intern_str(&t.c.syms, s);
}

static inline void
note_seen(void *user, const char *path, const struct ir_type *type,
	  const double *data, int64_t elems)
{
	struct seen *s = &t.seen[t.nseen++];

	(void)user;
	assert_true(t.nseen < 128);
	s->path = arena_strndup(&t.c.perm, path, strlen(path));
	s->type = *type;
	s->data = arena_dup(&t.c.perm, data, (size_t)elems * sizeof *data);
	s->elems = elems;
}

static inline void
open_with(const struct mem *mem)
{
	func_id f;

	ir_ctx_init(&t.c, mem);
	t.m = ir_module_new(&t.c);
	memset(&t.opt, 0, sizeof t.opt);
	t.opt.seed = 7;
	t.opt.seen = note_seen;
	t.nseen = 0;
	f = ir_func_add(t.m, sym("model"), true, (struct span){ 0, 0 });
	t.r = t.m->funcs.at[f].body;
}

static inline void
open_module(void)
{
	open_with(NULL);
}

static inline void
close_module(void)
{
	ir_ctx_release(&t.c);
}

static inline dim_id
dim(const char *name, int64_t size)
{
	return ir_dim_add(t.m, sym(name), size, 0, (struct span){ 0, 0 });
}

static inline void
begin(enum ir_op op, const char *hint)
{
	ir_new_init(&t.n, op, (struct span){ 0, 0 });
	t.n.hint = hint ? sym(hint) : 0;
}

static inline value_id
done(void)
{
	const char *why = "?";
	value_id v = ir_append(t.m, t.r, &t.n, &why);

	if (!v) {
		fail_msg("%s: %s", ir_ops[t.n.op].name, why);
	}
	return v;
}

static inline void
args(value_id a, value_id b, value_id c)
{
	ir_new_arg(&t.n, a);
	if (b) {
		ir_new_arg(&t.n, b);
	}
	if (c) {
		ir_new_arg(&t.n, c);
	}
}

#define DIMS(...) (uint8_t)(sizeof((dim_id[]){ __VA_ARGS__ }) / \
	sizeof(dim_id)), (dim_id[]){ __VA_ARGS__ }

static inline struct ir_type
make_type(enum ir_dtype dtype, dim_id of, uint8_t n, const dim_id *dims)
{
	struct ir_type type = { .dtype = (uint8_t)dtype, .ndims = n,
				.of = of };

	if (n > 0) {
		memcpy(type.dims, dims, n * sizeof *dims);
	}
	return type;
}

/* An input seen under its own name; `shuffle` puts its dims in any order. */
static inline value_id
source(const char *name, dim_id of, bool shuffle, uint8_t n,
       const dim_id *dims)
{
	struct ir_type type = make_type(of ? IR_IDX : IR_F32, of, n, dims);
	uint8_t i;

	for (i = n; shuffle && i > 1; i--) {
		int64_t k = draw(0, i - 1);
		dim_id d = type.dims[i - 1];

		type.dims[i - 1] = type.dims[k];
		type.dims[k] = d;
	}
	begin(IR_INPUT, name);
	ir_new_text(&t.n, IR_ATTR_NAME, sym(name));
	t.n.types[0] = type;
	return done();
}

static inline value_id
weight(const char *name, uint8_t n, const dim_id *dims)
{
	begin(IR_WEIGHT, "w");
	ir_new_text(&t.n, IR_ATTR_NAME, sym(name));
	t.n.types[0] = make_type(IR_F32, 0, n, dims);
	return done();
}

static inline bool
eval(value_id result)
{
	region_id r = t.m->funcs.at[ir_model(t.m)].body;

	VEC_PUSH(&t.c.perm, &t.m->regions.at[r].results, result);
	return ir_eval(t.m, &t.opt, t.res, 4, &t.nres);
}

static inline void
must_eval(value_id result)
{
	if (!eval(result)) {
		fail_msg("%s", t.c.diags.records.at[0].text);
	}
}

static inline void
must_fail(value_id result, const char *part)
{
	assert_false(eval(result));
	assert_int_equal(t.c.diags.errors, 1);
	if (!strstr(t.c.diags.records.at[0].text, part)) {
		fail_msg("no \"%s\" in: %s", part,
			 t.c.diags.records.at[0].text);
	}
}

static inline const struct seen *
find(const char *path)
{
	int i;

	for (i = t.nseen - 1; i >= 0; i--) {
		if (strcmp(t.seen[i].path, path) == 0) {
			return &t.seen[i];
		}
	}
	fail_msg("`%s` was not seen", path);
	return NULL;
}

/* The element of a value at t.ix. */
static inline double
at(const char *path)
{
	const struct seen *s = find(path);
	int64_t off = 0;
	int i;

	for (i = 0; i < s->type.ndims; i++) {
		dim_id d = s->type.dims[i];

		assert_true(t.ix[d] < ir_dim_size(t.m, d));
		off = off * ir_dim_size(t.m, d) + t.ix[d];
	}
	return s->data[off];
}

#define EACH(d) for (t.ix[d] = 0; t.ix[d] < ir_dim_size(t.m, d); t.ix[d]++)

static inline void
near(double got, double want)
{
	double scale = fabs(want) > 1 ? fabs(want) : 1;

	if (!(fabs(got - want) <= 1e-12 * scale)) {
		fail_msg("%.17g, and %.17g is expected", got, want);
	}
}

#endif

/*
 * For tests of kernels: the groups of a function of IR text, made into code,
 * linked, loaded and run on buffers; and the same function by the reference
 * interpreter.  Include cmocka's headers through t-object.h first.
 */
#ifndef TESTS_UNIT_T_DOT_H
#define TESTS_UNIT_T_DOT_H

#include "tests/unit/shared/t-object.h"

#include <math.h>
#include <string.h>

#include "codegen/cpu/cpu.h"

#define T_BUFFERS 64

/* A value or a tensor in memory. */
struct t_buffer {
	value_id value;
	node_id sink;
	const char *name;	/* of a source, or a sink */
	struct ir_type type;
	int64_t elems, row;	/* of its last dim */
	char *at;
	double *was, *expect;	/* contents before; what the result is */
};

struct t_kernels {
	struct ir_ctx c;
	struct ir_module *m;
	struct cg_cpu cpu;
	struct t_object *o;
	struct kernel_list *list;
	struct cg_kernel *made;	/* by kernel of the list */
	const struct rt_kernel *run;
	struct t_buffer buffer[T_BUFFERS];
	uint32_t nbuffers;
	uint64_t rng;
	bool fell_back;		/* some contraction is a plain nest */
	bool nests;		/* all shall be that */
	bool in_rows;		/* no weight shall lie in panels */
	struct cg_panel *panel;	/* by value: .lanes 0: it lies in rows */
};

static inline uint32_t
t_below(struct t_kernels *t, uint32_t n)
{
	t->rng ^= t->rng << 13;
	t->rng ^= t->rng >> 7;
	t->rng ^= t->rng << 17;
	return (uint32_t)(t->rng >> 20) % n;
}

/* ---- elements ---- */

static inline int64_t
t_bytes(enum ir_dtype d)
{
	return ir_dtypes[d].bits / 8;
}

/* Of a weight that is stored in 8 bits. */
static inline double
t_get8(enum ir_dtype dtype, signed char byte)
{
	int exponent = byte >> 3 & 15, fraction = byte & 7;

	return dtype == IR_INT8 ? byte
		: (byte < 0 ? -1 : 1) *
		  ldexp(fraction | (exponent ? 8 : 0),
			(exponent ? exponent : 1) - 10);
}

/* ---- int4: a row is its numbers, and then its scales: see RT_ELEM_I4 ---- */

/* The byte that number i is in, and its lowest bit there. */
static inline char *
t_int4(const struct t_buffer *b, int64_t i, int *shift)
{
	int64_t k = i % b->row, row = i / b->row * (b->row / 64 * 33);

	*shift = (int)(k / 2 % 2 * 4);
	return b->at + row + k / 8 * 4 + k % 2 * 2 + k % 8 / 4;
}

static inline char *
t_int4_scale(const struct t_buffer *b, int64_t i)
{
	return b->at + i / b->row * (b->row / 64 * 33) + b->row / 2 +
	       i % b->row / 128 * 2;
}

static inline double
t_get4(const struct t_buffer *b, int64_t i)
{
	int shift, n = *t_int4(b, i, &shift);
	uint16_t half;
	uint32_t bits;
	float f;

	n = (n >> shift & 15) - (n >> shift & 8) * 2;
	memcpy(&half, t_int4_scale(b, i), 2);
	bits = (uint32_t)half << 16;
	memcpy(&f, &bits, 4);
	return n * (double)f;
}

/* The first number of a group comes with a scale. */
static inline void
t_put4(struct t_buffer *b, int64_t i, int eighths)
{
	uint16_t half = (uint16_t)(0x3d80 + (eighths & 0x7f));
	int shift, n = eighths % 8;
	char *at = t_int4(b, i, &shift);

	*at = (char)((*at & ~(15 << shift)) | (n & 15) << shift);
	if (i % 128 == 0) {
		memcpy(t_int4_scale(b, i), &half, 2);
	}
}

static inline double
t_get(const struct t_buffer *b, int64_t i)
{
	uint16_t half;
	uint32_t bits;
	float f;

	if (b->type.dtype == IR_INT4) {
		return t_get4(b, i);
	}
	if (ir_dtypes[b->type.dtype].bits == 8) {
		return t_get8((enum ir_dtype)b->type.dtype,
			      (signed char)b->at[i]);
	}
	if (ir_dtypes[b->type.dtype].bits == 32) {
		memcpy(&f, b->at + 4 * i, 4);
		return (double)f;
	}
	memcpy(&half, b->at + 2 * i, 2);
	if (b->type.dtype == IR_BF16) {
		bits = (uint32_t)half << 16;
		memcpy(&f, &bits, 4);
		return (double)f;
	}
	return (half & 0x8000 ? -1 : 1) *
	       ldexp((half & 0x3ff) | (half & 0x7c00 ? 0x400 : 0),
		     (half & 0x7c00 ? half >> 10 & 31 : 1) - 25);
}

/* Numbers from -1 to 1 that every float type can hold. */
static inline void
t_put(struct t_buffer *b, int64_t i, int eighths)
{
	float f = (float)eighths / 64;
	uint32_t bits, half, exp;

	memcpy(&bits, &f, 4);
	if (b->type.dtype == IR_INT4) {
		t_put4(b, i, eighths);
		return;
	}
	if (ir_dtypes[b->type.dtype].bits == 8) {
		b->at[i] = (char)(eighths & 0x77);
		return;
	}
	if (ir_dtypes[b->type.dtype].bits == 32) {
		memcpy(b->at + 4 * i, &f, 4);
		return;
	}
	half = bits >> 16;
	if (b->type.dtype == IR_F16) {
		exp = (bits >> 23 & 255) - 112;
		half = f == 0 ? 0 : (bits >> 16 & 0x8000) | exp << 10 |
				    (bits >> 13 & 0x3ff);
	}
	b->at[2 * i] = (char)half;
	b->at[2 * i + 1] = (char)(half >> 8);
}

/* ---- the module ---- */

static inline void
t_words(struct t_kernels *t, const struct cg_kernel *k,
	struct ll_value **words)
{
	struct ll *l = t->cpu.ll;
	uint32_t n = sizeof(struct rt_step) / 8, i, j;
	struct ll_value **steps = arena_alloc(&t->c.perm, (k->steps.n * n + 1) *
							  sizeof *steps);

	for (i = 0; i < k->steps.n * n; i++) {
		steps[i] = ll_i64(l, 0);
	}
	for (i = 0; i < k->steps.n; i++) {
		j = i * n;
		steps[j + offsetof(struct rt_step, run) / 8] =
			k->steps.at[i].func;
		steps[j + offsetof(struct rt_step, items) / 8] =
			ll_i64(l, k->steps.at[i].items);
	}
	for (i = 0; i < sizeof(struct rt_kernel) / 8; i++) {
		words[i] = ll_i64(l, 0);
	}
	words[offsetof(struct rt_kernel, nsteps) / 8] = ll_i64(l, k->steps.n);
	if (k->steps.n > 0) {
		words[offsetof(struct rt_kernel, steps) / 8] =
			ll_data(l, NULL, steps, k->steps.n * n);
	}
}

/* A contraction as such if it can be, else as a nest. */
static inline bool
t_make(struct t_kernels *t, const struct kernel *k, struct cg_kernel *out,
       const char **why)
{
	struct cg_nest n = { .k = k, .space = *k->work->shape };
	uint32_t i;

	*out = (struct cg_kernel){ 0 };
	if (k->kind == KERNEL_CONTRACTION && !t->nests) {
		if (cg_dot_steps(&t->cpu, out, k, why)) {
			return true;
		}
		assert_int_equal(out->steps.n, 0);
		*out = (struct cg_kernel){ 0 };
		if (cg_experts_steps(&t->cpu, out, k, why)) {
			return true;
		}
		assert_int_equal(out->steps.n, 0);
		t->fell_back = true;
	}
	for (i = 0; i < k->nodes.n; i++) {
		VEC_PUSH(&t->c.perm, &n.nodes, k->nodes.at[i]);
	}
	*out = (struct cg_kernel){ 0 };
	return cg_nest_steps(&t->cpu, out, &n, why);
}

/* False: some kernel cannot be made; *why. */
static inline bool
t_emit(struct t_kernels *t, const char *cpu, const char **why)
{
	uint32_t n = sizeof(struct rt_kernel) / 8, i;
	struct ll_value **words;

	t->o = t_object_begin(&t->c.perm, cpu);
	t->cpu = (struct cg_cpu){ .m = t->m, .ll = t->o->l, .a = &t->c.perm };
	if (!t->in_rows) {
		t->cpu.panels = cg_find_panels(t->m, &t->c.perm);
	}
	t->list = kernels_find(t->m, 1, NULL, &t->c.perm)->top;
	t->made = arena_alloc(&t->c.perm,
			      (t->list->at.n + 1) * sizeof *t->made);
	words = arena_alloc(&t->c.perm,
			    (t->list->at.n * n + 1) * sizeof *words);
	t->panel = arena_alloc(&t->c.perm,
			       t->m->values.n * sizeof *t->panel);
	for (i = 1; i < t->m->values.n; i++) {
		if (!cg_cpu_panel(&t->cpu, i, &t->panel[i])) {
			t->panel[i].lanes = 0;
		}
	}
	for (i = 0; i < t->list->at.n; i++) {
		if (!t_make(t, &t->list->at.at[i], &t->made[i], why)) {
			return false;
		}
		t_words(t, &t->made[i], words + i * n);
	}
	ll_data(t->cpu.ll, "llmc_test", words, t->list->at.n * n);
	return true;
}

/* Of the text's first function, which has no operands. */
static inline void
t_kernels_open(struct t_kernels *t, const char *text, const char *cpu,
	       uint64_t seed)
{
	const char *why = "?";
	uint32_t base;

	t->nbuffers = 0;
	t->fell_back = false;
	t->rng = seed * 0x9e3779b97f4a7c15 | 1;
	ir_ctx_init(&t->c, NULL);
	assert_true(source_add(&t->c.sources, "test", text, strlen(text),
			       &base));
	t->m = ir_read(&t->c, t->c.sources.files.n - 1);
	if (!t->m || !ir_verify(t->m)) {
		diag_flush(&t->c.diags, stderr);
		fail_msg("%s", text);
	}
	if (!t_emit(t, cpu, &why)) {
		fail_msg("%s\n%s", why, text);
	}
	t_object_end(t->o);
	t->run = t_object_find(t->o, "llmc_test");
}

static inline void
t_kernels_close(struct t_kernels *t)
{
	uint32_t i;

	for (i = 0; i < t->nbuffers; i++) {
		free(t->buffer[i].at);
		free(t->buffer[i].was);
	}
	t_object_close(t->o);
	ir_ctx_release(&t->c);
}

/* ---- buffers ---- */

/* New ones hold drawn numbers. */
static inline struct t_buffer *
t_buffer(struct t_kernels *t, value_id value, node_id sink)
{
	const struct ir_module *m = t->m;
	node_id from = sink ? sink : m->values.at[value].node;
	const struct ir_attr *name = ir_attr(m, ir_node(m, from),
					     IR_ATTR_NAME);
	struct t_buffer *b;
	int64_t i;
	uint32_t n;

	for (n = 0; n < t->nbuffers; n++) {
		b = &t->buffer[n];
		if (b->value == value && b->sink == sink) {
			return b;
		}
	}
	assert_true(t->nbuffers < T_BUFFERS);
	b = &t->buffer[t->nbuffers++];
	*b = (struct t_buffer){ .value = value, .sink = sink };
	b->name = name ? ir_text(m->ctx, name->text) : NULL;
	b->type = *ir_type(m, value ? value
				    : ir_args(m, ir_node(m, sink))[0]);
	assert_true(ir_type_elems(m, &b->type, &b->elems));
	b->row = b->type.ndims
		? ir_dim_size(m, b->type.dims[b->type.ndims - 1]) : 1;
	b->at = malloc((size_t)((double)b->elems *
				ir_elem_bytes(b->type.dtype)) + 64);
	b->was = malloc((size_t)b->elems * sizeof *b->was);
	assert_non_null(b->at);
	assert_non_null(b->was);
	for (i = 0; i < b->elems; i++) {
		t_put(b, i, (int)t_below(t, 129) - 64);
		b->was[i] = t_get(b, i);
	}
	return b;
}

/* One step: its items one by one from the last, each in fresh scratch. */
static inline void
t_run_step(const struct rt_step *s, const struct rt_call *call,
	   int64_t own_bytes)
{
	char *own = aligned_alloc(64, (size_t)(own_bytes + 127) / 64 * 64);
	int64_t i;

	assert_non_null(own);
	for (i = s->items; i-- > 0;) {
		memset(own, 0xff, (size_t)own_bytes);
		s->run(call, own, i, i + 1);
	}
	free(own);
}

/* Every other sum begins here: what is there must not be looked at. */
static inline int64_t
t_old(struct t_kernels *t, node_id sink)
{
	struct t_buffer *b = t_buffer(t, 0, sink);
	int64_t i, old = t_below(t, 2);

	for (i = 0; i < b->elems && !old; i++) {
		memset(b->at + i * t_bytes(b->type.dtype), 0xff,
		       (size_t)t_bytes(b->type.dtype));	/* a NaN */
		b->was[i] = 0;
	}
	return old;
}

/*
 * What the kernel is called with in place of a buffer, in memory to be freed:
 * its numbers in panels; NULL: the buffer as it is.  This repeats the layout's
 * definition, element by element.
 */
static inline char *
t_panels(struct t_kernels *t, value_id value)
{
	const struct t_buffer *b;
	const struct cg_panel p = t->panel[value];
	int64_t bytes, per, i;
	char *to;

	if (p.lanes == 0) {
		return NULL;
	}
	b = t_buffer(t, value, 0);
	bytes = t_bytes(b->type.dtype);
	per = 4 / bytes;
	to = malloc((size_t)(b->elems * bytes));
	assert_non_null(to);
	for (i = 0; i < b->elems; i++) {
		int64_t row = i / p.row, k = i % p.row, at;

		at = row / p.lanes * p.lanes * p.row;
		at += (k / per * p.lanes + row % p.lanes) * per + k % per;
		memcpy(to + at * bytes, b->at + i * bytes, (size_t)bytes);
	}
	return to;
}

static inline void
t_run_kernel(struct t_kernels *t, uint32_t i)
{
	const struct cg_kernel *k = &t->made[i];
	char *at[T_BUFFERS], *turned[T_BUFFERS];
	struct rt_call call = { .at = at };
	char *shared = aligned_alloc(64, (size_t)(k->shared_bytes + 127) /
					     64 * 64);
	int64_t num[T_BUFFERS], s;
	uint32_t n;

	assert_non_null(shared);
	assert_true(k->nums.n < T_BUFFERS);
	memset(shared, 0xff, (size_t)k->shared_bytes);
	assert_true(k->operands.n < T_BUFFERS);
	for (n = 0; n < k->operands.n; n++) {
		turned[n] = t_panels(t, k->operands.at[n].value);
		at[n] = turned[n] ? turned[n]
			: t_buffer(t, k->operands.at[n].value,
				   k->operands.at[n].sink)->at;
	}
	for (n = 0; n < k->nums.n; n++) {
		assert_int_equal(k->nums.at[n].kind, CG_OLD);
		num[n] = t_old(t, k->nums.at[n].node);
	}
	call.num = num;
	call.shared = shared;
	for (s = 0; s < t->run[i].nsteps; s++) {
		t_run_step(&t->run[i].steps[s], &call, k->own_bytes);
	}
	for (n = 0; n < k->operands.n; n++) {
		free(turned[n]);
	}
	free(shared);
}

/* ---- the reference ---- */

static inline struct t_buffer *
t_named(struct t_kernels *t, const char *name, bool sink)
{
	uint32_t i;

	for (i = 0; i < t->nbuffers; i++) {
		struct t_buffer *b = &t->buffer[i];

		if (b->name && strcmp(b->name, name) == 0 &&
		    sink == (b->sink != 0)) {
			return b;
		}
	}
	return NULL;
}

static inline bool
t_source(void *user, enum ir_op op, const char *name,
	 const struct ir_type *type, int64_t elems, double *out,
	 struct span at)
{
	struct t_buffer *b = t_named(user, name, false);

	(void)op;
	(void)type;
	(void)at;
	memset(out, 0, (size_t)elems * sizeof *out);
	if (b) {
		memcpy(out, b->was, (size_t)elems * sizeof *out);
	}
	return true;
}

static inline bool
t_has(void *user, enum ir_op op, const char *name)
{
	(void)op;
	(void)user;
	(void)name;
	return true;
}

static inline bool
t_sink(void *user, enum ir_op op, const char *name,
       const struct ir_type *type, int64_t elems, const double *data,
       struct span at)
{
	struct t_kernels *t = user;
	struct t_buffer *b = t_named(t, name, true);
	int64_t i;

	(void)type;
	(void)at;
	assert_non_null(b);
	b->expect = arena_alloc(&t->c.perm, (size_t)elems * sizeof(double));
	for (i = 0; i < elems; i++) {
		b->expect[i] = data[i] +
			       (op == IR_ACCUMULATE ? b->was[i] : 0);
	}
	return true;
}

/* Largest difference, of the root of the mean square of what is expected. */
static inline double
t_differs(const struct t_buffer *b)
{
	double worst = 0, squares = 0;
	int64_t i;

	for (i = 0; i < b->elems; i++) {
		double d = fabs(t_get(b, i) - b->expect[i]);

		squares += b->expect[i] * b->expect[i];
		worst = d > worst || d != d ? d : worst;
	}
	return worst / (sqrt(squares / (double)b->elems) + 1e-30);
}

/* Runs all kernels, and the function by the interpreter; the worst. */
static inline double
t_kernels_compare(struct t_kernels *t)
{
	struct ir_weights w = { .get = t_source, .put = t_sink, .has = t_has,
				.user = t };
	struct ir_eval_options opt = { .func = 1, .weights = &w };
	struct ir_eval_result res[8];
	const struct ir_region *r =
		&t->m->regions.at[t->m->funcs.at[1].body];
	double worst = 0;
	uint32_t i, n;

	for (i = 0; i < t->list->at.n; i++) {
		t_run_kernel(t, i);
	}
	assert_true(ir_eval(t->m, &opt, res, 8, &n));
	for (i = 0; i < n; i++) {
		t_buffer(t, r->results.at[i], 0)->expect = res[i].data;
	}
	for (i = 0; i < t->nbuffers; i++) {
		const struct t_buffer *b = &t->buffer[i];
		double d = b->expect ? t_differs(b) : 0;

		worst = d > worst || d != d ? d : worst;
	}
	return worst;
}

#endif

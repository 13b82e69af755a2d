/*
 * Attention for a CPU against the interpreter: random shapes, alone and
 * split, forward and backward.  The interpreter knows what each value of the
 * whole program is; each rank is given its pieces of the operands, runs the
 * kernel's steps in turn with the others, and must write its pieces of the
 * results.
 */
#include "tests/unit/t-object.h"

#include <math.h>

#include "codegen/cpu/cpu.h"
#include "passes/pass.h"

#define MOST_RANKS 8
#define MOST_KERNELS 24

struct value {
	const double *data;	/* whole */
	int64_t elems;
};

struct rank {
	struct cg_cpu cpu;
	struct cg_kernel k[MOST_KERNELS];
	/* of the kernel that runs */
	char **at;
	struct rt_pieces *pieces;
	const struct rt_pieces **piece_at;
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
	struct t_object *object;
	uint64_t rng;
	const char *text;
	double bound;
	bool timed;
} s = { .rng = 88172645463325252u };

static int64_t
draw(int64_t lo, int64_t hi)
{
	s.rng ^= s.rng << 13;
	s.rng ^= s.rng >> 7;
	s.rng ^= s.rng << 17;
	return lo + (int64_t)((s.rng >> 20) % (uint64_t)(hi - lo + 1));
}

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
	struct ir_eval opt = { .seed = 5, .seen = note };
	struct ir_eval_result r[16];
	uint32_t n, v;

	s.values = arena_alloc(&s.c.perm, s.m->values.n * sizeof *s.values);
	for (v = 1; v < s.m->values.n; v++) {
		char *hint = arena_printf(&s.c.perm, "v%u", v);

		s.m->values.at[v].hint = intern_str(&s.c.syms, hint);
	}
	if (!ir_eval(s.m, &opt, r, 16, &n)) {
		fail_msg("%s\n%s", s.c.diags.records.at[0].text, s.text);
	}
}

static void
open_text(const char *text, const char *passes)
{
	struct pass_list list = { 0 };
	struct pass_table table;
	struct pass_manager pm;
	uint32_t base;

	s.text = text;
	ir_ctx_init(&s.c, NULL);
	assert_true(source_add(&s.c.sources, "text", text, strlen(text),
			       &base));
	s.m = ir_read(&s.c, s.c.sources.files.n - 1);
	if (!s.m || !ir_verify(s.m)) {
		fail_msg("%s\n%s", s.c.diags.records.at[0].text, text);
	}
	if (passes) {
		pass_table_init(&table, &s.c);
		pass_manager_init(&pm, &table);
		assert_true(pass_list_parse(&table, &list, passes));
		assert_int_equal(pass_run(&pm, &list, s.m), PASS_OK);
		pass_table_release(&table);
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
		s.ranks[i].cpu = (struct cg_cpu){ .m = s.m,
						  .a = &s.c.perm,
						  .nranks_most = 2 };
		left = i;
		for (a = (axis_id)s.m->axes.n; a-- > 1; ) {
			uint32_t n = (uint32_t)s.m->axes.at[a].size;

			s.ranks[i].cpu.at[a] = left % n;
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

/* A table of a kernel's steps, under a name that can be found. */
static void
show_steps(struct ll *l, const struct cg_kernel *k, uint32_t kernel,
	   uint32_t rank)
{
	struct ll_value *words[64];
	uint32_t i;

	assert_true(k->steps.n > 0 && k->steps.n < 64);
	for (i = 0; i < k->steps.n; i++) {
		words[i] = k->steps.at[i].func ? k->steps.at[i].func
					       : ll_null(l);
	}
	ll_data(l, arena_printf(&s.c.perm, "steps_%u_%u", kernel, rank),
		words, k->steps.n);
}

static void
emit(const char *cpu)
{
	const char *why = NULL;
	uint32_t i, r;

	s.nkernels = 0;
	add_kernels(kernels_find(s.m, ir_model(s.m), &s.c.perm)->top);
	assert_true(s.nkernels > 0);
	find_ranks();
	s.object = t_object_begin(&s.c.perm, cpu);
	for (r = 0; r < s.nranks; r++) {
		struct cg_cpu *c = &s.ranks[r].cpu;

		c->ll = s.object->l;
		c->nfuncs = 1000 * r;
		for (i = 0; i < s.nkernels; i++) {
			s.ranks[r].k[i] = (struct cg_kernel){ 0 };
			if (!cg_attention_steps(c, &s.ranks[r].k[i],
						s.kernels[i], &why)) {
				fail_msg("%s\n%s", why, s.text);
			}
			show_steps(c->ll, &s.ranks[r].k[i], i, r);
		}
	}
	t_object_end(s.object);
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

static void
put_elem(char *at, uint8_t dtype, double x)
{
	float f = (float)x;
	uint16_t h = to_bf16(x);

	if (dtype == IR_BF16) {
		memcpy(at, &h, 2);
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

static char *
make_operand(struct rank *r, const struct cg_operand *o)
{
	const struct ir_type *type = ir_type(s.m, o->value);
	size_t bytes = bytes_of(type->dtype);
	struct ir_local l;
	int64_t i;
	char *p;

	assert_int_not_equal(o->value, 0);
	ir_local(s.m, type, r->cpu.at, &l);
	p = nonsense(l.elems * (int64_t)bytes);
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

	ir_pieces(s.m, size, cut, r->cpu.at, &p);
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

	r->at = calloc(k->operands.n + 1, sizeof *r->at);
	r->pieces = calloc(k->spreads.n + 1, sizeof *r->pieces);
	r->piece_at = calloc(k->spreads.n + 1, sizeof *r->piece_at);
	for (i = 0; i < k->operands.n; i++) {
		r->at[i] = make_operand(r, &k->operands.at[i]);
	}
	for (i = 0; i < k->spreads.n; i++) {
		r->pieces[i] = pieces_of(r, k->spreads.at[i].size,
					 k->spreads.at[i].cut);
		r->piece_at[i] = &r->pieces[i];
	}
	r->shared = nonsense(k->shared_bytes);
	r->own = nonsense(k->own_bytes);
}

static void
close_rank(struct rank *r, const struct cg_kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->operands.n; i++) {
		free(r->at[i]);
	}
	free(r->at);
	free(r->pieces);
	free(r->piece_at);
	free(r->shared);
	free(r->own);
}

/* ---- talk ---- */

/* Row-major places of a rank's elements in the whole value. */
static void
find_places(const struct rank *r, const struct cg_spread *d, uint32_t n,
	    struct ir_local *l)
{
	uint32_t i;

	*l = (struct ir_local){ .ndims = n, .elems = 1 };
	for (i = 0; i < n; i++) {
		l->whole[i] = d[i].size;
		ir_pieces(s.m, d[i].size, d[i].cut, r->cpu.at, &l->dims[i]);
		l->elems *= l->dims[i].total;
	}
}

static bool
same_group(const struct rank *a, const struct rank *b, uint32_t axes)
{
	axis_id x;

	for (x = 1; x < s.m->axes.n; x++) {
		if (!(axes >> x & 1) && a->cpu.at[x] != b->cpu.at[x]) {
			return false;
		}
	}
	return true;
}

static void
receive(struct rank *to, uint32_t kernel, uint32_t step)
{
	const struct cg_step *x = &to->k[kernel].steps.at[step];
	struct ir_local in, out;
	int64_t i, j, found;
	uint32_t r;
	float *a;

	find_places(to, x->to, x->ndims, &out);
	a = (float *)(to->shared + x->out);
	for (i = 0; i < out.elems; i++) {
		a[i] = 0;
		found = 0;
		for (r = 0; r < s.nranks; r++) {
			struct rank *from = &s.ranks[r];

			if (!same_group(to, from, x->axes)) {
				continue;
			}
			find_places(from, from->k[kernel].steps.at[step].from,
				    x->ndims, &in);
			j = ir_local_find(&in, ir_local_at(&out, i));
			if (j >= 0) {
				a[i] += ((float *)(from->shared +
					from->k[kernel].steps.at[step].in))[j];
				found++;
			}
		}
		assert_true(x->op == RT_TALK_SUM ? found > 0 : found == 1);
	}
}

/* ---- running ---- */

static void
run_step(struct rank *r, void *func, int64_t items)
{
	void (*run)(const struct rt_call *c, char *own, int64_t from,
		    int64_t to);
	struct rt_call call = { .at = r->at, .pieces = r->piece_at,
				.shared = r->shared };
	int64_t half = items / 2;

	memcpy(&run, &func, sizeof run);
	run(&call, r->own, half, items);
	run(&call, r->own, 0, half);
}

static void
run_kernel(uint32_t kernel)
{
	void *const *steps;
	uint32_t i, r;

	for (i = 0; i < s.ranks[0].k[kernel].steps.n; i++) {
		for (r = 0; r < s.nranks; r++) {
			const struct cg_step *x =
				&s.ranks[r].k[kernel].steps.at[i];

			steps = t_object_find(s.object,
				arena_printf(&s.c.perm, "steps_%u_%u",
					     kernel, r));
			if (x->func) {
				run_step(&s.ranks[r], steps[i], x->items);
			} else {
				receive(&s.ranks[r], kernel, i);
			}
		}
	}
}

/* Of parts of a sum what all ranks have together. */
static double
over_ranks(const struct rank *me, uint32_t kernel, uint32_t operand,
	   int64_t place)
{
	const struct cg_operand *o = &me->k[kernel].operands.at[operand];
	const struct ir_type *type = ir_type(s.m, o->value);
	struct ir_local l;
	double sum = 0;
	uint32_t r;
	int64_t i;

	for (r = 0; r < s.nranks; r++) {
		if (!same_group(me, &s.ranks[r], (uint32_t)type->sum << 1)) {
			continue;
		}
		ir_local(s.m, type, s.ranks[r].cpu.at, &l);
		i = ir_local_find(&l, place);
		sum += get_elem(s.ranks[r].at[operand] +
				(size_t)i * bytes_of(type->dtype),
				type->dtype);
	}
	return sum;
}

static void
compare(struct rank *r, uint32_t kernel, uint32_t operand)
{
	const struct cg_operand *o = &r->k[kernel].operands.at[operand];
	const struct ir_type *type = ir_type(s.m, o->value);
	const double *want = s.values[o->value].data;
	double most = 1e-3, got;
	struct ir_local l;
	int64_t i;

	assert_non_null(want);
	ir_local(s.m, type, r->cpu.at, &l);
	for (i = 0; i < s.values[o->value].elems; i++) {
		most = fabs(want[i]) > most ? fabs(want[i]) : most;
	}
	for (i = 0; i < l.elems; i++) {
		int64_t place = ir_local_at(&l, i);

		got = over_ranks(r, kernel, operand, place);
		if (!(fabs(got - want[place]) <= s.bound * most)) {
			fail_msg("element %lld of %%%u is %.9g, and %.9g is "
				 "expected (of at most %.3g)\n%s",
				 (long long)place, o->value, got, want[place],
				 most, s.text);
		}
	}
}

static void
check(const char *text, const char *passes, double bound)
{
	uint32_t i, r, k, written = 0;

	open_text(text, passes);
	s.bound = bound;
	emit(getenv("T_CPU") ? getenv("T_CPU") : "native");
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
	t_object_close(s.object);
	ir_ctx_release(&s.c);
}

/* ---- programs ---- */

struct shape {
	int64_t b, s, t, h, k, d, v;
	const char *how;	/* "causal", "window=3", ... */
	const char *dtype;
	/* what follows each dim, and each op that talks */
	const char *cut_s, *cut_t, *cut_h, *cut_k, *on, *axes;
};

static const struct shape plain = {
	1, 1, 1, 1, 1, 1, 1, "", "f32", "", "", "", "", "", ""
};

static char text_room[16384];

static int
put_head(const struct shape *x)
{
	return snprintf(text_room, sizeof text_room,
		"llmc-ir 1\n%sdim b = %lld\ndim s = %lld\ndim t = %lld\n"
		"dim h = %lld\ndim k = %lld\ndim d = %lld\ndim v = %lld\n\n"
		"model {\n", x->axes, (long long)x->b, (long long)x->s,
		(long long)x->t, (long long)x->h, (long long)x->k,
		(long long)x->d, (long long)x->v);
}

static const char *
arena_text(void)
{
	return text_room;
}

static const char *
forward_text(const struct shape *x)
{
	int n = put_head(x);

	snprintf(text_room + n, sizeof text_room - (size_t)n,
		 "  %%0 = weight name=\"q\" init=normal std=1 : "
		 "%s[b, s%s, h%s, d]\n"
		 "  %%1 = weight name=\"k\" init=normal std=1 : "
		 "%s[b, t%s, k%s, d]\n"
		 "  %%2 = weight name=\"v\" init=normal std=1 : "
		 "%s[b, t%s, k%s, v]\n"
		 "  %%3 = attention %%0, %%1, %%2%s%s : %s[b, s%s, h%s, v]\n"
		 "  return %%3\n}\n", x->dtype, x->cut_s, x->cut_h, x->dtype,
		 x->cut_t, x->cut_k, x->dtype, x->cut_t, x->cut_k, x->how,
		 x->on, x->dtype, x->cut_s, x->cut_h);
	return arena_text();
}

static const char *
backward_text(const struct shape *x)
{
	int n = put_head(x);
	char q[64], k[64], v[64], o[64], l[64], how[64];

	snprintf(q, sizeof q, "%s[b, s%s, h%s, d]", x->dtype, x->cut_s,
		 x->cut_h);
	snprintf(k, sizeof k, "%s[b, t%s, k%s, d]", x->dtype, x->cut_t,
		 x->cut_k);
	snprintf(v, sizeof v, "%s[b, t%s, k%s, v]", x->dtype, x->cut_t,
		 x->cut_k);
	snprintf(o, sizeof o, "%s[b, s%s, h%s, v]", x->dtype, x->cut_s,
		 x->cut_h);
	snprintf(l, sizeof l, "f32[b, s%s, h%s]", x->cut_s, x->cut_h);
	snprintf(how, sizeof how, "%s%s", x->how, x->on);
	snprintf(text_room + n, sizeof text_room - (size_t)n,
		 "  %%0 = weight name=\"q\" init=normal std=1 : %s\n"
		 "  %%1 = weight name=\"k\" init=normal std=1 : %s\n"
		 "  %%2 = weight name=\"v\" init=normal std=1 : %s\n"
		 "  %%3 = weight name=\"g\" init=normal std=1 : %s\n"
		 "  %%4 = weight name=\"D\" init=normal std=1 : %s\n"
		 "  %%5 = attention_lse %%0, %%1%s : %s\n"
		 "  %%6 = attention_dq %%0, %%1, %%2, %%3, %%5, %%4%s : %s\n"
		 "  %%7 = attention_dk %%0, %%1, %%2, %%3, %%5, %%4%s : %s\n"
		 "  %%8 = attention_dv %%0, %%1, %%3, %%5%s : %s\n"
		 "  return %%6, %%7, %%8\n}\n", q, k, v, o, l, how, l, how, q,
		 how, k, how, v);
	return arena_text();
}

static struct shape
random_shape(void)
{
	static const char *const how[] = { "", " causal", " causal",
					   " causal window=5",
					   " window=17", " scale=0.3" };
	struct shape x = plain;

	x.b = draw(1, 3);
	x.s = draw(0, 3) ? draw(1, 130) : draw(1, 3);
	x.t = draw(0, 1) ? x.s : draw(1, 130);
	x.k = draw(1, 3);
	x.h = x.k * draw(1, 3);
	x.d = draw(1, 128);
	x.v = draw(0, 1) ? x.d : draw(1, 128);
	x.how = how[draw(0, 5)];
	return x;
}

static int
times(void)
{
	return getenv("T_TIMES") ? atoi(getenv("T_TIMES")) : 12;
}

static void
forward(void **state)
{
	struct shape x;
	int i;

	(void)state;
	for (i = 0; i < times(); i++) {
		x = random_shape();
		check(forward_text(&x), NULL, 1e-5);
	}
}

static void
backward(void **state)
{
	struct shape x;
	int i;

	(void)state;
	for (i = 0; i < times(); i++) {
		x = random_shape();
		check(backward_text(&x), NULL, 1e-5);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forward),
		cmocka_unit_test(backward),
	};

	return cmocka_run_group_tests_name("attention-cpu", tests, NULL,
					   NULL);
}

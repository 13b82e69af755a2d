/*
 * For tests of kernels: each kernel of a function is emitted, linked, loaded
 * and run for all ranks of its mesh, on operands as the interpreter saw them,
 * and what it writes is held against what the interpreter made.
 */
#ifndef T_KERNELS_H
#define T_KERNELS_H

#include "tests/unit/shared/t-object.h"
#include "tests/unit/shared/t-ranks.h"

#include "codegen/cpu/cpu.h"

/* ---- emitting ---- */

static inline void
tk_table(struct tk *t, struct cg_kernel *k, const char *name)
{
	struct ll_value **words = arena_alloc(&t->c.perm,
					      (k->steps.n + 1) *
					      sizeof *words);
	uint32_t i;

	for (i = 0; i < k->steps.n; i++) {
		words[i] = k->steps.at[i].func ? k->steps.at[i].func
					       : ll_null(t->o->l);
	}
	words[i] = ll_null(t->o->l);
	ll_data(t->o->l, name, words, k->steps.n + 1);
}

static inline bool
tk_emit(struct tk *t, struct cg_cpu *cpu, const struct kernel *k,
	struct cg_kernel *out)
{
	struct cg_nest n = { .k = k, .space = *k->work->shape };
	const char *why = NULL;
	bool ok;
	uint32_t i;

	*out = (struct cg_kernel){ .what = kernel_kind_name(k->kind) };
	if (t->dots) {
		if (cg_dot_steps(cpu, out, k, &why)) {
			t->dotted++;
			return true;
		}
		assert_int_equal(out->steps.n, 0);
		*out = (struct cg_kernel){ .what = out->what };
		if (cg_experts_steps(cpu, out, k, &why)) {
			t->chosen++;
			return true;
		}
		assert_int_equal(out->steps.n, 0);
		if (t->nranks == 1) {
			struct buf b;

			buf_init(&b, &t->c.perm);
			kernel_print(t->m, k, &b);
			fail_msg("no dot: %s", buf_text(&b));
		}
		*out = (struct cg_kernel){ .what = out->what };
	}
	for (i = 0; i < k->nodes.n; i++) {
		VEC_PUSH(&t->c.perm, &n.nodes, k->nodes.at[i]);
	}
	ok = cg_nest_steps(cpu, out, &n, &why);
	assert_true(ok || (why && *why));
	t->refused += !ok;
	if (!ok && getenv("T_NEST_SHOW")) {
		struct buf b;

		buf_init(&b, &t->c.perm);
		kernel_print(t->m, k, &b);
		printf("refused: %s %s\n", buf_text(&b), why);
	}
	return ok;
}

static inline void
tk_emit_list(struct tk *t, struct cg_cpu *cpu, const struct kernel_list *list)
{
	struct tk_kernel x;
	uint32_t i, r;

	for (i = 0; i < list->at.n; i++) {
		const struct kernel *k = &list->at.at[i];
		bool ok = true;

		if (k->kind == KERNEL_REPEAT) {
			tk_emit_list(t, cpu, k->body);
		}
		if (k->kind == KERNEL_REPEAT || k->kind == KERNEL_CALL ||
		    k->kind == KERNEL_COLLECTIVE ||
		    k->kind == KERNEL_ATTENTION ||
		    (t->dots && k->kind != KERNEL_CONTRACTION)) {
			continue;
		}
		memset(&x, 0, sizeof x);
		x.k = k;
		for (r = 0; ok && r < t->nranks; r++) {
			memcpy(cpu->at, t->at[r], sizeof cpu->at);
			ok = tk_emit(t, cpu, k, &x.made[r]);
			x.table[r] = arena_printf(&t->c.perm, "table%u_%u",
						  t->kernels.n, r);
			if (ok) {
				tk_table(t, &x.made[r], x.table[r]);
			}
		}
		if (ok) {
			VEC_PUSH(&t->c.perm, &t->kernels, x);
		}
	}
}

/* ---- running ---- */

static inline void
tk_open(struct tk *t, const struct tk_kernel *k, uint32_t r,
	struct tk_run *x)
{
	tk_rooms(t, k, r, x);
	x->steps = t_object_find(t->o, k->table[r]);
}

/* Items in two parts, the later first: any order must do. */
static inline void
tk_run_step(const struct tk_run *x, uint32_t s)
{
	struct rt_call c = { x->at, x->pieces, x->num, x->shared, NULL };
	int64_t items = x->k->steps.at[s].items, half = items / 2;
	void (*run)(const struct rt_call *, char *, int64_t, int64_t);

	memcpy(&run, &x->steps[s], sizeof run);
	run(&c, x->own, half, items);
	run(&c, x->own, 0, half);
}

/* Whether any rank has a step s; all have the same if it is a collective. */
static inline bool
tk_has(const struct tk_run *x, uint32_t nranks, uint32_t s)
{
	uint32_t n = 0, colls = 0, r;

	for (r = 0; r < nranks; r++) {
		n += s < x[r].k->steps.n;
		colls += s < x[r].k->steps.n && !x[r].steps[s];
	}
	assert_true(colls == 0 || colls == nranks);
	return n > 0;
}

static inline void
tk_run_all(struct tk *t, double most)
{
	struct tk_run x[TK_RANKS];
	uint32_t i, r, s;

	for (i = 0; i < t->kernels.n; i++) {
		const struct tk_kernel *k = &t->kernels.at[i];

		for (r = 0; r < t->nranks; r++) {
			tk_open(t, k, r, &x[r]);
		}
		/*
		 * of other sizes it may be other steps, if none is a collective
		 */
		for (s = 0; tk_has(x, t->nranks, s); s++) {
			for (r = 0; r < t->nranks; r++) {
				if (s < x[r].k->steps.n && x[r].steps[s]) {
					tk_run_step(&x[r], s);
				}
			}
			if (s < x[0].k->steps.n && !x[0].steps[s]) {
				tk_coll(t, x, s);
			}
		}
		for (r = 0; r < t->nranks; r++) {
			tk_compare(t, k, r, &x[r], most);
		}
		t->ran++;
	}
}

/* ---- all of it ---- */

/* t->m is there; errors up to `most` of the largest element. */
static inline void
tk_check(struct tk *t, double most)
{
	struct cg_cpu cpu = { .m = t->m, .a = &t->c.perm };
	struct tk_machines x;
	struct kernels *k;
	func_id f;

	tk_name_values(t);
	tk_mesh(t);
	if (t->rows_apart) {
		tk_set_apart(t);
		cpu.apart = t->apart;
	}
	t->name = arena_alloc(&t->c.perm, t->m->nodes.n * sizeof *t->name);
	tk_start(t, &x);
	t->o = t_object_begin(&t->c.perm, t->cpu ? t->cpu : t_cpu_next());
	cpu.ll = t->o->l;
	for (f = 1; f < t->m->funcs.n; f++) {
		if (t->m->regions.at[t->m->funcs.at[f].body].params.n > 0) {
			continue;
		}
		ir_each_name(&x.pool, f, tk_note_name, t);
		tk_interpret(t, &x, f);
		k = kernels_find(t->m, f, NULL, &t->c.perm);
		tk_emit_list(t, &cpu, k->top);
	}
	ir_pool_close(&x.pool);
	t_object_end(t->o);
	tk_run_all(t, most);
	t_object_close(t->o);
}

#endif

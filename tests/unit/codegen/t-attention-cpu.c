/*
 * Attention for a CPU against the interpreter: random shapes, alone and
 * split, forward and backward.  T_CPU=NAME tries one CPU alone, T_ONLY='*apart'
 * some of the tests.
 */
#include "tests/unit/shared/t-object.h"

#include "codegen/cpu/cpu.h"
#include "tests/unit/shared/t-attention.h"
#include "tests/unit/shared/t-attention-tests.h"

static struct {
	struct cg_cpu cpu[MOST_RANKS];
	struct t_object *object;
} b;

static void
back_open(void)
{
	uint32_t r;

	b.object = t_object_begin(&s.c.perm, t_cpu_next());
	for (r = 0; r < s.nranks; r++) {
		b.cpu[r] = (struct cg_cpu){ .m = s.m, .a = &s.c.perm,
					    .ll = b.object->l,
					    .nfuncs = 1000 * r };
		memcpy(b.cpu[r].at, s.ranks[r].at, sizeof b.cpu[r].at);
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
back_emit(uint32_t kernel, uint32_t rank)
{
	struct cg_kernel *k = &s.ranks[rank].k[kernel];
	const char *why = NULL;

	if (!cg_attention_steps(&b.cpu[rank], k, s.kernels[kernel], &why)) {
		fail_msg("%s\n%s", why, s.text);
	}
	show_steps(b.object->l, k, kernel, rank);
}

static void
back_ready(void)
{
	t_object_end(b.object);
}

static void
back_close(void)
{
	t_object_close(b.object);
}

static void
back_run(uint32_t kernel, uint32_t rank, uint32_t step)
{
	struct rank *r = &s.ranks[rank];
	void (*run)(const struct rt_call *c, char *own, int64_t from,
		    int64_t to);
	struct rt_call call = { .at = r->at_of, .pieces = r->piece_at,
				.num = r->num, .shared = r->shared };
	int64_t items = r->k[kernel].steps.at[step].items, half = items / 2;
	void *const *steps = t_object_find(b.object,
		arena_printf(&s.c.perm, "steps_%u_%u", kernel, rank));

	memcpy(&run, &steps[step], sizeof run);
	run(&call, r->own, half, items);
	run(&call, r->own, 0, half);
}

/* More keys than one block has, and more queries than an item; and in the last
 * one keys in several parts. */
static void
long_ones(void **state)
{
	static const char *const how[] = { " causal", "",
					   " causal window=150 alibi=8",
					   " causal softcap=1.5", "",
					   " alibi=8" };
	struct shape x = plain;
	int i;

	(void)state;
	for (i = 0; i < 6; i++) {
		x.how = how[i];
		x.sinks = i % 2;
		x.between = i > 1;
		x.selected = i % 2;
		x.stored = i == 3 ? "f8e4m3" : NULL;
		x.b = 1;
		x.s = i > 3 ? draw(30, 70) : draw(257, 500);
		x.t = i == 1 ? draw(257, 500) : i > 3 ? draw(1100, 1800)
							: x.s;
		x.k = i == 0 ? 4 : 2;	/* joint, or apart */
		x.h = x.k * (i % 4 + 1);
		x.d = 24;
		x.v = 16;
		both(&x, 1e-5);
		if (x.between) {
			x.how = i == 3 ? " softcap=1.5" : i == 5 ? how[i] : "";
			forward_bad(&x, 1e-5);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone),
		cmocka_unit_test(half_as_wide),
		cmocka_unit_test(long_ones),
		cmocka_unit_test(heads_apart),
		cmocka_unit_test(sequences_apart),
		cmocka_unit_test(queries_apart),
		cmocka_unit_test(with_neighbours),
	};

	if (getenv("BINARY_TESTS")) {	/* a release is not about these */
		return 77;
	}
	if (getenv("T_ONLY")) {
		cmocka_set_test_filter(getenv("T_ONLY"));
	}
	return cmocka_run_group_tests_name("attention-cpu", tests, NULL,
					   t_object_done);
}

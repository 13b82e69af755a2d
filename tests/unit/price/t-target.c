/*
 * Targets: every one that is built in reads, prints and reads back the same;
 * names with numbers in them; more than one kind of node, and who lies where.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "tests/unit/shared/t-context.h"

static const struct target_group *
target(const char *name)
{
	struct target *t = arena_alloc(&ctx.perm, sizeof *t);

	assert_true(fe_target(&ctx, name, t));
	return t->groups.at;
}

/* ---- targets ---- */

static void
test_builtin(void **state)
{
	size_t i;

	(void)state;
	assert_true(fe_target_nfiles >= 20);
	for (i = 0; i < fe_target_nfiles; i++) {
		const struct target_group *g = target(fe_target_files[i].name);

		assert_string_equal(g->device.name, fe_target_files[i].name);
		assert_true(g->device.memory_bytes >= 4e9);
		assert_true(g->device.memory_bytes_us >= 1e4);
		assert_int_equal(g->devices, 1);
		assert_int_equal(target_is_cpu(&g->device),
				 strncmp(g->device.name, "cpu", 3) == 0);
	}
}

static void
test_numbers(void **state)
{
	const struct target_group *g = target("rtx4090x4x3@roce100");

	(void)state;
	assert_string_equal(g->device.name, "rtx4090");
	assert_int_equal(g->devices, 4);
	assert_int_equal(g->nodes, 3);
	assert_true(g->network.bytes_us == 12500);
	g = target("h100x8");
	assert_true(g->device.flops_us[TARGET_BF16] == 989e6);
	assert_true(g->device.link_bytes_us == 450e3);
	assert_true(g->device.memory_bytes == 80e9);
	assert_true(g->network.bytes_us == 50e3 && g->network.ports == 8);
}

/* What is printed, as a file, prints the same. */
static void
test_print(void **state)
{
	struct target again;
	struct buf first, second;
	size_t i;

	(void)state;
	for (i = 0; i < fe_target_nfiles; i++) {
		struct target t = { 0 };
		char path[] = "/tmp/t-target.XXXXXX.target";
		FILE *f;
		int fd = mkstemps(path, 7);

		assert_true(fd >= 0);
		assert_true(fe_target(&ctx, fe_target_files[i].name, &t));
		buf_init(&first, &ctx.perm);
		target_print(&t, &first);
		f = fdopen(fd, "w");
		assert_non_null(f);
		fputs(buf_text(&first), f);
		fclose(f);
		assert_true(fe_target(&ctx, path, &again));
		unlink(path);
		buf_init(&second, &ctx.perm);
		target_print(&again, &second);
		assert_string_equal(buf_text(&first), buf_text(&second));
	}
}

/* A file of two kinds of node. */
static void
test_groups(void **state)
{
	const char *top = getenv("top_srcdir");
	struct target t;

	(void)state;
	if (!top) {
		skip();
	}
	assert_true(fe_target(&ctx, arena_printf(&ctx.perm,
			"%s/tests/target/valid/mixed.llm", top), &t));
	assert_int_equal(t.groups.n, 2);
	assert_int_equal(target_devices(&t), 4 * 8 + 16 * 8);
	assert_int_equal(target_nodes(&t), 20);
	assert_string_equal(t.groups.at[1].device.name, "a100-sxm");
}

/* ---- which devices ranks lie on ---- */

/* Nodes of h100, a100, h100 again, and rtx4090: 4, 2, 2 and 4 devices. */
static struct target
four(void)
{
	static const char *const names[] = { "h100x2x2", "a100x2", "h100x2",
					     "rtx4090x2x2" };
	struct target t = { .name = "four" };
	size_t i;

	for (i = 0; i < sizeof names / sizeof *names; i++) {
		VEC_PUSH(&ctx.perm, &t.groups, *target(names[i]));
	}
	target_settle(&t, &ctx.perm);
	return t;
}

static void
test_spans(void **state)
{
	struct target t = four();
	const struct target_group *g;
	int64_t used = 0;
	uint32_t i;

	(void)state;
	/* nobody asks which of two equal groups it is */
	assert_true(target_span(&t, 0, 0) == target_span(&t, 2, 2));
	assert_true(target_span(&t, 0, 1) == target_span(&t, 0, 2));
	assert_true(target_span(&t, 0, 1) != target_span(&t, 1, 3));
	assert_int_equal(target_span(&t, 0, 0)->nof, 0);
	g = target_span(&t, 0, 3);
	assert_int_equal(g->nof, 3);
	assert_true(target_free_bytes(g) == target_free_bytes(&t.groups.at[3]));
	assert_true(g->device.launch_us >= t.groups.at[0].device.launch_us);
	assert_int_equal(g->devices, 2);
	assert_string_equal(target_span(&t, 0, 1)->device.name,
			    "h100-sxm and a100-sxm");
	for (i = 0; i < t.groups.n; i++) {
		used += target_used(&t, i, 7);
	}
	assert_int_equal(used, 7);
	assert_int_equal(target_used(&t, 1, 5), 1);
	assert_int_equal(target_used(&t, 2, 6), 0);
	assert_string_equal(target_kinds(&t, 5, 11, &ctx.perm),
			    "a100-sxm and h100-sxm and rtx4090");
}

/* Ranks of a pipeline that is outermost have runs of devices. */
static void
test_devs(void **state)
{
	struct target t = four(), one = { .name = "one" };
	struct target_devs s;

	(void)state;
	target_devs_assign(&t, 12, 6, true, &ctx.perm, &s);
	assert_true(target_devs_of(&s, 0) == target_span(&t, 0, 0));
	assert_true(target_devs_of(&s, 1) == target_span(&t, 0, 0));
	assert_true(target_devs_of(&s, 2) == target_span(&t, 1, 1));
	assert_true(target_devs_of(&s, 3) == target_span(&t, 2, 2));
	assert_true(target_devs_of(&s, 5) == target_span(&t, 3, 3));
	/* the second lies on three kinds, and all in another order */
	target_devs_assign(&t, 10, 2, true, &ctx.perm, &s);
	assert_true(target_devs_of(&s, 0) == target_span(&t, 0, 1));
	assert_true(target_devs_of(&s, 1) == target_span(&t, 1, 3));
	target_devs_assign(&t, 12, 6, false, &ctx.perm, &s);
	assert_true(target_devs_of(&s, 0) == target_span(&t, 0, 3));
	assert_true(target_devs_of(&s, 5) == target_span(&t, 0, 3));
	/* what nobody reaches does not count */
	target_devs_assign(&t, 4, 2, false, &ctx.perm, &s);
	assert_true(target_devs_of(&s, 1) == target_span(&t, 0, 0));
	/* a single kind, which nobody settled */
	VEC_PUSH(&ctx.perm, &one.groups, t.groups.at[0]);
	target_devs_assign(&one, 4, 4, true, &ctx.perm, &s);
	assert_true(target_devs_of(&s, 3) == one.groups.at);
	assert_int_equal(target_used(&one, 0, 3), 3);
}

/* ---- what they keep on hosts ---- */

static void
test_hosts(void **state)
{
	struct target t = four();
	/* of three ranks of a pipeline, four devices each */
	const double bytes[] = { 10, 20, 40 };
	struct target_hosted h = { 12, 3, 4, bytes, false };
	struct target_host x;

	(void)state;
	t.groups.at[0].device.host_memory_bytes = 0;
	t.groups.at[1].device.host_memory_bytes = 0;
	t.groups.at[2].device.host_memory_bytes = 0;
	/* of no host it is known: the one with most */
	x = target_fullest_host(&t, &h);
	assert_true(x.bytes == 80 && x.has == 0);
	/* outermost: nodes of 10 10, 10 10, 20 20, 20 20, 40 40, 40 40 */
	t.groups.at[0].device.host_memory_bytes = 12;
	x = target_fullest_host(&t, &h);
	assert_true(x.bytes == 20 && x.has == 24);
	t.groups.at[2].device.host_memory_bytes = 19;
	x = target_fullest_host(&t, &h);
	assert_true(x.bytes == 40 && x.has == 38);
	/* innermost: nodes of 10 20, 40 10, 20 40, 10 20, 40 10, 20 40 */
	h.apart = 1;
	x = target_fullest_host(&t, &h);
	assert_true(x.bytes == 50 && x.has == 24);
	/* a node that is not full has all of its memory */
	h.nranks = 3;
	t.groups.at[0].device.host_memory_bytes = 21;
	x = target_fullest_host(&t, &h);
	assert_true(x.bytes == 40 && x.has == 42);
	h.nranks = 1;
	x = target_fullest_host(&t, &h);
	assert_true(x.bytes == 10 && x.has == 42);
}

/* Bytes on the fullest node of `devices` each; all are looked at. */
static double
most_bytes(const struct target_hosted *h, int64_t devices, int64_t nodes)
{
	double most = 0, node;
	int64_t i, k;

	for (i = 0; i < nodes; i++) {
		node = 0;
		for (k = i * devices; k < (i + 1) * devices && k < h->nranks;
		     k++) {
			node += h->bytes[k / h->apart % h->npipes];
		}
		most = node > most ? node : most;
	}
	return most;
}

static int64_t
draw(unsigned *seed, int64_t most)
{
	*seed = *seed * 1103515245 + 12345;
	return 1 + (*seed >> 16) % most;
}

/* Nodes that are left out, since another is like them, are like it. */
static void
test_many_hosts(void **state)
{
	unsigned seed = 1;
	int i, k;

	(void)state;
	for (i = 0; i < 500; i++) {
		struct target one = { .name = "one" };
		double bytes[6];
		struct target_hosted h = { .bytes = bytes };
		struct target_group g = *target("h100x2x2");

		g.devices = draw(&seed, 8);
		g.nodes = draw(&seed, 40);
		g.device.host_memory_bytes = 0;
		VEC_PUSH(&ctx.perm, &one.groups, g);
		h.npipes = (uint32_t)draw(&seed, 6);
		h.apart = draw(&seed, 24);
		h.nranks = draw(&seed, g.devices * g.nodes);
		for (k = 0; k < 6; k++) {
			bytes[k] = (double)draw(&seed, 1000);
		}
		assert_true(target_fullest_host(&one, &h).bytes ==
			    most_bytes(&h, g.devices, g.nodes));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_builtin, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_numbers, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_print, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_groups, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_spans, setup, teardown),
		cmocka_unit_test_setup_teardown(test_devs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hosts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_hosts, setup,
						teardown)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

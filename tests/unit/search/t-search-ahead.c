/*
 * A search with another thread that looks ahead is the search without it: the
 * same plans, and the same counts of what was looked at, placed and cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/search/t-search.h"

#define SEARCHES 16

/* What a search says, and what it did. */
struct said {
	char plans[4][2048];
	double numbers[32];
};

static void
say_plan(const struct ir_module *base, const struct plan *p, char *to,
	 size_t size)
{
	struct ir_module *m;
	struct ir_ctx c;
	struct buf b;

	ir_ctx_child(&c, base->ctx);
	m = ir_copy(base, &c);
	plan_write(m, p);
	buf_init(&b, &c.perm);
	ir_print(m, &b);
	snprintf(to, size, "%s", strstr(buf_text(&b), "plan."));
	ir_ctx_release(&c);
}

static void
say(const struct ir_module *base, const struct search_report *r,
    struct said *to)
{
	const double numbers[] = {
		r->found.n, r->bound_us, r->space, (double)r->groups,
		(double)r->groups_cut, (double)r->groups_full,
		(double)r->above, (double)r->cut, (double)r->placements,
		(double)r->placed_nodes, (double)r->open, (double)r->priced,
		(double)r->looked, (double)r->full, (double)r->run,
		(double)r->nodes, r->any_near, (double)r->least.bytes,
		r->any_bare, (double)r->bare.bytes
	};
	uint32_t i;

	memset(to, 0, sizeof *to);
	memcpy(to->numbers, numbers, sizeof numbers);
	for (i = 0; i < r->found.n && i < 4; i++) {
		const struct search_found *f = &r->found.at[i];

		say_plan(base, &f->plan, to->plans[i], sizeof to->plans[i]);
		to->numbers[20 + 2 * i] = f->step_us;
		to->numbers[21 + 2 * i] = (double)f->bytes;
	}
}

static void
search_by(const struct ir_module *base, const struct target *t,
	  struct search_options o, struct said *to)
{
	struct search_report r;
	struct ir_module *m;
	struct ir_ctx c;

	o.target = t;
	ir_ctx_child(&c, base->ctx);
	m = ir_copy(base, &c);
	assert_true(run_search(m, &o, &base->ctx->perm, &r));
	say(base, &r, to);
	ir_ctx_release(&c);
}

static const char *
draw_model(char *text, size_t size)
{
	switch (draw(3)) {
	case 0:
		snprintf(text, size, heavy, 8 << draw(3), 2 + (int)draw(5));
		break;
	case 1:
		snprintf(text, size, dense, 8 << draw(3), 2 + (int)draw(7));
		break;
	default:
		snprintf(text, size, experts, 8 << draw(3), 2 + (int)draw(3));
	}
	return text;
}

/* In turns; memory is often short, so that plans recompute or do not fit. */
static struct target
draw_target(struct ir_ctx *c, uint32_t nth)
{
	static const char *const names[] = {
		"h100x4", "h100x2x2", "h100x8", "rtx4090x4x2",
		"h100x2+a100-40gx2"
	};
	struct target t = cluster(c, names[nth % 5]);
	uint32_t i, part = 1u << draw(10);

	for (i = 0; i < t.groups.n; i++) {
		struct target_device *d = &t.groups.at[i].device;

		d->memory_bytes /= part;
		d->reserve_bytes = 0;
		d->host_bytes_us = draw(2) ? d->host_bytes_us : 0;
	}
	target_settle(&t, &c->perm);
	return t;
}

static void
test_ahead(void **state)
{
	uint32_t n = (uint32_t)env("SEARCH_PLANS", SEARCHES), i, found = 0;
	char text[4096];

	(void)state;
	seed = (uint64_t)env("SEARCH_SEED", 1);
	for (i = 0; i < n; i++) {
		struct search_options o = { .top = draw(2) ? 0 : 4 };
		struct said one, two;
		struct ir_module *m;
		struct target t;
		struct ir_ctx c;

		ir_ctx_init(&c, NULL);
		m = trained(&c, draw_model(text, sizeof text));
		t = draw_target(&c, i);
		o.distinct = draw(2) && o.top;
		search_by(m, &t, o, &one);
		o.two_threads = true;
		search_by(m, &t, o, &two);
		assert_memory_equal(&one, &two, sizeof one);
		found += one.plans[0][0] != '\0';
		ir_ctx_release(&c);
	}
	print_message("%u of %u searches found a plan\n", found, n);
	assert_true(found > n / 4 && found < n);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_ahead) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

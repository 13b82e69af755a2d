/*
 * fuzz-sched.c - any bytes as a file of a pipeline schedule.  What is read
 * and can run prints, reads again as the same schedule and prints the same;
 * nothing is refused without a word.
 *
 *	clang -g -O1 -I. -fsanitize=fuzzer,address,undefined \
 *		tests/fuzz/fuzz-sched.c passes/sched*.c ir/[every .c] -lm
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/sched/sched.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
	struct mem mem;
	struct arena a;
	struct sources sources;
	struct diags diags;
};

static void
start(struct run *r)
{
	mem_init(&r->mem);
	arena_init(&r->a, &r->mem);
	source_init(&r->sources, &r->a);
	diag_init(&r->diags, &r->a, &r->sources);
}

static struct sched *
read_text(struct run *r, const char *text, size_t n)
{
	struct sched *s;
	uint32_t base;

	CHECK(source_add(&r->sources, "fuzz.csv", text, n, &base));
	s = sched_read(&r->a, &r->diags, r->sources.files.n - 1, NULL);
	CHECK((s != NULL) == (r->diags.errors == 0));
	return s;
}

static void
check_same(const struct sched *x, const struct sched *y)
{
	uint32_t r, i;

	CHECK(x->nranks == y->nranks && x->nstages == y->nstages &&
	      x->nmicrobatches == y->nmicrobatches);
	for (r = 0; r < x->nranks; r++) {
		const struct sched_list *p = &x->ranks[r], *q = &y->ranks[r];

		CHECK(p->actions.n == q->actions.n);
		for (i = 0; i < p->actions.n; i++) {
			CHECK(p->actions.at[i].kind == q->actions.at[i].kind &&
			      p->actions.at[i].stage ==
			      q->actions.at[i].stage &&
			      p->actions.at[i].microbatch ==
			      q->actions.at[i].microbatch);
		}
	}
}

static void
check_peaks(const struct sched *s, const struct sched_verdict *v)
{
	uint32_t r, i, n;

	for (r = 0; r < s->nranks; r++) {
		for (i = n = 0; i < s->nstages; i++) {
			n += s->rank_of[i] == r;
		}
		CHECK(n > 0 && v->peak[r] > 0 &&
		      v->peak[r] <= n * s->nmicrobatches);
	}
}

static void
check_round(const struct sched *s)
{
	struct sched_verdict v;
	struct buf once, twice;
	struct sched *again;
	struct run r;

	start(&r);
	buf_init(&once, &r.a);
	sched_print(s, &once);
	again = read_text(&r, buf_text(&once), once.n);
	CHECK(again != NULL);
	check_same(s, again);
	CHECK(sched_check(&r.a, again, &v));
	check_peaks(again, &v);
	buf_init(&twice, &r.a);
	sched_print(again, &twice);
	CHECK(once.n == twice.n &&
	      memcmp(buf_text(&once), buf_text(&twice), once.n) == 0);
	arena_release(&r.a);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *sink;
	struct sched_verdict v;
	struct sched *s;
	struct run r;
	char *text;

	if (!sink) {
		sink = fopen("/dev/null", "w");
		CHECK(sink != NULL);
	}
	text = malloc(size + 1);
	CHECK(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	start(&r);
	s = read_text(&r, text, size);
	if (s) {
		if (sched_check(&r.a, s, &v)) {
			check_peaks(s, &v);
			check_round(s);
		} else {
			sched_report(&r.diags, &v);
			CHECK(r.diags.errors > 0);
		}
	}
	diag_flush(&r.diags, sink);
	arena_release(&r.a);
	free(text);
	return 0;
}

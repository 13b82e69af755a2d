/*
 * The kernels of the busiest rank, over all microbatches, stages and iterations
 * of a step: --explain=cost.  Kernels with the same text (kernel_print) and the
 * same work are one row.
 */
#include "passes/answer/answer.h"

#include <stdlib.h>
#include <string.h>

struct kernel_totals {
	struct pricing p;
	struct kernels *const *all;
	struct arena *a;
	struct answer_kernels *out;
	double runs;		/* of the function, in a step */
};

static void
add_row(struct kernel_totals *x, const struct answer_kernel *e)
{
	struct answer_kernels *out = x->out;
	uint32_t i;

	out->count += e->count;
	for (i = 0; i < out->at.n; i++) {
		struct answer_kernel *k = &out->at.at[i];

		if (strcmp(k->what, e->what) == 0 && k->flops == e->flops &&
		    k->bytes == e->bytes) {
			k->count += e->count;
			k->us += e->us;
			k->all_us += e->all_us;
			k->counted_us += e->counted_us;
			return;
		}
	}
	VEC_PUSH(x->a, &out->at, *e);
}

/* A kernel in parts counts once for each. */
static void
add_kernel(struct kernel_totals *x, const struct kernel *k,
	   const struct price_func *f, double hidden_us, double times)
{
	struct answer_kernel e = {
		.us = (f->total_us - hidden_us) * times,
		.all_us = f->total_us * times,
		.counted_us = (f->put_us + f->own_us) * times,
		.count = times, .kind = k->kind,
		.op = k->work->coll.op, .axes = k->work->coll.axes
	};
	struct kernel part;
	struct buf what;

	if (k->parts) {
		e.count *= k->parts->n;
		parts_kernel(x->p.m, k, x->a, &part);
		k = &part;
	}
	e.flops = k->work->flops;
	e.bytes = k->kind == KERNEL_COLLECTIVE ? k->work->coll.bytes
		: k->work->read_bytes + k->work->write_bytes;
	if (e.us > 0) {		/* sends are priced with the schedule */
		buf_init(&what, x->a);
		kernel_print(x->p.m, k, &what);
		e.what = buf_text(&what);
		add_row(x, &e);
	}
}

static void
add_list(struct kernel_totals *x, const struct kernel_list *l, bool repeats,
	 double times)
{
	struct price_func *each = arena_alloc(x->a, (l->at.n + 1) *
					      sizeof *each);
	double *hidden = arena_alloc(x->a, (l->at.n + 1) * sizeof *hidden);
	uint32_t i;

	times *= (double)l->count;
	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			price_list(&x->p, k->body, &each[i]);
			add_list(x, k->body, true, times);
		} else {
			price_kernel(&x->p, k, &each[i]);
			price_set_mean(&each[i], x->runs);
		}
	}
	if (repeats) {
		price_hidden(&x->p, l, each, hidden);
	}
	for (i = 0; i < l->at.n; i++) {
		if (!l->at.at[i].body) {
			add_kernel(x, &l->at.at[i], &each[i], hidden[i], times);
		}
	}
}

static void
add_function(struct kernel_totals *x, func_id f, double times)
{
	if (f && x->all[f]) {
		x->runs = times;
		add_list(x, x->all[f]->top, false, times);
	}
}

static int
by_time(const void *a, const void *b)
{
	const struct answer_kernel *x = a, *y = b;

	return x->us != y->us ? (x->us > y->us ? -1 : 1)
			      : strcmp(x->what, y->what);
}

void
answer_find_kernels(const struct ranks *r, const struct target_devs *t,
		    const struct price *p, struct arena *a,
		    struct answer_kernels *out)
{
	static const struct price_traits traits;
	struct kernel_totals x = {
		.p = { .r = r, .m = r->m, .across = t->all,
		       .traits = &traits },
		.all = ranks_kernels(r), .a = a, .out = out
	};
	const struct sched_times *times = sched_times(a, r->sched);
	uint32_t s, k;

	memset(out, 0, sizeof *out);
	out->rank = answer_busiest(r, p);
	x.p.t = target_devs_of(t, out->rank);
	for (s = 0; s < r->nstages; s++) {
		for (k = 0; k < SCHED_NKINDS &&
		     r->sched->rank_of[s] == out->rank; k++) {
			if (times[s].of[k]) {
				add_function(&x, r->of_stage[s][k],
					     times[s].of[k]);
			}
		}
	}
	add_function(&x, r->update[out->rank], 1);
	if (out->at.n) {
		qsort(out->at.at, out->at.n, sizeof *out->at.at, by_time);
	}
}

/* The achieved rate: flops of contractions and attention, else bytes; and, if
 * any kernel has such a part, what is counted in llmc's own. */
static void
print_kernel(const struct answer_kernel *k, double step_us, bool any_counted,
	     struct buf *out)
{
	bool multiplies = strncmp(k->what, "contraction", 11) == 0 ||
			  strncmp(k->what, "attention", 9) == 0;
	double each = k->us / k->count;
	double rate = (multiplies ? k->flops : k->bytes) / each * 1e6;
	struct scale u = multiplies ? unit_flops(rate)
				   : unit_decimal_bytes(rate);

	buf_printf(out, "%5.1f%% %10.0f %10.3f", 100 * k->us / step_us,
		   k->count, each);
	if (k->counted_us > 0) {
		buf_printf(out, " %5.0f%%", 100 * k->counted_us / k->all_us);
	} else if (any_counted) {
		buf_printf(out, " %5s ", "-");
	}
	buf_printf(out, " %8.1f %s/s%*s", rate / u.size, u.name,
		   (int)(5 - strlen(u.name)), "");
	buf_printf(out, "  %s\n", k->what);
}

void
answer_print_kernels(const struct answer_kernels *x, double step_us,
		     uint32_t most, struct buf *out)
{
	bool any_counted = false;
	double rest = 0;
	uint32_t i;

	for (i = 0; i < x->at.n && i < most; i++) {
		any_counted |= x->at.at[i].counted_us > 0;
	}
	buf_printf(out, "kernels of rank %u of the pipeline, the busiest: %.0f "
		   "in a step, of %u kinds\n", x->rank, x->count, x->at.n);
	buf_printf(out, "%6s %10s %10s%s %16s  %s\n", "step", "count",
		   "us each", any_counted ? "    own" : "", "achieved",
		   "kernel");
	for (i = 0; i < x->at.n; i++) {
		if (i < most) {
			print_kernel(&x->at.at[i], step_us, any_counted, out);
		} else {
			rest += x->at.at[i].us;
		}
	}
	if (i > most) {
		buf_printf(out, "%5.1f%%  of %u kinds more\n",
			   100 * rest / step_us, i - most);
	}
}

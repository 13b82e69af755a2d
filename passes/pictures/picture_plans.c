/*
 * The plans that the search has priced: time over memory.  Those on the Pareto
 * front have no other that is both faster and smaller.
 */
#include "passes/pictures/picture_parts.h"

#include <math.h>
#include <stdlib.h>

#define MOST_DOTS 1500
#define MOST_LINES 40		/* of the table */
#define SLOW 2			/* times the best: plans that are not drawn */

struct plans_picture {
	const struct picture_facts *f;
	VEC(struct search_priced) at;	/* by time; each plan once */
	bool *front;
	const struct search_found *best;
	uint32_t nslow;
	bool is_near;		/* what the device has is in the plot */
	struct scale unit;
	struct picture_plot plot;
};

static int
compare(double a, double b)
{
	return a < b ? -1 : a > b;
}

/* A plan that is the same in all but the time differs in its layers. */
static int
by_time(const void *a, const void *b)
{
	const struct search_priced *x = a, *y = b;
	int c = compare(x->step_us, y->step_us);

	c = c ? c : compare((double)x->bytes, (double)y->bytes);
	c = c ? c : compare((double)x->pp, (double)y->pp);
	c = c ? c : compare((double)x->tp, (double)y->tp);
	c = c ? c : compare((double)x->dp, (double)y->dp);
	c = c ? c : compare((double)x->cp, (double)y->cp);
	c = c ? c : compare((double)x->ep, (double)y->ep);
	c = c ? c : compare((double)x->microbatch, (double)y->microbatch);
	c = c ? c : compare((double)x->interleave, (double)y->interleave);
	c = c ? c : compare(x->zero, y->zero);
	c = c ? c : compare(x->sequence, y->sequence);
	c = c ? c : compare(x->offload, y->offload);
	return c ? c : strcmp(x->schedule, y->schedule);
}

static void
collect(struct plans_picture *p, const struct search_report *r)
{
	struct search_priced *all = arena_dup(p->f->a, r->all.at,
					      r->all.n * sizeof *all);
	double least = INFINITY;
	uint32_t i;

	if (r->all.n) {
		qsort(all, r->all.n, sizeof *all, by_time);
	}
	p->best = &r->found.at[0];
	for (i = 0; i < r->all.n; i++) {
		if (i && by_time(&all[i - 1], &all[i]) == 0) {
			continue;
		}
		if (all[i].step_us > SLOW * p->best->step_us ||
		    p->at.n == MOST_DOTS) {
			p->nslow++;
		} else {
			VEC_PUSH(p->f->a, &p->at, all[i]);
		}
	}
	p->front = arena_alloc(p->f->a, p->at.n + 1);
	for (i = 0; i < p->at.n; i++) {
		p->front[i] = (double)p->at.at[i].bytes < least;
		least = fmin(least, (double)p->at.at[i].bytes);
	}
}

static const char *
words(const struct plans_picture *p, const struct search_priced *x)
{
	struct arena *a = p->f->a;
	struct plan degrees = { .tp = x->tp, .cp = x->cp, .ep = x->ep,
				.pp = x->pp, .dp = x->dp };

	return arena_printf(a, "%s, %lld microbatch%s of %lld, %s, "
			    "interleave %lld, zero %d%s%s%s%s",
			    search_degrees(&degrees, a),
			    (long long)x->nmicrobatches,
			    x->nmicrobatches == 1 ? "" : "es",
			    (long long)x->microbatch, x->schedule,
			    (long long)x->interleave, x->zero,
			    x->tp > 1 && x->sequence ? ", sequence" : "",
			    x->offload ? ", offload " : "",
			    x->offload ? plan_offload_text(x->offload) : "",
			    x->tight ? ", recomputes to fit" : "");
}

static void
set_axes(struct plans_picture *p)
{
	double lo = (double)p->best->bytes, hi = lo;
	double least = p->best->step_us, most = least, space;
	uint32_t i;

	for (i = 0; i < p->at.n; i++) {
		lo = fmin(lo, (double)p->at.at[i].bytes);
		hi = fmax(hi, (double)p->at.at[i].bytes);
		least = fmin(least, p->at.at[i].step_us);
		most = fmax(most, p->at.at[i].step_us);
	}
	p->is_near = (double)p->best->capacity < 2 * hi;
	hi = p->is_near ? fmax(hi, (double)p->best->capacity) : hi;
	p->unit = unit_bytes(hi);
	space = fmax(0.06 * (most - least), 0.005 * least);
	p->plot = (struct picture_plot){
		.label = "plans by memory and time", .height = 320,
		.x = { arena_printf(p->f->a, "%s on the fullest device",
				    p->unit.name),
		       lo * 0.95 / p->unit.size, hi * 1.02 / p->unit.size,
		       false },
		.y = { "ms of a step", (least - space) / 1e3,
		       (most + space) / 1e3, false }
	};
}

static double
x_of(const struct plans_picture *p, int64_t bytes)
{
	return picture_x(&p->plot, (double)bytes / p->unit.size);
}

/* Down to each plan of the front, from the quickest to the smallest. */
static void
add_front(const struct plans_picture *p, struct buf *out)
{
	bool first = true;
	uint32_t i;

	buf_puts(out, "<path class=\"front\" d=\"");
	for (i = 0; i < p->at.n; i++) {
		double y = picture_y(&p->plot, p->at.at[i].step_us / 1e3);

		if (!p->front[i]) {
			continue;
		}
		if (first) {
			picture_point(out, true, PICTURE_WIDTH, y);
			buf_putc(out, 'H');
		} else {
			buf_putc(out, 'V');
			picture_num(out, y);
			buf_putc(out, 'H');
		}
		picture_num(out, x_of(p, p->at.at[i].bytes));
		first = false;
	}
	if (!first) {
		buf_puts(out, "V0");
	} else {
		buf_puts(out, "M0 0");
	}
	buf_puts(out, "\"/>\n");
}

static void
add_dots(const struct plans_picture *p, struct buf *out)
{
	struct arena *a = p->f->a;
	uint32_t i;

	for (i = 0; i < p->at.n; i++) {
		const struct search_priced *x = &p->at.at[i];

		picture_dot(out, p->front[i] ? "edge" : "open",
			    x_of(p, x->bytes),
			    picture_y(&p->plot, x->step_us / 1e3),
			    p->front[i] ? 10 : 7, arena_printf(a,
			    "%s%s, %s: %s", p->front[i] ? "on the front: " : "",
			    picture_ms(a, x->step_us),
			    picture_bytes(a, (double)x->bytes), words(p, x)));
	}
	picture_dot(out, "best", x_of(p, p->best->bytes),
		    picture_y(&p->plot, p->best->step_us / 1e3), 13,
		    arena_printf(a, "the plan of this report, %s, %s: %s",
				 picture_ms(a, p->best->step_us),
				 picture_bytes(a, (double)p->best->bytes),
				 search_degrees(&p->best->plan, a)));
}

static void
add_capacity(const struct plans_picture *p, struct buf *out)
{
	double x = x_of(p, p->best->capacity);
	const double from[2] = { x, 0 }, to[2] = { x, p->plot.height };

	picture_limit(out, from, to, arena_printf(p->f->a, "the device has %s "
		"for a plan", picture_bytes(p->f->a,
					    (double)p->best->capacity)));
}

/* Plans below it may be as fast as the best: prices are not exact. */
static void
add_doubt(const struct plans_picture *p, struct buf *out)
{
	double part = answer_least_difference(p->f->a);
	double us = (1 + part) * p->best->step_us;
	double y = picture_y(&p->plot, us / 1e3);
	const double from[2] = { 0, y }, to[2] = { PICTURE_WIDTH, y };

	if (us / 1e3 >= p->plot.y.hi) {
		return;
	}
	picture_limit(out, from, to, arena_printf(p->f->a, "%.0f%% slower than "
		"the best: of two plans that are nearer, either may be the "
		"faster one", 100 * part));
}

/* Those on the front, and the quickest of all. */
static void
add_table(const struct plans_picture *p, struct buf *out)
{
	static const char *const heads[] = { "plan", "step", "memory",
					     "on the front" };
	struct arena *a = p->f->a;
	uint32_t i, n = 0;

	picture_open_table(out, "the quickest plans and the front as a table",
			   true, heads, 4);
	for (i = 0; i < p->at.n && n < MOST_LINES; i++) {
		const struct search_priced *x = &p->at.at[i];

		if (i >= MOST_LINES / 2 && !p->front[i]) {
			continue;
		}
		n++;
		buf_puts(out, "<tr>");
		picture_cell(out, words(p, x));
		picture_cell(out, picture_ms(a, x->step_us));
		picture_cell(out, picture_bytes(a, (double)x->bytes));
		picture_cell(out, p->front[i] ? "yes" : "");
		buf_puts(out, "</tr>\n");
	}
	picture_close_table(out, true);
}

void
picture_plans(const struct picture_facts *f, struct buf *out)
{
	const struct search_report *r = f->in->answer->search;
	struct plans_picture p = { .f = f };

	if (!r) {
		buf_puts(out, "<p>The plan was given, so there was no "
			 "search.</p>\n");
		return;
	}
	collect(&p, r);
	set_axes(&p);
	buf_printf(out, "<p>%u plans that fit%s. The search left out %.0f "
		   "others by their bounds, and %.0f did not fit. The large "
		   "dot is the plan of this report, by its own programs; the "
		   "others are added up of pieces.</p>\n", p.at.n, p.nslow
		   ? arena_printf(f->a, "; %u slower ones are not drawn",
				  p.nslow) : "",
		   (double)(r->cut + r->above), (double)r->full);
	picture_open_plot(out, &p.plot);
	add_front(&p, out);
	if (p.is_near) {
		add_capacity(&p, out);
	}
	add_doubt(&p, out);
	add_dots(&p, out);
	picture_close_plot(out, &p.plot);
	add_table(&p, out);
}

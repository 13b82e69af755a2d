/*
 * Questions to a sweep.  --days D: the fewest nodes of a target that finish a
 * run in time.  Numbers of nodes are tried that clusters come in; the answer
 * is the one that finishes while the next smaller, which was planned too, does
 * not.  --budget USD: of the cells that cost no more, the fastest; of a run
 * whose tokens are not given, the cell that trains on most.
 */
#include "frontend/tool/sweep.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "frontend/frontend.h"

/* More devices are not tried: the largest clusters that bench/plan searches. */
#define MOST_DEVICES 16384
/* From a number of nodes to the next, at most so many times as many. */
#define MOST_GROWTH 4
/* Twice the nodes have to end in this part of the days, or more will not. */
#define HELPS 0.8

bool
sweep_read_asked(struct sweep *s)
{
	bool ok;

	ok = drv_read_number(s->d, OPT_DAYS, 1e-6, 1e6, "days from 1e-6 to "
			     "1e6, such as 30", &s->days);
	return drv_read_number(s->d, OPT_BUDGET, 1e-6, 1e15, "USD from 1e-6 "
			       "to 1e15, such as 2e6 or 2M",
			       &s->budget_usd) && ok;
}

/* ---- the fewest nodes ---- */

/* Numbers of nodes: 1 to 16, then eight for each doubling. */
static int64_t
nodes_at(int k)
{
	int octave = (k - 16) / 8, step = (k - 16) % 8 + 1;

	return k < 16 ? k + 1 : (int64_t)(16 + 2 * step) << octave;
}

/* The place of the first number that is at least n. */
static int
place_of(double n)
{
	int k = 0;

	while ((double)nodes_at(k) < n && nodes_at(k) < MOST_DEVICES) {
		k++;
	}
	return k;
}

/* Plans the question's model for so many nodes. */
static void
run_nodes(const struct sweep *s, struct sweep_thread *t, const char *target,
	  int64_t nodes, struct sweep_row *row)
{
	struct ir_ctx c;	/* of this thread */

	ir_ctx_init(&c, NULL);
	row->cell.target = fe_target_of_nodes(&c, target, nodes);
	sweep_run_cell(s, t, row);
	row->cell.target = arena_strndup(&row->keep, row->cell.target,
					 strlen(row->cell.target));
	ir_ctx_release(&c);
}

/* What is known of a question: places among the numbers of nodes. */
struct bracket {
	int least, most;	/* the numbers below and above need no plan */
	struct sweep_row *less, *enough;	/* of those two, or NULL */
};

/*
 * The place to look at next.  Were the rate proportional to the nodes, those
 * of `r` times its days over the days that there are would be enough.
 */
static int
next_place(const struct sweep *s, const struct bracket *b,
	   const struct sweep_row *r)
{
	double times = r->outcome == SWEEP_FITS ? sweep_days(r) / s->days : 2;
	int k;

	times = b->less && !b->enough && b->less->outcome == SWEEP_FITS &&
		r->nodes > 1 ? fmin(times, MOST_GROWTH) : times;
	k = place_of((double)r->nodes * times);

	k = k < b->least ? b->least : k;
	return k > b->most ? b->most : k;
}

/* The last place that has few enough devices. */
static int
last_place(const struct sweep_row *r)
{
	int64_t each = r->devices / (r->nodes ? r->nodes : 1);
	int k;

	each = each ? each : 1;
	k = place_of((double)MOST_DEVICES / (double)each);
	while (k > 0 && nodes_at(k) * each > MOST_DEVICES) {
		k--;
	}
	return k;
}

static bool
is_in_time(const struct sweep *s, const struct sweep_row *r)
{
	return r->outcome == SWEEP_FITS && !isnan(sweep_days(r)) &&
	       (s->days <= 0 || sweep_days(r) <= s->days);
}

/* Whether r, of at least twice the nodes of `less`, is hardly faster. */
static bool
is_no_help(const struct sweep_row *less, const struct sweep_row *r)
{
	return less && less->outcome == SWEEP_FITS &&
	       r->outcome == SWEEP_FITS && r->nodes >= 2 * less->nodes &&
	       !(sweep_days(r) < HELPS * sweep_days(less));
}

/* Makes r the next smaller number; false: more nodes will not do either. */
static bool
set_less(struct bracket *b, struct sweep_row *r)
{
	bool more = r->outcome != SWEEP_REFUSED &&
		    (b->enough || !is_no_help(b->less, r));

	if (b->less) {
		sweep_drop_row(b->less);
	}
	b->less = r;
	return more;
}

void
sweep_find_nodes(const struct sweep *s, struct sweep_thread *t,
		 struct sweep_job *job)
{
	const char *target = job->row->cell.target;
	struct bracket b = { 0, 1, NULL, NULL };
	int k = 0, i;

	while (b.least <= b.most) {
		struct sweep_row *r = job->row;

		while (r == b.less || r == b.enough) {
			r++;
		}
		run_nodes(s, t, target, nodes_at(k), r);
		if (!b.less && !b.enough) {
			b.most = last_place(r);
		}
		if (is_in_time(s, r)) {
			if (b.enough) {
				sweep_drop_row(b.enough);
			}
			b.enough = r;
			b.most = k - 1;
		} else if (set_less(&b, r)) {
			b.least = k + 1;
		} else {
			break;
		}
		k = next_place(s, &b, r);
	}
	for (i = 0; i < SWEEP_SLOTS; i++) {
		job->row[i].is_answer = &job->row[i] == b.enough;
	}
	job->enough = b.enough;
	job->less = b.less;
}

/* ---- days and dollars ---- */

static bool
is_within(const struct sweep *s, const struct sweep_row *r)
{
	return is_in_time(s, r) &&
	       (s->budget_usd <= 0 || sweep_usd(r) <= s->budget_usd);
}

double
sweep_most_tokens(const struct sweep *s, const struct sweep_row *r)
{
	double kept = isnan(r->goodput) ? 1 : r->goodput, most = INFINITY;

	if (s->days > 0) {
		most = s->days * 86400 * r->tokens_s * kept;
	}
	if (s->budget_usd > 0) {
		most = fmin(most, s->budget_usd / r->usd_h * 3600 *
			    r->tokens_s * kept);
		most = isnan(r->usd_h) ? NAN : most;
	}
	return r->outcome == SWEEP_FITS && isfinite(most) ? most : NAN;
}

/* Whether the answer is the cell that trains on most tokens. */
static bool
asks_tokens(const struct sweep *s)
{
	return !s->has_tokens && (s->days > 0 || s->budget_usd > 0);
}

/*
 * Whether the answer is one of the cells: those of a number of nodes that was
 * given compete for the days and the dollars.
 */
static bool
asks_cell(const struct sweep *s)
{
	bool given = false;
	uint32_t i;

	for (i = 0; i < s->njobs; i++) {
		given |= !s->job[i].asks_nodes;
	}
	return s->budget_usd > 0 || (s->days > 0 && given);
}

/*
 * What of two cells counts, the less the better: tokens, where these are asked
 * for; else days, or dollars if days alone are limited.
 */
static double
rank_of(const struct sweep *s, const struct sweep_row *r)
{
	return asks_tokens(s) ? -sweep_most_tokens(s, r)
		: s->budget_usd > 0 || isnan(sweep_usd(r)) ? sweep_days(r)
		: sweep_usd(r);
}

static struct sweep_row *
best_row(const struct sweep *s)
{
	struct sweep_row *best = NULL;
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		struct sweep_row *r = s->sorted[i];
		bool is_legal = asks_tokens(s)
			? !isnan(sweep_most_tokens(s, r)) : is_within(s, r);

		best = is_legal && !(best && rank_of(s, r) >= rank_of(s, best))
			? r : best;
	}
	return best;
}

void
sweep_mark_answers(struct sweep *s)
{
	struct sweep_row *best = best_row(s);

	if (best && asks_cell(s)) {
		best->is_answer = true;
	}
}

/* ---- sentences ---- */

/* "1 day", "2.5 days" */
static void
add_days(struct buf *out, double days)
{
	buf_printf(out, "%.6g day%s", days, days == 1 ? "" : "s");
}

static void
add_days_usd(struct buf *out, const struct sweep_row *r)
{
	buf_printf(out, "%s days", answer_days_text(out->arena, sweep_days(r)));
	if (!isnan(sweep_usd(r))) {
		buf_puts(out, " and ");
		answer_add_usd(out, sweep_usd(r));
	}
}

static void
add_limits(struct buf *out, const struct sweep *s)
{
	if (s->days > 0) {
		add_days(out, s->days);
	}
	if (s->budget_usd > 0) {
		buf_puts(out, s->days > 0 ? " and " : "");
		answer_add_usd(out, s->budget_usd);
	}
}

static void
print_nodes(const struct sweep *s, const struct sweep_job *job,
	    struct buf *out)
{
	const struct sweep_row *less = job->less;
	uint32_t i;

	buf_puts(out, "in ");
	add_days(out, s->days);
	for (i = 0; i < s->ndims; i++) {
		buf_printf(out, ", %s=%" PRId64, job->row->cell.dims[i].name,
			   job->row->cell.dims[i].size);
	}
	if (job->enough) {
		buf_printf(out, ": %s, by ", job->enough->cell.target);
		add_days_usd(out, job->enough);
	} else {
		buf_puts(out, ": no number of nodes that was tried");
	}
	if (less && less->outcome == SWEEP_FITS) {
		buf_printf(out, "; %s would take ", less->cell.target);
		add_days_usd(out, less);
	} else if (less) {
		buf_printf(out, less->outcome == SWEEP_TOO_LARGE
			   ? "; no plan fits %s" : "; %s was refused",
			   less->cell.target);
	}
	buf_putc(out, '\n');
}

/* Where no cell meets the limits: the fastest, or the cheapest for a budget. */
static void
add_nearest(const struct sweep *s, struct buf *out)
{
	const struct sweep_row *best = NULL;
	double least = INFINITY, takes;
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		const struct sweep_row *r = s->sorted[i];

		takes = s->days > 0 ? sweep_days(r) : sweep_usd(r);
		if (r->outcome == SWEEP_FITS && takes < least) {
			least = takes;
			best = r;
		}
	}
	if (best) {
		buf_printf(out, "; %s would take ", best->cell.target);
		add_days_usd(out, best);
	}
	buf_putc(out, '\n');
}

/* The best of all cells, if it is not one of a question. */
static void
print_best(const struct sweep *s, struct buf *out)
{
	const struct sweep_row *best = best_row(s);

	buf_puts(out, "within ");
	add_limits(out, s);
	if (!best) {
		buf_puts(out, ": none of these cells");
		add_nearest(s, out);
	} else if (asks_tokens(s)) {
		buf_printf(out, " most tokens: %s, ", best->cell.target);
		buf_short(out, sweep_most_tokens(s, best));
		buf_putc(out, '\n');
	} else {
		buf_printf(out, " the %s: %s, by ", s->budget_usd > 0 ||
			   isnan(sweep_usd(best)) ? "fastest" : "cheapest",
			   best->cell.target);
		add_days_usd(out, best);
		buf_putc(out, '\n');
	}
}

void
sweep_print_answers(const struct sweep *s, struct buf *out)
{
	uint32_t i;

	for (i = 0; i < s->njobs; i++) {
		if (s->job[i].asks_nodes) {
			print_nodes(s, &s->job[i], out);
		}
	}
	if (asks_cell(s)) {
		print_best(s, out);
	}
}

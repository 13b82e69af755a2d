/*
 * A schedule as a drawing for a terminal: a row for each rank and a column for
 * each step, every action being one step long.  What is wider than a terminal
 * goes on below.  Of a drawing that is too large to look at, the middle is
 * left out, and says so; a file (sched_print) has all of it.
 */
#include "passes/sched/sched.h"

#include <inttypes.h>

#define COLUMNS 80
#define MOST_BANDS 12	/* of so many columns, below each other */
#define MOST_RANKS 40

struct drawing {
	const struct sched *s;
	struct sched_timeline t;
	uint32_t *next;		/* by rank: the first action not drawn yet */
	uint32_t label, cell;	/* their columns */
	uint32_t steps, band;	/* all of them; those of one band */
	bool names_stage;	/* ranks have several */
	struct buf *out;
};

static uint32_t
digits(uint32_t v)
{
	uint32_t n = 1;

	for (; v >= 10; v /= 10) {
		n++;
	}
	return n;
}

static uint32_t
start_of(const struct drawing *d, uint32_t rank, uint32_t at)
{
	return (uint32_t)(d->t.events[rank][at].start_us + 0.5);
}

/* "F3", or "2F3" where the rank does not say which stage it is. */
static void
draw_action(struct drawing *d, const struct sched_action *x)
{
	const char *text = arena_printf(d->out->arena, "%s%" PRIu32,
					sched_kinds[x->kind].letter,
					x->microbatch);

	if (d->names_stage) {
		text = arena_printf(d->out->arena, "%" PRIu32 "%s", x->stage,
				    text);
	}
	buf_printf(d->out, " %-*s", (int)d->cell - 1, text);
}

static void
end_line(struct buf *out)
{
	while (out->n && out->at[out->n - 1] == ' ') {
		out->n--;
	}
	buf_putc(out, '\n');
}

static void
draw_rank(struct drawing *d, uint32_t rank, uint32_t from, uint32_t to)
{
	const struct sched_list *l = &d->s->ranks[rank];
	uint32_t *at = &d->next[rank], step;

	buf_printf(d->out, "rank %-*" PRIu32, (int)d->label - 5, rank);
	while (*at < l->actions.n && start_of(d, rank, *at) < from) {
		++*at;
	}
	for (step = from; step < to && *at < l->actions.n; step++) {
		if (start_of(d, rank, *at) == step) {
			draw_action(d, &l->actions.at[(*at)++]);
		} else {
			buf_printf(d->out, " %-*s", (int)d->cell - 1, ".");
		}
	}
	end_line(d->out);
}

static void
draw_band(struct drawing *d, uint32_t from)
{
	uint32_t to = from + d->band < d->steps ? from + d->band : d->steps;
	uint32_t n = d->s->nranks, r;

	if (d->band < d->steps) {
		buf_printf(d->out, "\nsteps %" PRIu32 " to %" PRIu32 "\n",
			   from, to - 1);
	} else {
		buf_putc(d->out, '\n');
	}
	for (r = 0; r < n; r++) {
		if (n > MOST_RANKS && r == MOST_RANKS / 2) {
			buf_printf(d->out, "..   %" PRIu32 " ranks more\n",
				   n - MOST_RANKS);
			r = n - MOST_RANKS / 2;
		}
		draw_rank(d, r, from, to);
	}
}

static void
draw_bands(struct drawing *d)
{
	uint32_t n = (d->steps + d->band - 1) / d->band, i;

	for (i = 0; i < n; i++) {
		if (n > MOST_BANDS && i == MOST_BANDS / 2) {
			buf_printf(d->out, "\n%" PRIu32 " steps more, which "
				   "--csv has\n", (n - MOST_BANDS) * d->band);
			i = n - MOST_BANDS / 2;
		}
		draw_band(d, i * d->band);
	}
}

static void
draw_legend(struct drawing *d)
{
	const struct sched_times *times = sched_times(d->out->arena, d->s);
	uint32_t k;

	buf_putc(d->out, '\n');
	for (k = 0; k < SCHED_NKINDS; k++) {
		if (sched_has_kind(d->s, times, k)) {
			buf_printf(d->out, "%s: %s\n", sched_kinds[k].letter,
				   sched_kinds[k].what);
		}
	}
	buf_printf(d->out, ".: the rank waits\n%sthe microbatch stands "
		   "after the letter\n", d->names_stage
		   ? "the stage stands before and " : "");
}

void
sched_draw(const struct sched *s, struct buf *out)
{
	struct drawing d = { .s = s, .out = out };

	sched_time(out->arena, s, NULL, &d.t);
	d.next = arena_alloc(out->arena, s->nranks * sizeof *d.next);
	d.names_stage = s->nstages > s->nranks;
	d.steps = (uint32_t)(d.t.makespan_us + 0.5);
	d.label = 5 + digits(s->nranks - 1);
	d.cell = 2 + digits(s->nmicrobatches - 1) +
		 (d.names_stage ? digits(s->nstages - 1) : 0);
	d.band = (COLUMNS - d.label) / d.cell;
	buf_printf(out, "%s%s%s: %" PRIu32 " steps, bubble %.4f\n",
		   s->def ? s->def->name : "", s->def ? ": " : "",
		   sched_shape_text(out->arena, s->nranks, s->nstages,
				    s->nmicrobatches),
		   d.steps, sched_bubble(s, &d.t));
	draw_bands(&d);
	draw_legend(&d);
}

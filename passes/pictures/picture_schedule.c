/*
 * A schedule as one SVG file: a row for each rank, all actions one step long.
 * Of a schedule with many actions the blocks of a rank are paths, without a
 * text in each.
 */
#include "passes/pictures/picture_parts.h"

#include <inttypes.h>

#define ROW 24
#define BLOCK 20
#define MARGIN 8
#define STEP 34			/* the width of a step */
#define NARROW 3		/* the same of paths */
#define NAMES 64		/* the width of names of ranks */
#define MOST_TEXTS 5000		/* actions that have one */

struct drawn_schedule {
	const struct sched *s;
	struct sched_timeline t;
	bool texts;
	double step;
	struct buf *out;
};

static double
x_of(const struct drawn_schedule *d, double steps)
{
	return MARGIN + NAMES + steps * d->step;
}

static double
y_of(uint32_t rank)
{
	return MARGIN + ROW * (rank + 0.5);
}

static void
add_number(struct buf *out, const char *name, double v)
{
	buf_printf(out, " %s=\"", name);
	picture_num(out, v);
	buf_putc(out, '"');
}

static void
draw_action(const struct drawn_schedule *d, uint32_t rank, uint32_t at)
{
	const struct sched_action *x = &d->s->ranks[rank].actions.at[at];
	const struct sched_event *e = &d->t.events[rank][at];
	const char *name = sched_name(d->out->arena, x);

	buf_printf(d->out, "<g><title>%s: %s of stage %" PRIu32
		   ", microbatch %" PRIu32 ", on rank %" PRIu32 "</title>"
		   "<path class=\"%s\" d=\"", name, sched_kinds[x->kind].what,
		   x->stage, x->microbatch, rank,
		   sched_kinds[x->kind].letter);
	picture_point(d->out, true, x_of(d, e->start_us) + 0.5, y_of(rank));
	buf_printf(d->out, "h%d\"/><text", STEP - 1);
	add_number(d->out, "x", x_of(d, e->start_us) + STEP / 2.0);
	add_number(d->out, "y", y_of(rank) + 4);
	buf_printf(d->out, ">%s</text></g>\n", name);
}

static void
draw_path(const struct drawn_schedule *d, uint32_t rank, uint32_t kind)
{
	const struct sched_list *l = &d->s->ranks[rank];
	bool any = false;
	uint32_t i;

	for (i = 0; i < l->actions.n; i++) {
		if (l->actions.at[i].kind != kind) {
			continue;
		}
		if (!any) {
			buf_printf(d->out, "<path class=\"%s\" d=\"",
				   sched_kinds[kind].letter);
		}
		any = true;
		picture_point(d->out, true, x_of(d, d->t.events[rank][i]
						 .start_us), y_of(rank));
		buf_printf(d->out, "h2.6");
	}
	buf_puts(d->out, any ? "\"/>\n" : "");
}

static void
draw_rank(const struct drawn_schedule *d, uint32_t rank)
{
	uint32_t i;

	buf_puts(d->out, "<text class=\"n\"");
	add_number(d->out, "x", MARGIN);
	add_number(d->out, "y", y_of(rank) + 4);
	buf_printf(d->out, ">rank %" PRIu32 "</text>\n", rank);
	for (i = 0; d->texts && i < d->s->ranks[rank].actions.n; i++) {
		draw_action(d, rank, i);
	}
	for (i = 0; !d->texts && i < SCHED_NKINDS; i++) {
		draw_path(d, rank, i);
	}
}

static bool
has_texts(const struct sched *s)
{
	uint32_t n = 0, r;

	for (r = 0; r < s->nranks && n <= MOST_TEXTS; r++) {
		n += s->ranks[r].actions.n;
	}
	return n <= MOST_TEXTS;
}

static void
draw_foot(const struct drawn_schedule *d)
{
	const struct sched_times *times = sched_times(d->out->arena, d->s);
	double x = MARGIN + NAMES;
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		if (!sched_has_kind(d->s, times, k)) {
			continue;
		}
		buf_printf(d->out, "<path class=\"%s\" d=\"",
			   sched_kinds[k].letter);
		picture_point(d->out, true, x, y_of(d->s->nranks) + 6);
		buf_puts(d->out, "h14\"/><text class=\"n\"");
		add_number(d->out, "x", x + 20);
		add_number(d->out, "y", y_of(d->s->nranks) + 10);
		buf_printf(d->out, ">%s</text>\n", sched_kinds[k].what);
		x += 32 + 7.2 * (double)strlen(sched_kinds[k].what);
	}
}

void
picture_schedule(const struct sched *s, struct buf *out)
{
	struct drawn_schedule d = { .s = s, .texts = has_texts(s),
				    .out = out };
	double width, height = MARGIN * 3 + ROW * (s->nranks + 1.0);
	uint32_t r;

	sched_time(out->arena, s, NULL, &d.t);
	d.step = d.texts ? STEP : NARROW;
	width = x_of(&d, d.t.makespan_us) + MARGIN;
	width = width < 720 ? 720 : width;
	buf_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" "
		   "role=\"img\" width=\"%.0f\" height=\"%.0f\" "
		   "viewBox=\"0 0 %.0f %.0f\">\n<title>%s: %s, bubble %.4f"
		   "</title>\n<style>\n%ssvg { background: var(--bg); }\n"
		   "path { stroke-width: %d; fill: none; }\n"
		   ":root { --cF: #56b4e9; --cB: #ee8045; --cI: #f0c04a; "
		   "--cW: #37c79b; }\n"
		   "text { font: 11px system-ui, sans-serif; fill: #000; "
		   "text-anchor: middle; }\n"
		   "text.n { fill: var(--fg); text-anchor: start; }\n"
		   "</style>\n", width, height, width, height,
		   s->def ? s->def->name : "a schedule",
		   sched_shape_text(out->arena, s->nranks, s->nstages,
				    s->nmicrobatches), sched_bubble(s, &d.t),
		   picture_kinds_css, BLOCK);
	for (r = 0; r < s->nranks; r++) {
		draw_rank(&d, r);
	}
	draw_foot(&d);
	buf_puts(out, "</svg>\n");
}

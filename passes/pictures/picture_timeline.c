/*
 * The pipeline as a timeline: a row for each place, a block for each action.
 * Blocks are strokes of one path by kind and shade; what each of them is lies
 * beside the path in a few bytes (see page.js), since a step has thousands.
 * A step with too many to see is drawn in two windows, its beginning and its
 * end.
 */
#include "passes/pictures/picture_parts.h"

#include <math.h>

#define ROW 22			/* its height; of a block, less */
#define BLOCK 17
#define MOST_ROWS 32
#define MOST_ACTIONS 16000	/* in both windows together, */
#define MOST_OF_PLACE 600	/* and of a place, where their order repeats */
#define SHADES 4

struct timeline {
	const struct picture_facts *f;
	const struct sched *s;
	uint32_t rows[MOST_ROWS], nrows;	/* places that are drawn */
	uint32_t (*label)[SCHED_NKINDS];	/* by stage: index in labels */
	uint32_t *update;	/* by row: of its update */
	uint32_t *shade;	/* by stage */
	struct buf labels;
	double lo_us, hi_us;	/* of the window */
};

/* ---- what is drawn ---- */

static void
choose_rows(struct timeline *t)
{
	uint32_t n = t->s->nranks, i;

	t->nrows = n < MOST_ROWS ? n : MOST_ROWS;
	for (i = 0; i < t->nrows; i++) {
		t->rows[i] = i < MOST_ROWS / 2 || n <= MOST_ROWS
			? i : n - t->nrows + i;
	}
}

static bool
is_shown(const struct timeline *t, uint32_t rank)
{
	uint32_t i;

	for (i = 0; i < t->nrows && t->rows[i] != rank; i++) {
	}
	return i < t->nrows;
}

/* The stages of a rank, from its first in the model on, darkest first. */
static void
choose_shades(struct timeline *t)
{
	const struct sched *s = t->s;
	uint32_t each = s->nstages / s->nranks, i;
	uint32_t *seen = arena_alloc(t->f->a, s->nranks * sizeof *seen);

	t->shade = arena_alloc(t->f->a, s->nstages * sizeof *t->shade);
	for (i = 0; i < s->nstages; i++) {
		uint32_t nth = seen[s->rank_of[i]]++;

		t->shade[i] = each > 1 && nth < each ? nth * SHADES / each : 0;
	}
}

/* "the forward of stage 3|1.25": with its time in ms. */
static void
add_labels(struct timeline *t)
{
	const struct price *p = t->f->in->price;
	uint32_t n = 0, i, k;

	t->label = arena_alloc(t->f->a, t->s->nstages * sizeof *t->label);
	t->update = arena_alloc(t->f->a, t->nrows * sizeof *t->update);
	buf_init(&t->labels, t->f->a);
	for (i = 0; i < t->s->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS &&
		     is_shown(t, t->s->rank_of[i]); k++) {
			if (t->f->in->ranks->of_stage[i][k]) {
				t->label[i][k] = n++;
				buf_printf(&t->labels, "%s of stage %u|%.6g;",
					   sched_kinds[k].what, i,
					   p->run[i][k].total_us / 1e3);
			}
		}
	}
	for (i = 0; i < t->nrows; i++) {
		t->update[i] = n++;
		buf_printf(&t->labels, "the update of the weights|%.6g;",
			   p->updated[t->rows[i]].total_us / 1e3);
	}
}

/* ---- one window ---- */

/* The actions [*from, *to) of a rank lie in the window, at least in part. */
static void
find_range(const struct timeline *t, uint32_t rank, uint32_t *from,
	   uint32_t *to)
{
	const struct sched_event *e = t->f->line.events[rank];
	uint32_t n = t->s->ranks[rank].actions.n;

	for (*from = 0; *from < n && e[*from].end_us <= t->lo_us; ++*from) {
	}
	for (*to = *from; *to < n && e[*to].start_us < t->hi_us; ++*to) {
	}
}

static double
at_x(const struct timeline *t, double us)
{
	double part = (us - t->lo_us) / (t->hi_us - t->lo_us);

	return PICTURE_WIDTH * fmin(fmax(part, 0), 1);
}

/* "123456,3,17;": start in millionths of the window, label, microbatch. */
static void
add_entry(struct buf *out, const struct timeline *t, double us,
	  uint32_t label)
{
	buf_printf(out, "%.0f,%u,", 1e6 * (us - t->lo_us) /
		   (t->hi_us - t->lo_us), label);
}

static void
add_stroke(struct buf *out, const struct timeline *t, double y, double start,
	   double end)
{
	double x = at_x(t, start), width = at_x(t, end) - x;

	/* a gap to the next block, of what the block has for it */
	width -= fmin(0.12 * width, 0.4);
	picture_point(out, true, x, y);
	buf_putc(out, 'h');
	picture_num(out, width);
}

static void
add_path(struct buf *out, const char *classes, struct buf *d)
{
	if (d->n) {
		buf_printf(out, "<path class=\"%s\" stroke-width=\"%d\" "
			   "d=\"%s\"/>", classes, BLOCK, buf_text(d));
	}
}

static void
add_blocks(struct buf *out, const struct timeline *t, uint32_t row,
	   uint32_t from, uint32_t to)
{
	const struct sched_list *l = &t->s->ranks[t->rows[row]];
	const struct sched_event *e = t->f->line.events[t->rows[row]];
	double y = ROW * (row + 0.5);
	struct buf d;
	uint32_t k, shade, i;

	for (k = 0; k < SCHED_NKINDS; k++) {
		for (shade = 0; shade < SHADES; shade++) {
			buf_init(&d, t->f->a);
			for (i = from; i < to; i++) {
				const struct sched_action *x =
					&l->actions.at[i];

				if (x->kind == k &&
				    t->shade[x->stage] == shade) {
					add_stroke(&d, t, y, e[i].start_us,
						   e[i].end_us);
				}
			}
			add_path(out, arena_printf(t->f->a, "%s s%u",
				 sched_kinds[k].letter, shade), &d);
		}
	}
}

static const char *
stages_of(const struct timeline *t, uint32_t rank)
{
	struct buf text;
	uint32_t i, n = 0;

	buf_init(&text, t->f->a);
	for (i = 0; i < t->s->nstages && n < 9; i++) {
		if (t->s->rank_of[i] == rank) {
			buf_printf(&text, "%s%u", n ? ", " : "", i);
			n++;
		}
	}
	if (n == 9) {
		buf_puts(&text, " ..");
	}
	return buf_text(&text);
}

static void
add_track(struct buf *out, const struct timeline *t, uint32_t row)
{
	const struct price *p = t->f->in->price;
	const struct sched_event *e = t->f->line.events[t->rows[row]];
	uint32_t rank = t->rows[row], from, to, i;
	double update = p->updated[rank].total_us;
	struct buf d;

	find_range(t, rank, &from, &to);
	picture_open_item(out, "g", "track");
	buf_printf(out, " data-name=\"place %u\" data-d=\"", rank);
	for (i = from; i < to; i++) {
		const struct sched_action *x = &t->s->ranks[rank].actions.at[i];

		add_entry(out, t, e[i].start_us, t->label[x->stage][x->kind]);
		buf_printf(out, "%u%s", x->microbatch,
			   i + 1 < to || t->hi_us > p->pipe_us ? ";" : "");
	}
	if (t->hi_us > p->pipe_us) {
		add_entry(out, t, p->pipe_us, t->update[row]);
	}
	buf_putc(out, '"');
	picture_title(out, arena_printf(t->f->a, "place %u of the pipeline, "
		"with stages %s: %u actions, waits %.1f%% of the time before "
		"the update", rank, stages_of(t, rank),
		t->s->ranks[rank].actions.n, 100 * t->f->line.idle[rank]));
	add_blocks(out, t, row, from, to);
	if (t->hi_us > p->pipe_us) {
		buf_init(&d, t->f->a);
		add_stroke(&d, t, ROW * (row + 0.5), p->pipe_us,
			   p->pipe_us + update);
		add_path(out, "U", &d);
	}
	buf_printf(out, "<rect class=\"hit\" x=\"0\" y=\"%u\" width=\"%d\" "
		   "height=\"%d\"/>", row * ROW, PICTURE_WIDTH, ROW);
	picture_close_item(out, "g");
}

static void
add_window(struct buf *out, struct timeline *t, double lo_us, double hi_us)
{
	const char **names = arena_alloc(t->f->a, t->nrows * sizeof *names);
	struct picture_plot plot = {
		.label = "the actions of each place in the pipeline, over time",
		.height = (int)t->nrows * ROW, .rows = names,
		.nrows = t->nrows, .zooms = true,
		.x = { .name = "ms", .lo = lo_us / 1e3, .hi = hi_us / 1e3 }
	};
	uint32_t i;

	t->lo_us = lo_us;
	t->hi_us = hi_us;
	for (i = 0; i < t->nrows; i++) {
		names[i] = arena_printf(t->f->a, "place %u", t->rows[i]);
	}
	plot.data = arena_printf(t->f->a, " data-text=\"$l$m: from $a to $b "
				 "ms, $t ms\" data-labels=\"%s\"",
				 buf_text(&t->labels));
	picture_open_plot(out, &plot);
	for (i = 0; i < t->nrows; i++) {
		add_track(out, t, i);
	}
	picture_close_plot(out, &plot);
}

/* ---- all windows ---- */

static bool
repeats(const struct timeline *t)
{
	return t->s->def && t->s->def->repeats != SCHED_NEVER;
}

/*
 * Until *first_us and from *last_us on, no place has more actions than may be
 * drawn.  False: that is the whole step.
 */
static bool
is_too_long(const struct timeline *t, double *first_us, double *last_us)
{
	uint32_t most = MOST_ACTIONS / t->nrows, i;
	bool more = false;

	most = repeats(t) && most > MOST_OF_PLACE ? MOST_OF_PLACE : most;
	most /= 2;
	*first_us = t->f->in->price->pipe_us;
	*last_us = 0;
	for (i = 0; i < t->nrows; i++) {
		const struct sched_event *e = t->f->line.events[t->rows[i]];
		uint32_t n = t->s->ranks[t->rows[i]].actions.n;

		if (n > 2 * most) {
			more = true;
			*first_us = fmin(*first_us, e[most].start_us);
			*last_us = fmax(*last_us, e[n - 1 - most].end_us);
		}
	}
	return more && *first_us < *last_us;
}

static void
add_windows(struct buf *out, struct timeline *t)
{
	double step_us = t->f->in->price->step_us, first, last;

	if (!is_too_long(t, &first, &last)) {
		add_window(out, t, 0, step_us);
		return;
	}
	buf_printf(out, "<p>The first %s:</p>\n", picture_ms(t->f->a, first));
	add_window(out, t, 0, first);
	buf_printf(out, "<p>The %s between are not drawn%s. The last %s:</p>\n",
		   picture_ms(t->f->a, last - first), repeats(t)
		   ? ": the order of actions repeats" : "",
		   picture_ms(t->f->a, step_us - last));
	add_window(out, t, last, step_us);
}

/* ---- keys and tables ---- */

static bool
runs_kind(const struct timeline *t, uint32_t k)
{
	uint32_t i;

	for (i = 0; i < t->s->nstages &&
	     !t->f->in->ranks->of_stage[i][k]; i++) {
	}
	return i < t->s->nstages;
}

static void
add_key(struct buf *out, const struct timeline *t)
{
	uint32_t k;

	buf_puts(out, "<ul class=\"key\">");
	for (k = 0; k < SCHED_NKINDS; k++) {
		if (runs_kind(t, k)) {
			picture_key(out, sched_kinds[k].letter,
				    sched_kinds[k].what);
		}
	}
	picture_key(out, "U", "the update of the weights");
	if (t->s->nstages > t->s->nranks) {
		buf_puts(out, "<li>lighter: a later stage of the same "
			 "place</li>");
	}
	buf_puts(out, "</ul>\n");
}

static void
add_places(struct buf *out, const struct timeline *t)
{
	static const char *const heads[] = {
		"place", "stages", "actions", "works", "waits", "begins",
		"ends", "update"
	};
	const struct sched_timeline *l = &t->f->line;
	struct arena *a = t->f->a;
	uint32_t i;

	picture_open_table(out, "the places as a table", true, heads, 8);
	for (i = 0; i < t->nrows; i++) {
		uint32_t r = t->rows[i];

		buf_printf(out, "<tr><td>%u</td>", r);
		picture_cell(out, stages_of(t, r));
		picture_cell(out, arena_printf(a, "%u",
					       t->s->ranks[r].actions.n));
		picture_cell(out, picture_ms(a, l->busy_us[r]));
		picture_cell(out, arena_printf(a, "%.1f%%", 100 * l->idle[r]));
		picture_cell(out, picture_ms(a, l->begin_us[r]));
		picture_cell(out, picture_ms(a, l->end_us[r]));
		picture_cell(out, picture_ms(a,
			     t->f->in->price->updated[r].total_us));
		buf_puts(out, "</tr>\n");
	}
	picture_close_table(out, true);
}

static bool
same_times(const struct timeline *t, uint32_t a, uint32_t b)
{
	const struct price *p = t->f->in->price;
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		if (fabs(p->run[a][k].total_us - p->run[b][k].total_us) >
		    1e-6 * p->run[a][k].total_us) {
			return false;
		}
	}
	return true;
}

/* Consecutive stages that take the same are one row. */
static void
add_stages(struct buf *out, const struct timeline *t)
{
	const char *heads[1 + SCHED_NKINDS] = { "stages" };
	uint32_t n = t->s->nstages, i, to, k, used = 1, lines = 0;

	for (k = 0; k < SCHED_NKINDS; k++) {
		if (runs_kind(t, k)) {
			heads[used++] = sched_kinds[k].what;
		}
	}
	picture_open_table(out, "what an action takes, by stage", true, heads,
			   used);
	for (i = 0; i < n && lines < 2 * MOST_ROWS; i = to, lines++) {
		for (to = i + 1; to < n && same_times(t, i, to); to++) {
		}
		buf_printf(out, to > i + 1 ? "<tr><td>%u to %u</td>"
			   : "<tr><td>%u</td>", i, to - 1);
		for (k = 0; k < SCHED_NKINDS; k++) {
			if (runs_kind(t, k)) {
				picture_cell(out, picture_ms(t->f->a,
					t->f->in->price->run[i][k].total_us));
			}
		}
		buf_puts(out, "</tr>\n");
	}
	picture_close_table(out, true);
}

void
picture_timeline(const struct picture_facts *f, struct buf *out)
{
	struct timeline t = { .f = f, .s = f->in->ranks->sched };

	choose_rows(&t);
	choose_shades(&t);
	add_labels(&t);
	if (t.s->nranks > t.nrows) {
		buf_printf(out, "<p>Of %u places the first %u and the last %u "
			   "are drawn.</p>\n", t.s->nranks, MOST_ROWS / 2,
			   MOST_ROWS / 2);
	}
	add_key(out, &t);
	add_windows(out, &t);
	add_places(out, &t);
	add_stages(out, &t);
}

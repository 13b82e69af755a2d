/*
 * Memory over a step, on the place of the pipeline that has least left.  What
 * is there all the time lies at the bottom; saves come and go with actions,
 * and so do temps.  Columns as wide as a quarter of a unit have the most of
 * what happens in them, so a long step takes no more bytes than a short one.
 */
#include "passes/pictures/picture_parts.h"

#include <math.h>

#define COLUMNS 4000
#define HEIGHT 300
#define MOST_ENTRIES 4000

/* What a byte is used for: a kind, or the reserve. */
enum { PART_RESERVE = MEMORY_NKINDS };

/* From the bottom; the color of a part is its index. */
static const uint8_t order[] = {
	PART_RESERVE, MEMORY_WEIGHTS, MEMORY_GRADIENTS, MEMORY_OPTIMIZER,
	MEMORY_OTHER, MEMORY_PIPELINE, MEMORY_SAVES, MEMORY_TEMPS
};

struct memory_peak {
	double us;
	int64_t saves, temps;
	const struct memory_func *func;
	const struct sched_action *action;	/* NULL: the update */
};

struct memory_picture {
	const struct picture_facts *f;
	const struct memory_rank *r;
	uint32_t rank;
	const struct sched_list *list;
	const struct sched_event *event;
	struct memory_moment *at;
	int64_t fixed;		/* bytes that are there all the time */
	/* by column: the most bytes of saves, and of saves and temps */
	int64_t saves[COLUMNS], both[COLUMNS];
	struct memory_peak peak;
	struct scale unit;
	struct picture_plot plot;
};

/* ---- facts ---- */

static int64_t
bytes_of(const struct memory_picture *m, uint32_t part)
{
	return part == PART_RESERVE ? m->r->reserve :
	       m->r->by[part];
}

static const char *
part_name(uint32_t part)
{
	return part == PART_RESERVE ? "reserve of the device" :
	       part == MEMORY_OPTIMIZER ? "state of the optimizer" :
	       part == MEMORY_OTHER ? "inputs, results, sums" :
	       part == MEMORY_PIPELINE ? "sent values" :
	       part == MEMORY_SAVES ? "saved values" :
	       part == MEMORY_TEMPS ? "temporaries" : memory_kind_names[part];
}

static void
fill_columns(struct memory_picture *m, double from_us, double to_us,
	     int64_t saves, int64_t temps)
{
	double each = m->f->in->price->step_us / COLUMNS;
	double last = fmin(to_us / each, COLUMNS - 1);
	uint32_t i = (uint32_t)fmax(fmin(from_us / each, COLUMNS - 1), 0);

	for (; i <= last; i++) {
		if (saves > m->saves[i]) {
			m->saves[i] = saves;
		}
		if (saves + temps > m->both[i]) {
			m->both[i] = saves + temps;
		}
	}
}

static void
raise_peak(struct memory_picture *m, const struct memory_peak *p)
{
	if (p->saves + p->temps > m->peak.saves + m->peak.temps ||
	    !m->peak.func) {
		m->peak = *p;
	}
}

static void
add_moments(struct memory_picture *m)
{
	const struct price *p = m->f->in->price;
	struct memory_peak e;
	uint32_t n = m->list->actions.n, i;

	for (i = 0; i < n; i++) {
		double next = i + 1 < n ? m->event[i + 1].start_us
					: p->pipe_us;

		e = (struct memory_peak){ m->event[i].start_us,
					  m->at[i].saves,
					  m->at[i].func->bytes, m->at[i].func,
					  &m->list->actions.at[i] };
		raise_peak(m, &e);
		fill_columns(m, e.us, m->event[i].end_us, e.saves, e.temps);
		fill_columns(m, m->event[i].end_us, next, m->at[i].after, 0);
	}
	e = (struct memory_peak){ p->pipe_us, 0, m->r->update.bytes,
				  &m->r->update, NULL };
	raise_peak(m, &e);
	fill_columns(m, p->pipe_us, p->pipe_us +
		     p->updated[m->rank].total_us, 0, e.temps);
}

static void
init(struct memory_picture *m, const struct picture_facts *f)
{
	const struct memory *mem = f->in->memory;
	uint32_t i;

	m->f = f;
	m->rank = mem->fullest;
	m->r = &mem->rank[m->rank];
	m->list = &f->in->ranks->sched->ranks[m->rank];
	m->event = f->line.events[m->rank];
	m->at = memory_history(mem, m->list, f->a);
	m->fixed = m->r->reserve;
	for (i = 0; i < MEMORY_SAVES; i++) {
		m->fixed += bytes_of(m, i);
	}
	add_moments(m);
	m->unit = unit_bytes((double)m->r->total);
}

/* ---- words ---- */

static const char *
place_of_action(const struct memory_picture *m, const struct sched_action *x)
{
	return x ? arena_printf(m->f->a, "%s of stage %u, microbatch %u",
				sched_kinds[x->kind].what, x->stage,
				x->microbatch)
		 : "the update of the weights";
}

/* Where in the model's text the op stands that has the most temps alive. */
static const char *
owner(const struct memory_picture *m)
{
	struct ir_module *module = m->f->in->ranks->m;
	const struct ir_node *n;
	struct source_pos pos;

	if (!m->peak.func->at_node) {
		return "";
	}
	n = ir_node(module, m->peak.func->at_node);
	if (n->span.hi == 0 || !source_locate(&module->ctx->sources,
					      n->span.lo, &pos)) {
		return arena_printf(m->f->a, ", most of them at `%s`",
				    ir_ops[n->op].name);
	}
	return arena_printf(m->f->a, ", most of them at `%s` of %s:%u",
			    ir_ops[n->op].name, pos.file->name, pos.line);
}

static const char *
peak_text(const struct memory_picture *m)
{
	struct arena *a = m->f->a;
	const struct memory_peak *p = &m->peak;

	return arena_printf(a, "the peak, %s, in %s: %s of saved values and "
			    "%s of temporaries%s", picture_bytes(a,
			    (double)(m->fixed + p->saves + p->temps)),
			    place_of_action(m, p->action),
			    picture_bytes(a, (double)p->saves),
			    picture_bytes(a, (double)p->temps), owner(m));
}

/* ---- the plot ---- */

static double
y_of(const struct memory_picture *m, int64_t bytes)
{
	return picture_y(&m->plot, (double)bytes / m->unit.size);
}

/* What is there all the time. */
static void
add_fixed(const struct memory_picture *m, struct buf *out)
{
	int64_t below = 0, bytes;
	size_t i;

	for (i = 0; order[i] != MEMORY_SAVES; i++) {
		double box[4] = { 0, 0, PICTURE_WIDTH, 0 };

		bytes = bytes_of(m, order[i]);
		box[1] = y_of(m, below + bytes);
		box[3] = y_of(m, below) - box[1];
		if (bytes > 0) {
			picture_rect(out, arena_printf(m->f->a, "area k%zu",
				     i), box, arena_printf(m->f->a,
				     "%s: %s all the time",
				     part_name(order[i]),
				     picture_bytes(m->f->a, (double)bytes)));
		}
		below += bytes;
	}
}

/* What comes and goes, above the rest; `most` is the largest of it. */
static void
add_columns(const struct memory_picture *m, const int64_t *bytes,
	    const char *classes, const char *what, struct buf *out)
{
	int64_t most = 0, now = 0;
	uint32_t i;

	picture_open_item(out, "path", classes);
	buf_puts(out, " d=\"");
	picture_point(out, true, 0, y_of(m, m->fixed));
	for (i = 0; i < COLUMNS; i++) {
		if (bytes[i] != now) {
			buf_putc(out, 'H');
			picture_num(out, (double)i * PICTURE_WIDTH / COLUMNS);
			buf_putc(out, 'V');
			picture_num(out, y_of(m, m->fixed + bytes[i]));
			now = bytes[i];
		}
		most = now > most ? now : most;
	}
	buf_printf(out, "H%dV", PICTURE_WIDTH);
	picture_num(out, y_of(m, m->fixed));
	buf_puts(out, "Z\"");
	picture_title(out, arena_printf(m->f->a, "%s: at most %s", what,
					picture_bytes(m->f->a,
						      (double)most)));
	picture_close_item(out, "path");
}

static void
add_limit(const struct memory_picture *m, int64_t bytes, const char *what,
	  struct buf *out)
{
	double y = y_of(m, bytes);
	const double from[2] = { 0, y }, to[2] = { PICTURE_WIDTH, y };

	picture_limit(out, from, to, arena_printf(m->f->a, "%s: %s", what,
				picture_bytes(m->f->a, (double)bytes)));
}

/* ---- actions ---- */

static const char *
labels(const struct memory_picture *m)
{
	const struct ranks *r = m->f->in->ranks;
	struct buf text;
	uint32_t i, k;

	buf_init(&text, m->f->a);
	buf_puts(&text, " data-text=\"$l$m, from $a to $b ms: saved values "
		 "$3, temporaries $4 ");
	buf_printf(&text, "%s\" data-labels=\"", m->unit.name);
	for (i = 0; i < r->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			if (r->sched->rank_of[i] == m->rank) {
				buf_printf(&text, "%s of stage %u|%.6g;",
					   sched_kinds[k].what, i,
					   m->f->in->price->run[i][k].total_us
					   / 1e3);
			}
		}
	}
	buf_printf(&text, "the update of the weights|%.6g;"
		   "actions that are not listed|0\"",
		   m->f->in->price->updated[m->rank].total_us / 1e3);
	return buf_text(&text);
}

static void
add_entry(const struct memory_picture *m, double us, uint32_t label,
	  const char *microbatch, int64_t saves, int64_t temps,
	  struct buf *out)
{
	buf_printf(out, "%.0f,%u,%s,%s,%s",
		   1e6 * us / m->f->in->price->step_us, label, microbatch,
		   picture_figure(m->f->a, (double)saves / m->unit.size, 4),
		   picture_figure(m->f->a, (double)temps / m->unit.size, 4));
}

static void
add_entries(const struct memory_picture *m, struct buf *out)
{
	const struct ranks *r = m->f->in->ranks;
	uint32_t *base = arena_alloc(m->f->a, r->nstages * sizeof *base);
	uint32_t n = m->list->actions.n, last = 0, i;

	for (i = 0; i < r->nstages; i++) {
		base[i] = last;
		last += r->sched->rank_of[i] == m->rank ? SCHED_NKINDS : 0;
	}
	for (i = 0; i < n; i++) {
		const struct sched_action *x = &m->list->actions.at[i];

		if (n > MOST_ENTRIES && i == MOST_ENTRIES / 2) {
			add_entry(m, m->event[i].start_us, last + 1, "", 0, 0,
				  out);
			buf_putc(out, ';');
			i = n - MOST_ENTRIES / 2;
			continue;
		}
		add_entry(m, m->event[i].start_us, base[x->stage] + x->kind,
			  arena_printf(m->f->a, "%u", x->microbatch),
			  m->at[i].saves, m->at[i].func->bytes, out);
		buf_putc(out, ';');
	}
	add_entry(m, m->f->in->price->pipe_us, last, "", 0,
		  m->r->update.bytes, out);
}

static void
add_actions(const struct memory_picture *m, struct buf *out)
{
	picture_open_item(out, "g", "track");
	buf_printf(out, " data-name=\"place %u\" data-d=\"", m->rank);
	add_entries(m, out);
	buf_putc(out, '"');
	picture_title(out, arena_printf(m->f->a, "the actions of place %u, "
		      "along which arrow keys move", m->rank));
	buf_printf(out, "<rect class=\"hit\" x=\"0\" y=\"0\" width=\"%d\" "
		   "height=\"%d\"/>", PICTURE_WIDTH, HEIGHT);
	picture_close_item(out, "g");
}

/* ---- key and tables ---- */

static void
add_parts(const struct memory_picture *m, struct buf *out)
{
	static const char *const heads[] = { "bytes for", "at the peak",
		"set aside", "of the device" };
	size_t i;

	picture_open_table(out, "memory by kind", false, heads, 4);
	for (i = 0; i < sizeof order; i++) {
		uint32_t part = order[i];
		int64_t bytes = bytes_of(m, part), now =
			part == MEMORY_SAVES ? m->peak.saves :
			part == MEMORY_TEMPS ? m->peak.temps : bytes;

		buf_puts(out, "<tr><td>");
		picture_chip(out, arena_printf(m->f->a, "k%zu", i), false);
		buf_printf(out, "%s</td>", part_name(part));
		picture_cell(out, picture_bytes(m->f->a, (double)now));
		picture_cell(out, picture_bytes(m->f->a, (double)bytes));
		picture_bar(out, (double)now / (double)m->r->device,
			    fmax((double)(bytes - now), 0) /
			    (double)m->r->device);
		buf_puts(out, "</tr>\n");
	}
	picture_close_table(out, false);
}

static void
add_places(const struct memory_picture *m, struct buf *out)
{
	static const char *const heads[] = { "places", "set aside",
		"of the device", "on the host" };
	const struct memory *mem = m->f->in->memory;
	uint32_t i, to, n = 0;

	picture_open_table(out, "all places as a table", true, heads, 4);
	for (i = 0; i < mem->nranks && n < 256; i = to, n++) {
		const struct memory_rank *x = &mem->rank[i];

		for (to = i + 1; to < mem->nranks && mem->rank[to].total ==
		     x->total && mem->rank[to].host == x->host; to++) {
		}
		buf_printf(out, to > i + 1 ? "<tr><td>%u to %u</td>"
			   : "<tr><td>%u</td>", i, to - 1);
		picture_cell(out, picture_bytes(m->f->a, (double)x->total));
		picture_cell(out, arena_printf(m->f->a, "%.1f%%", 100 *
			     (double)x->total / (double)x->device));
		picture_cell(out, picture_bytes(m->f->a, (double)x->host));
		buf_puts(out, "</tr>\n");
	}
	picture_close_table(out, true);
}

void
picture_memory(const struct picture_facts *f, struct buf *out)
{
	struct memory_picture *m = arena_alloc(f->a, sizeof *m);
	bool is_near;		/* what the device has is not far above */
	double most;

	init(m, f);
	most = (double)m->r->total;
	is_near = (double)m->r->device < 2 * most;
	most = is_near ? fmax(most, (double)m->r->device) : 1.1 * most;
	m->plot = (struct picture_plot){
		.label = "bytes in use on the fullest place, over time",
		.height = HEIGHT, .zooms = true, .data = labels(m),
		.x = { .name = "ms", .hi = f->in->price->step_us / 1e3 },
		.y = { .name = m->unit.name,
		       .hi = 1.03 * most / m->unit.size }
	};
	buf_printf(out, "<p>Place %u of the pipeline: ", m->rank);
	picture_text(out, peak_text(m));
	buf_printf(out, ". The plan sets aside %s of %s",
		   picture_bytes(f->a, (double)m->r->total),
		   picture_bytes(f->a, (double)m->r->device));
	if (m->r->host > 0) {
		buf_printf(out, ", and %s on the host",
			   picture_bytes(f->a, (double)m->r->host));
	}
	buf_puts(out, ".</p>\n");
	picture_open_plot(out, &m->plot);
	add_fixed(m, out);
	add_columns(m, m->both, "area k7", "temporaries and saved values", out);
	add_columns(m, m->saves, "area k6", "saved values", out);
	if (is_near) {
		add_limit(m, m->r->device, "the device has", out);
	}
	add_limit(m, m->r->total, "the plan sets aside", out);
	picture_dot(out, "best", picture_x(&m->plot, m->peak.us / 1e3),
		    y_of(m, m->fixed + m->peak.saves + m->peak.temps), 9,
		    peak_text(m));
	add_actions(m, out);
	picture_close_plot(out, &m->plot);
	add_parts(m, out);
	add_places(m, out);
}

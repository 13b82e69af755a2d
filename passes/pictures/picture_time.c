/*
 * Where the step goes: one bar of all parts, and a table with a bar for each.
 * The table is the picture's text.
 */
#include "passes/pictures/picture_parts.h"

static const char *
class_of(struct arena *a, int t)
{
	return arena_printf(a, "k%d", t % 14);
}

static void
add_bar(const struct answer *x, struct buf *out)
{
	double at = 0;
	int i;

	buf_puts(out, "<div class=\"wide\" style=\"--h:34px\">"
		 "<svg viewBox=\"0 0 1000 34\" preserveAspectRatio=\"none\" "
		 "role=\"group\" aria-label=\"parts of the step\">\n");
	for (i = 0; i < ANSWER_NTIMES; i++) {
		double width = PICTURE_WIDTH * x->us[i] / x->step_us;
		double box[4] = { at, 0, width, 34 };

		if (x->us[i] > 0) {
			picture_rect(out, arena_printf(out->arena, "seg %s",
				     class_of(out->arena, i)), box,
				     arena_printf(out->arena,
				     "%s: %s, %.1f%% of the step",
				     answer_times[i].what,
				     picture_ms(out->arena, x->us[i]),
				     100 * x->us[i] / x->step_us));
			at += width;
		}
	}
	buf_puts(out, "</svg></div>\n");
}

void
picture_time(const struct picture_facts *f, struct buf *out)
{
	static const char *const heads[] = { "part", "time", "of the step",
					     "" };
	const struct answer *x = f->in->answer;
	double part;
	int i;

	add_bar(x, out);
	picture_open_table(out, "where the step goes", false, heads, 4);
	for (i = 0; i < ANSWER_NTIMES; i++) {
		if (x->us[i] <= 0) {
			continue;
		}
		part = x->us[i] / x->step_us;
		buf_puts(out, "<tr><td>");
		picture_chip(out, class_of(f->a, i), false);
		buf_printf(out, "%s</td>", answer_times[i].what);
		picture_cell(out, picture_ms(f->a, x->us[i]));
		picture_cell(out, arena_printf(f->a, "%.1f%%", 100 * part));
		picture_bar(out, part, 0);
		buf_puts(out, "</tr>\n");
	}
	picture_close_table(out, false);
}

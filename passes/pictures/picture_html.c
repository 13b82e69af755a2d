/*
 * The writer of the pictures: text, numbers, plots with axes, items and
 * tables.  The HTML is XML too, so that a test can read it.
 */
#include "passes/pictures/picture_parts.h"

#include <math.h>
#include <string.h>

/* ---- text and numbers ---- */

void
picture_text(struct buf *out, const char *text)
{
	size_t n = strlen(text), len;

	for (; n > 0; text += len, n -= len) {
		len = buf_utf8_len(text, n);
		if (len == 0 || (unsigned char)*text < ' ' || *text == 127) {
			buf_puts(out, "\xef\xbf\xbd");
			len = 1;
		} else if (*text == '&') {
			buf_puts(out, "&amp;");
		} else if (*text == '<') {
			buf_puts(out, "&lt;");
		} else if (*text == '>') {
			buf_puts(out, "&gt;");
		} else if (*text == '"') {
			buf_puts(out, "&quot;");
		} else {
			buf_add(out, text, len);
		}
	}
}

void
picture_num(struct buf *out, double v)
{
	char text[40];
	int n = snprintf(text, sizeof text, "%.2f", v);

	while (text[n - 1] == '0') {
		n--;
	}
	n -= text[n - 1] == '.';
	if (n == 2 && strncmp(text, "-0", 2) == 0) {
		buf_putc(out, '0');
		return;
	}
	buf_add(out, text, (size_t)n);
}

const char *
picture_figure(struct arena *a, double v, int digits)
{
	int after = digits - 1;
	double t = fabs(v);

	if (!isfinite(v)) {
		return "unknown";
	}
	for (; t >= 10 && after > 0; t /= 10) {
		after--;
	}
	return fabs(v) >= 1e9 || (v != 0 && fabs(v) < 1e-4)
		? arena_printf(a, "%.*g", digits, v)
		: arena_printf(a, "%.*f", after, v);
}

static const char *
scaled(struct arena *a, double v, struct scale u, const char *after)
{
	return arena_printf(a, "%s %s%s", picture_figure(a, v / u.size, 3),
			    u.name, after);
}

const char *
picture_bytes(struct arena *a, double bytes)
{
	return fabs(bytes) < 1024 ? arena_printf(a, "%.0f B", bytes)
				  : scaled(a, bytes, unit_bytes(bytes), "");
}

const char *
picture_flops_s(struct arena *a, double flops_s)
{
	return scaled(a, flops_s, unit_flops(flops_s), "/s");
}

const char *
picture_bytes_s(struct arena *a, double bytes_s)
{
	return scaled(a, bytes_s, unit_decimal_bytes(bytes_s), "/s");
}

const char *
picture_ms(struct arena *a, double us)
{
	return arena_printf(a, "%s ms", picture_figure(a, us / 1e3, 5));
}

/* ---- axes ---- */

static double
part_of(const struct picture_axis *x, double v)
{
	if (x->log) {
		return log10(v / x->lo) / log10(x->hi / x->lo);
	}
	return (v - x->lo) / (x->hi - x->lo);
}

double
picture_x(const struct picture_plot *p, double v)
{
	return PICTURE_WIDTH * part_of(&p->x, v);
}

double
picture_y(const struct picture_plot *p, double v)
{
	return p->height * (1 - part_of(&p->y, v));
}

/* 1, 2 or 5 times a power of ten, of which a span has about six. */
static double
nice_step(double span)
{
	double p = 1;

	while (p * 10 <= span / 6) {
		p *= 10;
	}
	while (p > span / 6) {
		p /= 10;
	}
	span /= 6 * p;
	return p * (span < 1.5 ? 1 : span < 3.5 ? 2 : span < 7.5 ? 5 : 10);
}

/* The first tick, and by how much, or by which factor, the next is more. */
static double
first_tick(const struct picture_axis *x, double *step)
{
	double v = 1;

	if (!x->log) {
		*step = nice_step(x->hi - x->lo);
		/* from 0, not from -0 */
		return ceil(x->lo / *step - 1e-9) * *step + 0.0;
	}
	*step = 10;
	while (v < x->lo * (1 - 1e-9)) {
		v *= 10;
	}
	while (v / 10 >= x->lo * (1 - 1e-9)) {
		v /= 10;
	}
	return v;
}

static void
add_ticks(struct buf *out, const struct picture_axis *x, bool across)
{
	double step, v = first_tick(x, &step), part;

	for (; v <= x->hi * (1 + 1e-9); v = x->log ? v * step : v + step) {
		part = part_of(x, v);
		buf_printf(out, "<span%s style=\"%s:",
			   !across ? "" : part < 0.02 ? " class=\"a\"" :
			   part > 0.98 ? " class=\"z\"" : "",
			   across ? "left" : "top");
		picture_num(out, 100 * (across ? part : 1 - part));
		buf_puts(out, "%\">");
		picture_text(out, arena_printf(out->arena, "%g", v));
		buf_puts(out, "</span>");
	}
}

static void
add_grid(struct buf *out, const struct picture_plot *p)
{
	double step, v = first_tick(&p->y, &step), y;

	buf_puts(out, "<path class=\"grid\" d=\"");
	for (; v <= p->y.hi * (1 + 1e-9);
	     v = p->y.log ? v * step : v + step) {
		y = picture_y(p, v);
		picture_point(out, true, 0, y);
		picture_point(out, false, PICTURE_WIDTH, y);
	}
	buf_puts(out, "\"/>\n");
}

/* ---- plots ---- */

static void
add_rows(struct buf *out, const struct picture_plot *p)
{
	uint32_t i;

	for (i = 0; i < p->nrows; i++) {
		buf_puts(out, "<span style=\"top:");
		picture_num(out, 100 * (i + 0.5) / p->nrows);
		buf_puts(out, "%\">");
		picture_text(out, p->rows[i]);
		buf_puts(out, "</span>");
	}
}

void
picture_open_plot(struct buf *out, const struct picture_plot *p)
{
	if (p->y.name) {
		buf_puts(out, "<p class=\"name\">");
		picture_text(out, p->y.name);
		buf_puts(out, "</p>\n");
	}
	buf_printf(out, "<div class=\"plot%s\" style=\"--h:%dpx\">"
		   "<div class=\"ys\">", p->zooms ? " zooms" : "", p->height);
	if (p->rows) {
		add_rows(out, p);
	} else {
		add_ticks(out, &p->y, false);
	}
	buf_printf(out, "</div>\n<div class=\"pan\"><div class=\"wide\">"
		   "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
		   "role=\"group\" aria-label=\"", PICTURE_WIDTH, p->height);
	picture_text(out, p->label);
	buf_printf(out, "\" data-lo=\"%.9g\" data-hi=\"%.9g\"%s>\n", p->x.lo,
		   p->x.hi, p->data ? p->data : "");
	if (!p->rows) {
		add_grid(out, p);
	}
}

void
picture_close_plot(struct buf *out, const struct picture_plot *p)
{
	buf_puts(out, "</svg><div class=\"xs\">");
	add_ticks(out, &p->x, true);
	buf_puts(out, "</div></div></div><p class=\"name\">");
	picture_text(out, p->x.name);
	buf_puts(out, "</p></div>\n");
}

/* ---- items ---- */

void
picture_point(struct buf *out, bool first, double x, double y)
{
	buf_putc(out, first ? 'M' : 'L');
	picture_num(out, x);
	buf_putc(out, ' ');
	picture_num(out, y);
}

void
picture_open_item(struct buf *out, const char *element, const char *classes)
{
	buf_printf(out, "<%s class=\"%s i\"", element, classes);
}

void
picture_title(struct buf *out, const char *text)
{
	buf_puts(out, "><title>");
	picture_text(out, text);
	buf_puts(out, "</title>");
}

void
picture_close_item(struct buf *out, const char *element)
{
	buf_printf(out, "</%s>\n", element);
}

void
picture_dot(struct buf *out, const char *classes, double x, double y,
	    double width, const char *title)
{
	picture_open_item(out, "path", arena_printf(out->arena, "dot %s",
						    classes));
	buf_puts(out, " stroke-width=\"");
	picture_num(out, width);
	buf_puts(out, "\" d=\"");
	picture_point(out, true, x, y);
	buf_puts(out, "h0\"");
	picture_title(out, title);
	picture_close_item(out, "path");
}

void
picture_limit(struct buf *out, const double from[2], const double to[2],
	      const char *title)
{
	picture_open_item(out, "path", "limit");
	buf_puts(out, " d=\"");
	picture_point(out, true, from[0], from[1]);
	picture_point(out, false, to[0], to[1]);
	buf_putc(out, '"');
	picture_title(out, title);
	picture_close_item(out, "path");
}

void
picture_rect(struct buf *out, const char *classes, const double at[4],
	     const char *title)
{
	static const char *const names[] = { "x", "y", "width", "height" };
	int i;

	picture_open_item(out, "rect", classes);
	for (i = 0; i < 4; i++) {
		buf_printf(out, " %s=\"", names[i]);
		picture_num(out, at[i]);
		buf_putc(out, '"');
	}
	picture_title(out, title);
	picture_close_item(out, "rect");
}

/* ---- figures and tables ---- */

void
picture_open_figure(struct buf *out, const char *id)
{
	buf_printf(out, "<figure id=\"%s\">\n", id);
}

void
picture_close_figure(struct buf *out)
{
	buf_puts(out, "<output aria-live=\"polite\"></output></figure>\n");
}

void
picture_chip(struct buf *out, const char *classes, bool strokes)
{
	buf_printf(out, "<svg class=\"chip\" viewBox=\"0 0 20 14\" "
		   "aria-hidden=\"true\">%s class=\"%s\"/></svg>", strokes
		   ? "<line x1=\"0\" y1=\"7\" x2=\"20\" y2=\"7\""
		   : "<rect width=\"20\" height=\"14\"", classes);
}

void
picture_key(struct buf *out, const char *classes, const char *what)
{
	buf_puts(out, "<li>");
	picture_chip(out, classes, true);
	picture_text(out, what);
	buf_puts(out, "</li>");
}

void
picture_open_table(struct buf *out, const char *what, bool hidden,
		   const char *const *heads, uint32_t n)
{
	uint32_t i;

	if (hidden) {
		buf_puts(out, "<details><summary>");
		picture_text(out, what);
		buf_puts(out, "</summary>");
	}
	buf_puts(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
		 "aria-label=\"");
	picture_text(out, what);
	buf_puts(out, "\"><table><thead><tr>");
	for (i = 0; i < n; i++) {
		buf_puts(out, "<th scope=\"col\">");
		picture_text(out, heads[i]);
		buf_puts(out, "</th>");
	}
	buf_puts(out, "</tr></thead><tbody>\n");
}

void
picture_cell(struct buf *out, const char *text)
{
	buf_puts(out, "<td>");
	picture_text(out, text);
	buf_puts(out, "</td>");
}

static void
add_part(struct buf *out, const char *classes, double x, double width)
{
	buf_printf(out, "<rect class=\"%s\" x=\"", classes);
	picture_num(out, 100 * x);
	buf_puts(out, "\" width=\"");
	picture_num(out, 100 * width);
	buf_puts(out, "\" height=\"10\"/>");
}

void
picture_bar(struct buf *out, double part, double more)
{
	buf_puts(out, "<td class=\"bar\"><svg viewBox=\"0 0 100 10\" "
		 "preserveAspectRatio=\"none\" aria-hidden=\"true\">");
	add_part(out, "k1", 0, part);
	add_part(out, "k13", part, more);
	buf_puts(out, "</svg></td>");
}

void
picture_close_table(struct buf *out, bool hidden)
{
	buf_printf(out, "</tbody></table></div>%s\n",
		   hidden ? "</details>" : "");
}

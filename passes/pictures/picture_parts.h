/*
 * Private header of the pictures: what they are drawn from, and how they are
 * written.  Text is HTML and marks are SVG, which a plot stretches to the
 * width of the page.  An item (class `i`) has a title, which page.js shows
 * for the pointer and for the keyboard alike.
 */
#ifndef PASSES_PICTURE_PARTS_H
#define PASSES_PICTURE_PARTS_H

#include "passes/pictures/pictures.h"

/* Of the files page.css, page.js and kinds.css. */
extern const char picture_page_css[], picture_page_js[], picture_kinds_css[];

/* What several pictures are drawn from. */
struct picture_facts {
	const struct picture_input *in;
	struct arena *a;
	struct sched_timeline line;
	struct answer_kernels kernels;
};

/* ---- the pictures, each in the file of its name ------------------------- */

void picture_timeline(const struct picture_facts *f, struct buf *out);
void picture_memory(const struct picture_facts *f, struct buf *out);
void picture_time(const struct picture_facts *f, struct buf *out);
void picture_roofline(const struct picture_facts *f, struct buf *out);
void picture_comm(const struct picture_facts *f, struct buf *out);
void picture_plans(const struct picture_facts *f, struct buf *out);
void picture_mesh(const struct picture_facts *f, struct buf *out);

/* ---- picture_html.c ----------------------------------------------------- */

#define PICTURE_WIDTH 1000	/* of every plot, in its own units */

/* Any text of a user, for elements and attributes alike. */
void picture_text(struct buf *out, const char *text);
/* A coordinate, with two decimals at most. */
void picture_num(struct buf *out, double v);
/* A number with so many significant digits, as people write it. */
const char *picture_figure(struct arena *a, double v, int digits);
/* "12.3 GiB", "989 TFLOP/s", "3.35 TB/s" */
const char *picture_bytes(struct arena *a, double bytes);
const char *picture_flops_s(struct arena *a, double flops_s);
const char *picture_bytes_s(struct arena *a, double bytes_s);
/* "43905.110 ms" */
const char *picture_ms(struct arena *a, double us);

struct picture_axis {
	const char *name;
	double lo, hi;
	bool log;		/* of powers of ten; lo > 0 */
};

struct picture_plot {
	const char *label;	/* for those who see no picture */
	int height;
	struct picture_axis x, y;
	/* instead of ticks of y: names of rows, from the top */
	const char *const *rows;
	uint32_t nrows;
	bool zooms;
	const char *data;	/* attributes of the SVG, or NULL */
};

void picture_open_plot(struct buf *out, const struct picture_plot *p);
void picture_close_plot(struct buf *out, const struct picture_plot *p);
/* Where a value lies in the plot. */
double picture_x(const struct picture_plot *p, double v);
double picture_y(const struct picture_plot *p, double v);

/* "M1 2 3 4" and so on, through n points; moves the first of them. */
void picture_point(struct buf *out, bool first, double x, double y);
/* The element up to its title's text, and from its end. */
void picture_open_item(struct buf *out, const char *element,
		       const char *classes);
void picture_title(struct buf *out, const char *text);
void picture_close_item(struct buf *out, const char *element);
/* A round dot at that place of the plot, so many pixels wide. */
void picture_dot(struct buf *out, const char *classes, double x, double y,
		 double width, const char *title);
void picture_rect(struct buf *out, const char *classes, const double at[4],
		  const char *title);

void picture_open_figure(struct buf *out, const char *id);
/* With the place where the texts of items appear. */
void picture_close_figure(struct buf *out);
/* A color in a line of text: a square, or a stroke. */
void picture_chip(struct buf *out, const char *classes, bool strokes);
/* A line of a list: the color of a kind of action, and what it is. */
void picture_key(struct buf *out, const char *classes, const char *what);
/* A dashed straight line. */
void picture_limit(struct buf *out, const double from[2], const double to[2],
		   const char *title);

/* A table that is hidden until it is asked for, with these headings. */
void picture_open_table(struct buf *out, const char *what, bool hidden,
			const char *const *heads, uint32_t n);
void picture_cell(struct buf *out, const char *text);
/* A bar of two parts of a whole, each 0 .. 1. */
void picture_bar(struct buf *out, double part, double more);
void picture_close_table(struct buf *out, bool hidden);

#endif

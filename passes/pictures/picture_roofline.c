/*
 * The kernels of the busiest rank by their flops for each byte of memory, and
 * by the flops/s that they reach; above them the roofs of the device, one for
 * each rate that it multiplies at (Williams et al., 2009).  A kernel that only
 * moves bytes is drawn at the left edge, as far below the roof as its bytes
 * are below the memory's rate.
 */
#include "passes/pictures/picture_parts.h"

#include <math.h>

#define MOST_LINES 200		/* of the table */
#define TERA 1e12
#define EDGE 1.3	/* of the axes: before the first dots by this factor */

struct roofline {
	const struct picture_facts *f;
	const struct target_device *d;
	struct picture_plot plot;
	double least_x, least_y;	/* of dots: a little inside the edges */
};

static bool
is_drawn(const struct answer_kernel *k)
{
	return k->kind != KERNEL_COLLECTIVE && k->us > 0 && k->bytes > 0;
}

static double
each_us(const struct answer_kernel *k)
{
	return k->us / k->count;
}

/* Flops for each byte; at the edge, if it has none. */
static double
intensity(const struct roofline *r, const struct answer_kernel *k)
{
	return fmax(k->flops / k->bytes, r->least_x);
}

static double
reached(const struct roofline *r, const struct answer_kernel *k)
{
	return intensity(r, k) * k->bytes / each_us(k) * 1e6;
}

static double
top_rate(const struct target_device *d)
{
	double most = 0;
	int i;

	for (i = 0; i < TARGET_NRATES; i++) {
		most = fmax(most, d->flops_us[i] * 1e6);
	}
	return most;
}

static void
set_axes(struct roofline *r)
{
	const struct answer_kernels *all = &r->f->kernels;
	double top = top_rate(r->d), ridge = top / r->d->memory_bytes_us / 1e6;
	double lo = 1, hi = ridge, low = top;
	uint32_t i;

	for (i = 0; i < all->at.n; i++) {
		const struct answer_kernel *k = &all->at.at[i];

		if (is_drawn(k) && k->flops > 0) {
			lo = fmin(lo, k->flops / k->bytes);
			hi = fmax(hi, k->flops / k->bytes);
		}
	}
	r->least_x = pow(10, floor(log10(fmax(lo, 1e-3))));
	r->plot.x.lo = r->least_x / EDGE;
	r->plot.x.hi = pow(10, ceil(log10(hi * 1.5)));
	for (i = 0; i < all->at.n; i++) {
		if (is_drawn(&all->at.at[i])) {
			low = fmin(low, reached(r, &all->at.at[i]));
		}
	}
	r->plot.y.hi = pow(10, ceil(log10(top * 1.05 / TERA)));
	r->least_y = pow(10, floor(log10(fmax(low, top / 1e7) / TERA)));
	r->plot.y.lo = r->least_y / EDGE;
}

static double
y_of(const struct roofline *r, double flops_s)
{
	return picture_y(&r->plot, fmin(fmax(flops_s / TERA, r->least_y),
					r->plot.y.hi));
}

/* Names of all rates that are the same: "bf16, fp16". */
static const char *
names_of(const struct target_device *d, int rate, struct arena *a)
{
	const char *text = target_rate_names[rate];
	int i;

	for (i = rate + 1; i < TARGET_NRATES; i++) {
		if (d->flops_us[i] == d->flops_us[rate]) {
			text = arena_printf(a, "%s, %s", text,
					    target_rate_names[i]);
		}
	}
	return text;
}

static bool
is_first(const struct target_device *d, int rate)
{
	int i;

	for (i = 0; i < rate && d->flops_us[i] != d->flops_us[rate]; i++) {
	}
	return i == rate && d->flops_us[rate] > 0;
}

static void
add_roof(const struct roofline *r, int rate, struct buf *out)
{
	double bytes = r->d->memory_bytes_us * 1e6;
	double flops = r->d->flops_us[rate] * 1e6, lo = r->plot.x.lo;

	picture_open_item(out, "path", "limit");
	buf_puts(out, " d=\"");
	lo = fmax(lo, r->least_y * TERA / bytes);
	picture_point(out, true, picture_x(&r->plot, lo),
		      y_of(r, fmin(bytes * lo, flops)));
	if (flops / bytes > lo) {
		picture_point(out, false, picture_x(&r->plot, flops / bytes),
			      y_of(r, flops));
	}
	picture_point(out, false, PICTURE_WIDTH, y_of(r, flops));
	buf_putc(out, '"');
	picture_title(out, arena_printf(r->f->a, "the roof of %s: %s, and %s "
		"of memory", names_of(r->d, rate, r->f->a),
		picture_flops_s(r->f->a, flops),
		picture_bytes_s(r->f->a, bytes)));
	picture_close_item(out, "path");
}

static const char *
rate_text(const struct roofline *r, const struct answer_kernel *k)
{
	return k->flops > 0
		? picture_flops_s(r->f->a, k->flops / each_us(k) * 1e6)
		: picture_bytes_s(r->f->a, k->bytes / each_us(k) * 1e6);
}

static void
add_kernel(const struct roofline *r, const struct answer_kernel *k,
	   struct buf *out)
{
	struct arena *a = r->f->a;
	double part = k->us / r->f->in->price->step_us;

	picture_dot(out, "open", picture_x(&r->plot, intensity(r, k)),
		    y_of(r, reached(r, k)), 5 + 22 * sqrt(fmin(part, 1)),
		    arena_printf(a, "%s: %.0f in a step, %s each, %.2f%% of "
		    "the step, %s, %s flops for each byte",
		    kernel_squeezed(k->what, a), k->count,
		    picture_ms(a, each_us(k)), 100 * part,
		    rate_text(r, k), picture_figure(a, k->flops / k->bytes,
						    3)));
}

static void
add_table(const struct roofline *r, struct buf *out)
{
	static const char *const heads[] = {
		"kernel", "of the step", "count", "each", "reached",
		"flops for a byte"
	};
	const struct answer_kernels *all = &r->f->kernels;
	struct arena *a = r->f->a;
	uint32_t i, n = 0;

	picture_open_table(out, "the kernels as a table", true, heads, 6);
	for (i = 0; i < all->at.n && n < MOST_LINES; i++) {
		const struct answer_kernel *k = &all->at.at[i];

		if (!is_drawn(k)) {
			continue;
		}
		n++;
		buf_puts(out, "<tr>");
		picture_cell(out, kernel_squeezed(k->what, a));
		picture_cell(out, arena_printf(a, "%.2f%%", 100 * k->us /
					       r->f->in->price->step_us));
		picture_cell(out, arena_printf(a, "%.0f", k->count));
		picture_cell(out, picture_ms(a, each_us(k)));
		picture_cell(out, rate_text(r, k));
		picture_cell(out, picture_figure(a, k->flops / k->bytes, 3));
		buf_puts(out, "</tr>\n");
	}
	picture_close_table(out, true);
}

void
picture_roofline(const struct picture_facts *f, struct buf *out)
{
	struct roofline r = {
		.f = f, .d = &target_devs_of(f->in->devs,
					     f->kernels.rank)->device,
		.plot = {
			.label = "kernels by flops for each byte and flops "
				 "a second",
			.height = 360,
			.x = { .name = "flops for each byte of memory",
			       .log = true },
			.y = { .name = "TFLOP/s", .log = true }
		}
	};
	uint32_t i;
	int rate;

	set_axes(&r);
	buf_puts(out, "<ul class=\"key\"><li>dashed: roofs of ");
	picture_text(out, r.d->name);
	buf_puts(out, ", memory ");
	picture_text(out, picture_bytes_s(f->a, r.d->memory_bytes_us * 1e6));
	for (rate = 0; rate < TARGET_NRATES; rate++) {
		if (is_first(r.d, rate)) {
			buf_printf(out, "; %s %s", names_of(r.d, rate, f->a),
				   picture_flops_s(f->a, r.d->flops_us[rate] *
						   1e6));
		}
	}
	buf_puts(out, "</li></ul>\n");
	picture_open_plot(out, &r.plot);
	for (rate = 0; rate < TARGET_NRATES; rate++) {
		if (is_first(r.d, rate)) {
			add_roof(&r, rate, out);
		}
	}
	for (i = 0; i < f->kernels.at.n; i++) {
		if (is_drawn(&f->kernels.at.at[i])) {
			add_kernel(&r, &f->kernels.at.at[i], out);
		}
	}
	picture_close_plot(out, &r.plot);
	add_table(&r, out);
}

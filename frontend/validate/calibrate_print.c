/*
 * The output of llmc calibrate: the points, and the target file, in which a
 * comment before each number states what was measured for it.
 */
#include "frontend/validate/calibrate.h"

#include <string.h>

static const char *const units[CAL_GROUPS] = {
	"TFLOP/s", "GB/s", "TFLOP/s", "GB/s", "GB/s", "", "GB/s"
};

/* Replaces what a target file cannot hold in strings or comments. */
static const char *
printable(struct buf *out, const char *s)
{
	char *t = arena_strndup(out->arena, s, strlen(s)), *p;

	for (p = t; *p; p++) {
		if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\') {
			*p = ' ';
		}
	}
	while (p > t && p[-1] == ' ') {
		*--p = '\0';
	}
	return t;
}

static double
rate_of(const struct cal_point *p)
{
	bool flops = p->group == CAL_MATMUL || p->group == CAL_ATTEND;

	return p->work / p->s.low_us / (flops ? 1e6 : 1e3);
}

static double
relative_spread(const struct rt_sample *s)
{
	return s->median_us > 0 ? (s->high_us - s->low_us) / s->median_us : 0;
}

/* "!": disturbed, by wall time; "~": disturbed, by CPU time. */
static const char *
mark(const struct rt_sample *s)
{
	return !s->disturbed ? "" : s->by_cpu ? " ~" : " !";
}

static uint32_t
count_disturbed(const struct cal *c)
{
	uint32_t i, n = 0;

	for (i = 0; i < c->points.n; i++) {
		n += c->points.at[i].s.disturbed;
	}
	return n;
}

/* ---- the table ---- */

static void
print_point(const struct cal_point *p, struct buf *out)
{
	const struct rt_sample *s = &p->s;

	buf_printf(out, "  %-30s %3d/%-3d %11.2f %11.2f %6.1f%%", p->what,
		   s->kept, s->reps, s->low_us, s->median_us,
		   100 * relative_spread(s));
	if (*units[p->group]) {
		buf_printf(out, " %9.4g %11.2f %+7.1f%%", rate_of(p),
			   p->predicted_us,
			   100 * (p->predicted_us / s->low_us - 1));
	}
	buf_printf(out, "%s\n", mark(s));
}

static void
print_group(const struct cal *c, enum cal_group g, struct buf *out)
{
	const struct cal_error *e = &c->errors[g];
	uint32_t i;

	if (e->n == 0) {
		return;
	}
	buf_printf(out, "\n%-32s %7s %11s %11s %7s", cal_group_names[g],
		   "kept", "us", "median us", "spread");
	if (*units[g]) {
		buf_printf(out, " %9s %11s %8s", units[g], "formula us",
			   "error");
	}
	buf_putc(out, '\n');
	for (i = 0; i < c->points.n; i++) {
		if (c->points.at[i].group == g) {
			print_point(&c->points.at[i], out);
		}
	}
	if (*units[g]) {
		buf_printf(out, "  %u points, error: median %.1f%%, worst "
			   "%.1f%%\n", e->n, 100 * e->median, 100 * e->worst);
	}
}

static void
print_facts(const struct cal *c, struct buf *out)
{
	const struct rt_facts *f = &c->meter.facts;
	int r;

	buf_printf(out, "%s: %lld units at %.2f GHz, %.1f GB\n",
		   printable(out, f->name),
		   (long long)f->units, f->clock_mhz / 1e3,
		   f->memory_bytes / 1e9);
	for (r = 0; r < RT_RATES; r++) {
		if (*f->code[r]) {
			buf_printf(out, "%s by %s\n",
				target_rate_names[cal_rate((enum rt_rate)r)],
				f->code[r]);
		}
	}
	if (f->no_attention) {
		buf_printf(out, "attention is not measured: %s\n",
			   f->no_attention);
	}
	if (f->no_comm) {
		buf_printf(out, "links are not measured: %s\n", f->no_comm);
	}
}

void
cal_print_points(const struct cal *c, struct buf *out)
{
	uint32_t n = count_disturbed(c);
	int g;

	print_facts(c, out);
	for (g = 0; g < CAL_GROUPS; g++) {
		print_group(c, (enum cal_group)g, out);
	}
	if (n > 0) {
		buf_printf(out, "\n%u of %u points were disturbed: their "
			   "threads had to wait for their cores. They are\n"
			   "marked `~` if they are CPU time of the busiest "
			   "thread, `!` if they are the shortest wall time.\n",
			   n, c->points.n);
	}
}

/* ---- JSON ---- */

static void
json_text(struct buf *out, const char *key, const char *text)
{
	buf_printf(out, "\"%s\": ", key);
	buf_json(out, text, strlen(text));
}

static void
json_point(const struct cal_point *p, struct buf *out)
{
	const struct rt_sample *s = &p->s;

	buf_printf(out, "    {\"group\": \"%s\", ", cal_group_names[p->group]);
	json_text(out, "shape", p->what);
	buf_printf(out, ", \"us\": %.9g, \"best_us\": %.9g, \"median_us\": "
		   "%.9g, \"high_us\": %.9g, \"repetitions\": %d, \"kept\": "
		   "%d, \"runs\": %d, \"cpu_share\": %.3f, \"disturbed\": %s, "
		   "\"cpu_time\": %s, \"work\": %.9g, \"formula_us\": %.9g}",
		   s->low_us, s->best_us, s->median_us, s->high_us, s->reps,
		   s->kept, s->runs, s->share,
		   s->disturbed ? "true" : "false",
		   s->by_cpu ? "true" : "false", p->work, p->predicted_us);
}

void
cal_print_json(const struct cal *c, struct buf *out)
{
	uint32_t i;
	int g;

	buf_puts(out, "{\n  ");
	json_text(out, "device", c->meter.facts.name);
	buf_puts(out, ",\n  \"points\": [\n");
	for (i = 0; i < c->points.n; i++) {
		json_point(&c->points.at[i], out);
		buf_puts(out, i + 1 < c->points.n ? ",\n" : "\n");
	}
	buf_puts(out, "  ],\n  \"fit\": {");
	for (g = 0; g < CAL_GROUPS; g++) {
		buf_printf(out, "%s\n    \"%s\": {\"points\": %u, \"median\": "
			   "%.6f, \"worst\": %.6f}", g ? "," : "",
			   cal_group_names[g], c->errors[g].n,
			   c->errors[g].median, c->errors[g].worst);
	}
	buf_puts(out, "\n  }\n}\n");
}

/* ---- the target ---- */

static void
print_number(struct buf *out, const char *key, double v)
{
	buf_printf(out, "  %s = %.4g;\n", key, v);
}

static void
print_text(struct buf *out, const char *key, const char *s)
{
	if (*s) {
		buf_printf(out, "  %s = \"%s\";\n", key, printable(out, s));
	}
}

/* A comment on how a point was measured. */
static void
print_origin(struct buf *out, const struct cal_point *p)
{
	const struct rt_sample *s = &p->s;

	buf_printf(out, "  # %s: %.5g us, median %.5g, spread %.1f%%,\n"
		   "  # %d repetitions of %d runs, %d kept%s.\n", p->what,
		   s->low_us, s->median_us, 100 * relative_spread(s), s->reps,
		   s->runs, s->kept, !s->disturbed ? "" : s->by_cpu ?
		   "; disturbed, by cpu time" : "; disturbed");
}

/* The point of a group with the largest rate; never NULL. */
static const struct cal_point *
best_of(const struct cal *c, enum cal_group g, enum target_rate rate)
{
	const struct cal_point *best = NULL;
	uint32_t i;

	for (i = 0; i < c->points.n; i++) {
		const struct cal_point *p = &c->points.at[i];

		if (p->group == g &&
		    (g != CAL_MATMUL || p->matmul.rate == rate) &&
		    (!best || rate_of(p) > rate_of(best))) {
			best = p;
		}
	}
	return best ? best : &c->points.at[0];
}

static void
print_fit_error(const struct cal *c, enum cal_group g, struct buf *out)
{
	const struct cal_error *e = &c->errors[g];

	if (e->n == 0) {
		buf_printf(out, "  # Not measured: the constants of "
			   "a100-sxm.\n");
		return;
	}
	buf_printf(out, "  # Fitted to %u points of %s: error median %.1f%%, "
		   "worst %.1f%%.\n", e->n, cal_group_names[g],
		   100 * e->median, 100 * e->worst);
}

static void
print_rates(const struct cal *c, struct buf *out)
{
	const struct target_device *d = &c->fitted.device;
	const struct rt_facts *f = &c->meter.facts;
	int r;

	buf_puts(out, "  # Rates are the best of all shapes, launches taken "
		 "off, or what the formulas\n  # fit best with, if that is "
		 "more.\n");
	for (r = 0; r < RT_RATES; r++) {
		enum target_rate rate = cal_rate((enum rt_rate)r);

		if (*f->code[r]) {
			buf_printf(out, "  # By %s:\n", printable(out,
								  f->code[r]));
			print_origin(out, best_of(c, CAL_MATMUL, rate));
			print_number(out, target_rate_names[rate],
				     d->flops_us[rate] / 1e6);
		}
	}
	buf_puts(out, "  # What the system lets this process use.\n");
	print_number(out, "memory", d->memory_bytes / 1e9);
	buf_puts(out, "  # The best of reading, writing, copies and triads:\n");
	print_origin(out, best_of(c, CAL_STREAM, TARGET_FP32));
	print_number(out, "bandwidth", d->memory_bytes_us / 1e6);
	if (c->errors[CAL_READ].n > 0) {
		buf_puts(out, "  # Few rows times weights that lie in "
			 "memory, stored as models store them:\n");
		print_origin(out, best_of(c, CAL_READ, TARGET_BF16));
		print_fit_error(c, CAL_READ, out);
		print_number(out, "read_bandwidth", d->read_bytes_us / 1e6);
		print_number(out, "read_shown", d->read_shown);
		print_number(out, "widen_rows", d->widen_rows);
		print_number(out, "widen_int4_rows", d->widen_int4_rows);
	}
	if (c->errors[CAL_KEYS].n > 0) {
		buf_puts(out, "  # Sequences that decode, with keys of a "
			 "cache that lie in memory:\n");
		print_origin(out, best_of(c, CAL_KEYS, TARGET_BF16));
		print_fit_error(c, CAL_KEYS, out);
		print_number(out, "keys_eff", d->keys_eff);
		print_number(out, "keys_shown", d->keys_shown);
	}
	buf_printf(out, "  units = %lld;\n", (long long)d->units);
	print_number(out, "clock", d->clock_mhz / 1e3);
}

static void
print_link(const struct cal *c, struct buf *out)
{
	const struct rt_facts *f = &c->meter.facts;

	if (c->errors[CAL_COMM].n > 0) {
		print_text(out, "link", f->link);
		buf_puts(out, "  # The best that one rank got, one direction, "
			 "twice.\n");
		print_number(out, "link_bandwidth", 2 *
			     c->fitted.device.link_bytes_us / 1e3);
	}
	buf_printf(out, "  node_devices = %d;\n", f->ranks > 1 ? f->ranks : 1);
}

/* Constants that were measured: those whose group has points, and `launch`. */
static uint32_t
measured(const struct cal *c)
{
	static const struct {
		enum cal_group group;
		uint32_t constants;
	} of[] = {
		{ CAL_MATMUL, 1u << TARGET_MATRIX_EFF |
			      1u << TARGET_MATRIX_FILL |
			      1u << TARGET_MATRIX_FEED },
		{ CAL_STREAM, 1u << TARGET_MEMORY_EFF },
		{ CAL_ATTEND, 1u << TARGET_ATTENTION_EFF |
			      1u << TARGET_ATTENTION_FILL },
		{ CAL_COMM, 1u << TARGET_LINK_EFF | 1u << TARGET_LINK_START |
			    1u << TARGET_LINK_HOP }
	};
	uint32_t all = 1u << TARGET_LAUNCH;
	size_t i;

	for (i = 0; i < sizeof of / sizeof *of; i++) {
		all |= c->errors[of[i].group].n > 0 ? of[i].constants : 0;
	}
	return all;
}

/* The keys of a target that say so; `measured`: bit `1 << id` of each. */
static void
print_origins(uint32_t measured, struct buf *out)
{
	struct target_device d = { 0 };
	int i;

	for (i = 0; i < TARGET_NCONSTANTS; i++) {
		d.origin[i] = measured >> i & 1 ? TARGET_MEASURED
						: TARGET_BORROWED;
	}
	print_text(out, "measured", target_origin_text(&d, TARGET_MEASURED,
						       out->arena));
	if (measured != (1u << TARGET_NCONSTANTS) - 1) {
		print_text(out, "borrowed", target_origin_text(&d,
				TARGET_BORROWED, out->arena));
		print_text(out, "lender", "a100-sxm");
	}
}

static void
print_constants(const struct cal *c, struct buf *out)
{
	const struct target_device *d = &c->fitted.device;

	print_fit_error(c, CAL_MATMUL, out);
	print_number(out, "matrix_eff", d->matrix_eff);
	print_number(out, "matrix_fill", d->matrix_fill);
	print_number(out, "matrix_feed", d->matrix_feed);
	buf_printf(out, "  # %s:\n", c->meter.facts.launch);
	print_origin(out, best_of(c, CAL_LAUNCH, TARGET_FP32));
	print_number(out, "launch", d->launch_us);
	print_fit_error(c, CAL_STREAM, out);
	buf_puts(out, "  # Contractions of at most 16 rows count too.\n");
	print_number(out, "memory_eff", d->memory_eff);
	print_fit_error(c, CAL_ATTEND, out);
	print_number(out, "attention_eff", d->attention_eff);
	print_number(out, "attention_fill", d->attention_fill);
	print_fit_error(c, CAL_COMM, out);
	print_number(out, "link_eff", d->link_eff);
	print_number(out, "link_start", d->link_start_us);
	print_number(out, "link_hop", d->link_hop_us);
	buf_puts(out, "  # Of the constants above.\n");
	print_origins(measured(c), out);
}

void
cal_print_target(const struct cal *c, struct buf *out)
{
	const struct rt_facts *f = &c->meter.facts;
	uint32_t n = count_disturbed(c);

	buf_printf(out, "# Measured by llmc calibrate%s on %s.\n", c->quick
		   ? " --quick" : "", printable(out, f->name));
	if (c->quick) {
		buf_puts(out, "# Small shapes and few repetitions: not to be "
			 "planned with.\n");
	}
	buf_puts(out, "# One device: `devices` and `nodes` make a cluster of "
		 "it.\n");
	if (n > 0) {
		buf_printf(out, "# %u of %u points were disturbed by others "
			   "on the machine.\n", n, c->points.n);
	}
	buf_puts(out, "target measured {\n");
	print_text(out, "vendor", f->vendor);
	print_text(out, "arch", f->arch);
	print_rates(c, out);
	print_link(c, out);
	print_constants(c, out);
	buf_puts(out, "}\n");
}

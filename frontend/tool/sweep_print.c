/*
 * What a sweep found, as a table for a person, and as CSV and JSON for
 * programs.  docs/sweep.md has the columns.
 */
#include "frontend/tool/sweep.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define VERSION 1	/* of the JSON; a field may be added under the same */
#define DIM_COLUMN 6	/* characters, at least */

static const char *const outcomes[] = {
	[SWEEP_FITS] = "fits", [SWEEP_TOO_LARGE] = "too large",
	[SWEEP_REFUSED] = "refused"
};

/* ---- the table ---- */

/* Whether any cell has a run of so many tokens. */
static bool
has_run(const struct sweep *s)
{
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		if (!isnan(sweep_days(s->sorted[i]))) {
			return true;
		}
	}
	return false;
}

/* "GPU-hours", unless a cell is of other devices. */
static const char *
hours_name(const struct sweep *s)
{
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		if (s->sorted[i]->outcome == SWEEP_FITS &&
		    !s->sorted[i]->is_gpu) {
			return "device-hours";
		}
	}
	return "GPU-hours";
}

static int
target_column(const struct sweep *s)
{
	size_t most = strlen("target"), n;
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		n = strlen(s->sorted[i]->cell.target);
		most = n > most ? n : most;
	}
	return (int)most;
}

static int
dim_column(const char *name)
{
	size_t n = strlen(name);

	return n < DIM_COLUMN ? DIM_COLUMN : (int)n;
}

/* A number in a column; one that is not known is a dash. */
static void
add_cell(struct buf *out, int width, const char *fmt, double v)
{
	char text[40];

	if (isnan(v)) {
		snprintf(text, sizeof text, "-");
	} else {
		snprintf(text, sizeof text, fmt, v);
	}
	buf_printf(out, " %*s", width, text);
}

/* A large number, in groups of three digits; small ones with decimals. */
static void
add_grouped(struct buf *out, int width, int decimals, double v)
{
	struct buf b;

	buf_init(&b, out->arena);
	if (isnan(v)) {
		buf_putc(&b, '-');
	} else if (v < 1000) {
		buf_printf(&b, "%.*f", decimals, v);
	} else {
		answer_add_count(&b, v);
	}
	buf_printf(out, " %*s", width, buf_text(&b));
}

/* A dim that each cell sets. */
static const char *
dim_name(const struct sweep *s, uint32_t i)
{
	return s->job[0].row->cell.dims[i].name;
}

static void
print_plan(const struct sweep_row *r, struct buf *out)
{
	bool any = false;
	int i;

	buf_puts(out, "  ");
	for (i = 0; i < PLAN_NAXES; i++) {
		if (r->degree[i] > 1) {
			buf_printf(out, "%s%s=%" PRId64, any ? " " : "",
				   plan_axis_name((enum plan_axis)i),
				   r->degree[i]);
			any = true;
		}
	}
	buf_puts(out, any ? "" : "one rank");
	if (r->used < r->devices) {
		buf_printf(out, ", %" PRId64 " of %" PRId64 " devices",
			   r->used, r->devices);
	}
}

static double
hours_of(const struct sweep_row *r)
{
	return sweep_days(r) * 24 * (double)r->devices;
}

static void
print_row(const struct sweep *s, const struct sweep_row *r, bool run,
	  struct buf *out)
{
	uint32_t i;

	buf_printf(out, "%c %-*s", r->is_on_front ? '*' : ' ',
		   target_column(s), r->cell.target);
	for (i = 0; i < s->ndims; i++) {
		buf_printf(out, " %*" PRId64, dim_column(dim_name(s, i)),
			   r->cell.dims[i].size);
	}
	if (r->outcome != SWEEP_FITS) {
		buf_printf(out, " %s\n", r->outcome == SWEEP_TOO_LARGE
			   ? "does not fit" : "refused");
		return;
	}
	add_cell(out, 12, "%.3f", r->step_us / 1e3);
	add_cell(out, 10, "%.0f", r->tokens_s);
	add_cell(out, 5, "%.1f", 100 * r->mfu);
	if (run) {
		buf_printf(out, " %8s", answer_days_text(out->arena,
							 sweep_days(r)));
		add_grouped(out, 12, 1, hours_of(r));
		add_grouped(out, 12, 2, sweep_usd(r));
	} else {
		add_cell(out, 10, "%.4g", r->usd_mtoken);
	}
	print_plan(r, out);
	buf_putc(out, '\n');
}

void
sweep_print_table(const struct sweep *s, struct buf *out)
{
	bool run = has_run(s);
	uint32_t i;

	buf_printf(out, "  %-*s", target_column(s), "target");
	for (i = 0; i < s->ndims; i++) {
		buf_printf(out, " %*s", dim_column(dim_name(s, i)),
			   dim_name(s, i));
	}
	buf_printf(out, " %12s %10s %5s", "step ms", "tokens/s", "MFU");
	if (run) {
		buf_printf(out, " %8s %12s %12s", "days", hours_name(s),
			   "USD");
	} else {
		buf_printf(out, " %10s", "USD/Mtoken");
	}
	buf_puts(out, "  plan\n");
	for (i = 0; i < s->n; i++) {
		print_row(s, s->sorted[i], run, out);
	}
	buf_puts(out, "* no other cell is both sooner and cheaper\n");
	sweep_print_answers(s, out);
}

/* ---- CSV ---- */

static void
csv_text(struct buf *out, const char *text)
{
	size_t i;

	if (!text[strcspn(text, ",\"\n\r")]) {
		buf_puts(out, text);
		return;
	}
	buf_putc(out, '"');
	for (i = 0; text[i]; i++) {
		if (text[i] == '"') {
			buf_putc(out, '"');
		}
		buf_putc(out, text[i]);
	}
	buf_putc(out, '"');
}

/* The numbers of a row, in the order of their columns. */
#define NUMBERS(N) \
	N("step_us", r->step_us) \
	N("tokens_s", r->tokens_s) \
	N("mfu", r->mfu) \
	N("usd_h", r->usd_h) \
	N("usd_mtoken", r->usd_mtoken) \
	N("tokens", r->tokens > 0 ? r->tokens : NAN) \
	N("days", r->plain.days) \
	N("usd", r->plain.usd) \
	N("device_hours", r->plain.device_hours) \
	N("goodput", r->goodput) \
	N("days_with_failures", r->faulty.days) \
	N("usd_with_failures", r->faulty.usd) \
	N("device_hours_with_failures", r->faulty.device_hours) \
	N("most_tokens", sweep_most_tokens(s, r))

static const char *const number_names[] = {
#define N(name, value) name,
	NUMBERS(N)
#undef N
};

#define NNUMBERS (sizeof number_names / sizeof *number_names)

static void
get_numbers(const struct sweep *s, const struct sweep_row *r,
	    double out[NNUMBERS])
{
	int n = 0;

#define N(name, value) out[n++] = value;
	NUMBERS(N)
#undef N
}

static void
csv_head(const struct sweep *s, struct buf *out)
{
	size_t i;

	buf_puts(out, "target,devices,nodes,used");
	for (i = 0; i < s->ndims; i++) {
		buf_putc(out, ',');
		csv_text(out, dim_name(s, i));
	}
	buf_puts(out, ",outcome,front,answer");
	for (i = 0; i < NNUMBERS; i++) {
		buf_printf(out, ",%s", number_names[i]);
	}
	buf_puts(out, ",left_bytes");
	for (i = 0; i < PLAN_NAXES; i++) {
		buf_printf(out, ",%s", plan_axis_name((enum plan_axis)i));
	}
	buf_puts(out, ",microbatch,interleave,zero,schedule,recompute,offload,"
		 "why\n");
}

/* The columns of a plan, all of them empty if there is none. */
static void
csv_plan(const struct sweep_row *r, struct buf *out)
{
	int i;

	if (r->outcome != SWEEP_FITS) {
		for (i = 0; i < 1 + PLAN_NAXES + 6; i++) {
			buf_putc(out, ',');
		}
		return;
	}
	buf_printf(out, ",%" PRId64, r->left_bytes);
	for (i = 0; i < PLAN_NAXES; i++) {
		buf_printf(out, ",%" PRId64, r->degree[i]);
	}
	buf_printf(out, ",%" PRId64 ",%" PRId64 ",%d,", r->microbatch,
		   r->interleave, r->zero);
	csv_text(out, r->schedule);
	buf_putc(out, ',');
	csv_text(out, r->recompute);
	buf_printf(out, ",%s", plan_offload_text(r->offload));
}

static void
csv_row(const struct sweep *s, const struct sweep_row *r, struct buf *out)
{
	double numbers[NNUMBERS];
	size_t i;

	csv_text(out, r->cell.target);
	buf_printf(out, ",%" PRId64 ",%" PRId64 ",%" PRId64, r->devices,
		   r->nodes, r->used);
	for (i = 0; i < r->cell.ndims; i++) {
		buf_printf(out, ",%" PRId64, r->cell.dims[i].size);
	}
	buf_printf(out, ",%s,%d,%d", outcomes[r->outcome], r->is_on_front,
		   r->is_answer);
	get_numbers(s, r, numbers);
	for (i = 0; i < NNUMBERS; i++) {
		buf_putc(out, ',');
		if (isfinite(numbers[i])) {
			buf_printf(out, "%.9g", numbers[i]);
		}
	}
	csv_plan(r, out);
	buf_putc(out, ',');
	csv_text(out, r->why);
	buf_putc(out, '\n');
}

void
sweep_print_csv(const struct sweep *s, struct buf *out)
{
	uint32_t i;

	csv_head(s, out);
	for (i = 0; i < s->n; i++) {
		csv_row(s, s->sorted[i], out);
	}
}

/* ---- JSON ---- */

static void
json_text(struct buf *out, const char *key, const char *text)
{
	buf_printf(out, ", \"%s\": ", key);
	buf_json(out, text, strlen(text));
}

static void
json_dims(const struct sweep_row *r, struct buf *out)
{
	uint32_t i;

	buf_puts(out, ",\n      \"dims\": {");
	for (i = 0; i < r->cell.ndims; i++) {
		buf_puts(out, i ? ", " : " ");
		buf_json(out, r->cell.dims[i].name,
			 strlen(r->cell.dims[i].name));
		buf_printf(out, ": %" PRId64, r->cell.dims[i].size);
	}
	buf_puts(out, i ? " }" : "}");
}

static void
json_row(const struct sweep *s, const struct sweep_row *r, struct buf *out)
{
	double numbers[NNUMBERS];
	size_t i;

	buf_puts(out, "\n    { \"target\": ");
	buf_json(out, r->cell.target, strlen(r->cell.target));
	json_text(out, "outcome", outcomes[r->outcome]);
	buf_printf(out, ", \"front\": %s, \"answer\": %s",
		   r->is_on_front ? "true" : "false",
		   r->is_answer ? "true" : "false");
	buf_printf(out, ",\n      \"devices\": %" PRId64 ", \"nodes\": %"
		   PRId64 ", \"used\": %" PRId64, r->devices, r->nodes,
		   r->used);
	json_dims(r, out);
	if (r->outcome != SWEEP_FITS) {
		json_text(out, "why", r->why);
		buf_puts(out, " }");
		return;
	}
	get_numbers(s, r, numbers);
	for (i = 0; i < NNUMBERS; i++) {
		buf_printf(out, i % 4 ? ", \"%s\": " : ",\n      \"%s\": ",
			   number_names[i]);
		if (isfinite(numbers[i])) {
			buf_printf(out, "%.9g", numbers[i]);
		} else {
			buf_puts(out, "null");
		}
	}
	buf_printf(out, ",\n      \"left_bytes\": %" PRId64, r->left_bytes);
	json_text(out, "plan", r->plan_text);
	buf_puts(out, " }");
}

void
sweep_print_json(const struct sweep *s, struct buf *out)
{
	uint32_t i;

	buf_printf(out, "{\n  \"version\": %d,\n  \"rows\": [", VERSION);
	for (i = 0; i < s->n; i++) {
		buf_puts(out, i ? "," : "");
		json_row(s, s->sorted[i], out);
	}
	buf_puts(out, "\n  ]\n}\n");
}

/* Prints what the search found, and what became of the space, for a user. */
#include "passes/answer/answer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MOST_CHARS 18		/* of `recompute`; a longer text is cut */

static void
print_plan(const struct search_found *f, uint32_t rank, double best_us,
	   struct scale u, struct buf *out)
{
	const struct plan *p = &f->plan;
	char again[MOST_CHARS + 1];

	if (p->recompute_of) {
		snprintf(again, sizeof again, "by stage ..");
	} else {
		snprintf(again, sizeof again, "%s", p->recompute);
	}
	if (!p->recompute_of && strlen(p->recompute) > MOST_CHARS) {
		memcpy(again + MOST_CHARS - 2, "..", 2);
	}
	buf_printf(out, "%4" PRIu32 " %12.3f %6.2f%% %6.2f", rank,
		   f->step_us / 1e3, 100 * (f->step_us / best_us - 1),
		   (double)f->bytes / u.size);
	buf_printf(out, " %4lld %4lld %3lld %3lld %3lld %3lld",
		   (long long)p->pp, (long long)p->dp, (long long)p->ep,
		   (long long)p->cp, (long long)p->tp,
		   (long long)p->microbatch);
	buf_printf(out, " %4d  %s", p->zero, p->schedule);
	if (p->interleave > 1) {
		buf_printf(out, "*%lld", (long long)p->interleave);
	}
	buf_printf(out, ", %s%s%s\n", again, p->offload ? ", offload " : "",
		   p->offload ? plan_offload_text(p->offload) : "");
}

void
answer_print_plans(const struct search_report *r, struct buf *out)
{
	double most = 0;
	struct scale u;
	uint32_t i;

	for (i = 0; i < r->found.n; i++) {
		most = fmax(most, (double)r->found.at[i].bytes);
	}
	u = unit_bytes(most);
	buf_printf(out, "%4s %12s %7s %6s %4s %4s %3s %3s %3s %3s %4s  %s\n",
		   "rank", "step ms", "over", u.name, "pp", "dp", "ep", "cp",
		   "tp", "mb", "zero", "schedule, recompute, offload");
	for (i = 0; i < r->found.n; i++) {
		print_plan(&r->found.at[i], i + 1, r->found.at[0].step_us, u,
			   out);
	}
	if (i < 2) {
		buf_puts(out, "no other plan of the space fits\n");
	}
}

/* ---- for programs ---- */

/* The keys in which a plan differs from the best, as they are printed. */
static void
add_differences(struct ir_module *m, const struct plan *best,
		const struct plan *p, struct buf *out)
{
	const char *text, *key, *first;
	bool any = false;
	int i;

	for (i = 0; (text = plan_key_text(m, p, i, &key)); i++) {
		text = arena_strndup(out->arena, text, strlen(text));
		first = plan_key_text(m, best, i, &key);
		if (strcmp(text, first) != 0) {
			buf_puts(out, any ? ", " : "");
			buf_json(out, key, strlen(key));
			any = true;
		}
	}
}

static void
print_json(struct ir_module *m, const struct search_report *r, uint32_t i,
	   struct buf *out)
{
	const struct search_found *f = &r->found.at[i];
	struct buf text;
	int x;

	buf_printf(out, "\n    { \"rank\": %" PRIu32 ", \"step_us\": %.9g, "
		   "\"over\": %.9g, \"bytes\": %" PRId64
		   ", \"capacity_bytes\": %" PRId64 ",\n      ", i + 1,
		   f->step_us, f->step_us / r->found.at[0].step_us - 1,
		   f->bytes, f->capacity);
	for (x = 0; x < PLAN_NAXES; x++) {
		buf_printf(out, "\"%s\": %" PRId64 ", ",
			   plan_axis_name((enum plan_axis)x),
			   plan_degree(&f->plan, (enum plan_axis)x));
	}
	buf_printf(out, "\"microbatch\": %" PRId64 ", \"interleave\": %"
		   PRId64 ", \"zero\": %d,\n      \"schedule\": ",
		   f->plan.microbatch, f->plan.interleave, f->plan.zero);
	buf_json(out, f->plan.schedule, strlen(f->plan.schedule));
	buf_puts(out, ", \"differs\": [");
	add_differences(m, &r->found.at[0].plan, &f->plan, out);
	buf_puts(out, "],\n      \"plan\": ");
	buf_init(&text, out->arena);
	plan_print(m, &f->plan, &text);
	buf_json(out, buf_text(&text), text.n);
	buf_puts(out, " }");
}

static void
print_bound(struct buf *out, const char *key, double us)
{
	if (isfinite(us)) {
		buf_printf(out, "  \"%s\": %.9g,\n", key, us);
	} else {
		buf_printf(out, "  \"%s\": null,\n", key);
	}
}

void
answer_print_plans_json(struct ir_module *m, const struct search_report *r,
			struct buf *out)
{
	uint32_t i;

	buf_puts(out, "{\n  \"version\": 1,\n");
	print_bound(out, "bound_us", r->bound_us);
	print_bound(out, "ways_bound_us", r->ways_us);
	print_bound(out, "unmade_bound_us", r->unmade_us);
	buf_puts(out, "  \"plans\": [");
	for (i = 0; i < r->found.n; i++) {
		buf_puts(out, i ? "," : "");
		print_json(m, r, i, out);
	}
	buf_puts(out, "\n  ]\n}\n");
}

/* ---- how it went ---- */

static void
line(struct buf *out, const char *what, double n)
{
	buf_printf(out, "  %-42s %14.0f\n", what, n);
}

/* What the gap says nothing of. */
static void
beside(struct buf *out, const char *what, double us)
{
	if (isfinite(us)) {
		buf_printf(out, "    not in it: %s, none below %.3f ms\n",
			   what, us / 1e3);
	}
}

void
answer_print_search(const struct search_report *r, struct buf *out)
{
	double best = r->found.n ? r->found.at[0].step_us : 0;

	buf_printf(out, "search: pinned: %s\n", *r->pins ? r->pins
							   : "no keys");
	line(out, "plans in the space", r->space);
	if (r->in_order) {
		buf_puts(out, "    of kinds of node in the target's order "
			 "alone\n");
	}
	line(out, "degrees", (double)r->groups);
	line(out, "  not looked at: their bound is above", (double)
	     r->groups_cut);
	line(out, "  too large by their states alone", (double)
	     r->groups_full);
	line(out, "placements made", (double)r->placements);
	line(out, "plans cut before that, by their bounds", (double)r->above);
	if (r->open) {
		line(out, "plans left open: the search ended", (double)r->open);
	}
	line(out, "plans priced, with ZeRO and stages", (double)r->priced);
	line(out, "  cut, their pieces are above", (double)r->cut);
	line(out, "  did not fit", (double)r->full);
	line(out, "  run as a schedule", (double)r->run);
	buf_printf(out, "  step %.3f ms, no plan of the space below %.3f ms: "
		   "a gap of %.1f%%\n", best / 1e3, r->bound_us / 1e3,
		   best > 0 ? 100 * (best / r->bound_us - 1) : 0);
	beside(out, "other ways for stages of one rank", r->ways_us);
	beside(out, "ways to recompute that were not made", r->unmade_us);
}

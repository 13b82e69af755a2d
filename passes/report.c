/*
 * Collects the counts of passes, and prints the list of passes, their times
 * and their counts.  Times and counts are IR comments, so that a log with IR
 * can still be parsed.
 */
#include "passes/pass.h"

#include <inttypes.h>
#include <string.h>

void
pass_count(struct pass_ctx *p, const char *what, int64_t n)
{
	struct pass_stats *s = p->stats;
	struct pass_count c = { 0 };
	uint32_t i;

	for (i = 0; i < s->at.n; i++) {
		if (strcmp(s->at.at[i].what, what) == 0 &&
		    strcmp(s->at.at[i].pass, s->pass) == 0) {
			s->at.at[i].n += n;
			return;
		}
	}
	/* copied: `what` may be temporary, or in a plug-in */
	c.what = arena_strndup(s->arena, what, strlen(what));
	c.pass = s->pass;
	c.n = n;
	VEC_PUSH(s->arena, &s->at, c);
}

static void
add_props(struct buf *out, const char *word, uint32_t mask)
{
	uint32_t i;

	for (i = 0; pass_prop_name(i); i++) {
		if (mask >> i & 1) {
			buf_printf(out, "%s%s", word, pass_prop_name(i));
			word = ", ";
		}
	}
}

void
pass_print_table(const struct pass_table *t, struct buf *out)
{
	uint32_t i;

	for (i = 0; i < t->known.n; i++) {
		const struct pass_known *k = &t->known.at[i];
		struct buf props;

		buf_init(&props, out->arena);
		add_props(&props, "; needs ", k->pass.needs);
		add_props(&props, "; gives ", k->pass.gives);
		add_props(&props, "; kills ", k->pass.kills);
		buf_printf(out, "%-12s %s\n", k->pass.name, k->pass.purpose);
		if (props.n) {
			buf_printf(out, "%-12s   %s\n", "",
				   buf_text(&props) + 2);
		}
		if (k->file) {
			buf_printf(out, "%-12s   from %s\n", "", k->file);
		}
	}
}

void
pass_print_times(const struct pass_manager *pm, struct buf *out)
{
	double wall_us = 0, cpu_us = 0;
	uint32_t i;

	buf_puts(out, "# times of passes\n"
		 "#    wall ms     cpu ms   peak KiB  pass\n");
	for (i = 0; i < pm->times.n; i++) {
		const struct pass_time *t = &pm->times.at[i];

		wall_us += t->wall_us;
		cpu_us += t->cpu_us;
		buf_printf(out, "# %10.3f %10.3f %10" PRId64 "  %s%s\n",
			   t->wall_us / 1e3, t->cpu_us / 1e3,
			   (t->peak_bytes + 1023) / 1024, t->pass->name,
			   t->skipped ? " (not run)"
				: t->changed ? "" : " (unchanged)");
	}
	buf_printf(out, "# %10.3f %10.3f %10s  all\n", wall_us / 1e3,
		   cpu_us / 1e3, "");
}

void
pass_print_stats(const struct pass_manager *pm, struct buf *out)
{
	uint32_t i;

	buf_puts(out, "# counts of passes\n");
	for (i = 0; i < pm->stats.at.n; i++) {
		const struct pass_count *c = &pm->stats.at.at[i];

		if (c->n) {
			buf_printf(out, "# %10" PRId64 "  %s: %s\n", c->n,
				   c->pass, c->what);
		}
	}
}

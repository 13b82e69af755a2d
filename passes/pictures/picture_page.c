/*
 * A report: the head of the answer, the pictures of the table below, the
 * answer as text.  The page may load nothing: its policy says so, and the one
 * script in it is page.js.
 */
#include "passes/pictures/picture_parts.h"

#include <math.h>

struct picture {
	const char *id, *title;
	void (*draw)(const struct picture_facts *f, struct buf *out);
	const char *how;	/* to read it */
};

static const struct picture pictures[] = {
	{ "time", "Where the step goes", picture_time,
	  "The time of one step on the busiest rank of the pipeline. The "
	  "parts add up to the step." },
	{ "timeline", "The pipeline", picture_timeline,
	  "A row is a place in the pipeline: all ranks of a place do the same "
	  "at the same time. A block is an action, of one stage on one "
	  "microbatch; where a row is empty its ranks wait. Point at an "
	  "action, or move with Tab to a row and with the arrow keys along "
	  "it; + and - zoom." },
	{ "memory", "Memory over a step", picture_memory,
	  "The bytes in use on the fullest place of the pipeline, by what "
	  "they are for. Everything below the saved values is there for the "
	  "whole step." },
	{ "roofline", "Kernels under the roof", picture_roofline,
	  "A dot is a kind of kernel of the busiest rank; its size is its "
	  "part of the step. The roof is what the device can do at that many "
	  "flops for each byte of memory: the nearer a dot is to it, the less "
	  "is lost." },
	{ "comm", "Communication by link", picture_comm,
	  "What the busiest rank sends in a step, by the links that it "
	  "crosses. The light part of a bar runs beside kernels and costs "
	  "the step nothing." },
	{ "plans", "Plans that were considered", picture_plans,
	  "A dot is a plan that the search has priced: down is faster, left "
	  "needs less memory. No plan is both faster and smaller than one on "
	  "the line, the Pareto front. The search leaves out what cannot be "
	  "faster than the best plans, so slow plans are missing here." },
	{ "mesh", "The mesh on the cluster", picture_mesh,
	  "Which ranks each node has. A square is a device and its color a "
	  "place in the pipeline." }
};

#define NPICTURES (sizeof pictures / sizeof *pictures)

/* ---- the head ---- */

static void
add_fact(struct buf *out, const char *name, const char *text)
{
	buf_puts(out, "<dt>");
	picture_text(out, name);
	buf_puts(out, "</dt><dd>");
	picture_text(out, text);
	buf_puts(out, "</dd>\n");
}

static const char *
split_text(const struct answer *x, struct arena *a)
{
	const struct plan *p = x->plan;

	return arena_printf(a, "%s; %lld microbatch%s of %lld, schedule %s, "
			    "zero %d", search_degrees(p, a),
			    (long long)p->nmicrobatches,
			    p->nmicrobatches == 1 ? "" : "es",
			    (long long)p->microbatch, p->schedule, p->zero);
}

static const char *
count_text(struct arena *a, double n)
{
	return n >= 1e9 ? arena_printf(a, "%.4g billion", n / 1e9) :
	       n >= 1e6 ? arena_printf(a, "%.4g million", n / 1e6) :
	       arena_printf(a, "%.0f", n);
}

static void
add_facts(const struct answer *x, struct buf *out)
{
	struct arena *a = out->arena;
	const struct answer_memory *m = &x->memory;

	buf_puts(out, "<dl>");
	add_fact(out, "model", arena_printf(a, "%s, %s parameters",
		 x->model.name, count_text(a, (double)x->model.parameters)));
	add_fact(out, "target", arena_printf(a, "%s: %lld of %lld devices",
		 x->target, (long long)x->used, (long long)x->devices));
	add_fact(out, "split", split_text(x, a));
	add_fact(out, "step", arena_printf(a, "%s, %s tokens/s, MFU %.1f%%",
		 picture_ms(a, x->step_us), picture_figure(a, x->tokens_s, 4),
		 100 * x->mfu));
	if (x->has_accuracy) {
		add_fact(out, "accuracy", arena_printf(a, "90%% of published "
			 "runs took %.2f to %.2f of what is predicted: %s to "
			 "%s", x->accuracy.low, x->accuracy.high,
			 picture_ms(a, x->step_us * x->accuracy.low),
			 picture_ms(a, x->step_us * x->accuracy.high)));
	}
	add_fact(out, "memory", arena_printf(a, "%s of %s on the fullest "
		 "device", picture_bytes(a, (double)m->rank[m->fullest].total),
		 picture_bytes(a, (double)m->device_bytes)));
	if (isfinite(x->usd_h)) {
		add_fact(out, "cost", arena_printf(a, "%.2f USD an hour",
						   x->usd_h));
	}
	buf_puts(out, "</dl>\n");
}

static void
add_head(const struct answer *x, struct buf *out)
{
	size_t i;

	buf_puts(out, "<!DOCTYPE html>\n"
		 "<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n"
		 "<head><meta charset=\"utf-8\"/>\n"
		 "<meta http-equiv=\"Content-Security-Policy\" content=\""
		 "default-src 'none'; style-src 'unsafe-inline'; "
		 "script-src 'unsafe-inline'\"/>\n"
		 "<meta name=\"viewport\" content=\"width=device-width, "
		 "initial-scale=1\"/>\n<title>");
	picture_text(out, x->model.name);
	buf_puts(out, " on ");
	picture_text(out, x->target);
	buf_printf(out, "</title>\n<style>\n%s%s</style></head>\n"
		   "<body>\n<header><h1>", picture_kinds_css,
		   picture_page_css);
	picture_text(out, x->model.name);
	buf_puts(out, " on ");
	picture_text(out, x->target);
	buf_puts(out, "</h1>\n");
	add_facts(x, out);
	buf_puts(out, "<nav aria-label=\"pictures\">");
	for (i = 0; i < NPICTURES; i++) {
		buf_printf(out, "<a href=\"#%s\">%s</a>\n", pictures[i].id,
			   pictures[i].title);
	}
	buf_puts(out, "</nav></header>\n<main>\n");
}

/* ---- the end ---- */

static void
add_lines(struct buf *out, const char *text)
{
	size_t n;

	for (; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		picture_text(out, arena_strndup(out->arena, text, n));
		buf_putc(out, '\n');
	}
}

static void
add_end(const struct answer *x, struct buf *out)
{
	struct buf text;

	buf_init(&text, out->arena);
	answer_print(x, &text);
	buf_puts(out, "<section><h2>The answer</h2>\n"
		 "<pre tabindex=\"0\">");
	add_lines(out, buf_text(&text));
	buf_puts(out, "</pre>\n<details><summary>the plan, for --plan"
		 "</summary><pre tabindex=\"0\">");
	add_lines(out, x->plan_text);
	buf_printf(out, "</pre></details></section>\n</main>\n"
		   "<script>\n%s</script>\n</body></html>\n",
		   picture_page_js);
}

void
picture_report(const struct picture_input *in, struct buf *out)
{
	struct picture_facts f = { .in = in, .a = out->arena };
	size_t i;

	price_timeline(in->ranks->sched, in->price, f.a, &f.line);
	answer_find_kernels(in->ranks, in->devs, in->price, f.a, &f.kernels);
	add_head(in->answer, out);
	for (i = 0; i < NPICTURES; i++) {
		const struct picture *p = &pictures[i];

		buf_printf(out, "<section aria-labelledby=\"%s-title\">\n"
			   "<h2 id=\"%s-title\">%s</h2>\n<p>%s</p>\n",
			   p->id, p->id, p->title, p->how);
		picture_open_figure(out, p->id);
		p->draw(&f, out);
		picture_close_figure(out);
		buf_puts(out, "</section>\n");
	}
	add_end(in->answer, out);
}

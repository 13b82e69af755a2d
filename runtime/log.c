/*
 * log.c - what rank 0 writes down of a run: JSON lines for programs, lines
 * for people, event files for TensorBoard.
 */
#include "runtime/rank.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Back to the first column, and what stands there is gone. */
#define CLEAR_LINE "\r\033[K"

struct rt_log {
	struct rt_log_options o;
	FILE *json;
	struct rt_events *events;
	bool open_line;		/* a progress line has no end yet */
};

/* ---- JSON ---- */

void
rt_json_text(FILE *f, const char *s)
{
	putc('"', f);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\') {
			fprintf(f, "\\%c", *s);
		} else if ((unsigned char)*s < 0x20) {
			fprintf(f, "\\u%04x", (unsigned)*s);
		} else {
			putc(*s, f);
		}
	}
	putc('"', f);
}

/* JSON has no number that is not finite. */
static void
json_number(FILE *f, const char *name, double v)
{
	fputs(", ", f);
	rt_json_text(f, name);
	if (isfinite(v)) {
		fprintf(f, ": %.17g", v);
	} else {
		fputs(": null", f);
	}
}

static enum rt_status
end_json(struct rt_log *l, struct rt_error *err)
{
	fputs("}\n", l->json);
	if (fflush(l->json) != 0) {
		return rt_fail(err, RT_IO, (struct rt_where){ l->o.path, NULL,
			-1 }, "cannot be written: %s", strerror(errno));
	}
	return RT_OK;
}

/* ---- steps ---- */

/* The first is the loss; the others have names of their own. */
static const char *
result_name(const struct rt_plan *p, int64_t i)
{
	int64_t k, j, seen = 0;

	for (k = 0; k < p->nprograms && i > 0; k++) {
		const struct rt_program *g = &p->programs[k];

		for (j = 0; j < g->nresults; j++) {
			if (g->results[j].ndims == 0 && seen++ == i) {
				return g->results[j].name;
			}
		}
		if (g->nresults > 0) {
			break;
		}
	}
	return "loss";
}

static const char *
watch_name(const struct rt_plan *p, int64_t i)
{
	int64_t k;

	for (k = 0; k < p->nprograms && i > 0; k++) {
		if (p->programs[k].nwatch > i) {
			return p->programs[k].watch[i].name;
		}
	}
	return "gradient_norm";
}

/* One number of a step, to wherever numbers go. */
struct number {
	const char *name;
	double v;
};

#define MAX_STEP_NUMBERS (2 * RT_MAX_NUMBERS + 9)

static int
step_numbers(const struct rt_log *l, const struct rt_log_step *s,
	     struct number *out)
{
	const struct rt_plan *p = l->o.plan;
	const struct rt_outcome *c = s->outcome;
	const struct rt_times *t = &c->times;
	double second = s->step_ms * 1e-3, left;
	int64_t i;
	int n = 0;

	for (i = 0; i < c->n; i++) {
		out[n++] = (struct number){ result_name(p, i), c->at[i] };
	}
	for (i = 0; i < c->nwatch; i++) {
		out[n++] = (struct number){ watch_name(p, i), c->watch[i] };
	}
	out[n++] = (struct number){ "tokens_per_s",
				    (double)p->tokens / second };
	if (p->peak > 0) {
		out[n++] = (struct number){ "mfu",
					    p->flops / second / p->peak };
	}
	left = s->step_ms - t->compute - t->talk - t->update - t->data;
	out[n++] = (struct number){ "step_ms", s->step_ms };
	out[n++] = (struct number){ "compute_ms", t->compute };
	out[n++] = (struct number){ "talk_ms", t->talk };
	out[n++] = (struct number){ "waiting_ms", left > 0 ? left : 0 };
	out[n++] = (struct number){ "update_ms", t->update };
	out[n++] = (struct number){ "data_ms", t->data };
	out[n++] = (struct number){ "checkpoint_ms", s->checkpoint_ms };
	return n;
}

static void
show_step(struct rt_log *l, const struct rt_log_step *s)
{
	FILE *f = l->o.screen;

	fputs(l->o.terminal ? CLEAR_LINE : "", f);
	fprintf(f, "step %lld", (long long)s->step);
	if (l->o.terminal && s->steps > 0) {
		fprintf(f, " of %lld", (long long)s->steps);
	}
	if (s->outcome->n > 0) {
		fprintf(f, " loss %.4f", s->outcome->at[0]);
	}
	if (s->outcome->nwatch > 0) {
		fprintf(f, " norm %.4g", s->outcome->watch[0]);
	}
	fprintf(f, " %.0f tokens/s%s",
		(double)l->o.plan->tokens / (s->step_ms * 1e-3),
		l->o.terminal ? "" : "\n");
	fflush(f);
	l->open_line = l->o.terminal;
}

enum rt_status
rt_log_step(struct rt_log *l, const struct rt_log_step *s,
	    struct rt_error *err)
{
	struct number numbers[MAX_STEP_NUMBERS];
	enum rt_status status = RT_OK;
	int n, i;

	if (!l) {
		return RT_OK;
	}
	n = step_numbers(l, s, numbers);
	show_step(l, s);
	if (l->json) {
		fprintf(l->json, "{\"step\": %lld", (long long)s->step);
		for (i = 0; i < n; i++) {
			json_number(l->json, numbers[i].name, numbers[i].v);
		}
		status = end_json(l, err);
	}
	for (i = 0; i < n && l->events && status == RT_OK; i++) {
		status = rt_events_scalar(l->events, numbers[i].name, s->step,
					  numbers[i].v, err);
	}
	return status;
}

enum rt_status
rt_log_scalar(struct rt_log *l, const char *name, int64_t step, double v,
	      struct rt_error *err)
{
	return l && l->events ?
		rt_events_scalar(l->events, name, step, v, err) : RT_OK;
}

/* ---- events ---- */

enum rt_status
rt_log_event(struct rt_log *l, const char *event, const char *say,
	     struct rt_error *err, const char *more, ...)
{
	struct timespec now;
	va_list ap;

	if (!l) {
		return RT_OK;
	}
	fprintf(l->o.screen, "%s%s\n", l->open_line ? CLEAR_LINE : "", say);
	fflush(l->o.screen);
	l->open_line = false;
	if (!l->json) {
		return RT_OK;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	fprintf(l->json, "{\"event\": \"%s\", \"time\": %.3f, ", event,
		(double)now.tv_sec + (double)now.tv_nsec * 1e-9);
	va_start(ap, more);
	vfprintf(l->json, more, ap);
	va_end(ap);
	return end_json(l, err);
}

/* ---- life ---- */

enum rt_status
rt_log_open(struct rt_log **out, const struct rt_log_options *o,
	    struct rt_error *err)
{
	struct rt_log *l = calloc(1, sizeof *l);
	enum rt_status status = RT_OK;

	*out = NULL;
	if (!l) {
		return rt_no_memory(err, NULL);
	}
	l->o = *o;
	if (o->path && !(l->json = fopen(o->path, "a"))) {
		status = rt_fail(err, RT_IO, (struct rt_where){ o->path, NULL,
			-1 }, "cannot be opened to write: %s",
			strerror(errno));
	}
	if (status == RT_OK && o->tensorboard) {
		status = rt_events_open(&l->events, o->tensorboard, err);
	}
	if (status != RT_OK) {
		rt_log_close(l);
		return status;
	}
	*out = l;
	return RT_OK;
}

void
rt_log_close(struct rt_log *l)
{
	if (!l) {
		return;
	}
	if (l->open_line) {
		putc('\n', l->o.screen);
		fflush(l->o.screen);
	}
	if (l->json) {
		fclose(l->json);
	}
	rt_events_close(l->events);
	free(l);
}

/*
 * What rank 0 logs of a run: JSON lines for programs, lines for people, event
 * files for TensorBoard (tensorboard.c).
 */
#include "runtime/append.h"
#include "runtime/train/rank.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Returns to the first column and erases the line. */
#define CLEAR_LINE "\r\033[K"

struct rt_log {
	struct rt_log_options o;
	struct rt_append json;	/* open if there is o.path */
	struct rt_events *events;
	bool warned[2];		/* of the JSON file, and of the event file */
	bool open_line;		/* a progress line is not ended yet */
};

/* ---- what does not work ---- */

static void
end_line(struct rt_log *l)
{
	if (l->open_line) {
		putc('\n', l->o.screen);
		fflush(l->o.screen);
		l->open_line = false;
	}
}

/*
 * A log that cannot be written does not end a run: one warning for each file.
 */
static void
warn_once(struct rt_log *l, bool *warned, const struct rt_error *err)
{
	if (!*warned) {
		end_line(l);
		fprintf(stderr, "rank: warning: %s; training goes on\n",
			err->message);
		*warned = true;
	}
}

static void
warn_of_lost(const char *path, int64_t lost)
{
	if (lost > 0) {
		fprintf(stderr, "rank: warning: %s: %lld record%s missing\n",
			rt_show_path(path).text, (long long)lost,
			lost == 1 ? " is" : "s are");
	}
}

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

/* JSON has no infinities or NaN: they become null. */
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

/* A JSON object that is collected in memory and then written at once. */
struct json_line {
	FILE *f;	/* NULL: not logged, or out of memory */
	char *text;
	size_t n;
};

/* f points into *line, which must not move. */
static void
begin_json(const struct rt_log *l, struct json_line *line)
{
	*line = (struct json_line){ NULL, NULL, 0 };
	if (l->o.path) {
		line->f = open_memstream(&line->text, &line->n);
	}
}

static void
end_json(struct rt_log *l, struct json_line *line)
{
	struct rt_error err;

	if (!l->o.path) {
		return;
	}
	if (line->f) {
		fputs("}\n", line->f);
	}
	if (!line->f || fclose(line->f) != 0) {
		l->json.lost++;
		rt_no_memory(&err, l->o.path);
		warn_once(l, &l->warned[0], &err);
	} else if (rt_append_record(&l->json, line->text, line->n, &err) !=
		   RT_OK) {
		warn_once(l, &l->warned[0], &err);
	}
	free(line->text);
}

/* ---- steps ---- */

/* The first result is called `loss`; others have their own names. */
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

/* A number of a step, as JSON, the terminal and TensorBoard get it. */
struct number {
	const char *name;
	double v;
};

#define MAX_STEP_NUMBERS (2 * RT_MAX_NUMBERS + 13)

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
	out[n++] = (struct number){ "learning_rate", s->lr };
	out[n++] = (struct number){ "tokens_per_s",
				    (double)p->tokens / second };
	if (p->peak > 0) {
		out[n++] = (struct number){ "mfu",
					    p->flops / second / p->peak };
	}
	left = s->step_ms - t->compute - t->coll - t->update - t->data;
	out[n++] = (struct number){ "step_ms", s->step_ms };
	out[n++] = (struct number){ "compute_ms", t->compute };
	out[n++] = (struct number){ "collective_ms", t->coll };
	out[n++] = (struct number){ "waiting_ms", left > 0 ? left : 0 };
	out[n++] = (struct number){ "update_ms", t->update };
	out[n++] = (struct number){ "data_ms", t->data };
	out[n++] = (struct number){ "checkpoint_ms", s->checkpoint_ms };
	out[n++] = (struct number){ "left_s", s->left_s };
	if (s->device_bytes > 0) {
		out[n++] = (struct number){ "device_bytes",
					    (double)s->device_bytes };
	}
	out[n++] = (struct number){ "host_bytes", (double)s->host_bytes };
	return n;
}

static void
show_size(FILE *f, int64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)bytes;
	int i;

	for (i = 0; i < 4 && v >= 1024; i++) {
		v /= 1024;
	}
	fprintf(f, " %.3g %s", v, units[i]);
}

/* Days, hours, minutes and seconds: "2d 03:04:05". */
static void
show_time(FILE *f, double s)
{
	long long all = s >= 0 && s < 1e15 ? (long long)(s + 0.5) : 0;

	if (all >= 86400) {
		fprintf(f, "%lldd ", all / 86400);
	}
	fprintf(f, "%02lld:%02lld:%02lld", all / 3600 % 24, all / 60 % 60,
		all % 60);
}

static void
show_step(struct rt_log *l, const struct rt_log_step *s)
{
	double second = s->step_ms * 1e-3;
	const struct rt_plan *p = l->o.plan;
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
	fprintf(f, " %.0f tokens/s", (double)p->tokens / second);
	/* of an emulated GPU it would be 0 */
	if (p->peak > 0 && p->flops / second / p->peak > 5e-4) {
		fprintf(f, " mfu %.1f%%", 100 * p->flops / second / p->peak);
	}
	show_size(f, s->device_bytes ? s->device_bytes : s->host_bytes);
	fprintf(f, " lr %.4g, ", s->lr);
	show_time(f, s->left_s);
	fputs(l->o.terminal ? " left" : " left\n", f);
	fflush(f);
	l->open_line = l->o.terminal;
}

void
rt_log_step(struct rt_log *l, const struct rt_log_step *s)
{
	struct number numbers[MAX_STEP_NUMBERS];
	struct json_line line;
	int n, i;

	if (!l) {
		return;
	}
	n = step_numbers(l, s, numbers);
	show_step(l, s);
	begin_json(l, &line);
	if (line.f) {
		fprintf(line.f, "{\"step\": %lld", (long long)s->step);
		for (i = 0; i < n; i++) {
			json_number(line.f, numbers[i].name, numbers[i].v);
		}
	}
	end_json(l, &line);
	for (i = 0; i < n; i++) {
		rt_log_scalar(l, numbers[i].name, s->step, numbers[i].v);
	}
}

void
rt_log_scalar(struct rt_log *l, const char *name, int64_t step, double v)
{
	struct rt_error err;

	if (l && l->events &&
	    rt_events_scalar(l->events, name, step, v, &err) != RT_OK) {
		warn_once(l, &l->warned[1], &err);
	}
}

/* ---- events ---- */

void
rt_log_event(struct rt_log *l, const char *event, const char *say,
	     const char *more, ...)
{
	struct timespec now;
	struct json_line line;
	va_list ap;

	if (!l) {
		return;
	}
	if (l->o.screen) {
		fprintf(l->o.screen, "%s%s\n",
			l->open_line ? CLEAR_LINE : "", say);
		fflush(l->o.screen);
		l->open_line = false;
	}
	begin_json(l, &line);
	if (line.f) {
		clock_gettime(CLOCK_REALTIME, &now);
		fprintf(line.f, "{\"event\": \"%s\", \"time\": %.3f, ",
			event,
			(double)now.tv_sec + (double)now.tv_nsec * 1e-9);
		va_start(ap, more);
		vfprintf(line.f, more, ap);
		va_end(ap);
	}
	end_json(l, &line);
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
	l->json.fd = -1;
	if (o->path) {
		status = rt_append_open(&l->json, o->path, false, "\n", err);
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
	struct rt_error err;

	if (!l) {
		return;
	}
	end_line(l);
	if (l->o.path) {
		warn_of_lost(l->o.path, l->json.lost);
		if (rt_append_close(&l->json, &err) != RT_OK) {
			warn_once(l, &l->warned[0], &err);
		}
	}
	if (l->events) {
		warn_of_lost(l->o.tensorboard, rt_events_lost(l->events));
		if (rt_events_close(l->events, &err) != RT_OK) {
			warn_once(l, &l->warned[1], &err);
		}
	}
	free(l);
}

/*
 * Evaluations: the mean loss on data that is not trained on, with weights
 * unchanged; between steps of a training run, and as the command `eval`.
 */
#include "runtime/train/rank.h"

#include <math.h>

/* ---- how it is done ---- */

enum rt_status
rt_eval_set_open(struct rt_eval_set *s, const struct rt_run *r,
		 const struct rt_options *o, const struct rt_source *source,
		 const char *name, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t sequences = r->plan->batch;

	*s = (struct rt_eval_set){ .name = name, .marks = o->marks };
	if (source) {
		status = rt_feed_open(&s->blend, r->plan, source, 1, err);
	}
	if (status == RT_OK && source) {
		sequences = rt_blend_sequences(s->blend);
	}
	s->batches = o->command == RT_EVAL ? o->steps : o->eval_steps;
	s->batches = s->batches ? s->batches : sequences / r->plan->batch;
	if (status == RT_OK && s->batches < 1) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the data to "
			"evaluate on%s%s%s has %lld sequences, and a batch "
			"takes %lld", *name ? " (" : "", name,
			*name ? ")" : "", (long long)sequences,
			(long long)r->plan->batch);
	}
	return status;
}

void
rt_eval_set_close(struct rt_eval_set *s)
{
	rt_blend_free(s->blend);
	s->blend = NULL;
}

enum rt_status
rt_evaluate(struct rt_run *r, const struct rt_eval_set *s, int64_t step,
	    const volatile sig_atomic_t *signalled, struct rt_evaluation *e,
	    struct rt_error *err)
{
	enum rt_status status = RT_OK;
	struct rt_outcome c;
	double sum = 0;

	*e = (struct rt_evaluation){ .name = s->name, .step = step };
	while (e->batches < s->batches && !e->stop) {
		struct rt_feed feed = rt_feed_of(s->blend, e->batches *
						 r->plan->batch,
						 &s->marks);

		status = rt_run_step(r, step, s->blend ? &feed : NULL, false,
				     *signalled, &c, err);
		if (status != RT_OK) {
			return status;
		}
		e->stop = c.stop;
		e->batches++;
		e->tokens += r->plan->tokens;
		sum += c.n > 0 ? c.at[0] : NAN;
	}
	e->loss = sum / (double)e->batches;
	return RT_OK;
}

/* ---- printing ---- */

enum { MEMBERS_BYTES = 320 };

/* Members of a JSON object; infinities and NaN become null. */
static void
members(const struct rt_evaluation *e, char out[MEMBERS_BYTES])
{
	const char *name = e->name;
	double values[2] = { e->loss, exp(e->loss) };
	char numbers[2][32];
	int i;

	for (i = 0; i < 2; i++) {
		snprintf(numbers[i], sizeof numbers[i],
			 isfinite(values[i]) ? "%.17g" : "null", values[i]);
	}
	snprintf(out, MEMBERS_BYTES, "%s%s%s\"step\": %lld, \"batches\": %lld, "
		 "\"tokens\": %lld, \"loss\": %s, \"perplexity\": %s",
		 *name ? "\"set\": \"" : "", name, *name ? "\", " : "",
		 (long long)e->step,
		 (long long)e->batches, (long long)e->tokens, numbers[0],
		 numbers[1]);
}

void
rt_evaluation_log(const struct rt_evaluation *e, struct rt_log *l)
{
	char line[256], more[MEMBERS_BYTES], tag[RT_SET_NAME_BYTES + 32];
	const char *name = e->name;

	members(e, more);
	snprintf(line, sizeof line, "evaluation%s%s at step %lld: loss %.4f "
		 "perplexity %.4f over %lld batch%s, %lld tokens",
		 *name ? " of " : "", name, (long long)e->step, e->loss,
		 exp(e->loss), (long long)e->batches,
		 e->batches == 1 ? "" : "es", (long long)e->tokens);
	rt_log_event(l, "evaluation", line, "%s", more);
	snprintf(tag, sizeof tag, "evaluation_loss%s%s", *name ? "/" : "",
		 name);
	rt_log_scalar(l, tag, e->step, e->loss);
}

/* ---- the command ---- */

/* Evaluates on one set, and prints. */
static enum rt_status
eval_set(struct rt_run *r, const struct rt_eval_set *s, int64_t step,
	 struct rt_log *log, FILE *json, struct rt_error *err)
{
	static const volatile sig_atomic_t nobody;
	struct rt_evaluation e = { 0 };
	enum rt_status status = rt_evaluate(r, s, step, &nobody, &e, err);
	char text[MEMBERS_BYTES];

	if (status != RT_OK) {
		return status;
	}
	rt_evaluation_log(&e, log);
	if (json) {
		members(&e, text);
		fprintf(json, "{%s}\n", text);
	}
	return RT_OK;
}

enum rt_status
rt_eval(struct rt_run *r, const struct rt_options *o, FILE *out,
	struct rt_error *err)
{
	struct rt_log_options lo = { .path = o->log, .plan = r->plan,
				     .screen = o->json ? NULL : out };
	int64_t n = rt_options_draw(o) ? 1 : o->sets.n, i;
	struct rt_eval_set sets[RT_BLEND_SOURCES] = { { 0 } };
	struct rt_log *log = NULL;
	struct rt_progress p = { 0 };
	enum rt_status status;

	status = r->rank == 0 ? rt_log_open(&log, &lo, err) : RT_OK;
	for (i = 0; i < n && status == RT_OK; i++) {
		status = rt_eval_set_open(&sets[i], r, o, rt_options_draw(o) ?
					  NULL : &o->sets.at[i],
					  o->sets.names[i], err);
	}
	if (status == RT_OK) {
		status = rt_load_saved(r, o, &p, err);
	}
	for (i = 0; i < n && status == RT_OK; i++) {
		status = eval_set(r, &sets[i], p.step, log, o->json &&
				  r->rank == 0 ? out : NULL, err);
	}
	rt_log_close(log);
	for (i = 0; i < n; i++) {
		rt_eval_set_close(&sets[i]);
	}
	return status;
}

/*
 * Evaluations: the mean loss on data that is not trained on, with weights
 * unchanged; between steps of a training run, and as the command `eval`.
 */
#include "runtime/train/rank.h"

#include <math.h>

/* ---- how it is done ---- */

enum rt_status
rt_evaluation_batches(const struct rt_run *r, const struct rt_tokens *t, int64_t
		      wanted, int64_t *batches, struct rt_error *err)
{
	int64_t all = t ? rt_tokens_sequences(t) / r->plan->batch : 1;

	*batches = wanted ? wanted : all;
	if (*batches < 1) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the data to "
			"evaluate on has %lld sequences, and a batch takes "
			"%lld", (long long)rt_tokens_sequences(t),
			(long long)r->plan->batch);
	}
	return RT_OK;
}

enum rt_status
rt_evaluate(struct rt_run *r, struct rt_tokens *t, int64_t step,
	    int64_t batches, const volatile sig_atomic_t *signalled,
	    struct rt_evaluation *e, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	struct rt_outcome c;
	double sum = 0;

	*e = (struct rt_evaluation){ .step = step };
	while (e->batches < batches && !e->stop) {
		struct rt_feed feed = { 0 };

		if (t) {
			feed = rt_feed_of_tokens(t, e->batches *
						 r->plan->batch);
		}
		status = rt_run_step(r, step, t ? &feed : NULL, false,
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

/* Members of a JSON object; infinities and NaN become null. */
static void
members(const struct rt_evaluation *e, char out[256])
{
	double values[2] = { e->loss, exp(e->loss) };
	char numbers[2][32];
	int i;

	for (i = 0; i < 2; i++) {
		snprintf(numbers[i], sizeof numbers[i],
			 isfinite(values[i]) ? "%.17g" : "null", values[i]);
	}
	snprintf(out, 256, "\"step\": %lld, \"batches\": %lld, \"tokens\": "
		 "%lld, \"loss\": %s, \"perplexity\": %s", (long long)e->step,
		 (long long)e->batches, (long long)e->tokens, numbers[0],
		 numbers[1]);
}

void
rt_evaluation_log(const struct rt_evaluation *e, struct rt_log *l)
{
	char line[256], more[256];

	members(e, more);
	snprintf(line, sizeof line, "evaluation at step %lld: loss %.4f "
		 "perplexity %.4f over %lld batch%s, %lld tokens",
		 (long long)e->step, e->loss, exp(e->loss),
		 (long long)e->batches, e->batches == 1 ? "" : "es",
		 (long long)e->tokens);
	rt_log_event(l, "evaluation", line, "%s", more);
	rt_log_scalar(l, "evaluation_loss", e->step, e->loss);
}

/* ---- the command ---- */

enum rt_status
rt_eval(struct rt_run *r, const struct rt_options *o, FILE *out,
	struct rt_error *err)
{
	static const volatile sig_atomic_t nobody;
	struct rt_log_options lo = { o->log, NULL, o->json ? NULL : out, false,
				     r->plan };
	struct rt_evaluation e = { 0 };
	struct rt_tokens *t = NULL;
	struct rt_log *log = NULL;
	struct rt_progress p = { 0 };
	int64_t batches = 0;
	char text[256];
	enum rt_status status;

	status = r->rank == 0 ? rt_log_open(&log, &lo, err) : RT_OK;
	if (status == RT_OK && !rt_options_draw(o)) {
		status = rt_feed_open(&t, r->plan, &o->data, err);
	}
	if (status == RT_OK) {
		status = rt_evaluation_batches(r, t, o->steps, &batches, err);
	}
	if (status == RT_OK) {
		status = rt_load_saved(r, o, &p, err);
	}
	if (status == RT_OK) {
		status = rt_evaluate(r, t, p.step, batches, &nobody, &e,
				     err);
	}
	if (status == RT_OK) {
		rt_evaluation_log(&e, log);
	}
	if (status == RT_OK && o->json && r->rank == 0) {
		members(&e, text);
		fprintf(out, "{%s}\n", text);
	}
	rt_log_close(log);
	rt_tokens_free(t);
	return status;
}

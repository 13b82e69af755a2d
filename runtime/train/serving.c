/*
 * The commands `generate`, `serve` and `bench --sequences` of a plan that was
 * compiled to serve.
 * Rank 0 reads what is asked and decides what is in each step; the others
 * compute their part of it until there is none.
 */
#include "runtime/train/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bound of a prompt, far above any context. */
#define MAX_PROMPT (1 << 24)

struct service_run {
	struct rt_run *r;
	const struct rt_options *o;
	const volatile sig_atomic_t *signalled;
	FILE *out;
	struct rt_plan_engine *engine;
};

/* ---- on rank 0 ---- */

/* The prompt of --prompt-file, with a NUL after it; *out is to be freed. */
static enum rt_status
read_file(const char *path, char **out, size_t *n, struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	enum rt_status status = RT_OK;
	FILE *f = fopen(path, "rb");

	*n = 0;
	*out = f ? calloc(MAX_PROMPT + 2, 1) : NULL;
	if (!f) {
		return rt_fail(err, RT_IO, where, "cannot be read: %s",
			       strerror(errno));
	}
	if (!*out) {
		status = rt_no_memory(err, path);
	} else {
		*n = fread(*out, 1, MAX_PROMPT + 1, f);
		status = ferror(f) ? rt_fail(err, RT_IO, where, "cannot be "
				"read: %s", strerror(errno))
			: *n > MAX_PROMPT ? rt_fail(err, RT_FORMAT, where,
				"a prompt has at most %d bytes, and this has "
				"more", MAX_PROMPT) : RT_OK;
	}
	fclose(f);
	return status;
}

/* The tokenizer's file: of a *.gguf that has the weights of a model of other
 * tokens than bytes, that file. */
static const char *
tokenizer_of(const struct service_run *s)
{
	const char *weights = s->o->weights;
	bool own = weights && rt_ends_in(weights, ".gguf") &&
		   rt_plan_engine_of(s->engine)->vocab != 256;

	return s->o->tokenizer || !own ? s->o->tokenizer : weights;
}

static void
show_generated(const struct rt_generated *g, double ms)
{
	fprintf(stderr, "rank: %lld token%s, %.1f a second",
		(long long)g->drawn, g->drawn == 1 ? "" : "s",
		ms > 0 ? (double)g->drawn * 1e3 / ms : 0);
	if (g->full > 0) {
		fprintf(stderr, "; the context is full: prompt and text have "
			"%lld tokens", (long long)g->full);
	} else if (g->stopped) {
		fprintf(stderr, "; the model ended its text");
	}
	putc('\n', stderr);
}

static enum rt_status
generate(struct service_run *s, struct rt_error *err)
{
	const struct rt_engine *e = rt_plan_engine_of(s->engine);
	struct rt_generate_options g = s->o->generate;
	enum rt_status status = RT_OK;
	double ms = rt_now_ms();
	char *text = NULL;
	struct rt_generated got;

	g.tokenizer = tokenizer_of(s);
	g.tokens = s->o->tokens;
	g.temperature = s->o->temperature;
	g.seed = (uint64_t)rt_options_seed(s->o, s->r->plan);
	if (s->o->prompt) {
		g.prompt = s->o->prompt;
		g.prompt_bytes = strlen(s->o->prompt);
	} else {
		status = read_file(s->o->prompt_file, &text, &g.prompt_bytes,
				   err);
		g.prompt = text;
	}
	if (status == RT_OK) {
		status = rt_generate(e, &g, s->out, &got, err);
	}
	if (status == RT_OK) {
		show_generated(&got, rt_now_ms() - ms);
	}
	free(text);
	return status;
}

static enum rt_status
serve(struct service_run *s, struct rt_error *err)
{
	struct rt_serve_options o = s->o->serve;

	o.model = o.model ? o.model : s->r->plan->model;
	o.tokenizer = tokenizer_of(s);
	o.chat = s->o->generate.chat;
	o.key = getenv("LLMC_API_KEY");
	o.end_asked = s->signalled;
	return rt_serve(rt_plan_engine_of(s->engine), &o, s->out, err);
}

/* A number of JSON, which a measurement without such steps lacks. */
static void
show_of_steps(const struct rt_speed *m, const char *name, double value,
	      FILE *out)
{
	if (m->nsteps > 0) {
		fprintf(out, ", \"%s\": %.17g", name, value);
	} else {
		fprintf(out, ", \"%s\": null", name);
	}
}

static void
show_json(const struct rt_speed *m, const struct rt_options *o, FILE *out)
{
	fprintf(out, "{\"sequences\": %lld, \"prompt_tokens\": %lld, "
		"\"tokens\": %lld, \"first_ms\": %.17g, "
		"\"prompts_ms\": %.17g, \"prompts_per_s\": %.17g",
		(long long)o->sequences, (long long)o->prompt_tokens,
		(long long)o->tokens, m->first_ms, m->prompts_ms,
		m->prompts_per_s);
	show_of_steps(m, "token_ms", m->token_ms, out);
	show_of_steps(m, "tokens_per_s", m->tokens_per_s, out);
	fprintf(out, ", \"all_ms\": %.17g, \"all_tokens_per_s\": %.17g}\n",
		m->all_ms, m->all_per_s);
}

static void
show_text(const struct rt_speed *m, const struct rt_options *o, FILE *out)
{
	fprintf(out, "%-10s %lld at once, of %lld tokens and %lld more\n"
		"%-10s %9.3f ms (median)\n"
		"%-10s %9.3f ms for all, %.1f tokens/s\n", "sequences",
		(long long)o->sequences, (long long)o->prompt_tokens,
		(long long)o->tokens, "first", m->first_ms, "prompts",
		m->prompts_ms, m->prompts_per_s);
	if (m->nsteps > 0) {
		fprintf(out, "%-10s %9.3f ms (median), %.1f tokens/s\n",
			"each after", m->token_ms, m->tokens_per_s);
	} else {
		fprintf(out, "each after none\n");
	}
	fprintf(out, "%-10s %9.3f ms, %.1f tokens/s\n", "to the end",
		m->all_ms, m->all_per_s);
}

static enum rt_status
measure(struct service_run *s, struct rt_error *err)
{
	struct rt_speed_options o = { s->o->sequences, s->o->prompt_tokens,
		s->o->tokens, (uint64_t)rt_options_seed(s->o, s->r->plan),
		rt_now_ms, s->o->mixed };
	struct rt_speed m;
	enum rt_status status = rt_serve_speed(rt_plan_engine_of(s->engine),
					       &o, &m, err);

	if (status == RT_OK && s->o->json) {
		show_json(&m, s->o, s->out);
	} else if (status == RT_OK) {
		show_text(&m, s->o, s->out);
	}
	return status;
}

static enum rt_status
lead(struct service_run *s, struct rt_error *err)
{
	enum rt_status status = s->o->command == RT_GENERATE
		? generate(s, err) : s->o->command == RT_SERVE
		? serve(s, err) : measure(s, err);

	return status == RT_OK ? rt_plan_engine_pulse(s->engine, true, err)
			       : status;
}

/* ---- both ---- */

enum rt_status
rt_serving(struct rt_run *r, const struct rt_options *o,
	   const volatile sig_atomic_t *signalled, FILE *out,
	   struct rt_error *err)
{
	struct service_run s = { r, o, signalled, out, NULL };
	struct rt_store store = rt_run_store(r);
	struct rt_progress progress;
	enum rt_status status;

	status = o->command == RT_BENCH ? rt_run_start(r, err)
					: rt_load_saved(r, o, &progress, err);
	if (status == RT_OK) {
		status = rt_store_panels(&store, r->workers, err);
	}
	if (status == RT_OK) {
		status = rt_plan_engine_open(&s.engine, r, o->in_flight, err);
	}
	if (status == RT_OK) {
		status = r->rank == 0 ? lead(&s, err)
				      : rt_plan_engine_follow(s.engine, err);
	}
	rt_plan_engine_close(s.engine);
	return status;
}

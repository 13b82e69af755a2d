/*
 * The answer about serving: one screen, and JSON with the same numbers.
 */
#include "passes/serve/serve.h"

#include <math.h>
#include <string.h>

#define MAX_ROWS 10		/* of the curve that are shown */

int64_t
serve_devices(const struct serve_plan *x)
{
	return x->split.tp * x->split.pp * x->split.ep * x->split.replicas;
}

static double
usd_s(const struct serve_answer_in *in, const struct serve_plan *x)
{
	return in->asked->usd_h / 3600 * (double)serve_devices(x);
}

/* For a million tokens of output, or of input: each pays for its time. */
static double
usd_out(const struct serve_answer_in *in, const struct serve_plan *x)
{
	return usd_s(in, x) * (1 - x->prefill_share) / x->tokens_s * 1e6;
}

static double
usd_in(const struct serve_answer_in *in, const struct serve_plan *x)
{
	return usd_s(in, x) * x->prefill_share /
	       (x->requests_s * in->asked->prompt) * 1e6;
}

const char *
serve_split_text(const struct serve_split *s, struct arena *a)
{
	struct buf b;

	buf_init(&b, a);
	buf_printf(&b, "tp=%lld", (long long)s->tp);
	if (s->ep > 1) {
		buf_printf(&b, " ep=%lld", (long long)s->ep);
	}
	if (s->pp > 1) {
		buf_printf(&b, " pp=%lld", (long long)s->pp);
	}
	if (s->replicas > 1) {
		buf_printf(&b, " dp=%lld", (long long)s->replicas);
	}
	return buf_text(&b);
}

static const char *
format_name(const struct serve_format *f)
{
	return f ? f->name : "as declared";
}

static void
print_limits(const struct serve_asked *q, struct buf *out)
{
	struct arena *a = out->arena;

	if (q->ttft_s <= 0 && q->tpot_s <= 0 && q->rate <= 0) {
		return;
	}
	buf_puts(out, "asked     ");
	if (q->ttft_s > 0) {
		buf_printf(out, " first token in %s ms",
			   serve_number_text(q->ttft_s * 1e3, 4, a));
	}
	if (q->tpot_s > 0) {
		buf_printf(out, "%s each token in %s ms",
			   q->ttft_s > 0 ? "," : "",
			   serve_number_text(q->tpot_s * 1e3, 4, a));
	}
	if (q->rate > 0) {
		buf_printf(out, "%s %s requests/s",
			   q->ttft_s > 0 || q->tpot_s > 0 ? "," : "",
			   serve_number_text(q->rate, 4, a));
	}
	buf_putc(out, '\n');
}

static void
print_head(const struct serve_answer_in *in, struct buf *out)
{
	const struct serve_asked *q = in->asked;
	const struct pass_sums *s = &in->model->sums;

	buf_printf(out, "%.28s: ",
		   ir_text(in->model->m->ctx, in->model->m->name));
	buf_short(out, (double)s->total);
	buf_puts(out, " parameters");
	if (s->active != s->total) {
		buf_puts(out, ", ");
		buf_short(out, (double)s->active);
		buf_puts(out, " for a token");
	}
	buf_puts(out, "\nrequests   ");
	buf_printf(out, "%.0f tokens in, %.0f out, context %.0f\n", q->prompt,
		   q->output, q->context);
	buf_printf(out, "stored     weights%s %s, cache %s%s\n",
		   q->weights && q->weights->head_bytes == q->weights->bytes ?
		   "" : " of layers",
		   format_name(q->weights), format_name(q->cache),
		   q->fp8 ? "; multiplied in 8 bits" : "");
	print_limits(q, out);
	buf_printf(out, "target     %.28s: %lld device%s in %lld node%s\n",
		   in->target->name,
		   (long long)target_devices(in->target),
		   target_devices(in->target) == 1 ? "" : "s",
		   (long long)target_nodes(in->target),
		   target_nodes(in->target) == 1 ? "" : "s");
}

static void
print_time(const char *label, const char *what, const struct serve_time *t,
	   struct buf *out)
{
	uint32_t n = 0;
	int k;

	buf_printf(out, "%-10s %.2f ms, %s:", label, t->total_us / 1e3, what);
	for (k = 0; k < SERVE_NTIMES; k++) {
		if (t->us[k] < 0.0005 * t->total_us) {
			continue;
		}
		if (n % 4 == 0) {
			buf_puts(out, n ? ",\n           " : "\n           ");
		} else {
			buf_puts(out, ", ");
		}
		buf_printf(out, "%s %.1f%%", serve_time_names[k],
			   100 * t->us[k] / t->total_us);
		n++;
	}
	buf_putc(out, '\n');
}

static void
print_memory(const struct serve_plan *x, bool is_made, struct buf *out)
{
	const struct serve_memory *m = &x->memory;

	buf_printf(out, "memory     of %.2f GB: weights %.2f, workspace ",
		   m->free / 1e9, m->weights / 1e9);
	buf_printf(out, "%s%.2f, cache %.2f\n", is_made ? "" : "about ",
		   m->workspace / 1e9,
		   (m->free - m->weights - m->workspace) / 1e9);
	buf_printf(out, "cache      %.0f tokens of a replica, %.0f bytes of "
		   "each on a device\n", m->tokens, m->token);
}

static void
print_host(const struct serve_host *h, struct buf *out)
{
	double all = h->queues + h->steps + h->index;

	if (all > 0) {
		buf_printf(out, "host       %.1f MB of rank 0's: queues %.1f, "
			   "steps %.1f, index of prefixes %.1f;\n"
			   "           at most %.1f MB for each client\n",
			   all / 1e6, h->queues / 1e6, h->steps / 1e6,
			   h->index / 1e6, h->client / 1e6);
	}
}

static void
print_program(const struct serve_made *x, struct buf *out)
{
	if (x->tokens > 0) {
		buf_printf(out, "program    steps of up to %.0f positions, "
			   "%.0f with logits, %.0f keys; cache of %.0f;\n"
			   "           of a device weights %.2f GB, workspace "
			   "%.2f, cache %.2f\n", x->tokens, x->rows, x->keys,
			   x->slots, x->weights / 1e9, x->workspace / 1e9,
			   x->cache / 1e9);
	}
	if (x->tokens > 0 && !serve_holds_best(x)) {
		buf_printf(out, "           which hold %.0f sequence%s: %s "
			   "tokens/s out, %.2f ms for each;\n"
			   "           the batch above needs "
			   "tokens=%.0f,rows=%.0f,keys=%.0f\n",
			   x->own.sequences, x->own.sequences == 1 ? "" : "s",
			   serve_rate_text(x->own.tokens_s, 0, out->arena),
			   x->own.tpot_us / 1e3, x->needs_tokens,
			   x->needs_rows, x->needs_keys);
	}
}

/* At most, with the hosts' part; 0: not known. */
static double
watts_of(const struct serve_answer_in *in, const struct serve_plan *x)
{
	const struct target_device *d = &in->target->groups.at[0].device;

	return d->power_w > 0 ? (d->power_w + d->host_power_w) *
				(double)serve_devices(x) : 0;
}

static void
print_money(const struct serve_answer_in *in, const struct serve_plan *x,
	    struct buf *out)
{
	double watts = watts_of(in, x);
	struct arena *a = out->arena;

	if (in->asked->usd_h > 0) {
		buf_printf(out, "cost       %.2f USD an hour: %s USD for a "
			   "million tokens in, %s out;\n           %s "
			   "tokens out for a dollar\n", usd_s(in, x) * 3600,
			   serve_number_text(usd_in(in, x), 3, a),
			   serve_number_text(usd_out(in, x), 3, a),
			   serve_rate_text(x->tokens_s / usd_s(in, x), 0, a));
	} else {
		buf_puts(out, "cost       not known: --price\n");
	}
	if (watts > 0) {
		buf_printf(out, "power      at most %s kW, %s J for a "
			   "token out\n",
			   serve_number_text(watts / 1e3, 4, a),
			   serve_number_text(watts / x->tokens_s, 3, a));
	}
}

static void
print_curve(const struct serve_answer_in *in, const struct serve_answer *x,
	    struct buf *out)
{
	uint32_t i, from = x->ncurve > MAX_ROWS ? x->ncurve - MAX_ROWS : 0;
	struct arena *a = out->arena;

	if (x->ncurve < 2) {
		return;
	}
	buf_printf(out, "\n%9s %9s %10s %10s %9s  %s\n", "in flight",
		   "ms/token", "first, ms", "tokens/s", "USD/M out", "split");
	for (i = from; i < x->ncurve; i++) {
		const struct serve_plan *p = &x->curve[i];

		buf_printf(out, "%9.0f %9.2f %10.1f %10s %9s  %s\n",
			   p->sequences * (double)p->split.replicas,
			   p->tpot_us / 1e3, p->ttft_us / 1e3,
			   serve_rate_text(p->tokens_s, 0, a),
			   in->asked->usd_h > 0
			   ? serve_number_text(usd_out(in, p), 3, a) : "-",
			   serve_split_text(&p->split, a));
	}
}

void
serve_print(const struct serve_answer_in *in, const struct serve_answer *x,
	    struct buf *out)
{
	const struct serve_plan *b = &x->best;
	struct arena *a = out->arena;

	print_head(in, out);
	buf_printf(out, "split      %s, the best of %u\n",
		   serve_split_text(&b->split, out->arena), x->tried);
	if (b->split.ep > 1) {
		buf_printf(out, "           ranks along ep have %s\n",
			   b->split.is_shared ? "the same sequences, each a "
			   "part of the experts"
			   : "sequences of their own; in a program of -o\n"
			   "           they have the same");
	}
	buf_printf(out, "batch      %.0f sequences in flight of a replica; "
		   "chunks of %.0f prompt tokens\n           in %.0f%% of the "
		   "steps\n", ceil(b->sequences), b->chunk, 100 * b->mixed);
	buf_printf(out, "alone      %.1f ms to the first token, %.2f ms for "
		   "each\n", b->alone_ttft_us / 1e3, b->alone_tpot_us / 1e3);
	buf_printf(out, "load       %.1f ms to the first token (p99 %.1f), "
		   "%.2f for each (p99 %.2f)\n", b->ttft_p50_us / 1e3,
		   b->ttft_p99_us / 1e3, b->tpot_p50_us / 1e3,
		   b->tpot_p99_us / 1e3);
	buf_printf(out, "rate       %s tokens/s out, %s of a device; "
		   "%s requests/s\n", serve_rate_text(b->tokens_s, 0, a),
		   serve_rate_text(b->tokens_s / (double)serve_devices(b), 1,
				   a),
		   serve_rate_text(b->requests_s, 2, a));
	print_time("decode", "a step of a stage", &b->decode, out);
	print_time("prefill", "a chunk of one prompt", &b->prefill, out);
	print_memory(b, x->program.tokens > 0, out);
	print_program(&x->program, out);
	print_host(&x->host, out);
	print_money(in, b, out);
	print_curve(in, x, out);
}

/* ---- JSON ---- */

static void
json_number(struct buf *out, const char *key, double v)
{
	buf_printf(out, ", \"%s\": ", key);
	buf_double(out, v);
}

/* Begins an object with its first number. */
static void
json_begin(struct buf *out, const char *indent, const char *name,
	   const char *key, double v)
{
	buf_printf(out, ",\n%s\"%s\": {\"%s\": ", indent, name, key);
	buf_double(out, v);
}

static void
json_time(struct buf *out, const char *key, const struct serve_time *t)
{
	int k;

	json_begin(out, "    ", key, "total_us", t->total_us);
	for (k = 0; k < SERVE_NTIMES; k++) {
		json_number(out, arena_printf(out->arena, "%s_us",
					      serve_time_names[k]), t->us[k]);
	}
	buf_putc(out, '}');
}

static void
json_plan(const struct serve_answer_in *in, const struct serve_plan *x,
	  struct buf *out)
{
	const struct serve_memory *m = &x->memory;

	buf_printf(out, "{\"tp\": %lld, \"pp\": %lld, \"ep\": %lld, "
		   "\"replicas\": %lld", (long long)x->split.tp,
		   (long long)x->split.pp, (long long)x->split.ep,
		   (long long)x->split.replicas);
	buf_printf(out, ", \"ep_shares_sequences\": %s",
		   x->split.is_shared ? "true" : "false");
	json_number(out, "sequences", x->sequences);
	json_number(out, "chunk", x->chunk);
	json_number(out, "steps_with_chunk", x->mixed);
	json_number(out, "tpot_us", x->tpot_us);
	json_number(out, "ttft_us", x->ttft_us);
	json_number(out, "hop_us", x->decode_us - x->decode.total_us);
	json_number(out, "alone_tpot_us", x->alone_tpot_us);
	json_number(out, "alone_ttft_us", x->alone_ttft_us);
	if (x->tpot_p50_us > 0) {
		json_number(out, "ttft_p50_us", x->ttft_p50_us);
		json_number(out, "ttft_p99_us", x->ttft_p99_us);
		json_number(out, "tpot_p50_us", x->tpot_p50_us);
		json_number(out, "tpot_p99_us", x->tpot_p99_us);
	}
	json_number(out, "tokens_s", x->tokens_s);
	json_number(out, "requests_s", x->requests_s);
	if (in->asked->usd_h > 0) {
		json_number(out, "usd_million_in", usd_in(in, x));
		json_number(out, "usd_million_out", usd_out(in, x));
		json_number(out, "tokens_usd", x->tokens_s / usd_s(in, x));
	}
	if (watts_of(in, x) > 0) {
		json_number(out, "power_w", watts_of(in, x));
		json_number(out, "joules_token", watts_of(in, x) /
						  x->tokens_s);
	}
	json_begin(out, "    ", "memory", "free_bytes", m->free);
	json_number(out, "weights_bytes", m->weights);
	json_number(out, "workspace_bytes", m->workspace);
	json_number(out, "token_bytes", m->token);
	json_number(out, "cache_tokens", m->tokens);
	buf_putc(out, '}');
	json_time(out, "decode", &x->decode);
	json_time(out, "prefill", &x->prefill);
	buf_putc(out, '}');
}

static void
json_text(struct buf *out, const char *comma, const char *key,
	  const char *text)
{
	buf_printf(out, "%s\"%s\": ", comma, key);
	buf_json(out, text, strlen(text));
}

/* Its best plan, or why there is none. */
static void
json_other(const struct serve_answer_in *in, const struct serve_other *other,
	   struct buf *out)
{
	const struct serve_answer *x = &other->answer;

	json_text(out, ",\n  \"why_not\": {", "keys", other->keys);
	if (x->fits) {
		buf_puts(out, ", \"best\": ");
		json_plan(in, &x->best, out);
	} else {
		json_text(out, ", ", "why", x->misfit.why);
		json_text(out, ", ", "change", x->misfit.change);
	}
	buf_putc(out, '}');
}

static void
json_program(const struct serve_made *x, struct buf *out)
{
	json_begin(out, "  ", "program", "tokens", x->tokens);
	json_number(out, "rows", x->rows);
	json_number(out, "keys", x->keys);
	json_number(out, "slots", x->slots);
	json_number(out, "weights_bytes", x->weights);
	json_number(out, "workspace_bytes", x->workspace);
	json_number(out, "cache_bytes", x->cache);
	json_number(out, "sequences", x->own.sequences);
	json_number(out, "tokens_s", x->own.tokens_s);
	json_number(out, "tpot_us", x->own.tpot_us);
	json_number(out, "needs_tokens", x->needs_tokens);
	json_number(out, "needs_rows", x->needs_rows);
	json_number(out, "needs_keys", x->needs_keys);
	buf_putc(out, '}');
}

/* The best plan and the curve. */
static void
json_answer(const struct serve_answer_in *in, const struct serve_answer *x,
	    struct buf *out)
{
	uint32_t i;

	buf_puts(out, ",\n  \"best\": ");
	json_plan(in, &x->best, out);
	json_begin(out, "  ", "host", "queues_bytes", x->host.queues);
	json_number(out, "steps_bytes", x->host.steps);
	json_number(out, "index_bytes", x->host.index);
	json_number(out, "client_bytes", x->host.client);
	buf_putc(out, '}');
	if (x->program.tokens > 0) {
		json_program(&x->program, out);
	}
	buf_puts(out, ",\n  \"curve\": [");
	for (i = 0; i < x->ncurve; i++) {
		buf_puts(out, i ? ",\n    " : "\n    ");
		json_plan(in, &x->curve[i], out);
	}
	buf_puts(out, "\n  ]");
}

void
serve_print_json(const struct serve_answer_in *in,
		 const struct serve_answer *x,
		 const struct serve_other *other, struct buf *out)
{
	const struct serve_asked *q = in->asked;

	json_text(out, "{\n  ", "model", ir_text(in->model->m->ctx,
						in->model->m->name));
	json_text(out, ",\n  ", "target", in->target->name);
	json_number(out, "parameters", (double)in->model->sums.total);
	json_number(out, "parameters_of_token",
		    (double)in->model->sums.active);
	json_number(out, "splits", x->tried);
	json_begin(out, "  ", "asked", "prompt", q->prompt);
	json_number(out, "output", q->output);
	json_number(out, "context", q->context);
	json_number(out, "ttft", q->ttft_s);
	json_number(out, "tpot", q->tpot_s);
	json_number(out, "rate", q->rate);
	json_text(out, ", ", "weights", format_name(q->weights));
	json_text(out, ", ", "cache", format_name(q->cache));
	json_text(out, ", ", "matmul", q->fp8 ? "f8e4m3" : "as declared");
	if (q->usd_h > 0) {
		json_number(out, "usd_device_hour", q->usd_h);
	}
	buf_puts(out, "}");
	json_answer(in, x, out);
	if (other) {
		json_other(in, other, out);
	}
	buf_puts(out, "\n}\n");
}

/*
 * The summary as text: exact whole numbers, each with a short form.  Flops are
 * whole numbers as long as a double holds them.
 */
#include "passes/pass.h"

#include <inttypes.h>
#include <string.h>

static const char *const group_names[GROUP_COUNT] = {
	"embedding", "attention", "mlp", "experts", "head", "other"
};

/* ---- for people ---- */

/* 70.55 B: three or more digits, and the unit of a step of 1000 or 1024. */
static void
add_short(struct buf *out, double v, double step, const char *const *units)
{
	while (v >= step * 0.99995 && units[1]) {
		v /= step;
		units++;
	}
	if (**units) {
		buf_printf(out, "%10.2f %s", v, *units);
	}
}

static const char *const count_units[] = { "", "K", "M", "B", "T", NULL };
static const char *const byte_units[] = { "", "KiB", "MiB", "GiB", "TiB",
					  "PiB", NULL };
static const char *const flop_units[] = { "", "KFLOP", "MFLOP", "GFLOP",
					  "TFLOP", "PFLOP", NULL };

static void
add_row(struct buf *out, const char *label, int64_t v, double step,
	const char *const *units)
{
	struct buf number;

	buf_init(&number, out->arena);
	buf_grouped(&number, v);
	buf_printf(out, "%-30s%24s", label, buf_text(&number));
	add_short(out, (double)v, step, units);
	buf_putc(out, '\n');
}

/* As a whole number if a double holds it exactly, else with 17 digits. */
static void
add_flops(struct buf *out, const char *label, double v)
{
	const double exact = 9007199254740992.0;	/* 2^53 */

	if (v < exact) {
		add_row(out, label, (int64_t)(v + 0.5), 1000, flop_units);
		return;
	}
	buf_printf(out, "%-30s%24.17g", label, v);
	add_short(out, v, 1000, flop_units);
	buf_putc(out, '\n');
}

static void
print_parameters(const struct pass_sums *s, struct buf *out)
{
	char label[32];
	int i;

	add_row(out, "parameters", s->total, 1000, count_units);
	for (i = 0; i < GROUP_COUNT; i++) {
		if (s->group[i]) {
			snprintf(label, sizeof label, "  %s", group_names[i]);
			add_row(out, label, s->group[i], 1000, count_units);
		}
	}
	if (s->active != s->total) {
		add_row(out, "  active for one token", s->active, 1000,
			count_units);
	}
	if (s->frozen) {
		add_row(out, "  trained", s->total - s->frozen, 1000,
			count_units);
	}
	if (s->state) {
		add_row(out, "kept but not trained", s->state, 1000,
			count_units);
	}
}

static void
print_flops(const struct pass_sums *s, struct buf *out)
{
	double forward = s->contraction_flops + s->attention_flops +
			 s->other_flops;

	if (s->tokens) {
		add_row(out, "tokens of a step", s->tokens, 1000,
			count_units);
	}
	add_flops(out, s->training ? "training step, per token"
		  : s->tokens ? "forward, per token" : "forward, per run",
		  forward);
	add_flops(out, "  contractions", s->contraction_flops);
	add_flops(out, "  attention", s->attention_flops);
	add_flops(out, "  all else", s->other_flops);
	if (!s->training) {
		add_flops(out, "forward and backward",
			  forward + s->backward_flops);
	}
}

static void
print_bytes(const struct pass_sums *s, struct buf *out)
{
	char label[64];

	add_row(out, "weights, bytes", s->weight_bytes, 1024, byte_units);
	if (s->state) {
		add_row(out, "kept state, bytes", s->state_bytes, 1024,
			byte_units);
	}
	if (s->training) {
		add_row(out, "saved by repeats, bytes", s->saved_bytes, 1024,
			byte_units);
	}
	add_row(out, "gradients, bytes", s->gradient_bytes, 1024, byte_units);
	if (!s->optimizer) {
		buf_puts(out, "optimizer                     none is set\n");
	} else if (!s->optimizer_known) {
		buf_printf(out, "optimizer                     %s is not "
			   "known here\n", s->optimizer);
	} else {
		snprintf(label, sizeof label, "%.12s state, bytes",
			 s->optimizer);
		add_row(out, label, s->optimizer_bytes, 1024, byte_units);
	}
}

static void
print_caches(const struct pass_sums *s, struct buf *out)
{
	const char *unit = s->tokens ? "token" : "run";
	char label[64];
	uint32_t i;

	for (i = 0; i < s->ncaches; i++) {
		const struct pass_cache *c = &s->cache[i];

		snprintf(label, sizeof label, "kv cache per %s, bytes", unit);
		add_row(out, label, c->bytes, 1024, byte_units);
		if (c->window) {
			buf_puts(out, "  (for the last ");
			buf_grouped(out, c->window);
			buf_puts(out, " tokens only)\n");
		}
	}
}

void
pass_print_sums(const struct ir_module *m, const struct pass_sums *s,
		struct buf *out)
{
	buf_printf(out, "model %s\n\n",
		   m->name ? ir_text(m->ctx, m->name) : "(unnamed)");
	print_parameters(s, out);
	buf_putc(out, '\n');
	print_flops(s, out);
	buf_putc(out, '\n');
	print_bytes(s, out);
	print_caches(s, out);
}

/* ---- for programs ---- */

static void
json_int(struct buf *out, const char *key, int64_t v)
{
	buf_printf(out, ",\n  \"%s\": %" PRId64, key, v);
}

static void
json_flops(struct buf *out, const char *key, double v)
{
	buf_printf(out, "%s\"%s\": ", strcmp(key, "contraction") ? ", " : "",
		   key);
	buf_double(out, v);
}

static void
json_caches(const struct pass_sums *s, struct buf *out)
{
	uint32_t i;

	buf_puts(out, ",\n  \"kv_cache\": [");
	for (i = 0; i < s->ncaches; i++) {
		buf_printf(out, "%s{\"bytes\": %" PRId64 ", \"window\": ",
			   i ? ", " : "", s->cache[i].bytes);
		if (s->cache[i].window) {
			buf_printf(out, "%" PRId64 "}", s->cache[i].window);
		} else {
			buf_puts(out, "null}");
		}
	}
	buf_puts(out, "]");
}

static void
json_optimizer(const struct pass_sums *s, struct buf *out)
{
	buf_puts(out, ",\n  \"optimizer\": ");
	if (s->optimizer) {
		buf_json(out, s->optimizer, strlen(s->optimizer));
	} else {
		buf_puts(out, "null");
	}
	if (s->optimizer_known) {
		json_int(out, "optimizer_bytes", s->optimizer_bytes);
	} else {
		buf_puts(out, ",\n  \"optimizer_bytes\": null");
	}
}

void
pass_print_sums_json(const struct ir_module *m, const struct pass_sums *s,
		     struct buf *out)
{
	const char *name = m->name ? ir_text(m->ctx, m->name) : "";
	int i;

	buf_puts(out, "{\n  \"model\": ");
	buf_json(out, name, strlen(name));
	json_int(out, "parameters", s->total);
	json_int(out, "active_parameters", s->active);
	json_int(out, "frozen_parameters", s->frozen);
	buf_puts(out, ",\n  \"groups\": {");
	for (i = 0; i < GROUP_COUNT; i++) {
		buf_printf(out, "%s\"%s\": %" PRId64, i ? ", " : "",
			   group_names[i], s->group[i]);
	}
	buf_putc(out, '}');
	json_int(out, "state_elems", s->state);
	json_int(out, "tokens", s->tokens);
	buf_printf(out, ",\n  \"flops_per_%s\": {",
		   s->tokens ? "token" : "run");
	json_flops(out, "contraction", s->contraction_flops);
	json_flops(out, "attention", s->attention_flops);
	json_flops(out, "other", s->other_flops);
	json_flops(out, "backward", s->backward_flops);
	buf_putc(out, '}');
	json_int(out, "weight_bytes", s->weight_bytes);
	json_int(out, "state_bytes", s->state_bytes);
	json_int(out, "gradient_bytes", s->gradient_bytes);
	json_int(out, "saved_bytes", s->saved_bytes);
	json_optimizer(s, out);
	json_caches(s, out);
	buf_puts(out, "\n}\n");
}

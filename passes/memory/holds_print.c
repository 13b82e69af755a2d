/*
 * What a rank holds, as text: a line per stage in one unit, and the fullest
 * rank to the byte; or all of it as JSON.
 */
#include "passes/pass.h"

#include <inttypes.h>
#include <string.h>

/* ---- for people ---- */

static void
print_stage(const struct pass_holds *h, uint32_t i, struct scale u,
	    struct buf *out)
{
	const struct pass_stage *s = &h->stage[i];

	buf_printf(out, "%5u %4u %6" PRId64 " %9.3f %9.3f %9.3f %9.3f %9.3f "
		   "%9.3f %6u\n", i, s->rank, s->layers,
		   (double)s->weights / u.size, (double)s->gradients / u.size,
		   (double)s->optimizer / u.size, (double)s->layer / u.size,
		   (double)s->saved / u.size, (double)s->around / u.size,
		   s->in_flight);
}

static void
add_row(struct buf *out, const char *label, int64_t bytes)
{
	struct scale u = unit_decimal_bytes((double)bytes);
	struct buf number;

	buf_init(&number, out->arena);
	buf_grouped(&number, bytes);
	buf_printf(out, "%-24s%24s%12.3f %s\n", label, buf_text(&number),
		   (double)bytes / u.size, u.name);
}

void
pass_print_holds(const struct ir_module *m, const struct pass_holds *h,
		 struct buf *out)
{
	const struct pass_rank *r = &h->rank[h->fullest];
	struct scale u = unit_decimal_bytes((double)r->total);
	uint32_t i;

	buf_printf(out, "model %s, ranks: %" PRId64 ", microbatches: %" PRId64
		   "\n\n", m->name ? ir_text(m->ctx, m->name) : "(unnamed)",
		   h->ranks, h->microbatches);
	buf_printf(out, "one rank of each stage, %s; saved for one "
		   "microbatch\nstage rank layers   weights gradients optimizer"
		   "  by layer by layers    around flight\n", u.name);
	for (i = 0; i < h->nstages; i++) {
		print_stage(h, i, u, out);
	}
	buf_printf(out, "\nfullest is rank %u of the pipeline, bytes\n",
		   h->fullest);
	add_row(out, "weights", r->weights);
	add_row(out, "gradients", r->gradients);
	add_row(out, "optimizer", r->optimizer);
	add_row(out, "activations", r->activations);
	add_row(out, "total", r->total);
	if (r->host) {
		add_row(out, "on the host, optimizer", r->host);
	}
}

/* ---- for programs ---- */

static void
json_int(struct buf *out, const char *key, int64_t v)
{
	buf_printf(out, ", \"%s\": %" PRId64, key, v);
}

static void
json_stage(const struct pass_holds *h, uint32_t i, struct buf *out)
{
	const struct pass_stage *s = &h->stage[i];

	buf_printf(out, "%s\n    {\"stage\": %u", i ? "," : "", i);
	json_int(out, "rank", s->rank);
	json_int(out, "layers", s->layers);
	json_int(out, "weight_bytes", s->weights);
	json_int(out, "gradient_bytes", s->gradients);
	json_int(out, "optimizer_bytes", s->optimizer);
	json_int(out, "host_bytes", s->host);
	json_int(out, "layer_saved_bytes", s->layer);
	json_int(out, "saved_bytes", s->saved);
	json_int(out, "around_bytes", s->around);
	json_int(out, "in_flight", s->in_flight);
	buf_putc(out, '}');
}

static void
json_rank(const struct pass_holds *h, uint32_t i, struct buf *out)
{
	const struct pass_rank *r = &h->rank[i];

	buf_printf(out, "%s\n    {\"rank\": %u", i ? "," : "", i);
	json_int(out, "stages", r->nstages);
	json_int(out, "weight_bytes", r->weights);
	json_int(out, "gradient_bytes", r->gradients);
	json_int(out, "optimizer_bytes", r->optimizer);
	json_int(out, "host_bytes", r->host);
	json_int(out, "activation_bytes", r->activations);
	json_int(out, "total_bytes", r->total);
	buf_putc(out, '}');
}

void
pass_print_holds_json(const struct ir_module *m, const struct pass_holds *h,
		      struct buf *out)
{
	const char *name = m->name ? ir_text(m->ctx, m->name) : "";
	uint32_t i;

	buf_puts(out, "{\n  \"model\": ");
	buf_json(out, name, strlen(name));
	buf_printf(out, ",\n  \"ranks\": %" PRId64 ",\n  \"microbatches\": %"
		   PRId64 ",\n  \"stages\": [", h->ranks, h->microbatches);
	for (i = 0; i < h->nstages; i++) {
		json_stage(h, i, out);
	}
	buf_puts(out, "\n  ],\n  \"pipeline\": [");
	for (i = 0; i < h->nranks; i++) {
		json_rank(h, i, out);
	}
	buf_printf(out, "\n  ],\n  \"fullest\": %u\n}\n", h->fullest);
}

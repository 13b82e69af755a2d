/*
 * A memory plan as text, for people and as JSON for programs, in two views:
 * by stage and for the fullest rank (--emit=memory), and by rank with every
 * buffer and its offset (--emit=arena).
 */
#include "passes/memory/memory.h"
#include "passes/plan/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST 12	/* buffers that the table names */

/* In the unit of the table. */
static double
in(struct scale u, int64_t bytes)
{
	return (double)bytes / u.size;
}

/* ---- what a buffer is ---- */

static const char *
func_name(const struct ir_module *m, func_id f)
{
	return f ? ir_text(m->ctx, m->funcs.at[f].name) : "";
}

static int64_t
all_of(const struct memory_buffer *b)
{
	return b->bytes * b->items * b->copies;
}

static node_id
maker_of(const struct ir_module *m, const struct memory_buffer *b)
{
	return b->value ? m->values.at[b->value].node : 0;
}

/* The name of what lies there, or the op that makes it. */
static void
put_what(const struct ir_module *m, const struct memory_buffer *b,
	 struct buf *out)
{
	sym_t hint = b->value ? m->values.at[b->value].hint : 0;
	node_id n = maker_of(m, b);

	if (b->name && b->kind != MEMORY_SAVES && b->kind != MEMORY_PIPELINE) {
		buf_puts(out, ir_text(m->ctx, b->name));
		return;
	}
	buf_puts(out, hint ? ir_text(m->ctx, hint)
		 : n ? ir_ops[ir_node(m, n)->op].name : "value");
	if (b->name) {
		buf_printf(out, " as %s", ir_text(m->ctx, b->name));
	}
}

/* ---- by stage ---- */

/* Iterations of the stage's outermost repeats. */
static int64_t
layers_of(const struct ranks *r, const struct memory *mem, uint32_t stage)
{
	const struct kernel_list *l =
		mem->kernels[r->of_stage[stage][SCHED_F]]->top;
	int64_t n = 0;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		n += l->at.at[i].body ? l->at.at[i].body->count : 0;
	}
	return n;
}

/* Bytes that one microbatch saves; from MEMORY_TOP on: outside of repeats. */
static int64_t
saved_by(const struct memory_stage *s, uint32_t from)
{
	int64_t bytes = 0;
	uint32_t k;

	for (k = 0; k < MEMORY_TOP; k++) {
		bytes += s->saves[from + k].bytes;
	}
	return bytes;
}

/* Microbatches of which the stage keeps something at once, at most. */
static uint32_t
in_flight(const struct memory_stage *s)
{
	uint32_t most = 0, k;

	for (k = 0; k < MEMORY_NSPANS; k++) {
		most = s->saves[k].slots > most ? s->saves[k].slots : most;
	}
	return most;
}

static const char *
model_name(const struct ranks *r)
{
	return r->m->name ? ir_text(r->m->ctx, r->m->name) : "";
}

static void
put_row(struct buf *out, const char *label, int64_t bytes)
{
	struct scale u = unit_decimal_bytes((double)bytes);
	struct buf number;

	buf_init(&number, out->arena);
	buf_grouped(&number, bytes);
	buf_printf(out, "%-24s%24s%12.3f %s\n", label, buf_text(&number),
		   in(u, bytes), u.name);
}

static const char *
drives_of(const struct memory *mem, uint32_t kind)
{
	return memory_on_drives(mem->offload, kind) ? "'s drives" : "";
}

static void
put_fullest(const struct memory *mem, struct buf *out)
{
	const struct memory_rank *x = &mem->rank[mem->fullest];
	uint32_t k;

	buf_printf(out, "\nfullest is rank %u of the pipeline, bytes\n",
		   mem->fullest);
	for (k = 0; k < MEMORY_NKINDS; k++) {
		if (x->by[k] || !x->away[k]) {
			put_row(out, memory_kind_names[k], x->by[k]);
		}
	}
	if (x->reserve) {
		put_row(out, "reserve", x->reserve);
	}
	put_row(out, "total", x->total);
	for (k = 0; k < MEMORY_NKINDS; k++) {
		if (x->away[k]) {
			put_row(out, arena_printf(out->arena, "on the host%s, "
						  "%s", drives_of(mem, k),
						  memory_kind_names[k]),
				x->away[k]);
		}
	}
}

void
memory_print_stages(const struct ranks *r, const struct memory *mem,
		    struct buf *out)
{
	struct scale u = unit_decimal_bytes((double)
					    mem->rank[mem->fullest].total);
	const char *name = model_name(r);
	uint32_t i, k;

	buf_printf(out, "model %s, ranks: %u, microbatches: %u\n\n",
		   *name ? name : "(unnamed)", r->nranks, r->nmicrobatches);
	buf_printf(out, "one rank of each stage, %s; saved for one microbatch, "
		   "in layers and outside\nstage rank layers   weights "
		   "gradients optimizer in layers   outside flight\n", u.name);
	for (i = 0; i < mem->nstages; i++) {
		const struct memory_stage *s = &mem->stage[i];

		buf_printf(out, "%5u %4u %6" PRId64, i, s->rank,
			   layers_of(r, mem, i));
		for (k = MEMORY_WEIGHTS; k <= MEMORY_OPTIMIZER; k++) {
			buf_printf(out, " %9.3f", in(u, s->fixed[k]));
		}
		buf_printf(out, " %9.3f %9.3f %6u\n", in(u, saved_by(s, 0)),
			   in(u, saved_by(s, MEMORY_TOP)), in_flight(s));
	}
	put_fullest(mem, out);
}

static void
json_int(struct buf *out, const char *key, int64_t v)
{
	buf_printf(out, ", \"%s\": %" PRId64, key, v);
}

/* Tensors of the first three kinds on the device, and `away` on the host. */
static void
json_tensors(const int64_t *by, int64_t away, struct buf *out)
{
	static const char *const keys[] = {
		"weight_bytes", "gradient_bytes", "optimizer_bytes"
	};
	uint32_t k;

	for (k = MEMORY_WEIGHTS; k <= MEMORY_OPTIMIZER; k++) {
		json_int(out, keys[k], by[k]);
	}
	json_int(out, "host_bytes", away);
}

static void
json_stage_tensors(const struct memory *mem, const struct memory_stage *s,
		   struct buf *out)
{
	int64_t by[MEMORY_PIPELINE], away = 0;
	uint32_t k;

	for (k = 0; k < MEMORY_PIPELINE; k++) {
		int64_t less = k == MEMORY_OPTIMIZER
			? mem->offload & PLAN_OFFLOAD_OPTIMIZER ? s->fixed[k]
								: 0
			: k < MEMORY_OPTIMIZER &&
			  mem->offload & PLAN_OFFLOAD_PARAMS ? s->in_layers[k]
							     : 0;

		by[k] = s->fixed[k] - less;
		away += less;
	}
	json_tensors(by, away, out);
}

static int64_t
stages_of(const struct memory *mem, uint32_t rank)
{
	int64_t n = 0;
	uint32_t i;

	for (i = 0; i < mem->nstages; i++) {
		n += mem->stage[i].rank == rank;
	}
	return n;
}

void
memory_print_stages_json(const struct ranks *r, const struct memory *mem,
			 struct buf *out)
{
	const char *name = model_name(r);
	uint32_t i;

	buf_puts(out, "{\n  \"model\": ");
	buf_json(out, name, strlen(name));
	buf_printf(out, ",\n  \"ranks\": %u,\n  \"microbatches\": %u,\n"
		   "  \"stages\": [", r->nranks, r->nmicrobatches);
	for (i = 0; i < mem->nstages; i++) {
		const struct memory_stage *s = &mem->stage[i];

		buf_printf(out, "%s\n    {\"stage\": %u", i ? "," : "", i);
		json_int(out, "rank", s->rank);
		json_int(out, "layers", layers_of(r, mem, i));
		json_stage_tensors(mem, s, out);
		json_int(out, "saved_bytes", saved_by(s, 0));
		json_int(out, "outside_bytes", saved_by(s, MEMORY_TOP));
		json_int(out, "in_flight", in_flight(s));
		buf_putc(out, '}');
	}
	buf_puts(out, "\n  ],\n  \"pipeline\": [");
	for (i = 0; i < mem->nranks; i++) {
		const struct memory_rank *x = &mem->rank[i];

		buf_printf(out, "%s\n    {\"rank\": %u", i ? "," : "", i);
		json_int(out, "stages", stages_of(mem, i));
		json_tensors(x->by, x->host + x->drives, out);
		json_int(out, "other_bytes", x->by[MEMORY_OTHER]);
		json_int(out, "pipeline_bytes", x->by[MEMORY_PIPELINE]);
		json_int(out, "saved_bytes", x->by[MEMORY_SAVES]);
		json_int(out, "temp_bytes", x->by[MEMORY_TEMPS]);
		json_int(out, "reserve_bytes", x->reserve);
		json_int(out, "total_bytes", x->total);
		buf_putc(out, '}');
	}
	buf_printf(out, "\n  ],\n  \"fullest\": %u\n}\n", mem->fullest);
}

/* ---- by rank, for people ---- */

/* A line about what layers have there of some kinds. */
static void
put_layers(const char *what, const char *drives, struct buf *out)
{
	buf_printf(out, "# %s of layers lie on the host%s, and are not here; "
		   "temps have a window of two layers\n", what, drives);
}

static void
put_ranks(const struct memory *mem, struct scale u, struct buf *out)
{
	uint32_t i, k;

	buf_puts(out, "rank");
	for (k = 0; k < MEMORY_NKINDS; k++) {
		buf_printf(out, " %9s", memory_kind_names[k]);
	}
	buf_puts(out, "   reserve     total     bound   gap\n");
	if (mem->offload & PLAN_OFFLOAD_OPTIMIZER) {
		buf_printf(out, "# optimizer lies on the host%s, and is not "
			   "here\n", drives_of(mem, MEMORY_OPTIMIZER));
	}
	if (mem->offload & PLAN_OFFLOAD_PARAMS) {
		put_layers("weights and gradients",
			   drives_of(mem, MEMORY_WEIGHTS), out);
	}
	if (mem->offload & PLAN_OFFLOAD_SAVES) {
		put_layers("saves", "", out);
	}
	for (i = 0; i < mem->nranks; i++) {
		const struct memory_rank *r = &mem->rank[i];

		buf_printf(out, "%4u", i);
		for (k = 0; k < MEMORY_NKINDS; k++) {
			buf_printf(out, " %9.3f", in(u, r->by[k]));
		}
		buf_printf(out, " %9.3f %9.3f %9.3f %5.1f%%\n",
			   in(u, r->reserve), in(u, r->total), in(u, r->bound),
			   r->bound ? 100.0 * (double)(r->total - r->bound) /
				      (double)r->bound : 0);
	}
}

/* Bytes and slots of one span, in repeats and outside. */
static int64_t
slot_bytes(const struct memory_stage *s, uint32_t span, uint32_t *slots)
{
	*slots = s->saves[span].slots > s->saves[MEMORY_TOP + span].slots
		? s->saves[span].slots : s->saves[MEMORY_TOP + span].slots;
	return s->saves[span].bytes + s->saves[MEMORY_TOP + span].bytes;
}

static void
put_stages(const struct ranks *r, const struct memory *mem, struct scale u,
	   struct buf *out)
{
	uint32_t i, k, slots;

	buf_puts(out, "\nsaves of a microbatch x microbatches; what is sent; "
		 "the most temps\nstage rank    to backward      to weights"
		 "         between       sent     temps in\n");
	for (i = 0; i < mem->nstages; i++) {
		const struct memory_stage *s = &mem->stage[i];
		const struct memory_func *most = &s->func[0];

		buf_printf(out, "%5u %4u", i, s->rank);
		for (k = 0; k < MEMORY_TOP; k++) {
			double bytes = in(u, slot_bytes(s, k, &slots));

			buf_printf(out, " %9.3f x%-4u", bytes, slots);
		}
		for (k = 1; k < SCHED_NKINDS; k++) {
			most = s->func[k].bytes > most->bytes ? &s->func[k]
							      : most;
		}
		buf_printf(out, " %9.3f %9.3f %s\n", in(u, s->pipeline),
			   in(u, most->bytes), func_name(r->m, most->func));
	}
}

static int
by_size(const void *x, const void *y)
{
	const struct memory_buffer *a = *(const void *const *)x;
	const struct memory_buffer *b = *(const void *const *)y;
	int64_t p = all_of(a), q = all_of(b);

	return p != q ? (p < q) - (p > q) : (a > b) - (a < b);
}

/* Buffers of the fullest rank; of temps, those of the function with most. */
static void
put_largest(const struct ranks *r, const struct memory *mem, struct buf *out)
{
	const struct memory_rank *x = &mem->rank[mem->fullest];
	const struct memory_buffer **at = arena_alloc(out->arena,
		(mem->buffers.n + 1) * sizeof *at);
	uint32_t i, n = 0;

	for (i = 0; i < mem->buffers.n; i++) {
		const struct memory_buffer *b = &mem->buffers.at[i];

		if (b->pipe == mem->fullest && (b->kind != MEMORY_TEMPS ||
						b->func == x->peak.func)) {
			at[n++] = b;
		}
	}
	qsort(at, n, sizeof *at, by_size);
	buf_puts(out, "\nlargest        offset            bytes\n");
	for (i = 0; i < n && i < LARGEST; i++) {
		buf_printf(out, "%-9s %#11" PRIx64 " %16" PRId64 "  ",
			   memory_kind_names[at[i]->kind],
			   (uint64_t)at[i]->offset, all_of(at[i]));
		if (at[i]->items * at[i]->copies > 1) {
			buf_printf(out, "%" PRId64 " of %" PRId64 ": ",
				   at[i]->items * at[i]->copies,
				   at[i]->bytes);
		}
		put_what(r->m, at[i], out);
		if (at[i]->kind == MEMORY_TEMPS) {
			buf_printf(out, ", %s", func_name(r->m, at[i]->func));
		}
		buf_putc(out, '\n');
	}
}

static void
put_peak(const struct ranks *r, const struct memory *mem, struct buf *out)
{
	const struct memory_rank *x = &mem->rank[mem->fullest];
	const struct memory_func *f = &x->peak;
	const struct ir_node *n = ir_node(r->m, f->at_node);

	buf_printf(out, "\nfullest is rank %u of the pipeline, %" PRId64
		   " bytes\n", mem->fullest, x->total);
	if (f->func && f->at_node) {
		buf_printf(out, "its temps are largest in %s, at `%s`: %" PRId64
			   " bytes, and %" PRId64 " live at once\n",
			   func_name(r->m, f->func), ir_ops[n->op].name,
			   f->bytes, f->bound);
	}
}

void
memory_print(const struct ranks *r, const struct memory *mem, struct buf *out)
{
	double memory_bytes = (double)mem->rank[mem->fullest].device;
	double total = (double)mem->rank[mem->fullest].total;
	struct scale u = unit_bytes(total);

	buf_printf(out, "arena of each rank of the pipeline, %s\n", u.name);
	put_ranks(mem, u, out);
	put_stages(r, mem, u, out);
	put_peak(r, mem, out);
	if (memory_bytes > 0) {
		buf_printf(out, "of %.0f bytes that a device has: %s by %s\n",
			   memory_bytes, total <= memory_bytes ? "it fits"
							       : "too much",
			   unit_text(out->arena, fabs(memory_bytes - total)));
	}
	put_largest(r, mem, out);
}

/* ---- by rank, for programs ---- */

static void
json_rank(const struct ranks *r, const struct memory *mem, uint32_t i,
	  struct buf *out)
{
	const struct memory_rank *x = &mem->rank[i];
	uint32_t k;

	buf_printf(out, "%s\n    {\"rank\": %u", i ? "," : "", i);
	for (k = 0; k < MEMORY_NKINDS; k++) {
		buf_printf(out, ", \"%s_bytes\": %" PRId64,
			   memory_kind_names[k], x->by[k]);
	}
	json_int(out, "reserve_bytes", x->reserve);
	json_int(out, "total_bytes", x->total);
	json_int(out, "bound_bytes", x->bound);
	buf_printf(out, ", \"peak\": \"%s\"}", func_name(r->m, x->peak.func));
}

static void
json_stage(const struct memory *mem, uint32_t i, struct buf *out)
{
	static const char *const names[MEMORY_TOP] = {
		"to_input", "to_weights", "between"
	};
	const struct memory_stage *s = &mem->stage[i];
	uint32_t k, slots;

	buf_printf(out, "%s\n    {\"stage\": %u, \"rank\": %u", i ? "," : "",
		   i, s->rank);
	for (k = 0; k < MEMORY_PIPELINE; k++) {
		buf_printf(out, ", \"%s_bytes\": %" PRId64,
			   memory_kind_names[k], s->fixed[k]);
	}
	for (k = 0; k < MEMORY_TOP; k++) {
		int64_t bytes = slot_bytes(s, k, &slots);

		buf_printf(out, ", \"%s_bytes\": %" PRId64
			   ", \"%s_slots\": %u", names[k], bytes, names[k],
			   slots);
	}
	json_int(out, "pipeline_bytes", s->pipeline);
	for (k = 0; k < SCHED_NKINDS; k++) {
		buf_printf(out, ", \"temps_%s_bytes\": %" PRId64,
			   sched_kinds[k].letter, s->func[k].bytes);
	}
	buf_putc(out, '}');
}

static void
json_buffer(const struct ranks *r, const struct memory *mem, uint32_t i,
	    struct buf *out)
{
	const struct memory_buffer *b = &mem->buffers.at[i];
	struct buf what;

	buf_init(&what, out->arena);
	put_what(r->m, b, &what);
	buf_printf(out, "%s\n    {\"rank\": %u, \"kind\": \"%s\", \"what\": ",
		   i ? "," : "", b->pipe, memory_kind_names[b->kind]);
	buf_json(out, buf_text(&what), what.n);
	if (b->stage != UINT32_MAX) {
		json_int(out, "stage", b->stage);
	}
	if (b->func) {
		buf_printf(out, ", \"func\": \"%s\"",
			   func_name(r->m, b->func));
	}
	json_int(out, "offset", b->offset);
	json_int(out, "bytes", b->bytes);
	json_int(out, "items", b->items);
	json_int(out, "copies", b->copies);
	json_int(out, "apart", b->apart);
	if (b->kind == MEMORY_TEMPS) {
		json_int(out, "first", b->from);
		json_int(out, "last", b->to);
	}
	buf_putc(out, '}');
}

void
memory_print_json(const struct ranks *r, const struct memory *mem,
		  struct buf *out)
{
	uint32_t i;

	buf_printf(out, "{\n  \"align\": %d,\n  \"fullest\": %u,\n"
		   "  \"ranks\": [", MEMORY_ALIGN, mem->fullest);
	for (i = 0; i < mem->nranks; i++) {
		json_rank(r, mem, i, out);
	}
	buf_puts(out, "\n  ],\n  \"stages\": [");
	for (i = 0; i < mem->nstages; i++) {
		json_stage(mem, i, out);
	}
	buf_puts(out, "\n  ],\n  \"buffers\": [");
	for (i = 0; i < mem->buffers.n; i++) {
		json_buffer(r, mem, i, out);
	}
	buf_puts(out, "\n  ]\n}\n");
}

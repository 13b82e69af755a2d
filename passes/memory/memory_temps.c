/*
 * The values of one function: when each is made and last read, where it lies,
 * and the offsets of its temps.  Steps count launches in running order, those
 * inside a repeat once, since its temps have the same addresses in each
 * iteration.  A value from outside of a repeat that is read inside lives to the
 * repeat's end.
 */
#include "passes/memory/memory_parts.h"

/* ---- steps ---- */

static struct memory_frame *
number_steps(struct memory_work *w, const struct kernel_list *l,
	     const struct ir_node *repeat, struct memory_frame *outer,
	     uint32_t *step)
{
	struct memory_frame *f = arena_alloc(&w->tmp, sizeof *f);
	uint32_t n = l->at.n, i, k;

	*f = (struct memory_frame){ .list = l, .repeat = repeat,
				    .outer = outer };
	f->depth = outer ? outer->depth + 1 : 0;
	f->step = arena_alloc(&w->tmp, n * sizeof *f->step);
	f->inner = arena_alloc(&w->tmp, n * sizeof *f->inner);
	f->begin = (*step)++;
	for (i = 0; i < n; i++) {
		const struct kernel *x = &l->at.at[i];

		f->step[i] = kernel_follows(x) ? f->step[i - 1] : *step;
		if (x->kind == KERNEL_CALL) {
			w->why = "a function calls another";
		}
		if (x->kind == KERNEL_REPEAT) {
			f->inner[i] = number_steps(w, x->body, ir_node(w->m,
				x->nodes.at[0]), f, step);
		} else if (!kernel_follows(x)) {
			(*step)++;
		}
		for (k = 0; k < x->outputs.n; k++) {
			value_id v = x->outputs.at[k].value;

			w->frame[v] = f;
			w->fresh[v] = true;
			w->def[v] = w->last[v] = f->step[i];
		}
	}
	f->end = (*step)++;
	return f;
}

/* Parameters and results of repeats, whether or not they are read. */
static void
number_carried(struct memory_work *w, struct memory_frame *f)
{
	const struct ir_region *r = &w->m->regions.at[f->list->region];
	uint32_t i;

	for (i = 0; f->repeat && i < f->repeat->nargs; i++) {
		value_id p = r->params.at[i], v = f->repeat->result + i;

		w->frame[p] = f;
		w->def[p] = w->last[p] = f->begin;
		w->frame[v] = f->outer;
		w->fresh[v] = true;
		w->def[v] = w->last[v] = f->begin;
	}
	for (i = 0; i < f->list->at.n; i++) {
		if (f->inner[i]) {
			number_carried(w, f->inner[i]);
		}
	}
}

static void
read_at(struct memory_work *w, value_id v, uint32_t step,
	const struct memory_frame *f)
{
	if (!w->frame[v]) {
		return;
	}
	while (f != w->frame[v]) {
		step = f->end;
		f = f->outer;
		if (!f) {
			die("a value is read outside of its region");
		}
	}
	w->last[v] = step > w->last[v] ? step : w->last[v];
}

static void
find_reads(struct memory_work *w, const struct memory_frame *f)
{
	const struct ir_region *r = &w->m->regions.at[f->list->region];
	uint32_t i, k;

	for (i = 0; i < f->list->free.n; i++) {
		const struct ir_node *n = ir_node(w->m, f->list->free.at[i]);

		if (n->nargs && n->nresults) {
			w->viewed[ir_args(w->m, n)[0]] = true;
		}
	}
	for (i = 0; i < f->list->at.n; i++) {
		const struct kernel *x = &f->list->at.at[i];

		for (k = 0; k < x->inputs.n; k++) {
			read_at(w, x->inputs.at[k].value,
				f->step[x->until ? x->until : i], f);
		}
		if (f->inner[i]) {
			find_reads(w, f->inner[i]);
		}
	}
	for (i = 0; i < r->results.n; i++) {
		read_at(w, r->results.at[i], f->end, f);
	}
}

/*
 * The first iteration reads an initial value where it was made, unless each
 * iteration saves the carried value: then it is copied to a save.  It lives to
 * the repeat's end if there are several iterations, since all have the same
 * steps.
 */
static void
read_inits(struct memory_work *w, struct memory_frame *f)
{
	uint32_t i, k;

	for (i = 0; i < f->list->at.n; i++) {
		struct memory_frame *in = f->inner[i];
		const struct ir_region *r;

		if (!in) {
			continue;
		}
		read_inits(w, in);
		r = &w->m->regions.at[in->list->region];
		in->dying = arena_alloc(&w->tmp, in->repeat->nargs + 1u);
		for (k = 0; k < in->repeat->nargs; k++) {
			value_id v = ir_args(w->m, in->repeat)[k];

			in->dying[k] = w->frame[v] == f && w->fresh[v] &&
				       w->last[v] == in->begin;
		}
		for (k = 0; k < in->repeat->nargs; k++) {
			if (!memory_is_placed(w, r->params.at[k])) {
				read_at(w, ir_args(w->m, in->repeat)[k],
					memory_count(w->m, in->repeat) > 1
					? in->end : w->last[r->params.at[k]],
					f);
			}
		}
	}
}

/* ---- values that are no temps ---- */

/* A value that replaces a tensor is made where the tensor lies. */
static void
place_stores(struct memory_work *w, const struct memory_frame *f)
{
	uint32_t i, k;

	for (i = 0; i < f->list->at.n; i++) {
		const struct kernel *x = &f->list->at.at[i];

		for (k = 0; k < x->nodes.n; k++) {
			node_id id = x->nodes.at[k];
			const struct ir_node *n = ir_node(w->m, id);
			value_id v;

			if (!ir_is(n->op, IRF_SINK) || ir_is(n->op, IRF_PEER) ||
			    ir_ops[n->op].flops[0]) {
				continue;
			}
			v = ir_args(w->m, n)[0];
			if (w->frame[v] == f && w->fresh[v] &&
			    w->def[v] == f->step[i] &&
			    !memory_is_placed(w, v)) {
				w->out->value[v].buffer = w->of_node[id];
			}
		}
		if (f->inner[i]) {
			place_stores(w, f->inner[i]);
		}
	}
}

/*
 * A sent value waits where it lies, if nothing overwrites that before the
 * receiver has it; else in a buffer of its own.
 */
static void
place_send(struct memory_work *w, node_id id, value_id base)
{
	const struct ir_node *n = ir_node(w->m, id);
	struct memory_value *at = &w->out->value[base];
	struct memory_send x = {
		.node = id, .value = base, .stage = w->stage,
		.to = (uint32_t)ir_attr_int(w->m, n, IR_ATTR_STAGE, 0)
	};
	bool keeps = at->buffer &&
		     (memory_at(w, at->buffer - 1)->kind != MEMORY_SAVES ||
		      w->kind == SCHED_F);

	if (!keeps) {
		bool open = !at->buffer && w->fresh[base];
		uint32_t b = memory_add(w, MEMORY_PIPELINE, memory_bytes(w,
			open ? base : ir_args(w->m, n)[0]));

		memory_at(w, b)->value = open ? base : 0;
		memory_at(w, b)->name =
			ir_attr(w->m, n, IR_ATTR_NAME)->text;
		x.buffer = b + 1;
		x.staged = !open;
		at->buffer = open ? b + 1 : at->buffer;
	}
	VEC_PUSH(w->a, &w->out->sends, x);
}

static void
place_sends(struct memory_work *w)
{
	const struct kernel_list *l = w->top->list;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *x = &l->at.at[i];
		const struct ir_node *n = ir_node(w->m, x->nodes.at[0]);

		if (ir_is(n->op, IRF_PEER) && ir_is(n->op, IRF_SINK) &&
		    x->inputs.n) {
			place_send(w, x->nodes.at[0], x->inputs.at[0].value);
		}
	}
}

/* Results of the function; those of a stage once for each microbatch. */
static void
place_results(struct memory_work *w)
{
	const struct ir_region *r =
		&w->m->regions.at[w->m->funcs.at[w->func].body];
	uint32_t i, b;

	for (i = 0; i < r->results.n; i++) {
		value_id v = r->results.at[i];

		b = memory_add(w, MEMORY_OTHER, memory_bytes(w, v));
		memory_at(w, b)->value = v;
		if (w->stage != UINT32_MAX) {
			memory_at(w, b)->copies = w->r->nmicrobatches;
		}
		memory_at(w, b)->apart = memory_at(w, b)->bytes;
		if (w->fresh[v] && !memory_is_placed(w, v)) {
			w->out->value[v].buffer = b + 1;
		}
	}
}

/* ---- temps ---- */

static void
place_temp(struct memory_work *w, value_id v, uint32_t from, uint32_t to)
{
	w->out->value[v].buffer = memory_add_temp(w, v, from, to) + 1;
}

/* Places `made` over an input of its kernel that nothing reads later.  Of a
 * launch of several, another may still read it. */
static bool
place_in_input(struct memory_work *w, const struct kernel *x, uint32_t step,
	       const struct memory_frame *f, value_id made)
{
	uint32_t i;

	for (i = 0; i < x->inputs.n && !x->launch; i++) {
		value_id v = x->inputs.at[i].value;
		uint32_t b = w->out->value[v].buffer;

		if (b && w->fresh[v] && w->frame[v] == f &&
		    w->last[v] == step &&
		    memory_at(w, b - 1)->kind == MEMORY_TEMPS &&
		    memory_at(w, b - 1)->to == step &&
		    memory_in_place(w, x, v, made)) {
			memory_at(w, b - 1)->to = w->last[made];
			w->out->value[made].buffer = b;
			return true;
		}
	}
	return false;
}

static void
place_result(struct memory_work *w, const struct memory_frame *body, uint32_t k)
{
	const struct ir_region *r = &w->m->regions.at[body->list->region];
	value_id v = body->repeat->result + k, made = r->results.at[k];
	uint32_t last = w->last[v] > body->end ? w->last[v] : body->end;

	if (!memory_is_placed(w, v)) {
		place_temp(w, v, w->out->value[made].role == MEMORY_MADE
			 ? w->def[made] : body->end, last);
	}
}

static void
place_temps(struct memory_work *w, const struct memory_frame *f)
{
	uint32_t i, k;

	for (i = 0; i < f->list->at.n; i++) {
		const struct kernel *x = &f->list->at.at[i];

		if (f->inner[i]) {
			place_temps(w, f->inner[i]);
			for (k = 0; k < f->inner[i]->repeat->nargs; k++) {
				place_result(w, f->inner[i], k);
			}
			continue;
		}
		for (k = 0; k < x->outputs.n; k++) {
			value_id v = x->outputs.at[k].value;

			if (!memory_is_placed(w, v) &&
			    !place_in_input(w, x, f->step[i], f, v)) {
				place_temp(w, v, w->def[v], w->last[v]);
			}
		}
	}
}

/* ---- the function ---- */

static node_id
node_at(const struct memory_frame *f, uint32_t step)
{
	uint32_t i;

	for (i = f->list->at.n; i-- > 0; ) {
		if (f->step[i] <= step) {
			return f->inner[i] && f->inner[i]->end >= step
				? node_at(f->inner[i], step)
				: f->list->at.at[i].nodes.at[0];
		}
	}
	return 0;
}

/* Sets the most bytes of temps that are alive at once, and their offsets. */
static void
pack_temps(struct memory_work *w, struct memory_func *out)
{
	uint32_t n = w->out->buffers.n - w->first_buffer, i, count = 0;
	struct memory_block *b = arena_alloc(&w->tmp, (n + 1) * sizeof *b);
	uint32_t *of = arena_alloc(&w->tmp, (n + 1) * sizeof *of);

	for (i = w->first_buffer; i < w->out->buffers.n; i++) {
		const struct memory_buffer *x = memory_at(w, i);

		if (x->kind == MEMORY_TEMPS) {
			of[count] = i;
			b[count++] = (struct memory_block){
				x->bytes * x->items, x->from, x->to, 0
			};
		}
	}
	out->func = w->func;
	out->bound = memory_bound(&w->tmp, b, count, &out->at_step);
	out->at_node = count ? node_at(w->top, out->at_step) : 0;
	if (!w->packs) {
		return;
	}
	out->bytes = memory_pack(w->r->memo, &w->tmp, b, count);
	for (i = 0; i < count; i++) {
		memory_at(w, of[i])->offset = b[i].offset;
	}
}

void
memory_function(struct memory_work *w, struct memory_func *out)
{
	uint32_t step = 0;

	w->first_buffer = w->out->buffers.n;
	w->top = number_steps(w, w->out->kernels[w->func]->top, NULL, NULL,
			      &step);
	number_carried(w, w->top);
	find_reads(w, w->top);
	if (w->why) {
		return;
	}
	memory_saves(w);
	if (w->why) {
		return;
	}
	read_inits(w, w->top);
	place_stores(w, w->top);
	place_sends(w);
	place_results(w);
	memory_carries(w);
	place_temps(w, w->top);
	pack_temps(w, out);
}

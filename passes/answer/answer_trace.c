/*
 * A priced step as a trace for Perfetto: --trace.  One process is one place in
 * the pipeline, named for its first rank, since the other ranks of the place
 * run the same program.  Its threads are the queues of struct queue_row below;
 * `rank bench --trace` writes measured steps with the same names
 * (runtime/train/trace.c).
 *
 * The kernels of a function are laid out once, from 0 on, and repeated for each
 * of its microbatches.  They have the times of price.c: of a list in which
 * collectives run beside kernels, all slices are longer by the same factor, as
 * such kernels are slower (PRICE_SLOWED).
 */
#include "passes/answer/answer.h"

#include <math.h>
#include <string.h>

enum queue {
	QUEUE_SCHEDULE, QUEUE_KERNELS, QUEUE_COLLECTIVES, QUEUE_TRANSFERS,
	NQUEUES
};

static const char *const queues[NQUEUES] = {
	"schedule", "kernels", "collectives", "transfers"
};

struct trace_slice {
	double begin_us, end_us;
	const char *name;
	enum queue queue;
};

struct layout {
	VEC(struct trace_slice) at;
	double us;
};

struct tracer {
	struct pricing p;
	const struct price *price;
	struct kernels *const *all;
	struct arena *a;
	struct buf *out;
	uint32_t pid;
	uint32_t nevents;
	/* microbatches whose actions, and whose kernels, are in the trace */
	uint32_t actions, kernels;
	bool updates;		/* kernels of updates are in it */
};

/* ---- kernels of a function ---- */

/* One run of it; repeats are written out. */
static double
count_slices(const struct kernel_list *l)
{
	double n = 0;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		n += l->at.at[i].body ? count_slices(l->at.at[i].body) : 1;
	}
	return n * (double)l->count;
}

static double
count_function(const struct tracer *x, func_id f)
{
	return f && x->all[f] ? count_slices(x->all[f]->top) : 0;
}

static struct trace_slice
slice_of(struct tracer *x, const struct kernel *k)
{
	struct kernel part;
	struct buf wide;

	if (k->kind == KERNEL_COLLECTIVE) {
		return (struct trace_slice){
			.name = kernel_comm_text(x->p.m, k, x->a),
			.queue = QUEUE_COLLECTIVES
		};
	}
	if (k->parts) {
		parts_kernel(x->p.m, k, x->a, &part);
		k = &part;
	}
	buf_init(&wide, x->a);
	kernel_print(x->p.m, k, &wide);
	return (struct trace_slice){
		.name = kernel_squeezed(buf_text(&wide), x->a),
		.queue = QUEUE_KERNELS
	};
}

/* Adds the slices of `from`, which take from->us, so that they fill a time. */
static void
add_stretched(struct tracer *x, const struct layout *from, double begin_us,
	      double end_us, struct layout *to)
{
	double by = from->us > 0 ? (end_us - begin_us) / from->us : 0;
	uint32_t i;

	for (i = 0; i < from->at.n; i++) {
		struct trace_slice s = from->at.at[i];

		s.begin_us = begin_us + by * s.begin_us;
		s.end_us = begin_us + by * s.end_us;
		VEC_PUSH(x->a, &to->at, s);
	}
}

/* A kernel, or all iterations of a repeat, of which `body` is one. */
static void
add_kernel(struct tracer *x, const struct kernel *k, const struct layout *body,
	   double begin_us, double end_us, struct layout *to)
{
	struct trace_slice s;
	int64_t i, n;

	if (end_us <= begin_us) {
		return;		/* sends are priced with the schedule */
	}
	if (!k->body) {
		s = slice_of(x, k);
		s.begin_us = begin_us;
		s.end_us = end_us;
		VEC_PUSH(x->a, &to->at, s);
		return;
	}
	n = k->body->count;
	for (i = 0; i < n; i++) {
		double us = (end_us - begin_us) / (double)n;

		add_stretched(x, body, begin_us + us * (double)i,
			      begin_us + us * (double)(i + 1), to);
	}
}

/* One after the other. */
static void
lay_in_turn(struct tracer *x, const struct kernel_list *l,
	    const struct price_func *each, const struct layout *bodies,
	    struct layout *out)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];
		double us = k->body ? bodies[i].us * (double)k->body->count
				    : each[i].total_us;

		add_kernel(x, k, &bodies[i], out->us, out->us + us, out);
		out->us += us;
	}
}

/*
 * As the clocks of price_run.c go: *c has run all kernels before the i-th, and
 * runs it.
 */
static void
lay_beside(struct tracer *x, const struct kernel_list *l,
	   const struct price_func *each, const struct layout *bodies,
	   struct price_clocks *c, struct layout *out)
{
	const struct kernel *k = &l->at.at[c->at];
	double us = each[c->at].total_us, coll = c->coll;
	double begin = fmax(c->now, c->end[c->at]);
	uint32_t i = c->at;

	price_clocks_run(c, &x->p, l, each, i + 1);
	if (k->kind == KERNEL_COLLECTIVE) {
		if (!k->parts || !parts_led(l, i)) {
			add_kernel(x, k, NULL, c->coll - us, c->coll, out);
		}
		return;
	}
	if (k->parts && k->until) {	/* its collective follows it in parts */
		add_kernel(x, &l->at.at[k->until], NULL,
			   fmax(begin + us / k->parts->n, coll), c->coll, out);
	} else if (k->parts) {
		begin = fmax(begin, c->first);
	}
	add_kernel(x, k, &bodies[i], begin, c->now, out);
}

static void
stretch(struct layout *l, double us)
{
	double by = l->us > 0 ? us / l->us : 0;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		l->at.at[i].begin_us *= by;
		l->at.at[i].end_us *= by;
	}
	l->us = us;
}

/* One iteration of a list; outside of repeats nothing runs beside kernels. */
static void
lay_list(struct tracer *x, const struct kernel_list *l, bool repeats,
	 struct layout *out)
{
	size_t n = l->at.n + 1;
	struct price_func *each = arena_alloc(x->a, n * sizeof *each);
	struct layout *bodies = arena_alloc(x->a, n * sizeof *bodies);
	struct price_clocks c;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			price_list(&x->p, k->body, &each[i]);
			lay_list(x, k->body, true, &bodies[i]);
		} else {
			price_kernel(&x->p, k, &each[i]);
		}
	}
	if (!repeats || price_beside(&x->p, l, each) <= 0) {
		lay_in_turn(x, l, each, bodies, out);
		return;
	}
	price_clocks_open(&c, l, x->a);
	while (c.at < l->at.n) {
		lay_beside(x, l, each, bodies, &c, out);
	}
	out->us = fmax(c.now, c.coll);
	stretch(out, c.sum - (1 - PRICE_SLOWED) * (c.sum - out->us));
}

/* A function that takes so long; without kernels if it has no such. */
static void
lay_function(struct tracer *x, func_id f, double us, struct layout *out)
{
	if (f && x->all[f]) {
		lay_list(x, x->all[f]->top, false, out);
		stretch(out, us);
	}
}

/* ---- events ---- */

static void
begin_event(struct tracer *x, const char *phase, int tid)
{
	buf_printf(x->out, "%s{\"ph\":\"%s\",\"pid\":%u,\"tid\":%d",
		   x->nevents++ ? ",\n" : "", phase, x->pid, tid);
}

static void
put_text(struct tracer *x, const char *key, const char *text)
{
	buf_printf(x->out, ",\"%s\":", key);
	buf_json(x->out, text, strlen(text));
}

/* Whole nanoseconds, so that slices that touch do so in the file, too. */
static void
put_time(struct tracer *x, const char *key, int64_t ns)
{
	buf_printf(x->out, ",\"%s\":%lld.%03lld", key, (long long)(ns / 1000),
		   (long long)(ns % 1000));
}

static void
put_slice(struct tracer *x, const struct trace_slice *s)
{
	int64_t begin = llround(s->begin_us * 1e3);
	int64_t end = llround(s->end_us * 1e3);

	begin_event(x, "X", (int)s->queue + 1);
	put_time(x, "ts", begin);
	put_time(x, "dur", end - begin);
	put_text(x, "name", s->name);
}

static void
end_slice(struct tracer *x)
{
	buf_putc(x->out, '}');
}

static void
put_name(struct tracer *x, const char *what, int tid, const char *name)
{
	begin_event(x, "M", tid);
	put_text(x, "name", what);
	buf_puts(x->out, ",\"args\":{\"name\":");
	buf_json(x->out, name, strlen(name));
	buf_puts(x->out, "}}");
}

/* In Perfetto the measured process of a rank comes after the predicted one. */
static void
put_process(struct tracer *x, uint32_t pipe)
{
	uint32_t rank = ranks_on_pipe(x->p.r, 0, pipe);
	int i;

	x->pid = 2 * rank + 1;
	put_name(x, "process_name", 0,
		 arena_printf(x->a, "%s predicted",
			      ranks_text(x->p.r, rank)));
	begin_event(x, "M", 0);
	buf_printf(x->out, ",\"name\":\"process_sort_index\",\"args\":"
		   "{\"sort_index\":%u}}", x->pid);
	for (i = 0; i < NQUEUES; i++) {
		put_name(x, "thread_name", i + 1, queues[i]);
	}
}

static void
put_note(struct tracer *x, const char *text)
{
	begin_event(x, "i", QUEUE_SCHEDULE + 1);
	buf_puts(x->out, ",\"s\":\"g\",\"ts\":0");
	put_text(x, "name", text);
	buf_putc(x->out, '}');
}

/* ---- how much is in the trace ---- */

/* How many microbatches, from the first on, have at most so many in all. */
static uint32_t
shown_of(const double *by_microbatch, uint32_t n, double most)
{
	uint32_t i;

	for (i = 0; i < n && by_microbatch[i] <= most; i++) {
		most -= by_microbatch[i];
	}
	return i;
}

static void
choose_shown(struct tracer *x)
{
	const struct ranks *r = x->p.r;
	const struct sched *s = r->sched;
	uint32_t n = s->nmicrobatches, i, k;
	double *actions = arena_alloc(x->a, n * sizeof *actions);
	double *kernels = arena_alloc(x->a, n * sizeof *kernels);
	double updates = 0;

	for (i = 0; i < s->nranks; i++) {
		for (k = 0; k < s->ranks[i].actions.n; k++) {
			const struct sched_action *at =
				&s->ranks[i].actions.at[k];

			actions[at->microbatch]++;
			kernels[at->microbatch] += count_function(x,
				r->of_stage[at->stage][at->kind]);
		}
		updates += count_function(x, r->update[i]);
	}
	x->actions = shown_of(actions, n, ANSWER_TRACE_SLICES);
	x->actions = x->actions ? x->actions : 1;
	x->kernels = shown_of(kernels, n, ANSWER_TRACE_SLICES);
	x->updates = updates <= ANSWER_TRACE_SLICES;
}

static void
note_shown(struct tracer *x)
{
	uint32_t n = x->p.r->sched->nmicrobatches;

	if (x->actions < n) {
		put_note(x, arena_printf(x->a, "actions of the first %u of %u "
					 "microbatches", x->actions, n));
	}
	if (x->kernels < n) {
		put_note(x, arena_printf(x->a, "kernels of the first %u of %u "
					 "microbatches", x->kernels, n));
	}
	if (!x->updates) {
		put_note(x, "updates without their kernels");
	}
}

/* ---- a place in the pipeline ---- */

/* "recv NAME" of the first value that a function receives; NULL: of none. */
static const char *
received_by(struct tracer *x, func_id f)
{
	const struct ir_module *m = x->p.m;
	const struct ir_region *body;
	uint32_t i;

	if (!f) {
		return NULL;
	}
	body = &m->regions.at[m->funcs.at[f].body];
	for (i = 0; i < body->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, body->nodes.at[i]);

		if (ir_is(n->op, IRF_PEER) && ir_is(n->op, IRF_SOURCE)) {
			return arena_printf(x->a, "%s %s", ir_ops[n->op].name,
				ir_text(m->ctx, ir_attr(m, n, IR_ATTR_NAME)
					->text));
		}
	}
	return NULL;
}

/* What is the same for all microbatches of a stage and kind. */
struct stage_layout {
	const char *name, *received;
	struct layout kernels;
};

static struct stage_layout *
lay_stage(struct tracer *x, uint32_t stage)
{
	const func_id *of = x->p.r->of_stage[stage];
	struct stage_layout *l = arena_alloc(x->a, SCHED_NKINDS * sizeof *l);
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		if (!of[k]) {
			continue;
		}
		l[k].name = ir_text(x->p.m->ctx, x->p.m->funcs.at[of[k]].name);
		l[k].received = received_by(x, of[k]);
		if (x->kernels > 0) {
			lay_function(x, of[k],
				     x->price->run[stage][k].total_us,
				     &l[k].kernels);
		}
	}
	return l;
}

/* From begin_us on, as long as `us`. */
static void
put_layout(struct tracer *x, const struct layout *l, double begin_us, double us)
{
	double by = l->us > 0 ? us / l->us : 0;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		struct trace_slice s = l->at.at[i];

		s.begin_us = begin_us + s.begin_us * by;
		s.end_us = begin_us + s.end_us * by;
		put_slice(x, &s);
		end_slice(x);
	}
}

/* The rank is idle since free_us. */
static void
put_action(struct tracer *x, const struct sched_action *act,
	   const struct stage_layout *l, const struct sched_event *e,
	   double free_us)
{
	struct trace_slice s = { free_us, e->start_us, l->received,
				 QUEUE_TRANSFERS };

	if (l->received && e->start_us > free_us) {
		put_slice(x, &s);
		end_slice(x);
	}
	s = (struct trace_slice){ e->start_us, e->end_us,
			    arena_printf(x->a, "%s %u", l->name,
					 act->microbatch), QUEUE_SCHEDULE };
	put_slice(x, &s);
	buf_printf(x->out, ",\"args\":{\"stage\":%u,\"microbatch\":%u}}",
		   act->stage, act->microbatch);
	if (act->microbatch < x->kernels) {
		put_layout(x, &l->kernels, e->start_us,
			   e->end_us - e->start_us);
	}
}

static void
put_update(struct tracer *x, uint32_t pipe)
{
	func_id f = x->p.r->update[pipe];
	double us = x->price->updated[pipe].total_us;
	struct trace_slice s = { .begin_us = x->price->pipe_us,
				 .end_us = x->price->pipe_us + us,
				 .queue = QUEUE_SCHEDULE };
	struct layout l = { 0 };

	if (!f || us <= 0) {
		return;
	}
	s.name = ir_text(x->p.m->ctx, x->p.m->funcs.at[f].name);
	put_slice(x, &s);
	end_slice(x);
	if (x->updates) {
		lay_function(x, f, us, &l);
		put_layout(x, &l, s.begin_us, us);
	}
}

static void
put_pipe(struct tracer *x, const struct sched_timeline *t, uint32_t pipe)
{
	const struct sched *s = x->p.r->sched;
	const struct sched_list *list = &s->ranks[pipe];
	struct stage_layout **of = arena_alloc(x->a, s->nstages * sizeof *of);
	double free_us = 0;
	uint32_t i;

	for (i = 0; i < s->nstages; i++) {
		of[i] = s->rank_of[i] == pipe ? lay_stage(x, i) : NULL;
	}
	for (i = 0; i < list->actions.n; i++) {
		const struct sched_action *act = &list->actions.at[i];
		const struct sched_event *e = &t->events[pipe][i];

		if (act->microbatch < x->actions) {
			put_action(x, act, &of[act->stage][act->kind], e,
				   free_us);
		}
		free_us = e->end_us;
	}
	put_update(x, pipe);
}

void
answer_trace(const struct ranks *r, const struct target_devs *t,
	     const struct price *p, struct arena *a, struct buf *out)
{
	struct tracer x = {
		.p = { .r = r, .m = r->m, .across = t->all,
		       .traits = &p->traits },
		.price = p, .all = ranks_kernels(r), .out = out
	};
	struct sched_timeline line;
	struct arena own;
	uint32_t i;

	price_timeline(r->sched, p, a, &line);
	buf_puts(out, "[\n");
	for (i = 0; i < r->npipes; i++) {
		arena_init(&own, a->mem);
		x.a = &own;
		if (i == 0) {
			choose_shown(&x);
		}
		x.p.t = target_devs_of(t, i);
		put_process(&x, i);
		if (i == 0) {
			note_shown(&x);
		}
		put_pipe(&x, &line, i);
		arena_release(&own);
	}
	buf_puts(out, "\n]\n");
}

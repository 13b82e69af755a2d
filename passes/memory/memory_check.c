/*
 * Holds a memory plan to a run.  Every rank of the pipeline runs its actions,
 * kernel by kernel, on a memory of stamps (memory_stamps.c): a kernel that
 * writes a value stamps the bytes where that lies, and one that reads it must
 * find its stamp on all of them.  So two values that are alive at once on the
 * same bytes are found wherever they come from: packing, too few slots, an
 * alias, a missing copy.  It shares memory_where.c with the rest of the folder
 * and nothing else.
 */
#include "passes/memory/memory_stamps.h"

/* ---- kernels ---- */

static void
keep_saves(struct checker *c, const struct ir_region *r,
	   const struct memory_iterations *at, bool only_tensors)
{
	uint32_t i;

	for (i = 0; i < r->nodes.n && !c->why; i++) {
		const struct ir_node *n = ir_node(c->m, r->nodes.at[i]);

		if (ir_is(n->op, IRF_STASH) && ir_is(n->op, IRF_SINK) &&
		    (!only_tensors ||
		     stamp_is_tensor(c, ir_args(c->m, n)[0]))) {
			uint64_t stamp = stamp_read(c, ir_args(c->m, n)[0], at);

			stamp_item(c, stamp_save(c),
			     ir_attr(c->m, n, IR_ATTR_NAME)->text,
			     stamp_iterations(c, at), true)->stamp = stamp;
		}
	}
}

/*
 * An update reads its own saves, so they are kept as soon as a kernel made
 * their value.
 */
static void
keep_made(struct checker *c, const struct ir_region *r, const struct kernel *k,
	  const struct memory_iterations *at)
{
	uint32_t i, j;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(c->m, r->nodes.at[i]);

		for (j = 0; ir_is(n->op, IRF_STASH) &&
		     ir_is(n->op, IRF_SINK) && j < k->outputs.n; j++) {
			value_id v = k->outputs.at[j].value;

			if (ir_args(c->m, n)[0] == v) {
				stamp_item(c, stamp_save(c),
				     ir_attr(c->m, n, IR_ATTR_NAME)->text,
				     stamp_iterations(c, at), true)->stamp =
					c->stamp[v];
			}
		}
	}
}

static uint64_t
message_key(const struct checker *c, const struct ir_node *n, bool send)
{
	uint64_t other = (uint64_t)ir_attr_int(c->m, n, IR_ATTR_STAGE, 0);
	uint64_t from = send ? c->run.stage : other;
	uint64_t to = send ? other : c->run.stage;

	return ((from << 16 | to) << 24 | c->run.microbatch) * 3 +
	       STAMPED_MESSAGES;
}

/* Keeps where the bytes wait: receive() looks whether they are unchanged. */
static void
send(struct checker *c, const struct kernel *k)
{
	node_id id = k->nodes.at[0];
	const struct ir_node *n = ir_node(c->m, id);
	struct stamped_item *x = stamp_item(c, message_key(c, n, true),
			       ir_attr(c->m, n, IR_ATTR_NAME)->text, 0, true);
	const struct memory_send *s = c->mem->sends.at;
	value_id v = k->inputs.at[0].value;

	while (s->node != id) {
		s++;
	}
	x->stamp = stamp_read(c, v, NULL);
	x->size = stamp_bytes(c, v);
	x->pipe = c->pipe;
	if (s->staged) {
		x->spot = memory_item(&c->run, s->buffer - 1, NULL);
		x->size = stamp_bytes(c, ir_args(c->m, n)[0]);
		stamp_range(c, x->spot.offset, x->size, x->stamp);
	} else {
		stamp_spot(c, v, NULL, &x->spot);
	}
}

static void
receive(struct checker *c, const struct ir_node *n)
{
	struct stamped_item *x = stamp_item(c, message_key(c, n, false),
			       ir_attr(c->m, n, IR_ATTR_NAME)->text, 0,
			       false);

	if (!x) {
		stamp_fail(c, n->result, "was not sent");
	} else if (!stamp_covers(c, x->pipe, x->spot.offset, x->size,
				 x->stamp)) {
		stamp_fail(c, n->result, "was written over before it was "
			   "received");
	}
}

/* A write to a tensor: later reads of it must find its stamp. */
static void
sink(struct checker *c, const struct ir_node *n, node_id id,
     const struct memory_iterations *at)
{
	const struct memory *mem = c->mem;
	uint32_t b = mem->tensor[id];
	value_id v = ir_args(c->m, n)[0];
	struct memory_spot s;
	struct stamped_item *k;

	if (!b || mem->buffers.at[b - 1].name !=
		  ir_attr(c->m, n, IR_ATTR_NAME)->text) {
		stamp_fail(c, v, "goes to a tensor that has no place");
		return;
	}
	s = memory_item(&c->run, b - 1, at);
	k = stamp_tensor(c, b - 1, s.offset, false);
	if (!k) {
		stamp_fail(c, v, "goes to a tensor that no buffer holds");
		return;
	}
	k->stamp = ++c->next;
	stamp_range(c, s.offset, stamp_bytes(c, v), k->stamp);
	if (mem->value[v].buffer == b) {
		c->stamp[v] = k->stamp;
	}
}

static void run_list(struct checker *c, const struct kernel_list *l,
		     const struct memory_iterations *at);

/*
 * A carried value after t iterations: copied, unless it was made where that
 * instance lies.
 */
static void
carry_value(struct checker *c, uint32_t carry, int64_t t,
	    const struct memory_iterations *around, value_id v,
	    const struct memory_iterations *at)
{
	struct memory_spot to, from;
	uint64_t stamp = stamp_read(c, v, at);

	if (c->why) {
		return;
	}
	if (!memory_carried(&c->run, carry, t, around, &to) ||
	    !stamp_spot(c, v, at, &from)) {
		stamp_fail(c, v, "is carried, and has no place");
	} else if (to.offset != from.offset) {
		stamp_range(c, to.offset, stamp_bytes(c, v), stamp);
	}
}

static uint32_t
first_carry(const struct checker *c, node_id repeat)
{
	uint32_t i;

	for (i = 0; i < c->mem->carries.n &&
	     c->mem->carries.at[i].repeat != repeat; i++) {
	}
	return i;
}

static void
run_repeat(struct checker *c, const struct kernel *x,
	   const struct memory_iterations *outer)
{
	const struct ir_node *n = ir_node(c->m, x->nodes.at[0]);
	const struct ir_region *r = &c->m->regions.at[n->region];
	int64_t count = ir_attr_int(c->m, n, IR_ATTR_COUNT, 1);
	uint32_t first = first_carry(c, x->nodes.at[0]), i;
	uint64_t *stamps = arena_alloc(&c->a, (n->nargs + 1) * sizeof *stamps);
	struct memory_iterations at = { n, 0, outer };

	for (i = 0; i < n->nargs; i++) {
		stamps[i] = stamp_read(c, ir_args(c->m, n)[i], outer);
		carry_value(c, first + i, 0, outer, ir_args(c->m, n)[i], outer);
	}
	for (; at.index < count && !c->why; at.index++) {
		for (i = 0; i < n->nargs; i++) {
			c->stamp[r->params.at[i]] = stamps[i];
		}
		run_list(c, x->body, &at);
		for (i = 0; i < n->nargs && !c->why; i++) {
			stamps[i] = stamp_read(c, r->results.at[i], &at);
		}
		for (i = 0; i < n->nargs && !c->why; i++) {
			carry_value(c, first + i, at.index + 1, outer,
				r->results.at[i], &at);
		}
	}
	for (i = 0; i < n->nargs && !c->why; i++) {
		c->stamp[n->result + i] = stamps[i];
	}
}

/* Of the inputs of a collective kernel, the operand of `made`. */
static value_id
operand_of(const struct checker *c, const struct kernel *x, value_id made)
{
	value_id v = ir_args(c->m, ir_node(c->m,
					   c->m->values.at[made].node))[0];
	uint32_t i = 0;

	while (i < x->inputs.n && x->inputs.at[i].value != v) {
		if (++i == x->inputs.n && c->m->values.at[v].node) {
			v = ir_args(c->m, ir_node(c->m,
					c->m->values.at[v].node))[0];
			i = 0;
		}
	}
	return v;
}

/*
 * Collectives that share one call run at the same time, so none of them may
 * write where another reads.
 */
static void
check_overlap(struct checker *c, const struct kernel *x,
	      const struct memory_iterations *at)
{
	struct memory_spot in, out;
	uint32_t i, k;

	for (i = 0; x->work->coll.n > 1 && i < x->outputs.n; i++) {
		value_id made = x->outputs.at[i].value;
		value_id own = operand_of(c, x, made);

		for (k = 0; k < x->inputs.n; k++) {
			value_id v = x->inputs.at[k].value;

			if (v != own && stamp_spot(c, v, at, &in) &&
			    stamp_spot(c, made, at, &out) &&
			    in.offset < out.offset + stamp_bytes(c, made) &&
			    out.offset < in.offset + stamp_bytes(c, v)) {
				stamp_fail(c, made, "is written where another "
				     "collective of its call reads");
			}
		}
	}
}

static void
run_kernel(struct checker *c, const struct kernel *x,
	   const struct memory_iterations *at)
{
	const struct ir_node *n = ir_node(c->m, x->nodes.at[0]);
	uint32_t i;

	for (i = 0; i < x->inputs.n; i++) {
		stamp_read(c, x->inputs.at[i].value, at);
	}
	check_overlap(c, x, at);
	if (ir_is(n->op, IRF_PEER) && ir_is(n->op, IRF_SINK)) {
		send(c, x);
		return;
	}
	if (ir_is(n->op, IRF_PEER) && ir_is(n->op, IRF_SOURCE)) {
		receive(c, n);
	}
	for (i = 0; i < x->outputs.n && !c->why; i++) {
		stamp_value(c, x->outputs.at[i].value, at);
	}
	for (i = 0; i < x->nodes.n && !c->why; i++) {
		n = ir_node(c->m, x->nodes.at[i]);
		if (ir_is(n->op, IRF_SINK)) {
			sink(c, n, x->nodes.at[i], at);
		}
	}
	/* no output lies on another */
	for (i = 0; i < x->outputs.n && !c->why; i++) {
		stamp_read(c, x->outputs.at[i].value, at);
	}
}

/*
 * A collective that runs beside kernels reads its operands until the kernel
 * that waits for it, and a contraction in parts whose result is communicated,
 * until the last part has arrived: their inputs are read once more there.
 */
static void
end_colls(struct checker *c, const struct kernel_list *l, uint32_t place,
	  bool colls, const struct memory_iterations *at)
{
	uint32_t i, k;

	for (i = 0; i < place && !c->why; i++) {
		const struct kernel *x = &l->at.at[i];

		for (k = 0; x->until == place && k < x->inputs.n &&
		     (x->kind == KERNEL_COLLECTIVE) == colls; k++) {
			stamp_read(c, x->inputs.at[k].value, at);
		}
	}
}

/*
 * Contractions of one launch run at the same time: when the last of them has
 * run, the inputs of all are read once more.
 */
static void
end_launch(struct checker *c, const struct kernel *last,
	   const struct memory_iterations *at)
{
	uint32_t n = last->launch ? last->launch->at + 1 : 0, i, k;

	for (i = 0; n && n == last->launch->n && i < n; i++) {
		const struct kernel *x = last - i;

		for (k = 0; k < x->inputs.n && !c->why; k++) {
			stamp_read(c, x->inputs.at[k].value, at);
		}
	}
}

static void
run_list(struct checker *c, const struct kernel_list *l,
	 const struct memory_iterations *at)
{
	uint32_t i;

	keep_saves(c, &c->m->regions.at[l->region], at, true);
	for (i = 0; i < l->at.n && !c->why; i++) {
		end_colls(c, l, i, true, at);
		if (l->at.at[i].body) {
			run_repeat(c, &l->at.at[i], at);
		} else {
			run_kernel(c, &l->at.at[i], at);
			end_launch(c, &l->at.at[i], at);
		}
		end_colls(c, l, i, false, at);
		if (c->run.stage == UINT32_MAX) {
			keep_made(c, &c->m->regions.at[l->region],
				      &l->at.at[i], at);
		}
	}
	keep_saves(c, &c->m->regions.at[l->region], at, false);
}

static void
check_func(struct checker *c, func_id f)
{
	c->func = f;
	if (f && !c->why) {
		run_list(c, c->mem->kernels[f]->top, NULL);
	}
}

/* ---- ranks ---- */

/*
 * Ranks run their actions in order, each until one needs what is not done, or
 * sends a message that has no free copy to wait in.
 */
struct check_progress {
	uint32_t *at;		/* by rank */
	uint8_t *done;		/* by stage and microbatch */
	uint32_t *sent;		/* by stage: forward, back */
};

static bool
may_run(const struct checker *c, const struct check_progress *k,
	const struct sched_action *x)
{
	struct sched_need need[SCHED_MAX_NEEDS];
	const struct sched *s = c->r->sched;
	uint32_t n = sched_needs(s, x, need), i;

	for (i = 0; i < n; i++) {
		if (!(k->done[(size_t)need[i].stage * s->nmicrobatches +
			      x->microbatch] >> need[i].part & 1)) {
			return false;
		}
	}
	return true;
}

/*
 * Whether a message may be sent: the one that last had its copy must have
 * been received by all stages that it was for.
 */
static bool
has_free_copy(const struct checker *c, const struct check_progress *k,
	      const struct sched_action *x)
{
	const struct sched *s = c->r->sched;
	uint32_t back = !(sched_kinds[x->kind].does & SCHED_FORWARD), i;
	uint32_t copies = c->mem->stage[x->stage].waiting[back], turn, j;
	const struct sched_list *l = &s->ranks[s->rank_of[x->stage]];
	uint32_t mine = back ? SCHED_INPUT : SCHED_FORWARD;

	turn = k->sent[2 * x->stage + back];
	if (!(sched_kinds[x->kind].does & mine) || turn < copies) {
		return true;
	}
	/* find the message that last had this copy */
	for (i = 0, j = 0; i < l->actions.n; i++) {
		const struct sched_action *y = &l->actions.at[i];

		if (y->stage != x->stage ||
		    !(sched_kinds[y->kind].does & mine) ||
		    j++ != turn - copies) {
			continue;
		}
		for (j = 0; j < c->mem->sends.n; j++) {
			const struct memory_send *q = &c->mem->sends.at[j];

			if (q->stage == x->stage &&
			    (q->to < q->stage) == back &&
			    !(k->done[(size_t)q->to * s->nmicrobatches +
				      y->microbatch] & mine)) {
				return false;
			}
		}
		break;
	}
	return true;
}

static bool
run_rank(struct checker *c, struct check_progress *k, uint32_t rank)
{
	const struct sched *s = c->r->sched;
	const struct sched_list *l = &s->ranks[rank];
	uint32_t before = k->at[rank];

	for (; k->at[rank] < l->actions.n && !c->why; k->at[rank]++) {
		const struct sched_action *x = &l->actions.at[k->at[rank]];
		uint8_t does = sched_kinds[x->kind].does;

		if (!may_run(c, k, x) || !has_free_copy(c, k, x)) {
			break;
		}
		c->pipe = rank;
		c->run.stage = x->stage;
		c->run.microbatch = x->microbatch;
		c->run.turn[0] = k->sent[2 * x->stage];
		c->run.turn[1] = k->sent[2 * x->stage + 1];
		check_func(c, c->r->of_stage[x->stage][x->kind]);
		k->sent[2 * x->stage] += (does & SCHED_FORWARD) != 0;
		k->sent[2 * x->stage + 1] += (does & SCHED_INPUT) != 0;
		k->done[(size_t)x->stage * s->nmicrobatches +
			x->microbatch] |= does;
	}
	return k->at[rank] > before;
}

static void
run_ranks(struct checker *c)
{
	const struct sched *s = c->r->sched;
	struct check_progress k = {
		.at = arena_alloc(&c->a, s->nranks * sizeof *k.at),
		.done = arena_alloc(&c->a, (size_t)s->nstages *
				    s->nmicrobatches),
		.sent = arena_alloc(&c->a, 2 * s->nstages * sizeof *k.sent)
	};
	bool moves = true;
	uint32_t i;

	while (moves && !c->why) {
		moves = false;
		for (i = 0; i < s->nranks && !c->why; i++) {
			moves |= run_rank(c, &k, i);
		}
	}
	for (i = 0; i < s->nranks && !c->why; i++) {
		if (k.at[i] < s->ranks[i].actions.n) {
			c->why = "ranks stall: sent values have too few "
				 "copies";
		}
	}
	c->run.stage = UINT32_MAX;
	c->run.microbatch = 0;
	for (i = 0; i < s->nranks && !c->why; i++) {
		c->pipe = i;
		check_func(c, c->r->update[i]);
	}
}

const char *
memory_check(const struct ranks *r, const struct memory *mem)
{
	struct checker c = { .r = r, .mem = mem, .m = r->m };

	arena_init(&c.a, &r->m->ctx->mem);
	c.run.m = r->m;
	c.run.mem = mem;
	c.ranks = arena_alloc(&c.a, r->npipes * sizeof *c.ranks);
	c.stamp = arena_alloc(&c.a, r->m->values.n * sizeof *c.stamp);
	VEC_PUSH(&c.a, &c.items, NULL);
	stamp_tensors(&c);
	run_ranks(&c);
	arena_release(&c.a);
	return c.why;
}

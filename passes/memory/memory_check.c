/*
 * Holds a memory plan to a run.  Every rank of the pipeline runs its actions,
 * kernel by kernel, on a memory of stamps: a kernel that writes a value stamps
 * the bytes where that lies, and one that reads it must find its stamp on all
 * of them.  So two values that are alive at once on the same bytes are found
 * wherever they come from: packing, too few slots, an alias, a missing copy.
 * It shares memory_where.c with the rest of the folder and nothing else.
 */
#include "passes/memory/memory.h"

#include <string.h>

/* Bytes that were written last by one write. */
struct stamped_range {
	int64_t lo, hi;
	uint64_t stamp;
};

/* The arena of one rank: disjoint ranges in ascending order. */
struct stamped_arena {
	struct stamped_range *at;
	uint32_t n, cap;
};

/* Something that is found again by a key: a save, a message, a tensor. */
struct stamped_item {
	uint64_t key[3];
	uint64_t stamp;
	struct memory_spot spot;
	int64_t size;
	uint32_t pipe;
};

struct checker {
	const struct ranks *r;
	const struct memory *mem;
	struct ir_module *m;
	struct arena a;
	struct stamped_arena *ranks;	/* by rank of the pipeline */
	uint64_t *stamp;	/* by value, of the current run; 0: none */
	uint64_t next;
	VEC(struct stamped_item *) items;	/* the first is none */
	struct table by_key;
	const char *why;

	/* the current run */
	struct memory_run run;
	func_id func;
	uint32_t pipe;
};

/* ---- stamps ---- */

/* The first range that ends after `at`. */
static uint32_t
find_range(const struct stamped_arena *b, int64_t at)
{
	uint32_t lo = 0, hi = b->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (b->at[mid].hi <= at) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

/* Writes [lo, hi): ranges that it overlaps are cut off or replaced. */
static void
stamp_range(struct arena *a, struct stamped_arena *b, int64_t lo, int64_t hi,
	    uint64_t stamp)
{
	uint32_t first = find_range(b, lo), last = first, n = 0;
	struct stamped_range put[3];

	while (last < b->n && b->at[last].lo < hi) {
		last++;
	}
	if (first < last && b->at[first].lo < lo) {
		put[n++] = (struct stamped_range){ b->at[first].lo, lo,
					     b->at[first].stamp };
	}
	put[n++] = (struct stamped_range){ lo, hi, stamp };
	if (first < last && b->at[last - 1].hi > hi) {
		put[n++] = (struct stamped_range){ hi, b->at[last - 1].hi,
					     b->at[last - 1].stamp };
	}
	if (b->n + 3 > b->cap) {
		b->at = arena_grow(a, b->at, b->cap * sizeof *b->at,
				   (2 * b->cap + 64) * sizeof *b->at);
		b->cap = 2 * b->cap + 64;
	}
	memmove(b->at + first + n, b->at + last,
		(b->n - last) * sizeof *b->at);
	memcpy(b->at + first, put, n * sizeof *put);
	b->n = b->n - (last - first) + n;
}

/* Whether all of [lo, hi) has that stamp. */
static bool
has_stamp(const struct stamped_arena *b, int64_t lo, int64_t hi, uint64_t stamp)
{
	uint32_t i = find_range(b, lo);

	while (lo < hi) {
		if (i == b->n || b->at[i].lo > lo ||
		    b->at[i].stamp != stamp) {
			return false;
		}
		lo = b->at[i++].hi;
	}
	return true;
}

/* ---- values ---- */

/* The name of a value, or the op that makes it. */
static const char *
name_of(const struct checker *c, value_id v)
{
	sym_t hint = c->m->values.at[v].hint;
	node_id n = c->m->values.at[v].node;

	return hint ? ir_text(c->m->ctx, hint)
		: n ? ir_ops[ir_node(c->m, n)->op].name : "carried";
}

static void
fail(struct checker *c, value_id v, const char *what)
{
	if (!c->why) {
		c->why = arena_printf(&c->m->ctx->tmp, "%s, microbatch %u: "
			"value %u (%s) %s", ir_text(c->m->ctx,
			c->m->funcs.at[c->func].name), c->run.microbatch, v,
			name_of(c, v), what);
	}
}

/* Whether bytes are in the device's part of the arena, or in its host's. */
static bool
is_inside(const struct memory_rank *r, double at, double bytes)
{
	double there = (double)r->host_at;

	return (at >= 0 && at + bytes <= (double)(r->total - r->reserve)) ||
	       (at >= there && at + bytes <= there + (double)(r->host +
							      r->drives));
}

static bool
spot_of(struct checker *c, value_id v, const struct memory_iterations *at,
	struct memory_spot *spot)
{
	const struct memory_rank *r = &c->mem->rank[c->pipe];
	double bytes = memory_value_bytes(c->m, c->mem->apart, v);

	if (!memory_where(&c->run, v, at, spot)) {
		fail(c, v, "has no place");
		return false;
	}
	if (spot->offset % MEMORY_ALIGN ||
	    c->mem->buffers.at[spot->buffer].pipe != c->pipe) {
		fail(c, v, "lies askew, or on another rank");
		return false;
	}
	if (!is_inside(r, (double)spot->offset, bytes)) {
		fail(c, v, "lies outside of the arena");
		return false;
	}
	return true;
}

static int64_t
size_of(const struct checker *c, value_id v)
{
	return (int64_t)memory_value_bytes(c->m, c->mem->apart, v);
}

static void
write_stamp(struct checker *c, value_id v, const struct memory_iterations *at,
	    uint64_t stamp)
{
	struct memory_spot s;

	if (spot_of(c, v, at, &s)) {
		stamp_range(&c->a, &c->ranks[c->pipe], s.offset,
			     s.offset + size_of(c, v), stamp);
	}
}

static void
write_value(struct checker *c, value_id v, const struct memory_iterations *at)
{
	c->stamp[v] = ++c->next;
	write_stamp(c, v, at, c->stamp[v]);
}

/*
 * Whether a value is a tensor that lasts for the step: its stamp is that of
 * its place, whichever node names it.
 */
static bool
is_tensor(const struct checker *c, value_id v)
{
	node_id id = c->m->values.at[v].node;
	const struct ir_node *n = ir_node(c->m, id);

	return id && ir_is(n->op, IRF_SOURCE) &&
	       !ir_is(n->op, IRF_STASH | IRF_PEER) && !n->nargs &&
	       ir_op_takes(n->op, IR_ATTR_RATE) == IR_TAKES_NOT &&
	       ir_op_takes(n->op, IR_ATTR_VALUE) == IR_TAKES_NOT;
}

static struct stamped_item *
find_item(struct checker *c, uint64_t a, uint64_t b, uint64_t d, bool make)
{
	uint64_t hash = hash_word(hash_word(hash_word(1, a), b), d);
	struct stamped_item x = { .key = { a, b, d } }, *k;
	uint32_t at = 0;

	while ((at = table_find(&c->by_key, hash, at)) != 0) {
		k = c->items.at[at];
		if (memcmp(k->key, x.key, sizeof x.key) == 0) {
			return k;
		}
	}
	if (!make) {
		return NULL;
	}
	k = arena_dup(&c->a, &x, sizeof x);
	VEC_PUSH(&c->a, &c->items, k);
	table_add(&c->a, &c->by_key, hash);
	return k;
}

/* The variables of the running iterations as one number. */
static uint64_t
iterations_key(const struct checker *c, const struct memory_iterations *at)
{
	uint64_t v, key;

	if (!at) {
		return 1;
	}
	key = iterations_key(c, at->outer);
	v = (uint64_t)(ir_attr_int(c->m, at->repeat, IR_ATTR_START, 0) +
		(ir_attr(c->m, at->repeat, IR_ATTR_REVERSE)
			? ir_attr_int(c->m, at->repeat, IR_ATTR_COUNT, 1) - 1 -
			  at->index : at->index));
	return key * 100003 + v + 1;
}

enum { SAVES, MESSAGES, TENSORS };

static uint64_t
save_key(const struct checker *c)
{
	return ((uint64_t)c->run.stage << 32 | c->run.microbatch) * 3 + SAVES;
}

/* The stamp that a node which reads a save must find. */
static uint64_t
save_stamp(struct checker *c, value_id v, const struct memory_iterations *at)
{
	const struct ir_node *n = ir_node(c->m, c->m->values.at[v].node);
	struct stamped_item *k = find_item(c, save_key(c),
			       ir_attr(c->m, n, IR_ATTR_NAME)->text,
			       iterations_key(c, at), false);

	if (!k) {
		fail(c, v, "was not saved");
	}
	return k ? k->stamp : 0;
}

static struct stamped_item *
find_tensor(struct checker *c, uint32_t buffer, int64_t offset, bool make)
{
	return find_item(c, TENSORS, (uint64_t)buffer << 32 | c->pipe,
		    (uint64_t)offset, make);
}

/* Tensors that last for the step are written before it begins. */
static void
stamp_tensors(struct checker *c)
{
	uint32_t i;
	int64_t k;

	for (i = 0; i < c->mem->buffers.n; i++) {
		const struct memory_buffer *b = &c->mem->buffers.at[i];

		c->pipe = b->pipe;
		for (k = 0; b->kind < MEMORY_PIPELINE &&
		     k < b->items * b->copies; k++) {
			int64_t at = b->offset + k * b->bytes;

			find_tensor(c, i, at, true)->stamp = ++c->next;
			stamp_range(&c->a, &c->ranks[c->pipe], at,
				     at + b->bytes, c->next);
		}
	}
}

static uint64_t
tensor_stamp(struct checker *c, const struct memory_spot *s, value_id v)
{
	struct stamped_item *k = find_tensor(c, s->buffer, s->offset, false);

	if (!k) {
		fail(c, v, "is a tensor that no buffer holds");
	}
	return k ? k->stamp : 0;
}

static uint64_t
stamp_of(struct checker *c, value_id v, const struct memory_iterations *at,
	 const struct memory_spot *s)
{
	node_id id = c->m->values.at[v].node;

	if (id && ir_is(ir_node(c->m, id)->op, IRF_STASH)) {
		return save_stamp(c, v, at);
	}
	return is_tensor(c, v) ? tensor_stamp(c, s, v) : c->stamp[v];
}

static uint64_t
read_value(struct checker *c, value_id v, const struct memory_iterations *at)
{
	struct memory_spot s;
	uint64_t stamp;

	if (c->why || !spot_of(c, v, at, &s)) {
		return 0;
	}
	stamp = stamp_of(c, v, at, &s);
	if (!stamp) {
		fail(c, v, "is read before it is made");
	} else if (!has_stamp(&c->ranks[c->pipe], s.offset,
				     s.offset + size_of(c, v), stamp)) {
		fail(c, v, "was written over before it is read");
	}
	return stamp;
}

/* ---- kernels ---- */

static void
keep_saves(struct checker *c, const struct ir_region *r,
	   const struct memory_iterations *at, bool only_tensors)
{
	uint32_t i;

	for (i = 0; i < r->nodes.n && !c->why; i++) {
		const struct ir_node *n = ir_node(c->m, r->nodes.at[i]);

		if (ir_is(n->op, IRF_STASH) && ir_is(n->op, IRF_SINK) &&
		    (!only_tensors || is_tensor(c, ir_args(c->m, n)[0]))) {
			uint64_t stamp = read_value(c, ir_args(c->m, n)[0],
						    at);

			find_item(c, save_key(c),
			     ir_attr(c->m, n, IR_ATTR_NAME)->text,
			     iterations_key(c, at), true)->stamp = stamp;
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
				find_item(c, save_key(c),
				     ir_attr(c->m, n, IR_ATTR_NAME)->text,
				     iterations_key(c, at), true)->stamp =
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

	return ((from << 16 | to) << 24 | c->run.microbatch) * 3 + MESSAGES;
}

/* Keeps where the bytes wait: receive() looks whether they are unchanged. */
static void
send(struct checker *c, const struct kernel *k)
{
	node_id id = k->nodes.at[0];
	const struct ir_node *n = ir_node(c->m, id);
	struct stamped_item *x = find_item(c, message_key(c, n, true),
			       ir_attr(c->m, n, IR_ATTR_NAME)->text, 0, true);
	const struct memory_send *s = c->mem->sends.at;
	value_id v = k->inputs.at[0].value;

	while (s->node != id) {
		s++;
	}
	x->stamp = read_value(c, v, NULL);
	x->size = size_of(c, v);
	x->pipe = c->pipe;
	if (s->staged) {
		x->spot = memory_item(&c->run, s->buffer - 1, NULL);
		x->size = size_of(c, ir_args(c->m, n)[0]);
		stamp_range(&c->a, &c->ranks[c->pipe], x->spot.offset,
			     x->spot.offset + x->size, x->stamp);
	} else {
		spot_of(c, v, NULL, &x->spot);
	}
}

static void
receive(struct checker *c, const struct ir_node *n)
{
	struct stamped_item *x = find_item(c, message_key(c, n, false),
			       ir_attr(c->m, n, IR_ATTR_NAME)->text, 0,
			       false);

	if (!x) {
		fail(c, n->result, "was not sent");
	} else if (!has_stamp(&c->ranks[x->pipe], x->spot.offset,
				     x->spot.offset + x->size, x->stamp)) {
		fail(c, n->result, "was written over before it was received");
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
		fail(c, v, "goes to a tensor that has no place");
		return;
	}
	s = memory_item(&c->run, b - 1, at);
	k = find_tensor(c, b - 1, s.offset, false);
	if (!k) {
		fail(c, v, "goes to a tensor that no buffer holds");
		return;
	}
	k->stamp = ++c->next;
	stamp_range(&c->a, &c->ranks[c->pipe], s.offset,
		     s.offset + size_of(c, v), k->stamp);
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
	uint64_t stamp = read_value(c, v, at);

	if (c->why) {
		return;
	}
	if (!memory_carried(&c->run, carry, t, around, &to) ||
	    !spot_of(c, v, at, &from)) {
		fail(c, v, "is carried, and has no place");
	} else if (to.offset != from.offset) {
		stamp_range(&c->a, &c->ranks[c->pipe], to.offset, to.offset +
			     size_of(c, v), stamp);
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
		stamps[i] = read_value(c, ir_args(c->m, n)[i], outer);
		carry_value(c, first + i, 0, outer, ir_args(c->m, n)[i], outer);
	}
	for (; at.index < count && !c->why; at.index++) {
		for (i = 0; i < n->nargs; i++) {
			c->stamp[r->params.at[i]] = stamps[i];
		}
		run_list(c, x->body, &at);
		for (i = 0; i < n->nargs && !c->why; i++) {
			stamps[i] = read_value(c, r->results.at[i], &at);
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

			if (v != own && spot_of(c, v, at, &in) &&
			    spot_of(c, made, at, &out) &&
			    in.offset < out.offset + size_of(c, made) &&
			    out.offset < in.offset + size_of(c, v)) {
				fail(c, made, "is written where another "
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
		read_value(c, x->inputs.at[i].value, at);
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
		write_value(c, x->outputs.at[i].value, at);
	}
	for (i = 0; i < x->nodes.n && !c->why; i++) {
		n = ir_node(c->m, x->nodes.at[i]);
		if (ir_is(n->op, IRF_SINK)) {
			sink(c, n, x->nodes.at[i], at);
		}
	}
	/* no output lies on another */
	for (i = 0; i < x->outputs.n && !c->why; i++) {
		read_value(c, x->outputs.at[i].value, at);
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
			read_value(c, x->inputs.at[k].value, at);
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
			read_value(c, x->inputs.at[k].value, at);
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

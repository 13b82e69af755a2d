/*
 * Places, held to a run: every rank of the pipeline runs its list, action by
 * action and kernel by kernel, on a memory of stamps.  A kernel that writes a
 * value stamps the bytes where that lies; one that reads it must find its
 * stamp on all of them.  So two values that are alive at once on the same
 * bytes are found wherever they come from: a packing, slots that are too few,
 * an alias, a copy that is missing.
 */
#include "passes/memory/memory_check.h"

#include <string.h>

/* What is known by name: a save of one microbatch, a message. */
struct known {
	uint64_t key[3];
	uint64_t stamp;
	struct memory_spot spot;
	int64_t size;
	uint32_t pipe;
};

/* ---- values ---- */

/* "x", or the op that makes it. */
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

static bool
spot_of(struct checker *c, value_id v, const struct memory_trips *at,
	struct memory_spot *spot)
{
	const struct memory_rank *r = &c->mem->rank[c->pipe];
	double bytes = kernel_reserved_bytes(c->m, v);

	if (!memory_where(&c->run, v, at, spot)) {
		fail(c, v, "has no place");
		return false;
	}
	if (spot->offset % MEMORY_ALIGN ||
	    c->mem->buffers.at[spot->buffer].pipe != c->pipe) {
		fail(c, v, "lies askew, or on another rank");
		return false;
	}
	if (spot->offset < 0 || (double)spot->offset + bytes >
				(double)(r->total - r->reserve)) {
		fail(c, v, "lies outside of the arena");
		return false;
	}
	return true;
}

static int64_t
size_of(const struct checker *c, value_id v)
{
	return (int64_t)kernel_reserved_bytes(c->m, v);
}

static void
write_stamp(struct checker *c, value_id v, const struct memory_trips *at,
	    uint64_t stamp)
{
	struct memory_spot s;

	if (spot_of(c, v, at, &s)) {
		memory_stamp(&c->a, &c->ranks[c->pipe], s.offset,
			     s.offset + size_of(c, v), stamp);
	}
}

static void
write_value(struct checker *c, value_id v, const struct memory_trips *at)
{
	c->stamp[v] = ++c->next;
	write_stamp(c, v, at, c->stamp[v]);
}

/* Tensors are there already; a fixed one has the stamp of its place. */
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

static struct known *
find(struct checker *c, uint64_t a, uint64_t b, uint64_t d, bool make)
{
	uint64_t hash = hash_word(hash_word(hash_word(1, a), b), d);
	struct known x = { .key = { a, b, d } }, *k;
	uint32_t at = 0;

	while ((at = table_find(&c->by_key, hash, at)) != 0) {
		k = c->known.at[at];
		if (memcmp(k->key, x.key, sizeof x.key) == 0) {
			return k;
		}
	}
	if (!make) {
		return NULL;
	}
	k = arena_dup(&c->a, &x, sizeof x);
	VEC_PUSH(&c->a, &c->known, k);
	table_add(&c->a, &c->by_key, hash);
	return k;
}

/* The trips' variables as one number. */
static uint64_t
trips_key(const struct checker *c, const struct memory_trips *at)
{
	uint64_t v, key;

	if (!at) {
		return 1;
	}
	key = trips_key(c, at->outer);
	v = (uint64_t)(ir_attr_int(c->m, at->repeat, IR_ATTR_START, 0) +
		(ir_attr(c->m, at->repeat, IR_ATTR_REVERSE)
			? ir_attr_int(c->m, at->repeat, IR_ATTR_COUNT, 1) - 1 -
			  at->trip : at->trip));
	return key * 100003 + v + 1;
}

enum { SAVES, MESSAGES, TENSORS };

static uint64_t
save_key(const struct checker *c)
{
	return ((uint64_t)c->run.stage << 32 | c->run.microbatch) * 3 + SAVES;
}

/* What a `saved` must find. */
static uint64_t
taken_stamp(struct checker *c, value_id v, const struct memory_trips *at)
{
	const struct ir_node *n = ir_node(c->m, c->m->values.at[v].node);
	struct known *k = find(c, save_key(c),
			       ir_attr(c->m, n, IR_ATTR_NAME)->text,
			       trips_key(c, at), false);

	if (!k) {
		fail(c, v, "was not saved");
	}
	return k ? k->stamp : 0;
}

static struct known *
tensor(struct checker *c, uint32_t buffer, int64_t offset, bool make)
{
	return find(c, TENSORS, (uint64_t)buffer << 32 | c->pipe,
		    (uint64_t)offset, make);
}

/* All that lies in place for the whole step is there from the start. */
static void
stamp_tensors(struct checker *c)
{
	uint32_t i;
	int64_t k;

	for (i = 0; i < c->mem->buffers.n; i++) {
		const struct memory_buffer *b = &c->mem->buffers.at[i];

		c->pipe = b->pipe;
		for (k = 0; b->kind < MEMORY_PIPELINE &&
		     k < b->trips * b->copies; k++) {
			int64_t at = b->offset + k * b->bytes;

			tensor(c, i, at, true)->stamp = ++c->next;
			memory_stamp(&c->a, &c->ranks[c->pipe], at,
				     at + b->bytes, c->next);
		}
	}
}

static uint64_t
tensor_stamp(struct checker *c, const struct memory_spot *s, value_id v)
{
	struct known *k = tensor(c, s->buffer, s->offset, false);

	if (!k) {
		fail(c, v, "is a tensor of which there is none");
	}
	return k ? k->stamp : 0;
}

static uint64_t
stamp_of(struct checker *c, value_id v, const struct memory_trips *at,
	 const struct memory_spot *s)
{
	node_id id = c->m->values.at[v].node;

	if (id && ir_is(ir_node(c->m, id)->op, IRF_STASH)) {
		return taken_stamp(c, v, at);
	}
	return is_tensor(c, v) ? tensor_stamp(c, s, v) : c->stamp[v];
}

static uint64_t
read_value(struct checker *c, value_id v, const struct memory_trips *at)
{
	struct memory_spot s;
	uint64_t stamp;

	if (c->why || !spot_of(c, v, at, &s)) {
		return 0;
	}
	stamp = stamp_of(c, v, at, &s);
	if (!stamp) {
		fail(c, v, "is read before it is made");
	} else if (!memory_has_stamp(&c->ranks[c->pipe], s.offset,
				     s.offset + size_of(c, v), stamp)) {
		fail(c, v, "was written over before it is read");
	}
	return stamp;
}

/* ---- kernels ---- */

static void
remember_saves(struct checker *c, const struct ir_region *r,
	       const struct memory_trips *at, bool only_tensors)
{
	uint32_t i;

	for (i = 0; i < r->nodes.n && !c->why; i++) {
		const struct ir_node *n = ir_node(c->m, r->nodes.at[i]);

		if (ir_is(n->op, IRF_STASH) && ir_is(n->op, IRF_SINK) &&
		    (!only_tensors || is_tensor(c, ir_args(c->m, n)[0]))) {
			uint64_t stamp = read_value(c, ir_args(c->m, n)[0],
						    at);

			find(c, save_key(c),
			     ir_attr(c->m, n, IR_ATTR_NAME)->text,
			     trips_key(c, at), true)->stamp = stamp;
		}
	}
}

/* The same at once of what a kernel made: an update takes it itself. */
static void
remember_made(struct checker *c, const struct ir_region *r,
	      const struct kernel *k, const struct memory_trips *at)
{
	uint32_t i, j;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(c->m, r->nodes.at[i]);

		for (j = 0; ir_is(n->op, IRF_STASH) &&
		     ir_is(n->op, IRF_SINK) && j < k->outputs.n; j++) {
			value_id v = k->outputs.at[j].value;

			if (ir_args(c->m, n)[0] == v) {
				find(c, save_key(c),
				     ir_attr(c->m, n, IR_ATTR_NAME)->text,
				     trips_key(c, at), true)->stamp =
					c->stamp[v];
			}
		}
	}
}

static uint64_t
message(const struct checker *c, const struct ir_node *n, bool send)
{
	uint64_t other = (uint64_t)ir_attr_int(c->m, n, IR_ATTR_STAGE, 0);
	uint64_t from = send ? c->run.stage : other;
	uint64_t to = send ? other : c->run.stage;

	return ((from << 16 | to) << 24 | c->run.microbatch) * 3 + MESSAGES;
}

/* The bytes that wait for the receiver, who looks whether they are whole. */
static void
send(struct checker *c, const struct kernel *k)
{
	node_id id = k->nodes.at[0];
	const struct ir_node *n = ir_node(c->m, id);
	struct known *x = find(c, message(c, n, true),
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
		memory_stamp(&c->a, &c->ranks[c->pipe], x->spot.offset,
			     x->spot.offset + x->size, x->stamp);
	} else {
		spot_of(c, v, NULL, &x->spot);
	}
}

static void
receive(struct checker *c, const struct ir_node *n)
{
	struct known *x = find(c, message(c, n, false),
			       ir_attr(c->m, n, IR_ATTR_NAME)->text, 0,
			       false);

	if (!x) {
		fail(c, n->result, "was not sent");
	} else if (!memory_has_stamp(&c->ranks[x->pipe], x->spot.offset,
				     x->spot.offset + x->size, x->stamp)) {
		fail(c, n->result, "was written over before it was taken");
	}
}

/* A sink into a tensor: whoever reads that later finds this. */
static void
sink(struct checker *c, const struct ir_node *n, node_id id,
     const struct memory_trips *at)
{
	const struct memory *mem = c->mem;
	uint32_t b = mem->tensor[id];
	value_id v = ir_args(c->m, n)[0];
	struct memory_spot s;
	struct known *k;

	if (!b || mem->buffers.at[b - 1].name !=
		  ir_attr(c->m, n, IR_ATTR_NAME)->text) {
		fail(c, v, "goes to a tensor that has no place");
		return;
	}
	s = memory_item(&c->run, b - 1, at);
	k = tensor(c, b - 1, s.offset, false);
	if (!k) {
		fail(c, v, "goes to a tensor of which there is none");
		return;
	}
	k->stamp = ++c->next;
	memory_stamp(&c->a, &c->ranks[c->pipe], s.offset,
		     s.offset + size_of(c, v), k->stamp);
	if (mem->value[v].buffer == b) {
		c->stamp[v] = k->stamp;
	}
}

static void run_list(struct checker *c, const struct kernel_list *l,
		     const struct memory_trips *at);

/* Copies where it is not made where it has to be. */
static void
hand_on(struct checker *c, uint32_t carry, int64_t t,
	const struct memory_trips *around, value_id v,
	const struct memory_trips *at)
{
	struct memory_spot to, from;
	uint64_t stamp = read_value(c, v, at);

	if (c->why) {
		return;
	}
	if (!memory_carried(&c->run, carry, t, around, &to) ||
	    !spot_of(c, v, at, &from)) {
		fail(c, v, "is carried to no place");
	} else if (to.offset != from.offset) {
		memory_stamp(&c->a, &c->ranks[c->pipe], to.offset, to.offset +
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
	   const struct memory_trips *outer)
{
	const struct ir_node *n = ir_node(c->m, x->nodes.at[0]);
	const struct ir_region *r = &c->m->regions.at[n->region];
	int64_t count = ir_attr_int(c->m, n, IR_ATTR_COUNT, 1);
	uint32_t first = first_carry(c, x->nodes.at[0]), i;
	uint64_t *stamps = arena_alloc(&c->a, (n->nargs + 1) * sizeof *stamps);
	struct memory_trips at = { n, 0, outer };

	for (i = 0; i < n->nargs; i++) {
		stamps[i] = read_value(c, ir_args(c->m, n)[i], outer);
		hand_on(c, first + i, 0, outer, ir_args(c->m, n)[i], outer);
	}
	for (; at.trip < count && !c->why; at.trip++) {
		for (i = 0; i < n->nargs; i++) {
			c->stamp[r->params.at[i]] = stamps[i];
		}
		run_list(c, x->body, &at);
		for (i = 0; i < n->nargs && !c->why; i++) {
			stamps[i] = read_value(c, r->results.at[i], &at);
		}
		for (i = 0; i < n->nargs && !c->why; i++) {
			hand_on(c, first + i, at.trip + 1, outer,
				r->results.at[i], &at);
		}
	}
	for (i = 0; i < n->nargs && !c->why; i++) {
		c->stamp[n->result + i] = stamps[i];
	}
}

/* What a talk takes, of what its kernel reads. */
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

/* Talks of one call read and write at a time: one not where another reads. */
static void
keep_apart(struct checker *c, const struct kernel *x,
	   const struct memory_trips *at)
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
				fail(c, made, "comes where another talk of "
				     "its call reads");
			}
		}
	}
}

static void
run_kernel(struct checker *c, const struct kernel *x,
	   const struct memory_trips *at)
{
	const struct ir_node *n = ir_node(c->m, x->nodes.at[0]);
	uint32_t i;

	for (i = 0; i < x->inputs.n; i++) {
		read_value(c, x->inputs.at[i].value, at);
	}
	keep_apart(c, x, at);
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
	/* none of them on another */
	for (i = 0; i < x->outputs.n && !c->why; i++) {
		read_value(c, x->outputs.at[i].value, at);
	}
}

/*
 * What goes on beside kernels reads its operands until it is waited for; a
 * contraction that is talked about by parts, until all of that has come.
 */
static void
end_colls(struct checker *c, const struct kernel_list *l, uint32_t place,
	  bool colls, const struct memory_trips *at)
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

static void
run_list(struct checker *c, const struct kernel_list *l,
	 const struct memory_trips *at)
{
	uint32_t i;

	remember_saves(c, &c->m->regions.at[l->region], at, true);
	for (i = 0; i < l->at.n && !c->why; i++) {
		end_colls(c, l, i, true, at);
		if (l->at.at[i].body) {
			run_repeat(c, &l->at.at[i], at);
		} else {
			run_kernel(c, &l->at.at[i], at);
		}
		end_colls(c, l, i, false, at);
		if (c->run.stage == UINT32_MAX) {
			remember_made(c, &c->m->regions.at[l->region],
				      &l->at.at[i], at);
		}
	}
	remember_saves(c, &c->m->regions.at[l->region], at, false);
}

void
memory_check_func(struct checker *c, func_id f)
{
	c->func = f;
	if (f && !c->why) {
		run_list(c, c->mem->kernels[f]->top, NULL);
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
	VEC_PUSH(&c.a, &c.known, NULL);
	stamp_tensors(&c);
	memory_course(&c);
	arena_release(&c.a);
	return c.why;
}

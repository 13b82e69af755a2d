/*
 * A memory of stamps, in which a plan of memory is tried: for each rank, which
 * write was the last to each byte of its arena, and for each value, save,
 * message and tensor, which write it must be found to be.
 */
#include "passes/memory/memory_stamps.h"

#include <string.h>

/* ---- ranges ---- */

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

/* Ranges that overlap [lo, hi) are cut off or replaced. */
static void
put_range(struct arena *a, struct stamped_arena *b, int64_t lo, int64_t hi,
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

void
stamp_range(struct checker *c, int64_t at, int64_t bytes, uint64_t stamp)
{
	put_range(&c->a, &c->ranks[c->pipe], at, at + bytes, stamp);
}

bool
stamp_covers(const struct checker *c, uint32_t pipe, int64_t at, int64_t bytes,
	     uint64_t stamp)
{
	const struct stamped_arena *b = &c->ranks[pipe];
	int64_t lo = at, hi = at + bytes;
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

void
stamp_fail(struct checker *c, value_id v, const char *what)
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

bool
stamp_spot(struct checker *c, value_id v, const struct memory_iterations *at,
	struct memory_spot *spot)
{
	const struct memory_rank *r = &c->mem->rank[c->pipe];
	double bytes = memory_value_bytes(c->m, c->mem->apart, v);

	if (!memory_where(&c->run, v, at, spot)) {
		stamp_fail(c, v, "has no place");
		return false;
	}
	if (spot->offset % MEMORY_ALIGN ||
	    c->mem->buffers.at[spot->buffer].pipe != c->pipe) {
		stamp_fail(c, v, "lies askew, or on another rank");
		return false;
	}
	if (!is_inside(r, (double)spot->offset, bytes)) {
		stamp_fail(c, v, "lies outside of the arena");
		return false;
	}
	return true;
}

int64_t
stamp_bytes(const struct checker *c, value_id v)
{
	return (int64_t)memory_value_bytes(c->m, c->mem->apart, v);
}

void
stamp_value(struct checker *c, value_id v, const struct memory_iterations *at)
{
	struct memory_spot s;

	c->stamp[v] = ++c->next;
	if (stamp_spot(c, v, at, &s)) {
		stamp_range(c, s.offset, stamp_bytes(c, v), c->stamp[v]);
	}
}

bool
stamp_is_tensor(const struct checker *c, value_id v)
{
	node_id id = c->m->values.at[v].node;
	const struct ir_node *n = ir_node(c->m, id);

	return id && ir_is(n->op, IRF_SOURCE) &&
	       !ir_is(n->op, IRF_STASH | IRF_PEER) && !n->nargs &&
	       ir_op_takes(n->op, IR_ATTR_RATE) == IR_TAKES_NOT &&
	       ir_op_takes(n->op, IR_ATTR_VALUE) == IR_TAKES_NOT;
}

struct stamped_item *
stamp_item(struct checker *c, uint64_t a, uint64_t b, uint64_t d, bool make)
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

uint64_t
stamp_iterations(const struct checker *c, const struct memory_iterations *at)
{
	uint64_t v, key;

	if (!at) {
		return 1;
	}
	key = stamp_iterations(c, at->outer);
	v = (uint64_t)(ir_attr_int(c->m, at->repeat, IR_ATTR_START, 0) +
		(ir_attr(c->m, at->repeat, IR_ATTR_REVERSE)
			? ir_attr_int(c->m, at->repeat, IR_ATTR_COUNT, 1) - 1 -
			  at->index : at->index));
	return key * 100003 + v + 1;
}

uint64_t
stamp_save(const struct checker *c)
{
	return ((uint64_t)c->run.stage << 32 | c->run.microbatch) * 3 +
	       STAMPED_SAVES;
}

/* The stamp that a node which reads a save must find. */
static uint64_t
save_stamp(struct checker *c, value_id v, const struct memory_iterations *at)
{
	const struct ir_node *n = ir_node(c->m, c->m->values.at[v].node);
	struct stamped_item *k = stamp_item(c, stamp_save(c),
			       ir_attr(c->m, n, IR_ATTR_NAME)->text,
			       stamp_iterations(c, at), false);

	if (!k) {
		stamp_fail(c, v, "was not saved");
	}
	return k ? k->stamp : 0;
}

struct stamped_item *
stamp_tensor(struct checker *c, uint32_t buffer, int64_t offset, bool make)
{
	return stamp_item(c, STAMPED_TENSORS, (uint64_t)buffer << 32 | c->pipe,
		    (uint64_t)offset, make);
}

/* Tensors that last for the step are written before it begins. */
void
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

			stamp_tensor(c, i, at, true)->stamp = ++c->next;
			stamp_range(c, at, b->bytes, c->next);
		}
	}
}

static uint64_t
tensor_stamp(struct checker *c, const struct memory_spot *s, value_id v)
{
	struct stamped_item *k = stamp_tensor(c, s->buffer, s->offset, false);

	if (!k) {
		stamp_fail(c, v, "is a tensor that no buffer holds");
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
	return stamp_is_tensor(c, v) ? tensor_stamp(c, s, v) : c->stamp[v];
}

uint64_t
stamp_read(struct checker *c, value_id v, const struct memory_iterations *at)
{
	struct memory_spot s;
	uint64_t stamp;

	if (c->why || !stamp_spot(c, v, at, &s)) {
		return 0;
	}
	stamp = stamp_of(c, v, at, &s);
	if (!stamp) {
		stamp_fail(c, v, "is read before it is made");
	} else if (!stamp_covers(c, c->pipe, s.offset, stamp_bytes(c, v),
				 stamp)) {
		stamp_fail(c, v, "was written over before it is read");
	}
	return stamp;
}

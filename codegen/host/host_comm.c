/*
 * Kernels that only communicate: collectives, sends and receives between
 * stages, and sums of tensors that several places of the pipeline share.
 */
#include "codegen/host/host.h"

#include <string.h>

/* ---- shares ---- */

static uint32_t
axes_of(const struct cg_code *c, const struct ir_node *n)
{
	const struct ir_attr *on = ir_attr(c->m, n, IR_ATTR_ON);
	uint32_t axes = 0, i;

	for (i = 0; on && i < on->ndims; i++) {
		axes |= (uint32_t)1 << on->dims[i];
	}
	return n->op == IR_SHARE ? (uint32_t)1 << c->r->pp : axes;
}

static const char *
name_of(struct cg_code *c, const struct ir_node *n,
	const struct memory_iterations *at)
{
	return host_full_name(c->a, c->m, ir_attr(c->m, n, IR_ATTR_NAME)->text,
			 at);
}

static uint64_t *
holders_of(struct cg_code *c, const char *name)
{
	sym_t s = intern_str(&c->shared_names, name);

	while (c->holders.n <= s) {
		VEC_PUSH(c->a, &c->holders, 0);
	}
	return &c->holders.at[s];
}

static void
note_shares(struct cg_code *c, const struct kernel_list *l, uint32_t pipe,
	    const struct memory_iterations *outer)
{
	struct memory_iterations at = { NULL, 0, outer };
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *x = &l->at.at[i];
		const struct ir_node *n = ir_node(c->m, x->nodes.at[0]);

		if (n->op == IR_SHARE) {
			*holders_of(c, name_of(c, n, outer)) |=
				(uint64_t)1 << pipe;
		}
		at.repeat = n;
		for (at.index = 0; x->body && at.index < x->body->count;
		     at.index++) {
			note_shares(c, x->body, pipe, &at);
		}
	}
}

void
host_find_shares(struct cg_code *c)
{
	uint32_t p;

	intern_init(&c->shared_names, c->a);
	for (p = 0; p < c->r->npipes && p < 64; p++) {
		func_id f = c->r->update[p];

		if (f) {
			note_shares(c, c->all[f]->top, p, NULL);
		}
	}
}

struct sharing {
	struct cg_code *c;
	const struct ir_node *n;
};

static int64_t
holders_at(void *user, const struct memory_run *run,
	   const struct memory_iterations *at)
{
	const struct sharing *s = user;

	(void)run;
	return (int64_t)*holders_of(s->c, name_of(s->c, s->n, at));
}

static struct host_rt_coll
share_of(struct host_func *f, const struct ir_node *n)
{
	struct cg_code *c = f->c;
	const struct ir_type *t = ir_type(c->m, n->result);
	struct host_rt_coll x = { .is = {
		.op = RT_COLL_SUM,
		.axes = axes_of(c, n),
		.elem = host_coll_elem((enum ir_dtype)t->dtype),
		.ndims = t->ndims
	} };
	uint64_t all = ((uint64_t)2 << (c->r->npipes - 1)) - 1;
	struct sharing s = { c, n };
	struct host_fit fit;

	x.what = kernel_coll_text(c->m, n, n->result, 0, c->a);
	x.in = x.out = host_spreads_of(c, t);
	if (c->r->npipes > 63) {
		diag_error(&c->m->ctx->diags, n->span, "code for tensors "
			   "that several of more than 63 places of a pipeline "
			   "hold is not compiled yet, found %u places",
			   c->r->npipes);
		return x;
	}
	host_sample(f, holders_at, &s, &fit);
	if (!host_fit_constant(&fit)) {
		diag_error(&c->m->ctx->diags, n->span, "code for layers' "
			   "tensors that different places of the pipeline "
			   "hold is not compiled yet");
	}
	x.is.holders = (uint64_t)fit.base == all ? 0 : fit.base;
	return x;
}

/* ---- from stage to stage ---- */

static uint32_t
send_of(const struct cg_code *c, const struct ir_node *n, bool is_send,
	uint32_t stage)
{
	sym_t name = ir_attr(c->m, n, IR_ATTR_NAME)->text;
	uint32_t other = (uint32_t)ir_attr_int(c->m, n, IR_ATTR_STAGE, 0), i;

	for (i = 0; i < c->mem.sends.n; i++) {
		const struct memory_send *s = &c->mem.sends.at[i];
		const struct ir_node *o = ir_node(c->m, s->node);

		if (s->stage == (is_send ? stage : other) &&
		    s->to == (is_send ? other : stage) &&
		    ir_attr(c->m, o, IR_ATTR_NAME)->text == name) {
			return i;
		}
	}
	die("`%s` is not sent", ir_text(c->m->ctx, name));
}

/* Whether both ends are on one rank. */
static bool
stays(const struct cg_code *c, const struct memory_send *s)
{
	return c->r->sched->rank_of[s->stage] == c->r->sched->rank_of[s->to];
}

static struct host_rt_coll
message(struct cg_code *c, uint32_t channel, enum rt_coll_op op,
	uint32_t peer)
{
	const struct memory_send *s = &c->mem.sends.at[channel];
	const struct ir_node *n = ir_node(c->m, s->node);
	value_id v = ir_args(c->m, n)[0];
	const struct ir_type *t = ir_type(c->m, v);
	struct host_rt_coll x = { .is = {
		.op = op,
		.elem = host_coll_elem((enum ir_dtype)t->dtype),
		.ndims = t->ndims,
		.channel = channel,
		.peer = c->r->sched->rank_of[peer]
	} };

	x.what = arena_printf(c->a, "%s %s",
			      op == RT_COLL_RECV ? "recv" :
			      op == RT_COLL_FREE ? "release of" : "send",
			      ir_text(c->m->ctx, ir_attr(c->m, n,
						IR_ATTR_NAME)->text));
	x.in = x.out = host_spreads_of(c, t);
	return x;
}

static void
send(struct host_func *f, const struct kernel *x)
{
	const struct ir_node *n = ir_node(f->c->m, x->nodes.at[0]);
	uint32_t channel = send_of(f->c, n, true, f->run.stage);
	const struct memory_send *s = &f->c->mem.sends.at[channel];
	value_id v = ir_args(f->c->m, n)[0];
	struct ll_value *at = host_view_at(f, v, s->value);
	struct host_rt_coll t;

	if (s->staged) {
		struct ll_value *to = host_item_at(f, s->buffer - 1);

		host_copy(f, at, to, host_bytes(f->k, v));
		at = to;
	}
	if (!stays(f->c, s)) {
		t = message(f->c, channel, RT_COLL_SEND, s->to);
		host_call_coll(f, host_coll_data(f->c, &t), at, at);
	}
}

/* Where the sender stored it, for the receiver's microbatch. */
struct sent {
	const struct memory_send *s;
	uint32_t *turn[2];
};

static int64_t
sent_at(void *user, const struct memory_run *run,
	const struct memory_iterations *at)
{
	const struct sent *x = user;
	struct memory_run sender = *run;
	struct memory_spot spot;

	sender.stage = x->s->stage;
	sender.turn[0] = x->turn[0][run->microbatch];
	sender.turn[1] = x->turn[1][run->microbatch];
	if (x->s->staged) {
		return memory_item(&sender, x->s->buffer - 1, at).offset;
	}
	if (!memory_where(&sender, x->s->value, at, &spot)) {
		die("what is sent has no place");
	}
	return spot.offset;
}

static void
recv(struct host_func *f, const struct kernel *x)
{
	const struct ir_node *n = ir_node(f->c->m, x->nodes.at[0]);
	uint32_t channel = send_of(f->c, n, false, f->run.stage);
	const struct memory_send *s = &f->c->mem.sends.at[channel];
	struct ll_value *to = host_value_at(f, n->result);
	struct host_func sender;
	struct sent from = { .s = s };
	struct host_rt_coll t;

	if (!stays(f->c, s)) {
		t = message(f->c, channel, RT_COLL_RECV, s->stage);
		host_call_coll(f, host_coll_data(f->c, &t), to, to);
		return;
	}
	sender = *f;
	sender.run.stage = s->stage;
	host_find_turns(&sender);
	from.turn[0] = sender.turn[0];
	from.turn[1] = sender.turn[1];
	host_copy(f, ll_plus(f->c->ll, f->arena,
			     host_sampled_value(f, sent_at, &from)),
		  to, host_bytes(f->k, n->result));
}

void
host_free_sends(struct host_func *f)
{
	const struct memory *mem = &f->c->mem;
	uint32_t i;

	for (i = 0; i < mem->sends.n; i++) {
		const struct memory_send *s = &mem->sends.at[i];
		const struct memory_buffer *b;
		struct host_rt_coll t;

		uint32_t at = s->buffer ? s->buffer
			: mem->value[s->value].buffer;

		if (s->stage != f->run.stage || !at || stays(f->c, s)) {
			continue;
		}
		/* only such buffers are reused while a stage may read them */
		b = &mem->buffers.at[at - 1];
		if (b->kind != MEMORY_PIPELINE || b->func != f->id) {
			continue;
		}
		t = message(f->c, i, RT_COLL_FREE, s->to);
		t.is.copies = b->copies;
		host_call_coll(f, host_coll_data(f->c, &t), f->arena, f->arena);
	}
}

/* ---- collectives ---- */

/* A sum if the value is one that is still to be added up along the axes. */
static enum rt_coll_op
op_of(const struct cg_code *c, const struct ir_node *n, uint32_t axes)
{
	const struct ir_type *t = ir_type(c->m, ir_args(c->m, n)[0]);

	/* each row is 0 on all ranks but that of its expert */
	return (uint32_t)t->sum << 1 & axes || n->op == IR_COMBINE
		? RT_COLL_SUM : RT_COLL_COPY;
}

static struct host_rt_coll
exchange(struct host_func *f, const struct ir_node *n)
{
	struct cg_code *c = f->c;
	value_id v = ir_args(c->m, n)[0];
	const struct ir_type *t = ir_type(c->m, v);
	struct host_rt_coll x = { .is = {
		.axes = axes_of(c, n),
		.ndims = t->ndims,
		.elem = host_coll_elem((enum ir_dtype)t->dtype)
	} };

	x.is.op = op_of(c, n, (uint32_t)x.is.axes);
	x.what = kernel_coll_text(c->m, n, n->result, (uint32_t)x.is.axes,
				  c->a);
	x.in = host_spreads_of(c, t);
	x.out = host_spreads_of(c, ir_type(c->m, n->result));
	return x;
}

static void
spreads_of(const struct ir_module *m, const struct ir_type *t,
	   struct cg_spread *out)
{
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		out[i].size = ir_dim_size(m, t->dims[i]);
		out[i].cut = t->cut[i];
	}
}

_Static_assert(KERNEL_MAX_COLLS <= RT_MAX_JOINED, "a call has that many");

/* The next of several collectives that are one call, with the nodes that store
 * its result. */
static bool
next_member(const struct ir_module *m, const struct kernel *x, uint32_t *from,
	    struct kernel *out)
{
	uint32_t to = *from + 1;

	if (*from >= x->nodes.n) {
		return false;
	}
	while (to < x->nodes.n &&
	       ir_is(ir_node(m, x->nodes.at[to])->op, IRF_SINK)) {
		to++;
	}
	*out = *x;
	out->nodes.at = x->nodes.at + *from;
	out->nodes.n = to - *from;
	*from = to;
	return true;
}

/* Sends, receives and shared sums pack nothing. */
void
host_coll_packs(struct host_class *k, const struct kernel *x)
{
	const struct ir_module *m = k->c->m;
	const struct ir_node *n = ir_node(m, x->nodes.at[0]);
	struct host_coll colls[RT_MAX_JOINED];
	struct kernel member;
	uint32_t from = 0, count = 0, i;

	if (ir_is(n->op, IRF_PEER) || n->op == IR_SHARE) {
		return;
	}
	while (next_member(m, x, &from, &member)) {
		const struct ir_node *e = ir_node(m, member.nodes.at[0]);
		const struct ir_type *in = ir_type(m, ir_args(m, e)[0]);
		struct host_coll *t = &colls[count++];

		*t = (struct host_coll){ .axes = axes_of(k->c, e),
			.elem_bytes = ir_dtypes[in->dtype].bits / 8,
			.ndims = in->ndims };
		t->sums = op_of(k->c, e, t->axes) != RT_COLL_COPY;
		spreads_of(m, in, t->in);
		spreads_of(m, ir_type(m, e->result), t->out);
		for (i = 0; x->parts && i < in->ndims; i++) {
			host_add_spread(k->c, t->in[i].size, t->in[i].cut);
			host_add_spread(k->c, t->out[i].size, t->out[i].cut);
		}
	}
	host_pack_scratch(k, colls, count);
}

/* The first tensor that the result is stored in, as its buffer + 1. */
static uint32_t
tensor_of(const struct host_func *f, const struct kernel *x)
{
	uint32_t i;

	for (i = 1; i < x->nodes.n; i++) {
		if (f->c->mem.tensor[x->nodes.at[i]]) {
			return f->c->mem.tensor[x->nodes.at[i]];
		}
	}
	return 0;
}

/* A result that is only stored in a tensor is received there. */
static struct ll_value *
result_at(struct host_func *f, const struct kernel *x, value_id v)
{
	const struct memory_value *at = &f->c->mem.value[v];

	return at->buffer || at->carry || !tensor_of(f, x)
		? host_value_at(f, v) : host_item_at(f, tensor_of(f, x) - 1);
}

/* Stores the result in its tensors, unless it lies there already. */
static void
put_result(struct host_func *f, const struct kernel *x, value_id v,
	   struct ll_value *at)
{
	struct cg_code *c = f->c;
	uint32_t i;

	for (i = 1; i < x->nodes.n; i++) {
		const struct ir_node *n = ir_node(c->m, x->nodes.at[i]);
		uint32_t b = c->mem.tensor[x->nodes.at[i]];

		if (n->op != IR_STORE || ir_args(c->m, n)[0] != v) {
			diag_error(&c->m->ctx->diags, n->span, "`%s` of what "
				   "ranks exchange is not compiled yet",
				   ir_ops[n->op].name);
		} else if (b != c->mem.value[v].buffer) {
			host_copy(f, at, host_item_at(f, b - 1),
				  host_bytes(f->k, v));
		}
	}
}

/* The kernel's input that a value is, or is a view of. */
static value_id
base_of(const struct ir_module *m, const struct kernel *x, value_id v)
{
	value_id base = v;
	uint32_t i = 0;

	while (i < x->inputs.n && x->inputs.at[i].value != base) {
		if (++i == x->inputs.n && m->values.at[base].node) {
			base = ir_args(m, ir_node(m,
				m->values.at[base].node))[0];
			i = 0;
		}
	}
	return base;
}

static struct ll_value *
operand_of(struct host_func *f, const struct kernel *x,
	   const struct ir_node *n, uint32_t k)
{
	value_id v = ir_args(f->c->m, n)[k];

	return host_view_at(f, v, base_of(f->c->m, x, v));
}

/* The collectives after the first one; `from`: the next one's first node. */
static struct ll_value *
others_of(struct host_func *f, const struct kernel *x, uint32_t from,
	  uint32_t number)
{
	const struct ir_node *n;
	struct kernel member;
	struct ll_value *next, *to;
	struct host_rt_coll t;

	if (!next_member(f->c->m, x, &from, &member)) {
		return NULL;
	}
	n = ir_node(f->c->m, member.nodes.at[0]);
	to = result_at(f, &member, n->result);
	host_store(f, f->at, 2 * number, operand_of(f, x, n, 0));
	host_store(f, f->at, 2 * number + 1, to);
	next = others_of(f, x, from, number + 1);
	t = exchange(f, n);
	t.next = next;
	return host_coll_data(f->c, &t);
}

/* Makes it "all_reduce x on tp, and 6 more", if it has several members. */
static void
add_others(struct cg_code *c, const struct kernel *x,
	   struct host_rt_coll *t)
{
	struct kernel member;
	uint32_t from = 0, count = 0;

	while (next_member(c->m, x, &from, &member)) {
		count++;
	}
	if (count > 1) {
		t->what = arena_printf(c->a, "%s, and %u more", t->what,
				       count - 1);
	}
}

static void
put_results(struct host_func *f, const struct kernel *x)
{
	struct kernel member;
	uint32_t from = 0;

	while (next_member(f->c->m, x, &from, &member)) {
		value_id v = ir_node(f->c->m, member.nodes.at[0])->result;

		put_result(f, &member, v, result_at(f, &member, v));
	}
}

/* A rank that is alone on these axes copies its own. */
static void
copy_all(struct host_func *f, const struct kernel *x)
{
	struct kernel member;
	uint32_t from = 0;

	while (next_member(f->c->m, x, &from, &member)) {
		const struct ir_node *n = ir_node(f->c->m,
						  member.nodes.at[0]);

		struct ll_value *to = result_at(f, &member, n->result);

		host_copy(f, operand_of(f, x, n, 0), to,
			  host_bytes(f->k, n->result));
	}
}

void
host_emit_collective(struct host_func *f, const struct kernel *x, uint32_t part)
{
	struct cg_code *c = f->c;
	const struct ir_node *n = ir_node(c->m, x->nodes.at[0]);
	struct ll_value *from, *to;
	struct kernel first;
	uint32_t at = 0;
	struct host_rt_coll t;

	if (n->op == IR_SEND) {
		send(f, x);
		return;
	}
	if (n->op == IR_RECV) {
		recv(f, x);
		return;
	}
	parts_open(c->m, x);
	t = n->op == IR_SHARE ? share_of(f, n) : exchange(f, n);
	parts_close(c->m, x);
	if (ranks_group_size(c->r, (uint32_t)t.is.axes) == 1) {
		copy_all(f, x);
		put_results(f, x);
		return;
	}
	next_member(c->m, x, &at, &first);
	from = ll_plus_n(c->ll, operand_of(f, x, n, 0),
			 host_part_bytes(f->k, x, ir_args(c->m, n)[0], part));
	to = ll_plus_n(c->ll, result_at(f, &first, n->result),
		       host_part_bytes(f->k, x, n->result, part));
	if (n->op == IR_COMBINE) {
		host_keep_own(f, n, from, operand_of(f, x, n, 1));
	}
	t.next = others_of(f, x, at, 1);
	add_others(c, x, &t);
	host_call_coll(f, host_coll_data(c, &t), from, to);
	put_results(f, x);
}

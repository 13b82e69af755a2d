/*
 * Where operands lie in the scope that is being emitted: memory_where is
 * called for all iterations and microbatches, and the offsets are fitted.
 */
#include "codegen/host/host.h"

#include <string.h>

/* How often the stage has sent before each microbatch. */
void
host_find_turns(struct host_func *f)
{
	const struct sched *s = f->c->r->sched;
	const struct sched_list *x = &s->ranks[f->k->pipe];
	uint32_t sent[2] = { 0, 0 }, i;

	for (i = 0; i < 2; i++) {
		f->turn[i] = arena_alloc(f->c->a, s->nmicrobatches *
					 sizeof *f->turn[i]);
	}
	for (i = 0; i < x->actions.n; i++) {
		const struct sched_action *a = &x->actions.at[i];

		if (a->stage != f->run.stage) {
			continue;
		}
		if (a->kind == f->kind) {
			f->turn[0][a->microbatch] = sent[0];
			f->turn[1][a->microbatch] = sent[1];
		}
		sent[0] += (sched_kinds[a->kind].does & SCHED_FORWARD) != 0;
		sent[1] += (sched_kinds[a->kind].does & SCHED_INPUT) != 0;
	}
}

/* ---- sampling ---- */

struct samples {
	struct host_func *f;
	host_sampler *fn;
	void *user;
	const struct host_scope *scope[HOST_MAX_VARS];	/* outermost first */
	uint32_t nscopes, times;
	struct memory_run run;
	int64_t *at;
	uint64_t n;
};

static void
sample_time(struct samples *s, const struct memory_iterations *at)
{
	const struct host_func *f = s->f;
	uint32_t i;

	for (i = 0; i < s->times; i++) {
		s->run.microbatch = i;
		s->run.turn[0] = f->turn[0] ? f->turn[0][i] : 0;
		s->run.turn[1] = f->turn[1] ? f->turn[1][i] : 0;
		s->at[s->n++] = s->fn(s->user, &s->run, at);
	}
}

static void
sample_iterations(struct samples *s, uint32_t depth,
	     const struct memory_iterations *outer)
{
	struct memory_iterations at = { NULL, 0, outer };

	if (depth == s->nscopes) {
		sample_time(s, outer);
		return;
	}
	at.repeat = s->scope[depth]->repeat;
	for (; at.index < s->scope[depth]->count; at.index++) {
		sample_iterations(s, depth + 1, &at);
	}
}

/* All samples, the microbatch fastest; counts as for host_find_fit. */
static void
sample_all(struct host_func *f, host_sampler *fn, void *user,
	   struct samples *s, uint32_t counts[HOST_MAX_VARS])
{
	const struct host_scope *x;
	uint64_t total;
	uint32_t i;

	*s = (struct samples){ .f = f, .fn = fn, .user = user,
			       .run = f->run };
	for (x = f->scope; x; x = x->outer) {
		s->nscopes++;
	}
	if (s->nscopes + 1 > HOST_MAX_VARS) {
		die("repeats %u deep", s->nscopes);
	}
	for (x = f->scope, i = s->nscopes; x; x = x->outer) {
		s->scope[--i] = x;
	}
	s->times = f->run.stage == UINT32_MAX ? 1 : f->c->r->nmicrobatches;
	total = counts[s->nscopes] = s->times;
	for (i = 0; i < s->nscopes; i++) {
		counts[i] = s->scope[i]->count;
		total *= counts[i];
	}
	s->at = arena_alloc(f->c->a, total * sizeof *s->at);
	sample_iterations(s, 0, NULL);
}

void
host_sample(struct host_func *f, host_sampler *fn, void *user,
	    struct host_fit *out)
{
	uint32_t counts[HOST_MAX_VARS];
	struct samples s;

	sample_all(f, fn, user, &s, counts);
	host_find_fit(f->c->a, counts, s.nscopes + 1, s.at, out);
}

struct ll_value *
host_sampled_value(struct host_func *f, host_sampler *fn, void *user)
{
	struct ll_value *at[HOST_MAX_VARS];
	const struct host_scope *x;
	struct host_fit fit;
	uint32_t i;

	host_sample(f, fn, user, &fit);
	i = fit.n - 1;
	at[i] = f->microbatch;
	for (x = f->scope; x; x = x->outer) {
		at[--i] = x->i;
	}
	return host_fit_value(f->c->ll, &fit, at);
}

/* ---- values and buffers ---- */

static int64_t
where(void *user, const struct memory_run *run,
      const struct memory_iterations *at)
{
	const value_id *v = user;
	struct memory_spot spot;

	if (!memory_where(run, *v, at, &spot)) {
		die("value %u has no place", *v);
	}
	return spot.offset;
}

static int64_t
item(void *user, const struct memory_run *run,
     const struct memory_iterations *at)
{
	const uint32_t *buffer = user;

	return memory_item(run, *buffer, at).offset;
}

static struct ll_value *
in_arena(struct host_func *f, struct ll_value *offset)
{
	return ll_plus(f->c->ll, f->arena, offset);
}

struct ll_value *
host_value_at(struct host_func *f, value_id v)
{
	return in_arena(f, host_sampled_value(f, where, &v));
}

struct ll_value *
host_item_at(struct host_func *f, uint32_t buffer)
{
	return in_arena(f, host_sampled_value(f, item, &buffer));
}

/* ---- views that are operands of collectives ---- */

static int64_t
inner_bytes(const struct host_func *f, const struct ir_type *t)
{
	int64_t n = ir_dtypes[t->dtype].bits / 8;
	uint32_t i;

	for (i = 1; i < t->ndims; i++) {
		n *= host_local(f->k, t->dims[i], t->cut[i]);
	}
	return n;
}

/* The first position of this rank's piece of the outermost dim. */
static struct ll_value *
first_position(struct host_func *f, const struct ir_type *t)
{
	return host_first_position(f, host_add_spread(f->c, ir_dim_size(f->c->m,
					 t->dims[0]), t->cut[0]));
}

/* A piece of the rank's own, which begins at the piece's first position. */
static struct ll_value *
piece(struct host_func *f, const struct ir_type *in,
      const struct ir_type *out, struct ll_value *at)
{
	struct ll *l = f->c->ll;
	struct ll_value *by;

	if (in->ndims == 0 || in->cut[0] == out->cut[0]) {
		return at;
	}
	by = first_position(f, in);
	by = ll_bin(l, LL_SUB, first_position(f, out), by);
	return ll_plus(l, at, ll_bin(l, LL_MUL, by,
				     ll_i64(l, inner_bytes(f, in))));
}

struct ll_value *
host_view_at(struct host_func *f, value_id v, value_id base)
{
	const struct ir_module *m = f->c->m;
	const struct ir_node *n = ir_node(m, m->values.at[v].node);
	const struct ir_type *in;
	struct ll_value *at;

	if (v == base) {
		return host_value_at(f, base);
	}
	if (!m->values.at[v].node || n->nargs != 1) {
		die("value %u is no view of %u", v, base);
	}
	at = host_view_at(f, ir_args(m, n)[0], base);
	in = ir_type(m, ir_args(m, n)[0]);
	if (ir_is(n->op, IRF_CONVERTS)) {
		return piece(f, in, ir_type(m, v), at);
	}
	/* a slice along the outermost dim, or the same elements */
	return ll_plus_n(f->c->ll, at, inner_bytes(f, in) *
			 ir_attr_int(m, n, IR_ATTR_AT, 0));
}

/* ---- names ---- */

static int64_t
variable(const struct ir_module *m, const struct memory_iterations *at)
{
	int64_t i = ir_attr(m, at->repeat, IR_ATTR_REVERSE)
		? ir_attr_int(m, at->repeat, IR_ATTR_COUNT, 1) - 1 - at->index
		: at->index;

	return ir_attr_int(m, at->repeat, IR_ATTR_START, 0) + i;
}

/* The innermost repeat of the placeholder's variable. */
static const struct memory_iterations *
iteration_of(const struct ir_module *m, const struct ir_placeholder *p,
	const struct memory_iterations *at)
{
	for (; at; at = at->outer) {
		const struct ir_attr *a = ir_attr(m, at->repeat, IR_ATTR_VAR);
		const char *var = a ? ir_text(m->ctx, a->text) : "";

		if (ir_placeholder_is(p, var)) {
			break;
		}
	}
	return at;
}

const char *
host_full_name(struct arena *a, struct ir_module *m, sym_t name,
	  const struct memory_iterations *at)
{
	const char *p = ir_text(m->ctx, name);
	struct buf b;

	buf_init(&b, a);
	while (*p) {
		const char *close = *p == '{' ? strchr(p, '}') : NULL;
		const struct memory_iterations *t = NULL;
		struct ir_placeholder x;

		if (close) {
			ir_placeholder_read(p + 1, (size_t)(close - p) - 1,
					    &x);
			t = iteration_of(m, &x, at);
		}
		if (t) {
			buf_printf(&b, "%lld", (long long)ir_placeholder_at(
				   &x, variable(m, t)));
			p = close + 1;
		} else {
			buf_putc(&b, *p++);
		}
	}
	return buf_text(&b);
}

/* ---- what repeats carry ---- */

struct handing {
	uint32_t carry;
	value_id v;
	bool first;	/* into the first iteration; else after each */
};

/* Where it has to be. */
static int64_t
handed_to(const struct handing *h, const struct memory_run *run,
	  const struct memory_iterations *at)
{
	struct memory_spot spot;

	if (!memory_carried(run, h->carry, h->first ? 0 : at->index + 1,
			    h->first ? at : at->outer, &spot)) {
		die("carried to no place");
	}
	return spot.offset;
}

static int64_t
hand_to(void *user, const struct memory_run *run,
	const struct memory_iterations *at)
{
	return handed_to(user, run, at);
}

static int64_t
is_elsewhere(void *user, const struct memory_run *run,
	     const struct memory_iterations *at)
{
	struct handing *h = user;

	return handed_to(h, run, at) != where(&h->v, run, at);
}

void
host_copy_carried(struct host_func *f, uint32_t carry, bool first, value_id v)
{
	struct handing h = { carry, v, first };
	int64_t bytes = host_bytes(f->k, v);
	struct host_fit copies;
	struct ll_value *from;

	host_sample(f, is_elsewhere, &h, &copies);
	if (bytes && (copies.base || !host_fit_constant(&copies))) {
		from = in_arena(f, host_sampled_value(f, hand_to, &h));
		host_copy(f, host_value_at(f, v), from, bytes);
	}
}

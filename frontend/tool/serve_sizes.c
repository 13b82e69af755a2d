/*
 * How large a step of the program of --serve is, and what its queues, steps and
 * its index of prefixes take of the memory of hosts.
 */
#include "frontend/tool/tool.h"

#include <math.h>
#include <string.h>

#include "passes/serve/serve.h"
#include "runtime/train/served_memory.h"

#define UNIT DRV_SERVE_UNIT
/* Positions and logits of a step, keys and slots, unless they are given. */
#define TOKENS 64
#define ROWS 16
#define KEYS 4096

/* ---- how large a step is ---- */

static int64_t
units(double n)
{
	return n < UNIT ? UNIT : (int64_t)(n / UNIT) * UNIT;
}

static const char *
setting_name(const struct ir_module *m, const char *key)
{
	return arena_printf(&m->ctx->tmp, "serve.%s", key);
}

int64_t
drv_serve_size(const struct ir_module *m, const char *key)
{
	return (int64_t)ir_setting_num(m, setting_name(m, key), 0);
}

static void
set(struct ir_module *m, const char *name, int64_t n)
{
	struct ir_setting s = { .kind = SET_NUM, .n = 1,
				.num = { (double)n } };

	if (!ir_setting(m, name)) {
		s.key = intern_str(&m->ctx->syms, name);
		VEC_PUSH(&m->ctx->perm, &m->settings, s);
	}
}

/* Keys of a step, unless they are given. */
static int64_t
default_keys(double context)
{
	int64_t least = units(context + UNIT - 1);

	return least > KEYS ? least : KEYS;
}

void
drv_set_serve_steps(const struct ir_module *m, struct serve_asked *q)
{
	int64_t slots = drv_serve_size(m, "slots");
	double keys = (double)default_keys(q->context);

	q->step_tokens = ir_setting_num(m, "serve.tokens", TOKENS);
	keys = ir_setting_num(m, "serve.keys", keys);
	q->step_keys = slots > 0
		? fmin(keys, (double)units((double)slots + UNIT - 1)) : keys;
}

void
drv_set_serve_sizes(struct ir_module *m, const struct serve_answer_in *in,
		    const struct serve_plan *x)
{
	int64_t context = (int64_t)in->asked->context;
	int64_t least = units((double)context + UNIT - 1);
	double most = fmin(x->memory.tokens - UNIT,
			   x->sequences * (double)context);
	int64_t slots = units(fmax(most, (double)least)) + UNIT;
	int64_t tokens, keys;

	set(m, "program.serves", 1);
	set(m, "serve.prompt", (int64_t)in->asked->prompt);
	set(m, "serve.output", (int64_t)in->asked->output);
	set(m, "serve.tokens", TOKENS);
	tokens = drv_serve_size(m, "tokens");
	set(m, "serve.rows", tokens < ROWS ? tokens : ROWS);
	set(m, "serve.slots", slots);
	slots = drv_serve_size(m, "slots");
	keys = default_keys((double)context);
	/* part of a unit holds no sequence's keys */
	slots = units((double)slots + UNIT - 1);
	set(m, "serve.keys", keys < slots ? keys : slots);
}

/* The user's value of a size, if it is below or above what is legal. */
static bool
refuse(const struct ir_module *m, const char *key, const char *why)
{
	const struct ir_setting *s = ir_setting(m, setting_name(m, key));

	diag_error(&m->ctx->diags, s->value, "`%s` is %.0f, %s", key,
		   s->num[0], why);
	return false;
}

bool
drv_check_serve_sizes(const struct ir_module *m, const struct serve_asked *q)
{
	struct arena *a = &m->ctx->tmp;
	int64_t rows = drv_serve_size(m, "rows");
	int64_t keys = drv_serve_size(m, "keys");
	int64_t slots = drv_serve_size(m, "slots");
	double tokens = ir_setting_num(m, "serve.tokens", TOKENS);
	double all = q->prompt + q->output;
	const char *asked = arena_printf(a, "and a request of %.0f tokens in "
		"and %.0f out needs %.0f", q->prompt, q->output, all);

	if (rows > tokens) {
		return refuse(m, "rows", arena_printf(a, "and a step has %.0f "
			"positions, `tokens`, each with logits once: 1 to %.0f "
			"is legal", tokens, tokens));
	}
	if (keys && (double)(keys / UNIT * UNIT) < all) {
		return refuse(m, "keys", arena_printf(a, "%s in a multiple of "
			"%d: at least %.0f is legal", asked, UNIT,
			ceil(all / UNIT) * UNIT));
	}
	if (slots && (double)rt_served_blocks(slots) * RT_SERVED_BLOCK < all) {
		return refuse(m, "slots", arena_printf(a, "%s in blocks of %d, "
			"beside a block that is no sequence's: at least %.0f "
			"is legal", asked, RT_SERVED_BLOCK,
			(ceil(all / RT_SERVED_BLOCK) + 1) * RT_SERVED_BLOCK));
	}
	return true;
}

/* ---- memory of hosts ---- */

/* Tokens that there are: the model reads indices of them. */
static int64_t
vocabulary(const struct ir_module *m, dim_id batch)
{
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);
		const struct ir_type *t = n->result ? ir_type(m, n->result)
						    : NULL;

		if (n->op == IR_INPUT && t->of && t->ndims == 2 &&
		    t->dims[0] == batch) {
			return ir_dim_size(m, t->of);
		}
	}
	die("a model without tokens");
}

static struct rt_served
sizes_of(const struct ir_module *m, const struct serve_answer_in *in,
	 const struct serve_plan *x)
{
	int64_t ranks = serve_devices(x);
	int64_t node = in->target->groups.at[0].device.node_devices;

	return (struct rt_served){
		.tokens = drv_serve_size(m, "tokens"),
		.rows = drv_serve_size(m, "rows"),
		.keys = drv_serve_size(m, "keys"),
		.slots = drv_serve_size(m, "slots"),
		.vocab = vocabulary(in->model->m, in->model->batch),
		.stages = x->split.pp, .replicas = x->split.replicas,
		.ranks = ranks, .host_ranks = ranks < node ? ranks : node
	};
}

static double
bytes_of(const struct rt_served_memory *h)
{
	return (double)h->queues + (double)h->steps + (double)h->index;
}

/* The size that most of it is for. */
static int64_t *
largest_size(struct rt_served *s, const struct rt_served_memory *h,
	     const char **name)
{
	if (h->index >= h->queues && h->index >= h->steps) {
		*name = "slots";
		return &s->slots;
	}
	if (s->rows * s->vocab >= s->keys) {
		*name = "rows";
		return &s->rows;
	}
	*name = "keys";
	return &s->keys;
}

/* Sizes with which all of it is at most `has`: what is largest is halved until
 * then; false: that does not help. */
static bool
shrink(struct rt_served *s, double has)
{
	struct rt_served_memory h = rt_served_memory(s);
	const char *name;

	while (bytes_of(&h) > has) {
		int64_t *size = largest_size(s, &h, &name);

		if (*size / 2 < (size == &s->rows ? 1 : 2 * UNIT)) {
			return false;
		}
		*size /= 2;
		h = rt_served_memory(s);
	}
	return true;
}

/* The sizes of b that differ from those of a, as --workload takes them. */
static const char *
changes(const struct rt_served *a, const struct rt_served *b,
	struct arena *arena)
{
	struct buf out;

	buf_init(&out, arena);
	if (a->rows != b->rows) {
		buf_printf(&out, ",rows=%lld", (long long)b->rows);
	}
	if (a->keys != b->keys) {
		buf_printf(&out, ",keys=%lld", (long long)b->keys);
	}
	if (a->slots != b->slots) {
		buf_printf(&out, ",slots=%lld", (long long)b->slots);
	}
	return buf_text(&out) + 1;
}

/* What is too large, and how small it would have to be for all to fit. */
static void
report_host(struct driver *d, const struct ir_module *m,
	    const struct serve_answer_in *in, struct rt_served s, double has)
{
	struct rt_served_memory h = rt_served_memory(&s);
	struct rt_served small = s;
	struct span at = { 0, 0 };
	const struct ir_setting *said;
	const char *name;
	int64_t *size = largest_size(&s, &h, &name);

	said = ir_setting(m, setting_name(m, name));
	at = said ? said->value : at;
	diag_error(&d->ctx.diags, at, "no plan that serves fits %s: a host "
		   "has %.3f GB, and that of rank 0 needs %.3f: queues %.3f, "
		   "steps %.3f, index of prefixes %.3f; most of it is for "
		   "`%s` = %lld", in->target->name, has / 1e9,
		   bytes_of(&h) / 1e9, (double)h.queues / 1e9,
		   (double)h.steps / 1e9, (double)h.index / 1e9, name,
		   (long long)*size);
	if (shrink(&small, has)) {
		diag_note(&d->ctx.diags, at, "one fits with %s",
			  changes(&s, &small, &d->ctx.perm));
	}
}

bool
drv_find_serve_host(struct driver *d, const struct ir_module *m,
		    const struct serve_answer_in *in, struct serve_answer *x)
{
	const struct target_device *dev = &in->target->groups.at[0].device;
	double has = dev->host_memory_bytes * (double)dev->node_devices;
	struct rt_served_memory h;
	struct ir_module *copy;
	struct rt_served s;
	struct ir_ctx c;

	ir_ctx_child(&c, &d->ctx);
	copy = ir_copy(m, &c);
	drv_set_serve_sizes(copy, in, &x->best);
	s = sizes_of(copy, in, &x->best);
	ir_ctx_release(&c);
	h = rt_served_memory(&s);
	x->host = (struct serve_host){ (double)h.queues, (double)h.steps,
				       (double)h.index, (double)h.client };
	if (has > 0 && bytes_of(&h) > has) {
		report_host(d, m, in, s, has);
		return false;
	}
	return true;
}

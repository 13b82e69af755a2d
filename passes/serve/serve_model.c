/*
 * From a model to the kernels and collectives of a step.  The model is placed
 * for a batch of rows, each the next position of a sequence of its own, and its
 * kernels are found for two numbers of rows: all that they read, write and
 * compute grows linearly with the rows, so two points give it for any number.
 * The dim of positions has one element meanwhile; how many keys a row attends
 * to is the load's, and priced in serve_price.c.
 */
#include "passes/serve/serve_reading.h"

#include "passes/plan/plan.h"
#include "passes/price/price.h"

#include <string.h>

#define ROWS 64			/* of a rank, for which it is placed */

/* ---- the model ---- */

static void
find_sizes(struct serve_model *s)
{
	struct ir_module *m = s->m;
	struct ir_rule r;
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);
		const struct ir_factor *f = NULL;
		int64_t *most = NULL;

		if (ir_is(n->op, IRF_PAIRS) && ir_is(n->op, IRF_CACHED)) {
			ir_bind(m, n, &r);
			f = ir_rule_factor(&r, "h");
			most = &s->heads;
		} else if (ir_is(n->op, IRF_CONTRACTS) &&
			   ir_is(n->op, IRF_INDEXED)) {
			ir_bind(m, n, &r);
			f = ir_rule_factor(&r, "of");
			most = &s->experts;
		}
		if (f && f->n && ir_dim_size(m, f->dims[0]) > *most) {
			*most = ir_dim_size(m, f->dims[0]);
		}
	}
}

static bool
has_dim(const struct ir_factor *f, dim_id d)
{
	uint8_t i;

	for (i = 0; i < f->n; i++) {
		if (f->dims[i] == d) {
			return true;
		}
	}
	return false;
}

/* Whether the factor is of a table that has a row for each position. */
static bool
is_table(const struct ir_module *m, const struct ir_node *n,
	 const struct ir_factor *f)
{
	node_id of = m->values.at[ir_args(m, n)[0]].node;

	return f->in == 1 && of && ir_is(ir_node(m, of)->op, IRF_LOADED);
}

/*
 * A step has one row of each sequence, so only attention, whose keys are
 * cached, may bring positions together.
 */
static bool
check_positions(struct serve_model *s)
{
	struct ir_module *m = s->m;
	struct ir_reached reached;
	struct ir_rule r;
	node_id id;
	uint8_t i;

	ir_reach(m, &m->ctx->tmp, &reached);
	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *n = ir_node(m, id);

		if (!reached.node[id] || n->op == IR_ARRANGE ||
		    ir_is(n->op, IRF_SOURCE | IRF_SINK | IRF_REGION |
			  IRF_CALLS | IRF_PAIRS)) {
			continue;
		}
		ir_bind(m, n, &r);
		for (i = 0; i < r.nf; i++) {
			const struct ir_factor *f = &r.f[i];

			if (!f->out && has_dim(f, s->seq) &&
			    !is_table(m, n, f)) {
				diag_error(&m->ctx->diags, n->span, "`%s` "
					   "brings positions together: to "
					   "serve a model only `attention` "
					   "may", ir_ops[n->op].name);
				return false;
			}
		}
	}
	return true;
}

/* Serving keeps no batch, plan or training of the model. */
static void
drop_settings(struct ir_module *m)
{
	uint32_t i, n = 0;

	for (i = 0; i < m->settings.n; i++) {
		const char *key = ir_text(m->ctx, m->settings.at[i].key);

		if (strncmp(key, "train.", 6) != 0 &&
		    strncmp(key, "plan.", 5) != 0) {
			m->settings.at[n++] = m->settings.at[i];
		}
	}
	m->settings.n = n;
}

static bool
asks_for_groups(const struct ir_module *m)
{
	const struct ir_setting *s = ir_setting(m, "serve.weights");

	return s && strcmp(ir_text(m->ctx, s->text),
			   ir_dtypes[IR_INT4].name) == 0;
}

bool
serve_open(struct ir_module *m, struct memo *memo, bool absorbs,
	   struct serve_model *out)
{
	static pass_fn *const passes[] = { pass_fold_dims, pass_inline,
					   pass_cse, pass_dce };
	struct pass_stats stats = { .arena = &m->ctx->perm, .pass = "serve" };
	struct pass_ctx p = { .ctx = m->ctx, .stats = &stats, .memo = memo };
	size_t i;

	*out = (struct serve_model){ .m = m, .memo = memo,
				     .absorbs = absorbs };
	if (!pass_keep_logits(m)) {
		return false;
	}
	for (i = 0; i < sizeof passes / sizeof *passes; i++) {
		if (!passes[i](&p, m) || m->ctx->diags.errors) {
			return false;
		}
		if (absorbs && passes[i] == pass_inline) {
			pass_absorb_latents(m);
		}
	}
	if (!pass_find_tokens(m, &out->batch, &out->seq) ||
	    !check_positions(out) || !pass_sum(m, &out->sums)) {
		return false;
	}
	out->context = ir_dim_size(m, out->seq);
	out->in_groups = absorbs && asks_for_groups(m);
	drop_settings(m);
	find_sizes(out);
	return true;
}

/* ---- its placement ---- */

static void
set_size(struct ir_module *m, dim_id d, int64_t size)
{
	m->dims.at[d].size = size;
	m->dims.at[d].expr = 0;
}

/* Marks the model as one whose ranks along ep all have the rows of a step. */
static void
share_rows(struct ir_module *m)
{
	struct ir_setting x = { .kind = SET_NUM, .n = 1, .num = { 1 } };

	x.key = intern_str(&m->ctx->syms, "program.serves");
	VEC_PUSH(&m->ctx->perm, &m->settings, x);
}

int64_t
serve_apart(const struct serve_split *s)
{
	return s->is_shared ? 1 : s->ep;
}

/* False: c has the error. */
static bool
place_it(const struct serve_model *s, const struct target *t,
	 const struct serve_split *split, struct ir_module *m)
{
	struct pass_stats stats = { .arena = &m->ctx->perm, .pass = "serve" };
	struct pass_ctx p = { .ctx = m->ctx, .stats = &stats, .cluster = t,
			      .memo = s->memo };
	struct plan plan;

	set_size(m, s->batch, ROWS * serve_apart(split));
	set_size(m, s->seq, 1);
	if (split->is_shared) {
		share_rows(m);
	}
	if (!plan_read(m, &plan)) {
		return false;
	}
	plan.tp = split->tp;
	plan.ep = split->ep;
	plan.dp = plan.pp = plan.cp = 1;
	plan.microbatch = ROWS;
	plan.layers = NULL;
	return plan_write(m, &plan) && pass_place(&p, m) &&
	       m->ctx->diags.errors == 0;
}

/* ---- its kernels ---- */

/* Ranks from one to the next along an axis: those of the axes inside it. */
static struct cost_group
group_of(const struct serve_reading *r, uint32_t axes)
{
	int64_t n = 1, apart = 0, inner = 1;
	axis_id a;

	for (a = r->m->axes.n - 1; a >= 1; a--) {
		const struct ir_axis *x = &r->m->axes.at[a];

		if (x->time) {
			continue;
		}
		if (axes >> a & 1) {
			apart = apart ? apart : inner;
			n *= x->size;
		}
		inner *= x->size;
	}
	return cost_group_apart(r->t, n, apart ? apart : 1);
}

static struct serve_line
line(double at_rows, double at_twice)
{
	struct serve_line l = { .row = (at_twice - at_rows) / ROWS };

	l.fixed = at_rows - l.row * ROWS;
	return l;
}

/* ---- attention ---- */

/* Elements of one position of one sequence that a rank has of a value. */
static double
per_position(const struct serve_reading *r, value_id v)
{
	const struct ir_type *t = ir_type(r->m, v);
	double n = 1;
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		if (t->dims[i] != r->s->batch && t->dims[i] != r->s->seq) {
			n *= (double)ir_most(r->m, ir_dim_size(r->m,
					     t->dims[i]), t->cut[i]);
		}
	}
	return n;
}

/* All that the region keeps of a token in place of keys and values. */
static void
latent_of(const struct serve_reading *r, const struct ir_region *region,
	  struct serve_item *x)
{
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(r->m, region->nodes.at[i]);

		if (ir_is(n->op, IRF_CACHED) &&
		    !ir_is(n->op, IRF_CONTRACTS)) {
			value_id v = ir_args(r->m, n)[0];

			x->cached += per_position(r, v);
			x->cached_bytes = serve_elem_bytes(r->m, v);
		}
	}
}

static void
attention_item(const struct serve_reading *r, const struct kernel *k,
	       const struct ir_region *region, struct serve_item *x)
{
	const struct kernel_attention *at = k->work->attention;
	const struct ir_node *n = price_main_node(r->m, k, IRF_PAIRS, 0);
	const value_id *args = ir_args(r->m, n);
	double at_v;
	int i;

	x->work = SERVE_ATTENTION;
	x->heads = at->heads;
	x->kv = at->kv;
	x->d = at->d;
	x->v = at->v;
	x->window = (double)ir_attr_int(r->m, n, IR_ATTR_WINDOW, 0);
	x->rate = price_rate(ir_type(r->m, args[0])->dtype);
	x->own = r->s->absorbs;
	x->slopes = ir_attr(r->m, n, IR_ATTR_ALIBI) != NULL;
	if (ir_attr(r->m, n, IR_ATTR_UNCACHED)) {
		latent_of(r, region, x);
		/* what attends to the cache itself has nothing to compute */
		for (i = 1; i <= 2; i++) {
			at_v = per_position(r, args[i]);
			if (serve_lies_cached(r->m, args[i])) {
				*(i == 1 ? &x->keys_lie : &x->values_lie) =
					true;
				x->beside += at_v;
			} else {
				x->computed += at_v;
			}
		}
		x->latent = x->computed > 0 && !r->s->absorbs;
		x->computed = x->latent ? 0 : x->computed;
		x->within = serve_lies_within(r->m, args[2], args[1]);
	} else {
		x->cached = per_position(r, args[1]) +
			    per_position(r, args[2]);
		x->cached_bytes = serve_elem_bytes(r->m, args[1]);
		x->keys_lie = x->values_lie = true;
	}
}

/* Whether the kernel's rows are all keys, which a program has to compute. */
static bool
is_of_keys(const struct serve_reading *r, const struct kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n && r->s->absorbs; i++) {
		const struct ir_node *n = ir_node(r->m, k->nodes.at[i]);

		if (n->result && r->of_cache[n->result]) {
			return true;
		}
	}
	return false;
}

/* ---- all kinds ---- */

/* Whether a contraction before n in its region reads v, too. */
static bool
is_read_before(const struct ir_module *m, const struct ir_region *region,
	       const struct ir_node *n, value_id v)
{
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *x = ir_node(m, region->nodes.at[i]);
		const value_id *args = ir_args(m, x);

		if (x == n) {
			break;
		}
		if (ir_is(x->op, IRF_CONTRACTS) && !ir_is(x->op, IRF_PAIRS) &&
		    (args[0] == v || args[x->nargs - 1] == v)) {
			return true;
		}
	}
	return false;
}

/* What the kernel reads of v. */
static double
read_bytes(const struct kernel *k, value_id v)
{
	uint32_t i;

	for (i = 0; i < k->inputs.n; i++) {
		if (k->inputs.at[i].value == v) {
			return k->inputs.at[i].bytes;
		}
	}
	return 0;
}

/* Sets the bytes of the operand that is no weight. */
static void
operand_of(const struct serve_reading *r, const struct kernel *k,
	   const struct kernel *twice, const struct ir_region *region,
	   struct serve_item *x)
{
	const struct ir_node *n = price_main_node(r->m, k, IRF_CONTRACTS,
						 IRF_PAIRS);
	value_id left = ir_args(r->m, n)[0];
	value_id right = ir_args(r->m, n)[n->nargs - 1];
	value_id v = pass_is_weight(r->m, left) ? right : left;

	if (!is_read_before(r->m, region, n, v)) {
		x->operand_bytes = line(read_bytes(k, v), read_bytes(twice, v));
	}
}

static void
dot_item(const struct serve_reading *r, const struct kernel *k,
	 const struct kernel *twice, bool is_layer, struct serve_item *x)
{
	const struct kernel_dot *a = &k->work->dot, *b = &twice->work->dot;
	const struct ir_node *n = price_main_node(r->m, k, IRF_CONTRACTS,
						 IRF_PAIRS);
	value_id w = serve_weight_of(r->m, n);

	x->work = SERVE_DOT;
	x->m = line(a->m, b->m);
	/* of rows that are on all ranks along ep, those that chose its own */
	if (ir_is(n->op, IRF_INDEXED) && r->out->split.is_shared) {
		x->m.fixed /= (double)r->out->split.ep;
		x->m.row /= (double)r->out->split.ep;
	}
	x->n = line(a->n, b->n);
	x->k = line(a->k, b->k);
	x->batch = line(a->batch, b->batch);
	x->groups = a->groups;
	x->rate = price_rate(ir_type(r->m, ir_args(r->m, n)[0])->dtype);
	x->out_bytes = serve_elem_bytes(r->m, ir_args(r->m, n)[0]);
	x->weight_bytes = w ? serve_elem_bytes(r->m, w) : 0;
	x->stored = w ? serve_stored_as(r, w, is_layer) : SERVE_DECLARED;
	x->is_cut = w && serve_is_cut(r->m, w);
	x->is_expert = ir_is(n->op, IRF_INDEXED);
	x->own = r->s->absorbs;
	if (x->own) {
		struct cost_contraction c = { .rate = x->rate };

		x->put_threads = price_put(r->m, &r->t->device, k, &c, false);
		c.own_tail = true;
		x->put_unit = price_put(r->m, &r->t->device, k, &c, false);
	}
	if (k->nodes.n > 1) {	/* two operands and a result, as a gate has */
		x->bytes = line(3 * k->work->write_bytes,
				3 * twice->work->write_bytes);
	}
}

static void
add_kernel(struct serve_reading *r, const struct kernel *k,
	   const struct kernel *twice, const struct ir_region *region,
	   struct serve_part *part, double times)
{
	struct serve_item x = { .times = times, .of_keys = is_of_keys(r, k) };
	const struct kernel_coll *c = &k->work->coll;

	if (k->kind == KERNEL_CONTRACTION) {
		dot_item(r, k, twice, part->is_layer, &x);
		operand_of(r, k, twice, region, &x);
	} else if (k->kind == KERNEL_ATTENTION) {
		attention_item(r, k, region, &x);
	} else if (k->kind != KERNEL_COLLECTIVE) {
		x.work = SERVE_MAP;
		x.kind = k->kind == KERNEL_ROWWISE ? COST_ROWS : COST_MAP;
		x.bytes = line(k->work->read_bytes + k->work->write_bytes,
			       twice->work->read_bytes +
			       twice->work->write_bytes);
	}
	if (k->kind != KERNEL_COLLECTIVE) {
		VEC_PUSH(r->a, &part->items, x);
	}
	if (c->axes) {
		struct serve_item y = { .work = SERVE_COMM, .times = times };

		y.bytes = line(c->bytes, twice->work->coll.bytes);
		y.op = price_cost_op(c->op);
		y.group = group_of(r, c->axes);
		if (y.group.per_node * y.group.nodes > 1) {
			VEC_PUSH(r->a, &part->items, y);
		}
	}
}

static struct serve_part *
new_part(struct serve_program *p, bool is_layer, int64_t count)
{
	struct serve_part *part;

	if (p->nparts == SERVE_MAX_PARTS) {
		p->why = "it has more than 64 repeats and parts between them";
		return &p->part[SERVE_MAX_PARTS - 1];
	}
	part = &p->part[p->nparts++];
	part->is_layer = is_layer;
	part->count = count;
	return part;
}

static void
add_list(struct serve_reading *r, const struct kernel_list *l,
	 const struct kernel_list *twice, struct serve_part *part,
	 double times)
{
	const struct ir_region *region = &r->m->regions.at[l->region];
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i], *b = &twice->at.at[i];

		if (k->kind != KERNEL_REPEAT) {
			add_kernel(r, k, b, region, part, times);
		} else {
			add_list(r, k->body, b->body, part,
				 times * (double)k->body->count);
		}
	}
}

/* Parts follow each other as the model has them: a repeat is one of them. */
static void
read_parts(struct serve_reading *r, region_id body, const struct kernel_list *l,
	   const struct kernel_list *twice)
{
	struct serve_program *p = r->out;
	struct serve_part *part = new_part(p, false, 1);
	uint32_t i;

	for (i = 0; i < l->at.n && !p->why; i++) {
		const struct kernel *k = &l->at.at[i], *b = &twice->at.at[i];

		if (k->kind != KERNEL_REPEAT) {
			add_kernel(r, k, b, &r->m->regions.at[l->region],
				   part, 1);
			continue;
		}
		part = new_part(p, true, k->body->count);
		serve_add_weights(r, k->body->region, 1, part);
		add_list(r, k->body, b->body, part, 1);
		p->layers += k->body->count;
		part = new_part(p, false, 1);
	}
	serve_add_outer_weights(r, body);
}

/* Rows that pass from an iteration of a layer to the next. */
static double
row_bytes(const struct serve_reading *r)
{
	region_id id;
	uint32_t i;
	double most = 0;

	for (id = 1; id < r->m->regions.n; id++) {
		const struct ir_region *region = &r->m->regions.at[id];
		double bytes = 0;

		for (i = 0; region->owner && i < region->params.n; i++) {
			bytes += kernel_bytes(r->m, region->params.at[i]) /
				 ROWS;
		}
		most = bytes > most ? bytes : most;
	}
	return most;
}

/* Whether two lists differ in the sizes of their kernels alone. */
static bool
same_kernels(const struct kernel_list *a, const struct kernel_list *b)
{
	uint32_t i;

	if (a->at.n != b->at.n) {
		return false;
	}
	for (i = 0; i < a->at.n; i++) {
		const struct kernel *k = &a->at.at[i], *l = &b->at.at[i];

		if (k->kind != l->kind ||
		    (k->kind == KERNEL_REPEAT &&
		     !same_kernels(k->body, l->body))) {
			return false;
		}
	}
	return true;
}

/* The same kernels at twice the rows, which only sizes of dims change. */
static bool
read_kernels(struct serve_reading *r, const struct serve_model *s)
{
	int64_t rows = ROWS * serve_apart(&r->out->split);
	func_id f = ir_model(r->m);
	region_id body = r->m->funcs.at[f].body;
	struct kernels *a, *b;

	a = kernels_find(r->m, f, NULL, &r->m->ctx->perm);
	r->out->hop_row_bytes = row_bytes(r);
	set_size(r->m, s->batch, 2 * rows);
	b = kernels_find(r->m, f, NULL, &r->m->ctx->perm);
	if (!same_kernels(a->top, b->top)) {
		r->out->why = "its kernels depend on the batch";
		return false;
	}
	set_size(r->m, s->batch, rows);
	set_size(r->m, s->seq, s->context);
	r->of_cache = arena_alloc(&r->m->ctx->perm, r->m->values.n);
	serve_find_computed(r->m, body, r->of_cache);
	read_parts(r, body, a->top, b->top);
	return !r->out->why;
}

void
serve_program(const struct serve_model *s, const struct target *t,
	      const struct serve_split *split, struct arena *a,
	      struct serve_program *out)
{
	struct serve_reading r = { .s = s, .t = &t->groups.at[0], .a = a,
			     .out = out };
	struct ir_ctx c;

	memset(out, 0, sizeof *out);
	out->split = *split;
	out->split.pp = out->split.replicas = 1;
	ir_ctx_child(&c, s->m->ctx);
	r.m = ir_copy(s->m, &c);
	if (s->absorbs) {
		r.as = pass_find_stored(r.m, &c.perm);
	}
	if (s->in_groups) {
		pass_store_groups(r.m, r.as);
	}
	if (!place_it(s, t, split, r.m)) {
		out->why = "it cannot be placed so";
	} else {
		read_kernels(&r, s);
	}
	ir_ctx_release(&c);
}

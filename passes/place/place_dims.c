/*
 * Which dims an axis of the mesh may split.  Unless the plan states them, they
 * follow from the ops' rules: the tensor axis may split a dim of weights unless
 * an op forbids it, rows are normalised along it with weights of their own, or
 * another axis is there to split it.
 */
#include "passes/kernels/explicit_attention.h"
#include "passes/place/place.h"

#include <math.h>
#include <string.h>

static dim_set
no_dims(const struct place *p, struct arena *a)
{
	return arena_alloc(a, p->m->dims.n * sizeof(bool));
}

static void
add_factor(dim_set set, const struct ir_factor *f)
{
	uint8_t i;

	for (i = 0; f && i < f->n; i++) {
		set[f->dims[i]] = true;
	}
}

/* Whether several operands have the factor. */
static bool
in_many(const struct ir_factor *f)
{
	return (f->in & (f->in - 1)) != 0;
}

/* Adds the dims of factors that `split` marks with this sign. */
static void
add_marked(dim_set set, const struct ir_rule *r, const char *split, char sign,
	   bool many)
{
	const char *q = split;
	char name[8];

	while (*q) {
		size_t k = strcspn(q, " ");

		if (*q == sign && k > 1 && k <= sizeof name) {
			const struct ir_factor *f;

			memcpy(name, q + 1, k - 1);
			name[k - 1] = '\0';
			f = ir_rule_factor(r, name);
			if (f && (!many || in_many(f))) {
				add_factor(set, f);
			}
		}
		q += k + (q[k] == ' ');
	}
}

static bool
is_plain(const struct ir_node *n)
{
	return !ir_is(n->op, IRF_SOURCE | IRF_SINK | IRF_REGION | IRF_CALLS);
}

/* Adds key heads, unless they are the query heads, which are split alike. */
static void
add_grouped(struct place *p, const struct ir_rule *r)
{
	const struct ir_factor *h = ir_rule_factor(r, "h");
	const struct ir_factor *k = ir_rule_factor(r, "k");

	if (h && k && h->dims[0] != k->dims[0]) {
		add_factor(p->facts->grouped, k);
	}
}

/* For attention written as separate ops: dims of queries that keys lack. */
static void
add_queries(void *user, const struct attention *a)
{
	struct place *p = user;
	int i;

	for (i = 0; i < a->rule->nf; i++) {
		const struct ir_factor *f = &a->rule->f[i];

		if (f->out && f->in == 1u << a->operand) {
			add_factor(p->facts->context, f);
		}
	}
}

/*
 * An index picks from v, and from the weight that is stored rounded and
 * widened to it.
 */
static void
mark_picked(struct place *p, value_id v)
{
	const struct ir_node *w = ir_rounded_weight(p->m, v);

	p->facts->picked[v] = true;
	if (w) {
		p->facts->picked[w->result] = true;
	}
}

/* Adds the node's dims to all sets; dims of weights go to `tensor`. */
static void
scan_node(struct place *p, const struct ir_node *n, dim_set blocked)
{
	struct ir_module *m = p->m;
	const char *split = ir_ops[n->op].split;
	const struct ir_factor *f;
	struct ir_rule r;
	uint32_t i;

	if (ir_is(n->op, IRF_PARAM)) {
		const struct ir_type *t = ir_type(m, n->result);

		for (i = 0; i < t->ndims; i++) {
			p->facts->tensor[t->dims[i]] = true;
		}
	}
	if (!is_plain(n)) {
		return;
	}
	ir_bind(m, n, &r);
	add_marked(blocked, &r, split, '-', false);
	add_marked(blocked, &r, split, '!', true);
	if (ir_is(n->op, IRF_PAIRS)) {
		const struct ir_factor *s = ir_rule_factor(&r, "s");
		const struct ir_factor *t = ir_rule_factor(&r, "t");

		if (s && t && s->dims[0] == t->dims[0]) {
			add_factor(p->facts->context, s);
		}
		add_grouped(p, &r);
	}
	f = ir_rule_factor(&r, "of");
	if (ir_is(n->op, IRF_CONTRACTS) && ir_is(n->op, IRF_INDEXED) && f) {
		add_factor(p->facts->experts, f);
		for (i = 0; i < n->nargs; i++) {
			if (f->in >> i & 1) {
				mark_picked(p, ir_args(m, n)[i]);
			}
		}
	}
}

static bool
any(const struct place *p, const bool *set)
{
	dim_id d;

	for (d = 1; d < p->m->dims.n; d++) {
		if (set[d]) {
			return true;
		}
	}
	return false;
}

void
place_find_dims(struct place *p)
{
	struct place_facts *f = p->facts;
	struct ir_module *m = p->m;
	dim_set blocked = no_dims(p, &p->arena);
	node_id id;
	dim_id d;

	f->batch = ir_dim_find(m, intern_str(&m->ctx->syms, "batch"));
	f->context = no_dims(p, f->arena);
	f->experts = no_dims(p, f->arena);
	f->tensor = no_dims(p, f->arena);
	f->grouped = no_dims(p, f->arena);
	f->picked = arena_alloc(f->arena, m->values.n);
	for (id = 1; id < m->nodes.n; id++) {
		scan_node(p, ir_node(m, id), blocked);
	}
	attention_each(m, add_queries, p);
	for (d = 1; d < m->dims.n; d++) {
		if (d == f->batch || f->context[d] || f->experts[d] ||
		    blocked[d]) {
			f->tensor[d] = false;
		}
	}
}

bool
place_check_dims(struct place *p)
{
	struct ir_module *m = p->m;

	if (p->plan->tp > 1 && !p->plan->split[PLAN_TP].n &&
	    !any(p, p->facts->tensor)) {
		diag_error(&m->ctx->diags, (struct span){ 0, 0 },
			   "tp = %lld, and no dim of a weight can be split: "
			   "1 is legal", (long long)p->plan->tp);
		return false;
	}
	return true;
}

static void
take(dim_set to, const bool *from, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		to[i] |= from[i];
	}
}

/* Optimizer state may also be split by the dims that ZeRO uses. */
static void
add_zero_dims(struct place *p)
{
	node_id id;

	for (id = 1; id < p->m->nodes.n; id++) {
		const struct ir_node *n = ir_node(p->m, id);

		if (ir_is(n->op, IRF_PARAM)) {
			p->late[place_zero_dim(p, ir_type(p->m,
							  n->result))] = true;
		}
	}
}

void
place_choose_axis(struct place *p, axis_id a, enum place_kind kind,
		  bool second)
{
	static const enum plan_axis of[] = {
		[PLACE_CONTEXT] = PLAN_CP, [PLACE_TENSOR] = PLAN_TP,
		[PLACE_DATA] = PLAN_DP, [PLACE_EXPERT] = PLAN_EP
	};
	const struct plan_split *said = kind == PLACE_TIME ? NULL
		: &p->plan->split[of[kind]];
	uint32_t n = p->m->dims.n, i;

	if (!p->may) {
		p->may = no_dims(p, &p->arena);
		p->late = no_dims(p, &p->arena);
	}
	p->axis = a;
	p->kind = kind;
	p->ranks = p->m->axes.at[a].size;
	place_set_rates(p);
	p->lengths[a] = p->length;
	p->strict = kind == PLACE_TENSOR;
	memset(p->may, 0, n * sizeof *p->may);
	if (kind == PLACE_CONTEXT) {
		take(p->may, p->facts->context, n);
	} else if (kind == PLACE_TENSOR) {
		take(p->may, p->facts->tensor, n);
	} else if (kind == PLACE_TIME ||
		   !ir_setting(p->m, "program.serves")) {
		p->may[p->facts->batch] = p->facts->batch != 0;
	}
	if (kind == PLACE_EXPERT) {
		take(p->may, p->facts->experts, n);
	}
	if (said && said->n) {
		memset(p->may, 0, n * sizeof *p->may);
		for (i = 0; i < said->n; i++) {
			p->may[said->dims[i]] = true;
		}
	}
	if (kind == PLACE_TENSOR && p->plan->sequence) {
		take(p->may, p->facts->context, n);
	}
	for (i = 0; second && i < n; i++) {
		p->may[i] = p->may[i] && !p->facts->grouped[i];
	}
	memcpy(p->late, p->may, n * sizeof *p->late);
	if (p->plan->zero > 0 && (kind == PLACE_DATA ||
				  kind == PLACE_EXPERT)) {
		add_zero_dims(p);
	}
}

dim_id
place_zero_dim(const struct place *p, const struct ir_type *t)
{
	double most = 1, size;
	dim_id best = 0;
	axis_id axes[IR_MAX_AXES];
	uint32_t i, k, n;

	for (i = 0; i < t->ndims; i++) {
		size = (double)ir_dim_size(p->m, t->dims[i]);
		n = ir_cuts(t, i, axes);
		for (k = 0; k < n; k++) {
			size = axes[k] == p->axis ? size
				: floor(size / p->lengths[axes[k]]);
		}
		if (size > most) {
			most = size;
			best = t->dims[i];
		}
	}
	return best;
}

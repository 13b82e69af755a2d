/*
 * Contractions with experts: what pairs of a token and a choice count, and
 * which experts this rank has.  The same for every back end.
 */
#include "codegen/experts/experts.h"

static int64_t
stride_in(const struct cg_site *s, const struct ir_type *t, dim_id d)
{
	int64_t n = 1;
	uint32_t i;

	for (i = t->ndims; i-- > 0 && t->dims[i] != d; ) {
		n *= cg_local_size(s->m, s->at, t->dims[i], t->cut[i]);
	}
	return i < t->ndims ? n : 0;
}

/* Appends a factor's dims to those that are counted. */
static void
count(const struct cg_site *s, const struct cg_picks *p,
      const struct cg_view *const *views, const char *factor,
      struct cg_counted *to)
{
	const struct ir_factor *f = ir_rule_factor(&p->rule, factor);
	const struct ir_type *out = ir_type(s->m, p->node->result);
	uint32_t i, k;

	for (i = 0; i < f->n; i++) {
		dim_id d = f->dims[i];
		int at = ir_type_at(p->chosen, d);

		to->at[to->n].index = stride_in(s, p->chosen, d);
		to->at[to->n].out = stride_in(s, out, d);
		to->at[to->n].at = ir_type_at(out, d);
		if (at >= 0) {
			to->at[to->n].size = cg_local_size(s->m, s->at, d,
							   p->chosen->cut[at]);
		}
		for (k = 0; k < 2; k++) {
			at = ir_type_at(p->types[k], d);
			to->at[to->n].stride[k] = at < 0 ? 0
				: views[k]->stride[at];
			if (at >= 0) {
				to->at[to->n].size = views[k]->size[at];
			}
		}
		to->size *= to->at[to->n++].size;
	}
}

void
cg_picks_begin(const struct cg_site *s, node_id head, struct cg_picks *p)
{
	const value_id *args;
	bool to;
	int i;

	p->node = ir_node(s->m, head);
	to = p->node->op == IR_DOT_TO;
	args = ir_args(s->m, p->node);
	ir_bind(s->m, p->node, &p->rule);
	p->from[0] = args[to ? 1 : 0];
	p->from[1] = args[to ? 0 : 2];
	for (i = 0; i < 2; i++) {
		p->types[i] = ir_type(s->m, p->from[i]);
	}
}

bool
cg_picks_find(const struct cg_site *s, const struct kernel *x,
	      const struct cg_view *const *views, struct cg_picks *p)
{
	bool to = p->node->op == IR_DOT_TO;
	const struct ir_type *has = to ? ir_type(s->m, p->node->result)
				       : p->types[1];
	value_id index = ir_args(s->m, p->node)[to ? 2 : 1];

	if (!kernel_reads(x, index)) {
		return false;
	}
	p->index = cg_operand(s->a, s->out, index, 0, false);
	p->chosen = ir_type(s->m, index);
	p->of = ir_rule_factor(&p->rule, "of")->dims[0];
	p->cut = has->cut[ir_type_at(has, p->of)];
	p->n = cg_local_size(s->m, s->at, p->of, p->cut);
	p->spread = cg_spread(s->a, s->out, ir_dim_size(s->m, p->of), p->cut);
	p->others = p->cut && !ir_type(s->m, p->node->result)->routed;
	p->pairs.size = p->rows.size = 1;
	count(s, p, views, "S", &p->pairs);
	count(s, p, views, "C", &p->pairs);
	count(s, p, views, "M", &p->rows);
	return true;
}

void
cg_picks_factors(const struct cg_site *s, const struct cg_picks *p,
		 const struct cg_view *const *views, struct cg_factor *first,
		 struct cg_factor *n, struct cg_dims *dims)
{
	bool to = p->node->op == IR_DOT_TO;
	const struct ir_factor *a = ir_rule_factor(&p->rule, to ? "N" : "over");
	const struct ir_factor *b = ir_rule_factor(&p->rule, to ? "K" : "N");
	const struct ir_type *out = ir_type(s->m, p->node->result);

	cg_factor_find(views, p->types, a, a->dims, first);
	cg_factor_find(views, p->types, b, b->dims, n);
	if (to) {
		cg_dims_find(s, out, a, &dims[1]);
	}
	cg_dims_find(s, out, b, &dims[2]);
}

static void
add_counted(struct cg_factor *f, const struct cg_counted *d)
{
	uint32_t i;

	for (i = 0; i < d->n; i++) {
		f->at[f->n].size = d->at[i].size;
		f->at[f->n].stride[0] = d->at[i].stride[0];
		f->at[f->n++].stride[1] = d->at[i].stride[1];
	}
}

void
cg_factor_count(const struct cg_picks *p, struct cg_factor *to)
{
	to->size = p->pairs.size * p->rows.size;
	add_counted(to, &p->pairs);
	add_counted(to, &p->rows);
}

/*
 * The nodes that an update rule is made of, appended where the optimizer is.
 */
#include "passes/derive.h"
#include "passes/optimize.h"

value_id
opt_number(struct optimizer *o, double v)
{
	struct ir_type f32 = { .dtype = IR_F32 };

	return derive_full(o->m, o->r, v, &f32, o->span);
}

value_id
opt_op1(struct optimizer *o, enum ir_op op, value_id a)
{
	struct ir_new n;

	ir_new_init(&n, op, o->span);
	ir_new_arg(&n, a);
	return derive_append(o->m, o->r, &n);
}

value_id
opt_op2(struct optimizer *o, enum ir_op op, value_id a, value_id b)
{
	struct ir_new n;

	ir_new_init(&n, op, o->span);
	ir_new_arg(&n, a);
	ir_new_arg(&n, b);
	return derive_append(o->m, o->r, &n);
}

value_id
opt_sign(struct optimizer *o, value_id a)
{
	value_id above = opt_op1(o, IR_STEP, a);
	value_id below = opt_op1(o, IR_STEP, opt_times(o, a, -1));

	return opt_op2(o, IR_SUB, above, below);
}

value_id
opt_times(struct optimizer *o, value_id a, double by)
{
	return opt_op2(o, IR_MUL, a, opt_number(o, by));
}

sym_t
opt_named(struct optimizer *o, sym_t name, const char *suffix)
{
	struct ir_ctx *c = o->m->ctx;

	return intern_str(&c->syms, arena_printf(&c->tmp, "%s%s",
						 ir_text(c, name), suffix));
}

value_id
opt_source(struct optimizer *o, enum ir_op op, sym_t name,
	   const struct ir_type *type, const char *init)
{
	struct ir_new n;

	ir_new_init(&n, op, o->span);
	n.types[0] = *type;
	ir_new_text(&n, IR_ATTR_NAME, name);
	if (init) {
		ir_new_text(&n, IR_ATTR_INIT,
			    intern_str(&o->m->ctx->syms, init));
	}
	return derive_append(o->m, o->r, &n);
}

void
opt_sink(struct optimizer *o, enum ir_op op, sym_t name, value_id v)
{
	struct ir_new n;

	ir_new_init(&n, op, o->span);
	ir_new_arg(&n, v);
	ir_new_text(&n, IR_ATTR_NAME, name);
	derive_sink(o->m, o->r, &n);
}

value_id
opt_fit(struct optimizer *o, value_id v, const struct ir_type *t)
{
	return derive_fit(o->m, o->r, v, t, o->span);
}

value_id
opt_over(struct optimizer *o, enum ir_op op, value_id v, const dim_id *dims,
	 uint8_t n)
{
	const struct ir_type t = *ir_type(o->m, v);
	struct ir_new new;
	uint8_t i;

	ir_new_init(&new, op, o->span);
	ir_new_arg(&new, v);
	ir_new_attr(&new, IR_ATTR_OVER);
	for (i = 0; i < (n ? n : t.ndims); i++) {
		ir_new_dim(&new, IR_ATTR_OVER, n ? dims[i] : t.dims[i]);
	}
	return derive_append(o->m, o->r, &new);
}

value_id
opt_blend(struct optimizer *o, value_id old, value_id new, double by)
{
	return opt_op2(o, IR_ADD, old,
		       opt_times(o, opt_op2(o, IR_SUB, new, old), by));
}

value_id
opt_gradient(struct optimizer *o, const struct opt_weight *w)
{
	value_id g =
		o->clips ? opt_source(o, IR_SAVED,
				      opt_named(o, w->name, ".gradient"),
				      &w->type, NULL) :
			   opt_source(o, IR_GRADIENT, w->name, &w->type, NULL);

	return derive_cast(o->m, o->r, g, IR_F32, o->span);
}

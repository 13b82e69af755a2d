/*
 * Types of values as tests change them: in place, which no pass may do, since
 * other values have the same.
 */
#ifndef T_TYPE_H
#define T_TYPE_H

#include "ir/ir.h"

/* From now on the value has one of its own, to be written to. */
static inline struct ir_type *
own_type(struct ir_module *m, value_id v)
{
	struct ir_types *all = m->ctx->types;

	table_add(all->arena, &all->table, ~(uint64_t)0);
	VEC_PUSH(all->arena, &all->at, *ir_type(m, v));
	m->values.at[v].type = all->at.n - 1;
	return &all->at.at[all->at.n - 1];
}

#endif

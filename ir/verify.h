/*
 * Private to verify.c and its verify_*.c: the verifier's state.
 *
 * Every function that returns bool has reported when it returns false; the
 * first broken rule of a node ends the look at that node.
 */
#ifndef IR_VERIFY_H
#define IR_VERIFY_H

#include "ir/text/scan.h"	/* limits of names and strings */

/* What the walk, which follows the printed order, knows of a value. */
enum seen {
	SEEN_NOT,
	SEEN,
	SEEN_BROKEN,	/* its type is: what uses it is not looked at */
	SEEN_GONE	/* its region has ended */
};

/* A named source, for the rule that one name is one tensor. */
struct named {
	region_id region;
	sym_t name;
	uint16_t op;
	node_id node;
};

struct verifier {
	struct ir_module *m;
	struct ir_ctx *ctx;
	uint8_t *seen;		/* by value, enum seen */
	uint32_t *number;	/* by value: as printed, plus one */
	uint32_t next;
	func_id *home;		/* by value: the function that defines it */
	bool *node_seen, *region_seen;
	bool *region_numbered;
	uint32_t depth;		/* of the numbering */
	dim_id *expr_dim;	/* by expr: the newest dim in it */
	uint32_t *terms;	/* by expr: numbers and dims in it */
	VEC(sym_t) vars;	/* of the repeats around the node */
	VEC(struct named) named;
	func_id func;
	bool ok;
};

bool ver_fail(struct verifier *v, struct span at, const char *fmt, ...)
	BASE_PRINTF(3, 4);
/* "node %q.4 (dot): " and the rest, at the node's span. */
bool ver_broken(struct verifier *v, const struct ir_node *n,
		const char *fmt, ...) BASE_PRINTF(3, 4);
const char *ver_dim(struct verifier *v, dim_id d);

/* %q.4, as it prints. */
const char *ver_value(struct verifier *v, value_id id);

/* ---- verify_head.c ---------------------------------------------------- */

/* [A-Za-z_][A-Za-z0-9_]*, or several with dots between. */
bool ver_is_name(const struct verifier *v, sym_t name, bool dots);
/* The name's text, or "?" if there is no such name. */
const char *ver_text(const struct verifier *v, sym_t name);
/* A set of names, empty; and whether a name is new to it. */
bool *ver_no_names(struct verifier *v);
bool ver_first_time(bool *seen, sym_t name);
/* All that stands before the functions. */
void ver_header(struct verifier *v);

/* ---- verify_node.c ---------------------------------------------------- */

/* NULL if the type is sound, else what is wrong with it. */
const char *ver_type_fault(struct verifier *v, type_id id);
/* Ids and counts of the node itself; nothing is followed before this. */
bool ver_ids(struct verifier *v, const struct ir_node *n, node_id id);
bool ver_results(struct verifier *v, const struct ir_node *n);
bool ver_operands(struct verifier *v, const struct ir_node *n);
/* The result's type is what the op's rule says. */
bool ver_rule(struct verifier *v, const struct ir_node *n);
bool ver_call(struct verifier *v, const struct ir_node *n);
/* Counts and types of what a repeat carries round, and of its yield. */
bool ver_carried(struct verifier *v, const struct ir_node *n);
bool ver_yield(struct verifier *v, const struct ir_node *n);
/* NULL, or what is wrong with what a region hands back. */
const char *ver_region_fault(struct verifier *v, const struct ir_region *r,
			     bool *silent);

/* ---- verify_attr.c ---------------------------------------------------- */

/* The attributes of a node, one by one. */
bool ver_attrs(struct verifier *v, const struct ir_node *n);
/* What attributes say of the node's dims; its operands' types are sound. */
bool ver_relations(struct verifier *v, const struct ir_node *n);
/* `{i}` in the node's name against repeat variables and its own dims. */
bool ver_template(struct verifier *v, const struct ir_node *n);

#endif

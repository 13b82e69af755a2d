/*
 * Private to verify.c and its verify_*.c: the verifier's state.
 *
 * Every function that returns bool has reported an error when it returns false;
 * after the first error of a node the rest of that node is not checked.
 */
#ifndef IR_VERIFY_H
#define IR_VERIFY_H

#include "ir/text/scan.h"	/* limits of names and strings */

/*
 * What is known of a value at a point of the walk, which follows the printed
 * order.
 */
enum seen {
	SEEN_NOT,
	SEEN,
	SEEN_BROKEN,	/* it is: nodes that use it are not checked */
	SEEN_GONE	/* its region has ended */
};

/* A named source, to check that one name is one tensor. */
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

/* ---- verify_report.c -------------------------------------------------- */

/* The name's text, or "?" if there is no such name. */
const char *ver_text(const struct verifier *v, sym_t name);
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
/* An empty set of names; whether a name is new to it, which adds it. */
bool *ver_no_names(struct verifier *v);
bool ver_first_time(bool *seen, sym_t name);
/* Checks all that is before the functions. */
void ver_header(struct verifier *v);

/* ---- verify_node.c ---------------------------------------------------- */

/* NULL if the type is well-formed, else what is wrong with it. */
const char *ver_type_fault(struct verifier *v, type_id id);
/* Checks ids and counts of the node itself; nothing is followed before this. */
bool ver_ids(struct verifier *v, const struct ir_node *n, node_id id);
bool ver_results(struct verifier *v, const struct ir_node *n);
bool ver_operands(struct verifier *v, const struct ir_node *n);
/* The result's type is what the op's rule says. */
bool ver_rule(struct verifier *v, const struct ir_node *n);
bool ver_call(struct verifier *v, const struct ir_node *n);
/*
 * Checks counts and types of the values that a repeat carries, and of its
 * yield.
 */
bool ver_carried(struct verifier *v, const struct ir_node *n);
bool ver_yield(struct verifier *v, const struct ir_node *n);
/* NULL, or what is wrong with a region's results. */
const char *ver_region_fault(struct verifier *v, const struct ir_region *r,
			     bool *silent);

/* ---- verify_attr.c ---------------------------------------------------- */

/* Checks the attributes of a node one by one. */
bool ver_attrs(struct verifier *v, const struct ir_node *n);
/*
 * Checks attributes against the node's dims; its operands' types are
 * well-formed.
 */
bool ver_relations(struct verifier *v, const struct ir_node *n);
/* Checks `{i}` in the node's name against repeat variables and its own dims. */
bool ver_template(struct verifier *v, const struct ir_node *n);

#endif

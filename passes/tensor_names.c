/*
 * Full names of tensors, for all passes.  The full name of a weight is the
 * names of the calls and repeats around it and its own, joined by dots.  In it,
 * {i} is the iteration of the nearest repeat around the weight whose variable
 * is i, so names can be joined before any {i} is replaced.  {2*i+1} contains i
 * as {i} does.
 */
#include "passes/pass.h"

#include <string.h>

bool
pass_names_tensors(const struct ir_node *n)
{
	return ir_is(n->op, IRF_CALLS) ||
	       (ir_is(n->op, IRF_SOURCE) && !ir_is(n->op, IRF_UNIQUE) &&
		ir_op_takes(n->op, IR_ATTR_NAME) != IR_TAKES_NOT);
}

bool
pass_is_trained(const struct ir_module *m, const struct ir_node *n)
{
	return ir_is(n->op, IRF_PARAM) && !ir_attr(m, n, IR_ATTR_FROZEN);
}

/* Finds the next placeholder with `var` in the text, or NULL. */
static const char *
find_var(const char *text, const char *var, struct ir_placeholder *p)
{
	while ((text = strchr(text, '{'))) {
		const char *shut = strchr(text, '}');

		if (!shut) {
			return NULL;
		}
		ir_placeholder_read(text + 1, (size_t)(shut - text) - 1, p);
		if (ir_placeholder_is(p, var)) {
			return text;
		}
		text++;
	}
	return NULL;
}

bool
pass_mentions(const char *text, const char *var)
{
	struct ir_placeholder p;

	return find_var(text, var, &p) != NULL;
}

const char *
pass_rename(struct arena *a, const char *text, const char *var,
	    const char *by)
{
	struct ir_placeholder p;
	const char *hit;
	struct buf b;

	buf_init(&b, a);
	while ((hit = find_var(text, var, &p))) {
		buf_add(&b, text, (size_t)(hit - text));
		ir_placeholder_put(&b, &p, by);
		text = strchr(hit, '}') + 1;
	}
	buf_puts(&b, text);
	return buf_text(&b);
}

const char *
pass_join(struct arena *a, const char *prefix, const char *name)
{
	if (!prefix || !*prefix) {
		return name ? name : "";
	}
	return name && *name ? arena_printf(a, "%s.%s", prefix, name)
			     : prefix;
}

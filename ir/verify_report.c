/*
 * How the verifier names things and reports what is wrong with them.
 */
#include "ir/verify.h"

#include <inttypes.h>

const char *
ver_text(const struct verifier *v, sym_t name)
{
	return name < v->ctx->syms.text.n ? ir_text(v->ctx, name) : "?";
}

bool
ver_fail(struct verifier *v, struct span at, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, &v->ctx->tmp);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	diag_error(&v->ctx->diags, at, "%s", buf_text(&b));
	v->ok = false;
	return false;
}

const char *
ver_dim(struct verifier *v, dim_id d)
{
	return d && d < v->m->dims.n ? ver_text(v, v->m->dims.at[d].name)
				     : "?";
}

/* "%q.4", or "%q.?" for a value that has no number yet. */
const char *
ver_value(struct verifier *v, value_id id)
{
	struct arena *a = &v->ctx->tmp;
	const char *hint;

	if (!id || id >= v->m->values.n) {
		return arena_printf(a, "value %" PRIu32, id);
	}
	hint = ver_text(v, v->m->values.at[id].hint);
	if (!v->number[id]) {
		return arena_printf(a, "%%%s%s?", hint, *hint ? "." : "");
	}
	return arena_printf(a, "%%%s%s%" PRIu32, hint, *hint ? "." : "",
			    v->number[id] - 1);
}

bool
ver_broken(struct verifier *v, const struct ir_node *n, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, &v->ctx->tmp);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	return ver_fail(v, n->span, "node %s%s(%s): %s",
			n->nresults ? ver_value(v, n->result) : "",
			n->nresults ? " " : "",
			n->op < IR_OP_COUNT ? ir_ops[n->op].name : "?",
			buf_text(&b));
}

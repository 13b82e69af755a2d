/*
 * fold-dims: replaces a dim written as an expression, `hidden = heads * hd`,
 * and an integer attribute written as one, by its value.  The reader and the
 * front end have evaluated them already, so nothing can fail here.
 *
 * It runs first, so no later pass can depend on how a size was spelled.  It is
 * a pass and not part of reading, so that sizes can be changed before it: an
 * expression follows its dims, a number does not.
 */
#include "passes/pass.h"

bool
pass_fold_dims(struct pass_ctx *p, struct ir_module *m)
{
	uint32_t i, dims = 0, attrs = 0;

	for (i = 1; i < m->dims.n; i++) {
		dims += m->dims.at[i].expr != 0;
		m->dims.at[i].expr = 0;
	}
	for (i = 0; i < m->attrs.n; i++) {
		attrs += m->attrs.at[i].expr != 0;
		m->attrs.at[i].expr = 0;
	}
	pass_count(p, "dims folded", dims);
	pass_count(p, "attributes folded", attrs);
	return true;
}

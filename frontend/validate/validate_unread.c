/* Cells that are not what their columns are to have, and where they are. */
#include "frontend/validate/validate.h"

const char *
val_unread(struct val *v, uint32_t row, int column, const char *wanted)
{
	struct ir_ctx *c = &v->d->ctx;

	v->unread = tsv_span(&v->table, &c->sources, row, column);
	return arena_printf(&c->perm, "its %s is not %s",
			    v->table.names[column], wanted);
}

void
val_place(const struct val *v, const struct val_row *r, struct buf *out)
{
	struct source_pos pos;

	if (r->unread.lo > 0) {
		source_locate(&v->d->ctx.sources, r->unread.lo, &pos);
		buf_printf(out, "%s:%u:%u: ", pos.file->name, pos.line,
			   pos.col);
	}
}

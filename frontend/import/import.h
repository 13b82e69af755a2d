/*
 * llmc import: from the config.json of a Hugging Face folder to a model in
 * the language of docs/language.md, and a check of the weights beside it.
 * docs/import.md is the manual.
 *
 * A family is one file of families/: the fields that its config.json may
 * have, and the text of the model with `$name` where a number of the file
 * stands.  import_family.c runs such a file, import_config.c reads the JSON,
 * import_weights.c compares names and shapes.  The folder knows the language
 * through frontend/frontend.h, and of runtime/ its readers of JSON and of
 * safetensors.
 */
#ifndef FRONTEND_IMPORT_H
#define FRONTEND_IMPORT_H

#include "frontend/driver.h"

struct rt_st;

/* ---- import.c: the command -------------------------------------------- */

/* Imports d->opts.input; the model's text goes to d->out. */
bool imp_import(struct driver *d);

/* ---- import_model.c: the text of a model ------------------------------ */

/* Where a dim of the model has its size from. */
struct imp_origin {
	const char *dim;
	const char *field;	/* of config.json; NULL: --dim */
	struct span span;	/* of the field's value, or of what --dim has */
	bool is_sum;		/* the field is one that it is computed from */
};

/* Bytes of a text that are, or were computed from, the value of a field. */
struct imp_piece {
	size_t lo, hi;
	const char *field;
	struct span span;	/* of the field's value */
};

struct imp_pieces {
	VEC(struct imp_piece) at;
};

/* What the text of a model is made of. */
struct imp_request {
	uint32_t file;		/* config.json, a source of the context */
	const char *name;	/* of the model; NULL: that of its family */
	const struct opt_dim *dims;	/* --dim */
	uint32_t ndims;
	/* the weights beside it, for the prefix of their names; or NULL */
	const struct rt_st *weights;
	/* in the arena of the context: first those that imp_add_dims() found,
	 * then others of imp_model() */
	VEC(struct imp_origin) origins;
	/* of the text that imp_model() appended to, in order */
	struct imp_pieces pieces;
};

/* Appends the model to `out`; false after reporting. */
bool imp_model(struct ir_ctx *c, struct imp_request *rq,
	       struct buf *out);
/* The families, in the order of their names, for messages and docs. */
const char *imp_families(struct arena *a);

/* ---- import_places.c: where errors of the text are shown --------------- */

/* Makes each --dim a text that errors can be shown in. */
void imp_add_dims(struct ir_ctx *c, struct imp_request *rq);
/* Where the dim has its size from, or NULL. */
const struct imp_origin *imp_origin(const struct imp_request *rq,
				    const char *dim, size_t n);
/*
 * Moves what was reported in the model's text to the field whose value is
 * there, to where the dims that it names have their sizes from, first of all a
 * --dim, or to `otherwise`.
 */
void imp_move_errors(struct diags *d, const struct imp_request *rq,
		     const struct source_file *text, struct span otherwise);

/* ---- import_weights.c: names and shapes of weights -------------------- */

/*
 * Whether `st`, opened from `path`, has each tensor of the model, whose calls
 * are inlined, in its shape, and unless allow_unused no other.  False after
 * reporting the first few that differ.
 */
bool imp_check_weights(struct ir_module *m, const struct rt_st *st,
		       const char *path, bool allow_unused);

#endif

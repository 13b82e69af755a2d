/*
 * Private to frontend/import: a config.json as a list of fields, and what
 * running the file of a family knows.
 */
#ifndef IMPORT_FAMILY_H
#define IMPORT_FAMILY_H

#include "frontend/import/import.h"

/* ---- import_config.c: config.json -------------------------------------- */

enum imp_kind { IMP_NULL, IMP_BOOL, IMP_NUMBER, IMP_TEXT, IMP_LIST,
		IMP_OBJECT };

/*
 * One value of the file.  Those inside an object or a list follow it, as
 * "rope_scaling.factor" and "layer_types._0".
 */
struct imp_field {
	const char *path;
	enum imp_kind kind;
	const char *text;	/* a text, or a number or word as written */
	double num;		/* IMP_NUMBER; IMP_BOOL: 0 or 1 */
	uint32_t inside;	/* how many fields after it it holds */
	struct span span;
	bool read;		/* the family said what it is */
	bool kept;		/* it goes into the model's export block */
};

struct imp_config {
	VEC(struct imp_field) at;
	struct span start;	/* the file's first byte */
};

/* False after reporting. */
bool imp_config_read(struct ir_ctx *c, uint32_t file, struct imp_config *out);
/* The field of that path, or NULL. */
struct imp_field *imp_config_find(const struct imp_config *g,
				  const char *path);
/* The same, but NULL also where it is null. */
struct imp_field *imp_config_given(const struct imp_config *g,
				   const char *path);

/* ---- family_files.c: made of families/ when llmc is built ------------- */

struct imp_family_file {
	const char *name;	/* "llama", or "decoder.part" */
	const char *const *lines;	/* then NULL */
};
extern const struct imp_family_file imp_family_files[];
extern const size_t imp_nfamily_files;

/* ---- import_values.c --------------------------------------------------- */

/* A number, text or flag by the name that a family file gives it. */
struct imp_value {
	const char *name;
	bool is_text;
	double num;
	const char *text;
	struct imp_field *field;	/* where it was given, or NULL */
	struct imp_field *from;	/* of a sum: the last field in it, or NULL */
	struct imp_pieces pieces;	/* of a text */
	const char *otherwise;	/* the default as it is written, or NULL */
	const char *dim;	/* the dim of the model that it became */
};

struct imp {
	struct ir_ctx *c;
	const struct imp_request *rq;
	struct imp_config config;
	const char *family;
	VEC(struct imp_value) values;
	VEC(const char *) known;	/* fields that the family names */
	VEC(const char *) notes;	/* lines of the model's head comment */
	VEC(const char *) dims;	/* of the model, for --dim */
	VEC(const char *) layers;	/* each layer's call */
	bool on[16];		/* % if: whether lines count, by depth */
	uint32_t depth;
	struct buf body;
	struct imp_pieces pieces;	/* of the body */
};

/* The value of that name, or NULL. */
struct imp_value *imp_value(struct imp *x, const char *name);
/* Sets a value, also one that there is. */
struct imp_value *imp_set(struct imp *x, const struct imp_value *v);
struct imp_value *imp_set_number(struct imp *x, const char *name, double v);
struct imp_value *imp_set_text(struct imp *x, const char *name,
			       const char *text);
/* Says that `out`, from byte lo on, is the value of a field. */
void imp_piece(struct imp *x, struct imp_pieces *to, size_t lo,
	       const struct buf *out, const struct imp_field *f);
/* The field that a value is, or was computed from, or NULL. */
struct imp_field *imp_field_of(const struct imp_value *v);
/* Appends a line with the value of each $name, or ${name}, in its place. */
void imp_expand(struct imp *x, const char *line, struct buf *out,
		struct imp_pieces *from);
/* Marks a field, and what it holds, as known; kept: for the export block. */
void imp_mark(struct imp *x, const char *path, bool kept);
/* A line of the model's head comment, unless it has it. */
void imp_note(struct imp *x, const char *note);
/* A number as the language writes it. */
const char *imp_number(struct imp *x, double v);
/* "null", "a list" */
const char *imp_kind_text(const struct imp_field *f);
/* Reports a field that is something else than what is wanted; false. */
bool imp_wrong_kind(struct imp *x, const struct imp_field *f,
		    const char *want);
/*
 * Whether a field has a number; reports another kind.  It is whole and at
 * least `least`, or any if that is -1.
 */
bool imp_is_number(struct imp *x, const struct imp_field *f, int least);
/* Reports that there is no such field, and what it may have been called. */
void imp_missing(struct imp *x, const char *name);

/* ---- import_family.c --------------------------------------------------- */

/* The file of that name, or NULL. */
const struct imp_family_file *imp_find_file(const char *name);
/* Runs the lines of a file; `uses`: of files around it. */
void imp_run_file(struct imp *x, const char *name, int uses);

/* ---- import_rope.c: fields that several names stand for ---------------- */

/* What % rope asks for. */
struct imp_rope {
	const char *value;	/* the name of what it sets */
	const char *kind;	/* of layers: rope_parameters.KIND; or NULL */
	const char *theta;	/* the field beside it; NULL: rope_theta */
	double part;		/* of a head that is rotated, if not given */
};

/*
 * Reads rope_theta, rope_scaling and rope_parameters.  Sets the value to the
 * arguments of rope(); `rotary`, the share of a head that is rotated; and
 * VALUE_m, what cosines and sines are multiplied by, as an expression or "".
 */
void imp_rope(struct imp *x, const struct imp_rope *r);
/* Reads torch_dtype or dtype: sets `dtype`. */
void imp_dtype(struct imp *x);

/* ---- import_kinds.c ---------------------------------------------------- */

#define IMP_MOST_LAYERS 4000

/*
 * Reads the list of each layer's kind; `pairs` are "kind=call ..", `turns` the
 * calls that take turns without it.  Sets a value for each call: its layers.
 */
void imp_kinds(struct imp *x, const char *field, const char *pairs,
	       const char *turns);
/* Prints the layers, as a repeat over one period; "PREFIX.{i}". */
void imp_stack(struct imp *x, const char *prefix);

/* ---- import_export.c --------------------------------------------------- */

/* The block `export`: the fields of config.json, numbers as the dims that
 * they became. */
void imp_export(struct imp *x, struct buf *out);

#endif

/*
 * The language of docs/language.md: from the text of a model, a plan or a
 * target to IR and to struct target.  The commands of llmc and tests call
 * these functions; they know ir/ and the public headers of passes/, and
 * nothing of options or of what becomes of a module.  The structs of the tree
 * are private to frontend/lang.
 */
#ifndef FRONTEND_FRONTEND_H
#define FRONTEND_FRONTEND_H

#include "ir/ir.h"
#include "passes/price/target.h"

struct ast_file;

/* ---- parser.y, lexer.l ------------------------------------------------ */

/* Whether the language reserves the word. */
bool fe_is_word(const char *text);
/* Reports every syntax error it can reach; NULL if there was one. */
struct ast_file *fe_parse(struct ir_ctx *c, uint32_t file);
/* The same of an option's KEY=VALUE,..: the keys of one serve block. */
struct ast_file *fe_parse_pairs(struct ir_ctx *c, uint32_t file);

/* ---- ast_print.c ------------------------------------------------------ */

/* Canonical source text, which parses to the same tree. */
void fe_print_ast(struct ir_ctx *c, const struct ast_file *f,
		  struct buf *out);

/* ---- override.c ------------------------------------------------------- */

/* Gives a dim of the model another size. False after reporting. */
bool fe_set_dim(struct ir_ctx *c, struct ast_file *f, const char *name,
		int64_t size);
/*
 * Sets keys of the serve block, as in "prompt=512,output=128". False after
 * reporting.
 */
bool fe_set_workload(struct ir_ctx *c, struct ast_file *f, const char *text);

/* ---- lang_plan.c ------------------------------------------------------ */

/*
 * Reads a file that holds one plan block, and nothing else; it replaces the
 * plan that the module has.  False after reporting.
 */
bool fe_read_plan(struct ir_ctx *c, struct ir_module *m, uint32_t file);

/* ---- lower.c ---------------------------------------------------------- */

/* Names, dims and types checked, layers as functions; NULL if reported. */
struct ir_module *fe_lower(struct ir_ctx *c, const struct ast_file *f);
/* fe_parse, then fe_lower. */
struct ir_module *fe_compile(struct ir_ctx *c, uint32_t file);

/* ---- lang_export.c ---------------------------------------------------- */

/* The config.json of the module's `export` block; false: it has none. */
bool fe_config_json(const struct ir_module *m, struct buf *out);

/* ---- ir_text.c -------------------------------------------------------- */

/* Reports what the language would refuse in IR text that was read. */
bool fe_check_ir(struct ir_module *m);

/* ---- lang_target.c ---------------------------------------------------- */

/*
 * Reads `h100x8x16@ib400`, or a file of target blocks: a name with a `/`, or
 * that ends in .target or .llm; `-` is standard input.  False after errors.
 */
bool fe_target(struct ir_ctx *c, const char *text, struct target *out);
/* The same of a source that was read. */
bool fe_read_target(struct ir_ctx *c, uint32_t file, struct target *out);
/*
 * The text of a target with so many nodes, of one whose own text gives no
 * number of them: `h100x8x4@ib400` for 4 of `h100x8@ib400`.  NULL: the text is
 * a file, names nodes, or is no target, which is not reported.
 */
const char *fe_target_of_nodes(struct ir_ctx *c, const char *text,
			       int64_t nodes);
/* Whether an accelerator of this name is built in. */
bool fe_target_known(const char *name);

/* ---- target_files.c: made of targets/ when llmc is built -------------- */

/* One file of targets/, as it stands there. */
struct fe_target_file {
	const char *name;	/* without .target */
	const char *text;
};
extern const struct fe_target_file fe_target_files[];
extern const size_t fe_target_nfiles;

#endif

/*
 * From text to IR: the language of docs/language.md.  Only the driver calls
 * these; the AST's structs are in frontend/lang/ast.h, which no one else needs.
 */
#ifndef FRONTEND_FRONTEND_H
#define FRONTEND_FRONTEND_H

#include "ir/ir.h"

struct ast_file;

/* ---- parser.y, lexer.l ------------------------------------------------ */

/* Reports every syntax error it can reach; NULL if there was one. */
struct ast_file *fe_parse(struct ir_ctx *c, uint32_t file);

/* ---- ast_print.c ------------------------------------------------------ */

/* Canonical source text, which parses to the same tree. */
void fe_print_ast(struct ir_ctx *c, const struct ast_file *f,
		  struct buf *out);

/* ---- override.c ------------------------------------------------------- */

/* Gives a dim of the model another size. False after reporting. */
bool fe_set_dim(struct ir_ctx *c, struct ast_file *f, const char *name,
		int64_t size);

/* ---- lang_plan.c -------------------------------------------------------- */

/*
 * Reads a file that holds one plan block, and nothing else; it takes the
 * place of the plan that the module has.  False after reporting.
 */
bool fe_read_plan(struct ir_ctx *c, struct ir_module *m, uint32_t file);

/* ---- lower.c ---------------------------------------------------------- */

/* Names, dims and types checked, layers as functions; NULL if reported. */
struct ir_module *fe_lower(struct ir_ctx *c, const struct ast_file *f);

/* Of IR text that was read: what the language would refuse. */
bool fe_check_ir(struct ir_module *m);

/* fe_parse, then fe_lower. */
struct ir_module *fe_compile(struct ir_ctx *c, uint32_t file);

#endif

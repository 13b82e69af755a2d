/*
 * Options that change a model, by writing into its tree what they say.
 * Lowering then reads the model as if it had been written so.  `--dim NAME=N`
 * gives a dim another size, at its declaration; `--workload KEY=VALUE,..` sets
 * keys of the serve block.
 */
#include "frontend/lang/ast.h"
#include "frontend/frontend.h"

#include <string.h>

static const struct span nowhere;

static struct ast_expr *
number(struct ir_ctx *c, int64_t value, struct span at)
{
	struct ast_expr *e = arena_alloc(&c->perm, sizeof *e);

	e->kind = AST_NUM;
	e->is_int = true;
	e->i = value;
	e->num = (double)value;
	e->span = at;
	return e;
}

/* `batch` exists in every model, declared or not. */
static void
declare_batch(struct ir_ctx *c, struct ast_block *model, sym_t batch,
	      int64_t value)
{
	struct ast_stmt *s = arena_alloc(&c->perm, sizeof *s);
	struct ast_arg *a = arena_alloc(&c->perm, sizeof *a);
	struct ast_name *n = arena_alloc(&c->perm, sizeof *n);

	n->sym = batch;
	n->span = model->name.span;
	a->expr = number(c, value, model->name.span);
	s->kind = AST_DIM;
	s->span = model->name.span;
	s->names = n;
	s->exprs = a;
	s->next = model->body;
	model->body = s;
}

/* Replaces `batch` of train blocks; false if none sets it. */
static bool
set_batch(struct ir_ctx *c, struct ast_file *f, sym_t batch, int64_t value)
{
	struct ast_block *b;
	struct ast_setting *s;
	bool found = false;

	for (b = f->blocks; b; b = b->next) {
		for (s = b->settings; s; s = s->next) {
			if (s->key.sym == batch) {
				s->value = number(c, value, s->value->span);
				found = true;
			}
		}
	}
	return found;
}

/* The declaration of the dim; names it passes are tried as near misses. */
static struct ast_stmt *
find_dim(struct ir_ctx *c, struct ast_block *model, sym_t name,
	 struct diag_near *near)
{
	struct ast_stmt *s;

	for (s = model->body; s; s = s->next) {
		if (s->kind != AST_DIM) {
			continue;
		}
		if (s->names->sym == name) {
			return s;
		}
		diag_near_try(near, ir_text(c, s->names->sym));
	}
	return NULL;
}

/* "layers, hidden, ", of those that are declared. */
static const char *
dims_text(struct ir_ctx *c, const struct ast_block *model)
{
	const struct ast_stmt *s;
	struct buf b;

	buf_init(&b, &c->perm);
	for (s = model->body; s; s = s->next) {
		const char *name = s->kind == AST_DIM
			? ir_text(c, s->names->sym) : "batch";

		if (strcmp(name, "batch") != 0) {
			buf_printf(&b, "%s, ", name);
		}
	}
	return buf_text(&b);
}

bool
fe_set_dim(struct ir_ctx *c, struct ast_file *f, const char *name,
	   int64_t size)
{
	sym_t sym = intern_str(&c->syms, name);
	struct ast_block *model = f->blocks;
	bool batch = strcmp(name, "batch") == 0;
	struct ast_stmt *s;
	struct diag_near near;

	while (model && strcmp(ir_text(c, model->kind.sym), "model") != 0) {
		model = model->next;
	}
	if (!model) {
		return true;	/* lowering reports that */
	}
	diag_near_init(&near, name);
	s = find_dim(c, model, sym, &near);
	if (batch && set_batch(c, f, sym, size) && !s) {
		return true;
	}
	if (s) {
		s->exprs->expr = number(c, size, s->exprs->expr->span);
	} else if (batch) {
		declare_batch(c, model, sym, size);
	} else {
		diag_near_try(&near, "batch");
		diag_error(&c->diags, model->name.span, "--dim: this model "
			   "declares no dim `%s`%s: there are %sbatch", name,
			   diag_near_text(&near, &c->perm),
			   dims_text(c, model));
		return false;
	}
	return true;
}

/* ---- --workload ---- */

/* Removes a key from all `serve` blocks of the file. */
static void
drop_key(struct ir_ctx *c, struct ast_file *f, sym_t key)
{
	struct ast_block *b;

	for (b = f->blocks; b; b = b->next) {
		struct ast_setting **at = &b->settings;

		if (strcmp(ir_text(c, b->kind.sym), "serve") != 0) {
			continue;
		}
		while (*at) {
			if ((*at)->key.sym == key) {
				*at = (*at)->next;
			} else {
				at = &(*at)->next;
			}
		}
	}
}

/* The text as a block of the language, whose errors point into the option. */
static struct ast_block *
parse_workload(struct ir_ctx *c, const char *text)
{
	struct ast_file *f;
	uint32_t base;

	if (!source_add(&c->sources, "--workload", text, strlen(text), &base)) {
		return NULL;
	}
	f = fe_parse_pairs(c, c->sources.files.n - 1);
	if (!f) {
		diag_note(&c->diags, nowhere, "--workload takes KEY=VALUE,.., "
			  "such as prompt=1024,output=256");
	}
	return f ? f->blocks : NULL;
}

bool
fe_set_workload(struct ir_ctx *c, struct ast_file *f, const char *text)
{
	struct ast_block *add = parse_workload(c, text);
	struct ast_block **end = &f->blocks;
	struct ast_setting *s;

	if (!add) {
		return false;
	}
	for (s = add->settings; s; s = s->next) {
		drop_key(c, f, s->key.sym);
	}
	while (*end) {
		end = &(*end)->next;
	}
	*end = add;
	return true;
}

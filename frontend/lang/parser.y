/*
 * The grammar of docs/language.md.  It recovers at the end of a statement,
 * so that one run reports every syntax error; actions only build the tree.
 */
%code requires {
#include "frontend/lang/ast.h"
}

%code {
#include <string.h>

int fe_yylex(FE_YYSTYPE *value, struct span *at, struct fe_parser *ps);
int fe_yylex_init_extra(struct fe_parser *ps, void **scanner);
int fe_yylex_destroy(void *scanner);
struct yy_buffer_state;
struct yy_buffer_state *fe_yy_scan_buffer(char *text, size_t n,
					  void *scanner);

/* item is a variable: it is named three times */
#define LIST(item, list) ((item)->next = (list), (item))

static void yyerror(struct span *at, struct fe_parser *ps, const char *text);
}

%require "3.7"
%expect 0
%define api.pure full
%define api.prefix {fe_yy}
%define api.token.prefix {TOK_}
%define api.location.type {struct span}
%define parse.error custom
%define parse.lac full
%define parse.lac.es-capacity-initial {4000}
%locations
%parse-param { struct fe_parser *ps }
%lex-param { struct fe_parser *ps }
%initial-action { @$.lo = @$.hi = ps->base; }

%code {
/*
 * One fixed stack: the parser itself allocates no memory.  A tree as deep as
 * AST_MAX_DEPTH and IR_MAX_DEPTH allow needs fewer than 3,000 places.
 */
#define YYMAXDEPTH 4000
#define YYINITDEPTH YYMAXDEPTH
#define YYLLOC_DEFAULT(cur, rhs, n) \
	do { \
		if (n) { \
			(cur).lo = YYRHSLOC(rhs, 1).lo; \
			(cur).hi = YYRHSLOC(rhs, n).hi; \
		} else { \
			(cur).lo = (cur).hi = YYRHSLOC(rhs, 0).hi; \
		} \
	} while (0)
}

%union {
	sym_t sym;
	struct ast_expr *expr;
	struct ast_name *name;
	struct ast_arg *arg;
	struct ast_stmt *stmt;
	struct ast_param *param;
	struct ast_setting *setting;
	struct ast_block *block;
	const char *text;
	struct { struct ast_name *dtype, *of; } type;
}

/* read first where the text is the value of an option */
%token PAIRS "the beginning of an option"
%token <sym> NAME "a name"
%token <sym> DOTTED "a dotted name"
%token <sym> STRING "a text"
%token <expr> NUMBER "a number"
%token ARROW "->"
%token <sym> AS "as" DIM "dim" DTYPE "dtype" EXPORT "export" FROM "from"
%token <sym> INPUT "input"
%token <sym> LAYER "layer" MODEL "model" ON "on" PLAN "plan"
%token <sym> RECOMPUTE "recompute" REPEAT "repeat" RETURN "return"
%token <sym> SERVE "serve" SHARD "shard" TARGET "target" TRAIN "train"

%type <block> blocks block
%type <text> settings_kind
%type <setting> settings setting pairs pair
%type <stmt> items item statements statement dims dim hint
%type <name> name opt_name names opt_names key opt_as
%type <param> params param_list param
%type <type> opt_type
%type <expr> value expr term factor primary opt_from
%type <arg> exprs args arg_list arg

%%

file: blocks
	{ ps->file->blocks = ast_blocks_reverse($1); }
| PAIRS pairs
	{
		ps->file->blocks = ast_block(ps, "serve", NULL, @2);
		ps->file->blocks->kind.span = @2;
		ps->file->blocks->settings = ast_settings_reverse($2);
	}
;

blocks: %empty		{ $$ = NULL; }
| blocks block		{ $$ = $2 ? LIST($2, $1) : $1; }
| blocks error		{ $$ = $1; }
;

block: "model" name '{' items '}'
	{
		$$ = ast_block(ps, "model", $2, @$);
		$$->body = ast_stmts_reverse($4);
	}
| settings_kind opt_name '{' settings '}'
	{
		$$ = ast_block(ps, $1, $2, @$);
		$$->settings = ast_settings_reverse($4);
	}
| "model" error '}'			{ $$ = NULL; }
| settings_kind error '}'		{ $$ = NULL; }
;

settings_kind: "train"	{ $$ = "train"; }
| "serve"		{ $$ = "serve"; }
| "target"		{ $$ = "target"; }
| "plan"		{ $$ = "plan"; }
| "export"		{ $$ = "export"; }
;

settings: %empty	{ $$ = NULL; }
| settings setting	{ $$ = $2 ? LIST($2, $1) : $1; }
;

setting: key '=' value ';'	{ $$ = ast_setting(ps, $1, $3); }
| error ';'		{ $$ = NULL; yyerrok; }
;

value: expr
| "on"			{ $$ = ast_leaf(ps, AST_NAME, $1, @$); }
;

/* words that mean something elsewhere may be keys */
key: name
| DOTTED		{ $$ = ast_name(ps, $1, @1); }
| "recompute"		{ $$ = ast_name(ps, $1, @1); }
| "dtype"		{ $$ = ast_name(ps, $1, @1); }
| "shard"		{ $$ = ast_name(ps, $1, @1); }
;

items: %empty		{ $$ = NULL; }
| items item		{ $$ = $2 ? LIST($2, $1) : $1; }
| items "dim" dims ';'
	{
		struct ast_stmt *s = ast_stmts_reverse($3);

		for ($$ = $1; s;) {
			struct ast_stmt *rest = s->next;

			$$ = LIST(s, $$);
			s = rest;
		}
	}
;

item: statement
| "dtype" name ';'
	{
		$$ = ast_stmt(ps, AST_DTYPE, @$);
		$$->names = $2;
	}
| "input" param ';'
	{
		$$ = ast_stmt(ps, AST_INPUT, @$);
		$$->params = $2;
	}
| "layer" name '(' params ')' '{' statements '}'
	{
		$$ = ast_stmt(ps, AST_LAYER, @$);
		$$->names = $2;
		$$->params = ast_params_reverse($4);
		$$->body = ast_stmts_reverse($7);
	}
| "layer" error '}'	{ $$ = NULL; yyerrok; }
;

dims: dim
| dims ',' dim		{ $$ = LIST($3, $1); }
;

dim: name '=' expr
	{
		$$ = ast_stmt(ps, AST_DIM, @$);
		$$->names = $1;
		$$->exprs = ast_arg(ps, NULL, $3);
	}
;

params: %empty		{ $$ = NULL; }
| param_list
;

param_list: param
| param_list ',' param	{ $$ = LIST($3, $1); }
;

param: name opt_type '[' opt_names ']'
	{
		$$ = arena_alloc(ps->arena, sizeof *$$);
		$$->name = *$1;
		if ($2.dtype) {
			$$->dtype = *$2.dtype;
		}
		if ($2.of) {
			$$->of = *$2.of;
		}
		$$->dims = ast_names_reverse($4);
	}
;

opt_names: %empty	{ $$ = NULL; }
| names
;

opt_type: %empty		{ $$.dtype = $$.of = NULL; }
| ':' name			{ $$.dtype = $2; $$.of = NULL; }
| ':' name '<' name '>'		{ $$.dtype = $2; $$.of = $4; }
;

statements: %empty	{ $$ = NULL; }
| statements statement	{ $$ = $2 ? LIST($2, $1) : $1; }
;

statement: names '=' expr ';'
	{
		$$ = ast_stmt(ps, AST_ASSIGN, @$);
		$$->names = ast_names_reverse($1);
		$$->exprs = ast_arg(ps, NULL, $3);
	}
| "repeat" expr opt_as opt_from '{' statements '}'
	{
		$$ = ast_repeat(ps, $2, $3, $4, @$);
		$$->body = ast_stmts_reverse($6);
	}
| "return" exprs ';'
	{
		$$ = ast_stmt(ps, AST_RETURN, @$);
		$$->exprs = ast_args_reverse($2);
	}
| hint
| error ';'		{ $$ = NULL; yyerrok; }
;

hint: "shard" name "on" name ';'
	{ $$ = ast_hint(ps, "shard", $2, $4, @$); }
| "recompute" name ';'
	{ $$ = ast_hint(ps, "recompute", $2, NULL, @$); }
;

opt_as: %empty		{ $$ = NULL; }
| "as" name		{ $$ = $2; }
;

opt_from: %empty	{ $$ = NULL; }
| "from" expr		{ $$ = $2; }
;

name: NAME		{ $$ = ast_name(ps, $1, @1); }
;

opt_name: %empty	{ $$ = NULL; }
| name
;

names: name
| names ',' name	{ $$ = LIST($3, $1); }
;

exprs: expr		{ $$ = ast_arg(ps, NULL, $1); }
| exprs ',' expr
	{
		$$ = ast_arg(ps, NULL, $3);
		$$->next = $1;
	}
;

expr: term
| expr '+' term		{ $$ = ast_bin(ps, '+', $1, $3); }
| expr '-' term		{ $$ = ast_bin(ps, '-', $1, $3); }
;

term: factor
| term '*' factor	{ $$ = ast_bin(ps, '*', $1, $3); }
| term '/' factor	{ $$ = ast_bin(ps, '/', $1, $3); }
;

factor: primary
| '-' factor		{ $$ = ast_neg(ps, $2, @$); }
| primary '@' STRING
	{
		$$ = $1;
		if ($1->kind != AST_CALL) {
			diag_error(&ps->ctx->diags, @$, "`@` names the weights "
				   "of a call, and this is not a call");
		} else if ($1->at) {
			diag_error(&ps->ctx->diags, @3,
				   "this call has a second `@`");
		} else {
			$1->at = $3;
			$1->at_span = @3;
		}
	}
;

primary: NUMBER
| STRING		{ $$ = ast_leaf(ps, AST_STR, $1, @$); }
| name			{ $$ = ast_leaf(ps, AST_NAME, $1->sym, @$); }
| name '(' args ')'
	{ $$ = ast_call(ps, $1, ast_args_reverse($3), @$); }
| name '(' args "->" arg_list ')'
	{ $$ = ast_arrow_call(ps, $1, $3, $5, @$); }
| '(' expr ')'		{ $$ = $2; }
| '(' expr ',' exprs ')'
	{
		struct ast_arg *first = ast_arg(ps, NULL, $2);

		first->next = ast_args_reverse($4);
		$$ = ast_call(ps, NULL, first, @$);
	}
;

args: %empty		{ $$ = NULL; }
| arg_list
;

arg_list: arg
| arg_list ',' arg	{ $$ = LIST($3, $1); }
;

arg: expr		{ $$ = ast_arg(ps, NULL, $1); }
| name '=' expr		{ $$ = ast_arg(ps, $1, $3); }
| "dtype" '=' expr
	{ $$ = ast_arg(ps, ast_name(ps, $1, @1), $3); }
;

pairs: pair
| pairs ',' pair	{ $$ = $3 ? LIST($3, $1) : $1; }
;

pair: key '=' value	{ $$ = ast_setting(ps, $1, $3); }
| error			{ $$ = NULL; }
;

%%

/* ---- messages ---- */

/* Called for the stack limit only; syntax errors are reported below. */
static void
yyerror(struct span *at, struct fe_parser *ps, const char *text)
{
	(void)text;
	diag_error(&ps->ctx->diags, *at, "this nests too deep");
}

/* What may follow, in few words: `;`, a value, an operator... */
struct expected {
	bool is[YYNTOKENS];
	const char *word[YYNTOKENS];
	int n;
};

/* If all of these words may follow, one name replaces them. */
static bool
group(struct expected *e, const char *name, const int *words, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (!e->is[YYTRANSLATE(words[i])]) {
			return false;
		}
	}
	for (i = 0; i < n; i++) {
		e->is[YYTRANSLATE(words[i])] = false;
	}
	e->word[e->n++] = name;
	return true;
}

#define STATEMENTS TOK_NAME, TOK_REPEAT, TOK_RETURN, TOK_SHARD, TOK_RECOMPUTE
#define BLOCKS TOK_MODEL, TOK_TRAIN, TOK_SERVE, TOK_TARGET, TOK_PLAN, \
	TOK_EXPORT
#define VALUES TOK_NAME, TOK_NUMBER, TOK_STRING, '(', '-'

/* Larger groups come first, since a group removes its words. */
static const struct {
	const char *name;
	int n, words[9];
} groups[] = {
	{ "a statement", 9, { STATEMENTS, TOK_DIM, TOK_DTYPE, TOK_INPUT,
			      TOK_LAYER } },
	{ "a statement", 5, { STATEMENTS } },
	{ "a block (model, train, serve, target, plan or export)", 7,
	  { BLOCKS, TOK_YYEOF } },
	{ "an argument", 6, { VALUES, TOK_DTYPE } },
	{ "a value", 6, { VALUES, TOK_ON } },
	{ "a value", 5, { VALUES } },
	{ "a name", 5, { TOK_NAME, TOK_DOTTED, TOK_DTYPE, TOK_SHARD,
			 TOK_RECOMPUTE } },
	{ "an operator", 4, { '+', '-', '*', '/' } },
	{ "a name", 1, { TOK_NAME } },
	{ "a text", 1, { TOK_STRING } },
	{ "the end", 1, { TOK_YYEOF } }
};

/* "expected `;` or an operator" */
static void
expected_text(struct buf *b, const yypcontext_t *c)
{
	yysymbol_kind_t kinds[YYNTOKENS];
	const char *single[YYNTOKENS];
	struct expected e = { .n = 0 };
	int n = yypcontext_expected_tokens(c, kinds, YYNTOKENS), i;
	int singles = 0;

	for (i = 0; i < n; i++) {
		e.is[kinds[i]] = true;
	}
	e.is[YYTRANSLATE(TOK_PAIRS)] = false;	/* nobody writes it */
	for (i = 0; i < (int)(sizeof groups / sizeof *groups); i++) {
		if (group(&e, groups[i].name, groups[i].words, groups[i].n) &&
		    groups[i].words[0] == '+') {
			/* what makes the operand a call is left out */
			e.is[YYTRANSLATE('(')] = e.is[YYTRANSLATE('=')] =
				e.is[YYTRANSLATE('@')] = false;
		}
	}
	for (i = 0; i < n; i++) {
		if (e.is[kinds[i]]) {
			single[singles++] = yysymbol_name(kinds[i]);
		}
	}
	for (i = 0; i < singles + e.n; i++) {
		const char *s = i < singles ? single[i] : e.word[i - singles];
		bool quoted = s[0] == '\'';

		buf_printf(b, "%s%s%.*s%s", i == 0 ? ", expected " :
			   i == singles + e.n - 1 ? " or " : ", ",
			   i < singles ? "`" : "",
			   (int)strlen(s) - 2 * quoted, s + quoted,
			   i < singles ? "`" : "");
	}
}

static bool
expects(const yypcontext_t *c, int word)
{
	yysymbol_kind_t kinds[YYNTOKENS];
	int n = yypcontext_expected_tokens(c, kinds, YYNTOKENS);

	while (n > 0 && kinds[n - 1] != YYTRANSLATE(word)) {
		n--;
	}
	return n > 0;
}

/* Points at the bracket that is still open where its end is missing. */
static void
note_bracket(struct fe_parser *ps, const yypcontext_t *c)
{
	const struct ast_bracket *b = ps->open.n
		? &ps->open.at[ps->open.n - 1] : NULL;

	if (b && (ps->word.kind == TOK_YYEOF || expects(c, b->close))) {
		diag_note(&ps->ctx->diags, b->span, "this `%c` is not closed",
			  b->close == ')' ? '(' : b->close - 2);
		ps->noted |= b->close == '}';
	}
}

/*
 * After an earlier error, a `}` that is missing at the end of the file is not
 * reported: recovery has skipped it, or a note has shown its `{`.
 */
static bool
follows_from_earlier(const struct fe_parser *ps)
{
	return ps->word.kind == TOK_YYEOF &&
	       ps->ctx->diags.errors > ps->errors_before &&
	       (ps->open.n == 0 || ps->noted);
}

static bool
is_word(const struct fe_parser *ps, const struct ast_word *w, const char *text)
{
	size_t n = strlen(text);

	return w->span.hi - w->span.lo == n &&
	       memcmp(ps->text + (w->span.lo - ps->base), text, n) == 0;
}

/* What other languages write in another way. */
static void
note_idiom(struct fe_parser *ps)
{
	const struct ast_word *w = &ps->word, *before = &ps->before;

	if ((w->kind == '+' || w->kind == '-' || w->kind == '*' ||
	     w->kind == '/') && ps->source[w->span.hi - ps->base] == '=') {
		diag_note(&ps->ctx->diags, w->span, "x %c= y is written "
			  "x = x %c y", w->kind, w->kind);
	} else if (is_word(ps, before, "for")) {
		diag_note(&ps->ctx->diags, before->span, "a loop is written "
			  "repeat N as i { .. }");
	}
}

static void
report(struct fe_parser *ps, const yypcontext_t *c)
{
	const struct ast_word *w = &ps->word, *before = &ps->before;
	struct span at = w->span;
	struct buf b;

	buf_init(&b, ps->arena);
	if (w->kind == '=' && fe_is_reserved(before)) {
		buf_printf(&b, "found %s, expected a name",
			   fe_word_text(ps, before));
		at = before->span;
	} else if (expects(c, ';') && fe_starts_line(ps)) {
		buf_printf(&b, "expected `;` after %s, found %s",
			   fe_word_text(ps, before), fe_word_text(ps, w));
		at.lo = at.hi = before->span.hi;
	} else {
		buf_printf(&b, "found %s", fe_word_text(ps, w));
		expected_text(&b, c);
	}
	diag_error(&ps->ctx->diags, at, "%s", buf_text(&b));
	note_idiom(ps);
	note_bracket(ps, c);
}

static int
yyreport_syntax_error(const yypcontext_t *c, struct fe_parser *ps)
{
	if (!ps->spoilt && !follows_from_earlier(ps)) {
		report(ps, c);
	}
	if (expects(c, ';')) {
		fe_insert_semicolon(ps);
	}
	return 0;
}

static struct ast_file *
parse(struct ir_ctx *c, uint32_t file, bool pairs)
{
	const struct source_file *f = &c->sources.files.at[file];
	char *text = arena_strndup(&c->perm, f->text, (size_t)f->len + 1);
	struct fe_parser ps = { .ctx = c, .arena = &c->perm, .text = text,
				.source = f->text, .base = f->base,
				.errors_before = c->diags.errors };
	const char *nul = memchr(text, '\0', f->len);
	int rc;

	if (nul) {		/* flex would read the word anew at each */
		struct span at = { f->base + (uint32_t)(nul - text), 0 };

		at.hi = at.lo + 1;
		diag_error(&c->diags, at, "this file holds a byte 0, so it is "
			   "not text");
		return NULL;
	}
	text[f->len] = text[f->len + 1] = '\0';
	ps.word.span.lo = ps.word.span.hi = f->base;
	ps.file = arena_alloc(&c->perm, sizeof *ps.file);
	ps.file->start = ps.word.span;
	ps.pairs = pairs;
	ps.again[0] = TOK_PAIRS;
	ps.nagain = pairs;
	if (fe_yylex_init_extra(&ps, &ps.scanner) != 0 ||
	    !fe_yy_scan_buffer(text, (size_t)f->len + 2, ps.scanner)) {
		die("the scanner does not start");
	}
	rc = fe_yyparse(&ps);
	fe_yylex_destroy(ps.scanner);
	return rc == 0 && c->diags.errors == ps.errors_before ? ps.file
							      : NULL;
}

struct ast_file *
fe_parse(struct ir_ctx *c, uint32_t file)
{
	return parse(c, file, false);
}

struct ast_file *
fe_parse_pairs(struct ir_ctx *c, uint32_t file)
{
	return parse(c, file, true);
}

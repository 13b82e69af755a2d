/*
 * What --target names: an accelerator that llmc knows, in a cluster of so
 * many, or a file of target blocks, one for each kind of node.  Both kinds of
 * file are the language's own, so there is one parser and one table of keys.
 */
#include "frontend/lang/lower.h"

#include <string.h>
#include <unistd.h>

static const struct span nowhere;

/* ---- the files built in ---- */

/* `h100` is short for `h100-sxm`; in the name of a block, _ stands for -. */
static bool
is_name(const char *file, const char *want, size_t n)
{
	size_t i;

	for (i = 0; i < n && file[i]; i++) {
		if (file[i] != want[i] &&
		    !(want[i] == '_' && file[i] == '-')) {
			return false;
		}
	}
	return i == n && (!file[n] || strcmp(file + n, "-sxm") == 0);
}

static const struct fe_target_file *
find_file(const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < fe_target_nfiles && n > 0; i++) {
		if (is_name(fe_target_files[i].name, name, n)) {
			return &fe_target_files[i];
		}
	}
	return NULL;
}

static bool
has_file(void *user, const char *name, size_t n)
{
	(void)user;
	return find_file(name, n) != NULL;
}

bool
fe_target_known(const char *name)
{
	return find_file(name, strlen(name)) != NULL;
}

#define LEAST_PART 3	/* of a name that is taken for all of it */

/* Names in the files' and in their short form; or one that has this part. */
static void
near_device(const char *name, struct arena *a, struct diag_near *near)
{
	size_t i;

	diag_near_init(near, name);
	for (i = 0; i < fe_target_nfiles; i++) {
		const char *file = fe_target_files[i].name;
		const char *sxm = strstr(file, "-sxm");

		diag_near_try(near, file);
		if (sxm) {
			diag_near_try(near, arena_strndup(a, file,
						(size_t)(sxm - file)));
		}
	}
	for (i = 0; i < fe_target_nfiles && !near->best; i++) {
		if (strlen(name) >= LEAST_PART &&
		    strstr(fe_target_files[i].name, name)) {
			near->best = fe_target_files[i].name;
			near->best_distance = 1;
		}
	}
}

static size_t
file_distance(void *user, const char *name, size_t n)
{
	struct arena *a = user;
	struct diag_near near;

	near_device(arena_strndup(a, name, n), a, &near);
	return near.best ? near.best_distance : SIZE_MAX;
}

static void
unknown_device(struct ir_ctx *c, struct span at, const char *name)
{
	struct diag_near near;

	if (strpbrk(name, ",{")) {
		diag_error(&c->diags, at, "`%s` is several targets, and one "
			   "is expected: `llmc sweep` plans for several", name);
		return;
	}
	near_device(name, &c->tmp, &near);
	diag_error(&c->diags, at, "there is no accelerator `%s`%s; "
		   "--list-targets prints all", name,
		   diag_near_text(&near, &c->tmp));
}

/* ---- blocks ---- */

static bool
read_block(struct ir_ctx *c, const struct ast_block *b,
	   struct target_group *g);

static bool
known_device(struct ir_ctx *c, struct span at, const char *name,
	     struct target_group *g)
{
	const struct fe_target_file *f = find_file(name, strlen(name));
	struct ast_file *ast;
	uint32_t base;

	if (!f) {
		unknown_device(c, at, name);
		return false;
	}
	if (!source_add(&c->sources, arena_printf(&c->perm,
			"targets/%s.target", f->name), f->text,
			strlen(f->text), &base)) {
		diag_error(&c->diags, at, "a run reads at most 2 GiB of text");
		return false;
	}
	ast = fe_parse(c, c->sources.files.n - 1);
	if (!ast || !ast->blocks || !read_block(c, ast->blocks, g)) {
		return false;
	}
	g->device.name = f->name;
	return true;
}

static bool
read_block(struct ir_ctx *c, const struct ast_block *b,
	   struct target_group *g)
{
	struct lower l = { .ctx = c, .diags = &c->diags, .dtype = IR_F32,
			   .errors_before = c->diags.errors };
	uint32_t errors = c->diags.errors;
	const struct ir_setting *s;

	*g = (struct target_group){ .devices = 1, .nodes = 1 };
	g->device.name = b->name.sym ? ir_text(c, b->name.sym) : "custom";
	g->device.vendor = g->device.arch = g->device.link = "";
	g->network.ports = 1;
	l.m = ir_module_new(c);
	lower_settings(&l, b);
	if (c->diags.errors != errors) {
		return false;
	}
	s = ir_setting(l.m, "target.accelerator");
	if (s && !known_device(c, s->span, ir_text(c, s->text), g)) {
		return false;
	}
	g->span = b->span;
	if (b->name.sym) {
		g->span = span_join(b->kind.span, b->name.span);
	}
	return target_apply(l.m, g);
}

/* ---- the whole ---- */

static bool
check(struct ir_ctx *c, const struct target *t)
{
	bool ok = true;
	uint32_t i;

	for (i = 0; i < t->groups.n; i++) {
		const struct target_group *g = &t->groups.at[i];

		ok &= target_check(c, g);
		if (g->devices * g->nodes > TARGET_MAX_DEVICES ||
		    target_devices(t) > TARGET_MAX_DEVICES) {
			diag_error(&c->diags, g->span, "%lld devices in %lld "
				   "nodes are more than %lld devices in all",
				   (long long)target_devices(t),
				   (long long)target_nodes(t),
				   (long long)TARGET_MAX_DEVICES);
			return false;
		}
		if (target_nodes(t) > 1 && g->nodes == 1 &&
		    g->network.bytes_us <= 0) {
			diag_error(&c->diags, g->span, "this target does not "
				   "say: fabric or network");
			ok = false;
		}
	}
	return ok;
}

/* Checked first, since each block needs a kilobyte and more to read. */
static bool
few_blocks(struct ir_ctx *c, const struct ast_file *f)
{
	const struct ast_block *b, *first = NULL;
	uint32_t n = 0;

	for (b = f->blocks; b; b = b->next) {
		first = n++ == TARGET_MAX_GROUPS ? b : first;
	}
	if (first) {
		diag_error(&c->diags,
			   span_join(first->kind.span, first->name.span),
			   "%u kinds of node are more than %d in all", n,
			   TARGET_MAX_GROUPS);
	}
	return !first;
}

static bool
read_blocks(struct ir_ctx *c, const struct ast_file *f, struct target *out)
{
	uint32_t errors = c->diags.errors;
	const struct ast_block *b;
	struct target_group g;

	if (!few_blocks(c, f)) {
		return false;
	}
	for (b = f->blocks; b; b = b->next) {
		if (strcmp(ir_text(c, b->kind.sym), "target") != 0) {
			diag_error(&c->diags, b->kind.span, "a target file "
				   "holds target blocks and nothing else, "
				   "found the block `%s`",
				   ir_text(c, b->kind.sym));
		} else if (read_block(c, b, &g)) {
			VEC_PUSH(&c->perm, &out->groups, g);
		}
	}
	if (!f->blocks) {
		diag_error(&c->diags, f->start, "this file holds no `target` "
			   "block");
	}
	if (c->diags.errors != errors || !check(c, out)) {
		return false;
	}
	target_settle(out, &c->perm);
	return true;
}

bool
fe_read_target(struct ir_ctx *c, uint32_t file, struct target *out)
{
	struct ast_file *f = fe_parse(c, file);

	memset(out, 0, sizeof *out);
	out->name = c->sources.files.at[file].name;
	return f && read_blocks(c, f, out);
}

/* Where only xDEVICESxNODES after its name keeps a file from being found. */
static void
note_file_numbers(struct ir_ctx *c, const char *path)
{
	size_t n = strlen(path);
	const char *file;

	while (n > 0 && strchr("x0123456789", path[n - 1])) {
		n--;
	}
	file = arena_strndup(&c->tmp, path, n);
	if (path[n] == 'x' && !text_ends_in(file, "/") &&
	    access(file, R_OK) == 0) {
		diag_note(&c->diags, nowhere, "%s is there: `devices` and "
			  "`nodes` of a cluster are in its file", file);
	}
}

static bool
read_file(struct ir_ctx *c, const char *path, struct target *out)
{
	const char *why;
	uint32_t file;

	if (!source_read(&c->sources, path, &file, &why)) {
		diag_error(&c->diags, nowhere, "cannot read %s: %s", path,
			   why);
		note_file_numbers(c, path);
		return false;
	}
	return fe_read_target(c, file, out);
}

static bool
by_name(struct ir_ctx *c, const char *text, struct target *out)
{
	struct target_names names = { has_file, file_distance, &c->tmp };
	struct target_spec spec;
	struct target_group g;
	struct diag_near near;

	if (!target_spec_read(c, text, &names, &spec) ||
	    !known_device(c, nowhere, spec.device, &g)) {
		return false;
	}
	g.span = nowhere;
	g.devices = spec.devices ? spec.devices : 1;
	g.nodes = spec.nodes ? spec.nodes : 1;
	if (spec.network) {
		diag_near_init(&near, spec.network);
		if (!target_network(spec.network, &g.network, &near)) {
			diag_error(&c->diags, nowhere, "there is no network "
				   "`%s`%s: there are %s", spec.network,
				   diag_near_text(&near, &c->tmp),
				   target_networks(&c->tmp));
			return false;
		}
		if (g.nodes == 1) {
			diag_error(&c->diags, nowhere, "`%s` is one node, and "
				   "a network joins two or more", text);
			return false;
		}
	}
	VEC_PUSH(&c->perm, &out->groups, g);
	return check(c, out);
}

static bool
is_file(const char *text)
{
	return strchr(text, '/') || strcmp(text, "-") == 0 ||
	       text_ends_in(text, ".target") ||
	       text_ends_in(text, ".llm");
}

bool
fe_target(struct ir_ctx *c, const char *text, struct target *out)
{
	memset(out, 0, sizeof *out);
	out->name = text;
	return is_file(text) ? read_file(c, text, out)
			     : by_name(c, text, out);
}

const char *
fe_target_of_nodes(struct ir_ctx *c, const char *text, int64_t nodes)
{
	struct target_names names = { has_file, file_distance, &c->tmp };
	struct target_spec spec;
	struct ir_ctx quiet;
	const char *out = NULL;

	if (is_file(text)) {
		return NULL;
	}
	ir_ctx_child(&quiet, c);	/* its errors are not reported */
	if (target_spec_read(&quiet, text, &names, &spec) && !spec.nodes) {
		out = arena_printf(&c->perm, "%sx%lldx%lld%s%s", spec.device,
				   spec.devices ? (long long)spec.devices : 1,
				   (long long)nodes,
				   spec.network && nodes > 1 ? "@" : "",
				   spec.network && nodes > 1 ? spec.network
							     : "");
	}
	ir_ctx_release(&quiet);
	return out;
}

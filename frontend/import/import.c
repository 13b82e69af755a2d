/*
 * llmc import DIR|config.json|FILE.gguf: finds the files, has the model's text
 * made, and reads it as any model is read, so that nothing is written that llmc
 * itself would refuse.
 */
#include "frontend/import/import.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/frontend.h"
#include "runtime/rt.h"

static const struct span nowhere;

struct importing {
	struct driver *d;
	const char *config;	/* the path of config.json; NULL: it is made of
				 * the keys of the weights */
	const char *folder;	/* what weights are looked for in, or these */
	const char *weights;	/* NULL: there are none */
	struct rt_st *st;
};

static const char *
inside(const struct importing *x, const char *name)
{
	return arena_printf(&x->d->ctx.perm, "%s/%s", x->folder, name);
}

static const char gguf[] = ".gguf";

static bool
is_gguf(const char *path)
{
	size_t n = strlen(path), end = strlen(gguf);

	return n > end && strcmp(path + n - end, gguf) == 0;
}

/* The files that the input stands for. */
static bool
find_files(struct importing *x)
{
	static const char *const names[] = {
		"model.safetensors.index.json", "model.safetensors"
	};
	const char *slash = strrchr(x->d->opts.input, '/');
	struct stat sb;
	bool is_dir;
	int i;

	x->config = x->d->opts.input;
	is_dir = stat(x->config, &sb) == 0 && S_ISDIR(sb.st_mode);
	if (!is_dir && is_gguf(x->config)) {
		x->weights = x->folder = x->config;
		x->config = NULL;
		return true;
	}
	x->folder = !slash ? "." : slash == x->config ? "/" :
		arena_strndup(&x->d->ctx.perm, x->config,
			      (size_t)(slash - x->config));
	if (is_dir) {
		x->folder = x->config;
		x->config = inside(x, "config.json");
		if (access(x->config, F_OK) != 0) {
			diag_error(&x->d->ctx.diags, nowhere, "%s has no "
				   "config.json", x->folder);
			return false;
		}
	}
	for (i = 0; i < 2 && !x->weights; i++) {
		x->weights = inside(x, names[i]);
		if (access(x->weights, F_OK) != 0) {
			x->weights = NULL;
		}
	}
	return true;
}

/* `Llama-3.1-8B` is llama_3_1_8b, and so is `Llama-3.1-8B.gguf`; NULL: there is
 * no name. */
static const char *
model_name(const struct importing *x)
{
	const char *p = strrchr(x->folder, '/');
	struct buf b;

	p = p ? p + 1 : x->folder;
	if (!x->config) {
		p = arena_strndup(&x->d->ctx.perm, p,
				  strlen(p) - strlen(gguf));
	}
	buf_init(&b, &x->d->ctx.perm);
	if (isdigit((unsigned char)*p)) {
		buf_puts(&b, "m_");
	}
	for (; *p && b.n < 80; p++) {
		buf_putc(&b, isalnum((unsigned char)*p)
			 ? (char)tolower((unsigned char)*p) : '_');
	}
	p = buf_text(&b);
	return strspn(p, "_") == b.n || fe_is_word(p) ? NULL : p;
}

/* The text as a model, with its layers inlined; NULL after reporting. */
static struct ir_module *
read_back(struct importing *x, const struct buf *text)
{
	struct driver *d = x->d;
	const char *path = drv_text(d, OPT_OUTPUT);
	struct buf t = *text;
	struct pass_list list = { 0 };
	struct ir_module *m;
	uint32_t base;

	if (!source_add(&d->ctx.sources, path && strcmp(path, "-") ? path
			: "the imported model", buf_text(&t), t.n, &base)) {
		die("an imported model is too long");
	}
	m = fe_compile(&d->ctx, d->ctx.sources.files.n - 1);
	if (!m || !pass_list_parse(&d->table, &list, "default") ||
	    pass_run(&d->pm, &list, m) != PASS_OK) {
		return NULL;
	}
	return m;
}

/* The next ones report what fails. */

static bool
read_config(struct importing *x, uint32_t *file)
{
	struct ir_ctx *c = &x->d->ctx;
	const char *why;

	if (!source_read(&c->sources, x->config, file, &why)) {
		diag_error(&c->diags, nowhere, "cannot read %s: %s", x->config,
			   why);
		return false;
	}
	return true;
}

static bool
open_weights(struct importing *x)
{
	struct rt_error err;

	if (x->weights &&
	    rt_st_open_any(&x->st, x->weights, NULL, &err) != RT_OK) {
		diag_error(&x->d->ctx.diags, nowhere, "%s", err.message);
		return false;
	}
	return true;
}

/* What the keys of the weights say, as the text of a config.json. */
static bool
make_config(struct importing *x, uint32_t *file)
{
	struct ir_ctx *c = &x->d->ctx;
	struct rt_error err;
	const char *name;
	uint32_t base;
	char *text;

	if (rt_st_config(x->st, &text, &err) != RT_OK) {
		diag_error(&c->diags, nowhere, "%s", err.message);
		return false;
	}
	name = arena_printf(&c->perm, "%s (its keys)", x->weights);
	if (!source_add(&c->sources, name, arena_strndup(&c->perm, text,
							 strlen(text)),
			strlen(text), &base)) {
		die("the keys of weights are too long");
	}
	free(text);
	*file = c->sources.files.n - 1;
	return true;
}

static bool
import(struct importing *x)
{
	struct driver *d = x->d;
	struct imp_request rq = { .dims = d->opts.dims.at,
				  .ndims = d->opts.dims.n };
	struct ir_module *m;
	struct span start;

	imp_add_dims(&d->ctx, &rq);
	if ((x->config && !read_config(x, &rq.file)) || !open_weights(x) ||
	    (!x->config && !make_config(x, &rq.file))) {
		return false;
	}
	rq.name = model_name(x);
	rq.weights = x->st;
	if (!imp_model(&d->ctx, &rq, &d->out)) {
		return false;
	}
	m = read_back(x, &d->out);
	if (m && (!x->st || imp_check_weights(m, x->st, x->weights,
				d->opts.at[OPT_ALLOW_UNUSED].given))) {
		return true;
	}
	start.lo = start.hi = d->ctx.sources.files.at[rq.file].base;
	imp_move_errors(&d->ctx.diags, &rq, &d->ctx.sources.files.at[
			d->ctx.sources.files.n - 1], m ? nowhere : start);
	return false;
}

bool
imp_import(struct driver *d)
{
	struct importing x = { .d = d };
	bool ok = find_files(&x) && import(&x);

	rt_st_free(x.st);
	return ok;
}

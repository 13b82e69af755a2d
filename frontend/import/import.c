/*
 * llmc import DIR|config.json: finds the files, has the model's text made,
 * and reads it as any model is read, so that nothing is written that llmc
 * itself would refuse.
 */
#include "frontend/import/import.h"

#include <ctype.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/frontend.h"
#include "runtime/rt.h"

static const struct span nowhere;

struct importing {
	struct driver *d;
	const char *config;	/* the path of config.json */
	const char *folder;	/* what weights are looked for in */
	const char *weights;	/* NULL: there are none */
	struct rt_st *st;
};

static const char *
inside(const struct importing *x, const char *name)
{
	return arena_printf(&x->d->ctx.perm, "%s/%s", x->folder, name);
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
	int i;

	x->config = x->d->opts.input;
	x->folder = !slash ? "." : slash == x->config ? "/" :
		arena_strndup(&x->d->ctx.perm, x->config,
			      (size_t)(slash - x->config));
	if (stat(x->config, &sb) == 0 && S_ISDIR(sb.st_mode)) {
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

/* `Llama-3.1-8B` is llama_3_1_8b; NULL: the folder has no name. */
static const char *
model_name(const struct importing *x)
{
	const char *p = strrchr(x->folder, '/');
	struct buf b;

	p = p ? p + 1 : x->folder;
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

static bool
import(struct importing *x)
{
	struct driver *d = x->d;
	struct imp_request rq = { .dims = d->opts.dims.at,
				  .ndims = d->opts.dims.n };
	struct ir_module *m;
	struct rt_error err;
	struct span start;
	const char *why;

	imp_add_dims(&d->ctx, &rq);
	if (!source_read(&d->ctx.sources, x->config, &rq.file, &why)) {
		diag_error(&d->ctx.diags, nowhere, "cannot read %s: %s",
			   x->config, why);
		return false;
	}
	if (x->weights &&
	    rt_st_open_any(&x->st, x->weights, NULL, &err) != RT_OK) {
		diag_error(&d->ctx.diags, nowhere, "%s", err.message);
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

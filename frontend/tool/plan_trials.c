/*
 * --trials: all tiles that --autotune would measure, compiled, in a folder of
 * their own beside the plan.  tests/gpu/trials measures them on a machine that
 * has a GPU and its driver alone: it reads trials.json, which has what a
 * launch needs, and what is predicted of it.
 */
#include "config.h"

#include "frontend/tool/tool.h"

#include <string.h>

static const struct span nowhere;

static bool
report(struct driver *d, const char *option, const char *why)
{
	diag_error(&d->ctx.diags, nowhere, "--%s: %s", option, why);
	return false;
}

/* ---- the tiles to try ---- */

static bool
list_tiles(struct driver *d, const struct cg_input *plan,
	   struct cg_tiling *all)
{
	struct cg_input in = *plan;
	struct cg_code *code;

	all->list = true;
	in.tiling = all;
	in.sources_only = true;
	code = cg_code_new(&d->ctx.perm, &in);
	if (!code) {
		return false;
	}
	cg_code_free(code);
	return true;
}

bool
drv_trials_make(struct driver *d, struct ir_ctx *c, const struct cg_input *in,
		const char *option, struct cg_tiling *all,
		struct cg_images *images)
{
	const char *text;

	if (!list_tiles(d, in, all)) {
		return false;
	}
	if (drv_kernels_make(d, c, all->sources.at, all->sources.n, images)) {
		return images->made_by ||
		       report(d, option, arena_printf(&d->ctx.perm, "kernels "
			      "cannot be compiled here: %s", images->missing));
	}
	text = drv_first_error(c);
	return report(d, option, text ? text : "kernels cannot be compiled");
}

/* ---- trials.json ---- */

static void
put_text(struct buf *out, const char *key, const char *text)
{
	buf_printf(out, "\"%s\": ", key);
	buf_json(out, text, strlen(text));
}

static void
put_numbers(struct buf *out, const char *key, const int64_t *at, int64_t n)
{
	int64_t i;

	buf_printf(out, "\"%s\": [", key);
	for (i = 0; i < n; i++) {
		buf_printf(out, "%s%lld", i ? ", " : "", (long long)at[i]);
	}
	buf_puts(out, "]");
}

static void
put_map(struct buf *out, const struct rt_map *m)
{
	buf_printf(out, "{\"operand\": %lld, \"offset\": %lld, \"elem\": %lld, "
		   "\"swizzle\": %lld, ", (long long)m->operand,
		   (long long)m->offset, (long long)m->elem,
		   (long long)m->swizzle);
	put_numbers(out, "size", m->size, m->ndims);
	buf_puts(out, ", ");
	put_numbers(out, "stride", m->stride, m->ndims);
	buf_puts(out, ", ");
	put_numbers(out, "box", m->box, m->ndims);
	buf_puts(out, "}");
}

static void
put_step(struct buf *out, const struct rt_grid *g)
{
	int64_t i;

	buf_puts(out, "\n          {");
	put_text(out, "function", g->func);
	buf_puts(out, ", ");
	put_numbers(out, "blocks", g->blocks, 3);
	buf_printf(out, ", \"threads\": %lld, \"cluster\": %lld, "
		   "\"shared\": %lld, \"maps\": [", (long long)g->threads,
		   (long long)g->cluster, (long long)g->smem_bytes);
	for (i = 0; i < g->nmaps; i++) {
		buf_puts(out, i ? ",\n            " : "\n            ");
		put_map(out, &g->maps[i]);
	}
	buf_puts(out, "]}");
}

/* A dim's pieces: the positions of the whole dim, then runs of them. */
static void
put_pieces(struct buf *out, const struct rt_pieces *p)
{
	int64_t i;

	buf_printf(out, "[%lld", (long long)p->total);
	for (i = 0; i < p->n; i++) {
		buf_printf(out, ", %lld, %lld", (long long)p->at[i].start,
			   (long long)p->at[i].count);
	}
	buf_puts(out, "]");
}

static int64_t
spill_bytes(const struct cg_image *m)
{
	int64_t all = 0;
	uint32_t i;

	for (i = 0; i < m->funcs.n; i++) {
		all += m->funcs.at[i].spill_bytes;
	}
	return all;
}

static void
put_trial(struct buf *out, const struct cg_trial *t, const struct cg_image *m)
{
	const struct rt_kernel *k = t->kernel;
	int64_t i;

	buf_puts(out, "\n        {");
	put_text(out, "tile", t->text);
	buf_printf(out, ", \"cycles\": %.9g, \"source\": %u, \"spills\": %lld, "
		   "\"scratch\": %lld, ", t->cycles, t->source,
		   (long long)spill_bytes(m), (long long)t->shared_bytes);
	put_numbers(out, "numbers", t->nums, k->nnum);
	buf_puts(out, ", \"operands\": [");
	for (i = 0; i < k->nat; i++) {
		buf_printf(out, "%s%u", i ? ", " : "", t->operands[i]);
	}
	buf_puts(out, "], \"pieces\": [");
	for (i = 0; i < k->npieces; i++) {
		buf_puts(out, i ? ", " : "");
		put_pieces(out, &t->pieces[i]);
	}
	buf_puts(out, "], \"steps\": [");
	for (i = 0; i < k->nsteps; i++) {
		buf_puts(out, i ? "," : "");
		put_step(out, k->steps[i].grid);
	}
	buf_puts(out, "]}");
}

/* Operands and factors of a contraction that nothing follows. */
static void
put_product(struct buf *out, const struct cg_contraction *x)
{
	static const char *const names[4] = { "batch", "m", "n", "k" };
	const struct cg_product *p = &x->product;
	const uint32_t *buffers = x->trials.at[0].operands;
	uint32_t i, j;

	buf_printf(out, "\n      \"product\": {\"adds\": %s, \"buffers\": [%u, "
		   "%u, %u], ", p->adds ? "true" : "false",
		   buffers[p->operand[0]], buffers[p->operand[1]],
		   buffers[p->operand[2]]);
	put_numbers(out, "offset", p->offset, 2);
	for (i = 0; i < 4; i++) {
		const struct cg_product_factor *f = &p->factor[i];

		buf_printf(out, ",\n        \"%s\": [", names[i]);
		for (j = 0; j < f->n; j++) {
			buf_printf(out, "%s%lld, %lld, %lld", j ? ", " : "",
				   (long long)f->size[j],
				   (long long)f->stride[j][0],
				   (long long)f->stride[j][1]);
		}
		buf_puts(out, "]");
	}
	buf_puts(out, "},");
}

static void
put_case(struct buf *out, const struct cg_contraction *x,
	 const struct cg_images *images)
{
	uint32_t i;

	buf_puts(out, "\n    {");
	put_text(out, "what", x->what);
	buf_printf(out, ", \"kernels\": %u, \"us\": %.9g, \"flops\": %.17g, "
		   "\"bytes\": %.17g, \"peak_flops_us\": %.9g, "
		   "\"peak_bytes_us\": %.9g,\n      \"buffers\": [",
		   x->nkernels, x->us, x->flops, x->bytes, x->peak_flops_us,
		   x->peak_bytes_us);
	for (i = 0; i < x->tensors.n; i++) {
		const struct cg_tensor *t = &x->tensors.at[i];

		buf_printf(out, "%s{\"bytes\": %lld, \"elem\": %lld, ",
			   i ? ", " : "", (long long)t->bytes,
			   (long long)t->elem);
		if (t->row > 0) {
			buf_printf(out, "\"row\": %lld, \"pitch\": %lld, ",
				   (long long)t->row, (long long)t->pitch);
		}
		buf_printf(out, "\"written\": %s}",
			   t->written ? "true" : "false");
	}
	buf_puts(out, "],");
	if (x->product.known) {
		put_product(out, x);
	}
	buf_puts(out, "\n      \"trials\": [");
	for (i = 0; i < x->trials.n; i++) {
		const struct cg_trial *t = &x->trials.at[i];

		buf_puts(out, i ? "," : "");
		put_trial(out, t, &images->at[t->source]);
	}
	buf_puts(out, "]}");
}

/* ---- files ---- */

/* Sources of several tiles have one name. */
static const char *
source_name(struct arena *a, const struct cg_source *s, uint32_t i)
{
	return arena_printf(a, "%u-%s", i, s->name);
}

static void
add_file(struct driver *d, const char *name, const char *end, const char *at,
	 size_t n)
{
	struct arena *a = &d->ctx.perm;
	struct buf *text = arena_alloc(a, sizeof *text);

	buf_init(text, a);
	buf_add(text, at, n);
	drv_add_file(d, arena_printf(a, "trials/%s%s", name, end), text,
		     false);
}

static void
add_sources(struct driver *d, const struct cg_images *x)
{
	struct arena *a = &d->ctx.perm;
	uint32_t i;

	for (i = 0; i < x->make.ntexts; i++) {
		add_file(d, x->make.texts[i].name, "", x->make.texts[i].text,
			 strlen(x->make.texts[i].text));
	}
	for (i = 0; i < x->make.nsources; i++) {
		const struct cg_source *s = &x->make.sources[i];
		const char *name = source_name(a, s, i);

		add_file(d, name, ".cu", s->text, strlen(s->text));
		add_file(d, name, ".cubin", x->at[i].cubin,
			 (size_t)x->at[i].cubin_bytes);
	}
}

static void
put_all(struct driver *d, const struct cg_tiling *all,
	const struct cg_images *x, struct buf *out)
{
	struct arena *a = &d->ctx.perm;
	uint32_t i;

	buf_puts(out, "{\n  ");
	put_text(out, "arch", x->make.arch);
	buf_puts(out, ", ");
	put_text(out, "made_by", x->made_by);
	buf_puts(out, ",\n  \"texts\": [");
	for (i = 0; i < x->make.ntexts; i++) {
		const char *name = x->make.texts[i].name;

		buf_puts(out, i ? ", " : "");
		buf_json(out, name, strlen(name));
	}
	buf_puts(out, "],\n  \"sources\": [");
	for (i = 0; i < x->make.nsources; i++) {
		const char *name = source_name(a, &x->make.sources[i], i);

		buf_puts(out, i ? ", " : "");
		buf_json(out, name, strlen(name));
	}
	buf_puts(out, "],\n  \"cases\": [");
	for (i = 0; i < all->found.n; i++) {
		buf_puts(out, i ? "," : "");
		put_case(out, &all->found.at[i], x);
	}
	buf_puts(out, "]\n}\n");
}

bool
drv_trials(struct driver *d, const struct cg_input *in)
{
	struct cg_tiling all = { .list_all = true };
	struct cg_images images = { .made_by = NULL };
	struct ir_ctx child;
	struct buf json;
	bool ok;

	ir_ctx_child(&child, &d->ctx);
	memset(child.diags.on, 0, sizeof child.diags.on);
	ok = drv_trials_make(d, &child, in, "trials", &all, &images);
	if (ok) {
		buf_init(&json, &d->ctx.perm);
		put_all(d, &all, &images, &json);
		add_sources(d, &images);
		add_file(d, "trials.json", "", json.at, json.n);
	}
	ir_ctx_release(&child);
	return ok;
}

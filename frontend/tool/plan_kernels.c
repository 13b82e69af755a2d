/*
 * Kernels of a GPU in a plan's folder: their sources and images, their table
 * in plan.json and, if NVRTC is missing, all that `llmc finish` needs to
 * compile them on another machine.
 */
#include "config.h"

#include "frontend/tool/tool.h"

#include <string.h>

#include "runtime/abi.h"

bool
drv_kernels_make(struct driver *d, struct ir_ctx *c,
		 const struct cg_source *at, uint32_t n,
		 struct cg_images *out)
{
	struct cg_make make = { .sources = at, .nsources = n,
				.arch = d->code_in->arch };
	struct cg_images *before = arena_dup(&c->perm, out, sizeof *out);

	make.before = before;
	make.no_cache = d->opts.at[OPT_NO_CACHE].given;
	make.texts = cg_prelude(&c->perm, &make.ntexts);
	return cg_images(c, &make, out);
}

/* Compiles the sources, if NVRTC is here; false after errors. */
static bool
compile_images(struct driver *d, struct ir_ctx *c, const struct cg_code *code,
	       struct cg_images *out)
{
	const struct cg_source *at;
	uint32_t n = cg_code_sources(code, &at);

	return n == 0 || drv_kernels_make(d, c, at, n, out);
}

struct cg_code *
drv_kernels_settle(struct driver *d, struct ir_ctx *c,
		   const struct cg_input *in, struct cg_images *out)
{
	struct cg_code *code;

	while ((code = cg_code_new(&c->perm, in))) {
		if (!compile_images(d, c, code, out)) {
			cg_code_free(code);
			return NULL;
		}
		if (!cg_code_spills(code, out)) {
			cg_images_warn(c, out);
			break;
		}
		cg_code_free(code);
	}
	return code;
}

/* ---- files ---- */

static void
add_file(struct driver *d, const char *name, const char *at, size_t n)
{
	struct arena *a = &d->ctx.perm;
	struct buf *text = arena_alloc(a, sizeof *text);

	buf_init(text, a);
	if (n) {
		buf_add(text, at, n);
	}
	drv_add_file(d, name, text, false);
}

const char *
drv_kernels_file(struct arena *a, const char *part, const char *name,
		 const char *end)
{
	bool is_plan = strcmp(part, CG_PLAN) == 0;

	return arena_printf(a, "%s%s%s%s", is_plan ? "" : part,
			    is_plan ? "" : "-", name, end);
}

struct drv_part *
drv_kernels_part(struct driver *d, struct drv_kernels *k, const char *name)
{
	struct drv_part *p = &k->part[k->n];

	if (k->n++ == CG_MAX_PARTS) {
		die("a program of more than %d parts", CG_MAX_PARTS);
	}
	*p = (struct drv_part){ .name = name };
	buf_init(&p->object, &d->ctx.perm);
	return p;
}

static const char *
file_name(struct driver *d, const char *part, const char *name,
	  const char *end)
{
	return arena_printf(&d->ctx.perm, "kernels/%s", drv_kernels_file(
		&d->ctx.perm, part, name, end));
}

static void
add_images(struct driver *d, const struct drv_part *p)
{
	const struct cg_images *x = &p->images;
	uint32_t i;

	for (i = 0; i < x->make.nsources; i++) {
		const struct cg_source *s = &x->make.sources[i];

		add_file(d, file_name(d, p->name, s->name, ".cu"), s->text,
			 strlen(s->text));
		if (x->at) {
			add_file(d, file_name(d, p->name, s->name, ".cubin"),
				 x->at[i].cubin,
				 (size_t)x->at[i].cubin_bytes);
		}
	}
}

static void
add_texts(struct driver *d, const struct cg_make *m)
{
	uint32_t i;

	for (i = 0; i < m->ntexts; i++) {
		add_file(d, file_name(d, CG_PLAN, m->texts[i].name, ""),
			 m->texts[i].text, strlen(m->texts[i].text));
	}
}

/* ---- the table in plan.json ---- */

static void
put_string(struct buf *out, const char *s)
{
	if (s) {
		buf_json(out, s, strlen(s));
	} else {
		buf_puts(out, "null");
	}
}

/*
 * Threads of a block and shared memory of a launch, from the comment that
 * codegen writes above a kernel; false for services, which have none since
 * each launch of them sets its own.
 */
static bool
launch_of(struct arena *a, const char *text, const char *func,
	  int64_t *threads, int64_t *shared)
{
	const char *at = strstr(text, arena_printf(a, "\nKERNEL(%s,", func));
	long long x[5];

	while (at && at > text && at[-1] != '\n') {
		at--;
	}
	if (!at || sscanf(at, "/* %lld x %lld x %lld blocks of %lld threads, "
			  "%lld bytes shared */", &x[0], &x[1], &x[2], &x[3],
			  &x[4]) != 5) {
		return false;
	}
	*threads = x[3];
	*shared = x[4];
	return true;
}

static void
put_func(struct arena *a, const struct cg_func *f, const char *text,
	 struct buf *out)
{
	int64_t threads, shared;

	buf_puts(out, "{\"name\": ");
	put_string(out, f->name);
	if (launch_of(a, text, f->name, &threads, &shared)) {
		buf_printf(out, ", \"threads\": %lld, \"shared_bytes\": %lld",
			   (long long)threads,
			   (long long)(shared + f->smem_bytes));
	}
	buf_printf(out, ", \"registers\": %lld, \"stack_bytes\": %lld, "
		   "\"spill_bytes\": %lld}", (long long)f->registers,
		   (long long)f->stack_bytes, (long long)f->spill_bytes);
}

static void
put_image(struct arena *a, const struct drv_part *p, uint32_t i,
	  struct buf *out)
{
	const struct cg_images *x = &p->images;
	const struct cg_source *s = &x->make.sources[i];
	const struct cg_image *m;
	uint32_t j;

	buf_printf(out, "      {\"source\": \"%s\", \"bytes\": ",
		   drv_kernels_file(a, p->name, s->name, ".cu"));
	if (!x->at) {
		buf_puts(out, "null}");
		return;
	}
	m = &x->at[i];
	buf_printf(out, "%lld, \"ptx_bytes\": %lld, \"functions\": [",
		   (long long)m->cubin_bytes,
		   (long long)(m->ptx ? strlen(m->ptx) : 0));
	for (j = 0; j < m->funcs.n; j++) {
		buf_puts(out, j ? ",\n        " : "\n        ");
		put_func(a, &m->funcs.at[j], s->text, out);
	}
	buf_puts(out, "]}");
}

static void
strip(struct buf *b, char c)
{
	while (b->n && b->at[b->n - 1] == c) {
		b->n--;
	}
}

/* At the end of plan.json, in place of its last brace. */
static void
put_table(struct driver *d, const struct drv_kernels *k, struct buf *json)
{
	const struct cg_images *plan = &k->part[0].images;
	const char *comma = "";
	uint32_t i, j;

	strip(json, '\n');
	json->n -= json->n > 0;
	strip(json, '\n');
	buf_puts(json, ",\n  \"kernels\": {\n    \"arch\": ");
	put_string(json, plan->make.arch);
	buf_puts(json, ",\n    \"made_by\": ");
	put_string(json, plan->made_by);
	buf_puts(json, ",\n    \"images\": [\n");
	for (i = 0; i < k->n; i++) {
		for (j = 0; j < k->part[i].images.make.nsources; j++) {
			buf_puts(json, comma);
			put_image(&d->ctx.tmp, &k->part[i], j, json);
			comma = ",\n";
		}
	}
	buf_puts(json, "\n    ]\n  }\n}\n");
}

/* ---- unfinished/ ---- */

static void
put_line(struct driver *d, struct buf *list, const char *what,
	 const char *name, const char *at, size_t n)
{
	buf_printf(list, "%s %s %s\n", what, name,
		   cg_digest(&d->ctx.tmp, at, n));
}

static void
put_sources(struct driver *d, struct buf *list, const char *what,
	    const struct cg_source *at, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		put_line(d, list, what, at[i].name, at[i].text,
			 strlen(at[i].text));
	}
}

static void
add_unfinished(struct driver *d, struct buf *list, const char *what,
	       const char *name, const struct buf *text)
{
	put_line(d, list, what, name, text->at, text->n);
	add_file(d, arena_printf(&d->ctx.perm, "unfinished/%s", name),
		 text->at, text->n);
}

/* What drv_rerun() needs to make the plan again, should a tile spill. */
static void
add_run(struct driver *d, struct buf *list)
{
	struct buf *words = arena_alloc(&d->ctx.perm, sizeof *words);
	struct drv_reads reads = { 0 };
	uint32_t i;

	drv_rerun_keep(d, words, &reads);
	add_unfinished(d, list, "run", "run", words);
	for (i = 0; i < reads.n; i++) {
		struct buf text;

		buf_init(&text, &d->ctx.perm);
		buf_add(&text, reads.at[i].text, reads.at[i].bytes);
		add_unfinished(d, list, "read", arena_printf(&d->ctx.perm,
			"%u.read", i), &text);
	}
}

static const char *
first_missing(const struct drv_kernels *k)
{
	uint32_t i = 0;

	while (i + 1 < k->n && !k->part[i].images.missing) {
		i++;
	}
	return k->part[i].images.missing;
}

/*
 * The list has the order of the images, and a checksum of each file: the object
 * of a part, then its sources.
 */
static void
leave_unfinished(struct driver *d, const struct drv_kernels *k)
{
	const struct cg_make *m = &k->part[0].images.make;
	const struct drv_part *p;
	struct buf list;
	uint32_t i;

	buf_init(&list, &d->ctx.perm);
	buf_printf(&list, DRV_LIST "\ncompiler " DRV_COMPILER "\nabi %d\n"
		   "arch %s\n", RT_ABI_VERSION, m->arch);
	put_sources(d, &list, "text", m->texts, m->ntexts);
	add_unfinished(d, &list, "answer", "answer.json", &d->json);
	for (i = 0; i < k->n; i++) {
		p = &k->part[i];
		add_unfinished(d, &list, "object", arena_printf(&d->ctx.perm,
			"%s.o", p->name), &p->object);
		put_sources(d, &list, "source", p->images.make.sources,
			    p->images.make.nsources);
	}
	add_run(d, &list);
	add_file(d, "unfinished/list", list.at, list.n);
	fprintf(stderr, "llmc: note: kernels are not compiled: %s; `llmc "
		"finish %s` compiles them on a machine with NVRTC; until then "
		"its `rank` runs with --device emulate only\n",
		first_missing(k), d->opts.at[OPT_OUTPUT].text);
}

/* ---- all of it ---- */

static bool
link_all(struct driver *d, const struct drv_kernels *k)
{
	struct buf objects[CG_MAX_OBJECTS];
	uint32_t n = 0, i;

	for (i = 0; i < k->n; i++) {
		const struct drv_part *p = &k->part[i];

		objects[n++] = p->object;
		if (p->images.make.nsources) {
			buf_init(&objects[n], &d->ctx.perm);
			cg_images_object(&p->images, arena_printf(
				&d->ctx.tmp, "llmc_%s_images", p->name),
				&objects[n++]);
		}
	}
	return cg_link(&d->ctx, objects, n, &d->program);
}

/* What `rank --device emulate` loads. */
static bool
add_emulator(struct driver *d)
{
	struct buf file;

	buf_init(&file, &d->ctx.perm);
	if (!cg_emulator(&d->ctx, &file)) {
		return false;
	}
	add_file(d, RT_EMULATOR_FILE, file.at, file.n);
	return true;
}

bool
drv_kernels_end(struct driver *d, const struct drv_kernels *k)
{
	const struct cg_images *plan = &k->part[0].images;
	bool made = true;
	uint32_t i;

	for (i = 0; i < k->n && plan->make.nsources; i++) {
		const struct cg_images *x = &k->part[i].images;

		made &= !x->make.nsources || x->made_by;
		add_images(d, &k->part[i]);
	}
	if (plan->make.nsources) {
		add_texts(d, &plan->make);
		if (!made) {
			leave_unfinished(d, k);
		}
		put_table(d, k, &d->json);
	}
	return link_all(d, k) && (!plan->make.nsources || add_emulator(d));
}

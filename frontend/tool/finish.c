/*
 * `llmc finish PLAN`: compiles the kernels of a plan that was written where
 * NVRTC was missing, and links its program.  unfinished/list has the files in
 * their order, each with its checksum.
 */
#include "config.h"

#include "frontend/tool/tool.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/cg.h"
#include "runtime/abi.h"

#define MOST_BYTES ((int64_t)1 << 31)	/* of one file */

static const struct span nowhere;

/* The list being read. */
struct reading {
	struct driver *d;
	const char *folder, *path;
	const struct source_file *f;
	uint32_t at, line, lo;	/* bytes of f; lo: where the line began */
	const char *arch;
	VEC(struct cg_source) texts;
	struct {
		const char *name;
		struct buf object;
		VEC(struct cg_source) sources;
	} part[CG_MAX_PARTS];
	uint32_t nparts;
	struct buf answer;
	struct buf run;		/* options and file names: see rerun.c */
	struct drv_reads reads;
	bool has_answer, has_run;
};

/* ---- files ---- */

static bool
bad_file(struct reading *r, const char *path, const char *why)
{
	diag_error(&r->d->ctx.diags, nowhere, "cannot read %s: %s", path,
		   why);
	return false;
}

static bool
read_file(struct reading *r, const char *path, struct buf *out)
{
	FILE *f = fopen(path, "rb");
	char some[65536];
	struct stat st;
	size_t n;
	bool ok;

	buf_init(out, &r->d->ctx.perm);
	if (!f) {
		return bad_file(r, path, strerror(errno));
	}
	if (fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > MOST_BYTES) {
		fclose(f);
		return bad_file(r, path, "it is not a file of at most 2 GiB");
	}
	while ((n = fread(some, 1, sizeof some, f)) > 0) {
		buf_add(out, some, n);
	}
	ok = !ferror(f);
	fclose(f);
	return ok || bad_file(r, path, strerror(errno));
}

/* Reads a file, which must have the checksum of the list. */
static bool
read_known(struct reading *r, const char *name, const char *sum,
	   struct buf *out)
{
	const char *path = arena_printf(&r->d->ctx.perm, "%s/%s", r->folder,
					name);

	if (!read_file(r, path, out)) {
		return false;
	}
	if (strcmp(cg_digest(&r->d->ctx.tmp, out->at, out->n), sum) != 0) {
		diag_error(&r->d->ctx.diags, nowhere, "%s was changed since it "
			   "was written: compile the model again, or restore "
			   "the file", path);
		return false;
	}
	return true;
}

/* ---- the list ---- */

static bool
bad_line(struct reading *r, const char *found, const char *want)
{
	struct span s = { r->f->base + r->lo, r->f->base + r->at };

	diag_error(&r->d->ctx.diags, s, "found `%s`, where the list of an "
		   "unfinished plan has %s", found, want);
	return false;
}

/* NULL after the last line. */
static const char *
next_line(struct reading *r)
{
	const char *p = r->f->text + r->at;
	size_t left = r->f->len - r->at;
	const char *end = memchr(p, '\n', left);
	size_t n = end ? (size_t)(end - p) : left;

	if (left == 0) {
		return NULL;
	}
	r->lo = r->at;
	r->at += (uint32_t)n + (end != NULL);
	return arena_strndup(&r->d->ctx.perm, p, n);
}

/* The rest of the next line, which must begin with the word; NULL after
 * reporting. */
static const char *
expect_word(struct reading *r, const char *word)
{
	const char *line = next_line(r);
	size_t n = strlen(word);

	if (line && strncmp(line, word, n) == 0) {
		return line + n;
	}
	bad_line(r, line ? line : "", arena_printf(&r->d->ctx.tmp, "`%s`",
						   word));
	return NULL;
}

/* Whether this version of llmc wrote the plan; reports both if not. */
static bool
same_compiler(struct reading *r)
{
	static const char we[] = DRV_COMPILER;
	const char *wrote, *abi;

	if (!expect_word(r, DRV_LIST) ||
	    !(wrote = expect_word(r, "compiler ")) ||
	    !(abi = expect_word(r, "abi "))) {
		return false;
	}
	if (strcmp(wrote, we) != 0 ||
	    strcmp(abi, arena_printf(&r->d->ctx.tmp, "%d",
				     RT_ABI_VERSION)) != 0) {
		diag_error(&r->d->ctx.diags, nowhere, "%s was written by %s "
			   "(ABI %s), and this is %s (ABI %d): finish it "
			   "with that one, or compile the model again",
			   r->folder, wrote, abi, we, RT_ABI_VERSION);
		return false;
	}
	return true;
}

static bool
is_name(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		bool ok = (s[i] >= 'a' && s[i] <= 'z') ||
			  (s[i] >= 'A' && s[i] <= 'Z') ||
			  (s[i] >= '0' && s[i] <= '9') || s[i] == '_' ||
			  s[i] == '-' || s[i] == '.';

		if (!ok) {
			return false;
		}
	}
	return n > 0 && s[0] != '.';
}

/* A line is a word, a name without folders, and a sum. */
static bool
split(struct reading *r, const char *line, const char **word,
      const char **name, const char **sum)
{
	struct arena *a = &r->d->ctx.perm;
	size_t n = strcspn(line, " ");
	const char *p = line + n + (line[n] == ' ');
	size_t m = strcspn(p, " ");

	*word = arena_strndup(a, line, n);
	*name = arena_strndup(a, p, m);
	*sum = p + m + (p[m] == ' ');
	return is_name(*name, m) && strlen(*sum) == 32 &&
	       strspn(*sum, "0123456789abcdef") == 32;
}

static bool
read_source(struct reading *r, const char *file, const char *name,
	    const char *sum, struct cg_source *out)
{
	struct buf text;

	if (!read_known(r, file, sum, &text)) {
		return false;
	}
	*out = (struct cg_source){ name, buf_text(&text) };
	return true;
}

static bool
read_line(struct reading *r, const char *line)
{
	struct arena *a = &r->d->ctx.perm;
	const char *word, *name, *sum, *file;
	struct cg_source s;
	bool ok = split(r, line, &word, &name, &sum);

	if (ok && strcmp(word, "text") == 0) {
		file = arena_printf(a, "kernels/%s", name);
		ok = read_source(r, file, name, sum, &s);
		VEC_PUSH(a, &r->texts, s);
	} else if (ok && strcmp(word, "source") == 0 && r->nparts) {
		file = arena_printf(a, "kernels/%s", drv_kernels_file(a,
			r->part[r->nparts - 1].name, name, ".cu"));
		ok = read_source(r, file, name, sum, &s);
		VEC_PUSH(a, &r->part[r->nparts - 1].sources, s);
	} else if (ok && strcmp(word, "answer") == 0 && !r->has_answer) {
		file = arena_printf(a, "unfinished/%s", name);
		r->has_answer = true;
		ok = read_known(r, file, sum, &r->answer);
	} else if (ok && strcmp(word, "object") == 0 &&
		   r->nparts < CG_MAX_PARTS) {
		file = arena_printf(a, "unfinished/%s", name);
		r->part[r->nparts].name = arena_strndup(a, name,
			strcspn(name, "."));
		ok = read_known(r, file, sum, &r->part[r->nparts++].object);
	} else if (ok && strcmp(word, "run") == 0 && !r->has_run) {
		file = arena_printf(a, "unfinished/%s", name);
		r->has_run = true;
		ok = read_known(r, file, sum, &r->run);
	} else if (ok && strcmp(word, "read") == 0) {
		file = arena_printf(a, "unfinished/%s", name);
		ok = read_source(r, file, name, sum, &s);
		VEC_PUSH(a, &r->reads, ((struct drv_read){ s.text,
							   strlen(s.text) }));
	} else {
		return bad_line(r, line, "text, answer, object, source, run "
				"or read, a name and a sum of 32 digits");
	}
	return ok;
}

static bool
read_list(struct reading *r)
{
	struct driver *d = r->d;
	const char *line, *why = "?";
	uint32_t index;

	if (!drv_read_source(d, r->path, &index)) {
		return false;
	}
	r->f = &d->ctx.sources.files.at[index];
	if (!same_compiler(r) || !(r->arch = expect_word(r, "arch "))) {
		return false;
	}
	if (!cg_arch_known(r->arch, &d->ctx.perm, &why)) {
		return bad_line(r, r->arch, "an architecture that there are "
				"kernels for");
	}
	while ((line = next_line(r))) {
		if (!read_line(r, line)) {
			return false;
		}
	}
	if (!r->has_answer || !r->has_run || !r->nparts ||
	    !r->part[0].sources.n) {
		diag_error(&d->ctx.diags, nowhere, "%s ends too early: compile "
			   "the model again", r->path);
		return false;
	}
	return true;
}

/* ---- the program ---- */

static bool
compile_sources(struct reading *r, const struct cg_source *at, uint32_t n,
		struct cg_images *out)
{
	struct driver *d = r->d;
	struct cg_make m = { .sources = at, .nsources = n,
			     .texts = r->texts.at, .ntexts = r->texts.n,
			     .arch = r->arch };

	m.no_cache = d->opts.at[OPT_NO_CACHE].given;
	if (n == 0) {
		return true;
	}
	if (!cg_images(&d->ctx, &m, out)) {
		return false;
	}
	if (!out->made_by) {
		diag_error(&d->ctx.diags, nowhere, "%s cannot be finished "
			   "here: %s", r->folder, out->missing);
	}
	return out->made_by;
}

static bool
compile_parts(struct reading *r, struct drv_kernels *k)
{
	uint32_t i;

	for (i = 0; i < r->nparts; i++) {
		struct drv_part *p = drv_kernels_part(r->d, k,
						      r->part[i].name);

		p->object = r->part[i].object;
		if (!compile_sources(r, r->part[i].sources.at,
				     r->part[i].sources.n, &p->images)) {
			return false;
		}
	}
	return true;
}

/* If tiles spill, llmc would have chosen others where NVRTC is. */
static bool
spills(const struct cg_images *x)
{
	uint32_t i, j;

	for (i = 0; x->at && i < x->make.nsources; i++) {
		for (j = 0; j < x->at[i].funcs.n; j++) {
			if (x->at[i].funcs.at[j].spill_bytes > 0) {
				return true;
			}
		}
	}
	return false;
}

static bool
finish(struct reading *r)
{
	struct driver *d = r->d;
	struct drv_kernels *k = arena_alloc(&d->ctx.perm, sizeof *k);
	uint32_t i;

	if (!read_list(r) || !compile_parts(r, k)) {
		return false;
	}
	for (i = 0; i < k->n; i++) {
		if (spills(&k->part[i].images)) {
			return drv_rerun(d, buf_text(&r->run), &r->reads);
		}
	}
	for (i = 0; i < k->n; i++) {
		cg_images_warn(&d->ctx, &k->part[i].images);
	}
	d->json = r->answer;
	buf_init(&d->program, &d->ctx.perm);
	return drv_kernels_end(d, k) && drv_write_plan(d, r->folder);
}

/* Whether plan.json says that its kernels are not compiled. */
static bool
is_unmade(struct reading *r, const char *plan_json)
{
	struct buf text;

	return read_file(r, plan_json, &text) &&
	       strstr(buf_text(&text), "\"made_by\": null");
}

/* Without a list: the plan is finished, or something is missing. */
static bool
report_without_list(struct reading *r)
{
	struct diags *g = &r->d->ctx.diags;
	struct arena *a = &r->d->ctx.perm;
	const char *json = arena_printf(a, "%s/plan.json", r->folder);
	struct stat st;

	if (stat(r->folder, &st) != 0) {
		return bad_file(r, r->folder, strerror(errno));
	}
	if (access(json, F_OK) != 0) {
		diag_error(g, nowhere, "%s is not the folder of a plan: it has "
			   "no plan.json", r->folder);
		return false;
	}
	if (access(arena_printf(a, "%s/unfinished", r->folder), F_OK) == 0) {
		diag_error(g, nowhere, "%s, the list of what to compile, is "
			   "missing: compile the model again", r->path);
		return false;
	}
	if (is_unmade(r, json)) {
		diag_error(g, nowhere, "%s/unfinished is missing, and kernels "
			   "are not compiled: compile the model again",
			   r->folder);
		return false;
	}
	if (access(arena_printf(a, "%s/rank", r->folder), F_OK) != 0) {
		diag_error(g, nowhere, "%s has nothing to finish: it has "
			   "plan.json and plan.llp only, since there is no "
			   "code for its target", r->folder);
		return false;
	}
	fprintf(stderr, "llmc: note: %s is finished: its program is %s/rank\n",
		r->folder, r->folder);
	return true;
}

bool
drv_finish(struct driver *d)
{
	struct reading r = { .d = d, .folder = d->opts.input };

	if (strcmp(r.folder, "-") == 0) {
		diag_error(&d->ctx.diags, nowhere, "finish takes the folder of "
			   "a plan, found `-`");
		return false;
	}
	r.path = arena_printf(&d->ctx.perm, "%s/unfinished/list", r.folder);
	if (access(r.path, F_OK) != 0) {
		return report_without_list(&r);
	}
	return finish(&r);
}

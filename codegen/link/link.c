/*
 * From objects to a program: the C compiler that configure found links them
 * with the runtime, librank.a, which is installed with llmc.  An object of
 * kernels alone becomes a shared object, which is loaded.
 */
#include "config.h"

#include "codegen/cg.h"
#include "runtime/abi.h"
#include "runtime/delay.h"
#include "runtime/scratch.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS 64

static const struct span nowhere;

static bool
report_error(struct ir_ctx *c, const char *what, const char *path)
{
	diag_error(&c->diags, nowhere, "cannot %s %s: %s", what, path,
		   strerror(errno));
	return false;
}

/* ---- the runtime ---- */

/* A part of the runtime, relative to llmc: installed, or in the build tree. */
static const char *
find_runtime(struct ir_ctx *c, const char *name)
{
	static const char *const places[] = { "../lib/llmc/", "runtime/" };
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	const char *path;
	char *slash;
	size_t i;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash) {
		slash[1] = '\0';
	}
	for (i = 0; i < sizeof places / sizeof places[0]; i++) {
		path = arena_printf(&c->perm, "%s%s%s", self, places[i], name);
		if (access(path, R_OK) == 0) {
			return path;
		}
	}
	diag_error(&c->diags, nowhere, "the runtime, %s, is neither in "
		   "%s../lib/llmc nor in %sruntime: make install puts it "
		   "there", name, self, self);
	return NULL;
}

/* ---- the linker ---- */

struct link_command {
	char *words[MAX_WORDS + 1];
	uint32_t n;
};

/* Appends the words of a text, separated by blanks; there are no quotes. */
static void
add_words(struct ir_ctx *c, struct link_command *x, const char *text)
{
	while (x->n < MAX_WORDS && *(text += strspn(text, " \t"))) {
		size_t n = strcspn(text, " \t");

		x->words[x->n++] = arena_strndup(&c->perm, text, n);
		text += n;
	}
}

static void
add_word(struct ir_ctx *c, struct link_command *x, const char *word)
{
	if (x->n < MAX_WORDS) {
		x->words[x->n++] = arena_printf(&c->perm, "%s", word);
	}
}

static bool
run_linker(struct ir_ctx *c, struct link_command *x, struct rt_delay *h)
{
	pid_t pid = 0;
	int error = rt_delay_spawn(h, &pid, x->words), status = 0;

	if (error) {
		diag_error(&c->diags, nowhere, "the linker `%s` cannot be "
			   "run: %s; LLMC_LINKER names another C compiler",
			   x->words[0], strerror(error));
		return false;
	}
	if (!rt_delay_wait(h, pid, &status)) {
		return report_error(c, "wait for", x->words[0]);
	}
	if (h->caught) {
		return false;
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		diag_error(&c->diags, nowhere, "the linker `%s` failed: what "
			   "it says stands above; LLMC_LINKER names another "
			   "C compiler", x->words[0]);
		return false;
	}
	return true;
}

/* ---- files ---- */

static bool
write_file(struct ir_ctx *c, const char *path, const struct buf *text)
{
	FILE *f = fopen(path, "wb");
	bool ok;

	if (!f) {
		return report_error(c, "write", path);
	}
	ok = fwrite(text->at, 1, text->n, f) == text->n;
	ok &= fclose(f) == 0;
	return ok || report_error(c, "write", path);
}

static bool
read_file(struct ir_ctx *c, const char *path, struct buf *out)
{
	FILE *f = fopen(path, "rb");
	char some[65536];
	size_t n;
	bool ok;

	if (!f) {
		return report_error(c, "read", path);
	}
	while ((n = fread(some, 1, sizeof some, f)) > 0) {
		buf_add(out, some, n);
	}
	ok = !ferror(f);
	fclose(f);
	return ok || report_error(c, "read", path);
}

/* ---- all of it ---- */

struct linking {
	struct ir_ctx *c;
	const char *folder;
	const char *runtime;	/* NULL: a shared object, without one */
	struct rt_delay hold;
	const char *from[CG_MAX_OBJECTS];	/* paths of objects */
	uint32_t n;
};

/* The program contains no build id, and no path or time of the link. */
static bool
link_files(struct linking *x, const char *to)
{
	const char *linker = getenv("LLMC_LINKER");
	struct link_command k = { .n = 0 };
	uint32_t i;

	add_words(x->c, &k, linker && *linker ? linker : CONFIG_LINKER);
	add_words(x->c, &k, CONFIG_LINKER_FLAGS);
	add_words(x->c, &k, x->runtime ? "-pie" : "-shared");
	add_words(x->c, &k,
		  "-s -Wl,--build-id=none -Wl,-z,noexecstack -o");
	add_word(x->c, &k, to);
	for (i = 0; i < x->n; i++) {
		add_word(x->c, &k, x->from[i]);
	}
	if (x->runtime) {
		add_word(x->c, &k, x->runtime);
	}
	add_words(x->c, &k, "-lm -lpthread -ldl");
	return run_linker(x->c, &k, &x->hold);
}

/* Of the objects, in the linking's folder; NULL after errors. */
static const char *
link_in(struct linking *x, const struct buf *objects)
{
	const char *to = arena_printf(&x->c->perm, "%s/rank", x->folder);
	bool ok = true;
	uint32_t i;

	for (i = 0; i < x->n; i++) {
		x->from[i] = arena_printf(&x->c->perm, "%s/part%u.o",
					  x->folder, i);
		ok = ok && write_file(x->c, x->from[i], &objects[i]);
	}
	ok = ok && link_files(x, to);
	return ok ? to : NULL;
}

bool
cg_link(struct ir_ctx *ctx, const struct buf *objects, uint32_t n,
	struct buf *out)
{
	struct linking x = { .c = ctx, .n = n };
	struct rt_scratch s;
	const char *path;
	bool ok;

	x.runtime = find_runtime(ctx, "librank.a");
	if (!x.runtime) {
		return false;
	}
	rt_delay_begin(&x.hold);
	if (rt_scratch_make(&s, NULL)) {
		x.folder = s.path;
		path = link_in(&x, objects);
		ok = path && read_file(ctx, path, out);
		rt_scratch_remove(&s);
	} else {
		ok = report_error(ctx, "make", s.path);
	}
	rt_delay_end(&x.hold);
	return ok;
}

void *
cg_load(struct ir_ctx *ctx, const struct buf *object)
{
	struct linking x = { .c = ctx, .n = 1 };
	struct rt_scratch s;
	const char *path;
	void *library = NULL;

	rt_delay_begin(&x.hold);
	if (rt_scratch_make(&s, NULL)) {
		x.folder = s.path;
		path = link_in(&x, object);
		library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
		if (path && !library) {
			diag_error(&ctx->diags, nowhere, "cannot load what "
				   "was linked: %s", dlerror());
		}
		rt_scratch_remove(&s);
	} else {
		report_error(ctx, "make", s.path);
	}
	rt_delay_end(&x.hold);
	return library;
}

bool
cg_emulator(struct ir_ctx *ctx, struct buf *out)
{
	const char *path = find_runtime(ctx, RT_EMULATOR_FILE);

	return path && read_file(ctx, path, out);
}

/*
 * Loads passes from shared objects.  A plug-in states the IR_ABI_VERSION of the
 * headers it was compiled with.  If it is not ours, the plug-in is refused
 * before any of its structs is read, since their layout may differ.
 */
#include "passes/pass.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct span nowhere;

void
pass_table_release(struct pass_table *t)
{
	while (t->handles.n) {
		dlclose(t->handles.at[--t->handles.n]);
	}
}

static bool
good_name(const char *s)
{
	return s && *s >= 'a' && *s <= 'z' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") ==
	       strlen(s) && strcmp(s, "all") != 0 && strcmp(s, "default") != 0;
}

static bool
check_pass(struct pass_table *t, const char *file, const struct pass *p)
{
	const uint32_t props = ((uint32_t)1 << PASS_NPROPS) - 1;
	struct diags *d = &t->ctx->diags;

	if (!good_name(p->name) || !p->run || !p->purpose ||
	    ((p->needs | (p->gives & ~PASS_SAME) | p->kills) & ~props)) {
		diag_error(d, nowhere, "plug-in %s: pass `%s` lacks a name of "
			   "a-z, 0-9, `-` and `_`, a function or a purpose, or "
			   "has a property that does not exist", file,
			   p->name ? p->name : "");
		return false;
	}
	if (pass_find(t, p->name)) {
		const char *owner = pass_find(t, p->name)->file;

		diag_error(d, nowhere, "plug-in %s: there is already a pass "
			   "`%s`, %s%s", file, p->name,
			   owner ? "from " : "built in", owner ? owner : "");
		return false;
	}
	return true;
}

static bool
add_passes(struct pass_table *t, const char *file,
	   const struct pass_plugin *plugin)
{
	struct diags *d = &t->ctx->diags;
	uint32_t i;

	if (plugin->abi_version != IR_ABI_VERSION) {
		diag_error(d, nowhere, "plug-in %s is made for version %u of "
			   "the IR, and this is version %u", file,
			   plugin->abi_version, (unsigned)IR_ABI_VERSION);
		return false;
	}
	if (!plugin->name || !plugin->version || !plugin->npasses ||
	    !plugin->passes) {
		diag_error(d, nowhere, "plug-in %s has no name, no version or "
			   "no passes", file);
		return false;
	}
	for (i = 0; i < plugin->npasses; i++) {
		struct pass_known k = { plugin->passes[i], file };

		if (!check_pass(t, file, &k.pass)) {
			return false;
		}
		VEC_PUSH(&t->ctx->perm, &t->known, k);
	}
	return true;
}

/*
 * The file offset where the segments of a shared object end; 0 if it is no
 * 64-bit ELF file.  dlopen maps segments without checking the file's length,
 * and a truncated file would crash the process.
 */
static int64_t
segments_end(FILE *f)
{
	int64_t end = 0;
	Elf64_Ehdr e;
	Elf64_Phdr p;
	uint16_t i;

	if (fread(&e, sizeof e, 1, f) != 1 ||
	    memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 ||
	    e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_phentsize != sizeof p ||
	    e.e_phoff > LONG_MAX || fseek(f, (long)e.e_phoff, SEEK_SET)) {
		return 0;
	}
	for (i = 0; i < e.e_phnum && fread(&p, sizeof p, 1, f) == 1; i++) {
		if (p.p_offset > INT64_MAX / 2 || p.p_filesz > INT64_MAX / 2) {
			return INT64_MAX;
		}
		if (p.p_type == PT_LOAD &&
		    (int64_t)(p.p_offset + p.p_filesz) > end) {
			end = (int64_t)(p.p_offset + p.p_filesz);
		}
	}
	return i < e.e_phnum ? INT64_MAX : end;
}

/* Rejects a truncated file; other faults are left to dlopen. */
static bool
is_whole(struct diags *d, const char *path)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	bool ok;

	ok = !f || fstat(fileno(f), &st) || !S_ISREG(st.st_mode) ||
	     segments_end(f) <= st.st_size;
	if (f) {
		fclose(f);
	}
	if (!ok) {
		diag_error(d, nowhere, "cannot load plug-in: %s has %lld "
			   "bytes, and what is to be loaded of it ends behind "
			   "them: it was not written whole", path,
			   (long long)st.st_size);
	}
	return ok;
}

bool
pass_load(struct pass_table *t, const char *file)
{
	struct diags *d = &t->ctx->diags;
	const struct pass_plugin *plugin = NULL;
	pass_plugin_fn *get;
	const char *path = file;
	void *handle, *symbol;

	/* without a slash dlopen would search the system's folders */
	if (!strchr(file, '/')) {
		path = arena_printf(&t->ctx->perm, "./%s", file);
	}
	if (!is_whole(d, path)) {
		return false;
	}
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		diag_error(d, nowhere, "cannot load plug-in: %s", dlerror());
		return false;
	}
	VEC_PUSH(&t->ctx->perm, &t->handles, handle);
	symbol = dlsym(handle, PASS_PLUGIN_SYMBOL);
	if (symbol) {
		/* ISO C has no cast from an object to a function pointer */
		memcpy(&get, &symbol, sizeof get);
		plugin = get();
	}
	if (!plugin) {
		diag_error(d, nowhere, "plug-in %s has no symbol `%s`, or it "
			   "returns nothing", file, PASS_PLUGIN_SYMBOL);
		return false;
	}
	return add_passes(t, file, plugin);
}

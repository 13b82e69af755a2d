/*
 * Passes from shared objects.  A plug-in is compiled against the headers of
 * one IR_ABI_VERSION and says so; any other is refused before anything else
 * in it is looked at, since its structs may not be ours.
 */
#include "passes/pass.h"

#include <dlfcn.h>
#include <string.h>

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
	    ((p->needs | p->gives | p->kills) & ~props)) {
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

/*
 * Kernels that were found before.  Modules of one run are made of the same
 * layers, cut alike: stages of a program, the plans that a search looks at,
 * and what each later pass needs once more.  So a region's kernels are
 * kept by its key, with places in the region for nodes and numbers of the key
 * for values, and put into the region at hand from there.
 */
#include "ir/memo.h"
#include "passes/kernels/fuse.h"

struct known_kernels {
	const struct fuse_template *tmpl;
	const struct kernel_work *work;	/* by kernel */
	const double *bytes;	/* of inputs and outputs, one after the other */
	/* its own, where sizes make it another than that of the template */
	const struct kernel_list *list;
};

struct hash
fuse_content(const struct fuse_key *key)
{
	struct hash content = key->hash;

	hash_add(&content, key->sizes.a);
	hash_add(&content, key->sizes.b);
	return content;
}

/* ---- from what is known ---- */

static const double *
set_bytes(struct kernel_use *at, uint32_t n, const double *bytes)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		at[i].bytes = bytes[i];
	}
	return bytes + n;
}

bool
fuse_recall(struct fuse *f, const struct fuse_key *key, struct kernel_list *l)
{
	struct fuse_names names = fuse_names(f, key, l->region);
	const struct known_kernels *x = memo_find(f->memo, MEMO_KERNELS,
					  fuse_content(key));
	const double *bytes;
	uint32_t i;

	if (!x) {
		return false;
	}
	fuse_copy_list(f->a, x->list ? x->list : &x->tmpl->list, names, l);
	for (i = 0, bytes = x->bytes; !x->list && i < l->at.n; i++) {
		struct kernel *k = &l->at.at[i];

		k->work = &x->work[i];
		bytes = set_bytes(k->inputs.at, k->inputs.n, bytes);
		bytes = set_bytes(k->outputs.at, k->outputs.n, bytes);
	}
	return true;
}

/* ---- to what is known ---- */

struct arena *
fuse_scratch(struct fuse *f, const struct fuse_template *x)
{
	return x->kept ? memo_arena(f->memo, MEMO_KERNELS) : NULL;
}

static uint32_t
take_bytes(const struct kernel_use *at, uint32_t n, double *bytes)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		bytes[i] = at[i].bytes;
	}
	return n;
}

/* As the template has it, but for what follows from sizes. */
static void
take(const struct kernel_list *l, struct arena *a, struct known_kernels *x)
{
	double *bytes = arena_alloc_raw(a, x->tmpl->nuses * sizeof *bytes);
	uint32_t i;

	x->work = l->at.n ? l->at.at[0].work : NULL;
	x->bytes = bytes;
	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		bytes += take_bytes(k->inputs.at, k->inputs.n, bytes);
		bytes += take_bytes(k->outputs.at, k->outputs.n, bytes);
	}
}

/* All of it, and how its kernels run for all that will be like them. */
static void
take_own(struct fuse *f, const struct fuse_key *key,
	 const struct kernel_list *l, struct arena *a, struct known_kernels *x)
{
	struct kernel_list *own = arena_alloc(a, sizeof *own);
	uint32_t i;

	fuse_open_names(f, key, l->region);
	fuse_copy_list(a, l, (struct fuse_names){ f->at, f->number }, own);
	fuse_close_names(f, key);
	for (i = 0; i < own->at.n; i++) {
		struct kernel *k = &own->at.at[i];

		if (k->parts) {
			k->parts = arena_dup(a, k->parts, sizeof *k->parts);
		}
	}
	x->list = own;
}

void
fuse_remember(struct fuse *f, const struct fuse_key *key,
	      const struct fuse_template *tmpl, bool own,
	      struct kernel_list *l)
{
	struct arena *a = memo_arena(f->memo, MEMO_KERNELS);
	struct known_kernels *x;

	if (!a) {
		return;
	}
	x = arena_alloc(a, sizeof *x);
	x->tmpl = tmpl;
	if (own) {
		take_own(f, key, l, a, x);
	} else {
		take(l, a, x);
	}
	memo_keep(f->memo, MEMO_KERNELS, l->content, x);
}

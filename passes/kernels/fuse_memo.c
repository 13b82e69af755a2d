/*
 * Kernels that were found before.  Modules of one run are made of the same
 * layers, cut alike: stages of a program, the plans that a search looks at,
 * and what each pass behind it asks for once more.  So a region's kernels are
 * kept by its key, with places in the region for nodes and numbers of the key
 * for values, and put into the region at hand from there.
 */
#include "passes/kernels/fuse.h"

struct known {
	struct hash hash, sizes;
	const struct fuse_template *tmpl;
	const struct kernel_work *work;	/* by kernel */
	const double *bytes;	/* of inputs and outputs, one after the other */
	/* its own, where sizes make it another than that of the mould */
	const struct kernel_list *list;
};

struct kernels_memo {
	struct arena *arena;
	VEC(struct known) known;	/* the first is none */
	struct table table;
	size_t room_bytes;	/* so much more may be kept */
	struct fuse_templates *templates;
};

/* gpt3-175b on 64 devices has 12 MiB, deepseek-v3 100 MiB. */
#define MOST_BYTES ((size_t)512 << 20)

void
kernels_keep(struct ir_ctx *c)
{
	struct arena *a = &c->perm;
	struct kernels_memo *m = arena_alloc(a, sizeof *m);

	c->kernels = m;
	m->arena = a;
	VEC_PUSH(a, &m->known, (struct known){ 0 });
	m->room_bytes = MOST_BYTES;
	m->templates = fuse_templates_new(a);
}

struct fuse_templates *
fuse_templates_of(struct kernels_memo *memo)
{
	return memo->templates;
}

bool
fuse_fits(struct kernels_memo *memo, size_t bytes)
{
	if (bytes > memo->room_bytes) {
		return false;
	}
	memo->room_bytes -= bytes;
	return true;
}

static uint64_t
hash_of(const struct fuse_key *key)
{
	return key->hash.a ^ key->sizes.a;
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
	const struct known *x;
	const double *bytes;
	uint32_t at = 0, i;

	do {
		at = table_find(&f->memo->table, hash_of(key), at);
		x = &f->memo->known.at[at];
	} while (at && !(hash_same(x->hash, key->hash) &&
			 hash_same(x->sizes, key->sizes)));
	if (!at) {
		return false;
	}
	l->like = at;
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
	size_t bytes = sizeof(struct known) +
		       x->list.at.n * sizeof(struct kernel_work) +
		       x->nuses * sizeof(double);

	return x->kept && fuse_fits(f->memo, bytes) ? f->memo->arena
							: NULL;
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

/* As the mould has it, but for what follows from sizes. */
static void
take(const struct kernel_list *l, struct arena *a, struct known *x)
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
	 const struct kernel_list *l, struct known *x)
{
	struct arena *a = f->memo->arena;
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
	struct known x = { .hash = key->hash, .sizes = key->sizes,
			   .tmpl = tmpl };
	struct kernels_memo *memo = f->memo;

	if (!own) {
		take(l, memo->arena, &x);
	} else if (fuse_fits(memo, fuse_list_bytes(l))) {
		take_own(f, key, l, &x);
	} else {
		return;
	}
	l->like = table_add(memo->arena, &memo->table, hash_of(key));
	VEC_PUSH(memo->arena, &memo->known, x);
}

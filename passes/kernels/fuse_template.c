/*
 * Kernels but for sizes.  Which nodes go together hardly ever depends on how
 * large they are, so a region that is like another one but for sizes has its
 * kernels, if all that was asked of sizes for these (fuse_reaches) has the
 * same answers.  What these take are counts, through which one runs for the
 * sizes at hand.
 */
#include "ir/memo.h"
#include "passes/kernels/fuse.h"

/* ---- the names of a region ---- */

void
fuse_number_values(struct fuse *f)
{
	if (!f->number) {
		f->number = arena_alloc(&f->bench, (f->m->values.n + 1) *
					sizeof *f->number);
		f->at = arena_alloc_raw(&f->bench, (f->m->nodes.n + 1) *
				   sizeof *f->at);
	}
}

/*
 * Between these two f->at and f->number say which place in the region a node
 * is, and which of the key's values a value.
 */
static struct fuse_names
open_names(struct fuse *f, const struct fuse_key *key, region_id r)
{
	const struct ir_region *region = &f->m->regions.at[r];
	uint32_t i;

	fuse_number_values(f);
	for (i = 0; i < region->nodes.n; i++) {
		f->at[region->nodes.at[i]] = i;
	}
	for (i = 0; i < key->values.n; i++) {
		f->number[key->values.at[i]] = i;
	}
	return (struct fuse_names){ f->at, f->number };
}

static void
close_names(struct fuse *f, const struct fuse_key *key)
{
	uint32_t i;

	for (i = 0; i < key->values.n; i++) {
		f->number[key->values.at[i]] = 0;
	}
}

/* From places and numbers to the region's own ids. */
static struct fuse_names
names_of(const struct fuse *f, const struct fuse_key *key, region_id r)
{
	return (struct fuse_names){ f->m->regions.at[r].nodes.at,
				    key->values.at };
}

/* ---- templates ---- */

/* Sets all but the template, if its answers are those of the sizes at hand. */
static bool
suits(const struct fuse *f, struct fuse_known *to)
{
	return fuse_same_answers(f, to->x, to->names, &to->at);
}

bool
fuse_find_template(struct fuse *f, const struct fuse_key *key, region_id r,
		   struct fuse_known *to)
{
	struct fuse_template *const *all = memo_find(f->memo, MEMO_TEMPLATES,
						     key->hash);

	to->names = names_of(f, key, r);
	to->x = all ? *all : NULL;
	while (to->x && !suits(f, to)) {
		to->x = to->x->older;
	}
	return to->x != NULL;
}

/* The shapes of all templates in the memo, which has that arena for them. */
static struct fuse_shapes *
kept_shapes(struct fuse *f, struct arena *a)
{
	const struct hash key = { 11, 12 };

	if (!f->shapes) {
		f->shapes = memo_find(f->memo, MEMO_TEMPLATES, key);
	}
	if (!f->shapes) {
		f->shapes = arena_alloc(a, sizeof *f->shapes);
		f->shapes->arena = f->shapes->types = a;
		memo_keep(f->memo, MEMO_TEMPLATES, key, f->shapes);
	}
	return f->shapes;
}

static const struct fuse_template *
keep(struct fuse *f, const struct fuse_key *key, const struct kernel_list *made,
     struct arena *a)
{
	struct fuse_template **all = memo_find(f->memo, MEMO_TEMPLATES,
					       key->hash), *x;
	struct fuse_names names = open_names(f, key, made->region);

	if (!all) {
		all = arena_alloc(a, sizeof *all);
		memo_keep(f->memo, MEMO_TEMPLATES, key->hash, all);
	}
	x = fuse_pack(f, made, names, kept_shapes(f, a), a);
	close_names(f, key);
	x->older = *all;
	return *all = x;
}

/* One that cannot be kept has the region's own names. */
static const struct fuse_template *
lend(struct fuse *f, const struct kernel_list *made)
{
	struct fuse_shapes *shapes = arena_alloc(&f->tmp, sizeof *shapes);

	shapes->arena = &f->tmp;
	shapes->types = f->a;
	return fuse_pack(f, made, (struct fuse_names){ NULL, NULL }, shapes,
			 &f->tmp);
}

void
fuse_keep_template(struct fuse *f, const struct fuse_key *key,
		   const struct kernel_list *made, struct fuse_known *to)
{
	struct arena *a = key ? memo_arena(f->memo, MEMO_TEMPLATES) : NULL;

	to->names = a ? names_of(f, key, made->region)
		      : (struct fuse_names){ NULL, NULL };
	to->x = a ? keep(f, key, made, a) : lend(f, made);
	if (!suits(f, to)) {
		die("a region does not answer as it just did");
	}
}

/*
 * Copies of kernel lists under other names: a template has places in a region
 * for nodes and numbers of its key for values; a region has its own ids.
 */
#include "passes/kernels/fuse.h"

/* The next free element of a list's arrays of ids and uses. */
struct list_arrays {
	node_id *ids;
	struct kernel_use *uses;
};

static void
copy_uses(struct list_arrays *arrays, const struct kernel_use *from, uint32_t n,
	  const uint32_t *names, struct kernel_use **to)
{
	uint32_t i;

	*to = arrays->uses;
	for (i = 0; i < n; i++) {
		arrays->uses[i].value = names[from[i].value];
		arrays->uses[i].bytes = from[i].bytes;
	}
	arrays->uses += n;
}

static void
copy_kernel(struct list_arrays *arrays, const struct kernel *k,
	    struct fuse_names names, struct kernel *out)
{
	uint32_t i;

	*out = *k;
	out->body = NULL;
	out->nodes.at = arrays->ids;
	out->nodes.cap = k->nodes.n;
	for (i = 0; i < k->nodes.n; i++) {
		out->nodes.at[i] = names.nodes[k->nodes.at[i]];
	}
	arrays->ids += k->nodes.n;
	copy_uses(arrays, k->inputs.at, k->inputs.n, names.values,
		  &out->inputs.at);
	out->inputs.cap = k->inputs.n;
	copy_uses(arrays, k->outputs.at, k->outputs.n, names.values,
		  &out->outputs.at);
	out->outputs.cap = k->outputs.n;
}

static void
count_elems(const struct kernel_list *l, uint32_t *nids, uint32_t *nuses)
{
	uint32_t i;

	*nids = l->free.n;
	*nuses = 0;
	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		*nids += k->nodes.n;
		*nuses += k->inputs.n + k->outputs.n;
	}
}

void
fuse_copy_list(struct arena *a, const struct kernel_list *from,
	       struct fuse_names names, struct kernel_list *to)
{
	uint32_t nids, nuses, i;
	struct list_arrays arrays;

	count_elems(from, &nids, &nuses);
	arrays.ids = arena_alloc_raw(a, nids * sizeof *arrays.ids);
	arrays.uses = arena_alloc_raw(a, nuses * sizeof *arrays.uses);
	to->at.n = to->at.cap = from->at.n;
	to->at.at = arena_alloc_raw(a, from->at.n * sizeof *to->at.at);
	for (i = 0; i < from->at.n; i++) {
		copy_kernel(&arrays, &from->at.at[i], names, &to->at.at[i]);
	}
	to->free.n = to->free.cap = from->free.n;
	to->free.at = arrays.ids;
	for (i = 0; i < from->free.n; i++) {
		to->free.at[i] = names.nodes[from->free.at[i]];
	}
}

/* ---- the names of a region ---- */

struct fuse_names
fuse_names(const struct fuse *f, const struct fuse_key *key, region_id r)
{
	return (struct fuse_names){ f->m->regions.at[r].nodes.at,
				    key->values.at };
}

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

void
fuse_open_names(struct fuse *f, const struct fuse_key *key, region_id r)
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
}

void
fuse_close_names(struct fuse *f, const struct fuse_key *key)
{
	uint32_t i;

	for (i = 0; i < key->values.n; i++) {
		f->number[key->values.at[i]] = 0;
	}
}

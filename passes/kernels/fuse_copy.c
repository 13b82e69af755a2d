/*
 * The same kernels by other names: places in a region for its nodes, numbers
 * of its key for values, and back.
 */
#include "passes/kernels/fuse.h"

/* What is left of the room for ids and uses of a list. */
struct room {
	node_id *ids;
	struct kernel_use *uses;
};

static void
copy_uses(struct room *room, const struct kernel_use *from, uint32_t n,
	  const uint32_t *names, struct kernel_use **to)
{
	uint32_t i;

	*to = room->uses;
	for (i = 0; i < n; i++) {
		room->uses[i].value = names[from[i].value];
		room->uses[i].bytes = from[i].bytes;
	}
	room->uses += n;
}

static void
copy_kernel(struct room *room, const struct kernel *k,
	    struct fuse_names names, struct kernel *out)
{
	uint32_t i;

	*out = *k;
	out->body = NULL;
	out->nodes.at = room->ids;
	out->nodes.cap = k->nodes.n;
	for (i = 0; i < k->nodes.n; i++) {
		out->nodes.at[i] = names.nodes[k->nodes.at[i]];
	}
	room->ids += k->nodes.n;
	copy_uses(room, k->inputs.at, k->inputs.n, names.values,
		  &out->inputs.at);
	out->inputs.cap = k->inputs.n;
	copy_uses(room, k->outputs.at, k->outputs.n, names.values,
		  &out->outputs.at);
	out->outputs.cap = k->outputs.n;
}

static void
count(const struct kernel_list *l, uint32_t *nids, uint32_t *nuses)
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
	struct room room;

	count(from, &nids, &nuses);
	room.ids = arena_alloc_raw(a, nids * sizeof *room.ids);
	room.uses = arena_alloc_raw(a, nuses * sizeof *room.uses);
	to->at.n = to->at.cap = from->at.n;
	to->at.at = arena_alloc_raw(a, from->at.n * sizeof *to->at.at);
	for (i = 0; i < from->at.n; i++) {
		copy_kernel(&room, &from->at.at[i], names, &to->at.at[i]);
	}
	to->free.n = to->free.cap = from->free.n;
	to->free.at = room.ids;
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

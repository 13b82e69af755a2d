/*
 * Kernels that were found before.  Modules of one run are made of the same
 * layers, cut alike: stages of a program, the plans that a search looks at,
 * and what each pass behind it asks for once more.  So a region's kernels are
 * kept by its key, with places in the region for nodes and numbers of the key
 * for values, and put into the region at hand from there.
 */
#include "passes/fuse.h"

struct known {
	struct hash hash, sizes;
	uint32_t nids, nuses;	/* of all its kernels together */
	VEC(struct kernel) at;
	VEC(uint32_t) free;
};

struct kernels_memo {
	struct arena *arena;
	VEC(struct known) known;	/* the first is none */
	struct table table;
	size_t room_bytes;	/* so much more may be kept */
	struct fuse_groups *groups;
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
	m->groups = fuse_groups_new(a);
}

struct fuse_groups *
fuse_groups_of(struct kernels_memo *memo)
{
	return memo->groups;
}

bool
fuse_has_room(struct kernels_memo *memo, size_t bytes)
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

/* ---- from one region to another ---- */

/* Room for the ids and uses of a list's kernels. */
struct room {
	node_id *ids;
	struct kernel_use *uses;
};

/* What values are called there: the first of them is the one of `at`. */
struct names {
	const uint32_t *at;
	uint32_t first;
};

static void
copy_uses(struct room *room, const struct kernel_use *from, uint32_t n,
	  struct names map, struct kernel_use **to)
{
	uint32_t i, v;

	*to = room->uses;
	for (i = 0; i < n; i++) {
		v = from[i].value;
		room->uses[i].value = v ? map.at[v - map.first] : 0;
		room->uses[i].bytes = from[i].bytes;
	}
	room->uses += n;
}

/* The same kernel, with other names for its nodes and values. */
static void
copy_kernel(struct room *room, const struct kernel *k, const uint32_t *nodes,
	    struct names values, struct kernel *out)
{
	uint32_t i;

	*out = *k;
	out->body = NULL;
	out->nodes.at = room->ids;
	out->nodes.cap = k->nodes.n;
	for (i = 0; i < k->nodes.n; i++) {
		out->nodes.at[i] = nodes[k->nodes.at[i]];
	}
	room->ids += k->nodes.n;
	copy_uses(room, k->inputs.at, k->inputs.n, values, &out->inputs.at);
	out->inputs.cap = k->inputs.n;
	copy_uses(room, k->outputs.at, k->outputs.n, values,
		  &out->outputs.at);
	out->outputs.cap = k->outputs.n;
}

static void
open_room(struct room *room, struct arena *a, uint32_t nids, uint32_t nuses)
{
	room->ids = arena_room(a, nids * sizeof *room->ids);
	room->uses = arena_room(a, nuses * sizeof *room->uses);
}

/* ---- what is known ---- */

bool
fuse_recall(struct fuse *f, const struct fuse_key *key, struct kernel_list *l)
{
	const struct ir_region *region = &f->m->regions.at[l->region];
	const struct known *x;
	struct names names = { key->values.at, 1 };	/* numbers */
	struct room room;
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
	l->at.n = l->at.cap = x->at.n;
	l->at.at = arena_room(f->a, x->at.n * sizeof *l->at.at);
	open_room(&room, f->a, x->nids, x->nuses);
	for (i = 0; i < x->at.n; i++) {
		copy_kernel(&room, &x->at.at[i], region->nodes.at, names,
			    &l->at.at[i]);
	}
	l->free.n = l->free.cap = x->free.n;
	l->free.at = room.ids;
	for (i = 0; i < x->free.n; i++) {
		l->free.at[i] = region->nodes.at[x->free.at[i]];
	}
	return true;
}

static void
count(const struct kernel_list *l, struct known *x)
{
	uint32_t i;

	x->nids = l->free.n;
	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		x->nids += k->nodes.n;
		x->nuses += k->inputs.n + k->outputs.n;
	}
}

/* How kernels run, for all that will be like them. */
static void
keep_parts(struct arena *a, struct known *x)
{
	uint32_t i;

	for (i = 0; i < x->at.n; i++) {
		struct kernel *k = &x->at.at[i];

		if (k->parts) {
			k->parts = arena_dup(a, k->parts, sizeof *k->parts);
		}
	}
}

/* From the region's own ids to places and numbers. */
static void
take(struct fuse *f, const struct kernel_list *l, struct known *x)
{
	struct names numbers = { f->number, 0 };
	struct arena *a = f->memo->arena;
	struct room room;
	uint32_t i;

	x->at.n = l->at.n;
	x->at.at = arena_room(a, l->at.n * sizeof *x->at.at);
	open_room(&room, a, x->nids, x->nuses);
	for (i = 0; i < l->at.n; i++) {
		copy_kernel(&room, &l->at.at[i], f->at, numbers,
			    &x->at.at[i]);
	}
	keep_parts(a, x);
	x->free.n = l->free.n;
	x->free.at = room.ids;
	for (i = 0; i < l->free.n; i++) {
		x->free.at[i] = f->at[l->free.at[i]];
	}
}

struct arena *
fuse_room(struct fuse *f)
{
	return fuse_has_room(f->memo, f->norder * sizeof(struct kernel_work))
		? f->memo->arena : NULL;
}

void
fuse_remember(struct fuse *f, const struct fuse_key *key,
	      struct kernel_list *l)
{
	const struct ir_region *region = &f->m->regions.at[l->region];
	struct known x = { .hash = key->hash, .sizes = key->sizes };
	struct kernels_memo *memo = f->memo;
	uint32_t i;

	count(l, &x);
	if (!fuse_has_room(f->memo, sizeof x + l->at.n * sizeof *l->at.at +
				    x.nids * sizeof(node_id) +
				    x.nuses * sizeof(struct kernel_use))) {
		return;
	}
	for (i = 0; i < region->nodes.n; i++) {
		f->at[region->nodes.at[i]] = i;
	}
	for (i = 0; i < key->values.n; i++) {
		f->number[key->values.at[i]] = i + 1;
	}
	take(f, l, &x);
	for (i = 0; i < key->values.n; i++) {
		f->number[key->values.at[i]] = 0;
	}
	l->like = table_add(memo->arena, &memo->table, hash_of(key));
	VEC_PUSH(memo->arena, &memo->known, x);
}

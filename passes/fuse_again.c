/*
 * Groups that were made before.  Which nodes go together hardly ever depends
 * on how large they are, so a region that is like another one but for sizes
 * has its groups, if all that was asked of sizes for these (fuse_reaches) has
 * the same answers.
 */
#include "passes/fuse.h"

#include <string.h>

struct grouping {
	struct hash hash;
	uint32_t n;		/* groups, in their order */
	struct fuse_group *groups;
	VEC(struct fuse_question) asked;
	uint32_t *terms;	/* numbers of the key for values */
};

struct fuse_groups {
	struct arena *arena;
	VEC(struct grouping) known;	/* the first is none */
	struct table table;
};

struct fuse_groups *
fuse_groups_new(struct arena *a)
{
	struct fuse_groups *g = arena_alloc(a, sizeof *g);

	g->arena = a;
	VEC_PUSH(a, &g->known, (struct grouping){ 0 });
	return g;
}

/* ---- from what is known ---- */

static bool
same_answers(const struct fuse *f, const struct fuse_key *key,
	     const struct grouping *x)
{
	uint32_t i, k;

	for (i = 0; i < x->asked.n; i++) {
		const struct fuse_question *q = &x->asked.at[i];
		double bytes = 0;

		for (k = 0; k < q->n; k++) {
			bytes += kernel_bytes(f->m, key->values.at[
					x->terms[q->first + k] - 1]);
		}
		if (q->yes != (bytes >= q->times * kernel_bytes(f->m,
				key->values.at[q->than - 1]))) {
			return false;
		}
	}
	return true;
}

/* What needs no kernel is in a group that is none. */
static void
set_groups(struct fuse *f, const struct grouping *x)
{
	uint32_t i, k;

	for (i = 0; i < f->n; i++) {
		f->group_of[i] = x->n;
	}
	f->groups[x->n].dead = true;
	memcpy(f->groups, x->groups, x->n * sizeof *f->groups);
	f->norder = x->n;
	for (i = 0; i < x->n; i++) {
		f->order[i] = i;
		for (k = 0; k < f->groups[i].places.n; k++) {
			f->group_of[f->groups[i].places.at[k]] = i;
		}
	}
}

bool
fuse_group_again(struct fuse *f, const struct fuse_key *key, region_id r)
{
	const struct fuse_groups *g = fuse_groups_of(f->memo);
	uint32_t at = 0;

	while ((at = table_find(&g->table, key->hash.a, at)) != 0) {
		const struct grouping *x = &g->known.at[at];

		if (hash_same(x->hash, key->hash) &&
		    same_answers(f, key, x)) {
			fuse_open_places(f, r);
			set_groups(f, x);
			return true;
		}
	}
	return false;
}

/* ---- to what is known ---- */

static void
copy_group(struct arena *a, const struct fuse_group *g, uint32_t at,
	   struct fuse_group *out)
{
	*out = *g;
	out->at = at;
	out->places.at = arena_dup(a, g->places.at,
				   g->places.n * sizeof *g->places.at);
	out->places.cap = g->places.n;
	out->copies.at = arena_dup(a, g->copies.at,
				   g->copies.n * sizeof *g->copies.at);
	out->copies.cap = g->copies.n;
}

static void
copy_groups(const struct fuse *f, struct arena *a, struct grouping *x)
{
	uint32_t i;

	x->groups = arena_alloc(a, f->norder * sizeof *x->groups);
	for (i = 0; i < f->norder; i++) {
		if (f->order[i] != FUSE_HOLE) {
			copy_group(a, &f->groups[f->order[i]], x->n,
				   &x->groups[x->n]);
			x->n++;
		}
	}
}

static void
copy_questions(const struct fuse *f, struct arena *a, struct grouping *x)
{
	uint32_t i;

	x->terms = arena_alloc(a, f->terms.n * sizeof *x->terms);
	for (i = 0; i < f->terms.n; i++) {
		x->terms[i] = f->number[f->terms.at[i]];
	}
	for (i = 0; i < f->asked.n; i++) {
		struct fuse_question q = f->asked.at[i];

		q.than = f->number[q.than];
		VEC_PUSH(a, &x->asked, q);
	}
}

void
fuse_keep_groups(struct fuse *f, const struct fuse_key *key)
{
	struct fuse_groups *g = fuse_groups_of(f->memo);
	struct grouping x = { .hash = key->hash };
	uint32_t i;

	if (!fuse_has_room(f->memo, sizeof x +
			   f->norder * sizeof *f->groups +
			   f->n * 2 * sizeof *f->group_of)) {
		return;
	}
	copy_groups(f, g->arena, &x);
	for (i = 0; i < key->values.n; i++) {
		f->number[key->values.at[i]] = i + 1;
	}
	copy_questions(f, g->arena, &x);
	for (i = 0; i < key->values.n; i++) {
		f->number[key->values.at[i]] = 0;
	}
	table_add(g->arena, &g->table, key->hash.a);
	VEC_PUSH(g->arena, &g->known, x);
}

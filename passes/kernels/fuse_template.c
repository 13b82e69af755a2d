/*
 * Kernels but for sizes.  Which nodes go together hardly ever depends on how
 * large they are, so a region that is like another one but for sizes has its
 * kernels, if all that was asked of sizes for these (fuse_reaches) has the
 * same answers.  What these take are counts, through which one runs for the
 * sizes at hand.
 */
#include "ir/memo.h"
#include "passes/kernels/fuse.h"

/* ---- from what is known ---- */

static bool
same_answers(const struct fuse *f, const struct fuse_key *key,
	     const struct fuse_template *x)
{
	uint32_t i, k;

	for (i = 0; i < x->nasked; i++) {
		const struct fuse_question *q = &x->asked[i];
		double bytes = 0;

		for (k = 0; k < q->n; k++) {
			bytes += kernel_bytes(f->m, key->values.at[
					x->terms[q->first + k]]);
		}
		if (q->yes != (bytes >= q->times * kernel_bytes(f->m,
				key->values.at[q->than]))) {
			return false;
		}
	}
	return true;
}

const struct fuse_template *
fuse_find_template(struct fuse *f, const struct fuse_key *key)
{
	struct fuse_template *const *all = memo_find(f->memo, MEMO_TEMPLATES,
						     key->hash);
	const struct fuse_template *x = all ? *all : NULL;

	while (x && !same_answers(f, key, x)) {
		x = x->older;
	}
	return x;
}

/* ---- to what is known ---- */

static void
copy_works(struct arena *a, const struct kernel_list *l)
{
	struct fuse_work *w = arena_alloc_raw(a, l->at.n * sizeof *w);
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		struct kernel *k = &l->at.at[i];
		struct kernel_work *to = &w[i].like;

		w[i] = *fuse_work_of(k);
		to->shape = arena_dup(a, to->shape, sizeof *to->shape);
		k->work = to;
		if (to->attention) {
			to->attention = arena_dup(a, to->attention,
						  sizeof *to->attention);
			w[i].attention = arena_dup(a, w[i].attention,
						   sizeof *w[i].attention);
		}
	}
}

static void
copy_questions(const struct fuse *f, struct arena *a, struct fuse_template *x)
{
	struct fuse_question *asked;
	uint32_t *terms, i;

	x->terms = terms = arena_alloc_raw(a, f->terms.n * sizeof *terms);
	for (i = 0; i < f->terms.n; i++) {
		terms[i] = f->number[f->terms.at[i]];
	}
	x->nasked = f->asked.n;
	x->asked = asked = arena_alloc_raw(a, f->asked.n * sizeof *asked);
	for (i = 0; i < f->asked.n; i++) {
		asked[i] = f->asked.at[i];
		asked[i].than = f->number[asked[i].than];
	}
}

const struct fuse_template *
fuse_keep_template(struct fuse *f, const struct fuse_key *key,
		const struct fuse_template *made)
{
	struct fuse_template **all = memo_find(f->memo, MEMO_TEMPLATES,
					       key->hash);
	const struct kernel_list *l = &made->list;
	struct arena *a = memo_arena(f->memo, MEMO_TEMPLATES);
	struct fuse_template *x;

	if (!a) {
		return made;
	}
	if (!all) {
		all = arena_alloc(a, sizeof *all);
		memo_keep(f->memo, MEMO_TEMPLATES, key->hash, all);
	}
	x = arena_dup(a, made, sizeof *x);
	x->older = *all;
	*all = x;
	fuse_open_names(f, key, l->region);
	fuse_copy_list(a, l, (struct fuse_names){ f->at, f->number }, &x->list);
	copy_works(a, &x->list);
	copy_questions(f, a, x);
	fuse_close_names(f, key);
	x->uses = arena_dup(a, made->uses, made->nuses * sizeof *x->uses);
	x->counts = arena_dup(a, made->counts,
			      made->ncounts * sizeof *x->counts);
	return x;
}

/* ---- the kernels of a region ---- */

static const struct kernel_attention *
attention_of(struct fuse *f, const struct kernel_attention *like,
	     const struct fuse_attention *c, const double *v)
{
	struct kernel_attention *t = arena_dup(f->a, like, sizeof *t);

	t->batch = v[c->batch];
	t->heads = v[c->heads];
	t->kv = v[c->kv];
	t->s = v[c->s];
	t->t = v[c->t];
	t->d = v[c->d];
	t->v = v[c->v];
	t->pairs = v[c->pairs];
	return t;
}

static void
work_of(struct fuse *f, const struct fuse_work *c, const double *v,
	struct kernel_work *w)
{
	*w = c->like;
	w->flops = v[c->flops];
	w->read_bytes = v[c->read];
	w->write_bytes = v[c->write];
	w->coll.bytes = v[c->coll];
	w->dot.batch = v[c->dot.batch];
	w->dot.m = v[c->dot.m];
	w->dot.n = v[c->dot.n];
	w->dot.k = v[c->dot.k];
	w->dot.groups = v[c->dot.groups];
	if (c->attention) {
		w->attention = attention_of(f, w->attention, c->attention, v);
	}
}

static const count_id *
set_bytes(struct kernel_use *at, uint32_t n, const count_id *bytes,
	  const double *v)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		at[i].bytes = v[bytes[i]];
	}
	return bytes + n;
}

void
fuse_fill(struct fuse *f, const struct fuse_template *x, struct kernel_list *l)
{
	struct kernel_work *w = arena_alloc_raw(f->a, l->at.n * sizeof *w);
	const count_id *bytes;
	double *v;
	uint32_t i;

	while (f->values.n < x->ncounts) {
		VEC_PUSH(&f->bench, &f->values, 0);
	}
	v = f->values.at;
	ir_counts_run(f->m, x->counts, x->ncounts, v);
	for (i = 0; i < l->at.n; i++) {
		/* both may be the same kernel */
		const struct fuse_work *c = fuse_work_of(&x->list.at.at[i]);
		struct kernel *k = &l->at.at[i];

		work_of(f, c, v, &w[i]);
		k->work = &w[i];
		bytes = set_bytes(k->inputs.at, k->inputs.n, x->uses + c->uses,
				  v);
		set_bytes(k->outputs.at, k->outputs.n, bytes, v);
	}
}

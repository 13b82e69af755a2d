/*
 * Several contractions as one by wgmma or tcgen05: those whose results are
 * added up; and pairs, which cuda_dot90_pair.c is about.
 *
 * Those that are added up have the same rows and columns, and each has
 * positions of its own to sum over.  So k of the whole is theirs, one after the
 * other: first all stages of the first one, then of the next.  Only the thread
 * that copies knows of which one a stage is, and loads it by the maps of that
 * one's operands.  Who multiplies adds up one stage after another, in f32, and
 * what becomes of the sums is that of the last one.  No sum of some of them is
 * rounded or stored, and which stages are in which part, where k is split,
 * follows from their number: so sums have one order, and are the same bits in
 * every run.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

/* ---- stages ---- */

/* The first term that has positions to sum over of its own: one of a pair has
 * those of the other. */
static uint32_t
first_term(const struct dot90 *p)
{
	return p->paired ? 1 : 0;
}

int64_t
dot90_all_stages(const struct dot90 *p)
{
	int64_t n = p->nterms ? 0 : dot90_stages(p->d);
	uint32_t i;

	for (i = first_term(p); i < p->nterms; i++) {
		n += dot90_stages(p->term[i].d);
	}
	return n;
}

bool
dot90_is_dense(const struct dot90 *p)
{
	int64_t k = p->nterms ? 0 : p->d->over.size;
	uint32_t i;

	for (i = first_term(p); i < p->nterms; i++) {
		k += p->term[i].d->over.size;
	}
	return 2 * k >= dot90_all_stages(p) * dot90_k(p->d);
}

static bool
same_side(const struct dot90_side *a, const struct dot90_side *b)
{
	return a->by_k == b->by_k && a->bytes == b->bytes;
}

bool
dot90_terms_fit(struct dot90 *p, int64_t step)
{
	int64_t width = dot90_width(p);
	uint32_t i;

	for (i = 0; i < p->nterms; i++) {
		struct dot90_term *t = &p->term[i];

		if (!dot90_side_of(t->d, 0, p->rows, step, false,
				   &t->side[0]) ||
		    !dot90_side_of(t->d, 1, width, width, p->cluster > 1,
				   &t->side[1]) ||
		    !same_side(&t->side[0], &p->side[0]) ||
		    !same_side(&t->side[1], &p->side[1])) {
			return false;
		}
	}
	p->side[1].bytes *= dot90_each(p);
	return true;
}

void
dot90_terms_maps(struct cu_func *f, struct dot90 *p)
{
	uint32_t i, which;

	for (i = 0; i < p->nterms; i++) {
		for (which = 0; which < 2; which++) {
			struct dot90_side *s = &p->term[i].side[which];

			if (p->paired && i > 0 && which == 0) {
				s->at = p->term[0].side[0].at;
				continue;
			}
			s->at = f->grid->maps.n;
			VEC_PUSH(f->k->c->a, &f->grid->maps, s->map);
		}
	}
}

static void
put_loads(struct cu_func *f, const struct cu_dot *d,
	  const struct dot90_side *side, const char *m, const char *n,
	  const char *half)
{
	const char *right = arena_printf(f->k->c->a, "to + %lld",
					 (long long)side[0].bytes);

	dot90_load_stage(f, d, &side[0], m, "batch", "to", NULL);
	dot90_load_stage(f, d, &side[1], n, "batch", right, half);
}

/* The left operand, and beside it columns of one right operand after those of
 * the other. */
static void
put_pair(struct cu_func *f, const struct dot90 *p, const char *m,
	 const char *n, const char *half)
{
	long long at = (long long)p->side[0].bytes;
	uint32_t i;

	dot90_load_stage(f, p->d, &p->term[0].side[0], m, "batch", "to", NULL);
	for (i = 0; i < p->nterms; i++) {
		const struct dot90_term *t = &p->term[i];

		dot90_load_stage(f, t->d, &t->side[1], n, "batch",
				 arena_printf(f->k->c->a, "to + %lld", at),
				 half);
		at += (long long)t->side[1].bytes;
	}
}

void
dot90_terms_load(struct cu_func *f, const struct dot90 *p, const char *m,
		 const char *n, const char *half)
{
	int64_t first = 0;
	uint32_t i;

	if (!p->nterms) {
		put_loads(f, p->d, p->side, m, n, half);
		return;
	}
	if (p->paired) {
		put_pair(f, p, m, n, half);
		return;
	}
	for (i = 0; i < p->nterms; i++) {
		const struct dot90_term *t = &p->term[i];
		int64_t end = first + dot90_stages(t->d);

		if (i + 1 == p->nterms) {
			cu_line(f, "} else {");
		} else {
			cu_line(f, "%sif (k < %lld) {", i ? "} else " : "",
				(long long)end);
		}
		if (i > 0) {
			cu_line(f, "k -= %lld;", (long long)first);
		}
		put_loads(f, t->d, t->side, m, n, half);
		first = end;
	}
	cu_line(f, "}");
}

/*
 * Candidate tiles of contractions and of steps of attention.  Whoever chooses
 * a tile adds all that are legal; the choice is the one of least cycles,
 * unless the plan names another or the tile is known to spill.
 */
#include "codegen/cuda/dot/cuda_dot.h"

#include <string.h>

#define MOST_OPS 12		/* most ops of epilogues in a name */
#define MOST_SHOWN 4		/* most tiles in a message */
#define MOST_NAMES 8		/* most names of kernels in a message */
#define MOST_OF_SIZE 2
/* most tiles of one contraction that are replaced because they spill */
#define MOST_SPILLS 8

#define LEAST_STAGES 3
#define FEWER 0.03	/* part of the time that each stage less costs */

static const struct span nowhere;

/* ---- names ---- */

/* Along which factor an operand is dense: instructions depend on it. */
static char
order_of(const struct cu_dot *d, int which)
{
	return cu_factor_dense(&d->over, which) ? 'k'
		: cu_factor_dense(which ? &d->n : &d->m, which)
		? (which ? 'n' : 'm') : '-';
}

static void
put_ops(const struct cu_dot *d, uint32_t most, struct buf *b)
{
	const struct ir_module *m = d->k->c->m;
	uint32_t i, n = 0;

	for (i = 0; i < d->x->nodes.n; i++) {
		const struct ir_node *x = ir_node(m, d->x->nodes.at[i]);

		if (x->result == d->value || ir_is(x->op, IRF_CONTRACTS)) {
			continue;
		}
		if (n < most) {
			buf_printf(b, "%c%s", n ? '+' : ' ',
				   ir_ops[x->op].name);
		}
		n++;
	}
	if (n > most) {
		buf_printf(b, "+%u", n - most);
	}
}

/*
 * "bf16 1x512x256x128 kn bf16 silu+mul": types; batch, m, n and k; along what
 * operands are dense; the result's type, and the epilogue. "dot_at bf16 .."
 * with experts.
 */
static void
put_name(const struct cu_dot *d, uint32_t ops, struct buf *b)
{
	const char *type = ir_dtypes[d->view[0].dtype].name;

	if (d->node->op != IR_DOT) {
		buf_printf(b, "%s ", ir_ops[d->node->op].name);
	}
	buf_puts(b, type);
	if (d->view[1].dtype != d->view[0].dtype) {
		buf_printf(b, "*%s", ir_dtypes[d->view[1].dtype].name);
	}
	buf_printf(b, " %lldx%lldx%lldx%lld %c%c%s %s",
		   (long long)d->batch.size, (long long)d->m.size,
		   (long long)d->n.size, (long long)d->over.size,
		   order_of(d, 0), order_of(d, 1),
		   d->result == CU_DOT_STORE ? " to"
		   : d->result == CU_DOT_ADD ? " on" : "",
		   ir_dtypes[d->dtype].name);
	if (d->result == CU_DOT_BOX) {
		put_ops(d, ops, b);
	}
}

/* Of several of one launch: "NAME with NAME"; or "plus", or "beside". */
static const char *
name_of(const struct cu_dot *d, uint32_t n, const char *joined)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, d->k->c->a);
	for (i = 0; i < n; i++) {
		buf_puts(&b, i ? joined : "");
		put_name(&d[i], MOST_OPS / n, &b);
	}
	return buf_text(&b);
}

/* ---- rows of a plan ---- */

struct cu_tiling *
cu_tiling_open(struct arena *a, struct cg_tiling *in)
{
	struct cu_tiling *t;
	const char *why;
	uint32_t i;

	if (!in) {
		return NULL;
	}
	t = arena_alloc(a, sizeof *t);
	t->in = in;
	for (i = 0; i < in->nrows; i++) {
		struct cu_tile_row r = { .text = in->rows[i] };

		if (!plan_tile_read(a, r.text, &r.what, &r.tile, &why)) {
			die("a plan was read with `%s`: %s", r.text, why);
		}
		VEC_PUSH(a, &t->rows, r);
	}
	return t;
}

/* All rows of a plan have one span: finds the row's own text in it. */
static struct span
span_of(const struct cu_tiling *t, struct ir_module *m, const char *text)
{
	struct span at = t->in->rows_at;
	struct source_pos pos;
	const char *p;

	if (!at.hi || !source_locate(&m->ctx->sources, at.lo, &pos)) {
		return nowhere;
	}
	p = strstr(pos.file->text + (at.lo - pos.file->base), text);
	if (p && (uint32_t)(p - pos.file->text) < at.hi - pos.file->base) {
		at.lo = pos.file->base + (uint32_t)(p - pos.file->text);
		at.hi = at.lo + (uint32_t)strlen(text);
	}
	return at;
}

/* The kernel whose name begins most like that one's, by a word at the least; or
 * NULL. */
static const char *
nearest_kernel(const struct cu_tiling *t, const char *name)
{
	const char *nearest = NULL;
	size_t most = strcspn(name, " "), n;
	uint32_t i;

	for (i = 0; i < t->seen.n; i++) {
		const char *x = t->seen.at[i];

		for (n = 0; name[n] && name[n] == x[n]; n++) {
		}
		if (n > most) {
			most = n;
			nearest = x;
		}
	}
	return nearest;
}

static void
refuse_row(const struct cu_tiling *t, struct ir_module *m,
	   const struct cu_tile_row *r)
{
	const char *near = nearest_kernel(t, r->what);
	struct buf all;
	uint32_t i;

	buf_init(&all, &m->ctx->tmp);
	for (i = 0; i < t->seen.n && i < MOST_NAMES; i++) {
		buf_printf(&all, "%s`%s`", i ? ", " : "", t->seen.at[i]);
	}
	if (i < t->seen.n) {
		buf_printf(&all, " and %u more", t->seen.n - i);
	}
	diag_error(&m->ctx->diags, span_of(t, m, r->text), "no kernel of "
		   "this plan is `%s`%s: there %s%s", r->what, near
		   ? arena_printf(&m->ctx->tmp, " (did you mean `%s`?)", near)
		   : "", t->seen.n ? "are " : "is none", buf_text(&all));
}

bool
cu_tiling_close(const struct cu_tiling *t, struct ir_module *m)
{
	uint32_t errors = m->ctx->diags.errors, i;

	for (i = 0; t && i < t->rows.n; i++) {
		if (!t->rows.at[i].used) {
			refuse_row(t, m, &t->rows.at[i]);
		}
	}
	return m->ctx->diags.errors == errors;
}

/* ---- going through them ---- */

static struct cu_tile_row *
row_of(const struct cu_tiling *t, const char *what)
{
	uint32_t i;

	for (i = 0; i < t->rows.n; i++) {
		if (strcmp(t->rows.at[i].what, what) == 0) {
			return &t->rows.at[i];
		}
	}
	return NULL;
}

bool
cu_tiling_names(const struct cu_tiling *t, const char *what)
{
	return row_of(t, what) != NULL;
}

static void
see(struct arena *a, struct cu_tiling *t, const char *what)
{
	uint32_t i;

	for (i = 0; i < t->seen.n; i++) {
		if (strcmp(t->seen.at[i], what) == 0) {
			return;
		}
	}
	VEC_PUSH(a, &t->seen, what);
}

void
cu_candidates_open(struct cu_kernel *k, const char *what,
		   struct cu_candidates *w)
{
	struct cu_tiling *t = k->c->tiling;
	const struct cu_tile_row *r;

	*w = (struct cu_candidates){ .what = what, .counted = true,
			       .first = k->out->steps.n };
	if (!t) {
		return;
	}
	w->in = t->in;
	r = row_of(t, what);
	w->want = t->force && (!t->force_what ||
			       strcmp(t->force_what, what) == 0)
		? t->force : r ? &r->tile : NULL;
	w->all = w->want || t->in->list;
}

static void
put_factor(const struct cg_factor *f, struct cg_product_factor *to)
{
	uint32_t i;

	to->n = f->n;
	for (i = 0; i < f->n; i++) {
		to->size[i] = f->at[i].size;
		memcpy(to->stride[i], f->at[i].stride, sizeof to->stride[i]);
	}
}

void
cu_candidates_begin(struct cu_dot *d, uint32_t n, const char *joined,
		    struct cu_candidates *w)
{
	uint32_t i;

	cu_candidates_open(d->k, d->k->c->tiling ? name_of(d, n, joined) : NULL,
			   w);
	for (i = 0; i < n; i++) {
		d[i].candidates = w;
	}
}

const struct cu_candidates *
cu_candidates_of(const struct cu_tiling *t, const char *what)
{
	uint32_t i;

	for (i = 0; i < t->last.n; i++) {
		if (strcmp(t->last.at[i].what, what) == 0) {
			return &t->last.at[i];
		}
	}
	return NULL;
}

void
cu_candidates_clear(struct cu_candidates *w)
{
	w->met = w->spills = false;
	w->least = 0;
	w->at.n = 0;
}

static bool
same_size(const struct plan_tile *a, const struct plan_tile *b)
{
	int i;

	for (i = 0; i < PLAN_TILE_NNUMS; i++) {
		if (i != PLAN_TILE_STAGES && i != PLAN_TILE_SPLITS &&
		    a->num[i] != b->num[i]) {
			return false;
		}
	}
	return true;
}

/*
 * Whether the text of two tiles differs only in numbers that registers do not
 * depend on: stages, and split k into more parts.
 */
static bool
alike(const struct plan_tile *a, const struct plan_tile *b)
{
	return same_size(a, b) && (a->num[PLAN_TILE_SPLITS] > 1) ==
				  (b->num[PLAN_TILE_SPLITS] > 1);
}

/* Whether the tile is known to spill.  Once MOST_SPILLS tiles of the
 * contraction do, none counts as spilling, and the first choice stays. */
static bool
spills(const struct cu_candidates *w, const struct plan_tile *tile)
{
	uint32_t i, n = 0;
	bool found = false;

	for (i = 0; w->in && i < w->in->spills.n; i++) {
		const struct cg_spill *s = &w->in->spills.at[i];

		if (strcmp(s->what, w->what) == 0) {
			found |= alike(&s->tile, tile);
			n++;
		}
	}
	return found && n < MOST_SPILLS;
}

bool
cu_candidates_add(struct arena *a, struct cu_candidates *w,
		  const struct plan_tile *tile, bool fewer, double cycles)
{
	struct cu_candidate way = { *tile, cycles, fewer };
	bool wanted = w->want && memcmp(w->want, tile, sizeof *tile) == 0;
	bool bad = spills(w, tile);

	if (w->all) {
		VEC_PUSH(a, &w->at, way);
	}
	if (!wanted && (w->met || (w->least > 0 && (bad == w->spills
	    ? cycles >= w->least : bad)))) {
		return false;
	}
	w->met |= wanted;
	w->spills = bad;
	w->least = cycles;
	w->chosen = *tile;
	return true;
}

int64_t
cu_candidates_add_stages(struct arena *a, struct cu_candidates *w,
			 const struct plan_tile *tile, int64_t most,
			 double cycles)
{
	struct plan_tile t = *tile;
	int64_t stages = most, chosen = 0;

	do {
		t.num[PLAN_TILE_STAGES] = stages;
		if (cu_candidates_add(a, w, &t, stages < most, cycles *
				      (1 + FEWER * (double)(most - stages)))) {
			chosen = stages;
		}
	} while (w->all && --stages >= LEAST_STAGES);
	return chosen;
}

static bool
is_chosen(const struct cu_candidates *w, const struct cu_candidate *x)
{
	return memcmp(&x->tile, &w->chosen, sizeof w->chosen) == 0;
}

/* Whether a candidate may be taken after the first n: it is not one of them,
 * and not too many have its size. */
static bool
may_follow(const struct cu_candidates *w, const struct cu_candidate *x,
	   const struct cu_candidate *taken, uint32_t n)
{
	uint32_t alike = 0, i;

	for (i = 0; i < n; i++) {
		if (memcmp(&taken[i].tile, &x->tile, sizeof x->tile) == 0) {
			return false;
		}
		alike += same_size(&taken[i].tile, &x->tile);
	}
	return alike < MOST_OF_SIZE && (n > 0 || is_chosen(w, x)) &&
	       (!x->fewer || same_size(&w->chosen, &x->tile));
}

uint32_t
cu_candidates_best(const struct cu_candidates *w, uint32_t most,
		   struct cu_candidate *out)
{
	const struct cu_candidate *best;
	uint32_t n, i;

	for (n = 0; n < most; n++) {
		best = NULL;
		for (i = 0; i < w->at.n; i++) {
			const struct cu_candidate *x = &w->at.at[i];

			if (may_follow(w, x, out, n) &&
			    (!best || x->cycles < best->cycles)) {
				best = x;
			}
		}
		if (!best) {
			break;
		}
		out[n] = *best;
	}
	return n;
}

/* ---- what came of it ---- */

static void
refuse_tile(const struct cg_cuda *c, const struct cu_candidates *w,
	    const struct cu_tile_row *r)
{
	struct ir_module *m = c->m;
	struct arena *a = &m->ctx->tmp;
	struct cu_candidate best[MOST_SHOWN];
	struct buf legal;
	uint32_t n, i;

	buf_init(&legal, a);
	n = cu_candidates_best(w, MOST_SHOWN, best);
	for (i = 0; i < n; i++) {
		buf_printf(&legal, "%s`%s`", i ? ", " : "",
			   plan_tile_text(a, &best[i].tile));
	}
	if (n < w->at.n) {
		buf_printf(&legal, " and %u more", w->at.n - n);
	}
	diag_error(&m->ctx->diags, span_of(c->tiling, m, r->text),
		   "`%s` has no tile `%s` on %s: legal are %s", r->what,
		   plan_tile_text(a, &r->tile), c->arch->name,
		   buf_text(&legal));
}

void
cu_candidates_close(struct cu_kernel *k, struct cu_candidates *w)
{
	struct cg_cuda *c = k->c;
	struct cu_tiling *t = c->tiling;
	struct cu_tile_row *r;

	if (!t) {
		return;
	}
	w->end = k->out->steps.n;
	VEC_PUSH(c->a, &t->last, *w);
	if (t->force) {
		return;
	}
	see(c->a, t, w->what);
	r = row_of(t, w->what);
	if (r) {
		r->used = true;
		if (!w->met && !r->refused) {
			r->refused = true;
			refuse_tile(c, w, r);
		}
	}
}

/* The operand that a kernel of a contraction and an `accumulate` adds to. */
static bool
find_sum(const struct cu_dot *d, uint32_t *operand)
{
	node_id head = d->k->c->m->values.at[d->value].node, sink = 0;
	const struct cg_kernel *k = d->k->out;
	uint32_t i;

	if (cg_dot_summed(d->k->c->m, d->x, head, &sink) != d->value) {
		return false;
	}
	for (i = 0; i < k->operands.n; i++) {
		if (!k->operands.at[i].value &&
		    k->operands.at[i].sink == sink) {
			*operand = i;
			return true;
		}
	}
	return false;
}

/* Views that depend on a rank's shards are left out, and so are experts and
 * weights in groups. */
static void
find_product(const struct cu_dot *d, struct cg_product *p)
{
	int i;

	p->operand[2] = d->target;
	p->adds = d->result == CU_DOT_ADD;
	if (d->result == CU_DOT_BOX) {
		p->adds = find_sum(d, &p->operand[2]);
	}
	if (d->node->op != IR_DOT || d->row || d->view[0].nmoved ||
	    d->view[1].nmoved || (d->result == CU_DOT_BOX && !p->adds)) {
		return;
	}
	p->known = true;
	for (i = 0; i < 2; i++) {
		p->operand[i] = d->view[i].operand;
		p->offset[i] = d->view[i].offset;
	}
	put_factor(&d->batch, &p->factor[0]);
	put_factor(&d->m, &p->factor[1]);
	put_factor(&d->n, &p->factor[2]);
	put_factor(&d->over, &p->factor[3]);
}

void
cu_candidates_end(struct cu_dot *d)
{
	find_product(d, &d->candidates->product);
	cu_candidates_close(d->k, d->candidates);
}

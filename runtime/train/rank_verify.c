/*
 * The command `verify`: is the state of the ranks after the first step correct?
 *
 * The step runs twice from the same start, and all bits must be equal.  Ranks
 * that hold the same elements of a weight or of an optimizer state must have
 * the same bits.  The loss must be finite.  Then rank_verify_whole.c compares
 * with the unsplit program.
 */
#include "runtime/train/rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Checksums of each hold of each rank: [rank][hold]. */
struct hold_sums {
	uint64_t *at;
	int64_t nholds;		/* of the program with most holds */
};

struct verify {
	struct rt_run *r;
	const struct rt_options *o;
	struct hold_sums once, again;
	int64_t *hold_of;	/* [program][tensor], or -1 */
	int64_t compared;
};

/* ---- sums ---- */

static int64_t
bytes_of(const struct rt_run *r, const struct rt_hold *h)
{
	int64_t n = rt_elem_bytes((enum rt_elem)h->tensor->elem), i;

	for (i = 0; i < h->tensor->ndims; i++) {
		n *= rt_pieces_of(r->plan, h->dims[i], r->rank, 0)->total;
	}
	return n;
}

/* Any single bit that differs, or words that are exchanged, change it. */
static uint64_t
sum_more(uint64_t sum, const char *at, int64_t bytes)
{
	uint64_t word;

	for (; bytes > 0; at += 8, bytes -= 8) {
		word = 0;
		memcpy(&word, at, (size_t)(bytes < 8 ? bytes : 8));
		sum = (sum ^ word) * 0xd6e8feb86659fd93u;
		sum ^= sum >> 32;
	}
	return sum;
}

static enum rt_status
sum_of(struct rt_window *w, int64_t offset, int64_t bytes, uint64_t *sum,
       struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t n;
	char *at;

	*sum = 0x9e3779b97f4a7c15u;
	for (; bytes > 0 && status == RT_OK; offset += n, bytes -= n) {
		n = rt_window_most(w);
		n = bytes < n ? bytes : n;
		status = rt_window_read(w, offset, n, n, &at, err);
		if (status == RT_OK) {
			*sum = sum_more(*sum, at, n);
		}
	}
	return status;
}

static enum rt_status
own_sums(const struct rt_run *r, uint64_t *own, struct rt_error *err)
{
	struct rt_window w;
	enum rt_status status = rt_window_open(&w, r->device, r->env.arena,
					       err);
	int64_t i;

	for (i = 0; i < r->program->nholds && status == RT_OK; i++) {
		const struct rt_hold *h = &r->program->holds[i];

		status = sum_of(&w, h->offset, bytes_of(r, h), &own[i], err);
	}
	return rt_window_close(&w, status, err);
}

static enum rt_status
take_sums(const struct rt_run *r, struct hold_sums *s, struct rt_error *err)
{
	const struct rt_plan *p = r->plan;
	enum rt_status status;
	uint64_t *own;
	int64_t i;

	for (i = 0; i < p->nprograms; i++) {
		if (p->programs[i].nholds > s->nholds) {
			s->nholds = p->programs[i].nholds;
		}
	}
	s->at = calloc((size_t)(p->nranks * s->nholds + 1), sizeof *s->at);
	if (!s->at) {
		return rt_no_memory(err, NULL);
	}
	own = s->at + r->rank * s->nholds;
	status = own_sums(r, own, err);
	return status != RT_OK ? status :
		rt_comm_sum_u64(r->comm, s->at, p->nranks * s->nholds, err);
}

static enum rt_status
first_step(struct verify *v, struct rt_outcome *c, struct hold_sums *s,
	   struct rt_error *err)
{
	struct rt_progress p;
	enum rt_status status = rt_load_initial(v->r, v->o, &p, err);

	if (status == RT_OK) {
		status = rt_run_step(v->r, 1, NULL, true, false, c, err);
	}
	return status == RT_OK ? take_sums(v->r, s, err) : status;
}

/* ---- comparing ---- */

static const struct rt_program *
program_of(const struct rt_plan *p, int64_t rank)
{
	return &p->programs[p->program_of[rank]];
}

static enum rt_status
compare_runs(const struct verify *v, struct rt_error *err)
{
	const struct rt_plan *p = v->r->plan;
	int64_t rank, i, at;
	char who[96];

	for (rank = 0; rank < p->nranks; rank++) {
		for (i = 0; i < program_of(p, rank)->nholds; i++) {
			at = rank * v->once.nholds + i;
			if (v->once.at[at] == v->again.at[at]) {
				continue;
			}
			rt_mesh_text(p, rank, who, sizeof who);
			return rt_fail(err, RT_FORMAT, (struct rt_where){ NULL,
				program_of(p, rank)->holds[i].tensor->name,
				-1 }, "%s has other bits of it when the first "
				"step is run again", who);
		}
	}
	return RT_OK;
}

static bool
same_pieces(const struct rt_pieces *a, const struct rt_pieces *b)
{
	return a->n == b->n &&
	       memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at) == 0;
}

static bool
same_place(const struct rt_plan *p, const struct rt_hold *a, int64_t rank_a,
	   const struct rt_hold *b, int64_t rank_b)
{
	int64_t i;

	for (i = 0; i < a->tensor->ndims; i++) {
		if (!same_pieces(rt_pieces_of(p, a->dims[i], rank_a, 0),
				 rt_pieces_of(p, b->dims[i], rank_b, 0))) {
			return false;
		}
	}
	return true;
}

/* Compares a hold with that of the lowest rank that has the same elements. */
static enum rt_status
compare_hold(struct verify *v, int64_t rank, int64_t hold,
	     struct rt_error *err)
{
	const struct rt_plan *p = v->r->plan;
	const struct rt_hold *h = &program_of(p, rank)->holds[hold], *o;
	const uint64_t *sums = v->once.at;
	char who[96], other[96];
	int64_t i, at;

	for (i = 0; i < rank; i++) {
		at = v->hold_of[p->program_of[i] * p->ntensors +
				(h->tensor - p->tensors)];
		if (at < 0) {
			continue;
		}
		o = &program_of(p, i)->holds[at];
		if (!same_place(p, h, rank, o, i)) {
			continue;
		}
		v->compared++;
		if (sums[rank * v->once.nholds + hold] ==
		    sums[i * v->once.nholds + at]) {
			return RT_OK;
		}
		rt_mesh_text(p, rank, who, sizeof who);
		rt_mesh_text(p, i, other, sizeof other);
		return rt_fail(err, RT_FORMAT, (struct rt_where){ NULL,
			h->tensor->name, -1 }, "%s and %s have other bits of "
			"it after the first step", other, who);
	}
	return RT_OK;
}

static enum rt_status
compare_ranks(struct verify *v, struct rt_error *err)
{
	const struct rt_plan *p = v->r->plan;
	int64_t n = p->nprograms * p->ntensors, i, j;
	enum rt_status status = RT_OK;

	v->hold_of = calloc((size_t)n + 1, sizeof *v->hold_of);
	if (!v->hold_of) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < n; i++) {
		v->hold_of[i] = -1;
	}
	for (i = 0; i < p->nprograms; i++) {
		for (j = 0; j < p->programs[i].nholds; j++) {
			v->hold_of[i * p->ntensors +
				   (p->programs[i].holds[j].tensor -
				    p->tensors)] = j;
		}
	}
	for (i = 0; i < p->nranks && status == RT_OK; i++) {
		for (j = 0; j < program_of(p, i)->nholds && status == RT_OK;
		     j++) {
			status = compare_hold(v, i, j, err);
		}
	}
	return status;
}

static enum rt_status
compare_numbers(const struct rt_outcome *a, const struct rt_outcome *b,
		struct rt_error *err)
{
	int64_t i;

	for (i = 0; i < a->n; i++) {
		if (!isfinite(a->at[i])) {
			return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the loss "
				"of the first step is %g", a->at[i]);
		}
	}
	if (memcmp(a->at, b->at, sizeof a->at) != 0 ||
	    memcmp(a->watch, b->watch, sizeof a->watch) != 0) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the loss of the "
			"first step is %.17g, and %.17g when it is run again",
			a->at[0], b->at[0]);
	}
	return RT_OK;
}

static void
show(const struct verify *v, const struct rt_outcome *c, FILE *out)
{
	const struct rt_plan *p = v->r->plan;
	int64_t holds = 0, i;

	for (i = 0; i < p->nranks; i++) {
		holds += program_of(p, i)->nholds;
	}
	if (c->n > 0) {
		fprintf(out, "loss       %.17g\n", c->at[0]);
	}
	if (c->nwatch > 0) {
		fprintf(out, "norm       %.17g\n", c->watch[0]);
	}
	fprintf(out, "run twice  %lld tensors on %lld rank%s have the same "
		"bits\n", (long long)holds, (long long)p->nranks,
		p->nranks == 1 ? "" : "s");
	fprintf(out, "replicas   %lld that another rank has too have the same "
		"bits\n", (long long)v->compared);
}

enum rt_status
rt_verify(struct rt_run *r, const struct rt_options *o, FILE *out,
	  struct rt_error *err)
{
	struct verify v = { .r = r, .o = o };
	struct rt_outcome a, b;
	enum rt_status status = first_step(&v, &a, &v.once, err);

	if (status == RT_OK) {
		status = first_step(&v, &b, &v.again, err);
	}
	if (status == RT_OK) {
		status = compare_numbers(&a, &b, err);
	}
	if (status == RT_OK) {
		status = compare_runs(&v, err);
	}
	if (status == RT_OK) {
		status = compare_ranks(&v, err);
	}
	if (status == RT_OK && r->rank == 0) {
		show(&v, &a, out);
	}
	if (status == RT_OK) {
		status = rt_verify_whole(r, o, &a, out, err);
	}
	free(v.once.at);
	free(v.again.at);
	free(v.hold_of);
	return status;
}
